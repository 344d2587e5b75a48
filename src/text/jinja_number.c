/* SPDX-License-Identifier: Apache-2.0 */
/* Doubles in fixed and scientific form, rounded from their exact decimal value (half to even, as
 * CPython does), and numbers read from strings as Python's int() and float() read them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/utf8.h"
#include "text/jinja.h"

/* |v| exactly: d[0..n) are decimal digits, the first not 0, the value 0.d0d1d2... * 10^point. */
typedef struct decimal {
  char d[1100];
  int n, point;
} decimal;

static void exact_decimal(double v, decimal *out) {
  uint32_t big[96] = {0}; /* base 10^9, least first */
  int n_big = 0, exponent;
  const double fraction = frexp(fabs(v), &exponent);
  uint64_t mantissa = (uint64_t)ldexp(fraction, 53);
  *out = (decimal){.n = 0};
  if (mantissa == 0) return;
  exponent -= 53;
  while (exponent < 0 && mantissa % 2 == 0) {
    mantissa /= 2;
    exponent++;
  }
  for (uint64_t m = mantissa; m; m /= 1000000000) big[n_big++] = (uint32_t)(m % 1000000000);
  /* v = m * 2^e; for e < 0 that is m * 5^-e / 10^-e */
  const uint32_t factor = exponent >= 0 ? 2 : 5;
  const int times = exponent >= 0 ? exponent : -exponent;
  for (int i = 0; i < times; i++) {
    uint64_t carry = 0;
    for (int k = 0; k < n_big; k++) {
      carry += (uint64_t)big[k] * factor;
      big[k] = (uint32_t)(carry % 1000000000);
      carry /= 1000000000;
    }
    if (carry) big[n_big++] = (uint32_t)carry;
  }
  for (int k = n_big - 1; k >= 0; k--) {
    char text[12];
    snprintf(text, sizeof text, k == n_big - 1 ? "%" PRIu32 : "%09" PRIu32, big[k]);
    const int length = (int)strlen(text);
    memcpy(out->d + out->n, text, (size_t)length);
    out->n += length;
  }
  out->point = exponent < 0 ? out->n + exponent : out->n;
}

/* Keeps `keep` digits (may be 0 or less), half to even on the exact value. */
static void round_decimal(decimal *x, int keep) {
  if (keep >= x->n) return;
  if (keep < 0) {
    x->n = 0;
    return;
  }
  bool up = x->d[keep] > '5';
  if (x->d[keep] == '5') {
    for (int i = keep + 1; i < x->n; i++) up |= x->d[i] != '0';
    if (!up) up = keep > 0 && (x->d[keep - 1] - '0') % 2 == 1;
  }
  x->n = keep;
  for (int i = keep - 1; up && i >= 0; i--) {
    if (x->d[i] != '9') {
      x->d[i]++;
      up = false;
    } else {
      x->d[i] = '0';
    }
  }
  if (up) { /* 999 -> 1000 */
    memmove(x->d + 1, x->d, (size_t)x->n);
    x->d[0] = '1';
    x->n++;
    x->point++;
  }
}

static void put_fixed(wf_buf *b, const decimal *x, int precision, bool alternate) {
  if (x->point <= 0 || x->n == 0) wf_buf_putc(b, '0');
  for (int i = 0; i < x->point && x->n; i++) wf_buf_putc(b, i < x->n ? x->d[i] : '0');
  if (precision > 0 || alternate) wf_buf_putc(b, '.');
  for (int i = 0; i < precision; i++) {
    const int at = x->point + i;
    wf_buf_putc(b, x->n && at >= 0 && at < x->n ? x->d[at] : '0');
  }
}

static void put_scientific(wf_buf *b, const decimal *x, int digits, bool alternate) {
  wf_buf_putc(b, x->n ? x->d[0] : '0');
  if (digits > 0 || alternate) wf_buf_putc(b, '.');
  for (int i = 1; i <= digits; i++) wf_buf_putc(b, i < x->n ? x->d[i] : '0');
  const int e = x->n ? x->point - 1 : 0;
  wf_buf_printf(b, "e%c%02d", e < 0 ? '-' : '+', e < 0 ? -e : e);
}

bool wf_jj_add_float(jj_run *run, jj_buf *out, double v, char type, int precision, bool alternate,
                     bool content) {
  wf_buf b = {0};
  decimal x;
  exact_decimal(v, &x);
  if (type == 'f') {
    round_decimal(&x, x.point + precision);
    put_fixed(&b, &x, precision, alternate);
  } else if (type == 'e') {
    round_decimal(&x, precision + 1);
    put_scientific(&b, &x, precision, alternate);
  } else { /* g; r: as g, but never without a point, and with an exponent one digit earlier */
    const bool with_point = type == 'r';
    if (precision == 0) precision = 1;
    round_decimal(&x, precision);
    const int e = x.n ? x.point - 1 : 0;
    int n = x.n;
    while (!alternate && n > 1 && x.d[n - 1] == '0') n--;
    if (alternate) n = precision;
    if (e < -4 || e >= precision - with_point) {
      put_scientific(&b, &x, n > 0 ? n - 1 : 0, alternate);
    } else if (with_point && (n <= x.point || !x.n)) {
      put_fixed(&b, &x, 1, false);
    } else {
      put_fixed(&b, &x,
                n - x.point > 0 && x.n ? n - x.point
                : alternate            ? precision - 1
                                       : 0,
                alternate);
    }
  }
  const bool ok = !b.failed && wf_jj_buf_add(run, out, b.at, b.n, content);
  wf_buf_deinit(&b);
  return ok || (run->status == WEFT_OK && wf_jj_raise(run, "no memory for a number"));
}

bool wf_jj_round(jj_run *run, double v, int64_t digits, double *result) {
  if (!isfinite(v) || digits > 330) {
    *result = v;
    return true;
  }
  if (digits < -330) {
    *result = copysign(0.0, v);
    return true;
  }
  decimal x;
  exact_decimal(v, &x);
  const int64_t keep = x.point + digits;
  if (keep >= x.n) {
    *result = v;
    return true;
  }
  round_decimal(&x, keep < -1 ? -1 : (int)keep);
  wf_buf b = {0};
  wf_buf_puts(&b, "0.");
  wf_buf_add(&b, x.d, (size_t)x.n);
  wf_buf_printf(&b, "0e%d", x.n ? x.point : 0);
  const bool ok = !b.failed && wf_parse_f64((wf_str){b.at, b.n}, result);
  wf_buf_deinit(&b);
  *result = copysign(*result, v);
  return ok || wf_jj_raise(run, "rounded value too large to represent");
}

static wf_str stripped(const jj_str *s) {
  wf_str t = {s->at, s->n};
  uint32_t cp;
  for (size_t n; t.n && (n = wf_utf8_decode(t.at, t.n, &cp)) && wf_jj_is_space(cp);) {
    t.at += n;
    t.n -= n;
  }
  while (t.n) {
    size_t from = t.n - 1;
    while (from && ((unsigned char)t.at[from] & 0xc0) == 0x80) from--;
    if (!wf_utf8_decode(t.at + from, t.n - from, &cp) || !wf_jj_is_space(cp)) break;
    t.n = from;
  }
  return t;
}

static bool is_word(wf_str s, const char *word) {
  if (s.n != strlen(word)) return false;
  for (size_t i = 0; i < s.n; i++) {
    if ((s.at[i] | 0x20) != word[i]) return false;
  }
  return true;
}

/* Copies without underscores that stand between digits; false when one stands elsewhere. */
static bool without_underscores(wf_str s, char *out, size_t capacity, size_t *n) {
  *n = 0;
  for (size_t i = 0; i < s.n; i++) {
    if (s.at[i] == '_') {
      const char before = i ? s.at[i - 1] : 0, after = i + 1 < s.n ? s.at[i + 1] : 0;
      if (before < '0' || before > '9' || after < '0' || after > '9') return false;
      continue;
    }
    if (*n == capacity) return false;
    out[(*n)++] = s.at[i];
  }
  return true;
}

bool wf_jj_parse_float(const jj_str *text, double *result) {
  wf_str s = stripped(text);
  char digits[800];
  size_t n;
  const bool negative = s.n && s.at[0] == '-';
  if (s.n && (s.at[0] == '-' || s.at[0] == '+')) {
    s.at++;
    s.n--;
  }
  if (is_word(s, "inf") || is_word(s, "infinity") || is_word(s, "nan")) {
    *result = is_word(s, "nan") ? NAN : INFINITY;
  } else {
    if (!s.n || s.at[0] == '-' || s.at[0] == '+') return false;
    if (!without_underscores(s, digits + 1, sizeof digits - 3, &n)) return false;
    /* ".5" and "5." are floats to Python: give both sides a digit */
    char *at = digits + 1;
    if (at[0] == '.') {
      if (n < 2 || at[1] < '0' || at[1] > '9') return false;
      *--at = '0';
      n++;
    }
    for (size_t i = 0; i < n; i++) {
      if (at[i] == '.' && (i + 1 == n || at[i + 1] == 'e' || at[i + 1] == 'E')) {
        memmove(at + i + 2, at + i + 1, n - i - 1);
        at[i + 1] = '0';
        n++;
        break;
      }
    }
    if (!wf_parse_f64((wf_str){at, n}, result)) return false;
  }
  if (negative) *result = -*result;
  return true;
}

bool wf_jj_parse_int(const jj_str *text, int64_t base, int64_t *result, bool *overflow) {
  wf_str s = stripped(text);
  *overflow = false;
  *result = 0;
  const bool negative = s.n && s.at[0] == '-';
  if (s.n && (s.at[0] == '-' || s.at[0] == '+')) {
    s.at++;
    s.n--;
  }
  if (s.n > 1 && s.at[0] == '0') {
    const char p = (char)(s.at[1] | 0x20);
    const int64_t prefix = p == 'x' ? 16 : p == 'o' ? 8 : p == 'b' ? 2 : 0;
    if (prefix && (base == prefix || base == 0)) {
      base = prefix;
      s.at += 2;
      s.n -= 2;
      if (s.n && s.at[0] == '_') {
        s.at++;
        s.n--;
      }
    } else if (base == 0) {
      for (size_t i = 0; i < s.n; i++) {
        if (s.at[i] != '0' && s.at[i] != '_') return false; /* "010" has no base */
      }
    }
  }
  if (base == 0) base = 10;
  if (s.n == 0) return false;
  for (size_t i = 0; i < s.n; i++) {
    const char c = s.at[i];
    if (c == '_') {
      if (i == 0 || i + 1 == s.n || s.at[i - 1] == '_') return false;
      continue;
    }
    const int64_t d = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 10
                      : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                             : 99;
    if (d >= base) return false;
    *overflow |= __builtin_mul_overflow(*result, base, result);
    *overflow |= negative ? __builtin_sub_overflow(*result, d, result)
                          : __builtin_add_overflow(*result, d, result);
  }
  return true;
}
