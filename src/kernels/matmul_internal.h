/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the matmul family share: the header of packed bytes, the layout of packed
 * activations, the table of variants and the entries of each instruction set. Private to kernels.
 */
#ifndef WF_KERNELS_MATMUL_INTERNAL_H
#define WF_KERNELS_MATMUL_INTERNAL_H

#include <math.h>
#include <string.h>

#include "kernels/matmul.h"

/* wf_act_kind.id. */
enum {
  WF_ACT_F32 = 1, /* fp32 rows, K padded with zeros to WF_ACT_K_GRAIN */
  WF_ACT_Q8 = 2,  /* units of int8 with a scale, see wf_act_unit_tail */
  WF_ACT_BF16 = 3 /* bf16 rows, K padded with zeros to WF_ACT_K_GRAIN */
};
enum { WF_ACT_K_GRAIN = 32 };

/* One unit of int8 activations: block_size (16 or 32) values, then this. Rows lie one after the
 * other, units of a row too; values past K are 0.
 *   amax = largest |x| of the unit; scale = amax / 127; q = nearest-even(x * (127 / amax))
 * A unit with amax < 2^-100 is all zeros; one that holds a NaN or an infinity has scale NaN. */
typedef struct wf_act_unit_tail {
  float scale;
  float sum_neg;    /* -sum of the q: an integer */
  float sum_scaled; /* scale * sum of the q */
  float pad;
} wf_act_unit_tail;

/* How zero points and offsets enter a column's sum over one unit; `dot` is sum q_w * q_x. */
typedef enum wf_fold {
  WF_FOLD_CONST, /* one zero point for all: (dot - zero * sum) * (scale * act_scale) */
  WF_FOLD_ZERO,  /* a zero point a block: the same */
  WF_FOLD_OFFSET /* dot * (scale * act_scale) + c * act_sum_scaled, c = offset - zero * scale */
} wf_fold;

/* First bytes of packed weights. All places are counted from the header's beginning.
 *
 * Tiled NBITS: groups of `nr` columns, each a run of blocks
 *   [nr scales][nr folds, unless CONST][units of quantised values]
 * with scales and folds fp16 where all of them are exactly that, else fp32. A unit of 4 bits (2
 * bits are widened) is unit/8 chunks of nr*4 bytes: byte c*4+i of chunk j has k = 8j+i of column c
 * in its low half and k = 8j+4+i in the high one. A unit of 8 bits is unit/4 chunks: byte c*4+i of
 * chunk j has k = 4j+i, as q, or as the signed q-128 where `is_signed`. Tiled dense: groups of
 * [k_padded][nr] elements, or pairs of k side by side, [k/2][nr][2]. ref: plain copies of the
 * description's arrays. */
typedef struct wf_pack_header {
  uint32_t magic, layout;
  int64_t n, k;
  uint64_t total_bytes, group_bytes, groups_at;
  uint64_t bias_at;                         /* fp32, padded to nr; 0: none */
  uint64_t scales_at, zeros_at, offsets_at; /* ref only; 0: none */
  int32_t nr, bits, unit, units_per_block, n_units;
  float zero; /* WF_FOLD_CONST */
  uint8_t format, fold, is_half, is_signed, is_paired, is_transposed, is_zero_float, pad;
  uint32_t pad2;
} wf_pack_header;

/* One way to multiply. */
typedef struct wf_matmul_variant wf_matmul_variant;
typedef void wf_matmul_fn(const wf_pack_header *h, int64_t m, const void *act, float *y,
                          int64_t ldy, int64_t n_begin, int64_t n_end, const wf_epilogue *e);
struct wf_matmul_variant {
  wf_cpu_level needs;
  int formats; /* bits 1 << wf_weight_format */
  int bits;    /* stored bits for NBITS: 4, 8, 0 for any */
  int modes;   /* bits 1 << wf_matmul_mode */
  int nr;      /* columns a group; 0: ref's plain copies */
  int act_id;
  bool is_signed, is_paired;
  wf_matmul_fn *run;
};

/* What differs between instantiations of an NBITS tile; constants once inlined. */
typedef struct wf_nbits_shape {
  int rows, bits, unit;
  wf_fold fold;
  int is_half;
} wf_nbits_shape;

/* ref */
wf_matmul_fn wf_matmul_dense_ref;
wf_matmul_fn wf_matmul_nbits_ref;    /* fp32 activations */
wf_matmul_fn wf_matmul_nbits_q8_ref; /* int8 activations */
void wf_act_pack_row_ref(const wf_act_kind *kind, const float *x, void *row);
void wf_gemm_f32_ref(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
                     int64_t ldb, bool b_is_transposed, float *y, int64_t ldy);
/* avx2 */
wf_matmul_fn wf_matmul_q4_avx2;
wf_matmul_fn wf_matmul_q8_avx2;
wf_matmul_fn wf_matmul_nbits_exact_avx2;
wf_matmul_fn wf_matmul_dense_avx2;
void wf_act_pack_row_avx2(const wf_act_kind *kind, const float *x, void *row);
void wf_gemm_f32_avx2(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
                      int64_t ldb, bool b_is_transposed, float *y, int64_t ldy);

/* AVX-512; the exact mode needs F, BW, DQ, VL alone */
wf_matmul_fn wf_matmul_q4_avx512;
wf_matmul_fn wf_matmul_q8_avx512;
wf_matmul_fn wf_matmul_nbits_exact_avx512;
wf_matmul_fn wf_matmul_dense_avx512;
wf_matmul_fn wf_matmul_q4_avx512vnni;
wf_matmul_fn wf_matmul_q8_avx512vnni;
wf_matmul_fn wf_matmul_bf16_avx512bf16;
void wf_gemm_f32_avx512(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                        const float *b, int64_t ldb, bool b_is_transposed, float *y, int64_t ldy);

/* AArch64 */
wf_matmul_fn wf_matmul_q4_neon;
wf_matmul_fn wf_matmul_q8_neon;
wf_matmul_fn wf_matmul_nbits_exact_neon;
wf_matmul_fn wf_matmul_dense_neon;
wf_matmul_fn wf_matmul_q4_neondot;
wf_matmul_fn wf_matmul_q8_neondot;
void wf_gemm_f32_neon(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
                      int64_t ldb, bool b_is_transposed, float *y, int64_t ldy);

/* Packing (pack_weight.c). */
/* Fills the header and gives the bytes; without may_read an upper bound, from the presence of the
 * description's arrays alone. */
size_t wf_pack_layout(wf_pack_header *h, const wf_weight_desc *d, const wf_matmul_variant *v,
                      bool may_read);
void wf_pack_fill(const wf_pack_header *h, const wf_weight_desc *d, uint8_t *packed);

static inline size_t wf_act_row_bytes(const wf_act_kind *kind) {
  const size_t k = (size_t)kind->k;

  if (kind->id == WF_ACT_Q8) {
    const size_t unit = (size_t)kind->block_size;
    return (k + unit - 1) / unit * (unit + sizeof(wf_act_unit_tail));
  }
  return (k + WF_ACT_K_GRAIN - 1) / WF_ACT_K_GRAIN * WF_ACT_K_GRAIN *
         (kind->id == WF_ACT_BF16 ? 2 : 4);
}

/* Stores columns [n, n + count) of row r: bias and epilogue, the same for every level. */
static inline void wf_matmul_store(const float *bias, const wf_epilogue *e, int64_t r, int64_t n,
                                   int64_t count, const float *sum, float *y, int64_t ldy) {
  float *out = y + r * ldy + n;

  for (int64_t j = 0; j < count; j++) {
    float v = sum[j];
    if (bias) v += bias[n + j];
    if (e && e->op == WF_EPILOGUE_ADD) v = e->residual[r * e->ld_residual + n + j] + v;
    out[j] = v;
  }
}
static inline const float *wf_pack_bias(const wf_pack_header *h) {
  return h->bias_at ? (const float *)(const void *)((const uint8_t *)h + h->bias_at) : NULL;
}

static inline float wf_bf16_widen(uint16_t v) {
  const uint32_t bits = (uint32_t)v << 16;
  float f;

  memcpy(&f, &bits, sizeof f);
  return f;
}
static inline uint16_t wf_bf16_round(float f) { /* nearest even; a NaN stays one */
  uint32_t bits;

  memcpy(&bits, &f, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
static inline float wf_f16_widen(uint16_t v) {
  const uint32_t sign = (uint32_t)(v & 0x8000u) << 16, low = v & 0x7fffu;
  uint32_t bits;
  float f;

  if (low >= 0x7c00u) {
    bits = sign | 0x7f800000u | (low & 0x3ffu) << 13;
  } else if (low >= 0x400u) {
    bits = sign | ((low << 13) + (112u << 23));
  } else {
    f = (float)low * 0x1p-24f;
    memcpy(&bits, &f, sizeof bits);
    bits |= sign;
  }
  memcpy(&f, &bits, sizeof f);
  return f;
}
/* True and *half when f is exactly an fp16 number (a zero keeps its sign; NaN is none). */
static inline bool wf_f16_exact(float f, uint16_t *half) {
  uint32_t bits;
  uint16_t h;

  memcpy(&bits, &f, sizeof bits);
  const uint32_t sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
  if (a == 0) {
    h = 0;
  } else if (a >= 0x38800000u && a < 0x47800000u) {
    h = (uint16_t)((a - (112u << 23)) >> 13);
  } else if (a < 0x38800000u) {
    const float scaled = fabsf(f) * 0x1p24f;
    if (!(scaled < 1024.0f)) return false;
    h = (uint16_t)scaled;
  } else {
    return false;
  }
  h = (uint16_t)(h | sign);
  *half = h;
  return wf_f16_widen(h) == f;
}

#endif
