/* SPDX-License-Identifier: Apache-2.0 */
/* Where the token axis is in every value. Private to src/graph. */
#ifndef WF_GRAPH_FLOW_H
#define WF_GRAPH_FLOW_H

#include "graph/passes.h"

typedef enum flow_kind {
  FLOW_INVARIANT, /* the same whatever the tokens are */
  FLOW_TOKENS,    /* one slice a token along `axis`; a slice depends on its own token alone */
  FLOW_SIZES,     /* integers computed from shapes */
  FLOW_OTHER      /* masks, states: must not reach the logits */
} flow_kind;

typedef struct flow_value {
  flow_kind kind;
  int32_t axis;
  int64_t inner; /* the axis has tokens * inner entries, tokens outermost */
} flow_value;

typedef struct flow {
  wf_graph *g; /* in packed symbols already */
  const wf_ports *ports;
  wf_packed *packed;  /* tokens, why */
  flow_value *values; /* [n] by id */
  size_t n;
  weft_error *err;
} flow;

/* Follows all live nodes; *ok false with packed->why when the proof fails. */
weft_status flow_run(flow *f, bool *ok) WF_NODISCARD;
bool flow_refuse(flow *f, const wf_node *n, const char *why); /* false */
void flow_deinit(flow *f);

/* positions.c: before batch and sequence are bound. */
weft_status graph_lift_positions(wf_graph *g, const wf_ports *ports, wf_packed *r, wf_expr batch,
                                 wf_expr seq, weft_error *err) WF_NODISCARD;

/* graph_core.c */
wf_graph *graph_clone(const wf_graph *g); /* same arena, expressions and ids; NULL: no memory */
void graph_swap(wf_graph *a, wf_graph *b);
void graph_free_own_lists(wf_graph *g); /* not those of subgraphs, which a copy shares */

#endif
