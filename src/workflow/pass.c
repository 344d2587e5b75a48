/* SPDX-License-Identifier: Apache-2.0 */
/* The machine: frames of steps in execution, from one invocation of a component to the next. */
#include "workflow/pass.h"

#include <string.h>

#include "workflow/pass_state.h"

/* Phases of a frame, where a sequence has its next child. */
enum {
  LOOP_SETUP = 0,
  LOOP_ENTER = 1,
  LOOP_TEST = 2,
  LOOP_COMMIT = 3,
  BRANCH_CHOOSE = 0,
  BRANCH_JOIN = 1,
};

void wf_pass_set(wf_pass *p, wf_slot slot, wf_datum *v) {
  wf_datum_unref(p->slots[slot.v]);
  p->slots[slot.v] = v;
}

static void clear_slots(wf_pass *p, wf_slot first, wf_slot last) {
  for (int32_t i = first.v; i < last.v; i++) wf_pass_set(p, (wf_slot){i}, NULL);
}

weft_status wf_pass_value(const wf_pass *p, const wf_plan_step *s, wf_slot slot, wf_datum **result,
                          weft_error *err) {
  *result = p->slots[slot.v];
  if (*result) return WEFT_OK;
  return wf_fail(err, WEFT_RUN, "supply the input that it comes from",
                 "%s: value '%s' is not there", s->path, p->plan->slot_names[slot.v]);
}

weft_status wf_pass_read_count(const wf_pass *p, const wf_plan_step *s, wf_slot slot,
                               const char *what, int64_t *result, weft_error *err) {
  wf_datum *v = NULL;
  WF_RETURN_IF_ERROR(wf_pass_value(p, s, slot, &v, err));
  if (wf_view_elements(&v->view) != 1 || !wf_view_int(&v->view, 0, result) || *result < 0) {
    return wf_fail(err, WEFT_RUN, "give one integer that is not negative",
                   "%s: %s '%s' is no count", s->path, what, p->plan->slot_names[slot.v]);
  }
  return WEFT_OK;
}

/* ---- life ---------------------------------------------------------------------------------- */

weft_status wf_pass_open(wf_pass **result, const wf_plan *plan, wf_pass_id id, wf_datum_pool *pool,
                         const wf_request *request, weft_error *err) {
  weft_status st = WEFT_OK;
  size_t most_ports = 1, most_symbols = plan->n_symbols + 1, most_carries = plan->n_cells + 1;
  wf_pass *p = wf_zalloc(sizeof *p);
  if (!p) {
    st = wf_fail_memory(err, sizeof *p, "a pass");
    goto out;
  }
  for (size_t i = 0; i < plan->n_components; i++) {
    const wf_plan_component *c = &plan->components[i];
    if (c->n_inputs > most_ports) most_ports = c->n_inputs;
    if (c->n_outputs > most_ports) most_ports = c->n_outputs;
    if (c->n_symbols > most_symbols) most_symbols = c->n_symbols;
  }
  p->id = id;
  p->plan = plan;
  p->request = request;
  p->pool = pool;
  p->most_ports = most_ports;
  p->slots = wf_calloc(plan->n_slots + 1, sizeof *p->slots);
  p->extents.at = wf_calloc(plan->n_symbols + 1, sizeof *p->extents.at);
  p->scratch_extents = wf_calloc(most_symbols, sizeof *p->scratch_extents);
  p->local_extents = wf_calloc(most_symbols, sizeof *p->local_extents);
  p->frames = wf_calloc(plan->max_depth + 1, sizeof *p->frames);
  p->outputs = wf_calloc(plan->n_outputs + 1, sizeof *p->outputs);
  p->cells = wf_calloc(plan->n_cells + 1, sizeof *p->cells);
  p->staged = wf_calloc(most_carries, sizeof *p->staged);
  p->inputs = wf_calloc(most_ports, sizeof *p->inputs);
  p->wanted = wf_calloc(most_ports, sizeof *p->wanted);
  p->results = wf_calloc(most_ports, sizeof *p->results);
  if (!p->slots || !p->extents.at || !p->scratch_extents || !p->local_extents || !p->frames ||
      !p->outputs || !p->cells || !p->staged || !p->inputs || !p->wanted || !p->results) {
    st = wf_fail_memory(err, plan->n_slots * sizeof *p->slots, "a pass");
    goto out;
  }
  p->extents.n = plan->n_symbols;
  p->extents.package = plan->symbols;
  wf_extents_clear(&p->extents);
  WF_TRY(wf_pass_take_overrides(p, err));
  WF_TRY(wf_pass_bind_inputs(p, err));
  if (plan->has_session && !request->session_cells) {
    st = wf_fail(err, WEFT_BIND, "name a session",
                 "the workflow keeps state between requests, but the request names no session");
    goto out;
  }
  p->frames[p->depth++] = (wf_frame){.step = plan->root};
  *result = p;
  p = NULL;
out:
  wf_pass_close(p);
  return st;
}

void wf_pass_close(wf_pass *p) {
  if (!p) return;
  for (size_t i = 0; p->slots && i < p->plan->n_slots; i++) wf_datum_unref(p->slots[i]);
  for (size_t i = 0; p->cells && i < p->plan->n_cells; i++) wf_datum_unref(p->cells[i]);
  for (size_t i = 0; p->results && i < p->most_ports; i++) wf_datum_unref(p->results[i]);
  for (size_t i = 0; i < p->depth; i++) wf_datum_unref(p->frames[i].mask);
  wf_pass_free_outputs(p);
  wf_pass_free_overrides(p);
  wf_free(p->slots);
  wf_free(p->extents.at);
  wf_free(p->scratch_extents);
  wf_free(p->local_extents);
  wf_free(p->frames);
  wf_free(p->cells);
  wf_free(p->staged);
  wf_free(p->inputs);
  wf_free(p->wanted);
  wf_free(p->results);
  wf_free(p);
}

wf_pass_id wf_pass_identity(const wf_pass *p) { return p->id; }
const wf_pass_counters *wf_pass_count(const wf_pass *p) { return &p->counters; }

/* ---- steps --------------------------------------------------------------------------------- */

static void push(wf_pass *p, const wf_plan_step *s) {
  p->frames[p->depth++] = (wf_frame){.step = s}; /* the plan knows how deep it goes */
}

/* What runs at the step: its component, or what stands for it. Every port that a step binds on an
 * overridable component has a role (CMP-10). */
static int32_t invoked_at(const wf_pass *p, const wf_plan_step *s) {
  return p->instead ? p->instead->other : s->as.invoke.component;
}
static const wf_plan_component *invoked(const wf_pass *p, const wf_plan_step *s) {
  return &p->plan->components[invoked_at(p, s)];
}
static int32_t output_port(const wf_pass *p, const wf_plan_binding *b) {
  return p->instead ? p->instead->outputs[b->port] : b->port;
}

/* Values into the component's order, checked; *is_builtin: its results are there already. */
static weft_status begin_invoke(wf_pass *p, const wf_plan_step *s, bool *is_builtin,
                                weft_error *err) {
  p->instead = wf_pass_override(p, s->as.invoke.component);
  const wf_plan_component *c = invoked(p, s);
  wf_extents table = {c->n_symbols, p->local_extents, NULL, c->symbols};
  wf_extents_clear(&table);
  memset(p->inputs, 0, p->most_ports * sizeof *p->inputs);
  memset(p->wanted, 0, p->most_ports * sizeof *p->wanted);
  for (size_t i = 0; i < s->as.invoke.n_inputs; i++) {
    const wf_plan_binding *b = &s->as.invoke.inputs[i];
    const int32_t port = p->instead ? p->instead->inputs[b->port] : b->port;
    wf_datum *v = NULL;
    WF_RETURN_IF_ERROR(wf_pass_value(p, s, b->slot, &v, err));
    const weft_status st = wf_contract_check(&c->inputs[port].contract, &v->view, &table, -1,
                                             WEFT_RUN, p->plan->slot_names[b->slot.v], err);
    if (st != WEFT_OK) {
      return wf_fail_in(err, st, "%s: port '%s' of component '%s': ", s->path, c->inputs[port].name,
                        c->name);
    }
    p->inputs[port] = v->view;
  }
  for (size_t i = 0; i < s->as.invoke.n_outputs; i++) {
    p->wanted[output_port(p, &s->as.invoke.outputs[i])] = true;
  }
  if (c->n_scatters) WF_RETURN_IF_ERROR(wf_scatter_check(p, s, c, err));
  p->counters.invocations++;
  *is_builtin = c->kind != WF_COMPONENT_ONNX;
  if (!*is_builtin) return WEFT_OK;
  const weft_status st = wf_builtin_invoke(p, c, err);
  return st == WEFT_OK ? st : wf_fail_in(err, st, "%s: component '%s': ", s->path, c->name);
}

/* Results to the names the step gives them, checked in a table of their own. */
static weft_status end_invoke(wf_pass *p, const wf_plan_step *s, weft_error *err) {
  const wf_plan_component *c = invoked(p, s);
  wf_extents table = {c->n_symbols, p->local_extents, NULL, c->symbols};
  weft_status st = WEFT_OK;
  wf_extents_clear(&table);
  for (size_t i = 0; i < s->as.invoke.n_outputs && st == WEFT_OK; i++) {
    const wf_plan_binding *b = &s->as.invoke.outputs[i];
    const int32_t port = output_port(p, b);
    wf_datum *v = p->results[port];
    if (!v) {
      st = wf_fail(err, WEFT_RUN, "give the output a value",
                   "%s: component '%s' made no output '%s'", s->path, c->name,
                   c->outputs[port].name);
      break;
    }
    st = wf_contract_check(&c->outputs[port].contract, &v->view, &table, -1, WEFT_RUN,
                           p->plan->slot_names[b->slot.v], err);
    if (st != WEFT_OK) {
      st = wf_fail_in(err, st, "%s: port '%s' of component '%s': ", s->path, c->outputs[port].name,
                      c->name);
      break;
    }
    wf_pass_set(p, b->slot, wf_datum_ref(v));
  }
  for (size_t i = 0; i < c->n_outputs; i++) {
    wf_datum_unref(p->results[i]);
    p->results[i] = NULL;
  }
  return st;
}

static weft_status choose(wf_pass *p, wf_frame *f, weft_error *err) {
  const wf_plan_step *s = f->step;
  wf_datum *v = NULL;
  WF_RETURN_IF_ERROR(wf_pass_value(p, s, s->as.branch.predicate, &v, err));
  char key[32] = "";
  int64_t number = 0;
  bool truth = false;
  wf_buf text = {0};
  if (v->view.rank <= 1 && wf_view_elements(&v->view) == 1) {
    if (wf_view_bool(&v->view, 0, &truth)) {
      memcpy(key, truth ? "true" : "false", truth ? 5 : 6);
    } else if (wf_view_int(&v->view, 0, &number)) {
      wf_buf_printf(&text, "%lld", (long long)number);
      if (!text.failed) memcpy(key, text.at, text.n + 1);
      wf_buf_deinit(&text);
    }
  }
  if (!key[0]) {
    return wf_fail(err, WEFT_RUN, "branch on one bool or integer",
                   "%s: predicate '%s' is %s with %lld elements", s->path,
                   p->plan->slot_names[s->as.branch.predicate.v], wf_dtype_name(v->view.dtype),
                   (long long)wf_view_elements(&v->view));
  }
  size_t i = 0;
  while (i < s->as.branch.n_cases && strcmp(s->as.branch.cases[i].key, key) != 0) i++;
  f->chosen = i;
  if (i == s->as.branch.n_cases && !s->as.branch.fallback) {
    return wf_fail(err, WEFT_RUN, "add the case, or a default",
                   "%s: no case for '%s', and there is no default", s->path, key);
  }
  f->at = BRANCH_JOIN;
  push(p, i < s->as.branch.n_cases ? s->as.branch.cases[i].step : s->as.branch.fallback);
  return WEFT_OK;
}

static weft_status join_branch(wf_pass *p, const wf_frame *f, weft_error *err) {
  const wf_plan_step *s = f->step;
  for (size_t i = 0; i < s->as.branch.n_phis; i++) {
    const wf_plan_phi *phi = &s->as.branch.phis[i];
    wf_datum *v = NULL;
    WF_RETURN_IF_ERROR(wf_pass_value(p, s, phi->sources[f->chosen], &v, err));
    wf_pass_set(p, phi->slot, wf_datum_ref(v));
  }
  clear_slots(p, s->as.branch.first, s->as.branch.last);
  return WEFT_OK;
}

static weft_status step_loop(wf_pass *p, wf_frame *f, weft_error *err) {
  const wf_plan_step *s = f->step;
  bool goes_on = false;
  switch (f->at) {
    case LOOP_SETUP:
      f->at = LOOP_ENTER;
      push(p, s->as.loop.setup);
      return WEFT_OK;
    case LOOP_ENTER:
      f->at = LOOP_TEST;
      return wf_loop_enter(p, f, err);
    case LOOP_TEST:
      WF_RETURN_IF_ERROR(wf_loop_test(p, f, &goes_on, err));
      if (goes_on) {
        f->at = LOOP_COMMIT;
        push(p, s->as.loop.body);
        return WEFT_OK;
      }
      wf_loop_leave(p, f);
      p->depth--;
      return WEFT_OK;
    default:
      WF_RETURN_IF_ERROR(wf_loop_commit(p, f, err));
      clear_slots(p, s->as.loop.first, s->as.loop.last);
      f->at = LOOP_TEST;
      return WEFT_OK;
  }
}

static weft_status step(wf_pass *p, bool *yields, weft_error *err) {
  wf_frame *f = &p->frames[p->depth - 1];
  const wf_plan_step *s = f->step;
  bool is_builtin = false;
  switch (s->kind) {
    case WF_STEP_SEQUENCE:
      if (f->at == s->as.sequence.n) {
        p->depth--;
      } else {
        push(p, s->as.sequence.steps[f->at++]);
      }
      return WEFT_OK;
    case WF_STEP_INVOKE:
      p->depth--;
      WF_RETURN_IF_ERROR(begin_invoke(p, s, &is_builtin, err));
      if (is_builtin) return end_invoke(p, s, err);
      p->invoking = s;
      *yields = true;
      return WEFT_OK;
    case WF_STEP_LOOP:
      return step_loop(p, f, err);
    case WF_STEP_BRANCH:
      if (f->at == BRANCH_CHOOSE) return choose(p, f, err);
      p->depth--;
      return join_branch(p, f, err);
    case WF_STEP_EMIT:
      p->depth--;
      return wf_pass_emit(p, s, err);
  }
  return WEFT_OK;
}

/* What a session keeps when the pass succeeds: what a loop carried last, else the value that
 * `initializer` names, else what it had. */
static void commit_session(wf_pass *p) {
  for (size_t i = 0; i < p->plan->n_cells; i++) {
    const wf_plan_cell *cell = &p->plan->cells[i];
    if (!cell->is_session) continue;
    wf_datum **kept = &p->request->session_cells[i];
    wf_datum *v = p->cells[i];
    if (!v && *kept) continue;
    if (!v && wf_slot_is(cell->initializer)) v = p->slots[cell->initializer.v];
    if (!v) continue;
    wf_datum_ref(v);
    wf_datum_unref(*kept);
    *kept = v;
  }
}

weft_status wf_pass_run(wf_pass *p, wf_invocation *next, bool *is_done, weft_error *err) {
  bool yields = false;
  *is_done = false;
  if (p->invoking) {
    return wf_fail(err, WEFT_INTERNAL, NULL, "a pass was run on before its invocation was");
  }
  while (p->depth > 0 && !yields) {
    /* relaxed: a hint that is looked at again and again */
    if (p->request->cancel && atomic_load_explicit(p->request->cancel, memory_order_relaxed) != 0) {
      return wf_fail(err, WEFT_CANCELLED, NULL, "the run was cancelled");
    }
    WF_RETURN_IF_ERROR(step(p, &yields, err));
  }
  if (yields) {
    *next = (wf_invocation){invoked_at(p, p->invoking), p->invoking->path, p->inputs, p->wanted};
    return WEFT_OK;
  }
  WF_RETURN_IF_ERROR(wf_pass_finish_outputs(p, err));
  if (p->plan->has_session) commit_session(p);
  *is_done = true;
  return WEFT_OK;
}

weft_status wf_pass_resume(wf_pass *p, wf_datum **outputs, weft_error *err) {
  const wf_plan_step *s = p->invoking;
  if (!s) return wf_fail(err, WEFT_INTERNAL, NULL, "a pass was resumed that waits for nothing");
  const size_t n = invoked(p, s)->n_outputs;
  for (size_t i = 0; i < n; i++) {
    p->results[i] = outputs[i];
    outputs[i] = NULL;
  }
  p->invoking = NULL;
  return end_invoke(p, s, err);
}
