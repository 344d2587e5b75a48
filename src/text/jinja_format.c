/* SPDX-License-Identifier: Apache-2.0 */
/* Formatting: the % operator, str.format with its format specifications, HTML escapes. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/utf8.h"
#include "text/jinja.h"

enum { WIDTH_LIMIT = 100000 };

/* What stands between % or : and the conversion letter. */
typedef struct spec {
  const jj_str *fill; /* one character, or NULL for a space */
  char align;         /* < > = ^ or 0 */
  char sign;          /* + space or 0 */
  bool alternate, zero;
  char group;           /* , or _ */
  int width, precision; /* precision -1: none */
  char type;
} spec;

/* Pads `body` (with `sign` before it) into b. */
static bool put_padded(jj_run *run, jj_buf *b, const spec *f, const char *sign, const jj_str *body,
                       char default_align) {
  const size_t have = strlen(sign) + body->n_chars;
  const size_t more = (size_t)f->width > have ? (size_t)f->width - have : 0;
  const char align = f->align ? f->align : default_align;
  const size_t before = align == '>' ? more : align == '^' ? more / 2 : 0;
  const jj_str space = {.at = f->zero && !f->fill ? "0" : " ", .n = 1, .n_chars = 1};
  const jj_str *fill = f->fill ? f->fill : &space;
  for (size_t i = 0; i < before; i++) {
    if (!wf_jj_buf_add_str(run, b, fill)) return false;
  }
  if (!wf_jj_buf_puts(run, b, sign)) return false;
  for (size_t i = 0; align == '=' && i < more; i++) {
    if (!wf_jj_buf_add_str(run, b, fill)) return false;
  }
  if (!wf_jj_buf_add_str(run, b, body)) return false;
  for (size_t i = before; align != '=' && i < more; i++) {
    if (!wf_jj_buf_add_str(run, b, fill)) return false;
  }
  return wf_jj_charge(run, more / 8 + 1);
}

static const char *sign_text(bool negative, const spec *f) {
  return negative ? "-" : f->sign == '+' ? "+" : f->sign == ' ' ? " " : "";
}

/* Thousands separators into the leading digits of b's bytes. */
static bool group_digits(jj_run *run, jj_val *text, char group, size_t every) {
  const jj_str *s = text->u.s;
  size_t digits = 0;
  while (digits < s->n && s->at[digits] != '.' && s->at[digits] != 'e') digits++;
  jj_buf b = {0};
  for (size_t i = 0; i < digits; i++) {
    if (i && (digits - i) % every == 0 && !wf_jj_buf_add(run, &b, &group, 1, false)) return false;
    if (!wf_jj_buf_add_range(run, &b, s, i, i + 1)) return false;
  }
  if (!wf_jj_buf_add_range(run, &b, s, digits, s->n)) return false;
  *text = wf_jj_buf_done(run, &b);
  return text->kind == JJ_STR;
}

static bool put_int(jj_run *run, jj_buf *b, const spec *f, int64_t v) {
  char text[72], sign[4];
  uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
  const char type = f->type;
  const char *prefix = "";
  if (type == 'x' || type == 'X') {
    snprintf(text, sizeof text, type == 'x' ? "%" PRIx64 : "%" PRIX64, u);
    prefix = type == 'x' ? "0x" : "0X";
  } else if (type == 'o') {
    snprintf(text, sizeof text, "%" PRIo64, u);
    prefix = "0o";
  } else if (type == 'b') {
    size_t n = 0;
    char bits[65];
    do {
      bits[n++] = (char)('0' + u % 2);
      u /= 2;
    } while (u);
    for (size_t i = 0; i < n; i++) text[i] = bits[n - 1 - i];
    text[n] = '\0';
    prefix = "0b";
  } else {
    snprintf(text, sizeof text, "%" PRIu64, u);
  }
  snprintf(sign, sizeof sign, "%s%s", sign_text(v < 0, f), f->alternate ? prefix : "");
  jj_buf digits = {0};
  for (size_t n = strlen(text); f->precision > (int)n; n++) { /* %.5d */
    if (!wf_jj_buf_puts(run, &digits, "0")) return false;
  }
  if (!wf_jj_buf_puts(run, &digits, text)) return false;
  jj_val body = wf_jj_buf_done(run, &digits);
  const size_t every = type == 'x' || type == 'X' || type == 'o' || type == 'b' ? 4 : 3;
  if (!body.kind || (f->group && !group_digits(run, &body, f->group, every))) return false;
  return put_padded(run, b, f, sign, body.u.s, f->zero ? '=' : '>');
}

static bool put_float(jj_run *run, jj_buf *b, const spec *f, double v) {
  jj_buf digits = {0};
  const char lower = (char)(f->type | 0x20);
  const bool percent = f->type == '%';
  if (percent) v *= 100;
  if (!isfinite(v)) {
    if (!wf_jj_buf_puts(run, &digits, isnan(v) ? "nan" : "inf")) return false;
  } else if (f->type == 0 && f->precision < 0) {
    wf_buf text = {0};
    wf_buf_add_f64(&text, fabs(v));
    const bool ok = !text.failed && wf_jj_buf_add(run, &digits, text.at, text.n, false);
    wf_buf_deinit(&text);
    if (!ok) return false;
  } else {
    const char type = percent ? 'f' : f->type == 0 ? 'r' : lower;
    if (!wf_jj_add_float(run, &digits, v, type, f->precision < 0 ? 6 : f->precision, f->alternate,
                         false)) {
      return false;
    }
  }
  if (percent && !wf_jj_buf_puts(run, &digits, "%")) return false;
  jj_val body = wf_jj_buf_done(run, &digits);
  if (!body.kind || (f->group && !group_digits(run, &body, f->group, 3))) return false;
  if (f->type >= 'A' && f->type <= 'Z' && !wf_jj_case(run, body.u.s, 'u', &body)) return false;
  const bool negative = signbit(v) && !isnan(v);
  return put_padded(run, b, f, sign_text(negative, f), body.u.s, f->zero ? '=' : '>');
}

static bool put_text(jj_run *run, jj_buf *b, const spec *f, const jj_str *s, char default_align) {
  s = wf_jj_flat(run, s);
  if (!s) return false;
  if (f->precision >= 0 && (size_t)f->precision < s->n_chars) {
    const jj_val cut = wf_jj_str_sub(run, s, 0, wf_jj_str_offset(s, (size_t)f->precision));
    if (!cut.kind) return false;
    return put_padded(run, b, f, "", cut.u.s, default_align);
  }
  return put_padded(run, b, f, "", s, default_align);
}

static bool to_float(const jj_val *v, double *f) {
  if (!wf_jj_is_number(v)) return false;
  *f = v->kind == JJ_FLOAT ? v->u.f : v->kind == JJ_INT ? (double)v->u.i : (double)v->u.b;
  return true;
}

/* -- the % operator -- */

typedef struct percent {
  jj_run *run;
  const jj_str *s;
  size_t at;
  const jj_val *arg;
  size_t used;
  bool used_mapping;
  jj_buf out;
} percent;

static bool next_arg(percent *p, jj_val *v) {
  if (p->arg->kind == JJ_TUPLE) {
    if (p->used >= p->arg->u.l->n) {
      return wf_jj_raise(p->run, "not enough arguments for format string");
    }
    *v = p->arg->u.l->at[p->used++];
    return true;
  }
  if (p->used++ > 0) return wf_jj_raise(p->run, "not enough arguments for format string");
  *v = *p->arg;
  return true;
}

static bool star_or_number(percent *p, int *n, bool *left) {
  if (p->at < p->s->n && p->s->at[p->at] == '*') {
    jj_val v;
    int64_t i;
    p->at++;
    if (!next_arg(p, &v) || !wf_jj_want_int(p->run, &v, "* wants int", &i)) return false;
    if (i < 0 && left) *left = true;
    if (i < 0) i = left ? -i : 0;
    if (i > WIDTH_LIMIT || i < 0) return wf_jj_raise(p->run, "width too big");
    *n = (int)i;
    return true;
  }
  while (p->at < p->s->n && p->s->at[p->at] >= '0' && p->s->at[p->at] <= '9') {
    *n = *n * 10 + (p->s->at[p->at++] - '0');
    if (*n > WIDTH_LIMIT) return wf_jj_raise(p->run, "width too big");
  }
  return true;
}

static bool percent_convert(percent *p, const spec *f, char c, const jj_val *v) {
  jj_val text;
  double d;
  if (c == 's' || c == 'r' || c == 'a') {
    jj_buf b = {0};
    if (!(c == 's' ? wf_jj_add_str(p->run, &b, v) : wf_jj_add_repr(p->run, &b, v))) return false;
    text = wf_jj_buf_done(p->run, &b);
    return text.kind && put_text(p->run, &p->out, f, text.u.s, '>');
  }
  if (c == 'c') {
    if (v->kind == JJ_STR && v->u.s->n_chars == 1) {
      return put_text(p->run, &p->out, f, v->u.s, '>');
    }
    char utf8[5] = {0};
    if (v->kind != JJ_INT || v->u.i < 0 || v->u.i > 0x10ffff ||
        !wf_utf8_encode((uint32_t)v->u.i, utf8)) {
      return wf_jj_raise(p->run, "%%c requires int or char");
    }
    text = wf_jj_str_of(p->run, utf8, strlen(utf8), true);
    return text.kind && put_text(p->run, &p->out, f, text.u.s, '>');
  }
  if (strchr("diuxXo", c)) {
    int64_t i;
    if (v->kind == JJ_FLOAT && strchr("diu", c)) {
      if (!isfinite(v->u.f) || fabs(v->u.f) >= 9.2e18) {
        return wf_jj_raise(p->run, "cannot convert this float to integer");
      }
      i = (int64_t)v->u.f;
    } else if (v->kind == JJ_INT || v->kind == JJ_BOOL) {
      i = v->kind == JJ_BOOL ? v->u.b : v->u.i;
    } else {
      return wf_jj_raise(p->run, "%%%c format: a number is required, not %s", c, wf_jj_type(v));
    }
    return put_int(p->run, &p->out, f, i);
  }
  if (strchr("eEfFgG", c)) {
    if (!to_float(v, &d)) {
      return wf_jj_raise(p->run, "must be real number, not %s", wf_jj_type(v));
    }
    return put_float(p->run, &p->out, f, d);
  }
  return wf_jj_raise(p->run, "unsupported format character '%c'", c);
}

static bool percent_one(percent *p) {
  spec f = {.precision = -1};
  jj_val v = {.kind = JJ_MISSING};
  const jj_str *s = p->s;
  bool left = false;
  if (p->at < s->n && s->at[p->at] == '(') {
    size_t depth = 1, end = p->at + 1;
    for (; end < s->n && depth; end++) {
      if (s->at[end] == '(') depth++;
      if (s->at[end] == ')') depth--;
    }
    if (depth) return wf_jj_raise(p->run, "incomplete format key");
    if (p->arg->kind != JJ_DICT) return wf_jj_raise(p->run, "format requires a mapping");
    const jj_val key = wf_jj_str_sub(p->run, s, p->at + 1, end - 1);
    const int got = key.kind ? wf_jj_dict_get(p->run, p->arg->u.d, &key, &v) : -1;
    if (got == 0) return wf_jj_raise(p->run, "KeyError: '%.80s'", s->at + p->at + 1);
    if (got < 0) return false;
    p->used_mapping = true;
    p->at = end;
  }
  for (; p->at < s->n && s->at[p->at] && strchr("-+ #0", s->at[p->at]); p->at++) {
    const char c = s->at[p->at];
    if (c == '-') left = true;
    if (c == '+' || (c == ' ' && !f.sign)) f.sign = c;
    if (c == '#') f.alternate = true;
    if (c == '0') f.zero = true;
  }
  if (!star_or_number(p, &f.width, &left)) return false;
  if (p->at < s->n && s->at[p->at] == '.') {
    p->at++;
    f.precision = 0;
    if (!star_or_number(p, &f.precision, NULL)) return false;
  }
  while (p->at < s->n && s->at[p->at] && strchr("hlL", s->at[p->at])) p->at++;
  if (p->at >= s->n) return wf_jj_raise(p->run, "incomplete format");
  const char c = s->at[p->at++];
  if (c == '%') return wf_jj_buf_puts(p->run, &p->out, "%");
  if (left) {
    f.align = '<';
    f.zero = false;
  }
  if (strchr("srac", c)) f.zero = false;
  f.type = c == 'i' || c == 'u' ? 'd' : c;
  if (!v.kind && !next_arg(p, &v)) return false;
  if (p->s->markup && c == 's' && !wf_jj_escape(p->run, &v, &v)) return false;
  return percent_convert(p, &f, c, &v);
}

bool wf_jj_percent(jj_run *run, const jj_str *format, const jj_val *arg, jj_val *result) {
  percent p = {.run = run, .s = wf_jj_flat(run, format), .arg = arg};
  if (!p.s) return false;
  while (p.at < p.s->n) {
    const char *hit = memchr(p.s->at + p.at, '%', p.s->n - p.at);
    const size_t end = hit ? (size_t)(hit - p.s->at) : p.s->n;
    if (!wf_jj_buf_add_range(run, &p.out, p.s, p.at, end)) return false;
    p.at = end + (hit != NULL);
    if (hit && !percent_one(&p)) return false;
  }
  /* what Python takes for a mapping may stay unused: all that has __getitem__ */
  const bool is_mapping = arg->kind == JJ_DICT || arg->kind == JJ_LIST || arg->kind == JJ_RANGE ||
                          arg->kind == JJ_UNDEFINED;
  const bool left_over =
      arg->kind == JJ_TUPLE ? p.used < arg->u.l->n : p.used == 0 && !p.used_mapping && !is_mapping;
  if (left_over) return wf_jj_raise(run, "not all arguments converted during string formatting");
  *result = wf_jj_buf_done(run, &p.out);
  return result->kind == JJ_STR;
}

/* -- str.format -- */

typedef struct formatter {
  jj_run *run;
  const jj_args *args;
  int64_t next; /* automatic numbering; -1 once fields are numbered by hand */
  bool markup;
} formatter;

static bool is_digits(const char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (s[i] < '0' || s[i] > '9') return false;
  }
  return n > 0 && n < 9;
}

static int64_t number_of(const char *s, size_t n) {
  int64_t v = 0;
  for (size_t i = 0; i < n; i++) v = v * 10 + (s[i] - '0');
  return v;
}

/* The value of "name.attr[item]" in bytes [at, end) of s. */
static bool field_value(formatter *m, const jj_str *s, size_t at, size_t end, jj_val *v) {
  size_t stop = at;
  while (stop < end && s->at[stop] != '.' && s->at[stop] != '[') stop++;
  const size_t n = stop - at;
  if (n == 0 || is_digits(s->at + at, n)) {
    const bool automatic = n == 0;
    if (automatic ? m->next < 0 : m->next > 0) {
      return wf_jj_raise(m->run, "cannot switch between automatic and manual field numbering");
    }
    const int64_t i = automatic ? m->next++ : number_of(s->at + at, n);
    if (!automatic) m->next = -1;
    if ((size_t)i >= m->args->n) {
      return wf_jj_raise(m->run, "Replacement index %" PRId64 " out of range for positional args",
                         i);
    }
    *v = m->args->at[i];
  } else {
    size_t k = 0;
    for (; k < m->args->n_named; k++) {
      const jj_str *name = m->args->names[k];
      if (name->n == n && memcmp(name->at, s->at + at, n) == 0) break;
    }
    if (k == m->args->n_named) {
      return wf_jj_raise(m->run, "KeyError: '%.*s'", (int)(n > 80 ? 80 : n), s->at + at);
    }
    *v = m->args->values[k];
  }
  while (stop < end) {
    const bool is_attr = s->at[stop] == '.';
    size_t begin = stop + 1, close = begin;
    while (close < end &&
           (is_attr ? s->at[close] != '.' && s->at[close] != '[' : s->at[close] != ']')) {
      close++;
    }
    if (close == begin) return wf_jj_raise(m->run, "Empty attribute in format string");
    if (!is_attr && close >= end) return wf_jj_raise(m->run, "Missing ']' in format string");
    jj_val key = wf_jj_str_sub(m->run, s, begin, close);
    if (!key.kind) return false;
    if (!is_attr && is_digits(s->at + begin, close - begin)) {
      key = wf_jj_int(number_of(s->at + begin, close - begin));
    }
    if (!(is_attr ? wf_jj_getattr(m->run, v, key.u.s, v) : wf_jj_getitem(m->run, v, &key, v))) {
      return false;
    }
    stop = is_attr ? close : close + 1;
    if (!is_attr && stop < end && s->at[stop] != '.' && s->at[stop] != '[') {
      return wf_jj_raise(m->run, "Only '.' or '[' may follow ']' in format field specifier");
    }
  }
  return true;
}

static bool parse_spec(jj_run *run, const jj_str *s, spec *f) {
  size_t at = 0;
  uint32_t cp;
  *f = (spec){.precision = -1};
  const size_t first = s->n ? wf_utf8_decode(s->at, s->n, &cp) : 0;
  if (first && first < s->n && strchr("<>=^", s->at[first])) {
    const jj_val fill = wf_jj_str_sub(run, s, 0, first);
    if (!fill.kind) return false;
    f->fill = fill.u.s;
    f->align = s->at[first];
    at = first + 1;
  } else if (s->n && strchr("<>=^", s->at[0])) {
    f->align = s->at[0];
    at = 1;
  }
  if (at < s->n && (s->at[at] == '+' || s->at[at] == '-' || s->at[at] == ' ')) {
    f->sign = s->at[at] == '-' ? 0 : s->at[at];
    at++;
  }
  if (at < s->n && s->at[at] == '#') {
    f->alternate = true;
    at++;
  }
  if (at < s->n && s->at[at] == '0') {
    f->zero = true;
    at++;
  }
  for (; at < s->n && s->at[at] >= '0' && s->at[at] <= '9'; at++) {
    f->width = f->width * 10 + (s->at[at] - '0');
    if (f->width > WIDTH_LIMIT) return wf_jj_raise(run, "Too many decimal digits in format string");
  }
  if (at < s->n && (s->at[at] == ',' || s->at[at] == '_')) f->group = s->at[at++];
  if (at < s->n && s->at[at] == '.') {
    f->precision = 0;
    const size_t from = ++at;
    for (; at < s->n && s->at[at] >= '0' && s->at[at] <= '9'; at++) {
      f->precision = f->precision * 10 + (s->at[at] - '0');
      if (f->precision > WIDTH_LIMIT) return wf_jj_raise(run, "precision too big");
    }
    if (at == from) return wf_jj_raise(run, "Format specifier missing precision");
  }
  if (at < s->n) f->type = s->at[at++];
  return at == s->n || wf_jj_raise(run, "Invalid format specifier");
}

static bool format_value(formatter *m, jj_buf *b, const jj_val *v, const jj_str *spec_text) {
  spec f;
  double d;
  if (!parse_spec(m->run, spec_text, &f)) return false;
  if (v->kind == JJ_STR) {
    jj_val text = *v;
    if (f.type && f.type != 's') {
      return wf_jj_raise(m->run, "Unknown format code '%c' for object of type 'str'", f.type);
    }
    if (f.sign || f.align == '=' || f.group) {
      return wf_jj_raise(m->run, "this format specifier is not allowed for strings");
    }
    if (m->markup && !wf_jj_escape(m->run, v, &text)) return false;
    return put_text(m->run, b, &f, text.u.s, '<');
  }
  if ((v->kind == JJ_INT || v->kind == JJ_BOOL) && spec_text->n &&
      !(f.type && strchr("eEfFgG%", f.type))) {
    if (f.type && !strchr("bcdoxXn", f.type)) {
      return wf_jj_raise(m->run, "Unknown format code '%c' for object of type 'int'", f.type);
    }
    if (f.precision >= 0) {
      return wf_jj_raise(m->run, "Precision not allowed in integer format specifier");
    }
    if (f.type == 'c') {
      char utf8[5] = {0};
      const int64_t i = v->kind == JJ_BOOL ? v->u.b : v->u.i;
      if (i < 0 || i > 0x10ffff || !wf_utf8_encode((uint32_t)i, utf8)) {
        return wf_jj_raise(m->run, "%%c arg not in range");
      }
      const jj_val text = wf_jj_str_of(m->run, utf8, strlen(utf8), true);
      return text.kind && put_text(m->run, b, &f, text.u.s, '<');
    }
    return put_int(m->run, b, &f, v->kind == JJ_BOOL ? v->u.b : v->u.i);
  }
  if (spec_text->n && to_float(v, &d)) {
    if (f.type && !strchr("eEfFgGn%", f.type)) {
      return wf_jj_raise(m->run, "Unknown format code '%c' for object of type 'float'", f.type);
    }
    return put_float(m->run, b, &f, d);
  }
  if (spec_text->n && v->kind != JJ_UNDEFINED) {
    return wf_jj_raise(m->run, "unsupported format string passed to %s.__format__", wf_jj_type(v));
  }
  if (spec_text->n) return wf_jj_raise(m->run, "unsupported format string passed to Undefined");
  return wf_jj_add_str(m->run, b, v);
}

static bool format_into(formatter *m, jj_buf *b, const jj_str *s, int depth);

/* One field, `at` just after its '{'; moves past its '}'. */
static bool format_field(formatter *m, jj_buf *b, const jj_str *s, size_t *at, int depth) {
  size_t end = *at, nesting = 1;
  for (; end < s->n; end++) {
    if (s->at[end] == '[') {
      while (end < s->n && s->at[end] != ']') end++;
      if (end >= s->n) break;
    } else if (s->at[end] == '{') {
      nesting++;
    } else if (s->at[end] == '}' && --nesting == 0) {
      break;
    }
  }
  if (end >= s->n) return wf_jj_raise(m->run, "expected '}' before end of string");
  size_t name_end = *at;
  bool in_bracket = false;
  for (; name_end < end; name_end++) {
    const char c = s->at[name_end];
    if (c == '[') in_bracket = true;
    if (c == ']') in_bracket = false;
    if (!in_bracket && (c == '!' || c == ':')) break;
    if (c == '{' && !in_bracket) return wf_jj_raise(m->run, "unexpected '{' in field name");
  }
  jj_val v;
  if (!field_value(m, s, *at, name_end, &v)) return false;
  size_t spec_at = name_end;
  char conversion = 0;
  if (spec_at < end && s->at[spec_at] == '!') {
    if (spec_at + 1 >= end)
      return wf_jj_raise(m->run, "end of string while looking for conversion");
    conversion = s->at[spec_at + 1];
    spec_at += 2;
    if (spec_at < end && s->at[spec_at] != ':') {
      return wf_jj_raise(m->run, "expected ':' after conversion specifier");
    }
  }
  if (conversion) {
    jj_buf text = {0};
    if (!strchr("sra", conversion)) {
      return wf_jj_raise(m->run, "Unknown conversion specifier %c", conversion);
    }
    if (!(conversion == 's' ? wf_jj_add_str(m->run, &text, &v)
                            : wf_jj_add_repr(m->run, &text, &v))) {
      return false;
    }
    v = wf_jj_buf_done(m->run, &text);
    if (!v.kind) return false;
  }
  jj_buf spec_text = {0};
  if (spec_at < end) {
    const jj_val inner = wf_jj_str_sub(m->run, s, spec_at + 1, end);
    if (!inner.kind || !format_into(m, &spec_text, inner.u.s, depth - 1)) return false;
  }
  const jj_val done = wf_jj_buf_done(m->run, &spec_text);
  if (!done.kind || !format_value(m, b, &v, done.u.s)) return false;
  *at = end + 1;
  return true;
}

static bool format_into(formatter *m, jj_buf *b, const jj_str *s, int depth) {
  if (depth < 0) return wf_jj_raise(m->run, "Max string recursion exceeded");
  for (size_t at = 0; at < s->n;) {
    size_t end = at;
    while (end < s->n && s->at[end] != '{' && s->at[end] != '}') end++;
    if (!wf_jj_buf_add_range(m->run, b, s, at, end)) return false;
    if (end >= s->n) break;
    at = end + 1;
    if (at < s->n && s->at[at] == s->at[end]) {
      if (!wf_jj_buf_add_range(m->run, b, s, at, at + 1)) return false;
      at++;
    } else if (s->at[end] == '}') {
      return wf_jj_raise(m->run, "Single '}' encountered in format string");
    } else if (!format_field(m, b, s, &at, depth)) {
      return false;
    }
  }
  return true;
}

bool wf_jj_str_format(jj_run *run, const jj_str *format, const jj_args *args, jj_val *result) {
  formatter m = {.run = run, .args = args, .markup = format->markup};
  jj_buf b = {0};
  const jj_str *s = wf_jj_flat(run, format);
  if (!s || !format_into(&m, &b, s, 2)) return false;
  *result = wf_jj_buf_done(run, &b);
  return result->kind == JJ_STR;
}

/* -- HTML escapes -- */

bool wf_jj_escape(jj_run *run, const jj_val *v, jj_val *result) {
  jj_val text;
  if (!wf_jj_to_str(run, v, &text)) return false;
  const jj_str *s = text.u.s;
  jj_buf b = {0};
  size_t from = 0;
  for (size_t i = 0; i < s->n && !s->markup; i++) {
    const char *with = s->at[i] == '&'    ? "&amp;"
                       : s->at[i] == '<'  ? "&lt;"
                       : s->at[i] == '>'  ? "&gt;"
                       : s->at[i] == '\'' ? "&#39;"
                       : s->at[i] == '"'  ? "&#34;"
                                          : NULL;
    if (!with) continue;
    const bool mark = s->marks ? s->marks[i] : s->content;
    if (!wf_jj_buf_add_range(run, &b, s, from, i) ||
        !wf_jj_buf_add(run, &b, with, strlen(with), mark)) {
      return false;
    }
    from = i + 1;
  }
  if (!wf_jj_buf_add_range(run, &b, s, from, s->n)) return false;
  *result = wf_jj_buf_done(run, &b);
  if (result->kind != JJ_STR) return false;
  jj_str *marked = wf_jj_alloc(run, 1, sizeof *marked);
  if (!marked) return false;
  *marked = *result->u.s;
  marked->markup = true;
  result->u.s = marked;
  return true;
}
