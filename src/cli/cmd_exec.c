/* SPDX-License-Identifier: Apache-2.0 */
/* weft exec and weft logits: numbers in, numbers out, as .npy files. */
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"

static void input_at(const void *g, size_t i, weft_tensor *port) { weft_graph_input(g, i, port); }

static weft_status fail_no_port(const weft_graph *g, const char *text, weft_error *err) {
  wf_buf names = {0};
  for (size_t i = 0; i < weft_graph_n_inputs(g); i++) {
    weft_tensor port = {.struct_size = sizeof port};
    weft_graph_input(g, i, &port);
    wf_buf_printf(&names, "%s%s", i ? ", " : "", port.name);
  }
  const weft_status st = wf_fail(err, WEFT_INVALID_ARGUMENT, "name one of the graph's inputs",
                                 "the graph has no input '%.*s'; it has %s",
                                 (int)strcspn(text, "="), text, names.at ? names.at : "none");
  wf_buf_deinit(&names);
  return st;
}

weft_status cli_read_input(const weft_graph *g, const char *text, cli_array *a, weft_tensor *t,
                           weft_error *err) {
  const size_t n_name = cli_find_port(text, g, weft_graph_n_inputs(g), input_at, t);
  if (n_name == 0) return fail_no_port(g, text, err);
  return cli_take_value(text + n_name + 1, a, t, err);
}

static weft_status run_graph(weft_graph *g, const weft_tensor *in, size_t n_in, const char *dir,
                             weft_error *err) {
  weft_status st = WEFT_OK;
  const size_t n = weft_graph_n_outputs(g);
  cli_outputs outputs = {0};
  weft_tensor *tensors = wf_calloc(n + 1, sizeof *tensors);
  if (!tensors || !wf_vec_reserve(&outputs, n)) WF_TRY(wf_fail_memory(err, 0, "outputs"));
  for (size_t i = 0; i < n; i++) tensors[i].struct_size = sizeof *tensors;
  WF_TRY(weft_graph_run(g, in, n_in, tensors, err));
  for (size_t i = 0; i < n; i++) outputs.at[outputs.n++] = (cli_output){tensors[i], -1};
  st = cli_write_outputs(dir, &outputs, err);
out:
  wf_vec_free(&outputs);
  wf_free(tensors);
  return st;
}

int cmd_exec(const cli_command *c, int argc, char **argv) {
  int code;
  weft_status st = WEFT_OK;
  const char *dir = NULL, *trace = NULL;
  weft_profile *profile = NULL;
  cli_model_options mo;
  cli_option model_table[CLI_N_MODEL_OPTIONS], request_table[CLI_N_REQUEST_OPTIONS];
  cli_request request = {0};
  cli_texts rest = {0}, inputs = {0};
  weft_model_options options;
  weft_error err = {0};
  weft_graph *g = NULL;
  cli_array *arrays = NULL;
  weft_tensor *in = NULL;
  const cli_option own[] = {{"--input", "-i", CLI_LIST, &inputs, NULL, 0, 0, "NAME=X",
                             "a .npy file or a value (repeatable)"},
                            {"--output-dir", "-o", CLI_TEXT, &dir, NULL, 0, 0, "DIR",
                             "where every output goes as NAME.npy"},
                            {"--profile", NULL, CLI_TEXT, &trace, NULL, 0, 0, "FILE",
                             "where the time of each node goes, as a trace for Perfetto"},
                            {NULL, NULL, CLI_FLAG, NULL, NULL, 0, 0, NULL, NULL}};
  cli_model_options_init(&mo);
  cli_model_table(&mo, model_table);
  cli_request_table(&request, request_table);
  const cli_option *const tables[] = {own, request_table, model_table};
  code = cli_parse(c, argc, argv, tables, 3, &rest);
  if (code >= 0) goto out;
  if (rest.n != 1 || !dir) {
    code = cli_usage(c, rest.n != 1 ? "name one model" : "--output-dir is missing");
    goto out;
  }
  for (size_t i = 0; i < inputs.n; i++) {
    if (strchr(inputs.at[i], '=')) continue;
    code = cli_usage(c, "--input wants NAME=FILE.npy or NAME=VALUE, not '%s'", inputs.at[i]);
    goto out;
  }
  cli_model_take(&mo, true, &options);
  if (weft_workflow_is(rest.at[0])) {
    if (trace) {
      code = cli_usage(c, "--profile FILE is for graphs, not for workflows");
      goto out;
    }
    st = cli_exec_workflow(rest.at[0], &inputs, &request, &options, dir, &err);
    code = st == WEFT_OK ? 0 : cli_fail(&err);
    goto out;
  }
  if (cli_request_is_given(&request)) {
    code = cli_usage(
        c, "tokens, sampling, sessions and overrides are asked of a workflow; '%s' has none",
        rest.at[0]);
    goto out;
  }
  arrays = wf_calloc(inputs.n + 1, sizeof *arrays);
  in = wf_calloc(inputs.n + 1, sizeof *in);
  if (!arrays || !in) {
    code = cli_fail_memory();
    goto out;
  }
  cli_import_begin(rest.at[0]);
  st = cli_profile_begin(trace, &profile, &options, &err);
  if (st == WEFT_OK) st = weft_graph_open(&g, rest.at[0], &options, &err);
  cli_import_end(rest.at[0]);
  for (size_t i = 0; i < inputs.n && st == WEFT_OK; i++)
    st = cli_read_input(g, inputs.at[i], &arrays[i], &in[i], &err);
  if (st == WEFT_OK) st = run_graph(g, in, inputs.n, dir, &err);
  code = st == WEFT_OK ? 0 : cli_fail(&err);
out:
  weft_graph_close(g);
  code = cli_profile_end(trace, profile, code);
  for (size_t i = 0; arrays && i < inputs.n; i++) wf_free(arrays[i].data);
  wf_free(arrays);
  wf_free(in);
  wf_vec_free(&inputs);
  cli_request_deinit(&request);
  cli_model_deinit(&mo);
  wf_vec_free(&rest);
  return code;
}

int cmd_logits(const cli_command *c, int argc, char **argv) {
  int code;
  weft_status st;
  const char *ids_text = NULL, *output = NULL;
  cli_model_options mo;
  cli_option model_table[CLI_N_MODEL_OPTIONS];
  cli_texts rest = {0};
  weft_model_options options;
  weft_error err = {0};
  weft_model *model = NULL;
  weft_generation *g = NULL;
  int32_t *ids = NULL;
  size_t n = 0, n_logits = 0;
  float *logits = NULL;
  const cli_option own[] = {
      {"--ids", NULL, CLI_TEXT, &ids_text, NULL, 0, 0, "IDS", "token ids separated by commas"},
      {"--output", "-o", CLI_TEXT, &output, NULL, 0, 0, "FILE", "float32 [n, vocabulary] as .npy"},
      {NULL, NULL, CLI_FLAG, NULL, NULL, 0, 0, NULL, NULL}};
  cli_model_options_init(&mo);
  cli_model_table(&mo, model_table);
  const cli_option *const tables[] = {own, model_table};
  code = cli_parse(c, argc, argv, tables, 2, &rest);
  if (code >= 0) goto out;
  if (rest.n != 1 || !ids_text || !output) {
    code = cli_usage(c, "name one package, --ids and --output");
    goto out;
  }
  if (!cli_parse_ids(ids_text, &ids, &n) || n == 0) {
    code = cli_usage(c, "--ids wants token ids separated by commas, not '%s'", ids_text);
    goto out;
  }
  cli_model_take(&mo, true, &options);
  st = cli_model_open(&model, rest.at[0], &options, &err);
  if (st == WEFT_OK) st = weft_generation_create(&g, model, NULL, &err);
  if (st == WEFT_OK) {
    weft_model_info info = {.struct_size = sizeof info};
    weft_model_describe(model, &info);
    if (!wf_size_mul(n, (size_t)info.vocab, &n_logits) ||
        !(logits = wf_calloc(n_logits, sizeof *logits))) {
      code = cli_fail_memory();
      goto out;
    }
    st = weft_generation_append_logits(g, ids, n, logits, n_logits, &err);
    const int64_t dims[2] = {(int64_t)n, info.vocab};
    const weft_tensor t = {.struct_size = sizeof t,
                           .name = "logits",
                           .dtype = 1,
                           .rank = 2,
                           .dims = dims,
                           .data = logits,
                           .n_bytes = n_logits * sizeof *logits};
    if (st == WEFT_OK) st = cli_npy_write(output, &t, &err);
  }
  code = st == WEFT_OK ? 0 : cli_fail(&err);
out:
  weft_generation_close(g);
  weft_model_close(model);
  wf_free(logits);
  wf_free(ids);
  cli_model_deinit(&mo);
  wf_vec_free(&rest);
  return code;
}
