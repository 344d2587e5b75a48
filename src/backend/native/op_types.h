/* SPDX-License-Identifier: Apache-2.0 */
/* The element types operators work on, for code that is written once per type. */
#ifndef WF_NATIVE_OP_TYPES_H
#define WF_NATIVE_OP_TYPES_H

#include "backend/native/op.h"

/* X(DTYPE, C type, unsigned type of the same arithmetic) */
#define WF_FLOAT_TYPES(X) X(F32, float) X(F64, double)
#define WF_INT_TYPES(X) \
  X(I8, int8_t)         \
  X(I16, int16_t)       \
  X(I32, int32_t)       \
  X(I64, int64_t)       \
  X(U8, uint8_t)        \
  X(U16, uint16_t)      \
  X(U32, uint32_t)      \
  X(U64, uint64_t)
#define WF_IS_SIGNED(T) \
  _Generic((T)0, int8_t : 1, int16_t : 1, int32_t : 1, int64_t : 1, default : 0)
#define WF_NUMBER_TYPES(X) WF_FLOAT_TYPES(X) WF_INT_TYPES(X)

/* Walks a broadcast shape: calls `body` with the offsets (in elements) of runs along the last axis.
 * Strides are those of wf_op_broadcast_strides. */
typedef struct wf_walk {
  int32_t rank;
  int64_t dims[WF_VIEW_MAX_RANK], index[WF_VIEW_MAX_RANK];
  int32_t n_operands;
  int64_t strides[4][WF_VIEW_MAX_RANK];
  int64_t at[4];
  int64_t run, steps[4]; /* length of the inner run and each operand's step in it */
  bool is_done;
} wf_walk;

void wf_walk_begin(wf_walk *w, int32_t rank, const int64_t *dims, int32_t n_operands,
                   const wf_view *const *operands);
bool wf_walk_next(wf_walk *w); /* false after the last run */

#endif
