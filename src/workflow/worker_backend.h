/* SPDX-License-Identifier: Apache-2.0 */
/* What of a worker executes: a backend session for each component. Private to workflow/. */
#ifndef WF_WORKFLOW_WORKER_BACKEND_H
#define WF_WORKFLOW_WORKER_BACKEND_H

#include "workflow/pass.h"
#include "workflow/plan_ref.h"

typedef struct wf_worker_backend {
  wf_plan_ref *plan;
  wf_backend_session **sessions WF_GUARDED_BY(wf_worker_role); /* [n_components] */
  wf_view *inputs, *outputs;                                   /* of one run, by backend index */
} wf_worker_backend;

weft_status wf_worker_backend_init(wf_worker_backend *b, wf_plan_ref *plan, wf_team *team,
                                   weft_error *err) WF_REQUIRES(wf_worker_role) WF_NODISCARD;
void wf_worker_backend_deinit(wf_worker_backend *b) WF_REQUIRES(wf_worker_role);

/* Runs one invocation; results[i] for each wanted output, the caller's references. On an error none
 * is there. */
weft_status wf_worker_backend_run(wf_worker_backend *b, const wf_invocation *v, wf_datum_pool *pool,
                                  wf_datum **results, weft_error *err)
    WF_REQUIRES(wf_worker_role) WF_NODISCARD;

#endif
