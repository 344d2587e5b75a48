/* SPDX-License-Identifier: Apache-2.0 */
/* Constants that can be known before anything runs: followed integers, other views of the same
 * bytes, small results computed here, larger ones by the backend's callback. */
#include <string.h>

#include "graph/eval.h"
#include "graph/passes.h"

enum { DEFAULT_MAX_BYTES = 16 << 20, OWN_MAX_ELEMENTS = 1 << 16 };

/* Makes a value constant; its node dies with the dead code. */
static weft_status become(pass *p, int32_t id, const wf_tensor *t) {
  wf_graph *g = p->g;
  const wf_value *old = g->values.at[id];
  if (t->rank > GRAPH_MAX_RANK || old->is_output) return WEFT_OK; /* ports stay made by nodes */
  const wf_value *made = graph_new_const(g, old->name, t);
  if (!made || !graph_replace(g, id, made->id)) return graph_no_memory(p->err);
  p->changed = true;
  return WEFT_OK;
}

/* A value all of whose integers are known numbers. */
static weft_status fold_content(pass *p, const wf_value *v) {
  wf_graph *g = p->g;
  int64_t numbers[GRAPH_MAX_CONTENT];
  if (v->n_content < 0 || v->rank < 0 || v->rank > 1 || !wf_dtype_bits(v->dtype)) return WEFT_OK;
  for (int32_t i = 0; i < v->n_content; i++) {
    if (!wf_expr_is_const(g->exprs, v->content[i], &numbers[i])) return WEFT_OK;
  }
  wf_tensor *t = eval_new_tensor(g->arena, v->dtype, v->rank, (int64_t[]){v->n_content});
  if (!t) return graph_no_memory(p->err);
  for (int32_t i = 0; i < v->n_content; i++) {
    if (!eval_store_i64(t, (size_t)i, numbers[i])) return WEFT_OK;
  }
  return become(p, v->id, t);
}

/* Reshapes of constants are the same bytes under other dims. */
static weft_status fold_view(pass *p, const wf_node *n) {
  wf_graph *g = p->g;
  const wf_value *x = g->values.at[n->inputs[0]], *y = g->values.at[n->outputs[0]];
  int64_t *dims = wf_arena_calloc(g->arena, (size_t)(y->rank > 0 ? y->rank : 0), sizeof *dims);
  wf_tensor *t = wf_arena_alloc(g->arena, sizeof *t);
  size_t count;
  if (!dims || !t) return graph_no_memory(p->err);
  if (y->rank < 0 || !x->tensor) return WEFT_OK;
  for (int32_t i = 0; i < y->rank; i++) {
    if (!wf_expr_is_const(g->exprs, y->dims[i], &dims[i])) return WEFT_OK;
  }
  if (!wf_dims_count(dims, (size_t)y->rank, &count) || count != x->tensor->n) return WEFT_OK;
  *t = *x->tensor;
  t->rank = y->rank;
  t->dims = dims;
  return become(p, y->id, t);
}

static bool is_view(wf_op op) {
  return op == WF_OP_RESHAPE || op == WF_OP_SQUEEZE || op == WF_OP_UNSQUEEZE ||
         op == WF_OP_FLATTEN || op == WF_OP_IDENTITY;
}

/* Expanding or dequantising a weight would take more memory than it saves time. */
static bool is_worth_it(const wf_op op) {
  return op != WF_OP_DEQUANTIZE_LINEAR && op != WF_OP_MS_DEQUANTIZE_LINEAR &&
         op != WF_OP_MS_MATMUL_NBITS && op != WF_OP_MS_GATHER_BLOCK_QUANTIZED;
}

static weft_status compute(pass *p, const wf_node *n, size_t max_bytes) {
  wf_graph *g = p->g;
  const wf_tensor *inputs[8] = {0};
  wf_tensor *outputs[8] = {0};
  if (n->n_inputs > 8 || n->n_outputs > 8) return WEFT_OK;
  size_t largest = 0;
  for (int32_t i = 0; i < n->n_inputs; i++) {
    if (n->inputs[i] < 0) continue;
    inputs[i] = g->values.at[n->inputs[i]]->tensor;
    if (inputs[i]->n > largest) largest = inputs[i]->n;
  }
  for (int32_t i = 0; i < n->n_outputs; i++) { /* the size must be known and small before */
    const wf_value *v = graph_value(g, n->outputs[i]);
    if (!v) continue;
    int64_t count;
    size_t n_bytes;
    if (v->is_output || !wf_expr_is_const(g->exprs, wf_value_count(g, v), &count) || count < 0)
      return WEFT_OK;
    if (!wf_dtype_bytes(v->dtype, (size_t)count, &n_bytes) || n_bytes > max_bytes) return WEFT_OK;
    if ((size_t)count > largest) largest = (size_t)count;
  }
  weft_status st = WEFT_UNSUPPORTED;
  if (largest <= OWN_MAX_ELEMENTS) st = eval_node(n, inputs, g->arena, outputs, p->err);
  if (st == WEFT_UNSUPPORTED && p->o && p->o->fold)
    st = p->o->fold(p->o->fold_user, n, inputs, g->arena, outputs, p->err);
  if (st == WEFT_UNSUPPORTED) return WEFT_OK;
  WF_RETURN_IF_ERROR(st);
  for (int32_t i = 0; i < n->n_outputs; i++) {
    if (outputs[i] && n->outputs[i] >= 0) WF_RETURN_IF_ERROR(become(p, n->outputs[i], outputs[i]));
  }
  return WEFT_OK;
}

weft_status pass_fold(pass *p) {
  wf_graph *g = p->g;
  const size_t max_bytes = p->o && p->o->max_fold_bytes ? p->o->max_fold_bytes : DEFAULT_MAX_BYTES;
  FOR_NODES(p, n) {
    bool all_const = n->n_subgraphs == 0 && n->n_captures == 0;
    for (int32_t i = 0; i < n->n_inputs; i++)
      all_const &= n->inputs[i] < 0 || is_const(g, n->inputs[i]);
    if (n->op == WF_OP_CONSTANT) {
      const wf_value *v = graph_value(g, wf_node_output(n, 0));
      if (v && v->tensor) WF_RETURN_IF_ERROR(become(p, v->id, v->tensor));
      continue;
    }
    for (int32_t i = 0; i < n->n_outputs; i++) {
      if (n->outputs[i] >= 0 && graph_n_uses(g->values.at[n->outputs[i]]))
        WF_RETURN_IF_ERROR(fold_content(p, g->values.at[n->outputs[i]]));
    }
    if (!all_const || n->n_inputs == 0 || n->op == WF_OP_UNKNOWN || n->op >= WF_OP_WEFT_NORM)
      continue;
    if (is_view(n->op) && wf_node_output(n, 0) >= 0)
      WF_RETURN_IF_ERROR(fold_view(p, n));
    else if (is_worth_it(n->op))
      WF_RETURN_IF_ERROR(compute(p, n, max_bytes));
  }
  return WEFT_OK;
}
