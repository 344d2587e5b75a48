/* SPDX-License-Identifier: Apache-2.0 */
/* The proof that a graph is token-wise. Each operator says along which axes its output depends on
 * its inputs: for every value the token axis is followed from the inputs to the logits, and an
 * operator that would mix tokens (a reduction, product or cut along that axis) is refused by name.
 * WEFT_ATTENTION alone may mix: within a row, over what its state holds. */
#include "graph/flow.h"

#include <stdio.h>
#include <string.h>

#define REFUSE(text) return flow_refuse(f, n, text)

bool flow_refuse(flow *f, const wf_node *n, const char *why) {
  (void)snprintf(f->packed->why, sizeof f->packed->why, "node '%.*s' (%.*s): %s",
                 (int)(n->name.n < 90 ? n->name.n : 90), n->name.n ? n->name.at : "",
                 (int)(n->op_type.n < 40 ? n->op_type.n : 40), n->op_type.at, why);
  return false;
}

void flow_deinit(flow *f) {
  wf_free(f->values);
  f->values = NULL;
  f->n = 0;
}

static const flow_value *of(const flow *f, int32_t value) {
  static const flow_value absent = {FLOW_INVARIANT, -1, 1};
  return value < 0 ? &absent : &f->values[value];
}

static const flow_value *in(const flow *f, const wf_node *n, int32_t i) {
  return of(f, wf_node_input(n, i));
}

static const wf_value *value_in(const flow *f, const wf_node *n, int32_t i) {
  return wf_graph_value(f->g, wf_node_input(n, i));
}

/* Sets output i and checks that its shape has the axis where the proof says. */
static bool set_tokens(flow *f, const wf_node *n, int32_t i, int32_t axis, int64_t inner) {
  const int32_t id = wf_node_output(n, i);
  if (id < 0) return true;
  const wf_value *v = f->g->values.at[id];
  const wf_expr size =
      wf_expr_mul(f->g->exprs, f->packed->tokens, wf_expr_const(f->g->exprs, inner));
  if (axis < 0 || axis >= v->rank || v->dims[axis] != size)
    REFUSE("the token axis is lost in its result");
  for (int32_t k = 0; k < v->rank; k++) {
    if (k != axis && (v->dims[k] < 0 || wf_expr_uses(f->g->exprs, v->dims[k], f->packed->tokens))) {
      REFUSE("its result has the tokens along two axes");
    }
  }
  f->values[id] = (flow_value){FLOW_TOKENS, axis, inner};
  return true;
}

static bool set_kind(flow *f, const wf_node *n, flow_kind kind) {
  for (int32_t i = 0; i < n->n_outputs; i++) {
    if (n->outputs[i] >= 0) f->values[n->outputs[i]] = (flow_value){kind, -1, 1};
  }
  return true;
}

static bool axis_of(int64_t axis, int32_t rank, int32_t *result) {
  if (axis < -(int64_t)rank || axis >= rank) return false;
  *result = (int32_t)(axis < 0 ? axis + rank : axis);
  return true;
}

/* ---- rules ------------------------------------------------------------------------------- */

typedef bool (*flow_fn)(flow *f, wf_node *n);

/* numpy's broadcasting: token axes must fall on each other, counted from the right. */
static bool rule_elementwise(flow *f, wf_node *n) {
  const wf_value *y = f->g->values.at[n->outputs[0]];
  int32_t axis = -1;
  int64_t inner = 1;
  for (int32_t i = 0; i < n->n_inputs; i++) {
    const flow_value *x = in(f, n, i);
    const wf_value *v = value_in(f, n, i);
    if (!v || x->kind != FLOW_TOKENS) continue;
    const int32_t at = x->axis + y->rank - v->rank;
    if (axis >= 0 && (at != axis || x->inner != inner))
      REFUSE("it combines tokens with other tokens");
    axis = at;
    inner = x->inner;
  }
  /* What does not depend on the tokens must not vary along their axis: its size would be fixed. */
  for (int32_t i = 0; i < n->n_inputs; i++) {
    const wf_value *v = value_in(f, n, i);
    int64_t d;
    if (!v || in(f, n, i)->kind == FLOW_TOKENS) continue;
    const int32_t at = axis - (y->rank - v->rank);
    if (at >= 0 && !(const_dim(f->g, v->id, at, &d) && d == 1))
      REFUSE("it combines tokens with a constant by position");
  }
  for (int32_t i = 0; i < n->n_outputs; i++) {
    if (!set_tokens(f, n, i, axis, inner)) return false;
  }
  return true;
}

/* Follows input 0 alone, along unchanged axes. */
static bool rule_like_first(flow *f, wf_node *n) {
  for (int32_t i = 1; i < n->n_inputs; i++) {
    if (in(f, n, i)->kind == FLOW_TOKENS) REFUSE("a parameter of it depends on the tokens");
  }
  const flow_value x = *in(f, n, 0);
  for (int32_t i = 0; i < n->n_outputs; i++) {
    if (!set_tokens(f, n, i, x.axis, x.inner)) return false;
  }
  return true;
}

/* As rule_like_first for operators that work along one axis, which must not be the tokens'. */
static bool along(flow *f, wf_node *n, int64_t axis) {
  int32_t a;
  if (!axis_of(axis, value_in(f, n, 0)->rank, &a)) REFUSE("its axis is outside");
  if (a == in(f, n, 0)->axis) REFUSE("it works along the tokens");
  return rule_like_first(f, n);
}

static bool rule_softmax(flow *f, wf_node *n) {
  if (n->version < 13) { /* flattens to two dimensions from its axis on */
    int32_t a;
    const int32_t rank = value_in(f, n, 0)->rank;
    if (!axis_of(wf_node_attr_i(n, "axis", 1), rank, &a)) REFUSE("its axis is outside");
    if (a <= in(f, n, 0)->axis) REFUSE("it works along the tokens");
    return rule_like_first(f, n);
  }
  return along(f, n, wf_node_attr_i(n, "axis", -1));
}

static bool rule_last_axis(flow *f, wf_node *n) { return along(f, n, -1); }

/* Rows of x and of the router go together, one a token. */
static bool rule_experts(flow *f, wf_node *n) {
  const flow_value x = *in(f, n, 0);
  const int32_t rows[] = {0, 1, n->op == WF_OP_MS_QMOE ? 14 : 0};
  for (size_t i = 0; i < 3; i++) {
    if (wf_node_input(n, rows[i]) < 0) continue; /* router_weights may be absent */
    const flow_value *v = in(f, n, rows[i]);
    if (v->kind != FLOW_TOKENS || v->axis != value_in(f, n, rows[i])->rank - 2 ||
        v->inner != x.inner)
      REFUSE("its rows and its router's are not one a token");
  }
  for (int32_t i = 2; i < n->n_inputs; i++) {
    if (i != rows[2] && in(f, n, i)->kind == FLOW_TOKENS)
      REFUSE("a parameter of it depends on the tokens");
  }
  return set_tokens(f, n, 0, x.axis, x.inner);
}

static bool rule_axis(flow *f, wf_node *n) {
  const int64_t fallback =
      n->op == WF_OP_TOP_K || n->op == WF_OP_LAYER_NORM || n->op == WF_OP_RMS_NORM ? -1 : 0;
  const int64_t axis = wf_node_attr_i(n, "axis", fallback);
  if (n->op == WF_OP_LAYER_NORM || n->op == WF_OP_RMS_NORM ||
      n->op == WF_OP_SIMPLIFIED_LAYER_NORM) {
    int32_t a;
    if (!axis_of(wf_node_attr_i(n, "axis", -1), value_in(f, n, 0)->rank, &a) ||
        a <= in(f, n, 0)->axis)
      REFUSE("it works along the tokens");
  }
  return along(f, n, axis);
}

static bool rule_cumsum(flow *f, wf_node *n) {
  int64_t axis;
  int32_t count;
  if (!graph_const_ints(f->g, wf_node_input(n, 1), &axis, 1, &count) || count != 1)
    REFUSE("its axis is not constant");
  return along(f, n, axis);
}

static bool rule_trilu(flow *f, wf_node *n) {
  if (in(f, n, 0)->axis >= value_in(f, n, 0)->rank - 2) REFUSE("it works along the tokens");
  return rule_like_first(f, n);
}

/* The axis of the output that the token axis of a reshaped input is: the one with as much before
 * it and, together with its inner part, as much after it. */
static bool rule_reshape(flow *f, wf_node *n) {
  const wf_value *x = value_in(f, n, 0), *y = f->g->values.at[n->outputs[0]];
  const flow_value from = *in(f, n, 0);
  wf_expr_pool *p = f->g->exprs;
  wf_expr before = wf_expr_const(p, 1), product = wf_expr_const(p, 1);
  for (int32_t i = 1; i < n->n_inputs; i++) {
    if (in(f, n, i)->kind == FLOW_TOKENS) REFUSE("its target depends on the tokens");
  }
  for (int32_t i = 0; i < from.axis; i++) before = wf_expr_mul(p, before, x->dims[i]);
  for (int32_t i = 0; i < y->rank; i++) {
    int64_t inner;
    if (product == before && wf_expr_uses(p, y->dims[i], f->packed->tokens)) {
      const wf_expr q = wf_expr_exact_div(p, y->dims[i], f->packed->tokens);
      if (!wf_expr_is_const(p, q, &inner)) break;
      return set_tokens(f, n, 0, i, inner);
    }
    product = wf_expr_mul(p, product, y->dims[i]);
  }
  REFUSE("it splits the token axis");
}

static bool rule_expand(flow *f, wf_node *n) {
  const wf_value *x = value_in(f, n, 0), *y = f->g->values.at[n->outputs[0]];
  const flow_value from = *in(f, n, 0);
  return set_tokens(f, n, 0, from.axis + y->rank - x->rank, from.inner);
}

static bool rule_tile(flow *f, wf_node *n) {
  return set_tokens(f, n, 0, in(f, n, 0)->axis, in(f, n, 0)->inner);
}

static bool rule_transpose(flow *f, wf_node *n) {
  const wf_attr *p = wf_node_attr(n, "perm");
  const flow_value x = *in(f, n, 0);
  const int32_t rank = value_in(f, n, 0)->rank;
  if (!p || p->kind != WF_ATTR_INTS) return set_tokens(f, n, 0, rank - 1 - x.axis, x.inner);
  for (int32_t i = 0; i < (int32_t)p->n; i++) {
    if (p->ints[i] == x.axis) return set_tokens(f, n, 0, i, x.inner);
  }
  REFUSE("its perm is no permutation");
}

static bool rule_concat(flow *f, wf_node *n) {
  const flow_value x = *in(f, n, 0);
  int32_t a;
  if (!axis_of(wf_node_attr_i(n, "axis", 0), value_in(f, n, 0)->rank, &a))
    REFUSE("its axis is outside");
  for (int32_t i = 0; i < n->n_inputs; i++) {
    const flow_value *v = in(f, n, i);
    if (v->kind != FLOW_TOKENS || v->axis != x.axis || v->inner != x.inner)
      REFUSE("it joins tokens with something else");
  }
  if (a == x.axis) REFUSE("it joins tokens with other tokens");
  return set_tokens(f, n, 0, x.axis, x.inner);
}

/* Only the last token: the request says which rows are wanted, so the cut is not needed. */
static bool lifts_last(flow *f, wf_node *n, bool keeps_axis) {
  const int32_t x = n->inputs[0], y = n->outputs[0];
  const flow_value from = *in(f, n, 0);
  const wf_value *v = f->g->values.at[x];
  if (from.inner != 1) REFUSE("it cuts inside of tokens");
  if (keeps_axis) return graph_replace(f->g, y, x);
  for (int32_t i = 0; i < from.axis; i++) {
    int64_t d;
    if (!const_dim(f->g, x, i, &d) || d != 1) REFUSE("it takes a token behind another axis");
  }
  /* [1, tokens, D] without the axis is [tokens, D]: one row a token. */
  int64_t target[GRAPH_MAX_RANK];
  int32_t rank = 0;
  target[rank++] = -1;
  for (int32_t i = from.axis + 1; i < v->rank; i++) {
    if (!const_dim(f->g, x, i, &target[rank++])) REFUSE("its rows have no fixed size");
  }
  const wf_value *shape = graph_const_i64(f->g, target, rank, 1);
  wf_node *r =
      shape ? graph_new_node(f->g, WF_OP_RESHAPE, 2, (int32_t[]){x, shape->id}, 1, NULL) : NULL;
  if (!r || graph_infer_node(f->g, r, f->err) != WEFT_OK || !graph_replace(f->g, y, r->outputs[0]))
    REFUSE("it could not be rewritten");
  return true;
}

static bool rule_slice(flow *f, wf_node *n) {
  const flow_value x = *in(f, n, 0);
  const wf_value *v = value_in(f, n, 0), *y = f->g->values.at[n->outputs[0]];
  for (int32_t i = 1; i < n->n_inputs; i++) {
    if (in(f, n, i)->kind == FLOW_TOKENS) REFUSE("its bounds depend on the tokens");
  }
  if (x.axis < y->rank && y->dims[x.axis] == v->dims[x.axis])
    return set_tokens(f, n, 0, x.axis, x.inner);
  int64_t start, end, axis, step = 1;
  int32_t count;
  if (!graph_const_ints(f->g, wf_node_input(n, 1), &start, 1, &count) || count != 1 || start != -1)
    REFUSE("it cuts the tokens");
  if (!graph_const_ints(f->g, wf_node_input(n, 2), &end, 1, &count) || count != 1 ||
      end < INT32_MAX)
    REFUSE("it cuts the tokens");
  if (!graph_const_ints(f->g, wf_node_input(n, 3), &axis, 1, &count) || count != 1)
    REFUSE("it cuts the tokens");
  if (wf_node_input(n, 4) >= 0 &&
      (!graph_const_ints(f->g, n->inputs[4], &step, 1, &count) || step != 1))
    REFUSE("it cuts the tokens");
  return lifts_last(f, n, true);
}

static bool is_last_index(const flow *f, int32_t value) {
  const wf_value *ix = f->g->values.at[value];
  wf_expr_pool *p = f->g->exprs;
  int64_t v;
  if (ix->n_content != 1) return false;
  if (wf_expr_is_const(p, ix->content[0], &v)) return v == -1;
  return ix->content[0] == wf_expr_sub(p, f->packed->tokens, wf_expr_const(p, 1));
}

static bool rule_gather(flow *f, wf_node *n) {
  const flow_value x = *in(f, n, 0), ix = *in(f, n, 1);
  const wf_value *v = value_in(f, n, 0), *i = value_in(f, n, 1);
  int32_t axis;
  const char *attr = n->op == WF_OP_MS_GATHER_BLOCK_QUANTIZED ? "gather_axis" : "axis";
  if (!axis_of(wf_node_attr_i(n, attr, 0), v->rank, &axis)) REFUSE("its axis is outside");
  if (x.kind != FLOW_TOKENS) return set_tokens(f, n, 0, axis + ix.axis, ix.inner);
  if (ix.kind == FLOW_TOKENS) REFUSE("it picks tokens by tokens");
  if (axis != x.axis)
    return set_tokens(f, n, 0, x.axis + (x.axis > axis ? i->rank - 1 : 0), x.inner);
  if (!is_last_index(f, i->id) || i->rank > 1) REFUSE("it picks single tokens");
  return lifts_last(f, n, i->rank == 1);
}

static bool rule_reduce(flow *f, wf_node *n) {
  const wf_value *v = value_in(f, n, 0);
  const flow_value x = *in(f, n, 0);
  int64_t axes[GRAPH_MAX_RANK];
  int32_t count = 0, removed = 0;
  const wf_attr *a = wf_node_attr(n, "axes");
  if (a && a->kind == WF_ATTR_INTS && a->n <= GRAPH_MAX_RANK) {
    count = (int32_t)a->n;
    for (int32_t i = 0; i < count; i++) axes[i] = a->ints[i];
  } else if (wf_node_input(n, 1) < 0 ||
             !graph_const_ints(f->g, n->inputs[1], axes, GRAPH_MAX_RANK, &count)) {
    REFUSE("it reduces over the tokens");
  }
  if (count == 0) REFUSE("it reduces over the tokens");
  for (int32_t i = 0; i < count; i++) {
    int32_t axis;
    if (!axis_of(axes[i], v->rank, &axis) || axis == x.axis) REFUSE("it reduces over the tokens");
    removed += axis < x.axis;
  }
  return set_tokens(f, n, 0, wf_node_attr_i(n, "keepdims", 1) ? x.axis : x.axis - removed, x.inner);
}

static bool rule_arg(flow *f, wf_node *n) {
  int32_t axis;
  const flow_value x = *in(f, n, 0);
  if (!axis_of(wf_node_attr_i(n, "axis", 0), value_in(f, n, 0)->rank, &axis) || axis == x.axis)
    REFUSE("it reduces over the tokens");
  return set_tokens(f, n, 0, x.axis - (axis < x.axis && !wf_node_attr_i(n, "keepdims", 1)),
                    x.inner);
}

static bool rule_matmul(flow *f, wf_node *n) {
  const flow_value a = *in(f, n, 0), b = *in(f, n, 1);
  const wf_value *va = value_in(f, n, 0), *vb = value_in(f, n, 1),
                 *y = f->g->values.at[n->outputs[0]];
  for (int32_t i = 2; i < n->n_inputs; i++) {
    if (in(f, n, i)->kind == FLOW_TOKENS) REFUSE("a parameter of it depends on the tokens");
  }
  if (n->op == WF_OP_MS_FUSED_MATMUL && (wf_node_attr_i(n, "transA", 0) || b.kind == FLOW_TOKENS ||
                                         wf_node_attr_i(n, "transBatchA", 0)))
    REFUSE("it is transposed");
  if (va->rank < 2 || vb->rank < 2) REFUSE("it multiplies vectors");
  const int32_t ya = a.axis + y->rank - va->rank, yb = b.axis + y->rank - vb->rank;
  if (a.kind == FLOW_TOKENS && a.axis == va->rank - 1) REFUSE("it sums over the tokens");
  if (b.kind == FLOW_TOKENS && b.axis == vb->rank - 2) REFUSE("it sums over the tokens");
  if (a.kind == FLOW_TOKENS && b.kind == FLOW_TOKENS) {
    if (ya != yb || ya >= y->rank - 2 || a.inner != b.inner)
      REFUSE("it multiplies tokens with other tokens");
    return set_tokens(f, n, 0, ya, a.inner);
  }
  return a.kind == FLOW_TOKENS ? set_tokens(f, n, 0, ya, a.inner)
                               : set_tokens(f, n, 0, yb, b.inner);
}

/* One scale for all tokens of the run. */
static bool rule_whole_range(flow *f, wf_node *n) {
  return flow_refuse(f, n, "its DynamicQuantizeLinear takes the range of the whole sequence");
}

static bool rule_gemm(flow *f, wf_node *n) {
  const flow_value a = *in(f, n, 0);
  if (a.kind != FLOW_TOKENS || in(f, n, 1)->kind == FLOW_TOKENS || in(f, n, 2)->kind == FLOW_TOKENS)
    REFUSE("its weights depend on the tokens");
  if (a.axis != (wf_node_attr_i(n, "transA", 0) ? 1 : 0)) REFUSE("it sums over the tokens");
  return set_tokens(f, n, 0, 0, a.inner);
}

static bool rule_einsum(flow *f, wf_node *n) {
  const wf_str eq = wf_node_attr_s(n, "equation");
  const size_t arrow = wf_str_find(eq, WF_STR("->"), 0);
  char letter = 0;
  int32_t operand = 0, axis = 0;
  int64_t inner = 1;
  if (arrow == SIZE_MAX) REFUSE("its equation has no result");
  for (size_t i = 0; i < arrow; i++) {
    if (eq.at[i] == ' ') continue;
    if (eq.at[i] == '.') REFUSE("its equation has an ellipsis");
    if (eq.at[i] == ',') {
      operand++, axis = 0;
      continue;
    }
    const flow_value *x = in(f, n, operand);
    if (x->kind == FLOW_TOKENS && x->axis == axis) {
      if (letter && (letter != eq.at[i] || inner != x->inner))
        REFUSE("it combines tokens with other tokens");
      letter = eq.at[i];
      inner = x->inner;
    }
    axis++;
  }
  axis = 0;
  for (size_t i = arrow + 2; i < eq.n; i++) {
    if (eq.at[i] == ' ') continue;
    if (eq.at[i] == letter) return set_tokens(f, n, 0, axis, inner);
    axis++;
  }
  REFUSE("it sums over the tokens");
}

/* One row a token in, one row a token out: heads lie beside each other in a row. */
static bool rule_attention(flow *f, wf_node *n) {
  const wf_value *q = value_in(f, n, 0);
  for (int32_t i = 0; i < 3; i++) {
    const wf_value *v = value_in(f, n, i);
    const flow_value *x = in(f, n, i);
    if (v && (x->kind != FLOW_TOKENS || x->axis != v->rank - 2 || x->inner != 1))
      REFUSE("q, k or v is not one row a token");
  }
  const bool by_token = n->as.attention.rotary.kind != WF_ROTARY_NONE &&
                        n->as.attention.rotary.index == WF_ROTARY_BY_TOKEN;
  for (int32_t i = 3; i < 6; i++) {
    const wf_value *v = value_in(f, n, i);
    const flow_value *x = in(f, n, i);
    if (!v) continue;
    if (by_token && i < 5) {
      if (x->kind != FLOW_TOKENS || x->axis != v->rank - 2 || x->inner != 1)
        REFUSE("its rotation is not one row a token");
    } else if (x->kind != FLOW_INVARIANT) {
      REFUSE("a table of it is not constant");
    }
  }
  return set_tokens(f, n, 0, q->rank - 2, 1);
}

static bool rule_rotary(flow *f, wf_node *n) {
  const wf_value *x = value_in(f, n, 0);
  for (int32_t i = 0; i < 3; i++) {
    const wf_value *v = value_in(f, n, i);
    const flow_value *t = in(f, n, i);
    if (!v) continue;
    const bool needs = i == 0 || n->as.rotary.index == WF_ROTARY_BY_TOKEN;
    if (needs && (t->kind != FLOW_TOKENS || t->axis != v->rank - 2 || t->inner != 1))
      REFUSE("its rotation is not one row a token");
    if (!needs && t->kind != FLOW_INVARIANT) REFUSE("a table of it is not constant");
  }
  return set_tokens(f, n, 0, x->rank - 2, 1);
}

static bool rule_split(flow *f, wf_node *n) { return along(f, n, wf_node_attr_i(n, "axis", 0)); }

static const flow_fn rules[WF_OP_COUNT] = {
    [WF_OP_ADD] = rule_elementwise,
    [WF_OP_SUB] = rule_elementwise,
    [WF_OP_MUL] = rule_elementwise,
    [WF_OP_DIV] = rule_elementwise,
    [WF_OP_POW] = rule_elementwise,
    [WF_OP_MOD] = rule_elementwise,
    [WF_OP_SQRT] = rule_elementwise,
    [WF_OP_RECIPROCAL] = rule_elementwise,
    [WF_OP_NEG] = rule_elementwise,
    [WF_OP_ABS] = rule_elementwise,
    [WF_OP_EXP] = rule_elementwise,
    [WF_OP_LOG] = rule_elementwise,
    [WF_OP_ERF] = rule_elementwise,
    [WF_OP_TANH] = rule_elementwise,
    [WF_OP_SIGMOID] = rule_elementwise,
    [WF_OP_RELU] = rule_elementwise,
    [WF_OP_LEAKY_RELU] = rule_elementwise,
    [WF_OP_ELU] = rule_elementwise,
    [WF_OP_SOFTPLUS] = rule_elementwise,
    [WF_OP_GELU] = rule_elementwise,
    [WF_OP_SWISH] = rule_elementwise,
    [WF_OP_SIN] = rule_elementwise,
    [WF_OP_COS] = rule_elementwise,
    [WF_OP_FLOOR] = rule_elementwise,
    [WF_OP_CEIL] = rule_elementwise,
    [WF_OP_ROUND] = rule_elementwise,
    [WF_OP_SIGN] = rule_elementwise,
    [WF_OP_CLIP] = rule_elementwise,
    [WF_OP_MIN] = rule_elementwise,
    [WF_OP_MAX] = rule_elementwise,
    [WF_OP_SUM] = rule_elementwise,
    [WF_OP_AND] = rule_elementwise,
    [WF_OP_OR] = rule_elementwise,
    [WF_OP_XOR] = rule_elementwise,
    [WF_OP_NOT] = rule_elementwise,
    [WF_OP_EQUAL] = rule_elementwise,
    [WF_OP_GREATER] = rule_elementwise,
    [WF_OP_LESS] = rule_elementwise,
    [WF_OP_GREATER_OR_EQUAL] = rule_elementwise,
    [WF_OP_LESS_OR_EQUAL] = rule_elementwise,
    [WF_OP_WHERE] = rule_elementwise,
    [WF_OP_CAST] = rule_elementwise,
    [WF_OP_IS_NAN] = rule_elementwise,
    [WF_OP_IS_INF] = rule_elementwise,
    [WF_OP_BITWISE_AND] = rule_elementwise,
    [WF_OP_BITWISE_OR] = rule_elementwise,
    [WF_OP_BITWISE_XOR] = rule_elementwise,
    [WF_OP_BITWISE_NOT] = rule_elementwise,
    [WF_OP_BIT_SHIFT] = rule_elementwise,
    [WF_OP_IDENTITY] = rule_elementwise,
    [WF_OP_RESHAPE] = rule_reshape,
    [WF_OP_SQUEEZE] = rule_reshape,
    [WF_OP_UNSQUEEZE] = rule_reshape,
    [WF_OP_FLATTEN] = rule_reshape,
    [WF_OP_TRANSPOSE] = rule_transpose,
    [WF_OP_EXPAND] = rule_expand,
    [WF_OP_TILE] = rule_tile,
    [WF_OP_CONCAT] = rule_concat,
    [WF_OP_SPLIT] = rule_split,
    [WF_OP_SLICE] = rule_slice,
    [WF_OP_GATHER] = rule_gather,
    [WF_OP_MS_GATHER_BLOCK_QUANTIZED] = rule_gather,
    [WF_OP_TRILU] = rule_trilu,
    [WF_OP_CUM_SUM] = rule_cumsum,
    [WF_OP_ARG_MAX] = rule_arg,
    [WF_OP_ARG_MIN] = rule_arg,
    [WF_OP_TOP_K] = rule_axis,
    [WF_OP_REDUCE_MEAN] = rule_reduce,
    [WF_OP_REDUCE_SUM] = rule_reduce,
    [WF_OP_REDUCE_MAX] = rule_reduce,
    [WF_OP_REDUCE_MIN] = rule_reduce,
    [WF_OP_REDUCE_PROD] = rule_reduce,
    [WF_OP_REDUCE_L1] = rule_reduce,
    [WF_OP_REDUCE_L2] = rule_reduce,
    [WF_OP_REDUCE_SUM_SQUARE] = rule_reduce,
    [WF_OP_REDUCE_LOG_SUM_EXP] = rule_reduce,
    [WF_OP_MATMUL] = rule_matmul,
    [WF_OP_MS_FUSED_MATMUL] = rule_matmul,
    [WF_OP_MATMUL_INTEGER] = rule_matmul,
    [WF_OP_GEMM] = rule_gemm,
    [WF_OP_EINSUM] = rule_einsum,
    [WF_OP_SOFTMAX] = rule_softmax,
    [WF_OP_LOG_SOFTMAX] = rule_softmax,
    [WF_OP_LAYER_NORM] = rule_axis,
    [WF_OP_RMS_NORM] = rule_axis,
    [WF_OP_SIMPLIFIED_LAYER_NORM] = rule_axis,
    [WF_OP_DEQUANTIZE_LINEAR] = rule_elementwise,
    [WF_OP_MS_MATMUL_NBITS] = rule_last_axis,
    [WF_OP_MS_MATMUL_BNB4] = rule_last_axis,
    [WF_OP_MS_MOE] = rule_experts,
    [WF_OP_MS_QMOE] = rule_experts,
    [WF_OP_MS_SKIP_LAYER_NORM] = rule_elementwise,
    [WF_OP_MS_FAST_GELU] = rule_elementwise,
    [WF_OP_MS_GELU] = rule_elementwise,
    [WF_OP_MS_QUICK_GELU] = rule_elementwise,
    [WF_OP_MS_BIAS_GELU] = rule_elementwise,
    [WF_OP_WEFT_NORM] = rule_elementwise,
    [WF_OP_WEFT_UNARY] = rule_elementwise,
    [WF_OP_WEFT_GLU] = rule_elementwise,
    [WF_OP_WEFT_ROTARY] = rule_rotary,
    [WF_OP_WEFT_ATTENTION] = rule_attention,
    [WF_OP_WEFT_LINEAR] = rule_last_axis,
    [WF_OP_WEFT_DYNAMIC_LINEAR] = rule_whole_range,
};

/* ---- driver ------------------------------------------------------------------------------ */

static bool all_content_known(const wf_value *v) {
  if (v->n_content < 0) return false;
  for (int32_t i = 0; i < v->n_content; i++) {
    if (v->content[i] < 0) return false;
  }
  return true;
}

/* Which inputs of an operator only say how to arrange things; sizes may go in there. */
static bool takes_sizes(const wf_node *n, int32_t i) {
  switch ((int)n->op) {
    case WF_OP_RESHAPE:
    case WF_OP_EXPAND:
    case WF_OP_TILE:
      return i == 1;
    case WF_OP_SLICE:
      return i >= 1;
    case WF_OP_GATHER:
      return i == 1;
    default:
      return false;
  }
}

static bool visit_node(flow *f, wf_node *n) {
  bool has_tokens = false, has_sizes = false, has_other = false;
  for (int32_t i = 0; i < n->n_inputs; i++) {
    const flow_kind kind = in(f, n, i)->kind;
    has_tokens |= kind == FLOW_TOKENS;
    has_sizes |= kind == FLOW_SIZES && !takes_sizes(n, i);
    has_other |= kind == FLOW_OTHER;
  }
  bool is_known = n->n_outputs > 0;
  for (int32_t i = 0; i < n->n_outputs; i++) {
    is_known &= n->outputs[i] < 0 || all_content_known(f->g->values.at[n->outputs[i]]);
  }
  if (is_known) return set_kind(f, n, FLOW_SIZES);
  if (has_other && has_tokens) REFUSE("it reads a mask, length or state that was not understood");
  if (has_other || n->op == WF_OP_SHAPE || n->op == WF_OP_SIZE) return set_kind(f, n, FLOW_OTHER);
  if (has_sizes && !has_tokens) return set_kind(f, n, FLOW_OTHER);
  if (has_sizes) REFUSE("it computes with the number of tokens");
  if (!has_tokens) {
    for (int32_t i = 0; i < n->n_outputs; i++) { /* a shape made from sizes depends on them */
      const wf_value *v = wf_graph_value(f->g, n->outputs[i]);
      for (int32_t k = 0; v && k < v->rank; k++) {
        if (v->dims[k] < 0 || wf_expr_uses(f->g->exprs, v->dims[k], f->packed->tokens))
          return set_kind(f, n, FLOW_OTHER);
      }
    }
    return set_kind(f, n, FLOW_INVARIANT);
  }
  if (n->n_subgraphs) REFUSE("it has branches or a loop that see the tokens");
  if (!rules[n->op]) REFUSE("nothing is known of how it treats tokens");
  if (wf_node_output(n, 0) < 0 || f->g->values.at[n->outputs[0]]->rank < 0)
    REFUSE("the shape of its result is not known");
  for (int32_t i = 0; i < n->n_inputs; i++) {
    const wf_value *v = value_in(f, n, i);
    if (v && v->rank < 0) REFUSE("the shape of its input is not known");
  }
  return rules[n->op](f, n);
}

static weft_status start(flow *f) {
  wf_graph *g = f->g;
  flow_deinit(f);
  f->n = g->values.n;
  f->values = wf_calloc(f->n + 1, sizeof *f->values);
  if (!f->values) return graph_no_memory(f->err);
  for (size_t i = 0; i < f->n; i++) f->values[i] = (flow_value){FLOW_INVARIANT, -1, 1};
  for (size_t i = 0; i < g->inputs.n; i++) {
    const wf_value *v = g->values.at[g->inputs.at[i]];
    flow_value *x = &f->values[v->id];
    x->kind = FLOW_OTHER;
    const bool is_row = v->id == f->packed->input_ids || v->id == f->packed->inputs_embeds ||
                        v->id == f->packed->positions;
    if (is_row && v->rank >= 2 && v->dims[1] == f->packed->tokens)
      *x = (flow_value){FLOW_TOKENS, 1, 1};
  }
  return WEFT_OK;
}

weft_status flow_run(flow *f, bool *ok) {
  enum { MAX_LIFTS = 8 };
  wf_graph *g = f->g;
  for (int round = 0;; round++) {
    WF_RETURN_IF_ERROR(start(f));
    const size_t n_nodes = g->nodes.n;
    bool was_lifted = false;
    *ok = true;
    for (size_t i = 0; i < g->order.n && *ok && !was_lifted; i++) {
      wf_node *n = g->nodes.at[g->order.at[i]];
      const int32_t out = wf_node_output(n, 0);
      const size_t uses = out < 0 ? 0 : graph_n_uses(g->values.at[out]);
      *ok = visit_node(f, n);
      /* A lifted cut has lost its users or made a node: shapes behind it have changed. */
      was_lifted = *ok && (g->nodes.n != n_nodes || (uses && graph_n_uses(g->values.at[out]) == 0));
    }
    if (!*ok || !was_lifted) break;
    if (round == MAX_LIFTS) break;
    WF_RETURN_IF_ERROR(graph_sort(g, f->err));
    WF_RETURN_IF_ERROR(graph_infer(g, f->err));
  }
  if (!*ok) return WEFT_OK;
  const int32_t logits = g->outputs.at[0];
  if (f->values[logits].kind != FLOW_TOKENS) {
    (void)snprintf(f->packed->why, sizeof f->packed->why, "the logits do not come one row a token");
    *ok = false;
  }
  return WEFT_OK;
}
