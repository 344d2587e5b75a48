/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a model in protobuf's text form. Asserts no crash, no leak, a result of at most four
 * times the text, a place in each refusal of the text, and that what was translated has the
 * structure of ONNX's messages: the reader may refuse what it says, in a sentence. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "onnx/onnx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* "fuzz: MESSAGE at byte N: field 5 comes twice" and its kin, which no name can look like. */
static bool is_wire_fault(const char *what) {
  static const char *const starts[] = {"field ", "the number of field ", "the length of field ",
                                       "the packed list of field ", "this is no field tag"};
  const char *at = strstr(what, " at byte ");
  if (!at) return false;
  at += 9 + strspn(at + 9, "0123456789") + 2;
  for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
    if (strncmp(at, starts[i], strlen(starts[i])) == 0) return true;
  }
  return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  weft_error err = {0};
  wf_onnx_model *m = NULL;
  wf_buf binary = {0};
  if (size > 1 << 17) return 0;
  weft_status st = wf_onnx_from_text((wf_str){(const char *)data, size}, "fuzz", &binary, &err);
  if (st == WEFT_OK) {
    if (binary.n > 4 * size) abort();
    st = wf_onnx_read(&m, binary.at ? binary.at : "", binary.n, "fuzz", NULL, NULL, &err);
    if (st != WEFT_OK && err.what[0] == '\0') abort();
    if (st != WEFT_OK && is_wire_fault(err.what)) abort();
  } else if (strncmp(err.what, "fuzz:", 5) != 0 || err.fix[0] == '\0') {
    abort();
  }
  wf_onnx_close(m);
  wf_buf_deinit(&binary);
  return 0;
}
