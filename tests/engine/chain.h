/* SPDX-License-Identifier: Apache-2.0 */
/* A chain package: a toy decoder whose logits are one row of a table picked by the last token, so
 * that its answers are scripted token by token. Byte-level tokenizer: ids 0..255 are bytes (in the
 * order of the byte-level alphabet's own code points is not needed: id b is byte b), then words,
 * then control tokens. Layout of config.json + onnx/model.onnx, without past.
 *
 * Written by hand here, so that what a test expects follows from its own script and nothing else.
 */
#ifndef WF_CHAIN_H
#define WF_CHAIN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/partial.h"
#include "base/str.h"
#include "import/import.h"
#include "import/onnx_writer.h"

enum {
  CHAIN_WORDS_AT = 256,
  CHAIN_MAX_WORDS = 24,
  CHAIN_END = 280,
  CHAIN_END2 = 281,
  CHAIN_VOCAB = 282
};

typedef struct chain {
  char *dir;
  float *table; /* [CHAIN_VOCAB][CHAIN_VOCAB] */
  const char *words[CHAIN_MAX_WORDS];
  size_t n_words;
} chain;

static inline void chain_init(chain *c) {
  *c = (chain){.table = wf_calloc((size_t)CHAIN_VOCAB * CHAIN_VOCAB, sizeof(float))};
  c->dir = wf_path_join(getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", "weft-chain-XXXXXX");
  if (!c->dir || !mkdtemp(c->dir) || !c->table) fail_msg("no temporary folder");
}

/* Adds a token that decodes to `text`; returns its id. */
static inline int32_t chain_word(chain *c, const char *text) {
  c->words[c->n_words] = text;
  return CHAIN_WORDS_AT + (int32_t)c->n_words++;
}

/* After `from` the logit of `to` is v. */
static inline void chain_set(chain *c, int32_t from, int32_t to, float v) {
  c->table[(size_t)from * CHAIN_VOCAB + (size_t)to] = v;
}

/* GPT-2's byte alphabet: printable bytes stand for themselves, the others for U+0100 and up. */
static inline void chain_add_byte(wf_buf *b, unsigned byte) {
  unsigned next = 256;
  for (unsigned i = 0; i < 256; i++) {
    const bool is_plain = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || (i >= 174 && i <= 255);
    const unsigned cp = is_plain ? i : next++;
    if (i == byte) wf_buf_add_utf8(b, cp);
  }
}

static inline void chain_add_entry(wf_buf *b, const char *text, size_t n, int32_t id) {
  wf_buf spelled = {0};
  for (size_t i = 0; i < n; i++) chain_add_byte(&spelled, (unsigned char)text[i]);
  if (id) wf_buf_puts(b, ", ");
  wf_buf_add_json_string(b, (wf_str){spelled.at, spelled.n}, false);
  wf_buf_printf(b, ": %d", id);
  wf_buf_deinit(&spelled);
}

static inline void chain_file(const chain *c, const char *name, const wf_buf *b) {
  weft_error err = {0};
  char *path = wf_path_join(c->dir, name);
  assert_non_null(path);
  assert_ok(wf_file_write(path, b->at, b->n, false, &err), &err);
  wf_free(path);
}

static inline void chain_write_tokenizer(const chain *c) {
  wf_buf b = {0};
  wf_buf_puts(&b, "{\"version\": \"1.0\", \"added_tokens\": [");
  static const char *const control[] = {"<|end|>", "<|turn|>"};
  for (int i = 0; i < 2; i++) {
    wf_buf_printf(&b,
                  "%s{\"id\": %d, \"content\": \"%s\", \"single_word\": false, \"lstrip\": false, "
                  "\"rstrip\": false, \"normalized\": false, \"special\": true}",
                  i ? ", " : "", CHAIN_END + i, control[i]);
  }
  wf_buf_puts(
      &b,
      "], \"normalizer\": null, \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": "
      "false, \"trim_offsets\": true, \"use_regex\": false}, \"post_processor\": null, "
      "\"decoder\": "
      "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, "
      "\"use_regex\": "
      "true}, \"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, "
      "\"continuing_subword_prefix\": null, \"end_of_word_suffix\": null, \"fuse_unk\": false, "
      "\"byte_fallback\": false, \"vocab\": {");
  for (int i = 0; i < 256; i++) {
    const char byte = (char)i;
    chain_add_entry(&b, &byte, 1, i);
  }
  /* ids without a gap: Hugging Face gives an added token the next free id, whatever the file says
   */
  for (size_t i = 0; i < CHAIN_MAX_WORDS; i++) {
    char filler[16];
    snprintf(filler, sizeof filler, "(filler %zu)", i);
    const char *text = i < c->n_words ? c->words[i] : filler;
    chain_add_entry(&b, text, strlen(text), CHAIN_WORDS_AT + (int32_t)i);
  }
  wf_buf_puts(&b, "}, \"merges\": []}}");
  chain_file(c, "tokenizer.json", &b);
  wf_buf_clear(&b);
  wf_buf_puts(
      &b,
      "{\"eos_token\": \"<|end|>\", \"chat_template\": \"{% for m in messages %}<|turn|>{{ m.role "
      "}}:"
      "{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|turn|>{% endif %}\"}");
  chain_file(c, "tokenizer_config.json", &b);
  wf_buf_deinit(&b);
}

/* eos_ids: a JSON number or list for config.json. */
static inline void chain_write(const chain *c, const char *eos_ids, int64_t context) {
  weft_error err = {0};
  wf_onnxw *w = NULL;
  wf_buf b = {0};
  char *dir = wf_path_join(c->dir, "onnx"), *path = wf_path_join(c->dir, "onnx/model.onnx");
  const int64_t dims[] = {CHAIN_VOCAB, CHAIN_VOCAB};
  assert_ok(wf_path_make_dirs(dir, false, &err), &err);
  assert_ok(wf_onnxw_create(&w, path, NULL, false, &err), &err);
  wf_onnxw_graph *g = wf_onnxw_main(w);
  wf_onnxw_input(g, "input_ids", WF_ONNXW_INT64, (const char *const[]){"batch", "sequence"}, 2);
  wf_onnxw_inline(g, "table", WF_ONNXW_FLOAT, dims, 2, c->table,
                  (size_t)CHAIN_VOCAB * CHAIN_VOCAB * 4);
  wf_onnxw_node(g, "Gather", "", "pick", (const char *const[]){"table", "input_ids"}, 2,
                (const char *const[]){"logits"}, 1, NULL, 0);
  wf_onnxw_output(g, "logits", WF_ONNXW_FLOAT, (const char *const[]){"batch", "sequence", "282"},
                  3);
  assert_ok(wf_onnxw_commit(w, &err), &err);
  wf_buf_printf(
      &b,
      "{\"model_type\": \"chain\", \"vocab_size\": %d, \"max_position_embeddings\": %lld, "
      "\"eos_token_id\": %s}",
      CHAIN_VOCAB, (long long)context, eos_ids);
  chain_file(c, "config.json", &b);
  chain_write_tokenizer(c);
  wf_buf_deinit(&b);
  wf_free(dir);
  wf_free(path);
}

/* In place of the chain, a toy of tests/backend/golden with real attention: vocabulary 64, context
 * 512, end id 63. The tokenizer is the chain's. */
static inline void chain_write_golden(const chain *c, const char *kind) {
  weft_error err = {0};
  wf_buf b = {0};
  char *bytes = NULL;
  size_t n = 0;
  wf_buf_printf(&b, "%s/tests/backend/golden/%s/model.onnx", WEFT_SOURCE_DIR, kind);
  assert_ok(wf_file_read(wf_buf_cstr(&b), 1 << 24, &bytes, &n, &err), &err);
  wf_buf_clear(&b);
  wf_buf_add(&b, bytes, n);
  chain_file(c, "model.onnx", &b);
  wf_buf_clear(&b);
  wf_buf_puts(
      &b,
      "{\"max_position_embeddings\": 512, \"vocab_size\": 64, \"num_attention_heads\": 2, "
      "\"num_key_value_heads\": 1, \"hidden_size\": 32, \"head_dim\": 16, \"eos_token_id\": 63}");
  chain_file(c, "config.json", &b);
  chain_write_tokenizer(c);
  wf_buf_deinit(&b);
  wf_free(bytes);
}

static inline void chain_remove(chain *c) {
  char *onnx = wf_path_join(c->dir, "onnx");
  if (onnx) wf_folder_remove(onnx);
  wf_folder_remove(c->dir);
  wf_free(onnx);
  wf_free(c->dir);
  wf_free(c->table);
}

#endif
