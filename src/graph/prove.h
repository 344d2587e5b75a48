/* SPDX-License-Identifier: Apache-2.0 */
/* What masks, lengths and positions of a decoder compute, found by evaluating their subgraphs over
 * many lengths. Private to src/graph. */
#ifndef WF_GRAPH_PROVE_H
#define WF_GRAPH_PROVE_H

#include "graph/passes.h"

/* GroupQueryAttention's two length inputs: the mask's sum less one and the total length. */
bool prove_lengths(pass *p, int32_t seqlens, int32_t total);
/* The value is the absolute position of each new token: past length + index. */
bool prove_positions(pass *p, int32_t value);
/* The value, added to (or, if bool, selecting) scores [B, heads, S, total], is the causal rule with
 * a window (0: none) and the padding of attention_mask. is_inverted: a bool that is true where the
 * scores are hidden. */
bool prove_mask(pass *p, int32_t value, bool is_inverted, int32_t *window);

#endif
