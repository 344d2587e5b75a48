/* SPDX-License-Identifier: Apache-2.0 */
/* Methods of str, list, tuple, dict and the small helper objects. */
#include <math.h>

#include "base/utf8.h"
#include "text/jinja.h"

static bool want_str(jj_run *run, const jj_val *v, const char *what) {
  if (v->kind == JJ_STR) return true;
  return wf_jj_raise(run, "%s must be str, not %s", what, wf_jj_type(v));
}

/* -- str -- */

#define METHOD(name) \
  static bool name(jj_run *run, const jj_val *self, const jj_args *args, jj_val *result)

static bool no_args(jj_run *run, const jj_args *args, const char *name) {
  return args->n + args->n_named == 0 || wf_jj_raise(run, "%s() takes no arguments", name);
}

#define CASE_METHOD(name, how)                                                   \
  METHOD(str_##name) {                                                           \
    return no_args(run, args, #name) && wf_jj_case(run, self->u.s, how, result); \
  }
CASE_METHOD(upper, 'u')
CASE_METHOD(lower, 'l')
CASE_METHOD(capitalize, 'c')
CASE_METHOD(title, 't')
CASE_METHOD(swapcase, 's')
CASE_METHOD(casefold, 'f')

#define STRIP_METHOD(name, sides)                             \
  METHOD(str_##name) {                                        \
    jj_val a[1];                                              \
    return wf_jj_args(run, args, #name, "chars", 0, a) &&     \
           wf_jj_strip(run, self->u.s, &a[0], sides, result); \
  }
STRIP_METHOD(strip, 3)
STRIP_METHOD(lstrip, 1)
STRIP_METHOD(rstrip, 2)

METHOD(str_replace) {
  jj_val a[3];
  int64_t count = -1;
  if (!wf_jj_args(run, args, "replace", "old,new,count", 2, a) ||
      !want_str(run, &a[0], "replace() argument 1") ||
      !want_str(run, &a[1], "replace() argument 2") ||
      (a[2].kind && !wf_jj_want_int(run, &a[2], "replace", &count))) {
    return false;
  }
  return wf_jj_replace(run, self->u.s, a[0].u.s, a[1].u.s, count, result);
}

/* The part [start, end) of a string that find, count and startswith look at, in bytes. Returns
 * false in *valid when start lies past the end. */
static bool window(jj_run *run, const jj_str *s, const jj_val *start, const jj_val *end,
                   size_t *begin, size_t *stop, bool *valid) {
  int64_t n = (int64_t)s->n_chars, from = 0, to = n;
  if (start->kind > JJ_NONE && !wf_jj_want_int(run, start, "start", &from)) return false;
  if (end->kind > JJ_NONE && !wf_jj_want_int(run, end, "end", &to)) return false;
  if (from < 0) from = from + n < 0 ? 0 : from + n;
  if (to < 0) to = to + n < 0 ? 0 : to + n;
  if (to > n) to = n;
  *valid = from <= n && from <= to;
  *begin = wf_jj_str_offset(s, from > n ? s->n_chars : (size_t)from);
  *stop = wf_jj_str_offset(s, (size_t)to);
  return wf_jj_charge(run, s->n / 32);
}

/* The last hit, scanning backwards; the caller has charged for it. */
static size_t find_last(wf_str s, wf_str needle) {
  if (needle.n > s.n) return SIZE_MAX;
  for (size_t at = s.n - needle.n + 1; at-- > 0;) {
    if (memcmp(s.at + at, needle.at, needle.n) == 0) return at;
  }
  return SIZE_MAX;
}

/* What a backwards search may cost: it compares at every place. */
static bool charge_last(jj_run *run, const jj_str *s, const jj_str *needle) {
  return wf_jj_charge(run, s->n / 16 * (needle->n / 16 + 1));
}

static bool find_in(jj_run *run, const jj_val *self, const jj_args *args, const char *name,
                    bool last, int64_t *at) {
  jj_val a[3];
  size_t begin, end;
  bool valid;
  const jj_str *s = self->u.s;
  *at = -1;
  if (!wf_jj_args(run, args, name, "sub,start,end", 1, a) || !want_str(run, &a[0], name) ||
      !window(run, s, &a[1], &a[2], &begin, &end, &valid)) {
    return false;
  }
  if (!valid || (last && !charge_last(run, s, a[0].u.s))) return run->status == WEFT_OK;
  const wf_str part = {s->at + begin, end - begin}, needle = {a[0].u.s->at, a[0].u.s->n};
  const size_t hit = last ? find_last(part, needle) : wf_str_find(part, needle, 0);
  if (hit != SIZE_MAX) *at = (int64_t)wf_jj_str_chars(s, begin + hit);
  return true;
}

#define FIND_METHOD(name, last, must)                                   \
  METHOD(str_##name) {                                                  \
    int64_t at;                                                         \
    if (!find_in(run, self, args, #name, last, &at)) return false;      \
    if (must && at < 0) return wf_jj_raise(run, "substring not found"); \
    *result = wf_jj_int(at);                                            \
    return true;                                                        \
  }
FIND_METHOD(find, false, false)
FIND_METHOD(rfind, true, false)
FIND_METHOD(index, false, true)
FIND_METHOD(rindex, true, true)

METHOD(str_count) {
  jj_val a[3];
  size_t begin, end;
  bool valid;
  const jj_str *s = self->u.s;
  if (!wf_jj_args(run, args, "count", "sub,start,end", 1, a) || !want_str(run, &a[0], "count") ||
      !window(run, s, &a[1], &a[2], &begin, &end, &valid)) {
    return false;
  }
  int64_t count = 0;
  const wf_str part = {s->at + begin, end - begin}, needle = {a[0].u.s->at, a[0].u.s->n};
  if (valid && !needle.n)
    count = (int64_t)(wf_jj_str_chars(s, end) - wf_jj_str_chars(s, begin)) + 1;
  for (size_t at = 0; valid && needle.n && (at = wf_str_find(part, needle, at)) != SIZE_MAX;) {
    count++;
    at += needle.n;
  }
  *result = wf_jj_int(count);
  return true;
}

static bool affix(jj_run *run, const jj_val *self, const jj_args *args, bool at_end,
                  jj_val *result) {
  jj_val a[3];
  size_t begin, end;
  bool valid, hit = false;
  const char *name = at_end ? "endswith" : "startswith";
  if (!wf_jj_args(run, args, name, "prefix,start,end", 1, a) ||
      !window(run, self->u.s, &a[1], &a[2], &begin, &end, &valid)) {
    return false;
  }
  const wf_str part = {self->u.s->at + begin, valid ? end - begin : 0};
  jj_val *options = &a[0];
  size_t n = 1;
  if (a[0].kind == JJ_TUPLE) {
    options = a[0].u.l->at;
    n = a[0].u.l->n;
  }
  for (size_t i = 0; i < n && !hit; i++) {
    jj_val x = options[i];
    if (x.kind != JJ_STR) {
      return wf_jj_raise(run, "%s first arg must be str or a tuple of str, not %s", name,
                         wf_jj_type(&x));
    }
    if (!wf_jj_str_ready(run, &x)) return false;
    const wf_str t = {x.u.s->at, x.u.s->n};
    hit = valid && (at_end ? wf_str_ends(part, t) : wf_str_starts(part, t));
  }
  *result = wf_jj_bool(hit);
  return true;
}
METHOD(str_startswith) { return affix(run, self, args, false, result); }
METHOD(str_endswith) { return affix(run, self, args, true, result); }

/* Pieces between runs of white space; at most `max` cuts (negative: all). */
static bool split_space(jj_run *run, const jj_str *s, int64_t max, bool from_right, jj_vals *out) {
  size_t at = 0, end = s->n;
  uint32_t cp;
  if (from_right) {
    for (;; max--) {
      while (end > 0 && (wf_jj_char_length(s, wf_jj_previous(s, end), &cp), wf_jj_is_space(cp))) {
        end = wf_jj_previous(s, end);
      }
      if (end == 0) break;
      size_t begin = max == 0 ? 0 : end;
      while (begin > 0 &&
             (wf_jj_char_length(s, wf_jj_previous(s, begin), &cp), !wf_jj_is_space(cp))) {
        begin = wf_jj_previous(s, begin);
      }
      const jj_val piece = wf_jj_str_sub(run, s, begin, end);
      if (!piece.kind || !wf_jj_push(run, out, piece)) return false;
      end = begin;
    }
    for (size_t i = 0; i < out->n / 2; i++) {
      const jj_val swap = out->at[i];
      out->at[i] = out->at[out->n - 1 - i];
      out->at[out->n - 1 - i] = swap;
    }
    return true;
  }
  for (;; max--) {
    for (size_t n; at < s->n && (n = wf_jj_char_length(s, at, &cp), wf_jj_is_space(cp)); at += n) {
    }
    if (at >= s->n) return true;
    size_t stop = max == 0 ? s->n : at;
    for (size_t n; stop < s->n && (n = wf_jj_char_length(s, stop, &cp), !wf_jj_is_space(cp));
         stop += n) {
    }
    const jj_val piece = wf_jj_str_sub(run, s, at, stop);
    if (!piece.kind || !wf_jj_push(run, out, piece)) return false;
    at = stop;
  }
}

static bool split_sep(jj_run *run, const jj_str *s, const jj_str *sep, int64_t max, bool from_right,
                      jj_vals *out) {
  const wf_str needle = {sep->at, sep->n};
  size_t at = 0, end = s->n;
  if (from_right && !charge_last(run, s, sep)) return false;
  for (; from_right; max--) {
    const size_t hit = max == 0 ? SIZE_MAX : find_last((wf_str){s->at, end}, needle);
    const jj_val piece = wf_jj_str_sub(run, s, hit == SIZE_MAX ? 0 : hit + needle.n, end);
    if (!piece.kind || !wf_jj_push(run, out, piece)) return false;
    if (hit == SIZE_MAX) break;
    end = hit;
  }
  for (; !from_right; max--) {
    const size_t hit = max == 0 ? SIZE_MAX : wf_str_find((wf_str){s->at, s->n}, needle, at);
    const jj_val piece = wf_jj_str_sub(run, s, at, hit == SIZE_MAX ? s->n : hit);
    if (!piece.kind || !wf_jj_push(run, out, piece)) return false;
    if (hit == SIZE_MAX) return true;
    at = hit + needle.n;
  }
  for (size_t i = 0; i < out->n / 2; i++) {
    const jj_val swap = out->at[i];
    out->at[i] = out->at[out->n - 1 - i];
    out->at[out->n - 1 - i] = swap;
  }
  return true;
}

static bool split(jj_run *run, const jj_val *self, const jj_args *args, bool from_right,
                  jj_val *result) {
  jj_val a[2];
  int64_t max = -1;
  jj_vals out = {0};
  if (!wf_jj_args(run, args, from_right ? "rsplit" : "split", "sep,maxsplit", 0, a) ||
      (a[1].kind && !wf_jj_want_int(run, &a[1], "maxsplit", &max)) ||
      !wf_jj_charge(run, self->u.s->n / 16)) {
    return false;
  }
  if (a[0].kind == JJ_STR) {
    if (a[0].u.s->n == 0) return wf_jj_raise(run, "empty separator");
    if (!split_sep(run, self->u.s, a[0].u.s, max, from_right, &out)) return false;
  } else if (a[0].kind == JJ_MISSING || a[0].kind == JJ_NONE) {
    if (!split_space(run, self->u.s, max, from_right, &out)) return false;
  } else {
    return wf_jj_raise(run, "must be str or None, not %s", wf_jj_type(&a[0]));
  }
  *result = wf_jj_list(run, JJ_LIST, out.at, out.n);
  return result->kind == JJ_LIST;
}
METHOD(str_split) { return split(run, self, args, false, result); }
METHOD(str_rsplit) { return split(run, self, args, true, result); }

METHOD(str_splitlines) {
  jj_val a[1];
  bool keep = false;
  jj_vals lines;
  if (!wf_jj_args(run, args, "splitlines", "keepends", 0, a) ||
      (a[0].kind && !wf_jj_truth(run, &a[0], &keep)) ||
      !wf_jj_splitlines(run, self->u.s, keep, &lines)) {
    return false;
  }
  *result = wf_jj_list(run, JJ_LIST, lines.at, lines.n);
  return result->kind == JJ_LIST;
}

static bool partition(jj_run *run, const jj_val *self, const jj_args *args, bool last,
                      jj_val *result) {
  jj_val a[1];
  const jj_str *s = self->u.s;
  if (!wf_jj_args(run, args, "partition", "sep", 1, a) || !want_str(run, &a[0], "separator")) {
    return false;
  }
  const wf_str needle = {a[0].u.s->at, a[0].u.s->n};
  if (!needle.n) return wf_jj_raise(run, "empty separator");
  if (last && !charge_last(run, s, a[0].u.s)) return false;
  const size_t hit = last ? find_last((wf_str){s->at, s->n}, needle)
                          : wf_str_find((wf_str){s->at, s->n}, needle, 0);
  jj_val *at = wf_jj_alloc(run, 3, sizeof *at);
  const jj_val empty = wf_jj_str_static(run, "");
  if (!at || !empty.kind) return false;
  at[0] = at[1] = at[2] = empty;
  if (hit == SIZE_MAX) {
    at[last ? 2 : 0] = *self;
  } else {
    at[0] = wf_jj_str_sub(run, s, 0, hit);
    at[1] = a[0];
    at[2] = wf_jj_str_sub(run, s, hit + needle.n, s->n);
    if (!at[0].kind || !at[2].kind) return false;
  }
  *result = wf_jj_list(run, JJ_TUPLE, at, 3);
  return result->kind == JJ_TUPLE;
}
METHOD(str_partition) { return partition(run, self, args, false, result); }
METHOD(str_rpartition) { return partition(run, self, args, true, result); }

METHOD(str_join) {
  jj_val a[1];
  return wf_jj_args(run, args, "join", "iterable", 1, a) &&
         wf_jj_join(run, self->u.s, &a[0], false, result);
}

METHOD(str_format) { return wf_jj_str_format(run, self->u.s, args, result); }

METHOD(str_format_map) {
  jj_args named = {0};
  if (args->n != 1 || args->n_named || args->at[0].kind != JJ_DICT) {
    return wf_jj_raise(run, "format_map() takes one dict");
  }
  const jj_dict *d = args->at[0].u.d;
  named.names = wf_jj_alloc(run, d->n, sizeof *named.names);
  named.values = d->values;
  if (!named.names) return false;
  for (size_t i = 0; i < d->n; i++) {
    if (d->keys[i].kind != JJ_STR) return wf_jj_raise(run, "format_map() takes string keys");
    named.names[i] = d->keys[i].u.s;
  }
  named.n_named = d->n;
  return wf_jj_str_format(run, self->u.s, &named, result);
}

static bool remove_affix(jj_run *run, const jj_val *self, const jj_args *args, bool at_end,
                         jj_val *result) {
  jj_val a[1];
  if (!wf_jj_args(run, args, "removeprefix", "prefix", 1, a) || !want_str(run, &a[0], "prefix")) {
    return false;
  }
  const wf_str s = {self->u.s->at, self->u.s->n}, t = {a[0].u.s->at, a[0].u.s->n};
  size_t begin = 0, end = s.n;
  if (!at_end && wf_str_starts(s, t)) begin = t.n;
  if (at_end && wf_str_ends(s, t)) end -= t.n;
  *result = wf_jj_str_sub(run, self->u.s, begin, end);
  return result->kind == JJ_STR;
}
METHOD(str_removeprefix) { return remove_affix(run, self, args, false, result); }
METHOD(str_removesuffix) { return remove_affix(run, self, args, true, result); }

/* how: 'l' text left, 'r' text right, 'c' centred, 'z' zeros after the sign */
static bool pad(jj_run *run, const jj_val *self, const jj_args *args, char how, jj_val *result) {
  jj_val a[2];
  int64_t width;
  const jj_str *s = self->u.s;
  if (!wf_jj_args(run, args, "ljust", how == 'z' ? "width" : "width,fillchar", 1, a) ||
      !wf_jj_want_int(run, &a[0], "width", &width)) {
    return false;
  }
  jj_val fill = how == 'z' || !a[1].kind ? wf_jj_str_static(run, how == 'z' ? "0" : " ") : a[1];
  if (!fill.kind) return false;
  if (fill.kind != JJ_STR || fill.u.s->n_chars != 1) {
    return wf_jj_raise(run, "The fill character must be exactly one character long");
  }
  const int64_t more = width - (int64_t)s->n_chars;
  if (more <= 0) {
    *result = *self;
    return true;
  }
  if ((size_t)more > run->heap.limit || !wf_jj_charge(run, (uint64_t)more)) {
    return wf_jj_raise(run, "a width of %lld", (long long)width);
  }
  const int64_t left = how == 'l' ? 0 : how == 'c' ? more / 2 + (more & width & 1) : more;
  const size_t sign = how == 'z' && s->n && (s->at[0] == '-' || s->at[0] == '+');
  jj_buf b = {0};
  if (!wf_jj_buf_add_range(run, &b, s, 0, sign)) return false;
  for (int64_t i = 0; i < left; i++) {
    if (!wf_jj_buf_add_str(run, &b, fill.u.s)) return false;
  }
  if (!wf_jj_buf_add_range(run, &b, s, sign, s->n)) return false;
  for (int64_t i = left; i < more; i++) {
    if (!wf_jj_buf_add_str(run, &b, fill.u.s)) return false;
  }
  *result = wf_jj_buf_done(run, &b);
  return result->kind == JJ_STR;
}
METHOD(str_ljust) { return pad(run, self, args, 'l', result); }
METHOD(str_rjust) { return pad(run, self, args, 'r', result); }
METHOD(str_center) { return pad(run, self, args, 'c', result); }
METHOD(str_zfill) { return pad(run, self, args, 'z', result); }

METHOD(str_expandtabs) {
  jj_val a[1];
  int64_t size = 8, column = 0;
  const jj_str *s = self->u.s;
  jj_buf b = {0};
  if (!wf_jj_args(run, args, "expandtabs", "tabsize", 0, a) ||
      (a[0].kind && !wf_jj_want_int(run, &a[0], "tabsize", &size))) {
    return false;
  }
  if (size > 10000) return wf_jj_raise(run, "a tab size of more than 10000");
  for (size_t i = 0; i < s->n; i++) {
    if (s->at[i] == '\t') {
      for (int64_t k = size > 0 ? size - column % size : 0; k > 0; k--, column++) {
        if (!wf_jj_buf_add(run, &b, " ", 1, s->marks ? s->marks[i] : s->content)) return false;
      }
      continue;
    }
    if (((unsigned char)s->at[i] & 0xc0) != 0x80) column++;
    if (s->at[i] == '\n' || s->at[i] == '\r') column = 0;
    if (!wf_jj_buf_add_range(run, &b, s, i, i + 1)) return false;
  }
  *result = wf_jj_buf_done(run, &b);
  return result->kind == JJ_STR;
}

/* True when the string has a character and each is of the class. */
static bool all_chars(const jj_str *s, char what) {
  uint32_t cp;
  for (size_t i = 0; i < s->n; i += wf_jj_char_length(s, i, &cp)) {
    wf_jj_char_length(s, i, &cp);
    const bool ok = what == ' '   ? wf_jj_is_space(cp)
                    : what == 'A' ? wf_jj_char_is(cp, 'a') || wf_jj_char_is(cp, 'n')
                    : what == '7' ? cp < 0x80
                                  : wf_jj_char_is(cp, what);
    if (!ok) return false;
  }
  return s->n > 0 || what == '7' || what == 'p';
}

/* islower, isupper: at least one cased character and none of the other case */
static bool cased(const jj_str *s, char wanted) {
  bool found = false;
  uint32_t cp;
  for (size_t i = 0; i < s->n; i += wf_jj_char_length(s, i, &cp)) {
    wf_jj_char_length(s, i, &cp);
    if (wf_jj_char_is(cp, wanted)) {
      found = true;
    } else if (wf_jj_char_is(cp, 'c')) {
      return false;
    }
  }
  return found;
}

static bool is_titled(const jj_str *s) {
  bool found = false, in_word = false;
  uint32_t cp;
  for (size_t i = 0; i < s->n; i += wf_jj_char_length(s, i, &cp)) {
    wf_jj_char_length(s, i, &cp);
    const bool upper = wf_jj_char_is(cp, 'u') || wf_jj_char_is(cp, 't');
    const bool lower = wf_jj_char_is(cp, 'l');
    if ((upper && in_word) || (lower && !in_word)) return false;
    in_word = upper || lower;
    found |= in_word;
  }
  return found;
}

static bool is_identifier(const jj_str *s) {
  uint32_t cp;
  if (!s->n) return false;
  for (size_t i = 0; i < s->n; i += wf_jj_char_length(s, i, &cp)) {
    wf_jj_char_length(s, i, &cp);
    if (!(cp == '_' || wf_jj_char_is(cp, 'a') || (i && wf_jj_char_is(cp, 'd')))) return false;
  }
  return true;
}

#define IS_METHOD(name, test)                                                      \
  METHOD(str_##name) {                                                             \
    const jj_str *s = self->u.s;                                                   \
    if (!no_args(run, args, #name) || !wf_jj_charge(run, s->n / 16)) return false; \
    *result = wf_jj_bool(test);                                                    \
    return true;                                                                   \
  }
IS_METHOD(isalpha, all_chars(s, 'a'))
IS_METHOD(isalnum, all_chars(s, 'A'))
IS_METHOD(isascii, all_chars(s, '7'))
IS_METHOD(isdecimal, all_chars(s, 'd'))
IS_METHOD(isdigit, all_chars(s, 'D'))
IS_METHOD(isnumeric, all_chars(s, 'n'))
IS_METHOD(isspace, all_chars(s, ' '))
IS_METHOD(isprintable, all_chars(s, 'p'))
IS_METHOD(islower, cased(s, 'l'))
IS_METHOD(isupper, cased(s, 'u'))
IS_METHOD(istitle, is_titled(s))
IS_METHOD(isidentifier, is_identifier(s))

/* -- list, tuple, range -- */

METHOD(list_count) {
  jj_val a[1], item;
  jj_iter it;
  int64_t count = 0;
  if (!wf_jj_args(run, args, "count", "value", 1, a) || !wf_jj_iter_open(run, self, &it)) {
    return false;
  }
  for (int got; (got = wf_jj_iter_next(run, &it, &item)) != 0;) {
    const int eq = got < 0 ? -1 : wf_jj_equal(run, &item, &a[0]);
    if (eq < 0) return false;
    count += eq;
  }
  *result = wf_jj_int(count);
  return true;
}

METHOD(list_index) {
  jj_val a[3], item;
  jj_iter it;
  int64_t start = 0, stop = INT64_MAX, i = 0;
  const int64_t n = wf_jj_length(run, self);
  if (!wf_jj_args(run, args, "index", "value,start,stop", 1, a) ||
      (a[1].kind && !wf_jj_want_int(run, &a[1], "start", &start)) ||
      (a[2].kind && !wf_jj_want_int(run, &a[2], "stop", &stop)) ||
      !wf_jj_iter_open(run, self, &it)) {
    return false;
  }
  if (start < 0) start += n;
  if (stop < 0) stop += n;
  for (int got; (got = wf_jj_iter_next(run, &it, &item)) != 0; i++) {
    const int eq = got < 0 ? -1 : i >= start && i < stop ? wf_jj_equal(run, &item, &a[0]) : 0;
    if (eq < 0) return false;
    if (eq) {
      *result = wf_jj_int(i);
      return true;
    }
  }
  return wf_jj_raise(run, "value is not in %s", wf_jj_type(self));
}

METHOD(list_copy) {
  *result = *self;
  return no_args(run, args, "copy");
}

/* -- dict -- */

METHOD(dict_get) {
  jj_val a[2];
  if (!wf_jj_args(run, args, "get", "key,default", 1, a)) return false;
  *result = a[1].kind ? a[1] : wf_jj_none();
  return wf_jj_dict_get(run, self->u.d, &a[0], result) >= 0;
}

static bool dict_view(jj_run *run, const jj_val *self, int kind, jj_val *result) {
  jj_view *v = wf_jj_alloc(run, 1, sizeof *v);
  if (!v) return false;
  *v = (jj_view){self->u.d, kind};
  *result = (jj_val){.kind = JJ_VIEW, .u.view = v};
  return true;
}
METHOD(dict_keys) { return no_args(run, args, "keys") && dict_view(run, self, 'k', result); }
METHOD(dict_values) { return no_args(run, args, "values") && dict_view(run, self, 'v', result); }
METHOD(dict_items) { return no_args(run, args, "items") && dict_view(run, self, 'i', result); }

METHOD(dict_fromkeys) {
  jj_val a[2];
  jj_vals keys;
  (void)self;
  if (!wf_jj_args(run, args, "fromkeys", "iterable,value", 1, a) ||
      !wf_jj_collect(run, &a[0], &keys)) {
    return false;
  }
  jj_dict *d = wf_jj_dict(run, keys.n);
  for (size_t i = 0; d && i < keys.n; i++) {
    if (!wf_jj_dict_set(run, d, keys.at[i], a[1].kind ? a[1] : wf_jj_none())) return false;
  }
  *result = (jj_val){.kind = JJ_DICT, .u.d = d};
  return d != NULL;
}

/* -- loop, cycler -- */

METHOD(loop_cycle) {
  if (args->n == 0) return wf_jj_raise(run, "no items for cycling given");
  static const jj_str index0 = {.at = "index0", .n = 6, .n_chars = 6};
  jj_val i;
  bool found;
  if (!wf_jj_loop_attr(run, self->u.loop, &index0, &i, &found)) return false;
  *result = args->at[(size_t)i.u.i % args->n];
  return true;
}

METHOD(loop_changed) {
  static const jj_str last = {.at = "\1changed", .n = 8, .n_chars = 8};
  jj_val before, *at = wf_jj_alloc(run, args->n, sizeof *at);
  bool found;
  if (!at) return false;
  if (args->n) memcpy(at, args->at, args->n * sizeof *at);
  jj_val now = wf_jj_list(run, JJ_TUPLE, at, args->n);
  before = now; /* in: the new value, out: the old one */
  if (!now.kind || !wf_jj_loop_attr(run, self->u.loop, &last, &before, &found)) return false;
  const int eq = before.kind == JJ_MISSING ? 0 : wf_jj_equal(run, &before, &now);
  *result = wf_jj_bool(eq == 0);
  return eq >= 0;
}

METHOD(cycler_next) {
  jj_cycler *c = self->u.cycler;
  *result = c->items->at[c->at];
  c->at = (c->at + 1) % c->items->n;
  return no_args(run, args, "next");
}

METHOD(cycler_reset) {
  self->u.cycler->at = 0;
  *result = wf_jj_none();
  return no_args(run, args, "reset");
}

METHOD(number_is_integer) {
  const double f = self->u.f;
  *result = wf_jj_bool(isfinite(f) && floor(f) == f);
  return no_args(run, args, "is_integer");
}

typedef struct method_entry {
  const char *name;
  bool (*call)(jj_run *run, const jj_val *self, const jj_args *args, jj_val *result);
} method_entry;

static const method_entry str_methods[] = {{"capitalize", str_capitalize},
                                           {"casefold", str_casefold},
                                           {"center", str_center},
                                           {"count", str_count},
                                           {"endswith", str_endswith},
                                           {"expandtabs", str_expandtabs},
                                           {"find", str_find},
                                           {"format", str_format},
                                           {"format_map", str_format_map},
                                           {"index", str_index},
                                           {"isalnum", str_isalnum},
                                           {"isalpha", str_isalpha},
                                           {"isascii", str_isascii},
                                           {"isdecimal", str_isdecimal},
                                           {"isdigit", str_isdigit},
                                           {"isidentifier", str_isidentifier},
                                           {"islower", str_islower},
                                           {"isnumeric", str_isnumeric},
                                           {"isprintable", str_isprintable},
                                           {"isspace", str_isspace},
                                           {"istitle", str_istitle},
                                           {"isupper", str_isupper},
                                           {"join", str_join},
                                           {"ljust", str_ljust},
                                           {"lower", str_lower},
                                           {"lstrip", str_lstrip},
                                           {"partition", str_partition},
                                           {"removeprefix", str_removeprefix},
                                           {"removesuffix", str_removesuffix},
                                           {"replace", str_replace},
                                           {"rfind", str_rfind},
                                           {"rindex", str_rindex},
                                           {"rjust", str_rjust},
                                           {"rpartition", str_rpartition},
                                           {"rsplit", str_rsplit},
                                           {"rstrip", str_rstrip},
                                           {"split", str_split},
                                           {"splitlines", str_splitlines},
                                           {"startswith", str_startswith},
                                           {"strip", str_strip},
                                           {"swapcase", str_swapcase},
                                           {"title", str_title},
                                           {"upper", str_upper},
                                           {"zfill", str_zfill},
                                           {NULL, NULL}};
static const method_entry list_methods[] = {
    {"count", list_count}, {"index", list_index}, {"copy", list_copy}, {NULL, NULL}};
static const method_entry tuple_methods[] = {
    {"count", list_count}, {"index", list_index}, {NULL, NULL}};
static const method_entry dict_methods[] = {
    {"get", dict_get},     {"keys", dict_keys}, {"values", dict_values},
    {"items", dict_items}, {"copy", list_copy}, {"fromkeys", dict_fromkeys},
    {NULL, NULL}};
static const method_entry loop_methods[] = {
    {"cycle", loop_cycle}, {"changed", loop_changed}, {NULL, NULL}};
static const method_entry cycler_methods[] = {
    {"next", cycler_next}, {"reset", cycler_reset}, {NULL, NULL}};
static const method_entry float_methods[] = {{"is_integer", number_is_integer}, {NULL, NULL}};

/* What the immutable sandbox refuses to hand out. */
static bool is_mutator(const jj_val *o, wf_str name) {
  static const char *const list_names[] = {"append", "clear",  "pop",    "reverse", "insert",
                                           "sort",   "extend", "remove", NULL};
  static const char *const dict_names[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
  const char *const *names = o->kind == JJ_LIST   ? list_names
                             : o->kind == JJ_DICT ? dict_names
                                                  : NULL;
  for (; names && *names; names++) {
    if (wf_str_is(name, *names)) return true;
  }
  return false;
}

bool wf_jj_method(jj_run *run, const jj_val *o, const jj_str *name, jj_val *result, bool *unsafe) {
  const method_entry *m = NULL;
  const wf_str n = {name->at, name->n};
  if (o->kind == JJ_STR) m = str_methods;
  if (o->kind == JJ_LIST) m = list_methods;
  if (o->kind == JJ_TUPLE || o->kind == JJ_RANGE) m = tuple_methods;
  if (o->kind == JJ_DICT) m = dict_methods;
  if (o->kind == JJ_LOOP) m = loop_methods;
  if (o->kind == JJ_CYCLER) m = cycler_methods;
  if (o->kind == JJ_FLOAT) m = float_methods;
  if (o->kind == JJ_FUNCTION && strcmp(o->u.fn->name, "dict") == 0) m = &dict_methods[5];
  *unsafe = is_mutator(o, n);
  for (; m && m->name; m++) {
    if (!wf_str_is(n, m->name)) continue;
    jj_method *bound = wf_jj_alloc(run, 1, sizeof *bound);
    if (!bound) return false;
    *bound = (jj_method){.self = *o, .name = m->name, .call = m->call};
    if (!wf_jj_str_ready(run, &bound->self)) return false;
    *result = (jj_val){.kind = JJ_METHOD, .u.method = bound};
    return true;
  }
  return false;
}
