/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF's block formats taken apart: into the integers, scales and offsets of ONNX Runtime's
 * MatMulNBits layout, or into plain floats. No file, no graph. */
#ifndef WF_GGML_BLOCKS_H
#define WF_GGML_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a block type looks as MatMulNBits: weight = scale * (q - zero) + offset, where zero is the
 * operator's default (8 for 4 bits, 128 for 8 bits) and offset is 0 without `has_offset`. */
typedef struct wf_ggml_form {
  int bits;        /* 4 or 8 */
  int block;       /* weights that share a scale: 16 or 32 */
  bool has_offset; /* the type has a minimum */
} wf_ggml_form;

/* False for types that are not block-quantised or not known. */
bool wf_ggml_form_of(uint32_t type, wf_ggml_form *form);
bool wf_ggml_is_float(uint32_t type); /* F32, F16, BF16 */

/* Takes one row of k weights apart (k a multiple of the type's block).
 * Shapes: q [k * bits / 8], 4-bit pairs with the earlier weight in the low half; scales and offsets
 * [k / block]. Any of the three may be NULL: it is not wanted. Exact but for rounding of offsets.
 */
void wf_ggml_row_split(uint32_t type, const unsigned char *src, size_t k, uint8_t *q, float *scales,
                       float *offsets);

/* One row as floats, dst [k]; block types and float types alike. */
void wf_ggml_row_floats(uint32_t type, const unsigned char *src, size_t k, float *dst);

#endif
