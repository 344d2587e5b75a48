/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of norms, attention, quantised operators, control flow and the internal operators. */
#include <string.h>

#include "graph/infer.h"

/* ---- norms ------------------------------------------------------------------------------- */

weft_status infer_norm(infer *c) {
  const wf_value *x = infer_in(c, 0);
  wf_expr dims[GRAPH_MAX_RANK];
  int32_t axis;
  WF_RETURN_IF_ERROR(infer_same(c, 0, 0));
  if (!x || x->rank < 0 || !infer_axis(wf_node_attr_i(c->n, "axis", -1), x->rank, &axis)) {
    return WEFT_OK;
  }
  for (int32_t i = 0; i < x->rank; i++) dims[i] = i < axis ? x->dims[i] : infer_k(c, 1);
  WF_RETURN_IF_ERROR(infer_set(c, 1, WF_DTYPE_F32, x->rank, dims)); /* mean, 1 / deviation */
  return infer_set(c, 2, WF_DTYPE_F32, x->rank, dims);
}

weft_status infer_skip_norm(infer *c) {
  WF_RETURN_IF_ERROR(infer_same(c, 0, 0));
  return infer_same(c, 3, 0); /* 1 and 2 are mean and deviation, unused in inference */
}

weft_status infer_weft_norm(infer *c) {
  const wf_value *x = infer_in(c, 0), *skip = infer_in(c, 1);
  wf_expr dims[GRAPH_MAX_RANK];
  int32_t rank;
  if (!x) return WEFT_OK;
  /* The type of the result is set by whoever makes the node: casts are absorbed. */
  const wf_value *y = infer_out(c, 0), *sum = infer_out(c, 1);
  rank = x->rank;
  for (int32_t i = 0; i < rank; i++) dims[i] = x->dims[i];
  if (skip) {
    WF_RETURN_IF_ERROR(infer_broadcast(c, x->rank, x->dims, skip->rank, skip->dims, &rank, dims));
  }
  WF_RETURN_IF_ERROR(infer_set(c, 0, y && y->dtype ? y->dtype : x->dtype, rank, dims));
  return infer_set(c, 1, sum && sum->dtype ? sum->dtype : x->dtype, rank, dims);
}

weft_status infer_weft_glu(infer *c) { return infer_same(c, 0, 0); }

/* ---- attention --------------------------------------------------------------------------- */

/* ONNX Attention: rank 3 [B, S, heads * size] or rank 4 [B, heads, S, size]. */
weft_status infer_attention(infer *c) {
  const wf_value *q = infer_in(c, 0), *k = infer_in(c, 1), *v = infer_in(c, 2);
  const wf_value *pk = infer_in(c, 4), *pv = infer_in(c, 5);
  if (!q || !k || !v) return infer_fail(c, "it needs q, k and v");
  if (q->rank < 3 || k->rank < 3 || v->rank != k->rank) return infer_set(c, 0, q->dtype, -1, NULL);
  const int64_t n_heads = wf_node_attr_i(c->n, "q_num_heads", 0);
  const int64_t n_kv = wf_node_attr_i(c->n, "kv_num_heads", 0);
  const bool flat = q->rank == 3;
  if (flat && (n_heads < 1 || n_kv < 1)) return infer_fail(c, "it does not name its heads");
  const wf_expr heads = flat ? infer_k(c, n_heads) : q->dims[1];
  const wf_expr kv = flat ? infer_k(c, n_kv) : k->dims[1];
  const wf_expr kd = flat ? wf_expr_exact_div(c->p, k->dims[2], kv) : k->dims[3];
  const wf_expr vd = flat ? wf_expr_exact_div(c->p, v->dims[2], kv) : v->dims[3];
  const wf_expr s = q->dims[flat ? 1 : 2];
  const wf_expr y3[3] = {q->dims[0], s, wf_expr_mul(c->p, heads, vd)};
  const wf_expr y4[4] = {q->dims[0], heads, s, vd};
  WF_RETURN_IF_ERROR(infer_set(c, 0, q->dtype, flat ? 3 : 4, flat ? y3 : y4));
  wf_expr total = k->dims[flat ? 1 : 2];
  if (pk && pk->rank == 4) total = wf_expr_add(c->p, pk->dims[2], total);
  const wf_expr present_k[4] = {q->dims[0], kv, total, kd};
  const wf_expr present_v[4] = {q->dims[0], kv, total, vd};
  WF_RETURN_IF_ERROR(infer_set(c, 1, pk ? pk->dtype : k->dtype, 4, present_k));
  WF_RETURN_IF_ERROR(infer_set(c, 2, pv ? pv->dtype : v->dtype, 4, present_v));
  const wf_expr scores[4] = {q->dims[0], heads, s, total};
  return infer_set(c, 3, q->dtype, 4, scores);
}

weft_status infer_gqa(infer *c) {
  const wf_value *q = infer_in(c, 0), *k = infer_in(c, 1), *past = infer_in(c, 3);
  const int64_t n_heads = wf_node_attr_i(c->n, "num_heads", 0);
  const int64_t n_kv = wf_node_attr_i(c->n, "kv_num_heads", 0);
  if (n_heads < 1 || n_kv < 1 || n_heads > INT32_MAX || n_kv > INT32_MAX) {
    return infer_fail(c, "it does not name its heads");
  }
  if (!q || q->rank != 3) return infer_set(c, 0, infer_dtype(c, 0), -1, NULL);
  wf_expr width = q->dims[2], size;
  if (k) {
    size = wf_expr_exact_div(c->p, width, infer_k(c, n_heads));
  } else {
    size = wf_expr_exact_div(c->p, width, infer_k(c, n_heads + 2 * n_kv));
    width = wf_expr_mul(c->p, size, infer_k(c, n_heads));
  }
  const wf_expr y[3] = {q->dims[0], q->dims[1], width};
  WF_RETURN_IF_ERROR(infer_set(c, 0, q->dtype, 3, y));
  wf_expr total = q->dims[1];
  const bool is_ring = wf_node_attr_i(c->n, "sliding_window_cache", 0) != 0;
  if (past && past->rank == 4) {
    total = is_ring ? past->dims[2] : wf_expr_add(c->p, past->dims[2], total);
  }
  const wf_expr present[4] = {q->dims[0], infer_k(c, n_kv), total, size};
  WF_RETURN_IF_ERROR(infer_set(c, 1, past ? past->dtype : q->dtype, 4, present));
  return infer_set(c, 2, past ? past->dtype : q->dtype, 4, present);
}

/* The state holds (taps - 1) * dilation positions in the place of the input's. */
weft_status infer_causal_conv(infer *c) {
  const wf_value *x = infer_in(c, 0), *w = infer_in(c, 1);
  const int64_t dilation = wf_node_attr_i(c->n, "dilation", 1);
  WF_RETURN_IF_ERROR(infer_same(c, 0, 0));
  int64_t taps = 0;
  if (!x || x->rank < 3 || x->rank > GRAPH_MAX_RANK || !w || w->rank != 3 ||
      !wf_expr_is_const(c->p, w->dims[2], &taps) || taps < 1 || dilation < 1 || taps > INT32_MAX ||
      dilation > INT32_MAX || wf_node_attr_i(c->n, "state_window", 0) != 0) {
    return infer_set(c, 1, infer_dtype(c, 0), -1, NULL);
  }
  wf_expr dims[GRAPH_MAX_RANK];
  for (int32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  const bool is_last = wf_node_attr_i(c->n, "channels_last", 0) != 0;
  dims[is_last ? 1 : x->rank - 1] = infer_k(c, (taps - 1) * dilation);
  return infer_set(c, 1, x->dtype, x->rank, dims);
}

weft_status infer_linear_attention(infer *c) {
  const wf_value *q = infer_in(c, 0), *v = infer_in(c, 2), *past = infer_in(c, 3);
  const int64_t q_heads = wf_node_attr_i(c->n, "q_num_heads", 0);
  const int64_t kv_heads = wf_node_attr_i(c->n, "kv_num_heads", 0);
  if (q_heads < 1 || kv_heads < 1 || q_heads > INT32_MAX || kv_heads > INT32_MAX) {
    return infer_fail(c, "it does not name its heads");
  }
  const wf_dtype state_type = past ? past->dtype : infer_dtype(c, 0);
  if (!q || !v || q->rank != 3 || v->rank != 3 || wf_node_attr_i(c->n, "state_window", 0) != 0) {
    WF_RETURN_IF_ERROR(infer_set(c, 0, infer_dtype(c, 0), -1, NULL));
    return infer_set(c, 1, state_type, -1, NULL);
  }
  const wf_expr dk = wf_expr_exact_div(c->p, q->dims[2], infer_k(c, q_heads));
  const wf_expr dv = wf_expr_exact_div(c->p, v->dims[2], infer_k(c, kv_heads));
  const int64_t heads = q_heads > kv_heads ? q_heads : kv_heads;
  const wf_expr y[3] = {q->dims[0], q->dims[1], wf_expr_mul(c->p, dv, infer_k(c, heads))};
  const wf_expr state[4] = {q->dims[0], infer_k(c, kv_heads), dk, dv};
  WF_RETURN_IF_ERROR(infer_set(c, 0, q->dtype, 3, y));
  return infer_set(c, 1, state_type, 4, state);
}

weft_status infer_mha(infer *c) {
  const wf_value *q = infer_in(c, 0), *k = infer_in(c, 1), *v = infer_in(c, 2);
  const wf_value *past = infer_in(c, 6);
  const int64_t n_heads = wf_node_attr_i(c->n, "num_heads", 0);
  if (n_heads < 1) return infer_fail(c, "it does not name its heads");
  if (!q || q->rank != 3) return infer_set(c, 0, infer_dtype(c, 0), -1, NULL);
  const wf_expr heads = infer_k(c, n_heads);
  const wf_expr width = v && v->rank == 3 ? v->dims[2] : q->dims[2];
  const wf_expr y[3] = {q->dims[0], q->dims[1], width};
  WF_RETURN_IF_ERROR(infer_set(c, 0, q->dtype, 3, y));
  if (!k || k->rank != 3) return WEFT_OK;
  wf_expr total = k->dims[1];
  if (past && past->rank == 4) total = wf_expr_add(c->p, past->dims[2], total);
  const wf_expr pk[4] = {q->dims[0], heads, total, wf_expr_exact_div(c->p, k->dims[2], heads)};
  const wf_expr pv[4] = {q->dims[0], heads, total, wf_expr_exact_div(c->p, width, heads)};
  WF_RETURN_IF_ERROR(infer_set(c, 1, q->dtype, 4, pk));
  return infer_set(c, 2, q->dtype, 4, pv);
}

weft_status infer_weft_attention(infer *c) {
  const wf_value *q = infer_in(c, 0);
  const wf_attention_params *a = &c->n->as.attention;
  wf_expr dims[GRAPH_MAX_RANK];
  if (!q || q->rank < 1) return WEFT_OK;
  memcpy(dims, q->dims, (size_t)q->rank * sizeof *dims);
  dims[q->rank - 1] = infer_k(c, (int64_t)a->n_heads * a->head_dim_v);
  WF_RETURN_IF_ERROR(infer_set(c, 0, q->dtype, q->rank, dims));
  const wf_value *past = infer_in(c, 6), *past_v = infer_in(c, 7);
  if (!past || past->rank != 4 || q->rank != 3) return WEFT_OK;
  const wf_expr total = wf_expr_add(c->p, past->dims[2], q->dims[1]);
  const wf_expr pk[4] = {past->dims[0], past->dims[1], total, past->dims[3]};
  WF_RETURN_IF_ERROR(infer_set(c, 1, past->dtype, 4, pk));
  if (!past_v || past_v->rank != 4) return WEFT_OK;
  const wf_expr pv[4] = {past_v->dims[0], past_v->dims[1], total, past_v->dims[3]};
  return infer_set(c, 2, past_v->dtype, 4, pv);
}

weft_status infer_weft_linear(infer *c) {
  const wf_value *x = infer_in(c, 0), *w = infer_in(c, 1);
  wf_expr dims[GRAPH_MAX_RANK];
  if (!x || !w || x->rank < 1 || w->rank != 2) return WEFT_OK;
  memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
  dims[x->rank - 1] = w->dims[c->n->as.linear.is_transposed ? 0 : 1];
  return infer_set(c, 0, x->dtype, x->rank, dims);
}

weft_status infer_weft_select(infer *c) {
  const wf_value *x = infer_in(c, 0), *ix = infer_in(c, 1);
  wf_expr dims[GRAPH_MAX_RANK];
  const int32_t axis = (int32_t)wf_node_attr_i(c->n, "axis", 1);
  if (!x || !ix || x->rank <= axis || ix->rank != 1) return WEFT_OK;
  memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
  dims[axis] = wf_expr_mul(c->p, ix->dims[0], infer_k(c, wf_node_attr_i(c->n, "inner", 1)));
  return infer_set(c, 0, x->dtype, x->rank, dims);
}

/* ---- quantised --------------------------------------------------------------------------- */

weft_status infer_nbits(infer *c) {
  const wf_value *x = infer_in(c, 0);
  const int64_t n = wf_node_attr_i(c->n, "N", 0), k = wf_node_attr_i(c->n, "K", 0);
  const int64_t bits = wf_node_attr_i(c->n, "bits", 4),
                size = wf_node_attr_i(c->n, "block_size", 0);
  wf_expr dims[GRAPH_MAX_RANK];
  int64_t v;
  if (n < 1 || k < 1 || n > INT32_MAX || k > INT32_MAX)
    return infer_fail(c, "its N and K are missing");
  if (bits < 2 || bits > 8 || size < 16 || size > INT32_MAX || (size & (size - 1))) {
    return infer_fail(c, "%lld bits in blocks of %lld are not defined", (long long)bits,
                      (long long)size);
  }
  if (!x || x->rank < 1) return infer_set(c, 0, infer_dtype(c, 0), -1, NULL);
  if (wf_expr_is_const(c->p, x->dims[x->rank - 1], &v) && v != k) {
    return infer_fail(c, "its input has rows of %lld, its K is %lld", (long long)v, (long long)k);
  }
  /* Sizes of the packed weight are what the kernels rely on. */
  const wf_value *b = infer_in(c, 1), *s = infer_in(c, 2);
  const int64_t blocks = (k + size - 1) / size;
  if (b && b->tensor && (int64_t)b->tensor->n_bytes != n * blocks * ((size * bits + 7) / 8)) {
    return infer_fail(c, "its weight has %zu bytes instead of %lld", b->tensor->n_bytes,
                      (long long)(n * blocks * ((size * bits + 7) / 8)));
  }
  if (s && s->tensor && (int64_t)s->tensor->n != n * blocks) {
    return infer_fail(c, "it has %zu scales instead of %lld", s->tensor->n,
                      (long long)(n * blocks));
  }
  memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
  dims[x->rank - 1] = infer_k(c, n);
  return infer_set(c, 0, x->dtype, x->rank, dims);
}

weft_status infer_bnb4(infer *c) {
  const wf_value *x = infer_in(c, 0), *b = infer_in(c, 1), *s = infer_in(c, 2);
  const int64_t n = wf_node_attr_i(c->n, "N", 0), k = wf_node_attr_i(c->n, "K", 0);
  const int64_t size = wf_node_attr_i(c->n, "block_size", 0);
  wf_expr dims[GRAPH_MAX_RANK];
  int64_t v;
  if (n < 1 || k < 1 || n > INT32_MAX || k > INT32_MAX)
    return infer_fail(c, "its N and K are missing");
  if (size < 16 || size > INT32_MAX || (size & (size - 1)))
    return infer_fail(c, "blocks of %lld are not defined", (long long)size);
  if (!x || x->rank < 1) return infer_set(c, 0, infer_dtype(c, 0), -1, NULL);
  if (wf_expr_is_const(c->p, x->dims[x->rank - 1], &v) && v != k) {
    return infer_fail(c, "its input has rows of %lld, its K is %lld", (long long)v, (long long)k);
  }
  if (b && b->tensor && (int64_t)b->tensor->n_bytes != (n * k + 1) / 2) {
    return infer_fail(c, "its weight has %zu bytes instead of %lld", b->tensor->n_bytes,
                      (long long)((n * k + 1) / 2));
  }
  if (s && s->tensor && (int64_t)s->tensor->n != (n * k + size - 1) / size) {
    return infer_fail(c, "it has %zu scales instead of %lld", s->tensor->n,
                      (long long)((n * k + size - 1) / size));
  }
  memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
  dims[x->rank - 1] = infer_k(c, n);
  return infer_set(c, 0, x->dtype, x->rank, dims);
}

weft_status infer_gather_blocks(infer *c) {
  const wf_value *x = infer_in(c, 0), *ix = infer_in(c, 1), *s = infer_in(c, 2);
  wf_expr dims[2 * GRAPH_MAX_RANK];
  int32_t axis, rank = 0;
  if (!x || !ix || !s) return infer_fail(c, "it needs three inputs");
  if (x->rank < 1 || ix->rank < 0) return infer_set(c, 0, s->dtype, -1, NULL);
  if (!infer_axis(wf_node_attr_i(c->n, "gather_axis", 0), x->rank, &axis)) {
    return infer_fail(c, "its axis is outside");
  }
  /* uint8 data holds 8 / bits elements a byte along the last axis. */
  const int64_t bits = wf_node_attr_i(c->n, "bits", 4);
  if (bits < 1 || bits > 8) return infer_fail(c, "%lld bits are not defined", (long long)bits);
  const int64_t per_byte = x->dtype == WF_DTYPE_U8 ? 8 / bits : 1;
  for (int32_t i = 0; i < x->rank; i++) {
    const wf_expr d =
        i == x->rank - 1 ? wf_expr_mul(c->p, x->dims[i], infer_k(c, per_byte)) : x->dims[i];
    if (i != axis)
      dims[rank++] = d;
    else
      for (int32_t k = 0; k < ix->rank; k++) dims[rank++] = ix->dims[k];
  }
  return infer_set(c, 0, s->dtype, rank, dims);
}

weft_status infer_dequantize(infer *c) {
  const wf_value *x = infer_in(c, 0);
  const int64_t to = wf_node_attr_i(c->n, "output_dtype", 0);
  const wf_dtype dtype = to > 0 && to < WF_DTYPE_COUNT ? (wf_dtype)to : infer_dtype(c, 1);
  return x ? infer_set(c, 0, dtype, x->rank, x->dims) : WEFT_OK;
}

weft_status infer_quantize(infer *c) {
  const wf_value *x = infer_in(c, 0), *zero = infer_in(c, 2);
  const int64_t to = wf_node_attr_i(c->n, "output_dtype", 0);
  wf_dtype dtype = to > 0 && to < WF_DTYPE_COUNT ? (wf_dtype)to : WF_DTYPE_U8;
  if (zero) dtype = zero->dtype;
  return x ? infer_set(c, 0, dtype, x->rank, x->dims) : WEFT_OK;
}

weft_status infer_dynamic_quantize(infer *c) {
  const wf_value *x = infer_in(c, 0);
  if (x) WF_RETURN_IF_ERROR(infer_set(c, 0, WF_DTYPE_U8, x->rank, x->dims));
  WF_RETURN_IF_ERROR(infer_set(c, 1, WF_DTYPE_F32, 0, NULL));
  return infer_set(c, 2, WF_DTYPE_U8, 0, NULL);
}

/* ---- control flow ------------------------------------------------------------------------ */

/* Types and shapes of outer values enter the nested graph before it is inferred. */
static weft_status infer_nested(infer *c, wf_graph *sub) {
  for (size_t i = 0; i < sub->values.n; i++) {
    wf_value *v = sub->values.at[i];
    if (!v->is_captured) continue;
    const wf_value *o = c->g->values.at[v->outer];
    v->dtype = o->dtype;
    if (o->rank >= 0 && !graph_set_dims(sub, v, o->rank, o->dims)) return graph_no_memory(c->err);
    if (o->n_content >= 0 && !graph_set_content(sub, v, o->n_content, o->content)) {
      return graph_no_memory(c->err);
    }
  }
  WF_RETURN_IF_ERROR(graph_sort(sub, c->err));
  return graph_infer(sub, c->err);
}

weft_status infer_if(infer *c) {
  if (c->n->n_subgraphs != 2) return infer_fail(c, "it has %zu branches", c->n->n_subgraphs);
  for (int k = 0; k < 2; k++) WF_RETURN_IF_ERROR(infer_nested(c, c->n->subgraphs[k]));
  const wf_graph *a = c->n->subgraphs[0], *b = c->n->subgraphs[1];
  for (int32_t i = 0; i < c->n->n_outputs; i++) {
    wf_expr dims[GRAPH_MAX_RANK];
    if ((size_t)i >= a->outputs.n || (size_t)i >= b->outputs.n) {
      return infer_fail(c, "a branch has too few outputs");
    }
    const wf_value *x = a->values.at[a->outputs.at[i]], *y = b->values.at[b->outputs.at[i]];
    const int32_t rank = x->rank == y->rank ? x->rank : -1;
    for (int32_t d = 0; d < rank; d++)
      dims[d] = x->dims[d] == y->dims[d] ? x->dims[d] : WF_EXPR_NONE;
    WF_RETURN_IF_ERROR(infer_set(c, i, x->dtype, rank, dims));
  }
  return WEFT_OK;
}

weft_status infer_loop(infer *c) {
  if (c->n->n_subgraphs != 1) return infer_fail(c, "it has %zu bodies", c->n->n_subgraphs);
  WF_RETURN_IF_ERROR(infer_nested(c, c->n->subgraphs[0]));
  const wf_graph *body = c->n->subgraphs[0];
  for (int32_t i = 0; i < c->n->n_outputs; i++) { /* shapes may change from round to round */
    if ((size_t)i + 1 >= body->outputs.n) return infer_fail(c, "its body has too few outputs");
    const wf_value *v = body->values.at[body->outputs.at[i + 1]];
    WF_RETURN_IF_ERROR(infer_set(c, i, v->dtype, -1, NULL));
  }
  return WEFT_OK;
}
