/* SPDX-License-Identifier: Apache-2.0 */
/* The LoRA section (LORA-01 to -12, in the order of docs/format.md §13). */
#include <math.h>

#include "package/check.h"

static const wf_meta_target *find_target(const wf_meta_adapters *a, const char *id) {
  for (size_t i = 0; i < a->target_manifest->targets.n; i++) {
    if (strcmp(a->target_manifest->targets.at[i].id, id) == 0)
      return &a->target_manifest->targets.at[i];
  }
  return NULL;
}

static bool is_weight_dtype(const char *text) {
  const wf_dtype t = wf_meta_dtype(text);
  return t == WF_DTYPE_F32 || t == WF_DTYPE_F16 || t == WF_DTYPE_BF16;
}

static bool same_slice(const wf_meta_output_slice *a, const wf_meta_output_slice *b) {
  if (!a || !b) return a == b;
  return a->offset == b->offset && a->width == b->width && strcmp(a->role, b->role) == 0;
}

static void check_target(wf_rules *c, const wf_meta_target *t) {
  const wf_meta_at *at = t->head.at;
  const wf_meta_output_slice *s = t->output_slice;
  const char *fix = "correct the target";
  if (!*t->id || !*t->initializer || !*t->node_name || !*t->output_name)
    wf_check_struct(c, "LORA-04", at, NULL, fix,
                    "a target needs an id, an initializer, a node and an output");
  if (!wf_meta_find(&c->w->components, t->component))
    wf_check_struct(c, "LORA-04", at, "component", "name a component",
                    "there is no component '%.80s'", t->component);
  if (!is_weight_dtype(t->activation_dtype))
    wf_check_struct(c, "LORA-04", at, "activation_dtype", "write float32, float16 or bfloat16",
                    "'%.40s' is no dtype of activations", t->activation_dtype);
  if (!t->input_features || !t->output_features)
    wf_check_struct(c, "LORA-04", at, t->input_features ? "output_features" : "input_features",
                    "write 1 or more", "there are 0 features");
  if (s &&
      (!s->width || s->offset > t->output_features || s->width > t->output_features - s->offset))
    wf_check_struct(c, "LORA-04", s->head.at, NULL, fix,
                    "the slice [%lld, +%lld) does not lie within %lld output features",
                    (long long)s->offset, (long long)s->width, (long long)t->output_features);
  const wf_meta_graph_inputs *g = t->graph_inputs;
  if (g && (strcmp(g->a, g->b) == 0 ||
            (g->scale && (strcmp(g->a, g->scale) == 0 || strcmp(g->b, g->scale) == 0))))
    wf_check_struct(c, "LORA-04", g->head.at, NULL, "name distinct inputs",
                    "two graph_inputs are the same");
}

static void check_targets(wf_rules *c, const wf_meta_adapters *a) {
  const wf_meta_target *t = a->target_manifest->targets.at;
  const size_t n = a->target_manifest->targets.n;
  enum { MAX_TARGETS = 20000 }; /* compared pair by pair */
  for (size_t i = 0; i < n; i++) {
    check_target(c, &t[i]);
    if (i >= MAX_TARGETS) continue;
    for (size_t k = 0; k < i; k++) {
      if (strcmp(t[i].id, t[k].id) == 0) {
        wf_check_struct(c, "LORA-05", t[i].head.at, "id", "choose another id",
                        "two targets have the id '%.80s'", t[i].id);
        break;
      }
      if (strcmp(t[i].component, t[k].component) == 0 &&
          strcmp(t[i].initializer, t[k].initializer) == 0 &&
          same_slice(t[i].output_slice, t[k].output_slice)) {
        wf_check_struct(c, "LORA-05", t[i].head.at, "initializer", "remove one of the two",
                        "the targets '%.60s' and '%.60s' are the same", t[k].id, t[i].id);
        break;
      }
    }
  }
}

/* ---- artifacts --------------------------------------------------------------------------------
 */

static void check_policy(wf_rules *c, const wf_meta_lora_artifact *a, const wf_meta_lora_binding *b,
                         const wf_meta_target *t) {
  const int64_t rank = b->rank != WF_META_ABSENT ? b->rank : a->rank;
  const double alpha = isnan(b->alpha) ? a->alpha : b->alpha;
  const int64_t ranks[] = {t->rank, t->output_slice ? t->output_slice->rank : WF_META_ABSENT};
  const double alphas[] = {t->alpha, t->output_slice ? t->output_slice->alpha : (double)NAN};
  for (size_t i = 0; i < 2; i++) {
    if (ranks[i] != WF_META_ABSENT && ranks[i] != rank)
      wf_check_struct(c, "LORA-09", b->head.at, NULL, "write the target's rank",
                      "the rank %lld is not the target's %lld", (long long)rank,
                      (long long)ranks[i]);
    if (!isnan(alphas[i]) && (alphas[i] < alpha || alphas[i] > alpha))
      wf_check_struct(c, "LORA-09", b->head.at, NULL, "write the target's alpha",
                      "the alpha is not the target's");
  }
}

static void check_bindings(wf_rules *c, const wf_meta_adapters *all,
                           const wf_meta_lora_artifact *a) {
  enum { MAX_BINDINGS = 20000 };
  if (!a->bindings.n)
    wf_check_struct(c, "LORA-08", a->head.at, "bindings", "bind a target",
                    "the artifact binds no target");
  for (size_t i = 0; i < a->bindings.n; i++) {
    const wf_meta_lora_binding *b = &a->bindings.at[i];
    const wf_meta_target *t = find_target(all, b->target);
    if (!t)
      wf_check_struct(c, "LORA-08", b->head.at, "target", "name a target",
                      "there is no target '%.80s'", b->target);
    else
      check_policy(c, a, b, t);
    for (size_t k = 0; k < i && i < MAX_BINDINGS; k++) {
      const wf_meta_lora_binding *other = &a->bindings.at[k];
      const bool same_target = strcmp(other->target, b->target) == 0;
      if (!same_target && strcmp(other->weight_key, b->weight_key) != 0) continue;
      wf_check_struct(c, "LORA-08", b->head.at, same_target ? "target" : "weight_key",
                      "bind each target and each key once", "'%.80s' is bound twice",
                      same_target ? b->target : b->weight_key);
      break;
    }
  }
}

static bool lies_under_alias(const char *location, const char *alias) {
  const size_t n = strlen(alias);
  if (strncmp(location, "adapters/", 9) != 0 || strncmp(location + 9, alias, n) != 0 ||
      location[9 + n] != '/')
    return false;
  for (const char *p = location; *p; p += strcspn(p, "/"), p += *p == '/') {
    if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || !p[2])) return false;
  }
  return location[10 + n] != '\0';
}

static void check_weight(wf_rules *c, const wf_meta_adapters *all, const wf_meta_lora_artifact *a,
                         const wf_meta_weights *w) {
  static const char *const loaders[] = {"onnx-genai.adapters.json@1", "onnxruntime.lora-adapter@1",
                                        "onnx-genai.adapters.hf-peft@1",
                                        "onnx-genai.adapters.safetensors@1"};
  const wf_meta_at *at = w->head.at;
  if (strcmp(w->loader_capability, loaders[w->format]) != 0)
    wf_check_struct(c, "LORA-10", at, "loader_capability", "write the format's own",
                    "'%.60s' does not load this format; %s does", w->loader_capability,
                    loaders[w->format]);
  if ((w->format == WF_META_LORA_ORT_GENAI && w->scale_encoding != WF_META_BAKED) ||
      (w->format == WF_META_LORA_HF_PEFT && w->scale_encoding != WF_META_ALPHA_OVER_RANK))
    wf_check_struct(
        c, "LORA-10", at, "scale_encoding",
        w->format == WF_META_LORA_ORT_GENAI ? "write 'baked'" : "write 'alpha_over_rank'",
        "the format does not have this scale_encoding");
  for (size_t i = 0; w->format == WF_META_LORA_ORT_GENAI && i < a->bindings.n; i++) {
    const wf_meta_target *t = find_target(all, a->bindings.at[i].target);
    if (t && !t->graph_inputs)
      wf_check_struct(c, "LORA-10", t->head.at, NULL, "add graph_inputs",
                      "the target '%.80s' of an ort_genai artifact lacks graph_inputs", t->id);
  }
  if ((w->format == WF_META_LORA_HF_PEFT) != (w->config_location != NULL))
    wf_check_struct(c, "LORA-11", at, "config_location",
                    w->config_location ? "remove it" : "name the adapter's config",
                    w->config_location ? "config_location belongs to hf_peft"
                                       : "hf_peft lacks config_location");
  const char *const places[] = {w->location, w->config_location};
  for (size_t i = 0; i < 2; i++) {
    if (places[i] && !lies_under_alias(places[i], a->head.name))
      wf_check_struct(c, "LORA-11", at, i ? "config_location" : "location",
                      "put the file into adapters/<alias>/",
                      "'%.100s' does not lie under adapters/%.60s/", places[i], a->head.name);
  }
}

static void check_artifact(wf_rules *c, const wf_meta_adapters *all,
                           const wf_meta_lora_artifact *a) {
  const wf_meta_at *at = a->head.at;
  if (!a->rank || !isfinite(a->alpha) || a->alpha <= 0 || !is_weight_dtype(a->dtype))
    wf_check_struct(
        c, "LORA-07", at, NULL, "write a rank above 0, an alpha above 0 and a float dtype",
        "rank %lld, alpha or dtype '%.40s' is out of bounds", (long long)a->rank, a->dtype);
  if (!a->weights.n)
    wf_check_struct(c, "LORA-08", at, "weights", "name a file", "the artifact has no weights");
  unsigned seen = 0;
  for (size_t i = 0; i < a->weights.n; i++) {
    const wf_meta_weights *w = &a->weights.at[i];
    if (seen & 1u << w->format)
      wf_check_struct(c, "LORA-08", w->head.at, "format", "keep one of them",
                      "two weights of one format");
    seen |= 1u << w->format;
    check_weight(c, all, a, w);
  }
  check_bindings(c, all, a);
}

static void check_artifacts(wf_rules *c, const wf_meta_adapters *a) {
  const size_t n = a->artifacts.n;
  bool *seen = wf_arena_calloc(c->arena, n + 1, sizeof *seen);
  if (!seen) {
    c->out_of_memory = true;
    return;
  }
  for (size_t i = 0; i < n; i++) {
    const wf_meta_lora_artifact *x = &a->artifacts.at[i];
    if ((size_t)x->index >= n || seen[x->index])
      wf_check_struct(c, "LORA-06", x->head.at, "index", "number the artifacts from 0",
                      "the index %lld is taken, or leaves a gap among %zu artifacts",
                      (long long)x->index, n);
    else
      seen[x->index] = true;
    for (size_t k = 0; k < i && i < 20000; k++) {
      const wf_meta_lora_artifact *y = &a->artifacts.at[k];
      if (strcmp(x->identity, y->identity) != 0 || strcmp(x->version, y->version) != 0) continue;
      wf_check_struct(c, "LORA-06", x->head.at, "identity", "give each its own",
                      "two artifacts are '%.60s' of version '%.40s'", x->identity, x->version);
      break;
    }
    check_artifact(c, a, x);
  }
}

/* ---- selection --------------------------------------------------------------------------------
 */

static void check_selected(wf_rules *c, const wf_meta_selection *s, const char *name,
                           const char *member, wf_dtype dtype, bool is_matrix, int role) {
  if (!name) return;
  const wf_meta_input *in = wf_meta_find(&c->w->inputs, name);
  const char *why = NULL;
  if (!in) {
    why = "there is no such input";
  } else {
    const wf_meta_contract *k = in->contract;
    const wf_meta_dim *d = k->shape.at;
    const bool fits = k->dtype == dtype && k->rank == (is_matrix ? 2 : 1) &&
                      (int64_t)k->shape.n == k->rank && d[0].symbol &&
                      strcmp(d[0].symbol, "batch") == 0 &&
                      (!is_matrix || (!d[1].symbol && d[1].extent == s->max_adapters));
    if (!fits)
      why = is_matrix ? "it is not [batch, max_adapters] of the right dtype"
                      : "it is not [batch] of the right dtype";
    else if (wf_meta_layout_of(k) != WF_META_REQUEST_ALIGNED || k->batch_layout->axis != 0)
      why = "it is not request_aligned on axis 0";
    else if (!in->is_required)
      why = "it is optional";
    else if (in->source->kind != WF_META_REQUEST && in->source->kind != WF_META_APPLICATION)
      why = "its source is neither request nor application";
    else if (in->role->kind != WF_META_RUNTIME || in->role->role != role)
      why = "it lacks the matching runtime role";
  }
  if (why)
    wf_check_struct(c, "LORA-12", s->head.at, member, "declare such an input",
                    "the input '%.80s' cannot select adapters: %s", name, why);
}

void wf_check_lora(wf_rules *c) {
  const wf_meta_adapters *a = c->m->adapters;
  if (!a) return;
  if (!a->target_manifest->targets.n || !a->artifacts.n)
    wf_check_struct(c, "LORA-01", a->head.at, a->artifacts.n ? "target_manifest" : "artifacts",
                    "declare at least one", "there are no targets or no artifacts");
  if (strcmp(a->application_capability, "onnx-genai.adapters@1") != 0)
    wf_check_struct(c, "LORA-02", a->head.at, "application_capability",
                    "write onnx-genai.adapters@1", "'%.80s' is no capability of this format",
                    a->application_capability);
  if (a->cache && a->cache->max_entries <= 0)
    wf_check_struct(c, "LORA-03", a->cache->head.at, "max_entries", "write 1 or more",
                    "the adapter cache holds no entry");
  check_targets(c, a);
  check_artifacts(c, a);
  const wf_meta_selection *s = a->selection;
  if (s->max_adapters <= 0)
    wf_check_struct(c, "LORA-12", s->head.at, "max_adapters", "write 1 or more",
                    "0 adapters can be selected");
  check_selected(c, s, s->segments, "segments", WF_DTYPE_I64, true, WF_META_ROLE_ADAPTER_SEGMENTS);
  check_selected(c, s, s->adapter_counts, "adapter_counts", WF_DTYPE_I64, false,
                 WF_META_ROLE_ADAPTER_COUNTS);
  check_selected(c, s, s->scales, "scales", WF_DTYPE_F32, true, WF_META_ROLE_ADAPTER_SCALES);
  check_selected(c, s, s->active, "active", WF_DTYPE_BOOL, false, WF_META_ROLE_ADAPTER_ACTIVE);
}
