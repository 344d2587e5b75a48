/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/partial.h"
#include "import/gguf_graph.h"
#include "import/hf_files.h"
#include "import/import.h"
#include "import/import_gguf.h"

static const wf_import_options default_options = {0};

static weft_status check_free(const char *out_dir, weft_error *err) {
  char **names = NULL;
  size_t n = 0;
  if (!wf_path_exists(out_dir)) return WEFT_OK;
  if (!wf_path_is_dir(out_dir)) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "name a folder that does not exist yet",
                   "'%s' exists and is not a folder", out_dir);
  }
  WF_RETURN_IF_ERROR(wf_path_list(out_dir, &names, &n, err));
  wf_path_list_free(names, n);
  if (n == 0) return WEFT_OK;
  return wf_fail(err, WEFT_INVALID_ARGUMENT, "remove it first or name another folder",
                 "the folder '%s' exists and is not empty", out_dir);
}

static weft_status write_model(const wf_gguf *g, const wf_gguf_model *m, const char *dir,
                               const wf_import_options *opts, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_onnxw *w = NULL, *finished;
  wf_gguf_build b = {0};
  char *path = wf_path_join(dir, "model.onnx");
  if (!path) {
    st = wf_fail_memory(err, strlen(dir), "a path");
    goto out;
  }
  WF_TRY(wf_onnxw_create(&w, path, "model.onnx.data", opts->is_private, err));
  WF_TRY(wf_gguf_build_init(&b, w, m, opts, err));
  WF_TRY(wf_gguf_graph_write(&b));
  WF_TRY(wf_map_check(&g->map, err)); /* a file that changed meanwhile gave mixed weights */
  finished = w;
  w = NULL;
  WF_TRY(wf_onnxw_commit(finished, err));
out:
  wf_gguf_build_deinit(&b);
  wf_onnxw_destroy(w);
  wf_free(path);
  return st;
}

static weft_status import_into(const wf_gguf *g, bool with_model, const char *dir,
                               const wf_import_options *opts, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_hf_tokens tokens = {0};
  wf_gguf_model m = {0};
  if (with_model) WF_RETURN_IF_ERROR(wf_gguf_model_read(g, &m, err));
  WF_RETURN_IF_ERROR(wf_hf_tokens_read(g, &tokens, err));
  if (with_model && tokens.n_tokens > m.vocab) {
    st = wf_fail(err, WEFT_PARSE, "download or convert the file again",
                 "GGUF file '%s' has %zu tokens, but embeddings for %zu", g->map.path,
                 tokens.n_tokens, m.vocab);
    goto out;
  }
  /* The tokenizer first: it is small, and what can be refused is refused before the weights. */
  WF_TRY(wf_hf_write_tokenizer(g, &tokens, dir, opts->is_private, err));
  WF_TRY(wf_hf_write_companions(g, &tokens, m.context, dir, opts->is_private, err));
  if (with_model) {
    WF_TRY(wf_hf_write_configs(&m, &tokens, dir, opts->is_private, err));
    WF_TRY(write_model(g, &m, dir, opts, err));
  }
out:
  wf_hf_tokens_deinit(&tokens);
  return st;
}

/* The marker ends with a line "file SIZE MTIME NAME" for each file, so that a folder that somebody
 * damaged or wrote to shows. */
static weft_status write_marker(const char *dir, const wf_import_marker *marker,
                                const wf_import_options *opts, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_buf text = {0};
  char **names = NULL, *path = NULL;
  size_t n = 0;
  if (!marker) return WEFT_OK;
  WF_TRY(wf_path_list(dir, &names, &n, err));
  wf_buf_add(&text, marker->text, marker->n);
  for (size_t i = 0; i < n; i++) {
    struct stat about;
    wf_free(path);
    path = wf_path_join(dir, names[i]);
    if (path && stat(path, &about) == 0) {
      wf_buf_printf(&text, "file %lld %lld.%09ld %s\n", (long long)about.st_size,
                    (long long)about.st_mtim.tv_sec, (long)about.st_mtim.tv_nsec, names[i]);
    }
  }
  wf_free(path);
  path = wf_path_join(dir, marker->name);
  if (!path || text.failed) {
    st = wf_fail_memory(err, strlen(dir), "a marker");
    goto out;
  }
  st = wf_file_write(path, text.at, text.n, opts->is_private, err);
out:
  wf_path_list_free(names, n);
  wf_buf_deinit(&text);
  wf_free(path);
  return st;
}

static weft_status import_path(const char *gguf_path, bool with_model, const char *out_dir,
                               const wf_import_options *opts, const wf_import_marker *marker,
                               weft_error *err) {
  weft_status st = WEFT_OK;
  wf_gguf g = {0};
  wf_partial partial = {NULL, -1};
  if (!opts) opts = &default_options;
  WF_TRY(check_free(out_dir, err));
  WF_TRY(wf_gguf_open(&g, gguf_path, err));
  WF_TRY(wf_partial_folder(&partial, out_dir, opts->is_private, err));
  WF_TRY(import_into(&g, with_model, partial.path, opts, err));
  WF_TRY(write_marker(partial.path, marker, opts, err));
  st = wf_partial_rename(&partial, out_dir, err);
out:
  wf_partial_abandon(&partial);
  wf_gguf_close(&g);
  return st;
}

weft_status wf_import_gguf(const char *gguf_path, const char *out_dir,
                           const wf_import_options *opts, weft_error *err) {
  return import_path(gguf_path, true, out_dir, opts, NULL, err);
}

weft_status wf_import_gguf_marked(const char *gguf_path, const char *out_dir,
                                  const wf_import_options *opts, const wf_import_marker *marker,
                                  weft_error *err) {
  return import_path(gguf_path, true, out_dir, opts, marker, err);
}

weft_status wf_import_gguf_tokenizer(const char *gguf_path, const char *out_dir,
                                     const wf_import_options *opts, weft_error *err) {
  return import_path(gguf_path, false, out_dir, opts, NULL, err);
}
