/* SPDX-License-Identifier: Apache-2.0 */
/* Workflows: a document's plan and one worker that runs its passes on the caller's thread. */
#include <stdatomic.h>
#include <string.h>

#include "base/file.h"
#include "base/process.h"
#include "engine/engine.h"
#include "engine/tensors.h"
#include "package/metadata.h"
#include "workflow/plan_build.h"
#include "workflow/worker.h"

struct weft_workflow {
  uint64_t owner; /* the token of whoever runs it */
  uint64_t former WF_GUARDED_BY(wf_worker_role);
  atomic_flag is_busy; /* who sets it enters the worker's role */
  wf_plan_ref *plan;
  int64_t *dims; /* of the ports, inputs first: [n][WF_VIEW_MAX_RANK], -1 symbolic */
  wf_team *team WF_PT_GUARDED_BY(wf_worker_role);
  wf_worker *worker WF_GUARDED_BY(wf_worker_role);
  wf_pass *pass WF_GUARDED_BY(wf_worker_role); /* the last run's, for its outputs; NULL: none */
  wf_request request WF_GUARDED_BY(wf_worker_role);
  wf_named_view *views WF_GUARDED_BY(wf_worker_role);
  atomic_int cancel;
};

static bool enter(weft_workflow *w) WF_TSA(try_acquire_capability(true, wf_worker_role)) WF_NO_TSA {
  if (atomic_flag_test_and_set(&w->is_busy)) return false;
  w->former = wf_owner_adopt(w->owner);
  return true;
}

static void leave(weft_workflow *w) WF_RELEASE(wf_worker_role) WF_NO_TSA {
  wf_owner_adopt(w->former);
  atomic_flag_clear(&w->is_busy);
}

static weft_status fail_busy(weft_error *err) {
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
  if (!enter(w)) { /* nobody else knows it yet */
    st = fail_busy(err);
    goto out;
  }
  st = open_worker(w, compile.n_threads, err);
  leave(w);
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
}

void weft_workflow_close(weft_workflow *w) {
  if (!w) return;
  if (enter(w)) {
    forget_run(w);
    wf_worker_destroy(w->worker); /* uses the team */
    wf_team_destroy(w->team);
    leave(w);
  }
  wf_plan_release(w->plan);
  wf_free(w->dims);
  wf_free(w);
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

/* The least of both sizes: a caller built against an older header sets fewer fields. */
static weft_status take_request(weft_workflow *w, const weft_request *given, weft_error *err)
    WF_REQUIRES(wf_worker_role) {
  weft_request r = {.struct_size = sizeof r};
  if (given) {
    memcpy(&r, given, given->struct_size < sizeof r ? given->struct_size : sizeof r);
  }
  w->views = wf_calloc(r.n_inputs + 1, sizeof *w->views);
  if (!w->views) return wf_fail_memory(err, r.n_inputs * sizeof *w->views, "a request");
  for (size_t i = 0; i < r.n_inputs; i++) {
    WF_RETURN_IF_ERROR(wf_tensor_view(&r.inputs[i], &w->views[i].view, err));
    w->views[i].name = r.inputs[i].name;
  }
  w->request = (wf_request){.n_tensors = r.n_inputs,
                            .tensors = w->views,
                            .has_max_tokens = r.has_max_tokens != 0,
                            .has_seed = r.has_seed != 0,
                            .has_sampling = r.has_sampling != 0,
                            .max_tokens = r.max_tokens,
                            .seed = r.seed,
                            .is_greedy = r.temperature == 0,
                            .temperature = r.temperature,
                            .top_p = r.top_p,
                            .min_p = r.min_p,
                            .top_k = r.top_k,
                            .n_prompts = r.n_prompts,
                            .prompt_tokens = r.n_prompt_tokens,
                            .prompts = r.prompts,
                            .keeps_going = r.ignore_eos != 0,
                            .cancel = &w->cancel};
  return WEFT_OK;
}

void weft_request_init(weft_request *r, size_t struct_size) {
  const weft_request defaults = {.struct_size = struct_size, .temperature = 1, .top_p = 1};
  memcpy(r, &defaults, struct_size < sizeof defaults ? struct_size : sizeof defaults);
}

weft_status weft_workflow_run(weft_workflow *w, const weft_request *request, weft_error *err) {
  weft_status st = WEFT_OK, own = WEFT_OK;
  if (!enter(w)) return fail_busy(err);
  forget_run(w);
  atomic_store(&w->cancel, 0);
  st = take_request(w, request, err);
  if (st == WEFT_OK) st = wf_worker_open_pass(&w->pass, w->worker, &w->request, NULL, err);
  if (st == WEFT_OK) st = wf_worker_drive(w->worker, &w->pass, 1, &own, err, err);
  if (st == WEFT_OK) st = own;
  if (st != WEFT_OK) forget_run(w); /* what a failed run published is not an output */
  leave(w);
  return st;
}

void weft_workflow_cancel(weft_workflow *w) { atomic_store(&w->cancel, 1); }

size_t weft_workflow_rows(weft_workflow *w, size_t output) {
  size_t n = 0;
  if (!enter(w)) return 0;
  if (w->pass && output < w->plan->plan->n_outputs) n = wf_pass_output_rows(w->pass, output);
  leave(w);
  return n;
}

int weft_workflow_result(weft_workflow *w, size_t output, int64_t row, weft_tensor *tensor) {
  bool is_there = false;
  if (!enter(w)) return 0;
  if (w->pass && output < w->plan->plan->n_outputs && wf_pass_output_is_there(w->pass, output)) {
    const size_t n_rows = wf_pass_output_rows(w->pass, output);
    const wf_view *v = NULL;
    if (row < 0 && n_rows == 0) v = wf_pass_output(w->pass, output);
    if (row >= 0 && (uint64_t)row < n_rows) v = wf_pass_output_row(w->pass, output, (size_t)row);
    is_there = wf_tensor_of_view(v, w->plan->plan->outputs[output].name, tensor);
  }
  leave(w);
  return is_there;
}

void weft_workflow_count(weft_workflow *w, weft_run_counts *counts) {
  if (!enter(w)) return;
  if (w->pass) {
    const wf_pass_counters *c = wf_pass_count(w->pass);
    const weft_run_counts full = {.struct_size = counts->struct_size,
                                  .invocations = c->invocations,
                                  .iterations = c->iterations,
                                  .emits = c->emits};
    memcpy(counts, &full, counts->struct_size < sizeof full ? counts->struct_size : sizeof full);
  }
  leave(w);
}
