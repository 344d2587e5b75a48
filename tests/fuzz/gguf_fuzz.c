/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a GGUF file: the reader and the whole import give a typed error or a package.
 * Asserts no crash, no leak, nothing outside the mapping, and that a refused import leaves no
 * folder. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/partial.h"
#include "import/gguf.h"
#include "import/gguf_model.h"
#include "import/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A model whose rotary tables would take long to write says nothing about the reader. */
static int is_small(const char *path) {
  wf_gguf g;
  wf_gguf_model m;
  int small = 1;
  if (wf_gguf_open(&g, path, NULL) != WEFT_OK) return 1;
  if (wf_gguf_model_read(&g, &m, NULL) == WEFT_OK) small = m.context * m.rotary_dim < 65536;
  wf_gguf_close(&g);
  return small;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[96], out[96];
  weft_error err = {0};
  if (size > 1 << 16) return 0;
  (void)snprintf(path, sizeof path, "/dev/shm/weft-gguf-fuzz-%ld.gguf", (long)getpid());
  (void)snprintf(out, sizeof out, "/dev/shm/weft-gguf-fuzz-%ld", (long)getpid());
  if (wf_file_write(path, data, size, true, NULL) != WEFT_OK) return 0;
  if (is_small(path)) {
    const weft_status st = wf_import_gguf(path, out, NULL, &err);
    if (st != WEFT_OK && (err.what[0] == '\0' || wf_path_exists(out))) abort();
    wf_folder_remove(out);
    if (wf_import_gguf_tokenizer(path, out, NULL, &err) != WEFT_OK && err.what[0] == 0) abort();
    wf_folder_remove(out);
  }
  (void)unlink(path);
  return 0;
}
