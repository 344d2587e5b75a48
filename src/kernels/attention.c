/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch of the attention family, and the parts that are the same at every level: how a row is
 * cut into items, where partial results lie, appending to and reading from the cache. */
#include "kernels/attention.h"

#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "kernels/attention_kernels.h"
#include "kernels/elementwise.h"

const wf_attention_variant *const wf_attention_variants[] = {
#if defined(__x86_64__)
    &wf_attention_avx512,
    &wf_attention_avx2,
#elif defined(__aarch64__)
    &wf_attention_neon,
#endif
    &wf_attention_ref,
};
const size_t wf_attention_n_variants =
    sizeof wf_attention_variants / sizeof wf_attention_variants[0];

static const wf_attention_variant *choose(wf_cpu_level level) {
  for (size_t i = 0; i + 1 < wf_attention_n_variants; i++)
    if (wf_cpu_has(level, wf_attention_variants[i]->needs)) return wf_attention_variants[i];
  return wf_attention_variants[wf_attention_n_variants - 1];
}

void wf_rope_f32(wf_cpu_level level, const wf_rope *rope, float *x, int64_t ld, int64_t n_tokens,
                 int32_t n_heads, int32_t head_dim, const int64_t *positions) {
  if (rope->kind == WF_ROPE_NONE || rope->dim <= 0) return;
  choose(level)->rope(rope, x, ld, n_tokens, n_heads, head_dim, positions);
}

void wf_head_rms_norm_f32(wf_cpu_level level, float *x, int64_t ld, int64_t n_tokens,
                          int32_t n_heads, int32_t head_dim, const float *weight, float epsilon) {
  choose(level)->head_rms_norm(x, ld, n_tokens, n_heads, head_dim, weight, epsilon);
}

/* One key into its lane of the group. */
static void store_key(const wf_attention_variant *variant, const wf_kv_layer *layer, const float *k,
                      unsigned char *to, float *scale) {
  WF_ALIGNED(64) unsigned char key[WF_ATTENTION_MAX_DIM * sizeof(float)];
  variant->store(layer->type, layer->head_dim, k, key, scale);
  switch (layer->type) {
    case WF_KV_F32:
      for (int32_t d = 0; d < layer->head_dim; d++)
        memcpy(to + (size_t)d * WF_KV_KEY_GROUP * 4, key + (size_t)d * 4, 4);
      break;
    case WF_KV_F16:
      for (int32_t d = 0; d < layer->head_dim; d++)
        memcpy(to + (size_t)d * WF_KV_KEY_GROUP * 2, key + (size_t)d * 2, 2);
      break;
    case WF_KV_Q8:
      for (int32_t d = 0; d < layer->head_dim; d++) to[(size_t)d * WF_KV_KEY_GROUP] = key[d];
      break;
  }
}

void wf_kv_append_by(const wf_attention_variant *variant, const wf_kv_layer *layer,
                     const wf_attention_row *row, const wf_rope *rope, float *k, int64_t ldk,
                     const float *v, int64_t ldv, int64_t token_begin, int64_t token_end) {
  for (int64_t i = token_begin; i < token_end; i++) {
    const int64_t at = row->past + i;
    float *k_token = k + (row->start + i) * ldk;
    const float *v_token = v + (row->start + i) * ldv;
    if (rope && rope->kind != WF_ROPE_NONE && rope->dim > 0)
      variant->rope(rope, k_token, ldk, 1, layer->kv_heads, layer->head_dim, &at);
    for (int32_t h = 0; h < layer->kv_heads; h++) {
      float *scale;
      unsigned char *to = wf_kv_at(layer, row, at, h, 0, &scale);
      store_key(variant, layer, k_token + (int64_t)h * layer->head_dim, to, scale);
      to = wf_kv_at(layer, row, at, h, 1, &scale);
      variant->store(layer->type, layer->head_dim_v, v_token + (int64_t)h * layer->head_dim_v, to,
                     scale);
    }
  }
}

/* n elements, `step` of them apart. */
static void read_back(wf_kv_type type, int64_t n, const unsigned char *from, int64_t step,
                      const float *scale, float *to) {
  for (int64_t i = 0; i < n; i++) {
    if (type == WF_KV_F32) {
      memcpy(&to[i], from + 4 * i * step, sizeof to[i]);
    } else if (type == WF_KV_F16) {
      uint16_t h;
      memcpy(&h, from + 2 * i * step, sizeof h);
      to[i] = wf_f16_value(h);
    } else {
      to[i] = (float)(int8_t)from[i * step] * *scale;
    }
  }
}

void wf_kv_read(const wf_kv_layer *layer, const wf_attention_row *row, int64_t begin, int64_t end,
                float *k, float *v) {
  for (int64_t t = begin; t < end; t++) {
    for (int32_t h = 0; h < layer->kv_heads; h++) {
      const int64_t slot = (t - begin) * layer->kv_heads + h;
      float *scale;
      const unsigned char *from = wf_kv_at(layer, row, t, h, 0, &scale);
      read_back(layer->type, layer->head_dim, from, WF_KV_KEY_GROUP, scale,
                k + slot * layer->head_dim);
      from = wf_kv_at(layer, row, t, h, 1, &scale);
      read_back(layer->type, layer->head_dim_v, from, 1, scale, v + slot * layer->head_dim_v);
    }
  }
}

int64_t wf_attention_n_items(const wf_attention_spec *p, const wf_kv_layer *layer,
                             const wf_attention_row *row) {
  const int64_t tile = wf_attention_tile_tokens(p, layer);
  return (row->n_new + tile - 1) / tile * layer->kv_heads;
}

/* Per thread: queries [rows][head_dim], scores [rows][tile], accumulators and totals
 * [rows][padded head_dim_v] each, four numbers a row, one tile of keys or values.
 */
size_t wf_attention_scratch_bytes(const wf_attention_spec *p, const wf_kv_layer *layer,
                                  int64_t max_new_tokens) {
  const int64_t tile = wf_attention_tile_tokens(p, layer);
  const int64_t tokens = max_new_tokens < tile ? max_new_tokens : tile;
  const size_t rows = (size_t)(tokens > 0 ? tokens : 1) * (size_t)(p->n_heads / layer->kv_heads);
  const size_t dim = (size_t)wf_round_up(layer->head_dim, 16);
  const size_t dim_v = (size_t)wf_attention_padded_v(layer);
  size_t floats = rows * (dim + WF_ATTENTION_TILE + 2 * dim_v + 16);
  floats += (size_t)WF_ATTENTION_TILE * (dim + dim_v) + 128;
  return floats * sizeof(float) + 64;
}

void wf_attention_item_by(const wf_attention_variant *variant, const wf_attention_spec *p,
                          const wf_kv_layer *layer, const wf_attention_row *row, const float *q,
                          int64_t ldq, float *y, int64_t ldy, int64_t item, void *scratch) {
  const int64_t tile = wf_attention_tile_tokens(p, layer);
  const int64_t n_tiles = (row->n_new + tile - 1) / tile;
  /* The last tile sees the most keys: handing it out first evens the threads' ends. */
  const int64_t t = n_tiles - 1 - item / layer->kv_heads;
  const int64_t end = (t + 1) * tile < row->n_new ? (t + 1) * tile : row->n_new;
  const wf_attention_span s = {
      .spec = p,
      .layer = layer,
      .row = row,
      .q = q,
      .ldq = ldq,
      .y = y,
      .ldy = ldy,
      .kv_head = (int32_t)(item % layer->kv_heads),
      .token_begin = t * tile,
      .token_end = end,
      .super_begin = wf_attention_lo(p, row->past + t * tile) / WF_ATTENTION_SUPER,
      .super_end = (row->past + end + WF_ATTENTION_SUPER - 1) / WF_ATTENTION_SUPER,
      .scratch = scratch};
  variant->span(&s);
}

int64_t wf_attention_n_split_items(const wf_attention_spec *p, const wf_kv_layer *layer,
                                   const wf_attention_row *row) {
  const int64_t n_super = wf_attention_super_end(row) - wf_attention_super_begin(p, row);
  if (row->n_new < 1 || row->n_new > WF_ATTENTION_SPLIT_TOKENS || n_super < 2 ||
      row->n_new > wf_attention_tile_tokens(p, layer))
    return 0;
  return n_super * layer->kv_heads;
}

size_t wf_attention_partials_bytes(const wf_attention_spec *p, const wf_kv_layer *layer,
                                   int64_t max_new_tokens, int64_t max_context) {
  const int64_t tokens =
      max_new_tokens < WF_ATTENTION_SPLIT_TOKENS ? max_new_tokens : WF_ATTENTION_SPLIT_TOKENS;
  const int64_t n_super = max_context / WF_ATTENTION_SUPER + 2;
  const size_t one = (size_t)(WF_PARTIAL_HEAD + wf_attention_padded_v(layer)) * sizeof(float);
  size_t n;
  if (!wf_size_mul((size_t)n_super, (size_t)tokens * (size_t)p->n_heads, &n) ||
      !wf_size_mul(n, one, &n))
    return SIZE_MAX; /* no allocator grants it: the caller's own out-of-memory error speaks */
  return n;
}

void wf_attention_split_item_by(const wf_attention_variant *variant, const wf_attention_spec *p,
                                const wf_kv_layer *layer, const wf_attention_row *row,
                                const float *q, int64_t ldq, int64_t item, void *partials,
                                void *scratch) {
  const int64_t super = wf_attention_super_begin(p, row) + item / layer->kv_heads;
  const wf_attention_span s = {.spec = p,
                               .layer = layer,
                               .row = row,
                               .q = q,
                               .ldq = ldq,
                               .kv_head = (int32_t)(item % layer->kv_heads),
                               .token_begin = 0,
                               .token_end = row->n_new,
                               .super_begin = super,
                               .super_end = super + 1,
                               .partials = partials,
                               .scratch = scratch};
  variant->span(&s);
}

void wf_attention_merge_item_by(const wf_attention_variant *variant, const wf_attention_spec *p,
                                const wf_kv_layer *layer, const wf_attention_row *row,
                                const void *partials, float *y, int64_t ldy, int32_t kv_head) {
  const wf_attention_span s = {.spec = p,
                               .layer = layer,
                               .row = row,
                               .y = y,
                               .ldy = ldy,
                               .kv_head = kv_head,
                               .token_begin = 0,
                               .token_end = row->n_new,
                               .super_begin = wf_attention_super_begin(p, row),
                               .super_end = wf_attention_super_end(row),
                               /* the span type is shared with the writers; merge only reads */
                               .partials = wf_unconst(partials)};
  variant->merge(&s);
}

/* The public forms: the variant of the level in force. */

void wf_kv_append(wf_cpu_level level, const wf_kv_layer *layer, const wf_attention_row *row,
                  const wf_rope *rope, float *k, int64_t ldk, const float *v, int64_t ldv,
                  int64_t token_begin, int64_t token_end) {
  wf_kv_append_by(choose(level), layer, row, rope, k, ldk, v, ldv, token_begin, token_end);
}

void wf_attention_item(wf_cpu_level level, const wf_attention_spec *p, const wf_kv_layer *layer,
                       const wf_attention_row *row, const float *q, int64_t ldq, float *y,
                       int64_t ldy, int64_t item, void *scratch) {
  wf_attention_item_by(choose(level), p, layer, row, q, ldq, y, ldy, item, scratch);
}

void wf_attention_split_item(wf_cpu_level level, const wf_attention_spec *p,
                             const wf_kv_layer *layer, const wf_attention_row *row, const float *q,
                             int64_t ldq, int64_t item, void *partials, void *scratch) {
  wf_attention_split_item_by(choose(level), p, layer, row, q, ldq, item, partials, scratch);
}

void wf_attention_merge_item(wf_cpu_level level, const wf_attention_spec *p,
                             const wf_kv_layer *layer, const wf_attention_row *row,
                             const void *partials, float *y, int64_t ldy, int32_t kv_head) {
  wf_attention_merge_item_by(choose(level), p, layer, row, partials, y, ldy, kv_head);
}
