/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of weft_verify share: verify.c (both backends, node by node, the verdict),
 * verify_inputs.c (values to run on), verify_compare.c (two tensors). */
#ifndef WF_VERIFY_H
#define WF_VERIFY_H

#include "engine/engine.h"
#include "onnx/onnx.h"

/* A tensor made or given for an input. */
typedef struct verify_input {
  const char *name;
  wf_view view;
  bool is_given;
} verify_input;

typedef struct verify_ask {
  const wf_onnx_graph *graph;
  const wf_package *package;     /* NULL: a plain file */
  const wf_component_info *info; /* of the first backend: the ports to fill */
  const weft_tensor *given;
  size_t n_given;
  uint64_t seed;
  int64_t past,
      fresh; /* of a decoder: tokens before, tokens new; also what free symbols are near */
  wf_arena *arena;
} verify_ask;

/* Fills inputs[info->n_inputs]; what is not given is made of the seed: floats in [-1, 1), ids
 * within the table that a Gather takes them to, masks of ones, positions counted on. Errors:
 * INVALID_ARGUMENT (a given tensor that no input takes), UNSUPPORTED (strings), LIMIT,
 * OUT_OF_MEMORY. */
weft_status wf_verify_make_inputs(const verify_ask *ask, verify_input *inputs,
                                  weft_error *err) WF_NODISCARD;

typedef struct verify_difference {
  bool is_comparable; /* types and shapes agree */
  bool is_code;       /* counted in codes of an integer type, not relative */
  double error;       /* largest |a - b| over the largest |b|; in codes for integers */
  double bound;       /* what the type and its maker are allowed */
  int64_t worst;      /* element */
  double a, b;        /* there */
} verify_difference;

/* |x - y|; 0 of equals, NaN and infinities among them, else infinite where one of them is none. */
double wf_verify_apart(double x, double y);

/* a of the first backend against b of the second. is_quantised: a node that rounds to codes made
 * it, so neighbours by one code are equal. */
verify_difference wf_verify_compare(const wf_view *a, const wf_view *b, bool is_quantised,
                                    double tolerance);

#endif
