/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on dense tensors, for the operators that have it: ops_attention.c (ONNX, multi-head and
 * fused forms, rotary embedding) and ops_group_query.c. Thread: the caller's. Private to native/.
 */
#ifndef WF_NATIVE_DENSE_ATTENTION_H
#define WF_NATIVE_DENSE_ATTENTION_H

#include "backend/native/op.h"

/* A [batch, heads, length, dim] tensor in any memory order. */
typedef struct wf_dense_strided {
  const float *at;
  int64_t batch, head, token; /* strides in elements */
} wf_dense_strided;

/* An additive or boolean mask, broadcast to [batch, heads, q, kv]; data NULL: none. */
typedef struct wf_dense_mask {
  const void *data;
  bool is_bool;
  int64_t strides[4], n_keys; /* keys beyond n_keys are masked */
} wf_dense_mask;

typedef struct wf_dense_problem {
  int64_t batch, n_heads, n_kv, n_q, n_keys, dim, dim_v;
  wf_dense_strided q, k, v;
  float *y; /* strides below */
  int64_t y_batch, y_head, y_token;
  double scale, softcap;
  wf_dense_mask m;
  bool is_causal, smooth;
  const float *sinks;            /* [n_heads] */
  int64_t left, right;           /* window around the query's position, -1: open */
  const int64_t *first_position; /* [batch]: position of query 0 among the keys */
  const int64_t *n_valid;        /* [batch]: keys there are, or NULL: n_keys */
  float *scores;                 /* [batch, n_heads, n_q, n_keys] to be given out, or NULL */
  int scores_mode;               /* 0, 1: products; 2: with the mask; 3: after softmax */
} wf_dense_problem;

/* [batch, heads, tokens, dim], densely. */
static inline wf_dense_strided wf_dense_heads(const float *at, int64_t heads, int64_t tokens,
                                              int64_t dim) {
  return (wf_dense_strided){at, heads * tokens * dim, tokens * dim, dim};
}
/* Is it there, of fp32 and of that rank (0: any)? */
static inline bool wf_dense_is_f32(const wf_view *v, int32_t rank) {
  return v && v->dtype == WF_DTYPE_F32 && (rank == 0 || v->rank == rank);
}

/* Fills a->y. Errors: INVALID_ARGUMENT (heads that do not divide), OUT_OF_MEMORY. */
weft_status wf_dense_attend(wf_op_call *c, const wf_dense_problem *a, weft_error *err) WF_NODISCARD;
/* past [B, H, P, D] then n_new tokens of `s`, into out [B, H, T, D] from token `at[b]` on (P where
 * `at` is NULL). */
void wf_dense_extend(const wf_view *past, const wf_dense_strided *s, int64_t batch, int64_t heads,
                     int64_t n_new, int64_t dim, int64_t total, const int64_t *at, float *out);
/* False where the view is no mask of [batch, heads, n_q, n_keys]; NULL is none. */
bool wf_dense_set_mask(wf_dense_mask *m, const wf_view *v, int64_t batch, int64_t heads,
                       int64_t n_q, int64_t n_keys);
/* Copies [B, S, heads * dim] (as strides) to a dense scratch and turns it by each token's position;
 * cos NULL: the copy alone. Errors: INVALID_ARGUMENT (a position beyond the table), OUT_OF_MEMORY.
 */
weft_status wf_dense_turn(wf_op_call *c, wf_dense_strided *s, int64_t batch, int64_t n_tokens,
                          int64_t heads, int64_t dim, int64_t r, bool interleaved,
                          const wf_view *cos, const wf_view *sin, const int64_t *positions,
                          weft_error *err) WF_NODISCARD;

#endif
