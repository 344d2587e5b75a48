/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products: y[m, n] = sum_k x[m, k] * w[n, k], for every weight format weft knows.
 *
 * The weight is prepared once (wf_weight_pack) into the layout that the CPU level in force wants;
 * the activations of one run are prepared once (wf_act_pack: copied, rounded or quantised) and then
 * multiplied by any number of weights of the same activation kind and block size.
 *
 * THE CONTRACT. A weight has ONE numeric contract, a function of (format, mode, CPU level, K): how
 * activations are rounded, the type multiplied, and the order of the sum over K. It is the same for
 * every number of rows m (1 is the decode case), for every split of N over threads, and for every
 * m-tile: y[i, j] has the same bits whatever the other rows are. Kernels never split K over
 * threads. Integer parts equal ref exactly; the float part stays within the stated bound of ref: |y
 * - ref| <= 2^-20 * sum_k |x_k * w_k|   (exact mode, fp32 accumulation) fast mode: the same bound
 * against ref run on the same quantised activations. Weights with offsets are computed as scale * q
 * + c, c = offset - zero * scale rounded once (and exact for what a GGUF file holds); their bound
 * has |x_k| * (|scale * q_k| + |c|) for |x_k * w_k|.
 *
 * FAST ACTIVATIONS of NBITS weights: units of min(block_size, 32) along K become int8:
 *   scale = amax / 127, q = nearest-even(x * (127 / amax)), amax the unit's largest |x|.
 * Both the products and the sums that zero points and offsets are multiplied with are of these
 * rounded activations, so that a rounding error meets w itself, never the larger q or offset. Units
 * below 2^-100 count as 0; a unit with a NaN or an infinity makes the whole row NaN.
 *
 * PACKED BYTES hold all that a run needs (bias too): the description's pointers are read by
 * wf_weight_pack alone, at every level. 2-bit weights are widened to 4.
 */
#ifndef WF_KERNELS_MATMUL_H
#define WF_KERNELS_MATMUL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/process.h"

/* How a weight is stored in the file. N rows (outputs) of K inputs; [N, K] unless `is_transposed`.
 */
typedef enum wf_weight_format {
  WF_WEIGHT_F32,
  WF_WEIGHT_F16,
  WF_WEIGHT_BF16,
  WF_WEIGHT_NBITS /* com.microsoft MatMulNBits: bits 2, 4 or 8, blocks of 16..256 along K */
} wf_weight_format;

typedef struct wf_weight_desc {
  wf_weight_format format;
  int64_t n, k;
  /* Dense formats. is_transposed: data is [K, N] (an ONNX MatMul's B) instead of [N, K]. */
  /* Dense elements, or NBITS blobs [N, n_blocks, block_size * bits / 8]; any alignment. */
  const void *data;
  bool is_transposed;
  /* NBITS. n_blocks = ceil(K / block_size). w = (q - zero) * scale + offset. */
  int bits, block_size;
  const float *scales;         /* [N, n_blocks]; fp16/bf16 scales are widened by the caller */
  const uint8_t *zeros_packed; /* [N, ceil(n_blocks * bits / 8)] packed low bits first, or NULL */
  const float *zeros_float;    /* [N, n_blocks] zero points as floats, or NULL */
  /* Neither: the zero point is 2^(bits-1). */
  const float *offsets; /* [n_blocks, N] added to each weight of the block, or NULL:
                         * y += sum_b offset[b, n] * sum_{k in b} x_k */
  const float *bias;    /* [N] or NULL, added last */
} wf_weight_desc;

typedef enum wf_matmul_mode {
  WF_MATMUL_EXACT, /* activations stay fp32 and are multiplied in fp32 */
  WF_MATMUL_FAST   /* NBITS: activations become int8, one scale a block of the weight's block_size
                    * (or 32 where that is smaller); dense: as EXACT (BF16 level may multiply bf16
                    * weights with activations rounded to bf16) */
} wf_matmul_mode;

/* What wf_act_pack has to produce; weights with equal kinds share one packed activation. */
typedef struct wf_act_kind {
  int32_t id;         /* which rounding and layout; level-private meaning */
  int32_t block_size; /* of the quantised forms, else 0 */
  int64_t k;
} wf_act_kind;

typedef struct wf_packed_weight {
  int64_t n, k;
  int64_t n_grain; /* ranges handed to wf_matmul_run begin at multiples of this */
  wf_act_kind act;
  const void *variant; /* the kernel's own table row */
  const void *data;    /* packed bytes, 64-byte aligned */
  wf_weight_desc desc; /* as planned; its pointers may be stale and are not read again */
  size_t bytes;        /* read for one full product: for roofline figures */
} wf_packed_weight;

/* Chooses the kernel for a weight and says how many packed bytes it may need, never 0. Of the
 * description's arrays only their presence counts: nothing is read, so that a start from a cache
 * file touches no page of the source. wf_weight_pack may fill less (scales that are exactly fp16
 * are kept so); w->bytes then tells. Errors: UNSUPPORTED for a format no kernel takes (bits other
 * than 2, 4, 8; a block size that is no power of two in 16..256), INVALID_ARGUMENT for sizes that
 * overflow. Thread: any. */
weft_status wf_weight_plan(wf_packed_weight *w, const wf_weight_desc *desc, wf_matmul_mode mode,
                           wf_cpu_level level, size_t *packed_bytes, weft_error *err) WF_NODISCARD;
/* Fills `packed` (64-byte aligned, packed_bytes of wf_weight_plan) and points w at it. The bytes
 * are position independent, so that they can live in a cache file. Thread: any. */
void wf_weight_pack(wf_packed_weight *w, const wf_weight_desc *desc, void *packed);
/* Points w at bytes that an earlier wf_weight_pack of the same desc, mode and level has filled. */
void wf_weight_attach(wf_packed_weight *w, const void *packed);
/* Changes with any layout: part of the key of a cache file. */
uint32_t wf_weight_layout_version(void);

/* Bytes of packed activations for m rows. */
size_t wf_act_bytes(const wf_act_kind *kind, int64_t m);
/* Packs rows [m_begin, m_end) of x [m, k] (row stride ldx in elements) into act (64-byte aligned,
 * wf_act_bytes(kind, m_total)). Threads may pack disjoint row ranges whose borders are multiples of
 * WF_ACT_ROW_GRAIN; results do not depend on the split. */
enum { WF_ACT_ROW_GRAIN = 4 };
void wf_act_pack(const wf_act_kind *kind, wf_cpu_level level, int64_t m_total, int64_t m_begin,
                 int64_t m_end, const float *x, int64_t ldx, void *act);

/* What happens to a finished sum before it is stored. */
typedef enum wf_epilogue_op {
  WF_EPILOGUE_NONE, /* y = sum (+ bias) */
  WF_EPILOGUE_ADD   /* y = residual + (sum + bias); residual may be y itself */
} wf_epilogue_op;
typedef struct wf_epilogue {
  wf_epilogue_op op;
  const float *residual; /* [m, n] with row stride ld_residual */
  int64_t ld_residual;
} wf_epilogue;

/* y [m, n] with row stride ldy, columns [n_begin, n_end) of rows [0, m); n_begin is a multiple of
 * w->n_grain and n_end too, or n. epilogue may be NULL. Allocates nothing. Thread: any, with
 * disjoint column ranges. */
void wf_matmul_run(const wf_packed_weight *w, int64_t m, const void *act, float *y, int64_t ldy,
                   int64_t n_begin, int64_t n_end, const wf_epilogue *epilogue);

/* Rows [of an NBITS or dense table] as fp32: y[i, :] = w[ids[i], :], the embedding gather.
 * `desc->n` is the vocabulary; ids must lie in range (the caller has checked). */
void wf_weight_gather(const wf_weight_desc *desc, const int32_t *ids, int64_t n_ids, float *y,
                      int64_t ldy);

/* The same rows, bit for bit, out of the packed bytes of a weight: for a head that is the embedding
 * too, so that the table in the file need not be read again. False of a layout whose rows can't be
 * had exactly. */
bool wf_packed_can_gather(const wf_packed_weight *w);
void wf_packed_gather(const wf_packed_weight *w, const int32_t *ids, int64_t n_ids, float *y,
                      int64_t ldy);

/* fp32 x fp32 with both sides activations (ONNX MatMul of two computed tensors): y[m,n] = a[m,k]
 * b, b is [k, n] (b_is_transposed: [n, k]); the same contract. */
void wf_gemm_f32(wf_cpu_level level, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                 const float *b, int64_t ldb, bool b_is_transposed, float *y, int64_t ldy);

/* Every variant of every family, for the tests: name, level it needs, and the family's own entry.
 */
typedef struct wf_matmul_variant_info {
  const char *name; /* "q4_avx2" */
  wf_cpu_level needs;
} wf_matmul_variant_info;
const wf_matmul_variant_info *wf_matmul_variants(size_t *n);
/* The row of that table a planned weight has got: for reports and tests. */
const wf_matmul_variant_info *wf_weight_variant(const wf_packed_weight *w);

#endif
