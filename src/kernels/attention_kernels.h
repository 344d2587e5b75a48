/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the attention family: what a variant implements, and where cache bytes lie.
 *
 * A variant computes spans: one kv head, a range of the row's new tokens, and a range of
 * super-tiles of keys. wf_attention_item is a span over all super-tiles that ends in y; a split
 * item is a span over one super-tile that ends in the partials. Both run the same code, which is
 * why their bits agree. */
#ifndef WF_KERNELS_ATTENTION_KERNELS_H
#define WF_KERNELS_ATTENTION_KERNELS_H

#include "kernels/attention.h"

/* Floats of one partial result: maximum, sum, padding, then the weighted values. */
enum { WF_PARTIAL_HEAD = 16, WF_ATTENTION_MAX_ROWS = 192 };

typedef struct wf_attention_span {
  const wf_attention_spec *spec;
  const wf_kv_layer *layer;
  const wf_attention_row *row;
  const float *q;
  int64_t ldq;
  float *y; /* used when partials is NULL */
  int64_t ldy;
  int32_t kv_head;
  int64_t token_begin, token_end; /* of the row's n_new */
  int64_t super_begin, super_end; /* super-tiles to visit */
  float *partials;                /* NULL: merge and finish into y */
  void *scratch;
} wf_attention_span;

typedef struct wf_attention_variant {
  const char *name;
  wf_cpu_level needs;
  void (*rope)(const wf_rope *rope, float *x, int64_t ld, int64_t n_tokens, int32_t n_heads,
               int32_t head_dim, const int64_t *positions);
  void (*head_rms_norm)(float *x, int64_t ld, int64_t n_tokens, int32_t n_heads, int32_t head_dim,
                        const float *weight, float epsilon);
  /* Stores n fp32 values as cache elements; q8 also yields the scale (amax / 127). */
  void (*store)(wf_kv_type type, int64_t n, const float *x, void *to, float *scale);
  void (*span)(const wf_attention_span *s);
  /* Merges the partials of tokens [0, n_new) of one kv head into y. */
  void (*merge)(const wf_attention_span *s);
} wf_attention_variant;

/* Best first; dispatch takes the first whose level is in force, the tests walk all. */
extern const wf_attention_variant *const wf_attention_variants[];
extern const size_t wf_attention_n_variants;

extern const wf_attention_variant wf_attention_ref;
extern const wf_attention_variant wf_attention_avx2;
extern const wf_attention_variant wf_attention_avx512;
extern const wf_attention_variant wf_attention_avx512_emu; /* test builds only */
extern const wf_attention_variant wf_attention_neon;

/* attention.h's functions by variant instead of level: what tests call, so that an emulated
 * variant, which no level names, goes through the same code. */
void wf_kv_append_by(const wf_attention_variant *variant, const wf_kv_layer *layer,
                     const wf_attention_row *row, const wf_rope *rope, float *k, int64_t ldk,
                     const float *v, int64_t ldv, int64_t token_begin, int64_t token_end);
void wf_attention_item_by(const wf_attention_variant *variant, const wf_attention_spec *p,
                          const wf_kv_layer *layer, const wf_attention_row *row, const float *q,
                          int64_t ldq, float *y, int64_t ldy, int64_t item, void *scratch);
void wf_attention_split_item_by(const wf_attention_variant *variant, const wf_attention_spec *p,
                                const wf_kv_layer *layer, const wf_attention_row *row,
                                const float *q, int64_t ldq, int64_t item, void *partials,
                                void *scratch);
void wf_attention_merge_item_by(const wf_attention_variant *variant, const wf_attention_spec *p,
                                const wf_kv_layer *layer, const wf_attention_row *row,
                                const void *partials, float *y, int64_t ldy, int32_t kv_head);

static inline int64_t wf_round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Columns of an accumulator row: head_dim_v padded so that every vector width divides it. */
static inline int64_t wf_attention_padded_v(const wf_kv_layer *layer) {
  return wf_round_up(layer->head_dim_v, 16);
}

/* New tokens handled by one item: enough rows to fill the registers, few enough to stay in cache.
 */
static inline int64_t wf_attention_tile_tokens(const wf_attention_spec *p,
                                               const wf_kv_layer *layer) {
  const int64_t group = p->n_heads / layer->kv_heads;
  const int64_t n = WF_ATTENTION_MAX_ROWS / group;
  return n < 1 ? 1 : n > 64 ? 64 : n;
}

/* First key that a query at position `at` sees. */
static inline int64_t wf_attention_lo(const wf_attention_spec *p, int64_t at) {
  return p->window > 0 && at >= p->window ? at - p->window + 1 : 0;
}

/* First super-tile that any query of the row sees, and one past the last. */
static inline int64_t wf_attention_super_begin(const wf_attention_spec *p,
                                               const wf_attention_row *row) {
  return wf_attention_lo(p, row->past) / WF_ATTENTION_SUPER;
}
static inline int64_t wf_attention_super_end(const wf_attention_row *row) {
  return (row->past + row->n_new + WF_ATTENTION_SUPER - 1) / WF_ATTENTION_SUPER;
}

/* The partial of (super-tile, new token, head of the kv head's group). */
static inline float *wf_attention_partial(const wf_attention_span *s, int64_t super, int64_t token,
                                          int64_t g) {
  const int64_t group = s->spec->n_heads / s->layer->kv_heads;
  const int64_t stride = WF_PARTIAL_HEAD + wf_attention_padded_v(s->layer);
  const int64_t n_super =
      wf_attention_super_end(s->row) - wf_attention_super_begin(s->spec, s->row);
  const int64_t at = super - wf_attention_super_begin(s->spec, s->row);
  return s->partials +
         ((((int64_t)s->kv_head * n_super + at) * s->row->n_new + token) * group + g) * stride;
}

static inline size_t wf_kv_element_bytes(wf_kv_type type) {
  return type == WF_KV_F32 ? 4 : type == WF_KV_F16 ? 2 : 1;
}

/* Address of element 0 of token t's key or value of kv head h; q8's scale beside it. The elements
 * of a value follow one another, those of a key lie WF_KV_KEY_GROUP apart. */
static inline unsigned char *wf_kv_at(const wf_kv_layer *layer, const wf_attention_row *row,
                                      int64_t t, int32_t h, int is_value, float **scale) {
  unsigned char *block = row->blocks[t / layer->block_tokens - row->first_block];
  const size_t slot =
      (size_t)h * (size_t)layer->block_tokens + (size_t)(t & (int64_t)(layer->block_tokens - 1));
  const size_t lane = is_value ? 0 : slot % WF_KV_KEY_GROUP;
  const size_t dim = (size_t)(is_value ? layer->head_dim_v : layer->head_dim);
  const size_t base = is_value ? layer->value_offset : layer->key_offset;
  /* block starts and offsets are aligned for the floats they hold */
  void *scales = block + (is_value ? layer->value_scale_offset : layer->key_scale_offset);
  *scale = layer->type == WF_KV_Q8 ? (float *)scales + slot : NULL;
  return block + base + ((slot - lane) * dim + lane) * wf_kv_element_bytes(layer->type);
}

#endif
