/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json out of vocabulary-only GGUF files, read by weft's own tokenizer: the ids are those
 * that lie beside the files (../shared/tokenizers/X.gguf.inp and .out), written by llama.cpp's
 * authors from Hugging Face's tokenizers. */
#include "support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/partial.h"
#include "base/str.h"
#include "import/import.h"
#include "text/tokenizer.h"

static const char folder[] = WEFT_SOURCE_DIR "/../shared/tokenizers";

static char *read_beside(const char *name, const char *tail, size_t *n) {
  weft_error err = {0};
  wf_buf file = {0};
  char *text = NULL;
  wf_buf_printf(&file, "%s/%s%s", folder, name, tail);
  assert_ok(wf_file_read(wf_buf_cstr(&file), 1 << 24, &text, n, &err), &err);
  wf_buf_deinit(&file);
  return text;
}

static wf_tokenizer *import_tokenizer(const char *name) {
  weft_error err = {0};
  wf_tokenizer *t = NULL;
  wf_buf source = {0};
  char *out = wf_path_join(getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", "weft-vocab-test-XXXXXX");
  assert_non_null(out);
  assert_non_null(mkdtemp(out));
  wf_buf_printf(&source, "%s/%s", folder, name);
  assert_ok(wf_import_gguf_tokenizer(wf_buf_cstr(&source), out, NULL, &err), &err);
  char *json = wf_path_join(out, "tokenizer.json");
  assert_non_null(json);
  assert_ok(wf_tokenizer_load_json(&t, json, NULL, &err), &err);
  wf_folder_remove(out);
  wf_buf_deinit(&source);
  wf_free(json);
  wf_free(out);
  return t;
}

/* The next text or line; false at the end. */
static bool next_part(wf_str all, const char *between, size_t *from, wf_str *part) {
  if (*from > all.n) return false;
  const size_t end = wf_str_find(all, wf_str_of(between), *from);
  *part = (wf_str){all.at + *from, (end == SIZE_MAX ? all.n : end) - *from};
  *from = end == SIZE_MAX ? all.n + 1 : end + strlen(between);
  return true;
}

static void check_vocabulary(const char *name) {
  size_t n_in, n_out, at_in = 0, at_out = 0, n_texts = 0, n_wrong = 0;
  char *in = read_beside(name, ".inp", &n_in), *out = read_beside(name, ".out", &n_out);
  wf_tokenizer *t = import_tokenizer(name);
  wf_str text, line, id;
  while (next_part((wf_str){in, n_in}, "\n__ggml_vocab_test__\n", &at_in, &text) &&
         next_part((wf_str){out, n_out}, "\n", &at_out, &line)) {
    weft_error err = {0};
    wf_encoding got = {0};
    const wf_encode_options options = {0}; /* no ids around the text */
    size_t at_id = 0, n = 0;
    bool is_same = true;
    assert_ok(wf_tokenizer_encode(t, text, &options, &got, &err), &err);
    while (next_part(line, " ", &at_id, &id)) {
      int64_t v;
      if (id.n == 0) continue;
      assert_true(wf_parse_i64(id, &v));
      is_same = is_same && n < got.n_ids && got.ids[n] == v;
      n++;
    }
    if (!is_same || n != got.n_ids) {
      n_wrong++;
      print_message("%s, text %zu: '%.*s': %zu ids, expected %zu\n", name, n_texts, (int)text.n,
                    text.at, got.n_ids, n);
    }
    n_texts++;
    wf_encoding_deinit(&got);
  }
  assert_true(n_texts > 40);
  assert_int_equal(n_wrong, 0);
  wf_tokenizer_destroy(t);
  wf_free(in);
  wf_free(out);
}

static void every_vocabulary_gives_the_right_ids(void **state) {
  (void)state;
  static const char *const names[] = {
      "ggml-vocab-bert-bge.gguf", "ggml-vocab-deepseek-coder.gguf", "ggml-vocab-falcon.gguf",
      "ggml-vocab-gpt-2.gguf",    "ggml-vocab-llama-bpe.gguf",      "ggml-vocab-llama-spm.gguf",
      "ggml-vocab-mpt.gguf",      "ggml-vocab-phi-3.gguf",          "ggml-vocab-qwen2.gguf"};
  if (!wf_path_is_dir(folder)) {
    print_message("LEFT OUT every_vocabulary_gives_the_right_ids: %s is not there\n", folder);
    return;
  }
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) check_vocabulary(names[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_vocabulary_gives_the_right_ids)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
