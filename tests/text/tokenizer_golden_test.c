/* SPDX-License-Identifier: Apache-2.0 */
/* Toy tokenizers of every kind against what Hugging Face `tokenizers` answered: ids, character
 * offsets, token texts, decoded texts. make_tokenizer_goldens.py made the files, and
 * make_tokenizer_spm_goldens.py those of SentencePiece models. The environment variables
 * TOKENIZER_GOLDENS and TOKENIZER_SPM_GOLDENS name other folders made by them. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json_reader.h"
#include "base/mem.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

#define MAX_TOKENS 4096

typedef struct golden {
  wf_buf text, pair, decoded, skipped;
  bool has_pair, has_decoded, special;
  int32_t ids[MAX_TOKENS];
  uint32_t begin[MAX_TOKENS], end[MAX_TOKENS];
  wf_buf tokens[MAX_TOKENS];
  size_t n_ids, n_offsets, n_tokens;
} golden;

static void next(wf_json_reader *r, wf_json_event *e) {
  weft_error err = {0};
  assert_ok(wf_json_next(r, e, &err), &err);
}

static void set(wf_buf *b, const wf_json_event *e) {
  wf_buf_clear(b);
  wf_buf_add_str(b, e->text);
}

static void read_row(wf_json_reader *r, golden *g) {
  g->has_pair = g->has_decoded = g->special = false;
  g->n_ids = g->n_offsets = g->n_tokens = 0;
  for (;;) {
    wf_json_event k, v;
    next(r, &k);
    if (k.kind == WF_JSON_OBJECT_END) return;
    char key[16] = {0};
    memcpy(key, k.text.at, k.text.n < 15 ? k.text.n : 15);
    next(r, &v);
    if (strcmp(key, "text") == 0) set(&g->text, &v);
    if (strcmp(key, "pair") == 0) set(&g->pair, &v), g->has_pair = true;
    if (strcmp(key, "decoded") == 0) set(&g->decoded, &v), g->has_decoded = true;
    if (strcmp(key, "skipped") == 0) set(&g->skipped, &v);
    if (strcmp(key, "special") == 0) g->special = v.kind == WF_JSON_TRUE;
    if (v.kind != WF_JSON_ARRAY_BEGIN) continue;
    for (;;) {
      int64_t n = 0;
      next(r, &v);
      if (v.kind == WF_JSON_ARRAY_END) break;
      assert_true(g->n_ids < MAX_TOKENS);
      if (strcmp(key, "ids") == 0) {
        assert_true(wf_parse_i64(v.text, &n));
        g->ids[g->n_ids++] = (int32_t)n;
      } else if (strcmp(key, "tokens") == 0) {
        set(&g->tokens[g->n_tokens++], &v);
      } else {
        next(r, &v);
        assert_true(wf_parse_i64(v.text, &n));
        g->begin[g->n_offsets] = (uint32_t)n;
        next(r, &v);
        assert_true(wf_parse_i64(v.text, &n));
        g->end[g->n_offsets++] = (uint32_t)n;
        next(r, &v);
      }
    }
  }
}

static int n_failed;

static void report(const char *name, const golden *g, const char *what) {
  wf_buf b = {0};
  wf_buf_add_json_string(&b, (wf_str){g->text.at ? g->text.at : "", g->text.n}, false);
  if (n_failed++ < 60) {
    printf("%s: %s differs for %s%s\n", name, what, wf_buf_cstr(&b),
           g->special ? " (with special tokens)" : "");
  }
  wf_buf_deinit(&b);
}

static void print_ids(const char *what, const int32_t *ids, size_t n) {
  if (n_failed > 20) return;
  printf("  %s:", what);
  for (size_t i = 0; i < n; i++) printf(" %d", (int)ids[i]);
  printf("\n");
}

static wf_str view(const wf_buf *b) { return (wf_str){b->at ? b->at : "", b->n}; }

static void check_encoding(const char *name, const wf_tokenizer *t, const golden *g) {
  weft_error err = {0};
  wf_encoding e, plain;
  const wf_encode_options o = {.add_special = g->special, .want_offsets = true};
  const wf_encode_options bare = {.add_special = g->special};
  if (g->has_pair) {
    assert_ok(wf_tokenizer_encode_pair(t, view(&g->text), view(&g->pair), &o, &e, &err), &err);
    assert_ok(wf_tokenizer_encode_pair(t, view(&g->text), view(&g->pair), &bare, &plain, &err),
              &err);
  } else {
    assert_ok(wf_tokenizer_encode(t, view(&g->text), &o, &e, &err), &err);
    assert_ok(wf_tokenizer_encode(t, view(&g->text), &bare, &plain, &err), &err);
  }
  assert_int_equal(e.n_ids, plain.n_ids);
  if (e.n_ids) assert_memory_equal(e.ids, plain.ids, e.n_ids * sizeof *e.ids);
  if (e.n_ids != g->n_ids || (e.n_ids && memcmp(e.ids, g->ids, e.n_ids * sizeof *e.ids) != 0)) {
    report(name, g, "ids");
    print_ids("theirs", g->ids, g->n_ids);
    print_ids("ours  ", e.ids, e.n_ids);
  } else {
    for (size_t i = 0; i < g->n_offsets; i++) {
      if (e.spans[i].char_begin != g->begin[i] || e.spans[i].char_end != g->end[i]) {
        report(name, g, "an offset");
        if (n_failed < 20) {
          printf("  token %zu: theirs %u-%u, ours %u-%u\n", i, g->begin[i], g->end[i],
                 e.spans[i].char_begin, e.spans[i].char_end);
        }
        break;
      }
    }
    for (size_t i = 0; i < g->n_tokens; i++) {
      if (!wf_str_eq(e.tokens[i], view(&g->tokens[i]))) {
        report(name, g, "a token's text");
        break;
      }
    }
  }
  wf_encoding_deinit(&e);
  wf_encoding_deinit(&plain);
}

static void check_decoding(const char *name, const wf_tokenizer *t, const golden *g) {
  weft_error err = {0};
  for (int skip = 0; skip < 2; skip++) {
    const wf_buf *expected = skip ? &g->skipped : &g->decoded;
    wf_buf out = {0}, stream = {0};
    assert_ok(wf_tokenizer_decode(t, g->ids, g->n_ids, skip == 1, &out, &err), &err);
    if (!wf_str_eq(view(&out), view(expected))) {
      report(name, g, skip ? "the text without special tokens" : "the decoded text");
      if (n_failed < 20) printf("  theirs '%s'\n  ours   '%s'\n", expected->at, out.at);
    }
    /* Streamed: equal unless bytes are ill-formed, which shows as U+FFFD. */
    wf_detokenizer *d = NULL;
    assert_ok(wf_detokenizer_create(&d, t, skip == 1, &err), &err);
    for (size_t i = 0; i < g->n_ids; i++) {
      assert_ok(wf_detokenizer_feed(d, g->ids[i], &stream, &err), &err);
    }
    assert_ok(wf_detokenizer_finish(d, &stream, &err), &err);
    wf_detokenizer_destroy(d);
    if (!wf_str_eq(view(&out), view(&stream)) &&
        wf_str_find(view(&out), WF_STR("\xef\xbf\xbd"), 0) == SIZE_MAX) {
      report(name, g, "the streamed text");
      if (n_failed < 20) printf("  whole  '%s'\n  stream '%s'\n", out.at, stream.at);
    }
    wf_buf_deinit(&out);
    wf_buf_deinit(&stream);
  }
}

static void check_file(const char *folder, const char *name) {
  static golden g;
  weft_error err = {0};
  char path[512];
  char *text = NULL;
  size_t n = 0, n_rows = 0;
  wf_tokenizer *t = NULL;
  (void)snprintf(path, sizeof path, "%s/%s.model", folder, name);
  if (wf_path_exists(path)) {
    assert_ok(wf_tokenizer_load_spm(&t, path, &err), &err);
  } else {
    (void)snprintf(path, sizeof path, "%s/%s.json", folder, name);
    assert_ok(wf_tokenizer_load_json(&t, path, NULL, &err), &err);
  }
  (void)snprintf(path, sizeof path, "%s/%s.cases", folder, name);
  assert_ok(wf_file_read(path, (size_t)1 << 28, &text, &n, &err), &err);
  wf_json_reader r;
  wf_json_init(&r, (wf_str){text, n}, path);
  wf_json_event e;
  for (next(&r, &e); e.kind != WF_JSON_END; next(&r, &e)) {
    if (e.kind != WF_JSON_OBJECT_BEGIN) continue;
    read_row(&r, &g);
    check_encoding(name, t, &g);
    if (g.has_decoded) check_decoding(name, t, &g);
    n_rows++;
  }
  assert_true(n_rows > 0);
  wf_json_deinit(&r);
  wf_free(text);
  wf_tokenizer_destroy(t);
  wf_buf_deinit(&g.text);
  wf_buf_deinit(&g.pair);
  wf_buf_deinit(&g.decoded);
  wf_buf_deinit(&g.skipped);
  for (size_t i = 0; i < MAX_TOKENS; i++) wf_buf_deinit(&g.tokens[i]);
}

/* Checks each .cases file of a folder; returns how many there were. */
static size_t check_folder(const char *variable, const char *folder) {
  weft_error err = {0};
  char **names;
  size_t n, n_files = 0;
  if (getenv(variable)) folder = getenv(variable);
  n_failed = 0;
  assert_ok(wf_path_list(folder, &names, &n, &err), &err);
  for (size_t i = 0; i < n; i++) {
    const size_t len = strlen(names[i]);
    if (len < 6 || strcmp(names[i] + len - 6, ".cases") != 0) continue;
    names[i][len - 6] = '\0';
    check_file(folder, names[i]);
    n_files++;
  }
  wf_path_list_free(names, n);
  return n_files;
}

static void every_answer_is_the_one_of_hugging_face(void **state) {
  (void)state;
  assert_true(check_folder("TOKENIZER_GOLDENS", WEFT_SOURCE_DIR "/tests/text/tokenizer_goldens") >=
              60);
  assert_int_equal(n_failed, 0);
}

static void every_answer_is_the_one_of_sentencepiece(void **state) {
  (void)state;
  assert_true(check_folder("TOKENIZER_SPM_GOLDENS",
                           WEFT_SOURCE_DIR "/tests/text/tokenizer_spm_goldens") >= 6);
  assert_int_equal(n_failed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_answer_is_the_one_of_hugging_face),
      cmocka_unit_test(every_answer_is_the_one_of_sentencepiece),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
