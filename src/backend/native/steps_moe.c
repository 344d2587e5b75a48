/* SPDX-License-Identifier: Apache-2.0 */
/* A mixture of experts as steps of a packed program: lowering it, and what each member does. */
#include "backend/native/lower.h"
#include "backend/native/moe.h"
#include "backend/native/step_util.h"

/* ---- lowering ------------------------------------------------------------------------------- */

/* The operands of a node's steps, in the order in which each step names them. */
typedef struct slots {
  wf_loc plan, act_x, act1, up, up3, mid, act2, y;
} slots;

static bool make_slot(wf_lowering *l, wf_axis axis, int64_t width, uint32_t elem, wf_loc *loc) {
  *loc = (wf_loc){wf_lower_slot(l, axis, width, elem), 0};
  return loc->slot >= 0;
}

static bool make_slots(wf_lowering *l, const wf_moe_form *f, const wf_weight *w, wf_axis axis,
                       slots *s) {
  const int64_t k = f->k;
  s->up3 = (wf_loc){-1, 0};
  return make_slot(l, axis, wf_moe_plan_ints(f, 1), sizeof(int32_t), &s->plan) &&
         make_slot(l, axis, k * (int64_t)wf_moe_act_bytes(f, w, 0), 1, &s->act1) &&
         make_slot(l, axis, k * f->fc1_n, sizeof(float), &s->up) &&
         (!f->has_fc3 || make_slot(l, axis, k * f->inter, sizeof(float), &s->up3)) &&
         make_slot(l, axis, k * f->inter, sizeof(float), &s->mid) &&
         make_slot(l, axis, k * (int64_t)wf_moe_act_bytes(f, w, 1), 1, &s->act2) &&
         make_slot(l, axis, k * f->hidden, sizeof(float), &s->y);
}

weft_status wf_lower_moe(wf_lowering *l, const wf_node *n, bool *is_done, weft_error *err) {
  const wf_weight_use use = l->uses[n->id];
  const wf_moe_form *f = use.moe;
  wf_place x, router, shares = {.loc = {-1, 0}}, out;
  wf_axis axis;
  int64_t width = 0;
  slots s;
  if (!f) return wf_moe_refuse(n, err, WEFT_UNSUPPORTED, "its weights are no constants");
  const wf_weight *w = &l->c->weights[use.weight];
  if (!wf_lower_find(l, wf_node_input(n, 0), &x) ||
      !wf_lower_find(l, wf_node_input(n, 1), &router) ||
      !wf_lower_rows(l, wf_node_output(n, 0), &axis, &width) || axis != x.axis ||
      axis != router.axis || x.width != f->hidden || width != f->hidden ||
      router.width != f->n_experts ||
      (f->shares >= 0 && (!wf_lower_find(l, wf_node_input(n, f->shares), &shares) ||
                          shares.axis != axis || shares.width != f->n_experts))) {
    return wf_moe_refuse(n, err, WEFT_UNSUPPORTED, "its rows are not one a token");
  }
  *is_done = true;
  WF_RETURN_IF_ERROR(wf_lower_act(l, &x, &w->packed.act, &s.act_x.slot, err));
  s.act_x.column = 0;
  if (!make_slots(l, f, w, axis, &s)) return wf_fail_memory(err, sizeof(wf_slot), "slots");
  WF_RETURN_IF_ERROR(wf_lower_place(l, wf_node_output(n, 0), axis, width, &out, err));
  const wf_split rows = WF_SPLIT_ROWS, columns = WF_SPLIT_COLS;
  const struct {
    wf_step_fn *fn;
    wf_split split;
    bool gathers;
    int32_t n_in, n_out;
    wf_loc in[3], out[3];
  } all[] = {
      {wf_step_moe_route, rows, false, 2, 1, {router.loc, shares.loc}, {s.plan}},
      {wf_step_moe_sort, rows, true, 1, 1, {s.plan}, {s.plan}},
      {wf_step_moe_gather, rows, true, 2, 1, {s.act_x, s.plan}, {s.act1}},
      {wf_step_moe_up, columns, false, 2, 2, {s.act1, s.plan}, {s.up, s.up3}},
      {wf_step_moe_gate, rows, false, 2, 2, {s.up, s.up3}, {s.mid, s.act2}},
      {wf_step_moe_down, columns, false, 2, 1, {s.act2, s.plan}, {s.y}},
      {wf_step_moe_combine, rows, false, 2, 1, {s.y, s.plan}, {out.loc}},
  };
  for (size_t i = 0; i < WF_ARRAY_LEN(all); i++) {
    wf_step step = {.fn = all[i].fn,
                    .split = all[i].split,
                    .gathers = all[i].gathers,
                    .axis = axis,
                    .n_in = all[i].n_in,
                    .n_out = all[i].n_out,
                    .width = f->hidden};
    for (int32_t j = 0; j < 3; j++) {
      step.in[j] = all[i].in[j];
      step.out[j] = all[i].out[j];
    }
    step.as.moe.form = f;
    step.as.moe.weight = use.weight;
    WF_RETURN_IF_ERROR(wf_lower_emit(l, &step, err));
  }
  return WEFT_OK;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static wf_moe_run run_of(const wf_exec *x, const wf_step *s) {
  return (wf_moe_run){.f = s->as.moe.form,
                      .weights = &x->c->weights[s->as.moe.weight],
                      .level = x->level,
                      .n_tokens = s->axis == WF_AXIS_SELECTED ? x->n_selected : x->n_tokens};
}

static void *slot_at(const wf_exec *x, wf_loc l) { return x->slots[l.slot]; }

void wf_step_moe_route(wf_exec *x, const wf_step *s, const wf_member *m) {
  const wf_span rows = wf_step_rows(x, s, m);
  wf_moe_run r = run_of(x, s);
  r.router = wf_step_at(x, s->in[0], 0);
  r.ld_router = wf_step_ld(x, s->in[0]);
  if (s->in[1].slot >= 0) {
    r.shares = wf_step_at(x, s->in[1], 0);
    r.ld_shares = wf_step_ld(x, s->in[1]);
  }
  r.plan = slot_at(x, s->out[0]);
  wf_moe_route(&r, rows.begin, rows.end);
}

void wf_step_moe_sort(wf_exec *x, const wf_step *s, const wf_member *m) {
  wf_moe_run r = run_of(x, s);
  if (!x->is_small && m->index != 0) return;
  r.plan = slot_at(x, s->out[0]);
  wf_moe_sort(&r);
}

void wf_step_moe_gather(wf_exec *x, const wf_step *s, const wf_member *m) {
  const wf_span rows = wf_step_rows(x, s, m);
  wf_moe_run r = run_of(x, s);
  r.act_x = slot_at(x, s->in[0]);
  r.plan = slot_at(x, s->in[1]);
  r.act1 = slot_at(x, s->out[0]);
  wf_moe_gather(&r, rows.begin * r.f->k, rows.end * r.f->k);
}

void wf_step_moe_up(wf_exec *x, const wf_step *s, const wf_member *m) {
  wf_moe_run r = run_of(x, s);
  r.act1 = slot_at(x, s->in[0]);
  r.plan = slot_at(x, s->in[1]);
  r.up = slot_at(x, s->out[0]);
  if (r.f->has_fc3) r.up3 = slot_at(x, s->out[1]);
  wf_moe_up(&r, m);
}

void wf_step_moe_gate(wf_exec *x, const wf_step *s, const wf_member *m) {
  const wf_span rows = wf_step_rows(x, s, m);
  wf_moe_run r = run_of(x, s);
  r.up = slot_at(x, s->in[0]);
  if (r.f->has_fc3) r.up3 = slot_at(x, s->in[1]);
  r.mid = slot_at(x, s->out[0]);
  r.act2 = slot_at(x, s->out[1]);
  wf_moe_gate(&r, rows.begin * r.f->k, rows.end * r.f->k);
}

void wf_step_moe_down(wf_exec *x, const wf_step *s, const wf_member *m) {
  wf_moe_run r = run_of(x, s);
  r.act2 = slot_at(x, s->in[0]);
  r.plan = slot_at(x, s->in[1]);
  r.y = slot_at(x, s->out[0]);
  wf_moe_down(&r, m);
}

void wf_step_moe_combine(wf_exec *x, const wf_step *s, const wf_member *m) {
  const wf_span rows = wf_step_rows(x, s, m);
  wf_moe_run r = run_of(x, s);
  r.y = slot_at(x, s->in[0]);
  r.plan = slot_at(x, s->in[1]);
  r.out = wf_step_at(x, s->out[0], 0);
  r.ld_out = wf_step_ld(x, s->out[0]);
  wf_moe_combine(&r, rows.begin, rows.end);
}
