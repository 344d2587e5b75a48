/* SPDX-License-Identifier: Apache-2.0 */
/* Types, shapes and folded values of single operators against ONNX Runtime (make_ops.py). */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "graph/graph.h"

typedef struct ops_file {
  char *bytes;
  size_t n, at;
} ops_file;

static void open_ops(ops_file *f) {
  weft_error err = {0};
  *f = (ops_file){0};
  assert_ok(
      wf_file_read(WEFT_SOURCE_DIR "/tests/graph/ops.golden", 1 << 24, &f->bytes, &f->n, &err),
      &err);
}

/* The next model; false at the end. */
static bool next_model(ops_file *f, wf_onnx_model **m) {
  weft_error err = {0};
  uint32_t n;
  if (f->at + 4 > f->n) return false;
  memcpy(&n, f->bytes + f->at, 4);
  assert_true(f->at + 4 + n <= f->n);
  assert_ok(wf_onnx_read(m, f->bytes + f->at + 4, n, "ops.golden", NULL, NULL, &err), &err);
  f->at += 4 + n;
  return true;
}

/* "1:2,3" */
static void read_expected(wf_str s, int64_t *dtype, int64_t *dims, int32_t *rank) {
  const size_t colon = wf_str_find(s, WF_STR(":"), 0);
  assert_true(colon != SIZE_MAX);
  assert_true(wf_parse_i64((wf_str){s.at, colon}, dtype));
  *rank = 0;
  for (size_t at = colon + 1; at < s.n;) {
    size_t end = wf_str_find(s, WF_STR(","), at);
    if (end == SIZE_MAX) end = s.n;
    assert_true(wf_parse_i64((wf_str){s.at + at, end - at}, &dims[(*rank)++]));
    at = end + 1;
  }
}

/* Operators whose results have sizes that only their data tells. */
static bool may_be_unknown(wf_str op) { return wf_str_is(op, "NonZero"); }

static void check_output(wf_graph *g, const wf_onnx_model *m, size_t i, wf_str op) {
  static const char *const names[] = {"a", "b", "c"};
  weft_error err = {0};
  char key[32];
  int64_t dtype, dims[16];
  int32_t rank;
  wf_binding bindings[3];
  for (size_t k = 0; k < 3; k++) {
    bindings[k] = (wf_binding){wf_expr_symbol(g->exprs, wf_str_of(names[k])), (int64_t)k + 2};
  }
  (void)snprintf(key, sizeof key, "out%zu", i);
  read_expected(wf_onnx_prop_get(m, key), &dtype, dims, &rank);
  const wf_value *v = wf_graph_value(g, g->outputs.at[i]);
  if (v->dtype != (wf_dtype)dtype || v->rank != rank) {
    fail_msg("%.*s output %zu: %s rank %d, ONNX Runtime says %s rank %d", (int)op.n, op.at, i,
             wf_dtype_name(v->dtype), v->rank, wf_dtype_name((wf_dtype)dtype), rank);
  }
  for (int32_t k = 0; k < rank; k++) {
    int64_t d;
    if (v->dims[k] < 0 && may_be_unknown(op)) continue;
    if (v->dims[k] < 0) fail_msg("%.*s output %zu dim %d is not known", (int)op.n, op.at, i, k);
    assert_ok(wf_expr_eval(g->exprs, v->dims[k], bindings, 3, &d, &err), &err);
    if (d != dims[k])
      fail_msg("%.*s output %zu dim %d: %lld, ONNX Runtime says %lld", (int)op.n, op.at, i, k,
               (long long)d, (long long)dims[k]);
  }
}

static void types_and_shapes_are_those_of_onnxruntime(void **state) {
  ops_file f;
  wf_onnx_model *m;
  size_t n = 0;
  (void)state;
  open_ops(&f);
  for (; next_model(&f, &m); n++) {
    weft_error err = {0};
    wf_graph *g;
    assert_ok(wf_graph_build(&g, m, &err), &err);
    for (size_t i = 0; i < g->outputs.n; i++) check_output(g, m, i, m->graph.nodes[0].op_type);
    wf_graph_destroy(g);
    wf_onnx_close(m);
  }
  assert_true(n > 300);
  wf_free(f.bytes);
}

static double element(const wf_tensor *t, size_t i) {
  const unsigned char *p = t->data;
  switch ((int)t->dtype) {
    case WF_DTYPE_F32: {
      float v;
      memcpy(&v, p + 4 * i, 4);
      return (double)v;
    }
    case WF_DTYPE_F64: {
      double v;
      memcpy(&v, p + 8 * i, 8);
      return v;
    }
    case WF_DTYPE_I64: {
      int64_t v;
      memcpy(&v, p + 8 * i, 8);
      return (double)v;
    }
    case WF_DTYPE_I32: {
      int32_t v;
      memcpy(&v, p + 4 * i, 4);
      return (double)v;
    }
    case WF_DTYPE_F16: {
      uint16_t v;
      memcpy(&v, p + 2 * i, 2);
      return (double)v;
    } /* bits */
    default:
      return (double)p[i];
  }
}

static const wf_tensor *expected_of(const wf_onnx_model *m, size_t i) {
  char name[40];
  (void)snprintf(name, sizeof name, "expected%zu", i);
  for (size_t k = 0; k < m->graph.n_initializers; k++) {
    if (wf_str_is(m->graph.initializers[k].name, name)) return &m->graph.initializers[k];
  }
  return NULL;
}

static bool check_folded(const wf_graph *g, const wf_onnx_model *m, size_t i, wf_str op) {
  const wf_node *out = wf_graph_producer(g, g->outputs.at[i]);
  const wf_value *v = out && out->op == WF_OP_IDENTITY ? wf_graph_value(g, out->inputs[0]) : NULL;
  const wf_tensor *want = expected_of(m, i);
  if (!v || !v->tensor || !want) return false;
  assert_int_equal(v->tensor->n, want->n);
  for (size_t k = 0; k < want->n; k++) {
    const double a = element(v->tensor, k), b = element(want, k);
    const double allowed = want->dtype == WF_DTYPE_F32   ? 2e-6 * fabs(b) + 1e-7
                           : want->dtype == WF_DTYPE_F16 ? 0
                                                         : 1e-12 * fabs(b);
    if (!(fabs(a - b) <= allowed) && !(a != a && b != b) && a != b) {
      char got[64], wanted[64];
      wf_buf t = {0};
      wf_buf_add_f64(&t, a);
      (void)snprintf(got, sizeof got, "%s", wf_buf_cstr(&t));
      wf_buf_clear(&t);
      wf_buf_add_f64(&t, b);
      (void)snprintf(wanted, sizeof wanted, "%s", wf_buf_cstr(&t));
      wf_buf_deinit(&t);
      fail_msg("%.*s element %zu: %s, ONNX Runtime says %s", (int)op.n, op.at, k, got, wanted);
    }
  }
  return true;
}

static void folded_constants_have_the_values_of_onnxruntime(void **state) {
  ops_file f;
  wf_onnx_model *m;
  size_t n_folded = 0;
  (void)state;
  open_ops(&f);
  while (next_model(&f, &m)) {
    weft_error err = {0};
    wf_graph *g;
    if (wf_str_is(wf_onnx_prop_get(m, "constant"), "1")) {
      assert_ok(wf_graph_build(&g, m, &err), &err);
      assert_ok(wf_graph_optimize(g, NULL, &err), &err);
      for (size_t i = 0; i < g->outputs.n; i++)
        n_folded += check_folded(g, m, i, m->graph.nodes[0].op_type);
      wf_graph_destroy(g);
    }
    wf_onnx_close(m);
  }
  if (n_folded < 100) fail_msg("only %zu outputs were folded", n_folded);
  wf_free(f.bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(types_and_shapes_are_those_of_onnxruntime),
      cmocka_unit_test(folded_constants_have_the_values_of_onnxruntime),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
