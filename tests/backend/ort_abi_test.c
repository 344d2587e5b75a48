/* SPDX-License-Identifier: Apache-2.0 */
/* Each slot of src/backend/ort/ort_abi.h is called and judged by what it does: a wrong index would
 * call another function. WEFT_TEST_ORT=FILE runs it with another version of the library. */
#include "support/test.h"

#include <dirent.h>

#include "ort_fixture.h"

enum { WIDTH = 64 };

/* y = x * w, x and y [n, 64], w [64] in the file "w.bin"; by onnx.helper, IR 8, opset 13. */
static const unsigned char model[] = {
    0x08, 0x08, 0x3a, 0x79, 0x0a, 0x0e, 0x0a, 0x01, 0x78, 0x0a, 0x01, 0x77, 0x12, 0x01, 0x79,
    0x22, 0x03, 0x4d, 0x75, 0x6c, 0x12, 0x01, 0x67, 0x2a, 0x38, 0x08, 0x40, 0x10, 0x01, 0x42,
    0x01, 0x77, 0x6a, 0x11, 0x0a, 0x08, 0x6c, 0x6f, 0x63, 0x61, 0x74, 0x69, 0x6f, 0x6e, 0x12,
    0x05, 0x77, 0x2e, 0x62, 0x69, 0x6e, 0x6a, 0x0b, 0x0a, 0x06, 0x6f, 0x66, 0x66, 0x73, 0x65,
    0x74, 0x12, 0x01, 0x30, 0x6a, 0x0d, 0x0a, 0x06, 0x6c, 0x65, 0x6e, 0x67, 0x74, 0x68, 0x12,
    0x03, 0x32, 0x35, 0x36, 0x70, 0x01, 0x5a, 0x14, 0x0a, 0x01, 0x78, 0x12, 0x0f, 0x0a, 0x0d,
    0x08, 0x01, 0x12, 0x09, 0x0a, 0x03, 0x12, 0x01, 0x6e, 0x0a, 0x02, 0x08, 0x40, 0x62, 0x14,
    0x0a, 0x01, 0x79, 0x12, 0x0f, 0x0a, 0x0d, 0x08, 0x01, 0x12, 0x09, 0x0a, 0x03, 0x12, 0x01,
    0x6e, 0x0a, 0x02, 0x08, 0x40, 0x42, 0x04, 0x0a, 0x00, 0x10, 0x0d};

#define API (lib->api)
#define good(status) good_((lib), (status), #status)
static void good_(const ort_library *lib, ort_status *status, const char *what) {
  weft_error err = {0};
  if (ort_check(lib, status, &err, "%s", what) != WEFT_OK) fail_msg("%s", err.what);
}
/* The status is an error of this code, and its text has the word. */
#define bad(status, code, word) bad_((lib), (status), (code), (word), #status)
static void bad_(const ort_library *lib, ort_status *status, int code, const char *word,
                 const char *what) {
  if (!status) fail_msg("%s succeeded", what);
  if (code) assert_int_equal(API.error_code(status), code);
  if (!strstr(API.error_message(status), word)) {
    fail_msg("%s: '%s' lacks '%s'", what, API.error_message(status), word);
  }
  API.release_status(status);
}

static int n_threads(void) {
  int n = 0;
  DIR *d = opendir("/proc/self/task");
  for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

typedef struct world {
  ort_library *lib;
  ort_env *env;
  ort_memory_info *memory;
  int n_lines;
} world;

static void count_line(void *user, int severity, const char *category, const char *id,
                       const char *location, const char *message) {
  world *w = user;
  assert_true(severity >= 0 && severity <= 4);
  assert_non_null(category);
  assert_non_null(location);
  assert_non_null(message);
  assert_true(strcmp(id, "abi") == 0 || id[0] == '\0' || strlen(id) < 64);
  w->n_lines++;
}

enum { ARENA_BYTES = 64 << 20 };

/* An environment with an arena of 64 MiB. */
static int open_world(void **state) {
  static world w;
  w = (world){0};
  *state = &w;
  if (!test_library()) return 0;
  weft_error err = {0};
  assert_ok(ort_library_open(&w.lib, test_library(), &err), &err);
  ort_library *lib = w.lib;
  good(API.create_env(count_line, &w, ORT_LOG_INFO, "abi", &w.env));
  good(API.disable_telemetry(w.env));
  good(API.create_cpu_memory_info(ORT_ALLOCATOR_ARENA, ORT_MEMORY_DEFAULT, &w.memory));
  static const char *const keys[] = {"max_mem", "arena_extend_strategy"};
  static const char *const junk[] = {"no_such_key"};
  static const size_t values[] = {ARENA_BYTES, 1};
  ort_arena_config *config = NULL;
  bad(API.create_arena_config(junk, values, 1, &config), ORT_ERROR_INVALID_ARGUMENT, "no_such_key");
  good(API.create_arena_config(keys, values, 2, &config));
  good(API.create_shared_arena(w.env, w.memory, config));
  API.release_arena_config(config);
  return 0;
}

static int close_world(void **state) {
  world *w = *state;
  if (!w->lib) return 0;
  w->lib->api.release_memory_info(w->memory);
  w->lib->api.release_env(w->env);
  return 0;
}

static ort_session_options *options_of(const ort_library *lib) {
  ort_session_options *o = NULL;
  good(API.create_session_options(&o));
  good(API.set_threads_inside(o, 1));
  return o;
}

static ort_session *session_of(const world *w, ort_session_options *o, float *weights) {
  const ort_library *lib = w->lib;
  static const char *const names[] = {"w"};
  static const int64_t dims[] = {WIDTH};
  ort_session *s = NULL;
  ort_value *v = NULL;
  good(API.create_tensor_over(w->memory, weights, WIDTH * sizeof *weights, dims, 1, WF_DTYPE_F32,
                              &v));
  good(API.add_external_values(o, names, (const ort_value *const *)&v, 1));
  API.release_value(v);
  good(API.create_session_of_bytes(w->env, model, sizeof model, o, &s));
  return s;
}

static void errors_have_a_code_and_a_text(void **state) {
  need_library();
  const world *w = *state;
  const ort_library *lib = w->lib;
  ort_session *s = NULL;
  ort_session_options *o = options_of(lib);
  bad(API.create_session(w->env, "/nowhere/m.onnx", o, &s), ORT_ERROR_NO_FILE, "/nowhere/m.onnx");
  bad(API.create_session_of_bytes(w->env, "junk", 4, o, &s), ORT_ERROR_PROTOBUF, "");
  API.release_session_options(o);
}

static void a_session_comes_from_a_path(void **state) {
  need_library();
  const world *w = *state;
  const ort_library *lib = w->lib;
  ort_session *s = NULL;
  size_t n = 0;
  ort_session_options *o = options_of(lib);
  const int before = w->n_lines;
  good(API.create_session(w->env, WEFT_SOURCE_DIR "/tests/graph/longhand/llama.onnx", o, &s));
  assert_true(w->n_lines > before); /* the logger is ours */
  good(API.n_inputs(s, &n));
  assert_int_equal(n, 7); /* ids, mask, positions, keys and values of two layers */
  good(API.n_outputs(s, &n));
  assert_int_equal(n, 5);
  API.release_session(s);
  API.release_session_options(o);
}

static void names_come_in_the_graphs_order(void **state) {
  need_library();
  const world *w = *state;
  const ort_library *lib = w->lib;
  float weights[WIDTH] = {0};
  size_t n = 0;
  char *name = NULL;
  ort_allocator *general = NULL;
  ort_session_options *o = options_of(lib);
  ort_session *s = session_of(w, o, weights);
  good(API.default_allocator(&general));
  good(API.n_inputs(s, &n));
  assert_int_equal(n, 1);
  good(API.n_outputs(s, &n));
  assert_int_equal(n, 1);
  good(API.input_name(s, 0, general, &name));
  assert_string_equal(name, "x");
  good(API.allocator_free(general, name));
  good(API.output_name(s, 0, general, &name));
  assert_string_equal(name, "y");
  good(API.allocator_free(general, name));
  bad(API.input_name(s, 5, general, &name), 0, "");
  API.release_session(s);
  API.release_session_options(o);
}

static void check_product(const float *y, const float *x, const float *w) {
  for (int i = 0; i < WIDTH; i++) assert_true(y[i] == x[i] * w[i]);
}

static void a_binding_runs_into_our_memory_and_into_theirs(void **state) {
  need_library();
  const world *w = *state;
  const ort_library *lib = w->lib;
  float weights[WIDTH], x[WIDTH], y[WIDTH];
  for (int i = 0; i < WIDTH; i++) {
    weights[i] = (float)(i % 7) - 3;
    x[i] = (float)i / 4;
    y[i] = 99;
  }
  ort_session_options *o = options_of(lib);
  good(API.set_session_entry(o, "session.use_env_allocators", "1"));
  bad(API.set_session_entry(o, "", "1"), 0, "");
  good(API.disable_memory_pattern(o));
  ort_session *s = session_of(w, o, weights);
  const int64_t dims[2] = {1, WIDTH};
  ort_binding *b = NULL;
  ort_value *in = NULL, *out = NULL, **values = NULL;
  ort_run_options *ro = NULL;
  ort_allocator *general = NULL, *arena = NULL;
  size_t n = 0, rank = 0;
  good(API.create_binding(s, &b));
  good(API.create_run_options(&ro));
  bad(API.set_run_entry(ro, "", "1"), 0, "");
  good(API.set_run_entry(ro, "memory.enable_memory_arena_shrinkage", "cpu:0"));
  good(API.create_tensor_over(w->memory, x, sizeof x, dims, 2, WF_DTYPE_F32, &in));
  bad(API.create_tensor_over(w->memory, x, 8, dims, 2, WF_DTYPE_F32, &out), 0, "");
  good(API.create_tensor_over(w->memory, y, sizeof y, dims, 2, WF_DTYPE_F32, &out));
  good(API.bind_input(b, "x", in));
  good(API.bind_output(b, "y", out));
  good(API.set_terminate(ro));
  bad(API.run_binding(s, ro, b), 0, "erminat");
  good(API.unset_terminate(ro));
  good(API.run_binding(s, ro, b));
  check_product(y, x, weights);
  memset(y, 0, sizeof y);
  good(API.bind_output_anew(b, "y", w->memory));
  good(API.run_binding(s, ro, b));
  assert_true(y[WIDTH - 1] == 0);
  good(API.default_allocator(&general));
  good(API.bound_outputs(b, general, &values, &n));
  assert_int_equal(n, 1);
  int is_tensor = 0, type = 0;
  ort_shape_info *shape = NULL;
  int64_t got[2] = {0};
  void *data = NULL;
  good(API.is_tensor(values[0], &is_tensor));
  assert_int_equal(is_tensor, 1);
  good(API.tensor_shape(values[0], &shape));
  good(API.shape_type(shape, &type));
  assert_int_equal(type, WF_DTYPE_F32);
  good(API.shape_rank(shape, &rank));
  assert_int_equal(rank, 2);
  good(API.shape_dims(shape, got, 2));
  assert_true(got[0] == 1 && got[1] == WIDTH);
  API.release_shape_info(shape);
  good(API.tensor_data(values[0], &data));
  check_product(data, x, weights);
  good(API.create_allocator(s, w->memory, &arena));
  assert_non_null(arena);
  if (API.allocator_stats) {
    ort_pairs *pairs = NULL;
    const char *const *keys = NULL, *const *texts = NULL;
    bool has_limit = false, has_use = false;
    good(API.allocator_stats(arena, &pairs));
    API.pairs_entries(pairs, &keys, &texts, &n);
    for (size_t i = 0; i < n; i++) {
      has_limit = has_limit || (strcmp(keys[i], "Limit") == 0 && strcmp(texts[i], "67108864") == 0);
      has_use = has_use || (strcmp(keys[i], "InUse") == 0 && strcmp(texts[i], "0") != 0);
    }
    assert_true(has_limit); /* the environment's arena, not one of the session's own */
    assert_true(has_use);
    API.release_pairs(pairs);
  }
  API.release_value(values[0]);
  good(API.allocator_free(general, values));
  API.release_allocator(arena);
  API.release_value(in);
  API.release_value(out);
  API.release_run_options(ro);
  API.release_binding(b);
  API.release_session(s);
  API.release_session_options(o);
}

static int threads_with(const world *w, int mode, int inside, int between) {
  const ort_library *lib = w->lib;
  float weights[WIDTH] = {0};
  const int before = n_threads();
  ort_session_options *o = options_of(lib);
  good(API.set_execution_mode(o, mode));
  good(API.set_threads_inside(o, inside));
  good(API.set_threads_between(o, between));
  ort_session *s = session_of(w, o, weights);
  const int more = n_threads() - before;
  API.release_session(s);
  API.release_session_options(o);
  assert_int_equal(n_threads(), before);
  return more;
}

static void threads_are_those_that_were_asked_for(void **state) {
  need_library();
  const world *w = *state;
  const ort_library *lib = w->lib;
  assert_int_equal(threads_with(w, ORT_EXECUTION_SEQUENTIAL, 1, 1), 0);
  assert_int_equal(threads_with(w, ORT_EXECUTION_SEQUENTIAL, 3, 1), 2);
  assert_int_equal(threads_with(w, ORT_EXECUTION_SEQUENTIAL, 1, 4), 0);
  assert_true(threads_with(w, 1 /* parallel */, 1, 4) >= 3);
  ort_session_options *o = options_of(lib);
  good(API.set_optimization(o, ORT_OPTIMIZE_ALL));
  bad(API.set_optimization(o, -1), ORT_ERROR_INVALID_ARGUMENT, "");
  bad(API.set_execution_mode(o, 7), ORT_ERROR_INVALID_ARGUMENT, "");
  API.release_session_options(o);
}

static void providers_and_devices_are_told(void **state) {
  need_library();
  const world *w = *state;
  const ort_library *lib = w->lib;
  char **names = NULL;
  int n = 0;
  bool has_cpu = false;
  good(API.available_providers(&names, &n));
  for (int i = 0; i < n; i++) has_cpu = has_cpu || strcmp(names[i], "CPUExecutionProvider") == 0;
  assert_true(has_cpu);
  good(API.release_available_providers(names, n));
  ort_session_options *o = options_of(lib);
  bad(API.append_provider(o, "NoSuch", NULL, NULL, 0), 0, "nknown"); /* "Unknown provider name" */
  if (!API.provider_devices) {
    assert_true(lib->minor < 22);
    API.release_session_options(o);
    return;
  }
  const ort_ep_device *const *devices = NULL;
  size_t n_devices = 0;
  const ort_ep_device *cpu = NULL;
  good(API.provider_devices(w->env, &devices, &n_devices));
  for (size_t i = 0; i < n_devices; i++) {
    if (strcmp(API.device_provider(devices[i]), "CPUExecutionProvider") == 0) cpu = devices[i];
  }
  assert_non_null(cpu);
  assert_string_equal(API.device_vendor(cpu), "Microsoft");
  assert_int_equal(API.hardware_type(API.device_hardware(cpu)), ORT_HARDWARE_CPU);
  assert_non_null(API.hardware_vendor(API.device_hardware(cpu)));
  const ort_pairs *metadata = API.device_metadata(cpu);
  const char *const *keys = NULL, *const *texts = NULL;
  size_t n_pairs = 0;
  if (metadata) API.pairs_entries(metadata, &keys, &texts, &n_pairs);
  for (size_t i = 0; i < n_pairs; i++) assert_true(keys[i] && texts[i]);
  good(API.append_devices(o, w->env, &cpu, 1, NULL, NULL, 0));
  float weights[WIDTH] = {0};
  API.release_session(session_of(w, o, weights));
  API.release_session_options(o);
  bad(API.register_library(w->env, "x", "/nowhere/x.so"), 0, "/nowhere/x.so");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(errors_have_a_code_and_a_text, open_world, close_world),
      cmocka_unit_test_setup_teardown(a_session_comes_from_a_path, open_world, close_world),
      cmocka_unit_test_setup_teardown(names_come_in_the_graphs_order, open_world, close_world),
      cmocka_unit_test_setup_teardown(a_binding_runs_into_our_memory_and_into_theirs, open_world,
                                      close_world),
      cmocka_unit_test_setup_teardown(threads_are_those_that_were_asked_for, open_world,
                                      close_world),
      cmocka_unit_test_setup_teardown(providers_and_devices_are_told, open_world, close_world),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
