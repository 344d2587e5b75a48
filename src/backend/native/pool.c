/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/pool.h"

#include <string.h>

#include "base/thread.h"

enum { LARGE_BYTES = 256 << 20 };

void wf_pool_deinit(wf_pool *p) {
  for (size_t i = 0; i < p->all.n; i++) {
    wf_free(p->all.at[i]->data);
    wf_free(p->all.at[i]);
  }
  wf_vec_free(&p->all);
}

/* First place whose capacity is n_bytes or more. */
static size_t lower_bound(const wf_pool *p, size_t n_bytes) {
  size_t low = 0, high = p->all.n;
  while (low < high) {
    const size_t mid = low + (high - low) / 2;
    if (p->all.at[mid]->capacity < n_bytes) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return low;
}

wf_pool_buffer *wf_pool_take(wf_pool *p, size_t n_bytes) {
  /* A shape in a file may ask for anything: what memory can't hold is refused before it is touched.
   */
  int is_cgroup = 0;
  if (n_bytes > SIZE_MAX / 2) return NULL;
  if (n_bytes > LARGE_BYTES && n_bytes > wf_memory_available(&is_cgroup)) return NULL;
  const size_t at = lower_bound(p, n_bytes);
  /* A buffer much larger than asked for is left for who needs it. */
  for (size_t i = at; i < p->all.n && p->all.at[i]->capacity / 4 <= n_bytes + 1024; i++) {
    if (p->all.at[i]->refs == 0) {
      p->all.at[i]->refs = 1;
      return p->all.at[i];
    }
  }
  /* An eighth more, so that a state that grows by a token a step does not miss each time. */
  const size_t capacity = (n_bytes + n_bytes / 8 + 255) & ~(size_t)255;
  if (!wf_vec_reserve(&p->all, 1)) return NULL;
  wf_pool_buffer *b = wf_zalloc(sizeof *b);
  void *data = wf_alloc_aligned(capacity, 64);
  if (!b || !data) {
    wf_free(b);
    wf_free(data);
    return NULL;
  }
  *b = (wf_pool_buffer){data, capacity, 1};
  const size_t to = lower_bound(p, capacity);
  memmove(p->all.at + to + 1, p->all.at + to, (p->all.n - to) * sizeof *p->all.at);
  p->all.at[to] = b;
  p->all.n++;
  p->n_allocations++;
  return b;
}
