/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the evaluator share. Private to src/graph. */
#ifndef WF_GRAPH_EVAL_OPS_H
#define WF_GRAPH_EVAL_OPS_H

#include "graph/eval.h"

enum { EVAL_MAX_ELEMENTS = 1 << 22, EVAL_MAX_PORTS = 8 };

/* An element of any type: f for floating types, i for the others (both are set by loads). */
typedef struct num {
  double f;
  int64_t i;
} num;

typedef struct evaluator {
  const wf_node *n;
  const wf_tensor *in[EVAL_MAX_PORTS];
  wf_tensor **out;
  wf_arena *arena;
} evaluator;

num eval_load(const wf_tensor *t, size_t i);
void eval_store(wf_tensor *t, size_t i, num v);
bool eval_can_read(const wf_tensor *t);
bool eval_can_write(wf_dtype t);
bool eval_broadcast(const wf_tensor *const *in, int32_t n, int32_t *rank, int64_t *dims);
void eval_strides(const wf_tensor *t, int32_t rank, const int64_t *dims, int64_t *strides);
bool eval_next(int32_t rank, const int64_t *dims, int64_t *index);
size_t eval_offset(int32_t rank, const int64_t *index, const int64_t *strides);
/* Makes output i; NULL when it would be too large or memory is out. */
wf_tensor *eval_out(evaluator *e, int32_t i, wf_dtype dtype, int32_t rank, const int64_t *dims);

weft_status eval_binary(evaluator *e);
weft_status eval_unary(evaluator *e);
weft_status eval_cast(evaluator *e);
weft_status eval_where(evaluator *e);

#endif
