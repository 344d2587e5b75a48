/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target of the streaming JSON reader. Asserts: no crash, every event's text lies in bounds
 * and is UTF-8, begins and ends pair up, and the reader comes to an end or an error after at most
 * one event a byte. */
#include <stdlib.h>

#include "base/json_reader.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok) {
  if (!ok) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  weft_error err = {0};
  wf_json_reader r;
  wf_json_event e;
  size_t depth = 0, n_events = 0;
  wf_json_init(&r, (wf_str){(const char *)data, size}, "fuzz");
  for (;;) {
    const weft_status st = wf_json_next(&r, &e, &err);
    if (st != WEFT_OK) {
      check(err.status == st && err.what[0]);
      break;
    }
    if (e.kind == WF_JSON_END) {
      check(depth == 0);
      break;
    }
    if (e.kind == WF_JSON_OBJECT_BEGIN || e.kind == WF_JSON_ARRAY_BEGIN) depth++;
    if (e.kind == WF_JSON_OBJECT_END || e.kind == WF_JSON_ARRAY_END) {
      check(depth > 0);
      depth--;
    }
    if (e.kind == WF_JSON_STRING || e.kind == WF_JSON_KEY) {
      check(wf_utf8_is_valid(e.text.at, e.text.n));
    }
    check(++n_events <= size + 1);
  }
  wf_json_deinit(&r);
  return 0;
}
