/* SPDX-License-Identifier: Apache-2.0 */
/* str(), repr() and tojson, in Python's forms. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/utf8.h"
#include "text/jinja.h"

const char *wf_jj_type(const jj_val *v) {
  switch (v->kind) {
    case JJ_MISSING:
    case JJ_UNDEFINED:
      return "Undefined";
    case JJ_NONE:
      return "NoneType";
    case JJ_BOOL:
      return "bool";
    case JJ_INT:
      return "int";
    case JJ_FLOAT:
      return "float";
    case JJ_STR:
      return v->u.s->markup ? "Markup" : "str";
    case JJ_LIST:
      return "list";
    case JJ_TUPLE:
      return v->u.l->grouper ? "_GroupTuple" : "tuple";
    case JJ_DICT:
      return "dict";
    case JJ_RANGE:
      return "range";
    case JJ_VIEW:
      return v->u.view->kind == 'k'   ? "dict_keys"
             : v->u.view->kind == 'v' ? "dict_values"
                                      : "dict_items";
    case JJ_NAMESPACE:
      return "Namespace";
    case JJ_ITER:
      return v->u.iter->type;
    case JJ_MACRO:
      return "Macro";
    case JJ_FUNCTION:
      return "function";
    case JJ_METHOD:
      return "builtin_function_or_method";
    case JJ_LOOP:
      return "LoopContext";
    case JJ_CYCLER:
      return "Cycler";
    case JJ_JOINER:
      return "Joiner";
  }
  return "object";
}

static bool add_int(jj_run *run, jj_buf *b, int64_t i) {
  char text[24];
  snprintf(text, sizeof text, "%" PRId64, i);
  return wf_jj_buf_puts(run, b, text);
}

static bool add_f64(jj_run *run, jj_buf *b, double f) {
  wf_buf text = {0};
  wf_buf_add_f64(&text, f);
  const bool ok = !text.failed && wf_jj_buf_add(run, b, text.at, text.n, false);
  wf_buf_deinit(&text);
  return ok;
}

/* Python's repr of a string. The quotes and escapes count as the bytes they stand for. */
static bool add_quoted(jj_run *run, jj_buf *b, const jj_str *s) {
  s = wf_jj_flat(run, s);
  if (!s) return false;
  const bool has_single = s->n && memchr(s->at, '\'', s->n),
             has_double = s->n && memchr(s->at, '"', s->n);
  const char quote = has_single && !has_double ? '"' : '\'';
  if (!wf_jj_buf_add(run, b, &quote, 1, false)) return false;
  for (size_t i = 0; i < s->n;) {
    uint32_t cp;
    size_t n = wf_utf8_decode(s->at + i, s->n - i, &cp);
    char text[12] = {0};
    if (!n) n = 1;
    if (cp == (uint32_t)quote || cp == '\\') {
      snprintf(text, sizeof text, "\\%c", (char)cp);
    } else if (cp == '\n' || cp == '\r' || cp == '\t') {
      snprintf(text, sizeof text, "\\%c", cp == '\n' ? 'n' : cp == '\r' ? 'r' : 't');
    } else if (!wf_jj_char_is(cp, 'p')) {
      if (cp < 0x100) {
        snprintf(text, sizeof text, "\\x%02" PRIx32, cp);
      } else if (cp < 0x10000) {
        snprintf(text, sizeof text, "\\u%04" PRIx32, cp);
      } else {
        snprintf(text, sizeof text, "\\U%08" PRIx32, cp);
      }
    }
    const bool mark = s->marks ? s->marks[i] : s->content;
    if (text[0] ? !wf_jj_buf_add(run, b, text, strlen(text), mark)
                : !wf_jj_buf_add_range(run, b, s, i, i + n)) {
      return false;
    }
    i += n;
  }
  return wf_jj_buf_add(run, b, &quote, 1, false);
}

static bool add_items(jj_run *run, jj_buf *b, const jj_val *at, size_t n, const char *open,
                      const char *close) {
  if (!wf_jj_buf_puts(run, b, open)) return false;
  for (size_t i = 0; i < n; i++) {
    if ((i && !wf_jj_buf_puts(run, b, ", ")) || !wf_jj_add_repr(run, b, &at[i])) return false;
  }
  return wf_jj_buf_puts(run, b, close);
}

static bool add_dict(jj_run *run, jj_buf *b, const jj_dict *d) {
  if (!wf_jj_buf_puts(run, b, "{")) return false;
  for (size_t i = 0; i < d->n; i++) {
    if ((i && !wf_jj_buf_puts(run, b, ", ")) || !wf_jj_add_repr(run, b, &d->keys[i]) ||
        !wf_jj_buf_puts(run, b, ": ") || !wf_jj_add_repr(run, b, &d->values[i])) {
      return false;
    }
  }
  return wf_jj_buf_puts(run, b, "}");
}

static bool add_view(jj_run *run, jj_buf *b, const jj_val *v) {
  const jj_view *view = v->u.view;
  if (!wf_jj_buf_puts(run, b, wf_jj_type(v)) || !wf_jj_buf_puts(run, b, "([")) return false;
  jj_iter it;
  jj_val item;
  if (!wf_jj_iter_open(run, v, &it)) return false;
  for (size_t i = 0; i < view->dict->n; i++) {
    if ((i && !wf_jj_buf_puts(run, b, ", ")) || wf_jj_iter_next(run, &it, &item) != 1 ||
        !wf_jj_add_repr(run, b, &item)) {
      return false;
    }
  }
  return wf_jj_buf_puts(run, b, "])");
}

static bool add_range(jj_run *run, jj_buf *b, const jj_range *r) {
  return wf_jj_buf_puts(run, b, "range(") && add_int(run, b, r->start) &&
         wf_jj_buf_puts(run, b, ", ") && add_int(run, b, r->stop) &&
         (r->step == 1 || (wf_jj_buf_puts(run, b, ", ") && add_int(run, b, r->step))) &&
         wf_jj_buf_puts(run, b, ")");
}

static bool add_repr(jj_run *run, jj_buf *b, const jj_val *v) {
  switch (v->kind) {
    case JJ_MISSING:
    case JJ_UNDEFINED:
      return wf_jj_buf_puts(run, b, "Undefined");
    case JJ_NONE:
      return wf_jj_buf_puts(run, b, "None");
    case JJ_BOOL:
      return wf_jj_buf_puts(run, b, v->u.b ? "True" : "False");
    case JJ_INT:
      return add_int(run, b, v->u.i);
    case JJ_FLOAT:
      return add_f64(run, b, v->u.f);
    case JJ_STR:
      if (!v->u.s->markup) return add_quoted(run, b, v->u.s);
      return wf_jj_buf_puts(run, b, "Markup(") && add_quoted(run, b, v->u.s) &&
             wf_jj_buf_puts(run, b, ")");
    case JJ_LIST:
      return add_items(run, b, v->u.l->at, v->u.l->n, "[", "]");
    case JJ_TUPLE:
      return add_items(run, b, v->u.l->at, v->u.l->n, "(", v->u.l->n == 1 ? ",)" : ")");
    case JJ_DICT:
      return add_dict(run, b, v->u.d);
    case JJ_RANGE:
      return add_range(run, b, v->u.range);
    case JJ_VIEW:
      return add_view(run, b, v);
    case JJ_NAMESPACE:
      return wf_jj_buf_puts(run, b, "<Namespace ") && add_dict(run, b, v->u.d) &&
             wf_jj_buf_puts(run, b, ">");
    case JJ_MACRO:
      if (!v->u.macro->node->name) return wf_jj_buf_puts(run, b, "<Macro anonymous>");
      return wf_jj_buf_puts(run, b, "<Macro ") && add_quoted(run, b, v->u.macro->node->name) &&
             wf_jj_buf_puts(run, b, ">");
    case JJ_ITER:
    case JJ_FUNCTION:
    case JJ_METHOD:
    case JJ_LOOP:
    case JJ_CYCLER:
    case JJ_JOINER:
      break;
  }
  return wf_jj_buf_puts(run, b, "<") && wf_jj_buf_puts(run, b, wf_jj_type(v)) &&
         wf_jj_buf_puts(run, b, " object>");
}

bool wf_jj_add_repr(jj_run *run, jj_buf *b, const jj_val *v) {
  if (++run->depth > JJ_DEPTH_LIMIT) return wf_jj_raise(run, "a value nested too deep to print");
  const bool ok = wf_jj_charge(run, 1) && add_repr(run, b, v);
  run->depth--;
  return ok;
}

bool wf_jj_add_str(jj_run *run, jj_buf *b, const jj_val *v) {
  if (v->kind == JJ_STR) return wf_jj_buf_add_str(run, b, v->u.s);
  if (v->kind == JJ_UNDEFINED) return true;
  return wf_jj_add_repr(run, b, v);
}

bool wf_jj_to_str(jj_run *run, const jj_val *v, jj_val *result) {
  if (v->kind == JJ_STR) {
    *result = *v;
    return wf_jj_str_ready(run, result);
  }
  jj_buf b = {0};
  if (!wf_jj_add_str(run, &b, v)) return false;
  *result = wf_jj_buf_done(run, &b);
  return result->kind == JJ_STR;
}

/* -- json.dumps -- */

typedef struct json_form {
  bool ascii, sort_keys, has_indent;
  const jj_str *indent, *item_sep, *key_sep;
} json_form;

static bool add_json_string(jj_run *run, jj_buf *b, const jj_str *s, bool ascii) {
  static const char short_from[] = "\"\\\n\r\t\b\f", short_to[] = "\"\\nrtbf";
  s = wf_jj_flat(run, s);
  if (!s || !wf_jj_buf_puts(run, b, "\"")) return false;
  for (size_t i = 0, from = 0; i <= s->n;) {
    uint32_t cp = 0;
    size_t n = 1;
    if (i < s->n) {
      n = wf_utf8_decode(s->at + i, s->n - i, &cp);
      if (!n) n = 1;
    }
    const bool plain = i < s->n && cp >= 0x20 && cp != '"' && cp != '\\' && !(ascii && cp > 0x7e);
    if (plain) {
      i += n;
      continue;
    }
    if (!wf_jj_buf_add_range(run, b, s, from, i)) return false;
    if (i == s->n) break;
    char text[16];
    const char *p = cp && cp < 0x80 ? strchr(short_from, (int)cp) : NULL;
    if (p) {
      snprintf(text, sizeof text, "\\%c", short_to[p - short_from]);
    } else if (cp < 0x10000) {
      snprintf(text, sizeof text, "\\u%04" PRIx32, cp);
    } else {
      snprintf(text, sizeof text, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd7c0 + (cp >> 10),
               0xdc00 + (cp & 0x3ff));
    }
    if (!wf_jj_buf_add(run, b, text, strlen(text), s->marks ? s->marks[i] : s->content)) {
      return false;
    }
    i += n;
    from = i;
  }
  return wf_jj_buf_puts(run, b, "\"");
}

static bool json_newline(jj_run *run, jj_buf *b, const json_form *f, uint32_t level) {
  if (!f->has_indent) return true;
  if (!wf_jj_buf_puts(run, b, "\n")) return false;
  for (uint32_t i = 0; i < level; i++) {
    if (!wf_jj_buf_add_str(run, b, f->indent)) return false;
  }
  return true;
}

static bool add_json(jj_run *run, jj_buf *b, const jj_val *v, const json_form *f, uint32_t level);

static bool add_json_key(jj_run *run, jj_buf *b, const jj_val *key, const json_form *f) {
  if (key->kind == JJ_STR) return add_json_string(run, b, key->u.s, f->ascii);
  if (wf_jj_is_number(key) || key->kind == JJ_NONE) {
    return wf_jj_buf_puts(run, b, "\"") && add_json(run, b, key, f, 0) &&
           wf_jj_buf_puts(run, b, "\"");
  }
  return wf_jj_raise(run, "keys must be str, int, float, bool or None, not %s", wf_jj_type(key));
}

static bool add_json_dict(jj_run *run, jj_buf *b, const jj_dict *d, const json_form *f,
                          uint32_t level) {
  if (d->n == 0) return wf_jj_buf_puts(run, b, "{}");
  jj_val *keys = d->keys, *values = d->values;
  if (f->sort_keys) {
    keys = wf_jj_alloc(run, d->n, sizeof *keys);
    values = wf_jj_alloc(run, d->n, sizeof *values);
    if (!keys || !values) return false;
    memcpy(keys, d->keys, d->n * sizeof *keys);
    memcpy(values, d->values, d->n * sizeof *values);
    if (!wf_jj_sort(run, keys, values, d->n, false)) return false;
  }
  if (!wf_jj_buf_puts(run, b, "{")) return false;
  for (size_t i = 0; i < d->n; i++) {
    if ((i && !wf_jj_buf_add_str(run, b, f->item_sep)) || !json_newline(run, b, f, level + 1) ||
        !add_json_key(run, b, &keys[i], f) || !wf_jj_buf_add_str(run, b, f->key_sep) ||
        !add_json(run, b, &values[i], f, level + 1)) {
      return false;
    }
  }
  return json_newline(run, b, f, level) && wf_jj_buf_puts(run, b, "}");
}

static bool add_json_list(jj_run *run, jj_buf *b, const jj_list *l, const json_form *f,
                          uint32_t level) {
  if (l->n == 0) return wf_jj_buf_puts(run, b, "[]");
  if (!wf_jj_buf_puts(run, b, "[")) return false;
  for (size_t i = 0; i < l->n; i++) {
    if ((i && !wf_jj_buf_add_str(run, b, f->item_sep)) || !json_newline(run, b, f, level + 1) ||
        !add_json(run, b, &l->at[i], f, level + 1)) {
      return false;
    }
  }
  return json_newline(run, b, f, level) && wf_jj_buf_puts(run, b, "]");
}

static bool add_json(jj_run *run, jj_buf *b, const jj_val *v, const json_form *f, uint32_t level) {
  bool ok = false;
  if (++run->depth > JJ_DEPTH_LIMIT) return wf_jj_raise(run, "a value nested too deep for JSON");
  if (!wf_jj_charge(run, 1)) return false;
  if (v->kind == JJ_STR) {
    ok = add_json_string(run, b, v->u.s, f->ascii);
  } else if (v->kind == JJ_NONE) {
    ok = wf_jj_buf_puts(run, b, "null");
  } else if (v->kind == JJ_BOOL) {
    ok = wf_jj_buf_puts(run, b, v->u.b ? "true" : "false");
  } else if (v->kind == JJ_INT) {
    ok = add_int(run, b, v->u.i);
  } else if (v->kind == JJ_FLOAT) {
    ok = isfinite(v->u.f) ? add_f64(run, b, v->u.f)
                          : wf_jj_buf_puts(run, b,
                                           isnan(v->u.f) ? "NaN"
                                           : v->u.f > 0  ? "Infinity"
                                                         : "-Infinity");
  } else if (v->kind == JJ_LIST || v->kind == JJ_TUPLE) {
    ok = add_json_list(run, b, v->u.l, f, level);
  } else if (v->kind == JJ_DICT) {
    ok = add_json_dict(run, b, v->u.d, f, level);
  } else {
    ok = wf_jj_raise(run, "Object of type %s is not JSON serializable", wf_jj_type(v));
  }
  run->depth--;
  return ok;
}

/* args: the value, then ensure_ascii, indent, separators, sort_keys as in transformers */
bool wf_jj_tojson(jj_run *run, const jj_args *args, jj_val *result) {
  jj_val a[5];
  if (!wf_jj_args(run, args, "tojson", "x,ensure_ascii,indent,separators,sort_keys", 1, a)) {
    return false;
  }
  json_form f = {.ascii = false};
  jj_val item = wf_jj_str_static(run, ", "), key = wf_jj_str_static(run, ": "), indent;
  if (!item.kind || !key.kind) return false;
  if (a[1].kind && !wf_jj_truth(run, &a[1], &f.ascii)) return false;
  if (a[4].kind && !wf_jj_truth(run, &a[4], &f.sort_keys)) return false;
  if (a[2].kind == JJ_INT || a[2].kind == JJ_BOOL) {
    const int64_t width = a[2].kind == JJ_BOOL ? a[2].u.b : a[2].u.i;
    jj_buf b = {0};
    if (width > 10000) return wf_jj_raise(run, "an indent of more than 10000");
    for (int64_t i = 0; i < width; i++) {
      if (!wf_jj_buf_puts(run, &b, " ")) return false;
    }
    indent = wf_jj_buf_done(run, &b);
    f.has_indent = true;
    f.indent = indent.u.s;
  } else if (a[2].kind == JJ_STR) {
    f.has_indent = true;
    f.indent = a[2].u.s;
  } else if (a[2].kind > JJ_NONE) {
    return wf_jj_raise(run, "indent must be an integer or a string, not %s", wf_jj_type(&a[2]));
  }
  if (f.has_indent && !f.indent) return false;
  if (f.has_indent) item = wf_jj_str_static(run, ",");
  if (a[3].kind > JJ_NONE) {
    jj_vals two;
    if (!wf_jj_collect(run, &a[3], &two)) return false;
    if (two.n != 2 || two.at[0].kind != JJ_STR || two.at[1].kind != JJ_STR) {
      return wf_jj_raise(run, "separators must be two strings");
    }
    item = two.at[0];
    key = two.at[1];
  }
  if (item.kind != JJ_STR) return false;
  f.item_sep = item.u.s;
  f.key_sep = key.u.s;
  jj_buf b = {0};
  if (!add_json(run, &b, &a[0], &f, 0)) return false;
  *result = wf_jj_buf_done(run, &b);
  return result->kind == JJ_STR;
}
