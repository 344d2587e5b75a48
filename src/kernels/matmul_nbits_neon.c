/* SPDX-License-Identifier: Apache-2.0 */
/* NBITS products for AArch64 without dot products, and the exact mode of both levels. */
#ifdef __aarch64__

#define HAS_DOT 0
#include "kernels/matmul_nbits_neon.inc"

RUN_FOLDS(q4_unit32, 4, 32, 0)
RUN_FOLDS(q4_unit16, 4, 16, 0)
RUN_FOLDS(q8_unit32, 8, 32, 0)
RUN_FOLDS(q8_unit16, 8, 16, 0)
RUN_FOLDS(q4_exact32, 4, 32, 1)
RUN_FOLDS(q4_exact16, 4, 16, 1)
RUN_FOLDS(q8_exact32, 8, 32, 1)
RUN_FOLDS(q8_exact16, 8, 16, 1)

void wf_matmul_q4_neon(const wf_pack_header *h, int64_t m, const void *act, float *y, int64_t ldy,
                       int64_t n_begin, int64_t n_end, const wf_epilogue *e) {
  wf_matmul_fn *fn = (h->unit == 32 ? q4_unit32 : q4_unit16)[h->fold][h->is_half];
  fn(h, m, act, y, ldy, n_begin, n_end, e);
}

void wf_matmul_q8_neon(const wf_pack_header *h, int64_t m, const void *act, float *y, int64_t ldy,
                       int64_t n_begin, int64_t n_end, const wf_epilogue *e) {
  wf_matmul_fn *fn = (h->unit == 32 ? q8_unit32 : q8_unit16)[h->fold][h->is_half];
  fn(h, m, act, y, ldy, n_begin, n_end, e);
}

void wf_matmul_nbits_exact_neon(const wf_pack_header *h, int64_t m, const void *act, float *y,
                                int64_t ldy, int64_t n_begin, int64_t n_end, const wf_epilogue *e) {
  wf_matmul_fn *fn;

  if (h->bits == 4) {
    fn = (h->unit == 32 ? q4_exact32 : q4_exact16)[h->fold][h->is_half];
  } else {
    fn = (h->unit == 32 ? q8_exact32 : q8_exact16)[h->fold][h->is_half];
  }
  fn(h, m, act, y, ldy, n_begin, n_end, e);
}

#endif
