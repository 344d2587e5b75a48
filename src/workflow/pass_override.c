/* SPDX-License-Identifier: Apache-2.0 */
/* A request that puts another component in the place of an overridable one (format §5.3): both
 * mean the same by their contracts, and ports are mapped role by role. */
#include <string.h>

#include "workflow/pass_state.h"

static const wf_plan_role *role_named(const wf_plan_component *c, const char *name) {
  for (size_t i = 0; i < c->n_roles; i++) {
    if (strcmp(c->roles[i].name, name) == 0) return &c->roles[i];
  }
  return NULL;
}

/* Symbols are names of the component's own graph: equal where they are declared, not looked at
 * where ports are what the graphs say. */
static bool is_same_dim(const wf_plan_component *a, const wf_plan_dim *x,
                        const wf_plan_component *b, const wf_plan_dim *y, bool is_declared) {
  if (x->symbol < 0 && y->symbol < 0) return x->extent == y->extent;
  if (!is_declared) return true;
  return x->symbol >= 0 && y->symbol >= 0 &&
         strcmp(a->symbols[x->symbol], b->symbols[y->symbol]) == 0;
}

static bool is_same_port(const wf_plan_component *a, const wf_plan_port *p,
                         const wf_plan_component *b, const wf_plan_port *q) {
  const wf_plan_contract *x = &p->contract, *y = &q->contract;
  const bool is_declared = a->has_declared_ports && b->has_declared_ports;
  if (x->dtype != y->dtype || x->rank != y->rank) return false;
  if (is_declared && (x->has_shape != y->has_shape || x->is_optional != y->is_optional ||
                      x->layout != y->layout || x->axis != y->axis || x->factor != y->factor)) {
    return false;
  }
  for (int32_t d = 0; x->has_shape && y->has_shape && d < x->rank; d++) {
    if (!is_same_dim(a, &x->dims[d], b, &y->dims[d], is_declared)) return false;
  }
  return true;
}

static bool has_effect(const wf_plan_component *c, const char *name) {
  for (size_t i = 0; i < c->n_effects; i++) {
    if (strcmp(c->effects[i], name) == 0) return true;
  }
  return false;
}

static bool has_same_effects(const wf_plan_component *a, const wf_plan_component *b) {
  bool is_same = true;
  for (size_t i = 0; i < a->n_effects; i++) is_same &= has_effect(b, a->effects[i]);
  for (size_t i = 0; i < b->n_effects; i++) is_same &= has_effect(a, b->effects[i]);
  return is_same;
}

static weft_status refuse(const wf_plan_component *c, const wf_plan_component *other,
                          const char *why, const char *what, weft_error *err) {
  return wf_fail(err, WEFT_BIND, "name a component with an equal contract",
                 "component '%s' cannot stand for '%s': %s%s%s%s", other->name, c->name, why,
                 what ? " '" : "", what ? what : "", what ? "'" : "");
}

static weft_status map_roles(const wf_plan_component *c, const wf_plan_component *other,
                             wf_override *o, weft_error *err) {
  for (size_t i = 0; i < c->n_inputs; i++) o->inputs[i] = -1;
  for (size_t i = 0; i < c->n_outputs; i++) o->outputs[i] = -1;
  if (c->n_roles != other->n_roles)
    return refuse(c, other, "its contract has other roles", NULL, err);
  for (size_t i = 0; i < c->n_roles; i++) {
    const wf_plan_role *a = &c->roles[i], *b = role_named(other, a->name);
    if (!b || b->is_output != a->is_output) {
      return refuse(c, other, "its contract has no such role as", a->name, err);
    }
    const bool is_same =
        a->is_output ? is_same_port(c, &c->outputs[a->port], other, &other->outputs[b->port])
                     : is_same_port(c, &c->inputs[a->port], other, &other->inputs[b->port]);
    if (!is_same) return refuse(c, other, "its port is of another form in the role", a->name, err);
    (a->is_output ? o->outputs : o->inputs)[a->port] = b->port;
  }
  return WEFT_OK;
}

static weft_status take(wf_pass *p, const wf_named_override *given, wf_override *o,
                        weft_error *err) {
  const int32_t at = wf_plan_component_named(p->plan, given->component);
  const int32_t to = wf_plan_component_named(p->plan, given->other);
  if (at < 0 || to < 0) {
    return wf_fail(err, WEFT_BIND, "name components of the workflow",
                   "the workflow has no component '%s'", at < 0 ? given->component : given->other);
  }
  const wf_plan_component *c = &p->plan->components[at], *other = &p->plan->components[to];
  if (!c->is_overridable) {
    return wf_fail(err, WEFT_BIND, "let the package call it application_overridable",
                   "component '%s' cannot be replaced", c->name);
  }
  if (other->kind != WF_COMPONENT_ONNX) return refuse(c, other, "it is no ONNX graph", NULL, err);
  if (!other->contract_id || strcmp(c->contract_id, other->contract_id) != 0 ||
      strcmp(c->contract_version, other->contract_version) != 0) {
    return refuse(c, other, "its contract is another than", c->contract_id, err);
  }
  if (!has_same_effects(c, other)) return refuse(c, other, "it has other effects", NULL, err);
  o->component = at;
  o->other = to;
  o->inputs = wf_calloc(c->n_inputs + c->n_outputs + 1, sizeof *o->inputs);
  if (!o->inputs) return wf_fail_memory(err, c->n_inputs * sizeof *o->inputs, "an override");
  o->outputs = o->inputs + c->n_inputs;
  return map_roles(c, other, o, err);
}

weft_status wf_pass_take_overrides(wf_pass *p, weft_error *err) {
  const wf_request *r = p->request;
  if (r->n_overrides == 0) return WEFT_OK;
  p->overrides = wf_calloc(r->n_overrides, sizeof *p->overrides);
  if (!p->overrides) {
    return wf_fail_memory(err, r->n_overrides * sizeof *p->overrides, "overrides");
  }
  for (size_t i = 0; i < r->n_overrides; i++) {
    for (size_t k = 0; k < i; k++) {
      if (strcmp(r->overrides[i].component, r->overrides[k].component) == 0) {
        return wf_fail(err, WEFT_BIND, "replace it once", "component '%s' is replaced twice",
                       r->overrides[i].component);
      }
    }
    p->n_overrides++; /* what is there of it is freed with the pass */
    WF_RETURN_IF_ERROR(take(p, &r->overrides[i], &p->overrides[i], err));
  }
  return WEFT_OK;
}

const wf_override *wf_pass_override(const wf_pass *p, int32_t component) {
  for (size_t i = 0; i < p->n_overrides; i++) {
    if (p->overrides[i].component == component) return &p->overrides[i];
  }
  return NULL;
}

void wf_pass_free_overrides(wf_pass *p) {
  for (size_t i = 0; i < p->n_overrides; i++) wf_free(p->overrides[i].inputs);
  wf_free(p->overrides);
}
