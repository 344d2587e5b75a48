/* SPDX-License-Identifier: Apache-2.0 */
/* Conversations with states of a fixed size (a convolution's last inputs), which hold one length
 * alone: whatever way a conversation came to its tokens, the logits after them are those of a fresh
 * one. The model is the builder's own lfm2 folder, whose numbers are held to ONNX Runtime and to
 * onnxruntime-genai by tests/e2e/builder_test.py. WEFT_TEST_BACKEND=ort runs it there. */
#include "support/test.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "greedy.h"
#include "support/ort_library.h"
#include "weft/weft.h"

enum { VOCAB = 160, N_IDS = 24 };
static const char folder[] = WEFT_SOURCE_DIR "/tests/e2e/golden/builder/lfm2_int4";
static weft_model *model;
static int32_t ids[N_IDS];

static int open_model(void **state) {
  weft_error err = {0};
  weft_model_options o;
  (void)state;
  for (int i = 0; i < N_IDS; i++) ids[i] = (i * 37 + i * i * 11 + 5) % VOCAB;
  weft_model_options_init(&o, sizeof o);
  o.n_threads = 2;
  o.use_cache = 0;
  o.kv = WEFT_KV_F32; /* a rounded cache is not what a whole prompt sees of itself */
  o.precision = WEFT_PRECISION_EXACT;
  if (test_is_on_ort()) {
    o.backend = "ort";
    o.ort_library = test_library();
  }
  assert_ok(weft_model_open(&model, folder, &o, &err), &err);
  return 0;
}

static int close_model(void **state) {
  (void)state;
  weft_model_close(model);
  return 0;
}

static void step(weft_generation *g, int n) {
  weft_error err = {0};
  weft_token t = {.struct_size = sizeof t};
  for (int i = 0; i < n; i++) assert_ok(weft_generation_step(g, &t, &err), &err);
}

/* A prompt read at once and token by token are sums in another order: to a millionth of the range
 * for each of 20 or so roundings. */
static void assert_like_fresh(weft_generation *g) {
  weft_error err = {0};
  float got[VOCAB], fresh[VOCAB], lo, hi;
  weft_generation *f = start(model, 0);
  assert_ok(weft_generation_logits(g, got, VOCAB, &err), &err);
  assert_ok(weft_generation_append(f, weft_generation_tokens(g), weft_generation_length(g), &err),
            &err);
  assert_ok(weft_generation_logits(f, fresh, VOCAB, &err), &err);
  lo = hi = fresh[0];
  for (int i = 1; i < VOCAB; i++) {
    lo = fresh[i] < lo ? fresh[i] : lo;
    hi = fresh[i] > hi ? fresh[i] : hi;
  }
  for (int i = 0; i < VOCAB; i++) assert_true(fabsf(got[i] - fresh[i]) <= 2e-5f * (hi - lo));
  weft_generation_close(f);
}

static void any_rewind_is_as_if_the_rest_had_never_been(void **state) {
  weft_error err = {0};
  weft_generation *g = start(model, 0);
  (void)state;
  assert_ok(weft_generation_append(g, ids, 12, &err), &err);
  assert_like_fresh(g);
  step(g, 5);
  assert_like_fresh(g);
  assert_ok(weft_generation_rewind(g, 14, &err), &err);
  assert_like_fresh(g);
  step(g, 2);
  assert_ok(weft_generation_rewind(g, 3, &err), &err);
  assert_ok(weft_generation_append(g, ids + 7, 9, &err), &err);
  assert_like_fresh(g);
  assert_ok(weft_generation_rewind(g, 0, &err), &err);
  assert_ok(weft_generation_append(g, ids + 1, 4, &err), &err);
  assert_like_fresh(g);
  weft_generation_close(g);
}

static void turns_and_shared_prefixes(void **state) {
  weft_error err = {0};
  size_t n_cached = 0;
  weft_generation *g = start(model, 0);
  (void)state;
  assert_ok(weft_generation_set(g, ids, 10, &n_cached, &err), &err);
  step(g, 3);
  assert_ok(weft_generation_append(g, ids + 10, 4, &err), &err); /* another turn */
  assert_like_fresh(g);
  int32_t other[N_IDS];
  memcpy(other, ids, sizeof other);
  other[6] = 9; /* parts from the conversation in the middle */
  assert_ok(weft_generation_set(g, other, 12, &n_cached, &err), &err);
  assert_like_fresh(g);
  weft_generation_close(g);
}

static void asking_for_guesses_gives_the_plain_answer(void **state) {
  weft_error err = {0};
  weft_generation *g = start(model, 0), *h = start(model, 4);
  int32_t twice[2 * 8];
  (void)state;
  for (int i = 0; i < 16; i++) twice[i] = ids[i % 8];
  assert_ok(weft_generation_append(g, twice, 16, &err), &err);
  assert_ok(weft_generation_append(h, twice, 16, &err), &err);
  step(g, 20);
  step(h, 20);
  assert_memory_equal(weft_generation_tokens(g), weft_generation_tokens(h), 36 * sizeof(int32_t));
  weft_generation_close(g);
  weft_generation_close(h);
}

static void two_conversations_never_mix(void **state) {
  weft_error err = {0};
  weft_generation *a = start(model, 0), *b = start(model, 0);
  (void)state;
  assert_ok(weft_generation_append(a, ids, 9, &err), &err);
  assert_ok(weft_generation_append(b, ids + 9, 6, &err), &err);
  for (int i = 0; i < 6; i++) {
    step(a, 1);
    step(b, 1);
  }
  assert_like_fresh(a);
  assert_like_fresh(b);
  weft_generation_close(a);
  weft_generation_close(b);
}

static void a_cancelled_turn_leaves_the_conversation(void **state) {
  weft_error err = {0};
  weft_generation *g = start(model, 0);
  (void)state;
  assert_ok(weft_generation_append(g, ids, 9, &err), &err);
  weft_cancel *c = weft_generation_cancel_handle(g);
  weft_cancel_request(c);
  assert_refused(weft_generation_append(g, ids + 9, 5, &err), WEFT_CANCELLED, &err);
  assert_int_equal(weft_generation_length(g), 9);
  assert_like_fresh(g);
  step(g, 2);
  assert_like_fresh(g);
  weft_cancel_release(c);
  weft_generation_close(g);
}

int main(void) {
  leave_without_library();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_rewind_is_as_if_the_rest_had_never_been),
      cmocka_unit_test(turns_and_shared_prefixes),
      cmocka_unit_test(asking_for_guesses_gives_the_plain_answer),
      cmocka_unit_test(two_conversations_never_mix),
      cmocka_unit_test(a_cancelled_turn_leaves_the_conversation),
  };
  return cmocka_run_group_tests(tests, open_model, close_model);
}
