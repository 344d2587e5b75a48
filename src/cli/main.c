/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const cli_command commands[] = {
    {"run", "PKG [-p TEXT | -f FILE | --messages FILE.json | --ids 1,2,3] [OPTIONS]",
     "Answers a prompt, or chats when there is none.", cmd_run},
    {"import", "SRC -o DIR [OPTIONS]", "Converts a GGUF file into a package folder.", cmd_import},
    {"inspect", "PKG|MODEL.onnx [--json] [--dot]", "Shows what weft makes of a model.",
     cmd_inspect},
    {"validate", "PKG [--strict] [--json]", "Lists every problem of a package.", cmd_validate},
    {"tokenize", "PKG|FILE.gguf|tokenizer.json|tokenizer.model [TEXT|-] [OPTIONS]",
     "Turns text into token ids.", cmd_tokenize},
    {"detokenize", "PKG IDS [--skip-special]", "Turns token ids into text.", cmd_detokenize},
    {"template", "[PKG] [--template FILE.jinja] [--now TIME] FILE.json",
     "Renders a chat template over messages.", cmd_template},
    {"exec", "MODEL.onnx|PKG --input NAME=FILE.npy|VALUE ... --output-dir DIR",
     "Runs a graph once and writes every output.", cmd_exec},
    {"logits", "PKG --ids 1,2,3 --output FILE.npy", "Writes the logits after each token.",
     cmd_logits},
    {"verify", "PKG|MODEL.onnx [--input NAME=FILE.npy ...] [--dump DIR] [--tolerance F]",
     "Compares the native backend with ONNX Runtime, node by node.", cmd_verify},
    {"bench", "PKG [-p 512] [-n 128] [-d 0] [-t 1,2] [--json]",
     "Measures reading and writing speed.", cmd_bench},
    {"cache", "list|clear", "Shows or empties weft's cache folder.", cmd_cache},
    {"providers", "", "Lists what can execute models.", cmd_providers},
};

static void print_commands(void) {
  wf_buf b = {0};
  wf_buf_puts(
      &b,
      "usage: weft COMMAND [ARGS] [OPTIONS]\n\nweft runs generative ONNX packages.\n\ncommands:\n");
  for (size_t i = 0; i < WF_ARRAY_LEN(commands); i++) {
    wf_buf_printf(&b, "  %-12s %s\n", commands[i].name, commands[i].summary);
  }
  wf_buf_puts(&b, "\nweft COMMAND --help tells more; weft --version the version.\n");
  cli_out(b.at, b.n);
  wf_buf_deinit(&b);
}

int main(int argc, char **argv) {
  cli_process_init();
  /* ONNX Runtime's own switch, read as it starts: its call to end telemetry comes too late. Set
   * while there is one thread; what the user has set stays. */
  (void)setenv("ORT_DISABLE_TELEMETRY", "1", 0);
  if (argc < 2) {
    cli_err("usage: weft COMMAND [ARGS] [OPTIONS]\ntry: weft --help\n");
    return CLI_USAGE;
  }
  const char *word = argv[1];
  char help[] = "--help";
  char *only_help[] = {help};
  int n_rest = argc - 2;
  char **rest = argv + 2;
  if (strcmp(word, "help") == 0 && argc > 2) { /* `weft help run`, as git takes it */
    word = argv[2];
    n_rest = 1;
    rest = only_help;
  }
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
    print_commands();
    return cli_out_close(0);
  }
  if (strcmp(word, "--version") == 0) {
    wf_buf b = {0};
#ifdef WEFT_HAVE_LIBEDIT
    wf_buf_printf(&b, "weft %s (line editing: libedit)\n", weft_version());
#else
    wf_buf_printf(&b, "weft %s (line editing: none)\n", weft_version());
#endif
    cli_out(b.at, b.n);
    wf_buf_deinit(&b);
    return cli_out_close(0);
  }
  for (size_t i = 0; i < WF_ARRAY_LEN(commands); i++) {
    if (strcmp(word, commands[i].name) == 0) {
      return cli_out_close(commands[i].run(&commands[i], n_rest, rest));
    }
  }
  cli_err("weft: there is no command '%s'\ntry: weft --help\n", word);
  return CLI_USAGE;
}
