/* SPDX-License-Identifier: Apache-2.0 */
/* The native backend's slots of the vtable. Private to native/. */
#ifndef WF_NATIVE_H
#define WF_NATIVE_H

#include "backend/backend.h"

weft_status wf_native_compile(wf_component **result, const wf_compile_options *o, weft_error *err);
void wf_native_release(wf_component *c);
const wf_component_info *wf_native_info(const wf_component *c);
weft_status wf_native_open(wf_backend_session **result, const wf_component *c, wf_team *team,
                           int64_t max_tokens, weft_error *err);
weft_status wf_native_run(wf_backend_session *s, const wf_row *rows, size_t n_rows,
                          weft_error *err);
void wf_native_close(wf_backend_session *s);
void wf_native_counters(const wf_backend_session *s, wf_run_counters *result);
void wf_native_profile(wf_backend_session *s, wf_profile *p);

/* Fills c->info's ports, layers and groups from the graph. */
weft_status wf_native_describe(wf_component *c, const wf_ports *ports,
                               weft_error *err) WF_NODISCARD;
weft_status wf_native_describe_states(wf_component *c, const wf_ports *ports,
                                      weft_error *err) WF_NODISCARD;

#endif
