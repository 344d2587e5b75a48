/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter: graphs that are not packed, node by node on dense tensors. Private to native/.
 */
#ifndef WF_NATIVE_INTERP_H
#define WF_NATIVE_INTERP_H

#include "backend/native/pool.h"
#include "backend/native/session.h"

/* What is known of a graph before it runs; one for each subgraph too. */
typedef struct wf_graph_plan {
  const wf_graph *graph;
  const wf_view *constants; /* by value id; data NULL: not a constant, or not needed */
  const int32_t *uses;      /* by value id: readers within the graph, outputs included */
} wf_graph_plan;

typedef struct wf_interp_plan {
  size_t n;
  wf_graph_plan *graphs;
} wf_interp_plan;

/* A value in flight: buffer NULL when somebody else owns the memory. */
typedef struct wf_held {
  wf_view view;
  wf_pool_buffer *buffer;
  int32_t uses;
  bool is_set;
} wf_held;

typedef struct wf_frame wf_frame;
struct wf_frame {
  const wf_graph_plan *plan;
  wf_frame *parent;
  wf_held *values;
  wf_pool_buffer *memory; /* of `values` */
};

enum { WF_INTERP_MAX_SCRATCH = 64, WF_INTERP_MAX_DEPTH = 32 };

struct wf_interp {
  wf_backend_session *s;
  wf_pool pool;
  wf_pool_buffer *scratch[WF_INTERP_MAX_SCRATCH]; /* of the operator that runs */
  size_t n_scratch;
  int depth;
  int64_t n_iterations;     /* of all Loops of the run */
  int64_t past;             /* of the row that runs */
  wf_pool_buffer **outputs; /* [n_outputs] what the last run left behind */
  wf_view *views;           /* [n_inputs] */
};

/* profile_steps.c */
void wf_profile_node(wf_interp *in, const wf_frame *f, const wf_node *n, uint64_t begin_ns);

/* interp_plan.c */
weft_status wf_interp_compile(wf_component *c, weft_error *err) WF_NODISCARD;
/* Does a node of the main graph read the input while running? What packed weights are made of is
 * not read again. */
bool wf_interp_reads(const wf_component *c, const wf_node *n, int32_t input);
const wf_graph_plan *wf_interp_find(const wf_component *c, const wf_graph *g);

/* interp.c */
weft_status wf_frame_open(wf_interp *in, wf_frame *f, const wf_graph *g, wf_frame *parent,
                          weft_error *err) WF_NODISCARD;
void wf_frame_close(wf_interp *in, wf_frame *f);
/* Sets input i of the frame's graph; takes a reference of the buffer. */
void wf_frame_bind(wf_frame *f, size_t i, const wf_view *v, wf_pool_buffer *buffer);
weft_status wf_frame_run(wf_interp *in, wf_frame *f, weft_error *err) WF_NODISCARD;
/* Value of the frame, through captures; NULL when it has none. */
const wf_held *wf_frame_value(const wf_frame *f, int32_t id);
weft_status wf_interp_take(wf_interp *in, size_t n_bytes, wf_pool_buffer **result,
                           weft_error *err) WF_NODISCARD;

/* interp_moe.c: a node whose experts are collected. */
weft_status wf_interp_moe(wf_interp *in, wf_frame *f, const wf_node *n,
                          weft_error *err) WF_NODISCARD;

/* interp_control.c: nodes with subgraphs. Results go to the frame's values. */
weft_status wf_interp_control(wf_interp *in, wf_frame *f, const wf_node *n,
                              weft_error *err) WF_NODISCARD;
/* Sets an output value of a node; takes over the reference. */
void wf_frame_set(wf_frame *f, int32_t id, const wf_view *v, wf_pool_buffer *buffer);

#endif
