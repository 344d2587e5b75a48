/* SPDX-License-Identifier: Apache-2.0 */
#include "import/onnx_writer.h"

#include "base/file.h"
#include "base/mem.h"
#include "onnx/write.h"

/* Field numbers are those of onnx.proto; the comment names the field. */

static void put_dims(wf_buf *b, const int64_t *dims, size_t rank) {
  wf_buf packed = {0};
  for (size_t i = 0; i < rank; i++) wf_onnx_put_varint(&packed, (uint64_t)dims[i]);
  if (rank > 0) wf_onnx_put_message(b, 1, &packed); /* TensorProto.dims */
  wf_buf_deinit(&packed);
}

void wf_onnxw_graph_init(wf_onnxw_graph *g, const char *name) {
  *g = (wf_onnxw_graph){.name = name};
}

void wf_onnxw_graph_deinit(wf_onnxw_graph *g) {
  wf_buf_deinit(&g->nodes);
  wf_buf_deinit(&g->initializers);
  wf_buf_deinit(&g->inputs);
  wf_buf_deinit(&g->outputs);
  wf_buf_deinit(&g->values);
}

static bool graph_failed(const wf_onnxw_graph *g) {
  return g->nodes.failed || g->initializers.failed || g->inputs.failed || g->outputs.failed ||
         g->values.failed;
}

void wf_onnxw_graph_bytes(const wf_onnxw_graph *g, wf_buf *out) {
  /* The parts already hold their field tags, so a graph is their concatenation. */
  wf_buf_add(out, g->nodes.at, g->nodes.n);
  wf_onnx_put_text(out, 2, g->name); /* GraphProto.name */
  wf_buf_add(out, g->initializers.at, g->initializers.n);
  wf_buf_add(out, g->inputs.at, g->inputs.n);
  wf_buf_add(out, g->outputs.at, g->outputs.n);
  wf_buf_add(out, g->values.at, g->values.n);
  if (graph_failed(g)) out->failed = true;
}

static void put_value_info(wf_buf *b, unsigned field, const char *name, wf_onnxw_type type,
                           const char *const *dims, size_t rank) {
  wf_buf info = {0}, type_proto = {0}, tensor = {0}, shape = {0};
  for (size_t i = 0; i < rank; i++) {
    wf_buf dim = {0};
    int64_t v;
    if (wf_parse_i64(wf_str_of(dims[i]), &v)) {
      wf_onnx_put_int(&dim, 1, v); /* Dimension.dim_value */
    } else {
      wf_onnx_put_text(&dim, 2, dims[i]); /* Dimension.dim_param */
    }
    wf_onnx_put_message(&shape, 1, &dim); /* TensorShapeProto.dim */
  }
  wf_onnx_put_int(&tensor, 1, (int64_t)type);   /* TypeProto.Tensor.elem_type */
  wf_onnx_put_message(&tensor, 2, &shape);      /* TypeProto.Tensor.shape */
  wf_onnx_put_message(&type_proto, 1, &tensor); /* TypeProto.tensor_type */
  wf_onnx_put_text(&info, 1, name);             /* ValueInfoProto.name */
  wf_onnx_put_message(&info, 2, &type_proto);   /* ValueInfoProto.type */
  wf_onnx_put_message(b, field, &info);
}

void wf_onnxw_input(wf_onnxw_graph *g, const char *name, wf_onnxw_type type,
                    const char *const *dims, size_t rank) {
  put_value_info(&g->inputs, 11, name, type, dims, rank); /* GraphProto.input */
}

void wf_onnxw_output(wf_onnxw_graph *g, const char *name, wf_onnxw_type type,
                     const char *const *dims, size_t rank) {
  put_value_info(&g->outputs, 12, name, type, dims, rank); /* GraphProto.output */
}

void wf_onnxw_value(wf_onnxw_graph *g, const char *name, wf_onnxw_type type,
                    const char *const *dims, size_t rank) {
  put_value_info(&g->values, 13, name, type, dims, rank); /* GraphProto.value_info */
}

static void put_attr(wf_buf *node, const wf_onnxw_attr *a) {
  wf_buf b = {0};
  wf_onnx_put_text(&b, 1, a->name); /* AttributeProto.name */
  switch (a->kind) {
    case 1:
      wf_onnx_put_float(&b, 2, a->f);
      break;
    case 2:
      wf_onnx_put_int(&b, 3, a->i);
      break;
    case 3:
    case 4:
    case 5:
      wf_onnx_put_bytes(&b, (unsigned)a->kind + 1, a->s.at, a->s.n);
      break; /* s, t, g */
    case 6:
      for (size_t i = 0; i < a->n; i++) wf_onnx_put_float(&b, 7, a->floats[i]);
      break;
    default:
      for (size_t i = 0; i < a->n; i++) wf_onnx_put_int(&b, 8, a->ints[i]);
      break;
  }
  wf_onnx_put_int(&b, 20, a->kind); /* AttributeProto.type */
  wf_onnx_put_message(node, 5, &b); /* NodeProto.attribute */
}

void wf_onnxw_node(wf_onnxw_graph *g, const char *op, const char *domain, const char *name,
                   const char *const *inputs, size_t n_inputs, const char *const *outputs,
                   size_t n_outputs, const wf_onnxw_attr *attrs, size_t n_attrs) {
  wf_buf b = {0};
  for (size_t i = 0; i < n_inputs; i++) wf_onnx_put_text(&b, 1, inputs[i]);
  for (size_t i = 0; i < n_outputs; i++) wf_onnx_put_text(&b, 2, outputs[i]);
  wf_onnx_put_text(&b, 3, name);
  wf_onnx_put_text(&b, 4, op);
  for (size_t i = 0; i < n_attrs; i++) put_attr(&b, &attrs[i]);
  if (domain[0] != '\0') wf_onnx_put_text(&b, 7, domain);
  wf_onnx_put_message(&g->nodes, 1, &b); /* GraphProto.node */
}

void wf_onnxw_inline(wf_onnxw_graph *g, const char *name, wf_onnxw_type type, const int64_t *dims,
                     size_t rank, const void *bytes, size_t n_bytes) {
  wf_buf b = {0};
  put_dims(&b, dims, rank);
  wf_onnx_put_int(&b, 2, (int64_t)type);    /* TensorProto.data_type */
  wf_onnx_put_text(&b, 8, name);            /* TensorProto.name */
  wf_onnx_put_bytes(&b, 9, bytes, n_bytes); /* TensorProto.raw_data */
  wf_onnx_put_message(&g->initializers, 5, &b);
}

struct wf_onnxw {
  wf_onnxw_graph graph;
  wf_buf metadata;
  wf_writer *model, *data;
  char *data_name;
  int64_t ir_version, opset;
  uint64_t tensor_at, tensor_left; /* the open tensor: where it began, bytes still owed */
};

weft_status wf_onnxw_create(wf_onnxw **result, const char *model_path, const char *data_name,
                            bool is_private, weft_error *err) {
  weft_status st = WEFT_OK;
  char *dir = NULL, *data_path = NULL;
  wf_onnxw *w = wf_zalloc(sizeof *w);

  if (!w) return wf_fail_memory(err, sizeof *w, "an ONNX writer");
  wf_onnxw_graph_init(&w->graph, "main_graph");
  w->ir_version = 10;
  w->opset = 21;
  WF_TRY(wf_writer_create(&w->model, model_path, is_private, err));
  if (data_name) {
    dir = wf_path_dir(model_path);
    data_path = dir ? wf_path_join(dir, data_name) : NULL;
    const size_t n = strlen(data_name) + 1;
    w->data_name = wf_alloc(n);
    if (!data_path || !w->data_name) {
      st = wf_fail_memory(err, n, "a path");
      goto out;
    }
    memcpy(w->data_name, data_name, n);
    WF_TRY(wf_writer_create(&w->data, data_path, is_private, err));
  }
  *result = w;
  w = NULL;
out:
  wf_onnxw_destroy(w);
  wf_free(dir);
  wf_free(data_path);
  return st;
}

void wf_onnxw_destroy(wf_onnxw *w) {
  if (!w) return;
  wf_writer_abandon(w->model);
  wf_writer_abandon(w->data);
  wf_onnxw_graph_deinit(&w->graph);
  wf_buf_deinit(&w->metadata);
  wf_free(w->data_name);
  wf_free(w);
}

wf_onnxw_graph *wf_onnxw_main(wf_onnxw *w) { return &w->graph; }

void wf_onnxw_set_versions(wf_onnxw *w, int64_t ir_version, int64_t opset) {
  w->ir_version = ir_version;
  w->opset = opset;
}

static void put_entry(wf_buf *b, unsigned field, const char *key, const char *value) {
  wf_buf entry = {0};
  wf_onnx_put_text(&entry, 1, key); /* StringStringEntryProto */
  wf_onnx_put_text(&entry, 2, value);
  wf_onnx_put_message(b, field, &entry);
}

void wf_onnxw_metadata(wf_onnxw *w, const char *key, const char *value) {
  put_entry(&w->metadata, 14, key, value); /* ModelProto.metadata_props */
}

static bool tensor_bytes(wf_onnxw_type type, const int64_t *dims, size_t rank, size_t *result) {
  size_t n = 1;
  for (size_t i = 0; i < rank; i++) {
    if (dims[i] < 0 || !wf_size_mul(n, (size_t)dims[i], &n)) return false;
  }
  switch (type) {
    case WF_ONNXW_FLOAT:
    case WF_ONNXW_INT32:
      return wf_size_mul(n, 4, result);
    case WF_ONNXW_INT64:
    case WF_ONNXW_DOUBLE:
      return wf_size_mul(n, 8, result);
    case WF_ONNXW_FLOAT16:
    case WF_ONNXW_BFLOAT16:
      return wf_size_mul(n, 2, result);
    case WF_ONNXW_UINT4:
    case WF_ONNXW_INT4:
      *result = n / 2 + n % 2;
      return true;
    case WF_ONNXW_UINT8:
    case WF_ONNXW_INT8:
    case WF_ONNXW_BOOL:
      break;
  }
  *result = n;
  return true;
}

static void put_external(wf_onnxw *w, const char *name, wf_onnxw_type type, const int64_t *dims,
                         size_t rank, uint64_t at, uint64_t n_bytes) {
  wf_buf b = {0}, number = {0};
  put_dims(&b, dims, rank);
  wf_onnx_put_int(&b, 2, (int64_t)type);
  wf_onnx_put_text(&b, 8, name);
  put_entry(&b, 13, "location", w->data_name); /* TensorProto.external_data */
  wf_buf_printf(&number, "%llu", (unsigned long long)at);
  put_entry(&b, 13, "offset", number.n > 0 ? number.at : "");
  wf_buf_clear(&number);
  wf_buf_printf(&number, "%llu", (unsigned long long)n_bytes);
  put_entry(&b, 13, "length", number.n > 0 ? number.at : "");
  if (number.failed) b.failed = true;
  wf_buf_deinit(&number);
  wf_onnx_put_int(&b, 14, 1); /* TensorProto.data_location = EXTERNAL */
  wf_onnx_put_message(&w->graph.initializers, 5, &b);
}

static weft_status check_filled(const wf_onnxw *w, weft_error *err) {
  if (w->tensor_left == 0) return WEFT_OK;
  return wf_fail(err, WEFT_INTERNAL, "", "an ONNX tensor misses its last %llu bytes",
                 (unsigned long long)w->tensor_left);
}

weft_status wf_onnxw_tensor_begin(wf_onnxw *w, const char *name, wf_onnxw_type type,
                                  const int64_t *dims, size_t rank, weft_error *err) {
  size_t n_bytes;
  WF_RETURN_IF_ERROR(check_filled(w, err));
  if (!w->data) {
    return wf_fail(err, WEFT_INTERNAL, "", "tensor '%s' has no external file to go to", name);
  }
  if (!tensor_bytes(type, dims, rank, &n_bytes)) {
    return wf_fail(err, WEFT_LIMIT, "", "tensor '%s' is larger than memory can address", name);
  }
  wf_writer_pad(w->data, n_bytes >= 65536 ? 4096 : 64);
  w->tensor_at = wf_writer_at(w->data);
  w->tensor_left = n_bytes;
  put_external(w, name, type, dims, rank, w->tensor_at, n_bytes);
  return WEFT_OK;
}

void wf_onnxw_data(wf_onnxw *w, const void *bytes, size_t n) {
  /* More than was declared shows as a huge rest, which check_filled reports. */
  w->tensor_left -= n;
  wf_writer_add(w->data, bytes, n);
}

uint64_t wf_onnxw_tensor_at(const wf_onnxw *w) { return w->tensor_at; }

uint64_t wf_onnxw_bytes(const wf_onnxw *w) { return w->data ? wf_writer_at(w->data) : 0; }

weft_status wf_onnxw_alias(wf_onnxw *w, const char *name, wf_onnxw_type type, const int64_t *dims,
                           size_t rank, uint64_t at, weft_error *err) {
  size_t n_bytes;
  if (!w->data || !tensor_bytes(type, dims, rank, &n_bytes) || at > wf_writer_at(w->data) ||
      n_bytes > wf_writer_at(w->data) - at) {
    return wf_fail(err, WEFT_INTERNAL, "", "tensor '%s' lies outside the data written so far",
                   name);
  }
  put_external(w, name, type, dims, rank, at, n_bytes);
  return WEFT_OK;
}

static void put_opset(wf_buf *b, const char *domain, int64_t version) {
  wf_buf opset = {0};
  wf_onnx_put_text(&opset, 1, domain); /* OperatorSetIdProto.domain */
  wf_onnx_put_int(&opset, 2, version);
  wf_onnx_put_message(b, 8, &opset); /* ModelProto.opset_import */
}

weft_status wf_onnxw_commit(wf_onnxw *w, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_buf head = {0}, graph = {0};
  wf_writer *writer = NULL;

  WF_TRY(check_filled(w, err));
  wf_onnxw_graph_bytes(&w->graph, &graph);
  wf_onnx_put_int(&head, 1, w->ir_version);
  wf_onnx_put_text(&head, 2, "weft"); /* ModelProto.producer_name */
  put_opset(&head, "", w->opset);
  put_opset(&head, "com.microsoft", 1);
  wf_onnx_put_tag(&head, 7, WIRE_BYTES); /* ModelProto.graph */
  wf_onnx_put_varint(&head, graph.n);
  if (head.failed || graph.failed || w->metadata.failed) {
    st = wf_fail_memory(err, graph.n, "an ONNX graph");
    goto out;
  }
  if (graph.n > INT32_MAX - 65536) {
    st = wf_fail(err, WEFT_LIMIT, "keep weights in the external file",
                 "an ONNX graph of %zu bytes is past protobuf's 2 GiB", graph.n);
    goto out;
  }
  wf_writer_add(w->model, head.at, head.n);
  wf_writer_add(w->model, graph.at, graph.n);
  if (w->metadata.n > 0) wf_writer_add(w->model, w->metadata.at, w->metadata.n);
  /* The data first: a model file never names data that is not there. */
  if (w->data) {
    writer = w->data;
    w->data = NULL;
    WF_TRY(wf_writer_commit(writer, err));
  }
  writer = w->model;
  w->model = NULL;
  WF_TRY(wf_writer_commit(writer, err));
out:
  wf_buf_deinit(&head);
  wf_buf_deinit(&graph);
  wf_onnxw_destroy(w);
  return st;
}
