/* SPDX-License-Identifier: Apache-2.0 */
/* Emits: what a pass publishes, whole or row by row (format §6.5). Chunks of an append are kept as
 * they come and put together once, at the end. */
#include <string.h>

#include "workflow/pass_state.h"

static void clear_values(wf_data *v) {
  for (size_t i = 0; i < v->n; i++) wf_datum_unref(v->at[i]);
  v->n = 0;
}

/* Takes the reference, also when it fails. */
static weft_status keep(wf_data *v, wf_datum *x, bool replaces, weft_error *err) {
  if (replaces) clear_values(v);
  if (wf_vec_push(v, x)) return WEFT_OK;
  wf_datum_unref(x);
  return wf_fail_memory(err, sizeof x, "an output");
}

static weft_status fail_emit(const wf_pass *p, const wf_plan_step *s, weft_error *err,
                             const char *fix, const char *what, int64_t got, int64_t wanted) {
  return wf_fail(err, WEFT_RUN, fix, "%s: emit of '%s' to output '%s': %s (%lld, %lld)", s->path,
                 p->plan->slot_names[s->as.emit.value.v], p->plan->outputs[s->as.emit.output].name,
                 what, (long long)got, (long long)wanted);
}

/* Chunks of one append agree in all but the growth axis. */
static weft_status check_append(const wf_pass *p, const wf_plan_step *s, const wf_data *held,
                                const wf_view *v, int32_t axis, weft_error *err) {
  if (held->n == 0) return WEFT_OK;
  const wf_view *first = &held->at[0]->view;
  if (first->dtype != v->dtype || first->rank != v->rank) {
    return fail_emit(p, s, err, "append chunks of one type and rank", "a chunk of another rank",
                     v->rank, first->rank);
  }
  for (int32_t d = 0; d < v->rank; d++) {
    if (d != axis && v->dims[d] != first->dims[d]) {
      return fail_emit(p, s, err, "append chunks that differ along the growth axis alone",
                       "a chunk of another extent", v->dims[d], first->dims[d]);
    }
  }
  return WEFT_OK;
}

static weft_status tell(wf_pass *p, const wf_plan_step *s, int64_t row, int64_t sequence,
                        const wf_datum *v, weft_error *err) {
  p->counters.emits++;
  if (!p->request->on_emit) return WEFT_OK;
  const wf_emitted e = {&p->plan->outputs[s->as.emit.output], s->as.emit.mode, row, sequence,
                        &v->view};
  return p->request->on_emit(p->request->on_emit_user, &e, err);
}

static weft_status publish(wf_pass *p, const wf_plan_step *s, wf_data *held, int64_t row,
                           wf_datum *v, int32_t axis, weft_error *err) {
  wf_published *o = &p->outputs[s->as.emit.output];
  const wf_emit_mode mode = s->as.emit.mode;
  int64_t sequence = 0;
  if (mode == WF_EMIT_APPEND) WF_RETURN_IF_ERROR(check_append(p, s, held, &v->view, axis, err));
  if (mode == WF_EMIT_EVENT) {
    sequence = o->n_events++;
    WF_RETURN_IF_ERROR(keep(&o->events, wf_datum_ref(v), false, err));
  }
  WF_RETURN_IF_ERROR(keep(held, wf_datum_ref(v), mode != WF_EMIT_APPEND, err));
  o->is_there = true;
  o->axis = axis;
  return tell(p, s, row, sequence, v, err);
}

/* A control of a row-wise emit: one element, or one a row. */
static weft_status check_control(const wf_pass *p, const wf_plan_step *s, const wf_datum *v,
                                 int64_t n_rows, const char *what, weft_error *err) {
  const int64_t n = wf_view_elements(&v->view);
  if (v->view.rank > 1 || n < 1 || (n != 1 && n != n_rows)) {
    return fail_emit(p, s, err, "give one control, or one for each row", what, n, n_rows);
  }
  return WEFT_OK;
}

/* The contract of one chunk: the growth axis is free where it grows or is cut, the rows' axis where
 * one row is published. Nothing is bound by a chunk. */
static weft_status check_chunk(wf_pass *p, const wf_plan_step *s, const wf_view *v, int32_t axis,
                               bool is_row, weft_error *err) {
  const wf_plan_output *o = &p->plan->outputs[s->as.emit.output];
  wf_plan_contract c = o->contract;
  wf_extents table = p->extents;
  const bool grows = s->as.emit.mode == WF_EMIT_APPEND || wf_slot_is(s->as.emit.valid_length);
  table.at = p->scratch_extents;
  if (table.n) memcpy(table.at, p->extents.at, table.n * sizeof *table.at);
  if (is_row && c.has_shape && c.axis < c.rank) {
    /* one row: whatever stands for the batch is 1 */
    c.dims[c.axis] = (wf_plan_dim){1, -1};
  }
  const weft_status st =
      wf_contract_check(&c, v, &table, grows ? axis : -1, WEFT_RUN, o->name, err);
  return st == WEFT_OK ? st : wf_fail_in(err, st, "%s: ", s->path);
}

static weft_status emit_rows(wf_pass *p, const wf_plan_step *s, const wf_datum *v, int32_t axis,
                             weft_error *err) {
  const wf_plan_output *out = &p->plan->outputs[s->as.emit.output];
  wf_published *o = &p->outputs[s->as.emit.output];
  const int32_t row_axis = wf_contract_has_rows(&out->contract) ? out->contract.axis : 0;
  wf_datum *when = NULL, *length = NULL;
  if (row_axis >= v->view.rank) {
    return fail_emit(p, s, err, "emit a value with an axis of requests",
                     "the value has no such axis; rank, axis", v->view.rank, row_axis);
  }
  const int64_t n_rows = v->view.dims[row_axis];
  if (wf_slot_is(s->as.emit.when)) {
    WF_RETURN_IF_ERROR(wf_pass_value(p, s, s->as.emit.when, &when, err));
    WF_RETURN_IF_ERROR(check_control(p, s, when, n_rows, "guards for rows", err));
  }
  if (wf_slot_is(s->as.emit.valid_length)) {
    WF_RETURN_IF_ERROR(wf_pass_value(p, s, s->as.emit.valid_length, &length, err));
    WF_RETURN_IF_ERROR(check_control(p, s, length, n_rows, "lengths for rows", err));
  }
  if ((size_t)n_rows > o->n_rows) {
    wf_data *grown = wf_realloc_array(o->rows, (size_t)n_rows, sizeof *grown);
    if (!grown) return wf_fail_memory(err, (size_t)n_rows * sizeof *grown, "rows of an output");
    memset(grown + o->n_rows, 0, ((size_t)n_rows - o->n_rows) * sizeof *grown);
    o->rows = grown;
    o->n_rows = (size_t)n_rows;
  }
  for (int64_t r = 0; r < n_rows; r++) {
    bool is_wanted = true;
    int64_t n = v->view.dims[axis];
    if (when &&
        !wf_view_bool(&when->view, wf_view_elements(&when->view) == 1 ? 0 : r, &is_wanted)) {
      return fail_emit(p, s, err, "guard with bools", "a guard that is no bool, at row", r, 0);
    }
    if (!is_wanted) continue;
    if (length) {
      const int64_t at = wf_view_elements(&length->view) == 1 ? 0 : r;
      if (!wf_view_int(&length->view, at, &n) || n < 0 || n > v->view.dims[axis]) {
        return fail_emit(p, s, err, "give a length within the value's extent",
                         "a valid length beyond the extent", n, v->view.dims[axis]);
      }
    }
    wf_datum *row = NULL, *cut = NULL;
    int64_t dims[WF_VIEW_MAX_RANK];
    memcpy(dims, v->view.dims, sizeof dims);
    dims[row_axis] = 1;
    WF_RETURN_IF_ERROR(wf_datum_create(&row, p->pool, v->view.dtype, v->view.rank, dims, err));
    wf_view_copy_slice(&v->view, row_axis, r, r + 1, &row->view, 0);
    weft_status st = WEFT_OK;
    if (n < dims[axis]) {
      dims[axis] = n;
      st = wf_datum_create(&cut, p->pool, v->view.dtype, v->view.rank, dims, err);
      if (st == WEFT_OK) wf_view_copy_slice(&row->view, axis, 0, n, &cut->view, 0);
      wf_datum_unref(row);
      row = cut;
    }
    if (st == WEFT_OK) st = check_chunk(p, s, &row->view, axis, true, err);
    if (st == WEFT_OK) st = publish(p, s, &o->rows[r], r, row, axis, err);
    wf_datum_unref(row);
    if (st != WEFT_OK) return st;
  }
  return WEFT_OK;
}

weft_status wf_pass_emit(wf_pass *p, const wf_plan_step *s, weft_error *err) {
  const wf_plan_output *out = &p->plan->outputs[s->as.emit.output];
  wf_datum *v = NULL;
  WF_RETURN_IF_ERROR(wf_pass_value(p, s, s->as.emit.value, &v, err));
  const int32_t axis = s->as.emit.has_axis ? s->as.emit.axis
                       : v->view.rank > 0  ? v->view.rank - 1
                                           : 0;
  const bool grows = s->as.emit.mode == WF_EMIT_APPEND || wf_slot_is(s->as.emit.valid_length);
  if (grows && axis >= v->view.rank) {
    return fail_emit(p, s, err, "emit a value with a growth axis", "the value has no axis to grow",
                     axis, v->view.rank);
  }
  if (out->is_row_wise) return emit_rows(p, s, v, axis, err);
  WF_RETURN_IF_ERROR(check_chunk(p, s, &v->view, axis, false, err));
  return publish(p, s, &p->outputs[s->as.emit.output].whole, -1, v, axis, err);
}

/* Chunks become one tensor. */
static weft_status join(wf_pass *p, wf_data *held, int32_t axis, weft_error *err) {
  if (held->n < 2) return WEFT_OK;
  int64_t dims[WF_VIEW_MAX_RANK], at = 0;
  const wf_view *first = &held->at[0]->view;
  memcpy(dims, first->dims, sizeof dims);
  dims[axis] = 0;
  for (size_t i = 0; i < held->n; i++) dims[axis] += held->at[i]->view.dims[axis];
  wf_datum *whole = NULL;
  WF_RETURN_IF_ERROR(wf_datum_create(&whole, p->pool, first->dtype, first->rank, dims, err));
  for (size_t i = 0; i < held->n; i++) {
    const wf_view *v = &held->at[i]->view;
    wf_view_copy_slice(v, axis, 0, v->dims[axis], &whole->view, at);
    at += v->dims[axis];
  }
  clear_values(held);
  held->at[held->n++] = whole; /* there is room: it held two or more */
  return WEFT_OK;
}

weft_status wf_pass_finish_outputs(wf_pass *p, weft_error *err) {
  for (size_t i = 0; i < p->plan->n_outputs; i++) {
    wf_published *o = &p->outputs[i];
    for (size_t r = 0; r < o->n_rows; r++) {
      WF_RETURN_IF_ERROR(join(p, &o->rows[r], o->axis, err));
    }
    if (o->whole.n == 0) continue;
    WF_RETURN_IF_ERROR(join(p, &o->whole, o->axis, err));
    WF_RETURN_IF_ERROR(wf_contract_check(&p->plan->outputs[i].contract, &o->whole.at[0]->view,
                                         &p->extents, -1, WEFT_RUN, p->plan->outputs[i].name, err));
  }
  return WEFT_OK;
}

void wf_pass_free_outputs(wf_pass *p) {
  for (size_t i = 0; p->outputs && i < p->plan->n_outputs; i++) {
    wf_published *o = &p->outputs[i];
    clear_values(&o->whole);
    clear_values(&o->events);
    wf_vec_free(&o->whole);
    wf_vec_free(&o->events);
    for (size_t r = 0; r < o->n_rows; r++) {
      clear_values(&o->rows[r]);
      wf_vec_free(&o->rows[r]);
    }
    wf_free(o->rows);
  }
  wf_free(p->outputs);
  p->outputs = NULL;
}

bool wf_pass_output_is_there(const wf_pass *p, size_t output) {
  return p->outputs[output].is_there;
}
size_t wf_pass_output_rows(const wf_pass *p, size_t output) { return p->outputs[output].n_rows; }

const wf_view *wf_pass_output(const wf_pass *p, size_t output) {
  const wf_data *v = &p->outputs[output].whole;
  return v->n ? &v->at[v->n - 1]->view : NULL;
}

const wf_view *wf_pass_output_row(const wf_pass *p, size_t output, size_t row) {
  const wf_data *v = &p->outputs[output].rows[row];
  return v->n ? &v->at[v->n - 1]->view : NULL;
}

size_t wf_pass_n_events(const wf_pass *p, size_t output) { return p->outputs[output].events.n; }

const wf_view *wf_pass_event(const wf_pass *p, size_t output, size_t at) {
  return &p->outputs[output].events.at[at]->view;
}
