/* SPDX-License-Identifier: Apache-2.0 */
/* The passes, one file each, and the few matching helpers they share. Private to src/graph. */
#ifndef WF_GRAPH_PASSES_H
#define WF_GRAPH_PASSES_H

#include "graph/edit.h"

typedef struct pass {
  wf_graph *g;
  const wf_pass_options *o;
  weft_error *err;
  bool changed;
  /* Of prove.c: what was asked before (a value never changes what it means), and how many elements
   * may still be computed, so that no file can keep the prover busy. */
  struct proof {
    int32_t value, question; /* question 0: empty */
    bool is_true;
    int32_t window;
  } proofs[64];
  size_t n_proofs, n_evaluated;
} pass;

typedef weft_status (*pass_fn)(pass *p);

weft_status pass_fold(pass *p);        /* constants computed once */
weft_status pass_branches(pass *p);    /* If with a known condition */
weft_status pass_identity(pass *p);    /* nodes that change nothing */
weft_status pass_share(pass *p);       /* common subexpressions */
weft_status pass_norm(pass *p);        /* WEFT_NORM */
weft_status pass_activation(pass *p);  /* WEFT_UNARY, WEFT_GLU */
weft_status pass_linear(pass *p);      /* WEFT_LINEAR, biases */
weft_status pass_integer(pass *p);     /* WEFT_DYNAMIC_LINEAR */
weft_status pass_offsets(pass *p);     /* float offsets of quantised blocks */
weft_status pass_attention(pass *p);   /* attention operators to WEFT_ATTENTION */
weft_status pass_heads(pass *p);       /* MultiHeadAttention, written out for pass_longhand */
weft_status pass_longhand(pass *p);    /* attention written out */
weft_status pass_rotary(pass *p);      /* RotaryEmbedding beside heads to WEFT_ROTARY */
weft_status pass_frequencies(pass *p); /* angles of the rotary embedding, one row a token */

/* ---- matching ---------------------------------------------------------------------------- */

/* The producer of a value when it is of this operator; NULL otherwise. */
wf_node *made_by(const wf_graph *g, int32_t value, wf_op op);
/* The same, when nobody else uses the value. */
wf_node *made_once_by(const wf_graph *g, int32_t value, wf_op op);
bool is_used_once(const wf_graph *g, int32_t value);
/* A constant of one element near v (relative 1e-3, for constants that went through fp16). */
bool is_scalar_near(const wf_graph *g, int32_t value, double v);
/* The input of a two-input node that is not `value`; -1 when `value` is none of them. */
int32_t other_input(const wf_node *n, int32_t value);
bool is_const(const wf_graph *g, int32_t value);
bool same_shape(const wf_graph *g, int32_t a, int32_t b);
/* Last dimension when constant; -1 otherwise. */
int64_t last_dim(const wf_graph *g, int32_t value);
bool const_dim(const wf_graph *g, int32_t value, int32_t axis, int64_t *v); /* axis from 0 */
/* Through Cast nodes to the value before them. */
int32_t before_casts(const wf_graph *g, int32_t value);
/* Reduction axes are exactly the last one. */
bool reduces_last_axis(const wf_graph *g, const wf_node *n);
/* Value `old` is made by node n's output i from now on. */
void take_output(wf_graph *g, wf_node *n, int32_t i, int32_t old);

/* One round over the live nodes of an operator. */
#define FOR_NODES(p, node_var)                                         \
  for (size_t fn_i = 0; fn_i < (p)->g->order.n; fn_i++)                \
    for (wf_node *node_var = (p)->g->nodes.at[(p)->g->order.at[fn_i]]; \
         node_var && !node_var->is_dead; node_var = NULL)

#endif
