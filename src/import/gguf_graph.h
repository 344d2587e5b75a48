/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder graph of an imported model, as the onnxruntime-genai model builder lays it out. */
#ifndef WF_GGUF_GRAPH_H
#define WF_GGUF_GRAPH_H

#include "import/gguf_weights.h"

/* Writes all weights and nodes, inputs and outputs. Errors: as wf_gguf_take; UNSUPPORTED for a
 * tensor that the graph would leave out. */
weft_status wf_gguf_graph_write(wf_gguf_build *b) WF_NODISCARD;

#endif
