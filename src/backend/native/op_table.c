/* SPDX-License-Identifier: Apache-2.0 */
/* The one table of operators that native runs. */
#include "backend/native/op.h"

wf_op_fn *wf_op_function(wf_op op) {
  (void)op;
  return NULL;
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
