/* SPDX-License-Identifier: Apache-2.0 */
/* weft verify: does the native backend compute what ONNX Runtime does? */
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"

/* Where --dump puts values, and whether that went well. */
typedef struct dump {
  const char *dir;
  weft_status status;
  weft_error err;
} dump;

/* NAME.BACKEND.npy, with '/' in names written '_'. */
static void write_value(void *user, const char *backend, const weft_tensor *value) {
  dump *d = user;
  wf_buf name = {0};
  if (d->status != WEFT_OK) return;
  for (const char *p = value->name; *p; p++) wf_buf_putc(&name, *p == '/' ? '_' : *p);
  wf_buf_printf(&name, ".%s.npy", backend);
  char *path = name.failed ? NULL : wf_path_join(d->dir, name.at);
  d->status = path ? cli_npy_write(path, value, &d->err) : wf_fail_memory(&d->err, 0, "a path");
  wf_free(path);
  wf_buf_deinit(&name);
}

/* Reads --input by the ports of the graph. */
static weft_status read_inputs(const char *path, const weft_model_options *options,
                               const cli_texts *texts, cli_array *arrays, weft_tensor *in,
                               char **names, weft_error *err) {
  weft_status st = WEFT_OK;
  weft_graph *g = NULL;
  weft_model_options o = *options;
  o.backend = "auto";
  if (texts->n == 0) return WEFT_OK;
  st = weft_graph_open(&g, path, &o, err);
  for (size_t i = 0; i < texts->n && st == WEFT_OK; i++) {
    st = cli_read_input(g, texts->at[i], &arrays[i], &in[i], err);
    if (st != WEFT_OK) break;
    /* the name is the graph's, which is closed before the tensor is used */
    names[i] = wf_path_join("", in[i].name);
    if (!names[i]) st = wf_fail_memory(err, 0, "a name");
    in[i].name = names[i];
    in[i].dims = arrays[i].dims;
  }
  weft_graph_close(g);
  return st;
}

int cmd_verify(const cli_command *c, int argc, char **argv) {
  int code;
  weft_status st = WEFT_OK;
  cli_model_options mo;
  cli_option model_table[CLI_N_MODEL_OPTIONS];
  cli_texts rest = {0}, inputs = {0};
  weft_model_options options;
  weft_verify_options verify;
  weft_error err = {0};
  cli_array *arrays = NULL;
  weft_tensor *in = NULL;
  char *text = NULL, **names = NULL;
  float tolerance = 0.0f;
  int64_t tokens = 16;
  dump d = {.err = {.struct_size = sizeof d.err}};
  weft_verify_options_init(&verify, sizeof verify);
  const cli_option own[] = {
      {"--input", "-i", CLI_LIST, &inputs, NULL, 0, 0, "NAME=X",
       "a .npy file or a value (repeatable); others are made"},
      {"--dump", NULL, CLI_TEXT, &d.dir, NULL, 0, 0, "DIR",
       "where every value goes as NAME.native.npy and NAME.ort.npy"},
      {"--reference", NULL, CLI_TEXT, &verify.reference, NULL, 0, 0, "PKG|MODEL.onnx",
       "what ONNX Runtime runs instead: a model with the same nodes"},
      {"--tolerance", NULL, CLI_NUMBER, &tolerance, NULL, 0, 1, "F",
       "of a tensor's largest value (1e-4; half-precision types have more)"},
      {"--seed", NULL, CLI_SEED, &verify.seed, NULL, 0, 0, "N", "of the inputs that are made (1)"},
      {"--tokens", "-n", CLI_INT, &tokens, NULL, 0, 1e6, "N",
       "length of a decoder's greedy walk (16; 0: none)"},
      {NULL, NULL, CLI_FLAG, NULL, NULL, 0, 0, NULL, NULL}};
  cli_model_options_init(&mo);
  cli_model_table(&mo, model_table);
  const cli_option *const tables[] = {own, model_table};
  code = cli_parse(c, argc, argv, tables, 2, &rest);
  if (code >= 0) goto out;
  if (rest.n != 1) {
    code = cli_usage(c, "name one model");
    goto out;
  }
  for (size_t i = 0; i < inputs.n; i++) {
    if (strchr(inputs.at[i], '=')) continue;
    code = cli_usage(c, "--input wants NAME=FILE.npy or NAME=VALUE, not '%s'", inputs.at[i]);
    goto out;
  }
  cli_model_take(&mo, true, &options);
  arrays = wf_calloc(inputs.n + 1, sizeof *arrays);
  in = wf_calloc(inputs.n + 1, sizeof *in);
  names = wf_calloc(inputs.n + 1, sizeof *names);
  if (!arrays || !in || !names) {
    code = cli_fail_memory();
    goto out;
  }
  cli_import_begin(rest.at[0]);
  st = read_inputs(rest.at[0], &options, &inputs, arrays, in, names, &err);
  if (st == WEFT_OK && d.dir) st = wf_path_make_dirs(d.dir, false, &err);
  verify.inputs = in;
  verify.n_inputs = inputs.n;
  verify.tolerance = (double)tolerance;
  verify.n_tokens = tokens ? tokens : -1;
  verify.on_value = d.dir ? write_value : NULL;
  verify.on_value_user = &d;
  if (st == WEFT_OK) st = weft_verify(rest.at[0], &options, &verify, &text, &err);
  cli_import_end(rest.at[0]);
  if (text) cli_puts(text);
  code = st == WEFT_OK ? 0 : cli_fail(&err);
  if (code == 0 && d.status != WEFT_OK) code = cli_fail(&d.err);
out:
  weft_free(text);
  for (size_t i = 0; arrays && i < inputs.n; i++) wf_free(arrays[i].data);
  for (size_t i = 0; names && i < inputs.n; i++) wf_free(names[i]);
  wf_free(names);
  wf_free(arrays);
  wf_free(in);
  wf_vec_free(&inputs);
  cli_model_deinit(&mo);
  wf_vec_free(&rest);
  return code;
}
