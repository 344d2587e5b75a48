/* SPDX-License-Identifier: Apache-2.0 */
/* onnx-genai.telemetry: when something began, and how long ago that is. */
#include <string.h>

#include "workflow/adapter.h"

static weft_status telemetry(wf_pass *p, const wf_plan_component *c, weft_error *err) {
  const int64_t now = (int64_t)wf_clock_ns();
  for (size_t i = 0; i < c->n_outputs; i++) {
    if (!p->wanted[i]) continue;
    const bool is_start = strcmp(c->action, "start") == 0;
    if (is_start) {
      WF_RETURN_IF_ERROR(wf_datum_create(&p->results[i], p->pool, WF_DTYPE_I64, 0, NULL, err));
      memcpy(p->results[i]->view.data, &now, sizeof now);
      continue;
    }
    const wf_view *since = wf_adapter_input(p, c, "timestamp");
    int64_t start = 0;
    if (!since || wf_view_elements(since) != 1 || !wf_view_int(since, 0, &start)) {
      return wf_fail(err, WEFT_RUN, "bind the timestamp that 'start' gave",
                     "telemetry has no timestamp to measure from");
    }
    const float ms = now > start ? (float)((double)(now - start) / 1e6) : 0.0f;
    WF_RETURN_IF_ERROR(wf_datum_create(&p->results[i], p->pool, WF_DTYPE_F32, 0, NULL, err));
    memcpy(p->results[i]->view.data, &ms, sizeof ms);
  }
  return WEFT_OK;
}

const wf_adapter wf_adapter_telemetry = {"onnx-genai.telemetry", "1", telemetry};
