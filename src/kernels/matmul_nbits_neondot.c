/* SPDX-License-Identifier: Apache-2.0 */
/* NBITS products with int8 activations for AArch64 with dot products. */
#ifdef __aarch64__

#define HAS_DOT 1
#include "kernels/matmul_nbits_neon.inc"

RUN_FOLDS(q4_unit32, 4, 32, 0)
RUN_FOLDS(q4_unit16, 4, 16, 0)
RUN_FOLDS(q8_unit32, 8, 32, 0)
RUN_FOLDS(q8_unit16, 8, 16, 0)

void wf_matmul_q4_neondot(const wf_pack_header *h, int64_t m, const void *act, float *y,
                          int64_t ldy, int64_t n_begin, int64_t n_end, const wf_epilogue *e) {
  wf_matmul_fn *fn = (h->unit == 32 ? q4_unit32 : q4_unit16)[h->fold][h->is_half];
  fn(h, m, act, y, ldy, n_begin, n_end, e);
}

void wf_matmul_q8_neondot(const wf_pack_header *h, int64_t m, const void *act, float *y,
                          int64_t ldy, int64_t n_begin, int64_t n_end, const wf_epilogue *e) {
  wf_matmul_fn *fn = (h->unit == 32 ? q8_unit32 : q8_unit16)[h->fold][h->is_half];
  fn(h, m, act, y, ldy, n_begin, n_end, e);
}

#endif
