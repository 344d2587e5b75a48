/* SPDX-License-Identifier: Apache-2.0 */
/* Head layouts and repeated heads. */
#include "graph/heads.h"

static const int64_t swap_heads[] = {0, 2, 1, 3};

int32_t transposed_by(const wf_graph *g, int32_t value, const int64_t *perm, size_t n) {
  const wf_node *t = made_by(g, value, WF_OP_TRANSPOSE);
  const wf_attr *a = t ? wf_node_attr(t, "perm") : NULL;
  if (!a || a->kind != WF_ATTR_INTS || a->n != n) return -1;
  for (size_t i = 0; i < n; i++) {
    if (a->ints[i] != perm[i]) return -1;
  }
  return t->inputs[0];
}

int32_t before_scales(const wf_graph *g, int32_t value, double *scale) {
  for (int depth = 0; depth < 8; depth++) {
    const wf_node *n = graph_producer_of(g, value);
    double v;
    if (!n || (n->op != WF_OP_MUL && n->op != WF_OP_DIV)) break;
    if (graph_const_scalar(g, n->inputs[1], &v) && v != 0) {
      *scale = n->op == WF_OP_MUL ? *scale * v : *scale / v;
      value = n->inputs[0];
    } else if (n->op == WF_OP_MUL && graph_const_scalar(g, n->inputs[0], &v)) {
      *scale *= v;
      value = n->inputs[1];
    } else {
      break;
    }
  }
  return value;
}

/* One value joined to itself along axis 2 of 5. */
static const wf_node *joined_to_itself(const wf_graph *g, int32_t value) {
  const wf_node *n = made_by(g, value, WF_OP_CONCAT);
  const int64_t axis = n ? wf_node_attr_i(n, "axis", 0) : 0;
  if (!n || (axis != 2 && axis != -3)) return NULL;
  for (int32_t i = 1; i < n->n_inputs; i++) {
    if (n->inputs[i] != n->inputs[0]) return NULL;
  }
  return n;
}

int32_t heads_before_repeat(const wf_graph *g, int32_t value) {
  const wf_node *join = made_by(g, value, WF_OP_RESHAPE);
  const wf_node *repeat = join ? made_by(g, join->inputs[0], WF_OP_EXPAND) : NULL;
  if (!repeat && join) repeat = made_by(g, join->inputs[0], WF_OP_TILE);
  if (!repeat && join) repeat = joined_to_itself(g, join->inputs[0]);
  const wf_node *split = repeat ? graph_producer_of(g, repeat->inputs[0]) : NULL;
  if (!split || (split->op != WF_OP_UNSQUEEZE && split->op != WF_OP_RESHAPE)) return value;
  /* [B, kv, T, D] -> [B, kv, 1, T, D] -> [B, kv, n, T, D] -> [B, kv * n, T, D] */
  const wf_value *x = g->values.at[split->inputs[0]], *one = g->values.at[split->outputs[0]];
  const wf_value *all = g->values.at[repeat->outputs[0]], *y = g->values.at[value];
  int64_t kv, n, heads, d;
  if (x->rank != 4 || one->rank != 5 || all->rank != 5 || y->rank != 4) return value;
  if (!const_dim(g, one->id, 2, &d) || d != 1 || !const_dim(g, x->id, 1, &kv)) return value;
  if (!const_dim(g, all->id, 2, &n) || !const_dim(g, y->id, 1, &heads) || heads != kv * n)
    return value;
  if (one->dims[1] != x->dims[1] || one->dims[3] != x->dims[2] || one->dims[4] != x->dims[3])
    return value;
  if (all->dims[1] != x->dims[1] || all->dims[4] != x->dims[3] || y->dims[3] != x->dims[3])
    return value;
  return x->id;
}

/* ---- head-major to token-major ----------------------------------------------------------- */

/* A part of each head: q, k and v beside each other inside of it. */
static bool cuts_heads(const wf_graph *g, const wf_node *n) {
  int64_t axis = wf_node_attr_i(n, "axis", 0);
  int32_t count = 1;
  if (n->op == WF_OP_SLICE) {
    axis = 0;
    if (!graph_const_ints(g, wf_node_input(n, 3), &axis, 1, &count)) return false;
  } else if (n->op != WF_OP_SPLIT) {
    return false;
  }
  return count == 1 && (axis == -1 || axis == 3);
}

static bool can_pass(const wf_graph *g, const wf_node *n) {
  if (n->op == WF_OP_CAST || cuts_heads(g, n)) return true;
  return n->op == WF_OP_WEFT_NORM && n->inputs[1] < 0 &&
         (wf_node_output(n, 1) < 0 || !graph_n_uses(g->values.at[n->outputs[1]]));
}

/* [B, 1, S, D]: the one head of keys that all heads of queries share, never turned in its life. */
static bool is_one_head(const wf_graph *g, int32_t value) {
  int64_t one;
  return const_dim(g, value, 1, &one) && one == 1 && last_dim(g, value) > 0;
}

bool heads_can_turn(const wf_graph *g, int32_t value) {
  for (int depth = 0; depth < 8; depth++) {
    const wf_value *v = g->values.at[value];
    if (v->rank != 4) return false;
    if (transposed_by(g, value, swap_heads, 4) >= 0) return true;
    const wf_node *n = graph_producer_of(g, value);
    if (!n || !can_pass(g, n)) return n && is_one_head(g, value);
    value = n->inputs[0];
  }
  return false;
}

static weft_status turn_one_head(pass *p, int32_t value, int32_t *result) {
  wf_graph *g = p->g;
  const wf_value *shape = graph_const_i64(g, (int64_t[]){0, -1, 1, last_dim(g, value)}, 4, 1);
  wf_node *n =
      shape ? graph_new_node(g, WF_OP_RESHAPE, 2, (int32_t[]){value, shape->id}, 1, NULL) : NULL;
  if (!n) return graph_no_memory(p->err);
  *result = n->outputs[0];
  return graph_infer_node(g, n, p->err);
}

/* [B, S, H, D] of a head-major value: norms over D, cuts of it and casts commute with the
 * transpose. */
static weft_status apart(pass *p, int32_t value, int depth, int32_t *result) {
  wf_graph *g = p->g;
  *result = transposed_by(g, value, swap_heads, 4);
  if (*result >= 0) return WEFT_OK;
  const wf_node *n = graph_producer_of(g, value);
  if (!n || depth > 8) return WEFT_OK;
  if (!can_pass(g, n)) return is_one_head(g, value) ? turn_one_head(p, value, result) : WEFT_OK;
  int32_t in[5], before;
  WF_RETURN_IF_ERROR(apart(p, n->inputs[0], depth + 1, &before));
  if (before < 0 || n->n_inputs > 5) return WEFT_OK;
  in[0] = before;
  for (int32_t i = 1; i < n->n_inputs; i++) in[i] = n->inputs[i];
  const int32_t which = g->values.at[value]->producer_output;
  wf_node *copy =
      graph_new_node(g, n->op, n->n_inputs, in, n->op == WF_OP_SPLIT ? n->n_outputs : 1, NULL);
  if (!copy) return graph_no_memory(p->err);
  copy->as = n->as;
  copy->attrs = n->attrs;
  copy->n_attrs = n->n_attrs;
  copy->version = n->version;
  copy->name = n->name;
  const int32_t y = copy->outputs[copy->n_outputs > 1 ? which : 0];
  g->values.at[y]->dtype = g->values.at[value]->dtype;
  WF_RETURN_IF_ERROR(graph_infer_node(g, copy, p->err));
  *result = y;
  return WEFT_OK;
}

weft_status heads_to_tokens(pass *p, int32_t value, int32_t *result) {
  wf_graph *g = p->g;
  int32_t v4;
  int64_t heads, size;
  *result = -1;
  WF_RETURN_IF_ERROR(apart(p, value, 0, &v4));
  if (v4 < 0 || !const_dim(g, v4, 2, &heads) || !const_dim(g, v4, 3, &size)) return WEFT_OK;
  const wf_node *split = made_by(g, v4, WF_OP_RESHAPE);
  const wf_value *x = split ? g->values.at[split->inputs[0]] : NULL, *y = g->values.at[v4];
  if (x && x->rank == 3 && x->dims[0] == y->dims[0] && x->dims[1] == y->dims[1] &&
      last_dim(g, x->id) == heads * size) {
    *result = x->id;
    return WEFT_OK;
  }
  const wf_value *shape = graph_const_i64(g, (int64_t[]){0, 0, heads * size}, 3, 1);
  if (!shape) return graph_no_memory(p->err);
  wf_node *join = graph_new_node(g, WF_OP_RESHAPE, 2, (int32_t[]){v4, shape->id}, 1, NULL);
  if (!join) return graph_no_memory(p->err);
  WF_RETURN_IF_ERROR(graph_infer_node(g, join, p->err));
  *result = join->outputs[0];
  return WEFT_OK;
}
