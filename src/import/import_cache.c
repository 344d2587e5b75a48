/* SPDX-License-Identifier: Apache-2.0 */
/* Imports kept in the user's cache: one folder a source file, complete when it is there, because it
 * is renamed into place; the marker inside says of which file and by which importer. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/partial.h"
#include "import/import.h"
#include "import/import_gguf.h"

/* Raised whenever the importer writes something else for the same file. */
#define IMPORTER_VERSION 3

static const char marker_name[] = "weft-import.txt";

enum { MAX_MARKER_BYTES = 65536 };

/* The text that makes two imports the same. */
static void put_key(wf_buf *b, const wf_map *source, const wf_import_options *opts) {
  wf_buf_printf(b, "importer %d\ndevice %" PRIu64 "\ninode %" PRIu64 "\nsize %zu\n",
                IMPORTER_VERSION, source->device, source->inode, source->n_bytes);
  wf_buf_printf(b, "mtime %" PRId64 ".%09" PRId64 "\ndequantize %d\naccuracy %d\n", source->mtime_s,
                source->mtime_ns, opts->dequantize, opts->accuracy_level);
}

/* The word before the next space of a line, which is cut off from it. */
static wf_str next_word(wf_str *line) {
  const size_t space = wf_str_find(*line, WF_STR(" "), 0);
  const wf_str word = {line->at, space == SIZE_MAX ? line->n : space};
  const size_t n = space == SIZE_MAX ? line->n : space + 1;
  line->at += n;
  line->n -= n;
  return word;
}

/* Whether a line "file SIZE MTIME NAME" of a marker is true of the folder. */
static bool file_is_whole(const char *dir, wf_str line) {
  struct stat about;
  int64_t size;
  char mtime[48];
  (void)next_word(&line);
  const bool has_size = wf_parse_i64(next_word(&line), &size);
  const wf_str time = next_word(&line);
  wf_buf name = {0};
  wf_buf_add_str(&name, line);
  char *path = has_size && line.n && wf_buf_cstr(&name) ? wf_path_join(dir, name.at) : NULL;
  bool is_whole = path && lstat(path, &about) == 0 && S_ISREG(about.st_mode) &&
                  about.st_size == size && about.st_uid == geteuid();
  if (is_whole) {
    (void)snprintf(mtime, sizeof mtime, "%lld.%09ld", (long long)about.st_mtim.tv_sec,
                   (long)about.st_mtim.tv_nsec);
    is_whole = wf_str_is(time, mtime);
  }
  wf_free(path);
  wf_buf_deinit(&name);
  return is_whole;
}

static bool files_are_whole(const char *dir, wf_str lines) {
  size_t n_files = 0;
  while (lines.n) {
    const size_t end = wf_str_find(lines, WF_STR("\n"), 0);
    if (end == SIZE_MAX) return false; /* cut short */
    const wf_str line = {lines.at, end};
    lines.at += end + 1;
    lines.n -= end + 1;
    if (!wf_str_starts(line, WF_STR("file "))) continue;
    if (!file_is_whole(dir, line)) return false;
    n_files++;
  }
  return n_files > 0;
}

/* A folder of ours alone, made for this key, with all files at the sizes they were written. */
static bool is_complete(const char *dir, const wf_buf *key) {
  bool is_same = false;
  struct stat about;
  char *text = NULL, *path = wf_path_join(dir, marker_name);
  size_t n;
  if (path && lstat(dir, &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == geteuid() &&
      (about.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
      wf_file_read(path, MAX_MARKER_BYTES, &text, &n, NULL) == WEFT_OK) {
    is_same = n >= key->n && memcmp(text, key->at, key->n) == 0 && strlen(text) == n &&
              files_are_whole(dir, (wf_str){text + key->n, n - key->n});
  }
  wf_free(text);
  wf_free(path);
  return is_same;
}

/* "<cache>/imports/<hash of the key>"; *dir stays NULL when there is no cache folder to be had. */
static weft_status place_in_cache(const wf_buf *key, char **dir, weft_error *err) {
  weft_status st = WEFT_OK;
  char name[40];
  char *cache = wf_cache_dir(), *imports = NULL;
  const uint64_t h1 = wf_hash_bytes(WF_HASH_SEED, key->at, key->n);
  const uint64_t h2 = wf_hash_bytes(h1 ^ UINT64_C(0x5bd1e995), key->at, key->n);
  if (!cache) return WEFT_OK;
  imports = wf_path_join(cache, "imports");
  if (!imports) {
    st = wf_fail_memory(err, strlen(cache), "a path");
    goto out;
  }
  if (wf_path_make_dirs(imports, true, NULL) != WEFT_OK) goto out; /* read-only: not an error */
  wf_partial_sweep(imports);
  (void)snprintf(name, sizeof name, "%016" PRIx64 "%016" PRIx64, h1, h2);
  *dir = wf_path_join(imports, name);
  if (!*dir) st = wf_fail_memory(err, sizeof name, "a path");
out:
  wf_free(cache);
  wf_free(imports);
  return st;
}

static weft_status temporary_place(char **dir, weft_error *err) {
  const char *tmp = getenv("TMPDIR");
  char *path = wf_path_join(tmp && tmp[0] == '/' ? tmp : "/tmp", "weft-import-XXXXXX");
  if (!path) return wf_fail_memory(err, 32, "a path");
  if (!mkdtemp(path)) {
    const weft_status st =
        wf_fail(err, WEFT_IO, "set TMPDIR or WEFT_CACHE to a folder that can be written",
                "neither the cache nor '%s' can be written", path);
    wf_free(path);
    return st;
  }
  *dir = path;
  return WEFT_OK;
}

weft_status wf_import_cached(const char *gguf_path, const wf_import_options *opts, char **dir,
                             bool *is_temporary, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_import_options o = {0};
  wf_map source = {0};
  wf_buf key = {0}, marker = {0};
  char *place = NULL;

  if (opts) o = *opts;
  o.is_private = true;
  WF_TRY(wf_map_open(&source, gguf_path, err));
  put_key(&key, &source, &o);
  wf_buf_add(&marker, key.at, key.n);
  wf_buf_puts(&marker, "source ");
  wf_buf_add_json_string(&marker, wf_str_of(gguf_path), false); /* a name may hold a line's end */
  wf_buf_putc(&marker, '\n');
  if (key.failed || marker.failed) {
    st = wf_fail_memory(err, strlen(gguf_path), "a marker");
    goto out;
  }
  WF_TRY(place_in_cache(&key, &place, err));
  *is_temporary = false;
  if (place && is_complete(place, &key)) goto done;
  const wf_import_marker with_marker = {marker_name, marker.at, marker.n};
  if (place) {
    /* A folder without the right marker is damaged or of another key with the same hash. Complete
     * ones of other processes appear by rename only, so they are never removed here. */
    if (wf_path_exists(place) && !is_complete(place, &key)) wf_folder_remove(place);
    st = wf_import_gguf_marked(gguf_path, place, &o, &with_marker, err);
    /* Another process may have been faster: then its folder is as good. */
    if (st == WEFT_OK || is_complete(place, &key)) {
      st = WEFT_OK;
      goto done;
    }
    if (st != WEFT_IO) goto out;
    wf_free(place); /* the cache is full or cannot be written after all */
    place = NULL;
  }
  WF_TRY(temporary_place(&place, err));
  st = wf_import_gguf_marked(gguf_path, place, &o, &with_marker, err);
  if (st != WEFT_OK) {
    wf_folder_remove(place);
    goto out;
  }
  *is_temporary = true;
done:
  *dir = place;
  place = NULL;
out:
  wf_free(place);
  wf_buf_deinit(&key);
  wf_buf_deinit(&marker);
  wf_map_close(&source);
  return st;
}
