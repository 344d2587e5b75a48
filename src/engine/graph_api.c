/* SPDX-License-Identifier: Apache-2.0 */
/* Plain graphs: weft_graph_open and what `weft exec` needs. */
#include <stdatomic.h>
#include <string.h>

#include "base/process.h"
#include "engine/engine.h"
#include "engine/tensors.h"

struct weft_graph {
  const wf_backend *backend;
  uint64_t owner; /* the token of whoever runs it */
  wf_component *component;
  const wf_component_info *info;
  wf_team *team;
  wf_backend_session *session;
  wf_view *inputs, *outputs;
  wf_profile *profile; /* NULL: none */
  char *temporary_dir; /* an import that could not be cached; removed at the end */
  atomic_flag is_busy;
};

weft_status weft_graph_open(weft_graph **result, const char *path,
                            const weft_model_options *options, weft_error *err) {
  weft_status st = WEFT_OK;
  weft_model_options o;
  wf_cpu_level level;
  wf_package *package = NULL;
  weft_graph *g = wf_zalloc(sizeof *g);
  if (!g) {
    st = wf_fail_memory(err, sizeof *g, "a graph");
    goto out;
  }
  atomic_flag_clear(&g->is_busy);
  wf_model_options_take(&o, options);
  WF_TRY(wf_cpu_level_get(&level, err));
  wf_compile_options compile;
  wf_compile_options_take(&compile, &o);
  compile.model = path;
  if (!wf_is_onnx(path)) {
    WF_TRY(wf_package_open_or_import(&package, &g->temporary_dir, path, &o, err));
    compile.model = package->model;
  }
  compile.kv = WF_KV_F32;
  compile.level = level;
  WF_TRY(wf_component_compile_by(o.backend, &g->backend, &g->component, &compile, err));
  g->info = wf_component_describe(g->backend, g->component);
  g->inputs = wf_calloc(g->info->n_inputs + 1, sizeof *g->inputs);
  g->outputs = wf_calloc(g->info->n_outputs + 1, sizeof *g->outputs);
  if (!g->inputs || !g->outputs) {
    st = wf_fail_memory(err, 0, "ports");
    goto out;
  }
  WF_TRY(wf_team_create(&g->team, g->info->has_own_threads ? 1 : compile.n_threads, err));
  g->owner = wf_owner_mint();
  const uint64_t former = wf_owner_adopt(g->owner);
  st = wf_backend_session_open(g->backend, &g->session, g->component, g->team, 1, err);
  wf_owner_adopt(former);
  WF_TRY(st);
  g->profile = wf_profile_of(o.profile);
  wf_backend_session_profile(g->backend, g->session, g->profile);
  *result = g;
  g = NULL;
out:
  wf_package_close(package);
  weft_graph_close(g);
  return st;
}

void weft_graph_close(weft_graph *g) {
  if (!g) return;
  if (g->session) {
    const uint64_t former = wf_owner_adopt(g->owner);
    wf_backend_session_close(g->backend, g->session);
    wf_owner_adopt(former);
  }
  if (g->backend) wf_component_release(g->backend, g->component);
  wf_team_destroy(g->team);
  wf_free(g->inputs);
  wf_free(g->outputs);
  wf_temporary_remove(g->temporary_dir);
  wf_free(g);
}

size_t weft_graph_n_inputs(const weft_graph *g) { return g->info->n_inputs; }
size_t weft_graph_n_outputs(const weft_graph *g) { return g->info->n_outputs; }

static void describe(const wf_port *port, weft_tensor *result) {
  const weft_tensor full = {
      .name = port->name, .dtype = (int)port->dtype, .rank = port->rank, .dims = port->dims};
  wf_tensor_give(result, &full);
}

void weft_graph_input(const weft_graph *g, size_t i, weft_tensor *port) {
  if (i < g->info->n_inputs) describe(&g->info->inputs[i], port);
}

void weft_graph_output(const weft_graph *g, size_t i, weft_tensor *port) {
  if (i < g->info->n_outputs) describe(&g->info->outputs[i], port);
}

static weft_status bind(weft_graph *g, const weft_tensor *t, weft_error *err) {
  size_t at = 0;
  wf_view view;
  WF_RETURN_IF_ERROR(wf_tensor_view(t, &view, err));
  while (at < g->info->n_inputs && strcmp(g->info->inputs[at].name, t->name) != 0) at++;
  if (at == g->info->n_inputs) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "name one of the graph's inputs",
                   "the graph has no input '%s'", t->name);
  }
  const wf_port *port = &g->info->inputs[at];
  if (port->rank >= 0 && t->rank != port->rank) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "give a tensor of the port's rank",
                   "input '%s' has rank %d, but the graph wants %d", t->name, t->rank, port->rank);
  }
  if (t->dtype != (int)port->dtype) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "give a tensor of the port's type",
                   "input '%s' is %s, but the graph wants %s", t->name,
                   wf_dtype_name((wf_dtype)t->dtype), wf_dtype_name(port->dtype));
  }
  for (int32_t d = 0; d < t->rank; d++) {
    if (port->rank >= 0 && port->dims[d] >= 0 && port->dims[d] != t->dims[d]) {
      return wf_fail(err, WEFT_INVALID_ARGUMENT, "give a tensor of the port's shape",
                     "input '%s' has %lld on axis %d, but the graph wants %lld", t->name,
                     (long long)t->dims[d], d, (long long)port->dims[d]);
    }
  }
  g->inputs[at] = view;
  return WEFT_OK;
}

weft_status weft_graph_run(weft_graph *g, const weft_tensor *inputs, size_t n_inputs,
                           weft_tensor *outputs, weft_error *err) {
  weft_status st = WEFT_OK;
  if (atomic_flag_test_and_set(&g->is_busy)) {
    return wf_fail(err, WEFT_SESSION_BUSY, "wait for the other call",
                   "the graph is running already");
  }
  const uint64_t former = wf_owner_adopt(g->owner);
  memset(g->inputs, 0, g->info->n_inputs * sizeof *g->inputs);
  memset(g->outputs, 0, g->info->n_outputs * sizeof *g->outputs);
  for (size_t i = 0; i < n_inputs; i++) WF_TRY(bind(g, &inputs[i], err));
  const wf_row row = {.inputs = g->inputs, .outputs = g->outputs};
  WF_TRY(wf_backend_session_run_in(g->backend, g->session, &row, 1, g->profile, err));
  for (size_t i = 0; i < g->info->n_outputs; i++) {
    const char *name = g->info->outputs[i].name;
    if (!wf_tensor_of_view(&g->outputs[i], name, &outputs[i])) {
      st = wf_fail(err, WEFT_BACKEND, NULL, "output '%s' has no size", name);
      goto out;
    }
  }
out:
  wf_owner_adopt(former);
  atomic_flag_clear(&g->is_busy);
  return st;
}
