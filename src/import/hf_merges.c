/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "import/hf_files.h"

typedef struct merge {
  float score;
  uint32_t left, right;     /* tokens */
  uint32_t n_left, n_right; /* their lengths in characters */
  uint32_t order;           /* of generation, for a stable sort */
} merge;

/* Every split of every piece is looked up, so time grows with the square of a piece's length. Real
 * vocabularies stay below 200 bytes. */
#define MAX_PIECE_BYTES 512u

/* Open addressing from a token's bytes to its first index. */
typedef struct table {
  uint32_t *slots; /* index + 1; 0 is free */
  size_t mask;
  const wf_str *tokens;
} table;

static bool table_init(table *t, const wf_str *tokens, size_t n) {
  size_t size = 16;
  while (size < 2 * n) size *= 2;
  *t = (table){.slots = wf_calloc(size, sizeof *t->slots), .mask = size - 1, .tokens = tokens};
  if (!t->slots) return false;
  for (size_t i = 0; i < n; i++) {
    size_t at = (size_t)wf_hash_bytes(WF_HASH_SEED, tokens[i].at, tokens[i].n) & t->mask;
    while (t->slots[at] && !wf_str_eq(tokens[t->slots[at] - 1], tokens[i])) at = (at + 1) & t->mask;
    if (!t->slots[at]) t->slots[at] = (uint32_t)i + 1;
  }
  return true;
}

static bool table_find(const table *t, wf_str s, uint32_t *index) {
  size_t at = (size_t)wf_hash_bytes(WF_HASH_SEED, s.at, s.n) & t->mask;
  while (t->slots[at]) {
    if (wf_str_eq(t->tokens[t->slots[at] - 1], s)) {
      *index = t->slots[at] - 1;
      return true;
    }
    at = (at + 1) & t->mask;
  }
  return false;
}

static int compare_ids(const void *pa, const void *pb) {
  const merge *a = pa, *b = pb;
  if (a->left != b->left) return a->left < b->left ? -1 : 1;
  return (a->right > b->right) - (a->right < b->right);
}

/* Descending by score, left length, right length; equal ones keep their order. */
static int compare_merges(const void *pa, const void *pb) {
  const merge *a = pa, *b = pb;
  if (a->score < b->score || a->score > b->score) return a->score > b->score ? -1 : 1;
  if (a->n_left != b->n_left) return a->n_left > b->n_left ? -1 : 1;
  if (a->n_right != b->n_right) return a->n_right > b->n_right ? -1 : 1;
  return (a->order > b->order) - (a->order < b->order);
}

weft_status wf_hf_merges_from_scores(const wf_str *tokens, const float *scores,
                                     const bool *is_piece, size_t n, wf_buf *json,
                                     weft_error *err) {
  weft_status st = WEFT_OK;
  WF_VEC(merge) all = {0};
  table index = {0};
  if (!table_init(&index, tokens, n)) {
    st = wf_fail_memory(err, n * sizeof *index.slots, "a vocabulary");
    goto out;
  }
  for (size_t i = 0; i < n; i++) {
    const size_t first = all.n;
    const wf_str s = tokens[i];
    uint32_t self, total = 0, before = 0;
    if (!is_piece[i] || !table_find(&index, s, &self) || self != i) continue;
    if (s.n > MAX_PIECE_BYTES) {
      st = wf_fail(err, WEFT_TOKENIZER, "download or convert the file again",
                   "SentencePiece token %zu has %zu bytes, and the most is %u", i, s.n,
                   MAX_PIECE_BYTES);
      goto out;
    }
    for (size_t at = 0; at < s.n; at++) total += ((unsigned char)s.at[at] & 0xc0) != 0x80;
    for (size_t at = 1; at < s.n; at++) {
      merge m = {.score = scores[i]};
      if (((unsigned char)s.at[at] & 0xc0) == 0x80) continue; /* inside a character */
      before++;
      if (!table_find(&index, (wf_str){s.at, at}, &m.left) ||
          !table_find(&index, (wf_str){s.at + at, s.n - at}, &m.right)) {
        continue;
      }
      m.n_left = before;
      m.n_right = total - before;
      if (!wf_vec_push(&all, m)) {
        st = wf_fail_memory(err, sizeof m, "merges");
        goto out;
      }
    }
    if (all.n > first) qsort(all.at + first, all.n - first, sizeof *all.at, compare_ids);
  }
  for (size_t i = 0; i < all.n; i++) all.at[i].order = (uint32_t)i;
  if (all.n > 0) qsort(all.at, all.n, sizeof *all.at, compare_merges);
  for (size_t i = 0; i < all.n; i++) {
    wf_buf_puts(json, i ? ",\n[" : "\n[");
    wf_buf_add_json_string(json, tokens[all.at[i].left], false);
    wf_buf_putc(json, ',');
    wf_buf_add_json_string(json, tokens[all.at[i].right], false);
    wf_buf_putc(json, ']');
  }
out:
  wf_free(index.slots);
  wf_vec_free(&all);
  return st;
}
