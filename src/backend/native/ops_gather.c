/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing by index. Every index is checked: it comes from data. */
#include <math.h>
#include <string.h>

#include "backend/native/op_list.h"
#include "backend/native/op_types.h"

enum { R = WF_VIEW_MAX_RANK };

static weft_status bad(wf_op_call *c, weft_error *err, const char *why) {
  return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT, "%s", why);
}

static bool is_index(const wf_view *v) {
  return v->dtype == WF_DTYPE_I64 || v->dtype == WF_DTYPE_I32;
}

/* Index i of a tensor, brought into [0, n); -1 when it lies outside. */
static int64_t index_at(const wf_view *v, int64_t i, int64_t n) {
  int64_t x =
      v->dtype == WF_DTYPE_I64 ? ((const int64_t *)v->data)[i] : ((const int32_t *)v->data)[i];
  if (x < 0) x += n;
  return x >= 0 && x < n ? x : -1;
}

static weft_status outside(wf_op_call *c, const wf_view *v, int64_t i, int64_t n, weft_error *err) {
  const int64_t x =
      v->dtype == WF_DTYPE_I64 ? ((const int64_t *)v->data)[i] : ((const int32_t *)v->data)[i];
  return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT, "index %lld of an axis of %lld", (long long)x,
                    (long long)n);
}

weft_status wf_op_gather(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  const wf_view *x = c->in[0], *ids = c->in[1];
  int32_t axis;
  int64_t dims[2 * R];
  WF_RETURN_IF_ERROR(wf_op_axis(c, wf_node_attr_i(c->node, "axis", 0), x->rank, &axis, err));
  if (!is_index(ids)) return bad(c, err, "indices must be integers");
  int32_t rank = 0;
  for (int32_t i = 0; i < axis; i++) dims[rank++] = x->dims[i];
  for (int32_t i = 0; i < ids->rank; i++) dims[rank++] = ids->dims[i];
  for (int32_t i = axis + 1; i < x->rank; i++) dims[rank++] = x->dims[i];
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, x->dtype, rank, dims, err));
  const int64_t outer = wf_dims_product(x->dims, 0, axis), n = x->dims[axis];
  const size_t inner =
      (size_t)wf_dims_product(x->dims, axis + 1, x->rank) * wf_held_bytes(x->dtype);
  const int64_t n_ids = wf_view_count(ids);
  char *to = c->out[0].data;
  for (int64_t o = 0; o < outer; o++) {
    for (int64_t i = 0; i < n_ids; i++, to += inner) {
      const int64_t at = index_at(ids, i, n);
      if (at < 0) return outside(c, ids, i, n, err);
      memcpy(to, (const char *)x->data + (size_t)(o * n + at) * inner, inner);
    }
  }
  return WEFT_OK;
}

/* Position in x of element k of `ids`, whose own index replaces that of one axis. */
static int64_t element_at(const wf_view *x, const wf_view *ids, int32_t axis, int64_t k) {
  int64_t at = 0, step = 1, rest = k;
  for (int32_t i = x->rank; i-- > 0;) {
    const int64_t pos = rest % ids->dims[i];
    rest /= ids->dims[i];
    if (i != axis) {
      if (pos >= x->dims[i]) return -1;
      at += pos * step;
    } else {
      const int64_t j = index_at(ids, k, x->dims[i]);
      if (j < 0) return -1;
      at += j * step;
    }
    step *= x->dims[i];
  }
  return at;
}

weft_status wf_op_gather_elements(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  const wf_view *x = c->in[0], *ids = c->in[1];
  int32_t axis;
  WF_RETURN_IF_ERROR(wf_op_axis(c, wf_node_attr_i(c->node, "axis", 0), x->rank, &axis, err));
  if (!is_index(ids) || ids->rank != x->rank) return bad(c, err, "indices of x's rank are needed");
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, x->dtype, ids->rank, ids->dims, err));
  const size_t elem = wf_held_bytes(x->dtype);
  for (int64_t k = 0, n = wf_view_count(ids); k < n; k++) {
    const int64_t at = element_at(x, ids, axis, k);
    if (at < 0) return outside(c, ids, k, x->dims[axis], err);
    memcpy((char *)c->out[0].data + (size_t)k * elem, (const char *)x->data + (size_t)at * elem,
           elem);
  }
  return WEFT_OK;
}

/* Start of slice t named by the last axis of `ids` (width w) in a tensor whose first `batch` axes
 * are shared; in elements. */
static int64_t nd_at(const wf_view *x, const wf_view *ids, int32_t batch, int64_t w, int64_t t) {
  int64_t at = 0, stride = wf_dims_product(x->dims, batch, x->rank);
  const int64_t per_batch = wf_dims_product(ids->dims, batch, ids->rank - 1);
  at = per_batch ? t / per_batch * stride : 0;
  for (int64_t j = 0; j < w; j++) {
    const int64_t d = x->dims[batch + j];
    stride /= d ? d : 1;
    const int64_t i = index_at(ids, t * w + j, d);
    if (i < 0) return -1;
    at += i * stride;
  }
  return at;
}

weft_status wf_op_gather_nd(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  const wf_view *x = c->in[0], *ids = c->in[1];
  const int64_t b = wf_node_attr_i(c->node, "batch_dims", 0);
  if (!is_index(ids) || ids->rank < 1 || b < 0 || b >= ids->rank || b > x->rank) {
    return bad(c, err, "bad indices");
  }
  const int64_t w = ids->dims[ids->rank - 1];
  if (w < 0 || w + b > x->rank) return bad(c, err, "indices are wider than x has axes");
  int64_t dims[2 * R];
  int32_t rank = 0;
  for (int32_t i = 0; i + 1 < ids->rank; i++) dims[rank++] = ids->dims[i];
  for (int32_t i = (int32_t)(b + w); i < x->rank; i++) dims[rank++] = x->dims[i];
  for (int32_t i = 0; i < b; i++) {
    if (ids->dims[i] != x->dims[i]) return bad(c, err, "batch axes differ");
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, x->dtype, rank, dims, err));
  const size_t elem = wf_held_bytes(x->dtype);
  const size_t slice = (size_t)wf_dims_product(x->dims, (int32_t)(b + w), x->rank) * elem;
  const int64_t n = wf_dims_product(ids->dims, 0, ids->rank - 1);
  for (int64_t t = 0; t < n; t++) {
    const int64_t at = nd_at(x, ids, (int32_t)b, w, t);
    if (at < 0) return bad(c, err, "an index lies outside");
    memcpy((char *)c->out[0].data + (size_t)t * slice, (const char *)x->data + (size_t)at * elem,
           slice);
  }
  return WEFT_OK;
}

/* ---- scatter
 * ------------------------------------------------------------------------------------------------
 */

typedef enum reduction { RED_NONE, RED_ADD, RED_MUL, RED_MIN, RED_MAX } reduction;

static reduction reduction_of(const wf_op_call *c) {
  const wf_str r = wf_node_attr_s(c->node, "reduction");
  return wf_str_is(r, "add")   ? RED_ADD
         : wf_str_is(r, "mul") ? RED_MUL
         : wf_str_is(r, "min") ? RED_MIN
         : wf_str_is(r, "max") ? RED_MAX
                               : RED_NONE;
}

static void combine(wf_dtype dtype, reduction how, int64_t n, void *to, const void *from) {
  switch ((int)dtype) {
#define F(NAME, T)                               \
  case WF_DTYPE_##NAME:                          \
    for (int64_t i = 0; i < n; i++) {            \
      T *y = (T *)to + i;                        \
      const T v = ((const T *)from)[i];          \
      *y = how == RED_ADD   ? (T)(*y + v)        \
           : how == RED_MUL ? (T)(*y * v)        \
           : how == RED_MIN ? (v < *y ? v : *y)  \
                            : (v > *y ? v : *y); \
    }                                            \
    break;
#define I(NAME, T)                                            \
  case WF_DTYPE_##NAME:                                       \
    for (int64_t i = 0; i < n; i++) {                         \
      T *y = (T *)to + i;                                     \
      const T v = ((const T *)from)[i];                       \
      *y = how == RED_ADD   ? (T)((uint64_t)*y + (uint64_t)v) \
           : how == RED_MUL ? (T)((uint64_t)*y * (uint64_t)v) \
           : how == RED_MIN ? (v < *y ? v : *y)               \
                            : (v > *y ? v : *y);              \
    }                                                         \
    break;
    WF_FLOAT_TYPES(F)
    WF_INT_TYPES(I)
    default:
      memcpy(to, from, (size_t)n * wf_held_bytes(dtype));
      break;
#undef I
#undef F
  }
}

static void put(const wf_view *y, int64_t at, reduction how, int64_t n, const void *from) {
  const size_t elem = wf_held_bytes(y->dtype);
  char *to = (char *)y->data + (size_t)at * elem;
  if (how == RED_NONE) {
    memcpy(to, from, (size_t)n * elem);
  } else {
    combine(y->dtype, how, n, to, from);
  }
}

static weft_status start_scatter(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 3, err));
  const wf_view *x = c->in[0];
  if (!is_index(c->in[1]) || c->in[2]->dtype != x->dtype)
    return bad(c, err, "bad indices or updates");
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, x->dtype, x->rank, x->dims, err));
  const size_t n = (size_t)wf_view_count(x) * wf_held_bytes(x->dtype);
  if (n) memcpy(c->out[0].data, x->data, n);
  return WEFT_OK;
}

weft_status wf_op_scatter_nd(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(start_scatter(c, err));
  const wf_view *x = c->in[0], *ids = c->in[1], *u = c->in[2];
  if (ids->rank < 1 || ids->dims[ids->rank - 1] > x->rank) return bad(c, err, "indices too wide");
  const int64_t w = ids->dims[ids->rank - 1], n = wf_dims_product(ids->dims, 0, ids->rank - 1);
  const int64_t slice = wf_dims_product(x->dims, (int32_t)w, x->rank);
  if (wf_view_count(u) != n * slice) return bad(c, err, "updates do not fit the indices");
  const size_t elem = wf_held_bytes(x->dtype);
  for (int64_t t = 0; t < n; t++) {
    int64_t at = 0, stride = wf_dims_product(x->dims, 0, x->rank);
    for (int64_t j = 0; j < w; j++) {
      const int64_t d = x->dims[j];
      stride /= d ? d : 1;
      const int64_t i = index_at(ids, t * w + j, d);
      if (i < 0) return outside(c, ids, t * w + j, d, err);
      at += i * stride;
    }
    put(&c->out[0], at, reduction_of(c), slice, (const char *)u->data + (size_t)(t * slice) * elem);
  }
  return WEFT_OK;
}

weft_status wf_op_scatter_elements(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(start_scatter(c, err));
  const wf_view *x = c->in[0], *ids = c->in[1], *u = c->in[2];
  int32_t axis;
  WF_RETURN_IF_ERROR(wf_op_axis(c, wf_node_attr_i(c->node, "axis", 0), x->rank, &axis, err));
  if (ids->rank != x->rank || wf_view_count(u) != wf_view_count(ids)) {
    return bad(c, err, "indices and updates must have one shape of x's rank");
  }
  const size_t elem = wf_held_bytes(x->dtype);
  for (int64_t k = 0, n = wf_view_count(ids); k < n; k++) {
    const int64_t at = element_at(x, ids, axis, k);
    if (at < 0) return outside(c, ids, k, x->dims[axis], err);
    put(&c->out[0], at, reduction_of(c), 1, (const char *)u->data + (size_t)k * elem);
  }
  return WEFT_OK;
}

/* Writes an update along one axis from a position that each batch entry has of its own. */
weft_status wf_op_tensor_scatter(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  const wf_view *x = c->in[0], *u = c->in[1], *at = wf_op_in(c, 2);
  int32_t axis;
  WF_RETURN_IF_ERROR(wf_op_axis(c, wf_node_attr_i(c->node, "axis", -2), x->rank, &axis, err));
  const bool is_circular = wf_str_is(wf_node_attr_s(c->node, "mode"), "circular");
  if (u->rank != x->rank || u->dtype != x->dtype || axis == 0 ||
      (at && (!is_index(at) || wf_view_count(at) != x->dims[0]))) {
    return bad(c, err, "update or positions do not fit");
  }
  for (int32_t i = 0; i < x->rank; i++) {
    if (i != axis && u->dims[i] != x->dims[i]) return bad(c, err, "the update has another shape");
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, x->dtype, x->rank, x->dims, err));
  const size_t elem = wf_held_bytes(x->dtype);
  if (wf_view_count(x) == 0) return WEFT_OK;
  memcpy(c->out[0].data, x->data, (size_t)wf_view_count(x) * elem);
  const int64_t inner = wf_dims_product(x->dims, axis + 1, x->rank), len = x->dims[axis];
  const int64_t outer = wf_dims_product(x->dims, 0, axis), per_batch = outer / x->dims[0];
  for (int64_t o = 0; o < outer; o++) {
    int64_t start = 0;
    if (at) {
      start = at->dtype == WF_DTYPE_I64 ? ((const int64_t *)at->data)[o / per_batch]
                                        : ((const int32_t *)at->data)[o / per_batch];
    }
    if (start < 0 || (!is_circular && start > len - u->dims[axis])) {
      return bad(c, err, "a position lies outside");
    }
    for (int64_t i = 0; i < u->dims[axis]; i++) {
      const int64_t row = is_circular ? (start % len + i) % len : start + i;
      memcpy((char *)c->out[0].data + (size_t)((o * len + row) * inner) * elem,
             (const char *)u->data + (size_t)((o * u->dims[axis] + i) * inner) * elem,
             (size_t)inner * elem);
    }
  }
  return WEFT_OK;
}

/* ---- by value
 * ---------------------------------------------------------------------------------------------------
 */

static bool is_nonzero(const wf_view *v, int64_t i) {
  switch ((int)(v->dtype == WF_DTYPE_BOOL ? WF_DTYPE_U8 : v->dtype)) {
#define CASE(NAME, T)   \
  case WF_DTYPE_##NAME: \
    return ((const T *)v->data)[i] != 0;
    WF_NUMBER_TYPES(CASE)
#undef CASE
    default:
      return false;
  }
}

weft_status wf_op_non_zero(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *x = c->in[0];
  const int64_t total = wf_view_count(x);
  int64_t dims[2] = {x->rank, 0};
  for (int64_t i = 0; i < total; i++) dims[1] += is_nonzero(x, i);
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_I64, 2, dims, err));
  int64_t *y = c->out[0].data, n = 0;
  for (int64_t i = 0; i < total; i++) {
    if (!is_nonzero(x, i)) continue;
    int64_t rest = i;
    for (int32_t j = x->rank; j-- > 0; rest /= x->dims[j]) y[j * dims[1] + n] = rest % x->dims[j];
    n++;
  }
  return WEFT_OK;
}

weft_status wf_op_one_hot(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 3, err));
  const wf_view *ids = c->in[0], *depth = c->in[1], *values = c->in[2];
  int64_t d = 0, dims[R + 1];
  size_t n = 0;
  if (depth->dtype == WF_DTYPE_F32 && wf_view_count(depth) == 1) {
    const float f = *(const float *)depth->data;
    d = f > 0 && f < 1e9F ? (int64_t)f : 0;
  } else {
    WF_RETURN_IF_ERROR(wf_op_ints(c, depth, &d, 1, &n, err));
  }
  int32_t axis;
  WF_RETURN_IF_ERROR(wf_op_axis(c, wf_node_attr_i(c->node, "axis", -1), ids->rank + 1, &axis, err));
  if (d <= 0 || wf_view_count(values) != 2 || ids->rank + 1 > R) return bad(c, err, "a bad depth");
  for (int32_t i = 0; i < ids->rank + 1; i++) {
    dims[i] = i < axis ? ids->dims[i] : i == axis ? d : ids->dims[i - 1];
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, values->dtype, ids->rank + 1, dims, err));
  const size_t elem = wf_held_bytes(values->dtype);
  const int64_t inner = wf_dims_product(ids->dims, axis, ids->rank),
                total = wf_view_count(&c->out[0]);
  for (int64_t k = 0; k < total; k++) {
    const int64_t o = k / (d * inner), i = k % inner, hot = k / inner % d, at = o * inner + i;
    double v = -1;
    switch ((int)ids->dtype) {
#define CASE(NAME, T)                       \
  case WF_DTYPE_##NAME:                     \
    v = (double)((const T *)ids->data)[at]; \
    break;
      WF_NUMBER_TYPES(CASE)
#undef CASE
      default:
        return bad(c, err, "indices must be numbers");
    }
    if (v < 0) v += (double)d;
    memcpy((char *)c->out[0].data + (size_t)k * elem,
           (const char *)values->data + (v == (double)hot ? elem : 0), elem);
  }
  return WEFT_OK;
}
