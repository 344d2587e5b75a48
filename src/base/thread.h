/* SPDX-License-Identifier: Apache-2.0 */
/* A team of threads that runs one function together, and how many threads this process may use. */
#ifndef WF_THREAD_H
#define WF_THREAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* The role of a worker's thread for clang's thread-safety analysis: never defined, only named. It
 * is entered where a worker's work begins (its main function, or the lock that makes a caller the
 * worker), and what belongs to a worker is guarded by it. */
typedef struct WF_CAPABILITY("role") wf_role wf_role;
struct WF_CAPABILITY("role") wf_role {
  char unused;
};
extern wf_role wf_worker_role;

/* A team: member 0 is the thread that calls wf_team_run, the others wait for work. Between runs the
 * helpers spin briefly, then sleep: an idle team costs no CPU. Nobody borrows across teams.
 * Owner: one worker. Thread: all calls from that worker's thread. */
typedef struct wf_team wf_team;

/* What a member is told: who it is, and the team for barriers. */
typedef struct wf_member {
  wf_team *team;
  int index, n; /* 0 <= index < n */
} wf_member;
typedef void wf_team_fn(const wf_member *m, void *arg);

/* n_threads >= 1 counts the caller. Fewer threads than asked is an error, never a silent change.
 * Errors: OUT_OF_MEMORY (threads or memory), INVALID_ARGUMENT. */
weft_status wf_team_create(wf_team **result, int n_threads, weft_error *err) WF_NODISCARD;
void wf_team_destroy(wf_team *t); /* joins the helpers; NULL is fine */
int wf_team_size(const wf_team *t);
/* Runs fn(member, arg) on every member and returns when all have returned. Allocates nothing. */
void wf_team_run(wf_team *t, wf_team_fn *fn, void *arg);
/* Inside fn only: returns once every member has called it. Everything written before by any
 * member is visible after. */
void wf_team_barrier(const wf_member *m);
/* Inside fn only: hands out 0, 1, 2 ... to whoever asks first; wf_team_barrier with
 * `wf_team_tickets_reset` between two uses. For work of uneven size whose result does not depend
 * on who does it. */
int64_t wf_team_ticket(const wf_member *m);
void wf_team_tickets_reset(const wf_member *m); /* one member calls it, between two barriers */

/* Splits n items into members' even ranges, multiples of `grain`: [*begin, *end) for `m`. */
static inline void wf_member_range(const wf_member *m, int64_t n, int64_t grain, int64_t *begin,
                                   int64_t *end) {
  const int64_t n_grains = (n + grain - 1) / grain;
  int64_t first = n_grains * m->index / m->n * grain;
  int64_t last = n_grains * (m->index + 1) / m->n * grain;
  *begin = first < n ? first : n;
  *end = last < n ? last : n;
}

/* Threads worth starting: the affinity mask's CPUs, at most the cgroup's quota (v2 cpu.max or v1
 * cfs), rounded up; at least 1. Thread: any. */
int wf_threads_usable(void);

/* Where the kernel tells a process's groups and their limits. */
typedef struct wf_group_files {
  const char *list;  /* /proc/self/cgroup */
  const char *mount; /* /sys/fs/cgroup */
} wf_group_files;
extern const wf_group_files wf_group_files_here;
/* `cpus`, or the quota of the group and all above it where that is less, rounded up; at least 1.
 * Thread: any. */
int wf_group_cpus(const wf_group_files *files, int cpus);
/* Bytes that the group and all above it leave; UINT64_MAX: no limit. Thread: any. */
uint64_t wf_group_memory(const wf_group_files *files);

/* Memory this process may still use in bytes: the machine's available memory, at most what the
 * cgroup limit leaves; UINT64_MAX when neither can be read. *limit_is_cgroup tells which. */
uint64_t wf_memory_available(int *limit_is_cgroup);
/* Largest resident size so far, bytes. */
uint64_t wf_memory_peak(void);

#endif
