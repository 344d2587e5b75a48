/* SPDX-License-Identifier: Apache-2.0 */
#include "onnx/write.h"

#include <string.h>

void wf_onnx_put_varint(wf_buf *b, uint64_t v) {
  char bytes[10];
  size_t n = 0;
  for (; v > 0x7f; v >>= 7) bytes[n++] = (char)(0x80 | (v & 0x7f));
  bytes[n++] = (char)v;
  wf_buf_add(b, bytes, n);
}

void wf_onnx_put_tag(wf_buf *b, uint32_t field, wire_type type) {
  wf_onnx_put_varint(b, (uint64_t)field << 3 | type);
}

void wf_onnx_put_int(wf_buf *b, uint32_t field, int64_t v) {
  wf_onnx_put_tag(b, field, WIRE_VARINT);
  wf_onnx_put_varint(b, (uint64_t)v);
}

void wf_onnx_put_float(wf_buf *b, uint32_t field, float v) {
  char bytes[4];
  memcpy(bytes, &v, sizeof bytes); /* little-endian machines only, as all of weft */
  wf_onnx_put_tag(b, field, WIRE_FIXED32);
  wf_buf_add(b, bytes, sizeof bytes);
}

void wf_onnx_put_bytes(wf_buf *b, uint32_t field, const void *bytes, size_t n) {
  wf_onnx_put_tag(b, field, WIRE_BYTES);
  wf_onnx_put_varint(b, n);
  wf_buf_add(b, bytes, n);
}

void wf_onnx_put_text(wf_buf *b, uint32_t field, const char *text) {
  wf_onnx_put_bytes(b, field, text, strlen(text));
}

void wf_onnx_put_message(wf_buf *b, uint32_t field, wf_buf *part) {
  wf_onnx_put_bytes(b, field, part->at, part->n);
  b->failed = b->failed || part->failed;
  wf_buf_deinit(part);
}
