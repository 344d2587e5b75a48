/* SPDX-License-Identifier: Apache-2.0 */
/* com.microsoft GroupQueryAttention on dense tensors: where its heads stand, which cache it extends
 * and how. */
#include <math.h>
#include <string.h>

#include "backend/native/dense_attention.h"
#include "backend/native/op_list.h"

/* Reads the heads, the shapes and where the query's, key's and value's heads stand: in three
 * operands or side by side in the first. */
static weft_status group_query_operands(wf_op_call *c, wf_dense_problem *a, weft_error *err) {
  const wf_view *q = c->in[0], *k = wf_op_in(c, 1), *v = wf_op_in(c, 2), *lens = wf_op_in(c, 5),
                *total = wf_op_in(c, 6);
  a->n_heads = wf_node_attr_i(c->node, "num_heads", 0);
  a->n_kv = wf_node_attr_i(c->node, "kv_num_heads", 0);
  if (!wf_dense_is_f32(q, 3) || a->n_heads <= 0 || a->n_kv <= 0 || !lens || !total ||
      wf_view_count(total) != 1 || lens->dtype != WF_DTYPE_I32 ||
      wf_view_count(lens) != q->dims[0]) {
    return wf_op_misfit(c, "an operand", err);
  }
  a->batch = q->dims[0];
  a->n_q = q->dims[1];
  const int64_t hidden = q->dims[2], groups = a->n_heads + (k ? 0 : 2 * a->n_kv);
  if (hidden % groups != 0) return wf_op_misfit(c, "the query", err);
  a->dim = a->dim_v = hidden / groups;
  a->q = (wf_dense_strided){q->data, a->n_q * hidden, a->dim, hidden};
  if (!k) {
    a->k = (wf_dense_strided){a->q.at + a->n_heads * a->dim, a->q.batch, a->dim, hidden};
    a->v = (wf_dense_strided){a->k.at + a->n_kv * a->dim, a->q.batch, a->dim, hidden};
    return WEFT_OK;
  }
  if (!wf_dense_is_f32(k, 3) || !v || !wf_dense_is_f32(v, 3) || k->dims[2] != a->n_kv * a->dim ||
      v->dims[2] != a->n_kv * a->dim || k->dims[1] != a->n_q || v->dims[1] != a->n_q ||
      k->dims[0] != a->batch || v->dims[0] != a->batch) {
    return wf_op_misfit(c, "a key or value", err);
  }
  a->k = (wf_dense_strided){k->data, a->n_q * k->dims[2], a->dim, k->dims[2]};
  a->v = (wf_dense_strided){v->data, a->n_q * v->dims[2], a->dim, v->dims[2]};
  return WEFT_OK;
}

/* SLIDING_WINDOW_CACHE. The cache has a fixed capacity and keeps the last positions in order, from
 * its first row on. One that would overflow is cut down to a window and filled again, so how many
 * it holds follows from how many positions there were in all (as ONNX Runtime's kernel does it, one
 * token at a time). */
static int64_t rows_held(int64_t n_positions, int64_t capacity, int64_t window) {
  if (n_positions <= capacity) return n_positions;
  return window + (n_positions - capacity - 1) % (capacity - window + 1);
}

/* The keys or values that the new tokens see: what the cache holds of each sequence, then them. */
static void join_window(const wf_view *past, const wf_dense_strided *s, const wf_dense_problem *a,
                        const int64_t *held, float *out) {
  const int64_t capacity = past->dims[2], row = a->dim;
  memset(out, 0, (size_t)(a->batch * a->n_kv * a->n_keys * row) * sizeof *out);
  for (int64_t i = 0; i < a->batch * a->n_kv; i++) {
    const int64_t b = i / a->n_kv, h = i % a->n_kv;
    float *to = out + i * a->n_keys * row;
    memcpy(to, (const float *)past->data + i * capacity * row,
           (size_t)(held[b] * row) * sizeof *to);
    for (int64_t t = 0; t < a->n_q; t++) {
      memcpy(to + (held[b] + t) * row, s->at + b * s->batch + h * s->head + t * s->token,
             (size_t)row * sizeof *to);
    }
  }
}

/* The last `kept` of them into the cache that comes out. */
static void keep_window(const float *joined, const wf_dense_problem *a, int64_t capacity,
                        const int64_t *held, const int64_t *kept, float *out) {
  const int64_t row = a->dim;
  memset(out, 0, (size_t)(a->batch * a->n_kv * capacity * row) * sizeof *out);
  for (int64_t i = 0; i < a->batch * a->n_kv; i++) {
    const int64_t b = i / a->n_kv, from = held[b] + a->n_q - kept[b];
    memcpy(out + i * capacity * row, joined + (i * a->n_keys + from) * row,
           (size_t)(kept[b] * row) * sizeof *out);
  }
}

/* Keys and values of a cache with a window; `first` becomes where new tokens begin among them. */
static weft_status group_query_window(wf_op_call *c, wf_dense_problem *a, int64_t window,
                                      int64_t *first, weft_error *err) {
  const wf_view *pk = wf_op_in(c, 3), *pv = wf_op_in(c, 4), *lens = wf_op_in(c, 5);
  const int64_t capacity = pk->dims[2];
  int64_t *kept = NULL;
  void *memory = NULL, *joined_k = NULL, *joined_v = NULL;
  if (wf_op_in(c, 10)) return wf_op_misfit(c, "attention_bias beside sliding_window_cache", err);
  if (window < 1 || capacity < window) {
    return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT,
                      "a cache of %lld positions is smaller than the window of %lld",
                      (long long)capacity, (long long)window);
  }
  WF_RETURN_IF_ERROR(wf_op_scratch(c, (size_t)(a->batch + 1) * sizeof *kept, &memory, err));
  kept = memory;
  int64_t most = 0;
  for (int64_t b = 0; b < a->batch; b++) {
    const int64_t valid = (int64_t)((const int32_t *)lens->data)[b] + 1;
    first[b] = rows_held(valid - a->n_q, capacity, window);
    kept[b] = rows_held(valid, capacity, window);
    if (first[b] > most) most = first[b];
  }
  a->n_keys = most + a->n_q;
  const size_t n_bytes = (size_t)(a->batch * a->n_kv * a->n_keys * a->dim) * sizeof(float);
  WF_RETURN_IF_ERROR(wf_op_scratch(c, n_bytes, &joined_k, err));
  WF_RETURN_IF_ERROR(wf_op_scratch(c, n_bytes, &joined_v, err));
  join_window(pk, &a->k, a, first, joined_k);
  join_window(pv, &a->v, a, first, joined_v);
  const int64_t dims[4] = {a->batch, a->n_kv, capacity, a->dim};
  WF_RETURN_IF_ERROR(wf_op_make(c, 1, WF_DTYPE_F32, 4, dims, err));
  WF_RETURN_IF_ERROR(wf_op_make(c, 2, WF_DTYPE_F32, 4, dims, err));
  keep_window(joined_k, a, capacity, first, kept, c->out[1].data);
  keep_window(joined_v, a, capacity, first, kept, c->out[2].data);
  a->k = wf_dense_heads(joined_k, a->n_kv, a->n_keys, a->dim);
  a->v = wf_dense_heads(joined_v, a->n_kv, a->n_keys, a->dim);
  return WEFT_OK;
}

/* Where each sequence's new tokens begin in its cache (`first`, [batch]) and which position turns
 * each of them (`positions`, [batch, n_q]). */
static weft_status group_query_places(wf_op_call *c, wf_dense_problem *a, int64_t *first,
                                      int64_t *positions, weft_error *err) {
  const wf_view *pk = wf_op_in(c, 3), *pv = wf_op_in(c, 4), *lens = wf_op_in(c, 5),
                *ids = wf_op_in(c, 9);
  if (!pk != !pv || (pk && (!wf_dense_is_f32(pk, 4) || !wf_dense_is_f32(pv, 4) ||
                            pk->dims[0] != a->batch || pk->dims[1] != a->n_kv ||
                            pk->dims[3] != a->dim || wf_view_count(pk) != wf_view_count(pv)))) {
    return wf_op_misfit(c, "the past", err);
  }
  if (ids && (ids->dtype != WF_DTYPE_I64 || wf_view_count(ids) != a->batch * a->n_q))
    return wf_op_misfit(c, "position_ids", err);
  int64_t total = 0;
  size_t one = 0;
  WF_RETURN_IF_ERROR(wf_op_ints(c, wf_op_in(c, 6), &total, 1, &one, err));
  const bool has_window = pk && wf_node_attr_i(c->node, "sliding_window_cache", 0) != 0;
  const int64_t n_past = pk ? pk->dims[2] : 0;
  a->n_keys = total > n_past ? total : n_past;
  if (total < a->n_q || total > INT32_MAX) return wf_op_misfit(c, "total_sequence_length", err);
  for (int64_t b = 0; b < a->batch; b++) {
    const int64_t valid = (int64_t)((const int32_t *)lens->data)[b] + 1;
    /* A first prompt may be padded to the right: then all its tokens begin at 0. */
    first[b] = total == a->n_q ? 0 : valid - a->n_q;
    if (has_window) first[b] = valid - a->n_q; /* the cache holds the last of them */
    if (valid < 1 || valid > a->n_keys || first[b] < 0 || (first[b] > n_past && !has_window))
      return wf_op_misfit(c, "seqlens_k", err);
    for (int64_t t = b * a->n_q; t < (b + 1) * a->n_q; t++)
      positions[t] = ids ? ((const int64_t *)ids->data)[t] : first[b] + t - b * a->n_q;
  }
  return WEFT_OK;
}

static weft_status group_query_turn(wf_op_call *c, wf_dense_problem *a, const int64_t *positions,
                                    weft_error *err) {
  const wf_view *cos = wf_op_in(c, 7), *sin = wf_op_in(c, 8);
  if (wf_node_attr_i(c->node, "do_rotary", 0) == 0) return WEFT_OK;
  if (!cos || !sin || !wf_dense_is_f32(cos, 2) || !wf_dense_is_f32(sin, 2) ||
      wf_view_count(cos) != wf_view_count(sin) || 2 * cos->dims[1] > a->dim) {
    return wf_op_misfit(c, "a rotary table", err);
  }
  const bool inter = wf_node_attr_i(c->node, "rotary_interleaved", 0) != 0;
  const int64_t r = 2 * cos->dims[1];
  WF_RETURN_IF_ERROR(wf_dense_turn(c, &a->q, a->batch, a->n_q, a->n_heads, a->dim, r, inter, cos,
                                   sin, positions, err));
  return wf_dense_turn(c, &a->k, a->batch, a->n_q, a->n_kv, a->dim, r, inter, cos, sin, positions,
                       err);
}

weft_status wf_op_ms_group_query_attention(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *pk = wf_op_in(c, 3), *pv = wf_op_in(c, 4), *bias = wf_op_in(c, 10),
                *sinks = wf_op_in(c, 11);
  wf_dense_problem a = {.is_causal = true, .left = -1, .right = -1};
  WF_RETURN_IF_ERROR(group_query_operands(c, &a, err));
  void *memory = NULL;
  WF_RETURN_IF_ERROR(
      wf_op_scratch(c, (size_t)(a.batch * (1 + a.n_q) + 1) * sizeof(int64_t), &memory, err));
  int64_t *const first = memory, *const positions = first + a.batch;
  WF_RETURN_IF_ERROR(group_query_places(c, &a, first, positions, err));
  WF_RETURN_IF_ERROR(group_query_turn(c, &a, positions, err));
  const int64_t window = wf_node_attr_i(c->node, "local_window_size", -1);
  if (pk && wf_node_attr_i(c->node, "sliding_window_cache", 0) != 0) {
    WF_RETURN_IF_ERROR(group_query_window(c, &a, window, first, err));
  } else {
    const int64_t kd[4] = {a.batch, a.n_kv, a.n_keys, a.dim};
    WF_RETURN_IF_ERROR(wf_op_make(c, 1, WF_DTYPE_F32, 4, kd, err));
    WF_RETURN_IF_ERROR(wf_op_make(c, 2, WF_DTYPE_F32, 4, kd, err));
    wf_dense_extend(pk, &a.k, a.batch, a.n_kv, a.n_q, a.dim, a.n_keys, first, c->out[1].data);
    wf_dense_extend(pv, &a.v, a.batch, a.n_kv, a.n_q, a.dim, a.n_keys, first, c->out[2].data);
    a.k = wf_dense_heads(c->out[1].data, a.n_kv, a.n_keys, a.dim);
    a.v = wf_dense_heads(c->out[2].data, a.n_kv, a.n_keys, a.dim);
  }
  a.first_position = first;
  a.left = window > 0 ? window - 1 : -1;
  a.scale = (double)wf_node_attr_f(c->node, "scale", 0);
  if (a.scale == 0) a.scale = 1 / sqrt((double)a.dim);
  a.softcap = (double)wf_node_attr_f(c->node, "softcap", 0);
  a.smooth = wf_node_attr_i(c->node, "smooth_softmax", 0) > 0;
  if (sinks) {
    if (!wf_dense_is_f32(sinks, 0) || wf_view_count(sinks) != a.n_heads)
      return wf_op_misfit(c, "head_sink", err);
    a.sinks = sinks->data;
  }
  if (!wf_dense_set_mask(&a.m, bias, a.batch, a.n_heads, a.n_q, a.n_keys))
    return wf_op_misfit(c, "attention_bias", err);
  const int64_t yd[3] = {a.batch, a.n_q, a.n_heads * a.dim};
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_F32, 3, yd, err));
  a.y = c->out[0].data;
  a.y_batch = a.n_q * a.n_heads * a.dim;
  a.y_head = a.dim;
  a.y_token = a.n_heads * a.dim;
  return wf_dense_attend(c, &a, err);
}
