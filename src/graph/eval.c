/* SPDX-License-Identifier: Apache-2.0 */
/* Storing small tensors, and the element-wise half of computing them. */
#include "graph/eval.h"

#include <math.h>
#include <string.h>

#include "graph/eval_ops.h"

wf_tensor *eval_new_tensor(wf_arena *arena, wf_dtype dtype, int32_t rank, const int64_t *dims) {
  wf_tensor *t = wf_arena_alloc(arena, sizeof *t);
  int64_t *copy = wf_arena_calloc(arena, (size_t)rank, sizeof *copy);
  if (!t || !copy) return NULL;
  if (rank) memcpy(copy, dims, (size_t)rank * sizeof *copy);
  t->dtype = dtype;
  t->rank = rank;
  t->dims = copy;
  if (!wf_dims_count(copy, (size_t)rank, &t->n) || !wf_dtype_bytes(dtype, t->n, &t->n_bytes))
    return NULL;
  t->data = wf_arena_alloc(arena, t->n_bytes);
  return t->data ? t : NULL;
}

static bool is_in_range(wf_dtype t, int64_t v) {
  const int bits = wf_dtype_bits(t);
  if (t == WF_DTYPE_BOOL) return v == 0 || v == 1;
  if (bits == 64) return wf_dtype_is_signed(t) || v >= 0;
  if (wf_dtype_is_signed(t))
    return v >= -(INT64_C(1) << (bits - 1)) && v < INT64_C(1) << (bits - 1);
  return v >= 0 && v < INT64_C(1) << bits;
}

bool eval_store_i64(wf_tensor *t, size_t i, int64_t v) {
  if (wf_dtype_is_float(t->dtype)) return eval_store_f64(t, i, (double)v);
  if (wf_dtype_bits(t->dtype) < 8 || i >= t->n || !is_in_range(t->dtype, v)) return false;
  unsigned char *at = wf_unconst(t->data); /* the evaluator's own tensor */
  const size_t size = (size_t)wf_dtype_bits(t->dtype) / 8;
  memcpy(at + i * size, &v, size);
  return true;
}

/* Rounds to nearest even. */
static uint16_t to_half(double v) {
  uint16_t sign = 0;
  if (v < 0 || (v == 0 && 1 / v < 0)) sign = 0x8000, v = -v;
  if (v != v) return 0x7e00;
  if (v >= 65520) return (uint16_t)(sign | 0x7c00);
  int e = -14;
  double unit = 0x1p-24; /* of the last place */
  while (e < 15 && v >= 2 * 0x1p-14 * (double)(1 << (e + 14))) e++, unit *= 2;
  const double scaled = v / unit;
  int64_t m = (int64_t)scaled;
  const double rest = scaled - (double)m;
  if (rest > 0.5 || (rest == 0.5 && (m & 1))) m++;
  /* m has the hidden bit for normals: adding lets the rounding carry into the exponent. */
  return (uint16_t)(sign | (uint16_t)((e == -14 ? 0 : (e + 14) << 10) + m));
}

bool eval_store_f64(wf_tensor *t, size_t i, double v) {
  unsigned char *at = wf_unconst(t->data); /* the evaluator's own tensor */
  if (i >= t->n) return false;
  if (t->dtype == WF_DTYPE_F32) {
    const float f = (float)v;
    memcpy(at + 4 * i, &f, sizeof f);
  } else if (t->dtype == WF_DTYPE_F64) {
    memcpy(at + 8 * i, &v, sizeof v);
  } else if (t->dtype == WF_DTYPE_F16) {
    const uint16_t h = to_half(v);
    memcpy(at + 2 * i, &h, sizeof h);
  } else if (t->dtype == WF_DTYPE_BF16) {
    const float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    const uint32_t up = u + 0x7fff + (u >> 16 & 1); /* nearest even */
    const uint16_t h = (uint16_t)(f != f ? u >> 16 | 0x40 : up >> 16);
    memcpy(at + 2 * i, &h, sizeof h);
  } else {
    return false;
  }
  return true;
}

/* ---- elements ---------------------------------------------------------------------------- */

num eval_load(const wf_tensor *t, size_t i) {
  num v = {0, 0};
  if (wf_dtype_is_float(t->dtype)) {
    (void)graph_tensor_f64(t, i, &v.f);
    v.i = v.f >= -0x1p63 && v.f < 0x1p63 ? (int64_t)v.f : INT64_MIN;
  } else {
    (void)graph_tensor_i64(t, i, &v.i);
    v.f = (double)v.i;
  }
  return v;
}

bool eval_can_read(const wf_tensor *t) {
  return t && (t->n == 0 || t->data) &&
         (wf_dtype_is_int(t->dtype) || t->dtype == WF_DTYPE_BOOL || t->dtype == WF_DTYPE_F32 ||
          t->dtype == WF_DTYPE_F64 || t->dtype == WF_DTYPE_F16 || t->dtype == WF_DTYPE_BF16);
}

/* Integers wrap to their type, as casts do. */
void eval_store(wf_tensor *t, size_t i, num v) {
  if (wf_dtype_is_float(t->dtype)) {
    (void)eval_store_f64(t, i, v.f);
  } else if (t->dtype == WF_DTYPE_BOOL) {
    (void)eval_store_i64(t, i, v.i != 0);
  } else {
    unsigned char *at = wf_unconst(t->data); /* the evaluator's own tensor */
    const size_t size = (size_t)wf_dtype_bits(t->dtype) / 8;
    memcpy(at + i * size, &v.i, size);
  }
}

bool eval_can_write(wf_dtype t) {
  return t == WF_DTYPE_F32 || t == WF_DTYPE_F64 || t == WF_DTYPE_F16 || t == WF_DTYPE_BF16 ||
         t == WF_DTYPE_BOOL || (wf_dtype_is_int(t) && wf_dtype_bits(t) >= 8);
}

/* ---- broadcasting ------------------------------------------------------------------------ */

bool eval_broadcast(const wf_tensor *const *in, int32_t n, int32_t *rank, int64_t *dims) {
  *rank = 0;
  for (int32_t i = 0; i < n; i++) {
    if (in[i]->rank > *rank) *rank = in[i]->rank;
  }
  if (*rank > GRAPH_MAX_RANK) return false;
  for (int32_t k = 0; k < *rank; k++) {
    dims[k] = 1;
    for (int32_t i = 0; i < n; i++) {
      const int32_t at = k - (*rank - in[i]->rank);
      if (at < 0 || in[i]->dims[at] == 1) continue;
      if (dims[k] != 1 && dims[k] != in[i]->dims[at]) return false;
      dims[k] = in[i]->dims[at];
    }
  }
  return true;
}

void eval_strides(const wf_tensor *t, int32_t rank, const int64_t *dims, int64_t *strides) {
  int64_t step = 1;
  for (int32_t k = rank - 1; k >= 0; k--) {
    const int32_t at = k - (rank - t->rank);
    strides[k] = at < 0 || (t->dims[at] == 1 && dims[k] != 1) ? 0 : step;
    if (at >= 0) step *= t->dims[at];
  }
}

/* The next index of a box; false after the last. */
bool eval_next(int32_t rank, const int64_t *dims, int64_t *index) {
  for (int32_t k = rank - 1; k >= 0; k--) {
    if (++index[k] < dims[k]) return true;
    index[k] = 0;
  }
  return false;
}

size_t eval_offset(int32_t rank, const int64_t *index, const int64_t *strides) {
  int64_t at = 0;
  for (int32_t k = 0; k < rank; k++) at += index[k] * strides[k];
  return (size_t)at;
}

/* ---- element-wise ------------------------------------------------------------------------ */

static num of_bool(bool v) { return (num){v ? 1.0 : 0.0, v}; }
static num of_f(double v) { return (num){v, 0}; }
static num of_i(int64_t v) { return (num){(double)v, v}; }

static bool binary_float(wf_op op, double a, double b, num *r) {
  switch ((int)op) {
    case WF_OP_ADD:
    case WF_OP_SUM:
      *r = of_f(a + b);
      return true;
    case WF_OP_SUB:
      *r = of_f(a - b);
      return true;
    case WF_OP_MUL:
      *r = of_f(a * b);
      return true;
    case WF_OP_DIV:
      *r = of_f(a / b);
      return true;
    case WF_OP_POW:
      *r = of_f(pow(a, b));
      return true;
    case WF_OP_MOD:
      *r = of_f(fmod(a, b));
      return true;
    case WF_OP_MIN:
      *r = of_f(a != a || a < b ? a : b);
      return true;
    case WF_OP_MAX:
      *r = of_f(a != a || a > b ? a : b);
      return true;
    case WF_OP_EQUAL:
      *r = of_bool(a == b);
      return true;
    case WF_OP_GREATER:
      *r = of_bool(a > b);
      return true;
    case WF_OP_LESS:
      *r = of_bool(a < b);
      return true;
    case WF_OP_GREATER_OR_EQUAL:
      *r = of_bool(a >= b);
      return true;
    case WF_OP_LESS_OR_EQUAL:
      *r = of_bool(a <= b);
      return true;
    default:
      return false;
  }
}

static int64_t wrap(uint64_t v) { return (int64_t)v; }

static bool binary_int(wf_op op, int64_t a, int64_t b, num *r) {
  const uint64_t x = (uint64_t)a, y = (uint64_t)b; /* wraps instead of overflowing */
  switch ((int)op) {
    case WF_OP_ADD:
    case WF_OP_SUM:
      *r = of_i(wrap(x + y));
      return true;
    case WF_OP_SUB:
      *r = of_i(wrap(x - y));
      return true;
    case WF_OP_MUL:
      *r = of_i(wrap(x * y));
      return true;
    case WF_OP_DIV:
      if (b == 0 || (a == INT64_MIN && b == -1)) return false;
      *r = of_i(a / b);
      return true;
    case WF_OP_MOD:
      if (b == 0 || b == -1) return false;
      *r = of_i(a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b : a % b);
      return true;
    case WF_OP_MIN:
      *r = of_i(a < b ? a : b);
      return true;
    case WF_OP_MAX:
      *r = of_i(a > b ? a : b);
      return true;
    case WF_OP_EQUAL:
      *r = of_bool(a == b);
      return true;
    case WF_OP_GREATER:
      *r = of_bool(a > b);
      return true;
    case WF_OP_LESS:
      *r = of_bool(a < b);
      return true;
    case WF_OP_GREATER_OR_EQUAL:
      *r = of_bool(a >= b);
      return true;
    case WF_OP_LESS_OR_EQUAL:
      *r = of_bool(a <= b);
      return true;
    case WF_OP_AND:
      *r = of_bool(a && b);
      return true;
    case WF_OP_OR:
      *r = of_bool(a || b);
      return true;
    case WF_OP_XOR:
      *r = of_bool(!a != !b);
      return true;
    case WF_OP_BITWISE_AND:
      *r = of_i(wrap(x & y));
      return true;
    case WF_OP_BITWISE_OR:
      *r = of_i(wrap(x | y));
      return true;
    case WF_OP_BITWISE_XOR:
      *r = of_i(wrap(x ^ y));
      return true;
    default:
      return false;
  }
}

static bool makes_bool(wf_op op) {
  return op == WF_OP_EQUAL || op == WF_OP_GREATER || op == WF_OP_LESS ||
         op == WF_OP_GREATER_OR_EQUAL || op == WF_OP_LESS_OR_EQUAL || op == WF_OP_AND ||
         op == WF_OP_OR || op == WF_OP_XOR;
}

weft_status eval_binary(evaluator *e) {
  int32_t rank;
  int64_t dims[GRAPH_MAX_RANK], sa[GRAPH_MAX_RANK], sb[GRAPH_MAX_RANK], index[GRAPH_MAX_RANK] = {0};
  const wf_tensor *a = e->in[0], *b = e->in[1];
  if (e->n->n_inputs != 2 || !eval_broadcast(e->in, 2, &rank, dims)) return WEFT_UNSUPPORTED;
  wf_tensor *y = eval_out(e, 0, makes_bool(e->n->op) ? WF_DTYPE_BOOL : a->dtype, rank, dims);
  if (!y) return WEFT_UNSUPPORTED;
  const bool is_float = wf_dtype_is_float(a->dtype);
  eval_strides(a, rank, dims, sa);
  eval_strides(b, rank, dims, sb);
  for (size_t i = 0; i < y->n; i++, (void)eval_next(rank, dims, index)) {
    const num p = eval_load(a, eval_offset(rank, index, sa)),
              q = eval_load(b, eval_offset(rank, index, sb));
    num r;
    if (!(is_float ? binary_float(e->n->op, p.f, q.f, &r) : binary_int(e->n->op, p.i, q.i, &r)))
      return WEFT_UNSUPPORTED;
    eval_store(y, i, r);
  }
  return WEFT_OK;
}

static bool unary(wf_op op, num v, bool is_float, num *r) {
  switch ((int)op) {
    case WF_OP_NEG:
      *r = is_float ? of_f(-v.f) : of_i(wrap(0 - (uint64_t)v.i));
      return true;
    case WF_OP_ABS:
      *r = is_float ? of_f(fabs(v.f)) : of_i(v.i < 0 ? wrap(0 - (uint64_t)v.i) : v.i);
      return true;
    case WF_OP_NOT:
      *r = of_bool(!v.i);
      return true;
    case WF_OP_IS_NAN:
      *r = of_bool(v.f != v.f);
      return true;
    case WF_OP_SIGN:
      *r = is_float ? of_f((v.f > 0) - (v.f < 0)) : of_i((v.i > 0) - (v.i < 0));
      return true;
    default:
      break;
  }
  if (!is_float) return false;
  switch ((int)op) {
    case WF_OP_SQRT:
      *r = of_f(sqrt(v.f));
      return true;
    case WF_OP_RECIPROCAL:
      *r = of_f(1 / v.f);
      return true;
    case WF_OP_EXP:
      *r = of_f(exp(v.f));
      return true;
    case WF_OP_LOG:
      *r = of_f(log(v.f));
      return true;
    case WF_OP_SIN:
      *r = of_f(sin(v.f));
      return true;
    case WF_OP_COS:
      *r = of_f(cos(v.f));
      return true;
    case WF_OP_TANH:
      *r = of_f(tanh(v.f));
      return true;
    case WF_OP_ERF:
      *r = of_f(erf(v.f));
      return true;
    case WF_OP_SIGMOID:
      *r = of_f(1 / (1 + exp(-v.f)));
      return true;
    case WF_OP_RELU:
      *r = of_f(v.f > 0 ? v.f : 0);
      return true;
    case WF_OP_FLOOR:
      *r = of_f(floor(v.f));
      return true;
    case WF_OP_CEIL:
      *r = of_f(ceil(v.f));
      return true;
    case WF_OP_ROUND:
      *r = of_f(nearbyint(v.f));
      return true;
    default:
      return false;
  }
}

weft_status eval_unary(evaluator *e) {
  const wf_tensor *x = e->in[0];
  const bool to_bool = e->n->op == WF_OP_NOT || e->n->op == WF_OP_IS_NAN;
  wf_tensor *y = eval_out(e, 0, to_bool ? WF_DTYPE_BOOL : x->dtype, x->rank, x->dims);
  if (!y) return WEFT_UNSUPPORTED;
  for (size_t i = 0; i < y->n; i++) {
    num r;
    if (!unary(e->n->op, eval_load(x, i), wf_dtype_is_float(x->dtype), &r)) return WEFT_UNSUPPORTED;
    eval_store(y, i, r);
  }
  return WEFT_OK;
}

weft_status eval_cast(evaluator *e) {
  const wf_tensor *x = e->in[0];
  const int64_t to =
      e->n->op == WF_OP_CAST_LIKE ? (int64_t)e->in[1]->dtype : wf_node_attr_i(e->n, "to", 0);
  if (to <= 0 || to >= WF_DTYPE_COUNT || !eval_can_write((wf_dtype)to)) return WEFT_UNSUPPORTED;
  wf_tensor *y = eval_out(e, 0, (wf_dtype)to, x->rank, x->dims);
  if (!y) return WEFT_UNSUPPORTED;
  for (size_t i = 0; i < y->n; i++) {
    num v = eval_load(x, i);
    if (to == WF_DTYPE_BOOL) v = of_bool(v.f != 0);
    eval_store(y, i, v);
  }
  return WEFT_OK;
}

weft_status eval_where(evaluator *e) {
  int32_t rank;
  int64_t dims[GRAPH_MAX_RANK], s[3][GRAPH_MAX_RANK], index[GRAPH_MAX_RANK] = {0};
  if (!eval_broadcast(e->in, 3, &rank, dims)) return WEFT_UNSUPPORTED;
  wf_tensor *y = eval_out(e, 0, e->in[1]->dtype, rank, dims);
  if (!y) return WEFT_UNSUPPORTED;
  for (int k = 0; k < 3; k++) eval_strides(e->in[k], rank, dims, s[k]);
  for (size_t i = 0; i < y->n; i++, (void)eval_next(rank, dims, index)) {
    const int k = eval_load(e->in[0], eval_offset(rank, index, s[0])).i ? 1 : 2;
    eval_store(y, i, eval_load(e->in[k], eval_offset(rank, index, s[k])));
  }
  return WEFT_OK;
}
