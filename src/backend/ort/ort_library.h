/* SPDX-License-Identifier: Apache-2.0 */
/* The library, opened once a process and never closed, and the process's one environment. Private
 * to ort/. */
#ifndef WF_ORT_LIBRARY_H
#define WF_ORT_LIBRARY_H

#include <stdatomic.h>
#include <stdbool.h>

#include "backend/ort/ort_abi.h"
#include "base/error.h"
#include "base/str.h"

/* What is counted. In the order in which they go: a value before the allocator that owns its
 * memory, bindings and allocators before their session, the environment last. */
typedef enum ort_kind {
  ORT_KIND_VALUE,
  ORT_KIND_ALLOCATOR,
  ORT_KIND_BINDING,
  ORT_KIND_SESSION,
  ORT_KIND_ENVIRONMENT,
  ORT_N_KINDS
} ort_kind;

enum { ORT_TRACE = 256 };

typedef struct ort_library {
  ort_api api;
  char *path;          /* of the file, as the loader names it */
  const char *version; /* the library's own text */
  int minor;           /* of 1.N */
  atomic_long live[ORT_N_KINDS];
  atomic_long n_queued;      /* releases from a foreign thread that went to their owner's queue */
  atomic_long n_quarantined; /* of those, freed by closing and not by their owner */
  atomic_ulong n_released;
  atomic_uchar trace[ORT_TRACE]; /* kinds of the last releases, a ring; for tests */
} ort_library;

/* Looks for the library: `file` (--ort), else WEFT_ORT, else where the loader looks; checks its
 * version and fills the table. The process keeps the first one that was good; asking for another
 * file later is refused. Thread: any. Errors: IO (none found: what was looked for and where),
 * UNSUPPORTED (found, and why it does not fit). */
weft_status ort_library_open(ort_library **result, const char *file, weft_error *err) WF_NODISCARD;

/* The environment, counted; made by the first, released by the last. Thread: any. */
weft_status ort_env_acquire(ort_library *lib, ort_env **result, weft_error *err) WF_NODISCARD;
void ort_env_release(ort_library *lib);
/* Gives memory that no run needs back to the system. */
void ort_env_shrink(ort_library *lib);
/* Bytes that the environment's arena holds and those in use; 0 where the library can't tell. */
void ort_env_memory(ort_library *lib, size_t *held, size_t *used);

/* Notes that one object of a kind has been released. */
void ort_note_release(ort_library *lib, ort_kind kind);

/* NULL is OK; else takes the status over, releases it and makes it our error. `what` begins the
 * sentence. */
weft_status ort_check(const ort_library *lib, ort_status *status, weft_error *err, const char *what,
                      ...) WF_PRINTF(4, 5) WF_NODISCARD;
#define ORT_TRY(lib, err, call, ...)                            \
  do {                                                          \
    st = ort_check((lib), (lib)->api.call, (err), __VA_ARGS__); \
    if (WF_UNLIKELY(st != WEFT_OK)) goto out;                   \
  } while (0)

#endif
