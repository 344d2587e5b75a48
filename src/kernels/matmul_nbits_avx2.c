/* SPDX-License-Identifier: Apache-2.0 */
/* NBITS weights times int8 or fp32 activations, AVX2. Eight columns lie in the eight dwords of a
 * vector, four k in each; four k of one row of activations are broadcast against them. Every output
 * has its own lane, and takes the units of K in ascending order: so its bits depend on neither the
 * tile's height nor the split over N. */
#include "kernels/matmul_internal.h"
#include "kernels/simd_x86.h"

enum { NR = 8, MR = 4, ROWS_PER_PASS = 64, PREFETCH_BYTES = 1536 };

WF_INLINE __m256 load_scales(const uint8_t **at, int is_half) {
  const uint8_t *p = *at;

  if (is_half) {
    *at = p + NR * 2;
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
  }
  *at = p + NR * 4;
  return _mm256_loadu_ps((const float *)(const void *)p);
}

WF_INLINE __m256i load_i(const uint8_t *p) {
  return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

WF_INLINE __m256i broadcast_4(const uint8_t *p) {
  int32_t v;

  memcpy(&v, p, sizeof v);
  return _mm256_set1_epi32(v);
}

WF_INLINE __m256 broadcast_f(const uint8_t *p, size_t at) {
  float f;

  memcpy(&f, p + at, sizeof f);
  return _mm256_set1_ps(f);
}

/* Integer dot products of one 4-bit unit. A pair of products is at most 2 * 15 * 127 = 3810, and
 * eight pairs stay below 2^15: the whole unit is summed in 16 bits. */
WF_INLINE void dot_unit_4(wf_nbits_shape s, const uint8_t *w, const uint8_t *const x[],
                          __m256i dot[]) {
  const __m256i low = _mm256_set1_epi8(15);
  __m256i sum[MR];

  WF_UNROLL_ALL
  for (int j = 0; j < s.unit / 8; j++) {
    const __m256i bytes = load_i(w + j * NR * 4);
    const __m256i even = _mm256_and_si256(bytes, low);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low);
    WF_UNROLL_ALL
    for (int r = 0; r < s.rows; r++) {
      const __m256i a = _mm256_maddubs_epi16(even, broadcast_4(x[r] + j * 8));
      const __m256i b = _mm256_maddubs_epi16(odd, broadcast_4(x[r] + j * 8 + 4));
      const __m256i both = _mm256_add_epi16(a, b);
      sum[r] = j == 0 ? both : _mm256_add_epi16(sum[r], both);
      WF_PIN(sum[r]);
    }
  }
  WF_UNROLL_ALL
  for (int r = 0; r < s.rows; r++) dot[r] = _mm256_madd_epi16(sum[r], _mm256_set1_epi16(1));
}

/* The same for 8 bits, weights signed: maddubs takes |w| and x with w's sign. A pair is at most
 * 2 * 128 * 127 = 32512, so it does not saturate, but each is widened before the next is added. */
WF_INLINE void dot_unit_8(wf_nbits_shape s, const uint8_t *w, const uint8_t *const x[],
                          __m256i dot[]) {
  WF_UNROLL_ALL
  for (int j = 0; j < s.unit / 4; j++) {
    const __m256i q = load_i(w + j * NR * 4);
    const __m256i size = _mm256_abs_epi8(q);
    WF_UNROLL_ALL
    for (int r = 0; r < s.rows; r++) {
      const __m256i pairs =
          _mm256_maddubs_epi16(size, _mm256_sign_epi8(broadcast_4(x[r] + j * 4), q));
      const __m256i quads = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
      dot[r] = j == 0 ? quads : _mm256_add_epi32(dot[r], quads);
      WF_PIN(dot[r]);
    }
  }
}

/* One group of columns times s.rows rows from `act`. */
WF_INLINE void tile_q8(wf_nbits_shape s, const wf_pack_header *h, const uint8_t *w,
                       const uint8_t *act, size_t act_stride, float sums[MR][NR]) {
  const int unit_bytes = NR * s.unit * s.bits / 8;
  const __m256 zero_const = _mm256_set1_ps(h->zero);
  const int32_t n_units = h->n_units, per_block = h->units_per_block;
  const uint8_t *x[MR];
  __m256 acc[MR];

  WF_UNROLL_ALL
  for (int r = 0; r < s.rows; r++) {
    x[r] = act + (size_t)r * act_stride;
    acc[r] = _mm256_setzero_ps();
  }
  for (int32_t u = 0; u < n_units;) {
    const __m256 scales = load_scales(&w, s.is_half);
    __m256 fold = zero_const;
    if (s.fold != WF_FOLD_CONST) fold = load_scales(&w, s.is_half);
    int32_t end = u + per_block;
    if (end > n_units) end = n_units;
    for (; u < end; u++) {
      __m256i dot[MR];
      if (s.rows == 1 && s.bits == 4) { /* for 8 bits it costs a third of the speed from memory */
        _mm_prefetch((const char *)w + PREFETCH_BYTES, _MM_HINT_T0);
        _mm_prefetch((const char *)w + PREFETCH_BYTES + 64, _MM_HINT_T0);
      }
      if (s.bits == 4) {
        dot_unit_4(s, w, x, dot);
      } else {
        dot_unit_8(s, w, x, dot);
      }
      w += unit_bytes;
      WF_UNROLL_ALL
      for (int r = 0; r < s.rows; r++) {
        const uint8_t *tail = x[r] + s.unit;
        const __m256 scale =
            _mm256_mul_ps(scales, broadcast_f(tail, offsetof(wf_act_unit_tail, scale)));
        __m256 d = _mm256_cvtepi32_ps(dot[r]);
        if (s.fold == WF_FOLD_OFFSET) {
          acc[r] = _mm256_fmadd_ps(fold, broadcast_f(tail, offsetof(wf_act_unit_tail, sum_scaled)),
                                   acc[r]);
        } else if (s.fold == WF_FOLD_ZERO || s.bits == 4) {
          d = _mm256_fmadd_ps(fold, broadcast_f(tail, offsetof(wf_act_unit_tail, sum_neg)), d);
        }
        acc[r] = _mm256_fmadd_ps(d, scale, acc[r]);
        x[r] = tail + sizeof(wf_act_unit_tail);
      }
    }
  }
  WF_UNROLL_ALL
  for (int r = 0; r < s.rows; r++) _mm256_storeu_ps(sums[r], acc[r]);
}

/* fp32 activations: each weight becomes fp32, and each unit is summed by itself before it joins
 * the total, which keeps the rounding of long sums small. 8-bit weights are signed. */
WF_INLINE void tile_exact(wf_nbits_shape s, const wf_pack_header *h, const uint8_t *w,
                          const uint8_t *act, size_t act_stride, float sums[MR][NR]) {
  const int unit_bytes = NR * s.unit * s.bits / 8;
  const __m256 zero_const = _mm256_set1_ps(h->zero);
  const int32_t n_units = h->n_units, per_block = h->units_per_block;
  __m256 acc[MR];

  WF_UNROLL_ALL
  for (int r = 0; r < s.rows; r++) acc[r] = _mm256_setzero_ps();
  for (int32_t u = 0; u < n_units;) {
    const __m256 scales = load_scales(&w, s.is_half);
    __m256 fold = zero_const;
    if (s.fold != WF_FOLD_CONST) fold = load_scales(&w, s.is_half);
    int32_t end = u + per_block;
    if (end > n_units) end = n_units;
    for (; u < end; u++, w += unit_bytes) {
      __m256 part[MR];
      WF_UNROLL_ALL
      for (int r = 0; r < s.rows; r++) part[r] = _mm256_setzero_ps();
      for (int k = 0; k < s.unit; k++) {
        const int shift = s.bits == 4 ? k % 4 * 8 + k % 8 / 4 * 4 : k % 4 * 8;
        const __m256i dwords = load_i(w + k / (s.bits == 4 ? 8 : 4) * NR * 4);
        __m256i q;
        if (s.bits == 4) {
          q = _mm256_and_si256(_mm256_srl_epi32(dwords, _mm_cvtsi32_si128(shift)),
                               _mm256_set1_epi32(15));
        } else { /* the byte goes to the top, then comes back with its sign */
          q = _mm256_srai_epi32(_mm256_sll_epi32(dwords, _mm_cvtsi32_si128(24 - shift)), 24);
        }
        __m256 v = _mm256_cvtepi32_ps(q);
        if (s.fold == WF_FOLD_OFFSET) {
          v = _mm256_fmadd_ps(v, scales, fold);
        } else {
          v = _mm256_mul_ps(_mm256_sub_ps(v, fold), scales);
        }
        WF_UNROLL_ALL
        for (int r = 0; r < s.rows; r++) {
          const uint8_t *x = act + (size_t)r * act_stride;
          part[r] = _mm256_fmadd_ps(v, broadcast_f(x, ((size_t)u * (size_t)s.unit + (size_t)k) * 4),
                                    part[r]);
        }
      }
      WF_UNROLL_ALL
      for (int r = 0; r < s.rows; r++) acc[r] = _mm256_add_ps(acc[r], part[r]);
    }
  }
  WF_UNROLL_ALL
  for (int r = 0; r < s.rows; r++) _mm256_storeu_ps(sums[r], acc[r]);
}

/* Bias, epilogue and store of one tile: whole groups in vectors. */
WF_INLINE void store_tile(const float *bias, const wf_epilogue *e, int rows, int64_t r0, int64_t n,
                          int64_t n_end, float sums[MR][NR], float *y, int64_t ldy) {
  for (int r = 0; r < rows; r++) {
    if (n_end - n < NR) {
      wf_matmul_store(bias, e, r0 + r, n, n_end - n, sums[r], y, ldy);
      continue;
    }
    __m256 v = _mm256_loadu_ps(sums[r]);
    if (bias) v = _mm256_add_ps(v, _mm256_loadu_ps(bias + n));
    if (e->op == WF_EPILOGUE_ADD) {
      v = _mm256_add_ps(_mm256_loadu_ps(e->residual + (r0 + r) * e->ld_residual + n), v);
    }
    _mm256_storeu_ps(y + (r0 + r) * ldy + n, v);
  }
}

#include "kernels/matmul_nbits_run.inc"

RUN_FOLDS(q4_unit32, 4, 32, 0)
RUN_FOLDS(q4_unit16, 4, 16, 0)
RUN_FOLDS(q8_unit32, 8, 32, 0)
RUN_FOLDS(q8_unit16, 8, 16, 0)
RUN_FOLDS(q4_exact32, 4, 32, 1)
RUN_FOLDS(q4_exact16, 4, 16, 1)
RUN_FOLDS(q8_exact32, 8, 32, 1)
RUN_FOLDS(q8_exact16, 8, 16, 1)

void wf_matmul_q4_avx2(const wf_pack_header *h, int64_t m, const void *act, float *y, int64_t ldy,
                       int64_t n_begin, int64_t n_end, const wf_epilogue *e) {
  wf_matmul_fn *fn = (h->unit == 32 ? q4_unit32 : q4_unit16)[h->fold][h->is_half];
  fn(h, m, act, y, ldy, n_begin, n_end, e);
}

void wf_matmul_q8_avx2(const wf_pack_header *h, int64_t m, const void *act, float *y, int64_t ldy,
                       int64_t n_begin, int64_t n_end, const wf_epilogue *e) {
  wf_matmul_fn *fn = (h->unit == 32 ? q8_unit32 : q8_unit16)[h->fold][h->is_half];
  fn(h, m, act, y, ldy, n_begin, n_end, e);
}

void wf_matmul_nbits_exact_avx2(const wf_pack_header *h, int64_t m, const void *act, float *y,
                                int64_t ldy, int64_t n_begin, int64_t n_end, const wf_epilogue *e) {
  wf_matmul_fn *fn;

  if (h->bits == 4) {
    fn = (h->unit == 32 ? q4_exact32 : q4_exact16)[h->fold][h->is_half];
  } else {
    fn = (h->unit == 32 ? q8_exact32 : q8_exact16)[h->fold][h->is_half];
  }
  fn(h, m, act, y, ldy, n_begin, n_end, e);
}

/* Activations -------------------------------------------------------------------------------- */

/* 32 values to int8; the same arithmetic as ref's, lane for lane. */
static void pack_unit_32(const float *x, uint8_t *out) {
  const __m256i no_sign = _mm256_set1_epi32(0x7fffffff);
  wf_act_unit_tail tail = {0};
  __m256 v[4];
  __m256i largest = _mm256_setzero_si256();
  __m256i bytes = _mm256_setzero_si256();

  WF_UNROLL_ALL
  for (int i = 0; i < 4; i++) {
    v[i] = _mm256_loadu_ps(x + i * 8);
    largest = _mm256_max_epi32(largest, _mm256_and_si256(_mm256_castps_si256(v[i]), no_sign));
  }
  __m128i most =
      _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
  most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4e));
  most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0xb1));
  const float amax = _mm_cvtss_f32(_mm_castsi128_ps(most));
  if (_mm_cvtsi128_si32(most) >= 0x7f800000) {
    tail.scale = tail.sum_neg = tail.sum_scaled = NAN;
  } else if (amax >= 0x1p-100f) {
    const __m256 inverse = _mm256_set1_ps(127.0f / amax);
    __m256i q[4];
    WF_UNROLL_ALL
    for (int i = 0; i < 4; i++) q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
    const __m256i all =
        _mm256_add_epi32(_mm256_add_epi32(q[0], q[1]), _mm256_add_epi32(q[2], q[3]));
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1));
    /* packs works in halves of the vector: put its dwords back in order */
    bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    tail.scale = amax / 127.0f;
    tail.sum_neg = (float)-_mm_cvtsi128_si32(sum);
    tail.sum_scaled = tail.scale * (float)_mm_cvtsi128_si32(sum);
  }
  _mm256_storeu_si256((__m256i *)(void *)out, bytes);
  memcpy(out + 32, &tail, sizeof tail);
}

void wf_act_pack_row_avx2(const wf_act_kind *kind, const float *x, void *row) {
  const size_t stride = 32 + sizeof(wf_act_unit_tail);
  int64_t k = 0;
  uint8_t *out = row;

  if (kind->id != WF_ACT_Q8 || kind->block_size != 32) {
    wf_act_pack_row_ref(kind, x, row);
    return;
  }
  for (; k + 32 <= kind->k; k += 32, out += stride) pack_unit_32(x + k, out);
  if (k < kind->k) {
    const wf_act_kind rest = {WF_ACT_Q8, 32, kind->k - k};
    wf_act_pack_row_ref(&rest, x + k, out);
  }
}
