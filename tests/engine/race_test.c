/* SPDX-License-Identifier: Apache-2.0 */
/* One model, many threads: what is called `any` gives each thread what it gives alone, a second
 * call on a generation is refused, and cancel and close may come from another thread at any moment.
 * These find most under ThreadSanitizer (make check-long); the moments are pseudo-random. */
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "chain.h"
#include "support/ort_library.h"
#include "weft/weft.h"

enum { N_THREADS = 8, N_ROUNDS = 40, N_BRIEF = 60 };
static chain c;

static weft_model *open_model(void) {
  weft_error err = {0};
  weft_model *m = NULL;
  weft_model_options o;
  weft_model_options_init(&o, sizeof o);
  o.n_threads = 2;
  o.use_cache = 0;
  if (test_is_on_ort()) {
    o.backend = "ort";
    o.ort_library = test_library();
  }
  assert_ok(weft_model_open(&m, c.dir, &o, &err), &err);
  return m;
}

static int make_package(void **state) {
  (void)state;
  chain_init(&c);
  for (int i = 'a'; i <= 'z'; i++) chain_set(&c, i, i == 'z' ? 'a' : i + 1, 20); /* for ever */
  chain_write(&c, "280", 4096);
  return 0;
}

static int remove_package(void **state) {
  (void)state;
  chain_remove(&c);
  return 0;
}

static weft_generation *begin_up_to(weft_model *m, char first, int64_t max_tokens) {
  weft_error err = {0};
  weft_generation *g = NULL;
  weft_generation_options o;
  const int32_t id = first;
  weft_generation_options_init(&o, sizeof o);
  o.greedy = 1;
  o.max_tokens = max_tokens;
  assert_ok(weft_generation_create(&g, m, &o, &err), &err);
  assert_ok(weft_generation_append(g, &id, 1, &err), &err);
  return g;
}

static weft_generation *begin(weft_model *m, char first) { return begin_up_to(m, first, -1); }

/* Some hundred to ten thousand turns of nothing. */
static void dawdle(unsigned *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  for (volatile unsigned i = *seed >> 18; i > 0; i--) {
  }
}

/* ---- what any thread may call -------------------------------------------------------------- */

typedef struct speaker {
  weft_model *model;
  int index;
  bool is_same;
} speaker;

static bool speak(weft_model *m, int index, wf_buf *all) {
  weft_error err = {0};
  char text[64], chat[160], *back = NULL, *bytes = NULL;
  int32_t *ids = NULL, *chat_ids = NULL;
  size_t n = 0, n_chat = 0, n_back = 0, n_bytes = 0;
  const int length =
      snprintf(text, sizeof text, "thread %d says \xc3\xa9 <|end|> %d", index, index);
  (void)snprintf(chat, sizeof chat, "[{\"role\": \"user\", \"content\": \"%s\"}]", text);
  const bool is_ok = weft_tokenize(m, text, (size_t)length, 0, &ids, &n, &err) == WEFT_OK &&
                     weft_chat_ids(m, chat, strlen(chat), &chat_ids, &n_chat, &err) == WEFT_OK &&
                     weft_detokenize(m, chat_ids, n_chat, 0, &back, &n_back, &err) == WEFT_OK &&
                     weft_token_bytes(m, ids[n / 2], &bytes, &n_bytes, &err) == WEFT_OK;
  if (is_ok) {
    wf_buf_add(all, ids, n * sizeof *ids);
    wf_buf_add(all, chat_ids, n_chat * sizeof *chat_ids);
    wf_buf_add(all, back, n_back);
    wf_buf_add(all, bytes, n_bytes);
  }
  weft_free(ids);
  weft_free(chat_ids);
  weft_free(back);
  weft_free(bytes);
  return is_ok;
}

static void *speak_often(void *arg) {
  speaker *s = arg;
  wf_buf first = {0};
  s->is_same = speak(s->model, s->index, &first);
  for (int i = 0; i < N_ROUNDS && s->is_same; i++) {
    wf_buf again = {0};
    s->is_same = speak(s->model, s->index, &again) && again.n == first.n &&
                 memcmp(again.at, first.at, first.n) == 0;
    wf_buf_deinit(&again);
  }
  wf_buf_deinit(&first);
  return NULL;
}

static void threads_that_share_a_model_each_read_their_own_text(void **state) {
  (void)state;
  pthread_t threads[N_THREADS];
  speaker speakers[N_THREADS];
  weft_model *m = open_model();
  for (int i = 0; i < N_THREADS; i++) {
    speakers[i] = (speaker){m, i, false};
    assert_int_equal(pthread_create(&threads[i], NULL, speak_often, &speakers[i]), 0);
  }
  for (int i = 0; i < N_THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_true(speakers[i].is_same);
  }
  weft_model_close(m);
}

/* ---- cancel and close ------------------------------------------------------------------------ */

typedef struct runner {
  weft_generation *g;
  atomic_bool is_inside;
  atomic_int n_tokens;
  weft_status status;
  weft_finish finish;
  weft_error err;
} runner;

static int count_token(void *user, weft_generation *g, const weft_token *t) {
  runner *r = user;
  (void)g;
  (void)t;
  atomic_fetch_add(&r->n_tokens, 1);
  atomic_store(&r->is_inside, true);
  return 0;
}

static void *run_to_the_end(void *arg) {
  runner *r = arg;
  weft_result result = {.struct_size = sizeof result};
  r->status = weft_generation_run(r->g, count_token, r, &result, &r->err);
  r->finish = result.finish;
  atomic_store(&r->is_inside, true);
  return NULL;
}

static void a_cancel_at_any_moment_ends_the_answer_and_keeps_the_conversation(void **state) {
  (void)state;
  unsigned seed = 1;
  weft_error err = {0};
  weft_model *m = open_model();
  for (int i = 0; i < N_BRIEF; i++) {
    pthread_t thread;
    runner r = {.g = begin(m, 'a')};
    weft_cancel *cancel = weft_generation_cancel_handle(r.g);
    assert_non_null(cancel);
    assert_int_equal(pthread_create(&thread, NULL, run_to_the_end, &r), 0);
    if (i % 2) {
      while (!atomic_load(&r.is_inside)) dawdle(&seed);
    }
    dawdle(&seed);
    weft_cancel_request(cancel);
    pthread_join(thread, NULL);
    assert_int_equal(r.status, WEFT_CANCELLED);
    assert_int_equal(r.finish, WEFT_FINISH_CANCELLED);
    const size_t n = weft_generation_length(r.g);
    const int32_t *tokens = weft_generation_tokens(r.g);
    for (size_t k = 0; k < n; k++) assert_int_equal(tokens[k], 'a' + (int)(k % 26));
    const int32_t next = 'a' + (int32_t)(n % 26);
    assert_ok(weft_generation_append(r.g, &next, 1, &err), &err);
    weft_generation_close(r.g);
    weft_cancel_request(cancel); /* after its generation it does nothing */
    weft_cancel_release(cancel);
  }
  weft_model_close(m);
}

static void a_close_at_any_moment_frees_once_and_ends_the_call(void **state) {
  (void)state;
  unsigned seed = 7;
  for (int i = 0; i < N_BRIEF; i++) {
    weft_model *m = open_model();
    pthread_t thread;
    runner r = {.g = begin(m, 'a')};
    weft_model_close(m); /* the generation holds it */
    assert_int_equal(pthread_create(&thread, NULL, run_to_the_end, &r), 0);
    while (!atomic_load(&r.is_inside)) dawdle(&seed);
    dawdle(&seed);
    weft_generation_close(r.g);
    pthread_join(thread, NULL);
    assert_true(r.status == WEFT_CANCELLED || r.status == WEFT_OK);
  }
}

static void *run_briefly(void *arg) {
  runner *r = arg;
  weft_token t = {.struct_size = sizeof t};
  for (int i = 0; i < 3 && r->status == WEFT_OK; i++) {
    r->status = weft_generation_step(r->g, &t, &r->err);
  }
  atomic_store(&r->is_inside, true);
  return NULL;
}

/* The only token's callback lets the close go, which then meets the end of the call. */
static void a_close_against_the_end_of_a_call_frees_once(void **state) {
  (void)state;
  weft_model *m = open_model();
  for (int i = 0; i < N_BRIEF * 8; i++) {
    pthread_t thread;
    unsigned seed = (unsigned)i;
    runner r = {.g = begin_up_to(m, 'a', 1)};
    assert_int_equal(pthread_create(&thread, NULL, run_to_the_end, &r), 0);
    while (!atomic_load(&r.is_inside)) {
    }
    if (i % 2) dawdle(&seed);
    weft_generation_close(r.g);
    pthread_join(thread, NULL);
    assert_true(r.status == WEFT_CANCELLED || r.status == WEFT_OK);
  }
  weft_model_close(m);
}

static void a_second_call_is_refused_or_comes_between_two_steps(void **state) {
  (void)state;
  unsigned seed = 3;
  weft_model *m = open_model();
  for (int i = 0; i < N_BRIEF; i++) {
    pthread_t thread;
    runner r = {.g = begin(m, 'a')};
    weft_token t = {.struct_size = sizeof t};
    weft_error err = {0};
    assert_int_equal(pthread_create(&thread, NULL, run_briefly, &r), 0);
    dawdle(&seed);
    const weft_status st = weft_generation_step(r.g, &t, &err);
    assert_true(st == WEFT_OK || st == WEFT_SESSION_BUSY);
    while (!atomic_load(&r.is_inside)) dawdle(&seed);
    weft_generation_close(r.g);
    pthread_join(thread, NULL);
    assert_true(r.status == WEFT_OK || r.status == WEFT_SESSION_BUSY);
  }
  weft_model_close(m);
}

static void *open_and_answer(void *arg) {
  int *n = arg;
  weft_model *m = open_model();
  weft_generation *g = begin(m, 'c');
  runner r = {.g = g};
  weft_model_close(m);
  (void)run_briefly(&r);
  *n = (int)weft_generation_length(g);
  weft_generation_close(g);
  return NULL;
}

static void models_opened_side_by_side_know_nothing_of_each_other(void **state) {
  (void)state;
  pthread_t threads[N_THREADS];
  int lengths[N_THREADS] = {0};
  for (int i = 0; i < N_THREADS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, open_and_answer, &lengths[i]), 0);
  }
  for (int i = 0; i < N_THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(lengths[i], 4);
  }
}

int main(void) {
  leave_without_library();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(threads_that_share_a_model_each_read_their_own_text),
      cmocka_unit_test(a_cancel_at_any_moment_ends_the_answer_and_keeps_the_conversation),
      cmocka_unit_test(a_close_at_any_moment_frees_once_and_ends_the_call),
      cmocka_unit_test(a_close_against_the_end_of_a_call_frees_once),
      cmocka_unit_test(a_second_call_is_refused_or_comes_between_two_steps),
      cmocka_unit_test(models_opened_side_by_side_know_nothing_of_each_other),
  };
  return cmocka_run_group_tests(tests, make_package, remove_package);
}
