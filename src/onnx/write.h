/* SPDX-License-Identifier: Apache-2.0 */
/* Writing protobuf messages, those of onnx.proto above all: each call appends one field. A buffer
 * that has run out of memory stays `failed`. Thread: as the buffer. */
#ifndef WF_ONNX_WRITE_H
#define WF_ONNX_WRITE_H

#include "base/str.h"

typedef enum wire_type {
  WIRE_VARINT = 0,
  WIRE_FIXED64 = 1,
  WIRE_BYTES = 2,
  WIRE_FIXED32 = 5
} wire_type;

/* Field numbers of onnx.proto. */
enum {
  ONNX_MODEL_IR = 1,
  ONNX_MODEL_GRAPH = 7,
  ONNX_MODEL_OPSET = 8,
  ONNX_MODEL_FUNCTION = 25,
  ONNX_GRAPH_NODE = 1,
  ONNX_GRAPH_OUTPUT = 12,
  ONNX_NODE_INPUT = 1,
  ONNX_NODE_OUTPUT = 2,
  ONNX_NODE_NAME = 3,
  ONNX_NODE_OP_TYPE = 4,
  ONNX_NODE_ATTRIBUTE = 5,
  ONNX_NODE_DOMAIN = 7,
  ONNX_ATTRIBUTE_NAME = 1,
  ONNX_ATTRIBUTE_INT = 3,
  ONNX_ATTRIBUTE_TENSOR = 5,
  ONNX_ATTRIBUTE_GRAPH = 6,
  ONNX_ATTRIBUTE_GRAPHS = 11,
  ONNX_ATTRIBUTE_TYPE = 20,
  ONNX_TENSOR_DIMS = 1,
  ONNX_TENSOR_TYPE = 2,
  ONNX_TENSOR_RAW = 9,
  ONNX_VALUE_NAME = 1,
  ONNX_OPSET_DOMAIN = 1,
  ONNX_OPSET_VERSION = 2,
  ONNX_FUNCTION_NAME = 1,
  ONNX_FUNCTION_INPUT = 4,
  ONNX_FUNCTION_OUTPUT = 5,
  ONNX_FUNCTION_NODE = 7,
  ONNX_FUNCTION_OPSET = 9,
  ONNX_FUNCTION_DOMAIN = 10
};

void wf_onnx_put_varint(wf_buf *b, uint64_t v); /* bare, without a tag */
void wf_onnx_put_tag(wf_buf *b, uint32_t field, wire_type type);
void wf_onnx_put_int(wf_buf *b, uint32_t field, int64_t v);
void wf_onnx_put_float(wf_buf *b, uint32_t field, float v);
void wf_onnx_put_bytes(wf_buf *b, uint32_t field, const void *bytes, size_t n);
void wf_onnx_put_text(wf_buf *b, uint32_t field, const char *text);
/* `part` as a sub-message; frees it. */
void wf_onnx_put_message(wf_buf *b, uint32_t field, wf_buf *part);

#endif
