/* SPDX-License-Identifier: Apache-2.0 */
/* The machine of a pass on plans written by hand, with components that the test plays: every number
 * expected here is worked out from format §6 on paper. */
#include "workflow/pass.h"

#include <stdarg.h>
#include <string.h>

#include "support/test.h"

/* ---- plans by hand ------------------------------------------------------------------------- */

enum { B = 0 }; /* the package's only symbol, "batch" */

static const wf_plan_symbol symbols[] = {{"batch", false}};

static wf_plan_contract scalar(wf_dtype t) {
  return (wf_plan_contract){.dtype = t, .has_shape = true, .factor = 1};
}

/* [batch] or [batch, extent]; extent < 0: free, by leaving the shape out. */
static wf_plan_contract rows(wf_dtype t) {
  return (wf_plan_contract){.dtype = t,
                            .rank = 1,
                            .has_shape = true,
                            .dims = {{0, B}},
                            .layout = WF_LAYOUT_ALIGNED,
                            .factor = 1};
}
static wf_plan_contract table(wf_dtype t) {
  return (wf_plan_contract){.dtype = t, .rank = 2, .layout = WF_LAYOUT_ALIGNED, .factor = 1};
}

static wf_slot slot(int32_t v) { return (wf_slot){v}; }
static const wf_slot none = {-1};

static wf_view view(wf_dtype t, void *data, int32_t rank, ...) {
  wf_view v = {.dtype = t, .rank = rank, .data = data};
  va_list args;
  va_start(args, rank);
  for (int32_t i = 0; i < rank; i++) v.dims[i] = va_arg(args, int);
  va_end(args);
  return v;
}

/* What a test's component does with its inputs. */
typedef weft_status play(void *user, const wf_invocation *v, wf_datum_pool *pool,
                         wf_datum **results);

typedef struct outcome {
  weft_status status;
  weft_error err;
  wf_pass *pass;
  wf_datum_pool *pool;
} outcome;

static outcome run(const wf_plan *plan, wf_request *request, play *f, void *user)
    WF_TSA(no_thread_safety_analysis) {
  outcome o = {0};
  wf_invocation v;
  wf_datum *results[8] = {0};
  bool is_done = false;
  wf_pass_mint mint = {0};
  assert_int_equal(wf_datum_pool_create(&o.pool, &o.err), WEFT_OK);
  o.status = wf_pass_open(&o.pass, plan, wf_pass_id_next(&mint), o.pool, request, &o.err);
  while (o.status == WEFT_OK) {
    o.status = wf_pass_run(o.pass, &v, &is_done, &o.err);
    if (o.status != WEFT_OK || is_done) break;
    memset(results, 0, sizeof results);
    o.status = f(user, &v, o.pool, results);
    if (o.status == WEFT_OK) o.status = wf_pass_resume(o.pass, results, &o.err);
  }
  return o;
}

static void end(outcome *o) WF_TSA(no_thread_safety_analysis) {
  wf_pass_close(o->pass);
  wf_datum_pool_destroy(o->pool);
}

static void assert_ints(const wf_view *v, size_t n, const int64_t *expected) {
  assert_non_null(v);
  assert_int_equal(wf_view_elements(v), (int64_t)n);
  for (size_t i = 0; i < n; i++) {
    int64_t x = 0;
    assert_true(wf_view_int(v, (int64_t)i, &x));
    assert_int_equal(x, expected[i]);
  }
}

/* ---- a loop over rows ---------------------------------------------------------------------- */

/* Inputs: limit (0), tokens [batch, n] (1), active [batch] (2), one (3). Cells: state [batch, n]
 * (4), go [batch] (5). Iteration (6); the body's values: next (7), go (8). Output: 4, replaced in
 * each iteration's end and after the loop. */
enum { LIMIT, TOKENS, ACTIVE, ONE, STATE, GO, INDEX, NEXT, NEXT_GO, N_SLOTS };

static const char *const slot_names[] = {"limit", "tokens", "active", "one",    "state",
                                         "go",    "index",  "next",   "next.go"};

typedef struct loop_plan {
  wf_plan plan;
  wf_plan_input inputs[4];
  wf_plan_output outputs[1];
  wf_plan_component components[1];
  wf_plan_port in[3], out[2];
  wf_plan_cell cells[2];
  wf_plan_binding bind_in[3], bind_out[2];
  wf_plan_carry carries[2];
  wf_plan_step invoke, body, setup, loop, emit, root;
  const wf_plan_step *body_steps[1], *root_steps[2];
} loop_plan;

static void make_loop(loop_plan *p, wf_recurrence_kind recurrence) {
  *p = (loop_plan){0};
  p->inputs[0] = (wf_plan_input){.name = "limit",
                                 .contract = scalar(WF_DTYPE_I64),
                                 .role = WF_ROLE_MAX_ITERATIONS,
                                 .source = WF_SOURCE_REQUEST,
                                 .is_required = true,
                                 .slot = slot(LIMIT),
                                 .present = none};
  p->inputs[1] = (wf_plan_input){.name = "tokens",
                                 .source_name = "tokens",
                                 .contract = table(WF_DTYPE_I64),
                                 .source = WF_SOURCE_APPLICATION,
                                 .is_required = true,
                                 .slot = slot(TOKENS),
                                 .present = none};
  p->inputs[2] = (wf_plan_input){.name = "active",
                                 .source_name = "active",
                                 .contract = rows(WF_DTYPE_BOOL),
                                 .source = WF_SOURCE_APPLICATION,
                                 .is_required = true,
                                 .slot = slot(ACTIVE),
                                 .present = none};
  static const int64_t one = 1;
  p->inputs[3] = (wf_plan_input){.name = "one",
                                 .contract = scalar(WF_DTYPE_I64),
                                 .source = WF_SOURCE_LITERAL,
                                 .is_required = true,
                                 .literal = {.kind = WF_LITERAL_INT, .n = 1, .ints = &one},
                                 .slot = slot(ONE),
                                 .present = none};
  p->outputs[0] = (wf_plan_output){.name = "out", .contract = table(WF_DTYPE_I64)};
  static const char *const ports[] = {"state", "active", "index"};
  for (int i = 0; i < 3; i++) {
    p->in[i] = (wf_plan_port){.name = ports[i]};
    p->bind_in[i] = (wf_plan_binding){i, slot(i == 0 ? STATE : i == 1 ? GO : INDEX)};
  }
  p->out[0] = (wf_plan_port){.name = "next"};
  p->out[1] = (wf_plan_port){.name = "go"};
  p->bind_out[0] = (wf_plan_binding){0, slot(NEXT)};
  p->bind_out[1] = (wf_plan_binding){1, slot(NEXT_GO)};
  p->components[0] = (wf_plan_component){.name = "step",
                                         .kind = WF_COMPONENT_ONNX,
                                         .n_inputs = 3,
                                         .n_outputs = 2,
                                         .inputs = p->in,
                                         .outputs = p->out};
  p->cells[0] = (wf_plan_cell){.name = "state",
                               .contract = table(WF_DTYPE_I64),
                               .recurrence = recurrence,
                               .axis = 1,
                               .group = -1,
                               .initializer = slot(TOKENS)};
  p->cells[1] = (wf_plan_cell){
      .name = "go", .contract = rows(WF_DTYPE_BOOL), .group = -1, .initializer = slot(ACTIVE)};
  p->carries[0] = (wf_plan_carry){0, slot(STATE), slot(TOKENS), slot(NEXT), slot(ONE), slot(LIMIT)};
  p->carries[1] = (wf_plan_carry){1, slot(GO), slot(ACTIVE), slot(NEXT_GO), none, none};
  p->invoke = (wf_plan_step){.kind = WF_STEP_INVOKE, .path = "steps[0].steps[0]"};
  p->invoke.as.invoke.n_inputs = 3;
  p->invoke.as.invoke.n_outputs = 2;
  p->invoke.as.invoke.inputs = p->bind_in;
  p->invoke.as.invoke.outputs = p->bind_out;
  p->body_steps[0] = &p->invoke;
  p->body = (wf_plan_step){.kind = WF_STEP_SEQUENCE, .path = "steps[0]"};
  p->body.as.sequence.n = 1;
  p->body.as.sequence.steps = p->body_steps;
  p->setup = (wf_plan_step){.kind = WF_STEP_SEQUENCE, .path = "steps[0]"};
  p->loop = (wf_plan_step){.kind = WF_STEP_LOOP, .path = "steps[0]"};
  p->loop.as.loop.setup = &p->setup;
  p->loop.as.loop.body = &p->body;
  p->loop.as.loop.continue_when = slot(GO);
  p->loop.as.loop.max_iterations = slot(LIMIT);
  p->loop.as.loop.iteration = slot(INDEX);
  p->loop.as.loop.iteration_contract = scalar(WF_DTYPE_I64);
  p->loop.as.loop.n_carries = 2;
  p->loop.as.loop.carries = p->carries;
  p->loop.as.loop.first = slot(INDEX);
  p->loop.as.loop.last = slot(N_SLOTS);
  p->emit = (wf_plan_step){.kind = WF_STEP_EMIT, .path = "steps[1]"};
  p->emit.as.emit.value = slot(STATE);
  p->emit.as.emit.when = p->emit.as.emit.valid_length = none;
  p->root_steps[0] = &p->loop;
  p->root_steps[1] = &p->emit;
  p->root = (wf_plan_step){.kind = WF_STEP_SEQUENCE, .path = ""};
  p->root.as.sequence.n = 2;
  p->root.as.sequence.steps = p->root_steps;
  p->plan = (wf_plan){.n_slots = N_SLOTS,
                      .slot_names = slot_names,
                      .n_symbols = 1,
                      .symbols = symbols,
                      .n_inputs = 4,
                      .n_outputs = 1,
                      .n_components = 1,
                      .n_cells = 2,
                      .inputs = p->inputs,
                      .outputs = p->outputs,
                      .components = p->components,
                      .cells = p->cells,
                      .root = &p->root,
                      .max_depth = 8};
}

/* How the played component goes on. */
typedef struct stepper {
  int64_t grow;    /* columns it adds */
  int64_t stop_at; /* row r stops after iteration r + stop_at */
  int64_t n_calls;
  int64_t indices[16];
} stepper;

/* next = state + 10 in every element, and new columns of 1000 + row; go = index < row + stop_at. */
static weft_status play_step(void *user, const wf_invocation *v, wf_datum_pool *pool,
                             wf_datum **results) {
  stepper *s = user;
  weft_error err;
  const wf_view *state = &v->inputs[0];
  const int64_t n_rows = state->dims[0], was = state->dims[1], now = was + s->grow;
  const int64_t dims[2] = {n_rows, now};
  int64_t index = -1;
  assert_true(wf_view_int(&v->inputs[2], 0, &index));
  assert_true(v->wanted[0] && v->wanted[1]);
  s->indices[s->n_calls++] = index;
  assert_int_equal(wf_datum_create(&results[0], pool, WF_DTYPE_I64, 2, dims, &err), WEFT_OK);
  assert_int_equal(wf_datum_create(&results[1], pool, WF_DTYPE_BOOL, 1, dims, &err), WEFT_OK);
  const int64_t *from = state->data;
  int64_t *to = results[0]->view.data;
  for (int64_t r = 0; r < n_rows; r++) {
    for (int64_t i = 0; i < now; i++) {
      to[r * now + i] = i < was ? from[r * was + i] + 10 : 1000 + r;
    }
    ((unsigned char *)results[1]->view.data)[r] = index < r + s->stop_at;
  }
  return WEFT_OK;
}

static outcome run_loop(loop_plan *p, int64_t limit, bool a, bool b, stepper *s) {
  static int64_t tokens[4];
  static unsigned char active[2];
  static wf_named_view given[2];
  static wf_request r;
  tokens[0] = 1, tokens[1] = 2, tokens[2] = 3, tokens[3] = 4;
  active[0] = a, active[1] = b;
  given[0] = (wf_named_view){"tokens", view(WF_DTYPE_I64, tokens, 2, 2, 2)};
  given[1] = (wf_named_view){"active", view(WF_DTYPE_BOOL, active, 1, 2)};
  r = (wf_request){.n_tensors = 2, .tensors = given, .has_max_tokens = true, .max_tokens = limit};
  return run(&p->plan, &r, play_step, s);
}

static void a_false_start_gives_no_iteration_and_cells_at_their_first_value(void **state) {
  (void)state;
  loop_plan p;
  stepper s = {0};
  make_loop(&p, WF_RECURRENCE_INVARIANT);
  outcome o = run_loop(&p, 5, false, false, &s);
  assert_int_equal(o.status, WEFT_OK);
  assert_int_equal(s.n_calls, 0);
  assert_ints(wf_pass_output(o.pass, 0), 4, (const int64_t[]){1, 2, 3, 4});
  end(&o);
}

static void the_limit_ends_a_loop_without_an_error_and_iterations_count_from_0(void **state) {
  (void)state;
  loop_plan p;
  stepper s = {.stop_at = 100};
  make_loop(&p, WF_RECURRENCE_INVARIANT);
  outcome o = run_loop(&p, 3, true, true, &s);
  assert_int_equal(o.status, WEFT_OK);
  assert_int_equal(s.n_calls, 3);
  for (int64_t i = 0; i < 3; i++) assert_int_equal(s.indices[i], i);
  assert_int_equal(wf_pass_count(o.pass)->iterations, 3);
  assert_ints(wf_pass_output(o.pass, 0), 4, (const int64_t[]){31, 32, 33, 34});
  end(&o);
  o = run_loop(&p, 0, true, true, &s);
  assert_int_equal(o.status, WEFT_OK);
  assert_ints(wf_pass_output(o.pass, 0), 4, (const int64_t[]){1, 2, 3, 4});
  end(&o);
  o = run_loop(&p, -1, true, true, &s);
  assert_int_equal(o.status, WEFT_RUN);
  assert_non_null(strstr(o.err.what, "max_iterations"));
  end(&o);
}

static void rows_that_stand_still_keep_what_they_had(void **state) {
  (void)state;
  loop_plan p;
  stepper s = {.stop_at = 1}; /* row 0 goes twice (0, 1), row 1 three times */
  make_loop(&p, WF_RECURRENCE_INVARIANT);
  outcome o = run_loop(&p, 10, true, true, &s);
  assert_int_equal(o.status, WEFT_OK);
  assert_int_equal(s.n_calls, 3);
  assert_ints(wf_pass_output(o.pass, 0), 4, (const int64_t[]){21, 22, 33, 34});
  end(&o);
  /* from the start: row 0 never moves */
  s = (stepper){.stop_at = 0};
  o = run_loop(&p, 10, false, true, &s);
  assert_int_equal(o.status, WEFT_OK);
  assert_ints(wf_pass_output(o.pass, 0), 4, (const int64_t[]){1, 2, 23, 24});
  end(&o);
  /* a grouped cell takes what was produced */
  p.cells[0].group = 0;
  s = (stepper){.stop_at = 1};
  o = run_loop(&p, 10, true, true, &s);
  assert_int_equal(o.status, WEFT_OK);
  assert_ints(wf_pass_output(o.pass, 0), 4, (const int64_t[]){31, 32, 33, 34});
  end(&o);
}

static void a_row_that_stands_still_keeps_its_prefix_while_the_cell_grows(void **state) {
  (void)state;
  loop_plan p;
  stepper s = {.grow = 1, .stop_at = 0}; /* row 0 goes once, row 1 twice */
  make_loop(&p, WF_RECURRENCE_GROWING);
  outcome o = run_loop(&p, 10, true, true, &s);
  assert_int_equal(o.status, WEFT_OK);
  /* after the first: [11 12 1000] [13 14 1001]; then row 0 keeps its three and takes the new one */
  assert_ints(wf_pass_output(o.pass, 0), 8,
              (const int64_t[]){11, 12, 1000, 1000, 23, 24, 1011, 1001});
  end(&o);
}

static void shapes_that_break_the_recurrence_are_refused(void **state) {
  (void)state;
  loop_plan p;
  stepper s = {.grow = 1, .stop_at = 100};
  make_loop(&p, WF_RECURRENCE_INVARIANT);
  outcome o = run_loop(&p, 10, true, true, &s);
  assert_int_equal(o.status, WEFT_RUN);
  assert_non_null(strstr(o.err.what, "cell 'state'"));
  assert_non_null(strstr(o.err.what, "steps[0]"));
  end(&o);
  make_loop(&p, WF_RECURRENCE_GROWING);
  s = (stepper){.grow = 2, .stop_at = 100};
  o = run_loop(&p, 10, true, true, &s); /* the increment is 1 */
  assert_int_equal(o.status, WEFT_RUN);
  end(&o);
  s = (stepper){.grow = 1, .stop_at = 100};
  o = run_loop(&p, 3, true, true, &s); /* the bound is the limit, 3: two columns and one more */
  assert_int_equal(o.status, WEFT_RUN);
  assert_int_equal(s.n_calls, 2);
  end(&o);
  make_loop(&p, WF_RECURRENCE_BOUNDED);
  s = (stepper){.grow = -1, .stop_at = 100};
  o = run_loop(&p, 2, true, true, &s); /* it may shrink */
  assert_int_equal(o.status, WEFT_OK);
  assert_int_equal(wf_view_elements(wf_pass_output(o.pass, 0)), 0);
  end(&o);
}

static void a_caller_that_keeps_going_runs_exactly_the_limit_of_a_generation(void **state) {
  (void)state;
  loop_plan p;
  stepper s = {.stop_at = -5};
  make_loop(&p, WF_RECURRENCE_INVARIANT);
  int64_t tokens[4] = {1, 2, 3, 4};
  unsigned char active[2] = {1, 0};
  const wf_named_view given[2] = {{"tokens", view(WF_DTYPE_I64, tokens, 2, 2, 2)},
                                  {"active", view(WF_DTYPE_BOOL, active, 1, 2)}};
  wf_request r = {.n_tensors = 2,
                  .tensors = given,
                  .has_max_tokens = true,
                  .max_tokens = 4,
                  .keeps_going = true};
  outcome o = run(&p.plan, &r, play_step, &s);
  assert_int_equal(s.n_calls, 1); /* a loop of another kind reads its predicate */
  end(&o);
  p.loop.as.loop.is_generation = true;
  s = (stepper){.stop_at = -5};
  o = run(&p.plan, &r, play_step, &s);
  assert_int_equal(o.status, WEFT_OK);
  assert_int_equal(s.n_calls, 4);
  assert_ints(wf_pass_output(o.pass, 0), 4, (const int64_t[]){41, 42, 43, 44});
  end(&o);
}

/* ---- inputs -------------------------------------------------------------------------------- */

static void inputs_that_contradict_each_other_are_refused_by_name(void **state) {
  (void)state;
  loop_plan p;
  stepper s = {0};
  make_loop(&p, WF_RECURRENCE_INVARIANT);
  p.inputs[1].contract.has_shape = true;
  p.inputs[1].contract.dims[0] = (wf_plan_dim){0, B};
  p.inputs[1].contract.dims[1] = (wf_plan_dim){2, -1};
  int64_t tokens[6] = {1, 2, 3, 4, 5, 6};
  unsigned char active[3] = {1, 1, 1};
  wf_named_view given[3] = {{"tokens", view(WF_DTYPE_I64, tokens, 2, 3, 2)},
                            {"active", view(WF_DTYPE_BOOL, active, 1, 2)},
                            {"stray", view(WF_DTYPE_BOOL, active, 1, 2)}};
  wf_request r = {.n_tensors = 2, .tensors = given};
  outcome o = run(&p.plan, &r, play_step, &s);
  assert_int_equal(o.status, WEFT_RUN); /* batch is 3 and 2 */
  assert_non_null(strstr(o.err.what, "'batch'"));
  assert_non_null(strstr(o.err.what, "3"));
  assert_non_null(strstr(o.err.what, "2"));
  end(&o);
  given[0].view.dims[0] = 2;
  r.n_tensors = 3;
  o = run(&p.plan, &r, play_step, &s);
  assert_int_equal(o.status, WEFT_BIND);
  assert_non_null(strstr(o.err.what, "'stray'"));
  end(&o);
  r.n_tensors = 1;
  o = run(&p.plan, &r, play_step, &s);
  assert_int_equal(o.status, WEFT_MISSING_INPUT);
  assert_non_null(strstr(o.err.what, "'active'"));
  end(&o);
  r.n_tensors = 2;
  given[1].view.dtype = WF_DTYPE_U8;
  o = run(&p.plan, &r, play_step, &s);
  assert_int_equal(o.status, WEFT_BIND);
  end(&o);
}

static void a_package_default_comes_before_the_fallback_and_after_the_caller(void **state) {
  (void)state;
  loop_plan p;
  static const int64_t two = 2;
  int64_t tokens[4] = {1, 2, 3, 4};
  unsigned char active[2] = {1, 1};
  const wf_named_view given[2] = {{"tokens", view(WF_DTYPE_I64, tokens, 2, 2, 2)},
                                  {"active", view(WF_DTYPE_BOOL, active, 1, 2)}};
  wf_request r = {.n_tensors = 2, .tensors = given};
  make_loop(&p, WF_RECURRENCE_INVARIANT);
  p.inputs[0].literal = (wf_plan_literal){.kind = WF_LITERAL_INT, .n = 1, .ints = &two};
  stepper s = {.stop_at = 8};
  outcome o = run(&p.plan, &r, play_step, &s);
  assert_int_equal(s.n_calls, 2);
  end(&o);
  r.has_max_tokens = true;
  r.max_tokens = 3;
  s = (stepper){.stop_at = 8};
  o = run(&p.plan, &r, play_step, &s);
  assert_int_equal(s.n_calls, 3);
  end(&o);
}

/* ---- emits --------------------------------------------------------------------------------- */

/* Inputs: value [batch, n] (0), guard [batch] (1), length [batch] (2); one emit. */
typedef struct emit_plan {
  wf_plan plan;
  wf_plan_input inputs[3];
  wf_plan_output outputs[1];
  wf_plan_step emit, again, root;
  const wf_plan_step *root_steps[2];
} emit_plan;

static const char *const emit_names[] = {"value", "guard", "length"};

static void make_emit(emit_plan *p, wf_emit_mode mode, bool is_row_wise) {
  *p = (emit_plan){0};
  for (int i = 0; i < 3; i++) {
    p->inputs[i] = (wf_plan_input){
        .name = emit_names[i],
        .source_name = emit_names[i],
        .contract = i == 0 ? table(WF_DTYPE_I64) : rows(i == 1 ? WF_DTYPE_BOOL : WF_DTYPE_I64),
        .source = WF_SOURCE_APPLICATION,
        .slot = slot(i),
        .present = none};
  }
  p->outputs[0] =
      (wf_plan_output){.name = "out", .contract = table(WF_DTYPE_I64), .is_row_wise = is_row_wise};
  p->emit = (wf_plan_step){.kind = WF_STEP_EMIT, .path = "steps[0]"};
  p->emit.as.emit.value = slot(0);
  p->emit.as.emit.when = is_row_wise ? slot(1) : none;
  p->emit.as.emit.valid_length = is_row_wise ? slot(2) : none;
  p->emit.as.emit.mode = mode;
  p->again = p->emit;
  p->root_steps[0] = &p->emit;
  p->root_steps[1] = &p->again;
  p->root = (wf_plan_step){.kind = WF_STEP_SEQUENCE, .path = ""};
  p->root.as.sequence.n = 2;
  p->root.as.sequence.steps = p->root_steps;
  p->plan = (wf_plan){.n_slots = 3,
                      .slot_names = emit_names,
                      .n_symbols = 1,
                      .symbols = symbols,
                      .n_inputs = 3,
                      .n_outputs = 1,
                      .inputs = p->inputs,
                      .outputs = p->outputs,
                      .root = &p->root,
                      .max_depth = 4};
}

typedef struct heard {
  size_t n;
  int64_t rows[16], sequences[16], elements[16];
} heard;

static weft_status hear(void *user, const wf_emitted *e, weft_error *err) {
  heard *h = user;
  (void)err;
  h->rows[h->n] = e->row;
  h->sequences[h->n] = e->sequence;
  h->elements[h->n++] = wf_view_elements(e->value);
  return WEFT_OK;
}

static outcome run_emit(emit_plan *p, unsigned char *guard, int64_t *length, heard *h) {
  static int64_t value[6] = {1, 2, 3, 4, 5, 6};
  static wf_named_view given[3];
  static wf_request r;
  given[0] = (wf_named_view){"value", view(WF_DTYPE_I64, value, 2, 2, 3)};
  given[1] = (wf_named_view){"guard", view(WF_DTYPE_BOOL, guard, 1, 2)};
  given[2] = (wf_named_view){"length", view(WF_DTYPE_I64, length, 1, 2)};
  r = (wf_request){
      .n_tensors = guard ? 3 : 1, .tensors = given, .on_emit = hear, .on_emit_user = h};
  return run(&p->plan, &r, play_step, NULL);
}

static void append_grows_along_its_axis_and_replace_keeps_the_last(void **state) {
  (void)state;
  emit_plan p;
  heard h = {0};
  make_emit(&p, WF_EMIT_APPEND, false);
  outcome o = run_emit(&p, NULL, NULL, &h);
  assert_int_equal(o.status, WEFT_OK);
  assert_ints(wf_pass_output(o.pass, 0), 12, (const int64_t[]){1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6});
  assert_int_equal(h.n, 2);
  end(&o);
  p.emit.as.emit.has_axis = p.again.as.emit.has_axis = true;
  p.emit.as.emit.axis = p.again.as.emit.axis = 0;
  o = run_emit(&p, NULL, NULL, &h);
  assert_ints(wf_pass_output(o.pass, 0), 12, (const int64_t[]){1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6});
  assert_int_equal(wf_pass_output(o.pass, 0)->dims[0], 4);
  end(&o);
  make_emit(&p, WF_EMIT_REPLACE, false);
  o = run_emit(&p, NULL, NULL, &h);
  assert_ints(wf_pass_output(o.pass, 0), 6, (const int64_t[]){1, 2, 3, 4, 5, 6});
  end(&o);
}

static void events_are_numbered_and_the_latest_stays(void **state) {
  (void)state;
  emit_plan p;
  heard h = {0};
  make_emit(&p, WF_EMIT_EVENT, false);
  outcome o = run_emit(&p, NULL, NULL, &h);
  assert_int_equal(o.status, WEFT_OK);
  assert_int_equal(wf_pass_n_events(o.pass, 0), 2);
  assert_int_equal(h.sequences[0], 0);
  assert_int_equal(h.sequences[1], 1);
  assert_ints(wf_pass_output(o.pass, 0), 6, (const int64_t[]){1, 2, 3, 4, 5, 6});
  end(&o);
}

static void rows_are_published_by_their_own_guard_and_length_and_keep_their_place(void **state) {
  (void)state;
  emit_plan p;
  heard h = {0};
  unsigned char guard[2] = {0, 1};
  int64_t length[2] = {3, 2};
  make_emit(&p, WF_EMIT_APPEND, true);
  outcome o = run_emit(&p, guard, length, &h);
  assert_int_equal(o.status, WEFT_OK);
  assert_int_equal(wf_pass_output_rows(o.pass, 0), 2);
  assert_null(wf_pass_output_row(o.pass, 0, 0));
  assert_ints(wf_pass_output_row(o.pass, 0, 1), 4, (const int64_t[]){4, 5, 4, 5});
  assert_int_equal(h.n, 2);
  assert_int_equal(h.rows[0], 1);
  end(&o);
  /* length 0 with a true guard is an empty chunk */
  length[1] = 0;
  h = (heard){0};
  o = run_emit(&p, guard, length, &h);
  assert_int_equal(o.status, WEFT_OK);
  assert_int_equal(h.n, 2);
  assert_int_equal(h.elements[0], 0);
  assert_int_equal(wf_view_elements(wf_pass_output_row(o.pass, 0, 1)), 0);
  end(&o);
  length[1] = 4; /* beyond the extent */
  o = run_emit(&p, guard, length, &h);
  assert_int_equal(o.status, WEFT_RUN);
  assert_non_null(strstr(o.err.what, "'out'"));
  end(&o);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_false_start_gives_no_iteration_and_cells_at_their_first_value),
      cmocka_unit_test(the_limit_ends_a_loop_without_an_error_and_iterations_count_from_0),
      cmocka_unit_test(rows_that_stand_still_keep_what_they_had),
      cmocka_unit_test(a_row_that_stands_still_keeps_its_prefix_while_the_cell_grows),
      cmocka_unit_test(shapes_that_break_the_recurrence_are_refused),
      cmocka_unit_test(a_caller_that_keeps_going_runs_exactly_the_limit_of_a_generation),
      cmocka_unit_test(inputs_that_contradict_each_other_are_refused_by_name),
      cmocka_unit_test(a_package_default_comes_before_the_fallback_and_after_the_caller),
      cmocka_unit_test(append_grows_along_its_axis_and_replace_keeps_the_last),
      cmocka_unit_test(events_are_numbered_and_the_latest_stays),
      cmocka_unit_test(rows_are_published_by_their_own_guard_and_length_and_keep_their_place),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
