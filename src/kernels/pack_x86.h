/* SPDX-License-Identifier: Apache-2.0 */
/* Turning eight rows of eight elements into eight columns: both x86 levels use the 256-bit form,
 * because the shuffles of one 8x8 block cost the same as the loads they hide behind. */
#ifndef WF_KERNELS_PACK_X86_H
#define WF_KERNELS_PACK_X86_H

#include "base/compiler.h"
#include "kernels/attention.h"
#include "kernels/simd_x86.h"

enum { PACK_N = 8 };

WF_INLINE __m256 pack_load(const wf_kv_type type, const unsigned char *p, float scale) {
  if (type == WF_KV_F32) return _mm256_loadu_ps((const float *)(const void *)p);
  if (type == WF_KV_F16) return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
  const __m128i b = _mm_loadl_epi64((const __m128i *)(const void *)p);
  return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(b)), _mm256_set1_ps(scale));
}

/* row[i] points at 8 elements; column c goes to to[c * ld .. + 8). */
WF_INLINE void pack_block(const wf_kv_type type, const unsigned char *const row[PACK_N],
                          const float scale[PACK_N], size_t skip_bytes, float *to, int64_t ld) {
  __m256 r[PACK_N], t[PACK_N];
  WF_UNROLL_ALL
  for (int i = 0; i < PACK_N; i++) r[i] = pack_load(type, row[i] + skip_bytes, scale[i]);
  WF_UNROLL_ALL
  for (int i = 0; i < PACK_N; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  WF_UNROLL_ALL
  for (int i = 0; i < PACK_N; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  WF_UNROLL_ALL
  for (int i = 0; i < 4; i++) {
    _mm256_storeu_ps(to + i * ld, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * ld, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

#endif
