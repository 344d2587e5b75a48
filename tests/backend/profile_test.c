/* SPDX-License-Identifier: Apache-2.0 */
/* Spans against sums worked by hand. */
#include "support/test.h"

#include <string.h>

#include "backend/profile.h"

typedef struct told {
  wf_buf trace, table;
} told;

static told tell(const wf_profile *p) {
  told t = {{0}, {0}};
  wf_profile_trace(p, &t.trace);
  wf_profile_table(p, &t.table);
  return t;
}

static void forget(told *t) {
  wf_buf_deinit(&t->trace);
  wf_buf_deinit(&t->table);
}

/* By hand: a sanitizer's strstr measures the whole text at each call. */
static size_t occurrences(const char *text, const char *of) {
  size_t n = 0;
  const size_t length = strlen(of);
  for (; *text; text++) n += *text == *of && strncmp(text, of, length) == 0;
  return n;
}

static wf_profile *profile(void) {
  wf_profile *p = NULL;
  weft_error err = {0};
  assert_int_equal(wf_profile_create(&p, &err), WEFT_OK);
  return p;
}

static void the_table_has_shares_and_rates_of_its_spans(void **state) {
  wf_profile *p = profile();
  /* 3 us of 4: 75.0%; 6,000 bytes in 3,000 ns are 2 GB/s; 9,000 operations are 3 GFLOP/s */
  for (uint64_t i = 0; i < 3; i++) {
    wf_profile_add(p, &(wf_profile_span){.op = "MatMul",
                                         .name = WF_STR("m"),
                                         .shapes = "[1]",
                                         .begin_ns = 5000 + 2000 * i,
                                         .end_ns = 6000 + 2000 * i,
                                         .n_bytes = 2000,
                                         .n_flops = 3000});
  }
  wf_profile_add(p, &(wf_profile_span){.op = "Add",
                                       .name = WF_STR("a \"b\"\n"),
                                       .shapes = "[2]",
                                       .begin_ns = 11000,
                                       .end_ns = 12000,
                                       .thread = 1});
  told t = tell(p);
  const char *line = strstr(t.table.at, "MatMul");
  assert_non_null(line);
  assert_non_null(strstr(line, " 3       0.003   75.0%        2.0        3.0\n"));
  assert_non_null(strstr(t.table.at, " 1       0.001   25.0%        0.0        0.0\n"));
  assert_true(strstr(t.table.at, "MatMul") < strstr(t.table.at, "Add"));
  assert_non_null(strstr(t.trace.at, "\"tid\": 1, \"ts\": 0.000, \"dur\": 1.000"));
  assert_non_null(strstr(t.trace.at, "\"tid\": 2, \"ts\": 6.000, \"dur\": 1.000"));
  assert_non_null(strstr(t.trace.at, "\"node\": \"a \\\"b\\\"\\n\""));
  forget(&t);
  wf_profile_destroy(p);
  (void)state;
}

static void nothing_recorded_is_an_empty_trace(void **state) {
  wf_profile *p = profile();
  told t = tell(p);
  assert_non_null(strstr(t.trace.at, "\"traceEvents\": [\n]}"));
  assert_int_equal(occurrences(t.table.at, "\n"), 1);
  forget(&t);
  wf_profile_destroy(p);
  (void)state;
}

static void a_long_run_ends_the_trace_but_not_the_table(void **state) {
  enum { KEPT = 1 << 20, MORE = 7 };
  wf_profile *p = profile();
  for (uint64_t i = 0; i < KEPT + MORE; i++) {
    wf_profile_add(
        p, &(wf_profile_span){.op = "Add", .shapes = "", .begin_ns = 10 * i, .end_ns = 10 * i + 5});
  }
  told t = tell(p);
  assert_int_equal(occurrences(t.trace.at, "\"ph\""), KEPT);
  assert_non_null(strstr(t.table.at, " 1048583 "));
  assert_non_null(strstr(t.table.at, "7 spans are not in the trace"));
  forget(&t);
  wf_profile_destroy(p);
  (void)state;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_table_has_shares_and_rates_of_its_spans),
      cmocka_unit_test(nothing_recorded_is_an_empty_trace),
      cmocka_unit_test(a_long_run_ends_the_trace_but_not_the_table),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
