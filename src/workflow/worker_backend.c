/* SPDX-License-Identifier: Apache-2.0 */
#include "workflow/worker_backend.h"

#include <string.h>

weft_status wf_worker_backend_init(wf_worker_backend *b, wf_plan_ref *plan, wf_team *team,
                                   weft_error *err) {
  size_t n_in = 1, n_out = 1;
  *b = (wf_worker_backend){.plan = plan};
  b->sessions = wf_calloc(plan->n_programs + 1, sizeof *b->sessions);
  for (size_t i = 0; i < plan->n_programs; i++) {
    const wf_component_info *info = plan->programs[i].info;
    if (info && info->n_inputs > n_in) n_in = info->n_inputs;
    if (info && info->n_outputs > n_out) n_out = info->n_outputs;
  }
  b->inputs = wf_calloc(n_in, sizeof *b->inputs);
  b->outputs = wf_calloc(n_out, sizeof *b->outputs);
  if (!b->sessions || !b->inputs || !b->outputs) {
    return wf_fail_memory(err, plan->n_programs * sizeof *b->sessions, "component sessions");
  }
  for (size_t i = 0; i < plan->n_programs; i++) {
    const wf_program *p = &plan->programs[i];
    if (!p->backend) continue;
    const weft_status st =
        wf_backend_session_open(p->backend, &b->sessions[i], p->component, team, 1, err);
    if (st != WEFT_OK) {
      return wf_fail_in(err, st, "component '%s': ", plan->plan->components[i].name);
    }
  }
  return WEFT_OK;
}

void wf_worker_backend_deinit(wf_worker_backend *b) {
  for (size_t i = 0; b->sessions && i < b->plan->n_programs; i++) {
    if (b->sessions[i]) {
      wf_backend_session_close(b->plan->programs[i].backend, b->sessions[i]);
    }
  }
  wf_free(b->sessions);
  wf_free(b->inputs);
  wf_free(b->outputs);
  *b = (wf_worker_backend){0};
}

weft_status wf_worker_backend_run(wf_worker_backend *b, const wf_invocation *v, wf_datum_pool *pool,
                                  wf_datum **results, weft_error *err) {
  const wf_program *p = &b->plan->programs[v->component];
  const wf_plan_component *c = &b->plan->plan->components[v->component];
  weft_status st = WEFT_OK;
  memset(b->inputs, 0, p->info->n_inputs * sizeof *b->inputs);
  memset(b->outputs, 0, p->info->n_outputs * sizeof *b->outputs);
  for (size_t i = 0; i < c->n_inputs; i++) {
    if (v->inputs[i].data) b->inputs[p->input_at[i]] = v->inputs[i];
  }
  const wf_row row = {.inputs = b->inputs, .outputs = b->outputs};
  st = wf_backend_session_run(p->backend, b->sessions[v->component], &row, 1, err);
  /* what a graph makes of its values is the run's failure (format §7), not a wrong call */
  if (st == WEFT_INVALID_ARGUMENT || st == WEFT_BACKEND) {
    st = WEFT_RUN;
    if (err) err->status = st;
  }
  if (st != WEFT_OK) return wf_fail_in(err, st, "%s: component '%s': ", v->path, c->name);
  for (size_t i = 0; i < c->n_outputs; i++) {
    results[i] = NULL;
    if (!v->wanted[i]) continue;
    const wf_view *out = &b->outputs[p->output_at[i]];
    WF_TRY(wf_datum_copy(&results[i], pool, out, err));
  }
out:
  for (size_t i = 0; st != WEFT_OK && i < c->n_outputs; i++) {
    wf_datum_unref(results[i]);
    results[i] = NULL;
  }
  return st;
}
