/* SPDX-License-Identifier: Apache-2.0 */
/* The vector form of the elementwise family, in the words of vec_*.h; each ISA file includes this
 * once. A tail is a padded vector that goes through the same lane code as the body. */
#include <math.h>
#include <string.h>

#include "kernels/elementwise_kernels.h"
#include "kernels/vecmath.h"

WF_INLINE vf load_left(const float *p, int64_t left) {
  return left >= VF_N ? v_load(p) : v_load_n(p, left);
}
WF_INLINE void store_left(float *p, vf v, int64_t left) {
  if (left >= VF_N)
    v_store(p, v);
  else
    v_store_n(p, v, left);
}

/* Sum over a row in an order that only its length decides: four chains of vectors, then the rest.
 */
#define SUM_ROW(n, term, result)                                   \
  do {                                                             \
    vf c0 = v_zero(), c1 = v_zero(), c2 = v_zero(), c3 = v_zero(); \
    int64_t at = 0;                                                \
    for (; at + 4 * VF_N <= (n); at += 4 * VF_N) {                 \
      c0 = term(c0, at, VF_N);                                     \
      c1 = term(c1, at + VF_N, VF_N);                              \
      c2 = term(c2, at + 2 * VF_N, VF_N);                          \
      c3 = term(c3, at + 3 * VF_N, VF_N);                          \
    }                                                              \
    for (; at < (n); at += VF_N) c0 = term(c0, at, (n)-at);        \
    (result) = v_sum(v_add(v_add(c0, c1), v_add(c2, c3)));         \
  } while (0)

static float sum_squares(int64_t n, const float *x) {
  float sum;
#define TERM(c, at, left) v_fma(load_left(x + (at), left), load_left(x + (at), left), c)
  SUM_ROW(n, TERM, sum);
#undef TERM
  return sum;
}

static void rms_norm_row(int64_t n, const float *x, const float *weight, float epsilon, float *y) {
  const vf inverse = v_set1(1.0f / sqrtf(sum_squares(n, x) / (float)n + epsilon));
  for (int64_t i = 0; i < n; i += VF_N) {
    const vf v = v_mul(load_left(x + i, n - i), inverse);
    store_left(y + i, v_mul(v, load_left(weight + i, n - i)), n - i);
  }
}

static void rms_norm(int64_t n_rows, int64_t n, const float *x, int64_t ldx, const float *weight,
                     float epsilon, float *y, int64_t ldy) {
  for (int64_t r = 0; r < n_rows; r++) rms_norm_row(n, x + r * ldx, weight, epsilon, y + r * ldy);
}

static void skip_rms_norm(int64_t n_rows, int64_t n, const float *x, int64_t ldx, const float *skip,
                          int64_t ld_skip, const float *bias, const float *weight, float epsilon,
                          float *sum, int64_t ld_sum, float *y, int64_t ldy) {
  for (int64_t r = 0; r < n_rows; r++) {
    const float *a = x + r * ldx, *b = skip + r * ld_skip;
    float *to = sum + r * ld_sum;
    for (int64_t i = 0; i < n; i += VF_N) {
      const int64_t left = n - i;
      vf v = v_add(load_left(a + i, left), load_left(b + i, left));
      if (bias) v = v_add(v, load_left(bias + i, left));
      store_left(to + i, v, left);
    }
    rms_norm_row(n, to, weight, epsilon, y + r * ldy);
  }
}

static void layer_norm_row(int64_t n, const float *x, const float *weight, const float *bias,
                           float epsilon, float *y) {
  float mean, var;
#define TERM(c, at, left) v_add(load_left(x + (at), left), c)
  SUM_ROW(n, TERM, mean);
#undef TERM
  mean /= (float)n;
  /* Padding lanes would add mean^2 each, so the tail is taken one by one. */
  const int64_t whole = n / VF_N * VF_N;
  const vf m = v_set1(mean);
  vf c0 = v_zero(), c1 = v_zero();
  int64_t i = 0;
  for (; i + 2 * VF_N <= whole; i += 2 * VF_N) {
    const vf a = v_sub(v_load(x + i), m), b = v_sub(v_load(x + i + VF_N), m);
    c0 = v_fma(a, a, c0);
    c1 = v_fma(b, b, c1);
  }
  for (; i < whole; i += VF_N) {
    const vf a = v_sub(v_load(x + i), m);
    c0 = v_fma(a, a, c0);
  }
  var = v_sum(v_add(c0, c1));
  for (; i < n; i++) var = fmaf(x[i] - mean, x[i] - mean, var);
  const vf inverse = v_set1(1.0f / sqrtf(var / (float)n + epsilon));
  for (i = 0; i < n; i += VF_N) {
    const int64_t left = n - i;
    vf v = v_mul(v_sub(load_left(x + i, left), m), inverse);
    if (weight) v = v_mul(v, load_left(weight + i, left));
    if (bias) v = v_add(v, load_left(bias + i, left));
    store_left(y + i, v, left);
  }
}

static void layer_norm(int64_t n_rows, int64_t n, const float *x, int64_t ldx, const float *weight,
                       const float *bias, float epsilon, float *y, int64_t ldy) {
  for (int64_t r = 0; r < n_rows; r++)
    layer_norm_row(n, x + r * ldx, weight, bias, epsilon, y + r * ldy);
}

WF_INLINE vf v_relu(vf x) { return v_select(v_lt(x, v_zero()), v_zero(), x); }
WF_INLINE vf v_reciprocal(vf x) { return v_div(v_set1(1.0f), x); }

/* X(op, word) for each function that has a vector form; the others are too rare in a model's inner
 * loop to need one and go to ref. */
#define UNARY_MAP(X)                \
  X(WF_FN_SILU, v_silu)             \
  X(WF_FN_GELU_TANH, v_gelu_tanh)   \
  X(WF_FN_GELU_ERF, v_gelu_erf)     \
  X(WF_FN_QUICK_GELU, v_quick_gelu) \
  X(WF_FN_RELU, v_relu)             \
  X(WF_FN_SIGMOID, v_sigmoid)       \
  X(WF_FN_TANH, v_tanh)             \
  X(WF_FN_EXP, v_exp)               \
  X(WF_FN_ERF, v_erf)               \
  X(WF_FN_SQRT, v_sqrt)             \
  X(WF_FN_RECIPROCAL, v_reciprocal) \
  X(WF_FN_NEG, v_neg)               \
  X(WF_FN_ABS, v_abs)               \
  X(WF_FN_FLOOR, v_floor)           \
  X(WF_FN_CEIL, v_ceil)             \
  X(WF_FN_ROUND, v_round)

static void unary(wf_unary_fn op, int64_t n, const float *x, float *y) {
  switch (op) {
#define CASE(name, word)                                                                           \
  case name:                                                                                       \
    for (int64_t i = 0; i < n; i += VF_N) store_left(y + i, word(load_left(x + i, n - i)), n - i); \
    return;
    UNARY_MAP(CASE)
#undef CASE
    case WF_FN_LOG:
    case WF_FN_SIN:
    case WF_FN_COS:
    case WF_FN_SOFTPLUS:
      break;
  }
  wf_elementwise_ref.unary(op, n, x, y);
}

static void gated_row(wf_unary_fn act, int64_t n, const float *gate, const float *up, float *y) {
  switch (act) {
#define CASE(name, word)                                          \
  case name:                                                      \
    for (int64_t i = 0; i < n; i += VF_N) {                       \
      const int64_t left = n - i;                                 \
      const vf g = word(load_left(gate + i, left));               \
      store_left(y + i, v_mul(g, load_left(up + i, left)), left); \
    }                                                             \
    return;
    UNARY_MAP(CASE)
#undef CASE
    case WF_FN_LOG:
    case WF_FN_SIN:
    case WF_FN_COS:
    case WF_FN_SOFTPLUS:
      break;
  }
  wf_elementwise_ref.gated(act, 1, n, gate, n, up, n, y, n);
}

static void gated(wf_unary_fn act, int64_t n_rows, int64_t n, const float *gate, int64_t ld_gate,
                  const float *up, int64_t ld_up, float *y, int64_t ldy) {
  for (int64_t r = 0; r < n_rows; r++)
    gated_row(act, n, gate + r * ld_gate, up + r * ld_up, y + r * ldy);
}

/* NaN on either side stays: v_min gives b when either is NaN, so only NaN in a needs a case. */
WF_INLINE vf v_least(vf a, vf b) { return v_select(v_eq(a, a), v_min(a, b), a); }
WF_INLINE vf v_most(vf a, vf b) { return v_select(v_eq(a, a), v_max(a, b), a); }

static void binary(wf_binary_op op, int64_t n, const float *a, int64_t a_step, const float *b,
                   int64_t b_step, float *y) {
  if (n <= 0) return;
  /* A scalar side may be an element of y, so it is read before anything is written. */
  const vf a0 = v_set1(a[0]), b0 = v_set1(b[0]);
  /* The square is so common (norms spelled out in small nodes) that it must not cost a pow. */
  const int is_square = op == WF_BINARY_POW && !b_step && b[0] == 2.0f;
  switch (op) {
#define LOOP(word)                                     \
  for (int64_t i = 0; i < n; i += VF_N) {              \
    const int64_t left = n - i;                        \
    const vf l = a_step ? load_left(a + i, left) : a0; \
    const vf r = b_step ? load_left(b + i, left) : b0; \
    store_left(y + i, word(l, r), left);               \
  }                                                    \
  return;
    case WF_BINARY_ADD:
      LOOP(v_add)
    case WF_BINARY_SUB:
      LOOP(v_sub)
    case WF_BINARY_MUL:
      LOOP(v_mul)
    case WF_BINARY_DIV:
      LOOP(v_div)
    case WF_BINARY_MIN:
      LOOP(v_least)
    case WF_BINARY_MAX:
      LOOP(v_most)
    case WF_BINARY_POW:
      if (is_square) {
#define SQUARE(l, r) v_mul(l, ((void)(r), l))
        LOOP(SQUARE)
#undef SQUARE
      }
      break;
#undef LOOP
  }
  wf_elementwise_ref.binary(op, n, a, a_step, b, b_step, y);
}

static void softmax_row(int64_t n, const float *x, float *y) {
  vf max = v_set1(-INFINITY);
  float sum;
  for (int64_t i = 0; i < n; i += VF_N) {
    const int64_t left = n - i;
    vf v = load_left(x + i, left);
    if (left < VF_N) v = v_select(v_lt(v_iota(), v_set1((float)left)), v, v_set1(-INFINITY));
    max = v_max(v, max);
  }
  const vf top = v_set1(v_hmax(max));
  for (int64_t i = 0; i < n; i += VF_N)
    store_left(y + i, v_exp(v_sub(load_left(x + i, n - i), top)), n - i);
#define TERM(c, at, left) v_add(load_left(y + (at), left), c)
  SUM_ROW(n, TERM, sum);
#undef TERM
  const vf inverse = v_set1(1.0f / sum);
  for (int64_t i = 0; i < n; i += VF_N)
    store_left(y + i, v_mul(load_left(y + i, n - i), inverse), n - i);
}

static void softmax(int64_t n_rows, int64_t n, const float *x, int64_t ldx, float *y, int64_t ldy) {
  for (int64_t r = 0; r < n_rows; r++) softmax_row(n, x + r * ldx, y + r * ldy);
}

static int64_t argmax(int64_t n, const float *x) {
  vf max0 = v_set1(-INFINITY), max1 = max0, zero_sum = v_zero();
  int64_t i = 0;
  /* x * 0 is 0 for a finite x and NaN for the rest; -inf is allowed, so it is lifted first */
  const vf low = v_set1(-0x1p126f);
  for (; i + 2 * VF_N <= n; i += 2 * VF_N) {
    const vf a = v_load(x + i), b = v_load(x + i + VF_N);
    zero_sum = v_fma(v_max(low, a), v_zero(), zero_sum);
    zero_sum = v_fma(v_max(low, b), v_zero(), zero_sum);
    max0 = v_max(a, max0);
    max1 = v_max(b, max1);
  }
  float top = v_hmax(v_max(max0, max1));
  if (v_sum(zero_sum) != 0.0f) return -1;
  for (int64_t j = i; j < n; j++) {
    if (!(x[j] < INFINITY)) return -1;
    top = x[j] > top ? x[j] : top;
  }
  if (!(top > -INFINITY)) return -1;
  const vf want = v_set1(top);
  for (i = 0; i + VF_N <= n; i += VF_N)
    if (v_bits(v_eq(v_load(x + i), want))) break;
  while (x[i] < top) i++;
  return i;
}

/* Conversions: whole vectors in place, the tail through a padded one. */
#define CONVERSION(fn, from_type, to_type, load, store)         \
  static void fn(int64_t n, const from_type *x, to_type *y) {   \
    int64_t i = 0;                                              \
    for (; i + VF_N <= n; i += VF_N) store(y + i, load(x + i)); \
    if (i < n) {                                                \
      from_type from[VF_N] = {0};                               \
      to_type to[VF_N];                                         \
      memcpy(from, x + i, (size_t)(n - i) * sizeof *from);      \
      store(to, load(from));                                    \
      memcpy(y + i, to, (size_t)(n - i) * sizeof *to);          \
    }                                                           \
  }
CONVERSION(f16_to_f32, uint16_t, float, v_from_f16, v_store)
CONVERSION(f32_to_f16, float, uint16_t, v_load, v_to_f16)
CONVERSION(bf16_to_f32, uint16_t, float, v_from_bf16, v_store)
CONVERSION(f32_to_bf16, float, uint16_t, v_load, v_to_bf16)
#undef CONVERSION

#define WF_ELEMENTWISE_TABLE                                                                \
  {                                                                                         \
    .rms_norm = rms_norm, .skip_rms_norm = skip_rms_norm, .layer_norm = layer_norm,         \
    .unary = unary, .gated = gated, .binary = binary, .softmax = softmax, .argmax = argmax, \
    .f16_to_f32 = f16_to_f32, .f32_to_f16 = f32_to_f16, .bf16_to_f32 = bf16_to_f32,         \
    .f32_to_bf16 = f32_to_bf16                                                              \
  }
