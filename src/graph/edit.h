/* SPDX-License-Identifier: Apache-2.0 */
/* Making and changing graphs. Private to src/graph: everybody else sees a const graph.
 *
 * Users are kept exact: making a node adds uses, killing it takes them away. Dead nodes stay in
 * the list with is_dead, so ids are stable; wf_graph_sort finds the live ones. */
#ifndef WF_GRAPH_EDIT_H
#define WF_GRAPH_EDIT_H

#include "graph/graph.h"

enum {
  GRAPH_MAX_NODES = 1 << 17,
  GRAPH_MAX_RANK = 16,
  GRAPH_MAX_CONTENT = 64 /* elements of a tensor whose integers are followed */
};

/* graph_core.c */
weft_status graph_no_memory(weft_error *err) WF_COLD;
wf_graph *graph_create(wf_arena *arena, wf_expr_pool *exprs, const wf_graph *parent);
void graph_free_lists(wf_graph *g);
/* NULL when memory is out. The name is borrowed. */
wf_value *graph_new_value(wf_graph *g, wf_str name, wf_dtype dtype);
/* A value like another: dtype and shape copied, fresh name. */
wf_value *graph_value_like(wf_graph *g, const wf_value *v);
wf_value *graph_new_const(wf_graph *g, wf_str name, const wf_tensor *t);
wf_value *graph_const_i64(wf_graph *g, const int64_t *v, int32_t n, int32_t rank);
wf_value *graph_const_f32(wf_graph *g, const float *v, int32_t n, int32_t rank);
bool graph_set_dims(wf_graph *g, wf_value *v, int32_t rank, const wf_expr *dims);
bool graph_set_content(wf_graph *g, wf_value *v, int32_t n, const wf_expr *content);
/* A node with n_out fresh outputs, or with the given ones when `outputs` is not NULL. */
wf_node *graph_new_node(wf_graph *g, wf_op op, int32_t n_inputs, const int32_t *inputs,
                        int32_t n_outputs, const int32_t *outputs);
bool graph_set_attr_i(wf_graph *g, wf_node *n, const char *name, int64_t v);
bool graph_set_attr_ints(wf_graph *g, wf_node *n, const char *name, const int64_t *v, size_t n_v);
bool graph_set_input(wf_graph *g, wf_node *n, int32_t i, int32_t value);
bool graph_set_inputs(wf_graph *g, wf_node *n, int32_t n_inputs, const int32_t *inputs);
void graph_kill(wf_graph *g, wf_node *n);
/* Every use of `from` (graph outputs too) becomes a use of `to`. */
bool graph_replace(wf_graph *g, int32_t from, int32_t to);
bool graph_add_use(wf_graph *g, int32_t value, int32_t node);
void graph_drop_use(wf_graph *g, int32_t value, int32_t node);
/* Nodes that the outputs need, producers first, into g->order; others are killed.
 * PACKAGE_INVALID on a cycle. */
weft_status graph_sort(wf_graph *g, weft_error *err) WF_NODISCARD;

static inline wf_value *graph_value(const wf_graph *g, int32_t id) {
  return id < 0 ? NULL : g->values.at[id];
}
static inline wf_node *graph_node(const wf_graph *g, int32_t id) {
  return id < 0 ? NULL : g->nodes.at[id];
}
static inline wf_node *graph_producer_of(const wf_graph *g, int32_t value) {
  return value < 0 ? NULL : graph_node(g, g->values.at[value]->producer);
}
/* Uses by nodes plus one when it leaves the graph. */
static inline size_t graph_n_uses(const wf_value *v) { return v->n_users + (v->is_output ? 1 : 0); }

/* arity.c. Refuses a node of a known operator with fewer or more inputs or outputs than it has, or
 * without one that it needs: PACKAGE_INVALID (too few), UNSUPPORTED (more than weft knows of). */
weft_status graph_check_arity(const wf_node *n, int32_t n_outputs, weft_error *err) WF_NODISCARD;

/* infer.c */
weft_status graph_infer(wf_graph *g, weft_error *err) WF_NODISCARD;
weft_status graph_infer_node(wf_graph *g, wf_node *n, weft_error *err) WF_NODISCARD;

/* Small readers of constants. */
bool graph_const_scalar(const wf_graph *g, int32_t value, double *v);
bool graph_const_ints(const wf_graph *g, int32_t value, int64_t *out, int32_t max, int32_t *n);
bool graph_tensor_f64(const wf_tensor *t, size_t i, double *v);
bool graph_tensor_i64(const wf_tensor *t, size_t i, int64_t *v);

#endif
