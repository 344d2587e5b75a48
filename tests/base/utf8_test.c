/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "base/str.h"
#include "base/utf8.h"

static void the_maximal_subpart_is_what_python_replaces(void **state) {
  (void)state;
  bool is_cut;
  assert_int_equal(wf_utf8_bad_length("\xe2\x82", 2, &is_cut), 2);
  assert_true(is_cut);
  assert_int_equal(wf_utf8_bad_length("\xe2\x82x", 3, &is_cut), 2);
  assert_false(is_cut);
  assert_int_equal(wf_utf8_bad_length("\xed\xa0\x80", 3, &is_cut), 1); /* a surrogate */
  assert_int_equal(wf_utf8_bad_length("\xc0\xaf", 2, &is_cut), 1);     /* overlong */
  assert_int_equal(wf_utf8_bad_length("\xf4\x90\x80\x80", 4, &is_cut), 1);
}

static void every_code_point_survives_a_round_trip(void **state) {
  (void)state;
  for (uint32_t cp = 0; cp <= 0x110000; cp++) {
    char text[4];
    const size_t n = wf_utf8_encode(cp, text);
    if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000)) {
      assert_int_equal(n, 0);
      continue;
    }
    uint32_t back;
    assert_int_equal(wf_utf8_decode(text, n, &back), n);
    assert_int_equal(back, cp);
    if (n > 1) assert_int_equal(wf_utf8_decode(text, n - 1, &back), 0);
  }
}

static void floats_are_written_as_python_writes_them(void **state) {
  (void)state;
  static const struct {
    double v;
    const char *text;
  } rows[] = {{1.0, "1.0"},
              {0.1, "0.1"},
              {1e-7, "1e-07"},
              {1e16, "1e+16"},
              {123456789012345.0, "123456789012345.0"},
              {0.0001, "0.0001"},
              {-2.5, "-2.5"},
              {1e22, "1e+22"},
              {1.5e300, "1.5e+300"},
              {5e-324, "5e-324"},
              {0.30000000000000004, "0.30000000000000004"},
              {100.0, "100.0"}};
  for (size_t i = 0; i < WF_ARRAY_LEN(rows); i++) {
    wf_buf b = {0};
    wf_buf_add_f64(&b, rows[i].v);
    assert_string_equal(wf_buf_cstr(&b), rows[i].text);
    double back;
    assert_true(wf_parse_f64((wf_str){b.at, b.n}, &back));
    assert_true(back == rows[i].v);
    wf_buf_deinit(&b);
  }
}

static void junk_is_no_number(void **state) {
  (void)state;
  static const char *const junk[] = {"",   "-",  "1x", "nan", "inf", "0x10",
                                     "1e", " 1", "1 ", ".",   "1,5"};
  for (size_t i = 0; i < WF_ARRAY_LEN(junk); i++) {
    double v;
    int64_t n;
    assert_false(wf_parse_f64(wf_str_of(junk[i]), &v));
    assert_false(wf_parse_i64(wf_str_of(junk[i]), &n));
  }
  int64_t n;
  assert_true(wf_parse_i64(WF_STR("-9223372036854775808"), &n) && n == INT64_MIN);
  assert_false(wf_parse_i64(WF_STR("9223372036854775808"), &n));
}

/* Seconds as Python's datetime counts them. */
static void times_are_counted_from_1970_and_no_calendar_s_days_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t seconds;
  } good[] = {{"1970-01-01", 0},
              {"2026-01-02T03:04:05", 1767323045},
              {"1969-12-31 23:59:59", -1},
              {"2000-02-29", 951782400},
              {"0001-01-01", -62135596800},
              {"9999-12-31T23:59", 253402300740}};
  static const char *const bad[] = {"",
                                    "yesterday",
                                    "2026-13-01",
                                    "2026-00-01",
                                    "2026-01-00",
                                    "2026-04-31",
                                    "2025-02-29",
                                    "1900-02-29",
                                    "2026-1-2",
                                    "2026-01-02T",
                                    "2026-01-02T24:00",
                                    "2026-01-02T03:04:60",
                                    "2026-01-02T03:04:05Z",
                                    "2026-01-02T03"};
  for (size_t i = 0; i < WF_ARRAY_LEN(good); i++) {
    int64_t seconds = 7;
    assert_true(wf_parse_time(wf_str_of(good[i].text), &seconds));
    assert_int_equal(seconds, good[i].seconds);
  }
  for (size_t i = 0; i < WF_ARRAY_LEN(bad); i++) {
    int64_t seconds;
    if (wf_parse_time(wf_str_of(bad[i]), &seconds)) fail_msg("'%s' was taken for a time", bad[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_maximal_subpart_is_what_python_replaces),
      cmocka_unit_test(every_code_point_survives_a_round_trip),
      cmocka_unit_test(floats_are_written_as_python_writes_them),
      cmocka_unit_test(junk_is_no_number),
      cmocka_unit_test(times_are_counted_from_1970_and_no_calendar_s_days_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
