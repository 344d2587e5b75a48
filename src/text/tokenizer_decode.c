/* SPDX-License-Identifier: Apache-2.0 */
/* Ids to text: the decoder chain over a list of token texts, as Hugging Face runs it, and the same
 * chain for one token at a time. */
#include <stdio.h>

#include "base/utf8.h"
#include "text/tokenizer_internal.h"

typedef struct item {
  size_t at, n;
  bool literal; /* an added token: not spelled in the byte alphabet */
} item;

typedef struct chain {
  wf_buf text;
  WF_VEC(item) items;
  bool failed;
} chain;

static void chain_deinit(chain *c) {
  wf_buf_deinit(&c->text);
  wf_vec_free(&c->items);
}

/* Ends the item that began at `at`. */
static void end_item(chain *c, size_t at, bool literal) {
  const item i = {at, c->text.n - at, literal};
  if (c->text.failed || !wf_vec_push(&c->items, i)) c->failed = true;
}

static wf_str item_text(const chain *c, size_t i) {
  return (wf_str){c->text.at ? c->text.at + c->items.at[i].at : "", c->items.at[i].n};
}

/* Bytes to well-formed text, one U+FFFD for each maximal ill-formed part. */
static void add_lossy(wf_buf *out, const char *s, size_t n) {
  for (size_t at = 0; at < n;) {
    uint32_t cp;
    size_t used = wf_utf8_decode(s + at, n - at, &cp);
    if (used) {
      wf_buf_add(out, s + at, used);
    } else {
      bool is_cut;
      used = wf_utf8_bad_length(s + at, n - at, &is_cut);
      wf_buf_puts(out, "\xef\xbf\xbd");
    }
    at += used;
  }
}

/* A token in the byte alphabet to its bytes; one with any other character stays as it is. */
static void add_byte_level(wf_buf *out, wf_str s) {
  const size_t from = out->n;
  for (size_t at = 0; at < s.n;) {
    uint32_t cp;
    at += wf_char_at(s.at + at, s.n - at, &cp);
    const int byte = wf_char_to_byte(cp);
    if (byte < 0) {
      out->n = from;
      wf_buf_add_str(out, s);
      return;
    }
    wf_buf_putc(out, (char)byte);
  }
}

static int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "<0xE2>" to 0xe2, -1 for anything else. */
static int byte_token(wf_str s) {
  if (s.n != 6 || memcmp(s.at, "<0x", 3) != 0 || s.at[5] != '>') return -1;
  const int low = hex(s.at[4]);
  if (low < 0) return -1;
  if (s.at[3] == '+') return low; /* Rust's parser takes a sign here, and so does the reference */
  const int high = hex(s.at[3]);
  return high < 0 ? -1 : high * 16 + low;
}

#define DECODED_LIMIT ((size_t)256 << 20)

static weft_status add_replaced(wf_buf *out, wf_str s, const wf_decoder *d, weft_error *err) {
  wf_matches m = {0};
  wf_regex_scratch scratch = {0};
  weft_status st = wf_regex_find(d->regex, &scratch, s.at, s.n, &m, err);
  for (size_t i = 0; st == WEFT_OK && i < m.n; i++) {
    if (out->n > DECODED_LIMIT) {
      st = wf_fail(err, WEFT_LIMIT, "decode fewer ids or use another tokenizer",
                   "the text grows beyond %zu bytes while it is decoded", DECODED_LIMIT);
    } else if (m.at[i].is_match) {
      wf_buf_add_str(out, d->content);
    } else {
      wf_buf_add(out, s.at + m.at[i].begin, m.at[i].end - m.at[i].begin);
    }
  }
  wf_vec_free(&m);
  wf_regex_scratch_deinit(&scratch);
  return st;
}

static void add_stripped(wf_buf *out, wf_str s, const wf_decoder *d) {
  uint32_t cp;
  for (size_t i = 0; i < d->start && s.n; i++) {
    const size_t used = wf_char_at(s.at, s.n, &cp);
    if (cp != d->cp) break;
    s = (wf_str){s.at + used, s.n - used};
  }
  for (size_t i = 0; i < d->stop && s.n; i++) {
    const size_t used = wf_char_before(s.at, s.n, &cp);
    if (cp != d->cp) break;
    s.n -= used;
  }
  wf_buf_add_str(out, s);
}

static void add_metaspace(wf_buf *out, wf_str s, const wf_decoder *d, bool is_first) {
  for (size_t at = 0; at < s.n;) {
    uint32_t cp;
    const size_t used = wf_char_at(s.at + at, s.n - at, &cp);
    if (cp != d->cp) {
      wf_buf_add(out, s.at + at, used);
    } else if (!(is_first && d->drop_first)) {
      wf_buf_putc(out, ' ');
    }
    at += used;
  }
}

static void replace_all(wf_buf *b, size_t from, const char *what, const char *with) {
  const wf_str needle = wf_str_of(what), to = wf_str_of(with);
  /* Every replacement is shorter or as long, so the text closes up in place. */
  size_t out = from;
  for (size_t at = from; at < b->n;) {
    if (b->n - at >= needle.n && memcmp(b->at + at, needle.at, needle.n) == 0) {
      memcpy(b->at + out, to.at, to.n);
      out += to.n;
      at += needle.n;
    } else {
      b->at[out++] = b->at[at++];
    }
  }
  b->n = out;
}

static void add_wordpiece(wf_buf *out, wf_str s, const wf_decoder *d, bool is_first) {
  const size_t from = out->n;
  if (!is_first) {
    if (wf_str_starts(s, d->content)) {
      s = (wf_str){s.at + d->content.n, s.n - d->content.n};
    } else {
      wf_buf_putc(out, ' ');
    }
  }
  wf_buf_add_str(out, s);
  if (!d->cleanup || out->failed) return;
  static const char *const rows[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                        {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                        {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                        {" 've", "'ve"}, {" 're", "'re"}};
  for (size_t i = 0; i < WF_ARRAY_LEN(rows); i++) replace_all(out, from, rows[i][0], rows[i][1]);
}

static void add_suffixed(wf_buf *out, wf_str s, const wf_decoder *d, bool is_last) {
  if (d->content.n == 0) {
    wf_buf_add_str(out, s);
    return;
  }
  for (size_t at = 0; at < s.n;) {
    const size_t hit = wf_str_find(s, d->content, at);
    const size_t end = hit == SIZE_MAX ? s.n : hit;
    wf_buf_add(out, s.at + at, end - at);
    if (hit == SIZE_MAX) return;
    if (!is_last) wf_buf_putc(out, ' ');
    at = hit + d->content.n;
  }
}

/* Runs of byte tokens: one item when they are well-formed, else a U+FFFD for each byte. */
static void run_byte_fallback(const chain *from, chain *to) {
  wf_buf bytes = {0};
  for (size_t i = 0; i <= from->items.n; i++) {
    const int byte = i < from->items.n ? byte_token(item_text(from, i)) : -1;
    if (byte >= 0) {
      wf_buf_putc(&bytes, (char)byte);
      continue;
    }
    if (bytes.n) {
      const size_t at = to->text.n;
      if (wf_utf8_is_valid(bytes.at, bytes.n)) {
        wf_buf_add(&to->text, bytes.at, bytes.n);
        end_item(to, at, false);
      } else {
        for (size_t k = 0; k < bytes.n; k++) {
          const size_t one = to->text.n;
          wf_buf_puts(&to->text, "\xef\xbf\xbd");
          end_item(to, one, false);
        }
      }
      wf_buf_clear(&bytes);
    }
    if (i == from->items.n) break;
    const size_t at = to->text.n;
    wf_buf_add_str(&to->text, item_text(from, i));
    end_item(to, at, from->items.at[i].literal);
  }
  if (bytes.failed) to->failed = true;
  wf_buf_deinit(&bytes);
}

static void run_joined(const chain *from, chain *to, bool byte_level) {
  if (!byte_level) {
    wf_buf_add(&to->text, from->text.at, from->text.n);
  } else {
    wf_buf bytes = {0};
    for (size_t i = 0; i < from->items.n; i++) {
      if (from->items.at[i].literal) {
        wf_buf_add_str(&bytes, item_text(from, i));
      } else {
        add_byte_level(&bytes, item_text(from, i));
      }
    }
    add_lossy(&to->text, bytes.at, bytes.n);
    if (bytes.failed) to->failed = true;
    wf_buf_deinit(&bytes);
  }
  end_item(to, 0, false);
}

static weft_status run_one(const wf_decoder *d, const chain *from, chain *to, weft_error *err) {
  if (d->kind == WF_DECODER_BYTE_FALLBACK) {
    run_byte_fallback(from, to);
    return WEFT_OK;
  }
  if (d->kind == WF_DECODER_BYTE_LEVEL || d->kind == WF_DECODER_FUSE) {
    run_joined(from, to, d->kind == WF_DECODER_BYTE_LEVEL);
    return WEFT_OK;
  }
  for (size_t i = 0; i < from->items.n; i++) {
    const wf_str s = item_text(from, i);
    const size_t at = to->text.n;
    if (d->kind == WF_DECODER_REPLACE) {
      WF_RETURN_IF_ERROR(add_replaced(&to->text, s, d, err));
    } else if (d->kind == WF_DECODER_STRIP) {
      add_stripped(&to->text, s, d);
    } else if (d->kind == WF_DECODER_METASPACE) {
      add_metaspace(&to->text, s, d, i == 0);
    } else if (d->kind == WF_DECODER_WORDPIECE) {
      add_wordpiece(&to->text, s, d, i == 0);
    } else {
      add_suffixed(&to->text, s, d, i + 1 == from->items.n);
    }
    end_item(to, at, from->items.at[i].literal);
  }
  return WEFT_OK;
}

weft_status wf_check_id(const wf_tokenizer *t, int32_t id, weft_error *err) {
  if (id >= 0 && (size_t)id < t->n_ids && wf_tokenizer_token_text(t, id).at) return WEFT_OK;
  return wf_fail(err, WEFT_INVALID_ARGUMENT, "use ids that this tokenizer made",
                 "token id %d is not in the vocabulary of %zu ids", (int)id, t->n_ids);
}

weft_status wf_tokenizer_decode(const wf_tokenizer *t, const int32_t *ids, size_t n_ids,
                                bool skip_special, wf_buf *out, weft_error *err) {
  weft_status st = WEFT_OK;
  chain a = {0}, b = {0};
  for (size_t i = 0; i < n_ids; i++) {
    WF_TRY(wf_check_id(t, ids[i], err));
    if (skip_special && wf_tokenizer_is_special(t, ids[i])) continue;
    if (!t->has_decoder && a.items.n) wf_buf_putc(&a.text, ' ');
    const size_t at = a.text.n;
    wf_buf_add_str(&a.text, wf_tokenizer_token_text(t, ids[i]));
    end_item(&a, at, wf_tokenizer_is_added(t, ids[i]));
  }
  for (size_t i = 0; i < t->decoders.n && a.items.n; i++) {
    wf_buf_clear(&b.text);
    b.items.n = 0;
    WF_TRY(run_one(&t->decoders.at[i], &a, &b, err));
    const chain swap = a;
    a = b;
    b = swap;
  }
  wf_buf_add(out, a.text.at, a.text.n);
  if (a.failed || b.failed || out->failed) st = wf_fail_memory(err, a.text.n, "decoded text");
out:
  chain_deinit(&a);
  chain_deinit(&b);
  return st;
}

/* ---- One token at a time ---- */

const wf_decoder *wf_decode_final_strip(const wf_tokenizer *t) {
  bool joined = false;
  for (size_t i = 0; i < t->decoders.n; i++) {
    const wf_decoder *d = &t->decoders.at[i];
    if (joined && d->kind == WF_DECODER_STRIP) return d;
    joined = joined || d->kind == WF_DECODER_FUSE || d->kind == WF_DECODER_BYTE_LEVEL;
  }
  return NULL;
}

bool wf_decode_looks_ahead(const wf_tokenizer *t) {
  for (size_t i = 0; i < t->decoders.n; i++) {
    if (t->decoders.at[i].kind == WF_DECODER_BPE) return true;
  }
  return false;
}

weft_status wf_decode_token(const wf_tokenizer *t, int32_t id, bool is_first, wf_buf *out,
                            wf_buf *scratch, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_check_id(t, id, err));
  const size_t from = out->n;
  if (!t->has_decoder && !is_first) wf_buf_putc(out, ' ');
  wf_buf_add_str(out, wf_tokenizer_token_text(t, id));
  const bool literal = wf_tokenizer_is_added(t, id);
  bool joined = false, is_byte = false;
  for (size_t i = 0; i < t->decoders.n && !out->failed; i++) {
    const wf_decoder *d = &t->decoders.at[i];
    if (d->kind == WF_DECODER_FUSE || (joined && d->kind == WF_DECODER_STRIP)) {
      joined = true;
      continue;
    }
    wf_buf_clear(scratch);
    wf_buf_add(scratch, out->at + from, out->n - from);
    const wf_str s = {scratch->at ? scratch->at : "", scratch->n};
    out->n = from;
    switch (d->kind) {
      case WF_DECODER_BYTE_LEVEL:
        joined = true;
        if (literal) {
          wf_buf_add_str(out, s);
        } else {
          add_byte_level(out, s);
        }
        break;
      case WF_DECODER_BYTE_FALLBACK: {
        const int byte = byte_token(s);
        is_byte = is_byte || byte >= 0;
        if (byte >= 0) {
          wf_buf_putc(out, (char)byte);
        } else {
          wf_buf_add_str(out, s);
        }
        break;
      }
      case WF_DECODER_REPLACE:
        /* A lone byte of a character is no text yet for a later pattern to look at. */
        if (is_byte) {
          wf_buf_add_str(out, s);
        } else {
          WF_RETURN_IF_ERROR(add_replaced(out, s, d, err));
        }
        break;
      case WF_DECODER_STRIP:
        add_stripped(out, s, d);
        break;
      case WF_DECODER_METASPACE:
        add_metaspace(out, s, d, is_first);
        break;
      case WF_DECODER_WORDPIECE:
        add_wordpiece(out, s, d, is_first);
        break;
      case WF_DECODER_BPE:
        add_suffixed(out, s, d, false);
        break;
      case WF_DECODER_FUSE:
        break;
    }
  }
  return out->failed || scratch->failed ? wf_fail_memory(err, out->n, "decoded text") : WEFT_OK;
}

weft_status wf_tokenizer_token_bytes(const wf_tokenizer *t, int32_t id, wf_buf *out,
                                     weft_error *err) {
  wf_buf scratch = {0};
  const weft_status st = wf_tokenizer_token_bytes_with(t, id, out, &scratch, err);
  wf_buf_deinit(&scratch);
  return st;
}

weft_status wf_tokenizer_token_bytes_with(const wf_tokenizer *t, int32_t id, wf_buf *out,
                                          wf_buf *scratch, weft_error *err) {
  return wf_decode_token(t, id, false, out, scratch, err);
}
