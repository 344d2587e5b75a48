/* SPDX-License-Identifier: Apache-2.0 */
/* The insides of a pass, shared by the files that make it up: pass.c (the machine), pass_inputs.c,
 * pass_check.c (contracts), pass_loop.c (cells), pass_emit.c (outputs), adapter.c (components
 * that are no graphs). */
#ifndef WF_WORKFLOW_PASS_STATE_H
#define WF_WORKFLOW_PASS_STATE_H

#include "base/mem.h"
#include "workflow/pass.h"

/* Extents bound to symbols; -1: unbound. The table of the package, or of one side of a component
 * for one invocation. */
typedef struct wf_extents {
  size_t n;
  int64_t *at;
  const wf_plan_symbol *package; /* names of the package's table */
  const char *const *component;  /* or of a component's */
} wf_extents;

/* One step being executed. */
typedef struct wf_frame {
  const wf_plan_step *step;
  size_t at; /* sequence: next child; others: phase */
  int64_t k, limit;
  wf_datum *mask; /* loop: rows that are active in this iteration; NULL: all */
  size_t chosen;  /* branch: case */
} wf_frame;

typedef WF_VEC(wf_datum *) wf_data;

/* What an output holds: chunks in order, put together at the end. */
typedef struct wf_published {
  bool is_there;
  size_t n_rows; /* row-wise only */
  wf_data whole; /* replace and event: the last one; append: chunks */
  wf_data *rows; /* [n_rows] likewise */
  wf_data events;
  int64_t n_events;
  int32_t axis; /* of growth */
} wf_published;

/* A component that another stands for in this pass. */
typedef struct wf_override {
  int32_t component, other;
  int32_t *inputs, *outputs; /* the other's ports by the component's; -1: no role */
} wf_override;

struct wf_pass {
  wf_pass_id id;
  const wf_plan *plan;
  const wf_request *request;
  wf_datum_pool *pool;
  wf_datum **slots;   /* [n_slots] */
  wf_extents extents; /* of the package */
  int64_t *scratch_extents;
  wf_frame *frames;
  size_t depth;
  wf_published *outputs;
  wf_datum **cells;  /* [n_cells] last value of each session cell that a loop carried */
  wf_datum **staged; /* [most carries of a loop] */
  wf_pass_counters counters;
  size_t n_overrides;
  wf_override *overrides;
  /* The invocation in hand. */
  const wf_plan_step *invoking;
  const wf_override *instead; /* of the component; NULL: itself */
  wf_view *inputs;
  bool *wanted;
  wf_datum **results; /* of built-in components */
  int64_t *local_extents;
  size_t most_ports;
};

/* ---- contracts (pass_check.c) -------------------------------------------------------------- */

/* Checks a tensor against a contract, binding symbols that are free. skip_axis >= 0: that extent is
 * not looked at. `who` names the value. status: BIND or RUN for a wrong type, rank or fixed extent;
 * a symbol's conflict is RUN. */
weft_status wf_contract_check(const wf_plan_contract *c, const wf_view *v, wf_extents *t,
                              int32_t skip_axis, weft_status status, const char *who,
                              weft_error *err) WF_NODISCARD;
void wf_extents_clear(wf_extents *t);

/* ---- inputs (pass_inputs.c) ---------------------------------------------------------------- */

weft_status wf_pass_bind_inputs(wf_pass *p, weft_error *err) WF_NODISCARD;

/* ---- controls ------------------------------------------------------------------------------ */

/* One integer out of a tensor with one element; the error names `what` and the step. */
weft_status wf_pass_read_count(const wf_pass *p, const wf_plan_step *s, wf_slot slot,
                               const char *what, int64_t *result, weft_error *err) WF_NODISCARD;
weft_status wf_pass_value(const wf_pass *p, const wf_plan_step *s, wf_slot slot, wf_datum **result,
                          weft_error *err) WF_NODISCARD; /* borrowed */
void wf_pass_set(wf_pass *p, wf_slot slot, wf_datum *v); /* takes the reference; NULL clears */

/* ---- overrides (pass_override.c) ----------------------------------------------------------- */

weft_status wf_pass_take_overrides(wf_pass *p, weft_error *err) WF_NODISCARD;
const wf_override *wf_pass_override(const wf_pass *p, int32_t component); /* NULL: none */
void wf_pass_free_overrides(wf_pass *p);

/* ---- loops (pass_loop.c) ------------------------------------------------------------------- */

weft_status wf_loop_enter(wf_pass *p, wf_frame *f, weft_error *err) WF_NODISCARD;
/* Is there another iteration? Then its values are there. */
weft_status wf_loop_test(wf_pass *p, wf_frame *f, bool *goes_on, weft_error *err) WF_NODISCARD;
weft_status wf_loop_commit(wf_pass *p, wf_frame *f, weft_error *err) WF_NODISCARD;
void wf_loop_leave(wf_pass *p, wf_frame *f);

/* ---- outputs (pass_emit.c) ----------------------------------------------------------------- */

weft_status wf_pass_emit(wf_pass *p, const wf_plan_step *s, weft_error *err) WF_NODISCARD;
/* Puts chunks together and checks what was published as one tensor. */
weft_status wf_pass_finish_outputs(wf_pass *p, weft_error *err) WF_NODISCARD;
void wf_pass_free_outputs(wf_pass *p);

/* ---- components that are no graphs (adapter.c) --------------------------------------------- */

/* Fills p->results for the wanted outputs of a binding or adapter. */
weft_status wf_builtin_invoke(wf_pass *p, const wf_plan_component *c, weft_error *err) WF_NODISCARD;

/* pass_scatter.c, RUN-SC: before a component writes into a cache of fixed capacity. */
weft_status wf_scatter_check(const wf_pass *p, const wf_plan_step *s, const wf_plan_component *c,
                             weft_error *err) WF_NODISCARD;

#endif
