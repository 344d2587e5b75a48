/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of the workflow layer. Each kind is a type of its own, so that mixing two does not compile.
 *
 *   pass id            worker-local; 0 is "none"; each pass gets a fresh one. An iteration variant
 *                      mints in a namespace of its own and does not advance its parent's.
 *   graph capture id   worker-local; island i counts from i * 1000 and never leaves its thousand:
 *                      running out is a typed error, because the number after the last is another
 *                      island's and -1 is what ONNX Runtime reads as "do not capture".
 *   session id         shared by an engine: one atomic counter, from 1, by 1. */
#ifndef WF_WORKFLOW_IDS_H
#define WF_WORKFLOW_IDS_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/error.h"

typedef struct wf_pass_id {
  uint64_t v;
} wf_pass_id;
typedef struct wf_capture_id {
  int32_t v;
} wf_capture_id;
typedef struct wf_session_id {
  uint64_t v;
} wf_session_id;

/* One namespace of pass ids. Zeroed: nothing minted yet. Thread: worker. */
typedef struct wf_pass_mint {
  uint64_t last;
} wf_pass_mint;

static inline wf_pass_id wf_pass_id_next(wf_pass_mint *m) { return (wf_pass_id){++m->last}; }

/* Capture ids of one island. Thread: worker. */
enum { WF_CAPTURE_IDS_AN_ISLAND = 1000 };
typedef struct wf_capture_mint {
  int32_t island, used;
} wf_capture_mint;

/* Errors: INVALID_ARGUMENT (an island whose ids would not fit int32). */
weft_status wf_capture_mint_init(wf_capture_mint *m, int32_t island, weft_error *err) WF_NODISCARD;
/* Errors: LIMIT (all of the island's ids are in use); *result is untouched then. */
weft_status wf_capture_id_next(wf_capture_mint *m, wf_capture_id *result,
                               weft_error *err) WF_NODISCARD;

/* The engine's one mint of session ids. Zero-initialised. Thread: any. */
typedef struct wf_session_mint {
  atomic_uint_least64_t last;
} wf_session_mint;

static inline wf_session_id wf_session_id_next(wf_session_mint *m) {
  /* relaxed: the number itself is all that is shared */
  return (wf_session_id){atomic_fetch_add_explicit(&m->last, 1, memory_order_relaxed) + 1};
}

#endif
