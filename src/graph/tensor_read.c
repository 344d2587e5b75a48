/* SPDX-License-Identifier: Apache-2.0 */
/* Reading single elements of constants of any type. */
#include <math.h>
#include <string.h>

#include "graph/edit.h"
#include "graph/tensor_read.h"

double graph_half_to_f64(uint16_t h) {
  const int exponent = h >> 10 & 31;
  const double fraction = h & 1023;
  double v;
  if (exponent == 31)
    v = fraction != 0 ? NAN : INFINITY;
  else if (exponent == 0)
    v = ldexp(fraction, -24);
  else
    v = ldexp(fraction + 1024, exponent - 25);
  return h >> 15 ? -v : v;
}

double graph_bf16_to_f64(uint16_t h) {
  const uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, sizeof f);
  return (double)f;
}

bool graph_tensor_i64(const wf_tensor *t, size_t i, int64_t *v) {
  if (i >= t->n || !t->data) return false;
  const unsigned char *at = t->data;
  const int bits = wf_dtype_bits(t->dtype);
  if (!wf_dtype_is_int(t->dtype) && t->dtype != WF_DTYPE_BOOL) return false;
  uint64_t u = 0;
  if (bits < 8) {
    const size_t per_byte = (size_t)(8 / bits);
    u = (uint64_t)at[i / per_byte] >> (i % per_byte * (size_t)bits) & ((1u << bits) - 1);
  } else {
    const size_t size = (size_t)bits / 8;
    memcpy(&u, at + i * size, size);
  }
  if (wf_dtype_is_signed(t->dtype) && bits < 64 && (u >> (bits - 1) & 1)) u |= ~UINT64_C(0) << bits;
  if (t->dtype == WF_DTYPE_U64 && u > INT64_MAX) return false;
  *v = (int64_t)u;
  return true;
}

bool graph_tensor_f64(const wf_tensor *t, size_t i, double *v) {
  int64_t x;
  if (i >= t->n || !t->data) return false;
  const unsigned char *at = t->data;
  if (t->dtype == WF_DTYPE_F32) {
    float f;
    memcpy(&f, at + 4 * i, sizeof f);
    *v = (double)f;
    return true;
  }
  if (t->dtype == WF_DTYPE_F64) {
    memcpy(v, at + 8 * i, sizeof *v);
    return true;
  }
  if (t->dtype == WF_DTYPE_F16 || t->dtype == WF_DTYPE_BF16) {
    uint16_t h;
    memcpy(&h, at + 2 * i, sizeof h);
    *v = t->dtype == WF_DTYPE_F16 ? graph_half_to_f64(h) : graph_bf16_to_f64(h);
    return true;
  }
  if (!graph_tensor_i64(t, i, &x)) return false;
  *v = (double)x;
  return true;
}

bool graph_const_scalar(const wf_graph *g, int32_t value, double *v) {
  const wf_value *x = graph_value(g, value);
  return x && x->tensor && x->tensor->n == 1 && graph_tensor_f64(x->tensor, 0, v);
}

bool graph_const_ints(const wf_graph *g, int32_t value, int64_t *out, int32_t max, int32_t *n) {
  const wf_value *x = graph_value(g, value);
  if (!x) return false;
  if (x->n_content >= 0) { /* folded shape arithmetic counts as constant too */
    if (x->n_content > max) return false;
    for (int32_t i = 0; i < x->n_content; i++) {
      if (!wf_expr_is_const(g->exprs, x->content[i], &out[i])) return false;
    }
    *n = x->n_content;
    return true;
  }
  if (!x->tensor || x->tensor->n > (size_t)max) return false;
  for (size_t i = 0; i < x->tensor->n; i++) {
    if (!graph_tensor_i64(x->tensor, i, &out[i])) return false;
  }
  *n = (int32_t)x->tensor->n;
  return true;
}
