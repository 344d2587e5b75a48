/* SPDX-License-Identifier: Apache-2.0 */
/* weft import, cache and providers. */
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

int cmd_import(const cli_command *c, int argc, char **argv) {
  int code;
  const char *dir = NULL;
  bool portable = false, dequantize = false;
  cli_texts rest = {0};
  weft_error err = {0};
  weft_import_options options;
  const cli_option own[] = {
      {"--output", "-o", CLI_TEXT, &dir, NULL, 0, 0, "DIR", "the package folder to make"},
      {"--portable", NULL, CLI_FLAG, &portable, NULL, 0, 0, NULL,
       "only what other runtimes take too"},
      {"--dequantize", NULL, CLI_FLAG, &dequantize, NULL, 0, 0, NULL, "fp32 weights"},
      {NULL, NULL, CLI_FLAG, NULL, NULL, 0, 0, NULL, NULL}};
  const cli_option *const tables[] = {own};
  code = cli_parse(c, argc, argv, tables, 1, &rest);
  if (code >= 0) goto out;
  if (rest.n != 1 || !dir) {
    code = cli_usage(c, "name one file and -o DIR");
    goto out;
  }
  weft_import_options_init(&options, sizeof options);
  options.progress = cli_progress;
  options.dequantize = dequantize;
  options.is_cancelled = cli_is_interrupted;
  cli_interrupt_noted(true); /* so that the import can clear away what it has written */
  const weft_status st = weft_import(rest.at[0], dir, &options, &err);
  code = st == WEFT_OK ? 0 : st == WEFT_CANCELLED ? cli_interrupted_code() : cli_fail(&err);
out:
  wf_vec_free(&rest);
  return code;
}

int cmd_cache(const cli_command *c, int argc, char **argv) {
  int code;
  cli_texts rest = {0};
  weft_error err = {0};
  char *text = NULL;
  const cli_option own[] = {{NULL, NULL, CLI_FLAG, NULL, NULL, 0, 0, NULL, NULL}};
  const cli_option *const tables[] = {own};
  code = cli_parse(c, argc, argv, tables, 1, &rest);
  if (code >= 0) goto out;
  if (rest.n == 1 && strcmp(rest.at[0], "list") == 0) {
    code = weft_cache_list(&text, &err) == WEFT_OK ? 0 : cli_fail(&err);
    if (code == 0) cli_puts(text);
  } else if (rest.n == 1 && strcmp(rest.at[0], "clear") == 0) {
    uint64_t n_bytes = 0;
    code = weft_cache_clear(&n_bytes, &err) == WEFT_OK ? 0 : cli_fail(&err);
    if (code == 0) cli_err("freed %llu MiB\n", (unsigned long long)(n_bytes >> 20));
  } else {
    code = cli_usage(c, "say list or clear");
  }
out:
  weft_free(text);
  wf_vec_free(&rest);
  return code;
}

int cmd_providers(const cli_command *c, int argc, char **argv) {
  int code;
  bool json = false;
  cli_texts rest = {0};
  cli_model_options mo;
  weft_model_options options;
  weft_error err = {0};
  char *text = NULL;
  cli_model_options_init(&mo);
  const cli_option own[] = {
      {"--json", NULL, CLI_FLAG, &json, NULL, 0, 0, NULL, "as a JSON list"},
      {"--ort", NULL, CLI_TEXT, &mo.ort, NULL, 0, 0, "FILE", "the libonnxruntime to ask"},
      {"--ep", NULL, CLI_LIST, &mo.providers, NULL, 0, 0, "NAME:library=FILE",
       "a plug-in provider to register first"},
      {NULL, NULL, CLI_FLAG, NULL, NULL, 0, 0, NULL, NULL}};
  const cli_option *const tables[] = {own};
  code = cli_parse(c, argc, argv, tables, 1, &rest);
  if (code >= 0) goto out;
  if (rest.n) {
    code = cli_usage(c, "takes no arguments");
    goto out;
  }
  cli_model_take(&mo, false, &options);
  code = weft_providers(&options, json, &text, &err) == WEFT_OK ? 0 : cli_fail(&err);
  if (code == 0) cli_puts(text);
out:
  weft_free(text);
  cli_model_deinit(&mo);
  wf_vec_free(&rest);
  return code;
}

int cmd_inspect(const cli_command *c, int argc, char **argv) {
  int code;
  bool json = false, dot = false;
  cli_model_options mo;
  cli_option model_table[CLI_N_MODEL_OPTIONS];
  cli_texts rest = {0};
  weft_model_options options;
  weft_error err = {0};
  char *text = NULL;
  const cli_option own[] = {
      {"--json", NULL, CLI_FLAG, &json, NULL, 0, 0, NULL, "as a JSON object"},
      {"--dot", NULL, CLI_FLAG, &dot, NULL, 0, 0, NULL, "the graph for Graphviz"},
      {NULL, NULL, CLI_FLAG, NULL, NULL, 0, 0, NULL, NULL}};
  cli_model_options_init(&mo);
  cli_model_table(&mo, model_table);
  const cli_option *const tables[] = {own, model_table};
  code = cli_parse(c, argc, argv, tables, 2, &rest);
  if (code >= 0) goto out;
  if (rest.n != 1 || (json && dot)) {
    code = cli_usage(c, "name one model, and at most one of --json and --dot");
    goto out;
  }
  cli_model_take(&mo, false, &options);
  cli_import_begin(rest.at[0]);
  code = weft_inspect(rest.at[0], &options,
                      json  ? "json"
                      : dot ? "dot"
                            : "text",
                      &text, &err) == WEFT_OK
             ? 0
             : cli_fail(&err);
  cli_import_end(rest.at[0]);
  if (code == 0) cli_puts(text);
out:
  weft_free(text);
  cli_model_deinit(&mo);
  wf_vec_free(&rest);
  return code;
}
