/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/thread.h"

enum { N_ROUNDS = 200, MAX_MEMBERS = 8 };

typedef struct job {
  int64_t values[MAX_MEMBERS];
  int64_t sums[MAX_MEMBERS];
  int64_t tickets;
} job;

/* Each member writes its own value, then after the barrier reads all of them, many times over. */
static void add_up(const wf_member *m, void *arg) {
  job *j = arg;
  for (int round = 0; round < N_ROUNDS; round++) {
    j->values[m->index] = round * 10 + m->index;
    wf_team_barrier(m);
    for (int i = 0; i < m->n; i++) j->sums[m->index] += j->values[i];
    wf_team_barrier(m);
  }
}

static void every_member_sees_what_all_wrote_before_a_barrier(void **state) {
  (void)state;
  weft_error err = {0};
  for (int n = 1; n <= MAX_MEMBERS; n++) { /* more members than CPUs as well */
    wf_team *t = NULL;
    job j = {0};
    assert_ok(wf_team_create(&t, n, &err), &err);
    assert_int_equal(wf_team_size(t), n);
    for (int run = 0; run < 3; run++) wf_team_run(t, add_up, &j);
    int64_t expected = 0;
    for (int round = 0; round < N_ROUNDS; round++) {
      for (int i = 0; i < n; i++) expected += round * 10 + i;
    }
    for (int i = 0; i < n; i++) assert_int_equal(j.sums[i], expected * 3);
    wf_team_destroy(t);
  }
}

static void take_tickets(const wf_member *m, void *arg) {
  unsigned char *taken = arg;
  for (int64_t i = wf_team_ticket(m); i < 1000; i = wf_team_ticket(m)) taken[i]++;
  wf_team_barrier(m);
  if (m->index == 0) wf_team_tickets_reset(m);
  wf_team_barrier(m);
  for (int64_t i = wf_team_ticket(m); i < 1000; i = wf_team_ticket(m)) taken[i]++;
}

static void each_ticket_is_handed_out_once(void **state) {
  (void)state;
  weft_error err = {0};
  wf_team *t = NULL;
  unsigned char taken[1000] = {0};
  assert_ok(wf_team_create(&t, 4, &err), &err);
  wf_team_run(t, take_tickets, taken);
  for (int i = 0; i < 1000; i++) assert_int_equal(taken[i], 2);
  wf_team_destroy(t);
}

static void ranges_cover_everything_once_in_whole_grains(void **state) {
  (void)state;
  for (int64_t n = 0; n < 70; n++) {
    for (int64_t grain = 1; grain < 20; grain += 3) {
      for (int members = 1; members < 6; members++) {
        int64_t at = 0;
        for (int i = 0; i < members; i++) {
          const wf_member m = {NULL, i, members};
          int64_t begin, end;
          wf_member_range(&m, n, grain, &begin, &end);
          assert_int_equal(begin, at);
          assert_true(end == n || end % grain == 0);
          at = end;
        }
        assert_int_equal(at, n);
      }
    }
  }
}

static void nothing(const wf_member *m, void *arg) {
  (void)m;
  (void)arg;
}

static int64_t cpu_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void an_idle_team_uses_no_cpu(void **state) {
  (void)state;
  weft_error err = {0};
  wf_team *t = NULL;
  assert_ok(wf_team_create(&t, 4, &err), &err);
  wf_team_run(t, nothing, NULL);
  const struct timespec pause = {.tv_nsec = 100000000}, measured = {.tv_nsec = 400000000};
  nanosleep(&pause, NULL); /* longer than anybody spins */
  const int64_t before = cpu_ns();
  nanosleep(&measured, NULL);
  assert_true(cpu_ns() - before < 10000000);
  wf_team_run(t, nothing, NULL); /* and it wakes again */
  wf_team_destroy(t);
}

static void a_team_of_no_threads_is_refused(void **state) {
  (void)state;
  weft_error err = {0};
  wf_team *t = NULL;
  assert_refused(wf_team_create(&t, 0, &err), WEFT_INVALID_ARGUMENT, &err);
  assert_true(wf_threads_usable() >= 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_member_sees_what_all_wrote_before_a_barrier),
      cmocka_unit_test(each_ticket_is_handed_out_once),
      cmocka_unit_test(ranges_cover_everything_once_in_whole_grains),
      cmocka_unit_test(an_idle_team_uses_no_cpu),
      cmocka_unit_test(a_team_of_no_threads_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
