/* SPDX-License-Identifier: Apache-2.0 */
/* Every operator that native runs: X(operator, function). The table, the declarations and the
 * refusal of what is missing all come from this list. */
#ifndef WF_NATIVE_OP_LIST_H
#define WF_NATIVE_OP_LIST_H

#include "backend/native/op.h"

#define WF_OP_LIST(X)                                       \
  X(ADD, add)                                               \
  X(SUB, sub)                                               \
  X(MUL, mul)                                               \
  X(DIV, div)                                               \
  X(POW, pow)                                               \
  X(MOD, mod)                                               \
  X(SQRT, sqrt)                                             \
  X(RECIPROCAL, reciprocal)                                 \
  X(NEG, neg)                                               \
  X(ABS, abs)                                               \
  X(EXP, exp)                                               \
  X(LOG, log)                                               \
  X(ERF, erf)                                               \
  X(TANH, tanh)                                             \
  X(SIGMOID, sigmoid)                                       \
  X(RELU, relu)                                             \
  X(LEAKY_RELU, leaky_relu)                                 \
  X(ELU, elu)                                               \
  X(SOFTPLUS, softplus)                                     \
  X(GELU, gelu)                                             \
  X(SWISH, swish)                                           \
  X(SIN, sin)                                               \
  X(COS, cos)                                               \
  X(FLOOR, floor)                                           \
  X(CEIL, ceil)                                             \
  X(ROUND, round)                                           \
  X(SIGN, sign)                                             \
  X(CLIP, clip)                                             \
  X(MIN, min)                                               \
  X(MAX, max)                                               \
  X(SUM, sum)                                               \
  X(AND, and)                                               \
  X(OR, or)                                                 \
  X(XOR, xor)                                               \
  X(NOT, not )                                              \
  X(EQUAL, equal)                                           \
  X(GREATER, greater)                                       \
  X(LESS, less)                                             \
  X(GREATER_OR_EQUAL, greater_or_equal)                     \
  X(LESS_OR_EQUAL, less_or_equal)                           \
  X(WHERE, where)                                           \
  X(CAST, cast)                                             \
  X(CAST_LIKE, cast_like)                                   \
  X(IS_NAN, is_nan)                                         \
  X(IS_INF, is_inf)                                         \
  X(BITWISE_AND, bitwise_and)                               \
  X(BITWISE_OR, bitwise_or)                                 \
  X(BITWISE_XOR, bitwise_xor)                               \
  X(BITWISE_NOT, bitwise_not)                               \
  X(BIT_SHIFT, bit_shift)                                   \
  X(IDENTITY, identity)                                     \
  X(DROPOUT, dropout)                                       \
  X(CONSTANT, constant)                                     \
  X(CONSTANT_OF_SHAPE, constant_of_shape)                   \
  X(SHAPE, shape)                                           \
  X(SIZE, size)                                             \
  X(RANGE, range)                                           \
  X(RESHAPE, reshape)                                       \
  X(TRANSPOSE, transpose)                                   \
  X(SQUEEZE, squeeze)                                       \
  X(UNSQUEEZE, unsqueeze)                                   \
  X(FLATTEN, flatten)                                       \
  X(EXPAND, expand)                                         \
  X(TILE, tile)                                             \
  X(CONCAT, concat)                                         \
  X(SPLIT, split)                                           \
  X(SLICE, slice)                                           \
  X(PAD, pad)                                               \
  X(TRILU, trilu)                                           \
  X(GATHER, gather)                                         \
  X(GATHER_ELEMENTS, gather_elements)                       \
  X(GATHER_ND, gather_nd)                                   \
  X(SCATTER_ND, scatter_nd)                                 \
  X(SCATTER_ELEMENTS, scatter_elements)                     \
  X(TENSOR_SCATTER, tensor_scatter)                         \
  X(NON_ZERO, non_zero)                                     \
  X(ONE_HOT, one_hot)                                       \
  X(CUM_SUM, cum_sum)                                       \
  X(ARG_MAX, arg_max)                                       \
  X(ARG_MIN, arg_min)                                       \
  X(TOP_K, top_k)                                           \
  X(REDUCE_MEAN, reduce_mean)                               \
  X(REDUCE_SUM, reduce_sum)                                 \
  X(REDUCE_MAX, reduce_max)                                 \
  X(REDUCE_MIN, reduce_min)                                 \
  X(REDUCE_PROD, reduce_prod)                               \
  X(REDUCE_L1, reduce_l1)                                   \
  X(REDUCE_L2, reduce_l2)                                   \
  X(REDUCE_SUM_SQUARE, reduce_sum_square)                   \
  X(REDUCE_LOG_SUM_EXP, reduce_log_sum_exp)                 \
  X(MATMUL, matmul)                                         \
  X(GEMM, gemm)                                             \
  X(EINSUM, einsum)                                         \
  X(CONV, conv)                                             \
  X(SOFTMAX, softmax)                                       \
  X(LOG_SOFTMAX, log_softmax)                               \
  X(LAYER_NORM, layer_norm)                                 \
  X(RMS_NORM, rms_norm)                                     \
  X(SIMPLIFIED_LAYER_NORM, rms_norm)                        \
  X(ROTARY_EMBEDDING, rotary_embedding)                     \
  X(ATTENTION, attention)                                   \
  X(DEQUANTIZE_LINEAR, dequantize_linear)                   \
  X(QUANTIZE_LINEAR, quantize_linear)                       \
  X(DYNAMIC_QUANTIZE_LINEAR, dynamic_quantize_linear)       \
  X(MATMUL_INTEGER, matmul_integer)                         \
  X(CAUSAL_CONV_WITH_STATE, causal_conv)                    \
  X(LINEAR_ATTENTION, linear_attention)                     \
  X(IF, control)                                            \
  X(LOOP, control)                                          \
  X(MS_MATMUL_NBITS, ms_matmul_nbits)                       \
  X(MS_MATMUL_BNB4, ms_matmul_bnb4)                         \
  X(MS_CAUSAL_CONV_WITH_STATE, causal_conv)                 \
  X(MS_LINEAR_ATTENTION, linear_attention)                  \
  X(MS_MOE, ms_moe)                                         \
  X(MS_QMOE, ms_moe)                                        \
  X(MS_GATHER_BLOCK_QUANTIZED, ms_gather_block_quantized)   \
  X(MS_GROUP_QUERY_ATTENTION, ms_group_query_attention)     \
  X(MS_MULTI_HEAD_ATTENTION, ms_multi_head_attention)       \
  X(MS_ROTARY_EMBEDDING, ms_rotary_embedding)               \
  X(MS_SKIP_LAYER_NORM, ms_skip_layer_norm)                 \
  X(MS_SKIP_SIMPLIFIED_LAYER_NORM, ms_skip_simplified)      \
  X(MS_SIMPLIFIED_LAYER_NORM, rms_norm)                     \
  X(MS_FAST_GELU, ms_fast_gelu)                             \
  X(MS_GELU, ms_gelu)                                       \
  X(MS_QUICK_GELU, ms_quick_gelu)                           \
  X(MS_BIAS_GELU, ms_bias_gelu)                             \
  X(MS_FUSED_MATMUL, ms_fused_matmul)                       \
  X(MS_DEQUANTIZE_LINEAR, dequantize_linear)                \
  X(MS_QUANTIZE_LINEAR, quantize_linear)                    \
  X(MS_DYNAMIC_QUANTIZE_MATMUL, ms_dynamic_quantize_matmul) \
  X(MS_MATMUL_INTEGER_TO_FLOAT, ms_matmul_integer_to_float) \
  X(WEFT_NORM, weft_norm)                                   \
  X(WEFT_UNARY, weft_unary)                                 \
  X(WEFT_GLU, weft_glu)                                     \
  X(WEFT_ROTARY, weft_rotary)                               \
  X(WEFT_ATTENTION, weft_attention)                         \
  X(WEFT_LINEAR, weft_linear)                               \
  X(WEFT_DYNAMIC_LINEAR, weft_dynamic_linear)

/* If and Loop (`control`) need frames and run inside the interpreter; the function only refuses. */
#define WF_X(op, name) wf_op_fn wf_op_##name;
WF_OP_LIST(WF_X)
#undef WF_X

#endif
