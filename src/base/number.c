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
