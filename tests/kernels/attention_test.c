/* SPDX-License-Identifier: Apache-2.0 */
/* Attention, rotary embedding and the cache at every level this machine can run, against a plain
 * double-precision formula over whole rows (no tiles), against values worked by hand, and for the
 * bits: a query's result must not know in what company it was computed. */
#include "support/test.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "kernels/attention.h"
#include "kernels/attention_kernels.h"
#include "kernels/elementwise.h"

static uint64_t rng = 0x9e3779b97f4a7c15u;
static float uniform(void) { /* in [-1, 1) */
  rng ^= rng << 13;
  rng ^= rng >> 7;
  rng ^= rng << 17;
  return (float)(int32_t)(rng >> 32) * 0x1p-31f;
}

/* One sequence with its cache; everything a case varies. */
typedef struct sequence {
  wf_kv_layer layer;
  wf_attention_spec spec;
  wf_attention_row row;
  int64_t n; /* tokens in all */
  int64_t ldq, ldk, ldv, ldy;
  float *q, *k, *v, *y;   /* of all n tokens */
  float *kept_k, *kept_v; /* what the cache holds, as fp32 */
  unsigned char *memory;
  unsigned char **table;
  size_t block_bytes;
} sequence;

static void *need(size_t n) {
  void *p = wf_alloc_aligned(n ? n : 1, 64);
  assert_non_null(p);
  return p;
}

static float *noise(size_t n, float scale) {
  float *p = need(n * sizeof *p);
  for (size_t i = 0; i < n; i++) p[i] = scale * uniform();
  return p;
}

static size_t plane(size_t *at, size_t bytes) {
  const size_t here = *at;
  *at += (bytes + 63) / 64 * 64;
  return here;
}

typedef struct shape {
  wf_kv_type type;
  int32_t kv_heads, group, dim, dim_v, block;
  int64_t n, window;
  float softcap;
  bool has_sinks;
  float size; /* of queries and keys */
} shape;

static void sequence_init(sequence *s, const shape *p) {
  *s = (sequence){0};
  const size_t bytes = wf_kv_element_bytes(p->type);
  const size_t slots = (size_t)p->kv_heads * (size_t)p->block;
  size_t at = 64;
  s->layer = (wf_kv_layer){.type = p->type,
                           .kv_heads = p->kv_heads,
                           .head_dim = p->dim,
                           .head_dim_v = p->dim_v,
                           .block_tokens = p->block};
  s->layer.key_offset = plane(&at, slots * (size_t)p->dim * bytes);
  s->layer.value_offset = plane(&at, slots * (size_t)p->dim_v * bytes);
  s->layer.key_scale_offset = plane(&at, slots * 4);
  s->layer.value_scale_offset = plane(&at, slots * 4);
  s->block_bytes = at;
  s->n = p->n;
  const int64_t heads = (int64_t)p->kv_heads * p->group;
  s->ldq = heads * p->dim + 3; /* strides wider than the rows, and unaligned */
  s->ldk = (int64_t)p->kv_heads * p->dim + 1;
  s->ldv = (int64_t)p->kv_heads * p->dim_v + 2;
  s->ldy = heads * p->dim_v + 5;
  s->q = noise((size_t)(s->n * s->ldq), p->size);
  s->k = noise((size_t)(s->n * s->ldk), p->size);
  s->v = noise((size_t)(s->n * s->ldv), 1.0f);
  s->y = noise((size_t)(s->n * s->ldy), 1.0f);
  s->spec = (wf_attention_spec){.n_heads = (int32_t)heads,
                                .scale = 1.0f / sqrtf((float)p->dim),
                                .softcap = p->softcap,
                                .window = p->window,
                                .sinks = p->has_sinks ? noise((size_t)heads, 2.0f) : NULL};
  const size_t n_blocks = (size_t)((p->n + p->block - 1) / p->block);
  s->memory = need(n_blocks * s->block_bytes);
  memset(s->memory, 0xff, n_blocks * s->block_bytes); /* NaN in every type */
  s->table = need(n_blocks * sizeof *s->table);
  for (size_t i = 0; i < n_blocks; i++) /* in no order */
    s->table[i] = s->memory + (n_blocks - 1 - i) * s->block_bytes;
  s->row.blocks = s->table;
}

static void sequence_deinit(sequence *s) {
  wf_free(s->q);
  wf_free(s->k);
  wf_free(s->v);
  wf_free(s->y);
  wf_free(s->kept_k);
  wf_free(s->kept_v);
  wf_free(s->memory);
  wf_free(s->table);
  wf_free(wf_unconst(s->spec.sinks)); /* made by noise() above */
}

/* Runs tokens [past, past + n_new) as one call of the backend would. */
static void step(sequence *s, const wf_attention_variant *level, int64_t past, int64_t n_new,
                 bool may_split, float *y) {
  s->row.past = past;
  s->row.start = past; /* packed arrays of the test hold all tokens */
  s->row.n_new = n_new;
  wf_kv_append_by(level, &s->layer, &s->row, NULL, s->k, s->ldk, s->v, s->ldv, 0, n_new);
  const size_t scratch_bytes = wf_attention_scratch_bytes(&s->spec, &s->layer, n_new);
  unsigned char *scratch = need(scratch_bytes + 64);
  memset(scratch, 0xff, scratch_bytes + 64);
  scratch[scratch_bytes] = 0x5a;
  const int64_t n_split = wf_attention_n_split_items(&s->spec, &s->layer, &s->row);
  if (may_split && n_split > 0) {
    const size_t bytes = wf_attention_partials_bytes(&s->spec, &s->layer, n_new, past + n_new);
    unsigned char *partials = need(bytes + 1);
    memset(partials, 0xff, bytes + 1);
    for (int64_t i = n_split - 1; i >= 0; i--)
      wf_attention_split_item_by(level, &s->spec, &s->layer, &s->row, s->q, s->ldq, i, partials,
                                 scratch);
    for (int32_t h = 0; h < s->layer.kv_heads; h++)
      wf_attention_merge_item_by(level, &s->spec, &s->layer, &s->row, partials, y, s->ldy, h);
    assert_int_equal(partials[bytes], 0xff);
    wf_free(partials);
  } else {
    const int64_t n = wf_attention_n_items(&s->spec, &s->layer, &s->row);
    for (int64_t i = 0; i < n; i++)
      wf_attention_item_by(level, &s->spec, &s->layer, &s->row, s->q, s->ldq, y, s->ldy, i,
                           scratch);
  }
  assert_int_equal(scratch[scratch_bytes], 0x5a);
  wf_free(scratch);
}

static void keep(sequence *s) {
  const size_t n = (size_t)s->n * (size_t)s->layer.kv_heads;
  if (!s->kept_k) s->kept_k = need(n * (size_t)s->layer.head_dim * 4);
  if (!s->kept_v) s->kept_v = need(n * (size_t)s->layer.head_dim_v * 4);
  wf_kv_read(&s->layer, &s->row, 0, s->n, s->kept_k, s->kept_v);
}

/* The formula, in double, over the values that the cache holds. */
static void judge(const sequence *s, int64_t token, int64_t head, double *y, double *reach) {
  const int64_t group = s->spec.n_heads / s->layer.kv_heads, kv = head / group;
  const int64_t dim = s->layer.head_dim, dim_v = s->layer.head_dim_v;
  const int64_t lo = s->spec.window > 0 && token >= s->spec.window ? token - s->spec.window + 1 : 0;
  double *score = need((size_t)(token + 1) * sizeof *score);
  double max = s->spec.sinks ? (double)s->spec.sinks[head] : -INFINITY, sum;
  *reach = 1.0;
  for (int64_t j = lo; j <= token; j++) {
    double dot = 0.0, size = 0.0;
    for (int64_t d = 0; d < dim; d++) {
      const double term = (double)s->q[token * s->ldq + head * dim + d] *
                          (double)s->kept_k[(j * s->layer.kv_heads + kv) * dim + d];
      dot += term;
      size += fabs(term);
    }
    dot *= (double)s->spec.scale;
    if (size * (double)s->spec.scale > *reach) *reach = size * (double)s->spec.scale;
    if (s->spec.softcap > 0.0f) dot = (double)s->spec.softcap * tanh(dot / (double)s->spec.softcap);
    score[j] = dot;
    max = dot > max ? dot : max;
  }
  sum = s->spec.sinks ? exp((double)s->spec.sinks[head] - max) : 0.0;
  for (int64_t d = 0; d < dim_v; d++) y[d] = 0.0;
  for (int64_t j = lo; j <= token; j++) {
    const double p = exp(score[j] - max);
    sum += p;
    for (int64_t d = 0; d < dim_v; d++)
      y[d] += p * (double)s->kept_v[(j * s->layer.kv_heads + kv) * dim_v + d];
  }
  for (int64_t d = 0; d < dim_v; d++) y[d] /= sum;
  wf_free(score);
}

static void check(sequence *s, const char *name, int64_t first) {
  double want[WF_ATTENTION_MAX_DIM], reach;
  keep(s);
  for (int64_t t = first; t < s->n; t++)
    for (int64_t h = 0; h < s->spec.n_heads; h++) {
      judge(s, t, h, want, &reach);
      for (int64_t d = 0; d < s->layer.head_dim_v; d++) {
        const double got = (double)s->y[t * s->ldy + h * s->layer.head_dim_v + d];
        /* a score's rounding error is its terms' size times a few ulp; the output moves by that
         * share of the values' spread */
        if (!(fabs(got - want[d]) <= 1e-6 * (1.0 + reach)))
          fail_msg(
              "%s: type %d dim %d/%d block %d n %d window %d: token %d head %d [%d] is %d e-9, "
              "not %d e-9",
              name, (int)s->layer.type, s->layer.head_dim, s->layer.head_dim_v,
              s->layer.block_tokens, (int)s->n, (int)s->spec.window, (int)t, (int)h, (int)d,
              (int)(got * 1e9), (int)(want[d] * 1e9));
      }
    }
}

/* Every variant whose level can run, AVX-512 by emulation. */
static void each_level(void (*fn)(const wf_attention_variant *level, const char *name)) {
  for (size_t i = 0; i < wf_attention_n_variants; i++)
    if (wf_cpu_has(wf_cpu_best(), wf_attention_variants[i]->needs))
      fn(wf_attention_variants[i], wf_attention_variants[i]->name);
#ifdef WF_HAVE_EMULATED_AVX512
  fn(&wf_attention_avx512_emu, "attention_avx512 (emulated)");
#endif
}

static void run_shape(const wf_attention_variant *level, const char *name, const shape *p) {
  sequence s;
  sequence_init(&s, p);
  step(&s, level, 0, p->n, false, s.y);
  check(&s, name, 0);
  sequence_deinit(&s);
}

static void all_shapes(const wf_attention_variant *level, const char *name) {
  static const int32_t dims[] = {16, 64, 20, 33, 80, 96, 128, 7, 256};
  static const int32_t blocks[] = {64, 16, 128, 32, 512};
  static const wf_kv_type types[] = {WF_KV_F32, WF_KV_F16, WF_KV_Q8};
  int turn = 0;
  for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++)
    for (size_t t = 0; t < 3; t++, turn++) {
      const shape p = {.type = types[t],
                       .kv_heads = 1 + turn % 2,
                       .group = 1 + turn % 5,
                       .dim = dims[d],
                       .dim_v = turn % 3 == 2 ? dims[(d + 3) % 8] : dims[d],
                       .block = blocks[turn % 5],
                       .n = 40 + 37 * (turn % 4),
                       .window = turn % 4 == 1 ? 1 + turn : 0,
                       .softcap = turn % 5 == 3 ? 2.0f : 0.0f,
                       .has_sinks = turn % 3 == 1,
                       .size = 2.0f};
      run_shape(level, name, &p);
    }
}

static void every_shape_and_cache_type_agrees_with_the_formula(void **state) {
  (void)state;
  each_level(all_shapes);
}

static void all_lengths(const wf_attention_variant *level, const char *name) {
  for (int64_t n = 1; n <= 70; n++) {
    const shape p = {
        .kv_heads = 1, .group = 3, .dim = 16, .dim_v = 16, .block = 64, .n = n, .size = 2.0f};
    run_shape(level, name, &p);
  }
  for (int64_t window = 1; window <= 66; window += 5) {
    const shape p = {.kv_heads = 1,
                     .group = 2,
                     .dim = 16,
                     .dim_v = 16,
                     .block = 64,
                     .n = 150,
                     .window = window,
                     .size = 2.0f};
    run_shape(level, name, &p);
  }
}

static void every_length_and_window_agrees_with_the_formula(void **state) {
  (void)state;
  each_level(all_lengths);
}

static void large_scores(const wf_attention_variant *level, const char *name) {
  const shape p = {
      .kv_heads = 1, .group = 2, .dim = 64, .dim_v = 64, .block = 64, .n = 90, .size = 60.0f};
  run_shape(level, name, &p);
  const shape huge_group = {
      .kv_heads = 1, .group = 200, .dim = 16, .dim_v = 16, .block = 64, .n = 3, .size = 1.0f};
  run_shape(level, name, &huge_group);
}

static void scores_in_the_thousands_do_not_overflow(void **state) {
  (void)state;
  each_level(large_scores);
}

/* The same tokens in chunks of every size give the same bits. */
static void chunks(const wf_attention_variant *level, const char *name) {
  static const int64_t sizes[] = {1, 2, 7, 64};
  static const shape shapes[] = {
      {.kv_heads = 2, .group = 3, .dim = 64, .dim_v = 64, .block = 64, .n = 300, .size = 2.0f},
      {.type = WF_KV_F16,
       .kv_heads = 1,
       .group = 4,
       .dim = 40,
       .dim_v = 24,
       .block = 16,
       .n = 290,
       .window = 70,
       .size = 2.0f},
      {.type = WF_KV_Q8,
       .kv_heads = 1,
       .group = 7,
       .dim = 16,
       .dim_v = 16,
       .block = 128,
       .n = 270,
       .softcap = 3.0f,
       .has_sinks = true,
       .size = 2.0f},
      {.kv_heads = 1,
       .group = 1,
       .dim = 16,
       .dim_v = 16,
       .block = 64,
       .n = 560,
       .window = 300,
       .has_sinks = true,
       .size = 2.0f},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    sequence s;
    sequence_init(&s, &shapes[i]);
    step(&s, level, 0, s.n, false, s.y);
    check(&s, name, s.n - 9);
    const size_t bytes = (size_t)(s.n * s.ldy) * sizeof(float);
    float *y = need(bytes);
    for (int pass = 0; pass < 8; pass++) {
      const int64_t size = sizes[pass / 2];
      memcpy(y, s.y, bytes);
      const size_t width = (size_t)s.spec.n_heads * (size_t)s.layer.head_dim_v * sizeof(float);
      for (int64_t t = 0; t < s.n; t++) memset(y + t * s.ldy, 0, width);
      for (int64_t t = 0; t < s.n; t += size)
        step(&s, level, t, size < s.n - t ? size : s.n - t, pass % 2 == 1, y);
      for (int64_t t = 0; t < s.n; t++)
        if (memcmp(y + t * s.ldy, s.y + t * s.ldy, width) != 0)
          fail_msg("%s: shape %d: token %d differs in chunks of %d%s", name, (int)i, (int)t,
                   (int)size, pass % 2 ? ", keys split" : "");
    }
    wf_free(y);
    sequence_deinit(&s);
  }
}

static void a_query_has_the_same_bits_alone_in_any_chunk_and_with_split_keys(void **state) {
  (void)state;
  each_level(chunks);
}

/* Unused cache bytes, other rows' blocks and scratch may hold anything. */
static void garbage(const wf_attention_variant *level, const char *name) {
  static const wf_kv_type types[] = {WF_KV_F32, WF_KV_F16, WF_KV_Q8};
  for (size_t t = 0; t < 3; t++) {
    const shape p = {.type = types[t],
                     .kv_heads = 1,
                     .group = 3,
                     .dim = 64,
                     .dim_v = 64,
                     .block = 64,
                     .n = 75,
                     .size = 2.0f};
    sequence s;
    sequence_init(&s, &p);
    float first[192];
    for (int turn = 0; turn < 20; turn++) {
      /* everything, then the valid tokens again over it */
      for (size_t i = 0; i < 2 * s.block_bytes; i++)
        s.memory[i] = (unsigned char)(turn % 2 ? rng >> (i % 50) : turn % 4 ? 0xff : 0x7f);
      (void)uniform();
      step(&s, level, 0, 74, false, s.y);
      step(&s, level, 74, 1, false, s.y);
      if (turn == 0) memcpy(first, s.y + 74 * s.ldy, sizeof first);
      if (memcmp(first, s.y + 74 * s.ldy, sizeof first) != 0)
        fail_msg("%s: type %d: turn %d differs", name, (int)types[t], turn);
    }
    sequence_deinit(&s);
  }
}

static void garbage_beyond_the_valid_length_gives_the_same_20_times(void **state) {
  (void)state;
  each_level(garbage);
}

/* A later token's broken values are not seen by earlier queries of the same chunk. */
static void broken_future(const wf_attention_variant *level, const char *name) {
  const shape p = {
      .kv_heads = 1, .group = 3, .dim = 16, .dim_v = 16, .block = 64, .n = 50, .size = 2.0f};
  sequence s;
  sequence_init(&s, &p);
  for (int64_t d = 0; d < 16; d++) {
    s.k[30 * s.ldk + d] = NAN;
    s.v[30 * s.ldv + d] = d % 2 ? NAN : INFINITY;
  }
  step(&s, level, 0, 50, false, s.y);
  for (int64_t t = 0; t < 50; t++)
    for (int64_t d = 0; d < 48; d++)
      if (isfinite(s.y[t * s.ldy + d]) != (t < 30))
        fail_msg("%s: token %d [%d]", name, (int)t, (int)d);
  sequence_deinit(&s);
}

static void a_later_tokens_nan_does_not_reach_earlier_queries(void **state) {
  (void)state;
  each_level(broken_future);
}

/* Blocks before the window are gone, as a cache that drops them leaves it. */
static void dropped(const wf_attention_variant *level, const char *name) {
  const shape p = {.kv_heads = 1,
                   .group = 2,
                   .dim = 32,
                   .dim_v = 32,
                   .block = 16,
                   .n = 400,
                   .window = 50,
                   .size = 2.0f};
  sequence s;
  sequence_init(&s, &p);
  step(&s, level, 0, 390, false, s.y);
  step(&s, level, 390, 10, false, s.y);
  float kept[64 * 10];
  for (int64_t t = 0; t < 10; t++) memcpy(kept + t * 64, s.y + (390 + t) * s.ldy, 64 * 4);
  s.row.first_block = (390 - 49) / 16;
  s.row.blocks = s.table + s.row.first_block;
  memset(s.memory + (25 - (size_t)s.row.first_block) * s.block_bytes, 0xff,
         (size_t)s.row.first_block * s.block_bytes);
  step(&s, level, 390, 10, true, s.y);
  for (int64_t t = 0; t < 10; t++)
    if (memcmp(kept + t * 64, s.y + (390 + t) * s.ldy, 64 * 4) != 0)
      fail_msg("%s: token %d", name, (int)t);
  s.row.blocks = s.table;
  s.row.first_block = 0;
  sequence_deinit(&s);
}

static void blocks_before_the_window_are_never_read(void **state) {
  (void)state;
  each_level(dropped);
}

static void by_hand(const wf_attention_variant *level, const char *name) {
  (void)name;
  /* q = (1, 0); keys (0, 0) and (ln 3, 0): weights 1/4 and 3/4 of values (4, 8) and (0, 4). */
  WF_ALIGNED(64) float block[64] = {[1] = 1.09861229f, [32] = 4.0f, 8.0f, 0.0f, 4.0f};
  unsigned char *table[1] = {(unsigned char *)block};
  const wf_kv_layer layer = {
      .kv_heads = 1, .head_dim = 2, .head_dim_v = 2, .block_tokens = 16, .value_offset = 128};
  const wf_attention_row row = {.blocks = table, .past = 1, .n_new = 1};
  const float q[2] = {1.0f, 0.0f}, sink = 0.0f;
  float y[2];
  wf_attention_spec p = {.n_heads = 1, .scale = 1.0f};
  unsigned char *scratch = need(wf_attention_scratch_bytes(&p, &layer, 1));
  wf_attention_item_by(level, &p, &layer, &row, q, 2, y, 2, 0, scratch);
  assert_float_equal(y[0], 1.0f, 1e-6f);
  assert_float_equal(y[1], 5.0f, 1e-6f);
  p.sinks = &sink; /* one more weight of 1 in the sum: 1/5 and 3/5 */
  wf_attention_item_by(level, &p, &layer, &row, q, 2, y, 2, 0, scratch);
  assert_float_equal(y[0], 0.8f, 1e-6f);
  assert_float_equal(y[1], 4.0f, 1e-6f);
  p.sinks = NULL;
  p.window = 1; /* only itself */
  wf_attention_item_by(level, &p, &layer, &row, q, 2, y, 2, 0, scratch);
  assert_float_equal(y[0], 0.0f, 0.0f);
  assert_float_equal(y[1], 4.0f, 0.0f);
  p.window = 0;
  p.scale = 1000.0f;
  p.softcap = 1.09861229f; /* tanh of a large number is 1: the score is ln 3 again */
  wf_attention_item_by(level, &p, &layer, &row, q, 2, y, 2, 0, scratch);
  assert_float_equal(y[0], 1.0f, 1e-6f);
  assert_float_equal(y[1], 5.0f, 1e-6f);
  wf_free(scratch);
}

static void two_keys_worked_by_hand(void **state) {
  (void)state;
  each_level(by_hand);
}

static void ropes(const wf_attention_variant *level, const char *name) {
  /* Angle 90 degrees turns (a, b) into (-b, a); 0 leaves it. Row 1 of the tables is 90 degrees. */
  float cos_table[2 * 24], sin_table[2 * 24], x[3 * 70], was[3 * 70];
  for (int32_t dim = 2; dim <= 48; dim += 2)
    for (int kind = WF_ROPE_HALF; kind <= WF_ROPE_INTERLEAVED; kind++) {
      const int32_t half = dim / 2, head_dim = dim + (dim % 3 == 0 ? 3 : 0);
      for (int32_t i = 0; i < half; i++) {
        cos_table[i] = 1.0f, sin_table[i] = 0.0f;
        cos_table[half + i] = 0.0f, sin_table[half + i] = 1.0f;
      }
      const wf_rope rope = {
          .kind = (wf_rope_kind)kind, .dim = dim, .cos = cos_table, .sin = sin_table};
      const int64_t positions[2] = {1, 0};
      for (int i = 0; i < 210; i++) x[i] = was[i] = uniform();
      level->rope(&rope, x, 105, 2, 1, head_dim, positions);
      for (int32_t i = 0; i < 105; i++) {
        float want = was[i];
        if (i < dim && kind == WF_ROPE_HALF) want = i < half ? -was[i + half] : was[i - half];
        if (i < dim && kind == WF_ROPE_INTERLEAVED) want = i % 2 ? was[i - 1] : -was[i + 1];
        if (x[i] != want || x[105 + i] != was[105 + i])
          fail_msg("%s: kind %d dim %d at %d", name, kind, dim, i);
      }
    }
}

static void a_quarter_turn_swaps_the_halves(void **state) {
  (void)state;
  each_level(ropes);
}

static void appends(const wf_attention_variant *level, const char *name) {
  (void)name;
  enum { TOKENS = 24, FIRST = 3 }; /* a second block is entered on the way */
  float cos_table[TOKENS * 16], sin_table[TOKENS * 16];
  for (int i = 0; i < TOKENS * 16; i++) {
    cos_table[i] = cosf((float)i);
    sin_table[i] = sinf((float)i);
  }
  const wf_rope rope = {.kind = WF_ROPE_HALF, .dim = 32, .cos = cos_table, .sin = sin_table};
  {
    const shape p = {
        .kv_heads = 2, .group = 1, .dim = 40, .dim_v = 16, .block = 16, .n = TOKENS, .size = 1.0f};
    sequence s;
    sequence_init(&s, &p);
    float *k = need((size_t)(s.n * s.ldk) * 4);
    memcpy(k, s.k, (size_t)(s.n * s.ldk) * 4);
    int64_t positions[TOKENS];
    for (int64_t t = 0; t < TOKENS; t++) positions[t] = t;
    level->rope(&rope, k, s.ldk, TOKENS, 2, 40, positions);
    s.row.n_new = FIRST;
    wf_kv_append_by(level, &s.layer, &s.row, &rope, s.k, s.ldk, s.v, s.ldv, 0, FIRST);
    s.row.past = s.row.start = FIRST;
    s.row.n_new = TOKENS - FIRST;
    wf_kv_append_by(level, &s.layer, &s.row, &rope, s.k, s.ldk, s.v, s.ldv, 0, TOKENS - FIRST);
    keep(&s);
    for (int64_t t = 0; t < TOKENS; t++) {
      assert_memory_equal(s.kept_k + t * 80, k + t * s.ldk, 80 * 4);
      assert_memory_equal(s.k + t * s.ldk, k + t * s.ldk, 80 * 4);
      assert_memory_equal(s.kept_v + t * 32, s.v + t * s.ldv, 32 * 4);
    }
    wf_free(k);
    sequence_deinit(&s);
  }
}

static void appended_keys_are_rotated_like_any_others(void **state) {
  (void)state;
  each_level(appends);
}

static void stores(const wf_attention_variant *level, const char *name) {
  for (int64_t n = 1; n <= 67; n++) {
    float x[67], back[67], scale = 0.0f;
    unsigned char half[67 * 2 + 1], q8[68], q8_ref[68];
    float scale_ref = 0.0f;
    for (int64_t i = 0; i < n; i++) x[i] = 3.0f * uniform();
    half[2 * n] = 0xa5;
    level->store(WF_KV_F16, n, x, half, NULL);
    assert_int_equal(half[2 * n], 0xa5);
    for (int64_t i = 0; i < n; i++) {
      uint16_t h;
      memcpy(&h, half + 2 * i, sizeof h);
      assert_int_equal(h, wf_f16_bits(x[i]));
    }
    q8[n] = q8_ref[n] = 0xa5;
    level->store(WF_KV_Q8, n, x, q8, &scale);
    wf_attention_ref.store(WF_KV_Q8, n, x, q8_ref, &scale_ref);
    assert_memory_equal(&scale, &scale_ref, sizeof scale);
    assert_memory_equal(q8, q8_ref, (size_t)n + 1);
    float amax = 0.0f;
    for (int64_t i = 0; i < n; i++) amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
    for (int64_t i = 0; i < n; i++) {
      back[i] = (float)(int8_t)q8[i] * scale;
      if (!(fabsf(back[i] - x[i]) <= amax / 127.0f * 0.5001f)) fail_msg("%s: %d", name, (int)i);
    }
    /* all zero, tiny, and broken input give numbers, not traps */
    for (int64_t i = 0; i < n; i++) x[i] = i % 2 ? NAN : 1e-40f;
    level->store(WF_KV_Q8, n, x, q8, &scale);
    wf_attention_ref.store(WF_KV_Q8, n, x, q8_ref, &scale_ref);
    assert_memory_equal(q8, q8_ref, (size_t)n + 1);
    assert_true(scale >= 0.0f && scale < 1e-30f);
  }
}

static void stored_elements_are_rounded_as_the_type_says(void **state) {
  (void)state;
  each_level(stores);
}

static void head_norms(const wf_attention_variant *level, const char *name) {
  float x[2 * 150], was[2 * 150], weight[47];
  for (int32_t dim = 1; dim <= 47; dim++) {
    for (int i = 0; i < 300; i++) x[i] = was[i] = uniform();
    for (int i = 0; i < dim; i++) weight[i] = 1.0f + uniform();
    level->head_rms_norm(x, 150, 2, 3, dim, weight, 1e-6f);
    for (int t = 0; t < 2; t++)
      for (int h = 0; h < 3; h++) {
        double sum = 0.0;
        const int at = t * 150 + h * dim;
        for (int i = 0; i < dim; i++) sum += (double)was[at + i] * (double)was[at + i];
        for (int i = 0; i < dim; i++) {
          const double want = (double)was[at + i] / sqrt(sum / dim + 1e-6) * (double)weight[i];
          if (!(fabs((double)x[at + i] - want) <= 1e-6 * fabs(want)))
            fail_msg("%s: dim %d [%d]", name, dim, i);
        }
      }
    for (int i = 3 * dim; i < 150; i++) assert_memory_equal(&x[i], &was[i], 4);
  }
}

static void each_head_is_normed_on_its_own(void **state) {
  (void)state;
  each_level(head_norms);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_keys_worked_by_hand),
      cmocka_unit_test(every_shape_and_cache_type_agrees_with_the_formula),
      cmocka_unit_test(every_length_and_window_agrees_with_the_formula),
      cmocka_unit_test(scores_in_the_thousands_do_not_overflow),
      cmocka_unit_test(a_query_has_the_same_bits_alone_in_any_chunk_and_with_split_keys),
      cmocka_unit_test(garbage_beyond_the_valid_length_gives_the_same_20_times),
      cmocka_unit_test(a_later_tokens_nan_does_not_reach_earlier_queries),
      cmocka_unit_test(blocks_before_the_window_are_never_read),
      cmocka_unit_test(a_quarter_turn_swaps_the_halves),
      cmocka_unit_test(appended_keys_are_rotated_like_any_others),
      cmocka_unit_test(stored_elements_are_rounded_as_the_type_says),
      cmocka_unit_test(each_head_is_normed_on_its_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
