/* SPDX-License-Identifier: Apache-2.0 */
/* A session's cells as bytes that another process can continue from (format §8.1): the semantic
 * ones, with their contracts, under the package's identity. Thread: worker. */
#ifndef WF_WORKFLOW_CHECKPOINT_H
#define WF_WORKFLOW_CHECKPOINT_H

#include "base/str.h"
#include "workflow/worker.h"

/* Owner: out's. Errors: SESSION_BUSY, WRONG_THREAD, OUT_OF_MEMORY. */
weft_status wf_checkpoint_write(const wf_worker_session *s, wf_buf *out, weft_error *err)
    WF_REQUIRES(wf_worker_role) WF_NODISCARD;

/* Clears the session's semantic cells and sets those of the checkpoint; advisory ones stay. On an
 * error nothing has changed.
 * Errors: PACKAGE_INVALID (no checkpoint, damaged, of another package or other contracts),
 *         SESSION_BUSY, WRONG_THREAD, OUT_OF_MEMORY. */
weft_status wf_checkpoint_read(wf_worker_session *s, wf_str bytes, weft_error *err)
    WF_REQUIRES(wf_worker_role) WF_NODISCARD;

#endif
