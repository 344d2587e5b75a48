/* SPDX-License-Identifier: Apache-2.0 */
/* What a graph must not bring to the library, which would not come back from it: Loops that never
 * end, and integers divided by what may be 0 or, at the end of the range, -1 (the processor ends
 * the process). The first are refused where that is certain, and watched by the clock where it is
 * not; of the second the nodes are named, for ort_guard.c. */
#include <string.h>

#include "backend/ort/ort.h"

enum { MAX_ITERATIONS = 1 << 22 }; /* of all Loops of a run together, as on native */

/* ---- what is known of a value --------------------------------------------------------------- */

/* The graph and value that a captured one stands for, Identity looked through. */
static const wf_value *origin(const wf_graph **g, int32_t id) {
  const wf_value *v = wf_graph_value(*g, id);
  for (int steps = 0; v && steps < 1000; steps++) {
    const wf_node *n = wf_graph_producer(*g, v->id);
    if (v->is_captured && (*g)->parent) {
      *g = (*g)->parent;
      v = wf_graph_value(*g, v->outer);
    } else if (n && n->op == WF_OP_IDENTITY) {
      v = wf_graph_value(*g, wf_node_input(n, 0));
    } else {
      break;
    }
  }
  return v;
}

static int64_t load_int(const wf_tensor *t, size_t i) {
  const unsigned char *at =
      (const unsigned char *)t->data + i * (size_t)wf_dtype_bits(t->dtype) / 8;
  uint64_t u = 0;
  const int bits = wf_dtype_bits(t->dtype);
  memcpy(&u, at, (size_t)bits / 8); /* little-endian */
  if (wf_dtype_is_signed(t->dtype) && bits < 64 && u >> (bits - 1)) u |= ~UINT64_C(0) << bits;
  int64_t v;
  memcpy(&v, &u, sizeof v);
  return v;
}

/* Element i of an integer constant; false when it is not known. */
static bool known_int(const wf_graph *g, const wf_value *v, size_t i, int64_t *result) {
  const wf_tensor *t = v->tensor;
  const wf_node *n = wf_graph_producer(g, v->id);
  const wf_attr *a = n && n->op == WF_OP_CONSTANT ? wf_node_attr(n, "value") : NULL;
  if (!t && a && a->kind == WF_ATTR_TENSOR && a->n == 1) t = a->tensors;
  if (t) {
    if (i >= t->n || !t->data || wf_dtype_bits(t->dtype) < 8) return false;
    *result = load_int(t, i);
    return true;
  }
  return v->n_content >= 0 && i < (size_t)v->n_content &&
         wf_expr_is_const(g->exprs, v->content[i], result);
}

static size_t known_count(const wf_graph *g, const wf_value *v) {
  const wf_node *n = wf_graph_producer(g, v->id);
  const wf_attr *a = n && n->op == WF_OP_CONSTANT ? wf_node_attr(n, "value") : NULL;
  if (v->tensor) return v->tensor->n;
  if (a && a->kind == WF_ATTR_TENSOR && a->n == 1) return a->tensors->n;
  return v->n_content > 0 ? (size_t)v->n_content : 0;
}

/* ---- loops ----------------------------------------------------------------------------------- */

static bool is_known_true(const wf_graph *g, int32_t id) {
  int64_t x;
  const wf_value *v = origin(&g, id);
  return v && known_int(g, v, 0, &x) && x != 0;
}

/* Does the body keep the condition that it was given, or make a true one? */
static bool keeps_going(const wf_graph *body) {
  if (body->outputs.n == 0 || body->inputs.n < 2) return false;
  const wf_graph *g = body;
  const wf_value *v = origin(&g, body->outputs.at[0]);
  if (!v) return false;
  return (g == body && v->id == body->inputs.at[1]) || is_known_true(g, v->id);
}

/* Iterations that a run is certain to make, at most MAX_ITERATIONS + 1; *where is the Loop that
 * made them too many. */
static int64_t certain_iterations(const wf_graph *g, const wf_node **where) {
  int64_t sum = 0;
  for (size_t i = 0; i < g->nodes.n && sum <= MAX_ITERATIONS; i++) {
    const wf_node *n = g->nodes.at[i];
    if (!n || n->is_dead || n->op != WF_OP_LOOP || n->n_subgraphs != 1) continue;
    const int32_t trip = wf_node_input(n, 0), cond = wf_node_input(n, 1);
    const bool starts = cond < 0 || is_known_true(g, cond);
    if (!starts || !keeps_going(n->subgraphs[0])) continue;
    int64_t trips = MAX_ITERATIONS + 1;
    const wf_graph *home = g;
    const wf_value *v = trip >= 0 ? origin(&home, trip) : NULL;
    if (v && !known_int(home, v, 0, &trips)) continue;
    if (trips <= 0) continue;
    const int64_t inner = certain_iterations(n->subgraphs[0], where);
    if (trips > MAX_ITERATIONS || trips > MAX_ITERATIONS / (inner + 1)) {
      if (!*where) *where = n;
      return MAX_ITERATIONS + 1;
    }
    sum += trips * (inner + 1);
    if (sum > MAX_ITERATIONS) *where = n;
  }
  return sum;
}

/* A Loop whose trips no small constant bounds: whether it ends is for its data to say. */
static bool may_go_on(const wf_graph *g, int depth) {
  for (size_t i = 0; i < g->nodes.n && depth <= 64; i++) {
    const wf_node *n = g->nodes.at[i];
    int64_t trips = MAX_ITERATIONS + 1;
    if (!n || n->is_dead) continue;
    if (n->op == WF_OP_LOOP) {
      const wf_graph *home = g;
      const int32_t id = wf_node_input(n, 0);
      const wf_value *v = id >= 0 ? origin(&home, id) : NULL;
      if (!v || !known_int(home, v, 0, &trips) || trips > MAX_ITERATIONS) return true;
    }
    for (size_t k = 0; k < n->n_subgraphs; k++) {
      if (may_go_on(n->subgraphs[k], depth + 1)) return true;
    }
  }
  return false;
}

/* ---- divisions ------------------------------------------------------------------------------- */

static bool is_safe_divisor(const wf_graph *g, int32_t id) {
  const wf_value *v = origin(&g, id);
  int64_t x;
  const size_t n = v ? known_count(g, v) : 0;
  for (size_t i = 0; i < n; i++) {
    if (!known_int(g, v, i, &x) || x == 0 || (x == -1 && wf_dtype_is_signed(v->dtype))) {
      return false;
    }
  }
  return n > 0;
}

static weft_status find_divisions(const wf_graph *g, int depth, ort_divisions *found,
                                  weft_error *err) {
  if (depth > 64) return wf_fail(err, WEFT_LIMIT, "", "subgraphs are nested too deeply");
  for (size_t i = 0; i < g->nodes.n; i++) {
    const wf_node *n = g->nodes.at[i];
    if (!n || n->is_dead) continue;
    for (size_t k = 0; k < n->n_subgraphs; k++)
      WF_RETURN_IF_ERROR(find_divisions(n->subgraphs[k], depth + 1, found, err));
    if (n->op != WF_OP_DIV && n->op != WF_OP_MOD) continue;
    const int32_t divisor = wf_node_input(n, 1), out = wf_node_output(n, 0);
    const wf_value *a = wf_graph_value(g, wf_node_input(n, 0));
    const wf_value *b = wf_graph_value(g, divisor), *y = wf_graph_value(g, out);
    if (!a || !b || !y) continue;
    /* of no known type: taken for integers, as nothing tells */
    const wf_dtype t = b->dtype != WF_DTYPE_UNDEFINED   ? b->dtype
                       : a->dtype != WF_DTYPE_UNDEFINED ? a->dtype
                                                        : y->dtype;
    if (t != WF_DTYPE_UNDEFINED && !wf_dtype_is_int(t)) continue;
    if (is_safe_divisor(g, divisor)) continue;
    const ort_division d = {.output = y->name,
                            .dtype = t,
                            .is_mod = n->op == WF_OP_MOD,
                            .fmod = wf_node_attr_i(n, "fmod", 0) != 0};
    if (!wf_vec_push(found, d)) return wf_fail_memory(err, sizeof d, "divisions");
  }
  return WEFT_OK;
}

weft_status ort_judge(const wf_graph *g, ort_divisions *divisions, bool *goes_on, weft_error *err) {
  const wf_node *where = NULL;
  if (certain_iterations(g, &where) > MAX_ITERATIONS) {
    return wf_fail(err, WEFT_LIMIT, "export the model with fewer iterations",
                   "node '%.*s': the Loops of a run would make more than %d iterations",
                   where ? (int)where->name.n : 0, where && where->name.at ? where->name.at : "",
                   (int)MAX_ITERATIONS);
  }
  *goes_on = may_go_on(g, 0);
  return find_divisions(g, 0, divisions, err);
}
