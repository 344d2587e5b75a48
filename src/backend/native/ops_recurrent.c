/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that carry a state of a fixed size from run to run: CausalConvWithState and
 * LinearAttention, of com.microsoft and of ONNX (opset 27). */
#include <math.h>
#include <string.h>

#include "backend/native/op_list.h"
#include "kernels/elementwise.h"

static bool is_f32(const wf_view *v, int32_t rank) {
  return v->dtype == WF_DTYPE_F32 && v->rank == rank;
}

static weft_status refuse_window(wf_op_call *c, weft_error *err) {
  if (wf_node_attr_i(c->node, "state_window", 0) == 0) return WEFT_OK;
  return wf_op_fail(c, err, WEFT_UNSUPPORTED, "states of several positions (state_window)");
}

/* ---- CausalConvWithState ------------------------------------------------------------------- */

/* One dimension; positions and channels by their steps, so that both layouts are one. */
typedef struct conv {
  int64_t batch, channels, length, taps, dilation, kept;
  int64_t position, channel;           /* steps of x and y */
  int64_t kept_position, kept_channel; /* of the state */
  const float *x, *w, *bias, *past;
  float *y, *present;
  bool is_silu;
} conv;

/* Position t of a channel, counted from the first new one; those before it are the past's. */
static float at(const conv *v, int64_t b, int64_t channel, int64_t t) {
  if (t >= 0) return v->x[b * v->channels * v->length + channel * v->channel + t * v->position];
  if (!v->past || t < -v->kept) return 0.0f;
  return v->past[b * v->channels * v->kept + channel * v->kept_channel +
                 (v->kept + t) * v->kept_position];
}

static void convolve(const wf_member *m, void *arg) {
  const conv *v = arg;
  int64_t begin = 0, end = 0;
  wf_member_range(m, v->batch * v->channels, 1, &begin, &end);
  for (int64_t i = begin; i < end; i++) {
    const int64_t b = i / v->channels, channel = i % v->channels;
    const float *w = v->w + channel * v->taps;
    float *y = v->y + b * v->channels * v->length + channel * v->channel;
    for (int64_t t = 0; t < v->length; t++) {
      float sum = v->bias ? v->bias[channel] : 0.0f;
      for (int64_t j = 0; j < v->taps; j++) {
        sum += w[j] * at(v, b, channel, t - (v->taps - 1 - j) * v->dilation);
      }
      y[t * v->position] = v->is_silu ? sum / (1.0f + expf(-sum)) : sum;
    }
    float *present = v->present + b * v->channels * v->kept + channel * v->kept_channel;
    for (int64_t j = 0; j < v->kept; j++) {
      present[j * v->kept_position] = at(v, b, channel, v->length - v->kept + j);
    }
  }
}

static weft_status conv_form(wf_op_call *c, conv *v, weft_error *err) {
  const wf_view *x = c->in[0], *w = c->in[1], *bias = wf_op_in(c, 2), *past = wf_op_in(c, 3);
  const bool is_last = wf_node_attr_i(c->node, "channels_last", 0) != 0;
  const wf_str act = wf_node_attr_s(c->node, "activation");
  v->is_silu = wf_str_is(act, "silu") || wf_str_is(act, "swish");
  if (act.n && !v->is_silu && !wf_str_is(act, "none")) {
    return wf_op_fail(c, err, WEFT_UNSUPPORTED, "activation '%.*s'", (int)act.n, act.at);
  }
  if (wf_node_attr_i(c->node, "ndim", 1) != 1 || (!is_last && x->rank != 3)) {
    return wf_op_fail(c, err, WEFT_UNSUPPORTED, "a convolution of more than one dimension");
  }
  if (x->dtype != WF_DTYPE_F32 || x->rank < 3 || !is_f32(w, 3) || w->dims[1] != 1 ||
      w->dims[2] < 1) {
    return wf_op_misfit(c, "the input or its weight", err);
  }
  v->batch = x->dims[0];
  v->channels = is_last ? wf_dims_product(x->dims, 2, x->rank) : x->dims[1];
  v->length = is_last ? x->dims[1] : x->dims[2];
  v->taps = w->dims[2];
  v->dilation = wf_node_attr_i(c->node, "dilation", 1);
  if (v->dilation < 1 || v->dilation > INT32_MAX || v->taps > INT32_MAX ||
      w->dims[0] != v->channels) {
    return wf_op_misfit(c, "the weight", err);
  }
  v->kept = (v->taps - 1) * v->dilation;
  v->position = is_last ? v->channels : 1;
  v->channel = is_last ? 1 : v->length;
  v->kept_position = is_last ? v->channels : 1;
  v->kept_channel = is_last ? 1 : v->kept;
  if (bias && (!is_f32(bias, 1) || bias->dims[0] != v->channels))
    return wf_op_misfit(c, "the bias", err);
  if (past && (past->dtype != WF_DTYPE_F32 || past->rank != x->rank || past->dims[0] != v->batch ||
               past->dims[is_last ? 1 : 2] != v->kept ||
               wf_view_count(past) != v->batch * v->channels * v->kept)) {
    return wf_op_misfit(c, "the past state", err);
  }
  v->x = x->data;
  v->w = w->data;
  v->bias = bias ? bias->data : NULL;
  v->past = past ? past->data : NULL;
  return WEFT_OK;
}

weft_status wf_op_causal_conv(wf_op_call *c, weft_error *err) {
  conv v = {0};
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  WF_RETURN_IF_ERROR(refuse_window(c, err));
  WF_RETURN_IF_ERROR(conv_form(c, &v, err));
  int64_t dims[WF_VIEW_MAX_RANK];
  const wf_view *x = c->in[0];
  memcpy(dims, x->dims, sizeof dims);
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_F32, x->rank, dims, err));
  dims[wf_node_attr_i(c->node, "channels_last", 0) != 0 ? 1 : 2] = v.kept;
  WF_RETURN_IF_ERROR(wf_op_make(c, 1, WF_DTYPE_F32, x->rank, dims, err));
  v.y = c->out[0].data;
  v.present = c->out[1].data;
  wf_op_share(c, convolve, &v);
  return WEFT_OK;
}

/* ---- LinearAttention ----------------------------------------------------------------------- */

/* S: [d_k, d_v] of one key/value head, in place. */
typedef struct linear {
  int64_t batch, n_tokens, q_heads, kv_heads, dk, dv, out_heads;
  int64_t decay_width, beta_width; /* a token; 0: none */
  bool is_delta, is_gated;
  float scale;
  const float *q, *k, *v, *decay, *beta;
  float *state, *y;
} linear;

static void decay_state(const linear *a, const float *g, float *s) {
  const bool is_scalar = a->decay_width == a->kv_heads;
  for (int64_t i = 0; i < a->dk; i++) {
    const float f = expf(g[is_scalar ? 0 : i]);
    for (int64_t j = 0; j < a->dv; j++) s[i * a->dv + j] *= f;
  }
}

/* One token of one head: the state first, then what every query that shares it reads. */
static void step(const linear *a, int64_t b, int64_t h, int64_t t, float *s) {
  const int64_t row = b * a->n_tokens + t;
  const float *k = a->k + (row * a->kv_heads + h) * a->dk;
  const float *v = a->v + (row * a->kv_heads + h) * a->dv;
  if (a->is_gated) {
    const int64_t own = a->decay_width == a->kv_heads ? h : h * a->dk;
    decay_state(a, a->decay + row * a->decay_width + own, s);
  }
  const float beta = a->beta ? a->beta[row * a->beta_width + (a->beta_width == 1 ? 0 : h)] : 1.0f;
  for (int64_t j = 0; j < a->dv; j++) {
    float value = v[j];
    if (a->is_delta) {
      float seen = 0;
      for (int64_t i = 0; i < a->dk; i++) seen += s[i * a->dv + j] * k[i];
      value = beta * (value - seen);
    }
    for (int64_t i = 0; i < a->dk; i++) s[i * a->dv + j] += k[i] * value;
  }
  const int64_t shared = a->out_heads / a->kv_heads; /* queries of this state; 1 at least */
  for (int64_t o = h * shared; o < (h + 1) * shared; o++) {
    const int64_t q_head = a->q_heads >= a->kv_heads ? o : o / (a->kv_heads / a->q_heads);
    const float *q = a->q + (row * a->q_heads + q_head) * a->dk;
    float *y = a->y + (row * a->out_heads + o) * a->dv;
    for (int64_t j = 0; j < a->dv; j++) {
      float sum = 0;
      for (int64_t i = 0; i < a->dk; i++) sum += q[i] * s[i * a->dv + j];
      y[j] = a->scale * sum;
    }
  }
}

static void attend(const wf_member *m, void *arg) {
  const linear *a = arg;
  int64_t begin = 0, end = 0;
  wf_member_range(m, a->batch * a->kv_heads, 1, &begin, &end);
  for (int64_t i = begin; i < end; i++) {
    float *s = a->state + i * a->dk * a->dv;
    for (int64_t t = 0; t < a->n_tokens; t++) step(a, i / a->kv_heads, i % a->kv_heads, t, s);
  }
}

static weft_status linear_form(wf_op_call *c, linear *a, weft_error *err) {
  const wf_view *q = c->in[0], *k = c->in[1], *v = c->in[2], *past = wf_op_in(c, 3),
                *decay = wf_op_in(c, 4), *beta = wf_op_in(c, 5);
  const wf_attr *rule_attr = wf_node_attr(c->node, "update_rule");
  const wf_str rule = rule_attr ? rule_attr->s : WF_STR("gated_delta");
  a->q_heads = wf_node_attr_i(c->node, "q_num_heads", 0);
  a->kv_heads = wf_node_attr_i(c->node, "kv_num_heads", 0);
  a->is_delta = wf_str_is(rule, "delta") || wf_str_is(rule, "gated_delta");
  a->is_gated = wf_str_is(rule, "gated") || wf_str_is(rule, "gated_delta");
  if (!a->is_delta && !a->is_gated && !wf_str_is(rule, "linear")) {
    return wf_op_fail(c, err, WEFT_UNSUPPORTED, "update rule '%.*s'", (int)rule.n, rule.at);
  }
  if (!is_f32(q, 3) || !is_f32(k, 3) || !is_f32(v, 3) || a->q_heads < 1 || a->kv_heads < 1 ||
      a->q_heads > 65536 || a->kv_heads > 65536 || q->dims[2] % a->q_heads != 0 ||
      k->dims[2] % a->kv_heads != 0 || v->dims[2] % a->kv_heads != 0 ||
      (a->q_heads % a->kv_heads != 0 && a->kv_heads % a->q_heads != 0)) {
    return wf_op_misfit(c, "the query, key or value", err);
  }
  a->batch = q->dims[0];
  a->n_tokens = q->dims[1];
  a->dk = q->dims[2] / a->q_heads;
  a->dv = v->dims[2] / a->kv_heads;
  a->out_heads = a->q_heads > a->kv_heads ? a->q_heads : a->kv_heads;
  const int64_t rows = a->batch * a->n_tokens;
  if (k->dims[2] / a->kv_heads != a->dk || k->dims[0] != a->batch || k->dims[1] != a->n_tokens ||
      v->dims[0] != a->batch || v->dims[1] != a->n_tokens) {
    return wf_op_misfit(c, "the key or value", err);
  }
  if (past && (!is_f32(past, 4) || past->dims[0] != a->batch || past->dims[1] != a->kv_heads ||
               past->dims[2] != a->dk || past->dims[3] != a->dv)) {
    return wf_op_misfit(c, "the past state", err);
  }
  if ((a->is_gated && !decay) || (a->is_delta && !beta)) {
    return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT, "the update rule's decay or beta is missing");
  }
  if (a->is_gated) {
    a->decay_width = is_f32(decay, 3) ? decay->dims[2] : 0;
    if (wf_view_count(decay) != rows * a->decay_width ||
        (a->decay_width != a->kv_heads && a->decay_width != a->kv_heads * a->dk)) {
      return wf_op_misfit(c, "the decay", err);
    }
    a->decay = decay->data;
  }
  if (a->is_delta) {
    a->beta_width = is_f32(beta, 3) ? beta->dims[2] : 0;
    if (wf_view_count(beta) != rows * a->beta_width ||
        (a->beta_width != a->kv_heads && a->beta_width != 1)) {
      return wf_op_misfit(c, "beta", err);
    }
    a->beta = beta->data;
  }
  a->scale = wf_node_attr_f(c->node, "scale", 0);
  if (!(a->scale < 0 || a->scale > 0)) a->scale = 1.0f / sqrtf((float)(a->dk ? a->dk : 1));
  a->q = q->data;
  a->k = k->data;
  a->v = v->data;
  return WEFT_OK;
}

weft_status wf_op_linear_attention(wf_op_call *c, weft_error *err) {
  linear a = {0};
  WF_RETURN_IF_ERROR(wf_op_need(c, 3, err));
  WF_RETURN_IF_ERROR(refuse_window(c, err));
  WF_RETURN_IF_ERROR(linear_form(c, &a, err));
  const int64_t y[3] = {a.batch, a.n_tokens, a.out_heads * a.dv};
  const int64_t state[4] = {a.batch, a.kv_heads, a.dk, a.dv};
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_F32, 3, y, err));
  WF_RETURN_IF_ERROR(wf_op_make(c, 1, WF_DTYPE_F32, 4, state, err));
  const size_t n_bytes = (size_t)wf_view_count(&c->out[1]) * sizeof(float);
  const wf_view *past = wf_op_in(c, 3);
  a.y = c->out[0].data;
  a.state = c->out[1].data;
  if (n_bytes) {
    if (past)
      memcpy(a.state, past->data, n_bytes);
    else
      memset(a.state, 0, n_bytes);
  }
  wf_op_share(c, attend, &a);
  return WEFT_OK;
}
