/* SPDX-License-Identifier: Apache-2.0 */
/* Computing small tensors: for folding, and for proving what a mask subgraph computes. Plain loops
 * over any type; nothing here is meant to be fast. Private to src/graph. */
#ifndef WF_GRAPH_EVAL_H
#define WF_GRAPH_EVAL_H

#include "graph/edit.h"

/* Zeroed tensor with its own dims and data; NULL when memory is out or the shape is impossible. */
wf_tensor *eval_new_tensor(wf_arena *arena, wf_dtype dtype, int32_t rank, const int64_t *dims);
bool eval_store_i64(wf_tensor *t, size_t i, int64_t v); /* false: does not fit the type */
bool eval_store_f64(wf_tensor *t, size_t i, double v);
/* Computes a node. UNSUPPORTED (without a sentence) when it can't; PACKAGE_INVALID for impossible
 * shapes. Results live in `arena`. */
weft_status eval_node(const wf_node *n, const wf_tensor *const *inputs, wf_arena *arena,
                      wf_tensor **outputs, weft_error *err) WF_NODISCARD;

#endif
