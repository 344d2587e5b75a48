/* SPDX-License-Identifier: Apache-2.0 */
/* Angles of the rotary embedding. Exporters multiply a column of frequencies [B, D, 1] by a row of
 * positions [B, 1, S] and transpose; as positions [B, S, 1] times frequencies [1, 1, D] it is an
 * element-wise product with one row a token. */
#include "graph/passes.h"

/* A constant column [1, D, 1], perhaps expanded over the batch. */
static const wf_value *column_of(const wf_graph *g, int32_t value) {
  const wf_node *expand = made_by(g, value, WF_OP_EXPAND);
  int64_t one;
  if (expand) {
    const wf_value *x = g->values.at[expand->inputs[0]], *y = g->values.at[value];
    if (x->rank != 3 || y->rank != 3 || x->dims[1] != y->dims[1] || x->dims[2] != y->dims[2])
      return NULL;
    value = x->id;
  }
  const wf_value *v = g->values.at[value];
  if (!v->tensor || v->rank != 3 || last_dim(g, value) != 1) return NULL;
  return const_dim(g, value, 0, &one) && one == 1 ? v : NULL;
}

static weft_status turn(pass *p, wf_node *transpose) {
  wf_graph *g = p->g;
  const wf_attr *perm = wf_node_attr(transpose, "perm");
  const wf_node *product = made_once_by(g, transpose->inputs[0], WF_OP_MATMUL);
  int64_t one, n;
  if (!product || !perm || perm->kind != WF_ATTR_INTS || perm->n != 3 || perm->ints[1] != 2 ||
      perm->ints[2] != 1)
    return WEFT_OK;
  const wf_value *column = column_of(g, product->inputs[0]),
                 *row = g->values.at[product->inputs[1]];
  if (!column || row->rank != 3 || !const_dim(g, row->id, 1, &one) || one != 1 ||
      !const_dim(g, column->id, 1, &n))
    return WEFT_OK;
  const wf_value *as_row = graph_const_i64(g, (int64_t[]){1, 1, n}, 3, 1);
  const wf_value *as_column = graph_const_i64(g, (int64_t[]){0, -1, 1}, 3, 1);
  if (!as_row || !as_column) return graph_no_memory(p->err);
  wf_node *frequencies =
      graph_new_node(g, WF_OP_RESHAPE, 2, (int32_t[]){column->id, as_row->id}, 1, NULL);
  wf_node *positions =
      graph_new_node(g, WF_OP_RESHAPE, 2, (int32_t[]){row->id, as_column->id}, 1, NULL);
  if (!frequencies || !positions) return graph_no_memory(p->err);
  const int32_t in[2] = {positions->outputs[0], frequencies->outputs[0]},
                out = transpose->outputs[0];
  graph_kill(g, transpose);
  wf_node *angles = graph_new_node(g, WF_OP_MUL, 2, in, 1, &out);
  if (!angles) return graph_no_memory(p->err);
  p->changed = true;
  return WEFT_OK;
}

weft_status pass_frequencies(pass *p) {
  FOR_NODES(p, n) {
    if (n->op == WF_OP_TRANSPOSE) WF_RETURN_IF_ERROR(turn(p, n));
  }
  return WEFT_OK;
}
