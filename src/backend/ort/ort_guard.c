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
#include "onnx/write.h"

static const char domain[] = "weft.guard";

static void put_int_attribute(wf_buf *node, const char *name, int64_t i) {
  wf_buf a = {0};
  wf_onnx_put_text(&a, ONNX_ATTRIBUTE_NAME, name);
  wf_onnx_put_int(&a, ONNX_ATTRIBUTE_INT, i);
  wf_onnx_put_int(&a, ONNX_ATTRIBUTE_TYPE, WF_ATTR_INT);
  wf_onnx_put_message(node, ONNX_NODE_ATTRIBUTE, &a);
}

/* A node of the function: op, inputs parted by blanks, one output; an integer attribute unless
 * `attribute` is NULL. */
static void put_node(wf_buf *f, const char *op, const char *inputs, const char *output,
                     const char *attribute, int64_t i, const char *name) {
  wf_buf n = {0};
  for (const char *at = inputs; *at;) {
    const size_t len = strcspn(at, " ");
    wf_onnx_put_bytes(&n, ONNX_NODE_INPUT, at, len);
    at += len + (at[len] == ' ');
  }
  wf_onnx_put_text(&n, ONNX_NODE_OUTPUT, output);
  if (name) wf_onnx_put_text(&n, ONNX_NODE_NAME, name);
  wf_onnx_put_text(&n, ONNX_NODE_OP_TYPE, op);
  if (attribute) put_int_attribute(&n, attribute, i);
  wf_onnx_put_message(f, ONNX_FUNCTION_NODE, &n);
}

/* An int64 constant: a scalar, or of one element. */
static void put_constant(wf_buf *f, const char *output, int64_t value, bool is_list) {
  wf_buf t = {0}, a = {0}, n = {0};
  if (is_list) wf_onnx_put_int(&t, ONNX_TENSOR_DIMS, 1);
  wf_onnx_put_int(&t, ONNX_TENSOR_TYPE, WF_DTYPE_I64);
  wf_onnx_put_bytes(&t, ONNX_TENSOR_RAW, &value, sizeof value);
  wf_onnx_put_text(&a, ONNX_ATTRIBUTE_NAME, "value");
  wf_onnx_put_message(&a, ONNX_ATTRIBUTE_TENSOR, &t);
  wf_onnx_put_int(&a, ONNX_ATTRIBUTE_TYPE, WF_ATTR_TENSOR);
  wf_onnx_put_text(&n, ONNX_NODE_OUTPUT, output);
  wf_onnx_put_text(&n, ONNX_NODE_OP_TYPE, "Constant");
  wf_onnx_put_message(&n, ONNX_NODE_ATTRIBUTE, &a);
  wf_onnx_put_message(f, ONNX_FUNCTION_NODE, &n);
}

/* Everything in int64, which holds all types but uint64: the same numbers come of it. */
static void put_function(wf_buf *f, const ort_division *d, const char *name, int64_t opset) {
  const bool is_signed = wf_dtype_is_signed(d->dtype);
  wf_buf import = {0};
  wf_onnx_put_text(f, ONNX_FUNCTION_NAME, name);
  wf_onnx_put_text(f, ONNX_FUNCTION_INPUT, "a");
  wf_onnx_put_text(f, ONNX_FUNCTION_INPUT, "b");
  wf_onnx_put_text(f, ONNX_FUNCTION_OUTPUT, "y");
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
  wf_onnx_put_int(&import, ONNX_OPSET_VERSION, opset);
  wf_onnx_put_message(f, ONNX_FUNCTION_OPSET, &import);
  wf_onnx_put_text(f, ONNX_FUNCTION_DOMAIN, domain);
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
