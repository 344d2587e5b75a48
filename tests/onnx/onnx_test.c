/* SPDX-License-Identifier: Apache-2.0 */
/* Reading models in place: every element type, nested graphs, external data, and damage. Models are
 * from make_models.py (the onnx package); small ones are written here byte by byte. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "onnx/onnx.h"
#include "onnx/write.h"

static char *read_model(const char *name, size_t *n) {
  weft_error err = {0};
  char path[512], *bytes;
  (void)snprintf(path, sizeof path, "%s/tests/onnx/%s", WEFT_SOURCE_DIR, name);
  assert_ok(wf_file_read(path, 1 << 20, &bytes, n, &err), &err);
  return bytes;
}

static const wf_tensor *find(const wf_onnx_model *m, const char *name) {
  for (size_t i = 0; i < m->graph.n_initializers; i++) {
    if (wf_str_is(m->graph.initializers[i].name, name)) return &m->graph.initializers[i];
  }
  return NULL;
}

/* ---- valid models ------------------------------------------------------------------------ */

static void typed_fields_read_as_the_raw_bytes_of_the_same_values(void **state) {
  weft_error err = {0};
  wf_onnx_model *m;
  size_t n, n_types = 0;
  (void)state;
  char *bytes = read_model("types.onnx", &n);
  assert_ok(wf_onnx_read(&m, bytes, n, "types", NULL, NULL, &err), &err);
  for (size_t i = 0; i < m->graph.n_initializers; i++) {
    const wf_tensor *typed = &m->graph.initializers[i];
    char raw_name[64];
    if (!wf_str_starts(typed->name, WF_STR("typed_")) || typed->dtype == WF_DTYPE_STRING) continue;
    (void)snprintf(raw_name, sizeof raw_name, "raw_%.*s", (int)(typed->name.n - 6),
                   typed->name.at + 6);
    const wf_tensor *raw = find(m, raw_name);
    assert_non_null(raw);
    assert_int_equal(typed->n, 7);
    assert_int_equal(raw->n_bytes, typed->n_bytes);
    assert_memory_equal(raw->data, typed->data, raw->n_bytes);
    assert_true((const char *)raw->data >= bytes &&
                (const char *)raw->data < bytes + n); /* in place */
    n_types++;
  }
  assert_int_equal(n_types, WF_DTYPE_COUNT - 2);
  const wf_tensor *s = find(m, "typed_STRING");
  assert_int_equal(s->n, 2);
  assert_true(wf_str_is(s->strings[1], "zwei W\xc3\xb6rter"));
  wf_onnx_close(m);
  wf_free(bytes);
}

static void nested_graphs_functions_and_properties_are_kept(void **state) {
  weft_error err = {0};
  wf_onnx_model *m;
  size_t n;
  (void)state;
  char *bytes = read_model("nested.onnx", &n);
  assert_ok(wf_onnx_read(&m, bytes, n, "nested", NULL, NULL, &err), &err);
  assert_int_equal(m->graph.n_nodes, 2);
  const wf_onnx_node *choice = &m->graph.nodes[0];
  assert_int_equal(choice->n_attrs, 2);
  assert_int_equal(choice->attrs[0].kind, WF_ATTR_GRAPH);
  assert_int_equal(choice->attrs[0].graphs[0]->n_nodes, 1);
  assert_int_equal(m->n_functions, 1);
  assert_true(wf_str_is(m->functions[0].nodes[0].attrs[0].ref, "factor"));
  assert_true(wf_str_is(wf_onnx_prop_get(m, "author"), "weft tests"));
  assert_int_equal(wf_onnx_opset_version(m, WF_STR("")), 17);
  assert_true(wf_str_is(m->graph.inputs[0].dims[0].symbol, "n"));
  assert_int_equal(m->graph.inputs[0].dims[1].value, 4);
  wf_onnx_close(m);
  wf_free(bytes);
}

/* ---- models written here ----------------------------------------------------------------- */

static void put_varint(wf_buf *b, uint64_t v) {
  for (; v >= 0x80; v >>= 7) wf_buf_putc(b, (char)(v | 0x80));
  wf_buf_putc(b, (char)v);
}

static void put_int(wf_buf *b, unsigned field, uint64_t v) {
  put_varint(b, field << 3);
  put_varint(b, v);
}

static void put_bytes(wf_buf *b, unsigned field, const void *bytes, size_t n) {
  put_varint(b, field << 3 | 2);
  put_varint(b, n);
  wf_buf_add(b, bytes, n);
}

static void put_text(wf_buf *b, unsigned field, const char *s) {
  put_bytes(b, field, s, strlen(s));
}

/* Moves the contents of `inner` into a field of `b`. */
static void put_message(wf_buf *b, unsigned field, wf_buf *inner) {
  put_bytes(b, field, inner->at, inner->n);
  wf_buf_deinit(inner);
  *inner = (wf_buf){0};
}

static void put_entry(wf_buf *tensor, const char *key, const char *value) {
  wf_buf e = {0};
  put_text(&e, 1, key);
  put_text(&e, 2, value);
  put_message(tensor, 13, &e);
}

/* Wraps a graph's fields into a model. */
static void finish_model(wf_buf *model, wf_buf *graph) {
  wf_buf opset = {0};
  put_int(model, 1, 10);
  put_int(&opset, 2, 17);
  put_message(model, 8, &opset);
  put_message(model, 7, graph);
}

/* A model with the single initializer that `tensor` holds. */
static void tensor_model(wf_buf *model, wf_buf *tensor) {
  wf_buf graph = {0};
  put_text(tensor, 8, "w");
  put_message(&graph, 5, tensor);
  finish_model(model, &graph);
}

static weft_status read_buf(const wf_buf *b, const char *dir, weft_error *err) {
  wf_onnx_model *m = NULL;
  *err = (weft_error){0};
  const weft_status st = wf_onnx_read(&m, b->at, b->n, "made", dir, NULL, err);
  wf_onnx_close(m);
  return st;
}

static void expect_tensor_refused(wf_buf *tensor, const char *dir) {
  weft_error err = {0};
  wf_buf model = {0};
  tensor_model(&model, tensor);
  assert_refused(read_buf(&model, dir, &err), WEFT_PACKAGE_INVALID, &err);
  assert_true(err.fix[0] != '\0');
  wf_buf_deinit(&model);
}

static void a_tensor_whose_data_does_not_fit_its_shape_is_refused(void **state) {
  static const uint64_t dims[][2] = {
      {2, 3}, {2, 1}, {0, 4}, {UINT64_MAX, 2}, {INT64_MAX, INT64_MAX}, {UINT64_C(1) << 62, 4}};
  (void)state;
  for (size_t i = 0; i < WF_ARRAY_LEN(dims); i++) {
    for (int typed = 0; typed < 2; typed++) {
      wf_buf t = {0};
      const char data[16] = {0};
      put_int(&t, 1, dims[i][0]);
      put_int(&t, 1, dims[i][1]);
      put_int(&t, 2, WF_DTYPE_F32);
      put_bytes(&t, typed ? 4 : 9, data, 16); /* four floats */
      expect_tensor_refused(&t, NULL);
    }
  }
}

static void data_given_twice_or_in_a_foreign_field_is_refused(void **state) {
  const char data[8] = {0};
  wf_buf t = {0};
  (void)state;
  put_int(&t, 1, 1);
  put_int(&t, 2, WF_DTYPE_I64);
  put_bytes(&t, 9, data, 8);
  put_int(&t, 7, 5);
  expect_tensor_refused(&t, NULL);
  put_int(&t, 1, 2);
  put_int(&t, 2, WF_DTYPE_I64);
  put_bytes(&t, 4, data, 8); /* float_data of an int64 */
  expect_tensor_refused(&t, NULL);
  put_int(&t, 1, 1);
  put_int(&t, 2, 99);
  put_bytes(&t, 9, data, 8);
  expect_tensor_refused(&t, NULL);
}

static void damage_to_the_wire_structure_is_always_an_error(void **state) {
  static const struct {
    const char *bytes;
    size_t n;
  } bad[] = {
      {"\x3a\x05\x00", 3},                                  /* a graph longer than the file */
      {"\x38\x01", 2},                                      /* the graph as a number */
      {"\x00", 1},                                          /* no field */
      {"\x3b\x3c", 2},                                      /* groups */
      {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11}, /* a number of more than 64 bits */
      {"\x08\xff", 2},                                      /* a number cut */
      {"\xf8\x06\x00", 3},                                  /* field 111, which nobody knows */
      {"\x3a\x00\x3a\x00", 4},                              /* two graphs */
      {"\x3a\x04\x0a\x02\x22\x00", 6},                      /* a node without an operator */
  };
  (void)state;
  for (size_t i = 0; i < WF_ARRAY_LEN(bad); i++) {
    weft_error err = {0};
    wf_buf model = {0}, opset = {0};
    put_int(&model, 5, 1);
    put_int(&opset, 2, 17);
    put_message(&model, 8, &opset);
    if (i != 4 && i != 5) put_int(&model, 1, 10);
    wf_buf_add(&model, bad[i].bytes, bad[i].n);
    assert_refused(read_buf(&model, NULL, &err), WEFT_PACKAGE_INVALID, &err);
    assert_non_null(strstr(err.what, "byte"));
    wf_buf_deinit(&model);
  }
}

static void graphs_nested_without_end_are_refused(void **state) {
  weft_error err = {0};
  wf_buf graph = {0}, model = {0};
  (void)state;
  for (int i = 0; i < 2000; i++) {
    wf_buf attr = {0}, n = {0};
    put_text(&attr, 1, "body");
    put_message(&attr, 6, &graph);
    put_text(&n, 4, "Loop");
    put_message(&n, 5, &attr);
    put_message(&graph, 1, &n);
  }
  finish_model(&model, &graph);
  assert_refused(read_buf(&model, NULL, &err), WEFT_LIMIT, &err);
  wf_buf_deinit(&model);
}

static void sparse_initializers_are_refused_by_name(void **state) {
  weft_error err = {0};
  wf_buf graph = {0}, model = {0};
  (void)state;
  put_bytes(&graph, 15, "", 0);
  finish_model(&model, &graph);
  assert_refused(read_buf(&model, NULL, &err), WEFT_UNSUPPORTED, &err);
  assert_non_null(strstr(err.what, "sparse"));
  wf_buf_deinit(&model);
}

static void a_newer_ir_may_have_unknown_fields(void **state) {
  weft_error err = {0};
  wf_buf graph = {0}, model = {0}, opset = {0};
  (void)state;
  put_int(&model, 1, 99);
  put_int(&opset, 2, 40);
  put_message(&model, 8, &opset);
  put_int(&graph, 99, 1);
  put_message(&model, 7, &graph);
  assert_ok(read_buf(&model, NULL, &err), &err);
  wf_buf_deinit(&model);
}

/* ---- external data ----------------------------------------------------------------------- */

typedef struct folder {
  char root[64], inside[96], outside[96];
} folder;

static void make_folder(folder *f) {
  weft_error err = {0};
  char path[160];
  (void)snprintf(f->root, sizeof f->root, "/tmp/weft-onnx-XXXXXX");
  assert_non_null(mkdtemp(f->root));
  (void)snprintf(f->inside, sizeof f->inside, "%s/mod\xc3\xa8les set", f->root);
  (void)snprintf(f->outside, sizeof f->outside, "%s/secret", f->root);
  assert_ok(wf_path_make_dirs(f->inside, false, &err), &err);
  assert_ok(wf_file_write(f->outside, "0123456789abcdef", 16, false, &err), &err);
  (void)snprintf(path, sizeof path, "%s/data", f->inside);
  assert_ok(wf_file_write(path, "0123456789abcdef", 16, false, &err), &err);
  (void)snprintf(path, sizeof path, "%s/link", f->inside);
  assert_int_equal(symlink(f->outside, path), 0);
  (void)snprintf(path, sizeof path, "%s/lfs", f->inside);
  static const char stub[] = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 16\n";
  assert_ok(wf_file_write(path, stub, sizeof stub - 1, false, &err), &err);
}

static void remove_folder(const folder *f) {
  static const char *const names[] = {"data", "link", "lfs"};
  char path[160];
  for (size_t i = 0; i < WF_ARRAY_LEN(names); i++) {
    (void)snprintf(path, sizeof path, "%s/%s", f->inside, names[i]);
    (void)unlink(path);
  }
  (void)rmdir(f->inside);
  (void)unlink(f->outside);
  (void)rmdir(f->root);
}

static void external_tensor(wf_buf *t, const char *location, const char *offset,
                            const char *length) {
  put_int(t, 1, 2);
  put_int(t, 2, WF_DTYPE_F32);
  put_int(t, 14, 1);
  if (location) put_entry(t, "location", location);
  if (offset) put_entry(t, "offset", offset);
  if (length) put_entry(t, "length", length);
}

static void external_data_is_mapped_in_place(void **state) {
  weft_error err = {0};
  folder f;
  wf_buf t = {0}, model = {0};
  wf_onnx_model *m;
  (void)state;
  make_folder(&f);
  external_tensor(&t, "data", "8", "8");
  tensor_model(&model, &t);
  assert_ok(wf_onnx_read(&m, model.at, model.n, "made", f.inside, NULL, &err), &err);
  assert_int_equal(m->n_maps, 1);
  assert_ptr_equal(m->graph.initializers[0].data, m->maps[0]->at + 8);
  assert_memory_equal(m->graph.initializers[0].data, "89abcdef", 8);
  assert_ok(wf_onnx_check(m, &err), &err);
  wf_onnx_close(m);
  wf_buf_deinit(&model);
  remove_folder(&f);
}

static void external_data_out_of_bounds_or_out_of_the_folder_is_refused(void **state) {
  static const char *const bad[][3] = {
      {"data", "9", NULL},  {"data", "18446744073709551615", NULL},
      {"data", "0", "4"},   {"data", "x", NULL},
      {"data", "-1", NULL}, {"../secret", NULL, NULL},
      {"link", NULL, NULL}, {"/etc/hostname", NULL, NULL},
      {"none", NULL, NULL}, {NULL, NULL, NULL},
      {".", NULL, NULL},    {"lfs", NULL, NULL},
      {"data", "16", NULL}, {"data", NULL, "18446744073709551608"}};
  folder f;
  (void)state;
  make_folder(&f);
  for (size_t i = 0; i < WF_ARRAY_LEN(bad); i++) {
    weft_error err = {0};
    wf_buf t = {0}, model = {0};
    external_tensor(&t, bad[i][0], bad[i][1], bad[i][2]);
    tensor_model(&model, &t);
    const weft_status st = read_buf(&model, f.inside, &err);
    if (st == WEFT_OK) fail_msg("case %zu was read", i);
    assert_true(err.what[0] != '\0' && err.fix[0] != '\0');
    wf_buf_deinit(&model);
  }
  remove_folder(&f);
}

/* ---- damage ------------------------------------------------------------------------------ */

static void a_cut_model_is_an_error_unless_the_cut_is_between_fields(void **state) {
  static const char *const names[] = {"types.onnx", "nested.onnx"};
  (void)state;
  for (size_t k = 0; k < WF_ARRAY_LEN(names); k++) {
    size_t n, n_read = 0;
    char *bytes = read_model(names[k], &n);
    for (size_t cut = 0; cut < n; cut++) {
      weft_error err = {0};
      wf_onnx_model *m = NULL;
      char *copy = wf_alloc(cut ? cut : 1); /* exact, so that a sanitizer sees one byte beyond */
      memcpy(copy, bytes, cut);
      const weft_status st = wf_onnx_read(&m, copy, cut, "cut", NULL, NULL, &err);
      if (st == WEFT_OK)
        n_read++;
      else
        assert_true(err.what[0] != '\0');
      wf_onnx_close(m);
      wf_free(copy);
    }
    assert_in_range(n_read, 0, 5); /* metadata, functions and opsets may be cut off whole */
    wf_free(bytes);
  }
}

static void random_damage_is_an_error_or_a_model(void **state) {
  size_t n, n_refused = 0;
  uint64_t seed = 12345;
  (void)state;
  char *bytes = read_model("types.onnx", &n), *copy = wf_alloc(n);
  for (int i = 0; i < 20000; i++) {
    weft_error err = {0};
    wf_onnx_model *m = NULL;
    memcpy(copy, bytes, n);
    for (int k = 0; k <= i % 3; k++) {
      seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
      copy[(seed >> 33) % n] = (char)(seed >> 25);
    }
    const weft_status st = wf_onnx_read(&m, copy, n, "damaged", NULL, NULL, &err);
    if (st != WEFT_OK) {
      n_refused++;
      assert_true(err.what[0] != '\0');
    }
    wf_onnx_close(m);
  }
  assert_true(n_refused > 1000);
  wf_free(copy);
  wf_free(bytes);
}

static const wf_onnx_node *node_of(const wf_onnx_graph *g, const char *output) {
  for (size_t i = 0; i < g->n_nodes; i++) {
    const wf_onnx_node *n = &g->nodes[i];
    if (n->n_outputs && wf_str_is(n->outputs[0], output)) return n;
    for (size_t k = 0; k < n->n_attrs; k++) {
      for (size_t s = 0; n->attrs[k].graphs && s < n->attrs[k].n; s++) {
        const wf_onnx_node *inner = node_of(n->attrs[k].graphs[s], output);
        if (inner) return inner;
      }
    }
  }
  return NULL;
}

/* The copy reads back as the model it was, but for the nodes that were named. */
static void named_nodes_become_calls_in_subgraphs_too_and_all_else_stays(void **state) {
  weft_error err = {0};
  wf_onnx_model *m, *copy;
  size_t n_done = 0;
  wf_buf out = {0}, function = {0};
  (void)state;
  assert_ok(wf_onnx_open(&m, WEFT_SOURCE_DIR "/tests/onnx/nested.onnx", NULL, &err), &err);
  const wf_onnx_rename renames[] = {
      {WF_STR("t"), "Sum"}, {WF_STR("y"), "Twice"}, {WF_STR("absent"), "None"}};
  wf_onnx_put_bytes(&function, 1, "Sum", 3);
  wf_onnx_put_bytes(&function, 10, "d", 1);
  assert_ok(wf_onnx_rename_nodes(m, renames, 3, "d", &function, 1, &out, &n_done, &err), &err);
  assert_int_equal(n_done, 2);
  assert_ok(wf_onnx_read(&copy, out.at, out.n, "copy", NULL, NULL, &err), &err);
  assert_int_equal(copy->n_functions, m->n_functions + 1);
  assert_int_equal(wf_onnx_opset_version(copy, WF_STR("d")), 1);
  assert_int_equal(wf_onnx_opset_version(copy, WF_STR("")), wf_onnx_opset_version(m, WF_STR("")));
  assert_int_equal(copy->graph.n_initializers, m->graph.n_initializers);
  assert_int_equal(copy->graph.n_nodes, m->graph.n_nodes);
  const wf_onnx_node *t = node_of(&copy->graph, "t"), *y = node_of(&copy->graph, "y");
  const wf_onnx_node *e = node_of(&copy->graph, "e"), *branch = node_of(&copy->graph, "y0");
  assert_true(t && wf_str_is(t->op_type, "Sum") && wf_str_is(t->domain, "d"));
  assert_int_equal(t->n_inputs, 2);
  assert_true(y && wf_str_is(y->op_type, "Twice") && y->n_attrs == 0); /* it had a factor */
  assert_true(e && wf_str_is(e->op_type, "Identity") && e->domain.n == 0);
  assert_true(branch && wf_str_is(branch->op_type, "If") && branch->n_attrs == 2);
  wf_onnx_close(copy);
  wf_onnx_close(m);
  wf_buf_deinit(&out);
  wf_buf_deinit(&function);
  /* bytes that the caller holds are not there to copy */
  size_t n;
  char *bytes = read_model("nested.onnx", &n);
  assert_ok(wf_onnx_read(&m, bytes, n, "nested", NULL, NULL, &err), &err);
  assert_refused(wf_onnx_rename_nodes(m, renames, 1, "d", NULL, 0, &out, &n_done, &err),
                 WEFT_UNSUPPORTED, &err);
  wf_onnx_close(m);
  wf_free(bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(typed_fields_read_as_the_raw_bytes_of_the_same_values),
      cmocka_unit_test(nested_graphs_functions_and_properties_are_kept),
      cmocka_unit_test(named_nodes_become_calls_in_subgraphs_too_and_all_else_stays),
      cmocka_unit_test(a_tensor_whose_data_does_not_fit_its_shape_is_refused),
      cmocka_unit_test(data_given_twice_or_in_a_foreign_field_is_refused),
      cmocka_unit_test(damage_to_the_wire_structure_is_always_an_error),
      cmocka_unit_test(graphs_nested_without_end_are_refused),
      cmocka_unit_test(sparse_initializers_are_refused_by_name),
      cmocka_unit_test(a_newer_ir_may_have_unknown_fields),
      cmocka_unit_test(external_data_is_mapped_in_place),
      cmocka_unit_test(external_data_out_of_bounds_or_out_of_the_folder_is_refused),
      cmocka_unit_test(a_cut_model_is_an_error_unless_the_cut_is_between_fields),
      cmocka_unit_test(random_damage_is_an_error_or_a_model),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
