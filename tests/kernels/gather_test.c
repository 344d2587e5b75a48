/* SPDX-License-Identifier: Apache-2.0 */
/* Rows out of packed weights against rows out of the table they were packed from: the same bits,
 * for each format, level, block size and kind of zero point that can be gathered from. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kernels/matmul.h"

enum { N = 37, K = 96, N_IDS = 9 };
static const int32_t ids[N_IDS] = {0, 36, 7, 8, 15, 16, 31, 1, 36};
static unsigned char data[N * K * 4];
static float scales[N * (K / 16)];
static uint8_t zeros[N * 8];

static void check(const wf_weight_desc *d, wf_matmul_mode mode, wf_cpu_level level,
                  int *n_gathered) {
  weft_error err = {0};
  wf_packed_weight w = {0};
  size_t n_bytes = 0;
  float *expected = wf_calloc(N_IDS * K, sizeof *expected),
        *got = wf_calloc(N_IDS * K, sizeof *got);
  assert_ok(wf_weight_plan(&w, d, mode, level, &n_bytes, &err), &err);
  void *packed = wf_alloc_aligned(n_bytes ? n_bytes : 64, 64);
  assert_true(expected && got && packed);
  if (n_bytes) {
    wf_weight_pack(&w, d, packed);
    if (wf_packed_can_gather(&w)) {
      wf_weight_gather(d, ids, N_IDS, expected, K);
      wf_packed_gather(&w, ids, N_IDS, got, K);
      assert_memory_equal(got, expected, N_IDS * K * sizeof *got);
      ++*n_gathered;
    }
  }
  wf_free(packed);
  wf_free(expected);
  wf_free(got);
}

static void rows_have_the_bits_of_the_table(void **state) {
  (void)state;
  static const wf_weight_format dense[] = {WF_WEIGHT_F32, WF_WEIGHT_F16, WF_WEIGHT_BF16};
  static const wf_cpu_level levels[] = {WF_CPU_REF,        WF_CPU_AVX2,       WF_CPU_AVX512,
                                        WF_CPU_AVX512VNNI, WF_CPU_AVX512BF16, WF_CPU_NEON};
  int n_gathered = 0;
  srand(5);
  for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)(rand() & 0x3f); /* no NaN */
  for (size_t i = 0; i < WF_ARRAY_LEN(scales); i++) scales[i] = (float)(rand() % 1000) / 777.0f;
  for (size_t i = 0; i < sizeof zeros; i++) zeros[i] = (uint8_t)rand();
  for (size_t l = 0; l < WF_ARRAY_LEN(levels); l++) {
    /* packing is plain C on every machine; only running needs the level */
    if (!wf_cpu_has(wf_cpu_best(), levels[l]) && levels[l] == WF_CPU_NEON) continue;
    for (int mode = 0; mode < 2; mode++) {
      for (size_t f = 0; f < WF_ARRAY_LEN(dense); f++) {
        for (int transposed = 0; transposed < 2; transposed++) {
          const wf_weight_desc d = {
              .format = dense[f], .n = N, .k = K, .data = data, .is_transposed = transposed != 0};
          check(&d, (wf_matmul_mode)mode, levels[l], &n_gathered);
        }
      }
      for (int bits = 2; bits <= 8; bits *= 2) {
        for (int block = 16; block <= 32; block *= 2) {
          for (int with_zeros = 0; with_zeros < 2; with_zeros++) {
            const wf_weight_desc d = {.format = WF_WEIGHT_NBITS,
                                      .n = N,
                                      .k = K,
                                      .data = data,
                                      .bits = bits,
                                      .block_size = block,
                                      .scales = scales,
                                      .zeros_packed = with_zeros ? zeros : NULL};
            check(&d, (wf_matmul_mode)mode, levels[l], &n_gathered);
          }
        }
      }
    }
  }
  /* on a machine with tiled layouts most of these can be gathered from */
  if (wf_cpu_best() != WF_CPU_REF) assert_true(n_gathered > 30);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_have_the_bits_of_the_table)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
