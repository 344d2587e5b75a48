/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON reader against RFC 8259; every verdict here follows from its grammar. */
#include "support/test.h"

#include <stdio.h>

#include "base/json_reader.h"

/* Reads to the end; returns the status. */
static weft_status read_all(wf_str text, weft_error *err) {
  wf_json_reader r;
  wf_json_event e = {.kind = WF_JSON_NULL};
  weft_status st = WEFT_OK;
  wf_json_init(&r, text, "x.json");
  while (st == WEFT_OK && e.kind != WF_JSON_END) st = wf_json_next(&r, &e, err);
  wf_json_deinit(&r);
  return st;
}

static void well_formed_text_is_read(void **state) {
  (void)state;
  weft_error err = {0};
  static const char *const good[] = {
      "0",
      "-0",
      " [ ] ",
      "{}",
      "[1,-2.5e+10,3E-1]",
      "{\"a\":{\"b\":[null,true,false]}}",
      "\"\\u00e9\\ud83d\\ude00\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
      "\"\xc3\xa9\xf0\x9f\x98\x80\"",
      "\xef\xbb\xbf[]",
      "\"a long string of plain letters and \xc3\xa9 and more plain letters\""};
  for (size_t i = 0; i < WF_ARRAY_LEN(good); i++) {
    assert_ok(read_all(wf_str_of(good[i]), &err), &err);
  }
}

static void ill_formed_text_is_refused_with_its_place(void **state) {
  (void)state;
  static const char *const bad[] = {"",
                                    " ",
                                    "[",
                                    "{",
                                    "[1,]",
                                    "{\"a\":1,}",
                                    "{\"a\"}",
                                    "{a:1}",
                                    "{1:2}",
                                    "[1 2]",
                                    "01",
                                    "1.",
                                    ".5",
                                    "+1",
                                    "1e",
                                    "-",
                                    "nul",
                                    "truex",
                                    "\"",
                                    "\"\\x\"",
                                    "\"\\u12\"",
                                    "\"\\ud800\"",
                                    "\"\\ud800\\u0041\"",
                                    "\"\\udc00\"",
                                    "\"\t\"",
                                    "\"\xff\"",
                                    "\"\xed\xa0\x80\"",
                                    "1 2",
                                    "[]]",
                                    "[}",
                                    "{]",
                                    "//",
                                    "'a'",
                                    "\"\\",
                                    "\"abcdefgh\x01\"",
                                    "[1,,2]",
                                    "{,}",
                                    "NaN"};
  for (size_t i = 0; i < WF_ARRAY_LEN(bad); i++) {
    weft_error err = {0};
    if (read_all(wf_str_of(bad[i]), &err) != WEFT_PARSE) fail_msg("'%s' was accepted", bad[i]);
    assert_non_null(strstr(err.what, "x.json, line 1, column "));
  }
}

static void an_error_names_the_path_line_and_column(void **state) {
  (void)state;
  weft_error err = {0};
  assert_refused(read_all(WF_STR("{\"model\": {\n  \"merges\": [1, 2,\n  01]}}"), &err), WEFT_PARSE,
                 &err);
  assert_non_null(strstr(err.what, "line 3, column 3"));
  assert_non_null(strstr(err.what, "model.merges[2]"));
}

static void nesting_is_bounded(void **state) {
  (void)state;
  weft_error err = {0};
  char text[2 * WF_JSON_MAX_DEPTH + 2];
  for (size_t depth = WF_JSON_MAX_DEPTH; depth <= WF_JSON_MAX_DEPTH + 1; depth++) {
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    const weft_status st = read_all((wf_str){text, 2 * depth}, &err);
    assert_int_equal(st, depth == WF_JSON_MAX_DEPTH ? WEFT_OK : WEFT_LIMIT);
  }
}

static void every_truncation_ends_in_an_error(void **state) {
  (void)state;
  static const char text[] = "{\"a\":[1,{\"b\\u00e9\":\"c\\n\xc3\xa9\"},true,null],\"d\":-1.5e3}";
  weft_error err = {0};
  assert_ok(
      read_all(WF_STR("{\"a\":[1,{\"b\\u00e9\":\"c\\n\xc3\xa9\"},true,null],\"d\":-1.5e3}"), &err),
      &err);
  for (size_t n = 0; n < sizeof text - 1; n++) {
    assert_int_equal(read_all((wf_str){text, n}, &err), WEFT_PARSE);
  }
}

static void strings_come_out_decoded_and_a_bookmark_reads_again(void **state) {
  (void)state;
  weft_error err = {0};
  wf_json_reader r, again;
  wf_json_event e;
  wf_json_init(&r, WF_STR("{\"k\\u0041\":[\"\\ud83d\\ude00x\",\"plain\"]}"), "x");
  assert_ok(wf_json_next(&r, &e, &err), &err);
  assert_ok(wf_json_next(&r, &e, &err), &err);
  assert_true(e.kind == WF_JSON_KEY && !e.is_stable && wf_str_is(e.text, "kA"));
  assert_ok(wf_json_next(&r, &e, &err), &err);
  wf_json_bookmark(&r, &again);
  assert_ok(wf_json_skip(&r, &e, &err), &err);
  assert_ok(wf_json_next(&r, &e, &err), &err);
  assert_int_equal(e.kind, WF_JSON_OBJECT_END);
  assert_ok(wf_json_next(&again, &e, &err), &err);
  assert_true(wf_str_is(e.text, "\xf0\x9f\x98\x80x"));
  assert_ok(wf_json_next(&again, &e, &err), &err);
  assert_true(e.is_stable && wf_str_is(e.text, "plain"));
  wf_json_deinit(&r);
  wf_json_deinit(&again);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(well_formed_text_is_read),
      cmocka_unit_test(ill_formed_text_is_refused_with_its_place),
      cmocka_unit_test(an_error_names_the_path_line_and_column),
      cmocka_unit_test(nesting_is_bounded),
      cmocka_unit_test(every_truncation_ends_in_an_error),
      cmocka_unit_test(strings_come_out_decoded_and_a_bookmark_reads_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
