/* SPDX-License-Identifier: Apache-2.0 */
/* The packed form: one axis of all new tokens of all rows.
 *
 * Works on a copy of the graph, so that a graph that can't be packed stays as it was:
 *   1. batch becomes 1, the sequence becomes the symbol "tokens"; states leave the graph, because
 *      WEFT_ATTENTION names them by layer; outputs other than the logits go.
 *   2. flow.c follows the token axis through every node and proves that nothing but attention mixes
 *      tokens; on the way it lifts "the last token only" into the request.
 *   3. shapes that the graph computed become constants with one open dimension.
 *   4. SELECT_TOKENS goes before everything behind the last attention. */
#include <stdio.h>
#include <string.h>

#include "graph/flow.h"

typedef struct packer {
  wf_graph *g;
  const wf_ports *ports;
  wf_packed *result;
  flow f;
  weft_error *err;
} packer;

static bool refuse(packer *k, const char *why) {
  (void)snprintf(k->result->why, sizeof k->result->why, "%s", why);
  return false;
}

/* ---- step 1 ------------------------------------------------------------------------------ */

static bool find_ports(packer *k, wf_expr *batch, wf_expr *seq) {
  const wf_graph *g = k->g;
  wf_packed *r = k->result;
  r->input_ids = k->ports->input_ids.n ? wf_graph_find(g, k->ports->input_ids) : -1;
  r->inputs_embeds = k->ports->inputs_embeds.n ? wf_graph_find(g, k->ports->inputs_embeds) : -1;
  r->positions = k->ports->position_ids.n ? wf_graph_find(g, k->ports->position_ids) : -1;
  r->logits = k->ports->logits.n ? wf_graph_find(g, k->ports->logits) : -1;
  const wf_value *in = graph_value(g, r->input_ids >= 0 ? r->input_ids : r->inputs_embeds);
  const wf_value *out = graph_value(g, r->logits);
  if (!in || in->rank < 2) return refuse(k, "the graph has no [batch, sequence] input of tokens");
  if (!out || !out->is_output) return refuse(k, "the graph has no output for the logits");
  *batch = in->dims[0];
  *seq = in->dims[1];
  int64_t v;
  if (wf_expr_symbol_name(g->exprs, *seq).n == 0)
    return refuse(k, "the number of tokens is fixed by the graph");
  if (wf_expr_symbol_name(g->exprs, *batch).n == 0 &&
      !(wf_expr_is_const(g->exprs, *batch, &v) && v == 1)) {
    return refuse(k, "the batch size is fixed by the graph");
  }
  return true;
}

static weft_status drop_states(packer *k) {
  wf_graph *g = k->g;
  for (size_t i = 0; i < g->order.n; i++) {
    wf_node *n = g->nodes.at[g->order.at[i]];
    if (n->op != WF_OP_WEFT_ATTENTION) continue;
    for (int32_t j = 6; j < n->n_inputs; j++) {
      if (!graph_set_input(g, n, j, -1)) return graph_no_memory(k->err);
    }
    int32_t *outputs = wf_unconst(n->outputs); /* the graph's own list */
    for (int32_t j = 1; j < n->n_outputs; j++) {
      if (outputs[j] >= 0) g->values.at[outputs[j]]->producer = -1;
      outputs[j] = -1;
    }
  }
  for (size_t i = 0; i < g->outputs.n; i++) g->values.at[g->outputs.at[i]]->is_output = false;
  g->outputs.n = 1;
  g->outputs.at[0] = k->result->logits;
  g->values.at[k->result->logits]->is_output = true;
  return graph_sort(g, k->err);
}

/* ---- step 3 ------------------------------------------------------------------------------ */

/* Reshape and Expand get their target as a constant: -1 (or 1) where the token axis is. */
static weft_status fix_targets(packer *k, bool *ok) {
  wf_graph *g = k->g;
  for (size_t i = 0; i < g->order.n; i++) {
    wf_node *n = g->nodes.at[g->order.at[i]];
    int64_t target[GRAPH_MAX_CONTENT];
    if (n->op != WF_OP_RESHAPE && n->op != WF_OP_EXPAND) continue;
    const int32_t shape = wf_node_input(n, 1); /* the oldest Reshape has it as an attribute */
    if (shape < 0 || is_const(g, shape)) continue;
    const wf_value *s = g->values.at[shape], *y = g->values.at[n->outputs[0]];
    int32_t open = 0;
    for (int32_t j = 0; j < y->rank; j++) {
      if (wf_expr_is_const(g->exprs, y->dims[j], &target[j])) continue;
      target[j] = n->op == WF_OP_RESHAPE ? -1 : 1;
      open++;
    }
    if (s->n_content < 0 || y->rank < 0 || open > 1) {
      *ok = flow_refuse(&k->f, n, "its target shape depends on the tokens");
      return WEFT_OK;
    }
    const wf_value *fixed = graph_const_i64(g, target, y->rank, 1);
    if (!fixed || !graph_set_input(g, n, 1, fixed->id)) return graph_no_memory(k->err);
  }
  return WEFT_OK;
}

/* ---- step 4 ------------------------------------------------------------------------------ */

static weft_status select_value(packer *k, int32_t value, int32_t *selected) {
  wf_graph *g = k->g;
  const flow_value *f = &k->f.values[value];
  const int32_t in[2] = {value, k->result->select};
  wf_node *n = graph_new_node(g, WF_OP_WEFT_SELECT_TOKENS, 2, in, 1, NULL);
  if (!n || !graph_set_attr_i(g, n, "axis", f->axis) || !graph_set_attr_i(g, n, "inner", f->inner))
    return graph_no_memory(k->err);
  WF_RETURN_IF_ERROR(graph_infer_node(g, n, k->err));
  *selected = n->outputs[0];
  return WEFT_OK;
}

static bool is_token_value(const packer *k, int32_t value) {
  return value >= 0 && (size_t)value < k->f.n && k->f.values[value].kind == FLOW_TOKENS;
}

/* Every token value that enters the tail (what comes after the last attention) is cut to the rows
 * asked for. */
static weft_status select_tokens(packer *k) {
  wf_graph *g = k->g;
  weft_status st = WEFT_OK;
  const size_t n_nodes = g->nodes.n, n_values = g->values.n;
  bool *is_tail = wf_zalloc(n_nodes + 1);
  int32_t *cut = wf_alloc((n_values + 1) * sizeof *cut);
  if (!is_tail || !cut) WF_TRY(graph_no_memory(k->err));
  for (size_t i = 0; i < n_values; i++) cut[i] = -1;
  size_t last = SIZE_MAX;
  for (size_t i = 0; i < g->order.n; i++) {
    if (g->nodes.at[g->order.at[i]]->op == WF_OP_WEFT_ATTENTION) last = i;
  }
  const int32_t root = last == SIZE_MAX ? -1 : g->order.at[last];
  for (size_t i = last == SIZE_MAX ? 0 : last + 1; i < g->order.n; i++) {
    wf_node *n = g->nodes.at[g->order.at[i]];
    for (int32_t j = 0; j < n->n_inputs; j++) {
      const int32_t v = n->inputs[j];
      const int32_t producer = v < 0 ? -1 : g->values.at[v]->producer;
      if (root < 0 ? is_token_value(k, v)
                   : producer >= 0 && (producer == root || is_tail[producer]))
        is_tail[n->id] = true;
    }
  }
  const size_t n_order = g->order.n;
  for (size_t i = 0; i < n_order; i++) {
    wf_node *n = g->nodes.at[g->order.at[i]];
    if (!is_tail[n->id]) continue;
    for (int32_t j = 0; j < n->n_inputs; j++) {
      const int32_t v = n->inputs[j];
      const int32_t producer = v < 0 ? -1 : g->values.at[v]->producer;
      if (!is_token_value(k, v) || (producer >= 0 && is_tail[producer])) continue;
      if (cut[v] < 0) WF_TRY(select_value(k, v, &cut[v]));
      if (!graph_set_input(g, n, j, cut[v])) WF_TRY(graph_no_memory(k->err));
    }
  }
out:
  wf_free(is_tail);
  wf_free(cut);
  return st;
}

static weft_status add_select_input(packer *k) {
  wf_graph *g = k->g;
  wf_value *v = graph_new_value(g, WF_STR("selected"), WF_DTYPE_I64);
  if (!v || !graph_set_dims(g, v, 1, &k->result->selected)) return graph_no_memory(k->err);
  v->is_input = true;
  k->result->select = v->id;
  return wf_vec_push(&g->inputs, v->id) ? WEFT_OK : graph_no_memory(k->err);
}

/* ---- ports of the result ----------------------------------------------------------------- */

static weft_status describe_states(packer *k, bool *ok) {
  wf_graph *g = k->g;
  wf_packed *r = k->result;
  size_t n_states = k->ports->n_states;
  for (size_t i = 0; i < g->order.n && !k->ports->n_states; i++) { /* made by the passes */
    n_states += g->nodes.at[g->order.at[i]]->op == WF_OP_WEFT_ATTENTION;
  }
  wf_packed_state *states = wf_arena_calloc(g->arena, n_states + 1, sizeof *states);
  bool *is_seen = wf_arena_calloc(g->arena, n_states + 1, sizeof *is_seen);
  if (!states || !is_seen) return graph_no_memory(k->err);
  for (size_t i = 0; i < g->order.n; i++) {
    const wf_node *n = g->nodes.at[g->order.at[i]];
    if (n->op != WF_OP_WEFT_ATTENTION) continue;
    const wf_attention_params *a = &n->as.attention;
    if (a->layer < 0 || (size_t)a->layer >= n_states || is_seen[a->layer]) {
      *ok = flow_refuse(&k->f, n, "two nodes extend the same state");
      return WEFT_OK;
    }
    is_seen[a->layer] = true;
    const int32_t past =
        k->ports->n_states ? wf_graph_find(g, k->ports->states[a->layer].past_key) : -1;
    states[a->layer] =
        (wf_packed_state){a->n_kv_heads, a->head_dim, a->head_dim_v,
                          past >= 0 ? g->values.at[past]->dtype : WF_DTYPE_F32, a->window};
  }
  for (size_t i = 0; i < n_states; i++) {
    if (is_seen[i]) continue;
    *ok =
        refuse(k, "not every state of the package is extended by an attention that was recognised");
    return WEFT_OK;
  }
  r->n_states = n_states;
  r->states = states;
  return WEFT_OK;
}

/* Inputs that nothing reads any more leave the list; what is left must be the packed ports. */
static bool close_inputs(packer *k) {
  wf_graph *g = k->g;
  wf_packed *r = k->result;
  size_t n = 0;
  for (size_t i = 0; i < g->inputs.n; i++) {
    const wf_value *v = g->values.at[g->inputs.at[i]];
    if (v->n_users == 0) {
      if (v->id == r->positions) r->positions = -1;
      continue;
    }
    if (v->id != r->input_ids && v->id != r->inputs_embeds && v->id != r->positions &&
        v->id != r->select) {
      (void)snprintf(r->why, sizeof r->why, "input '%.*s' is read by more than masks and attention",
                     (int)(v->name.n < 80 ? v->name.n : 80), v->name.at);
      return false;
    }
    g->inputs.at[n++] = v->id;
  }
  g->inputs.n = n;
  return true;
}

static weft_status bind_symbols(packer *k, wf_expr batch, wf_expr seq) {
  wf_graph *g = k->g;
  const wf_str b = wf_expr_symbol_name(g->exprs, batch);
  if (b.n) WF_RETURN_IF_ERROR(wf_graph_bind(g, b, wf_expr_const(g->exprs, 1), k->err));
  return wf_graph_bind(g, wf_expr_symbol_name(g->exprs, seq), k->result->tokens, k->err);
}

/* With a batch of one, expansions over the batch change nothing any more. */
static weft_status simplify(packer *k) {
  pass p = {.g = k->g, .err = k->err};
  for (int round = 0; round < 4; round++) {
    p.changed = false;
    WF_RETURN_IF_ERROR(pass_fold(&p));
    WF_RETURN_IF_ERROR(pass_identity(&p));
    WF_RETURN_IF_ERROR(graph_sort(k->g, k->err));
    WF_RETURN_IF_ERROR(graph_infer(k->g, k->err));
    if (!p.changed) break;
  }
  return WEFT_OK;
}

static weft_status pack_copy(packer *k, bool *ok) {
  wf_graph *g = k->g;
  wf_expr batch, seq;
  *ok = find_ports(k, &batch, &seq);
  if (!*ok) return WEFT_OK;
  WF_RETURN_IF_ERROR(drop_states(k));
  WF_RETURN_IF_ERROR(graph_lift_positions(g, k->ports, k->result, batch, seq, k->err));
  WF_RETURN_IF_ERROR(bind_symbols(k, batch, seq));
  WF_RETURN_IF_ERROR(simplify(k));
  WF_RETURN_IF_ERROR(flow_run(&k->f, ok));
  if (!*ok) return WEFT_OK;
  WF_RETURN_IF_ERROR(fix_targets(k, ok));
  if (!*ok) return WEFT_OK;
  WF_RETURN_IF_ERROR(add_select_input(k));
  WF_RETURN_IF_ERROR(select_tokens(k));
  WF_RETURN_IF_ERROR(graph_sort(g, k->err));
  WF_RETURN_IF_ERROR(graph_infer(g, k->err));
  WF_RETURN_IF_ERROR(describe_states(k, ok));
  if (!*ok) return WEFT_OK;
  k->result->logits = g->outputs.at[0];
  *ok = close_inputs(k);
  return WEFT_OK;
}

static weft_status pack_or_refuse(packer *k, bool *ok) {
  weft_status st = pack_copy(k, ok);
  if (st == WEFT_OUT_OF_MEMORY || st == WEFT_OK) return st;
  /* Shapes that only contradict each other in the packed form are a reason, not an error. */
  (void)snprintf(k->result->why, sizeof k->result->why, "%.250s",
                 k->err ? k->err->what : "shapes do not fit");
  *ok = false;
  return WEFT_OK;
}

weft_status wf_graph_pack(wf_graph *g, const wf_ports *ports, wf_packed *result, weft_error *err) {
  weft_status st = WEFT_OK;
  weft_error local = {0};
  *result = (wf_packed){
      .input_ids = -1, .inputs_embeds = -1, .positions = -1, .select = -1, .logits = -1};
  result->tokens = wf_expr_symbol(g->exprs, WF_STR("tokens"));
  result->selected = wf_expr_symbol(g->exprs, WF_STR("selected"));
  packer k = {.ports = ports, .result = result, .err = &local};
  bool ok = false;
  if (result->tokens < 0 || result->selected < 0) WF_TRY(graph_no_memory(err));
  k.g = graph_clone(g);
  if (!k.g) WF_TRY(graph_no_memory(err));
  k.f = (flow){.g = k.g, .ports = ports, .packed = result, .err = &local};
  WF_TRY(pack_or_refuse(&k, &ok));
  if (ok) {
    graph_swap(g, k.g);
    result->is_packed = true;
    result->why[0] = '\0';
  }
out:
  if (st != WEFT_OK && err && err->status == WEFT_OK) wf_error_pass_on(err, &local);
  if (k.g) graph_free_own_lists(k.g);
  flow_deinit(&k.f);
  return st;
}
