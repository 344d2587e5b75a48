/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that move or describe data without computing with it. */
#include <string.h>

#include "backend/native/op_list.h"
#include "backend/native/op_types.h"

enum { R = WF_VIEW_MAX_RANK };

static weft_status bad(wf_op_call *c, weft_error *err, const char *why) {
  return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT, "%s", why);
}

/* Integers that are an input in newer opsets and an attribute in older ones. *is_there: given. */
static weft_status list_of(wf_op_call *c, int32_t input, const char *attr, int64_t *list, size_t *n,
                           bool *is_there, weft_error *err) {
  const wf_view *v = input >= 0 ? wf_op_in(c, input) : NULL;
  const wf_attr *a = wf_node_attr(c->node, attr);
  *n = 0;
  *is_there = v || a;
  if (v) return wf_op_ints(c, v, list, 4 * R, n, err);
  if (!a) return WEFT_OK;
  if (a->kind == WF_ATTR_INT) {
    list[0] = a->i;
    *n = 1;
    return WEFT_OK;
  }
  if (a->kind != WF_ATTR_INTS || a->n > 4 * R) return bad(c, err, "a list attribute is too long");
  for (size_t i = 0; i < a->n; i++) list[i] = a->ints[i];
  *n = a->n;
  return WEFT_OK;
}

/* ---- describing
 * ---------------------------------------------------------------------------------------- */

weft_status wf_op_shape(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *x = c->in[0];
  int64_t begin = wf_node_attr_i(c->node, "start", 0),
          end = wf_node_attr_i(c->node, "end", x->rank);
  if (begin < 0) begin += x->rank;
  if (end < 0) end += x->rank;
  begin = begin < 0 ? 0 : begin > x->rank ? x->rank : begin;
  end = end < begin ? begin : end > x->rank ? x->rank : end;
  const int64_t n = end - begin;
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_I64, 1, &n, err));
  for (int64_t i = 0; i < n; i++) ((int64_t *)c->out[0].data)[i] = x->dims[begin + i];
  return WEFT_OK;
}

weft_status wf_op_size(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_I64, 0, NULL, err));
  *(int64_t *)c->out[0].data = wf_view_count(c->in[0]);
  return WEFT_OK;
}

/* ---- new shapes for the same data
 * ------------------------------------------------------------------------ */

weft_status wf_op_identity(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  wf_op_alias(c, 0, 0, c->in[0]->rank, c->in[0]->dims);
  return WEFT_OK;
}

/* Inference only: the data passes; the mask is all true. */
weft_status wf_op_dropout(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_identity(c, err));
  const wf_view *training = wf_op_in(c, 2);
  if (training && wf_view_count(training) == 1 && *(const uint8_t *)training->data) {
    return wf_op_fail(c, err, WEFT_UNSUPPORTED, "training mode");
  }
  if (!wf_op_wants(c, 1)) return WEFT_OK;
  WF_RETURN_IF_ERROR(wf_op_make(c, 1, WF_DTYPE_BOOL, c->in[0]->rank, c->in[0]->dims, err));
  memset(c->out[1].data, 1, (size_t)wf_view_count(&c->out[1]));
  return WEFT_OK;
}

weft_status wf_op_reshape(wf_op_call *c, weft_error *err) {
  int64_t dims[4 * R];
  size_t n = 0;
  bool is_there = false;
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *x = c->in[0];
  WF_RETURN_IF_ERROR(list_of(c, 1, "shape", dims, &n, &is_there, err));
  if (n > R) return bad(c, err, "the new rank is too high");
  const bool allow_zero = wf_node_attr_i(c->node, "allowzero", 0) != 0;
  int64_t known = 1;
  size_t open = SIZE_MAX;
  for (size_t i = 0; i < n; i++) {
    if (dims[i] == 0 && !allow_zero) {
      if ((int32_t)i >= x->rank) return bad(c, err, "0 names an axis the input lacks");
      dims[i] = x->dims[i];
    }
    if (dims[i] == -1) {
      if (open != SIZE_MAX) return bad(c, err, "two open axes");
      open = i;
      continue;
    }
    if (dims[i] < 0 || __builtin_mul_overflow(known, dims[i], &known)) {
      return bad(c, err, "a bad new shape");
    }
  }
  const int64_t total = wf_view_count(x);
  if (open != SIZE_MAX) {
    if (known == 0 ? total != 0 : total % known != 0)
      return bad(c, err, "the open axis does not divide");
    dims[open] = known == 0 ? 0 : total / known;
    known = known == 0 ? 0 : total;
  }
  if (known != total) {
    return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT, "%lld elements into a shape of %lld",
                      (long long)total, (long long)known);
  }
  wf_op_alias(c, 0, 0, (int32_t)n, dims);
  return WEFT_OK;
}

weft_status wf_op_flatten(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *x = c->in[0];
  int64_t axis = wf_node_attr_i(c->node, "axis", 1);
  if (axis < 0) axis += x->rank;
  if (axis < 0 || axis > x->rank) return bad(c, err, "a bad axis");
  const int64_t dims[2] = {wf_dims_product(x->dims, 0, (int32_t)axis),
                           wf_dims_product(x->dims, (int32_t)axis, x->rank)};
  wf_op_alias(c, 0, 0, 2, dims);
  return WEFT_OK;
}

weft_status wf_op_squeeze(wf_op_call *c, weft_error *err) {
  int64_t axes[4 * R], dims[R];
  size_t n = 0;
  bool is_there = false, gone[R] = {0};
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *x = c->in[0];
  WF_RETURN_IF_ERROR(list_of(c, 1, "axes", axes, &n, &is_there, err));
  for (size_t i = 0; i < n; i++) {
    int32_t axis;
    WF_RETURN_IF_ERROR(wf_op_axis(c, axes[i], x->rank, &axis, err));
    if (x->dims[axis] != 1) return bad(c, err, "an axis to squeeze is not 1");
    gone[axis] = true;
  }
  int32_t rank = 0;
  for (int32_t i = 0; i < x->rank; i++) {
    if (is_there ? gone[i] : x->dims[i] == 1) continue;
    dims[rank++] = x->dims[i];
  }
  wf_op_alias(c, 0, 0, rank, dims);
  return WEFT_OK;
}

weft_status wf_op_unsqueeze(wf_op_call *c, weft_error *err) {
  int64_t axes[4 * R], dims[R];
  size_t n = 0;
  bool is_there = false, is_new[R] = {0};
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *x = c->in[0];
  WF_RETURN_IF_ERROR(list_of(c, 1, "axes", axes, &n, &is_there, err));
  if (x->rank + (int64_t)n > R) return bad(c, err, "the new rank is too high");
  const int32_t rank = x->rank + (int32_t)n;
  for (size_t i = 0; i < n; i++) {
    int32_t axis;
    WF_RETURN_IF_ERROR(wf_op_axis(c, axes[i], rank, &axis, err));
    if (is_new[axis]) return bad(c, err, "an axis is named twice");
    is_new[axis] = true;
  }
  for (int32_t i = 0, j = 0; i < rank; i++) dims[i] = is_new[i] ? 1 : x->dims[j++];
  wf_op_alias(c, 0, 0, rank, dims);
  return WEFT_OK;
}

/* ---- copies
 * ---------------------------------------------------------------------------------------------------
 */

/* Copies a strided source (elements; steps may be negative) into a dense result. */
static void copy_strided(const void *src, size_t elem, int32_t rank, const int64_t *dims,
                         const int64_t *strides, void *dst) {
  int64_t index[R] = {0};
  const char *from = src;
  char *to = dst;
  if (rank == 0) {
    memcpy(to, from, elem);
    return;
  }
  for (int32_t i = 0; i < rank; i++) {
    if (dims[i] == 0) return;
  }
  const int64_t inner = dims[rank - 1], step = strides[rank - 1];
  for (;;) {
    if (step == 1) {
      memcpy(to, from, (size_t)inner * elem);
    } else if (elem == 4) {
      for (int64_t i = 0; i < inner; i++) memcpy(to + i * 4, from + i * step * 4, 4);
    } else {
      for (int64_t i = 0; i < inner; i++) {
        memcpy(to + (size_t)i * elem, from + i * step * (int64_t)elem, elem);
      }
    }
    to += (size_t)inner * elem;
    int32_t i = rank - 1;
    while (i-- > 0) {
      from += strides[i] * (int64_t)elem;
      if (++index[i] < dims[i]) break;
      from -= strides[i] * dims[i] * (int64_t)elem;
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

static void dense_strides(const wf_view *v, int64_t *strides) {
  int64_t step = 1;
  for (int32_t i = v->rank; i-- > 0;) {
    strides[i] = step;
    step *= v->dims[i];
  }
}

weft_status wf_op_transpose(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *x = c->in[0];
  const wf_attr *perm = wf_node_attr(c->node, "perm");
  int64_t dims[R], from[R], strides[R];
  bool seen[R] = {0};
  if (perm && perm->n != (size_t)x->rank)
    return bad(c, err, "perm has another length than the rank");
  dense_strides(x, from);
  for (int32_t i = 0; i < x->rank; i++) {
    int32_t p = x->rank - 1 - i;
    if (perm) WF_RETURN_IF_ERROR(wf_op_axis(c, perm->ints[i], x->rank, &p, err));
    if (seen[p]) return bad(c, err, "perm names an axis twice");
    seen[p] = true;
    dims[i] = x->dims[p];
    strides[i] = from[p];
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, x->dtype, x->rank, dims, err));
  copy_strided(x->data, wf_held_bytes(x->dtype), x->rank, dims, strides, c->out[0].data);
  return WEFT_OK;
}

static weft_status expand_to(wf_op_call *c, int32_t rank, const int64_t *dims, weft_error *err) {
  const wf_view *x = c->in[0];
  int64_t strides[R];
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, x->dtype, rank, dims, err));
  wf_op_broadcast_strides(x, rank, strides);
  copy_strided(x->data, wf_held_bytes(x->dtype), rank, dims, strides, c->out[0].data);
  return WEFT_OK;
}

weft_status wf_op_expand(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  wf_view shape = {0};
  size_t n = 0;
  WF_RETURN_IF_ERROR(wf_op_ints(c, c->in[1], shape.dims, R, &n, err));
  shape.rank = (int32_t)n;
  for (size_t i = 0; i < n; i++) {
    if (shape.dims[i] < 0) return bad(c, err, "a negative size");
  }
  WF_RETURN_IF_ERROR(wf_op_broadcast(c, c->in[0], &shape.rank, shape.dims, err));
  return expand_to(c, shape.rank, shape.dims, err);
}

weft_status wf_op_tile(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  const wf_view *x = c->in[0];
  int64_t repeats[R], dims[R];
  size_t n = 0;
  WF_RETURN_IF_ERROR(wf_op_ints(c, c->in[1], repeats, R, &n, err));
  if (n != (size_t)x->rank) return bad(c, err, "one repeat an axis is needed");
  for (int32_t i = 0; i < x->rank; i++) {
    if (repeats[i] < 0 || __builtin_mul_overflow(x->dims[i], repeats[i], &dims[i])) {
      return bad(c, err, "a bad repeat");
    }
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, x->dtype, x->rank, dims, err));
  const size_t elem = wf_held_bytes(x->dtype);
  const int64_t total = wf_view_count(&c->out[0]);
  int64_t from[R];
  dense_strides(x, from);
  char *to = c->out[0].data;
  /* One run along the last axis at a time, repeated. */
  const int64_t last = x->rank ? x->dims[x->rank - 1] : 1,
                reps = x->rank ? repeats[x->rank - 1] : 1;
  int64_t index[R] = {0};
  for (int64_t done = 0; done < total; done += last * reps) {
    const char *src = x->data;
    for (int32_t i = 0; i + 1 < x->rank; i++)
      src += index[i] % x->dims[i] * from[i] * (int64_t)elem;
    for (int64_t r = 0; r < reps; r++, to += (size_t)last * elem)
      memcpy(to, src, (size_t)last * elem);
    for (int32_t i = x->rank - 1; i-- > 0;) {
      if (++index[i] < dims[i]) break;
      index[i] = 0;
    }
  }
  return WEFT_OK;
}

weft_status wf_op_concat(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, c->n_in > 0 ? c->n_in : 1, err));
  const wf_view *x = c->in[0];
  int32_t axis;
  int64_t dims[R];
  WF_RETURN_IF_ERROR(wf_op_axis(c, wf_node_attr_i(c->node, "axis", 0), x->rank, &axis, err));
  for (int32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  dims[axis] = 0;
  for (int32_t k = 0; k < c->n_in; k++) {
    const wf_view *v = c->in[k];
    if (v->rank != x->rank || v->dtype != x->dtype)
      return bad(c, err, "inputs differ in rank or type");
    for (int32_t i = 0; i < x->rank; i++) {
      if (i != axis && v->dims[i] != x->dims[i]) return bad(c, err, "inputs differ in shape");
    }
    dims[axis] += v->dims[axis];
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, x->dtype, x->rank, dims, err));
  const size_t elem = wf_held_bytes(x->dtype);
  const int64_t outer = wf_dims_product(dims, 0, axis),
                inner = wf_dims_product(dims, axis + 1, x->rank);
  size_t at = 0;
  const size_t row = (size_t)(dims[axis] * inner) * elem;
  for (int32_t k = 0; k < c->n_in; k++) {
    const size_t n = (size_t)(c->in[k]->dims[axis] * inner) * elem;
    if (n == 0) continue;
    for (int64_t o = 0; o < outer; o++) {
      memcpy((char *)c->out[0].data + (size_t)o * row + at,
             (const char *)c->in[k]->data + (size_t)o * n, n);
    }
    at += n;
  }
  return WEFT_OK;
}

weft_status wf_op_split(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *x = c->in[0];
  int64_t sizes[WF_OP_MAX_OUTPUTS], dims[R];
  int32_t axis;
  size_t n = 0;
  WF_RETURN_IF_ERROR(wf_op_axis(c, wf_node_attr_i(c->node, "axis", 0), x->rank, &axis, err));
  const wf_attr *attr = wf_node_attr(c->node, "split");
  if (c->n_out < 1 || c->n_out > WF_OP_MAX_OUTPUTS) return bad(c, err, "too many outputs");
  if (wf_op_in(c, 1)) {
    WF_RETURN_IF_ERROR(wf_op_ints(c, c->in[1], sizes, WF_OP_MAX_OUTPUTS, &n, err));
  } else if (attr && attr->n <= WF_OP_MAX_OUTPUTS && attr->ints) {
    for (n = 0; n < attr->n; n++) sizes[n] = attr->ints[n];
  } else {
    n = (size_t)c->n_out;
    const int64_t part = (x->dims[axis] + (int64_t)n - 1) / (int64_t)n;
    int64_t left = x->dims[axis];
    for (size_t i = 0; i < n; i++, left -= sizes[i - 1]) sizes[i] = left < part ? left : part;
  }
  int64_t sum = 0;
  for (size_t i = 0; i < n; i++) {
    if (sizes[i] < 0 || sizes[i] > x->dims[axis]) return bad(c, err, "a bad part");
    sum += sizes[i];
  }
  if (sum != x->dims[axis] || n != (size_t)c->n_out) return bad(c, err, "parts don't add up");
  const size_t elem = wf_held_bytes(x->dtype);
  const int64_t outer = wf_dims_product(x->dims, 0, axis);
  const int64_t inner = wf_dims_product(x->dims, axis + 1, x->rank);
  size_t at = 0;
  const size_t row = (size_t)(x->dims[axis] * inner) * elem;
  for (size_t i = 0; i < n; i++) {
    for (int32_t j = 0; j < x->rank; j++) dims[j] = j == axis ? sizes[i] : x->dims[j];
    WF_RETURN_IF_ERROR(wf_op_make(c, (int32_t)i, x->dtype, x->rank, dims, err));
    const size_t part = (size_t)(sizes[i] * inner) * elem;
    for (int64_t o = 0; part && o < outer; o++) {
      memcpy((char *)c->out[i].data + (size_t)o * part,
             (const char *)x->data + (size_t)o * row + at, part);
    }
    at += part;
  }
  return WEFT_OK;
}

weft_status wf_op_slice(wf_op_call *c, weft_error *err) {
  int64_t starts[4 * R], ends[4 * R], axes[4 * R], steps[4 * R], dims[R], strides[R];
  size_t n_starts = 0, n_ends = 0, n_axes = 0, n_steps = 0;
  bool is_there = false, has_axes = false, has_steps = false;
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *x = c->in[0];
  WF_RETURN_IF_ERROR(list_of(c, 1, "starts", starts, &n_starts, &is_there, err));
  WF_RETURN_IF_ERROR(list_of(c, 2, "ends", ends, &n_ends, &is_there, err));
  WF_RETURN_IF_ERROR(list_of(c, 3, "axes", axes, &n_axes, &has_axes, err));
  WF_RETURN_IF_ERROR(list_of(c, 4, "", steps, &n_steps, &has_steps, err));
  if (n_starts != n_ends || (has_axes && n_axes != n_starts) ||
      (has_steps && n_steps != n_starts)) {
    return bad(c, err, "lists of different lengths");
  }
  dense_strides(x, strides);
  for (int32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  int64_t first = 0;
  for (size_t i = 0; i < n_starts; i++) {
    int32_t axis;
    WF_RETURN_IF_ERROR(wf_op_axis(c, has_axes ? axes[i] : (int64_t)i, x->rank, &axis, err));
    const int64_t d = x->dims[axis], step = has_steps ? steps[i] : 1;
    int64_t b = starts[i], e = ends[i];
    if (step == 0 || step == INT64_MIN) return bad(c, err, "a step of 0");
    if (b < 0) b = b < -d ? -1 - (step > 0 ? -1 : 0) : b + d;
    if (e < 0) e = e < -d ? -1 : e + d;
    if (step > 0) {
      b = b < 0 ? 0 : b > d ? d : b;
      e = e < 0 ? 0 : e > d ? d : e;
      dims[axis] = e > b ? (e - b - 1) / step + 1 : 0;
    } else {
      b = b < -1 ? -1 : b > d - 1 ? d - 1 : b;
      e = e < -1 ? -1 : e > d - 1 ? d - 1 : e;
      dims[axis] = b > e ? (b - e - 1) / -step + 1 : 0;
    }
    if (dims[axis] > 0) first += b * strides[axis];
    /* a single element needs no step, and a huge one must not overflow */
    strides[axis] = dims[axis] > 1 ? strides[axis] * step : 0;
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, x->dtype, x->rank, dims, err));
  if (wf_view_count(&c->out[0]) == 0) return WEFT_OK;
  const size_t elem = wf_held_bytes(x->dtype);
  copy_strided((const char *)x->data + first * (int64_t)elem, elem, x->rank, dims, strides,
               c->out[0].data);
  return WEFT_OK;
}

/* ---- padding
 * --------------------------------------------------------------------------------------------------
 */

typedef enum pad_mode { PAD_CONSTANT, PAD_EDGE, PAD_REFLECT, PAD_WRAP } pad_mode;

/* Where an index of the padded axis comes from; -1: the constant. */
static int64_t pad_source(int64_t i, int64_t d, pad_mode mode) {
  if (i >= 0 && i < d) return i;
  if (d == 0 || mode == PAD_CONSTANT) return -1;
  if (mode == PAD_EDGE) return i < 0 ? 0 : d - 1;
  if (mode == PAD_WRAP) return ((i % d) + d) % d;
  if (d == 1) return 0;
  const int64_t period = 2 * (d - 1);
  const int64_t r = ((i % period) + period) % period;
  return r < d ? r : period - r;
}

weft_status wf_op_pad(wf_op_call *c, weft_error *err) {
  int64_t pads[4 * R], axes[4 * R], before[R] = {0}, dims[R], from[R];
  size_t n = 0, n_axes = 0;
  bool is_there = false, has_axes = false;
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *x = c->in[0];
  const wf_str m = wf_node_attr_s(c->node, "mode");
  const pad_mode mode = wf_str_is(m, "edge")      ? PAD_EDGE
                        : wf_str_is(m, "reflect") ? PAD_REFLECT
                        : wf_str_is(m, "wrap")    ? PAD_WRAP
                                                  : PAD_CONSTANT;
  WF_RETURN_IF_ERROR(list_of(c, 1, "pads", pads, &n, &is_there, err));
  WF_RETURN_IF_ERROR(list_of(c, 3, "", axes, &n_axes, &has_axes, err));
  if (!has_axes) n_axes = (size_t)x->rank;
  if (n != 2 * n_axes) return bad(c, err, "two pads an axis are needed");
  for (int32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  for (size_t i = 0; i < n_axes; i++) {
    int32_t axis;
    WF_RETURN_IF_ERROR(wf_op_axis(c, has_axes ? axes[i] : (int64_t)i, x->rank, &axis, err));
    const int64_t a = pads[i], b = pads[n_axes + i];
    if (a < -(1 << 30) || b < -(1 << 30) || a > (1 << 30) || b > (1 << 30)) {
      return bad(c, err, "a pad out of range");
    }
    before[axis] = a;
    dims[axis] = x->dims[axis] + a + b;
    if (dims[axis] < 0) return bad(c, err, "pads cut more than there is");
  }
  const size_t elem = wf_held_bytes(x->dtype);
  char constant[8] = {0};
  const wf_view *value = wf_op_in(c, 2);
  if (value && wf_view_count(value) == 1 && value->dtype == x->dtype) {
    memcpy(constant, value->data, elem);
  } else if (!value && x->dtype == WF_DTYPE_F32) {
    const float v = wf_node_attr_f(c->node, "value", 0);
    memcpy(constant, &v, elem);
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, x->dtype, x->rank, dims, err));
  const int64_t total = wf_view_count(&c->out[0]);
  dense_strides(x, from);
  int64_t index[R] = {0};
  char *to = c->out[0].data;
  for (int64_t k = 0; k < total; k++, to += elem) {
    int64_t at = 0;
    for (int32_t i = 0; i < x->rank && at >= 0; i++) {
      const int64_t s = pad_source(index[i] - before[i], x->dims[i], mode);
      at = s < 0 ? -1 : at + s * from[i];
    }
    memcpy(to, at < 0 ? constant : (const char *)x->data + (size_t)at * elem, elem);
    for (int32_t i = x->rank; i-- > 0;) {
      if (++index[i] < dims[i]) break;
      index[i] = 0;
    }
  }
  return WEFT_OK;
}

weft_status wf_op_trilu(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *x = c->in[0];
  int64_t k = 0;
  size_t n = 0;
  if (wf_op_in(c, 1)) WF_RETURN_IF_ERROR(wf_op_ints(c, c->in[1], &k, 1, &n, err));
  if (x->rank < 2) return bad(c, err, "a rank of 2 or more is needed");
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, x->dtype, x->rank, x->dims, err));
  const bool upper = wf_node_attr_i(c->node, "upper", 1) != 0;
  const int64_t rows = x->dims[x->rank - 2], cols = x->dims[x->rank - 1];
  const size_t elem = wf_held_bytes(x->dtype);
  const int64_t total = wf_view_count(x);
  k = k > cols ? cols : k < -rows ? -rows : k;
  if (total == 0) return WEFT_OK;
  memcpy(c->out[0].data, x->data, (size_t)total * elem);
  for (int64_t r = 0; r < total / cols; r++) {
    const int64_t row = r % rows;
    for (int64_t col = 0; col < cols; col++) {
      const bool keep = upper ? col - row >= k : col - row <= k;
      if (!keep) memset((char *)c->out[0].data + (size_t)(r * cols + col) * elem, 0, elem);
    }
  }
  return WEFT_OK;
}

/* ---- from nothing
 * -------------------------------------------------------------------------------------------- */

/* An attribute's tensor as an output. */
static weft_status from_tensor(wf_op_call *c, const wf_tensor *t, int32_t rank, const int64_t *dims,
                               weft_error *err) {
  const wf_dtype held = wf_dtype_held(t->dtype);
  if (wf_held_bytes(held) == 0) {
    return wf_op_fail(c, err, WEFT_UNSUPPORTED, "a constant of type %s", wf_dtype_name(t->dtype));
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, held, rank, dims, err));
  return WEFT_OK;
}

weft_status wf_op_constant(wf_op_call *c, weft_error *err) {
  const wf_attr *a = wf_node_attr(c->node, "value");
  if (a && a->kind == WF_ATTR_TENSOR && a->n == 1) {
    const wf_tensor *t = &a->tensors[0];
    WF_RETURN_IF_ERROR(from_tensor(c, t, t->rank, t->dims, err));
    return wf_hold(c->env->level, t->dtype, t->data, t->n, c->out[0].data, err);
  }
  for (size_t i = 0; i < c->node->n_attrs; i++) {
    a = &c->node->attrs[i];
    const int64_t n = (int64_t)a->n;
    if (wf_str_is(a->name, "value_int") || wf_str_is(a->name, "value_ints")) {
      WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_I64, a->kind == WF_ATTR_INTS, &n, err));
      memcpy(c->out[0].data, a->kind == WF_ATTR_INTS ? a->ints : &a->i, (size_t)n * 8);
      return WEFT_OK;
    }
    if (wf_str_is(a->name, "value_float") || wf_str_is(a->name, "value_floats")) {
      WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_F32, a->kind == WF_ATTR_FLOATS, &n, err));
      memcpy(c->out[0].data, a->kind == WF_ATTR_FLOATS ? a->floats : &a->f, (size_t)n * 4);
      return WEFT_OK;
    }
  }
  return wf_op_fail(c, err, WEFT_UNSUPPORTED, "a constant of this form");
}

weft_status wf_op_constant_of_shape(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  int64_t dims[R];
  size_t rank = 0;
  WF_RETURN_IF_ERROR(wf_op_ints(c, c->in[0], dims, R, &rank, err));
  const wf_attr *a = wf_node_attr(c->node, "value");
  char one[8] = {0};
  wf_dtype dtype = WF_DTYPE_F32;
  if (a && a->kind == WF_ATTR_TENSOR && a->n == 1 && a->tensors[0].n == 1) {
    dtype = wf_dtype_held(a->tensors[0].dtype);
    if (wf_held_bytes(dtype) == 0) return bad(c, err, "an element type without a size");
    WF_RETURN_IF_ERROR(
        wf_hold(c->env->level, a->tensors[0].dtype, a->tensors[0].data, 1, one, err));
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, dtype, (int32_t)rank, dims, err));
  const size_t elem = wf_held_bytes(dtype);
  for (int64_t i = 0, n = wf_view_count(&c->out[0]); i < n; i++) {
    memcpy((char *)c->out[0].data + (size_t)i * elem, one, elem);
  }
  return WEFT_OK;
}

weft_status wf_op_range(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 3, err));
  for (int i = 0; i < 3; i++) {
    if (wf_view_count(c->in[i]) != 1 || c->in[i]->dtype != c->in[0]->dtype) {
      return bad(c, err, "three numbers of one type are needed");
    }
  }
#define F(NAME, T)                                                                          \
  case WF_DTYPE_##NAME: {                                                                   \
    const T start = *(const T *)c->in[0]->data, limit = *(const T *)c->in[1]->data,         \
            delta = *(const T *)c->in[2]->data;                                             \
    const double count = delta == 0 ? -1 : ((double)limit - (double)start) / (double)delta; \
    if (!(delta != 0) || count > 1e12) return bad(c, err, "a range without an end");        \
    const int64_t whole = count > 0 ? (int64_t)count : 0;                                   \
    const int64_t n = whole + (count > (double)whole);                                      \
    WF_RETURN_IF_ERROR(wf_op_make(c, 0, c->in[0]->dtype, 1, &n, err));                      \
    T v = start;                                                                            \
    for (int64_t i = 0; i < n; i++) {                                                       \
      ((T *)c->out[0].data)[i] = v;                                                         \
      v = (T)(v + delta);                                                                   \
    }                                                                                       \
    return WEFT_OK;                                                                         \
  }
#define I(NAME, T)                                                                         \
  case WF_DTYPE_##NAME: {                                                                  \
    const int64_t start = *(const T *)c->in[0]->data, limit = *(const T *)c->in[1]->data,  \
                  delta = *(const T *)c->in[2]->data;                                      \
    int64_t span = 0, n = 0;                                                               \
    if (delta == 0 || __builtin_sub_overflow(limit, start, &span) || delta == INT64_MIN) { \
      return bad(c, err, "a range without an end");                                        \
    }                                                                                      \
    if (delta > 0 && span > 0) n = (span - 1) / delta + 1;                                 \
    if (delta < 0 && span < 0) n = (-(span + 1)) / -delta + 1;                             \
    WF_RETURN_IF_ERROR(wf_op_make(c, 0, c->in[0]->dtype, 1, &n, err));                     \
    for (int64_t i = 0; i < n; i++) ((T *)c->out[0].data)[i] = (T)(start + i * delta);     \
    return WEFT_OK;                                                                        \
  }
  switch ((int)c->in[0]->dtype) {
    WF_FLOAT_TYPES(F)
    I(I16, int16_t)
    I(I32, int32_t)
    I(I64, int64_t)
    default:
      break;
  }
#undef I
#undef F
  return wf_op_fail(c, err, WEFT_UNSUPPORTED, "elements of type %s",
                    wf_dtype_name(c->in[0]->dtype));
}
