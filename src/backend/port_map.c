/* SPDX-License-Identifier: Apache-2.0 */
/* A graph's ports as a component tells them, and which of them are a decoder's; for every backend.
 */
#include "backend/port_map.h"

static bool is_name(wf_str port, wf_str name) { return port.n > 0 && wf_str_eq(port, name); }

static wf_port_role role_of(const wf_ports *p, wf_str name) {
  if (!p) return WF_PORT_TENSOR;
  if (is_name(p->input_ids, name)) return WF_PORT_INPUT_IDS;
  if (is_name(p->inputs_embeds, name)) return WF_PORT_EMBEDS;
  if (is_name(p->attention_mask, name)) return WF_PORT_MASK;
  if (is_name(p->position_ids, name)) return WF_PORT_POSITIONS;
  if (is_name(p->logits, name)) return WF_PORT_LOGITS;
  for (size_t i = 0; i < p->n_states; i++) {
    const wf_state_ports *s = &p->states[i];
    if (is_name(s->past_key, name) || is_name(s->past_value, name) ||
        is_name(s->present_key, name) || is_name(s->present_value, name)) {
      return WF_PORT_STATE;
    }
  }
  for (size_t i = 0; i < p->n_carried; i++) {
    if (is_name(p->carried[i].past, name) || is_name(p->carried[i].present, name)) {
      return WF_PORT_CARRIED;
    }
  }
  return WF_PORT_TENSOR;
}

static weft_status describe_port(wf_arena *arena, const wf_graph *g, const wf_ports *ports,
                                 int32_t value, wf_port *p, weft_error *err) {
  const wf_value *v = wf_graph_value(g, value);
  *p = (wf_port){.role = role_of(ports, v->name), .dtype = v->dtype, .rank = v->rank};
  p->name = wf_arena_strndup(arena, v->name.at, v->name.n);
  if (!p->name) return wf_fail_memory(err, v->name.n, "a port");
  if (v->rank > WF_VIEW_MAX_RANK) {
    return wf_fail(err, WEFT_UNSUPPORTED, "", "port '%s' has rank %d, at most %d is supported",
                   p->name, (int)v->rank, (int)WF_VIEW_MAX_RANK);
  }
  for (int32_t i = 0; i < v->rank; i++) {
    p->dims[i] = -1;
    if (wf_expr_is_const(g->exprs, v->dims[i], &p->dims[i])) continue;
    p->dims[i] = -1;
    const wf_str symbol = v->dims[i] >= 0 ? wf_expr_symbol_name(g->exprs, v->dims[i]) : (wf_str){0};
    if (symbol.n == 0) continue;
    p->symbols[i] = wf_arena_strndup(arena, symbol.at, symbol.n);
    if (!p->symbols[i]) return wf_fail_memory(err, symbol.n, "a port");
  }
  return WEFT_OK;
}

static int32_t find_port(const wf_port *ports, size_t n, wf_str name) {
  if (name.n == 0) return -1;
  for (size_t i = 0; i < n; i++) {
    if (wf_str_is(name, ports[i].name)) return (int32_t)i;
  }
  return -1;
}

weft_status wf_port_map_build(wf_arena *arena, const wf_graph *g, const wf_ports *ports,
                              wf_component_info *info, wf_port_map *map, weft_error *err) {
  *map = (wf_port_map){.embeds_input = -1};
  wf_port *in = wf_arena_calloc(arena, g->inputs.n + 1, sizeof *in);
  wf_port *out = wf_arena_calloc(arena, g->outputs.n + 1, sizeof *out);
  if (!in || !out) return wf_fail_memory(err, g->inputs.n * sizeof *in, "ports");
  for (size_t i = 0; i < g->inputs.n; i++) {
    WF_RETURN_IF_ERROR(describe_port(arena, g, ports, g->inputs.at[i], &in[i], err));
  }
  for (size_t i = 0; i < g->outputs.n; i++) {
    WF_RETURN_IF_ERROR(describe_port(arena, g, ports, g->outputs.at[i], &out[i], err));
  }
  info->inputs = in;
  info->outputs = out;
  info->n_inputs = g->inputs.n;
  info->n_outputs = g->outputs.n;
  if (!ports) return WEFT_OK;
  map->embeds_input = find_port(in, info->n_inputs, ports->inputs_embeds);
  const int32_t logits = find_port(out, info->n_outputs, ports->logits);
  if (logits >= 0 && out[logits].rank > 0) {
    const int64_t vocab = out[logits].dims[out[logits].rank - 1];
    info->vocab = vocab > 0 ? vocab : 0;
  }
  int32_t *past = wf_arena_calloc(arena, 2 * ports->n_states + 1, sizeof *past);
  int32_t *present = wf_arena_calloc(arena, 2 * ports->n_states + 1, sizeof *present);
  if (!past || !present) return wf_fail_memory(err, ports->n_states * 2 * sizeof *past, "states");
  for (size_t i = 0; i < ports->n_states; i++) {
    past[2 * i] = find_port(in, info->n_inputs, ports->states[i].past_key);
    past[2 * i + 1] = find_port(in, info->n_inputs, ports->states[i].past_value);
    present[2 * i] = find_port(out, info->n_outputs, ports->states[i].present_key);
    present[2 * i + 1] = find_port(out, info->n_outputs, ports->states[i].present_value);
  }
  map->past_inputs = past;
  map->present_outputs = present;
  int32_t *from = wf_arena_calloc(arena, ports->n_carried + 1, sizeof *from);
  int32_t *to = wf_arena_calloc(arena, ports->n_carried + 1, sizeof *to);
  if (!from || !to) return wf_fail_memory(err, ports->n_carried * sizeof *from, "states");
  for (size_t i = 0; i < ports->n_carried; i++) {
    from[i] = find_port(in, info->n_inputs, ports->carried[i].past);
    to[i] = find_port(out, info->n_outputs, ports->carried[i].present);
  }
  map->n_carried = info->n_carried = ports->n_carried;
  map->carried_inputs = from;
  map->carried_outputs = to;
  return WEFT_OK;
}

weft_status wf_port_map_carried(const wf_component_info *info, const wf_port_map *map, size_t i,
                                size_t *n_elements, weft_error *err) {
  const int32_t in = map->carried_inputs[i], out = map->carried_outputs[i];
  const wf_port *p = in >= 0 ? &info->inputs[in] : NULL;
  if (!p || out < 0 || p->rank < 2 || info->outputs[out].dtype != p->dtype) {
    return wf_fail(err, WEFT_PACKAGE_INVALID, "export the model again",
                   "a state of fixed size, number %zu, has no past and present alike", i);
  }
  *n_elements = 1;
  for (int32_t d = 1; d < p->rank; d++) {
    if (p->dims[d] < 1 || !wf_size_mul(*n_elements, (size_t)p->dims[d], n_elements)) {
      return wf_fail(err, WEFT_PACKAGE_INVALID, "export the model with fixed extents for it",
                     "the state '%s' has an extent that is not known", p->name);
    }
  }
  return WEFT_OK;
}

/* A state of an unpacked graph: [batch, heads, length, dim] of the port itself. */
weft_status wf_port_map_state(const wf_component_info *info, const wf_port_map *map, size_t i,
                              wf_packed_state *s, weft_error *err) {
  int64_t dims[2][2];
  for (int j = 0; j < 2; j++) {
    const int32_t in = map->past_inputs[2 * i + (size_t)j];
    const wf_port *p = in >= 0 ? &info->inputs[in] : NULL;
    if (!p || p->rank != 4 || p->dims[1] <= 0 || p->dims[3] <= 0 || p->dims[1] > 4096 ||
        p->dims[3] > 4096) {
      return wf_fail(err, WEFT_PACKAGE_INVALID,
                     "export the model with a [batch, heads, length, size] cache",
                     "the cache of layer %zu has no port of rank 4 with known heads and size", i);
    }
    dims[j][0] = p->dims[1];
    dims[j][1] = p->dims[3];
    s->dtype = p->dtype;
  }
  if (dims[0][0] != dims[1][0]) {
    return wf_fail(err, WEFT_PACKAGE_INVALID, "", "keys and values of layer %zu differ in heads",
                   i);
  }
  s->n_kv_heads = (int32_t)dims[0][0];
  s->head_dim = (int32_t)dims[0][1];
  s->head_dim_v = (int32_t)dims[1][1];
  s->window = 0;
  return WEFT_OK;
}
