/* SPDX-License-Identifier: Apache-2.0 */
/* The vector words that attention_body.h, elementwise_body.h and vecmath.h are written in, for
 * AVX2: VF_N floats in a vf. vec_avx512.h and vec_neon.h define the same words. v_min and v_max
 * give their SECOND operand when either is NaN on x86 and NaN on Arm: a bound goes first, so NaN
 * comes through. Words ending in _n touch n < VF_N elements of memory; missing lanes read as 0. */
#ifndef WF_KERNELS_VEC_AVX2_H
#define WF_KERNELS_VEC_AVX2_H

#include "base/compiler.h"
#include "kernels/simd_x86.h"

enum { VF_N = 8, VF_REGISTERS = 16 };
typedef __m256 vf;
typedef __m256 vm; /* a lane mask */

WF_INLINE vf v_set1(float x) { return _mm256_set1_ps(x); }
WF_INLINE vf v_zero(void) { return _mm256_setzero_ps(); }
WF_INLINE vf v_load(const float *p) { return _mm256_loadu_ps(p); }
WF_INLINE void v_store(float *p, vf v) { _mm256_storeu_ps(p, v); }
WF_INLINE vf v_add(vf a, vf b) { return _mm256_add_ps(a, b); }
WF_INLINE vf v_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
WF_INLINE vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
WF_INLINE vf v_div(vf a, vf b) { return _mm256_div_ps(a, b); }
WF_INLINE vf v_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }   /* a * b + c */
WF_INLINE vf v_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); } /* c - a * b */
WF_INLINE vf v_min(vf a, vf b) { return _mm256_min_ps(a, b); }
WF_INLINE vf v_max(vf a, vf b) { return _mm256_max_ps(a, b); }
WF_INLINE vf v_sqrt(vf a) { return _mm256_sqrt_ps(a); }
WF_INLINE vf v_neg(vf a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }
WF_INLINE vf v_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
/* |a| with the sign of b */
WF_INLINE vf v_copysign(vf a, vf b) {
  return _mm256_or_ps(v_abs(a), _mm256_and_ps(b, _mm256_set1_ps(-0.0f)));
}
WF_INLINE vf v_round(vf a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
WF_INLINE vf v_floor(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
WF_INLINE vf v_ceil(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
WF_INLINE vm v_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
WF_INLINE vm v_eq(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
WF_INLINE vm v_ge(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_GE_OQ); }
WF_INLINE vm v_and(vm a, vm b) { return _mm256_and_ps(a, b); }
WF_INLINE uint32_t v_bits(vm m) { return (uint32_t)_mm256_movemask_ps(m); }
WF_INLINE vf v_select(vm m, vf yes, vf no) { return _mm256_blendv_ps(no, yes, m); }
WF_INLINE vf v_iota(void) { return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7); }

/* 2^n for whole n in [-126, 127] */
WF_INLINE vf v_pow2(vf n) {
  /* the sum's low bits are n + 127; shifted up they are the exponent */
  const __m256i e = _mm256_castps_si256(v_add(n, v_set1(0x1.8p23f + 127.0f)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(e, 23));
}
/* p * 2^n where t = 0x1.8p23 + n; the result must be a normal number */
WF_INLINE vf v_scale(vf p, vf t) {
  const __m256i e = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
  return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), e));
}

WF_INLINE __m256i tail_mask(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
WF_INLINE vf v_load_n(const float *p, int64_t n) { return _mm256_maskload_ps(p, tail_mask(n)); }
WF_INLINE void v_store_n(float *p, vf v, int64_t n) { _mm256_maskstore_ps(p, tail_mask(n), v); }

WF_INLINE float v_sum(vf v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
WF_INLINE float v_hmax(vf v) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
WF_INLINE float v_first(vf v) { return _mm256_cvtss_f32(v); }

WF_INLINE vf v_from_f16(const void *p) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
WF_INLINE void v_to_f16(void *p, vf v) {
  _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
WF_INLINE vf v_from_i8(const void *p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
/* whole v in [-128, 127] */
WF_INLINE void v_to_i8(void *p, vf v) {
  const __m256i i = _mm256_cvtps_epi32(v);
  const __m128i w = _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1));
  _mm_storel_epi64((__m128i *)p, _mm_packs_epi16(w, w));
}
WF_INLINE vf v_from_bf16(const void *p) {
  const __m256i w = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
}
WF_INLINE void v_to_bf16(void *p, vf v) {
  const __m256i u = _mm256_castps_si256(v), top = _mm256_srli_epi32(u, 16);
  const __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(top, _mm256_set1_epi32(0x40));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i r = _mm256_blendv_epi8(_mm256_srli_epi32(up, 16), quiet, is_nan);
  _mm_storeu_si128((__m128i *)p,
                   _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1)));
}

#endif
