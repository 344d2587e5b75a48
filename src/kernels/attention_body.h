/* SPDX-License-Identifier: Apache-2.0 */
/* The vector form of attention, in the words of vec_*.h; each ISA file includes this once and names
 * the table at the end.
 *
 * WF_ATTENTION_NORMS names the elementwise table of the same level.
 * A span has rows: (token, head of the group) pairs that share one kv head, so a key tile is read
 * once for all of them. Per tile of 64 keys: scores = q * keys (a lane a key, so no sums across
 * lanes), softmax weights per row, acc = acc * correction + weights * values. Both products sum
 * over their inner index in ascending order for each output on its own: how many rows share a call
 * changes no bit. */
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

/* The keys or values of a tile as a product reads them: straight from the cache, or as fp32. */
typedef struct operand {
  wf_kv_type type;
  const unsigned char *at; /* keys: of the tile's first group; values: of the tile's first token */
  const float *scale;      /* q8: of the tile's first token */
  int64_t ld;              /* values: elements from one token to the next */
  /* What is read after this: fetched on the way, `stride` bytes for each turn of the loop, because
   * a head's part of a block ends before the hardware has seen where it goes. */
  const unsigned char *next;
  size_t stride;
} operand;

WF_INLINE vf load_as(const wf_kv_type type, const unsigned char *p) {
  return type == WF_KV_F32   ? v_load((const float *)(const void *)p)
         : type == WF_KV_F16 ? v_from_f16(p)
                             : v_from_i8(p);
}

/* Scores of C vectors of keys, the first at column `at` of a tile of groups, for R rows. */
WF_INLINE void score_columns(const wf_kv_type type, const int R, const int C, int64_t dim,
                             const float *q, int64_t ldq, const operand *k, int64_t at,
                             float *score) {
  const size_t bytes = wf_kv_element_bytes(type);
  vf sum[MAX_R][4], factor[4];
  const unsigned char *from[4];
  WF_UNROLL_ALL
  for (int j = 0; j < C; j++) {
    const int64_t column = at + j * VF_N;
    from[j] = k->at + (size_t)(column / WF_KV_KEY_GROUP * WF_KV_KEY_GROUP * dim +
                               column % WF_KV_KEY_GROUP) *
                          bytes;
    if (type == WF_KV_Q8) factor[j] = v_load(k->scale + column);
    WF_UNROLL_ALL
    for (int r = 0; r < R; r++) sum[r][j] = v_zero();
  }
  const unsigned char *next = k->next;
  for (int64_t i = 0; i < dim; i++, next += k->stride) {
    vf row[4];
    WF_PREFETCH(next);
    WF_PREFETCH(next + k->stride / 2);
    WF_UNROLL_ALL
    for (int j = 0; j < C; j++) {
      row[j] = load_as(type, from[j] + (size_t)(i * WF_KV_KEY_GROUP) * bytes);
      if (type == WF_KV_Q8) row[j] = v_mul(row[j], factor[j]);
    }
    WF_UNROLL_ALL
    for (int r = 0; r < R; r++) {
      const vf left = v_set1(q[r * ldq + i]);
      WF_UNROLL_ALL
      for (int j = 0; j < C; j++) sum[r][j] = v_fma(left, row[j], sum[r][j]);
    }
  }
  WF_UNROLL_ALL
  for (int r = 0; r < R; r++) {
    WF_UNROLL_ALL
    for (int j = 0; j < C; j++) v_store(score + r * TILE + at + j * VF_N, sum[r][j]);
  }
}

/* acc[r][.] = correction[r] * acc[r][.] + sum_i w[r][i] * value[i][.] for C vectors of columns. */
WF_INLINE void value_columns(const wf_kv_type type, const int R, const int C, int64_t n,
                             const float *w, const operand *v, int64_t begin, int64_t column,
                             float *acc, int64_t ld_acc, const float *correction) {
  const size_t bytes = wf_kv_element_bytes(type);
  const unsigned char *value = v->at + (size_t)(begin * v->ld + column) * bytes;
  const unsigned char *next = v->next + (size_t)begin * v->stride;
  vf sum[MAX_R][4];
  WF_UNROLL_ALL
  for (int r = 0; r < R; r++) {
    WF_UNROLL_ALL
    for (int j = 0; j < C; j++)
      sum[r][j] = v_mul(v_load(acc + r * ld_acc + j * VF_N), v_set1(correction[r]));
  }
  for (int64_t i = 0; i < n; i++, next += v->stride) {
    vf row[4];
    WF_PREFETCH(next);
    WF_PREFETCH(next + v->stride / 2);
    WF_UNROLL_ALL
    for (int j = 0; j < C; j++) {
      row[j] = load_as(type, value + (size_t)(i * v->ld + j * VF_N) * bytes);
      if (type == WF_KV_Q8) row[j] = v_mul(row[j], v_set1(v->scale[begin + i]));
    }
    WF_UNROLL_ALL
    for (int r = 0; r < R; r++) {
      const vf left = v_set1(w[r * TILE + i]);
      WF_UNROLL_ALL
      for (int j = 0; j < C; j++) sum[r][j] = v_fma(left, row[j], sum[r][j]);
    }
  }
  WF_UNROLL_ALL
  for (int r = 0; r < R; r++) {
    WF_UNROLL_ALL
    for (int j = 0; j < C; j++) v_store(acc + r * ld_acc + j * VF_N, sum[r][j]);
  }
}

enum { WIDE = VF_REGISTERS >= 32 ? 4 : 2 };

WF_INLINE void scores_as(const wf_kv_type type, const int R, int64_t dim, const float *q,
                         int64_t ldq, const operand *k, int64_t begin, int64_t end, float *score) {
  int64_t j = begin;
  for (; j + WIDE * VF_N <= end; j += WIDE * VF_N)
    score_columns(type, R, WIDE, dim, q, ldq, k, j, score);
  for (; j < end; j += VF_N) score_columns(type, R, 1, dim, q, ldq, k, j, score);
}

WF_INLINE void values_as(const wf_kv_type type, const int R, int64_t n_vec, int64_t begin,
                         int64_t end, const float *w, const operand *v, float *acc, int64_t ld_acc,
                         const float *correction) {
  int64_t j = 0;
  for (; j + WIDE <= n_vec; j += WIDE)
    value_columns(type, R, WIDE, end - begin, w + begin, v, begin, j * VF_N, acc + j * VF_N, ld_acc,
                  correction);
  for (; j < n_vec; j++)
    value_columns(type, R, 1, end - begin, w + begin, v, begin, j * VF_N, acc + j * VF_N, ld_acc,
                  correction);
}

#define FOR_ROWS(do_) \
  switch (R) {        \
    case 1:           \
      do_(1);         \
      break;          \
    case 2:           \
      do_(2);         \
      break;          \
    case 3:           \
      do_(3);         \
      break;          \
    case 4:           \
      do_(4);         \
      break;          \
    case 5:           \
      do_(5);         \
      break;          \
    default:          \
      do_(6);         \
      break;          \
  }

#define DEFINE_PRODUCTS(name, type)                                                       \
  static WF_NOINLINE void scores_##name(int R, int64_t dim, const float *q, int64_t ldq,  \
                                        const operand *k, int64_t begin, int64_t end,     \
                                        float *score) {                                   \
    FOR_ROWS(SCORES_##name)                                                               \
  }                                                                                       \
  static WF_NOINLINE void values_##name(int R, int64_t n_vec, int64_t begin, int64_t end, \
                                        const float *w, const operand *v, float *acc,     \
                                        int64_t ld_acc, const float *correction) {        \
    FOR_ROWS(VALUES_##name)                                                               \
  }
#define SCORES_f32(n) scores_as(WF_KV_F32, n, dim, q, ldq, k, begin, end, score)
#define SCORES_f16(n) scores_as(WF_KV_F16, n, dim, q, ldq, k, begin, end, score)
#define SCORES_q8(n) scores_as(WF_KV_Q8, n, dim, q, ldq, k, begin, end, score)
#define VALUES_f32(n) values_as(WF_KV_F32, n, n_vec, begin, end, w, v, acc, ld_acc, correction)
#define VALUES_f16(n) values_as(WF_KV_F16, n, n_vec, begin, end, w, v, acc, ld_acc, correction)
#define VALUES_q8(n) values_as(WF_KV_Q8, n, n_vec, begin, end, w, v, acc, ld_acc, correction)
DEFINE_PRODUCTS(f32, WF_KV_F32)
DEFINE_PRODUCTS(f16, WF_KV_F16)
DEFINE_PRODUCTS(q8, WF_KV_Q8)

/* score[r][begin .. end) = q[r] . key, for whole vectors; R rows of q. */
static void scores_of(int R, int64_t dim, const float *q, int64_t ldq, const operand *k,
                      int64_t begin, int64_t end, float *score) {
  switch (k->type) {
    case WF_KV_F32:
      scores_f32(R, dim, q, ldq, k, begin, end, score);
      break;
    case WF_KV_F16:
      scores_f16(R, dim, q, ldq, k, begin, end, score);
      break;
    case WF_KV_Q8:
      scores_q8(R, dim, q, ldq, k, begin, end, score);
      break;
  }
}

/* acc = correction * acc + weights of tokens [begin, end) * their values. */
static void values_product(int R, int64_t n_vec, int64_t begin, int64_t end, const float *w,
                           const operand *v, float *acc, int64_t ld_acc, const float *correction) {
  switch (v->type) {
    case WF_KV_F32:
      values_f32(R, n_vec, begin, end, w, v, acc, ld_acc, correction);
      break;
    case WF_KV_F16:
      values_f16(R, n_vec, begin, end, w, v, acc, ld_acc, correction);
      break;
    case WF_KV_Q8:
      values_q8(R, n_vec, begin, end, w, v, acc, ld_acc, correction);
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

/* Few rows read each key once: they take it from the cache as it is. For many, a tile is turned
 * into fp32 once. Both see the same numbers, so the bits don't tell which way was taken. */
static int is_direct(const span_state *st) {
  const wf_kv_layer *layer = st->s->layer;
  return (st->n_rows <= MAX_R || layer->type == WF_KV_F32) && layer->block_tokens >= TILE;
}

/* What the product over `o` fetches on its way: n_bytes at `next`, over n turns. */
static void fetch_next(operand *o, const unsigned char *next, size_t n_bytes, int64_t n) {
  o->next = next;
  o->stride = (n_bytes / (size_t)n + 127) / 128 * 128;
}

/* One group of keys as fp32, still [dim][WF_KV_KEY_GROUP]. */
WF_INLINE void convert_group(const wf_kv_type type, const unsigned char *from, const float *scale,
                             int64_t dim, float *to) {
  const size_t bytes = wf_kv_element_bytes(type);
  vf factor[WF_KV_KEY_GROUP / VF_N];
  if (type == WF_KV_Q8)
    for (int j = 0; j < WF_KV_KEY_GROUP / VF_N; j++) factor[j] = v_load(scale + j * VF_N);
  for (int64_t i = 0; i < dim; i++) {
    WF_UNROLL_ALL
    for (int j = 0; j < WF_KV_KEY_GROUP / VF_N; j++) {
      const int64_t at = i * WF_KV_KEY_GROUP + j * VF_N;
      vf v = load_as(type, from + (size_t)at * bytes);
      if (type == WF_KV_Q8) v = v_mul(v, factor[j]);
      v_store(to + at, v);
    }
  }
}

/* Keys [begin, end) of the tile at `tile`. Whole groups are read: lanes of tokens that were never
 * written hold anything, and weigh() masks them. */
static operand keys_of(const span_state *st, int64_t tile, int64_t begin, int64_t end) {
  const wf_attention_span *s = st->s;
  const wf_kv_layer *layer = s->layer;
  float *scale = NULL;
  operand k = {.type = layer->type};
  if (is_direct(st)) {
    k.at = wf_kv_at(layer, s->row, tile, s->kv_head, 0, &scale);
    k.scale = scale;
    if (st->n_rows <= MAX_R) {
      const unsigned char *value = wf_kv_at(layer, s->row, tile, s->kv_head, 1, &scale);
      fetch_next(&k, value, TILE * (size_t)st->dim_v * wf_kv_element_bytes(layer->type), st->dim);
    } else {
      k.next = k.at;
    }
    return k;
  }
  k = (operand){.type = WF_KV_F32,
                .at = (const unsigned char *)st->key,
                .next = (const unsigned char *)st->key};
  for (int64_t t = begin / WF_KV_KEY_GROUP * WF_KV_KEY_GROUP; t < end; t += WF_KV_KEY_GROUP) {
    const unsigned char *from = wf_kv_at(layer, s->row, t, s->kv_head, 0, &scale);
    float *to = st->key + (t - tile) * st->dim;
    switch (layer->type) {
      case WF_KV_F32:
        memcpy(to, from, (size_t)(st->dim * WF_KV_KEY_GROUP) * sizeof *to);
        break;
      case WF_KV_F16:
        convert_group(WF_KV_F16, from, scale, st->dim, to);
        break;
      case WF_KV_Q8:
        convert_group(WF_KV_Q8, from, scale, st->dim, to);
        break;
    }
  }
  return k;
}

WF_INLINE void convert_value(const wf_kv_type type, const unsigned char *from, float scale,
                             int64_t n, float *to) {
  const size_t bytes = wf_kv_element_bytes(type);
  int64_t d = 0;
  for (; d + VF_N <= n; d += VF_N) {
    vf v = load_as(type, from + (size_t)d * bytes);
    if (type == WF_KV_Q8) v = v_mul(v, v_set1(scale));
    v_store(to + d, v);
  }
  for (; d < n; d++) to[d] = scalar_element(type, from + (size_t)d * bytes, scale);
  /* Padding columns are multiplied and thrown away; they need only be numbers. */
  for (; d % VF_N != 0; d++) to[d] = 0.0f;
}

/* Values [begin, end) of the tile at `tile`, addressed from the tile's first token. */
static operand values_of(const span_state *st, int64_t tile, int64_t begin, int64_t end) {
  const wf_attention_span *s = st->s;
  const wf_kv_layer *layer = s->layer;
  float *scale = NULL;
  if (is_direct(st) && st->dim_v % VF_N == 0) {
    const unsigned char *at = wf_kv_at(layer, s->row, tile, s->kv_head, 1, &scale);
    operand v = {.type = layer->type, .at = at, .scale = scale, .ld = st->dim_v, .next = at};
    if (st->n_rows <= MAX_R && tile + TILE <= s->row->past + s->token_end - 1) {
      const unsigned char *key = wf_kv_at(layer, s->row, tile + TILE, s->kv_head, 0, &scale);
      fetch_next(&v, key, TILE * (size_t)st->dim * wf_kv_element_bytes(layer->type), TILE);
    }
    return v;
  }
  const unsigned char *from = NULL;
  const size_t stride = (size_t)st->dim_v * wf_kv_element_bytes(layer->type);
  for (int64_t t = begin; t < end; t++) {
    if (t == begin || (t & (int64_t)(layer->block_tokens - 1)) == 0) {
      from = wf_kv_at(layer, s->row, t, s->kv_head, 1, &scale);
    } else {
      from += stride;
      if (scale) scale++;
    }
    float *to = st->value + (t - tile) * st->ldv;
    switch (layer->type) {
      case WF_KV_F32:
        convert_value(WF_KV_F32, from, 1.0f, st->dim_v, to);
        break;
      case WF_KV_F16:
        convert_value(WF_KV_F16, from, 1.0f, st->dim_v, to);
        break;
      case WF_KV_Q8:
        convert_value(WF_KV_Q8, from, *scale, st->dim_v, to);
        break;
    }
  }
  const unsigned char *value = (const unsigned char *)st->value;
  return (operand){.type = WF_KV_F32, .at = value, .ld = st->ldv, .next = value};
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
static void add_values(const span_state *st, int64_t r, int n, const operand *v) {
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
    values_product(1, n_vec, lo, hi, w + i * TILE, v, acc + i * st->ldv, st->ldv, correction + i);
    correction[i] = 1.0f;
  }
  if (!shared) return;
  values_product(n, n_vec, a, b, w, v, acc, st->ldv, correction);
  for (int i = 0; i < n; i++) {
    const int64_t hi = st->hi[r + i];
    if (b < hi) values_product(1, n_vec, b, hi, w + i * TILE, v, acc + i * st->ldv, st->ldv, one);
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
  if (begin >= end) return;
  for (int64_t r = 0; r < st->n_rows; r++) {
    const int64_t at = first_at + r / st->group;
    const int64_t from = wf_attention_lo(s->spec, at) - tile;
    st->lo[r] = (int32_t)(from < 0 ? 0 : from > TILE ? TILE : from);
    st->hi[r] = (int32_t)(at + 1 - tile < 0 ? 0 : at + 1 - tile > TILE ? TILE : at + 1 - tile);
  }
  const operand keys = keys_of(st, tile, begin, end);
  for (int64_t r = 0; r < st->n_rows; r += MAX_R) {
    const int n = (int)(st->n_rows - r < MAX_R ? st->n_rows - r : MAX_R);
    /* positions ascend over rows, and so do both borders */
    const int64_t a = st->lo[r] / VF_N * VF_N, b = st->hi[r + n - 1];
    if (a < b)
      scores_of(n, st->dim, st->q + r * st->ldq, st->ldq, &keys, a, wf_round_up(b, VF_N),
                st->score + r * TILE);
    for (int i = 0; i < n; i++)
      if (st->lo[r + i] < st->hi[r + i]) weigh_row(st, r + i, st->score + (r + i) * TILE);
  }
  const operand values = values_of(st, tile, begin, end);
  for (int64_t r = 0; r < st->n_rows; r += MAX_R) {
    const int n = (int)(st->n_rows - r < MAX_R ? st->n_rows - r : MAX_R);
    add_values(st, r, n, &values);
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
