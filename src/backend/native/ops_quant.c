/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised tensors: linear quantisation, integer products, block-quantised weights. */
#include <math.h>
#include <string.h>

#include "backend/native/op_list.h"
#include "backend/native/op_types.h"
#include "kernels/matmul.h"
#include "kernels/matmul_int.h"

static int64_t int_at(const wf_view *v, int64_t i) {
  switch ((int)v->dtype) {
    case WF_DTYPE_U8:
      return ((const uint8_t *)v->data)[i];
    case WF_DTYPE_I8:
      return ((const int8_t *)v->data)[i];
    case WF_DTYPE_U16:
      return ((const uint16_t *)v->data)[i];
    case WF_DTYPE_I16:
      return ((const int16_t *)v->data)[i];
    case WF_DTYPE_I32:
      return ((const int32_t *)v->data)[i];
    default:
      return 0;
  }
}
static bool is_quantised(const wf_view *v) {
  return v->dtype == WF_DTYPE_U8 || v->dtype == WF_DTYPE_I8 || v->dtype == WF_DTYPE_U16 ||
         v->dtype == WF_DTYPE_I16 || v->dtype == WF_DTYPE_I32;
}

/* Which scale an element uses: one for all, one a slice of an axis, or one a block along it. */
typedef struct scales {
  int64_t inner, dim, block, n_blocks;
  bool is_one;
} scales;

static weft_status plan_scales(wf_op_call *c, const wf_view *x, const wf_view *s, scales *p,
                               weft_error *err) {
  *p = (scales){.inner = 1, .dim = 1, .block = 1, .n_blocks = 1};
  const int64_t bs = wf_node_attr_i(c->node, "block_size", 0), n = wf_view_count(s);
  if (bs == 0 && n == 1) {
    p->is_one = true;
    return WEFT_OK;
  }
  int32_t axis;
  WF_RETURN_IF_ERROR(wf_op_axis(c, wf_node_attr_i(c->node, "axis", 1), x->rank, &axis, err));
  p->inner = wf_dims_product(x->dims, axis + 1, x->rank);
  p->dim = x->dims[axis];
  if (bs == 0) {
    if (n != p->dim) return wf_op_misfit(c, "the scale", err);
    p->inner = wf_dims_product(x->dims, axis + 1, x->rank);
    p->n_blocks = 0; /* marks: indexed by the axis alone */
    return WEFT_OK;
  }
  p->block = bs;
  p->n_blocks = bs > 0 ? (p->dim + bs - 1) / bs : 0;
  if (bs < 0 || n != wf_dims_product(x->dims, 0, axis) * p->n_blocks * p->inner) {
    return wf_op_misfit(c, "the scale", err);
  }
  return WEFT_OK;
}

static int64_t scale_of(const scales *p, int64_t i) {
  if (p->is_one) return 0;
  const int64_t at = i / p->inner % p->dim;
  if (p->n_blocks == 0) return at;
  const int64_t outer = i / (p->inner * p->dim);
  return (outer * p->n_blocks + at / p->block) * p->inner + i % p->inner;
}

weft_status wf_op_dequantize_linear(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  const wf_view *x = c->in[0], *s = c->in[1], *z = wf_op_in(c, 2);
  scales p;
  if (!is_quantised(x) || s->dtype != WF_DTYPE_F32 ||
      (z && (z->dtype != x->dtype || wf_view_count(z) != wf_view_count(s)))) {
    return wf_op_misfit(c, "a type", err);
  }
  WF_RETURN_IF_ERROR(plan_scales(c, x, s, &p, err));
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_F32, x->rank, x->dims, err));
  float *y = c->out[0].data;
  for (int64_t i = 0, n = wf_view_count(x); i < n; i++) {
    const int64_t at = scale_of(&p, i);
    y[i] = (float)(int_at(x, i) - (z ? int_at(z, at) : 0)) * ((const float *)s->data)[at];
  }
  return WEFT_OK;
}

static void range_of(wf_dtype stored, double *low, double *high) {
  const int bits = wf_dtype_bits(stored);
  const bool is_signed = wf_dtype_is_signed(stored);
  *low = is_signed ? -ldexp(1, bits - 1) : 0;
  *high = is_signed ? ldexp(1, bits - 1) - 1 : ldexp(1, bits) - 1;
}

static void store_int(const wf_view *y, int64_t i, double v) {
  switch ((int)y->dtype) {
    case WF_DTYPE_U8:
      ((uint8_t *)y->data)[i] = (uint8_t)v;
      break;
    case WF_DTYPE_I8:
      ((int8_t *)y->data)[i] = (int8_t)v;
      break;
    case WF_DTYPE_U16:
      ((uint16_t *)y->data)[i] = (uint16_t)v;
      break;
    case WF_DTYPE_I16:
      ((int16_t *)y->data)[i] = (int16_t)v;
      break;
    default:
      break;
  }
}

weft_status wf_op_quantize_linear(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  const wf_view *x = c->in[0], *s = c->in[1], *z = wf_op_in(c, 2);
  const wf_value *out = wf_graph_value(c->graph, wf_node_output(c->node, 0));
  wf_dtype stored = (wf_dtype)wf_node_attr_i(c->node, "output_dtype", 0);
  if (stored == WF_DTYPE_UNDEFINED && out) stored = out->dtype;
  if (stored == WF_DTYPE_UNDEFINED) stored = z ? z->dtype : WF_DTYPE_U8;
  const wf_dtype held = wf_dtype_held(stored);
  scales p;
  if ((x->dtype != WF_DTYPE_F32 && x->dtype != WF_DTYPE_I32) || s->dtype != WF_DTYPE_F32 ||
      !wf_dtype_is_int(stored) || wf_dtype_bits(stored) > 16 ||
      (z && (z->dtype != held || wf_view_count(z) != wf_view_count(s)))) {
    return wf_op_fail(c, err, WEFT_UNSUPPORTED, "quantising to %s", wf_dtype_name(stored));
  }
  WF_RETURN_IF_ERROR(plan_scales(c, x, s, &p, err));
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, held, x->rank, x->dims, err));
  double low, high;
  range_of(stored, &low, &high);
  for (int64_t i = 0, n = wf_view_count(x); i < n; i++) {
    const int64_t at = scale_of(&p, i);
    const float v = x->dtype == WF_DTYPE_F32 ? ((const float *)x->data)[i]
                                             : (float)((const int32_t *)x->data)[i];
    double q =
        (double)nearbyintf(v / ((const float *)s->data)[at]) + (double)(z ? int_at(z, at) : 0);
    q = q != q ? 0 : q < low ? low : q > high ? high : q;
    store_int(&c->out[0], i, q);
  }
  return WEFT_OK;
}

/* x -> uint8 over its own range, which always contains 0. */
static wf_int_range dynamic_codes(const wf_op_call *c, const wf_view *x, uint8_t *codes) {
  const int64_t n = wf_view_count(x);
  float low = 0, high = 0;
  wf_int_widen(c->env->level, x->data, n, &low, &high);
  const wf_int_range range = wf_int_range_of(low, high);
  wf_int_codes(c->env->level, range, x->data, n, codes);
  return range;
}

weft_status wf_op_dynamic_quantize_linear(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *x = c->in[0];
  if (x->dtype != WF_DTYPE_F32) return wf_op_misfit(c, "the type", err);
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_U8, x->rank, x->dims, err));
  WF_RETURN_IF_ERROR(wf_op_make(c, 1, WF_DTYPE_F32, 0, NULL, err));
  WF_RETURN_IF_ERROR(wf_op_make(c, 2, WF_DTYPE_U8, 0, NULL, err));
  const wf_int_range range = dynamic_codes(c, x, c->out[0].data);
  *(float *)c->out[1].data = range.scale;
  *(uint8_t *)c->out[2].data = range.zero;
  return WEFT_OK;
}

/* ---- integer products
 * ------------------------------------------------------------------------------------------- */

typedef struct int_product {
  const wf_view *a, *b, *za, *zb; /* zero points: scalar, or one a row of a / a column of b */
  int64_t batch, m, n, k;
  bool b_is_batched;
} int_product;

static weft_status plan_int(wf_op_call *c, const wf_view *a, const wf_view *b, const wf_view *za,
                            const wf_view *zb, int_product *p, int32_t *rank, int64_t *dims,
                            weft_error *err) {
  if (a->rank < 2 || b->rank < 2 || (b->rank > 2 && b->rank != a->rank) ||
      a->rank > WF_VIEW_MAX_RANK || (a->dtype != WF_DTYPE_U8 && a->dtype != WF_DTYPE_I8) ||
      (b->dtype != WF_DTYPE_U8 && b->dtype != WF_DTYPE_I8)) {
    return wf_op_misfit(c, "an operand", err);
  }
  *p = (int_product){a,
                     b,
                     za,
                     zb,
                     wf_dims_product(a->dims, 0, a->rank - 2),
                     a->dims[a->rank - 2],
                     b->dims[b->rank - 1],
                     a->dims[a->rank - 1],
                     b->rank > 2};
  if (b->dims[b->rank - 2] != p->k ||
      (b->rank > 2 && wf_dims_product(b->dims, 0, b->rank - 2) != p->batch)) {
    return wf_op_misfit(c, "an operand", err);
  }
  if ((za && (za->dtype != a->dtype || (wf_view_count(za) != 1 && wf_view_count(za) != p->m))) ||
      (zb && (zb->dtype != b->dtype || (wf_view_count(zb) != 1 && wf_view_count(zb) != p->n)))) {
    return wf_op_misfit(c, "a zero point", err);
  }
  *rank = a->rank;
  for (int32_t i = 0; i < a->rank; i++) dims[i] = a->dims[i];
  dims[a->rank - 1] = p->n;
  return WEFT_OK;
}

static int32_t int_dot(const int_product *p, int64_t batch, int64_t i, int64_t j) {
  const int64_t za = p->za ? int_at(p->za, wf_view_count(p->za) == 1 ? 0 : i) : 0;
  const int64_t zb = p->zb ? int_at(p->zb, wf_view_count(p->zb) == 1 ? 0 : j) : 0;
  const int64_t a0 = (batch * p->m + i) * p->k, b0 = p->b_is_batched ? batch * p->k * p->n : 0;
  int64_t acc = 0;
  for (int64_t t = 0; t < p->k; t++) {
    acc += (int_at(p->a, a0 + t) - za) * (int_at(p->b, b0 + t * p->n + j) - zb);
  }
  return (int32_t)acc;
}

weft_status wf_op_matmul_integer(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  int_product p;
  int32_t rank;
  int64_t dims[WF_VIEW_MAX_RANK];
  WF_RETURN_IF_ERROR(
      plan_int(c, c->in[0], c->in[1], wf_op_in(c, 2), wf_op_in(c, 3), &p, &rank, dims, err));
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_I32, rank, dims, err));
  int32_t *y = c->out[0].data;
  for (int64_t b = 0; b < p.batch; b++) {
    for (int64_t i = 0; i < p.m; i++) {
      for (int64_t j = 0; j < p.n; j++) *y++ = int_dot(&p, b, i, j);
    }
  }
  return WEFT_OK;
}

static weft_status int_to_float(wf_op_call *c, const int_product *p, const wf_view *sa,
                                const wf_view *sb, const wf_view *bias, float *y, weft_error *err) {
  if (sa->dtype != WF_DTYPE_F32 || sb->dtype != WF_DTYPE_F32 ||
      (wf_view_count(sa) != 1 && wf_view_count(sa) != p->m) ||
      (wf_view_count(sb) != 1 && wf_view_count(sb) != p->n) ||
      (bias && (bias->dtype != WF_DTYPE_F32 || wf_view_count(bias) != p->n))) {
    return wf_op_misfit(c, "a scale or bias", err);
  }
  for (int64_t b = 0; b < p->batch; b++) {
    for (int64_t i = 0; i < p->m; i++) {
      for (int64_t j = 0; j < p->n; j++) {
        const float s = ((const float *)sa->data)[wf_view_count(sa) == 1 ? 0 : i] *
                        ((const float *)sb->data)[wf_view_count(sb) == 1 ? 0 : j];
        *y++ = (float)int_dot(p, b, i, j) * s + (bias ? ((const float *)bias->data)[j] : 0);
      }
    }
  }
  return WEFT_OK;
}

weft_status wf_op_ms_matmul_integer_to_float(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 4, err));
  int_product p;
  int32_t rank;
  int64_t dims[WF_VIEW_MAX_RANK];
  WF_RETURN_IF_ERROR(
      plan_int(c, c->in[0], c->in[1], wf_op_in(c, 4), wf_op_in(c, 5), &p, &rank, dims, err));
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_F32, rank, dims, err));
  return int_to_float(c, &p, c->in[2], c->in[3], wf_op_in(c, 6), c->out[0].data, err);
}

static weft_status dynamic_product(wf_op_call *c, const wf_view *sb, const wf_view *zb,
                                   const wf_view *bias, weft_error *err) {
  const wf_view *x = c->in[0];
  if (x->dtype != WF_DTYPE_F32 || !sb) return wf_op_misfit(c, "the input", err);
  void *codes = NULL;
  WF_RETURN_IF_ERROR(wf_op_scratch(c, (size_t)wf_view_count(x), &codes, err));
  wf_int_range range = dynamic_codes(c, x, codes);
  wf_view a = *x, za = {.dtype = WF_DTYPE_U8, .data = &range.zero},
          sa = {.dtype = WF_DTYPE_F32, .data = &range.scale};
  a.dtype = WF_DTYPE_U8;
  a.data = codes;
  int_product p;
  int32_t rank;
  int64_t dims[WF_VIEW_MAX_RANK];
  WF_RETURN_IF_ERROR(plan_int(c, &a, c->in[1], &za, zb, &p, &rank, dims, err));
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_F32, rank, dims, err));
  return int_to_float(c, &p, &sa, sb, bias, c->out[0].data, err);
}

weft_status wf_op_ms_dynamic_quantize_matmul(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 3, err));
  return dynamic_product(c, c->in[2], wf_op_in(c, 3), wf_op_in(c, 4), err);
}

/* WEFT_DYNAMIC_LINEAR whose weight could not be packed. */
weft_status wf_op_weft_dynamic_linear(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  return dynamic_product(c, wf_op_in(c, 3), wf_op_in(c, 4), wf_op_in(c, 2), err);
}

/* ---- block-quantised weights
 * --------------------------------------------------------------------------------------- */

/* Element i of values packed low bits first in bytes. */
static int packed_at(const uint8_t *p, int64_t i, int bits) {
  const int64_t bit = i * bits;
  return p[bit / 8] >> (int)(bit % 8) & ((1 << bits) - 1);
}

/* MatMulNBits whose weight could not be packed (computed, or with reordered columns). */
weft_status wf_op_ms_matmul_nbits(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 3, err));
  const wf_view *x = c->in[0], *w = c->in[1], *s = c->in[2], *z = wf_op_in(c, 3),
                *g = wf_op_in(c, 4), *bias = wf_op_in(c, 5),
                *off = wf_op_in(c, WF_MATMUL_NBITS_OFFSETS);
  const int64_t k = wf_node_attr_i(c->node, "K", 0), n = wf_node_attr_i(c->node, "N", 0);
  const int bits = (int)wf_node_attr_i(c->node, "bits", 4);
  const int64_t bs = wf_node_attr_i(c->node, "block_size", 0);
  if (k <= 0 || n <= 0 || k > INT32_MAX || n > INT32_MAX || bs < 8 || bs > 65536 ||
      (bits != 2 && bits != 4 && bits != 8) || x->rank < 1 || x->dims[x->rank - 1] != k ||
      x->dtype != WF_DTYPE_F32 || w->dtype != WF_DTYPE_U8 || s->dtype != WF_DTYPE_F32) {
    return wf_op_misfit(c, "an operand", err);
  }
  const int64_t blocks = (k + bs - 1) / bs, blob = bs * bits / 8,
                zero_row = (blocks * bits + 7) / 8;
  const bool z_float = z && z->dtype == WF_DTYPE_F32;
  if (wf_view_count(w) != n * blocks * blob || wf_view_count(s) != n * blocks ||
      (z && wf_view_count(z) != (z_float ? n * blocks : n * zero_row)) ||
      (z && !z_float && z->dtype != WF_DTYPE_U8) ||
      (g && (g->dtype != WF_DTYPE_I32 || wf_view_count(g) < k)) ||
      (bias && (bias->dtype != WF_DTYPE_F32 || wf_view_count(bias) != n)) ||
      (off && (off->dtype != WF_DTYPE_F32 || wf_view_count(off) != n * blocks))) {
    return wf_op_misfit(c, "an operand", err);
  }
  int64_t dims[WF_VIEW_MAX_RANK];
  for (int32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  dims[x->rank - 1] = n;
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_F32, x->rank, dims, err));
  void *memory = NULL;
  WF_RETURN_IF_ERROR(wf_op_scratch(c, (size_t)k * sizeof(float), &memory, err));
  float *row = memory, *y = c->out[0].data;
  const int64_t m = wf_view_count(x) / k;
  for (int64_t j = 0; j < n; j++) {
    for (int64_t i = 0; i < k; i++) {
      int64_t b = i / bs;
      if (g) {
        b = ((const int32_t *)g->data)[i];
        if (b < 0 || b >= blocks) return wf_op_misfit(c, "g_idx", err);
      }
      const int q =
          packed_at((const uint8_t *)w->data + (j * blocks + i / bs) * blob, i % bs, bits);
      float zero = (float)(1 << (bits - 1));
      if (z_float) zero = ((const float *)z->data)[j * blocks + b];
      if (z && !z_float) zero = (float)packed_at((const uint8_t *)z->data + j * zero_row, b, bits);
      row[i] = ((float)q - zero) * ((const float *)s->data)[j * blocks + b];
      if (off) row[i] += ((const float *)off->data)[b * n + j];
    }
    for (int64_t t = 0; t < m; t++) {
      double acc = bias ? (double)((const float *)bias->data)[j] : 0;
      for (int64_t i = 0; i < k; i++)
        acc += (double)((const float *)x->data)[t * k + i] * (double)row[i];
      y[t * n + j] = (float)acc;
    }
  }
  return WEFT_OK;
}

weft_status wf_op_ms_gather_block_quantized(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 3, err));
  const wf_view *w = c->in[0], *ids = c->in[1], *s = c->in[2], *z = wf_op_in(c, 3),
                *off = wf_op_in(c, WF_GATHER_BLOCK_OFFSETS);
  const wf_value *stored = wf_graph_value(c->graph, wf_node_input(c->node, 0));
  const bool is_bytes = stored && stored->dtype == WF_DTYPE_U8; /* packed by the exporter */
  const int bits = is_bytes ? (int)wf_node_attr_i(c->node, "bits", 4)
                   : stored ? wf_dtype_bits(stored->dtype)
                            : 4;
  const int64_t bs = wf_node_attr_i(c->node, "block_size", 128);
  int32_t g_axis, q_axis;
  WF_RETURN_IF_ERROR(
      wf_op_axis(c, wf_node_attr_i(c->node, "gather_axis", 0), w->rank, &g_axis, err));
  WF_RETURN_IF_ERROR(
      wf_op_axis(c, wf_node_attr_i(c->node, "quantize_axis", 1), w->rank, &q_axis, err));
  if (g_axis != 0 || q_axis != w->rank - 1 || w->rank < 2 || bs < 16 || s->dtype != WF_DTYPE_F32 ||
      s->rank != w->rank || (bits != 2 && bits != 4 && bits != 8) ||
      (ids->dtype != WF_DTYPE_I64 && ids->dtype != WF_DTYPE_I32)) {
    return wf_op_fail(c, err, WEFT_UNSUPPORTED, "axes or types of this form");
  }
  const int per_byte = is_bytes ? 8 / bits : 1;
  const int64_t width = w->dims[w->rank - 1] * per_byte, blocks = (width + bs - 1) / bs;
  const int64_t rows = wf_dims_product(w->dims, 0, w->rank - 1),
                per_id = w->dims[0] ? rows / w->dims[0] : 0;
  const int64_t zero_row = is_bytes ? (blocks * bits + 7) / 8 : blocks;
  if (wf_view_count(s) != rows * blocks || (z && wf_view_count(z) != rows * zero_row) ||
      (off && (off->dtype != WF_DTYPE_F32 || wf_view_count(off) != rows * blocks))) {
    return wf_op_misfit(c, "a scale or zero point", err);
  }
  int64_t dims[2 * WF_VIEW_MAX_RANK];
  int32_t rank = 0;
  for (int32_t i = 0; i < ids->rank; i++) dims[rank++] = ids->dims[i];
  for (int32_t i = 1; i < w->rank; i++) dims[rank++] = w->dims[i];
  dims[rank - 1] = width;
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_F32, rank, dims, err));
  const bool off_by_block = wf_node_attr_i(c->node, WF_GATHER_OFFSETS_BY_BLOCK, 0) != 0;
  float *y = c->out[0].data;
  for (int64_t t = 0, n = wf_view_count(ids); t < n; t++) {
    int64_t id = ids->dtype == WF_DTYPE_I64 ? ((const int64_t *)ids->data)[t]
                                            : ((const int32_t *)ids->data)[t];
    if (id < 0) id += w->dims[0];
    if (id < 0 || id >= w->dims[0]) return wf_op_misfit(c, "an index", err);
    for (int64_t r = id * per_id; r < (id + 1) * per_id; r++) {
      for (int64_t i = 0; i < width; i++) {
        const int64_t b = i / bs;
        int64_t q = is_bytes ? packed_at((const uint8_t *)w->data + r * (width / per_byte), i, bits)
                             : int_at(w, r * width + i);
        if (z) {
          q -= is_bytes ? packed_at((const uint8_t *)z->data + r * zero_row, b, bits)
                        : int_at(z, r * blocks + b);
        } else if (is_bytes) {
          q -= 1 << (bits - 1);
        }
        *y = (float)q * ((const float *)s->data)[r * blocks + b];
        if (off) *y += ((const float *)off->data)[off_by_block ? b * rows + r : r * blocks + b];
        y++;
      }
    }
  }
  return WEFT_OK;
}

/* WEFT_LINEAR whose weight could not be packed. */
weft_status wf_op_weft_linear(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  const wf_linear_params *p = &c->node->as.linear;
  const wf_view *x = c->in[0], *w = c->in[1], *bias = wf_op_in(c, 2), *s = wf_op_in(c, 3),
                *z = wf_op_in(c, 4);
  if (x->dtype != WF_DTYPE_F32 || w->rank != 2 || x->rank < 1)
    return wf_op_misfit(c, "an operand", err);
  const int64_t rows = w->dims[0], cols = w->dims[1];
  const int64_t k = p->is_transposed ? cols : rows, n = p->is_transposed ? rows : cols;
  if (x->dims[x->rank - 1] != k ||
      (bias && (bias->dtype != WF_DTYPE_F32 || wf_view_count(bias) != n))) {
    return wf_op_misfit(c, "an operand", err);
  }
  const float *dense = w->data;
  if (s) {
    const int32_t axis = p->axis < 0 ? p->axis + 2 : p->axis;
    const int64_t bs = p->block_size, n_scales = wf_view_count(s);
    int64_t expected = 1;
    if (bs > 0) {
      expected = axis == 0 ? (rows + bs - 1) / bs * cols : rows * ((cols + bs - 1) / bs);
    } else if (n_scales != 1) {
      expected = axis == 0 ? rows : cols;
    }
    if (!is_quantised(w) || s->dtype != WF_DTYPE_F32 || n_scales != expected || axis < 0 ||
        axis > 1 || (z && (z->dtype != w->dtype || wf_view_count(z) != expected))) {
      return wf_op_misfit(c, "a scale", err);
    }
    void *memory = NULL;
    WF_RETURN_IF_ERROR(wf_op_scratch(c, (size_t)(rows * cols + 1) * sizeof(float), &memory, err));
    float *to = memory;
    dense = to;
    for (int64_t i = 0; i < rows * cols; i++) {
      const int64_t r = i / cols, col = i % cols;
      int64_t at = n_scales == 1 ? 0 : axis == 0 ? r : col;
      if (bs > 0) at = axis == 0 ? r / bs * cols + col : r * ((cols + bs - 1) / bs) + col / bs;
      to[i] = (float)(int_at(w, i) - (z ? int_at(z, at) : 0)) * ((const float *)s->data)[at];
    }
  } else if (w->dtype != WF_DTYPE_F32) {
    return wf_op_misfit(c, "the weight", err);
  }
  int64_t dims[WF_VIEW_MAX_RANK];
  for (int32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  dims[x->rank - 1] = n;
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_F32, x->rank, dims, err));
  float *y = c->out[0].data;
  const int64_t m = k ? wf_view_count(x) / k : 0;
  if (m && n) wf_gemm_f32(c->env->level, m, n, k, x->data, k, dense, cols, p->is_transposed, y, n);
  for (int64_t i = 0; bias && i < m * n; i++) y[i] += ((const float *)bias->data)[i % n];
  return WEFT_OK;
}
