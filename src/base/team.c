/* SPDX-License-Identifier: Apache-2.0 */
/* The team: a generation counter that helpers wait on and a barrier that ends each run. Whoever
 * waits spins for a while and then sleeps in the kernel: a member that has lost its CPU to another
 * program is moved to the sleeper's CPU at once, where a spinning member would keep both away from
 * it. Measured with one other busy process on 2 CPUs, 2 members: decode 23 tokens a second with
 * sched_yield, see bench.
 *
 *   run():   publish fn, arg -> generation++ -> wake sleepers -> run own part -> barrier
 *   helper:  wait until generation changes -> run part -> barrier
 */
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

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
  SPINS_AT_BARRIER = 2000     /* then sleep: the machine may have fewer free CPUs than members */
};

/* A word that only grows by one, and whoever sleeps until it does. */
typedef struct gate {
  atomic_uint value;
  atomic_int n_asleep;
} gate;

typedef struct helper {
  wf_team *team;
  pthread_t thread;
  int index;
} helper;

struct wf_team {
  int n;
  int n_started;
  WF_ALIGNED(64) gate generation;
  WF_ALIGNED(64) gate barrier;
  WF_ALIGNED(64) atomic_int n_arrived;
  WF_ALIGNED(64) atomic_llong next_ticket;
  bool stop; /* written before a generation is published, read after it is seen */
  wf_team_fn *fn;
  void *arg;
  helper *helpers; /* n - 1 */
};

/* Returns the value once it differs from `seen`. */
static unsigned gate_wait(gate *g, unsigned seen, int n_spins) {
  for (int i = 0; i < n_spins; i++) {
    /* acquire: what was written before the gate advanced is visible */
    const unsigned now = atomic_load_explicit(&g->value, memory_order_acquire);
    if (now != seen) return now;
    RELAX();
  }
  /* seq_cst, paired with gate_advance: either it sees this sleeper or the kernel sees the new value
   */
  atomic_fetch_add(&g->n_asleep, 1);
  while (atomic_load(&g->value) == seen) {
    (void)syscall(SYS_futex, &g->value, FUTEX_WAIT_PRIVATE, seen, NULL, NULL,
                  0); /* woken, or look again */
  }
  atomic_fetch_sub(&g->n_asleep, 1);
  return atomic_load_explicit(&g->value, memory_order_acquire);
}

static void gate_advance(gate *g) {
  atomic_fetch_add(&g->value,
                   1); /* seq_cst, paired with n_asleep in gate_wait; releases all before it */
  if (atomic_load(&g->n_asleep) > 0) {
    (void)syscall(SYS_futex, &g->value, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
  }
}

static void *helper_main(void *arg) {
  const helper *h = arg;
  wf_team *t = h->team;
  const wf_member m = {t, h->index, t->n};
  unsigned seen = 0;
  for (;;) {
    seen = gate_wait(&t->generation, seen, SPINS_BETWEEN_RUNS);
    if (t->stop) return NULL;
    t->fn(&m, t->arg);
    wf_team_barrier(&m);
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
  gate_advance(&t->generation);
  for (int i = 0; i < t->n_started; i++) pthread_join(t->helpers[i].thread, NULL);
  wf_free(t->helpers);
  wf_free(t);
}

int wf_team_size(const wf_team *t) { return t->n; }

void wf_team_run(wf_team *t, wf_team_fn *fn, void *arg) {
  const wf_member self = {t, 0, t->n};
  /* relaxed: no helper is running, and the gate orders these stores before its work */
  atomic_store_explicit(&t->next_ticket, 0, memory_order_relaxed);
  t->fn = fn;
  t->arg = arg;
  if (t->n > 1) gate_advance(&t->generation);
  fn(&self, arg);
  wf_team_barrier(&self);
}

void wf_team_barrier(const wf_member *m) {
  wf_team *t = m->team;
  if (t->n == 1) return;
  /* relaxed: the barrier advances only when this member has arrived as well */
  const unsigned phase = atomic_load_explicit(&t->barrier.value, memory_order_relaxed);
  /* acq_rel: the last to arrive has seen all others' writes and passes them on */
  if (atomic_fetch_add_explicit(&t->n_arrived, 1, memory_order_acq_rel) == t->n - 1) {
    atomic_store_explicit(&t->n_arrived, 0, memory_order_relaxed); /* published by the gate */
    gate_advance(&t->barrier);
    return;
  }
  (void)gate_wait(&t->barrier, phase, SPINS_AT_BARRIER);
}

int64_t wf_team_ticket(const wf_member *m) {
  /* relaxed: a ticket only names work; data is ordered by the barriers around it */
  return (int64_t)atomic_fetch_add_explicit(&m->team->next_ticket, 1, memory_order_relaxed);
}

void wf_team_tickets_reset(const wf_member *m) {
  atomic_store_explicit(&m->team->next_ticket, 0, memory_order_relaxed); /* between barriers */
}
