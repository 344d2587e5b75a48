/* SPDX-License-Identifier: Apache-2.0 */
/* Dense weights (fp32, fp16, bf16) and fp32 x fp32 products, AVX2. Sixteen columns are the lanes of
 * two vectors; K is cut into panels of PANEL: each output sums a panel's products in ascending k
 * from zero with fused multiply-adds, then adds it to its total. One order for every number of rows
 * and for all three entries. */
#include "kernels/matmul_internal.h"
#include "kernels/simd_x86.h"

enum { NR = 16, MR = 6, PANEL = 128, ROWS_PER_PASS = 96 };

static const wf_epilogue no_epilogue = {WF_EPILOGUE_NONE, NULL, 0};

/* Eight weights as fp32; `format` is a constant after inlining. */
WF_INLINE __m256 load_8(int format, const uint8_t *w, int64_t at) {
  if (format == WF_WEIGHT_F32) return _mm256_loadu_ps((const float *)(const void *)w + at);
  const __m128i half = _mm_loadu_si128((const __m128i *)(const void *)(w + at * 2));
  if (format == WF_WEIGHT_F16) return _mm256_cvtph_ps(half);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* totals[r][:] += panel product of `rows` rows. */
WF_INLINE void micro(int rows, int64_t kc, const float *w, const float *x, int64_t ldx,
                     float *totals) {
  __m256 part[MR][2];

  WF_UNROLL_ALL
  for (int r = 0; r < rows; r++) part[r][0] = part[r][1] = _mm256_setzero_ps();
  for (int64_t k = 0; k < kc; k++, w += NR) {
    const __m256 w0 = _mm256_loadu_ps(w), w1 = _mm256_loadu_ps(w + 8);
    WF_UNROLL_ALL
    for (int r = 0; r < rows; r++) {
      const __m256 v = _mm256_broadcast_ss(x + r * ldx + k);
      part[r][0] = _mm256_fmadd_ps(v, w0, part[r][0]);
      part[r][1] = _mm256_fmadd_ps(v, w1, part[r][1]);
    }
  }
  WF_UNROLL_ALL
  for (int r = 0; r < rows; r++) {
    float *t = totals + r * NR;
    _mm256_storeu_ps(t, _mm256_add_ps(_mm256_loadu_ps(t), part[r][0]));
    _mm256_storeu_ps(t + 8, _mm256_add_ps(_mm256_loadu_ps(t + 8), part[r][1]));
  }
}

static void panel_rows(int64_t m, int64_t kc, const float *w, const float *x, int64_t ldx,
                       float *totals) {
  int64_t r = 0;

  for (; r + MR <= m; r += MR) micro(MR, kc, w, x + r * ldx, ldx, totals + r * NR);
  x += r * ldx;
  totals += r * NR;
  switch (m - r) {
    case 1:
      micro(1, kc, w, x, ldx, totals);
      break;
    case 2:
      micro(2, kc, w, x, ldx, totals);
      break;
    case 3:
      micro(3, kc, w, x, ldx, totals);
      break;
    case 4:
      micro(4, kc, w, x, ldx, totals);
      break;
    case 5:
      micro(5, kc, w, x, ldx, totals);
      break;
    default:
      break;
  }
}

static void store_rows(const float *bias, const wf_epilogue *e, int64_t r0, int64_t rows, int64_t n,
                       int64_t n_end, const float *totals, float *y, int64_t ldy) {
  const int64_t count = n_end - n < NR ? n_end - n : NR;

  for (int64_t r = 0; r < rows; r++, totals += NR) {
    if (count < NR) {
      wf_matmul_store(bias, e, r0 + r, n, count, totals, y, ldy);
      continue;
    }
    for (int64_t j = 0; j < NR; j += 8) {
      __m256 v = _mm256_loadu_ps(totals + j);
      if (bias) v = _mm256_add_ps(v, _mm256_loadu_ps(bias + n + j));
      if (e->op == WF_EPILOGUE_ADD) {
        v = _mm256_add_ps(_mm256_loadu_ps(e->residual + (r0 + r) * e->ld_residual + n + j), v);
      }
      _mm256_storeu_ps(y + (r0 + r) * ldy + n + j, v);
    }
  }
}

/* One row: two groups side by side, weights widened where they are read. */
WF_INLINE void one_row(int format, int n_groups, int64_t k, const uint8_t *w, size_t group_bytes,
                       const float *x, float *totals) {
  __m256 total[2][2], part[2][2];

  WF_UNROLL_ALL
  for (int g = 0; g < n_groups; g++) total[g][0] = total[g][1] = _mm256_setzero_ps();
  for (int64_t k0 = 0; k0 < k; k0 += PANEL) {
    const int64_t k1 = k - k0 < PANEL ? k : k0 + PANEL;
    WF_UNROLL_ALL
    for (int g = 0; g < n_groups; g++) part[g][0] = part[g][1] = _mm256_setzero_ps();
    for (int64_t i = k0; i < k1; i++) {
      const __m256 v = _mm256_broadcast_ss(x + i);
      WF_UNROLL_ALL
      for (int g = 0; g < n_groups; g++) {
        const uint8_t *at = w + (size_t)g * group_bytes;
        part[g][0] = _mm256_fmadd_ps(v, load_8(format, at, i * NR), part[g][0]);
        part[g][1] = _mm256_fmadd_ps(v, load_8(format, at, i * NR + 8), part[g][1]);
      }
    }
    WF_UNROLL_ALL
    for (int g = 0; g < n_groups; g++) {
      total[g][0] = _mm256_add_ps(total[g][0], part[g][0]);
      total[g][1] = _mm256_add_ps(total[g][1], part[g][1]);
    }
  }
  WF_UNROLL_ALL
  for (int g = 0; g < n_groups; g++) {
    _mm256_storeu_ps(totals + g * NR, total[g][0]);
    _mm256_storeu_ps(totals + g * NR + 8, total[g][1]);
  }
}

WF_INLINE void dense_one(int format, const wf_pack_header *h, const float *x, float *y, int64_t ldy,
                         int64_t n_begin, int64_t n_end, const wf_epilogue *e) {
  const uint8_t *groups = (const uint8_t *)h + h->groups_at;
  const float *bias = wf_pack_bias(h);
  float totals[2 * NR];
  int64_t n = n_begin;

  for (; n + NR < n_end; n += 2 * NR) {
    const uint8_t *w = groups + (size_t)(n / NR) * h->group_bytes;
    one_row(format, 2, h->k, w, h->group_bytes, x, totals);
    store_rows(bias, e, 0, 1, n, n_end, totals, y, ldy);
    store_rows(bias, e, 0, 1, n + NR, n_end, totals + NR, y, ldy);
  }
  if (n < n_end) {
    const uint8_t *w = groups + (size_t)(n / NR) * h->group_bytes;
    one_row(format, 1, h->k, w, h->group_bytes, x, totals);
    store_rows(bias, e, 0, 1, n, n_end, totals, y, ldy);
  }
}

WF_INLINE void widen_panel(int format, const uint8_t *w, int64_t count, float *panel) {
  for (int64_t i = 0; i < count; i += 8) _mm256_storeu_ps(panel + i, load_8(format, w, i));
}

void wf_matmul_dense_avx2(const wf_pack_header *h, int64_t m, const void *act, float *y,
                          int64_t ldy, int64_t n_begin, int64_t n_end, const wf_epilogue *e) {
  const wf_act_kind kind = {WF_ACT_F32, 0, h->k};
  const int64_t ldx = (int64_t)(wf_act_row_bytes(&kind) / sizeof(float));
  const float *x = act;
  const size_t size = h->format == WF_WEIGHT_F32 ? 4 : 2;
  float totals[ROWS_PER_PASS * NR];
  float widened[PANEL * NR];

  if (!e) e = &no_epilogue;
  if (m == 1) {
    if (h->format == WF_WEIGHT_F32) dense_one(WF_WEIGHT_F32, h, x, y, ldy, n_begin, n_end, e);
    if (h->format == WF_WEIGHT_F16) dense_one(WF_WEIGHT_F16, h, x, y, ldy, n_begin, n_end, e);
    if (h->format == WF_WEIGHT_BF16) dense_one(WF_WEIGHT_BF16, h, x, y, ldy, n_begin, n_end, e);
    return;
  }
  for (int64_t m0 = 0; m0 < m; m0 += ROWS_PER_PASS) {
    const int64_t rows = m - m0 < ROWS_PER_PASS ? m - m0 : ROWS_PER_PASS;
    for (int64_t n = n_begin; n < n_end; n += NR) {
      const uint8_t *w = (const uint8_t *)h + h->groups_at + (size_t)(n / NR) * h->group_bytes;
      memset(totals, 0, (size_t)rows * NR * sizeof *totals);
      for (int64_t k = 0; k < h->k; k += PANEL) {
        const int64_t kc = h->k - k < PANEL ? h->k - k : PANEL;
        const uint8_t *from = w + (size_t)(k * NR) * size;
        const float *panel = widened;
        if (h->format == WF_WEIGHT_F32) {
          panel = (const float *)(const void *)from;
        } else if (h->format == WF_WEIGHT_F16) {
          widen_panel(WF_WEIGHT_F16, from, kc * NR, widened);
        } else {
          widen_panel(WF_WEIGHT_BF16, from, kc * NR, widened);
        }
        panel_rows(rows, kc, panel, x + m0 * ldx + k, ldx, totals);
      }
      store_rows(wf_pack_bias(h), e, m0, rows, n, n_end, totals, y, ldy);
    }
  }
}

/* Copies b's [k, k+kc) x [n, n+count) into [kc][NR], zeros past count. */
static void pack_panel(const float *b, int64_t ldb, bool b_is_transposed, int64_t k, int64_t kc,
                       int64_t n, int64_t count, float *panel) {
  if (count < NR) memset(panel, 0, (size_t)(kc * NR) * sizeof *panel);
  if (!b_is_transposed) {
    for (int64_t i = 0; i < kc; i++) {
      memcpy(panel + i * NR, b + (k + i) * ldb + n, (size_t)count * sizeof *panel);
    }
    return;
  }
  for (int64_t c = 0; c < count; c++) {
    const float *row = b + (n + c) * ldb + k;
    for (int64_t i = 0; i < kc; i++) panel[i * NR + c] = row[i];
  }
}

void wf_gemm_f32_avx2(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
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
        panel_rows(rows, kc, panel, a + m0 * lda + k0, lda, totals);
      }
      store_rows(NULL, &no_epilogue, m0, rows, j, n, totals, y, ldy);
    }
  }
}
