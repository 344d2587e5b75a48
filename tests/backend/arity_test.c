/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes with too few, too many and missing inputs and outputs, for every operator and every version
 * in arity.golden, which says what the schemas of onnx and ONNX Runtime say (make_arity.py). What
 * is within the bounds is built, optimized and compiled, so that AddressSanitizer sees each read
 * beyond a node's own lists. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/file.h"
#include "base/process.h"
#include "graph/graph.h"
#include "onnx/write.h"

typedef struct rule {
  char domain[20], op[60];
  long long since, in_least, in_most, required, out_least, out_most;
} rule;

/* ---- a model of one node ----------------------------------------------------------------------
 */

/* ValueInfoProto: a float tensor [2, n, 4], or without a shape when rank is 0 */
static void put_port(wf_buf *graph, uint32_t field, const char *name, int rank) {
  wf_buf info = {0}, type = {0}, tensor = {0}, shape = {0};
  wf_onnx_put_text(&info, 1, name);
  wf_onnx_put_int(&tensor, 1, 1);
  for (int i = 0; i < rank; i++) {
    wf_buf dim = {0};
    if (i == 1)
      wf_onnx_put_text(&dim, 2, "n");
    else
      wf_onnx_put_int(&dim, 1, i == 0 ? 2 : 4);
    wf_onnx_put_message(&shape, 1, &dim);
  }
  if (rank) wf_onnx_put_message(&tensor, 2, &shape);
  wf_onnx_put_message(&type, 1, &tensor);
  wf_onnx_put_message(&info, 2, &type);
  wf_onnx_put_message(graph, field, &info);
}

/* TensorProto: int64 [2] = {1, 1} */
static void put_constant(wf_buf *graph, const char *name) {
  wf_buf t = {0};
  const int64_t data[2] = {1, 1};
  wf_onnx_put_int(&t, 1, 2);
  wf_onnx_put_int(&t, 2, 7);
  wf_onnx_put_text(&t, 8, name);
  wf_onnx_put_bytes(&t, 9, data, sizeof data);
  wf_onnx_put_message(graph, 5, &t);
}

typedef struct shape {
  int n_in, n_out;
  uint64_t absent; /* bit i: input i has an empty name */
  int rank;        /* of the inputs that are no constants */
  bool constants;  /* inputs after the first are constant */
} shape;

static void write_model(wf_buf *model, const rule *r, const shape *s) {
  wf_buf graph = {0}, node = {0}, opset = {0};
  char name[16];
  for (int i = 0; i < s->n_in; i++) {
    (void)snprintf(name, sizeof name, "x%d", i);
    wf_onnx_put_text(&node, 1, s->absent >> i & 1 ? "" : name);
  }
  for (int i = 0; i < s->n_out; i++) {
    (void)snprintf(name, sizeof name, "y%d", i);
    wf_onnx_put_text(&node, 2, name);
  }
  wf_onnx_put_text(&node, 3, "the_node");
  wf_onnx_put_text(&node, 4, r->op);
  const bool is_onnx = strcmp(r->domain, "ai.onnx") == 0;
  wf_onnx_put_text(&node, 7, is_onnx ? "" : r->domain);
  wf_onnx_put_message(&graph, 1, &node);
  wf_onnx_put_text(&graph, 2, "g");
  for (int i = 0; i < s->n_in; i++) {
    (void)snprintf(name, sizeof name, "x%d", i);
    if (i > 0 && s->constants)
      put_constant(&graph, name);
    else
      put_port(&graph, 11, name, s->rank);
  }
  for (int i = 0; i < s->n_out; i++) {
    (void)snprintf(name, sizeof name, "y%d", i);
    put_port(&graph, 12, name, 0);
  }
  wf_onnx_put_int(model, 1, 10);
  wf_onnx_put_message(model, 7, &graph);
  wf_onnx_put_text(&opset, 1, is_onnx ? "" : r->domain);
  wf_onnx_put_int(&opset, 2, r->since);
  wf_onnx_put_message(model, 8, &opset);
  assert_false(model->failed);
}

static weft_status build(const rule *r, const shape *s, weft_error *err) {
  wf_buf bytes = {0};
  wf_onnx_model *m = NULL;
  wf_graph *g = NULL;
  *err = (weft_error){0};
  write_model(&bytes, r, s);
  weft_status st = wf_onnx_read(&m, bytes.at, bytes.n, "one node", NULL, NULL, err);
  assert_ok(st, err);
  st = wf_graph_build(&g, m, err);
  wf_graph_destroy(g);
  wf_onnx_close(m);
  wf_buf_deinit(&bytes);
  return st;
}

/* ---- rules ------------------------------------------------------------------------------------
 */

static void each_rule(void (*fn)(const rule *r)) {
  char *text;
  size_t n, n_rules = 0;
  weft_error err = {0};
  assert_ok(wf_file_read(WEFT_SOURCE_DIR "/tests/graph/arity.golden", 1 << 20, &text, &n, &err),
            &err);
  for (const char *line = text; line < text + n; line = strchr(line, '\n') + 1) {
    rule r = {0};
    if (*line == '#') continue;
    const int got =
        sscanf(line, "%19s %59s %lld %lld %lld %lld %lld %lld", r.domain, r.op, &r.since,
               &r.in_least, &r.in_most, &r.required, &r.out_least, &r.out_most);
    assert_int_equal(got, 8);
    fn(&r);
    n_rules++;
  }
  assert_true(n_rules > 100);
  wf_free(text);
}

/* Whether the refusal is about the number of inputs and outputs, and names everything. */
static bool is_about_arity(const rule *r, const weft_error *err) {
  char version[32];
  (void)snprintf(version, sizeof version, "version %lld)", r->since);
  if (!strstr(err->what, "but needs at least") && !strstr(err->what, "but takes at most") &&
      !strstr(err->what, "which it needs")) {
    return false;
  }
  if (!strstr(err->what, "'the_node'") || !strstr(err->what, r->op) ||
      !strstr(err->what, r->domain) || !strstr(err->what, version)) {
    fail_msg("does not name the node: %s", err->what);
  }
  return true;
}

static void must_refuse(const rule *r, const shape *s, weft_status status, const char *what) {
  weft_error err;
  const weft_status st = build(r, s, &err);
  if (st != status || !is_about_arity(r, &err)) {
    fail_msg("%s of %s, version %lld, with %s: %s %s", r->op, r->domain, r->since, what,
             weft_status_name(st), err.what);
  }
}

static void check_bounds(const rule *r) {
  const int in = (int)r->in_least, out = (int)r->out_least;
  if (in > 0) {
    must_refuse(r, &(shape){in - 1, out, 0, 3, false}, WEFT_PACKAGE_INVALID, "too few inputs");
    /* an empty name at the end is no input */
    must_refuse(r, &(shape){in, out, 1ULL << (in - 1), 3, false}, WEFT_PACKAGE_INVALID,
                "the last one empty");
  }
  if (r->in_most >= 0) {
    must_refuse(r, &(shape){(int)r->in_most + 1, out, 0, 3, false}, WEFT_UNSUPPORTED,
                "too many inputs");
  }
  for (int i = 0; i < in; i++) {
    if (r->required >> i & 1) {
      must_refuse(r, &(shape){in, out, 1ULL << i, 3, false}, WEFT_PACKAGE_INVALID,
                  "an empty name where a value must be");
    }
  }
  if (out > 1) {
    must_refuse(r, &(shape){in, out - 1, 0, 3, false}, WEFT_PACKAGE_INVALID, "too few outputs");
  }
  if (r->out_most >= 0) {
    must_refuse(r, &(shape){in, (int)r->out_most + 1, 0, 3, false}, WEFT_UNSUPPORTED,
                "too many outputs");
  }
}

static void a_node_with_too_few_or_too_many_is_refused_by_name(void **state) {
  (void)state;
  each_rule(check_bounds);
}

/* Compiles one as a plain graph: everything that reads nodes has a look at it. */
static void compile(const rule *r, const shape *s) {
  char dir[] = "/tmp/weft-arity-XXXXXX", path[64];
  weft_error err = {0};
  wf_buf bytes = {0};
  wf_component *c = NULL;
  if (build(r, s, &err) != WEFT_OK && is_about_arity(r, &err)) {
    fail_msg("%s of %s, version %lld, %d inputs, absent %llx: %s", r->op, r->domain, r->since,
             s->n_in, (unsigned long long)s->absent, err.what);
  }
  write_model(&bytes, r, s);
  assert_non_null(mkdtemp(dir));
  (void)snprintf(path, sizeof path, "%s/model.onnx", dir);
  assert_ok(wf_file_write(path, bytes.at, bytes.n, true, &err), &err);
  const wf_compile_options o = {.root = dir, .model = "model.onnx", .level = wf_cpu_best()};
  err = (weft_error){0};
  const weft_status st = wf_component_compile(&wf_backend_native, &c, &o, &err);
  if (st != WEFT_OK) assert_true(err.what[0] != '\0');
  if (st == WEFT_INTERNAL) fail_msg("%s: %s", r->op, err.what);
  wf_component_release(&wf_backend_native, c);
  wf_buf_deinit(&bytes);
  (void)unlink(path);
  (void)rmdir(dir);
}

static void check_within(const rule *r) {
  const int least = (int)r->in_least;
  const int most = r->in_most >= 0 ? (int)r->in_most : least + 2;
  const int out = (int)(r->out_most >= 0 ? r->out_most : r->out_least + 1);
  for (int n = least; n <= most; n++) {
    for (int form = 0; form < 4; form++) {
      const int rank = form < 2 ? 3 : 0;
      compile(r, &(shape){n, (int)r->out_least, 0, rank, form % 2 == 1});
      compile(r, &(shape){n, out, 0, rank, form % 2 == 1});
    }
    /* everything that may be absent is */
    const uint64_t absent = r->in_most < 0 ? 0 : ~(uint64_t)r->required;
    compile(r, &(shape){n, (int)r->out_least, absent & ~(1ULL << (n ? n - 1 : 0)), 3, false});
  }
}

static void what_the_schema_allows_compiles_or_is_refused_for_another_reason(void **state) {
  (void)state;
  each_rule(check_within);
}

/* The golden file was made from ops.h; an operator added since must be in it. */
static size_t n_found;
static const char *wanted_domain, *wanted_op;
static void find_rule(const rule *r) {
  const char *domain = strcmp(r->domain, "ai.onnx") == 0 ? "" : r->domain;
  n_found += strcmp(domain, wanted_domain) == 0 && strcmp(r->op, wanted_op) == 0;
}

static void every_operator_that_a_file_can_name_has_a_rule(void **state) {
  (void)state;
  for (int op = 1; op < WF_OP_COUNT; op++) {
    wanted_domain = wf_op_domain((wf_op)op);
    wanted_op = wf_op_name((wf_op)op);
    if (strcmp(wanted_domain, WF_DOMAIN_WEFT) == 0) continue;
    if (op == WF_OP_MS_SIMPLIFIED_LAYER_NORM) continue; /* a name without a schema */
    n_found = 0;
    each_rule(find_rule);
    if (n_found == 0) fail_msg("%s of '%s': run make_arity.py", wanted_op, wanted_domain);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_node_with_too_few_or_too_many_is_refused_by_name),
      cmocka_unit_test(what_the_schema_allows_compiles_or_is_refused_for_another_reason),
      cmocka_unit_test(every_operator_that_a_file_can_name_has_a_rule),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
