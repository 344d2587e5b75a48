/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-tokenizers: cut the text pieces of a document, some after rewriting them. */
#include "base/utf8.h"
#include "text/tokenizer_internal.h"

static void take_pieces(wf_call *c) {
  /* Only the pieces are new: they change places, the text stays. */
  wf_piece *at = c->doc.pieces.at;
  const size_t capacity = c->doc.pieces.capacity;
  c->doc.pieces.at = c->next.pieces.at;
  c->doc.pieces.n = c->next.pieces.n;
  c->doc.pieces.capacity = c->next.pieces.capacity;
  c->next.pieces.at = at;
  c->next.pieces.n = 0;
  c->next.pieces.capacity = capacity;
}

static weft_status pieces_done(wf_call *c, weft_error *err) {
  if (c->next.failed) return wf_fail_memory(err, sizeof(wf_piece), "the pieces of a text");
  take_pieces(c);
  return WEFT_OK;
}

weft_status wf_call_split_regex(wf_call *c, const wf_regex *r, bool invert, wf_behavior behavior,
                                weft_error *err) {
  c->next.pieces.n = 0;
  for (size_t i = 0; i < c->doc.pieces.n; i++) {
    const wf_piece p = c->doc.pieces.at[i];
    if (p.id >= 0) {
      wf_doc_push(&c->next, p);
      continue;
    }
    WF_RETURN_IF_ERROR(
        wf_regex_find(r, &c->regex, c->doc.text.at + p.begin, p.end - p.begin, &c->matches, err));
    for (size_t k = 0; invert && k < c->matches.n; k++) {
      c->matches.at[k].is_match = !c->matches.at[k].is_match;
    }
    wf_doc_split(&c->doc, p, &c->matches, behavior, &c->matches2, &c->next);
  }
  return pieces_done(c, err);
}

typedef bool class_fn(uint32_t cp, uint32_t arg);

static bool is_space(uint32_t cp, uint32_t arg) {
  (void)arg;
  return wf_char_is_space(cp);
}
static bool is_number(uint32_t cp, uint32_t arg) {
  (void)arg;
  return wf_char_is_number(cp);
}
static bool is_punctuation(uint32_t cp, uint32_t arg) {
  (void)arg;
  return wf_char_is_punctuation(cp);
}
static bool is_same(uint32_t cp, uint32_t arg) { return cp == arg; }

/* Each character of the class is a match of its own. */
static weft_status split_class(wf_call *c, class_fn *in_class, uint32_t arg, wf_behavior behavior,
                               weft_error *err) {
  c->next.pieces.n = 0;
  for (size_t i = 0; i < c->doc.pieces.n; i++) {
    const wf_piece p = c->doc.pieces.at[i];
    if (p.id >= 0) {
      wf_doc_push(&c->next, p);
      continue;
    }
    c->matches.n = 0;
    uint32_t last = 0;
    const uint32_t n = p.end - p.begin;
    for (uint32_t at = 0; at < n;) {
      uint32_t cp;
      const uint32_t used = (uint32_t)wf_char_at(c->doc.text.at + p.begin + at, n - at, &cp);
      if (in_class(cp, arg)) {
        const wf_match gap = {last, at, false}, hit = {at, at + used, true};
        if ((at > last && !wf_vec_push(&c->matches, gap)) || !wf_vec_push(&c->matches, hit)) {
          c->next.failed = true;
        }
        last = at + used;
      }
      at += used;
    }
    const wf_match tail = {last, n, false};
    if (last < n && !wf_vec_push(&c->matches, tail)) c->next.failed = true;
    if (!c->next.failed) {
      wf_doc_split(&c->doc, p, &c->matches, behavior, &c->matches2, &c->next);
    }
  }
  return pieces_done(c, err);
}

/* \w+|[^\w\s]+ : runs of word characters and runs of the rest, white space gone. */
static weft_status split_words(wf_call *c, weft_error *err) {
  c->next.pieces.n = 0;
  for (size_t i = 0; i < c->doc.pieces.n; i++) {
    const wf_piece p = c->doc.pieces.at[i];
    if (p.id >= 0) {
      wf_doc_push(&c->next, p);
      continue;
    }
    c->matches.n = 0;
    int run = 0; /* 0: space, 1: word, 2: the rest */
    wf_match m = {0, 0, false};
    const uint32_t n = p.end - p.begin;
    for (uint32_t at = 0; at < n;) {
      uint32_t cp;
      const uint32_t used = (uint32_t)wf_char_at(c->doc.text.at + p.begin + at, n - at, &cp);
      const int class = wf_char_is_word(cp) ? 1 : wf_char_is_space(cp) ? 0 : 2;
      if (class != run) {
        if (run && !wf_vec_push(&c->matches, m)) c->next.failed = true;
        m.begin = at;
        run = class;
      }
      at += used;
      m.end = at;
    }
    if (run && !wf_vec_push(&c->matches, m)) c->next.failed = true;
    if (!c->next.failed) {
      wf_doc_split(&c->doc, p, &c->matches, WF_SPLIT_ISOLATED, &c->matches2, &c->next);
    }
  }
  return pieces_done(c, err);
}

static weft_status split_length(wf_call *c, size_t length, weft_error *err) {
  c->next.pieces.n = 0;
  for (size_t i = 0; i < c->doc.pieces.n; i++) {
    const wf_piece p = c->doc.pieces.at[i];
    if (p.id >= 0) {
      wf_doc_push(&c->next, p);
      continue;
    }
    c->matches.n = 0;
    const uint32_t n = p.end - p.begin;
    for (uint32_t at = 0; at < n;) {
      wf_match m = {at, at, false};
      for (size_t k = 0; k < length && m.end < n; k++) {
        uint32_t cp;
        m.end += (uint32_t)wf_char_at(c->doc.text.at + p.begin + m.end, n - m.end, &cp);
      }
      if (!wf_vec_push(&c->matches, m)) c->next.failed = true;
      at = m.end;
    }
    if (!c->next.failed) {
      wf_doc_split(&c->doc, p, &c->matches, WF_SPLIT_ISOLATED, &c->matches2, &c->next);
    }
  }
  return pieces_done(c, err);
}

/* Puts `cp` in front of the rewritten piece: it takes the place of the first character, which then
 * counts as new (so both have the first character's offsets). Returns where the rest begins. */
static void rewrite_prefix(wf_rewrite *w, uint32_t cp, uint32_t first) {
  wf_rewrite_char(w, cp, 0);
  wf_rewrite_char(w, first, 1);
}

static weft_status rewrite_metaspace(wf_call *c, const wf_pretok *t, weft_error *err) {
  for (size_t i = 0; i < c->doc.pieces.n; i++) {
    const wf_piece p = c->doc.pieces.at[i];
    if (p.id >= 0) {
      wf_doc_copy_piece(&c->doc, &c->next, p);
      continue;
    }
    const char *s = c->doc.text.at;
    wf_rewrite w = wf_rewrite_begin(&c->doc, &c->next, p);
    for (uint32_t at = p.begin; at < p.end;) {
      uint32_t cp;
      const uint32_t used = (uint32_t)wf_char_at(s + at, p.end - at, &cp);
      if (cp == ' ') cp = t->cp;
      if (at == p.begin && cp != t->cp &&
          (t->prepend == WF_PREPEND_ALWAYS || (t->prepend == WF_PREPEND_FIRST && p.origin == 0))) {
        rewrite_prefix(&w, t->cp, cp);
      } else if (cp == t->cp && s[at] == ' ') {
        /* Replacing goes by "new after the match", which has the match's own offsets. */
        w.at = at + used;
        wf_rewrite_char(&w, cp, 1);
      } else {
        wf_rewrite_char(&w, cp, 0);
      }
      at += used;
      w.at = at;
    }
    wf_rewrite_end(&w);
  }
  return wf_call_swap(c, err);
}

static weft_status rewrite_bytes(wf_call *c, bool add_prefix_space, weft_error *err) {
  for (size_t i = 0; i < c->doc.pieces.n; i++) {
    const wf_piece p = c->doc.pieces.at[i];
    const char *s = c->doc.text.at;
    if (p.id >= 0 || (add_prefix_space && s[p.begin] == ' ')) {
      wf_doc_copy_piece(&c->doc, &c->next, p);
      continue;
    }
    wf_rewrite w = wf_rewrite_begin(&c->doc, &c->next, p);
    if (add_prefix_space) {
      uint32_t cp;
      const uint32_t used = (uint32_t)wf_char_at(s + p.begin, p.end - p.begin, &cp);
      rewrite_prefix(&w, ' ', cp);
      w.at = p.begin + used;
      wf_rewrite_copy(&w, p.end - w.at);
    } else {
      for (uint32_t at = p.begin; at < p.end;) {
        uint32_t cp;
        const uint32_t used = (uint32_t)wf_char_at(s + at, p.end - at, &cp);
        for (uint32_t k = 0; k < used; k++) {
          wf_rewrite_char(&w, wf_byte_to_char((unsigned char)s[at + k]), k > 0);
        }
        at += used;
      }
    }
    wf_rewrite_end(&w);
  }
  return wf_call_swap(c, err);
}

static weft_status byte_level(wf_call *c, const wf_pretok *t, weft_error *err) {
  if (t->add_prefix_space) WF_RETURN_IF_ERROR(rewrite_bytes(c, true, err));
  if (t->use_regex) {
    static const wf_regex gpt2 = {.kind = WF_SCAN_GPT2};
    WF_RETURN_IF_ERROR(wf_call_split_regex(c, &gpt2, false, WF_SPLIT_ISOLATED, err));
  }
  return rewrite_bytes(c, false, err);
}

weft_status wf_pretok_apply(wf_call *c, const wf_pretok *t, weft_error *err) {
  switch (t->kind) {
    case WF_PRETOK_BYTE_LEVEL:
      return byte_level(c, t, err);
    case WF_PRETOK_SPLIT:
      return wf_call_split_regex(c, t->regex, t->invert, t->behavior, err);
    case WF_PRETOK_METASPACE:
      WF_RETURN_IF_ERROR(rewrite_metaspace(c, t, err));
      return t->split ? split_class(c, is_same, t->cp, WF_SPLIT_MERGED_WITH_NEXT, err) : WEFT_OK;
    case WF_PRETOK_WHITESPACE:
      return split_words(c, err);
    case WF_PRETOK_WHITESPACE_SPLIT:
      return split_class(c, is_space, 0, WF_SPLIT_REMOVED, err);
    case WF_PRETOK_DIGITS:
      return split_class(c, is_number, 0, t->individual ? WF_SPLIT_ISOLATED : WF_SPLIT_CONTIGUOUS,
                         err);
    case WF_PRETOK_PUNCTUATION:
      return split_class(c, is_punctuation, 0, t->behavior, err);
    case WF_PRETOK_BERT:
      WF_RETURN_IF_ERROR(split_class(c, is_space, 0, WF_SPLIT_REMOVED, err));
      return split_class(c, is_punctuation, 0, WF_SPLIT_ISOLATED, err);
    case WF_PRETOK_DELIMITER:
      return split_class(c, is_same, t->cp, WF_SPLIT_REMOVED, err);
    case WF_PRETOK_FIXED_LENGTH:
      return split_length(c, t->length, err);
  }
  return WEFT_OK;
}
