/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the elementwise family: the functions a variant implements, each with the contract of
 * its namesake in elementwise.h. */
#ifndef WF_KERNELS_ELEMENTWISE_KERNELS_H
#define WF_KERNELS_ELEMENTWISE_KERNELS_H

#include "kernels/elementwise.h"

typedef struct wf_elementwise_table {
  void (*rms_norm)(int64_t n_rows, int64_t n, const float *x, int64_t ldx, const float *weight,
                   float epsilon, float *y, int64_t ldy);
  void (*skip_rms_norm)(int64_t n_rows, int64_t n, const float *x, int64_t ldx, const float *skip,
                        int64_t ld_skip, const float *bias, const float *weight, float epsilon,
                        float *sum, int64_t ld_sum, float *y, int64_t ldy);
  void (*layer_norm)(int64_t n_rows, int64_t n, const float *x, int64_t ldx, const float *weight,
                     const float *bias, float epsilon, float *y, int64_t ldy);
  void (*unary)(wf_unary_fn op, int64_t n, const float *x, float *y);
  void (*gated)(wf_unary_fn act, int64_t n_rows, int64_t n, const float *gate, int64_t ld_gate,
                const float *up, int64_t ld_up, float *y, int64_t ldy);
  void (*binary)(wf_binary_op op, int64_t n, const float *a, int64_t a_step, const float *b,
                 int64_t b_step, float *y);
  void (*softmax)(int64_t n_rows, int64_t n, const float *x, int64_t ldx, float *y, int64_t ldy);
  int64_t (*argmax)(int64_t n, const float *x);
  void (*f16_to_f32)(int64_t n, const uint16_t *x, float *y);
  void (*f32_to_f16)(int64_t n, const float *x, uint16_t *y);
  void (*bf16_to_f32)(int64_t n, const uint16_t *x, float *y);
  void (*f32_to_bf16)(int64_t n, const float *x, uint16_t *y);
} wf_elementwise_table;

extern const wf_elementwise_table wf_elementwise_ref;
extern const wf_elementwise_table wf_elementwise_avx2;
extern const wf_elementwise_table wf_elementwise_avx512;
extern const wf_elementwise_table wf_elementwise_avx512_emu; /* test builds only */
extern const wf_elementwise_table wf_elementwise_neon;

#endif
