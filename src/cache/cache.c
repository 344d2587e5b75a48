/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks come from slabs: stretches of address space reserved at once and paid for page by page as
 * they are written. In front of each block stands nothing; its count and slab are found by address.
 */
#include "cache/cache.h"

#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"

typedef struct slab {
  unsigned char *base;
  size_t n_blocks;
  int32_t *counts; /* owners of each block; 0: free */
} slab;

typedef struct pool_group {
  size_t block_bytes; /* a multiple of the page, so that freed blocks can be given back */
  int64_t window;
  size_t blocks_a_slab;
  WF_VEC(slab) slabs;
  WF_VEC(unsigned char *) free_list;
} pool_group;

struct wf_kv_pool {
  size_t n_groups;
  pool_group *groups;
  size_t bytes_used, bytes_limit; /* limit 0: none */
  const wf_backend *backend;      /* with these two its sequences are states: no groups */
  wf_backend_session *session;
  bool has_carried; /* states of a fixed size, whoever holds them */
  size_t carried_bytes;
};

enum { PAGE_BYTES = 4096, MAX_SLAB_BYTES = 1 << 30 };

weft_status wf_kv_pool_create(wf_kv_pool **result, const wf_component_info *info,
                              int64_t reserve_tokens, size_t limit_bytes, weft_error *err) {
  wf_kv_pool *pool = wf_zalloc(sizeof *pool);
  if (!pool) return wf_fail_memory(err, sizeof *pool, "a cache");
  pool->groups = wf_calloc(info->n_groups ? info->n_groups : 1, sizeof *pool->groups);
  if (!pool->groups) {
    wf_free(pool);
    return wf_fail_memory(err, 0, "a cache");
  }
  pool->n_groups = info->n_groups;
  pool->has_carried = info->n_carried > 0;
  pool->carried_bytes = info->carried_bytes;
  pool->bytes_limit = limit_bytes;
  for (size_t g = 0; g < info->n_groups; g++) {
    pool_group *group = &pool->groups[g];
    if (!wf_size_align(info->groups[g].block_bytes, PAGE_BYTES, &group->block_bytes)) {
      wf_kv_pool_destroy(pool);
      return wf_fail(err, WEFT_OUT_OF_MEMORY, NULL, "a cache block of %zu bytes is too large",
                     info->groups[g].block_bytes);
    }
    group->window = info->groups[g].window;
    const size_t wanted = (size_t)(reserve_tokens / WF_KV_BLOCK_TOKENS + 2);
    const size_t most = group->block_bytes ? MAX_SLAB_BYTES / group->block_bytes : 1;
    group->blocks_a_slab = wanted < most ? wanted : most ? most : 1;
  }
  *result = pool;
  return WEFT_OK;
}

void wf_kv_pool_attach(wf_kv_pool *pool, const wf_backend *backend, wf_backend_session *session) {
  pool->n_groups = 0; /* nothing has been taken for them yet */
  pool->backend = backend;
  pool->session = session;
}

void wf_kv_pool_destroy(wf_kv_pool *pool) {
  if (!pool) return;
  for (size_t g = 0; g < pool->n_groups; g++) {
    pool_group *group = &pool->groups[g];
    for (size_t i = 0; i < group->slabs.n; i++) {
      munmap(group->slabs.at[i].base, group->slabs.at[i].n_blocks * group->block_bytes);
      wf_free(group->slabs.at[i].counts);
    }
    wf_vec_free(&group->slabs);
    wf_vec_free(&group->free_list);
  }
  wf_free(pool->groups);
  wf_free(pool);
}

size_t wf_kv_pool_bytes_used(const wf_kv_pool *pool) { return pool->bytes_used; }

static bool add_slab(pool_group *group) {
  size_t n_bytes;
  const size_t n = group->blocks_a_slab;
  if (!wf_size_mul(n, group->block_bytes, &n_bytes)) return false;
  if (!wf_vec_reserve(&group->slabs, 1) ||
      !wf_vec_reserve(&group->free_list, group->slabs.n * n + n)) {
    return false;
  }
  int32_t *counts = wf_calloc(n, sizeof *counts);
  if (!counts) return false;
  void *base = mmap(NULL, n_bytes ? n_bytes : PAGE_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) {
    wf_free(counts);
    return false;
  }
  /* A decode step walks the whole cache, and a page of 4 KiB ends before its address has paid for
   * being looked up. Advice only. */
  (void)madvise(base, n_bytes, MADV_HUGEPAGE);
  group->slabs.at[group->slabs.n++] = (slab){base, n, counts};
  for (size_t i = n; i-- > 0;) {
    group->free_list.at[group->free_list.n++] = (unsigned char *)base + i * group->block_bytes;
  }
  return true;
}

static int32_t *count_of(pool_group *group, const unsigned char *block) {
  for (size_t i = 0; i < group->slabs.n; i++) {
    const slab *s = &group->slabs.at[i];
    if (block >= s->base && block < s->base + s->n_blocks * group->block_bytes) {
      return &s->counts[(size_t)(block - s->base) / group->block_bytes];
    }
  }
  return NULL;
}

static unsigned char *take_block(wf_kv_pool *pool, pool_group *group, weft_error *err) {
  if (pool->bytes_limit && group->block_bytes > pool->bytes_limit - pool->bytes_used) {
    (void)wf_fail(err, WEFT_OUT_OF_MEMORY, "end other conversations or use a shorter context",
                  "the key/value cache is full: %zu of %zu bytes are in use", pool->bytes_used,
                  pool->bytes_limit);
    return NULL;
  }
  if (group->free_list.n == 0 && !add_slab(group)) {
    (void)wf_fail_memory(err, group->block_bytes, "the key/value cache");
    return NULL;
  }
  unsigned char *block = group->free_list.at[--group->free_list.n];
  *count_of(group, block) = 1;
  pool->bytes_used += group->block_bytes;
  return block;
}

static void drop_block(wf_kv_pool *pool, pool_group *group, unsigned char *block) {
  int32_t *count = count_of(group, block);
  if (--*count > 0) return;
  pool->bytes_used -= group->block_bytes;
  /* give the pages back; the address stays ours. Advice only. */
  (void)madvise(block, group->block_bytes, MADV_DONTNEED);
  group->free_list.at[group->free_list.n++] = block; /* room was made by add_slab */
}

weft_status wf_kv_sequence_init(wf_kv_sequence *s, wf_kv_pool *pool, int64_t max_tokens,
                                weft_error *err) {
  *s = (wf_kv_sequence){.pool = pool};
  const size_t n = pool->n_groups ? pool->n_groups : 1;
  s->tables = wf_calloc(n, sizeof *s->tables);
  s->capacity = wf_calloc(n, sizeof *s->capacity);
  s->blocks = wf_calloc(n, sizeof *s->blocks);
  bool is_ok = s->tables && s->capacity && s->blocks;
  for (size_t g = 0; is_ok && g < pool->n_groups; g++) {
    s->capacity[g] = max_tokens / WF_KV_BLOCK_TOKENS + 2;
    s->blocks[g] = wf_calloc((size_t)s->capacity[g], sizeof *s->blocks[g]);
    is_ok = s->blocks[g] != NULL;
    s->tables[g].blocks = s->blocks[g];
  }
  if (pool->carried_bytes) {
    s->carried = wf_alloc_aligned(pool->carried_bytes, 64);
    is_ok = is_ok && s->carried;
    if (s->carried) memset(s->carried, 0, pool->carried_bytes);
  }
  const weft_status st = !is_ok ? wf_fail_memory(err, 0, "a block table")
                         : pool->session
                             ? wf_backend_state_open(pool->backend, &s->state, pool->session, err)
                             : WEFT_OK;
  if (st != WEFT_OK) wf_kv_sequence_deinit(s);
  return st;
}

static void clear(wf_kv_sequence *s) {
  for (size_t g = 0; g < s->pool->n_groups; g++) {
    wf_kv_table *t = &s->tables[g];
    for (int64_t i = 0; i < t->n_blocks; i++)
      drop_block(s->pool, &s->pool->groups[g], s->blocks[g][i]);
    t->n_blocks = t->first_block = 0;
  }
  s->length = 0;
}

void wf_kv_sequence_deinit(wf_kv_sequence *s) {
  if (s->pool && s->tables && s->blocks && s->capacity) {
    for (size_t g = 0; g < s->pool->n_groups; g++) {
      if (!s->blocks[g]) s->tables[g].n_blocks = 0;
    }
    clear(s);
    for (size_t g = 0; g < s->pool->n_groups; g++) wf_free(s->blocks[g]);
  }
  if (s->state) wf_backend_state_close(s->pool->backend, s->state);
  wf_free(s->tables);
  wf_free(s->capacity);
  wf_free(s->blocks);
  wf_free(s->carried);
  *s = (wf_kv_sequence){0};
}

static weft_status grow_table(wf_kv_sequence *s, size_t g, int64_t n_blocks, weft_error *err) {
  if (n_blocks <= s->capacity[g]) return WEFT_OK;
  const int64_t wanted = n_blocks + n_blocks / 2;
  unsigned char **grown = wf_realloc_array(s->blocks[g], (size_t)wanted, sizeof *grown);
  if (!grown) return wf_fail_memory(err, 0, "a block table");
  s->blocks[g] = grown;
  s->tables[g].blocks = grown;
  s->capacity[g] = wanted;
  return WEFT_OK;
}

/* The tail block of group g if the next token falls into it; then it must be ours alone. */
static weft_status own_tail(wf_kv_sequence *s, size_t g, weft_error *err) {
  wf_kv_table *t = &s->tables[g];
  pool_group *group = &s->pool->groups[g];
  const int64_t at = s->length / WF_KV_BLOCK_TOKENS - t->first_block;
  if (s->length % WF_KV_BLOCK_TOKENS == 0 || at >= t->n_blocks) return WEFT_OK;
  unsigned char *old = s->blocks[g][at];
  if (*count_of(group, old) == 1) return WEFT_OK;
  unsigned char *copy = take_block(s->pool, group, err);
  if (!copy) return err ? err->status : WEFT_OUT_OF_MEMORY;
  memcpy(copy, old, group->block_bytes);
  s->blocks[g][at] = copy;
  drop_block(s->pool, group, old);
  return WEFT_OK;
}

weft_status wf_kv_sequence_reserve(wf_kv_sequence *s, int64_t n_new, weft_error *err) {
  weft_error local = {.struct_size = sizeof local};
  if (!err) err = &local;
  const int64_t last = (s->length + n_new - 1) / WF_KV_BLOCK_TOKENS;
  for (size_t g = 0; n_new > 0 && g < s->pool->n_groups; g++) {
    wf_kv_table *t = &s->tables[g];
    const int64_t had = t->n_blocks;
    WF_RETURN_IF_ERROR(own_tail(s, g, err));
    WF_RETURN_IF_ERROR(grow_table(s, g, last - t->first_block + 1, err));
    while (t->first_block + t->n_blocks <= last) {
      unsigned char *block = take_block(s->pool, &s->pool->groups[g], err);
      if (!block) {
        while (t->n_blocks > had)
          drop_block(s->pool, &s->pool->groups[g], s->blocks[g][--t->n_blocks]);
        return err->status;
      }
      s->blocks[g][t->n_blocks++] = block;
    }
  }
  return WEFT_OK;
}

static void drop_front(wf_kv_sequence *s, size_t g, int64_t n) {
  wf_kv_table *t = &s->tables[g];
  if (n <= 0) return;
  if (n > t->n_blocks) n = t->n_blocks;
  for (int64_t i = 0; i < n; i++) drop_block(s->pool, &s->pool->groups[g], s->blocks[g][i]);
  memmove(s->blocks[g], s->blocks[g] + n, (size_t)(t->n_blocks - n) * sizeof *s->blocks[g]);
  t->n_blocks -= n;
  t->first_block += n;
}

void wf_kv_sequence_commit(wf_kv_sequence *s, int64_t n_new, int64_t keep_tokens) {
  s->length += n_new;
  for (size_t g = 0; g < s->pool->n_groups; g++) {
    const int64_t window = s->pool->groups[g].window;
    if (window <= 0) continue;
    /* the next query, after a rewind of keep_tokens, sees back to length - keep - window + 1 */
    const int64_t oldest = s->length - keep_tokens - window + 1;
    drop_front(s, g, oldest / WF_KV_BLOCK_TOKENS - s->tables[g].first_block);
  }
}

void wf_kv_sequence_fail(wf_kv_sequence *s) {
  if (s->pool->has_carried) (void)wf_kv_sequence_truncate(s, 0);
}

bool wf_kv_sequence_truncate(wf_kv_sequence *s, int64_t length) {
  const bool was_failed = s->pool->has_carried && length <= 0;
  if (length >= s->length && !was_failed) return true;
  if (s->pool->has_carried) {
    if (s->carried) memset(s->carried, 0, s->pool->carried_bytes);
    if (length > 0) {
      (void)wf_kv_sequence_truncate(s, 0);
      return false;
    }
  }
  if (s->state && wf_backend_state_truncate(s->pool->backend, s->state, length, NULL) != WEFT_OK) {
    clear(s);
    return false;
  }
  for (size_t g = 0; g < s->pool->n_groups; g++) {
    const int64_t window = s->pool->groups[g].window;
    const int64_t oldest = window > 0 ? length - window + 1 : 0;
    if (length > 0 && (oldest > 0 ? oldest : 0) < s->tables[g].first_block * WF_KV_BLOCK_TOKENS) {
      clear(s);
      return false;
    }
  }
  if (length <= 0) {
    clear(s);
    return true;
  }
  s->length = length;
  for (size_t g = 0; g < s->pool->n_groups; g++) {
    wf_kv_table *t = &s->tables[g];
    const int64_t keep = (length + WF_KV_BLOCK_TOKENS - 1) / WF_KV_BLOCK_TOKENS - t->first_block;
    while (t->n_blocks > keep)
      drop_block(s->pool, &s->pool->groups[g], s->blocks[g][--t->n_blocks]);
  }
  return true;
}

weft_status wf_kv_sequence_fork(wf_kv_sequence *copy, const wf_kv_sequence *s, weft_error *err) {
  if (s->state) {
    wf_backend_state *state = NULL;
    WF_RETURN_IF_ERROR(wf_backend_state_copy(s->pool->backend, &state, s->state, err));
    wf_backend_state_close(s->pool->backend, copy->state);
    copy->state = state;
  }
  for (size_t g = 0; g < s->pool->n_groups; g++) {
    WF_RETURN_IF_ERROR(grow_table(copy, g, s->tables[g].n_blocks, err));
  }
  for (size_t g = 0; g < s->pool->n_groups; g++) {
    copy->tables[g].n_blocks = s->tables[g].n_blocks;
    copy->tables[g].first_block = s->tables[g].first_block;
    for (int64_t i = 0; i < s->tables[g].n_blocks; i++) {
      copy->blocks[g][i] = s->blocks[g][i];
      ++*count_of(&s->pool->groups[g], s->blocks[g][i]);
    }
  }
  if (s->carried) memcpy(copy->carried, s->carried, s->pool->carried_bytes);
  copy->length = s->length;
  return WEFT_OK;
}

size_t wf_kv_estimate_bytes(const wf_component_info *info, int64_t n_tokens) {
  size_t sum = 0; /* states of a fixed size do not grow with the tokens */
  for (size_t g = 0; g < info->n_groups; g++) {
    const int64_t window = info->groups[g].window;
    /* a windowed group keeps its window and a prompt chunk, never more than the conversation */
    const int64_t kept = window > 0 && window + 512 < n_tokens ? window + 512 : n_tokens;
    size_t part;
    if (!wf_size_mul((size_t)(kept + WF_KV_BLOCK_TOKENS - 1) / WF_KV_BLOCK_TOKENS,
                     info->groups[g].block_bytes, &part) ||
        !wf_size_add(sum, part, &sum)) {
      return SIZE_MAX;
    }
  }
  return sum;
}
