/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers that come back: after the first run of a shape nothing is taken from the heap. One
 * thread. */
#ifndef WF_NATIVE_POOL_H
#define WF_NATIVE_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

typedef struct wf_pool_buffer {
  void *data; /* 64-byte aligned */
  size_t capacity;
  int32_t refs; /* 0: free */
} wf_pool_buffer;

typedef struct wf_pool {
  WF_VEC(wf_pool_buffer *) all; /* by capacity, ascending */
  uint64_t n_allocations;
} wf_pool;

void wf_pool_deinit(wf_pool *p);
/* A buffer of n_bytes or more with one reference; NULL when memory is out. */
wf_pool_buffer *wf_pool_take(wf_pool *p, size_t n_bytes) WF_NODISCARD;
static inline void wf_pool_ref(wf_pool_buffer *b) {
  if (b) b->refs++;
}
static inline void wf_pool_unref(wf_pool_buffer *b) {
  if (b) b->refs--;
}

#endif
