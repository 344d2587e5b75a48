/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of a workflow: conversations whose cells outlive a run. */
#include <stdatomic.h>

#include "base/file.h"
#include "engine/engine.h"
#include "engine/workflow.h"
#include "workflow/checkpoint.h"

/* A snapshot is a session that nobody runs on. */
struct weft_session {
  weft_workflow *workflow;
  wf_worker_session *state;
};
struct weft_snapshot {
  weft_session session;
};

/* What a session's file may hold: more than any machine keeps of one conversation. */
static const size_t most_file_bytes = (size_t)1 << 40;

static weft_status make(weft_session **result, weft_workflow *w, const weft_session *from,
                        weft_error *err) {
  weft_status st;
  weft_session *s = wf_zalloc(sizeof *s);
  if (!s) return wf_fail_memory(err, sizeof *s, "a session");
  if (!wf_workflow_enter(w)) {
    wf_free(s);
    return wf_workflow_fail_busy(err);
  }
  if (from)
    st = wf_worker_session_fork(&s->state, from->state, &w->sessions, err);
  else
    st = wf_worker_session_open(&s->state, w->worker, &w->sessions, err);
  if (st == WEFT_OK) {
    s->workflow = w;
    wf_workflow_hold(w);
    *result = s;
  } else {
    wf_free(s);
  }
  wf_workflow_leave(w);
  return st;
}

weft_status weft_session_create(weft_session **result, weft_workflow *w, weft_error *err) {
  return make(result, w, NULL, err);
}

weft_status weft_session_fork(weft_session **result, weft_session *from, weft_error *err) {
  return make(result, from->workflow, from, err);
}

void weft_session_close(weft_session *s) {
  if (!s) return;
  wf_worker_session_close(s->state); /* on a foreign thread: queued for the worker */
  wf_workflow_release(s->workflow);
  wf_free(s);
}

uint64_t weft_session_number(const weft_session *s) {
  return wf_worker_session_identity(s->state).v;
}

weft_status weft_session_turn(weft_session *s, const weft_request *request, weft_error *err) {
  return wf_workflow_run_on(s->workflow, request, s->state, err);
}

weft_status weft_session_reset(weft_session *s, weft_error *err) {
  weft_workflow *w = s->workflow;
  if (!wf_workflow_enter(w)) return wf_workflow_fail_busy(err);
  const weft_status st = wf_worker_session_reset(s->state, err);
  wf_workflow_leave(w);
  return st;
}

weft_status weft_session_snapshot(weft_snapshot **result, weft_session *s, weft_error *err) {
  weft_session *copy = NULL;
  WF_RETURN_IF_ERROR(make(&copy, s->workflow, s, err));
  *result = (weft_snapshot *)copy; /* its first member, and all of it */
  return WEFT_OK;
}

void weft_snapshot_release(weft_snapshot *snapshot) {
  weft_session_close((weft_session *)snapshot);
}

weft_status weft_session_rewind(weft_session *s, const weft_snapshot *to, weft_error *err) {
  weft_workflow *w = s->workflow;
  if (to->session.workflow != w) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "use a snapshot of this workflow's sessions",
                   "the snapshot belongs to another workflow");
  }
  if (!wf_workflow_enter(w)) return wf_workflow_fail_busy(err);
  const weft_status st = wf_worker_session_copy(s->state, to->session.state, err);
  wf_workflow_leave(w);
  return st;
}

weft_status weft_session_save(weft_session *s, const char *path, weft_error *err) {
  weft_workflow *w = s->workflow;
  wf_buf bytes = {0};
  if (!wf_workflow_enter(w)) return wf_workflow_fail_busy(err);
  weft_status st = wf_checkpoint_write(s->state, &bytes, err);
  wf_workflow_leave(w);
  if (st == WEFT_OK) st = wf_file_write(path, bytes.at, bytes.n, true, err);
  wf_buf_deinit(&bytes);
  return st;
}

weft_status weft_session_load(weft_session *s, const char *path, weft_error *err) {
  weft_workflow *w = s->workflow;
  char *bytes = NULL;
  size_t n = 0;
  WF_RETURN_IF_ERROR(wf_file_read(path, most_file_bytes, &bytes, &n, err));
  weft_status st = WEFT_OK;
  if (wf_workflow_enter(w)) {
    st = wf_checkpoint_read(s->state, (wf_str){bytes, n}, err);
    wf_workflow_leave(w);
  } else {
    st = wf_workflow_fail_busy(err);
  }
  wf_free(bytes);
  return st == WEFT_OK ? st : wf_fail_in(err, st, "'%s': ", path);
}
