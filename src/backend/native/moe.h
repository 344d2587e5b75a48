/* SPDX-License-Identifier: Apache-2.0 */
/* Mixtures of experts: com.microsoft MoE and QMoE. Each token goes to its k likeliest experts, each
 * a small network of its own; what they give is added up by the router's shares.
 *
 * WORK. Pairs of token and expert are brought into the order of experts, so that an expert's
 * products run once over all rows that chose it. A pair's numbers depend on its own token alone
 * (kernels/matmul.h, THE CONTRACT) and a token's pairs are added in the order of likelihood: which
 * other rows there are, and how many threads, changes no bit.
 *
 * Phases, with a barrier wherever a member needs what others made:
 *   route (rows) -> sort (one) -> gather (pairs) -> up (columns) -> gate (pairs) -> down (columns)
 *   -> combine (rows)
 * Private to native/. */
#ifndef WF_NATIVE_MOE_H
#define WF_NATIVE_MOE_H

#include "backend/native/program.h"

/* The node's form, checked against its constants, and its weights in c->weights, one behind the
 * other: fc1 of each expert, fc2 of each, fc3 of each where there is one.
 * Errors: UNSUPPORTED, PACKAGE_INVALID (both name the node), OUT_OF_MEMORY. */
weft_status wf_moe_collect(wf_component *c, const wf_node *n, wf_moe_form *f, wf_weight *weights,
                           size_t *n_weights, weft_error *err) WF_NODISCARD;
/* How many weights that is at most; 0: not such a node. */
size_t wf_moe_most_weights(const wf_component *c, const wf_node *n);
/* What of the inputs a run reads: all but what the weights are made of. */
bool wf_moe_reads(const wf_node *n, int32_t input);

/* Fails with the node's name and the reason. */
weft_status wf_moe_refuse(const wf_node *n, weft_error *err, weft_status status,
                          const char *why) WF_COLD;

/* Bytes of a packed row for the first and the second products. */
size_t wf_moe_act_bytes(const wf_moe_form *f, const wf_weight *weights, int which);

/* A run over n_tokens rows; T below is n_tokens, P = T * k pairs. Buffers are the caller's. */
typedef struct wf_moe_run {
  const wf_moe_form *f;
  const wf_weight *weights; /* the first of the node's */
  wf_cpu_level level;
  int64_t n_tokens;
  const float *router, *shares; /* [T, n_experts]; shares NULL: of the router's own */
  int64_t ld_router, ld_shares;
  int32_t *plan;     /* [wf_moe_plan_ints(f, T)] */
  const void *act_x; /* packed rows of x, of the kind that fc1 wants */
  void *act1, *act2; /* [P] packed rows in the order of experts */
  float *up, *up3, *mid,
      *y;     /* [P, fc1_n], [P, inter] where there is fc3, [P, inter], [P, hidden] */
  float *out; /* [T, hidden] */
  int64_t ld_out;
} wf_moe_run;
int64_t wf_moe_plan_ints(const wf_moe_form *f, int64_t n_tokens);

void wf_moe_route(const wf_moe_run *r, int64_t begin, int64_t end);
void wf_moe_sort(const wf_moe_run *r);
void wf_moe_gather(const wf_moe_run *r, int64_t begin, int64_t end); /* pairs */
void wf_moe_up(const wf_moe_run *r, const wf_member *m);
void wf_moe_gate(const wf_moe_run *r, int64_t begin, int64_t end); /* pairs */
void wf_moe_down(const wf_moe_run *r, const wf_member *m);
void wf_moe_combine(const wf_moe_run *r, int64_t begin, int64_t end);

#endif
