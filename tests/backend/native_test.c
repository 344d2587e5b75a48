/* SPDX-License-Identifier: Apache-2.0 */
/* The native backend on toy decoders (make_toys.py; logits by onnxruntime 1.31.1): right values,
 * and bits that depend on nothing but the row. */
#include "support/test.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "decoder.h"

#include "base/file.h"
#include "base/process.h"

enum { VOCAB = 64, N = 40, MAX_ROWS = 64 };

/* ---- counting the heap
 * ------------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS_HEAP 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define COUNTS_HEAP 0
#endif
#endif
#ifndef COUNTS_HEAP
#define COUNTS_HEAP 1
#endif

#if COUNTS_HEAP
static atomic_long n_heap_calls;
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t m);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t a, size_t n);
void *malloc(size_t n) {
  n_heap_calls++;
  return __libc_malloc(n);
}
void *calloc(size_t n, size_t m) {
  n_heap_calls++;
  return __libc_calloc(n, m);
}
void *realloc(void *p, size_t n) {
  n_heap_calls++;
  return __libc_realloc(p, n);
}
void *aligned_alloc(size_t a, size_t n) {
  n_heap_calls++;
  return __libc_memalign(a, n);
}
int posix_memalign(void **p, size_t a, size_t n) {
  n_heap_calls++;
  *p = __libc_memalign(a, n);
  return *p ? 0 : 12;
}
#endif

/* ---- helpers
 * --------------------------------------------------------------------------------------------- */

static const char *golden(const char *name) {
  static char path[1024];
  snprintf(path, sizeof path, "%s/tests/backend/golden/%s", WEFT_SOURCE_DIR, name);
  return path;
}

static int32_t id_at(int64_t i) { return (int32_t)((i * 37 + i * i * 11 + 5) % VOCAB); }

static decoder_options exact(void) {
  decoder_options o = {.exact = true, .kv = WF_KV_F32};
  weft_error err = {0};
  assert_ok(wf_cpu_level_get(&o.level, &err), &err);
  return o;
}

static void open_toy(decoder *d, const char *name, const decoder_options *o) {
  weft_error err = {0};
  assert_ok(decoder_open(d, golden(name), o, &err), &err);
  assert_int_equal(d->info->vocab, VOCAB);
}

typedef struct bench {
  wf_team *team;
  wf_backend_session *s;
} bench;

static bench open_bench(const decoder *d, int threads, int64_t max_tokens) {
  bench b = {0};
  weft_error err = {0};
  assert_ok(wf_team_create(&b.team, threads, &err), &err);
  assert_ok(
      wf_backend_session_open(&wf_backend_native, &b.s, d->component, b.team, max_tokens, &err),
      &err);
  return b;
}
static void close_bench(bench *b) {
  wf_backend_session_close(&wf_backend_native, b->s);
  wf_team_destroy(b->team);
}

/* All logits [n, VOCAB] of n ids that start at `first`, read in chunks. */
static void read_sequence(const decoder *d, bench *b, int64_t first, int64_t n, int64_t chunk,
                          float *logits) {
  sequence seq;
  int32_t ids[512], all[512];
  weft_error err = {0};
  for (int32_t i = 0; i < 512; i++) {
    ids[i] = id_at(first + i);
    all[i] = i;
  }
  assert_true(sequence_init(&seq, d->info, n));
  for (int64_t at = 0; at < n; at += chunk) {
    const int64_t m = n - at < chunk ? n - at : chunk;
    const wf_row r = sequence_row(&seq, ids + at, m, all, m, logits + at * VOCAB);
    assert_ok(wf_backend_session_run(&wf_backend_native, b->s, &r, 1, &err), &err);
    seq.length += m;
  }
  sequence_deinit(&seq);
}

static void assert_same_bits(const float *a, const float *b, int64_t n, const char *what) {
  for (int64_t i = 0; i < n; i++) {
    if (memcmp(&a[i], &b[i], sizeof *a) != 0) {
      fail_msg("%s: element %lld is %a, not %a", what, (long long)i, (double)a[i], (double)b[i]);
    }
  }
}

static void assert_near_golden(const char *name, const float *logits, double tolerance) {
  char path[1100];
  char *bytes = NULL;
  size_t n = 0;
  weft_error err = {0};
  snprintf(path, sizeof path, "%s/logits.f32", golden(name));
  assert_ok(wf_file_read(path, 1 << 20, &bytes, &n, &err), &err);
  assert_int_equal(n, N * VOCAB * sizeof(float));
  float *expected = wf_alloc(n);
  assert_non_null(expected);
  memcpy(expected, bytes, n);
  double low = 0, high = 0, worst = 0;
  for (size_t i = 0; i < N * VOCAB; i++) {
    const double e = (double)expected[i], diff = fabs(e - (double)logits[i]);
    if (e < low) low = e;
    if (e > high) high = e;
    if (!(diff <= worst)) worst = diff;
  }
  if (!(worst <= tolerance * (high - low))) {
    fail_msg("%s: off by %g of a range of %g", name, worst, high - low);
  }
  wf_free(expected);
  wf_free(bytes);
}

/* ---- values
 * ------------------------------------------------------------------------------------------------
 */

static void logits_of_toys_are_those_of_onnxruntime(void **state) {
  (void)state;
  static const char *const names[] = {"q4", "f32", "row"};
  for (size_t i = 0; i < 3; i++) {
    float logits[N * VOCAB];
    decoder d;
    const decoder_options o = exact();
    open_toy(&d, names[i], &o);
    bench b = open_bench(&d, 1, 512);
    read_sequence(&d, &b, 0, N, N, logits);
    assert_near_golden(names[i], logits, 1e-5);
    close_bench(&b);
    decoder_close(&d);
  }
}

static void half_and_byte_caches_stay_near(void **state) {
  (void)state;
  static const wf_kv_type types[] = {WF_KV_F16, WF_KV_Q8};
  for (size_t i = 0; i < 2; i++) {
    float logits[N * VOCAB];
    decoder d;
    decoder_options o = exact();
    o.kv = types[i];
    open_toy(&d, "q4", &o);
    bench b = open_bench(&d, 2, 512);
    read_sequence(&d, &b, 0, N, 7, logits);
    assert_near_golden("q4", logits, i == 0 ? 2e-3 : 3e-2);
    close_bench(&b);
    decoder_close(&d);
  }
}

static void a_decoder_of_the_builders_form_is_packed_and_grouped_by_window(void **state) {
  (void)state;
  decoder d;
  const decoder_options o = exact();
  open_toy(&d, "q4", &o);
  assert_true(d.info->is_packed);
  assert_string_equal(d.info->why_not_packed, "");
  assert_int_equal(d.info->n_layers, 2);
  assert_int_equal(d.info->n_groups, 2);
  assert_int_equal(d.info->groups[d.info->layers[0].group].window, 0);
  assert_int_equal(d.info->groups[d.info->layers[1].group].window, 7);
  assert_int_equal(d.info->max_positions, 512);
  for (size_t i = 0; i < 2; i++) assert_int_equal(d.info->layers[i].kv.value_offset % 64, 0);
  decoder_close(&d);
}

static void a_mean_over_the_sequence_is_named_as_what_stands_in_the_way(void **state) {
  (void)state;
  decoder d;
  const decoder_options o = exact();
  open_toy(&d, "row", &o);
  assert_false(d.info->is_packed);
  assert_false(d.info->may_chunk);
  assert_non_null(strstr(d.info->why_not_packed, "ReduceMean"));
  decoder_close(&d);
}

/* ---- bits
 * ----------------------------------------------------------------------------------------------------
 */

static void chunks_and_threads_do_not_change_a_bit(void **state) {
  (void)state;
  static const int64_t chunks[] = {1, 17, 512};
  for (int fast = 0; fast < 2; fast++) {
    enum { LONG = 150 };
    float *first = wf_calloc(LONG * VOCAB, sizeof *first),
          *other = wf_calloc(LONG * VOCAB, sizeof *other);
    decoder d;
    decoder_options o = exact();
    o.exact = !fast;
    o.kv = fast ? WF_KV_Q8 : WF_KV_F32;
    open_toy(&d, "q4", &o);
    for (int threads = 1; threads <= 3; threads++) {
      for (size_t i = 0; i < 3; i++) {
        bench b = open_bench(&d, threads, 512);
        float *to = threads == 1 && i == 0 ? first : other;
        read_sequence(&d, &b, 3, LONG, chunks[i], to);
        if (to == other) assert_same_bits(first, other, LONG * VOCAB, "another chunk or team");
        close_bench(&b);
      }
    }
    decoder_close(&d);
    wf_free(first);
    wf_free(other);
  }
}

/* Past one super-tile a single row's keys are split among the members, in the layer without a
 * window as in the one with it. */
static void splitting_keys_among_members_does_not_change_a_bit(void **state) {
  (void)state;
  enum { LONG = 400 };
  static const char *const names[] = {"q4", "f32"};
  float *first = wf_calloc(LONG * VOCAB, sizeof *first);
  float *other = wf_calloc(LONG * VOCAB, sizeof *other);
  for (int k = 0; k < 2; k++) {
    decoder d;
    decoder_options o = exact();
    o.kv = k ? WF_KV_F32 : WF_KV_F16;
    open_toy(&d, names[k], &o);
    bench whole = open_bench(&d, 1, 512);
    read_sequence(&d, &whole, 3, LONG, LONG, first);
    close_bench(&whole);
    for (int threads = 2; threads <= 3; threads++) {
      for (int64_t chunk = 1; chunk <= WF_ATTENTION_SPLIT_TOKENS; chunk += 7) {
        wf_run_counters before, after;
        bench b = open_bench(&d, threads, 512);
        read_sequence(&d, &b, 3, WF_ATTENTION_SUPER, chunk, other);
        wf_backend_native.counters(b.s, &before);
        read_sequence(&d, &b, 3, LONG, chunk, other);
        wf_backend_native.counters(b.s, &after);
        assert_same_bits(first, other, LONG * VOCAB, "split keys");
        /* one allocation for the whole bucket */
        assert_int_equal(after.allocations - before.allocations, 1);
        close_bench(&b);
      }
    }
    decoder_close(&d);
  }
  wf_free(first);
  wf_free(other);
}

/* m sequences, each with its own ids and its own length, all in the same runs. */
static void check_rows_together(const decoder *d, int m) {
  bench alone = open_bench(d, 1, 512), together = open_bench(d, 2, 512);
  sequence seq[MAX_ROWS];
  int32_t ids[MAX_ROWS][64], last[64];
  wf_row rows[MAX_ROWS];
  float *expected = wf_calloc(N * VOCAB, sizeof *expected);
  float *got = wf_calloc((size_t)m * VOCAB, sizeof *got);
  weft_error err = {0};
  for (int i = 0; i < 64; i++) last[i] = i;
  for (int i = 0; i < m; i++) assert_true(sequence_init(&seq[i], d->info, 64));
  for (int step = 0; step < 3; step++) {
    for (int i = 0; i < m; i++) {
      /* prompts of different lengths first, then one token each, except that some read two more */
      const int64_t n = step == 0 ? 1 + i % 9 : 1 + (i % 5 == 4);
      for (int64_t j = 0; j < n; j++) ids[i][j] = id_at(i * 7 + seq[i].length + j);
      float *to = got + (m - 1 - i) * VOCAB; /* backwards: not one block in memory */
      rows[i] = sequence_row(&seq[i], ids[i], n, &last[n - 1], 1, to);
    }
    assert_ok(wf_backend_session_run(&wf_backend_native, together.s, rows, (size_t)m, &err), &err);
    for (int i = 0; i < m; i++) seq[i].length += rows[i].n_new;
  }
  for (int i = 0; i < m; i++) {
    const int64_t n = seq[i].length;
    read_sequence(d, &alone, i * 7, n, n, expected);
    assert_same_bits(expected + (n - 1) * VOCAB, got + (m - 1 - i) * VOCAB, VOCAB,
                     "a row among others");
  }
  for (int i = 0; i < m; i++) sequence_deinit(&seq[i]);
  wf_free(expected);
  wf_free(got);
  close_bench(&alone);
  close_bench(&together);
}

static void rows_together_have_the_bits_of_rows_alone(void **state) {
  (void)state;
  static const int counts[] = {1, 2, 7, 64};
  static const char *const names[] = {"q4", "f32"};
  for (int k = 0; k < 2; k++) {
    decoder d;
    decoder_options o = exact();
    o.exact = k == 1;
    o.kv = WF_KV_F16;
    open_toy(&d, names[k], &o);
    for (size_t i = 0; i < 4; i++) check_rows_together(&d, counts[i]);
    decoder_close(&d);
  }
}

typedef struct worker {
  const decoder *d;
  float logits[N * VOCAB];
} worker;

static void *work(void *arg) {
  worker *w = arg;
  bench b = open_bench(w->d, 2, 64);
  for (int i = 0; i < 20; i++) read_sequence(w->d, &b, 0, N, 1 + i, w->logits);
  close_bench(&b);
  return NULL;
}

static void sessions_of_two_threads_share_a_component(void **state) {
  (void)state;
  static worker workers[2];
  pthread_t threads[2];
  decoder d;
  const decoder_options o = exact();
  open_toy(&d, "q4", &o);
  for (int i = 0; i < 2; i++) {
    workers[i].d = &d;
    assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
  }
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  assert_same_bits(workers[0].logits, workers[1].logits, N * VOCAB, "the other thread");
  assert_near_golden("q4", workers[0].logits, 1e-5);
  decoder_close(&d);
}

/* ---- memory
 * ----------------------------------------------------------------------------------------------------
 */

static void a_warm_step_takes_nothing_from_the_heap(void **state) {
  (void)state;
#if COUNTS_HEAP
  decoder d;
  const decoder_options o = exact();
  sequence seq;
  float logits[VOCAB];
  weft_error err = {0};
  open_toy(&d, "q4", &o);
  bench b = open_bench(&d, 2, 64);
  assert_true(sequence_init(&seq, d.info, 256));
  int32_t id = 5, zero = 0;
  for (int i = 0; i < 200; i++) {
    const wf_row r = sequence_row(&seq, &id, 1, &zero, 1, logits);
    const long before = n_heap_calls;
    assert_ok(wf_backend_session_run(&wf_backend_native, b.s, &r, 1, &err), &err);
    if (i > 0) assert_int_equal(n_heap_calls - before, 0);
    seq.length++;
    id = id_at(i);
  }
  wf_run_counters c = {0};
  wf_backend_native.counters(b.s, &c);
  assert_int_equal(c.allocations, 0);
  assert_int_equal(c.copies_bytes, 0);
  assert_int_equal(c.runs, 200);
  /* at most 8 barriers and 12 kernel calls a layer, and a few for embedding and head */
  assert_true(c.barriers / c.runs <= 2 * 10 + 6);
  sequence_deinit(&seq);
  close_bench(&b);
  decoder_close(&d);
#else
  puts("NOT RUN: a sanitizer owns malloc in this build");
#endif
}

static void packed_weights_are_kept_in_a_private_file_and_found_again(void **state) {
  (void)state;
  char dir[] = "/tmp/weft-pack-XXXXXX", path[2048];
  float first[N * VOCAB], second[N * VOCAB];
  assert_non_null(mkdtemp(dir));
  decoder_options o = exact();
  o.cache_dir = dir;
  weft_error err = {0};
  char **names = NULL;
  size_t n = 0;
  for (int round = 0; round < 3; round++) {
    decoder d;
    open_toy(&d, "f32", &o);
    bench b = open_bench(&d, 1, 64);
    read_sequence(&d, &b, 0, N, N, round == 0 ? first : second);
    if (round) assert_same_bits(first, second, N * VOCAB, "from the cache file");
    close_bench(&b);
    decoder_close(&d);
    snprintf(path, sizeof path, "%s/packed", dir);
    assert_ok(wf_path_list(path, &names, &n, &err), &err);
    assert_int_equal(n, 1);
    snprintf(path, sizeof path, "%s/packed/%s", dir, names[0]);
    wf_path_list_free(names, n);
    struct stat s;
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0600);
    if (round == 1) assert_int_equal(truncate(path, s.st_size / 2), 0); /* damaged: packed anew */
  }
  unlink(path);
  snprintf(path, sizeof path, "%s/packed", dir);
  rmdir(path);
  rmdir(dir);
}

static void a_cache_that_cannot_be_written_is_no_failure(void **state) {
  (void)state;
  float logits[N * VOCAB];
  decoder d;
  decoder_options o = exact();
  o.cache_dir = "/proc/nowhere";
  open_toy(&d, "f32", &o);
  bench b = open_bench(&d, 1, 64);
  read_sequence(&d, &b, 0, N, N, logits);
  assert_near_golden("f32", logits, 1e-5);
  close_bench(&b);
  decoder_close(&d);
}

/* ---- refusals
 * --------------------------------------------------------------------------------------------------
 */

static void ids_and_positions_out_of_range_are_refused(void **state) {
  (void)state;
  decoder d;
  const decoder_options o = exact();
  open_toy(&d, "q4", &o);
  bench b = open_bench(&d, 1, 64);
  sequence seq;
  float logits[VOCAB];
  weft_error err = {0};
  assert_true(sequence_init(&seq, d.info, 320));
  static const int32_t bad[] = {VOCAB, 99999999, -1, INT32_MIN};
  const int32_t zero = 0;
  for (size_t i = 0; i < 4; i++) {
    const wf_row r = sequence_row(&seq, &bad[i], 1, &zero, 1, logits);
    assert_refused(wf_backend_session_run(&wf_backend_native, b.s, &r, 1, &err),
                   WEFT_INVALID_ARGUMENT, &err);
  }
  seq.length = 512; /* the rotary tables end here */
  const wf_row r = sequence_row(&seq, &zero, 1, &zero, 1, logits);
  assert_refused(wf_backend_session_run(&wf_backend_native, b.s, &r, 1, &err), WEFT_CONTEXT_FULL,
                 &err);
  sequence_deinit(&seq);
  close_bench(&b);
  decoder_close(&d);
}

static void a_missing_operator_is_refused_by_name_domain_version_and_node(void **state) {
  (void)state;
  /* ir_version 8, opset "" 21, opset "other" 3 */
  static const unsigned char head[] = {0x08, 0x08, 0x42, 0x04, 0x0a, 0x00, 0x10, 0x15, 0x42, 0x09,
                                       0x0a, 0x05, 'o',  't',  'h',  'e',  'r',  0x10, 0x03};
  char dir[] = "/tmp/weft-odd-XXXXXX", path[1024];
  assert_non_null(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/model.onnx", dir);
  wf_buf node = {0}, graph = {0}, whole = {0};
  const char *const strings[] = {"\x0a\x01x", "\x12\x01y", "\x1a\x03odd", "\x22\x08Nonsense",
                                 "\x3a\x05other"};
  for (size_t i = 0; i < 5; i++) wf_buf_puts(&node, strings[i]);
  wf_buf_putc(&graph, 0x0a);
  wf_buf_putc(&graph, (char)node.n);
  wf_buf_add(&graph, node.at, node.n);
  wf_buf_puts(&graph, "\x12\x01g");
  /* input x and output y: float [1] */
  static const char type[] = {0x12, 0x0a, 0x0a, 0x08, 0x08, 0x01,
                              0x12, 0x04, 0x0a, 0x02, 0x08, 0x01};
  for (int i = 0; i < 2; i++) {
    wf_buf_putc(&graph, i == 0 ? 0x5a : 0x62);
    wf_buf_putc(&graph, (char)(3 + sizeof type));
    wf_buf_puts(&graph, i == 0 ? "\x0a\x01x" : "\x0a\x01y");
    wf_buf_add(&graph, type, sizeof type);
  }
  wf_buf_add(&whole, head, sizeof head);
  wf_buf_putc(&whole, 0x3a);
  wf_buf_putc(&whole, (char)graph.n);
  wf_buf_add(&whole, graph.at, graph.n);
  weft_error err = {0};
  assert_ok(wf_file_write(path, whole.at, whole.n, true, &err), &err);
  wf_component *c = NULL;
  const wf_compile_options o = {.root = dir, .model = "model.onnx", .level = WF_CPU_REF};
  assert_refused(wf_component_compile(&wf_backend_native, &c, &o, &err), WEFT_UNSUPPORTED, &err);
  static const char *const words[] = {"Nonsense", "other", "3", "odd"};
  for (size_t i = 0; i < 4; i++) {
    if (!strstr(err.what, words[i])) fail_msg("'%s' is not in: %s", words[i], err.what);
  }
  wf_buf_deinit(&node);
  wf_buf_deinit(&graph);
  wf_buf_deinit(&whole);
  unlink(path);
  rmdir(dir);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(logits_of_toys_are_those_of_onnxruntime),
      cmocka_unit_test(half_and_byte_caches_stay_near),
      cmocka_unit_test(a_decoder_of_the_builders_form_is_packed_and_grouped_by_window),
      cmocka_unit_test(a_mean_over_the_sequence_is_named_as_what_stands_in_the_way),
      cmocka_unit_test(chunks_and_threads_do_not_change_a_bit),
      cmocka_unit_test(splitting_keys_among_members_does_not_change_a_bit),
      cmocka_unit_test(rows_together_have_the_bits_of_rows_alone),
      cmocka_unit_test(sessions_of_two_threads_share_a_component),
      cmocka_unit_test(a_warm_step_takes_nothing_from_the_heap),
      cmocka_unit_test(packed_weights_are_kept_in_a_private_file_and_found_again),
      cmocka_unit_test(a_cache_that_cannot_be_written_is_no_failure),
      cmocka_unit_test(ids_and_positions_out_of_range_are_refused),
      cmocka_unit_test(a_missing_operator_is_refused_by_name_domain_version_and_node),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
