/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of ONNX's messages, as the published onnx.proto numbers and names them (IR version
 * 14). The binary reader asks for the numbers, the text reader for the names. Messages that weft
 * makes no use of stand here too: a text cannot be read past what it does not know. */
#include "onnx/onnx_reader.h"

#define FIELD(no, text, what, list) \
  .name = (text), .number = (no), .kind = KIND_##what, .is_repeated = (list)
#define ONE(no, text, what) \
  { FIELD(no, text, what, false) }
#define LIST(no, text, what) \
  { FIELD(no, text, what, true) }
#define PACKED(no, text, what) \
  { FIELD(no, text, what, true), .is_packed = true }
#define UNION(no, text, what) \
  { FIELD(no, text, what, false), .is_one_of = true }
#define ONE_OF(no, text, id) \
  { FIELD(no, text, MESSAGE, false), .message = &onnx_wire_##id }
#define LIST_OF(no, text, id) \
  { FIELD(no, text, MESSAGE, true), .message = &onnx_wire_##id }
#define UNION_OF(no, text, id) \
  { FIELD(no, text, MESSAGE, false), .message = &onnx_wire_##id, .is_one_of = true }
#define ENUM(no, text, list) \
  { FIELD(no, text, ENUM, false), .names = (list) }
#define MESSAGE(id, text) \
  const wire_message onnx_wire_##id = {text, id##_fields, WF_ARRAY_LEN(id##_fields)}

static const wire_name attribute_types[] = {
    {"UNDEFINED", 0},       {"FLOAT", 1},       {"INT", 2},          {"STRING", 3},
    {"TENSOR", 4},          {"GRAPH", 5},       {"FLOATS", 6},       {"INTS", 7},
    {"STRINGS", 8},         {"TENSORS", 9},     {"GRAPHS", 10},      {"SPARSE_TENSOR", 11},
    {"SPARSE_TENSORS", 12}, {"TYPE_PROTO", 13}, {"TYPE_PROTOS", 14}, {NULL, 0}};
static const wire_name locations[] = {{"DEFAULT", 0}, {"EXTERNAL", 1}, {NULL, 0}};

static const wire_field model_fields[] = {ONE(1, "ir_version", INT64),
                                          LIST_OF(8, "opset_import", opset),
                                          ONE(2, "producer_name", STRING),
                                          ONE(3, "producer_version", STRING),
                                          ONE(4, "domain", STRING),
                                          ONE(5, "model_version", INT64),
                                          ONE(6, "doc_string", STRING),
                                          ONE_OF(7, "graph", graph),
                                          LIST_OF(14, "metadata_props", prop),
                                          LIST_OF(20, "training_info", training),
                                          LIST_OF(25, "functions", function),
                                          LIST_OF(26, "configuration", device)};
MESSAGE(model, "ModelProto");

static const wire_field graph_fields[] = {LIST_OF(1, "node", node),
                                          ONE(2, "name", STRING),
                                          LIST_OF(5, "initializer", tensor),
                                          LIST_OF(15, "sparse_initializer", sparse_tensor),
                                          ONE(10, "doc_string", STRING),
                                          LIST_OF(11, "input", value_info),
                                          LIST_OF(12, "output", value_info),
                                          LIST_OF(13, "value_info", value_info),
                                          LIST_OF(14, "quantization_annotation", annotation),
                                          LIST_OF(16, "metadata_props", prop)};
MESSAGE(graph, "GraphProto");

static const wire_field node_fields[] = {LIST(1, "input", STRING),
                                         LIST(2, "output", STRING),
                                         ONE(3, "name", STRING),
                                         ONE(4, "op_type", STRING),
                                         ONE(7, "domain", STRING),
                                         ONE(8, "overload", STRING),
                                         LIST_OF(5, "attribute", attribute),
                                         ONE(6, "doc_string", STRING),
                                         LIST_OF(9, "metadata_props", prop),
                                         LIST_OF(10, "device_configurations", node_device)};
MESSAGE(node, "NodeProto");

static const wire_field attribute_fields[] = {ONE(1, "name", STRING),
                                              ONE(21, "ref_attr_name", STRING),
                                              ONE(13, "doc_string", STRING),
                                              ENUM(20, "type", attribute_types),
                                              ONE(2, "f", FLOAT),
                                              ONE(3, "i", INT64),
                                              ONE(4, "s", STRING),
                                              ONE_OF(5, "t", tensor),
                                              ONE_OF(6, "g", graph),
                                              ONE_OF(22, "sparse_tensor", sparse_tensor),
                                              ONE_OF(14, "tp", type),
                                              LIST(7, "floats", FLOAT),
                                              LIST(8, "ints", INT64),
                                              LIST(9, "strings", STRING),
                                              LIST_OF(10, "tensors", tensor),
                                              LIST_OF(11, "graphs", graph),
                                              LIST_OF(23, "sparse_tensors", sparse_tensor),
                                              LIST_OF(15, "type_protos", type)};
MESSAGE(attribute, "AttributeProto");

static const wire_field tensor_fields[] = {LIST(1, "dims", INT64),
                                           ONE(2, "data_type", INT32),
                                           ONE_OF(3, "segment", segment),
                                           PACKED(4, "float_data", FLOAT),
                                           PACKED(5, "int32_data", INT32),
                                           LIST(6, "string_data", STRING),
                                           PACKED(7, "int64_data", INT64),
                                           ONE(8, "name", STRING),
                                           ONE(12, "doc_string", STRING),
                                           ONE(9, "raw_data", STRING),
                                           LIST_OF(13, "external_data", prop),
                                           ENUM(14, "data_location", locations),
                                           PACKED(10, "double_data", DOUBLE),
                                           PACKED(11, "uint64_data", UINT64),
                                           LIST_OF(16, "metadata_props", prop)};
MESSAGE(tensor, "TensorProto");

static const wire_field value_info_fields[] = {ONE(1, "name", STRING), ONE_OF(2, "type", type),
                                               ONE(3, "doc_string", STRING),
                                               LIST_OF(4, "metadata_props", prop)};
MESSAGE(value_info, "ValueInfoProto");

static const wire_field type_fields[] = {UNION_OF(1, "tensor_type", tensor_type),
                                         UNION_OF(4, "sequence_type", sequence_type),
                                         UNION_OF(5, "map_type", map_type),
                                         UNION_OF(9, "optional_type", optional_type),
                                         UNION_OF(8, "sparse_tensor_type", sparse_type),
                                         UNION_OF(7, "opaque_type", opaque_type),
                                         ONE(6, "denotation", STRING)};
MESSAGE(type, "TypeProto");

static const wire_field tensor_type_fields[] = {ONE(1, "elem_type", INT32),
                                                ONE_OF(2, "shape", shape)};
MESSAGE(tensor_type, "TypeProto.Tensor");

static const wire_field shape_fields[] = {LIST_OF(1, "dim", dim)};
MESSAGE(shape, "TensorShapeProto");

static const wire_field dim_fields[] = {UNION(1, "dim_value", INT64), UNION(2, "dim_param", STRING),
                                        ONE(3, "denotation", STRING)};
MESSAGE(dim, "TensorShapeProto.Dimension");

static const wire_field function_fields[] = {ONE(1, "name", STRING),
                                             LIST(4, "input", STRING),
                                             LIST(5, "output", STRING),
                                             LIST(6, "attribute", STRING),
                                             LIST_OF(11, "attribute_proto", attribute),
                                             LIST_OF(7, "node", node),
                                             ONE(8, "doc_string", STRING),
                                             LIST_OF(9, "opset_import", opset),
                                             ONE(10, "domain", STRING),
                                             ONE(13, "overload", STRING),
                                             LIST_OF(12, "value_info", value_info),
                                             LIST_OF(14, "metadata_props", prop)};
MESSAGE(function, "FunctionProto");

static const wire_field opset_fields[] = {ONE(1, "domain", STRING), ONE(2, "version", INT64)};
MESSAGE(opset, "OperatorSetIdProto");

static const wire_field prop_fields[] = {ONE(1, "key", STRING), ONE(2, "value", STRING)};
MESSAGE(prop, "StringStringEntryProto");

static const wire_field sparse_tensor_fields[] = {
    ONE_OF(1, "values", tensor), ONE_OF(2, "indices", tensor), LIST(3, "dims", INT64)};
MESSAGE(sparse_tensor, "SparseTensorProto");

static const wire_field annotation_fields[] = {ONE(1, "tensor_name", STRING),
                                               LIST_OF(2, "quant_parameter_tensor_names", prop)};
MESSAGE(annotation, "TensorAnnotation");

static const wire_field segment_fields[] = {ONE(1, "begin", INT64), ONE(2, "end", INT64)};
MESSAGE(segment, "TensorProto.Segment");

static const wire_field sequence_type_fields[] = {ONE_OF(1, "elem_type", type)};
MESSAGE(sequence_type, "TypeProto.Sequence");

static const wire_field map_type_fields[] = {ONE(1, "key_type", INT32),
                                             ONE_OF(2, "value_type", type)};
MESSAGE(map_type, "TypeProto.Map");

static const wire_field optional_type_fields[] = {ONE_OF(1, "elem_type", type)};
MESSAGE(optional_type, "TypeProto.Optional");

static const wire_field sparse_type_fields[] = {ONE(1, "elem_type", INT32),
                                                ONE_OF(2, "shape", shape)};
MESSAGE(sparse_type, "TypeProto.SparseTensor");

static const wire_field opaque_type_fields[] = {ONE(1, "domain", STRING), ONE(2, "name", STRING)};
MESSAGE(opaque_type, "TypeProto.Opaque");

static const wire_field training_fields[] = {
    ONE_OF(1, "initialization", graph), ONE_OF(2, "algorithm", graph),
    LIST_OF(3, "initialization_binding", prop), LIST_OF(4, "update_binding", prop)};
MESSAGE(training, "TrainingInfoProto");

static const wire_field device_fields[] = {ONE(1, "name", STRING), ONE(2, "num_devices", INT32),
                                           LIST(3, "device", STRING)};
MESSAGE(device, "DeviceConfigurationProto");

static const wire_field node_device_fields[] = {ONE(1, "configuration_id", STRING),
                                                LIST_OF(2, "sharding_spec", sharding),
                                                ONE(3, "pipeline_stage", INT32)};
MESSAGE(node_device, "NodeDeviceConfigurationProto");

static const wire_field sharding_fields[] = {
    ONE(1, "tensor_name", STRING), LIST(2, "device", INT64),
    LIST_OF(3, "index_to_device_group_map", int_list), LIST_OF(4, "sharded_dim", sharded_dim)};
MESSAGE(sharding, "ShardingSpecProto");

static const wire_field int_list_fields[] = {ONE(1, "key", INT64), LIST(2, "value", INT64)};
MESSAGE(int_list, "IntIntListEntryProto");

static const wire_field sharded_dim_fields[] = {ONE(1, "axis", INT64),
                                                LIST_OF(2, "simple_sharding", simple_dim)};
MESSAGE(sharded_dim, "ShardedDimProto");

static const wire_field simple_dim_fields[] = {
    UNION(1, "dim_value", INT64), UNION(2, "dim_param", STRING), ONE(3, "num_shards", INT64)};
MESSAGE(simple_dim, "SimpleShardedDimProto");
