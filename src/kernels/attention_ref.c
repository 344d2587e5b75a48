/* SPDX-License-Identifier: Apache-2.0 */
/* The plain definition of attention: one query at a time, sums in double within a super-tile. */
#include <math.h>
#include <string.h>

#include "kernels/attention_kernels.h"
#include "kernels/elementwise.h"

static void rope_ref(const wf_rope *rope, float *x, int64_t ld, int64_t n_tokens, int32_t n_heads,
                     int32_t head_dim, const int64_t *positions) {
  const int32_t half = rope->dim / 2;
  for (int64_t t = 0; t < n_tokens; t++) {
    const float *c = rope->cos + positions[t] * half;
    const float *s = rope->sin + positions[t] * half;
    for (int32_t h = 0; h < n_heads; h++) {
      float *head = x + t * ld + (int64_t)h * head_dim;
      for (int32_t i = 0; i < half; i++) {
        float *a = rope->kind == WF_ROPE_HALF ? head + i : head + 2 * i;
        float *b = rope->kind == WF_ROPE_HALF ? head + half + i : head + 2 * i + 1;
        const float left = *a, right = *b;
        *a = fmaf(-right, s[i], left * c[i]);
        *b = fmaf(left, s[i], right * c[i]);
      }
    }
  }
}

static void head_rms_norm_ref(float *x, int64_t ld, int64_t n_tokens, int32_t n_heads,
                              int32_t head_dim, const float *weight, float epsilon) {
  for (int64_t t = 0; t < n_tokens; t++)
    for (int32_t h = 0; h < n_heads; h++) {
      float *head = x + t * ld + (int64_t)h * head_dim;
      wf_rms_norm_f32(WF_CPU_REF, 1, head_dim, head, head_dim, weight, epsilon, head, head_dim);
    }
}

static void store_ref(wf_kv_type type, int64_t n, const float *x, void *to, float *scale) {
  if (type == WF_KV_F32) {
    memcpy(to, x, (size_t)n * sizeof *x);
    return;
  }
  if (type == WF_KV_F16) {
    wf_f32_to_f16(WF_CPU_REF, n, x, to);
    return;
  }
  int8_t *q = to;
  float amax = 0.0f;
  for (int64_t i = 0; i < n; i++) amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
  *scale = amax / 127.0f;
  /* A tiny amax has no finite inverse; its values are 0 at this resolution. */
  const float inverse = amax > 1e-30f ? 127.0f / amax : 0.0f;
  for (int64_t i = 0; i < n; i++) {
    const float r = nearbyintf(x[i] * inverse);
    q[i] = (int8_t)(r > 127.0f ? 127.0f : r >= -127.0f ? r : -127.0f);
  }
}

static double element(wf_kv_type type, const unsigned char *from, const float *scale, int64_t i) {
  if (type == WF_KV_F32) {
    float v;
    memcpy(&v, from + 4 * i, sizeof v);
    return (double)v;
  }
  if (type == WF_KV_F16) {
    uint16_t h;
    memcpy(&h, from + 2 * i, sizeof h);
    return (double)wf_f16_value(h);
  }
  return (double)((float)(int8_t)from[i] * *scale);
}

/* One query against keys [begin, end): partial maximum, sum and weighted values (sums in double;
 * scores are formed twice rather than kept, because scratch does not grow with the context). */
static void one_query(const wf_attention_span *s, const float *q, int64_t begin, int64_t end,
                      float *partial) {
  const wf_kv_layer *layer = s->layer;
  double score[WF_ATTENTION_SUPER];
  double acc[WF_ATTENTION_MAX_DIM];
  double max = -INFINITY, sum = 0.0;
  for (int64_t j = begin; j < end; j++) {
    float *scale;
    const unsigned char *key = wf_kv_at(layer, s->row, j, s->kv_head, 0, &scale);
    double dot = 0.0;
    for (int64_t d = 0; d < layer->head_dim; d++)
      dot += (double)q[d] * element(layer->type, key, scale, d * WF_KV_KEY_GROUP);
    dot *= (double)s->spec->scale;
    if (s->spec->softcap > 0.0f)
      dot = (double)s->spec->softcap * tanh(dot / (double)s->spec->softcap);
    score[j - begin] = dot;
    if (dot > max) max = dot;
  }
  /* The maximum travels as a float, so the exponents are taken from what travels. */
  partial[0] = (float)max;
  memset(acc, 0, (size_t)layer->head_dim_v * sizeof *acc);
  for (int64_t j = begin; j < end; j++) {
    float *scale;
    const unsigned char *value = wf_kv_at(layer, s->row, j, s->kv_head, 1, &scale);
    const double p = exp(score[j - begin] - (double)partial[0]);
    sum += p;
    for (int64_t d = 0; d < layer->head_dim_v; d++)
      acc[d] += p * element(layer->type, value, scale, d);
  }
  partial[1] = (float)sum;
  for (int64_t d = 0; d < layer->head_dim_v; d++) partial[WF_PARTIAL_HEAD + d] = (float)acc[d];
}

/* total = total + partial, both relative to their own maximum. */
static void merge_two(float *total, const float *partial, int64_t dim) {
  const double max = (double)(partial[0] > total[0] ? partial[0] : total[0]);
  const double a = exp((double)total[0] - max), b = exp((double)partial[0] - max);
  total[0] = (float)max;
  total[1] = (float)((double)total[1] * a + (double)partial[1] * b);
  for (int64_t d = WF_PARTIAL_HEAD; d < WF_PARTIAL_HEAD + dim; d++)
    total[d] = (float)((double)total[d] * a + (double)partial[d] * b);
}

static void finish(const wf_attention_span *s, const float *total, int64_t token, int64_t head) {
  double max = (double)total[0], sum = (double)total[1], scale = 1.0;
  if (s->spec->sinks) {
    const double sink = (double)s->spec->sinks[head];
    const double top = sink > max ? sink : max;
    scale = exp(max - top);
    sum = sum * scale + exp(sink - top);
  }
  float *y = s->y + (s->row->start + token) * s->ldy + head * s->layer->head_dim_v;
  for (int64_t d = 0; d < s->layer->head_dim_v; d++)
    y[d] = (float)((double)total[WF_PARTIAL_HEAD + d] * scale / sum);
}

/* Keys of super-tile `super` that the query at position `at` sees; false: none. */
static int visible(const wf_attention_span *s, int64_t super, int64_t at, int64_t *begin,
                   int64_t *end) {
  const int64_t lo = wf_attention_lo(s->spec, at);
  *begin = super * WF_ATTENTION_SUPER > lo ? super * WF_ATTENTION_SUPER : lo;
  *end = (super + 1) * WF_ATTENTION_SUPER < at + 1 ? (super + 1) * WF_ATTENTION_SUPER : at + 1;
  return *begin < *end;
}

static void span_ref(const wf_attention_span *s) {
  const int64_t group = s->spec->n_heads / s->layer->kv_heads, dim_v = s->layer->head_dim_v;
  float total[WF_PARTIAL_HEAD + WF_ATTENTION_MAX_DIM], part[WF_PARTIAL_HEAD + WF_ATTENTION_MAX_DIM];
  for (int64_t t = s->token_begin; t < s->token_end; t++)
    for (int64_t g = 0; g < group; g++) {
      const int64_t head = s->kv_head * group + g;
      const float *q = s->q + (s->row->start + t) * s->ldq + head * s->layer->head_dim;
      int is_first = 1;
      for (int64_t super = s->super_begin; super < s->super_end; super++) {
        int64_t begin, end;
        if (!visible(s, super, s->row->past + t, &begin, &end)) continue;
        float *to = s->partials ? wf_attention_partial(s, super, t, g) : is_first ? total : part;
        one_query(s, q, begin, end, to);
        if (!s->partials && !is_first) merge_two(total, part, dim_v);
        is_first = 0;
      }
      if (!s->partials) finish(s, total, t, head);
    }
}

static void merge_ref(const wf_attention_span *s) {
  const int64_t group = s->spec->n_heads / s->layer->kv_heads, dim_v = s->layer->head_dim_v;
  float total[WF_PARTIAL_HEAD + WF_ATTENTION_MAX_DIM];
  for (int64_t t = s->token_begin; t < s->token_end; t++)
    for (int64_t g = 0; g < group; g++) {
      int is_first = 1;
      for (int64_t super = s->super_begin; super < s->super_end; super++) {
        int64_t begin, end;
        if (!visible(s, super, s->row->past + t, &begin, &end)) continue;
        const float *part = wf_attention_partial(s, super, t, g);
        if (is_first)
          memcpy(total, part, (size_t)(WF_PARTIAL_HEAD + dim_v) * sizeof *total);
        else
          merge_two(total, part, dim_v);
        is_first = 0;
      }
      finish(s, total, t, s->kv_head * group + g);
    }
}

const wf_attention_variant wf_attention_ref = {
    .name = "attention_ref",
    .needs = WF_CPU_REF,
    .rope = rope_ref,
    .head_rms_norm = head_rms_norm_ref,
    .store = store_ref,
    .span = span_ref,
    .merge = merge_ref,
};
