/* SPDX-License-Identifier: Apache-2.0 */
/* A model's bytes anew, with some of its nodes made calls of functions that are added to it. All
 * else is copied as it stands: the file has been read before, so its structure is known to be good.
 */
#include "onnx/onnx_reader.h"

enum { FUNCTIONS_IR = 8 }; /* the first IR version with functions */

typedef struct renamer {
  wire_file file;
  const wf_onnx_rename *renames;
  size_t n, n_done;
  const char *domain;
  weft_error *err;
} renamer;

static weft_status copy_graph(renamer *m, wire_span bytes, int depth, wf_buf *out);

static weft_status copy_attribute(renamer *m, wire_span bytes, int depth, wf_buf *out) {
  wire_reader r = wire_open(&m->file, &onnx_wire_attribute, bytes, m->err);
  wire_item item;
  bool more;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&r, &item, &more));
    if (!more) return WEFT_OK;
    if (item.number != ONNX_ATTRIBUTE_GRAPH && item.number != ONNX_ATTRIBUTE_GRAPHS) {
      wire_copy(out, &item, &r);
      continue;
    }
    wf_buf child = {0};
    const weft_status st = copy_graph(m, item.bytes, depth + 1, &child);
    wf_onnx_put_message(out, item.number, &child);
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
    if (item.number == ONNX_NODE_OUTPUT && is_first) {
      rename = item.bytes.n ? find(m, item.bytes) : NULL;
      is_first = false;
    }
  }
  r = wire_open(&m->file, &onnx_wire_node, bytes, m->err);
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&r, &item, &more));
    if (!more) break;
    const bool is_replaced = item.number == ONNX_NODE_OP_TYPE || item.number == ONNX_NODE_DOMAIN ||
                             item.number == ONNX_NODE_ATTRIBUTE;
    if (rename && is_replaced) continue;
    if (item.number != ONNX_NODE_ATTRIBUTE) {
      wire_copy(out, &item, &r);
      continue;
    }
    wf_buf child = {0};
    const weft_status st = copy_attribute(m, item.bytes, depth, &child);
    wf_onnx_put_message(out, item.number, &child);
    if (st != WEFT_OK) return st;
  }
  if (!rename) return WEFT_OK;
  m->n_done++;
  wf_onnx_put_text(out, ONNX_NODE_OP_TYPE, rename->op_type);
  wf_onnx_put_text(out, ONNX_NODE_DOMAIN, m->domain);
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
    if (item.number != ONNX_GRAPH_NODE) {
      wire_copy(out, &item, &r);
      continue;
    }
    wf_buf child = {0};
    const weft_status st = copy_node(m, item.bytes, depth, &child);
    wf_onnx_put_message(out, ONNX_GRAPH_NODE, &child);
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
      .file = onnx_file_of(model), .renames = renames, .n = n, .domain = domain, .err = err};
  wire_reader r = wire_open(&m.file, &onnx_wire_model, (wire_span){map->at, map->n_bytes}, err);
  wire_item item;
  bool more;
  wf_buf opset = {0};
  wf_onnx_put_int(out, ONNX_MODEL_IR,
                  model->ir_version < FUNCTIONS_IR ? FUNCTIONS_IR : model->ir_version);
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&r, &item, &more));
    if (!more) break;
    if (item.number == ONNX_MODEL_IR) continue;
    if (item.number != ONNX_MODEL_GRAPH) {
      wire_copy(out, &item, &r);
      continue;
    }
    wf_buf child = {0};
    const weft_status st = copy_graph(&m, item.bytes, 0, &child);
    wf_onnx_put_message(out, ONNX_MODEL_GRAPH, &child);
    if (st != WEFT_OK) return st;
  }
  wf_onnx_put_text(&opset, ONNX_OPSET_DOMAIN, domain);
  wf_onnx_put_int(&opset, ONNX_OPSET_VERSION, 1);
  wf_onnx_put_message(out, ONNX_MODEL_OPSET, &opset);
  for (size_t i = 0; i < n_functions; i++)
    wf_onnx_put_bytes(out, ONNX_MODEL_FUNCTION, functions[i].at, functions[i].n);
  *n_done = m.n_done;
  return out->failed ? wf_fail_memory(err, out->n, "a model") : WEFT_OK;
}
