/* SPDX-License-Identifier: Apache-2.0 */
/* A model's bytes anew, with its inner values as outputs, for whoever compares two runtimes node by
 * node. All else is copied as it stands. */
#include <string.h>

#include "base/mem.h"
#include "onnx/onnx_reader.h"

enum { EXACT_LEVEL = 1 };

typedef struct exposer {
  wire_file file;
  const wf_onnx_graph *graph;
  bool values, exact;
  size_t n_exposed;
  weft_error *err;
} exposer;

static weft_status copy_attribute(exposer *m, wire_span bytes, wf_buf *out) {
  wire_reader r = wire_open(&m->file, &onnx_wire_attribute, bytes, m->err);
  bool is_level = false, more;
  wire_item item;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&r, &item, &more));
    if (!more) break;
    if (item.number == ONNX_ATTRIBUTE_NAME) {
      is_level = wf_str_eq(wire_str(item.bytes), WF_STR("accuracy_level"));
    }
  }
  r = wire_open(&m->file, &onnx_wire_attribute, bytes, m->err);
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&r, &item, &more));
    if (!more) return WEFT_OK;
    if (is_level && item.number == ONNX_ATTRIBUTE_INT && item.u > EXACT_LEVEL) {
      wf_onnx_put_int(out, ONNX_ATTRIBUTE_INT, EXACT_LEVEL);
    } else {
      wire_copy(out, &item, &r);
    }
  }
}

static weft_status copy_node(exposer *m, wire_span bytes, wf_buf *out) {
  wire_reader r = wire_open(&m->file, &onnx_wire_node, bytes, m->err);
  wire_item item;
  bool more;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&r, &item, &more));
    if (!more) return WEFT_OK;
    if (item.number != ONNX_NODE_ATTRIBUTE) {
      wire_copy(out, &item, &r);
      continue;
    }
    wf_buf child = {0};
    const weft_status st = copy_attribute(m, item.bytes, &child);
    wf_onnx_put_message(out, ONNX_NODE_ATTRIBUTE, &child);
    if (st != WEFT_OK) return st;
  }
}

static bool is_output(const wf_onnx_graph *g, wf_str name) {
  for (size_t i = 0; i < g->n_outputs; i++) {
    if (wf_str_eq(g->outputs[i].name, name)) return true;
  }
  return false;
}

static void put_values(exposer *m, wf_buf *out) {
  for (size_t i = 0; i < m->graph->n_nodes; i++) {
    const wf_onnx_node *n = &m->graph->nodes[i];
    for (size_t k = 0; k < n->n_outputs; k++) {
      const wf_str name = n->outputs[k];
      if (name.n == 0 || is_output(m->graph, name)) continue;
      wf_buf value = {0};
      wf_onnx_put_bytes(&value, ONNX_VALUE_NAME, name.at, name.n);
      wf_onnx_put_message(out, ONNX_GRAPH_OUTPUT, &value);
      m->n_exposed++;
    }
  }
}

static weft_status copy_graph(exposer *m, wire_span bytes, wf_buf *out) {
  wire_reader r = wire_open(&m->file, &onnx_wire_graph, bytes, m->err);
  wire_item item;
  bool more;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&r, &item, &more));
    if (!more) break;
    if (item.number != ONNX_GRAPH_NODE || !m->exact) {
      wire_copy(out, &item, &r);
      continue;
    }
    wf_buf child = {0};
    const weft_status st = copy_node(m, item.bytes, &child);
    wf_onnx_put_message(out, ONNX_GRAPH_NODE, &child);
    if (st != WEFT_OK) return st;
  }
  if (m->values) put_values(m, out);
  return WEFT_OK;
}

weft_status wf_onnx_expose(const wf_onnx_model *model, bool values, bool exact, wf_buf *out,
                           size_t *n_exposed, weft_error *err) {
  const wf_map *map = model->maps[0];
  exposer m = {.file = onnx_file_of(model),
               .graph = &model->graph,
               .values = values,
               .exact = exact,
               .err = err};
  wire_reader r = wire_open(&m.file, &onnx_wire_model, (wire_span){map->at, map->n_bytes}, err);
  wire_item item;
  bool more;
  /* first, as serializers put it: it tells the binary form from a text */
  wf_onnx_put_int(out, ONNX_MODEL_IR, model->ir_version);
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&r, &item, &more));
    if (!more) break;
    if (item.number == ONNX_MODEL_IR) continue;
    if (item.number != ONNX_MODEL_GRAPH) {
      wire_copy(out, &item, &r);
      continue;
    }
    wf_buf child = {0};
    const weft_status st = copy_graph(&m, item.bytes, &child);
    wf_onnx_put_message(out, ONNX_MODEL_GRAPH, &child);
    if (st != WEFT_OK) return st;
  }
  *n_exposed = m.n_exposed;
  return out->failed ? wf_fail_memory(err, out->n, "a model") : WEFT_OK;
}
