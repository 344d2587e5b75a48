/* SPDX-License-Identifier: Apache-2.0 */
/* Products of integers: y[m, n] = (float)sum_k (a[m, k] - za) (b[k, n] - zb[n]) * (sa * sb[n])
 * + bias[n], as DynamicQuantizeLinear, MatMulInteger, Cast, Mul and Add compute it.
 *
 * THE CONTRACT. a are bytes 0..255 with one scale and zero point for a whole tensor, whose range is
 * taken first; b are bytes, signed or not, packed once. The sum is exact (modulo 2^32, as
 * MatMulInteger's int32), the scales are multiplied with each other first, then with the sum, each
 * operation rounded by itself: every variant gives the bits of ref, for every number of rows and
 * every split.
 *
 * A run is: the range of the tensor (parts may be taken apart and joined by min and max), codes of
 * rows, then columns. */
#ifndef WF_KERNELS_MATMUL_INT_H
#define WF_KERNELS_MATMUL_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/process.h"

enum { WF_INT_N_GRAIN = 16 }; /* ranges of columns begin at multiples of this */

typedef struct wf_int_desc {
  int64_t n, k;
  const uint8_t *data; /* [K, N], int8 or uint8; any alignment */
  bool is_signed;
  const uint8_t *zeros; /* of data's type: one, or [N]; NULL: 0 */
  int64_t n_zeros;
  const float *scales; /* one, or [N] */
  int64_t n_scales;
  const float *bias; /* [N] or NULL */
} wf_int_desc;

typedef struct wf_int_variant wf_int_variant;

typedef struct wf_int_weight {
  int64_t n, k;
  const wf_int_variant *variant;
  const void *data; /* packed bytes, 64-byte aligned */
  size_t bytes;
} wf_int_weight;

/* One tensor's own range as DynamicQuantizeLinear makes it. */
typedef struct wf_int_range {
  float scale;
  uint8_t zero;
} wf_int_range;

/* Chooses the kernel and says how many packed bytes there are. Errors: INVALID_ARGUMENT (sizes that
 * overflow). Thread: any. */
weft_status wf_int_plan(wf_int_weight *w, int64_t n, int64_t k, wf_cpu_level level,
                        size_t *packed_bytes, weft_error *err) WF_NODISCARD;
/* Fills `packed` (64-byte aligned; position independent) and points w at it. */
void wf_int_pack(wf_int_weight *w, const wf_int_desc *d, void *packed);
void wf_int_attach(wf_int_weight *w, const void *packed);

/* Widens [*low, *high], which hold 0 at first, by x. A NaN is passed over. */
void wf_int_widen(wf_cpu_level level, const float *x, int64_t n, float *low, float *high);
wf_int_range wf_int_range_of(float low, float high);
/* x -> nearest-even(x / scale) + zero, cut to 0..255; a NaN is 0. */
void wf_int_codes(wf_cpu_level level, wf_int_range range, const float *x, int64_t n,
                  uint8_t *codes);

/* Bytes of m rows of codes as wf_int_run reads them. */
size_t wf_int_act_bytes(int64_t k, int64_t m);
/* Codes of rows [m_begin, m_end) of x [m, k]. act is 64-byte aligned. */
void wf_int_act(wf_cpu_level level, wf_int_range range, int64_t k, int64_t m_begin, int64_t m_end,
                const float *x, void *act);
/* y [m, N], columns [n_begin, n_end); n_begin is a multiple of WF_INT_N_GRAIN and n_end too, or N.
 * Allocates nothing. */
void wf_int_run(const wf_int_weight *w, wf_int_range range, int64_t m, const void *act, float *y,
                int64_t n_begin, int64_t n_end);

/* Every variant, best first, for the tests. */
typedef struct wf_int_variant_info {
  const char *name;
  wf_cpu_level needs;
} wf_int_variant_info;
const wf_int_variant_info *wf_int_variants(size_t *n);

#endif
