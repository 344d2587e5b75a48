/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the matrix products are on this machine: bytes a second for one row (decode), products a
 * second for many (prompt). Figures are the best of several runs, since other work only slows.
 *
 *   matmul_bench [level] [part of a format's name] [K N]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/process.h"
#include "kernels/matmul.h"

typedef struct format {
  const char *name;
  wf_weight_format format;
  int bits;
  bool has_offsets;
  wf_matmul_mode mode;
} format;

static const format formats[] = {
    {"q4+offsets fast", WF_WEIGHT_NBITS, 4, true, WF_MATMUL_FAST},
    {"q4 fast", WF_WEIGHT_NBITS, 4, false, WF_MATMUL_FAST},
    {"q8 fast", WF_WEIGHT_NBITS, 8, false, WF_MATMUL_FAST},
    {"q4 exact", WF_WEIGHT_NBITS, 4, false, WF_MATMUL_EXACT},
    {"q8 exact", WF_WEIGHT_NBITS, 8, false, WF_MATMUL_EXACT},
    {"f32", WF_WEIGHT_F32, 0, false, WF_MATMUL_EXACT},
    {"f16", WF_WEIGHT_F16, 0, false, WF_MATMUL_EXACT},
    {"bf16", WF_WEIGHT_BF16, 0, false, WF_MATMUL_FAST},
};
static const int64_t shapes[][2] = {/* K, N of SmolLM2-135M */
                                    {576, 960},
                                    {576, 576},
                                    {576, 3072},
                                    {1536, 576},
                                    {576, 49152}};
static const int64_t row_counts[] = {1, 4, 64, 256};

/* Seconds of one product, the best of at least 5 runs and 0.15 s. */
static double best_time(const wf_packed_weight *w, wf_cpu_level level, int64_t m, const float *x,
                        void *act, float *y, double *pack_time) {
  double best = 1e30, total = 0.0;

  *pack_time = 1e30;
  for (int i = 0; i < 5 || total < 0.15; i++) {
    const uint64_t t0 = wf_clock_ns();
    wf_act_pack(&w->act, level, m, 0, m, x, w->k, act);
    const uint64_t t1 = wf_clock_ns();
    wf_matmul_run(w, m, act, y, w->n, 0, w->n, NULL);
    const double t = (double)(wf_clock_ns() - t1) * 1e-9, pack = (double)(t1 - t0) * 1e-9;
    if (t < best) best = t;
    if (pack < *pack_time) *pack_time = pack;
    total += t;
  }
  return best;
}

static void *need(void *p) {
  if (!p) {
    fputs("no memory\n", stderr);
    exit(1);
  }
  return p;
}

static void bench(const format *f, int64_t k, int64_t n, wf_cpu_level level) {
  const size_t blocks = (size_t)(k / 32 * n), n_elements = (size_t)(k * n);
  uint8_t *data = need(wf_zalloc(n_elements * 4));
  float *scales = need(wf_calloc(blocks, 4)), *offsets = need(wf_calloc(blocks, 4));
  wf_weight_desc d = {.format = f->format, .n = n, .k = k, .data = data};
  wf_packed_weight w;
  size_t bytes;
  weft_error err = {0};

  if (f->format == WF_WEIGHT_NBITS) {
    d.bits = f->bits;
    d.block_size = 32;
    d.scales = scales;
    if (f->has_offsets) d.offsets = offsets;
    for (size_t i = 0; i < n_elements; i++) data[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t i = 0; i < blocks; i++) scales[i] = 0.0078125f, offsets[i] = 0.5f;
  }
  if (wf_weight_plan(&w, &d, f->mode, level, &bytes, &err) != WEFT_OK) {
    fprintf(stderr, "%s\n", err.what);
    exit(1);
  }
  void *packed = need(wf_alloc_aligned(bytes, 64));
  const uint64_t t0 = wf_clock_ns();
  wf_weight_pack(&w, &d, packed);
  const double pack_ms = (double)(wf_clock_ns() - t0) * 1e-6;
  printf("%-16s %5lldx%-6lld", f->name, (long long)k, (long long)n);
  for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++) {
    const int64_t m = row_counts[i];
    double pack_time;
    if (m > 128 && n > 10000) continue;
    float *x = need(wf_calloc((size_t)(m * k), 4)), *y = need(wf_calloc((size_t)(m * n), 4));
    void *act = need(wf_alloc_aligned(wf_act_bytes(&w.act, m), 64));
    for (int64_t j = 0; j < m * k; j++) x[j] = (float)(j % 19) - 9.0f;
    const double t = best_time(&w, level, m, x, act, y, &pack_time);
    if (m == 1) printf("  %6.2f GB/s", (double)w.bytes / t * 1e-9);
    printf("  m=%lld %7.2f GMAC/s (act %4.1f%%)", (long long)m, (double)(m * n * k) / t * 1e-9,
           100.0 * pack_time / t);
    wf_free(x);
    wf_free(y);
    wf_free(act);
  }
  printf("  pack %.0f ms\n", pack_ms);
  fflush(stdout);
  wf_free(packed);
  wf_free(data);
  wf_free(scales);
  wf_free(offsets);
}

int main(int argc, char **argv) {
  wf_cpu_level level = wf_cpu_best();

  for (int i = 0; argc > 1 && i <= WF_CPU_NEON_DOTPROD; i++) {
    const char *name = wf_cpu_level_name((wf_cpu_level)i);
    if (name && strcmp(name, argv[1]) == 0) level = (wf_cpu_level)i;
  }
  printf("%s\n", wf_cpu_level_name(level));
  for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
    if (argc > 2 && !strstr(formats[f].name, argv[2])) continue;
    if (argc > 4) {
      bench(formats + f, strtol(argv[3], NULL, 10), strtol(argv[4], NULL, 10), level);
      continue;
    }
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
      bench(formats + f, shapes[s][0], shapes[s][1], level);
    }
  }
  return 0;
}
