/* SPDX-License-Identifier: Apache-2.0 */
/* The models that look whole words up: WordPiece (longest prefix first) and WordLevel. */
#include "text/tokenizer_internal.h"

static weft_status emit_unknown(wf_call *c, uint32_t n, weft_error *err) {
  const wf_model *m = &c->t->model;
  if (m->unk_id < 0) {
    return wf_fail(err, WEFT_TOKENIZER, "add the unknown token to the vocabulary",
                   "a word is not in the vocabulary, and neither is the unknown token '%.*s'",
                   (int)m->unk_token.n, m->unk_token.at ? m->unk_token.at : "");
  }
  return wf_call_emit(c, m->unk_id, 0, n, NULL, err);
}

static int32_t find(wf_call *c, const char *s, uint32_t n) {
  const int32_t id = wf_vocab_find(&c->t->model.vocab, s, n);
  return id >= 0 && wf_call_forbids(c, id) ? -1 : id;
}

weft_status wf_wordlevel_encode(wf_call *c, weft_error *err) {
  const uint32_t n = c->piece.end - c->piece.begin;
  const int32_t id = find(c, c->doc.text.at + c->piece.begin, n);
  return id >= 0 ? wf_call_emit(c, id, 0, n, NULL, err) : emit_unknown(c, n, err);
}

weft_status wf_wordpiece_encode(wf_call *c, weft_error *err) {
  const wf_model *m = &c->t->model;
  const char *s = c->doc.text.at + c->piece.begin;
  const uint32_t n = c->piece.end - c->piece.begin;
  size_t n_chars = 0;
  for (uint32_t at = 0; at < n; n_chars++) {
    uint32_t cp;
    at += (uint32_t)wf_char_at(s + at, n - at, &cp);
    /* max_chars bounds the square of the search below. */
    if (n_chars >= m->max_chars) return emit_unknown(c, n, err);
  }
  const size_t first_token = c->tokens.n;
  const size_t first_text = c->token_text.n;
  for (uint32_t begin = 0; begin < n;) {
    uint32_t end = n;
    int32_t id = -1;
    while (end > begin) {
      if (begin == 0 || m->prefix.n == 0) {
        id = find(c, s + begin, end - begin);
      } else {
        wf_buf_clear(&c->word);
        wf_buf_add_str(&c->word, m->prefix);
        wf_buf_add(&c->word, s + begin, end - begin);
        if (c->word.failed) return wf_fail_memory(err, end - begin, "a word");
        id = find(c, c->word.at, (uint32_t)c->word.n);
      }
      if (id >= 0) break;
      uint32_t cp;
      end -= (uint32_t)wf_char_before(s + begin, end - begin, &cp);
    }
    if (id < 0) {
      c->tokens.n = first_token;
      c->token_text.n = first_text;
      return emit_unknown(c, n, err);
    }
    WF_RETURN_IF_ERROR(wf_call_emit(c, id, begin, end, NULL, err));
    begin = end;
  }
  return WEFT_OK;
}
