/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of a GGUF file into the ONNX graph: each tensor repacked while it is streamed into the
 * external file, and the few nodes that use it. Knows element types, not architectures. */
#ifndef WF_GGUF_WEIGHTS_H
#define WF_GGUF_WEIGHTS_H

#include "import/gguf_model.h"
#include "import/import.h"
#include "import/onnx_writer.h"

/* The state of one import. Errors go to `err`; names of values live in `names`. */
typedef struct wf_gguf_build {
  wf_onnxw *w;
  wf_onnxw_graph *g;
  const wf_gguf_model *m;
  const wf_import_options *opts;
  weft_error *err;
  wf_arena *names;
  bool *is_used; /* [n_tensors]: what the graph left out is refused at the end */
  uint64_t done_bytes, total_bytes;
  /* The block sums made last, so that Q, K and V share one. */
  struct {
    const char *of, *sums;
    size_t block;
  } sums[4];
  size_t n_sums;
  WF_VEC(const char *) constants; /* names of the integer vectors written so far */
} wf_gguf_build;

weft_status wf_gguf_build_init(wf_gguf_build *b, wf_onnxw *w, const wf_gguf_model *m,
                               const wf_import_options *opts, weft_error *err) WF_NODISCARD;
void wf_gguf_build_deinit(wf_gguf_build *b);

/* A name out of the build's arena; NULL when memory is out, with the error filled. */
const char *wf_gguf_name(wf_gguf_build *b, const char *fmt, ...) WF_PRINTF(2, 3);

/* Some rows of a matrix, possibly in another order. */
typedef struct wf_gguf_rows {
  const wf_gguf_tensor *tensor;
  size_t first, n;
  size_t head_dim, rotary_dim; /* head_dim > 0: pairs (2i, 2i+1) of each head become halves */
} wf_gguf_rows;

/* Finds a tensor and checks its shape. Shapes: [n, k] in ONNX's order; n = 0 for a vector [k].
 * Errors: PARSE (missing, another shape). Marks it as used. */
weft_status wf_gguf_take(wf_gguf_build *b, const char *name, size_t n, size_t k,
                         const wf_gguf_tensor **result) WF_NODISCARD;

/* A float32 vector initializer `to`; row order as in `rows`. */
weft_status wf_gguf_vector(wf_gguf_build *b, const wf_gguf_rows *rows, const char *to) WF_NODISCARD;

/* Nodes for out = x @ rows^T, named after `base` ("/model/layers.0/attn/q_proj/MatMul").
 * *out: the value's name; give a name in it to have it so ("logits"), or NULL. */
weft_status wf_gguf_linear(wf_gguf_build *b, const wf_gguf_rows *rows, const char *base,
                           const char *x, const char **out) WF_NODISCARD;

/* Nodes for the embedding of `ids`; with `is_tied` over the data of the head, which must have been
 * written by wf_gguf_head_weights before. */
weft_status wf_gguf_embedding(wf_gguf_build *b, const wf_gguf_tensor *t, const char *ids,
                              bool is_tied, const char **out) WF_NODISCARD;
/* Only the initializers of the head, so that a tied embedding can come before its node. */
weft_status wf_gguf_head_weights(wf_gguf_build *b, const wf_gguf_rows *rows,
                                 const char *base) WF_NODISCARD;
/* Only the nodes. */
weft_status wf_gguf_head_nodes(wf_gguf_build *b, const wf_gguf_rows *rows, const char *base,
                               const char *x, const char *out) WF_NODISCARD;

/* Node helpers with one output, named "<name>/output_0"; NULL when memory is out. */
const char *wf_gguf_node(wf_gguf_build *b, const char *op, const char *domain, const char *name,
                         const char *const *inputs, size_t n_inputs, const wf_onnxw_attr *attrs,
                         size_t n_attrs);
/* An int64 vector initializer by value, stored once ("/model/constants/INT64/[0, 0, 18, 32]");
 * a scalar when rank is 0. */
const char *wf_gguf_ints(wf_gguf_build *b, const int64_t *v, size_t n, bool is_scalar);

/* WEFT_UNSUPPORTED naming the first tensor that nothing has used. */
weft_status wf_gguf_check_used(const wf_gguf_build *b) WF_NODISCARD;

#endif
