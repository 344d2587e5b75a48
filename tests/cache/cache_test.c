/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "cache/cache.h"

static const wf_state_group groups[] = {{0, 4096}, {100, 5000}};
static const wf_component_info info = {.n_groups = 2, .groups = groups};

/* Writes token t's value into its byte of each group's block, as an append would. */
static void write_tokens(wf_kv_sequence *s, int64_t from, int64_t n, unsigned char value) {
  for (size_t g = 0; g < 2; g++) {
    for (int64_t t = from; t < from + n; t++) {
      const wf_kv_table *table = &s->tables[g];
      table->blocks[t / WF_KV_BLOCK_TOKENS - table->first_block][t % WF_KV_BLOCK_TOKENS] = value;
    }
  }
}

static unsigned char read_token(const wf_kv_sequence *s, size_t g, int64_t t) {
  const wf_kv_table *table = &s->tables[g];
  return table->blocks[t / WF_KV_BLOCK_TOKENS - table->first_block][t % WF_KV_BLOCK_TOKENS];
}

static void append(wf_kv_sequence *s, int64_t n, unsigned char value) {
  weft_error err = {0};
  assert_ok(wf_kv_sequence_reserve(s, n, &err), &err);
  write_tokens(s, s->length, n, value);
  wf_kv_sequence_commit(s, n, 0);
}

static void an_append_copies_the_tail_only_when_it_is_shared(void **state) {
  (void)state;
  weft_error err = {0};
  wf_kv_pool *pool;
  wf_kv_sequence a, b;
  assert_ok(wf_kv_pool_create(&pool, &info, 1000, 0, &err), &err);
  assert_ok(wf_kv_sequence_init(&a, pool, 1000, &err), &err);
  assert_ok(wf_kv_sequence_init(&b, pool, 1000, &err), &err);
  append(&a, 70, 1);
  const unsigned char *tail = a.tables[0].blocks[1];
  append(&a, 5, 1);
  assert_ptr_equal(a.tables[0].blocks[1], tail); /* its own tail: in place */
  assert_ok(wf_kv_sequence_fork(&b, &a, &err), &err);
  append(&b, 3, 2);
  assert_ptr_equal(a.tables[0].blocks[0], b.tables[0].blocks[0]); /* the full block stays shared */
  assert_true(a.tables[0].blocks[1] != b.tables[0].blocks[1]);
  append(&a, 3, 3);
  for (int64_t t = 0; t < 75; t++) {
    assert_int_equal(read_token(&a, 0, t), 1);
    assert_int_equal(read_token(&b, 0, t), 1);
  }
  for (int64_t t = 75; t < 78; t++) {
    assert_int_equal(read_token(&a, 0, t), 3);
    assert_int_equal(read_token(&b, 0, t), 2);
  }
  wf_kv_sequence_deinit(&a);
  wf_kv_sequence_deinit(&b);
  assert_int_equal(wf_kv_pool_bytes_used(pool), 0);
  wf_kv_pool_destroy(pool);
}

static void a_window_drops_whole_blocks_and_a_rewind_past_them_empties(void **state) {
  (void)state;
  weft_error err = {0};
  wf_kv_pool *pool;
  wf_kv_sequence s;
  assert_ok(wf_kv_pool_create(&pool, &info, 1000, 0, &err), &err);
  assert_ok(wf_kv_sequence_init(&s, pool, 1000, &err), &err);
  append(&s, 400, 1);
  assert_int_equal(s.tables[0].first_block, 0);
  assert_int_equal(s.tables[1].first_block, (400 - 100 + 1) / 64);
  assert_true(wf_kv_sequence_truncate(&s, 390));
  assert_int_equal(s.length, 390);
  assert_false(wf_kv_sequence_truncate(&s, 120));
  assert_int_equal(s.length, 0);
  assert_int_equal(wf_kv_pool_bytes_used(pool), 0);
  append(&s, 10, 4);
  assert_int_equal(read_token(&s, 1, 9), 4);
  wf_kv_sequence_deinit(&s);
  wf_kv_pool_destroy(pool);
}

static void a_full_cache_is_refused_and_the_sequence_stays(void **state) {
  (void)state;
  weft_error err = {0};
  wf_kv_pool *pool;
  wf_kv_sequence s;
  assert_ok(wf_kv_pool_create(&pool, &info, 1000, 30000, &err), &err);
  assert_ok(wf_kv_sequence_init(&s, pool, 1000, &err), &err);
  append(&s, 64, 1);
  assert_refused(wf_kv_sequence_reserve(&s, 640, &err), WEFT_OUT_OF_MEMORY, &err);
  assert_int_equal(s.length, 64);
  append(&s, 10, 2);
  assert_int_equal(read_token(&s, 0, 63), 1);
  wf_kv_sequence_deinit(&s);
  wf_kv_pool_destroy(pool);
}

/* Random forks, appends, rewinds; each sequence must always read its own bytes. */
static void every_handle_reads_its_own_bytes_after_random_work(void **state) {
  (void)state;
  enum { N = 6, MAX = 700 };
  static const wf_state_group plain_groups[] = {{0, 4096}, {0, 64}};
  static const wf_component_info plain = {.n_groups = 2, .groups = plain_groups};
  weft_error err = {0};
  wf_kv_pool *pool;
  wf_kv_sequence s[N];
  static unsigned char model[N][MAX];
  assert_ok(wf_kv_pool_create(&pool, &plain, 100, 0, &err), &err);
  for (int i = 0; i < N; i++) assert_ok(wf_kv_sequence_init(&s[i], pool, 100, &err), &err);
  srand(7);
  for (int step = 0; step < 20000; step++) {
    const int i = rand() % N, what = rand() % 4;
    if (what < 2 && s[i].length < MAX - 100) {
      const int64_t n = 1 + rand() % 90;
      const unsigned char v = (unsigned char)rand();
      memset(model[i] + s[i].length, v, (size_t)n);
      append(&s[i], n, v);
    } else if (what == 2) {
      assert_true(wf_kv_sequence_truncate(&s[i], s[i].length ? rand() % (s[i].length + 1) : 0));
    } else {
      const int k = rand() % N;
      if (k == i) continue;
      assert_true(wf_kv_sequence_truncate(&s[k], 0));
      assert_ok(wf_kv_sequence_fork(&s[k], &s[i], &err), &err);
      memcpy(model[k], model[i], MAX);
    }
    const int check = rand() % N;
    for (int64_t t = 0; t < s[check].length; t++) {
      assert_int_equal(read_token(&s[check], 0, t), model[check][t]);
    }
  }
  for (int i = 0; i < N; i++) wf_kv_sequence_deinit(&s[i]);
  assert_int_equal(wf_kv_pool_bytes_used(pool), 0);
  wf_kv_pool_destroy(pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_append_copies_the_tail_only_when_it_is_shared),
      cmocka_unit_test(a_window_drops_whole_blocks_and_a_rewind_past_them_empties),
      cmocka_unit_test(a_full_cache_is_refused_and_the_sequence_stays),
      cmocka_unit_test(every_handle_reads_its_own_bytes_after_random_work),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
