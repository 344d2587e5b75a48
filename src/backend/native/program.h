/* SPDX-License-Identifier: Apache-2.0 */
/* A packed graph compiled into steps, and the component that holds it. Private to native/.
 *
 * A step runs on every member of the team at once; each takes its part (rows, columns, items) and
 * nobody waits for anybody except where `barrier_before` says so. Values are rows of `width`
 * elements in slots; slots share memory when their lives (counted in epochs: stretches between
 * barriers) don't meet, so that no member can overwrite what a slower one still reads.
 *
 * A SMALL RUN has too few rows to be divided (WF_ACT_ROW_GRAIN at most: the decode step). There
 * each member does all row steps for itself, into its own copy of what they write: a norm done
 * twice costs less than waiting for one another. Barriers of small runs are a subset of the others.
 */
#ifndef WF_NATIVE_PROGRAM_H
#define WF_NATIVE_PROGRAM_H

#include "backend/backend.h"
#include "backend/native/op.h"
#include "backend/port_map.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/matmul_int.h"

typedef enum wf_axis { WF_AXIS_TOKENS, WF_AXIS_SELECTED, WF_AXIS_NONE } wf_axis;

typedef struct wf_slot {
  wf_axis axis;
  int64_t width; /* elements a row; bytes for WF_AXIS_NONE */
  uint32_t elem; /* bytes of an element */
  bool is_act;   /* packed activations of `act` instead of plain elements */
  wf_act_kind act;
  bool is_private;     /* written by row steps: each member has its own copy in a small run */
  int32_t first, last; /* epochs of first write and last use */
} wf_slot;

/* A run of columns of a slot. */
typedef struct wf_loc {
  int32_t slot; /* -1: none */
  int32_t column;
} wf_loc;

/* ---- weights ------------------------------------------------------------------------------- */

/* One matrix of the graph before packing: constants by value, several parts stacked along N. */
enum { WF_WEIGHT_MAX_PARTS = 3 };
typedef enum wf_weight_kind {
  WF_WK_NBITS, /* com.microsoft MatMulNBits */
  WF_WK_DENSE, /* MatMul, Gemm or WEFT_LINEAR without scales */
  WF_WK_QDQ,   /* WEFT_LINEAR with scales: repacked into NBITS */
  WF_WK_BNB4,  /* com.microsoft MatMulBnb4: widened to fp32 when packed */
  WF_WK_INT    /* WEFT_DYNAMIC_LINEAR: products of integers */
} wf_weight_kind;

typedef struct wf_weight_part {
  const wf_tensor *data, *scales, *zeros, *offsets, *bias;
  int64_t n;
} wf_weight_part;

typedef struct wf_weight {
  wf_weight_kind kind;
  int32_t n_parts;
  wf_weight_part parts[WF_WEIGHT_MAX_PARTS];
  int64_t n, k;
  bool is_transposed; /* stored [K, N] */
  int bits, block_size, axis;
  wf_bnb4_form bnb4;
  wf_matmul_mode mode;
  wf_packed_weight packed;
  wf_int_weight integer; /* instead of it, where the kind is WF_WK_INT */
  size_t packed_bytes, packed_at;
} wf_weight;

/* What a mixture of experts is (moe.h). */
typedef enum wf_moe_activation {
  WF_MOE_RELU,
  WF_MOE_GELU, /* by tanh, as ONNX Runtime's */
  WF_MOE_SILU,
  WF_MOE_IDENTITY,
  WF_MOE_SWIGLU
} wf_moe_activation;
typedef struct wf_moe_form {
  int64_t n_experts, hidden, inter, fc1_n;
  int32_t k, fusion; /* of SWIGLU: 0 fc3 is the other half, 1 interleaved, 2 one behind the other */
  wf_moe_activation activation;
  bool normalizes, has_fc3;
  int32_t shares; /* the node's input of router_weights; -1: there is none */
  float alpha, beta, limit;
} wf_moe_form;

/* A table that rows are read from by id. */
typedef struct wf_table {
  wf_weight_desc desc;
  int64_t n, width;
  const wf_packed_weight *packed; /* the same table as a tied head has it; NULL: read from desc */
} wf_table;

/* ---- steps --------------------------------------------------------------------------------- */

typedef struct wf_exec wf_exec;
typedef struct wf_step wf_step;
typedef void wf_step_fn(wf_exec *x, const wf_step *s, const wf_member *m);

typedef enum wf_split {
  WF_SPLIT_ROWS, /* each member has its rows, the same ones in every such step */
  WF_SPLIT_COLS,
  WF_SPLIT_ITEMS,
  WF_SPLIT_ONE /* member 0 alone */
} wf_split;

typedef struct wf_norm_step {
  wf_norm_kind kind;
  float epsilon;
  int32_t n_groups; /* norms a row, each of `n` */
  int64_t n;
  const float *weight, *shift, *bias; /* bias of the sum */
} wf_norm_step;

typedef struct wf_rope_step {
  wf_rope rope;
  wf_rotary_index index;
  int32_t n_heads, head_dim;
  int64_t table_rows, table_width; /* of a constant table */
} wf_rope_step;

typedef struct wf_attention_step {
  int32_t layer, group;
  wf_attention_spec spec;
  wf_kv_layer kv;
  wf_rope_step rope; /* of q; k has kv.kv_heads heads */
  bool rotates;
} wf_attention_step;

typedef struct wf_generic_step {
  const wf_node *node;
  wf_op_fn *fn;
  int32_t n_in, n_out;
  /* Per operand: constant view, or slot with a value whose dims are evaluated each run. */
  const struct wf_generic_operand {
    const wf_value *value; /* NULL: absent */
    bool is_const;
    wf_view constant;
    int32_t slot;
  } * in, *out;
} wf_generic_step;

struct wf_step {
  wf_step_fn *fn;
  const wf_node *node; /* it was made of, for profiles; NULL: of none */
  wf_split split;
  wf_axis axis;
  bool gathers;        /* reads rows that other members have made, where rows are divided */
  bool barrier_before; /* in a run of many rows */
  bool barrier_small;  /* in a small run */
  bool packs;          /* a norm or GLU: out[2] takes out[0] once more, packed for products */
  int32_t n_in, n_out;
  wf_loc in[6], out[3];
  int64_t width; /* elements a row of the main operand */
  union {
    wf_norm_step norm;
    wf_rope_step rope;
    wf_attention_step attention;
    struct {
      const wf_table *table;
    } gather;
    struct {
      int32_t weight;
      bool has_residual, is_head;
    } linear;
    struct {
      wf_unary_fn fn;
      float alpha;
    } unary;
    struct {
      wf_binary_op op;
      const float *constant;
      int64_t step;
      bool is_reversed;
    } binary;
    struct {
      const wf_moe_form *form;
      int32_t weight; /* the first of the node's */
    } moe;
    wf_generic_step generic;
  } as;
};

/* Which weight a node multiplies with, and its first column in it. */
typedef struct wf_weight_use {
  int32_t weight; /* -1: none */
  int32_t column;
  bool is_merged;
  const wf_moe_form *moe; /* of a mixture of experts, whose first weight it is; else NULL */
} wf_weight_use;

/* ---- component ----------------------------------------------------------------------------- */

struct wf_component {
  wf_arena *arena; /* everything below that is not named otherwise; sealed */
  wf_onnx_model *model;
  wf_graph *graph;
  wf_packed packed;
  wf_component_info info;
  wf_cpu_level level;
  wf_kv_type kv;
  bool has_ports;
  bool exact;
  /* Weights. */
  size_t n_weights;
  wf_weight *weights;
  wf_map pack_map;   /* the cache file, or zero */
  void *pack_memory; /* else private memory */
  size_t pack_bytes;
  /* The program, when packed. */
  size_t n_steps, n_slots;
  const wf_step *steps;
  const wf_slot *slots;
  int32_t ids_slot; /* int64 ids for generic steps, or -1 */
  int32_t positions_slot, select_slot, embeds_slot;
  int64_t ids_limit; /* rows of the smallest embedding table; 0: none */
  uint64_t n_barriers, n_barriers_small;
  /* The interpreter's, else. */
  struct wf_interp_plan *interp;
  const wf_weight_use *uses; /* by node id */
  wf_port_map map;
  const size_t *carried_at; /* [n_carried + 1] where each state begins in a row's, in bytes */
};

/* Finds every weight of the graph's products, merges those that share an input, fills c->weights
 * and uses[node id]. */
weft_status wf_weights_collect(wf_component *c, wf_weight_use *uses, weft_error *err) WF_NODISCARD;
/* Plans, packs or maps all of them. */
weft_status wf_weights_pack(wf_component *c, const wf_compile_options *o,
                            weft_error *err) WF_NODISCARD;
void wf_weights_release(wf_component *c);
/* The description that a weight of WF_WK_INT is packed from; converted parts live in tmp. */
weft_status wf_weight_describe_int(const wf_component *c, const wf_weight *w, wf_arena *tmp,
                                   wf_int_desc *d, weft_error *err) WF_NODISCARD;
/* The product a node is, when its weight is constant; false: none. */
bool wf_weight_of_node(const wf_component *c, const wf_node *n, wf_weight *w);

/* A constant as fp32 in the component's arena (borrowed from the file where it is that already);
 * NULL when memory is out or the type has no such form. */
const float *wf_const_f32(wf_component *c, const wf_tensor *t);
/* Constant tensor of a value, looking through reshapes; *is_transposed counts 2-D transposes. */
const wf_tensor *wf_const_of(const wf_graph *g, int32_t value, bool *is_transposed);

weft_status wf_lower(wf_component *c, const wf_weight_use *uses, weft_error *err) WF_NODISCARD;

/* ---- a session ----------------------------------------------------------------------------- */

struct wf_exec {
  const wf_component *c;
  wf_cpu_level level;
  int64_t n_tokens, n_selected;
  unsigned char **slots; /* [n_slots], this member's */
  bool is_small;
  const int32_t *ids;
  const int64_t *positions, *identity;
  const int64_t *select;
  float *const *logits; /* [n_selected] */
  float *head_scratch;  /* [head_rows, vocab] or NULL: rows whose logits don't lie together */
  int64_t head_rows;
  size_t n_rows;
  const wf_attention_row *rows; /* [n_groups][n_rows] */
  unsigned char *scratch;       /* this member's */
  int64_t ticket_base;          /* this member's */
  /* Where keys are split among members: each row's partial results; NULL: rows stay whole. */
  unsigned char *partials;
  size_t partials_stride;
  wf_backend_session *session;
};

/* Step functions, by name, in steps.c and steps_attention.c. */
wf_step_fn wf_step_gather, wf_step_norm, wf_step_act_pack, wf_step_linear, wf_step_head,
    wf_step_glu, wf_step_unary, wf_step_binary, wf_step_rope, wf_step_append, wf_step_attention,
    wf_step_moe_route, wf_step_moe_sort, wf_step_moe_gather, wf_step_moe_up, wf_step_moe_gate,
    wf_step_moe_down, wf_step_moe_combine, wf_step_select, wf_step_copy, wf_step_generic,
    wf_step_store_logits;

#endif
