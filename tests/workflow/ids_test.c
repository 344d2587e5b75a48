/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "workflow/ids.h"

/* ---- pass ids ------------------------------------------------------------------------------ */

static void a_zeroed_mint_has_given_out_none_and_none_is_never_given_out(void **state) {
  (void)state;
  wf_pass_mint mint = {0};
  assert_int_equal(mint.last, 0); /* what a worker reads before its first pass: "none" */
  for (int i = 0; i < 1000; i++) assert_int_not_equal(wf_pass_id_next(&mint).v, 0);
}

static void each_pass_id_is_fresh(void **state) {
  (void)state;
  enum { N = 1000 };
  wf_pass_mint mint = {0};
  uint64_t given[N];
  for (int i = 0; i < N; i++) {
    given[i] = wf_pass_id_next(&mint).v;
    for (int k = 0; k < i; k++) assert_int_not_equal(given[i], given[k]);
  }
}

static void a_variant_counts_apart_from_its_parent(void **state) {
  (void)state;
  wf_pass_mint parent = {0}, variant = {0}, other = {0};
  const uint64_t first = wf_pass_id_next(&parent).v;
  const uint64_t of_variant = wf_pass_id_next(&variant).v;
  assert_int_equal(of_variant, first); /* a namespace of its own begins where each begins */
  for (int i = 0; i < 50; i++) assert_int_not_equal(wf_pass_id_next(&variant).v, of_variant);
  assert_int_equal(wf_pass_id_next(&parent).v, first + 1); /* not advanced by 51 of the variant's */
  assert_int_equal(wf_pass_id_next(&other).v, first);
}

/* ---- graph capture ids --------------------------------------------------------------------- */

enum { N_ISLANDS = 40 };

/* All ids of the first islands, asked for in turns as interleaved captures would. */
static void capture_ids_are_unique_and_non_negative_over_all_islands(void **state) {
  (void)state;
  enum { N = N_ISLANDS * WF_CAPTURE_IDS_AN_ISLAND };
  static unsigned char seen[N];
  weft_error err = {0};
  wf_capture_mint mints[N_ISLANDS];
  memset(seen, 0, sizeof seen);
  for (int32_t i = 0; i < N_ISLANDS; i++) assert_ok(wf_capture_mint_init(&mints[i], i, &err), &err);
  for (int32_t n = 0; n < WF_CAPTURE_IDS_AN_ISLAND; n++) {
    for (int32_t i = 0; i < N_ISLANDS; i++) {
      wf_capture_id id = {-1};
      assert_ok(wf_capture_id_next(&mints[i], &id, &err), &err);
      assert_true(id.v >= 0);
      assert_int_equal(id.v / WF_CAPTURE_IDS_AN_ISLAND, i); /* its island's thousand */
      assert_true(id.v < N);
      assert_int_equal(seen[id.v]++, 0);
    }
  }
}

static void an_island_begins_at_its_thousand(void **state) {
  (void)state;
  static const struct {
    int32_t island, first;
  } cases[] = {{0, 0}, {1, 1000}, {7, 7000}, {2147482, 2147482000}};
  weft_error err = {0};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    wf_capture_mint mint;
    wf_capture_id id = {-1};
    assert_ok(wf_capture_mint_init(&mint, cases[i].island, &err), &err);
    assert_ok(wf_capture_id_next(&mint, &id, &err), &err);
    assert_int_equal(id.v, cases[i].first);
    assert_ok(wf_capture_id_next(&mint, &id, &err), &err);
    assert_int_equal(id.v, cases[i].first + 1);
  }
}

static void an_exhausted_island_refuses_and_leaves_the_result_and_its_neighbour(void **state) {
  (void)state;
  weft_error err = {0};
  wf_capture_mint mint, next;
  wf_capture_id id = {-1};
  assert_ok(wf_capture_mint_init(&mint, 3, &err), &err);
  assert_ok(wf_capture_mint_init(&next, 4, &err), &err);
  for (int i = 0; i < 1000; i++) assert_ok(wf_capture_id_next(&mint, &id, &err), &err);
  assert_int_equal(id.v, 3999);
  for (int i = 0; i < 5; i++) { /* and goes on refusing */
    wf_capture_id untouched = {-77};
    memset(&err, 0, sizeof err);
    assert_refused(wf_capture_id_next(&mint, &untouched, &err), WEFT_LIMIT, &err);
    assert_int_equal(untouched.v, -77);
    assert_non_null(strstr(err.what, "3")); /* which island */
    assert_true(err.fix[0] != '\0');
  }
  assert_ok(wf_capture_id_next(&next, &id, &err), &err);
  assert_int_equal(id.v, 4000);
}

static void an_island_whose_ids_do_not_fit_is_refused(void **state) {
  (void)state;
  /* 2147483 * 1000 + 999 is above INT32_MAX, 2147482 * 1000 + 999 is not. */
  static const int32_t refused[] = {-1, INT32_MIN, 2147483, 2147484, INT32_MAX};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    weft_error err = {0};
    wf_capture_mint mint;
    assert_refused(wf_capture_mint_init(&mint, refused[i], &err), WEFT_INVALID_ARGUMENT, &err);
  }
  weft_error err = {0};
  wf_capture_mint mint;
  wf_capture_id id = {-1};
  assert_ok(wf_capture_mint_init(&mint, 2147482, &err), &err);
  for (int i = 0; i < 1000; i++) {
    assert_ok(wf_capture_id_next(&mint, &id, &err), &err);
    assert_true(id.v >= 0);
  }
  assert_int_equal(id.v, 2147482999);
  assert_refused(wf_capture_id_next(&mint, &id, &err), WEFT_LIMIT, &err);
}

/* ---- session ids --------------------------------------------------------------------------- */

static void session_ids_count_from_one_by_one(void **state) {
  (void)state;
  wf_session_mint mint = {0};
  for (uint64_t i = 1; i <= 1000; i++) assert_int_equal(wf_session_id_next(&mint).v, i);
}

/* Several rounds: whether threads meet within one is the scheduler's choice. */
enum { N_THREADS = 8, N_EACH = 50000, N_ROUNDS = 20 };

typedef struct minting {
  wf_session_mint mint;
  pthread_barrier_t start;
  uint64_t given[N_THREADS][N_EACH];
} minting;

typedef struct minter {
  minting *all;
  int index;
} minter;

static void *mint_sessions(void *arg) {
  const minter *m = arg;
  pthread_barrier_wait(&m->all->start); /* all at once, so that they contend */
  for (int i = 0; i < N_EACH; i++) {
    m->all->given[m->index][i] = wf_session_id_next(&m->all->mint).v;
  }
  return NULL;
}

/* Round r has minted exactly the ids after r * N up to (r + 1) * N, each once. */
static void mint_a_round(minting *all, unsigned char *seen, uint64_t first, uint64_t last) {
  pthread_t threads[N_THREADS];
  minter minters[N_THREADS];
  for (int t = 0; t < N_THREADS; t++) {
    minters[t] = (minter){all, t};
    assert_int_equal(pthread_create(&threads[t], NULL, mint_sessions, &minters[t]), 0);
  }
  for (int t = 0; t < N_THREADS; t++) assert_int_equal(pthread_join(threads[t], NULL), 0);
  for (int t = 0; t < N_THREADS; t++) {
    for (int i = 0; i < N_EACH; i++) {
      const unsigned long long id = all->given[t][i];
      if (id < first || id > last) {
        fail_msg("id %llu was minted between %llu and %llu", id, (unsigned long long)first,
                 (unsigned long long)last);
      }
      if (seen[id - first]++) fail_msg("id %llu was minted twice", id);
    }
  }
}

static void eight_threads_never_mint_the_same_session_id(void **state) {
  (void)state;
  enum { N = N_THREADS * N_EACH };
  minting *all = calloc(1, sizeof *all);
  unsigned char *seen = malloc(N);
  assert_non_null(all);
  assert_non_null(seen);
  assert_int_equal(pthread_barrier_init(&all->start, NULL, N_THREADS), 0);
  for (uint64_t round = 0; round < N_ROUNDS; round++) {
    memset(seen, 0, N);
    mint_a_round(all, seen, round * N + 1, (round + 1) * N);
  }
  assert_int_equal(wf_session_id_next(&all->mint).v, (uint64_t)N_ROUNDS * N + 1);
  pthread_barrier_destroy(&all->start);
  free(seen);
  free(all);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_zeroed_mint_has_given_out_none_and_none_is_never_given_out),
      cmocka_unit_test(each_pass_id_is_fresh),
      cmocka_unit_test(a_variant_counts_apart_from_its_parent),
      cmocka_unit_test(capture_ids_are_unique_and_non_negative_over_all_islands),
      cmocka_unit_test(an_island_begins_at_its_thousand),
      cmocka_unit_test(an_exhausted_island_refuses_and_leaves_the_result_and_its_neighbour),
      cmocka_unit_test(an_island_whose_ids_do_not_fit_is_refused),
      cmocka_unit_test(session_ids_count_from_one_by_one),
      cmocka_unit_test(eight_threads_never_mint_the_same_session_id),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
