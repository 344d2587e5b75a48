/* SPDX-License-Identifier: Apache-2.0 */
/* Attention operators (GroupQueryAttention and its kin) become WEFT_ATTENTION over the state pair
 * of their layer, when what they mask is the causal rule over the whole past. */
#include <math.h>

#include "graph/heads.h"
#include "graph/passes.h"
#include "graph/prove.h"

/* The state pair whose past key and value are these inputs and whose present ones these outputs. */
static int32_t find_layer(const pass *p, const int32_t past[2], const int32_t present[2]) {
  const wf_ports *ports = p->o ? p->o->ports : NULL;
  const wf_value *v[4] = {graph_value(p->g, past[0]), graph_value(p->g, past[1]),
                          graph_value(p->g, present[0]), graph_value(p->g, present[1])};
  if (!ports || !v[0] || !v[1] || !v[2] || !v[3]) return -1;
  for (size_t i = 0; i < ports->n_states; i++) {
    const wf_state_ports *s = &ports->states[i];
    if (wf_str_eq(s->past_key, v[0]->name) && wf_str_eq(s->past_value, v[1]->name) &&
        wf_str_eq(s->present_key, v[2]->name) && wf_str_eq(s->present_value, v[3]->name)) {
      return v[0]->is_input && v[1]->is_input && v[2]->is_output && v[3]->is_output ? (int32_t)i
                                                                                    : -1;
    }
  }
  return -1;
}

/* A decoder's graph without past is given states; a plain graph has no ports at all. */
static bool makes_states(const pass *p) {
  return p->o && p->o->ports && p->o->makes_states && !p->o->ports->n_states;
}

/* A state that no port names, of an operator without past: in order, as pass_longhand counts them.
 * -1: none may be made, or somebody reads what the operator calls present. */
static int32_t fresh_layer(const pass *p, const wf_node *n) {
  const wf_graph *g = p->g;
  const wf_value *q = graph_value(g, n->inputs[0]), *k = graph_value(g, wf_node_input(n, 1));
  int32_t layer = 0;
  /* the keys are the run's own tokens' */
  if (k && (q->rank < 3 || q->rank != k->rank || q->dims[q->rank - 2] < 0 ||
            q->dims[q->rank - 2] != k->dims[k->rank - 2]))
    return -1;
  if (!makes_states(p)) return -1;
  for (int32_t i = 1; i < n->n_outputs; i++) {
    if (n->outputs[i] >= 0 && graph_n_uses(g->values.at[n->outputs[i]])) return -1;
  }
  for (size_t i = 0; i < g->nodes.n; i++) {
    layer += g->nodes.at[i]->op == WF_OP_WEFT_ATTENTION && !g->nodes.at[i]->is_dead;
  }
  return layer;
}

static weft_status attention_new(pass *p, wf_node *from, const int32_t in[9], const int32_t out[3],
                                 const wf_attention_params *a) {
  const wf_str name = from->name;
  graph_kill(p->g, from);
  const int32_t n_out = in[6] < 0 ? 1 : 3; /* a state without a port has no outputs */
  wf_node *n = graph_new_node(p->g, WF_OP_WEFT_ATTENTION, 9, in, n_out, out);
  if (!n) return graph_no_memory(p->err);
  n->as.attention = *a;
  n->name = name;
  p->changed = true;
  return WEFT_OK;
}

/* The width of q, k or v in heads of `size`. */
static bool has_width(const wf_graph *g, int32_t value, int64_t width) {
  const wf_value *v = graph_value(g, value);
  return v && v->rank == 3 && last_dim(g, value) == width;
}

/* Tables [positions, dim / 2] of the rotation; gives dim, 0 when they are none. */
static int32_t table_dim(const wf_graph *g, int32_t cos, int32_t sin) {
  const wf_value *c = graph_value(g, cos), *s = graph_value(g, sin);
  const int64_t half = c ? last_dim(g, cos) : -1;
  if (!c || !s || c->rank != 2 || s->rank != 2 || half < 1 || half > 4096) return 0;
  return last_dim(g, sin) == half ? (int32_t)(2 * half) : 0;
}

/* A norm of each head inside the operator becomes a norm node before it. */
static weft_status head_norm(pass *p, int32_t *value, int32_t weight, int64_t heads, int64_t size,
                             float epsilon) {
  wf_graph *g = p->g;
  const int64_t apart[4] = {0, 0, heads, size}, flat[3] = {0, 0, heads * size};
  const wf_value *shape4 = graph_const_i64(g, apart, 4, 1),
                 *shape3 = graph_const_i64(g, flat, 3, 1);
  if (!shape4 || !shape3) return graph_no_memory(p->err);
  wf_node *split = graph_new_node(g, WF_OP_RESHAPE, 2, (int32_t[]){*value, shape4->id}, 1, NULL);
  if (!split) return graph_no_memory(p->err);
  wf_node *norm = graph_new_node(g, WF_OP_WEFT_NORM, 5,
                                 (int32_t[]){split->outputs[0], -1, -1, weight, -1}, 1, NULL);
  if (!norm) return graph_no_memory(p->err);
  norm->as.norm = (wf_norm_params){WF_NORM_RMS, epsilon};
  wf_node *join =
      graph_new_node(g, WF_OP_RESHAPE, 2, (int32_t[]){norm->outputs[0], shape3->id}, 1, NULL);
  if (!join) return graph_no_memory(p->err);
  WF_RETURN_IF_ERROR(graph_infer_node(g, split, p->err));
  WF_RETURN_IF_ERROR(graph_infer_node(g, norm, p->err));
  WF_RETURN_IF_ERROR(graph_infer_node(g, join, p->err));
  *value = join->outputs[0];
  return WEFT_OK;
}

static weft_status from_gqa(pass *p, wf_node *n) {
  wf_graph *g = p->g;
  int32_t in[9] = {
      wf_node_input(n, 0), wf_node_input(n, 1), wf_node_input(n, 2), -1, -1, wf_node_input(n, 11),
      wf_node_input(n, 3), wf_node_input(n, 4), wf_node_input(n, 5)};
  const int32_t out[3] = {wf_node_output(n, 0), wf_node_output(n, 1), wf_node_output(n, 2)};
  const int64_t heads = wf_node_attr_i(n, "num_heads", 0),
                kv = wf_node_attr_i(n, "kv_num_heads", 0);
  const int64_t window = wf_node_attr_i(n, "local_window_size", -1);
  const bool is_fresh = in[6] < 0 && in[7] < 0;
  wf_attention_params a = {.layer = is_fresh ? fresh_layer(p, n) : find_layer(p, in + 6, out + 1)};
  if (a.layer < 0 || heads < 1 || kv < 1 || heads > 4096 || kv > 4096 || heads % kv || out[0] < 0)
    return WEFT_OK;
  if (wf_node_output(n, 3) >= 0 && graph_n_uses(g->values.at[n->outputs[3]])) return WEFT_OK;
  /* An additive bias, a quantised cache or a bidirectional mask is left to the operator itself. */
  if (wf_node_input(n, 10) >= 0 || wf_node_input(n, 12) >= 0 || wf_node_input(n, 13) >= 0 ||
      !wf_node_attr_i(n, "causal", 1))
    return WEFT_OK;
  const int64_t q_width = last_dim(g, in[0]);
  const int64_t size = q_width / (in[1] < 0 ? heads + 2 * kv : heads);
  if (size < 1 || size > 4096 || q_width != size * (in[1] < 0 ? heads + 2 * kv : heads))
    return WEFT_OK;
  if (in[1] >= 0 && (!has_width(g, in[1], kv * size) || !has_width(g, in[2], kv * size)))
    return WEFT_OK;
  a.n_heads = (int32_t)heads, a.n_kv_heads = (int32_t)kv;
  a.head_dim = a.head_dim_v = (int32_t)size;
  a.scale = wf_node_attr_f(n, "scale", 0);
  if (a.scale == 0) a.scale = (float)(1 / sqrt((double)size));
  a.softcap = wf_node_attr_f(n, "softcap", 0);
  a.window = window > 0 && window < INT32_MAX ? (int32_t)window : 0;
  a.smooth_softmax = wf_node_attr_i(n, "smooth_softmax", 0) > 0;
  if (wf_node_attr_i(n, "do_rotary", 0)) {
    in[3] = wf_node_input(n, 7), in[4] = wf_node_input(n, 8);
    a.rotary = (wf_rotary_params){
        wf_node_attr_i(n, "rotary_interleaved", 0) ? WF_ROTARY_INTERLEAVED : WF_ROTARY_HALF,
        WF_ROTARY_BY_POSITION, table_dim(g, in[3], in[4]), a.n_heads, a.head_dim};
    if (a.rotary.dim < 1 || a.rotary.dim > size) return WEFT_OK;
  }
  if (!prove_lengths(p, wf_node_input(n, 5), wf_node_input(n, 6))) return WEFT_OK;
  if (wf_node_input(n, 9) >= 0 && !prove_positions(p, n->inputs[9])) return WEFT_OK;
  const float epsilon = wf_node_attr_f(n, "qk_norm_epsilon", 1e-6f);
  for (int i = 0; i < 2; i++) {
    const int32_t weight = wf_node_input(n, 14 + i);
    if (weight < 0) continue;
    if (in[1] < 0 || last_dim(g, weight) != size) return WEFT_OK;
    WF_RETURN_IF_ERROR(head_norm(p, &in[i], weight, i ? kv : heads, size, epsilon));
  }
  return attention_new(p, n, in, out, &a);
}

/* MultiHeadAttention that appends to the state itself, under a bias that is the causal mask: how
 * onnxruntime-genai's builder writes fp16 folders of models whose heads share no keys. */
static weft_status from_mha(pass *p, wf_node *n) {
  wf_graph *g = p->g;
  const int32_t in[9] = {wf_node_input(n, 0),
                         wf_node_input(n, 1),
                         wf_node_input(n, 2),
                         -1,
                         -1,
                         -1,
                         wf_node_input(n, 6),
                         wf_node_input(n, 7),
                         -1};
  const int32_t out[3] = {wf_node_output(n, 0), wf_node_output(n, 1), wf_node_output(n, 2)};
  const int64_t heads = wf_node_attr_i(n, "num_heads", 0);
  wf_attention_params a = {.layer = find_layer(p, in + 6, out + 1)};
  if (a.layer < 0 || heads < 1 || heads > 4096 || out[0] < 0 || in[1] < 0 || in[2] < 0 ||
      wf_node_attr_i(n, "unidirectional", 0))
    return WEFT_OK;
  /* a bias of q, k and v, a padding mask or a cache beside others is left to the operator itself */
  for (int32_t i = 3; i < n->n_inputs; i++) {
    if ((i < 5 || i > 7) && n->inputs[i] >= 0) return WEFT_OK;
  }
  if (wf_node_output(n, 3) >= 0 && graph_n_uses(g->values.at[n->outputs[3]])) return WEFT_OK;
  const int64_t size = last_dim(g, in[0]) / heads, size_v = last_dim(g, in[2]) / heads;
  if (size < 1 || size > 4096 || size_v < 1 || size_v > 4096 ||
      !has_width(g, in[0], size * heads) || !has_width(g, in[1], size * heads) ||
      !has_width(g, in[2], size_v * heads))
    return WEFT_OK;
  if (wf_node_input(n, 5) < 0 || !prove_mask(p, n->inputs[5], false, &a.window)) return WEFT_OK;
  a.n_heads = a.n_kv_heads = (int32_t)heads;
  a.head_dim = (int32_t)size, a.head_dim_v = (int32_t)size_v;
  a.scale = wf_node_attr_f(n, "scale", 0);
  if (a.scale == 0) a.scale = (float)(1 / sqrt((double)size));
  return attention_new(p, n, in, out, &a);
}

/* ---- the operator of opset 23 ------------------------------------------------------------ */

typedef struct onnx_attention {
  int32_t q, k, v; /* of the new tokens */
  int32_t past[2], present[2];
  int64_t n_heads, n_kv_heads, size, size_v;
  bool is_flat; /* [B, S, heads * size] instead of [B, heads, S, size] */
  int32_t window;
} onnx_attention;

/* Concat(past, new) before the operator. */
static bool split_cache(const wf_graph *g, int32_t value, int which, onnx_attention *a,
                        int32_t *fresh) {
  const wf_node *n = made_by(g, value, WF_OP_CONCAT);
  const int64_t axis = n ? wf_node_attr_i(n, "axis", 0) : 0;
  if (!n || n->n_inputs != 2 || (axis != 2 && axis != -2)) return false;
  a->past[which] = n->inputs[0];
  a->present[which] = value;
  *fresh = n->inputs[1];
  return true;
}

static bool find_cache(const pass *p, const wf_node *n, onnx_attention *a) {
  const wf_graph *g = p->g;
  a->past[0] = wf_node_input(n, 4);
  a->past[1] = wf_node_input(n, 5);
  a->present[0] = wf_node_output(n, 1);
  a->present[1] = wf_node_output(n, 2);
  if (a->past[0] >= 0 && a->past[1] >= 0 && a->present[0] >= 0 && a->present[1] >= 0) return true;
  if (a->past[0] >= 0 || a->past[1] >= 0) return false;
  const bool is_joined = made_by(g, a->k, WF_OP_CONCAT) || made_by(g, a->v, WF_OP_CONCAT);
  if (makes_states(p) && !is_joined) return true;
  if (a->is_flat) return false;
  return split_cache(g, a->k, 0, a, &a->k) && split_cache(g, a->v, 1, a, &a->v);
}

/* A mask, or is_causal where it means the same: with the past inside of the operator (or none) the
 * rule counts from the end of the past; opset 23 counts from the first key. */
static bool find_mask(pass *p, const wf_node *n, onnx_attention *a) {
  const int32_t mask = wf_node_input(n, 3);
  if (wf_node_input(n, 6) >= 0) return false;
  if (mask < 0) return a->past[0] < 0 && wf_node_attr_i(n, "is_causal", 0);
  return prove_mask(p, mask, false, &a->window);
}

static bool read_sizes(const wf_graph *g, const wf_node *n, onnx_attention *a) {
  const wf_value *q = graph_value(g, a->q);
  a->is_flat = q && q->rank == 3;
  if (!q || (q->rank != 3 && q->rank != 4)) return false;
  if (a->is_flat) {
    a->n_heads = wf_node_attr_i(n, "q_num_heads", 0);
    a->n_kv_heads = wf_node_attr_i(n, "kv_num_heads", 0);
    if (a->n_heads < 1 || a->n_kv_heads < 1) return false;
    a->size = last_dim(g, a->q) / a->n_heads;
    a->size_v = last_dim(g, a->v) / a->n_kv_heads;
    if (!has_width(g, a->q, a->size * a->n_heads) || !has_width(g, a->k, a->size * a->n_kv_heads) ||
        !has_width(g, a->v, a->size_v * a->n_kv_heads)) {
      return false;
    }
  } else if (!const_dim(g, a->q, 1, &a->n_heads) || !const_dim(g, a->k, 1, &a->n_kv_heads) ||
             (a->size = last_dim(g, a->q)) != last_dim(g, a->k) ||
             (a->size_v = last_dim(g, a->v)) < 1) {
    return false;
  }
  return a->size > 0 && a->size <= 4096 && a->size_v > 0 && a->size_v <= 4096 &&
         a->n_heads <= 4096 && a->n_kv_heads > 0 && a->n_heads % a->n_kv_heads == 0;
}

/* q or k, flat after a Reshape and Transpose of head-major heads, or head-major itself: gives the
 * head-major value, -1 when it was never apart. */
static int32_t head_major(const wf_graph *g, int32_t value, bool is_flat) {
  if (!is_flat) return value;
  const wf_node *join = made_by(g, value, WF_OP_RESHAPE);
  return join ? transposed_by(g, join->inputs[0], (const int64_t[]){0, 2, 1, 3}, 4) : -1;
}

/* Token-major inputs, with the rotation taken off where q and k have the same. */
static weft_status turn_inputs(pass *p, onnx_attention *a, rotation *r, int32_t in[9], bool *ok) {
  wf_graph *g = p->g;
  const int32_t q4 = head_major(g, a->q, a->is_flat), k4 = head_major(g, a->k, a->is_flat);
  rotation of_k = {.cos = -1, .sin = -1};
  *ok = true;
  *r = of_k;
  int32_t q = q4 < 0 ? -1 : before_rotation(p, q4, r),
          k = k4 < 0 ? -1 : before_rotation(p, k4, &of_k);
  const bool same = r->params.kind == of_k.params.kind && r->cos == of_k.cos &&
                    r->sin == of_k.sin && r->params.index == of_k.params.index &&
                    r->params.dim == of_k.params.dim;
  if (q < 0 || k < 0 || !same || !heads_can_turn(g, q) || !heads_can_turn(g, k)) {
    *r = (rotation){.cos = -1, .sin = -1};
    q = q4;
    k = k4;
  }
  if (a->is_flat && r->params.kind == WF_ROTARY_NONE) {
    in[0] = a->q, in[1] = a->k, in[2] = a->v;
    return WEFT_OK;
  }
  *ok = heads_can_turn(g, q) && heads_can_turn(g, k) && (a->is_flat || heads_can_turn(g, a->v));
  if (!*ok) return WEFT_OK;
  WF_RETURN_IF_ERROR(heads_to_tokens(p, q, &in[0]));
  WF_RETURN_IF_ERROR(heads_to_tokens(p, k, &in[1]));
  if (a->is_flat)
    in[2] = a->v;
  else
    WF_RETURN_IF_ERROR(heads_to_tokens(p, a->v, &in[2]));
  *ok = in[0] >= 0 && in[1] >= 0 && in[2] >= 0;
  return WEFT_OK;
}

/* The result as the operator gave it: flat, or head-major. */
static weft_status put_result(pass *p, wf_node *n, wf_node *made, const onnx_attention *a) {
  wf_graph *g = p->g;
  const int32_t old = n->outputs[0];
  WF_RETURN_IF_ERROR(graph_infer_node(g, made, p->err));
  int32_t y = made->outputs[0];
  if (!a->is_flat) {
    const wf_value *shape = graph_const_i64(g, (int64_t[]){0, 0, a->n_heads, a->size_v}, 4, 1);
    wf_node *split =
        shape ? graph_new_node(g, WF_OP_RESHAPE, 2, (int32_t[]){y, shape->id}, 1, NULL) : NULL;
    wf_node *turn = split ? graph_new_node(g, WF_OP_TRANSPOSE, 1, split->outputs, 1, NULL) : NULL;
    if (!turn || !graph_set_attr_ints(g, turn, "perm", (const int64_t[]){0, 2, 1, 3}, 4))
      return graph_no_memory(p->err);
    WF_RETURN_IF_ERROR(graph_infer_node(g, split, p->err));
    WF_RETURN_IF_ERROR(graph_infer_node(g, turn, p->err));
    y = turn->outputs[0];
  }
  if (!graph_replace(g, old, y)) return graph_no_memory(p->err);
  graph_kill(g, n);
  p->changed = true;
  return WEFT_OK;
}

static weft_status from_onnx(pass *p, wf_node *n) {
  wf_graph *g = p->g;
  onnx_attention a = {.q = wf_node_input(n, 0), .k = wf_node_input(n, 1), .v = wf_node_input(n, 2)};
  rotation r;
  bool ok;
  if (wf_node_output(n, 0) < 0 || !read_sizes(g, n, &a) || !find_cache(p, n, &a)) return WEFT_OK;
  if (wf_node_output(n, 3) >= 0 && graph_n_uses(g->values.at[n->outputs[3]])) return WEFT_OK;
  const bool has_past = a.past[0] >= 0;
  const int32_t layer = has_past ? find_layer(p, a.past, a.present) : fresh_layer(p, n);
  if (layer < 0 || !find_mask(p, n, &a)) return WEFT_OK;
  int32_t in[9] = {-1, -1, -1, -1, -1, -1, a.past[0], a.past[1], -1};
  WF_RETURN_IF_ERROR(turn_inputs(p, &a, &r, in, &ok));
  if (!ok) return WEFT_OK;
  in[3] = r.cos, in[4] = r.sin;
  wf_node *made = graph_new_node(g, WF_OP_WEFT_ATTENTION, 9, in, has_past ? 3 : 1, NULL);
  if (!made) return graph_no_memory(p->err);
  const float scale = wf_node_attr_f(n, "scale", 0);
  made->name = n->name;
  made->as.attention =
      (wf_attention_params){.layer = layer,
                            .n_heads = (int32_t)a.n_heads,
                            .n_kv_heads = (int32_t)a.n_kv_heads,
                            .head_dim = (int32_t)a.size,
                            .head_dim_v = (int32_t)a.size_v,
                            .scale = scale != 0 ? scale : (float)(1 / sqrt((double)a.size)),
                            .softcap = wf_node_attr_f(n, "softcap", 0),
                            .window = a.window,
                            .rotary = r.params};
  made->as.attention.rotary.n_heads = (int32_t)a.n_heads;
  made->as.attention.rotary.head_dim = (int32_t)a.size;
  if (has_past) {
    take_output(g, made, 1, a.present[0]);
    take_output(g, made, 2, a.present[1]);
  }
  return put_result(p, n, made, &a);
}

weft_status pass_attention(pass *p) {
  FOR_NODES(p, n) {
    if (n->op == WF_OP_ATTENTION) WF_RETURN_IF_ERROR(from_onnx(p, n));
    if (n->op == WF_OP_MS_MULTI_HEAD_ATTENTION) WF_RETURN_IF_ERROR(from_mha(p, n));
    if (n->op == WF_OP_MS_GROUP_QUERY_ATTENTION) WF_RETURN_IF_ERROR(from_gqa(p, n));
  }
  return WEFT_OK;
}
