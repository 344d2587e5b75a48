/* SPDX-License-Identifier: Apache-2.0 */
/* The insides of weft_workflow, shared by workflow_api.c (open, run, results) and session_api.c.
 *
 * The workflow's worker lives on whatever thread is inside: entering takes the worker's role and
 * its owner token, and holds the workflow, so that a close from one's own callback takes effect
 * when the call returns. Sessions and snapshots hold it as well. */
#ifndef WF_ENGINE_WORKFLOW_H
#define WF_ENGINE_WORKFLOW_H

#include <stdatomic.h>

#include "engine/engine.h"
#include "workflow/plan_ref.h"
#include "workflow/worker.h"

/* What the running request's callback is and where it stands. */
typedef struct wf_listener {
  weft_emit_callback *on_emit; /* NULL: nobody listens */
  void *user;
} wf_listener;

struct weft_workflow {
  atomic_int refs;
  uint64_t owner; /* the token of whoever runs it */
  uint64_t former WF_GUARDED_BY(wf_worker_role);
  atomic_flag is_busy; /* who sets it enters the worker's role */
  wf_plan_ref *plan;
  int64_t *dims; /* of the ports, inputs first: [n][WF_VIEW_MAX_RANK], -1 symbolic */
  wf_team *team WF_PT_GUARDED_BY(wf_worker_role);
  wf_worker *worker WF_GUARDED_BY(wf_worker_role);
  wf_session_mint sessions;
  wf_pass *pass WF_GUARDED_BY(wf_worker_role); /* the last run's, for its outputs; NULL: none */
  wf_request request WF_GUARDED_BY(wf_worker_role);
  wf_named_view *views WF_GUARDED_BY(wf_worker_role);
  wf_named_override *overrides WF_GUARDED_BY(wf_worker_role);
  wf_listener listener WF_GUARDED_BY(wf_worker_role);
  atomic_int cancel;
};

/* false: another call is inside. leave() may free the workflow. */
bool wf_workflow_enter(weft_workflow *w) WF_TSA(try_acquire_capability(true, wf_worker_role));
void wf_workflow_leave(weft_workflow *w) WF_RELEASE(wf_worker_role);
weft_status wf_workflow_fail_busy(weft_error *err) WF_COLD;

void wf_workflow_hold(weft_workflow *w);
void wf_workflow_release(weft_workflow *w); /* frees it after the last holder */

/* One run, with a session's cells or without (NULL). Errors: as weft_workflow_run. */
weft_status wf_workflow_run_on(weft_workflow *w, const weft_request *request,
                               wf_worker_session *session, weft_error *err) WF_NODISCARD;

#endif
