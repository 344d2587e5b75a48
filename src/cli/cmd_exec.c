/* SPDX-License-Identifier: Apache-2.0 */
/* weft exec and weft logits: numbers in, numbers out, as .npy files. */
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"

/* The length of the longest input name that `text` begins with and '=' follows; 0: none. */
static size_t find_port(const weft_graph *g, const char *text, weft_tensor *port) {
  size_t best = 0;
  for (size_t i = 0; i < weft_graph_n_inputs(g); i++) {
    weft_tensor candidate = {.struct_size = sizeof candidate};
    weft_graph_input(g, i, &candidate);
    const size_t n = strlen(candidate.name);
    if (n > best && strncmp(text, candidate.name, n) == 0 && text[n] == '=') {
      best = n;
      *port = candidate;
    }
  }
  return best;
}

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

weft_status cli_take_value(const char *value, cli_array *a, weft_tensor *t, weft_error *err) {
  if (wf_str_ends(wf_str_of(value), WF_STR(".npy"))) {
    WF_RETURN_IF_ERROR(cli_npy_read(value, a, err));
    /* NumPy has no code for bfloat16 and the 8-bit floats: their bits come as unsigned integers */
    if ((t->dtype == 16 && a->dtype == 4) || (t->dtype >= 17 && t->dtype <= 20 && a->dtype == 2)) {
      a->dtype = t->dtype;
    }
  } else {
    WF_RETURN_IF_ERROR(cli_array_parse(value, t, a, err));
  }
  t->dtype = a->dtype;
  t->rank = a->rank;
  t->dims = a->dims;
  t->data = a->data;
  t->n_bytes = a->n_bytes;
  return WEFT_OK;
}

weft_status cli_read_input(const weft_graph *g, const char *text, cli_array *a, weft_tensor *t,
                           weft_error *err) {
  const size_t n_name = find_port(g, text, t);
  if (n_name == 0) return fail_no_port(g, text, err);
  return cli_take_value(text + n_name + 1, a, t, err);
}

/* NAME.npy with '/' written '_'. Owner: the caller (wf_free); NULL: no memory. */
static char *file_name(const char *output) {
  wf_buf name = {0};
  for (const char *p = output; *p; p++) wf_buf_putc(&name, *p == '/' ? '_' : *p);
  wf_buf_puts(&name, ".npy");
  return wf_buf_take(&name);
}

/* Two outputs such as a/b and a_b would be written over one another. */
static weft_status check_names(char *const *names, const weft_tensor *outputs, size_t n,
                               weft_error *err) {
  for (size_t i = 0; i < n; i++) {
    if (!names[i]) return wf_fail_memory(err, 0, "a path");
    for (size_t k = 0; k < i; k++) {
      if (strcmp(names[i], names[k]) != 0) continue;
      return wf_fail(err, WEFT_INVALID_ARGUMENT, "rename one of the outputs in the graph",
                     "outputs '%s' and '%s' would both be written to '%s'", outputs[k].name,
                     outputs[i].name, names[i]);
    }
  }
  return WEFT_OK;
}

static weft_status write_outputs(const char *dir, const weft_tensor *outputs, size_t n,
                                 weft_error *err) {
  weft_status st = WEFT_OK;
  char **names = wf_calloc(n + 1, sizeof *names);
  if (!names) return wf_fail_memory(err, 0, "paths");
  for (size_t i = 0; i < n; i++) names[i] = file_name(outputs[i].name ? outputs[i].name : "");
  WF_TRY(check_names(names, outputs, n, err));
  WF_TRY(wf_path_make_dirs(dir, false, err));
  for (size_t i = 0; i < n; i++) {
    char *path = wf_path_join(dir, names[i]);
    st = path ? cli_npy_write(path, &outputs[i], err) : wf_fail_memory(err, 0, "a path");
    wf_free(path);
    WF_TRY(st);
  }
out:
  for (size_t i = 0; i < n; i++) wf_free(names[i]);
  wf_free(names);
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
  weft_tensor *in = NULL, *out_tensors = NULL;
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
    code = cli_usage(c, "tokens and sampling are asked of a workflow; '%s' has none", rest.at[0]);
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
  if (st == WEFT_OK) {
    const size_t n = weft_graph_n_outputs(g);
    out_tensors = wf_calloc(n + 1, sizeof *out_tensors);
    if (!out_tensors) {
      code = cli_fail_memory();
      goto out;
    }
    for (size_t i = 0; i < n; i++) out_tensors[i].struct_size = sizeof *out_tensors;
    st = weft_graph_run(g, in, inputs.n, out_tensors, &err);
    if (st == WEFT_OK) st = write_outputs(dir, out_tensors, n, &err);
  }
  code = st == WEFT_OK ? 0 : cli_fail(&err);
out:
  weft_graph_close(g);
  code = cli_profile_end(trace, profile, code);
  for (size_t i = 0; arrays && i < inputs.n; i++) wf_free(arrays[i].data);
  wf_free(arrays);
  wf_free(in);
  wf_free(out_tensors);
  wf_vec_free(&inputs);
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
