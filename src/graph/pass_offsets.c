/* SPDX-License-Identifier: Apache-2.0 */
/* Weights with a minimum a block are written as symmetric quantised operators plus a product of
 * block sums with an offset matrix, which every runtime computes. Here they come together again:
 *   MatMulNBits(x) + MatMul(ReduceSum(Reshape(x, [.., blocks, size])), offsets)
 *   GatherBlockQuantized(ids) + Gather(offsets, ids), spread over each block */
#include "graph/passes.h"

/* Sums of blocks of x, [.., K / size]: gives x. */
static int32_t block_sums_of(const wf_graph *g, int32_t value, int64_t size) {
  const wf_node *reduce = made_by(g, value, WF_OP_REDUCE_SUM);
  if (!reduce || wf_node_attr_i(reduce, "keepdims", 1) || !reduces_last_axis(g, reduce)) return -1;
  const wf_node *reshape = made_by(g, reduce->inputs[0], WF_OP_RESHAPE);
  if (!reshape || last_dim(g, reshape->outputs[0]) != size) return -1;
  const wf_value *x = g->values.at[reshape->inputs[0]], *r = g->values.at[reshape->outputs[0]];
  if (r->rank != x->rank + 1) return -1;
  for (int32_t i = 0; i + 1 < x->rank; i++) {
    if (x->dims[i] < 0 || x->dims[i] != r->dims[i]) return -1;
  }
  return x->id;
}

static weft_status join_matmul(pass *p, wf_node *add) {
  wf_graph *g = p->g;
  for (int i = 0; i < 2; i++) {
    wf_node *q = made_once_by(g, add->inputs[i], WF_OP_MS_MATMUL_NBITS);
    const wf_node *m = made_once_by(g, add->inputs[1 - i], WF_OP_MATMUL);
    if (!q || !m || wf_node_input(q, WF_MATMUL_NBITS_OFFSETS) >= 0) continue;
    const int64_t size = wf_node_attr_i(q, "block_size", 0), n = wf_node_attr_i(q, "N", 0);
    const int64_t k = wf_node_attr_i(q, "K", 0);
    const wf_value *offsets = g->values.at[m->inputs[1]];
    int64_t rows, columns;
    if (!offsets->tensor || offsets->rank != 2 || size < 1 || k % size != 0) continue;
    if (!const_dim(g, offsets->id, 0, &rows) || !const_dim(g, offsets->id, 1, &columns)) continue;
    if (rows != k / size || columns != n || block_sums_of(g, m->inputs[0], size) != q->inputs[0])
      continue;
    int32_t in[WF_MATMUL_NBITS_OFFSETS + 1];
    for (int32_t j = 0; j < WF_MATMUL_NBITS_OFFSETS; j++) in[j] = wf_node_input(q, j);
    in[WF_MATMUL_NBITS_OFFSETS] = offsets->id;
    if (!graph_set_inputs(g, q, WF_MATMUL_NBITS_OFFSETS + 1, in)) return graph_no_memory(p->err);
    const int32_t result = add->outputs[0];
    take_output(g, q, 0, result);
    graph_kill(g, add);
    p->changed = true;
    return WEFT_OK;
  }
  return WEFT_OK;
}

/* The rows of a constant table for the same ids as the quantised gather, whatever nodes spread a
 * block's offset over its elements: the embedding [.., D] seen as [.., D / size, size] plus
 * offsets [.., D / size, 1]. The table is [V, blocks], or [blocks, V] as a tied head has it: then
 * it is gathered by column and turned. */
static int32_t offsets_of(const wf_graph *g, int32_t value, int32_t ids, int64_t blocks,
                          bool *is_by_block) {
  bool is_turned = false;
  for (int depth = 0; depth < 5; depth++) {
    const wf_node *n = graph_producer_of(g, value);
    if (!n) return -1;
    if (n->op == WF_OP_GATHER) {
      const wf_value *t = g->values.at[n->inputs[0]];
      const int64_t axis = wf_node_attr_i(n, "axis", 0);
      int64_t d;
      *is_by_block = is_turned;
      if (!t->tensor || t->rank < 2 || t->rank > 3 || n->inputs[1] != ids) return -1;
      if (axis != (is_turned ? 1 : 0) || (is_turned && t->rank != 2)) return -1;
      if (!const_dim(g, t->id, is_turned ? 0 : 1, &d) || d != blocks) return -1;
      return t->rank == 2 || last_dim(g, t->id) == 1 ? t->id : -1;
    }
    if (n->op == WF_OP_TRANSPOSE) { /* [blocks, ..ids] -> [..ids, blocks] */
      const wf_attr *perm = wf_node_attr(n, "perm");
      if (is_turned || !perm || perm->kind != WF_ATTR_INTS || perm->n < 2) return -1;
      for (size_t i = 0; i < perm->n; i++) {
        if (perm->ints[i] != (int64_t)((i + 1) % perm->n)) return -1;
      }
      is_turned = true;
    } else if (n->op != WF_OP_RESHAPE && n->op != WF_OP_UNSQUEEZE) {
      return -1;
    }
    value = n->inputs[0];
  }
  return -1;
}

static weft_status join_gather(pass *p, wf_node *add) {
  wf_graph *g = p->g;
  for (int i = 0; i < 2; i++) {
    wf_node *split = made_once_by(g, add->inputs[i], WF_OP_RESHAPE);
    wf_node *q = split ? made_once_by(g, split->inputs[0], WF_OP_MS_GATHER_BLOCK_QUANTIZED) : NULL;
    if (!q || wf_node_input(q, WF_GATHER_BLOCK_OFFSETS) >= 0) continue;
    const int64_t size = wf_node_attr_i(q, "block_size", 128), width = last_dim(g, q->outputs[0]);
    const wf_value *s = g->values.at[split->outputs[0]], *o = g->values.at[add->inputs[1 - i]];
    if (size < 1 || width <= 0 || width % size != 0 || last_dim(g, s->id) != size || s->rank < 2)
      continue;
    int64_t blocks;
    if (!const_dim(g, s->id, s->rank - 2, &blocks) || blocks != width / size) continue;
    if (o->rank != s->rank || last_dim(g, o->id) != 1) continue;
    bool is_by_block = false;
    const int32_t table = offsets_of(g, o->id, q->inputs[1], blocks, &is_by_block);
    const wf_value *sum = g->values.at[add->outputs[0]];
    if (table < 0 || sum->is_output || sum->n_users != 1) continue;
    wf_node *join = g->nodes.at[sum->users[0]];
    if (join->op != WF_OP_RESHAPE || !same_shape(g, join->outputs[0], q->outputs[0])) continue;
    int32_t in[WF_GATHER_BLOCK_OFFSETS + 1];
    for (int32_t j = 0; j < WF_GATHER_BLOCK_OFFSETS; j++) in[j] = wf_node_input(q, j);
    in[WF_GATHER_BLOCK_OFFSETS] = table;
    if (is_by_block && !graph_set_attr_i(g, q, WF_GATHER_OFFSETS_BY_BLOCK, 1)) {
      return graph_no_memory(p->err);
    }
    if (!graph_set_inputs(g, q, WF_GATHER_BLOCK_OFFSETS + 1, in)) return graph_no_memory(p->err);
    take_output(g, q, 0, join->outputs[0]);
    graph_kill(g, join);
    graph_kill(g, add);
    p->changed = true;
    return WEFT_OK;
  }
  return WEFT_OK;
}

weft_status pass_offsets(pass *p) {
  FOR_NODES(p, n) {
    if (n->op != WF_OP_ADD) continue;
    WF_RETURN_IF_ERROR(join_matmul(p, n));
    if (!n->is_dead) WF_RETURN_IF_ERROR(join_gather(p, n));
  }
  return WEFT_OK;
}
