/* SPDX-License-Identifier: Apache-2.0 */
/* The plain definition of every elementwise kernel: formulas in double, rounded once. */
#include <math.h>
#include <string.h>

#include "kernels/elementwise_kernels.h"

static uint32_t bits_of(float v) {
  uint32_t u;
  memcpy(&u, &v, sizeof u);
  return u;
}

static float float_of(uint32_t u) {
  float v;
  memcpy(&v, &u, sizeof v);
  return v;
}

float wf_f16_value(uint16_t h) {
  const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1fu, mantissa = h & 0x3ffu;
  if (exponent == 31) /* a signalling NaN comes out quiet, as the hardware conversion gives it */
    return float_of(sign | 0x7f800000u | mantissa << 13 | (mantissa ? 0x400000u : 0u));
  if (exponent == 0) { /* zero or subnormal: mantissa * 2^-24, exact in fp32 */
    const float v = (float)mantissa * 0x1p-24f;
    return float_of(sign | bits_of(v));
  }
  return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t wf_f16_bits(float v) {
  const uint32_t u = bits_of(v), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((a >> 13) & 0x3ffu));
  if (a >= 0x47800000u) return (uint16_t)(sign | 0x7c00u); /* 65536 and more */
  if (a <
      0x38800000u) { /* below 2^-14: a multiple of 2^-24, rounded by adding 0.5 = 2^23 * 2^-24 */
    const float rounded = float_of(a) + 0.5f;
    return (uint16_t)(sign | (bits_of(rounded) - bits_of(0.5f)));
  }
  /* Round half to even on the 13 dropped bits; a carry may reach the exponent, up to infinity. */
  const uint32_t odd = (a >> 13) & 1u;
  return (uint16_t)(sign | ((a - (112u << 23) + 0xfffu + odd) >> 13));
}

static void f16_to_f32_ref(int64_t n, const uint16_t *x, float *y) {
  for (int64_t i = 0; i < n; i++) y[i] = wf_f16_value(x[i]);
}

static void f32_to_f16_ref(int64_t n, const float *x, uint16_t *y) {
  for (int64_t i = 0; i < n; i++) y[i] = wf_f16_bits(x[i]);
}

static void bf16_to_f32_ref(int64_t n, const uint16_t *x, float *y) {
  for (int64_t i = 0; i < n; i++) y[i] = float_of((uint32_t)x[i] << 16);
}

static void f32_to_bf16_ref(int64_t n, const float *x, uint16_t *y) {
  for (int64_t i = 0; i < n; i++) {
    const uint32_t u = bits_of(x[i]);
    if ((u & 0x7fffffffu) > 0x7f800000u)
      y[i] = (uint16_t)(u >> 16 | 0x40u); /* quiet, so that dropping bits never leaves infinity */
    else
      y[i] = (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
}

static void rms_norm_ref(int64_t n_rows, int64_t n, const float *x, int64_t ldx,
                         const float *weight, float epsilon, float *y, int64_t ldy) {
  for (int64_t r = 0; r < n_rows; r++) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[r * ldx + i] * (double)x[r * ldx + i];
    const double inverse = 1.0 / sqrt(sum / (double)n + (double)epsilon);
    for (int64_t i = 0; i < n; i++)
      y[r * ldy + i] = (float)((double)x[r * ldx + i] * inverse * (double)weight[i]);
  }
}

static void skip_rms_norm_ref(int64_t n_rows, int64_t n, const float *x, int64_t ldx,
                              const float *skip, int64_t ld_skip, const float *bias,
                              const float *weight, float epsilon, float *sum, int64_t ld_sum,
                              float *y, int64_t ldy) {
  for (int64_t r = 0; r < n_rows; r++) {
    for (int64_t i = 0; i < n; i++) {
      const float v = x[r * ldx + i] + skip[r * ld_skip + i];
      sum[r * ld_sum + i] = bias ? v + bias[i] : v;
    }
    rms_norm_ref(1, n, sum + r * ld_sum, n, weight, epsilon, y + r * ldy, n);
  }
}

static void layer_norm_ref(int64_t n_rows, int64_t n, const float *x, int64_t ldx,
                           const float *weight, const float *bias, float epsilon, float *y,
                           int64_t ldy) {
  for (int64_t r = 0; r < n_rows; r++) {
    double mean = 0.0, var = 0.0;
    for (int64_t i = 0; i < n; i++) mean += (double)x[r * ldx + i];
    mean /= (double)n;
    for (int64_t i = 0; i < n; i++) {
      const double d = (double)x[r * ldx + i] - mean;
      var += d * d;
    }
    const double inverse = 1.0 / sqrt(var / (double)n + (double)epsilon);
    for (int64_t i = 0; i < n; i++) {
      double v = ((double)x[r * ldx + i] - mean) * inverse;
      if (weight) v *= (double)weight[i];
      if (bias) v += (double)bias[i];
      y[r * ldy + i] = (float)v;
    }
  }
}

/* x * s where s tends to 0 faster than x to -infinity: the limit is -0, not NaN. */
static double times_gate(double x, double s) { return s == 0.0 ? copysign(0.0, x) : x * s; }

static double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

static double gelu_tanh(double x) {
  /* 0.5 (1 + tanh u) = sigmoid(2u), which keeps its digits where tanh is near -1 */
  const double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
  return times_gate(x, sigmoid(2.0 * u));
}

static double apply(wf_unary_fn op, double x) {
  switch (op) {
    case WF_FN_SILU:
      return times_gate(x, sigmoid(x));
    case WF_FN_GELU_TANH:
      return gelu_tanh(x);
    case WF_FN_GELU_ERF:
      return times_gate(x, 0.5 * erfc(-x * 0.70710678118654752440));
    case WF_FN_QUICK_GELU:
      return times_gate(x, sigmoid(1.702 * x));
    case WF_FN_RELU:
      return x < 0.0 ? 0.0 : x;
    case WF_FN_SIGMOID:
      return sigmoid(x);
    case WF_FN_TANH:
      return tanh(x);
    case WF_FN_EXP:
      return exp(x);
    case WF_FN_ERF:
      return erf(x);
    case WF_FN_LOG:
      return log(x);
    case WF_FN_SQRT:
      return sqrt(x);
    case WF_FN_RECIPROCAL:
      return 1.0 / x;
    case WF_FN_NEG:
      return -x;
    case WF_FN_ABS:
      return fabs(x);
    case WF_FN_SIN:
      return sin(x);
    case WF_FN_COS:
      return cos(x);
    case WF_FN_SOFTPLUS:
      return x > 0.0 ? x + log1p(exp(-x)) : log1p(exp(x));
    case WF_FN_FLOOR:
      return floor(x);
    case WF_FN_CEIL:
      return ceil(x);
    case WF_FN_ROUND:
      return nearbyint(x); /* halves to even, as ONNX's Round */
  }
  return (double)NAN;
}

static void unary_ref(wf_unary_fn op, int64_t n, const float *x, float *y) {
  for (int64_t i = 0; i < n; i++) y[i] = (float)apply(op, (double)x[i]);
}

static void gated_ref(wf_unary_fn act, int64_t n_rows, int64_t n, const float *gate,
                      int64_t ld_gate, const float *up, int64_t ld_up, float *y, int64_t ldy) {
  for (int64_t r = 0; r < n_rows; r++)
    for (int64_t i = 0; i < n; i++)
      y[r * ldy + i] = (float)apply(act, (double)gate[r * ld_gate + i]) * up[r * ld_up + i];
}

/* NaN on either side stays NaN, as in ONNX Min and Max. */
static float least(float a, float b) { return a != a ? a : b != b ? b : a < b ? a : b; }
static float most(float a, float b) { return a != a ? a : b != b ? b : a > b ? a : b; }

static void binary_ref(wf_binary_op op, int64_t n, const float *a, int64_t a_step, const float *b,
                       int64_t b_step, float *y) {
  /* A scalar side may be the first element of y, so it is read before anything is written. */
  const float a0 = n > 0 ? a[0] : 0.0f, b0 = n > 0 ? b[0] : 0.0f;
  for (int64_t i = 0; i < n; i++) {
    const float l = a_step ? a[i] : a0, r = b_step ? b[i] : b0;
    switch (op) {
      case WF_BINARY_ADD:
        y[i] = l + r;
        break;
      case WF_BINARY_SUB:
        y[i] = l - r;
        break;
      case WF_BINARY_MUL:
        y[i] = l * r;
        break;
      case WF_BINARY_DIV:
        y[i] = l / r;
        break;
      case WF_BINARY_MIN:
        y[i] = least(l, r);
        break;
      case WF_BINARY_MAX:
        y[i] = most(l, r);
        break;
      case WF_BINARY_POW:
        y[i] = (float)pow((double)l, (double)r);
        break;
    }
  }
}

static void softmax_ref(int64_t n_rows, int64_t n, const float *x, int64_t ldx, float *y,
                        int64_t ldy) {
  for (int64_t r = 0; r < n_rows; r++) {
    const float *from = x + r * ldx;
    float *to = y + r * ldy;
    float max = -INFINITY;
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) max = from[i] > max ? from[i] : max;
    for (int64_t i = 0; i < n; i++) sum += exp((double)from[i] - (double)max);
    for (int64_t i = 0; i < n; i++) to[i] = (float)(exp((double)from[i] - (double)max) / sum);
  }
}

static int64_t argmax_ref(int64_t n, const float *x) {
  int64_t best = -1;
  float top = -INFINITY;
  for (int64_t i = 0; i < n; i++) {
    if (!(x[i] < INFINITY)) return -1; /* NaN or +inf: the logits are broken */
    if (x[i] > top) {
      top = x[i];
      best = i;
    }
  }
  return best;
}

const wf_elementwise_table wf_elementwise_ref = {
    .rms_norm = rms_norm_ref,
    .skip_rms_norm = skip_rms_norm_ref,
    .layer_norm = layer_norm_ref,
    .unary = unary_ref,
    .gated = gated_ref,
    .binary = binary_ref,
    .softmax = softmax_ref,
    .argmax = argmax_ref,
    .f16_to_f32 = f16_to_f32_ref,
    .f32_to_f16 = f32_to_f16_ref,
    .bf16_to_f32 = bf16_to_f32_ref,
    .f32_to_bf16 = f32_to_bf16_ref,
};
