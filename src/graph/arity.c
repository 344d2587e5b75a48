/* SPDX-License-Identifier: Apache-2.0 */
/* How many inputs and outputs each operator takes. Checked once, where a node enters the graph, so
 * that inference, passes and lowering may read every input that an operator must have. */
#include <stdarg.h>
#include <stdio.h>

#include "graph/edit.h"

enum { ANY = -1 };
#define EACH 0xffffffffU /* of a list without an end no element may be left out */

typedef struct arity {
  wf_op op;
  int32_t since; /* opset version that this row begins with */
  int32_t in_least, in_most;
  uint32_t required; /* bit i (31 and beyond: bit 31): input i may not be left out */
  int32_t out_least, out_most;
} arity;

/* Rows of one operator stand together, oldest first. */
static const arity table[] = {
    {WF_OP_ADD, 1, 2, 2, 0x3, 1, 1},
    {WF_OP_SUB, 1, 2, 2, 0x3, 1, 1},
    {WF_OP_MUL, 1, 2, 2, 0x3, 1, 1},
    {WF_OP_DIV, 1, 2, 2, 0x3, 1, 1},
    {WF_OP_POW, 1, 2, 2, 0x3, 1, 1},
    {WF_OP_MOD, 10, 2, 2, 0x3, 1, 1},
    {WF_OP_SQRT, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_RECIPROCAL, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_NEG, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_ABS, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_EXP, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_LOG, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_ERF, 9, 1, 1, 0x1, 1, 1},
    {WF_OP_TANH, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_SIGMOID, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_RELU, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_LEAKY_RELU, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_ELU, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_SOFTPLUS, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_GELU, 20, 1, 1, 0x1, 1, 1},
    {WF_OP_SWISH, 24, 1, 1, 0x1, 1, 1},
    {WF_OP_SIN, 7, 1, 1, 0x1, 1, 1},
    {WF_OP_COS, 7, 1, 1, 0x1, 1, 1},
    {WF_OP_FLOOR, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_CEIL, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_ROUND, 11, 1, 1, 0x1, 1, 1},
    {WF_OP_SIGN, 9, 1, 1, 0x1, 1, 1},
    {WF_OP_CLIP, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_CLIP, 11, 1, 3, 0x1, 1, 1},
    {WF_OP_MIN, 1, 1, ANY, EACH, 1, 1},
    {WF_OP_MAX, 1, 1, ANY, EACH, 1, 1},
    {WF_OP_SUM, 1, 1, ANY, EACH, 1, 1},
    {WF_OP_AND, 1, 2, 2, 0x3, 1, 1},
    {WF_OP_OR, 1, 2, 2, 0x3, 1, 1},
    {WF_OP_XOR, 1, 2, 2, 0x3, 1, 1},
    {WF_OP_NOT, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_EQUAL, 1, 2, 2, 0x3, 1, 1},
    {WF_OP_GREATER, 1, 2, 2, 0x3, 1, 1},
    {WF_OP_LESS, 1, 2, 2, 0x3, 1, 1},
    {WF_OP_GREATER_OR_EQUAL, 12, 2, 2, 0x3, 1, 1},
    {WF_OP_LESS_OR_EQUAL, 12, 2, 2, 0x3, 1, 1},
    {WF_OP_WHERE, 9, 3, 3, 0x7, 1, 1},
    {WF_OP_CAST, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_CAST_LIKE, 15, 2, 2, 0x3, 1, 1},
    {WF_OP_IS_NAN, 9, 1, 1, 0x1, 1, 1},
    {WF_OP_IS_INF, 10, 1, 1, 0x1, 1, 1},
    {WF_OP_BITWISE_AND, 18, 2, 2, 0x3, 1, 1},
    {WF_OP_BITWISE_OR, 18, 2, 2, 0x3, 1, 1},
    {WF_OP_BITWISE_XOR, 18, 2, 2, 0x3, 1, 1},
    {WF_OP_BITWISE_NOT, 18, 1, 1, 0x1, 1, 1},
    {WF_OP_BIT_SHIFT, 11, 2, 2, 0x3, 1, 1},
    {WF_OP_IDENTITY, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_DROPOUT, 1, 1, 1, 0x1, 1, 2},
    {WF_OP_DROPOUT, 12, 1, 3, 0x1, 1, 2},
    {WF_OP_CONSTANT, 1, 0, 0, 0x0, 1, 1},
    {WF_OP_CONSTANT_OF_SHAPE, 9, 1, 1, 0x1, 1, 1},
    {WF_OP_SHAPE, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_SIZE, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_RANGE, 11, 3, 3, 0x7, 1, 1},
    {WF_OP_RESHAPE, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_RESHAPE, 5, 2, 2, 0x3, 1, 1},
    {WF_OP_TRANSPOSE, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_SQUEEZE, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_SQUEEZE, 13, 1, 2, 0x1, 1, 1},
    {WF_OP_UNSQUEEZE, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_UNSQUEEZE, 13, 2, 2, 0x3, 1, 1},
    {WF_OP_FLATTEN, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_EXPAND, 8, 2, 2, 0x3, 1, 1},
    {WF_OP_TILE, 1, 3, 3, 0x7, 1, 1},
    {WF_OP_TILE, 6, 2, 2, 0x3, 1, 1},
    {WF_OP_CONCAT, 1, 1, ANY, EACH, 1, 1},
    {WF_OP_SPLIT, 1, 1, 2, 0x1, 1, ANY},
    {WF_OP_SPLIT, 2, 1, 1, 0x1, 1, ANY},
    {WF_OP_SPLIT, 13, 1, 2, 0x1, 1, ANY},
    {WF_OP_SLICE, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_SLICE, 10, 3, 5, 0x7, 1, 1},
    {WF_OP_PAD, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_PAD, 11, 2, 3, 0x3, 1, 1},
    {WF_OP_PAD, 18, 2, 4, 0x3, 1, 1},
    {WF_OP_TRILU, 14, 1, 2, 0x1, 1, 1},
    {WF_OP_GATHER, 1, 2, 2, 0x3, 1, 1},
    {WF_OP_GATHER_ELEMENTS, 11, 2, 2, 0x3, 1, 1},
    {WF_OP_GATHER_ND, 11, 2, 2, 0x3, 1, 1},
    {WF_OP_SCATTER_ND, 11, 3, 3, 0x7, 1, 1},
    {WF_OP_SCATTER_ELEMENTS, 11, 3, 3, 0x7, 1, 1},
    {WF_OP_TENSOR_SCATTER, 24, 2, 3, 0x3, 1, 1},
    {WF_OP_NON_ZERO, 9, 1, 1, 0x1, 1, 1},
    {WF_OP_ONE_HOT, 9, 3, 3, 0x7, 1, 1},
    {WF_OP_CUM_SUM, 11, 2, 2, 0x3, 1, 1},
    {WF_OP_ARG_MAX, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_ARG_MIN, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_TOP_K, 1, 1, 1, 0x1, 2, 2},
    {WF_OP_TOP_K, 10, 2, 2, 0x3, 2, 2},
    {WF_OP_REDUCE_MEAN, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_REDUCE_MEAN, 18, 1, 2, 0x1, 1, 1},
    {WF_OP_REDUCE_SUM, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_REDUCE_SUM, 13, 1, 2, 0x1, 1, 1},
    {WF_OP_REDUCE_MAX, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_REDUCE_MAX, 18, 1, 2, 0x1, 1, 1},
    {WF_OP_REDUCE_MIN, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_REDUCE_MIN, 18, 1, 2, 0x1, 1, 1},
    {WF_OP_REDUCE_PROD, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_REDUCE_PROD, 18, 1, 2, 0x1, 1, 1},
    {WF_OP_REDUCE_L1, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_REDUCE_L1, 18, 1, 2, 0x1, 1, 1},
    {WF_OP_REDUCE_L2, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_REDUCE_L2, 18, 1, 2, 0x1, 1, 1},
    {WF_OP_REDUCE_SUM_SQUARE, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_REDUCE_SUM_SQUARE, 18, 1, 2, 0x1, 1, 1},
    {WF_OP_REDUCE_LOG_SUM_EXP, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_REDUCE_LOG_SUM_EXP, 18, 1, 2, 0x1, 1, 1},
    {WF_OP_MATMUL, 1, 2, 2, 0x3, 1, 1},
    {WF_OP_GEMM, 1, 3, 3, 0x7, 1, 1},
    {WF_OP_GEMM, 11, 2, 3, 0x3, 1, 1},
    {WF_OP_EINSUM, 12, 1, ANY, EACH, 1, 1},
    {WF_OP_CONV, 1, 2, 3, 0x3, 1, 1},
    {WF_OP_SOFTMAX, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_LOG_SOFTMAX, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_LAYER_NORM, 17, 2, 3, 0x3, 1, 3},
    {WF_OP_RMS_NORM, 23, 2, 2, 0x3, 1, 1},
    {WF_OP_SIMPLIFIED_LAYER_NORM, 1, 2, 2, 0x3, 1, 2},
    {WF_OP_ROTARY_EMBEDDING, 23, 3, 4, 0x7, 1, 1},
    {WF_OP_ATTENTION, 23, 3, 6, 0x7, 1, 4},
    {WF_OP_ATTENTION, 24, 3, 7, 0x7, 1, 4},
    {WF_OP_DEQUANTIZE_LINEAR, 10, 2, 3, 0x3, 1, 1},
    {WF_OP_QUANTIZE_LINEAR, 10, 2, 3, 0x3, 1, 1},
    {WF_OP_DYNAMIC_QUANTIZE_LINEAR, 11, 1, 1, 0x1, 3, 3},
    {WF_OP_MATMUL_INTEGER, 10, 2, 4, 0x3, 1, 1},
    {WF_OP_CAUSAL_CONV_WITH_STATE, 27, 2, 4, 0x3, 2, 2},
    {WF_OP_LINEAR_ATTENTION, 27, 3, 6, 0x7, 2, 2},
    {WF_OP_IF, 1, 1, 1, 0x1, 1, ANY},
    {WF_OP_LOOP, 1, 3, ANY, EACH & ~0x3U, 1, ANY},
    {WF_OP_LOOP, 11, 2, ANY, EACH & ~0x3U, 1, ANY},
    {WF_OP_SCAN, 8, 2, ANY, EACH & ~0x1U, 1, ANY},
    {WF_OP_SCAN, 9, 1, ANY, EACH, 1, ANY},
    {WF_OP_MS_MATMUL_NBITS, 1, 3, 6, 0x7, 1, 1},
    {WF_OP_MS_MATMUL_BNB4, 1, 3, 3, 0x7, 1, 1},
    {WF_OP_MS_CAUSAL_CONV_WITH_STATE, 1, 2, 4, 0x3, 2, 2},
    {WF_OP_MS_LINEAR_ATTENTION, 1, 3, 6, 0x7, 2, 2},
    {WF_OP_MS_MOE, 1, 5, 8, 0x17, 1, 1},
    {WF_OP_MS_QMOE, 1, 6, 21, 0x27, 1, 1},
    {WF_OP_MS_GATHER_BLOCK_QUANTIZED, 1, 3, 4, 0x7, 1, 1},
    {WF_OP_MS_GROUP_QUERY_ATTENTION, 1, 7, 16, 0x61, 1, 4},
    {WF_OP_MS_MULTI_HEAD_ATTENTION, 1, 1, 10, 0x1, 1, 4},
    {WF_OP_MS_ROTARY_EMBEDDING, 1, 4, 4, 0xf, 1, 1},
    {WF_OP_MS_SKIP_LAYER_NORM, 1, 3, 5, 0x7, 1, 4},
    {WF_OP_MS_SKIP_SIMPLIFIED_LAYER_NORM, 1, 3, 4, 0x7, 1, 4},
    {WF_OP_MS_FAST_GELU, 1, 1, 2, 0x1, 1, 1},
    {WF_OP_MS_GELU, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_MS_QUICK_GELU, 1, 1, 1, 0x1, 1, 1},
    {WF_OP_MS_BIAS_GELU, 1, 2, 2, 0x3, 1, 1},
    {WF_OP_MS_FUSED_MATMUL, 1, 2, 2, 0x3, 1, 1},
    {WF_OP_MS_DEQUANTIZE_LINEAR, 1, 2, 3, 0x3, 1, 1},
    {WF_OP_MS_QUANTIZE_LINEAR, 1, 2, 3, 0x3, 1, 1},
    {WF_OP_MS_DYNAMIC_QUANTIZE_MATMUL, 1, 3, 5, 0x7, 1, 1},
    {WF_OP_MS_MATMUL_INTEGER_TO_FLOAT, 1, 4, 7, 0xf, 1, 1},
    /* no schema: exporters write the one of ai.onnx under this domain, too */
    {WF_OP_MS_SIMPLIFIED_LAYER_NORM, 1, 2, 3, 0x3, 1, 2},
};

/* The row for the version a model imports; the oldest when it imports an older one or none. NULL
 * for operators that no file can name. */
static const arity *find(wf_op op, int32_t version) {
  const arity *found = NULL;
  for (size_t i = 0; i < WF_ARRAY_LEN(table); i++) {
    if (table[i].op != op) continue;
    if (!found || table[i].since <= version) found = &table[i];
  }
  return found;
}

static weft_status refuse(const wf_node *n, weft_status status, weft_error *err, const char *fmt,
                          ...) WF_PRINTF(4, 5) WF_COLD;

static weft_status refuse(const wf_node *n, weft_status status, weft_error *err, const char *fmt,
                          ...) {
  const wf_str domain = n->domain.n ? n->domain : WF_STR("ai.onnx");
  char text[100];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return wf_fail(err, status,
                 status == WEFT_UNSUPPORTED ? "export for an older version of the operator"
                                            : "export the model again",
                 "node '%.*s' (%.*s of %.*s, version %d) %s",
                 (int)(n->name.n < 60 ? n->name.n : 60), n->name.n ? n->name.at : "",
                 (int)n->op_type.n, n->op_type.at, (int)domain.n, domain.at, n->version, text);
}

static weft_status check_count(const wf_node *n, const char *what, int32_t have, int32_t least,
                               int32_t most, weft_error *err) {
  if (have < least) {
    return refuse(n, WEFT_PACKAGE_INVALID, err, "has %d %s, but needs at least %d", have, what,
                  least);
  }
  if (most != ANY && have > most) {
    return refuse(n, WEFT_UNSUPPORTED, err, "has %d %s, but takes at most %d", have, what, most);
  }
  return WEFT_OK;
}

weft_status graph_check_arity(const wf_node *n, int32_t n_outputs, weft_error *err) {
  const arity *a = find(n->op, n->version);
  if (!a) return WEFT_OK;
  int32_t given = n->n_inputs; /* names left empty at the end are not there */
  while (given > 0 && n->inputs[given - 1] < 0) given--;
  WF_RETURN_IF_ERROR(check_count(n, "inputs", given, a->in_least, a->in_most, err));
  for (int32_t i = 0; i < given; i++) {
    if (n->inputs[i] < 0 && (a->required >> (i < 31 ? i : 31) & 1)) {
      return refuse(n, WEFT_PACKAGE_INVALID, err, "leaves out input %d, which it needs", i);
    }
  }
  return check_count(n, "outputs", n_outputs, a->out_least, a->out_most, err);
}
