/* SPDX-License-Identifier: Apache-2.0 */
/* Filters over one value. Those over sequences are in jinja_seqfilter.c. */
#include <math.h>
#include <stdio.h>

#include "base/utf8.h"
#include "text/jinja.h"

#define FILTER(name) \
  static bool f_##name(jj_run *run, const jj_val *v, const jj_args *args, jj_val *result)

/* Binds the arguments after the value. */
#define BIND(params, required, out) \
  if (!wf_jj_args(run, args, __func__ + 2, params, required, out)) return false

static bool no_args(jj_run *run, const jj_args *args, const char *name) {
  jj_val none[1];
  return wf_jj_args(run, args, name, "", 0, none);
}

/* soft_str */
static const jj_str *text_of(jj_run *run, const jj_val *v) {
  jj_val text;
  return wf_jj_to_str(run, v, &text) ? text.u.s : NULL;
}

#define CASE_FILTER(name, how)                                            \
  FILTER(name) {                                                          \
    const jj_str *s = no_args(run, args, #name) ? text_of(run, v) : NULL; \
    return s && wf_jj_case(run, s, how, result);                          \
  }
CASE_FILTER(upper, 'u')
CASE_FILTER(lower, 'l')
CASE_FILTER(capitalize, 'c')
CASE_FILTER(title, 'T')

FILTER(trim) {
  jj_val a[1];
  BIND("chars", 0, a);
  const jj_str *s = text_of(run, v);
  return s && wf_jj_strip(run, s, &a[0], 3, result);
}

FILTER(string) { return no_args(run, args, "string") && wf_jj_to_str(run, v, result); }

FILTER(replace) {
  jj_val a[3];
  int64_t count = -1;
  BIND("old,new,count", 2, a);
  if (a[2].kind > JJ_NONE && !wf_jj_want_int(run, &a[2], "replace", &count)) return false;
  const jj_str *s = text_of(run, v), *old = text_of(run, &a[0]), *with = text_of(run, &a[1]);
  return s && old && with && wf_jj_replace(run, s, old, with, count, result);
}

FILTER(default) {
  jj_val a[2];
  bool boolean = false, truth = true;
  BIND("default_value,boolean", 0, a);
  if (a[1].kind && !wf_jj_truth(run, &a[1], &boolean)) return false;
  if (v->kind != JJ_UNDEFINED && boolean && !wf_jj_truth(run, v, &truth)) return false;
  *result = *v;
  if (v->kind != JJ_UNDEFINED && truth) return true;
  *result = a[0].kind ? a[0] : wf_jj_str_static(run, "");
  return result->kind != JJ_MISSING;
}

FILTER(tojson) {
  jj_args all = *args;
  all.n = args->n + 1;
  all.at = wf_jj_alloc(run, all.n, sizeof *all.at);
  if (!all.at) return false;
  all.at[0] = *v;
  if (args->n) memcpy(all.at + 1, args->at, args->n * sizeof *all.at);
  return wf_jj_tojson(run, &all, result);
}

FILTER(length) {
  if (!no_args(run, args, "length")) return false;
  const int64_t n = wf_jj_length(run, v);
  if (n == -2) return wf_jj_raise(run, "object of type '%s' has no len()", wf_jj_type(v));
  *result = wf_jj_int(n);
  return n >= 0;
}

FILTER(abs) {
  if (!no_args(run, args, "abs")) return false;
  if (v->kind == JJ_UNDEFINED || !wf_jj_is_number(v)) {
    return wf_jj_raise(run, "bad operand type for abs(): '%s'", wf_jj_type(v));
  }
  if (v->kind == JJ_FLOAT) {
    *result = wf_jj_float(fabs(v->u.f));
    return true;
  }
  const int64_t i = v->kind == JJ_BOOL ? v->u.b : v->u.i;
  if (i == INT64_MIN) return wf_jj_raise(run, "the integer result does not fit in 64 bits");
  *result = wf_jj_int(i < 0 ? -i : i);
  return true;
}

/* int(float): the part before the point */
static bool truncated(jj_run *run, double f, jj_val *result) {
  if (!(fabs(f) < 9.2233720368547748e18)) {
    return wf_jj_raise(run, "the integer result does not fit in 64 bits");
  }
  *result = wf_jj_int((int64_t)f);
  return true;
}

FILTER(int) {
  jj_val a[2];
  int64_t base = 10, i;
  bool overflow = false;
  double f;
  BIND("default,base", 0, a);
  const jj_val fallback = a[0].kind ? a[0] : wf_jj_int(0);
  if (a[1].kind && !wf_jj_want_int(run, &a[1], "base", &base)) return false;
  if (v->kind == JJ_UNDEFINED) return wf_jj_raise_undefined(run, v);
  *result = fallback;
  if (v->kind == JJ_INT || v->kind == JJ_BOOL) {
    *result = wf_jj_int(v->kind == JJ_BOOL ? v->u.b : v->u.i);
    return true;
  }
  if (v->kind == JJ_FLOAT) {
    if (isnan(v->u.f)) return true;
    if (isinf(v->u.f)) return wf_jj_raise(run, "cannot convert float infinity to integer");
    return truncated(run, v->u.f, result);
  }
  if (v->kind != JJ_STR) return true;
  const jj_str *s = wf_jj_flat(run, v->u.s);
  if (!s) return false;
  if ((base == 0 || (base >= 2 && base <= 36)) && wf_jj_parse_int(s, base, &i, &overflow)) {
    if (overflow) return wf_jj_raise(run, "the integer does not fit in 64 bits");
    *result = wf_jj_int(i);
    return true;
  }
  if (!wf_jj_parse_float(s, &f) || !isfinite(f)) return true;
  return truncated(run, f, result);
}

FILTER(float) {
  jj_val a[1];
  double f;
  BIND("default", 0, a);
  if (v->kind == JJ_UNDEFINED) return wf_jj_raise_undefined(run, v);
  *result = a[0].kind ? a[0] : wf_jj_float(0.0);
  if (wf_jj_is_number(v)) {
    *result = wf_jj_float(v->kind == JJ_FLOAT ? v->u.f
                          : v->kind == JJ_INT ? (double)v->u.i
                                              : (double)v->u.b);
  } else if (v->kind == JJ_STR) {
    const jj_str *s = wf_jj_flat(run, v->u.s);
    if (!s) return false;
    if (wf_jj_parse_float(s, &f)) *result = wf_jj_float(f);
  }
  return true;
}

FILTER(round) {
  jj_val a[2];
  int64_t digits = 0;
  BIND("precision,method", 0, a);
  if (a[0].kind && !wf_jj_want_int(run, &a[0], "round", &digits)) return false;
  const bool common = !a[1].kind || wf_jj_str_is(&a[1], "common");
  const bool up = a[1].kind && wf_jj_str_is(&a[1], "ceil");
  if (!common && !up && !wf_jj_str_is(&a[1], "floor")) {
    return wf_jj_raise(run, "method must be common, ceil or floor");
  }
  if (!wf_jj_is_number(v)) {
    if (v->kind == JJ_UNDEFINED && !common) return wf_jj_raise_undefined(run, v);
    return wf_jj_raise(run, "type %s doesn't define __round__ method", wf_jj_type(v));
  }
  double f = v->kind == JJ_FLOAT ? v->u.f : v->kind == JJ_INT ? (double)v->u.i : (double)v->u.b;
  if (!common) {
    const double scale = pow(10.0, (double)digits);
    /* 10 ** precision is an integer for precision >= 0, so an integer value stays exact enough */
    f = up ? ceil(f * scale) : floor(f * scale);
    *result = wf_jj_float(f / scale);
    return isfinite(result->u.f) || wf_jj_raise(run, "cannot convert this float to an integer");
  }
  if (v->kind != JJ_FLOAT) {
    int64_t i = v->kind == JJ_BOOL ? v->u.b : v->u.i, unit = 1;
    if (digits < -18) i = 0;
    for (int64_t k = digits; k < 0 && k >= -18; k++) unit *= 10;
    if (digits < 0 && i) { /* half to even */
      const int64_t rest = ((i % unit) + unit) % unit, low = i - rest;
      const bool round_up = rest > unit - rest || (rest == unit - rest && (low / unit) % 2 != 0);
      if (__builtin_add_overflow(low, round_up ? unit : 0, &i)) {
        return wf_jj_raise(run, "the integer result does not fit in 64 bits");
      }
    }
    *result = wf_jj_int(i);
    return true;
  }
  if (!wf_jj_round(run, f, digits, &f)) return false;
  *result = wf_jj_float(f);
  return true;
}

FILTER(format) {
  if (args->n && args->n_named) {
    return wf_jj_raise(run, "can't handle positional and keyword arguments at the same time");
  }
  const jj_str *s = text_of(run, v);
  jj_val arg;
  if (!s) return false;
  if (args->n_named) {
    jj_dict *d = wf_jj_dict(run, args->n_named);
    if (!d) return false;
    for (size_t i = 0; i < args->n_named; i++) {
      if (!wf_jj_dict_set(run, d, wf_jj_str(args->names[i]), args->values[i])) return false;
    }
    arg = (jj_val){.kind = JJ_DICT, .u.d = d};
  } else {
    arg = wf_jj_list(run, JJ_TUPLE, args->at, args->n);
  }
  return arg.kind && wf_jj_percent(run, s, &arg, result);
}

FILTER(indent) {
  jj_val a[3];
  bool first = false, blank = false;
  BIND("width,first,blank", 0, a);
  if ((a[1].kind && !wf_jj_truth(run, &a[1], &first)) ||
      (a[2].kind && !wf_jj_truth(run, &a[2], &blank))) {
    return false;
  }
  jj_val indent = a[0];
  if (a[0].kind != JJ_STR) {
    const jj_val space = wf_jj_str_static(run, " "), width = a[0].kind ? a[0] : wf_jj_int(4);
    if (!space.kind || !wf_jj_binary(run, JJ_OP_MUL, &space, &width, &indent)) return false;
  }
  if (v->kind == JJ_UNDEFINED) return wf_jj_raise_undefined(run, v);
  if (v->kind != JJ_STR) {
    return wf_jj_raise(run, "unsupported operand type(s) for +=: '%s' and 'str'", wf_jj_type(v));
  }
  jj_val text;
  jj_vals lines;
  const jj_val newline = wf_jj_str_static(run, "\n");
  if (!newline.kind || !wf_jj_str_concat(run, v->u.s, newline.u.s, &text) ||
      !wf_jj_splitlines(run, text.u.s, false, &lines)) {
    return false;
  }
  jj_buf b = {0};
  if (first && !wf_jj_buf_add_str(run, &b, indent.u.s)) return false;
  for (size_t i = 0; i < lines.n; i++) {
    const jj_str *line = lines.at[i].u.s;
    if (i && !wf_jj_buf_puts(run, &b, "\n")) return false;
    if (i && (blank || line->n) && !wf_jj_buf_add_str(run, &b, indent.u.s)) return false;
    if (!wf_jj_buf_add_str(run, &b, line)) return false;
  }
  *result = wf_jj_buf_done(run, &b);
  return result->kind == JJ_STR;
}

FILTER(truncate) {
  jj_val a[4], s = *v;
  int64_t length = 255, leeway = 5;
  bool kill = false;
  BIND("length,killwords,end,leeway", 0, a);
  if ((a[0].kind && !wf_jj_want_int(run, &a[0], "length", &length)) ||
      (a[1].kind && !wf_jj_truth(run, &a[1], &kill)) ||
      (a[3].kind > JJ_NONE && !wf_jj_want_int(run, &a[3], "leeway", &leeway))) {
    return false;
  }
  const jj_val end = a[2].kind ? a[2] : wf_jj_str_static(run, "...");
  if (end.kind != JJ_STR) return wf_jj_raise(run, "end must be a string");
  const int64_t end_n = (int64_t)end.u.s->n_chars;
  if (length < end_n) return wf_jj_raise(run, "expected length >= the length of end");
  if (leeway < 0) return wf_jj_raise(run, "expected leeway >= 0");
  if (s.kind == JJ_UNDEFINED) {
    *result = s;
    return true;
  }
  if (s.kind != JJ_STR) {
    return wf_jj_raise(run, "object of type '%s' has no len()", wf_jj_type(&s));
  }
  *result = s;
  if (!wf_jj_str_ready(run, &s)) return false;
  if ((int64_t)s.u.s->n_chars <= length + leeway) return true;
  size_t cut = wf_jj_str_offset(s.u.s, (size_t)(length - end_n));
  if (!kill) {
    size_t space = cut;
    while (space > 0 && s.u.s->at[space - 1] != ' ') space--;
    if (space > 0) cut = space - 1;
  }
  const jj_val head = wf_jj_str_sub(run, s.u.s, 0, cut);
  return head.kind && wf_jj_str_concat(run, head.u.s, end.u.s, result);
}

FILTER(center) {
  jj_val a[1], s, method;
  bool unsafe;
  BIND("width", 0, a);
  static const jj_str name = {.at = "center", .n = 6, .n_chars = 6};
  if (!wf_jj_to_str(run, v, &s) || !wf_jj_method(run, &s, &name, &method, &unsafe)) return false;
  jj_val width = a[0].kind ? a[0] : wf_jj_int(80);
  const jj_args one = {.at = &width, .n = 1};
  return wf_jj_call(run, &method, &one, result);
}

FILTER(wordcount) {
  const jj_str *s = no_args(run, args, "wordcount") ? text_of(run, v) : NULL;
  if (!s || !wf_jj_charge(run, s->n / 8)) return false;
  int64_t count = 0;
  bool in_word = false;
  for (size_t i = 0, n; i < s->n; i += n) {
    uint32_t cp;
    n = wf_utf8_decode(s->at + i, s->n - i, &cp);
    if (!n) n = 1;
    const bool word = wf_jj_char_is(cp, 'w');
    count += word && !in_word;
    in_word = word;
  }
  *result = wf_jj_int(count);
  return true;
}

FILTER(safe) {
  jj_val text;
  if (!no_args(run, args, "safe") || !wf_jj_to_str(run, v, &text)) return false;
  jj_str *s = wf_jj_alloc(run, 1, sizeof *s);
  if (!s) return false;
  *s = *text.u.s;
  s->markup = true;
  *result = wf_jj_str(s);
  return true;
}

FILTER(escape) { return no_args(run, args, "escape") && wf_jj_escape(run, v, result); }

FILTER(forceescape) {
  jj_val text;
  if (!no_args(run, args, "forceescape") || !wf_jj_to_str(run, v, &text)) return false;
  jj_str *s = wf_jj_alloc(run, 1, sizeof *s);
  if (!s) return false;
  *s = *text.u.s;
  s->markup = false;
  text = wf_jj_str(s);
  return wf_jj_escape(run, &text, result);
}

FILTER(striptags) {
  const jj_str *s = no_args(run, args, "striptags") ? text_of(run, v) : NULL;
  if (!s) return false;
  jj_buf b = {0};
  bool space = false;
  for (size_t i = 0; i < s->n;) {
    const wf_str rest = {s->at + i, s->n - i};
    if (wf_str_starts(rest, WF_STR("<!--"))) {
      const size_t end = wf_str_find((wf_str){s->at, s->n}, WF_STR("-->"), i);
      if (end != SIZE_MAX) {
        i = end + 3;
        continue;
      }
    } else if (rest.at[0] == '<') {
      const char *end = memchr(rest.at, '>', rest.n);
      if (end) {
        i = (size_t)(end - s->at) + 1;
        continue;
      }
    }
    uint32_t cp;
    size_t n = wf_utf8_decode(rest.at, rest.n, &cp);
    if (!n) n = 1;
    if (wf_jj_is_space(cp)) {
      space = b.n > 0;
    } else {
      if (space && !wf_jj_buf_puts(run, &b, " ")) return false;
      space = false;
      if (!wf_jj_buf_add_range(run, &b, s, i, i + n)) return false;
    }
    i += n;
    if (!wf_jj_charge(run, 1)) return false;
  }
  *result = wf_jj_buf_done(run, &b);
  return result->kind == JJ_STR;
}

static bool put_quoted_url(jj_run *run, jj_buf *b, const jj_val *v, bool for_query) {
  const jj_str *s = text_of(run, v);
  for (size_t i = 0; s && i < s->n; i++) {
    const unsigned char c = (unsigned char)s->at[i];
    const bool mark = s->marks ? s->marks[i] : s->content;
    char text[4];
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       (c && strchr("_.-~", c)) || (c == '/' && !for_query);
    if (plain) {
      snprintf(text, sizeof text, "%c", c);
    } else if (c == ' ' && for_query) {
      snprintf(text, sizeof text, "+");
    } else {
      snprintf(text, sizeof text, "%%%02X", c);
    }
    if (!wf_jj_buf_add(run, b, text, strlen(text), mark)) return false;
  }
  return s != NULL;
}

FILTER(urlencode) {
  jj_buf b = {0};
  if (!no_args(run, args, "urlencode")) return false;
  if (v->kind == JJ_STR || !wf_jj_iterable(v)) {
    if (!put_quoted_url(run, &b, v, false)) return false;
  } else {
    jj_val pairs = *v, item;
    jj_view view = {v->kind == JJ_DICT ? v->u.d : NULL, 'i'};
    if (view.dict) pairs = (jj_val){.kind = JJ_VIEW, .u.view = &view};
    jj_iter it;
    if (!wf_jj_iter_open(run, &pairs, &it)) return false;
    for (int got, i = 0; (got = wf_jj_iter_next(run, &it, &item)) != 0; i++) {
      jj_vals two;
      if (got < 0 || !wf_jj_collect(run, &item, &two)) return false;
      if (two.n != 2) return wf_jj_raise(run, "urlencode takes pairs");
      if ((i && !wf_jj_buf_puts(run, &b, "&")) || !put_quoted_url(run, &b, &two.at[0], true) ||
          !wf_jj_buf_puts(run, &b, "=") || !put_quoted_url(run, &b, &two.at[1], true)) {
        return false;
      }
    }
  }
  *result = wf_jj_buf_done(run, &b);
  return result->kind == JJ_STR;
}

FILTER(filesizeformat) {
  static const char *const units[2][9] = {
      {"Bytes", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"},
      {"Bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}};
  jj_val a[1], number;
  bool binary = false;
  BIND("binary", 0, a);
  if (a[0].kind && !wf_jj_truth(run, &a[0], &binary)) return false;
  const jj_args none = {0};
  if (v->kind != JJ_STR && !wf_jj_is_number(v)) {
    return wf_jj_raise(run, "float() argument must be a string or a real number, not '%s'",
                       wf_jj_type(v));
  }
  double f = 0;
  if (v->kind == JJ_STR) {
    const jj_str *s = wf_jj_flat(run, v->u.s);
    if (!s) return false;
    if (!wf_jj_parse_float(s, &f)) return wf_jj_raise(run, "could not convert string to float");
  } else {
    if (!f_float(run, v, &none, &number)) return false;
    f = number.u.f;
  }
  jj_buf b = {0};
  const double base = binary ? 1024 : 1000;
  if (f == 1) {
    *result = wf_jj_str_static(run, "1 Byte");
    return result->kind == JJ_STR;
  }
  int unit = 0;
  double shown = f;
  if (f < base) {
    if (f < 0 && !wf_jj_buf_puts(run, &b, "-")) return false;
    if (!wf_jj_add_float(run, &b, trunc(f), 'f', 0, false, false)) return false;
  } else {
    for (unit = 1; unit < 8 && f >= pow(base, unit + 1); unit++) {
    }
    shown = base * f / pow(base, unit + 1);
    if (!wf_jj_add_float(run, &b, shown, 'f', 1, false, false)) return false;
  }
  if (!wf_jj_buf_puts(run, &b, " ") || !wf_jj_buf_puts(run, &b, units[binary][unit])) return false;
  *result = wf_jj_buf_done(run, &b);
  return result->kind == JJ_STR;
}

FILTER(xmlattr) {
  jj_val a[1];
  bool autospace = true;
  BIND("autospace", 0, a);
  if (a[0].kind && !wf_jj_truth(run, &a[0], &autospace)) return false;
  if (v->kind != JJ_DICT) return wf_jj_raise(run, "xmlattr takes a dict, not %s", wf_jj_type(v));
  jj_buf b = {0};
  for (size_t i = 0; i < v->u.d->n; i++) {
    jj_val key = v->u.d->keys[i], value = v->u.d->values[i];
    if (value.kind == JJ_NONE || value.kind == JJ_UNDEFINED) continue;
    if (key.kind != JJ_STR) return wf_jj_raise(run, "expected string for an attribute name");
    for (size_t k = 0; k < key.u.s->n; k++) {
      if (key.u.s->at[k] && strchr(" \t\n\r\f\v/>=", key.u.s->at[k])) {
        return wf_jj_raise(run, "Invalid character in attribute name: '%.80s'", key.u.s->at);
      }
    }
    if (!wf_jj_escape(run, &key, &key) || !wf_jj_escape(run, &value, &value)) return false;
    if (((autospace || b.n) && !wf_jj_buf_puts(run, &b, " ")) ||
        !wf_jj_buf_add_str(run, &b, key.u.s) || !wf_jj_buf_puts(run, &b, "=\"") ||
        !wf_jj_buf_add_str(run, &b, value.u.s) || !wf_jj_buf_puts(run, &b, "\"")) {
      return false;
    }
  }
  *result = wf_jj_buf_done(run, &b);
  return result->kind == JJ_STR;
}

/* getattr alone: never an item */
FILTER(attr) {
  jj_val a[1];
  BIND("name", 1, a);
  if (a[0].kind != JJ_STR) return wf_jj_raise(run, "attribute name must be string");
  if (v->kind == JJ_DICT) {
    jj_val method;
    bool unsafe;
    if (wf_jj_method(run, v, a[0].u.s, &method, &unsafe)) {
      *result = method;
      return true;
    }
    if (run->status != WEFT_OK) return false;
    *result = wf_jj_undefined(run, a[0].u.s, v);
    return result->kind == JJ_UNDEFINED;
  }
  return wf_jj_getattr(run, v, a[0].u.s, result);
}

FILTER(wordwrap) {
  /* Breaks at spaces only; words longer than the width are cut (break_long_words). Python's
   * textwrap also breaks at hyphens and keeps a space before a cut word; no known chat template
   * wraps text, so that is left. */
  jj_val a[4];
  int64_t width = 79;
  bool cut_long = true;
  BIND("width,break_long_words,wrapstring,break_on_hyphens", 0, a);
  if ((a[0].kind && !wf_jj_want_int(run, &a[0], "width", &width)) ||
      (a[1].kind && !wf_jj_truth(run, &a[1], &cut_long))) {
    return false;
  }
  if (width <= 0) return wf_jj_raise(run, "invalid width %lld (must be > 0)", (long long)width);
  const jj_val wrap = a[2].kind == JJ_STR ? a[2] : wf_jj_str_static(run, "\n");
  const jj_str *s = wrap.kind ? text_of(run, v) : NULL;
  jj_vals lines;
  if (!s || !wf_jj_splitlines(run, s, false, &lines)) return false;
  jj_buf b = {0};
  for (size_t k = 0; k < lines.n; k++) {
    const jj_str *line = lines.at[k].u.s;
    int64_t column = 0;
    size_t gap = 0; /* where the white space before the next word begins */
    if (k && !wf_jj_buf_add_str(run, &b, wrap.u.s)) return false;
    for (size_t at = 0; at < line->n;) {
      size_t begin = at;
      while (begin < line->n && line->at[begin] == ' ') begin++;
      size_t end = begin;
      while (end < line->n && line->at[end] != ' ') end++;
      if (begin == end) break;
      int64_t word = (int64_t)(wf_jj_str_chars(line, end) - wf_jj_str_chars(line, begin));
      const int64_t space = (int64_t)(begin - gap);
      if (column && column + space + word > width && (word <= width || !cut_long)) {
        if (!wf_jj_buf_add_str(run, &b, wrap.u.s)) return false;
        column = 0;
        gap = begin;
      }
      while (begin < end) {
        const int64_t before = (int64_t)(begin - gap);
        int64_t room = width - column - before;
        if (room < 1 || (!cut_long && room < word)) room = column ? 0 : word;
        if (room < 1) {
          if (!wf_jj_buf_add_str(run, &b, wrap.u.s)) return false;
          column = 0;
          gap = begin;
          continue;
        }
        if (!wf_jj_buf_add_range(run, &b, line, gap, begin)) return false;
        const int64_t take = word < room ? word : room;
        const size_t stop = wf_jj_str_offset(line, wf_jj_str_chars(line, begin) + (size_t)take);
        if (!wf_jj_buf_add_range(run, &b, line, begin, stop)) return false;
        column += before + take;
        word -= take;
        begin = gap = stop;
      }
      at = end;
    }
    if (!wf_jj_charge(run, line->n / 4)) return false;
  }
  *result = wf_jj_buf_done(run, &b);
  return result->kind == JJ_STR;
}

static const jj_filter filters[] = {{"abs", f_abs},
                                    {"attr", f_attr},
                                    {"capitalize", f_capitalize},
                                    {"center", f_center},
                                    {"count", f_length},
                                    {"d", f_default},
                                    {"default", f_default},
                                    {"e", f_escape},
                                    {"escape", f_escape},
                                    {"filesizeformat", f_filesizeformat},
                                    {"float", f_float},
                                    {"forceescape", f_forceescape},
                                    {"format", f_format},
                                    {"indent", f_indent},
                                    {"int", f_int},
                                    {"length", f_length},
                                    {"lower", f_lower},
                                    {"replace", f_replace},
                                    {"round", f_round},
                                    {"safe", f_safe},
                                    {"string", f_string},
                                    {"striptags", f_striptags},
                                    {"title", f_title},
                                    {"tojson", f_tojson},
                                    {"trim", f_trim},
                                    {"truncate", f_truncate},
                                    {"upper", f_upper},
                                    {"urlencode", f_urlencode},
                                    {"wordcount", f_wordcount},
                                    {"wordwrap", f_wordwrap},
                                    {"xmlattr", f_xmlattr}};

const jj_filter *wf_jj_filter(const char *name, size_t n) {
  for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
    if (strlen(filters[i].name) == n && memcmp(filters[i].name, name, n) == 0) return &filters[i];
  }
  return wf_jj_seqfilter(name, n);
}
