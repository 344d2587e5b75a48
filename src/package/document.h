/* SPDX-License-Identifier: Apache-2.0 */
/* A YAML or JSON document as one tree that remembers where each node stood. Owns: both syntaxes,
 * how a scalar gets its type, the limits of docs/format.md §2.1. Never: what members mean.
 *
 * Members of a map are sorted by the bytes of their keys, which is the order that counts wherever
 * one is observable. An alias is the same node as its anchor, so a tree of aliases takes no more
 * memory than its text; n_expanded counts what a walk would meet. */
#ifndef WF_PACKAGE_DOCUMENT_H
#define WF_PACKAGE_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/str.h"
#include "package/problems.h"

enum {
  WF_DOCUMENT_MAX_BYTES = 16 << 20,
  WF_DOCUMENT_MAX_DEPTH = 128,
  WF_DOCUMENT_MAX_NODES = 1000000 /* aliases expanded */
};

typedef enum wf_doc_kind {
  WF_DOC_NULL,
  WF_DOC_BOOL,
  WF_DOC_INT,
  WF_DOC_FLOAT,
  WF_DOC_STRING,
  WF_DOC_LIST,
  WF_DOC_MAP
} wf_doc_kind;

typedef struct wf_doc_node wf_doc_node;
typedef struct wf_doc_member {
  wf_str key;
  uint32_t line, column; /* of the key */
  const wf_doc_node *value;
} wf_doc_member;

struct wf_doc_node {
  wf_doc_kind kind;
  bool is_plain;         /* an unquoted YAML scalar: may stand for a string, verbatim */
  uint32_t line, column; /* from 1 */
  uint32_t height;       /* 1 for a scalar */
  size_t n_expanded;
  wf_str text; /* of a scalar, as written (escapes resolved); terminated */
  union {
    bool b;
    int64_t i;
    double f;
  } as;
  size_t n;
  const wf_doc_member *members;    /* MAP: [n], sorted */
  const wf_doc_node *const *items; /* LIST: [n] */
};

typedef enum wf_syntax { WF_SYNTAX_YAML, WF_SYNTAX_JSON, WF_SYNTAX_ANY } wf_syntax;

/* Reads `text` into a tree of `arena`; what is wrong is added to `problems` as E_PARSE with line
 * and column. ANY: YAML, and where that fails JSON. Owner: nodes are the arena's and borrow nothing
 * of `text`. Thread: one at a time. Errors: PARSE (and a problem says why), OUT_OF_MEMORY. */
weft_status wf_document_read(const wf_doc_node **result, wf_arena *arena, wf_str text,
                             wf_syntax syntax, wf_problems *problems, weft_error *err) WF_NODISCARD;

/* The member's value; NULL when absent or `map` is no map. */
const wf_doc_node *wf_doc_get(const wf_doc_node *map, const char *key);
const wf_doc_member *wf_doc_find(const wf_doc_node *map, const char *key);
static inline bool wf_doc_is_null(const wf_doc_node *n) { return !n || n->kind == WF_DOC_NULL; }

/* ---- shared by the two readers ----------------------------------------------------------------
 */

typedef struct wf_doc_tree_frame {
  wf_doc_node *node;
  size_t first; /* where its children begin in the builder's stack */
  bool has_key;
  wf_doc_member key; /* of the member being read */
} wf_doc_tree_frame;

typedef struct wf_doc_tree {
  wf_arena *arena;
  wf_problems *problems;
  wf_doc_tree_frame frames[WF_DOCUMENT_MAX_DEPTH];
  size_t depth, n_nodes;
  WF_VEC(wf_doc_member) children; /* of all open nodes */
  const wf_doc_node *root;
} wf_doc_tree;

/* All return PARSE after a problem was added, OUT_OF_MEMORY, or OK. */
weft_status wf_doc_tree_open(wf_doc_tree *t, wf_doc_kind kind, uint32_t line, uint32_t column,
                             wf_doc_node **result) WF_NODISCARD;
weft_status wf_doc_tree_close(wf_doc_tree *t) WF_NODISCARD;
weft_status wf_doc_tree_key(wf_doc_tree *t, wf_str key, uint32_t line,
                            uint32_t column) WF_NODISCARD;
weft_status wf_doc_tree_scalar(wf_doc_tree *t, wf_doc_kind kind, wf_str text, uint32_t line,
                               uint32_t column, wf_doc_node **result) WF_NODISCARD;
/* Puts a finished node where the next value belongs. */
weft_status wf_doc_tree_add(wf_doc_tree *t, const wf_doc_node *node, uint32_t line,
                            uint32_t column) WF_NODISCARD;
weft_status wf_doc_tree_fail(const wf_doc_tree *t, uint32_t line, uint32_t column, const char *fix,
                             const char *fmt, ...) WF_COLD WF_PRINTF(5, 6);
/* True when the next value is a key of the open map. */
bool wf_doc_tree_wants_key(const wf_doc_tree *t);

weft_status wf_document_read_yaml(wf_doc_tree *t, wf_str text) WF_NODISCARD;
weft_status wf_document_read_json(wf_doc_tree *t, wf_str text, weft_error *err) WF_NODISCARD;

#endif
