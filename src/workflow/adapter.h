/* SPDX-License-Identifier: Apache-2.0 */
/* Adapters: components that are native code behind a named ABI (format §11); running one
 * changes nothing but the pass. Each file adapter_X.c is one ABI with one row in adapter.c's table.
 */
#ifndef WF_WORKFLOW_ADAPTER_H
#define WF_WORKFLOW_ADAPTER_H

#include "workflow/pass_state.h"

typedef struct wf_adapter {
  const char *abi, *version;
  /* Thread: worker. Fills p->results for the wanted outputs. Errors: RUN, OUT_OF_MEMORY. */
  weft_status (*run)(wf_pass *p, const wf_plan_component *c, weft_error *err);
} wf_adapter;

extern const wf_adapter wf_adapter_telemetry, wf_adapter_grammar;

const wf_adapter *wf_adapter_find(const char *abi, const char *version); /* NULL: none */

/* The tensor bound to the port; NULL: none. */
const wf_view *wf_adapter_input(const wf_pass *p, const wf_plan_component *c, const char *port);
/* Makes the port's result, zeros; *data NULL where the step does not bind it.
 * Errors: OUT_OF_MEMORY, LIMIT. */
weft_status wf_adapter_output(wf_pass *p, const wf_plan_component *c, const char *port,
                              wf_dtype dtype, int32_t rank, const int64_t *dims, void **data,
                              weft_error *err) WF_NODISCARD;

#endif
