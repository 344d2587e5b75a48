/* SPDX-License-Identifier: Apache-2.0 */
/* Products of tensors that are both computed, or whose weights no kernel packs. */
#include <math.h>
#include <string.h>

#include "backend/native/op_list.h"
#include "backend/native/op_types.h"
#include "kernels/matmul.h"

enum { R = WF_VIEW_MAX_RANK };

static weft_status misfit(wf_op_call *c, weft_error *err) {
  return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT, "operands of shapes or types that do not fit");
}

/* One matrix of any number type: y [m, n] = a [m, k] b [k, n], given by element strides. */
typedef struct mats {
  int64_t m, n, k;
  int64_t a_row, a_col, b_row, b_col;
} mats;

#define PLAIN(NAME, T, ACC)                                                                 \
  static void mul_##NAME(const mats *s, const T *a, const T *b, T *y) {                     \
    for (int64_t i = 0; i < s->m; i++) {                                                    \
      for (int64_t j = 0; j < s->n; j++) {                                                  \
        ACC acc = 0;                                                                        \
        for (int64_t p = 0; p < s->k; p++) {                                                \
          acc += (ACC)a[i * s->a_row + p * s->a_col] * (ACC)b[p * s->b_row + j * s->b_col]; \
        }                                                                                   \
        y[i * s->n + j] = (T)acc;                                                           \
      }                                                                                     \
    }                                                                                       \
  }
PLAIN(F32, float, double)
PLAIN(F64, double, double)
PLAIN(I32, int32_t, uint64_t)
PLAIN(I64, int64_t, uint64_t)
PLAIN(U32, uint32_t, uint64_t)
PLAIN(U64, uint64_t, uint64_t)

static weft_status multiply(wf_op_call *c, const mats *s, wf_dtype dtype, const void *a,
                            const void *b, void *y, weft_error *err) {
  if (s->m == 0 || s->n == 0) return WEFT_OK;
  switch ((int)dtype) {
    case WF_DTYPE_F32:
      if (s->k > 0 && s->a_col == 1 && (s->b_col == 1 || s->b_row == 1)) {
        const bool t = s->b_col != 1;
        wf_gemm_f32(c->env->level, s->m, s->n, s->k, a, s->a_row, b, t ? s->b_col : s->b_row, t, y,
                    s->n);
      } else {
        mul_F32(s, a, b, y);
      }
      return WEFT_OK;
    case WF_DTYPE_F64:
      mul_F64(s, a, b, y);
      return WEFT_OK;
    case WF_DTYPE_I32:
      mul_I32(s, a, b, y);
      return WEFT_OK;
    case WF_DTYPE_I64:
      mul_I64(s, a, b, y);
      return WEFT_OK;
    case WF_DTYPE_U32:
      mul_U32(s, a, b, y);
      return WEFT_OK;
    case WF_DTYPE_U64:
      mul_U64(s, a, b, y);
      return WEFT_OK;
    default:
      return wf_op_fail(c, err, WEFT_UNSUPPORTED, "elements of type %s", wf_dtype_name(dtype));
  }
}

/* Shapes of a numpy matmul: 1-D operands gain an axis that is dropped again. */
typedef struct batched {
  wf_view a, b; /* with rank >= 2 */
  int32_t rank; /* of the batch axes */
  int64_t dims[R];
  mats s;
  bool drop_row, drop_col;
} batched;

static weft_status plan_batched(wf_op_call *c, bool trans_a, bool trans_b, batched *p,
                                weft_error *err) {
  *p = (batched){.a = *c->in[0], .b = *c->in[1]};
  if (p->a.rank < 1 || p->b.rank < 1) return misfit(c, err);
  if (p->a.rank == 1) {
    p->a.dims[1] = p->a.dims[0];
    p->a.dims[0] = 1;
    p->a.rank = 2;
    p->drop_row = true;
  }
  if (p->b.rank == 1) {
    p->b.dims[1] = 1;
    p->b.rank = 2;
    p->drop_col = true;
  }
  const int64_t *da = p->a.dims + p->a.rank - 2, *db = p->b.dims + p->b.rank - 2;
  p->s = (mats){.m = da[trans_a], .k = da[!trans_a], .n = db[!trans_b]};
  if (db[trans_b] != p->s.k) {
    return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT, "inner sizes %lld and %lld", (long long)p->s.k,
                      (long long)db[trans_b]);
  }
  p->s.a_row = trans_a ? 1 : da[1];
  p->s.a_col = trans_a ? da[1] : 1;
  p->s.b_row = trans_b ? 1 : db[1];
  p->s.b_col = trans_b ? db[1] : 1;
  wf_view ba = p->a, bb = p->b;
  ba.rank -= 2;
  bb.rank -= 2;
  WF_RETURN_IF_ERROR(wf_op_broadcast(c, &ba, &p->rank, p->dims, err));
  WF_RETURN_IF_ERROR(wf_op_broadcast(c, &bb, &p->rank, p->dims, err));
  return WEFT_OK;
}

static weft_status run_matmul(wf_op_call *c, bool trans_a, bool trans_b, weft_error *err) {
  batched p;
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  WF_RETURN_IF_ERROR(plan_batched(c, trans_a, trans_b, &p, err));
  if (p.a.dtype != p.b.dtype) return misfit(c, err);
  int64_t dims[R + 2];
  int32_t rank = 0;
  for (int32_t i = 0; i < p.rank; i++) dims[rank++] = p.dims[i];
  if (!p.drop_row) dims[rank++] = p.s.m;
  if (!p.drop_col) dims[rank++] = p.s.n;
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, p.a.dtype, rank, dims, err));
  const size_t elem = wf_held_bytes(p.a.dtype);
  wf_view ba = p.a, bb = p.b;
  ba.rank -= 2;
  bb.rank -= 2;
  const wf_view *const operands[2] = {&ba, &bb};
  int64_t sa[R], sb[R], index[R] = {0};
  wf_op_broadcast_strides(operands[0], p.rank, sa);
  wf_op_broadcast_strides(operands[1], p.rank, sb);
  const int64_t n_batches = wf_dims_product(p.dims, 0, p.rank);
  const int64_t size_a = p.s.m * p.s.k, size_b = p.s.k * p.s.n, size_y = p.s.m * p.s.n;
  for (int64_t i = 0; i < n_batches; i++) {
    int64_t at_a = 0, at_b = 0;
    for (int32_t j = 0; j < p.rank; j++) {
      at_a += index[j] * sa[j];
      at_b += index[j] * sb[j];
    }
    WF_RETURN_IF_ERROR(multiply(c, &p.s, p.a.dtype,
                                (const char *)p.a.data + (size_t)(at_a * size_a) * elem,
                                (const char *)p.b.data + (size_t)(at_b * size_b) * elem,
                                (char *)c->out[0].data + (size_t)(i * size_y) * elem, err));
    for (int32_t j = p.rank; j-- > 0;) {
      if (++index[j] < p.dims[j]) break;
      index[j] = 0;
    }
  }
  return WEFT_OK;
}

weft_status wf_op_matmul(wf_op_call *c, weft_error *err) {
  return run_matmul(c, false, false, err);
}

weft_status wf_op_ms_fused_matmul(wf_op_call *c, weft_error *err) {
  if (wf_node_attr_i(c->node, "transBatchA", 0) || wf_node_attr_i(c->node, "transBatchB", 0)) {
    return wf_op_fail(c, err, WEFT_UNSUPPORTED, "transposed batch axes");
  }
  WF_RETURN_IF_ERROR(run_matmul(c, wf_node_attr_i(c->node, "transA", 0) != 0,
                                wf_node_attr_i(c->node, "transB", 0) != 0, err));
  const float alpha = wf_node_attr_f(c->node, "alpha", 1);
  if (alpha == 1.0F) return WEFT_OK;
  if (c->out[0].dtype != WF_DTYPE_F32) return misfit(c, err);
  float *y = c->out[0].data;
  for (int64_t i = 0, n = wf_view_count(&c->out[0]); i < n; i++) y[i] *= alpha;
  return WEFT_OK;
}

weft_status wf_op_gemm(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  if (c->in[0]->rank != 2 || c->in[1]->rank != 2) return misfit(c, err);
  WF_RETURN_IF_ERROR(run_matmul(c, wf_node_attr_i(c->node, "transA", 0) != 0,
                                wf_node_attr_i(c->node, "transB", 0) != 0, err));
  const double alpha = (double)wf_node_attr_f(c->node, "alpha", 1);
  const double beta = (double)wf_node_attr_f(c->node, "beta", 1);
  const wf_view *y = &c->out[0], *b = wf_op_in(c, 2);
  int64_t strides[R] = {0};
  if (b) {
    wf_view shape = *y;
    WF_RETURN_IF_ERROR(wf_op_broadcast(c, b, &shape.rank, shape.dims, err));
    if (shape.rank != 2 || shape.dims[0] != y->dims[0] || shape.dims[1] != y->dims[1] ||
        b->dtype != y->dtype) {
      return misfit(c, err);
    }
    wf_op_broadcast_strides(b, 2, strides);
  }
  if (!b && alpha == 1) return WEFT_OK;
  for (int64_t i = 0; i < y->dims[0]; i++) {
    for (int64_t j = 0; j < y->dims[1]; j++) {
      const int64_t at = i * y->dims[1] + j, from = i * strides[0] + j * strides[1];
      if (y->dtype == WF_DTYPE_F32) {
        float *p = (float *)y->data + at;
        *p = (float)(alpha * (double)*p + (b ? beta * (double)((const float *)b->data)[from] : 0));
      } else if (y->dtype == WF_DTYPE_F64) {
        double *p = (double *)y->data + at;
        *p = alpha * *p + (b ? beta * ((const double *)b->data)[from] : 0);
      } else {
        return misfit(c, err);
      }
    }
  }
  return WEFT_OK;
}

/* ---- Einsum
 * ----------------------------------------------------------------------------------------------------
 */

enum { LABELS = 26 * 2 + R, MAX_TERMS = 4 };

typedef struct term {
  int32_t rank, labels[R];
} term;

static int32_t label_of(char ch) {
  if (ch >= 'a' && ch <= 'z') return ch - 'a';
  if (ch >= 'A' && ch <= 'Z') return 26 + ch - 'A';
  return -1;
}

/* Reads one term; "..." stands for as many axes as the tensor has left (rank < 0: as many as
 * given). */
static bool read_term(const char **p, const char *end, int32_t rank, int32_t *n_dots, term *t) {
  int32_t named = 0;
  bool has_dots = false;
  for (const char *q = *p; q < end && *q != ',' && *q != '-'; q++) {
    named += label_of(*q) >= 0;
    has_dots |= *q == '.';
  }
  const int32_t dots = !has_dots ? 0 : rank >= 0 ? rank - named : *n_dots;
  if (dots < 0 || named + dots > R || (rank >= 0 && named + dots != rank)) return false;
  if (has_dots && dots > *n_dots) *n_dots = dots;
  t->rank = 0;
  bool done = false;
  for (; *p < end && **p != ',' && **p != '-'; (*p)++) {
    if (**p == '.' && !done) {
      /* Dots align to the right, as shapes do when they broadcast. */
      for (int32_t i = 0; i < dots; i++) t->labels[t->rank++] = 52 + R - dots + i;
      done = true;
    }
    if (label_of(**p) >= 0) t->labels[t->rank++] = label_of(**p);
  }
  return true;
}

static double read_any(const wf_view *v, int64_t i) {
  switch ((int)v->dtype) {
#define CASE(NAME, T)   \
  case WF_DTYPE_##NAME: \
    return (double)((const T *)v->data)[i];
    WF_NUMBER_TYPES(CASE)
#undef CASE
    default:
      return 0;
  }
}

/* One equation read beside its operands: every label's size, those of the result first. */
typedef struct einsum {
  term in[MAX_TERMS], out;
  int64_t sizes[LABELS]; /* -1: the label does not occur */
  int64_t strides[MAX_TERMS][LABELS];
  int32_t order[LABELS], n_labels; /* the result's labels, then the summed ones */
  int64_t n_sum;                   /* products to each element of the result */
} einsum;

/* Reads the operands' terms up to the arrow; counts how often each label occurs. */
static bool read_operands(wf_op_call *c, const char **p, const char *end, einsum *e, int64_t *count,
                          int32_t *n_dots) {
  for (int32_t i = 0; i < LABELS; i++) e->sizes[i] = -1;
  for (int32_t i = 0; i < c->n_in; i++) {
    if (!read_term(p, end, c->in[i]->rank, n_dots, &e->in[i])) return false;
    for (int32_t j = 0; j < e->in[i].rank; j++) {
      const int32_t l = e->in[i].labels[j];
      const int64_t d = c->in[i]->dims[j];
      if (e->sizes[l] < 0 || e->sizes[l] == 1) e->sizes[l] = d;
      if (d != 1 && d != e->sizes[l]) return false;
      count[l]++;
    }
    if (i + 1 == c->n_in) break;
    while (*p < end && **p != ',') (*p)++;
    if (*p == end) return false;
    (*p)++;
  }
  return true;
}

static bool read_result(const char *p, const char *end, const int64_t *count, int32_t n_dots,
                        term *out) {
  while (p < end && *p != '>') p++;
  if (p < end) {
    p++;
    return read_term(&p, end, -1, &n_dots, out);
  }
  /* Implicit: labels that occur once, in order, after the dots. */
  for (int32_t i = 0; i < n_dots; i++) out->labels[out->rank++] = 52 + R - n_dots + i;
  for (int32_t l = 0; l < 52; l++) {
    const int32_t letter = l < 26 ? 26 + l : l - 26; /* capitals sort first */
    if (count[letter] == 1 && out->rank < R) out->labels[out->rank++] = letter;
  }
  return true;
}

/* Orders the labels and finds each operand's step along each: 0 where it broadcasts. */
static void lay_out(wf_op_call *c, einsum *e) {
  bool is_out[LABELS] = {0};
  for (int32_t i = 0; i < e->out.rank; i++) {
    is_out[e->out.labels[i]] = true;
    e->order[e->n_labels++] = e->out.labels[i];
  }
  e->n_sum = 1;
  for (int32_t l = 0; l < LABELS; l++) {
    if (e->sizes[l] < 0 || is_out[l]) continue;
    e->order[e->n_labels++] = l;
    e->n_sum *= e->sizes[l];
  }
  for (int32_t k = 0; k < c->n_in; k++) {
    int64_t step = 1;
    for (int32_t j = e->in[k].rank; j-- > 0; step *= c->in[k]->dims[j]) {
      if (c->in[k]->dims[j] != 1) e->strides[k][e->in[k].labels[j]] += step;
    }
  }
}

/* Element `o` of the result: the sum of the operands' products over the summed labels. */
static double sum_products(const wf_op_call *c, const einsum *e, int64_t o) {
  double acc = 0;
  int64_t base[MAX_TERMS] = {0};
  for (int32_t i = e->out.rank; i-- > 0; o /= e->sizes[e->order[i]]) {
    for (int32_t k = 0; k < c->n_in; k++)
      base[k] += o % e->sizes[e->order[i]] * e->strides[k][e->order[i]];
  }
  for (int64_t s = 0; s < e->n_sum; s++) {
    double product = 1;
    for (int32_t k = 0; k < c->n_in; k++) {
      int64_t at = base[k], rest = s;
      for (int32_t i = e->n_labels; i-- > e->out.rank; rest /= e->sizes[e->order[i]]) {
        at += rest % e->sizes[e->order[i]] * e->strides[k][e->order[i]];
      }
      product *= read_any(c->in[k], at);
    }
    acc += product;
  }
  return acc;
}

weft_status wf_op_einsum(wf_op_call *c, weft_error *err) {
  const wf_str eq = wf_node_attr_s(c->node, "equation");
  const char *p = eq.at, *end = eq.at + eq.n;
  einsum e = {0};
  int64_t count[LABELS] = {0}, dims[R];
  int32_t n_dots = 0;
  if (c->n_in < 1 || c->n_in > MAX_TERMS)
    return wf_op_fail(c, err, WEFT_UNSUPPORTED, "%d inputs", (int)c->n_in);
  WF_RETURN_IF_ERROR(wf_op_need(c, c->n_in, err));
  if (!read_operands(c, &p, end, &e, count, &n_dots) ||
      !read_result(p, end, count, n_dots, &e.out)) {
    return misfit(c, err);
  }
  for (int32_t i = 0; i < e.out.rank; i++) {
    if (e.sizes[e.out.labels[i]] < 0) return misfit(c, err);
    dims[i] = e.sizes[e.out.labels[i]];
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, c->in[0]->dtype, e.out.rank, dims, err));
  lay_out(c, &e);
  const int64_t total = wf_view_count(&c->out[0]);
  void *const y = c->out[0].data;
  switch ((int)c->in[0]->dtype) {
#define CASE(NAME, T)                                                            \
  case WF_DTYPE_##NAME:                                                          \
    for (int64_t o = 0; o < total; o++) ((T *)y)[o] = (T)sum_products(c, &e, o); \
    return WEFT_OK;
    CASE(F32, float)
    CASE(F64, double)
    CASE(I32, int32_t)
    CASE(I64, int64_t)
#undef CASE
    default:
      return wf_op_fail(c, err, WEFT_UNSUPPORTED, "elements of type %s",
                        wf_dtype_name(c->in[0]->dtype));
  }
}

/* ---- Conv
 * --------------------------------------------------------------------------------------------------------
 */

static int64_t attr_at(const wf_op_call *c, const char *name, size_t i, int64_t fallback) {
  const wf_attr *a = wf_node_attr(c->node, name);
  return a && a->ints && i < a->n ? a->ints[i] : fallback;
}

/* One and two spatial axes, fp32. */
weft_status wf_op_conv(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  const wf_view *x = c->in[0], *w = c->in[1], *b = wf_op_in(c, 2);
  const int32_t n_axes = x->rank - 2;
  const int64_t group = wf_node_attr_i(c->node, "group", 1);
  if (n_axes < 1 || n_axes > 2 || w->rank != x->rank || x->dtype != WF_DTYPE_F32 ||
      w->dtype != WF_DTYPE_F32 ||
      (b && (b->dtype != WF_DTYPE_F32 || wf_view_count(b) != w->dims[0])) || group < 1 ||
      w->dims[1] * group != x->dims[1] || w->dims[0] % group != 0) {
    return wf_op_fail(c, err, WEFT_UNSUPPORTED, "a convolution of this form");
  }
  int64_t dims[4] = {x->dims[0], w->dims[0], 1, 1}, in[2] = {1, 1}, k[2] = {1, 1}, step[2] = {1, 1},
          dil[2] = {1, 1}, pad[2] = {0, 0}, size[2] = {1, 1};
  const wf_str mode = wf_node_attr_s(c->node, "auto_pad");
  for (int32_t i = 0; i < n_axes; i++) {
    const size_t a = (size_t)i;
    in[i] = x->dims[2 + i];
    k[i] = w->dims[2 + i];
    step[i] = attr_at(c, "strides", a, 1);
    dil[i] = attr_at(c, "dilations", a, 1);
    int64_t end = attr_at(c, "pads", a + (size_t)n_axes, 0);
    pad[i] = attr_at(c, "pads", a, 0);
    if (step[i] < 1 || dil[i] < 1 || k[i] < 1 || pad[i] < 0 || end < 0 || step[i] > INT32_MAX ||
        dil[i] > INT32_MAX || pad[i] > INT32_MAX || end > INT32_MAX) {
      return misfit(c, err);
    }
    const int64_t reach = (k[i] - 1) * dil[i] + 1;
    if (wf_str_starts(mode, WF_STR("SAME"))) {
      const int64_t want = (in[i] + step[i] - 1) / step[i];
      int64_t sum = (want - 1) * step[i] + reach - in[i];
      if (sum < 0) sum = 0;
      pad[i] = wf_str_is(mode, "SAME_LOWER") ? (sum + 1) / 2 : sum / 2;
      end = sum - pad[i];
    }
    const int64_t room = in[i] + pad[i] + end - reach;
    size[i] = dims[2 + i] = room < 0 ? 0 : room / step[i] + 1;
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_F32, x->rank, dims, err));
  float *y = c->out[0].data;
  const int64_t cin = w->dims[1], cout = w->dims[0];
  for (int64_t o = 0, total = wf_view_count(&c->out[0]); o < total; o++) {
    const int64_t ox = o % size[1], oy = o / size[1] % size[0], oc = o / (size[0] * size[1]) % cout,
                  n = o / (size[0] * size[1] * cout);
    /* with one axis it is axis 0 and axis 1 is a single point */
    double acc = b ? (double)((const float *)b->data)[oc] : 0;
    for (int64_t ic = 0; ic < cin; ic++) {
      const float *src = (const float *)x->data +
                         ((n * x->dims[1]) + oc / (cout / group) * cin + ic) * in[0] * in[1];
      const float *ker = (const float *)w->data + (oc * cin + ic) * k[0] * k[1];
      for (int64_t ky = 0; ky < k[0]; ky++) {
        const int64_t iy = oy * step[0] - pad[0] + ky * dil[0];
        if (iy < 0 || iy >= in[0]) continue;
        for (int64_t kx = 0; kx < k[1]; kx++) {
          const int64_t ix = ox * step[1] - pad[1] + kx * dil[1];
          if (ix < 0 || ix >= in[1]) continue;
          acc += (double)src[iy * in[1] + ix] * (double)ker[ky * k[1] + kx];
        }
      }
    }
    y[o] = (float)acc;
  }
  return WEFT_OK;
}
