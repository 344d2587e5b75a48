/* SPDX-License-Identifier: Apache-2.0 */
/* One operator on dense tensors: what the interpreter, constant folding and the odd step of a
 * packed program call. An operator reads views, decides the shapes of its outputs itself and asks
 * the caller for their memory, so it serves shapes that are known only while running.
 *
 * HELD TYPES. Tensors in flight never have 16-bit floats or types narrower than a byte: F16 and
 * BF16 are held as F32, 4- and 2-bit integers as 8-bit ones (wf_dtype_held). Only ports convert. */
#ifndef WF_NATIVE_OP_H
#define WF_NATIVE_OP_H

#include "backend/backend.h"

enum { WF_OP_MIN_OUTPUTS = 8, WF_OP_MAX_OUTPUTS = 64 };

typedef struct wf_op_call wf_op_call;

/* What an operator may ask of whoever runs it. */
typedef struct wf_op_env {
  wf_cpu_level level;
  wf_team *team; /* NULL: alone */
  int64_t past;  /* absolute position of the first new token, of a row run by itself */
  void *user;
  /* Memory for output i, 64-byte aligned, valid as long as the caller keeps the output. */
  weft_status (*make)(void *user, int32_t output, size_t n_bytes, void **data, weft_error *err);
  /* Memory that is only needed until the operator returns. */
  weft_status (*scratch)(void *user, size_t n_bytes, void **data, weft_error *err);
  /* Runs a subgraph of the node: inputs by position; outputs become the frame's own and are copied
   * out by the caller before the next call. NULL: subgraphs are not supported here. */
  weft_status (*subgraph)(void *user, const wf_graph *g, const wf_view *inputs, size_t n_inputs,
                          wf_view *outputs, size_t n_outputs, weft_error *err);
} wf_op_env;

struct wf_op_call {
  const wf_node *node;
  const wf_graph *graph;
  const wf_op_env *env;
  int32_t n_in, n_out;
  const wf_view *const *in; /* [n_in], NULL: absent */
  wf_view *out;             /* [n_out]; data NULL until made */
  int32_t *alias;           /* [n_out]; index of the input whose memory output i shares, or -1 */
};

typedef weft_status wf_op_fn(wf_op_call *c, weft_error *err);

/* The function of an operator; NULL: there is none. Thread: any. */
wf_op_fn *wf_op_function(wf_op op);
/* Refuses the first live node of the graph (subgraphs included) that no function runs, by name,
 * domain, version and node. */
weft_status wf_op_check_graph(const wf_graph *g, weft_error *err) WF_NODISCARD;

wf_dtype wf_dtype_held(wf_dtype t);
size_t wf_held_bytes(wf_dtype t); /* of one element of a held type; 0: none */
/* Elements of a view; 1 for rank 0. Shapes of views are checked when made. */
int64_t wf_view_count(const wf_view *v);
/* Widens n elements of a stored type into its held type. */
weft_status wf_hold(wf_cpu_level level, wf_dtype stored, const void *src, size_t n, void *dst,
                    weft_error *err) WF_NODISCARD;
/* The way back; float rounding to nearest even, integers saturate. */
weft_status wf_unhold(wf_cpu_level level, wf_dtype stored, const void *src, size_t n, void *dst,
                      weft_error *err) WF_NODISCARD;

/* What a node MatMulBnb4 says of its weight (ops_bnb4.c). */
typedef struct wf_bnb4_form {
  int64_t n, k, block_size;
  int64_t n_bytes, n_scales; /* that the weight and its scales must have */
  const float *table;        /* [16] */
} wf_bnb4_form;
/* False of a form that is not defined. */
bool wf_bnb4_form_of(const wf_node *n, wf_bnb4_form *f);
/* All weights as fp32, [n, k]. */
void wf_bnb4_widen(const wf_bnb4_form *f, const uint8_t *data, const float *scales, float *out);

/* ---- for operator files ---------------------------------------------------------------------- */

/* Input i, or NULL when absent. */
static inline const wf_view *wf_op_in(const wf_op_call *c, int32_t i) {
  return i < c->n_in ? c->in[i] : NULL;
}
static inline bool wf_op_wants(const wf_op_call *c, int32_t i) {
  return i < c->n_out && wf_node_output(c->node, i) >= 0;
}
/* Shapes output i and gets its memory (scratch when nobody wants it). dtype is held. `out` of a
 * call has room for WF_OP_MIN_OUTPUTS at least, whatever the node says. */
weft_status wf_op_make(wf_op_call *c, int32_t i, wf_dtype dtype, int32_t rank, const int64_t *dims,
                       weft_error *err) WF_NODISCARD;
/* Output i is input `in` with another shape and no copy. */
void wf_op_alias(wf_op_call *c, int32_t i, int32_t in, int32_t rank, const int64_t *dims);
weft_status wf_op_scratch(wf_op_call *c, size_t n_bytes, void **data, weft_error *err) WF_NODISCARD;
/* A refusal that names the node. */
weft_status wf_op_fail(const wf_op_call *c, weft_error *err, weft_status status, const char *fmt,
                       ...) WF_PRINTF(4, 5);
/* "WHAT does not fit": INVALID_ARGUMENT. */
weft_status wf_op_misfit(const wf_op_call *c, const char *what, weft_error *err) WF_COLD;
/* Runs fn on every member of the team, or alone where there is none. */
void wf_op_share(const wf_op_call *c, wf_team_fn *fn, void *arg);
/* Inputs [0, n) must be there. */
weft_status wf_op_need(const wf_op_call *c, int32_t n, weft_error *err) WF_NODISCARD;
/* Integers of a small tensor of any integer type (axes, shapes, pads); LIMIT above `max`. */
weft_status wf_op_ints(const wf_op_call *c, const wf_view *v, int64_t *result, size_t max,
                       size_t *n, weft_error *err) WF_NODISCARD;
/* Brings an axis into [0, rank). */
weft_status wf_op_axis(const wf_op_call *c, int64_t axis, int32_t rank, int32_t *result,
                       weft_error *err) WF_NODISCARD;
/* numpy's broadcast of two shapes. */
weft_status wf_op_broadcast(const wf_op_call *c, const wf_view *a, int32_t *rank, int64_t *dims,
                            weft_error *err) WF_NODISCARD;
/* Element strides of v inside a broadcast shape (0 along stretched axes). */
void wf_op_broadcast_strides(const wf_view *v, int32_t rank, int64_t *strides);
/* Product of dims [begin, end). */
static inline int64_t wf_dims_product(const int64_t *dims, int32_t begin, int32_t end) {
  int64_t n = 1;
  for (int32_t i = begin; i < end; i++) n *= dims[i];
  return n;
}

#endif
