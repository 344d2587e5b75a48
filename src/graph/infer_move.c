/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of data movement, and the integers that travel through it. */
#include <math.h>
#include <string.h>

#include "graph/infer.h"

/* ---- constants --------------------------------------------------------------------------- */

weft_status infer_identity(infer *c) {
  const wf_value *x = infer_in(c, 0);
  if (!x) return WEFT_OK;
  WF_RETURN_IF_ERROR(infer_same(c, 0, 0));
  return infer_set_content(c, 0, x->n_content, x->content);
}

weft_status infer_dropout(infer *c) {
  const wf_value *x = infer_in(c, 0);
  WF_RETURN_IF_ERROR(infer_same(c, 0, 0));
  return x ? infer_set(c, 1, WF_DTYPE_BOOL, x->rank, x->dims) : WEFT_OK;
}

/* The tensor of a Constant node in whichever attribute it stands. */
static weft_status constant_tensor(infer *c, const wf_tensor **result) {
  *result = NULL;
  const wf_attr *a = wf_node_attr(c->n, "value");
  if (a && a->kind == WF_ATTR_TENSOR) {
    *result = a->tensors;
    return WEFT_OK;
  }
  wf_tensor *t = wf_arena_alloc(c->g->arena, sizeof *t);
  int64_t *dims = wf_arena_calloc(c->g->arena, 1, sizeof *dims);
  if (!t || !dims) return graph_no_memory(c->err);
  t->dims = dims;
  const wf_attr *list = NULL;
  if ((a = wf_node_attr(c->n, "value_float")) && a->kind == WF_ATTR_FLOAT) {
    t->dtype = WF_DTYPE_F32, t->data = &a->f;
  } else if ((a = wf_node_attr(c->n, "value_int")) && a->kind == WF_ATTR_INT) {
    t->dtype = WF_DTYPE_I64, t->data = &a->i;
  } else if ((a = wf_node_attr(c->n, "value_string")) && a->kind == WF_ATTR_STRING) {
    t->dtype = WF_DTYPE_STRING, t->strings = &a->s;
  } else if ((list = wf_node_attr(c->n, "value_floats")) && list->kind == WF_ATTR_FLOATS) {
    t->dtype = WF_DTYPE_F32, t->data = list->floats;
  } else if ((list = wf_node_attr(c->n, "value_ints")) && list->kind == WF_ATTR_INTS) {
    t->dtype = WF_DTYPE_I64, t->data = list->ints;
  } else if ((list = wf_node_attr(c->n, "value_strings")) && list->kind == WF_ATTR_STRINGS) {
    t->dtype = WF_DTYPE_STRING, t->strings = list->strings;
  } else {
    return infer_fail(c, "it has no value that is a dense tensor");
  }
  t->rank = list ? 1 : 0;
  t->n = list ? list->n : 1;
  dims[0] = (int64_t)t->n;
  if (t->dtype != WF_DTYPE_STRING && !wf_dtype_bytes(t->dtype, t->n, &t->n_bytes))
    return infer_fail(c, "its value is too large");
  *result = t;
  return WEFT_OK;
}

weft_status infer_constant(infer *c) {
  const wf_tensor *t;
  wf_value *v = infer_out(c, 0);
  if (!v) return WEFT_OK;
  WF_RETURN_IF_ERROR(constant_tensor(c, &t));
  if (t->rank > GRAPH_MAX_RANK) return infer_fail(c, "its value has %d dimensions", t->rank);
  const wf_value *made = graph_new_const(c->g, WF_STR("constant"), t);
  if (!made) return graph_no_memory(c->err);
  WF_RETURN_IF_ERROR(infer_set(c, 0, t->dtype, made->rank, made->dims));
  WF_RETURN_IF_ERROR(infer_set_content(c, 0, made->n_content, made->content));
  v->tensor = t; /* the value is a constant from here on; the node goes with the dead code */
  return WEFT_OK;
}

weft_status infer_constant_of_shape(infer *c) {
  const wf_value *shape = infer_in(c, 0);
  const wf_attr *a = wf_node_attr(c->n, "value");
  const wf_tensor *t = a && a->kind == WF_ATTR_TENSOR ? a->tensors : NULL;
  const wf_dtype dtype = t ? t->dtype : WF_DTYPE_F32;
  if (!shape || shape->n_content < 0) {
    int64_t rank;
    if (shape && shape->rank == 1 && wf_expr_is_const(c->p, shape->dims[0], &rank) && rank >= 0 &&
        rank <= GRAPH_MAX_RANK) {
      wf_expr unknown[GRAPH_MAX_RANK];
      for (int32_t i = 0; i < rank; i++) unknown[i] = WF_EXPR_NONE;
      return infer_set(c, 0, dtype, (int32_t)rank, unknown);
    }
    return infer_set(c, 0, dtype, -1, NULL);
  }
  if (shape->n_content > GRAPH_MAX_RANK)
    return infer_fail(c, "it makes %d dimensions", shape->n_content);
  WF_RETURN_IF_ERROR(infer_set(c, 0, dtype, shape->n_content, shape->content));
  int64_t n = 1, v = 0;
  if (shape->n_content == 1 &&
      (!wf_expr_is_const(c->p, shape->content[0], &n) || n < 0 || n > GRAPH_MAX_CONTENT))
    return WEFT_OK;
  if (shape->n_content > 1 || wf_dtype_is_float(dtype)) return WEFT_OK;
  if (t && !graph_tensor_i64(t, 0, &v)) return WEFT_OK;
  wf_expr out[GRAPH_MAX_CONTENT];
  for (int64_t i = 0; i < n; i++) out[i] = infer_k(c, v);
  return infer_set_content(c, 0, (int32_t)n, out);
}

/* ---- shapes as values -------------------------------------------------------------------- */

weft_status infer_shape(infer *c) {
  const wf_value *x = infer_in(c, 0);
  if (!x || x->rank < 0) return infer_set(c, 0, WF_DTYPE_I64, 1, &(wf_expr){WF_EXPR_NONE});
  int64_t start = wf_node_attr_i(c->n, "start", 0), end = wf_node_attr_i(c->n, "end", x->rank);
  if (start < 0) start += x->rank;
  if (end < 0) end += x->rank;
  if (start < 0) start = 0;
  if (end > x->rank) end = x->rank;
  const int32_t n = end > start ? (int32_t)(end - start) : 0;
  const wf_expr dims[1] = {infer_k(c, n)};
  WF_RETURN_IF_ERROR(infer_set(c, 0, WF_DTYPE_I64, 1, dims));
  return infer_set_content(c, 0, n, n ? x->dims + start : NULL);
}

weft_status infer_size(infer *c) {
  const wf_value *x = infer_in(c, 0);
  WF_RETURN_IF_ERROR(infer_set(c, 0, WF_DTYPE_I64, 0, NULL));
  const wf_expr n = x ? wf_value_count(c->g, x) : WF_EXPR_NONE;
  return infer_set_content(c, 0, 1, &n);
}

weft_status infer_range(infer *c) {
  const wf_value *start = infer_in(c, 0), *end = infer_in(c, 1), *step = infer_in(c, 2);
  wf_expr n = WF_EXPR_NONE;
  int64_t k = 0;
  if (!start || !end || !step) return infer_fail(c, "it needs three inputs");
  if (start->n_content == 1 && end->n_content == 1 && step->n_content == 1 &&
      wf_expr_is_const(c->p, step->content[0], &k) && k > 0) {
    const wf_expr span =
        wf_expr_add(c->p, wf_expr_sub(c->p, end->content[0], start->content[0]), infer_k(c, k - 1));
    n = wf_expr_max(c->p, infer_k(c, 0), wf_expr_floordiv(c->p, span, infer_k(c, k)));
  }
  double a, b, d;
  if (n < 0 && graph_const_scalar(c->g, start->id, &a) && graph_const_scalar(c->g, end->id, &b) &&
      graph_const_scalar(c->g, step->id, &d) && d != 0 && (b - a) / d < INT32_MAX) {
    n = infer_k(c, (b - a) / d > 0 ? (int64_t)ceil((b - a) / d) : 0);
  }
  WF_RETURN_IF_ERROR(infer_set(c, 0, start->dtype, 1, &n));
  int64_t count;
  if (k <= 0 || start->n_content != 1) return WEFT_OK;
  if (!wf_expr_is_const(c->p, n, &count) || count > GRAPH_MAX_CONTENT) return WEFT_OK;
  wf_expr out[GRAPH_MAX_CONTENT];
  wf_expr e = start->content[0];
  for (int64_t i = 0; i < count; i++) {
    out[i] = e;
    e = wf_expr_add(c->p, e, infer_k(c, k));
  }
  return infer_set_content(c, 0, (int32_t)count, out);
}

/* ---- reshaping --------------------------------------------------------------------------- */

weft_status infer_reshape(infer *c) {
  const wf_value *x = infer_in(c, 0), *s = infer_in(c, 1);
  wf_expr dims[GRAPH_MAX_RANK];
  if (!x || !s) return infer_fail(c, "it needs two inputs");
  if (s->n_content < 0) {
    int64_t rank;
    if (s->rank == 1 && wf_expr_is_const(c->p, s->dims[0], &rank) && rank >= 0 &&
        rank <= GRAPH_MAX_RANK) {
      for (int32_t i = 0; i < rank; i++) dims[i] = WF_EXPR_NONE;
      return infer_set(c, 0, x->dtype, (int32_t)rank, dims);
    }
    return infer_set(c, 0, x->dtype, -1, NULL);
  }
  if (s->n_content > GRAPH_MAX_RANK) return infer_fail(c, "it makes %d dimensions", s->n_content);
  const bool zero_is_zero = wf_node_attr_i(c->n, "allowzero", 0) != 0;
  int32_t open = -1;
  wf_expr product = infer_k(c, 1);
  for (int32_t i = 0; i < s->n_content; i++) {
    int64_t v;
    dims[i] = s->content[i];
    if (wf_expr_is_const(c->p, dims[i], &v)) {
      if (v == 0 && !zero_is_zero) dims[i] = infer_dim(c, 0, i);
      if (v < -1 || (v == -1 && open >= 0))
        return infer_fail(c, "it makes a dimension of %lld", (long long)v);
      if (v == -1) {
        open = i;
        continue;
      }
    }
    product = wf_expr_mul(c->p, product, dims[i]);
  }
  const wf_expr total = wf_value_count(c->g, x);
  if (open >= 0) {
    dims[open] = wf_expr_exact_div(c->p, total, product);
    int64_t a, b;
    if (dims[open] < 0 && wf_expr_is_const(c->p, total, &a) &&
        wf_expr_is_const(c->p, product, &b) && b != 0) {
      return infer_fail(c, "%lld elements do not fill rows of %lld", (long long)a, (long long)b);
    }
    if (dims[open] < 0 && total >= 0 && product >= 0)
      dims[open] = wf_expr_floordiv(c->p, total, product);
  }
  WF_RETURN_IF_ERROR(infer_set(c, 0, x->dtype, s->n_content, dims));
  return s->n_content <= 1 ? infer_set_content(c, 0, x->n_content, x->content) : WEFT_OK;
}

weft_status infer_transpose(infer *c) {
  const wf_value *x = infer_in(c, 0);
  wf_expr dims[GRAPH_MAX_RANK];
  int64_t perm[GRAPH_MAX_RANK];
  int32_t n;
  if (!x || x->rank < 0) return infer_set(c, 0, infer_dtype(c, 0), -1, NULL);
  infer_ints(c, "perm", -1, perm, GRAPH_MAX_RANK, &n);
  if (n >= 0 && n != x->rank)
    return infer_fail(c, "its perm has %d entries for %d dimensions", n, x->rank);
  uint32_t seen = 0;
  for (int32_t i = 0; i < x->rank; i++) {
    const int64_t from = n < 0 ? x->rank - 1 - i : perm[i];
    if (from < 0 || from >= x->rank || (seen >> from & 1))
      return infer_fail(c, "its perm is no permutation");
    seen |= 1u << from;
    dims[i] = x->dims[from];
  }
  return infer_set(c, 0, x->dtype, x->rank, dims);
}

weft_status infer_squeeze(infer *c) {
  const wf_value *x = infer_in(c, 0);
  wf_expr dims[GRAPH_MAX_RANK];
  int64_t axes[GRAPH_MAX_RANK];
  int32_t n, rank = 0;
  bool drop[GRAPH_MAX_RANK] = {false};
  if (!x || x->rank < 0) return infer_set(c, 0, infer_dtype(c, 0), -1, NULL);
  infer_ints(c, "axes", 1, axes, GRAPH_MAX_RANK, &n);
  if (n == -2) return infer_set(c, 0, x->dtype, -1, NULL);
  for (int32_t i = 0; i < n; i++) {
    int32_t a;
    int64_t v;
    if (!infer_axis(axes[i], x->rank, &a))
      return infer_fail(c, "axis %lld is outside", (long long)axes[i]);
    if (wf_expr_is_const(c->p, x->dims[a], &v) && v != 1)
      return infer_fail(c, "it squeezes a dimension of %lld", (long long)v);
    drop[a] = true;
  }
  for (int32_t i = 0; i < x->rank; i++) {
    int64_t v;
    if (n < 0) { /* all that are 1: only known when every dim is */
      if (!wf_expr_is_const(c->p, x->dims[i], &v)) return infer_set(c, 0, x->dtype, -1, NULL);
      drop[i] = v == 1;
    }
    if (!drop[i]) dims[rank++] = x->dims[i];
  }
  WF_RETURN_IF_ERROR(infer_set(c, 0, x->dtype, rank, dims));
  return rank <= 1 ? infer_set_content(c, 0, x->n_content, x->content) : WEFT_OK;
}

weft_status infer_unsqueeze(infer *c) {
  const wf_value *x = infer_in(c, 0);
  wf_expr dims[GRAPH_MAX_RANK];
  int64_t axes[GRAPH_MAX_RANK];
  int32_t n;
  bool is_new[GRAPH_MAX_RANK] = {false};
  if (!x || x->rank < 0) return infer_set(c, 0, infer_dtype(c, 0), -1, NULL);
  infer_ints(c, "axes", 1, axes, GRAPH_MAX_RANK, &n);
  if (n < 0 || x->rank + n > GRAPH_MAX_RANK) return infer_set(c, 0, x->dtype, -1, NULL);
  const int32_t rank = x->rank + n;
  for (int32_t i = 0; i < n; i++) {
    int32_t a;
    if (!infer_axis(axes[i], rank, &a) || is_new[a])
      return infer_fail(c, "axis %lld is outside or given twice", (long long)axes[i]);
    is_new[a] = true;
  }
  for (int32_t i = 0, k = 0; i < rank; i++) dims[i] = is_new[i] ? infer_k(c, 1) : x->dims[k++];
  WF_RETURN_IF_ERROR(infer_set(c, 0, x->dtype, rank, dims));
  return rank <= 1 ? infer_set_content(c, 0, x->n_content, x->content) : WEFT_OK;
}

weft_status infer_flatten(infer *c) {
  const wf_value *x = infer_in(c, 0);
  if (!x || x->rank < 0) return infer_set(c, 0, infer_dtype(c, 0), -1, NULL);
  int64_t axis = wf_node_attr_i(c->n, "axis", 1);
  if (axis < 0) axis += x->rank;
  if (axis < 0 || axis > x->rank) return infer_fail(c, "its axis is outside");
  wf_expr dims[2] = {infer_k(c, 1), infer_k(c, 1)};
  for (int32_t i = 0; i < x->rank; i++) {
    wf_expr *d = &dims[i >= axis];
    *d = wf_expr_mul(c->p, *d, x->dims[i]);
  }
  return infer_set(c, 0, x->dtype, 2, dims);
}

weft_status infer_expand(infer *c) {
  const wf_value *x = infer_in(c, 0), *s = infer_in(c, 1);
  wf_expr dims[GRAPH_MAX_RANK];
  int32_t rank;
  if (!x || !s) return infer_fail(c, "it needs two inputs");
  if (s->n_content < 0 || s->n_content > GRAPH_MAX_RANK) {
    int64_t n;
    if (s->n_content < 0 && x->rank >= 0 && s->rank == 1 &&
        wf_expr_is_const(c->p, s->dims[0], &n) && n >= 0 && n <= GRAPH_MAX_RANK) {
      rank = x->rank > n ? x->rank : (int32_t)n;
      for (int32_t i = 0; i < rank; i++) dims[i] = WF_EXPR_NONE;
      return infer_set(c, 0, x->dtype, rank, dims);
    }
    return infer_set(c, 0, x->dtype, -1, NULL);
  }
  WF_RETURN_IF_ERROR(infer_broadcast(c, x->rank, x->dims, s->n_content, s->content, &rank, dims));
  WF_RETURN_IF_ERROR(infer_set(c, 0, x->dtype, rank, dims));
  int64_t n;
  if (rank > 1 || rank < 0 || x->n_content < 0) return WEFT_OK;
  if (rank == 0) return infer_set_content(c, 0, 1, x->content);
  if (!wf_expr_is_const(c->p, dims[0], &n) || n > GRAPH_MAX_CONTENT || x->n_content < 1)
    return WEFT_OK;
  wf_expr out[GRAPH_MAX_CONTENT];
  for (int32_t i = 0; i < n; i++) out[i] = x->content[x->n_content == n ? i : 0];
  return infer_set_content(c, 0, (int32_t)n, out);
}

weft_status infer_tile(infer *c) {
  const wf_value *x = infer_in(c, 0), *r = infer_in(c, 1);
  wf_expr dims[GRAPH_MAX_RANK];
  if (!x || !r || x->rank < 0) return infer_set(c, 0, infer_dtype(c, 0), -1, NULL);
  if (r->n_content >= 0 && r->n_content != x->rank)
    return infer_fail(c, "it repeats %d of %d dimensions", r->n_content, x->rank);
  for (int32_t i = 0; i < x->rank; i++)
    dims[i] = r->n_content < 0 ? WF_EXPR_NONE : wf_expr_mul(c->p, x->dims[i], r->content[i]);
  return infer_set(c, 0, x->dtype, x->rank, dims);
}

/* ---- joining and cutting ----------------------------------------------------------------- */

static weft_status concat_content(infer *c) {
  wf_expr out[GRAPH_MAX_CONTENT];
  int32_t n = 0;
  for (int32_t i = 0; i < c->n->n_inputs; i++) {
    const wf_value *v = infer_in(c, i);
    int64_t k;
    if (!v || v->rank != 1) return WEFT_OK;
    const bool has_size = wf_expr_is_const(c->p, v->dims[0], &k);
    if (v->n_content < 0 && (!has_size || k < 0 || k > GRAPH_MAX_CONTENT)) return WEFT_OK;
    const int32_t m = v->n_content >= 0 ? v->n_content : (int32_t)k;
    if (n + m > GRAPH_MAX_CONTENT) return WEFT_OK;
    for (int32_t j = 0; j < m; j++) out[n++] = v->n_content >= 0 ? v->content[j] : WF_EXPR_NONE;
  }
  return infer_set_content(c, 0, n, out);
}

weft_status infer_concat(infer *c) {
  wf_expr dims[GRAPH_MAX_RANK];
  int32_t rank = -1, axis = 0;
  for (int32_t i = 0; i < c->n->n_inputs; i++) {
    const wf_value *v = infer_in(c, i);
    if (!v || v->rank < 0) return infer_set(c, 0, infer_dtype(c, 0), -1, NULL);
    if (rank < 0) {
      rank = v->rank;
      if (!infer_axis(wf_node_attr_i(c->n, "axis", 0), rank, &axis))
        return infer_fail(c, "its axis is outside");
      memcpy(dims, v->dims, (size_t)rank * sizeof *dims);
      continue;
    }
    if (v->rank != rank)
      return infer_fail(c, "its inputs have %d and %d dimensions", rank, v->rank);
    for (int32_t k = 0; k < rank; k++) {
      int64_t a, b;
      if (k == axis) {
        dims[k] = wf_expr_add(c->p, dims[k], v->dims[k]);
      } else if (!wf_expr_is_const(c->p, dims[k], &a)) {
        if (dims[k] < 0 || wf_expr_is_const(c->p, v->dims[k], &b)) dims[k] = v->dims[k];
      } else if (wf_expr_is_const(c->p, v->dims[k], &b) && a != b) {
        return infer_fail(c, "its inputs differ in dimension %d: %lld and %lld", k, (long long)a,
                          (long long)b);
      }
    }
  }
  WF_RETURN_IF_ERROR(infer_set(c, 0, infer_dtype(c, 0), rank, dims));
  return rank == 1 ? concat_content(c) : WEFT_OK;
}

weft_status infer_split(infer *c) {
  const wf_value *x = infer_in(c, 0);
  wf_expr dims[GRAPH_MAX_RANK];
  int64_t sizes[GRAPH_MAX_CONTENT];
  int32_t axis, n;
  if (!x || x->rank < 0) return WEFT_OK;
  if (!infer_axis(wf_node_attr_i(c->n, "axis", 0), x->rank, &axis))
    return infer_fail(c, "its axis is outside");
  infer_ints(c, "split", 1, sizes, GRAPH_MAX_CONTENT, &n);
  if (n >= 0 && n != c->n->n_outputs)
    return infer_fail(c, "it has %d sizes for %d outputs", n, c->n->n_outputs);
  memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
  int64_t total, chunk = 0, sum = 0;
  const bool is_const = wf_expr_is_const(c->p, x->dims[axis], &total);
  if (is_const) chunk = total / c->n->n_outputs + (total % c->n->n_outputs != 0);
  int32_t from = 0;
  for (int32_t i = 0; i < c->n->n_outputs; i++) {
    int64_t size = 0;
    if (n >= 0)
      size = sizes[i];
    else if (is_const)
      size = total - sum < chunk ? total - sum : chunk;
    if (size < 0 || __builtin_add_overflow(sum, size, &sum))
      return infer_fail(c, "a part has %lld rows", (long long)size);
    if (n >= 0 || (n == -1 && is_const))
      dims[axis] = infer_k(c, size);
    else if (n == -1)
      dims[axis] = wf_expr_exact_div(c->p, x->dims[axis], infer_k(c, c->n->n_outputs));
    else
      dims[axis] = WF_EXPR_NONE;
    WF_RETURN_IF_ERROR(infer_set(c, i, x->dtype, x->rank, dims));
    if (x->rank == 1 && x->n_content >= 0 && size <= x->n_content - from) {
      WF_RETURN_IF_ERROR(infer_set_content(c, i, (int32_t)size, x->content + from));
      from += (int32_t)size;
    }
  }
  if (n >= 0 && is_const && sum != total)
    return infer_fail(c, "its parts have %lld of %lld rows", (long long)sum, (long long)total);
  return WEFT_OK;
}

/* A bound of a slice in [0, dim]. */
static wf_expr clamp_bound(infer *c, wf_expr e, wf_expr dim) {
  int64_t v;
  if (e < 0 || dim < 0) return WF_EXPR_NONE;
  if (wf_expr_is_const(c->p, e, &v)) {
    if (v >= INT32_MAX) return dim;
    if (v < 0)
      return wf_expr_max(c->p, infer_k(c, 0),
                         wf_expr_add(c->p, dim, v <= -INT32_MAX ? infer_k(c, -INT32_MAX) : e));
    return wf_expr_min(c->p, e, dim);
  }
  return wf_expr_is_nonnegative(c->p, e) ? wf_expr_min(c->p, e, dim) : WF_EXPR_NONE;
}

static wf_expr slice_extent(infer *c, wf_expr start, wf_expr end, int64_t step, wf_expr dim) {
  int64_t s, e, d;
  if (step < 0 && wf_expr_is_const(c->p, start, &s) && s == -1 && wf_expr_is_const(c->p, end, &e) &&
      e <= -INT32_MAX) { /* the whole axis, reversed */
    return wf_expr_floordiv(c->p, wf_expr_add(c->p, dim, infer_k(c, -step - 1)), infer_k(c, -step));
  }
  if (step < 0) {
    if (!wf_expr_is_const(c->p, start, &s) || !wf_expr_is_const(c->p, end, &e) ||
        !wf_expr_is_const(c->p, dim, &d))
      return WF_EXPR_NONE;
    if (s < 0) s += d;
    if (e < 0 && e > -INT32_MAX) e += d;
    s = s < 0 ? -1 : s > d - 1 ? d - 1 : s;
    e = e < -1 ? -1 : e > d ? d : e;
    return infer_k(c, s > e ? (s - e - 1) / -step + 1 : 0);
  }
  /* The last k of an axis: min(dim, k), not dim - max(0, dim - k). */
  if (wf_expr_is_const(c->p, start, &s) && s < 0 && s > -INT32_MAX &&
      clamp_bound(c, end, dim) == dim && dim >= 0) {
    const wf_expr k = wf_expr_min(c->p, dim, infer_k(c, -s));
    return step == 1 ? k
                     : wf_expr_floordiv(c->p, wf_expr_add(c->p, k, infer_k(c, step - 1)),
                                        infer_k(c, step));
  }
  wf_expr n = wf_expr_sub(c->p, clamp_bound(c, end, dim), clamp_bound(c, start, dim));
  n = wf_expr_max(c->p, infer_k(c, 0), n);
  if (step == 1) return n;
  return wf_expr_floordiv(c->p, wf_expr_add(c->p, n, infer_k(c, step - 1)), infer_k(c, step));
}

typedef struct slice_args {
  wf_expr starts[GRAPH_MAX_RANK], ends[GRAPH_MAX_RANK];
  int64_t axes[GRAPH_MAX_RANK], steps[GRAPH_MAX_RANK];
  int32_t n; /* -1: not known */
} slice_args;

static bool bound_list(infer *c, const char *attr, int32_t input, wf_expr *out, int32_t *n) {
  const wf_attr *a = wf_node_attr(c->n, attr);
  const wf_value *v = infer_in(c, input);
  if (a && a->kind == WF_ATTR_INTS && a->n <= GRAPH_MAX_RANK) {
    for (size_t i = 0; i < a->n; i++) out[i] = infer_k(c, a->ints[i]);
    *n = (int32_t)a->n;
    return true;
  }
  if (!v || v->n_content < 0 || v->n_content > GRAPH_MAX_RANK) return false;
  for (int32_t i = 0; i < v->n_content; i++) out[i] = v->content[i];
  *n = v->n_content;
  return true;
}

static void read_slice(infer *c, slice_args *s) {
  int32_t n_ends, n_axes, n_steps;
  s->n = -1;
  int32_t n_starts = -1;
  const wf_value *starts = infer_in(c, 1);
  int64_t count;
  if (!bound_list(c, "starts", 1, s->starts, &n_starts)) { /* how many is enough for the axes */
    if (!starts || starts->rank != 1 || !wf_expr_is_const(c->p, starts->dims[0], &count) ||
        count < 0 || count > GRAPH_MAX_RANK)
      return;
    n_starts = (int32_t)count;
    for (int32_t i = 0; i < n_starts; i++) s->starts[i] = WF_EXPR_NONE;
  }
  if (!bound_list(c, "ends", 2, s->ends, &n_ends)) {
    n_ends = n_starts;
    for (int32_t i = 0; i < n_starts; i++) s->ends[i] = WF_EXPR_NONE;
  }
  infer_ints(c, "axes", 3, s->axes, GRAPH_MAX_RANK, &n_axes);
  infer_ints(c, "steps", 4, s->steps, GRAPH_MAX_RANK, &n_steps);
  if (n_axes == -2 || n_ends != n_starts || (n_axes >= 0 && n_axes != n_starts)) return;
  if (n_steps >= 0 && n_steps != n_starts) return;
  for (int32_t i = 0; i < n_starts; i++) {
    if (n_axes < 0) s->axes[i] = i;
    if (n_steps < 0) s->steps[i] = n_steps == -1 ? 1 : 0; /* 0: not known */
  }
  s->n = n_starts;
}

static weft_status slice_content(infer *c, const wf_value *x, const slice_args *s) {
  int64_t start, end;
  if (x->rank != 1 || x->n_content < 0 || s->n != 1 || s->steps[0] == 0) return WEFT_OK;
  if (!wf_expr_is_const(c->p, s->starts[0], &start) || !wf_expr_is_const(c->p, s->ends[0], &end))
    return WEFT_OK;
  const int64_t d = x->n_content, step = s->steps[0];
  if (start < 0) start += d;
  if (end < 0 && end > -INT32_MAX) end += d;
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? d : d - 1;
  start = start < (step > 0 ? 0 : -1) ? low : start > high ? high : start;
  end = end < low ? low : end > d ? d : end;
  wf_expr out[GRAPH_MAX_CONTENT];
  int32_t n = 0;
  for (int64_t i = start; step > 0 ? i < end : i > end; i += step) {
    if (i < 0 || i >= d) break;
    out[n++] = x->content[i];
    if (step > d || step < -d) break;
  }
  return infer_set_content(c, 0, n, out);
}

weft_status infer_slice(infer *c) {
  const wf_value *x = infer_in(c, 0);
  slice_args s;
  wf_expr dims[GRAPH_MAX_RANK];
  if (!x || x->rank < 0) return infer_set(c, 0, infer_dtype(c, 0), -1, NULL);
  read_slice(c, &s);
  for (int32_t i = 0; i < x->rank; i++) dims[i] = s.n < 0 ? WF_EXPR_NONE : x->dims[i];
  for (int32_t i = 0; i < s.n; i++) {
    int32_t a;
    if (!infer_axis(s.axes[i], x->rank, &a))
      return infer_fail(c, "axis %lld is outside", (long long)s.axes[i]);
    if (s.steps[i] > INT32_MAX) s.steps[i] = INT32_MAX;
    if (s.steps[i] < -INT32_MAX) s.steps[i] = -INT32_MAX;
    dims[a] = s.steps[i] == 0 ? WF_EXPR_NONE
                              : slice_extent(c, s.starts[i], s.ends[i], s.steps[i], x->dims[a]);
  }
  WF_RETURN_IF_ERROR(infer_set(c, 0, x->dtype, x->rank, dims));
  return slice_content(c, x, &s);
}

weft_status infer_pad(infer *c) {
  const wf_value *x = infer_in(c, 0), *p = infer_in(c, 1);
  wf_expr dims[GRAPH_MAX_RANK];
  int64_t axes[GRAPH_MAX_RANK];
  int32_t n_axes;
  if (!x || x->rank < 0) return infer_set(c, 0, infer_dtype(c, 0), -1, NULL);
  infer_ints(c, "axes", 3, axes, GRAPH_MAX_RANK, &n_axes);
  const wf_attr *a = wf_node_attr(c->n, "pads");
  if (n_axes == -1) {
    n_axes = x->rank;
    for (int32_t i = 0; i < n_axes; i++) axes[i] = i;
  }
  memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
  for (int32_t i = 0; n_axes < 0 && i < x->rank; i++) dims[i] = WF_EXPR_NONE;
  for (int32_t i = 0; i < n_axes; i++) {
    int32_t axis;
    if (!infer_axis(axes[i], x->rank, &axis))
      return infer_fail(c, "axis %lld is outside", (long long)axes[i]);
    wf_expr before = WF_EXPR_NONE, after = WF_EXPR_NONE;
    if (a && a->kind == WF_ATTR_INTS && a->n == 2 * (size_t)n_axes) {
      before = infer_k(c, a->ints[i]);
      after = infer_k(c, a->ints[n_axes + i]);
    } else if (p && p->n_content == 2 * n_axes) {
      before = p->content[i];
      after = p->content[n_axes + i];
    }
    dims[axis] = wf_expr_add(c->p, dims[axis], wf_expr_add(c->p, before, after));
  }
  return infer_set(c, 0, x->dtype, x->rank, dims);
}

/* ---- picking ----------------------------------------------------------------------------- */

static weft_status gather_content(infer *c, const wf_value *x, const wf_value *ix) {
  if (x->rank != 1 || x->n_content < 0 || ix->n_content < 0 || ix->rank > 1) return WEFT_OK;
  wf_expr out[GRAPH_MAX_CONTENT];
  for (int32_t i = 0; i < ix->n_content; i++) {
    int64_t at;
    out[i] = WF_EXPR_NONE;
    if (!wf_expr_is_const(c->p, ix->content[i], &at)) continue;
    if (at < -(int64_t)x->n_content || at >= x->n_content)
      return infer_fail(c, "index %lld is outside of %d elements", (long long)at, x->n_content);
    out[i] = x->content[at < 0 ? at + x->n_content : at];
  }
  return infer_set_content(c, 0, ix->n_content, out);
}

weft_status infer_gather(infer *c) {
  const wf_value *x = infer_in(c, 0), *ix = infer_in(c, 1);
  wf_expr dims[2 * GRAPH_MAX_RANK];
  int32_t axis, rank = 0;
  if (!x || !ix) return infer_fail(c, "it needs two inputs");
  if (x->rank < 0 || ix->rank < 0) return infer_set(c, 0, x->dtype, -1, NULL);
  if (!infer_axis(wf_node_attr_i(c->n, "axis", 0), x->rank, &axis))
    return infer_fail(c, "its axis is outside");
  for (int32_t i = 0; i < axis; i++) dims[rank++] = x->dims[i];
  for (int32_t i = 0; i < ix->rank; i++) dims[rank++] = ix->dims[i];
  for (int32_t i = axis + 1; i < x->rank; i++) dims[rank++] = x->dims[i];
  WF_RETURN_IF_ERROR(infer_set(c, 0, x->dtype, rank, dims));
  return gather_content(c, x, ix);
}

weft_status infer_gather_elements(infer *c) {
  const wf_value *x = infer_in(c, 0), *ix = infer_in(c, 1);
  if (!x || !ix) return infer_fail(c, "it needs two inputs");
  return infer_set(c, 0, x->dtype, ix->rank, ix->dims);
}

weft_status infer_gather_nd(infer *c) {
  const wf_value *x = infer_in(c, 0), *ix = infer_in(c, 1);
  wf_expr dims[2 * GRAPH_MAX_RANK];
  int64_t last;
  if (!x || !ix) return infer_fail(c, "it needs two inputs");
  const int64_t batch = wf_node_attr_i(c->n, "batch_dims", 0);
  if (x->rank < 0 || ix->rank < 1 || !wf_expr_is_const(c->p, ix->dims[ix->rank - 1], &last))
    return infer_set(c, 0, x->dtype, -1, NULL);
  if (batch < 0 || last < 0 || batch > x->rank || last > x->rank - batch)
    return infer_fail(c, "its indices are longer than its data's rank");
  int32_t rank = 0;
  for (int32_t i = 0; i < ix->rank - 1; i++) dims[rank++] = ix->dims[i];
  for (int32_t i = (int32_t)(batch + last); i < x->rank; i++) dims[rank++] = x->dims[i];
  return infer_set(c, 0, x->dtype, rank, dims);
}

weft_status infer_non_zero(infer *c) {
  const wf_value *x = infer_in(c, 0);
  const wf_expr dims[2] = {x && x->rank >= 0 ? infer_k(c, x->rank) : WF_EXPR_NONE, WF_EXPR_NONE};
  return infer_set(c, 0, WF_DTYPE_I64, 2, dims);
}

weft_status infer_one_hot(infer *c) {
  const wf_value *x = infer_in(c, 0), *depth = infer_in(c, 1);
  wf_expr dims[GRAPH_MAX_RANK + 1];
  int32_t axis;
  if (!x || x->rank < 0) return infer_set(c, 0, infer_dtype(c, 2), -1, NULL);
  const int32_t rank = x->rank + 1;
  if (!infer_axis(wf_node_attr_i(c->n, "axis", -1), rank, &axis))
    return infer_fail(c, "its axis is outside");
  for (int32_t i = 0, k = 0; i < rank; i++) {
    if (i == axis)
      dims[i] = depth && depth->n_content == 1 ? depth->content[0] : WF_EXPR_NONE;
    else
      dims[i] = x->dims[k++];
  }
  return infer_set(c, 0, infer_dtype(c, 2), rank, dims);
}
