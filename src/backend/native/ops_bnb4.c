/* SPDX-License-Identifier: Apache-2.0 */
/* com.microsoft MatMulBnb4: weights [N, K] written one after another, two to a byte, the first in
 * the high half; each is a number of a table of 16 times the largest of its block. Blocks run over
 * the rows' ends. */
#include "backend/native/op_list.h"
#include "backend/native/op_types.h"
#include "kernels/matmul.h"

/* By quant_type. FP4: a sign, two bits of exponent, one of mantissa, over 12. NF4: quantiles of the
 * normal distribution. Both as bitsandbytes has them. */
static const float tables[2][16] = {
    {0.0F, 5.208333333e-03F, 0.66666667F, 1.0F, 0.33333333F, 0.5F, 0.16666667F, 0.25F, -0.0F,
     -5.208333333e-03F, -0.66666667F, -1.0F, -0.33333333F, -0.5F, -0.16666667F, -0.25F},
    {-1.0F, -0.6961928009986877F, -0.5250730514526367F, -0.39491748809814453F,
     -0.28444138169288635F, -0.18477343022823334F, -0.09105003625154495F, 0.0F,
     0.07958029955625534F, 0.16093020141124725F, 0.24611230194568634F, 0.33791524171829224F,
     0.44070982933044434F, 0.5626170039176941F, 0.7229568362236023F, 1.0F}};

bool wf_bnb4_form_of(const wf_node *n, wf_bnb4_form *f) {
  const int64_t type = wf_node_attr_i(n, "quant_type", -1);
  *f = (wf_bnb4_form){.n = wf_node_attr_i(n, "N", 0),
                      .k = wf_node_attr_i(n, "K", 0),
                      .block_size = wf_node_attr_i(n, "block_size", 0),
                      .table = type == 0 || type == 1 ? tables[type] : NULL};
  if (f->n < 1 || f->k < 1 || f->n > INT32_MAX || f->k > INT32_MAX || f->block_size < 16 ||
      f->block_size > INT32_MAX || !f->table || wf_node_attr_i(n, "transB", 1) != 1) {
    return false;
  }
  f->n_bytes = (f->n * f->k + 1) / 2;
  f->n_scales = (f->n * f->k + f->block_size - 1) / f->block_size;
  return true;
}

void wf_bnb4_widen(const wf_bnb4_form *f, const uint8_t *data, const float *scales, float *out) {
  for (int64_t i = 0, count = f->n * f->k; i < count; i++) {
    const int q = data[i / 2] >> (i % 2 ? 0 : 4) & 15;
    out[i] = f->table[q] * scales[i / f->block_size];
  }
}

/* MatMulBnb4 whose weight could not be packed. */
weft_status wf_op_ms_matmul_bnb4(wf_op_call *c, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_op_need(c, 3, err));
  const wf_view *x = c->in[0], *w = c->in[1], *s = c->in[2];
  wf_bnb4_form f;
  if (!wf_bnb4_form_of(c->node, &f)) {
    return wf_op_fail(
        c, err, WEFT_UNSUPPORTED,
        "a quant_type other than 0 and 1, a block_size below 16, transB 0, or no N or K");
  }
  if (x->dtype != WF_DTYPE_F32 || x->rank < 1 || x->dims[x->rank - 1] != f.k ||
      w->dtype != WF_DTYPE_U8 || wf_view_count(w) != f.n_bytes || s->dtype != WF_DTYPE_F32 ||
      wf_view_count(s) != f.n_scales) {
    return wf_op_fail(c, err, WEFT_INVALID_ARGUMENT, "an operand does not fit");
  }
  int64_t dims[WF_VIEW_MAX_RANK];
  for (int32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  dims[x->rank - 1] = f.n;
  WF_RETURN_IF_ERROR(wf_op_make(c, 0, WF_DTYPE_F32, x->rank, dims, err));
  size_t n_bytes = 0;
  if (!wf_size_mul((size_t)f.n * sizeof(float), (size_t)f.k, &n_bytes)) {
    return wf_op_fail(c, err, WEFT_LIMIT, "its weight overflows");
  }
  void *dense = NULL;
  WF_RETURN_IF_ERROR(wf_op_scratch(c, n_bytes, &dense, err));
  wf_bnb4_widen(&f, w->data, s->data, dense);
  const int64_t m = wf_view_count(x) / f.k;
  if (m) {
    wf_gemm_f32(c->env->level, m, f.n, f.k, x->data, f.k, dense, f.k, true, c->out[0].data, f.n);
  }
  return WEFT_OK;
}
