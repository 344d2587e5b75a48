/* SPDX-License-Identifier: Apache-2.0 */
/* The vector words for AArch64's base instruction set: 4 floats in a vf. Contract in vec_avx2.h;
 * v_min and v_max are built to treat NaN as x86 does, so that one body is right on both. */
#ifndef WF_KERNELS_VEC_NEON_H
#define WF_KERNELS_VEC_NEON_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "kernels/attention.h"

enum { VF_N = 4, VF_REGISTERS = 32 };
typedef float32x4_t vf;
typedef uint32x4_t vm;

WF_INLINE vf v_set1(float x) { return vdupq_n_f32(x); }
WF_INLINE vf v_zero(void) { return vdupq_n_f32(0.0f); }
WF_INLINE vf v_load(const float *p) { return vld1q_f32(p); }
WF_INLINE void v_store(float *p, vf v) { vst1q_f32(p, v); }
WF_INLINE vf v_add(vf a, vf b) { return vaddq_f32(a, b); }
WF_INLINE vf v_sub(vf a, vf b) { return vsubq_f32(a, b); }
WF_INLINE vf v_mul(vf a, vf b) { return vmulq_f32(a, b); }
WF_INLINE vf v_div(vf a, vf b) { return vdivq_f32(a, b); }
WF_INLINE vf v_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
WF_INLINE vf v_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }
WF_INLINE vf v_min(vf a, vf b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
WF_INLINE vf v_max(vf a, vf b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
WF_INLINE vf v_sqrt(vf a) { return vsqrtq_f32(a); }
WF_INLINE vf v_neg(vf a) { return vnegq_f32(a); }
WF_INLINE vf v_abs(vf a) { return vabsq_f32(a); }
WF_INLINE vf v_copysign(vf a, vf b) { return vbslq_f32(vdupq_n_u32(0x80000000u), b, a); }
WF_INLINE vf v_round(vf a) { return vrndnq_f32(a); }
WF_INLINE vf v_floor(vf a) { return vrndmq_f32(a); }
WF_INLINE vf v_ceil(vf a) { return vrndpq_f32(a); }
WF_INLINE vm v_lt(vf a, vf b) { return vcltq_f32(a, b); }
WF_INLINE vm v_eq(vf a, vf b) { return vceqq_f32(a, b); }
WF_INLINE vm v_ge(vf a, vf b) { return vcgeq_f32(a, b); }
WF_INLINE vm v_and(vm a, vm b) { return vandq_u32(a, b); }
WF_INLINE uint32_t v_bits(vm m) { return vmaxvq_u32(m); } /* 0 where no lane is set */
WF_INLINE vf v_select(vm m, vf yes, vf no) { return vbslq_f32(m, yes, no); }
WF_INLINE vf v_iota(void) {
  static const float lanes[4] = {0.0f, 1.0f, 2.0f, 3.0f};
  return vld1q_f32(lanes);
}
WF_INLINE vf v_pow2(vf n) {
  const int32x4_t e = vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127));
  return vreinterpretq_f32_s32(vshlq_n_s32(e, 23));
}
/* p * 2^n where t = 0x1.8p23 + n; the result must be a normal number */
WF_INLINE vf v_scale(vf p, vf t) {
  const int32x4_t e = vshlq_n_s32(vreinterpretq_s32_f32(t), 23);
  return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), e));
}

WF_INLINE vf v_load_n(const float *p, int64_t n) {
  float lane[4] = {0.0f, 0.0f, 0.0f, 0.0f};
  memcpy(lane, p, (size_t)n * sizeof *p);
  return vld1q_f32(lane);
}
WF_INLINE void v_store_n(float *p, vf v, int64_t n) {
  float lane[4];
  vst1q_f32(lane, v);
  memcpy(p, lane, (size_t)n * sizeof *p);
}

WF_INLINE float v_sum(vf v) {
  const float32x2_t s = vadd_f32(vget_low_f32(v), vget_high_f32(v));
  return vget_lane_f32(s, 0) + vget_lane_f32(s, 1);
}
WF_INLINE float v_hmax(vf v) {
  float lane[4];
  vst1q_f32(lane, v);
  float top = lane[0]; /* a NaN gives way to any number, as on x86 */
  for (int i = 1; i < 4; i++) top = lane[i] < top ? top : lane[i];
  return top;
}
WF_INLINE float v_first(vf v) { return vgetq_lane_f32(v, 0); }

WF_INLINE vf v_from_f16(const void *p) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)p)));
}
WF_INLINE void v_to_f16(void *p, vf v) {
  vst1_u16((uint16_t *)p, vreinterpret_u16_f16(vcvt_f16_f32(v)));
}
WF_INLINE vf v_from_i8(const void *p) {
  uint32_t four;
  memcpy(&four, p, sizeof four);
  const int16x8_t w = vmovl_s8(vcreate_s8(four));
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(w)));
}
WF_INLINE void v_to_i8(void *p, vf v) {
  const int16x4_t w = vqmovn_s32(vcvtnq_s32_f32(v));
  const int8x8_t b = vqmovn_s16(vcombine_s16(w, w));
  const uint32_t four = vget_lane_u32(vreinterpret_u32_s8(b), 0);
  memcpy(p, &four, sizeof four);
}
WF_INLINE vf v_from_bf16(const void *p) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16((const uint16_t *)p), 16));
}
WF_INLINE void v_to_bf16(void *p, vf v) {
  const uint32x4_t u = vreinterpretq_u32_f32(v), top = vshrq_n_u32(u, 16);
  const uint32x4_t odd = vandq_u32(top, vdupq_n_u32(1));
  const uint32x4_t up = vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
  const uint32x4_t quiet = vorrq_u32(top, vdupq_n_u32(0x40));
  const uint32x4_t r = vbslq_u32(vceqq_f32(v, v), vshrq_n_u32(up, 16), quiet);
  vst1_u16((uint16_t *)p, vmovn_u32(r));
}

#endif
