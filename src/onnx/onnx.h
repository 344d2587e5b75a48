/* SPDX-License-Identifier: Apache-2.0 */
/* An ONNX file read in place from its mapping. Owns: the wire format, element types, external data.
 * Never: meaning of operators (src/graph), numbers (src/kernels).
 *
 * A model in protobuf's text form is translated to the binary form first and read from there.
 * Strings and raw tensor bytes are borrowed from the mapping; lists live in the model's arena, and
 * typed fields (float_data, ...) are decoded there once into the layout that raw_data would have.
 * Nothing in a file is trusted: each length, count and offset is checked against the bytes that are
 * there before it is used, so a model costs memory in proportion to its file. */
#ifndef WF_ONNX_H
#define WF_ONNX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

/* Element types, numbered as TensorProto.DataType. X(name, number, bits, text) */
#define WF_DTYPE_MAP(X)                  \
  X(UNDEFINED, 0, 0, "undefined")        \
  X(F32, 1, 32, "float32")               \
  X(U8, 2, 8, "uint8")                   \
  X(I8, 3, 8, "int8")                    \
  X(U16, 4, 16, "uint16")                \
  X(I16, 5, 16, "int16")                 \
  X(I32, 6, 32, "int32")                 \
  X(I64, 7, 64, "int64")                 \
  X(STRING, 8, 0, "string")              \
  X(BOOL, 9, 8, "bool")                  \
  X(F16, 10, 16, "float16")              \
  X(F64, 11, 64, "float64")              \
  X(U32, 12, 32, "uint32")               \
  X(U64, 13, 64, "uint64")               \
  X(C64, 14, 64, "complex64")            \
  X(C128, 15, 128, "complex128")         \
  X(BF16, 16, 16, "bfloat16")            \
  X(F8E4M3FN, 17, 8, "float8e4m3fn")     \
  X(F8E4M3FNUZ, 18, 8, "float8e4m3fnuz") \
  X(F8E5M2, 19, 8, "float8e5m2")         \
  X(F8E5M2FNUZ, 20, 8, "float8e5m2fnuz") \
  X(U4, 21, 4, "uint4")                  \
  X(I4, 22, 4, "int4")                   \
  X(F4E2M1, 23, 4, "float4e2m1")         \
  X(F8E8M0, 24, 8, "float8e8m0")         \
  X(U2, 25, 2, "uint2")                  \
  X(I2, 26, 2, "int2")                   \
  X(F6E2M3, 27, 6, "float6e2m3")         \
  X(F6E3M2, 28, 6, "float6e3m2")

typedef enum wf_dtype {
#define WF_X(name, number, bits, text) WF_DTYPE_##name = number,
  WF_DTYPE_MAP(WF_X)
#undef WF_X
      WF_DTYPE_COUNT
} wf_dtype;

/* Bits an element takes when packed; 0 for UNDEFINED, STRING and numbers that are no type. */
int wf_dtype_bits(wf_dtype t);
/* "float32"; "unknown" for a number that is no type. */
const char *wf_dtype_name(wf_dtype t);
bool wf_dtype_is_float(wf_dtype t);  /* float64 down to float4, not complex */
bool wf_dtype_is_int(wf_dtype t);    /* signed and unsigned, not bool */
bool wf_dtype_is_signed(wf_dtype t); /* of the integers */
/* Bytes of n elements, the last byte padded for types below 8 bits; false on overflow or for a
 * type without a size. */
bool wf_dtype_bytes(wf_dtype t, size_t n, size_t *n_bytes) WF_NODISCARD;
/* Product of the dims (1 for rank 0); false when a dim is negative or the product overflows. */
bool wf_dims_count(const int64_t *dims, size_t rank, size_t *n) WF_NODISCARD;

/* A dense tensor. Data is little-endian, row-major, packed low nibble first for 4-bit types. */
typedef struct wf_tensor {
  wf_str name;
  wf_dtype dtype;
  int32_t rank;
  const int64_t *dims;
  size_t n;         /* elements */
  const void *data; /* NULL for STRING and when n_bytes is 0; may be unaligned */
  size_t n_bytes;
  const wf_str *strings; /* [n], STRING only */
  /* Where the data is in a file, for packed-weight caches; map is NULL when it was decoded. */
  const wf_map *map;
  size_t map_at;
} wf_tensor;

typedef enum wf_attr_kind { /* numbered as AttributeProto.AttributeType */
                            WF_ATTR_NONE = 0,
                            WF_ATTR_FLOAT = 1,
                            WF_ATTR_INT = 2,
                            WF_ATTR_STRING = 3,
                            WF_ATTR_TENSOR = 4,
                            WF_ATTR_GRAPH = 5,
                            WF_ATTR_FLOATS = 6,
                            WF_ATTR_INTS = 7,
                            WF_ATTR_STRINGS = 8,
                            WF_ATTR_TENSORS = 9,
                            WF_ATTR_GRAPHS = 10,
                            WF_ATTR_OTHER = 11 /* sparse tensors and type protos: kept by name,
                                                  refused by who needs them */
} wf_attr_kind;

typedef struct wf_onnx_graph wf_onnx_graph;

typedef struct wf_attr {
  wf_str name;
  wf_str ref; /* name of the function's attribute that gives the value; empty outside functions */
  wf_attr_kind kind;
  size_t n; /* elements of a list, 1 for a single value */
  float f;
  int64_t i;
  wf_str s;
  const float *floats;
  const int64_t *ints;
  const wf_str *strings;
  const wf_tensor *tensors;           /* [n], also for TENSOR */
  const wf_onnx_graph *const *graphs; /* [n], also for GRAPH */
} wf_attr;

typedef struct wf_onnx_node {
  wf_str name, op_type, domain, overload;
  size_t n_inputs, n_outputs, n_attrs;
  const wf_str *inputs, *outputs; /* empty name: absent */
  const wf_attr *attrs;
} wf_onnx_node;

typedef struct wf_onnx_dim {
  bool is_known; /* value counts */
  int64_t value;
  wf_str symbol; /* empty: anonymous */
} wf_onnx_dim;

typedef struct wf_onnx_value_info {
  wf_str name;
  bool is_tensor; /* false: a sequence, map, optional or sparse type */
  wf_dtype dtype;
  int32_t rank; /* -1: no shape given */
  const wf_onnx_dim *dims;
} wf_onnx_value_info;

struct wf_onnx_graph {
  wf_str name;
  size_t n_nodes, n_initializers, n_inputs, n_outputs, n_value_infos;
  const wf_onnx_node *nodes;
  const wf_tensor *initializers;
  const wf_onnx_value_info *inputs, *outputs, *value_infos;
};

typedef struct wf_onnx_opset {
  wf_str domain; /* "" is ai.onnx, which is also written so */
  int64_t version;
} wf_onnx_opset;

typedef struct wf_onnx_prop {
  wf_str key, value;
} wf_onnx_prop;

typedef struct wf_onnx_function {
  wf_str domain, name, overload;
  size_t n_inputs, n_outputs, n_attr_names, n_attr_defaults, n_nodes, n_opsets, n_value_infos;
  const wf_str *inputs, *outputs, *attr_names;
  const wf_attr *attr_defaults;
  const wf_onnx_node *nodes;
  const wf_onnx_opset *opsets;
  const wf_onnx_value_info *value_infos;
} wf_onnx_function;

/* An external data file as tensors name it. */
typedef struct wf_onnx_external {
  wf_str location;
  const wf_map *map;
} wf_onnx_external;

typedef struct wf_onnx_model {
  wf_str producer_name, producer_version, model_domain;
  int64_t ir_version, model_version;
  wf_onnx_graph graph;
  size_t n_opsets, n_props, n_functions;
  const wf_onnx_opset *opsets;
  const wf_onnx_prop *props;
  const wf_onnx_function *functions;
  size_t n_maps; /* the model file first, then its external data files */
  const wf_map *const *maps;
  size_t n_externals; /* names may differ and mean one file */
  const wf_onnx_external *externals;
  wf_arena *arena; /* owns everything above but the mappings' bytes */
} wf_onnx_model;

typedef struct wf_onnx_options {
  bool trust_links;      /* external data may be reached through links out of the folder */
  bool without_external; /* leave external tensors with data NULL (inspecting without the data) */
} wf_onnx_options;

/* Maps `path` and reads it (in protobuf's text form when the name says so and the
 * first byte may be of a text); external data files are
 * looked for beside it and mapped once each. Owner:  *result on success, released by wf_onnx_close;
 * nothing on failure. Thread: any; the model is `immutable`. Errors: IO (missing), PARSE (a text
 * that is no such text: line and column), PACKAGE_INVALID (damage, with the offset and the message
 * it was in; external data outside the folder or too short; sparse initializers), LIMIT (nested too
 * deeply), UNSUPPORTED, OUT_OF_MEMORY. */
weft_status wf_onnx_open(wf_onnx_model **result, const char *path, const wf_onnx_options *options,
                         weft_error *err) WF_NODISCARD;
/* The same over bytes that stay the caller's and must outlive the model. `dir` is where external
 * data lies; NULL refuses external data. `name` names the input in errors. */
weft_status wf_onnx_read(wf_onnx_model **result, const void *bytes, size_t n_bytes,
                         const char *name, const char *dir, const wf_onnx_options *options,
                         weft_error *err) WF_NODISCARD;
void wf_onnx_close(wf_onnx_model *m); /* NULL is fine */

/* Does the name end so that the file is a model in protobuf's text form (.onnx.textproto)? */
bool wf_onnx_is_text_name(wf_str name);
/* The binary form of a model's text; out is emptied first. The time and the bytes taken are in
 * proportion to the text (the result has at most four times its bytes). `name` names
 * the input in errors.
 * Errors: PARSE (with line and column), LIMIT (more than 2 GiB), OUT_OF_MEMORY. */
weft_status wf_onnx_from_text(wf_str text, const char *name, wf_buf *out,
                              weft_error *err) WF_NODISCARD;
/* PACKAGE_INVALID when a mapped file has changed since it was opened. */
weft_status wf_onnx_check(const wf_onnx_model *m, weft_error *err) WF_NODISCARD;

/* The value of a metadata_props key; empty when absent. */
wf_str wf_onnx_prop_get(const wf_onnx_model *m, const char *key);
/* Version of a domain ("" for ai.onnx), 0 when the model does not import it. */
int64_t wf_onnx_opset_version(const wf_onnx_model *m, wf_str domain);

/* ---- writing ----------------------------------------------------------------------------------
 */

/* A node, told by the name of its first output, that is to call the function `op_type`. */
typedef struct wf_onnx_rename {
  wf_str output;
  const char *op_type;
} wf_onnx_rename;

/* The model's bytes with those nodes (of the graph and its subgraphs, not of its functions) as
 * calls of functions of `domain`, without attributes; functions[i] is a serialized FunctionProto.
 * *n_done is how many nodes were found. Appends to out. Errors: OUT_OF_MEMORY, LIMIT. */
weft_status wf_onnx_rename_nodes(const wf_onnx_model *model, const wf_onnx_rename *renames,
                                 size_t n, const char *domain, const wf_buf *functions,
                                 size_t n_functions, wf_buf *out, size_t *n_done,
                                 weft_error *err) WF_NODISCARD;
/* The model's bytes with every value that a node of the graph makes also an output of the graph.
 * With `exact`, every attribute `accuracy_level` of the graph's own nodes that asks for less than
 * fp32 (2 to 4) is 1. *n_exposed counts the new outputs. Appends to out.
 * Errors: OUT_OF_MEMORY, PACKAGE_INVALID. */
weft_status wf_onnx_expose(const wf_onnx_model *model, bool values, bool exact, wf_buf *out,
                           size_t *n_exposed, weft_error *err) WF_NODISCARD;

#endif
