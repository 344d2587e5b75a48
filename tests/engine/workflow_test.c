/* SPDX-License-Identifier: Apache-2.0 */
/* A workflow and its sessions through the public interface: what a callback may do, what outlives
 * what, which thread may let go. The workflow counts: each trip adds x to a sum that the session
 * keeps, and publishes it as an event. */
#include "weft/weft.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "support/test.h"

static const char document[] =
    "schema_version: v1\npipeline:\n  workflow:\n"
    "    manifest: {capabilities: [workflow_ssa, typed_emit, streaming_emit, nested_control_flow, "
    "linear_effects, session_state_lease]}\n"
    "    inputs:\n"
    "      x: &x {contract: &v {dtype: float32, rank: 2, shape: [batch, 2], batch_layout: {kind: "
    "request_aligned, axis: 0}}, role: {kind: opaque}, source: {kind: application, name: x}}\n"
    "      start: {contract: *v, role: {kind: opaque}, source: {kind: application, name: start}}\n"
    "      n: {contract: {dtype: int64, rank: 1, shape: [1]}, role: {kind: runtime, version: "
    "'1.0', "
    "role: max_output_tokens}, source: {kind: request}}\n"
    "      go: {contract: &b {dtype: bool, rank: 1, shape: [1]}, role: {kind: opaque}, source: "
    "{kind: literal}, required: false, default: true}\n"
    "    outputs: {sum: {contract: *v, role: tensor, stage: pre_adapter}}\n"
    "    components: {f: {implementation: {kind: onnx, artifact: f.onnx.textproto}, ports: "
    "{inputs: "
    "{x: *v, d: *v}, outputs: {y: *v}}}}\n"
    "    state:\n"
    "      acc: {contract: *v, scope: session, initializer: start, recurrence: {kind: invariant}}\n"
    "      more: {contract: *b, scope: invocation, initializer: go, recurrence: {kind: "
    "invariant}}\n"
    "    steps:\n"
    "    - kind: loop\n      setup: []\n"
    "      steps:\n"
    "      - {kind: invoke, component: f, inputs: {x: acc, d: x}, outputs: {y: acc1}}\n"
    "      - {kind: emit, value: acc1, output: sum, mode: event}\n"
    "      continue_when: more\n      max_iterations: n\n      termination: predicate\n"
    "      carried: [{cell: acc, next: acc1}, {cell: more, next: more}]\n";

#define PORT(name)                                                                   \
  "{ name: \"" name                                                                  \
  "\" type { tensor_type { elem_type: 1 shape { dim { dim_param: \"batch\" } dim { " \
  "dim_value: 2 } } } } }"
static const char graph[] =
    "ir_version: 10 opset_import { version: 21 } graph { name: \"f\" node { input: \"x\" input: "
    "\"d\" output: \"y\" op_type: \"Add\" } input " PORT("x") " input " PORT("d") " output " PORT(
        "y") " }";

static char *folder;

static void put_file(const char *name, const char *text) {
  weft_error err = {0};
  char *path = wf_path_join(folder, name);
  assert_ok(wf_file_write(path, text, strlen(text), false, &err), &err);
  wf_free(path);
}

static int make_package(void **state) {
  (void)state;
  folder = wf_path_join(getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", "weft-workflow-XXXXXX");
  if (!folder || !mkdtemp(folder)) return 1;
  put_file("inference_metadata.yaml", document);
  put_file("f.onnx.textproto", graph);
  return 0;
}

static int remove_package(void **state) {
  static const char *const names[] = {"inference_metadata.yaml", "f.onnx.textproto", "s"};
  (void)state;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char *path = wf_path_join(folder, names[i]);
    (void)unlink(path);
    wf_free(path);
  }
  const int failed = rmdir(folder);
  wf_free(folder);
  return failed;
}

static weft_workflow *open_workflow(void) {
  weft_error err = {0};
  weft_workflow *w = NULL;
  assert_ok(weft_workflow_open(&w, folder, NULL, &err), &err);
  return w;
}

/* A turn of n trips that adds `x` to both elements of one row. */
typedef struct ask {
  float x[2], start[2];
  weft_tensor in[2];
  weft_request request;
} ask;

static void make_ask(ask *a, float x, int64_t n) {
  static const int64_t dims[2] = {1, 2};
  *a = (ask){.x = {x, 2.0f * x}};
  a->in[0] =
      (weft_tensor){.name = "x", .dtype = 1, .rank = 2, .dims = dims, .data = a->x, .n_bytes = 8};
  a->in[1] = a->in[0];
  a->in[1].name = "start";
  a->in[1].data = a->start;
  weft_request_init(&a->request, sizeof a->request);
  a->request.n_inputs = 2;
  a->request.inputs = a->in;
  a->request.has_max_tokens = 1;
  a->request.max_tokens = n;
}

static weft_session *open_session(weft_workflow *w) {
  weft_error err = {0};
  weft_session *s = NULL;
  assert_ok(weft_session_create(&s, w, &err), &err);
  return s;
}

static void assert_result(weft_workflow *w, float expected) {
  weft_tensor t = {.struct_size = sizeof t};
  assert_int_equal(weft_workflow_result(w, 0, -1, &t), 1);
  assert_int_equal(t.n_bytes, 8);
  assert_true(((const float *)t.data)[0] == expected);
  assert_true(((const float *)t.data)[1] == 2.0f * expected);
}

/* Adds x once and says what the sum is then. */
static void turn(weft_workflow *w, weft_session *s, float x, float expected) {
  weft_error err = {0};
  ask a;
  make_ask(&a, x, 1);
  assert_ok(weft_session_turn(s, &a.request, &err), &err);
  assert_result(w, expected);
}

static void a_session_continues_and_others_do_not_see_it(void **state) {
  weft_workflow *w = open_workflow();
  weft_session *a = open_session(w), *b = open_session(w);
  (void)state;
  assert_true(weft_session_number(a) == 1 && weft_session_number(b) == 2);
  turn(w, a, 1, 1);
  turn(w, b, 10, 10);
  turn(w, a, 2, 3);
  turn(w, b, 10, 20);
  weft_session_close(a);
  a = open_session(w);
  assert_true(weft_session_number(a) == 3); /* never given twice */
  turn(w, a, 5, 5);
  weft_session_close(a);
  weft_session_close(b);
  weft_workflow_close(w);
}

static void fork_snapshot_rewind_and_reset(void **state) {
  weft_error err = {0};
  weft_workflow *w = open_workflow();
  weft_session *a = open_session(w), *b = NULL;
  weft_snapshot *then = NULL;
  (void)state;
  turn(w, a, 1, 1);
  assert_ok(weft_session_fork(&b, a, &err), &err);
  assert_ok(weft_session_snapshot(&then, a, &err), &err);
  turn(w, a, 1, 2);
  turn(w, b, 4, 5);
  turn(w, a, 1, 3);
  assert_ok(weft_session_rewind(a, then, &err), &err);
  turn(w, a, 8, 9);
  assert_ok(weft_session_rewind(b, then, &err), &err); /* any session of the workflow */
  turn(w, b, 1, 2);
  assert_ok(weft_session_rewind(a, then, &err), &err); /* and again */
  turn(w, a, 0, 1);
  assert_ok(weft_session_reset(a, &err), &err);
  turn(w, a, 7, 7);
  weft_workflow *other = open_workflow();
  weft_session *stranger = open_session(other);
  assert_int_equal(weft_session_rewind(stranger, then, &err), WEFT_INVALID_ARGUMENT);
  weft_session_close(stranger);
  weft_workflow_close(other);
  weft_snapshot_release(then);
  weft_session_close(a);
  weft_session_close(b);
  weft_workflow_close(w);
}

static void a_saved_session_goes_on_in_another_workflow_of_the_package(void **state) {
  weft_error err = {0};
  char *path = wf_path_join(folder, "s");
  weft_workflow *w = open_workflow(), *other = open_workflow();
  weft_session *a = open_session(w), *b = open_session(other);
  (void)state;
  turn(w, a, 3, 3);
  assert_ok(weft_session_save(a, path, &err), &err);
  turn(other, b, 1, 1);
  assert_ok(weft_session_load(b, path, &err), &err);
  turn(other, b, 1, 4);
  weft_session_close(a);
  weft_session_close(b);
  weft_workflow_close(w);
  weft_workflow_close(other);
  wf_free(path);
}

/* ---- callbacks ----------------------------------------------------------------------------- */

typedef struct listener {
  weft_workflow *w;
  weft_session *s;
  float sums[8];
  int n, stop_at;
  bool closes;
} listener;

static int on_emit(void *user, const weft_emit *e) {
  listener *l = user;
  weft_error err = {0};
  ask a;
  assert_string_equal(e->value->name, "sum");
  assert_int_equal(e->mode, WEFT_EMIT_EVENT);
  assert_true(e->row == -1 && e->sequence == l->n);
  l->sums[l->n++] = ((const float *)e->value->data)[0];
  /* no way in from here, but for cancel and close */
  make_ask(&a, 1, 1);
  assert_int_equal(weft_session_turn(l->s, &a.request, &err), WEFT_SESSION_BUSY);
  assert_int_equal(weft_session_reset(l->s, &err), WEFT_SESSION_BUSY);
  assert_int_equal(weft_workflow_n_events(l->w, 0), 0);
  if (l->closes) {
    weft_session_close(l->s);
    weft_workflow_close(l->w);
    l->closes = false;
  }
  return l->n == l->stop_at;
}

static void emits_come_as_they_happen_and_a_listener_can_end_the_run(void **state) {
  weft_error err = {0};
  weft_workflow *w = open_workflow();
  weft_session *s = open_session(w);
  listener l = {.w = w, .s = s};
  ask a;
  (void)state;
  make_ask(&a, 2, 3);
  a.request.on_emit = on_emit;
  a.request.on_emit_user = &l;
  assert_ok(weft_session_turn(s, &a.request, &err), &err);
  assert_true(l.n == 3 && l.sums[0] == 2 && l.sums[1] == 4 && l.sums[2] == 6);
  assert_int_equal(weft_workflow_n_events(w, 0), 3);
  weft_tensor t = {.struct_size = sizeof t};
  assert_int_equal(weft_workflow_event(w, 0, 1, &t), 1);
  assert_true(((const float *)t.data)[0] == 4);
  assert_int_equal(weft_workflow_event(w, 0, 3, &t), 0);
  l.n = 0;
  l.stop_at = 2;
  assert_int_equal(weft_session_turn(s, &a.request, &err), WEFT_CANCELLED);
  assert_int_equal(l.n, 2);
  assert_int_equal(weft_workflow_n_events(w, 0), 0); /* a run that failed has no results */
  turn(w, s, 0, 6);                                  /* and left the session as it was */
  weft_session_close(s);
  weft_workflow_close(w);
}

static void closing_from_a_callback_waits_for_the_run(void **state) {
  weft_error err = {0};
  weft_workflow *w = open_workflow();
  weft_session *s = open_session(w);
  listener l = {.w = w, .s = s, .closes = true, .stop_at = 1};
  ask a;
  (void)state;
  make_ask(&a, 2, 1);
  a.request.on_emit = on_emit;
  a.request.on_emit_user = &l;
  /* everything is gone when this returns; ASan and LeakSanitizer say whether it is so */
  assert_int_equal(weft_session_turn(s, &a.request, &err), WEFT_CANCELLED);
}

/* ---- who lets go, and where ---------------------------------------------------------------- */

static void *release_elsewhere(void *what) {
  void **list = what;
  weft_session_close(list[0]);
  weft_snapshot_release(list[1]);
  weft_workflow_close(list[2]);
  return NULL;
}

/* All orders of session, snapshot and workflow; each here or on a thread that never ran it. */
static void any_order_of_release_on_any_thread(void **state) {
  static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  (void)state;
  for (size_t o = 0; o < 6; o++) {
    for (int elsewhere = 0; elsewhere < 8; elsewhere++) {
      weft_error err = {0};
      weft_workflow *w = open_workflow();
      weft_session *s = open_session(w);
      weft_snapshot *then = NULL;
      turn(w, s, 1, 1);
      assert_ok(weft_session_snapshot(&then, s, &err), &err);
      for (int i = 0; i < 3; i++) {
        void *list[3] = {NULL, NULL, NULL};
        const int which = orders[o][i];
        list[which] = which == 0 ? (void *)s : which == 1 ? (void *)then : (void *)w;
        if (elsewhere >> i & 1) {
          pthread_t t;
          assert_int_equal(pthread_create(&t, NULL, release_elsewhere, list), 0);
          assert_int_equal(pthread_join(t, NULL), 0);
        } else {
          (void)release_elsewhere(list);
        }
      }
    }
  }
}

static void a_session_outlives_the_handle_of_its_workflow(void **state) {
  weft_error err = {0};
  weft_workflow *w = open_workflow();
  weft_session *s = open_session(w);
  ask a;
  (void)state;
  weft_workflow_close(w);
  make_ask(&a, 1, 2);
  assert_ok(weft_session_turn(s, &a.request, &err), &err);
  weft_session_close(s);
}

/* Eight threads with a session each: the workflow refuses the one that comes while another runs,
 * and each session has at the end what its own turns gave it. */
typedef struct runner {
  weft_workflow *w;
  weft_session *s;
  int n_done;
} runner;

static void *run_turns(void *user) {
  runner *r = user;
  weft_error err = {0};
  ask a;
  while (r->n_done < 25) {
    make_ask(&a, 1, 1);
    const weft_status st = weft_session_turn(r->s, &a.request, &err);
    if (st == WEFT_OK)
      r->n_done++;
    else if (st != WEFT_SESSION_BUSY)
      return (void *)1;
  }
  return NULL;
}

static void sessions_of_eight_threads_never_mix(void **state) {
  weft_workflow *w = open_workflow();
  pthread_t threads[8];
  runner runners[8];
  (void)state;
  for (int i = 0; i < 8; i++) {
    runners[i] = (runner){w, open_session(w), 0};
    for (int k = 0; k < i; k++) turn(w, runners[i].s, 100, 100.0f * (float)(k + 1));
  }
  for (int i = 0; i < 8; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, run_turns, &runners[i]), 0);
  }
  for (int i = 0; i < 8; i++) {
    void *failed = NULL;
    assert_int_equal(pthread_join(threads[i], &failed), 0);
    assert_null(failed);
  }
  for (int i = 0; i < 8; i++) {
    turn(w, runners[i].s, 0, 100.0f * (float)i + 25.0f);
    weft_session_close(runners[i].s);
  }
  weft_workflow_close(w);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_session_continues_and_others_do_not_see_it),
      cmocka_unit_test(fork_snapshot_rewind_and_reset),
      cmocka_unit_test(a_saved_session_goes_on_in_another_workflow_of_the_package),
      cmocka_unit_test(emits_come_as_they_happen_and_a_listener_can_end_the_run),
      cmocka_unit_test(closing_from_a_callback_waits_for_the_run),
      cmocka_unit_test(any_order_of_release_on_any_thread),
      cmocka_unit_test(a_session_outlives_the_handle_of_its_workflow),
      cmocka_unit_test(sessions_of_eight_threads_never_mix),
  };
  return cmocka_run_group_tests(tests, make_package, remove_package);
}
