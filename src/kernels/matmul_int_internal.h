/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the integer products share. Private to kernels.
 *
 * PACKED BYTES: this header, then groups of 16 columns,
 *   [k4 / 4][16][4] signed bytes (unsigned ones less 128), K padded with zeros to k4,
 *   then wf_int_columns of the group.
 * CODES: rows of `stride` bytes: k4 codes, zeros up to the last 64 bytes, there the sum of the
 * row's codes. */
#ifndef WF_KERNELS_MATMUL_INT_INTERNAL_H
#define WF_KERNELS_MATMUL_INT_INTERNAL_H

#include <string.h>

#include "kernels/matmul_int.h"

enum { WF_INT_NR = WF_INT_N_GRAIN, WF_INT_TAIL = 64 };

typedef struct wf_int_header {
  int64_t n, k, k4;
  uint64_t group_bytes, total_bytes;
  uint32_t magic, has_bias;
  uint64_t pad[2];
} wf_int_header;
_Static_assert(sizeof(wf_int_header) == 64, "groups lie on 64 bytes");

typedef struct wf_int_columns {
  float scale[WF_INT_NR], bias[WF_INT_NR];
  uint32_t zero[WF_INT_NR], sum[WF_INT_NR]; /* of the stored bytes; sum over K */
} wf_int_columns;

/* The sums of stored bytes times codes: columns [group * 16, + 16) of `rows` rows, acc [rows][16].
 */
typedef void wf_int_dots_fn(const wf_int_header *h, const uint8_t *group, int64_t rows,
                            const uint8_t *act, size_t stride, uint32_t *acc);
enum { WF_INT_MAX_ROWS = 8 };

struct wf_int_variant {
  wf_cpu_level needs;
  wf_int_dots_fn *dots; /* at most WF_INT_MAX_ROWS rows */
};

wf_int_dots_fn wf_int_dots_ref, wf_int_dots_avx2, wf_int_dots_avx512vnni;
void wf_int_widen_avx2(const float *x, int64_t n, float *low, float *high);
/* Gives the number of codes done, a multiple of 8. */
int64_t wf_int_codes_avx2(wf_int_range range, const float *x, int64_t n, uint8_t *codes);

static inline size_t wf_int_stride(int64_t k) { return ((size_t)k + 63) / 64 * 64 + WF_INT_TAIL; }

#endif
