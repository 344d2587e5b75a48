/* SPDX-License-Identifier: Apache-2.0 */
/* Names visible at a point of the walk over steps. A scope is opened and closed like a bracket;
 * what it defined goes with it. Shared by check_steps.c and check_flow.c only. */
#ifndef WF_PACKAGE_SCOPE_H
#define WF_PACKAGE_SCOPE_H

#include "package/check.h"

typedef struct wf_scope_name {
  const char *name;
  const wf_meta_contract *contract; /* NULL: nothing known */
  const wf_meta_input *guarded;     /* an optional input that needs its guard (IN-08) */
  const wf_meta_cell *cell;         /* the name is a carried cell's */
  bool is_iteration;
  uint32_t chain; /* the next of the same bucket; UINT32_MAX: none */
  uint64_t hash;
} wf_scope_name;

typedef struct wf_emitted {
  const wf_meta_contract *layout; /* of the first row-scoped value emitted */
} wf_emitted;

typedef struct wf_walk {
  wf_rules *c;
  WF_VEC(wf_scope_name) names;
  uint32_t *buckets;
  size_t n_buckets;
  WF_VEC(const char *) guards; /* predicates whose "true" case is being walked */
  wf_emitted *emitted;         /* by output */
} wf_walk;

bool wf_walk_init(wf_walk *k, wf_rules *c);
void wf_walk_deinit(wf_walk *k);
/* The visible definition; NULL. Valid until the next definition. */
const wf_scope_name *wf_walk_find(const wf_walk *k, const char *name);
/* Defines; a name already visible is SSA-02 at `at`.`member`. */
void wf_walk_define(wf_walk *k, wf_scope_name name, const wf_meta_at *at, const char *member);
/* Ends a scope: forgets what was defined since the names numbered n. */
void wf_walk_leave(wf_walk *k, size_t n);
/* A use: told as `rule` when it is not visible, as IN-08 when its guard is missing. */
const wf_scope_name *wf_walk_use(wf_walk *k, const char *name, const char *rule,
                                 const wf_meta_at *at, const char *member);
/* A copy whose contract may be NULL; false when the name is not visible. */
bool wf_walk_value(wf_walk *k, const char *name, const char *rule, const wf_meta_at *at,
                   const char *member, wf_scope_name *result);

void wf_walk_steps(wf_walk *k, const wf_meta_steps *steps);
void wf_walk_step(wf_walk *k, const wf_meta_step *s);
void wf_walk_loop(wf_walk *k, const wf_meta_step *s);
void wf_walk_branch(wf_walk *k, const wf_meta_step *s);
void wf_walk_emit(wf_walk *k, const wf_meta_step *s);

/* A contract that a graph states says nothing of rows. */
static inline bool wf_contract_has_layout(const wf_meta_contract *c) { return c && c->head.at; }

#endif
