/* SPDX-License-Identifier: Apache-2.0 */
/* As much of cmocka's interface as the kernel tests use, for cross builds, where the library itself
 * is not at hand. A failed assertion ends its test; the program's exit code counts failed tests. */
#ifndef WF_CROSS_CMOCKA_H
#define WF_CROSS_CMOCKA_H

#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef void (*CMUnitTestFunction)(void **state);
typedef int (*CMFixtureFunction)(void **state);
struct CMUnitTest {
  const char *name;
  CMUnitTestFunction test_func;
  CMFixtureFunction setup_func, teardown_func;
  void *initial_state;
};

static jmp_buf cm_env_;
static int cm_skipped_;

#define cmocka_unit_test(f) \
  { #f, f, NULL, NULL, NULL }
#define cmocka_unit_test_setup_teardown(f, s, t) \
  { #f, f, s, t, NULL }

__attribute__((unused, noreturn)) static void cm_fail_(const char *file, int line) {
  fprintf(stderr, "%s:%d: error: Failure!\n", file, line);
  longjmp(cm_env_, 1);
}

#define print_message(...) printf(__VA_ARGS__)
#define print_error(...) fprintf(stderr, __VA_ARGS__)
#define fail() cm_fail_(__FILE__, __LINE__)
#define fail_msg(...)             \
  do {                            \
    fprintf(stderr, "ERROR: ");   \
    fprintf(stderr, __VA_ARGS__); \
    fprintf(stderr, "\n");        \
    fail();                       \
  } while (0)
#define skip()           \
  do {                   \
    cm_skipped_ = 1;     \
    longjmp(cm_env_, 2); \
  } while (0)
#define assert_true(c)                      \
  do {                                      \
    if (!(c)) {                             \
      fprintf(stderr, "%s is false\n", #c); \
      fail();                               \
    }                                       \
  } while (0)
#define assert_false(c) assert_true(!(c))
#define assert_non_null(p) assert_true((p) != NULL)
#define assert_null(p) assert_true((p) == NULL)
#define assert_ptr_equal(a, b) assert_true((const void *)(a) == (const void *)(b))
#define cm_compare_(a, op, b)                                                \
  do {                                                                       \
    const intmax_t cm_a_ = (intmax_t)(a), cm_b_ = (intmax_t)(b);             \
    if (!(cm_a_ op cm_b_)) {                                                 \
      fprintf(stderr, "%s %s %s: %jd and %jd\n", #a, #op, #b, cm_a_, cm_b_); \
      fail();                                                                \
    }                                                                        \
  } while (0)
#define assert_int_equal(a, b) cm_compare_(a, ==, b)
#define assert_int_not_equal(a, b) cm_compare_(a, !=, b)
#define assert_in_range(v, lo, hi) \
  assert_true((uintmax_t)(v) >= (uintmax_t)(lo) && (uintmax_t)(v) <= (uintmax_t)(hi))
#define assert_string_equal(a, b) assert_true(strcmp((a), (b)) == 0)
#define assert_memory_equal(a, b, n) assert_true(memcmp((a), (b), (n)) == 0)
#define assert_memory_not_equal(a, b, n) assert_true(memcmp((a), (b), (n)) != 0)
#define assert_float_equal(a, b, e) assert_true((a) - (b) <= (e) && (b) - (a) <= (e))

static const char *cm_filter_;
__attribute__((unused)) static void cmocka_set_test_filter(const char *filter) {
  cm_filter_ = filter;
}

/* cmocka's own name for what its macro calls. */
__attribute__((unused)) static int _cmocka_run_group_tests(const char *group,
                                                           const struct CMUnitTest *tests, size_t n,
                                                           CMFixtureFunction setup,
                                                           CMFixtureFunction teardown) {
  void *shared = NULL;
  volatile int failed = 0;
  printf("[==========] %s: Running %zu test(s).\n", group, n);
  if (setup && setup(&shared) != 0) return 1;
  for (volatile size_t i = 0; i < n; i++) {
    void *state = shared;
    if (cm_filter_ && fnmatch(cm_filter_, tests[i].name, 0) != 0) continue;
    printf("[ RUN      ] %s\n", tests[i].name);
    if (tests[i].setup_func && tests[i].setup_func(&state) != 0) {
      failed++;
      continue;
    }
    cm_skipped_ = 0;
    const int how = setjmp(cm_env_);
    if (how == 0) tests[i].test_func(&state);
    if (how == 1) failed++;
    printf("[  %s ] %s\n", how == 0 ? "     OK" : how == 1 ? " FAILED" : "SKIPPED", tests[i].name);
    fflush(stdout);
    if (tests[i].teardown_func) tests[i].teardown_func(&state);
  }
  if (teardown) teardown(&shared);
  printf("[==========] %s: %zu test(s) run, %d failed.\n", group, n, failed);
  return failed;
}
#define cmocka_run_group_tests(tests, setup, teardown) \
  _cmocka_run_group_tests(#tests, tests, sizeof tests / sizeof tests[0], setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown) \
  _cmocka_run_group_tests(name, tests, sizeof tests / sizeof tests[0], setup, teardown)

#endif
