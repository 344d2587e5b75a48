/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of vectors, in the words of vec_*.h (included before this). A lane's result depends on
 * that lane alone and a tail is a padded vector, so body and tail agree. Polynomials are our own
 * fits (weighted minimax); bounds are those of elementwise.h. */
#ifndef WF_KERNELS_VECMATH_H
#define WF_KERNELS_VECMATH_H

/* e^r for |r| <= ln 2 / 2 */
WF_INLINE vf v_exp_reduced(vf r) {
  vf p = v_set1(1.395072524e-03f);
  p = v_fma(p, r, v_set1(8.369024924e-03f));
  p = v_fma(p, r, v_set1(4.166620229e-02f));
  p = v_fma(p, r, v_set1(1.666651771e-01f));
  p = v_fma(p, r, v_set1(5.000000096e-01f));
  p = v_fma(v_mul(p, r), r, r);
  return v_add(p, v_set1(1.0f));
}

/* e^x over the whole range: subnormal results are right, e^-inf = 0, overflow gives inf. */
WF_INLINE vf v_exp(vf x) {
  /* e^-104 rounds to 0 and e^89 to inf, so the ends need no cases of their own */
  x = v_max(v_set1(-104.0f), v_min(v_set1(89.0f), x));
  const vf n = v_round(v_mul(x, v_set1(0x1.715476p+0f)));
  vf r = v_fnma(n, v_set1(0x1.62e4p-1f), x); /* ln 2 in two parts; n times the first is exact */
  r = v_fnma(n, v_set1(0x1.7f7d1cp-20f), r);
  /* 2^n as two factors: n reaches -150 and 128, beyond what one exponent holds */
  const vf half = v_floor(v_mul(n, v_set1(0.5f)));
  return v_mul(v_mul(v_exp_reduced(r), v_pow2(half)), v_pow2(v_sub(n, half)));
}

/* e^x for x <= 0, the weights of a softmax: what would be below 2^-125 is 0, which no sum that
 * holds e^0 can tell. e^0 is exactly 1. */
WF_INLINE vf v_exp_weight(vf x) {
  const vf bound = v_set1(-86.5f);
  const vf y = v_max(bound, x), magic = v_set1(0x1.8p23f);
  const vf t = v_fma(y, v_set1(0x1.715476p+0f), magic); /* rounds to a whole number of ln 2 */
  const vf n = v_sub(t, magic);
  vf r = v_fnma(n, v_set1(0x1.62e4p-1f), y);
  r = v_fnma(n, v_set1(0x1.7f7d1cp-20f), r);
  return v_select(v_lt(x, bound), v_zero(), v_scale(v_exp_reduced(r), t));
}

WF_INLINE vf v_sigmoid(vf x) { return v_div(v_set1(1.0f), v_add(v_set1(1.0f), v_exp(v_neg(x)))); }

/* x * gate where gate falls to 0 faster than x to -inf: -inf must not meet 0 */
WF_INLINE vf v_times_gate(vf x, vf gate) { return v_mul(v_max(v_set1(-0x1p126f), x), gate); }

WF_INLINE vf v_silu(vf x) { return v_times_gate(x, v_sigmoid(x)); }
WF_INLINE vf v_quick_gelu(vf x) { return v_times_gate(x, v_sigmoid(v_mul(x, v_set1(1.702f)))); }
WF_INLINE vf v_gelu_tanh(vf x) {
  /* 0.5 (1 + tanh u) = sigmoid(2u); 2u = x (a + b x^2) */
  const vf u = v_mul(x, v_fma(v_mul(x, x), v_set1(7.1354816273e-02f), v_set1(1.5957691216f)));
  return v_times_gate(x, v_sigmoid(u));
}

WF_INLINE vf v_tanh(vf x) {
  const vf a = v_abs(x), u = v_mul(x, x);
  vf p = v_set1(2.147538879e-03f);
  p = v_fma(p, u, v_set1(-8.182676240e-03f));
  p = v_fma(p, u, v_set1(2.170296816e-02f));
  p = v_fma(p, u, v_set1(-5.394720448e-02f));
  p = v_fma(p, u, v_set1(1.333320977e-01f));
  p = v_fma(p, u, v_set1(-3.333333091e-01f));
  const vf small = v_fma(v_mul(p, u), x, x);
  const vf e = v_exp(v_add(a, a));
  const vf big = v_sub(v_set1(1.0f), v_div(v_set1(2.0f), v_add(e, v_set1(1.0f))));
  return v_select(v_lt(a, v_set1(0.625f)), small, v_copysign(big, x));
}

/* erfc(z) for z >= 0: e^(-z^2) t P(t), t = 1 / (1 + 0.3 z); 0 from 10.1 on */
WF_INLINE vf v_erfc_positive(vf z) {
  z = v_min(v_set1(10.1f), z);
  const vf t = v_div(v_set1(1.0f), v_fma(z, v_set1(0.3f), v_set1(1.0f)));
  vf p = v_set1(-1.295328462e-01f);
  p = v_fma(p, t, v_set1(4.856154458e-01f));
  p = v_fma(p, t, v_set1(-5.123957502e-01f));
  p = v_fma(p, t, v_set1(5.478682066e-01f));
  p = v_fma(p, t, v_set1(-9.476466017e-02f));
  p = v_fma(p, t, v_set1(2.149807420e-01f));
  p = v_fma(p, t, v_set1(1.483231965e-01f));
  p = v_fma(p, t, v_set1(1.707178195e-01f));
  p = v_fma(p, t, v_set1(1.691878265e-01f));
  return v_mul(v_mul(p, t), v_exp(v_neg(v_mul(z, z))));
}

WF_INLINE vf v_erf(vf x) {
  const vf a = v_abs(x), u = v_mul(x, x);
  vf p = v_set1(-9.680139154e-06f);
  p = v_fma(p, u, v_set1(1.127054545e-04f));
  p = v_fma(p, u, v_set1(-8.484711581e-04f));
  p = v_fma(p, u, v_set1(5.221074887e-03f));
  p = v_fma(p, u, v_set1(-2.686544582e-02f));
  p = v_fma(p, u, v_set1(1.128378275e-01f));
  p = v_fma(p, u, v_set1(-3.761263848e-01f));
  p = v_fma(p, u, v_set1(1.128379167e+00f));
  const vf big = v_sub(v_set1(1.0f), v_erfc_positive(a));
  return v_select(v_lt(a, v_set1(1.0f)), v_mul(x, p), v_copysign(big, x));
}

WF_INLINE vf v_gelu_erf(vf x) {
  /* erfc of the positive side keeps the digits that 1 + erf(x) loses for negative x */
  const vf e = v_mul(v_set1(0.5f), v_erfc_positive(v_mul(v_abs(x), v_set1(0.70710678f))));
  const vf gate = v_select(v_lt(x, v_zero()), e, v_sub(v_set1(1.0f), e));
  return v_times_gate(x, gate);
}

#endif
