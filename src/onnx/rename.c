/* SPDX-License-Identifier: Apache-2.0 */
/* A model's bytes anew, with some of its nodes made calls of functions that are added to it. All
 * else is copied as it stands: the file has been read before, so its structure is known to be good.
 */
#include "onnx/onnx_reader.h"

enum { /* field numbers of onnx.proto */
       MODEL_IR = 1,
       MODEL_GRAPH = 7,
       MODEL_OPSET = 8,
       MODEL_FUNCTION = 25,
       GRAPH_NODE = 1,
       NODE_OUTPUT = 2,
       NODE_OP_TYPE = 4,
       NODE_ATTRIBUTE = 5,
       NODE_DOMAIN = 7,
       ATTRIBUTE_GRAPH = 6,
       ATTRIBUTE_GRAPHS = 11,
       OPSET_DOMAIN = 1,
       OPSET_VERSION = 2,
       FUNCTIONS_IR = 8 /* the first IR version with functions */
};

typedef struct renamer {
  wire_file file;
  const wf_onnx_rename *renames;
  size_t n, n_done;
  const char *domain;
  weft_error *err;
} renamer;

void wf_onnx_put_varint(wf_buf *b, uint64_t v) {
  while (v >= 0x80) {
    wf_buf_putc(b, (char)(0x80 | (v & 0x7f)));
    v >>= 7;
  }
  wf_buf_putc(b, (char)v);
}

void wf_onnx_put_int(wf_buf *b, uint32_t field, int64_t v) {
  wf_onnx_put_varint(b, (uint64_t)field << 3 | WIRE_VARINT);
  wf_onnx_put_varint(b, (uint64_t)v);
}

void wf_onnx_put_bytes(wf_buf *b, uint32_t field, const void *bytes, size_t n) {
  wf_onnx_put_varint(b, (uint64_t)field << 3 | WIRE_BYTES);
  wf_onnx_put_varint(b, n);
  wf_buf_add(b, bytes, n);
}

static void copy(wf_buf *out, const wire_item *item, const wire_reader *r) {
  wf_buf_add(out, item->at, (size_t)(r->at - item->at));
}

/* Puts `child` as a message of `out` and frees it. */
static void put_child(wf_buf *out, uint32_t field, wf_buf *child) {
  wf_onnx_put_bytes(out, field, child->at, child->n);
  out->failed = out->failed || child->failed;
  wf_buf_deinit(child);
}

static weft_status copy_graph(renamer *m, wire_span bytes, int depth, wf_buf *out);

static weft_status copy_attribute(renamer *m, wire_span bytes, int depth, wf_buf *out) {
  wire_reader r = wire_open(&m->file, &onnx_wire_attribute, bytes, m->err);
  wire_item item;
  bool more;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&r, &item, &more));
    if (!more) return WEFT_OK;
    if (item.number != ATTRIBUTE_GRAPH && item.number != ATTRIBUTE_GRAPHS) {
      copy(out, &item, &r);
      continue;
    }
    wf_buf child = {0};
    const weft_status st = copy_graph(m, item.bytes, depth + 1, &child);
    put_child(out, item.number, &child);
    if (st != WEFT_OK) return st;
  }
}

static const wf_onnx_rename *find(const renamer *m, wire_span name) {
  for (size_t i = 0; i < m->n; i++) {
    if (wf_str_eq(m->renames[i].output, wire_str(name))) return &m->renames[i];
  }
  return NULL;
}

static weft_status copy_node(renamer *m, wire_span bytes, int depth, wf_buf *out) {
  wire_reader r = wire_open(&m->file, &onnx_wire_node, bytes, m->err);
  const wf_onnx_rename *rename = NULL;
  bool is_first = true, more;
  wire_item item;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&r, &item, &more));
    if (!more) break;
    if (item.number == NODE_OUTPUT && is_first) {
      rename = item.bytes.n ? find(m, item.bytes) : NULL;
      is_first = false;
    }
  }
  r = wire_open(&m->file, &onnx_wire_node, bytes, m->err);
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&r, &item, &more));
    if (!more) break;
    const bool is_replaced =
        item.number == NODE_OP_TYPE || item.number == NODE_DOMAIN || item.number == NODE_ATTRIBUTE;
    if (rename && is_replaced) continue;
    if (item.number != NODE_ATTRIBUTE) {
      copy(out, &item, &r);
      continue;
    }
    wf_buf child = {0};
    const weft_status st = copy_attribute(m, item.bytes, depth, &child);
    put_child(out, item.number, &child);
    if (st != WEFT_OK) return st;
  }
  if (!rename) return WEFT_OK;
  m->n_done++;
  wf_onnx_put_bytes(out, NODE_OP_TYPE, rename->op_type, strlen(rename->op_type));
  wf_onnx_put_bytes(out, NODE_DOMAIN, m->domain, strlen(m->domain));
  return WEFT_OK;
}

static weft_status copy_graph(renamer *m, wire_span bytes, int depth, wf_buf *out) {
  wire_reader r = wire_open(&m->file, &onnx_wire_graph, bytes, m->err);
  wire_item item;
  bool more;
  if (depth > ONNX_MAX_DEPTH) {
    return wf_fail(m->err, WEFT_LIMIT, NULL, "%s: graphs are nested too deeply", m->file.name);
  }
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&r, &item, &more));
    if (!more) return WEFT_OK;
    if (item.number != GRAPH_NODE) {
      copy(out, &item, &r);
      continue;
    }
    wf_buf child = {0};
    const weft_status st = copy_node(m, item.bytes, depth, &child);
    put_child(out, GRAPH_NODE, &child);
    if (st != WEFT_OK) return st;
  }
}

weft_status wf_onnx_rename_nodes(const wf_onnx_model *model, const wf_onnx_rename *renames,
                                 size_t n, const char *domain, const wf_buf *functions,
                                 size_t n_functions, wf_buf *out, size_t *n_done, weft_error *err) {
  if (model->n_maps == 0) {
    return wf_fail(err, WEFT_UNSUPPORTED, "open the model from its file",
                   "a model in memory has no bytes to copy");
  }
  const wf_map *map = model->maps[0];
  renamer m = {
      .file = {.name = map->path, .base = map->at, .is_newer = model->ir_version > ONNX_NEWEST_IR},
      .renames = renames,
      .n = n,
      .domain = domain,
      .err = err};
  wire_reader r = wire_open(&m.file, &onnx_wire_model, (wire_span){map->at, map->n_bytes}, err);
  wire_item item;
  bool more;
  wf_buf opset = {0};
  wf_onnx_put_int(out, MODEL_IR,
                  model->ir_version < FUNCTIONS_IR ? FUNCTIONS_IR : model->ir_version);
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&r, &item, &more));
    if (!more) break;
    if (item.number == MODEL_IR) continue;
    if (item.number != MODEL_GRAPH) {
      copy(out, &item, &r);
      continue;
    }
    wf_buf child = {0};
    const weft_status st = copy_graph(&m, item.bytes, 0, &child);
    put_child(out, MODEL_GRAPH, &child);
    if (st != WEFT_OK) return st;
  }
  wf_onnx_put_bytes(&opset, OPSET_DOMAIN, domain, strlen(domain));
  wf_onnx_put_int(&opset, OPSET_VERSION, 1);
  put_child(out, MODEL_OPSET, &opset);
  for (size_t i = 0; i < n_functions; i++)
    wf_onnx_put_bytes(out, MODEL_FUNCTION, functions[i].at, functions[i].n);
  *n_done = m.n_done;
  return out->failed ? wf_fail_memory(err, out->n, "a model") : WEFT_OK;
}
