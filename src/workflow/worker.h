/* SPDX-License-Identifier: Apache-2.0 */
/* The worker: everything mutable that runs of one plan use, on one thread.
 *
 *   worker_backend  component sessions, execution islands     worker_backend.c
 *   worker_state    values, session cells, counters           worker.c
 *
 * Both are made, used and destroyed on the worker's thread, whose owner token the worker keeps: use
 * from another thread is refused as WRONG_THREAD and changes nothing, release from another is
 * queued for the owner. Destroying goes in this order, which a test records: island bindings, then
 * cached values, then allocators, then backend sessions (a value's memory is freed before what it
 * was taken from). */
#ifndef WF_WORKFLOW_WORKER_H
#define WF_WORKFLOW_WORKER_H

#include "base/thread.h"
#include "workflow/pass.h"
#include "workflow/plan_ref.h"

typedef struct wf_worker wf_worker;

/* A conversation's cells on their worker. */
typedef struct wf_worker_session wf_worker_session;

typedef struct wf_worker_counters {
  uint64_t passes, component_runs, batched_rows, foreign_releases;
} wf_worker_counters;

/* Owner:   *result on success; the plan is held until destroy. `team` is borrowed.
 * Errors:  OUT_OF_MEMORY, BACKEND. */
weft_status wf_worker_create(wf_worker **result, wf_plan_ref *plan, wf_team *team, weft_error *err)
    WF_REQUIRES(wf_worker_role) WF_NODISCARD;
/* NULL is fine. On a foreign thread nothing is freed: the worker is put aside (wf_quarantine). */
void wf_worker_destroy(wf_worker *w) WF_REQUIRES(wf_worker_role);

/* Opens a session with an id of the mint. Errors: WRONG_THREAD, OUT_OF_MEMORY. */
weft_status wf_worker_session_open(wf_worker_session **result, wf_worker *w, wf_session_mint *mint,
                                   weft_error *err) WF_REQUIRES(wf_worker_role) WF_NODISCARD;
wf_session_id wf_worker_session_identity(const wf_worker_session *s);
/* Forgets what the session keeps. */
weft_status wf_worker_session_reset(wf_worker_session *s, weft_error *err)
    WF_REQUIRES(wf_worker_role) WF_NODISCARD;
/* Another session with the same cells; later turns of either don't show in the other. */
weft_status wf_worker_session_fork(wf_worker_session **result, wf_worker_session *s,
                                   wf_session_mint *mint, weft_error *err)
    WF_REQUIRES(wf_worker_role) WF_NODISCARD;
/* The session's cell, by the plan's number; NULL: it has none yet. */
const wf_view *wf_worker_session_cell(const wf_worker_session *s, size_t cell)
    WF_REQUIRES(wf_worker_role);
/* The cells of `from`, a session of the same worker, in the place of the session's own: back to
 * what it was when `from` was forked. Errors: SESSION_BUSY (either), WRONG_THREAD. */
weft_status wf_worker_session_copy(wf_worker_session *s, const wf_worker_session *from,
                                   weft_error *err) WF_REQUIRES(wf_worker_role) WF_NODISCARD;
/* For each cell with is_set: a copy of views[cell], or nothing where that has no data. On an error
 * nothing has changed. Errors: as above, OUT_OF_MEMORY. */
weft_status wf_worker_session_set(wf_worker_session *s, const wf_view *views, const bool *is_set,
                                  weft_error *err) WF_REQUIRES(wf_worker_role) WF_NODISCARD;
/* May it be used now? Errors: SESSION_BUSY, WRONG_THREAD. */
weft_status wf_worker_session_check(const wf_worker_session *s, weft_error *err)
    WF_REQUIRES(wf_worker_role) WF_NODISCARD;
const wf_plan *wf_worker_session_plan(const wf_worker_session *s);
/* NULL is fine. From a foreign thread it is queued and freed by the worker's next call. */
void wf_worker_session_close(wf_worker_session *s);

/* A run of the plan. With a session the pass holds its lease: a second pass on it is SESSION_BUSY.
 * The request is borrowed until the pass is closed. */
weft_status wf_worker_open_pass(wf_pass **result, wf_worker *w, wf_request *request,
                                wf_worker_session *session, weft_error *err)
    WF_REQUIRES(wf_worker_role) WF_NODISCARD;
void wf_worker_close_pass(wf_worker *w, wf_pass *p, wf_worker_session *session)
    WF_REQUIRES(wf_worker_role);

/* Ends the lease of a pass that has run to its end or failed; its outputs stay until it is closed
 * (then without a session). NULL is fine. */
void wf_worker_end_turn(wf_worker_session *session) WF_REQUIRES(wf_worker_role);

/* Runs every pass to its end: each round gathers the invocations they wait for and runs those of
 * one component together where their ports allow it. statuses[i], errors[i] are pass i's own; one
 * that fails leaves the others alone. errors may be NULL. Errors: WRONG_THREAD (nothing has run).
 */
weft_status wf_worker_drive(wf_worker *w, wf_pass **passes, size_t n, weft_status *statuses,
                            weft_error *errors, weft_error *err)
    WF_REQUIRES(wf_worker_role) WF_NODISCARD;

wf_worker_counters wf_worker_count(const wf_worker *w) WF_REQUIRES(wf_worker_role);
size_t wf_worker_value_bytes(const wf_worker *w) WF_REQUIRES(wf_worker_role);

#endif
