/* SPDX-License-Identifier: Apache-2.0 */
/* After the model: offsets in characters, spaces trimmed from them, start and end tokens. */
#include "text/tokenizer_internal.h"

/* Character positions for the bytes of a text: one mark every 64 bytes, the rest counted. */
typedef struct char_index {
  wf_str text;
  uint32_t *marks;
} char_index;

static bool is_lead(char c) { return ((unsigned char)c & 0xc0) != 0x80; }

static weft_status index_build(char_index *x, wf_str text, weft_error *err) {
  x->text = text;
  x->marks = wf_calloc(text.n / 64 + 1, sizeof *x->marks);
  if (!x->marks) return wf_fail_memory(err, text.n / 16, "character positions");
  uint32_t n = 0;
  for (size_t i = 0; i < text.n; i++) {
    if (i % 64 == 0) x->marks[i / 64] = n;
    n += is_lead(text.at[i]);
  }
  if (text.n % 64 == 0) x->marks[text.n / 64] = n;
  return WEFT_OK;
}

/* Characters that begin before byte `at`. */
static uint32_t chars_before(const char_index *x, size_t at) {
  uint32_t n = x->marks[at / 64];
  for (size_t i = at / 64 * 64; i < at; i++) n += is_lead(x->text.at[i]);
  return n;
}

/* The index of the character that byte `at` belongs to; the number of all at the end. */
static uint32_t char_of(const char_index *x, size_t at) {
  if (at >= x->text.n) return chars_before(x, x->text.n);
  return chars_before(x, at + 1) - 1;
}

/* The byte where character `k` begins. */
static uint32_t byte_of(const char_index *x, uint32_t k, uint32_t near) {
  size_t at = near < x->text.n ? near : x->text.n;
  while (at > 0 && at < x->text.n && !is_lead(x->text.at[at])) at--;
  uint32_t n = chars_before(x, at);
  while (n < k && at < x->text.n) {
    at++;
    while (at < x->text.n && !is_lead(x->text.at[at])) at++;
    n++;
  }
  while (n > k && at > 0) {
    at--;
    while (at > 0 && !is_lead(x->text.at[at])) at--;
    n--;
  }
  return (uint32_t)at;
}

static bool is_trimmed(uint32_t cp) { return cp == 0x120 || wf_char_is_space(cp); }

/* Takes leading and trailing spaces of a token's text out of its character offsets. */
static void trim(wf_token_span *span, wf_str token, bool is_first_token, bool add_prefix_space) {
  uint32_t leading = 0, trailing = 0, cp;
  for (size_t at = 0; at < token.n; leading++) {
    const size_t used = wf_char_at(token.at + at, token.n - at, &cp);
    if (!is_trimmed(cp)) break;
    at += used;
  }
  for (size_t end = token.n; end > 0; trailing++) {
    const size_t used = wf_char_before(token.at, end, &cp);
    if (!is_trimmed(cp)) break;
    end -= used;
  }
  if (leading) {
    /* One leading space of the first word is the one that was put there. */
    const bool ours = (is_first_token || span->char_begin == 0) && add_prefix_space && leading == 1;
    if (!ours) {
      const uint32_t moved = span->char_begin + leading;
      span->char_begin = moved < span->char_end ? moved : span->char_end;
    }
  }
  if (trailing && span->char_end >= trailing) {
    const uint32_t moved = span->char_end - trailing;
    span->char_end = moved > span->char_begin ? moved : span->char_begin;
  }
}

static weft_status make_spans(const wf_tokenizer *t, const wf_tokens *tokens, wf_str text,
                              const wf_buf *token_text, wf_token_span *spans, weft_error *err) {
  char_index x;
  WF_RETURN_IF_ERROR(index_build(&x, text, err));
  for (size_t i = 0; i < tokens->n; i++) {
    const wf_token *k = &tokens->at[i];
    wf_token_span s = {k->begin, k->end, char_of(&x, k->begin), char_of(&x, k->end)};
    const wf_token_span before = s;
    for (size_t p = 0; p < t->posts.n; p++) {
      if (t->posts.at[p].kind != WF_POST_TRIM) continue;
      trim(&s, (wf_str){token_text->at + k->text_at, k->text_n}, i == 0,
           t->posts.at[p].add_prefix_space);
    }
    if (s.char_begin != before.char_begin) s.byte_begin = byte_of(&x, s.char_begin, s.byte_begin);
    if (s.char_end != before.char_end) s.byte_end = byte_of(&x, s.char_end, s.byte_end);
    spans[i] = s;
  }
  wf_free(x.marks);
  return WEFT_OK;
}

/* The rows of the result while template after template is applied to them. */
typedef struct row {
  int32_t id;
  wf_token_span span;
  uint32_t text_at, text_n;
} row;
typedef WF_VEC(row) rows;

static bool add_special(rows *out, const wf_post_part *part, wf_buf *token_text) {
  for (size_t i = 0; i < part->n_ids; i++) {
    const row r = {
        part->ids[i], {0, 0, 0, 0}, (uint32_t)token_text->n, (uint32_t)part->tokens[i].n};
    wf_buf_add_str(token_text, part->tokens[i]);
    if (!wf_vec_push(out, r)) return false;
  }
  return true;
}

static bool add_rows(rows *out, const rows *from) {
  if (!wf_vec_reserve(out, from->n)) return false;
  if (from->n) memcpy(out->at + out->n, from->at, from->n * sizeof *out->at);
  out->n += from->n;
  return true;
}

/* Several templates in a sequence each work on the sequences the one before left: the first's
 * special tokens become part of them. */
static weft_status apply_template(const wf_post *p, rows seq[2], bool is_pair, bool specials,
                                  size_t limit, wf_buf *token_text, weft_error *err) {
  const wf_post_part *parts = is_pair ? p->pair : p->single;
  const size_t n_parts = is_pair ? p->n_pair : p->n_single;
  rows all = {0};
  for (size_t i = 0; i < n_parts; i++) {
    const bool ok = parts[i].sequence < 0 ? !specials || add_special(&all, &parts[i], token_text)
                                          : add_rows(&all, &seq[parts[i].sequence]);
    if (!ok || all.n > limit) {
      wf_vec_free(&all);
      return !ok ? wf_fail_memory(err, sizeof(row), "tokens")
                 : wf_fail(
                       err, WEFT_LIMIT, "use another tokenizer",
                       "the templates of the post_processor make more than %zu tokens of a text",
                       limit);
    }
  }
  wf_vec_free(&seq[0]);
  seq[0] = all;
  seq[1].n = 0;
  return WEFT_OK;
}

static weft_status finish(const rows *r, bool want_offsets, wf_buf *token_text, wf_encoding *out,
                          weft_error *err) {
  out->ids = wf_calloc(r->n + 1, sizeof *out->ids);
  if (!out->ids) return wf_fail_memory(err, r->n * sizeof *out->ids, "token ids");
  out->n_ids = r->n;
  for (size_t i = 0; i < r->n; i++) out->ids[i] = r->at[i].id;
  if (!want_offsets) return WEFT_OK;
  out->spans = wf_calloc(r->n + 1, sizeof *out->spans);
  out->tokens = wf_calloc(r->n + 1, sizeof *out->tokens);
  wf_buf_puts(token_text, "");
  out->token_text = wf_buf_take(token_text);
  if (!out->spans || !out->tokens || !out->token_text) {
    return wf_fail_memory(err, r->n * sizeof *out->spans, "token offsets");
  }
  for (size_t i = 0; i < r->n; i++) {
    out->spans[i] = r->at[i].span;
    out->tokens[i] = (wf_str){out->token_text + r->at[i].text_at, r->at[i].text_n};
  }
  return WEFT_OK;
}

weft_status wf_post_apply(const wf_tokenizer *t, bool specials, bool want_offsets, wf_tokens *first,
                          wf_tokens *second, const wf_str texts[2], wf_buf *token_text,
                          wf_encoding *out, weft_error *err) {
  weft_status st = WEFT_OK;
  rows seq[2] = {{0}, {0}};
  wf_token_span *spans = NULL;
  const wf_tokens *tokens[2] = {first, second};
  for (int k = 0; k < 2; k++) {
    if (!tokens[k]) continue;
    const size_t n = tokens[k]->n;
    if (!wf_vec_reserve(&seq[k], n + 1)) {
      st = wf_fail_memory(err, n * sizeof(row), "tokens");
      goto out;
    }
    if (want_offsets) {
      wf_free(spans);
      spans = wf_calloc(n + 1, sizeof *spans);
      if (!spans) {
        st = wf_fail_memory(err, n * sizeof *spans, "token offsets");
        goto out;
      }
      WF_TRY(make_spans(t, tokens[k], texts[k], token_text, spans, err));
    }
    for (size_t i = 0; i < n; i++) {
      const wf_token *x = &tokens[k]->at[i];
      seq[k].at[seq[k].n++] =
          (row){x->id, spans ? spans[i] : (wf_token_span){0, 0, 0, 0}, x->text_at, x->text_n};
    }
  }
  /* templates that name a sequence twice, one after another, would double it each time */
  const size_t limit = 65536 + 8 * (seq[0].n + seq[1].n);
  bool is_pair = second != NULL;
  for (size_t i = 0; i < t->posts.n; i++) {
    if (t->posts.at[i].kind != WF_POST_TEMPLATE) continue;
    WF_TRY(apply_template(&t->posts.at[i], seq, is_pair, specials, limit, token_text, err));
    is_pair = false;
  }
  if (is_pair && !add_rows(&seq[0], &seq[1])) {
    st = wf_fail_memory(err, sizeof(row), "tokens");
    goto out;
  }
  WF_TRY(finish(&seq[0], want_offsets, token_text, out, err));
out:
  wf_free(spans);
  wf_vec_free(&seq[0]);
  wf_vec_free(&seq[1]);
  return st;
}
