/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a packed program: rotation, append to the cache, attention. */
#include <string.h>

#include "backend/native/program.h"
#include "backend/native/session.h"
#include "backend/native/step_util.h"

/* Rotates tokens [begin, end) in place. Tables of one row a token are addressed by the token's own
 * number, and a table with more columns than the rotation reads is walked a token at a time. */
static void rotate(const wf_exec *x, const wf_rope_step *p, wf_loc cos_at, wf_loc sin_at, float *v,
                   int64_t ldv, int32_t n_heads, wf_span r) {
  if (p->rope.kind == WF_ROPE_NONE) return;
  if (p->index == WF_ROTARY_BY_POSITION) {
    wf_rope_f32(x->level, &p->rope, v + r.begin * ldv, ldv, r.end - r.begin, n_heads, p->head_dim,
                x->positions + r.begin);
    return;
  }
  const int64_t zero = 0;
  for (int64_t i = r.begin; i < r.end; i++) {
    wf_rope one = p->rope;
    one.cos = wf_step_at(x, cos_at, i);
    one.sin = wf_step_at(x, sin_at, i);
    wf_rope_f32(x->level, &one, v + i * ldv, ldv, 1, n_heads, p->head_dim, &zero);
  }
}

void wf_step_rope(wf_exec *x, const wf_step *s, const wf_member *m) {
  const wf_span r = wf_step_rows(x, s, m);
  if (r.begin == r.end) return;
  for (int64_t i = r.begin; i < r.end; i++) {
    memcpy(wf_step_at(x, s->out[0], i), wf_step_at(x, s->in[0], i),
           (size_t)s->width * sizeof(float));
  }
  rotate(x, &s->as.rope, s->in[3], s->in[4], wf_step_at(x, s->out[0], 0), wf_step_ld(x, s->out[0]),
         s->as.rope.n_heads, r);
}

/* Copies the rows of one operand of the rotation. */
static float *turned(const wf_exec *x, wf_loc from, wf_loc to, int64_t width, wf_span r) {
  for (int64_t i = r.begin; i < r.end; i++) {
    memcpy(wf_step_at(x, to, i), wf_step_at(x, from, i), (size_t)width * sizeof(float));
  }
  return wf_step_at(x, to, 0);
}

/* Rotation of q and k, and k and v into the cache: each member for its own tokens. */
void wf_step_append(wf_exec *x, const wf_step *s, const wf_member *m) {
  const wf_attention_step *p = &s->as.attention;
  const wf_span r = wf_step_rows(x, s, m);
  if (r.begin == r.end) return;
  float *k = wf_step_at(x, s->in[1], 0);
  int64_t ldk = wf_step_ld(x, s->in[1]);
  const int64_t ldv = wf_step_ld(x, s->in[2]);
  const float *v = wf_step_at(x, s->in[2], 0);
  if (p->rotates) {
    float *q = turned(x, s->in[0], s->out[0], wf_step_ld(x, s->out[0]), r);
    k = turned(x, s->in[1], s->out[1], wf_step_ld(x, s->out[1]), r);
    ldk = wf_step_ld(x, s->out[1]);
    rotate(x, &p->rope, s->in[3], s->in[4], q, wf_step_ld(x, s->out[0]), p->rope.n_heads, r);
    rotate(x, &p->rope, s->in[3], s->in[4], k, ldk, p->kv.kv_heads, r);
  }
  if (x->is_small && m->index != 0) return; /* the cache is written once */
  const wf_attention_row *rows = x->rows + (size_t)p->group * x->n_rows;
  for (size_t i = 0; i < x->n_rows; i++) {
    const int64_t begin = r.begin > rows[i].start ? r.begin - rows[i].start : 0;
    const int64_t end =
        r.end < rows[i].start + rows[i].n_new ? r.end - rows[i].start : rows[i].n_new;
    if (begin >= end) continue;
    wf_kv_append(x->level, &p->kv, &rows[i], NULL, k, ldk, v, ldv, begin, end);
  }
}

/* Items of one row: super-tiles of its keys where they are split among the members. */
static int64_t items_of(const wf_exec *x, const wf_attention_step *p, const wf_attention_row *row,
                        bool *is_split) {
  const int64_t n_split = x->partials ? wf_attention_n_split_items(&p->spec, &p->kv, row) : 0;
  *is_split = n_split > 0;
  if (n_split > 0) return n_split;
  return row->n_new ? wf_attention_n_items(&p->spec, &p->kv, row) : 0;
}

/* Partial results of rows whose keys were split, merged by whoever draws them. */
static void merge_rows(wf_exec *x, const wf_attention_step *p, const wf_attention_row *rows,
                       float *y, int64_t ldy, const wf_member *m) {
  int64_t turn = 0;
  for (size_t i = 0; i < x->n_rows; i++) {
    bool is_split = false;
    (void)items_of(x, p, &rows[i], &is_split);
    if (!is_split) continue;
    for (int32_t h = 0; h < p->kv.kv_heads; h++) {
      if (turn++ % m->n != m->index) continue;
      wf_attention_merge_item(x->level, &p->spec, &p->kv, &rows[i],
                              x->partials + i * x->partials_stride, y, ldy, h);
    }
  }
}

void wf_step_attention(wf_exec *x, const wf_step *s, const wf_member *m) {
  const wf_attention_step *p = &s->as.attention;
  const wf_attention_row *rows = x->rows + (size_t)p->group * x->n_rows;
  const float *q = wf_step_at(x, s->in[0], 0);
  float *y = wf_step_at(x, s->out[0], 0);
  const int64_t ldq = wf_step_ld(x, s->in[0]), ldy = wf_step_ld(x, s->out[0]);
  const int64_t base = x->ticket_base;
  int64_t ticket = wf_team_ticket(m) - base, first = 0;
  bool any_split = false;
  for (size_t i = 0; i < x->n_rows; i++) {
    bool is_split = false;
    const int64_t n_items = items_of(x, p, &rows[i], &is_split);
    while (ticket < first + n_items) {
      if (is_split) {
        wf_attention_split_item(x->level, &p->spec, &p->kv, &rows[i], q, ldq, ticket - first,
                                x->partials + i * x->partials_stride, x->scratch);
      } else {
        wf_attention_item(x->level, &p->spec, &p->kv, &rows[i], q, ldq, y, ldy, ticket - first,
                          x->scratch);
      }
      ticket = wf_team_ticket(m) - base;
    }
    first += n_items;
    any_split |= is_split;
  }
  /* Each member draws exactly one ticket too many, so everybody knows where the next use begins. */
  x->ticket_base = base + first + m->n;
  if (!any_split) return;
  wf_team_barrier(m);
  merge_rows(x, p, rows, y, ldy, m);
  if (m->index == 0) wf_session_count_barrier(x->session);
}
