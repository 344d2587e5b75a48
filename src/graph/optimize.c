/* SPDX-License-Identifier: Apache-2.0 */
/* The order of the passes, and the rounds until nothing changes. */
#include "graph/eval.h"
#include "graph/passes.h"

enum { MAX_ROUNDS = 12 };

static const pass_fn simplifications[] = {pass_fold, pass_branches, pass_identity, pass_share};
static const pass_fn fusions[] = {pass_offsets, pass_norm,     pass_activation,  pass_attention,
                                  pass_heads,   pass_longhand, pass_frequencies, pass_rotary,
                                  pass_integer, pass_linear};

static weft_status run(pass *p, const pass_fn *passes, size_t n) {
  for (size_t i = 0; i < n; i++) {
    WF_RETURN_IF_ERROR(passes[i](p));
    WF_RETURN_IF_ERROR(graph_sort(p->g, p->err));
    WF_RETURN_IF_ERROR(graph_infer(p->g, p->err));
  }
  return WEFT_OK;
}

static weft_status to_fixed_point(pass *p, const pass_fn *passes, size_t n) {
  for (int round = 0; round < MAX_ROUNDS; round++) {
    p->changed = false;
    WF_RETURN_IF_ERROR(run(p, passes, n));
    if (!p->changed) break;
  }
  return WEFT_OK;
}

weft_status wf_graph_optimize(wf_graph *g, const wf_pass_options *o, weft_error *err) {
  pass p = {.g = g, .o = o, .err = err};
  for (int round = 0; round < MAX_ROUNDS; round++) {
    WF_RETURN_IF_ERROR(to_fixed_point(&p, simplifications, WF_ARRAY_LEN(simplifications)));
    p.changed = false;
    WF_RETURN_IF_ERROR(run(&p, fusions, WF_ARRAY_LEN(fusions)));
    if (!p.changed) break;
  }
  return WEFT_OK;
}

weft_status wf_graph_fix_input(wf_graph *g, wf_str name, int64_t number, weft_error *err) {
  for (size_t i = 0; i < g->inputs.n; i++) {
    const wf_value *v = g->values.at[g->inputs.at[i]];
    if (!wf_str_eq(v->name, name)) continue;
    const int64_t one = 1;
    int64_t d = 1;
    const bool holds = v->dtype == WF_DTYPE_BOOL || wf_dtype_is_int(v->dtype);
    bool fits = v->rank >= 0 && v->rank <= 1 && holds;
    if (fits && v->rank == 1 && wf_expr_is_const(g->exprs, v->dims[0], &d)) fits = d == 1;
    wf_tensor *t = fits ? eval_new_tensor(g->arena, v->dtype, v->rank, &one) : NULL;
    if (fits && !t) return graph_no_memory(err);
    if (!fits || !eval_store_i64(t, 0, number)) {
      return wf_fail(err, WEFT_UNSUPPORTED, "export the model without this input",
                     "the input '%.*s' should be one integer", (int)name.n, name.at);
    }
    const wf_value *made = graph_new_const(g, v->name, t);
    if (!made || !graph_replace(g, v->id, made->id)) return graph_no_memory(err);
    g->inputs.n--;
    for (size_t k = i; k < g->inputs.n; k++) g->inputs.at[k] = g->inputs.at[k + 1];
    return graph_infer(g, err);
  }
  return WEFT_OK;
}

weft_status wf_graph_bind(wf_graph *g, wf_str symbol, wf_expr by, weft_error *err) {
  const wf_expr s = wf_expr_symbol(g->exprs, symbol);
  if (s < 0) return graph_no_memory(err);
  for (size_t i = 0; i < g->values.n; i++) {
    wf_value *v = g->values.at[i];
    bool has = false;
    wf_expr list[GRAPH_MAX_CONTENT];
    for (int32_t k = 0; k < v->rank; k++) {
      list[k] = wf_expr_replace(g->exprs, v->dims[k], s, by);
      has |= list[k] != v->dims[k];
    }
    if (has && !graph_set_dims(g, v, v->rank, list)) return graph_no_memory(err);
    has = false;
    for (int32_t k = 0; k < v->n_content; k++) {
      list[k] = wf_expr_replace(g->exprs, v->content[k], s, by);
      has |= list[k] != v->content[k];
    }
    if (has && !graph_set_content(g, v, v->n_content, list)) return graph_no_memory(err);
  }
  for (size_t i = 0; i < g->nodes.n; i++) {
    for (size_t k = 0; k < g->nodes.at[i]->n_subgraphs; k++) {
      WF_RETURN_IF_ERROR(wf_graph_bind(g->nodes.at[i]->subgraphs[k], symbol, by, err));
    }
  }
  return g->parent ? WEFT_OK : graph_infer(g, err);
}
