/* SPDX-License-Identifier: Apache-2.0 */
/* Products with constant weights: transposes of the weight become a flag, biases and
 * DequantizeLinear are taken in. The bytes of the weight stay where they are. */
#include "graph/passes.h"

/* The only user of a value, when it is of this operator. */
static wf_node *only_user(const wf_graph *g, int32_t value, wf_op op) {
  const wf_value *v = g->values.at[value];
  if (v->is_output || v->n_users != 1) return NULL;
  wf_node *n = g->nodes.at[v->users[0]];
  return n->op == op ? n : NULL;
}

/* A constant row of n elements added to a value: gives the Add. */
static wf_node *bias_after(const wf_graph *g, int32_t value, int64_t n, int32_t *bias) {
  wf_node *add = only_user(g, value, WF_OP_ADD);
  *bias = add ? other_input(add, value) : -1;
  if (*bias < 0 || !is_const(g, *bias) || g->values.at[*bias]->rank != 1 || last_dim(g, *bias) != n)
    return NULL;
  return same_shape(g, value, add->outputs[0]) ? add : NULL;
}

static bool is_widening(wf_dtype from, wf_dtype to) {
  return (from == WF_DTYPE_F16 || from == WF_DTYPE_BF16) && to == WF_DTYPE_F32;
}

/* What a weight is made of, seen through casts that lose nothing, transposes and dequantisation. */
typedef struct weight {
  int32_t value, scales, zeros;
  wf_linear_params params;
} weight;

static bool find_weight(const wf_graph *g, int32_t value, weight *w) {
  *w = (weight){value, -1, -1, {false, 0, 0}};
  for (int depth = 0; depth < 6; depth++) {
    const wf_value *v = g->values.at[w->value];
    if (v->tensor) return v->rank == 2;
    const wf_node *n = graph_producer_of(g, w->value);
    if (!n || v->rank != 2) return false;
    const wf_value *x = graph_value(g, wf_node_input(n, 0));
    if (!x || x->rank != 2) return false;
    if (n->op == WF_OP_TRANSPOSE) {
      if (w->scales >= 0) return false; /* the axis is that of the stored weight */
      w->params.is_transposed = !w->params.is_transposed;
    } else if (n->op == WF_OP_CAST) {
      if (!is_widening(x->dtype, v->dtype)) return false;
    } else if ((n->op == WF_OP_DEQUANTIZE_LINEAR || n->op == WF_OP_MS_DEQUANTIZE_LINEAR) &&
               w->scales < 0) {
      const wf_value *s = graph_value(g, wf_node_input(n, 1)),
                     *z = graph_value(g, wf_node_input(n, 2));
      int64_t axis = wf_node_attr_i(n, "axis", 1);
      const int64_t size = wf_node_attr_i(n, "block_size", 0);
      if (axis < 0) axis += 2;
      if (!s || !s->tensor || (z && !z->tensor) || axis < 0 || axis > 1 || size < 0 ||
          size > INT32_MAX)
        return false;
      if (s->rank > (size ? 2 : 1) || !x->tensor || !wf_dtype_is_int(x->dtype)) return false;
      w->scales = s->id;
      w->zeros = z ? z->id : -1;
      w->params.axis = (int32_t)axis;
      w->params.block_size = (int32_t)size;
    } else {
      return false;
    }
    w->value = x->id;
  }
  return false;
}

static weft_status make_linear(pass *p, wf_node *n, const weight *w, int32_t bias, wf_node *last) {
  wf_graph *g = p->g;
  const int32_t in[5] = {n->inputs[0], w->value, bias, w->scales, w->zeros}, out = last->outputs[0];
  const wf_str name = n->name;
  if (last != n) graph_kill(g, last);
  graph_kill(g, n);
  wf_node *linear = graph_new_node(g, WF_OP_WEFT_LINEAR, 5, in, 1, &out);
  if (!linear) return graph_no_memory(p->err);
  linear->as.linear = w->params;
  linear->name = name;
  p->changed = true;
  return WEFT_OK;
}

static weft_status from_matmul(pass *p, wf_node *n) {
  wf_graph *g = p->g;
  weight w;
  int32_t bias = -1;
  const wf_value *x = g->values.at[n->inputs[0]], *y = g->values.at[n->outputs[0]];
  if (x->tensor || x->rank < 2 || !find_weight(g, n->inputs[1], &w)) return WEFT_OK;
  wf_node *add = bias_after(g, y->id, last_dim(g, y->id), &bias);
  if (!add && w.value == n->inputs[1]) return WEFT_OK; /* nothing to take in */
  return make_linear(p, n, &w, bias, add ? add : n);
}

static weft_status from_gemm(pass *p, wf_node *n) {
  wf_graph *g = p->g;
  weight w;
  const int32_t bias = wf_node_input(n, 2);
  const wf_value *x = g->values.at[n->inputs[0]];
  const int64_t width = last_dim(g, n->outputs[0]);
  if (x->tensor || wf_node_attr_i(n, "transA", 0) || wf_node_attr_f(n, "alpha", 1.0f) != 1.0f)
    return WEFT_OK;
  if (bias >= 0 && (wf_node_attr_f(n, "beta", 1.0f) != 1.0f || !is_const(g, bias) ||
                    g->values.at[bias]->rank != 1 || last_dim(g, bias) != width))
    return WEFT_OK;
  if (!find_weight(g, n->inputs[1], &w)) return WEFT_OK;
  if (wf_node_attr_i(n, "transB", 0)) w.params.is_transposed = !w.params.is_transposed;
  return make_linear(p, n, &w, bias, n);
}

/* FusedMatMul without surprises is a product whose weight may be transposed. */
static weft_status from_fused(pass *p, wf_node *n) {
  weight w;
  if (wf_node_attr_i(n, "transA", 0) || wf_node_attr_f(n, "alpha", 1.0f) != 1.0f ||
      wf_node_attr_i(n, "transBatchA", 0) || wf_node_attr_i(n, "transBatchB", 0))
    return WEFT_OK;
  if (p->g->values.at[n->inputs[0]]->rank < 2 || !find_weight(p->g, n->inputs[1], &w))
    return WEFT_OK;
  if (wf_node_attr_i(n, "transB", 0)) w.params.is_transposed = !w.params.is_transposed;
  return make_linear(p, n, &w, -1, n);
}

static weft_status bias_of_linear(pass *p, wf_node *n) {
  int32_t bias;
  if (n->inputs[2] >= 0) return WEFT_OK;
  wf_node *add = bias_after(p->g, n->outputs[0], last_dim(p->g, n->outputs[0]), &bias);
  if (!add) return WEFT_OK;
  if (!graph_set_input(p->g, n, 2, bias)) return graph_no_memory(p->err);
  take_output(p->g, n, 0, add->outputs[0]);
  graph_kill(p->g, add);
  p->changed = true;
  return WEFT_OK;
}

static weft_status bias_of_nbits(pass *p, wf_node *n) {
  enum { BIAS = 5 };
  wf_graph *g = p->g;
  int32_t bias, in[WF_MATMUL_NBITS_OFFSETS + 1];
  if (wf_node_input(n, BIAS) >= 0) return WEFT_OK;
  wf_node *add = bias_after(g, n->outputs[0], last_dim(g, n->outputs[0]), &bias);
  if (!add) return WEFT_OK;
  for (int32_t i = 0; i <= WF_MATMUL_NBITS_OFFSETS; i++) in[i] = wf_node_input(n, i);
  in[BIAS] = bias;
  const int32_t count = in[WF_MATMUL_NBITS_OFFSETS] >= 0 ? WF_MATMUL_NBITS_OFFSETS + 1 : BIAS + 1;
  if (!graph_set_inputs(g, n, count, in)) return graph_no_memory(p->err);
  take_output(g, n, 0, add->outputs[0]);
  graph_kill(g, add);
  p->changed = true;
  return WEFT_OK;
}

weft_status pass_linear(pass *p) {
  FOR_NODES(p, n) {
    switch ((int)n->op) {
      case WF_OP_MATMUL:
        WF_RETURN_IF_ERROR(from_matmul(p, n));
        break;
      case WF_OP_GEMM:
        WF_RETURN_IF_ERROR(from_gemm(p, n));
        break;
      case WF_OP_MS_FUSED_MATMUL:
        WF_RETURN_IF_ERROR(from_fused(p, n));
        break;
      case WF_OP_WEFT_LINEAR:
      case WF_OP_WEFT_DYNAMIC_LINEAR:
        WF_RETURN_IF_ERROR(bias_of_linear(p, n));
        break;
      case WF_OP_MS_MATMUL_NBITS:
        WF_RETURN_IF_ERROR(bias_of_nbits(p, n));
        break;
      default:
        break;
    }
  }
  return WEFT_OK;
}
