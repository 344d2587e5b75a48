/* SPDX-License-Identifier: Apache-2.0 */
/* Integer products and codes, AVX2. Bytes are widened to 16 bits, because maddubs would saturate at
 * 255 * 127 twice; a vector then holds four k of four columns. */
#include "kernels/matmul_int_internal.h"
#include "kernels/simd_x86.h"

WF_INLINE __m256i widen_w(const uint8_t *p) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p));
}

WF_INLINE __m256i four_codes(const uint8_t *p) {
  int32_t v;

  memcpy(&v, p, sizeof v);
  return _mm256_cvtepu8_epi16(_mm_set1_epi32(v));
}

/* Halves of columns 0 to 3 in one vector, 4 to 7 in the other: whole columns 0 to 7. */
WF_INLINE void store_8(uint32_t *acc, __m256i a, __m256i b) {
  const __m256i sum = _mm256_permute4x64_epi64(_mm256_hadd_epi32(a, b), 0xd8);
  _mm256_storeu_si256((__m256i *)(void *)acc, sum);
}

WF_INLINE void dots(const wf_int_header *h, const uint8_t *group, const int rows,
                    const uint8_t *act, size_t stride, uint32_t *acc) {
  __m256i sum[2][4];

  WF_UNROLL_ALL
  for (int r = 0; r < rows; r++) {
    WF_UNROLL_ALL
    for (int i = 0; i < 4; i++) sum[r][i] = _mm256_setzero_si256();
  }
  for (int64_t k = 0; k < h->k4; k += 4) {
    __m256i x[2];
    WF_UNROLL_ALL
    for (int r = 0; r < rows; r++) x[r] = four_codes(act + (size_t)r * stride + k);
    WF_UNROLL_ALL
    for (int i = 0; i < 4; i++) {
      const __m256i w = widen_w(group + k * WF_INT_NR + i * 16);
      WF_UNROLL_ALL
      for (int r = 0; r < rows; r++) {
        sum[r][i] = _mm256_add_epi32(sum[r][i], _mm256_madd_epi16(w, x[r]));
      }
    }
  }
  WF_UNROLL_ALL
  for (int r = 0; r < rows; r++) {
    store_8(acc + r * WF_INT_NR, sum[r][0], sum[r][1]);
    store_8(acc + r * WF_INT_NR + 8, sum[r][2], sum[r][3]);
  }
}

void wf_int_dots_avx2(const wf_int_header *h, const uint8_t *group, int64_t rows,
                      const uint8_t *act, size_t stride, uint32_t *acc) {
  int64_t r = 0;

  for (; r + 2 <= rows; r += 2) {
    dots(h, group, 2, act + (size_t)r * stride, stride, acc + r * WF_INT_NR);
  }
  if (r < rows) dots(h, group, 1, act + (size_t)r * stride, stride, acc + r * WF_INT_NR);
}

void wf_int_widen_avx2(const float *x, int64_t n, float *low, float *high) {
  __m256 least = _mm256_set1_ps(*low), most = _mm256_set1_ps(*high);
  float lane[2][8];

  /* Of an unordered pair min and max give the second operand: a NaN in x changes nothing. */
  for (int64_t i = 0; i + 8 <= n; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + i);
    least = _mm256_min_ps(v, least);
    most = _mm256_max_ps(v, most);
  }
  _mm256_storeu_ps(lane[0], least);
  _mm256_storeu_ps(lane[1], most);
  for (int i = 0; i < 8; i++) {
    if (lane[0][i] < *low) *low = lane[0][i];
    if (lane[1][i] > *high) *high = lane[1][i];
  }
}

int64_t wf_int_codes_avx2(wf_int_range range, const float *x, int64_t n, uint8_t *codes) {
  const __m256 scale = _mm256_set1_ps(range.scale), zero = _mm256_set1_ps((float)range.zero);
  int64_t i = 0;

  for (; i + 8 <= n; i += 8) {
    __m256 q = _mm256_div_ps(_mm256_loadu_ps(x + i), scale);
    q = _mm256_round_ps(q, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    q = _mm256_max_ps(_mm256_add_ps(q, zero), _mm256_setzero_ps()); /* a NaN becomes 0 */
    const __m256i v = _mm256_cvttps_epi32(_mm256_min_ps(q, _mm256_set1_ps(255.0f)));
    const __m128i words =
        _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((__m128i *)(void *)(codes + i), _mm_packus_epi16(words, words));
  }
  return i;
}
