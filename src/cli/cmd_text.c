/* SPDX-License-Identifier: Apache-2.0 */
/* weft tokenize, detokenize and template: text without a model. */
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"

enum { MAX_TEXT_BYTES = 1 << 30, MAX_MESSAGES_BYTES = 64 << 20 };

static void add_ids(wf_buf *b, const int32_t *ids, size_t n, const char *between) {
  for (size_t i = 0; i < n; i++) wf_buf_printf(b, "%s%d", i ? between : "", ids[i]);
}

static void add_encoding(wf_buf *b, const weft_encoding *e, bool offsets, bool json) {
  if (offsets) {
    wf_buf_puts(b, "{\"ids\": [");
    add_ids(b, e->ids, e->n, ", ");
    wf_buf_puts(b, "], \"tokens\": [");
    for (size_t i = 0; i < e->n; i++) {
      if (i) wf_buf_puts(b, ", ");
      wf_buf_add_json_string(b, wf_str_of(e->tokens[i]), false);
    }
    wf_buf_puts(b, "], \"offsets\": [");
    for (size_t i = 0; i < e->n; i++) {
      wf_buf_printf(b, "%s[%u, %u]", i ? ", " : "", e->offsets[2 * i], e->offsets[2 * i + 1]);
    }
    wf_buf_puts(b, "]}\n");
    return;
  }
  if (json) wf_buf_putc(b, '[');
  add_ids(b, e->ids, e->n, json ? ", " : ",");
  wf_buf_puts(b, json ? "]\n" : "\n");
}

/* A GGUF file's tokenizer passes through files, which an interrupt must not leave behind. */
static weft_status open_tokenizer(weft_tokenizer **t, const char *path, weft_error *err) {
  cli_import_begin(path);
  const weft_status st = weft_tokenizer_open(t, path, err);
  cli_import_end(path);
  return st;
}

int cmd_tokenize(const cli_command *c, int argc, char **argv) {
  int code;
  const char *pair = NULL;
  bool no_special = false, offsets = false, json = false;
  cli_texts rest = {0};
  weft_tokenizer *t = NULL;
  weft_error err = {0};
  weft_encoding e = {.struct_size = sizeof e};
  char *text = NULL;
  size_t n = 0;
  const cli_option own[] = {
      {"--pair", NULL, CLI_TEXT, &pair, NULL, 0, 0, "TEXT",
       "a second text, joined as the tokenizer says"},
      {"--no-special", NULL, CLI_FLAG, &no_special, NULL, 0, 0, NULL, "no start and end tokens"},
      {"--offsets", NULL, CLI_FLAG, &offsets, NULL, 0, 0, NULL,
       "an object with ids, tokens, offsets"},
      {"--json", NULL, CLI_FLAG, &json, NULL, 0, 0, NULL, "a JSON list"},
      {NULL, NULL, CLI_FLAG, NULL, NULL, 0, 0, NULL, NULL}};
  const cli_option *const tables[] = {own};
  code = cli_parse(c, argc, argv, tables, 1, &rest);
  if (code >= 0) goto out;
  if (rest.n < 1 || rest.n > 2) {
    code = cli_usage(c, "name a tokenizer and at most one text");
    goto out;
  }
  const char *given = rest.n == 2 ? rest.at[1] : "-";
  weft_status st = WEFT_OK;
  if (strcmp(given, "-") == 0) {
    st = wf_file_read("/dev/stdin", MAX_TEXT_BYTES, &text, &n, &err);
    given = text;
  } else {
    n = strlen(given);
  }
  if (st == WEFT_OK) st = open_tokenizer(&t, rest.at[0], &err);
  if (st == WEFT_OK) {
    st = weft_tokenizer_encode(t, given, n, pair, pair ? strlen(pair) : 0,
                               no_special ? WEFT_TOKENIZE_NO_SPECIAL : WEFT_TOKENIZE_DEFAULT,
                               offsets, &e, &err);
  }
  if (st != WEFT_OK) {
    code = cli_fail(&err);
    goto out;
  }
  wf_buf b = {0};
  add_encoding(&b, &e, offsets, json);
  code = b.failed ? cli_fail_memory() : 0;
  if (!code) cli_out(b.at, b.n);
  wf_buf_deinit(&b);
out:
  weft_encoding_clear(&e);
  weft_tokenizer_close(t);
  wf_free(text);
  wf_vec_free(&rest);
  return code;
}

int cmd_detokenize(const cli_command *c, int argc, char **argv) {
  int code;
  bool skip = false;
  cli_texts rest = {0};
  weft_tokenizer *t = NULL;
  weft_error err = {0};
  int32_t *ids = NULL;
  size_t n_ids = 0, n = 0;
  char *text = NULL;
  const cli_option own[] = {
      {"--skip-special", NULL, CLI_FLAG, &skip, NULL, 0, 0, NULL, "leave special tokens out"},
      {NULL, NULL, CLI_FLAG, NULL, NULL, 0, 0, NULL, NULL}};
  const cli_option *const tables[] = {own};
  code = cli_parse(c, argc, argv, tables, 1, &rest);
  if (code >= 0) goto out;
  if (rest.n != 2) {
    code = cli_usage(c, "name a package and ids separated by commas");
    goto out;
  }
  if (!cli_parse_ids(rest.at[1], &ids, &n_ids)) {
    code = cli_usage(c, "IDS are whole numbers separated by commas, not '%s'", rest.at[1]);
    goto out;
  }
  if (open_tokenizer(&t, rest.at[0], &err) != WEFT_OK ||
      weft_tokenizer_decode(t, ids, n_ids, skip, &text, &n, &err) != WEFT_OK) {
    code = cli_fail(&err);
    goto out;
  }
  cli_out(text, n);
  cli_puts("\n");
  code = 0;
out:
  weft_free(text);
  weft_tokenizer_close(t);
  wf_free(ids);
  wf_vec_free(&rest);
  return code;
}

int cmd_template(const cli_command *c, int argc, char **argv) {
  int code;
  const char *file = NULL, *now = NULL;
  cli_texts rest = {0};
  weft_template *t = NULL;
  weft_error err = {0};
  char *json = NULL, *text = NULL;
  size_t n_json = 0, n = 0;
  const cli_option own[] = {{"--template", NULL, CLI_TEXT, &file, NULL, 0, 0, "FILE",
                             "a Jinja file instead of the package's"},
                            {"--now", NULL, CLI_TEXT, &now, NULL, 0, 0, "TIME",
                             "what strftime_now shows: 2026-01-02T03:04:05"},
                            {NULL, NULL, CLI_FLAG, NULL, NULL, 0, 0, NULL, NULL}};
  const cli_option *const tables[] = {own};
  code = cli_parse(c, argc, argv, tables, 1, &rest);
  if (code >= 0) goto out;
  if (rest.n < 1 || rest.n > 2 || (rest.n == 1 && !file)) {
    code = cli_usage(c, "name a package or --template FILE, and one JSON file");
    goto out;
  }
  int64_t seconds;
  if (now && !wf_parse_time(wf_str_of(now), &seconds)) {
    code = cli_usage(c, "--now wants a time such as 2026-01-02T03:04:05, not '%s'", now);
    goto out;
  }
  const char *path = rest.at[rest.n - 1];
  if (strcmp(path, "-") == 0) path = "/dev/stdin";
  weft_status st = wf_file_read(path, MAX_MESSAGES_BYTES, &json, &n_json, &err);
  if (st == WEFT_OK) {
    const char *package = rest.n == 2 ? rest.at[0] : NULL;
    if (package) cli_import_begin(package);
    st = weft_template_open(&t, package, file, &err);
    if (package) cli_import_end(package);
  }
  if (st == WEFT_OK) st = weft_template_render(t, json, n_json, now, &text, &n, &err);
  if (st == WEFT_PARSE) st = wf_fail_in(&err, st, "'%s': ", path);
  if (st != WEFT_OK) {
    code = cli_fail(&err);
    goto out;
  }
  cli_out(text, n);
  code = 0;
out:
  weft_free(text);
  weft_template_close(t);
  wf_free(json);
  wf_vec_free(&rest);
  return code;
}
