/* SPDX-License-Identifier: Apache-2.0 */
/* Values to run a graph on that nobody gave: from types, shapes and the meaning that a package or
 * the graph itself states, never from names. */
#include <string.h>

#include "engine/verify.h"
#include "kernels/elementwise.h"

/* Counter-based: value i of input k is the same whatever else is made (splitmix64). */
static uint64_t random_bits(uint64_t seed, uint64_t k, uint64_t i) {
  uint64_t z = seed + (k * UINT64_C(0x10001) + i + 1) * UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static const wf_port *port_named(const wf_component_info *info, wf_str name) {
  for (size_t i = 0; name.n && i < info->n_inputs; i++) {
    if (wf_str_eq(wf_str_of(info->inputs[i].name), name)) return &info->inputs[i];
  }
  return NULL;
}

static bool is_symbol(const wf_port *p, int32_t axis, const char *symbol) {
  return p && axis < p->rank && p->symbols[axis] && strcmp(p->symbols[axis], symbol) == 0;
}

static bool is_past(const wf_package *p, wf_str name) {
  for (size_t i = 0; p && i < p->ports.n_states; i++) {
    if (wf_str_eq(p->ports.states[i].past_key, name) ||
        wf_str_eq(p->ports.states[i].past_value, name)) {
      return true;
    }
  }
  return false;
}

/* The extent of a symbol: what the package says, what a decoder's ports make of it, else a small
 * number of its own. */
static int64_t extent_of(const verify_ask *ask, const char *symbol) {
  const wf_package *p = ask->package;
  for (size_t i = 0; p && i < p->n_symbols; i++) {
    if (strcmp(p->symbols[i].symbol, symbol) == 0) return p->symbols[i].value;
  }
  if (p) {
    const wf_port *ids = port_named(ask->info, p->ports.input_ids);
    const wf_port *embeds = port_named(ask->info, p->ports.inputs_embeds);
    if (is_symbol(ids, 0, symbol) || is_symbol(embeds, 0, symbol)) return 1;
    if (is_symbol(ids, 1, symbol) || is_symbol(embeds, 1, symbol)) return ask->fresh;
    for (size_t i = 0; i < p->ports.n_states; i++) {
      const wf_port *past = port_named(ask->info, p->ports.states[i].past_key);
      if (is_symbol(past, 0, symbol)) return 1;
      if (is_symbol(past, 2, symbol)) return ask->past;
    }
    if (is_symbol(port_named(ask->info, p->ports.attention_mask), 1, symbol)) {
      return ask->past + ask->fresh;
    }
  }
  return ask->fresh;
}

/* How many ids the table has that the graph looks this input up in; 0: it looks nothing up. */
static int64_t table_rows(const verify_ask *ask, wf_str input) {
  const wf_onnx_graph *g = ask->graph;
  for (size_t i = 0; i < g->n_nodes; i++) {
    const wf_onnx_node *n = &g->nodes[i];
    const bool looks_up = wf_str_eq(n->op_type, WF_STR("Gather")) ||
                          wf_str_eq(n->op_type, WF_STR("GatherBlockQuantized"));
    if (!looks_up || n->n_inputs < 2 || !wf_str_eq(n->inputs[1], input)) continue;
    int64_t axis = 0;
    for (size_t a = 0; a < n->n_attrs; a++) {
      const bool is_axis = wf_str_eq(n->attrs[a].name, WF_STR("axis")) ||
                           wf_str_eq(n->attrs[a].name, WF_STR("gather_axis"));
      if (is_axis) axis = n->attrs[a].i;
    }
    for (size_t k = 0; k < g->n_initializers; k++) {
      const wf_tensor *t = &g->initializers[k];
      if (!wf_str_eq(t->name, n->inputs[0])) continue;
      if (axis < 0) axis += t->rank;
      if (axis >= 0 && axis < t->rank) return t->dims[axis];
    }
  }
  return 0;
}

static void put(wf_dtype t, unsigned char *to, double f, int64_t i) {
  const float x = (float)f;
  uint16_t h;
  uint32_t u;
  switch ((int)t) { /* int: integers below */
    case WF_DTYPE_F32:
      memcpy(to, &x, sizeof x);
      return;
    case WF_DTYPE_F64:
      memcpy(to, &f, sizeof f);
      return;
    case WF_DTYPE_F16:
      h = wf_f16_bits(x);
      memcpy(to, &h, sizeof h);
      return;
    case WF_DTYPE_BF16:
      memcpy(&u, &x, sizeof u);
      h = (uint16_t)(u >> 16);
      memcpy(to, &h, sizeof h);
      return;
    default:
      memcpy(to, &i, (size_t)wf_dtype_bits(t) / 8); /* little-endian */
  }
}

static weft_status make(const verify_ask *ask, size_t at, verify_input *in, weft_error *err) {
  const wf_port *port = &ask->info->inputs[at];
  const wf_str name = wf_str_of(port->name);
  const wf_package *p = ask->package;
  size_t n = 0, n_bytes = 0;
  in->view = (wf_view){.dtype = port->dtype, .rank = port->rank < 0 ? 0 : port->rank};
  for (int32_t d = 0; d < in->view.rank; d++) {
    in->view.dims[d] = port->dims[d] >= 0 ? port->dims[d]
                       : port->symbols[d] ? extent_of(ask, port->symbols[d])
                                          : ask->fresh;
  }
  const bool is_whole = wf_dtype_bits(port->dtype) >= 8;
  if (!is_whole) {
    return wf_fail(err, WEFT_UNSUPPORTED, "give it with --input NAME=FILE.npy",
                   "no values can be made for input '%s' of type %s", port->name,
                   wf_dtype_name(port->dtype));
  }
  if (!wf_dims_count(in->view.dims, (size_t)in->view.rank, &n) ||
      !wf_dtype_bytes(port->dtype, n, &n_bytes)) {
    return wf_fail(err, WEFT_LIMIT, "give it with --input NAME=FILE.npy",
                   "input '%s' has no size that fits", port->name);
  }
  unsigned char *data = wf_arena_alloc(ask->arena, n_bytes + 1);
  if (!data) return wf_fail_memory(err, n_bytes, "an input");
  in->view.data = data;
  const bool is_mask = p && wf_str_eq(name, p->ports.attention_mask);
  const bool is_position = p && wf_str_eq(name, p->ports.position_ids);
  int64_t fixed = -1, limit = table_rows(ask, name);
  for (size_t i = 0; p && i < p->ports.n_fixed; i++) {
    if (wf_str_eq(name, p->ports.fixed[i].name)) fixed = p->ports.fixed[i].number;
  }
  if (limit <= 0 && p && wf_str_eq(name, p->ports.input_ids)) limit = p->vocab;
  if (limit <= 0) limit = 2;
  const size_t size = (size_t)wf_dtype_bits(port->dtype) / 8;
  const double scale = is_past(p, name) ? 0.5 : 1.0;
  for (size_t i = 0; i < n; i++) {
    const uint64_t bits = random_bits(ask->seed, at, i);
    const double f = ((double)(bits >> 11) * 0x1p-53 * 2.0 - 1.0) * scale;
    int64_t x = (int64_t)(bits % (uint64_t)limit);
    if (is_mask) x = 1;
    if (is_position) x = ask->past + (int64_t)(i % (size_t)ask->fresh);
    if (fixed >= 0) x = fixed;
    if (port->dtype == WF_DTYPE_BOOL) x = is_mask || fixed > 0 ? 1 : x & 1;
    put(port->dtype, data + i * size, is_mask ? 1.0 : f, x);
  }
  return WEFT_OK;
}

weft_status wf_verify_make_inputs(const verify_ask *ask, verify_input *inputs, weft_error *err) {
  for (size_t k = 0; k < ask->n_given; k++) {
    const weft_tensor *t = &ask->given[k];
    if (!port_named(ask->info, wf_str_of(t->name))) {
      return wf_fail(err, WEFT_INVALID_ARGUMENT, "name one of the graph's inputs",
                     "the graph has no input '%s'", t->name);
    }
  }
  for (size_t i = 0; i < ask->info->n_inputs; i++) {
    verify_input *in = &inputs[i];
    *in = (verify_input){.name = ask->info->inputs[i].name};
    for (size_t k = 0; k < ask->n_given; k++) {
      const weft_tensor *t = &ask->given[k];
      if (strcmp(t->name, in->name) != 0 || t->rank < 0 || t->rank > WF_VIEW_MAX_RANK) continue;
      /* input views are only read; the view type is shared with outputs */
      in->view = (wf_view){(wf_dtype)t->dtype, t->rank, {0}, wf_unconst(t->data)};
      memcpy(in->view.dims, t->dims, (size_t)t->rank * sizeof *t->dims);
      in->is_given = true;
    }
    if (!in->is_given) WF_RETURN_IF_ERROR(make(ask, i, in, err));
  }
  return WEFT_OK;
}
