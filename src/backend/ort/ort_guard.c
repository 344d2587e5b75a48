/* SPDX-License-Identifier: Apache-2.0 */
/* Divisions of integers whose divisor is not known: the library computes them with the processor's
 * own instruction, which ends the process for x / 0 (before 1.31) and for the lowest number / -1.
 * Such a node becomes a call of a function that divides where that is safe, gives 0 - x (or a
 * remainder of 0) for -1, and fails by name for 0. Nodes that divide by constants, as those of
 * decoders do, stay as they are. */
#include <stdio.h>
#include <string.h>

#include "backend/ort/ort.h"
#include "base/process.h"

static const char domain[] = "weft.guard";

enum { /* field numbers of onnx.proto */
       FUNCTION_NAME = 1,
       FUNCTION_INPUT = 4,
       FUNCTION_OUTPUT = 5,
       FUNCTION_NODE = 7,
       FUNCTION_OPSET = 9,
       FUNCTION_DOMAIN = 10,
       NODE_INPUT = 1,
       NODE_OUTPUT = 2,
       NODE_NAME = 3,
       NODE_OP_TYPE = 4,
       NODE_ATTRIBUTE = 5,
       ATTRIBUTE_NAME = 1,
       ATTRIBUTE_I = 3,
       ATTRIBUTE_T = 5,
       ATTRIBUTE_TYPE = 20,
       TENSOR_DIMS = 1,
       TENSOR_TYPE = 2,
       TENSOR_RAW = 9,
       OPSET_VERSION = 2
};

static void put_text(wf_buf *b, uint32_t field, const char *text) {
  wf_onnx_put_bytes(b, field, text, strlen(text));
}

static void put_message(wf_buf *b, uint32_t field, wf_buf *child) {
  wf_onnx_put_bytes(b, field, child->at, child->n);
  b->failed = b->failed || child->failed;
  wf_buf_deinit(child);
}

static void put_int_attribute(wf_buf *node, const char *name, int64_t i) {
  wf_buf a = {0};
  put_text(&a, ATTRIBUTE_NAME, name);
  wf_onnx_put_int(&a, ATTRIBUTE_I, i);
  wf_onnx_put_int(&a, ATTRIBUTE_TYPE, WF_ATTR_INT);
  put_message(node, NODE_ATTRIBUTE, &a);
}

/* A node of the function: op, inputs parted by blanks, one output; an integer attribute unless
 * `attribute` is NULL. */
static void put_node(wf_buf *f, const char *op, const char *inputs, const char *output,
                     const char *attribute, int64_t i, const char *name) {
  wf_buf n = {0};
  for (const char *at = inputs; *at;) {
    const size_t len = strcspn(at, " ");
    wf_onnx_put_bytes(&n, NODE_INPUT, at, len);
    at += len + (at[len] == ' ');
  }
  put_text(&n, NODE_OUTPUT, output);
  if (name) put_text(&n, NODE_NAME, name);
  put_text(&n, NODE_OP_TYPE, op);
  if (attribute) put_int_attribute(&n, attribute, i);
  put_message(f, FUNCTION_NODE, &n);
}

/* An int64 constant: a scalar, or of one element. */
static void put_constant(wf_buf *f, const char *output, int64_t value, bool is_list) {
  wf_buf t = {0}, a = {0}, n = {0};
  if (is_list) wf_onnx_put_int(&t, TENSOR_DIMS, 1);
  wf_onnx_put_int(&t, TENSOR_TYPE, WF_DTYPE_I64);
  wf_onnx_put_bytes(&t, TENSOR_RAW, &value, sizeof value);
  put_text(&a, ATTRIBUTE_NAME, "value");
  put_message(&a, ATTRIBUTE_T, &t);
  wf_onnx_put_int(&a, ATTRIBUTE_TYPE, WF_ATTR_TENSOR);
  put_text(&n, NODE_OUTPUT, output);
  put_text(&n, NODE_OP_TYPE, "Constant");
  put_message(&n, NODE_ATTRIBUTE, &a);
  put_message(f, FUNCTION_NODE, &n);
}

/* Everything in int64, which holds all types but uint64: the same numbers come of it. */
static void put_function(wf_buf *f, const ort_division *d, const char *name, int64_t opset) {
  const bool is_signed = wf_dtype_is_signed(d->dtype);
  wf_buf import = {0};
  put_text(f, FUNCTION_NAME, name);
  put_text(f, FUNCTION_INPUT, "a");
  put_text(f, FUNCTION_INPUT, "b");
  put_text(f, FUNCTION_OUTPUT, "y");
  put_constant(f, "zero", 0, false);
  put_constant(f, "one", 1, false);
  put_constant(f, "minus", -1, false);
  put_constant(f, "table", 0, true);
  put_node(f, "Cast", "a", "A", "to", WF_DTYPE_I64, NULL);
  put_node(f, "Cast", "b", "B", "to", WF_DTYPE_I64, NULL);
  put_node(f, "Equal", "B zero", "is_zero", NULL, 0, NULL);
  put_node(f, "Equal", "B minus", "is_minus", NULL, 0, NULL);
  put_node(f, "Or", "is_zero is_minus", "is_risky", NULL, 0, NULL);
  put_node(f, "Where", "is_risky one B", "safe", NULL, 0, NULL);
  /* an index past the table, when there is a zero, ends the run */
  put_node(f, "Cast", "is_zero", "zeros", "to", WF_DTYPE_I64, NULL);
  put_node(f, "ReduceSum", "zeros", "n_zeros", "keepdims", 0, NULL);
  put_node(f, "Greater", "n_zeros zero", "has_zero", NULL, 0, NULL);
  put_node(f, "Cast", "has_zero", "index", "to", WF_DTYPE_I64, NULL);
  put_node(f, "Gather", "table index", "nothing", NULL, 0, "integer division by zero");
  put_node(f, d->is_mod ? "Mod" : "Div", "A safe", "whole", d->is_mod ? "fmod" : NULL, d->fmod,
           NULL);
  if (!is_signed) {
    put_node(f, "Add", "whole nothing", "Y", NULL, 0, NULL);
  } else {
    put_node(f, "Sub", "zero A", "turned", NULL, 0, NULL);
    put_node(f, "Where", d->is_mod ? "is_minus zero whole" : "is_minus turned whole", "chosen",
             NULL, 0, NULL);
    put_node(f, "Add", "chosen nothing", "Y", NULL, 0, NULL);
  }
  put_node(f, "Cast", "Y", "y", "to", d->dtype, NULL);
  wf_onnx_put_int(&import, OPSET_VERSION, opset);
  put_message(f, FUNCTION_OPSET, &import);
  put_text(f, FUNCTION_DOMAIN, domain);
}

typedef struct guard_function {
  char name[32];
} guard_function;

/* Unsigned divisors are never -1; uint64 does not fit, and a type that is not known can't be cast
 * back to: these stay as they are, which is said. */
static bool can_guard(const ort_division *d) {
  return d->dtype != WF_DTYPE_UNDEFINED && d->dtype != WF_DTYPE_U64 && wf_dtype_bits(d->dtype) >= 8;
}

weft_status ort_guard(const wf_onnx_model *model, const ort_divisions *divisions, wf_buf *out,
                      weft_error *err) {
  weft_status st = WEFT_OK;
  const size_t n = divisions->n;
  size_t n_renames = 0, n_functions = 0, n_done = 0;
  wf_onnx_rename *renames = wf_calloc(n + 1, sizeof *renames);
  guard_function *names = wf_calloc(n + 1, sizeof *names);
  wf_buf *functions = wf_calloc(n + 1, sizeof *functions);
  if (!renames || !names || !functions) WF_TRY(wf_fail_memory(err, n * sizeof *names, "a model"));
  for (size_t i = 0; i < n; i++) {
    const ort_division *d = &divisions->at[i];
    guard_function name;
    if (!can_guard(d)) continue;
    snprintf(name.name, sizeof name.name, "%s%s_%s", d->is_mod ? "Mod" : "Div", d->fmod ? "F" : "",
             wf_dtype_name(d->dtype));
    size_t k = 0;
    while (k < n_functions && strcmp(names[k].name, name.name) != 0) k++;
    if (k == n_functions) {
      names[n_functions] = name;
      put_function(&functions[n_functions++], d, names[k].name,
                   wf_onnx_opset_version(model, WF_STR("")));
      if (functions[k].failed) WF_TRY(wf_fail_memory(err, functions[k].n, "a model"));
    }
    renames[n_renames++] = (wf_onnx_rename){d->output, names[k].name};
  }
  if (n_renames) {
    WF_TRY(wf_onnx_rename_nodes(model, renames, n_renames, domain, functions, n_functions, out,
                                &n_done, err));
  }
  if (n_done < n) {
    wf_log(1,
           "%zu divisions of integers by what may be 0 can't be guarded: such a division "
           "may end the process inside ONNX Runtime",
           n - n_done);
  }
out:
  for (size_t i = 0; functions && i < n_functions; i++) wf_buf_deinit(&functions[i]);
  wf_free(functions);
  wf_free(names);
  wf_free(renames);
  return st;
}
