/* SPDX-License-Identifier: Apache-2.0 */
/* The team: a generation counter that helpers wait on (spin, then futex-like condition wait), and a
 * sense-reversing barrier.
 *
 *   run():   publish fn, arg -> generation++ -> wake sleepers -> run own part -> wait for n_done
 *   helper:  wait until generation changes -> run part -> n_done++
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "base/mem.h"
#include "base/thread.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define RELAX() _mm_pause()
#elif defined(__aarch64__)
#define RELAX() __asm__ __volatile__("yield")
#else
#define RELAX() ((void)0)
#endif

enum {
  SPINS_BETWEEN_RUNS = 20000, /* about 0.3 ms: longer than the gap between two decode steps */
  SPINS_AT_BARRIER = 4000     /* then yield: the machine may have fewer free CPUs than members */
};

typedef struct helper {
  wf_team *team;
  pthread_t thread;
  int index;
} helper;

struct wf_team {
  int n;
  int n_started;
  WF_ALIGNED(64) atomic_uint generation;
  WF_ALIGNED(64) atomic_int n_done;
  WF_ALIGNED(64) atomic_int n_arrived;
  WF_ALIGNED(64) atomic_uint barrier_phase;
  WF_ALIGNED(64) atomic_llong next_ticket;
  WF_ALIGNED(64) atomic_int n_asleep;
  bool stop; /* written before a generation is published, read after it is seen */
  wf_team_fn *fn;
  void *arg;
  pthread_mutex_t lock; /* guards only the sleep itself; no other lock is taken inside */
  pthread_cond_t wake;
  helper *helpers; /* n - 1 */
};

static unsigned wait_for_work(wf_team *t, unsigned seen) {
  for (int i = 0; i < SPINS_BETWEEN_RUNS; i++) {
    /* acquire: what run() wrote before publishing (fn, arg, stop) is visible */
    const unsigned now = atomic_load_explicit(&t->generation, memory_order_acquire);
    if (now != seen) return now;
    RELAX();
  }
  pthread_mutex_lock(&t->lock);
  /* seq_cst, paired with run(): either run() sees this sleeper or this load sees the generation */
  atomic_fetch_add(&t->n_asleep, 1);
  while (atomic_load(&t->generation) == seen) pthread_cond_wait(&t->wake, &t->lock);
  atomic_fetch_sub(&t->n_asleep, 1);
  pthread_mutex_unlock(&t->lock);
  return atomic_load_explicit(&t->generation, memory_order_acquire);
}

static void *helper_main(void *arg) {
  const helper *h = arg;
  wf_team *t = h->team;
  const wf_member m = {t, h->index, t->n};
  unsigned seen = 0;
  for (;;) {
    seen = wait_for_work(t, seen);
    if (t->stop) return NULL;
    t->fn(&m, t->arg);
    /* release: the member's results are visible to run() when it has counted all */
    atomic_fetch_add_explicit(&t->n_done, 1, memory_order_release);
  }
}

static void publish(wf_team *t) {
  atomic_fetch_add(&t->generation, 1); /* seq_cst, paired with n_asleep in wait_for_work */
  if (atomic_load(&t->n_asleep) > 0) {
    pthread_mutex_lock(&t->lock);
    pthread_cond_broadcast(&t->wake);
    pthread_mutex_unlock(&t->lock);
  }
}

weft_status wf_team_create(wf_team **result, int n_threads, weft_error *err) {
  weft_status st = WEFT_OK;
  if (n_threads < 1 || n_threads > 1024) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "use 1 to 1024 threads",
                   "a team of %d threads cannot be made", n_threads);
  }
  wf_team *t = wf_alloc_aligned(sizeof *t, 64);
  if (!t) return wf_fail_memory(err, sizeof *t, "a team of threads");
  *t = (wf_team){.n = n_threads};
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->wake, NULL);
  t->helpers = wf_calloc((size_t)n_threads, sizeof *t->helpers);
  if (!t->helpers) {
    st = wf_fail_memory(err, 0, "a team of threads");
    goto out;
  }
  /* Helpers take no signals: SIGINT and the like belong to the program's own threads. */
  sigset_t all, before;
  sigfillset(&all);
  sigdelset(&all, SIGBUS); /* synchronous faults must reach whoever handles them */
  sigdelset(&all, SIGSEGV);
  sigdelset(&all, SIGFPE);
  sigdelset(&all, SIGILL);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int i = 1; i < n_threads; i++) {
    helper *h = &t->helpers[i - 1];
    h->team = t;
    h->index = i;
    if (pthread_create(&h->thread, NULL, helper_main, h) != 0) {
      st = wf_fail(err, WEFT_OUT_OF_MEMORY, "use fewer threads", "cannot start thread %d of %d",
                   i + 1, n_threads);
      break;
    }
    t->n_started++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (st != WEFT_OK) goto out;
  *result = t;
  t = NULL;
out:
  wf_team_destroy(t);
  return st;
}

void wf_team_destroy(wf_team *t) {
  if (!t) return;
  t->stop = true;
  publish(t);
  for (int i = 0; i < t->n_started; i++) pthread_join(t->helpers[i].thread, NULL);
  pthread_cond_destroy(&t->wake);
  pthread_mutex_destroy(&t->lock);
  wf_free(t->helpers);
  wf_free(t);
}

int wf_team_size(const wf_team *t) { return t->n; }

void wf_team_run(wf_team *t, wf_team_fn *fn, void *arg) {
  const wf_member self = {t, 0, t->n};
  /* relaxed: no helper is running, and publish() orders these stores before its work */
  atomic_store_explicit(&t->next_ticket, 0, memory_order_relaxed);
  atomic_store_explicit(&t->n_done, 0, memory_order_relaxed);
  t->fn = fn;
  t->arg = arg;
  if (t->n > 1) publish(t);
  fn(&self, arg);
  int spins = 0;
  /* acquire: pairs with the release of each helper's count */
  while (atomic_load_explicit(&t->n_done, memory_order_acquire) != t->n - 1) {
    RELAX();
    if (++spins > SPINS_AT_BARRIER) sched_yield();
  }
}

void wf_team_barrier(const wf_member *m) {
  wf_team *t = m->team;
  if (t->n == 1) return;
  /* relaxed: only this barrier's own arrivals move the phase, and they are ordered below */
  const unsigned phase = atomic_load_explicit(&t->barrier_phase, memory_order_relaxed);
  /* acq_rel: the last to arrive has seen all others' writes and passes them on */
  if (atomic_fetch_add_explicit(&t->n_arrived, 1, memory_order_acq_rel) == t->n - 1) {
    atomic_store_explicit(&t->n_arrived, 0, memory_order_relaxed); /* published by the phase */
    atomic_store_explicit(&t->barrier_phase, phase + 1, memory_order_release);
    return;
  }
  int spins = 0;
  while (atomic_load_explicit(&t->barrier_phase, memory_order_acquire) == phase) {
    RELAX();
    if (++spins > SPINS_AT_BARRIER) sched_yield();
  }
}

int64_t wf_team_ticket(const wf_member *m) {
  /* relaxed: a ticket only names work; data is ordered by the barriers around it */
  return (int64_t)atomic_fetch_add_explicit(&m->team->next_ticket, 1, memory_order_relaxed);
}

void wf_team_tickets_reset(const wf_member *m) {
  atomic_store_explicit(&m->team->next_ticket, 0, memory_order_relaxed); /* between barriers */
}
