/* SPDX-License-Identifier: Apache-2.0 */
/* One function an operator: the steps that a node of the packed graph becomes. A rule that does not
 * fit leaves *is_done false, and the node runs as the general operator on member 0. */
#include <string.h>

#include "backend/native/lower.h"

static weft_status no_memory(weft_error *err) {
  return wf_fail_memory(err, sizeof(wf_step), "lowering the graph");
}

/* ---- products ----------------------------------------------------------------------------------
 */

weft_status wf_lower_act(wf_lowering *l, const wf_place *x, const wf_act_kind *kind, int32_t *slot,
                         weft_error *err) {
  for (size_t i = 0; i < l->acts.n; i++) {
    const wf_shared_act *a = &l->acts.at[i];
    if (a->loc.slot == x->loc.slot && a->loc.column == x->loc.column && a->kind.id == kind->id &&
        a->kind.block_size == kind->block_size && a->kind.k == kind->k) {
      *slot = a->slot;
      return WEFT_OK;
    }
  }
  *slot = wf_lower_slot(l, x->axis, 1, 1);
  if (*slot < 0) return no_memory(err);
  l->slots.at[*slot].is_act = true;
  l->slots.at[*slot].act = *kind;
  const wf_shared_act a = {x->loc, *kind, *slot};
  if (!wf_vec_push(&l->acts, a)) return no_memory(err);
  if (wf_lower_pack_too(l, x, *slot)) return WEFT_OK;
  wf_step s = {.fn = wf_step_act_pack,
               .split = WF_SPLIT_ROWS,
               .axis = x->axis,
               .n_in = 1,
               .in = {x->loc},
               .n_out = 1,
               .out = {{*slot, 0}},
               .width = kind->k};
  return wf_lower_emit(l, &s, err);
}

/* The only user of a product may be a sum with a value that is there already: then the product adds
 * it while storing, and the sum costs no pass of its own. */
static bool find_residual(wf_lowering *l, const wf_node *n, int64_t width, wf_axis axis,
                          wf_place *residual, int32_t *sum) {
  const wf_value *y = wf_graph_value(l->g, wf_node_output(n, 0));
  if (y->n_users != 1 || y->is_output) return false;
  const wf_node *user = l->g->nodes.at[y->users[0]];
  int32_t other = -1;
  if (user->op == WF_OP_WEFT_NORM && wf_node_input(user, 2) < 0 && wf_node_input(user, 1) >= 0) {
    /* Only a norm that surely becomes a step of its own knows that the sum is made. */
    for (int32_t i = 3; i < 5; i++) {
      if (wf_node_input(user, i) < 0) continue;
      const wf_tensor *t = wf_const_of(l->g, wf_node_input(user, i), NULL);
      if (!t || (int64_t)t->n != width || wf_dtype_held(t->dtype) != WF_DTYPE_F32) return false;
    }
    int64_t last = 0;
    if (!wf_expr_is_const(l->g->exprs, y->dims[y->rank - 1], &last) || last != width) return false;
    *sum = wf_node_output(user, 1);
  } else if (user->op == WF_OP_ADD) {
    *sum = wf_node_output(user, 0);
    wf_axis sum_axis;
    int64_t sum_width = 0;
    if (!wf_lower_rows(l, *sum, &sum_axis, &sum_width) || sum_width != width) return false;
  } else {
    return false;
  }
  other = wf_node_input(user, 0) == y->id ? wf_node_input(user, 1) : wf_node_input(user, 0);
  return other != y->id && wf_lower_find(l, other, residual) && residual->width == width &&
         residual->axis == axis;
}

weft_status wf_lower_linear(wf_lowering *l, const wf_node *n, bool *is_done, weft_error *err) {
  const wf_weight_use use = l->uses[n->id];
  wf_place x, y;
  wf_axis axis;
  int64_t width = 0;
  if (use.weight < 0) return WEFT_OK;
  const wf_weight *w = &l->c->weights[use.weight];
  const int32_t out = wf_node_output(n, 0);
  const int64_t own_n = use.is_merged ? -1 : w->n;
  if (!wf_lower_find(l, wf_node_input(n, 0), &x) || !wf_lower_rows(l, out, &axis, &width) ||
      axis != x.axis || x.width != w->k || (own_n >= 0 && width != own_n)) {
    return WEFT_OK;
  }
  *is_done = true;
  if (use.is_merged && l->merged_slots[use.weight] >= 0) {
    y = (wf_place){true, true, {l->merged_slots[use.weight], use.column}, axis, width};
    wf_lower_set(l, out, &y);
    return WEFT_OK;
  }
  int32_t act = -1;
  WF_RETURN_IF_ERROR(wf_lower_act(l, &x, &w->packed.act, &act, err));
  wf_step s = {.fn = wf_step_linear,
               .split = WF_SPLIT_COLS,
               .axis = axis,
               .n_in = 1,
               .in = {{act, 0}},
               .width = w->n};
  s.as.linear.weight = use.weight;
  if (!use.is_merged && out == l->c->packed.logits && axis == WF_AXIS_SELECTED) {
    WF_RETURN_IF_ERROR(wf_lower_vocab(l, w->n, err));
    s.fn = wf_step_head;
    s.as.linear.is_head = true;
    l->head_done = true;
    return wf_lower_emit(l, &s, err);
  }
  if (use.is_merged) {
    const int32_t slot = wf_lower_slot(l, axis, w->n, sizeof(float));
    if (slot < 0) return no_memory(err);
    l->merged_slots[use.weight] = slot;
    y = (wf_place){true, true, {slot, use.column}, axis, width};
    wf_lower_set(l, out, &y);
    s.n_out = 1;
    s.out[0] = (wf_loc){slot, 0};
    return wf_lower_emit(l, &s, err);
  }
  wf_place residual;
  int32_t sum = -1;
  if (find_residual(l, n, width, axis, &residual, &sum)) {
    /* The product's own value is never seen; whoever reads the sum finds it placed. */
    WF_RETURN_IF_ERROR(wf_lower_place(l, out, axis, width, &y, err));
    wf_lower_set(l, sum, &y);
    s.as.linear.has_residual = true;
    s.n_in = 2;
    s.in[1] = residual.loc;
  } else {
    WF_RETURN_IF_ERROR(wf_lower_place(l, out, axis, width, &y, err));
  }
  s.n_out = 1;
  s.out[0] = y.loc;
  return wf_lower_emit(l, &s, err);
}

/* ---- norms -------------------------------------------------------------------------------------
 */

bool wf_lower_const(wf_lowering *l, int32_t value, int64_t n, const float **result) {
  *result = NULL;
  if (value < 0) return true;
  const wf_tensor *t = wf_const_of(l->g, value, NULL);
  if (!t || (int64_t)t->n != n) return false;
  *result = wf_const_f32(l->c, t);
  return *result != NULL;
}

/* True when a product has already added the two operands of this norm. */
static bool sum_is_there(const wf_lowering *l, const wf_node *n, wf_place *sum) {
  if (wf_node_input(n, 1) < 0 || wf_node_input(n, 2) >= 0) return false;
  for (int i = 0; i < 2; i++) {
    const wf_node *p = wf_graph_producer(l->g, wf_node_input(n, i));
    if (!p || l->uses[p->id].weight < 0 || l->uses[p->id].is_merged) continue;
    wf_place a;
    if (!wf_lower_find(l, wf_node_input(n, i), &a)) continue;
    for (size_t j = l->steps.n; j-- > 0;) {
      const wf_step *s = &l->steps.at[j];
      if (s->fn == wf_step_linear && s->n_out == 1 && s->out[0].slot == a.loc.slot) {
        if (s->as.linear.has_residual) {
          *sum = a;
          return true;
        }
        break;
      }
    }
  }
  return false;
}

weft_status wf_lower_norm(wf_lowering *l, const wf_node *n, bool *is_done, weft_error *err) {
  wf_place x, skip, sum, y;
  const int32_t x_id = wf_node_input(n, 0), skip_id = wf_node_input(n, 1);
  const wf_value *xv = wf_graph_value(l->g, x_id);
  int64_t d = 0;
  if (!wf_lower_find(l, x_id, &x) || xv->rank < 1 ||
      !wf_expr_is_const(l->g->exprs, xv->dims[xv->rank - 1], &d) || d <= 0 || x.width % d != 0) {
    return WEFT_OK;
  }
  wf_step s = {.fn = wf_step_norm, .split = WF_SPLIT_ROWS, .axis = x.axis, .width = x.width};
  wf_norm_step *p = &s.as.norm;
  p->kind = n->as.norm.kind;
  p->epsilon = n->as.norm.epsilon;
  p->n = d;
  p->n_groups = (int32_t)(x.width / d);
  if (!wf_lower_const(l, wf_node_input(n, 2), d, &p->bias) ||
      !wf_lower_const(l, wf_node_input(n, 3), d, &p->weight) ||
      !wf_lower_const(l, wf_node_input(n, 4), d, &p->shift)) {
    return WEFT_OK;
  }
  if (!p->weight && p->kind == WF_NORM_RMS) {
    float *ones = wf_arena_calloc(l->c->arena, (size_t)d, sizeof *ones);
    if (!ones) return no_memory(err);
    for (int64_t i = 0; i < d; i++) ones[i] = 1;
    p->weight = ones;
  }
  const bool is_summed = sum_is_there(l, n, &sum);
  if (is_summed) x = sum;
  const bool has_skip = skip_id >= 0 && !is_summed;
  if (has_skip && (!wf_lower_find(l, skip_id, &skip) || skip.axis != x.axis ||
                   skip.width != x.width || p->n_groups != 1)) {
    return WEFT_OK;
  }
  if (!has_skip && p->bias) return WEFT_OK;
  *is_done = true;
  s.n_in = 3;
  s.in[0] = x.loc;
  s.in[1] = has_skip ? skip.loc : (wf_loc){-1, 0};
  s.in[2] = (wf_loc){-1, 0};
  WF_RETURN_IF_ERROR(wf_lower_place(l, wf_node_output(n, 0), x.axis, x.width, &y, err));
  s.n_out = 2;
  s.out[0] = y.loc;
  s.out[1] = (wf_loc){-1, 0};
  if (has_skip) {
    /* The sum always has a place: the norm reads it back. */
    WF_RETURN_IF_ERROR(wf_lower_place(l, wf_node_output(n, 1), x.axis, x.width, &sum, err));
    s.out[1] = sum.loc;
  } else if (wf_node_output(n, 1) >= 0) {
    wf_lower_set(l, wf_node_output(n, 1), &x);
  }
  return wf_lower_emit(l, &s, err);
}

/* ---- embeddings --------------------------------------------------------------------------------
 */

static bool is_ids(const wf_lowering *l, int32_t value) {
  for (int depth = 0; depth < 16 && value >= 0; depth++) {
    if (value == l->c->packed.input_ids) return true;
    const wf_node *p = wf_graph_producer(l->g, value);
    if (!p || (p->op != WF_OP_CAST && p->op != WF_OP_IDENTITY && p->op != WF_OP_RESHAPE &&
               p->op != WF_OP_SQUEEZE && p->op != WF_OP_UNSQUEEZE)) {
      return false;
    }
    value = wf_node_input(p, 0);
  }
  return false;
}

static bool quantised_table(wf_lowering *l, const wf_node *n, wf_table *t) {
  const wf_tensor *data = wf_const_of(l->g, wf_node_input(n, 0), NULL);
  const wf_tensor *scales = wf_const_of(l->g, wf_node_input(n, 2), NULL);
  const wf_tensor *zeros = wf_const_of(l->g, wf_node_input(n, 3), NULL);
  const wf_tensor *offsets = wf_const_of(l->g, wf_node_input(n, WF_GATHER_BLOCK_OFFSETS), NULL);
  const int64_t bits = wf_node_attr_i(n, "bits", 4), bs = wf_node_attr_i(n, "block_size", 128);
  const wf_value *y = wf_graph_value(l->g, wf_node_output(n, 0));
  int64_t width = 0;
  if (wf_node_attr_i(n, "gather_axis", 0) != 0 || !data || !scales || !data->data ||
      data->dtype != WF_DTYPE_U8 || (bits != 4 && bits != 8 && bits != 2) || scales->rank != 2 ||
      y->rank < 1 || !wf_expr_is_const(l->g->exprs, y->dims[y->rank - 1], &width) || width <= 0 ||
      bs < 16 || width % bs != 0) {
    return false;
  }
  const int64_t q_axis = wf_node_attr_i(n, "quantize_axis", 1);
  if (q_axis != 1 && q_axis != -1) return false;
  const int64_t rows = scales->dims[0], blocks = width / bs;
  const size_t zero_row = (size_t)((blocks * bits + 7) / 8);
  if ((int64_t)scales->n != rows * blocks || (int64_t)data->n_bytes != rows * width * bits / 8) {
    return false;
  }
  if (wf_node_input(n, 3) >= 0 &&
      (!zeros || zeros->dtype != WF_DTYPE_U8 || zeros->n_bytes != (size_t)rows * zero_row)) {
    return false;
  }
  if (wf_node_input(n, WF_GATHER_BLOCK_OFFSETS) >= 0 &&
      (!offsets || (int64_t)offsets->n != rows * blocks)) {
    return false;
  }
  t->n = rows;
  t->width = width;
  t->desc = (wf_weight_desc){.format = WF_WEIGHT_NBITS,
                             .n = rows,
                             .k = width,
                             .data = data->data,
                             .bits = (int)bits,
                             .block_size = (int)bs};
  t->desc.scales = wf_const_f32(l->c, scales);
  if (zeros) t->desc.zeros_packed = zeros->data;
  if (offsets) {
    /* The kernel wants [n_blocks, rows], the operator has [rows, n_blocks]. */
    const float *src = wf_const_f32(l->c, offsets);
    if (wf_node_attr_i(n, WF_GATHER_OFFSETS_BY_BLOCK, 0)) { /* shared with a tied head */
      t->desc.offsets = src;
      return src && t->desc.scales;
    }
    float *flipped = wf_arena_calloc(l->c->arena, offsets->n, sizeof *flipped);
    if (!src || !flipped) return false;
    for (int64_t r = 0; r < rows; r++) {
      for (int64_t b = 0; b < blocks; b++) flipped[b * rows + r] = src[r * blocks + b];
    }
    t->desc.offsets = flipped;
  }
  return t->desc.scales != NULL;
}

static bool dense_table(wf_lowering *l, const wf_node *n, wf_table *t) {
  bool is_transposed = false;
  const wf_tensor *data = wf_const_of(l->g, wf_node_input(n, 0), &is_transposed);
  const int64_t axis = wf_node_attr_i(n, "axis", 0);
  const wf_value *v = wf_graph_value(l->g, wf_node_input(n, 0));
  if (!data || !data->data || data->rank != 2 || !v || v->rank != 2 || axis != 0) return false;
  if (data->dtype != WF_DTYPE_F32 && data->dtype != WF_DTYPE_F16 && data->dtype != WF_DTYPE_BF16) {
    return false;
  }
  if (((uintptr_t)data->data & 3) != 0) return false;
  t->n = data->dims[is_transposed ? 1 : 0];
  t->width = data->dims[is_transposed ? 0 : 1];
  t->desc = (wf_weight_desc){
      .n = t->n, .k = t->width, .data = data->data, .is_transposed = is_transposed};
  t->desc.format = data->dtype == WF_DTYPE_F32   ? WF_WEIGHT_F32
                   : data->dtype == WF_DTYPE_F16 ? WF_WEIGHT_F16
                                                 : WF_WEIGHT_BF16;
  return true;
}

/* The packed head that is this very table, so that the file's copy is never read beside it. */
static const wf_packed_weight *tied_head(const wf_lowering *l, const wf_table *t) {
  for (size_t i = 0; i < l->c->n_weights; i++) {
    const wf_weight *w = &l->c->weights[i];
    const wf_tensor *data = w->n_parts == 1 ? w->parts[0].data : NULL;
    if (!data || data->data != t->desc.data || w->n != t->n || w->k != t->width) continue;
    const bool is_nbits = t->desc.format == WF_WEIGHT_NBITS;
    if (is_nbits && (w->bits != t->desc.bits || w->block_size != t->desc.block_size)) continue;
    if (is_nbits &&
        (!w->parts[0].scales || wf_const_f32(l->c, w->parts[0].scales) != t->desc.scales)) {
      continue;
    }
    if (wf_packed_can_gather(&w->packed)) return &w->packed;
  }
  return NULL;
}

weft_status wf_lower_gather(wf_lowering *l, const wf_node *n, bool *is_done, weft_error *err) {
  if (!is_ids(l, wf_node_input(n, 1))) return WEFT_OK;
  wf_table *t = wf_arena_calloc(l->c->arena, 1, sizeof *t);
  if (!t) return no_memory(err);
  const bool fits = n->op == WF_OP_GATHER ? dense_table(l, n, t) : quantised_table(l, n, t);
  wf_axis axis;
  int64_t width = 0;
  if (!fits || !wf_lower_rows(l, wf_node_output(n, 0), &axis, &width) || width != t->width ||
      axis != WF_AXIS_TOKENS) {
    return WEFT_OK;
  }
  *is_done = true;
  wf_place y;
  t->packed = tied_head(l, t);
  if (l->c->ids_limit == 0 || t->n < l->c->ids_limit) l->c->ids_limit = t->n;
  WF_RETURN_IF_ERROR(wf_lower_place(l, wf_node_output(n, 0), axis, width, &y, err));
  wf_step s = {.fn = wf_step_gather,
               .split = WF_SPLIT_ROWS,
               .axis = axis,
               .n_out = 1,
               .out = {y.loc},
               .width = width};
  s.as.gather.table = t;
  return wf_lower_emit(l, &s, err);
}

/* ---- element-wise ------------------------------------------------------------------------------
 */

static bool unary_fn(wf_unary_kind kind, wf_unary_fn *fn) {
  switch (kind) {
    case WF_UNARY_SILU:
      *fn = WF_FN_SILU;
      return true;
    case WF_UNARY_GELU_ERF:
      *fn = WF_FN_GELU_ERF;
      return true;
    case WF_UNARY_GELU_TANH:
      *fn = WF_FN_GELU_TANH;
      return true;
    case WF_UNARY_RELU:
      *fn = WF_FN_RELU;
      return true;
    case WF_UNARY_SIGMOID_ALPHA:
    case WF_UNARY_RELU2:
      break;
  }
  return false;
}

weft_status wf_lower_unary(wf_lowering *l, const wf_node *n, bool *is_done, weft_error *err) {
  wf_place x, y;
  wf_unary_fn fn = WF_FN_RELU;
  switch ((int)n->op) {
    case WF_OP_SIGMOID:
      fn = WF_FN_SIGMOID;
      break;
    case WF_OP_TANH:
      fn = WF_FN_TANH;
      break;
    case WF_OP_RELU:
      fn = WF_FN_RELU;
      break;
    case WF_OP_EXP:
      fn = WF_FN_EXP;
      break;
    case WF_OP_NEG:
      fn = WF_FN_NEG;
      break;
    case WF_OP_SQRT:
      fn = WF_FN_SQRT;
      break;
    default:
      if (!unary_fn(n->as.unary.kind, &fn)) {
        if (n->as.unary.kind != WF_UNARY_SIGMOID_ALPHA || n->as.unary.alpha != 1.702F)
          return WEFT_OK;
        fn = WF_FN_QUICK_GELU;
      }
  }
  if (!wf_lower_find(l, wf_node_input(n, 0), &x)) return WEFT_OK;
  *is_done = true;
  WF_RETURN_IF_ERROR(wf_lower_place(l, wf_node_output(n, 0), x.axis, x.width, &y, err));
  wf_step s = {.fn = wf_step_unary,
               .split = WF_SPLIT_ROWS,
               .axis = x.axis,
               .n_in = 1,
               .in = {x.loc},
               .n_out = 1,
               .out = {y.loc},
               .width = x.width};
  s.as.unary.fn = fn;
  return wf_lower_emit(l, &s, err);
}

weft_status wf_lower_glu(wf_lowering *l, const wf_node *n, bool *is_done, weft_error *err) {
  wf_place gate, up, y;
  wf_unary_fn fn = WF_FN_SILU;
  if (!unary_fn(n->as.unary.kind, &fn) || !wf_lower_find(l, wf_node_input(n, 0), &gate) ||
      !wf_lower_find(l, wf_node_input(n, 1), &up) || gate.axis != up.axis ||
      gate.width != up.width) {
    return WEFT_OK;
  }
  *is_done = true;
  WF_RETURN_IF_ERROR(wf_lower_place(l, wf_node_output(n, 0), gate.axis, gate.width, &y, err));
  wf_step s = {.fn = wf_step_glu,
               .split = WF_SPLIT_ROWS,
               .axis = gate.axis,
               .n_in = 2,
               .in = {gate.loc, up.loc},
               .n_out = 1,
               .out = {y.loc},
               .width = gate.width};
  s.as.unary.fn = fn;
  return wf_lower_emit(l, &s, err);
}

weft_status wf_lower_binary(wf_lowering *l, const wf_node *n, bool *is_done, weft_error *err) {
  wf_place a, b, y;
  wf_axis axis;
  int64_t width = 0;
  const int32_t out = wf_node_output(n, 0);
  const int32_t ids[2] = {wf_node_input(n, 0), wf_node_input(n, 1)};
  if (l->places[out].is_set) { /* a product has added it already */
    *is_done = true;
    return WEFT_OK;
  }
  if (!wf_lower_rows(l, out, &axis, &width)) return WEFT_OK;
  wf_step s = {.fn = wf_step_binary,
               .split = WF_SPLIT_ROWS,
               .axis = axis,
               .n_in = 2,
               .n_out = 1,
               .width = width};
  s.as.binary.op = n->op == WF_OP_ADD   ? WF_BINARY_ADD
                   : n->op == WF_OP_SUB ? WF_BINARY_SUB
                   : n->op == WF_OP_MUL ? WF_BINARY_MUL
                                        : WF_BINARY_DIV;
  const wf_tensor *ta = wf_const_of(l->g, ids[0], NULL), *tb = wf_const_of(l->g, ids[1], NULL);
  if (ta || tb) {
    if (ta && tb) return WEFT_OK;
    const wf_tensor *t = ta ? ta : tb;
    s.as.binary.is_reversed = ta != NULL;
    if (!wf_lower_find(l, ta ? ids[1] : ids[0], &a) || a.axis != axis || a.width != width) {
      return WEFT_OK;
    }
    /* One number, or one a column: then the constant's only long axis is the value's last. */
    const wf_value *v = wf_graph_value(l->g, out);
    int64_t last = 0;
    if (t->n != 1 &&
        (!wf_expr_is_const(l->g->exprs, v->dims[v->rank - 1], &last) || last != (int64_t)t->n ||
         last != width || t->rank < 1 || t->dims[t->rank - 1] != last)) {
      return WEFT_OK;
    }
    s.as.binary.constant = wf_const_f32(l->c, t);
    if (!s.as.binary.constant) return WEFT_OK;
    s.as.binary.step = t->n == 1 ? 0 : 1;
    s.in[0] = a.loc;
    s.in[1] = (wf_loc){-1, 0};
  } else {
    if (!wf_lower_find(l, ids[0], &a) || !wf_lower_find(l, ids[1], &b) || a.axis != axis ||
        b.axis != axis || a.width != width || b.width != width) {
      return WEFT_OK;
    }
    s.in[0] = a.loc;
    s.in[1] = b.loc;
  }
  *is_done = true;
  WF_RETURN_IF_ERROR(wf_lower_place(l, out, axis, width, &y, err));
  s.out[0] = y.loc;
  return wf_lower_emit(l, &s, err);
}

/* ---- shapes ------------------------------------------------------------------------------------
 */

weft_status wf_lower_select(wf_lowering *l, const wf_node *n, bool *is_done, weft_error *err) {
  wf_place x, y;
  if (!wf_lower_find(l, wf_node_input(n, 0), &x) || x.axis != WF_AXIS_TOKENS) return WEFT_OK;
  *is_done = true;
  WF_RETURN_IF_ERROR(wf_lower_place(l, wf_node_output(n, 0), WF_AXIS_SELECTED, x.width, &y, err));
  wf_step s = {.fn = wf_step_select,
               .gathers = true,
               .split = WF_SPLIT_ROWS,
               .axis = WF_AXIS_SELECTED,
               .n_in = 1,
               .in = {x.loc},
               .n_out = 1,
               .out = {y.loc},
               .width = x.width};
  return wf_lower_emit(l, &s, err);
}

weft_status wf_lower_alias(wf_lowering *l, const wf_node *n, bool *is_done, weft_error *err) {
  wf_place x;
  wf_axis axis;
  int64_t width = 0;
  (void)err;
  const int32_t out = wf_node_output(n, 0);
  const wf_value *v = wf_graph_value(l->g, out);
  if (!wf_lower_find(l, wf_node_input(n, 0), &x) || wf_dtype_held(v->dtype) != WF_DTYPE_F32 ||
      !wf_lower_rows(l, out, &axis, &width) || axis != x.axis || width != x.width) {
    return WEFT_OK;
  }
  if (n->n_outputs > 1 && wf_node_output(n, 1) >= 0) return WEFT_OK;
  *is_done = true;
  wf_lower_set(l, out, &x);
  return WEFT_OK;
}

/* Columns of rows that are there: a packed product cut into its parts costs nothing. */
weft_status wf_lower_split(wf_lowering *l, const wf_node *n, bool *is_done, weft_error *err) {
  wf_place x;
  const wf_value *v = wf_graph_value(l->g, wf_node_input(n, 0));
  int64_t last = 0, total = 0, width = 0;
  wf_axis axis;
  (void)err;
  const int64_t along = wf_node_attr_i(n, "axis", 0);
  if (!wf_lower_find(l, v->id, &x) || v->rank < 1 || (along != -1 && along != v->rank - 1) ||
      !wf_expr_is_const(l->g->exprs, v->dims[v->rank - 1], &last) || last != x.width) {
    return WEFT_OK;
  }
  for (int32_t i = 0; i < n->n_outputs; i++) {
    if (!wf_lower_rows(l, wf_node_output(n, i), &axis, &width) || axis != x.axis) return WEFT_OK;
    total += width;
  }
  if (total != last) return WEFT_OK;
  for (int32_t i = 0; i < n->n_outputs; i++) {
    (void)wf_lower_rows(l, wf_node_output(n, i), &axis, &width);
    x.width = width;
    wf_lower_set(l, wf_node_output(n, i), &x);
    x.loc.column += (int32_t)width;
  }
  *is_done = true;
  return WEFT_OK;
}

static bool one_int(const wf_lowering *l, int32_t value, int64_t *v) {
  const wf_tensor *t = wf_const_of(l->g, value, NULL);
  if (!t || t->n != 1 || t->dtype != WF_DTYPE_I64) return false;
  memcpy(v, t->data, sizeof *v);
  return true;
}

weft_status wf_lower_slice(wf_lowering *l, const wf_node *n, bool *is_done, weft_error *err) {
  wf_place x;
  const wf_value *v = wf_graph_value(l->g, wf_node_input(n, 0));
  int64_t last = 0, width = 0, begin = 0, along = 0, step = 1;
  wf_axis axis;
  (void)err;
  if (!wf_lower_find(l, v->id, &x) || v->rank < 1 || !one_int(l, wf_node_input(n, 1), &begin) ||
      !one_int(l, wf_node_input(n, 3), &along) || (along != -1 && along != v->rank - 1) ||
      (wf_node_input(n, 4) >= 0 && !one_int(l, wf_node_input(n, 4), &step)) || step != 1 ||
      !wf_expr_is_const(l->g->exprs, v->dims[v->rank - 1], &last) || last != x.width ||
      !wf_lower_rows(l, wf_node_output(n, 0), &axis, &width) || axis != x.axis || begin < 0 ||
      begin > last || width > last - begin) {
    return WEFT_OK;
  }
  x.width = width;
  x.loc.column += (int32_t)begin;
  wf_lower_set(l, wf_node_output(n, 0), &x);
  *is_done = true;
  return WEFT_OK;
}

/* ---- everything else
 * ----------------------------------------------------------------------------- */

static weft_status generic_constant(wf_lowering *l, const wf_tensor *t, wf_view *v,
                                    weft_error *err) {
  const wf_dtype held = wf_dtype_held(t->dtype);
  *v = (wf_view){.dtype = held, .rank = t->rank};
  if (t->rank > WF_VIEW_MAX_RANK || wf_held_bytes(held) == 0) {
    return wf_fail(err, WEFT_UNSUPPORTED, "", "constant '%.*s' is %s of rank %d", (int)t->name.n,
                   t->name.at ? t->name.at : "", wf_dtype_name(t->dtype), (int)t->rank);
  }
  for (int32_t i = 0; i < t->rank; i++) v->dims[i] = t->dims[i];
  if (held == t->dtype && ((uintptr_t)t->data & (wf_held_bytes(held) - 1)) == 0) {
    v->data = wf_unconst(t->data); /* operators only read inputs */
    return WEFT_OK;
  }
  v->data = wf_arena_calloc(l->c->arena, t->n ? t->n : 1, wf_held_bytes(held));
  if (!v->data) return no_memory(err);
  return wf_hold(l->c->level, t->dtype, t->data, t->n, v->data, err);
}

/* General operators want dense tensors. */
static weft_status densify(wf_lowering *l, const wf_place *p, int32_t *slot, weft_error *err) {
  const wf_slot *s = &l->slots.at[p->loc.slot];
  if (!p->is_rows || (p->loc.column == 0 && s->width == p->width)) {
    *slot = p->loc.slot;
    return WEFT_OK;
  }
  wf_place copy;
  WF_RETURN_IF_ERROR(wf_lower_place(l, -1, p->axis, p->width, &copy, err));
  wf_step step = {.fn = wf_step_copy,
                  .split = WF_SPLIT_ROWS,
                  .axis = p->axis,
                  .n_in = 1,
                  .in = {p->loc},
                  .n_out = 1,
                  .out = {copy.loc},
                  .width = p->width};
  *slot = copy.loc.slot;
  return wf_lower_emit(l, &step, err);
}

/* Room for an output: rows where they are rows, else as many elements a token as it has. */
static weft_status generic_output(wf_lowering *l, int32_t value, int32_t *slot, weft_error *err) {
  const wf_value *v = wf_graph_value(l->g, value);
  const uint32_t elem = (uint32_t)wf_held_bytes(wf_dtype_held(v->dtype));
  wf_axis axis = WF_AXIS_NONE;
  int64_t width = 0;
  const bool is_rows = wf_lower_rows(l, value, &axis, &width);
  if (!is_rows) {
    const wf_expr count = wf_value_count(l->g, v);
    if (count < 0 || !wf_expr_is_const(l->g->exprs, count, &width)) {
      const wf_expr symbols[2] = {l->c->packed.tokens, l->c->packed.selected};
      bool found = false;
      for (int a = 0; a < 2 && !found && count >= 0; a++) {
        const wf_expr q = wf_expr_exact_div(l->g->exprs, count, symbols[a]);
        found = q >= 0 && wf_expr_is_const(l->g->exprs, q, &width);
        if (found) axis = a == 0 ? WF_AXIS_TOKENS : WF_AXIS_SELECTED;
      }
      if (!found) {
        return wf_fail(err, WEFT_UNSUPPORTED, "", "the size of '%.*s' is not known before a run",
                       (int)v->name.n, v->name.at ? v->name.at : "");
      }
    }
  }
  if (elem == 0) {
    return wf_fail(err, WEFT_UNSUPPORTED, "", "'%.*s' has elements of type %s", (int)v->name.n,
                   v->name.at ? v->name.at : "", wf_dtype_name(v->dtype));
  }
  *slot = wf_lower_slot(l, axis, width, elem);
  if (*slot < 0) return no_memory(err);
  l->places[value] = (wf_place){true, is_rows, {*slot, 0}, axis, width};
  return WEFT_OK;
}

weft_status wf_lower_generic(wf_lowering *l, const wf_node *n, weft_error *err) {
  wf_step s = {.fn = wf_step_generic, .split = WF_SPLIT_ONE, .axis = WF_AXIS_NONE};
  wf_generic_step *g = &s.as.generic;
  g->node = n;
  g->fn = wf_op_function(n->op);
  if (!g->fn) {
    return wf_fail(err, WEFT_UNSUPPORTED, "run the package on another backend",
                   "operator %.*s of domain '%.*s', version %d, is not supported (node '%.*s')",
                   (int)n->op_type.n, n->op_type.at, (int)n->domain.n,
                   n->domain.at ? n->domain.at : "", (int)n->version, (int)n->name.n,
                   n->name.at ? n->name.at : "");
  }
  struct wf_generic_operand *in = wf_arena_calloc(l->c->arena, (size_t)n->n_inputs + 1, sizeof *in);
  struct wf_generic_operand *out =
      wf_arena_calloc(l->c->arena, (size_t)n->n_outputs + 1, sizeof *out);
  if (!in || !out) return no_memory(err);
  for (int32_t i = 0; i < n->n_inputs; i++) {
    in[i].slot = -1;
    in[i].value = wf_graph_value(l->g, n->inputs[i]);
    if (!in[i].value) continue;
    if (in[i].value->tensor) {
      in[i].is_const = true;
      WF_RETURN_IF_ERROR(generic_constant(l, in[i].value->tensor, &in[i].constant, err));
      continue;
    }
    const wf_place *p = &l->places[n->inputs[i]];
    const wf_node *maker = p->is_set ? NULL : wf_graph_producer(l->g, n->inputs[i]);
    bool is_transposed = false;
    if (maker && wf_const_of(l->g, n->inputs[i], &is_transposed)) {
      WF_RETURN_IF_ERROR(wf_lower_generic(l, maker, err)); /* left out until now; at most 16 deep */
    }
    if (!p->is_set) {
      return wf_fail(err, WEFT_INTERNAL, "", "value '%.*s' is read before it is made",
                     (int)in[i].value->name.n, in[i].value->name.at ? in[i].value->name.at : "");
    }
    WF_RETURN_IF_ERROR(densify(l, p, &in[i].slot, err));
  }
  for (int32_t i = 0; i < n->n_outputs; i++) {
    out[i].slot = -1;
    out[i].value = wf_graph_value(l->g, n->outputs[i]);
    if (out[i].value) WF_RETURN_IF_ERROR(generic_output(l, n->outputs[i], &out[i].slot, err));
  }
  g->in = in;
  g->out = out;
  g->n_in = n->n_inputs;
  g->n_out = n->n_outputs;
  return wf_lower_emit(l, &s, err);
}
