/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

weft_status wf_runner_init(wf_runner *r, const wf_backend *backend, const wf_component *component,
                           int n_threads, int64_t chunk_tokens, int64_t context_tokens,
                           wf_profile *profile, weft_error *err) WF_NO_TSA /* not shared yet */ {
  r->backend = backend;
  r->info = wf_component_describe(backend, component);
  r->chunk_tokens = chunk_tokens;
  pthread_mutex_init(&r->lock, NULL);
  r->owner = wf_owner_mint();
  weft_status st = WEFT_OK;
  wf_runner_enter(r);
  WF_TRY(wf_team_create(&r->team, r->info->has_own_threads ? 1 : n_threads, err));
  WF_TRY(wf_backend_session_open(backend, &r->session, component, r->team, chunk_tokens, err));
  r->profile = profile;
  wf_backend_session_profile(backend, r->session, profile);
  WF_TRY(wf_kv_pool_create(&r->pool, r->info, context_tokens, 0, err));
  if (r->info->keeps_state) wf_kv_pool_attach(r->pool, backend, r->session);
out:
  wf_runner_leave(r);
  return st;
}

void wf_runner_deinit(wf_runner *r) WF_NO_TSA /* no longer shared */ {
  if (!r->backend) return;
  wf_runner_enter(r); /* as its owner */
  /* the session uses the team; the pool's blocks are only seen through runs of the session */
  wf_backend_session_close(r->backend, r->session);
  wf_kv_pool_destroy(r->pool);
  wf_team_destroy(r->team);
  wf_runner_leave(r);
  pthread_mutex_destroy(&r->lock);
  *r = (wf_runner){0};
}

void wf_runner_enter(wf_runner *r) WF_NO_TSA {
  pthread_mutex_lock(&r->lock);
  r->former = wf_owner_adopt(r->owner);
}

void wf_runner_leave(wf_runner *r) WF_NO_TSA {
  wf_owner_adopt(r->former);
  pthread_mutex_unlock(&r->lock);
}

void wf_runner_rest(wf_runner *r) {
  wf_runner_enter(r);
  wf_backend_session_rest(r->backend, r->session);
  wf_runner_leave(r);
}
