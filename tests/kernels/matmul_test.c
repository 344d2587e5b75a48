/* SPDX-License-Identifier: Apache-2.0 */
/* Every variant of the matrix products against sums taken here, in double, from the description.
 * The judge is the formula of matmul.h; nothing below asks the library what a value should be. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/process.h"
#include "kernels/matmul.h"
#include "support/test.h"

enum { GUARD = 64, GUARD_BYTE = 0xa5 };
#define SEED UINT64_C(20261130)

/* Levels this program can run: what the CPU has, and AVX-512 where it is emulated. */
static bool can_run(wf_cpu_level level) {
#ifdef WF_EMULATE_AVX512
  if (level >= WF_CPU_AVX512 && level <= WF_CPU_AVX512BF16) return true;
#endif
  return wf_cpu_has(wf_cpu_best(), level) != 0;
}
static const wf_cpu_level levels[] = {WF_CPU_REF,         WF_CPU_AVX2,       WF_CPU_AVX512,
                                      WF_CPU_AVX512VNNI,  WF_CPU_AVX512BF16, WF_CPU_NEON,
                                      WF_CPU_NEON_DOTPROD};
enum { N_LEVELS = sizeof levels / sizeof *levels };

static uint64_t next_random(uint64_t *s) {
  uint64_t z = (*s += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}
static float random_float(uint64_t *s) { /* [-1, 1) */
  return (float)(int32_t)(next_random(s) >> 32) * 0x1p-31f;
}
static uint16_t to_half(float f) { /* |f| in [2^-13, 2), truncated */
  uint32_t b;
  memcpy(&b, &f, 4);
  if ((b & 0x7fffffff) < 0x39000000) return (uint16_t)(b >> 16 & 0x8000);
  return (uint16_t)((b >> 16 & 0x8000) | (((b & 0x7fffffff) >> 13) - (112u << 10)));
}
static float from_half(uint16_t h) {
  uint32_t b = (uint32_t)(h & 0x7fff) << 13;
  float f;
  if (b) b += 112u << 23;
  b |= (uint32_t)(h & 0x8000) << 16;
  memcpy(&f, &b, 4);
  return f;
}

/* A weight with its true values beside it. */
typedef struct fixture {
  wf_weight_desc d;
  void *data;
  float *scales, *zeros_float, *offsets, *bias;
  uint8_t *zeros;
  double *w;         /* [n, k] */
  double *magnitude; /* [n, k]: what the bound multiplies |x| with */
} fixture;

typedef enum fold_kind { PLAIN, ZEROS, ZEROS_FLOAT, OFFSETS, ZEROS_OFFSETS, N_FOLDS } fold_kind;

static void *xcalloc(size_t n, size_t size) {
  void *p = calloc(n ? n : 1, size);
  if (!p) abort();
  return p;
}

static void fill_nbits(fixture *f, fold_kind fold, bool half_scales, uint64_t *s) {
  wf_weight_desc *d = &f->d;
  const int64_t nb = (d->k + d->block_size - 1) / d->block_size;
  const int64_t row_bytes = nb * d->block_size * d->bits / 8;
  const int64_t zero_bytes = (nb * d->bits + 7) / 8;
  const int mask = (1 << d->bits) - 1;
  uint8_t *q = f->data = xcalloc((size_t)(d->n * row_bytes) + 1, 1);

  q++;
  for (int64_t i = 0; i < d->n * row_bytes; i++) q[i] = (uint8_t)next_random(s);
  memset(q, 0, (size_t)row_bytes); /* the extremes, in the first two rows */
  if (d->n > 1) memset(q + row_bytes, 0xff, (size_t)row_bytes);
  f->scales = xcalloc((size_t)(d->n * nb), 4);
  f->zeros = xcalloc((size_t)(d->n * zero_bytes), 1);
  f->zeros_float = xcalloc((size_t)(d->n * nb), 4);
  f->offsets = xcalloc((size_t)(d->n * nb), 4);
  for (int64_t i = 0; i < d->n * zero_bytes; i++) f->zeros[i] = (uint8_t)next_random(s);
  for (int64_t i = 0; i < d->n * nb; i++) {
    f->scales[i] = random_float(s) * 0.1f;
    if (half_scales) f->scales[i] = from_half(to_half(f->scales[i]));
    if (next_random(s) % 16 == 0) f->scales[i] = 0.0f;
    f->zeros_float[i] = (float)(next_random(s) % 16) + 0.5f;
  }
  for (int64_t n = 0; n < d->n; n++) {
    for (int64_t b = 0; b < nb;
         b++) { /* as from GGUF: offset - 2^(bits-1) * scale is an fp16 number */
      float m = random_float(s);
      if (half_scales) m = from_half(to_half(m));
      f->offsets[b * d->n + n] = m + (float)(1 << (d->bits - 1)) * f->scales[n * nb + b];
    }
  }
  d->data = q;
  d->scales = f->scales;
  if (fold == ZEROS || fold == ZEROS_OFFSETS) d->zeros_packed = f->zeros;
  if (fold == ZEROS_FLOAT) d->zeros_float = f->zeros_float;
  if (fold == OFFSETS || fold == ZEROS_OFFSETS) d->offsets = f->offsets;
  for (int64_t n = 0; n < d->n; n++) {
    for (int64_t k = 0; k < d->k; k++) {
      const int64_t b = k / d->block_size, bit = k * d->bits, zbit = b * d->bits;
      const int v = q[n * row_bytes + bit / 8] >> bit % 8 & mask;
      double zero = 1 << (d->bits - 1);
      if (d->zeros_packed) zero = f->zeros[n * zero_bytes + zbit / 8] >> zbit % 8 & mask;
      if (d->zeros_float) zero = (double)f->zeros_float[n * nb + b];
      const double scale = (double)f->scales[n * nb + b];
      double w = (v - zero) * scale, size = fabs(w);
      if (d->offsets) {
        const double offset = (double)f->offsets[b * d->n + n];
        w += offset;
        size = fabs(v * scale) + fabs(offset - zero * scale);
        if (d->bits == 8) size += fabs(128 * scale); /* signed kernels count from the middle */
      }
      f->w[n * d->k + k] = w;
      f->magnitude[n * d->k + k] = size;
    }
  }
}

static void fill_dense(fixture *f, uint64_t *s) {
  wf_weight_desc *d = &f->d;
  const size_t size = d->format == WF_WEIGHT_F32 ? 4 : 2;
  uint8_t *data = f->data = xcalloc((size_t)(d->n * d->k) + 1, size);
  data++; /* a model file aligns its elements to nothing */

  for (int64_t n = 0; n < d->n; n++) {
    for (int64_t k = 0; k < d->k; k++) {
      float v = random_float(s);
      uint16_t bits16;
      const int64_t at = d->is_transposed ? k * d->n + n : n * d->k + k;
      if (d->format == WF_WEIGHT_F32) {
        memcpy(data + (size_t)at * 4, &v, 4);
      } else if (d->format == WF_WEIGHT_F16) {
        bits16 = to_half(v);
        v = from_half(bits16);
        memcpy(data + (size_t)at * 2, &bits16, 2);
      } else {
        uint32_t b;
        memcpy(&b, &v, 4);
        b &= 0xffff0000;
        memcpy(&v, &b, 4);
        bits16 = (uint16_t)(b >> 16);
        memcpy(data + (size_t)at * 2, &bits16, 2);
      }
      f->w[n * d->k + k] = (double)v;
      f->magnitude[n * d->k + k] = fabs((double)v);
    }
  }
  d->data = data;
}

static fixture make_fixture(wf_weight_desc d, fold_kind fold, bool half_scales, bool has_bias,
                            uint64_t *s) {
  fixture f = {.d = d};

  f.w = xcalloc((size_t)(d.n * d.k), sizeof *f.w);
  f.magnitude = xcalloc((size_t)(d.n * d.k), sizeof *f.magnitude);
  f.bias = xcalloc((size_t)d.n, 4);
  for (int64_t n = 0; n < d.n; n++) f.bias[n] = random_float(s);
  if (has_bias) f.d.bias = f.bias;
  if (d.format == WF_WEIGHT_NBITS) {
    fill_nbits(&f, fold, half_scales, s);
  } else {
    fill_dense(&f, s);
  }
  return f;
}
static void free_fixture(fixture *f) {
  free(f->data), free(f->scales), free(f->zeros), free(f->zeros_float), free(f->offsets);
  free(f->bias), free(f->w), free(f->magnitude);
}

/* What the fast mode makes of x, by the formula of matmul.h. */
static void round_to_int8(const float *x, int64_t k, int unit, double *out) {
  for (int64_t k0 = 0; k0 < k; k0 += unit) {
    const int64_t end = k0 + unit < k ? k0 + unit : k;
    float amax = 0.0f;
    for (int64_t i = k0; i < end; i++) amax = fmaxf(amax, fabsf(x[i]));
    for (int64_t i = k0; i < end; i++) {
      out[i] =
          amax == 0.0f ? 0.0 : rint((double)(x[i] * (127.0f / amax))) * (double)(amax / 127.0f);
    }
  }
}
static void round_to_bf16(const float *x, int64_t k, double *out) {
  for (int64_t i = 0; i < k; i++) {
    uint32_t b;
    float f;
    memcpy(&b, x + i, 4);
    b = (b + 0x7fff + (b >> 16 & 1)) & 0xffff0000;
    memcpy(&f, &b, 4);
    out[i] = (double)f;
  }
}

/* A packed weight in memory of its own. */
typedef struct packed {
  wf_packed_weight w;
  uint8_t *bytes;
  size_t n_bytes;
} packed;

static packed pack(const wf_weight_desc *d, wf_matmul_mode mode, wf_cpu_level level) {
  packed p;
  weft_error err = {0};

  assert_ok(wf_weight_plan(&p.w, d, mode, level, &p.n_bytes, &err), &err);
  p.bytes = wf_alloc_aligned(p.n_bytes + GUARD, 64);
  assert_non_null(p.bytes);
  memset(p.bytes, GUARD_BYTE, p.n_bytes + GUARD);
  wf_weight_pack(&p.w, d, p.bytes);
  for (int i = 0; i < GUARD; i++) assert_int_equal(p.bytes[p.n_bytes + (size_t)i], GUARD_BYTE);

  /* Whatever lay there before, equal weights give equal bytes. */
  uint8_t *again = wf_alloc_aligned(p.n_bytes, 64);
  assert_non_null(again);
  memset(again, 0x3c, p.n_bytes);
  wf_weight_pack(&p.w, d, again);
  assert_true(p.w.bytes <= p.n_bytes);
  assert_memory_equal(again, p.bytes, p.w.bytes);
  wf_weight_attach(&p.w, p.bytes);
  wf_free(again);
  return p;
}

/* y for m rows of x into a fresh guarded array with a stride larger than n. `split` cuts N. */
static float *multiply(const packed *p, wf_cpu_level level, int64_t m, const float *x, int64_t ldx,
                       int64_t ldy, int64_t split, const wf_epilogue *e) {
  const size_t act_bytes = wf_act_bytes(&p->w.act, m);
  uint8_t *act = wf_alloc_aligned(act_bytes + GUARD, 64);
  float *y = xcalloc((size_t)(m * ldy) + 16, 4);
  const int64_t step = split > 0 ? split * p->w.n_grain : p->w.n;

  assert_non_null(act);
  memset(act, GUARD_BYTE, act_bytes + GUARD);
  memset(y, GUARD_BYTE, ((size_t)(m * ldy) + 16) * 4);
  const int64_t half = m / 2 / WF_ACT_ROW_GRAIN * WF_ACT_ROW_GRAIN;
  wf_act_pack(&p->w.act, level, m, 0, half, x, ldx, act);
  wf_act_pack(&p->w.act, level, m, half, m, x, ldx, act);
  for (int i = 0; i < GUARD; i++) assert_int_equal(act[act_bytes + (size_t)i], GUARD_BYTE);
  for (int64_t n = 0; n < p->w.n; n += step) {
    wf_matmul_run(&p->w, m, act, y, ldy, n, n + step < p->w.n ? n + step : p->w.n, e);
  }
  for (int64_t r = 0; r < m; r++) {
    for (int64_t n = p->w.n; n < ldy; n++) {
      uint32_t bits;
      memcpy(&bits, y + r * ldy + n, 4);
      assert_int_equal(bits, 0xa5a5a5a5u);
    }
  }
  wf_free(act);
  return y;
}

static void check_values(const fixture *f, const packed *p, wf_matmul_mode mode, wf_cpu_level level,
                         int64_t m, const float *x, int64_t ldx) {
  const wf_weight_desc *d = &f->d;
  const int64_t ldy = d->n + 3;
  float *y = multiply(p, level, m, x, ldx, ldy, 0, NULL);
  double *rounded = xcalloc((size_t)d->k, sizeof *rounded);

  for (int64_t r = 0; r < m; r++) {
    for (int64_t k = 0; k < d->k; k++) rounded[k] = (double)x[r * ldx + k];
    if (d->format == WF_WEIGHT_NBITS && mode == WF_MATMUL_FAST) {
      round_to_int8(x + r * ldx, d->k, d->block_size < 32 ? d->block_size : 32, rounded);
    } else if (strstr(wf_weight_variant(&p->w)->name, "bf16")) {
      round_to_bf16(x + r * ldx, d->k, rounded);
    }
    for (int64_t n = 0; n < d->n; n++) {
      double sum = 0.0, size = 0.0;
      for (int64_t k = 0; k < d->k; k++) {
        sum += rounded[k] * f->w[n * d->k + k];
        size += fabs(rounded[k]) * f->magnitude[n * d->k + k];
      }
      if (d->bias) sum += (double)d->bias[n];
      const double bound = size * 0x1p-20 + fabs(sum) * 0x1p-23;
      const double got = (double)y[r * ldy + n];
      if (!(fabs(got - sum) <= bound)) {
        fail_msg(
            "%s n=%lld k=%lld bits=%d block=%d m=%lld: y[%lld,%lld] = %.9g, expected %.9g "
            "(difference %.3g, bound %.3g)",
            wf_weight_variant(&p->w)->name, (long long)d->n, (long long)d->k, d->bits,
            d->block_size, (long long)m, (long long)r, (long long)n, got, sum, got - sum, bound);
      }
    }
  }
  free(rounded);
  free(y);
}

static void check_bits_equal(const packed *p, wf_cpu_level level, const float *x, int64_t ldx) {
  static const int64_t ms[] = {1, 2, 7, 64};
  const int64_t ldy = p->w.n + 1;
  float *whole = multiply(p, level, 64, x, ldx, ldy, 0, NULL);

  for (size_t i = 0; i < sizeof ms / sizeof *ms; i++) {
    for (int64_t split = 0; split < 3; split++) {
      for (int64_t from = 0; from < 64; from += ms[i]) {
        const int64_t m = ms[i] < 64 - from ? ms[i] : 64 - from;
        float *part = multiply(p, level, m, x + from * ldx, ldx, ldy, split, NULL);
        for (int64_t r = 0; r < m; r++) {
          if (memcmp(part + r * ldy, whole + (from + r) * ldy, (size_t)p->w.n * 4) != 0) {
            fail_msg("%s: row %lld differs at m = %lld, split %lld", wf_weight_variant(&p->w)->name,
                     (long long)(from + r), (long long)m, (long long)split);
          }
        }
        free(part);
        if (from > 8) from += 13 * ms[i]; /* a sample of the later ones */
      }
    }
  }
  free(whole);
}

static float *make_rows(int64_t m, int64_t k, int64_t ldx, uint64_t *s) {
  float *x = xcalloc((size_t)(m * ldx) + 1, 4);
  (void)k;
  for (int64_t i = 0; i < m * ldx + 1; i++) x[i] = random_float(s);
  return x;
}

static void check_weight(wf_weight_desc d, fold_kind fold, bool half_scales, bool has_bias,
                         bool with_bits, uint64_t *s) {
  fixture f = make_fixture(d, fold, half_scales, has_bias, s);
  const int64_t ldx = d.k + 5;
  float *x = make_rows(64, d.k, ldx, s);

  for (size_t i = 0; i < N_LEVELS; i++) {
    if (!can_run(levels[i])) continue;
    for (int mode = WF_MATMUL_EXACT; mode <= WF_MATMUL_FAST; mode++) {
      packed p = pack(&f.d, (wf_matmul_mode)mode, levels[i]);
      check_values(&f, &p, (wf_matmul_mode)mode, levels[i], 1, x + 1, ldx); /* unaligned */
      check_values(&f, &p, (wf_matmul_mode)mode, levels[i], 7, x + 1, ldx);
      if (with_bits) check_bits_equal(&p, levels[i], x, ldx);
      wf_free(p.bytes);
    }
  }
  free(x);
  free_fixture(&f);
}

/* Tests -------------------------------------------------------------------------------------- */

static void nbits_products_equal_the_formula_for_all_bits_blocks_and_zero_points(void **state) {
  static const int all_bits[] = {2, 4, 8};
  uint64_t s = SEED;

  (void)state;
  printf("seed %llu\n", (unsigned long long)s);
  for (int b = 0; b < 3; b++) {
    for (int block = 16; block <= 256; block *= 2) {
      for (int fold = PLAIN; fold < N_FOLDS; fold++) {
        for (int half = 0; half < 2; half++) {
          const wf_weight_desc d = {.format = WF_WEIGHT_NBITS,
                                    .n = 19,
                                    .k = 2 * block + 8 * (fold + 1),
                                    .bits = all_bits[b],
                                    .block_size = block};
          check_weight(d, (fold_kind)fold, half, fold % 2, false, &s);
        }
      }
    }
  }
}

static void nbits_products_are_right_for_every_tail(void **state) {
  uint64_t s = SEED + 1;

  (void)state;
  for (int bits = 2; bits <= 8; bits *= 2) {
    for (int64_t k = 1; k <= 70; k++) {
      const wf_weight_desc d = {.format = WF_WEIGHT_NBITS,
                                .n = 1 + k % 35,
                                .k = k,
                                .bits = bits,
                                .block_size = k % 3 == 0 ? 16 : 32};
      check_weight(d, (fold_kind)(k % N_FOLDS), k & 1, false, false, &s);
    }
  }
}

static void dense_products_are_right_for_every_tail_and_layout(void **state) {
  uint64_t s = SEED + 2;

  (void)state;
  for (int format = WF_WEIGHT_F32; format <= WF_WEIGHT_BF16; format++) {
    for (int64_t n = 1; n <= 50; n++) {
      const wf_weight_desc d = {
          .format = (wf_weight_format)format, .n = n, .k = 1 + n * 7 % 41, .is_transposed = n & 1};
      check_weight(d, PLAIN, false, n % 3 == 0, false, &s);
    }
    const wf_weight_desc d = {.format = (wf_weight_format)format, .n = 40, .k = 777};
    check_weight(d, PLAIN, false, true, false, &s);
  }
}

static void a_row_has_the_same_bits_for_every_row_count_and_split(void **state) {
  uint64_t s = SEED + 3;

  (void)state;
  for (int bits = 2; bits <= 8; bits *= 2) {
    for (int fold = PLAIN; fold < N_FOLDS; fold += 3) {
      const wf_weight_desc d = {
          .format = WF_WEIGHT_NBITS, .n = 70, .k = 200, .bits = bits, .block_size = 32};
      check_weight(d, (fold_kind)fold, true, true, true, &s);
    }
  }
  for (int format = WF_WEIGHT_F32; format <= WF_WEIGHT_BF16; format++) {
    const wf_weight_desc d = {.format = (wf_weight_format)format, .n = 70, .k = 300};
    check_weight(d, PLAIN, false, true, true, &s);
  }
}

static void the_largest_integers_neither_overflow_nor_saturate(void **state) {
  (void)state;
  for (int bits = 2; bits <= 8; bits *= 2) {
    for (int sign = -1; sign <= 1; sign += 2) {
      for (int q = 0; q <= 255; q += 255) {
        enum { K = 512, N = 20 };
        float scales[N * 2], x[K];
        uint8_t *data = xcalloc(N * K, 1);
        const wf_weight_desc d = {.format = WF_WEIGHT_NBITS,
                                  .n = N,
                                  .k = K,
                                  .data = data,
                                  .bits = bits,
                                  .block_size = 256,
                                  .scales = scales};
        memset(data, q, N * K);
        for (int i = 0; i < N * 2; i++) scales[i] = 1.0f;
        for (int i = 0; i < K; i++) x[i] = (float)(sign * 127); /* amax 127: the scale is 1 */
        const int half = 1 << (bits - 1);
        const float expected = (float)(K * sign * 127 * (q ? half - 1 : -half));
        for (size_t i = 0; i < N_LEVELS; i++) {
          if (!can_run(levels[i])) continue;
          for (int mode = 0; mode < 2; mode++) {
            packed p = pack(&d, (wf_matmul_mode)mode, levels[i]);
            float *y = multiply(&p, levels[i], 1, x, K, N, 0, NULL);
            for (int n = 0; n < N; n++) {
              if (y[n] != expected) {
                fail_msg("%s bits %d: %.9g, expected %.9g", wf_weight_variant(&p.w)->name, bits,
                         (double)y[n], (double)expected);
              }
            }
            free(y);
            wf_free(p.bytes);
          }
        }
        free(data);
      }
    }
  }
}

static void a_nan_or_an_infinity_stays_in_its_row(void **state) {
  uint64_t s = SEED + 4;
  enum { K = 96, N = 24, M = 6 };
  const float bad[] = {NAN, INFINITY, -INFINITY};

  (void)state;
  for (int dense = 0; dense < 2; dense++) {
    const wf_weight_desc d = {.format = dense ? WF_WEIGHT_F32 : WF_WEIGHT_NBITS,
                              .n = N,
                              .k = K,
                              .bits = 4,
                              .block_size = 32};
    fixture f = make_fixture(d, PLAIN, true, false, &s);
    for (size_t i = 0; i < N_LEVELS; i++) {
      if (!can_run(levels[i])) continue;
      for (int mode = 0; mode < 2; mode++) {
        packed p = pack(&f.d, (wf_matmul_mode)mode, levels[i]);
        float *x = make_rows(M, K, K, &s);
        float *clean = multiply(&p, levels[i], M, x, K, N, 0, NULL);
        for (int b = 0; b < 3; b++) {
          const float old = x[2 * K + 40];
          x[2 * K + 40] = bad[b];
          float *y = multiply(&p, levels[i], M, x, K, N, 0, NULL);
          for (int n = 0; n < N; n++) {
            const bool is_used = f.w[n * K + 40] != 0.0;
            if (is_used && isfinite(y[2 * N + n])) fail_msg("a finite sum of %g", (double)bad[b]);
            if (b == 0) assert_true(isnan(y[2 * N + n]));
          }
          assert_memory_equal(y, clean, 2 * N * 4);
          assert_memory_equal(y + 3 * N, clean + 3 * N, 3 * N * 4);
          x[2 * K + 40] = old;
          free(y);
        }
        free(clean);
        free(x);
        wf_free(p.bytes);
      }
    }
    free_fixture(&f);
  }
}

/* One channel 300 times the rest: the rest of its block is rounded coarsely, other blocks are not,
 * and no output is further off than half a step of each block times the weights. */
static void a_channel_300_times_the_rest_disturbs_its_own_block_only(void **state) {
  uint64_t s = SEED + 5;
  enum { K = 576, N = 48 };
  const wf_weight_desc d = {.format = WF_WEIGHT_NBITS, .n = N, .k = K, .bits = 4, .block_size = 32};
  fixture f = make_fixture(d, OFFSETS, true, false, &s);
  float *x = make_rows(1, K, K, &s);

  (void)state;
  x[100] = 300.0f;
  for (size_t i = 0; i < N_LEVELS; i++) {
    if (!can_run(levels[i])) continue;
    packed p = pack(&f.d, WF_MATMUL_FAST, levels[i]);
    float *y = multiply(&p, levels[i], 1, x, K, N, 0, NULL);
    for (int n = 0; n < N; n++) {
      double exact = 0.0, bound = 0.0;
      for (int k0 = 0; k0 < K; k0 += 32) {
        double amax = 0.0, weights = 0.0;
        for (int k = k0; k < k0 + 32; k++) {
          exact += (double)x[k] * f.w[n * K + k];
          amax = fmax(amax, fabs((double)x[k]));
          weights += fabs(f.w[n * K + k]);
        }
        bound += amax / 254.0 * weights;
      }
      assert_true(fabs((double)y[n] - exact) <= bound * 1.0001);
    }
    free(y);
    wf_free(p.bytes);
  }
  free(x);
  free_fixture(&f);
}

static void the_epilogue_adds_the_residual_also_in_place(void **state) {
  uint64_t s = SEED + 6;
  enum { K = 64, N = 37, M = 5 };

  (void)state;
  for (int dense = 0; dense < 2; dense++) {
    const wf_weight_desc d = {.format = dense ? WF_WEIGHT_F32 : WF_WEIGHT_NBITS,
                              .n = N,
                              .k = K,
                              .bits = 4,
                              .block_size = 32};
    fixture f = make_fixture(d, PLAIN, true, true, &s);
    float *x = make_rows(M, K, K, &s), *residual = make_rows(M, N, N + 2, &s);
    for (size_t i = 0; i < N_LEVELS; i++) {
      if (!can_run(levels[i])) continue;
      packed p = pack(&f.d, WF_MATMUL_EXACT, levels[i]);
      const wf_epilogue e = {WF_EPILOGUE_ADD, residual, N + 2};
      for (int m = 1; m <= M; m += M - 1) {
        float *plain = multiply(&p, levels[i], m, x, K, N, 0, NULL);
        float *added = multiply(&p, levels[i], m, x, K, N, 0, &e);
        for (int r = 0; r < m; r++) {
          for (int n = 0; n < N; n++) {
            const float sum = residual[r * (N + 2) + n] + plain[r * N + n];
            assert_memory_equal(&added[r * N + n], &sum, 4);
          }
        }
        free(plain);
        free(added);
      }
      wf_free(p.bytes);
    }
    free(x);
    free(residual);
    free_fixture(&f);
  }
}

static void packed_activations_are_the_same_at_every_level(void **state) {
  uint64_t s = SEED + 7;

  (void)state;
  for (int64_t k = 1; k <= 200; k++) {
    const wf_weight_desc d = {
        .format = WF_WEIGHT_NBITS, .n = 1, .k = k, .bits = 4, .block_size = k % 2 ? 32 : 16};
    fixture f = make_fixture(d, PLAIN, true, false, &s);
    float *x = make_rows(3, k, k, &s);
    packed p = pack(&f.d, WF_MATMUL_FAST, WF_CPU_REF);
    const size_t bytes = wf_act_bytes(&p.w.act, 3);
    uint8_t *expected = wf_alloc_aligned(bytes, 64), *got = wf_alloc_aligned(bytes, 64);
    if (k > 40) memset(x, 0, 32 * 4);
    if (k > 80) x[k + 7] = 1e-37f;
    if (k % 5 == 0) x[k / 2] = 3e38f;
    wf_act_pack(&p.w.act, WF_CPU_REF, 3, 0, 3, x, k, expected);
    for (size_t i = 0; i < N_LEVELS; i++) {
      if (!can_run(levels[i])) continue;
      memset(got, GUARD_BYTE, bytes);
      wf_act_pack(&p.w.act, levels[i], 3, 0, 3, x, k, got);
      assert_memory_equal(got, expected, bytes);
    }
    wf_free(expected);
    wf_free(got);
    wf_free(p.bytes);
    free(x);
    free_fixture(&f);
  }
}

static void gathered_rows_equal_the_formula(void **state) {
  uint64_t s = SEED + 8;
  const int32_t ids[] = {4, 0, 10, 4};

  (void)state;
  for (int c = 0; c < 3 * N_FOLDS + 6; c++) {
    wf_weight_desc d = {
        .format = WF_WEIGHT_NBITS, .n = 11, .k = 75, .bits = 2 << c % 3, .block_size = 32};
    if (c >= 3 * N_FOLDS) {
      d.format = (wf_weight_format)(c % 3);
      d.is_transposed = c & 1;
    }
    fixture f = make_fixture(d, (fold_kind)(c / 3 % N_FOLDS), true, false, &s);
    float y[4 * 80];
    wf_weight_gather(&f.d, ids, 4, y, 80);
    for (int i = 0; i < 4; i++) {
      for (int k = 0; k < 75; k++) {
        const double expected = f.w[ids[i] * 75 + k];
        assert_true(fabs((double)y[i * 80 + k] - expected) <=
                    f.magnitude[ids[i] * 75 + k] * 0x1p-22);
      }
    }
    free_fixture(&f);
  }
}

static void two_computed_matrices_multiply_by_the_formula(void **state) {
  uint64_t s = SEED + 9;

  (void)state;
  for (int c = 0; c < 120; c++) {
    const int64_t m = 1 + (int64_t)(next_random(&s) % 120), n = 1 + (int64_t)(next_random(&s) % 50);
    const int64_t k = 1 + (int64_t)(next_random(&s) % 300);
    const bool t = c & 1;
    const int64_t ldb = (t ? k : n) + 3;
    float *a = make_rows(m, k, k + 1, &s), *b = make_rows(t ? n : k, 0, ldb, &s);
    float *y = xcalloc((size_t)(m * (n + 2)), 4), *one = xcalloc((size_t)n, 4);
    for (size_t i = 0; i < N_LEVELS; i++) {
      if (!can_run(levels[i])) continue;
      wf_gemm_f32(levels[i], m, n, k, a, k + 1, b, ldb, t, y, n + 2);
      wf_gemm_f32(levels[i], 1, n, k, a + (m - 1) * (k + 1), k + 1, b, ldb, t, one, n);
      assert_memory_equal(one, y + (m - 1) * (n + 2), (size_t)n * 4);
      for (int64_t r = 0; r < m; r++) {
        for (int64_t j = 0; j < n; j++) {
          double sum = 0.0, size = 0.0;
          for (int64_t q = 0; q < k; q++) {
            const double v =
                (double)a[r * (k + 1) + q] * (double)(t ? b[j * ldb + q] : b[q * ldb + j]);
            sum += v;
            size += fabs(v);
          }
          assert_true(fabs((double)y[r * (n + 2) + j] - sum) <= size * 0x1p-20);
        }
      }
    }
    free(a), free(b), free(y), free(one);
  }
}

static void what_no_kernel_takes_is_refused(void **state) {
  wf_packed_weight w;
  size_t bytes;
  weft_error err = {0};
  wf_weight_desc d = {.format = WF_WEIGHT_NBITS, .n = 8, .k = 32, .bits = 3, .block_size = 32};

  (void)state;
  assert_refused(wf_weight_plan(&w, &d, WF_MATMUL_FAST, WF_CPU_REF, &bytes, &err), WEFT_UNSUPPORTED,
                 &err);
  d.bits = 4;
  for (int block = 0; block <= 512; block += 24) {
    if (block >= 16 && block <= 256 && (block & (block - 1)) == 0) continue;
    d.block_size = block;
    assert_refused(wf_weight_plan(&w, &d, WF_MATMUL_FAST, WF_CPU_REF, &bytes, &err),
                   WEFT_UNSUPPORTED, &err);
  }
  d.block_size = 32;
  d.k = INT64_MAX / 2;
  assert_refused(wf_weight_plan(&w, &d, WF_MATMUL_FAST, WF_CPU_REF, &bytes, &err),
                 WEFT_INVALID_ARGUMENT, &err);
}

static void planning_reads_no_array_of_the_description(void **state) {
  static const float one = 1.0f; /* its neighbours are no scales: a read of them would show */
  wf_packed_weight w;
  size_t bytes, expected;
  weft_error err = {0};
  wf_weight_desc d = {.format = WF_WEIGHT_NBITS,
                      .n = 1 << 20,
                      .k = 4096,
                      .bits = 4,
                      .block_size = 32,
                      .data = &one,
                      .scales = &one,
                      .offsets = &one};

  (void)state;
  for (size_t i = 0; i < N_LEVELS; i++) {
    d.scales = d.offsets = &one;
    assert_ok(wf_weight_plan(&w, &d, WF_MATMUL_FAST, levels[i], &bytes, &err), &err);
    d.scales = d.offsets = (const float *)(uintptr_t)64; /* faults when read */
    assert_ok(wf_weight_plan(&w, &d, WF_MATMUL_FAST, levels[i], &expected, &err), &err);
    assert_int_equal(bytes, expected);
  }
}

static void every_variant_of_the_table_is_reached(void **state) {
  size_t n;
  const wf_matmul_variant_info *v = wf_matmul_variants(&n);
  bool is_seen[64] = {false};

  (void)state;
  assert_true(n <= 64);
  for (size_t i = 0; i < N_LEVELS; i++) {
    for (int c = 0; c < 12; c++) {
      const wf_weight_desc d = {.format = (wf_weight_format)(c % 4),
                                .n = 8,
                                .k = 32,
                                .bits = 2 << c / 4,
                                .block_size = 32};
      for (int mode = 0; mode < 2; mode++) {
        wf_packed_weight w;
        size_t bytes;
        weft_error err = {0};
        assert_ok(wf_weight_plan(&w, &d, (wf_matmul_mode)mode, levels[i], &bytes, &err), &err);
        is_seen[wf_weight_variant(&w) - v] = true;
      }
    }
  }
  for (size_t i = 0; i < n; i++) {
    if (!is_seen[i]) fail_msg("%s is never chosen", v[i].name);
    printf("%s: %s\n", v[i].name, can_run(v[i].needs) ? "tested" : "not on this CPU");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nbits_products_equal_the_formula_for_all_bits_blocks_and_zero_points),
      cmocka_unit_test(nbits_products_are_right_for_every_tail),
      cmocka_unit_test(dense_products_are_right_for_every_tail_and_layout),
      cmocka_unit_test(a_row_has_the_same_bits_for_every_row_count_and_split),
      cmocka_unit_test(the_largest_integers_neither_overflow_nor_saturate),
      cmocka_unit_test(a_nan_or_an_infinity_stays_in_its_row),
      cmocka_unit_test(a_channel_300_times_the_rest_disturbs_its_own_block_only),
      cmocka_unit_test(the_epilogue_adds_the_residual_also_in_place),
      cmocka_unit_test(packed_activations_are_the_same_at_every_level),
      cmocka_unit_test(gathered_rows_equal_the_formula),
      cmocka_unit_test(two_computed_matrices_multiply_by_the_formula),
      cmocka_unit_test(what_no_kernel_takes_is_refused),
      cmocka_unit_test(planning_reads_no_array_of_the_description),
      cmocka_unit_test(every_variant_of_the_table_is_reached),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
