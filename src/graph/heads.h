/* SPDX-License-Identifier: Apache-2.0 */
/* Undoing what exporters write around attention: head-major layout, repeated heads, rotation.
 * Private to src/graph. */
#ifndef WF_GRAPH_HEADS_H
#define WF_GRAPH_HEADS_H

#include "graph/passes.h"

/* From a head-major [B, H, S, D] value to the same numbers token-major [B, S, H * D]; new nodes are
 * made where a norm or cast stands between. -1: the layout is another. */
weft_status heads_to_tokens(pass *p, int32_t value, int32_t *result) WF_NODISCARD;
/* Whether heads_to_tokens will succeed. */
bool heads_can_turn(const wf_graph *g, int32_t value);
/* Heads written several times (Unsqueeze, Expand, Reshape): gives the value before, or itself. */
int32_t heads_before_repeat(const wf_graph *g, int32_t value);
/* Transpose with exactly this perm: gives its input; -1 otherwise. */
int32_t transposed_by(const wf_graph *g, int32_t value, const int64_t *perm, size_t n);
/* Multiplications and divisions by constants of one element are taken into *scale. */
int32_t before_scales(const wf_graph *g, int32_t value, double *scale);

typedef struct rotation {
  wf_rotary_params params; /* heads and head_dim are the caller's to fill */
  int32_t cos, sin;        /* values as WEFT_ATTENTION takes them */
} rotation;

/* The value before its rotation; itself (kind NONE) when there is none. Head-major. */
int32_t before_rotation(pass *p, int32_t value, rotation *r);

#endif
