/* SPDX-License-Identifier: Apache-2.0 */
/* The user's cache folder: imports/ (packages made of GGUF files) and packed/ (weights laid out for
 * a CPU). Only these two are ever listed or removed: the folder may be shared with others by
 * mistake. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/partial.h"
#include "engine/engine.h"

static const char *const kinds[] = {"imports", "packed"};
enum { MAX_DEPTH = 4 };

/* Bytes of a file or of all files in a folder; removes them on the way if asked. Links are not
 * followed. */
static uint64_t visit(const char *path, bool remove, int depth) {
  struct stat info;
  uint64_t sum = 0;
  if (lstat(path, &info) != 0) return 0;
  if (remove && wf_partial_is_alive(path)) return 0; /* another process is writing it */
  if (S_ISDIR(info.st_mode) && depth < MAX_DEPTH) {
    char **names = NULL;
    size_t n = 0;
    weft_error ignored = {0};
    if (wf_path_list(path, &names, &n, &ignored) == WEFT_OK) {
      for (size_t i = 0; i < n; i++) {
        char *child = wf_path_join(path, names[i]);
        if (child) sum += visit(child, remove, depth + 1);
        wf_free(child);
      }
      wf_path_list_free(names, n);
    }
    if (remove) (void)rmdir(path);
    return sum;
  }
  if (S_ISREG(info.st_mode)) sum = (uint64_t)info.st_size;
  if (remove && !S_ISDIR(info.st_mode)) (void)unlink(path);
  return sum;
}

static weft_status each_entry(bool remove, wf_buf *lines, uint64_t *n_bytes, weft_error *err) {
  weft_status st = WEFT_OK;
  char *root = wf_cache_dir();
  *n_bytes = 0;
  for (size_t k = 0; root && k < WF_ARRAY_LEN(kinds); k++) {
    char **names = NULL;
    size_t n = 0;
    char *dir = wf_path_join(root, kinds[k]);
    if (dir && wf_path_is_dir(dir)) {
      st = wf_path_list(dir, &names, &n, err);
      for (size_t i = 0; st == WEFT_OK && i < n; i++) {
        char *path = wf_path_join(dir, names[i]);
        const uint64_t bytes = path ? visit(path, remove, 0) : 0;
        *n_bytes += bytes;
        if (lines)
          wf_buf_printf(lines, "%12llu  %-8s %s\n", (unsigned long long)bytes, kinds[k], names[i]);
        wf_free(path);
      }
      wf_path_list_free(names, n);
    }
    wf_free(dir);
    if (st != WEFT_OK) break;
  }
  wf_free(root);
  return st;
}

weft_status weft_cache_list(char **text, weft_error *err) {
  wf_buf b = {0};
  uint64_t n_bytes;
  const weft_status st = each_entry(false, &b, &n_bytes, err);
  if (st != WEFT_OK) {
    wf_buf_deinit(&b);
    return st;
  }
  *text = wf_buf_take(&b);
  return *text ? WEFT_OK : wf_fail_memory(err, 0, "text");
}

weft_status weft_cache_clear(uint64_t *n_bytes, weft_error *err) {
  return each_entry(true, NULL, n_bytes, err);
}
