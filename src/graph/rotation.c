/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary embedding, written out as x * cos + rotate_half(x) * sin or as an operator. */
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

/* Whether the second half of each row of a constant table repeats the first. */
static bool halves_repeat(const wf_tensor *t) {
  if (t->rank < 1 || t->dims[t->rank - 1] < 2 || t->dims[t->rank - 1] % 2) return false;
  const size_t width = (size_t)t->dims[t->rank - 1];
  for (size_t row = 0; row < t->n / width; row++) {
    for (size_t i = 0; i < width / 2; i++) {
      double a, b;
      if (!graph_tensor_f64(t, row * width + i, &a) ||
          !graph_tensor_f64(t, row * width + width / 2 + i, &b))
        return false;
      if (a != b) return false;
    }
  }
  return true;
}

/* Rows of cos or sin whose halves are equal: the product of a frequency list joined to itself. */
static bool has_equal_halves(const wf_graph *g, int32_t value) {
  for (int depth = 0; depth < 12; depth++) {
    const wf_value *v = g->values.at[value];
    if (v->tensor) return halves_repeat(v->tensor);
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
        return joins_last(g, n) && n->inputs[0] == n->inputs[1];
      case WF_OP_GATHER:
        if (wf_node_attr_i(n, "axis", 0) != 0 || g->values.at[n->inputs[0]]->rank != 2)
          return false;
        value = n->inputs[0];
        break;
      case WF_OP_UNSQUEEZE:
      case WF_OP_SQUEEZE:
      case WF_OP_RESHAPE:
        if (last_dim(g, n->inputs[0]) != last_dim(g, value)) return false;
        value = n->inputs[0];
        break;
      default:
        return false;
    }
  }
  return false;
}

/* [B, S, W] (one row a token) of a cos or sin that is broadcast over heads as [B, 1, S, W]. */
static int32_t token_rows(const wf_graph *g, int32_t value) {
  const wf_value *v = g->values.at[value];
  int64_t one;
  if (v->rank != 4 || !const_dim(g, value, 1, &one) || one != 1) return -1;
  const wf_expr rows = v->dims[2];
  value = before_casts(g, value);
  const wf_node *n = graph_producer_of(g, value);
  if (!n || (n->op != WF_OP_UNSQUEEZE && n->op != WF_OP_RESHAPE)) return -1;
  value = n->inputs[0];
  v = g->values.at[value];
  if (v->rank != 3 && v->rank != 2) return -1;
  if (v->dims[v->rank - 2] != rows || last_dim(g, value) != last_dim(g, n->outputs[0])) return -1;
  return before_casts(g, value);
}

static bool matches(const wf_graph *g, const wf_node *plain, const wf_node *turned, int i,
                    rotation *r, int32_t *x) {
  *x = rotated_half_of(g, turned->inputs[i]);
  const int32_t cos = *x < 0 ? -1 : other_input(plain, *x);
  if (cos < 0) return false;
  const int64_t width = last_dim(g, *x);
  if (last_dim(g, cos) != width || last_dim(g, turned->inputs[1 - i]) != width) return false;
  r->cos = token_rows(g, cos);
  r->sin = token_rows(g, turned->inputs[1 - i]);
  if (r->cos < 0 || r->sin < 0 || !has_equal_halves(g, r->cos) || !has_equal_halves(g, r->sin))
    return false;
  r->params = (wf_rotary_params){
      .kind = WF_ROTARY_HALF, .index = WF_ROTARY_BY_TOKEN, .dim = (int32_t)width};
  return true;
}

static int32_t from_longhand(const wf_graph *g, int32_t value, rotation *r) {
  const wf_node *add = made_by(g, value, WF_OP_ADD);
  int32_t x;
  for (int k = 0; add && k < 2; k++) {
    const wf_node *plain = made_by(g, add->inputs[k], WF_OP_MUL),
                  *turned = made_by(g, add->inputs[1 - k], WF_OP_MUL);
    for (int i = 0; plain && turned && i < 2; i++) {
      if (matches(g, plain, turned, i, r, &x)) return x;
    }
  }
  return -1;
}

/* Only the first part of each head turns: concat(rotated(lower(x)), upper(x)). */
static int32_t from_partial(const wf_graph *g, int32_t value, rotation *r) {
  const wf_node *join = made_by(g, value, WF_OP_CONCAT);
  if (!join || !joins_last(g, join)) return -1;
  const int32_t lower = from_longhand(g, join->inputs[0], r);
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

int32_t before_rotation(pass *p, int32_t value, rotation *r) {
  *r = (rotation){.cos = -1, .sin = -1};
  const int32_t bare = before_casts(p->g, value);
  int32_t x = from_longhand(p->g, bare, r);
  if (x < 0) x = from_partial(p->g, bare, r);
  if (x < 0) x = from_operator(p, bare, r);
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
