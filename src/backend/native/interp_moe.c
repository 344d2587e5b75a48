/* SPDX-License-Identifier: Apache-2.0 */
/* A mixture of experts in a graph that is run node by node. */
#include "backend/native/interp.h"
#include "backend/native/moe.h"
#include "backend/native/op_list.h"

/* Weights that no component has collected (those of a subgraph, or computed ones). */
weft_status wf_op_ms_moe(wf_op_call *c, weft_error *err) {
  return wf_op_fail(c, err, WEFT_UNSUPPORTED, "its weights are no constants of the main graph");
}

typedef struct job {
  wf_moe_run r;
  const float *x;
  void *act_x; /* filled by the members */
} job;

static void member(const wf_member *m, void *arg) {
  job *j = arg;
  wf_moe_run *r = &j->r;
  const int64_t pairs = r->n_tokens * r->f->k;
  int64_t begin = 0, end = 0, first = 0, last = 0;
  wf_member_range(m, r->n_tokens, 1, &begin, &end);
  wf_member_range(m, pairs, 1, &first, &last);
  if (begin < end) {
    wf_act_pack(&r->weights[0].packed.act, r->level, r->n_tokens, begin, end, j->x, r->f->hidden,
                j->act_x);
  }
  wf_moe_route(r, begin, end);
  wf_team_barrier(m);
  if (m->index == 0) wf_moe_sort(r);
  wf_team_barrier(m);
  wf_moe_gather(r, first, last);
  wf_team_barrier(m);
  wf_moe_up(r, m);
  wf_team_barrier(m);
  wf_moe_gate(r, first, last);
  wf_team_barrier(m);
  wf_moe_down(r, m);
  wf_team_barrier(m);
  wf_moe_combine(r, begin, end);
}

static const wf_view *rows_of(const wf_frame *f, const wf_node *n, int32_t input, int64_t width) {
  const wf_held *h = wf_frame_value(f, wf_node_input(n, input));
  if (!h || h->view.dtype != WF_DTYPE_F32 || h->view.rank < 2 || h->view.rank > 3 ||
      h->view.dims[h->view.rank - 1] != width) {
    return NULL;
  }
  return &h->view;
}

weft_status wf_interp_moe(wf_interp *in, wf_frame *f, const wf_node *n, weft_error *err) {
  enum { PLAN, ACT_X, ACT1, UP, UP3, MID, ACT2, Y, OUT, N_BUFFERS };
  weft_status st = WEFT_OK;
  const wf_weight_use *use = &in->s->c->uses[n->id];
  const wf_moe_form *form = use->moe;
  wf_pool_buffer *buffers[N_BUFFERS] = {0};
  const wf_view *x = rows_of(f, n, 0, form->hidden);
  const wf_view *router = rows_of(f, n, 1, form->n_experts);
  const wf_view *shares = form->shares >= 0 ? rows_of(f, n, form->shares, form->n_experts) : NULL;
  const int64_t tokens = x ? wf_view_count(x) / form->hidden : 0;
  const int64_t wanted = tokens * form->n_experts;
  if (!x || !router || wf_view_count(router) != wanted ||
      (form->shares >= 0 && (!shares || wf_view_count(shares) != wanted))) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "",
                   "node '%.*s' wants rows of %lld numbers, and %lld of the router for each",
                   (int)n->name.n, n->name.at ? n->name.at : "", (long long)form->hidden,
                   (long long)form->n_experts);
  }
  const wf_weight *w = &in->s->c->weights[use->weight];
  const size_t k = (size_t)form->k, floats = sizeof(float);
  const size_t a_row[N_BUFFERS] = {[PLAN] = (size_t)wf_moe_plan_ints(form, 1) * sizeof(int32_t),
                                   [ACT_X] = wf_moe_act_bytes(form, w, 0),
                                   [ACT1] = k * wf_moe_act_bytes(form, w, 0),
                                   [UP] = k * (size_t)form->fc1_n * floats,
                                   [UP3] = form->has_fc3 ? k * (size_t)form->inter * floats : 0,
                                   [MID] = k * (size_t)form->inter * floats,
                                   [ACT2] = k * wf_moe_act_bytes(form, w, 1),
                                   [Y] = k * (size_t)form->hidden * floats,
                                   [OUT] = (size_t)form->hidden * floats};
  for (int i = 0; i < N_BUFFERS; i++) {
    size_t n_bytes = 0;
    if (!wf_size_mul((size_t)tokens, a_row[i], &n_bytes)) {
      st = wf_fail(err, WEFT_LIMIT, "", "a mixture of experts overflows");
      goto out;
    }
    WF_TRY(wf_interp_take(in, n_bytes, &buffers[i], err));
  }
  job j = {.r = {.f = form,
                 .weights = w,
                 .level = in->s->c->level,
                 .n_tokens = tokens,
                 .router = router->data,
                 .shares = shares ? shares->data : NULL,
                 .ld_router = form->n_experts,
                 .ld_shares = form->n_experts,
                 .plan = buffers[PLAN]->data,
                 .act_x = buffers[ACT_X]->data,
                 .act1 = buffers[ACT1]->data,
                 .act2 = buffers[ACT2]->data,
                 .up = buffers[UP]->data,
                 .up3 = buffers[UP3]->data,
                 .mid = buffers[MID]->data,
                 .y = buffers[Y]->data,
                 .out = buffers[OUT]->data,
                 .ld_out = form->hidden},
           .x = x->data,
           .act_x = buffers[ACT_X]->data};
  if (tokens > 0) {
    wf_team_run(in->s->team, member, &j);
    in->s->counters.barriers += 6;
  }
  wf_view y = *x;
  y.data = buffers[OUT]->data;
  wf_frame_set(f, wf_node_output(n, 0), &y, buffers[OUT]);
  buffers[OUT] = NULL;
out:
  for (int i = 0; i < N_BUFFERS; i++) wf_pool_unref(buffers[i]);
  return st;
}
