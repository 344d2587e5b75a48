/* SPDX-License-Identifier: Apache-2.0 */
/* Dense weights and fp32 x fp32 products, AArch64. As the AVX2 file: panels of K, each summed in
 * ascending k from zero and then added to the total; sixteen columns in four vectors. */
#ifdef __aarch64__

#include "kernels/matmul_internal.h"
#include "kernels/simd_neon.h"

enum { NR = 16, MR = 4, PANEL = 128, ROWS_PER_PASS = 96, QUADS = NR / 4 };

WF_INLINE float32x4_t load_4(int format, const uint8_t *w, int64_t at) {
  if (format == WF_WEIGHT_F32) return vreinterpretq_f32_u8(vld1q_u8(w + at * 4));
  const uint8x8_t half = vld1_u8(w + at * 2);
  if (format == WF_WEIGHT_F16) return vcvt_f32_f16(vreinterpret_f16_u8(half));
  return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(half), 16));
}

/* totals[r][:] += panel product of `rows` rows, weights widened where they are read. */
WF_INLINE void micro(int format, int rows, int64_t kc, const uint8_t *w, const float *x,
                     int64_t ldx, float *totals) {
  float32x4_t part[MR][QUADS];

  WF_UNROLL_ALL
  for (int r = 0; r < rows; r++) {
    WF_UNROLL_ALL
    for (int i = 0; i < QUADS; i++) part[r][i] = vdupq_n_f32(0.0f);
  }
  for (int64_t k = 0; k < kc; k++) {
    float32x4_t v[QUADS];
    WF_UNROLL_ALL
    for (int i = 0; i < QUADS; i++) v[i] = load_4(format, w, k * NR + i * 4);
    WF_UNROLL_ALL
    for (int r = 0; r < rows; r++) {
      WF_UNROLL_ALL
      for (int i = 0; i < QUADS; i++) part[r][i] = vfmaq_n_f32(part[r][i], v[i], x[r * ldx + k]);
    }
  }
  WF_UNROLL_ALL
  for (int r = 0; r < rows; r++) {
    WF_UNROLL_ALL
    for (int i = 0; i < QUADS; i++) {
      float *t = totals + r * NR + i * 4;
      vst1q_f32(t, vaddq_f32(vld1q_f32(t), part[r][i]));
    }
  }
}

WF_INLINE void panel_rows(int format, int64_t m, int64_t kc, const uint8_t *w, const float *x,
                          int64_t ldx, float *totals) {
  int64_t r = 0;

  for (; r + MR <= m; r += MR) micro(format, MR, kc, w, x + r * ldx, ldx, totals + r * NR);
  for (; r < m; r++) micro(format, 1, kc, w, x + r * ldx, ldx, totals + r * NR);
}

static void store_rows(const float *bias, const wf_epilogue *e, int64_t r0, int64_t rows, int64_t n,
                       int64_t n_end, const float *totals, float *y, int64_t ldy) {
  const int64_t count = n_end - n < NR ? n_end - n : NR;

  for (int64_t r = 0; r < rows; r++) {
    wf_matmul_store(bias, e, r0 + r, n, count, totals + r * NR, y, ldy);
  }
}

void wf_matmul_dense_neon(const wf_pack_header *h, int64_t m, const void *act, float *y,
                          int64_t ldy, int64_t n_begin, int64_t n_end, const wf_epilogue *e) {
  const wf_act_kind kind = {WF_ACT_F32, 0, h->k};
  const int64_t ldx = (int64_t)(wf_act_row_bytes(&kind) / sizeof(float));
  const float *x = act;
  float totals[ROWS_PER_PASS * NR];

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

void wf_gemm_f32_neon(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
                      int64_t ldb, bool b_is_transposed, float *y, int64_t ldy) {
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
      store_rows(NULL, NULL, m0, rows, j, n, totals, y, ldy);
    }
  }
}

#endif
