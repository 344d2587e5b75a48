/* SPDX-License-Identifier: Apache-2.0 */
/* Dense weights and fp32 x fp32 products, AVX-512. As the AVX2 file: panels of K, each summed in
 * ascending k from zero and then added to the total; thirty-two columns in two vectors. */
#include "kernels/matmul_internal.h"
#include "kernels/simd_x86.h"

enum { NR = 32, MR = 12, PANEL = 128, ROWS_PER_PASS = 96 };

static const wf_epilogue no_epilogue = {WF_EPILOGUE_NONE, NULL, 0};

WF_INLINE __m512 load_16(int format, const uint8_t *w, int64_t at) {
  if (format == WF_WEIGHT_F32) return _mm512_loadu_ps((const float *)(const void *)w + at);
  const __m256i half = _mm256_loadu_si256((const __m256i *)(const void *)(w + at * 2));
  if (format == WF_WEIGHT_F16) return _mm512_cvtph_ps(half);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/* totals[r][:] += panel product of `rows` rows, weights widened where they are read. */
WF_INLINE void micro(int format, int rows, int64_t kc, const uint8_t *w, const float *x,
                     int64_t ldx, float *totals) {
  __m512 part[MR][2];

  WF_UNROLL_ALL
  for (int r = 0; r < rows; r++) part[r][0] = part[r][1] = _mm512_setzero_ps();
  for (int64_t k = 0; k < kc; k++) {
    const __m512 w0 = load_16(format, w, k * NR), w1 = load_16(format, w, k * NR + 16);
    WF_UNROLL_ALL
    for (int r = 0; r < rows; r++) {
      const __m512 v = _mm512_set1_ps(x[r * ldx + k]);
      part[r][0] = _mm512_fmadd_ps(v, w0, part[r][0]);
      part[r][1] = _mm512_fmadd_ps(v, w1, part[r][1]);
    }
  }
  WF_UNROLL_ALL
  for (int r = 0; r < rows; r++) {
    float *t = totals + r * NR;
    _mm512_storeu_ps(t, _mm512_add_ps(_mm512_loadu_ps(t), part[r][0]));
    _mm512_storeu_ps(t + 16, _mm512_add_ps(_mm512_loadu_ps(t + 16), part[r][1]));
  }
}

WF_INLINE void panel_rows(int format, int64_t m, int64_t kc, const uint8_t *w, const float *x,
                          int64_t ldx, float *totals) {
  int64_t r = 0;

  for (; r + MR <= m; r += MR) micro(format, MR, kc, w, x + r * ldx, ldx, totals + r * NR);
  for (; r + 4 <= m; r += 4) micro(format, 4, kc, w, x + r * ldx, ldx, totals + r * NR);
  for (; r < m; r++) micro(format, 1, kc, w, x + r * ldx, ldx, totals + r * NR);
}

static void store_rows(const float *bias, const wf_epilogue *e, int64_t r0, int64_t rows, int64_t n,
                       int64_t n_end, const float *totals, float *y, int64_t ldy) {
  for (int64_t r = 0; r < rows; r++, totals += NR) {
    for (int64_t j = 0; j < NR && n + j < n_end; j += 16) {
      const int64_t left = n_end - n - j;
      const __mmask16 mask = (__mmask16)(left < 16 ? (1u << left) - 1 : 0xffffu);
      __m512 v = _mm512_loadu_ps(totals + j);
      if (bias) v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, bias + n + j));
      if (e->op == WF_EPILOGUE_ADD) {
        const float *from = e->residual + (r0 + r) * e->ld_residual + n + j;
        v = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, from), v);
      }
      _mm512_mask_storeu_ps(y + (r0 + r) * ldy + n + j, mask, v);
    }
  }
}

void wf_matmul_dense_avx512(const wf_pack_header *h, int64_t m, const void *act, float *y,
                            int64_t ldy, int64_t n_begin, int64_t n_end, const wf_epilogue *e) {
  const wf_act_kind kind = {WF_ACT_F32, 0, h->k};
  const int64_t ldx = (int64_t)(wf_act_row_bytes(&kind) / sizeof(float));
  const float *x = act;
  float totals[ROWS_PER_PASS * NR];

  if (!e) e = &no_epilogue;
  for (int64_t m0 = 0; m0 < m; m0 += ROWS_PER_PASS) {
    const int64_t rows = m - m0 < ROWS_PER_PASS ? m - m0 : ROWS_PER_PASS;
    for (int64_t n = n_begin; n < n_end; n += NR) {
      const uint8_t *w = (const uint8_t *)h + h->groups_at + (size_t)(n / NR) * h->group_bytes;
      memset(totals, 0, (size_t)rows * NR * sizeof *totals);
      for (int64_t k = 0; k < h->k; k += PANEL) {
        const int64_t kc = h->k - k < PANEL ? h->k - k : PANEL;
        const float *from = x + m0 * ldx + k;
        if (h->format == WF_WEIGHT_F32) {
          panel_rows(WF_WEIGHT_F32, rows, kc, w + (size_t)(k * NR) * 4, from, ldx, totals);
        } else if (h->format == WF_WEIGHT_F16) {
          panel_rows(WF_WEIGHT_F16, rows, kc, w + (size_t)(k * NR) * 2, from, ldx, totals);
        } else {
          panel_rows(WF_WEIGHT_BF16, rows, kc, w + (size_t)(k * NR) * 2, from, ldx, totals);
        }
      }
      store_rows(wf_pack_bias(h), e, m0, rows, n, n_end, totals, y, ldy);
    }
  }
}

/* Copies b's [k, k+kc) x [n, n+count) into [kc][NR], zeros past count. */
static void pack_panel(const float *b, int64_t ldb, bool b_is_transposed, int64_t k, int64_t kc,
                       int64_t n, int64_t count, float *panel) {
  if (count < NR) memset(panel, 0, (size_t)(kc * NR) * sizeof *panel);
  for (int64_t i = 0; i < kc && !b_is_transposed; i++) {
    memcpy(panel + i * NR, b + (k + i) * ldb + n, (size_t)count * sizeof *panel);
  }
  for (int64_t c = 0; c < count && b_is_transposed; c++) {
    const float *row = b + (n + c) * ldb + k;
    for (int64_t i = 0; i < kc; i++) panel[i * NR + c] = row[i];
  }
}

void wf_gemm_f32_avx512(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                        const float *b, int64_t ldb, bool b_is_transposed, float *y, int64_t ldy) {
  float totals[ROWS_PER_PASS * NR];
  float panel[PANEL * NR];

  for (int64_t m0 = 0; m0 < m; m0 += ROWS_PER_PASS) {
    const int64_t rows = m - m0 < ROWS_PER_PASS ? m - m0 : ROWS_PER_PASS;
    for (int64_t j = 0; j < n; j += NR) {
      memset(totals, 0, (size_t)rows * NR * sizeof *totals);
      for (int64_t k0 = 0; k0 < k; k0 += PANEL) {
        const int64_t kc = k - k0 < PANEL ? k - k0 : PANEL;
        pack_panel(b, ldb, b_is_transposed, k0, kc, j, n - j < NR ? n - j : NR, panel);
        panel_rows(WF_WEIGHT_F32, rows, kc, (const uint8_t *)panel, a + m0 * lda + k0, lda, totals);
      }
      store_rows(NULL, &no_epilogue, m0, rows, j, n, totals, y, ldy);
    }
  }
}
