/* SPDX-License-Identifier: Apache-2.0 */
/* The vector form of attention, in the words of vec_*.h; each ISA file includes this once and names
 * the table at the end.
 *
 * WF_ATTENTION_NORMS names the elementwise table of the same level.
 * A span has rows: (token, head of the group) pairs that share one kv head, so a key tile is read
 * once for all of them. Per tile of 64 keys: keys are transposed into [head_dim][64] (scores then
 * need no sums across lanes), scores = q * keys, softmax weights per row, acc = acc * correction +
 * weights * values. Both products run in rows_product, which sums over its inner index in ascending
 * order for each output on its own: how many rows share a call changes no bit. */
#include <math.h>
#include <string.h>

#include "kernels/attention_kernels.h"
#include "kernels/elementwise_kernels.h"
#include "kernels/vecmath.h"

enum { TILE = WF_ATTENTION_TILE, MAX_R = 6 };

/* Scratch of one span; rows are token-major. */
typedef struct span_state {
  const wf_attention_span *s;
  int64_t group, n_rows, dim, dim_v, ldv, ldq;
  float *q, *score, *acc, *total, *key, *value; /* padded rows, 64-byte aligned */
  float *max, *sum, *total_max, *total_sum, *correction;
  int32_t *lo, *hi; /* of the tile in hand, relative to it: keys the row sees */
} span_state;

/* c[r][.] = correction[r] * c[r][.] + sum_k a[r][k] * b[k][.], or without the first term, for n_vec
 * vectors of columns. */
WF_INLINE void columns_product(const int R, const int C, int64_t k, const float *a, int64_t lda,
                               const float *b, int64_t ldb, float *c, int64_t ldc,
                               const float *correction) {
  vf sum[MAX_R][4];
  WF_UNROLL_ALL
  for (int r = 0; r < R; r++) {
    WF_UNROLL_ALL
    for (int j = 0; j < C; j++)
      sum[r][j] =
          correction ? v_mul(v_load(c + r * ldc + j * VF_N), v_set1(correction[r])) : v_zero();
  }
  for (int64_t i = 0; i < k; i++) {
    vf row[4];
    WF_UNROLL_ALL
    for (int j = 0; j < C; j++) row[j] = v_load(b + i * ldb + j * VF_N);
    WF_UNROLL_ALL
    for (int r = 0; r < R; r++) {
      const vf left = v_set1(a[r * lda + i]);
      WF_UNROLL_ALL
      for (int j = 0; j < C; j++) sum[r][j] = v_fma(left, row[j], sum[r][j]);
    }
  }
  WF_UNROLL_ALL
  for (int r = 0; r < R; r++) {
    WF_UNROLL_ALL
    for (int j = 0; j < C; j++) v_store(c + r * ldc + j * VF_N, sum[r][j]);
  }
}

WF_INLINE void rows_of(const int R, int64_t n_vec, int64_t k, const float *a, int64_t lda,
                       const float *b, int64_t ldb, float *c, int64_t ldc,
                       const float *correction) {
  int64_t j = 0;
  if (R <= 3 || VF_REGISTERS >= 32)
    for (; j + 4 <= n_vec; j += 4)
      columns_product(R, 4, k, a, lda, b + j * VF_N, ldb, c + j * VF_N, ldc, correction);
  for (; j + 2 <= n_vec; j += 2)
    columns_product(R, 2, k, a, lda, b + j * VF_N, ldb, c + j * VF_N, ldc, correction);
  if (j < n_vec) columns_product(R, 1, k, a, lda, b + j * VF_N, ldb, c + j * VF_N, ldc, correction);
}

static WF_NOINLINE void rows_product(int R, int64_t n_vec, int64_t k, const float *a, int64_t lda,
                                     const float *b, int64_t ldb, float *c, int64_t ldc,
                                     const float *correction) {
  switch (R) {
    case 1:
      rows_of(1, n_vec, k, a, lda, b, ldb, c, ldc, correction);
      break;
    case 2:
      rows_of(2, n_vec, k, a, lda, b, ldb, c, ldc, correction);
      break;
    case 3:
      rows_of(3, n_vec, k, a, lda, b, ldb, c, ldc, correction);
      break;
    case 4:
      rows_of(4, n_vec, k, a, lda, b, ldb, c, ldc, correction);
      break;
    case 5:
      rows_of(5, n_vec, k, a, lda, b, ldb, c, ldc, correction);
      break;
    default:
      rows_of(6, n_vec, k, a, lda, b, ldb, c, ldc, correction);
      break;
  }
}

static float scalar_element(wf_kv_type type, const unsigned char *p, float scale) {
  if (type == WF_KV_F32) {
    float v;
    memcpy(&v, p, sizeof v);
    return v;
  }
  if (type == WF_KV_F16) {
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return wf_f16_value(h);
  }
  return (float)(int8_t)*p * scale;
}

WF_INLINE void pack_rows(const wf_kv_type type, const unsigned char *const row[PACK_N],
                         const float scale[PACK_N], int64_t dim, float *to) {
  const size_t bytes = wf_kv_element_bytes(type);
  int64_t d = 0;
  for (; d + PACK_N <= dim; d += PACK_N)
    pack_block(type, row, scale, (size_t)d * bytes, to + d * TILE, TILE);
  for (; d < dim; d++)
    for (int i = 0; i < PACK_N; i++)
      to[d * TILE + i] = scalar_element(type, row[i] + (size_t)d * bytes, scale[i]);
}

/* Transposes keys [begin, end) of the tile at `tile` into st->key. Lanes outside repeat a key that
 * exists: memory that no token has written is never read. */
static void pack_keys(const span_state *st, int64_t tile, int64_t begin, int64_t end) {
  const wf_attention_span *s = st->s;
  const wf_kv_layer *layer = s->layer;
  const size_t stride = (size_t)st->dim * wf_kv_element_bytes(layer->type);
  for (int64_t at = tile + (begin - tile) / PACK_N * PACK_N; at < end; at += PACK_N) {
    const unsigned char *row[PACK_N];
    float scale[PACK_N] = {0.0f}, *from; /* read for q8 only */
    if (at >= begin && at + PACK_N <= end && layer->block_tokens >= PACK_N) {
      /* the usual case: all in one block, one after the other */
      row[0] = wf_kv_at(layer, s->row, at, s->kv_head, 0, &from);
      for (int i = 1; i < PACK_N; i++) row[i] = row[i - 1] + stride;
      if (from) memcpy(scale, from, sizeof scale);
      if (layer->type == WF_KV_F32 && at + 2 * PACK_N <= end && layer->block_tokens >= TILE)
        for (size_t b = 0; b < PACK_N * stride; b += 64) WF_PREFETCH(row[0] + PACK_N * stride + b);
    } else {
      for (int i = 0; i < PACK_N; i++) {
        const int64_t t = at + i < begin ? begin : at + i < end ? at + i : end - 1;
        row[i] = wf_kv_at(layer, s->row, t, s->kv_head, 0, &from);
        if (from) scale[i] = *from;
      }
    }
    float *to = st->key + (at - tile);
    switch (layer->type) {
      case WF_KV_F32:
        pack_rows(WF_KV_F32, row, scale, st->dim, to);
        break;
      case WF_KV_F16:
        pack_rows(WF_KV_F16, row, scale, st->dim, to);
        break;
      case WF_KV_Q8:
        pack_rows(WF_KV_Q8, row, scale, st->dim, to);
        break;
    }
  }
}

WF_INLINE void unpack_value(const wf_kv_type type, const unsigned char *from, float scale,
                            int64_t n, float *to) {
  const size_t bytes = wf_kv_element_bytes(type);
  int64_t d = 0;
  for (; d + VF_N <= n; d += VF_N) {
    const unsigned char *p = from + (size_t)d * bytes;
    const vf v = type == WF_KV_F32   ? v_load((const float *)(const void *)p)
                 : type == WF_KV_F16 ? v_from_f16(p)
                                     : v_mul(v_from_i8(p), v_set1(scale));
    v_store(to + d, v);
  }
  for (; d < n; d++) to[d] = scalar_element(type, from + (size_t)d * bytes, scale);
  /* Padding columns are multiplied and thrown away; they need only be numbers. */
  for (; d % VF_N != 0; d++) to[d] = 0.0f;
}

/* Values [begin, end) as fp32 rows; returns row `begin`, its stride in *ld. An fp32 tile that lies
 * in one block is used where it is. */
static const float *values_of(const span_state *st, int64_t begin, int64_t end, int64_t *ld) {
  const wf_attention_span *s = st->s;
  const wf_kv_layer *layer = s->layer;
  float *scale = NULL;
  if (layer->type == WF_KV_F32 && layer->block_tokens >= TILE && st->dim_v % VF_N == 0) {
    *ld = st->dim_v;
    return (const float *)(const void *)wf_kv_at(layer, s->row, begin, s->kv_head, 1, &scale);
  }
  *ld = st->ldv;
  const unsigned char *from = NULL;
  const size_t stride = (size_t)st->dim_v * wf_kv_element_bytes(layer->type);
  for (int64_t t = begin; t < end; t++) {
    if (t == begin || (t & (int64_t)(layer->block_tokens - 1)) == 0) {
      from = wf_kv_at(layer, s->row, t, s->kv_head, 1, &scale);
    } else {
      from += stride;
      if (scale) scale++;
    }
    float *to = st->value + (t - begin) * st->ldv;
    switch (layer->type) {
      case WF_KV_F32:
        unpack_value(WF_KV_F32, from, 1.0f, st->dim_v, to);
        break;
      case WF_KV_F16:
        unpack_value(WF_KV_F16, from, 1.0f, st->dim_v, to);
        break;
      case WF_KV_Q8:
        unpack_value(WF_KV_Q8, from, *scale, st->dim_v, to);
        break;
    }
  }
  return st->value;
}

static float exp_one(float x) { return v_first(v_exp_weight(v_set1(x))); }

/* Scores [lo, hi) of one row's tile become weights; maximum, sum and correction follow. is_whole
 * says that the row sees the whole tile, which spares the masks. */
WF_INLINE void weigh(const span_state *st, int64_t r, float *score, const int is_whole) {
  const wf_attention_spec *p = st->s->spec;
  const int64_t lo = is_whole ? 0 : st->lo[r], hi = is_whole ? TILE : st->hi[r];
  const int64_t first = lo / VF_N * VF_N;
  const vf scale = v_set1(p->scale), low = v_set1((float)lo), high = v_set1((float)hi);
  vf max = v_set1(-INFINITY), sum = v_zero();
  for (int64_t j = first; j < hi; j += VF_N) {
    vf x = v_mul(v_load(score + j), scale);
    if (p->softcap > 0.0f) x = v_mul(v_set1(p->softcap), v_tanh(v_div(x, v_set1(p->softcap))));
    if (!is_whole) {
      const vf at = v_add(v_iota(), v_set1((float)j));
      x = v_select(v_and(v_ge(at, low), v_lt(at, high)), x, v_set1(-INFINITY));
    }
    v_store(score + j, x);
    max = v_max(x, max);
  }
  const float old = st->max[r], tile_max = v_hmax(max);
  const float top = tile_max > old ? tile_max : old;
  for (int64_t j = first; j < hi; j += VF_N) {
    const vf w = v_exp_weight(v_sub(v_load(score + j), v_set1(top)));
    v_store(score + j, w);
    sum = v_add(sum, w);
  }
  st->max[r] = top;
  st->correction[r] = old == top ? 1.0f : exp_one(old - top);
  st->sum[r] = fmaf(st->sum[r], st->correction[r], v_sum(sum));
}

static void weigh_row(const span_state *st, int64_t r, float *score) {
  if (st->lo[r] == 0 && st->hi[r] == TILE)
    weigh(st, r, score, 1);
  else
    weigh(st, r, score, 0);
}

/* acc += weights * values for rows [r, r + n): keys that all of them see go through together, those
 * before and after row by row, so that each row still takes its keys in ascending order. */
static void add_values(const span_state *st, int64_t r, int n, const float *value, int64_t ld,
                       int64_t value_begin) {
  const int64_t n_vec = wf_round_up(st->dim_v, VF_N) / VF_N;
  float *acc = st->acc + r * st->ldv;
  const float *w = st->score + r * TILE;
  float one[MAX_R], *correction = st->correction + r;
  int64_t a = 0, b = TILE;
  for (int i = 0; i < n; i++) {
    a = st->lo[r + i] > a ? st->lo[r + i] : a;
    b = st->hi[r + i] < b ? st->hi[r + i] : b;
    one[i] = 1.0f;
  }
  const int shared = a < b;
  for (int i = 0; i < n; i++) {
    const int64_t lo = st->lo[r + i], hi = shared ? a : st->hi[r + i];
    if (lo >= hi) continue;
    rows_product(1, n_vec, hi - lo, w + i * TILE + lo, TILE, value + (lo - value_begin) * ld, ld,
                 acc + i * st->ldv, st->ldv, correction + i);
    correction[i] = 1.0f;
  }
  if (!shared) return;
  rows_product(n, n_vec, b - a, w + a, TILE, value + (a - value_begin) * ld, ld, acc, st->ldv,
               correction);
  for (int i = 0; i < n; i++) {
    const int64_t hi = st->hi[r + i];
    if (b < hi)
      rows_product(1, n_vec, hi - b, w + i * TILE + b, TILE, value + (b - value_begin) * ld, ld,
                   acc + i * st->ldv, st->ldv, one);
  }
}

/* One tile of keys for all rows of the span. */
static void visit_tile(const span_state *st, int64_t tile) {
  const wf_attention_span *s = st->s;
  const int64_t first_at = s->row->past + s->token_begin;
  const int64_t last_at = s->row->past + s->token_end - 1;
  const int64_t lo = wf_attention_lo(s->spec, first_at);
  const int64_t begin = lo > tile ? lo : tile;
  const int64_t end = last_at + 1 < tile + TILE ? last_at + 1 : tile + TILE;
  int64_t ld;
  if (begin >= end) return;
  for (int64_t r = 0; r < st->n_rows; r++) {
    const int64_t at = first_at + r / st->group;
    const int64_t from = wf_attention_lo(s->spec, at) - tile;
    st->lo[r] = (int32_t)(from < 0 ? 0 : from > TILE ? TILE : from);
    st->hi[r] = (int32_t)(at + 1 - tile < 0 ? 0 : at + 1 - tile > TILE ? TILE : at + 1 - tile);
  }
  pack_keys(st, tile, begin, end);
  for (int64_t r = 0; r < st->n_rows; r += MAX_R) {
    const int n = (int)(st->n_rows - r < MAX_R ? st->n_rows - r : MAX_R);
    /* positions ascend over rows, and so do both borders */
    const int64_t a = st->lo[r] / VF_N * VF_N, b = st->hi[r + n - 1];
    if (a < b)
      rows_product(n, (b - a + VF_N - 1) / VF_N, st->dim, st->q + r * st->ldq, st->ldq, st->key + a,
                   TILE, st->score + r * TILE + a, TILE, NULL);
    for (int i = 0; i < n; i++)
      if (st->lo[r + i] < st->hi[r + i]) weigh_row(st, r + i, st->score + (r + i) * TILE);
  }
  const float *value = values_of(st, begin, end, &ld);
  for (int64_t r = 0; r < st->n_rows; r += MAX_R) {
    const int n = (int)(st->n_rows - r < MAX_R ? st->n_rows - r : MAX_R);
    add_values(st, r, n, value, ld, begin - tile);
  }
}

/* total = total + part, each relative to its own maximum. */
static void merge_two(int64_t n, float *total_max, float *total_sum, float *total, float max,
                      float sum, const float *part) {
  const float top = max > *total_max ? max : *total_max;
  const float a = exp_one(*total_max - top), b = exp_one(max - top);
  *total_max = top;
  *total_sum = fmaf(*total_sum, a, sum * b);
  for (int64_t d = 0; d < n; d += VF_N)
    v_store(total + d, v_fma(v_load(total + d), v_set1(a), v_mul(v_load(part + d), v_set1(b))));
}

/* y = total / sum, the sink's share of the sum included. */
static void finish_row(const wf_attention_span *s, int64_t token, int64_t g, float max, float sum,
                       const float *total) {
  const int64_t head = s->kv_head * (s->spec->n_heads / s->layer->kv_heads) + g;
  const int64_t n = s->layer->head_dim_v;
  float *y = s->y + (s->row->start + token) * s->ldy + head * n, scale = 1.0f;
  if (s->spec->sinks) {
    const float sink = s->spec->sinks[head], top = sink > max ? sink : max;
    scale = exp_one(max - top);
    sum = fmaf(sum, scale, exp_one(sink - top));
  }
  const vf factor = v_set1(scale / sum);
  int64_t d = 0;
  for (; d + VF_N <= n; d += VF_N) v_store(y + d, v_mul(v_load(total + d), factor));
  if (d < n) v_store_n(y + d, v_mul(v_load(total + d), factor), n - d);
}

/* Does the query of row r see a key of the super-tile? */
static int sees(const span_state *st, int64_t r, int64_t super) {
  const int64_t at = st->s->row->past + st->s->token_begin + r / st->group;
  return at >= super * WF_ATTENTION_SUPER &&
         wf_attention_lo(st->s->spec, at) < (super + 1) * WF_ATTENTION_SUPER;
}

static void end_super(const span_state *st, int64_t super) {
  const wf_attention_span *s = st->s;
  for (int64_t r = 0; r < st->n_rows; r++) {
    if (!sees(st, r, super)) continue;
    const float *acc = st->acc + r * st->ldv;
    float *total = st->total + r * st->ldv;
    if (s->partials) {
      float *to = wf_attention_partial(s, super, s->token_begin + r / st->group, r % st->group);
      to[0] = st->max[r];
      to[1] = st->sum[r];
      memcpy(to + WF_PARTIAL_HEAD, acc, (size_t)st->ldv * sizeof *acc);
    } else if (super == s->super_begin || !sees(st, r, super - 1)) {
      st->total_max[r] = st->max[r];
      st->total_sum[r] = st->sum[r];
      memcpy(total, acc, (size_t)st->ldv * sizeof *acc);
    } else {
      merge_two(st->ldv, &st->total_max[r], &st->total_sum[r], total, st->max[r], st->sum[r], acc);
    }
  }
}

/* Cuts the caller's scratch; the sizes are those of wf_attention_scratch_bytes. */
static void lay_out(span_state *st, const wf_attention_span *s) {
  const int64_t group = s->spec->n_heads / s->layer->kv_heads;
  *st = (span_state){.s = s,
                     .group = group,
                     .n_rows = (s->token_end - s->token_begin) * group,
                     .dim = s->layer->head_dim,
                     .dim_v = s->layer->head_dim_v,
                     .ldv = wf_attention_padded_v(s->layer),
                     .ldq = wf_round_up(s->layer->head_dim, 16)};
  const uintptr_t misfit = (uintptr_t)s->scratch & 63;
  float *at = (float *)(void *)((unsigned char *)s->scratch + (misfit ? 64 - misfit : 0));
  /* Keys are done with when values are unpacked: one tile's memory serves both and stays in L1. */
  st->key = st->value = at;
  at += TILE * (st->ldq > st->ldv ? st->ldq : st->ldv);
  st->q = at, at += st->n_rows * st->ldq;
  st->score = at, at += st->n_rows * TILE;
  st->acc = at, at += st->n_rows * st->ldv;
  st->total = at, at += st->n_rows * st->ldv;
  st->max = at, at += st->n_rows;
  st->sum = at, at += st->n_rows;
  st->total_max = at, at += st->n_rows;
  st->total_sum = at, at += st->n_rows;
  st->correction = at, at += st->n_rows;
  st->lo = (int32_t *)(void *)at, at += st->n_rows;
  st->hi = (int32_t *)(void *)at;
}

static void span(const wf_attention_span *s) {
  span_state st;
  lay_out(&st, s);
  for (int64_t r = 0; r < st.n_rows; r++) {
    const int64_t head = s->kv_head * st.group + r % st.group;
    const int64_t token = s->row->start + s->token_begin + r / st.group;
    memcpy(st.q + r * st.ldq, s->q + token * s->ldq + head * st.dim, (size_t)st.dim * sizeof *st.q);
  }
  for (int64_t super = s->super_begin; super < s->super_end; super++) {
    for (int64_t r = 0; r < st.n_rows; r++) {
      st.max[r] = -INFINITY;
      st.sum[r] = 0.0f;
    }
    memset(st.acc, 0, (size_t)(st.n_rows * st.ldv) * sizeof *st.acc);
    for (int64_t t = 0; t < WF_ATTENTION_SUPER; t += TILE)
      visit_tile(&st, super * WF_ATTENTION_SUPER + t);
    end_super(&st, super);
  }
  if (s->partials) return;
  for (int64_t r = 0; r < st.n_rows; r++)
    finish_row(s, s->token_begin + r / st.group, r % st.group, st.total_max[r], st.total_sum[r],
               st.total + r * st.ldv);
}

static void merge(const wf_attention_span *s) {
  const int64_t group = s->spec->n_heads / s->layer->kv_heads;
  const int64_t n = wf_attention_padded_v(s->layer);
  WF_ALIGNED(64) float total[WF_ATTENTION_MAX_DIM];
  for (int64_t r = 0; r < (s->token_end - s->token_begin) * group; r++) {
    const int64_t token = s->token_begin + r / group, at = s->row->past + token;
    const int64_t first = wf_attention_lo(s->spec, at) / WF_ATTENTION_SUPER;
    float max = 0.0f, sum = 0.0f;
    for (int64_t super = first; super <= at / WF_ATTENTION_SUPER; super++) {
      const float *part = wf_attention_partial(s, super, token, r % group);
      if (super == first) {
        max = part[0];
        sum = part[1];
        memcpy(total, part + WF_PARTIAL_HEAD, (size_t)n * sizeof *total);
      } else {
        merge_two(n, &max, &sum, total, part[0], part[1], part + WF_PARTIAL_HEAD);
      }
    }
    finish_row(s, token, r % group, max, sum, total);
  }
}

static void rope_half(float *head, const float *c, const float *s, int64_t half) {
  int64_t i = 0;
  for (; i + VF_N <= half; i += VF_N) {
    const vf a = v_load(head + i), b = v_load(head + half + i);
    const vf cos = v_load(c + i), sin = v_load(s + i);
    v_store(head + i, v_fnma(b, sin, v_mul(a, cos)));
    v_store(head + half + i, v_fma(a, sin, v_mul(b, cos)));
  }
  for (; i < half; i++) {
    const float a = head[i], b = head[half + i];
    head[i] = fmaf(-b, s[i], a * c[i]);
    head[half + i] = fmaf(a, s[i], b * c[i]);
  }
}

static void rope(const wf_rope *rope, float *x, int64_t ld, int64_t n_tokens, int32_t n_heads,
                 int32_t head_dim, const int64_t *positions) {
  const int64_t half = rope->dim / 2;
  for (int64_t t = 0; t < n_tokens; t++) {
    const float *c = rope->cos + positions[t] * half, *s = rope->sin + positions[t] * half;
    for (int64_t h = 0; h < n_heads; h++) {
      float *head = x + t * ld + h * head_dim;
      if (rope->kind == WF_ROPE_HALF) {
        rope_half(head, c, s, half);
        continue;
      }
      for (int64_t i = 0; i < half; i++) {
        const float a = head[2 * i], b = head[2 * i + 1];
        head[2 * i] = fmaf(-b, s[i], a * c[i]);
        head[2 * i + 1] = fmaf(a, s[i], b * c[i]);
      }
    }
  }
}

static void store_q8(int64_t n, const float *x, int8_t *to, float *scale) {
  vf max = v_zero();
  int64_t i = 0;
  for (; i + VF_N <= n; i += VF_N) max = v_max(v_abs(v_load(x + i)), max);
  if (i < n) max = v_max(v_abs(v_load_n(x + i, n - i)), max);
  const float amax = v_hmax(max);
  *scale = amax / 127.0f;
  const float inverse = amax > 1e-30f ? 127.0f / amax : 0.0f;
  const vf low = v_set1(-127.0f), high = v_set1(127.0f);
  for (i = 0; i < n; i += VF_N) {
    const int64_t left = n - i;
    const vf v = left >= VF_N ? v_load(x + i) : v_load_n(x + i, left);
    /* the bound comes second here: NaN becomes -127, as in ref */
    const vf r = v_min(v_max(v_round(v_mul(v, v_set1(inverse))), low), high);
    int8_t tail[VF_N];
    if (left >= VF_N) {
      v_to_i8(to + i, r);
    } else {
      v_to_i8(tail, r);
      memcpy(to + i, tail, (size_t)left);
    }
  }
}

static void store(wf_kv_type type, int64_t n, const float *x, void *to, float *scale) {
  if (type == WF_KV_F32)
    memcpy(to, x, (size_t)n * sizeof *x);
  else if (type == WF_KV_F16)
    WF_ATTENTION_NORMS.f32_to_f16(n, x, to);
  else
    store_q8(n, x, to, scale);
}

static void head_rms_norm(float *x, int64_t ld, int64_t n_tokens, int32_t n_heads, int32_t head_dim,
                          const float *weight, float epsilon) {
  for (int64_t t = 0; t < n_tokens; t++)
    WF_ATTENTION_NORMS.rms_norm(n_heads, head_dim, x + t * ld, head_dim, weight, epsilon,
                                x + t * ld, head_dim);
}

#define WF_ATTENTION_TABLE(name_, needs_)                                                         \
  {                                                                                               \
    .name = name_, .needs = needs_, .rope = rope, .head_rms_norm = head_rms_norm, .store = store, \
    .span = span, .merge = merge                                                                  \
  }
