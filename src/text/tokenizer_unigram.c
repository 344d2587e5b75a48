/* SPDX-License-Identifier: Apache-2.0 */
/* The unigram model: the segmentation with the highest sum of scores, by dynamic programming over
 * the piece's bytes (Kudo 2018, as SentencePiece's optimised encoder does it). */
#include <float.h>

#include "text/tokenizer_internal.h"

/* How much an unknown character costs beyond the worst token. */
#define UNKNOWN_PENALTY 10.0

static void relax(const wf_model *m, wf_node *to, double score, uint32_t start, int32_t id) {
  if (m->single_precision) score = (double)(float)score;
  if (to->start == UINT32_MAX || score > to->score) *to = (wf_node){score, id, start};
}

static weft_status no_unknown(weft_error *err) {
  return wf_fail(err, WEFT_TOKENIZER, "give the unigram model an unk_id",
                 "the text holds a character that is not in the vocabulary, and the model has no "
                 "unknown token");
}

/* Fills c->nodes: the best way to reach each position. */
static weft_status search(wf_call *c, const char *s, uint32_t n, weft_error *err) {
  const wf_model *m = &c->t->model;
  c->nodes.n = 0;
  if (!wf_vec_reserve(&c->nodes, (size_t)n + 1)) {
    return wf_fail_memory(err, n * sizeof(wf_node), "the pieces of a text");
  }
  wf_node *nodes = c->nodes.at;
  double unknown = m->min_score - UNKNOWN_PENALTY;
  if (m->single_precision) unknown = (double)(float)unknown;
  for (uint32_t i = 0; i <= n; i++) nodes[i] = (wf_node){0.0, -1, UINT32_MAX};
  for (uint32_t at = 0; at < n;) {
    uint32_t cp;
    const uint32_t used = (uint32_t)wf_char_at(s + at, n - at, &cp);
    const double so_far = nodes[at].score;
    bool has_single = false;
    uint32_t node = 0;
    for (uint32_t i = at; i < n; i++) {
      node = wf_trie_step(&m->trie, node, (unsigned char)s[i]);
      if (node == 0) break;
      const int32_t id = m->trie.values.at[node];
      if (id < 0 || wf_call_forbids(c, id)) continue;
      relax(m, &nodes[i + 1], so_far + m->scores[id], at, id);
      if (i + 1 - at == used) has_single = true;
    }
    if (!has_single) {
      if (m->unk_id < 0) return no_unknown(err);
      relax(m, &nodes[at + used], so_far + unknown, at, m->unk_id);
    }
    at += used;
  }
  return WEFT_OK;
}

static weft_status emit(wf_call *c, const char *s, uint32_t begin, uint32_t end, weft_error *err) {
  const wf_model *m = &c->t->model;
  const wf_str text = {s + begin, end - begin};
  const int32_t id = wf_vocab_find(&m->vocab, text.at, text.n);
  if (id >= 0 && !wf_call_forbids(c, id)) return wf_call_emit(c, id, begin, end, &text, err);
  if (m->byte_fallback) {
    bool all = true;
    for (size_t i = 0; i < text.n; i++) {
      const int32_t byte = m->byte_ids[(unsigned char)text.at[i]];
      all = all && byte >= 0; /* a byte's token is text, however it is marked: never control */
    }
    if (all) {
      for (size_t i = 0; i < text.n; i++) {
        WF_RETURN_IF_ERROR(
            wf_call_emit(c, m->byte_ids[(unsigned char)text.at[i]], begin, end, NULL, err));
      }
      return WEFT_OK;
    }
  }
  if (m->unk_id < 0) return no_unknown(err);
  return wf_call_emit(c, m->unk_id, begin, end, &text, err);
}

weft_status wf_unigram_encode(wf_call *c, weft_error *err) {
  const wf_model *m = &c->t->model;
  const char *s = c->doc.text.at + c->piece.begin;
  const uint32_t n = c->piece.end - c->piece.begin;
  WF_RETURN_IF_ERROR(search(c, s, n, err));
  /* Backwards along the best path; neighbouring unknowns become one. */
  c->stack.n = 0;
  bool in_unknown = false;
  for (uint32_t end = n; end > 0;) {
    const wf_node *x = &c->nodes.at[end];
    const bool unknown = m->fuse_unk && x->id == m->unk_id;
    if (!(unknown && in_unknown) && !wf_vec_push(&c->stack, end)) {
      return wf_fail_memory(err, sizeof(uint32_t), "the pieces of a text");
    }
    in_unknown = unknown;
    end = x->start;
  }
  uint32_t begin = 0;
  for (size_t i = c->stack.n; i-- > 0;) {
    WF_RETURN_IF_ERROR(emit(c, s, begin, c->stack.at[i], err));
    begin = c->stack.at[i];
  }
  return WEFT_OK;
}
