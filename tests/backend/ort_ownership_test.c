/* SPDX-License-Identifier: Apache-2.0 */
/* Who holds what of ONNX Runtime, and in which order it goes: values before the allocator that owns
 * their memory, allocators and bindings before the session, the process's environment last; on
 * every path, from any thread. */
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "ort_fixture.h"

#define B (&wf_backend_ort)

static const int32_t prompt[] = {3, 9, 1, 40, 22, 17, 5};
enum { N_PROMPT = 7, N_STEPS = 12 };

static ort_library *library(void) {
  weft_error err = {0};
  ort_library *lib = NULL;
  assert_ok(ort_library_open(&lib, test_library(), &err), &err);
  return lib;
}

static unsigned long mark(const ort_library *lib) { return atomic_load(&lib->n_released); }

static void assert_all_gone(const ort_library *lib) {
  for (int k = 0; k < ORT_N_KINDS; k++) assert_int_equal(atomic_load(&lib->live[k]), 0);
}

/* Since `from`: no object went after what it stood on. With one session and one environment that
 * is: nothing after the environment, only the environment after the session. */
static void assert_order(const ort_library *lib, unsigned long from) {
  const unsigned long to = mark(lib);
  assert_true(to - from <= ORT_TRACE);
  assert_true(to > from);
  assert_int_equal(lib->trace[(to - 1) % ORT_TRACE], ORT_KIND_ENVIRONMENT);
  bool session_gone = false;
  unsigned long n_values_after_allocator = 0, n_allocators = 0;
  for (unsigned long i = from; i < to; i++) {
    const int kind = lib->trace[i % ORT_TRACE];
    if (kind == ORT_KIND_ENVIRONMENT) {
      assert_int_equal(i, to - 1);
      continue;
    }
    assert_false(session_gone);
    session_gone = kind == ORT_KIND_SESSION;
    n_allocators += kind == ORT_KIND_ALLOCATOR;
    n_values_after_allocator += kind == ORT_KIND_VALUE && n_allocators > 0;
  }
  assert_int_equal(n_values_after_allocator, 0);
}

static void greedy(wf_backend_session *s, wf_backend_state *state, int32_t *tokens) {
  weft_error err = {0};
  float logits[TOY_VOCAB * 2];
  int64_t past = 0;
  for (int i = 0; i < N_STEPS; i++) {
    const int32_t *ids = i ? &tokens[i - 1] : prompt;
    const int64_t n = i ? 1 : N_PROMPT;
    assert_ok(toy_run(s, state, past, ids, n, logits, &err), &err);
    past += n;
    tokens[i] = 0;
    for (int32_t v = 1; v < TOY_VOCAB; v++) {
      if (logits[v] > logits[tokens[i]]) tokens[i] = v;
    }
  }
}

typedef struct parts {
  toy t;
  wf_backend_session *session;
  wf_backend_state *state;
} parts;

static void parts_open(parts *p, const char *name) {
  weft_error err = {0};
  assert_ok(toy_open(&p->t, name, 1, &err), &err);
  assert_true(p->t.info->vocab == TOY_VOCAB);
  assert_ok(wf_backend_session_open(B, &p->session, p->t.component, NULL, 16, &err), &err);
  assert_ok(wf_backend_state_open(B, &p->state, p->session, &err), &err);
}

static void parts_close(parts *p, int which) {
  switch (which) {
    case 0:
      wf_backend_state_close(B, p->state);
      break;
    case 1:
      wf_backend_session_close(B, p->session);
      break;
    default:
      wf_component_release(B, p->t.component);
      break;
  }
}

static void *call(void *arg) {
  void (**fn)(void *) = arg;
  void **user = (void **)arg + 1;
  (*fn)(*user);
  return NULL;
}

/* Runs fn(user) on a thread of its own and waits for its end. */
static void elsewhere(void (*fn)(void *), void *user) {
  struct {
    void (*fn)(void *);
    void *user;
  } arg = {fn, user};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, call, &arg), 0);
  pthread_join(thread, NULL);
}

/* ---- the order ------------------------------------------------------------------------------- */

static void whatever_is_closed_first_the_library_sees_one_order(void **unused) {
  (void)unused;
  need_library();
  static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  static const char *const toys[] = {"llama", "grouped"};
  ort_library *lib = library();
  for (size_t i = 0; i < 6; i++) {
    parts p = {0};
    int32_t tokens[N_STEPS];
    const unsigned long from = mark(lib);
    parts_open(&p, toys[i % 2]);
    greedy(p.session, p.state, tokens);
    for (int k = 0; k < 3; k++) parts_close(&p, orders[i][k]);
    assert_all_gone(lib);
    /* the outputs of 12 runs, then one allocator, binding, session and environment */
    assert_order(lib, from);
  }
}

static void a_value_held_outside_keeps_what_it_stands_on_after_the_engine_is_closed(void **unused) {
  (void)unused;
  need_library();
  ort_library *lib = library();
  parts p = {0};
  int32_t tokens[N_STEPS];
  const unsigned long from = mark(lib);
  parts_open(&p, "llama");
  greedy(p.session, p.state, tokens);
  /* an output of the last run, as an embedder would keep it */
  ort_object *held = ort_object_ref(p.session->outputs[0]);
  parts_close(&p, 2);
  parts_close(&p, 1);
  parts_close(&p, 0);
  assert_int_equal(atomic_load(&lib->live[ORT_KIND_VALUE]), 1);
  assert_int_equal(atomic_load(&lib->live[ORT_KIND_ALLOCATOR]), 1);
  assert_int_equal(atomic_load(&lib->live[ORT_KIND_SESSION]), 1);
  assert_int_equal(atomic_load(&lib->live[ORT_KIND_ENVIRONMENT]), 1);
  void *data = NULL;
  weft_error err = {0};
  assert_ok(ort_check(lib, lib->api.tensor_data(held->handle, &data), &err, "reads"), &err);
  volatile float seen = ((const float *)data)[TOY_VOCAB - 1]; /* still there: ASan would object */
  (void)seen;
  ort_object_unref(held);
  assert_all_gone(lib);
  assert_order(lib, from);
}

static void two_engines_share_one_environment_and_the_last_releases_it(void **unused) {
  (void)unused;
  need_library();
  ort_library *lib = library();
  parts a = {0}, b = {0};
  parts_open(&a, "llama");
  parts_open(&b, "grouped");
  assert_int_equal(atomic_load(&lib->live[ORT_KIND_ENVIRONMENT]), 1);
  assert_int_equal(atomic_load(&lib->live[ORT_KIND_SESSION]), 2);
  for (int k = 0; k < 3; k++) parts_close(&a, k);
  assert_int_equal(atomic_load(&lib->live[ORT_KIND_ENVIRONMENT]), 1);
  int32_t tokens[N_STEPS];
  greedy(b.session, b.state, tokens);
  for (int k = 0; k < 3; k++) parts_close(&b, k);
  assert_all_gone(lib);
}

static void a_process_has_one_library_and_says_which(void **unused) {
  (void)unused;
  need_library();
  weft_error err = {0};
  ort_library *lib = library(), *other = NULL;
  assert_ok(ort_library_open(&other, NULL, &err), &err);
  assert_ptr_equal(other, lib);
  assert_refused(ort_library_open(&other, "/nowhere/libonnxruntime.so", &err), WEFT_IO, &err);
  assert_non_null(strstr(err.what, "/nowhere/libonnxruntime.so"));
  assert_refused(ort_library_open(&other, "/proc/self/exe", &err), WEFT_UNSUPPORTED, &err);
  assert_non_null(strstr(err.what, lib->path));
  assert_non_null(strstr(err.what, "/proc/self/exe"));
}

/* ---- failures -------------------------------------------------------------------------------- */

static void a_failed_load_leaves_nothing_behind(void **unused) {
  (void)unused;
  need_library();
  ort_library *lib = library();
  toy t;
  weft_error err = {0};
  /* "gemm" and no ports fit, but no such file, no such provider */
  assert_refused(toy_open(&t, "no_such_toy", 1, &err), WEFT_IO, &err);
  assert_all_gone(lib);
  assert_ok(toy_open(&t, "llama", 1, &err), &err);
  wf_component_release(B, t.component);
  assert_all_gone(lib);
  static const char *const absent[] = {"NoSuch"};
  wf_compile_options o = t.options;
  o.model = WEFT_SOURCE_DIR "/tests/graph/longhand/llama.onnx";
  o.ports = NULL;
  o.providers = absent;
  o.n_providers = 1;
  wf_component *c = NULL;
  assert_refused(wf_component_compile(B, &c, &o, &err), WEFT_UNSUPPORTED, &err);
  assert_null(c);
  assert_all_gone(lib);
}

static void a_failed_run_leaves_the_state_as_it_was(void **unused) {
  (void)unused;
  need_library();
  static const char *const toys[] = {"llama", "grouped"};
  ort_library *lib = library();
  for (size_t i = 0; i < 2; i++) {
    parts p = {0};
    weft_error err = {0};
    float before[TOY_VOCAB * 2], after[TOY_VOCAB * 2];
    const int32_t next = 11, outside = 1 << 20;
    parts_open(&p, toys[i]);
    assert_ok(toy_run(p.session, p.state, 0, prompt, N_PROMPT, before, &err), &err);
    assert_ok(toy_run(p.session, p.state, N_PROMPT, &next, 1, before, &err), &err);
    assert_ok(wf_backend_state_truncate(B, p.state, N_PROMPT, &err), &err);
    assert_int_not_equal(toy_run(p.session, p.state, N_PROMPT, &outside, 1, after, &err), WEFT_OK);
    assert_non_null(strstr(err.what, "ONNX Runtime"));
    assert_ok(toy_run(p.session, p.state, N_PROMPT, &next, 1, after, &err), &err);
    assert_memory_equal(before, after, TOY_VOCAB * sizeof *before);
    /* a state of another length than the row says is refused before anything happens */
    assert_refused(toy_run(p.session, p.state, 3, &next, 1, after, &err), WEFT_INVALID_ARGUMENT,
                   &err);
    for (int k = 2; k >= 0; k--) parts_close(&p, k);
    assert_all_gone(lib);
  }
}

/* ---- foreign threads ------------------------------------------------------------------------- */

static void use_everything(void *user) {
  parts *p = user;
  weft_error err = {0};
  float logits[TOY_VOCAB * 2];
  wf_backend_state *fresh = NULL;
  assert_refused(toy_run(p->session, p->state, N_PROMPT, prompt, 1, logits, &err),
                 WEFT_WRONG_THREAD, &err);
  assert_refused(wf_backend_state_open(B, &fresh, p->session, &err), WEFT_WRONG_THREAD, &err);
  assert_refused(wf_backend_state_copy(B, &fresh, p->state, &err), WEFT_WRONG_THREAD, &err);
  assert_refused(wf_backend_state_truncate(B, p->state, 0, &err), WEFT_WRONG_THREAD, &err);
  assert_null(fresh);
}

static void use_from_a_foreign_thread_is_refused_and_changes_nothing(void **unused) {
  (void)unused;
  need_library();
  parts p = {0}, q = {0};
  weft_error err = {0};
  float a[TOY_VOCAB * 2], b[TOY_VOCAB * 2];
  const int32_t next = 11;
  parts_open(&p, "llama");
  parts_open(&q, "llama");
  assert_ok(toy_run(p.session, p.state, 0, prompt, N_PROMPT, a, &err), &err);
  assert_ok(toy_run(q.session, q.state, 0, prompt, N_PROMPT, b, &err), &err);
  elsewhere(use_everything, &p);
  assert_ok(toy_run(p.session, p.state, N_PROMPT, &next, 1, a, &err), &err);
  assert_ok(toy_run(q.session, q.state, N_PROMPT, &next, 1, b, &err), &err);
  assert_memory_equal(a, b, TOY_VOCAB * sizeof *a);
  for (int k = 0; k < 3; k++) {
    parts_close(&p, k);
    parts_close(&q, k);
  }
  assert_all_gone(library());
}

static void use_adopted(void *user) {
  parts *p = user;
  weft_error err = {0};
  float logits[TOY_VOCAB * 2];
  const int32_t next = 11;
  const uint64_t former = wf_owner_adopt(p->session->returned.owner);
  assert_ok(toy_run(p->session, p->state, N_PROMPT, &next, 1, logits, &err), &err);
  wf_owner_adopt(former);
}

static void whoever_holds_the_owners_token_is_the_owner(void **unused) {
  (void)unused;
  need_library();
  parts p = {0};
  weft_error err = {0};
  float logits[TOY_VOCAB * 2];
  parts_open(&p, "llama");
  assert_ok(toy_run(p.session, p.state, 0, prompt, N_PROMPT, logits, &err), &err);
  elsewhere(use_adopted, &p); /* as a runner's next holder does under its lock */
  for (int k = 0; k < 3; k++) parts_close(&p, k);
  assert_all_gone(library());
}

static void close_state(void *user) { wf_backend_state_close(B, user); }
static void close_session(void *user) { wf_backend_session_close(B, user); }

static void release_from_a_foreign_thread_waits_for_the_owner(void **unused) {
  (void)unused;
  need_library();
  ort_library *lib = library();
  parts p = {0};
  weft_error err = {0};
  float logits[TOY_VOCAB * 2];
  wf_backend_session *other = NULL;
  const long queued = atomic_load(&lib->n_queued), lost = atomic_load(&lib->n_quarantined);
  const unsigned long from = mark(lib);
  parts_open(&p, "llama");
  assert_ok(wf_backend_session_open(B, &other, p.t.component, NULL, 16, &err), &err);
  assert_ok(toy_run(p.session, p.state, 0, prompt, N_PROMPT, logits, &err), &err);
  elsewhere(close_state, p.state);
  elsewhere(close_session, p.session);
  assert_int_equal(atomic_load(&lib->n_queued), queued + 2);
  assert_int_equal(atomic_load(&lib->live[ORT_KIND_BINDING]), 2); /* taken, not yet freed */
  wf_backend_state *fresh = NULL;
  assert_ok(wf_backend_state_open(B, &fresh, other, &err), &err); /* the owner comes by */
  assert_int_equal(atomic_load(&lib->live[ORT_KIND_BINDING]), 1);
  assert_int_equal(atomic_load(&lib->n_quarantined), lost);
  wf_backend_state_close(B, fresh);
  wf_backend_session_close(B, other);
  parts_close(&p, 2);
  assert_all_gone(lib);
  assert_int_equal(lib->trace[(mark(lib) - 1) % ORT_TRACE], ORT_KIND_ENVIRONMENT);
  assert_true(mark(lib) > from);
}

static void what_no_owner_comes_for_is_freed_and_counted_by_closing(void **unused) {
  (void)unused;
  need_library();
  ort_library *lib = library();
  parts p = {0};
  weft_error err = {0};
  float logits[TOY_VOCAB * 2];
  const long lost = atomic_load(&lib->n_quarantined);
  const unsigned long from = mark(lib);
  parts_open(&p, "grouped");
  assert_ok(toy_run(p.session, p.state, 0, prompt, N_PROMPT, logits, &err), &err);
  elsewhere(close_session, p.session);
  elsewhere(close_state, p.state);
  assert_int_equal(atomic_load(&lib->n_quarantined), lost);
  parts_close(&p, 2);
  assert_int_equal(atomic_load(&lib->n_quarantined), lost + 2);
  assert_all_gone(lib);
  assert_order(lib, from);
}

static void a_release_after_closing_is_freed_at_once_and_counted(void **unused) {
  (void)unused;
  need_library();
  ort_library *lib = library();
  parts p = {0};
  const long lost = atomic_load(&lib->n_quarantined);
  const unsigned long from = mark(lib);
  parts_open(&p, "llama");
  parts_close(&p, 2);
  elsewhere(close_state, p.state);
  elsewhere(close_session, p.session);
  assert_int_equal(atomic_load(&lib->n_quarantined), lost + 2);
  assert_all_gone(lib);
  assert_order(lib, from);
}

/* ---- eight threads --------------------------------------------------------------------------- */

enum { N_THREADS = 8 };

typedef struct worker {
  wf_component *component;
  const int32_t *want;
  struct worker *next;
  wf_backend_state *_Atomic gift; /* a state for the neighbour to close */
  atomic_int *n_wrong;
} worker;

static void *work(void *arg) {
  worker *w = arg;
  weft_error err = {0};
  for (int round = 0; round < 6; round++) {
    wf_backend_session *session = NULL;
    wf_backend_state *state = NULL;
    float logits[TOY_VOCAB * 2];
    int32_t token = 0;
    int64_t past = 0;
    if (wf_backend_session_open(B, &session, w->component, NULL, 16, &err) != WEFT_OK ||
        wf_backend_state_open(B, &state, session, &err) != WEFT_OK) {
      ++*w->n_wrong;
      return NULL;
    }
    for (int i = 0; i < N_STEPS; i++) {
      const int64_t n = i ? 1 : N_PROMPT;
      if (toy_run(session, state, past, i ? &token : prompt, n, logits, &err) != WEFT_OK) {
        ++*w->n_wrong;
        break;
      }
      past += n;
      token = 0;
      for (int32_t v = 1; v < TOY_VOCAB; v++) token = logits[v] > logits[token] ? v : token;
      if (token != w->want[i]) ++*w->n_wrong;
    }
    wf_backend_session_close(B, session);
    /* the state goes to the neighbour, who is a foreign thread to it */
    wf_backend_state_close(B, atomic_exchange(&w->next->gift, state));
  }
  return NULL;
}

static void eight_threads_share_one_session_and_close_each_others_states(void **unused) {
  (void)unused;
  need_library();
  static const char *const toys[] = {"llama", "grouped"};
  ort_library *lib = library();
  for (size_t k = 0; k < 2; k++) {
    parts p = {0};
    int32_t want[N_STEPS];
    worker workers[N_THREADS] = {0};
    pthread_t threads[N_THREADS];
    atomic_int n_wrong = 0;
    parts_open(&p, toys[k]);
    assert_true(p.t.info->is_shared);
    greedy(p.session, p.state, want);
    for (int i = 0; i < N_THREADS; i++) {
      workers[i] = (worker){p.t.component, want, &workers[(i + 1) % N_THREADS], NULL, &n_wrong};
    }
    for (int i = 0; i < N_THREADS; i++)
      assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (int i = 0; i < N_THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&lib->live[ORT_KIND_SESSION]), 1);
    for (int i = 0; i < N_THREADS; i++) wf_backend_state_close(B, workers[i].gift);
    for (int i = 0; i < 3; i++) parts_close(&p, i);
    assert_int_equal(n_wrong, 0);
    assert_all_gone(lib);
  }
}

/* ---- a thousand times ------------------------------------------------------------------------ */

static long status_number(const char *field) {
  char line[256];
  long n = -1;
  FILE *f = fopen("/proc/self/status", "r");
  if (!f) return -1;
  while (n < 0 && fgets(line, sizeof line, f)) {
    if (strncmp(line, field, strlen(field)) == 0) n = strtol(line + strlen(field), NULL, 10);
  }
  fclose(f);
  return n;
}

static void load_and_unload(void) {
  parts p = {0};
  weft_error err = {0};
  float logits[TOY_VOCAB * 2];
  assert_ok(toy_open(&p.t, "llama", 2, &err), &err);
  assert_ok(wf_backend_session_open(B, &p.session, p.t.component, NULL, 16, &err), &err);
  assert_ok(wf_backend_state_open(B, &p.state, p.session, &err), &err);
  assert_ok(toy_run(p.session, p.state, 0, prompt, N_PROMPT, logits, &err), &err);
  wf_backend_session_rest(B, p.session);
  for (int k = 0; k < 3; k++) parts_close(&p, k);
}

/* A graph of one node: what a load costs the environment, not the optimiser. */
static void load_and_unload_small(const char *path) {
  weft_error err = {0};
  wf_component *c = NULL;
  wf_backend_session *s = NULL;
  float x = 2.5f;
  const wf_compile_options o = {.model = path, .n_threads = 2, .library = test_library()};
  const wf_view in = {.dtype = WF_DTYPE_F32, .rank = 1, .dims = {1}, .data = &x};
  wf_view out = {0};
  const wf_row row = {.inputs = &in, .outputs = &out};
  assert_ok(wf_component_compile(B, &c, &o, &err), &err);
  assert_ok(wf_backend_session_open(B, &s, c, NULL, 1, &err), &err);
  assert_ok(wf_backend_session_run(B, s, &row, 1, &err), &err);
  assert_true(*(const float *)out.data == -2.5f);
  wf_backend_session_close(B, s);
  wf_component_release(B, c);
}

/* y = -x of one float: IR 8, opset 13. */
#define PORT(letter) 0x0a, 1, letter, 0x12, 10, 0x0a, 8, 0x08, 1, 0x12, 4, 0x0a, 2, 0x08, 1
static const unsigned char small_model[] = {
    0x08, 8,   0x3a, 50, 0x0a, 11,   0x0a, 1,         'x',  0x12, 1,         'y',  0x22, 3,    'N',
    'e',  'g', 0x12, 1,  'g',  0x5a, 15,   PORT('x'), 0x62, 15,   PORT('y'), 0x42, 2,    0x10, 13};

static void a_thousand_loads_and_unloads_leave_no_memory_and_no_thread(void **unused) {
  (void)unused;
  need_library();
  char path[] = "/tmp/weft_ort_XXXXXX";
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, small_model, sizeof small_model), (ssize_t)sizeof small_model);
  close(fd);
  /* fewer under a sanitizer, where each is slow and memory is kept on purpose */
  const char *few = getenv("WEFT_TEST_LOADS");
  const long n = few ? strtol(few, NULL, 10) : 1000;
  for (int i = 0; i < 20; i++) {
    load_and_unload();
    load_and_unload_small(path);
  }
  const long kib = status_number("VmRSS:"), threads = status_number("Threads:");
  for (long i = 0; i < n; i++) {
    load_and_unload_small(path);
    if (i % 10 == 0) load_and_unload();
  }
  const long grown = status_number("VmRSS:") - kib;
  unlink(path);
  print_message("%ld loads: %ld KiB more of %ld\n", n, grown, kib);
  assert_int_equal(status_number("Threads:"), threads);
  if (!few) assert_true(grown < 4096); /* a leak of 4 KiB a load would show */
  assert_all_gone(library());
}

/* y = Loop over x that goes on while its counter is below the input "big"; by onnx.helper. */
static const unsigned char looping_model[] = {
    0x08, 0x08, 0x3a, 0xc5, 0x01, 0x0a, 0x8e, 0x01, 0x0a, 0x00, 0x0a, 0x00, 0x0a, 0x01, 0x78, 0x12,
    0x01, 0x79, 0x22, 0x04, 0x4c, 0x6f, 0x6f, 0x70, 0x2a, 0x7c, 0x0a, 0x04, 0x62, 0x6f, 0x64, 0x79,
    0x32, 0x71, 0x0a, 0x11, 0x0a, 0x01, 0x69, 0x0a, 0x03, 0x62, 0x69, 0x67, 0x12, 0x01, 0x64, 0x22,
    0x04, 0x4c, 0x65, 0x73, 0x73, 0x0a, 0x10, 0x0a, 0x01, 0x73, 0x12, 0x01, 0x74, 0x22, 0x08, 0x49,
    0x64, 0x65, 0x6e, 0x74, 0x69, 0x74, 0x79, 0x12, 0x01, 0x62, 0x5a, 0x0b, 0x0a, 0x01, 0x69, 0x12,
    0x06, 0x0a, 0x04, 0x08, 0x07, 0x12, 0x00, 0x5a, 0x0b, 0x0a, 0x01, 0x63, 0x12, 0x06, 0x0a, 0x04,
    0x08, 0x09, 0x12, 0x00, 0x5a, 0x0f, 0x0a, 0x01, 0x73, 0x12, 0x0a, 0x0a, 0x08, 0x08, 0x01, 0x12,
    0x04, 0x0a, 0x02, 0x08, 0x01, 0x62, 0x0b, 0x0a, 0x01, 0x64, 0x12, 0x06, 0x0a, 0x04, 0x08, 0x09,
    0x12, 0x00, 0x62, 0x0f, 0x0a, 0x01, 0x74, 0x12, 0x0a, 0x0a, 0x08, 0x08, 0x01, 0x12, 0x04, 0x0a,
    0x02, 0x08, 0x01, 0xa0, 0x01, 0x05, 0x12, 0x01, 0x67, 0x5a, 0x0f, 0x0a, 0x01, 0x78, 0x12, 0x0a,
    0x0a, 0x08, 0x08, 0x01, 0x12, 0x04, 0x0a, 0x02, 0x08, 0x01, 0x5a, 0x0d, 0x0a, 0x03, 0x62, 0x69,
    0x67, 0x12, 0x06, 0x0a, 0x04, 0x08, 0x07, 0x12, 0x00, 0x62, 0x0f, 0x0a, 0x01, 0x79, 0x12, 0x0a,
    0x0a, 0x08, 0x08, 0x01, 0x12, 0x04, 0x0a, 0x02, 0x08, 0x01, 0x42, 0x04, 0x0a, 0x00, 0x10, 0x11};

static void a_loop_without_an_end_is_ended_by_the_clock_and_the_session_lives_on(void **unused) {
  (void)unused;
  need_library();
  char path[] = "/tmp/weft_ort_XXXXXX";
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, looping_model, sizeof looping_model), (ssize_t)sizeof looping_model);
  close(fd);
  weft_error err = {0};
  wf_component *c = NULL;
  wf_backend_session *s = NULL;
  float x = 2.5f;
  int64_t big = INT64_MAX;
  const wf_compile_options o = {.model = path, .n_threads = 1, .library = test_library()};
  const wf_view in[2] = {{.dtype = WF_DTYPE_F32, .rank = 1, .dims = {1}, .data = &x},
                         {.dtype = WF_DTYPE_I64, .rank = 0, .data = &big}};
  wf_view out = {0};
  const wf_row row = {.inputs = in, .outputs = &out};
  assert_ok(wf_component_compile(B, &c, &o, &err), &err);
  unlink(path);
  assert_int_equal(c->loop_limit_ms, ORT_LOOP_LIMIT_MS);
  c->loop_limit_ms = 200; /* ten minutes are too long for a test */
  assert_ok(wf_backend_session_open(B, &s, c, NULL, 1, &err), &err);
  assert_refused(wf_backend_session_run(B, s, &row, 1, &err), WEFT_LIMIT, &err);
  big = 3;
  c->loop_limit_ms = 60000;
  assert_ok(wf_backend_session_run(B, s, &row, 1, &err), &err);
  assert_true(*(const float *)out.data == 2.5f);
  wf_backend_session_close(B, s);
  wf_component_release(B, c);
  assert_all_gone(library());
}

static void the_end_of_a_turn_gives_memory_back(void **unused) {
  (void)unused;
  need_library();
  enum { LONG = 600 };
  parts p = {0};
  weft_error err = {0};
  float logits[TOY_VOCAB * 2];
  static int32_t ids[LONG];
  wf_run_counters during = {0}, after = {0};
  for (int i = 0; i < LONG; i++) ids[i] = prompt[i % N_PROMPT];
  parts_open(&p, "llama");
  assert_ok(toy_run(p.session, p.state, 0, ids, LONG, logits, &err), &err);
  B->counters(p.session, &during);
  if (during.memory_held_bytes == 0) {
    assert_true(library()->minor < 23); /* older ones can't tell */
  } else {
    wf_backend_session_rest(B, p.session);
    B->counters(p.session, &after);
    /* attention alone has 4 heads of 600 x 600 floats in flight */
    assert_true(during.memory_held_bytes > 5 << 20);
    assert_true(after.memory_held_bytes < during.memory_held_bytes / 2);
    assert_true(after.memory_used_bytes <= after.memory_held_bytes);
    assert_ok(toy_run(p.session, p.state, LONG, ids, 1, logits, &err), &err);
  }
  for (int k = 0; k < 3; k++) parts_close(&p, k);
  assert_all_gone(library());
}

static void a_provider_that_may_not_run_concurrently_gets_a_session_a_worker(void **unused) {
  (void)unused;
  need_library();
  ort_library *lib = library();
  static const char *const azure[] = {"AzureExecutionProvider"};
  toy t = {0};
  parts p = {0};
  weft_error err = {0};
  int32_t mine[N_STEPS], theirs[N_STEPS];
  assert_ok(toy_open(&t, "llama", 1, &err), &err);
  wf_component_release(B, t.component);
  wf_compile_options o = t.options;
  o.ports = &t.ports;
  o.providers = azure;
  o.n_providers = 1;
  wf_component *c = NULL;
  const weft_status st = wf_component_compile(B, &c, &o, &err);
  if (st == WEFT_UNSUPPORTED) skip(); /* a build without it; no other is at hand to try */
  assert_ok(st, &err);
  const wf_component_info *info = wf_component_describe(B, c);
  assert_false(info->is_shared);
  assert_non_null(strstr(info->why_not_shared, "AzureExecutionProvider"));
  assert_int_equal(atomic_load(&lib->live[ORT_KIND_SESSION]), 0);
  wf_backend_session *s[2] = {NULL, NULL};
  wf_backend_state *state = NULL;
  for (int i = 0; i < 2; i++) assert_ok(wf_backend_session_open(B, &s[i], c, NULL, 16, &err), &err);
  assert_int_equal(atomic_load(&lib->live[ORT_KIND_SESSION]), 2);
  assert_ok(wf_backend_state_open(B, &state, s[0], &err), &err);
  greedy(s[0], state, mine);
  wf_backend_state_close(B, state);
  for (int i = 0; i < 2; i++) wf_backend_session_close(B, s[i]);
  wf_component_release(B, c);
  assert_all_gone(lib);
  parts_open(&p, "llama");
  greedy(p.session, p.state, theirs);
  for (int k = 0; k < 3; k++) parts_close(&p, k);
  assert_memory_equal(mine, theirs, sizeof mine);
}

static void a_copied_state_goes_its_own_way(void **unused) {
  (void)unused;
  need_library();
  static const char *const toys[] = {"llama", "grouped"};
  for (size_t i = 0; i < 2; i++) {
    parts p = {0};
    weft_error err = {0};
    wf_backend_state *copy = NULL;
    float a[TOY_VOCAB * 2], b[TOY_VOCAB * 2], unused_logits[TOY_VOCAB * 2];
    const int32_t one = 11, other = 30;
    parts_open(&p, toys[i]);
    assert_ok(toy_run(p.session, p.state, 0, prompt, N_PROMPT, a, &err), &err);
    assert_ok(wf_backend_state_copy(B, &copy, p.state, &err), &err);
    assert_true(wf_backend_state_bytes(B, copy) > 0);
    assert_ok(toy_run(p.session, p.state, N_PROMPT, &one, 1, a, &err), &err);
    assert_ok(toy_run(p.session, copy, N_PROMPT, &other, 1, unused_logits, &err), &err);
    assert_ok(wf_backend_state_truncate(B, copy, N_PROMPT, &err), &err);
    assert_ok(toy_run(p.session, copy, N_PROMPT, &one, 1, b, &err), &err);
    assert_memory_equal(a, b, TOY_VOCAB * sizeof *a);
    wf_backend_state_close(B, copy);
    for (int k = 0; k < 3; k++) parts_close(&p, k);
  }
  assert_all_gone(library());
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whatever_is_closed_first_the_library_sees_one_order),
      cmocka_unit_test(a_value_held_outside_keeps_what_it_stands_on_after_the_engine_is_closed),
      cmocka_unit_test(two_engines_share_one_environment_and_the_last_releases_it),
      cmocka_unit_test(a_process_has_one_library_and_says_which),
      cmocka_unit_test(a_failed_load_leaves_nothing_behind),
      cmocka_unit_test(a_failed_run_leaves_the_state_as_it_was),
      cmocka_unit_test(use_from_a_foreign_thread_is_refused_and_changes_nothing),
      cmocka_unit_test(whoever_holds_the_owners_token_is_the_owner),
      cmocka_unit_test(release_from_a_foreign_thread_waits_for_the_owner),
      cmocka_unit_test(what_no_owner_comes_for_is_freed_and_counted_by_closing),
      cmocka_unit_test(a_release_after_closing_is_freed_at_once_and_counted),
      cmocka_unit_test(eight_threads_share_one_session_and_close_each_others_states),
      cmocka_unit_test(a_loop_without_an_end_is_ended_by_the_clock_and_the_session_lives_on),
      cmocka_unit_test(the_end_of_a_turn_gives_memory_back),
      cmocka_unit_test(a_provider_that_may_not_run_concurrently_gets_a_session_a_worker),
      cmocka_unit_test(a_copied_state_goes_its_own_way),
      cmocka_unit_test(a_thousand_loads_and_unloads_leave_no_memory_and_no_thread),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
