/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as text, independent of LC_NUMERIC: the one place that may call strtod_l and print
 * floats. The "C" locale object is asked for per thread and never freed by design of POSIX:
 * newlocale with the "C" name returns a static object in glibc and musl, so nothing is allocated.
 */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/str.h"

bool wf_parse_u64(wf_str s, uint64_t *result) {
  uint64_t v = 0;
  if (s.n == 0) return false;
  for (size_t i = 0; i < s.n; i++) {
    if (s.at[i] < '0' || s.at[i] > '9') return false;
    const uint64_t digit = (uint64_t)(s.at[i] - '0');
    if (v > (UINT64_MAX - digit) / 10) return false;
    v = v * 10 + digit;
  }
  *result = v;
  return true;
}

bool wf_parse_i64(wf_str s, int64_t *result) {
  const bool negative = s.n > 0 && s.at[0] == '-';
  if (s.n > 0 && (s.at[0] == '-' || s.at[0] == '+')) s = (wf_str){s.at + 1, s.n - 1};
  uint64_t v;
  if (!wf_parse_u64(s, &v)) return false;
  if (v > (uint64_t)INT64_MAX + (negative ? 1u : 0u)) return false;
  *result = negative ? (v == (uint64_t)INT64_MAX + 1 ? INT64_MIN : -(int64_t)v) : (int64_t)v;
  return true;
}

/* [+-] digits [. digits] [e [+-] digits], with a digit before or after the point. */
static bool is_decimal(wf_str s) {
  size_t at = 0, n_digits = 0;
  if (at < s.n && (s.at[at] == '-' || s.at[at] == '+')) at++;
  for (; at < s.n && s.at[at] >= '0' && s.at[at] <= '9'; at++) n_digits++;
  if (at < s.n && s.at[at] == '.') {
    at++;
    for (; at < s.n && s.at[at] >= '0' && s.at[at] <= '9'; at++) n_digits++;
  }
  if (n_digits == 0) return false;
  if (at < s.n && (s.at[at] == 'e' || s.at[at] == 'E')) {
    at++;
    if (at < s.n && (s.at[at] == '-' || s.at[at] == '+')) at++;
    const size_t first = at;
    while (at < s.n && s.at[at] >= '0' && s.at[at] <= '9') at++;
    if (at == first) return false;
  }
  return at == s.n;
}

bool wf_parse_f64(wf_str s, double *result) {
  char text[512]; /* longer numbers are junk to every format weft reads */
  if (s.n >= sizeof text || !is_decimal(s)) return false;
  memcpy(text, s.at, s.n);
  text[s.n] = '\0';
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!c) return false;
  char *end;
  *result = strtod_l(text, &end, c);
  freelocale(c);
  return *end == '\0';
}

void wf_buf_add_f64(wf_buf *b, double v) {
  if (isnan(v)) {
    wf_buf_puts(b, "nan");
    return;
  }
  if (isinf(v)) {
    wf_buf_puts(b, v < 0 ? "-inf" : "inf");
    return;
  }
  char text[64];
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!c) {
    b->failed = true;
    return;
  }
  const locale_t before = uselocale(c);
  int precision = 0;
  for (; precision < 17; precision++) { /* 17 significant digits always read back */
    snprintf(text, sizeof text, "%.*e", precision, v);
    if (strtod(text, NULL) == v) break;
  }
  uselocale(before);
  freelocale(c);

  /* text is [-]d[.ddd]e[+-]xx; lay the digits out as Python's repr does. */
  char digits[32];
  size_t n_digits = 0;
  const char *p = text;
  if (*p == '-') {
    wf_buf_putc(b, '-');
    p++;
  }
  for (; *p && *p != 'e'; p++) {
    if (*p != '.') digits[n_digits++] = *p;
  }
  int64_t exponent = 0;
  wf_parse_i64(wf_str_of(p + 1), &exponent);
  if (exponent < -4 || exponent >= 16) {
    wf_buf_putc(b, digits[0]);
    if (n_digits > 1) {
      wf_buf_putc(b, '.');
      wf_buf_add(b, digits + 1, n_digits - 1);
    }
    wf_buf_printf(b, "e%c%02d", exponent < 0 ? '-' : '+', abs((int)exponent));
    return;
  }
  if (exponent < 0) {
    wf_buf_puts(b, "0.");
    for (int64_t i = -1; i > exponent; i--) wf_buf_putc(b, '0');
    wf_buf_add(b, digits, n_digits);
    return;
  }
  for (int64_t i = 0; i <= exponent; i++) wf_buf_putc(b, (size_t)i < n_digits ? digits[i] : '0');
  wf_buf_putc(b, '.');
  if (n_digits > (size_t)exponent + 1) {
    wf_buf_add(b, digits + exponent + 1, n_digits - (size_t)exponent - 1);
  } else {
    wf_buf_putc(b, '0');
  }
}

static bool read_digits(wf_str s, size_t at, size_t n, int64_t *value) {
  *value = 0;
  if (s.n < at + n) return false;
  for (size_t i = at; i < at + n; i++) {
    if (s.at[i] < '0' || s.at[i] > '9') return false;
    *value = *value * 10 + (s.at[i] - '0');
  }
  return true;
}

bool wf_parse_time(wf_str s, int64_t *seconds) {
  static const char separators[] = "--T::";
  static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int64_t part[6] = {0};
  size_t at = 0;
  for (int i = 0; i < 6; i++) {
    const size_t digits = i == 0 ? 4 : 2;
    if (!read_digits(s, at, digits, &part[i])) return false;
    at += digits;
    if (i == 5 || (at == s.n && (i == 2 || i == 4))) break;
    if (at >= s.n || !(s.at[at] == separators[i] || (i == 2 && s.at[at] == ' '))) return false;
    at++;
  }
  const int64_t year = part[0], month = part[1], day = part[2];
  const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  if (at != s.n || month < 1 || month > 12 || day < 1 ||
      day > lengths[month - 1] + (month == 2 && is_leap) || part[3] > 23 || part[4] > 59 ||
      part[5] > 59) {
    return false;
  }
  /* years that begin in March end with the leap day, and each month's days follow from its number
   */
  const int64_t y = year - (month <= 2);
  const int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
  const int64_t era = (y < 0 ? y - 399 : y) / 400, year_of_era = y - era * 400;
  const int64_t days =
      era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
  *seconds = days * 86400 + part[3] * 3600 + part[4] * 60 + part[5];
  return true;
}
