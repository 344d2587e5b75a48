/* SPDX-License-Identifier: Apache-2.0 */
/* How fast attention is: decode as bytes of cache a second, prefill as multiplications a second,
 * for SmolLM2's shape (9 heads, 3 kv heads, 64 wide) at each level. One thread; the best of several
 * runs. attention_bench [level] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/process.h"
#include "kernels/attention.h"

enum { KV_HEADS = 3, HEADS = 9, DIM = 64, BLOCK = 64, MAX_TOKENS = 4096 };

static const char *const type_names[] = {"f32", "f16", "q8"};

static void die(const char *what) {
  fprintf(stderr, "attention_bench: %s\n", what);
  exit(1);
}

static void *need(size_t n) {
  void *p = wf_alloc_aligned(n, 64);
  if (!p) die("out of memory");
  memset(p, 0, n);
  return p;
}

typedef struct bench {
  wf_cpu_level level;
  wf_kv_layer layer;
  wf_attention_row row;
  float *q, *k, *v, *y;
  void *scratch;
} bench;

static void fill(bench *b, wf_kv_type type, unsigned char **table) {
  const size_t bytes = type == WF_KV_F32 ? 4 : type == WF_KV_F16 ? 2 : 1;
  const size_t plane = (size_t)KV_HEADS * BLOCK * DIM * bytes;
  const size_t scales = (size_t)KV_HEADS * BLOCK * 4;
  b->layer = (wf_kv_layer){.type = type,
                           .kv_heads = KV_HEADS,
                           .head_dim = DIM,
                           .head_dim_v = DIM,
                           .block_tokens = BLOCK,
                           .key_offset = 0,
                           .value_offset = plane,
                           .key_scale_offset = 2 * plane,
                           .value_scale_offset = 2 * plane + scales};
  for (int i = 0; i < MAX_TOKENS / BLOCK; i++) table[i] = need(2 * (plane + scales));
  b->row = (wf_attention_row){.blocks = table, .n_new = MAX_TOKENS};
  wf_kv_append(b->level, &b->layer, &b->row, NULL, b->k, KV_HEADS * DIM, b->v, KV_HEADS * DIM, 0,
               MAX_TOKENS);
}

static double seconds(const bench *b, int64_t past, int64_t n_new, int runs) {
  const wf_attention_spec spec = {.n_heads = HEADS, .scale = 0.125f};
  wf_attention_row row = b->row;
  double best = INFINITY;
  row.past = past;
  row.n_new = n_new;
  const int64_t n = wf_attention_n_items(&spec, &b->layer, &row);
  for (int run = 0; run < runs; run++) {
    const uint64_t start = wf_clock_ns();
    for (int64_t i = 0; i < n; i++)
      wf_attention_item(b->level, &spec, &b->layer, &row, b->q, HEADS * DIM, b->y, HEADS * DIM, i,
                        b->scratch);
    const double took = (double)(wf_clock_ns() - start) * 1e-9;
    best = took < best ? took : best;
  }
  return best;
}

int main(int argc, char **argv) {
  static const wf_cpu_level levels[] = {WF_CPU_REF, WF_CPU_AVX2, WF_CPU_AVX512, WF_CPU_NEON};
  bench b = {0};
  const wf_attention_spec spec = {.n_heads = HEADS};
  b.q = need((size_t)MAX_TOKENS * HEADS * DIM * 4);
  b.y = need((size_t)MAX_TOKENS * HEADS * DIM * 4);
  b.k = need((size_t)MAX_TOKENS * KV_HEADS * DIM * 4);
  b.v = need((size_t)MAX_TOKENS * KV_HEADS * DIM * 4);
  for (int i = 0; i < MAX_TOKENS * HEADS * DIM; i++) b.q[i] = sinf((float)i);
  for (int i = 0; i < MAX_TOKENS * KV_HEADS * DIM; i++) {
    b.k[i] = cosf((float)i * 0.7f);
    b.v[i] = sinf((float)i * 0.3f);
  }
  for (size_t l = 0; l < sizeof levels / sizeof levels[0]; l++) {
    b.level = levels[l];
    if (!wf_cpu_has(wf_cpu_best(), b.level)) continue;
    if (argc > 1 && strcmp(argv[1], wf_cpu_level_name(b.level)) != 0) continue;
    for (int type = WF_KV_F32; type <= WF_KV_Q8; type++) {
      unsigned char *table[MAX_TOKENS / BLOCK];
      fill(&b, (wf_kv_type)type, table);
      b.scratch = need(wf_attention_scratch_bytes(&spec, &b.layer, MAX_TOKENS));
      for (int64_t context = 128; context <= MAX_TOKENS; context *= 2) {
        const int runs = b.level == WF_CPU_REF ? 2 : 30;
        const double decode = seconds(&b, context - 1, 1, runs * 5);
        const double bytes = (double)context * KV_HEADS * DIM * 2 *
                             (type == WF_KV_F32   ? 4
                              : type == WF_KV_F16 ? 2
                                                  : 1);
        printf("%-6s %-3s context %5d: decode %8d ns, %6d MB/s", wf_cpu_level_name(b.level),
               type_names[type], (int)context, (int)(decode * 1e9), (int)(bytes / decode * 1e-6));
        if (context <= 2048 && (b.level != WF_CPU_REF || context <= 256)) {
          const double prompt = seconds(&b, 0, context, b.level == WF_CPU_REF ? 1 : 5);
          const double work = (double)context * (double)(context + 1) / 2.0 * HEADS * DIM * 4.0;
          printf("; prompt %9d ns, %4d.%d Gflop/s", (int)(prompt * 1e9),
                 (int)(work / prompt * 1e-9), (int)(work / prompt * 1e-8) % 10);
        }
        printf("\n");
      }
      for (int i = 0; i < MAX_TOKENS / BLOCK; i++) wf_free(table[i]);
      wf_free(b.scratch);
    }
  }
  wf_free(b.q);
  wf_free(b.k);
  wf_free(b.v);
  wf_free(b.y);
  return 0;
}
