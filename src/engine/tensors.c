/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/tensors.h"

#include <string.h>

void wf_tensor_give(weft_tensor *to, const weft_tensor *full) {
  const size_t size = to->struct_size;
  memcpy(to, full, size < sizeof *full ? size : sizeof *full);
  to->struct_size = size;
}

static bool size_of(const int64_t *dims, int32_t rank, wf_dtype dtype, size_t *n_bytes) {
  size_t n_elements;
  return rank >= 0 && rank <= WF_VIEW_MAX_RANK && wf_dims_count(dims, (size_t)rank, &n_elements) &&
         wf_dtype_bytes(dtype, n_elements, n_bytes);
}

bool wf_tensor_of_view(const wf_view *v, const char *name, weft_tensor *t) {
  size_t n_bytes;
  if (!v || !size_of(v->dims, v->rank, v->dtype, &n_bytes)) return false;
  const weft_tensor full = {.name = name,
                            .dtype = (int)v->dtype,
                            .rank = v->rank,
                            .dims = v->dims,
                            .data = v->data,
                            .n_bytes = n_bytes};
  wf_tensor_give(t, &full);
  return true;
}

weft_status wf_tensor_view(const weft_tensor *t, wf_view *v, weft_error *err) {
  size_t n_bytes;
  if (!t->name) return wf_fail(err, WEFT_INVALID_ARGUMENT, "name it", "an input has no name");
  if (!size_of(t->dims, t->rank, (wf_dtype)t->dtype, &n_bytes) || n_bytes != t->n_bytes) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "give as many bytes as type and shape need",
                   "input '%s' has %zu bytes, which is not what its type and shape need", t->name,
                   t->n_bytes);
  }
  static const char nothing[1]; /* a tensor without elements is present all the same */
  /* input views are only read by a run; the view type is shared with outputs */
  *v = (wf_view){.dtype = (wf_dtype)t->dtype,
                 .rank = t->rank,
                 .data = wf_unconst(t->data ? t->data : nothing)};
  if (t->rank) memcpy(v->dims, t->dims, (size_t)t->rank * sizeof *t->dims);
  return WEFT_OK;
}
