/* SPDX-License-Identifier: Apache-2.0 */
/* From the packed graph to steps: slots, barriers, the walk over the nodes. The nodes themselves
 * are in lower_nodes.c. */
#include "backend/native/lower.h"

#include <string.h>

/* ---- slots and barriers ---------------------------------------------------------------------- */

int32_t wf_lower_slot(wf_lowering *l, wf_axis axis, int64_t width, uint32_t elem) {
  const wf_slot s = {.axis = axis, .width = width, .elem = elem, .first = -1, .last = -1};
  const wf_touches t = {{{.epoch = -1}, {.epoch = -1}}};
  if (l->slots.n >= INT32_MAX || !wf_vec_reserve(&l->slots, 1) || !wf_vec_push(&l->touches, t)) {
    return -1;
  }
  l->slots.at[l->slots.n++] = s;
  return (int32_t)l->slots.n - 1;
}

/* Who works on which part: steps of one class may follow each other without a barrier, since each
 * member only sees its own earlier results. 0: any part may come from any member. */
static uint8_t class_of(const wf_step *s) {
  if (s->split == WF_SPLIT_ONE) return 1;
  if (s->split == WF_SPLIT_ROWS) return s->axis == WF_AXIS_SELECTED ? 2 : 4;
  return 8;
}

static bool conflicts(uint8_t touched, uint8_t own) {
  return (touched & (uint8_t)~own) != 0 || (touched & 8) != 0;
}

static wf_touch *touch_of(wf_lowering *l, int32_t slot, int size) {
  wf_touch *t = &l->touches.at[slot].of[size];
  if (t->epoch != l->epoch[size]) *t = (wf_touch){.epoch = l->epoch[size]};
  return t;
}

/* Slots a step reads (i < n_reads) and then writes, in one list. */
typedef struct slot_list {
  int32_t n_reads, n;
  int32_t at[WF_LOWER_MAX_OPERANDS];
} slot_list;

static bool list_slots(const wf_step *s, slot_list *list) {
  const bool is_generic = s->fn == wf_step_generic;
  const int32_t n_in = is_generic ? s->as.generic.n_in : s->n_in;
  const int32_t n_out = is_generic ? s->as.generic.n_out : s->n_out;
  *list = (slot_list){0};
  if (n_in + n_out > WF_LOWER_MAX_OPERANDS) return false;
  for (int32_t i = 0; i < n_in; i++) {
    const int32_t slot = is_generic ? s->as.generic.in[i].slot : s->in[i].slot;
    if (slot >= 0) list->at[list->n++] = slot;
  }
  list->n_reads = list->n;
  for (int32_t i = 0; i < n_out; i++) {
    const int32_t slot = is_generic ? s->as.generic.out[i].slot : s->out[i].slot;
    if (slot >= 0) list->at[list->n++] = slot;
  }
  return true;
}

static bool needs_barrier(wf_lowering *l, const wf_step *s, const slot_list *list, int size) {
  const uint8_t own = class_of(s);
  /* The cache is no slot: what the append wrote is waited for here. */
  if (s->fn == wf_step_attention) return true;
  bool needs = s->gathers && size == WF_RUN_LARGE; /* in a small run each has made all */
  for (int32_t i = 0; i < list->n; i++) {
    const wf_touch *t = touch_of(l, list->at[i], size);
    const bool is_read = i < list->n_reads;
    if (size == WF_RUN_SMALL && l->slots.at[list->at[i]].is_private) continue;
    needs |= conflicts(is_read ? t->written : (uint8_t)(t->written | t->read), own);
  }
  return needs;
}

weft_status wf_lower_emit(wf_lowering *l, wf_step *s, weft_error *err) {
  const uint8_t own = class_of(s);
  slot_list list;
  s->node = l->node;
  if (!list_slots(s, &list)) {
    return wf_fail(err, WEFT_UNSUPPORTED, "", "a node with more than %d operands",
                   (int)WF_LOWER_MAX_OPERANDS);
  }
  for (int32_t i = list.n_reads; i < list.n; i++) {
    if (s->split == WF_SPLIT_ROWS) l->slots.at[list.at[i]].is_private = true;
  }
  const bool is_first = l->steps.n == 0;
  s->barrier_before = !is_first && needs_barrier(l, s, &list, WF_RUN_LARGE);
  s->barrier_small = !is_first && needs_barrier(l, s, &list, WF_RUN_SMALL);
  s->barrier_before |= s->barrier_small;
  if (s->barrier_before) l->epoch[WF_RUN_LARGE]++;
  if (s->barrier_small) l->epoch[WF_RUN_SMALL]++;
  for (int32_t i = 0; i < list.n; i++) {
    for (int size = 0; size < WF_RUN_SIZES; size++) {
      wf_touch *t = touch_of(l, list.at[i], size);
      *(i < list.n_reads ? &t->read : &t->written) |= own;
    }
    /* Lives are counted by the barriers that every run has. */
    wf_slot *slot = &l->slots.at[list.at[i]];
    if (i >= list.n_reads && slot->first < 0) slot->first = l->epoch[WF_RUN_SMALL];
    slot->last = l->epoch[WF_RUN_SMALL];
  }
  if (!wf_vec_push(&l->steps, *s)) return wf_fail_memory(err, sizeof *s, "the list of steps");
  return WEFT_OK;
}

bool wf_lower_pack_too(wf_lowering *l, const wf_place *x, int32_t slot) {
  wf_step *s = l->steps.n ? &l->steps.at[l->steps.n - 1] : NULL;
  if (!s || (s->fn != wf_step_norm && s->fn != wf_step_glu) || s->packs || s->axis != x->axis ||
      s->out[0].slot != x->loc.slot || s->out[0].column != x->loc.column) {
    return false;
  }
  for (int32_t i = s->n_out; i < 2; i++) s->out[i] = (wf_loc){-1, 0};
  s->packs = true;
  s->n_out = 3;
  s->out[2] = (wf_loc){slot, 0};
  /* Nobody has touched the slot yet, so the step needs no other barrier than it has. */
  for (int size = 0; size < WF_RUN_SIZES; size++) touch_of(l, slot, size)->written |= class_of(s);
  l->slots.at[slot].is_private = true;
  l->slots.at[slot].first = l->slots.at[slot].last = l->epoch[WF_RUN_SMALL];
  return true;
}

/* ---- places ---------------------------------------------------------------------------------- */

bool wf_lower_rows(wf_lowering *l, int32_t value, wf_axis *axis, int64_t *width) {
  const wf_value *v = wf_graph_value(l->g, value);
  if (!v || v->rank < 1 || v->tensor) return false;
  const wf_expr symbols[2] = {l->c->packed.tokens, l->c->packed.selected};
  for (int a = 0; a < 2; a++) {
    int32_t i = 0;
    int64_t one = 0, per = 1;
    while (i < v->rank && wf_expr_is_const(l->g->exprs, v->dims[i], &one) && one == 1) i++;
    if (i == v->rank || v->dims[i] < 0) return false;
    const wf_expr quotient = wf_expr_exact_div(l->g->exprs, v->dims[i], symbols[a]);
    bool ok = quotient >= 0 && wf_expr_is_const(l->g->exprs, quotient, &per) && per > 0;
    for (int32_t j = i + 1; ok && j < v->rank; j++) {
      int64_t d = 0;
      ok = wf_expr_is_const(l->g->exprs, v->dims[j], &d) && d > 0 && d <= INT32_MAX &&
           per <= INT32_MAX;
      per *= d;
    }
    if (!ok) continue;
    *axis = a == 0 ? WF_AXIS_TOKENS : WF_AXIS_SELECTED;
    *width = per;
    return true;
  }
  return false;
}

bool wf_lower_find(const wf_lowering *l, int32_t value, wf_place *place) {
  if (value < 0 || !l->places[value].is_set || !l->places[value].is_rows) return false;
  const wf_value *v = wf_graph_value(l->g, value);
  if (wf_dtype_held(v->dtype) != WF_DTYPE_F32) return false;
  *place = l->places[value];
  return true;
}

void wf_lower_set(wf_lowering *l, int32_t value, const wf_place *place) {
  if (value >= 0) l->places[value] = *place;
}

weft_status wf_lower_place(wf_lowering *l, int32_t value, wf_axis axis, int64_t width,
                           wf_place *place, weft_error *err) {
  const int32_t slot = wf_lower_slot(l, axis, width, sizeof(float));
  if (slot < 0) return wf_fail_memory(err, sizeof(wf_slot), "the list of slots");
  *place = (wf_place){true, true, {slot, 0}, axis, width};
  wf_lower_set(l, value, place);
  return WEFT_OK;
}

/* ---- the walk ----------------------------------------------------------------------------------
 */

static wf_lower_fn *rule_of(const wf_node *n) {
  switch ((int)n->op) {
    case WF_OP_MS_MATMUL_NBITS:
    case WF_OP_MS_MATMUL_BNB4:
    case WF_OP_WEFT_LINEAR:
    case WF_OP_MATMUL:
    case WF_OP_GEMM:
    case WF_OP_MS_FUSED_MATMUL:
      return wf_lower_linear;
    case WF_OP_MS_MOE:
    case WF_OP_MS_QMOE:
      return wf_lower_moe;
    case WF_OP_WEFT_NORM:
      return wf_lower_norm;
    case WF_OP_WEFT_ATTENTION:
      return wf_lower_attention;
    case WF_OP_WEFT_ROTARY:
      return wf_lower_rotary;
    case WF_OP_GATHER:
    case WF_OP_MS_GATHER_BLOCK_QUANTIZED:
      return wf_lower_gather;
    case WF_OP_WEFT_GLU:
      return wf_lower_glu;
    case WF_OP_WEFT_UNARY:
    case WF_OP_SIGMOID:
    case WF_OP_TANH:
    case WF_OP_RELU:
    case WF_OP_EXP:
    case WF_OP_NEG:
    case WF_OP_SQRT:
      return wf_lower_unary;
    case WF_OP_ADD:
    case WF_OP_SUB:
    case WF_OP_MUL:
    case WF_OP_DIV:
      return wf_lower_binary;
    case WF_OP_WEFT_SELECT_TOKENS:
      return wf_lower_select;
    case WF_OP_SPLIT:
      return wf_lower_split;
    case WF_OP_SLICE:
      return wf_lower_slice;
    case WF_OP_RESHAPE:
    case WF_OP_SQUEEZE:
    case WF_OP_UNSQUEEZE:
    case WF_OP_FLATTEN:
    case WF_OP_IDENTITY:
    case WF_OP_DROPOUT:
    case WF_OP_CAST:
      return wf_lower_alias;
    default:
      return NULL;
  }
}

/* Values that the run fills in before any step: their slots are alive from the first epoch. */
static weft_status place_port(wf_lowering *l, int32_t value, wf_axis axis, int32_t *slot,
                              weft_error *err) {
  *slot = -1;
  if (value < 0) return WEFT_OK;
  const wf_value *v = wf_graph_value(l->g, value);
  const wf_dtype held = wf_dtype_held(v->dtype);
  int64_t width = 1;
  wf_axis found = axis;
  if (held == WF_DTYPE_F32 && !wf_lower_rows(l, value, &found, &width)) {
    return wf_fail(err, WEFT_UNSUPPORTED, "give the hidden size of the embeddings in the graph",
                   "the input '%.*s' has no fixed width", (int)v->name.n, v->name.at);
  }
  *slot = wf_lower_slot(l, axis, width, (uint32_t)wf_held_bytes(held));
  if (*slot < 0) return wf_fail_memory(err, sizeof(wf_slot), "the list of slots");
  l->slots.at[*slot].first = 0;
  l->places[value] = (wf_place){true, held == WF_DTYPE_F32, {*slot, 0}, axis, width};
  return WEFT_OK;
}

/* The callers' buffers have the port's width: what is computed must have it too. */
weft_status wf_lower_vocab(wf_lowering *l, int64_t width, weft_error *err) {
  wf_component_info *info = &l->c->info;
  if (info->vocab == 0) info->vocab = width;
  if (info->vocab == width) return WEFT_OK;
  return wf_fail(err, WEFT_PACKAGE_INVALID, "export the model again",
                 "the logits are declared %lld wide, but %lld are computed", (long long)info->vocab,
                 (long long)width);
}

static weft_status finish_logits(wf_lowering *l, weft_error *err) {
  wf_component *c = l->c;
  const int32_t value = c->packed.logits;
  if (value < 0 || l->head_done) return WEFT_OK;
  wf_place p;
  if (!wf_lower_find(l, value, &p) || p.axis != WF_AXIS_SELECTED) {
    return wf_fail(err, WEFT_UNSUPPORTED, "",
                   "the logits of the packed graph are not one row a token");
  }
  WF_RETURN_IF_ERROR(wf_lower_vocab(l, p.width, err));
  wf_step s = {.fn = wf_step_store_logits,
               .split = WF_SPLIT_ROWS,
               .axis = WF_AXIS_SELECTED,
               .n_in = 1,
               .in = {p.loc},
               .width = p.width};
  return wf_lower_emit(l, &s, err);
}

static weft_status keep(wf_lowering *l, weft_error *err) {
  wf_component *c = l->c;
  wf_step *steps = wf_arena_calloc(c->arena, l->steps.n ? l->steps.n : 1, sizeof *steps);
  wf_slot *slots = wf_arena_calloc(c->arena, l->slots.n ? l->slots.n : 1, sizeof *slots);
  if (!steps || !slots) return wf_fail_memory(err, l->steps.n * sizeof *steps, "the program");
  if (l->steps.n) memcpy(steps, l->steps.at, l->steps.n * sizeof *steps);
  if (l->slots.n) memcpy(slots, l->slots.at, l->slots.n * sizeof *slots);
  c->steps = steps;
  c->n_steps = l->steps.n;
  c->slots = slots;
  c->n_slots = l->slots.n;
  return WEFT_OK;
}

/* A turned or reshaped constant (a tied head seen as the embedding table): those who read weights
 * look through it, so it becomes a step only when somebody else asks for it (wf_lower_generic). */
static bool is_view_of_constant(const wf_graph *g, const wf_node *n) {
  const wf_value *v = wf_graph_value(g, wf_node_output(n, 0));
  bool is_transposed = false;
  return v && !v->is_output && n->n_outputs == 1 &&
         wf_const_of(g, wf_node_output(n, 0), &is_transposed) != NULL;
}

weft_status wf_lower(wf_component *c, const wf_weight_use *uses, weft_error *err) {
  wf_lowering l = {.c = c, .g = c->graph, .uses = uses};
  weft_status st = WEFT_OK;
  l.places = wf_calloc(c->graph->values.n + 1, sizeof *l.places);
  l.merged_slots = wf_calloc(c->n_weights + 1, sizeof *l.merged_slots);
  if (!l.places || !l.merged_slots) {
    st = wf_fail_memory(err, c->graph->values.n * sizeof *l.places, "lowering the graph");
    goto out;
  }
  for (size_t i = 0; i < c->n_weights; i++) l.merged_slots[i] = -1;
  WF_TRY(place_port(&l, c->packed.input_ids, WF_AXIS_TOKENS, &c->ids_slot, err));
  WF_TRY(place_port(&l, c->packed.inputs_embeds, WF_AXIS_TOKENS, &c->embeds_slot, err));
  WF_TRY(place_port(&l, c->packed.positions, WF_AXIS_TOKENS, &c->positions_slot, err));
  WF_TRY(place_port(&l, c->packed.select, WF_AXIS_SELECTED, &c->select_slot, err));
  for (size_t i = 0; i < c->graph->order.n; i++) {
    const wf_node *n = c->graph->nodes.at[c->graph->order.at[i]];
    if (is_view_of_constant(c->graph, n)) continue;
    l.node = n;
    wf_lower_fn *rule = rule_of(n);
    bool is_done = false;
    if (rule) WF_TRY(rule(&l, n, &is_done, err));
    if (!is_done) WF_TRY(wf_lower_generic(&l, n, err));
  }
  l.node = NULL;
  WF_TRY(finish_logits(&l, err));
  WF_TRY(keep(&l, err));
out:
  wf_free(l.places);
  wf_free(l.merged_slots);
  wf_vec_free(&l.steps);
  wf_vec_free(&l.slots);
  wf_vec_free(&l.touches);
  wf_vec_free(&l.acts);
  return st;
}
