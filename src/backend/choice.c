/* SPDX-License-Identifier: Apache-2.0 */
/* Which backend executes a component. */
#include <string.h>

#include "backend/backend.h"

const wf_backend *const wf_backends[WF_N_BACKENDS] = {&wf_backend_native, &wf_backend_ort};

const wf_backend *wf_backend_find(const char *name) {
  for (size_t i = 0; i < WF_N_BACKENDS; i++) {
    if (strcmp(wf_backends[i]->name, name) == 0) return wf_backends[i];
  }
  return NULL;
}

/* Native, else what has the operator that native lacks. */
static weft_status compile_auto(const wf_backend **used, wf_component **result,
                                const wf_compile_options *o, weft_error *err) {
  weft_error why = {0}, other = {0};
  *used = wf_backends[0];
  weft_status st = wf_component_compile(*used, result, o, &why);
  if (st == WEFT_OK) return st;
  for (size_t i = 1; st == WEFT_UNSUPPORTED && i < WF_N_BACKENDS; i++) {
    other = (weft_error){0};
    if (wf_component_compile(wf_backends[i], result, o, &other) == WEFT_OK) {
      *used = wf_backends[i];
      wf_log(1, "the backend '%s' takes over, since '%s' can't run this: %s", (*used)->name,
             wf_backends[0]->name, why.what);
      return WEFT_OK;
    }
    return wf_fail(err, other.status, other.fix, "native: %.200s; %s: %s", why.what,
                   wf_backends[i]->name, other.what);
  }
  wf_error_pass_on(err, &why);
  return st;
}

weft_status wf_component_compile_by(const char *name, const wf_backend **used,
                                    wf_component **result, const wf_compile_options *o,
                                    weft_error *err) {
  if (name && strcmp(name, "auto") == 0) return compile_auto(used, result, o, err);
  const wf_backend *b = name ? wf_backend_find(name) : wf_backends[0];
  if (!b) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "use native, ort or auto",
                   "there is no backend '%s'", name);
  }
  if (o->n_providers && !b->list_providers) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "use the backend ort, or name no provider",
                   "the backend '%s' has no execution providers, such as '%s'", b->name,
                   o->providers[0]);
  }
  *used = b;
  return wf_component_compile(b, result, o, err);
}
