/* SPDX-License-Identifier: Apache-2.0 */
/* The pass: one execution of a plan. Owns: its values, symbols, program counter, what it published,
 * telemetry. Lives from open to close on one worker. It is a machine that stops at each invocation
 * of a component: the driver runs the component (for several passes at once where it may) and hands
 * the results back.
 *
 *   wf_pass_open -> { wf_pass_run -> (invocation -> wf_pass_resume)* -> done } -> wf_pass_close
 *
 * Thread: worker. */
#ifndef WF_WORKFLOW_PASS_H
#define WF_WORKFLOW_PASS_H

#include "base/thread.h"
#include "workflow/datum.h"
#include "workflow/ids.h"
#include "workflow/plan.h"

typedef struct wf_pass wf_pass;

typedef struct wf_named_view {
  const char *name;
  wf_view view;
} wf_named_view;

/* A chunk that an emit published. Borrowed for the callback's length. */
typedef struct wf_emitted {
  const wf_plan_output *output;
  wf_emit_mode mode;
  int64_t row;      /* -1: the whole value */
  int64_t sequence; /* of events, from 0 */
  const wf_view *value;
} wf_emitted;

/* Another component in the place of an overridable one. */
typedef struct wf_named_override {
  const char *component, *other;
} wf_named_override;

/* What a caller asks. Everything is borrowed until wf_pass_close. */
typedef struct wf_request {
  size_t n_tensors;
  const wf_named_view *tensors; /* by input name, or an application input's source name */
  size_t n_overrides;
  const wf_named_override *overrides;
  bool has_max_tokens, has_seed;
  int64_t max_tokens;
  int64_t seed;
  /* is_greedy, or any of the other four, decides all of them (format §5.1). */
  bool is_greedy, has_temperature, has_top_k, has_top_p, has_min_p;
  double temperature, top_p, min_p;
  int64_t top_k;
  size_t n_prompts; /* rows of equal length; 0: none */
  int64_t prompt_tokens;
  const int64_t *prompts; /* [n_prompts][prompt_tokens] */
  bool keeps_going;       /* stop_on_eos: false */
  /* State of the session by cell, updated when the pass succeeds; NULL: the request has none. */
  wf_datum **session_cells;
  /* Called as each emit executes, on the worker's thread; a status but OK ends the pass with it.
   * NULL: nobody listens. */
  weft_status (*on_emit)(void *user, const wf_emitted *e, weft_error *err);
  void *on_emit_user;
  /* Called before each trip of a loop and, with done = limit, after its last; NULL: nobody asks. */
  void (*on_iteration)(void *user, const char *loop, int64_t done, int64_t limit);
  void *on_iteration_user;
  const atomic_int *cancel; /* not 0: end at the next step; may be NULL */
} wf_request;

/* A component to run. inputs are indexed as the plan's component lists them, data NULL: absent. */
typedef struct wf_invocation {
  int32_t component;
  const char *path; /* of the step, for messages */
  const wf_view *inputs;
  const bool *wanted; /* [n_outputs] outputs that the step binds */
} wf_invocation;

typedef struct wf_pass_counters {
  uint64_t invocations; /* executed invokes, bindings and adapters included */
  uint64_t iterations;  /* trips of all loops */
  uint64_t emits;       /* published chunks, one a row for a row-wise output */
} wf_pass_counters;

/* Resolves the inputs and stands before the first step.
 * Owner:   *result on success; `plan`, `request` and `pool` stay the caller's and outlive it.
 * Errors:  MISSING_INPUT, BIND (a tensor that contradicts its contract, or that no input declares),
 *          RUN (two inputs give one symbol two extents), OUT_OF_MEMORY. */
weft_status wf_pass_open(wf_pass **result, const wf_plan *plan, wf_pass_id id, wf_datum_pool *pool,
                         const wf_request *request, weft_error *err)
    WF_REQUIRES(wf_worker_role) WF_NODISCARD;
void wf_pass_close(wf_pass *p) WF_REQUIRES(wf_worker_role); /* NULL is fine */
wf_pass_id wf_pass_identity(const wf_pass *p);

/* Runs to the next invocation (*next is filled, *is_done false) or to the end (*is_done true; the
 * session's cells are committed). After an error only close is left; no session cell has changed.
 * Errors: RUN (names the step), CANCELLED, OUT_OF_MEMORY, what on_emit returned. */
weft_status wf_pass_run(wf_pass *p, wf_invocation *next, bool *is_done, weft_error *err)
    WF_REQUIRES(wf_worker_role) WF_NODISCARD;
/* Takes the results of the invocation last given: outputs[i] for each output that was wanted,
 * NULL for others. The references move to the pass, also on an error. */
weft_status wf_pass_resume(wf_pass *p, wf_datum **outputs, weft_error *err)
    WF_REQUIRES(wf_worker_role) WF_NODISCARD;

/* After the end. What an output holds: a tensor; or rows, each a tensor or NULL (nothing was
 * published for it). */
bool wf_pass_output_is_there(const wf_pass *p, size_t output);
size_t wf_pass_output_rows(const wf_pass *p, size_t output); /* 0: not row-wise */
const wf_view *wf_pass_output(const wf_pass *p, size_t output);
const wf_view *wf_pass_output_row(const wf_pass *p, size_t output, size_t row);
size_t wf_pass_n_events(const wf_pass *p, size_t output);
const wf_view *wf_pass_event(const wf_pass *p, size_t output, size_t at);
const wf_pass_counters *wf_pass_count(const wf_pass *p);

#endif
