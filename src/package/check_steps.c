/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over steps: what is visible where (SSA), what invokes bind (STEP, CMP-06, -07, -10,
 * CTR), and what serving names (SRV). Loops, branches and emits are in check_flow.c. */
#include "base/hash.h"
#include "package/scope.h"

/* ---- names ------------------------------------------------------------------------------------
 */

bool wf_walk_init(wf_walk *k, wf_rules *c) {
  *k = (wf_walk){.c = c, .n_buckets = 4096};
  k->buckets = wf_alloc(k->n_buckets * sizeof *k->buckets);
  k->emitted = wf_calloc(c->w->outputs.n + 1, sizeof *k->emitted);
  if (!k->buckets || !k->emitted) return false;
  memset(k->buckets, 0xff, k->n_buckets * sizeof *k->buckets);
  return true;
}

void wf_walk_deinit(wf_walk *k) {
  wf_vec_free(&k->names);
  wf_vec_free(&k->guards);
  wf_free(k->buckets);
  wf_free(k->emitted);
}

static uint64_t hash_of(const char *name) {
  return wf_hash_mix(wf_hash_bytes(WF_HASH_SEED, name, strlen(name)));
}

const wf_scope_name *wf_walk_find(const wf_walk *k, const char *name) {
  const uint64_t h = hash_of(name);
  for (uint32_t i = k->buckets[h % k->n_buckets]; i != UINT32_MAX; i = k->names.at[i].chain) {
    if (k->names.at[i].hash == h && strcmp(k->names.at[i].name, name) == 0) return &k->names.at[i];
  }
  return NULL;
}

/* Doubles the buckets when the chains get long; later definitions stay in front. */
static void grow(wf_walk *k) {
  const size_t n = k->n_buckets * 2;
  uint32_t *buckets = wf_alloc(n * sizeof *buckets);
  if (!buckets) {
    k->c->out_of_memory = true;
    return;
  }
  memset(buckets, 0xff, n * sizeof *buckets);
  for (size_t i = 0; i < k->names.n; i++) {
    uint32_t *b = &buckets[k->names.at[i].hash % n];
    k->names.at[i].chain = *b;
    *b = (uint32_t)i;
  }
  wf_free(k->buckets);
  k->buckets = buckets;
  k->n_buckets = n;
}

void wf_walk_define(wf_walk *k, wf_scope_name name, const wf_meta_at *at, const char *member) {
  if (wf_walk_find(k, name.name)) {
    wf_check_struct(k->c, "SSA-02", at, member, "choose another name",
                    "the name '%.100s' is already defined here", name.name);
    return;
  }
  if (k->names.n > 2 * k->n_buckets) grow(k);
  name.hash = hash_of(name.name);
  uint32_t *b = &k->buckets[name.hash % k->n_buckets];
  name.chain = *b;
  if (wf_vec_push(&k->names, name))
    *b = (uint32_t)(k->names.n - 1);
  else
    k->c->out_of_memory = true;
}

void wf_walk_leave(wf_walk *k, size_t n) {
  while (k->names.n > n) {
    const wf_scope_name *last = &k->names.at[--k->names.n];
    k->buckets[last->hash % k->n_buckets] = last->chain;
  }
}

const wf_scope_name *wf_walk_use(wf_walk *k, const char *name, const char *rule,
                                 const wf_meta_at *at, const char *member) {
  const wf_scope_name *found = wf_walk_find(k, name);
  if (!found) {
    wf_check_struct(k->c, rule, at, member, "define it before, or correct the name",
                    "the value '%.100s' is not defined here", name);
    return NULL;
  }
  if (found->guarded) {
    for (size_t i = 0; i < k->guards.n; i++) {
      if (strcmp(k->guards.at[i], found->guarded->present_as) == 0) return found;
    }
    wf_check_struct(k->c, "IN-08", at, member,
                    "read it inside the \"true\" case of a branch on its present_as",
                    "the optional input '%.80s' is read where it may be absent", name);
  }
  return found;
}

bool wf_walk_value(wf_walk *k, const char *name, const char *rule, const wf_meta_at *at,
                   const char *member, wf_scope_name *result) {
  const wf_scope_name *found = wf_walk_use(k, name, rule, at, member);
  *result = found ? *found : (wf_scope_name){.name = name};
  return found != NULL;
}

/* ---- invoke -----------------------------------------------------------------------------------
 */

static const wf_meta_contract *port_of(const wf_meta_component *m, const char *port,
                                       bool is_input) {
  if (wf_component_declares_ports(m) || m->implementation->kind != WF_META_ONNX) {
    if (!m->ports) return NULL;
    return is_input ? wf_meta_find(&m->ports->inputs, port)
                    : wf_meta_find(&m->ports->outputs, port);
  }
  if (!m->graph) return NULL;
  return is_input ? wf_meta_find(&m->graph->inputs, port) : wf_meta_find(&m->graph->outputs, port);
}

static bool has_port_maps(const wf_meta_component *m) {
  if (m->implementation->kind == WF_META_BINDING) return wf_component_declares_ports(m);
  return m->implementation->kind == WF_META_ADAPTER || wf_component_declares_ports(m);
}

static void check_covered(wf_rules *c, const wf_meta_component *m, const wf_meta_pair *b) {
  if (!m->is_overridable || !m->contract) return;
  for (size_t i = 0; i < m->contract->bindings.n; i++) {
    if (strcmp(m->contract->bindings.at[i].text, b->head.name) == 0) return;
  }
  wf_check_struct(c, "CMP-10", b->head.at, NULL, "bind a role of the contract to the port",
                  "the port '%.80s' of the overridable component '%.80s' is not covered by its "
                  "contract",
                  b->head.name, m->head.name);
}

static void check_bound(wf_rules *c, const wf_meta_step *s, const wf_meta_contracts *ports,
                        const wf_meta_pairs *bound, const char *member) {
  for (size_t i = 0; i < ports->n; i++) {
    const wf_meta_contract *p = &ports->at[i];
    if (p->is_optional || wf_meta_pair_get(bound, p->head.name)) continue;
    wf_check_struct(c, "CMP-07", s->head.at, member, "bind it, or declare it optional",
                    "the port '%.80s' of '%.80s' is not bound", p->head.name, s->component);
  }
}

static void check_invoke_inputs(wf_walk *k, const wf_meta_step *s, const wf_meta_component *m) {
  for (size_t i = 0; i < s->inputs.n; i++) {
    const wf_meta_pair *b = &s->inputs.at[i];
    wf_scope_name value;
    const wf_meta_contract *port = port_of(m, b->head.name, true);
    if (has_port_maps(m) && !port)
      wf_check_struct(k->c, "CMP-06", b->head.at, NULL, "declare the port, or correct its name",
                      "the component '%.80s' declares no input port '%.80s'", m->head.name,
                      b->head.name);
    check_covered(k->c, m, b);
    if (!wf_walk_value(k, b->text, "SSA-01", b->head.at, NULL, &value)) continue;
    const char *clash = port && value.contract ? wf_contract_clash(value.contract, port, -1) : NULL;
    if (clash)
      wf_check_struct(k->c, "CTR-01", b->head.at, NULL, "bind a value of the port's contract",
                      "the value '%.80s' does not fit the port '%.80s' of '%.80s': %s", b->text,
                      b->head.name, m->head.name, clash);
  }
}

static void check_invoke_outputs(wf_walk *k, const wf_meta_step *s, const wf_meta_component *m) {
  const bool is_binding = m->implementation->kind == WF_META_BINDING;
  for (size_t i = 0; i < s->outputs.n; i++) {
    const wf_meta_pair *b = &s->outputs.at[i];
    const wf_meta_contract *port = port_of(m, b->head.name, false);
    if (has_port_maps(m) && !port)
      wf_check_struct(k->c, "CMP-06", b->head.at, NULL, "declare the port, or correct its name",
                      "the component '%.80s' declares no output port '%.80s'", m->head.name,
                      b->head.name);
    check_covered(k->c, m, b);
    if (is_binding && !has_port_maps(m)) {
      const char *source = wf_meta_pair_get(&s->inputs, b->head.name);
      const wf_scope_name *value = source ? wf_walk_find(k, source) : NULL;
      if (!source)
        wf_check_struct(k->c, "CMP-06", b->head.at, NULL, "bind an input of that name",
                        "the output '%.80s' of the binding '%.80s' has no input of the same name",
                        b->head.name, m->head.name);
      port = value ? value->contract : NULL;
    }
    wf_walk_define(k, (wf_scope_name){.name = b->text, .contract = port}, b->head.at, NULL);
  }
}

static void walk_invoke(wf_walk *k, const wf_meta_step *s) {
  const wf_meta_component *m = wf_meta_find(&k->c->w->components, s->component);
  if (!m) {
    wf_check_struct(k->c, "STEP-01", s->head.at, "component", "name a declared component",
                    "there is no component '%.100s'", s->component);
    /* its outputs are defined all the same: one slip is told once */
    for (size_t i = 0; i < s->outputs.n; i++)
      wf_walk_define(k, (wf_scope_name){.name = s->outputs.at[i].text}, s->outputs.at[i].head.at,
                     NULL);
    return;
  }
  k->c->changes_effects_in_flow |= m->effects.n && k->c->flow_depth;
  check_invoke_inputs(k, s, m);
  if (has_port_maps(m) && m->ports) {
    check_bound(k->c, s, &m->ports->inputs, &s->inputs, "inputs");
    check_bound(k->c, s, &m->ports->outputs, &s->outputs, "outputs");
  }
  check_invoke_outputs(k, s, m);
}

/* ---- the tree ---------------------------------------------------------------------------------
 */

void wf_walk_steps(wf_walk *k, const wf_meta_steps *steps) {
  for (size_t i = 0; i < steps->n && !k->c->out_of_memory; i++) wf_walk_step(k, &steps->at[i]);
}

void wf_walk_step(wf_walk *k, const wf_meta_step *s) {
  switch (s->kind) {
    case WF_META_SEQUENCE:
      if (!s->steps.n)
        wf_check_struct(k->c, "STEP-01", s->head.at, "steps", "add a step",
                        "the sequence is empty");
      wf_walk_steps(k, &s->steps);
      break;
    case WF_META_INVOKE:
      walk_invoke(k, s);
      break;
    case WF_META_LOOP:
      k->c->flow_depth++;
      wf_walk_loop(k, s);
      k->c->flow_depth--;
      break;
    case WF_META_BRANCH:
      k->c->flow_depth++;
      wf_walk_branch(k, s);
      k->c->flow_depth--;
      break;
    case WF_META_EMIT:
      wf_walk_emit(k, s);
      break;
    default:
      break;
  }
}

static void define_inputs(wf_walk *k) {
  const wf_meta_workflow *w = k->c->w;
  static const wf_meta_contract presence = {
      .dtype_text = "bool", .dtype = WF_DTYPE_BOOL, .has_shape = true};
  for (size_t i = 0; i < w->inputs.n; i++) {
    const wf_meta_input *in = &w->inputs.at[i];
    wf_walk_define(k,
                   (wf_scope_name){.name = in->head.name,
                                   .contract = in->contract,
                                   .guarded = !in->is_required && in->present_as ? in : NULL},
                   in->head.at, NULL);
  }
  for (size_t i = 0; i < w->inputs.n; i++) {
    const wf_meta_input *in = &w->inputs.at[i];
    if (in->present_as && *in->present_as && !wf_walk_find(k, in->present_as))
      wf_walk_define(k, (wf_scope_name){.name = in->present_as, .contract = &presence}, in->head.at,
                     "present_as");
  }
}

static void check_control(wf_walk *k, const char *name, const char *member, bool is_integer) {
  wf_rules *c = k->c;
  const wf_meta_at *at = c->w->serving->head.at;
  if (!name) return;
  const wf_scope_name *v = wf_walk_find(k, name);
  const wf_meta_contract *t = v ? v->contract : NULL;
  if (!v) {
    wf_check_struct(c, "SRV-03", at, member, "name a value that is there when the steps have run",
                    "the value '%.80s' is not visible at the end of the root sequence", name);
    return;
  }
  if (!t) return;
  if (t->rank > 1 || (is_integer ? !wf_contract_is_integer(t) : t->dtype != WF_DTYPE_BOOL)) {
    wf_check_struct(
        c, "SRV-03", at, member,
        is_integer ? "name an integer value of rank 0 or 1" : "name a bool value of rank 0 or 1",
        "the value '%.80s' has dtype %s and rank %lld", name, t->dtype_text, (long long)t->rank);
  } else if (t->rank == 1 && wf_contract_has_layout(t) &&
             (wf_meta_layout_of(t) != WF_META_REQUEST_ALIGNED || t->batch_layout->axis != 0)) {
    wf_check_struct(c, "SRV-04", at, member, "declare it request_aligned on axis 0",
                    "the value '%.80s' has a rank, but not one entry a request on axis 0", name);
  }
}

void wf_check_steps(wf_rules *c) {
  wf_walk k;
  if (!wf_walk_init(&k, c)) {
    c->out_of_memory = true;
  } else {
    define_inputs(&k);
    if (!c->w->steps.n)
      wf_check_struct(c, "STEP-01", c->w->head.at, "steps", "add a step",
                      "the workflow has no steps");
    wf_walk_steps(&k, &c->w->steps);
    if (c->w->serving) {
      check_control(&k, c->w->serving->active, "active", false);
      check_control(&k, c->w->serving->done, "done", false);
      check_control(&k, c->w->serving->accepted_len, "accepted_len", true);
    }
  }
  wf_walk_deinit(&k);
}

void wf_steps_each(const wf_meta_steps *steps, void (*f)(const wf_meta_step *, void *),
                   void *user) {
  for (size_t i = 0; i < steps->n; i++) {
    const wf_meta_step *s = &steps->at[i];
    f(s, user);
    wf_steps_each(&s->setup, f, user);
    wf_steps_each(&s->steps, f, user);
    for (size_t k = 0; k < s->cases.n; k++) {
      const wf_meta_steps one = {1, &s->cases.at[k]};
      wf_steps_each(&one, f, user);
    }
    if (s->default_step) {
      const wf_meta_steps one = {1, s->default_step};
      wf_steps_each(&one, f, user);
    }
  }
}
