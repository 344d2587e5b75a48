/* SPDX-License-Identifier: Apache-2.0 */
/* Products with integer weights over activations quantised while running, as quantize_dynamic
 * writes them:
 *
 *   codes, sx, zx = DynamicQuantizeLinear(x)
 *   y = Cast(MatMulInteger(codes, w, zx, zw)) * (sx * sw) (+ bias)
 *
 * One DynamicQuantizeLinear may serve several products; it goes when all of them are taken. */
#include "graph/passes.h"

typedef struct product {
  int32_t x, weight, bias, scales, zeros;
} product;

/* One number, or one a column. */
static bool is_per_column(const wf_graph *g, int32_t value, int64_t n) {
  const wf_value *v = graph_value(g, value);
  return v && v->tensor && v->rank <= 1 && (v->tensor->n == 1 || (int64_t)v->tensor->n == n);
}

static bool fits(const wf_graph *g, const product *a) {
  const wf_value *x = graph_value(g, a->x), *w = graph_value(g, a->weight);
  if (!x || !w || x->tensor || x->dtype != WF_DTYPE_F32 || x->rank < 2 || !w->tensor ||
      w->rank != 2 || (w->dtype != WF_DTYPE_I8 && w->dtype != WF_DTYPE_U8))
    return false;
  const int64_t n = last_dim(g, a->weight);
  if (!is_per_column(g, a->scales, n) || g->values.at[a->scales]->dtype != WF_DTYPE_F32)
    return false;
  if (a->zeros >= 0 &&
      (!is_per_column(g, a->zeros, n) || g->values.at[a->zeros]->dtype != w->dtype))
    return false;
  return a->bias < 0 || (is_const(g, a->bias) && g->values.at[a->bias]->rank == 1 &&
                         last_dim(g, a->bias) == n && g->values.at[a->bias]->dtype == WF_DTYPE_F32);
}

/* The quantiser whose codes, scale and zero point these are. */
static const wf_node *quantiser_of(const wf_graph *g, int32_t codes, int32_t scale, int32_t zero) {
  const wf_node *q = made_by(g, codes, WF_OP_DYNAMIC_QUANTIZE_LINEAR);
  return q && q->outputs[0] == codes && wf_node_output(q, 1) == scale &&
                 wf_node_output(q, 2) == zero
             ? q
             : NULL;
}

static weft_status put(pass *p, wf_node *from, const product *a) {
  wf_graph *g = p->g;
  const int32_t in[5] = {a->x, a->weight, a->bias, a->scales, a->zeros}, out = from->outputs[0];
  const wf_str name = from->name;
  graph_kill(g, from);
  wf_node *n = graph_new_node(g, WF_OP_WEFT_DYNAMIC_LINEAR, 5, in, 1, &out);
  if (!n) return graph_no_memory(p->err);
  n->name = name;
  p->changed = true;
  return WEFT_OK;
}

/* Cast(MatMulInteger) * (sx * sw) */
static weft_status from_mul(pass *p, wf_node *mul) {
  const wf_graph *g = p->g;
  for (int i = 0; i < 2; i++) {
    const wf_node *cast = made_once_by(g, mul->inputs[i], WF_OP_CAST);
    const wf_node *scales = made_by(g, mul->inputs[1 - i], WF_OP_MUL);
    const wf_node *dots = cast ? made_once_by(g, cast->inputs[0], WF_OP_MATMUL_INTEGER) : NULL;
    if (!dots || !scales || g->values.at[mul->inputs[i]]->dtype != WF_DTYPE_F32) continue;
    for (int k = 0; k < 2; k++) {
      const wf_node *q =
          quantiser_of(g, dots->inputs[0], scales->inputs[k], wf_node_input(dots, 2));
      if (!q) continue;
      const product a = {q->inputs[0], dots->inputs[1], -1, scales->inputs[1 - k],
                         wf_node_input(dots, 3)};
      if (fits(g, &a)) return put(p, mul, &a);
    }
  }
  return WEFT_OK;
}

static weft_status from_to_float(pass *p, wf_node *n) {
  const wf_node *q = quantiser_of(p->g, n->inputs[0], wf_node_input(n, 2), wf_node_input(n, 4));
  const product a = {q ? q->inputs[0] : -1, n->inputs[1], wf_node_input(n, 6), wf_node_input(n, 3),
                     wf_node_input(n, 5)};
  return q && fits(p->g, &a) ? put(p, n, &a) : WEFT_OK;
}

static weft_status from_dynamic(pass *p, wf_node *n) {
  const product a = {n->inputs[0], n->inputs[1], wf_node_input(n, 4), wf_node_input(n, 2),
                     wf_node_input(n, 3)};
  return fits(p->g, &a) ? put(p, n, &a) : WEFT_OK;
}

weft_status pass_integer(pass *p) {
  FOR_NODES(p, n) {
    switch ((int)n->op) {
      case WF_OP_MUL:
        WF_RETURN_IF_ERROR(from_mul(p, n));
        break;
      case WF_OP_MS_MATMUL_INTEGER_TO_FLOAT:
        WF_RETURN_IF_ERROR(from_to_float(p, n));
        break;
      case WF_OP_MS_DYNAMIC_QUANTIZE_MATMUL:
        WF_RETURN_IF_ERROR(from_dynamic(p, n));
        break;
      default:
        break;
    }
  }
  return WEFT_OK;
}
