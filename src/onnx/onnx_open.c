/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a model, and looking things up in it. */
#include "onnx/onnx_reader.h"

static weft_status read_bytes(wf_onnx_model **result, onnx_reader *r, wire_span bytes) {
  weft_status st = WEFT_OK;
  wf_arena *arena = wf_arena_create();
  if (!arena) WF_TRY(wf_fail_memory(r->err, 0, "an ONNX model"));
  r->arena = arena;
  wf_onnx_model *m = wf_arena_alloc(arena, sizeof *m);
  if (!m) WF_TRY(wf_fail_memory(r->err, sizeof *m, "an ONNX model"));
  WF_TRY(onnx_read_model(r, bytes, m));
  const wf_map **maps = wf_arena_calloc(arena, r->maps.n, sizeof *maps);
  if (!maps) WF_TRY(wf_fail_memory(r->err, r->maps.n * sizeof *maps, "file mappings"));
  for (size_t i = 0; i < r->maps.n; i++) maps[i] = r->maps.at[i];
  wf_onnx_external *externals = wf_arena_calloc(arena, r->externals.n + 1, sizeof *externals);
  if (!externals) WF_TRY(wf_fail_memory(r->err, r->externals.n * sizeof *externals, "file names"));
  for (size_t i = 0; i < r->externals.n; i++)
    externals[i] = (wf_onnx_external){r->externals.at[i].location, r->externals.at[i].map};
  m->externals = externals;
  m->n_externals = r->externals.n;
  m->maps = maps;
  m->n_maps = r->maps.n;
  m->arena = arena;
  wf_vec_free(&r->maps); /* the model owns the mappings now */
  *result = m;
  arena = NULL;
out:
  wf_arena_destroy(arena);
  onnx_externals_free(r, true);
  return st;
}

weft_status wf_onnx_read(wf_onnx_model **result, const void *bytes, size_t n_bytes,
                         const char *name, const char *dir, const wf_onnx_options *options,
                         weft_error *err) {
  onnx_reader r = {.file = {.name = name, .base = bytes}, .dir = dir, .err = err};
  if (options) r.options = *options;
  *result = NULL;
  return read_bytes(result, &r, (wire_span){bytes, n_bytes});
}

bool wf_onnx_is_text_name(wf_str name) { return wf_str_ends(name, WF_STR(".onnx.textproto")); }

/* A serialized model begins with the tag of its ir_version, which no text can begin with: a copy of
 * a model under the name that its package gives it may have the other form. */
static bool is_binary(const wf_map *map) { return map->n_bytes > 0 && map->at[0] == 0x08; }

/* The mapping of a text becomes one of its binary form. */
static weft_status translate(wf_map *map, weft_error *err) {
  wf_buf binary = {0};
  const wf_str text = {(const char *)map->at, map->n_bytes};
  weft_status st = wf_onnx_from_text(text, map->path, &binary, err);
  if (st == WEFT_OK) {
    const size_t n = binary.n;
    char *bytes = wf_buf_take(&binary);
    if (bytes)
      wf_map_take(map, bytes, n);
    else
      st = wf_fail_memory(err, n, "an ONNX model");
  }
  wf_buf_deinit(&binary);
  return st;
}

weft_status wf_onnx_open(wf_onnx_model **result, const char *path, const wf_onnx_options *options,
                         weft_error *err) {
  weft_status st = WEFT_OK;
  char *dir = NULL;
  wf_map *map = wf_zalloc(sizeof *map);
  onnx_reader r = {.err = err};
  *result = NULL;
  if (!map) WF_TRY(wf_fail_memory(err, sizeof *map, "a file mapping"));
  dir = wf_path_dir(path);
  if (!dir) WF_TRY(wf_fail_memory(err, 0, "a path"));
  WF_TRY(wf_map_open(map, path, err));
  const bool is_text = wf_onnx_is_text_name(wf_str_of(path)) && !is_binary(map);
  if (is_text) WF_TRY(translate(map, err));
  if (!wf_vec_push(&r.maps, map)) {
    WF_TRY(wf_fail_memory(err, sizeof map, "file mappings"));
  }
  r.main_map = map;
  const wire_span bytes = {map->at, map->n_bytes};
  map = NULL; /* r.maps owns it, and the model after success */
  r.file = (wire_file){.name = path, .base = bytes.at, .is_text = is_text};
  r.dir = dir;
  if (options) r.options = *options;
  st = read_bytes(result, &r, bytes);
out:
  if (map) wf_map_close(map);
  wf_free(map);
  wf_free(dir);
  return st;
}

void wf_onnx_close(wf_onnx_model *m) {
  if (!m) return;
  for (size_t i = 0; i < m->n_maps; i++) {
    wf_map *map = wf_unconst(m->maps[i]); /* the model owns it; readers see it const */
    wf_map_close(map);
    wf_free(map);
  }
  wf_arena_destroy(m->arena);
}

weft_status wf_onnx_check(const wf_onnx_model *m, weft_error *err) {
  for (size_t i = 0; i < m->n_maps; i++) WF_RETURN_IF_ERROR(wf_map_check(m->maps[i], err));
  return WEFT_OK;
}

wf_str wf_onnx_prop_get(const wf_onnx_model *m, const char *key) {
  for (size_t i = 0; i < m->n_props; i++) {
    if (wf_str_is(m->props[i].key, key)) return m->props[i].value;
  }
  return (wf_str){0};
}

int64_t wf_onnx_opset_version(const wf_onnx_model *m, wf_str domain) {
  for (size_t i = 0; i < m->n_opsets; i++) {
    if (wf_str_eq(m->opsets[i].domain, domain)) return m->opsets[i].version;
  }
  return 0;
}
