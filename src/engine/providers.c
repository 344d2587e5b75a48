/* SPDX-License-Identifier: Apache-2.0 */
/* What can execute models here, told to people and programs. */
#include <string.h>

#include "engine/engine.h"

static void add_json(wf_buf *b, const wf_backend *backend, weft_status st, const wf_buf *text,
                     const weft_error *err) {
  wf_buf_puts(b, "{\"backend\": ");
  wf_buf_add_json_string(b, wf_str_of(backend->name), false);
  if (st != WEFT_OK) {
    wf_buf_puts(b, ", \"error\": ");
    wf_buf_add_json_string(b, wf_str_of(err->what), false);
  } else if (text->n) {
    wf_buf_puts(b, ", ");
    wf_buf_add(b, text->at, text->n);
  }
  wf_buf_puts(b, "}");
}

static void add_text(wf_buf *b, const wf_backend *backend, weft_status st, const wf_buf *text,
                     const weft_error *err) {
  wf_buf_puts(b, backend->name);
  if (st != WEFT_OK) {
    wf_buf_printf(b, ": not available: %s\n  fix: %s\n", err->what, err->fix);
  } else if (text->n) {
    wf_buf_puts(b, ": ");
    wf_buf_add(b, text->at, text->n);
  } else {
    wf_buf_putc(b, '\n');
  }
}

weft_status weft_providers(const weft_model_options *options, int json, char **text,
                           weft_error *err) {
  weft_status st = WEFT_OK;
  weft_model_options o;
  wf_compile_options c;
  wf_buf b = {0}, one = {0};
  wf_model_options_take(&o, options);
  wf_compile_options_take(&c, &o);
  if (json) wf_buf_puts(&b, "[");
  for (size_t i = 0; i < WF_N_BACKENDS; i++) {
    weft_error why = {0};
    wf_buf_clear(&one);
    const weft_status listed = wf_backend_list_providers(wf_backends[i], &c, json != 0, &one, &why);
    /* one that was asked for by name has to be there */
    if (listed != WEFT_OK && (o.ort_library || o.n_providers)) {
      wf_error_pass_on(err, &why);
      st = listed;
      goto out;
    }
    if (json && i) wf_buf_puts(&b, ",\n ");
    (json ? add_json : add_text)(&b, wf_backends[i], listed, &one, &why);
  }
  if (json) wf_buf_puts(&b, "]\n");
  *text = wf_buf_take(&b);
  if (!*text) st = wf_fail_memory(err, 0, "text");
out:
  wf_buf_deinit(&one);
  wf_buf_deinit(&b);
  return st;
}
