/* SPDX-License-Identifier: Apache-2.0 */
/* Attention and rotary embedding of the packed graph as steps. */
#include <string.h>

#include "backend/native/lower.h"

static weft_status no_memory(weft_error *err) {
  return wf_fail_memory(err, sizeof(wf_step), "lowering the graph");
}

/* Tables with more columns than the kernel wants are copied to its form; *dynamic is the place of a
 * table that holds one row a token. */
static bool rope_tables(wf_lowering *l, const wf_node *n, int32_t cos_at, const wf_rotary_params *p,
                        wf_rope_step *r, wf_place dynamic[2], bool *fits) {
  *fits = true;
  *r = (wf_rope_step){.index = p->index, .n_heads = p->n_heads, .head_dim = p->head_dim};
  r->rope.kind = p->kind == WF_ROTARY_NONE   ? WF_ROPE_NONE
                 : p->kind == WF_ROTARY_HALF ? WF_ROPE_HALF
                                             : WF_ROPE_INTERLEAVED;
  r->rope.dim = p->dim;
  if (p->kind == WF_ROTARY_NONE) return true;
  const int64_t half = p->dim / 2;
  for (int i = 0; i < 2; i++) {
    const int32_t id = wf_node_input(n, cos_at + i);
    const wf_tensor *t = wf_const_of(l->g, id, NULL);
    dynamic[i] = (wf_place){.loc = {-1, 0}};
    if (!t) {
      if (!wf_lower_find(l, id, &dynamic[i]) || dynamic[i].axis != WF_AXIS_TOKENS ||
          dynamic[i].width < half || p->index != WF_ROTARY_BY_TOKEN) {
        *fits = false;
        return true;
      }
      continue;
    }
    if (p->index != WF_ROTARY_BY_POSITION || t->rank < 1 || t->dims[t->rank - 1] < half) {
      *fits = false;
      return true;
    }
    const int64_t width = t->dims[t->rank - 1];
    const float *table = wf_const_f32(l->c, t);
    if (!table) return false;
    if (width != half) {
      const int64_t rows = (int64_t)t->n / width;
      float *copy = wf_arena_calloc(l->c->arena, (size_t)(rows * half), sizeof *copy);
      if (!copy) return false;
      for (int64_t j = 0; j < rows; j++) {
        memcpy(copy + j * half, table + j * width, (size_t)half * sizeof *copy);
      }
      table = copy;
    }
    *(i == 0 ? &r->rope.cos : &r->rope.sin) = table;
    r->table_rows = (int64_t)t->n / width;
    r->table_width = half;
    if (l->c->info.max_positions == 0 || r->table_rows < l->c->info.max_positions) {
      l->c->info.max_positions = r->table_rows;
    }
  }
  return true;
}

weft_status wf_lower_attention(wf_lowering *l, const wf_node *n, bool *is_done, weft_error *err) {
  const wf_attention_params *p = &n->as.attention;
  const wf_component_info *info = &l->c->info;
  wf_place q, k, v, y, dynamic[2] = {{.loc = {-1, 0}}, {.loc = {-1, 0}}};
  bool fits = false;
  *is_done = true;
  if (p->layer < 0 || (size_t)p->layer >= info->n_layers) {
    return wf_fail(err, WEFT_INTERNAL, "", "attention over state %d of %zu", (int)p->layer,
                   info->n_layers);
  }
  wf_step a = {.fn = wf_step_append, .split = WF_SPLIT_ROWS, .axis = WF_AXIS_TOKENS};
  wf_attention_step *s = &a.as.attention;
  s->layer = p->layer;
  s->group = info->layers[p->layer].group;
  s->kv = info->layers[p->layer].kv;
  s->spec = (wf_attention_spec){p->n_heads, p->scale, p->softcap, p->window, NULL};
  s->rotates = p->rotary.kind != WF_ROTARY_NONE;
  if (!wf_lower_find(l, wf_node_input(n, 0), &q)) goto refuse;
  const int64_t q_width = (int64_t)p->n_heads * p->head_dim;
  const int64_t k_width = (int64_t)p->n_kv_heads * p->head_dim;
  if (wf_node_input(n, 1) < 0) {
    if (q.width < q_width + 2 * k_width) goto refuse;
    k = v = q;
    k.loc.column += (int32_t)q_width;
    v.loc.column += (int32_t)(q_width + k_width);
  } else {
    if (!wf_lower_find(l, wf_node_input(n, 1), &k) || !wf_lower_find(l, wf_node_input(n, 2), &v)) {
      goto refuse;
    }
  }
  if (!rope_tables(l, n, 3, &p->rotary, &s->rope, dynamic, &fits)) return no_memory(err);
  if (!fits) goto refuse;
  s->rope.n_heads = p->n_heads;
  s->rope.head_dim = p->head_dim;
  if (p->smooth_softmax || wf_node_input(n, 5) >= 0) {
    if (wf_node_input(n, 5) >= 0) {
      if (!wf_lower_const(l, wf_node_input(n, 5), p->n_heads, &s->spec.sinks)) goto refuse;
    } else {
      s->spec.sinks = wf_arena_calloc(l->c->arena, (size_t)p->n_heads, sizeof(float));
      if (!s->spec.sinks) return no_memory(err);
    }
  }
  a.n_in = 5;
  a.in[0] = q.loc;
  a.in[1] = k.loc;
  a.in[2] = v.loc;
  a.in[3] = dynamic[0].loc;
  a.in[4] = dynamic[1].loc;
  if (s->rotates) {
    /* Turned copies: what a product has written is shared, what row steps write is each member's.
     */
    WF_RETURN_IF_ERROR(wf_lower_place(l, -1, WF_AXIS_TOKENS, q_width, &q, err));
    WF_RETURN_IF_ERROR(wf_lower_place(l, -1, WF_AXIS_TOKENS, k_width, &k, err));
    a.n_out = 2;
    a.out[0] = q.loc;
    a.out[1] = k.loc;
  }
  WF_RETURN_IF_ERROR(wf_lower_emit(l, &a, err));

  wf_step b = {.fn = wf_step_attention, .split = WF_SPLIT_ITEMS, .axis = WF_AXIS_TOKENS};
  b.as.attention = a.as.attention;
  WF_RETURN_IF_ERROR(wf_lower_place(l, wf_node_output(n, 0), WF_AXIS_TOKENS,
                                    (int64_t)p->n_heads * p->head_dim_v, &y, err));
  b.n_in = 1;
  b.in[0] = q.loc;
  b.n_out = 1;
  b.out[0] = y.loc;
  return wf_lower_emit(l, &b, err);
refuse:
  return wf_fail(err, WEFT_UNSUPPORTED, "",
                 "attention node '%.*s' has operands of a form the packed "
                 "program does not take",
                 (int)n->name.n, n->name.at ? n->name.at : "");
}

weft_status wf_lower_rotary(wf_lowering *l, const wf_node *n, bool *is_done, weft_error *err) {
  wf_place x, y, dynamic[2] = {{.loc = {-1, 0}}, {.loc = {-1, 0}}};
  bool fits = false;
  wf_step s = {.fn = wf_step_rope, .split = WF_SPLIT_ROWS, .axis = WF_AXIS_TOKENS};
  if (!wf_lower_find(l, wf_node_input(n, 0), &x) || x.axis != WF_AXIS_TOKENS ||
      x.width != (int64_t)n->as.rotary.n_heads * n->as.rotary.head_dim) {
    return WEFT_OK;
  }
  if (!rope_tables(l, n, 1, &n->as.rotary, &s.as.rope, dynamic, &fits)) return no_memory(err);
  if (!fits) return WEFT_OK;
  *is_done = true;
  WF_RETURN_IF_ERROR(wf_lower_place(l, wf_node_output(n, 0), x.axis, x.width, &y, err));
  s.width = x.width;
  s.n_in = 5;
  s.in[0] = x.loc;
  s.in[1] = s.in[2] = (wf_loc){-1, 0};
  s.in[3] = dynamic[0].loc;
  s.in[4] = dynamic[1].loc;
  s.n_out = 1;
  s.out[0] = y.loc;
  return wf_lower_emit(l, &s, err);
}
