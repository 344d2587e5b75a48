/* SPDX-License-Identifier: Apache-2.0 */
/* The one table of operators that native runs. */
#include "backend/native/op_list.h"

static wf_op_fn *const functions[WF_OP_COUNT] = {
#define WF_X(op, name) [WF_OP_##op] = wf_op_##name,
    WF_OP_LIST(WF_X)
#undef WF_X
};

wf_op_fn *wf_op_function(wf_op op) {
  return (int)op > 0 && (int)op < (int)WF_OP_COUNT ? functions[op] : NULL;
}

weft_status wf_op_control(wf_op_call *c, weft_error *err) {
  return wf_op_fail(c, err, WEFT_UNSUPPORTED, "subgraphs can't run here");
}

weft_status wf_op_check_graph(const wf_graph *g, weft_error *err) {
  for (size_t i = 0; i < g->order.n; i++) {
    const wf_node *n = g->nodes.at[g->order.at[i]];
    if (!wf_op_function(n->op)) {
      return wf_fail(err, WEFT_UNSUPPORTED, "run the package on another backend",
                     "operator %.*s of domain '%.*s', version %d, is not supported (node '%.*s')",
                     (int)n->op_type.n, n->op_type.at ? n->op_type.at : "",
                     n->domain.n ? (int)n->domain.n : 7, n->domain.n ? n->domain.at : "ai.onnx",
                     (int)n->version, (int)n->name.n, n->name.at ? n->name.at : "");
    }
    for (size_t j = 0; j < n->n_subgraphs; j++) {
      WF_RETURN_IF_ERROR(wf_op_check_graph(n->subgraphs[j], err));
    }
  }
  return WEFT_OK;
}
