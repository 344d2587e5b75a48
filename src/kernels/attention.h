/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over a paged key/value cache, and rotary embedding with the append into that cache.
 *
 * THE CACHE LAYOUT. Each row (sequence) of a run has, for a layer, an array of block pointers. A
 * block holds `block_tokens` (a power of two) consecutive tokens of one layer group. Inside a
 * block, for a layer: keys at key_offset bytes in groups of WF_KV_KEY_GROUP tokens, as
 * [kv_heads][block_tokens / group][head_dim][group] (a score is then a sum down a lane: decoding
 * reads the cache as it lies, without turning a tile around first), values at value_offset as
 * [kv_heads][block_tokens][head_dim_v], elements f32, f16 or int8; q8 has float scales
 * [kv_heads][block_tokens] at *_scale_offset. A contiguous cache is one block. Token t of the
 * sequence lies in blocks[t / block_tokens - first_block]. Bytes of tokens that were not written
 * may be read, but no result depends on them.
 *
 * THE CONTRACT. Query at position p attends to keys j with lo(p) <= j <= p, where lo(p) = 0, or
 * p - window + 1 for a sliding window (window > 0). softmax(scale * q.k, capped: cap * tanh(s /
 * cap) if softcap > 0; sinks: one extra logit a head that takes part in the sum only). Keys are
 * read in tiles of WF_ATTENTION_TILE counted from position 0 of the SEQUENCE; within a tile the
 * partial max, sum and weighted values are formed, tiles are merged in ascending order. Everything
 * a query's result depends on is that order: never the chunk, the other rows, or the threads. exp
 * is wf_exp of math.h kernels, the same in every path of a level.
 */
#ifndef WF_KERNELS_ATTENTION_H
#define WF_KERNELS_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#include "base/process.h"

/* Heads wider than WF_ATTENTION_MAX_DIM are refused by whoever builds the plan. */
enum { WF_ATTENTION_TILE = 64, WF_ATTENTION_MAX_DIM = 1024, WF_KV_KEY_GROUP = 16 };

typedef enum wf_kv_type { WF_KV_F32, WF_KV_F16, WF_KV_Q8 } wf_kv_type;

/* Where one layer lies inside a block; the same for all rows. */
typedef struct wf_kv_layer {
  wf_kv_type type;
  int32_t kv_heads, head_dim, head_dim_v;
  int32_t block_tokens; /* power of two, at least WF_KV_KEY_GROUP */
  size_t key_offset, value_offset, key_scale_offset, value_scale_offset; /* bytes into a block */
} wf_kv_layer;

/* One sequence's part of a run. */
typedef struct wf_attention_row {
  unsigned char *const *blocks; /* block table of this layer's group */
  int64_t first_block;          /* number of blocks already dropped from the front */
  int64_t past;                 /* tokens in the cache before this run */
  int64_t start, n_new;         /* this row's tokens in the packed arrays: [start, start + n_new) */
} wf_attention_row;

typedef struct wf_attention_spec {
  int32_t n_heads; /* query heads, a multiple of kv_heads */
  float scale, softcap;
  int64_t window;     /* 0: none */
  const float *sinks; /* [n_heads] or NULL */
} wf_attention_spec;

typedef enum wf_rope_kind { WF_ROPE_NONE, WF_ROPE_HALF, WF_ROPE_INTERLEAVED } wf_rope_kind;

/* Rotary embedding tables: row p of cos/sin [n_positions, dim / 2] belongs to position p. */
typedef struct wf_rope {
  wf_rope_kind kind;
  int32_t dim; /* rotated leading part of a head, even; <= head_dim */
  const float *cos, *sin;
} wf_rope;

/* Rotates x [n_tokens][n_heads][head_dim] (token stride ld) in place; positions[i] is token i's. */
void wf_rope_f32(wf_cpu_level level, const wf_rope *rope, float *x, int64_t ld, int64_t n_tokens,
                 int32_t n_heads, int32_t head_dim, const int64_t *positions);

/* Optional RMS norm of each head of q or k before rotation (Qwen3, Gemma3): weight [head_dim]. */
void wf_head_rms_norm_f32(wf_cpu_level level, float *x, int64_t ld, int64_t n_tokens,
                          int32_t n_heads, int32_t head_dim, const float *weight, float epsilon);

/* Rotates new keys (k is changed in place) and stores keys and values of tokens
 * [token_begin, token_end) of the row into its cache blocks at past + i. k
 * [tokens][kv_heads][head_dim] with token stride ldk, v likewise. rope may be NULL. Threads take
 * disjoint token ranges. */
void wf_kv_append(wf_cpu_level level, const wf_kv_layer *layer, const wf_attention_row *row,
                  const wf_rope *rope, float *k, int64_t ldk, const float *v, int64_t ldv,
                  int64_t token_begin, int64_t token_end);

/* Work items of one row: independent pieces that any thread may take in any order. */
int64_t wf_attention_n_items(const wf_attention_spec *p, const wf_kv_layer *layer,
                             const wf_attention_row *row);
/* Scratch for one thread, bytes. */
size_t wf_attention_scratch_bytes(const wf_attention_spec *p, const wf_kv_layer *layer,
                                  int64_t max_new_tokens);
/* Item `item` of the row: writes its part of y [tokens][n_heads][head_dim_v] (token stride ldy)
 * from q [tokens][n_heads][head_dim] (token stride ldq, already rotated). The cache already holds
 * the row's new tokens. */
void wf_attention_item(wf_cpu_level level, const wf_attention_spec *p, const wf_kv_layer *layer,
                       const wf_attention_row *row, const float *q, int64_t ldq, float *y,
                       int64_t ldy, int64_t item, void *scratch);

/* KEY SPLITTING, for decode over long contexts where kv heads alone are too few items. Whatever way
 * is taken, a query's keys are always summed per super-tile of WF_ATTENTION_SUPER keys counted from
 * position 0, and the super-tiles' partial results are merged in ascending order, so the bits are
 * those of wf_attention_item. Use:
 *   n = wf_attention_n_split_items(...);            0: use wf_attention_item for this row
 *   any thread, any order: wf_attention_split_item(..., i, partials, scratch) for i in [0, n)
 *   barrier
 *   any thread, any order: wf_attention_merge_item(..., h, partials, y, ldy) for h in [0, kv_heads)
 * `partials` is shared by the team, one per row, wf_attention_partials_bytes, 64-byte aligned. */
enum { WF_ATTENTION_SUPER = 256, WF_ATTENTION_SPLIT_TOKENS = 8 };
/* kv heads times super-tiles that the row's queries see; 0 when splitting does not pay (one
 * super-tile or more than WF_ATTENTION_SPLIT_TOKENS new tokens). */
int64_t wf_attention_n_split_items(const wf_attention_spec *p, const wf_kv_layer *layer,
                                   const wf_attention_row *row);
/* Bytes of one row's partials when its context (past + new) is at most max_context tokens and it
 * has at most min(max_new_tokens, WF_ATTENTION_SPLIT_TOKENS) new ones. */
size_t wf_attention_partials_bytes(const wf_attention_spec *p, const wf_kv_layer *layer,
                                   int64_t max_new_tokens, int64_t max_context);
void wf_attention_split_item(wf_cpu_level level, const wf_attention_spec *p,
                             const wf_kv_layer *layer, const wf_attention_row *row, const float *q,
                             int64_t ldq, int64_t item, void *partials, void *scratch);
void wf_attention_merge_item(wf_cpu_level level, const wf_attention_spec *p,
                             const wf_kv_layer *layer, const wf_attention_row *row,
                             const void *partials, float *y, int64_t ldy, int32_t kv_head);

/* Reads tokens [begin, end) of the cache back as fp32: k [end-begin][kv_heads][head_dim]. */
void wf_kv_read(const wf_kv_layer *layer, const wf_attention_row *row, int64_t begin, int64_t end,
                float *k, float *v);

#endif
