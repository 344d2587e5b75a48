/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of arithmetic, reductions and products, with small integers followed through. */
#include <stdio.h>
#include <string.h>

#include "graph/infer.h"

/* ---- element-wise ------------------------------------------------------------------------ */

static wf_expr content_at(const wf_value *v, int32_t i) {
  if (!v || v->n_content < 0) return WF_EXPR_NONE;
  if (v->n_content == 1) return v->content[0];
  return i < v->n_content ? v->content[i] : WF_EXPR_NONE;
}

weft_status infer_unary(infer *c) {
  const wf_value *x = infer_in(c, 0);
  if (!x) return WEFT_OK;
  WF_RETURN_IF_ERROR(infer_same(c, 0, 0));
  if (x->n_content < 0) return WEFT_OK;
  wf_expr out[GRAPH_MAX_CONTENT];
  for (int32_t i = 0; i < x->n_content; i++) {
    const wf_expr e = x->content[i];
    int64_t v;
    out[i] = WF_EXPR_NONE;
    if (c->n->op == WF_OP_NEG) out[i] = wf_expr_sub(c->p, infer_k(c, 0), e);
    if (c->n->op == WF_OP_NOT && wf_expr_is_const(c->p, e, &v)) out[i] = infer_k(c, v == 0);
    if (c->n->op == WF_OP_ABS && wf_expr_is_nonnegative(c->p, e)) out[i] = e;
    if ((c->n->op == WF_OP_FLOOR || c->n->op == WF_OP_CEIL || c->n->op == WF_OP_ROUND)) out[i] = e;
    if (c->n->op == WF_OP_RELU) out[i] = wf_expr_max(c->p, infer_k(c, 0), e);
  }
  return infer_set_content(c, 0, x->n_content, out);
}

static wf_expr trunc_div(const infer *c, wf_expr a, wf_expr b) {
  int64_t x, y;
  if (wf_dtype_is_float(infer_dtype(c, 0))) return wf_expr_exact_div(c->p, a, b);
  if (wf_expr_is_const(c->p, a, &x) && wf_expr_is_const(c->p, b, &y)) {
    if (y == 0 || (x == INT64_MIN && y == -1)) return WF_EXPR_NONE;
    return infer_k(c, x / y); /* towards zero, as ONNX divides integers */
  }
  /* Quotients of sizes: floor and truncation agree when nothing is negative. */
  if (!wf_expr_is_nonnegative(c->p, a) || !wf_expr_is_nonnegative(c->p, b)) {
    return wf_expr_exact_div(c->p, a, b);
  }
  return wf_expr_floordiv(c->p, a, b);
}

/* Whether a - b is certainly >= k. */
static bool exceeds(const infer *c, wf_expr a, wf_expr b, int64_t k) {
  return wf_expr_is_nonnegative(c->p, wf_expr_sub(c->p, wf_expr_sub(c->p, a, b), infer_k(c, k)));
}

static wf_expr compare(const infer *c, wf_expr a, wf_expr b) {
  if (a < 0 || b < 0) return WF_EXPR_NONE;
  const bool greater = exceeds(c, a, b, 1), less = exceeds(c, b, a, 1);
  const bool at_least = greater || exceeds(c, a, b, 0), at_most = less || exceeds(c, b, a, 0);
  switch ((int)c->n->op) {
    case WF_OP_EQUAL:
      if (a == b) return infer_k(c, 1);
      return greater || less ? infer_k(c, 0) : WF_EXPR_NONE;
    case WF_OP_GREATER:
      return greater || at_most ? infer_k(c, greater) : WF_EXPR_NONE;
    case WF_OP_LESS:
      return less || at_least ? infer_k(c, less) : WF_EXPR_NONE;
    case WF_OP_GREATER_OR_EQUAL:
      return at_least || less ? infer_k(c, at_least) : WF_EXPR_NONE;
    case WF_OP_LESS_OR_EQUAL:
      return at_most || greater ? infer_k(c, at_most) : WF_EXPR_NONE;
    default:
      return WF_EXPR_NONE;
  }
}

static wf_expr combine(const infer *c, wf_expr a, wf_expr b) {
  int64_t x, y;
  switch ((int)c->n->op) {
    case WF_OP_ADD:
    case WF_OP_SUM:
      return wf_expr_add(c->p, a, b);
    case WF_OP_SUB:
      return wf_expr_sub(c->p, a, b);
    case WF_OP_MUL:
      return wf_expr_mul(c->p, a, b);
    case WF_OP_DIV:
      return trunc_div(c, a, b);
    case WF_OP_MOD:
      if (wf_node_attr_i(c->n, "fmod", 0)) return WF_EXPR_NONE;
      return wf_expr_mod(c->p, a, b);
    case WF_OP_MIN:
      return wf_expr_min(c->p, a, b);
    case WF_OP_MAX:
      return wf_expr_max(c->p, a, b);
    case WF_OP_AND:
    case WF_OP_OR:
    case WF_OP_XOR:
      if (!wf_expr_is_const(c->p, a, &x) || !wf_expr_is_const(c->p, b, &y)) return WF_EXPR_NONE;
      if (c->n->op == WF_OP_AND) return infer_k(c, x && y);
      return infer_k(c, c->n->op == WF_OP_OR ? x || y : !x != !y);
    default:
      return compare(c, a, b);
  }
}

static bool is_small(const wf_value *v) { return v && v->n_content >= 0 && v->rank <= 1; }

static weft_status combine_content(infer *c, const wf_value *a, const wf_value *b) {
  if (!is_small(a) || !is_small(b)) return WEFT_OK;
  /* Lists of other lengths than 1 must agree; the shape check has spoken already. */
  const int32_t n = a->n_content == 1 ? b->n_content : a->n_content;
  wf_expr out[GRAPH_MAX_CONTENT];
  if (b->n_content != 1 && b->n_content != n) return WEFT_OK;
  for (int32_t i = 0; i < n; i++) out[i] = combine(c, content_at(a, i), content_at(b, i));
  return infer_set_content(c, 0, n, out);
}

static weft_status elementwise(infer *c, wf_dtype dtype) {
  const wf_value *a = infer_in(c, 0), *b = infer_in(c, 1);
  wf_expr dims[GRAPH_MAX_RANK];
  int32_t rank;
  if (!a || !b) return infer_fail(c, "it needs two inputs");
  WF_RETURN_IF_ERROR(infer_broadcast(c, a->rank, a->dims, b->rank, b->dims, &rank, dims));
  WF_RETURN_IF_ERROR(infer_set(c, 0, dtype, rank, dims));
  return combine_content(c, a, b);
}

weft_status infer_binary(infer *c) { return elementwise(c, infer_dtype(c, 0)); }

weft_status infer_compare(infer *c) { return elementwise(c, WF_DTYPE_BOOL); }

weft_status infer_variadic(infer *c) {
  const wf_value *first = infer_in(c, 0);
  if (!first) return WEFT_OK;
  if (c->n->n_inputs == 2 && infer_in(c, 1)) return elementwise(c, infer_dtype(c, 0));
  wf_expr dims[GRAPH_MAX_RANK], next[GRAPH_MAX_RANK];
  int32_t rank = first->rank;
  for (int32_t i = 0; i < rank; i++) dims[i] = first->dims[i];
  for (int32_t i = 1; i < c->n->n_inputs; i++) {
    const wf_value *v = infer_in(c, i);
    if (!v) continue;
    WF_RETURN_IF_ERROR(infer_broadcast(c, rank, dims, v->rank, v->dims, &rank, next));
    if (rank < 0) break;
    memcpy(dims, next, (size_t)rank * sizeof *dims);
  }
  return infer_set(c, 0, first->dtype, rank, dims);
}

weft_status infer_where(infer *c) {
  const wf_value *w = infer_in(c, 0), *x = infer_in(c, 1), *y = infer_in(c, 2);
  wf_expr xy[GRAPH_MAX_RANK], dims[GRAPH_MAX_RANK];
  int32_t rank;
  if (!w || !x || !y) return infer_fail(c, "it needs three inputs");
  WF_RETURN_IF_ERROR(infer_broadcast(c, x->rank, x->dims, y->rank, y->dims, &rank, xy));
  WF_RETURN_IF_ERROR(infer_broadcast(c, rank, xy, w->rank, w->dims, &rank, dims));
  WF_RETURN_IF_ERROR(infer_set(c, 0, x->dtype, rank, dims));
  if (!is_small(w) || !is_small(x) || !is_small(y)) return WEFT_OK;
  int32_t n = w->n_content;
  if (n == 1) n = x->n_content;
  if (n == 1) n = y->n_content;
  wf_expr out[GRAPH_MAX_CONTENT];
  for (int32_t i = 0; i < n; i++) {
    int64_t v;
    const wf_expr a = content_at(x, i), b = content_at(y, i);
    out[i] = a == b ? a : WF_EXPR_NONE;
    if (wf_expr_is_const(c->p, content_at(w, i), &v)) out[i] = v ? a : b;
  }
  return infer_set_content(c, 0, n, out);
}

/* Content survives a cast to a type that holds sizes; through float it is kept, because exporters
 * compute sizes in floating point (Cast, Mul, Floor, Cast) and sizes are exact there. */
weft_status infer_cast(infer *c) {
  const wf_value *x = infer_in(c, 0);
  const int64_t to = wf_node_attr_i(c->n, "to", 0);
  if (!x) return WEFT_OK;
  if (to <= 0 || to >= WF_DTYPE_COUNT) return infer_fail(c, "it casts to type %lld", (long long)to);
  WF_RETURN_IF_ERROR(infer_set(c, 0, (wf_dtype)to, x->rank, x->dims));
  if (x->n_content < 0 || to == WF_DTYPE_STRING) return WEFT_OK;
  const int bits = wf_dtype_bits((wf_dtype)to);
  if (bits >= 32) return infer_set_content(c, 0, x->n_content, x->content);
  if (to != WF_DTYPE_BOOL) return WEFT_OK;
  wf_expr out[GRAPH_MAX_CONTENT];
  for (int32_t i = 0; i < x->n_content; i++) {
    int64_t v;
    out[i] = wf_expr_is_const(c->p, x->content[i], &v) ? infer_k(c, v != 0) : WF_EXPR_NONE;
  }
  return infer_set_content(c, 0, x->n_content, out);
}

weft_status infer_cast_like(infer *c) {
  const wf_value *x = infer_in(c, 0);
  return x ? infer_set(c, 0, infer_dtype(c, 1), x->rank, x->dims) : WEFT_OK;
}

weft_status infer_to_bool(infer *c) {
  const wf_value *x = infer_in(c, 0);
  return x ? infer_set(c, 0, WF_DTYPE_BOOL, x->rank, x->dims) : WEFT_OK;
}

/* ---- reductions -------------------------------------------------------------------------- */

static weft_status reduce_content(infer *c, const wf_value *x) {
  if (x->n_content < 1) return WEFT_OK;
  wf_expr r = x->content[0];
  for (int32_t i = 1; i < x->n_content; i++) {
    const wf_expr e = x->content[i];
    switch ((int)c->n->op) {
      case WF_OP_REDUCE_SUM:
        r = wf_expr_add(c->p, r, e);
        break;
      case WF_OP_REDUCE_PROD:
        r = wf_expr_mul(c->p, r, e);
        break;
      case WF_OP_REDUCE_MAX:
        r = wf_expr_max(c->p, r, e);
        break;
      case WF_OP_REDUCE_MIN:
        r = wf_expr_min(c->p, r, e);
        break;
      default:
        r = WF_EXPR_NONE;
        break;
    }
  }
  if (c->n->op == WF_OP_REDUCE_SUM_SQUARE || c->n->op == WF_OP_REDUCE_LOG_SUM_EXP ||
      c->n->op == WF_OP_REDUCE_L1 || c->n->op == WF_OP_REDUCE_L2) {
    return WEFT_OK;
  }
  return infer_set_content(c, 0, 1, &r);
}

weft_status infer_reduce(infer *c) {
  const wf_value *x = infer_in(c, 0);
  int64_t axes[GRAPH_MAX_RANK];
  int32_t n_axes, rank = 0;
  wf_expr dims[GRAPH_MAX_RANK];
  if (!x) return WEFT_OK;
  const bool keep = wf_node_attr_i(c->n, "keepdims", 1) != 0;
  infer_ints(c, "axes", 1, axes, GRAPH_MAX_RANK, &n_axes);
  if (x->rank < 0 || (n_axes == -2 && !keep)) return infer_set(c, 0, x->dtype, -1, NULL);
  if (n_axes == -2) { /* axes not known: the rank is, the dims are not */
    for (int32_t i = 0; i < x->rank; i++) dims[i] = WF_EXPR_NONE;
    return infer_set(c, 0, x->dtype, x->rank, dims);
  }
  const bool all = n_axes <= 0;
  if (all && wf_node_attr_i(c->n, "noop_with_empty_axes", 0)) return infer_same(c, 0, 0);
  bool is_reduced[GRAPH_MAX_RANK] = {false};
  for (int32_t i = 0; i < n_axes; i++) {
    int32_t a;
    if (!infer_axis(axes[i], x->rank, &a))
      return infer_fail(c, "axis %lld is outside", (long long)axes[i]);
    is_reduced[a] = true;
  }
  for (int32_t i = 0; i < x->rank; i++) {
    if (!all && !is_reduced[i])
      dims[rank++] = x->dims[i];
    else if (keep)
      dims[rank++] = infer_k(c, 1);
  }
  WF_RETURN_IF_ERROR(infer_set(c, 0, x->dtype, rank, dims));
  return x->rank == 0 || all || is_reduced[0] ? reduce_content(c, x) : WEFT_OK;
}

weft_status infer_arg(infer *c) {
  const wf_value *x = infer_in(c, 0);
  wf_expr dims[GRAPH_MAX_RANK];
  int32_t axis, rank = 0;
  if (!x || x->rank < 0) return infer_set(c, 0, WF_DTYPE_I64, -1, NULL);
  if (!infer_axis(wf_node_attr_i(c->n, "axis", 0), x->rank, &axis))
    return infer_fail(c, "its axis is outside");
  for (int32_t i = 0; i < x->rank; i++) {
    if (i != axis)
      dims[rank++] = x->dims[i];
    else if (wf_node_attr_i(c->n, "keepdims", 1))
      dims[rank++] = infer_k(c, 1);
  }
  return infer_set(c, 0, WF_DTYPE_I64, rank, dims);
}

weft_status infer_top_k(infer *c) {
  const wf_value *x = infer_in(c, 0), *k = infer_in(c, 1);
  wf_expr dims[GRAPH_MAX_RANK];
  int32_t axis;
  if (!x || x->rank < 0) return WEFT_OK;
  if (!infer_axis(wf_node_attr_i(c->n, "axis", -1), x->rank, &axis))
    return infer_fail(c, "its axis is outside");
  for (int32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  dims[axis] = k && k->n_content == 1 ? k->content[0] : WF_EXPR_NONE;
  const wf_attr *a = wf_node_attr(c->n, "k");
  if (a && a->kind == WF_ATTR_INT) dims[axis] = infer_k(c, a->i);
  WF_RETURN_IF_ERROR(infer_set(c, 0, x->dtype, x->rank, dims));
  return infer_set(c, 1, WF_DTYPE_I64, x->rank, dims);
}

/* ---- products ---------------------------------------------------------------------------- */

static weft_status must_agree(infer *c, wf_expr a, wf_expr b, const char *what) {
  int64_t x, y;
  if (wf_expr_is_const(c->p, a, &x) && wf_expr_is_const(c->p, b, &y) && x != y) {
    return infer_fail(c, "%s is %lld on one side and %lld on the other", what, (long long)x,
                      (long long)y);
  }
  return WEFT_OK;
}

static weft_status matmul_as(infer *c, int32_t ia, int32_t ib, wf_dtype dtype) {
  const wf_value *a = infer_in(c, ia), *b = infer_in(c, ib);
  wf_expr da[GRAPH_MAX_RANK + 1], db[GRAPH_MAX_RANK + 1], dims[GRAPH_MAX_RANK + 1];
  int32_t rank;
  if (!a || !b) return infer_fail(c, "it needs two inputs");
  if (a->rank < 0 || b->rank < 0) return infer_set(c, 0, dtype, -1, NULL);
  if (a->rank == 0 || b->rank == 0) return infer_fail(c, "it multiplies a scalar");
  const int32_t ra = a->rank == 1 ? 2 : a->rank, rb = b->rank == 1 ? 2 : b->rank;
  if (a->rank == 1)
    da[0] = infer_k(c, 1), da[1] = a->dims[0];
  else
    memcpy(da, a->dims, (size_t)ra * sizeof *da);
  if (b->rank == 1)
    db[0] = b->dims[0], db[1] = infer_k(c, 1);
  else
    memcpy(db, b->dims, (size_t)rb * sizeof *db);
  if (c->n->op == WF_OP_MS_FUSED_MATMUL) {
    if (wf_node_attr_i(c->n, "transBatchA", 0) || wf_node_attr_i(c->n, "transBatchB", 0)) {
      return infer_set(c, 0, dtype, -1, NULL);
    }
    if (wf_node_attr_i(c->n, "transA", 0) && a->rank > 1) {
      const wf_expr t = da[ra - 1];
      da[ra - 1] = da[ra - 2], da[ra - 2] = t;
    }
    if (wf_node_attr_i(c->n, "transB", 0) && b->rank > 1) {
      const wf_expr t = db[rb - 1];
      db[rb - 1] = db[rb - 2], db[rb - 2] = t;
    }
  }
  WF_RETURN_IF_ERROR(must_agree(c, da[ra - 1], db[rb - 2], "the inner dimension"));
  WF_RETURN_IF_ERROR(infer_broadcast(c, ra - 2, da, rb - 2, db, &rank, dims));
  if (a->rank > 1) dims[rank++] = da[ra - 2];
  if (b->rank > 1) dims[rank++] = db[rb - 1];
  return infer_set(c, 0, dtype, rank, dims);
}

weft_status infer_matmul(infer *c) { return matmul_as(c, 0, 1, infer_dtype(c, 0)); }

weft_status infer_matmul_integer(infer *c) { return matmul_as(c, 0, 1, WF_DTYPE_I32); }

weft_status infer_float_matmul(infer *c) {
  const bool is_dynamic =
      c->n->op == WF_OP_MS_DYNAMIC_QUANTIZE_MATMUL || c->n->op == WF_OP_WEFT_DYNAMIC_LINEAR;
  return matmul_as(c, 0, 1, infer_dtype(c, is_dynamic ? 0 : 2));
}

weft_status infer_gemm(infer *c) {
  const wf_value *a = infer_in(c, 0), *b = infer_in(c, 1);
  if (!a || !b) return infer_fail(c, "it needs two inputs");
  if (a->rank != 2 || b->rank != 2) {
    if (a->rank >= 0 && b->rank >= 0) return infer_fail(c, "its inputs are not matrices");
    return infer_set(c, 0, a->dtype, -1, NULL);
  }
  const int ta = wf_node_attr_i(c->n, "transA", 0) != 0,
            tb = wf_node_attr_i(c->n, "transB", 0) != 0;
  WF_RETURN_IF_ERROR(must_agree(c, a->dims[1 - ta], b->dims[tb], "the inner dimension"));
  const wf_expr dims[2] = {a->dims[ta], b->dims[1 - tb]};
  return infer_set(c, 0, a->dtype, 2, dims);
}

/* Letters of one operand of an equation; n -1: spaces aside, something else is in it. */
static void letters_of(wf_str s, char *out, int32_t *n) {
  *n = 0;
  for (size_t i = 0; i < s.n; i++) {
    const char ch = s.at[i];
    if (ch == ' ') continue;
    const bool is_letter = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z');
    if (!is_letter || *n >= GRAPH_MAX_RANK) {
      *n = -1; /* ellipses are left to the backend */
      return;
    }
    out[(*n)++] = ch;
  }
}

weft_status infer_einsum(infer *c) {
  const wf_str eq = wf_node_attr_s(c->n, "equation");
  const size_t arrow = wf_str_find(eq, WF_STR("->"), 0);
  wf_expr by_letter[128];
  for (size_t i = 0; i < 128; i++) by_letter[i] = WF_EXPR_NONE;
  if (arrow == SIZE_MAX) return infer_set(c, 0, infer_dtype(c, 0), -1, NULL);
  size_t at = 0;
  for (int32_t i = 0; i < c->n->n_inputs; i++) {
    size_t comma = wf_str_find(eq, WF_STR(","), at);
    if (comma > arrow) comma = arrow;
    char letters[GRAPH_MAX_RANK];
    int32_t n;
    letters_of((wf_str){eq.at + at, comma - at}, letters, &n);
    if (n < 0) return infer_set(c, 0, infer_dtype(c, 0), -1, NULL);
    if (infer_rank(c, i) >= 0 && infer_rank(c, i) != n)
      return infer_fail(c, "operand %d has another rank than its equation", i);
    for (int32_t k = 0; k < n; k++) {
      wf_expr *e = &by_letter[(unsigned char)letters[k]];
      const wf_expr d = infer_dim(c, i, k);
      int64_t v;
      if (*e < 0 || (wf_expr_is_const(c->p, *e, &v) && v == 1)) *e = d;
    }
    if (comma == arrow) {
      if (i + 1 != c->n->n_inputs) return infer_fail(c, "its equation has too few operands");
      break;
    }
    at = comma + 1;
  }
  char letters[GRAPH_MAX_RANK];
  int32_t n;
  wf_expr dims[GRAPH_MAX_RANK];
  letters_of((wf_str){eq.at + arrow + 2, eq.n - arrow - 2}, letters, &n);
  for (int32_t k = 0; k < n; k++) dims[k] = by_letter[(unsigned char)letters[k]];
  return infer_set(c, 0, infer_dtype(c, 0), n, dims);
}

/* One spatial extent of a convolution. */
static wf_expr conv_extent(infer *c, wf_expr in, wf_expr kernel, int64_t pad, int64_t stride,
                           int64_t dilation, bool is_same) {
  if (stride < 1 || dilation < 1) return WF_EXPR_NONE;
  const wf_expr s = infer_k(c, stride);
  if (is_same) return wf_expr_floordiv(c->p, wf_expr_add(c->p, in, infer_k(c, stride - 1)), s);
  /* (in + pad - dilation * (kernel - 1) - 1) / stride + 1 */
  wf_expr e = wf_expr_mul(c->p, infer_k(c, dilation), wf_expr_sub(c->p, kernel, infer_k(c, 1)));
  e = wf_expr_sub(c->p, wf_expr_add(c->p, in, infer_k(c, pad - 1)), e);
  return wf_expr_add(c->p, wf_expr_floordiv(c->p, e, s), infer_k(c, 1));
}

weft_status infer_conv(infer *c) {
  const wf_value *x = infer_in(c, 0), *w = infer_in(c, 1);
  wf_expr dims[GRAPH_MAX_RANK];
  int64_t pads[2 * GRAPH_MAX_RANK], strides[GRAPH_MAX_RANK], dilations[GRAPH_MAX_RANK];
  int32_t n_pads, n_strides, n_dilations;
  if (!x || !w) return infer_fail(c, "it needs two inputs");
  if (x->rank < 3 || w->rank != x->rank) return infer_set(c, 0, x->dtype, -1, NULL);
  const int32_t n = x->rank - 2;
  infer_ints(c, "pads", -1, pads, 2 * GRAPH_MAX_RANK, &n_pads);
  infer_ints(c, "strides", -1, strides, GRAPH_MAX_RANK, &n_strides);
  infer_ints(c, "dilations", -1, dilations, GRAPH_MAX_RANK, &n_dilations);
  const wf_str automatic = wf_node_attr_s(c->n, "auto_pad");
  dims[0] = x->dims[0];
  dims[1] = w->dims[0];
  for (int32_t i = 0; i < n; i++) {
    int64_t pad = 0;
    if (n_pads == 2 * n && !__builtin_add_overflow(pads[i], pads[n + i], &pad) &&
        (pad < 0 || pad > INT32_MAX)) {
      return infer_fail(c, "its padding is outside");
    }
    dims[2 + i] =
        conv_extent(c, x->dims[2 + i], w->dims[2 + i], pad, n_strides == n ? strides[i] : 1,
                    n_dilations == n ? dilations[i] : 1, wf_str_starts(automatic, WF_STR("SAME")));
  }
  return infer_set(c, 0, x->dtype, x->rank, dims);
}
