/* SPDX-License-Identifier: Apache-2.0 */
/* Arenas on whole pages, so that sealing can hand them to mprotect. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"

enum { CHUNK_BYTES = 64 * 1024, ALIGN_BYTES = 64 };

typedef struct chunk {
  unsigned char *base;
  size_t size, used;
} chunk;

struct wf_arena {
  WF_VEC(chunk) chunks;
  size_t bytes;
  bool sealed;
};

wf_arena *wf_arena_create(void) { return wf_zalloc(sizeof(wf_arena)); }

void wf_arena_destroy(wf_arena *a) {
  if (!a) return;
  for (size_t i = 0; i < a->chunks.n; i++) {
    WF_SHOW_MEMORY(a->chunks.at[i].base, a->chunks.at[i].size); /* others may get these pages */
    munmap(a->chunks.at[i].base, a->chunks.at[i].size);
  }
  wf_vec_free(&a->chunks);
  wf_free(a);
}

void *wf_arena_alloc(wf_arena *a, size_t n_bytes) {
  size_t need;
  if (a->sealed || !wf_size_align(n_bytes ? n_bytes : 1, ALIGN_BYTES, &need)) return NULL;
  chunk *last = a->chunks.n ? &a->chunks.at[a->chunks.n - 1] : NULL;
  if (!last || last->size - last->used < need) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t size;
    if (!wf_size_align(need > CHUNK_BYTES ? need : CHUNK_BYTES, page, &size)) return NULL;
    if (!wf_vec_reserve(&a->chunks, 1)) return NULL;
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return NULL;
    WF_HIDE_MEMORY(base, size);
    a->chunks.at[a->chunks.n] = (chunk){base, size, 0};
    last = &a->chunks.at[a->chunks.n++];
    a->bytes += size;
  }
  void *p = last->base + last->used; /* fresh pages of mmap are zero */
  last->used += need;
  WF_SHOW_MEMORY(p, n_bytes); /* what fills it up to the alignment stays hidden */
  return p;
}

void *wf_arena_calloc(wf_arena *a, size_t n, size_t size) {
  size_t n_bytes;
  return wf_size_mul(n, size, &n_bytes) ? wf_arena_alloc(a, n_bytes) : NULL;
}

char *wf_arena_strndup(wf_arena *a, const char *s, size_t n) {
  size_t need;
  if (!wf_size_add(n, 1, &need)) return NULL;
  char *copy = wf_arena_alloc(a, need);
  if (copy && n) memcpy(copy, s, n);
  return copy;
}

char *wf_arena_strdup(wf_arena *a, const char *s) { return wf_arena_strndup(a, s, strlen(s)); }

size_t wf_arena_bytes(const wf_arena *a) { return a->bytes; }

weft_status wf_arena_seal(wf_arena *a, weft_error *err) {
  a->sealed = true;
  for (size_t i = 0; i < a->chunks.n; i++) {
    if (mprotect(a->chunks.at[i].base, a->chunks.at[i].size, PROT_READ) != 0) {
      return wf_fail(err, WEFT_OUT_OF_MEMORY, "raise vm.max_map_count or free memory",
                     "cannot make %zu bytes of a finished plan read-only", a->chunks.at[i].size);
    }
  }
  return WEFT_OK;
}

uint64_t wf_arena_digest(const wf_arena *a) {
  uint64_t h = WF_HASH_SEED;
  for (size_t i = 0; i < a->chunks.n; i++) {
    WF_SHOW_MEMORY(a->chunks.at[i].base, a->chunks.at[i].used);
    h = wf_hash_bytes(h, a->chunks.at[i].base, a->chunks.at[i].used);
  }
  return h;
}
