/* SPDX-License-Identifier: Apache-2.0 */
/* wf_import_* from the command line, for tests that have no `weft` yet:
 *   import_tool FILE.gguf DIR [--dequantize] [--tokenizer] [--accuracy N] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "import/import.h"

int main(int argc, char **argv) {
  wf_import_options opts = {0};
  weft_error err = {0};
  int tokenizer_only = 0;
  if (argc < 3) return 2;
  for (int i = 3; i < argc; i++) {
    if (strcmp(argv[i], "--dequantize") == 0)
      opts.dequantize = true;
    else if (strcmp(argv[i], "--tokenizer") == 0)
      tokenizer_only = 1;
    else if (strcmp(argv[i], "--accuracy") == 0 && i + 1 < argc)
      opts.accuracy_level = argv[++i][0] - '0';
    else
      return 2;
  }
  if (strcmp(argv[2], "--cached") == 0) {
    char *dir = NULL;
    bool is_temporary = false;
    const weft_status cached = wf_import_cached(argv[1], &opts, &dir, &is_temporary, &err);
    if (cached != WEFT_OK) {
      (void)fprintf(stderr, "%s: %s (%s)\n", weft_status_name(cached), err.what, err.fix);
      return (int)cached;
    }
    (void)printf("%s %s\n", dir, is_temporary ? "temporary" : "kept");
    wf_free(dir);
    return 0;
  }
  const weft_status st = tokenizer_only ? wf_import_gguf_tokenizer(argv[1], argv[2], &opts, &err)
                                        : wf_import_gguf(argv[1], argv[2], &opts, &err);
  if (st != WEFT_OK) {
    (void)fprintf(stderr, "%s: %s (%s)\n", weft_status_name(st), err.what, err.fix);
    return (int)st;
  }
  return 0;
}
