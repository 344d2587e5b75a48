/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/request.h"

#include "base/file.h"

weft_status wf_request_open_model(wf_onnx_model **model, const wf_compile_options *o,
                                  weft_error *err) {
  weft_status st = WEFT_OK;
  char *path = NULL;
  if (o->root) WF_TRY(wf_path_confine(o->root, o->model, o->trust_links, &path, err));
  const wf_onnx_options options = {.trust_links = o->trust_links};
  WF_TRY(wf_onnx_open(model, path ? path : o->model, &options, err));
out:
  wf_free(path);
  return st;
}

weft_status wf_request_check_row(const wf_component_info *info, const wf_row *r, size_t i,
                                 weft_error *err) {
  if (r->n_new < 1 || r->past < 0 || r->n_selected < 0 || r->n_selected > r->n_new) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "",
                   "row %zu has %lld new tokens, %lld before them and %lld selected", i,
                   (long long)r->n_new, (long long)r->past, (long long)r->n_selected);
  }
  if (info->max_positions > 0 && r->past + r->n_new > info->max_positions) {
    return wf_fail(err, WEFT_CONTEXT_FULL, "shorten the prompt",
                   "row %zu would reach position %lld, the model's tables hold %lld", i,
                   (long long)(r->past + r->n_new), (long long)info->max_positions);
  }
  for (int64_t j = 0; j < r->n_selected; j++) {
    if (r->selected[j] < 0 || r->selected[j] >= r->n_new ||
        (j > 0 && r->selected[j] <= r->selected[j - 1])) {
      return wf_fail(err, WEFT_INVALID_ARGUMENT, "", "row %zu selects token %d of %lld", i,
                     (int)r->selected[j], (long long)r->n_new);
    }
  }
  return WEFT_OK;
}

weft_status wf_request_check_view(const wf_port *p, const wf_view *v, weft_error *err) {
  if (!v || !v->data) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "give a tensor for every input",
                   "input '%s' is missing", p->name);
  }
  if (v->dtype != p->dtype) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "convert the tensor", "input '%s' is %s, not %s",
                   p->name, wf_dtype_name(v->dtype), wf_dtype_name(p->dtype));
  }
  size_t n;
  bool fits = v->rank >= 0 && v->rank <= WF_VIEW_MAX_RANK && (p->rank < 0 || p->rank == v->rank);
  for (int32_t i = 0; fits && i < p->rank; i++) fits = p->dims[i] < 0 || p->dims[i] == v->dims[i];
  if (!fits || !wf_dims_count(v->dims, (size_t)v->rank, &n)) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "see `weft inspect` for the shapes",
                   "input '%s' has a shape that the graph does not take", p->name);
  }
  return WEFT_OK;
}
