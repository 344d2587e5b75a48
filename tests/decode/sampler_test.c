/* SPDX-License-Identifier: Apache-2.0 */
/* Judges: the formulas of transformers' logits warpers worked by hand, the vectors that Random123
 * publishes for Philox4x32-10, and chi-square over fixed seeds. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "decode/decode.h"

enum { VOCAB = 5 };
/* probabilities 0.4, 0.3, 0.15, 0.1, 0.05 */
static float base_logits[VOCAB];

static int fill(void **state) {
  (void)state;
  static const double p[VOCAB] = {0.4, 0.3, 0.15, 0.1, 0.05};
  for (int i = 0; i < VOCAB; i++) base_logits[i] = (float)log(p[i]);
  return 0;
}

static wf_sampler_options sampling(void) {
  wf_sampler_options o;
  wf_sampler_options_init(&o);
  o.greedy = false;
  return o;
}

static void expect(const wf_sampler_options *o, const float *logits, const double *p) {
  weft_error err = {0};
  wf_sampler *s = NULL;
  float got[VOCAB];
  assert_ok(wf_sampler_create(&s, VOCAB, o, &err), &err);
  assert_ok(wf_sampler_distribution(s, logits, got, &err), &err);
  for (int i = 0; i < VOCAB; i++) {
    if (fabs((double)got[i] - p[i]) > 1e-6)
      fail_msg("token %d: %.9g, not %.9g", i, (double)got[i], p[i]);
  }
  wf_sampler_destroy(s);
}

static void each_filter_keeps_what_its_formula_says(void **state) {
  (void)state;
  wf_sampler_options o = sampling();
  expect(&o, base_logits, (const double[]){0.4, 0.3, 0.15, 0.1, 0.05});
  o.top_k = 2;
  expect(&o, base_logits, (const double[]){4 / 7.0, 3 / 7.0, 0, 0, 0});
  o = sampling();
  o.top_p = 0.7f; /* 0.4 + 0.3 reaches it (in float, 0.7 is a little below) */
  expect(&o, base_logits, (const double[]){4 / 7.0, 3 / 7.0, 0, 0, 0});
  o.top_p = 0.71f;
  expect(&o, base_logits, (const double[]){0.4 / 0.85, 0.3 / 0.85, 0.15 / 0.85, 0, 0});
  o = sampling();
  o.min_p = 0.3f; /* at least 0.12 */
  expect(&o, base_logits, (const double[]){0.4 / 0.85, 0.3 / 0.85, 0.15 / 0.85, 0, 0});
  o = sampling();
  o.temperature = 0.5f; /* squares, normalised by 0.285 */
  expect(
      &o, base_logits,
      (const double[]){0.16 / 0.285, 0.09 / 0.285, 0.0225 / 0.285, 0.01 / 0.285, 0.0025 / 0.285});
}

/* Entropy of the base is 1.3922; |-log p - H|: 0.476, 0.188, 0.505, 0.910, 1.604. So typical order
 * is 1, 0, 2, 3, 4; a mass of 0.5 is reached with token 0 (0.3 + 0.4). */
static void typical_keeps_those_nearest_to_the_entropy(void **state) {
  (void)state;
  wf_sampler_options o = sampling();
  o.typical_p = 0.2f;
  expect(&o, base_logits, (const double[]){0, 1, 0, 0, 0});
  o.typical_p = 0.5f;
  expect(&o, base_logits, (const double[]){4 / 7.0, 3 / 7.0, 0, 0, 0});
}

static void filters_see_what_the_one_before_left(void **state) {
  (void)state;
  wf_sampler_options o = sampling();
  o.top_k = 3;    /* 0.4 0.3 0.15 of 0.85 */
  o.top_p = 0.8f; /* 0.47 + 0.35 = 0.82 */
  expect(&o, base_logits, (const double[]){4 / 7.0, 3 / 7.0, 0, 0, 0});
}

static void ties_at_the_top_k_border_are_kept(void **state) {
  (void)state;
  static const float tied[VOCAB] = {1, 2, 1, 1, 0};
  wf_sampler_options o = sampling();
  o.top_k = 2;
  const double e = exp(1), z = e + 3;
  expect(&o, tied, (const double[]){1 / z, e / z, 1 / z, 1 / z, 0});
}

static void presence_and_frequency_count_generated_tokens_only(void **state) {
  (void)state;
  weft_error err = {0};
  wf_sampler_options o;
  int32_t token;
  const float logits[VOCAB] = {3, 2, 0, 0, 0};
  int32_t prompt[30] = {0};
  struct {
    float presence, frequency, repetition;
    int32_t with_prompt;
  } rows[] = {{2, 0, 1, 0}, {0, 2, 1, 0}, {0, 0, 1.6f, 1}};
  for (size_t i = 0; i < WF_ARRAY_LEN(rows); i++) {
    wf_sampler *s = NULL;
    wf_sampler_options_init(&o);
    o.presence_penalty = rows[i].presence;
    o.frequency_penalty = rows[i].frequency;
    o.repetition_penalty = rows[i].repetition;
    assert_ok(wf_sampler_create(&s, VOCAB, &o, &err), &err);
    wf_sampler_note(s, prompt, 30, false);
    assert_ok(wf_sampler_pick(s, logits, 0, &token, &err), &err);
    assert_int_equal(token, rows[i].with_prompt);
    wf_sampler_note(s, prompt, 1, true);
    assert_ok(wf_sampler_pick(s, logits, 1, &token, &err), &err);
    assert_int_equal(token, 1);
    wf_sampler_forget(s, prompt, 1, true);
    assert_ok(wf_sampler_pick(s, logits, 1, &token, &err), &err);
    assert_int_equal(token, rows[i].with_prompt);
    wf_sampler_destroy(s);
  }
}

static void a_negative_logit_is_multiplied_by_the_repetition_penalty(void **state) {
  (void)state;
  weft_error err = {0};
  wf_sampler_options o;
  wf_sampler *s = NULL;
  int32_t token;
  const float logits[VOCAB] = {-1, -1.2f, -9, -9, -9};
  const int32_t said[] = {0};
  wf_sampler_options_init(&o);
  o.repetition_penalty = 1.5f;
  assert_ok(wf_sampler_create(&s, VOCAB, &o, &err), &err);
  wf_sampler_note(s, said, 1, false);
  assert_ok(wf_sampler_pick(s, logits, 0, &token, &err), &err);
  assert_int_equal(token, 1);
  wf_sampler_destroy(s);
}

static void bias_and_suppression_move_the_choice(void **state) {
  (void)state;
  weft_error err = {0};
  wf_sampler_options o;
  int32_t token;
  const wf_logit_bias bias[] = {{3, 10}};
  const int32_t suppressed[] = {0, 3};
  wf_sampler *s = NULL;
  wf_sampler_options_init(&o);
  o.biases = bias;
  o.n_biases = 1;
  assert_ok(wf_sampler_create(&s, VOCAB, &o, &err), &err);
  assert_ok(wf_sampler_pick(s, base_logits, 0, &token, &err), &err);
  assert_int_equal(token, 3);
  wf_sampler_destroy(s);
  o.suppressed = suppressed;
  o.n_suppressed = 2;
  assert_ok(wf_sampler_create(&s, VOCAB, &o, &err), &err);
  assert_ok(wf_sampler_pick(s, base_logits, 0, &token, &err), &err);
  assert_int_equal(token, 1);
  wf_sampler_destroy(s);
}

static void rows_that_are_not_finite_are_refused_and_masks_are_not(void **state) {
  (void)state;
  weft_error err = {0};
  wf_sampler_options o;
  wf_sampler *s = NULL;
  int32_t token;
  const float bad[][VOCAB] = {{0, NAN, 0, 0, 0},
                              {0, 0, INFINITY, 0, 0},
                              {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY}};
  const float masked[VOCAB] = {-INFINITY, -INFINITY, 1, -INFINITY, 2};
  for (int sample = 0; sample < 2; sample++) {
    wf_sampler_options_init(&o);
    o.greedy = !sample;
    assert_ok(wf_sampler_create(&s, VOCAB, &o, &err), &err);
    for (size_t i = 0; i < WF_ARRAY_LEN(bad); i++) {
      assert_refused(wf_sampler_pick(s, bad[i], 0, &token, &err), WEFT_NOT_FINITE, &err);
    }
    for (uint64_t n = 0; n < 50; n++) {
      assert_ok(wf_sampler_pick(s, masked, n, &token, &err), &err);
      assert_true(token == 2 || token == 4);
      if (!sample) assert_int_equal(token, 4);
    }
    wf_sampler_destroy(s);
  }
}

static void each_bad_option_is_named(void **state) {
  (void)state;
  weft_error err = {0};
  static const struct {
    size_t at;
    const char *name;
    float v;
  } rows[] = {{offsetof(wf_sampler_options, temperature), "temperature", -1},
              {offsetof(wf_sampler_options, temperature), "temperature", NAN},
              {offsetof(wf_sampler_options, top_p), "top_p", 1.5f},
              {offsetof(wf_sampler_options, min_p), "min_p", -0.1f},
              {offsetof(wf_sampler_options, typical_p), "typical_p", INFINITY},
              {offsetof(wf_sampler_options, repetition_penalty), "repetition_penalty", 0},
              {offsetof(wf_sampler_options, presence_penalty), "presence_penalty", NAN},
              {offsetof(wf_sampler_options, frequency_penalty), "frequency_penalty", INFINITY}};
  for (size_t i = 0; i < WF_ARRAY_LEN(rows); i++) {
    wf_sampler_options o = sampling();
    memcpy((char *)&o + rows[i].at, &rows[i].v, sizeof rows[i].v);
    assert_refused(wf_sampler_options_check(&o, VOCAB, &err), WEFT_INVALID_ARGUMENT, &err);
    assert_non_null(strstr(err.what, rows[i].name));
  }
}

/* kat_vectors of Random123 for philox4x32 with 10 rounds. */
static void philox_gives_the_published_vectors(void **state) {
  (void)state;
  static const struct {
    uint32_t counter[4], key[2], result[4];
  } rows[] = {{{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
              {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
               {0xffffffff, 0xffffffff},
               {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
              {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
               {0xa4093822, 0x299f31d0},
               {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (size_t i = 0; i < WF_ARRAY_LEN(rows); i++) {
    uint32_t got[4];
    wf_random_philox(rows[i].counter, rows[i].key, got);
    assert_memory_equal(got, rows[i].result, sizeof got);
  }
}

static void draws_follow_the_distribution(void **state) {
  (void)state;
  static const double p[VOCAB] = {0.4, 0.3, 0.15, 0.1, 0.05};
  enum { N = 20000 };
  weft_error err = {0};
  for (uint64_t seed = 1; seed <= 5; seed++) {
    wf_sampler_options o = sampling();
    o.seed = seed;
    wf_sampler *s = NULL;
    int counts[VOCAB] = {0};
    assert_ok(wf_sampler_create(&s, VOCAB, &o, &err), &err);
    for (uint64_t n = 0; n < N; n++) {
      int32_t token;
      assert_ok(wf_sampler_pick(s, base_logits, n, &token, &err), &err);
      counts[token]++;
    }
    double chi = 0;
    for (int i = 0; i < VOCAB; i++)
      chi += (counts[i] - N * p[i]) * (counts[i] - N * p[i]) / (N * p[i]);
    assert_true(chi < 18.5); /* 4 degrees of freedom, p = 0.001 */
    wf_sampler_destroy(s);
  }
}

static void a_draw_depends_on_seed_and_counter_alone(void **state) {
  (void)state;
  weft_error err = {0};
  wf_sampler_options o = sampling();
  o.seed = 9;
  wf_sampler *a = NULL, *b = NULL;
  assert_ok(wf_sampler_create(&a, VOCAB, &o, &err), &err);
  assert_ok(wf_sampler_create(&b, VOCAB, &o, &err), &err);
  int32_t forward[100], backward[100];
  for (int i = 0; i < 100; i++)
    assert_ok(wf_sampler_pick(a, base_logits, (uint64_t)i, &forward[i], &err), &err);
  for (int i = 99; i >= 0; i--)
    assert_ok(wf_sampler_pick(b, base_logits, (uint64_t)i, &backward[i], &err), &err);
  assert_memory_equal(forward, backward, sizeof forward);
  assert_true(wf_random_seed() != wf_random_seed());
  wf_sampler_destroy(a);
  wf_sampler_destroy(b);
}

/* The quickselect against a plain sort, on a large vocabulary with many ties. */
static void selection_equals_sorting_on_large_vocabularies(void **state) {
  (void)state;
  enum { N = 5000 };
  weft_error err = {0};
  static float logits[N], got[N];
  srand(3);
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < N; i++) logits[i] = (float)(rand() % 400) / 40;
    wf_sampler_options o = sampling();
    o.top_p = 0.05f + 0.045f * (float)round;
    wf_sampler *s = NULL;
    assert_ok(wf_sampler_create(&s, N, &o, &err), &err);
    assert_ok(wf_sampler_distribution(s, logits, got, &err), &err);
    double kept = 0, all = 0, least = 1e9, most_dropped = -1e9;
    for (int i = 0; i < N; i++) {
      const double e = exp((double)logits[i] - 10);
      all += e;
      if (got[i] > 0) {
        kept += e;
        if (logits[i] < least) least = (double)logits[i];
      } else if (logits[i] > most_dropped) {
        most_dropped = (double)logits[i];
      }
    }
    assert_true(kept >= (double)o.top_p * all * (1 - 1e-9));
    assert_true(kept - exp(least - 10) < (double)o.top_p * all); /* none too many */
    assert_true(most_dropped <= least);
    wf_sampler_destroy(s);
  }
}

static void logprobs_are_the_log_softmax_of_the_raw_logits(void **state) {
  (void)state;
  weft_error err = {0};
  wf_logprob chosen, top[VOCAB];
  const float logits[VOCAB] = {1000, 1001, 1001, 990, -INFINITY};
  assert_ok(wf_logprobs(logits, VOCAB, 0, &chosen, top, 3, &err), &err);
  const double z = log(exp(-1) + 2 + exp(-11));
  assert_true(fabs((double)chosen.logprob - (-1 - z)) < 1e-6);
  assert_int_equal(top[0].id, 1);
  assert_int_equal(top[1].id, 2); /* the lower id first on a tie */
  assert_int_equal(top[2].id, 0);
  assert_true(fabs((double)top[0].logprob + z) < 1e-6);
}

static void the_latest_earlier_occurrence_is_proposed(void **state) {
  (void)state;
  int32_t out[8];
  const int32_t t[] = {1, 2, 3, 9, 1, 2, 3, 7, 8, 5, 1, 2, 3};
  assert_int_equal(wf_lookup_propose(t, 13, 2, 3, out), 3);
  assert_int_equal(out[0], 7);
  assert_int_equal(out[2], 5);
  const int32_t none[] = {1, 2, 3, 4};
  assert_int_equal(wf_lookup_propose(none, 4, 2, 3, out), 0);
  const int32_t run[] = {5, 5, 5};
  assert_int_equal(wf_lookup_propose(run, 3, 2, 8, out), 1);
  assert_int_equal(wf_lookup_propose(run, 0, 2, 8, out), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_filter_keeps_what_its_formula_says),
      cmocka_unit_test(typical_keeps_those_nearest_to_the_entropy),
      cmocka_unit_test(filters_see_what_the_one_before_left),
      cmocka_unit_test(ties_at_the_top_k_border_are_kept),
      cmocka_unit_test(presence_and_frequency_count_generated_tokens_only),
      cmocka_unit_test(a_negative_logit_is_multiplied_by_the_repetition_penalty),
      cmocka_unit_test(bias_and_suppression_move_the_choice),
      cmocka_unit_test(rows_that_are_not_finite_are_refused_and_masks_are_not),
      cmocka_unit_test(each_bad_option_is_named),
      cmocka_unit_test(philox_gives_the_published_vectors),
      cmocka_unit_test(draws_follow_the_distribution),
      cmocka_unit_test(a_draw_depends_on_seed_and_counter_alone),
      cmocka_unit_test(selection_equals_sorting_on_large_vocabularies),
      cmocka_unit_test(logprobs_are_the_log_softmax_of_the_raw_logits),
      cmocka_unit_test(the_latest_earlier_occurrence_is_proposed),
  };
  return cmocka_run_group_tests(tests, fill, NULL);
}
