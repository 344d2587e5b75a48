/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that change nothing, branches whose condition is known, and nodes that say the same. */
#include <string.h>

#include "base/hash.h"
#include "graph/passes.h"

/* ---- identities -------------------------------------------------------------------------- */

static bool is_all(const wf_graph *g, int32_t value, double v) {
  double x;
  return graph_const_scalar(g, value, &x) && x == v;
}

/* Two transposes that cancel, a reshape that undoes another. */
static int32_t undone(const wf_graph *g, const wf_node *n) {
  const wf_node *before = made_by(g, n->inputs[0], n->op);
  if (!before || before->inputs[0] < 0) return -1;
  if (n->op == WF_OP_RESHAPE)
    return same_shape(g, before->inputs[0], n->outputs[0]) ? before->inputs[0] : -1;
  const wf_attr *a = wf_node_attr(before, "perm"), *b = wf_node_attr(n, "perm");
  if (!a || !b || a->kind != WF_ATTR_INTS || b->kind != WF_ATTR_INTS || a->n != b->n) return -1;
  for (size_t i = 0; i < a->n; i++) {
    if (b->ints[i] < 0 || (size_t)b->ints[i] >= a->n || a->ints[b->ints[i]] != (int64_t)i)
      return -1;
  }
  return before->inputs[0];
}

/* The one part of a join that is not empty. */
static int32_t only_part(const wf_graph *g, const wf_node *n) {
  int32_t found = -1;
  for (int32_t i = 0; i < n->n_inputs; i++) {
    const wf_value *v = g->values.at[n->inputs[i]];
    const int64_t axis = wf_node_attr_i(n, "axis", 0);
    int64_t d;
    if (v->rank < 1 || axis < -v->rank || axis >= v->rank) return -1;
    if (const_dim(g, v->id, (int32_t)(axis < 0 ? axis + v->rank : axis), &d) && d == 0) continue;
    if (found >= 0) return -1;
    found = v->id;
  }
  return found >= 0 && same_shape(g, found, n->outputs[0]) ? found : -1;
}

/* The input that a node hands on unchanged; -1 when it does something. */
static int32_t unchanged(const wf_graph *g, const wf_node *n) {
  const int32_t a = wf_node_input(n, 0), b = wf_node_input(n, 1), out = wf_node_output(n, 0);
  int64_t perm[GRAPH_MAX_RANK];
  if (out < 0 || a < 0) return -1;
  const wf_value *x = g->values.at[a], *y = g->values.at[out];
  switch ((int)n->op) {
    case WF_OP_IDENTITY:
      return a;
    case WF_OP_DROPOUT:
      return wf_node_output(n, 1) < 0 || !graph_n_uses(g->values.at[n->outputs[1]]) ? a : -1;
    case WF_OP_CAST:
      return x->dtype == y->dtype && x->dtype != WF_DTYPE_UNDEFINED ? a : -1;
    case WF_OP_RESHAPE:
    case WF_OP_EXPAND:
    case WF_OP_SQUEEZE:
    case WF_OP_UNSQUEEZE:
    case WF_OP_FLATTEN:
    case WF_OP_SLICE:
    case WF_OP_PAD:
    case WF_OP_TILE:
      if (n->op == WF_OP_SLICE) { /* a reversal keeps the shape */
        int64_t steps[GRAPH_MAX_RANK];
        int32_t count = 0;
        if (wf_node_input(n, 4) >= 0 &&
            !graph_const_ints(g, n->inputs[4], steps, GRAPH_MAX_RANK, &count))
          return -1;
        for (int32_t i = 0; i < count; i++) {
          if (steps[i] != 1) return -1;
        }
      }
      return n->op != WF_OP_PAD && same_shape(g, a, out) ? a : -1;
    case WF_OP_TRANSPOSE: {
      const wf_attr *p = wf_node_attr(n, "perm");
      if (!p || p->kind != WF_ATTR_INTS || p->n > GRAPH_MAX_RANK) return x->rank == 1 ? a : -1;
      memcpy(perm, p->ints, p->n * sizeof *perm);
      for (size_t i = 0; i < p->n; i++) {
        if (perm[i] != (int64_t)i) return -1;
      }
      return a;
    }
    case WF_OP_CONCAT:
      return n->n_inputs == 1 ? a : only_part(g, n);
    case WF_OP_SUM:
    case WF_OP_MIN:
    case WF_OP_MAX:
      return n->n_inputs == 1 ? a : -1;
    case WF_OP_ADD:
      if (is_all(g, b, 0) && same_shape(g, a, out)) return a;
      return is_all(g, a, 0) && same_shape(g, b, out) ? b : -1;
    case WF_OP_SUB:
      return is_all(g, b, 0) && same_shape(g, a, out) ? a : -1;
    case WF_OP_MUL:
      if (is_all(g, b, 1) && same_shape(g, a, out)) return a;
      return is_all(g, a, 1) && same_shape(g, b, out) ? b : -1;
    case WF_OP_DIV:
      return is_all(g, b, 1) && same_shape(g, a, out) ? a : -1;
    case WF_OP_POW:
      return is_all(g, b, 1) && same_shape(g, a, out) ? a : -1;
    default:
      return -1;
  }
}

weft_status pass_identity(pass *p) {
  wf_graph *g = p->g;
  FOR_NODES(p, n) {
    int32_t same = unchanged(g, n);
    if (same < 0 && (n->op == WF_OP_TRANSPOSE || n->op == WF_OP_RESHAPE)) same = undone(g, n);
    if (same < 0) continue;
    const wf_value *to = g->values.at[same], *from = g->values.at[n->outputs[0]];
    if (from->is_output && (to->is_input || to->is_output || to->tensor || to->is_captured))
      continue; /* the port needs a node */
    if (!graph_replace(g, n->outputs[0], same)) return graph_no_memory(p->err);
    graph_kill(g, n);
    p->changed = true;
  }
  return WEFT_OK;
}

/* ---- branches ---------------------------------------------------------------------------- */

/* A result of the branch that is a port of the graph must be made by a node under the port's own
 * name: by the branch's node where it has one, else by one that copies. */
static int32_t port_of(const wf_graph *g, const wf_node *n, const wf_graph *sub, int32_t inner) {
  for (int32_t i = 0; i < n->n_outputs; i++) {
    if (n->outputs[i] >= 0 && sub->outputs.at[i] == inner && sub->values.at[inner]->producer >= 0 &&
        g->values.at[n->outputs[i]]->is_output)
      return n->outputs[i];
  }
  return -1;
}

static weft_status hand_over(pass *p, int32_t port, int32_t made) {
  wf_graph *g = p->g;
  const wf_value *from = g->values.at[port];
  if (port == made) return WEFT_OK;
  if (!from->is_output) return graph_replace(g, port, made) ? WEFT_OK : graph_no_memory(p->err);
  return graph_new_node(g, WF_OP_IDENTITY, 1, &made, 1, &port) ? WEFT_OK : graph_no_memory(p->err);
}

static weft_status splice(pass *p, wf_node *n, const wf_graph *sub) {
  wf_graph *g = p->g;
  weft_status st = WEFT_OK;
  int32_t *map = wf_calloc(sub->values.n + 1, sizeof *map), *ids = NULL;
  if (!map) return graph_no_memory(p->err);
  for (size_t i = 0; i < sub->values.n; i++) {
    const wf_value *v = sub->values.at[i];
    wf_value *copy = NULL;
    map[i] = port_of(g, n, sub, (int32_t)i);
    if (map[i] >= 0) continue; /* shape and type come from inference */
    if (v->is_captured) {
      map[i] = v->outer;
      continue;
    }
    copy = v->tensor && v->producer < 0 ? graph_new_const(g, v->name, v->tensor)
                                        : graph_new_value(g, v->name, v->dtype);
    if (!copy || (v->rank >= 0 && !graph_set_dims(g, copy, v->rank, v->dims)))
      WF_TRY(graph_no_memory(p->err));
    copy->tensor = v->tensor;
    if (v->n_content >= 0 && !graph_set_content(g, copy, v->n_content, v->content))
      WF_TRY(graph_no_memory(p->err));
    map[i] = copy->id;
  }
  for (size_t i = 0; i < sub->order.n; i++) {
    const wf_node *o = sub->nodes.at[sub->order.at[i]];
    ids = wf_calloc((size_t)(o->n_inputs + o->n_outputs) + 1, sizeof *ids);
    if (!ids) WF_TRY(graph_no_memory(p->err));
    for (int32_t k = 0; k < o->n_inputs; k++) ids[k] = o->inputs[k] < 0 ? -1 : map[o->inputs[k]];
    int32_t *outs = ids + o->n_inputs;
    for (int32_t k = 0; k < o->n_outputs; k++)
      outs[k] = o->outputs[k] < 0 ? -1 : map[o->outputs[k]];
    wf_node *c = graph_new_node(g, o->op, o->n_inputs, ids, o->n_outputs, outs);
    if (!c) WF_TRY(graph_no_memory(p->err));
    c->domain = o->domain, c->op_type = o->op_type, c->name = o->name, c->version = o->version;
    c->attrs = o->attrs, c->n_attrs = o->n_attrs;
    wf_free(ids);
    ids = NULL;
  }
  for (int32_t i = 0; i < n->n_outputs; i++) {
    if (n->outputs[i] < 0) continue;
    WF_TRY(hand_over(p, n->outputs[i], map[sub->outputs.at[i]]));
  }
  graph_kill(g, n);
  p->changed = true;
out:
  wf_free(ids);
  wf_free(map);
  return st;
}

/* Attributes may come in either order. */
static size_t branch_index(const wf_node *n, const char *name) {
  size_t at = 0;
  for (size_t i = 0; i < n->n_attrs; i++) {
    if (n->attrs[i].kind != WF_ATTR_GRAPH) continue;
    if (wf_str_is(n->attrs[i].name, name)) return at;
    at++;
  }
  return 0;
}

weft_status pass_branches(pass *p) {
  wf_graph *g = p->g;
  FOR_NODES(p, n) {
    int64_t condition;
    int32_t count;
    if (n->op != WF_OP_IF || n->n_subgraphs != 2 ||
        !graph_const_ints(g, n->inputs[0], &condition, 1, &count) || count != 1)
      continue;
    const wf_graph *sub = n->subgraphs[branch_index(n, condition ? "then_branch" : "else_branch")];
    bool has_nested = sub->outputs.n < (size_t)n->n_outputs;
    for (size_t i = 0; i < sub->order.n; i++)
      has_nested |= sub->nodes.at[sub->order.at[i]]->n_subgraphs > 0;
    if (!has_nested) WF_RETURN_IF_ERROR(splice(p, n, sub));
  }
  return WEFT_OK;
}

/* ---- common subexpressions --------------------------------------------------------------- */

/* The same bits: a NaN is itself, and 0 and -0 are two numbers. */
static bool same_floats(const float *a, const float *b, size_t n) {
  const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;
  return n == 0 || memcmp(x, y, n * sizeof *a) == 0;
}

static bool same_attr(const wf_attr *a, const wf_attr *b) {
  if (!wf_str_eq(a->name, b->name) || a->kind != b->kind || a->n != b->n) return false;
  switch (a->kind) {
    case WF_ATTR_INT:
      return a->i == b->i;
    case WF_ATTR_FLOAT:
      return same_floats(&a->f, &b->f, 1);
    case WF_ATTR_STRING:
      return wf_str_eq(a->s, b->s);
    case WF_ATTR_INTS:
      return a->n == 0 || memcmp(a->ints, b->ints, a->n * sizeof *a->ints) == 0;
    case WF_ATTR_FLOATS:
      return same_floats(a->floats, b->floats, a->n);
    case WF_ATTR_NONE:
    case WF_ATTR_TENSOR:
    case WF_ATTR_GRAPH:
    case WF_ATTR_STRINGS:
    case WF_ATTR_TENSORS:
    case WF_ATTR_GRAPHS:
    case WF_ATTR_OTHER:
      return a == b;
  }
  return false;
}

static bool same_node(const wf_node *a, const wf_node *b) {
  if (a->op != b->op || a->version != b->version || a->n_inputs != b->n_inputs ||
      a->n_outputs != b->n_outputs || a->n_attrs != b->n_attrs)
    return false;
  if (a->n_inputs && memcmp(a->inputs, b->inputs, (size_t)a->n_inputs * sizeof *a->inputs) != 0)
    return false;
  for (size_t i = 0; i < a->n_attrs; i++) {
    if (!same_attr(&a->attrs[i], &b->attrs[i])) return false;
  }
  return true;
}

static bool may_share(const wf_node *n) {
  return n->op != WF_OP_UNKNOWN && n->n_subgraphs == 0 && n->op < WF_OP_WEFT_NORM &&
         n->n_inputs > 0 && n->n_outputs == 1;
}

weft_status pass_share(pass *p) {
  wf_graph *g = p->g;
  weft_status st = WEFT_OK;
  size_t n_slots = 64;
  while (n_slots < 2 * g->order.n) n_slots *= 2;
  int32_t *slots = wf_alloc(n_slots * sizeof *slots);
  if (!slots) return graph_no_memory(p->err);
  for (size_t i = 0; i < n_slots; i++) slots[i] = -1;
  FOR_NODES(p, n) {
    if (!may_share(n)) continue;
    uint64_t h = wf_hash_mix((uint64_t)n->op);
    h = wf_hash_bytes(h, n->inputs, (size_t)n->n_inputs * sizeof *n->inputs);
    for (size_t i = 0; i < n->n_attrs; i++) h = wf_hash_mix(h ^ (uint64_t)n->attrs[i].i);
    size_t at = h & (n_slots - 1);
    for (int probes = 0; slots[at] >= 0 && probes < 64;
         probes++) { /* bounded: files choose the keys */
      if (same_node(g->nodes.at[slots[at]], n)) break;
      at = (at + 1) & (n_slots - 1);
    }
    if (slots[at] < 0) {
      slots[at] = n->id;
      continue;
    }
    const wf_node *first = g->nodes.at[slots[at]];
    if (!same_node(first, n) || g->values.at[n->outputs[0]]->is_output || first->outputs[0] < 0)
      continue;
    if (!graph_replace(g, n->outputs[0], first->outputs[0])) WF_TRY(graph_no_memory(p->err));
    graph_kill(g, n);
    p->changed = true;
  }
out:
  wf_free(slots);
  return st;
}
