/* SPDX-License-Identifier: Apache-2.0 */
/* The judge is gguf-py: make_ggml_blocks.py. */
#include "support/test.h"

#include <math.h>

#include "base/file.h"
#include "base/mem.h"
#include "import/ggml_blocks.h"
#include "import/gguf.h"

typedef struct sample {
  uint32_t type, n_bytes, n_floats;
  const unsigned char *bytes;
  const float *floats;
} sample;

static char *golden;
static sample samples[16];
static size_t n_samples;

static int read_golden(void **state) {
  (void)state;
  size_t n;
  weft_error err = {0};
  if (wf_file_read(WEFT_SOURCE_DIR "/tests/import/ggml_blocks.golden", 1 << 20, &golden, &n,
                   &err) != WEFT_OK) {
    return -1;
  }
  for (size_t at = 0; at < n && n_samples < 16; n_samples++) {
    sample *s = &samples[n_samples];
    memcpy(s, golden + at, 12);
    s->bytes = (const unsigned char *)golden + at + 12;
    float *floats = wf_calloc(s->n_floats, sizeof *floats);
    if (!floats) return -1;
    memcpy(floats, golden + at + 12 + s->n_bytes, s->n_floats * sizeof *floats);
    s->floats = floats;
    at += 12 + s->n_bytes + s->n_floats * sizeof *floats;
  }
  return n_samples == 11 ? 0 : -1;
}

static int free_golden(void **state) {
  (void)state;
  for (size_t i = 0; i < n_samples; i++) wf_free(wf_unconst(samples[i].floats)); /* our own */
  wf_free(golden);
  return 0;
}

static void every_type_dequantises_to_the_judges_floats_bit_for_bit(void **state) {
  (void)state;
  for (size_t i = 0; i < n_samples; i++) {
    const sample *s = &samples[i];
    float out[512];
    assert_true(s->n_floats <= 512);
    wf_ggml_row_floats(s->type, s->bytes, s->n_floats, out);
    for (size_t j = 0; j < s->n_floats; j++) {
      if (memcmp(&out[j], &s->floats[j], 4) != 0 && !(out[j] == 0 && s->floats[j] == 0)) {
        fail_msg("%s weight %zu: %a, judge %a", wf_ggml_name(s->type), j, (double)out[j],
                 (double)s->floats[j]);
      }
    }
  }
}

static void the_split_form_is_the_same_weights_but_for_rounding(void **state) {
  (void)state;
  size_t n_quantised = 0;
  for (size_t i = 0; i < n_samples; i++) {
    const sample *s = &samples[i];
    wf_ggml_form form;
    uint8_t q[512];
    float scales[32], offsets[32];
    if (!wf_ggml_form_of(s->type, &form)) {
      assert_true(wf_ggml_is_float(s->type));
      continue;
    }
    n_quantised++;
    wf_ggml_row_split(s->type, s->bytes, s->n_floats, q, scales, offsets);
    for (size_t j = 0; j < s->n_floats; j++) {
      const size_t b = j / (size_t)form.block;
      const int v = form.bits == 8 ? q[j] - 128 : (q[j / 2] >> (j % 2 * 4) & 15) - 8;
      const double w = (double)scales[b] * v + (double)offsets[b];
      const double room = 2e-7 * (fabs((double)scales[b]) * 32 + fabs((double)offsets[b]));
      if (fabs(w - (double)s->floats[j]) > room) {
        fail_msg("%s weight %zu: %a, judge %a", wf_ggml_name(s->type), j, w, (double)s->floats[j]);
      }
      if (!form.has_offset) assert_true(offsets[b] >= 0 && offsets[b] <= 0);
    }
  }
  assert_int_equal(n_quantised, 8);
}

static void parts_that_are_not_wanted_are_left_out(void **state) {
  (void)state;
  for (size_t i = 0; i < n_samples; i++) {
    const sample *s = &samples[i];
    wf_ggml_form form;
    uint8_t q[2][512];
    float scales[2][32], offsets[2][32];
    if (!wf_ggml_form_of(s->type, &form)) continue;
    const size_t n_q = s->n_floats * (size_t)form.bits / 8, n_b = s->n_floats / (size_t)form.block;
    wf_ggml_row_split(s->type, s->bytes, s->n_floats, q[0], scales[0], offsets[0]);
    wf_ggml_row_split(s->type, s->bytes, s->n_floats, q[1], NULL, NULL);
    wf_ggml_row_split(s->type, s->bytes, s->n_floats, NULL, scales[1], NULL);
    wf_ggml_row_split(s->type, s->bytes, s->n_floats, NULL, NULL, offsets[1]);
    assert_memory_equal(q[0], q[1], n_q);
    assert_memory_equal(scales[0], scales[1], n_b * sizeof(float));
    assert_memory_equal(offsets[0], offsets[1], n_b * sizeof(float));
  }
}

static void types_that_are_not_imported_have_no_form(void **state) {
  (void)state;
  wf_ggml_form form;
  static const uint32_t others[] = {9, 10, 11, 15, 16, 24, 39, 77};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    assert_false(wf_ggml_form_of(others[i], &form));
    assert_false(wf_ggml_is_float(others[i]));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_type_dequantises_to_the_judges_floats_bit_for_bit),
      cmocka_unit_test(the_split_form_is_the_same_weights_but_for_rounding),
      cmocka_unit_test(parts_that_are_not_wanted_are_left_out),
      cmocka_unit_test(types_that_are_not_imported_have_no_form),
  };
  return cmocka_run_group_tests(tests, read_golden, free_golden);
}
