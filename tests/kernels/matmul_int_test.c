/* SPDX-License-Identifier: Apache-2.0 */
/* Integer products: every variant against the definition computed in 64 bits, bit for bit, over
 * signs, zero points, tails, rows and splits. With WF_EMULATE_AVX512 also where the CPU lacks it.
 */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "kernels/matmul_int.h"

enum { MAX_N = 70, MAX_K = 133, MAX_M = 13 };

static uint8_t data[MAX_N * MAX_K + 1], zeros[MAX_N];
static float scales[MAX_N], bias[MAX_N], x[MAX_M * MAX_K + 1];
static float got[MAX_M * MAX_N], expected[MAX_M * MAX_N];

static bool can_run(wf_cpu_level level) {
#ifdef WF_EMULATE_AVX512
  if (level >= WF_CPU_AVX512 && level <= WF_CPU_AVX512BF16) return true;
#endif
  return wf_cpu_has(wf_cpu_best(), level) != 0;
}

static uint32_t next(uint32_t *s) {
  *s = *s * 1664525u + 1013904223u;
  return *s >> 8;
}

static int signed_at(const wf_int_desc *d, const uint8_t *p, int64_t i) {
  return d->is_signed ? (int)(int8_t)p[i] : (int)p[i];
}

/* DynamicQuantizeLinear, MatMulInteger, Cast, Mul, Add as the standard words them. */
static void define(const wf_int_desc *d, int64_t m) {
  float low = 0, high = 0;
  for (int64_t i = 0; i < m * d->k; i++) {
    low = fminf(low, x[i]);
    high = fmaxf(high, x[i]);
  }
  const float sx = (high - low) / 255.0f;
  const int zx = (int)fminf(255, fmaxf(0, nearbyintf(0 - low / sx)));
  for (int64_t r = 0; r < m; r++) {
    for (int64_t n = 0; n < d->n; n++) {
      const int zw = d->zeros ? signed_at(d, d->zeros, d->n_zeros == 1 ? 0 : n) : 0;
      int64_t sum = 0;
      for (int64_t k = 0; k < d->k; k++) {
        const float q = nearbyintf(x[r * d->k + k] / sx) + (float)zx;
        const int code = (int)fminf(255, fmaxf(0, q));
        sum += (code - zx) * (signed_at(d, d->data, k * d->n + n) - zw);
      }
      const float scale = sx * d->scales[d->n_scales == 1 ? 0 : n];
      float y = (float)(int32_t)sum * scale;
      if (d->bias) y += d->bias[n];
      expected[r * d->n + n] = y;
    }
  }
}

static void run(const wf_int_desc *d, int64_t m, wf_cpu_level level, int64_t split) {
  weft_error err = {0};
  wf_int_weight w;
  size_t n_bytes = 0;
  assert_ok(wf_int_plan(&w, d->n, d->k, level, &n_bytes, &err), &err);
  void *packed = wf_alloc_aligned(n_bytes, 64),
       *act = wf_alloc_aligned(wf_int_act_bytes(d->k, m), 64);
  assert_true(packed && act);
  wf_int_pack(&w, d, packed);
  memset(act, 0xa5, wf_int_act_bytes(d->k, m)); /* padding is the kernel's to write */
  for (int64_t i = 0; i < m * d->n; i++) got[i] = NAN;
  float low = 0, high = 0;
  wf_int_widen(level, x, m * d->k, &low, &high);
  const wf_int_range range = wf_int_range_of(low, high);
  wf_int_act(level, range, d->k, 0, m / 2, x, act);
  wf_int_act(level, range, d->k, m / 2, m, x, act);
  if (split < d->n) {
    wf_int_run(&w, range, m, act, got, split, d->n);
    wf_int_run(&w, range, m, act, got, 0, split);
  } else {
    wf_int_run(&w, range, m, act, got, 0, d->n);
  }
  for (int64_t i = 0; i < m * d->n; i++) {
    if (memcmp(&got[i], &expected[i], 4) != 0) {
      print_error("level %s m %d n %d k %d at %d: %a, expected %a\n", wf_cpu_level_name(level),
                  (int)m, (int)d->n, (int)d->k, (int)i, (double)got[i], (double)expected[i]);
      fail();
    }
  }
  wf_free(packed);
  wf_free(act);
}

static void every_variant_gives_the_bits_of_the_definition(void **state) {
  static const int64_t sizes[][2] = {{1, 1},   {16, 4},  {17, 5},   {15, 63},
                                     {32, 64}, {70, 33}, {33, 128}, {MAX_N, MAX_K}};
  static const int64_t rows[] = {1, 2, 3, 4, 7, 8, 9, MAX_M};
  size_t n_variants = 0;
  const wf_int_variant_info *variants = wf_int_variants(&n_variants);
  uint32_t seed = 20;
  (void)state;
  for (size_t i = 0; i < MAX_N; i++) {
    scales[i] = (float)(next(&seed) % 1000 + 1) / 7777.0f;
    bias[i] = (float)(next(&seed) % 1000) / 333.0f - 1.5f;
  }
  for (size_t v = 0; v < n_variants; v++) {
    if (!can_run(variants[v].needs)) {
      print_message("%s is not run on this CPU\n", variants[v].name);
      continue;
    }
    for (int form = 0; form < 16; form++) {
      for (size_t s = 0; s < WF_ARRAY_LEN(sizes); s++) {
        const int64_t n = sizes[s][0], k = sizes[s][1];
        /* extremes too: 255 * -128 in every place is where 16 bits would saturate */
        const bool is_extreme = form % 3 == 0;
        for (size_t i = 0; i < sizeof data; i++) {
          data[i] = (uint8_t)(is_extreme ? (next(&seed) & 1 ? 0x80 : 0x7f) : next(&seed));
        }
        for (size_t i = 0; i < MAX_N; i++) zeros[i] = (uint8_t)next(&seed);
        for (size_t i = 0; i < WF_ARRAY_LEN(x); i++) {
          x[i] = is_extreme ? (next(&seed) & 3 ? 4.0f : -0.01f)
                            : (float)(next(&seed) % 4096) / 512.0f - 2.0f;
        }
        const wf_int_desc d = {.n = n,
                               .k = k,
                               .data = data + (form & 1), /* unaligned */
                               .is_signed = (form & 1) != 0,
                               .zeros = form & 2 ? zeros : NULL,
                               .n_zeros = form & 4 ? n : 1,
                               .scales = scales,
                               .n_scales = form & 4 ? n : 1,
                               .bias = form & 8 ? bias : NULL};
        for (size_t r = 0; r < WF_ARRAY_LEN(rows); r++) {
          define(&d, rows[r]);
          run(&d, rows[r], variants[v].needs, r & 1 ? 16 : n);
        }
      }
    }
  }
}

static void a_range_passes_over_nan_and_survives_infinities_and_zeros(void **state) {
  static const wf_cpu_level levels[] = {WF_CPU_REF, WF_CPU_AVX2};
  (void)state;
  for (size_t l = 0; l < WF_ARRAY_LEN(levels); l++) {
    if (!can_run(levels[l])) continue;
    float v[19] = {0}, low = 0, high = 0;
    uint8_t codes[19];
    wf_int_widen(levels[l], v, 19, &low, &high);
    wf_int_range r = wf_int_range_of(low, high);
    assert_true(r.scale == 1.0f && r.zero == 0); /* nothing but zeros */
    for (int i = 0; i < 19; i++) v[i] = i % 5 == 2 ? NAN : (float)i - 3.0f;
    wf_int_widen(levels[l], v, 19, &low, &high);
    assert_true(low == -3.0f && high == 15.0f);
    r = wf_int_range_of(low, high);
    assert_int_equal(r.zero, 42); /* 3 / (18 / 255) = 42.5, to even */
    wf_int_codes(levels[l], r, v, 19, codes);
    for (int i = 0; i < 19; i++) {
      const float q = nearbyintf(v[i] / r.scale) + 42.0f;
      assert_int_equal(codes[i], isnan(v[i]) ? 0 : q > 255 ? 255 : (int)q);
    }
    v[4] = -INFINITY;
    wf_int_widen(levels[l], v, 19, &low, &high);
    r = wf_int_range_of(low, high);
    wf_int_codes(levels[l], r, v, 19, codes);
    assert_true(isinf(r.scale) && r.zero == 0 && codes[4] == 0 && codes[5] == 0);
  }
}

static void a_weight_whose_size_overflows_is_refused_in_words(void **state) {
  weft_error err = {0};
  wf_int_weight w;
  size_t n_bytes = 0;
  (void)state;
  assert_int_equal(wf_int_plan(&w, INT64_MAX, 4, WF_CPU_REF, &n_bytes, &err),
                   WEFT_INVALID_ARGUMENT);
  assert_non_null(strstr(err.what, "9223372036854775807"));
  assert_true(err.fix[0] != 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_variant_gives_the_bits_of_the_definition),
      cmocka_unit_test(a_range_passes_over_nan_and_survives_infinities_and_zeros),
      cmocka_unit_test(a_weight_whose_size_overflows_is_refused_in_words),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
