/* SPDX-License-Identifier: Apache-2.0 */
/* The model of tokenizer.json, streamed straight into its tables: a tree of Gemma's would take
 * twenty times the memory of the tables. */
#include <float.h>

#include "text/tokenizer_internal.h"

typedef struct model_reader {
  wf_tokenizer *t;
  wf_model *m;
  wf_json_reader merges; /* where the merges begin, read after the vocabulary */
  wf_json_event merges_at;
  bool has_merges, has_vocab, vocab_is_list;
  wf_buf left, right, texts;
  bool has_type;
  bool has_fuse;
  size_t n_scores, scores_capacity;
  int64_t unk_id; /* unigram: a position in the list */
} model_reader;

static weft_status no_memory(weft_error *err) {
  return wf_fail_memory(err, 1 << 20, "the vocabulary");
}

static weft_status read_vocab_object(model_reader *x, wf_json_reader *r, weft_error *err) {
  wf_buf key = {0};
  weft_status st = WEFT_OK;
  for (;;) {
    wf_json_event k, v;
    bool more;
    WF_TRY(wf_json_next_key(r, &k, &more, err));
    if (!more) break;
    wf_str text = k.text;
    if (!k.is_stable) { /* the value's event would overwrite it */
      wf_buf_clear(&key);
      wf_buf_add_str(&key, k.text);
      text = (wf_str){key.at ? key.at : "", key.n};
    }
    WF_TRY(wf_json_next(r, &v, err));
    uint64_t id;
    if (v.kind != WF_JSON_NUMBER || !wf_parse_u64(v.text, &id) || id > INT32_MAX - 1) {
      st = wf_json_fail(r, err, "a token id is expected here");
      goto out;
    }
    if (key.failed || !wf_vocab_add(&x->m->vocab, (int32_t)id, text)) {
      st = no_memory(err);
      goto out;
    }
  }
out:
  wf_buf_deinit(&key);
  return st;
}

static bool push_score(model_reader *x, double score) {
  if (x->n_scores == x->scores_capacity) {
    const size_t capacity = x->scores_capacity ? x->scores_capacity * 2 : 1024;
    double *grown = wf_realloc_array(x->m->scores, capacity, sizeof *grown);
    if (!grown) return false;
    x->m->scores = grown;
    x->scores_capacity = capacity;
  }
  x->m->scores[x->n_scores++] = score;
  return true;
}

/* [["text", score], ...] */
static weft_status read_vocab_list(model_reader *x, wf_json_reader *r, weft_error *err) {
  x->vocab_is_list = true;
  for (;;) {
    wf_json_event e, text, score, end;
    WF_RETURN_IF_ERROR(wf_json_next(r, &e, err));
    if (e.kind == WF_JSON_ARRAY_END) return WEFT_OK;
    if (e.kind != WF_JSON_ARRAY_BEGIN) return wf_json_fail(r, err, "[text, score] is expected");
    WF_RETURN_IF_ERROR(wf_json_next(r, &text, err));
    if (text.kind != WF_JSON_STRING) return wf_json_fail(r, err, "[text, score] is expected");
    if (x->n_scores >= INT32_MAX - 1 ||
        !wf_vocab_add(&x->m->vocab, (int32_t)x->n_scores, text.text)) {
      return no_memory(err);
    }
    double value;
    WF_RETURN_IF_ERROR(wf_json_next(r, &score, err));
    if (score.kind != WF_JSON_NUMBER || !wf_parse_f64(score.text, &value)) {
      return wf_json_fail(r, err, "a score is expected here");
    }
    if (!push_score(x, value)) return no_memory(err);
    WF_RETURN_IF_ERROR(wf_json_next(r, &end, err));
    if (end.kind != WF_JSON_ARRAY_END) return wf_json_fail(r, err, "[text, score] is expected");
  }
}

static weft_status merge_missing(const wf_json_reader *r, wf_str text, weft_error *err) {
  return wf_json_fail(r, err, "the merge needs the token '%.*s', which the vocabulary lacks",
                      (int)(text.n < 80 ? text.n : 80), text.at);
}

static wf_str keep(const wf_json_event *e, wf_buf *b) {
  if (e->is_stable) return e->text;
  wf_buf_clear(b);
  wf_buf_add_str(b, e->text);
  return (wf_str){b->at ? b->at : "", b->n};
}

/* "a b" or ["a", "b"]; only the second form can hold parts with a space. *more is false at the end
 * of the list. The parts are valid until the reader moves on. */
static weft_status next_merge(model_reader *x, wf_json_reader *r, bool is_first, wf_str *left,
                              wf_str *right, bool *more, weft_error *err) {
  wf_json_event e, b, end;
  WF_RETURN_IF_ERROR(wf_json_next(r, &e, err));
  if (is_first && e.kind == WF_JSON_STRING && wf_str_starts(e.text, WF_STR("#version"))) {
    WF_RETURN_IF_ERROR(wf_json_next(r, &e, err));
  }
  *more = e.kind != WF_JSON_ARRAY_END;
  if (!*more) return WEFT_OK;
  if (e.kind == WF_JSON_STRING) {
    const size_t space = wf_str_find(e.text, WF_STR(" "), 0);
    if (space == SIZE_MAX || wf_str_find(e.text, WF_STR(" "), space + 1) != SIZE_MAX) {
      return wf_json_fail(r, err, "a merge is two tokens with one space between");
    }
    *left = (wf_str){e.text.at, space};
    *right = (wf_str){e.text.at + space + 1, e.text.n - space - 1};
    return WEFT_OK;
  }
  if (e.kind != WF_JSON_ARRAY_BEGIN) return wf_json_fail(r, err, "a merge is two tokens");
  WF_RETURN_IF_ERROR(wf_json_next(r, &e, err));
  if (e.kind != WF_JSON_STRING) return wf_json_fail(r, err, "a merge is two tokens");
  *left = keep(&e, &x->left);
  WF_RETURN_IF_ERROR(wf_json_next(r, &b, err));
  if (b.kind != WF_JSON_STRING) return wf_json_fail(r, err, "a merge is two tokens");
  *right = keep(&b, &x->right);
  WF_RETURN_IF_ERROR(wf_json_next(r, &end, err));
  if (end.kind != WF_JSON_ARRAY_END) return wf_json_fail(r, err, "a merge is two tokens");
  return x->left.failed || x->right.failed ? no_memory(err) : WEFT_OK;
}

/* The texts of one merge: its parts and the whole, all in one buffer. */
static bool add_texts(model_reader *x, wf_str a, wf_str b, wf_vocab_lookup l[3]) {
  /* The second part stands inside a word and has the prefix; the whole has it once. */
  const size_t skip = x->m->prefix.n < b.n ? x->m->prefix.n : b.n;
  const uint32_t at = (uint32_t)x->texts.n;
  if (a.n > UINT32_MAX / 8 || b.n > UINT32_MAX / 8) return false;
  wf_buf_add_str(&x->texts, a);
  wf_buf_add_str(&x->texts, b);
  l[0] = (wf_vocab_lookup){.at = at, .n = (uint32_t)a.n};
  l[1] = (wf_vocab_lookup){.at = at + (uint32_t)a.n, .n = (uint32_t)b.n};
  l[2] = (wf_vocab_lookup){.at = at, .n = (uint32_t)(a.n + b.n)};
  if (skip) {
    l[2].at = (uint32_t)x->texts.n;
    l[2].n -= (uint32_t)skip;
    wf_buf_add_str(&x->texts, a);
    wf_buf_add(&x->texts, b.at + skip, b.n - skip);
  }
  return !x->texts.failed && x->texts.n < UINT32_MAX / 2;
}

/* The merge that lacks a token, from the start of its batch on: its place is the reader's then. */
static weft_status find_missing(model_reader *x, wf_json_reader *r, bool is_first,
                                weft_error *err) {
  wf_vocab_lookup l[3];
  wf_str a, b;
  bool more;
  for (;;) {
    WF_RETURN_IF_ERROR(next_merge(x, r, is_first, &a, &b, &more, err));
    is_first = false;
    wf_buf_clear(&x->texts);
    if (!more || !add_texts(x, a, b, l)) return no_memory(err);
    wf_vocab_find_many(&x->m->vocab, x->texts.at, l, 3);
    for (int k = 0; k < 3; k++) {
      if (l[k].id < 0) return merge_missing(r, (wf_str){x->texts.at + l[k].at, l[k].n}, err);
    }
  }
}

/* In batches, because each merge needs three lookups that wait for memory. */
static weft_status read_merges(model_reader *x, weft_error *err) {
  enum { BATCH = 256 };
  weft_status st = WEFT_OK;
  wf_json_reader *r = &x->merges, start = {0};
  wf_merges *merges = &x->m->merges;
  uint32_t rank = 0;
  if (x->merges_at.kind != WF_JSON_ARRAY_BEGIN) {
    return wf_json_fail(r, err, "the merges must be a list");
  }
  wf_vocab_lookup *l = wf_calloc((size_t)BATCH * 3, sizeof *l);
  if (!l) return no_memory(err);
  for (bool more = true; more;) {
    size_t n = 0;
    wf_str a, b;
    wf_json_deinit(&start);
    wf_json_bookmark(r, &start);
    wf_buf_clear(&x->texts);
    while (n < BATCH) {
      WF_TRY(next_merge(x, r, rank == 0 && n == 0, &a, &b, &more, err));
      if (!more) break;
      if (!add_texts(x, a, b, &l[3 * n++])) WF_TRY(no_memory(err));
    }
    wf_vocab_find_many(&x->m->vocab, x->texts.at, l, 3 * n);
    for (size_t i = 0; i < 3 * n; i++) {
      if (l[i].id < 0) WF_TRY(find_missing(x, &start, rank == 0, err));
    }
    if (!wf_merges_reserve(merges, merges->n + n)) WF_TRY(no_memory(err));
    for (size_t i = 0; i < n; i++) wf_merges_prefetch(merges, l[3 * i].id, l[3 * i + 1].id);
    for (size_t i = 0; i < n; i++, rank++) {
      if (!wf_merges_put(merges, l[3 * i].id, l[3 * i + 1].id, rank, l[3 * i + 2].id)) {
        WF_TRY(no_memory(err));
      }
    }
    if (rank > INT32_MAX) WF_TRY(wf_json_fail(r, err, "there are too many merges"));
  }
out:
  wf_json_deinit(&start);
  wf_free(l);
  return st;
}

static weft_status read_bool(wf_json_reader *r, const wf_json_event *v, bool *result,
                             weft_error *err) {
  if (v->kind == WF_JSON_NULL) return WEFT_OK;
  if (v->kind != WF_JSON_TRUE && v->kind != WF_JSON_FALSE) {
    return wf_json_fail(r, err, "true or false is expected here");
  }
  *result = v->kind == WF_JSON_TRUE;
  return WEFT_OK;
}

static weft_status read_text(model_reader *x, wf_json_reader *r, const wf_json_event *v,
                             wf_str *result, weft_error *err) {
  if (v->kind == WF_JSON_NULL) return WEFT_OK;
  if (v->kind != WF_JSON_STRING) return wf_json_fail(r, err, "a string or null is expected here");
  *result = wf_tokenizer_keep(x->t, v->text);
  return result->at ? WEFT_OK : no_memory(err);
}

static weft_status read_type(model_reader *x, const wf_json_event *v, weft_error *err) {
  static const struct {
    const char *name;
    wf_model_kind kind;
  } kinds[] = {{"BPE", WF_MODEL_BPE},
               {"Unigram", WF_MODEL_UNIGRAM},
               {"WordPiece", WF_MODEL_WORDPIECE},
               {"WordLevel", WF_MODEL_WORDLEVEL}};
  for (size_t i = 0; v->kind == WF_JSON_STRING && i < WF_ARRAY_LEN(kinds); i++) {
    if (wf_str_is(v->text, kinds[i].name)) {
      x->m->kind = kinds[i].kind;
      x->has_type = true;
      return WEFT_OK;
    }
  }
  return wf_fail(err, WEFT_UNSUPPORTED, "use a BPE, Unigram, WordPiece or WordLevel tokenizer",
                 "model.type: the model '%.*s' is unknown to weft",
                 (int)(v->text.n < 100 ? v->text.n : 100), v->text.at ? v->text.at : "");
}

static weft_status read_number(wf_json_reader *r, const wf_json_event *v, int64_t *result,
                               weft_error *err) {
  if (v->kind == WF_JSON_NULL) return WEFT_OK;
  if (v->kind != WF_JSON_NUMBER || !wf_parse_i64(v->text, result) || *result < 0 ||
      *result > INT32_MAX - 1) {
    return wf_json_fail(r, err, "a whole number, not negative, is expected here");
  }
  return WEFT_OK;
}

static weft_status read_vocab(model_reader *x, wf_json_reader *r, const wf_json_event *v,
                              weft_error *err) {
  if (x->has_vocab) return wf_json_fail(r, err, "there are two vocabularies");
  x->has_vocab = true;
  if (v->kind == WF_JSON_OBJECT_BEGIN) return read_vocab_object(x, r, err);
  if (v->kind == WF_JSON_ARRAY_BEGIN) return read_vocab_list(x, r, err);
  return wf_json_fail(r, err, "the vocabulary must be an object or a list");
}

static weft_status read_member(model_reader *x, wf_json_reader *r, wf_str key,
                               const wf_json_event *v, weft_error *err) {
  wf_model *m = x->m;
  if (wf_str_is(key, "type")) return read_type(x, v, err);
  if (wf_str_is(key, "vocab")) return read_vocab(x, r, v, err);
  if (wf_str_is(key, "merges")) {
    if (v->kind == WF_JSON_NULL) return WEFT_OK;
    if (x->has_merges) wf_json_deinit(&x->merges);
    wf_json_bookmark(r, &x->merges);
    x->merges_at = *v;
    x->has_merges = true;
    return wf_json_skip(r, v, err);
  }
  if (wf_str_is(key, "dropout")) {
    double p = 1.0;
    if (v->kind == WF_JSON_NULL) return WEFT_OK;
    if (v->kind == WF_JSON_NUMBER && wf_parse_f64(v->text, &p) && p == 0.0) return WEFT_OK;
    return wf_fail(err, WEFT_UNSUPPORTED, "set dropout to null: it is for training",
                   "model.dropout: random merges are not supported");
  }
  if (wf_str_is(key, "unk_token")) {
    m->has_unk = v->kind == WF_JSON_STRING;
    return read_text(x, r, v, &m->unk_token, err);
  }
  if (wf_str_is(key, "continuing_subword_prefix")) return read_text(x, r, v, &m->prefix, err);
  if (wf_str_is(key, "end_of_word_suffix")) return read_text(x, r, v, &m->suffix, err);
  if (wf_str_is(key, "fuse_unk")) {
    x->has_fuse = true;
    return read_bool(r, v, &m->fuse_unk, err);
  }
  if (wf_str_is(key, "byte_fallback")) return read_bool(r, v, &m->byte_fallback, err);
  if (wf_str_is(key, "ignore_merges")) return read_bool(r, v, &m->ignore_merges, err);
  if (wf_str_is(key, "unk_id")) return read_number(r, v, &x->unk_id, err);
  if (wf_str_is(key, "max_input_chars_per_word")) {
    int64_t n = 100;
    WF_RETURN_IF_ERROR(read_number(r, v, &n, err));
    m->max_chars = (size_t)n;
    return WEFT_OK;
  }
  return wf_json_skip(r, v, err);
}

/* Old files leave the type out; what is there tells it. */
static void guess_type(model_reader *x) {
  if (x->has_type) return;
  x->m->kind = x->vocab_is_list ? WF_MODEL_UNIGRAM
               : x->has_merges  ? WF_MODEL_BPE
               : x->m->prefix.n ? WF_MODEL_WORDPIECE
                                : WF_MODEL_WORDLEVEL;
}

static weft_status finish_unigram(model_reader *x, weft_error *err) {
  wf_model *m = x->m;
  if (x->unk_id >= 0 && (size_t)x->unk_id >= m->vocab.n_ids) {
    return wf_fail(err, WEFT_TOKENIZER, "repair the file or fetch it again",
                   "model.unk_id: %lld is outside the vocabulary of %zu tokens",
                   (long long)x->unk_id, m->vocab.n_ids);
  }
  m->unk_id = (int32_t)x->unk_id;
  m->fuse_unk = true;
  m->min_score = DBL_MAX;
  for (size_t i = 0; i < m->vocab.n_ids; i++) {
    const wf_str text = wf_vocab_text(&m->vocab, (int32_t)i);
    if (m->scores[i] < m->min_score) m->min_score = m->scores[i];
    if (text.n && !wf_trie_put(&m->trie, text.at, text.n, (int32_t)i, true)) return no_memory(err);
  }
  return WEFT_OK;
}

static weft_status finish_model(model_reader *x, weft_error *err) {
  static const char hex[] = "0123456789ABCDEF";
  wf_model *m = x->m;
  if (!x->has_vocab) {
    return wf_fail(err, WEFT_TOKENIZER, "repair the file or fetch it again",
                   "model.vocab: the vocabulary is missing");
  }
  guess_type(x);
  if (x->vocab_is_list != (m->kind == WF_MODEL_UNIGRAM)) {
    return wf_fail(err, WEFT_TOKENIZER, "repair the file or fetch it again",
                   "model.vocab: the vocabulary has not the form of the model's type");
  }
  WF_RETURN_IF_ERROR(wf_vocab_finish(&m->vocab, "model.vocab", err));
  for (int i = 0; i < 256; i++) {
    const char name[6] = {'<', '0', 'x', hex[i >> 4], hex[i & 15], '>'};
    m->byte_ids[i] = wf_vocab_find(&m->vocab, name, sizeof name);
  }
  if (m->kind == WF_MODEL_UNIGRAM) return finish_unigram(x, err);
  if (m->kind == WF_MODEL_WORDPIECE && !m->has_unk) m->unk_token = WF_STR("[UNK]");
  if (m->kind == WF_MODEL_WORDLEVEL && !m->has_unk) m->unk_token = WF_STR("<unk>");
  if (m->unk_token.at) m->unk_id = wf_vocab_find(&m->vocab, m->unk_token.at, m->unk_token.n);
  if (m->kind == WF_MODEL_BPE && x->has_merges) return read_merges(x, err);
  return WEFT_OK;
}

weft_status wf_load_model(wf_tokenizer *t, wf_json_reader *r, weft_error *err) {
  weft_status st = WEFT_OK;
  model_reader x = {.t = t, .m = &t->model, .unk_id = -1};
  wf_buf key = {0};
  wf_json_event e;
  t->model.max_chars = 100;
  WF_TRY(wf_json_next(r, &e, err));
  if (e.kind != WF_JSON_OBJECT_BEGIN) {
    st = wf_json_fail(r, err, "the model must be an object");
    goto out;
  }
  for (;;) {
    wf_json_event k, v;
    bool more;
    WF_TRY(wf_json_next_key(r, &k, &more, err));
    if (!more) break;
    wf_buf_clear(&key);
    wf_buf_add_str(&key, k.text);
    if (key.failed) {
      st = no_memory(err);
      goto out;
    }
    WF_TRY(wf_json_next(r, &v, err));
    WF_TRY(read_member(&x, r, (wf_str){key.at ? key.at : "", key.n}, &v, err));
  }
  WF_TRY(finish_model(&x, err));
out:
  if (x.has_merges) wf_json_deinit(&x.merges);
  wf_buf_deinit(&x.left);
  wf_buf_deinit(&x.right);
  wf_buf_deinit(&x.texts);
  wf_buf_deinit(&key);
  return st;
}
