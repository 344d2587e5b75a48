/* SPDX-License-Identifier: Apache-2.0 */
/* From a validated document to a sealed plan. The builder is the only code that ever writes into a
 * plan; what it gives away is const. */
#ifndef WF_WORKFLOW_PLAN_BUILD_H
#define WF_WORKFLOW_PLAN_BUILD_H

#include "package/metadata.h"
#include "workflow/plan_ref.h"

typedef struct wf_plan_options {
  const char *backend;               /* as wf_component_compile_by takes it */
  const wf_compile_options *compile; /* what every component wants alike; model and ports are set */
} wf_plan_options;

/* Compiles the workflow and its components.
 * Owner:  *result has one reference, the caller's. `m` is only read and may go.
 * Thread: any; the plan is `immutable` afterwards.
 * Errors: PACKAGE_INVALID (no workflow), UNSUPPORTED (an adapter or operator that is missing, by
 *         name), OUT_OF_MEMORY, IO, BACKEND. */
weft_status wf_plan_build(wf_plan_ref **result, const wf_metadata *m, const wf_plan_options *o,
                          weft_error *err) WF_NODISCARD;

#endif
