/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise operators of one tensor, and casts. */
#include <math.h>
#include <string.h>

#include "backend/native/op_list.h"
#include "backend/native/op_types.h"
#include "kernels/elementwise.h"

static weft_status no_type(wf_op_call *c, wf_dtype t, weft_error *err) {
  return wf_op_fail(c, err, WEFT_UNSUPPORTED, "elements of type %s", wf_dtype_name(t));
}

static weft_status like_input(wf_op_call *c, wf_dtype dtype, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  return wf_op_make(c, 0, dtype, c->in[0]->rank, c->in[0]->dims, err);
}

/* ---- functions of floats
 * ------------------------------------------------------------------------------- */

typedef double scalar_fn(double x, double alpha, double beta);

static double f_reciprocal(double x, double a, double b) {
  (void)a;
  (void)b;
  return 1 / x;
}
static double f_sqrt(double x, double a, double b) {
  (void)a;
  (void)b;
  return sqrt(x);
}
static double f_exp(double x, double a, double b) {
  (void)a;
  (void)b;
  return exp(x);
}
static double f_log(double x, double a, double b) {
  (void)a;
  (void)b;
  return log(x);
}
static double f_erf(double x, double a, double b) {
  (void)a;
  (void)b;
  return erf(x);
}
static double f_tanh(double x, double a, double b) {
  (void)a;
  (void)b;
  return tanh(x);
}
static double f_sigmoid(double x, double a, double b) {
  (void)a;
  (void)b;
  return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}
static double f_sin(double x, double a, double b) {
  (void)a;
  (void)b;
  return sin(x);
}
static double f_cos(double x, double a, double b) {
  (void)a;
  (void)b;
  return cos(x);
}
static double f_floor(double x, double a, double b) {
  (void)a;
  (void)b;
  return floor(x);
}
static double f_ceil(double x, double a, double b) {
  (void)a;
  (void)b;
  return ceil(x);
}
static double f_round(double x, double a, double b) {
  (void)a;
  (void)b;
  return nearbyint(x);
}
static double f_softplus(double x, double a, double b) {
  (void)a;
  (void)b;
  return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
static double f_leaky(double x, double a, double b) {
  (void)b;
  return x < 0 ? a * x : x;
}
static double f_elu(double x, double a, double b) {
  (void)b;
  return x < 0 ? a * expm1(x) : x;
}
static double f_swish(double x, double a, double b) { return x * f_sigmoid(a * x, 0, b); }
static double f_gelu_erf(double x, double a, double b) {
  (void)a;
  (void)b;
  return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
}
static double f_gelu_tanh(double x, double a, double b) {
  (void)a;
  (void)b;
  return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static weft_status run_float(wf_op_call *c, scalar_fn *fn, double alpha, weft_error *err) {
  WF_RETURN_IF_ERROR(like_input(c, c->n_in && c->in[0] ? c->in[0]->dtype : WF_DTYPE_F32, err));
  const wf_view *x = c->in[0];
  const int64_t n = wf_view_count(x);
  if (x->dtype == WF_DTYPE_F32) {
    const float *a = x->data;
    float *y = c->out[0].data;
    for (int64_t i = 0; i < n; i++) y[i] = (float)fn((double)a[i], alpha, 0);
  } else if (x->dtype == WF_DTYPE_F64) {
    const double *a = x->data;
    double *y = c->out[0].data;
    for (int64_t i = 0; i < n; i++) y[i] = fn(a[i], alpha, 0);
  } else {
    return no_type(c, x->dtype, err);
  }
  return WEFT_OK;
}

/* fp32 takes the vector kernel, anything else the plain function. */
static weft_status run_kernel(wf_op_call *c, wf_unary_fn fast, scalar_fn *fn, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  if (c->in[0]->dtype != WF_DTYPE_F32) return run_float(c, fn, 0, err);
  WF_RETURN_IF_ERROR(like_input(c, WF_DTYPE_F32, err));
  wf_unary_f32(c->env->level, fast, wf_view_count(c->in[0]), c->in[0]->data, c->out[0].data);
  return WEFT_OK;
}

weft_status wf_op_sqrt(wf_op_call *c, weft_error *err) {
  return run_kernel(c, WF_FN_SQRT, f_sqrt, err);
}
weft_status wf_op_reciprocal(wf_op_call *c, weft_error *err) {
  return run_kernel(c, WF_FN_RECIPROCAL, f_reciprocal, err);
}
weft_status wf_op_exp(wf_op_call *c, weft_error *err) {
  return run_kernel(c, WF_FN_EXP, f_exp, err);
}
weft_status wf_op_log(wf_op_call *c, weft_error *err) {
  return run_kernel(c, WF_FN_LOG, f_log, err);
}
weft_status wf_op_erf(wf_op_call *c, weft_error *err) {
  return run_kernel(c, WF_FN_ERF, f_erf, err);
}
weft_status wf_op_tanh(wf_op_call *c, weft_error *err) {
  return run_kernel(c, WF_FN_TANH, f_tanh, err);
}
weft_status wf_op_sigmoid(wf_op_call *c, weft_error *err) {
  return run_kernel(c, WF_FN_SIGMOID, f_sigmoid, err);
}
weft_status wf_op_sin(wf_op_call *c, weft_error *err) { return run_float(c, f_sin, 0, err); }
weft_status wf_op_cos(wf_op_call *c, weft_error *err) { return run_float(c, f_cos, 0, err); }
weft_status wf_op_floor(wf_op_call *c, weft_error *err) { return run_float(c, f_floor, 0, err); }
weft_status wf_op_ceil(wf_op_call *c, weft_error *err) { return run_float(c, f_ceil, 0, err); }
weft_status wf_op_round(wf_op_call *c, weft_error *err) { return run_float(c, f_round, 0, err); }
weft_status wf_op_softplus(wf_op_call *c, weft_error *err) {
  return run_float(c, f_softplus, 0, err);
}
weft_status wf_op_leaky_relu(wf_op_call *c, weft_error *err) {
  return run_float(c, f_leaky, (double)wf_node_attr_f(c->node, "alpha", 0.01F), err);
}
weft_status wf_op_elu(wf_op_call *c, weft_error *err) {
  return run_float(c, f_elu, (double)wf_node_attr_f(c->node, "alpha", 1), err);
}
weft_status wf_op_swish(wf_op_call *c, weft_error *err) {
  return run_float(c, f_swish, (double)wf_node_attr_f(c->node, "alpha", 1), err);
}
weft_status wf_op_gelu(wf_op_call *c, weft_error *err) {
  const bool is_tanh = wf_str_is(wf_node_attr_s(c->node, "approximate"), "tanh");
  return is_tanh ? run_kernel(c, WF_FN_GELU_TANH, f_gelu_tanh, err)
                 : run_kernel(c, WF_FN_GELU_ERF, f_gelu_erf, err);
}
weft_status wf_op_ms_gelu(wf_op_call *c, weft_error *err) {
  return run_kernel(c, WF_FN_GELU_ERF, f_gelu_erf, err);
}
weft_status wf_op_ms_quick_gelu(wf_op_call *c, weft_error *err) {
  return run_float(c, f_swish, (double)wf_node_attr_f(c->node, "alpha", 1.702F), err);
}

/* x plus a bias along the last axis, then an activation. */
static weft_status run_biased(wf_op_call *c, scalar_fn *fn, weft_error *err) {
  const wf_view *bias = wf_op_in(c, 1);
  if (!bias) return run_float(c, fn, 0, err);
  WF_RETURN_IF_ERROR(like_input(c, WF_DTYPE_F32, err));
  const wf_view *x = c->in[0];
  const int64_t n = wf_view_count(bias), total = wf_view_count(x);
  if (x->dtype != WF_DTYPE_F32 || bias->dtype != WF_DTYPE_F32 || x->rank < 1 ||
      x->dims[x->rank - 1] != n) {
    return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT, "the bias does not fit");
  }
  const float *a = x->data, *b = bias->data;
  float *y = c->out[0].data;
  for (int64_t i = 0; i < total; i++) y[i] = (float)fn((double)(a[i] + b[i % n]), 0, 0);
  return WEFT_OK;
}
weft_status wf_op_ms_fast_gelu(wf_op_call *c, weft_error *err) {
  return run_biased(c, f_gelu_tanh, err);
}
weft_status wf_op_ms_bias_gelu(wf_op_call *c, weft_error *err) {
  return run_biased(c, f_gelu_erf, err);
}

/* ---- functions of any number
 * --------------------------------------------------------------------------- */

weft_status wf_op_neg(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  WF_RETURN_IF_ERROR(like_input(c, c->in[0]->dtype, err));
  const int64_t n = wf_view_count(c->in[0]);
#define F(NAME, T)                                                                              \
  case WF_DTYPE_##NAME:                                                                         \
    for (int64_t i = 0; i < n; i++) ((T *)c->out[0].data)[i] = -((const T *)c->in[0]->data)[i]; \
    break;
#define I(NAME, T)                                                                  \
  case WF_DTYPE_##NAME:                                                             \
    for (int64_t i = 0; i < n; i++) {                                               \
      ((T *)c->out[0].data)[i] = (T)(0 - (uint64_t)((const T *)c->in[0]->data)[i]); \
    }                                                                               \
    break;
  switch ((int)c->in[0]->dtype) {
    WF_FLOAT_TYPES(F)
    WF_INT_TYPES(I)
    default:
      return no_type(c, c->in[0]->dtype, err);
  }
#undef I
#undef F
  return WEFT_OK;
}

weft_status wf_op_abs(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  WF_RETURN_IF_ERROR(like_input(c, c->in[0]->dtype, err));
  const int64_t n = wf_view_count(c->in[0]);
#define F(NAME, T)                                                                \
  case WF_DTYPE_##NAME:                                                           \
    for (int64_t i = 0; i < n; i++) {                                             \
      ((T *)c->out[0].data)[i] = (T)fabs((double)((const T *)c->in[0]->data)[i]); \
    }                                                                             \
    break;
#define I(NAME, T)                                                              \
  case WF_DTYPE_##NAME:                                                         \
    for (int64_t i = 0; i < n; i++) {                                           \
      const T x = ((const T *)c->in[0]->data)[i];                               \
      ((T *)c->out[0].data)[i] = x < (T)1 && x != 0 ? (T)(0 - (uint64_t)x) : x; \
    }                                                                           \
    break;
  switch ((int)c->in[0]->dtype) {
    WF_FLOAT_TYPES(F)
    WF_INT_TYPES(I)
    default:
      return no_type(c, c->in[0]->dtype, err);
  }
#undef I
#undef F
  return WEFT_OK;
}

weft_status wf_op_sign(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  WF_RETURN_IF_ERROR(like_input(c, c->in[0]->dtype, err));
  const int64_t n = wf_view_count(c->in[0]);
#define S(NAME, T)                                                                  \
  case WF_DTYPE_##NAME:                                                             \
    for (int64_t i = 0; i < n; i++) {                                               \
      const T x = ((const T *)c->in[0]->data)[i];                                   \
      ((T *)c->out[0].data)[i] = x != x ? x : x > 0 ? (T)1 : x == 0 ? (T)0 : (T)-1; \
    }                                                                               \
    break;
  switch ((int)c->in[0]->dtype) {
    WF_NUMBER_TYPES(S)
    default:
      return no_type(c, c->in[0]->dtype, err);
  }
#undef S
  return WEFT_OK;
}

weft_status wf_op_relu(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  WF_RETURN_IF_ERROR(like_input(c, c->in[0]->dtype, err));
  const int64_t n = wf_view_count(c->in[0]);
#define R(NAME, T)                                           \
  case WF_DTYPE_##NAME:                                      \
    for (int64_t i = 0; i < n; i++) {                        \
      const T x = ((const T *)c->in[0]->data)[i];            \
      ((T *)c->out[0].data)[i] = x != x || x > 0 ? x : (T)0; \
    }                                                        \
    break;
  switch ((int)c->in[0]->dtype) {
    WF_NUMBER_TYPES(R)
    default:
      return no_type(c, c->in[0]->dtype, err);
  }
#undef R
  return WEFT_OK;
}

/* min and max are inputs since opset 11, attributes before. */
weft_status wf_op_clip(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  WF_RETURN_IF_ERROR(like_input(c, c->in[0]->dtype, err));
  const int64_t n = wf_view_count(c->in[0]);
  const wf_view *low = wf_op_in(c, 1), *high = wf_op_in(c, 2);
  if ((low && (low->dtype != c->in[0]->dtype || wf_view_count(low) != 1)) ||
      (high && (high->dtype != c->in[0]->dtype || wf_view_count(high) != 1))) {
    return wf_op_fail(c, err, WEFT_PACKAGE_INVALID, "bounds must be one element of x's type");
  }
  const bool has_low = low || wf_node_attr(c->node, "min");
  const bool has_high = high || wf_node_attr(c->node, "max");
#define C(NAME, T)                                                                    \
  case WF_DTYPE_##NAME: {                                                             \
    const T l = low ? *(const T *)low->data : (T)wf_node_attr_f(c->node, "min", 0);   \
    const T h = high ? *(const T *)high->data : (T)wf_node_attr_f(c->node, "max", 0); \
    for (int64_t i = 0; i < n; i++) {                                                 \
      T x = ((const T *)c->in[0]->data)[i];                                           \
      if (has_low && x < l) x = l;                                                    \
      if (has_high && x > h) x = h;                                                   \
      ((T *)c->out[0].data)[i] = x;                                                   \
    }                                                                                 \
    break;                                                                            \
  }
  switch ((int)c->in[0]->dtype) {
    WF_NUMBER_TYPES(C)
    default:
      return no_type(c, c->in[0]->dtype, err);
  }
#undef C
  return WEFT_OK;
}

weft_status wf_op_not(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  WF_RETURN_IF_ERROR(like_input(c, WF_DTYPE_BOOL, err));
  const uint8_t *x = c->in[0]->data;
  uint8_t *y = c->out[0].data;
  for (int64_t i = 0, n = wf_view_count(c->in[0]); i < n; i++) y[i] = !x[i];
  return WEFT_OK;
}

weft_status wf_op_bitwise_not(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  if (!wf_dtype_is_int(c->in[0]->dtype)) return no_type(c, c->in[0]->dtype, err);
  WF_RETURN_IF_ERROR(like_input(c, c->in[0]->dtype, err));
  const uint8_t *x = c->in[0]->data;
  uint8_t *y = c->out[0].data;
  const size_t n = (size_t)wf_view_count(c->in[0]) * wf_held_bytes(c->in[0]->dtype);
  for (size_t i = 0; i < n; i++) y[i] = (uint8_t)~x[i];
  return WEFT_OK;
}

static weft_status run_test(wf_op_call *c, bool is_inf, weft_error *err) {
  WF_RETURN_IF_ERROR(like_input(c, WF_DTYPE_BOOL, err));
  const wf_view *x = c->in[0];
  const bool plus = wf_node_attr_i(c->node, "detect_positive", 1) != 0;
  const bool minus = wf_node_attr_i(c->node, "detect_negative", 1) != 0;
  uint8_t *y = c->out[0].data;
  for (int64_t i = 0, n = wf_view_count(x); i < n; i++) {
    double v = 0;
    if (x->dtype == WF_DTYPE_F32) {
      v = (double)((const float *)x->data)[i];
    } else if (x->dtype == WF_DTYPE_F64) {
      v = ((const double *)x->data)[i];
    } else {
      return no_type(c, x->dtype, err);
    }
    y[i] = (is_inf ? isinf(v) && (v > 0 ? plus : minus) : isnan(v)) ? 1 : 0;
  }
  return WEFT_OK;
}
weft_status wf_op_is_nan(wf_op_call *c, weft_error *err) { return run_test(c, false, err); }
weft_status wf_op_is_inf(wf_op_call *c, weft_error *err) { return run_test(c, true, err); }

/* ---- casts
 * ------------------------------------------------------------------------------------------------
 */

/* Floats to integers: toward zero; what does not fit wraps as x86 compilers do, within 64 bits. */
static int64_t float_to_int(double v) {
  if (v != v) return 0;
  if (v >= 9223372036854775807.0) return INT64_MAX;
  if (v <= -9223372036854775808.0) return INT64_MIN;
  return (int64_t)v;
}

#define FROM_FLOAT(NAME, T)                                                             \
  static void from_##NAME(const T *x, int64_t n, wf_dtype to, void *y) {                \
    for (int64_t i = 0; i < n; i++) {                                                   \
      const double v = (double)x[i];                                                    \
      switch ((int)to) {                                                                \
        case WF_DTYPE_F32:                                                              \
          ((float *)y)[i] = (float)x[i];                                                \
          break;                                                                        \
        case WF_DTYPE_F64:                                                              \
          ((double *)y)[i] = v;                                                         \
          break;                                                                        \
        case WF_DTYPE_BOOL:                                                             \
          ((uint8_t *)y)[i] = v != 0;                                                   \
          break;                                                                        \
        case WF_DTYPE_I8:                                                               \
          ((int8_t *)y)[i] = (int8_t)float_to_int(v);                                   \
          break;                                                                        \
        case WF_DTYPE_U8:                                                               \
          ((uint8_t *)y)[i] = (uint8_t)float_to_int(v);                                 \
          break;                                                                        \
        case WF_DTYPE_I16:                                                              \
          ((int16_t *)y)[i] = (int16_t)float_to_int(v);                                 \
          break;                                                                        \
        case WF_DTYPE_U16:                                                              \
          ((uint16_t *)y)[i] = (uint16_t)float_to_int(v);                               \
          break;                                                                        \
        case WF_DTYPE_I32:                                                              \
          ((int32_t *)y)[i] = (int32_t)float_to_int(v);                                 \
          break;                                                                        \
        case WF_DTYPE_U32:                                                              \
          ((uint32_t *)y)[i] = (uint32_t)float_to_int(v);                               \
          break;                                                                        \
        case WF_DTYPE_U64:                                                              \
          ((uint64_t *)y)[i] = v >= 9223372036854775808.0 && v < 18446744073709551616.0 \
                                   ? (uint64_t)v                                        \
                                   : (uint64_t)float_to_int(v);                         \
          break;                                                                        \
        default:                                                                        \
          ((int64_t *)y)[i] = float_to_int(v);                                          \
          break;                                                                        \
      }                                                                                 \
    }                                                                                   \
  }
WF_FLOAT_TYPES(FROM_FLOAT)

#define FROM_INT(NAME, T)                                                \
  static void from_##NAME(const T *x, int64_t n, wf_dtype to, void *y) { \
    for (int64_t i = 0; i < n; i++) {                                    \
      switch ((int)to) {                                                 \
        case WF_DTYPE_F32:                                               \
          ((float *)y)[i] = (float)x[i];                                 \
          break;                                                         \
        case WF_DTYPE_F64:                                               \
          ((double *)y)[i] = (double)x[i];                               \
          break;                                                         \
        case WF_DTYPE_BOOL:                                              \
          ((uint8_t *)y)[i] = x[i] != 0;                                 \
          break;                                                         \
        case WF_DTYPE_I8:                                                \
          ((int8_t *)y)[i] = (int8_t)x[i];                               \
          break;                                                         \
        case WF_DTYPE_U8:                                                \
          ((uint8_t *)y)[i] = (uint8_t)x[i];                             \
          break;                                                         \
        case WF_DTYPE_I16:                                               \
          ((int16_t *)y)[i] = (int16_t)x[i];                             \
          break;                                                         \
        case WF_DTYPE_U16:                                               \
          ((uint16_t *)y)[i] = (uint16_t)x[i];                           \
          break;                                                         \
        case WF_DTYPE_I32:                                               \
          ((int32_t *)y)[i] = (int32_t)x[i];                             \
          break;                                                         \
        case WF_DTYPE_U32:                                               \
          ((uint32_t *)y)[i] = (uint32_t)x[i];                           \
          break;                                                         \
        case WF_DTYPE_U64:                                               \
          ((uint64_t *)y)[i] = (uint64_t)x[i];                           \
          break;                                                         \
        default:                                                         \
          ((int64_t *)y)[i] = (int64_t)x[i];                             \
          break;                                                         \
      }                                                                  \
    }                                                                    \
  }
WF_INT_TYPES(FROM_INT)

/* Values of a 4- or 2-bit type keep to its range by wrapping, as numpy's casts do. */
static void wrap_narrow(wf_dtype stored, int64_t n, void *y) {
  const int bits = wf_dtype_bits(stored);
  if (bits != 4 && bits != 2) return;
  const int mask = (1 << bits) - 1, top = 1 << (bits - 1);
  for (int64_t i = 0; i < n; i++) {
    uint8_t *p = (uint8_t *)y + i;
    int v = *p & mask;
    if (wf_dtype_is_signed(stored) && v >= top) v -= 2 * top;
    *p = (uint8_t)v;
  }
}

static weft_status cast_to(wf_op_call *c, wf_dtype stored, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_dtype to = wf_dtype_held(stored);
  const wf_view *x = c->in[0];
  if (wf_held_bytes(to) == 0) return no_type(c, stored, err);
  if (to == x->dtype && wf_dtype_bits(stored) >= 8) {
    wf_op_alias(c, 0, 0, x->rank, x->dims);
    return WEFT_OK;
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, to, x->rank, x->dims, err));
  const int64_t n = wf_view_count(x);
  switch ((int)(x->dtype == WF_DTYPE_BOOL ? WF_DTYPE_U8 : x->dtype)) {
#define CASE(NAME, T)                            \
  case WF_DTYPE_##NAME:                          \
    from_##NAME(x->data, n, to, c->out[0].data); \
    break;
    WF_NUMBER_TYPES(CASE)
#undef CASE
    default:
      return no_type(c, x->dtype, err);
  }
  wrap_narrow(stored, n, c->out[0].data);
  return WEFT_OK;
}

weft_status wf_op_cast(wf_op_call *c, weft_error *err) {
  return cast_to(c, (wf_dtype)wf_node_attr_i(c->node, "to", 0), err);
}
weft_status wf_op_cast_like(wf_op_call *c, weft_error *err) {
  /* The type as stored is the output's; the held type of the second input has lost it. */
  const wf_value *v = wf_graph_value(c->graph, wf_node_output(c->node, 0));
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  return cast_to(c, v && v->dtype != WF_DTYPE_UNDEFINED ? v->dtype : c->in[1]->dtype, err);
}

/* ---- internal
 * ------------------------------------------------------------------------------------------------
 */

static weft_status unary_kind(wf_op_call *c, const wf_view *x, const wf_unary_params *p, float *y,
                              weft_error *err) {
  const int64_t n = wf_view_count(x);
  const float *a = x->data;
  if (x->dtype != WF_DTYPE_F32) return no_type(c, x->dtype, err);
  switch (p->kind) {
    case WF_UNARY_SILU:
      wf_unary_f32(c->env->level, WF_FN_SILU, n, a, y);
      break;
    case WF_UNARY_GELU_ERF:
      wf_unary_f32(c->env->level, WF_FN_GELU_ERF, n, a, y);
      break;
    case WF_UNARY_GELU_TANH:
      wf_unary_f32(c->env->level, WF_FN_GELU_TANH, n, a, y);
      break;
    case WF_UNARY_RELU:
      wf_unary_f32(c->env->level, WF_FN_RELU, n, a, y);
      break;
    case WF_UNARY_SIGMOID_ALPHA:
      for (int64_t i = 0; i < n; i++) y[i] = (float)f_swish((double)a[i], (double)p->alpha, 0);
      break;
    case WF_UNARY_RELU2:
      for (int64_t i = 0; i < n; i++) y[i] = a[i] > 0 ? a[i] * a[i] : a[i] != a[i] ? a[i] : 0;
      break;
  }
  return WEFT_OK;
}

weft_status wf_op_weft_unary(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(like_input(c, WF_DTYPE_F32, err));
  return unary_kind(c, c->in[0], &c->node->as.unary, c->out[0].data, err);
}

weft_status wf_op_weft_glu(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  WF_RETURN_IF_ERROR(like_input(c, WF_DTYPE_F32, err));
  const wf_view *up = c->in[1];
  if (up->dtype != WF_DTYPE_F32 || wf_view_count(up) != wf_view_count(c->in[0])) {
    return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT, "gate and up differ in shape");
  }
  float *y = c->out[0].data;
  WF_RETURN_IF_ERROR(unary_kind(c, c->in[0], &c->node->as.unary, y, err));
  wf_binary_f32(c->env->level, WF_BINARY_MUL, wf_view_count(up), y, 1, up->data, 1, y);
  return WEFT_OK;
}
