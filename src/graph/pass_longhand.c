/* SPDX-License-Identifier: Apache-2.0 */
/* Attention written out by exporters:
 *
 *   q, k, v = heads(x W) ; rotate q, k ; k, v = Concat(past, new) ; repeat heads of k, v
 *   softmax(cap(q k^T * scale) + mask) v -> heads beside each other again
 *
 * is found from its Softmax and becomes WEFT_ATTENTION, when the mask is proven. */
#include <math.h>

#include "graph/heads.h"
#include "graph/prove.h"

typedef struct longhand {
  wf_node *softmax, *weights_v; /* the product with the values */
  int32_t q, k, v;              /* head-major, before rotation and repeat; k, v the new tokens' */
  int32_t past[2], present[2];
  int32_t mask;
  double scale, softcap;
  int32_t window, layer;
  rotation rotation;
  int64_t n_heads, n_kv_heads, size, size_v;
} longhand;

/* ---- from the scores to q and k ---------------------------------------------------------- */

/* softmax(scores): through mask, cap and scale up to the product. */
static const wf_node *find_scores(pass *p, longhand *a, int32_t value) {
  wf_graph *g = p->g;
  for (int depth = 0; depth < 12; depth++) {
    const wf_node *n = graph_producer_of(g, value);
    if (!n) return NULL;
    switch ((int)n->op) {
      case WF_OP_MATMUL:
        return a->mask >= 0 ? n : NULL;
      case WF_OP_CAST:
        value = n->inputs[0];
        break;
      case WF_OP_MUL:
      case WF_OP_DIV: {
        double s = 1;
        const int32_t before = before_scales(g, value, &s);
        const wf_node *tanh = made_by(g, before, WF_OP_TANH);
        if (before == value) return NULL;
        if (!tanh) {
          a->scale *= s;
          value = before;
          break;
        }
        double inner = 1;
        value = before_scales(g, tanh->inputs[0], &inner);
        if (a->softcap != 0 || fabs(inner * s - 1) > 1e-3) {
          /* tanh(scores * scale / cap) with the scale folded in: cap is s, the rest is scale */
          if (a->softcap != 0) return NULL;
          a->scale *= inner * s;
        }
        a->softcap = s;
        break;
      }
      case WF_OP_ADD: {
        if (a->mask >= 0) return NULL;
        int i = 0;
        while (i < 2 && !prove_mask(p, n->inputs[i], false, &a->window)) i++;
        if (i == 2) return NULL;
        a->mask = n->inputs[i];
        value = n->inputs[1 - i];
        break;
      }
      case WF_OP_WHERE: {
        double fill;
        const bool is_inverted = graph_const_scalar(g, n->inputs[1], &fill);
        if (a->mask >= 0 || (!is_inverted && !graph_const_scalar(g, n->inputs[2], &fill)) ||
            fill > -9000)
          return NULL;
        if (!prove_mask(p, n->inputs[0], is_inverted, &a->window)) return NULL;
        a->mask = n->inputs[0];
        value = n->inputs[is_inverted ? 2 : 1];
        break;
      }
      default:
        return NULL;
    }
  }
  return NULL;
}

/* k^T as [B, H, D, T], also when three-dimensional around the transpose: gives k. */
static int32_t before_transpose(const wf_graph *g, int32_t value) {
  const int32_t x = transposed_by(g, value, (const int64_t[]){0, 1, 3, 2}, 4);
  if (x >= 0) return x;
  const wf_node *join = made_by(g, value, WF_OP_RESHAPE);
  const int32_t t = join ? transposed_by(g, join->inputs[0], (const int64_t[]){0, 2, 1}, 3) : -1;
  const wf_node *split = t < 0 ? NULL : made_by(g, t, WF_OP_RESHAPE);
  if (!split) return -1;
  const wf_value *k = g->values.at[split->inputs[0]], *y = g->values.at[value],
                 *m = g->values.at[t];
  if (k->rank != 4 || y->rank != 4 || m->rank != 3) return -1;
  const bool fits = k->dims[0] == y->dims[0] && k->dims[1] == y->dims[1] &&
                    k->dims[2] == y->dims[3] && k->dims[3] == y->dims[2] &&
                    m->dims[1] == k->dims[2] && m->dims[2] == k->dims[3];
  return fits ? k->id : -1;
}

/* Concat(past, new) along the sequence: takes both and gives whether it is one. */
static bool split_cache(const wf_graph *g, int32_t value, int which, longhand *a, int32_t *fresh) {
  const wf_node *n = made_by(g, value, WF_OP_CONCAT);
  const int64_t axis = n ? wf_node_attr_i(n, "axis", 0) : 0;
  if (!n || n->n_inputs != 2 || (axis != 2 && axis != -2) || g->values.at[value]->rank != 4)
    return false;
  a->past[which] = n->inputs[0];
  a->present[which] = value;
  *fresh = n->inputs[1];
  return g->values.at[n->inputs[0]]->is_input;
}

/* An export without past: attention over its own tokens alone. With the causal rule a token's
 * result never changes when others follow, so the keys and values may as well be kept. */
static bool take_fresh(const pass *p, int32_t value, int which, longhand *a, int32_t *fresh) {
  if (!p->o->makes_states || p->o->ports->n_states) return false;
  a->past[which] = a->present[which] = -1;
  *fresh = value;
  return p->g->values.at[value]->rank == 4;
}

/* k^T turned in one step from [B, T, H, D]: gives k as [B, H, T, D], by a node of its own. -1: it
 * was not, or there is no memory. */
static int32_t before_double_turn(pass *p, int32_t value) {
  wf_graph *g = p->g;
  const int32_t x = transposed_by(g, value, (const int64_t[]){0, 2, 3, 1}, 4);
  wf_node *n = x < 0 ? NULL : graph_new_node(g, WF_OP_TRANSPOSE, 1, &x, 1, NULL);
  if (!n || !graph_set_attr_ints(g, n, "perm", (const int64_t[]){0, 2, 1, 3}, 4)) return -1;
  return graph_infer_node(g, n, p->err) == WEFT_OK ? n->outputs[0] : -1;
}

static bool find_k(pass *p, longhand *a, int32_t value) {
  wf_graph *g = p->g;
  const int32_t turned = before_scales(g, before_casts(g, value), &a->scale);
  value = before_transpose(g, turned);
  if (value < 0) value = before_double_turn(p, turned);
  if (value < 0) return false;
  value = heads_before_repeat(g, before_scales(g, before_casts(g, value), &a->scale));
  value = before_casts(g, before_scales(g, before_casts(g, value), &a->scale));
  return split_cache(g, value, 0, a, &a->k) || take_fresh(p, value, 0, a, &a->k);
}

static bool find_v(const pass *p, longhand *a, int32_t value) {
  const wf_graph *g = p->g;
  value = before_casts(g, heads_before_repeat(g, before_casts(g, value)));
  return split_cache(g, value, 1, a, &a->v) || take_fresh(p, value, 1, a, &a->v);
}

/* softmax -> (cast, or zeros for rows that see nothing) -> product with the values. */
static wf_node *find_product(const wf_graph *g, const wf_node *softmax) {
  int32_t value = softmax->outputs[0];
  for (int depth = 0; depth < 6; depth++) {
    const wf_value *v = g->values.at[value];
    wf_node *next = NULL;
    if (v->is_output) return NULL;
    for (size_t i = 0; i < v->n_users; i++) {
      wf_node *n = g->nodes.at[v->users[i]];
      if (n->op == WF_OP_IS_NAN) continue;
      if (next && next != n) return NULL;
      next = n;
    }
    if (!next) return NULL;
    if (next->op == WF_OP_MATMUL) return next->inputs[0] == value ? next : NULL;
    const bool hides_nan = next->op == WF_OP_WHERE && next->inputs[2] == value &&
                           made_by(g, next->inputs[0], WF_OP_IS_NAN) &&
                           is_const(g, next->inputs[1]);
    if (next->op != WF_OP_CAST && !hides_nan) return NULL;
    value = next->outputs[0];
  }
  return NULL;
}

/* ---- checks ------------------------------------------------------------------------------ */

static int32_t find_layer(const pass *p, const longhand *a) {
  const wf_ports *ports = p->o ? p->o->ports : NULL;
  const wf_graph *g = p->g;
  if (a->past[0] < 0 || a->past[1] < 0) { /* a state that no port names: in order */
    int32_t n = 0;
    for (size_t i = 0; i < g->nodes.n; i++) {
      n += g->nodes.at[i]->op == WF_OP_WEFT_ATTENTION && !g->nodes.at[i]->is_dead;
    }
    return a->past[0] == a->past[1] ? n : -1;
  }
  for (size_t i = 0; ports && i < ports->n_states; i++) {
    const wf_state_ports *s = &ports->states[i];
    if (wf_str_eq(s->past_key, g->values.at[a->past[0]]->name) &&
        wf_str_eq(s->past_value, g->values.at[a->past[1]]->name) &&
        wf_str_eq(s->present_key, g->values.at[a->present[0]]->name) &&
        wf_str_eq(s->present_value, g->values.at[a->present[1]]->name)) {
      return (int32_t)i;
    }
  }
  return -1;
}

static bool same_rotation(const rotation *a, const rotation *b) {
  return a->params.kind == b->params.kind && a->params.dim == b->params.dim &&
         a->params.index == b->params.index && a->cos == b->cos && a->sin == b->sin;
}

static bool check_shapes(const wf_graph *g, longhand *a) {
  return const_dim(g, a->q, 1, &a->n_heads) && const_dim(g, a->k, 1, &a->n_kv_heads) &&
         const_dim(g, a->q, 3, &a->size) && last_dim(g, a->k) == a->size &&
         (a->size_v = last_dim(g, a->v)) > 0 && a->size <= 4096 && a->size_v <= 4096 &&
         a->n_kv_heads > 0 && a->n_heads % a->n_kv_heads == 0 && a->n_heads <= 4096 &&
         g->values.at[a->v]->dims[1] == g->values.at[a->k]->dims[1];
}

static bool find_all(pass *p, longhand *a) {
  wf_graph *g = p->g;
  rotation of_k;
  const int64_t axis = wf_node_attr_i(a->softmax, "axis", -1);
  const wf_value *s = graph_value(g, a->softmax->inputs[0]);
  if (s->rank != 4 || (axis != -1 && axis != 3)) return false;
  a->weights_v = find_product(g, a->softmax);
  if (!a->weights_v || !find_v(p, a, a->weights_v->inputs[1])) return false;
  const wf_node *scores = find_scores(p, a, a->softmax->inputs[0]);
  if (!scores || !find_k(p, a, scores->inputs[1])) return false;
  a->layer = find_layer(p, a);
  if (a->layer < 0) return false;
  a->q = before_scales(g, before_casts(g, scores->inputs[0]), &a->scale);
  /* Scales commute with the rotation, so they may stand on both sides of it. */
  a->k = before_rotation(p, before_scales(g, a->k, &a->scale), &of_k);
  a->q = before_scales(g, before_rotation(p, a->q, &a->rotation), &a->scale);
  if (!same_rotation(&a->rotation, &of_k) || !check_shapes(g, a)) return false;
  return heads_can_turn(g, a->q) && heads_can_turn(g, a->k) && heads_can_turn(g, a->v);
}

/* ---- rewriting --------------------------------------------------------------------------- */

static weft_status rewrite(pass *p, longhand *a) {
  wf_graph *g = p->g;
  int32_t in[9] = {-1, -1, -1, a->rotation.cos, a->rotation.sin, -1, a->past[0], a->past[1], -1};
  WF_RETURN_IF_ERROR(heads_to_tokens(p, a->q, &in[0]));
  WF_RETURN_IF_ERROR(heads_to_tokens(p, a->k, &in[1]));
  WF_RETURN_IF_ERROR(heads_to_tokens(p, a->v, &in[2]));
  if (in[0] < 0 || in[1] < 0 || in[2] < 0) return WEFT_OK;
  const bool has_past = a->past[0] >= 0;
  wf_node *n = graph_new_node(g, WF_OP_WEFT_ATTENTION, 9, in, has_past ? 3 : 1, NULL);
  const wf_value *shape = graph_const_i64(g, (int64_t[]){0, 0, a->n_heads, a->size_v}, 4, 1);
  if (!n || !shape) return graph_no_memory(p->err);
  n->name = a->softmax->name;
  wf_attention_params *q = &n->as.attention;
  *q = (wf_attention_params){.layer = a->layer,
                             .n_heads = (int32_t)a->n_heads,
                             .n_kv_heads = (int32_t)a->n_kv_heads,
                             .head_dim = (int32_t)a->size,
                             .head_dim_v = (int32_t)a->size_v,
                             .scale = (float)a->scale,
                             .softcap = (float)a->softcap,
                             .window = a->window,
                             .rotary = a->rotation.params};
  q->rotary.n_heads = q->n_heads;
  q->rotary.head_dim = q->head_dim;
  if (has_past) {
    take_output(g, n, 1, a->present[0]);
    take_output(g, n, 2, a->present[1]);
  }
  WF_RETURN_IF_ERROR(graph_infer_node(g, n, p->err));
  /* Back to head-major for whoever reads it; the passes cancel this with the export's own way. */
  wf_node *split =
      graph_new_node(g, WF_OP_RESHAPE, 2, (int32_t[]){n->outputs[0], shape->id}, 1, NULL);
  if (!split) return graph_no_memory(p->err);
  wf_node *turn = graph_new_node(g, WF_OP_TRANSPOSE, 1, split->outputs, 1, NULL);
  if (!turn || !graph_set_attr_ints(g, turn, "perm", (const int64_t[]){0, 2, 1, 3}, 4))
    return graph_no_memory(p->err);
  WF_RETURN_IF_ERROR(graph_infer_node(g, split, p->err));
  WF_RETURN_IF_ERROR(graph_infer_node(g, turn, p->err));
  if (!graph_replace(g, a->weights_v->outputs[0], turn->outputs[0])) return graph_no_memory(p->err);
  graph_kill(g, a->weights_v);
  p->changed = true;
  return WEFT_OK;
}

weft_status pass_longhand(pass *p) {
  FOR_NODES(p, n) {
    if (n->op != WF_OP_SOFTMAX || !p->o || !p->o->ports) continue;
    longhand a = {.softmax = n, .mask = -1, .scale = 1};
    if (find_all(p, &a)) WF_RETURN_IF_ERROR(rewrite(p, &a));
  }
  return WEFT_OK;
}
