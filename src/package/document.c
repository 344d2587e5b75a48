/* SPDX-License-Identifier: Apache-2.0 */
/* The tree that both syntaxes are read into. Open nodes are frames; finished children wait on one
 * stack until their parent closes and takes them. */
#include "package/document.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

weft_status wf_doc_tree_fail(const wf_doc_tree *t, uint32_t line, uint32_t column, const char *fix,
                             const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  wf_problems_addv(t->problems, WF_PROBLEM_PARSE, "", "", line, column, fix, fmt, args);
  va_end(args);
  return WEFT_PARSE;
}

static int compare_keys(wf_str a, wf_str b) {
  const size_t n = a.n < b.n ? a.n : b.n;
  const int order = n ? memcmp(a.at, b.at, n) : 0;
  return order ? order : (a.n > b.n) - (a.n < b.n);
}

static int compare_members(const void *a, const void *b) {
  const wf_doc_member *x = a, *y = b;
  const int order = compare_keys(x->key, y->key);
  if (order) return order;
  if (x->line != y->line) return x->line < y->line ? -1 : 1;
  return (x->column > y->column) - (x->column < y->column);
}

const wf_doc_member *wf_doc_find(const wf_doc_node *map, const char *key) {
  if (!map || map->kind != WF_DOC_MAP) return NULL;
  const wf_str name = wf_str_of(key);
  size_t lo = 0, hi = map->n;
  while (lo < hi) {
    const size_t mid = lo + (hi - lo) / 2;
    const int order = compare_keys(map->members[mid].key, name);
    if (order == 0) return &map->members[mid];
    if (order < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  return NULL;
}

const wf_doc_node *wf_doc_get(const wf_doc_node *map, const char *key) {
  const wf_doc_member *m = wf_doc_find(map, key);
  return m ? m->value : NULL;
}

bool wf_doc_tree_wants_key(const wf_doc_tree *t) {
  if (!t->depth) return false;
  const wf_doc_tree_frame *f = &t->frames[t->depth - 1];
  return f->node->kind == WF_DOC_MAP && !f->has_key;
}

static weft_status new_node(wf_doc_tree *t, wf_doc_kind kind, uint32_t line, uint32_t column,
                            wf_doc_node **result) {
  if (t->n_nodes == WF_DOCUMENT_MAX_NODES) {
    return wf_doc_tree_fail(t, line, column, "make the document smaller",
                            "the document has more than %d nodes", WF_DOCUMENT_MAX_NODES);
  }
  t->n_nodes++;
  wf_doc_node *n = wf_arena_alloc(t->arena, sizeof *n);
  if (!n) return WEFT_OUT_OF_MEMORY;
  n->kind = kind;
  n->line = line;
  n->column = column;
  n->height = 1;
  n->n_expanded = 1;
  *result = n;
  return WEFT_OK;
}

weft_status wf_doc_tree_open(wf_doc_tree *t, wf_doc_kind kind, uint32_t line, uint32_t column,
                             wf_doc_node **result) {
  wf_doc_node *n = NULL;
  if (t->depth == WF_DOCUMENT_MAX_DEPTH) {
    return wf_doc_tree_fail(t, line, column, "nest less deeply",
                            "the document nests deeper than %d", WF_DOCUMENT_MAX_DEPTH);
  }
  WF_RETURN_IF_ERROR(new_node(t, kind, line, column, &n));
  t->frames[t->depth++] = (wf_doc_tree_frame){.node = n, .first = t->children.n};
  *result = n;
  return WEFT_OK;
}

weft_status wf_doc_tree_add(wf_doc_tree *t, const wf_doc_node *node, uint32_t line,
                            uint32_t column) {
  if (!t->depth) {
    t->root = node;
    return WEFT_OK;
  }
  wf_doc_tree_frame *f = &t->frames[t->depth - 1];
  if (t->depth + node->height > WF_DOCUMENT_MAX_DEPTH + 1) { /* an alias to something deep */
    return wf_doc_tree_fail(t, line, column, "nest less deeply",
                            "the document nests deeper than %d", WF_DOCUMENT_MAX_DEPTH);
  }
  f->node->n_expanded += node->n_expanded;
  if (f->node->n_expanded > WF_DOCUMENT_MAX_NODES) {
    return wf_doc_tree_fail(t, line, column, "write fewer aliases",
                            "the document has more than %d nodes once its aliases are expanded",
                            WF_DOCUMENT_MAX_NODES);
  }
  if (f->node->height <= node->height) f->node->height = node->height + 1;
  wf_doc_member m = f->key;
  m.value = node;
  f->has_key = false;
  return wf_vec_push(&t->children, m) ? WEFT_OK : WEFT_OUT_OF_MEMORY;
}

weft_status wf_doc_tree_key(wf_doc_tree *t, wf_str key, uint32_t line, uint32_t column) {
  wf_doc_tree_frame *f = &t->frames[t->depth - 1];
  if (memchr(key.at, 0, key.n)) {
    return wf_doc_tree_fail(t, line, column, "remove it", "a key holds a NUL character");
  }
  char *copy = wf_arena_strndup(t->arena, key.at, key.n);
  if (!copy) return WEFT_OUT_OF_MEMORY;
  f->key = (wf_doc_member){.key = {copy, key.n}, .line = line, .column = column};
  f->has_key = true;
  return WEFT_OK;
}

weft_status wf_doc_tree_scalar(wf_doc_tree *t, wf_doc_kind kind, wf_str text, uint32_t line,
                               uint32_t column, wf_doc_node **result) {
  WF_RETURN_IF_ERROR(new_node(t, kind, line, column, result));
  if (memchr(text.at, 0, text.n)) {
    return wf_doc_tree_fail(t, line, column, "remove it", "a text holds a NUL character");
  }
  (*result)->text = (wf_str){wf_arena_strndup(t->arena, text.at, text.n), text.n};
  return (*result)->text.at ? WEFT_OK : WEFT_OUT_OF_MEMORY;
}

static weft_status close_map(wf_doc_tree *t, wf_doc_node *n, const wf_doc_member *children) {
  wf_doc_member *members = wf_arena_calloc(t->arena, n->n ? n->n : 1, sizeof *members);
  if (!members) return WEFT_OUT_OF_MEMORY;
  if (n->n) memcpy(members, children, n->n * sizeof *members);
  if (n->n > 1) qsort(members, n->n, sizeof *members, compare_members);
  weft_status st = WEFT_OK;
  for (size_t i = 1; i < n->n; i++) {
    if (!wf_str_eq(members[i].key, members[i - 1].key)) continue;
    st = wf_doc_tree_fail(t, members[i].line, members[i].column, "keep one of the two",
                          "the key '%.*s' stands twice in one mapping, first in line %u",
                          (int)(members[i].key.n > 200 ? 200 : members[i].key.n), members[i].key.at,
                          members[i - 1].line);
  }
  n->members = members;
  return st;
}

static weft_status close_list(wf_doc_tree *t, wf_doc_node *n, const wf_doc_member *children) {
  const wf_doc_node **items = wf_arena_calloc(t->arena, n->n ? n->n : 1, sizeof *items);
  if (!items) return WEFT_OUT_OF_MEMORY;
  for (size_t i = 0; i < n->n; i++) items[i] = children[i].value;
  n->items = items;
  return WEFT_OK;
}

weft_status wf_doc_tree_close(wf_doc_tree *t) {
  wf_doc_tree_frame *f = &t->frames[--t->depth];
  wf_doc_node *n = f->node;
  const wf_doc_member *children = t->children.at ? t->children.at + f->first : NULL;
  n->n = t->children.n - f->first;
  const weft_status st =
      n->kind == WF_DOC_MAP ? close_map(t, n, children) : close_list(t, n, children);
  t->children.n = f->first;
  if (st) return st;
  return wf_doc_tree_add(t, n, n->line, n->column);
}

weft_status wf_document_read(const wf_doc_node **result, wf_arena *arena, wf_str text,
                             wf_syntax syntax, wf_problems *problems, weft_error *err) {
  weft_status st;
  wf_problems scratch;
  *result = NULL;
  wf_problems_init(&scratch, arena, false);
  wf_doc_tree *t = wf_zalloc(sizeof *t);
  if (!t) return wf_fail_memory(err, sizeof *t, "a document");
  t->arena = arena;
  t->problems = problems;
  if (text.n > WF_DOCUMENT_MAX_BYTES) {
    st =
        wf_doc_tree_fail(t, 1, 1, "make the document smaller",
                         "the document has %zu bytes, more than %d", text.n, WF_DOCUMENT_MAX_BYTES);
  } else if (syntax == WF_SYNTAX_JSON) {
    st = wf_document_read_json(t, text, err);
  } else {
    st = wf_document_read_yaml(t, text);
    if (st == WEFT_PARSE && syntax == WF_SYNTAX_ANY) {
      t->depth = t->n_nodes = t->children.n = 0;
      t->problems = &scratch;
      if (wf_document_read_json(t, text, err) == WEFT_OK) {
        st = WEFT_OK;
        problems->list.n = problems->n_errors = 0;
      }
    }
  }
  *result = st ? NULL : t->root;
  wf_problems_deinit(&scratch);
  wf_vec_free(&t->children);
  wf_free(t);
  if (st == WEFT_OUT_OF_MEMORY) return wf_fail_memory(err, text.n, "a document");
  if (st) return wf_fail(err, st, "repair the document", "the document cannot be read");
  return st;
}
