/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-pair encoding: the pair of lowest rank merges first, the leftmost of equals. Short pieces
 * are searched directly, long ones through a heap over a linked list, so that a run of 200,000
 * letters without a space stays at n log n. */
#include "text/tokenizer_internal.h"

#define SHORT_PIECE 32

static weft_status no_memory(weft_error *err) {
  return wf_fail_memory(err, sizeof(wf_symbol), "the merges of a text");
}

static bool push_symbol(wf_call *c, int32_t id, uint32_t len) {
  const wf_symbol s = {id, len, 0, 0};
  return wf_vec_push(&c->symbols, s);
}

/* An unknown stretch that is still growing. */
typedef struct unknown {
  bool open;
  uint32_t len;
} unknown;

static weft_status add_unknown(wf_call *c, unknown *u, uint32_t len, weft_error *err) {
  const wf_model *m = &c->t->model;
  if (!m->has_unk) return WEFT_OK; /* the reference drops what it cannot name */
  if (m->unk_id < 0) {
    return wf_fail(err, WEFT_TOKENIZER, "add the unknown token to the vocabulary",
                   "the unknown token '%.*s' is not in the vocabulary", (int)m->unk_token.n,
                   m->unk_token.at);
  }
  if (u->open && m->fuse_unk) {
    u->len += len;
    return WEFT_OK;
  }
  if (u->open && !push_symbol(c, m->unk_id, u->len)) return no_memory(err);
  *u = (unknown){true, len};
  return WEFT_OK;
}

/* The id of one character as the vocabulary spells it at this place, -1: none. */
static int32_t char_id(wf_call *c, const char *s, size_t n, bool first, bool last) {
  const wf_model *m = &c->t->model;
  const bool prefix = m->prefix.n && !first, suffix = m->suffix.n && last;
  int32_t id;
  if (!prefix && !suffix) {
    id = n == 1 ? m->vocab.ascii[(unsigned char)s[0] & 0x7f] : wf_vocab_find(&m->vocab, s, n);
  } else {
    wf_buf_clear(&c->word);
    if (prefix) wf_buf_add_str(&c->word, m->prefix);
    wf_buf_add(&c->word, s, n);
    if (suffix) wf_buf_add_str(&c->word, m->suffix);
    id = wf_vocab_find(&m->vocab, c->word.at, c->word.n);
  }
  return id >= 0 && wf_call_forbids(c, id) ? -1 : id;
}

/* Byte tokens for one character with its prefix and suffix, when all of them exist. */
static bool add_bytes(wf_call *c, const char *s, uint32_t n, bool first, bool last, bool *done) {
  const wf_model *m = &c->t->model;
  wf_str parts[3] = {{s, 0}, {s, n}, {s, 0}};
  if (!first) parts[0] = m->prefix;
  if (last) parts[2] = m->suffix;
  *done = false;
  for (int k = 0; k < 3; k++) {
    for (size_t i = 0; i < parts[k].n; i++) {
      const int32_t id = m->byte_ids[(unsigned char)parts[k].at[i]];
      if (id < 0)
        return true; /* a byte's token is that byte's text, however it is marked: never control */
    }
  }
  for (int k = 0; k < 3; k++) {
    for (size_t i = 0; i < parts[k].n; i++) {
      if (!push_symbol(c, m->byte_ids[(unsigned char)parts[k].at[i]], 1)) return false;
    }
  }
  *done = true;
  return true;
}

/* Characters to symbols. */
static weft_status split(wf_call *c, const char *s, uint32_t n, weft_error *err) {
  const wf_model *m = &c->t->model;
  unknown u = {false, 0};
  c->symbols.n = 0;
  for (uint32_t at = 0; at < n;) {
    uint32_t cp;
    const uint32_t used = (uint32_t)wf_char_at(s + at, n - at, &cp);
    const bool first = at == 0, last = at + used == n;
    const uint32_t begin = at;
    const int32_t id = char_id(c, s + at, used, first, last);
    at += used;
    if (id >= 0) {
      if (u.open && !push_symbol(c, m->unk_id, u.len)) return no_memory(err);
      u.open = false;
      if (!push_symbol(c, id, used)) return no_memory(err);
      continue;
    }
    if (m->byte_fallback) {
      bool done;
      if (!add_bytes(c, s + begin, used, first, last, &done)) return no_memory(err);
      if (done) continue;
    }
    WF_RETURN_IF_ERROR(add_unknown(c, &u, used, err));
  }
  if (u.open && !push_symbol(c, m->unk_id, u.len)) return no_memory(err);
  return WEFT_OK;
}

static const wf_merge *merge_of(const wf_call *c, int32_t left, int32_t right) {
  const wf_merge *m = wf_merges_get(&c->t->model.merges, left, right);
  return m && wf_call_forbids(c, m->id) ? NULL : m;
}

static void merge_short(wf_call *c) {
  wf_symbol *s = c->symbols.at;
  size_t n = c->symbols.n;
  const wf_merge *next[SHORT_PIECE];
  for (size_t i = 0; i + 1 < n; i++) next[i] = merge_of(c, s[i].id, s[i + 1].id);
  while (n > 1) {
    size_t best = SIZE_MAX;
    for (size_t i = 0; i + 1 < n; i++) {
      if (next[i] && (best == SIZE_MAX || next[i]->rank < next[best]->rank)) best = i;
    }
    if (best == SIZE_MAX) break;
    s[best].id = next[best]->id;
    s[best].len += s[best + 1].len;
    n--;
    memmove(s + best + 1, s + best + 2, (n - best - 1) * sizeof *s);
    memmove(next + best, next + best + 1, (n - best - 1) * sizeof *next);
    next[best] = best + 1 < n ? merge_of(c, s[best].id, s[best + 1].id) : NULL;
    if (best > 0) next[best - 1] = merge_of(c, s[best - 1].id, s[best].id);
  }
  c->symbols.n = n;
}

static void sift_down(wf_heap_row *h, size_t n, size_t i) {
  const wf_heap_row x = h[i];
  for (;;) {
    size_t kid = 2 * i + 1;
    if (kid >= n) break;
    if (kid + 1 < n && h[kid + 1].key < h[kid].key) kid++;
    if (h[kid].key >= x.key) break;
    h[i] = h[kid];
    i = kid;
  }
  h[i] = x;
}

static bool push_heap(wf_call *c, size_t at, size_t right) {
  const wf_symbol *s = c->symbols.at;
  const wf_merge *m = merge_of(c, s[at].id, s[right].id);
  if (!m) return true;
  const wf_heap_row row = {(uint64_t)m->rank << 32 | (uint32_t)at, m->id};
  if (!wf_vec_push(&c->heap, row)) return false;
  wf_heap_row *h = c->heap.at;
  size_t i = c->heap.n - 1;
  while (i > 0 && h[(i - 1) / 2].key > row.key) {
    h[i] = h[(i - 1) / 2];
    i = (i - 1) / 2;
  }
  h[i] = row;
  return true;
}

static weft_status merge_long(wf_call *c, weft_error *err) {
  wf_symbol *s = c->symbols.at;
  const size_t n = c->symbols.n;
  c->heap.n = 0;
  for (size_t i = 0; i < n; i++) {
    s[i].prev = (int32_t)i - 1;
    s[i].next = i + 1 < n ? (int32_t)i + 1 : -1;
  }
  for (size_t i = 0; i + 1 < n; i++) {
    if (!push_heap(c, i, i + 1)) return no_memory(err);
  }
  while (c->heap.n) {
    const wf_heap_row top = c->heap.at[0];
    c->heap.at[0] = c->heap.at[--c->heap.n];
    if (c->heap.n) sift_down(c->heap.at, c->heap.n, 0);
    const size_t at = (uint32_t)top.key;
    if (s[at].len == 0 || s[at].next < 0) continue;
    const size_t right = (size_t)s[at].next;
    /* An entry outlives its pair: either neighbour may have merged since. */
    const wf_merge *m = merge_of(c, s[at].id, s[right].id);
    if (!m || m->id != top.id) continue;
    s[at].id = top.id;
    s[at].len += s[right].len;
    s[at].next = s[right].next;
    s[right].len = 0;
    if (s[at].next >= 0) s[s[at].next].prev = (int32_t)at;
    if (s[at].prev >= 0 && !push_heap(c, (size_t)s[at].prev, at)) return no_memory(err);
    if (s[at].next >= 0 && !push_heap(c, at, (size_t)s[at].next)) return no_memory(err);
  }
  size_t kept = 0;
  for (size_t i = 0; i < n; i++) {
    if (s[i].len) s[kept++] = s[i];
  }
  c->symbols.n = kept;
  return WEFT_OK;
}

weft_status wf_bpe_encode(wf_call *c, weft_error *err) {
  const wf_model *m = &c->t->model;
  const char *s = c->doc.text.at + c->piece.begin;
  const uint32_t n = c->piece.end - c->piece.begin;
  if (m->ignore_merges) {
    const int32_t id = wf_vocab_find(&m->vocab, s, n);
    if (id >= 0 && !wf_call_forbids(c, id)) return wf_call_emit(c, id, 0, n, NULL, err);
  }
  WF_RETURN_IF_ERROR(split(c, s, n, err));
  if (c->symbols.n <= SHORT_PIECE) {
    merge_short(c);
  } else {
    WF_RETURN_IF_ERROR(merge_long(c, err));
  }
  /* Positions count what the symbols cover, so that a dropped character shifts those after it: so
   * do the reference's. */
  uint32_t at = 0;
  for (size_t i = 0; i < c->symbols.n; i++) {
    const wf_symbol *x = &c->symbols.at[i];
    WF_RETURN_IF_ERROR(wf_call_emit(c, x->id, at, at + x->len, NULL, err));
    at += x->len;
  }
  return WEFT_OK;
}
