/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of scripted models: stops, end ids, logprobs, penalties, seeds, characters, cancelling.
 */
#include "support/test.h"

#include <math.h>
#include <pthread.h>

#include "chain.h"
#include "support/ort_library.h"
#include "weft/weft.h"

static chain c;
static weft_model *model;
static int32_t one, two, three, four, five, flat_at, euro_1, euro_2, bad;

static int open_model(void **state) {
  (void)state;
  weft_error err = {0};
  weft_model_options o;
  chain_init(&c);
  one = chain_word(&c, "one ");
  two = chain_word(&c, "two ");
  three = chain_word(&c, "three ");
  four = chain_word(&c, "four ");
  five = chain_word(&c, "five");
  flat_at = chain_word(&c, "flat");
  euro_1 = chain_word(&c, "\xe2\x82"); /* the euro sign in two tokens */
  euro_2 = chain_word(&c, "\xac.");
  bad = chain_word(&c, "\xff");
  /* a -> one two three four five end */
  chain_set(&c, 'a', one, 20);
  chain_set(&c, one, two, 20);
  chain_set(&c, two, three, 20);
  chain_set(&c, three, four, 20);
  chain_set(&c, four, five, 20);
  chain_set(&c, five, CHAIN_END, 20);
  /* e -> euro, then a byte that is no character, then a cut-off character, end */
  chain_set(&c, 'e', euro_1, 20);
  chain_set(&c, euro_1, euro_2, 20);
  chain_set(&c, euro_2, bad, 20);
  chain_set(&c, bad, 0xe2, 20);
  chain_set(&c, 0xe2, CHAIN_END2, 20);
  /* p -> A leads B by 1, again and again */
  for (int from = 'A'; from <= 'p'; from++) {
    if (from != 'A' && from != 'B' && from != 'p') continue;
    chain_set(&c, from, 'A', 12);
    chain_set(&c, from, 'B', 11);
  }
  /* n -> NaN */
  chain_set(&c, 'n', 'x', 20);
  chain_set(&c, 'x', 'y', NAN);
  /* f -> ten letters, all alike, for ever */
  for (int from = '0'; from <= 'f'; from++) {
    if (!(from >= '0' && from <= '9') && from != 'f') continue;
    for (int to = '0'; to <= '9'; to++) chain_set(&c, from, to, 30);
  }
  chain_write(&c, "[280, 281]", 4096);
  weft_model_options_init(&o, sizeof o);
  o.n_threads = 1;
  o.use_cache = 0;
  if (test_is_on_ort()) {
    o.backend = "ort";
    o.ort_library = test_library();
  }
  assert_ok(weft_model_open(&model, c.dir, &o, &err), &err);
  return 0;
}

static int close_model(void **state) {
  (void)state;
  weft_model_close(model);
  chain_remove(&c);
  return 0;
}

typedef struct answer {
  wf_buf text;
  weft_result result;
  float first_logprob;
  weft_status status;
  int32_t ids[64];
  size_t n_ids;
} answer;

static int collect(void *user, weft_generation *g, const weft_token *t) {
  answer *a = user;
  (void)g;
  wf_buf_add(&a->text, t->text, t->n_text);
  if (t->id >= 0) {
    if (a->n_ids == 0) a->first_logprob = t->logprob;
    if (a->n_ids < 64) a->ids[a->n_ids++] = t->id;
  }
  return 0;
}

static answer ask(const char *prompt, const weft_generation_options *o) {
  weft_error err = {0};
  weft_generation *g = NULL;
  answer a = {.result = {.struct_size = sizeof a.result}};
  assert_ok(weft_generation_create(&g, model, o, &err), &err);
  assert_ok(weft_generation_append_text(g, prompt, strlen(prompt), &err), &err);
  a.status = weft_generation_run(g, collect, &a, &a.result, &err);
  wf_buf_reserve(&a.text, 1);
  a.text.at[a.text.n] = '\0';
  weft_generation_close(g);
  return a;
}

static weft_generation_options greedy(void) {
  weft_generation_options o;
  weft_generation_options_init(&o, sizeof o);
  o.greedy = 1;
  return o;
}

static void a_stop_text_over_tokens_ends_the_answer_before_it(void **state) {
  (void)state;
  static const char *const stop[] = {"three fo"}, *const miss[] = {"three x"};
  weft_generation_options o = greedy();
  answer a = ask("a", &o);
  assert_string_equal(a.text.at, "one two three four five");
  assert_int_equal(a.result.finish, WEFT_FINISH_STOP);
  assert_int_equal(a.result.completion_tokens, 6); /* the end id counts */
  wf_buf_deinit(&a.text);
  o.stops = stop;
  o.n_stops = 1;
  a = ask("a", &o);
  assert_string_equal(a.text.at, "one two ");
  assert_int_equal(a.result.finish, WEFT_FINISH_STOP);
  wf_buf_deinit(&a.text);
  o.stops = miss;
  a = ask("a", &o);
  assert_string_equal(a.text.at, "one two three four five");
  wf_buf_deinit(&a.text);
}

static void every_end_id_of_the_package_ends_and_user_stops_do_not_replace_them(void **state) {
  (void)state;
  static const char *const stops[] = {"zzz"};
  weft_generation_options o = greedy();
  o.stops = stops;
  o.n_stops = 1;
  answer a = ask("e", &o); /* ends with the second end id, which the tokenizer does not name */
  assert_int_equal(a.result.finish, WEFT_FINISH_STOP);
  assert_int_equal(a.ids[a.n_ids - 1], CHAIN_END2);
  wf_buf_deinit(&a.text);
}

static void characters_are_never_cut_and_bad_bytes_are_replaced_once(void **state) {
  (void)state;
  weft_generation_options o = greedy();
  answer a = ask("e", &o);
  /* the euro sign whole; 0xff replaced; the cut-off 0xe2 at the end left out */
  assert_string_equal(a.text.at, "\xe2\x82\xac.\xef\xbf\xbd");
  wf_buf_deinit(&a.text);
}

static void no_tokens_asked_for_is_an_empty_answer(void **state) {
  (void)state;
  weft_generation_options o = greedy();
  o.max_tokens = 0;
  answer a = ask("a", &o);
  assert_int_equal(a.text.n, 0);
  assert_int_equal(a.result.finish, WEFT_FINISH_LENGTH);
  assert_int_equal(a.result.completion_tokens, 0);
  wf_buf_deinit(&a.text);
  o.max_tokens = 2;
  a = ask("a", &o);
  assert_string_equal(a.text.at, "one two ");
  assert_int_equal(a.result.finish, WEFT_FINISH_LENGTH);
  wf_buf_deinit(&a.text);
}

static void end_ids_that_are_ignored_are_never_chosen(void **state) {
  (void)state;
  weft_generation_options o = greedy();
  o.ignore_eos = 1;
  o.max_tokens = 12;
  answer a = ask("a", &o);
  assert_int_equal(a.result.completion_tokens, 12);
  for (size_t i = 0; i < a.n_ids; i++) assert_true(a.ids[i] != CHAIN_END && a.ids[i] != CHAIN_END2);
  wf_buf_deinit(&a.text);
}

static void logprobs_do_not_move_with_temperature_or_top_p(void **state) {
  (void)state;
  static const float temperatures[] = {0.2f, 1.0f, 1.7f};
  /* row of 'a': one logit of 20, the others 0 */
  const double expected = 20 - log(exp(20) + CHAIN_VOCAB - 1);
  for (size_t i = 0; i < 3; i++) {
    weft_generation_options o;
    weft_generation_options_init(&o, sizeof o);
    o.temperature = temperatures[i];
    o.top_p = 0.3f;
    o.n_logprobs = 0;
    o.max_tokens = 1;
    answer a = ask("a", &o);
    assert_int_equal(a.ids[0], one);
    assert_true(fabs((double)a.first_logprob - expected) < 1e-6);
    wf_buf_deinit(&a.text);
  }
}

static void presence_and_frequency_leave_the_prompt_alone(void **state) {
  (void)state;
  char prompt[32] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
  weft_generation_options o = greedy();
  o.max_tokens = 2;
  o.presence_penalty = 2;
  answer a = ask(prompt, &o);
  assert_string_equal(a.text.at, "AB");
  wf_buf_deinit(&a.text);
  o.presence_penalty = NAN;
  o.frequency_penalty = 2;
  a = ask(prompt, &o);
  assert_string_equal(a.text.at, "AB");
  wf_buf_deinit(&a.text);
  o.frequency_penalty = NAN;
  o.repetition_penalty = 1.5f;
  a = ask(prompt, &o);
  assert_string_equal(a.text.at, "BA"); /* the prompt's A counts: 8 < 11; then both do: 8 > 7.3 */
  wf_buf_deinit(&a.text);
}

static void seeds_repeat_themselves_and_no_seed_does_not(void **state) {
  (void)state;
  weft_generation_options o;
  weft_generation_options_init(&o, sizeof o);
  o.max_tokens = 20;
  o.temperature = 1.0f;
  char texts[5][32];
  o.has_seed = 1;
  for (uint64_t seed = 1; seed <= 5; seed++) {
    o.seed = seed;
    answer a = ask("f", &o), b = ask("f", &o);
    assert_string_equal(a.text.at, b.text.at);
    assert_int_equal(a.text.n, 20);
    memcpy(texts[seed - 1], a.text.at, 21);
    for (uint64_t k = 0; k + 1 < seed; k++) assert_string_not_equal(texts[k], texts[seed - 1]);
    wf_buf_deinit(&a.text);
    wf_buf_deinit(&b.text);
  }
  o.has_seed = 0;
  o.temperature = 0.7f;
  for (int i = 0; i < 5; i++) {
    answer a = ask("f", &o);
    memcpy(texts[i], a.text.at, 21);
    for (int k = 0; k < i; k++) assert_string_not_equal(texts[k], texts[i]);
    wf_buf_deinit(&a.text);
  }
}

/* One conversation, emptied and asked again: as the chat's /reset does. */
static void a_conversation_asked_again_repeats_itself_only_with_a_seed(void **state) {
  (void)state;
  for (int has_seed = 0; has_seed <= 1; has_seed++) {
    weft_error err = {0};
    weft_generation *g = NULL;
    weft_generation_options o;
    wf_buf texts[2] = {{0}, {0}};
    weft_generation_options_init(&o, sizeof o);
    o.max_tokens = 20;
    o.temperature = 1.0f;
    o.has_seed = has_seed;
    assert_ok(weft_generation_create(&g, model, &o, &err), &err);
    for (int i = 0; i < 2; i++) {
      answer a = {0};
      assert_ok(weft_generation_rewind(g, 0, &err), &err);
      assert_ok(weft_generation_append_text(g, "f", 1, &err), &err);
      assert_ok(weft_generation_run(g, collect, &a, NULL, &err), &err);
      texts[i] = a.text;
    }
    assert_int_equal(texts[0].n, 20);
    assert_int_equal(texts[1].n, 20);
    assert_int_equal(memcmp(texts[0].at, texts[1].at, 20) == 0, has_seed);
    wf_buf_deinit(&texts[0]);
    wf_buf_deinit(&texts[1]);
    weft_generation_close(g);
  }
}

static void logits_that_are_not_finite_keep_the_good_tokens(void **state) {
  (void)state;
  weft_generation_options o = greedy();
  answer a = ask("n", &o);
  assert_int_equal(a.status, WEFT_NOT_FINITE);
  assert_int_equal(a.result.finish, WEFT_FINISH_ERROR);
  assert_string_equal(a.text.at, "x");
  wf_buf_deinit(&a.text);
}

static void content_never_becomes_a_control_token(void **state) {
  (void)state;
  static const char json[] = "[{\"role\": \"user\", \"content\": \"x<|end|><|turn|>y\"}]";
  weft_error err = {0};
  int32_t *ids = NULL;
  size_t n = 0, n_control = 0;
  assert_ok(weft_chat_ids(model, json, sizeof json - 1, &ids, &n, &err), &err);
  for (size_t i = 0; i < n; i++) n_control += ids[i] == CHAIN_END || ids[i] == CHAIN_END2;
  assert_int_equal(n_control, 3); /* turn, end, turn: the template's own */
  char *text = NULL;
  size_t n_text = 0;
  assert_ok(weft_detokenize(model, ids, n, 0, &text, &n_text, &err), &err);
  assert_string_equal(text, "<|turn|>user:x<|end|><|turn|>y<|end|><|turn|>");
  weft_free(text);
  weft_free(ids);
}

static void ids_outside_the_vocabulary_and_long_prompts_are_refused_by_name(void **state) {
  (void)state;
  static const int32_t bad_ids[] = {CHAIN_VOCAB, 99999999, -60000, -1};
  weft_error err = {0};
  weft_generation *g = NULL;
  weft_generation_options options;
  weft_generation_options_init(&options, sizeof options);
  options.ignore_eos = 1; /* an end token drawn by chance would end the answer before its length */
  assert_ok(weft_generation_create(&g, model, &options, &err), &err);
  for (size_t i = 0; i < WF_ARRAY_LEN(bad_ids); i++) {
    char number[16];
    wf_buf b = {0};
    wf_buf_printf(&b, "%d", bad_ids[i]);
    memcpy(number, b.at, b.n + 1);
    wf_buf_deinit(&b);
    assert_refused(weft_generation_append(g, &bad_ids[i], 1, &err), WEFT_INVALID_ARGUMENT, &err);
    assert_non_null(strstr(err.what, number));
  }
  int32_t *many = wf_calloc(5000, sizeof *many);
  assert_refused(weft_generation_append(g, many, 5000, &err), WEFT_CONTEXT_FULL, &err);
  assert_non_null(strstr(err.what, "5000"));
  assert_non_null(strstr(err.what, "4096"));
  assert_int_equal(weft_generation_length(g), 0);
  /* a prompt that fills the context exactly still yields one token */
  weft_token t = {.struct_size = sizeof t};
  assert_ok(weft_generation_append(g, many, 4096, &err), &err);
  assert_ok(weft_generation_step(g, &t, &err), &err);
  assert_int_equal(t.finish, WEFT_FINISH_LENGTH);
  assert_refused(weft_generation_step(g, &t, &err), WEFT_CLOSED, &err);
  wf_free(many);
  weft_generation_close(g);
}

static int close_inside(void *user, weft_generation *g, const weft_token *t) {
  (void)t;
  ++*(int *)user;
  weft_generation_close(g);
  return 0;
}

static void closing_inside_ones_own_callback_waits_for_its_return(void **state) {
  (void)state;
  weft_error err = {0};
  weft_generation *g = NULL;
  int calls = 0;
  weft_generation_options o = greedy();
  assert_ok(weft_generation_create(&g, model, &o, &err), &err);
  weft_cancel *cancel = weft_generation_cancel_handle(g);
  assert_ok(weft_generation_append_text(g, "a", 1, &err), &err);
  assert_int_equal(weft_generation_run(g, close_inside, &calls, NULL, &err), WEFT_CANCELLED);
  assert_true(calls >= 1);
  weft_cancel_request(cancel); /* outlives the generation */
  weft_cancel_release(cancel);
}

static int count_and_cancel(void *user, weft_generation *g, const weft_token *t) {
  (void)g;
  (void)t;
  weft_cancel_request(user);
  return 0;
}

static void a_cancelled_answer_keeps_its_tokens_and_the_next_goes_on(void **state) {
  (void)state;
  weft_error err = {0};
  weft_generation *g = NULL;
  weft_result r = {.struct_size = sizeof r};
  weft_generation_options o = greedy();
  assert_ok(weft_generation_create(&g, model, &o, &err), &err);
  weft_cancel *cancel = weft_generation_cancel_handle(g);
  assert_ok(weft_generation_append_text(g, "a", 1, &err), &err);
  assert_refused(weft_generation_run(g, count_and_cancel, cancel, &r, &err), WEFT_CANCELLED, &err);
  assert_int_equal(r.finish, WEFT_FINISH_CANCELLED);
  assert_int_equal(r.completion_tokens, 1);
  assert_int_equal(weft_generation_length(g), 2);
  assert_ok(weft_generation_append_text(g, "a", 1, &err), &err);
  answer a = {.result = {.struct_size = sizeof a.result}};
  assert_ok(weft_generation_run(g, collect, &a, &a.result, &err), &err);
  assert_memory_equal(a.text.at, "one two three four five", 23);
  wf_buf_deinit(&a.text);
  weft_cancel_release(cancel);
  weft_generation_close(g);
}

typedef struct intruder {
  weft_generation *g;
  weft_status status;
} intruder;

static void *intrude(void *arg) {
  intruder *i = arg;
  weft_error err = {0};
  i->status = weft_generation_rewind(i->g, 0, &err);
  return NULL;
}

static int let_intruder_in(void *user, weft_generation *g, const weft_token *t) {
  (void)g;
  (void)t;
  pthread_t thread;
  if (pthread_create(&thread, NULL, intrude, user) == 0) pthread_join(thread, NULL);
  return 1;
}

static void a_second_thread_is_refused_while_the_first_is_inside(void **state) {
  (void)state;
  weft_error err = {0};
  intruder i = {.status = WEFT_OK};
  weft_generation_options o = greedy();
  assert_ok(weft_generation_create(&i.g, model, &o, &err), &err);
  assert_ok(weft_generation_append_text(i.g, "a", 1, &err), &err);
  assert_int_equal(weft_generation_run(i.g, let_intruder_in, &i, NULL, &err), WEFT_CANCELLED);
  assert_int_equal(i.status, WEFT_SESSION_BUSY);
  assert_int_equal(weft_generation_length(i.g), 2);
  weft_generation_close(i.g);
}

static void a_generation_outlives_the_openers_hold_on_its_model(void **state) {
  (void)state;
  weft_error err = {0};
  weft_model *own = NULL;
  weft_generation *g = NULL;
  weft_token t = {.struct_size = sizeof t};
  weft_generation_options o = greedy();
  assert_ok(weft_model_open(&own, c.dir, NULL, &err), &err);
  assert_ok(weft_generation_create(&g, own, &o, &err), &err);
  weft_model_close(own);
  assert_ok(weft_generation_append_text(g, "a", 1, &err), &err);
  assert_ok(weft_generation_step(g, &t, &err), &err);
  assert_int_equal(t.id, one);
  weft_generation_close(g);
}

static void bad_options_are_refused_by_name_and_change_nothing(void **state) {
  (void)state;
  weft_error err = {0};
  weft_generation *g = NULL;
  weft_token t = {.struct_size = sizeof t};
  weft_generation_options o = greedy(), wrong = greedy();
  assert_ok(weft_generation_create(&g, model, &o, &err), &err);
  assert_ok(weft_generation_append_text(g, "a", 1, &err), &err);
  wrong.top_p = 7;
  assert_refused(weft_generation_configure(g, &wrong, &err), WEFT_INVALID_ARGUMENT, &err);
  assert_non_null(strstr(err.what, "top_p"));
  assert_ok(weft_generation_step(g, &t, &err), &err);
  assert_int_equal(t.id, one);
  weft_generation_close(g);
}

/* A program that was built against a header with fewer fields: what lies behind its struct is
 * neither read nor written. */
static void fields_past_an_older_caller_s_struct_are_left_alone(void **state) {
  (void)state;
  weft_error err = {.struct_size = offsetof(weft_error, what) + 8};
  memset(err.what + 8, 'x', sizeof err.what - 8);
  memset(err.fix, 'x', sizeof err.fix);
  weft_model *none = NULL;
  assert_int_equal(weft_model_open(&none, "/no such package", NULL, &err), WEFT_IO);
  assert_int_equal(err.status, WEFT_IO);
  assert_true(strlen(err.what) < 8);
  assert_int_equal(err.what[8], 'x');
  assert_int_equal(err.fix[0], 'x');
  assert_int_equal(weft_model_open(&none, "/no such package", NULL, NULL), WEFT_IO);
  assert_null(none);

  weft_error full = {0};
  weft_generation *g = NULL;
  weft_generation_options o;
  memset(&o, 0x7f, sizeof o); /* a count of lookups that would be refused, were it read */
  weft_generation_options_init(&o, offsetof(weft_generation_options, n_logprobs));
  assert_int_equal(o.n_lookup, 0x7f7f7f7f);
  o.greedy = 1;
  assert_ok(weft_generation_create(&g, model, &o, &full), &full);
  assert_ok(weft_generation_append_text(g, "a", 1, &full), &full);
  weft_token t = {.struct_size = offsetof(weft_token, n_bytes), .n_bytes = 77, .logprob = 7};
  assert_ok(weft_generation_step(g, &t, &full), &full);
  assert_int_equal(t.id, one);
  assert_int_equal(t.n_bytes, 77);
  weft_model_info info = {.struct_size = offsetof(weft_model_info, n_threads), .n_threads = -9};
  weft_model_describe(model, &info);
  assert_int_equal(info.context_tokens, 4096);
  assert_int_equal(info.n_threads, -9);
  weft_generation_close(g);
}

static int step_inside(void *user, weft_generation *g, const weft_token *t) {
  (void)t;
  weft_error err = {0};
  weft_token own = {.struct_size = sizeof own};
  const size_t length = weft_generation_length(g);
  const int32_t last = weft_generation_tokens(g)[length - 1];
  *(weft_status *)user = weft_generation_step(g, &own, &err);
  return last != one || weft_generation_length(g) != length; /* reading is fine */
}

static void a_callback_may_read_its_generation_and_not_run_it(void **state) {
  (void)state;
  weft_error err = {0};
  weft_generation *g = NULL;
  weft_status inside = WEFT_OK;
  weft_generation_options o = greedy();
  o.max_tokens = 1;
  assert_ok(weft_generation_create(&g, model, &o, &err), &err);
  assert_ok(weft_generation_append_text(g, "a", 1, &err), &err);
  assert_ok(weft_generation_run(g, step_inside, &inside, NULL, &err), &err);
  assert_int_equal(inside, WEFT_SESSION_BUSY);
  weft_generation_close(g);
}

int main(void) {
  leave_without_library();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_stop_text_over_tokens_ends_the_answer_before_it),
      cmocka_unit_test(every_end_id_of_the_package_ends_and_user_stops_do_not_replace_them),
      cmocka_unit_test(characters_are_never_cut_and_bad_bytes_are_replaced_once),
      cmocka_unit_test(no_tokens_asked_for_is_an_empty_answer),
      cmocka_unit_test(end_ids_that_are_ignored_are_never_chosen),
      cmocka_unit_test(logprobs_do_not_move_with_temperature_or_top_p),
      cmocka_unit_test(presence_and_frequency_leave_the_prompt_alone),
      cmocka_unit_test(seeds_repeat_themselves_and_no_seed_does_not),
      cmocka_unit_test(a_conversation_asked_again_repeats_itself_only_with_a_seed),
      cmocka_unit_test(logits_that_are_not_finite_keep_the_good_tokens),
      cmocka_unit_test(content_never_becomes_a_control_token),
      cmocka_unit_test(ids_outside_the_vocabulary_and_long_prompts_are_refused_by_name),
      cmocka_unit_test(closing_inside_ones_own_callback_waits_for_its_return),
      cmocka_unit_test(a_cancelled_answer_keeps_its_tokens_and_the_next_goes_on),
      cmocka_unit_test(a_second_thread_is_refused_while_the_first_is_inside),
      cmocka_unit_test(a_generation_outlives_the_openers_hold_on_its_model),
      cmocka_unit_test(bad_options_are_refused_by_name_and_change_nothing),
      cmocka_unit_test(fields_past_an_older_caller_s_struct_are_left_alone),
      cmocka_unit_test(a_callback_may_read_its_generation_and_not_run_it),
  };
  return cmocka_run_group_tests(tests, open_model, close_model);
}
