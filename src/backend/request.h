/* SPDX-License-Identifier: Apache-2.0 */
/* What every backend asks of what it is given: the model's file, a run's rows, a run's tensors.
 * Private to backend/. */
#ifndef WF_BACKEND_REQUEST_H
#define WF_BACKEND_REQUEST_H

#include "backend/backend.h"

/* Opens the options' model, confined to their root where they name one.
 * Owner:  *model is the caller's on success.
 * Thread: any. Errors: those of wf_path_confine and wf_onnx_open, OUT_OF_MEMORY. */
weft_status wf_request_open_model(wf_onnx_model **model, const wf_compile_options *o,
                                  weft_error *err) WF_NODISCARD;

/* Row `i` of a run: tokens, positions and selection make sense for the component.
 * Thread: any. Errors: INVALID_ARGUMENT, CONTEXT_FULL. */
weft_status wf_request_check_row(const wf_component_info *info, const wf_row *r, size_t i,
                                 weft_error *err) WF_NODISCARD;

/* A tensor given for an input: it is there, of the port's type and of a shape that the port takes.
 * Thread: any. Errors: INVALID_ARGUMENT. */
weft_status wf_request_check_view(const wf_port *p, const wf_view *v, weft_error *err) WF_NODISCARD;

#endif
