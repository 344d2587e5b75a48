/* SPDX-License-Identifier: Apache-2.0 */
/* Activations written out (SiLU, GELU by erf and by tanh) and gates: f(a) * b. */
#include "graph/passes.h"

static wf_node *unary(pass *p, wf_unary_kind kind, float alpha, int32_t x, int32_t result) {
  wf_node *n = graph_new_node(p->g, WF_OP_WEFT_UNARY, 1, &x, 1, &result);
  if (n) n->as.unary = (wf_unary_params){kind, alpha};
  p->changed = true;
  return n;
}

/* Puts the activation in place of node n, whose output 0 it makes. */
static weft_status put(pass *p, wf_node *n, wf_unary_kind kind, float alpha, int32_t x) {
  const int32_t result = n->outputs[0];
  graph_kill(p->g, n);
  wf_node *made = unary(p, kind, alpha, x, result);
  if (!made) return graph_no_memory(p->err);
  made->name = n->name;
  return WEFT_OK;
}

static weft_status from_operator(pass *p, wf_node *n, bool *done) {
  *done = true;
  switch ((int)n->op) {
    case WF_OP_RELU:
      return put(p, n, WF_UNARY_RELU, 0, n->inputs[0]);
    case WF_OP_SWISH: {
      const float alpha = wf_node_attr_f(n, "alpha", 1.0f);
      return put(p, n, alpha == 1.0f ? WF_UNARY_SILU : WF_UNARY_SIGMOID_ALPHA, alpha, n->inputs[0]);
    }
    case WF_OP_GELU:
      return put(p, n,
                 wf_str_is(wf_node_attr_s(n, "approximate"), "tanh") ? WF_UNARY_GELU_TANH
                                                                     : WF_UNARY_GELU_ERF,
                 0, n->inputs[0]);
    case WF_OP_MS_GELU:
      return put(p, n, WF_UNARY_GELU_ERF, 0, n->inputs[0]);
    case WF_OP_MS_QUICK_GELU:
      return put(p, n, WF_UNARY_SIGMOID_ALPHA, wf_node_attr_f(n, "alpha", 1.702f), n->inputs[0]);
    case WF_OP_MS_FAST_GELU:
      if (wf_node_input(n, 1) < 0) return put(p, n, WF_UNARY_GELU_TANH, 0, n->inputs[0]);
      break;
    default:
      break;
  }
  *done = false;
  return WEFT_OK;
}

/* x * sigmoid(x), x * sigmoid(alpha * x). */
static weft_status from_sigmoid(pass *p, wf_node *mul, bool *done) {
  wf_graph *g = p->g;
  for (int i = 0; i < 2; i++) {
    const wf_node *s = made_once_by(g, mul->inputs[i], WF_OP_SIGMOID);
    const int32_t x = mul->inputs[1 - i];
    if (!s) continue;
    double alpha = 1;
    if (s->inputs[0] != x) {
      const wf_node *scaled = made_by(g, s->inputs[0], WF_OP_MUL);
      const int32_t factor = scaled ? other_input(scaled, x) : -1;
      if (factor < 0 || !graph_const_scalar(g, factor, &alpha)) continue;
    }
    *done = true;
    return put(p, mul, alpha == 1 ? WF_UNARY_SILU : WF_UNARY_SIGMOID_ALPHA, (float)alpha, x);
  }
  return WEFT_OK;
}

/* value = x * v for a constant v: gives x. */
static int32_t scaled_by(const wf_graph *g, int32_t value, double v) {
  const wf_node *n = made_by(g, value, WF_OP_MUL);
  if (n && is_scalar_near(g, n->inputs[1], v)) return n->inputs[0];
  if (n && is_scalar_near(g, n->inputs[0], v)) return n->inputs[1];
  n = made_by(g, value, WF_OP_DIV);
  return n && is_scalar_near(g, n->inputs[1], 1 / v) ? n->inputs[0] : -1;
}

/* value = x^3 of x. */
static bool is_cube(const wf_graph *g, int32_t value, int32_t x) {
  const wf_node *n = made_by(g, value, WF_OP_POW);
  if (n) return n->inputs[0] == x && is_scalar_near(g, n->inputs[1], 3.0);
  n = made_by(g, value, WF_OP_MUL);
  const int32_t square = n ? other_input(n, x) : -1;
  const wf_node *s = square < 0 ? NULL : made_by(g, square, WF_OP_MUL);
  return s && s->inputs[0] == x && s->inputs[1] == x;
}

/* erf(x / sqrt 2) or tanh(sqrt(2 / pi) * (x + 0.044715 x^3)). */
static int32_t gelu_argument(const wf_graph *g, int32_t value, wf_unary_kind *kind) {
  const wf_node *n = made_by(g, value, WF_OP_ERF);
  if (n) {
    *kind = WF_UNARY_GELU_ERF;
    return scaled_by(g, n->inputs[0], 0.70710678118654752);
  }
  n = made_by(g, value, WF_OP_TANH);
  if (!n) return -1;
  *kind = WF_UNARY_GELU_TANH;
  const int32_t inner = scaled_by(g, n->inputs[0], 0.79788456080286536);
  const wf_node *add = inner < 0 ? NULL : made_by(g, inner, WF_OP_ADD);
  for (int i = 0; add && i < 2; i++) {
    const int32_t x = add->inputs[1 - i];
    const int32_t cube = scaled_by(g, add->inputs[i], 0.044715);
    if (cube >= 0 && is_cube(g, cube, x)) return x;
    /* x * 0.044715 * x * x in another order */
    const wf_node *m = made_by(g, add->inputs[i], WF_OP_MUL);
    for (int k = 0; m && k < 2; k++) {
      const wf_node *s = made_by(g, m->inputs[1 - k], WF_OP_MUL);
      if (scaled_by(g, m->inputs[k], 0.044715) == x && s && s->inputs[0] == x && s->inputs[1] == x)
        return x;
    }
  }
  return -1;
}

/* 1 + f(x): gives x. */
static int32_t one_plus_gelu(const wf_graph *g, int32_t value, wf_unary_kind *kind) {
  const wf_node *add = made_once_by(g, value, WF_OP_ADD);
  for (int i = 0; add && i < 2; i++) {
    if (is_scalar_near(g, add->inputs[1 - i], 1.0)) return gelu_argument(g, add->inputs[i], kind);
  }
  return -1;
}

/* The product of x, 0.5 and (1 + f(x)) in whatever order. */
static weft_status from_gelu(pass *p, wf_node *mul, bool *done) {
  wf_graph *g = p->g;
  wf_unary_kind kind = WF_UNARY_GELU_ERF;
  for (int i = 0; i < 2; i++) {
    const int32_t a = mul->inputs[i], b = mul->inputs[1 - i];
    int32_t x = one_plus_gelu(g, a, &kind);
    bool is_match = x >= 0 && scaled_by(g, b, 0.5) == x; /* (0.5 x) (1 + f) */
    if (!is_match) {
      const wf_node *inner = made_once_by(g, a, WF_OP_MUL);
      for (int k = 0; inner && k < 2 && !is_match; k++) {
        x = one_plus_gelu(g, inner->inputs[k], &kind);
        const int32_t rest = inner->inputs[1 - k];
        is_match = x >= 0 && ((rest == x && is_scalar_near(g, b, 0.5)) ||
                              (b == x && is_scalar_near(g, rest, 0.5)));
      }
    }
    if (!is_match) continue;
    *done = true;
    return put(p, mul, kind, 0, x);
  }
  return WEFT_OK;
}

static weft_status make_gate(pass *p, wf_node *mul) {
  wf_graph *g = p->g;
  for (int i = 0; i < 2; i++) {
    wf_node *f = made_once_by(g, mul->inputs[i], WF_OP_WEFT_UNARY);
    const int32_t up = mul->inputs[1 - i];
    if (!f || !same_shape(g, f->inputs[0], up)) continue;
    const int32_t in[2] = {f->inputs[0], up}, result = mul->outputs[0];
    const wf_unary_params params = f->as.unary;
    graph_kill(g, mul);
    graph_kill(g, f);
    wf_node *glu = graph_new_node(g, WF_OP_WEFT_GLU, 2, in, 1, &result);
    if (!glu) return graph_no_memory(p->err);
    glu->as.unary = params;
    glu->name = mul->name;
    p->changed = true;
    return WEFT_OK;
  }
  /* relu(x)^2, of models without a gate */
  wf_node *r =
      mul->inputs[0] == mul->inputs[1] ? made_by(g, mul->inputs[0], WF_OP_WEFT_UNARY) : NULL;
  if (!r || r->as.unary.kind != WF_UNARY_RELU || g->values.at[mul->inputs[0]]->n_users != 2)
    return WEFT_OK;
  return put(p, mul, WF_UNARY_RELU2, 0, r->inputs[0]);
}

weft_status pass_activation(pass *p) {
  FOR_NODES(p, n) {
    bool done = false;
    WF_RETURN_IF_ERROR(from_operator(p, n, &done));
    if (!done && n->op == WF_OP_MUL) WF_RETURN_IF_ERROR(from_sigmoid(p, n, &done));
    if (!done && n->op == WF_OP_MUL) WF_RETURN_IF_ERROR(from_gelu(p, n, &done));
  }
  WF_RETURN_IF_ERROR(graph_sort(p->g, p->err));
  FOR_NODES(p, n) {
    if (n->op == WF_OP_MUL) WF_RETURN_IF_ERROR(make_gate(p, n));
  }
  return WEFT_OK;
}
