/* SPDX-License-Identifier: Apache-2.0 */
/* The plan's tables, and its components compiled. The document has passed every rule before it
 * comes here; what is checked again is what a wrong index could follow from. */
#include "workflow/plan_build.h"

#include <math.h>
#include <string.h>

#include "workflow/adapter.h"
#include "workflow/plan_builder.h"

_Static_assert((int)WF_ROLE_ADAPTER_ACTIVE == (int)WF_META_ROLE_ADAPTER_ACTIVE + 1,
               "roles of plan.h are those of the document behind OPAQUE");

static weft_status no_memory(plan_builder *b) { return wf_fail_memory(b->err, 0, "a plan"); }

/* ---- contracts ----------------------------------------------------------------------------- */

static int32_t symbol_at(plan_builder *b, plan_texts *symbols, const char *name) {
  for (size_t i = 0; i < symbols->n; i++) {
    if (strcmp(symbols->at[i], name) == 0) return (int32_t)i;
  }
  char *copy = wf_arena_strdup(b->arena, name);
  return copy && wf_vec_push(symbols, copy) ? (int32_t)symbols->n - 1 : -1;
}

weft_status plan_contract(plan_builder *b, const wf_meta_contract *c, plan_texts *symbols,
                          wf_plan_contract *result) {
  *result = (wf_plan_contract){.factor = 1};
  if (!c) return WEFT_OK; /* nothing declared: nothing checked */
  if (c->rank < 0 || c->rank > WF_PLAN_MAX_RANK) {
    return wf_fail(b->err, WEFT_UNSUPPORTED, "use tensors of rank 8 or less",
                   "a contract of rank %lld", (long long)c->rank);
  }
  result->dtype = c->dtype;
  result->rank = (int32_t)c->rank;
  result->has_shape = c->has_shape && c->shape.n == (size_t)c->rank;
  result->is_optional = c->is_optional;
  for (size_t i = 0; result->has_shape && i < c->shape.n; i++) {
    const wf_meta_dim *d = &c->shape.at[i];
    result->dims[i] = (wf_plan_dim){d->extent, -1};
    if (!d->symbol) continue;
    result->dims[i].symbol = symbol_at(b, symbols, d->symbol);
    if (result->dims[i].symbol < 0) return no_memory(b);
  }
  static const wf_layout_kind kinds[] = {WF_LAYOUT_SHARED, WF_LAYOUT_ALIGNED, WF_LAYOUT_EXPANDED,
                                         WF_LAYOUT_TOKEN_PACKED, WF_LAYOUT_RUNTIME};
  if (!c->batch_layout) return WEFT_OK;
  result->layout = kinds[c->batch_layout->kind];
  if (wf_contract_has_rows(result)) {
    result->axis = (int32_t)c->batch_layout->axis;
    if (result->layout == WF_LAYOUT_EXPANDED) result->factor = c->batch_layout->factor;
  }
  return WEFT_OK;
}

weft_status plan_package_contract(plan_builder *b, const wf_meta_contract *c,
                                  wf_plan_contract *result) {
  plan_texts names = {0};
  weft_status st = WEFT_OK;
  for (size_t i = 0; i < b->symbols.n; i++) {
    if (!wf_vec_push(&names, b->symbols.at[i].name)) st = no_memory(b);
  }
  const size_t known = names.n;
  if (st == WEFT_OK) st = plan_contract(b, c, &names, result);
  for (size_t i = known; st == WEFT_OK && i < names.n; i++) {
    const wf_plan_symbol s = {names.at[i], false};
    if (!wf_vec_push(&b->symbols, s)) st = no_memory(b);
  }
  wf_vec_free(&names);
  return st;
}

/* ---- inputs, outputs, cells ---------------------------------------------------------------- */

static weft_status take_literal(plan_builder *b, const wf_meta_literal *from, wf_plan_literal *to) {
  if (from->n == 0) return WEFT_OK;
  int64_t *ints = wf_arena_calloc(b->arena, from->n, sizeof *ints);
  double *floats = wf_arena_calloc(b->arena, from->n, sizeof *floats);
  if (!ints || !floats) return no_memory(b);
  to->kind = WF_LITERAL_BOOL;
  for (size_t i = 0; i < from->n; i++) {
    const wf_meta_literal_item *item = &from->items[i];
    const bool is_int = item->kind == WF_DOC_INT;
    ints[i] = item->i;
    floats[i] = is_int ? (double)item->i : item->f;
    if (item->kind == WF_DOC_FLOAT) to->kind = WF_LITERAL_FLOAT;
    if (is_int && to->kind == WF_LITERAL_BOOL) to->kind = WF_LITERAL_INT;
  }
  to->is_list = from->is_list;
  to->n = from->n;
  to->ints = ints;
  to->floats = floats;
  return WEFT_OK;
}

static weft_status take_inputs(plan_builder *b) {
  wf_plan_input *list = wf_arena_calloc(b->arena, b->w->inputs.n + 1, sizeof *list);
  if (!list) return no_memory(b);
  for (size_t i = 0; i < b->w->inputs.n; i++) {
    const wf_meta_input *in = &b->w->inputs.at[i];
    wf_plan_input *to = &list[i];
    static const wf_input_source sources[] = {WF_SOURCE_REQUEST, WF_SOURCE_APPLICATION,
                                              WF_SOURCE_LITERAL, WF_SOURCE_ARTIFACT};
    to->name = wf_arena_strdup(b->arena, in->head.name);
    to->source_name =
        wf_arena_strdup(b->arena, in->source->name ? in->source->name : in->head.name);
    if (!to->name || !to->source_name) return no_memory(b);
    to->source = sources[in->source->kind];
    to->role =
        in->role->kind == WF_META_RUNTIME ? (wf_input_role)(in->role->role + 1) : WF_ROLE_OPAQUE;
    to->is_required = in->is_required;
    WF_RETURN_IF_ERROR(plan_package_contract(b, in->contract, &to->contract));
    WF_RETURN_IF_ERROR(take_literal(b, &in->default_value, &to->literal));
    if (to->source == WF_SOURCE_ARTIFACT) WF_RETURN_IF_ERROR(plan_take_artifact(b, in, to));
    to->slot = plan_define(b, to->name);
    to->present = in->present_as ? plan_define(b, in->present_as) : (wf_slot){-1};
    if (!wf_slot_is(to->slot) || (in->present_as && !wf_slot_is(to->present))) return no_memory(b);
  }
  b->plan->n_inputs = b->w->inputs.n;
  b->plan->inputs = list;
  return WEFT_OK;
}

static weft_status take_generation(plan_builder *b) {
  const wf_meta_generation *g = b->m->generation;
  if (!g) return WEFT_OK;
  wf_plan_generation *to = wf_arena_calloc(b->arena, 1, sizeof *to);
  wf_plan_field *fields = wf_arena_calloc(b->arena, g->overrides.n + 1, sizeof *fields);
  if (!to || !fields) return no_memory(b);
  *to = (wf_plan_generation){-1, (double)NAN, (double)NAN, -1, 0, fields};
  if (g->defaults) {
    to->do_sample = g->defaults->do_sample;
    to->temperature = g->defaults->temperature;
    to->top_p = g->defaults->top_p;
    if (g->defaults->top_k != WF_META_ABSENT) to->top_k = g->defaults->top_k;
  }
  for (size_t i = 0; i < g->overrides.n; i++) {
    const wf_meta_override *o = &g->overrides.at[i];
    for (size_t k = 0; k < b->plan->n_inputs; k++) {
      if (strcmp(b->plan->inputs[k].name, o->input) != 0) continue;
      fields[to->n_fields++] = (wf_plan_field){
          b->plan->inputs[k].role, o->constraint ? o->constraint->minimum : (double)NAN,
          o->constraint ? o->constraint->maximum : (double)NAN};
    }
  }
  b->plan->generation = to;
  return WEFT_OK;
}

/* Does some emit of the output have a guard or a length? */
static bool is_ragged(const wf_meta_steps *steps, const char *output);

static bool is_ragged_step(const wf_meta_step *s, const char *output) {
  if (s->kind == WF_META_EMIT) {
    return strcmp(s->output, output) == 0 && (s->when || s->valid_length);
  }
  if (is_ragged(&s->steps, output) || is_ragged(&s->setup, output)) return true;
  for (size_t i = 0; i < s->cases.n; i++) {
    if (is_ragged_step(&s->cases.at[i], output)) return true;
  }
  return s->default_step && is_ragged_step(s->default_step, output);
}

static bool is_ragged(const wf_meta_steps *steps, const char *output) {
  for (size_t i = 0; i < steps->n; i++) {
    if (is_ragged_step(&steps->at[i], output)) return true;
  }
  return false;
}

static weft_status take_outputs(plan_builder *b) {
  wf_plan_output *list = wf_arena_calloc(b->arena, b->w->outputs.n + 1, sizeof *list);
  if (!list) return no_memory(b);
  for (size_t i = 0; i < b->w->outputs.n; i++) {
    const wf_meta_output *out = &b->w->outputs.at[i];
    list[i].name = wf_arena_strdup(b->arena, out->head.name);
    if (!list[i].name) return no_memory(b);
    list[i].role = (wf_output_role)out->role;
    WF_RETURN_IF_ERROR(plan_package_contract(b, out->contract, &list[i].contract));
    list[i].is_row_wise =
        wf_contract_has_rows(&list[i].contract) && is_ragged(&b->w->steps, list[i].name);
  }
  b->plan->n_outputs = b->w->outputs.n;
  b->plan->outputs = list;
  return WEFT_OK;
}

static const wf_meta_serving *serving_with_groups(const plan_builder *b) {
  return b->w->serving && b->w->serving->state_service ? b->w->serving : NULL;
}

static int32_t group_at(const plan_builder *b, const char *name) {
  const wf_meta_serving *s = serving_with_groups(b);
  for (size_t i = 0; s && name && i < s->state_service->groups.n; i++) {
    if (strcmp(s->state_service->groups.at[i].head.name, name) == 0) return (int32_t)i;
  }
  return -1;
}

static weft_status take_cells(plan_builder *b) {
  const wf_meta_serving *s = serving_with_groups(b);
  wf_plan_cell *list = wf_arena_calloc(b->arena, b->w->state.n + 1, sizeof *list);
  const size_t n_groups = s ? s->state_service->groups.n : 0;
  const char **groups = wf_arena_calloc(b->arena, n_groups + 1, sizeof *groups);
  if (!list || !groups) return no_memory(b);
  for (size_t i = 0; i < n_groups; i++) {
    groups[i] = wf_arena_strdup(b->arena, s->state_service->groups.at[i].head.name);
    if (!groups[i]) return no_memory(b);
  }
  for (size_t i = 0; i < b->w->state.n; i++) {
    const wf_meta_cell *c = &b->w->state.at[i];
    static const wf_recurrence_kind kinds[] = {WF_RECURRENCE_INVARIANT, WF_RECURRENCE_GROWING,
                                               WF_RECURRENCE_BOUNDED};
    list[i].name = wf_arena_strdup(b->arena, c->head.name);
    if (!list[i].name) return no_memory(b);
    list[i].is_advisory = c->class == WF_META_CLASS_ADVISORY;
    list[i].is_session = c->scope == WF_META_SCOPE_SESSION;
    list[i].recurrence = kinds[c->recurrence->kind];
    list[i].axis = (int32_t)(c->recurrence->axis == WF_META_ABSENT ? 0 : c->recurrence->axis);
    list[i].group = group_at(b, c->service_group);
    list[i].initializer = (wf_slot){-1};
    WF_RETURN_IF_ERROR(plan_package_contract(b, c->contract, &list[i].contract));
    b->plan->has_session |= list[i].is_session;
    const wf_plan_contract *k = &list[i].contract;
    if (list[i].recurrence == WF_RECURRENCE_INVARIANT || !k->has_shape || list[i].axis >= k->rank) {
      continue;
    }
    /* the symbol of a varying axis is neither bound nor checked */
    const int32_t symbol = k->dims[list[i].axis].symbol;
    if (symbol >= 0) b->symbols.at[symbol].is_dynamic = true;
  }
  b->plan->n_cells = b->w->state.n;
  b->plan->cells = list;
  b->plan->n_groups = n_groups;
  b->plan->group_names = groups;
  return WEFT_OK;
}

/* ---- components ---------------------------------------------------------------------------- */

static weft_status take_ports(plan_builder *b, const wf_meta_contracts *from, plan_texts *symbols,
                              size_t *n, const wf_plan_port **result) {
  wf_plan_port *list = wf_arena_calloc(b->arena, from->n + 1, sizeof *list);
  if (!list) return no_memory(b);
  for (size_t i = 0; i < from->n; i++) {
    list[i].name = wf_arena_strdup(b->arena, from->at[i].head.name);
    if (!list[i].name) return no_memory(b);
    WF_RETURN_IF_ERROR(plan_contract(b, &from->at[i], symbols, &list[i].contract));
  }
  *n = from->n;
  *result = list;
  return WEFT_OK;
}

static weft_status take_action(plan_builder *b, const wf_meta_component *c, wf_plan_component *to) {
  const wf_meta_parameter *p =
      c->contract ? wf_meta_find(&c->contract->parameters, "action") : NULL;
  const char *text = p && p->value.n == 1 && p->value.items[0].text ? p->value.items[0].text : "";
  to->action = wf_arena_strdup(b->arena, text);
  to->abi = wf_arena_strdup(b->arena, c->implementation->abi);
  to->version = wf_arena_strdup(b->arena, c->implementation->version);
  if (!to->action || !to->abi || !to->version) return no_memory(b);
  to->adapter = wf_adapter_find(to->abi, to->version);
  if (to->adapter) return WEFT_OK;
  return wf_fail(b->err, WEFT_UNSUPPORTED, "use an adapter that weft has",
                 "component '%s' wants the adapter '%s' version %s, which is not there (ADM-05)",
                 to->name, to->abi, to->version);
}

/* What decides whether one component may stand for another. */
static weft_status take_contract(plan_builder *b, const wf_meta_component *c,
                                 wf_plan_component *to) {
  const wf_meta_semantic_contract *k = c->contract;
  const char **effects = wf_arena_calloc(b->arena, c->effects.n + 1, sizeof *effects);
  wf_plan_role *roles = wf_arena_calloc(b->arena, k ? k->bindings.n + 1 : 1, sizeof *roles);
  if (!effects || !roles) return no_memory(b);
  for (size_t i = 0; i < c->effects.n; i++) {
    effects[i] = wf_arena_strdup(b->arena, c->effects.at[i]);
    if (!effects[i]) return no_memory(b);
  }
  to->n_effects = c->effects.n;
  to->effects = effects;
  to->roles = roles;
  if (!k) return WEFT_OK;
  to->is_overridable = c->is_overridable;
  to->contract_id = wf_arena_strdup(b->arena, k->id);
  to->contract_version = wf_arena_strdup(b->arena, k->version);
  if (!to->contract_id || !to->contract_version) return no_memory(b);
  for (size_t i = 0; i < k->bindings.n; i++) {
    const char *port = k->bindings.at[i].text;
    wf_plan_role *r = &roles[to->n_roles];
    r->port = wf_plan_port_named(to->inputs, to->n_inputs, port);
    r->is_output = r->port < 0;
    if (r->is_output) r->port = wf_plan_port_named(to->outputs, to->n_outputs, port);
    if (r->port < 0) continue; /* of a graph whose ports are not bound by that name */
    r->name = wf_arena_strdup(b->arena, k->bindings.at[i].head.name);
    if (!r->name) return no_memory(b);
    to->n_roles++;
  }
  return WEFT_OK;
}

static weft_status take_component(plan_builder *b, const wf_meta_component *c,
                                  wf_plan_component *to) {
  static const wf_component_kind kinds[] = {WF_COMPONENT_ONNX, WF_COMPONENT_ADAPTER,
                                            WF_COMPONENT_BINDING};
  plan_texts symbols = {0};
  weft_status st = WEFT_OK;
  const wf_meta_graph *g = c->graph;
  const bool is_declared = c->ports && (c->ports->inputs.n || c->ports->outputs.n);
  static const wf_meta_contracts nothing = {0, NULL};
  const wf_meta_contracts *in = is_declared ? &c->ports->inputs : g ? &g->inputs : &nothing;
  const wf_meta_contracts *out = is_declared ? &c->ports->outputs : g ? &g->outputs : &nothing;
  to->name = wf_arena_strdup(b->arena, c->head.name);
  if (!to->name) return no_memory(b);
  to->kind = kinds[c->implementation->kind];
  if (to->kind == WF_COMPONENT_ADAPTER) WF_TRY(take_action(b, c, to));
  if (to->kind == WF_COMPONENT_ONNX) {
    if (!g) {
      st = wf_fail(b->err, WEFT_PACKAGE_INVALID, NULL, "component '%s' has no graph", to->name);
      goto out;
    }
    to->artifact = wf_arena_strdup(b->arena, g->path);
    if (!to->artifact) WF_TRY(no_memory(b));
  }
  WF_TRY(take_ports(b, in, &symbols, &to->n_inputs, &to->inputs));
  WF_TRY(take_ports(b, out, &symbols, &to->n_outputs, &to->outputs));
  const char **names = wf_arena_calloc(b->arena, symbols.n + 1, sizeof *names);
  if (!names) WF_TRY(no_memory(b));
  if (symbols.n) memcpy(names, symbols.at, symbols.n * sizeof *names);
  to->n_symbols = symbols.n;
  to->symbols = names;
  to->has_declared_ports = is_declared;
  WF_TRY(take_contract(b, c, to));
out:
  wf_vec_free(&symbols);
  return st;
}

static weft_status take_components(plan_builder *b, wf_plan_component **components) {
  const size_t n = b->w->components.n;
  *components = wf_arena_calloc(b->arena, n + 1, sizeof **components);
  if (!*components) return no_memory(b);
  for (size_t i = 0; i < n; i++) {
    const wf_meta_component *c = &b->w->components.at[i];
    /* an API-boundary contract is never invoked (format §15.5) */
    const bool is_text =
        c->implementation->abi && strcmp(c->implementation->abi, "onnx-genai.text-assembly") == 0;
    if (is_text) {
      (*components)[i] = (wf_plan_component){.name = wf_arena_strdup(b->arena, c->head.name),
                                             .kind = WF_COMPONENT_BINDING};
      if (!(*components)[i].name) return no_memory(b);
      continue;
    }
    WF_RETURN_IF_ERROR(take_component(b, c, &(*components)[i]));
  }
  b->plan->n_components = n;
  b->plan->components = *components;
  return WEFT_OK;
}

/* A cell's slot where a loop carries it, else the input of that name. */
static wf_slot control_slot(const plan_builder *b, const char *name) {
  for (size_t i = 0; i < b->plan->n_inputs; i++) {
    if (strcmp(b->plan->inputs[i].name, name) == 0) return b->plan->inputs[i].slot;
  }
  for (size_t i = 0; i < b->plan->n_cells; i++) {
    if (strcmp(b->plan->cells[i].name, name) == 0) return b->cell_slots[i];
  }
  return (wf_slot){-1};
}

/* What must hold before a component writes into a cache of fixed capacity. */
static weft_status take_scatter(plan_builder *b, const wf_meta_group *g, int32_t at,
                                wf_plan_component *c) {
  const char *to = wf_meta_pair_get(&g->update->write_indices_ports, c->name);
  const char *lengths = wf_meta_pair_get(&g->update->kv_length_ports, c->name);
  const wf_meta_group_ports *ports = wf_meta_find(&g->ports, c->name);
  if (!to) return WEFT_OK;
  wf_plan_scatter *list = wf_arena_calloc(b->arena, c->n_scatters + 1, sizeof *list);
  const size_t n = ports ? ports->cells.n : 0;
  const char **buffers = wf_arena_calloc(b->arena, n + 1, sizeof *buffers);
  if (!list || !buffers) return no_memory(b);
  if (c->n_scatters) memcpy(list, c->scatters, c->n_scatters * sizeof *list);
  for (size_t i = 0; i < n; i++) {
    buffers[i] = wf_arena_strdup(b->arena, ports->cells.at[i].input);
    if (!buffers[i]) return no_memory(b);
  }
  wf_plan_scatter *s = &list[c->n_scatters++];
  *s = (wf_plan_scatter){.group = at,
                         .capacity = control_slot(b, g->update->capacity),
                         .destinations = wf_arena_strdup(b->arena, to),
                         .lengths = lengths ? wf_arena_strdup(b->arena, lengths) : NULL,
                         .n_buffers = n,
                         .buffers = buffers,
                         .axis = (int32_t)g->sequence_axis};
  if (!s->destinations || (lengths && !s->lengths)) return no_memory(b);
  if (!wf_slot_is(s->capacity)) return plan_fail_name(b, c->name, g->update->capacity);
  c->scatters = list;
  return WEFT_OK;
}

static weft_status take_scatters(plan_builder *b, wf_plan_component *components) {
  const wf_meta_serving *s = serving_with_groups(b);
  for (size_t i = 0; s && i < s->state_service->groups.n; i++) {
    const wf_meta_group *g = &s->state_service->groups.at[i];
    if (!g->update || g->update->kind != WF_META_INDEXED_SCATTER) continue;
    for (size_t k = 0; k < b->plan->n_components; k++) {
      WF_RETURN_IF_ERROR(take_scatter(b, g, (int32_t)i, &components[k]));
    }
  }
  return WEFT_OK;
}

/* What a session keeps of a cell that no loop carried. */
static void take_initializers(plan_builder *b, wf_plan_cell *cells) {
  for (size_t i = 0; i < b->plan->n_cells; i++) {
    cells[i].initializer = plan_lookup(b, b->w->state.at[i].initializer);
  }
}

/* ---- programs ------------------------------------------------------------------------------ */

static const int32_t *match_ports(plan_builder *b, const wf_plan_port *ports, size_t n,
                                  const wf_port *theirs, size_t n_theirs) {
  int32_t *at = wf_arena_calloc(b->arena, n + 1, sizeof *at);
  for (size_t i = 0; at && i < n; i++) {
    at[i] = -1;
    for (size_t k = 0; k < n_theirs; k++) {
      if (strcmp(ports[i].name, theirs[k].name) == 0) at[i] = (int32_t)k;
    }
  }
  return at;
}

static weft_status compile(plan_builder *b, wf_plan_ref *r) {
  r->programs = wf_calloc(b->plan->n_components + 1, sizeof *r->programs);
  if (!r->programs) return no_memory(b);
  r->n_programs = b->plan->n_components;
  for (size_t i = 0; i < r->n_programs; i++) {
    const wf_plan_component *c = &b->plan->components[i];
    wf_program *p = &r->programs[i];
    if (c->kind != WF_COMPONENT_ONNX) continue;
    wf_compile_options o = *b->o->compile;
    o.model = c->artifact;
    o.ports = NULL;
    const weft_status st =
        wf_component_compile_by(b->o->backend, &p->backend, &p->component, &o, b->err);
    if (st != WEFT_OK) {
      p->backend = NULL;
      return wf_fail_in(b->err, st, "component '%s': ", c->name);
    }
    p->info = wf_component_describe(p->backend, p->component);
    p->input_at = match_ports(b, c->inputs, c->n_inputs, p->info->inputs, p->info->n_inputs);
    p->output_at = match_ports(b, c->outputs, c->n_outputs, p->info->outputs, p->info->n_outputs);
    if (!p->input_at || !p->output_at) return no_memory(b);
    for (size_t k = 0; k < c->n_inputs; k++) {
      if (p->input_at[k] < 0) {
        return wf_fail(b->err, WEFT_PACKAGE_INVALID, "declare ports that the graph has",
                       "component '%s': the graph has no input '%s' (ADM-01)", c->name,
                       c->inputs[k].name);
      }
    }
    for (size_t k = 0; k < c->n_outputs; k++) {
      if (p->output_at[k] < 0) {
        return wf_fail(b->err, WEFT_PACKAGE_INVALID, "declare ports that the graph has",
                       "component '%s': the graph has no output '%s' (ADM-01)", c->name,
                       c->outputs[k].name);
      }
    }
  }
  return WEFT_OK;
}

weft_status wf_plan_build(wf_plan_ref **result, const wf_metadata *m, const wf_plan_options *o,
                          weft_error *err) {
  weft_status st = WEFT_OK;
  plan_builder b = {.m = m, .o = o, .err = err};
  wf_plan_component *components = NULL;
  wf_plan_ref *r = wf_zalloc(sizeof *r);
  if (!r) return wf_fail_memory(err, sizeof *r, "a plan");
  atomic_init(&r->refs, 1);
  b.arena = r->arena = wf_arena_create();
  b.plan = b.arena ? wf_arena_calloc(b.arena, 1, sizeof *b.plan) : NULL;
  if (!b.plan) {
    st = no_memory(&b);
    goto out;
  }
  if (!m->pipeline || !m->pipeline->workflow) {
    st = wf_fail(err, WEFT_PACKAGE_INVALID, "give the document a pipeline",
                 "the document has no workflow (DOC-01)");
    goto out;
  }
  b.w = m->pipeline->workflow;
  b.cell_slots = wf_arena_calloc(b.arena, b.w->state.n + 1, sizeof *b.cell_slots);
  if (!b.cell_slots) WF_TRY(no_memory(&b));
  for (size_t i = 0; i < b.w->state.n; i++) b.cell_slots[i] = (wf_slot){-1};
  char identity[WF_IDENTITY_BYTES];
  WF_TRY(wf_metadata_identity(m, identity, err));
  b.plan->identity = wf_arena_strdup(b.arena, identity);
  if (!b.plan->identity) WF_TRY(no_memory(&b));
  WF_TRY(take_inputs(&b));
  WF_TRY(take_generation(&b));
  WF_TRY(take_outputs(&b));
  WF_TRY(take_cells(&b));
  WF_TRY(take_components(&b, &components));
  WF_TRY(plan_steps(&b, &b.w->steps, "", &b.plan->root));
  WF_TRY(take_scatters(&b, components));
  /* the plan's cells are const from here on for everybody else; the arena is still open */
  take_initializers(&b, wf_unconst(b.plan->cells));
  const char **slots = wf_arena_calloc(b.arena, b.slots.n + 1, sizeof *slots);
  wf_plan_symbol *symbols = wf_arena_calloc(b.arena, b.symbols.n + 1, sizeof *symbols);
  if (!slots || !symbols) WF_TRY(no_memory(&b));
  if (b.slots.n) memcpy(slots, b.slots.at, b.slots.n * sizeof *slots);
  if (b.symbols.n) memcpy(symbols, b.symbols.at, b.symbols.n * sizeof *symbols);
  b.plan->n_slots = b.slots.n;
  b.plan->slot_names = slots;
  b.plan->n_symbols = b.symbols.n;
  b.plan->symbols = symbols;
  WF_TRY(compile(&b, r));
  r->plan = b.plan;
  WF_TRY(wf_arena_seal(r->arena, err));
  *result = r;
  r = NULL;
out:
  wf_plan_release(r);
  wf_vec_free(&b.names);
  wf_vec_free(&b.slots);
  wf_vec_free(&b.symbols);
  return st;
}
