/* SPDX-License-Identifier: Apache-2.0 */
/* Components: their names, artifacts, ABIs and semantic contracts (CMP, CON, ROW). */
#include <stdio.h>

#include "package/check.h"

bool wf_component_declares_ports(const wf_meta_component *c) {
  return c->ports && (c->ports->inputs.n || c->ports->outputs.n);
}

static const wf_meta_contract *find_port(const wf_meta_component *c, const char *name,
                                         bool is_input) {
  if (!c->ports) return NULL;
  return is_input ? wf_meta_find(&c->ports->inputs, name) : wf_meta_find(&c->ports->outputs, name);
}

/* ---- semantic contracts -----------------------------------------------------------------------
 */

typedef struct action {
  const char *abi, *action;
  const char *inputs, *outputs; /* roles that must be bound, parted by '|' */
} action;

static const action actions[] = {
    {"onnx-genai.grammar-guidance", "clone", "state", "next_state"},
    {"onnx-genai.grammar-guidance", "lookahead", "state|tokens|valid_length|transition_table",
     "next_state|consumed_length|logits_mask|forced_tokens|forced_length"},
    {"onnx-genai.grammar-guidance", "commit", "state|tokens|valid_length|transition_table",
     "next_state|consumed_length"},
    {"onnx-genai.telemetry", "start", "", "timestamp"},
    {"onnx-genai.telemetry", "elapsed", "timestamp", "duration_ms"},
    {"onnx-genai.parameter-overlay", "apply", "input", "output"},
};

static const char *text_parameter(const wf_meta_semantic_contract *k, const char *name) {
  const wf_meta_parameter *p = wf_meta_find(&k->parameters, name);
  return p && p->value.n == 1 ? p->value.items[0].text : NULL;
}

static void check_roles(wf_rules *c, const wf_meta_component *component, const char *roles,
                        bool is_input) {
  const wf_meta_semantic_contract *k = component->contract;
  for (const char *r = roles; *r;) {
    const size_t n = strcspn(r, "|");
    char role[40];
    (void)snprintf(role, sizeof role, "%.*s", (int)n, r);
    r += n + (r[n] == '|');
    const char *port = wf_meta_pair_get(&k->bindings, role);
    if (!port) {
      wf_check_struct(c, "CON-02", k->head.at, "bindings", "bind the role to a port",
                      "the contract does not bind the role '%s'", role);
    } else if (!find_port(component, port, is_input) && find_port(component, port, !is_input)) {
      wf_check_struct(c, "CON-03", k->head.at, "bindings", "bind a port of the other direction",
                      "the role '%s' is an %s, the port '%.100s' is not", role,
                      is_input ? "input" : "output", port);
    }
  }
}

static void check_overlay_target(wf_rules *c, const wf_meta_semantic_contract *k) {
  const char *component = text_parameter(k, "component");
  const char *parameter = text_parameter(k, "parameter");
  const wf_meta_adapters *a = c->m->adapters;
  if (!component || !parameter) {
    wf_check_struct(c, "CON-01", k->head.at, "parameters", "name both as texts",
                    "an overlay lacks the parameters 'component' and 'parameter'");
    return;
  }
  for (size_t i = 0; a && i < a->target_manifest->targets.n; i++) {
    const wf_meta_target *t = &a->target_manifest->targets.at[i];
    if (strcmp(t->component, component) == 0 && strcmp(t->initializer, parameter) == 0) return;
  }
  wf_check_struct(c, "CON-04", k->head.at, "parameters",
                  "declare the target in adapters.target_manifest",
                  "no adapter target has the component '%.80s' and the initializer '%.80s'",
                  component, parameter);
}

static void check_obligations(wf_rules *c, const wf_meta_component *component) {
  const wf_meta_semantic_contract *k = component->contract;
  bool is_known = false;
  if (strcmp(k->version, "1") != 0) return;
  const char *given = text_parameter(k, "action");
  for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
    if (strcmp(k->id, actions[i].abi) != 0) continue;
    is_known = true;
    if (!given || strcmp(given, actions[i].action) != 0) continue;
    check_roles(c, component, actions[i].inputs, true);
    check_roles(c, component, actions[i].outputs, false);
    if (strcmp(actions[i].abi, "onnx-genai.parameter-overlay") == 0) check_overlay_target(c, k);
    return;
  }
  if (is_known) {
    wf_check_struct(c, "CON-01", k->head.at, "parameters", "name an action that the ABI has",
                    given ? "'%.80s' is no action of this contract"
                          : "the contract lacks the parameter 'action'%.0s",
                    given ? given : "");
  }
}

static void check_contract(wf_rules *c, const wf_meta_component *component) {
  const wf_meta_semantic_contract *k = component->contract;
  if (!*k->id || !*k->version)
    wf_check_struct(c, "CMP-05", k->head.at, *k->id ? "version" : "id", "write a text there",
                    "the contract's id or version is empty");
  if (wf_component_declares_ports(component)) {
    for (size_t i = 0; i < k->bindings.n; i++) {
      const wf_meta_pair *b = &k->bindings.at[i];
      if (!find_port(component, b->text, true) && !find_port(component, b->text, false))
        wf_check_struct(c, "CMP-05", b->head.at, NULL, "name a declared port",
                        "the role '%.80s' is bound to the unknown port '%.80s'", b->head.name,
                        b->text);
    }
  }
  if (component->implementation->kind == WF_META_ADAPTER) {
    const wf_meta_implementation *i = component->implementation;
    if (strcmp(k->id, i->abi) != 0 || strcmp(k->version, i->version) != 0)
      wf_check_struct(c, "CMP-04", k->head.at, "id", "write the ABI's id and version",
                      "the contract %.60s@%.20s differs from the ABI %.60s@%.20s", k->id,
                      k->version, i->abi, i->version);
    check_obligations(c, component);
  }
}

/* ---- rows -------------------------------------------------------------------------------------
 */

static void check_row_ports(wf_rules *c, const wf_meta_component *component,
                            const wf_meta_contracts *ports, bool *has_rows) {
  for (size_t i = 0; i < ports->n; i++) {
    const wf_meta_contract *p = &ports->at[i];
    const wf_meta_row_scope *scope = component->row_scope;
    const int64_t axis = wf_meta_request_axis(p);
    if (wf_meta_layout_of(p) == WF_META_SHARED) continue;
    *has_rows |= axis >= 0;
    if (!scope) continue;
    if (scope->axis >= p->rank)
      wf_check_struct(c, "ROW-02", scope->head.at, "axis", "name an axis that all such ports have",
                      "the row axis %lld is not below the rank %lld of port '%.80s'",
                      (long long)scope->axis, (long long)p->rank, p->head.name);
    else if (axis >= 0 && axis != scope->axis)
      wf_check_struct(c, "ROW-03", scope->head.at, "axis", "name the ports' request axis",
                      "the row axis %lld is not the request axis %lld of port '%.80s'",
                      (long long)scope->axis, (long long)axis, p->head.name);
  }
}

static void check_rows(wf_rules *c, const wf_meta_component *component) {
  bool has_rows = false;
  if (component->ports) {
    check_row_ports(c, component, &component->ports->inputs, &has_rows);
    check_row_ports(c, component, &component->ports->outputs, &has_rows);
  }
  if (has_rows && !component->row_scope &&
      (component->effects.n || component->cache_affects_state.n))
    wf_check_struct(c, "ROW-01", component->head.at, NULL, "add 'row_scope' with the request axis",
                    "the component has state of its own and ports with rows, but no row_scope");
}

static void check_component(wf_rules *c, const wf_meta_component *component) {
  const wf_meta_implementation *impl = component->implementation;
  const wf_meta_at *at = component->head.at;
  const char *name = component->head.name;
  if (!*name || strchr(name, '.'))
    wf_check_struct(c, "CMP-01", at, NULL, "choose a name without '.'",
                    "'%.100s' is no name of a component", name);
  if (impl->kind == WF_META_ONNX && !*impl->artifact)
    wf_check_struct(c, "CMP-02", impl->head.at, "artifact", "name the ONNX file",
                    "the artifact is empty");
  if (impl->kind == WF_META_ADAPTER) {
    const char *pin = wf_meta_pair_get(&c->w->manifest->adapter_abis, impl->abi);
    if (!pin || strcmp(pin, impl->version) != 0)
      wf_check_struct(c, "CMP-03", impl->head.at, "version",
                      "write the ABI and this version into manifest.adapter_abis",
                      "the manifest pins the ABI '%.80s' at %s%.40s%s, the component wants "
                      "'%.40s'",
                      impl->abi, pin ? "'" : "nothing", pin ? pin : "", pin ? "'" : "",
                      impl->version);
  }
  if (component->contract) check_contract(c, component);
  if (component->is_overridable && !component->contract)
    wf_check_struct(c, "CMP-08", at, "application_overridable", "add a contract",
                    "an overridable component needs a contract");
  if (component->is_overridable && impl->kind != WF_META_ONNX)
    wf_check_struct(c, "CMP-09", at, "application_overridable", "remove it",
                    "only an ONNX component can be overridden");
  if (impl->kind == WF_META_BINDING && component->ports) {
    for (size_t i = 0; i < component->ports->outputs.n; i++) {
      const wf_meta_contract *port = &component->ports->outputs.at[i];
      if (!find_port(component, port->head.name, true))
        wf_check_struct(c, "CMP-06", port->head.at, NULL, "declare an input of that name",
                        "the output '%.80s' of a binding has no input of the same name to copy",
                        port->head.name);
    }
  }
  check_rows(c, component);
}

void wf_check_components(wf_rules *c) {
  for (size_t i = 0; i < c->w->components.n; i++) check_component(c, &c->w->components.at[i]);
}
