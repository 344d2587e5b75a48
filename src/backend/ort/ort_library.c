/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/ort/ort_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/process.h"

static const char how_to_get[] =
    "install ONNX Runtime 1.20 or later (the PyPI wheel `onnxruntime` holds "
    "onnxruntime/capi/libonnxruntime.so.*) and name that file by --ort FILE or WEFT_ORT";

/* ---- opening ------------------------------------------------------------------------------- */

/* "1.31.1" into 1 and 31. */
static bool read_version(const char *text, int *major, int *minor) {
  const char *dot = text ? strchr(text, '.') : NULL;
  int64_t a, b;
  if (!dot) return false;
  const wf_str rest = {dot + 1, strcspn(dot + 1, ".-+")};
  if (!wf_parse_i64((wf_str){text, (size_t)(dot - text)}, &a) || !wf_parse_i64(rest, &b)) {
    return false;
  }
  if (a < 0 || a > 1000 || b < 0 || b > 100000) return false;
  *major = (int)a;
  *minor = (int)b;
  return true;
}

static weft_status fill_api(ort_library *lib, const ort_api_base *base, weft_error *err) {
  /* Slots of the oldest version by its own number; later ones by the number that brought them. */
  const void *const *table = base->get_api(WF_ORT_MINOR_OLDEST);
  if (!table) {
    return wf_fail(err, WEFT_UNSUPPORTED, how_to_get, "'%s' (%s) offers no API of version %d",
                   lib->path, lib->version, (int)WF_ORT_MINOR_OLDEST);
  }
  const void *slot;
#define WF_X(index, since, official, name, result, params) \
  slot = (since) <= lib->minor ? table[index] : NULL;      \
  memcpy(&lib->api.name, &slot, sizeof slot); /* data to function: POSIX */
  WF_ORT_SLOTS(WF_X)
#undef WF_X
  return WEFT_OK;
}

static weft_status take_library(ort_library *lib, void *handle, weft_error *err) {
  const ort_api_base *(*get_base)(void) = NULL;
  void *symbol = dlsym(handle, "OrtGetApiBase");
  int major = 0;
  if (!symbol) {
    return wf_fail(err, WEFT_UNSUPPORTED, how_to_get,
                   "'%s' is no ONNX Runtime library: it has no OrtGetApiBase", lib->path);
  }
  memcpy(&get_base, &symbol, sizeof symbol); /* data to function: POSIX */
  const ort_api_base *base = get_base();
  lib->version = base ? base->version() : NULL;
  if (!read_version(lib->version, &major, &lib->minor)) {
    return wf_fail(err, WEFT_UNSUPPORTED, how_to_get,
                   "'%s' gives '%s' as its version, which is none of ONNX Runtime's", lib->path,
                   lib->version ? lib->version : "");
  }
  if (major != WF_ORT_MAJOR || lib->minor < WF_ORT_MINOR_OLDEST) {
    return wf_fail(err, WEFT_UNSUPPORTED, how_to_get,
                   "'%s' is ONNX Runtime %s, but weft needs 1.%d or later of 1.x", lib->path,
                   lib->version, (int)WF_ORT_MINOR_OLDEST);
  }
  return fill_api(lib, base, err);
}

/* The file behind a handle. Owner: the caller (wf_free). */
static char *file_of(void *handle, const char *otherwise) {
  const struct link_map *map = NULL;
  char real[4096];
  const char *name = otherwise;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name[0]) name = map->l_name;
  if (realpath(name, real)) name = real;
  return wf_path_join("", name);
}

/* Does the file hold what its program headers say? The loader maps a shortened library without a
 * word, and its first touch of what is missing ends the process. A file that is no ELF of this
 * machine's kind is left to the loader, which tells it well. */
static bool is_whole(int fd, uint64_t size) {
  ElfW(Ehdr) head;
  if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head) return true;
  if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phentsize != sizeof(ElfW(Phdr))) {
    return true;
  }
  for (unsigned i = 0; i < head.e_phnum; i++) {
    ElfW(Phdr) part;
    const uint64_t at = (uint64_t)i * sizeof part;
    if (head.e_phoff > size || at + sizeof part > size - head.e_phoff) return false;
    if (pread(fd, &part, sizeof part, (off_t)(head.e_phoff + at)) != (ssize_t)sizeof part) {
      return false;
    }
    if (part.p_offset > size || part.p_filesz > size - part.p_offset) return false;
  }
  return true;
}

static weft_status check_file(const char *file, const char *who, weft_error *err) {
  weft_status st = WEFT_OK;
  struct stat s;
  const int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return WEFT_OK; /* the loader says why */
  if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode)) {
    st = wf_fail(err, WEFT_IO, "name the library's file, libonnxruntime.so.*",
                 "%s names '%s', which is no regular file", who, file);
  } else if (!is_whole(fd, (uint64_t)s.st_size)) {
    st = wf_fail(err, WEFT_UNSUPPORTED, how_to_get,
                 "%s names '%s', which ends before its own parts do: it was cut short", who, file);
  }
  close(fd);
  return st;
}

static weft_status open_file(ort_library *lib, const char *file, const char *who, weft_error *err) {
  if (wf_path_is_dir(file)) {
    return wf_fail(err, WEFT_IO, "name the library's file, libonnxruntime.so.*",
                   "%s names '%s', which is a folder", who, file);
  }
  if (!wf_path_exists(file)) {
    return wf_fail(err, WEFT_IO, how_to_get, "%s names '%s', which does not exist", who, file);
  }
  WF_RETURN_IF_ERROR(check_file(file, who, err));
  char real[4096];
  void *handle = realpath(file, real) ? dlopen(real, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!handle) {
    const char *why = dlerror();
    return wf_fail(err, WEFT_UNSUPPORTED, how_to_get, "%s names '%s', which can't be loaded: %s",
                   who, file, why ? why : "unknown reason");
  }
  lib->path = file_of(handle, real);
  if (!lib->path) return wf_fail_memory(err, strlen(real), "a path");
  const weft_status st = take_library(lib, handle, err);
  if (st != WEFT_OK) dlclose(handle); /* nothing of it is kept */
  return st;
}

/* Its own name is libonnxruntime.so.1; distributions call it by its minor version. */
static void *search(char *name, size_t n) {
  static const char *const plain[] = {"libonnxruntime.so.1", "libonnxruntime.so"};
  void *handle = NULL;
  for (size_t i = 0; !handle && i < WF_ARRAY_LEN(plain); i++) {
    snprintf(name, n, "%s", plain[i]);
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  for (int minor = WF_ORT_MINOR_TESTED; !handle && minor >= WF_ORT_MINOR_OLDEST; minor--) {
    snprintf(name, n, "libonnxruntime.so.%d.%d", (int)WF_ORT_MAJOR, minor);
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  return handle;
}

static weft_status open_by_loader(ort_library *lib, weft_error *err) {
  char name[64];
  void *handle = search(name, sizeof name);
  if (!handle) {
    const char *path = getenv("LD_LIBRARY_PATH");
    return wf_fail(
        err, WEFT_IO, how_to_get,
        "there is no ONNX Runtime: --ort and WEFT_ORT name no file, and the loader finds "
        "no libonnxruntime.so.1, libonnxruntime.so or libonnxruntime.so.1.%d to 1.%d "
        "(LD_LIBRARY_PATH is %s%s%s; then the system's folders)",
        (int)WF_ORT_MINOR_OLDEST, (int)WF_ORT_MINOR_TESTED, path ? "'" : "not set",
        path ? path : "", path ? "'" : "");
  }
  lib->path = file_of(handle, name);
  if (!lib->path) return wf_fail_memory(err, 0, "a path");
  const weft_status st = take_library(lib, handle, err);
  if (st != WEFT_OK) dlclose(handle);
  return st;
}

static void free_library(ort_library *lib) {
  if (!lib) return;
  wf_free(lib->path);
  wf_free(lib);
}

/* Is `file` the library that the process has already? */
static weft_status check_same(const ort_library *lib, const char *file, weft_error *err) {
  char real[4096];
  if (!file || !file[0]) return WEFT_OK;
  if (realpath(file, real) && strcmp(real, lib->path) == 0) return WEFT_OK;
  if (!wf_path_exists(file)) {
    return wf_fail(err, WEFT_IO, how_to_get, "--ort names '%s', which does not exist", file);
  }
  return wf_fail(err, WEFT_UNSUPPORTED, "use one ONNX Runtime in a process",
                 "this process runs '%s' already and can't take '%s' too", lib->path, file);
}

weft_status ort_library_open(ort_library **result, const char *file, weft_error *err) {
  weft_status st = WEFT_OK;
  ort_library *fresh = NULL;
  const char *variable = getenv("WEFT_ORT");
  wf_process_ort *process = wf_process_ort_lock();
  if (process->library) {
    *result = process->library;
    st = check_same(*result, file, err);
    goto out;
  }
  fresh = wf_zalloc(sizeof *fresh);
  if (!fresh) {
    st = wf_fail_memory(err, sizeof *fresh, "a library");
    goto out;
  }
  if (file && file[0]) {
    WF_TRY(open_file(fresh, file, "--ort", err));
  } else if (variable && variable[0]) {
    WF_TRY(open_file(fresh, variable, "WEFT_ORT", err));
  } else {
    WF_TRY(open_by_loader(fresh, err));
  }
  if (fresh->minor > WF_ORT_MINOR_TESTED) {
    wf_log(2, "ONNX Runtime %s is newer than 1.%d, the newest that weft was tested with",
           fresh->version, (int)WF_ORT_MINOR_TESTED);
  }
  wf_log(2, "ONNX Runtime %s: %s", fresh->version, fresh->path);
  *result = process->library = fresh;
  fresh = NULL;
out:
  wf_process_ort_unlock();
  free_library(fresh);
  return st;
}

/* ---- errors ------------------------------------------------------------------- */

static weft_status status_of(int code, const char *text) {
  if (strstr(text, "bad_alloc") || strstr(text, "Failed to allocate memory") ||
      strstr(text, "Available memory of")) {
    return WEFT_OUT_OF_MEMORY;
  }
  switch (code) {
    case ORT_ERROR_INVALID_ARGUMENT:
      return WEFT_INVALID_ARGUMENT;
    case ORT_ERROR_NO_FILE:
    case ORT_ERROR_NO_MODEL:
      return WEFT_IO;
    case ORT_ERROR_PROTOBUF:
    case ORT_ERROR_GRAPH:
      return WEFT_PACKAGE_INVALID;
    case ORT_ERROR_NOT_IMPLEMENTED:
      return WEFT_UNSUPPORTED;
    default:
      return WEFT_BACKEND;
  }
}

weft_status ort_check(const ort_library *lib, ort_status *status, weft_error *err, const char *what,
                      ...) {
  char text[256];
  va_list args;
  if (WF_LIKELY(!status)) return WEFT_OK;
  va_start(args, what);
  vsnprintf(text, sizeof text, what, args);
  va_end(args);
  const char *message = lib->api.error_message(status);
  if (!message) message = "no reason given";
  /* names come first and may be as long as a path, the reason stands last: both ends are kept */
  enum { HEAD = 140, TAIL = 240 };
  const size_t n = strlen(message);
  const weft_status code = status_of(lib->api.error_code(status), message);
  const weft_status st = n > HEAD + TAIL
                             ? wf_fail(err, code, NULL, "ONNX Runtime %s: %.*s ... %s", text,
                                       (int)HEAD, message, message + n - TAIL)
                             : wf_fail(err, code, NULL, "ONNX Runtime %s: %s", text, message);
  lib->api.release_status(status);
  return st;
}

void ort_note_release(ort_library *lib, ort_kind kind) {
  /* relaxed: counts and a trace to be read when all is quiet */
  const unsigned long at = atomic_fetch_add_explicit(&lib->n_released, 1, memory_order_relaxed);
  atomic_store_explicit(&lib->trace[at % ORT_TRACE], (unsigned char)kind, memory_order_relaxed);
  atomic_fetch_sub_explicit(&lib->live[kind], 1, memory_order_relaxed);
}
