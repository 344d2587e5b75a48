/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of docs/format.md §19, one file a family. Shared inside this folder only. */
#ifndef WF_PACKAGE_CHECK_H
#define WF_PACKAGE_CHECK_H

#include "package/metadata.h"

typedef struct wf_rules {
  const wf_metadata *m;
  const wf_meta_workflow *w;
  wf_problems *problems;
  wf_arena *arena;
  bool out_of_memory;
  /* what check_steps gathers */
  bool uses_loop, uses_branch, uses_iteration, uses_emit, uses_event, uses_valid_length,
      changes_effects_in_flow;
  size_t flow_depth; /* loops and branches around the step being walked */
} wf_rules;

/* Tells a broken rule at `at`, or at its member (NULL: at itself). */
void wf_check_fail(wf_rules *c, wf_problem_class class, const char *rule, const wf_meta_at *at,
                   const char *member, const char *fix, const char *fmt, ...) WF_COLD
    WF_PRINTF(7, 8);
#define wf_check_struct(c, rule, at, member, fix, ...) \
  wf_check_fail((c), WF_PROBLEM_STRUCT, (rule), (at), (member), (fix), __VA_ARGS__)

void wf_check_ports(wf_rules *c);       /* TYP, IN, LIT, OUT */
void wf_check_components(wf_rules *c);  /* CMP, CON, ROW */
void wf_check_state(wf_rules *c);       /* ST, EFF */
void wf_check_groups(wf_rules *c);      /* GRP */
void wf_check_steps(wf_rules *c);       /* STEP, SSA, CTR, LOOP, BR, EMIT, SRV, CMP-06, -07, -10 */
void wf_check_sections(wf_rules *c);    /* DOC, CAP, GEN, PRO, model */
void wf_check_programs(wf_rules *c);    /* PRE */
void wf_check_lora(wf_rules *c);        /* LORA */
void wf_check_speculative(wf_rules *c); /* SPEC */

/* Files are looked for and graphs are read: ART, ADM. Fills the components' graphs. */
void wf_check_artifacts(wf_rules *c, bool trust_links);

/* What an error says about an unfit contract; NULL when the two fit. `exempt`: an axis that may
 * differ, -1 for none. */
const char *wf_contract_clash(const wf_meta_contract *a, const wf_meta_contract *b, int64_t exempt);
bool wf_contract_same_layout(const wf_meta_contract *a, const wf_meta_contract *b);
/* rank 0, or rank 1 of the one fixed extent 1 */
bool wf_contract_is_scalar(const wf_meta_contract *c);
bool wf_contract_is_integer(const wf_meta_contract *c);
bool wf_component_declares_ports(const wf_meta_component *c);
/* Calls f for every step, depth first. */
void wf_steps_each(const wf_meta_steps *steps, void (*f)(const wf_meta_step *, void *), void *user);

#endif
