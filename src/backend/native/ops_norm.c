/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisations over the last axes. */
#include <math.h>
#include <string.h>

#include "backend/native/op_list.h"
#include "backend/native/op_types.h"
#include "kernels/elementwise.h"

typedef struct norm_args {
  bool is_rms;
  double epsilon;
  const wf_view *weight, *shift; /* [n] or NULL */
  int64_t rows, n;
} norm_args;

static weft_status misfit(wf_op_call *c, weft_error *err) {
  return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT, "operands of types or shapes that do not fit");
}

static double at_f64(const wf_view *v, int64_t i) {
  return v->dtype == WF_DTYPE_F64 ? ((const double *)v->data)[i]
                                  : (double)((const float *)v->data)[i];
}
static void set_f64(const wf_view *v, int64_t i, double x) {
  if (v->dtype == WF_DTYPE_F64) {
    ((double *)v->data)[i] = x;
  } else {
    ((float *)v->data)[i] = (float)x;
  }
}
static bool is_float(const wf_view *v) {
  return v->dtype == WF_DTYPE_F32 || v->dtype == WF_DTYPE_F64;
}

/* x and y have a->rows rows of a->n; mean and inv_std (each [rows]) may be NULL. */
static void norm_rows(wf_cpu_level level, const norm_args *a, const wf_view *x, const wf_view *y,
                      const wf_view *mean, const wf_view *inv_std) {
  if (a->is_rms && x->dtype == WF_DTYPE_F32 && a->weight && !a->shift && !inv_std &&
      a->weight->dtype == WF_DTYPE_F32) {
    wf_rms_norm_f32(level, a->rows, a->n, x->data, a->n, a->weight->data, (float)a->epsilon,
                    y->data, a->n);
    return;
  }
  for (int64_t r = 0; r < a->rows; r++) {
    double m = 0, v = 0;
    for (int64_t i = 0; i < a->n && !a->is_rms; i++) m += at_f64(x, r * a->n + i);
    m /= (double)a->n;
    for (int64_t i = 0; i < a->n; i++) {
      const double d = at_f64(x, r * a->n + i) - m;
      v += d * d;
    }
    const double inv = 1 / sqrt(v / (double)a->n + a->epsilon);
    for (int64_t i = 0; i < a->n; i++) {
      double t = (at_f64(x, r * a->n + i) - m) * inv;
      if (a->weight) t *= at_f64(a->weight, i);
      if (a->shift) t += at_f64(a->shift, i);
      set_f64(y, r * a->n + i, t);
    }
    if (mean) set_f64(mean, r, m);
    if (inv_std) set_f64(inv_std, r, inv);
  }
}

/* LayerNormalization and RMSNormalization of ONNX, SimplifiedLayerNormalization of both domains. */
static weft_status run_norm(wf_op_call *c, bool is_rms, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 2, err));
  const wf_view *x = c->in[0];
  int32_t axis;
  WF_RETURN_IF_ERROR(wf_op_axis(c, wf_node_attr_i(c->node, "axis", -1), x->rank, &axis, err));
  norm_args a = {is_rms,
                 (double)wf_node_attr_f(c->node, "epsilon", 1e-5F),
                 c->in[1],
                 is_rms ? NULL : wf_op_in(c, 2),
                 wf_dims_product(x->dims, 0, axis),
                 wf_dims_product(x->dims, axis, x->rank)};
  if (!is_float(x) || !is_float(a.weight) || (a.shift && !is_float(a.shift)) ||
      wf_view_count(a.weight) != a.n || (a.shift && wf_view_count(a.shift) != a.n)) {
    return misfit(c, err);
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, x->dtype, x->rank, x->dims, err));
  int64_t dims[WF_VIEW_MAX_RANK];
  for (int32_t i = 0; i < x->rank; i++) dims[i] = i < axis ? x->dims[i] : 1;
  const int32_t inv_at = is_rms ? 1 : 2;
  if (!is_rms && wf_op_wants(c, 1)) {
    WF_RETURN_IF_ERROR(wf_op_make(c, 1, WF_DTYPE_F32, x->rank, dims, err));
  }
  if (wf_op_wants(c, inv_at)) {
    WF_RETURN_IF_ERROR(wf_op_make(c, inv_at, WF_DTYPE_F32, x->rank, dims, err));
  }
  norm_rows(c->env->level, &a, x, &c->out[0], !is_rms && wf_op_wants(c, 1) ? &c->out[1] : NULL,
            wf_op_wants(c, inv_at) ? &c->out[inv_at] : NULL);
  return WEFT_OK;
}
weft_status wf_op_layer_norm(wf_op_call *c, weft_error *err) { return run_norm(c, false, err); }
weft_status wf_op_rms_norm(wf_op_call *c, weft_error *err) { return run_norm(c, true, err); }

/* x + skip (+ bias), which may be broadcast over the batch, into a dense sum. */
static weft_status add_skip(wf_op_call *c, const wf_view *x, const wf_view *skip,
                            const wf_view *bias, float *sum, weft_error *err) {
  const int64_t n = x->dims[x->rank - 1], total = wf_view_count(x);
  const int64_t period = skip ? wf_view_count(skip) : 1;
  if (x->dtype != WF_DTYPE_F32 ||
      (skip &&
       (skip->dtype != WF_DTYPE_F32 || period == 0 || period % n != 0 || total % period != 0)) ||
      (bias && (bias->dtype != WF_DTYPE_F32 || wf_view_count(bias) != n))) {
    return misfit(c, err);
  }
  const float *a = x->data;
  for (int64_t i = 0; i < total; i++) {
    float v = a[i];
    if (skip) v += ((const float *)skip->data)[i % period];
    if (bias) v += ((const float *)bias->data)[i % n];
    sum[i] = v;
  }
  return WEFT_OK;
}

/* SkipLayerNormalization: x, skip, gamma, beta, bias; the simplified form has no beta. */
static weft_status run_skip(wf_op_call *c, bool is_rms, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 3, err));
  const wf_view *x = c->in[0];
  if (x->rank < 1) return misfit(c, err);
  const int64_t n = x->dims[x->rank - 1];
  norm_args a = {is_rms,
                 (double)wf_node_attr_f(c->node, "epsilon", 1e-12F),
                 c->in[2],
                 is_rms ? NULL : wf_op_in(c, 3),
                 n ? wf_view_count(x) / n : 0,
                 n};
  if (!is_float(a.weight) || wf_view_count(a.weight) != n ||
      (a.shift && (!is_float(a.shift) || wf_view_count(a.shift) != n))) {
    return misfit(c, err);
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_F32, x->rank, x->dims, err));
  WF_RETURN_IF_ERROR(wf_op_make(c, 3, WF_DTYPE_F32, x->rank, x->dims, err));
  WF_RETURN_IF_ERROR(add_skip(c, x, c->in[1], wf_op_in(c, is_rms ? 3 : 4), c->out[3].data, err));
  norm_rows(c->env->level, &a, &c->out[3], &c->out[0], NULL, NULL);
  return WEFT_OK;
}
weft_status wf_op_ms_skip_layer_norm(wf_op_call *c, weft_error *err) {
  return run_skip(c, false, err);
}
weft_status wf_op_ms_skip_simplified(wf_op_call *c, weft_error *err) {
  return run_skip(c, true, err);
}

weft_status wf_op_weft_norm(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 1, err));
  const wf_view *x = c->in[0], *skip = wf_op_in(c, 1), *bias = wf_op_in(c, 2);
  const wf_norm_params *p = &c->node->as.norm;
  if (x->rank < 1) return misfit(c, err);
  const int64_t n = x->dims[x->rank - 1];
  norm_args a = {p->kind == WF_NORM_RMS, (double)p->epsilon,           wf_op_in(c, 3),
                 wf_op_in(c, 4),         n ? wf_view_count(x) / n : 0, n};
  if ((a.weight && wf_view_count(a.weight) != n) || (a.shift && wf_view_count(a.shift) != n)) {
    return misfit(c, err);
  }
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_F32, x->rank, x->dims, err));
  if (skip || bias || wf_op_wants(c, 1)) {
    WF_RETURN_IF_ERROR(wf_op_make(c, 1, WF_DTYPE_F32, x->rank, x->dims, err));
    WF_RETURN_IF_ERROR(add_skip(c, x, skip, bias, c->out[1].data, err));
    x = &c->out[1];
  } else if (x->dtype != WF_DTYPE_F32) {
    return misfit(c, err);
  }
  norm_rows(c->env->level, &a, x, &c->out[0], NULL, NULL);
  return WEFT_OK;
}
