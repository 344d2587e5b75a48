/* SPDX-License-Identifier: Apache-2.0 */
/* What a component tells of itself: ports, state layers, groups, cache layout. */
#include <string.h>

#include "backend/native/native.h"
#include "backend/native/program.h"
#include "backend/port_map.h"

weft_status wf_native_describe(wf_component *c, const wf_ports *ports, weft_error *err) {
  return wf_port_map_build(c->arena, c->graph, ports, &c->info, &c->map, err);
}

/* ---- states
 * -------------------------------------------------------------------------------------- */

static size_t plane_bytes(wf_kv_type type, int64_t kv_heads, int64_t dim) {
  const size_t n = (size_t)(kv_heads * WF_KV_BLOCK_TOKENS * dim);
  return type == WF_KV_F32 ? n * 4 : type == WF_KV_F16 ? n * 2 : n;
}

static size_t take(size_t *at, size_t n_bytes) {
  const size_t begin = (*at + 63) & ~(size_t)63;
  *at = begin + n_bytes;
  return begin;
}

/* Appends a layer's planes to the block of its group. */
static void lay_out(wf_state_layer *l, wf_state_group *g) {
  wf_kv_layer *kv = &l->kv;
  const size_t scales = (size_t)kv->kv_heads * WF_KV_BLOCK_TOKENS * sizeof(float);
  size_t at = g->block_bytes;
  kv->block_tokens = WF_KV_BLOCK_TOKENS;
  kv->key_offset = take(&at, plane_bytes(kv->type, kv->kv_heads, kv->head_dim));
  if (kv->type == WF_KV_Q8) kv->key_scale_offset = take(&at, scales);
  kv->value_offset = take(&at, plane_bytes(kv->type, kv->kv_heads, kv->head_dim_v));
  if (kv->type == WF_KV_Q8) kv->value_scale_offset = take(&at, scales);
  g->block_bytes = (at + 63) & ~(size_t)63;
}

/* Where a row's states of fixed size lie, each in its held type. */
static weft_status describe_carried(wf_component *c, weft_error *err) {
  size_t *at = wf_arena_calloc(c->arena, c->map.n_carried + 1, sizeof *at);
  if (!at) return wf_fail_memory(err, c->map.n_carried * sizeof *at, "states");
  for (size_t i = 0; i < c->map.n_carried; i++) {
    size_t n = 0, n_bytes = 0;
    WF_RETURN_IF_ERROR(wf_port_map_carried(&c->info, &c->map, i, &n, err));
    const size_t elem =
        wf_held_bytes(wf_dtype_held(c->info.inputs[c->map.carried_inputs[i]].dtype));
    if (elem == 0 || !wf_size_mul(n, elem, &n_bytes) || !wf_size_add(at[i], n_bytes, &at[i + 1]) ||
        !wf_size_align(at[i + 1], 64, &at[i + 1])) {
      return wf_fail(err, WEFT_UNSUPPORTED, "", "a state of a type or size that cannot be held");
    }
  }
  c->carried_at = at;
  c->info.carried_bytes = at[c->map.n_carried];
  return WEFT_OK;
}

weft_status wf_native_describe_states(wf_component *c, const wf_ports *ports, weft_error *err) {
  wf_component_info *info = &c->info;
  const size_t n = c->packed.is_packed ? c->packed.n_states : ports ? ports->n_states : 0;
  wf_state_layer *layers = wf_arena_calloc(c->arena, n + 1, sizeof *layers);
  wf_state_group *groups = wf_arena_calloc(c->arena, n + 1, sizeof *groups);
  if (!layers || !groups) return wf_fail_memory(err, n * sizeof *layers, "states");
  info->n_groups = 0;
  for (size_t i = 0; i < n; i++) {
    wf_packed_state s = {0};
    if (c->packed.is_packed) {
      s = c->packed.states[i];
    } else {
      WF_RETURN_IF_ERROR(wf_port_map_state(&c->info, &c->map, i, &s, err));
    }
    size_t g = 0;
    while (g < info->n_groups && groups[g].window != s.window) g++;
    if (g == info->n_groups) groups[info->n_groups++].window = s.window;
    layers[i].group = (int32_t)g;
    layers[i].window = s.window;
    layers[i].kv = (wf_kv_layer){.type = c->kv,
                                 .kv_heads = s.n_kv_heads,
                                 .head_dim = s.head_dim,
                                 .head_dim_v = s.head_dim_v};
    lay_out(&layers[i], &groups[g]);
  }
  info->layers = layers;
  info->groups = groups;
  info->n_layers = n;
  return describe_carried(c, err);
}
