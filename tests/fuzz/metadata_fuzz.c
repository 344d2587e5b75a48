/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a metadata document: the reader and all rules give a model or problems. Asserts no
 * crash and no leak, that a refusal has a sentence, that what loads can be printed, and that the
 * same bytes give the same verdict again. The first byte chooses the syntax; libFuzzer's mutations
 * of the corpus, which is valid documents, do the rest. */
#include <stdint.h>
#include <stdlib.h>

#include "package/metadata.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t run(const uint8_t *data, size_t size, weft_status *st) {
  wf_metadata_package *p = NULL;
  weft_error err = {.struct_size = sizeof err};
  wf_buf b = {0};
  const wf_metadata_options options = {.without_artifacts = true};
  const wf_str text = {(const char *)data, size};
  *st =
      wf_metadata_read(&p, text, data[0] == '{' ? WF_SYNTAX_JSON : WF_SYNTAX_YAML, &options, &err);
  if (*st != WEFT_OK && (err.what[0] == '\0' || !p)) abort();
  if (*st == WEFT_OK && !wf_metadata_get(p)) abort();
  const size_t n = wf_metadata_problems(p)->list.n;
  wf_problems_print(wf_metadata_problems(p), "document", size % 2 == 0, &b);
  if (!b.n) abort();
  wf_buf_deinit(&b);
  wf_metadata_close(p);
  return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  weft_status first, second;
  if (!size || size > 1 << 16) return 0;
  const size_t n = run(data, size, &first);
  if (n != run(data, size, &second) || first != second) abort();
  return 0;
}
