/* SPDX-License-Identifier: Apache-2.0 */
#include "workflow/datum.h"

#include <string.h>

#include "base/mem.h"

/* Classes of doubling size, from 128 bytes; what is freed waits in its class, so that the second
 * iteration of a loop takes nothing from the heap. */
enum { FIRST_BITS = 7, N_CLASSES = 42, HEAD_BYTES = 192 };
_Static_assert(sizeof(wf_datum) <= HEAD_BYTES, "a value's head fits in front of its data");
_Static_assert(HEAD_BYTES % 64 == 0, "data begins on a cache line");

struct wf_datum_pool {
  wf_datum *free_list[N_CLASSES];
  size_t n_out, bytes;
  uint64_t n_allocations;
  bool is_closed;
};

weft_status wf_datum_pool_create(wf_datum_pool **result, weft_error *err) {
  *result = wf_zalloc(sizeof **result);
  return *result ? WEFT_OK : wf_fail_memory(err, sizeof **result, "values");
}

void wf_datum_pool_destroy(wf_datum_pool *p) {
  if (!p) return;
  for (int c = 0; c < N_CLASSES; c++) {
    while (p->free_list[c]) {
      wf_datum *v = p->free_list[c];
      p->free_list[c] = v->next;
      wf_free(v);
    }
  }
  p->is_closed = true;
  if (p->n_out == 0) wf_free(p);
}

size_t wf_datum_pool_bytes(const wf_datum_pool *p) { return p->bytes; }
uint64_t wf_datum_pool_allocations(const wf_datum_pool *p) { return p->n_allocations; }

weft_status wf_datum_create(wf_datum **result, wf_datum_pool *p, wf_dtype dtype, int32_t rank,
                            const int64_t *dims, weft_error *err) {
  size_t n = 0, n_bytes = 0, total = 0;
  if (rank < 0 || rank > WF_VIEW_MAX_RANK || !wf_dims_count(dims, (size_t)rank, &n) ||
      !wf_dtype_bytes(dtype, n, &n_bytes) || !wf_size_add(n_bytes, HEAD_BYTES, &total)) {
    return wf_fail(err, WEFT_LIMIT, "use smaller tensors",
                   "a %s tensor of rank %d has no size that fits", wf_dtype_name(dtype), (int)rank);
  }
  int size_class = 0;
  while (size_class < N_CLASSES && ((size_t)1 << (FIRST_BITS + size_class)) < total) size_class++;
  if (size_class == N_CLASSES) return wf_fail_memory(err, n_bytes, "a tensor");
  wf_datum *v = p->free_list[size_class];
  if (v) {
    p->free_list[size_class] = v->next;
  } else {
    const size_t size = (size_t)1 << (FIRST_BITS + size_class);
    v = wf_alloc_aligned(size, 64);
    if (!v) return wf_fail_memory(err, n_bytes, "a tensor");
    p->bytes += size;
    p->n_allocations++;
  }
  *v = (wf_datum){.refs = 1, .n_bytes = n_bytes, .pool = p, .size_class = size_class};
  v->view = (wf_view){.dtype = dtype, .rank = rank, .data = (unsigned char *)v + HEAD_BYTES};
  if (rank) memcpy(v->view.dims, dims, (size_t)rank * sizeof *dims);
  p->n_out++;
  *result = v;
  return WEFT_OK;
}

weft_status wf_datum_copy(wf_datum **result, wf_datum_pool *p, const wf_view *v, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_datum_create(result, p, v->dtype, v->rank, v->dims, err));
  if ((*result)->n_bytes) memcpy((*result)->view.data, v->data, (*result)->n_bytes);
  return WEFT_OK;
}

wf_datum *wf_datum_ref(wf_datum *v) {
  v->refs++;
  return v;
}

void wf_datum_unref(wf_datum *v) {
  if (!v || --v->refs > 0) return;
  wf_datum_pool *p = v->pool;
  p->n_out--;
  if (!p->is_closed) {
    v->next = p->free_list[v->size_class];
    p->free_list[v->size_class] = v;
    return;
  }
  wf_free(v);
  if (p->n_out == 0) wf_free(p);
}

int64_t wf_view_elements(const wf_view *v) {
  int64_t n = 1;
  for (int32_t d = 0; d < v->rank; d++) n *= v->dims[d];
  return n;
}

size_t wf_view_bytes(const wf_view *v) {
  size_t n_bytes = 0;
  return wf_dtype_bytes(v->dtype, (size_t)wf_view_elements(v), &n_bytes) ? n_bytes : 0;
}

#define READ_AS(type)                                                    \
  do {                                                                   \
    type x;                                                              \
    memcpy(&x, (const char *)v->data + (size_t)at * sizeof x, sizeof x); \
    *result = (int64_t)x;                                                \
    return true;                                                         \
  } while (0)

bool wf_view_int(const wf_view *v, int64_t at, int64_t *result) {
  if (!wf_dtype_is_int(v->dtype)) return false;
  const bool is_signed = wf_dtype_is_signed(v->dtype);
  switch (wf_dtype_bits(v->dtype)) {
    case 8:
      if (is_signed) READ_AS(int8_t);
      READ_AS(uint8_t);
    case 16:
      if (is_signed) READ_AS(int16_t);
      READ_AS(uint16_t);
    case 32:
      if (is_signed) READ_AS(int32_t);
      READ_AS(uint32_t);
    case 64: {
      uint64_t x;
      memcpy(&x, (const char *)v->data + (size_t)at * sizeof x, sizeof x);
      if (!is_signed && x > INT64_MAX) return false;
      *result = (int64_t)x;
      return true;
    }
    default:
      return false;
  }
}

bool wf_view_bool(const wf_view *v, int64_t at, bool *result) {
  if (v->dtype != WF_DTYPE_BOOL) return false;
  *result = ((const unsigned char *)v->data)[at] != 0;
  return true;
}

void wf_view_copy_slice(const wf_view *from, int32_t axis, int64_t begin, int64_t end,
                        const wf_view *to, int64_t to_begin) {
  const size_t element = (size_t)wf_dtype_bits(from->dtype) / 8;
  size_t outer = 1, inner = element;
  for (int32_t d = 0; d < axis; d++) outer *= (size_t)from->dims[d];
  for (int32_t d = axis + 1; d < from->rank; d++) inner *= (size_t)from->dims[d];
  const size_t n = (size_t)(end - begin) * inner;
  if (n == 0) return;
  for (size_t i = 0; i < outer; i++) {
    memcpy((char *)to->data + (i * (size_t)to->dims[axis] + (size_t)to_begin) * inner,
           (const char *)from->data + (i * (size_t)from->dims[axis] + (size_t)begin) * inner, n);
  }
}
