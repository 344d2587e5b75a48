/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

bool wf_size_mul(size_t a, size_t b, size_t *result) {
  if (a != 0 && b > SIZE_MAX / a) return false;
  *result = a * b;
  return true;
}

bool wf_size_add(size_t a, size_t b, size_t *result) {
  if (b > SIZE_MAX - a) return false;
  *result = a + b;
  return true;
}

bool wf_size_align(size_t n, size_t align, size_t *result) {
  if (n > SIZE_MAX - (align - 1)) return false;
  *result = (n + align - 1) & ~(align - 1);
  return true;
}

void *wf_alloc(size_t n_bytes) { return malloc(n_bytes ? n_bytes : 1); }

void *wf_zalloc(size_t n_bytes) { return calloc(1, n_bytes ? n_bytes : 1); }

void *wf_calloc(size_t n, size_t size) { return n && size ? calloc(n, size) : calloc(1, 1); }

void *wf_realloc(void *p, size_t n_bytes) { return realloc(p, n_bytes ? n_bytes : 1); }

void *wf_realloc_array(void *p, size_t n, size_t size) {
  size_t n_bytes;
  return wf_size_mul(n, size, &n_bytes) ? wf_realloc(p, n_bytes) : NULL;
}

void wf_free(void *p) { free(p); }

void *wf_alloc_aligned(size_t n_bytes, size_t align) {
  size_t rounded;
  if (align < sizeof(void *)) align = sizeof(void *);
  if (!wf_size_align(n_bytes ? n_bytes : 1, align, &rounded)) return NULL;
  return aligned_alloc(align, rounded);
}

bool wf_vec_reserve_(void *at_ptr, size_t *capacity, size_t n, size_t more, size_t size) {
  size_t need;
  if (!wf_size_add(n, more, &need)) return false;
  if (need <= *capacity) return true;
  size_t wanted = *capacity < 8 ? 8 : *capacity + *capacity / 2;
  if (wanted < need) wanted = need;
  void *old;
  memcpy(&old, at_ptr, sizeof old); /* at_ptr is a T **; a copy avoids aliasing it as void ** */
  void *grown = wf_realloc_array(old, wanted, size);
  if (!grown) return false;
  memcpy(at_ptr, &grown, sizeof grown);
  *capacity = wanted;
  return true;
}
