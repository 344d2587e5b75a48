/* SPDX-License-Identifier: Apache-2.0 */
/* From the file's lists of names to values and nodes. Functions of the model are inlined here;
 * nested graphs become graphs of their own that name the outer values they capture. */
#include <string.h>

#include "base/hash.h"
#include "graph/edit.h"

enum { MAX_FUNCTION_DEPTH = 16 };

typedef struct name_slot {
  wf_str name;
  int32_t value; /* -1 empty */
} name_slot;

/* Names to values in one scope: a graph, or the inside of a function call. */
typedef struct scope {
  struct scope *parent; /* the graph around a nested graph; NULL where names end */
  wf_graph *g;
  name_slot *slots;
  size_t n, capacity;
  const wf_onnx_opset *opsets;
  size_t n_opsets;
  const wf_onnx_function *function; /* the call whose body this is, for attribute references */
  const wf_onnx_node *call;
  const struct scope *call_scope;
  int depth; /* of calls */
} scope;

typedef struct builder {
  const wf_onnx_model *model;
  uint64_t seed;
  size_t n_nodes;
  weft_error *err;
} builder;

static weft_status build_nodes(builder *b, scope *s, const wf_onnx_node *nodes, size_t n);
static weft_status build_graph(builder *b, scope *s, const wf_onnx_graph *og);

#define NAME_ARGS(s) (int)((s).n < 100 ? (s).n : 100), (s).n ? (s).at : ""

/* ---- names ------------------------------------------------------------------------------- */

static name_slot *find_slot(const builder *b, const scope *s, wf_str name) {
  size_t at = wf_hash_bytes(b->seed, name.at, name.n) & (s->capacity - 1);
  while (s->slots[at].value >= 0 && !wf_str_eq(s->slots[at].name, name)) {
    at = (at + 1) & (s->capacity - 1);
  }
  return &s->slots[at];
}

static weft_status grow(builder *b, scope *s) {
  scope bigger = *s;
  bigger.capacity = s->capacity ? s->capacity * 2 : 64;
  bigger.slots = wf_calloc(bigger.capacity, sizeof *bigger.slots);
  if (!bigger.slots) return graph_no_memory(b->err);
  for (size_t i = 0; i < bigger.capacity; i++) bigger.slots[i].value = -1;
  for (size_t i = 0; i < s->capacity; i++) {
    if (s->slots[i].value >= 0) *find_slot(b, &bigger, s->slots[i].name) = s->slots[i];
  }
  wf_free(s->slots);
  *s = bigger;
  return WEFT_OK;
}

static weft_status define(builder *b, scope *s, wf_str name, int32_t value) {
  if (2 * (s->n + 1) > s->capacity) WF_RETURN_IF_ERROR(grow(b, s));
  name_slot *slot = find_slot(b, s, name);
  if (slot->value >= 0) {
    return wf_fail(b->err, WEFT_PACKAGE_INVALID, "export the model again",
                   "the name '%.*s' is given to two values", NAME_ARGS(name));
  }
  *slot = (name_slot){name, value};
  s->n++;
  return WEFT_OK;
}

/* The value of a name in this scope or, as a capture, in a graph around it; -1 if unknown. */
static weft_status lookup(builder *b, scope *s, wf_str name, int32_t *value) {
  *value = -1;
  if (s->capacity) *value = find_slot(b, s, name)->value;
  if (*value >= 0 || !s->parent) return WEFT_OK;
  int32_t outer;
  WF_RETURN_IF_ERROR(lookup(b, s->parent, name, &outer));
  if (outer < 0) return WEFT_OK;
  const wf_value *o = s->parent->g->values.at[outer];
  wf_value *v =
      o->tensor ? graph_new_const(s->g, name, o->tensor) : graph_new_value(s->g, name, o->dtype);
  if (!v) return graph_no_memory(b->err);
  if (!o->tensor) {
    v->is_captured = true;
    v->outer = outer;
    if (o->rank >= 0 && !graph_set_dims(s->g, v, o->rank, o->dims)) return graph_no_memory(b->err);
  }
  WF_RETURN_IF_ERROR(define(b, s, name, v->id));
  *value = v->id;
  return WEFT_OK;
}

/* ---- attributes -------------------------------------------------------------------------- */

/* The attribute that a reference inside a function stands for; NULL when the call leaves it out. */
static const wf_attr *resolve_ref(const scope *s, wf_str ref) {
  while (s->function) {
    const wf_attr *found = NULL;
    for (size_t i = 0; i < s->call->n_attrs && !found; i++) {
      if (wf_str_eq(s->call->attrs[i].name, ref)) found = &s->call->attrs[i];
    }
    for (size_t i = 0; i < s->function->n_attr_defaults && !found; i++) {
      if (wf_str_eq(s->function->attr_defaults[i].name, ref)) {
        found = &s->function->attr_defaults[i];
      }
    }
    if (!found || found->ref.n == 0) return found;
    ref = found->ref; /* the call itself stands in a function */
    s = s->call_scope;
  }
  return NULL;
}

static weft_status add_attrs(builder *b, scope *s, wf_node *n, const wf_onnx_node *on) {
  wf_attr *attrs = wf_arena_calloc(s->g->arena, on->n_attrs, sizeof *attrs);
  if (!attrs) return graph_no_memory(b->err);
  n->attrs = attrs;
  for (size_t i = 0; i < on->n_attrs; i++) {
    const wf_attr *a = &on->attrs[i];
    if (a->ref.n) {
      const wf_attr *value = resolve_ref(s, a->ref);
      if (!value) continue;
      attrs[n->n_attrs] = *value;
      attrs[n->n_attrs].name = a->name;
    } else {
      attrs[n->n_attrs] = *a;
    }
    n->n_attrs++;
  }
  return WEFT_OK;
}

/* ---- nodes ------------------------------------------------------------------------------- */

static int32_t version_of(const scope *s, wf_str domain) {
  for (size_t i = 0; i < s->n_opsets; i++) {
    if (wf_str_eq(s->opsets[i].domain, domain)) return (int32_t)s->opsets[i].version;
  }
  return 0;
}

static const wf_onnx_function *function_of(const builder *b, const wf_onnx_node *on) {
  for (size_t i = 0; i < b->model->n_functions; i++) {
    const wf_onnx_function *f = &b->model->functions[i];
    if (wf_str_eq(f->name, on->op_type) && wf_str_eq(f->domain, on->domain) &&
        wf_str_eq(f->overload, on->overload)) {
      return f;
    }
  }
  return NULL;
}

static weft_status input_ids(builder *b, scope *s, const wf_onnx_node *on, int32_t *ids) {
  for (size_t i = 0; i < on->n_inputs; i++) {
    ids[i] = -1;
    if (on->inputs[i].n == 0) continue;
    WF_RETURN_IF_ERROR(lookup(b, s, on->inputs[i], &ids[i]));
    if (ids[i] < 0) {
      return wf_fail(b->err, WEFT_PACKAGE_INVALID, "export the model again",
                     "node '%.*s' (%.*s) reads '%.*s', which no node before it makes",
                     NAME_ARGS(on->name), NAME_ARGS(on->op_type), NAME_ARGS(on->inputs[i]));
    }
  }
  return WEFT_OK;
}

static weft_status output_ids(builder *b, scope *s, const wf_onnx_node *on, int32_t *ids) {
  for (size_t i = 0; i < on->n_outputs; i++) {
    ids[i] = -1;
    /* the first one is always there, named or not: operators and passes take it for granted */
    if (on->outputs[i].n == 0 && i > 0) continue;
    const wf_value *v = graph_new_value(s->g, on->outputs[i], WF_DTYPE_UNDEFINED);
    if (!v) return graph_no_memory(b->err);
    ids[i] = v->id;
    if (on->outputs[i].n == 0) continue;
    WF_RETURN_IF_ERROR(define(b, s, on->outputs[i], v->id));
  }
  return WEFT_OK;
}

static weft_status add_subgraph(builder *b, scope *s, const wf_onnx_graph *og, wf_graph **result) {
  weft_status st = WEFT_OK;
  scope inner = {.parent = s,
                 .opsets = s->opsets,
                 .n_opsets = s->n_opsets,
                 .function = s->function,
                 .call = s->call,
                 .call_scope = s->call_scope,
                 .depth = s->depth};
  inner.g = graph_create(s->g->arena, s->g->exprs, s->g);
  if (!inner.g) return graph_no_memory(b->err);
  inner.g->opsets = s->g->opsets;
  inner.g->n_opsets = s->g->n_opsets;
  *result = inner.g; /* before filling it: its lists are freed by way of the node */
  st = build_graph(b, &inner, og);
  wf_free(inner.slots);
  return st;
}

/* Which outer values the subgraphs of a node read. */
static weft_status collect_captures(builder *b, scope *s, wf_node *n) {
  size_t total = 0;
  for (int pass = 0; pass < 2; pass++) {
    int32_t *list = NULL;
    if (pass == 1) {
      list = wf_arena_calloc(s->g->arena, total, sizeof *list);
      if (!list) return graph_no_memory(b->err);
      n->captures = list;
    }
    for (size_t k = 0; k < n->n_subgraphs; k++) {
      const wf_graph *sub = n->subgraphs[k];
      for (size_t i = 0; i < sub->values.n; i++) {
        if (!sub->values.at[i]->is_captured) continue;
        if (pass == 0) {
          total++;
        } else {
          list[n->n_captures++] = sub->values.at[i]->outer;
          if (!graph_add_use(s->g, sub->values.at[i]->outer, n->id)) return graph_no_memory(b->err);
        }
      }
    }
  }
  return WEFT_OK;
}

static weft_status add_subgraphs(builder *b, scope *s, wf_node *n) {
  size_t total = 0;
  for (size_t i = 0; i < n->n_attrs; i++) {
    const wf_attr *a = &n->attrs[i];
    if (a->kind == WF_ATTR_GRAPH || a->kind == WF_ATTR_GRAPHS) total += a->n;
  }
  if (total == 0) return WEFT_OK;
  wf_graph **list = wf_arena_calloc(s->g->arena, total, sizeof(wf_graph *));
  if (!list) return graph_no_memory(b->err);
  n->subgraphs = (wf_graph *const *)list;
  for (size_t i = 0; i < n->n_attrs; i++) {
    const wf_attr *a = &n->attrs[i];
    if (a->kind != WF_ATTR_GRAPH && a->kind != WF_ATTR_GRAPHS) continue;
    for (size_t k = 0; k < a->n; k++) {
      wf_graph *sub = NULL;
      const weft_status st = add_subgraph(b, s, a->graphs[k], &sub);
      if (sub) list[n->n_subgraphs++] = sub;
      WF_RETURN_IF_ERROR(st);
    }
  }
  return collect_captures(b, s, n);
}

static weft_status add_node(builder *b, scope *s, const wf_onnx_node *on, int32_t *ids) {
  if (on->n_outputs == 0) {
    return wf_fail(b->err, WEFT_PACKAGE_INVALID, "export the model again",
                   "node '%.*s' (%.*s) has no output", NAME_ARGS(on->name), NAME_ARGS(on->op_type));
  }
  WF_RETURN_IF_ERROR(input_ids(b, s, on, ids));
  int32_t *outs = ids + on->n_inputs;
  const wf_op op = wf_op_find(on->domain, on->op_type);
  wf_node *n = graph_new_node(s->g, op, (int32_t)on->n_inputs, ids, 0, NULL);
  if (!n) return graph_no_memory(b->err);
  n->domain = on->domain;
  n->op_type = on->op_type;
  n->name = on->name;
  n->version = version_of(s, on->domain);
  WF_RETURN_IF_ERROR(graph_check_arity(n, (int32_t)on->n_outputs, b->err));
  WF_RETURN_IF_ERROR(add_attrs(b, s, n, on));
  WF_RETURN_IF_ERROR(add_subgraphs(b, s, n));
  WF_RETURN_IF_ERROR(output_ids(b, s, on, outs));
  int32_t *list = wf_arena_calloc(s->g->arena, on->n_outputs, sizeof *list);
  if (!list) return graph_no_memory(b->err);
  for (size_t i = 0; i < on->n_outputs; i++) {
    list[i] = outs[i];
    if (outs[i] < 0) continue;
    s->g->values.at[outs[i]]->producer = n->id;
    s->g->values.at[outs[i]]->producer_output = (int32_t)i;
  }
  n->outputs = list;
  n->n_outputs = (int32_t)on->n_outputs;
  return WEFT_OK;
}

/* The body of a function in place of its call: parameters are other names for the call's inputs,
 * results get the call's output names. */
static weft_status inline_call(builder *b, scope *s, const wf_onnx_node *on,
                               const wf_onnx_function *f, int32_t *ids) {
  weft_status st = WEFT_OK;
  scope inner = {.g = s->g,
                 .opsets = f->opsets,
                 .n_opsets = f->n_opsets,
                 .function = f,
                 .call = on,
                 .call_scope = s,
                 .depth = s->depth + 1};
  if (inner.depth > MAX_FUNCTION_DEPTH) {
    WF_TRY(wf_fail(b->err, WEFT_LIMIT, "export the model with its functions inlined",
                   "functions call each other more than %d deep at '%.*s'", MAX_FUNCTION_DEPTH,
                   NAME_ARGS(f->name)));
  }
  WF_TRY(input_ids(b, s, on, ids));
  for (size_t i = 0; i < f->n_inputs && i < on->n_inputs; i++) {
    if (ids[i] >= 0) WF_TRY(define(b, &inner, f->inputs[i], ids[i]));
  }
  WF_TRY(build_nodes(b, &inner, f->nodes, f->n_nodes));
  for (size_t i = 0; i < on->n_outputs; i++) {
    int32_t value = -1;
    if (on->outputs[i].n == 0) continue;
    if (i < f->n_outputs) WF_TRY(lookup(b, &inner, f->outputs[i], &value));
    if (value < 0) {
      WF_TRY(wf_fail(b->err, WEFT_PACKAGE_INVALID, "export the model again",
                     "function '%.*s' does not make output %zu of node '%.*s'", NAME_ARGS(f->name),
                     i, NAME_ARGS(on->name)));
    }
    WF_TRY(define(b, s, on->outputs[i], value));
  }
out:
  wf_free(inner.slots);
  return st;
}

/* An absent optional parameter of a function is an empty name inside it, too. */
static bool is_absent_parameter(const scope *s, wf_str name) {
  if (!s->function || name.n == 0) return false;
  for (size_t i = 0; i < s->function->n_inputs; i++) {
    if (wf_str_eq(s->function->inputs[i], name)) {
      return i >= s->call->n_inputs || s->call->inputs[i].n == 0;
    }
  }
  return false;
}

static weft_status build_node(builder *b, scope *s, const wf_onnx_node *on) {
  weft_status st = WEFT_OK;
  wf_onnx_node copy = *on;
  wf_str *names = NULL;
  int32_t *ids = wf_calloc(on->n_inputs + on->n_outputs + 1, sizeof *ids);
  if (!ids) WF_TRY(graph_no_memory(b->err));
  if (++b->n_nodes > GRAPH_MAX_NODES) {
    WF_TRY(wf_fail(b->err, WEFT_LIMIT, "split the model", "the model has more than %d nodes",
                   GRAPH_MAX_NODES));
  }
  if (s->function) {
    names = wf_calloc(on->n_inputs + 1, sizeof *names);
    if (!names) WF_TRY(graph_no_memory(b->err));
    for (size_t i = 0; i < on->n_inputs; i++) {
      if (!is_absent_parameter(s, on->inputs[i])) names[i] = on->inputs[i];
    }
    copy.inputs = names;
  }
  const wf_onnx_function *f = function_of(b, on);
  WF_TRY(f ? inline_call(b, s, &copy, f, ids) : add_node(b, s, &copy, ids));
out:
  wf_free(names);
  wf_free(ids);
  return st;
}

static weft_status build_nodes(builder *b, scope *s, const wf_onnx_node *nodes, size_t n) {
  for (size_t i = 0; i < n; i++) WF_RETURN_IF_ERROR(build_node(b, s, &nodes[i]));
  return WEFT_OK;
}

/* ---- ports ------------------------------------------------------------------------------- */

/* "past_sequence_length + 1" and the like are sums of symbols, so that they meet what shape
 * inference finds. Anything else is one opaque symbol. */
static wf_expr dim_of_text(wf_graph *g, wf_str text) {
  wf_expr total = wf_expr_const(g->exprs, 0);
  size_t at = 0;
  while (at <= text.n) {
    const size_t plus = wf_str_find(text, WF_STR("+"), at);
    const size_t end = plus == SIZE_MAX ? text.n : plus;
    wf_str part = {text.at + at, end - at};
    while (part.n && part.at[0] == ' ') part.at++, part.n--;
    while (part.n && part.at[part.n - 1] == ' ') part.n--;
    int64_t v;
    bool is_name = part.n > 0;
    for (size_t i = 0; i < part.n; i++) {
      const char c = part.at[i];
      if (!(c == '_' || c == '.' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
            (c >= 'A' && c <= 'Z'))) {
        is_name = false;
      }
    }
    if (!is_name) return wf_expr_symbol(g->exprs, text);
    total = wf_expr_add(
        g->exprs, total,
        wf_parse_i64(part, &v) ? wf_expr_const(g->exprs, v) : wf_expr_symbol(g->exprs, part));
    at = end + 1;
  }
  return total;
}

static wf_expr dim_of(wf_graph *g, const wf_onnx_value_info *info, int32_t axis) {
  const wf_onnx_dim *d = &info->dims[axis];
  if (d->is_known) return wf_expr_const(g->exprs, d->value);
  if (d->symbol.n) return dim_of_text(g, d->symbol);
  wf_buf b = {0};
  wf_buf_add_str(&b, info->name);
  wf_buf_printf(&b, ".%d", axis);
  const wf_expr e = b.failed ? WF_EXPR_NONE : wf_expr_symbol(g->exprs, (wf_str){b.at, b.n});
  wf_buf_deinit(&b);
  return e;
}

static weft_status set_type(builder *b, wf_graph *g, wf_value *v, const wf_onnx_value_info *info) {
  wf_expr dims[GRAPH_MAX_RANK];
  v->dtype = info->dtype;
  if (info->rank < 0) return WEFT_OK;
  if (info->rank > GRAPH_MAX_RANK) {
    return wf_fail(b->err, WEFT_LIMIT, "use tensors of fewer dimensions",
                   "'%.*s' has %d dimensions", NAME_ARGS(info->name), info->rank);
  }
  for (int32_t i = 0; i < info->rank; i++) dims[i] = dim_of(g, info, i);
  return graph_set_dims(g, v, info->rank, dims) ? WEFT_OK : graph_no_memory(b->err);
}

static weft_status add_inputs(builder *b, scope *s, const wf_onnx_graph *og) {
  for (size_t i = 0; i < og->n_inputs; i++) {
    const wf_onnx_value_info *info = &og->inputs[i];
    if (s->capacity && find_slot(b, s, info->name)->value >= 0) continue; /* has an initializer */
    wf_value *v = graph_new_value(s->g, info->name, info->dtype);
    if (!v) return graph_no_memory(b->err);
    v->is_input = true;
    WF_RETURN_IF_ERROR(set_type(b, s->g, v, info));
    WF_RETURN_IF_ERROR(define(b, s, info->name, v->id));
    if (!wf_vec_push(&s->g->inputs, v->id)) return graph_no_memory(b->err);
  }
  return WEFT_OK;
}

static weft_status add_outputs(builder *b, scope *s, const wf_onnx_graph *og) {
  for (size_t i = 0; i < og->n_outputs; i++) {
    int32_t id;
    WF_RETURN_IF_ERROR(lookup(b, s, og->outputs[i].name, &id));
    if (id < 0) {
      return wf_fail(b->err, WEFT_PACKAGE_INVALID, "export the model again",
                     "no node makes the output '%.*s'", NAME_ARGS(og->outputs[i].name));
    }
    wf_value *v = s->g->values.at[id];
    if (!wf_str_eq(v->name, og->outputs[i].name) || v->is_output) {
      if (v->producer >= 0 && !v->is_output) {
        v->name = og->outputs[i].name; /* it came out of a function under its inner name */
      } else {
        const wf_node *n = graph_new_node(s->g, WF_OP_IDENTITY, 1, &id, 1, NULL);
        if (!n) return graph_no_memory(b->err);
        v = s->g->values.at[n->outputs[0]];
        v->name = og->outputs[i].name;
      }
    }
    v->is_output = true;
    if (!wf_vec_push(&s->g->outputs, v->id)) return graph_no_memory(b->err);
  }
  return WEFT_OK;
}

/* What the file says of values whose operators weft does not know; inference overwrites it. */
static weft_status add_hints(builder *b, scope *s, const wf_onnx_value_info *infos, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (!s->capacity || infos[i].rank > GRAPH_MAX_RANK) continue;
    const int32_t id = find_slot(b, s, infos[i].name)->value;
    if (id < 0) continue;
    wf_value *v = s->g->values.at[id];
    if (v->producer < 0 || v->tensor || v->rank >= 0) continue;
    WF_RETURN_IF_ERROR(set_type(b, s->g, v, &infos[i]));
  }
  return WEFT_OK;
}

static weft_status build_graph(builder *b, scope *s, const wf_onnx_graph *og) {
  s->g->name = og->name;
  for (size_t i = 0; i < og->n_initializers; i++) {
    const wf_tensor *t = &og->initializers[i];
    if (t->rank > GRAPH_MAX_RANK) {
      return wf_fail(b->err, WEFT_LIMIT, "use tensors of fewer dimensions",
                     "'%.*s' has %d dimensions", NAME_ARGS(t->name), t->rank);
    }
    const wf_value *v = graph_new_const(s->g, t->name, t);
    if (!v) return graph_no_memory(b->err);
    WF_RETURN_IF_ERROR(define(b, s, t->name, v->id));
  }
  WF_RETURN_IF_ERROR(add_inputs(b, s, og));
  WF_RETURN_IF_ERROR(build_nodes(b, s, og->nodes, og->n_nodes));
  WF_RETURN_IF_ERROR(add_outputs(b, s, og));
  WF_RETURN_IF_ERROR(add_hints(b, s, og->value_infos, og->n_value_infos));
  return add_hints(b, s, og->outputs, og->n_outputs);
}

weft_status wf_graph_build(wf_graph **result, const wf_onnx_model *model, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_graph *g = NULL;
  builder b = {.model = model, .err = err};
  scope s = {.opsets = model->opsets, .n_opsets = model->n_opsets};
  wf_arena *arena = wf_arena_create();
  wf_expr_pool *exprs = wf_expr_pool_create();
  *result = NULL;
  if (!arena || !exprs) WF_TRY(graph_no_memory(err));
  g = graph_create(arena, exprs, NULL);
  if (!g) WF_TRY(graph_no_memory(err));
  arena = NULL; /* g owns both now */
  exprs = NULL;
  g->opsets = model->opsets;
  g->n_opsets = model->n_opsets;
  /* Addresses differ from run to run, so a file can't be made to collide. */
  b.seed = wf_hash_mix((uint64_t)(uintptr_t)g ^ WF_HASH_SEED);
  s.g = g;
  WF_TRY(build_graph(&b, &s, &model->graph));
  WF_TRY(graph_sort(g, err));
  WF_TRY(graph_infer(g, err));
  *result = g;
  g = NULL;
out:
  wf_free(s.slots);
  wf_graph_destroy(g);
  wf_expr_pool_destroy(exprs);
  wf_arena_destroy(arena);
  return st;
}
