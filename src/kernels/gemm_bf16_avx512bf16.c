/* SPDX-License-Identifier: Apache-2.0 */
/* bf16 weights times activations rounded to bf16, fast mode. Pairs of k lie side by side in each
 * column's dword: [k/2][NR][2]. The instruction flushes subnormal inputs and results to zero. */
#include "kernels/matmul_internal.h"
#include "kernels/simd_x86.h"

enum { NR = 16, MR = 8, PANEL_PAIRS = 64, ROWS_PER_PASS = 96 };

static const wf_epilogue no_epilogue = {WF_EPILOGUE_NONE, NULL, 0};

/* The bits of sixteen dwords as thirty-two bf16: no intrinsic does this from an integer vector. */
WF_INLINE __m512bh as_bf16(__m512i v) {
  __m512bh result;

  memcpy(&result, &v, sizeof result);
  return result;
}

WF_INLINE __m512bh broadcast_pair(const uint16_t *p) {
  int32_t v;

  memcpy(&v, p, sizeof v);
  return as_bf16(_mm512_set1_epi32(v));
}

WF_INLINE void micro(int rows, int64_t pairs, const uint8_t *w, const uint16_t *x, int64_t ldx,
                     float *totals) {
  __m512 part[MR];

  WF_UNROLL_ALL
  for (int r = 0; r < rows; r++) part[r] = _mm512_setzero_ps();
  for (int64_t i = 0; i < pairs; i++) {
    const __m512bh v = as_bf16(_mm512_loadu_si512((const void *)(w + i * NR * 4)));
    WF_UNROLL_ALL
    for (int r = 0; r < rows; r++) {
      part[r] = _mm512_dpbf16_ps(part[r], v, broadcast_pair(x + r * ldx + i * 2));
    }
  }
  WF_UNROLL_ALL
  for (int r = 0; r < rows; r++) {
    float *t = totals + r * NR;
    _mm512_storeu_ps(t, _mm512_add_ps(_mm512_loadu_ps(t), part[r]));
  }
}

static void store_rows(const float *bias, const wf_epilogue *e, int64_t r0, int64_t rows, int64_t n,
                       int64_t n_end, const float *totals, float *y, int64_t ldy) {
  const __mmask16 mask = (__mmask16)(n_end - n < NR ? (1u << (n_end - n)) - 1 : 0xffffu);

  for (int64_t r = 0; r < rows; r++, totals += NR) {
    __m512 v = _mm512_loadu_ps(totals);
    if (bias) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, bias + n));
    if (e->op == WF_EPILOGUE_ADD) {
      v = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, e->residual + (r0 + r) * e->ld_residual + n),
                        v);
    }
    _mm512_mask_storeu_ps(y + (r0 + r) * ldy + n, mask, v);
  }
}

void wf_matmul_bf16_avx512bf16(const wf_pack_header *h, int64_t m, const void *act, float *y,
                               int64_t ldy, int64_t n_begin, int64_t n_end, const wf_epilogue *e) {
  const wf_act_kind kind = {WF_ACT_BF16, 0, h->k};
  const int64_t ldx = (int64_t)(wf_act_row_bytes(&kind) / sizeof(uint16_t));
  const int64_t n_pairs = (h->k + 1) / 2;
  float totals[ROWS_PER_PASS * NR];

  if (!e) e = &no_epilogue;
  for (int64_t m0 = 0; m0 < m; m0 += ROWS_PER_PASS) {
    const int64_t rows = m - m0 < ROWS_PER_PASS ? m - m0 : ROWS_PER_PASS;
    for (int64_t n = n_begin; n < n_end; n += NR) {
      const uint8_t *w = (const uint8_t *)h + h->groups_at + (size_t)(n / NR) * h->group_bytes;
      memset(totals, 0, (size_t)rows * NR * sizeof *totals);
      for (int64_t i = 0; i < n_pairs; i += PANEL_PAIRS) {
        const int64_t pairs = n_pairs - i < PANEL_PAIRS ? n_pairs - i : PANEL_PAIRS;
        const uint16_t *x = (const uint16_t *)act + m0 * ldx + i * 2;
        const uint8_t *from = w + i * NR * 4;
        int64_t r = 0;
        for (; r + MR <= rows; r += MR) micro(MR, pairs, from, x + r * ldx, ldx, totals + r * NR);
        for (; r < rows; r++) micro(1, pairs, from, x + r * ldx, ldx, totals + r * NR);
      }
      store_rows(wf_pack_bias(h), e, m0, rows, n, n_end, totals, y, ldy);
    }
  }
}
