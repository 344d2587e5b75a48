/* SPDX-License-Identifier: Apache-2.0 */
/* The front of the integer products, their packing and their reference. */
#include "kernels/matmul_int.h"

#include <assert.h>
#include <math.h>

#include "base/mem.h"
#include "kernels/matmul_int_internal.h"

enum { MAGIC = 0x4954574d };

/* Best first; ref ends the search. variant_infos has the names in the same order. */
static const wf_int_variant variants[] = {
#if defined(__x86_64__)
    {WF_CPU_AVX512VNNI, wf_int_dots_avx512vnni},
    {WF_CPU_AVX2, wf_int_dots_avx2},
#endif
    {WF_CPU_REF, wf_int_dots_ref},
};
static const wf_int_variant_info variant_infos[] = {
#if defined(__x86_64__)
    {"int_avx512vnni", WF_CPU_AVX512VNNI},
    {"int_avx2", WF_CPU_AVX2},
#endif
    {"int_ref", WF_CPU_REF},
};
_Static_assert(WF_ARRAY_LEN(variants) == WF_ARRAY_LEN(variant_infos), "a name for each variant");

const wf_int_variant_info *wf_int_variants(size_t *n) {
  *n = WF_ARRAY_LEN(variant_infos);
  return variant_infos;
}

/* ---- packing ------------------------------------------------------------------------------- */

weft_status wf_int_plan(wf_int_weight *w, int64_t n, int64_t k, wf_cpu_level level,
                        size_t *packed_bytes, weft_error *err) {
  size_t bytes;

  *w = (wf_int_weight){.n = n, .k = k};
  *packed_bytes = 0;
  if (n < 1 || k < 1 || n > INT32_MAX || k > INT32_MAX ||
      !wf_size_mul((size_t)n + WF_INT_NR, (size_t)k + 64, &bytes) ||
      !wf_size_mul(bytes, 16, &bytes)) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "check the weight's shape in the model file",
                   "an integer weight of %lld by %lld cannot be packed", (long long)k,
                   (long long)n);
  }
  for (size_t i = 0; i < WF_ARRAY_LEN(variants) && !w->variant; i++) {
    if (wf_cpu_has(level, variants[i].needs)) w->variant = &variants[i];
  }
  assert(w->variant);
  const size_t k4 = ((size_t)k + 3) / 4 * 4, groups = ((size_t)n + WF_INT_NR - 1) / WF_INT_NR;
  w->bytes = sizeof(wf_int_header) + groups * (k4 * WF_INT_NR + sizeof(wf_int_columns));
  *packed_bytes = w->bytes;
  return WEFT_OK;
}

static void fill_group(const wf_int_header *h, const wf_int_desc *d, int64_t n0, uint8_t *group) {
  wf_int_columns *c = (wf_int_columns *)(void *)(group + h->k4 * WF_INT_NR);
  const int64_t count = d->n - n0 < WF_INT_NR ? d->n - n0 : WF_INT_NR;
  const int flip = d->is_signed ? 0 : 0x80;

  for (int64_t k = 0; k < d->k; k++) {
    const uint8_t *from = d->data + k * d->n + n0;
    uint8_t *to = group + k / 4 * 4 * WF_INT_NR + k % 4;
    for (int64_t j = 0; j < count; j++) {
      to[j * 4] = (uint8_t)(from[j] ^ flip);
      const int32_t w = (int8_t)to[j * 4];
      c->sum[j] += (uint32_t)w;
    }
  }
  for (int64_t j = 0; j < count; j++) {
    const uint8_t zero = d->zeros ? d->zeros[d->n_zeros == 1 ? 0 : n0 + j] : 0;
    const int32_t stored = (int8_t)(zero ^ flip);
    c->zero[j] = (uint32_t)stored;
    c->scale[j] = d->scales[d->n_scales == 1 ? 0 : n0 + j];
    if (d->bias) c->bias[j] = d->bias[n0 + j];
  }
}

void wf_int_pack(wf_int_weight *w, const wf_int_desc *d, void *packed) {
  const int64_t k4 = (d->k + 3) / 4 * 4;
  const wf_int_header h = {.n = d->n,
                           .k = d->k,
                           .k4 = k4,
                           .group_bytes = (uint64_t)k4 * WF_INT_NR + sizeof(wf_int_columns),
                           .total_bytes = w->bytes,
                           .magic = MAGIC,
                           .has_bias = d->bias != NULL};
  uint8_t *group = (uint8_t *)packed + sizeof h;

  memset(packed, 0, w->bytes);
  memcpy(packed, &h, sizeof h);
  for (int64_t n0 = 0; n0 < d->n; n0 += WF_INT_NR, group += h.group_bytes) {
    fill_group(&h, d, n0, group);
  }
  wf_int_attach(w, packed);
}

void wf_int_attach(wf_int_weight *w, const void *packed) { w->data = packed; }

/* ---- activations --------------------------------------------------------------------------- */

void wf_int_widen(wf_cpu_level level, const float *x, int64_t n, float *low, float *high) {
  int64_t i = 0;
#if defined(__x86_64__)
  if (wf_cpu_has(level, WF_CPU_AVX2)) {
    wf_int_widen_avx2(x, n, low, high);
    i = n / 8 * 8;
  }
#else
  (void)level;
#endif
  for (; i < n; i++) {
    if (x[i] < *low) *low = x[i];
    if (x[i] > *high) *high = x[i];
  }
}

wf_int_range wf_int_range_of(float low, float high) {
  wf_int_range r = {.scale = (high - low) / 255.0F};
  if (r.scale == 0) r.scale = 1;
  const float zero = nearbyintf(-low / r.scale);
  r.zero = (uint8_t)(zero > 0 ? zero > 255 ? 255 : (int)zero : 0); /* infinite ranges: 0 */
  return r;
}

void wf_int_codes(wf_cpu_level level, wf_int_range range, const float *x, int64_t n,
                  uint8_t *codes) {
  int64_t i = 0;
#if defined(__x86_64__)
  if (wf_cpu_has(level, WF_CPU_AVX2)) i = wf_int_codes_avx2(range, x, n, codes);
#else
  (void)level;
#endif
  for (; i < n; i++) {
    const float q = nearbyintf(x[i] / range.scale) + (float)range.zero;
    codes[i] = (uint8_t)(q > 0 ? q > 255 ? 255 : (int)q : 0);
  }
}

size_t wf_int_act_bytes(int64_t k, int64_t m) { return (size_t)m * wf_int_stride(k); }

void wf_int_act(wf_cpu_level level, wf_int_range range, int64_t k, int64_t m_begin, int64_t m_end,
                const float *x, void *act) {
  const size_t stride = wf_int_stride(k);

  for (int64_t r = m_begin; r < m_end; r++) {
    uint8_t *row = (uint8_t *)act + (size_t)r * stride;
    uint32_t sum = 0;
    wf_int_codes(level, range, x + r * k, k, row);
    for (int64_t i = 0; i < k; i++) sum += row[i];
    memset(row + k, 0, stride - (size_t)k);
    memcpy(row + stride - WF_INT_TAIL, &sum, sizeof sum);
  }
}

/* ---- products ------------------------------------------------------------------------------ */

void wf_int_dots_ref(const wf_int_header *h, const uint8_t *group, int64_t rows, const uint8_t *act,
                     size_t stride, uint32_t *acc) {
  memset(acc, 0, (size_t)rows * WF_INT_NR * sizeof *acc);
  for (int64_t r = 0; r < rows; r++) {
    const uint8_t *x = act + (size_t)r * stride;
    for (int64_t k = 0; k < h->k4; k += 4) {
      for (int64_t j = 0; j < WF_INT_NR * 4; j++) {
        const int w = (int8_t)group[k * WF_INT_NR + j];
        acc[r * WF_INT_NR + j / 4] += (uint32_t)(w * x[k + j % 4]);
      }
    }
  }
}

/* What remains of sum (a - za) (b - zb) once sum a b is known, and the floats. */
static void store(const wf_int_header *h, const wf_int_columns *c, wf_int_range range,
                  uint32_t row_sum, const uint32_t *acc, float *y, int64_t count) {
  const uint32_t za = range.zero, k = (uint32_t)h->k;
  float v[WF_INT_NR];

  for (int j = 0; j < WF_INT_NR; j++) {
    const uint32_t sum = acc[j] - za * c->sum[j] - c->zero[j] * (row_sum - k * za);
    v[j] = (float)(int32_t)sum * (range.scale * c->scale[j]);
  }
  if (h->has_bias) {
    for (int j = 0; j < WF_INT_NR; j++) v[j] += c->bias[j];
  }
  memcpy(y, v, (size_t)count * sizeof *y);
}

void wf_int_run(const wf_int_weight *w, wf_int_range range, int64_t m, const void *act, float *y,
                int64_t n_begin, int64_t n_end) {
  const wf_int_header *h = w->data;
  const size_t stride = wf_int_stride(h->k);
  uint32_t acc[WF_INT_MAX_ROWS * WF_INT_NR] WF_ALIGNED(64);

  assert(n_begin % WF_INT_NR == 0 && n_end <= h->n);
  for (int64_t n0 = n_begin; n0 < n_end; n0 += WF_INT_NR) {
    const uint8_t *group =
        (const uint8_t *)h + sizeof *h + (size_t)(n0 / WF_INT_NR) * h->group_bytes;
    const wf_int_columns *c = (const wf_int_columns *)(const void *)(group + h->k4 * WF_INT_NR);
    const int64_t count = n_end - n0 < WF_INT_NR ? n_end - n0 : WF_INT_NR;
    for (int64_t r0 = 0; r0 < m; r0 += WF_INT_MAX_ROWS) {
      const int64_t rows = m - r0 < WF_INT_MAX_ROWS ? m - r0 : WF_INT_MAX_ROWS;
      const uint8_t *x = (const uint8_t *)act + (size_t)r0 * stride;
      w->variant->dots(h, group, rows, x, stride, acc);
      for (int64_t r = 0; r < rows; r++) {
        uint32_t row_sum;
        memcpy(&row_sum, x + (size_t)(r + 1) * stride - WF_INT_TAIL, sizeof row_sum);
        store(h, c, range, row_sum, acc + r * WF_INT_NR, y + (r0 + r) * h->n + n0, count);
      }
    }
  }
}
