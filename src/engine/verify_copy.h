/* SPDX-License-Identifier: Apache-2.0 */
/* The copies that weft_verify runs: in a temporary folder, with links to what is not changed. */
#ifndef WF_VERIFY_COPY_H
#define WF_VERIFY_COPY_H

#include "engine/engine.h"
#include "onnx/onnx.h"

/* A private temporary folder. Owner: *dir is for wf_verify_copy_remove. Errors: IO, OUT_OF_MEMORY.
 */
weft_status wf_verify_copy_dir(char **dir, weft_error *err) WF_NODISCARD;
void wf_verify_copy_remove(char *dir); /* removes and frees it; NULL is fine */
/* The graph with fp32 activations, and with `values` its inner values as outputs, as
 * DIR/NAME/model.onnx with links to its external data. Owner: *path is the caller's (wf_free).
 * Errors: IO, OUT_OF_MEMORY. */
weft_status wf_verify_copy_graph(char **path, const char *dir, const char *name,
                                 const wf_onnx_model *model, bool values,
                                 weft_error *err) WF_NODISCARD;
/* The package as links, but for its graph, which computes with fp32 activations.
 * Owner: *folder is the caller's (wf_free). Errors: IO, OUT_OF_MEMORY, LIMIT (nested too deeply).
 */
weft_status wf_verify_copy_package(char **folder, const char *dir, const wf_package *package,
                                   const wf_onnx_model *model, weft_error *err) WF_NODISCARD;

#endif
