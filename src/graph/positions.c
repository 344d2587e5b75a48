/* SPDX-License-Identifier: Apache-2.0 */
/* Positions that a graph computes from the past length or the padding mask become the packed input
 * of positions: in packed form there is no past length of the whole run to compute them from. */
#include "graph/flow.h"
#include "graph/prove.h"

static bool is_candidate(const wf_graph *g, const wf_value *v, wf_expr batch, wf_expr seq) {
  int64_t one;
  if (v->is_input || v->tensor || !graph_n_uses(v) ||
      (v->dtype != WF_DTYPE_I64 && v->dtype != WF_DTYPE_I32))
    return false;
  if (v->rank < 1 || v->rank > 2 || v->dims[v->rank - 1] != seq) return false;
  return v->rank == 1 || v->dims[0] == batch ||
         (wf_expr_is_const(g->exprs, v->dims[0], &one) && one == 1);
}

static weft_status positions_input(wf_graph *g, wf_packed *r, wf_expr batch, wf_expr seq,
                                   weft_error *err) {
  if (r->positions >= 0) return WEFT_OK;
  wf_value *v = graph_new_value(g, WF_STR("positions"), WF_DTYPE_I64);
  if (!v || !graph_set_dims(g, v, 2, (wf_expr[]){batch, seq})) return graph_no_memory(err);
  v->is_input = true;
  r->positions = v->id;
  return wf_vec_push(&g->inputs, v->id) ? WEFT_OK : graph_no_memory(err);
}

static weft_status put_positions(wf_graph *g, const wf_value *v, int32_t positions,
                                 weft_error *err) {
  int32_t with = positions;
  if (g->values.at[with]->dtype != v->dtype) {
    wf_node *cast = graph_new_node(g, WF_OP_CAST, 1, &with, 1, NULL);
    if (!cast || !graph_set_attr_i(g, cast, "to", (int64_t)v->dtype)) return graph_no_memory(err);
    WF_RETURN_IF_ERROR(graph_infer_node(g, cast, err));
    with = cast->outputs[0];
  }
  if (v->rank == 1) {
    const wf_value *shape = graph_const_i64(g, (int64_t[]){-1}, 1, 1);
    wf_node *flat =
        shape ? graph_new_node(g, WF_OP_RESHAPE, 2, (int32_t[]){with, shape->id}, 1, NULL) : NULL;
    if (!flat) return graph_no_memory(err);
    WF_RETURN_IF_ERROR(graph_infer_node(g, flat, err));
    with = flat->outputs[0];
  }
  return graph_replace(g, v->id, with) ? WEFT_OK : graph_no_memory(err);
}

weft_status graph_lift_positions(wf_graph *g, const wf_ports *ports, wf_packed *r, wf_expr batch,
                                 wf_expr seq, weft_error *err) {
  const wf_pass_options o = {.ports = ports};
  pass p = {.g = g, .o = &o, .err = err};
  for (size_t i = 0; i < g->order.n; i++) {
    const wf_node *n = g->nodes.at[g->order.at[i]];
    const wf_value *v = n->n_outputs == 1 ? wf_graph_value(g, n->outputs[0]) : NULL;
    if (!v || !is_candidate(g, v, batch, seq) || !prove_positions(&p, v->id)) continue;
    /* A value that only recasts the positions input is token-wise as it is. */
    if (r->positions >= 0 && before_casts(g, v->id) == r->positions) continue;
    WF_RETURN_IF_ERROR(positions_input(g, r, batch, seq, err));
    WF_RETURN_IF_ERROR(put_positions(g, v, r->positions, err));
  }
  return graph_sort(g, err);
}
