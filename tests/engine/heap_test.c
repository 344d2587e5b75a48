/* SPDX-License-Identifier: Apache-2.0 */
/* Steady decoding allocates nothing: malloc and its kin are counted by standing in for them in this
 * program, which libc and every library of it see, and so is mmap. Under a sanitizer these belong
 * to the sanitizer: the tests say so and count nothing. */
#include "support/test.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "chain.h"
#include "weft/weft.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define COUNTS_HEAP 0
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define COUNTS_HEAP 0
#endif
#ifndef COUNTS_HEAP
#define COUNTS_HEAP 1
#endif

static atomic_long n_calls;

#if COUNTS_HEAP
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t m);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t a, size_t n);
#pragma GCC visibility push(default) /* the program hides its names; libc shall see these */
void *malloc(size_t n) {
  n_calls++;
  return __libc_malloc(n);
}
void *calloc(size_t n, size_t m) {
  n_calls++;
  return __libc_calloc(n, m);
}
void *realloc(void *p, size_t n) {
  n_calls++;
  return __libc_realloc(p, n);
}
void *aligned_alloc(size_t a, size_t n) {
  n_calls++;
  return __libc_memalign(a, n);
}
int posix_memalign(void **p, size_t a, size_t n) {
  n_calls++;
  *p = __libc_memalign(a, n);
  return *p ? 0 : 12;
}
void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset) {
  n_calls++;
  return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}
#pragma GCC visibility pop
#endif

enum { PROMPT = 9, WARM_UP = 4, STEPS = 80 };

static long calls_of_steps(const char *kind, const weft_generation_options *options) {
  weft_error err = {0};
  chain c;
  weft_model *m = NULL;
  weft_generation *g = NULL;
  weft_model_options o;
  weft_token token = {.struct_size = sizeof token};
  int32_t prompt[PROMPT];
  for (int i = 0; i < PROMPT; i++) prompt[i] = (i * 37 + 5) % 62;
  weft_model_options_init(&o, sizeof o);
  o.n_threads = 2;
  o.use_cache = 0;
  chain_init(&c);
  chain_write_golden(&c, kind);
  assert_ok(weft_model_open(&m, c.dir, &o, &err), &err);
  assert_ok(weft_generation_create(&g, m, options, &err), &err);
  assert_ok(weft_generation_append(g, prompt, PROMPT, &err), &err);
  for (int i = 0; i < WARM_UP; i++) assert_ok(weft_generation_step(g, &token, &err), &err);
  const long before = n_calls;
  for (int i = 0; i < STEPS; i++) assert_ok(weft_generation_step(g, &token, &err), &err);
  const long calls = n_calls - before;
  weft_generation_close(g);
  weft_model_close(m);
  chain_remove(&c);
  return calls;
}

static weft_generation_options plain(void) {
  weft_generation_options o;
  weft_generation_options_init(&o, sizeof o);
  o.ignore_eos = 1;
  return o;
}

static void check(const weft_generation_options *o) {
  if (!COUNTS_HEAP) {
    print_message("NOT RUN: a sanitizer owns malloc in this build\n");
    return;
  }
  assert_int_equal(calls_of_steps("q4", o), 0);
  assert_int_equal(calls_of_steps("f32", o), 0);
}

static void the_count_sees_an_allocation(void **state) {
  (void)state;
  if (!COUNTS_HEAP) return;
  const long before = n_calls;
  wf_free(wf_alloc(100));
  assert_true(n_calls > before);
}

static void a_warm_greedy_step_allocates_nothing(void **state) {
  (void)state;
  weft_generation_options o = plain();
  o.greedy = 1;
  check(&o);
}

static void a_warm_sampling_step_with_all_options_allocates_nothing(void **state) {
  (void)state;
  static const char *const stops[] = {"no such text in it", "zzzz"};
  static const weft_bias bias = {7, 0.5F};
  weft_generation_options o = plain();
  o.temperature = 0.9F;
  o.top_k = 30;
  o.top_p = 0.95F;
  o.min_p = 0.01F;
  o.typical_p = 0.98F;
  o.repetition_penalty = 1.1F;
  o.presence_penalty = 0.1F;
  o.frequency_penalty = 0.1F;
  o.has_seed = 1;
  o.seed = 5;
  o.biases = &bias;
  o.n_biases = 1;
  o.stops = stops;
  o.n_stops = 2;
  o.n_logprobs = 5;
  check(&o);
}

static void a_warm_step_that_guesses_allocates_nothing(void **state) {
  (void)state;
  weft_generation_options o = plain();
  o.greedy = 1;
  o.n_lookup = 8;
  check(&o);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_count_sees_an_allocation),
      cmocka_unit_test(a_warm_greedy_step_allocates_nothing),
      cmocka_unit_test(a_warm_sampling_step_with_all_options_allocates_nothing),
      cmocka_unit_test(a_warm_step_that_guesses_allocates_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
