/* SPDX-License-Identifier: Apache-2.0 */
/* The text under way: bytes, where each came from, and the pieces it is cut into. */
#include "base/utf8.h"
#include "text/tokenizer_internal.h"

void wf_doc_deinit(wf_doc *d) {
  wf_buf_deinit(&d->text);
  wf_vec_free(&d->align);
  wf_vec_free(&d->pieces);
}

void wf_doc_clear(wf_doc *d) {
  wf_buf_clear(&d->text);
  d->align.n = 0;
  d->pieces.n = 0;
}

void wf_doc_push(wf_doc *d, wf_piece p) {
  if (p.begin == p.end) return;
  if (!wf_vec_push(&d->pieces, p)) d->failed = true;
}

wf_rewrite wf_rewrite_begin(const wf_doc *from, wf_doc *to, wf_piece p) {
  return (wf_rewrite){from, to, p, p.begin, (uint32_t)to->text.n};
}

static void skip_char(wf_rewrite *w) {
  if (w->at >= w->piece.end) return;
  uint32_t cp;
  w->at += (uint32_t)wf_char_at(w->from->text.at + w->at, w->piece.end - w->at, &cp);
}

void wf_rewrite_drop(wf_rewrite *w, size_t n_chars) {
  if (!w->from->is_aligned) return;
  while (n_chars--) skip_char(w);
}

static void add_bytes(wf_doc *d, const char *s, size_t n) {
  const size_t limit = d->limit_bytes && d->limit_bytes < UINT32_MAX ? d->limit_bytes : UINT32_MAX;
  if (n >= limit || d->text.n + n >= limit) {
    d->failed = d->outgrew = true;
    return;
  }
  wf_buf_add(&d->text, s, n);
  if (d->text.failed) d->failed = true;
}

void wf_rewrite_char(wf_rewrite *w, uint32_t cp, int change) {
  char utf8[4];
  const size_t n = wf_utf8_encode(cp, utf8);
  add_bytes(w->to, utf8, n);
  if (!w->from->is_aligned || w->to->failed) return;
  wf_align a;
  const wf_align *rows = w->from->align.at;
  if (change > 0) {
    /* A new character lies where the one before it lies. */
    a = w->at > w->piece.begin ? rows[w->at - 1] : (wf_align){w->piece.origin, w->piece.origin};
  } else {
    a = rows[w->at < w->piece.end ? w->at : w->piece.end - 1];
    for (int i = 0; i <= -change; i++) skip_char(w);
  }
  if (!wf_vec_reserve(&w->to->align, n)) {
    w->to->failed = true;
    return;
  }
  for (size_t i = 0; i < n; i++) w->to->align.at[w->to->align.n++] = a;
}

void wf_rewrite_copy(wf_rewrite *w, size_t n_bytes) {
  add_bytes(w->to, w->from->text.at + w->at, n_bytes);
  if (w->from->is_aligned && !w->to->failed) {
    if (!wf_vec_reserve(&w->to->align, n_bytes)) {
      w->to->failed = true;
      return;
    }
    if (n_bytes) {
      memcpy(w->to->align.at + w->to->align.n, w->from->align.at + w->at,
             n_bytes * sizeof *w->to->align.at);
    }
    w->to->align.n += n_bytes;
  }
  w->at += (uint32_t)n_bytes;
}

void wf_rewrite_end(wf_rewrite *w) {
  wf_doc_push(w->to, (wf_piece){w->begin, (uint32_t)w->to->text.n, w->piece.origin, w->piece.id});
}

void wf_doc_copy_piece(const wf_doc *from, wf_doc *to, wf_piece p) {
  wf_rewrite w = wf_rewrite_begin(from, to, p);
  wf_rewrite_copy(&w, p.end - p.begin);
  wf_rewrite_end(&w);
}

static void push_part(wf_doc *d, wf_doc *out, wf_piece p, uint32_t begin, uint32_t end) {
  if (begin == end) return;
  const uint32_t origin = d->is_aligned ? d->align.at[p.begin + begin].begin
                          : begin == 0  ? p.origin
                                        : p.origin + 1; /* only "is it the start" is asked */
  wf_doc_push(out, (wf_piece){p.begin + begin, p.begin + end, origin, -1});
}

/* Joins matches to neighbours as the behaviour says; `m` in text order. */
static bool merge_matches(const wf_matches *m, wf_behavior behavior, wf_matches *out) {
  out->n = 0;
  if (!wf_vec_reserve(out, m->n)) return false;
  bool previous = false;
  const bool backwards = behavior == WF_SPLIT_MERGED_WITH_NEXT;
  for (size_t i = 0; i < m->n; i++) {
    const wf_match x = m->at[backwards ? m->n - 1 - i : i];
    const bool join =
        behavior == WF_SPLIT_CONTIGUOUS ? x.is_match == previous : x.is_match && !previous;
    if (join && out->n) {
      if (backwards) {
        out->at[out->n - 1].begin = x.begin;
      } else {
        out->at[out->n - 1].end = x.end;
      }
    } else {
      out->at[out->n++] = (wf_match){x.begin, x.end, false};
    }
    previous = x.is_match;
  }
  return true;
}

void wf_doc_split(wf_doc *d, wf_piece p, wf_matches *m, wf_behavior behavior, wf_matches *scratch,
                  wf_doc *out) {
  if (behavior == WF_SPLIT_REMOVED || behavior == WF_SPLIT_ISOLATED) {
    for (size_t i = 0; i < m->n; i++) {
      if (behavior == WF_SPLIT_REMOVED && m->at[i].is_match) continue;
      push_part(d, out, p, m->at[i].begin, m->at[i].end);
    }
    return;
  }
  if (!merge_matches(m, behavior, scratch)) {
    out->failed = true;
    return;
  }
  for (size_t i = 0; i < scratch->n; i++) {
    const size_t at = behavior == WF_SPLIT_MERGED_WITH_NEXT ? scratch->n - 1 - i : i;
    push_part(d, out, p, scratch->at[at].begin, scratch->at[at].end);
  }
}
