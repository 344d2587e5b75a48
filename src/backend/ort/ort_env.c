/* SPDX-License-Identifier: Apache-2.0 */
/* The process's one environment: its logger, its arena, and giving the arena's memory back. */
#include <string.h>

#include "backend/ort/ort_library.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/thread.h"
#include "onnx/onnx.h"

/* The library shrinks an arena only at the end of a run. This is the smallest model there is, y =
 * -x of one float, on a session whose runs ask for that; all sessions share the arena. */
typedef struct shrinker {
  ort_session_options *options;
  ort_session *session;
  ort_run_options *run_options;
  ort_memory_info *memory;
  ort_allocator *allocator; /* the arena, as the session sees it */
  ort_binding *binding;
  ort_value *value;
  float x;
} shrinker;

/* A ModelProto: IR 8, opset 13, graph "g" with one Neg from "x" to "y", both float [1]. */
#define PORT(letter) 0x0a, 1, letter, 0x12, 10, 0x0a, 8, 0x08, 1, 0x12, 4, 0x0a, 2, 0x08, 1
/* clang-format off */
static const unsigned char tiny_model[] = {
    0x08, 8,             /* ir_version */
    0x3a, 50,            /* graph: */
    0x0a, 11, 0x0a, 1, 'x', 0x12, 1, 'y', 0x22, 3, 'N', 'e', 'g', /* node */
    0x12, 1, 'g',        /* name */
    0x5a, 15, PORT('x'), /* input */
    0x62, 15, PORT('y'), /* output */
    0x42, 2, 0x10, 13,   /* opset_import */
};
/* clang-format on */

static void free_shrinker(const ort_library *lib, shrinker *s) {
  if (!s) return;
  if (s->value) lib->api.release_value(s->value);
  if (s->binding) lib->api.release_binding(s->binding);
  if (s->allocator) lib->api.release_allocator(s->allocator);
  if (s->run_options) lib->api.release_run_options(s->run_options);
  if (s->session) lib->api.release_session(s->session);
  if (s->options) lib->api.release_session_options(s->options);
  if (s->memory) lib->api.release_memory_info(s->memory);
  wf_free(s);
}

static weft_status make_shrinker(const ort_library *lib, const ort_env *env, shrinker **result,
                                 weft_error *err) {
  weft_status st = WEFT_OK;
  static const int64_t one = 1;
  shrinker *s = wf_zalloc(sizeof *s);
  if (!s) return wf_fail_memory(err, sizeof *s, "an arena's shrinking");
  ORT_TRY(lib, err, create_cpu_memory_info(ORT_ALLOCATOR_ARENA, ORT_MEMORY_DEFAULT, &s->memory),
          "can't describe memory");
  ORT_TRY(lib, err, create_session_options(&s->options), "makes no session options");
  ORT_TRY(lib, err, set_threads_inside(s->options, 1), "number of threads");
  ORT_TRY(lib, err, set_session_entry(s->options, "session.use_env_allocators", "1"), "option");
  ORT_TRY(lib, err,
          create_session_of_bytes(env, tiny_model, sizeof tiny_model, s->options, &s->session),
          "refuses the smallest model");
  ORT_TRY(lib, err, create_allocator(s->session, s->memory, &s->allocator), "makes no allocator");
  ORT_TRY(lib, err, create_run_options(&s->run_options), "makes no run options");
  ORT_TRY(lib, err, set_run_entry(s->run_options, "memory.enable_memory_arena_shrinkage", "cpu:0"),
          "shrinks no arena");
  ORT_TRY(lib, err, create_binding(s->session, &s->binding), "makes no binding");
  ORT_TRY(lib, err,
          create_tensor_over(s->memory, &s->x, sizeof s->x, &one, 1, WF_DTYPE_F32, &s->value),
          "takes no tensor");
  ORT_TRY(lib, err, bind_input(s->binding, "x", s->value), "takes no tensor");
  ORT_TRY(lib, err, bind_output_anew(s->binding, "y", s->memory), "gives no tensor");
  *result = s;
  s = NULL;
out:
  free_shrinker(lib, s);
  return st;
}

/* Runs on whatever thread of theirs logs. */
static void log_line(void *user, int severity, const char *category, const char *id,
                     const char *location, const char *message) {
  (void)user;
  (void)category;
  (void)id;
  (void)location;
  /* what fails is also returned, and becomes our error: said once */
  const int level = severity == ORT_LOG_WARNING ? 1
                    : severity == ORT_LOG_ERROR ? 2
                    : severity > ORT_LOG_ERROR  ? 0
                                                : 3;
  weft_error line = {0}; /* names in a stranger's file must not drive a terminal */
  (void)wf_fail(&line, WEFT_BACKEND, NULL, "ONNX Runtime: %s", message ? message : "");
  wf_log(level, "%s", line.what);
}

/* One arena for the CPU memory of all sessions: it takes what is asked for and no more, never more
 * than the machine (or the cgroup) has left, and can be shrunk between turns. */
static weft_status make_arena(const ort_library *lib, ort_env *env, weft_error *err) {
  weft_status st = WEFT_OK;
  ort_memory_info *info = NULL;
  ort_arena_config *config = NULL;
  int is_cgroup;
  const uint64_t left = wf_memory_available(&is_cgroup);
  static const char *const keys[] = {"max_mem", "arena_extend_strategy", "initial_chunk_size_bytes",
                                     "max_dead_bytes_per_chunk"};
  const size_t values[] = {left > SIZE_MAX / 2 ? 0 : (size_t)left, 1, 1 << 20, 4 << 20};
  ORT_TRY(lib, err, create_cpu_memory_info(ORT_ALLOCATOR_ARENA, ORT_MEMORY_DEFAULT, &info),
          "can't describe memory");
  ORT_TRY(lib, err, create_arena_config(keys, values, WF_ARRAY_LEN(keys), &config),
          "can't configure its arena");
  ORT_TRY(lib, err, create_shared_arena(env, info, config), "can't make its arena");
out:
  if (config) lib->api.release_arena_config(config);
  if (info) lib->api.release_memory_info(info);
  return st;
}

weft_status ort_env_acquire(ort_library *lib, ort_env **result, weft_error *err) {
  weft_status st = WEFT_OK;
  ort_env *env = NULL;
  wf_process_ort *process = wf_process_ort_lock();
  if (!process->environment) {
    ORT_TRY(lib, err, create_env(log_line, NULL, ORT_LOG_WARNING, "weft", &env), "does not start");
    ORT_TRY(lib, err, disable_telemetry(env), "keeps its telemetry");
    WF_TRY(make_arena(lib, env, err));
    process->environment = env;
    env = NULL;
    atomic_fetch_add_explicit(&lib->live[ORT_KIND_ENVIRONMENT], 1, memory_order_relaxed);
  }
  process->environment_refs++;
  *result = process->environment;
out:
  if (env) lib->api.release_env(env);
  wf_process_ort_unlock();
  return st;
}

void ort_env_release(ort_library *lib) {
  wf_process_ort *process = wf_process_ort_lock();
  if (--process->environment_refs == 0) {
    free_shrinker(lib, process->extra);
    process->extra = NULL;
    lib->api.release_env(process->environment);
    process->environment = NULL;
    ort_note_release(lib, ORT_KIND_ENVIRONMENT);
  }
  wf_process_ort_unlock();
}

/* The environment's shrinker, made when it is first needed. The process's lock is held. */
static weft_status need_shrinker(const ort_library *lib, wf_process_ort *process, shrinker **result,
                                 weft_error *err) {
  if (!process->extra) {
    shrinker *fresh = NULL;
    WF_RETURN_IF_ERROR(make_shrinker(lib, process->environment, &fresh, err));
    process->extra = fresh;
  }
  *result = process->extra;
  return WEFT_OK;
}

void ort_env_shrink(ort_library *lib) {
  weft_error err = {0};
  weft_status st = WEFT_OK;
  shrinker *s = NULL;
  wf_process_ort *process = wf_process_ort_lock();
  if (!process->environment) goto out;
  WF_TRY(need_shrinker(lib, process, &s, &err));
  ORT_TRY(lib, &err, run_binding(s->session, s->run_options, s->binding), "shrinks no arena");
out:
  wf_process_ort_unlock();
  if (st != WEFT_OK) wf_log(1, "memory stays with ONNX Runtime: %s", err.what);
}

static size_t read_stat(const ort_library *lib, const ort_pairs *pairs, const char *name) {
  const char *const *keys = NULL, *const *values = NULL;
  size_t n = 0;
  uint64_t v = 0;
  lib->api.pairs_entries(pairs, &keys, &values, &n);
  for (size_t i = 0; i < n; i++) {
    if (strcmp(keys[i], name) == 0 && wf_parse_u64(wf_str_of(values[i]), &v)) return (size_t)v;
  }
  return 0;
}

void ort_env_memory(ort_library *lib, size_t *held, size_t *used) {
  weft_status st = WEFT_OK;
  shrinker *s = NULL;
  ort_pairs *pairs = NULL;
  *held = *used = 0;
  if (!lib->api.allocator_stats) return; /* older than 1.23 */
  wf_process_ort *process = wf_process_ort_lock();
  if (!process->environment) goto out;
  WF_TRY(need_shrinker(lib, process, &s, NULL));
  ORT_TRY(lib, NULL, allocator_stats(s->allocator, &pairs), "counts nothing");
  *held = read_stat(lib, pairs, "TotalAllocated");
  *used = read_stat(lib, pairs, "InUse");
out:
  if (pairs) lib->api.release_pairs(pairs);
  wf_process_ort_unlock();
}
