/* SPDX-License-Identifier: Apache-2.0 */
/* weft validate: every problem of a package, a line each; the exit code is the first one's. */
#include "cli/cli.h"

int cmd_validate(const cli_command *c, int argc, char **argv) {
  int code;
  bool json = false, strict = false, trust_links = false;
  cli_texts rest = {0};
  weft_validate_options options;
  weft_error err = {0};
  char *text = NULL;
  const cli_option own[] = {
      {"--strict", NULL, CLI_FLAG, &strict, NULL, 0, 0, NULL, "warnings are errors"},
      {"--json", NULL, CLI_FLAG, &json, NULL, 0, 0, NULL, "as a JSON object"},
      {"--trust-links", NULL, CLI_FLAG, &trust_links, NULL, 0, 0, NULL,
       "follow links out of the package"},
      {NULL, NULL, CLI_FLAG, NULL, NULL, 0, 0, NULL, NULL}};
  const cli_option *const tables[] = {own};
  code = cli_parse(c, argc, argv, tables, 1, &rest);
  if (code >= 0) goto out;
  if (rest.n != 1) {
    code = cli_usage(c, "name one package");
    goto out;
  }
  weft_validate_options_init(&options, sizeof options);
  options.strict = strict;
  options.trust_links = trust_links;
  const weft_status st = weft_validate(rest.at[0], &options, json ? "json" : "text", &text, &err);
  if (text) { /* the report says it all, also of a package that is refused */
    cli_puts(text);
    code = (int)st;
  } else {
    code = st ? cli_fail(&err) : 0;
  }
out:
  weft_free(text);
  wf_vec_free(&rest);
  return code;
}
