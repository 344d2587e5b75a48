/* SPDX-License-Identifier: Apache-2.0 */
/* Loops, branches and emits: LOOP, BR, EMIT, and ST-12 on emitted values. */
#include "package/scope.h"

/* ---- loops ------------------------------------------------------------------------------------
 */

static bool carries(const wf_meta_step *s, const char *cell) {
  for (size_t i = 0; i < s->carried.n; i++) {
    if (strcmp(s->carried.at[i].cell, cell) == 0) return true;
  }
  return false;
}

/* The contract of a name at loop entry: visible, or a cell that this loop carries. */
static bool entry_value(wf_walk *k, const wf_meta_step *s, const char *name,
                        const wf_meta_contract **contract) {
  const wf_scope_name *found = wf_walk_find(k, name);
  const wf_meta_cell *cell = carries(s, name) ? wf_meta_find(&k->c->w->state, name) : NULL;
  *contract = cell ? cell->contract : found ? found->contract : NULL;
  return cell || found;
}

static void check_bound(wf_walk *k, const wf_meta_step *s, const wf_meta_cell *cell,
                        const char *name, const char *member) {
  const wf_meta_contract *t;
  const wf_meta_at *at = cell->recurrence->head.at;
  if (!entry_value(k, s, name, &t)) {
    wf_check_struct(k->c, "LOOP-05", at, member, "name a value visible where the loop begins",
                    "the value '%.80s' is not defined there", name);
  } else if (t && (!wf_contract_is_integer(t) ||
                   !(wf_contract_is_scalar(t) || (cell->service_group && t->rank == 1)))) {
    wf_check_struct(k->c, "LOOP-05", at, member, "name an integer scalar",
                    "the value '%.80s' is no integer scalar", name);
  }
}

static void check_carried_value(wf_walk *k, const wf_meta_carry *carry, const wf_meta_cell *cell,
                                const char *name, const char *member) {
  wf_scope_name value;
  const int64_t axis = cell->recurrence->kind == WF_META_INVARIANT ? -1 : cell->recurrence->axis;
  if (!wf_walk_value(k, name, "LOOP-04", carry->head.at, member, &value)) return;
  const char *clash =
      value.contract ? wf_contract_clash(value.contract, cell->contract, axis) : NULL;
  if (clash)
    wf_check_struct(k->c, "LOOP-04", carry->head.at, member, "carry a value of the cell's contract",
                    "the value '%.80s' does not fit the cell '%.80s': %s", name, carry->cell,
                    clash);
}

static void check_entry(wf_walk *k, const wf_meta_step *s) {
  const wf_meta_at *at = s->head.at;
  const wf_meta_contract *t = NULL;
  if (s->iteration && strcmp(s->continue_when, s->iteration->value) == 0) {
    wf_check_struct(k->c, "LOOP-08", at, "continue_when", "name a carried bool cell",
                    "the iteration value has no value at the first test");
  } else if (!carries(s, s->continue_when)) {
    (void)wf_walk_use(k, s->continue_when, "SSA-01", at, "continue_when");
  }
  if (entry_value(k, s, s->continue_when, &t) && t && (t->dtype != WF_DTYPE_BOOL || t->rank > 1))
    wf_check_struct(k->c, "LOOP-02", at, "continue_when", "name a bool of rank 0 or 1",
                    "the value '%.80s' has dtype %s and rank %lld", s->continue_when, t->dtype_text,
                    (long long)t->rank);
  wf_scope_name max;
  if (wf_walk_value(k, s->max_iterations, "SSA-01", at, "max_iterations", &max) && max.contract &&
      (!wf_contract_is_integer(max.contract) || !wf_contract_is_scalar(max.contract)))
    wf_check_struct(k->c, "LOOP-01", at, "max_iterations",
                    "name an integer of rank 0, or of shape [1]",
                    "the value '%.80s' is no integer scalar", s->max_iterations);
  const wf_meta_contract *i = s->iteration ? s->iteration->contract : NULL;
  if (i && (i->dtype != WF_DTYPE_I64 || i->rank > 1 || (i->rank == 1 && !i->has_shape) ||
            (i->rank == 0 && i->shape.n)))
    wf_check_struct(k->c, "LOOP-03", i->head.at, NULL,
                    "write int64 of rank 0, or of rank 1 with a shape",
                    "this is no contract of an iteration value");
}

void wf_walk_loop(wf_walk *k, const wf_meta_step *s) {
  wf_rules *c = k->c;
  c->uses_loop = true;
  c->uses_iteration |= s->iteration != NULL;
  c->changes_effects_in_flow |= s->carried.n != 0;
  wf_walk_steps(k, &s->setup);
  check_entry(k, s);
  for (size_t i = 0; i < s->carried.n; i++) {
    const wf_meta_carry *carry = &s->carried.at[i];
    const wf_meta_cell *cell = wf_meta_find(&c->w->state, carry->cell);
    if (!cell) {
      wf_check_struct(c, "LOOP-04", carry->head.at, "cell", "declare it under workflow.state",
                      "there is no state cell '%.80s'", carry->cell);
      continue;
    }
    check_carried_value(k, carry, cell, cell->initializer, carry->initial ? NULL : "cell");
    if (carry->initial) check_carried_value(k, carry, cell, carry->initial, "initial");
    if (cell->recurrence->kind == WF_META_GROWING)
      check_bound(k, s, cell, cell->recurrence->increment, "increment");
    if (cell->recurrence->kind != WF_META_INVARIANT)
      check_bound(k, s, cell, cell->recurrence->max, "max");
  }
  const size_t outer = k->names.n;
  for (size_t i = 0; i < s->carried.n; i++) {
    const wf_meta_carry *carry = &s->carried.at[i];
    const wf_meta_cell *cell = wf_meta_find(&c->w->state, carry->cell);
    wf_walk_define(k,
                   (wf_scope_name){
                       .name = carry->cell, .contract = cell ? cell->contract : NULL, .cell = cell},
                   carry->head.at, "cell");
  }
  if (s->iteration)
    wf_walk_define(
        k,
        (wf_scope_name){
            .name = s->iteration->value, .contract = s->iteration->contract, .is_iteration = true},
        s->iteration->head.at, "value");
  if (!s->steps.n)
    wf_check_struct(c, "STEP-01", s->head.at, "steps", "add a step", "the loop has no body");
  wf_walk_steps(k, &s->steps);
  for (size_t i = 0; i < s->carried.n; i++) {
    const wf_meta_carry *carry = &s->carried.at[i];
    const wf_meta_cell *cell = wf_meta_find(&c->w->state, carry->cell);
    if (cell) check_carried_value(k, carry, cell, carry->next, "next");
  }
  wf_walk_leave(k, outer);
  for (size_t i = 0; i < s->carried.n; i++) {
    const wf_meta_carry *carry = &s->carried.at[i];
    const wf_meta_cell *cell = wf_meta_find(&c->w->state, carry->cell);
    if (wf_walk_find(k, carry->cell)) continue; /* told when the body began */
    wf_walk_define(k,
                   (wf_scope_name){
                       .name = carry->cell, .contract = cell ? cell->contract : NULL, .cell = cell},
                   carry->head.at, "cell");
  }
}

/* ---- branches ---------------------------------------------------------------------------------
 */

/* The source of a phi for one case, resolved in the case's scope; its contract joins the others. */
static void check_source(wf_walk *k, const wf_meta_phi *phi, const char *source,
                         const wf_meta_at *at, const char *member,
                         const wf_meta_contract **joined) {
  wf_scope_name value;
  if (!wf_walk_value(k, source, "SSA-01", at, member, &value) || !value.contract) return;
  if (!*joined) {
    *joined = value.contract;
    return;
  }
  const char *clash = wf_contract_clash(value.contract, *joined, -1);
  if (clash)
    wf_check_struct(k->c, "CTR-01", at, member, "give all cases values of one contract",
                    "the sources of '%.80s' do not fit one another: %s", phi->head.name, clash);
}

static const wf_meta_pair *phi_case(const wf_meta_phi *phi, const char *key) {
  return wf_meta_find(&phi->cases, key);
}

static void walk_case(wf_walk *k, const wf_meta_step *s, const wf_meta_step *body, const char *key,
                      const wf_meta_contract **joined) {
  const size_t outer = k->names.n;
  const bool is_guard = key && strcmp(key, "true") == 0;
  if (is_guard && !wf_vec_push(&k->guards, s->predicate)) k->c->out_of_memory = true;
  wf_walk_step(k, body);
  for (size_t p = 0; p < s->phis.n; p++) {
    const wf_meta_phi *phi = &s->phis.at[p];
    const wf_meta_pair *pair = key ? phi_case(phi, key) : NULL;
    if (pair) check_source(k, phi, pair->text, pair->head.at, NULL, &joined[p]);
    if (!key && phi->default_value)
      check_source(k, phi, phi->default_value, phi->head.at, "default", &joined[p]);
  }
  for (size_t i = outer; i < k->names.n; i++) {
    const wf_meta_cell *cell = k->names.at[i].cell;
    bool is_exported = false;
    if (!cell || cell->scope != WF_META_SCOPE_SESSION) continue;
    for (size_t p = 0; p < s->phis.n && !is_exported; p++) {
      const wf_meta_pair *pair = key ? phi_case(&s->phis.at[p], key) : NULL;
      const char *source = key ? pair ? pair->text : NULL : s->phis.at[p].default_value;
      is_exported = source && strcmp(source, cell->head.name) == 0;
    }
    if (!is_exported)
      wf_check_struct(k->c, "BR-05", body->head.at, NULL, "add a phi whose source is the cell",
                      "the case changes the session cell '%.80s' and no phi exports it",
                      cell->head.name);
  }
  if (is_guard && k->guards.n) k->guards.n--;
  wf_walk_leave(k, outer);
}

static void check_phi(wf_rules *c, const wf_meta_step *s, const wf_meta_phi *phi) {
  for (size_t i = 0; i < s->cases.n; i++) {
    if (!phi_case(phi, s->cases.at[i].head.name))
      wf_check_struct(c, "BR-02", phi->head.at, "cases", "add the case's value",
                      "the phi '%.80s' has no source for the case '%.80s'", phi->head.name,
                      s->cases.at[i].head.name);
  }
  for (size_t i = 0; i < phi->cases.n; i++) {
    if (!wf_meta_find(&s->cases, phi->cases.at[i].head.name))
      wf_check_struct(c, "BR-03", phi->cases.at[i].head.at, NULL, "remove it, or add the case",
                      "the branch has no case '%.80s'", phi->cases.at[i].head.name);
  }
  if ((phi->default_value != NULL) != (s->default_step != NULL))
    wf_check_struct(
        c, "BR-04", phi->head.at, "default",
        phi->default_value ? "remove it, or give the branch a default" : "add the default's value",
        phi->default_value ? "the branch has no default"
                           : "the branch has a default and the phi has none");
}

void wf_walk_branch(wf_walk *k, const wf_meta_step *s) {
  wf_rules *c = k->c;
  wf_scope_name predicate;
  c->uses_branch = true;
  if (!s->cases.n)
    wf_check_struct(c, "BR-01", s->head.at, "cases", "add a case", "the branch has no cases");
  if (wf_walk_value(k, s->predicate, "SSA-01", s->head.at, "predicate", &predicate) &&
      predicate.contract) {
    const wf_meta_contract *t = predicate.contract;
    if ((t->dtype != WF_DTYPE_BOOL && !wf_contract_is_integer(t)) || !wf_contract_is_scalar(t))
      wf_check_struct(c, "BR-01", s->head.at, "predicate", "name a bool or integer scalar",
                      "the predicate '%.80s' has dtype %s and rank %lld, or more than one element",
                      s->predicate, t->dtype_text, (long long)t->rank);
  }
  if (s->phis.n && s->cases.n > 1000000 / s->phis.n) { /* each phi is looked up for each case */
    wf_check_fail(c, WF_PROBLEM_CAPABILITY, "", s->head.at, "outputs", "split the branch",
                  "%zu phis of %zu cases are more than weft takes", s->phis.n, s->cases.n);
    return;
  }
  const wf_meta_contract **joined = wf_calloc(s->phis.n + 1, sizeof *joined);
  if (!joined) {
    c->out_of_memory = true;
    return;
  }
  for (size_t i = 0; i < s->cases.n; i++)
    walk_case(k, s, &s->cases.at[i], s->cases.at[i].head.name, joined);
  if (s->default_step) walk_case(k, s, s->default_step, NULL, joined);
  for (size_t i = 0; i < s->phis.n; i++) {
    const wf_meta_phi *phi = &s->phis.at[i];
    check_phi(c, s, phi);
    wf_walk_define(k, (wf_scope_name){.name = phi->head.name, .contract = joined[i]}, phi->head.at,
                   NULL);
  }
  wf_free(joined);
}

/* ---- emits ------------------------------------------------------------------------------------
 */

static void check_row_control(wf_walk *k, const wf_meta_step *s, const char *name,
                              const char *member, bool is_length, const wf_meta_contract *value) {
  wf_scope_name control;
  if (!name || !wf_walk_value(k, name, "EMIT-01", s->head.at, member, &control)) return;
  const wf_meta_contract *t = control.contract;
  if (!t) return;
  if (t->rank > 1 || (is_length ? !wf_contract_is_integer(t) : t->dtype != WF_DTYPE_BOOL)) {
    wf_check_struct(k->c, "EMIT-01", s->head.at, member,
                    is_length ? "name an integer of rank 0 or 1" : "name a bool of rank 0 or 1",
                    "the value '%.80s' has dtype %s and rank %lld", name, t->dtype_text,
                    (long long)t->rank);
  } else if (t->rank == 1 && !wf_contract_is_scalar(t) && wf_contract_has_layout(value) &&
             wf_meta_request_axis(value) < 0) {
    wf_check_struct(k->c, "EMIT-03", s->head.at, member,
                    "declare the value's request axis, or name a scalar",
                    "'%.80s' has one entry a row, and the emitted value has no request axis", name);
  }
}

static void check_layout(wf_walk *k, const wf_meta_step *s, const wf_meta_output *out,
                         const wf_meta_contract *value) {
  wf_rules *c = k->c;
  if (!wf_contract_has_layout(value)) return;
  if (wf_meta_layout_of(value) == WF_META_SHARED) {
    if (c->w->serving && value->rank > 0)
      wf_check_struct(c, "EMIT-06", s->head.at, "value", "declare the value's batch_layout",
                      "with serving, a value with axes that all requests share is emitted");
    return;
  }
  wf_emitted *e = &k->emitted[out - c->w->outputs.at];
  if (!wf_contract_same_layout(value, out->contract))
    wf_check_struct(c, "EMIT-05", s->head.at, "value", "give both one batch_layout",
                    "the value's batch_layout is not that of the output '%.80s'", s->output);
  else if (e->layout && !wf_contract_same_layout(value, e->layout))
    wf_check_struct(c, "EMIT-05", s->head.at, "value", "give both one batch_layout",
                    "two emits of '%.80s' carry different batch_layouts", s->output);
  if (!e->layout) e->layout = value;
}

static void check_published_cell(wf_walk *k, const wf_meta_step *s, const wf_meta_cell *cell) {
  const wf_meta_serving *serving = k->c->w->serving;
  if (!cell || cell->management == WF_META_MANAGED_WORKFLOW) return;
  const wf_meta_group *g = cell->service_group && serving && serving->state_service
                               ? wf_meta_find(&serving->state_service->groups, cell->service_group)
                               : NULL;
  if (!g || !g->checkpoint)
    wf_check_struct(k->c, "ST-12", s->head.at, "value", "give its group a checkpoint",
                    "the cell '%.80s' is not managed by the workflow and cannot be published",
                    s->value);
}

void wf_walk_emit(wf_walk *k, const wf_meta_step *s) {
  wf_rules *c = k->c;
  wf_scope_name value;
  c->uses_emit = true;
  c->changes_effects_in_flow |= c->flow_depth > 0;
  c->uses_event |= s->mode == WF_META_EMIT_EVENT;
  c->uses_valid_length |= s->valid_length != NULL;
  const wf_meta_output *out = wf_meta_find(&c->w->outputs, s->output);
  if (!out)
    wf_check_struct(c, "EMIT-01", s->head.at, "output", "declare it under workflow.outputs",
                    "there is no output '%.80s'", s->output);
  const bool is_known = wf_walk_value(k, s->value, "EMIT-01", s->head.at, "value", &value);
  const wf_meta_contract *t = value.contract;
  check_row_control(k, s, s->when, "when", false, t);
  check_row_control(k, s, s->valid_length, "valid_length", true, t);
  if (is_known) check_published_cell(k, s, value.cell);
  if (!out) return;
  if (s->when || s->valid_length) {
    const char *member = s->when ? "when" : "valid_length";
    if (wf_meta_request_axis(out->contract) < 0)
      wf_check_struct(c, "EMIT-04", s->head.at, member, "declare the output's request axis",
                      "a row-wise emit into the output '%.80s', which has no request axis",
                      s->output);
    else if (wf_meta_layout_of(out->contract) == WF_META_REQUEST_EXPANDED &&
             out->contract->batch_layout->factor != 1)
      wf_check_struct(c, "EMIT-04", s->head.at, member, "write 'request_aligned'",
                      "a row-wise emit into a request_expanded output");
  }
  if (!t) return;
  const bool may_vary = s->valid_length || s->mode == WF_META_EMIT_APPEND;
  const int64_t axis = s->axis == WF_META_ABSENT ? t->rank - 1 : s->axis;
  const char *clash = wf_contract_clash(t, out->contract, may_vary ? axis : -1);
  if (clash)
    wf_check_struct(c, "EMIT-02", s->head.at, "value", "emit a value of the output's contract",
                    "the value '%.80s' does not fit the output '%.80s': %s", s->value, s->output,
                    clash);
  else if (may_vary && (t->rank < 1 || axis >= t->rank))
    wf_check_struct(c, "EMIT-02", s->head.at, s->axis == WF_META_ABSENT ? "value" : "axis",
                    "emit a value that has the growth axis",
                    "the value '%.80s' of rank %lld has no such growth axis", s->value,
                    (long long)t->rank);
  check_layout(k, s, out, t);
}
