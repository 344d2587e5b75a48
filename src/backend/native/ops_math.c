/* SPDX-License-Identifier: Apache-2.0 */
/* Element-wise operators of two or more tensors: arithmetic, comparison, logic, bits, choice. */
#include <math.h>
#include <string.h>

#include "backend/native/op_list.h"
#include "backend/native/op_types.h"
#include "kernels/elementwise.h"

typedef enum arith { ADD, SUB, MUL, DIV, MIN, MAX, POW, MOD, FMOD } arith;
typedef enum compare { EQ, GT, LT, GE, LE } compare;
typedef enum bits { BAND, BOR, BXOR, SHL, SHR } bits;

/* ---- per type
 * -------------------------------------------------------------------------------------- */

#define EACH(expr)                           \
  for (int64_t i = 0; i < n; i++) {          \
    const type x = a[i * sa], z = b[i * sb]; \
    y[i] = (type)(expr);                     \
  }                                          \
  break

/* Python's sign rule for Mod, C's for fmod = 1. */
static double mod_f64(double x, double z) {
  const double r = fmod(x, z);
  return r != 0 && (r < 0) != (z < 0) ? r + z : r;
}

#define FLOAT_ARITH(NAME, T)                                                                    \
  static void arith_##NAME(arith op, int64_t n, const T *a, int64_t sa, const T *b, int64_t sb, \
                           T *y) {                                                              \
    typedef T type;                                                                             \
    switch (op) {                                                                               \
      case ADD:                                                                                 \
        EACH(x + z);                                                                            \
      case SUB:                                                                                 \
        EACH(x - z);                                                                            \
      case MUL:                                                                                 \
        EACH(x *z);                                                                             \
      case DIV:                                                                                 \
        EACH(x / z);                                                                            \
      case MIN:                                                                                 \
        EACH(x != x || x < z ? x : z);                                                          \
      case MAX:                                                                                 \
        EACH(x != x || x > z ? x : z);                                                          \
      case POW:                                                                                 \
        EACH(pow((double)x, (double)z));                                                        \
      case MOD:                                                                                 \
        EACH(mod_f64((double)x, (double)z));                                                    \
      case FMOD:                                                                                \
        EACH(fmod((double)x, (double)z));                                                       \
    }                                                                                           \
  }
WF_FLOAT_TYPES(FLOAT_ARITH)

static uint64_t int_pow(uint64_t base, uint64_t n) {
  uint64_t r = 1;
  for (; n; n >>= 1, base *= base) {
    if (n & 1) r *= base;
  }
  return r;
}

/* Sums and products wrap, as two's complement does; a division by zero gives zero. */
#define INT_ARITH(NAME, T)                                                                      \
  static T div_##NAME(T x, T z) {                                                               \
    if (z == 0) return 0;                                                                       \
    if (WF_IS_SIGNED(T) && z == (T)-1) return (T)(0 - (uint64_t)x);                             \
    return (T)(x / z);                                                                          \
  }                                                                                             \
  static T rem_##NAME(T x, T z, bool c_sign) {                                                  \
    if (z == 0 || (WF_IS_SIGNED(T) && z == (T)-1)) return 0;                                    \
    const T r = (T)(x % z);                                                                     \
    return !c_sign && r != 0 && ((T)(r ^ z) < (T)1 && WF_IS_SIGNED(T)) ? (T)(r + z) : r;        \
  }                                                                                             \
  static void arith_##NAME(arith op, int64_t n, const T *a, int64_t sa, const T *b, int64_t sb, \
                           T *y) {                                                              \
    typedef T type;                                                                             \
    switch (op) {                                                                               \
      case ADD:                                                                                 \
        EACH((uint64_t)x + (uint64_t)z);                                                        \
      case SUB:                                                                                 \
        EACH((uint64_t)x - (uint64_t)z);                                                        \
      case MUL:                                                                                 \
        EACH((uint64_t)x *(uint64_t)z);                                                         \
      case DIV:                                                                                 \
        EACH(div_##NAME(x, z));                                                                 \
      case MIN:                                                                                 \
        EACH(x < z ? x : z);                                                                    \
      case MAX:                                                                                 \
        EACH(x > z ? x : z);                                                                    \
      case POW:                                                                                 \
        EACH(WF_IS_SIGNED(T) && z < (T)1 && z != 0 ? (uint64_t)(x == 1)                         \
                                                   : int_pow((uint64_t)x, (uint64_t)z));        \
      case MOD:                                                                                 \
        EACH(rem_##NAME(x, z, false));                                                          \
      case FMOD:                                                                                \
        EACH(rem_##NAME(x, z, true));                                                           \
    }                                                                                           \
  }
WF_INT_TYPES(INT_ARITH)
#undef EACH

#define EACH(expr)                           \
  for (int64_t i = 0; i < n; i++) {          \
    const type x = a[i * sa], z = b[i * sb]; \
    y[i] = (uint8_t)(expr);                  \
  }                                          \
  break
#define COMPARE(NAME, T)                                                                \
  static void compare_##NAME(compare op, int64_t n, const T *a, int64_t sa, const T *b, \
                             int64_t sb, uint8_t *y) {                                  \
    typedef T type;                                                                     \
    switch (op) {                                                                       \
      case EQ:                                                                          \
        EACH(x == z);                                                                   \
      case GT:                                                                          \
        EACH(x > z);                                                                    \
      case LT:                                                                          \
        EACH(x < z);                                                                    \
      case GE:                                                                          \
        EACH(x >= z);                                                                   \
      case LE:                                                                          \
        EACH(x <= z);                                                                   \
    }                                                                                   \
  }
WF_NUMBER_TYPES(COMPARE)
#undef EACH

#define EACH(expr)                           \
  for (int64_t i = 0; i < n; i++) {          \
    const type x = a[i * sa], z = b[i * sb]; \
    y[i] = (type)(expr);                     \
  }                                          \
  break
#define BITS(NAME, T)                                                                         \
  static void bits_##NAME(bits op, int64_t n, const T *a, int64_t sa, const T *b, int64_t sb, \
                          T *y) {                                                             \
    typedef T type;                                                                           \
    switch (op) {                                                                             \
      case BAND:                                                                              \
        EACH(x &z);                                                                           \
      case BOR:                                                                               \
        EACH(x | z);                                                                          \
      case BXOR:                                                                              \
        EACH(x ^ z);                                                                          \
      case SHL:                                                                               \
        EACH((uint64_t)z >= 8 * sizeof(T) ? 0 : (uint64_t)x << (uint64_t)z);                  \
      case SHR:                                                                               \
        EACH((uint64_t)z < 8 * sizeof(T)        ? (type)(x >> (uint64_t)z)                    \
             : WF_IS_SIGNED(T) && x < (T)1 && x ? (type)-1                                    \
                                                : (type)0);                                   \
    }                                                                                         \
  }
WF_INT_TYPES(BITS)
#undef EACH

/* ---- operators
 * ----------------------------------------------------------------------------------------- */

static weft_status two(wf_op_call *c, wf_view *shape, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  *shape = (wf_view){0};
  WF_RETURN_IF_ERROR(wf_op_broadcast(c, c->in[0], &shape->rank, shape->dims, err));
  WF_RETURN_IF_ERROR(wf_op_broadcast(c, c->in[1], &shape->rank, shape->dims, err));
  return WEFT_OK;
}

static weft_status same_types(wf_op_call *c, weft_error *err) {
  if (c->in[0]->dtype != c->in[1]->dtype) {
    return wf_op_fail(c, err, WEFT_PACKAGE_INVALID, "operands of types %s and %s",
                      wf_dtype_name(c->in[0]->dtype), wf_dtype_name(c->in[1]->dtype));
  }
  return WEFT_OK;
}

static weft_status no_type(wf_op_call *c, wf_dtype t, weft_error *err) {
  return wf_op_fail(c, err, WEFT_UNSUPPORTED, "elements of type %s", wf_dtype_name(t));
}

static bool fast_op(arith op, wf_binary_op *fast) {
  switch (op) {
    case ADD:
      *fast = WF_BINARY_ADD;
      return true;
    case SUB:
      *fast = WF_BINARY_SUB;
      return true;
    case MUL:
      *fast = WF_BINARY_MUL;
      return true;
    case DIV:
      *fast = WF_BINARY_DIV;
      return true;
    case MIN:
    case MAX:
    case POW:
    case MOD:
    case FMOD:
      break;
  }
  return false;
}

/* y = a op b over their broadcast shape; y may be a when the shapes are equal. */
static weft_status arith_views(wf_op_call *c, arith op, const wf_view *a, const wf_view *b,
                               const wf_view *y, weft_error *err) {
  const wf_view *const operands[2] = {a, b};
  wf_binary_op fast = WF_BINARY_ADD;
  wf_walk w;
  wf_walk_begin(&w, y->rank, y->dims, 2, operands);
  if (w.is_done) return WEFT_OK;
  int64_t at = 0;
  do {
    switch ((int)y->dtype) {
      case WF_DTYPE_F32:
        if (fast_op(op, &fast)) {
          wf_binary_f32(c->env->level, fast, w.run, (const float *)a->data + w.at[0], w.steps[0],
                        (const float *)b->data + w.at[1], w.steps[1], (float *)y->data + at);
        } else {
          arith_F32(op, w.run, (const float *)a->data + w.at[0], w.steps[0],
                    (const float *)b->data + w.at[1], w.steps[1], (float *)y->data + at);
        }
        break;
#define CASE(NAME, T)                                                          \
  case WF_DTYPE_##NAME:                                                        \
    arith_##NAME(op, w.run, (const T *)a->data + w.at[0], w.steps[0],          \
                 (const T *)b->data + w.at[1], w.steps[1], (T *)y->data + at); \
    break;
        CASE(F64, double)
        WF_INT_TYPES(CASE)
#undef CASE
      default:
        return no_type(c, y->dtype, err);
    }
    at += w.run;
  } while (wf_walk_next(&w));
  return WEFT_OK;
}

static weft_status run_arith(wf_op_call *c, arith op, weft_error *err) {
  wf_view shape;
  WF_RETURN_IF_ERROR(two(c, &shape, err));
  WF_RETURN_IF_ERROR(same_types(c, err));
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, c->in[0]->dtype, shape.rank, shape.dims, err));
  return arith_views(c, op, c->in[0], c->in[1], &c->out[0], err);
}

weft_status wf_op_add(wf_op_call *c, weft_error *err) { return run_arith(c, ADD, err); }
weft_status wf_op_sub(wf_op_call *c, weft_error *err) { return run_arith(c, SUB, err); }
weft_status wf_op_mul(wf_op_call *c, weft_error *err) { return run_arith(c, MUL, err); }
weft_status wf_op_div(wf_op_call *c, weft_error *err) { return run_arith(c, DIV, err); }
weft_status wf_op_mod(wf_op_call *c, weft_error *err) {
  return run_arith(c, wf_node_attr_i(c->node, "fmod", 0) ? FMOD : MOD, err);
}

static double as_f64(const wf_view *v, int64_t i) {
  switch ((int)v->dtype) {
#define CASE(NAME, T)   \
  case WF_DTYPE_##NAME: \
    return (double)((const T *)v->data)[i];
    WF_NUMBER_TYPES(CASE)
#undef CASE
    default:
      return 0;
  }
}

/* The exponent may have a type of its own. */
weft_status wf_op_pow(wf_op_call *c, weft_error *err) {
  wf_view shape;
  WF_RETURN_IF_ERROR(two(c, &shape, err));
  const wf_view *a = c->in[0], *b = c->in[1];
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, a->dtype, shape.rank, shape.dims, err));
  if (a->dtype == b->dtype && a->dtype != WF_DTYPE_F32) {
    return arith_views(c, POW, a, b, &c->out[0], err);
  }
  const wf_view *const operands[2] = {a, b};
  wf_walk w;
  wf_walk_begin(&w, shape.rank, shape.dims, 2, operands);
  if (w.is_done) return WEFT_OK;
  int64_t at = 0;
  do {
    for (int64_t i = 0; i < w.run; i++, at++) {
      const double x = as_f64(a, w.at[0] + i * w.steps[0]), z = as_f64(b, w.at[1] + i * w.steps[1]);
      const double r = z == 2 ? x * x : pow(x, z);
      switch ((int)a->dtype) {
#define CASE(NAME, T)                 \
  case WF_DTYPE_##NAME:               \
    ((T *)c->out[0].data)[at] = (T)r; \
    break;
        WF_FLOAT_TYPES(CASE)
#undef CASE
#define CASE(NAME, T)                                                             \
  case WF_DTYPE_##NAME:                                                           \
    ((T *)c->out[0].data)[at] = r > -9.2e18 && r < 9.2e18 ? (T)(int64_t)r : (T)0; \
    break;
        WF_INT_TYPES(CASE)
#undef CASE
        default:
          return no_type(c, a->dtype, err);
      }
    }
  } while (wf_walk_next(&w));
  return WEFT_OK;
}

/* Min, Max and Sum of any number of tensors. */
static weft_status run_variadic(wf_op_call *c, arith op, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, c->n_in > 0 ? c->n_in : 1, err));
  wf_view shape = {0};
  for (int32_t i = 0; i < c->n_in; i++) {
    if (c->in[i]->dtype != c->in[0]->dtype) return no_type(c, c->in[i]->dtype, err);
    WF_RETURN_IF_ERROR(wf_op_broadcast(c, c->in[i], &shape.rank, shape.dims, err));
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, c->in[0]->dtype, shape.rank, shape.dims, err));
  wf_view *y = &c->out[0];
  if (c->n_in == 1) {
    memcpy(y->data, c->in[0]->data, (size_t)wf_view_count(y) * wf_held_bytes(y->dtype));
    return WEFT_OK;
  }
  WF_RETURN_IF_ERROR(arith_views(c, op, c->in[0], c->in[1], y, err));
  for (int32_t i = 2; i < c->n_in; i++) {
    WF_RETURN_IF_ERROR(arith_views(c, op, y, c->in[i], y, err));
  }
  return WEFT_OK;
}
weft_status wf_op_min(wf_op_call *c, weft_error *err) { return run_variadic(c, MIN, err); }
weft_status wf_op_max(wf_op_call *c, weft_error *err) { return run_variadic(c, MAX, err); }
weft_status wf_op_sum(wf_op_call *c, weft_error *err) { return run_variadic(c, ADD, err); }

static weft_status run_compare(wf_op_call *c, compare op, weft_error *err) {
  wf_view shape;
  WF_RETURN_IF_ERROR(two(c, &shape, err));
  WF_RETURN_IF_ERROR(same_types(c, err));
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_BOOL, shape.rank, shape.dims, err));
  const wf_view *a = c->in[0], *b = c->in[1];
  const wf_view *const operands[2] = {a, b};
  uint8_t *y = c->out[0].data;
  wf_walk w;
  wf_walk_begin(&w, shape.rank, shape.dims, 2, operands);
  if (w.is_done) return WEFT_OK;
  do {
    switch ((int)a->dtype == WF_DTYPE_BOOL ? WF_DTYPE_U8 : (int)a->dtype) {
#define CASE(NAME, T)                                                   \
  case WF_DTYPE_##NAME:                                                 \
    compare_##NAME(op, w.run, (const T *)a->data + w.at[0], w.steps[0], \
                   (const T *)b->data + w.at[1], w.steps[1], y);        \
    break;
      WF_NUMBER_TYPES(CASE)
#undef CASE
      default:
        return no_type(c, a->dtype, err);
    }
    y += w.run;
  } while (wf_walk_next(&w));
  return WEFT_OK;
}
weft_status wf_op_equal(wf_op_call *c, weft_error *err) { return run_compare(c, EQ, err); }
weft_status wf_op_greater(wf_op_call *c, weft_error *err) { return run_compare(c, GT, err); }
weft_status wf_op_less(wf_op_call *c, weft_error *err) { return run_compare(c, LT, err); }
weft_status wf_op_greater_or_equal(wf_op_call *c, weft_error *err) {
  return run_compare(c, GE, err);
}
weft_status wf_op_less_or_equal(wf_op_call *c, weft_error *err) { return run_compare(c, LE, err); }

static weft_status run_bits(wf_op_call *c, bits op, bool is_logic, weft_error *err) {
  wf_view shape;
  WF_RETURN_IF_ERROR(two(c, &shape, err));
  WF_RETURN_IF_ERROR(same_types(c, err));
  const wf_view *a = c->in[0], *b = c->in[1];
  if (is_logic != (a->dtype == WF_DTYPE_BOOL)) return no_type(c, a->dtype, err);
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, a->dtype, shape.rank, shape.dims, err));
  const wf_view *const operands[2] = {a, b};
  wf_walk w;
  wf_walk_begin(&w, shape.rank, shape.dims, 2, operands);
  if (w.is_done) return WEFT_OK;
  int64_t at = 0;
  do {
    switch ((int)(is_logic ? WF_DTYPE_U8 : a->dtype)) {
#define CASE(NAME, T)                                                                              \
  case WF_DTYPE_##NAME:                                                                            \
    bits_##NAME(op, w.run, (const T *)a->data + w.at[0], w.steps[0], (const T *)b->data + w.at[1], \
                w.steps[1], (T *)c->out[0].data + at);                                             \
    break;
      WF_INT_TYPES(CASE)
#undef CASE
      default:
        return no_type(c, a->dtype, err);
    }
    at += w.run;
  } while (wf_walk_next(&w));
  return WEFT_OK;
}
weft_status wf_op_and(wf_op_call *c, weft_error *err) { return run_bits(c, BAND, true, err); }
weft_status wf_op_or(wf_op_call *c, weft_error *err) { return run_bits(c, BOR, true, err); }
weft_status wf_op_xor(wf_op_call *c, weft_error *err) { return run_bits(c, BXOR, true, err); }
weft_status wf_op_bitwise_and(wf_op_call *c, weft_error *err) {
  return run_bits(c, BAND, false, err);
}
weft_status wf_op_bitwise_or(wf_op_call *c, weft_error *err) {
  return run_bits(c, BOR, false, err);
}
weft_status wf_op_bitwise_xor(wf_op_call *c, weft_error *err) {
  return run_bits(c, BXOR, false, err);
}
weft_status wf_op_bit_shift(wf_op_call *c, weft_error *err) {
  return run_bits(c, wf_str_is(wf_node_attr_s(c->node, "direction"), "LEFT") ? SHL : SHR, false,
                  err);
}

/* y = condition ? a : b, by size of the element: no arithmetic happens. */
weft_status wf_op_where(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 3, err));
  const wf_view *p = c->in[0], *a = c->in[1], *b = c->in[2];
  if (p->dtype != WF_DTYPE_BOOL || a->dtype != b->dtype) return no_type(c, p->dtype, err);
  wf_view shape = {0};
  for (int32_t i = 0; i < 3; i++) {
    WF_RETURN_IF_ERROR(wf_op_broadcast(c, c->in[i], &shape.rank, shape.dims, err));
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, a->dtype, shape.rank, shape.dims, err));
  const size_t elem = wf_held_bytes(a->dtype);
  wf_walk w;
  wf_walk_begin(&w, shape.rank, shape.dims, 3, c->in);
  if (w.is_done) return WEFT_OK;
  char *y = c->out[0].data;
  do {
    for (int64_t i = 0; i < w.run; i++, y += elem) {
      const bool first = ((const uint8_t *)p->data)[w.at[0] + i * w.steps[0]] != 0;
      const wf_view *v = first ? a : b;
      const int k = first ? 1 : 2;
      memcpy(y, (const char *)v->data + (size_t)(w.at[k] + i * w.steps[k]) * elem, elem);
    }
  } while (wf_walk_next(&w));
  return WEFT_OK;
}
