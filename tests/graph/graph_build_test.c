/* SPDX-License-Identifier: Apache-2.0 */
/* From files to graphs: functions, branches, shared and dead nodes, and models that are wrong
 * (make_builds.py). */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "graph/graph.h"

static wf_onnx_model *open_model(const char *name) {
  weft_error err = {0};
  wf_onnx_model *m = NULL;
  char path[512];
  (void)snprintf(path, sizeof path, "%s/tests/graph/builds/%s.onnx", WEFT_SOURCE_DIR, name);
  assert_ok(wf_onnx_open(&m, path, NULL, &err), &err);
  return m;
}

static wf_graph *optimized(const wf_onnx_model *m, size_t counts[WF_OP_COUNT]) {
  weft_error err = {0};
  wf_graph *g = NULL;
  assert_ok(wf_graph_build(&g, m, &err), &err);
  assert_ok(wf_graph_optimize(g, NULL, &err), &err);
  wf_graph_count(g, counts);
  const wf_value *y = wf_graph_value(g, g->outputs.at[0]);
  assert_true(wf_str_is(y->name, "y")); /* the port keeps its name, whatever was inlined */
  return g;
}

static void functions_are_inlined_with_their_attributes_and_absent_inputs(void **state) {
  size_t counts[WF_OP_COUNT];
  (void)state;
  wf_onnx_model *m = open_model("functions");
  wf_graph *g = optimized(m, counts);
  assert_int_equal(counts[WF_OP_UNKNOWN], 0);
  assert_int_equal(counts[WF_OP_MUL], 2);
  assert_int_equal(counts[WF_OP_CLIP], 2);
  float seen[2] = {0};
  for (size_t i = 0, k = 0; i < g->order.n; i++) {
    const wf_node *n = g->nodes.at[g->order.at[i]];
    if (n->op != WF_OP_MUL) continue;
    memcpy(&seen[k++], wf_graph_value(g, n->inputs[1])->tensor->data, sizeof(float));
  }
  assert_true(seen[0] == 2.0f && seen[1] == 3.0f);
  wf_graph_destroy(g);
  wf_onnx_close(m);
}

static void a_branch_whose_condition_is_known_takes_the_place_of_if(void **state) {
  size_t counts[WF_OP_COUNT];
  (void)state;
  wf_onnx_model *m = open_model("branches");
  wf_graph *g = optimized(m, counts);
  assert_int_equal(counts[WF_OP_IF], 0);
  assert_int_equal(counts[WF_OP_ABS], 1); /* the rank is 2: the then branch */
  assert_int_equal(counts[WF_OP_NEG], 0);
  wf_graph_destroy(g);
  wf_onnx_close(m);
}

static void shared_dead_and_idle_nodes_go(void **state) {
  size_t counts[WF_OP_COUNT];
  (void)state;
  wf_onnx_model *m = open_model("shared");
  wf_graph *g = optimized(m, counts);
  assert_int_equal(counts[WF_OP_ABS], 1);
  assert_int_equal(counts[WF_OP_EXP] + counts[WF_OP_IDENTITY] + counts[WF_OP_MUL], 0);
  assert_int_equal(g->order.n, 3);
  wf_graph_destroy(g);
  wf_onnx_close(m);
}

static void an_unknown_operator_is_kept_with_its_names(void **state) {
  size_t counts[WF_OP_COUNT];
  (void)state;
  wf_onnx_model *m = open_model("unknown");
  wf_graph *g = optimized(m, counts);
  const wf_node *n = g->nodes.at[g->order.at[0]];
  assert_int_equal(n->op, WF_OP_UNKNOWN);
  assert_true(wf_str_is(n->op_type, "Frobnicate") && wf_str_is(n->domain, "local") &&
              n->version == 1);
  assert_true(wf_str_is(n->name, "strange"));
  wf_graph_destroy(g);
  wf_onnx_close(m);
}

static void wrong_models_are_refused_with_the_name_that_is_wrong(void **state) {
  static const struct {
    const char *file;
    weft_status status;
    const char *said;
  } wrong[] = {
      {"wrong_cycle", WEFT_PACKAGE_INVALID, "'b'"},
      {"wrong_missing", WEFT_PACKAGE_INVALID, "'nowhere'"},
      {"wrong_twice", WEFT_PACKAGE_INVALID, "'a'"},
      {"wrong_output", WEFT_PACKAGE_INVALID, "'y'"},
      {"wrong_shape", WEFT_PACKAGE_INVALID, "MatMul"},
      {"wrong_reshape", WEFT_PACKAGE_INVALID, "Reshape"},
      {"recursion", WEFT_LIMIT, "'Again'"},
  };
  (void)state;
  for (size_t i = 0; i < WF_ARRAY_LEN(wrong); i++) {
    weft_error err = {0};
    wf_graph *g = NULL;
    wf_onnx_model *m = open_model(wrong[i].file);
    assert_refused(wf_graph_build(&g, m, &err), wrong[i].status, &err);
    assert_null(g);
    assert_true(err.fix[0] != '\0');
    if (!strstr(err.what, wrong[i].said)) fail_msg("%s: %s", wrong[i].file, err.what);
    wf_onnx_close(m);
  }
}

static void a_symbol_can_be_bound_to_a_number_everywhere(void **state) {
  weft_error err = {0};
  wf_graph *g = NULL;
  int64_t v = 0;
  (void)state;
  wf_onnx_model *m = open_model("shared");
  assert_ok(wf_graph_build(&g, m, &err), &err);
  assert_ok(wf_graph_bind(g, WF_STR("n"), wf_expr_const(g->exprs, 7), &err), &err);
  for (size_t i = 0; i < g->order.n; i++) {
    const wf_value *y = wf_graph_value(g, g->nodes.at[g->order.at[i]]->outputs[0]);
    assert_true(y->rank == 2 && wf_expr_is_const(g->exprs, y->dims[0], &v) && v == 7);
  }
  wf_graph_destroy(g);
  wf_onnx_close(m);
}

static void a_graph_prints_its_nodes_and_shapes(void **state) {
  weft_error err = {0};
  wf_graph *g = NULL;
  wf_buf text = {0}, dot = {0};
  (void)state;
  wf_onnx_model *m = open_model("branches");
  assert_ok(wf_graph_build(&g, m, &err), &err);
  wf_graph_print(g, &text);
  wf_graph_print_dot(g, &dot);
  assert_non_null(strstr(wf_buf_cstr(&text), "input  %x:float32[n, 4]\n"));
  assert_non_null(strstr(wf_buf_cstr(&text), "= If"));
  assert_non_null(strstr(wf_buf_cstr(&text), "Neg(")); /* inside of the branch */
  assert_non_null(strstr(wf_buf_cstr(&dot), "digraph"));
  wf_buf_deinit(&text);
  wf_buf_deinit(&dot);
  wf_graph_destroy(g);
  wf_onnx_close(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions_are_inlined_with_their_attributes_and_absent_inputs),
      cmocka_unit_test(a_branch_whose_condition_is_known_takes_the_place_of_if),
      cmocka_unit_test(shared_dead_and_idle_nodes_go),
      cmocka_unit_test(an_unknown_operator_is_kept_with_its_names),
      cmocka_unit_test(wrong_models_are_refused_with_the_name_that_is_wrong),
      cmocka_unit_test(a_symbol_can_be_bound_to_a_number_everywhere),
      cmocka_unit_test(a_graph_prints_its_nodes_and_shapes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
