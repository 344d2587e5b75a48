/* SPDX-License-Identifier: Apache-2.0 */
/* State cells, effects and state groups: ST, EFF and GRP. */
#include "package/check.h"

#include <stdlib.h>

static const wf_meta_group *find_group(const wf_rules *c, const char *name) {
  const wf_meta_serving *s = c->w->serving;
  return s && s->state_service ? wf_meta_find(&s->state_service->groups, name) : NULL;
}

/* ---- cells ------------------------------------------------------------------------------------
 */

static void check_session(wf_rules *c, const wf_meta_cell *cell) {
  const wf_meta_session *s = cell->session;
  if (cell->scope != WF_META_SCOPE_SESSION)
    wf_check_struct(c, "ST-02", cell->head.at, "session", "remove it, or write 'scope: session'",
                    "session settings on a cell of invocation scope");
  if (s->policy == WF_META_COPY_ON_WRITE || s->ttl_seconds != WF_META_ABSENT ||
      s->optimistic_metadata_version)
    wf_check_fail(c, WF_PROBLEM_CAPABILITY, "ST-03", s->head.at, NULL,
                  "write 'policy: exclusive' alone",
                  "copy_on_write, ttl_seconds and optimistic_metadata_version are not supported");
}

static void check_group_of(wf_rules *c, const wf_meta_cell *cell) {
  const wf_meta_at *at = cell->head.at;
  const wf_meta_group *g = find_group(c, cell->service_group);
  const wf_meta_recurrence *r = cell->recurrence;
  const char *accepted = c->w->serving ? c->w->serving->accepted_len : NULL;
  if (cell->management != WF_META_MANAGED_RUNTIME)
    wf_check_struct(c, "ST-04", at, "service_group", "write 'management: runtime'",
                    "a cell of a group is managed by the runtime");
  if (!g) {
    wf_check_struct(c, "ST-05", at, "service_group",
                    "declare the group in serving.state_service.groups",
                    "there is no state group '%.100s'", cell->service_group);
  }
  if (wf_meta_request_axis(cell->contract) < 0)
    wf_check_struct(c, "ST-06", cell->contract->head.at, "batch_layout",
                    "write request_aligned or request_expanded",
                    "a cell of a group needs a request axis");
  if (r->kind != WF_META_INVARIANT && g && g->sequence_axis != r->axis)
    wf_check_struct(c, "ST-07", r->head.at, "axis", "let both name the same axis",
                    "the varying axis %lld is not the group's sequence_axis", (long long)r->axis);
  if (r->kind == WF_META_GROWING && (!accepted || strcmp(accepted, r->increment) != 0))
    wf_check_struct(c, "ST-08", r->head.at, "increment", "name serving.accepted_len",
                    "the increment '%.80s' is not serving.accepted_len", r->increment);
}

static void check_cell(wf_rules *c, const wf_meta_cell *cell) {
  const wf_meta_at *at = cell->head.at;
  const wf_meta_recurrence *r = cell->recurrence;
  const bool is_managed = cell->management != WF_META_MANAGED_WORKFLOW;
  if (r->kind != WF_META_INVARIANT && r->axis >= cell->contract->rank)
    wf_check_struct(c, "ST-01", r->head.at, "axis", "name an axis below the rank",
                    "the varying axis %lld is not below the rank %lld", (long long)r->axis,
                    (long long)cell->contract->rank);
  if (cell->session) check_session(c, cell);
  if (cell->service_group) check_group_of(c, cell);
  if (is_managed && cell->release_boundary < 0)
    wf_check_struct(c, "ST-09", at, "release_boundary", "say when its storage may be freed",
                    "a cell managed outside the workflow lacks release_boundary");
  if (!is_managed && cell->release_boundary >= 0)
    wf_check_struct(c, "ST-10", at, "release_boundary", "remove it",
                    "a cell managed by the workflow has no release_boundary");
  if (cell->release_boundary == WF_META_RELEASE_SESSION && cell->scope != WF_META_SCOPE_SESSION)
    wf_check_struct(c, "ST-11", at, "release_boundary", "write 'invocation'",
                    "a session boundary on a cell of invocation scope");
  if (is_managed && wf_meta_find(&c->w->outputs, cell->head.name)) {
    const wf_meta_group *g = cell->service_group ? find_group(c, cell->service_group) : NULL;
    if (!g || !g->checkpoint)
      wf_check_struct(c, "ST-12", at, NULL, "give its group a checkpoint, or rename the output",
                      "a cell whose storage is not the workflow's is published as an output");
  }
}

static void check_effects(wf_rules *c) {
  for (size_t i = 0; i < c->w->effects.n; i++) {
    const wf_meta_effect *e = &c->w->effects.at[i];
    const char *name = e->head.name;
    if (!*name || strncmp(name, "state:", 6) == 0 || strcmp(name, "stream") == 0)
      wf_check_struct(c, "EFF-02", e->head.at, NULL, "choose another name",
                      "'%.80s' is no name for an effect domain: empty or reserved", name);
    if (e->speculation_safety && e->speculation_safety->kind == WF_META_SAFETY_REWINDABLE &&
        e->speculation_safety->max_depth == 0)
      wf_check_struct(c, "EFF-03", e->speculation_safety->head.at, "max_depth", "write 1 or more",
                      "a rewindable effect of depth 0");
  }
  for (size_t i = 0; i < c->w->components.n; i++) {
    const wf_meta_component *k = &c->w->components.at[i];
    for (size_t e = 0; e < k->effects.n; e++) {
      if (!*k->effects.at[e])
        wf_check_struct(c, "EFF-02", k->head.at, "effects", "name the domain",
                        "the name of an effect domain is empty");
      else if (!wf_meta_find(&c->w->effects, k->effects.at[e]))
        wf_check_struct(c, "EFF-01", k->head.at, "effects", "declare it under workflow.effects",
                        "the effect domain '%.80s' is not declared", k->effects.at[e]);
    }
  }
}

void wf_check_state(wf_rules *c) {
  for (size_t i = 0; i < c->w->state.n; i++) check_cell(c, &c->w->state.at[i]);
  check_effects(c);
}

/* ---- groups -----------------------------------------------------------------------------------
 */

static bool is_attention(const wf_meta_group *g) {
  return g->kind <= WF_META_MULTI_LATENT_ATTENTION || g->kind == WF_META_CROSS_ATTENTION;
}

static bool has_port(const wf_meta_component *k, const char *port, bool is_input) {
  if (!wf_component_declares_ports(k)) return true; /* admission looks */
  return is_input ? wf_meta_find(&k->ports->inputs, port) != NULL
                  : wf_meta_find(&k->ports->outputs, port) != NULL;
}

static int compare_layers(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* The layers of one role in ascending order; what is missing or double is told. */
static size_t layers_of(wf_rules *c, const wf_meta_group_ports *p, int role, int64_t *layers) {
  size_t n = 0;
  bool is_missing = false;
  for (size_t i = 0; i < p->cells.n; i++) {
    const wf_meta_alias *a = &p->cells.at[i];
    if (a->role != role) continue;
    is_missing |= a->layer == WF_META_ABSENT;
    layers[n++] = a->layer == WF_META_ABSENT ? 0 : a->layer;
  }
  static const char *const roles[] = {"key", "value", "combined"};
  if (n > 1 && is_missing) {
    wf_check_struct(c, "GRP-08", p->head.at, NULL, "give each of them a layer",
                    "several %s aliases, and one of them has no layer", roles[role]);
    return n;
  }
  if (n > 1) qsort(layers, n, sizeof *layers, compare_layers);
  for (size_t i = 1; i < n; i++) {
    if (layers[i] == layers[i - 1])
      wf_check_struct(c, "GRP-09", p->head.at, NULL, "number the layers",
                      "two %s aliases have the layer %lld", roles[role], (long long)layers[i]);
  }
  return n;
}

static void check_layers(wf_rules *c, const wf_meta_group *g, const wf_meta_group_ports *p) {
  int64_t *keys = wf_arena_calloc(c->arena, p->cells.n + 1, sizeof *keys);
  int64_t *values = wf_arena_calloc(c->arena, p->cells.n + 1, sizeof *values);
  if (!keys || !values) {
    c->out_of_memory = true;
    return;
  }
  const size_t n_keys = layers_of(c, p, WF_META_KEY, keys);
  const size_t n_values = layers_of(c, p, WF_META_VALUE, values);
  (void)layers_of(c, p, WF_META_COMBINED, values + n_values);
  const size_t n_bytes = n_keys * sizeof *keys;
  if (is_attention(g) && (n_keys != n_values || (n_bytes && memcmp(keys, values, n_bytes) != 0)))
    wf_check_struct(c, "GRP-10", p->head.at, NULL, "give each key of a layer its value",
                    "the layers of the keys are not those of the values");
}

static void check_alias(wf_rules *c, const wf_meta_group *g, const wf_meta_component *k,
                        const wf_meta_alias *a) {
  const wf_meta_cell *cell = wf_meta_find(&c->w->state, a->head.name);
  if (!cell || !cell->service_group || strcmp(cell->service_group, g->head.name) != 0)
    wf_check_struct(
        c, "GRP-06", a->head.at, NULL, "name a cell whose service_group is this group",
        cell ? "the cell '%.80s' belongs to another group" : "there is no state cell '%.80s'",
        a->head.name);
  if (!has_port(k, a->input, true))
    wf_check_struct(c, "GRP-07", a->head.at, "input", "name a declared input port",
                    "the component has no input port '%.80s'", a->input);
  if (a->output && !has_port(k, a->output, false))
    wf_check_struct(c, "GRP-07", a->head.at, "output", "name a declared output port",
                    "the component has no output port '%.80s'", a->output);
  if (!a->output && a->access == WF_META_READ_WRITE)
    wf_check_struct(c, "GRP-07", a->head.at, NULL, "add 'output', or write 'access: read_only'",
                    "a read_write alias lacks its output");
}

static const wf_meta_cell *integer_cell(const wf_rules *c, const char *name) {
  const wf_meta_cell *cell = name ? wf_meta_find(&c->w->state, name) : NULL;
  return cell && cell->contract->rank == 1 && wf_contract_is_integer(cell->contract) &&
                 cell->class == WF_META_CLASS_SEMANTIC
             ? cell
             : NULL;
}

static void check_control_ports(wf_rules *c, const wf_meta_group *g, const wf_meta_pairs *pairs) {
  for (size_t i = 0; i < pairs->n; i++) {
    const wf_meta_component *k = wf_meta_find(&c->w->components, pairs->at[i].head.name);
    if (!k || !has_port(k, pairs->at[i].text, true))
      wf_check_struct(c, "GRP-12", pairs->at[i].head.at, NULL, "name a component and its input",
                      k ? "the component has no input port '%.80s' (group '%.80s')"
                        : "there is no component for the port '%.80s' (group '%.80s')",
                      pairs->at[i].text, g->head.name);
  }
}

static void check_scatter(wf_rules *c, const wf_meta_group *g) {
  const wf_meta_update *u = g->update;
  if (!g->logical_lengths)
    wf_check_struct(c, "GRP-12", g->head.at, NULL, "name the cell of the valid lengths",
                    "an indexed scatter lacks logical_lengths");
  if (!integer_cell(c, u->write_indices))
    wf_check_struct(c, "GRP-12", u->head.at, "write_indices", "name such a cell",
                    "write_indices '%.80s' is no semantic integer cell of rank 1",
                    u->write_indices);
  const wf_meta_input *in = wf_meta_find(&c->w->inputs, u->capacity);
  const wf_meta_cell *cell = wf_meta_find(&c->w->state, u->capacity);
  const wf_meta_contract *k = in ? in->contract : cell ? cell->contract : NULL;
  if (!k || !wf_contract_is_integer(k) || !wf_contract_is_scalar(k))
    wf_check_struct(c, "GRP-12", u->head.at, "capacity", "name an integer scalar input or cell",
                    "the capacity '%.80s' is no integer scalar", u->capacity);
  check_control_ports(c, g, &u->write_indices_ports);
  check_control_ports(c, g, &u->kv_length_ports);
  for (size_t i = 0; i < g->ports.n; i++) {
    const wf_meta_group_ports *p = &g->ports.at[i];
    bool has_kv = false;
    for (size_t a = 0; a < p->cells.n; a++)
      has_kv |= p->cells.at[a].role == WF_META_KEY || p->cells.at[a].role == WF_META_VALUE;
    if (!wf_meta_pair_get(&u->write_indices_ports, p->head.name))
      wf_check_struct(c, "GRP-12", u->head.at, "write_indices_ports", "add the component's port",
                      "the component '%.80s' lacks a port for its destinations", p->head.name);
    if (has_kv && !wf_meta_pair_get(&u->kv_length_ports, p->head.name))
      wf_check_struct(c, "GRP-12", u->head.at, "kv_length_ports", "add the component's port",
                      "the component '%.80s' lacks a port for the valid lengths", p->head.name);
  }
}

static void check_axis(wf_rules *c, const wf_meta_group *g) {
  const int update = g->update ? g->update->kind : WF_META_APPEND;
  const bool has_axis = g->sequence_axis != WF_META_ABSENT;
  if (update != WF_META_REPLACE && !has_axis)
    wf_check_struct(c, "GRP-11", g->head.at, NULL, "add sequence_axis, or 'update: replace'",
                    "a group that appends or scatters lacks sequence_axis");
  if (update == WF_META_REPLACE && has_axis)
    wf_check_struct(c, "GRP-11", g->head.at, "sequence_axis", "remove it",
                    "replacement state has no sequence_axis");
  for (size_t i = 0; i < c->w->state.n; i++) {
    const wf_meta_cell *cell = &c->w->state.at[i];
    if (!cell->service_group || strcmp(cell->service_group, g->head.name) != 0) continue;
    const bool is_control =
        update == WF_META_INDEXED_SCATTER &&
        (strcmp(cell->head.name, g->update->write_indices) == 0 ||
         (g->logical_lengths && strcmp(cell->head.name, g->logical_lengths) == 0));
    if (is_control) continue;
    if (has_axis && g->sequence_axis >= cell->contract->rank)
      wf_check_struct(c, "GRP-11", g->head.at, "sequence_axis", "name an axis of every cell",
                      "the sequence_axis %lld is not below the rank of cell '%.80s'",
                      (long long)g->sequence_axis, cell->head.name);
    if (cell->recurrence->kind != WF_META_INVARIANT && update != WF_META_APPEND)
      wf_check_struct(c, update == WF_META_REPLACE ? "GRP-11" : "GRP-12", cell->recurrence->head.at,
                      "kind", "write 'invariant'",
                      "the cell '%.80s' varies, but its group's buffers keep their shape",
                      cell->head.name);
  }
}

static void check_group(wf_rules *c, const wf_meta_group *g) {
  const wf_meta_at *at = g->head.at;
  if (!*g->layout)
    wf_check_struct(c, "GRP-01", at, "layout", "name the element order", "the layout is empty");
  if (g->logical_lengths && !integer_cell(c, g->logical_lengths))
    wf_check_struct(c, "GRP-02", at, "logical_lengths", "name such a cell",
                    "logical_lengths '%.80s' is no semantic integer cell of rank 1",
                    g->logical_lengths);
  if (g->total_length && !wf_meta_find(&c->w->state, g->total_length))
    wf_check_struct(c, "GRP-03", at, "total_length", "name a state cell",
                    "total_length '%.80s' is no state cell", g->total_length);
  if (g->capabilities) {
    const wf_meta_group_capabilities *cap = g->capabilities;
    for (size_t i = 0; i < cap->cascade.n; i++) {
      if (!find_group(c, cap->cascade.at[i]))
        wf_check_struct(c, "GRP-04", cap->head.at, "cascade", "name a state group",
                        "there is no state group '%.80s'", cap->cascade.at[i]);
    }
    if (cap->rollback_positions == 0)
      wf_check_struct(c, "GRP-05", cap->head.at, "rollback_positions",
                      "write 1 or more, or leave it out", "0 positions can be rolled back");
  }
  for (size_t i = 0; i < g->ports.n; i++) {
    const wf_meta_group_ports *p = &g->ports.at[i];
    const wf_meta_component *k = wf_meta_find(&c->w->components, p->head.name);
    if (!k) {
      wf_check_struct(c, "GRP-06", p->head.at, NULL, "name a component",
                      "there is no component '%.80s'", p->head.name);
      continue;
    }
    for (size_t a = 0; a < p->cells.n; a++) check_alias(c, g, k, &p->cells.at[a]);
    check_layers(c, g, p);
  }
  check_axis(c, g);
  if (g->update && g->update->kind == WF_META_INDEXED_SCATTER) check_scatter(c, g);
}

/* GRP-13: the only graph of a workflow, owning self-attention, must say where its sequence enters.
 */
static void check_sole_decoder(wf_rules *c) {
  const wf_meta_component *sole = NULL;
  for (size_t i = 0; i < c->w->components.n; i++) {
    if (c->w->components.at[i].implementation->kind != WF_META_ONNX) continue;
    if (sole) return;
    sole = &c->w->components.at[i];
  }
  if (!sole) return;
  for (size_t i = 0; sole->ports && i < sole->ports->roles.n; i++) {
    if (sole->ports->roles.at[i].role <= WF_META_PORT_INPUTS_EMBEDS) return;
  }
  for (size_t i = 0; i < c->w->serving->state_service->groups.n; i++) {
    const wf_meta_group *g = &c->w->serving->state_service->groups.at[i];
    if (g->kind > WF_META_MULTI_LATENT_ATTENTION || !wf_meta_find(&g->ports, sole->head.name))
      continue;
    wf_check_struct(c, "GRP-13", sole->head.at, NULL,
                    "give a port the role token_ids or inputs_embeds under ports.roles",
                    "the only graph owns self-attention, but no port says where the sequence "
                    "enters");
    return;
  }
}

void wf_check_groups(wf_rules *c) {
  const wf_meta_serving *s = c->w->serving;
  if (!s) return;
  if (!s->state_service || !s->state_service->groups.n) {
    wf_check_struct(c, "SRV-01", s->head.at, NULL, "declare a group, or remove 'serving'",
                    "serving has no state group");
    return;
  }
  if (!s->accepted_len)
    wf_check_struct(c, "SRV-02", s->head.at, NULL, "name the accepted length",
                    "serving has state groups and lacks accepted_len");
  for (size_t i = 0; i < s->state_service->groups.n; i++)
    check_group(c, &s->state_service->groups.at[i]);
  check_sole_decoder(c);
}
