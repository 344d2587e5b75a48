/* SPDX-License-Identifier: Apache-2.0 */
/* Artifact inputs: a .npy file, or raw little-endian elements of a fully fixed contract (format
 * §5.1). Read once, into the plan. */
#include <string.h>

#include "base/file.h"
#include "base/npy.h"
#include "workflow/plan_builder.h"

#define MOST_RAW_BYTES ((size_t)1 << 36)

static weft_status refuse(plan_builder *b, const wf_plan_input *to, const char *path,
                          const char *why) {
  return wf_fail(b->err, WEFT_BIND, "give a .npy file or raw elements of the input's contract",
                 "input '%s': '%s' %s", to->name, path, why);
}

/* NumPy has no code for bfloat16 and the 8-bit floats: their bits come as unsigned integers. */
static bool is_type(wf_dtype wanted, int stored) {
  if ((int)wanted == stored) return true;
  if (wanted == WF_DTYPE_BF16) return stored == WF_DTYPE_U16;
  return wf_dtype_is_float(wanted) && wf_dtype_bits(wanted) == 8 && stored == WF_DTYPE_U8;
}

static bool has_extents(const wf_plan_contract *c, const int64_t *dims) {
  for (int32_t d = 0; c->has_shape && d < c->rank; d++) {
    if (c->dims[d].symbol < 0 && c->dims[d].extent != dims[d]) return false;
  }
  return true;
}

/* Owner: a->data is the caller's. */
static weft_status read_npy(plan_builder *b, const wf_plan_input *to, const char *path, wf_npy *a) {
  const wf_plan_contract *c = &to->contract;
  WF_RETURN_IF_ERROR(wf_npy_read(path, a, b->err));
  if (!is_type(c->dtype, a->dtype)) return refuse(b, to, path, "holds another element type");
  if (a->rank != c->rank) return refuse(b, to, path, "holds a tensor of another rank");
  if (!has_extents(c, a->dims)) return refuse(b, to, path, "holds a tensor of another shape");
  return WEFT_OK;
}

static weft_status read_raw(plan_builder *b, const wf_plan_input *to, const char *path, wf_npy *a) {
  const wf_plan_contract *c = &to->contract;
  size_t n_elements = 0, n_bytes = 0;
  char *bytes = NULL;
  for (int32_t d = 0; d < c->rank; d++) {
    if (!c->has_shape || c->dims[d].symbol >= 0) {
      return refuse(b, to, path, "is raw, but the input's shape is not fixed");
    }
    a->dims[d] = c->dims[d].extent;
  }
  a->rank = c->rank;
  if (!wf_dims_count(a->dims, (size_t)a->rank, &n_elements) ||
      !wf_dtype_bytes(c->dtype, n_elements, &n_bytes)) {
    return refuse(b, to, path, "stands for a tensor that has no size");
  }
  WF_RETURN_IF_ERROR(wf_file_read(path, MOST_RAW_BYTES, &bytes, &a->n_bytes, b->err));
  a->data = bytes;
  return a->n_bytes == n_bytes ? WEFT_OK : refuse(b, to, path, "has not the size of its contract");
}

weft_status plan_take_artifact(plan_builder *b, const wf_meta_input *in, wf_plan_input *to) {
  weft_status st = WEFT_OK;
  char *path = NULL;
  wf_npy a = {0};
  WF_TRY(wf_path_confine(b->m->root, in->source->path, b->o->compile->trust_links, &path, b->err));
  if (wf_str_ends(wf_str_of(path), WF_STR(".npy")))
    WF_TRY(read_npy(b, to, path, &a));
  else
    WF_TRY(read_raw(b, to, path, &a));
  void *bytes = wf_arena_alloc(b->arena, a.n_bytes ? a.n_bytes : 1);
  int64_t *dims = wf_arena_calloc(b->arena, (size_t)a.rank + 1, sizeof *dims);
  if (!bytes || !dims) WF_TRY(wf_fail_memory(b->err, a.n_bytes, "an input of the package"));
  if (a.n_bytes) memcpy(bytes, a.data, a.n_bytes);
  memcpy(dims, a.dims, (size_t)a.rank * sizeof *dims);
  to->artifact = bytes;
  to->artifact_bytes = a.n_bytes;
  to->artifact_dims = dims;
out:
  wf_free(a.data);
  wf_free(path);
  return st;
}
