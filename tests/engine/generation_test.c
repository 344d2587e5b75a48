/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations over toy decoders with a real cache: whatever way a conversation came to its
 * tokens, the logits after them are those of a fresh one, bit for bit. The models are
 * tests/backend/golden's, whose numbers are held to ONNX Runtime's there. */
#include "support/test.h"

#include <math.h>
#include <pthread.h>

#include "chain.h"
#include "greedy.h"
#include "support/ort_library.h"
#include "weft/weft.h"

enum { VOCAB = 64, N_IDS = 40, N_LONG = 400 };
/* windowed and packed; packed; row by row, where every token sees its whole run, so that only whole
 * prompts compare */
static const char *const kinds[] = {"q4", "f32", "row"};
enum { N_CAUSAL = 2 };
static chain folders[3];
static weft_model *models[3];
static int32_t ids[N_IDS];

static int open_models(void **state) {
  (void)state;
  weft_error err = {0};
  for (int i = 0; i < N_IDS; i++) ids[i] = (i * 37 + i * i * 11 + 5) % VOCAB;
  for (size_t k = 0; k < 3; k++) {
    weft_model_options o;
    weft_model_options_init(&o, sizeof o);
    o.n_threads = 2;
    o.use_cache = 0;
    o.chunk_tokens = 17;
    if (test_is_on_ort()) {
      o.backend = "ort";
      o.ort_library = test_library();
    }
    chain_init(&folders[k]);
    chain_write_golden(&folders[k], kinds[k]);
    assert_ok(weft_model_open(&models[k], folders[k].dir, &o, &err), &err);
  }
  return 0;
}

static int close_models(void **state) {
  (void)state;
  for (size_t k = 0; k < 3; k++) {
    weft_model_close(models[k]);
    chain_remove(&folders[k]);
  }
  return 0;
}

/* Bit for bit; on ONNX Runtime, whose last bits depend on the cut of a prompt, to a millionth of
 * the range for each of 20 or so roundings. */
static void assert_same_logits(const float *a, const float *b) {
  float lo = b[0], hi = b[0];
  if (!test_is_on_ort()) {
    assert_memory_equal(a, b, VOCAB * sizeof *a);
    return;
  }
  for (int i = 1; i < VOCAB; i++) {
    lo = b[i] < lo ? b[i] : lo;
    hi = b[i] > hi ? b[i] : hi;
  }
  for (int i = 0; i < VOCAB; i++) {
    if (fabsf(a[i] - b[i]) > 2e-5f * (hi - lo)) {
      fail_msg("logit %d: %d and %d millionths", i, (int)(a[i] * 1e6f), (int)(b[i] * 1e6f));
    }
  }
}

static void read_fresh(weft_model *m, const int32_t *tokens, size_t n, float *logits) {
  weft_error err = {0};
  weft_generation *g = start(m, 0);
  assert_ok(weft_generation_append(g, tokens, n, &err), &err);
  assert_ok(weft_generation_logits(g, logits, VOCAB, &err), &err);
  weft_generation_close(g);
}

static void step(weft_generation *g, size_t n) {
  weft_error err = {0};
  weft_token t = {.struct_size = sizeof t};
  for (size_t i = 0; i < n; i++) assert_ok(weft_generation_step(g, &t, &err), &err);
}

static void assert_like_fresh(weft_model *m, weft_generation *g) {
  weft_error err = {0};
  float got[VOCAB], fresh[VOCAB];
  const size_t n = weft_generation_length(g);
  assert_ok(weft_generation_logits(g, got, VOCAB, &err), &err);
  read_fresh(m, weft_generation_tokens(g), n, fresh);
  assert_same_logits(got, fresh);
}

static void logits_after_a_rewind_are_those_of_a_fresh_conversation(void **state) {
  (void)state;
  weft_error err = {0};
  for (size_t k = 0; k < N_CAUSAL; k++) {
    weft_generation *g = start(models[k], 0);
    assert_ok(weft_generation_append(g, ids, 12, &err), &err);
    step(g, 4);
    assert_int_equal(weft_generation_length(g), 16);
    assert_like_fresh(models[k], g);
    assert_ok(weft_generation_rewind(g, 8, &err), &err);
    assert_like_fresh(models[k], g);
    step(g, 3);
    assert_like_fresh(models[k], g);
    assert_ok(weft_generation_rewind(g, 0, &err), &err);
    assert_ok(weft_generation_append(g, ids + 3, 20, &err), &err);
    assert_like_fresh(models[k], g);
    assert_refused(weft_generation_rewind(g, 21, &err), WEFT_INVALID_ARGUMENT, &err);
    weft_generation_close(g);
  }
}

/* Far past the window (7) and what is kept for guesses and chunks: the conversation has to be
 * computed again. */
static void a_rewind_past_a_sliding_window_recomputes(void **state) {
  (void)state;
  weft_error err = {0};
  weft_generation *g = start(models[0], 0);
  int32_t many[N_LONG];
  for (int i = 0; i < N_LONG; i++) many[i] = (i * 29 + 3) % VOCAB;
  assert_ok(weft_generation_append(g, many, N_LONG, &err), &err);
  static const size_t lengths[] = {N_LONG - 1, 128, 127, 64, 63, 20, 1};
  for (size_t i = 0; i < WF_ARRAY_LEN(lengths); i++) {
    assert_ok(weft_generation_rewind(g, lengths[i], &err), &err);
    assert_like_fresh(models[0], g);
  }
  weft_generation_close(g);
}

typedef struct log_lines {
  int n;
  int level;
  char last[256];
} log_lines;

static void keep_line(void *user, int level, const char *line) {
  log_lines *l = user;
  l->n++;
  l->level = level;
  snprintf(l->last, sizeof l->last, "%s", line);
}

static void log_lines_go_to_the_callback_and_nowhere_without_one(void **state) {
  (void)state;
  weft_error err = {0};
  log_lines lines = {0};
  weft_generation *g = start(models[0], 0);
  int32_t many[N_LONG];
  for (int i = 0; i < N_LONG; i++) many[i] = (i * 29 + 3) % VOCAB;
  for (int round = 0; round < 2; round++) {
    assert_ok(weft_generation_set(g, many, N_LONG, NULL, &err), &err);
    weft_log_set(round ? NULL : keep_line, &lines);
    assert_ok(weft_generation_rewind(g, 1, &err), &err); /* past the window, which is told */
    assert_int_equal(lines.n, test_is_on_ort() ? 0 : 1); /* it keeps everything */
  }
  if (test_is_on_ort()) {
    weft_generation_close(g);
    return;
  }
  assert_int_equal(lines.level, WEFT_LOG_INFO);
  assert_non_null(strstr(lines.last, "rewind"));
  assert_null(strchr(lines.last, '\n'));
  weft_generation_close(g);
}

static void logits_are_refused_where_there_are_none(void **state) {
  (void)state;
  weft_error err = {0};
  float logits[2 * VOCAB];
  weft_generation *g = start(models[1], 0);
  assert_refused(weft_generation_logits(g, logits, VOCAB, &err), WEFT_INVALID_ARGUMENT, &err);
  assert_ok(weft_generation_append(g, ids, 2, &err), &err);
  assert_refused(weft_generation_logits(g, logits, VOCAB - 1, &err), WEFT_INVALID_ARGUMENT, &err);
  assert_refused(weft_generation_append_logits(g, ids, 2, logits, 2 * VOCAB, &err),
                 WEFT_INVALID_ARGUMENT, &err);
  assert_int_equal(weft_generation_length(g), 2);
  assert_ok(weft_generation_rewind(g, 0, &err), &err);
  assert_refused(weft_generation_append_logits(g, ids, 2, logits, 2 * VOCAB - 1, &err),
                 WEFT_INVALID_ARGUMENT, &err);
  assert_ok(weft_generation_append_logits(g, ids, 2, logits, 2 * VOCAB, &err), &err);
  weft_generation_close(g);
}

static void a_second_turn_equals_one_prompt_of_the_same_ids(void **state) {
  (void)state;
  weft_error err = {0};
  for (size_t k = 0; k < N_CAUSAL; k++) {
    weft_generation *g = start(models[k], 0);
    assert_ok(weft_generation_append(g, ids, 5, &err), &err);
    step(g, 6);
    assert_ok(weft_generation_append(g, ids + 5, 9, &err), &err);
    assert_int_equal(weft_generation_length(g), 20);
    assert_like_fresh(models[k], g);
    weft_generation_close(g);
  }
}

static void setting_a_conversation_keeps_the_shared_part(void **state) {
  (void)state;
  weft_error err = {0};
  for (size_t k = 0; k < N_CAUSAL; k++) {
    size_t n_cached = 99;
    weft_generation *g = start(models[k], 0);
    assert_ok(weft_generation_set(g, ids, 30, &n_cached, &err), &err);
    assert_int_equal(n_cached, 0);
    int32_t other[32];
    memcpy(other, ids, sizeof other);
    other[25] = (other[25] + 1) % VOCAB;
    assert_ok(weft_generation_set(g, other, 32, &n_cached, &err), &err);
    assert_int_equal(n_cached, 25);
    assert_like_fresh(models[k], g);
    assert_ok(weft_generation_set(g, other, 32, &n_cached, &err), &err);
    assert_int_equal(n_cached, 31); /* the last one runs for its logits */
    assert_like_fresh(models[k], g);
    weft_generation_close(g);
  }
}

static void a_graph_that_looks_at_its_whole_prompt_gets_it_whole(void **state) {
  (void)state;
  weft_error err = {0};
  size_t n_cached = 99;
  weft_generation *g = start(models[2], 0);
  assert_ok(weft_generation_append(g, ids, 30, &err), &err); /* longer than a chunk of 17 */
  assert_ok(weft_generation_set(g, ids, 33, &n_cached, &err), &err);
  assert_int_equal(n_cached, 0);
  assert_like_fresh(models[2], g);
  weft_generation_close(g);
}

static void all_logits_at_once_are_those_of_each_step(void **state) {
  (void)state;
  weft_error err = {0};
  static float all[N_IDS * VOCAB], one[VOCAB];
  for (size_t k = 0; k < N_CAUSAL; k++) {
    weft_generation *g = start(models[k], 0);
    assert_ok(weft_generation_append_logits(g, ids, N_IDS, all, WF_ARRAY_LEN(all), &err), &err);
    for (size_t i = 1; i <= N_IDS; i += 7) {
      read_fresh(models[k], ids, i, one);
      assert_same_logits(one, all + (i - 1) * VOCAB);
    }
    assert_like_fresh(models[k], g);
    weft_generation_close(g);
  }
}

static void guessing_ahead_gives_the_greedy_answer(void **state) {
  (void)state;
  weft_error err = {0};
  int32_t prompt[24];
  for (int i = 0; i < 24; i++)
    prompt[i] = (i % 6) * 9 + 1; /* repeats, so that there is something to guess */
  for (size_t k = 0; k < N_CAUSAL; k++) {
    weft_generation *plain = start(models[k], 0), *guessing = start(models[k], 5);
    assert_ok(weft_generation_append(plain, prompt, 24, &err), &err);
    assert_ok(weft_generation_append(guessing, prompt, 24, &err), &err);
    step(plain, 60);
    step(guessing, 60);
    assert_memory_equal(weft_generation_tokens(plain), weft_generation_tokens(guessing),
                        84 * sizeof(int32_t));
    assert_like_fresh(models[k], guessing);
    weft_generation_close(plain);
    weft_generation_close(guessing);
  }
}

static void a_cancelled_prompt_leaves_the_conversation_as_it_was(void **state) {
  (void)state;
  weft_error err = {0};
  weft_generation *g = start(models[1], 0);
  assert_ok(weft_generation_append(g, ids, 6, &err), &err);
  weft_cancel *cancel = weft_generation_cancel_handle(g);
  weft_cancel_request(cancel);
  assert_refused(weft_generation_append(g, ids + 6, 30, &err), WEFT_CANCELLED, &err);
  assert_int_equal(weft_generation_length(g), 6);
  assert_like_fresh(models[1], g);
  weft_cancel_release(cancel);
  weft_generation_close(g);
}

typedef struct worker {
  weft_model *model;
  int32_t first;
  int32_t tokens[40];
  weft_status status;
} worker;

static void *answer_alone(void *arg) {
  worker *w = arg;
  weft_error err = {0};
  weft_generation *g = NULL;
  weft_generation_options o;
  weft_token t = {.struct_size = sizeof t};
  weft_generation_options_init(&o, sizeof o);
  o.has_seed = 1;
  o.seed = (uint64_t)w->first;
  o.ignore_eos = 1;
  w->status = weft_generation_create(&g, w->model, &o, &err);
  if (w->status == WEFT_OK) w->status = weft_generation_append(g, &w->first, 1, &err);
  for (int i = 0; i < 40 && w->status == WEFT_OK; i++) {
    w->status = weft_generation_step(g, &t, &err);
    w->tokens[i] = t.id;
  }
  weft_generation_close(g);
  return NULL;
}

static void conversations_on_many_threads_never_mix(void **state) {
  (void)state;
  enum { N = 6 };
  worker alone[N], together[N];
  pthread_t threads[N];
  for (int i = 0; i < N; i++) {
    alone[i] = (worker){.model = models[0], .first = i * 7 + 1};
    together[i] = alone[i];
    answer_alone(&alone[i]);
    assert_int_equal(alone[i].status, WEFT_OK);
  }
  for (int i = 0; i < N; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, answer_alone, &together[i]), 0);
  for (int i = 0; i < N; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(together[i].status, WEFT_OK);
    assert_memory_equal(together[i].tokens, alone[i].tokens, sizeof alone[i].tokens);
  }
}

static void models_open_close_and_open_again(void **state) {
  (void)state;
  weft_error err = {0};
  for (int i = 0; i < 5; i++) {
    weft_model *m = NULL;
    assert_ok(weft_model_open(&m, folders[1].dir, NULL, &err), &err);
    weft_generation *g = start(m, 0), *h = start(m, 0);
    assert_ok(weft_generation_append(g, ids, 4, &err), &err);
    if (i % 2) weft_generation_close(g);
    weft_model_close(m);
    assert_ok(weft_generation_append(h, ids, 4, &err), &err);
    if (i % 2 == 0) weft_generation_close(g);
    weft_generation_close(h);
  }
}

int main(void) {
  leave_without_library();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(logits_after_a_rewind_are_those_of_a_fresh_conversation),
      cmocka_unit_test(a_rewind_past_a_sliding_window_recomputes),
      cmocka_unit_test(log_lines_go_to_the_callback_and_nowhere_without_one),
      cmocka_unit_test(logits_are_refused_where_there_are_none),
      cmocka_unit_test(a_second_turn_equals_one_prompt_of_the_same_ids),
      cmocka_unit_test(setting_a_conversation_keeps_the_shared_part),
      cmocka_unit_test(a_graph_that_looks_at_its_whole_prompt_gets_it_whole),
      cmocka_unit_test(all_logits_at_once_are_those_of_each_step),
      cmocka_unit_test(guessing_ahead_gives_the_greedy_answer),
      cmocka_unit_test(a_cancelled_prompt_leaves_the_conversation_as_it_was),
      cmocka_unit_test(conversations_on_many_threads_never_mix),
      cmocka_unit_test(models_open_close_and_open_again),
  };
  return cmocka_run_group_tests(tests, open_models, close_models);
}
