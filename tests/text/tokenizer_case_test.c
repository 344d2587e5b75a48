/* SPDX-License-Identifier: Apache-2.0 */
/* Cases from the field, control tokens in message content, refusals, streaming, time and threads.
 * Expected ids are worked out by hand from the small vocabularies here or come from the golden
 * files (whose judge is Hugging Face `tokenizers`). */
#include "support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

static wf_tokenizer *load_text(const char *json) {
  weft_error err = {0};
  wf_tokenizer *t = NULL;
  assert_ok(wf_tokenizer_load_json_text(&t, wf_str_of(json), "toy.json", &err), &err);
  return t;
}

static wf_tokenizer *load_golden(const char *name) {
  weft_error err = {0};
  wf_tokenizer *t = NULL;
  char path[512];
  (void)snprintf(path, sizeof path, "%s/tests/text/tokenizer_goldens/%s.json", WEFT_SOURCE_DIR,
                 name);
  assert_ok(wf_tokenizer_load_json(&t, path, NULL, &err), &err);
  return t;
}

static void expect_ids(const wf_encoding *e, const int32_t *ids, size_t n) {
  if (e->n_ids != n || (n && memcmp(e->ids, ids, n * sizeof *ids) != 0)) {
    for (size_t i = 0; i < n; i++) printf("%s%d", i ? " " : "expected ", (int)ids[i]);
    for (size_t i = 0; i < e->n_ids; i++) printf("%s%d", i ? " " : "\ngot      ", (int)e->ids[i]);
    printf("\n");
    fail();
  }
}

#define EXPECT_IDS(e, ...)                               \
  do {                                                   \
    const int32_t expected_[] = {__VA_ARGS__};           \
    expect_ids((e), expected_, WF_ARRAY_LEN(expected_)); \
  } while (0)

static wf_encoding encode(const wf_tokenizer *t, const char *text, bool content) {
  weft_error err = {0};
  wf_encoding e;
  const wf_encode_options o = {.content_mode = content};
  assert_ok(wf_tokenizer_encode(t, wf_str_of(text), &o, &e, &err), &err);
  return e;
}

/* Letters, a merged pair, an end token that the model's own vocabulary holds too. */
#define WORDS                                                                                     \
  "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":1,\"content\":\"</s>\",\"special\":true,"       \
  "\"normalized\":false},{\"id\":2,\"content\":\"<t>\",\"special\":false,\"normalized\":false}]," \
  "\"pre_tokenizer\":{\"type\":\"WhitespaceSplit\"},"
static const char words_json[] = WORDS
    "\"model\":{\"type\":\"WordLevel\",\"unk_token\":\"<unk>\",\"vocab\":{\"<unk>\":0,"
    "\"</s>\":1,\"<t>\":2,\"hi\":3,\"a</s>b\":4}}}";
static const char unigram_json[] = WORDS
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"</s>\",-1],"
    "[\"<t>\",-1],[\"<\",-2],[\"/\",-2],[\"s\",-2],[\">\",-2],[\"hi\",-2]]}}";
static const char merges_json[] = WORDS
    "\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,\"unk_token\":\"<unk>\",\"vocab\":"
    "{\"<unk>\":0,\"</s>\":1,\"<t>\":2,\"<\":3,\"/\":4,\"s\":5,\">\":6,\"</\":7,\"s>\":8,"
    "\"hi\":9},\"merges\":[\"< /\",\"s >\",\"</ s>\"]}}";

static void message_content_never_becomes_a_control_token(void **state) {
  (void)state;
  wf_tokenizer *t = load_text(words_json);
  wf_encoding e = encode(t, "hi </s> <t>", false);
  EXPECT_IDS(&e, 3, 1, 2);
  wf_encoding_deinit(&e);
  e = encode(t, "hi </s> <t>", true);
  EXPECT_IDS(&e, 3, 0, 2);
  wf_encoding_deinit(&e);
  wf_tokenizer_destroy(t);

  t = load_text(unigram_json);
  e = encode(t, "hi </s>", false);
  EXPECT_IDS(&e, 7, 1);
  wf_encoding_deinit(&e);
  e = encode(t, "hi </s>", true);
  EXPECT_IDS(&e, 7, 3, 4, 5, 6);
  wf_encoding_deinit(&e);
  wf_tokenizer_destroy(t);

  t = load_text(merges_json);
  e = encode(t, "</s>", false);
  EXPECT_IDS(&e, 1);
  wf_encoding_deinit(&e);
  e = encode(t, "</s>", true);
  EXPECT_IDS(&e, 7, 8);
  wf_encoding_deinit(&e);
  wf_tokenizer_destroy(t);
}

static void control_flags_of_a_call_decide_what_content_may_match(void **state) {
  (void)state;
  weft_error err = {0};
  wf_tokenizer *t = load_text(words_json);
  uint8_t flags[16] = {0};
  assert_int_equal(wf_tokenizer_vocab_size(t), 5);
  wf_tokenizer_control_fill(t, flags);
  assert_int_equal(flags[1], 1);
  assert_int_equal(flags[2], 0);
  wf_tokenizer_control_mark(t, WF_STR("{{ x }}<t>\n"), flags);
  assert_int_equal(flags[2], 1);
  const wf_encode_options o = {.content_mode = true, .control = flags};
  wf_encoding e;
  assert_ok(wf_tokenizer_encode(t, WF_STR("hi <t>"), &o, &e, &err), &err);
  EXPECT_IDS(&e, 3, 0);
  wf_encoding_deinit(&e);
  wf_tokenizer_destroy(t);
}

static void segments_match_control_tokens_outside_content_alone(void **state) {
  (void)state;
  weft_error err = {0};
  wf_tokenizer *t = load_text(words_json);
  wf_encoding e;
  const wf_encode_options o = {.add_special = false};
  const wf_segment s[] = {{WF_STR("</s> hi "), false},
                          {WF_STR("</s> hi"), true},
                          {WF_STR(" </s>"), false},
                          {WF_STR(" <"), true},
                          {WF_STR("/s>"), false}};
  assert_ok(wf_tokenizer_encode_segments(t, s, 5, &o, &e, &err), &err);
  /* The last token would be a control token half of which a user typed. */
  EXPECT_IDS(&e, 1, 3, 0, 3, 1, 0);
  wf_encoding_deinit(&e);
  wf_tokenizer_destroy(t);
}

static void segments_are_encoded_as_the_one_text_they_make(void **state) {
  (void)state;
  weft_error err = {0};
  static const char *const names[] = {
      "gpt2",  "llama3", "qwen2", "llama2", "gemma", "bert", "unigram_first_split",
      "o200k", "t5_like"};
  const char *text = "Hello  wor\xc3\xa9ld <|sec|>\n\n x it's 1234\n  the e\xcc\x81nd";
  for (size_t k = 0; k < WF_ARRAY_LEN(names); k++) {
    wf_tokenizer *t = load_golden(names[k]);
    wf_encoding whole = encode(t, text, false);
    const size_t n = strlen(text);
    for (size_t cut = 0; cut <= n; cut++) {
      if (cut < n && ((unsigned char)text[cut] & 0xc0) == 0x80) continue;
      const wf_segment s[] = {
          {{text, cut}, true}, {{text + cut, 0}, true}, {{text + cut, n - cut}, false}};
      wf_encoding e;
      assert_ok(wf_tokenizer_encode_segments(t, s, 3, NULL, &e, &err), &err);
      expect_ids(&e, whole.ids, whole.n_ids);
      wf_encoding_deinit(&e);
    }
    wf_encoding_deinit(&whole);
    wf_tokenizer_destroy(t);
  }
}

static void merges_as_pairs_and_as_strings_are_the_same(void **state) {
  (void)state;
  static const char vocab[] = "\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"ab\":3,\"abc\":4}";
  char json[512];
  int32_t ids[2][8];
  for (int k = 0; k < 2; k++) {
    (void)snprintf(json, sizeof json, "{\"model\":{\"type\":\"BPE\",%s,\"merges\":%s}}", vocab,
                   k ? "[[\"a\",\"b\"],[\"ab\",\"c\"]]" : "[\"a b\",\"ab c\"]");
    wf_tokenizer *t = load_text(json);
    wf_encoding e = encode(t, "abcabba", false);
    EXPECT_IDS(&e, 4, 3, 1, 0);
    memcpy(ids[k], e.ids, e.n_ids * sizeof *e.ids);
    wf_encoding_deinit(&e);
    wf_tokenizer_destroy(t);
  }
  assert_memory_equal(ids[0], ids[1], 4 * sizeof(int32_t));
  /* Members in any order: merges before the vocabulary, the type last. */
  (void)snprintf(json, sizeof json,
                 "{\"model\":{\"merges\":[\"a b\",\"ab c\"],%s,\"type\":\"BPE\"}}", vocab);
  wf_tokenizer *t = load_text(json);
  wf_encoding e = encode(t, "abcabba", false);
  EXPECT_IDS(&e, 4, 3, 1, 0);
  wf_encoding_deinit(&e);
  wf_tokenizer_destroy(t);
}

static void spaces_and_indentation_decode_back_exactly(void **state) {
  (void)state;
  static const char *const names[] = {"gpt2", "llama3", "qwen2", "llama2", "gemma", "smollm"};
  static const char *const texts[] = {"a  b",
                                      "    return",
                                      "\t\tx\n\n\n  y ",
                                      ("a   \n    b\n        "
                                       "c\n            d\n                e"),
                                      "x \t \r\n z",
                                      "  "};
  weft_error err = {0};
  for (size_t k = 0; k < WF_ARRAY_LEN(names); k++) {
    wf_tokenizer *t = load_golden(names[k]);
    for (size_t i = 0; i < WF_ARRAY_LEN(texts); i++) {
      wf_encoding e = encode(t, texts[i], false);
      wf_buf out = {0};
      assert_ok(wf_tokenizer_decode(t, e.ids, e.n_ids, false, &out, &err), &err);
      assert_string_equal(wf_buf_cstr(&out), texts[i]);
      wf_buf_deinit(&out);
      wf_encoding_deinit(&e);
    }
    wf_tokenizer_destroy(t);
  }
}

static void ids_outside_the_vocabulary_are_refused_by_value(void **state) {
  (void)state;
  weft_error err = {0};
  wf_tokenizer *t = load_golden("gpt2");
  const int32_t bad[] = {(int32_t)wf_tokenizer_vocab_size(t), 99999999, -60000, -1, INT32_MIN};
  for (size_t i = 0; i < WF_ARRAY_LEN(bad); i++) {
    wf_buf out = {0};
    char number[16];
    wf_detokenizer *d = NULL;
    (void)snprintf(number, sizeof number, "%d", (int)bad[i]);
    assert_refused(wf_tokenizer_decode(t, &bad[i], 1, false, &out, &err), WEFT_INVALID_ARGUMENT,
                   &err);
    assert_non_null(strstr(err.what, number));
    assert_refused(wf_tokenizer_token_bytes(t, bad[i], &out, &err), WEFT_INVALID_ARGUMENT, &err);
    assert_ok(wf_detokenizer_create(&d, t, false, &err), &err);
    assert_refused(wf_detokenizer_feed(d, bad[i], &out, &err), WEFT_INVALID_ARGUMENT, &err);
    wf_detokenizer_destroy(d);
    assert_false(wf_tokenizer_is_special(t, bad[i]));
    assert_null(wf_tokenizer_token_text(t, bad[i]).at);
    wf_buf_deinit(&out);
  }
  wf_tokenizer_destroy(t);
}

static void added_tokens_decode_to_their_literal_text(void **state) {
  (void)state;
  weft_error err = {0};
  wf_tokenizer *t = load_golden("gpt2");
  static const char *const texts[] = {"<|\xc3\xbc|>", "<|sec|>", "<s>"};
  for (size_t i = 0; i < WF_ARRAY_LEN(texts); i++) {
    const int32_t id = wf_tokenizer_id_of(t, wf_str_of(texts[i]));
    assert_true(id >= 0 && wf_tokenizer_is_added(t, id));
    wf_buf out = {0};
    assert_ok(wf_tokenizer_decode(t, &id, 1, false, &out, &err), &err);
    assert_string_equal(wf_buf_cstr(&out), texts[i]);
    wf_buf_clear(&out);
    assert_ok(wf_tokenizer_token_bytes(t, id, &out, &err), &err);
    assert_string_equal(wf_buf_cstr(&out), texts[i]);
    wf_buf_deinit(&out);
  }
  wf_tokenizer_destroy(t);
}

static void a_token_s_bytes_are_its_true_ones(void **state) {
  (void)state;
  weft_error err = {0};
  static const struct {
    const char *file, *token, *bytes;
  } rows[] = {{"gemma", "<0xE2>", "\xe2"},     {"llama2", "\xe2\x96\x81the", " the"},
              {"gpt2", "\xc4\xa0the", " the"}, {"gpt2", "\xc4\x8a", "\n"},
              {"bert", "the", " the"},         {"bert", "##e", "e"}};
  for (size_t i = 0; i < WF_ARRAY_LEN(rows); i++) {
    wf_tokenizer *t = load_golden(rows[i].file);
    wf_buf out = {0};
    const int32_t id = wf_tokenizer_id_of(t, wf_str_of(rows[i].token));
    assert_ok(wf_tokenizer_token_bytes(t, id, &out, &err), &err);
    assert_string_equal(wf_buf_cstr(&out), rows[i].bytes);
    wf_buf_deinit(&out);
    wf_tokenizer_destroy(t);
  }
}

/* Feeds bytes as byte tokens and returns what the stream gives. */
static void stream_bytes(const wf_tokenizer *t, const char *bytes, size_t n, wf_buf *out) {
  weft_error err = {0};
  wf_detokenizer *d = NULL;
  assert_ok(wf_detokenizer_create(&d, t, false, &err), &err);
  for (size_t i = 0; i < n; i++) {
    char name[8];
    (void)snprintf(name, sizeof name, "<0x%02X>", (unsigned)(unsigned char)bytes[i]);
    const size_t before = out->n;
    assert_ok(wf_detokenizer_feed(d, wf_tokenizer_id_of(t, wf_str_of(name)), out, &err), &err);
    assert_true(wf_utf8_is_valid(out->at ? out->at + before : "", out->n - before));
  }
  assert_ok(wf_detokenizer_finish(d, out, &err), &err);
  wf_detokenizer_destroy(d);
}

static void a_stream_never_cuts_a_character(void **state) {
  (void)state;
  wf_tokenizer *t = load_golden("gemma");
  static const struct {
    const char *in, *out;
  } rows[] = {{"a\xe2\x82\xac"
               "b",
               "a\xe2\x82\xac"
               "b"},
              {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
              {"a\xf0\x9f\x98", "a"}, /* cut off at the end: left out */
              {"\xe2\x82x", "\xef\xbf\xbdx"},
              {"\xff\xfe\xe2\x28", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd("},
              {"\xed\xa0\x80z", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz"}};
  for (size_t i = 0; i < WF_ARRAY_LEN(rows); i++) {
    wf_buf out = {0};
    stream_bytes(t, rows[i].in, strlen(rows[i].in), &out);
    assert_string_equal(wf_buf_cstr(&out), rows[i].out);
    wf_buf_deinit(&out);
  }
  wf_tokenizer_destroy(t);
}

static void text_that_is_not_utf8_is_refused_with_its_position(void **state) {
  (void)state;
  weft_error err = {0};
  wf_encoding e;
  wf_tokenizer *t = load_golden("gpt2");
  assert_refused(wf_tokenizer_encode(t, WF_STR("ab\xff"), NULL, &e, &err), WEFT_INVALID_ARGUMENT,
                 &err);
  assert_non_null(strstr(err.what, "position 2"));
  wf_tokenizer_destroy(t);
}

static void an_unknown_component_is_named_with_its_path(void **state) {
  (void)state;
#define TAIL ",\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0},\"unk_token\":\"a\"}}"
  static const struct {
    const char *json, *path, *name;
    weft_status status;
  } rows[] = {
      {"{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":"
       "\"Rot13\"}]}" TAIL,
       "normalizer.normalizers[1]", "Rot13", WEFT_UNSUPPORTED},
      {"{\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}" TAIL, "pre_tokenizer", "UnicodeScripts",
       WEFT_UNSUPPORTED},
      {"{\"decoder\":{\"type\":\"CTC\"}" TAIL, "decoder", "CTC", WEFT_UNSUPPORTED},
      {"{\"post_processor\":{\"type\":\"Sequence\",\"processors\":[{\"type\":\"Magic\"}]}" TAIL,
       "post_processor.processors[0]", "Magic", WEFT_UNSUPPORTED},
      {"{\"model\":{\"type\":\"Morse\",\"vocab\":{}}}", "model.type", "Morse", WEFT_UNSUPPORTED},
      {"{\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{},\"merges\":[]}}", "model.dropout",
       "random", WEFT_UNSUPPORTED},
      {"{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,"
       "\"pattern\":{\"Regex\":\"a(b\"}}" TAIL,
       "pre_tokenizer.pattern.Regex", "a(b", WEFT_TOKENIZER},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}", "model.merges[0]",
       "'b'", WEFT_PARSE},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":2000000000},\"merges\":[]}}", "model.vocab",
       "2000000000", WEFT_TOKENIZER},
      {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0}", "toy.json", "too early", WEFT_PARSE},
      {"{\"version\":\"1.0\"}", "toy.json", "the model is missing", WEFT_PARSE},
  };
  for (size_t i = 0; i < WF_ARRAY_LEN(rows); i++) {
    weft_error err = {0};
    wf_tokenizer *t = NULL;
    assert_refused(wf_tokenizer_load_json_text(&t, wf_str_of(rows[i].json), "toy.json", &err),
                   rows[i].status, &err);
    if (!strstr(err.what, rows[i].path) || !strstr(err.what, rows[i].name) || !err.fix[0]) {
      fail_msg("'%s' does not name %s and %s", err.what, rows[i].path, rows[i].name);
    }
  }
}

static void one_start_token_is_told_to_the_engine(void **state) {
  (void)state;
  wf_tokenizer *t = load_golden("llama3");
  assert_true(wf_tokenizer_adds_bos(t));
  wf_tokenizer_destroy(t);
  t = load_golden("gpt2");
  assert_false(wf_tokenizer_adds_bos(t));
  wf_tokenizer_destroy(t);
}

/* ---- Time ---- */

/* This thread's own time: other programs on the machine do not count. */
static uint64_t cpu_ns(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static double seconds(const wf_tokenizer *t, char letter, size_t n) {
  weft_error err = {0};
  char *text = malloc(n);
  assert_non_null(text);
  memset(text, letter, n);
  double best = 1e9;
  for (int i = 0; i < 3; i++) {
    wf_encoding e;
    const uint64_t from = cpu_ns();
    assert_ok(wf_tokenizer_encode(t, (wf_str){text, n}, NULL, &e, &err), &err);
    const double s = (double)(cpu_ns() - from) * 1e-9;
    if (s < best) best = s;
    wf_encoding_deinit(&e);
  }
  free(text);
  return best;
}

static void long_runs_take_time_in_proportion(void **state) {
  (void)state;
  static const char *const names[] = {
      "gpt2",     "llama3", "llama2", "gemma",      "unigram_first_whole",
      "deepseek", "o200k",  "bert",   "merge_pairs"};
  for (size_t k = 0; k < WF_ARRAY_LEN(names); k++) {
    wf_tokenizer *t = load_golden(names[k]);
    for (const char *c = "z_ \n1"; *c; c++) {
      const double quarter = seconds(t, *c, 100000), whole = seconds(t, *c, 400000);
      /* n log n gives 4.5 times, a square 16; the bound leaves room for a busy machine. */
      if (whole > 2.0 || (whole > 8 * quarter && whole > 0.1)) {
        fail_msg("%s: 100,000 times '%c' take %d us, 400,000 take %d us", names[k], *c,
                 (int)(quarter * 1e6), (int)(whole * 1e6));
      }
    }
    wf_tokenizer_destroy(t);
  }
}

static void a_hostile_expression_ends_in_an_error(void **state) {
  (void)state;
  weft_error err = {0};
  wf_tokenizer *t = load_text(
      "{\"pre_tokenizer\":{\"type\":\"Split\",\"behavior\":\"Isolated\",\"invert\":false,"
      "\"pattern\":{\"Regex\":\"(a|aa)+[xy]\"}}" TAIL);
  wf_encoding e;
  char text[4000];
  memset(text, 'a', sizeof text);
  assert_refused(wf_tokenizer_encode(t, (wf_str){text, sizeof text}, NULL, &e, &err), WEFT_LIMIT,
                 &err);
  wf_tokenizer_destroy(t);
}

/* ---- Threads ---- */

enum { N_THREADS = 8, N_TEXTS = 2000 };

typedef struct job {
  const wf_tokenizer *t;
  uint64_t digest;
} job;

static void *run_texts(void *arg) {
  job *j = arg;
  weft_error err = {0};
  uint64_t h = 1;
  for (int i = 0; i < N_TEXTS; i++) {
    char text[96];
    (void)snprintf(text, sizeof text, "text %d: caf\xc3\xa9 %x <|sec|>\n it's %d", i, i * 7919,
                   i * i);
    wf_encoding e;
    wf_buf out = {0};
    if (wf_tokenizer_encode(j->t, wf_str_of(text), NULL, &e, &err) != WEFT_OK) return NULL;
    if (wf_tokenizer_decode(j->t, e.ids, e.n_ids, false, &out, &err) != WEFT_OK) return NULL;
    for (size_t k = 0; k < e.n_ids; k++) h = h * 31 + (uint64_t)e.ids[k];
    for (size_t k = 0; k < out.n; k++) h = h * 31 + (unsigned char)out.at[k];
    wf_buf_deinit(&out);
    wf_encoding_deinit(&e);
  }
  j->digest = h;
  return NULL;
}

static void eight_threads_share_one_tokenizer(void **state) {
  (void)state;
  static const char *const names[] = {"o200k", "llama2", "unigram_first_split"};
  for (size_t k = 0; k < WF_ARRAY_LEN(names); k++) {
    wf_tokenizer *t = load_golden(names[k]);
    job alone = {t, 0}, jobs[N_THREADS];
    pthread_t threads[N_THREADS];
    (void)run_texts(&alone);
    assert_true(alone.digest != 0);
    for (int i = 0; i < N_THREADS; i++) {
      jobs[i] = (job){t, 0};
      assert_int_equal(pthread_create(&threads[i], NULL, run_texts, &jobs[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
      assert_int_equal(pthread_join(threads[i], NULL), 0);
      assert_true(jobs[i].digest == alone.digest);
    }
    wf_tokenizer_destroy(t);
  }
}

/* ---- Damage ---- */

static uint64_t next_random(uint64_t *s) {
  *s ^= *s << 13;
  *s ^= *s >> 7;
  *s ^= *s << 17;
  return *s;
}

static void use(wf_tokenizer *t) {
  weft_error err = {0};
  wf_encoding e;
  const wf_encode_options o = {.add_special = true, .want_offsets = true};
  if (wf_tokenizer_encode(t, WF_STR("Hello <s>\xc3\xa9 1234  world\n"), &o, &e, &err) == WEFT_OK) {
    wf_buf out = {0};
    if (wf_tokenizer_decode(t, e.ids, e.n_ids, false, &out, &err) != WEFT_OK) {
      assert_true(err.what[0] != '\0');
    }
    wf_buf_deinit(&out);
  } else {
    assert_true(err.what[0] != '\0');
  }
  wf_encoding_deinit(&e);
}

static void damage(const char *path, bool is_spm, int n_rounds) {
  weft_error err = {0};
  char *bytes = NULL;
  size_t n = 0;
  uint64_t seed = 42;
  assert_ok(wf_file_read(path, (size_t)1 << 24, &bytes, &n, &err), &err);
  char *copy = malloc(n + 1);
  assert_non_null(copy);
  for (int i = 0; i < n_rounds; i++) {
    size_t length = n;
    memcpy(copy, bytes, n);
    if (i % 4 == 0) {
      length = next_random(&seed) % n;
    } else {
      for (uint64_t k = 1 + next_random(&seed) % 3; k; k--) {
        const uint64_t at = next_random(&seed) % n;
        copy[at] = i % 4 == 1 ? (char)(copy[at] ^ (1 << next_random(&seed) % 8))
                              : "\"{}[],:0 \\e9-"[next_random(&seed) % 13];
      }
    }
    wf_tokenizer *t = NULL;
    err = (weft_error){0};
    const weft_status st =
        is_spm ? wf_tokenizer_load_spm_bytes(&t, copy, length, "damaged", &err)
               : wf_tokenizer_load_json_text(&t, (wf_str){copy, length}, "damaged", &err);
    if (st == WEFT_OK) {
      use(t);
    } else {
      assert_int_equal(err.status, st);
      assert_true(err.what[0] != '\0');
      assert_null(t);
    }
    wf_tokenizer_destroy(t);
  }
  free(copy);
  wf_free(bytes);
}

static void damaged_files_give_an_error_or_work(void **state) {
  (void)state;
  static const char *const names[] = {
      "tokenizer_goldens/llama3.json",           "tokenizer_goldens/bert.json",
      "tokenizer_goldens/unigram_fallback.json", "tokenizer_goldens/llama2.json",
      "tokenizer_spm_goldens/spm_bpe.model",     "tokenizer_spm_goldens/spm_unigram.model"};
  for (size_t i = 0; i < WF_ARRAY_LEN(names); i++) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/tests/text/%s", WEFT_SOURCE_DIR, names[i]);
    damage(path, strstr(names[i], ".model") != NULL, 400);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(message_content_never_becomes_a_control_token),
      cmocka_unit_test(control_flags_of_a_call_decide_what_content_may_match),
      cmocka_unit_test(segments_match_control_tokens_outside_content_alone),
      cmocka_unit_test(segments_are_encoded_as_the_one_text_they_make),
      cmocka_unit_test(merges_as_pairs_and_as_strings_are_the_same),
      cmocka_unit_test(spaces_and_indentation_decode_back_exactly),
      cmocka_unit_test(ids_outside_the_vocabulary_are_refused_by_value),
      cmocka_unit_test(added_tokens_decode_to_their_literal_text),
      cmocka_unit_test(a_token_s_bytes_are_its_true_ones),
      cmocka_unit_test(a_stream_never_cuts_a_character),
      cmocka_unit_test(text_that_is_not_utf8_is_refused_with_its_position),
      cmocka_unit_test(an_unknown_component_is_named_with_its_path),
      cmocka_unit_test(one_start_token_is_told_to_the_engine),
      cmocka_unit_test(long_runs_take_time_in_proportion),
      cmocka_unit_test(a_hostile_expression_ends_in_an_error),
      cmocka_unit_test(eight_threads_share_one_tokenizer),
      cmocka_unit_test(damaged_files_give_an_error_or_work),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
