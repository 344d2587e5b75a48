/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the ONNX reader share. Private to src/onnx. */
#ifndef WF_ONNX_READER_H
#define WF_ONNX_READER_H

#include "onnx/onnx.h"
#include "onnx/wire.h"

enum {
  ONNX_NEWEST_IR = 14,
  ONNX_MAX_DEPTH = 32, /* graphs inside attributes of nodes of graphs ... */
  ONNX_MAX_RANK = 32,
  ONNX_MAX_ITEMS = 1 << 24, /* elements of one list of messages */
  ONNX_MAX_EXTERNAL_FILES = 4096
};
#define ONNX_MAX_TEXT_BYTES ((size_t)1 << 31) /* of a model in the text form */

typedef struct onnx_external {
  wf_str location; /* as written */
  char *path;      /* canonical */
  wf_map *map;     /* one a file, also when two locations name it */
} onnx_external;

typedef struct onnx_reader {
  wire_file file;
  wf_arena *arena;
  const char *dir;
  const wf_map *main_map; /* NULL when read from memory */
  wf_onnx_options options;
  WF_VEC(onnx_external) externals;
  WF_VEC(wf_map *) maps;
  weft_error *err;
} onnx_reader;

/* wire_schema.c */
extern const wire_message onnx_wire_model, onnx_wire_graph, onnx_wire_node, onnx_wire_attribute,
    onnx_wire_tensor, onnx_wire_value_info, onnx_wire_type, onnx_wire_tensor_type, onnx_wire_shape,
    onnx_wire_dim, onnx_wire_function, onnx_wire_opset, onnx_wire_prop, onnx_wire_sparse_tensor,
    onnx_wire_annotation, onnx_wire_segment, onnx_wire_sequence_type, onnx_wire_map_type,
    onnx_wire_optional_type, onnx_wire_sparse_type, onnx_wire_opaque_type, onnx_wire_training,
    onnx_wire_device, onnx_wire_node_device, onnx_wire_sharding, onnx_wire_int_list,
    onnx_wire_sharded_dim, onnx_wire_simple_dim;

/* tensor.c */
weft_status onnx_read_tensor(onnx_reader *r, wire_span bytes, wf_tensor *t) WF_NODISCARD;
/* external.c: maps the file that `location` names (once) and gives it. */
weft_status onnx_map_external(onnx_reader *r, wf_str location, wf_map **map) WF_NODISCARD;
void onnx_externals_free(onnx_reader *r, bool with_maps);
/* graph_reader.c */
weft_status onnx_read_model(onnx_reader *r, wire_span bytes, wf_onnx_model *m) WF_NODISCARD;

/* The bytes of a model that has been opened from its file, to be read again. */
static inline wire_file onnx_file_of(const wf_onnx_model *m) {
  return (wire_file){
      .name = m->maps[0]->path, .base = m->maps[0]->at, .is_newer = m->ir_version > ONNX_NEWEST_IR};
}

/* Zeroed list of n elements in the arena; NULL with n 0 is success. */
weft_status onnx_list(onnx_reader *r, const wire_message *m, const unsigned char *at, size_t n,
                      size_t size, void **list) WF_NODISCARD;

#endif
