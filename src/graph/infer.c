/* SPDX-License-Identifier: Apache-2.0 */
/* Shape and type inference: the table of operators and the helpers of their functions. */
#include "graph/infer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const infer_fn functions[WF_OP_COUNT] = {
    [WF_OP_ADD] = infer_binary,
    [WF_OP_SUB] = infer_binary,
    [WF_OP_MUL] = infer_binary,
    [WF_OP_DIV] = infer_binary,
    [WF_OP_POW] = infer_binary,
    [WF_OP_MOD] = infer_binary,
    [WF_OP_SQRT] = infer_unary,
    [WF_OP_RECIPROCAL] = infer_unary,
    [WF_OP_NEG] = infer_unary,
    [WF_OP_ABS] = infer_unary,
    [WF_OP_EXP] = infer_unary,
    [WF_OP_LOG] = infer_unary,
    [WF_OP_ERF] = infer_unary,
    [WF_OP_TANH] = infer_unary,
    [WF_OP_SIGMOID] = infer_unary,
    [WF_OP_RELU] = infer_unary,
    [WF_OP_LEAKY_RELU] = infer_unary,
    [WF_OP_ELU] = infer_unary,
    [WF_OP_SOFTPLUS] = infer_unary,
    [WF_OP_GELU] = infer_unary,
    [WF_OP_SWISH] = infer_unary,
    [WF_OP_SIN] = infer_unary,
    [WF_OP_COS] = infer_unary,
    [WF_OP_FLOOR] = infer_unary,
    [WF_OP_CEIL] = infer_unary,
    [WF_OP_ROUND] = infer_unary,
    [WF_OP_SIGN] = infer_unary,
    [WF_OP_CLIP] = infer_unary,
    [WF_OP_MIN] = infer_variadic,
    [WF_OP_MAX] = infer_variadic,
    [WF_OP_SUM] = infer_variadic,
    [WF_OP_AND] = infer_compare,
    [WF_OP_OR] = infer_compare,
    [WF_OP_XOR] = infer_compare,
    [WF_OP_NOT] = infer_unary,
    [WF_OP_EQUAL] = infer_compare,
    [WF_OP_GREATER] = infer_compare,
    [WF_OP_LESS] = infer_compare,
    [WF_OP_GREATER_OR_EQUAL] = infer_compare,
    [WF_OP_LESS_OR_EQUAL] = infer_compare,
    [WF_OP_WHERE] = infer_where,
    [WF_OP_CAST] = infer_cast,
    [WF_OP_CAST_LIKE] = infer_cast_like,
    [WF_OP_IS_NAN] = infer_to_bool,
    [WF_OP_IS_INF] = infer_to_bool,
    [WF_OP_BITWISE_AND] = infer_binary,
    [WF_OP_BITWISE_OR] = infer_binary,
    [WF_OP_BITWISE_XOR] = infer_binary,
    [WF_OP_BITWISE_NOT] = infer_unary,
    [WF_OP_BIT_SHIFT] = infer_binary,
    [WF_OP_IDENTITY] = infer_identity,
    [WF_OP_DROPOUT] = infer_dropout,
    [WF_OP_CONSTANT] = infer_constant,
    [WF_OP_CONSTANT_OF_SHAPE] = infer_constant_of_shape,
    [WF_OP_SHAPE] = infer_shape,
    [WF_OP_SIZE] = infer_size,
    [WF_OP_RANGE] = infer_range,
    [WF_OP_RESHAPE] = infer_reshape,
    [WF_OP_TRANSPOSE] = infer_transpose,
    [WF_OP_SQUEEZE] = infer_squeeze,
    [WF_OP_UNSQUEEZE] = infer_unsqueeze,
    [WF_OP_FLATTEN] = infer_flatten,
    [WF_OP_EXPAND] = infer_expand,
    [WF_OP_TILE] = infer_tile,
    [WF_OP_CONCAT] = infer_concat,
    [WF_OP_SPLIT] = infer_split,
    [WF_OP_SLICE] = infer_slice,
    [WF_OP_PAD] = infer_pad,
    [WF_OP_TRILU] = infer_unary,
    [WF_OP_GATHER] = infer_gather,
    [WF_OP_GATHER_ELEMENTS] = infer_gather_elements,
    [WF_OP_GATHER_ND] = infer_gather_nd,
    [WF_OP_SCATTER_ND] = infer_unary,
    [WF_OP_SCATTER_ELEMENTS] = infer_unary,
    [WF_OP_TENSOR_SCATTER] = infer_unary,
    [WF_OP_NON_ZERO] = infer_non_zero,
    [WF_OP_ONE_HOT] = infer_one_hot,
    [WF_OP_CUM_SUM] = infer_unary,
    [WF_OP_ARG_MAX] = infer_arg,
    [WF_OP_ARG_MIN] = infer_arg,
    [WF_OP_TOP_K] = infer_top_k,
    [WF_OP_REDUCE_MEAN] = infer_reduce,
    [WF_OP_REDUCE_SUM] = infer_reduce,
    [WF_OP_REDUCE_MAX] = infer_reduce,
    [WF_OP_REDUCE_MIN] = infer_reduce,
    [WF_OP_REDUCE_PROD] = infer_reduce,
    [WF_OP_REDUCE_L1] = infer_reduce,
    [WF_OP_REDUCE_L2] = infer_reduce,
    [WF_OP_REDUCE_SUM_SQUARE] = infer_reduce,
    [WF_OP_REDUCE_LOG_SUM_EXP] = infer_reduce,
    [WF_OP_MATMUL] = infer_matmul,
    [WF_OP_GEMM] = infer_gemm,
    [WF_OP_EINSUM] = infer_einsum,
    [WF_OP_CONV] = infer_conv,
    [WF_OP_SOFTMAX] = infer_unary,
    [WF_OP_LOG_SOFTMAX] = infer_unary,
    [WF_OP_LAYER_NORM] = infer_norm,
    [WF_OP_RMS_NORM] = infer_norm,
    [WF_OP_SIMPLIFIED_LAYER_NORM] = infer_norm,
    [WF_OP_ROTARY_EMBEDDING] = infer_unary,
    [WF_OP_ATTENTION] = infer_attention,
    [WF_OP_DEQUANTIZE_LINEAR] = infer_dequantize,
    [WF_OP_QUANTIZE_LINEAR] = infer_quantize,
    [WF_OP_DYNAMIC_QUANTIZE_LINEAR] = infer_dynamic_quantize,
    [WF_OP_MATMUL_INTEGER] = infer_matmul_integer,
    [WF_OP_CAUSAL_CONV_WITH_STATE] = infer_causal_conv,
    [WF_OP_LINEAR_ATTENTION] = infer_linear_attention,
    [WF_OP_MS_CAUSAL_CONV_WITH_STATE] = infer_causal_conv,
    [WF_OP_MS_LINEAR_ATTENTION] = infer_linear_attention,
    [WF_OP_IF] = infer_if,
    [WF_OP_LOOP] = infer_loop,
    [WF_OP_MS_MATMUL_NBITS] = infer_nbits,
    [WF_OP_MS_MATMUL_BNB4] = infer_bnb4,
    [WF_OP_MS_MOE] = infer_unary,
    [WF_OP_MS_QMOE] = infer_unary,
    [WF_OP_MS_GATHER_BLOCK_QUANTIZED] = infer_gather_blocks,
    [WF_OP_MS_GROUP_QUERY_ATTENTION] = infer_gqa,
    [WF_OP_MS_MULTI_HEAD_ATTENTION] = infer_mha,
    [WF_OP_MS_ROTARY_EMBEDDING] = infer_unary,
    [WF_OP_MS_SKIP_LAYER_NORM] = infer_skip_norm,
    [WF_OP_MS_SKIP_SIMPLIFIED_LAYER_NORM] = infer_skip_norm,
    [WF_OP_MS_SIMPLIFIED_LAYER_NORM] = infer_norm,
    [WF_OP_MS_FAST_GELU] = infer_unary,
    [WF_OP_MS_GELU] = infer_unary,
    [WF_OP_MS_QUICK_GELU] = infer_unary,
    [WF_OP_MS_BIAS_GELU] = infer_unary,
    [WF_OP_MS_FUSED_MATMUL] = infer_matmul,
    [WF_OP_MS_DEQUANTIZE_LINEAR] = infer_dequantize,
    [WF_OP_MS_QUANTIZE_LINEAR] = infer_quantize,
    [WF_OP_MS_DYNAMIC_QUANTIZE_MATMUL] = infer_float_matmul,
    [WF_OP_MS_MATMUL_INTEGER_TO_FLOAT] = infer_float_matmul,
    [WF_OP_WEFT_NORM] = infer_weft_norm,
    [WF_OP_WEFT_UNARY] = infer_unary,
    [WF_OP_WEFT_GLU] = infer_weft_glu,
    [WF_OP_WEFT_ROTARY] = infer_unary,
    [WF_OP_WEFT_ATTENTION] = infer_weft_attention,
    [WF_OP_WEFT_LINEAR] = infer_weft_linear,
    [WF_OP_WEFT_DYNAMIC_LINEAR] = infer_float_matmul,
    [WF_OP_WEFT_SELECT_TOKENS] = infer_weft_select,
};

/* ---- helpers ----------------------------------------------------------------------------- */

wf_value *infer_in(const infer *c, int32_t i) { return graph_value(c->g, wf_node_input(c->n, i)); }

wf_value *infer_out(const infer *c, int32_t i) {
  return graph_value(c->g, wf_node_output(c->n, i));
}

int32_t infer_rank(const infer *c, int32_t i) {
  const wf_value *v = infer_in(c, i);
  return v ? v->rank : -1;
}

wf_dtype infer_dtype(const infer *c, int32_t i) {
  const wf_value *v = infer_in(c, i);
  return v ? v->dtype : WF_DTYPE_UNDEFINED;
}

wf_expr infer_dim(const infer *c, int32_t input, int32_t axis) {
  const wf_value *v = infer_in(c, input);
  if (!v || axis < 0 || axis >= v->rank) return WF_EXPR_NONE;
  return v->dims[axis];
}

wf_expr infer_k(const infer *c, int64_t v) { return wf_expr_const(c->p, v); }

weft_status infer_fail(infer *c, const char *fmt, ...) {
  char text[200];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  const wf_str name = c->n->name, op = c->n->op_type;
  return wf_fail(c->err, WEFT_PACKAGE_INVALID, "export the model again", "node '%.*s' (%.*s): %s",
                 (int)(name.n < 100 ? name.n : 100), name.n ? name.at : "",
                 (int)(op.n < 60 ? op.n : 60), op.at, text);
}

weft_status infer_set(infer *c, int32_t i, wf_dtype dtype, int32_t rank, const wf_expr *dims) {
  wf_value *v = infer_out(c, i);
  wf_expr merged[GRAPH_MAX_RANK];
  if (!v) return WEFT_OK;
  if (dtype != WF_DTYPE_UNDEFINED) v->dtype = dtype;
  if (rank < 0) return WEFT_OK;
  if (rank > GRAPH_MAX_RANK) return infer_fail(c, "its result has %d dimensions", rank);
  for (int32_t k = 0; k < rank; k++) {
    merged[k] = dims[k];
    /* What the file says of a value stays where inference can't tell. */
    if (merged[k] < 0 && v->rank == rank) merged[k] = v->dims[k];
  }
  if (v->rank == rank &&
      (rank == 0 || memcmp(merged, v->dims, (size_t)rank * sizeof *merged) == 0)) {
    return WEFT_OK;
  }
  return graph_set_dims(c->g, v, rank, merged) ? WEFT_OK : graph_no_memory(c->err);
}

weft_status infer_same(infer *c, int32_t out, int32_t in) {
  const wf_value *v = infer_in(c, in);
  return v ? infer_set(c, out, v->dtype, v->rank, v->dims) : WEFT_OK;
}

weft_status infer_set_content(infer *c, int32_t i, int32_t n, const wf_expr *content) {
  wf_value *v = infer_out(c, i);
  if (!v || n < 0 || n > GRAPH_MAX_CONTENT) return WEFT_OK;
  bool is_known = n == 0;
  for (int32_t k = 0; k < n; k++) is_known |= content[k] >= 0;
  if (!is_known) return WEFT_OK;
  if (v->n_content == n &&
      (n == 0 || memcmp(content, v->content, (size_t)n * sizeof *content) == 0)) {
    return WEFT_OK;
  }
  return graph_set_content(c->g, v, n, content) ? WEFT_OK : graph_no_memory(c->err);
}

bool infer_axis(int64_t axis, int32_t rank, int32_t *result) {
  if (axis < -(int64_t)rank || axis >= rank) return false;
  *result = (int32_t)(axis < 0 ? axis + rank : axis);
  return true;
}

static weft_status broadcast_dim(infer *c, wf_expr a, wf_expr b, wf_expr *out) {
  int64_t x, y;
  const bool a_const = wf_expr_is_const(c->p, a, &x), b_const = wf_expr_is_const(c->p, b, &y);
  if (a == b)
    *out = a;
  else if (a_const && x == 1)
    *out = b;
  else if (b_const && y == 1)
    *out = a;
  else if (a_const && b_const)
    return infer_fail(c, "dimensions %lld and %lld do not broadcast", (long long)x, (long long)y);
  else if (a_const)
    *out = a;
  else if (b_const)
    *out = b;
  else
    *out = wf_expr_max(c->p, a, b); /* one of them may be 1 at run time */
  return WEFT_OK;
}

weft_status infer_broadcast(infer *c, int32_t ra, const wf_expr *a, int32_t rb, const wf_expr *b,
                            int32_t *rank, wf_expr *out) {
  *rank = -1;
  if (ra < 0 || rb < 0) return WEFT_OK;
  const int32_t r = ra > rb ? ra : rb;
  for (int32_t i = 0; i < r; i++) {
    const int32_t ia = i - (r - ra), ib = i - (r - rb);
    if (ia < 0)
      out[i] = b[ib];
    else if (ib < 0)
      out[i] = a[ia];
    else
      WF_RETURN_IF_ERROR(broadcast_dim(c, a[ia], b[ib], &out[i]));
  }
  *rank = r;
  return WEFT_OK;
}

void infer_ints(const infer *c, const char *attr, int32_t input, int64_t *out, int32_t max,
                int32_t *n) {
  const wf_attr *a = wf_node_attr(c->n, attr);
  *n = -1;
  if (a && a->kind == WF_ATTR_INTS && a->n <= (size_t)max) {
    for (size_t i = 0; i < a->n; i++) out[i] = a->ints[i];
    *n = (int32_t)a->n;
    return;
  }
  if (input < 0 || !infer_in(c, input)) return;
  if (!graph_const_ints(c->g, c->n->inputs[input], out, max, n)) *n = -2;
}

/* ---- driver ------------------------------------------------------------------------------ */

weft_status graph_infer_node(wf_graph *g, wf_node *n, weft_error *err) {
  infer c = {g, g->exprs, n, err};
  if (!functions[n->op]) return WEFT_OK;
  return functions[n->op](&c);
}

weft_status graph_infer(wf_graph *g, weft_error *err) {
  for (size_t i = 0; i < g->order.n; i++) {
    WF_RETURN_IF_ERROR(graph_infer_node(g, g->nodes.at[g->order.at[i]], err));
  }
  return WEFT_OK;
}
