/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "decode/decode.h"

/* Feeds text in pieces of n bytes; returns what was delivered, terminated. */
static char *deliver(const char *const *stops, size_t n_stops, const char *text, size_t piece,
                     bool *stopped) {
  weft_error err = {0};
  wf_stops *s = NULL;
  wf_buf out = {0};
  const size_t n = strlen(text);
  *stopped = false;
  assert_ok(wf_stops_create(&s, stops, n_stops, &err), &err);
  for (size_t at = 0; at < n && !*stopped; at += piece) {
    assert_ok(
        wf_stops_feed(s, (wf_str){text + at, n - at < piece ? n - at : piece}, &out, stopped, &err),
        &err);
  }
  if (!*stopped) assert_ok(wf_stops_finish(s, &out, &err), &err);
  wf_stops_destroy(s);
  return wf_buf_take(&out);
}

static void a_stop_text_over_several_pieces_is_cut_off(void **state) {
  (void)state;
  static const char *const stops[] = {"three fo"}, *const miss[] = {"three x"};
  bool stopped;
  for (size_t piece = 1; piece < 30; piece++) {
    char *text = deliver(stops, 1, "one two three four five", piece, &stopped);
    assert_string_equal(text, "one two ");
    assert_true(stopped);
    wf_free(text);
    text = deliver(miss, 1, "one two three four five", piece, &stopped);
    assert_string_equal(text, "one two three four five");
    assert_false(stopped);
    wf_free(text);
  }
}

static void text_is_held_only_while_it_can_still_match(void **state) {
  (void)state;
  static const char *const stops[] = {"abac"};
  weft_error err = {0};
  wf_stops *s = NULL;
  wf_buf out = {0};
  bool stopped;
  assert_ok(wf_stops_create(&s, stops, 1, &err), &err);
  assert_ok(wf_stops_feed(s, WF_STR("xab"), &out, &stopped, &err), &err);
  assert_string_equal(wf_buf_cstr(&out), "x");
  assert_ok(wf_stops_feed(s, WF_STR("ab"), &out, &stopped, &err),
            &err); /* abab: the first ab is free */
  assert_string_equal(wf_buf_cstr(&out), "xab");
  assert_ok(wf_stops_feed(s, WF_STR("z"), &out, &stopped, &err), &err);
  assert_string_equal(wf_buf_cstr(&out), "xababz");
  wf_stops_destroy(s);
  wf_buf_deinit(&out);
}

static void an_empty_stop_text_is_refused(void **state) {
  (void)state;
  static const char *const stops[] = {"a", ""};
  weft_error err = {0};
  wf_stops *s = NULL;
  assert_refused(wf_stops_create(&s, stops, 2, &err), WEFT_INVALID_ARGUMENT, &err);
}

/* Against the plain definition: the match that ends first, of those the longest. */
static void random_texts_are_cut_where_a_plain_search_cuts_them(void **state) {
  (void)state;
  srand(11);
  for (int round = 0; round < 3000; round++) {
    char text[40], store[3][6];
    const char *stops[3];
    const size_t n = (size_t)(rand() % 39), n_stops = (size_t)(rand() % 4);
    for (size_t i = 0; i < n; i++) text[i] = (char)('a' + rand() % 2);
    text[n] = '\0';
    for (size_t k = 0; k < n_stops; k++) {
      const size_t len = (size_t)(1 + rand() % 5);
      for (size_t i = 0; i < len; i++) store[k][i] = (char)('a' + rand() % 2);
      store[k][len] = '\0';
      stops[k] = store[k];
    }
    size_t cut = n, best_end = SIZE_MAX;
    for (size_t k = 0; k < n_stops; k++) {
      const char *hit = strstr(text, stops[k]);
      if (!hit) continue;
      const size_t at = (size_t)(hit - text), end = at + strlen(stops[k]);
      if (end < best_end || (end == best_end && at < cut)) {
        best_end = end;
        cut = at;
      }
    }
    bool stopped;
    char *got = deliver(stops, n_stops, text, (size_t)(1 + rand() % 5), &stopped);
    assert_int_equal(stopped, best_end != SIZE_MAX);
    assert_int_equal(strlen(got), cut);
    assert_memory_equal(got, text, cut);
    wf_free(got);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_stop_text_over_several_pieces_is_cut_off),
      cmocka_unit_test(text_is_held_only_while_it_can_still_match),
      cmocka_unit_test(an_empty_stop_text_is_refused),
      cmocka_unit_test(random_texts_are_cut_where_a_plain_search_cuts_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
