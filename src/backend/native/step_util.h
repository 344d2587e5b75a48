/* SPDX-License-Identifier: Apache-2.0 */
/* What every step of a packed program asks: which rows are this member's, and where they lie.
 * Private to native/. */
#ifndef WF_NATIVE_STEP_UTIL_H
#define WF_NATIVE_STEP_UTIL_H

#include "backend/native/program.h"

typedef struct wf_span {
  int64_t begin, end;
} wf_span;

/* A member's rows: the same in every step over that axis; all of them in a small run. */
static inline wf_span wf_step_rows(const wf_exec *x, const wf_step *s, const wf_member *m) {
  const int64_t n = s->axis == WF_AXIS_SELECTED ? x->n_selected : x->n_tokens;
  wf_span r = {0, n};
  if (!x->is_small) wf_member_range(m, n, WF_ACT_ROW_GRAIN, &r.begin, &r.end);
  return r;
}

static inline float *wf_step_at(const wf_exec *x, wf_loc l, int64_t row) {
  float *base = (float *)(void *)x->slots[l.slot];
  return base + row * x->c->slots[l.slot].width + l.column;
}
static inline int64_t wf_step_ld(const wf_exec *x, wf_loc l) { return x->c->slots[l.slot].width; }

#endif
