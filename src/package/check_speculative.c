/* SPDX-License-Identifier: Apache-2.0 */
/* The speculative contract (SPEC-01 to -10, in the order of docs/format.md §14). */
#include "package/check.h"

static const wf_meta_group *group_of(const wf_rules *c, const char *cell) {
  const wf_meta_cell *k = wf_meta_find(&c->w->state, cell);
  const wf_meta_serving *s = c->w->serving;
  return k && k->service_group && s && s->state_service
             ? wf_meta_find(&s->state_service->groups, k->service_group)
             : NULL;
}

/* ---- chained proposals ------------------------------------------------------------------------
 */

static void check_port(wf_rules *c, const wf_meta_component *k, const char *port, bool is_input,
                       const wf_meta_at *at, const char *member) {
  if (!port || !k) return;
  const bool is_there = k->ports && (is_input ? wf_meta_find(&k->ports->inputs, port) != NULL
                                              : wf_meta_find(&k->ports->outputs, port) != NULL);
  if (!is_there)
    wf_check_struct(c, "SPEC-04", at, member, "declare the port of the proposer",
                    "'%.80s' is no declared %s port of '%.80s'", port,
                    is_input ? "input" : "output", k->head.name);
}

static bool has_alias(const wf_rules *c, const char *component, const wf_meta_recurrent *r) {
  const wf_meta_serving *s = c->w->serving;
  for (size_t i = 0; s && s->state_service && i < s->state_service->groups.n; i++) {
    const wf_meta_group_ports *p = wf_meta_find(&s->state_service->groups.at[i].ports, component);
    const wf_meta_alias *a = p ? wf_meta_find(&p->cells, r->state) : NULL;
    if (a && a->access == WF_META_READ_WRITE && a->output && strcmp(a->input, r->input) == 0 &&
        strcmp(a->output, r->output) == 0)
      return true;
  }
  return false;
}

static void check_recurrent(wf_rules *c, const wf_meta_speculative *s, const wf_meta_proposal *p) {
  for (size_t i = 0; i < p->recurrent.n; i++) {
    const wf_meta_recurrent *r = &p->recurrent.at[i];
    const char *why = NULL;
    for (size_t k = 0; k < i && !why; k++) {
      if (strcmp(p->recurrent.at[k].state, r->state) == 0) why = "is named twice";
    }
    if (!why && !wf_meta_find(&c->w->state, r->state)) why = "is no state cell";
    if (!why && !wf_meta_texts_has(&s->rollback_state, r->state)) why = "is not in rollback_state";
    if (!why && !has_alias(c, s->proposer, r))
      why = "has no read_write alias of the proposer with this input and output";
    if (why)
      wf_check_struct(c, "SPEC-05", r->head.at, "state", "name a cell that the proposer advances",
                      "the recurrence '%.80s' %s", r->state, why);
  }
}

static void check_folded(wf_rules *c, const wf_meta_speculative *s, const wf_meta_proposal *p) {
  const wf_meta_at *at = p->head.at;
  const char *context = wf_meta_pair_get(&s->port_bindings, "target_hidden_context");
  const wf_meta_component *target = wf_meta_find(&c->w->components, s->target);
  if (!context || strcmp(context, p->token_embedding_input) != 0)
    wf_check_struct(c, "SPEC-06", at, "folded_carry_output",
                    "bind port_bindings.target_hidden_context to token_embedding_input",
                    "a folded carry needs target_hidden_context equal to token_embedding_input");
  if (wf_meta_texts_has(&s->rollback_state, p->folded_carry_output))
    wf_check_struct(c, "SPEC-06", s->head.at, "rollback_state", "remove it",
                    "a folded carry is recomputed and is no rollback state");
  const wf_meta_seed *seed = p->folded_carry_seed;
  if (!seed)
    wf_check_struct(c, "SPEC-07", at, NULL, "add folded_carry_seed",
                    "a folded carry lacks its seed");
  else if (strcmp(seed->component, s->target) != 0 || !target || !target->ports ||
           !wf_meta_find(&target->ports->outputs, seed->output))
    wf_check_struct(c, "SPEC-07", seed->head.at, "output", "name a declared output of the target",
                    "'%.60s' of '%.60s' is no declared output of the target", seed->output,
                    seed->component);
  const wf_meta_embedding *e = p->token_embedding;
  if (!e)
    wf_check_struct(c, "SPEC-08", at, NULL, "add token_embedding",
                    "a folded carry lacks its token embedding");
  else if (strcmp(e->component, s->target) != 0 || !target ||
           target->implementation->kind != WF_META_ONNX)
    wf_check_struct(c, "SPEC-08", e->head.at, "component", "name the target, an ONNX component",
                    "the token embedding is not the target's");
}

static void check_chained(wf_rules *c, const wf_meta_speculative *s, const wf_meta_proposal *p) {
  const wf_meta_component *k = wf_meta_find(&c->w->components, s->proposer);
  if (!p->recurrent.n && !p->folded_carry_output)
    wf_check_struct(c, "SPEC-03", p->head.at, NULL, "add recurrent or folded_carry_output",
                    "a chained proposal carries nothing from step to step");
  check_port(c, k, p->token_embedding_input, true, p->head.at, "token_embedding_input");
  check_port(c, k, p->logits_output, false, p->head.at, "logits_output");
  check_port(c, k, p->folded_carry_output, false, p->head.at, "folded_carry_output");
  for (size_t i = 0; i < p->recurrent.n; i++) {
    check_port(c, k, p->recurrent.at[i].input, true, p->recurrent.at[i].head.at, "input");
    check_port(c, k, p->recurrent.at[i].output, false, p->recurrent.at[i].head.at, "output");
  }
  check_recurrent(c, s, p);
  if (p->folded_carry_output) check_folded(c, s, p);
}

/* ---- rollback ---------------------------------------------------------------------------------
 */

static void check_rollback(wf_rules *c, const wf_meta_speculative *s) {
  const wf_meta_serving *serving = c->w->serving;
  const size_t n = serving && serving->state_service ? serving->state_service->groups.n : 0;
  const wf_meta_group *groups = n ? serving->state_service->groups.at : NULL;
  bool *needed = wf_calloc(n + 1, sizeof *needed);
  size_t *queue = wf_calloc(n + 1, sizeof *queue);
  size_t n_queue = 0;
  if (!needed || !queue) {
    c->out_of_memory = true;
    goto out;
  }
  for (size_t i = 0; i < s->rollback_state.n; i++) {
    const char *cell = s->rollback_state.at[i];
    const wf_meta_group *g = group_of(c, cell);
    if (!wf_meta_find(&c->w->state, cell))
      wf_check_struct(c, "SPEC-09", s->head.at, "rollback_state", "name a state cell",
                      "there is no state cell '%.80s'", cell);
    if (g && !needed[g - groups]) {
      needed[g - groups] = true;
      queue[n_queue++] = (size_t)(g - groups);
    }
  }
  for (size_t q = 0; q < n_queue; q++) {
    const wf_meta_group *g = &groups[queue[q]];
    const int64_t positions = g->capabilities ? g->capabilities->rollback_positions : -1;
    if (positions < s->max_proposal_width)
      wf_check_struct(c, "SPEC-09", g->head.at, g->capabilities ? "capabilities" : NULL,
                      "let rollback_positions be at least max_proposal_width",
                      "speculation of width %lld cannot roll the group '%.80s' back",
                      (long long)s->max_proposal_width, g->head.name);
    for (size_t i = 0; g->capabilities && i < g->capabilities->cascade.n; i++) {
      const wf_meta_group *next =
          wf_meta_find(&serving->state_service->groups, g->capabilities->cascade.at[i]);
      if (!next || needed[next - groups]) continue;
      needed[next - groups] = true;
      queue[n_queue++] = (size_t)(next - groups);
    }
  }
out:
  wf_free(needed);
  wf_free(queue);
}

/* The innermost loop that invokes both roles. */
typedef struct region {
  const wf_meta_speculative *s;
  const wf_meta_step *loop;
  bool has_proposer, has_target;
} region;

static void note_role(const wf_meta_step *s, void *user) {
  region *r = user;
  if (s->kind != WF_META_INVOKE) return;
  r->has_proposer |= strcmp(s->component, r->s->proposer) == 0;
  r->has_target |= strcmp(s->component, r->s->target) == 0;
}

/* Depth first, so a deeper loop is visited later and stays. */
static void note_loop(const wf_meta_step *s, void *user) {
  region *r = user;
  region inner = {.s = r->s};
  if (s->kind != WF_META_LOOP) return;
  wf_steps_each(&s->setup, note_role, &inner);
  wf_steps_each(&s->steps, note_role, &inner);
  if (inner.has_proposer && inner.has_target) r->loop = s;
}

static void check_component_effects(wf_rules *c, const char *name) {
  const wf_meta_component *k = wf_meta_find(&c->w->components, name);
  for (size_t i = 0; k && i < k->effects.n; i++) {
    const wf_meta_effect *e = wf_meta_find(&c->w->effects, k->effects.at[i]);
    const wf_meta_safety *safety = e ? e->speculation_safety : NULL;
    const int64_t width = c->m->speculative->max_proposal_width;
    if (!e || (safety && safety->kind == WF_META_SAFETY_CLONABLE) ||
        (safety && safety->kind == WF_META_SAFETY_REWINDABLE && safety->max_depth >= width))
      continue;
    wf_check_struct(c, "SPEC-10", e->head.at, "speculation_safety",
                    "declare it clonable, or rewindable to that depth",
                    "the effect '%.60s' of '%.60s' is in the speculative region and cannot be "
                    "undone %lld deep",
                    e->head.name, name, (long long)width);
  }
}

static void check_step_effects(const wf_meta_step *s, void *user) {
  if (s->kind == WF_META_INVOKE) check_component_effects(user, s->component);
}

void wf_check_speculative(wf_rules *c) {
  const wf_meta_speculative *s = c->m->speculative;
  if (!s) return;
  const char *const roles[] = {s->proposer, s->target};
  for (size_t i = 0; i < 2; i++) {
    if (!wf_meta_find(&c->w->components, roles[i]))
      wf_check_struct(c, "SPEC-01", s->head.at, i ? "target" : "proposer", "name a component",
                      "there is no component '%.80s'", roles[i]);
  }
  if (s->max_proposal_width < 1)
    wf_check_struct(c, "SPEC-02", s->head.at, "max_proposal_width", "write 1 or more",
                    "the proposal has no width");
  if (s->proposal_execution && s->proposal_execution->kind == WF_META_CHAINED)
    check_chained(c, s, s->proposal_execution);
  check_rollback(c, s);
  region r = {.s = s};
  wf_steps_each(&c->w->steps, note_loop, &r);
  if (r.loop) {
    wf_steps_each(&r.loop->setup, check_step_effects, c);
    wf_steps_each(&r.loop->steps, check_step_effects, c);
  } else {
    check_component_effects(c, s->proposer);
    check_component_effects(c, s->target);
  }
}
