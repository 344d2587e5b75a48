/* SPDX-License-Identifier: Apache-2.0 */
/* The compact tables behind every model: strings and ids, merges, a byte trie. A 262,000-token
 * vocabulary with 515,000 merges is about 20 MB and loads in well under half a second. */
#include "base/hash.h"
#include "text/tokenizer_internal.h"

void wf_vocab_deinit(wf_vocab *v) {
  wf_buf_deinit(&v->bytes);
  wf_vec_free(&v->entries);
  wf_free(v->by_id);
  wf_free(v->slots);
  *v = (wf_vocab){0};
}

bool wf_vocab_add(wf_vocab *v, int32_t id, wf_str text) {
  if (v->bytes.n + text.n > UINT32_MAX / 2) return false;
  const wf_vocab_entry e = {id, (uint32_t)v->bytes.n, (uint32_t)text.n};
  wf_buf_add(&v->bytes, text.at, text.n);
  return !v->bytes.failed && wf_vec_push(&v->entries, e);
}

static uint32_t hash_text(const char *s, size_t n) {
  return (uint32_t)(wf_hash_bytes(WF_HASH_SEED, s, n) >> 16);
}

static size_t table_size(size_t n) {
  size_t size = 16;
  while (size < n * 2) size *= 2;
  return size;
}

static void insert(wf_vocab *v, const wf_vocab_entry *e) {
  const char *text = v->bytes.at + e->at;
  const uint32_t h = hash_text(text, e->n);
  size_t i = h & v->mask;
  for (; v->slots[i]; i = (i + 1) & v->mask) {
    if ((uint32_t)(v->slots[i] >> 32) != h) continue;
    const wf_vocab_entry *old = &v->by_id[(uint32_t)v->slots[i] - 1];
    if (old->n == e->n && memcmp(v->bytes.at + old->at, text, e->n) == 0) break;
  }
  /* The later of two equal strings wins, as in the maps of the reference. */
  v->slots[i] = (uint64_t)h << 32 | ((uint32_t)e->id + 1);
}

weft_status wf_vocab_finish(wf_vocab *v, const char *name, weft_error *err) {
  int32_t max_id = -1;
  for (size_t i = 0; i < v->entries.n; i++) {
    if (v->entries.at[i].id > max_id) max_id = v->entries.at[i].id;
  }
  v->n_ids = (size_t)(max_id + 1);
  v->n_strings = v->entries.n;
  /* Tables are indexed by id, so a lone id of two thousand million must not buy memory. */
  if (v->n_ids > v->entries.n * 8 + 65536) {
    return wf_fail(err, WEFT_TOKENIZER, "repair the file or fetch it again",
                   "%s: token id %d is far beyond the %zu tokens of the vocabulary", name,
                   (int)max_id, v->entries.n);
  }
  const size_t size = table_size(v->entries.n);
  v->mask = size - 1;
  v->slots = wf_calloc(size, sizeof *v->slots);
  v->by_id = wf_calloc(v->n_ids ? v->n_ids : 1, sizeof *v->by_id);
  if (!v->slots || !v->by_id) return wf_fail_memory(err, size * 8, "the vocabulary");
  for (size_t i = 0; i < v->n_ids; i++) v->by_id[i].id = -1;
  for (size_t i = 0; i < v->entries.n; i++) v->by_id[v->entries.at[i].id] = v->entries.at[i];
  for (size_t i = 0; i < v->entries.n; i++) {
    /* Two strings for one id: the table can name only the one by_id holds. */
    const wf_vocab_entry *e = &v->entries.at[i];
    if (v->by_id[e->id].at == e->at) insert(v, e);
  }
  wf_vec_free(&v->entries);
  for (int i = 0; i < 128; i++) {
    const char c = (char)i;
    v->ascii[i] = wf_vocab_find(v, &c, 1);
  }
  return WEFT_OK;
}

static int32_t find_hashed(const wf_vocab *v, const char *s, size_t n, uint32_t h) {
  for (size_t i = h & v->mask; v->slots[i]; i = (i + 1) & v->mask) {
    if ((uint32_t)(v->slots[i] >> 32) != h) continue;
    const uint32_t id = (uint32_t)v->slots[i] - 1;
    const wf_vocab_entry *e = &v->by_id[id];
    if (e->n == n && memcmp(v->bytes.at + e->at, s, n) == 0) return (int32_t)id;
  }
  return -1;
}

int32_t wf_vocab_find(const wf_vocab *v, const char *s, size_t n) {
  return v->slots ? find_hashed(v, s, n, hash_text(s, n)) : -1;
}

/* The entry that a lookup most likely finds; NULL: none has its hash. */
static const wf_vocab_entry *likely(const wf_vocab *v, uint32_t h) {
  for (size_t i = h & v->mask; v->slots[i]; i = (i + 1) & v->mask) {
    if ((uint32_t)(v->slots[i] >> 32) == h) return &v->by_id[(uint32_t)v->slots[i] - 1];
  }
  return NULL;
}

/* A lookup waits for memory three times, for the slot, the entry and the text. The lookups wait
 * together, so each step asks for what the next one reads. */
void wf_vocab_find_many(const wf_vocab *v, const char *bytes, wf_vocab_lookup *l, size_t n) {
  for (size_t i = 0; i < n; i++) {
    l[i].id = -1;
    l[i].hash = hash_text(bytes + l[i].at, l[i].n);
    if (v->slots) WF_PREFETCH(&v->slots[l[i].hash & v->mask]);
  }
  if (!v->slots) return;
  for (size_t i = 0; i < n; i++) {
    const wf_vocab_entry *e = likely(v, l[i].hash);
    if (e) WF_PREFETCH(e);
  }
  for (size_t i = 0; i < n; i++) {
    const wf_vocab_entry *e = likely(v, l[i].hash);
    if (e) WF_PREFETCH(v->bytes.at + e->at);
  }
  for (size_t i = 0; i < n; i++) {
    l[i].id = find_hashed(v, bytes + l[i].at, l[i].n, l[i].hash);
  }
}

wf_str wf_vocab_text(const wf_vocab *v, int32_t id) {
  if (id < 0 || (size_t)id >= v->n_ids || v->by_id[id].id < 0) return (wf_str){NULL, 0};
  return (wf_str){v->bytes.at ? v->bytes.at + v->by_id[id].at : "", v->by_id[id].n};
}

void wf_merges_deinit(wf_merges *m) {
  wf_free(m->slots);
  *m = (wf_merges){0};
}

bool wf_merges_reserve(wf_merges *m, size_t n) {
  const size_t size = table_size(n);
  if (m->slots && size <= m->mask + 1) return true;
  wf_merges grown = {.slots = wf_calloc(size, sizeof *grown.slots), .mask = size - 1};
  if (!grown.slots) return false;
  for (size_t i = 0; i < size; i++) grown.slots[i].pair = UINT64_MAX;
  for (size_t i = 0; m->slots && i <= m->mask; i++) {
    const wf_merge *e = &m->slots[i];
    if (e->pair == UINT64_MAX) continue;
    size_t at = (size_t)(e->pair * UINT64_C(0x9e3779b97f4a7c15) >> 20) & grown.mask;
    while (grown.slots[at].pair != UINT64_MAX) at = (at + 1) & grown.mask;
    grown.slots[at] = *e;
    grown.n++;
  }
  wf_free(m->slots);
  *m = grown;
  return true;
}

static uint64_t pair_of(int32_t left, int32_t right) {
  return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static size_t merge_slot(const wf_merges *m, uint64_t pair) {
  return (size_t)(pair * UINT64_C(0x9e3779b97f4a7c15) >> 20) & m->mask;
}

void wf_merges_prefetch(const wf_merges *m, int32_t left, int32_t right) {
  if (m->slots) WF_PREFETCH(&m->slots[merge_slot(m, pair_of(left, right))]);
}

bool wf_merges_put(wf_merges *m, int32_t left, int32_t right, uint32_t rank, int32_t id) {
  if (!wf_merges_reserve(m, m->n + 1)) return false;
  const uint64_t pair = pair_of(left, right);
  size_t i = merge_slot(m, pair);
  while (m->slots[i].pair != UINT64_MAX && m->slots[i].pair != pair) i = (i + 1) & m->mask;
  if (m->slots[i].pair == UINT64_MAX) m->n++;
  m->slots[i] = (wf_merge){pair, rank, id};
  return true;
}

void wf_trie_deinit(wf_trie *t) {
  wf_free(t->keys);
  wf_free(t->children);
  wf_vec_free(&t->values);
  *t = (wf_trie){0};
}

static size_t edge_slot(const wf_trie *t, uint64_t key) {
  size_t i = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 24) & t->mask;
  while (t->keys[i] && t->keys[i] != key) i = (i + 1) & t->mask;
  return i;
}

static bool grow_edges(wf_trie *t) {
  if (t->keys && (t->n_edges + 1) * 2 <= t->mask + 1) return true;
  const size_t size = t->keys ? (t->mask + 1) * 2 : 64;
  wf_trie grown = {.keys = wf_calloc(size, sizeof *grown.keys),
                   .children = wf_calloc(size, sizeof *grown.children),
                   .mask = size - 1};
  if (!grown.keys || !grown.children) {
    wf_free(grown.keys);
    wf_free(grown.children);
    return false;
  }
  for (size_t i = 0; t->keys && i <= t->mask; i++) {
    if (!t->keys[i]) continue;
    const size_t at = edge_slot(&grown, t->keys[i]);
    grown.keys[at] = t->keys[i];
    grown.children[at] = t->children[i];
  }
  wf_free(t->keys);
  wf_free(t->children);
  t->keys = grown.keys;
  t->children = grown.children;
  t->mask = grown.mask;
  return true;
}

bool wf_trie_put(wf_trie *t, const char *key, size_t n, int32_t value, bool replace) {
  if (t->values.n == 0 && !wf_vec_push(&t->values, -1)) return false;
  uint32_t node = 0;
  for (size_t i = 0; i < n; i++) {
    if (!grow_edges(t)) return false;
    const uint64_t edge = ((uint64_t)node << 8 | (unsigned char)key[i]) + 1;
    const size_t at = edge_slot(t, edge);
    if (!t->keys[at]) {
      if (t->values.n >= UINT32_MAX || !wf_vec_push(&t->values, -1)) return false;
      t->keys[at] = edge;
      t->children[at] = (uint32_t)(t->values.n - 1);
      t->n_edges++;
    }
    node = t->children[at];
  }
  if (replace || t->values.at[node] < 0) t->values.at[node] = value;
  return true;
}
