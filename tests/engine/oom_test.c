/* SPDX-License-Identifier: Apache-2.0 */
/* A model is opened and asked for a few tokens again and again, while allocation 1, 2, 3 ... fails:
 * once alone, then with all that follow it. Each time the end is OUT_OF_MEMORY (or a success that
 * did without), nothing leaks, and the same model answers as ever afterwards.
 *
 * Allocations are counted by standing in for malloc and its kin in this program, which libc and
 * every library of it see, and for mmap of memory. Under a sanitizer those belong to the sanitizer,
 * so the tests say so and do nothing. */
#include "support/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "chain.h"
#include "weft/weft.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define IS_SANITIZED 1
#endif

/* ---- the stand-ins ------------------------------------------------------------------------- */

static atomic_bool is_armed;
static atomic_long n_calls, n_live, fail_at;
static atomic_bool fail_all_after;

#ifndef IS_SANITIZED
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

static bool must_fail(void) {
  if (!atomic_load(&is_armed)) return false;
  const long i = atomic_fetch_add(&n_calls, 1) + 1, at = atomic_load(&fail_at);
  if (at == 0 || i < at || (i > at && !atomic_load(&fail_all_after))) return false;
  errno = ENOMEM;
  return true;
}

static void *counted(void *p) {
  if (p) atomic_fetch_add(&n_live, 1);
  return p;
}

#pragma GCC visibility push(default) /* libc and the other libraries shall find them */
void *malloc(size_t n) { return must_fail() ? NULL : counted(__libc_malloc(n)); }
void *calloc(size_t n, size_t size) { return must_fail() ? NULL : counted(__libc_calloc(n, size)); }
void *realloc(void *p, size_t n) {
  if (must_fail()) return NULL;
  void *q = __libc_realloc(p, n);
  return p ? q : counted(q);
}
void *aligned_alloc(size_t align, size_t n) {
  return must_fail() ? NULL : counted(__libc_memalign(align, n));
}
void *memalign(size_t align, size_t n);
void *memalign(size_t align, size_t n) { return aligned_alloc(align, n); }
int posix_memalign(void **p, size_t align, size_t n) {
  void *q = aligned_alloc(align, n);
  if (!q) return ENOMEM;
  *p = q;
  return 0;
}
void free(void *p) {
  if (p) atomic_fetch_sub(&n_live, 1);
  __libc_free(p);
}
/* What weft itself maps: arenas and files. libc's own mappings do not come by here. */
void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
  if (must_fail()) return MAP_FAILED;
  const long got = syscall(SYS_mmap, at, n, protection, flags, fd, offset);
  if (got == -1) return MAP_FAILED;
  atomic_fetch_add(&n_live, 1);
  return (void *)got; /* the kernel's answer is an address */
}
int munmap(void *at, size_t n) {
  atomic_fetch_sub(&n_live, 1);
  return (int)syscall(SYS_munmap, at, n);
}
#pragma GCC visibility pop
#endif

/* ---- what is done with memory running out -------------------------------------------------- */

enum { VOCAB = 64, N_STEPS = 4 };
static chain folder;
static weft_model *model; /* for the tests of turns */

static weft_model_options options(void) {
  weft_model_options o;
  weft_model_options_init(&o, sizeof o);
  o.n_threads = 1; /* stacks of threads are kept by libc, which would look like a leak */
  o.use_cache = 0;
  return o;
}

static int make_folder(void **state) {
  (void)state;
  weft_error err = {0};
  wf_buf b = {0};
  char *bytes = NULL;
  size_t n = 0;
  chain_init(&folder);
  wf_buf_puts(&b, WEFT_SOURCE_DIR "/tests/backend/golden/q4/model.onnx");
  assert_ok(wf_file_read(wf_buf_cstr(&b), 1 << 24, &bytes, &n, &err), &err);
  wf_buf_clear(&b);
  wf_buf_add(&b, bytes, n);
  chain_file(&folder, "model.onnx", &b);
  wf_buf_clear(&b);
  wf_buf_puts(
      &b,
      "{\"max_position_embeddings\": 128, \"vocab_size\": 64, \"num_attention_heads\": 2, "
      "\"num_key_value_heads\": 1, \"hidden_size\": 32, \"head_dim\": 16, \"eos_token_id\": 63}");
  chain_file(&folder, "config.json", &b);
  chain_write_tokenizer(&folder);
  wf_buf_deinit(&b);
  wf_free(bytes);
  const weft_model_options o = options();
  assert_ok(weft_model_open(&model, folder.dir, &o, &err), &err);
  return 0;
}

static int remove_folder(void **state) {
  (void)state;
  weft_model_close(model);
  chain_remove(&folder);
  return 0;
}

static weft_status open_and_close(weft_error *err) {
  weft_model *m = NULL;
  const weft_model_options o = options();
  const weft_status st = weft_model_open(&m, folder.dir, &o, err);
  if (st != WEFT_OK && m) fail_msg("a model was given with an error");
  weft_model_close(m);
  return st;
}

/* A generation with logprobs, penalties and stops: prompt, steps, rewind, once more. */
static weft_status answer(weft_error *err) {
  static const char *const stops[] = {"never", "nowhere"};
  static const int32_t prompt[] = {1, 2, 3, 4, 5, 6, 7};
  static const weft_bias bias = {.id = 9, .bias = 1};
  weft_status st = WEFT_OK;
  weft_generation *g = NULL;
  weft_generation_options o;
  weft_token t = {.struct_size = sizeof t};
  weft_generation_options_init(&o, sizeof o);
  o.has_seed = 1;
  o.temperature = 1;
  o.top_k = 20;
  o.top_p = 0.9f;
  o.repetition_penalty = 1.1f;
  o.presence_penalty = 0.1f;
  o.ignore_eos = 1;
  o.n_logprobs = 3;
  o.biases = &bias;
  o.n_biases = 1;
  o.stops = stops;
  o.n_stops = 2;
  WF_TRY(weft_generation_create(&g, model, &o, err));
  WF_TRY(weft_generation_append(g, prompt, 7, err));
  for (int i = 0; i < N_STEPS; i++) WF_TRY(weft_generation_step(g, &t, err));
  WF_TRY(weft_generation_rewind(g, 5, err));
  for (int i = 0; i < N_STEPS; i++) WF_TRY(weft_generation_step(g, &t, err));
out:
  weft_generation_close(g);
  return st;
}

static weft_status template_and_text(weft_error *err) {
  static const char chat[] =
      "[{\"role\": \"user\", \"content\": \"hi <|end|> \\u00e9\"}, "
      "{\"role\": \"assistant\", \"content\": \"ho\"}]";
  weft_status st = WEFT_OK;
  int32_t *ids = NULL;
  char *text = NULL;
  size_t n = 0, n_text = 0;
  WF_TRY(weft_chat_ids(model, chat, strlen(chat), &ids, &n, err));
  WF_TRY(weft_detokenize(model, ids, n, 0, &text, &n_text, err));
out:
  weft_free(ids);
  weft_free(text);
  return st;
}

/* A graph by itself, run on its own inputs. */
static weft_status open_graph(weft_error *err) {
  weft_graph *g = NULL;
  weft_status st = WEFT_OK;
  const weft_model_options o = options();
  static const char path[] = WEFT_SOURCE_DIR "/tests/backend/golden/row/model.onnx";
  static const int64_t ids[3] = {1, 2, 3}, mask[3] = {1, 1, 1}, positions[3] = {0, 1, 2};
  static const int64_t dims[2] = {1, 3}, cache_dims[4] = {1, 1, 0, 16};
  static const float none[1];
  weft_tensor in[5], out[8];
  for (size_t i = 0; i < 8; i++) out[i] = (weft_tensor){.struct_size = sizeof out[i]};
  WF_TRY(weft_graph_open(&g, path, &o, err));
  for (size_t i = 0; i < 5; i++) {
    in[i] = (weft_tensor){.struct_size = sizeof in[i]};
    weft_graph_input(g, i, &in[i]);
    const bool is_cache = i > 2;
    in[i].rank = is_cache ? 4 : 2;
    in[i].dims = is_cache ? cache_dims : dims;
    in[i].data = is_cache ? (const void *)none : i == 0 ? ids : i == 1 ? mask : positions;
    in[i].n_bytes = is_cache ? 0 : sizeof ids;
  }
  WF_TRY(weft_graph_run(g, in, 5, out, err));
out:
  weft_graph_close(g);
  return st;
}

/* A model in protobuf's text form, with a subgraph and a function. */
static weft_status open_text(weft_error *err) {
  weft_graph *g = NULL;
  const weft_model_options o = options();
  static const char path[] = WEFT_SOURCE_DIR "/tests/onnx/nested.onnx.textproto";
  const weft_status st = weft_graph_open(&g, path, &o, err);
  weft_graph_close(g);
  return st;
}

/* ---- the loop -------------------------------------------------------------------------------- */

typedef weft_status work(weft_error *err);

static weft_status attempt(work *w, long at, bool all, weft_error *err, long *calls, long *leaked) {
  const long before = atomic_load(&n_live);
  atomic_store(&n_calls, 0);
  atomic_store(&fail_at, at);
  atomic_store(&fail_all_after, all);
  atomic_store(&is_armed, true);
  const weft_status st = w(err);
  atomic_store(&is_armed, false);
  *calls = atomic_load(&n_calls);
  *leaked = atomic_load(&n_live) - before;
  return st;
}

static void run_out_of_memory(work *w) {
#ifdef IS_SANITIZED
  (void)w;
  (void)attempt;
  print_message("NOT RUN: a sanitizer owns malloc in this build\n");
#else
  weft_error err = {0};
  long calls = 0, leaked = 0;
  /* twice, so that what libraries keep for good is there */
  for (int i = 0; i < 2; i++) assert_ok(attempt(w, 0, false, &err, &calls, &leaked), &err);
  assert_int_equal(leaked, 0);
  const long n = calls;
  for (int all = 0; all <= 1; all++) {
    for (long at = 1; at <= n; at += all && n > 500 ? 7 : 1) {
      err = (weft_error){0};
      const weft_status st = attempt(w, at, all, &err, &calls, &leaked);
      if (st != WEFT_OK && st != WEFT_OUT_OF_MEMORY) {
        fail_msg("allocation %ld of %ld (%d): %s: %s", at, n, all, weft_status_name(st), err.what);
      }
      if (st != WEFT_OK && err.what[0] == '\0') fail_msg("allocation %ld: no sentence", at);
      if (leaked) fail_msg("allocation %ld of %ld (%d): %ld blocks leak", at, n, all, leaked);
    }
  }
  assert_ok(attempt(w, 0, false, &err, &calls, &leaked), &err);
  print_message("%ld allocations failed one by one\n", n);
#endif
}

static void opening_a_model_without_memory_is_out_of_memory(void **state) {
  (void)state;
  run_out_of_memory(open_and_close);
}
static void answering_without_memory_is_out_of_memory(void **state) {
  (void)state;
  run_out_of_memory(answer);
}
static void a_chat_template_without_memory_is_out_of_memory(void **state) {
  (void)state;
  run_out_of_memory(template_and_text);
}
static void a_plain_graph_without_memory_is_out_of_memory(void **state) {
  (void)state;
  run_out_of_memory(open_graph);
}
static void a_text_model_without_memory_is_out_of_memory(void **state) {
  (void)state;
  run_out_of_memory(open_text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(opening_a_model_without_memory_is_out_of_memory),
      cmocka_unit_test(answering_without_memory_is_out_of_memory),
      cmocka_unit_test(a_chat_template_without_memory_is_out_of_memory),
      cmocka_unit_test(a_plain_graph_without_memory_is_out_of_memory),
      cmocka_unit_test(a_text_model_without_memory_is_out_of_memory),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
