/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/op_types.h"

void wf_walk_begin(wf_walk *w, int32_t rank, const int64_t *dims, int32_t n_operands,
                   const wf_view *const *operands) {
  *w = (wf_walk){.rank = rank, .n_operands = n_operands};
  for (int32_t i = 0; i < rank; i++) w->dims[i] = dims[i];
  for (int32_t k = 0; k < n_operands; k++) {
    wf_op_broadcast_strides(operands[k], rank, w->strides[k]);
  }
  /* Trailing axes that every operand runs through without a gap (or not at all) become one run. */
  w->run = 1;
  int32_t inner = rank;
  for (int32_t k = 0; k < n_operands; k++) w->steps[k] = 0;
  while (inner > 0) {
    const int32_t i = inner - 1;
    bool fits = true;
    for (int32_t k = 0; k < n_operands && w->dims[i] != 1; k++) {
      const int64_t s = w->strides[k][i];
      if (w->run == 1) {
        fits = fits && (s == 0 || s == 1);
      } else {
        fits = fits && s == w->steps[k] * w->run;
      }
    }
    if (!fits) break;
    for (int32_t k = 0; k < n_operands && w->run == 1 && w->dims[i] != 1; k++) {
      w->steps[k] = w->strides[k][i];
    }
    w->run *= w->dims[i];
    inner--;
  }
  w->rank = inner;
  for (int32_t i = 0; i < inner; i++) w->is_done |= w->dims[i] == 0;
  w->is_done |= w->run == 0;
}

bool wf_walk_next(wf_walk *w) {
  for (int32_t i = w->rank; i-- > 0;) {
    w->index[i]++;
    for (int32_t k = 0; k < w->n_operands; k++) w->at[k] += w->strides[k][i];
    if (w->index[i] < w->dims[i]) return true;
    for (int32_t k = 0; k < w->n_operands; k++) w->at[k] -= w->strides[k][i] * w->dims[i];
    w->index[i] = 0;
  }
  return false;
}
