/* SPDX-License-Identifier: Apache-2.0 */
/* The other half of computing small tensors: moves, reductions, products; and the table. */
#include <math.h>
#include <string.h>

#include "graph/eval_ops.h"

wf_tensor *eval_out(evaluator *e, int32_t i, wf_dtype dtype, int32_t rank, const int64_t *dims) {
  size_t n;
  if (rank > GRAPH_MAX_RANK || !eval_can_write(dtype) || !wf_dims_count(dims, (size_t)rank, &n) ||
      n > EVAL_MAX_ELEMENTS)
    return NULL;
  return e->out[i] = eval_new_tensor(e->arena, dtype, rank, dims);
}

/* An attribute list or constant input of ints; -1 absent, -2 wrong. */
static int32_t ints(const evaluator *e, const char *attr, int32_t input, int64_t *out) {
  const wf_attr *a = wf_node_attr(e->n, attr);
  if (a && a->kind == WF_ATTR_INTS) {
    if (a->n > GRAPH_MAX_RANK) return -2;
    for (size_t i = 0; i < a->n; i++) out[i] = a->ints[i];
    return (int32_t)a->n;
  }
  if (input < 0 || input >= EVAL_MAX_PORTS || !e->in[input]) return -1;
  if (e->in[input]->n > GRAPH_MAX_RANK) return -2;
  for (size_t i = 0; i < e->in[input]->n; i++) out[i] = eval_load(e->in[input], i).i;
  return (int32_t)e->in[input]->n;
}

static bool axis_in(int64_t axis, int32_t rank, int32_t *result) {
  if (axis < -(int64_t)rank || axis >= rank) return false;
  *result = (int32_t)(axis < 0 ? axis + rank : axis);
  return true;
}

/* Copies elements of x chosen by strides and a start into a new output. */
static weft_status copy_strided(evaluator *e, const wf_tensor *x, int32_t rank, const int64_t *dims,
                                int64_t start, const int64_t *strides) {
  int64_t index[GRAPH_MAX_RANK] = {0};
  wf_tensor *y = eval_out(e, 0, x->dtype, rank, dims);
  if (!y) return WEFT_UNSUPPORTED;
  for (size_t i = 0; i < y->n; i++, (void)eval_next(rank, dims, index)) {
    eval_store(y, i, eval_load(x, (size_t)start + eval_offset(rank, index, strides)));
  }
  return WEFT_OK;
}

static void own_strides(const wf_tensor *t, int64_t *strides) {
  int64_t step = 1;
  for (int32_t k = t->rank - 1; k >= 0; k--) {
    strides[k] = step;
    step *= t->dims[k];
  }
}

static weft_status as_view(evaluator *e, int32_t rank, const int64_t *dims) {
  size_t n;
  wf_tensor *t = wf_arena_alloc(e->arena, sizeof *t);
  int64_t *copy = wf_arena_calloc(e->arena, (size_t)rank, sizeof *copy);
  if (!t || !copy || !wf_dims_count(dims, (size_t)rank, &n) || n != e->in[0]->n)
    return WEFT_UNSUPPORTED;
  if (rank) memcpy(copy, dims, (size_t)rank * sizeof *copy);
  *t = *e->in[0];
  t->rank = rank;
  t->dims = copy;
  e->out[0] = t;
  return WEFT_OK;
}

static weft_status eval_reshape(evaluator *e) {
  int64_t dims[GRAPH_MAX_RANK];
  const int32_t rank = ints(e, "", 1, dims);
  int64_t known = 1;
  int32_t open = -1;
  if (rank < 0) return WEFT_UNSUPPORTED;
  for (int32_t i = 0; i < rank; i++) {
    if (dims[i] == 0 && !wf_node_attr_i(e->n, "allowzero", 0)) {
      if (i >= e->in[0]->rank) return WEFT_UNSUPPORTED;
      dims[i] = e->in[0]->dims[i];
    }
    if (dims[i] == -1)
      open = i;
    else if (dims[i] < 0 || __builtin_mul_overflow(known, dims[i], &known))
      return WEFT_UNSUPPORTED;
  }
  if (open >= 0) dims[open] = known > 0 ? (int64_t)e->in[0]->n / known : 0;
  return as_view(e, rank, dims);
}

static weft_status eval_squeeze(evaluator *e) {
  int64_t axes[GRAPH_MAX_RANK], dims[GRAPH_MAX_RANK];
  bool drop[GRAPH_MAX_RANK] = {false};
  const int32_t n = ints(e, "axes", 1, axes);
  int32_t rank = 0, a;
  if (n == -2 || e->in[0]->rank > GRAPH_MAX_RANK) return WEFT_UNSUPPORTED;
  for (int32_t i = 0; i < n; i++) {
    if (!axis_in(axes[i], e->in[0]->rank, &a)) return WEFT_UNSUPPORTED;
    drop[a] = true;
  }
  for (int32_t i = 0; i < e->in[0]->rank; i++) {
    if (n < 0 ? e->in[0]->dims[i] != 1 : !drop[i]) dims[rank++] = e->in[0]->dims[i];
  }
  return as_view(e, rank, dims);
}

static weft_status eval_unsqueeze(evaluator *e) {
  int64_t axes[GRAPH_MAX_RANK], dims[GRAPH_MAX_RANK];
  bool is_new[GRAPH_MAX_RANK] = {false};
  const int32_t n = ints(e, "axes", 1, axes), rank = e->in[0]->rank + n;
  int32_t a, k = 0;
  if (n < 0 || rank > GRAPH_MAX_RANK) return WEFT_UNSUPPORTED;
  for (int32_t i = 0; i < n; i++) {
    if (!axis_in(axes[i], rank, &a) || is_new[a]) return WEFT_UNSUPPORTED;
    is_new[a] = true;
  }
  for (int32_t i = 0; i < rank; i++) dims[i] = is_new[i] ? 1 : e->in[0]->dims[k++];
  return as_view(e, rank, dims);
}

static weft_status eval_flatten(evaluator *e) {
  int64_t axis = wf_node_attr_i(e->n, "axis", 1), dims[2] = {1, 1};
  if (axis < 0) axis += e->in[0]->rank;
  for (int32_t i = 0; i < e->in[0]->rank; i++) dims[i >= axis] *= e->in[0]->dims[i];
  return as_view(e, 2, dims);
}

static weft_status eval_identity(evaluator *e) {
  return as_view(e, e->in[0]->rank, e->in[0]->dims);
}

static weft_status eval_transpose(evaluator *e) {
  int64_t perm[GRAPH_MAX_RANK], dims[GRAPH_MAX_RANK], own[GRAPH_MAX_RANK], strides[GRAPH_MAX_RANK];
  const int32_t n = ints(e, "perm", -1, perm), rank = e->in[0]->rank;
  if (n == -2 || (n >= 0 && n != rank)) return WEFT_UNSUPPORTED;
  own_strides(e->in[0], own);
  for (int32_t i = 0; i < rank; i++) {
    const int64_t from = n < 0 ? rank - 1 - i : perm[i];
    if (from < 0 || from >= rank) return WEFT_UNSUPPORTED;
    dims[i] = e->in[0]->dims[from];
    strides[i] = own[from];
  }
  return copy_strided(e, e->in[0], rank, dims, 0, strides);
}

static weft_status eval_expand(evaluator *e) {
  int64_t target[GRAPH_MAX_RANK], dims[GRAPH_MAX_RANK], strides[GRAPH_MAX_RANK];
  int32_t rank;
  const int32_t n = ints(e, "", 1, target);
  if (n < 0) return WEFT_UNSUPPORTED;
  const wf_tensor shape = {.rank = n, .dims = target};
  const wf_tensor *both[2] = {e->in[0], &shape};
  if (!eval_broadcast(both, 2, &rank, dims)) return WEFT_UNSUPPORTED;
  eval_strides(e->in[0], rank, dims, strides);
  return copy_strided(e, e->in[0], rank, dims, 0, strides);
}

/* Each axis as a pair: how often, and the axis itself. */
static weft_status eval_tile(evaluator *e) {
  const wf_tensor *x = e->in[0];
  int64_t repeats[GRAPH_MAX_RANK], strides[GRAPH_MAX_RANK], dims[2 * GRAPH_MAX_RANK],
      steps[2 * GRAPH_MAX_RANK];
  if (ints(e, "", 1, repeats) != x->rank || 2 * x->rank > GRAPH_MAX_RANK) return WEFT_UNSUPPORTED;
  own_strides(x, strides);
  for (int32_t i = 0; i < x->rank; i++) {
    if (repeats[i] < 0 || repeats[i] > INT32_MAX) return WEFT_UNSUPPORTED;
    dims[2 * i] = repeats[i], steps[2 * i] = 0;
    dims[2 * i + 1] = x->dims[i], steps[2 * i + 1] = strides[i];
  }
  const weft_status st = copy_strided(e, x, 2 * x->rank, dims, 0, steps);
  int64_t *joined =
      st == WEFT_OK ? wf_arena_calloc(e->arena, (size_t)x->rank + 1, sizeof *joined) : NULL;
  if (!joined) return st == WEFT_OK ? WEFT_UNSUPPORTED : st;
  for (int32_t i = 0; i < x->rank; i++) joined[i] = dims[2 * i] * dims[2 * i + 1];
  e->out[0]->rank = x->rank;
  e->out[0]->dims = joined;
  return WEFT_OK;
}

static weft_status eval_slice(evaluator *e) {
  const wf_tensor *x = e->in[0];
  int64_t starts[GRAPH_MAX_RANK], ends[GRAPH_MAX_RANK], axes[GRAPH_MAX_RANK], steps[GRAPH_MAX_RANK];
  int64_t dims[GRAPH_MAX_RANK], strides[GRAPH_MAX_RANK], at = 0;
  const int32_t n = ints(e, "starts", 1, starts), m = ints(e, "ends", 2, ends);
  const int32_t na = ints(e, "axes", 3, axes), ns = ints(e, "steps", 4, steps);
  if (n < 0 || m != n || (na >= 0 && na != n) || (ns >= 0 && ns != n)) return WEFT_UNSUPPORTED;
  own_strides(x, strides);
  for (int32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  for (int32_t i = 0; i < n; i++) {
    int32_t a;
    if (!axis_in(na < 0 ? i : axes[i], x->rank, &a)) return WEFT_UNSUPPORTED;
    const int64_t d = x->dims[a], step = ns < 0 ? 1 : steps[i];
    if (step == 0 || step > INT32_MAX || step < -INT32_MAX) return WEFT_UNSUPPORTED;
    int64_t s = starts[i] < 0 ? (starts[i] < -d ? -1 : starts[i] + d) : starts[i];
    int64_t t = ends[i] < 0 ? (ends[i] < -d ? -1 : ends[i] + d) : ends[i];
    if (step > 0) {
      s = s < 0 ? 0 : s > d ? d : s;
      t = t < 0 ? 0 : t > d ? d : t;
      dims[a] = t > s ? (t - s - 1) / step + 1 : 0;
    } else {
      s = s > d - 1 ? d - 1 : s;
      t = t > d - 1 ? d - 1 : t;
      dims[a] = s > t ? (s - t - 1) / -step + 1 : 0;
    }
    if (dims[a]) at += s * strides[a];
    strides[a] *= step;
  }
  return copy_strided(e, x, x->rank, dims, at, strides);
}

static weft_status eval_concat(evaluator *e) {
  const wf_tensor *x = e->in[0];
  int64_t dims[GRAPH_MAX_RANK];
  int32_t axis;
  if (!axis_in(wf_node_attr_i(e->n, "axis", 0), x->rank, &axis)) return WEFT_UNSUPPORTED;
  memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
  size_t outer = 1, inner = 1;
  for (int32_t k = 0; k < x->rank; k++)
    *(k < axis ? &outer : &inner) *= k == axis ? 1 : (size_t)x->dims[k];
  for (int32_t i = 1; i < e->n->n_inputs; i++) {
    if (!e->in[i] || e->in[i]->rank != x->rank) return WEFT_UNSUPPORTED;
    for (int32_t k = 0; k < x->rank; k++) {
      if (k != axis && e->in[i]->dims[k] != x->dims[k]) return WEFT_UNSUPPORTED;
    }
    dims[axis] += e->in[i]->dims[axis];
  }
  wf_tensor *y = eval_out(e, 0, x->dtype, x->rank, dims);
  if (!y) return WEFT_UNSUPPORTED;
  size_t at = 0;
  for (size_t o = 0; o < outer; o++) {
    for (int32_t i = 0; i < e->n->n_inputs; i++) {
      const size_t n = (size_t)e->in[i]->dims[axis] * inner;
      for (size_t k = 0; k < n; k++) eval_store(y, at++, eval_load(e->in[i], o * n + k));
    }
  }
  return WEFT_OK;
}

static weft_status eval_gather(evaluator *e) {
  const wf_tensor *x = e->in[0], *ix = e->in[1];
  int64_t dims[2 * GRAPH_MAX_RANK];
  int32_t axis, rank = 0;
  if (!axis_in(wf_node_attr_i(e->n, "axis", 0), x->rank, &axis) ||
      x->rank + ix->rank - 1 > GRAPH_MAX_RANK)
    return WEFT_UNSUPPORTED;
  size_t outer = 1, inner = 1;
  for (int32_t k = 0; k < axis; k++) outer *= (size_t)x->dims[k], dims[rank++] = x->dims[k];
  for (int32_t k = 0; k < ix->rank; k++) dims[rank++] = ix->dims[k];
  for (int32_t k = axis + 1; k < x->rank; k++)
    inner *= (size_t)x->dims[k], dims[rank++] = x->dims[k];
  wf_tensor *y = eval_out(e, 0, x->dtype, rank, dims);
  const int64_t d = x->dims[axis];
  if (!y) return WEFT_UNSUPPORTED;
  for (size_t o = 0; o < outer; o++) {
    for (size_t k = 0; k < ix->n; k++) {
      int64_t at = eval_load(ix, k).i;
      if (at < 0) at += d;
      if (at < 0 || at >= d) return WEFT_UNSUPPORTED;
      for (size_t j = 0; j < inner; j++) {
        eval_store(y, (o * ix->n + k) * inner + j,
                   eval_load(x, (o * (size_t)d + (size_t)at) * inner + j));
      }
    }
  }
  return WEFT_OK;
}

/* Flat offset of one row of ND indices; false when outside. */
static bool nd_offset(const wf_tensor *x, const wf_tensor *ix, size_t row, size_t width,
                      size_t inner, size_t *at) {
  size_t offset = 0;
  for (size_t k = 0; k < width; k++) {
    int64_t i = eval_load(ix, row * width + k).i;
    if (i < 0) i += x->dims[k];
    if (i < 0 || i >= x->dims[k]) return false;
    offset = offset * (size_t)x->dims[k] + (size_t)i;
  }
  *at = offset * inner;
  return true;
}

static weft_status eval_nd(evaluator *e) {
  const wf_tensor *x = e->in[0], *ix = e->in[1];
  const bool is_scatter = e->n->op == WF_OP_SCATTER_ND;
  if (wf_node_attr_i(e->n, "batch_dims", 0) || ix->rank < 1 || (is_scatter && !e->in[2]))
    return WEFT_UNSUPPORTED;
  if (wf_node_attr(e->n, "reduction") && !wf_str_is(wf_node_attr_s(e->n, "reduction"), "none"))
    return WEFT_UNSUPPORTED;
  const int64_t width = ix->dims[ix->rank - 1];
  if (width < 1 || width > x->rank) return WEFT_UNSUPPORTED;
  int64_t dims[2 * GRAPH_MAX_RANK];
  int32_t rank = 0;
  size_t inner = 1;
  const size_t rows = ix->n / (size_t)width;
  for (int32_t k = 0; k + 1 < ix->rank; k++) dims[rank++] = ix->dims[k];
  for (int32_t k = (int32_t)width; k < x->rank; k++)
    inner *= (size_t)x->dims[k], dims[rank++] = x->dims[k];
  if (rank > GRAPH_MAX_RANK || (is_scatter && e->in[2]->n != rows * inner)) return WEFT_UNSUPPORTED;
  wf_tensor *y = is_scatter ? eval_out(e, 0, x->dtype, x->rank, x->dims)
                            : eval_out(e, 0, x->dtype, rank, dims);
  if (!y) return WEFT_UNSUPPORTED;
  for (size_t i = 0; is_scatter && i < x->n; i++) eval_store(y, i, eval_load(x, i));
  for (size_t r = 0; r < rows; r++) {
    size_t at;
    if (!nd_offset(x, ix, r, (size_t)width, inner, &at)) return WEFT_UNSUPPORTED;
    for (size_t k = 0; k < inner; k++) {
      if (is_scatter)
        eval_store(y, at + k, eval_load(e->in[2], r * inner + k));
      else
        eval_store(y, r * inner + k, eval_load(x, at + k));
    }
  }
  return WEFT_OK;
}

static weft_status eval_shape(evaluator *e) {
  const int32_t rank = e->in[0]->rank;
  int64_t start = wf_node_attr_i(e->n, "start", 0), end = wf_node_attr_i(e->n, "end", rank);
  if (start < 0) start += rank;
  if (end < 0) end += rank;
  if (start < 0 || end > rank || start > end) return WEFT_UNSUPPORTED;
  const int64_t dims[1] = {end - start};
  wf_tensor *y = eval_out(e, 0, WF_DTYPE_I64, 1, dims);
  for (int64_t i = start; y && i < end; i++)
    (void)eval_store_i64(y, (size_t)(i - start), e->in[0]->dims[i]);
  return y ? WEFT_OK : WEFT_UNSUPPORTED;
}

static weft_status eval_size(evaluator *e) {
  wf_tensor *y = eval_out(e, 0, WF_DTYPE_I64, 0, NULL);
  return y && eval_store_i64(y, 0, (int64_t)e->in[0]->n) ? WEFT_OK : WEFT_UNSUPPORTED;
}

static weft_status eval_range(evaluator *e) {
  if (!e->in[1] || !e->in[2] || !e->in[0]->n || !e->in[1]->n || !e->in[2]->n)
    return WEFT_UNSUPPORTED;
  const num a = eval_load(e->in[0], 0), b = eval_load(e->in[1], 0), s = eval_load(e->in[2], 0);
  const double n = s.f != 0 ? ceil((b.f - a.f) / s.f) : -1;
  if (!(n < EVAL_MAX_ELEMENTS) || s.f == 0) return WEFT_UNSUPPORTED;
  const int64_t dims[1] = {n > 0 ? (int64_t)n : 0};
  wf_tensor *y = eval_out(e, 0, e->in[0]->dtype, 1, dims);
  if (!y) return WEFT_UNSUPPORTED;
  for (size_t i = 0; i < y->n; i++)
    eval_store(y, i, (num){a.f + (double)i * s.f, a.i + (int64_t)i * s.i});
  return WEFT_OK;
}

static weft_status eval_constant_of_shape(evaluator *e) {
  int64_t dims[GRAPH_MAX_RANK];
  const int32_t rank = ints(e, "", 0, dims);
  const wf_attr *a = wf_node_attr(e->n, "value");
  const wf_tensor *v = a && a->kind == WF_ATTR_TENSOR ? a->tensors : NULL;
  if (rank < 0 || (v && (v->n != 1 || !eval_can_read(v)))) return WEFT_UNSUPPORTED;
  wf_tensor *y = eval_out(e, 0, v ? v->dtype : WF_DTYPE_F32, rank, dims);
  if (!y) return WEFT_UNSUPPORTED;
  for (size_t i = 0; v && i < y->n; i++) eval_store(y, i, eval_load(v, 0));
  return WEFT_OK;
}

static weft_status eval_trilu(evaluator *e) {
  const wf_tensor *x = e->in[0];
  if (x->rank < 2) return WEFT_UNSUPPORTED;
  const int64_t k = e->in[1] && e->in[1]->n ? eval_load(e->in[1], 0).i : 0;
  const int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
  const bool upper = wf_node_attr_i(e->n, "upper", 1) != 0;
  wf_tensor *y = eval_out(e, 0, x->dtype, x->rank, x->dims);
  if (!y || k > INT32_MAX || k < -INT32_MAX) return WEFT_UNSUPPORTED;
  for (size_t i = 0; i < y->n; i++) {
    const int64_t c = (int64_t)i % columns, r = (int64_t)i / columns % rows;
    if (upper ? c - r >= k : c - r <= k) eval_store(y, i, eval_load(x, i));
  }
  return WEFT_OK;
}

static weft_status eval_cumsum(evaluator *e) {
  const wf_tensor *x = e->in[0];
  int32_t axis;
  if (!e->in[1] || !e->in[1]->n || !axis_in(eval_load(e->in[1], 0).i, x->rank, &axis))
    return WEFT_UNSUPPORTED;
  if (wf_node_attr_i(e->n, "reverse", 0) || wf_node_attr_i(e->n, "exclusive", 0))
    return WEFT_UNSUPPORTED;
  wf_tensor *y = eval_out(e, 0, x->dtype, x->rank, x->dims);
  if (!y) return WEFT_UNSUPPORTED;
  size_t inner = 1;
  for (int32_t k = axis + 1; k < x->rank; k++) inner *= (size_t)x->dims[k];
  for (size_t i = 0; i < y->n; i++) {
    num v = eval_load(x, i);
    if (i / inner % (size_t)x->dims[axis] != 0) {
      const num before = eval_load(y, i - inner);
      v.f += before.f;
      v.i = (int64_t)((uint64_t)v.i + (uint64_t)before.i);
    }
    eval_store(y, i, v);
  }
  return WEFT_OK;
}

static num reduced(wf_op op, num a, num b) {
  switch ((int)op) {
    case WF_OP_REDUCE_PROD:
      return (num){a.f * b.f, (int64_t)((uint64_t)a.i * (uint64_t)b.i)};
    case WF_OP_REDUCE_MAX:
      return b.f > a.f ? b : a;
    case WF_OP_REDUCE_MIN:
      return b.f < a.f ? b : a;
    default:
      return (num){a.f + b.f, (int64_t)((uint64_t)a.i + (uint64_t)b.i)};
  }
}

static weft_status eval_reduce(evaluator *e) {
  const wf_tensor *x = e->in[0];
  int64_t axes[GRAPH_MAX_RANK], dims[GRAPH_MAX_RANK], kept[GRAPH_MAX_RANK], strides[GRAPH_MAX_RANK];
  int64_t index[GRAPH_MAX_RANK] = {0}, step = 1;
  bool drop[GRAPH_MAX_RANK] = {false};
  const int32_t n = ints(e, "axes", 1, axes);
  int32_t rank = 0, a;
  if (n == -2 || x->n == 0 || (n <= 0 && wf_node_attr_i(e->n, "noop_with_empty_axes", 0)))
    return WEFT_UNSUPPORTED;
  for (int32_t i = 0; i < n; i++) {
    if (!axis_in(axes[i], x->rank, &a)) return WEFT_UNSUPPORTED;
    drop[a] = true;
  }
  for (int32_t i = 0; i < x->rank; i++) {
    if (n <= 0) drop[i] = true;
    kept[i] = drop[i] ? 1 : x->dims[i];
    if (!drop[i] || wf_node_attr_i(e->n, "keepdims", 1)) dims[rank++] = kept[i];
  }
  for (int32_t i = x->rank - 1; i >= 0; i--) {
    strides[i] = drop[i] ? 0 : step;
    step *= kept[i];
  }
  wf_tensor *y = eval_out(e, 0, x->dtype, rank, dims);
  bool *is_set = y ? wf_arena_calloc(e->arena, y->n, sizeof *is_set) : NULL;
  if (!is_set) return WEFT_UNSUPPORTED;
  for (size_t i = 0; i < x->n; i++, (void)eval_next(x->rank, x->dims, index)) {
    const size_t at = eval_offset(x->rank, index, strides);
    const num v = eval_load(x, i);
    eval_store(y, at, is_set[at] ? reduced(e->n->op, eval_load(y, at), v) : v);
    is_set[at] = true;
  }
  return WEFT_OK;
}

typedef weft_status (*eval_fn)(evaluator *e);

static const eval_fn functions[WF_OP_COUNT] = {
    [WF_OP_ADD] = eval_binary,
    [WF_OP_SUB] = eval_binary,
    [WF_OP_MUL] = eval_binary,
    [WF_OP_DIV] = eval_binary,
    [WF_OP_POW] = eval_binary,
    [WF_OP_MOD] = eval_binary,
    [WF_OP_MIN] = eval_binary,
    [WF_OP_MAX] = eval_binary,
    [WF_OP_SUM] = eval_binary,
    [WF_OP_EQUAL] = eval_binary,
    [WF_OP_GREATER] = eval_binary,
    [WF_OP_LESS] = eval_binary,
    [WF_OP_GREATER_OR_EQUAL] = eval_binary,
    [WF_OP_LESS_OR_EQUAL] = eval_binary,
    [WF_OP_AND] = eval_binary,
    [WF_OP_OR] = eval_binary,
    [WF_OP_XOR] = eval_binary,
    [WF_OP_BITWISE_AND] = eval_binary,
    [WF_OP_BITWISE_OR] = eval_binary,
    [WF_OP_BITWISE_XOR] = eval_binary,
    [WF_OP_NEG] = eval_unary,
    [WF_OP_ABS] = eval_unary,
    [WF_OP_NOT] = eval_unary,
    [WF_OP_IS_NAN] = eval_unary,
    [WF_OP_SIGN] = eval_unary,
    [WF_OP_SQRT] = eval_unary,
    [WF_OP_RECIPROCAL] = eval_unary,
    [WF_OP_EXP] = eval_unary,
    [WF_OP_LOG] = eval_unary,
    [WF_OP_SIN] = eval_unary,
    [WF_OP_COS] = eval_unary,
    [WF_OP_TANH] = eval_unary,
    [WF_OP_ERF] = eval_unary,
    [WF_OP_SIGMOID] = eval_unary,
    [WF_OP_RELU] = eval_unary,
    [WF_OP_FLOOR] = eval_unary,
    [WF_OP_CEIL] = eval_unary,
    [WF_OP_ROUND] = eval_unary,
    [WF_OP_CAST] = eval_cast,
    [WF_OP_CAST_LIKE] = eval_cast,
    [WF_OP_WHERE] = eval_where,
    [WF_OP_IDENTITY] = eval_identity,
    [WF_OP_RESHAPE] = eval_reshape,
    [WF_OP_SQUEEZE] = eval_squeeze,
    [WF_OP_UNSQUEEZE] = eval_unsqueeze,
    [WF_OP_FLATTEN] = eval_flatten,
    [WF_OP_TRANSPOSE] = eval_transpose,
    [WF_OP_EXPAND] = eval_expand,
    [WF_OP_TILE] = eval_tile,
    [WF_OP_SLICE] = eval_slice,
    [WF_OP_CONCAT] = eval_concat,
    [WF_OP_GATHER] = eval_gather,
    [WF_OP_GATHER_ND] = eval_nd,
    [WF_OP_SCATTER_ND] = eval_nd,
    [WF_OP_SHAPE] = eval_shape,
    [WF_OP_SIZE] = eval_size,
    [WF_OP_RANGE] = eval_range,
    [WF_OP_CONSTANT_OF_SHAPE] = eval_constant_of_shape,
    [WF_OP_TRILU] = eval_trilu,
    [WF_OP_CUM_SUM] = eval_cumsum,
    [WF_OP_REDUCE_SUM] = eval_reduce,
    [WF_OP_REDUCE_PROD] = eval_reduce,
    [WF_OP_REDUCE_MAX] = eval_reduce,
    [WF_OP_REDUCE_MIN] = eval_reduce,
};

weft_status eval_node(const wf_node *n, const wf_tensor *const *inputs, wf_arena *arena,
                      wf_tensor **outputs, weft_error *err) {
  evaluator e = {.n = n, .out = outputs, .arena = arena};
  const eval_fn fn = functions[n->op];
  (void)err;
  if (!fn || n->n_inputs > EVAL_MAX_PORTS || n->n_inputs < 1 || !inputs[0]) return WEFT_UNSUPPORTED;
  for (int32_t i = 0; i < n->n_inputs; i++) {
    e.in[i] = inputs[i];
    if (inputs[i] && (!eval_can_read(inputs[i]) || inputs[i]->rank > GRAPH_MAX_RANK))
      return WEFT_UNSUPPORTED;
  }
  if ((fn == eval_binary || fn == eval_gather || fn == eval_nd) && !e.in[1])
    return WEFT_UNSUPPORTED;
  if (fn == eval_where && (!e.in[1] || !e.in[2])) return WEFT_UNSUPPORTED;
  const weft_status st = fn(&e);
  if (st != WEFT_OK) {
    for (int32_t i = 0; i < n->n_outputs && i < EVAL_MAX_PORTS; i++) outputs[i] = NULL;
  }
  return st;
}
