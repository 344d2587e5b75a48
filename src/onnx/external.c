/* SPDX-License-Identifier: Apache-2.0 */
/* External data files: found beside the model, confined to its folder, mapped once each. */
#include "onnx/onnx_reader.h"

static weft_status add_location(onnx_reader *r, wf_str location, wf_map **map) {
  weft_status st = WEFT_OK;
  char *path = NULL;
  wf_map *fresh = NULL;
  char *name = wf_arena_strndup(r->arena, location.at, location.n);
  if (!name) return wf_fail_memory(r->err, location.n, "the name of an external data file");
  if (r->externals.n >= ONNX_MAX_EXTERNAL_FILES) {
    return wf_fail(r->err, WEFT_LIMIT, "save the model's external data in fewer files",
                   "%s: more than %d external data files", r->file.name, ONNX_MAX_EXTERNAL_FILES);
  }
  WF_TRY(wf_path_confine(r->dir, name, r->options.trust_links, &path, r->err));
  wf_map *found = NULL;
  for (size_t i = 0; i < r->externals.n && !found; i++) {
    if (wf_str_is(wf_str_of(r->externals.at[i].path), path)) found = r->externals.at[i].map;
  }
  if (!found) {
    fresh = wf_zalloc(sizeof *fresh);
    if (!fresh) WF_TRY(wf_fail_memory(r->err, sizeof *fresh, "a file mapping"));
    WF_TRY(wf_map_open(fresh, path, r->err));
    if (!wf_vec_push(&r->maps, fresh))
      WF_TRY(wf_fail_memory(r->err, sizeof fresh, "file mappings"));
    found = fresh;
    fresh = NULL; /* r->maps owns it */
  }
  const onnx_external e = {location, path, found};
  if (!wf_vec_push(&r->externals, e)) WF_TRY(wf_fail_memory(r->err, sizeof e, "file mappings"));
  path = NULL; /* r->externals owns it */
  *map = found;
out:
  if (fresh) wf_map_close(fresh);
  wf_free(fresh);
  wf_free(path);
  return st;
}

weft_status onnx_map_external(onnx_reader *r, wf_str location, wf_map **map) {
  /* From the end: tensors that follow each other mostly lie in one file. */
  for (size_t i = r->externals.n; i-- > 0;) {
    if (wf_str_eq(r->externals.at[i].location, location)) {
      *map = r->externals.at[i].map;
      return WEFT_OK;
    }
  }
  if (!r->dir) {
    return wf_fail(r->err, WEFT_PACKAGE_INVALID, "open the model from its file",
                   "%s: external data is not allowed for a model in memory", r->file.name);
  }
  return add_location(r, location, map);
}

void onnx_externals_free(onnx_reader *r, bool with_maps) {
  for (size_t i = 0; i < r->externals.n; i++) wf_free(r->externals.at[i].path);
  wf_vec_free(&r->externals);
  if (!with_maps) return;
  for (size_t i = 0; i < r->maps.n; i++) {
    wf_map_close(r->maps.at[i]);
    wf_free(r->maps.at[i]);
  }
  wf_vec_free(&r->maps);
}
