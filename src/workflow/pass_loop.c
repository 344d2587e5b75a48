/* SPDX-License-Identifier: Apache-2.0 */
/* Loops: the cells they carry, recurrences, rows that stand still (format §6.3). */
#include <string.h>

#include "workflow/pass_state.h"

static weft_status fail_cell(const wf_pass *p, const wf_plan_step *s, int32_t cell, weft_error *err,
                             const char *what, int64_t got, int64_t wanted) {
  return wf_fail(err, WEFT_RUN, "let the body give the cell the shape its recurrence allows",
                 "%s: cell '%s' %s: %lld, not %lld", s->path, p->plan->cells[cell].name, what,
                 (long long)got, (long long)wanted);
}

weft_status wf_loop_enter(wf_pass *p, wf_frame *f, weft_error *err) {
  const wf_plan_step *s = f->step;
  WF_RETURN_IF_ERROR(
      wf_pass_read_count(p, s, s->as.loop.max_iterations, "max_iterations", &f->limit, err));
  f->k = 0;
  for (size_t i = 0; i < s->as.loop.n_carries; i++) {
    const wf_plan_carry *c = &s->as.loop.carries[i];
    const wf_plan_cell *cell = &p->plan->cells[c->cell];
    wf_datum *v = cell->is_session ? p->request->session_cells[c->cell] : NULL;
    if (!v) WF_RETURN_IF_ERROR(wf_pass_value(p, s, c->initial, &v, err));
    const weft_status st =
        wf_contract_check(&cell->contract, &v->view, &p->extents, -1, WEFT_RUN, cell->name, err);
    if (st != WEFT_OK) return wf_fail_in(err, st, "%s: ", s->path);
    wf_pass_set(p, c->slot, wf_datum_ref(v));
  }
  return WEFT_OK;
}

/* The mask of active rows out of continue_when; *any: some row is. A mask of one entry is no mask.
 */
static weft_status read_mask(wf_pass *p, wf_frame *f, bool *any, weft_error *err) {
  const wf_plan_step *s = f->step;
  wf_datum *v = NULL;
  WF_RETURN_IF_ERROR(wf_pass_value(p, s, s->as.loop.continue_when, &v, err));
  const int64_t n = wf_view_elements(&v->view);
  if (v->view.dtype != WF_DTYPE_BOOL || v->view.rank > 1 || n < 1) {
    return wf_fail(err, WEFT_RUN, "let continue_when be one bool, or one a row",
                   "%s: continue_when is %s of rank %d with %lld elements", s->path,
                   wf_dtype_name(v->view.dtype), (int)v->view.rank, (long long)n);
  }
  wf_datum_unref(f->mask);
  f->mask = NULL;
  if (s->as.loop.is_generation && p->request->keeps_going) {
    *any = true; /* the predicate means "end token reached", and the caller wants to go on */
    return WEFT_OK;
  }
  int64_t n_active = 0;
  for (int64_t i = 0; i < n; i++) {
    bool is_active = false;
    if (!wf_view_bool(&v->view, i, &is_active)) continue;
    n_active += is_active;
  }
  *any = n_active > 0;
  if (n_active > 0 && n_active < n) f->mask = wf_datum_ref(v);
  return WEFT_OK;
}

static weft_status set_iteration(wf_pass *p, const wf_frame *f, weft_error *err) {
  const wf_plan_step *s = f->step;
  const wf_plan_contract *c = &s->as.loop.iteration_contract;
  if (!wf_slot_is(s->as.loop.iteration)) return WEFT_OK;
  int64_t extent = 1;
  if (c->rank == 1 && c->has_shape) {
    extent = c->dims[0].symbol < 0 ? c->dims[0].extent : p->extents.at[c->dims[0].symbol];
    if (extent < 0) extent = 1;
    if (c->layout == WF_LAYOUT_EXPANDED) extent *= c->factor;
  }
  wf_datum *v = NULL;
  WF_RETURN_IF_ERROR(wf_datum_create(&v, p->pool, WF_DTYPE_I64, c->rank, &extent, err));
  for (int64_t i = 0; i < extent; i++) ((int64_t *)v->view.data)[i] = f->k;
  wf_pass_set(p, s->as.loop.iteration, v);
  return WEFT_OK;
}

static void tell(const wf_pass *p, const wf_frame *f, int64_t done) {
  const wf_request *r = p->request;
  if (r->on_iteration) r->on_iteration(r->on_iteration_user, f->step->path, done, f->limit);
}

weft_status wf_loop_test(wf_pass *p, wf_frame *f, bool *goes_on, weft_error *err) {
  *goes_on = false;
  if (f->k >= f->limit) return WEFT_OK;
  WF_RETURN_IF_ERROR(read_mask(p, f, goes_on, err));
  if (!*goes_on) return WEFT_OK;
  p->counters.iterations++;
  tell(p, f, f->k);
  return set_iteration(p, f, err);
}

/* One integer of a recurrence: the only one, or row r's. */
static bool amount(const wf_view *v, int64_t r, int64_t *result) {
  const int64_t n = wf_view_elements(v);
  return n > 0 && wf_view_int(v, n == 1 ? 0 : r, result);
}

static weft_status check_growth(const wf_pass *p, const wf_plan_step *s, const wf_plan_carry *c,
                                int64_t before, int64_t after, weft_error *err) {
  const wf_plan_cell *cell = &p->plan->cells[c->cell];
  wf_datum *increment = NULL, *max = NULL;
  int64_t most = 0;
  WF_RETURN_IF_ERROR(wf_pass_value(p, s, c->max, &max, err));
  if (cell->recurrence == WF_RECURRENCE_GROWING) {
    WF_RETURN_IF_ERROR(wf_pass_value(p, s, c->increment, &increment, err));
  }
  const int64_t n_max = wf_view_elements(&max->view);
  const int64_t n_step = increment ? wf_view_elements(&increment->view) : 1;
  const int64_t n = n_max > n_step ? n_max : n_step;
  if ((n > 1 && cell->group < 0) || (n_max > 1 && n_step > 1 && n_max != n_step)) {
    return fail_cell(p, s, c->cell, err, "grows by amounts for so many rows", n, 1);
  }
  for (int64_t r = 0; r < n; r++) {
    int64_t limit = 0, step = 0;
    if (!amount(&max->view, r, &limit) || limit < 0) {
      return fail_cell(p, s, c->cell, err, "has no bound that is a count, at row", r, 0);
    }
    if (limit > most) most = limit;
    if (!increment) continue;
    if (!amount(&increment->view, r, &step) || step < 0) {
      return fail_cell(p, s, c->cell, err, "has no increment that is a count, at row", r, 0);
    }
    if (n > 1) {
      if (step > limit) return fail_cell(p, s, c->cell, err, "grows past its bound", step, limit);
    } else if (after != before + step) {
      return fail_cell(p, s, c->cell, err, "has after growing the extent", after, before + step);
    }
  }
  if (after > most) return fail_cell(p, s, c->cell, err, "exceeds its bound", after, most);
  if (cell->recurrence == WF_RECURRENCE_BOUNDED && before > most) {
    return fail_cell(p, s, c->cell, err, "exceeds its bound", before, most);
  }
  return WEFT_OK;
}

static weft_status check_recurrence(const wf_pass *p, const wf_plan_step *s, const wf_plan_carry *c,
                                    const wf_view *old, const wf_view *new, weft_error *err) {
  const wf_plan_cell *cell = &p->plan->cells[c->cell];
  if (old->dtype != new->dtype || old->rank != new->rank) {
    return wf_fail(err, WEFT_RUN, "let the body keep the cell's type and rank",
                   "%s: cell '%s' went from %s of rank %d to %s of rank %d", s->path, cell->name,
                   wf_dtype_name(old->dtype), (int)old->rank, wf_dtype_name(new->dtype),
                   (int)new->rank);
  }
  const bool varies = cell->recurrence != WF_RECURRENCE_INVARIANT;
  for (int32_t d = 0; d < old->rank; d++) {
    if (varies && d == cell->axis) continue;
    if (old->dims[d] != new->dims[d]) {
      return fail_cell(p, s, c->cell, err, "changed an extent that is fixed", new->dims[d],
                       old->dims[d]);
    }
  }
  if (!varies) return WEFT_OK;
  return check_growth(p, s, c, old->dims[cell->axis], new->dims[cell->axis], err);
}

/* Rows that are not active keep what they had; what grew grows for them too, by the producer's new
 * part. */
static weft_status merge_rows(wf_pass *p, const wf_plan_step *s, const wf_plan_cell *cell,
                              const wf_view *mask, const wf_datum *old, const wf_datum *next,
                              wf_datum **result, weft_error *err) {
  const wf_plan_contract *c = &cell->contract;
  const int64_t n_rows = wf_view_elements(mask);
  if (!wf_contract_has_rows(c) || c->axis >= old->view.rank ||
      old->view.dims[c->axis] != n_rows * c->factor) {
    return wf_fail(err, WEFT_RUN, "declare the cell request-aligned",
                   "%s: cell '%s' has no axis of %lld requests, but only some of them go on",
                   s->path, cell->name, (long long)n_rows);
  }
  const bool grows = cell->recurrence == WF_RECURRENCE_GROWING;
  for (int32_t d = 0; d < old->view.rank; d++) {
    if (old->view.dims[d] != next->view.dims[d] && !(grows && d == cell->axis)) {
      return wf_fail(err, WEFT_RUN, "let rows that stand still keep their shape",
                     "%s: cell '%s' changed axis %d while only some requests go on", s->path,
                     cell->name, (int)d);
    }
  }
  wf_datum *merged = NULL;
  WF_RETURN_IF_ERROR(wf_datum_copy(&merged, p->pool, &next->view, err));
  for (int64_t r = 0; r < n_rows; r++) {
    bool is_active = false;
    if (!wf_view_bool(mask, r, &is_active) || is_active) continue;
    /* The old part of a row lies in front along the axis that grew, and that axis is another than
     * the rows': slices of rows, row by row of the old tensor. */
    for (int64_t at = r * c->factor; at < (r + 1) * c->factor; at++) {
      if (!grows || cell->axis == c->axis ||
          old->view.dims[cell->axis] == next->view.dims[cell->axis]) {
        wf_view_copy_slice(&old->view, c->axis, at, at + 1, &merged->view, at);
        continue;
      }
      wf_datum *row = NULL, *kept = NULL;
      int64_t dims[WF_VIEW_MAX_RANK];
      memcpy(dims, old->view.dims, sizeof dims);
      dims[c->axis] = 1;
      weft_status st = wf_datum_create(&kept, p->pool, old->view.dtype, old->view.rank, dims, err);
      dims[cell->axis] = next->view.dims[cell->axis];
      if (st == WEFT_OK) {
        st = wf_datum_create(&row, p->pool, next->view.dtype, next->view.rank, dims, err);
      }
      if (st == WEFT_OK) {
        wf_view_copy_slice(&old->view, c->axis, at, at + 1, &kept->view, 0);
        wf_view_copy_slice(&next->view, c->axis, at, at + 1, &row->view, 0);
        wf_view_copy_slice(&kept->view, cell->axis, 0, kept->view.dims[cell->axis], &row->view, 0);
        wf_view_copy_slice(&row->view, c->axis, 0, 1, &merged->view, at);
      }
      wf_datum_unref(kept);
      wf_datum_unref(row);
      if (st != WEFT_OK) {
        wf_datum_unref(merged);
        return st;
      }
    }
  }
  *result = merged;
  return WEFT_OK;
}

/* All successors are made before the first is committed: a `next` or an increment that names a cell
 * means the value the body saw. */
weft_status wf_loop_commit(wf_pass *p, wf_frame *f, weft_error *err) {
  weft_status st = WEFT_OK;
  const wf_plan_step *s = f->step;
  size_t n = 0;
  for (; n < s->as.loop.n_carries; n++) {
    const wf_plan_carry *c = &s->as.loop.carries[n];
    const wf_plan_cell *cell = &p->plan->cells[c->cell];
    wf_datum *old = NULL, *next = NULL;
    WF_TRY(wf_pass_value(p, s, c->slot, &old, err));
    WF_TRY(wf_pass_value(p, s, c->next, &next, err));
    WF_TRY(check_recurrence(p, s, c, &old->view, &next->view, err));
    if (f->mask && cell->group < 0) {
      WF_TRY(merge_rows(p, s, cell, &f->mask->view, old, next, &p->staged[n], err));
    } else {
      p->staged[n] = wf_datum_ref(next);
    }
  }
  for (size_t i = 0; i < n; i++) wf_pass_set(p, s->as.loop.carries[i].slot, p->staged[i]);
  n = 0;
  f->k++;
out:
  while (n > 0) wf_datum_unref(p->staged[--n]);
  return st;
}

/* A loop that ends leaves its cells to the session, should the pass succeed. */
void wf_loop_leave(wf_pass *p, wf_frame *f) {
  const wf_plan_step *s = f->step;
  tell(p, f, f->limit);
  for (size_t i = 0; i < s->as.loop.n_carries; i++) {
    const wf_plan_carry *c = &s->as.loop.carries[i];
    if (!p->plan->cells[c->cell].is_session) continue;
    wf_datum_unref(p->cells[c->cell]);
    p->cells[c->cell] = wf_datum_ref(p->slots[c->slot.v]);
  }
  wf_datum_unref(f->mask);
  f->mask = NULL;
}
