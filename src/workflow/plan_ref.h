/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan's count and its releasing hang on: small, mutable, outside the sealed pages. */
#ifndef WF_WORKFLOW_PLAN_REF_H
#define WF_WORKFLOW_PLAN_REF_H

#include <stdatomic.h>

#include "backend/backend.h"
#include "base/mem.h"
#include "workflow/plan.h"

/* A component's compiled program; immutable, shared by all workers. */
typedef struct wf_program {
  const wf_backend *backend; /* NULL: not a graph */
  wf_component *component;
  const wf_component_info *info;
  const int32_t *input_at,
      *output_at; /* [n_inputs], [n_outputs] of the plan: the backend's index */
} wf_program;

typedef struct wf_plan_ref {
  atomic_int refs;
  wf_arena *arena; /* sealed; holds the plan */
  const wf_plan *plan;
  size_t n_programs;
  wf_program *programs; /* [n_components] */
} wf_plan_ref;

/* Thread: any. */
void wf_plan_hold(wf_plan_ref *r);
void wf_plan_release(wf_plan_ref *r); /* NULL is fine */

#endif
