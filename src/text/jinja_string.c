/* SPDX-License-Identifier: Apache-2.0 */
/* What methods and filters share: the binding of arguments, and string work by characters. */
#include "base/utf8.h"
#include "text/jinja.h"

/* -- arguments -- */

/* Index of `name` in "a,b,c", -1 when absent; *count gets the number of parameters. */
static int param_index(const char *params, const jj_str *name, int *count) {
  int found = -1;
  *count = 0;
  for (const char *p = params; *p; (*count)++) {
    const char *end = strchr(p, ',');
    const size_t n = end ? (size_t)(end - p) : strlen(p);
    if (name && n == name->n && memcmp(p, name->at, n) == 0) found = *count;
    p += n + (end != NULL);
  }
  return found;
}

bool wf_jj_args(jj_run *run, const jj_args *args, const char *name, const char *params,
                size_t n_required, jj_val *out) {
  int count;
  param_index(params, NULL, &count);
  for (int i = 0; i < count; i++) out[i] = (jj_val){.kind = JJ_MISSING};
  if (args->n > (size_t)count) {
    return wf_jj_raise(run, "%s() takes at most %d argument(s), %zu given", name, count, args->n);
  }
  for (size_t i = 0; i < args->n; i++) out[i] = args->at[i];
  for (size_t i = 0; i < args->n_named; i++) {
    const int at = param_index(params, args->names[i], &count);
    if (at < 0) {
      return wf_jj_raise(run, "%s() got an unexpected keyword argument '%.60s'", name,
                         args->names[i]->at);
    }
    if (out[at].kind != JJ_MISSING) {
      return wf_jj_raise(run, "%s() got multiple values for argument '%.60s'", name,
                         args->names[i]->at);
    }
    out[at] = args->values[i];
  }
  for (size_t i = 0; i < n_required; i++) {
    if (out[i].kind == JJ_MISSING) {
      return wf_jj_raise(run, "%s() misses required argument %zu of (%s)", name, i + 1, params);
    }
  }
  for (int i = 0; i < count; i++) {
    if (!wf_jj_str_ready(run, &out[i])) return false;
  }
  return true;
}

bool wf_jj_want_int(jj_run *run, const jj_val *v, const char *what, int64_t *result) {
  if (v->kind == JJ_UNDEFINED) return wf_jj_raise_undefined(run, v);
  if (v->kind != JJ_INT && v->kind != JJ_BOOL) {
    return wf_jj_raise(run, "%s: '%s' object cannot be interpreted as an integer", what,
                       wf_jj_type(v));
  }
  *result = v->kind == JJ_BOOL ? v->u.b : v->u.i;
  return true;
}

/* -- shared string work -- */

size_t wf_jj_char_length(const jj_str *s, size_t at, uint32_t *cp) {
  const size_t n = wf_utf8_decode(s->at + at, s->n - at, cp);
  return n ? n : 1;
}

size_t wf_jj_previous(const jj_str *s, size_t at) {
  do {
    at--;
  } while (at > 0 && ((unsigned char)s->at[at] & 0xc0) == 0x80);
  return at;
}

static bool strips(const jj_str *chars, const jj_str *s, size_t at, size_t n, uint32_t cp) {
  if (!chars) return wf_jj_is_space(cp);
  return wf_str_find((wf_str){chars->at, chars->n}, (wf_str){s->at + at, n}, 0) != SIZE_MAX;
}

bool wf_jj_strip(jj_run *run, const jj_str *s, const jj_val *chars, int sides, jj_val *result) {
  const jj_str *set = NULL;
  s = wf_jj_flat(run, s);
  if (!s) return false;
  if (chars->kind == JJ_STR) {
    set = wf_jj_flat(run, chars->u.s);
    if (!set || !wf_jj_charge(run, s->n / 64 * (set->n / 16 + 1))) return false;
  } else if (chars->kind != JJ_MISSING && chars->kind != JJ_NONE) {
    return wf_jj_raise(run, "strip arg must be None or str");
  }
  size_t begin = 0, end = s->n;
  uint32_t cp;
  while ((sides & 1) && begin < end) {
    const size_t n = wf_jj_char_length(s, begin, &cp);
    if (!strips(set, s, begin, n, cp)) break;
    begin += n;
  }
  while ((sides & 2) && end > begin) {
    const size_t from = wf_jj_previous(s, end);
    wf_jj_char_length(s, from, &cp);
    if (!strips(set, s, from, end - from, cp)) break;
    end = from;
  }
  *result = wf_jj_str_sub(run, s, begin, end);
  return result->kind == JJ_STR;
}

bool wf_jj_replace(jj_run *run, const jj_str *s, const jj_str *old, const jj_str *with,
                   int64_t count, jj_val *result) {
  s = wf_jj_flat(run, s);
  old = s ? wf_jj_flat(run, old) : NULL;
  with = old ? wf_jj_flat(run, with) : NULL;
  if (!with || !wf_jj_charge(run, s->n / 32)) return false;
  jj_buf b = {0};
  size_t at = 0;
  const wf_str hay = {s->at, s->n}, needle = {old->at, old->n};
  while (count != 0) {
    size_t hit = old->n ? wf_str_find(hay, needle, at) : at;
    if (hit == SIZE_MAX) break;
    if (!old->n) { /* between all characters, and at both ends */
      if (!wf_jj_buf_add_str(run, &b, with)) return false;
      if (at >= s->n) break;
      uint32_t cp;
      hit = at + wf_jj_char_length(s, at, &cp);
      if (!wf_jj_buf_add_range(run, &b, s, at, hit)) return false;
      at = hit;
    } else {
      if (!wf_jj_buf_add_range(run, &b, s, at, hit) || !wf_jj_buf_add_str(run, &b, with)) {
        return false;
      }
      at = hit + old->n;
    }
    if (!wf_jj_charge(run, 1)) return false;
    if (count > 0) count--;
  }
  if (at == 0 && b.n == 0) {
    *result = wf_jj_str(s);
    return true;
  }
  if (!wf_jj_buf_add_range(run, &b, s, at, s->n)) return false;
  *result = wf_jj_buf_done(run, &b);
  return result->kind == JJ_STR;
}

bool wf_jj_splitlines(jj_run *run, const jj_str *s, bool keep, jj_vals *lines) {
  s = wf_jj_flat(run, s);
  if (!s) return false;
  *lines = (jj_vals){0};
  for (size_t begin = 0; begin < s->n;) {
    size_t end = begin, next = s->n;
    for (; end < s->n; end = next) {
      uint32_t cp;
      next = end + wf_jj_char_length(s, end, &cp);
      if (cp == '\r' && next < s->n && s->at[next] == '\n') next++;
      if ((cp >= 10 && cp <= 13) || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 ||
          cp == 0x2029) {
        break;
      }
    }
    if (end >= s->n) next = s->n;
    const jj_val line = wf_jj_str_sub(run, s, begin, keep ? next : end);
    if (!line.kind || !wf_jj_push(run, lines, line)) return false;
    begin = next;
  }
  return true;
}

bool wf_jj_join(jj_run *run, const jj_str *sep, const jj_val *seq, bool to_str, jj_val *result) {
  jj_iter it;
  jj_val item;
  jj_buf b = {0};
  const bool markup = sep->markup;
  if (!wf_jj_iter_open(run, seq, &it)) return false;
  for (size_t i = 0;; i++) {
    const int got = wf_jj_iter_next(run, &it, &item);
    if (got < 0) return false;
    if (got == 0) break;
    if (!to_str && !markup && item.kind != JJ_STR) {
      return wf_jj_raise(run, "sequence item %zu: expected str instance, %s found", i,
                         wf_jj_type(&item));
    }
    if (markup && !wf_jj_escape(run, &item, &item)) return false;
    if ((i && !wf_jj_buf_add_str(run, &b, sep)) || !wf_jj_add_str(run, &b, &item)) return false;
  }
  *result = wf_jj_buf_done(run, &b);
  return result->kind == JJ_STR;
}
