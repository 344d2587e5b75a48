/* SPDX-License-Identifier: Apache-2.0 */
/* Masks, lengths and positions, told by what they compute.
 *
 * Exporters write a causal mask in dozens of ways; all are small functions of (past length, new
 * tokens). So the subgraph itself is evaluated for a range of lengths and its result compared with
 * the rule. A subgraph is only trusted when it reads nothing but shapes, the padding mask (all ones
 * in packed form, where no row is padded) and position ids, and when the lengths tried lie on both
 * sides of every constant that stands in it: between constants, such functions do not change. */
#include "graph/prove.h"

#include <math.h>
#include <string.h>

#include "graph/eval.h"
#include "graph/eval_ops.h"

enum { MAX_CONSTANTS = 24, MAX_PROBES = 160, LARGEST_CONSTANT = 1 << 15, MAX_BINDINGS = 300 };
/* Elements computed for one graph; a real mask with a window of 4096 takes 20 million. */
#define EVALUATION_BUDGET ((size_t)1 << 27)

typedef struct probe {
  int64_t past, n_new;
} probe;

typedef struct prover {
  pass *p;
  wf_graph *g;
  int32_t target;
  bool *is_needed;           /* by node id */
  const wf_tensor **results; /* by value id, of one evaluation */
  wf_arena *arena;           /* same */
  int64_t constants[MAX_CONSTANTS];
  int n_constants;
  wf_binding bindings[MAX_BINDINGS];
  size_t n_bindings;
  probe at;
  bool is_undefined; /* the graph itself has no value at this probe */
} prover;

/* ---- what the subgraph reads ------------------------------------------------------------- */

static bool has_known_content(const wf_value *v) {
  if (v->n_content < 0 || v->rank < 0 || v->rank > 1) return false;
  for (int32_t i = 0; i < v->n_content; i++) {
    if (v->content[i] < 0) return false;
  }
  return true;
}

static bool is_port(const wf_value *v, wf_str name) {
  return v->is_input && name.n && wf_str_eq(v->name, name);
}

/* Remembers the whole constants of a tensor; false when there are too many to go around. */
static bool note_constant(prover *r, int64_t c) {
  if (c < 0) c = c == INT64_MIN ? INT64_MAX : -c;
  if (c < 3 || c > LARGEST_CONSTANT) return true; /* fills such as -inf and -65504 are no lengths */
  for (int i = 0; i < r->n_constants; i++) {
    if (r->constants[i] == c) return true;
  }
  if (r->n_constants == MAX_CONSTANTS) return false;
  r->constants[r->n_constants++] = c;
  return true;
}

static bool note_tensor(prover *r, const wf_tensor *t) {
  if (t->n > 4096) return true; /* a table: its content decides by comparison alone */
  for (size_t i = 0; i < t->n && i < 64; i++) {
    double v;
    if (!graph_tensor_f64(t, i, &v)) return false;
    if (v == floor(v) && fabs(v) < 1e15 && !note_constant(r, (int64_t)v)) return false;
  }
  return true;
}

static bool collect(prover *r) {
  wf_graph *g = r->g;
  WF_VEC(int32_t) stack = {0};
  bool ok = wf_vec_push(&stack, r->target);
  while (ok && stack.n) {
    const wf_value *v = g->values.at[stack.at[--stack.n]];
    int64_t c;
    if (v->tensor) {
      ok = note_tensor(r, v->tensor);
      continue;
    }
    if (has_known_content(v)) {
      for (int32_t i = 0; i < v->n_content && ok; i++) {
        if (wf_expr_is_const(g->exprs, v->content[i], &c)) ok = note_constant(r, c);
      }
      continue;
    }
    const wf_node *n = graph_node(g, v->producer);
    if (!n) {
      const wf_ports *ports = r->p->o->ports;
      ok = is_port(v, ports->attention_mask) || is_port(v, ports->position_ids);
      continue;
    }
    if (r->is_needed[n->id]) continue;
    r->is_needed[n->id] = true;
    ok = n->n_subgraphs == 0 && n->n_inputs <= 8 && n->n_outputs <= 8;
    if (n->op == WF_OP_SHAPE && g->values.at[n->inputs[0]]->rank >= 0) continue; /* dims alone */
    for (int32_t i = 0; i < n->n_inputs && ok; i++) {
      if (n->inputs[i] >= 0) ok = wf_vec_push(&stack, n->inputs[i]);
    }
  }
  wf_vec_free(&stack);
  return ok;
}

/* ---- one evaluation ---------------------------------------------------------------------- */

static bool bind(prover *r, wf_expr symbol, int64_t value) {
  if (wf_expr_symbol_name(r->g->exprs, symbol).n == 0) return true;
  for (size_t i = 0; i < r->n_bindings; i++) {
    if (r->bindings[i].symbol == symbol) return r->bindings[i].value == value;
  }
  if (r->n_bindings == MAX_BINDINGS) return false;
  r->bindings[r->n_bindings++] = (wf_binding){symbol, value};
  return true;
}

static bool bind_port(prover *r, wf_str name, int32_t axis, int64_t value) {
  const wf_value *v = wf_graph_value(r->g, name.n ? wf_graph_find(r->g, name) : -1);
  if (!v || v->rank <= axis) return true;
  return bind(r, v->dims[0], 1) && bind(r, v->dims[axis], value);
}

/* A total written as a sum of the others needs no binding of its own. */
static bool bind_all(prover *r) {
  const wf_ports *ports = r->p->o->ports;
  r->n_bindings = 0;
  bool ok = bind_port(r, ports->input_ids, 1, r->at.n_new) &&
            bind_port(r, ports->inputs_embeds, 1, r->at.n_new);
  ok = ok && bind_port(r, ports->position_ids, 1, r->at.n_new);
  ok = ok && bind_port(r, ports->attention_mask, 1, r->at.past + r->at.n_new);
  for (size_t i = 0; i < ports->n_states && ok; i++) {
    ok = bind_port(r, ports->states[i].past_key, 2, r->at.past) &&
         bind_port(r, ports->states[i].past_value, 2, r->at.past);
  }
  return ok;
}

static bool eval_expr(prover *r, wf_expr e, int64_t *v) {
  weft_error err = {0};
  return wf_expr_eval(r->g->exprs, e, r->bindings, r->n_bindings, v, &err) == WEFT_OK;
}

static const wf_tensor *from_content(prover *r, const wf_value *v) {
  wf_tensor *t = eval_new_tensor(r->arena, v->dtype, v->rank, (int64_t[]){v->n_content});
  for (int32_t i = 0; t && i < v->n_content; i++) {
    int64_t x;
    if (!eval_expr(r, v->content[i], &x) || !eval_store_i64(t, (size_t)i, x)) return NULL;
  }
  return t;
}

/* The padding mask (all ones) or the position ids of this probe. */
static const wf_tensor *from_port(prover *r, const wf_value *v) {
  const wf_ports *ports = r->p->o->ports;
  const bool is_mask = is_port(v, ports->attention_mask);
  if (!is_mask && !is_port(v, ports->position_ids)) return NULL;
  const int64_t dims[2] = {1, is_mask ? r->at.past + r->at.n_new : r->at.n_new};
  if (v->rank != 2) return NULL;
  wf_tensor *t = eval_new_tensor(r->arena, v->dtype, 2, dims);
  for (size_t i = 0; t && i < t->n; i++) {
    if (!eval_store_i64(t, i, is_mask ? 1 : r->at.past + (int64_t)i)) return NULL;
  }
  return t;
}

static const wf_tensor *value_of(prover *r, int32_t id) {
  const wf_value *v = r->g->values.at[id];
  if (r->results[id]) return r->results[id];
  if (v->tensor) return v->tensor;
  if (has_known_content(v))
    r->results[id] = from_content(r, v);
  else if (v->producer < 0)
    r->results[id] = from_port(r, v);
  return r->results[id];
}

static bool eval_shape_of(prover *r, const wf_node *n) {
  const wf_value *x = r->g->values.at[n->inputs[0]];
  wf_tensor shape = {.rank = x->rank};
  int64_t dims[GRAPH_MAX_RANK];
  wf_tensor *out[8] = {0};
  for (int32_t i = 0; i < x->rank; i++) {
    if (!eval_expr(r, x->dims[i], &dims[i])) return false;
  }
  shape.dims = dims;
  shape.dtype = WF_DTYPE_I64; /* never read */
  const wf_tensor *in[1] = {&shape};
  if (eval_node(n, in, r->arena, out, NULL) != WEFT_OK) return false;
  r->results[n->outputs[0]] = out[0];
  return true;
}

/* An Expand whose shapes don't broadcast: no runtime gives the graph a value at these lengths. */
static bool is_mismatch(const wf_node *n, const wf_tensor *const *in) {
  int64_t target[GRAPH_MAX_RANK], dims[GRAPH_MAX_RANK];
  int32_t rank;
  if (n->op != WF_OP_EXPAND || in[1]->n > GRAPH_MAX_RANK) return false;
  for (size_t i = 0; i < in[1]->n; i++) {
    if (!graph_tensor_i64(in[1], i, &target[i])) return false;
  }
  const wf_tensor shape = {.rank = (int32_t)in[1]->n, .dims = target};
  const wf_tensor *both[2] = {in[0], &shape};
  return !eval_broadcast(both, 2, &rank, dims);
}

static bool eval_one(prover *r, const wf_node *n) {
  const wf_tensor *in[8] = {0};
  wf_tensor *out[8] = {0};
  weft_error err = {0};
  if (n->op == WF_OP_SHAPE && r->g->values.at[n->inputs[0]]->rank >= 0) return eval_shape_of(r, n);
  for (int32_t i = 0; i < n->n_inputs; i++) {
    if (n->inputs[i] >= 0 && !(in[i] = value_of(r, n->inputs[i]))) return false;
  }
  weft_status st = eval_node(n, in, r->arena, out, &err);
  const wf_pass_options *o = r->p->o;
  if (st == WEFT_UNSUPPORTED && o->fold) st = o->fold(o->fold_user, n, in, r->arena, out, &err);
  if (st != WEFT_OK) {
    r->is_undefined = is_mismatch(n, in);
    return false;
  }
  for (int32_t i = 0; i < n->n_outputs; i++) {
    if (n->outputs[i] >= 0) r->results[n->outputs[i]] = out[i];
    r->p->n_evaluated += 64 + (out[i] ? out[i]->n : 0);
  }
  return r->p->n_evaluated < EVALUATION_BUDGET;
}

/* The target's value for r->at; NULL when it can't be computed. Valid until the next call. */
static const wf_tensor *evaluate(prover *r) {
  wf_graph *g = r->g;
  wf_arena_destroy(r->arena);
  r->arena = wf_arena_create();
  memset(r->results, 0, g->values.n * sizeof *r->results);
  if (!r->arena || !bind_all(r)) return NULL;
  for (size_t i = 0; i < g->order.n; i++) {
    const wf_node *n = g->nodes.at[g->order.at[i]];
    if (r->is_needed[n->id] && !eval_one(r, n)) return NULL;
  }
  return value_of(r, r->target);
}

/* ---- the lengths to try ------------------------------------------------------------------ */

static int list_probes(const prover *r, probe *probes) {
  static const int64_t news[] = {1, 2, 5}, pasts[] = {0, 1, 6, 33};
  int n = 0;
  for (size_t i = 0; i < WF_ARRAY_LEN(pasts); i++) {
    for (size_t k = 0; k < WF_ARRAY_LEN(news); k++) probes[n++] = (probe){pasts[i], news[k]};
  }
  for (int i = 0; i < r->n_constants; i++) { /* both sides of each constant, and well past it */
    const int64_t c = r->constants[i];
    const probe around[] = {{c > 3 ? c - 3 : 0, 5}, {c - 1, 1}, {c, 1}, {2 * c + 3, 3}};
    for (size_t k = 0; k < WF_ARRAY_LEN(around) && n < MAX_PROBES; k++) probes[n++] = around[k];
  }
  if (r->p->o->ports->n_states) return n;
  for (int i = 0; i < n; i++) { /* without a past all tokens are new */
    const int64_t total = probes[i].past + probes[i].n_new;
    probes[i] = (probe){0, total};
  }
  return n;
}

static bool open_prover(prover *r, pass *p, int32_t value) {
  *r = (prover){.p = p, .g = p->g, .target = value};
  if (value < 0 || !p->o || !p->o->ports) return false;
  r->is_needed = wf_zalloc(p->g->nodes.n + 1);
  r->results = wf_calloc(p->g->values.n + 1, sizeof *r->results);
  return r->is_needed && r->results && collect(r);
}

static void close_prover(prover *r) {
  wf_free(r->is_needed);
  wf_free(r->results);
  wf_arena_destroy(r->arena);
}

/* check(t) holds for the value at all probes. */
typedef bool (*check_fn)(prover *r, const wf_tensor *t, void *user);

static bool prove(pass *p, int32_t value, check_fn check, void *user) {
  prover r;
  probe probes[MAX_PROBES];
  bool ok = open_prover(&r, p, value);
  const int n = ok ? list_probes(&r, probes) : 0;
  /* Some graphs are only defined for a prompt from the start and for single tokens after it (an
   * Expand of [n, n] to [n, past + n]). What the rule says elsewhere contradicts nothing. Without
   * states there are prompts alone. */
  bool has_prompt = false, has_step = !p->o || !p->o->ports || !p->o->ports->n_states;
  for (int i = 0; i < n && ok; i++) {
    r.at = probes[i];
    r.is_undefined = false;
    const wf_tensor *t = evaluate(&r);
    if (!t && r.is_undefined) continue;
    ok = t && check(&r, t, user);
    has_prompt |= r.at.past == 0 && r.at.n_new > 1;
    has_step |= r.at.past > 0 && r.at.n_new == 1;
  }
  close_prover(&r);
  return ok && has_prompt && has_step;
}

/* ---- remembered answers ------------------------------------------------------------------ */

typedef enum question { LENGTH = 1, TOTAL, POSITIONS, MASK, MASK_INVERTED } question;

static const struct proof *recall(const pass *p, int32_t value, question q) {
  for (size_t i = 0; i < p->n_proofs; i++) {
    if (p->proofs[i].value == value && p->proofs[i].question == (int32_t)q) return &p->proofs[i];
  }
  return NULL;
}

static bool remember(pass *p, int32_t value, question q, bool is_true, int32_t window) {
  if (p->n_proofs < WF_ARRAY_LEN(p->proofs)) {
    p->proofs[p->n_proofs++] = (struct proof){value, (int32_t)q, is_true, window};
  }
  return is_true;
}

static bool ask(pass *p, int32_t value, question q, check_fn check) {
  const struct proof *known = recall(p, value, q);
  return known ? known->is_true : remember(p, value, q, prove(p, value, check, NULL), 0);
}

/* ---- questions --------------------------------------------------------------------------- */

static bool is_last_position(prover *r, const wf_tensor *t, void *user) {
  int64_t v;
  (void)user;
  return t->n == 1 && graph_tensor_i64(t, 0, &v) && v == r->at.past + r->at.n_new - 1;
}

static bool is_total(prover *r, const wf_tensor *t, void *user) {
  int64_t v;
  (void)user;
  return t->n == 1 && graph_tensor_i64(t, 0, &v) && v == r->at.past + r->at.n_new;
}

bool prove_lengths(pass *p, int32_t seqlens, int32_t total) {
  return ask(p, seqlens, LENGTH, is_last_position) && ask(p, total, TOTAL, is_total);
}

static bool are_positions(prover *r, const wf_tensor *t, void *user) {
  (void)user;
  if (t->n != (size_t)r->at.n_new) return false;
  for (size_t i = 0; i < t->n; i++) {
    double v;
    if (!graph_tensor_f64(t, i, &v) || v != (double)(r->at.past + (int64_t)i)) return false;
  }
  return true;
}

bool prove_positions(pass *p, int32_t value) { return ask(p, value, POSITIONS, are_positions); }

typedef struct mask_rule {
  bool is_inverted;
  int32_t window;
} mask_rule;

/* Whether entry i of a mask lets its position be seen; false in *ok when it is neither. */
static bool is_open(const wf_tensor *t, size_t i, const mask_rule *m, bool *ok) {
  double v;
  if (t->dtype == WF_DTYPE_BOOL) {
    int64_t b = 0;
    *ok &= graph_tensor_i64(t, i, &b);
    return (b != 0) != m->is_inverted;
  }
  *ok &= !m->is_inverted && graph_tensor_f64(t, i, &v) && (v == 0 || v <= -9000);
  return *ok && v == 0;
}

/* One row: open exactly on (position - window, position]. The first probe that shows a lower end
 * says the window, the others must agree. */
static bool check_row(const wf_tensor *t, size_t from, int64_t total, int64_t position,
                      mask_rule *m) {
  bool ok = true;
  int64_t low = 0;
  while (low < total && !is_open(t, from + (size_t)low, m, &ok)) low++;
  for (int64_t k = low; k < total && ok; k++) {
    if (is_open(t, from + (size_t)k, m, &ok) != (k <= position)) return false;
  }
  if (!ok || low > position) return false;
  if (low > 0 && m->window == 0) m->window = (int32_t)(position - low + 1);
  return low == (m->window && position + 1 > m->window ? position + 1 - m->window : 0);
}

static bool is_causal(prover *r, const wf_tensor *t, void *user) {
  mask_rule *m = user;
  const int64_t total = r->at.past + r->at.n_new;
  if (t->rank < 2 || t->dims[t->rank - 1] != total || t->n == 0) return false;
  if (t->dims[t->rank - 2] != r->at.n_new) return false;
  const size_t rows = t->n / (size_t)total;
  for (size_t i = 0; i < rows; i++) {
    const int64_t position = r->at.past + (int64_t)i % r->at.n_new;
    if (!check_row(t, i * (size_t)total, total, position, m)) return false;
  }
  return true;
}

/* A window is first seen at a long probe; the second round holds the short ones against it too. */
bool prove_mask(pass *p, int32_t value, bool is_inverted, int32_t *window) {
  const question q = is_inverted ? MASK_INVERTED : MASK;
  const struct proof *known = recall(p, value, q);
  mask_rule m = {is_inverted, 0};
  if (known) {
    *window = known->window;
    return known->is_true;
  }
  if (is_inverted && p->g->values.at[value]->dtype != WF_DTYPE_BOOL) return false;
  const bool is_true =
      prove(p, value, is_causal, &m) && (m.window == 0 || prove(p, value, is_causal, &m));
  *window = m.window;
  return remember(p, value, q, is_true, m.window);
}
