/* SPDX-License-Identifier: Apache-2.0 */
/* What all operators share: held types, outputs, axes, broadcasting, refusals. */
#include "backend/native/op.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/elementwise.h"

wf_dtype wf_dtype_held(wf_dtype t) {
  switch (t) {
    case WF_DTYPE_F16:
    case WF_DTYPE_BF16:
      return WF_DTYPE_F32;
    case WF_DTYPE_U4:
    case WF_DTYPE_U2:
      return WF_DTYPE_U8;
    case WF_DTYPE_I4:
    case WF_DTYPE_I2:
      return WF_DTYPE_I8;
    case WF_DTYPE_F8E4M3FN:
    case WF_DTYPE_F8E4M3FNUZ:
    case WF_DTYPE_F8E5M2:
    case WF_DTYPE_F8E5M2FNUZ:
    case WF_DTYPE_F4E2M1:
    case WF_DTYPE_F8E8M0:
    case WF_DTYPE_F6E2M3:
    case WF_DTYPE_F6E3M2:
    case WF_DTYPE_STRING:
    case WF_DTYPE_C64:
    case WF_DTYPE_C128:
    case WF_DTYPE_UNDEFINED:
    case WF_DTYPE_COUNT:
      return WF_DTYPE_UNDEFINED;
    case WF_DTYPE_F32:
    case WF_DTYPE_U8:
    case WF_DTYPE_I8:
    case WF_DTYPE_U16:
    case WF_DTYPE_I16:
    case WF_DTYPE_I32:
    case WF_DTYPE_I64:
    case WF_DTYPE_BOOL:
    case WF_DTYPE_F64:
    case WF_DTYPE_U32:
    case WF_DTYPE_U64:
      return t;
  }
  return WF_DTYPE_UNDEFINED;
}

size_t wf_held_bytes(wf_dtype t) {
  return wf_dtype_held(t) == t && t != WF_DTYPE_UNDEFINED ? (size_t)wf_dtype_bits(t) / 8 : 0;
}

int64_t wf_view_count(const wf_view *v) { return wf_dims_product(v->dims, 0, v->rank); }

weft_status wf_hold(wf_cpu_level level, wf_dtype stored, const void *src, size_t n, void *dst,
                    weft_error *err) {
  const wf_dtype held = wf_dtype_held(stored);
  if (n == 0) return WEFT_OK;
  if (held == WF_DTYPE_UNDEFINED || !src) {
    return wf_fail(err, WEFT_UNSUPPORTED, "", "a tensor of type %s", wf_dtype_name(stored));
  }
  if (held == stored) {
    memcpy(dst, src, n * wf_held_bytes(held));
    return WEFT_OK;
  }
  if (stored == WF_DTYPE_F16 || stored == WF_DTYPE_BF16) {
    /* the kernels allow unaligned input, but C wants the pointer type to be honest */
    const uint16_t *halves = src;
    (stored == WF_DTYPE_F16 ? wf_f16_to_f32 : wf_bf16_to_f32)(level, (int64_t)n, halves, dst);
    return WEFT_OK;
  }
  const int bits = wf_dtype_bits(stored), per_byte = 8 / bits;
  const uint8_t *p = src;
  uint8_t *to = dst;
  const int top = 1 << (bits - 1);
  for (size_t i = 0; i < n; i++) {
    int v = p[i / (size_t)per_byte] >> ((int)(i % (size_t)per_byte) * bits) & (2 * top - 1);
    if (wf_dtype_is_signed(stored) && v >= top) v -= 2 * top;
    to[i] = (uint8_t)v;
  }
  return WEFT_OK;
}

weft_status wf_unhold(wf_cpu_level level, wf_dtype stored, const void *src, size_t n, void *dst,
                      weft_error *err) {
  const wf_dtype held = wf_dtype_held(stored);
  if (n == 0) return WEFT_OK;
  if (held == WF_DTYPE_UNDEFINED) {
    return wf_fail(err, WEFT_UNSUPPORTED, "", "a tensor of type %s", wf_dtype_name(stored));
  }
  if (held == stored) {
    memcpy(dst, src, n * wf_held_bytes(held));
    return WEFT_OK;
  }
  if (stored == WF_DTYPE_F16 || stored == WF_DTYPE_BF16) {
    (stored == WF_DTYPE_F16 ? wf_f32_to_f16 : wf_f32_to_bf16)(level, (int64_t)n, src, dst);
    return WEFT_OK;
  }
  const int bits = wf_dtype_bits(stored), per_byte = 8 / bits;
  const bool is_signed = wf_dtype_is_signed(stored);
  const int low = is_signed ? -(1 << (bits - 1)) : 0;
  const int high = is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1;
  uint8_t *to = dst;
  memset(to, 0, (n + (size_t)per_byte - 1) / (size_t)per_byte);
  for (size_t i = 0; i < n; i++) {
    int v = is_signed ? (int)((const int8_t *)src)[i] : (int)((const uint8_t *)src)[i];
    v = v < low ? low : v > high ? high : v;
    to[i / (size_t)per_byte] |=
        (uint8_t)((v & ((1 << bits) - 1)) << ((int)(i % (size_t)per_byte) * bits));
  }
  return WEFT_OK;
}

/* ---- outputs
 * --------------------------------------------------------------------------------------- */

weft_status wf_op_make(wf_op_call *c, int32_t i, wf_dtype dtype, int32_t rank, const int64_t *dims,
                       weft_error *err) {
  size_t n = 1, n_bytes = 0;
  if (rank > WF_VIEW_MAX_RANK) {
    return wf_op_fail(c, err, WEFT_UNSUPPORTED, "its result would have rank %d", (int)rank);
  }
  wf_view *v = &c->out[i];
  *v = (wf_view){.dtype = dtype, .rank = rank};
  for (int32_t j = 0; j < rank; j++) v->dims[j] = dims[j];
  if (!wf_dims_count(v->dims, (size_t)rank, &n) ||
      !wf_size_mul(n, wf_held_bytes(dtype), &n_bytes)) {
    return wf_op_fail(c, err, WEFT_LIMIT, "its result has a size that overflows");
  }
  /* An output nobody reads is still written to by its operator. */
  return wf_op_wants(c, i) ? c->env->make(c->env->user, i, n_bytes, &v->data, err)
                           : wf_op_scratch(c, n_bytes, &v->data, err);
}

void wf_op_alias(wf_op_call *c, int32_t i, int32_t in, int32_t rank, const int64_t *dims) {
  if (!wf_op_wants(c, i)) return;
  wf_view *v = &c->out[i];
  *v = (wf_view){.dtype = c->in[in]->dtype, .rank = rank, .data = c->in[in]->data};
  for (int32_t j = 0; j < rank; j++) v->dims[j] = dims[j];
  c->alias[i] = in;
}

weft_status wf_op_scratch(wf_op_call *c, size_t n_bytes, void **data, weft_error *err) {
  return c->env->scratch(c->env->user, n_bytes ? n_bytes : 1, data, err);
}

void wf_op_share(const wf_op_call *c, wf_team_fn *fn, void *arg) {
  const wf_member alone = {.n = 1};
  if (c->env->team)
    wf_team_run(c->env->team, fn, arg);
  else
    fn(&alone, arg);
}

/* ---- refusals
 * ---------------------------------------------------------------------------------------- */

weft_status wf_op_fail(const wf_op_call *c, weft_error *err, weft_status status, const char *fmt,
                       ...) {
  char text[256];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  const wf_node *n = c->node;
  return wf_fail(err, status, "", "operator %.*s (node '%.*s'): %s", (int)n->op_type.n,
                 n->op_type.at ? n->op_type.at : "", (int)n->name.n, n->name.at ? n->name.at : "",
                 text);
}

weft_status wf_op_misfit(const wf_op_call *c, const char *what, weft_error *err) {
  return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT, "%s does not fit", what);
}

weft_status wf_op_need(const wf_op_call *c, int32_t n, weft_error *err) {
  for (int32_t i = 0; i < n; i++) {
    if (!wf_op_in(c, i)) {
      return wf_op_fail(c, err, WEFT_PACKAGE_INVALID, "input %d is missing", (int)i);
    }
  }
  return WEFT_OK;
}

weft_status wf_op_ints(const wf_op_call *c, const wf_view *v, int64_t *result, size_t max,
                       size_t *n, weft_error *err) {
  const int64_t count = wf_view_count(v);
  if (count < 0 || (uint64_t)count > max) {
    return wf_op_fail(c, err, WEFT_LIMIT, "a list of %lld integers, at most %zu are expected",
                      (long long)count, max);
  }
  *n = (size_t)count;
  for (int64_t i = 0; i < count; i++) {
    switch ((int)v->dtype) {
      case WF_DTYPE_I64:
        result[i] = ((const int64_t *)v->data)[i];
        break;
      case WF_DTYPE_I32:
        result[i] = ((const int32_t *)v->data)[i];
        break;
      case WF_DTYPE_U8:
        result[i] = ((const uint8_t *)v->data)[i];
        break;
      case WF_DTYPE_I8:
        result[i] = ((const int8_t *)v->data)[i];
        break;
      case WF_DTYPE_U64:
        result[i] = (int64_t)((const uint64_t *)v->data)[i];
        break;
      case WF_DTYPE_U32:
        result[i] = ((const uint32_t *)v->data)[i];
        break;
      case WF_DTYPE_I16:
        result[i] = ((const int16_t *)v->data)[i];
        break;
      case WF_DTYPE_U16:
        result[i] = ((const uint16_t *)v->data)[i];
        break;
      default:
        return wf_op_fail(c, err, WEFT_PACKAGE_INVALID, "integers are expected, not %s",
                          wf_dtype_name(v->dtype));
    }
  }
  return WEFT_OK;
}

weft_status wf_op_axis(const wf_op_call *c, int64_t axis, int32_t rank, int32_t *result,
                       weft_error *err) {
  if (axis < -rank || axis >= rank) {
    return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT, "axis %lld of a tensor of rank %d",
                      (long long)axis, (int)rank);
  }
  *result = (int32_t)(axis < 0 ? axis + rank : axis);
  return WEFT_OK;
}

weft_status wf_op_broadcast(const wf_op_call *c, const wf_view *a, int32_t *rank, int64_t *dims,
                            weft_error *err) {
  if (a->rank > *rank) {
    const int32_t shift = a->rank - *rank;
    for (int32_t i = a->rank; i-- > 0;) dims[i] = i >= shift ? dims[i - shift] : 1;
    *rank = a->rank;
  }
  for (int32_t i = 0; i < a->rank; i++) {
    int64_t *d = &dims[*rank - a->rank + i];
    if (*d == 1) {
      *d = a->dims[i];
    } else if (a->dims[i] != 1 && a->dims[i] != *d) {
      return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT, "shapes do not broadcast: %lld against %lld",
                        (long long)a->dims[i], (long long)*d);
    }
  }
  return WEFT_OK;
}

void wf_op_broadcast_strides(const wf_view *v, int32_t rank, int64_t *strides) {
  int64_t step = 1;
  for (int32_t i = rank; i-- > 0;) {
    const int32_t j = i - (rank - v->rank);
    strides[i] = j < 0 || v->dims[j] == 1 ? 0 : step;
    if (j >= 0) step *= v->dims[j];
  }
}
