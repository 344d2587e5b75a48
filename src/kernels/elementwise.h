/* SPDX-License-Identifier: Apache-2.0 */
/* Vector kernels other than matrix products and attention: norms, activations, softmax, conversion.
 * All work on contiguous fp32 rows unless said otherwise, allocate nothing, and a row's result
 * depends on that row alone. Float results stay within the ulp bound written at each, against ref.
 * In place is allowed where y may equal x (said so). */
#ifndef WF_KERNELS_ELEMENTWISE_H
#define WF_KERNELS_ELEMENTWISE_H

#include <stddef.h>
#include <stdint.h>

#include "base/process.h"

/* y = x / sqrt(mean(x^2) + epsilon) * weight, per row of n; mean in a fixed order. y may be x. */
void wf_rms_norm_f32(wf_cpu_level level, int64_t n_rows, int64_t n, const float *x, int64_t ldx,
                     const float *weight, float epsilon, float *y, int64_t ldy);
/* sum = x + skip (+ bias); y = rms_norm(sum). `sum` may be x or skip. bias may be NULL. */
void wf_skip_rms_norm_f32(wf_cpu_level level, int64_t n_rows, int64_t n, const float *x,
                          int64_t ldx, const float *skip, int64_t ld_skip, const float *bias,
                          const float *weight, float epsilon, float *sum, int64_t ld_sum, float *y,
                          int64_t ldy);
/* y = (x - mean) / sqrt(var + epsilon) * weight + bias; weight and bias may be NULL. */
void wf_layer_norm_f32(wf_cpu_level level, int64_t n_rows, int64_t n, const float *x, int64_t ldx,
                       const float *weight, const float *bias, float epsilon, float *y,
                       int64_t ldy);

typedef enum wf_unary_fn {
  WF_FN_SILU,
  WF_FN_GELU_TANH,
  WF_FN_GELU_ERF,
  WF_FN_QUICK_GELU,
  WF_FN_RELU,
  WF_FN_SIGMOID,
  WF_FN_TANH,
  WF_FN_EXP,
  WF_FN_ERF,
  WF_FN_LOG,
  WF_FN_SQRT,
  WF_FN_RECIPROCAL,
  WF_FN_NEG,
  WF_FN_ABS,
  WF_FN_SIN,
  WF_FN_COS,
  WF_FN_SOFTPLUS,
  WF_FN_FLOOR,
  WF_FN_CEIL,
  WF_FN_ROUND
} wf_unary_fn;
/* y may be x. exp, tanh, sigmoid, erf, silu, gelu: at most 4 ulp or 1e-7 absolute from the double
 * result; NaN stays NaN, infinities give the limits. */
void wf_unary_f32(wf_cpu_level level, wf_unary_fn op, int64_t n, const float *x, float *y);
/* y = act(gate) * up, row by row with strides (the gated MLP). y may be gate or up. */
void wf_gated_f32(wf_cpu_level level, wf_unary_fn act, int64_t n_rows, int64_t n, const float *gate,
                  int64_t ld_gate, const float *up, int64_t ld_up, float *y, int64_t ldy);

typedef enum wf_binary_op {
  WF_BINARY_ADD,
  WF_BINARY_SUB,
  WF_BINARY_MUL,
  WF_BINARY_DIV,
  WF_BINARY_MIN,
  WF_BINARY_MAX,
  WF_BINARY_POW
} wf_binary_op;
/* y[i] = a[i * a_step] op b[i * b_step]; steps are 0 (scalar) or 1. y may be a or b. */
void wf_binary_f32(wf_cpu_level level, wf_binary_op op, int64_t n, const float *a, int64_t a_step,
                   const float *b, int64_t b_step, float *y);

/* Softmax over rows of n, in place allowed; a row of all -inf gives NaN as ONNX does. */
void wf_softmax_f32(wf_cpu_level level, int64_t n_rows, int64_t n, const float *x, int64_t ldx,
                    float *y, int64_t ldy);
/* Index of the greatest element, the lowest on ties; -1 when NaN or +inf occurs or all are -inf. */
int64_t wf_argmax_f32(wf_cpu_level level, int64_t n, const float *x);

/* Conversions, round to nearest even, NaN kept, unaligned allowed. */
void wf_f16_to_f32(wf_cpu_level level, int64_t n, const uint16_t *x, float *y);
void wf_f32_to_f16(wf_cpu_level level, int64_t n, const float *x, uint16_t *y);
void wf_bf16_to_f32(wf_cpu_level level, int64_t n, const uint16_t *x, float *y);
void wf_f32_to_bf16(wf_cpu_level level, int64_t n, const float *x, uint16_t *y);
float wf_f16_value(uint16_t h); /* one element, plain C */
uint16_t wf_f16_bits(float v);

/* One row per variant of every function above, for the tests. */
typedef struct wf_elementwise_variant {
  const char *name;
  wf_cpu_level needs;
  const struct wf_elementwise_table *table; /* elementwise_kernels.h, private to the family */
} wf_elementwise_variant;
const wf_elementwise_variant *wf_elementwise_variants(size_t *n);

#endif
