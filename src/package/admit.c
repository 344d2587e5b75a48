/* SPDX-License-Identifier: Apache-2.0 */
/* Artifacts and graphs: files are where the document says (ART), and the ONNX files have the ports
 * that it declares and binds (ADM). */
#include <stdlib.h>

#include "base/file.h"
#include "package/check.h"

typedef struct admission {
  wf_rules *c;
  bool trust_links;
} admission;

/* ---- files ------------------------------------------------------------------------------------
 */

/* The canonical path in the arena, NULL after the fault was told. */
static const char *resolve(const admission *a, const char *relative, const wf_meta_at *at,
                           const char *member) {
  wf_rules *c = a->c;
  char *path = NULL;
  weft_error err = {.struct_size = sizeof err};
  const char *copy = NULL;
  const weft_status st = wf_path_confine(c->m->root, relative, a->trust_links, &path, &err);
  if (st == WEFT_OK) {
    copy = wf_arena_strdup(c->arena, path);
    c->out_of_memory |= !copy;
  } else if (st == WEFT_OUT_OF_MEMORY) {
    c->out_of_memory = true;
  } else {
    wf_check_fail(c, WF_PROBLEM_ARTIFACT, "ART-01", at, member,
                  "put a regular file there, inside the package", "%.300s", err.what);
  }
  free(path);
  return copy;
}

static void check_files(const admission *a) {
  const wf_metadata *m = a->c->m;
  const wf_meta_workflow *w = a->c->w;
  for (size_t i = 0; i < w->inputs.n; i++) {
    const wf_meta_source *s = w->inputs.at[i].source;
    if (s->kind == WF_META_ARTIFACT) (void)resolve(a, s->path, s->head.at, "path");
  }
  for (size_t i = 0; i < w->components.n; i++) {
    const wf_meta_implementation *impl = w->components.at[i].implementation;
    if (impl->kind == WF_META_ADAPTER && impl->artifact)
      (void)resolve(a, impl->artifact, impl->head.at, "artifact");
  }
  for (size_t i = 0; m->adapters && i < m->adapters->artifacts.n; i++) {
    const wf_meta_lora_artifact *x = &m->adapters->artifacts.at[i];
    for (size_t k = 0; k < x->weights.n; k++) {
      const wf_meta_weights *f = &x->weights.at[k];
      (void)resolve(a, f->location, f->head.at, "location");
      if (f->config_location) (void)resolve(a, f->config_location, f->head.at, "config_location");
    }
  }
  const wf_meta_tokenizer *t = m->package ? m->package->tokenizer : NULL;
  for (size_t i = 0; t && i < t->artifacts.n; i++)
    (void)resolve(a, t->artifacts.at[i].location, t->artifacts.at[i].head.at, "location");
  const wf_meta_speculative_vocabulary *v = m->speculative ? m->speculative->vocabulary : NULL;
  if (v && v->artifact) (void)resolve(a, v->artifact, v->head.at, "artifact");
}

/* ---- graphs -----------------------------------------------------------------------------------
 */

static int compare_ports(const void *a, const void *b) {
  return strcmp(((const wf_meta_contract *)a)->head.name, ((const wf_meta_contract *)b)->head.name);
}
static int compare_texts(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A graph's port as a contract: no place in the document, no layout. */
static bool read_port(wf_arena *arena, const wf_onnx_value_info *v, wf_meta_contract *out) {
  const size_t n = v->rank > 0 ? (size_t)v->rank : 0;
  wf_meta_dim *dims = wf_arena_calloc(arena, n + 1, sizeof *dims);
  out->head.name = wf_arena_strndup(arena, v->name.at, v->name.n);
  out->dtype = v->is_tensor ? v->dtype : WF_DTYPE_UNDEFINED;
  out->dtype_text = wf_dtype_name(v->dtype);
  out->rank = v->rank;
  out->has_shape = v->rank >= 0;
  if (!dims || !out->head.name) return false;
  for (size_t i = 0; i < n; i++) {
    if (v->dims[i].is_known) {
      dims[i].extent = v->dims[i].value;
      continue;
    }
    dims[i].symbol = v->dims[i].symbol.n
                         ? wf_arena_strndup(arena, v->dims[i].symbol.at, v->dims[i].symbol.n)
                         : "?";
    if (!dims[i].symbol) return false;
  }
  out->shape.n = n;
  out->shape.at = dims;
  return true;
}

static bool read_ports(wf_arena *arena, const wf_onnx_value_info *list, size_t n,
                       wf_meta_contracts *out) {
  wf_meta_contract *ports = wf_arena_calloc(arena, n + 1, sizeof *ports);
  if (!ports) return false;
  for (size_t i = 0; i < n; i++) {
    if (!read_port(arena, &list[i], &ports[i])) return false;
  }
  if (n > 1) qsort(ports, n, sizeof *ports, compare_ports);
  out->n = n;
  out->at = ports;
  return true;
}

static bool read_graph(wf_arena *arena, const wf_onnx_model *onnx, wf_meta_graph *out) {
  const wf_onnx_graph *g = &onnx->graph;
  const char **names = wf_arena_calloc(arena, g->n_initializers + 1, sizeof *names);
  const char **defaulted = wf_arena_calloc(arena, g->n_inputs + 1, sizeof *defaulted);
  size_t n = 0;
  if (!names || !defaulted) return false;
  for (size_t i = 0; i < g->n_initializers; i++) {
    names[i] = wf_arena_strndup(arena, g->initializers[i].name.at, g->initializers[i].name.n);
    if (!names[i]) return false;
  }
  if (g->n_initializers > 1) qsort(names, g->n_initializers, sizeof *names, compare_texts);
  out->initializers.n = g->n_initializers;
  out->initializers.at = names;
  if (!read_ports(arena, g->inputs, g->n_inputs, &out->inputs) ||
      !read_ports(arena, g->outputs, g->n_outputs, &out->outputs))
    return false;
  for (size_t i = 0; i < out->inputs.n; i++) {
    if (wf_meta_texts_has(&out->initializers, out->inputs.at[i].head.name))
      defaulted[n++] = out->inputs.at[i].head.name;
  }
  out->defaulted.n = n;
  out->defaulted.at = defaulted;
  return true;
}

/* The component's graph; the model is told about faults and left without one. */
static void admit_component(const admission *a, wf_meta_component *k) {
  wf_rules *c = a->c;
  const wf_meta_implementation *impl = k->implementation;
  wf_onnx_model *onnx = NULL;
  weft_error err = {.struct_size = sizeof err};
  const wf_onnx_options options = {.trust_links = a->trust_links, .without_external = true};
  const char *path = resolve(a, impl->artifact, impl->head.at, "artifact");
  if (!path) return;
  const weft_status st = wf_onnx_open(&onnx, path, &options, &err);
  if (st == WEFT_OUT_OF_MEMORY) {
    c->out_of_memory = true;
  } else if (st) {
    wf_check_fail(c, WF_PROBLEM_ARTIFACT, "ART-01", impl->head.at, "artifact",
                  "export the graph again", "'%.100s' cannot be read: %.300s", impl->artifact,
                  err.what);
  } else {
    wf_meta_graph *g = wf_arena_calloc(c->arena, 1, sizeof *g);
    if (g && read_graph(c->arena, onnx, g)) {
      g->path = path;
      k->graph = g;
    } else {
      c->out_of_memory = true;
    }
  }
  wf_onnx_close(onnx);
}

/* Components of one file read it once. */
static const wf_meta_component *same_file(const wf_meta_component *list, size_t n,
                                          const char *artifact) {
  for (size_t i = 0; i < n; i++) {
    if (list[i].graph && strcmp(list[i].implementation->artifact, artifact) == 0) return &list[i];
  }
  return NULL;
}

/* ---- rules ------------------------------------------------------------------------------------
 */

static void check_declared(wf_rules *c, const wf_meta_contracts *declared,
                           const wf_meta_contracts *graph, const char *direction) {
  for (size_t i = 0; i < declared->n; i++) {
    const wf_meta_contract *d = &declared->at[i];
    const wf_meta_contract *g = wf_meta_find(graph, d->head.name);
    const char *clash = g ? wf_contract_clash(d, g, -1) : NULL;
    if (!g)
      wf_check_fail(c, WF_PROBLEM_ADMISSION, "ADM-01", d->head.at, NULL,
                    "declare the ports that the graph has", "the graph has no %s '%.80s'",
                    direction, d->head.name);
    else if (clash)
      wf_check_fail(c, WF_PROBLEM_ADMISSION, "ADM-01", d->head.at, NULL,
                    "declare what the graph has",
                    "the %s '%.80s' is declared unlike the graph's (%s of rank %lld): %s",
                    direction, d->head.name, g->dtype_text, (long long)g->rank, clash);
  }
}

static void check_invoke(const wf_meta_step *s, void *user) {
  wf_rules *c = user;
  if (s->kind != WF_META_INVOKE) return;
  const wf_meta_component *k = wf_meta_find(&c->w->components, s->component);
  if (!k || !k->graph) return;
  for (size_t i = 0; i < s->inputs.n; i++) {
    if (!wf_meta_find(&k->graph->inputs, s->inputs.at[i].head.name))
      wf_check_fail(c, WF_PROBLEM_ADMISSION, "ADM-02", s->inputs.at[i].head.at, NULL,
                    "bind an input that the graph has", "the graph of '%.80s' has no input '%.80s'",
                    s->component, s->inputs.at[i].head.name);
  }
  for (size_t i = 0; i < s->outputs.n; i++) {
    if (!wf_meta_find(&k->graph->outputs, s->outputs.at[i].head.name))
      wf_check_fail(c, WF_PROBLEM_ADMISSION, "ADM-02", s->outputs.at[i].head.at, NULL,
                    "bind an output that the graph has",
                    "the graph of '%.80s' has no output '%.80s'", s->component,
                    s->outputs.at[i].head.name);
  }
  for (size_t i = 0; i < k->graph->inputs.n; i++) {
    const char *name = k->graph->inputs.at[i].head.name;
    if (!wf_meta_pair_get(&s->inputs, name) && !wf_meta_texts_has(&k->graph->defaulted, name))
      wf_check_fail(c, WF_PROBLEM_ADMISSION, "ADM-02", s->head.at, "inputs", "bind it",
                    "the graph's input '%.80s' of '%.80s' is not bound and has no initializer",
                    name, s->component);
  }
}

/* ADM-03: a replacement with the same contract must take the place of the component. */
static void check_replacement(wf_rules *c, const wf_meta_component *k, const wf_meta_component *r) {
  const wf_meta_semantic_contract *a = k->contract, *b = r->contract;
  if (k == r || !b || !r->graph || strcmp(a->id, b->id) != 0 || strcmp(a->version, b->version) != 0)
    return;
  for (size_t i = 0; i < a->bindings.n; i++) {
    const char *role = a->bindings.at[i].head.name, *mine = a->bindings.at[i].text;
    const char *theirs = wf_meta_pair_get(&b->bindings, role);
    if (!theirs) continue; /* another set of roles: refused when it is asked for */
    const wf_meta_contract *x = wf_meta_find(&k->graph->inputs, mine);
    const wf_meta_contract *y =
        x ? wf_meta_find(&r->graph->inputs, theirs) : wf_meta_find(&r->graph->outputs, theirs);
    if (!x) x = wf_meta_find(&k->graph->outputs, mine);
    const char *clash = x && y ? wf_contract_clash(x, y, -1) : "their directions differ";
    if (clash)
      wf_check_fail(c, WF_PROBLEM_ADMISSION, "ADM-03", r->head.at, "contract",
                    "give it another contract version, or the same signature",
                    "'%.60s' cannot replace '%.60s', though both are %.60s@%.20s: role '%.40s', %s",
                    r->head.name, k->head.name, a->id, a->version, role, clash);
  }
}

static void check_embedding(wf_rules *c) {
  const wf_meta_speculative *s = c->m->speculative;
  const wf_meta_embedding *e =
      s && s->proposal_execution ? s->proposal_execution->token_embedding : NULL;
  const wf_meta_component *k = e ? wf_meta_find(&c->w->components, e->component) : NULL;
  if (k && k->graph && !wf_meta_texts_has(&k->graph->initializers, e->table))
    wf_check_fail(c, WF_PROBLEM_ADMISSION, "ADM-04", e->head.at, "table",
                  "name an initializer of the target's graph",
                  "the graph of '%.80s' has no initializer '%.80s'", e->component, e->table);
}

static void check_abi(wf_rules *c, const wf_meta_component *k) {
  static const char *const known[] = {"onnx-genai.image-preprocess",
                                      "onnx-genai.audio-preprocess",
                                      "onnx-genai.grammar-guidance",
                                      "onnx-genai.telemetry",
                                      "onnx-genai.parameter-overlay",
                                      "onnx-genai.text-assembly",
                                      "weft.decode"};
  const wf_meta_implementation *impl = k->implementation;
  if (strcmp(impl->version, "1") == 0) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
      if (strcmp(impl->abi, known[i]) == 0) return;
    }
  }
  wf_check_fail(c, WF_PROBLEM_CAPABILITY, "ADM-05", impl->head.at, "abi",
                "use an ABI that this weft has",
                "this weft has no adapter '%.80s' of version "
                "'%.40s'",
                impl->abi, impl->version);
}

void wf_check_artifacts(wf_rules *c, bool trust_links) {
  const admission a = {c, trust_links};
  /* the model is ours until it is sealed */
  wf_meta_component *list = wf_unconst(c->w->components.at);
  const size_t n = c->w->components.n;
  check_files(&a);
  for (size_t i = 0; i < n; i++) {
    if (list[i].implementation->kind == WF_META_ADAPTER) check_abi(c, &list[i]);
    if (list[i].implementation->kind != WF_META_ONNX) continue;
    const wf_meta_component *other = same_file(list, i, list[i].implementation->artifact);
    if (other)
      list[i].graph = other->graph;
    else
      admit_component(&a, &list[i]);
  }
  if (wf_problems_block(c->problems)) return; /* graphs only count when all files are there */
  for (size_t i = 0; i < n; i++) {
    const wf_meta_component *k = &list[i];
    if (!k->graph) continue;
    if (k->ports && wf_component_declares_ports(k)) {
      check_declared(c, &k->ports->inputs, &k->graph->inputs, "input");
      check_declared(c, &k->ports->outputs, &k->graph->outputs, "output");
    }
    for (size_t r = 0; k->is_overridable && k->contract && r < n; r++)
      check_replacement(c, k, &list[r]);
  }
  wf_steps_each(&c->w->steps, check_invoke, c);
  check_embedding(c);
}
