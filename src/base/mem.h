/* SPDX-License-Identifier: Apache-2.0 */
/* Heap, checked sizes and arenas. Three lifetimes exist: objects (create/destroy), an arena
 * (everything with one death, such as a plan) and scratch (reset at the end of a pass). */
#ifndef WF_MEM_H
#define WF_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Checked arithmetic for sizes from outside: false when the result does not fit. */
bool wf_size_mul(size_t a, size_t b, size_t *result) WF_NODISCARD;
bool wf_size_add(size_t a, size_t b, size_t *result) WF_NODISCARD;
/* Rounds up to a multiple of `align`, a power of two; false when that overflows. */
bool wf_size_align(size_t n, size_t align, size_t *result) WF_NODISCARD;

/* Heap. Every allocation of weft goes through these; NULL when memory is out. wf_zalloc gives
 * zeroed memory, so a half-built object can always be destroyed. A size of 0 gives a valid unique
 * pointer. Owner: the caller, freed by wf_free (NULL is fine). Thread: any. */
void *wf_alloc(size_t n_bytes) WF_NODISCARD;
void *wf_zalloc(size_t n_bytes) WF_NODISCARD;
/* n * size zeroed bytes; NULL also when the product overflows. */
void *wf_calloc(size_t n, size_t size) WF_NODISCARD;
/* On failure the old block stays valid and owned by the caller. */
void *wf_realloc(void *p, size_t n_bytes) WF_NODISCARD;
/* n * size bytes, old contents kept; NULL also when the product overflows. */
void *wf_realloc_array(void *p, size_t n, size_t size) WF_NODISCARD;
void wf_free(void *p);
/* Aligned to `align` (power of two, 64 for kernels), not zeroed; freed by wf_free. */
void *wf_alloc_aligned(size_t n_bytes, size_t align) WF_NODISCARD;

/* The only place where const is dropped; each use states its reason beside it. */
static inline void *wf_unconst(const void *p) {
  union {
    const void *c;
    void *m;
  } u;
  u.c = p;
  return u.m;
}

/* Growable array: `WF_VEC(int) v = {0};` then wf_vec_reserve. Members are public on purpose. */
#define WF_VEC(type)    \
  struct {              \
    type *at;           \
    size_t n, capacity; \
  }
/* Makes room for `more` further elements; false when memory is out (the vector is unchanged). */
#define wf_vec_reserve(v, more) \
  wf_vec_reserve_(&(v)->at, &(v)->capacity, (v)->n, (more), sizeof *(v)->at)
/* Appends one element; evaluates to false when memory is out. */
#define wf_vec_push(v, value) (wf_vec_reserve((v), 1) ? ((v)->at[(v)->n++] = (value), true) : false)
#define wf_vec_free(v) (wf_free((v)->at), (v)->at = NULL, (v)->n = (v)->capacity = 0)
bool wf_vec_reserve_(void *at_ptr, size_t *capacity, size_t n, size_t more, size_t size);

/* Arena: bump allocation in page-aligned chunks, all freed together. After wf_arena_seal its pages
 * are read-only in every build and each further allocation fails.
 * Thread: one thread until sealed, `immutable` after. */
typedef struct wf_arena wf_arena;
wf_arena *wf_arena_create(void) WF_NODISCARD; /* NULL: no memory */
void wf_arena_destroy(wf_arena *a);           /* NULL is fine; unseals and frees */
/* Zeroed memory aligned to 64 bytes; NULL when memory is out or the arena is sealed. */
void *wf_arena_alloc(wf_arena *a, size_t n_bytes) WF_NODISCARD;
void *wf_arena_calloc(wf_arena *a, size_t n, size_t size) WF_NODISCARD;
/* Terminated copy of n bytes. */
char *wf_arena_strndup(wf_arena *a, const char *s, size_t n) WF_NODISCARD;
char *wf_arena_strdup(wf_arena *a, const char *s) WF_NODISCARD;
size_t wf_arena_bytes(const wf_arena *a); /* taken from the system */
weft_status wf_arena_seal(wf_arena *a, weft_error *err) WF_NODISCARD;
/* A digest of all bytes handed out, for the test that nothing writes after sealing. */
uint64_t wf_arena_digest(const wf_arena *a);

#endif
