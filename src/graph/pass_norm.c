/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations become one internal operator: those with an operator of their own, and those that
 * exporters write out as x * 1/sqrt(mean(x^2) + epsilon) * weight. */
#include <math.h>

#include "graph/passes.h"

static wf_node *new_norm(pass *p, wf_norm_kind kind, float epsilon, const int32_t in[5]) {
  wf_node *n = graph_new_node(p->g, WF_OP_WEFT_NORM, 5, in, 0, NULL);
  int32_t *outputs = n ? wf_arena_calloc(p->g->arena, 2, sizeof *outputs) : NULL;
  if (!outputs) return NULL;
  outputs[0] = outputs[1] = -1;
  n->outputs = outputs;
  n->n_outputs = 2;
  n->as.norm = (wf_norm_params){kind, epsilon};
  return n;
}

/* Weight and shift must be vectors of the last dimension. */
static bool is_row(const wf_graph *g, int32_t value, int64_t width) {
  const wf_value *v = graph_value(g, value);
  return !v || (v->rank == 1 && width > 0 && last_dim(g, value) == width);
}

static bool is_last_axis(const wf_graph *g, const wf_node *n) {
  const wf_value *x = graph_value(g, n->inputs[0]);
  const int64_t axis = wf_node_attr_i(n, "axis", -1);
  return x->rank > 0 && (axis == -1 || axis == x->rank - 1);
}

/* Operators whose meaning is a norm over the last axis. */
static weft_status from_operator(pass *p, wf_node *n) {
  wf_graph *g = p->g;
  const int32_t x = wf_node_input(n, 0);
  int32_t in[5] = {x, -1, -1, -1, -1}, sum = -1;
  wf_norm_kind kind = WF_NORM_RMS;
  float epsilon = wf_node_attr_f(n, "epsilon", 1e-5f);
  switch ((int)n->op) {
    case WF_OP_SIMPLIFIED_LAYER_NORM:
    case WF_OP_MS_SIMPLIFIED_LAYER_NORM:
    case WF_OP_RMS_NORM:
      if (!is_last_axis(g, n)) return WEFT_OK;
      in[3] = wf_node_input(n, 1);
      break;
    case WF_OP_LAYER_NORM:
      if (!is_last_axis(g, n)) return WEFT_OK;
      kind = WF_NORM_LAYER;
      in[3] = wf_node_input(n, 1);
      in[4] = wf_node_input(n, 2);
      break;
    case WF_OP_MS_SKIP_SIMPLIFIED_LAYER_NORM:
      in[1] = wf_node_input(n, 1);
      in[3] = wf_node_input(n, 2);
      in[2] = wf_node_input(n, 3);
      sum = wf_node_output(n, 3);
      epsilon = wf_node_attr_f(n, "epsilon", 1e-12f);
      break;
    case WF_OP_MS_SKIP_LAYER_NORM:
      kind = WF_NORM_LAYER;
      in[1] = wf_node_input(n, 1);
      in[3] = wf_node_input(n, 2);
      in[4] = wf_node_input(n, 3);
      in[2] = wf_node_input(n, 4);
      sum = wf_node_output(n, 3);
      epsilon = wf_node_attr_f(n, "epsilon", 1e-12f);
      break;
    default:
      return WEFT_OK;
  }
  const int64_t width = last_dim(g, x);
  for (int i = 2; i < 5; i++) {
    if (!is_row(g, in[i], width)) return WEFT_OK;
  }
  if (in[1] >= 0 && !same_shape(g, x, in[1])) return WEFT_OK; /* broadcast skips stay as they are */
  for (int32_t i = 1; i < n->n_outputs; i++) { /* mean and deviation are for training */
    const wf_value *v = graph_value(g, n->outputs[i]);
    if (v && n->outputs[i] != sum && graph_n_uses(v)) return WEFT_OK;
  }
  wf_node *norm = new_norm(p, kind, epsilon, in);
  if (!norm) return graph_no_memory(p->err);
  norm->name = n->name;
  take_output(g, norm, 0, n->outputs[0]);
  if (sum >= 0) take_output(g, norm, 1, sum);
  graph_kill(g, n);
  p->changed = true;
  return WEFT_OK;
}

/* ---- written out ------------------------------------------------------------------------- */

/* value = x^2 of the value that it returns; -1 otherwise. */
static int32_t square_of(const wf_graph *g, int32_t value) {
  const wf_node *n = made_by(g, value, WF_OP_POW);
  if (n && is_scalar_near(g, n->inputs[1], 2.0)) return n->inputs[0];
  n = made_by(g, value, WF_OP_MUL);
  return n && n->inputs[0] == n->inputs[1] ? n->inputs[0] : -1;
}

/* mean(x^2) + epsilon: gives x. */
static int32_t mean_square_of(const wf_graph *g, int32_t value, double *epsilon) {
  const wf_node *add = made_by(g, value, WF_OP_ADD);
  if (!add) return -1;
  int32_t mean = add->inputs[0];
  if (!graph_const_scalar(g, add->inputs[1], epsilon)) {
    mean = add->inputs[1];
    if (!graph_const_scalar(g, add->inputs[0], epsilon)) return -1;
  }
  const wf_node *reduce = made_by(g, mean, WF_OP_REDUCE_MEAN);
  if (!reduce || !wf_node_attr_i(reduce, "keepdims", 1) || !reduces_last_axis(g, reduce)) return -1;
  return square_of(g, reduce->inputs[0]);
}

/* 1/sqrt(mean(x^2) + epsilon): gives x. */
static int32_t inverse_rms_of(const wf_graph *g, int32_t value, double *epsilon) {
  const wf_node *n = graph_producer_of(g, value);
  if (!n) return -1;
  const wf_node *root = NULL;
  if (n->op == WF_OP_RECIPROCAL) root = made_by(g, n->inputs[0], WF_OP_SQRT);
  if (n->op == WF_OP_DIV && is_scalar_near(g, n->inputs[0], 1.0))
    root = made_by(g, n->inputs[1], WF_OP_SQRT);
  if (n->op == WF_OP_POW && is_scalar_near(g, n->inputs[1], -0.5))
    return mean_square_of(g, n->inputs[0], epsilon);
  return root ? mean_square_of(g, root->inputs[0], epsilon) : -1;
}

/* x / |x| * sqrt(D), which is x over its root mean square: gives x. */
static int32_t unit_of(const wf_graph *g, const wf_node *n) {
  for (int i = 0; i < 2; i++) {
    const wf_node *div = made_by(g, n->inputs[i], WF_OP_DIV);
    const wf_node *length = div ? made_by(g, div->inputs[1], WF_OP_REDUCE_L2) : NULL;
    double scale;
    if (!length || length->inputs[0] != div->inputs[0] || !wf_node_attr_i(length, "keepdims", 1) ||
        !reduces_last_axis(g, length) || !graph_const_scalar(g, n->inputs[1 - i], &scale))
      continue;
    const double width = (double)last_dim(g, div->inputs[0]);
    if (scale > 0 && fabs(scale * scale - width) <= 1e-5 * width) return div->inputs[0];
  }
  return -1;
}

/* x * inverse_rms(x) or x / sqrt(..): gives x. */
static int32_t normalised_of(const wf_graph *g, const wf_node *n, double *epsilon) {
  if (n->op == WF_OP_DIV) {
    const wf_node *root = made_by(g, n->inputs[1], WF_OP_SQRT);
    return root && mean_square_of(g, root->inputs[0], epsilon) == n->inputs[0] ? n->inputs[0] : -1;
  }
  if (n->op != WF_OP_MUL) return -1;
  for (int i = 0; i < 2; i++) {
    if (inverse_rms_of(g, n->inputs[i], epsilon) == n->inputs[1 - i]) return n->inputs[1 - i];
  }
  *epsilon = 0;
  return unit_of(g, n);
}

/* (x - mean) / sqrt(mean((x - mean)^2) + epsilon): gives x. */
static int32_t centred_of(const wf_graph *g, const wf_node *n, double *epsilon) {
  const int32_t centred = normalised_of(g, n, epsilon);
  const wf_node *sub = centred < 0 ? NULL : made_by(g, centred, WF_OP_SUB);
  const wf_node *mean = sub ? made_by(g, sub->inputs[1], WF_OP_REDUCE_MEAN) : NULL;
  if (!mean || mean->inputs[0] != sub->inputs[0]) return -1;
  if (!wf_node_attr_i(mean, "keepdims", 1) || !reduces_last_axis(g, mean)) return -1;
  return sub->inputs[0];
}

/* The only user of a value, when it is of this operator. */
static wf_node *only_user(const wf_graph *g, int32_t value, wf_op op) {
  const wf_value *v = g->values.at[value];
  if (v->is_output || v->n_users != 1) return NULL;
  wf_node *n = g->nodes.at[v->users[0]];
  return n->op == op ? n : NULL;
}

/* Follows the result through casts to a product with (or sum of) a constant row. */
static int32_t absorb_row(const wf_graph *g, int32_t *result, wf_op op, int64_t width) {
  int32_t value = *result;
  for (const wf_node *cast; (cast = only_user(g, value, WF_OP_CAST));) value = cast->outputs[0];
  const wf_node *n = only_user(g, value, op);
  const int32_t row = n ? other_input(n, value) : -1;
  if (row < 0 || !is_const(g, row) || g->values.at[row]->rank != 1 || last_dim(g, row) != width)
    return -1;
  *result = n->outputs[0];
  return row;
}

static weft_status from_longhand(pass *p, wf_node *n) {
  wf_graph *g = p->g;
  double epsilon = 0;
  wf_norm_kind kind = WF_NORM_LAYER;
  int32_t x = centred_of(g, n, &epsilon);
  if (x < 0) {
    kind = WF_NORM_RMS;
    x = normalised_of(g, n, &epsilon);
  }
  const int64_t width = x < 0 ? -1 : last_dim(g, x);
  if (width <= 0 || epsilon < 0 || epsilon > 1) return WEFT_OK;
  int32_t result = n->outputs[0], in[5] = {before_casts(g, x), -1, -1, -1, -1};
  if (!wf_dtype_is_float(g->values.at[in[0]]->dtype)) return WEFT_OK;
  in[3] = absorb_row(g, &result, WF_OP_MUL, width);
  if (kind == WF_NORM_LAYER && in[3] >= 0) in[4] = absorb_row(g, &result, WF_OP_ADD, width);
  /* A cast of the result is absorbed as well: the norm computes in fp32 whatever its types. */
  for (const wf_node *cast; (cast = only_user(g, result, WF_OP_CAST));) {
    if (!wf_dtype_is_float(g->values.at[cast->outputs[0]]->dtype)) break;
    result = cast->outputs[0];
  }
  wf_node *norm = new_norm(p, kind, (float)epsilon, in);
  if (!norm) return graph_no_memory(p->err);
  norm->name = n->name;
  take_output(g, norm, 0, result); /* the nodes between are dead now */
  p->changed = true;
  return WEFT_OK;
}

/* norm(a + b) takes the sum in, so that one pass over memory does both. */
static weft_status absorb_sum(pass *p, wf_node *n) {
  wf_graph *g = p->g;
  wf_node *add = n->inputs[1] < 0 ? made_by(g, n->inputs[0], WF_OP_ADD) : NULL;
  if (!add || wf_node_output(n, 1) >= 0) return WEFT_OK;
  const int32_t a = add->inputs[0], b = add->inputs[1], sum = n->inputs[0];
  if (is_const(g, a) || is_const(g, b) || !same_shape(g, a, b)) return WEFT_OK;
  if (!graph_set_input(g, n, 0, a) || !graph_set_input(g, n, 1, b)) return graph_no_memory(p->err);
  if (graph_n_uses(g->values.at[sum])) {
    take_output(g, n, 1, sum);
    graph_kill(g, add);
  }
  p->changed = true;
  return WEFT_OK;
}

weft_status pass_norm(pass *p) {
  FOR_NODES(p, n) {
    WF_RETURN_IF_ERROR(from_operator(p, n));
    if (!n->is_dead && (n->op == WF_OP_MUL || n->op == WF_OP_DIV))
      WF_RETURN_IF_ERROR(from_longhand(p, n));
  }
  WF_RETURN_IF_ERROR(graph_sort(p->g, p->err));
  FOR_NODES(p, n) {
    if (n->op == WF_OP_WEFT_NORM) WF_RETURN_IF_ERROR(absorb_sum(p, n));
  }
  return WEFT_OK;
}
