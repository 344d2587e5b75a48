/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a packed program, as each member of the team runs them. */
#include <string.h>

#include "backend/native/program.h"
#include "backend/native/session.h"
#include "backend/native/step_util.h"

void wf_step_gather(wf_exec *x, const wf_step *s, const wf_member *m) {
  const wf_span r = wf_step_rows(x, s, m);
  if (r.begin == r.end) return;
  const wf_table *t = s->as.gather.table;
  float *y = wf_step_at(x, s->out[0], r.begin);
  if (t->packed) {
    wf_packed_gather(t->packed, x->ids + r.begin, r.end - r.begin, y, wf_step_ld(x, s->out[0]));
  } else {
    wf_weight_gather(&t->desc, x->ids + r.begin, r.end - r.begin, y, wf_step_ld(x, s->out[0]));
  }
}

/* Rows of `from` as the products that read them want them. */
static void pack_rows(wf_exec *x, const wf_step *s, wf_span r, wf_loc from, int32_t to) {
  const int64_t total = s->axis == WF_AXIS_SELECTED ? x->n_selected : x->n_tokens;
  /* wf_act_pack wants row 0's address. */
  wf_act_pack(&x->c->slots[to].act, x->level, total, r.begin, r.end, wf_step_at(x, from, 0),
              wf_step_ld(x, from), x->slots[to]);
}

static void norm_rows(const wf_exec *x, const wf_step *s, wf_span r) {
  const wf_norm_step *p = &s->as.norm;
  const int64_t n_rows = r.end - r.begin;
  const float *in = wf_step_at(x, s->in[0], r.begin);
  int64_t ld_in = wf_step_ld(x, s->in[0]);
  float *y = wf_step_at(x, s->out[0], r.begin);
  const int64_t ld_y = wf_step_ld(x, s->out[0]);
  if (s->out[1].slot >= 0) {
    float *sum = wf_step_at(x, s->out[1], r.begin);
    const float *skip = wf_step_at(x, s->in[1], r.begin);
    const int64_t ld_sum = wf_step_ld(x, s->out[1]), ld_skip = wf_step_ld(x, s->in[1]);
    if (p->kind == WF_NORM_RMS && !p->shift) {
      wf_skip_rms_norm_f32(x->level, n_rows, p->n, in, ld_in, skip, ld_skip, p->bias, p->weight,
                           p->epsilon, sum, ld_sum, y, ld_y);
      return;
    }
    for (int64_t i = 0; i < n_rows; i++) {
      float *row = sum + i * ld_sum;
      wf_binary_f32(x->level, WF_BINARY_ADD, p->n, in + i * ld_in, 1, skip + i * ld_skip, 1, row);
      if (p->bias) wf_binary_f32(x->level, WF_BINARY_ADD, p->n, row, 1, p->bias, 1, row);
    }
    in = sum;
    ld_in = ld_sum;
  }
  const int64_t n_outer = p->n_groups == 1 ? 1 : n_rows;
  const int64_t n_inner = p->n_groups == 1 ? n_rows : p->n_groups;
  for (int64_t i = 0; i < n_outer; i++) {
    const float *a = in + i * ld_in;
    float *b = y + i * ld_y;
    const int64_t lda = p->n_groups == 1 ? ld_in : p->n, ldb = p->n_groups == 1 ? ld_y : p->n;
    if (p->kind == WF_NORM_RMS) {
      wf_rms_norm_f32(x->level, n_inner, p->n, a, lda, p->weight, p->epsilon, b, ldb);
      for (int64_t j = 0; p->shift && j < n_inner; j++) {
        wf_binary_f32(x->level, WF_BINARY_ADD, p->n, b + j * ldb, 1, p->shift, 1, b + j * ldb);
      }
    } else {
      wf_layer_norm_f32(x->level, n_inner, p->n, a, lda, p->weight, p->shift, p->epsilon, b, ldb);
    }
  }
}

void wf_step_norm(wf_exec *x, const wf_step *s, const wf_member *m) {
  const wf_span r = wf_step_rows(x, s, m);
  if (r.begin == r.end) return;
  norm_rows(x, s, r);
  if (s->packs) pack_rows(x, s, r, s->out[0], s->out[2].slot);
}

void wf_step_act_pack(wf_exec *x, const wf_step *s, const wf_member *m) {
  const wf_span r = wf_step_rows(x, s, m);
  if (r.begin < r.end) pack_rows(x, s, r, s->in[0], s->out[0].slot);
}

void wf_step_linear(wf_exec *x, const wf_step *s, const wf_member *m) {
  const wf_weight *w = &x->c->weights[s->as.linear.weight];
  const int64_t total = s->axis == WF_AXIS_SELECTED ? x->n_selected : x->n_tokens;
  int64_t begin = 0, end = 0;
  wf_member_range(m, w->n, w->packed.n_grain, &begin, &end);
  if (begin == end || total == 0) return;
  wf_epilogue e = {WF_EPILOGUE_NONE, NULL, 0};
  if (s->as.linear.has_residual) {
    e = (wf_epilogue){WF_EPILOGUE_ADD, wf_step_at(x, s->in[1], 0), wf_step_ld(x, s->in[1])};
  }
  wf_matmul_run(&w->packed, total, x->slots[s->in[0].slot], wf_step_at(x, s->out[0], 0),
                wf_step_ld(x, s->out[0]), begin, end, &e);
}

/* The rows' own buffers take the logits: straight where they lie one after another, else by way of
 * a scratch. */
void wf_step_head(wf_exec *x, const wf_step *s, const wf_member *m) {
  const wf_weight *w = &x->c->weights[s->as.linear.weight];
  const int64_t vocab = w->n;
  int64_t begin = 0, end = 0;
  if (x->n_selected == 0) return;
  wf_member_range(m, vocab, w->packed.n_grain, &begin, &end);
  bool is_contiguous = true;
  for (int64_t i = 1; i < x->n_selected && is_contiguous; i++) {
    is_contiguous = x->logits[i] == x->logits[i - 1] + vocab;
  }
  const void *act = x->slots[s->in[0].slot];
  if (is_contiguous) {
    if (begin < end) {
      wf_matmul_run(&w->packed, x->n_selected, act, x->logits[0], vocab, begin, end, NULL);
    }
    return;
  }
  if (begin == end) return;
  wf_matmul_run(&w->packed, x->n_selected, act, x->head_scratch, vocab, begin, end, NULL);
  for (int64_t i = 0; i < x->n_selected; i++) {
    memcpy(x->logits[i] + begin, x->head_scratch + i * vocab + begin,
           (size_t)(end - begin) * sizeof(float));
  }
}

void wf_step_store_logits(wf_exec *x, const wf_step *s, const wf_member *m) {
  const wf_span r = wf_step_rows(x, s, m);
  if (x->is_small && m->index != 0) return;
  for (int64_t i = r.begin; i < r.end; i++) {
    memcpy(x->logits[i], wf_step_at(x, s->in[0], i), (size_t)s->width * sizeof(float));
  }
}

void wf_step_glu(wf_exec *x, const wf_step *s, const wf_member *m) {
  const wf_span r = wf_step_rows(x, s, m);
  if (r.begin == r.end) return;
  wf_gated_f32(x->level, s->as.unary.fn, r.end - r.begin, s->width,
               wf_step_at(x, s->in[0], r.begin), wf_step_ld(x, s->in[0]),
               wf_step_at(x, s->in[1], r.begin), wf_step_ld(x, s->in[1]),
               wf_step_at(x, s->out[0], r.begin), wf_step_ld(x, s->out[0]));
  if (s->packs) pack_rows(x, s, r, s->out[0], s->out[2].slot);
}

void wf_step_unary(wf_exec *x, const wf_step *s, const wf_member *m) {
  const wf_span r = wf_step_rows(x, s, m);
  for (int64_t i = r.begin; i < r.end; i++) {
    wf_unary_f32(x->level, s->as.unary.fn, s->width, wf_step_at(x, s->in[0], i),
                 wf_step_at(x, s->out[0], i));
  }
}

void wf_step_binary(wf_exec *x, const wf_step *s, const wf_member *m) {
  const wf_span r = wf_step_rows(x, s, m);
  for (int64_t i = r.begin; i < r.end; i++) {
    const float *a = wf_step_at(x, s->in[0], i);
    float *y = wf_step_at(x, s->out[0], i);
    if (!s->as.binary.constant) {
      wf_binary_f32(x->level, s->as.binary.op, s->width, a, 1, wf_step_at(x, s->in[1], i), 1, y);
    } else if (s->as.binary.is_reversed) {
      wf_binary_f32(x->level, s->as.binary.op, s->width, s->as.binary.constant, s->as.binary.step,
                    a, 1, y);
    } else {
      wf_binary_f32(x->level, s->as.binary.op, s->width, a, 1, s->as.binary.constant,
                    s->as.binary.step, y);
    }
  }
}

void wf_step_select(wf_exec *x, const wf_step *s, const wf_member *m) {
  const wf_span r = wf_step_rows(x, s, m);
  for (int64_t i = r.begin; i < r.end; i++) {
    memcpy(wf_step_at(x, s->out[0], i), wf_step_at(x, s->in[0], x->select[i]),
           (size_t)s->width * sizeof(float));
  }
}

void wf_step_copy(wf_exec *x, const wf_step *s, const wf_member *m) {
  const wf_span r = wf_step_rows(x, s, m);
  for (int64_t i = r.begin; i < r.end; i++) {
    memcpy(wf_step_at(x, s->out[0], i), wf_step_at(x, s->in[0], i),
           (size_t)s->width * sizeof(float));
  }
  if (m->index == 0) {
    const int64_t n = s->axis == WF_AXIS_SELECTED ? x->n_selected : x->n_tokens;
    wf_session_count_copy(x->session, (uint64_t)(n * s->width) * sizeof(float));
  }
}

/* ---- general operators
 * --------------------------------------------------------------------------- */

static weft_status generic_view(wf_exec *x, const struct wf_generic_operand *o, wf_view *v,
                                weft_error *err) {
  if (o->is_const) {
    *v = o->constant;
    return WEFT_OK;
  }
  const wf_binding bindings[2] = {{x->c->packed.tokens, x->n_tokens},
                                  {x->c->packed.selected, x->n_selected}};
  const size_t n_bindings = x->c->packed.selected >= 0 ? 2 : 1;
  *v = (wf_view){.dtype = wf_dtype_held(o->value->dtype), .rank = o->value->rank};
  if (o->value->rank < 0 || o->value->rank > WF_VIEW_MAX_RANK) {
    return wf_fail(err, WEFT_UNSUPPORTED, "", "a tensor of rank %d", (int)o->value->rank);
  }
  for (int32_t i = 0; i < o->value->rank; i++) {
    WF_RETURN_IF_ERROR(wf_expr_eval(x->c->graph->exprs, o->value->dims[i], bindings, n_bindings,
                                    &v->dims[i], err));
  }
  v->data = x->slots[o->slot];
  return WEFT_OK;
}

typedef struct generic_user {
  wf_exec *x;
  const wf_generic_step *g;
} generic_user;

static weft_status generic_make(void *user, int32_t output, size_t n_bytes, void **data,
                                weft_error *err) {
  const generic_user *u = user;
  const int32_t slot = u->g->out[output].slot;
  if (slot < 0 || wf_session_slot_bytes(u->x->session, slot) < n_bytes) {
    return wf_fail(err, WEFT_INTERNAL, "", "an operator made more than its shape says (%zu bytes)",
                   n_bytes);
  }
  *data = u->x->slots[slot];
  return WEFT_OK;
}

static weft_status generic_scratch(void *user, size_t n_bytes, void **data, weft_error *err) {
  const generic_user *u = user;
  return wf_session_scratch(u->x->session, n_bytes, data, err);
}

static weft_status run_generic(wf_exec *x, const wf_step *s, weft_error *err) {
  const wf_generic_step *g = &s->as.generic;
  wf_view in[32], out[WF_OP_MAX_OUTPUTS];
  const wf_view *in_ptr[32];
  int32_t alias[WF_OP_MAX_OUTPUTS];
  if (g->n_in > 32 || g->n_out > WF_OP_MAX_OUTPUTS) {
    return wf_fail(err, WEFT_UNSUPPORTED, "", "a node with %d inputs and %d outputs", (int)g->n_in,
                   (int)g->n_out);
  }
  generic_user user = {x, g};
  const wf_op_env env = {
      .level = x->level, .user = &user, .make = generic_make, .scratch = generic_scratch};
  for (int32_t i = 0; i < g->n_in; i++) {
    in_ptr[i] = g->in[i].value ? &in[i] : NULL;
    if (g->in[i].value) WF_RETURN_IF_ERROR(generic_view(x, &g->in[i], &in[i], err));
  }
  for (int32_t i = 0; i < g->n_out; i++) {
    out[i] = (wf_view){0};
    alias[i] = -1;
  }
  wf_op_call call = {g->node, x->c->graph, &env, g->n_in, g->n_out, in_ptr, out, alias};
  WF_RETURN_IF_ERROR(g->fn(&call, err));
  for (int32_t i = 0; i < g->n_out; i++) {
    if (alias[i] < 0 || g->out[i].slot < 0) continue;
    const size_t n_bytes = (size_t)wf_view_count(&out[i]) * wf_held_bytes(out[i].dtype);
    void *to = NULL;
    WF_RETURN_IF_ERROR(generic_make(&user, i, n_bytes, &to, err));
    if (n_bytes) memmove(to, out[i].data, n_bytes);
    wf_session_count_copy(x->session, n_bytes);
  }
  return WEFT_OK;
}

void wf_step_generic(wf_exec *x, const wf_step *s, const wf_member *m) {
  if (m->index != 0 || wf_session_failed(x->session)) return;
  weft_error err = {0};
  const weft_status st = run_generic(x, s, &err);
  wf_session_scratch_reset(x->session);
  if (st != WEFT_OK) wf_session_fail(x->session, &err);
}
