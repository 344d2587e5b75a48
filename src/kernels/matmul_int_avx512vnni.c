/* SPDX-License-Identifier: Apache-2.0 */
/* Integer products for AVX-512 with VNNI: four k of sixteen columns a vector. The sums are exact,
 * so one row may use several accumulators to hide the latency. */
#include "kernels/matmul_int_internal.h"
#include "kernels/simd_x86.h"

WF_INLINE __m512i codes_of(const uint8_t *p) {
  int32_t v;

  memcpy(&v, p, sizeof v);
  return _mm512_set1_epi32(v);
}

WF_INLINE __m512i weights_of(const uint8_t *group, int64_t k) {
  return _mm512_loadu_si512((const void *)(group + k * WF_INT_NR));
}

/* One row: four accumulators over K. */
static void dots_1(const wf_int_header *h, const uint8_t *group, const uint8_t *x, uint32_t *acc) {
  __m512i sum[4];
  int64_t k = 0;

  for (int i = 0; i < 4; i++) sum[i] = _mm512_setzero_si512();
  for (; k + 16 <= h->k4; k += 16) {
    WF_UNROLL_ALL
    for (int i = 0; i < 4; i++) {
      sum[i] = _mm512_dpbusd_epi32(sum[i], codes_of(x + k + i * 4), weights_of(group, k + i * 4));
    }
  }
  for (; k < h->k4; k += 4) {
    sum[0] = _mm512_dpbusd_epi32(sum[0], codes_of(x + k), weights_of(group, k));
  }
  sum[0] = _mm512_add_epi32(_mm512_add_epi32(sum[0], sum[1]), _mm512_add_epi32(sum[2], sum[3]));
  _mm512_storeu_si512((void *)acc, sum[0]);
}

WF_INLINE void dots(const wf_int_header *h, const uint8_t *group, const int rows, const uint8_t *x,
                    size_t stride, uint32_t *acc) {
  __m512i sum[WF_INT_MAX_ROWS];

  WF_UNROLL_ALL
  for (int r = 0; r < rows; r++) sum[r] = _mm512_setzero_si512();
  for (int64_t k = 0; k < h->k4; k += 4) {
    const __m512i w = weights_of(group, k);
    WF_UNROLL_ALL
    for (int r = 0; r < rows; r++) {
      sum[r] = _mm512_dpbusd_epi32(sum[r], codes_of(x + (size_t)r * stride + k), w);
    }
  }
  WF_UNROLL_ALL
  for (int r = 0; r < rows; r++) _mm512_storeu_si512((void *)(acc + r * WF_INT_NR), sum[r]);
}

void wf_int_dots_avx512vnni(const wf_int_header *h, const uint8_t *group, int64_t rows,
                            const uint8_t *act, size_t stride, uint32_t *acc) {
  int64_t r = 0;

  if (rows == 8) {
    dots(h, group, 8, act, stride, acc);
    return;
  }
  if (rows >= 4) {
    dots(h, group, 4, act, stride, acc);
    r = 4;
  }
  for (; r < rows; r++) dots_1(h, group, act + (size_t)r * stride, acc + r * WF_INT_NR);
}
