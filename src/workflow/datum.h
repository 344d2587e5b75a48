/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that passes hand on: counted, immutable once somebody else has seen them, in memory that
 * a worker keeps for the next ones. Thread: worker, all of it; counts are plain numbers. */
#ifndef WF_WORKFLOW_DATUM_H
#define WF_WORKFLOW_DATUM_H

#include "backend/backend.h"

typedef struct wf_datum_pool wf_datum_pool;

typedef struct wf_datum {
  int32_t refs;
  wf_view view; /* dense; data is never NULL */
  size_t n_bytes;
  /* The pool's: */
  wf_datum_pool *pool;
  int32_t size_class;
  struct wf_datum *next;
} wf_datum;

/* Errors: OUT_OF_MEMORY. */
weft_status wf_datum_pool_create(wf_datum_pool **result, weft_error *err) WF_NODISCARD;
/* Frees what is free. Values that are still out stay valid and are freed by their last unref, the
 * pool after the last of them. NULL is fine. */
void wf_datum_pool_destroy(wf_datum_pool *p);
size_t wf_datum_pool_bytes(const wf_datum_pool *p);         /* held, out or free */
uint64_t wf_datum_pool_allocations(const wf_datum_pool *p); /* calls of the system so far */

/* A tensor with undefined contents and one reference, the caller's.
 * Errors: OUT_OF_MEMORY; LIMIT (rank or extents that no tensor has). */
weft_status wf_datum_create(wf_datum **result, wf_datum_pool *p, wf_dtype dtype, int32_t rank,
                            const int64_t *dims, weft_error *err) WF_NODISCARD;
/* A copy of what `v` shows. */
weft_status wf_datum_copy(wf_datum **result, wf_datum_pool *p, const wf_view *v,
                          weft_error *err) WF_NODISCARD;
wf_datum *wf_datum_ref(wf_datum *v);
void wf_datum_unref(wf_datum *v); /* NULL is fine */

size_t wf_view_bytes(const wf_view *v); /* of a view whose size is known to fit */
int64_t wf_view_elements(const wf_view *v);

/* Control reads: element `at` as an integer or a truth; false when the type has none, or the value
 * does not fit int64. */
bool wf_view_int(const wf_view *v, int64_t at, int64_t *result) WF_NODISCARD;
bool wf_view_bool(const wf_view *v, int64_t at, bool *result) WF_NODISCARD;

/* Copies the slice [begin, end) of `axis` out of `from` into [to_begin, ...) of the same axis of
 * `to`; all other extents are equal, the type has whole bytes. */
void wf_view_copy_slice(const wf_view *from, int32_t axis, int64_t begin, int64_t end,
                        const wf_view *to, int64_t to_begin);

#endif
