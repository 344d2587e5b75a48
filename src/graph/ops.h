/* SPDX-License-Identifier: Apache-2.0 */
/* The list of operators weft has a name for. X(enum, domain, op_type). Domain words: ONNX is
 * ai.onnx, MS is com.microsoft, WEFT is internal (made by passes, never read from a file). */
#ifndef WF_OPS_H
#define WF_OPS_H

#define WF_DOMAIN_ONNX ""
#define WF_DOMAIN_MS "com.microsoft"
#define WF_DOMAIN_WEFT "weft"

#define WF_OP_MAP(X)                                                       \
  X(ADD, ONNX, "Add")                                                      \
  X(SUB, ONNX, "Sub")                                                      \
  X(MUL, ONNX, "Mul")                                                      \
  X(DIV, ONNX, "Div")                                                      \
  X(POW, ONNX, "Pow")                                                      \
  X(MOD, ONNX, "Mod")                                                      \
  X(SQRT, ONNX, "Sqrt")                                                    \
  X(RECIPROCAL, ONNX, "Reciprocal")                                        \
  X(NEG, ONNX, "Neg")                                                      \
  X(ABS, ONNX, "Abs")                                                      \
  X(EXP, ONNX, "Exp")                                                      \
  X(LOG, ONNX, "Log")                                                      \
  X(ERF, ONNX, "Erf")                                                      \
  X(TANH, ONNX, "Tanh")                                                    \
  X(SIGMOID, ONNX, "Sigmoid")                                              \
  X(RELU, ONNX, "Relu")                                                    \
  X(LEAKY_RELU, ONNX, "LeakyRelu")                                         \
  X(ELU, ONNX, "Elu")                                                      \
  X(SOFTPLUS, ONNX, "Softplus")                                            \
  X(GELU, ONNX, "Gelu")                                                    \
  X(SWISH, ONNX, "Swish")                                                  \
  X(SIN, ONNX, "Sin")                                                      \
  X(COS, ONNX, "Cos")                                                      \
  X(FLOOR, ONNX, "Floor")                                                  \
  X(CEIL, ONNX, "Ceil")                                                    \
  X(ROUND, ONNX, "Round")                                                  \
  X(SIGN, ONNX, "Sign")                                                    \
  X(CLIP, ONNX, "Clip")                                                    \
  X(MIN, ONNX, "Min")                                                      \
  X(MAX, ONNX, "Max")                                                      \
  X(SUM, ONNX, "Sum")                                                      \
  X(AND, ONNX, "And")                                                      \
  X(OR, ONNX, "Or")                                                        \
  X(XOR, ONNX, "Xor")                                                      \
  X(NOT, ONNX, "Not")                                                      \
  X(EQUAL, ONNX, "Equal")                                                  \
  X(GREATER, ONNX, "Greater")                                              \
  X(LESS, ONNX, "Less")                                                    \
  X(GREATER_OR_EQUAL, ONNX, "GreaterOrEqual")                              \
  X(LESS_OR_EQUAL, ONNX, "LessOrEqual")                                    \
  X(WHERE, ONNX, "Where")                                                  \
  X(CAST, ONNX, "Cast")                                                    \
  X(CAST_LIKE, ONNX, "CastLike")                                           \
  X(IS_NAN, ONNX, "IsNaN")                                                 \
  X(IS_INF, ONNX, "IsInf")                                                 \
  X(BITWISE_AND, ONNX, "BitwiseAnd")                                       \
  X(BITWISE_OR, ONNX, "BitwiseOr")                                         \
  X(BITWISE_XOR, ONNX, "BitwiseXor")                                       \
  X(BITWISE_NOT, ONNX, "BitwiseNot")                                       \
  X(BIT_SHIFT, ONNX, "BitShift")                                           \
  X(IDENTITY, ONNX, "Identity")                                            \
  X(DROPOUT, ONNX, "Dropout")                                              \
  X(CONSTANT, ONNX, "Constant")                                            \
  X(CONSTANT_OF_SHAPE, ONNX, "ConstantOfShape")                            \
  X(SHAPE, ONNX, "Shape")                                                  \
  X(SIZE, ONNX, "Size")                                                    \
  X(RANGE, ONNX, "Range")                                                  \
  X(RESHAPE, ONNX, "Reshape")                                              \
  X(TRANSPOSE, ONNX, "Transpose")                                          \
  X(SQUEEZE, ONNX, "Squeeze")                                              \
  X(UNSQUEEZE, ONNX, "Unsqueeze")                                          \
  X(FLATTEN, ONNX, "Flatten")                                              \
  X(EXPAND, ONNX, "Expand")                                                \
  X(TILE, ONNX, "Tile")                                                    \
  X(CONCAT, ONNX, "Concat")                                                \
  X(SPLIT, ONNX, "Split")                                                  \
  X(SLICE, ONNX, "Slice")                                                  \
  X(PAD, ONNX, "Pad")                                                      \
  X(TRILU, ONNX, "Trilu")                                                  \
  X(GATHER, ONNX, "Gather")                                                \
  X(GATHER_ELEMENTS, ONNX, "GatherElements")                               \
  X(GATHER_ND, ONNX, "GatherND")                                           \
  X(SCATTER_ND, ONNX, "ScatterND")                                         \
  X(SCATTER_ELEMENTS, ONNX, "ScatterElements")                             \
  X(TENSOR_SCATTER, ONNX, "TensorScatter")                                 \
  X(NON_ZERO, ONNX, "NonZero")                                             \
  X(ONE_HOT, ONNX, "OneHot")                                               \
  X(CUM_SUM, ONNX, "CumSum")                                               \
  X(ARG_MAX, ONNX, "ArgMax")                                               \
  X(ARG_MIN, ONNX, "ArgMin")                                               \
  X(TOP_K, ONNX, "TopK")                                                   \
  X(REDUCE_MEAN, ONNX, "ReduceMean")                                       \
  X(REDUCE_SUM, ONNX, "ReduceSum")                                         \
  X(REDUCE_MAX, ONNX, "ReduceMax")                                         \
  X(REDUCE_MIN, ONNX, "ReduceMin")                                         \
  X(REDUCE_PROD, ONNX, "ReduceProd")                                       \
  X(REDUCE_L1, ONNX, "ReduceL1")                                           \
  X(REDUCE_L2, ONNX, "ReduceL2")                                           \
  X(REDUCE_SUM_SQUARE, ONNX, "ReduceSumSquare")                            \
  X(REDUCE_LOG_SUM_EXP, ONNX, "ReduceLogSumExp")                           \
  X(MATMUL, ONNX, "MatMul")                                                \
  X(GEMM, ONNX, "Gemm")                                                    \
  X(EINSUM, ONNX, "Einsum")                                                \
  X(CONV, ONNX, "Conv")                                                    \
  X(SOFTMAX, ONNX, "Softmax")                                              \
  X(LOG_SOFTMAX, ONNX, "LogSoftmax")                                       \
  X(LAYER_NORM, ONNX, "LayerNormalization")                                \
  X(RMS_NORM, ONNX, "RMSNormalization")                                    \
  X(SIMPLIFIED_LAYER_NORM, ONNX, "SimplifiedLayerNormalization")           \
  X(ROTARY_EMBEDDING, ONNX, "RotaryEmbedding")                             \
  X(ATTENTION, ONNX, "Attention")                                          \
  X(DEQUANTIZE_LINEAR, ONNX, "DequantizeLinear")                           \
  X(QUANTIZE_LINEAR, ONNX, "QuantizeLinear")                               \
  X(DYNAMIC_QUANTIZE_LINEAR, ONNX, "DynamicQuantizeLinear")                \
  X(MATMUL_INTEGER, ONNX, "MatMulInteger")                                 \
  X(CAUSAL_CONV_WITH_STATE, ONNX, "CausalConvWithState")                   \
  X(LINEAR_ATTENTION, ONNX, "LinearAttention")                             \
  X(IF, ONNX, "If")                                                        \
  X(LOOP, ONNX, "Loop")                                                    \
  X(SCAN, ONNX, "Scan")                                                    \
  X(MS_MATMUL_NBITS, MS, "MatMulNBits")                                    \
  X(MS_MATMUL_BNB4, MS, "MatMulBnb4")                                      \
  X(MS_CAUSAL_CONV_WITH_STATE, MS, "CausalConvWithState")                  \
  X(MS_LINEAR_ATTENTION, MS, "LinearAttention")                            \
  X(MS_MOE, MS, "MoE")                                                     \
  X(MS_QMOE, MS, "QMoE")                                                   \
  X(MS_GATHER_BLOCK_QUANTIZED, MS, "GatherBlockQuantized")                 \
  X(MS_GROUP_QUERY_ATTENTION, MS, "GroupQueryAttention")                   \
  X(MS_MULTI_HEAD_ATTENTION, MS, "MultiHeadAttention")                     \
  X(MS_ROTARY_EMBEDDING, MS, "RotaryEmbedding")                            \
  X(MS_SKIP_LAYER_NORM, MS, "SkipLayerNormalization")                      \
  X(MS_SKIP_SIMPLIFIED_LAYER_NORM, MS, "SkipSimplifiedLayerNormalization") \
  X(MS_SIMPLIFIED_LAYER_NORM, MS, "SimplifiedLayerNormalization")          \
  X(MS_FAST_GELU, MS, "FastGelu")                                          \
  X(MS_GELU, MS, "Gelu")                                                   \
  X(MS_QUICK_GELU, MS, "QuickGelu")                                        \
  X(MS_BIAS_GELU, MS, "BiasGelu")                                          \
  X(MS_FUSED_MATMUL, MS, "FusedMatMul")                                    \
  X(MS_DEQUANTIZE_LINEAR, MS, "DequantizeLinear")                          \
  X(MS_QUANTIZE_LINEAR, MS, "QuantizeLinear")                              \
  X(MS_DYNAMIC_QUANTIZE_MATMUL, MS, "DynamicQuantizeMatMul")               \
  X(MS_MATMUL_INTEGER_TO_FLOAT, MS, "MatMulIntegerToFloat")                \
  X(WEFT_NORM, WEFT, "Norm")                                               \
  X(WEFT_UNARY, WEFT, "Unary")                                             \
  X(WEFT_GLU, WEFT, "Glu")                                                 \
  X(WEFT_ROTARY, WEFT, "Rotary")                                           \
  X(WEFT_ATTENTION, WEFT, "CachedAttention")                               \
  X(WEFT_LINEAR, WEFT, "Linear")                                           \
  X(WEFT_DYNAMIC_LINEAR, WEFT, "DynamicLinear")                            \
  X(WEFT_SELECT_TOKENS, WEFT, "SelectTokens")

typedef enum wf_op {
  WF_OP_UNKNOWN = 0, /* kept; whoever runs the graph refuses it by domain, name and version */
#define WF_X(name, domain, text) WF_OP_##name,
  WF_OP_MAP(WF_X)
#undef WF_X
      WF_OP_COUNT
} wf_op;

#endif
