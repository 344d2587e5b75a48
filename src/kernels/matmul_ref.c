/* SPDX-License-Identifier: Apache-2.0 */
/* The plain definition of every matrix product: what is multiplied is what the contract says, and
 * the sum over K is taken in double, so that a difference from it is the other kernel's. */
#include "kernels/matmul_internal.h"

static float read_dense(int format, const uint8_t *data, int64_t i) {
  if (format == WF_WEIGHT_F32) {
    float f;
    memcpy(&f, data + i * 4, sizeof f);
    return f;
  }
  uint16_t v;
  memcpy(&v, data + i * 2, sizeof v);
  return format == WF_WEIGHT_F16 ? wf_f16_widen(v) : wf_bf16_widen(v);
}

static int read_q(const uint8_t *row, int bits, int64_t k) {
  const int64_t bit = k * bits;
  return row[bit >> 3] >> (bit & 7) & ((1 << bits) - 1);
}

void wf_matmul_dense_ref(const wf_pack_header *h, int64_t m, const void *act, float *y, int64_t ldy,
                         int64_t n_begin, int64_t n_end, const wf_epilogue *e) {
  const wf_act_kind kind = {WF_ACT_F32, 0, h->k};
  const uint8_t *data = (const uint8_t *)h + h->groups_at;

  for (int64_t r = 0; r < m; r++) {
    const float *x =
        (const float *)(const void *)((const uint8_t *)act + (size_t)r * wf_act_row_bytes(&kind));
    for (int64_t n = n_begin; n < n_end; n++) {
      double sum = 0.0;
      for (int64_t k = 0; k < h->k; k++) {
        const int64_t at = h->is_transposed ? k * h->n + n : n * h->k + k;
        sum += (double)x[k] * (double)read_dense(h->format, data, at);
      }
      const float out = (float)sum;
      wf_matmul_store(wf_pack_bias(h), e, r, n, 1, &out, y, ldy);
    }
  }
}

typedef struct nbits_view {
  const uint8_t *q; /* of row n */
  const float *scales, *zeros, *offsets;
  int64_t n_blocks, block_size;
} nbits_view;

static const float *floats_at(const wf_pack_header *h, uint64_t at) {
  return at ? (const float *)(const void *)((const uint8_t *)h + at) : NULL;
}

static nbits_view view_row(const wf_pack_header *h, int64_t n) {
  nbits_view v = {.block_size = (int64_t)h->unit * h->units_per_block};

  v.n_blocks = (h->k + v.block_size - 1) / v.block_size;
  v.q = (const uint8_t *)h + h->groups_at + n * (v.n_blocks * v.block_size * h->bits / 8);
  v.scales = floats_at(h, h->scales_at) + n * v.n_blocks;
  if (h->zeros_at) v.zeros = floats_at(h, h->zeros_at) + n * v.n_blocks;
  if (h->offsets_at) v.offsets = floats_at(h, h->offsets_at) + n;
  return v;
}

/* (q - zero) * scale + offset, unrounded. */
static double weight_at(const wf_pack_header *h, const nbits_view *v, int64_t k) {
  const int64_t b = k / v->block_size;
  const double zero = v->zeros ? (double)v->zeros[b] : (double)(1 << (h->bits - 1));
  const double w = ((double)read_q(v->q, h->bits, k) - zero) * (double)v->scales[b];
  return v->offsets ? w + (double)v->offsets[b * h->n] : w;
}

void wf_matmul_nbits_ref(const wf_pack_header *h, int64_t m, const void *act, float *y, int64_t ldy,
                         int64_t n_begin, int64_t n_end, const wf_epilogue *e) {
  const wf_act_kind kind = {WF_ACT_F32, 0, h->k};

  for (int64_t n = n_begin; n < n_end; n++) {
    const nbits_view v = view_row(h, n);
    for (int64_t r = 0; r < m; r++) {
      const float *x =
          (const float *)(const void *)((const uint8_t *)act + (size_t)r * wf_act_row_bytes(&kind));
      double sum = 0.0;
      for (int64_t k = 0; k < h->k; k++) sum += (double)x[k] * weight_at(h, &v, k);
      const float out = (float)sum;
      wf_matmul_store(wf_pack_bias(h), e, r, n, 1, &out, y, ldy);
    }
  }
}

void wf_matmul_nbits_q8_ref(const wf_pack_header *h, int64_t m, const void *act, float *y,
                            int64_t ldy, int64_t n_begin, int64_t n_end, const wf_epilogue *e) {
  const wf_act_kind kind = {WF_ACT_Q8, h->unit, h->k};
  const size_t stride = (size_t)h->unit + sizeof(wf_act_unit_tail);

  for (int64_t n = n_begin; n < n_end; n++) {
    const nbits_view v = view_row(h, n);
    for (int64_t r = 0; r < m; r++) {
      const uint8_t *row = (const uint8_t *)act + (size_t)r * wf_act_row_bytes(&kind);
      double sum = 0.0;
      for (int64_t u = 0; u < h->n_units; u++) {
        wf_act_unit_tail tail;
        memcpy(&tail, row + (size_t)u * stride + h->unit, sizeof tail);
        const int8_t *q = (const int8_t *)(row + (size_t)u * stride);
        double unit_sum = 0.0;
        for (int64_t i = 0; i < h->unit && u * h->unit + i < h->k; i++) {
          unit_sum += (double)q[i] * weight_at(h, &v, u * h->unit + i);
        }
        sum += unit_sum * (double)tail.scale;
      }
      const float out = (float)sum;
      wf_matmul_store(wf_pack_bias(h), e, r, n, 1, &out, y, ldy);
    }
  }
}

/* Activations -------------------------------------------------------------------------------- */

static void pack_unit_q8(const float *x, size_t n, size_t unit, uint8_t *out) {
  int8_t *q = (int8_t *)out;
  wf_act_unit_tail tail = {0};
  uint32_t largest = 0; /* as bits: a NaN is larger than every number */
  float amax;
  int32_t sum = 0;

  for (size_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, x + i, sizeof bits);
    bits &= 0x7fffffffu;
    if (bits > largest) largest = bits;
  }
  memset(q, 0, unit);
  memcpy(&amax, &largest, sizeof amax);
  if (largest >= 0x7f800000u) {
    tail.scale = tail.sum_neg = tail.sum_scaled = NAN;
  } else if (amax >= 0x1p-100f) {
    const float inverse = 127.0f / amax;
    tail.scale = amax / 127.0f;
    for (size_t i = 0; i < n; i++) {
      q[i] = (int8_t)lrintf(x[i] * inverse);
      sum += q[i];
    }
    tail.sum_neg = (float)-sum;
    tail.sum_scaled = tail.scale * (float)sum;
  }
  memcpy(out + unit, &tail, sizeof tail);
}

void wf_act_pack_row_ref(const wf_act_kind *kind, const float *x, void *row) {
  const size_t k = (size_t)kind->k;

  if (kind->id == WF_ACT_Q8) {
    uint8_t *out = row;
    for (int64_t k0 = 0; k0 < kind->k; k0 += kind->block_size) {
      const int64_t left = kind->k - k0;
      pack_unit_q8(x + k0, (size_t)(left < kind->block_size ? left : kind->block_size),
                   (size_t)kind->block_size, out);
      out += (size_t)kind->block_size + sizeof(wf_act_unit_tail);
    }
    return;
  }
  memset(row, 0, wf_act_row_bytes(kind));
  if (kind->id == WF_ACT_F32) {
    memcpy(row, x, k * sizeof *x);
    return;
  }
  for (size_t i = 0; i < k; i++) ((uint16_t *)row)[i] = wf_bf16_round(x[i]);
}

void wf_gemm_f32_ref(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b,
                     int64_t ldb, bool b_is_transposed, float *y, int64_t ldy) {
  for (int64_t i = 0; i < m; i++) {
    for (int64_t j = 0; j < n; j++) {
      double sum = 0.0;
      for (int64_t t = 0; t < k; t++) {
        const float w = b_is_transposed ? b[j * ldb + t] : b[t * ldb + j];
        sum += (double)a[i * lda + t] * (double)w;
      }
      y[i * ldy + j] = (float)sum;
    }
  }
}
