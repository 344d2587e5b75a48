/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/verify_copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { MAX_DEPTH = 3 };

weft_status wf_verify_copy_dir(char **dir, weft_error *err) {
  const char *tmp = getenv("TMPDIR");
  char *path = wf_path_join(tmp && tmp[0] ? tmp : "/tmp", "weft-verify-XXXXXX");
  if (!path) return wf_fail_memory(err, 32, "a path");
  if (!mkdtemp(path)) {
    const weft_status st = wf_fail(err, WEFT_IO, "set TMPDIR to a folder that can be written",
                                   "cannot make a temporary folder '%s'", path);
    wf_free(path);
    return st;
  }
  *dir = path;
  return WEFT_OK;
}

/* Links are removed, never followed. */
static void remove_tree(const char *dir, int depth) {
  char **names = NULL;
  size_t n = 0;
  struct stat about;
  if (depth > MAX_DEPTH + 1 || lstat(dir, &about) != 0 || !S_ISDIR(about.st_mode)) return;
  if (wf_path_list(dir, &names, &n, NULL) == WEFT_OK) {
    for (size_t i = 0; i < n; i++) {
      char *path = wf_path_join(dir, names[i]);
      if (path && unlink(path) != 0) remove_tree(path, depth + 1);
      wf_free(path);
    }
    wf_path_list_free(names, n);
  }
  (void)rmdir(dir);
}

void wf_verify_copy_remove(char *dir) {
  if (dir) remove_tree(dir, 0);
  wf_free(dir);
}

/* dir/name as a link to `target`, the folders between made. */
static weft_status link_to(const char *dir, const char *name, const char *target, weft_error *err) {
  weft_status st = WEFT_OK;
  char *path = wf_path_join(dir, name);
  if (!path) return wf_fail_memory(err, strlen(dir) + strlen(name), "a path");
  char *slash = strrchr(path, '/');
  *slash = 0; /* dir itself has one */
  st = wf_path_make_dirs(path, true, err);
  *slash = '/';
  if (st == WEFT_OK && symlink(target, path) != 0 && errno != EEXIST) {
    st = wf_fail(err, WEFT_IO, "set TMPDIR to a folder where links can be made",
                 "cannot make the link '%s'", path);
  }
  wf_free(path);
  return st;
}

static weft_status write_graph(const char *path, const wf_onnx_model *model, bool values,
                               weft_error *err) {
  wf_buf bytes = {0};
  size_t n_exposed = 0;
  weft_status st = wf_onnx_expose(model, values, true, &bytes, &n_exposed, err);
  if (st == WEFT_OK) st = wf_file_write(path, bytes.at, bytes.n, true, err);
  wf_buf_deinit(&bytes);
  return st;
}

weft_status wf_verify_copy_graph(char **path, const char *dir, const char *name,
                                 const wf_onnx_model *model, bool values, weft_error *err) {
  weft_status st = WEFT_OK;
  char *folder = wf_path_join(dir, name);
  char *graph = folder ? wf_path_join(folder, "model.onnx") : NULL;
  if (!graph) {
    st = wf_fail_memory(err, strlen(dir), "a path");
    goto out;
  }
  WF_TRY(wf_path_make_dirs(folder, true, err));
  WF_TRY(write_graph(graph, model, values, err));
  for (size_t i = 0; i < model->n_externals; i++) {
    wf_buf location = {0};
    wf_buf_add_str(&location, model->externals[i].location);
    const char *at = wf_buf_cstr(&location);
    st = at ? link_to(folder, at, model->externals[i].map->path, err)
            : wf_fail_memory(err, model->externals[i].location.n, "a path");
    wf_buf_deinit(&location);
    WF_TRY(st);
  }
  *path = graph;
  graph = NULL;
out:
  wf_free(folder);
  wf_free(graph);
  return st;
}

static weft_status link_tree(const char *from, const char *to, const char *model_path,
                             const wf_onnx_model *model, int depth, weft_error *err) {
  weft_status st = WEFT_OK;
  char **names = NULL;
  size_t n = 0;
  if (depth > MAX_DEPTH) return WEFT_OK; /* a package's own files lie no deeper */
  WF_TRY(wf_path_list(from, &names, &n, err));
  WF_TRY(wf_path_make_dirs(to, true, err));
  for (size_t i = 0; i < n; i++) {
    char *source = wf_path_join(from, names[i]), *target = wf_path_join(to, names[i]);
    if (!source || !target) {
      st = wf_fail_memory(err, strlen(from), "a path");
    } else if (strcmp(source, model_path) == 0) {
      st = write_graph(target, model, false, err);
    } else if (wf_path_is_dir(source)) {
      st = link_tree(source, target, model_path, model, depth + 1, err);
    } else {
      st = link_to(to, names[i], source, err);
    }
    wf_free(source);
    wf_free(target);
    WF_TRY(st);
  }
out:
  wf_path_list_free(names, n);
  return st;
}

weft_status wf_verify_copy_package(char **folder, const char *dir, const wf_package *package,
                                   const wf_onnx_model *model, weft_error *err) {
  char *to = wf_path_join(dir, "package");
  if (!to) return wf_fail_memory(err, strlen(dir), "a path");
  const weft_status st = link_tree(package->root, to, package->model, model, 0, err);
  if (st != WEFT_OK) {
    wf_free(to);
    return st;
  }
  *folder = to;
  return WEFT_OK;
}
