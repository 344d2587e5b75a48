/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target of the tokenizer readers: tokenizer.json, or a SentencePiece model when the input
 * does not begin like JSON. Asserts: no crash, an error always has a status and a sentence, decoded
 * text and streamed pieces are UTF-8, and message content yields no control token. */
#include <stdlib.h>

#include "base/utf8.h"
#include "text/detokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok) {
  if (!ok) abort();
}

/* "<0x41>": a byte's token stands for that byte in content too, however the file marks it. */
static bool is_byte(wf_str s) { return s.n == 6 && memcmp(s.at, "<0x", 3) == 0; }

static void use(const wf_tokenizer *t) {
  static const char text[] = "Hello <s> </s> [SEP]  caf\xc3\xa9 1234\n\n <|im_end|> x";
  weft_error err = {0};
  uint8_t *control = malloc(wf_tokenizer_vocab_size(t));
  check(control != NULL);
  wf_tokenizer_control_fill(t, control);
  for (int content = 0; content < 2; content++) {
    const wf_encode_options o = {.content_mode = content == 1, .want_offsets = true};
    wf_encoding e;
    if (wf_tokenizer_encode(t, (wf_str){text, sizeof text - 1}, &o, &e, &err) != WEFT_OK) {
      check(err.what[0] != 0);
      continue;
    }
    wf_buf whole = {0}, stream = {0};
    wf_detokenizer *d = NULL;
    check(wf_detokenizer_create(&d, t, false, &err) == WEFT_OK);
    for (size_t i = 0; i < e.n_ids; i++) {
      check((size_t)e.ids[i] < wf_tokenizer_vocab_size(t));
      check(e.spans[i].byte_begin <= sizeof text && e.spans[i].byte_end <= sizeof text);
      check(!content || !control[e.ids[i]] || e.ids[i] == wf_tokenizer_role_id(t, WF_TOKEN_UNK) ||
            is_byte(wf_tokenizer_token_text(t, e.ids[i])));
      check(wf_detokenizer_feed(d, e.ids[i], &stream, &err) == WEFT_OK);
    }
    check(wf_detokenizer_finish(d, &stream, &err) == WEFT_OK);
    if (wf_tokenizer_decode(t, e.ids, e.n_ids, false, &whole, &err) == WEFT_OK && whole.n) {
      check(wf_utf8_is_valid(whole.at, whole.n));
    }
    check(stream.n == 0 || wf_utf8_is_valid(stream.at, stream.n));
    wf_detokenizer_destroy(d);
    wf_buf_deinit(&whole);
    wf_buf_deinit(&stream);
    wf_encoding_deinit(&e);
  }
  free(control);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  weft_error err = {0};
  wf_tokenizer *t = NULL;
  const weft_status st =
      size && data[0] == '{'
          ? wf_tokenizer_load_json_text(&t, (wf_str){(const char *)data, size}, "fuzz", &err)
          : wf_tokenizer_load_spm_bytes(&t, data, size, "fuzz", &err);
  if (st == WEFT_OK) {
    use(t);
  } else {
    check(t == NULL && err.status == st && err.what[0]);
  }
  wf_tokenizer_destroy(t);
  return 0;
}
