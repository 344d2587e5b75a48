/* SPDX-License-Identifier: Apache-2.0 */
/* Writes an ONNX model: the graph as protobuf bytes in memory, the weights streamed into one
 * external data file as they are added, so that no more than the caller's own buffer of weights is
 * ever held. Knows the wire format and nothing about models.
 *
 * A model in short:
 *
 *   wf_onnxw *w = NULL;
 *   wf_onnxw_create(&w, "dir/model.onnx", "model.onnx.data", false, &err);
 *   wf_onnxw_graph *g = wf_onnxw_main(w);
 *   wf_onnxw_input(g, "x", WF_ONNXW_FLOAT, (const char *const[]){"batch", "4"}, 2);
 *   wf_onnxw_tensor_begin(w, "b", WF_ONNXW_FLOAT, (const int64_t[]){4}, 1, &err);
 *   wf_onnxw_data(w, bytes, 16);
 *   wf_onnxw_node(g, "Add", "", "add", (const char *const[]){"x", "b"}, 2,
 *                 (const char *const[]){"y"}, 1, NULL, 0);
 *   wf_onnxw_output(g, "y", WF_ONNXW_FLOAT, (const char *const[]){"batch", "4"}, 2);
 *   wf_onnxw_commit(w, &err);
 */
#ifndef WF_ONNX_WRITER_H
#define WF_ONNX_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

/* Element types, with ONNX's own numbers (TensorProto.DataType). */
typedef enum wf_onnxw_type {
  WF_ONNXW_FLOAT = 1,
  WF_ONNXW_UINT8 = 2,
  WF_ONNXW_INT8 = 3,
  WF_ONNXW_INT32 = 6,
  WF_ONNXW_INT64 = 7,
  WF_ONNXW_BOOL = 9,
  WF_ONNXW_FLOAT16 = 10,
  WF_ONNXW_DOUBLE = 11,
  WF_ONNXW_BFLOAT16 = 16,
  WF_ONNXW_UINT4 = 21,
  WF_ONNXW_INT4 = 22
} wf_onnxw_type;

/* One attribute of a node; use the constructors below. */
typedef struct wf_onnxw_attr {
  const char *name;
  int kind; /* AttributeProto.AttributeType */
  int64_t i;
  float f;
  wf_str s; /* string bytes, a TensorProto or a GraphProto */
  const int64_t *ints;
  const float *floats;
  size_t n;
} wf_onnxw_attr;

#define WF_ONNXW_ATTR_F(name_, v) ((wf_onnxw_attr){.name = (name_), .kind = 1, .f = (v)})
#define WF_ONNXW_ATTR_I(name_, v) ((wf_onnxw_attr){.name = (name_), .kind = 2, .i = (v)})
#define WF_ONNXW_ATTR_S(name_, v) ((wf_onnxw_attr){.name = (name_), .kind = 3, .s = wf_str_of(v)})
#define WF_ONNXW_ATTR_T(name_, v) ((wf_onnxw_attr){.name = (name_), .kind = 4, .s = (v)})
#define WF_ONNXW_ATTR_G(name_, v) ((wf_onnxw_attr){.name = (name_), .kind = 5, .s = (v)})
#define WF_ONNXW_ATTR_FLOATS(name_, v, n_) \
  ((wf_onnxw_attr){.name = (name_), .kind = 6, .floats = (v), .n = (n_)})
#define WF_ONNXW_ATTR_INTS(name_, v, n_) \
  ((wf_onnxw_attr){.name = (name_), .kind = 7, .ints = (v), .n = (n_)})

/* A graph under construction: the model's own, or a branch of an If or body of a Loop.
 * Errors stick inside (memory) and come out at wf_onnxw_commit. */
typedef struct wf_onnxw_graph {
  const char *name; /* borrowed */
  wf_buf nodes, initializers, inputs, outputs, values;
} wf_onnxw_graph;

void wf_onnxw_graph_init(wf_onnxw_graph *g, const char *name);
void wf_onnxw_graph_deinit(wf_onnxw_graph *g);
/* Serialises a finished subgraph into `out` (a GraphProto), for WF_ONNXW_ATTR_G. */
void wf_onnxw_graph_bytes(const wf_onnxw_graph *g, wf_buf *out);

/* Declares a graph input or output, or the type of a value between nodes.
 * Shapes: dims[i] is a decimal number ("576") or a symbol ("batch_size"). */
void wf_onnxw_input(wf_onnxw_graph *g, const char *name, wf_onnxw_type type,
                    const char *const *dims, size_t rank);
void wf_onnxw_output(wf_onnxw_graph *g, const char *name, wf_onnxw_type type,
                     const char *const *dims, size_t rank);
void wf_onnxw_value(wf_onnxw_graph *g, const char *name, wf_onnxw_type type,
                    const char *const *dims, size_t rank);

/* Appends a node; nodes must come in topological order. An input or output "" is an absent one.
 * Owner: everything passed stays the caller's. */
void wf_onnxw_node(wf_onnxw_graph *g, const char *op, const char *domain, const char *name,
                   const char *const *inputs, size_t n_inputs, const char *const *outputs,
                   size_t n_outputs, const wf_onnxw_attr *attrs, size_t n_attrs);

/* Adds an initializer stored inside the model file: for shapes, axes and toy weights.
 * Units: n_bytes of little-endian elements. */
void wf_onnxw_inline(wf_onnxw_graph *g, const char *name, wf_onnxw_type type, const int64_t *dims,
                     size_t rank, const void *bytes, size_t n_bytes);

/* Writes one model. Thread: one thread at a time. */
typedef struct wf_onnxw wf_onnxw;

/* Starts a model at `model_path`; `data_name` is the external file's name beside it (NULL: none).
 * Both appear by rename at commit; nothing is left behind otherwise.
 * Errors: IO, OUT_OF_MEMORY. */
weft_status wf_onnxw_create(wf_onnxw **result, const char *model_path, const char *data_name,
                            bool is_private, weft_error *err) WF_NODISCARD;
void wf_onnxw_destroy(wf_onnxw *w); /* abandons both files; NULL is fine */
wf_onnxw_graph *wf_onnxw_main(wf_onnxw *w);

/* Opset imports; ir_version 10, opset 21 and com.microsoft 1 unless set. */
void wf_onnxw_set_versions(wf_onnxw *w, int64_t ir_version, int64_t opset);
/* A metadata_props entry; both are copied. */
void wf_onnxw_metadata(wf_onnxw *w, const char *key, const char *value);

/* Begins an initializer in the external file; exactly its bytes must follow by wf_onnxw_data before
 * the next tensor or the commit. Its place is aligned: 4096 bytes for 64 KiB and more, else 64.
 * Errors: INTERNAL (the tensor before was not filled, or no external file), LIMIT (size). */
weft_status wf_onnxw_tensor_begin(wf_onnxw *w, const char *name, wf_onnxw_type type,
                                  const int64_t *dims, size_t rank, weft_error *err) WF_NODISCARD;
void wf_onnxw_data(wf_onnxw *w, const void *bytes, size_t n);
/* Where the last tensor begins in the external file. */
uint64_t wf_onnxw_tensor_at(const wf_onnxw *w);
/* A second initializer over bytes that are in the file already (another shape of the same table).
 * Errors: INTERNAL (outside of what was written). */
weft_status wf_onnxw_alias(wf_onnxw *w, const char *name, wf_onnxw_type type, const int64_t *dims,
                           size_t rank, uint64_t at, weft_error *err) WF_NODISCARD;
uint64_t wf_onnxw_bytes(const wf_onnxw *w); /* written to the external file so far */

/* Writes the model file and renames both into place. The writer is gone afterwards, whatever the
 * outcome. Errors: IO, OUT_OF_MEMORY, LIMIT (a graph past protobuf's 2 GiB), INTERNAL. */
weft_status wf_onnxw_commit(wf_onnxw *w, weft_error *err) WF_NODISCARD;

#endif
