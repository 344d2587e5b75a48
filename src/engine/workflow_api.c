/* SPDX-License-Identifier: Apache-2.0 */
/* Workflows: a document's plan and one worker that runs its passes on the caller's thread. */
#include <stdatomic.h>
#include <string.h>

#include "base/file.h"
#include "base/process.h"
#include "engine/engine.h"
#include "engine/tensors.h"
#include "engine/workflow.h"
#include "package/metadata.h"
#include "workflow/plan_build.h"

bool wf_workflow_enter(weft_workflow *w) WF_NO_TSA {
  if (atomic_flag_test_and_set(&w->is_busy)) return false;
  wf_workflow_hold(w);
  w->former = wf_owner_adopt(w->owner);
  return true;
}

void wf_workflow_leave(weft_workflow *w) WF_NO_TSA {
  wf_owner_adopt(w->former);
  atomic_flag_clear(&w->is_busy);
  wf_workflow_release(w);
}

weft_status wf_workflow_fail_busy(weft_error *err) {
  return wf_fail(err, WEFT_SESSION_BUSY, "wait for the other call",
                 "the workflow is running already");
}

int weft_workflow_is(const char *path) {
  const wf_str name = wf_str_of(path);
  if (!wf_path_is_dir(path)) {
    return !wf_is_onnx(path) &&
           (wf_str_ends(name, WF_STR(".yaml")) || wf_str_ends(name, WF_STR(".yml")) ||
            wf_str_ends(name, WF_STR(".json")));
  }
  char *document = wf_metadata_find_document(path);
  const int is_there = document != NULL;
  wf_free(document);
  return is_there;
}

static weft_status take_dims(weft_workflow *w, weft_error *err) {
  const wf_plan *p = w->plan->plan;
  const size_t n = p->n_inputs + p->n_outputs;
  w->dims = wf_calloc(n + 1, WF_VIEW_MAX_RANK * sizeof *w->dims);
  if (!w->dims) return wf_fail_memory(err, n * WF_VIEW_MAX_RANK * sizeof *w->dims, "ports");
  for (size_t i = 0; i < n; i++) {
    const wf_plan_contract *c =
        i < p->n_inputs ? &p->inputs[i].contract : &p->outputs[i - p->n_inputs].contract;
    for (size_t d = 0; d < WF_VIEW_MAX_RANK; d++) {
      const bool is_known = c->has_shape && d < (size_t)c->rank && c->dims[d].symbol < 0;
      w->dims[i * WF_VIEW_MAX_RANK + d] = is_known ? c->dims[d].extent : -1;
    }
  }
  return WEFT_OK;
}

static weft_status open_worker(weft_workflow *w, int n_threads, weft_error *err)
    WF_REQUIRES(wf_worker_role) {
  bool has_own_threads = w->plan->n_programs > 0;
  for (size_t i = 0; i < w->plan->n_programs; i++) {
    const wf_component_info *info = w->plan->programs[i].info;
    has_own_threads = has_own_threads && info && info->has_own_threads;
  }
  WF_RETURN_IF_ERROR(wf_team_create(&w->team, has_own_threads ? 1 : n_threads, err));
  return wf_worker_create(&w->worker, w->plan, w->team, err);
}

weft_status weft_workflow_open(weft_workflow **result, const char *path,
                               const weft_model_options *options, weft_error *err) {
  weft_status st = WEFT_OK;
  weft_model_options o;
  wf_compile_options compile;
  wf_metadata_package *package = NULL;
  weft_workflow *w = wf_zalloc(sizeof *w);
  if (!w) return wf_fail_memory(err, sizeof *w, "a workflow");
  atomic_init(&w->refs, 1);
  atomic_flag_clear(&w->is_busy);
  w->owner = wf_owner_mint();
  wf_model_options_take(&o, options);
  wf_compile_options_take(&compile, &o);
  compile.kv = WF_KV_F32;
  WF_TRY(wf_cpu_level_get(&compile.level, err));
  const wf_metadata_options how = {.trust_links = o.trust_links != 0};
  WF_TRY(wf_metadata_open(&package, path, &how, err));
  const wf_plan_options build = {.backend = o.backend, .compile = &compile};
  WF_TRY(wf_plan_build(&w->plan, wf_metadata_get(package), &build, err));
  WF_TRY(take_dims(w, err));
  if (!wf_workflow_enter(w)) { /* nobody else knows it yet */
    st = wf_workflow_fail_busy(err);
    goto out;
  }
  st = open_worker(w, compile.n_threads, err);
  wf_workflow_leave(w);
  WF_TRY(st);
  *result = w;
  w = NULL;
out:
  wf_metadata_close(package);
  weft_workflow_close(w);
  return st;
}

/* Lets go of the last run: its outputs are gone afterwards. */
static void forget_run(weft_workflow *w) WF_REQUIRES(wf_worker_role) {
  if (w->pass) wf_worker_close_pass(w->worker, w->pass, NULL);
  w->pass = NULL;
  wf_free(w->views);
  w->views = NULL;
  wf_free(w->overrides);
  w->overrides = NULL;
}

void wf_workflow_hold(weft_workflow *w) {
  atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
}

/* Nobody else holds it: the thread that lets go last is the worker's last one. */
static void destroy(weft_workflow *w) WF_NO_TSA {
  const uint64_t former = wf_owner_adopt(w->owner);
  forget_run(w);
  wf_worker_destroy(w->worker); /* uses the team */
  wf_team_destroy(w->team);
  wf_owner_adopt(former);
  wf_plan_release(w->plan);
  wf_free(w->dims);
  wf_free(w);
}

void wf_workflow_release(weft_workflow *w) {
  if (atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) == 1) destroy(w);
}

void weft_workflow_close(weft_workflow *w) {
  if (!w) return;
  wf_workflow_release(w);
}

static void describe(const char *name, const wf_plan_contract *c, const int64_t *dims,
                     weft_tensor *port) {
  const weft_tensor full = {
      .name = name, .dtype = (int)c->dtype, .rank = c->dtype ? c->rank : -1, .dims = dims};
  wf_tensor_give(port, &full);
}

size_t weft_workflow_n_inputs(const weft_workflow *w) { return w->plan->plan->n_inputs; }
size_t weft_workflow_n_outputs(const weft_workflow *w) { return w->plan->plan->n_outputs; }

void weft_workflow_input(const weft_workflow *w, size_t i, weft_tensor *port) {
  if (i >= w->plan->plan->n_inputs) return;
  const wf_plan_input *in = &w->plan->plan->inputs[i];
  describe(in->name, &in->contract, w->dims + i * WF_VIEW_MAX_RANK, port);
}

void weft_workflow_output(const weft_workflow *w, size_t i, weft_tensor *port) {
  const wf_plan *p = w->plan->plan;
  if (i >= p->n_outputs) return;
  describe(p->outputs[i].name, &p->outputs[i].contract,
           w->dims + (p->n_inputs + i) * WF_VIEW_MAX_RANK, port);
}

static weft_status on_emit(void *user, const wf_emitted *e, weft_error *err) {
  const wf_listener *l = user;
  weft_tensor value = {.struct_size = sizeof value};
  static const weft_emit_mode modes[] = {WEFT_EMIT_REPLACE, WEFT_EMIT_APPEND, WEFT_EMIT_EVENT};
  if (!wf_tensor_of_view(e->value, e->output->name, &value)) {
    return wf_fail(err, WEFT_INTERNAL, NULL, "an emitted value has no size");
  }
  const weft_emit told = {.struct_size = sizeof told,
                          .value = &value,
                          .mode = modes[e->mode],
                          .row = e->row,
                          .sequence = e->sequence};
  if (l->on_emit(l->user, &told) == 0) return WEFT_OK;
  return wf_fail(err, WEFT_CANCELLED, NULL, "the run was ended by the caller that listens");
}

/* The least of both sizes: a caller built against an older header sets fewer fields. */
static weft_status take_request(weft_workflow *w, const weft_request *given, weft_error *err)
    WF_REQUIRES(wf_worker_role) {
  weft_request r = {.struct_size = sizeof r};
  if (given) {
    memcpy(&r, given, given->struct_size < sizeof r ? given->struct_size : sizeof r);
  }
  const bool is_fine =
      (!r.has_temperature || (r.temperature >= 0 && r.temperature <= 1e6)) &&
      (!r.has_top_k || r.top_k >= 0) && (!r.has_top_p || (r.top_p >= 0 && r.top_p <= 1)) &&
      (!r.has_min_p || (r.min_p >= 0 && r.min_p <= 1)) && (!r.has_max_tokens || r.max_tokens >= 0);
  if (!is_fine) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT,
                   "temperature 0 to 1e6, top_p and min_p 0 to 1, counts from 0",
                   "a field of the request is out of range");
  }
  w->views = wf_calloc(r.n_inputs + 1, sizeof *w->views);
  if (!w->views) return wf_fail_memory(err, r.n_inputs * sizeof *w->views, "a request");
  for (size_t i = 0; i < r.n_inputs; i++) {
    WF_RETURN_IF_ERROR(wf_tensor_view(&r.inputs[i], &w->views[i].view, err));
    w->views[i].name = r.inputs[i].name;
  }
  w->overrides = wf_calloc(r.n_overrides + 1, sizeof *w->overrides);
  if (!w->overrides) return wf_fail_memory(err, r.n_overrides, "a request");
  for (size_t i = 0; i < r.n_overrides; i++) {
    w->overrides[i] = (wf_named_override){r.overrides[i].component, r.overrides[i].other};
    if (!r.overrides[i].component || !r.overrides[i].other) {
      return wf_fail(err, WEFT_INVALID_ARGUMENT, "name both components",
                     "override %zu lacks a name", i);
    }
  }
  w->request = (wf_request){.n_tensors = r.n_inputs,
                            .tensors = w->views,
                            .has_max_tokens = r.has_max_tokens != 0,
                            .has_seed = r.has_seed != 0,
                            .is_greedy = r.is_greedy != 0,
                            .has_temperature = r.has_temperature != 0,
                            .has_top_k = r.has_top_k != 0,
                            .has_top_p = r.has_top_p != 0,
                            .has_min_p = r.has_min_p != 0,
                            .max_tokens = r.max_tokens,
                            .seed = r.seed,
                            .temperature = r.temperature,
                            .top_p = r.top_p,
                            .min_p = r.min_p,
                            .top_k = r.top_k,
                            .n_prompts = r.n_prompts,
                            .prompt_tokens = r.n_prompt_tokens,
                            .prompts = r.prompts,
                            .keeps_going = r.ignore_eos != 0,
                            .n_overrides = r.n_overrides,
                            .overrides = w->overrides,
                            .on_iteration = r.on_iteration,
                            .on_iteration_user = r.on_iteration_user,
                            .cancel = &w->cancel};
  w->listener = (wf_listener){r.on_emit, r.on_emit_user};
  if (r.on_emit) {
    w->request.on_emit = on_emit;
    w->request.on_emit_user = &w->listener;
  }
  return WEFT_OK;
}

void weft_request_init(weft_request *r, size_t struct_size) {
  const weft_request defaults = {.struct_size = struct_size};
  memcpy(r, &defaults, struct_size < sizeof defaults ? struct_size : sizeof defaults);
}

weft_status wf_workflow_run_on(weft_workflow *w, const weft_request *request,
                               wf_worker_session *session, weft_error *err) {
  weft_status st = WEFT_OK, own = WEFT_OK;
  if (!wf_workflow_enter(w)) return wf_workflow_fail_busy(err);
  forget_run(w);
  atomic_store(&w->cancel, 0);
  st = take_request(w, request, err);
  if (st == WEFT_OK) st = wf_worker_open_pass(&w->pass, w->worker, &w->request, session, err);
  const bool has_lease = st == WEFT_OK;
  if (st == WEFT_OK) st = wf_worker_drive(w->worker, &w->pass, 1, &own, err, err);
  if (st == WEFT_OK) st = own;
  if (has_lease) wf_worker_end_turn(session);
  if (st != WEFT_OK) forget_run(w); /* what a failed run published is not an output */
  wf_workflow_leave(w);
  return st;
}

weft_status weft_workflow_run(weft_workflow *w, const weft_request *request, weft_error *err) {
  return wf_workflow_run_on(w, request, NULL, err);
}

void weft_workflow_cancel(weft_workflow *w) { atomic_store(&w->cancel, 1); }

size_t weft_workflow_rows(weft_workflow *w, size_t output) {
  size_t n = 0;
  if (!wf_workflow_enter(w)) return 0;
  if (w->pass && output < w->plan->plan->n_outputs) n = wf_pass_output_rows(w->pass, output);
  wf_workflow_leave(w);
  return n;
}

int weft_workflow_result(weft_workflow *w, size_t output, int64_t row, weft_tensor *tensor) {
  bool is_there = false;
  if (!wf_workflow_enter(w)) return 0;
  if (w->pass && output < w->plan->plan->n_outputs && wf_pass_output_is_there(w->pass, output)) {
    const size_t n_rows = wf_pass_output_rows(w->pass, output);
    const wf_view *v = NULL;
    if (row < 0 && n_rows == 0) v = wf_pass_output(w->pass, output);
    if (row >= 0 && (uint64_t)row < n_rows) v = wf_pass_output_row(w->pass, output, (size_t)row);
    is_there = wf_tensor_of_view(v, w->plan->plan->outputs[output].name, tensor);
  }
  wf_workflow_leave(w);
  return is_there;
}

void weft_workflow_count(weft_workflow *w, weft_run_counts *counts) {
  if (!wf_workflow_enter(w)) return;
  if (w->pass) {
    const wf_pass_counters *c = wf_pass_count(w->pass);
    const weft_run_counts full = {.struct_size = counts->struct_size,
                                  .invocations = c->invocations,
                                  .iterations = c->iterations,
                                  .emits = c->emits};
    memcpy(counts, &full, counts->struct_size < sizeof full ? counts->struct_size : sizeof full);
  }
  wf_workflow_leave(w);
}

size_t weft_workflow_n_events(weft_workflow *w, size_t output) {
  size_t n = 0;
  if (!wf_workflow_enter(w)) return 0;
  if (w->pass && output < w->plan->plan->n_outputs) n = wf_pass_n_events(w->pass, output);
  wf_workflow_leave(w);
  return n;
}

int weft_workflow_event(weft_workflow *w, size_t output, size_t at, weft_tensor *tensor) {
  bool is_there = false;
  if (!wf_workflow_enter(w)) return 0;
  if (w->pass && output < w->plan->plan->n_outputs && at < wf_pass_n_events(w->pass, output)) {
    is_there = wf_tensor_of_view(wf_pass_event(w->pass, output, at),
                                 w->plan->plan->outputs[output].name, tensor);
  }
  wf_workflow_leave(w);
  return is_there;
}
