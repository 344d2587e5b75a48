/* SPDX-License-Identifier: Apache-2.0 */
/* MultiHeadAttention whose bias is the causal mask is written out as the exports that have no such
 * operator write it:
 *
 *   softmax(heads(q) heads(k)^T * scale + mask) heads(v) -> heads beside each other again
 *
 * so that pass_longhand finds it, with the cache, the repeated heads and the mask that stand around
 * it. onnxruntime-genai's builder writes fp16 folders for a CPU this way. */
#include <math.h>

#include "graph/passes.h"
#include "graph/prove.h"

/* A node with one output, inferred; NULL with p->err filled. */
static wf_node *make(pass *p, wf_op op, int32_t n_inputs, const int32_t *inputs) {
  wf_node *n = graph_new_node(p->g, op, n_inputs, inputs, 1, NULL);
  if (!n) (void)graph_no_memory(p->err);
  return n;
}

static bool infer(pass *p, wf_node *n) { return graph_infer_node(p->g, n, p->err) == WEFT_OK; }

static int32_t turned(pass *p, int32_t value, const int64_t *perm) {
  wf_node *n = make(p, WF_OP_TRANSPOSE, 1, &value);
  if (!n) return -1;
  if (!graph_set_attr_ints(p->g, n, "perm", perm, 4)) {
    (void)graph_no_memory(p->err);
    return -1;
  }
  return infer(p, n) ? n->outputs[0] : -1;
}

static int32_t shaped(pass *p, int32_t value, const int64_t *shape, int32_t rank) {
  const wf_value *to = graph_const_i64(p->g, shape, rank, 1);
  if (!to) {
    (void)graph_no_memory(p->err);
    return -1;
  }
  wf_node *n = make(p, WF_OP_RESHAPE, 2, (int32_t[]){value, to->id});
  return n && infer(p, n) ? n->outputs[0] : -1;
}

static int32_t of_two(pass *p, wf_op op, int32_t a, int32_t b) {
  if (a < 0 || b < 0) return -1;
  wf_node *n = make(p, op, 2, (int32_t[]){a, b});
  return n && infer(p, n) ? n->outputs[0] : -1;
}

/* [B, S, heads * D] to [B, heads, S, D]. */
static int32_t head_major(pass *p, int32_t value, int64_t heads) {
  const int32_t split =
      shaped(p, value, (int64_t[]){0, 0, heads, last_dim(p->g, value) / heads}, 4);
  return split < 0 ? -1 : turned(p, split, (const int64_t[]){0, 2, 1, 3});
}

static weft_status write_out(pass *p, wf_node *n, int64_t heads) {
  wf_graph *g = p->g;
  const int64_t width = last_dim(g, n->inputs[0]), width_v = last_dim(g, n->inputs[2]);
  float scale = wf_node_attr_f(n, "scale", 0);
  const int64_t dim = width / heads;
  if (scale == 0) scale = (float)(1 / sqrt((double)dim));
  p->err->status = WEFT_OK;
  const wf_value *factor = graph_const_f32(g, &scale, 1, 0);
  if (!factor) return graph_no_memory(p->err);
  const int32_t q = head_major(p, n->inputs[0], heads);
  const int32_t k = q < 0 ? -1 : head_major(p, n->inputs[1], heads);
  const int32_t v = k < 0 ? -1 : head_major(p, n->inputs[2], heads);
  const int32_t kt = v < 0 ? -1 : turned(p, k, (const int64_t[]){0, 1, 3, 2});
  int32_t s = of_two(p, WF_OP_MATMUL, q, kt);
  s = of_two(p, WF_OP_MUL, s, factor->id);
  s = of_two(p, WF_OP_ADD, s, n->inputs[5]);
  wf_node *softmax = s < 0 ? NULL : make(p, WF_OP_SOFTMAX, 1, &s);
  if (softmax) softmax->name = n->name;
  const int32_t w = softmax && infer(p, softmax) ? softmax->outputs[0] : -1;
  const int32_t y = of_two(p, WF_OP_MATMUL, w, v);
  const int32_t back = y < 0 ? -1 : turned(p, y, (const int64_t[]){0, 2, 1, 3});
  const int32_t out = back < 0 ? -1 : shaped(p, back, (int64_t[]){0, 0, width_v}, 3);
  if (out < 0) return p->err->status;
  const int32_t old = n->outputs[0];
  if (!graph_replace(g, old, out)) return graph_no_memory(p->err);
  graph_kill(g, n);
  p->changed = true;
  return WEFT_OK;
}

weft_status pass_heads(pass *p) {
  const wf_graph *g = p->g;
  if (!p->o || !p->o->ports) return WEFT_OK;
  FOR_NODES(p, n) {
    if (n->op != WF_OP_MS_MULTI_HEAD_ATTENTION) continue;
    const int64_t heads = wf_node_attr_i(n, "num_heads", 0);
    int32_t window = 0;
    /* q, k, v beside a mask alone: no bias, no padding, no past of its own, nothing else made */
    bool is_plain = heads > 0 && !wf_node_attr_i(n, "unidirectional", 0) &&
                    wf_node_input(n, 5) >= 0 && wf_node_output(n, 0) >= 0;
    for (int32_t i = 0; i < 3 && is_plain; i++) {
      const int32_t in = wf_node_input(n, i);
      const int64_t width = in < 0 || g->values.at[in]->rank != 3 ? 0 : last_dim(g, in);
      is_plain = width > 0 && width % heads == 0;
    }
    for (int32_t i = 3; i < n->n_inputs && is_plain; i++) is_plain = i == 5 || n->inputs[i] < 0;
    for (int32_t i = 1; i < n->n_outputs && is_plain; i++) is_plain = wf_node_output(n, i) < 0;
    if (is_plain && prove_mask(p, n->inputs[5], false, &window)) {
      WF_RETURN_IF_ERROR(write_out(p, n, heads));
    }
  }
  return WEFT_OK;
}
