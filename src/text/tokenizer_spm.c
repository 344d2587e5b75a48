/* SPDX-License-Identifier: Apache-2.0 */
/* SentencePiece models (`tokenizer.model`, protobuf message ModelProto): BPE and unigram, brought
 * into the same tables as tokenizer.json. Facts of the format: sentencepiece_model.proto of
 * https://github.com/google/sentencepiece. */
#include <float.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/utf8.h"
#include "text/tokenizer_internal.h"

enum {
  PIECE_NORMAL = 1,
  PIECE_UNKNOWN,
  PIECE_CONTROL,
  PIECE_USER_DEFINED,
  PIECE_UNUSED,
  PIECE_BYTE
};
enum { MODEL_UNIGRAM = 1, MODEL_BPE = 2 };
enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

typedef struct wire {
  const unsigned char *at, *end;
} wire;

typedef struct field {
  uint32_t number;
  int type;
  uint64_t value;
  wire bytes;
} field;

typedef struct piece {
  wf_str text;
  float score;
  int type;
} piece;

typedef struct spm {
  const char *name;
  WF_VEC(piece) pieces;
  int model_type;
  bool byte_fallback, suffix, add_prefix, remove_extra, escape;
  int64_t unk_id, bos_id, eos_id, pad_id;
  wf_str charsmap;
} spm;

static bool read_varint(wire *w, uint64_t *v) {
  *v = 0;
  for (unsigned shift = 0; shift < 64 && w->at < w->end; shift += 7) {
    const unsigned char b = *w->at++;
    *v |= (uint64_t)(b & 0x7f) << shift;
    if (!(b & 0x80)) return true;
  }
  return false;
}

static uint32_t load32(const unsigned char *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The next field; false at damage. Call while w->at < w->end. */
static bool next_field(wire *w, field *f) {
  uint64_t tag, n;
  *f = (field){0};
  if (!read_varint(w, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX) return false;
  f->number = (uint32_t)(tag >> 3);
  f->type = (int)(tag & 7);
  const size_t left = (size_t)(w->end - w->at);
  switch (f->type) {
    case WIRE_VARINT:
      return read_varint(w, &f->value);
    case WIRE_FIXED64:
      if (left < 8) return false;
      w->at += 8;
      return true;
    case WIRE_FIXED32:
      if (left < 4) return false;
      f->value = load32(w->at);
      w->at += 4;
      return true;
    case WIRE_BYTES:
      if (!read_varint(w, &n) || n > (size_t)(w->end - w->at)) return false;
      f->bytes = (wire){w->at, w->at + n};
      w->at += n;
      return true;
    default:
      return false;
  }
}

static wf_str text_of(const field *f) {
  return (wf_str){(const char *)f->bytes.at, (size_t)(f->bytes.end - f->bytes.at)};
}

static bool read_piece(wire w, piece *p) {
  *p = (piece){.text = {"", 0}, .type = PIECE_NORMAL};
  while (w.at < w.end) {
    field f;
    if (!next_field(&w, &f)) return false;
    if (f.number == 1 && f.type == WIRE_BYTES) p->text = text_of(&f);
    if (f.number == 2 && f.type == WIRE_FIXED32) {
      const uint32_t bits = (uint32_t)f.value;
      memcpy(&p->score, &bits, sizeof bits);
    }
    if (f.number == 3 && f.type == WIRE_VARINT) p->type = (int)(f.value & 0xff);
  }
  return true;
}

static bool read_trainer(wire w, spm *m) {
  while (w.at < w.end) {
    field f;
    if (!next_field(&w, &f)) return false;
    if (f.type != WIRE_VARINT) continue;
    const int64_t v = (int64_t)(int32_t)(uint32_t)f.value;
    switch (f.number) {
      case 3:
        m->model_type = (int)v;
        break;
      case 24:
        m->suffix = v != 0;
        break;
      case 35:
        m->byte_fallback = v != 0;
        break;
      case 40:
        m->unk_id = v;
        break;
      case 41:
        m->bos_id = v;
        break;
      case 42:
        m->eos_id = v;
        break;
      case 43:
        m->pad_id = v;
        break;
      default:
        break;
    }
  }
  return true;
}

static bool read_normalizer(wire w, spm *m) {
  while (w.at < w.end) {
    field f;
    if (!next_field(&w, &f)) return false;
    if (f.number == 2 && f.type == WIRE_BYTES) m->charsmap = text_of(&f);
    if (f.type != WIRE_VARINT) continue;
    if (f.number == 3) m->add_prefix = f.value != 0;
    if (f.number == 4) m->remove_extra = f.value != 0;
    if (f.number == 5) m->escape = f.value != 0;
  }
  return true;
}

static weft_status damaged(const spm *m, size_t at, weft_error *err) {
  return wf_fail(err, WEFT_PARSE, "fetch the file again",
                 "%s is no SentencePiece model: the record at byte %zu is damaged", m->name, at);
}

static weft_status read_model(spm *m, const unsigned char *bytes, size_t n, weft_error *err) {
  wire w = {bytes, bytes + n};
  while (w.at < w.end) {
    const size_t at = (size_t)(w.at - bytes);
    field f;
    bool ok = next_field(&w, &f);
    if (ok && f.type == WIRE_BYTES && f.number == 1) {
      piece p;
      ok = read_piece(f.bytes, &p);
      if (ok && m->pieces.n >= (size_t)1 << 24) ok = false;
      if (ok && !wf_utf8_is_valid(p.text.at, p.text.n)) ok = false;
      if (ok && !wf_vec_push(&m->pieces, p)) return wf_fail_memory(err, n, "the vocabulary");
    } else if (ok && f.type == WIRE_BYTES && f.number == 2) {
      ok = read_trainer(f.bytes, m);
    } else if (ok && f.type == WIRE_BYTES && f.number == 3) {
      ok = read_normalizer(f.bytes, m);
    }
    if (!ok) return damaged(m, at, err);
  }
  if (m->pieces.n == 0) return damaged(m, 0, err);
  return WEFT_OK;
}

/* ---- Into the tables ---- */

static int by_score(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return x < y ? 1 : x > y ? -1 : 0;
}

/* Place of a score among the distinct ones, best first. */
static uint32_t rank_of(const float *sorted, size_t n, float score) {
  size_t lo = 0, hi = n;
  while (lo < hi) {
    const size_t mid = (lo + hi) / 2;
    if (sorted[mid] > score) {
      lo = mid + 1;
    } else {
      hi = mid;
    }
  }
  return (uint32_t)lo;
}

static bool is_mergeable(int type) {
  return type == PIECE_NORMAL || type == PIECE_USER_DEFINED || type == PIECE_UNUSED;
}

/* SentencePiece merges the pair whose whole has the best score, the leftmost of equals: each way to
 * make a piece of two others is a merge, all ways with the piece's rank. */
static weft_status make_merges(wf_tokenizer *t, const spm *m, weft_error *err) {
  weft_status st = WEFT_OK;
  const wf_vocab *v = &t->model.vocab;
  float *scores = wf_calloc(m->pieces.n, sizeof *scores);
  if (!scores) return wf_fail_memory(err, m->pieces.n * sizeof *scores, "the vocabulary");
  for (size_t i = 0; i < m->pieces.n; i++) scores[i] = m->pieces.at[i].score;
  qsort(scores, m->pieces.n, sizeof *scores, by_score);
  for (size_t i = 0; i < m->pieces.n; i++) {
    const piece *p = &m->pieces.at[i];
    if (!is_mergeable(p->type) || p->text.n < 2 ||
        wf_vocab_find(v, p->text.at, p->text.n) != (int32_t)i) {
      continue;
    }
    const uint32_t rank = rank_of(scores, m->pieces.n, p->score);
    /* A piece of thousands of bytes would cost its square; no real one is near. */
    for (size_t cut = 1; cut < p->text.n && p->text.n <= 512; cut++) {
      if (((unsigned char)p->text.at[cut] & 0xc0) == 0x80) continue;
      const int32_t left = wf_vocab_find(v, p->text.at, cut);
      if (left < 0 || !is_mergeable(m->pieces.at[left].type)) continue;
      const int32_t right = wf_vocab_find(v, p->text.at + cut, p->text.n - cut);
      if (right < 0 || !is_mergeable(m->pieces.at[right].type)) continue;
      if (!wf_merges_put(&t->model.merges, left, right, rank, (int32_t)i)) {
        st = wf_fail_memory(err, sizeof(wf_merge), "the merges");
        goto out;
      }
    }
  }
out:
  wf_free(scores);
  return st;
}

static weft_status make_unigram(wf_tokenizer *t, const spm *m, weft_error *err) {
  wf_model *to = &t->model;
  to->scores = wf_calloc(m->pieces.n, sizeof *to->scores);
  if (!to->scores) return wf_fail_memory(err, m->pieces.n * sizeof *to->scores, "the vocabulary");
  to->min_score = FLT_MAX;
  to->single_precision = true;
  for (size_t i = 0; i < m->pieces.n; i++) {
    const piece *p = &m->pieces.at[i];
    to->scores[i] = (double)p->score;
    if (p->type != PIECE_NORMAL) continue;
    if (to->scores[i] < to->min_score) to->min_score = to->scores[i];
    if (p->text.n && !wf_trie_put(&to->trie, p->text.at, p->text.n, (int32_t)i, true)) {
      return wf_fail_memory(err, p->text.n, "the vocabulary");
    }
  }
  return WEFT_OK;
}

static weft_status add_tokens(wf_tokenizer *t, const spm *m, weft_error *err) {
  for (size_t i = 0; i < m->pieces.n; i++) {
    const piece *p = &m->pieces.at[i];
    if (p->type != PIECE_CONTROL && p->type != PIECE_USER_DEFINED && p->type != PIECE_UNKNOWN) {
      continue;
    }
    wf_added a = {.content = wf_tokenizer_keep(t, p->text),
                  .special = p->type != PIECE_USER_DEFINED,
                  /* Pieces of escaped spaces can only be found once spaces are escaped. */
                  .normalized = wf_str_find(p->text, WF_STR("\xe2\x96\x81"), 0) != SIZE_MAX};
    if (!a.content.at) return wf_fail_memory(err, p->text.n, "an added token");
    WF_RETURN_IF_ERROR(wf_added_put(t, &a, err));
  }
  return WEFT_OK;
}

static int32_t role(const spm *m, int64_t id, int type) {
  if (id < 0 || (uint64_t)id >= m->pieces.n) return -1;
  return m->pieces.at[id].type == type ? (int32_t)id : -1;
}

static weft_status make_steps(wf_tokenizer *t, const spm *m, weft_error *err) {
  wf_norm n = {.kind = WF_NORM_SPM,
               .add_prefix = m->add_prefix,
               .remove_extra = m->remove_extra,
               .escape = m->escape,
               .map = {.longest = true}};
  WF_RETURN_IF_ERROR(wf_charsmap_parse(&n.map, (const unsigned char *)m->charsmap.at, m->charsmap.n,
                                       t->arena, m->name, err));
  wf_decoder replace = {.kind = WF_DECODER_REPLACE, .content = WF_STR(" ")};
  const wf_decoder rest[3] = {
      {.kind = WF_DECODER_BYTE_FALLBACK},
      {.kind = WF_DECODER_FUSE},
      {.kind = WF_DECODER_STRIP, .cp = ' ', .start = m->remove_extra ? SIZE_MAX : m->add_prefix}};
  WF_RETURN_IF_ERROR(wf_regex_literal(&replace.regex, WF_STR("\xe2\x96\x81"), err));
  t->has_decoder = true;
  if (!wf_vec_push(&t->decoders, replace)) {
    wf_regex_destroy(replace.regex);
    return wf_fail_memory(err, sizeof replace, "a decoder");
  }
  if (!wf_vec_push(&t->norms, n) || !wf_vec_reserve(&t->decoders, 3)) {
    return wf_fail_memory(err, sizeof n, "the steps of a tokenizer");
  }
  for (int i = 0; i < 3; i++) t->decoders.at[t->decoders.n++] = rest[i];
  const int32_t bos = t->roles[WF_TOKEN_BOS];
  if (m->model_type != MODEL_BPE || bos < 0) return WEFT_OK;
  /* As Llama's tokenizer class: <s> in front of each text. */
  wf_post_part *parts = wf_arena_calloc(t->arena, 4, sizeof *parts);
  int32_t *id = wf_arena_alloc(t->arena, sizeof *id);
  wf_str *text = wf_arena_alloc(t->arena, sizeof *text);
  if (!parts || !id || !text) return wf_fail_memory(err, sizeof *parts, "a post-processor");
  *id = bos;
  *text = wf_tokenizer_keep(t, m->pieces.at[bos].text);
  parts[0] = parts[2] = (wf_post_part){-1, id, text, 1};
  parts[1] = (wf_post_part){.sequence = 0};
  parts[3] = (wf_post_part){.sequence = 1};
  const wf_post post = {
      .kind = WF_POST_TEMPLATE, .single = parts, .n_single = 2, .pair = parts, .n_pair = 4};
  return wf_vec_push(&t->posts, post) ? WEFT_OK
                                      : wf_fail_memory(err, sizeof post, "a post-processor");
}

static weft_status make_model(wf_tokenizer *t, const spm *m, weft_error *err) {
  static const char hex[] = "0123456789ABCDEF";
  wf_model *to = &t->model;
  for (size_t i = 0; i < m->pieces.n; i++) {
    if (!wf_vocab_add(&to->vocab, (int32_t)i, m->pieces.at[i].text)) {
      return wf_fail_memory(err, m->pieces.n * 16, "the vocabulary");
    }
  }
  WF_RETURN_IF_ERROR(wf_vocab_finish(&to->vocab, m->name, err));
  for (int i = 0; i < 256; i++) {
    const char name[6] = {'<', '0', 'x', hex[i >> 4], hex[i & 15], '>'};
    to->byte_ids[i] = wf_vocab_find(&to->vocab, name, sizeof name);
  }
  to->kind = m->model_type == MODEL_BPE ? WF_MODEL_BPE : WF_MODEL_UNIGRAM;
  to->byte_fallback = m->byte_fallback;
  to->unk_id = role(m, m->unk_id, PIECE_UNKNOWN);
  to->has_unk = to->unk_id >= 0;
  to->fuse_unk = true;
  t->roles[WF_TOKEN_UNK] = to->unk_id;
  t->roles[WF_TOKEN_BOS] = role(m, m->bos_id, PIECE_CONTROL);
  t->roles[WF_TOKEN_EOS] = role(m, m->eos_id, PIECE_CONTROL);
  t->roles[WF_TOKEN_PAD] = role(m, m->pad_id, PIECE_CONTROL);
  return m->model_type == MODEL_BPE ? make_merges(t, m, err) : make_unigram(t, m, err);
}

weft_status wf_tokenizer_load_spm_bytes(wf_tokenizer **result, const void *bytes, size_t n_bytes,
                                        const char *name, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_tokenizer *t = NULL;
  spm m = {.name = name,
           .model_type = MODEL_UNIGRAM,
           .add_prefix = true,
           .remove_extra = true,
           .escape = true,
           .unk_id = 0,
           .bos_id = 1,
           .eos_id = 2,
           .pad_id = -1};
  WF_TRY(read_model(&m, bytes, n_bytes, err));
  if ((m.model_type != MODEL_UNIGRAM && m.model_type != MODEL_BPE) || m.suffix) {
    st = wf_fail(err, WEFT_UNSUPPORTED, "use a BPE or unigram model", "%s: %s", name,
                 m.suffix ? "treat_whitespace_as_suffix is not supported"
                          : "only BPE and unigram models are supported");
    goto out;
  }
  t = wf_tokenizer_new(err);
  if (!t) {
    st = WEFT_OUT_OF_MEMORY;
    goto out;
  }
  WF_TRY(make_model(t, &m, err));
  WF_TRY(add_tokens(t, &m, err));
  WF_TRY(make_steps(t, &m, err));
  WF_TRY(wf_tokenizer_seal(t, name, err));
  *result = t;
  t = NULL;
out:
  wf_vec_free(&m.pieces);
  wf_tokenizer_destroy(t);
  return st;
}

weft_status wf_tokenizer_load_spm(wf_tokenizer **result, const char *tokenizer_model_path,
                                  weft_error *err) {
  wf_map map = {0};
  WF_RETURN_IF_ERROR(wf_map_open(&map, tokenizer_model_path, err));
  const weft_status st =
      wf_tokenizer_load_spm_bytes(result, map.at, map.n_bytes, tokenizer_model_path, err);
  wf_map_close(&map);
  return st;
}
