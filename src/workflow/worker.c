/* SPDX-License-Identifier: Apache-2.0 */
#include "workflow/worker.h"

#include <pthread.h>
#include <string.h>

#include "base/process.h"
#include "workflow/worker_backend.h"

struct wf_worker_session {
  wf_worker *worker;
  wf_session_id id;
  bool is_leased;   /* a pass runs on it */
  bool is_closed;   /* freed when the pass ends */
  wf_datum **cells; /* [n_cells] */
  wf_worker_session *next_foreign;
};

struct wf_worker {
  uint64_t owner;
  wf_plan_ref *plan;
  wf_worker_backend backend WF_GUARDED_BY(wf_worker_role);
  wf_datum_pool *pool WF_GUARDED_BY(wf_worker_role);
  wf_pass_mint passes WF_GUARDED_BY(wf_worker_role);
  wf_worker_counters counters WF_GUARDED_BY(wf_worker_role);
  size_t n_sessions WF_GUARDED_BY(wf_worker_role);
  wf_datum **results; /* of one invocation */
  /* Sessions that other threads have closed. A leaf lock. */
  pthread_mutex_t lock;
  wf_worker_session *foreign;
};

static weft_status check_owner(const wf_worker *w, weft_error *err) {
  if (w->owner == wf_owner_token()) return WEFT_OK;
  return wf_fail(err, WEFT_WRONG_THREAD, "call it on the worker's own thread",
                 "a worker was used from a thread that does not own it");
}

static void free_session(wf_worker_session *s) WF_REQUIRES(wf_worker_role) {
  wf_worker *w = s->worker;
  for (size_t i = 0; s->cells && i < w->plan->plan->n_cells; i++) wf_datum_unref(s->cells[i]);
  wf_free(s->cells);
  wf_free(s);
  w->n_sessions--;
}

/* Frees what other threads gave back. */
static void drain(wf_worker *w) WF_REQUIRES(wf_worker_role) {
  pthread_mutex_lock(&w->lock);
  wf_worker_session *s = w->foreign;
  w->foreign = NULL;
  pthread_mutex_unlock(&w->lock);
  while (s) {
    wf_worker_session *next = s->next_foreign;
    w->counters.foreign_releases++;
    if (s->is_leased) {
      s->is_closed = true;
    } else {
      free_session(s);
    }
    s = next;
  }
}

weft_status wf_worker_create(wf_worker **result, wf_plan_ref *plan, wf_team *team,
                             weft_error *err) {
  weft_status st = WEFT_OK;
  size_t most = 1;
  wf_worker *w = wf_zalloc(sizeof *w);
  if (!w) return wf_fail_memory(err, sizeof *w, "a worker");
  w->owner = wf_owner_token();
  w->plan = plan;
  wf_plan_hold(plan);
  pthread_mutex_init(&w->lock, NULL);
  for (size_t i = 0; i < plan->plan->n_components; i++) {
    if (plan->plan->components[i].n_outputs > most) most = plan->plan->components[i].n_outputs;
  }
  w->results = wf_calloc(most, sizeof *w->results);
  if (!w->results) {
    st = wf_fail_memory(err, most * sizeof *w->results, "a worker");
    goto out;
  }
  WF_TRY(wf_datum_pool_create(&w->pool, err));
  WF_TRY(wf_worker_backend_init(&w->backend, plan, team, err));
  *result = w;
  w = NULL;
out:
  wf_worker_destroy(w);
  return st;
}

void wf_worker_destroy(wf_worker *w) {
  if (!w) return;
  drain(w);
  wf_datum_pool_destroy(w->pool); /* values, before the sessions that made them */
  wf_worker_backend_deinit(&w->backend);
  wf_free(w->results);
  pthread_mutex_destroy(&w->lock);
  wf_plan_release(w->plan);
  wf_free(w);
}

/* ---- sessions ------------------------------------------------------------------------------ */

weft_status wf_worker_session_open(wf_worker_session **result, wf_worker *w, wf_session_mint *mint,
                                   weft_error *err) {
  WF_RETURN_IF_ERROR(check_owner(w, err));
  drain(w);
  wf_worker_session *s = wf_zalloc(sizeof *s);
  wf_datum **cells = wf_calloc(w->plan->plan->n_cells + 1, sizeof *cells);
  if (!s || !cells) {
    wf_free(s);
    wf_free(cells);
    return wf_fail_memory(err, sizeof *s, "a session");
  }
  *s = (wf_worker_session){.worker = w, .id = wf_session_id_next(mint), .cells = cells};
  w->n_sessions++;
  *result = s;
  return WEFT_OK;
}

wf_session_id wf_worker_session_identity(const wf_worker_session *s) { return s->id; }

const wf_plan *wf_worker_session_plan(const wf_worker_session *s) { return s->worker->plan->plan; }

weft_status wf_worker_session_check(const wf_worker_session *s, weft_error *err) {
  WF_RETURN_IF_ERROR(check_owner(s->worker, err));
  if (!s->is_leased) return WEFT_OK;
  return wf_fail(err, WEFT_SESSION_BUSY, "wait until its pass has ended",
                 "session %llu runs a pass", (unsigned long long)s->id.v);
}

/* Takes over a new reference, NULL for nothing, in the place of the old one. */
static void replace_cell(wf_worker_session *s, size_t i, wf_datum *v) {
  wf_datum_unref(s->cells[i]);
  s->cells[i] = v;
}

weft_status wf_worker_session_reset(wf_worker_session *s, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_worker_session_check(s, err));
  for (size_t i = 0; i < s->worker->plan->plan->n_cells; i++) {
    replace_cell(s, i, NULL);
  }
  return WEFT_OK;
}

weft_status wf_worker_session_fork(wf_worker_session **result, wf_worker_session *s,
                                   wf_session_mint *mint, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_worker_session_check(s, err));
  WF_RETURN_IF_ERROR(wf_worker_session_open(result, s->worker, mint, err));
  for (size_t i = 0; i < s->worker->plan->plan->n_cells; i++) {
    /* a value that somebody has seen is never written again, so sharing it is a copy */
    if (s->cells[i]) (*result)->cells[i] = wf_datum_ref(s->cells[i]);
  }
  return WEFT_OK;
}

weft_status wf_worker_session_copy(wf_worker_session *s, const wf_worker_session *from,
                                   weft_error *err) {
  WF_RETURN_IF_ERROR(wf_worker_session_check(s, err));
  WF_RETURN_IF_ERROR(wf_worker_session_check(from, err));
  if (s->worker != from->worker) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "use sessions of one workflow",
                   "a session was to take the state of another workflow's");
  }
  for (size_t i = 0; i < s->worker->plan->plan->n_cells; i++) {
    replace_cell(s, i, from->cells[i] ? wf_datum_ref(from->cells[i]) : NULL);
  }
  return WEFT_OK;
}

weft_status wf_worker_session_set(wf_worker_session *s, const wf_view *views, const bool *is_set,
                                  weft_error *err) {
  weft_status st = WEFT_OK;
  WF_RETURN_IF_ERROR(wf_worker_session_check(s, err));
  const size_t n = s->worker->plan->plan->n_cells;
  wf_datum **made = wf_calloc(n + 1, sizeof *made);
  if (!made) return wf_fail_memory(err, n * sizeof *made, "a session");
  for (size_t i = 0; i < n; i++) {
    if (is_set[i] && views[i].data) {
      WF_TRY(wf_datum_copy(&made[i], s->worker->pool, &views[i], err));
    }
  }
  for (size_t i = 0; i < n; i++) {
    if (!is_set[i]) continue;
    replace_cell(s, i, made[i]);
    made[i] = NULL;
  }
out:
  for (size_t i = 0; i < n; i++) wf_datum_unref(made[i]);
  wf_free(made);
  return st;
}

const wf_view *wf_worker_session_cell(const wf_worker_session *s, size_t cell) {
  return s->cells[cell] ? &s->cells[cell]->view : NULL;
}

static void close_own(wf_worker_session *s) WF_REQUIRES(wf_worker_role) {
  if (s->is_leased) {
    s->is_closed = true;
  } else {
    free_session(s);
  }
}

void wf_worker_session_close(wf_worker_session *s) WF_TSA(no_thread_safety_analysis) {
  if (!s) return;
  wf_worker *w = s->worker;
  if (w->owner == wf_owner_token()) {
    close_own(s); /* the token says that this is the worker's thread */
    return;
  }
  pthread_mutex_lock(&w->lock);
  s->next_foreign = w->foreign;
  w->foreign = s;
  pthread_mutex_unlock(&w->lock);
}

/* ---- passes -------------------------------------------------------------------------------- */

weft_status wf_worker_open_pass(wf_pass **result, wf_worker *w, wf_request *request,
                                wf_worker_session *session, weft_error *err) {
  WF_RETURN_IF_ERROR(check_owner(w, err));
  drain(w);
  if (session) WF_RETURN_IF_ERROR(wf_worker_session_check(session, err));
  request->session_cells = session ? session->cells : NULL;
  WF_RETURN_IF_ERROR(
      wf_pass_open(result, w->plan->plan, wf_pass_id_next(&w->passes), w->pool, request, err));
  if (session) session->is_leased = true;
  w->counters.passes++;
  return WEFT_OK;
}

void wf_worker_end_turn(wf_worker_session *s) {
  if (!s) return;
  s->is_leased = false;
  if (s->is_closed) free_session(s);
}

void wf_worker_close_pass(wf_worker *w, wf_pass *p, wf_worker_session *session) {
  wf_pass_close(p);
  wf_worker_end_turn(session);
  drain(w);
}

static weft_status advance(wf_worker *w, wf_pass *p, bool *is_done, weft_error *err)
    WF_REQUIRES(wf_worker_role) {
  wf_invocation v;
  WF_RETURN_IF_ERROR(wf_pass_run(p, &v, is_done, err));
  if (*is_done) return WEFT_OK;
  WF_RETURN_IF_ERROR(wf_worker_backend_run(&w->backend, &v, w->pool, w->results, err));
  w->counters.component_runs++;
  return wf_pass_resume(p, w->results, err);
}

weft_status wf_worker_drive(wf_worker *w, wf_pass **passes, size_t n, weft_status *statuses,
                            weft_error *errors, weft_error *err) {
  WF_RETURN_IF_ERROR(check_owner(w, err));
  drain(w);
  size_t n_open = n;
  bool *is_done = wf_calloc(n + 1, sizeof *is_done);
  if (!is_done) return wf_fail_memory(err, n, "passes");
  for (size_t i = 0; i < n; i++) statuses[i] = WEFT_OK;
  while (n_open > 0) {
    for (size_t i = 0; i < n; i++) {
      if (is_done[i]) continue;
      statuses[i] = advance(w, passes[i], &is_done[i], errors ? &errors[i] : NULL);
      if (statuses[i] != WEFT_OK) is_done[i] = true;
      n_open -= is_done[i];
    }
  }
  wf_free(is_done);
  return WEFT_OK;
}

wf_worker_counters wf_worker_count(const wf_worker *w) { return w->counters; }
size_t wf_worker_value_bytes(const wf_worker *w) { return wf_datum_pool_bytes(w->pool); }
