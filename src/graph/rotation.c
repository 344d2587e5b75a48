/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary embedding, written out as x * cos + turned(x) * sin, of halves or of pairs, or as an
 * operator. */
#include <string.h>

#include "graph/heads.h"
#include "graph/prove.h"

/* value = the lower or upper part of x along the last axis, cut at `at`. */
static bool is_part(const wf_graph *g, int32_t value, int32_t x, bool is_upper, int64_t at) {
  const wf_node *n = graph_producer_of(g, value);
  const wf_value *v = g->values.at[x];
  const int64_t width = last_dim(g, x);
  if (!n || n->inputs[0] != x || last_dim(g, value) != (is_upper ? width - at : at)) return false;
  if (n->op == WF_OP_SPLIT) {
    const int64_t axis = wf_node_attr_i(n, "axis", 0);
    return n->n_outputs == 2 && (axis == -1 || axis == v->rank - 1) &&
           n->outputs[is_upper ? 1 : 0] == value;
  }
  int64_t start = -1, axis = 0, step = 1;
  int32_t count;
  if (n->op != WF_OP_SLICE) return false;
  if (!graph_const_ints(g, wf_node_input(n, 1), &start, 1, &count) || count != 1) return false;
  if (!graph_const_ints(g, wf_node_input(n, 3), &axis, 1, &count) || count != 1) return false;
  if (wf_node_input(n, 4) >= 0 &&
      (!graph_const_ints(g, n->inputs[4], &step, 1, &count) || count != 1))
    return false;
  if (start < 0) start += width;
  return step == 1 && (axis == -1 || axis == v->rank - 1) && start == (is_upper ? at : 0);
}

/* The value that a two-part cut was made of. */
static int32_t cut_of(const wf_graph *g, int32_t value) {
  const wf_node *n = graph_producer_of(g, value);
  return n && (n->op == WF_OP_SLICE || n->op == WF_OP_SPLIT) ? n->inputs[0] : -1;
}

static bool joins_last(const wf_graph *g, const wf_node *n) {
  const wf_value *y = g->values.at[n->outputs[0]];
  const int64_t axis = wf_node_attr_i(n, "axis", 0);
  return n->n_inputs == 2 && y->rank > 0 && (axis == -1 || axis == y->rank - 1);
}

/* value = concat(-upper(x), lower(x)): gives x. */
static int32_t rotated_half_of(const wf_graph *g, int32_t value) {
  const wf_node *join = made_by(g, value, WF_OP_CONCAT);
  if (!join || !joins_last(g, join)) return -1;
  int32_t upper;
  const wf_node *neg = made_by(g, join->inputs[0], WF_OP_NEG);
  if (neg) {
    upper = neg->inputs[0];
  } else {
    double scale = 1;
    upper = before_scales(g, join->inputs[0], &scale);
    if (scale != -1) return -1;
  }
  const int32_t x = cut_of(g, upper);
  const int64_t width = x < 0 ? -1 : last_dim(g, x);
  if (width < 2 || width % 2) return -1;
  return is_part(g, upper, x, true, width / 2) && is_part(g, join->inputs[1], x, false, width / 2)
             ? x
             : -1;
}

/* value = every second element of x along the last axis, from `start` on. */
static bool is_every_second(const wf_graph *g, int32_t value, int32_t x, int64_t start) {
  const wf_node *n = made_by(g, value, WF_OP_SLICE);
  int64_t v[4] = {0};
  int32_t count;
  if (!n || n->inputs[0] != x) return false;
  for (int32_t i = 1; i <= 4; i++) {
    if (!graph_const_ints(g, wf_node_input(n, i), &v[i - 1], 1, &count) || count != 1) return false;
  }
  return v[0] == start && v[1] >= last_dim(g, x) && v[3] == 2 &&
         (v[2] == -1 || v[2] == g->values.at[x]->rank - 1);
}

/* value = x with an axis of one behind its last: gives x. */
static int32_t before_new_axis(const wf_graph *g, int32_t value) {
  const wf_node *n = graph_producer_of(g, value);
  if (!n || (n->op != WF_OP_UNSQUEEZE && n->op != WF_OP_RESHAPE)) return -1;
  const wf_value *x = g->values.at[n->inputs[0]], *y = g->values.at[value];
  if (x->rank < 1 || y->rank != x->rank + 1 || last_dim(g, value) != 1) return -1;
  for (int32_t i = 0; i < x->rank; i++) {
    if (x->dims[i] < 0 || x->dims[i] != y->dims[i]) return -1;
  }
  return x->id;
}

/* value = reshape(concat(-odd(x), even(x)) along a new last axis): gives x. */
static int32_t rotated_pairs_of(const wf_graph *g, int32_t value) {
  const wf_node *join = made_by(g, value, WF_OP_RESHAPE);
  const wf_node *stack = join ? made_by(g, join->inputs[0], WF_OP_CONCAT) : NULL;
  if (!stack || !joins_last(g, stack)) return -1;
  int32_t odd = before_new_axis(g, stack->inputs[0]);
  const int32_t even = before_new_axis(g, stack->inputs[1]);
  if (odd < 0 || even < 0) return -1;
  const wf_node *neg = made_by(g, odd, WF_OP_NEG);
  double scale = -1;
  odd = neg ? neg->inputs[0] : before_scales(g, odd, &scale);
  if (!neg && scale != 1) return -1;
  const int32_t x = cut_of(g, odd);
  const int64_t width = x < 0 ? -1 : last_dim(g, x);
  if (width < 2 || width % 2 || !same_shape(g, value, x)) return -1;
  return is_every_second(g, odd, x, 1) && is_every_second(g, even, x, 0) ? x : -1;
}

/* Whether each row of a constant table says each number twice: the second half as the first, or
 * each element with its neighbour. */
static bool table_repeats(const wf_tensor *t, wf_rotary_kind kind) {
  if (t->rank < 1 || t->dims[t->rank - 1] < 2 || t->dims[t->rank - 1] % 2) return false;
  const size_t width = (size_t)t->dims[t->rank - 1];
  for (size_t row = 0; row < t->n / width; row++) {
    for (size_t i = 0; i < width / 2; i++) {
      const size_t first = kind == WF_ROTARY_HALF ? i : 2 * i,
                   second = kind == WF_ROTARY_HALF ? width / 2 + i : 2 * i + 1;
      double a, b;
      if (!graph_tensor_f64(t, row * width + first, &a) ||
          !graph_tensor_f64(t, row * width + second, &b))
        return false;
      if (a != b) return false;
    }
  }
  return true;
}

/* value = reshape(x repeated twice along a new last axis). */
static bool is_pair_repeat(const wf_graph *g, int32_t value) {
  const wf_node *join = made_by(g, value, WF_OP_RESHAPE);
  const wf_node *n = join ? graph_producer_of(g, join->inputs[0]) : NULL;
  if (!n || (n->op != WF_OP_EXPAND && n->op != WF_OP_TILE &&
             (n->op != WF_OP_CONCAT || !joins_last(g, n) || n->inputs[0] != n->inputs[1])))
    return false;
  const int32_t x = n->op == WF_OP_CONCAT ? before_new_axis(g, n->inputs[0])
                                          : before_new_axis(g, wf_node_input(n, 0));
  /* the reshape joins nothing but the pairs */
  return x >= 0 && last_dim(g, n->outputs[0]) == 2 && last_dim(g, x) > 0 &&
         last_dim(g, value) == 2 * last_dim(g, x);
}

/* Rows of cos or sin that say each number twice: the product of a frequency list joined to itself,
 * or with each element repeated. */
static bool is_repeated(const wf_graph *g, int32_t value, wf_rotary_kind kind) {
  for (int depth = 0; depth < 12; depth++) {
    const wf_value *v = g->values.at[value];
    if (v->tensor) return table_repeats(v->tensor, kind);
    const wf_node *n = graph_producer_of(g, value);
    if (!n) return false;
    double s = 1;
    switch ((int)n->op) {
      case WF_OP_CAST:
      case WF_OP_COS:
      case WF_OP_SIN:
        value = n->inputs[0];
        break;
      case WF_OP_MUL:
      case WF_OP_DIV: {
        const int32_t before = before_scales(g, value, &s);
        if (before == value) return false;
        value = before;
        break;
      }
      case WF_OP_CONCAT:
        return kind == WF_ROTARY_HALF && joins_last(g, n) && n->inputs[0] == n->inputs[1];
      case WF_OP_GATHER:
        if (wf_node_attr_i(n, "axis", 0) != 0 || g->values.at[n->inputs[0]]->rank != 2)
          return false;
        value = n->inputs[0];
        break;
      case WF_OP_UNSQUEEZE:
      case WF_OP_SQUEEZE:
      case WF_OP_RESHAPE:
        if (kind == WF_ROTARY_INTERLEAVED && is_pair_repeat(g, value)) return true;
        if (last_dim(g, n->inputs[0]) != last_dim(g, value)) return false;
        value = n->inputs[0];
        break;
      default:
        return false;
    }
  }
  return false;
}

/* A node of this operator over `value` and constants: one that is there, or a new one, so that the
 * same question has the same answer. -1: no memory or no shape. */
static int32_t with_constants(pass *p, wf_op op, int32_t value, const int64_t *const *lists,
                              const int32_t *counts, int32_t n_lists) {
  wf_graph *g = p->g;
  const wf_value *v = g->values.at[value];
  for (size_t u = 0; u < v->n_users; u++) {
    const wf_node *n = g->nodes.at[v->users[u]];
    bool is_same =
        !n->is_dead && n->op == op && n->inputs[0] == value && n->n_inputs == n_lists + 1;
    for (int32_t i = 0; i < n_lists && is_same; i++) {
      int64_t have[4];
      int32_t count;
      is_same = graph_const_ints(g, n->inputs[i + 1], have, 4, &count) && count == counts[i] &&
                memcmp(have, lists[i], (size_t)count * sizeof *have) == 0;
    }
    if (is_same) return n->outputs[0];
  }
  int32_t in[5] = {value};
  for (int32_t i = 0; i < n_lists; i++) {
    const wf_value *c = graph_const_i64(g, lists[i], counts[i], 1);
    if (!c) return -1;
    in[i + 1] = c->id;
  }
  wf_node *made = graph_new_node(g, op, n_lists + 1, in, 1, NULL);
  if (!made || graph_infer_node(g, made, p->err) != WEFT_OK) return -1;
  return made->outputs[0];
}

/* [B, S, W] (one row a token) of a cos or sin that is broadcast over heads as [B, 1, S, W], or
 * [B, S, 1, W] where the heads lie inside of the tokens. */
static int32_t token_rows(pass *p, int32_t value, int32_t heads_axis) {
  wf_graph *g = p->g;
  const wf_value *v = g->values.at[value];
  int64_t one;
  if (v->rank != 4 || !const_dim(g, value, heads_axis, &one) || one != 1) return -1;
  const wf_expr rows = v->dims[3 - heads_axis];
  const int64_t width = last_dim(g, value);
  value = before_casts(g, value);
  const wf_node *n = graph_producer_of(g, value);
  if (n && (n->op == WF_OP_UNSQUEEZE || n->op == WF_OP_RESHAPE)) {
    const wf_value *x = g->values.at[n->inputs[0]];
    if ((x->rank == 3 || x->rank == 2) && x->dims[x->rank - 2] == rows &&
        last_dim(g, x->id) == width)
      return before_casts(g, x->id);
  }
  const int64_t shape[3] = {0, heads_axis == 1 ? -1 : 0, width};
  return with_constants(p, WF_OP_RESHAPE, value, (const int64_t *const[]){shape},
                        (const int32_t[]){3}, 1);
}

/* One number a pair: of rows that say each twice, every second one, as the kernels read them. */
static int32_t one_of_each_pair(pass *p, int32_t rows) {
  static const int64_t start = 0, end = INT64_MAX, axis = -1, step = 2;
  return with_constants(p, WF_OP_SLICE, rows, (const int64_t *const[]){&start, &end, &axis, &step},
                        (const int32_t[]){1, 1, 1, 1}, 4);
}

static bool matches(pass *p, const wf_node *plain, const wf_node *turned, int i, int32_t heads_axis,
                    rotation *r, int32_t *x) {
  const wf_graph *g = p->g;
  wf_rotary_kind kind = WF_ROTARY_HALF;
  *x = rotated_half_of(g, turned->inputs[i]);
  if (*x < 0) {
    kind = WF_ROTARY_INTERLEAVED;
    *x = rotated_pairs_of(g, turned->inputs[i]);
  }
  const int32_t cos = *x < 0 ? -1 : other_input(plain, *x), sin = turned->inputs[1 - i];
  if (cos < 0) return false;
  const int64_t width = last_dim(g, *x);
  if (last_dim(g, cos) != width || last_dim(g, sin) != width || !is_repeated(g, cos, kind) ||
      !is_repeated(g, sin, kind))
    return false;
  r->cos = token_rows(p, cos, heads_axis);
  r->sin = token_rows(p, sin, heads_axis);
  if (r->cos < 0 || r->sin < 0) return false;
  if (kind == WF_ROTARY_INTERLEAVED) {
    r->cos = one_of_each_pair(p, r->cos);
    r->sin = one_of_each_pair(p, r->sin);
    if (r->cos < 0 || r->sin < 0) return false;
  }
  r->params = (wf_rotary_params){.kind = kind, .index = WF_ROTARY_BY_TOKEN, .dim = (int32_t)width};
  return true;
}

static int32_t from_longhand(pass *p, int32_t value, int32_t heads_axis, rotation *r) {
  const wf_graph *g = p->g;
  const wf_node *add = made_by(g, value, WF_OP_ADD);
  int32_t x;
  for (int k = 0; add && k < 2; k++) {
    const wf_node *plain = made_by(g, add->inputs[k], WF_OP_MUL),
                  *turned = made_by(g, add->inputs[1 - k], WF_OP_MUL);
    for (int i = 0; plain && turned && i < 2; i++) {
      if (matches(p, plain, turned, i, heads_axis, r, &x)) return x;
    }
  }
  return -1;
}

/* Only the first part of each head turns: concat(rotated(lower(x)), upper(x)). */
static int32_t from_partial(pass *p, int32_t value, int32_t heads_axis, rotation *r) {
  const wf_graph *g = p->g;
  const wf_node *join = made_by(g, value, WF_OP_CONCAT);
  if (!join || !joins_last(g, join)) return -1;
  const int32_t lower = from_longhand(p, before_casts(g, join->inputs[0]), heads_axis, r);
  const int32_t x = lower < 0 ? -1 : cut_of(g, lower);
  if (x < 0 || !is_part(g, lower, x, false, r->params.dim)) return -1;
  return is_part(g, join->inputs[1], x, true, r->params.dim) ? x : -1;
}

/* RotaryEmbedding of either domain over [B, heads, S, size]. */
static int32_t from_operator(pass *p, int32_t value, rotation *r) {
  wf_graph *g = p->g;
  const wf_node *n = graph_producer_of(g, value);
  if (!n || (n->op != WF_OP_MS_ROTARY_EMBEDDING && n->op != WF_OP_ROTARY_EMBEDDING)) return -1;
  const bool is_ms = n->op == WF_OP_MS_ROTARY_EMBEDDING;
  const int32_t x = wf_node_input(n, 0), positions = wf_node_input(n, is_ms ? 1 : 3);
  r->cos = wf_node_input(n, is_ms ? 2 : 1);
  r->sin = wf_node_input(n, is_ms ? 3 : 2);
  if (x < 0 || r->cos < 0 || r->sin < 0 || g->values.at[x]->rank != 4) return -1;
  if (wf_node_attr_f(n, "scale", 1.0f) != 1.0f || wf_node_attr_i(n, "is_packed_batching", 0))
    return -1;
  const int64_t half = last_dim(g, r->cos), size = last_dim(g, x);
  const int64_t dim = wf_node_attr_i(n, "rotary_embedding_dim", 0);
  if (half < 1 || half > 4096 || (dim ? dim != 2 * half : 2 * half != size)) return -1;
  r->params = (wf_rotary_params){
      .kind = wf_node_attr_i(n, "interleaved", 0) ? WF_ROTARY_INTERLEAVED : WF_ROTARY_HALF,
      .index = positions < 0 ? WF_ROTARY_BY_TOKEN : WF_ROTARY_BY_POSITION,
      .dim = (int32_t)(2 * half)};
  if (positions >= 0)
    return g->values.at[r->cos]->rank == 2 && prove_positions(p, positions) ? x : -1;
  return g->values.at[r->cos]->rank == 3 ? x : -1;
}

/* Rotated with the heads inside of the tokens, then turned: gives what was rotated, turned. */
static int32_t from_token_major(pass *p, int32_t value, rotation *r) {
  wf_graph *g = p->g;
  static const int64_t perm[] = {0, 2, 1, 3};
  const int32_t inner = transposed_by(g, value, perm, 4);
  if (inner < 0) return -1;
  const int32_t bare = before_casts(g, inner);
  int32_t x = from_longhand(p, bare, 2, r);
  if (x < 0) x = from_partial(p, bare, 2, r);
  if (x < 0) return -1;
  wf_node *turn = graph_new_node(g, WF_OP_TRANSPOSE, 1, &x, 1, NULL);
  if (!turn || !graph_set_attr_ints(g, turn, "perm", perm, 4) ||
      graph_infer_node(g, turn, p->err) != WEFT_OK)
    return -1;
  return turn->outputs[0];
}

int32_t before_rotation(pass *p, int32_t value, rotation *r) {
  *r = (rotation){.cos = -1, .sin = -1};
  const int32_t bare = before_casts(p->g, value);
  int32_t x = from_longhand(p, bare, 1, r);
  if (x < 0) x = from_partial(p, bare, 1, r);
  if (x < 0) x = from_operator(p, bare, r);
  if (x < 0) x = from_token_major(p, bare, r);
  if (x >= 0) return x;
  *r = (rotation){.cos = -1, .sin = -1};
  return value;
}

/* RotaryEmbedding of either domain over [B, S, heads * size] as a node of its own. */
static weft_status from_flat(pass *p, wf_node *n) {
  wf_graph *g = p->g;
  const bool is_ms = n->op == WF_OP_MS_ROTARY_EMBEDDING;
  const int32_t x = wf_node_input(n, 0), positions = wf_node_input(n, is_ms ? 1 : 3);
  const int32_t in[3] = {x, wf_node_input(n, is_ms ? 2 : 1), wf_node_input(n, is_ms ? 3 : 2)};
  if (x < 0 || in[1] < 0 || in[2] < 0 || positions < 0 || g->values.at[x]->rank != 3)
    return WEFT_OK;
  if (wf_node_attr_f(n, "scale", 1.0f) != 1.0f || wf_node_attr_i(n, "is_packed_batching", 0)) {
    return WEFT_OK;
  }
  const int64_t half = last_dim(g, in[1]), width = last_dim(g, x);
  int64_t heads = wf_node_attr_i(n, "num_heads", 0);
  const int64_t dim = wf_node_attr_i(n, "rotary_embedding_dim", 0);
  if (half < 1 || half > 4096 || width < 2 || last_dim(g, in[2]) != half) return WEFT_OK;
  if (heads == 0 && dim == 0) heads = width / (2 * half);
  if (heads < 1 || heads > 4096 || width % heads || width / heads < 2 * half) return WEFT_OK;
  if (dim ? dim != 2 * half : width / heads != 2 * half) return WEFT_OK;
  if (g->values.at[in[1]]->rank != 2 || !prove_positions(p, positions)) return WEFT_OK;
  const int32_t out = n->outputs[0];
  const wf_rotary_params params = {
      .kind = wf_node_attr_i(n, "interleaved", 0) ? WF_ROTARY_INTERLEAVED : WF_ROTARY_HALF,
      .index = WF_ROTARY_BY_POSITION,
      .dim = (int32_t)(2 * half),
      .n_heads = (int32_t)heads,
      .head_dim = (int32_t)(width / heads)};
  const wf_str name = n->name;
  graph_kill(g, n);
  wf_node *made = graph_new_node(g, WF_OP_WEFT_ROTARY, 3, in, 1, &out);
  if (!made) return graph_no_memory(p->err);
  made->as.rotary = params;
  made->name = name;
  p->changed = true;
  return WEFT_OK;
}

weft_status pass_rotary(pass *p) {
  if (!p->o || !p->o->ports) return WEFT_OK;
  FOR_NODES(p, n) {
    if (n->op == WF_OP_MS_ROTARY_EMBEDDING || n->op == WF_OP_ROTARY_EMBEDDING) {
      WF_RETURN_IF_ERROR(from_flat(p, n));
    }
  }
  return WEFT_OK;
}
