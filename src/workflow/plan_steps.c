/* SPDX-License-Identifier: Apache-2.0 */
/* Names to slots, steps of the document to steps of the plan (format §6, §7). */
#include <string.h>

#include "workflow/plan_builder.h"

static weft_status no_memory(plan_builder *b) { return wf_fail_memory(b->err, 0, "a plan"); }

wf_slot plan_define(plan_builder *b, const char *name) {
  const wf_slot none = {-1};
  const wf_slot slot = {(int32_t)b->slots.n};
  char *copy = wf_arena_strdup(b->arena, name);
  if (!copy || !wf_vec_push(&b->slots, copy)) return none;
  const plan_name visible = {copy, slot};
  return wf_vec_push(&b->names, visible) ? slot : none;
}

wf_slot plan_lookup(const plan_builder *b, const char *name) {
  for (size_t i = b->names.n; name && i-- > 0;) {
    if (strcmp(b->names.at[i].name, name) == 0) return b->names.at[i].slot;
  }
  return (wf_slot){-1};
}

weft_status plan_fail_name(plan_builder *b, const char *path, const char *name) {
  return wf_fail(b->err, WEFT_PACKAGE_INVALID, "name a value that is visible there",
                 "%s: there is no value '%s' (SSA-01)", path, name ? name : "");
}

static wf_plan_step *new_step(plan_builder *b, wf_step_kind kind, const char *path) {
  wf_plan_step *s = wf_arena_calloc(b->arena, 1, sizeof *s);
  if (!s) return NULL;
  s->kind = kind;
  s->path = wf_arena_strdup(b->arena, path);
  return s->path ? s : NULL;
}

/* "PATH.WHAT" or "PATH.WHAT[i]". */
static char *child_path(plan_builder *b, const char *path, const char *what, int64_t index) {
  wf_buf text = {0};
  wf_buf_printf(&text, "%s%s%s", path, path[0] ? "." : "", what);
  if (index >= 0) wf_buf_printf(&text, "[%lld]", (long long)index);
  char *copy = text.failed ? NULL : wf_arena_strdup(b->arena, text.at);
  wf_buf_deinit(&text);
  return copy;
}

static weft_status one_step(plan_builder *b, const wf_meta_step *s, const char *path,
                            const wf_plan_step **result);

static weft_status sequence_of(plan_builder *b, const wf_meta_steps *steps, const char *path,
                               const char *what, const wf_plan_step **result) {
  wf_plan_step *made = new_step(b, WF_STEP_SEQUENCE, path);
  const wf_plan_step **list = wf_arena_calloc(b->arena, steps->n + 1, sizeof *list);
  if (!made || !list) return no_memory(b);
  if (++b->depth > b->plan->max_depth) b->plan->max_depth = b->depth;
  for (size_t i = 0; i < steps->n; i++) {
    char *child = child_path(b, path, what, (int64_t)i);
    if (!child) return no_memory(b);
    WF_RETURN_IF_ERROR(one_step(b, &steps->at[i], child, &list[i]));
  }
  b->depth--;
  made->as.sequence.n = steps->n;
  made->as.sequence.steps = list;
  *result = made;
  return WEFT_OK;
}

weft_status plan_steps(plan_builder *b, const wf_meta_steps *steps, const char *path,
                       const wf_plan_step **result) {
  return sequence_of(b, steps, path, "steps", result);
}

static weft_status bind(plan_builder *b, const wf_meta_pairs *pairs, const char *path,
                        const wf_plan_port *ports, size_t n_ports, bool defines,
                        const wf_plan_binding **result) {
  wf_plan_binding *list = wf_arena_calloc(b->arena, pairs->n + 1, sizeof *list);
  if (!list) return no_memory(b);
  for (size_t i = 0; i < pairs->n; i++) {
    const char *port = pairs->at[i].head.name, *value = pairs->at[i].text;
    list[i].port = wf_plan_port_named(ports, n_ports, port);
    if (list[i].port < 0) {
      return wf_fail(b->err, WEFT_PACKAGE_INVALID, "bind a port that the component has",
                     "%s: there is no port '%s' (CMP-06)", path, port);
    }
    list[i].slot = defines ? plan_define(b, value) : plan_lookup(b, value);
    if (!wf_slot_is(list[i].slot)) return defines ? no_memory(b) : plan_fail_name(b, path, value);
  }
  *result = list;
  return WEFT_OK;
}

static weft_status invoke(plan_builder *b, const wf_meta_step *s, wf_plan_step *made) {
  const int32_t at = wf_plan_component_named(b->plan, s->component);
  if (at < 0) {
    return wf_fail(b->err, WEFT_PACKAGE_INVALID, "invoke a component that is declared",
                   "%s: there is no component '%s' (STEP-01)", made->path, s->component);
  }
  const wf_plan_component *c = &b->plan->components[at];
  made->as.invoke.component = at;
  made->as.invoke.n_inputs = s->inputs.n;
  made->as.invoke.n_outputs = s->outputs.n;
  WF_RETURN_IF_ERROR(
      bind(b, &s->inputs, made->path, c->inputs, c->n_inputs, false, &made->as.invoke.inputs));
  return bind(b, &s->outputs, made->path, c->outputs, c->n_outputs, true, &made->as.invoke.outputs);
}

static int32_t cell_at(const plan_builder *b, const char *name) {
  for (size_t i = 0; i < b->plan->n_cells; i++) {
    if (strcmp(b->plan->cells[i].name, name) == 0) return (int32_t)i;
  }
  return -1;
}

/* What the carries take at loop entry; then their cells are visible, inside the loop and after. */
static weft_status open_carries(plan_builder *b, const wf_meta_step *s, const char *path,
                                wf_plan_carry *carries) {
  for (size_t i = 0; i < s->carried.n; i++) {
    const wf_meta_carry *c = &s->carried.at[i];
    carries[i].cell = cell_at(b, c->cell);
    if (carries[i].cell < 0) {
      return wf_fail(b->err, WEFT_PACKAGE_INVALID, "carry a cell that is declared",
                     "%s: there is no cell '%s' (LOOP-04)", path, c->cell);
    }
    const char *from = c->initial ? c->initial : b->w->state.at[carries[i].cell].initializer;
    carries[i].initial = plan_lookup(b, from);
    if (!wf_slot_is(carries[i].initial)) return plan_fail_name(b, path, from);
  }
  for (size_t i = 0; i < s->carried.n; i++) {
    carries[i].slot = plan_define(b, s->carried.at[i].cell);
    if (!wf_slot_is(carries[i].slot)) return no_memory(b);
    b->cell_slots[carries[i].cell] = carries[i].slot;
  }
  for (size_t i = 0; i < s->carried.n; i++) {
    const wf_meta_recurrence *r = b->w->state.at[carries[i].cell].recurrence;
    carries[i].increment = plan_lookup(b, r->increment);
    carries[i].max = plan_lookup(b, r->max);
    if (r->kind == WF_META_GROWING && !wf_slot_is(carries[i].increment)) {
      return plan_fail_name(b, path, r->increment);
    }
    if (r->kind != WF_META_INVARIANT && !wf_slot_is(carries[i].max)) {
      return plan_fail_name(b, path, r->max);
    }
  }
  return WEFT_OK;
}

static weft_status loop(plan_builder *b, const wf_meta_step *s, wf_plan_step *made) {
  wf_plan_carry *carries = wf_arena_calloc(b->arena, s->carried.n + 1, sizeof *carries);
  if (!carries) return no_memory(b);
  WF_RETURN_IF_ERROR(sequence_of(b, &s->setup, made->path, "setup", &made->as.loop.setup));
  made->as.loop.max_iterations = plan_lookup(b, s->max_iterations);
  if (!wf_slot_is(made->as.loop.max_iterations)) {
    return plan_fail_name(b, made->path, s->max_iterations);
  }
  WF_RETURN_IF_ERROR(open_carries(b, s, made->path, carries));
  made->as.loop.continue_when = plan_lookup(b, s->continue_when);
  if (!wf_slot_is(made->as.loop.continue_when)) {
    return plan_fail_name(b, made->path, s->continue_when);
  }
  const size_t scope = b->names.n;
  made->as.loop.first = (wf_slot){(int32_t)b->slots.n};
  made->as.loop.iteration = (wf_slot){-1};
  if (s->iteration) {
    made->as.loop.iteration = plan_define(b, s->iteration->value);
    if (!wf_slot_is(made->as.loop.iteration)) return no_memory(b);
    WF_RETURN_IF_ERROR(
        plan_package_contract(b, s->iteration->contract, &made->as.loop.iteration_contract));
  }
  WF_RETURN_IF_ERROR(sequence_of(b, &s->steps, made->path, "steps", &made->as.loop.body));
  made->as.loop.last = (wf_slot){(int32_t)b->slots.n};
  for (size_t i = 0; i < s->carried.n; i++) {
    carries[i].next = plan_lookup(b, s->carried.at[i].next);
    if (!wf_slot_is(carries[i].next)) {
      return plan_fail_name(b, made->path, s->carried.at[i].next);
    }
  }
  b->names.n = scope; /* of the body nothing is visible after it */
  made->as.loop.is_generation = s->termination == WF_META_TERMINATION_GENERATION_EOS;
  made->as.loop.n_carries = s->carried.n;
  made->as.loop.carries = carries;
  return WEFT_OK;
}

/* The source of each phi in the case whose scope is open. */
static weft_status take_sources(plan_builder *b, const wf_meta_step *s, const char *path,
                                const char *key, size_t at, wf_slot *const *sources) {
  for (size_t p = 0; p < s->phis.n; p++) {
    const wf_meta_phi *phi = &s->phis.at[p];
    const char *name = key ? wf_meta_pair_get(&phi->cases, key) : phi->default_value;
    sources[p][at] = plan_lookup(b, name);
    if (!wf_slot_is(sources[p][at])) return plan_fail_name(b, path, name);
  }
  return WEFT_OK;
}

static weft_status branch(plan_builder *b, const wf_meta_step *s, wf_plan_step *made) {
  const size_t n = s->cases.n, scope = b->names.n;
  wf_plan_case *cases = wf_arena_calloc(b->arena, n + 1, sizeof *cases);
  wf_plan_phi *phis = wf_arena_calloc(b->arena, s->phis.n + 1, sizeof *phis);
  wf_slot **sources = wf_arena_calloc(b->arena, s->phis.n + 1, sizeof *sources);
  if (!cases || !phis || !sources) return no_memory(b);
  for (size_t p = 0; p < s->phis.n; p++) {
    sources[p] = wf_arena_calloc(b->arena, n + 1, sizeof **sources);
    if (!sources[p]) return no_memory(b);
    phis[p].sources = sources[p];
  }
  made->as.branch.predicate = plan_lookup(b, s->predicate);
  if (!wf_slot_is(made->as.branch.predicate)) return plan_fail_name(b, made->path, s->predicate);
  made->as.branch.first = (wf_slot){(int32_t)b->slots.n};
  for (size_t i = 0; i <= n; i++) {
    const wf_meta_step *step = i < n ? &s->cases.at[i] : s->default_step;
    if (!step) continue;
    const char *key = i < n ? step->head.name : NULL;
    char *path = child_path(b, made->path, i < n ? "cases" : "default", -1);
    char *inner = path && key ? child_path(b, path, key, -1) : path;
    if (!inner) return no_memory(b);
    const wf_plan_step **to = i < n ? &cases[i].step : &made->as.branch.fallback;
    WF_RETURN_IF_ERROR(one_step(b, step, inner, to));
    WF_RETURN_IF_ERROR(take_sources(b, s, inner, key, i, sources));
    b->names.n = scope;
    if (i < n && !(cases[i].key = wf_arena_strdup(b->arena, key))) return no_memory(b);
  }
  made->as.branch.last = (wf_slot){(int32_t)b->slots.n};
  for (size_t p = 0; p < s->phis.n; p++) {
    phis[p].slot = plan_define(b, s->phis.at[p].head.name);
    if (!wf_slot_is(phis[p].slot)) return no_memory(b);
  }
  made->as.branch.n_cases = n;
  made->as.branch.cases = cases;
  made->as.branch.n_phis = s->phis.n;
  made->as.branch.phis = phis;
  return WEFT_OK;
}

static weft_status emit(plan_builder *b, const wf_meta_step *s, wf_plan_step *made) {
  size_t at = 0;
  while (at < b->plan->n_outputs && strcmp(b->plan->outputs[at].name, s->output) != 0) at++;
  if (at == b->plan->n_outputs) {
    return wf_fail(b->err, WEFT_PACKAGE_INVALID, "emit to an output that is declared",
                   "%s: there is no output '%s' (EMIT-01)", made->path, s->output);
  }
  made->as.emit.output = (int32_t)at;
  made->as.emit.value = plan_lookup(b, s->value);
  made->as.emit.when = plan_lookup(b, s->when);
  made->as.emit.valid_length = plan_lookup(b, s->valid_length);
  if (!wf_slot_is(made->as.emit.value)) return plan_fail_name(b, made->path, s->value);
  if (s->when && !wf_slot_is(made->as.emit.when)) return plan_fail_name(b, made->path, s->when);
  if (s->valid_length && !wf_slot_is(made->as.emit.valid_length)) {
    return plan_fail_name(b, made->path, s->valid_length);
  }
  made->as.emit.has_axis = s->axis != WF_META_ABSENT;
  made->as.emit.axis = made->as.emit.has_axis ? (int32_t)s->axis : 0;
  made->as.emit.mode = s->mode == WF_META_EMIT_APPEND  ? WF_EMIT_APPEND
                       : s->mode == WF_META_EMIT_EVENT ? WF_EMIT_EVENT
                                                       : WF_EMIT_REPLACE;
  return WEFT_OK;
}

static weft_status one_step(plan_builder *b, const wf_meta_step *s, const char *path,
                            const wf_plan_step **result) {
  static const wf_step_kind kinds[] = {WF_STEP_SEQUENCE, WF_STEP_INVOKE, WF_STEP_LOOP,
                                       WF_STEP_BRANCH, WF_STEP_EMIT};
  if (s->kind == WF_META_SEQUENCE) return sequence_of(b, &s->steps, path, "steps", result);
  wf_plan_step *made = new_step(b, kinds[s->kind], path);
  if (!made) return no_memory(b);
  if (++b->depth > b->plan->max_depth) b->plan->max_depth = b->depth;
  weft_status st = WEFT_OK;
  switch (s->kind) {
    case WF_META_INVOKE:
      st = invoke(b, s, made);
      break;
    case WF_META_LOOP:
      st = loop(b, s, made);
      break;
    case WF_META_BRANCH:
      st = branch(b, s, made);
      break;
    default:
      st = emit(b, s, made);
      break;
  }
  b->depth--;
  *result = made;
  return st;
}
