/* SPDX-License-Identifier: Apache-2.0 */
/* Files: read-only mappings, bounded reads, atomic writes, confined paths, cache folders. */
#ifndef WF_FILE_H
#define WF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

/* A file mapped read-only. The file must not shrink while mapped (documented for users); size and
 * times are kept so that wf_map_check can tell a change before a plan is sealed. */
typedef struct wf_map {
  const unsigned char *at;
  size_t n_bytes;
  uint64_t device, inode;
  int64_t mtime_s, mtime_ns;
  size_t file_bytes;
  char *path;  /* owned copy */
  char *taken; /* bytes on the heap that stand for the file's, NULL where it is mapped itself */
} wf_map;

/* Owner: *m on success, released by wf_map_close; nothing on failure.
 * Thread: any. Errors: IO (missing, a directory, unreadable), PACKAGE_INVALID (a Git-LFS stub,
 * recognised and named), OUT_OF_MEMORY. An empty file maps as n_bytes 0, at non-NULL. */
weft_status wf_map_open(wf_map *m, const char *path, weft_error *err) WF_NODISCARD;
void wf_map_close(wf_map *m); /* fine on a zeroed map and twice */
/* Puts `bytes` (from wf_alloc, the mapping's from now on) in the place of the file's own: what a
 * file was decoded to, which is still that file for wf_map_check. Never fails. */
void wf_map_take(wf_map *m, char *bytes, size_t n_bytes);
/* PACKAGE_INVALID when the file at m->path is no longer the one that was mapped. */
weft_status wf_map_check(const wf_map *m, weft_error *err) WF_NODISCARD;
/* Tells the kernel that the pages of [at, at + n) will not be needed soon. */
void wf_map_drop(const wf_map *m, size_t at, size_t n_bytes);
/* Asks the kernel to read the whole mapping ahead. */
void wf_map_will_need(const wf_map *m);

/* Reads a whole file of at most `limit` bytes into *result, to be released by wf_free; the bytes
 * are terminated by a NUL that is not counted. Errors: IO, LIMIT, OUT_OF_MEMORY. */
weft_status wf_file_read(const char *path, size_t limit, char **result, size_t *n_bytes,
                         weft_error *err) WF_NODISCARD;

/* A new file written beside its final place and renamed over it at the end, so that readers see
 * the old file or the whole new one. Mode 0600 if `is_private`, else as the umask says. What is
 * there and no regular file (/dev/stdout, a pipe) is written directly. */
typedef struct wf_writer wf_writer;
weft_status wf_writer_create(wf_writer **result, const char *path, bool is_private,
                             weft_error *err) WF_NODISCARD;
/* Errors stick; commit reports the first. */
void wf_writer_add(wf_writer *w, const void *bytes, size_t n);
void wf_writer_pad(wf_writer *w, size_t align); /* zero bytes up to a multiple of align */
uint64_t wf_writer_at(const wf_writer *w);      /* bytes written so far */
/* The finished file gets exactly this time of change (whole seconds, which every file system
 * keeps), so that one who has put the number into the file sees later whether anybody wrote to it
 * since. */
void wf_writer_stamp(wf_writer *w, int64_t mtime_s);
/* Flushes, syncs, renames. The writer is gone afterwards, whatever the outcome. */
weft_status wf_writer_commit(wf_writer *w, weft_error *err) WF_NODISCARD;
void wf_writer_abandon(wf_writer *w); /* removes the unfinished file; NULL is fine */

/* Writes n bytes to `path` by way of a wf_writer. */
weft_status wf_file_write(const char *path, const void *bytes, size_t n, bool is_private,
                          weft_error *err) WF_NODISCARD;

bool wf_path_exists(const char *path);
bool wf_path_is_dir(const char *path);
/* a "/" b, new string (wf_free), NULL when memory is out. An absolute b gives b. */
char *wf_path_join(const char *a, const char *b) WF_NODISCARD;
/* The folder part, "." when there is none; new string (wf_free). */
char *wf_path_dir(const char *path) WF_NODISCARD;
const char *wf_path_base(const char *path); /* borrowed tail after the last slash */
weft_status wf_path_make_dirs(const char *path, bool is_private, weft_error *err) WF_NODISCARD;
/* Names in a folder, sorted by bytes, "." and ".." left out; release with wf_path_list_free. */
weft_status wf_path_list(const char *dir, char ***names, size_t *n, weft_error *err) WF_NODISCARD;
void wf_path_list_free(char **names, size_t n);

/* Resolves `relative` against the folder `root` and checks that what is opened lies inside it
 * after every symbolic link has been followed (or, for a folder inside a Hugging Face hub cache
 * `models--X/snapshots/REV`, inside that repository's own `blobs`), and is a regular file.
 * trust_links lifts the confinement of links, not of "..". Errors: PACKAGE_INVALID (outside, a
 * folder, missing: the sentence names both). *result: the canonical path (wf_free). */
weft_status wf_path_confine(const char *root, const char *relative, bool trust_links, char **result,
                            weft_error *err) WF_NODISCARD;

/* The user's cache folder for weft: $WEFT_CACHE, else $XDG_CACHE_HOME/weft, else
 * $HOME/.cache/weft; NULL when none of these is set (no HOME is fine) or memory is out.
 * Nothing is created. New string (wf_free). */
char *wf_cache_dir(void) WF_NODISCARD;

#endif
