/* SPDX-License-Identifier: Apache-2.0 */
/* The builder's insides, shared by plan_build.c (tables, programs) and plan_steps.c (names and
 * steps). */
#ifndef WF_WORKFLOW_PLAN_BUILDER_H
#define WF_WORKFLOW_PLAN_BUILDER_H

#include "base/mem.h"
#include "workflow/plan_build.h"

/* A name that can be seen, and its slot. The last one of a name counts; leaving a scope cuts the
 * list back to where it began. */
typedef struct plan_name {
  const char *name;
  wf_slot slot;
} plan_name;

typedef struct plan_builder {
  wf_arena *arena;
  wf_plan *plan;
  const wf_metadata *m;
  const wf_meta_workflow *w;
  const wf_plan_options *o;
  WF_VEC(plan_name) names;    /* visible ones */
  WF_VEC(const char *) slots; /* names of all slots */
  WF_VEC(wf_plan_symbol) symbols;
  wf_slot *cell_slots; /* [n_cells] of the loop that carries it; none: not carried */
  size_t depth;
  weft_error *err;
} plan_builder;

wf_slot plan_define(plan_builder *b, const char *name); /* none: no memory */
/* none: no such name, or NULL was asked for. */
wf_slot plan_lookup(const plan_builder *b, const char *name);
weft_status plan_fail_name(plan_builder *b, const char *path, const char *name) WF_COLD;

/* A contract of the document with its symbols in the table of names given. */
typedef WF_VEC(const char *) plan_texts;
weft_status plan_contract(plan_builder *b, const wf_meta_contract *c, plan_texts *symbols,
                          wf_plan_contract *result) WF_NODISCARD;
/* The same in the package's table. */
weft_status plan_package_contract(plan_builder *b, const wf_meta_contract *c,
                                  wf_plan_contract *result) WF_NODISCARD;

/* The tensor of an artifact input, read from the package into the plan. */
weft_status plan_take_artifact(plan_builder *b, const wf_meta_input *in,
                               wf_plan_input *to) WF_NODISCARD;

weft_status plan_steps(plan_builder *b, const wf_meta_steps *steps, const char *path,
                       const wf_plan_step **result) WF_NODISCARD;

#endif
