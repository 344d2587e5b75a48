/* SPDX-License-Identifier: Apache-2.0 */
/* The x86 vector types and intrinsics that the ISA files of this directory use, from the compiler,
 * or, where WF_EMULATE_AVX512 is defined, AVX-512's from SIMDe: so that a kernel for a CPU that
 * nobody has at hand is still run against its reference. The emulation needs AVX2, FMA and F16C.
 * Only *_avx2.c and *_avx512*.c include this. */
#ifndef WF_KERNELS_SIMD_X86_H
#define WF_KERNELS_SIMD_X86_H

#include <stdint.h>
#include <string.h>

#include "base/compiler.h"

#ifdef WF_EMULATE_AVX512

/* SIMDe's own code does not keep this project's warnings. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#ifdef __clang__
#pragma clang diagnostic ignored "-Wunknown-warning-option"
#endif
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <immintrin.h>
#include <simde/x86/avx2.h>
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>
#pragma GCC diagnostic pop

/* SIMDe 0.7.4 names its masked form by this. */
#undef _mm512_madd_epi16
#define _mm512_madd_epi16(a, b) simde_mm512_madd_epi16(a, b)

/* What SIMDe lacks. Lanes that the mask leaves out are not read, so that a kernel which relies on
 * the hardware not to fault is tested for just that. */
static inline __m512 wf_emu_maskz_loadu_ps(uint16_t mask, const float *p) {
  float lane[16];

  for (int i = 0; i < 16; i++) {
    lane[i] = 0.0f;
    if (mask >> i & 1) memcpy(&lane[i], p + i, sizeof lane[i]);
  }
  return simde_mm512_loadu_ps(lane);
}
static inline void wf_emu_mask_storeu_ps(float *p, uint16_t mask, __m512 v) {
  float lane[16];

  simde_mm512_storeu_ps(lane, v);
  for (int i = 0; i < 16; i++) {
    if (mask >> i & 1) memcpy(p + i, &lane[i], sizeof lane[i]);
  }
}
static inline __m512 wf_emu_cvtph_ps(__m256i v) {
  float lane[16];

  _mm256_storeu_ps(lane, _mm256_cvtph_ps(_mm256_castsi256_si128(v)));
  _mm256_storeu_ps(lane + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(v, 1)));
  return simde_mm512_loadu_ps(lane);
}
static inline __m512 wf_emu_cvtepi32_ps(__m512i v) {
  int32_t from[16];
  float to[16];

  simde_mm512_storeu_si512(from, v);
  for (int i = 0; i < 16; i++) to[i] = (float)from[i];
  return simde_mm512_loadu_ps(to);
}
static inline __m512i wf_emu_srai_epi32(__m512i v, int count) {
  int32_t lane[16];

  simde_mm512_storeu_si512(lane, v);
  for (int i = 0; i < 16; i++) lane[i] >>= count;
  return simde_mm512_loadu_si512(lane);
}
static inline __m512i wf_emu_cvtepu16_epi32(__m256i v) {
  uint16_t from[16];
  uint32_t to[16];

  _mm256_storeu_si256((__m256i *)(void *)from, v);
  for (int i = 0; i < 16; i++) to[i] = from[i];
  return simde_mm512_loadu_si512(to);
}
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32(v) wf_emu_cvtepu16_epi32(v)
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps(v) wf_emu_cvtepi32_ps(v)
#undef _mm512_srai_epi32
#define _mm512_srai_epi32(v, count) wf_emu_srai_epi32((v), (count))
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps(v) wf_emu_cvtph_ps(v)
#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps(mask, p) wf_emu_maskz_loadu_ps((uint16_t)(mask), (p))
#undef _mm512_mask_storeu_ps
#define _mm512_mask_storeu_ps(p, mask, v) wf_emu_mask_storeu_ps((p), (uint16_t)(mask), (v))

/* Emulated vectors are memory: unrolling their loops only makes a compilation take minutes. */
#undef WF_UNROLL_ALL
#define WF_UNROLL_ALL

/* A kernel in a *_avx512*.c file is named through this, so that the real and the emulated build
 * of one file can be linked into one program. */
#define WF_KERNEL(name) name##_emu

#else

#include <immintrin.h>
#define WF_KERNEL(name) name

#endif

#endif
