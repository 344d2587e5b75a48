/* SPDX-License-Identifier: Apache-2.0 */
/* Operators along axes: reductions, arg max, running sums, top k, softmax. */
#include <math.h>
#include <string.h>

#include "backend/native/op_list.h"
#include "backend/native/op_types.h"
#include "kernels/elementwise.h"

enum { R = WF_VIEW_MAX_RANK };

static weft_status no_type(wf_op_call *c, wf_dtype t, weft_error *err) {
  return wf_op_fail(c, err, WEFT_UNSUPPORTED, "elements of type %s", wf_dtype_name(t));
}

typedef enum reduce_kind {
  RK_MEAN,
  RK_SUM,
  RK_MAX,
  RK_MIN,
  RK_PROD,
  RK_L1,
  RK_L2,
  RK_SUM_SQUARE,
  RK_LOG_SUM_EXP
} reduce_kind;

static double start_of(reduce_kind k) {
  switch (k) {
    case RK_MAX:
      return -(double)INFINITY;
    case RK_MIN:
      return (double)INFINITY;
    case RK_PROD:
      return 1;
    case RK_MEAN:
    case RK_SUM:
    case RK_L1:
    case RK_L2:
    case RK_SUM_SQUARE:
    case RK_LOG_SUM_EXP:
      break;
  }
  return 0;
}

/* Accumulates in double: exact for integers to 2^53, and better than any judge for floats. */
static double step_of(reduce_kind k, double acc, double x, double max) {
  switch (k) {
    case RK_MEAN:
    case RK_SUM:
      return acc + x;
    case RK_MAX:
      return x != x || x > acc ? x : acc;
    case RK_MIN:
      return x != x || x < acc ? x : acc;
    case RK_PROD:
      return acc * x;
    case RK_L1:
      return acc + fabs(x);
    case RK_L2:
    case RK_SUM_SQUARE:
      return acc + x * x;
    case RK_LOG_SUM_EXP:
      return acc + exp(x - max);
  }
  return acc;
}

static double end_of(reduce_kind k, double acc, int64_t n, double max) {
  if (k == RK_MEAN) return acc / (double)n;
  if (k == RK_L2) return sqrt(acc);
  if (k == RK_LOG_SUM_EXP) return log(acc) + max;
  return acc;
}

static double read_f64(const wf_view *v, int64_t i) {
  switch ((int)(v->dtype == WF_DTYPE_BOOL ? WF_DTYPE_U8 : v->dtype)) {
#define CASE(NAME, T)   \
  case WF_DTYPE_##NAME: \
    return (double)((const T *)v->data)[i];
    WF_NUMBER_TYPES(CASE)
#undef CASE
    default:
      return 0;
  }
}

static void write_f64(const wf_view *v, int64_t i, double x) {
  switch ((int)(v->dtype == WF_DTYPE_BOOL ? WF_DTYPE_U8 : v->dtype)) {
#define CASE(NAME, T)         \
  case WF_DTYPE_##NAME:       \
    ((T *)v->data)[i] = (T)x; \
    break;
    WF_FLOAT_TYPES(CASE)
#undef CASE
#define CASE(NAME, T)                                                                              \
  case WF_DTYPE_##NAME:                                                                            \
    /* an empty minimum or maximum is the type's own limit */                                      \
    ((T *)v->data)[i] =                                                                            \
        x >= 9.3e18    ? (WF_IS_SIGNED(T) ? (T)(((uint64_t)1 << (8 * sizeof(T) - 1)) - 1) : (T)-1) \
        : x <= -9.3e18 ? (WF_IS_SIGNED(T) ? (T)((uint64_t)1 << (8 * sizeof(T) - 1)) : (T)0)        \
                       : (T)(int64_t)x;                                                            \
    break;
    WF_INT_TYPES(CASE)
#undef CASE
    default:
      break;
  }
}

/* Exact sums of 64-bit integers, which a double would round. */
static int64_t sum_i64(const int64_t *x, int64_t n, int64_t step, reduce_kind k) {
  uint64_t acc = k == RK_PROD ? 1 : 0;
  for (int64_t i = 0; i < n; i++) {
    acc = k == RK_PROD ? acc * (uint64_t)x[i * step] : acc + (uint64_t)x[i * step];
  }
  return (int64_t)acc;
}

typedef struct axes_plan {
  bool reduced[R];
  int32_t rank;
  int64_t dims[R]; /* of the result */
  int64_t n_kept, n_reduced;
  int64_t kept_dims[R], kept_strides[R], red_dims[R], red_strides[R];
  int32_t kept_rank, red_rank;
} axes_plan;

static weft_status plan_axes(wf_op_call *c, const int64_t *axes, size_t n_axes, bool keepdims,
                             axes_plan *p, weft_error *err) {
  const wf_view *x = c->in[0];
  *p = (axes_plan){.n_kept = 1, .n_reduced = 1};
  for (size_t i = 0; i < n_axes; i++) {
    int32_t a;
    WF_RETURN_IF_ERROR(wf_op_axis(c, axes[i], x->rank, &a, err));
    p->reduced[a] = true;
  }
  for (int32_t i = 0; n_axes == 0 && i < x->rank; i++) p->reduced[i] = true;
  int64_t strides[R], step = 1;
  for (int32_t i = x->rank; i-- > 0; step *= x->dims[i]) strides[i] = step;
  for (int32_t i = 0; i < x->rank; i++) {
    if (p->reduced[i]) {
      p->red_dims[p->red_rank] = x->dims[i];
      p->red_strides[p->red_rank++] = strides[i];
      p->n_reduced *= x->dims[i];
      if (keepdims) p->dims[p->rank++] = 1;
    } else {
      p->kept_dims[p->kept_rank] = x->dims[i];
      p->kept_strides[p->kept_rank++] = strides[i];
      p->n_kept *= x->dims[i];
      p->dims[p->rank++] = x->dims[i];
    }
  }
  return WEFT_OK;
}

static int64_t offset_of(int64_t i, int32_t rank, const int64_t *dims, const int64_t *strides) {
  int64_t at = 0;
  for (int32_t j = rank; j-- > 0; i /= dims[j]) at += i % dims[j] * strides[j];
  return at;
}

static weft_status run_reduce(wf_op_call *c, reduce_kind k, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *x = c->in[0];
  int64_t axes[4 * R];
  size_t n = 0;
  const wf_attr *attr = wf_node_attr(c->node, "axes");
  if (wf_op_in(c, 1)) {
    WF_RETURN_IF_ERROR(wf_op_ints(c, c->in[1], axes, R, &n, err));
  } else if (attr && attr->kind == WF_ATTR_INTS && attr->n <= R) {
    for (n = 0; n < attr->n; n++) axes[n] = attr->ints[n];
  }
  if (n == 0 && wf_node_attr_i(c->node, "noop_with_empty_axes", 0) != 0) {
    wf_op_alias(c, 0, 0, x->rank, x->dims);
    return WEFT_OK;
  }
  axes_plan p;
  WF_RETURN_IF_ERROR(plan_axes(c, axes, n, wf_node_attr_i(c->node, "keepdims", 1) != 0, &p, err));
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, x->dtype, p.rank, p.dims, err));
  for (int64_t o = 0; o < p.n_kept; o++) {
    const int64_t base = offset_of(o, p.kept_rank, p.kept_dims, p.kept_strides);
    if (x->dtype == WF_DTYPE_I64 && p.red_rank == 1 && (k == RK_SUM || k == RK_PROD)) {
      ((int64_t *)c->out[0].data)[o] =
          sum_i64((const int64_t *)x->data + base, p.n_reduced, p.red_strides[0], k);
      continue;
    }
    double max = -(double)INFINITY, acc = start_of(k);
    for (int64_t i = 0; k == RK_LOG_SUM_EXP && i < p.n_reduced; i++) {
      const double v = read_f64(x, base + offset_of(i, p.red_rank, p.red_dims, p.red_strides));
      if (v > max) max = v;
    }
    if (!isfinite(max)) max = 0;
    for (int64_t i = 0; i < p.n_reduced; i++) {
      const int64_t at =
          base + (p.red_rank == 1 ? i * p.red_strides[0]
                                  : offset_of(i, p.red_rank, p.red_dims, p.red_strides));
      acc = step_of(k, acc, read_f64(x, at), max);
    }
    write_f64(&c->out[0], o, end_of(k, acc, p.n_reduced, max));
  }
  return WEFT_OK;
}
weft_status wf_op_reduce_mean(wf_op_call *c, weft_error *err) {
  return run_reduce(c, RK_MEAN, err);
}
weft_status wf_op_reduce_sum(wf_op_call *c, weft_error *err) { return run_reduce(c, RK_SUM, err); }
weft_status wf_op_reduce_max(wf_op_call *c, weft_error *err) { return run_reduce(c, RK_MAX, err); }
weft_status wf_op_reduce_min(wf_op_call *c, weft_error *err) { return run_reduce(c, RK_MIN, err); }
weft_status wf_op_reduce_prod(wf_op_call *c, weft_error *err) {
  return run_reduce(c, RK_PROD, err);
}
weft_status wf_op_reduce_l1(wf_op_call *c, weft_error *err) { return run_reduce(c, RK_L1, err); }
weft_status wf_op_reduce_l2(wf_op_call *c, weft_error *err) { return run_reduce(c, RK_L2, err); }
weft_status wf_op_reduce_sum_square(wf_op_call *c, weft_error *err) {
  return run_reduce(c, RK_SUM_SQUARE, err);
}
weft_status wf_op_reduce_log_sum_exp(wf_op_call *c, weft_error *err) {
  return run_reduce(c, RK_LOG_SUM_EXP, err);
}

/* ---- one axis
 * ------------------------------------------------------------------------------------------- */

typedef struct lanes {
  int64_t outer, n, inner;
} lanes;

static weft_status split_lanes(wf_op_call *c, int64_t axis_attr, lanes *l, int32_t *axis,
                               weft_error *err) {
  const wf_view *x = c->in[0];
  WF_RETURN_IF_ERROR(wf_op_axis(c, axis_attr, x->rank, axis, err));
  *l = (lanes){wf_dims_product(x->dims, 0, *axis), x->dims[*axis],
               wf_dims_product(x->dims, *axis + 1, x->rank)};
  return WEFT_OK;
}

static weft_status run_arg(wf_op_call *c, bool is_max, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *x = c->in[0];
  const bool last = wf_node_attr_i(c->node, "select_last_index", 0) != 0;
  const bool keep = wf_node_attr_i(c->node, "keepdims", 1) != 0;
  lanes l;
  int32_t axis;
  WF_RETURN_IF_ERROR(split_lanes(c, wf_node_attr_i(c->node, "axis", 0), &l, &axis, err));
  int64_t dims[R];
  int32_t rank = 0;
  for (int32_t i = 0; i < x->rank; i++) {
    if (i != axis) dims[rank++] = x->dims[i];
    if (i == axis && keep) dims[rank++] = 1;
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_I64, rank, dims, err));
  if (l.n == 0) return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT, "an empty axis");
  for (int64_t o = 0; o < l.outer * l.inner; o++) {
    const int64_t base = o / l.inner * l.n * l.inner + o % l.inner;
    int64_t best = 0;
    double most = read_f64(x, base);
    for (int64_t i = 1; i < l.n; i++) {
      const double v = read_f64(x, base + i * l.inner);
      if ((is_max ? v > most : v < most) || (last && v == most)) {
        best = i;
        most = v;
      }
    }
    ((int64_t *)c->out[0].data)[o] = best;
  }
  return WEFT_OK;
}
weft_status wf_op_arg_max(wf_op_call *c, weft_error *err) { return run_arg(c, true, err); }
weft_status wf_op_arg_min(wf_op_call *c, weft_error *err) { return run_arg(c, false, err); }

weft_status wf_op_cum_sum(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  const wf_view *x = c->in[0];
  int64_t a = 0;
  size_t n = 0;
  lanes l;
  int32_t axis;
  WF_RETURN_IF_ERROR(wf_op_ints(c, c->in[1], &a, 1, &n, err));
  WF_RETURN_IF_ERROR(split_lanes(c, a, &l, &axis, err));
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, x->dtype, x->rank, x->dims, err));
  const bool exclusive = wf_node_attr_i(c->node, "exclusive", 0) != 0;
  const bool reverse = wf_node_attr_i(c->node, "reverse", 0) != 0;
#define CASE(NAME, T)                                                    \
  case WF_DTYPE_##NAME:                                                  \
    for (int64_t o = 0; o < l.outer * l.inner; o++) {                    \
      const int64_t base = o / l.inner * l.n * l.inner + o % l.inner;    \
      ACC(T) acc = 0;                                                    \
      for (int64_t j = 0; j < l.n; j++) {                                \
        const int64_t at = base + (reverse ? l.n - 1 - j : j) * l.inner; \
        const T v = ((const T *)x->data)[at];                            \
        if (!exclusive) acc += (ACC(T))v;                                \
        ((T *)c->out[0].data)[at] = (T)acc;                              \
        if (exclusive) acc += (ACC(T))v;                                 \
      }                                                                  \
    }                                                                    \
    break;
  switch ((int)x->dtype) {
#define ACC(T) double
    WF_FLOAT_TYPES(CASE)
#undef ACC
#define ACC(T) uint64_t
    WF_INT_TYPES(CASE)
#undef ACC
    default:
      return no_type(c, x->dtype, err);
  }
#undef CASE
  return WEFT_OK;
}

/* Sorted results; on ties the lower index first. */
weft_status wf_op_top_k(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *x = c->in[0];
  int64_t k = wf_node_attr_i(c->node, "k", 0), dims[R];
  size_t n = 0;
  lanes l;
  int32_t axis;
  if (wf_op_in(c, 1)) WF_RETURN_IF_ERROR(wf_op_ints(c, c->in[1], &k, 1, &n, err));
  WF_RETURN_IF_ERROR(split_lanes(c, wf_node_attr_i(c->node, "axis", -1), &l, &axis, err));
  if (k < 0 || k > l.n)
    return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT, "k is %lld of %lld", (long long)k,
                      (long long)l.n);
  for (int32_t i = 0; i < x->rank; i++) dims[i] = i == axis ? k : x->dims[i];
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, x->dtype, x->rank, dims, err));
  WF_RETURN_IF_ERROR(wf_op_make(c, 1, WF_DTYPE_I64, x->rank, dims, err));
  const bool largest = wf_node_attr_i(c->node, "largest", 1) != 0;
  void *memory = NULL;
  WF_RETURN_IF_ERROR(wf_op_scratch(c, (size_t)(k + 1) * 16, &memory, err));
  double *best = memory;
  int64_t *at = (int64_t *)memory + k + 1;
  for (int64_t o = 0; o < l.outer * l.inner && k > 0; o++) {
    const int64_t base = o / l.inner * l.n * l.inner + o % l.inner;
    int64_t kept = 0;
    for (int64_t i = 0; i < l.n; i++) {
      const double v = read_f64(x, base + i * l.inner);
      if (kept == k && !(largest ? v > best[k - 1] : v < best[k - 1])) continue;
      int64_t j = kept < k ? kept++ : k - 1;
      for (; j > 0 && (largest ? v > best[j - 1] : v < best[j - 1]); j--) {
        best[j] = best[j - 1];
        at[j] = at[j - 1];
      }
      best[j] = v;
      at[j] = i;
    }
    const size_t elem = wf_held_bytes(x->dtype);
    for (int64_t j = 0; j < k; j++) {
      const int64_t to = (o / l.inner * k + j) * l.inner + o % l.inner;
      memcpy((char *)c->out[0].data + (size_t)to * elem,
             (const char *)x->data + (size_t)(base + at[j] * l.inner) * elem, elem);
      ((int64_t *)c->out[1].data)[to] = at[j];
    }
  }
  return WEFT_OK;
}

static weft_status run_softmax(wf_op_call *c, bool is_log, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *x = c->in[0];
  const bool is_old = c->node->version < 13 && c->node->domain.n == 0;
  lanes l;
  int32_t axis;
  WF_RETURN_IF_ERROR(
      split_lanes(c, wf_node_attr_i(c->node, "axis", is_old ? 1 : -1), &l, &axis, err));
  if (is_old) { /* before opset 13 all axes from `axis` on were one */
    l.n *= l.inner;
    l.inner = 1;
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, x->dtype, x->rank, x->dims, err));
  if (x->dtype == WF_DTYPE_F32 && l.inner == 1 && !is_log && l.n > 0) {
    wf_softmax_f32(c->env->level, l.outer, l.n, x->data, l.n, c->out[0].data, l.n);
    return WEFT_OK;
  }
  if (x->dtype != WF_DTYPE_F32 && x->dtype != WF_DTYPE_F64) return no_type(c, x->dtype, err);
  for (int64_t o = 0; o < l.outer * l.inner; o++) {
    const int64_t base = o / l.inner * l.n * l.inner + o % l.inner;
    double max = -(double)INFINITY, sum = 0;
    for (int64_t i = 0; i < l.n; i++) {
      const double v = read_f64(x, base + i * l.inner);
      if (v > max) max = v;
    }
    for (int64_t i = 0; i < l.n; i++) sum += exp(read_f64(x, base + i * l.inner) - max);
    for (int64_t i = 0; i < l.n; i++) {
      const double v = read_f64(x, base + i * l.inner) - max;
      write_f64(&c->out[0], base + i * l.inner, is_log ? v - log(sum) : exp(v) / sum);
    }
  }
  return WEFT_OK;
}
weft_status wf_op_softmax(wf_op_call *c, weft_error *err) { return run_softmax(c, false, err); }
weft_status wf_op_log_softmax(wf_op_call *c, weft_error *err) { return run_softmax(c, true, err); }
