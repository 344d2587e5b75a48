/* SPDX-License-Identifier: Apache-2.0 */
/* The hand-written scanners against PCRE2 on the expressions they stand for: an added empty group
 * makes the same expression one that the scanners do not know. */
#include "support/test.h"

#include <stdio.h>

#include "base/utf8.h"
#include "text/tokenizer_internal.h"

#define LLAMA3(numbers)                                                 \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers \
  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
static const char *const patterns[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
    LLAMA3("\\p{N}{1,3}"), LLAMA3("\\p{N}")};

static uint32_t random_char(uint64_t *s) {
  static const uint32_t often[] = {' ',    ' ',     '\n',  '\r',   '\t',   'a',  'Z',
                                   's',    'l',     'r',   'e',    '\'',   '\'', '1',
                                   '.',    0xe9,    0x17f, 0xb2,   0x301,  0xa0, 0x2028,
                                   0x4e2d, 0x1f600, 0x661, 0x2169, 0x3000, '_',  0x85};
  *s ^= *s << 13;
  *s ^= *s >> 7;
  *s ^= *s << 17;
  if (*s % 8) return often[*s / 8 % WF_ARRAY_LEN(often)];
  const uint32_t cp = (uint32_t)(*s / 8 % 0x2000) + 0x20;
  return cp;
}

static void scanners_split_as_their_expressions_do(void **state) {
  (void)state;
  weft_error err = {0};
  uint64_t seed = 7;
  for (size_t k = 0; k < WF_ARRAY_LEN(patterns); k++) {
    char slow_pattern[512];
    wf_regex *fast = NULL, *slow = NULL;
    wf_regex_scratch scratch = {0};
    wf_matches a = {0}, b = {0};
    (void)snprintf(slow_pattern, sizeof slow_pattern, "(?:)%s", patterns[k]);
    assert_ok(wf_regex_compile(&fast, wf_str_of(patterns[k]), "x", &err), &err);
    assert_ok(wf_regex_compile(&slow, wf_str_of(slow_pattern), "x", &err), &err);
    assert_true(fast->kind != WF_SCAN_PCRE2 && slow->kind == WF_SCAN_PCRE2);
    for (int round = 0; round < 20000; round++) {
      char text[128];
      size_t n = 0;
      for (int i = 0; i < 24; i++) n += wf_utf8_encode(random_char(&seed), text + n);
      assert_ok(wf_regex_find(fast, &scratch, text, n, &a, &err), &err);
      assert_ok(wf_regex_find(slow, &scratch, text, n, &b, &err), &err);
      const bool same = a.n == b.n;
      for (size_t i = 0; same && i < a.n; i++) {
        if (a.at[i].begin != b.at[i].begin || a.at[i].end != b.at[i].end) {
          fail_msg("pattern %zu: piece %zu is %u-%u, not %u-%u, of '%.*s'", k, i, a.at[i].begin,
                   a.at[i].end, b.at[i].begin, b.at[i].end, (int)n, text);
        }
      }
      if (!same) fail_msg("pattern %zu: %zu pieces, not %zu, of '%.*s'", k, a.n, b.n, (int)n, text);
    }
    wf_vec_free(&a);
    wf_vec_free(&b);
    wf_regex_scratch_deinit(&scratch);
    wf_regex_destroy(fast);
    wf_regex_destroy(slow);
  }
}

static void a_wrong_expression_is_told_in_full_and_no_further(void **state) {
  (void)state;
  /* Views without a terminator: the sentence must end with the pattern. */
  static const char bytes[] = "a[b|(?#c|\\p{L|[[a]&&]JUNK";
  static const size_t lengths[] = {3, 1};
  for (size_t from = 0; from < 20; from++) {
    for (size_t k = 0; k < WF_ARRAY_LEN(lengths); k++) {
      weft_error err = {0};
      wf_regex *r = NULL;
      if (wf_regex_compile(&r, (wf_str){bytes + from, lengths[k]}, "place", &err) == WEFT_OK) {
        wf_regex_destroy(r);
        continue;
      }
      assert_int_equal(err.status, WEFT_TOKENIZER);
      assert_non_null(strstr(err.what, "place: "));
      assert_null(strstr(err.what, "JUNK"));
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scanners_split_as_their_expressions_do),
      cmocka_unit_test(a_wrong_expression_is_told_in_full_and_no_further),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
