/* SPDX-License-Identifier: Apache-2.0 */
/* Small questions that every fusion asks. */
#include <math.h>

#include "graph/passes.h"

wf_node *made_by(const wf_graph *g, int32_t value, wf_op op) {
  wf_node *n = graph_producer_of(g, value);
  return n && n->op == op ? n : NULL;
}

bool is_used_once(const wf_graph *g, int32_t value) {
  return graph_n_uses(g->values.at[value]) == 1;
}

wf_node *made_once_by(const wf_graph *g, int32_t value, wf_op op) {
  wf_node *n = made_by(g, value, op);
  return n && is_used_once(g, value) ? n : NULL;
}

bool is_scalar_near(const wf_graph *g, int32_t value, double v) {
  double x;
  return graph_const_scalar(g, value, &x) && fabs(x - v) <= 1e-3 * fabs(v) + 1e-12;
}

int32_t other_input(const wf_node *n, int32_t value) {
  if (n->n_inputs != 2) return -1;
  if (n->inputs[0] == value) return n->inputs[1];
  return n->inputs[1] == value ? n->inputs[0] : -1;
}

bool is_const(const wf_graph *g, int32_t value) {
  return value >= 0 && g->values.at[value]->tensor != NULL;
}

bool same_shape(const wf_graph *g, int32_t a, int32_t b) {
  const wf_value *x = graph_value(g, a), *y = graph_value(g, b);
  if (!x || !y || x->rank < 0 || x->rank != y->rank) return false;
  for (int32_t i = 0; i < x->rank; i++) {
    if (x->dims[i] < 0 || x->dims[i] != y->dims[i]) return false;
  }
  return true;
}

bool const_dim(const wf_graph *g, int32_t value, int32_t axis, int64_t *v) {
  const wf_value *x = graph_value(g, value);
  return x && axis >= 0 && axis < x->rank && wf_expr_is_const(g->exprs, x->dims[axis], v);
}

int64_t last_dim(const wf_graph *g, int32_t value) {
  const wf_value *x = graph_value(g, value);
  int64_t v;
  return x && x->rank > 0 && const_dim(g, value, x->rank - 1, &v) ? v : -1;
}

int32_t before_casts(const wf_graph *g, int32_t value) {
  for (const wf_node *n; (n = made_by(g, value, WF_OP_CAST));) value = n->inputs[0];
  return value;
}

bool reduces_last_axis(const wf_graph *g, const wf_node *n) {
  const wf_value *x = graph_value(g, n->inputs[0]);
  const wf_attr *a = wf_node_attr(n, "axes");
  int64_t axis = 0;
  int32_t count = 0;
  if (a && a->kind == WF_ATTR_INTS && a->n == 1)
    axis = a->ints[0], count = 1;
  else if (!graph_const_ints(g, wf_node_input(n, 1), &axis, 1, &count))
    return false;
  return count == 1 && x->rank > 0 && (axis == -1 || axis == x->rank - 1);
}

void take_output(wf_graph *g, wf_node *n, int32_t i, int32_t old) {
  int32_t *outputs = wf_unconst(n->outputs); /* the graph's own list */
  wf_value *v = g->values.at[old];
  wf_node *before = graph_node(g, v->producer);
  if (before && before != n) {
    int32_t *theirs = wf_unconst(before->outputs); /* the graph's own list */
    theirs[v->producer_output] = -1;
  }
  if (outputs[i] >= 0 && outputs[i] != old) g->values.at[outputs[i]]->producer = -1;
  outputs[i] = old;
  v->producer = n->id;
  v->producer_output = i;
}
