/* SPDX-License-Identifier: Apache-2.0 */
/* Compile time of the interpreter: constants in held form, uses counted. */
#include "backend/native/interp.h"
#include "backend/native/moe.h"

static weft_status hold_constant(wf_component *c, const wf_tensor *t, wf_view *v, weft_error *err) {
  const wf_dtype held = wf_dtype_held(t->dtype);
  const size_t elem = wf_held_bytes(held);
  if (t->rank > WF_VIEW_MAX_RANK || elem == 0) {
    return wf_fail(err, WEFT_UNSUPPORTED, "", "constant '%.*s' is %s of rank %d", (int)t->name.n,
                   t->name.at ? t->name.at : "", wf_dtype_name(t->dtype), (int)t->rank);
  }
  *v = (wf_view){.dtype = held, .rank = t->rank};
  for (int32_t i = 0; i < t->rank; i++) v->dims[i] = t->dims[i];
  if (t->n > 0 && held == t->dtype && ((uintptr_t)t->data & (elem - 1)) == 0) {
    v->data = wf_unconst(t->data); /* operators only read inputs */
    return WEFT_OK;
  }
  v->data = wf_arena_calloc(c->arena, t->n ? t->n : 1, elem);
  if (!v->data) return wf_fail_memory(err, t->n * elem, "a constant");
  return wf_hold(c->level, t->dtype, t->data, t->n, v->data, err);
}

bool wf_interp_reads(const wf_component *c, const wf_node *n, int32_t input) {
  const wf_weight_use *use = &c->uses[n->id];
  if (use->moe) return wf_moe_reads(n, input);
  return input == 0 || use->weight < 0;
}

static weft_status plan_graph(wf_component *c, const wf_graph *g, wf_graph_plan *p,
                              weft_error *err) {
  wf_view *constants = wf_arena_calloc(c->arena, g->values.n + 1, sizeof *constants);
  int32_t *uses = wf_arena_calloc(c->arena, g->values.n + 1, sizeof *uses);
  if (!constants || !uses) return wf_fail_memory(err, g->values.n * sizeof *constants, "a plan");
  for (size_t i = 0; i < g->order.n; i++) {
    const wf_node *n = g->nodes.at[g->order.at[i]];
    for (int32_t j = 0; j < n->n_inputs; j++) {
      if (n->inputs[j] >= 0 && (g != c->graph || wf_interp_reads(c, n, j))) uses[n->inputs[j]]++;
    }
    for (size_t j = 0; j < n->n_captures; j++) uses[n->captures[j]]++;
  }
  for (size_t i = 0; i < g->outputs.n; i++) uses[g->outputs.at[i]]++;
  for (size_t i = 0; i < g->values.n; i++) {
    const wf_value *v = g->values.at[i];
    if (v->tensor && uses[i] > 0)
      WF_RETURN_IF_ERROR(hold_constant(c, v->tensor, &constants[i], err));
  }
  *p = (wf_graph_plan){g, constants, uses};
  return WEFT_OK;
}

static size_t count_graphs(const wf_graph *g, int depth) {
  size_t n = 1;
  for (size_t i = 0; i < g->order.n && depth < WF_INTERP_MAX_DEPTH; i++) {
    const wf_node *node = g->nodes.at[g->order.at[i]];
    for (size_t j = 0; j < node->n_subgraphs; j++) n += count_graphs(node->subgraphs[j], depth + 1);
  }
  return n;
}

static weft_status plan_all(wf_component *c, const wf_graph *g, wf_interp_plan *p, int depth,
                            weft_error *err) {
  if (depth >= WF_INTERP_MAX_DEPTH) return wf_fail(err, WEFT_LIMIT, "", "graphs nested too deeply");
  WF_RETURN_IF_ERROR(plan_graph(c, g, &p->graphs[p->n++], err));
  for (size_t i = 0; i < g->order.n; i++) {
    const wf_node *node = g->nodes.at[g->order.at[i]];
    for (size_t j = 0; j < node->n_subgraphs; j++) {
      WF_RETURN_IF_ERROR(plan_all(c, node->subgraphs[j], p, depth + 1, err));
    }
  }
  return WEFT_OK;
}

weft_status wf_interp_compile(wf_component *c, weft_error *err) {
  wf_interp_plan *p = wf_arena_calloc(c->arena, 1, sizeof *p);
  if (!p) return wf_fail_memory(err, sizeof *p, "a plan");
  p->graphs = wf_arena_calloc(c->arena, count_graphs(c->graph, 0), sizeof *p->graphs);
  if (!p->graphs) return wf_fail_memory(err, sizeof *p->graphs, "a plan");
  c->interp = p;
  return plan_all(c, c->graph, p, 0, err);
}

const wf_graph_plan *wf_interp_find(const wf_component *c, const wf_graph *g) {
  for (size_t i = 0; i < c->interp->n; i++) {
    if (c->interp->graphs[i].graph == g) return &c->interp->graphs[i];
  }
  return NULL;
}
