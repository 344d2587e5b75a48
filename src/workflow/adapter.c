/* SPDX-License-Identifier: Apache-2.0 */
#include "workflow/adapter.h"

#include <string.h>

const wf_view *wf_adapter_input(const wf_pass *p, const wf_plan_component *c, const char *port) {
  const int32_t at = wf_plan_port_named(c->inputs, c->n_inputs, port);
  return at >= 0 && p->inputs[at].data ? &p->inputs[at] : NULL;
}

weft_status wf_adapter_output(wf_pass *p, const wf_plan_component *c, const char *port,
                              wf_dtype dtype, int32_t rank, const int64_t *dims, void **data,
                              weft_error *err) {
  const int32_t at = wf_plan_port_named(c->outputs, c->n_outputs, port);
  *data = NULL;
  if (at < 0 || !p->wanted[at]) return WEFT_OK;
  WF_RETURN_IF_ERROR(wf_datum_create(&p->results[at], p->pool, dtype, rank, dims, err));
  *data = p->results[at]->view.data;
  memset(*data, 0, p->results[at]->n_bytes);
  return WEFT_OK;
}

/* Each output is the input of its name. */
static weft_status copy_through(wf_pass *p, const wf_plan_component *c, weft_error *err) {
  for (size_t i = 0; i < c->n_outputs; i++) {
    if (!p->wanted[i]) continue;
    const wf_view *v = wf_adapter_input(p, c, c->outputs[i].name);
    if (!v) {
      return wf_fail(err, WEFT_RUN, "give the binding an input of that name",
                     "output '%s' of a binding has no input to copy", c->outputs[i].name);
    }
    WF_RETURN_IF_ERROR(wf_datum_copy(&p->results[i], p->pool, v, err));
  }
  return WEFT_OK;
}

/* ---- which there are ----------------------------------------------------------------------- */

static const wf_adapter *const adapters[] = {&wf_adapter_telemetry, &wf_adapter_grammar};

const wf_adapter *wf_adapter_find(const char *abi, const char *version) {
  for (size_t i = 0; i < sizeof adapters / sizeof *adapters; i++) {
    if (strcmp(adapters[i]->abi, abi) == 0 && strcmp(adapters[i]->version, version) == 0) {
      return adapters[i];
    }
  }
  return NULL;
}

weft_status wf_builtin_invoke(wf_pass *p, const wf_plan_component *c, weft_error *err) {
  if (c->kind == WF_COMPONENT_BINDING) return copy_through(p, c, err);
  return c->adapter->run(p, c, err);
}
