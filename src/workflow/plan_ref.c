/* SPDX-License-Identifier: Apache-2.0 */
#include "workflow/plan_ref.h"

void wf_plan_hold(wf_plan_ref *r) {
  /* relaxed: whoever holds one reference may make another */
  atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
}

void wf_plan_release(wf_plan_ref *r) {
  /* acq_rel: what others did with the plan comes before its end */
  if (!r || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) > 1) return;
  for (size_t i = 0; i < r->n_programs; i++) {
    if (r->programs[i].backend) {
      wf_component_release(r->programs[i].backend, r->programs[i].component);
    }
  }
  wf_free(r->programs);
  wf_arena_destroy(r->arena);
  wf_free(r);
}
