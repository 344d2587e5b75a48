/* SPDX-License-Identifier: Apache-2.0 */
/* A run, and for graphs whose Loops may go on for ever a thread that ends it by the clock. */
#include <errno.h>
#include <time.h>

#include "backend/ort/ort.h"

typedef struct watch {
  pthread_mutex_t lock; /* guards the two below; a leaf */
  pthread_cond_t ended;
  bool is_over, has_fired;
  const ort_library *lib;
  ort_run_options *options;
  struct timespec until;
} watch;

static void *wait_for_end(void *arg) {
  watch *w = arg;
  pthread_mutex_lock(&w->lock);
  while (!w->is_over && !w->has_fired) {
    if (pthread_cond_timedwait(&w->ended, &w->lock, &w->until) == ETIMEDOUT && !w->is_over) {
      ort_status *status = w->lib->api.set_terminate(w->options);
      if (status) w->lib->api.release_status(status);
      w->has_fired = true;
    }
  }
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

static weft_status run(wf_backend_session *s, weft_error *err) {
  const ort_library *lib = s->c->lib;
  return ort_check(lib,
                   lib->api.run_binding(s->session->handle, s->run_options, s->binding->handle),
                   err, "ends a run with an error");
}

weft_status ort_run_watched(wf_backend_session *s, weft_error *err) {
  const int64_t limit_ms = s->c->loop_limit_ms;
  watch w = {.lib = s->c->lib, .options = s->run_options};
  pthread_condattr_t monotonic;
  pthread_t thread;
  if (limit_ms == 0) return run(s, err);
  clock_gettime(CLOCK_MONOTONIC, &w.until);
  w.until.tv_sec += limit_ms / 1000;
  w.until.tv_nsec += limit_ms % 1000 * 1000000;
  if (w.until.tv_nsec >= 1000000000) {
    w.until.tv_sec++;
    w.until.tv_nsec -= 1000000000;
  }
  pthread_mutex_init(&w.lock, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&w.ended, &monotonic);
  pthread_condattr_destroy(&monotonic);
  weft_status st;
  if (pthread_create(&thread, NULL, wait_for_end, &w) != 0) {
    st = wf_fail_memory(err, 0, "a thread that watches a Loop");
  } else {
    st = run(s, err);
    pthread_mutex_lock(&w.lock);
    w.is_over = true;
    pthread_cond_signal(&w.ended);
    pthread_mutex_unlock(&w.lock);
    pthread_join(thread, NULL);
    if (w.has_fired) {
      ort_status *status = w.lib->api.unset_terminate(s->run_options);
      if (status) w.lib->api.release_status(status);
      if (st != WEFT_OK) {
        st = wf_fail(err, WEFT_LIMIT, "export the model with fewer iterations",
                     "the Loops of a run went on for %lld ms without an end", (long long)limit_ms);
      }
    }
  }
  pthread_cond_destroy(&w.ended);
  pthread_mutex_destroy(&w.lock);
  return st;
}
