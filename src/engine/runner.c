/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

weft_status wf_runner_init(wf_runner *r, const wf_backend *backend, const wf_component *component,
                           int n_threads, int64_t chunk_tokens, int64_t context_tokens,
                           weft_error *err) WF_NO_TSA /* not shared yet */ {
  r->backend = backend;
  r->info = wf_component_describe(backend, component);
  r->chunk_tokens = chunk_tokens;
  pthread_mutex_init(&r->lock, NULL);
  WF_RETURN_IF_ERROR(wf_team_create(&r->team, n_threads, err));
  WF_RETURN_IF_ERROR(
      wf_backend_session_open(backend, &r->session, component, r->team, chunk_tokens, err));
  return wf_kv_pool_create(&r->pool, r->info, context_tokens, 0, err);
}

void wf_runner_deinit(wf_runner *r) WF_NO_TSA /* no longer shared */ {
  if (!r->backend) return;
  /* the session uses the team; the pool's blocks are only seen through runs of the session */
  wf_backend_session_close(r->backend, r->session);
  wf_kv_pool_destroy(r->pool);
  wf_team_destroy(r->team);
  pthread_mutex_destroy(&r->lock);
  *r = (wf_runner){0};
}

void wf_runner_enter(wf_runner *r) WF_NO_TSA { pthread_mutex_lock(&r->lock); }

void wf_runner_leave(wf_runner *r) WF_NO_TSA { pthread_mutex_unlock(&r->lock); }
