/* SPDX-License-Identifier: Apache-2.0 */
/* onnx-genai.grammar-guidance: which tokens a row's grammar allows next, by a table of transitions.
 */
#include <string.h>

#include "workflow/adapter.h"

typedef struct grammar {
  const wf_view *state, *tokens, *length, *table;
  int64_t n_rows, width, n_states, vocab;
} grammar;

static weft_status read_grammar(const wf_pass *p, const wf_plan_component *c, grammar *g,
                                weft_error *err) {
  g->state = wf_adapter_input(p, c, "state");
  g->tokens = wf_adapter_input(p, c, "tokens");
  g->length = wf_adapter_input(p, c, "valid_length");
  g->table = wf_adapter_input(p, c, "transition_table");
  const bool is_clone = strcmp(c->action, "clone") == 0;
  if (!g->state || g->state->rank != 1 || g->state->dtype != WF_DTYPE_I64) {
    return wf_fail(err, WEFT_RUN, "bind an int64 state of each row", "a grammar without a state");
  }
  g->n_rows = g->state->dims[0];
  if (!is_clone && (!g->tokens || !g->length || !g->table)) {
    return wf_fail(err, WEFT_RUN, "bind tokens, valid_length and transition_table",
                   "a grammar that cannot advance");
  }
  if (g->table) {
    if (g->table->rank != 2 || g->table->dtype != WF_DTYPE_I64) {
      return wf_fail(err, WEFT_RUN, "give int64 [states, vocabulary]",
                     "a grammar's table of rank %d", (int)g->table->rank);
    }
    g->n_states = g->table->dims[0];
    g->vocab = g->table->dims[1];
  }
  if (g->tokens && g->length) {
    if (g->tokens->rank != 2 || g->tokens->dtype != WF_DTYPE_I64 ||
        g->tokens->dims[0] != g->n_rows || g->length->rank != 1 ||
        g->length->dtype != WF_DTYPE_I64 || g->length->dims[0] != g->n_rows) {
      return wf_fail(err, WEFT_RUN, "give int64 tokens [rows, width] and lengths [rows]",
                     "a grammar's tokens do not fit its %lld rows", (long long)g->n_rows);
    }
    g->width = g->tokens->dims[1];
  }
  return WEFT_OK;
}

/* Where row r gets to, and how many tokens it took. */
static weft_status advance(const grammar *g, const wf_plan_component *c, int64_t r, int64_t *state,
                           int64_t *consumed, weft_error *err) {
  *state = ((const int64_t *)g->state->data)[r];
  *consumed = 0;
  if (g->table && (*state < 0 || *state >= g->n_states)) {
    return wf_fail(err, WEFT_RUN, "pass on the state the grammar gave",
                   "row %lld is in grammar state %lld of %lld", (long long)r, (long long)*state,
                   (long long)g->n_states);
  }
  if (strcmp(c->action, "clone") == 0) return WEFT_OK;
  const int64_t n = ((const int64_t *)g->length->data)[r];
  if (n < 0 || n > g->width) {
    return wf_fail(err, WEFT_RUN, "give a length within the tokens",
                   "row %lld has %lld tokens of %lld", (long long)r, (long long)n,
                   (long long)g->width);
  }
  for (int64_t i = 0; i < n; i++) {
    const int64_t token = ((const int64_t *)g->tokens->data)[r * g->width + i];
    int64_t next = -1;
    if (token >= 0 && token < g->vocab) {
      next = ((const int64_t *)g->table->data)[*state * g->vocab + token];
    }
    if (next >= g->n_states) {
      return wf_fail(err, WEFT_RUN, "repair the transition table",
                     "a grammar's transition leads to state %lld of %lld", (long long)next,
                     (long long)g->n_states);
    }
    if (next < 0) {
      if (strcmp(c->action, "commit") != 0) return WEFT_OK;
      return wf_fail(err, WEFT_RUN, "commit only what lookahead accepted",
                     "the grammar refuses token %lld of row %lld", (long long)token, (long long)r);
    }
    *state = next;
    ++*consumed;
  }
  return WEFT_OK;
}

static weft_status guide(wf_pass *p, const wf_plan_component *c, weft_error *err) {
  grammar g = {0};
  WF_RETURN_IF_ERROR(read_grammar(p, c, &g, err));
  const int64_t rows[2] = {g.n_rows, 1}, mask_dims[2] = {g.n_rows, g.vocab};
  void *next = NULL, *consumed = NULL, *mask = NULL, *forced = NULL, *forced_length = NULL;
  WF_RETURN_IF_ERROR(wf_adapter_output(p, c, "next_state", WF_DTYPE_I64, 1, rows, &next, err));
  WF_RETURN_IF_ERROR(
      wf_adapter_output(p, c, "consumed_length", WF_DTYPE_I64, 1, rows, &consumed, err));
  WF_RETURN_IF_ERROR(
      wf_adapter_output(p, c, "logits_mask", WF_DTYPE_BOOL, 2, mask_dims, &mask, err));
  WF_RETURN_IF_ERROR(wf_adapter_output(p, c, "forced_tokens", WF_DTYPE_I64, 2, rows, &forced, err));
  WF_RETURN_IF_ERROR(
      wf_adapter_output(p, c, "forced_length", WF_DTYPE_I64, 1, rows, &forced_length, err));
  for (int64_t r = 0; r < g.n_rows; r++) {
    int64_t state = 0, n = 0, n_allowed = 0, only = 0;
    WF_RETURN_IF_ERROR(advance(&g, c, r, &state, &n, err));
    for (int64_t v = 0; v < g.vocab; v++) {
      const bool is_allowed = ((const int64_t *)g.table->data)[state * g.vocab + v] >= 0;
      if (mask) ((unsigned char *)mask)[r * g.vocab + v] = is_allowed;
      if (is_allowed) only = v;
      n_allowed += is_allowed;
    }
    if (next) ((int64_t *)next)[r] = state;
    if (consumed) ((int64_t *)consumed)[r] = n;
    if (forced) ((int64_t *)forced)[r] = n_allowed == 1 ? only : 0;
    if (forced_length) ((int64_t *)forced_length)[r] = n_allowed == 1;
  }
  return WEFT_OK;
}

const wf_adapter wf_adapter_grammar = {"onnx-genai.grammar-guidance", "1", guide};
