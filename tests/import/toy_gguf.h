/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files written by hand for the tests: pieces first, then a whole tiny llama model. */
#ifndef WF_TOY_GGUF_H
#define WF_TOY_GGUF_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

static inline void toy_u32(wf_buf *b, uint32_t v) { wf_buf_add(b, &v, sizeof v); }
static inline void toy_u64(wf_buf *b, uint64_t v) { wf_buf_add(b, &v, sizeof v); }
static inline void toy_str(wf_buf *b, const char *s) {
  toy_u64(b, strlen(s));
  wf_buf_puts(b, s);
}
static inline void toy_header(wf_buf *b, uint64_t n_tensors, uint64_t n_entries) {
  wf_buf_puts(b, "GGUF");
  toy_u32(b, 3);
  toy_u64(b, n_tensors);
  toy_u64(b, n_entries);
}
static inline void toy_key_u32(wf_buf *b, const char *key, uint32_t v) {
  toy_str(b, key);
  toy_u32(b, 4);
  toy_u32(b, v);
}
static inline void toy_key_string(wf_buf *b, const char *key, const char *v) {
  toy_str(b, key);
  toy_u32(b, 8);
  toy_str(b, v);
}
static inline void toy_key_strings(wf_buf *b, const char *key, const char *const *v, size_t n) {
  toy_str(b, key);
  toy_u32(b, 9);
  toy_u32(b, 8);
  toy_u64(b, n);
  for (size_t i = 0; i < n; i++) toy_str(b, v[i]);
}
/* A line of the tensor table; cols is the row length, rows 0 makes a vector. */
static inline void toy_tensor(wf_buf *b, const char *name, uint64_t cols, uint64_t rows,
                              uint32_t type, uint64_t offset) {
  toy_str(b, name);
  toy_u32(b, rows ? 2 : 1);
  toy_u64(b, cols);
  if (rows) toy_u64(b, rows);
  toy_u32(b, type);
  toy_u64(b, offset);
}
static inline void toy_pad(wf_buf *b, size_t align) {
  while (b->n % align) wf_buf_putc(b, 0);
}

/* A new folder for a test's files; the caller frees the string. */
static inline char *toy_folder(void) {
  char *path =
      wf_path_join(getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", "weft-import-test-XXXXXX");
  return path && mkdtemp(path) ? path : NULL;
}

enum { TOY_HIDDEN = 64, TOY_VOCAB = 5 };

/* A llama of one layer: F32 norms, Q4_1 matrices, Q8_0 embedding, tied head. */
static inline void toy_model(wf_buf *b) {
  static const char *const tokens[] = {"<|end|>", "a", "b", "ab", "c"};
  static const char *const merges[] = {"a b"};
  static const struct {
    const char *name;
    uint32_t cols, rows, type;
  } tensors[] = {
      {"token_embd.weight", TOY_HIDDEN, TOY_VOCAB, 8},
      {"output_norm.weight", TOY_HIDDEN, 0, 0},
      {"blk.0.attn_norm.weight", TOY_HIDDEN, 0, 0},
      {"blk.0.ffn_norm.weight", TOY_HIDDEN, 0, 0},
      {"blk.0.attn_q.weight", TOY_HIDDEN, 64, 3},
      {"blk.0.attn_k.weight", TOY_HIDDEN, 32, 3},
      {"blk.0.attn_v.weight", TOY_HIDDEN, 32, 3},
      {"blk.0.attn_output.weight", 64, TOY_HIDDEN, 3},
      {"blk.0.ffn_gate.weight", TOY_HIDDEN, 96, 3},
      {"blk.0.ffn_up.weight", TOY_HIDDEN, 96, 3},
      {"blk.0.ffn_down.weight", 96, TOY_HIDDEN, 3},
  };
  const size_t n = sizeof tensors / sizeof *tensors;
  size_t offset = 0;
  toy_header(b, n, 13);
  toy_key_string(b, "general.architecture", "llama");
  toy_key_u32(b, "llama.block_count", 1);
  toy_key_u32(b, "llama.context_length", 32);
  toy_key_u32(b, "llama.embedding_length", TOY_HIDDEN);
  toy_key_u32(b, "llama.feed_forward_length", 96);
  toy_key_u32(b, "llama.attention.head_count", 2);
  toy_key_u32(b, "llama.attention.head_count_kv", 1);
  toy_key_string(b, "tokenizer.ggml.model", "gpt2");
  toy_key_string(b, "tokenizer.ggml.pre", "gpt-2");
  toy_key_strings(b, "tokenizer.ggml.tokens", tokens, TOY_VOCAB);
  toy_key_strings(b, "tokenizer.ggml.merges", merges, 1);
  toy_key_u32(b, "tokenizer.ggml.eos_token_id", 0);
  toy_key_string(b, "tokenizer.chat_template", "{{ messages[0]['content'] }}");
  for (size_t i = 0; i < n; i++) {
    const size_t rows = tensors[i].rows ? tensors[i].rows : 1;
    const size_t row = tensors[i].type == 0   ? tensors[i].cols * 4
                       : tensors[i].type == 8 ? tensors[i].cols / 32 * 34
                                              : tensors[i].cols / 32 * 20;
    toy_tensor(b, tensors[i].name, tensors[i].cols, tensors[i].rows, tensors[i].type, offset);
    offset += (row * rows + 31) / 32 * 32;
  }
  toy_pad(b, 32);
  const size_t data = b->n;
  for (size_t i = 0; i < offset; i++) wf_buf_putc(b, (char)(i * 31 % 47));
  /* Float vectors of ones, so that nothing is a NaN. */
  for (size_t at = 0, i = 0; i < n; i++) {
    const size_t rows = tensors[i].rows ? tensors[i].rows : 1;
    const size_t row = tensors[i].type == 0   ? tensors[i].cols * 4
                       : tensors[i].type == 8 ? tensors[i].cols / 32 * 34
                                              : tensors[i].cols / 32 * 20;
    const float one = 1;
    for (size_t j = 0; tensors[i].type == 0 && j < tensors[i].cols && !b->failed; j++) {
      memcpy(b->at + data + at + j * 4, &one, 4);
    }
    at += (row * rows + 31) / 32 * 32;
  }
}

#endif
