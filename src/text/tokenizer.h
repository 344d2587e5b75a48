/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers: text to token ids and back, exactly as Hugging Face's `tokenizers` does it, read from
 * tokenizer.json or a SentencePiece model. Owns the vocabulary and every step between text and ids;
 * never a chat template (src/text/template.h) and never a model.
 *
 * A tokenizer is immutable once loaded: any number of threads use one at the same time, and
 * everything a call needs to write lives in that call. The streaming form of decoding is in
 * text/detokenizer.h. */
#ifndef WF_TOKENIZER_H
#define WF_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

typedef struct wf_tokenizer wf_tokenizer;

/* Reads a tokenizer.json, and beside it tokenizer_config.json (NULL: none) for the names of the
 * start, end and padding tokens. Truncation and padding settings of the file are ignored, as
 * transformers does: a prompt is never cut silently.
 *
 * Owner:  *result is the caller's on success (wf_tokenizer_destroy), untouched on failure.
 * Thread: any.
 * Errors: IO, PARSE (broken JSON: line, column, what), TOKENIZER (a component that is unknown or
 *         ill-formed, named with its JSON path), UNSUPPORTED (a component weft refuses), LIMIT,
 *         OUT_OF_MEMORY. */
weft_status wf_tokenizer_load_json(wf_tokenizer **result, const char *tokenizer_json_path,
                                   const char *tokenizer_config_json_path,
                                   weft_error *err) WF_NODISCARD;

/* The same from memory; `json` is not kept. `name` is what errors call it. */
weft_status wf_tokenizer_load_json_text(wf_tokenizer **result, wf_str json, const char *name,
                                        weft_error *err) WF_NODISCARD;

/* Reads a SentencePiece `tokenizer.model` (BPE or unigram). Same owner, thread and errors.
 * A BPE model starts its text with the model's start token, as Llama's tokenizer class does. */
weft_status wf_tokenizer_load_spm(wf_tokenizer **result, const char *tokenizer_model_path,
                                  weft_error *err) WF_NODISCARD;
weft_status wf_tokenizer_load_spm_bytes(wf_tokenizer **result, const void *bytes, size_t n_bytes,
                                        const char *name, weft_error *err) WF_NODISCARD;

void wf_tokenizer_destroy(wf_tokenizer *t); /* NULL is fine */

/* ---- The vocabulary. Thread of all these: immutable. ---- */

/* One more than the largest id; ids without a token may lie below it. */
size_t wf_tokenizer_vocab_size(const wf_tokenizer *t);
/* The string of a token as the vocabulary or the added token spells it ("Ġthe", "<|im_end|>").
 * Owner: borrowed from t. An id without a token gives {NULL, 0}. */
wf_str wf_tokenizer_token_text(const wf_tokenizer *t, int32_t id);
/* The id of an added token or vocabulary string; -1 when there is none. */
int32_t wf_tokenizer_id_of(const wf_tokenizer *t, wf_str text);
/* Appends the bytes that the token stands for in running text ("Ġthe" -> " the", "<0xE2>" -> one
 * byte, an added token -> its literal text). A leading space that decoding drops at the very start
 * of a text is kept here. Errors: INVALID_ARGUMENT for an id without a token. */
weft_status wf_tokenizer_token_bytes(const wf_tokenizer *t, int32_t id, wf_buf *out,
                                     weft_error *err);
/* The same with the caller's scratch memory, which is kept: once warm it allocates nothing. */
weft_status wf_tokenizer_token_bytes_with(const wf_tokenizer *t, int32_t id, wf_buf *out,
                                          wf_buf *scratch, weft_error *err) WF_NODISCARD;
/* True for added tokens with `special: true`: what skip_special leaves out. */
bool wf_tokenizer_is_special(const wf_tokenizer *t, int32_t id);
/* True for every added token, special or not. */
bool wf_tokenizer_is_added(const wf_tokenizer *t, int32_t id);

typedef enum wf_token_role { WF_TOKEN_BOS, WF_TOKEN_EOS, WF_TOKEN_PAD, WF_TOKEN_UNK } wf_token_role;
/* The id that tokenizer_config.json (or the SentencePiece model) gives the role; -1: none. */
int32_t wf_tokenizer_role_id(const wf_tokenizer *t, wf_token_role role);
/* True when encoding with add_special puts the start token in front: a template that already wrote
 * one needs only one of the two. */
bool wf_tokenizer_adds_bos(const wf_tokenizer *t);

/* ---- Control tokens: what message content must never turn into. ---- */

/* Fills flags[vocab_size] with 1 for the tokenizer's own control tokens (special ones, and the
 * start, end and padding roles), 0 elsewhere. The engine then adds the package's end ids itself
 * and calls wf_tokenizer_control_mark for each literal of the chat template. */
void wf_tokenizer_control_fill(const wf_tokenizer *t, uint8_t *flags);
/* Sets the flag of each added token whose text occurs in `literal`, unless the token is only white
 * space. Linear in the literal times the number of distinct token lengths. */
void wf_tokenizer_control_mark(const wf_tokenizer *t, wf_str literal, uint8_t *flags);

/* ---- Encoding ---- */

/* A stretch of text; all stretches of a call are encoded as the one text they make together
 * (pre-tokenisation and merges run across the borders), but inside content no control token is
 * ever produced: not matched as an added token, and not built by the model. */
typedef struct wf_segment {
  wf_str text;
  bool is_content;
} wf_segment;

typedef struct wf_encode_options {
  bool add_special;  /* run the post-processor's start and end tokens */
  bool content_mode; /* wf_tokenizer_encode only: the whole text is content */
  bool want_offsets; /* fill offsets and tokens too; slower */
  /* vocab_size flags (see wf_tokenizer_control_fill); NULL: the tokenizer's own control tokens. */
  const uint8_t *control;
} wf_encode_options;

/* Where a token came from. Characters count Unicode scalar values, as Hugging Face's offsets in
 * Python do; bytes are the same borders in UTF-8. Tokens that the post-processor adds have 0, 0.
 * In a pair each text counts from its own start. */
typedef struct wf_token_span {
  uint32_t byte_begin, byte_end;
  uint32_t char_begin, char_end;
} wf_token_span;

typedef struct wf_encoding {
  int32_t *ids;
  size_t n_ids;
  wf_token_span *spans; /* n_ids, NULL unless asked for */
  wf_str *tokens;       /* n_ids, NULL unless asked for: each token's text as HF reports it */
  char *token_text;     /* what `tokens` points into */
} wf_encoding;
void wf_encoding_deinit(wf_encoding *e); /* fine on a zeroed one and twice */

/* Text to ids. Owner: *out is overwritten (deinit an old one first); on failure it is zeroed.
 * Thread: immutable (the tokenizer), any (the call).
 * Errors: INVALID_ARGUMENT (text is not UTF-8: the byte's position), TOKENIZER (no id for a piece
 *         and no unknown token), LIMIT (text above 2^30 bytes; a regex of the file that needs
 *         unbounded work), OUT_OF_MEMORY. */
weft_status wf_tokenizer_encode(const wf_tokenizer *t, wf_str text, const wf_encode_options *o,
                                wf_encoding *out, weft_error *err) WF_NODISCARD;
/* Two texts joined as the post-processor's pair form says. */
weft_status wf_tokenizer_encode_pair(const wf_tokenizer *t, wf_str a, wf_str b,
                                     const wf_encode_options *o, wf_encoding *out,
                                     weft_error *err) WF_NODISCARD;
/* A rendered conversation; `content_mode` of the options is not looked at. */
weft_status wf_tokenizer_encode_segments(const wf_tokenizer *t, const wf_segment *segments,
                                         size_t n_segments, const wf_encode_options *o,
                                         wf_encoding *out, weft_error *err) WF_NODISCARD;

/* ---- Decoding ---- */

/* Appends the text of all ids to `out`, as Hugging Face's decode does (clean-up of spaces off);
 * the one difference is that added tokens keep their literal text where its byte-level decoder
 * would garble them. The result is well-formed UTF-8: see text/detokenizer.h for the streaming
 * form, which differs only in ill-formed bytes.
 * Errors: INVALID_ARGUMENT (an id outside the vocabulary, by value), OUT_OF_MEMORY. */
weft_status wf_tokenizer_decode(const wf_tokenizer *t, const int32_t *ids, size_t n_ids,
                                bool skip_special, wf_buf *out, weft_error *err) WF_NODISCARD;

#endif
