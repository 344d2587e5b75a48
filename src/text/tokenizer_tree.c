/* SPDX-License-Identifier: Apache-2.0 */
/* A small tree for the small parts of tokenizer.json: everything but vocabulary and merges. Members
 * of a component may come in any order, so it is read whole before it is looked at. */
#include <stdarg.h>
#include <stdio.h>

#include "text/tokenizer_internal.h"

static wf_tree *new_node(wf_arena *arena, const wf_json_event *e, wf_tree *parent, wf_str key,
                         size_t *budget, weft_error *err) {
  if (*budget == 0) {
    (void)wf_fail(err, WEFT_LIMIT, "fetch the file again",
                  "the settings of the tokenizer hold more values than any real one");
    return NULL;
  }
  --*budget;
  wf_tree *n = wf_arena_alloc(arena, sizeof *n);
  const char *text = e->is_stable ? e->text.at : wf_arena_strndup(arena, e->text.at, e->text.n);
  if (!n || (e->text.at && !text)) {
    (void)wf_fail_memory(err, sizeof *n, "the settings of a tokenizer");
    return NULL;
  }
  n->kind = e->kind;
  n->text = (wf_str){text, e->text.n};
  n->key = key;
  n->parent = parent;
  return n;
}

weft_status wf_tree_read(wf_tree **result, wf_json_reader *r, const wf_json_event *first,
                         wf_str key, wf_arena *arena, size_t *budget, weft_error *err) {
  wf_tree *root = new_node(arena, first, NULL, key, budget, err);
  if (!root) return *budget ? WEFT_OUT_OF_MEMORY : WEFT_LIMIT;
  *result = root;
  wf_tree *open = root;
  wf_tree *last[WF_JSON_MAX_DEPTH + 1] = {NULL};
  size_t depth = 0;
  wf_str name = {NULL, 0};
  if (first->kind != WF_JSON_OBJECT_BEGIN && first->kind != WF_JSON_ARRAY_BEGIN) return WEFT_OK;
  for (;;) {
    wf_json_event e;
    WF_RETURN_IF_ERROR(wf_json_next(r, &e, err));
    if (e.kind == WF_JSON_OBJECT_END || e.kind == WF_JSON_ARRAY_END) {
      if (open == root) return WEFT_OK;
      open = open->parent;
      depth--;
      continue;
    }
    if (e.kind == WF_JSON_KEY) {
      const char *text = e.is_stable ? e.text.at : wf_arena_strndup(arena, e.text.at, e.text.n);
      if (!text) return wf_fail_memory(err, e.text.n, "the settings of a tokenizer");
      name = (wf_str){text, e.text.n};
      continue;
    }
    wf_tree *n = new_node(arena, &e, open, name, budget, err);
    if (!n) return *budget ? WEFT_OUT_OF_MEMORY : WEFT_LIMIT;
    name = (wf_str){NULL, 0};
    if (last[depth] && last[depth]->parent == open) {
      n->index = last[depth]->index + 1;
      last[depth]->next = n;
    } else {
      open->child = n;
    }
    last[depth] = n;
    if (e.kind == WF_JSON_OBJECT_BEGIN || e.kind == WF_JSON_ARRAY_BEGIN) {
      open = n;
      depth++;
      last[depth] = NULL;
    }
  }
}

const wf_tree *wf_tree_get(const wf_tree *o, const char *key) {
  if (!o || o->kind != WF_JSON_OBJECT_BEGIN) return NULL;
  const wf_tree *found = NULL; /* the last of equal names, as most readers do */
  for (const wf_tree *c = o->child; c; c = c->next) {
    if (wf_str_is(c->key, key)) found = c;
  }
  return found && found->kind != WF_JSON_NULL ? found : NULL;
}

void wf_tree_path(const wf_tree *n, wf_buf *out) {
  if (n->parent) wf_tree_path(n->parent, out);
  if (n->key.at) {
    if (n->parent) wf_buf_putc(out, '.');
    wf_buf_add_str(out, n->key);
  } else if (n->parent) {
    wf_buf_printf(out, "[%zu]", n->index);
  }
}

weft_status wf_tree_fail(const wf_tree *n, weft_error *err, weft_status st, const char *fmt, ...) {
  char what[300];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(what, sizeof what, fmt, args);
  va_end(args);
  wf_buf path = {0};
  wf_tree_path(n, &path);
  const char *p = wf_buf_cstr(&path);
  (void)wf_fail(err, st, "use a tokenizer.json of a kind that weft reads (docs/cli.md)", "%s: %s",
                p ? p : "tokenizer.json", what);
  wf_buf_deinit(&path);
  return st;
}

bool wf_tree_bool(const wf_tree *o, const char *key, bool absent) {
  const wf_tree *n = wf_tree_get(o, key);
  if (!n) return absent;
  return n->kind == WF_JSON_TRUE ? true : n->kind == WF_JSON_FALSE ? false : absent;
}

weft_status wf_tree_string(const wf_tree *o, const char *key, const char *absent, wf_arena *arena,
                           wf_str *result, weft_error *err) {
  const wf_tree *n = wf_tree_get(o, key);
  wf_str text;
  if (n) {
    if (n->kind != WF_JSON_STRING) {
      return wf_tree_fail(n, err, WEFT_TOKENIZER, "a string is expected here");
    }
    text = n->text;
  } else if (absent) {
    text = wf_str_of(absent);
  } else {
    return wf_tree_fail(o, err, WEFT_TOKENIZER, "the member '%s' is missing", key);
  }
  const char *copy = wf_arena_strndup(arena, text.at ? text.at : "", text.n);
  if (!copy) return wf_fail_memory(err, text.n, "the settings of a tokenizer");
  *result = (wf_str){copy, text.n};
  return WEFT_OK;
}

weft_status wf_tree_count(const wf_tree *o, const char *key, size_t absent, size_t *result,
                          weft_error *err) {
  const wf_tree *n = wf_tree_get(o, key);
  uint64_t v = 0;
  *result = absent;
  if (!n) return WEFT_OK;
  if (n->kind != WF_JSON_NUMBER || !wf_parse_u64(n->text, &v) || v > SIZE_MAX / 2) {
    return wf_tree_fail(n, err, WEFT_TOKENIZER, "a whole number, not negative, is expected here");
  }
  *result = (size_t)v;
  return WEFT_OK;
}
