/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "engine/verify.h"
#include "kernels/elementwise.h"

static double element(const wf_view *v, int64_t i) {
  const unsigned char *p = v->data;
  float f;
  double d;
  uint16_t h;
  uint32_t u;
  int64_t x = 0;
  const size_t size = (size_t)wf_dtype_bits(v->dtype) / 8;
  switch ((int)v->dtype) { /* int: other types are read as integers below */
    case WF_DTYPE_F32:
      memcpy(&f, p + i * 4, sizeof f);
      return (double)f;
    case WF_DTYPE_F64:
      memcpy(&d, p + i * 8, sizeof d);
      return d;
    case WF_DTYPE_F16:
      memcpy(&h, p + i * 2, sizeof h);
      return (double)wf_f16_value(h);
    case WF_DTYPE_BF16:
      memcpy(&h, p + i * 2, sizeof h);
      u = (uint32_t)h << 16;
      memcpy(&f, &u, sizeof f);
      return (double)f;
    default:
      break;
  }
  if (size == 0 || size > 8) return 0.0;
  memcpy(&x, p + (size_t)i * size, size);
  if (wf_dtype_is_signed(v->dtype) && size < 8) {
    const int shift = 64 - (int)size * 8;
    x = (int64_t)((uint64_t)x << shift) >> shift;
  }
  return wf_dtype_is_signed(v->dtype) ? (double)x : (double)(uint64_t)x;
}

/* What two right answers of a half-precision type may differ by, over the largest value: one
 * runtime rounds each step of a deep graph, the other computes in fp32. */
static double floor_of(wf_dtype t) {
  return t == WF_DTYPE_F16 ? 2e-2 : t == WF_DTYPE_BF16 ? 5e-2 : 0.0;
}

static bool is_float(wf_dtype t) {
  return t == WF_DTYPE_F32 || t == WF_DTYPE_F64 || t == WF_DTYPE_F16 || t == WF_DTYPE_BF16;
}

double wf_verify_apart(double x, double y) {
  if (x == y || (isnan(x) && isnan(y))) return 0.0;
  return isfinite(x) && isfinite(y) ? fabs(x - y) : INFINITY;
}

static int64_t count(const wf_view *v) {
  int64_t n = 1;
  for (int32_t d = 0; d < v->rank; d++) n *= v->dims[d];
  return n;
}

verify_difference wf_verify_compare(const wf_view *a, const wf_view *b, bool is_quantised,
                                    double tolerance) {
  verify_difference r = {.is_comparable = a->dtype == b->dtype && a->rank == b->rank};
  for (int32_t d = 0; r.is_comparable && d < a->rank; d++) {
    r.is_comparable = a->dims[d] == b->dims[d];
  }
  if (!r.is_comparable) {
    r.error = INFINITY;
    return r;
  }
  r.is_code = !is_float(a->dtype);
  if (r.is_code) {
    r.bound = is_quantised ? 1.0 : 0.0;
  } else {
    r.bound = tolerance > floor_of(a->dtype) ? tolerance : floor_of(a->dtype);
  }
  const int64_t n = count(a);
  double range = 0.0, worst = 0.0;
  for (int64_t i = 0; i < n; i++) {
    const double y = element(b, i);
    if (isfinite(y) && fabs(y) > range) range = fabs(y);
  }
  for (int64_t i = 0; i < n; i++) {
    const double x = element(a, i), y = element(b, i);
    const double diff = wf_verify_apart(x, y);
    if (diff <= worst) continue;
    worst = diff;
    r.worst = i;
    r.a = x;
    r.b = y;
  }
  r.error = r.is_code || worst == 0.0 ? worst : range > 0.0 ? worst / range : INFINITY;
  return r;
}
