/* SPDX-License-Identifier: Apache-2.0 */
/* Which matrices a graph multiplies with, and which of them become one wider matrix. */
#include <string.h>

#include "backend/native/moe.h"

const wf_tensor *wf_const_of(const wf_graph *g, int32_t value, bool *is_transposed) {
  for (int depth = 0; depth < 16; depth++) {
    const wf_value *v = wf_graph_value(g, value);
    if (!v) return NULL;
    if (v->tensor) return v->tensor;
    const wf_node *p = wf_graph_producer(g, value);
    if (!p) return NULL;
    if (p->op == WF_OP_TRANSPOSE && is_transposed) {
      const wf_value *in = wf_graph_value(g, wf_node_input(p, 0));
      if (!in || in->rank != 2) return NULL;
      const wf_attr *perm = wf_node_attr(p, "perm");
      if (!perm || (perm->n == 2 && perm->ints[0] == 1)) *is_transposed = !*is_transposed;
    } else if (p->op != WF_OP_RESHAPE && p->op != WF_OP_SQUEEZE && p->op != WF_OP_UNSQUEEZE &&
               p->op != WF_OP_IDENTITY && p->op != WF_OP_FLATTEN) {
      return NULL;
    }
    value = wf_node_input(p, 0);
  }
  return NULL;
}

const float *wf_const_f32(wf_component *c, const wf_tensor *t) {
  if (!t || !t->data) return NULL;
  if (t->dtype == WF_DTYPE_F32 && ((uintptr_t)t->data & 3) == 0) return t->data;
  if (wf_dtype_held(t->dtype) != WF_DTYPE_F32) return NULL;
  float *copy = wf_arena_calloc(c->arena, t->n, sizeof *copy);
  if (!copy) return NULL;
  return wf_hold(c->level, t->dtype, t->data, t->n, copy, NULL) == WEFT_OK ? copy : NULL;
}

static bool format_of(wf_dtype t) {
  return t == WF_DTYPE_F32 || t == WF_DTYPE_F16 || t == WF_DTYPE_BF16;
}

/* A bias must be one number a column. */
static bool bias_fits(const wf_tensor *t, int64_t n) {
  return t && (int64_t)t->n == n && format_of(t->dtype) && t->data;
}

static bool nbits_of_node(const wf_component *c, const wf_node *n, wf_weight *w) {
  const wf_graph *g = c->graph;
  const int64_t k = wf_node_attr_i(n, "K", 0), cols = wf_node_attr_i(n, "N", 0);
  const int64_t bits = wf_node_attr_i(n, "bits", 4), bs = wf_node_attr_i(n, "block_size", 0);
  if (k <= 0 || cols <= 0 || k > INT32_MAX || cols > INT32_MAX || bs < 16 || bs > 256) return false;
  if (wf_node_input(n, 4) >= 0) return false; /* g_idx: reordered columns */
  wf_weight_part *p = &w->parts[0];
  p->data = wf_const_of(g, wf_node_input(n, 1), NULL);
  p->scales = wf_const_of(g, wf_node_input(n, 2), NULL);
  p->zeros = wf_const_of(g, wf_node_input(n, 3), NULL);
  p->bias = wf_const_of(g, wf_node_input(n, 5), NULL);
  p->offsets = wf_const_of(g, wf_node_input(n, WF_MATMUL_NBITS_OFFSETS), NULL);
  p->n = cols;
  const int64_t blocks = (k + bs - 1) / bs;
  if (!p->data || !p->data->data || !p->scales || !format_of(p->scales->dtype)) return false;
  if ((int64_t)p->data->n_bytes != cols * blocks * (bs * bits / 8)) return false;
  if ((int64_t)p->scales->n != cols * blocks) return false;
  if (wf_node_input(n, 3) >= 0) {
    if (!p->zeros || !p->zeros->data) return false;
    const bool is_float = format_of(p->zeros->dtype);
    const int64_t expected = is_float ? cols * blocks : cols * ((blocks * bits + 7) / 8);
    if ((int64_t)p->zeros->n != expected || (!is_float && p->zeros->dtype != WF_DTYPE_U8)) {
      return false;
    }
  }
  if (wf_node_input(n, 5) >= 0 && !bias_fits(p->bias, cols)) return false;
  if (wf_node_input(n, WF_MATMUL_NBITS_OFFSETS) >= 0 &&
      (!p->offsets || (int64_t)p->offsets->n != cols * blocks || !format_of(p->offsets->dtype))) {
    return false;
  }
  w->kind = WF_WK_NBITS;
  w->n = cols;
  w->k = k;
  w->bits = (int)bits;
  w->block_size = (int)bs;
  w->mode =
      !c->exact && wf_node_attr_i(n, "accuracy_level", 0) == 4 ? WF_MATMUL_FAST : WF_MATMUL_EXACT;
  return true;
}

/* WEFT_LINEAR with scales, DequantizeLinear's rule over an axis of the stored matrix. */
static bool qdq_of_node(const wf_component *c, const wf_node *n, wf_weight *w) {
  const wf_graph *g = c->graph;
  wf_weight_part *p = &w->parts[0];
  const wf_tensor *t = p->data;
  p->scales = wf_const_of(g, wf_node_input(n, 3), NULL);
  p->zeros = wf_const_of(g, wf_node_input(n, 4), NULL);
  if (!p->scales || !format_of(p->scales->dtype) || !p->scales->data) return false;
  if (wf_node_input(n, 4) >= 0 && (!p->zeros || p->zeros->dtype != t->dtype)) return false;
  const int bits = wf_dtype_bits(t->dtype);
  if (!wf_dtype_is_int(t->dtype) || bits > 8) return false;
  w->kind = WF_WK_QDQ;
  w->axis = n->as.linear.axis < 0 ? n->as.linear.axis + 2 : n->as.linear.axis;
  w->block_size = n->as.linear.block_size;
  w->bits = bits;
  if (w->axis < 0 || w->axis > 1) return false;
  /* The scale's size must fit, since packing indexes it without further checks. */
  int64_t rows = w->is_transposed ? w->k : w->n, cols = w->is_transposed ? w->n : w->k;
  int64_t expected = 1;
  if (w->block_size > 0) {
    const int64_t bs = w->block_size;
    expected = w->axis == 0 ? (rows + bs - 1) / bs * cols : rows * ((cols + bs - 1) / bs);
  } else if (p->scales->n != 1) {
    expected = w->axis == 0 ? rows : cols;
  }
  if ((int64_t)p->scales->n != expected || (p->zeros && (int64_t)p->zeros->n != expected)) {
    return false;
  }
  w->mode = c->exact ? WF_MATMUL_EXACT : WF_MATMUL_FAST;
  return true;
}

static bool dense_of_node(const wf_component *c, const wf_node *n, wf_weight *w) {
  const wf_graph *g = c->graph;
  wf_weight_part *p = &w->parts[0];
  int32_t bias = -1;
  w->is_transposed = true; /* ONNX MatMul's B is [K, N] */
  if (n->op == WF_OP_GEMM) {
    if (wf_node_attr_i(n, "transA", 0) != 0) return false;
    if (wf_node_attr_f(n, "alpha", 1) != 1.0F || wf_node_attr_f(n, "beta", 1) != 1.0F) return false;
    if (wf_node_attr_i(n, "transB", 0) != 0) w->is_transposed = false;
    bias = wf_node_input(n, 2);
  } else if (n->op == WF_OP_MS_FUSED_MATMUL) {
    if (wf_node_attr_i(n, "transA", 0) || wf_node_attr_i(n, "transBatchA", 0) ||
        wf_node_attr_i(n, "transBatchB", 0) || wf_node_attr_f(n, "alpha", 1) != 1.0F) {
      return false;
    }
    if (wf_node_attr_i(n, "transB", 0) != 0) w->is_transposed = false;
  } else if (n->op == WF_OP_WEFT_LINEAR) {
    w->is_transposed = !n->as.linear.is_transposed;
    bias = wf_node_input(n, 2);
  }
  bool flipped = w->is_transposed;
  p->data = wf_const_of(g, wf_node_input(n, 1), &flipped);
  if (!p->data || p->data->rank != 2 || !p->data->data) return false;
  /* A transposed constant is the same bytes read the other way round. */
  w->is_transposed = flipped;
  w->k = p->data->dims[w->is_transposed ? 0 : 1];
  w->n = p->data->dims[w->is_transposed ? 1 : 0];
  if (w->k <= 0 || w->n <= 0 || w->k > INT32_MAX || w->n > INT32_MAX) return false;
  p->n = w->n;
  if (bias >= 0) {
    p->bias = wf_const_of(g, bias, NULL);
    if (!bias_fits(p->bias, w->n)) return false;
  }
  if (n->op == WF_OP_WEFT_LINEAR && wf_node_input(n, 3) >= 0) return qdq_of_node(c, n, w);
  if (!format_of(p->data->dtype)) return false;
  w->kind = WF_WK_DENSE;
  w->mode = c->exact ? WF_MATMUL_EXACT : WF_MATMUL_FAST;
  return true;
}

/* Scales, zero points and a bias must fit, since packing indexes them without further checks. */
static bool int_of_node(const wf_component *c, const wf_node *n, wf_weight *w) {
  const wf_graph *g = c->graph;
  wf_weight_part *p = &w->parts[0];
  p->data = wf_const_of(g, wf_node_input(n, 1), NULL);
  p->bias = wf_const_of(g, wf_node_input(n, 2), NULL);
  p->scales = wf_const_of(g, wf_node_input(n, 3), NULL);
  p->zeros = wf_const_of(g, wf_node_input(n, 4), NULL);
  if (!p->data || !p->data->data || p->data->rank != 2 ||
      (p->data->dtype != WF_DTYPE_I8 && p->data->dtype != WF_DTYPE_U8)) {
    return false;
  }
  w->k = p->data->dims[0];
  w->n = p->n = p->data->dims[1];
  if (w->k <= 0 || w->n <= 0 || w->k > INT32_MAX || w->n > INT32_MAX) return false;
  if (!p->scales || !p->scales->data || !format_of(p->scales->dtype) ||
      (p->scales->n != 1 && (int64_t)p->scales->n != w->n)) {
    return false;
  }
  if (wf_node_input(n, 4) >= 0 &&
      (!p->zeros || !p->zeros->data || p->zeros->dtype != p->data->dtype ||
       (p->zeros->n != 1 && (int64_t)p->zeros->n != w->n))) {
    return false;
  }
  if (wf_node_input(n, 2) >= 0 && !bias_fits(p->bias, w->n)) return false;
  w->kind = WF_WK_INT;
  w->is_transposed = true;
  w->bits = 8;
  return true;
}

weft_status wf_weight_describe_int(const wf_component *c, const wf_weight *w, wf_arena *tmp,
                                   wf_int_desc *d, weft_error *err) {
  const wf_weight_part *p = &w->parts[0];
  const size_t n_bias = p->bias ? p->bias->n : 0, n_all = p->scales->n + n_bias;
  float *floats = wf_arena_calloc(tmp, n_all, sizeof *floats);
  if (!floats) return wf_fail_memory(err, n_all * sizeof *floats, "packing weights");
  WF_RETURN_IF_ERROR(
      wf_hold(c->level, p->scales->dtype, p->scales->data, p->scales->n, floats, err));
  if (p->bias) {
    WF_RETURN_IF_ERROR(
        wf_hold(c->level, p->bias->dtype, p->bias->data, n_bias, floats + p->scales->n, err));
  }
  *d = (wf_int_desc){.n = w->n,
                     .k = w->k,
                     .data = p->data->data,
                     .is_signed = p->data->dtype == WF_DTYPE_I8,
                     .zeros = p->zeros ? p->zeros->data : NULL,
                     .n_zeros = p->zeros ? (int64_t)p->zeros->n : 0,
                     .scales = floats,
                     .n_scales = (int64_t)p->scales->n,
                     .bias = p->bias ? floats + p->scales->n : NULL};
  return WEFT_OK;
}

static bool bnb4_of_node(const wf_component *c, const wf_node *n, wf_weight *w) {
  wf_weight_part *p = &w->parts[0];
  p->data = wf_const_of(c->graph, wf_node_input(n, 1), NULL);
  p->scales = wf_const_of(c->graph, wf_node_input(n, 2), NULL);
  if (!wf_bnb4_form_of(n, &w->bnb4) || !p->data || !p->data->data || !p->scales ||
      !p->scales->data || p->data->dtype != WF_DTYPE_U8 || !format_of(p->scales->dtype) ||
      (int64_t)p->data->n_bytes != w->bnb4.n_bytes || (int64_t)p->scales->n != w->bnb4.n_scales) {
    return false;
  }
  w->kind = WF_WK_BNB4;
  w->n = p->n = w->bnb4.n;
  w->k = w->bnb4.k;
  w->bits = 4;
  w->mode = c->exact ? WF_MATMUL_EXACT : WF_MATMUL_FAST;
  return true;
}

bool wf_weight_of_node(const wf_component *c, const wf_node *n, wf_weight *w) {
  *w = (wf_weight){.n_parts = 1};
  if (n->op == WF_OP_WEFT_DYNAMIC_LINEAR) return int_of_node(c, n, w);
  if (n->op == WF_OP_MS_MATMUL_NBITS) return nbits_of_node(c, n, w);
  if (n->op == WF_OP_MS_MATMUL_BNB4) return bnb4_of_node(c, n, w);
  if (n->op == WF_OP_MATMUL || n->op == WF_OP_GEMM || n->op == WF_OP_WEFT_LINEAR ||
      n->op == WF_OP_MS_FUSED_MATMUL) {
    return dense_of_node(c, n, w);
  }
  return false;
}

static bool same_part(const wf_weight_part *a, const wf_weight_part *b) {
  return a->data == b->data && a->scales == b->scales && a->zeros == b->zeros &&
         a->offsets == b->offsets && a->bias == b->bias;
}

/* Stacked weights keep each row's numbers as they are; a bias that one lacks counts as zero. */
static bool may_merge(const wf_weight *a, const wf_weight *b) {
  const wf_weight_part *p = &a->parts[0], *q = &b->parts[0];
  return a->kind == b->kind && a->kind != WF_WK_QDQ && a->kind != WF_WK_INT && a->k == b->k &&
         a->bits == b->bits && a->block_size == b->block_size &&
         a->is_transposed == b->is_transposed && a->mode == b->mode &&
         a->bnb4.table == b->bnb4.table && a->bnb4.block_size == b->bnb4.block_size &&
         p->data->dtype == q->data->dtype && !p->zeros == !q->zeros &&
         (!p->zeros || (p->zeros->dtype == WF_DTYPE_U8) == (q->zeros->dtype == WF_DTYPE_U8)) &&
         !p->offsets == !q->offsets && a->n_parts < WF_WEIGHT_MAX_PARTS && a->n + b->n <= INT32_MAX;
}

typedef WF_VEC(wf_weight) weight_list;
typedef WF_VEC(int32_t) input_list;

/* Every expert's matrices are weights like any other, but shared with no node. */
static weft_status collect_experts(wf_component *c, const wf_node *n, size_t most, weight_list *all,
                                   input_list *inputs, wf_weight_use *use, weft_error *err) {
  size_t added = 0;
  wf_moe_form *form = wf_arena_alloc(c->arena, sizeof *form);
  if (!form || !wf_vec_reserve(all, most) || !wf_vec_reserve(inputs, most)) {
    return wf_fail_memory(err, most * sizeof *all->at, "the list of weights");
  }
  WF_RETURN_IF_ERROR(wf_moe_collect(c, n, form, all->at + all->n, &added, err));
  *use = (wf_weight_use){.weight = (int32_t)all->n, .moe = form};
  for (size_t i = 0; i < added; i++) inputs->at[inputs->n++] = -1;
  all->n += added;
  return WEFT_OK;
}

weft_status wf_weights_collect(wf_component *c, wf_weight_use *uses, weft_error *err) {
  const wf_graph *g = c->graph;
  weight_list all = {0};
  input_list inputs = {0}; /* value id of x, by weight; -1: merged with nothing */
  weft_status st = WEFT_OK;
  for (size_t i = 0; i < g->nodes.n; i++) uses[i].weight = -1;
  for (size_t i = 0; i < g->order.n; i++) {
    const wf_node *n = g->nodes.at[g->order.at[i]];
    wf_weight w;
    const size_t most = wf_moe_most_weights(c, n);
    if (most) {
      WF_TRY(collect_experts(c, n, most, &all, &inputs, &uses[n->id], err));
      continue;
    }
    if (!wf_weight_of_node(c, n, &w)) continue;
    const int32_t x = wf_node_input(n, 0);
    wf_weight_use use = {.weight = -1};
    for (size_t j = 0; j < all.n && use.weight < 0; j++) {
      if (all.at[j].n_parts == 1 && same_part(&all.at[j].parts[0], &w.parts[0]) &&
          all.at[j].kind == w.kind && all.at[j].bnb4.table == w.bnb4.table && all.at[j].n == w.n &&
          all.at[j].block_size == w.block_size && all.at[j].bnb4.block_size == w.bnb4.block_size &&
          all.at[j].mode == w.mode && all.at[j].is_transposed == w.is_transposed) {
        use.weight = (int32_t)j; /* the same matrix twice: packed once */
        inputs.at[j] = -1;
      }
    }
    for (size_t j = all.n > 4 ? all.n - 4 : 0; j < all.n && use.weight < 0 && c->packed.is_packed;
         j++) {
      if (inputs.at[j] != x || !may_merge(&all.at[j], &w)) continue;
      use = (wf_weight_use){(int32_t)j, (int32_t)all.at[j].n, true, NULL};
      all.at[j].parts[all.at[j].n_parts++] = w.parts[0];
      all.at[j].n += w.n;
    }
    if (use.weight < 0) {
      use.weight = (int32_t)all.n;
      if (!wf_vec_push(&inputs, x) || !wf_vec_push(&all, w)) {
        st = wf_fail_memory(err, sizeof w, "the list of weights");
        goto out;
      }
    }
    uses[n->id] = use;
  }
  c->n_weights = all.n;
  c->weights = wf_arena_calloc(c->arena, all.n ? all.n : 1, sizeof *c->weights);
  if (!c->weights) {
    st = wf_fail_memory(err, all.n * sizeof *c->weights, "the list of weights");
    goto out;
  }
  if (all.n) memcpy(c->weights, all.at, all.n * sizeof *c->weights);
  for (size_t i = 0; i < g->nodes.n; i++) {
    if (uses[i].weight >= 0 && !uses[i].moe)
      uses[i].is_merged = c->weights[uses[i].weight].n_parts > 1;
  }
out:
  wf_vec_free(&all);
  wf_vec_free(&inputs);
  return st;
}
