/* SPDX-License-Identifier: Apache-2.0 */
/* Added tokens: their ids, and cutting them out of a text with the stripping and whole-word rules
 * of Hugging Face's AddedVocabulary. */
#include "text/tokenizer_internal.h"

static int32_t find_added(const wf_tokenizer *t, wf_str content) {
  uint32_t node = 0;
  for (size_t i = 0; i < content.n; i++) {
    node = wf_trie_step(&t->trie_all, node, (unsigned char)content.at[i]);
    if (node == 0) return -1;
  }
  return t->trie_all.values.n ? t->trie_all.values.at[node] : -1;
}

bool wf_added_has(const wf_tokenizer *t, wf_str content) { return find_added(t, content) >= 0; }

/* The id a new token gets: one past the largest added id, but never inside the model's count. */
static int32_t next_id(const wf_tokenizer *t) {
  const int32_t n_model = (int32_t)t->model.vocab.n_strings;
  const int32_t max = t->max_added;
  return max >= n_model || (n_model == 0 && max >= 0) ? max + 1 : n_model;
}

weft_status wf_added_put(wf_tokenizer *t, const wf_added *a, weft_error *err) {
  if (a->content.n == 0) return WEFT_OK;
  wf_added mine = *a;
  /* Only a token that no vocabulary string names can need the slow look through the list. */
  mine.id = wf_vocab_find(&t->model.vocab, a->content.at, a->content.n);
  const int32_t old = find_added(t, a->content);
  if (old >= 0) mine.id = t->added.at[old].id;
  if (mine.id < 0) mine.id = next_id(t);
  if (old >= 0) {
    mine.special |= t->added.at[old].special; /* once special, always, as in the reference */
    t->added.at[old] = mine;
    return WEFT_OK;
  }
  if (!wf_trie_put(&t->trie_all, mine.content.at, mine.content.n, (int32_t)t->added.n, true) ||
      !wf_vec_push(&t->added, mine)) {
    return wf_fail_memory(err, sizeof mine, "an added token");
  }
  if (mine.id > t->max_added) t->max_added = mine.id;
  return WEFT_OK;
}

/* The longest token that starts at s[at] and that the caller may have; -1 when there is none. */
static int32_t longest_at(const wf_call *c, const wf_doc *d, const wf_trie *trie, uint32_t at,
                          uint32_t end, uint32_t *stop) {
  const char *s = d->text.at;
  int32_t best = -1;
  uint32_t node = 0;
  for (uint32_t i = at; i < end; i++) {
    node = wf_trie_step(trie, node, (unsigned char)s[i]);
    if (node == 0) break;
    const int32_t value = trie->values.at[node];
    if (value < 0) continue;
    const int32_t id = c->t->added.at[value].id;
    if (c->any_content && c->control && c->control[id] && wf_call_is_content(c, d, at, i + 1)) {
      continue;
    }
    best = value;
    *stop = i + 1;
  }
  return best;
}

static bool is_whole_word(const char *s, uint32_t begin, uint32_t end, uint32_t at, uint32_t stop) {
  uint32_t cp;
  if (at > begin) {
    (void)wf_char_before(s + begin, at - begin, &cp);
    if (wf_char_is_word(cp)) return false;
  }
  if (stop < end) {
    (void)wf_char_at(s + stop, end - stop, &cp);
    if (wf_char_is_word(cp)) return false;
  }
  return true;
}

static void push_range(wf_call *c, wf_piece p, uint32_t begin, uint32_t end, int32_t id) {
  if (begin == end) return;
  const wf_doc *d = &c->doc;
  const uint32_t origin = d->is_aligned      ? d->align.at[begin].begin
                          : begin == p.begin ? p.origin
                                             : p.origin + 1;
  wf_doc_push(&c->next, (wf_piece){begin, end, origin, id});
}

/* Cuts one piece. The scan goes on after the token itself, not after the space it strips, and
 * `done` may fall back, both as in the reference. */
static void match_piece(wf_call *c, wf_piece p, const wf_trie *trie, const uint8_t *first) {
  const char *s = c->doc.text.at;
  uint32_t done = p.begin;
  for (uint32_t at = p.begin; at < p.end;) {
    uint32_t stop = 0;
    const int32_t hit =
        first[(unsigned char)s[at]] ? longest_at(c, &c->doc, trie, at, p.end, &stop) : -1;
    if (hit < 0) {
      at++;
      continue;
    }
    const wf_added *a = &c->t->added.at[hit];
    uint32_t begin = at;
    at = stop;
    if (a->single_word && !is_whole_word(s, p.begin, p.end, begin, stop)) continue;
    uint32_t cp;
    if (a->lstrip) {
      while (begin > p.begin) {
        const uint32_t back = (uint32_t)wf_char_before(s + p.begin, begin - p.begin, &cp);
        if (!wf_char_is_space(cp)) break;
        begin -= back;
      }
      if (begin < done) begin = done;
    }
    if (a->rstrip) {
      while (stop < p.end) {
        const uint32_t used = (uint32_t)wf_char_at(s + stop, p.end - stop, &cp);
        if (!wf_char_is_space(cp)) break;
        stop += used;
      }
    }
    if (done < begin) push_range(c, p, done, begin, -1);
    push_range(c, p, begin, stop, a->id);
    done = stop;
  }
  if (done < p.end) push_range(c, p, done, p.end, -1);
}

weft_status wf_added_match(wf_call *c, bool normalized, weft_error *err) {
  const wf_trie *trie = normalized ? &c->t->trie_normalized : &c->t->trie_raw;
  if (!trie->keys) return WEFT_OK;
  c->next.pieces.n = 0;
  for (size_t i = 0; i < c->doc.pieces.n; i++) {
    const wf_piece p = c->doc.pieces.at[i];
    if (p.id >= 0) {
      wf_doc_push(&c->next, p);
    } else {
      match_piece(c, p, trie, normalized ? c->t->first_normalized : c->t->first_raw);
    }
  }
  if (c->next.failed) return wf_fail_memory(err, sizeof(wf_piece), "the pieces of a text");
  /* Only the pieces changed: they move, the text stays. */
  wf_piece *at = c->doc.pieces.at;
  const size_t capacity = c->doc.pieces.capacity;
  c->doc.pieces.at = c->next.pieces.at;
  c->doc.pieces.n = c->next.pieces.n;
  c->doc.pieces.capacity = c->next.pieces.capacity;
  c->next.pieces.at = at;
  c->next.pieces.n = 0;
  c->next.pieces.capacity = capacity;
  return WEFT_OK;
}

void wf_tokenizer_control_fill(const wf_tokenizer *t, uint8_t *flags) {
  if (t->n_ids) memcpy(flags, t->control, t->n_ids);
}

static bool is_blank(wf_str s) {
  for (size_t at = 0; at < s.n;) {
    uint32_t cp;
    at += wf_char_at(s.at + at, s.n - at, &cp);
    if (!wf_char_is_space(cp)) return false;
  }
  return true;
}

void wf_tokenizer_control_mark(const wf_tokenizer *t, wf_str literal, uint8_t *flags) {
  for (size_t at = 0; at < literal.n; at++) {
    uint32_t node = 0;
    for (size_t i = at; i < literal.n; i++) {
      node = wf_trie_step(&t->trie_all, node, (unsigned char)literal.at[i]);
      if (node == 0) break;
      const int32_t value = t->trie_all.values.at[node];
      if (value >= 0 && !is_blank(t->added.at[value].content)) {
        flags[t->added.at[value].id] = 1;
      }
    }
  }
}
