/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and rotary embedding on dense tensors: ONNX's Attention, com.microsoft's
 * multi-head form, and the fused form of unpacked graphs. Sums are kept in double: this path is
 * for graphs that could not be packed, where being right counts first. */
#include <math.h>
#include <string.h>

#include "backend/native/dense_attention.h"
#include "backend/native/op_list.h"
#include "backend/native/op_types.h"
#include "kernels/attention.h"

static double mask_value(const wf_dense_mask *m, int64_t b, int64_t h, int64_t i, int64_t j) {
  if (!m->data) return 0;
  if (j >= m->n_keys) return -(double)INFINITY;
  const int64_t at = b * m->strides[0] + h * m->strides[1] + i * m->strides[2] + j * m->strides[3];
  if (m->is_bool) return ((const uint8_t *)m->data)[at] ? 0 : -(double)INFINITY;
  return (double)((const float *)m->data)[at];
}

/* One query row; `p` holds n_keys doubles, which become probabilities. */
static void attend_row(const wf_dense_problem *a, int64_t b, int64_t h, int64_t i, double *p) {
  const int64_t kv = h / (a->n_heads / a->n_kv);
  const float *q = a->q.at + b * a->q.batch + h * a->q.head + i * a->q.token;
  const int64_t position = i + (a->first_position ? a->first_position[b] : 0);
  const int64_t valid = a->n_valid ? a->n_valid[b] : a->n_keys;
  float *scores = a->scores ? a->scores + ((b * a->n_heads + h) * a->n_q + i) * a->n_keys : NULL;
  double max = -(double)INFINITY, most_bias = -(double)INFINITY;
  for (int64_t j = 0; j < a->n_keys; j++) {
    const float *k = a->k.at + b * a->k.batch + kv * a->k.head + j * a->k.token;
    double s = 0, bias = mask_value(&a->m, b, h, i, j);
    for (int64_t d = 0; d < a->dim; d++) s += (double)q[d] * (double)k[d];
    s *= a->scale;
    if (a->softcap > 0) s = a->softcap * tanh(s / a->softcap);
    if (a->is_causal && j > position) bias = -(double)INFINITY;
    if (a->left >= 0 && position - j > a->left) bias = -(double)INFINITY;
    if (a->right >= 0 && j - position > a->right) bias = -(double)INFINITY;
    if (j >= valid) bias = -(double)INFINITY;
    if (scores && a->scores_mode < 2) scores[j] = (float)s;
    if (bias > most_bias) most_bias = bias;
    p[j] = s + bias;
    if (isinf(bias) && bias < 0) p[j] = bias; /* whatever the product was, NaN included */
    if (scores && a->scores_mode == 2) scores[j] = (float)p[j];
    if (p[j] > max) max = p[j];
  }
  const bool has_sink = a->sinks || a->smooth;
  const double sink = a->sinks ? (double)a->sinks[h] : 0;
  if (has_sink && sink > max) max = sink;
  double sum = has_sink ? exp(sink - max) : 0;
  const bool is_empty = isinf(most_bias) && most_bias < 0;
  for (int64_t j = 0; j < a->n_keys; j++) {
    p[j] = is_empty ? 0 : exp(p[j] - max);
    sum += p[j];
  }
  float *y = a->y + b * a->y_batch + h * a->y_head + i * a->y_token;
  for (int64_t d = 0; d < a->dim_v; d++) y[d] = 0;
  for (int64_t j = 0; j < a->n_keys; j++) {
    const double w = is_empty || sum == 0 ? 0 : p[j] / sum;
    if (scores && a->scores_mode == 3) scores[j] = (float)w;
    p[j] = w;
  }
  for (int64_t d = 0; d < a->dim_v; d++) {
    double acc = 0;
    for (int64_t j = 0; j < a->n_keys; j++) {
      if (p[j] != 0)
        acc += p[j] * (double)a->v.at[b * a->v.batch + kv * a->v.head + j * a->v.token + d];
    }
    y[d] = (float)acc;
  }
}

weft_status wf_dense_attend(wf_op_call *c, const wf_dense_problem *a, weft_error *err) {
  void *p = NULL;
  if (a->n_kv <= 0 || a->n_heads % a->n_kv != 0) {
    return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT, "%lld heads over %lld key heads",
                      (long long)a->n_heads, (long long)a->n_kv);
  }
  WF_RETURN_IF_ERROR(wf_op_scratch(c, (size_t)(a->n_keys + 1) * sizeof(double), &p, err));
  for (int64_t b = 0; b < a->batch; b++) {
    for (int64_t h = 0; h < a->n_heads; h++) {
      for (int64_t i = 0; i < a->n_q; i++) attend_row(a, b, h, i, p);
    }
  }
  return WEFT_OK;
}

/* [B, S, H * D] or [B, H, S, D] as strides. */
static wf_dense_strided heads_of(const wf_view *v, int64_t n_heads, int64_t *n_tokens,
                                 int64_t *dim) {
  const float *at = v->data;
  if (v->rank == 3) {
    *n_tokens = v->dims[1];
    *dim = n_heads ? v->dims[2] / n_heads : 0;
    return (wf_dense_strided){at, v->dims[1] * v->dims[2], *dim, v->dims[2]};
  }
  *n_tokens = v->dims[2];
  *dim = v->dims[3];
  return (wf_dense_strided){at, v->dims[1] * v->dims[2] * v->dims[3], v->dims[2] * v->dims[3],
                            v->dims[3]};
}

void wf_dense_extend(const wf_view *past, const wf_dense_strided *s, int64_t batch, int64_t heads,
                     int64_t n_new, int64_t dim, int64_t total, const int64_t *at, float *out) {
  const int64_t n_past = past ? past->dims[2] : 0;
  memset(out, 0, (size_t)(batch * heads * total * dim) * sizeof *out);
  for (int64_t b = 0; b < batch; b++) {
    for (int64_t h = 0; h < heads; h++) {
      float *to = out + (b * heads + h) * total * dim;
      const int64_t keep = at ? at[b] : n_past;
      if (past) {
        memcpy(to, (const float *)past->data + (b * heads + h) * n_past * dim,
               (size_t)((keep < n_past ? keep : n_past) * dim) * sizeof *to);
      }
      for (int64_t i = 0; i < n_new && keep + i < total; i++) {
        memcpy(to + (keep + i) * dim, s->at + b * s->batch + h * s->head + i * s->token,
               (size_t)dim * sizeof *to);
      }
    }
  }
}

bool wf_dense_set_mask(wf_dense_mask *m, const wf_view *v, int64_t batch, int64_t heads,
                       int64_t n_q, int64_t n_keys) {
  if (!v) return true;
  const int64_t dims[4] = {batch, heads, n_q, n_keys};
  if (v->rank < 1 || v->rank > 4 || (v->dtype != WF_DTYPE_F32 && v->dtype != WF_DTYPE_BOOL))
    return false;
  m->data = v->data;
  m->is_bool = v->dtype == WF_DTYPE_BOOL;
  m->n_keys = n_keys;
  int64_t step = 1;
  for (int32_t i = 4; i-- > 0;) {
    const int32_t j = i - (4 - v->rank);
    const int64_t d = j < 0 ? 1 : v->dims[j];
    if (i == 3 ? d > n_keys && d != 1 : d != 1 && d != dims[i]) return false;
    m->strides[i] = d == 1 ? 0 : step;
    if (i == 3 && d != 1) m->n_keys = d;
    if (j >= 0) step *= d;
  }
  return true;
}

/* ---- ONNX Attention
 * ------------------------------------------------------------------------------------------ */

weft_status wf_op_attention(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 3, err));
  const wf_view *q = c->in[0], *k = c->in[1], *v = c->in[2], *pk = wf_op_in(c, 4),
                *pv = wf_op_in(c, 5);
  const wf_view *nonpad = wf_op_in(c, 6);
  if (!wf_dense_is_f32(q, 0) || !wf_dense_is_f32(k, q->rank) || !wf_dense_is_f32(v, q->rank) ||
      (q->rank != 3 && q->rank != 4)) {
    return wf_op_misfit(c, "a query, key or value", err);
  }
  wf_dense_problem a = {.batch = q->dims[0],
                        .left = wf_node_attr_i(c->node, "left_window_size", -1),
                        .right = wf_node_attr_i(c->node, "right_window_size", -1)};
  a.n_heads = q->rank == 4 ? q->dims[1] : wf_node_attr_i(c->node, "q_num_heads", 0);
  a.n_kv = k->rank == 4 ? k->dims[1] : wf_node_attr_i(c->node, "kv_num_heads", 0);
  if (a.n_heads <= 0 || a.n_kv <= 0) return wf_op_misfit(c, "a number of heads", err);
  int64_t n_new = 0, n_v = 0, dim_k = 0;
  a.q = heads_of(q, a.n_heads, &a.n_q, &a.dim);
  a.k = heads_of(k, a.n_kv, &n_new, &dim_k);
  a.v = heads_of(v, a.n_kv, &n_v, &a.dim_v);
  if (dim_k != a.dim || n_v != n_new || k->dims[0] != a.batch || v->dims[0] != a.batch ||
      (v->rank == 4 && v->dims[1] != a.n_kv) || !pk != !pv ||
      (pk && (!wf_dense_is_f32(pk, 4) || !wf_dense_is_f32(pv, 4) || pk->dims[0] != a.batch ||
              pv->dims[0] != a.batch || pk->dims[1] != a.n_kv || pv->dims[1] != a.n_kv ||
              pk->dims[3] != a.dim || pv->dims[3] != a.dim_v || pk->dims[2] != pv->dims[2]))) {
    return wf_op_misfit(c, "a key, value or past", err);
  }
  const int64_t n_past = pk ? pk->dims[2] : 0;
  a.n_keys = n_past + n_new;
  const int64_t kd[4] = {a.batch, a.n_kv, a.n_keys, a.dim},
                vd[4] = {a.batch, a.n_kv, a.n_keys, a.dim_v};
  if (pk || wf_op_wants(c, 1)) {
    WF_RETURN_IF_ERROR(wf_op_make(c, 1, WF_DTYPE_F32, 4, kd, err));
    wf_dense_extend(pk, &a.k, a.batch, a.n_kv, n_new, a.dim, a.n_keys, NULL, c->out[1].data);
    a.k = wf_dense_heads(c->out[1].data, a.n_kv, a.n_keys, a.dim);
  }
  if (pv || wf_op_wants(c, 2)) {
    WF_RETURN_IF_ERROR(wf_op_make(c, 2, WF_DTYPE_F32, 4, vd, err));
    wf_dense_extend(pv, &a.v, a.batch, a.n_kv, n_new, a.dim_v, a.n_keys, NULL, c->out[2].data);
    a.v = wf_dense_heads(c->out[2].data, a.n_kv, a.n_keys, a.dim_v);
  }
  if (!wf_dense_set_mask(&a.m, wf_op_in(c, 3), a.batch, a.n_heads, a.n_q, a.n_keys))
    return wf_op_misfit(c, "the mask", err);
  a.is_causal = wf_node_attr_i(c->node, "is_causal", 0) != 0;
  a.scale = (double)wf_node_attr_f(c->node, "scale", 0);
  if (!wf_node_attr(c->node, "scale")) a.scale = 1 / sqrt((double)a.dim);
  a.softcap = (double)wf_node_attr_f(c->node, "softcap", 0);
  void *memory = NULL;
  WF_RETURN_IF_ERROR(wf_op_scratch(c, (size_t)(2 * a.batch + 1) * sizeof(int64_t), &memory, err));
  int64_t *first = memory, *valid = first + a.batch;
  for (int64_t b = 0; b < a.batch; b++) {
    first[b] = n_past;
    valid[b] = a.n_keys;
    if (!nonpad) continue;
    if (nonpad->dtype != WF_DTYPE_I64 || wf_view_count(nonpad) != a.batch)
      return wf_op_misfit(c, "nonpad_kv_seqlen", err);
    valid[b] = ((const int64_t *)nonpad->data)[b];
    first[b] = valid[b] - a.n_q;
  }
  a.first_position = first;
  a.n_valid = valid;
  if (wf_op_wants(c, 3)) {
    const int64_t sd[4] = {a.batch, a.n_heads, a.n_q, a.n_keys};
    WF_RETURN_IF_ERROR(wf_op_make(c, 3, WF_DTYPE_F32, 4, sd, err));
    a.scores = c->out[3].data;
    a.scores_mode = (int)wf_node_attr_i(c->node, "qk_matmul_output_mode", 0);
  }
  const int64_t yd3[3] = {a.batch, a.n_q, a.n_heads * a.dim_v},
                yd4[4] = {a.batch, a.n_heads, a.n_q, a.dim_v};
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_F32, q->rank, q->rank == 3 ? yd3 : yd4, err));
  a.y = c->out[0].data;
  a.y_batch = a.n_heads * a.n_q * a.dim_v;
  a.y_head = q->rank == 3 ? a.dim_v : a.n_q * a.dim_v;
  a.y_token = q->rank == 3 ? a.n_heads * a.dim_v : a.dim_v;
  return wf_dense_attend(c, &a, err);
}

/* ---- rotary embedding
 * ------------------------------------------------------------------------------------------ */

static void rotate(float *x, int64_t dim, const float *cos, const float *sin, bool interleaved) {
  const int64_t half = dim / 2;
  for (int64_t i = 0; i < half; i++) {
    float *a = interleaved ? x + 2 * i : x + i, *b = interleaved ? x + 2 * i + 1 : x + i + half;
    const float u = *a, w = *b;
    *a = u * cos[i] - w * sin[i];
    *b = w * cos[i] + u * sin[i];
  }
}

/* x [B, S, H * D] or [B, H, S, D]; tables [rows, width] indexed by position, or [B, S, width]. */
static weft_status run_rotary(wf_op_call *c, const wf_view *positions, const wf_view *cos,
                              const wf_view *sin, weft_error *err) {
  const wf_view *x = c->in[0];
  const bool interleaved = wf_node_attr_i(c->node, "interleaved", 0) != 0;
  int64_t n_heads = wf_node_attr_i(c->node, "num_heads", 0), dim = 0, n_tokens = 0;
  int64_t r = wf_node_attr_i(c->node, "rotary_embedding_dim", 0);
  if (!wf_dense_is_f32(x, 0) || (x->rank != 3 && x->rank != 4) || !wf_dense_is_f32(cos, 0) ||
      !wf_dense_is_f32(sin, cos->rank) || cos->rank < 2 ||
      wf_view_count(cos) != wf_view_count(sin)) {
    return wf_op_misfit(c, "the input or a table", err);
  }
  const int64_t width = cos->dims[cos->rank - 1];
  if (x->rank == 4) n_heads = x->dims[1];
  if (n_heads <= 0) n_heads = width > 0 ? x->dims[2] / (2 * width) : 0;
  if (n_heads <= 0 || (x->rank == 3 && x->dims[2] % n_heads != 0))
    return wf_op_misfit(c, "num_heads", err);
  const wf_dense_strided s = heads_of(x, n_heads, &n_tokens, &dim);
  if (r == 0) r = 2 * width < dim ? 2 * width : dim;
  if (r < 0 || r > dim || r / 2 > width) return wf_op_misfit(c, "the rotated size", err);
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_F32, x->rank, x->dims, err));
  float *y = c->out[0].data;
  memcpy(y, x->data, (size_t)wf_view_count(x) * sizeof *y);
  const int64_t rows = width ? wf_view_count(cos) / width : 0, batch = x->dims[0];
  const int64_t n_positions = positions ? wf_view_count(positions) : 0;
  if (positions && n_positions != 1 && n_positions != batch * n_tokens && n_positions != n_tokens) {
    return wf_op_misfit(c, "position_ids", err);
  }
  for (int64_t b = 0; b < batch; b++) {
    for (int64_t t = 0; t < n_tokens; t++) {
      int64_t p = b * n_tokens + t;
      if (positions) {
        const int64_t at = n_positions == 1 ? 0 : n_positions == n_tokens ? t : p;
        p = positions->dtype == WF_DTYPE_I64 ? ((const int64_t *)positions->data)[at]
                                             : ((const int32_t *)positions->data)[at];
        if (n_positions == 1) p += t;
      } else if (rows == n_tokens) {
        p = t;
      }
      if (p < 0 || p >= rows) {
        return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT, "position %lld of a table of %lld",
                          (long long)p, (long long)rows);
      }
      for (int64_t h = 0; h < n_heads; h++) {
        rotate(y + b * s.batch + h * s.head + t * s.token, r, (const float *)cos->data + p * width,
               (const float *)sin->data + p * width, interleaved);
      }
    }
  }
  return WEFT_OK;
}

weft_status wf_dense_turn(wf_op_call *c, wf_dense_strided *s, int64_t batch, int64_t n_tokens,
                          int64_t heads, int64_t dim, int64_t r, bool interleaved,
                          const wf_view *cos, const wf_view *sin, const int64_t *positions,
                          weft_error *err) {
  void *memory = NULL;
  WF_RETURN_IF_ERROR(
      wf_op_scratch(c, (size_t)(batch * n_tokens * heads * dim + 1) * 4, &memory, err));
  float *y = memory;
  const int64_t width = cos ? cos->dims[cos->rank - 1] : 0,
                rows = width ? wf_view_count(cos) / width : 0;
  for (int64_t b = 0; b < batch; b++) {
    for (int64_t t = 0; t < n_tokens; t++) {
      const int64_t p = positions[b * n_tokens + t];
      if (cos && (p < 0 || p >= rows)) {
        return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT, "position %lld of a table of %lld",
                          (long long)p, (long long)rows);
      }
      for (int64_t h = 0; h < heads; h++) {
        float *to = y + ((b * n_tokens + t) * heads + h) * dim;
        memcpy(to, s->at + b * s->batch + h * s->head + t * s->token, (size_t)dim * sizeof *to);
        if (!cos) continue;
        rotate(to, r, (const float *)cos->data + p * width, (const float *)sin->data + p * width,
               interleaved);
      }
    }
  }
  *s = (wf_dense_strided){y, n_tokens * heads * dim, dim, heads * dim};
  return WEFT_OK;
}

weft_status wf_op_rotary_embedding(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 3, err));
  return run_rotary(c, wf_op_in(c, 3), c->in[1], c->in[2], err);
}
weft_status wf_op_ms_rotary_embedding(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 4, err));
  return run_rotary(c, c->in[1], c->in[2], c->in[3], err);
}

/* ---- com.microsoft MultiHeadAttention
 * ---------------------------------------------------------------------------- */

/* Adds a slice of the joint bias to a [B, S, H * D] operand. */
static weft_status add_bias(wf_op_call *c, wf_dense_strided *s, int64_t batch, int64_t n_tokens,
                            int64_t width, const float *bias, weft_error *err) {
  void *memory = NULL;
  WF_RETURN_IF_ERROR(wf_op_scratch(c, (size_t)(batch * n_tokens * width + 1) * 4, &memory, err));
  float *y = memory;
  for (int64_t b = 0; b < batch; b++) {
    for (int64_t t = 0; t < n_tokens; t++) {
      for (int64_t i = 0; i < width; i++) {
        y[(b * n_tokens + t) * width + i] = s->at[b * s->batch + t * s->token + i] + bias[i];
      }
    }
  }
  s->at = y;
  s->batch = n_tokens * width;
  s->token = width;
  return WEFT_OK;
}

weft_status wf_op_ms_multi_head_attention(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *q = c->in[0], *k = wf_op_in(c, 1), *v = wf_op_in(c, 2), *bias = wf_op_in(c, 3),
                *padding = wf_op_in(c, 4), *add = wf_op_in(c, 5), *pk = wf_op_in(c, 6),
                *pv = wf_op_in(c, 7);
  wf_dense_problem a = {.n_heads = wf_node_attr_i(c->node, "num_heads", 0),
                        .left = -1,
                        .right = -1,
                        .is_causal = wf_node_attr_i(c->node, "unidirectional", 0) != 0};
  a.n_kv = a.n_heads;
  if (!wf_dense_is_f32(q, 3) || a.n_heads <= 0 || !k || !v || !wf_dense_is_f32(k, 0) ||
      !wf_dense_is_f32(v, 0) || (k->rank != 3 && k->rank != 4) || v->rank != k->rank ||
      q->dims[2] % a.n_heads != 0) {
    return wf_op_fail(c, err, WEFT_UNSUPPORTED, "packed or missing operands");
  }
  if (k->rank == 4 && k->dims[1] != a.n_heads) return wf_op_misfit(c, "a key", err);
  int64_t n_new = 0, n_v = 0, dim_k = 0;
  a.batch = q->dims[0];
  a.q = heads_of(q, a.n_heads, &a.n_q, &a.dim);
  a.k = heads_of(k, a.n_heads, &n_new, &dim_k);
  a.v = heads_of(v, a.n_heads, &n_v, &a.dim_v);
  if (dim_k != a.dim || n_v != n_new || k->dims[0] != a.batch || v->dims[0] != a.batch)
    return wf_op_misfit(c, "a key or value", err);
  if (bias) {
    const int64_t hq = a.n_heads * a.dim, hv = a.n_heads * a.dim_v;
    if (!wf_dense_is_f32(bias, 0) || wf_view_count(bias) != 2 * hq + hv)
      return wf_op_misfit(c, "the bias", err);
    const float *p = bias->data;
    WF_RETURN_IF_ERROR(add_bias(c, &a.q, a.batch, a.n_q, hq, p, err));
    if (k->rank == 3) {
      WF_RETURN_IF_ERROR(add_bias(c, &a.k, a.batch, n_new, hq, p + hq, err));
      WF_RETURN_IF_ERROR(add_bias(c, &a.v, a.batch, n_new, hv, p + 2 * hq, err));
    }
  }
  if (!pk != !pv ||
      (pk && (!wf_dense_is_f32(pk, 4) || !wf_dense_is_f32(pv, 4) || pk->dims[0] != a.batch ||
              pk->dims[1] != a.n_heads || pk->dims[3] != a.dim || pv->dims[0] != a.batch ||
              pv->dims[1] != a.n_heads || pv->dims[3] != a.dim_v || pk->dims[2] != pv->dims[2]))) {
    return wf_op_misfit(c, "the past", err);
  }
  const int64_t n_past = pk ? pk->dims[2] : 0;
  a.n_keys = n_past + n_new;
  if (pk || wf_op_wants(c, 1) || wf_op_wants(c, 2)) {
    const int64_t kd[4] = {a.batch, a.n_heads, a.n_keys, a.dim},
                  vd[4] = {a.batch, a.n_heads, a.n_keys, a.dim_v};
    WF_RETURN_IF_ERROR(wf_op_make(c, 1, WF_DTYPE_F32, 4, kd, err));
    WF_RETURN_IF_ERROR(wf_op_make(c, 2, WF_DTYPE_F32, 4, vd, err));
    wf_dense_extend(pk, &a.k, a.batch, a.n_heads, n_new, a.dim, a.n_keys, NULL, c->out[1].data);
    wf_dense_extend(pv, &a.v, a.batch, a.n_heads, n_new, a.dim_v, a.n_keys, NULL, c->out[2].data);
    a.k = wf_dense_heads(c->out[1].data, a.n_heads, a.n_keys, a.dim);
    a.v = wf_dense_heads(c->out[2].data, a.n_heads, a.n_keys, a.dim_v);
  }
  if (!wf_dense_set_mask(&a.m, add, a.batch, a.n_heads, a.n_q, a.n_keys))
    return wf_op_misfit(c, "attention_bias", err);
  void *memory = NULL;
  WF_RETURN_IF_ERROR(wf_op_scratch(c, (size_t)(2 * a.batch + 1) * sizeof(int64_t), &memory, err));
  int64_t *first = memory, *valid = first + a.batch;
  if (padding &&
      (padding->rank != 1 || padding->dtype != WF_DTYPE_I32 || padding->dims[0] != a.batch)) {
    return wf_op_fail(c, err, WEFT_UNSUPPORTED, "a key padding mask of this form");
  }
  for (int64_t b = 0; b < a.batch; b++) {
    first[b] = n_past;
    valid[b] = padding ? ((const int32_t *)padding->data)[b] : a.n_keys;
  }
  a.first_position = first;
  a.n_valid = valid;
  a.scale = (double)wf_node_attr_f(c->node, "scale", 0);
  if (a.scale == 0) a.scale = 1 / sqrt((double)a.dim);
  const int64_t yd[3] = {a.batch, a.n_q, a.n_heads * a.dim_v};
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_F32, 3, yd, err));
  a.y = c->out[0].data;
  a.y_batch = a.n_q * a.n_heads * a.dim_v;
  a.y_head = a.dim_v;
  a.y_token = a.n_heads * a.dim_v;
  return wf_dense_attend(c, &a, err);
}

/* ---- internal
 * ------------------------------------------------------------------------------------------------------
 */

weft_status wf_op_weft_rotary(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 3, err));
  const wf_rotary_params *p = &c->node->as.rotary;
  const wf_view *x = c->in[0], *cos = c->in[1], *sin = c->in[2];
  const int64_t row = (int64_t)p->n_heads * p->head_dim;
  if (!wf_dense_is_f32(x, 0) || !wf_dense_is_f32(cos, 0) || !wf_dense_is_f32(sin, 0) || row <= 0 ||
      wf_view_count(x) % row != 0 || cos->rank < 1 || p->dim / 2 > cos->dims[cos->rank - 1]) {
    return wf_op_fail(c, err, WEFT_UNSUPPORTED, "a rotation of this form");
  }
  const int64_t width = cos->dims[cos->rank - 1], rows = width ? wf_view_count(cos) / width : 0;
  const int64_t n = wf_view_count(x) / row;
  /* A row by itself is batch 1: its tokens follow one another from `past`. */
  const bool by_token = p->index == WF_ROTARY_BY_TOKEN;
  const int64_t first = by_token ? 0 : c->env->past;
  if (wf_view_count(sin) != wf_view_count(cos) || rows == 0 ||
      (by_token ? n % rows != 0 : first + n > rows)) {
    return wf_op_misfit(c, "a table", err);
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_F32, x->rank, x->dims, err));
  float *y = c->out[0].data;
  memcpy(y, x->data, (size_t)wf_view_count(x) * sizeof *y);
  for (int64_t i = 0; i < n; i++) {
    for (int32_t h = 0; h < p->n_heads; h++) {
      rotate(y + i * row + (int64_t)h * p->head_dim, p->dim,
             (const float *)cos->data + (first + i) % rows * width,
             (const float *)sin->data + (first + i) % rows * width,
             p->kind == WF_ROTARY_INTERLEAVED);
    }
  }
  return WEFT_OK;
}

/* The fused attention of a graph that runs row by row: batch 1, every cached token valid. */
/* The same by the cache's kernels: keys and values of all heads are laid out as one block of it,
 * then the team takes the pieces. Results are those of the packed form. */
typedef struct tiled {
  const wf_dense_problem *a;
  wf_cpu_level level;
  wf_attention_spec spec;
  wf_kv_layer layer;
  unsigned char *block;
  wf_attention_row row;
  unsigned char *scratch;
  size_t scratch_bytes;
} tiled;

static void tiled_member(const wf_member *m, void *arg) {
  const tiled *t = arg;
  const wf_dense_problem *a = t->a;
  const size_t tokens = (size_t)t->layer.block_tokens;
  const wf_attention_row whole = {.blocks = t->row.blocks, .n_new = a->n_keys};
  for (int64_t h = m->index; h < a->n_kv; h += m->n) {
    wf_kv_layer one = t->layer; /* dense tensors have their heads apart: one at a time */
    one.kv_heads = 1;
    one.key_offset += (size_t)h * tokens * (size_t)a->dim * sizeof(float);
    one.value_offset += (size_t)h * tokens * (size_t)a->dim_v * sizeof(float);
    /* keys are turned already, so nothing is written to them */
    wf_kv_append(t->level, &one, &whole, NULL, wf_unconst(a->k.at + h * a->k.head), a->k.token,
                 a->v.at + h * a->v.head, a->v.token, 0, a->n_keys);
  }
  wf_team_barrier(m);
  const int64_t n = wf_attention_n_items(&t->spec, &t->layer, &t->row);
  for (int64_t i = m->index; i < n; i += m->n) {
    wf_attention_item(t->level, &t->spec, &t->layer, &t->row, a->q.at, a->q.token, a->y, a->y_token,
                      i, t->scratch + (size_t)m->index * t->scratch_bytes);
  }
}

static weft_status attend_tiled(wf_op_call *c, const wf_dense_problem *a,
                                const wf_attention_params *p, bool *is_done, weft_error *err) {
  tiled t = {.a = a,
             .level = c->env->level,
             .spec = {.n_heads = p->n_heads,
                      .scale = p->scale,
                      .softcap = p->softcap,
                      .window = p->window,
                      .sinks = a->sinks},
             .layer = {.type = WF_KV_F32,
                       .kv_heads = p->n_kv_heads,
                       .head_dim = p->head_dim,
                       .head_dim_v = p->head_dim_v,
                       .block_tokens = WF_KV_KEY_GROUP},
             .row = {.past = a->n_keys - a->n_q, .n_new = a->n_q}};
  *is_done = false;
  if (!c->env->team || a->n_q < 1 || a->dim > WF_ATTENTION_MAX_DIM ||
      a->dim_v > WF_ATTENTION_MAX_DIM || a->dim_v < 1 || a->n_heads % a->n_kv != 0 ||
      a->n_keys > INT32_MAX / 2) {
    return WEFT_OK;
  }
  while (t.layer.block_tokens < a->n_keys) t.layer.block_tokens *= 2;
  size_t n_keys, n_values, n_bytes;
  const size_t rows = (size_t)a->n_kv * sizeof(float);
  if (!wf_size_mul((size_t)t.layer.block_tokens * rows, (size_t)a->dim, &n_keys) ||
      !wf_size_mul((size_t)t.layer.block_tokens * rows, (size_t)a->dim_v, &n_values) ||
      !wf_size_add(n_keys, n_values, &n_bytes)) {
    return wf_op_fail(c, err, WEFT_LIMIT, "its keys overflow");
  }
  t.layer.value_offset = n_keys;
  t.scratch_bytes = (wf_attention_scratch_bytes(&t.spec, &t.layer, a->n_q) + 63) / 64 * 64;
  void *memory = NULL;
  WF_RETURN_IF_ERROR(wf_op_scratch(c, n_bytes, &memory, err));
  t.block = memory;
  WF_RETURN_IF_ERROR(
      wf_op_scratch(c, (size_t)wf_team_size(c->env->team) * t.scratch_bytes, &memory, err));
  t.scratch = memory;
  t.row.blocks = &t.block;
  wf_team_run(c->env->team, tiled_member, &t);
  *is_done = true;
  return WEFT_OK;
}

weft_status wf_op_weft_attention(wf_op_call *c, weft_error *err) {
  const wf_attention_params *p = &c->node->as.attention;
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *q = c->in[0], *k = wf_op_in(c, 1), *v = wf_op_in(c, 2), *cos = wf_op_in(c, 3),
                *sin = wf_op_in(c, 4), *sinks = wf_op_in(c, 5), *pk = wf_op_in(c, 6),
                *pv = wf_op_in(c, 7);
  wf_dense_problem a = {.batch = 1,
                        .n_heads = p->n_heads,
                        .n_kv = p->n_kv_heads,
                        .dim = p->head_dim,
                        .dim_v = p->head_dim_v,
                        .scale = (double)p->scale,
                        .softcap = (double)p->softcap,
                        .is_causal = true,
                        .left = p->window > 0 ? p->window - 1 : -1,
                        .right = -1,
                        .smooth = p->smooth_softmax};
  if (!wf_dense_is_f32(q, 0) || q->rank < 1 || a.n_kv <= 0 || a.dim <= 0)
    return wf_op_misfit(c, "the query", err);
  const int64_t hidden = q->dims[q->rank - 1];
  const int64_t packed = (a.n_heads + a.n_kv) * a.dim + a.n_kv * a.dim_v;
  if (hidden != (k ? a.n_heads * a.dim : packed)) return wf_op_misfit(c, "the query", err);
  a.n_q = wf_view_count(q) / hidden;
  a.q = (wf_dense_strided){q->data, 0, a.dim, hidden};
  if (k) {
    if (!wf_dense_is_f32(k, 0) || !v || !wf_dense_is_f32(v, 0) ||
        wf_view_count(k) != a.n_q * a.n_kv * a.dim ||
        wf_view_count(v) != a.n_q * a.n_kv * a.dim_v) {
      return wf_op_misfit(c, "a key or value", err);
    }
    a.k = (wf_dense_strided){k->data, 0, a.dim, a.n_kv * a.dim};
    a.v = (wf_dense_strided){v->data, 0, a.dim_v, a.n_kv * a.dim_v};
  } else {
    a.k = (wf_dense_strided){a.q.at + a.n_heads * a.dim, 0, a.dim, hidden};
    a.v = (wf_dense_strided){a.k.at + a.n_kv * a.dim, 0, a.dim_v, hidden};
  }
  if (!pk != !pv || (pk && (!wf_dense_is_f32(pk, 4) || !wf_dense_is_f32(pv, 4) ||
                            pk->dims[0] != 1 || pk->dims[1] != a.n_kv || pk->dims[3] != a.dim ||
                            pv->dims[3] != a.dim_v || pv->dims[2] != pk->dims[2]))) {
    return wf_op_misfit(c, "the past", err);
  }
  const int64_t n_past = pk ? pk->dims[2] : 0;
  a.n_keys = n_past + a.n_q;
  void *memory = NULL;
  WF_RETURN_IF_ERROR(wf_op_scratch(c, (size_t)(a.n_q + 2) * sizeof(int64_t), &memory, err));
  int64_t *positions = memory;
  if (p->rotary.kind != WF_ROTARY_NONE) {
    if (!wf_dense_is_f32(cos, 0) || !wf_dense_is_f32(sin, 0) || cos->rank < 1 ||
        p->rotary.dim > a.dim || p->rotary.dim / 2 > cos->dims[cos->rank - 1] ||
        wf_view_count(cos) != wf_view_count(sin)) {
      return wf_op_misfit(c, "a rotary table", err);
    }
    const bool by_token = p->rotary.index == WF_ROTARY_BY_TOKEN;
    for (int64_t i = 0; i < a.n_q; i++) positions[i] = by_token ? i : n_past + i;
    const bool inter = p->rotary.kind == WF_ROTARY_INTERLEAVED;
    WF_RETURN_IF_ERROR(wf_dense_turn(c, &a.q, 1, a.n_q, a.n_heads, a.dim, p->rotary.dim, inter, cos,
                                     sin, positions, err));
    WF_RETURN_IF_ERROR(wf_dense_turn(c, &a.k, 1, a.n_q, a.n_kv, a.dim, p->rotary.dim, inter, cos,
                                     sin, positions, err));
  }
  const int64_t kd[4] = {1, a.n_kv, a.n_keys, a.dim}, vd[4] = {1, a.n_kv, a.n_keys, a.dim_v};
  WF_RETURN_IF_ERROR(wf_op_make(c, 1, WF_DTYPE_F32, 4, kd, err));
  WF_RETURN_IF_ERROR(wf_op_make(c, 2, WF_DTYPE_F32, 4, vd, err));
  wf_dense_extend(pk, &a.k, 1, a.n_kv, a.n_q, a.dim, a.n_keys, NULL, c->out[1].data);
  wf_dense_extend(pv, &a.v, 1, a.n_kv, a.n_q, a.dim_v, a.n_keys, NULL, c->out[2].data);
  a.k = wf_dense_heads(c->out[1].data, a.n_kv, a.n_keys, a.dim);
  a.v = wf_dense_heads(c->out[2].data, a.n_kv, a.n_keys, a.dim_v);
  const int64_t first = n_past;
  a.first_position = &first;
  if (sinks) {
    if (!wf_dense_is_f32(sinks, 0) || wf_view_count(sinks) != a.n_heads)
      return wf_op_misfit(c, "the sinks", err);
    a.sinks = sinks->data;
  } else if (p->smooth_softmax) {
    void *zeros = NULL;
    WF_RETURN_IF_ERROR(wf_op_scratch(c, (size_t)a.n_heads * sizeof(float), &zeros, err));
    a.sinks = memset(zeros, 0, (size_t)a.n_heads * sizeof(float));
  }
  int64_t yd[WF_VIEW_MAX_RANK];
  for (int32_t i = 0; i < q->rank; i++) yd[i] = i == q->rank - 1 ? a.n_heads * a.dim_v : q->dims[i];
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_F32, q->rank, yd, err));
  a.y = c->out[0].data;
  a.y_head = a.dim_v;
  a.y_token = a.n_heads * a.dim_v;
  bool is_done = false;
  WF_RETURN_IF_ERROR(attend_tiled(c, &a, p, &is_done, err));
  return is_done ? WEFT_OK : wf_dense_attend(c, &a, err);
}
