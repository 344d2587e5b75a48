/* SPDX-License-Identifier: Apache-2.0 */
/* The vector words for AVX-512 (F, BW, DQ, VL): 16 floats in a vf. Contract in vec_avx2.h. */
#ifndef WF_KERNELS_VEC_AVX512_H
#define WF_KERNELS_VEC_AVX512_H

#include "base/compiler.h"
#include "kernels/simd_x86.h"

enum { VF_N = 16, VF_REGISTERS = 32 };
typedef __m512 vf;
typedef __mmask16 vm;

WF_INLINE vf v_set1(float x) { return _mm512_set1_ps(x); }
WF_INLINE vf v_zero(void) { return _mm512_setzero_ps(); }
WF_INLINE vf v_load(const float *p) { return _mm512_loadu_ps(p); }
WF_INLINE void v_store(float *p, vf v) { _mm512_storeu_ps(p, v); }
WF_INLINE vf v_add(vf a, vf b) { return _mm512_add_ps(a, b); }
WF_INLINE vf v_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
WF_INLINE vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
WF_INLINE vf v_div(vf a, vf b) { return _mm512_div_ps(a, b); }
WF_INLINE vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
WF_INLINE vf v_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
WF_INLINE vf v_min(vf a, vf b) { return _mm512_min_ps(a, b); }
WF_INLINE vf v_max(vf a, vf b) { return _mm512_max_ps(a, b); }
WF_INLINE vf v_sqrt(vf a) { return _mm512_sqrt_ps(a); }
WF_INLINE vf v_neg(vf a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }
WF_INLINE vf v_abs(vf a) { return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), a); }
WF_INLINE vf v_copysign(vf a, vf b) {
  return _mm512_or_ps(v_abs(a), _mm512_and_ps(b, _mm512_set1_ps(-0.0f)));
}
WF_INLINE vf v_round(vf a) {
  return _mm512_roundscale_ps(a, (_MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
WF_INLINE vf v_floor(vf a) {
  return _mm512_roundscale_ps(a, (_MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
}
WF_INLINE vf v_ceil(vf a) {
  return _mm512_roundscale_ps(a, (_MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC));
}
WF_INLINE vm v_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
WF_INLINE vm v_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
WF_INLINE vm v_ge(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
WF_INLINE vm v_and(vm a, vm b) { return (vm)(a & b); }
WF_INLINE uint32_t v_bits(vm m) { return m; }
WF_INLINE vf v_select(vm m, vf yes, vf no) { return _mm512_mask_blend_ps(m, no, yes); }
WF_INLINE vf v_iota(void) {
  return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
WF_INLINE vf v_pow2(vf n) {
  /* the sum's low bits are n + 127; shifted up they are the exponent */
  const __m512i e = _mm512_castps_si512(v_add(n, v_set1(0x1.8p23f + 127.0f)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(e, 23));
}
/* p * 2^n where t = 0x1.8p23 + n; the result must be a normal number */
WF_INLINE vf v_scale(vf p, vf t) {
  const __m512i e = _mm512_slli_epi32(_mm512_castps_si512(t), 23);
  return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), e));
}

WF_INLINE __mmask16 tail_mask(int64_t n) { return (__mmask16)((1u << n) - 1u); }
WF_INLINE vf v_load_n(const float *p, int64_t n) { return _mm512_maskz_loadu_ps(tail_mask(n), p); }
WF_INLINE void v_store_n(float *p, vf v, int64_t n) { _mm512_mask_storeu_ps(p, tail_mask(n), v); }

/* Halves are taken apart by extracting 64-bit lanes, which needs no more than F. */
WF_INLINE __m256 v_low(vf v) { return _mm512_castps512_ps256(v); }
WF_INLINE __m256 v_high(vf v) {
  return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(v), 1));
}
WF_INLINE vf v_join(__m256 low, __m256 high) {
  return _mm512_castpd_ps(
      _mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(low)), _mm256_castps_pd(high), 1));
}
WF_INLINE float v_sum(vf v) {
  const __m256 h = _mm256_add_ps(v_low(v), v_high(v));
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
WF_INLINE float v_hmax(vf v) {
  const __m256 h = _mm256_max_ps(v_low(v), v_high(v));
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
WF_INLINE float v_first(vf v) { return _mm_cvtss_f32(_mm512_castps512_ps128(v)); }

WF_INLINE vf v_from_f16(const void *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
WF_INLINE void v_to_f16(void *p, vf v) {
  _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v_low(v), _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128((__m128i *)p + 1, _mm256_cvtps_ph(v_high(v), _MM_FROUND_TO_NEAREST_INT));
}
/* The 8-bit and 16-bit forms work on the 256-bit halves: they are a small part of any kernel here.
 */
WF_INLINE vf v_from_i8(const void *p) {
  const __m128i b = _mm_loadu_si128((const __m128i *)p);
  return v_join(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(b)),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_unpackhi_epi64(b, b))));
}
WF_INLINE void v_to_i8(void *p, vf v) {
  const __m256i a = _mm256_cvtps_epi32(v_low(v)), b = _mm256_cvtps_epi32(v_high(v));
  const __m256i w = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
  _mm_storeu_si128((__m128i *)p,
                   _mm_packs_epi16(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1)));
}
WF_INLINE __m256 half_from_bf16(const __m128i *p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}
WF_INLINE vf v_from_bf16(const void *p) {
  return v_join(half_from_bf16((const __m128i *)p), half_from_bf16((const __m128i *)p + 1));
}
WF_INLINE __m256i half_to_bf16(__m256 v) {
  const __m256i u = _mm256_castps_si256(v), top = _mm256_srli_epi32(u, 16);
  const __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(top, _mm256_set1_epi32(0x40));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(_mm256_srli_epi32(up, 16), quiet, is_nan);
}
WF_INLINE void v_to_bf16(void *p, vf v) {
  const __m256i w = _mm256_packus_epi32(half_to_bf16(v_low(v)), half_to_bf16(v_high(v)));
  _mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(w, 0xd8));
}

#endif
