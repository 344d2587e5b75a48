/* SPDX-License-Identifier: Apache-2.0 */
/* The judge is transformers' logits processors: make_sampler_goldens.py, which has the layout. */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "decode/decode.h"

enum { MAX_VOCAB = 256 };

typedef struct header {
  float temperature, top_p, min_p, typical_p, repetition_penalty;
  int32_t top_k, vocab, n_seen;
} header;

static void check(size_t at, const header *h, const int32_t *seen, const float *logits,
                  const float *expected) {
  weft_error err = {0};
  wf_sampler_options o;
  wf_sampler *s = NULL;
  float got[MAX_VOCAB];
  wf_sampler_options_init(&o);
  o.greedy = false;
  o.temperature = h->temperature;
  o.top_p = h->top_p;
  o.min_p = h->min_p;
  o.typical_p = h->typical_p;
  o.repetition_penalty = h->repetition_penalty;
  o.top_k = h->top_k;
  assert_ok(wf_sampler_create(&s, h->vocab, &o, &err), &err);
  /* transformers' penalty knows no difference between what was asked and what was answered */
  const size_t n_prompt = (size_t)h->n_seen / 2;
  wf_sampler_note(s, seen, n_prompt, false);
  wf_sampler_note(s, seen + n_prompt, (size_t)h->n_seen - n_prompt, true);
  assert_ok(wf_sampler_distribution(s, logits, got, &err), &err);
  for (int32_t i = 0; i < h->vocab; i++) {
    if (!(fabs((double)got[i] - (double)expected[i]) <= 2e-6)) {
      fail_msg(
          "case %zu (temperature %g, top-k %d, top-p %g, min-p %g, typical %g, repetition %g), "
          "token %d: %.9g, judge %.9g",
          at, (double)h->temperature, h->top_k, (double)h->top_p, (double)h->min_p,
          (double)h->typical_p, (double)h->repetition_penalty, i, (double)got[i],
          (double)expected[i]);
    }
  }
  wf_sampler_destroy(s);
}

static void distributions_are_those_of_transformers(void **state) {
  (void)state;
  weft_error err = {0};
  char *golden = NULL;
  size_t n = 0, n_cases = 0;
  assert_ok(
      wf_file_read(WEFT_SOURCE_DIR "/tests/decode/sampler.golden", 1 << 20, &golden, &n, &err),
      &err);
  for (size_t at = 0; at < n; n_cases++) {
    header h;
    int32_t seen[MAX_VOCAB];
    float logits[MAX_VOCAB], p[MAX_VOCAB];
    memcpy(&h, golden + at, sizeof h);
    at += sizeof h;
    assert_true(h.vocab <= MAX_VOCAB && h.n_seen <= MAX_VOCAB);
    memcpy(seen, golden + at, (size_t)h.n_seen * sizeof *seen);
    at += (size_t)h.n_seen * sizeof *seen;
    memcpy(logits, golden + at, (size_t)h.vocab * sizeof *logits);
    at += (size_t)h.vocab * sizeof *logits;
    memcpy(p, golden + at, (size_t)h.vocab * sizeof *p);
    at += (size_t)h.vocab * sizeof *p;
    check(n_cases, &h, seen, logits, p);
  }
  assert_int_equal(n_cases, 186);
  wf_free(golden);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(distributions_are_those_of_transformers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
