/* SPDX-License-Identifier: Apache-2.0 */
/* Storing and computing small tensors. */
#include "graph/eval.h"

#include <string.h>

wf_tensor *eval_new_tensor(wf_arena *arena, wf_dtype dtype, int32_t rank, const int64_t *dims) {
  wf_tensor *t = wf_arena_alloc(arena, sizeof *t);
  int64_t *copy = wf_arena_calloc(arena, (size_t)rank, sizeof *copy);
  if (!t || !copy) return NULL;
  if (rank) memcpy(copy, dims, (size_t)rank * sizeof *copy);
  t->dtype = dtype;
  t->rank = rank;
  t->dims = copy;
  if (!wf_dims_count(copy, (size_t)rank, &t->n) || !wf_dtype_bytes(dtype, t->n, &t->n_bytes))
    return NULL;
  t->data = wf_arena_alloc(arena, t->n_bytes);
  return t->data ? t : NULL;
}

static bool is_in_range(wf_dtype t, int64_t v) {
  const int bits = wf_dtype_bits(t);
  if (t == WF_DTYPE_BOOL) return v == 0 || v == 1;
  if (bits == 64) return wf_dtype_is_signed(t) || v >= 0;
  if (wf_dtype_is_signed(t))
    return v >= -(INT64_C(1) << (bits - 1)) && v < INT64_C(1) << (bits - 1);
  return v >= 0 && v < INT64_C(1) << bits;
}

bool eval_store_i64(wf_tensor *t, size_t i, int64_t v) {
  if (wf_dtype_is_float(t->dtype)) return eval_store_f64(t, i, (double)v);
  if (wf_dtype_bits(t->dtype) < 8 || i >= t->n || !is_in_range(t->dtype, v)) return false;
  unsigned char *at = wf_unconst(t->data); /* the evaluator's own tensor */
  const size_t size = (size_t)wf_dtype_bits(t->dtype) / 8;
  memcpy(at + i * size, &v, size);
  return true;
}

/* Rounds to nearest even into a format of `mantissa` explicit bits and `bias`. */
static uint16_t to_half(double v) {
  uint16_t sign = 0;
  if (v < 0 || (v == 0 && 1 / v < 0)) sign = 0x8000, v = -v;
  if (v != v) return 0x7e00;
  if (v >= 65520) return (uint16_t)(sign | 0x7c00);
  int e = -14;
  double unit = 0x1p-24; /* of the last place */
  while (e < 15 && v >= 2 * 0x1p-14 * (double)(1 << (e + 14))) e++, unit *= 2;
  const double scaled = v / unit;
  int64_t m = (int64_t)scaled;
  const double rest = scaled - (double)m;
  if (rest > 0.5 || (rest == 0.5 && (m & 1))) m++;
  /* m has the hidden bit for normals: adding lets the rounding carry into the exponent. */
  return (uint16_t)(sign | (uint16_t)((e == -14 ? 0 : (e + 14) << 10) + m));
}

bool eval_store_f64(wf_tensor *t, size_t i, double v) {
  unsigned char *at = wf_unconst(t->data); /* the evaluator's own tensor */
  if (i >= t->n) return false;
  if (t->dtype == WF_DTYPE_F32) {
    const float f = (float)v;
    memcpy(at + 4 * i, &f, sizeof f);
  } else if (t->dtype == WF_DTYPE_F64) {
    memcpy(at + 8 * i, &v, sizeof v);
  } else if (t->dtype == WF_DTYPE_F16) {
    const uint16_t h = to_half(v);
    memcpy(at + 2 * i, &h, sizeof h);
  } else {
    return false;
  }
  return true;
}

weft_status eval_node(const wf_node *n, const wf_tensor *const *inputs, wf_arena *arena,
                      wf_tensor **outputs, weft_error *err) {
  (void)n;
  (void)inputs;
  (void)arena;
  (void)outputs;
  (void)err;
  return WEFT_UNSUPPORTED;
}
