/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the model.onnx of a package: opened as a plain graph and run, then opened with a
 * tokenizer and asked for a few tokens. Asserts no crash, no leak, no endless run, and that each
 * refusal has a sentence. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "weft/weft.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_INPUTS = 16, MAX_RANK = 8, MAX_BYTES = 1 << 18, FREE_DIM = 3, N_VOCAB = 64 };

static char folder[64];

static void must_say(weft_status st, const weft_error *err) {
  if (st != WEFT_OK && err->what[0] == '\0') abort();
}

static void put(const char *name, const void *bytes, size_t n) {
  char path[96];
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "wb");
  if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) abort();
}

static void remove_folder(void) {
  static const char *const names[] = {"model.onnx", "config.json", "tokenizer.json"};
  char path[96];
  for (size_t i = 0; i < 3; i++) {
    (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    (void)unlink(path);
  }
  (void)rmdir(folder);
}

static void make_folder(void) {
  static const char config[] =
      "{\"max_position_embeddings\": 96, \"vocab_size\": 64, \"num_attention_heads\": 2, "
      "\"num_key_value_heads\": 1, \"hidden_size\": 32, \"head_dim\": 16, \"eos_token_id\": 63}";
  wf_buf b = {0};
  (void)snprintf(folder, sizeof folder, "/tmp/weft-fuzz-XXXXXX");
  if (!mkdtemp(folder)) abort();
  atexit(remove_folder);
  put("config.json", config, sizeof config - 1);
  wf_buf_puts(&b, "{\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {");
  for (int i = 0; i < N_VOCAB; i++) wf_buf_printf(&b, "%s\"<%d>\": %d", i ? ", " : "", i, i);
  wf_buf_puts(&b, "}}}");
  put("tokenizer.json", b.at, b.n);
  wf_buf_deinit(&b);
}

static size_t bytes_of(int dtype) {
  switch (dtype) {
    case 1:
    case 6:
    case 12:
      return 4;
    case 7:
    case 11:
    case 13:
      return 8;
    case 4:
    case 5:
    case 10:
    case 16:
      return 2;
    default:
      return 1;
  }
}

static void run_graph(weft_graph *g) {
  weft_error err = {0};
  const size_t n = weft_graph_n_inputs(g), n_out = weft_graph_n_outputs(g);
  weft_tensor in[MAX_INPUTS];
  int64_t dims[MAX_INPUTS][MAX_RANK];
  if (n > MAX_INPUTS) return;
  void *zeros = calloc(1, MAX_BYTES);
  weft_tensor *out = calloc(n_out + 1, sizeof *out);
  for (size_t i = 0; i < n; i++) {
    in[i] = (weft_tensor){.struct_size = sizeof in[i]};
    weft_graph_input(g, i, &in[i]);
    if (in[i].rank < 0) in[i].rank = 2;
    in[i].n_bytes = bytes_of(in[i].dtype);
    for (int d = 0; d < in[i].rank && d < MAX_RANK; d++) {
      dims[i][d] = in[i].dims && in[i].dims[d] >= 0 ? in[i].dims[d] : FREE_DIM;
      if (dims[i][d] > MAX_BYTES || in[i].n_bytes * (size_t)dims[i][d] > MAX_BYTES) goto out;
      in[i].n_bytes *= (size_t)dims[i][d];
    }
    in[i].dims = dims[i];
    in[i].data = zeros;
  }
  for (size_t i = 0; out && i <= n_out; i++) out[i].struct_size = sizeof out[i];
  if (zeros && out) {
    must_say(weft_graph_run(g, in, n, out, &err), &err);
    must_say(weft_graph_run(g, in, n, out, &err), &err);
  }
out:
  free(zeros);
  free(out);
}

static void use_model(weft_model *m) {
  static const int32_t ids[] = {5, 53, 3, 8, 1};
  weft_error err = {0};
  weft_generation *g = NULL;
  weft_generation_options o;
  weft_token t = {.struct_size = sizeof t};
  weft_generation_options_init(&o, sizeof o);
  o.greedy = 1;
  o.ignore_eos = 1;
  weft_status st = weft_generation_create(&g, m, &o, &err);
  if (st == WEFT_OK) st = weft_generation_append(g, ids, 5, &err);
  for (int i = 0; st == WEFT_OK && i < 3; i++) st = weft_generation_step(g, &t, &err);
  must_say(st, &err);
  weft_generation_close(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  weft_error err = {0};
  weft_graph *graph = NULL;
  weft_model *model = NULL;
  weft_model_options o;
  char path[96];
  if (size > 1 << 18) return 0;
  if (!folder[0]) make_folder();
  weft_model_options_init(&o, sizeof o);
  o.use_cache = 0;
  o.n_threads = 1;
  put("model.onnx", data, size);
  (void)snprintf(path, sizeof path, "%s/model.onnx", folder);
  weft_status st = weft_graph_open(&graph, path, &o, &err);
  must_say(st, &err);
  if (st == WEFT_OK) run_graph(graph);
  weft_graph_close(graph);
  st = weft_model_open(&model, folder, &o, &err);
  must_say(st, &err);
  if (st == WEFT_OK) use_model(model);
  weft_model_close(model);
  return 0;
}
