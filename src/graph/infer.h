/* SPDX-License-Identifier: Apache-2.0 */
/* What the inference files share. Private to src/graph.
 *
 * An inference function sets what it can tell and leaves the rest unknown; only plain
 * contradictions (two constants that differ where they must agree) are errors. */
#ifndef WF_GRAPH_INFER_H
#define WF_GRAPH_INFER_H

#include "graph/edit.h"

typedef struct infer {
  wf_graph *g;
  wf_expr_pool *p;
  wf_node *n;
  weft_error *err;
} infer;

typedef weft_status (*infer_fn)(infer *c);

wf_value *infer_in(const infer *c, int32_t i); /* NULL: absent */
wf_value *infer_out(const infer *c, int32_t i);
int32_t infer_rank(const infer *c, int32_t i); /* -1: absent or unknown */
wf_dtype infer_dtype(const infer *c, int32_t i);
wf_expr infer_dim(const infer *c, int32_t input, int32_t axis); /* NONE when unknown */
wf_expr infer_k(const infer *c, int64_t v);
/* Sets type and shape of output i (nothing when it is absent). rank -1: only the type. Known dims
 * are never replaced by unknown ones. */
weft_status infer_set(infer *c, int32_t i, wf_dtype dtype, int32_t rank, const wf_expr *dims);
weft_status infer_same(infer *c, int32_t out, int32_t in); /* shape and type of an input */
weft_status infer_set_content(infer *c, int32_t i, int32_t n, const wf_expr *content);
weft_status infer_fail(infer *c, const char *fmt, ...) WF_PRINTF(2, 3);
/* The axis attribute or value in [0, rank); false when it is outside. */
bool infer_axis(int64_t axis, int32_t rank, int32_t *result);
/* The rule of numpy over two shapes. */
weft_status infer_broadcast(infer *c, int32_t ra, const wf_expr *a, int32_t rb, const wf_expr *b,
                            int32_t *rank, wf_expr *out);
/* An attribute list of ints, or constant input i (whichever the version has); n -1: neither is
 * there; -2: there but not constant. */
void infer_ints(const infer *c, const char *attr, int32_t input, int64_t *out, int32_t max,
                int32_t *n);

/* infer_math.c */
weft_status infer_unary(infer *c);
weft_status infer_binary(infer *c);
weft_status infer_compare(infer *c);
weft_status infer_variadic(infer *c);
weft_status infer_where(infer *c);
weft_status infer_cast(infer *c);
weft_status infer_cast_like(infer *c);
weft_status infer_to_bool(infer *c);
weft_status infer_reduce(infer *c);
weft_status infer_arg(infer *c);
weft_status infer_top_k(infer *c);
weft_status infer_matmul(infer *c);
weft_status infer_matmul_integer(infer *c);
weft_status infer_gemm(infer *c);
weft_status infer_einsum(infer *c);
weft_status infer_conv(infer *c);

/* infer_move.c */
weft_status infer_identity(infer *c);
weft_status infer_dropout(infer *c);
weft_status infer_constant(infer *c);
weft_status infer_constant_of_shape(infer *c);
weft_status infer_shape(infer *c);
weft_status infer_size(infer *c);
weft_status infer_range(infer *c);
weft_status infer_reshape(infer *c);
weft_status infer_transpose(infer *c);
weft_status infer_squeeze(infer *c);
weft_status infer_unsqueeze(infer *c);
weft_status infer_flatten(infer *c);
weft_status infer_expand(infer *c);
weft_status infer_tile(infer *c);
weft_status infer_concat(infer *c);
weft_status infer_split(infer *c);
weft_status infer_slice(infer *c);
weft_status infer_pad(infer *c);
weft_status infer_gather(infer *c);
weft_status infer_gather_elements(infer *c);
weft_status infer_gather_nd(infer *c);
weft_status infer_non_zero(infer *c);
weft_status infer_one_hot(infer *c);

/* infer_nn.c */
weft_status infer_norm(infer *c);
weft_status infer_skip_norm(infer *c);
weft_status infer_attention(infer *c);
weft_status infer_gqa(infer *c);
weft_status infer_mha(infer *c);
weft_status infer_causal_conv(infer *c);
weft_status infer_linear_attention(infer *c);
weft_status infer_nbits(infer *c);
weft_status infer_bnb4(infer *c);
weft_status infer_gather_blocks(infer *c);
weft_status infer_dequantize(infer *c);
weft_status infer_quantize(infer *c);
weft_status infer_dynamic_quantize(infer *c);
weft_status infer_float_matmul(infer *c);
weft_status infer_if(infer *c);
weft_status infer_loop(infer *c);
weft_status infer_weft_norm(infer *c);
weft_status infer_weft_glu(infer *c);
weft_status infer_weft_attention(infer *c);
weft_status infer_weft_linear(infer *c);
weft_status infer_weft_select(infer *c);

#endif
