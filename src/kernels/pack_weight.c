/* SPDX-License-Identifier: Apache-2.0 */
/* Brings weights into the layouts that matmul_internal.h describes. Plain C: packing happens once,
 * and the same code serves every level. */
#include <assert.h>

#include "kernels/matmul_internal.h"

enum { PACK_MAGIC = 0x4b504657, GROUP_ALIGN = 64 };

static size_t round_up(size_t n, size_t align) { return (n + align - 1) / align * align; }

/* Reading the description ------------------------------------------------------------------- */

static int64_t n_blocks(const wf_weight_desc *d) {
  return (d->k + d->block_size - 1) / d->block_size;
}

static int read_packed(const uint8_t *bytes, int bits, int64_t i) {
  const int64_t bit = i * bits;
  return bytes[bit >> 3] >> (bit & 7) & ((1 << bits) - 1);
}

static float read_zero(const wf_weight_desc *d, int64_t n, int64_t block) {
  if (d->zeros_float) return d->zeros_float[n * n_blocks(d) + block];
  if (d->zeros_packed) {
    const int64_t row_bytes = (n_blocks(d) * d->bits + 7) / 8;
    return (float)read_packed(d->zeros_packed + n * row_bytes, d->bits, block);
  }
  return (float)(1 << (d->bits - 1));
}

/* The value of one block's fold as matmul_internal.h defines it. */
static float read_fold(const wf_pack_header *h, const wf_weight_desc *d, int64_t n, int64_t block) {
  const float shift = h->is_signed ? 128.0f : 0.0f;
  const float zero = read_zero(d, n, block) - shift;

  if (h->fold == WF_FOLD_ZERO) return zero;
  return fmaf(-zero, d->scales[n * n_blocks(d) + block], d->offsets[block * d->n + n]);
}

/* True when every scale and fold is exactly an fp16 number. */
static bool fits_half(const wf_pack_header *h, const wf_weight_desc *d) {
  const int64_t blocks = n_blocks(d);
  uint16_t half;

  for (int64_t i = 0; i < d->n * blocks; i++) {
    if (!wf_f16_exact(d->scales[i], &half)) return false;
  }
  if (h->fold == WF_FOLD_CONST || (h->fold == WF_FOLD_ZERO && !d->zeros_float)) return true;
  for (int64_t n = 0; n < d->n; n++) {
    for (int64_t b = 0; b < blocks; b++) {
      if (!wf_f16_exact(read_fold(h, d, n, b), &half)) return false;
    }
  }
  return true;
}

/* Layout ------------------------------------------------------------------------------------- */

static size_t layout_ref(wf_pack_header *h, const wf_weight_desc *d) {
  size_t at = h->groups_at;
  const size_t n = (size_t)d->n;

  h->bits = d->bits;
  if (d->format != WF_WEIGHT_NBITS) {
    at += n * (size_t)d->k * (d->format == WF_WEIGHT_F32 ? 4 : 2);
  } else {
    const size_t blocks = (size_t)n_blocks(d);
    at += n * blocks * (size_t)d->block_size * (size_t)d->bits / 8;
    at = h->scales_at = round_up(at, GROUP_ALIGN);
    at += n * blocks * 4;
    if (d->zeros_float || d->zeros_packed) {
      h->zeros_at = at;
      at += n * blocks * 4; /* as floats */
    }
    if (d->offsets) {
      h->offsets_at = at;
      at += n * blocks * 4;
    }
  }
  return round_up(at, GROUP_ALIGN);
}

static size_t layout_tiled(wf_pack_header *h, const wf_weight_desc *d, bool may_read) {
  const size_t nr = (size_t)h->nr;
  const size_t n_groups = ((size_t)d->n + nr - 1) / nr;
  size_t bytes;

  if (d->format != WF_WEIGHT_NBITS) {
    const size_t k = h->is_paired ? round_up((size_t)d->k, 2) : (size_t)d->k;
    bytes = k * nr * (d->format == WF_WEIGHT_F32 ? 4 : 2);
  } else {
    h->bits = d->bits == 8 ? 8 : 4;
    if (d->offsets) {
      h->fold = WF_FOLD_OFFSET;
    } else {
      h->fold = d->zeros_float || d->zeros_packed ? WF_FOLD_ZERO : WF_FOLD_CONST;
    }
    h->zero = (float)(1 << (d->bits - 1)) - (h->is_signed ? 128.0f : 0.0f);
    h->is_half = may_read && fits_half(h, d);
    const size_t n_scales = (size_t)n_blocks(d) * (h->fold == WF_FOLD_CONST ? 1 : 2);
    bytes = (n_scales * (h->is_half ? 2 : 4) +
             (size_t)h->n_units * (size_t)h->unit * (size_t)h->bits / 8) *
            nr;
  }
  h->group_bytes = round_up(bytes, GROUP_ALIGN);
  return h->groups_at + n_groups * h->group_bytes;
}

size_t wf_pack_layout(wf_pack_header *h, const wf_weight_desc *d, const wf_matmul_variant *v,
                      bool may_read) {
  size_t total;

  *h = (wf_pack_header){
      .magic = PACK_MAGIC, .layout = wf_weight_layout_version(), .n = d->n, .k = d->k};
  h->nr = v->nr;
  h->format = (uint8_t)d->format;
  h->is_signed = v->is_signed && d->bits == 8 && d->format == WF_WEIGHT_NBITS;
  h->is_paired = v->is_paired;
  h->is_transposed = d->is_transposed;
  h->groups_at = round_up(sizeof *h, GROUP_ALIGN);
  if (d->format == WF_WEIGHT_NBITS) {
    h->unit = d->block_size < 32 ? d->block_size : 32;
    h->units_per_block = d->block_size / h->unit;
    h->n_units = (int32_t)((d->k + h->unit - 1) / h->unit);
  }
  total = v->nr ? layout_tiled(h, d, may_read) : layout_ref(h, d);
  if (d->bias) {
    h->bias_at = total;
    total += round_up((size_t)d->n * 4, GROUP_ALIGN);
  }
  h->total_bytes = total;
  return total;
}

/* Filling ------------------------------------------------------------------------------------ */

static uint8_t *put_scale(const wf_pack_header *h, uint8_t *at, float value) {
  if (h->is_half) {
    uint16_t half = 0;
    const bool is_exact = wf_f16_exact(value, &half);
    assert(is_exact);
    (void)is_exact;
    memcpy(at, &half, sizeof half);
    return at + sizeof half;
  }
  memcpy(at, &value, sizeof value);
  return at + sizeof value;
}

/* Eight 4-bit values in file order (two a byte, low first) to one dword of a chunk. */
static void put_chunk_4(const uint8_t *from, uint8_t *to) {
  to[0] = (uint8_t)((from[0] & 15) | from[2] << 4);
  to[1] = (uint8_t)(from[0] >> 4 | (from[2] & 0xf0));
  to[2] = (uint8_t)((from[1] & 15) | from[3] << 4);
  to[3] = (uint8_t)(from[1] >> 4 | (from[3] & 0xf0));
}

/* The same for 2 bits, four a byte. */
static void put_chunk_2(const uint8_t *from, uint8_t *to) {
  for (int i = 0; i < 4; i++) {
    to[i] = (uint8_t)((from[0] >> 2 * i & 3) | (from[1] >> 2 * i & 3) << 4);
  }
}

/* One unit of all columns of a group; a column past N stays zeros. Values past K are the file's own
 * padding: activations are zero there. */
static void fill_unit(const wf_pack_header *h, const wf_weight_desc *d, int64_t n0, int64_t k0,
                      uint8_t *at) {
  const int64_t row_bytes = n_blocks(d) * d->block_size * d->bits / 8;
  const int chunk_k = h->bits == 4 ? 8 : 4;
  const uint8_t flip = h->is_signed ? 0x80 : 0;

  for (int c = 0; c < h->nr && n0 + c < d->n; c++) {
    const uint8_t *from = (const uint8_t *)d->data + (n0 + c) * row_bytes + k0 * d->bits / 8;
    uint8_t *to = at + c * 4;
    for (int k = 0; k < h->unit; k += chunk_k, to += h->nr * 4, from += chunk_k * d->bits / 8) {
      if (d->bits == 4) {
        put_chunk_4(from, to);
      } else if (d->bits == 2) {
        put_chunk_2(from, to);
      } else {
        for (int i = 0; i < 4; i++) to[i] = from[i] ^ flip;
      }
    }
  }
}

static void fill_group_nbits(const wf_pack_header *h, const wf_weight_desc *d, int64_t n0,
                             uint8_t *at) {
  const int64_t blocks = n_blocks(d);
  const size_t unit_bytes = (size_t)(h->nr * h->unit * h->bits / 8);

  for (int64_t b = 0; b < blocks; b++) {
    for (int c = 0; c < h->nr; c++) {
      at = put_scale(h, at, n0 + c < d->n ? d->scales[(n0 + c) * blocks + b] : 0.0f);
    }
    for (int c = 0; c < h->nr && h->fold != WF_FOLD_CONST; c++) {
      at = put_scale(h, at, n0 + c < d->n ? read_fold(h, d, n0 + c, b) : 0.0f);
    }
    for (int64_t u = b * h->units_per_block; u < (b + 1) * h->units_per_block; u++) {
      if (u >= h->n_units) break;
      fill_unit(h, d, n0, u * h->unit, at);
      at += unit_bytes;
    }
  }
}

/* Elements from [N, K] or [K, N] to [k/pair][nr][pair], one loop a size so that the copy is a move.
 * A model file aligns its elements to nothing. */
#define FILL_DENSE(name, type)                                                                \
  static void name(const wf_pack_header *h, const wf_weight_desc *d, int64_t n0, type *to) {  \
    const int64_t nr = h->nr, pair = h->is_paired ? 2 : 1;                                    \
    const int64_t count = d->n - n0 < nr ? d->n - n0 : nr;                                    \
    const int64_t size = (int64_t)sizeof(type);                                               \
    const int64_t step_n = d->is_transposed ? 1 : d->k, step_k = d->is_transposed ? d->n : 1; \
    for (int64_t k = 0; k < d->k; k++) {                                                      \
      const uint8_t *from = (const uint8_t *)d->data + (n0 * step_n + k * step_k) * size;     \
      type *row = to + k / pair * nr * pair + k % pair;                                       \
      for (int64_t c = 0; c < count; c++) {                                                   \
        memcpy(row + c * pair, from + c * step_n * size, sizeof(type));                       \
      }                                                                                       \
    }                                                                                         \
  }

FILL_DENSE(fill_dense_32, uint32_t)
FILL_DENSE(fill_dense_16, uint16_t)

static void fill_group_dense(const wf_pack_header *h, const wf_weight_desc *d, int64_t n0,
                             uint8_t *at) {
  if (d->format == WF_WEIGHT_F32) {
    fill_dense_32(h, d, n0, (uint32_t *)(void *)at);
  } else {
    fill_dense_16(h, d, n0, (uint16_t *)(void *)at);
  }
}

static void fill_ref(const wf_pack_header *h, const wf_weight_desc *d, uint8_t *packed) {
  const size_t n = (size_t)d->n;

  if (d->format != WF_WEIGHT_NBITS) {
    memcpy(packed + h->groups_at, d->data, n * (size_t)d->k * (d->format == WF_WEIGHT_F32 ? 4 : 2));
    return;
  }
  const size_t blocks = (size_t)n_blocks(d);
  memcpy(packed + h->groups_at, d->data, n * blocks * (size_t)d->block_size * (size_t)d->bits / 8);
  memcpy(packed + h->scales_at, d->scales, n * blocks * 4);
  if (h->offsets_at) memcpy(packed + h->offsets_at, d->offsets, n * blocks * 4);
  for (size_t i = 0; h->zeros_at && i < n * blocks; i++) {
    const float zero = read_zero(d, (int64_t)(i / blocks), (int64_t)(i % blocks));
    memcpy(packed + h->zeros_at + i * 4, &zero, 4);
  }
}

void wf_pack_fill(const wf_pack_header *h, const wf_weight_desc *d, uint8_t *packed) {
  /* Whatever the loops below leave out is zeros, so that equal weights give equal bytes; but a full
   * group writes all but its tail itself, and the whole is too large to be written twice. */
  memset(packed, 0, h->nr ? h->groups_at : h->total_bytes);
  memcpy(packed, h, sizeof *h);
  if (h->bias_at) memset(packed + h->bias_at, 0, h->total_bytes - h->bias_at);
  if (h->bias_at) memcpy(packed + h->bias_at, d->bias, (size_t)d->n * 4);
  if (h->nr == 0) {
    fill_ref(h, d, packed);
    return;
  }
  uint8_t *group = packed + h->groups_at;
  for (int64_t n0 = 0; n0 < d->n; n0 += h->nr, group += h->group_bytes) {
    if (d->n - n0 < h->nr) {
      memset(group, 0, h->group_bytes);
    } else {
      memset(group + h->group_bytes - GROUP_ALIGN, 0, GROUP_ALIGN);
    }
    if (d->format == WF_WEIGHT_NBITS) {
      fill_group_nbits(h, d, n0, group);
    } else {
      fill_group_dense(h, d, n0, group);
    }
  }
}
