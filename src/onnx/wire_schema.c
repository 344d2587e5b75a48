/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of ONNX's messages, as the published onnx.proto numbers them (IR version 14). */
#include "onnx/onnx_reader.h"

#define V WIRE_VARINT
#define B WIRE_BYTES
#define F WIRE_FIXED32
#define D WIRE_FIXED64
#define ONE false
#define LIST true
#define MESSAGE(id, text, table) const wire_message id = {text, table, WF_ARRAY_LEN(table)}

static const wire_field model_fields[] = {
    {1, V, ONE}, {8, B, LIST}, {2, B, ONE},   {3, B, ONE},   {4, B, ONE},   {5, V, ONE},
    {6, B, ONE}, {7, B, ONE},  {14, B, LIST}, {20, B, LIST}, {25, B, LIST}, {26, B, LIST}};
MESSAGE(onnx_wire_model, "ModelProto", model_fields);

static const wire_field graph_fields[] = {
    {1, B, LIST},  {2, B, ONE},   {5, B, LIST},  {15, B, LIST}, {10, B, ONE},
    {11, B, LIST}, {12, B, LIST}, {13, B, LIST}, {14, B, LIST}, {16, B, LIST}};
MESSAGE(onnx_wire_graph, "GraphProto", graph_fields);

static const wire_field node_fields[] = {{1, B, LIST}, {2, B, LIST}, {3, B, ONE},  {4, B, ONE},
                                         {7, B, ONE},  {8, B, ONE},  {5, B, LIST}, {6, B, ONE},
                                         {9, B, LIST}, {10, B, LIST}};
MESSAGE(onnx_wire_node, "NodeProto", node_fields);

static const wire_field attribute_fields[] = {
    {1, B, ONE},  {21, B, ONE}, {13, B, ONE},  {20, V, ONE},  {2, F, ONE},   {3, V, ONE},
    {4, B, ONE},  {5, B, ONE},  {6, B, ONE},   {22, B, ONE},  {14, B, ONE},  {7, F, LIST},
    {8, V, LIST}, {9, B, LIST}, {10, B, LIST}, {11, B, LIST}, {23, B, LIST}, {15, B, LIST}};
MESSAGE(onnx_wire_attribute, "AttributeProto", attribute_fields);

static const wire_field tensor_fields[] = {
    {1, V, LIST},  {2, V, ONE},  {3, B, ONE},   {4, F, LIST},  {5, V, LIST},
    {6, B, LIST},  {7, V, LIST}, {8, B, ONE},   {12, B, ONE},  {9, B, ONE},
    {13, B, LIST}, {14, V, ONE}, {10, D, LIST}, {11, V, LIST}, {16, B, LIST}};
MESSAGE(onnx_wire_tensor, "TensorProto", tensor_fields);

static const wire_field value_info_fields[] = {{1, B, ONE}, {2, B, ONE}, {3, B, ONE}, {4, B, LIST}};
MESSAGE(onnx_wire_value_info, "ValueInfoProto", value_info_fields);

static const wire_field type_fields[] = {{1, B, ONE}, {4, B, ONE}, {5, B, ONE}, {9, B, ONE},
                                         {8, B, ONE}, {7, B, ONE}, {6, B, ONE}};
MESSAGE(onnx_wire_type, "TypeProto", type_fields);

static const wire_field tensor_type_fields[] = {{1, V, ONE}, {2, B, ONE}};
MESSAGE(onnx_wire_tensor_type, "TypeProto.Tensor", tensor_type_fields);

static const wire_field shape_fields[] = {{1, B, LIST}};
MESSAGE(onnx_wire_shape, "TensorShapeProto", shape_fields);

static const wire_field dim_fields[] = {{1, V, ONE}, {2, B, ONE}, {3, B, ONE}};
MESSAGE(onnx_wire_dim, "TensorShapeProto.Dimension", dim_fields);

static const wire_field function_fields[] = {
    {1, B, ONE}, {4, B, LIST}, {5, B, LIST}, {6, B, LIST}, {11, B, LIST}, {7, B, LIST},
    {8, B, ONE}, {9, B, LIST}, {10, B, ONE}, {13, B, ONE}, {12, B, LIST}, {14, B, LIST}};
MESSAGE(onnx_wire_function, "FunctionProto", function_fields);

static const wire_field opset_fields[] = {{1, B, ONE}, {2, V, ONE}};
MESSAGE(onnx_wire_opset, "OperatorSetIdProto", opset_fields);

static const wire_field prop_fields[] = {{1, B, ONE}, {2, B, ONE}};
MESSAGE(onnx_wire_prop, "StringStringEntryProto", prop_fields);
