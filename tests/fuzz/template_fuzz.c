/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target of chat templates. The input is a template; what follows a NUL byte, if anything, is
 * JSON for its variables. Asserts: no crash, an error carries its status and sentence, the text is
 * UTF-8, its runs cover it in alternating kinds, and two renders of one template are equal. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok) {
  if (!ok) abort();
}

static const char variables[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\","
    " \"content\": \"H\\u00e9 <|im_end|>\"}, {\"role\": \"assistant\", \"content\": null,"
    " \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"a\": [1, 2.5]}}}]}],"
    " \"tools\": [{\"function\": {\"name\": \"f\", \"n\": {\"b\": 1, \"a\": []}}}], \"n\": 3,"
    " \"add_generation_prompt\": true, \"bos_token\": \"<s>\", \"s\": \"one two\"}";

static weft_status render(const wf_template *t, const json_t *v, wf_buf *out, wf_text_runs *runs) {
  weft_error err = {0};
  wf_render_options o;
  wf_render_options_init(&o);
  o.has_now = true;
  o.steps_limit = 100000;
  o.memory_limit_bytes = (size_t)16 << 20;
  const weft_status st = wf_template_render(t, v, &o, out, runs, &err);
  check(st == WEFT_OK || (err.status == st && err.what[0]));
  return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
  const size_t n = nul ? (size_t)(nul - data) : size;
  json_t *v = NULL;
  if (nul) v = json_loadb((const char *)nul + 1, size - n - 1, JSON_ALLOW_NUL, NULL);
  if (!json_is_object(v)) {
    json_decref(v);
    v = json_loads(variables, 0, NULL);
  }
  weft_error err = {0};
  wf_template *t = NULL;
  const weft_status st = wf_template_compile(&t, (wf_str){(const char *)data, n}, &err);
  check(st == WEFT_OK || (err.status == st && err.what[0] && !t));
  if (st == WEFT_OK) {
    wf_buf a = {0}, b = {0};
    wf_text_runs runs = {0};
    const weft_status first = render(t, v, &a, &runs);
    check(render(t, v, &b, NULL) == first && a.n == b.n && (!a.n || !memcmp(a.at, b.at, a.n)));
    size_t at = 0;
    for (size_t i = 0; i < runs.n; i++) {
      check(runs.at[i].begin == at && runs.at[i].end > at);
      check(i == 0 || runs.at[i].is_content != runs.at[i - 1].is_content);
      at = runs.at[i].end;
    }
    check(at == a.n && wf_utf8_is_valid(a.at, a.n));
    wf_vec_free(&runs);
    wf_buf_deinit(&a);
    wf_buf_deinit(&b);
  }
  wf_template_destroy(t);
  json_decref(v);
  return 0;
}
