/* SPDX-License-Identifier: Apache-2.0 */
/* The tokenizer as a whole: its life, its vocabulary, and the order of an encode call. */
#include "text/tokenizer.h"

#include "base/utf8.h"
#include "text/tokenizer_internal.h"

wf_tokenizer *wf_tokenizer_new(weft_error *err) {
  wf_tokenizer *t = wf_zalloc(sizeof *t);
  wf_arena *arena = wf_arena_create();
  if (!t || !arena) {
    wf_free(t);
    wf_arena_destroy(arena);
    (void)wf_fail_memory(err, sizeof *t, "a tokenizer");
    return NULL;
  }
  t->arena = arena;
  t->max_added = -1;
  t->model.unk_id = -1;
  for (int i = 0; i < 4; i++) t->roles[i] = -1;
  return t;
}

void wf_tokenizer_destroy(wf_tokenizer *t) {
  if (!t) return;
  for (size_t i = 0; i < t->norms.n; i++) wf_regex_destroy(t->norms.at[i].regex);
  for (size_t i = 0; i < t->pretoks.n; i++) wf_regex_destroy(t->pretoks.at[i].regex);
  for (size_t i = 0; i < t->decoders.n; i++) wf_regex_destroy(t->decoders.at[i].regex);
  wf_vec_free(&t->norms);
  wf_vec_free(&t->pretoks);
  wf_vec_free(&t->posts);
  wf_vec_free(&t->decoders);
  wf_vec_free(&t->added);
  wf_trie_deinit(&t->trie_all);
  wf_trie_deinit(&t->trie_raw);
  wf_trie_deinit(&t->trie_normalized);
  wf_trie_deinit(&t->model.trie);
  wf_merges_deinit(&t->model.merges);
  wf_vocab_deinit(&t->model.vocab);
  wf_free(t->model.scores);
  wf_free(t->added_at);
  wf_free(t->control);
  wf_arena_destroy(t->arena);
  wf_free(t);
}

wf_str wf_tokenizer_keep(wf_tokenizer *t, wf_str s) {
  const char *copy = wf_arena_strndup(t->arena, s.at ? s.at : "", s.n);
  return (wf_str){copy, copy ? s.n : 0};
}

/* ---- The vocabulary ---- */

size_t wf_tokenizer_vocab_size(const wf_tokenizer *t) { return t->n_ids; }

static const wf_added *added_of(const wf_tokenizer *t, int32_t id) {
  if (id < 0 || (size_t)id >= t->n_ids || t->added_at[id] < 0) return NULL;
  return &t->added.at[t->added_at[id]];
}

wf_str wf_tokenizer_token_text(const wf_tokenizer *t, int32_t id) {
  const wf_added *a = added_of(t, id);
  return a ? a->content : wf_vocab_text(&t->model.vocab, id);
}

int32_t wf_tokenizer_id_of(const wf_tokenizer *t, wf_str text) {
  uint32_t node = 0;
  for (size_t i = 0; i < text.n; i++) {
    node = wf_trie_step(&t->trie_all, node, (unsigned char)text.at[i]);
    if (node == 0) break;
  }
  if (node && t->trie_all.values.at[node] >= 0) {
    return t->added.at[t->trie_all.values.at[node]].id;
  }
  return wf_vocab_find(&t->model.vocab, text.at, text.n);
}

bool wf_tokenizer_is_special(const wf_tokenizer *t, int32_t id) {
  const wf_added *a = added_of(t, id);
  return a && a->special;
}

bool wf_tokenizer_is_added(const wf_tokenizer *t, int32_t id) { return added_of(t, id) != NULL; }

int32_t wf_tokenizer_role_id(const wf_tokenizer *t, wf_token_role role) { return t->roles[role]; }

bool wf_tokenizer_adds_bos(const wf_tokenizer *t) {
  const int32_t bos = t->roles[WF_TOKEN_BOS];
  for (size_t i = 0; i < t->posts.n; i++) {
    const wf_post *p = &t->posts.at[i];
    if (p->kind != WF_POST_TEMPLATE || p->n_single == 0) continue;
    const wf_post_part *part = &p->single[0];
    /* Without a named start token, whatever the template puts in front is one. */
    if (part->sequence < 0 && part->n_ids && (bos < 0 || part->ids[0] == bos)) return true;
  }
  return false;
}

/* Normalises an added token's own text, to find it in normalised text. */
static weft_status normalized_content(const wf_tokenizer *t, wf_str content, wf_buf *out,
                                      weft_error *err) {
  wf_call c = {.t = t};
  weft_status st = WEFT_OK;
  wf_buf_add_str(&c.doc.text, content);
  wf_doc_push(&c.doc, (wf_piece){0, (uint32_t)content.n, 0, -1});
  for (size_t i = 0; i < t->norms.n; i++) WF_TRY(wf_norm_apply(&c, &t->norms.at[i], err));
  wf_buf_clear(out);
  wf_buf_add(out, c.doc.text.at, c.doc.text.n);
  if (out->failed) st = wf_fail_memory(err, content.n, "an added token");
out:
  wf_doc_deinit(&c.doc);
  wf_doc_deinit(&c.next);
  wf_vec_free(&c.matches);
  wf_vec_free(&c.matches2);
  wf_vec_free(&c.norm_in);
  wf_vec_free(&c.norm_out);
  wf_regex_scratch_deinit(&c.regex);
  return st;
}

weft_status wf_tokenizer_seal(wf_tokenizer *t, const char *name, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_buf content = {0};
  t->n_ids = t->model.vocab.n_ids;
  if (t->max_added >= 0 && (size_t)t->max_added >= t->n_ids) t->n_ids = (size_t)t->max_added + 1;
  if (t->n_ids == 0) {
    return wf_fail(err, WEFT_TOKENIZER, "repair the file or fetch it again",
                   "%s: the vocabulary is empty", name);
  }
  t->added_at = wf_calloc(t->n_ids, sizeof *t->added_at);
  t->control = wf_calloc(t->n_ids, 1);
  if (!t->added_at || !t->control) return wf_fail_memory(err, t->n_ids * 5, "the vocabulary");
  for (size_t i = 0; i < t->n_ids; i++) t->added_at[i] = -1;
  /* Special tokens first, so that they win where two are equal once normalised (the reference
   * leaves that to the order of a hash table). */
  for (int special = 1; special >= 0; special--) {
    for (size_t i = 0; i < t->added.n; i++) {
      const wf_added *a = &t->added.at[i];
      if (a->special != (special == 1)) continue;
      wf_str pattern = a->content;
      if (a->normalized && !(t->norms.n && t->norms.at[0].kind == WF_NORM_SPM)) {
        WF_TRY(normalized_content(t, a->content, &content, err));
        pattern = (wf_str){content.at, content.n};
      }
      if (pattern.n == 0) continue;
      if (!wf_trie_put(a->normalized ? &t->trie_normalized : &t->trie_raw, pattern.at, pattern.n,
                       (int32_t)i, false)) {
        st = wf_fail_memory(err, pattern.n, "an added token");
        goto out;
      }
      (a->normalized ? t->first_normalized : t->first_raw)[(unsigned char)pattern.at[0]] = 1;
    }
  }
  for (size_t i = 0; i < t->added.n; i++) {
    t->added_at[t->added.at[i].id] = (int32_t)i;
    if (t->added.at[i].special) t->control[t->added.at[i].id] = 1;
  }
  if (t->roles[WF_TOKEN_UNK] < 0) t->roles[WF_TOKEN_UNK] = t->model.unk_id;
  const wf_token_role roles[3] = {WF_TOKEN_BOS, WF_TOKEN_EOS, WF_TOKEN_PAD};
  for (int i = 0; i < 3; i++) {
    if (t->roles[roles[i]] >= 0) t->control[t->roles[roles[i]]] = 1;
  }
  for (size_t i = 0; i < t->pretoks.n; i++) {
    const wf_pretok *p = &t->pretoks.at[i];
    if (p->kind == WF_PRETOK_METASPACE && p->prepend == WF_PREPEND_FIRST) t->needs_align = true;
  }
out:
  wf_buf_deinit(&content);
  return st;
}

/* ---- Encoding ---- */

weft_status wf_call_swap(wf_call *c, weft_error *err) {
  if (c->next.failed) {
    if (!c->next.outgrew) {
      return wf_fail_memory(err, c->next.text.n, "a text on its way to tokens");
    }
    return wf_fail(err, WEFT_LIMIT, "shorten the text or use another tokenizer",
                   "the text grows beyond %zu bytes while it is normalised", c->next.limit_bytes);
  }
  const wf_doc swap = c->doc;
  c->doc = c->next;
  c->next = swap;
  c->next.is_aligned = c->doc.is_aligned = swap.is_aligned;
  wf_doc_clear(&c->next);
  return WEFT_OK;
}

bool wf_call_is_content(const wf_call *c, const wf_doc *d, uint32_t begin, uint32_t end) {
  if (!c->any_content) return false;
  if (c->all_content) return true;
  if (begin == end) return false;
  const uint32_t from = d->align.at[begin].begin;
  uint32_t to = d->align.at[end - 1].end;
  if (to <= from) to = from + 1;
  /* The first segment that ends beyond `from`. */
  size_t lo = 0, hi = c->n_segments;
  while (lo < hi) {
    const size_t mid = (lo + hi) / 2;
    if (c->segment_ends[mid] > from) {
      hi = mid;
    } else {
      lo = mid + 1;
    }
  }
  for (; lo < c->n_segments; lo++) {
    const uint32_t segment_begin = lo ? c->segment_ends[lo - 1] : 0;
    if (segment_begin >= to) break;
    if (c->segments[lo].is_content && c->segments[lo].text.n) return true;
  }
  return false;
}

weft_status wf_call_emit(wf_call *c, int32_t id, uint32_t begin, uint32_t end, const wf_str *text,
                         weft_error *err) {
  wf_token k = {id, 0, 0, 0, 0};
  if (c->want_offsets) {
    const uint32_t at = c->piece.begin, n = c->piece.end - c->piece.begin;
    if (begin < end && end <= n) {
      k.begin = c->doc.align.at[at + begin].begin;
      k.end = c->doc.align.at[at + end - 1].end;
    } else {
      k.begin = c->piece.origin + (begin < n ? begin : n);
      k.end = c->piece.origin + (end < n ? end : n);
    }
    const wf_str shown = text ? *text : wf_vocab_text(&c->t->model.vocab, id);
    k.text_at = (uint32_t)c->token_text.n;
    k.text_n = (uint32_t)shown.n;
    wf_buf_add_str(&c->token_text, shown);
  }
  if (c->token_text.failed || !wf_vec_push(&c->tokens, k)) {
    return wf_fail_memory(err, sizeof k, "tokens");
  }
  return WEFT_OK;
}

static weft_status run_model(wf_call *c, weft_error *err) {
  for (size_t i = 0; i < c->doc.pieces.n; i++) {
    c->piece = c->doc.pieces.at[i];
    const wf_piece p = c->piece;
    if (p.id >= 0) {
      const wf_str text = {c->doc.text.at + p.begin, p.end - p.begin};
      WF_RETURN_IF_ERROR(wf_call_emit(c, p.id, 0, p.end - p.begin, &text, err));
      continue;
    }
    c->forbid = wf_call_is_content(c, &c->doc, p.begin, p.end);
    switch (c->t->model.kind) {
      case WF_MODEL_BPE:
        WF_RETURN_IF_ERROR(wf_bpe_encode(c, err));
        break;
      case WF_MODEL_UNIGRAM:
        WF_RETURN_IF_ERROR(wf_unigram_encode(c, err));
        break;
      case WF_MODEL_WORDPIECE:
        WF_RETURN_IF_ERROR(wf_wordpiece_encode(c, err));
        break;
      case WF_MODEL_WORDLEVEL:
        WF_RETURN_IF_ERROR(wf_wordlevel_encode(c, err));
        break;
    }
  }
  return WEFT_OK;
}

static weft_status check_utf8(wf_str s, weft_error *err) {
  for (size_t at = 0; at < s.n;) {
    uint32_t cp;
    if ((unsigned char)s.at[at] < 0x80) {
      at++;
      continue;
    }
    const size_t used = wf_utf8_decode(s.at + at, s.n - at, &cp);
    if (used == 0) {
      return wf_fail(err, WEFT_INVALID_ARGUMENT, "convert the text to UTF-8",
                     "the text is not UTF-8: byte 0x%02x at position %zu",
                     (unsigned)(unsigned char)s.at[at], at);
    }
    at += used;
  }
  return WEFT_OK;
}

/* Runs one text through every step; c->tokens and c->token_text have the result. */
static weft_status encode_text(wf_call *c, wf_str text, weft_error *err) {
  const wf_tokenizer *t = c->t;
  if (text.n > WF_TEXT_LIMIT) {
    return wf_fail(err, WEFT_LIMIT, "shorten the text", "the text has %zu bytes, at most %zu fit",
                   text.n, WF_TEXT_LIMIT);
  }
  WF_RETURN_IF_ERROR(check_utf8(text, err));
  wf_doc *d = &c->doc;
  wf_doc_clear(d);
  wf_doc_clear(&c->next);
  d->is_aligned = c->want_offsets || t->needs_align || (c->any_content && !c->all_content);
  c->next.is_aligned = d->is_aligned;
  const size_t grown = WF_GROWN_LIMIT(text.n);
  d->limit_bytes = c->next.limit_bytes = grown < UINT32_MAX ? grown : UINT32_MAX;
  wf_buf_add_str(&d->text, text);
  if (d->text.failed || (d->is_aligned && !wf_vec_reserve(&d->align, text.n))) {
    return wf_fail_memory(err, text.n * 9, "a text on its way to tokens");
  }
  for (size_t at = 0; d->is_aligned && at < text.n;) {
    uint32_t cp;
    const size_t used = wf_char_at(text.at + at, text.n - at, &cp);
    for (size_t k = 0; k < used; k++) {
      d->align.at[d->align.n++] = (wf_align){(uint32_t)at, (uint32_t)(at + used)};
    }
    at += used;
  }
  wf_doc_push(d, (wf_piece){0, (uint32_t)text.n, 0, -1});
  WF_RETURN_IF_ERROR(wf_added_match(c, false, err));
  for (size_t i = 0; i < t->norms.n; i++) {
    WF_RETURN_IF_ERROR(wf_norm_apply(c, &t->norms.at[i], err));
  }
  WF_RETURN_IF_ERROR(wf_added_match(c, true, err));
  for (size_t i = 0; i < t->pretoks.n; i++) {
    WF_RETURN_IF_ERROR(wf_pretok_apply(c, &t->pretoks.at[i], err));
  }
  return run_model(c, err);
}

static void call_deinit(wf_call *c) {
  wf_doc_deinit(&c->doc);
  wf_doc_deinit(&c->next);
  wf_vec_free(&c->matches);
  wf_vec_free(&c->matches2);
  wf_regex_scratch_deinit(&c->regex);
  wf_buf_deinit(&c->token_text);
  wf_vec_free(&c->tokens);
  wf_vec_free(&c->symbols);
  wf_vec_free(&c->heap);
  wf_vec_free(&c->nodes);
  wf_vec_free(&c->stack);
  wf_vec_free(&c->norm_in);
  wf_vec_free(&c->norm_out);
  wf_buf_deinit(&c->word);
}

static wf_call call_of(const wf_tokenizer *t, const wf_encode_options *o) {
  wf_call c = {.t = t, .want_offsets = o && o->want_offsets};
  c.control = o && o->control ? o->control : t->control;
  c.any_content = c.all_content = o && o->content_mode;
  return c;
}

weft_status wf_tokenizer_encode(const wf_tokenizer *t, wf_str text, const wf_encode_options *o,
                                wf_encoding *out, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_call c = call_of(t, o);
  const wf_str texts[2] = {text, {NULL, 0}};
  *out = (wf_encoding){0};
  WF_TRY(encode_text(&c, text, err));
  WF_TRY(wf_post_apply(t, o && o->add_special, c.want_offsets, &c.tokens, NULL, texts,
                       &c.token_text, out, err));
out:
  if (st != WEFT_OK) wf_encoding_deinit(out);
  call_deinit(&c);
  return st;
}

weft_status wf_tokenizer_encode_pair(const wf_tokenizer *t, wf_str a, wf_str b,
                                     const wf_encode_options *o, wf_encoding *out,
                                     weft_error *err) {
  weft_status st = WEFT_OK;
  wf_call c = call_of(t, o);
  const wf_str texts[2] = {a, b};
  wf_tokens first = {0};
  *out = (wf_encoding){0};
  WF_TRY(encode_text(&c, a, err));
  first.at = c.tokens.at;
  first.n = c.tokens.n;
  first.capacity = c.tokens.capacity;
  c.tokens.at = NULL;
  c.tokens.n = c.tokens.capacity = 0;
  WF_TRY(encode_text(&c, b, err));
  WF_TRY(wf_post_apply(t, o && o->add_special, c.want_offsets, &first, &c.tokens, texts,
                       &c.token_text, out, err));
out:
  if (st != WEFT_OK) wf_encoding_deinit(out);
  wf_vec_free(&first);
  call_deinit(&c);
  return st;
}

weft_status wf_tokenizer_encode_segments(const wf_tokenizer *t, const wf_segment *segments,
                                         size_t n_segments, const wf_encode_options *o,
                                         wf_encoding *out, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_call c = call_of(t, o);
  wf_buf text = {0};
  uint32_t *ends = wf_calloc(n_segments + 1, sizeof *ends);
  *out = (wf_encoding){0};
  c.any_content = false;
  c.all_content = n_segments > 0;
  c.segments = segments;
  c.n_segments = n_segments;
  c.segment_ends = ends;
  if (!ends) {
    st = wf_fail_memory(err, n_segments * sizeof *ends, "a conversation");
    goto out;
  }
  for (size_t i = 0; i < n_segments; i++) {
    wf_buf_add_str(&text, segments[i].text);
    if (text.failed || text.n > WF_TEXT_LIMIT) {
      st = wf_fail(err, text.failed ? WEFT_OUT_OF_MEMORY : WEFT_LIMIT, "shorten the conversation",
                   "the conversation has more than %zu bytes", text.n);
      goto out;
    }
    ends[i] = (uint32_t)text.n;
    if (segments[i].is_content) c.any_content = true;
    if (!segments[i].is_content && segments[i].text.n) c.all_content = false;
  }
  const wf_str whole = {text.at ? text.at : "", text.n};
  const wf_str texts[2] = {whole, {NULL, 0}};
  WF_TRY(encode_text(&c, whole, err));
  WF_TRY(wf_post_apply(t, o && o->add_special, c.want_offsets, &c.tokens, NULL, texts,
                       &c.token_text, out, err));
out:
  if (st != WEFT_OK) wf_encoding_deinit(out);
  wf_free(ends);
  wf_buf_deinit(&text);
  call_deinit(&c);
  return st;
}

void wf_encoding_deinit(wf_encoding *e) {
  wf_free(e->ids);
  wf_free(e->spans);
  wf_free(e->tokens);
  wf_free(e->token_text);
  *e = (wf_encoding){0};
}
