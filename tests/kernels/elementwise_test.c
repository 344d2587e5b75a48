/* SPDX-License-Identifier: Apache-2.0 */
/* Norms, activations, softmax and conversions at every level this machine can run, against formulas
 * in double, exhaustive bit patterns where the domain is small, and values worked by hand. */
#include "support/test.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "kernels/elementwise_kernels.h"

enum { MAX_N = 150, GUARD = 20 };

static uint64_t rng = 0x853c49e6748fea9bu;
static float uniform(void) { /* in [-1, 1) */
  rng ^= rng << 13;
  rng ^= rng >> 7;
  rng ^= rng << 17;
  return (float)(int32_t)(rng >> 32) * 0x1p-31f;
}

static uint32_t bits_of(float v) {
  uint32_t u;
  memcpy(&u, &v, sizeof u);
  return u;
}

static float float_of(uint32_t u) {
  float v;
  memcpy(&v, &u, sizeof v);
  return v;
}

/* Every variant whose level can run, AVX-512 by emulation. */
static void each_level(void (*fn)(const wf_elementwise_table *level, const char *name)) {
  size_t n;
  const wf_elementwise_variant *v = wf_elementwise_variants(&n);
  for (size_t i = 0; i < n; i++)
    if (wf_cpu_has(wf_cpu_best(), v[i].needs)) fn(v[i].table, v[i].name);
#ifdef WF_HAVE_EMULATED_AVX512
  fn(&wf_elementwise_avx512_emu, "elementwise_avx512 (emulated)");
#endif
}

/* Both NaN, equal, or within `relative` of the greater and `absolute`. */
static bool is_near(float got, double want, double relative, double absolute) {
  if (want != want) return got != got;
  if (got == (float)want) return true;
  if (!isfinite((float)want) || !isfinite(got)) return false;
  return fabs((double)got - want) <= fmax(relative * fabs(want), absolute);
}

static int show(double v) { /* no printf of floats: parts per million are enough to see */
  return v != v ? -999999999 : v > 2000.0 ? 999999999 : v < -2000.0 ? -888888888 : (int)(v * 1e6);
}

/* The kernel runs on an unaligned copy of x with guards after y, and again in place. */
static void run_unary(const wf_elementwise_table *level, const char *name, wf_unary_fn op,
                      int64_t n, const float *x, float *y) {
  float from[MAX_N + 1 + GUARD], to[MAX_N + 1 + GUARD];
  for (int i = 0; i < MAX_N + 1 + GUARD; i++) from[i] = to[i] = 12345.0f;
  memcpy(from + 1, x, (size_t)n * sizeof *x);
  level->unary(op, n, from + 1, to + 1);
  memcpy(y, to + 1, (size_t)n * sizeof *y);
  if (to[0] != 12345.0f) fail_msg("%s: op %d writes before y", name, (int)op);
  for (int64_t i = n + 1; i < MAX_N + 1 + GUARD; i++)
    if (to[i] != 12345.0f) fail_msg("%s: op %d n %d writes past y", name, (int)op, (int)n);
  level->unary(op, n, from + 1, from + 1);
  assert_memory_equal(from + 1, y, (size_t)n * sizeof *y);
}

static double formula(wf_unary_fn op, double x) {
  switch (op) {
    case WF_FN_SILU:
      return x == -INFINITY ? 0.0 : x / (1.0 + exp(-x));
    case WF_FN_GELU_TANH:
      if (x < -20.0) return 0.0;
      return 0.5 * x *
             (1.0 + tanh(sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case WF_FN_GELU_ERF:
      return x < -40.0 ? 0.0 : 0.5 * x * erfc(-x / sqrt(2.0));
    case WF_FN_QUICK_GELU:
      return x == -INFINITY ? 0.0 : x / (1.0 + exp(-1.702 * x));
    case WF_FN_RELU:
      return x < 0.0 ? 0.0 : x;
    case WF_FN_SIGMOID:
      return 1.0 / (1.0 + exp(-x));
    case WF_FN_TANH:
      return tanh(x);
    case WF_FN_EXP:
      return exp(x);
    case WF_FN_ERF:
      return erf(x);
    case WF_FN_LOG:
      return log(x);
    case WF_FN_SQRT:
      return sqrt(x);
    case WF_FN_RECIPROCAL:
      return 1.0 / x;
    case WF_FN_NEG:
      return -x;
    case WF_FN_ABS:
      return fabs(x);
    case WF_FN_SIN:
      return sin(x);
    case WF_FN_COS:
      return cos(x);
    case WF_FN_SOFTPLUS:
      return x > 30.0 ? x : log1p(exp(x));
    case WF_FN_FLOOR:
      return floor(x);
    case WF_FN_CEIL:
      return ceil(x);
    case WF_FN_ROUND:
      return rint(x);
  }
  return 0.0;
}

static void functions(const wf_elementwise_table *level, const char *name) {
  static const float special[] = {
      0.0f,      -0.0f, 1.0f,   -1.0f,   0.5f,    -0.5f,  1.5f,     2.5f,   -2.5f,
      88.7f,     88.8f, -87.4f, -103.9f, -104.5f, 1e-40f, -1e-40f,  1e-30f, 3e38f,
      -3e38f,    1e19f, -1e19f, 20.0f,   -20.0f,  0.625f, 0.62499f, 1e-4f,  INFINITY,
      -INFINITY, NAN,   -13.0f, -14.2f,  5.5f,    -5.5f,  10.1f,    -10.1f, 0.9999999f};
  float x[MAX_N], y[MAX_N];
  for (int op = WF_FN_SILU; op <= WF_FN_ROUND; op++) {
    /* spread: many magnitudes, both signs */
    for (int round = 0; round < 4000; round++) {
      const int64_t n = 1 + round % 130;
      for (int64_t i = 0; i < n; i++) {
        const float size = round % 4 == 0   ? 1.0f
                           : round % 4 == 1 ? 10.0f
                           : round % 4 == 2 ? 100.0f
                                            : 1e-3f;
        x[i] = uniform() * size;
        if (round % 7 == 6)
          x[i] = special[(size_t)(i + round) % (sizeof special / sizeof *special)];
      }
      run_unary(level, name, (wf_unary_fn)op, n, x, y);
      for (int64_t i = 0; i < n; i++) {
        const double want = formula((wf_unary_fn)op, (double)x[i]);
        const double relative = 4.0 * 0x1p-23;
        if (!is_near(y[i], want, relative, op == WF_FN_EXP ? 1e-45 : 1e-7))
          fail_msg("%s: op %d of %d e-6 (bits %08x) is %d e-6, not %d e-6", name, op,
                   show((double)x[i]), bits_of(x[i]), show((double)y[i]), show(want));
      }
    }
  }
}

static void every_function_stays_within_its_bound_for_every_tail(void **state) {
  (void)state;
  each_level(functions);
}

static void lanes(const wf_elementwise_table *level, const char *name) {
  float x[MAX_N], y[MAX_N], alone;
  for (int op = WF_FN_SILU; op <= WF_FN_ROUND; op++) {
    for (int i = 0; i < MAX_N; i++) x[i] = 8.0f * uniform();
    run_unary(level, name, (wf_unary_fn)op, 67, x, y);
    for (int i = 0; i < 67; i++) {
      run_unary(level, name, (wf_unary_fn)op, 1, x + i, &alone);
      if (bits_of(alone) != bits_of(y[i]) && y[i] == y[i])
        fail_msg("%s: op %d lane %d", name, op, i);
    }
  }
}

static void an_element_has_the_same_bits_in_every_lane(void **state) {
  (void)state;
  each_level(lanes);
}

static void gates(const wf_elementwise_table *level, const char *name) {
  float gate[3 * MAX_N], up[3 * MAX_N], y[3 * MAX_N], act[MAX_N];
  for (int op = WF_FN_SILU; op <= WF_FN_ROUND; op++)
    for (int64_t n = 1; n <= 70; n += 3) {
      for (int i = 0; i < 3 * MAX_N; i++)
        gate[i] = 4.0f * uniform(), up[i] = uniform(), y[i] = 7.0f;
      level->gated((wf_unary_fn)op, 2, n, gate, MAX_N, up, MAX_N - 1, y, MAX_N + 1);
      for (int r = 0; r < 2; r++) {
        run_unary(level, name, (wf_unary_fn)op, n, gate + r * MAX_N, act);
        for (int64_t i = 0; i < n; i++) {
          const float want = act[i] * up[r * (MAX_N - 1) + i], got = y[r * (MAX_N + 1) + i];
          if (!(got == want || want != want))
            fail_msg("%s: op %d n %d row %d at %d", name, op, (int)n, r, (int)i);
        }
        assert_true(y[r * (MAX_N + 1) + n] == 7.0f);
      }
      level->gated((wf_unary_fn)op, 1, n, gate, MAX_N, up, MAX_N, up, MAX_N);
      for (int64_t i = 0; i < n; i++) assert_true(up[i] == y[i] || y[i] != y[i]);
    }
}

static void a_gated_row_is_the_activation_times_up(void **state) {
  (void)state;
  each_level(gates);
}

static void binaries(const wf_elementwise_table *level, const char *name) {
  static const float odd[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-40f, 3e38f};
  float a[MAX_N], b[MAX_N], y[MAX_N + 1];
  for (int op = WF_BINARY_ADD; op <= WF_BINARY_POW; op++)
    for (int64_t n = 1; n <= 40; n++)
      for (int steps = 0; steps < 4; steps++) {
        const int64_t a_step = steps & 1, b_step = steps >> 1;
        for (int64_t i = 0; i < MAX_N; i++) {
          a[i] = op == WF_BINARY_POW ? 2.0f + uniform() : uniform();
          b[i] = uniform();
          if (i % 5 == 4 && op != WF_BINARY_POW) a[i] = odd[(i + n) % 7];
          if (i % 3 == 2 && op != WF_BINARY_POW) b[i] = odd[(i + n) % 7];
        }
        if (op == WF_BINARY_POW && n % 2) b[0] = 2.0f;
        y[n] = 9.0f;
        level->binary((wf_binary_op)op, n, a, a_step, b, b_step, y);
        assert_true(y[n] == 9.0f);
        for (int64_t i = 0; i < n; i++) {
          const float l = a[i * a_step], r = b[i * b_step];
          const float want = op == WF_BINARY_ADD   ? l + r
                             : op == WF_BINARY_SUB ? l - r
                             : op == WF_BINARY_MUL ? l * r
                             : op == WF_BINARY_DIV ? l / r
                             : op == WF_BINARY_MIN ? (l != l || r != r ? NAN
                                                      : l < r          ? l
                                                                       : r)
                             : op == WF_BINARY_MAX ? (l != l || r != r ? NAN
                                                      : l > r          ? l
                                                                       : r)
                                                   : (float)pow((double)l, (double)r);
          if (!(y[i] == want || (y[i] != y[i] && want != want)))
            fail_msg("%s: op %d n %d steps %d at %d", name, op, (int)n, steps, (int)i);
        }
        /* in place over a, whose scalar may be y[0] itself */
        level->binary((wf_binary_op)op, n, a, a_step, b, b_step, a);
        for (int64_t i = 0; i < n; i++) assert_true(bits_of(a[i]) == bits_of(y[i]) || y[i] != y[i]);
      }
}

static void binary_operators_are_exact_with_scalars_on_either_side(void **state) {
  (void)state;
  each_level(binaries);
}

static void norms(const wf_elementwise_table *level, const char *name) {
  float x[3 * MAX_N], skip[3 * MAX_N], w[MAX_N], bias[MAX_N], y[3 * MAX_N], sum[3 * MAX_N];
  float alone[MAX_N];
  for (int64_t n = 1; n <= 140; n++) {
    for (int i = 0; i < 3 * MAX_N; i++) x[i] = 3.0f * uniform(), skip[i] = uniform(), y[i] = 7.0f;
    for (int i = 0; i < MAX_N; i++) w[i] = 1.0f + uniform(), bias[i] = uniform();
    level->rms_norm(3, n, x, MAX_N, w, 1e-5f, y, MAX_N);
    for (int r = 0; r < 3; r++) {
      double squares = 0.0;
      for (int64_t i = 0; i < n; i++)
        squares += (double)x[r * MAX_N + i] * (double)x[r * MAX_N + i];
      for (int64_t i = 0; i < n; i++) {
        const double want =
            (double)x[r * MAX_N + i] / sqrt(squares / (double)n + 1e-5) * (double)w[i];
        if (!is_near(y[r * MAX_N + i], want, 2e-6, 1e-30))
          fail_msg("%s: rms n %d row %d at %d", name, (int)n, r, (int)i);
      }
      assert_true(y[r * MAX_N + n] == 7.0f);
      level->rms_norm(1, n, x + r * MAX_N, 0, w, 1e-5f, alone, 0);
      assert_memory_equal(alone, y + r * MAX_N, (size_t)n * sizeof *y);
    }
    level->skip_rms_norm(3, n, x, MAX_N, skip, MAX_N, n % 2 ? bias : NULL, w, 1e-5f, sum, MAX_N, y,
                         MAX_N);
    for (int r = 0; r < 3; r++) {
      for (int64_t i = 0; i < n; i++) {
        float want = x[r * MAX_N + i] + skip[r * MAX_N + i];
        if (n % 2) want += bias[i];
        assert_true(sum[r * MAX_N + i] == want);
      }
      level->rms_norm(1, n, sum + r * MAX_N, 0, w, 1e-5f, alone, 0);
      assert_memory_equal(alone, y + r * MAX_N, (size_t)n * sizeof *y);
    }
    /* the sum may replace the skip it was made from */
    level->skip_rms_norm(3, n, x, MAX_N, skip, MAX_N, n % 2 ? bias : NULL, w, 1e-5f, skip, MAX_N, y,
                         MAX_N);
    for (int r = 0; r < 3; r++)
      assert_memory_equal(skip + r * MAX_N, sum + r * MAX_N, (size_t)n * sizeof *y);
    level->layer_norm(3, n, x, MAX_N, n % 3 ? w : NULL, n % 2 ? bias : NULL, 1e-5f, y, MAX_N);
    for (int r = 0; r < 3; r++) {
      double mean = 0.0, var = 0.0;
      for (int64_t i = 0; i < n; i++) mean += (double)x[r * MAX_N + i];
      mean /= (double)n;
      for (int64_t i = 0; i < n; i++) var += pow((double)x[r * MAX_N + i] - mean, 2.0);
      for (int64_t i = 0; i < n; i++) {
        double want = ((double)x[r * MAX_N + i] - mean) / sqrt(var / (double)n + 1e-5);
        want = want * (n % 3 ? (double)w[i] : 1.0) + (n % 2 ? (double)bias[i] : 0.0);
        /* for n = 1 the deviation is nothing but rounding */
        if (!is_near(y[r * MAX_N + i], want, 1e-5, n < 3 ? 1e-3 : 5e-6))
          fail_msg("%s: layer norm n %d row %d at %d: %d not %d e-6", name, (int)n, r, (int)i,
                   show((double)y[r * MAX_N + i]), show(want));
      }
      level->layer_norm(1, n, x + r * MAX_N, 0, n % 3 ? w : NULL, n % 2 ? bias : NULL, 1e-5f, alone,
                        0);
      assert_memory_equal(alone, y + r * MAX_N, (size_t)n * sizeof *y);
    }
  }
}

static void norms_agree_with_the_formula_and_rows_are_independent(void **state) {
  (void)state;
  each_level(norms);
}

static void norms_by_hand(const wf_elementwise_table *level, const char *name) {
  (void)name;
  /* mean square of (3, 4) is 12.5, so epsilon 12.5 makes the divisor 5 */
  const float x[2] = {3.0f, 4.0f}, w[2] = {10.0f, -5.0f};
  float y[2];
  level->rms_norm(1, 2, x, 2, w, 12.5f, y, 2);
  assert_float_equal(y[0], 6.0f, 2e-6f);
  assert_float_equal(y[1], -4.0f, 2e-6f);
  /* mean 3.5, deviations -0.5 and 0.5, variance 0.25; epsilon 0.75 makes the divisor 1 */
  level->layer_norm(1, 2, x, 2, w, NULL, 0.75f, y, 2);
  assert_float_equal(y[0], -5.0f, 2e-6f);
  assert_float_equal(y[1], -2.5f, 2e-6f);
}

static void norms_worked_by_hand(void **state) {
  (void)state;
  each_level(norms_by_hand);
}

static void softmaxes(const wf_elementwise_table *level, const char *name) {
  float x[2 * MAX_N], y[2 * MAX_N], alone[MAX_N];
  for (int64_t n = 1; n <= 140; n++) {
    for (int i = 0; i < 2 * MAX_N; i++) x[i] = 20.0f * uniform() - 40.0f, y[i] = 7.0f;
    if (n % 4 == 3) x[1] = -INFINITY;
    level->softmax(2, n, x, MAX_N, y, MAX_N);
    for (int r = 0; r < 2; r++) {
      double max = -INFINITY, sum = 0.0;
      for (int64_t i = 0; i < n; i++) max = fmax(max, (double)x[r * MAX_N + i]);
      for (int64_t i = 0; i < n; i++) sum += exp((double)x[r * MAX_N + i] - max);
      for (int64_t i = 0; i < n; i++) {
        const double want = exp((double)x[r * MAX_N + i] - max) / sum;
        if (!is_near(y[r * MAX_N + i], want, 5e-6, 1e-44))
          fail_msg("%s: softmax n %d row %d at %d", name, (int)n, r, (int)i);
      }
      assert_true(y[r * MAX_N + n] == 7.0f);
      memcpy(alone, x + r * MAX_N, (size_t)n * sizeof *x);
      level->softmax(1, n, alone, 0, alone, 0);
      assert_memory_equal(alone, y + r * MAX_N, (size_t)n * sizeof *y);
    }
    for (int64_t i = 0; i < n; i++) x[i] = -INFINITY;
    level->softmax(1, n, x, MAX_N, y, MAX_N);
    for (int64_t i = 0; i < n; i++) assert_true(y[i] != y[i]);
    for (int64_t i = 0; i < n; i++) x[i] = -1.0f;
    x[n / 2] = NAN;
    level->softmax(1, n, x, MAX_N, y, MAX_N);
    for (int64_t i = 0; i < n; i++) assert_true(y[i] != y[i]);
  }
}

static void softmax_agrees_with_the_formula_and_broken_rows_give_nan(void **state) {
  (void)state;
  each_level(softmaxes);
}

static void argmaxes(const wf_elementwise_table *level, const char *name) {
  float x[MAX_N];
  for (int64_t n = 1; n <= 140; n++)
    for (int64_t at = 0; at < n; at++) {
      for (int64_t i = 0; i < n; i++) x[i] = uniform();
      x[at] = 2.0f;
      if (at + 9 < n) x[at + 9] = 2.0f; /* a tie: the lower wins */
      if (at > 0) x[at - 1] = -INFINITY;
      if (level->argmax(n, x) != at) fail_msg("%s: n %d at %d", name, (int)n, (int)at);
      x[at] = at % 2 ? NAN : INFINITY;
      if (level->argmax(n, x) != -1) fail_msg("%s: n %d at %d broken", name, (int)n, (int)at);
      for (int64_t i = 0; i < n; i++) x[i] = -INFINITY;
      if (level->argmax(n, x) != -1) fail_msg("%s: n %d all -inf", name, (int)n);
      x[at] = -3e38f;
      if (level->argmax(n, x) != at) fail_msg("%s: n %d at %d low", name, (int)n, (int)at);
    }
  assert_int_equal(level->argmax(0, x), -1);
}

static void argmax_takes_the_lowest_of_ties_and_refuses_broken_logits(void **state) {
  (void)state;
  each_level(argmaxes);
}

/* The value of a half by its definition, without bit tricks. */
static double half_value(uint16_t h) {
  const int exponent = h >> 10 & 31, mantissa = h & 1023;
  const double sign = h & 0x8000 ? -1.0 : 1.0;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * ldexp(mantissa, -24);
  return sign * ldexp(1024 + mantissa, exponent - 25);
}

static uint16_t half_in[65536], half_out[65536];
static float half_wide[65536];

static void halves(const wf_elementwise_table *level, const char *name) {
  for (uint32_t i = 0; i < 65536; i++) half_in[i] = (uint16_t)i;
  level->f16_to_f32(65536, half_in, half_wide);
  level->f32_to_f16(65536, half_wide, half_out);
  for (uint32_t i = 0; i < 65536; i++) {
    const double want = half_value((uint16_t)i);
    if (!(half_wide[i] == (float)want || (half_wide[i] != half_wide[i] && want != want)) ||
        bits_of(half_wide[i]) >> 31 != i >> 15)
      fail_msg("%s: half %04x", name, i);
    if (want == want && half_out[i] != i)
      fail_msg("%s: half %04x comes back %04x", name, i, half_out[i]);
    if (want != want && ((half_out[i] & 0x7c00) != 0x7c00 || !(half_out[i] & 0x3ff)))
      fail_msg("%s: NaN %04x comes back %04x", name, i, half_out[i]);
    assert_true(bits_of(wf_f16_value((uint16_t)i)) == bits_of(half_wide[i]));
  }
}

static void every_half_converts_and_comes_back(void **state) {
  (void)state;
  each_level(halves);
}

/* Floats around every border between two halves: below, on and above the middle. */
static void half_rounding(const wf_elementwise_table *level, const char *name) {
  float x[9];
  uint16_t y[9];
  for (uint32_t i = 0; i < 0x7c00; i++) {
    const double a = half_value((uint16_t)i);
    const double b = i == 0x7bff ? 65536.0 : half_value((uint16_t)(i + 1));
    const float middle = (float)((a + b) / 2.0); /* exact in fp32 */
    x[0] = middle;
    x[1] = nextafterf(middle, 0.0f);
    x[2] = nextafterf(middle, INFINITY);
    x[3] = -x[0], x[4] = -x[1], x[5] = -x[2], x[6] = (float)a, x[7] = -(float)a, x[8] = middle;
    const int64_t n = 1 + i % 9;
    level->f32_to_f16(n, x, y);
    for (int64_t k = 0; k < n; k++) {
      const int kind = (int)(k == 8 ? 0 : k % 3);
      uint32_t want = k == 6 || k == 7 ? i : kind == 0 ? i + (i & 1) : kind == 1 ? i : i + 1;
      if (signbit(x[k])) want |= 0x8000;
      if (y[k] != want || wf_f16_bits(x[k]) != want)
        fail_msg("%s: %08x becomes %04x, not %04x", name, bits_of(x[k]), y[k], want);
    }
  }
  const float beyond[3] = {1e30f, -INFINITY, 1e-45f};
  level->f32_to_f16(3, beyond, y);
  assert_int_equal(y[0], 0x7c00);
  assert_int_equal(y[1], 0xfc00);
  assert_int_equal(y[2], 0);
}

static void halves_round_to_nearest_even_everywhere(void **state) {
  (void)state;
  each_level(half_rounding);
}

static void brains(const wf_elementwise_table *level, const char *name) {
  level->bf16_to_f32(65535, half_in, half_wide);
  level->f32_to_bf16(65535, half_wide, half_out);
  for (uint32_t i = 0; i < 65535; i++) {
    if (bits_of(half_wide[i]) != i << 16) fail_msg("%s: bf16 %04x", name, i);
    const bool is_nan = (i & 0x7fff) > 0x7f80;
    if (half_out[i] != (is_nan ? (i | 0x40) : i)) fail_msg("%s: bf16 %04x comes back", name, i);
    /* just below, on and above the middle to the next; the sign does not matter */
    if (is_nan || (i & 0x7fff) == 0x7f80) continue;
    float x[3] = {float_of(i << 16 | 0x7fff), float_of(i << 16 | 0x8000),
                  float_of(i << 16 | 0x8001)};
    uint16_t y[3];
    level->f32_to_bf16(3, x, y);
    if (y[0] != i || y[1] != i + (i & 1) || y[2] != i + 1)
      fail_msg("%s: rounding at %04x", name, i);
  }
  const float nan_low = float_of(0x7f800001u); /* its payload lies in the dropped bits alone */
  uint16_t y;
  level->f32_to_bf16(1, &nan_low, &y);
  assert_true((y & 0x7fff) > 0x7f80);
}

static void bf16_keeps_every_value_rounds_to_even_and_keeps_nan(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 65536; i++) half_in[i] = (uint16_t)i;
  each_level(brains);
}

static void tails(const wf_elementwise_table *level, const char *name) {
  uint16_t h[80], back[80];
  float w[80];
  for (int64_t n = 0; n <= 70; n++) {
    for (int i = 0; i < 80; i++) h[i] = (uint16_t)(0x3c00 + i), back[i] = 0xabcd, w[i] = 7.0f;
    level->f16_to_f32(n, h + 1, w + 1);
    if (w[0] != 7.0f || w[n + 1] != 7.0f) fail_msg("%s: n %d", name, (int)n);
    level->f32_to_f16(n, w + 1, back + 1);
    if (back[0] != 0xabcd || back[n + 1] != 0xabcd) fail_msg("%s: n %d", name, (int)n);
    assert_memory_equal(back + 1, h + 1, (size_t)n * 2);
    level->bf16_to_f32(n, h + 1, w + 1);
    if (w[0] != 7.0f || w[n + 1] != 7.0f) fail_msg("%s: n %d", name, (int)n);
    level->f32_to_bf16(n, w + 1, back + 1);
    if (back[0] != 0xabcd || back[n + 1] != 0xabcd) fail_msg("%s: n %d", name, (int)n);
    assert_memory_equal(back + 1, h + 1, (size_t)n * 2);
  }
}

static void conversions_touch_nothing_beside_their_rows(void **state) {
  (void)state;
  each_level(tails);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_function_stays_within_its_bound_for_every_tail),
      cmocka_unit_test(an_element_has_the_same_bits_in_every_lane),
      cmocka_unit_test(a_gated_row_is_the_activation_times_up),
      cmocka_unit_test(binary_operators_are_exact_with_scalars_on_either_side),
      cmocka_unit_test(norms_agree_with_the_formula_and_rows_are_independent),
      cmocka_unit_test(norms_worked_by_hand),
      cmocka_unit_test(softmax_agrees_with_the_formula_and_broken_rows_give_nan),
      cmocka_unit_test(argmax_takes_the_lowest_of_ties_and_refuses_broken_logits),
      cmocka_unit_test(every_half_converts_and_comes_back),
      cmocka_unit_test(halves_round_to_nearest_even_everywhere),
      cmocka_unit_test(bf16_keeps_every_value_rounds_to_even_and_keeps_nan),
      cmocka_unit_test(conversions_touch_nothing_beside_their_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
