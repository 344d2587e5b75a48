/* SPDX-License-Identifier: Apache-2.0 */
/* What every test program includes first: cmocka with the headers it wants before it. */
#ifndef WF_TEST_H
#define WF_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"

/* WEFT_TEST_FILTER='*a_row*' runs the tests whose names match (`*` and `?`), and no other. */
static inline void test_filter_take(void) {
  const char *filter = getenv("WEFT_TEST_FILTER");
  if (filter) cmocka_set_test_filter(filter);
}
#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, setup, teardown) \
  (test_filter_take(),                                 \
   _cmocka_run_group_tests(#tests, tests, sizeof(tests) / sizeof *(tests), setup, teardown))

/* Fails the test with the error's own sentence when `call` does not give WEFT_OK. */
#define assert_ok(call, err)                                                          \
  do {                                                                                \
    const weft_status assert_st_ = (call);                                            \
    if (assert_st_ != WEFT_OK) {                                                      \
      fail_msg("%s: %s (%s)", weft_status_name(assert_st_), (err)->what, (err)->fix); \
    }                                                                                 \
  } while (0)

/* Fails unless `call` gives exactly `status` and the error carries it with a sentence. */
#define assert_refused(call, expected, err)                                  \
  do {                                                                       \
    const weft_status assert_st_ = (call);                                   \
    if (assert_st_ != (expected)) {                                          \
      fail_msg("expected %s, got %s: %s", weft_status_name(expected),        \
               weft_status_name(assert_st_), assert_st_ ? (err)->what : ""); \
    }                                                                        \
    assert_int_equal((err)->status, (expected));                             \
    assert_true((err)->what[0] != '\0');                                     \
  } while (0)

#endif
