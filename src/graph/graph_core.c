/* SPDX-License-Identifier: Apache-2.0 */
/* Values, nodes and the uses between them. */
#include "graph/edit.h"
#include "graph/flow.h"

#include <string.h>

weft_status graph_no_memory(weft_error *err) { return wf_fail_memory(err, 0, "the graph"); }

wf_graph *graph_create(wf_arena *arena, wf_expr_pool *exprs, const wf_graph *parent) {
  wf_graph *g = wf_arena_alloc(arena, sizeof *g);
  if (!g) return NULL;
  g->arena = arena;
  g->exprs = exprs;
  g->parent = parent;
  return g;
}

void graph_free_own_lists(wf_graph *g) {
  wf_vec_free(&g->values);
  wf_vec_free(&g->nodes);
  wf_vec_free(&g->inputs);
  wf_vec_free(&g->outputs);
  wf_vec_free(&g->order);
}

void graph_free_lists(wf_graph *g) {
  for (size_t i = 0; i < g->nodes.n; i++) {
    for (size_t k = 0; k < g->nodes.at[i]->n_subgraphs; k++) {
      graph_free_lists(g->nodes.at[i]->subgraphs[k]);
    }
  }
  graph_free_own_lists(g);
}

static bool copy_ids(int32_t **to, const int32_t *from, size_t n, wf_arena *arena) {
  *to = wf_arena_calloc(arena, n, sizeof **to);
  if (*to && n) memcpy(*to, from, n * sizeof **to);
  return *to != NULL;
}

static bool clone_value(wf_graph *c, const wf_value *from) {
  wf_value *v = wf_arena_alloc(c->arena, sizeof *v);
  int32_t *users;
  if (!v || !copy_ids(&users, from->users, from->n_users, c->arena)) return false;
  *v = *from;
  v->users = users;
  v->users_capacity = from->n_users;
  return wf_vec_push(&c->values, v);
}

static bool clone_node(wf_graph *c, const wf_node *from) {
  wf_node *n = wf_arena_alloc(c->arena, sizeof *n);
  int32_t *inputs, *outputs, *captures;
  if (!n || !copy_ids(&inputs, from->inputs, (size_t)from->n_inputs, c->arena) ||
      !copy_ids(&outputs, from->outputs, (size_t)from->n_outputs, c->arena) ||
      !copy_ids(&captures, from->captures, from->n_captures, c->arena)) {
    return false;
  }
  *n = *from;
  n->inputs = inputs;
  n->outputs = outputs;
  n->captures = captures;
  return wf_vec_push(&c->nodes, n);
}

wf_graph *graph_clone(const wf_graph *g) {
  wf_graph *c = graph_create(g->arena, g->exprs, g->parent);
  bool ok = c != NULL;
  if (!ok) return NULL;
  c->name = g->name;
  c->opsets = g->opsets;
  c->n_opsets = g->n_opsets;
  for (size_t i = 0; i < g->values.n && ok; i++) ok = clone_value(c, g->values.at[i]);
  for (size_t i = 0; i < g->nodes.n && ok; i++) ok = clone_node(c, g->nodes.at[i]);
  for (size_t i = 0; i < g->inputs.n && ok; i++) ok = wf_vec_push(&c->inputs, g->inputs.at[i]);
  for (size_t i = 0; i < g->outputs.n && ok; i++) ok = wf_vec_push(&c->outputs, g->outputs.at[i]);
  for (size_t i = 0; i < g->order.n && ok; i++) ok = wf_vec_push(&c->order, g->order.at[i]);
  if (ok) return c;
  graph_free_own_lists(c);
  return NULL;
}

void graph_swap(wf_graph *a, wf_graph *b) {
  const wf_graph t = *a;
  *a = *b;
  *b = t;
}

void wf_graph_destroy(wf_graph *g) {
  if (!g) return;
  wf_arena *arena = g->arena;
  wf_expr_pool *exprs = g->exprs;
  graph_free_lists(g);
  wf_expr_pool_destroy(exprs);
  wf_arena_destroy(arena); /* last: it holds g */
}

/* ---- values ------------------------------------------------------------------------------ */

static wf_str made_up_name(wf_graph *g) {
  wf_buf b = {0};
  wf_buf_printf(&b, "weft.%zu", g->values.n);
  const char *s = b.failed ? NULL : wf_arena_strndup(g->arena, b.at, b.n);
  const wf_str name = {s, s ? b.n : 0};
  wf_buf_deinit(&b);
  return name;
}

wf_value *graph_new_value(wf_graph *g, wf_str name, wf_dtype dtype) {
  wf_value *v = wf_arena_alloc(g->arena, sizeof *v);
  if (!v || g->values.n >= INT32_MAX) return NULL;
  v->id = (int32_t)g->values.n;
  v->name = name.n ? name : made_up_name(g);
  v->dtype = dtype;
  v->rank = -1;
  v->outer = -1;
  v->producer = -1;
  v->n_content = -1;
  return v->name.at && wf_vec_push(&g->values, v) ? v : NULL;
}

bool graph_set_dims(wf_graph *g, wf_value *v, int32_t rank, const wf_expr *dims) {
  wf_expr *copy = wf_arena_calloc(g->arena, (size_t)rank, sizeof *copy);
  if (!copy) return false;
  if (rank) memcpy(copy, dims, (size_t)rank * sizeof *copy);
  v->rank = rank;
  v->dims = copy;
  return true;
}

bool graph_set_content(wf_graph *g, wf_value *v, int32_t n, const wf_expr *content) {
  wf_expr *copy = wf_arena_calloc(g->arena, (size_t)n, sizeof *copy);
  if (!copy) return false;
  if (n) memcpy(copy, content, (size_t)n * sizeof *copy);
  v->n_content = n;
  v->content = copy;
  return true;
}

wf_value *graph_value_like(wf_graph *g, const wf_value *v) {
  wf_value *c = graph_new_value(g, (wf_str){0}, v->dtype);
  if (c && v->rank >= 0 && !graph_set_dims(g, c, v->rank, v->dims)) return NULL;
  return c;
}

wf_value *graph_new_const(wf_graph *g, wf_str name, const wf_tensor *t) {
  wf_value *v = graph_new_value(g, name, t->dtype);
  if (!v) return NULL;
  wf_expr dims[64];
  if (t->rank > 64) return NULL;
  for (int32_t i = 0; i < t->rank; i++) dims[i] = wf_expr_const(g->exprs, t->dims[i]);
  if (!graph_set_dims(g, v, t->rank, dims)) return NULL;
  v->tensor = t;
  if (t->n <= GRAPH_MAX_CONTENT && t->rank <= 1 &&
      (wf_dtype_is_int(t->dtype) || t->dtype == WF_DTYPE_BOOL)) {
    wf_expr content[GRAPH_MAX_CONTENT];
    for (size_t i = 0; i < t->n; i++) {
      int64_t x;
      content[i] = graph_tensor_i64(t, i, &x) ? wf_expr_const(g->exprs, x) : WF_EXPR_NONE;
    }
    if (!graph_set_content(g, v, (int32_t)t->n, content)) return NULL;
  }
  return v;
}

static wf_value *const_of(wf_graph *g, wf_dtype dtype, const void *data, int32_t n, int32_t rank) {
  wf_tensor *t = wf_arena_alloc(g->arena, sizeof *t);
  int64_t *dims = wf_arena_calloc(g->arena, 1, sizeof *dims);
  size_t n_bytes;
  if (!t || !dims || !wf_dtype_bytes(dtype, (size_t)n, &n_bytes)) return NULL;
  void *copy = wf_arena_alloc(g->arena, n_bytes);
  if (!copy) return NULL;
  memcpy(copy, data, n_bytes);
  dims[0] = n;
  *t = (wf_tensor){
      .dtype = dtype, .rank = rank, .dims = dims, .n = (size_t)n, .data = copy, .n_bytes = n_bytes};
  return graph_new_const(g, (wf_str){0}, t);
}

wf_value *graph_const_i64(wf_graph *g, const int64_t *v, int32_t n, int32_t rank) {
  return const_of(g, WF_DTYPE_I64, v, n, rank);
}

wf_value *graph_const_f32(wf_graph *g, const float *v, int32_t n, int32_t rank) {
  return const_of(g, WF_DTYPE_F32, v, n, rank);
}

/* ---- uses -------------------------------------------------------------------------------- */

bool graph_add_use(wf_graph *g, int32_t value, int32_t node) {
  if (value < 0) return true;
  wf_value *v = g->values.at[value];
  if (v->n_users == v->users_capacity) {
    const size_t capacity = v->users_capacity ? v->users_capacity * 2 : 4;
    int32_t *users = wf_arena_calloc(g->arena, capacity, sizeof *users);
    if (!users) return false;
    if (v->n_users) memcpy(users, v->users, v->n_users * sizeof *users);
    v->users = users;
    v->users_capacity = capacity;
  }
  int32_t *users = wf_unconst(v->users); /* the graph's own list */
  users[v->n_users++] = node;
  return true;
}

void graph_drop_use(wf_graph *g, int32_t value, int32_t node) {
  if (value < 0) return;
  wf_value *v = g->values.at[value];
  int32_t *users = wf_unconst(v->users); /* the graph's own list */
  for (size_t i = v->n_users; i-- > 0;) {
    if (users[i] != node) continue;
    users[i] = users[--v->n_users];
    return;
  }
}

bool graph_set_input(wf_graph *g, wf_node *n, int32_t i, int32_t value) {
  int32_t *inputs = wf_unconst(n->inputs); /* the graph's own list */
  if (inputs[i] == value) return true;
  if (!graph_add_use(g, value, n->id)) return false;
  graph_drop_use(g, inputs[i], n->id);
  inputs[i] = value;
  return true;
}

bool graph_set_inputs(wf_graph *g, wf_node *n, int32_t n_inputs, const int32_t *inputs) {
  int32_t *copy = wf_arena_calloc(g->arena, (size_t)n_inputs, sizeof *copy);
  if (!copy) return false;
  for (int32_t i = 0; i < n_inputs; i++) {
    copy[i] = inputs[i];
    if (!graph_add_use(g, copy[i], n->id)) return false;
  }
  for (int32_t i = 0; i < n->n_inputs; i++) graph_drop_use(g, n->inputs[i], n->id);
  n->inputs = copy;
  n->n_inputs = n_inputs;
  return true;
}

/* ---- nodes ------------------------------------------------------------------------------- */

wf_node *graph_new_node(wf_graph *g, wf_op op, int32_t n_inputs, const int32_t *inputs,
                        int32_t n_outputs, const int32_t *outputs) {
  wf_node *n = wf_arena_alloc(g->arena, sizeof *n);
  int32_t *outs = wf_arena_calloc(g->arena, (size_t)n_outputs, sizeof *outs);
  if (!n || !outs || g->nodes.n >= INT32_MAX) return NULL;
  n->id = (int32_t)g->nodes.n;
  n->op = op;
  n->domain = wf_str_of(wf_op_domain(op));
  n->op_type = wf_str_of(wf_op_name(op));
  for (size_t i = 0; i < g->n_opsets; i++) {
    if (wf_str_eq(g->opsets[i].domain, n->domain)) n->version = (int32_t)g->opsets[i].version;
  }
  if (!wf_vec_push(&g->nodes, n) || !graph_set_inputs(g, n, n_inputs, inputs)) return NULL;
  for (int32_t i = 0; i < n_outputs; i++) {
    if (outputs) {
      outs[i] = outputs[i];
    } else {
      const wf_value *v = graph_new_value(g, (wf_str){0}, WF_DTYPE_UNDEFINED);
      if (!v) return NULL;
      outs[i] = v->id;
    }
    if (outs[i] < 0) continue;
    g->values.at[outs[i]]->producer = n->id;
    g->values.at[outs[i]]->producer_output = i;
  }
  n->outputs = outs;
  n->n_outputs = n_outputs;
  return n;
}

static bool add_attr(wf_graph *g, wf_node *n, const wf_attr *a) {
  wf_attr *attrs = wf_arena_calloc(g->arena, n->n_attrs + 1, sizeof *attrs);
  if (!attrs) return false;
  if (n->n_attrs) memcpy(attrs, n->attrs, n->n_attrs * sizeof *attrs);
  attrs[n->n_attrs] = *a;
  n->attrs = attrs;
  n->n_attrs++;
  return true;
}

bool graph_set_attr_i(wf_graph *g, wf_node *n, const char *name, int64_t v) {
  const wf_attr a = {.name = wf_str_of(name), .kind = WF_ATTR_INT, .n = 1, .i = v};
  return add_attr(g, n, &a);
}

bool graph_set_attr_ints(wf_graph *g, wf_node *n, const char *name, const int64_t *v, size_t n_v) {
  int64_t *copy = wf_arena_calloc(g->arena, n_v, sizeof *copy);
  if (!copy) return false;
  if (n_v) memcpy(copy, v, n_v * sizeof *copy);
  const wf_attr a = {.name = wf_str_of(name), .kind = WF_ATTR_INTS, .n = n_v, .ints = copy};
  return add_attr(g, n, &a);
}

void graph_kill(wf_graph *g, wf_node *n) {
  if (n->is_dead) return;
  n->is_dead = true;
  for (int32_t i = 0; i < n->n_inputs; i++) graph_drop_use(g, n->inputs[i], n->id);
  for (size_t i = 0; i < n->n_captures; i++) graph_drop_use(g, n->captures[i], n->id);
  for (int32_t i = 0; i < n->n_outputs; i++) {
    wf_value *v = graph_value(g, n->outputs[i]);
    if (v && v->producer == n->id) v->producer = -1;
  }
}

bool graph_replace(wf_graph *g, int32_t from, int32_t to) {
  wf_value *f = g->values.at[from], *t = g->values.at[to];
  if (from == to) return true;
  while (f->n_users) {
    wf_node *n = g->nodes.at[f->users[f->n_users - 1]];
    const size_t before = f->n_users;
    for (int32_t i = 0; i < n->n_inputs; i++) {
      if (n->inputs[i] == from && !graph_set_input(g, n, i, to)) return false;
    }
    int32_t *captures = wf_unconst(n->captures); /* the graph's own list */
    for (size_t i = 0; i < n->n_captures; i++) {
      if (captures[i] != from) continue;
      if (!graph_add_use(g, to, n->id)) return false;
      captures[i] = to;
      graph_drop_use(g, from, n->id);
      for (size_t k = 0; k < n->n_subgraphs; k++) {
        for (size_t j = 0; j < n->subgraphs[k]->values.n; j++) {
          wf_value *inner = n->subgraphs[k]->values.at[j];
          if (inner->is_captured && inner->outer == from) inner->outer = to;
        }
      }
    }
    if (f->n_users == before) return false; /* can't be: a user that does not use */
  }
  if (!f->is_output) return true;
  for (size_t i = 0; i < g->outputs.n; i++) {
    if (g->outputs.at[i] == from) g->outputs.at[i] = to;
  }
  f->is_output = false;
  if (!t->is_output && !t->is_input && !t->tensor) { /* the port keeps its name */
    const wf_str name = t->name;
    t->name = f->name;
    f->name = name;
  }
  t->is_output = true;
  return true;
}

/* ---- order ------------------------------------------------------------------------------- */

typedef struct visit {
  int32_t node, next; /* next input to look at; captures follow the inputs */
} visit;

typedef WF_VEC(visit) visit_stack;

static weft_status visit_from(wf_graph *g, int32_t root, unsigned char *state, visit_stack *stack,
                              weft_error *err) {
  enum { NEW, OPEN, DONE };
  if (root < 0 || state[root] == DONE) return WEFT_OK;
  state[root] = OPEN;
  if (!wf_vec_push(stack, ((visit){root, 0}))) return graph_no_memory(err);
  while (stack->n) {
    visit *v = &stack->at[stack->n - 1];
    const wf_node *n = g->nodes.at[v->node];
    const int32_t total = n->n_inputs + (int32_t)n->n_captures;
    if (v->next == total) {
      state[v->node] = DONE;
      if (!wf_vec_push(&g->order, v->node)) return graph_no_memory(err);
      stack->n--;
      continue;
    }
    const int32_t at = v->next++;
    const int32_t value = at < n->n_inputs ? n->inputs[at] : n->captures[at - n->n_inputs];
    const int32_t producer = value < 0 ? -1 : g->values.at[value]->producer;
    if (producer < 0 || state[producer] == DONE) continue;
    if (state[producer] == OPEN) {
      return wf_fail(err, WEFT_PACKAGE_INVALID, "export the model again",
                     "the graph has a cycle through node '%.*s' (%.*s)",
                     (int)(n->name.n < 100 ? n->name.n : 100), n->name.n ? n->name.at : "",
                     (int)(n->op_type.n < 60 ? n->op_type.n : 60), n->op_type.at);
    }
    state[producer] = OPEN;
    if (!wf_vec_push(stack, ((visit){producer, 0}))) return graph_no_memory(err);
  }
  return WEFT_OK;
}

weft_status graph_sort(wf_graph *g, weft_error *err) {
  weft_status st = WEFT_OK;
  visit_stack stack = {0};
  unsigned char *state = wf_zalloc(g->nodes.n + 1);
  g->order.n = 0;
  if (!state) WF_TRY(graph_no_memory(err));
  for (size_t i = 0; i < g->outputs.n; i++) {
    WF_TRY(visit_from(g, g->values.at[g->outputs.at[i]]->producer, state, &stack, err));
  }
  for (size_t i = 0; i < g->nodes.n; i++) {
    if (!state[i]) graph_kill(g, g->nodes.at[i]);
  }
out:
  wf_vec_free(&stack);
  wf_free(state);
  return st;
}

/* ---- reading ----------------------------------------------------------------------------- */

const wf_attr *wf_node_attr(const wf_node *n, const char *name) {
  for (size_t i = 0; i < n->n_attrs; i++) {
    if (wf_str_is(n->attrs[i].name, name)) return &n->attrs[i];
  }
  return NULL;
}

int64_t wf_node_attr_i(const wf_node *n, const char *name, int64_t fallback) {
  const wf_attr *a = wf_node_attr(n, name);
  return a && a->kind == WF_ATTR_INT ? a->i : fallback;
}

float wf_node_attr_f(const wf_node *n, const char *name, float fallback) {
  const wf_attr *a = wf_node_attr(n, name);
  return a && a->kind == WF_ATTR_FLOAT ? a->f : fallback;
}

wf_str wf_node_attr_s(const wf_node *n, const char *name) {
  const wf_attr *a = wf_node_attr(n, name);
  return a && a->kind == WF_ATTR_STRING ? a->s : (wf_str){0};
}

int32_t wf_node_input(const wf_node *n, int32_t i) {
  return i >= 0 && i < n->n_inputs ? n->inputs[i] : -1;
}

int32_t wf_node_output(const wf_node *n, int32_t i) {
  return i >= 0 && i < n->n_outputs ? n->outputs[i] : -1;
}

const wf_value *wf_graph_value(const wf_graph *g, int32_t id) {
  return id >= 0 && (size_t)id < g->values.n ? g->values.at[id] : NULL;
}

const wf_node *wf_graph_producer(const wf_graph *g, int32_t value) {
  const wf_value *v = wf_graph_value(g, value);
  return v && v->producer >= 0 ? g->nodes.at[v->producer] : NULL;
}

int32_t wf_graph_find(const wf_graph *g, wf_str name) {
  for (size_t i = 0; i < g->inputs.n; i++) {
    if (wf_str_eq(g->values.at[g->inputs.at[i]]->name, name)) return g->inputs.at[i];
  }
  for (size_t i = 0; i < g->outputs.n; i++) {
    if (wf_str_eq(g->values.at[g->outputs.at[i]]->name, name)) return g->outputs.at[i];
  }
  return -1;
}

wf_expr wf_value_count(wf_graph *g, const wf_value *v) {
  if (v->rank < 0) return WF_EXPR_NONE;
  wf_expr n = wf_expr_const(g->exprs, 1);
  for (int32_t i = 0; i < v->rank; i++) n = wf_expr_mul(g->exprs, n, v->dims[i]);
  return n;
}

void wf_graph_count(const wf_graph *g, size_t counts[WF_OP_COUNT]) {
  memset(counts, 0, WF_OP_COUNT * sizeof counts[0]);
  for (size_t i = 0; i < g->order.n; i++) counts[g->nodes.at[g->order.at[i]]->op]++;
}
