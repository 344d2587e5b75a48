/* SPDX-License-Identifier: Apache-2.0 */
/* The text files of a package: tokenizer.json and its companions, genai_config.json, config.json.
 */
#ifndef WF_HF_FILES_H
#define WF_HF_FILES_H

#include "import/gguf_model.h"

/* What the tokenizer's keys say about ids; -1 where the file names none. */
typedef struct wf_hf_tokens {
  int64_t bos, eos, unk, pad;
  bool adds_bos, adds_eos;
  WF_VEC(int64_t) ends; /* eos first, then other ids that end a turn or a text */
  size_t n_tokens;
} wf_hf_tokens;

/* Reads the ids. Owner: release with wf_hf_tokens_deinit. Errors: TOKENIZER (no tokens, an id
 * outside of them), PARSE, OUT_OF_MEMORY. */
weft_status wf_hf_tokens_read(const wf_gguf *g, wf_hf_tokens *t, weft_error *err) WF_NODISCARD;
void wf_hf_tokens_deinit(wf_hf_tokens *t);

/* tokenizer.json. Errors: TOKENIZER (a model or pre-tokenizer that weft does not know, by name),
 * PARSE, IO, OUT_OF_MEMORY. */
weft_status wf_hf_write_tokenizer(const wf_gguf *g, const wf_hf_tokens *t, const char *dir,
                                  bool is_private, weft_error *err) WF_NODISCARD;
/* tokenizer_config.json, special_tokens_map.json and chat_template.jinja. */
weft_status wf_hf_write_companions(const wf_gguf *g, const wf_hf_tokens *t, size_t context,
                                   const char *dir, bool is_private, weft_error *err) WF_NODISCARD;
/* genai_config.json, config.json, generation_config.json. */
weft_status wf_hf_write_configs(const wf_gguf_model *m, const wf_hf_tokens *t, const char *dir,
                                bool is_private, weft_error *err) WF_NODISCARD;

/* The merges of a SentencePiece vocabulary, best first: for each piece all the ways to put it
 * together from two others, ordered as Hugging Face's converter does (score, then the parts'
 * lengths). `is_piece[i]` says which tokens may be a product. Appends the JSON array's members. */
weft_status wf_hf_merges_from_scores(const wf_str *tokens, const float *scores,
                                     const bool *is_piece, size_t n, wf_buf *json,
                                     weft_error *err) WF_NODISCARD;

#endif
