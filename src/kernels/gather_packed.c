/* SPDX-License-Identifier: Apache-2.0 */
/* Rows out of packed weights: the embedding of a model whose head and embedding are one table, so
 * that only the packed copy of it is ever read. */
#include "kernels/matmul_internal.h"

bool wf_packed_can_gather(const wf_packed_weight *w) {
  const wf_pack_header *h = w->data;
  if (!h || h->nr == 0)
    return false; /* ref keeps plain copies, and nobody runs it for speed or memory */
  /* folded offsets are rounded: the rows would differ from the table's in the last bit */
  return h->format != WF_WEIGHT_NBITS || h->fold != WF_FOLD_OFFSET;
}

static float read_scale(const wf_pack_header *h, const uint8_t *at, size_t i) {
  float v;
  if (h->is_half) {
    uint16_t half;
    memcpy(&half, at + i * 2, sizeof half);
    return wf_f16_widen(half);
  }
  memcpy(&v, at + i * 4, sizeof v);
  return v;
}

static void gather_nbits(const wf_pack_header *h, const uint8_t *group, int c, float *out) {
  const size_t nr = (size_t)h->nr, scale_bytes = h->is_half ? 2 : 4;
  const uint8_t flip = h->is_signed ? 0x80 : 0;
  const int64_t n_blocks = (h->n_units + h->units_per_block - 1) / h->units_per_block;
  int64_t k = 0;
  for (int64_t b = 0; b < n_blocks; b++) {
    const float scale = read_scale(h, group, (size_t)c);
    group += nr * scale_bytes;
    float zero = h->zero;
    if (h->fold == WF_FOLD_ZERO) {
      zero = read_scale(h, group, (size_t)c);
      group += nr * scale_bytes;
    }
    zero += h->is_signed ? 128.0f : 0.0f;
    for (int u = 0; u < h->units_per_block && k < h->k; u++) {
      for (int at = 0; at < h->unit; at += h->bits == 4 ? 8 : 4, group += nr * 4) {
        const uint8_t *q = group + c * 4;
        for (int i = 0; i < 4; i++) {
          if (h->bits == 4) {
            if (k + at + i < h->k) out[k + at + i] = ((float)(q[i] & 15) - zero) * scale;
            if (k + at + 4 + i < h->k) out[k + at + 4 + i] = ((float)(q[i] >> 4) - zero) * scale;
          } else if (k + at + i < h->k) {
            out[k + at + i] = ((float)(q[i] ^ flip) - zero) * scale;
          }
        }
      }
      k += h->unit;
    }
  }
}

static void gather_dense(const wf_pack_header *h, const uint8_t *group, int64_t c, float *out) {
  const int64_t pair = h->is_paired ? 2 : 1;
  for (int64_t k = 0; k < h->k; k++) {
    const int64_t at = (k / pair * h->nr + c) * pair + k % pair;
    if (h->format == WF_WEIGHT_F32) {
      memcpy(out + k, group + at * 4, 4);
    } else {
      uint16_t v;
      memcpy(&v, group + at * 2, 2);
      out[k] = h->format == WF_WEIGHT_F16 ? wf_f16_widen(v) : wf_bf16_widen(v);
    }
  }
}

void wf_packed_gather(const wf_packed_weight *w, const int32_t *ids, int64_t n_ids, float *y,
                      int64_t ldy) {
  const wf_pack_header *h = w->data;
  for (int64_t i = 0; i < n_ids; i++) {
    const uint8_t *group =
        (const uint8_t *)h + h->groups_at + (uint64_t)(ids[i] / h->nr) * h->group_bytes;
    if (h->format == WF_WEIGHT_NBITS) {
      gather_nbits(h, group, ids[i] % h->nr, y + i * ldy);
    } else {
      gather_dense(h, group, ids[i] % h->nr, y + i * ldy);
    }
  }
}
