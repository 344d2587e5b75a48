/* SPDX-License-Identifier: Apache-2.0 */
/* The memory plan: every value gets a place for the time from its producer to its last reader, in
 * the smallest gap that is free then. */
#include <stdlib.h>

#include "graph/edit.h"

typedef struct block {
  int32_t root;       /* the value whose buffer it is */
  size_t first, last; /* steps of the order, inclusive */
  size_t n_bytes, at;
} block;

typedef struct planner {
  const wf_graph *g;
  const wf_binding *bindings;
  size_t n_bindings, align;
  int32_t *root; /* by value: whose buffer it shares; -1 outside the plan */
  size_t *first, *last, *n_bytes, *offsets;
  WF_VEC(block) blocks;
  weft_error *err;
} planner;

static weft_status size_of(const planner *k, const wf_value *v, size_t *n_bytes) {
  size_t n = 1;
  for (int32_t i = 0; i < v->rank; i++) {
    int64_t d;
    WF_RETURN_IF_ERROR(
        wf_expr_eval(k->g->exprs, v->dims[i], k->bindings, k->n_bindings, &d, k->err));
    if (d < 0 || !wf_size_mul(n, (size_t)d, &n)) {
      return wf_fail(k->err, WEFT_LIMIT, "use a smaller batch or shorter input",
                     "a dimension of a value is %lld", (long long)d);
    }
  }
  if (!wf_dtype_bytes(v->dtype, n, n_bytes) || !wf_size_align(*n_bytes, k->align, n_bytes)) {
    return wf_fail(k->err, WEFT_LIMIT, "use a smaller batch or shorter input",
                   "a value has %zu elements of %s", n, wf_dtype_name(v->dtype));
  }
  return WEFT_OK;
}

static int32_t find_root(const planner *k, int32_t v) {
  while (v >= 0 && k->root[v] != v) v = k->root[v];
  return v;
}

static void touch(planner *k, int32_t value, size_t step) {
  const int32_t r = value < 0 ? -1 : find_root(k, value);
  if (r >= 0 && k->last[r] < step) k->last[r] = step;
}

static weft_status find_lives(planner *k, int32_t (*alias)(void *, const wf_node *, int32_t),
                              void *user) {
  const wf_graph *g = k->g;
  for (size_t step = 0; step < g->order.n; step++) {
    const wf_node *n = g->nodes.at[g->order.at[step]];
    for (int32_t i = 0; i < n->n_inputs; i++) touch(k, n->inputs[i], step);
    for (size_t i = 0; i < n->n_captures; i++) touch(k, n->captures[i], step);
    for (int32_t i = 0; i < n->n_outputs; i++) {
      const wf_value *v = graph_value(g, n->outputs[i]);
      if (!v || v->tensor || v->rank < 0 || !wf_dtype_bits(v->dtype)) continue;
      const int32_t shared = alias ? alias(user, n, i) : -1;
      const int32_t r =
          shared >= 0 && wf_node_input(n, shared) >= 0 ? find_root(k, n->inputs[shared]) : -1;
      WF_RETURN_IF_ERROR(size_of(k, v, &k->n_bytes[v->id]));
      k->root[v->id] = r >= 0 && k->n_bytes[v->id] <= k->n_bytes[r] ? r : v->id;
      if (k->root[v->id] == v->id) k->first[v->id] = step;
      touch(k, v->id, step);
    }
  }
  for (size_t i = 0; i < g->outputs.n; i++) touch(k, g->outputs.at[i], g->order.n);
  return WEFT_OK;
}

static int by_place(const void *a, const void *b) {
  const block *x = a, *y = b;
  return (x->at > y->at) - (x->at < y->at);
}

static int by_size(const void *a, const void *b) {
  const block *x = a, *y = b;
  if (x->n_bytes != y->n_bytes) return x->n_bytes < y->n_bytes ? 1 : -1;
  return (x->root > y->root) - (x->root < y->root);
}

/* Largest first, each in the tightest gap between the placed blocks that live at the same time. */
static weft_status place(planner *k, size_t *total) {
  WF_VEC(block) beside = {0};
  weft_status st = WEFT_OK;
  *total = 0;
  if (k->blocks.n) qsort(k->blocks.at, k->blocks.n, sizeof *k->blocks.at, by_size);
  for (size_t i = 0; i < k->blocks.n; i++) {
    block *b = &k->blocks.at[i];
    beside.n = 0;
    for (size_t j = 0; j < i; j++) {
      const block *o = &k->blocks.at[j];
      if (o->first > b->last || o->last < b->first || o->n_bytes == 0) continue;
      if (!wf_vec_push(&beside, *o)) WF_TRY(graph_no_memory(k->err));
    }
    if (beside.n) qsort(beside.at, beside.n, sizeof *beside.at, by_place);
    size_t at = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    for (size_t j = 0; j < beside.n; j++) {
      const block *o = &beside.at[j];
      if (o->at > at && o->at - at >= b->n_bytes && o->at - at < best_gap)
        best = at, best_gap = o->at - at;
      if (o->at + o->n_bytes > at) at = o->at + o->n_bytes;
    }
    b->at = best == SIZE_MAX ? at : best;
    size_t end;
    if (!wf_size_add(b->at, b->n_bytes, &end))
      WF_TRY(wf_fail(k->err, WEFT_LIMIT, "use a smaller batch",
                     "the values of the graph do not fit the address space"));
    if (end > *total) *total = end;
  }
out:
  wf_vec_free(&beside);
  return st;
}

static weft_status run(planner *k, int32_t (*alias)(void *, const wf_node *, int32_t), void *user,
                       size_t *total) {
  const size_t n = k->g->values.n;
  for (size_t i = 0; i < n; i++) k->root[i] = -1, k->offsets[i] = SIZE_MAX;
  WF_RETURN_IF_ERROR(find_lives(k, alias, user));
  for (size_t i = 0; i < n; i++) {
    if (k->root[i] != (int32_t)i) continue;
    const block b = {(int32_t)i, k->first[i], k->last[i], k->n_bytes[i], 0};
    if (!wf_vec_push(&k->blocks, b)) return graph_no_memory(k->err);
  }
  WF_RETURN_IF_ERROR(place(k, total));
  for (size_t i = 0; i < k->blocks.n; i++) k->offsets[k->blocks.at[i].root] = k->blocks.at[i].at;
  for (size_t i = 0; i < n; i++) {
    if (k->root[i] >= 0) k->offsets[i] = k->offsets[find_root(k, (int32_t)i)];
  }
  return WEFT_OK;
}

weft_status wf_plan_memory(const wf_graph *g, const wf_binding *bindings, size_t n_bindings,
                           size_t align,
                           int32_t (*alias)(void *user, const wf_node *node, int32_t output),
                           void *user, wf_arena *arena, wf_memory_plan *result, weft_error *err) {
  weft_status st = WEFT_OK;
  const size_t n = g->values.n;
  planner k = {.g = g,
               .bindings = bindings,
               .n_bindings = n_bindings,
               .align = align ? align : 1,
               .err = err};
  size_t total = 0;
  k.offsets = wf_arena_calloc(arena, n, sizeof *k.offsets);
  k.n_bytes = wf_arena_calloc(arena, n, sizeof *k.n_bytes);
  k.root = wf_calloc(n + 1, sizeof *k.root);
  k.first = wf_calloc(n + 1, sizeof *k.first);
  k.last = wf_calloc(n + 1, sizeof *k.last);
  if (!k.offsets || !k.n_bytes || !k.root || !k.first || !k.last) WF_TRY(graph_no_memory(err));
  WF_TRY(run(&k, alias, user, &total));
  *result = (wf_memory_plan){total, n, k.offsets, k.n_bytes};
out:
  wf_vec_free(&k.blocks);
  wf_free(k.root);
  wf_free(k.first);
  wf_free(k.last);
  return st;
}
