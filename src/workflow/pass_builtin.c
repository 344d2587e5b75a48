/* SPDX-License-Identifier: Apache-2.0 */
/* Components that are no graphs: bindings and adapters (format §5.3, §11), and the check in front
 * of caches of fixed capacity (§9, RUN-SC). */
#include <string.h>

#include "workflow/pass_state.h"

static int32_t port_named(size_t n, const wf_plan_port *ports, const char *name) {
  for (size_t i = 0; i < n; i++) {
    if (strcmp(ports[i].name, name) == 0) return (int32_t)i;
  }
  return -1;
}

static const wf_view *input_named(const wf_pass *p, const wf_plan_component *c, const char *name) {
  const int32_t at = port_named(c->n_inputs, c->inputs, name);
  return at >= 0 && p->inputs[at].data ? &p->inputs[at] : NULL;
}

/* Each output is the input of its name. */
static weft_status copy_through(wf_pass *p, const wf_plan_component *c, weft_error *err) {
  for (size_t i = 0; i < c->n_outputs; i++) {
    if (!p->wanted[i]) continue;
    const wf_view *v = input_named(p, c, c->outputs[i].name);
    if (!v) {
      return wf_fail(err, WEFT_RUN, "give the binding an input of that name",
                     "output '%s' of a binding has no input to copy", c->outputs[i].name);
    }
    WF_RETURN_IF_ERROR(wf_datum_copy(&p->results[i], p->pool, v, err));
  }
  return WEFT_OK;
}

/* ---- telemetry ----------------------------------------------------------------------------- */

static weft_status telemetry(wf_pass *p, const wf_plan_component *c, weft_error *err) {
  const int64_t now = (int64_t)wf_clock_ns();
  for (size_t i = 0; i < c->n_outputs; i++) {
    if (!p->wanted[i]) continue;
    const bool is_start = strcmp(c->action, "start") == 0;
    if (is_start) {
      WF_RETURN_IF_ERROR(wf_datum_create(&p->results[i], p->pool, WF_DTYPE_I64, 0, NULL, err));
      memcpy(p->results[i]->view.data, &now, sizeof now);
      continue;
    }
    const wf_view *since = input_named(p, c, "timestamp");
    int64_t start = 0;
    if (!since || wf_view_elements(since) != 1 || !wf_view_int(since, 0, &start)) {
      return wf_fail(err, WEFT_RUN, "bind the timestamp that 'start' gave",
                     "telemetry has no timestamp to measure from");
    }
    const float ms = now > start ? (float)((double)(now - start) / 1e6) : 0.0f;
    WF_RETURN_IF_ERROR(wf_datum_create(&p->results[i], p->pool, WF_DTYPE_F32, 0, NULL, err));
    memcpy(p->results[i]->view.data, &ms, sizeof ms);
  }
  return WEFT_OK;
}

/* ---- grammar guidance ---------------------------------------------------------------------- */

typedef struct grammar {
  const wf_view *state, *tokens, *length, *table;
  int64_t n_rows, width, n_states, vocab;
} grammar;

static weft_status read_grammar(const wf_pass *p, const wf_plan_component *c, grammar *g,
                                weft_error *err) {
  g->state = input_named(p, c, "state");
  g->tokens = input_named(p, c, "tokens");
  g->length = input_named(p, c, "valid_length");
  g->table = input_named(p, c, "transition_table");
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

static weft_status grammar_output(wf_pass *p, const wf_plan_component *c, const char *name,
                                  wf_dtype dtype, int32_t rank, const int64_t *dims, void **data,
                                  weft_error *err) {
  const int32_t at = port_named(c->n_outputs, c->outputs, name);
  *data = NULL;
  if (at < 0 || !p->wanted[at]) return WEFT_OK;
  WF_RETURN_IF_ERROR(wf_datum_create(&p->results[at], p->pool, dtype, rank, dims, err));
  *data = p->results[at]->view.data;
  memset(*data, 0, p->results[at]->n_bytes);
  return WEFT_OK;
}

static weft_status guide(wf_pass *p, const wf_plan_component *c, weft_error *err) {
  grammar g = {0};
  WF_RETURN_IF_ERROR(read_grammar(p, c, &g, err));
  const int64_t rows[2] = {g.n_rows, 1}, mask_dims[2] = {g.n_rows, g.vocab};
  void *next = NULL, *consumed = NULL, *mask = NULL, *forced = NULL, *forced_length = NULL;
  WF_RETURN_IF_ERROR(grammar_output(p, c, "next_state", WF_DTYPE_I64, 1, rows, &next, err));
  WF_RETURN_IF_ERROR(
      grammar_output(p, c, "consumed_length", WF_DTYPE_I64, 1, rows, &consumed, err));
  WF_RETURN_IF_ERROR(grammar_output(p, c, "logits_mask", WF_DTYPE_BOOL, 2, mask_dims, &mask, err));
  WF_RETURN_IF_ERROR(grammar_output(p, c, "forced_tokens", WF_DTYPE_I64, 2, rows, &forced, err));
  WF_RETURN_IF_ERROR(
      grammar_output(p, c, "forced_length", WF_DTYPE_I64, 1, rows, &forced_length, err));
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

/* ---- which there are ----------------------------------------------------------------------- */

typedef struct builtin {
  const char *abi, *version;
  weft_status (*run)(wf_pass *p, const wf_plan_component *c, weft_error *err);
} builtin;

static const builtin builtins[] = {
    {"onnx-genai.telemetry", "1", telemetry},
    {"onnx-genai.grammar-guidance", "1", guide},
};

static const builtin *find(const char *abi, const char *version) {
  for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++) {
    if (strcmp(builtins[i].abi, abi) == 0 && strcmp(builtins[i].version, version) == 0) {
      return &builtins[i];
    }
  }
  return NULL;
}

bool wf_builtin_is_known(const char *abi, const char *version) {
  return find(abi, version) != NULL;
}

weft_status wf_builtin_invoke(wf_pass *p, const wf_plan_component *c, weft_error *err) {
  if (c->kind == WF_COMPONENT_BINDING) return copy_through(p, c, err);
  const builtin *b = find(c->abi, c->version);
  if (!b) {
    return wf_fail(err, WEFT_UNSUPPORTED, "use an adapter that weft has",
                   "adapter '%s' version %s is not there (ADM-05)", c->abi, c->version);
  }
  return b->run(p, c, err);
}

/* ---- caches of fixed capacity -------------------------------------------------------------- */

weft_status wf_scatter_check(const wf_pass *p, const wf_plan_step *s, const wf_plan_component *c,
                             weft_error *err) {
  for (size_t i = 0; i < c->n_scatters; i++) {
    const wf_plan_scatter *x = &c->scatters[i];
    const char *group = p->plan->group_names[x->group];
    int64_t capacity = 0;
    WF_RETURN_IF_ERROR(wf_pass_read_count(p, s, x->capacity, "capacity", &capacity, err));
    if (capacity == 0) {
      return wf_fail(err, WEFT_RUN, "give the cache room", "%s: group '%s' has no capacity",
                     s->path, group);
    }
    for (size_t b = 0; b < x->n_buffers; b++) {
      const wf_view *v = input_named(p, c, x->buffers[b]);
      if (v && (x->axis >= v->rank || v->dims[x->axis] != capacity)) {
        return wf_fail(err, WEFT_RUN, "make buffers of the group's capacity",
                       "%s: port '%s' of component '%s' has %lld positions, but group '%s' has a "
                       "capacity of %lld",
                       s->path, x->buffers[b], c->name,
                       (long long)(x->axis < v->rank ? v->dims[x->axis] : 0), group,
                       (long long)capacity);
      }
    }
    const wf_view *to = input_named(p, c, x->destinations);
    const wf_view *lengths = x->lengths ? input_named(p, c, x->lengths) : NULL;
    const int64_t n = to ? wf_view_elements(to) : 0;
    for (int64_t r = 0; r < n; r++) {
      int64_t d = -1;
      if (!wf_view_int(to, r, &d) || d < 0 || d >= capacity) {
        return wf_fail(err, WEFT_RUN, "write within the cache's capacity",
                       "%s: row %lld of component '%s' writes at %lld, group '%s' has a capacity "
                       "of %lld",
                       s->path, (long long)r, c->name, (long long)d, group, (long long)capacity);
      }
    }
    if (!lengths) continue;
    if (wf_view_elements(lengths) != n) {
      return wf_fail(err, WEFT_RUN, "give as many lengths as destinations",
                     "%s: component '%s' has %lld lengths for %lld destinations", s->path, c->name,
                     (long long)wf_view_elements(lengths), (long long)n);
    }
    for (int64_t r = 0; r < n; r++) {
      int64_t d = -1;
      if (!wf_view_int(lengths, r, &d) || d < 0 || d > capacity) {
        return wf_fail(err, WEFT_RUN, "keep lengths within the cache's capacity",
                       "%s: row %lld of component '%s' has length %lld, group '%s' has a capacity "
                       "of %lld",
                       s->path, (long long)r, c->name, (long long)d, group, (long long)capacity);
      }
    }
  }
  return WEFT_OK;
}
