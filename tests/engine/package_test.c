/* SPDX-License-Identifier: Apache-2.0 */
/* How folders are read: genai_config.json strictly, config.json folders by what is there. The
 * graphs have ports and no sense; what they compute is other tests' question. */
#include "support/test.h"

#include <sys/stat.h>

#include "chain.h"
#include "package/package.h"

static char *root;

static int make_root(void **state) {
  (void)state;
  root = wf_path_join(getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", "weft-package-XXXXXX");
  return root && mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state) {
  (void)state;
  char *onnx = wf_path_join(root, "onnx");
  wf_folder_remove(onnx);
  wf_folder_remove(root);
  wf_free(onnx);
  wf_free(root);
  return 0;
}

static void put(const char *name, const char *text) {
  weft_error err = {0};
  char *path = wf_path_join(root, name);
  assert_ok(wf_file_write(path, text, strlen(text), false, &err), &err);
  wf_free(path);
}

static void drop(const char *name) {
  char *path = wf_path_join(root, name);
  unlink(path);
  wf_free(path);
}

/* One layer; the head size is `dim`, a number or a symbol; rank 3 leaves it out. */
static void put_graph(const char *name, const char *dim, size_t rank) {
  weft_error err = {0};
  wf_onnxw *w = NULL;
  char *path = wf_path_join(root, name), *dir = wf_path_dir(path);
  const char *const kv[] = {"batch", "2", "past", dim}, *const seq[] = {"batch", "seq"};
  const char *const logits[] = {"batch", "seq", "8"};
  assert_ok(wf_path_make_dirs(dir, false, &err), &err);
  assert_ok(wf_onnxw_create(&w, path, NULL, false, &err), &err);
  wf_onnxw_graph *g = wf_onnxw_main(w);
  wf_onnxw_input(g, "input_ids", WF_ONNXW_INT64, seq, 2);
  wf_onnxw_input(g, "attention_mask", WF_ONNXW_INT64, seq, 2);
  wf_onnxw_input(g, "past_key_values.0.key", WF_ONNXW_FLOAT, kv, rank);
  wf_onnxw_input(g, "past_key_values.0.value", WF_ONNXW_FLOAT, kv, rank);
  wf_onnxw_output(g, "logits", WF_ONNXW_FLOAT, logits, 3);
  wf_onnxw_output(g, "present.0.key", WF_ONNXW_FLOAT, kv, rank);
  wf_onnxw_output(g, "present.0.value", WF_ONNXW_FLOAT, kv, rank);
  assert_ok(wf_onnxw_commit(w, &err), &err);
  wf_free(path);
  wf_free(dir);
}

static void put_genai(const char *model_more, const char *decoder_more, const char *search) {
  wf_buf b = {0};
  wf_buf_printf(
      &b,
      "{\"model\": {\"bos_token_id\": 1, \"context_length\": 99, \"eos_token_id\": [2, 7], "
      "\"pad_token_id\": 0, \"type\": \"toy\", \"vocab_size\": 8%s, \"decoder\": {\"filename\": "
      "\"model.onnx\", \"head_size\": 16, \"hidden_size\": 32, \"num_attention_heads\": 2, "
      "\"num_hidden_layers\": 1, \"num_key_value_heads\": 2, \"session_options\": {\"log_id\": "
      "\"x\", "
      "\"provider_options\": []}, \"inputs\": {\"input_ids\": \"input_ids\", \"attention_mask\": "
      "\"attention_mask\", \"past_key_names\": \"past_key_values.%%d.key\", \"past_value_names\": "
      "\"past_key_values.%%d.value\"}, \"outputs\": {\"logits\": \"logits\", "
      "\"present_key_names\": "
      "\"present.%%d.key\", \"present_value_names\": \"present.%%d.value\"}%s}}, \"search\": {%s}}",
      model_more, decoder_more, search);
  put("genai_config.json", wf_buf_cstr(&b));
  wf_buf_deinit(&b);
}

static weft_status open_root(wf_package **p, const char *file, weft_error *err) {
  const wf_package_options o = {.model_file = file};
  *p = NULL;
  return wf_package_open(p, root, &o, err);
}

static void a_genai_folder_gives_ports_ids_and_defaults(void **state) {
  (void)state;
  weft_error err = {0};
  wf_package *p;
  put_graph("model.onnx", "head_dim", 4);
  put_genai("", "", "\"do_sample\": true, \"temperature\": 0.5, \"top_k\": 7, \"num_beams\": 1");
  assert_ok(open_root(&p, NULL, &err), &err);
  assert_string_equal(p->kind, "onnxruntime-genai");
  assert_int_equal(p->n_layers, 1);
  assert_int_equal(p->context_tokens, 99);
  assert_int_equal(p->n_end_ids, 2);
  assert_int_equal(p->end_ids[1], 7);
  assert_int_equal(p->bos_id, 1);
  assert_int_equal(p->defaults.do_sample, 1);
  assert_true(p->defaults.temperature == 0.5);
  assert_int_equal(p->defaults.top_k, 7);
  assert_true(wf_str_is(p->ports.states[0].present_value, "present.0.value"));
  /* the graph leaves the head size symbolic: the document's number is its value */
  assert_int_equal(p->n_symbols, 1);
  assert_string_equal(p->symbols[0].symbol, "head_dim");
  assert_int_equal(p->symbols[0].value, 16);
  wf_package_close(p);
}

static void unknown_and_unsupported_members_are_refused_by_their_path(void **state) {
  (void)state;
  weft_error err = {0};
  wf_package *p;
  put_genai(", \"frobnicate\": 1", "", "");
  assert_refused(open_root(&p, NULL, &err), WEFT_PACKAGE_INVALID, &err);
  assert_non_null(strstr(err.what, "model.frobnicate"));
  put_genai("", ", \"inner\": {\"x\": 1}", "");
  assert_refused(open_root(&p, NULL, &err), WEFT_PACKAGE_INVALID, &err);
  assert_non_null(strstr(err.what, "model.decoder.inner"));
  put_genai("", "", "\"min_lenght\": 1");
  assert_refused(open_root(&p, NULL, &err), WEFT_PACKAGE_INVALID, &err);
  put_genai(", \"vision\": {\"filename\": \"v.onnx\"}", "", "");
  assert_refused(open_root(&p, NULL, &err), WEFT_UNSUPPORTED, &err);
  assert_non_null(strstr(err.what, "model.vision"));
}

static void documents_that_contradict_the_graph_are_refused(void **state) {
  (void)state;
  weft_error err = {0};
  wf_package *p;
  put_graph("model.onnx", "32", 4); /* the document says 16 */
  put_genai("", "", "");
  assert_refused(open_root(&p, NULL, &err), WEFT_PACKAGE_INVALID, &err);
  assert_non_null(strstr(err.what, "32"));
  assert_non_null(strstr(err.what, "16"));
  put_graph("model.onnx", "16", 3);
  assert_refused(open_root(&p, NULL, &err), WEFT_PACKAGE_INVALID, &err);
  assert_non_null(strstr(err.what, "rank 3"));
  put_graph("model.onnx", "16", 4);
  put_genai("", "", "\"top_k\": \"many\"");
  assert_refused(open_root(&p, NULL, &err), WEFT_PACKAGE_INVALID, &err);
  put("genai_config.json", "{\"model\": {\"x\": 1, \"x\": 2}}");
  assert_refused(open_root(&p, NULL, &err), WEFT_PARSE, &err);
  put("genai_config.json", "[]");
  assert_refused(open_root(&p, NULL, &err), WEFT_PACKAGE_INVALID, &err);
  put("genai_config.json", "{");
  assert_refused(open_root(&p, NULL, &err), WEFT_PARSE, &err);
  assert_non_null(strstr(err.what, "line"));
}

static void files_outside_the_folder_are_refused(void **state) {
  (void)state;
  weft_error err = {0};
  wf_package *p;
  put_graph("model.onnx", "16", 4);
  put_genai("", "", "");
  const char *const names[] = {"../model.onnx", "/etc/passwd", "onnx/../../x", "."};
  for (size_t i = 0; i < WF_ARRAY_LEN(names); i++) {
    assert_refused(open_root(&p, names[i], &err), WEFT_PACKAGE_INVALID, &err);
  }
  char *link = wf_path_join(root, "link.onnx");
  assert_int_equal(symlink("/etc/hostname", link), 0);
  assert_refused(open_root(&p, "link.onnx", &err), WEFT_PACKAGE_INVALID, &err);
  assert_non_null(strstr(err.fix, "--trust-links"));
  unlink(link);
  wf_free(link);
}

static void a_hugging_face_folder_takes_the_best_file_or_the_named_one(void **state) {
  (void)state;
  weft_error err = {0};
  wf_package *p;
  drop("genai_config.json");
  drop("model.onnx");
  put("config.json",
      "{\"model_type\": \"toy\", \"vocab_size\": 8, \"num_attention_heads\": 2, \"hidden_size\": "
      "32, "
      "\"max_position_embeddings\": 64, \"eos_token_id\": 2}");
  put("generation_config.json",
      "{\"eos_token_id\": [2, 5], \"do_sample\": true, \"temperature\": 0.25}");
  assert_refused(open_root(&p, NULL, &err), WEFT_PACKAGE_INVALID, &err); /* no graph */
  put_graph("onnx/model_q4.onnx", "16", 4);
  assert_ok(open_root(&p, NULL, &err), &err);
  assert_non_null(strstr(p->model, "onnx/model_q4.onnx"));
  wf_package_close(p);
  put_graph("onnx/model.onnx", "16", 4);
  assert_ok(open_root(&p, NULL, &err), &err);
  assert_non_null(strstr(p->model, "onnx/model.onnx"));
  assert_string_equal(p->kind, "huggingface");
  assert_int_equal(p->n_layers, 1);
  assert_int_equal(p->n_end_ids, 2);
  assert_int_equal(p->end_ids[1], 5);
  assert_true(p->defaults.temperature == 0.25);
  wf_package_close(p);
  assert_ok(open_root(&p, "model_q4", &err), &err);
  assert_non_null(strstr(p->model, "model_q4.onnx"));
  wf_package_close(p);
  assert_refused(open_root(&p, "model_q8", &err), WEFT_PACKAGE_INVALID, &err);
}

static void a_folder_without_a_package_is_said_to_hold_none(void **state) {
  (void)state;
  weft_error err = {0};
  wf_package *p;
  drop("config.json");
  assert_refused(open_root(&p, NULL, &err), WEFT_IO, &err);
  const wf_package_options o = {0};
  assert_refused(wf_package_open(&p, "/nonexistent/weft", &o, &err), WEFT_IO, &err);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_genai_folder_gives_ports_ids_and_defaults),
      cmocka_unit_test(unknown_and_unsupported_members_are_refused_by_their_path),
      cmocka_unit_test(documents_that_contradict_the_graph_are_refused),
      cmocka_unit_test(files_outside_the_folder_are_refused),
      cmocka_unit_test(a_hugging_face_folder_takes_the_best_file_or_the_named_one),
      cmocka_unit_test(a_folder_without_a_package_is_said_to_hold_none),
  };
  return cmocka_run_group_tests(tests, make_root, remove_root);
}
