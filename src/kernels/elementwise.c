/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch of the elementwise family. */
#include "kernels/elementwise.h"

#include "kernels/elementwise_kernels.h"

/* Best first; ref ends the search. Dispatch reads this array and the tests walk it. */
static const wf_elementwise_variant variants[] = {
#if defined(__x86_64__)
    {"elementwise_avx512", WF_CPU_AVX512, &wf_elementwise_avx512},
    {"elementwise_avx2", WF_CPU_AVX2, &wf_elementwise_avx2},
#elif defined(__aarch64__)
    {"elementwise_neon", WF_CPU_NEON, &wf_elementwise_neon},
#endif
    {"elementwise_ref", WF_CPU_REF, &wf_elementwise_ref},
};
enum { N_VARIANTS = sizeof variants / sizeof variants[0] };

const wf_elementwise_variant *wf_elementwise_variants(size_t *n) {
  *n = N_VARIANTS;
  return variants;
}

static const wf_elementwise_table *choose(wf_cpu_level level) {
  for (size_t i = 0; i + 1 < N_VARIANTS; i++)
    if (wf_cpu_has(level, variants[i].needs)) return variants[i].table;
  return variants[N_VARIANTS - 1].table;
}

void wf_rms_norm_f32(wf_cpu_level level, int64_t n_rows, int64_t n, const float *x, int64_t ldx,
                     const float *weight, float epsilon, float *y, int64_t ldy) {
  choose(level)->rms_norm(n_rows, n, x, ldx, weight, epsilon, y, ldy);
}

void wf_skip_rms_norm_f32(wf_cpu_level level, int64_t n_rows, int64_t n, const float *x,
                          int64_t ldx, const float *skip, int64_t ld_skip, const float *bias,
                          const float *weight, float epsilon, float *sum, int64_t ld_sum, float *y,
                          int64_t ldy) {
  choose(level)->skip_rms_norm(n_rows, n, x, ldx, skip, ld_skip, bias, weight, epsilon, sum, ld_sum,
                               y, ldy);
}

void wf_layer_norm_f32(wf_cpu_level level, int64_t n_rows, int64_t n, const float *x, int64_t ldx,
                       const float *weight, const float *bias, float epsilon, float *y,
                       int64_t ldy) {
  choose(level)->layer_norm(n_rows, n, x, ldx, weight, bias, epsilon, y, ldy);
}

void wf_unary_f32(wf_cpu_level level, wf_unary_fn op, int64_t n, const float *x, float *y) {
  choose(level)->unary(op, n, x, y);
}

void wf_gated_f32(wf_cpu_level level, wf_unary_fn act, int64_t n_rows, int64_t n, const float *gate,
                  int64_t ld_gate, const float *up, int64_t ld_up, float *y, int64_t ldy) {
  choose(level)->gated(act, n_rows, n, gate, ld_gate, up, ld_up, y, ldy);
}

void wf_binary_f32(wf_cpu_level level, wf_binary_op op, int64_t n, const float *a, int64_t a_step,
                   const float *b, int64_t b_step, float *y) {
  choose(level)->binary(op, n, a, a_step, b, b_step, y);
}

void wf_softmax_f32(wf_cpu_level level, int64_t n_rows, int64_t n, const float *x, int64_t ldx,
                    float *y, int64_t ldy) {
  choose(level)->softmax(n_rows, n, x, ldx, y, ldy);
}

int64_t wf_argmax_f32(wf_cpu_level level, int64_t n, const float *x) {
  return choose(level)->argmax(n, x);
}

void wf_f16_to_f32(wf_cpu_level level, int64_t n, const uint16_t *x, float *y) {
  choose(level)->f16_to_f32(n, x, y);
}

void wf_f32_to_f16(wf_cpu_level level, int64_t n, const float *x, uint16_t *y) {
  choose(level)->f32_to_f16(n, x, y);
}

void wf_bf16_to_f32(wf_cpu_level level, int64_t n, const uint16_t *x, float *y) {
  choose(level)->bf16_to_f32(n, x, y);
}

void wf_f32_to_bf16(wf_cpu_level level, int64_t n, const float *x, uint16_t *y) {
  choose(level)->f32_to_bf16(n, x, y);
}
