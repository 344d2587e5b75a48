/* SPDX-License-Identifier: Apache-2.0 */
/* An ONNX graph in memory: typed values, symbolic shapes, passes, the packed form, a memory plan.
 * Owns: what operators mean for shapes and types. Never: kernels, threads, files.
 *
 * Life: wf_graph_build from a wf_onnx_model -> passes (each rewrites the graph in place) ->
 * optionally wf_graph_pack -> read as `const wf_graph *` by a backend. Everything lives in the
 * graph's arena or, for large constants, in the model's mapping, which must outlive the graph. */
#ifndef WF_GRAPH_H
#define WF_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"
#include "graph/ops.h"
#include "onnx/onnx.h"

/* ---- expressions ------------------------------------------------------------------------- */

/* An integer expression over symbols, hash-consed in normal form: equal expressions of one pool are
 * equal ints. Negative means "not known". */
typedef int32_t wf_expr;
enum { WF_EXPR_NONE = -1 };

typedef struct wf_expr_pool wf_expr_pool;

typedef enum wf_expr_kind {
  WF_EXPR_CONST,
  WF_EXPR_SYMBOL,
  WF_EXPR_SUM,     /* sum of coefficient * term, plus a constant */
  WF_EXPR_PRODUCT, /* product of factors */
  WF_EXPR_FLOORDIV,
  WF_EXPR_MOD,
  WF_EXPR_MAX,
  WF_EXPR_MIN
} wf_expr_kind;

wf_expr_pool *wf_expr_pool_create(void) WF_NODISCARD;
void wf_expr_pool_destroy(wf_expr_pool *p);
/* Each gives WF_EXPR_NONE when an operand is WF_EXPR_NONE, memory is out, constants overflow or the
 * expression would grow past a fixed size. */
wf_expr wf_expr_const(wf_expr_pool *p, int64_t v);
wf_expr wf_expr_symbol(wf_expr_pool *p, wf_str name); /* symbols are >= 0 */
wf_expr wf_expr_add(wf_expr_pool *p, wf_expr a, wf_expr b);
wf_expr wf_expr_sub(wf_expr_pool *p, wf_expr a, wf_expr b);
wf_expr wf_expr_mul(wf_expr_pool *p, wf_expr a, wf_expr b);
wf_expr wf_expr_floordiv(wf_expr_pool *p, wf_expr a, wf_expr b);
wf_expr wf_expr_mod(wf_expr_pool *p, wf_expr a, wf_expr b);
wf_expr wf_expr_max(wf_expr_pool *p, wf_expr a, wf_expr b);
wf_expr wf_expr_min(wf_expr_pool *p, wf_expr a, wf_expr b);
/* a / b when b divides a for all values of the symbols (as far as the normal form can tell). */
wf_expr wf_expr_exact_div(wf_expr_pool *p, wf_expr a, wf_expr b);
wf_expr_kind wf_expr_kind_of(const wf_expr_pool *p, wf_expr e);
bool wf_expr_is_const(const wf_expr_pool *p, wf_expr e, int64_t *v); /* false for NONE */
/* Name of a symbol expression; empty for any other. */
wf_str wf_expr_symbol_name(const wf_expr_pool *p, wf_expr e);
/* Certainly >= 0, the symbols being >= 0. */
bool wf_expr_is_nonnegative(const wf_expr_pool *p, wf_expr e);
bool wf_expr_uses(const wf_expr_pool *p, wf_expr e, wf_expr symbol);
/* Replaces `symbol` by `by` everywhere in e. */
wf_expr wf_expr_replace(wf_expr_pool *p, wf_expr e, wf_expr symbol, wf_expr by);
void wf_expr_print(const wf_expr_pool *p, wf_expr e, wf_buf *b); /* "batch*(seq + 1)", "?" */

typedef struct wf_binding {
  wf_expr symbol;
  int64_t value;
} wf_binding;

/* The value of e under the bindings. Reads the pool only, so threads may share it.
 * Errors: INVALID_ARGUMENT (a symbol without a binding, by name; NONE; division by zero),
 *         LIMIT (overflow). */
weft_status wf_expr_eval(const wf_expr_pool *p, wf_expr e, const wf_binding *bindings,
                         size_t n_bindings, int64_t *result, weft_error *err) WF_NODISCARD;

/* ---- the graph --------------------------------------------------------------------------- */

typedef struct wf_graph wf_graph;

typedef struct wf_value {
  int32_t id;
  wf_str name;         /* as in the file; made up for values of passes */
  wf_dtype dtype;      /* UNDEFINED: not known */
  int32_t rank;        /* -1: not known */
  const wf_expr *dims; /* [rank], each may be WF_EXPR_NONE */
  bool is_input, is_output;
  bool is_captured; /* inside a subgraph: the outer graph's value `outer` */
  int32_t outer;
  const wf_tensor *tensor; /* constants only, else NULL */
  int32_t producer;        /* node id; -1 for inputs and constants */
  int32_t producer_output; /* which of the producer's outputs */
  const int32_t *users;    /* [n_users] node ids, in no order; once per use (captures too) */
  size_t n_users;
  size_t users_capacity;  /* private */
  const wf_expr *content; /* known integers [n_content] of a small tensor; each may be NONE */
  int32_t n_content;      /* -1: nothing known */
} wf_value;

/* What internal (WEFT_*) nodes carry instead of attributes. */
typedef enum wf_norm_kind { WF_NORM_RMS, WF_NORM_LAYER } wf_norm_kind;

typedef enum wf_unary_kind {
  WF_UNARY_SILU,          /* x * sigmoid(x) */
  WF_UNARY_GELU_ERF,      /* x * 0.5 * (1 + erf(x / sqrt 2)) */
  WF_UNARY_GELU_TANH,     /* x * 0.5 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) */
  WF_UNARY_SIGMOID_ALPHA, /* x * sigmoid(alpha * x), QuickGelu */
  WF_UNARY_RELU,
  WF_UNARY_RELU2 /* relu(x)^2 */
} wf_unary_kind;

typedef enum wf_rotary_kind {
  WF_ROTARY_NONE,
  WF_ROTARY_HALF,       /* pairs (i, i + dim/2) */
  WF_ROTARY_INTERLEAVED /* pairs (2i, 2i + 1) */
} wf_rotary_kind;

typedef enum wf_rotary_index {
  WF_ROTARY_BY_POSITION, /* cos, sin are tables [positions, W]; the row is the token's absolute
                            position (past length + index in the sequence) */
  WF_ROTARY_BY_TOKEN     /* cos, sin hold one row per token: [.., tokens, W] */
} wf_rotary_index;

/* WEFT_NORM. Over the last axis. y = norm(x + skip + bias) * weight + shift.
 * inputs:  0 x, 1 skip or -1, 2 bias of the sum or -1, 3 weight [D] or -1, 4 shift [D] or -1
 * outputs: 0 y, 1 the sum x + skip + bias or -1. Computed in fp32 whatever the dtypes. */
typedef struct wf_norm_params {
  wf_norm_kind kind;
  float epsilon;
} wf_norm_params;

/* WEFT_UNARY: input 0 x, output 0. WEFT_GLU: y = f(gate) * up; inputs 0 gate, 1 up. */
typedef struct wf_unary_params {
  wf_unary_kind kind;
  float alpha;
} wf_unary_params;

/* WEFT_ROTARY: input 0 x token-major [.., tokens, heads * head_dim], 1 cos, 2 sin (see index; only
 * the first dim / 2 columns of a row are read), output 0 like x. The first `dim` of each head turn.
 */
typedef struct wf_rotary_params {
  wf_rotary_kind kind;
  wf_rotary_index index;
  int32_t dim, n_heads, head_dim;
} wf_rotary_params;

/* WEFT_ATTENTION. Attention over the state of pair `layer` with the new tokens appended to it.
 * inputs:  0 q [.., tokens, n_heads * head_dim]; 1 k [.., tokens, n_kv_heads * head_dim];
 *          2 v [.., tokens, n_kv_heads * head_dim_v]; k and v are -1 when q is packed
 *          [.., tokens, (n_heads + 2 n_kv_heads) * head_dim]; 3 cos, 4 sin or -1; 5 sinks
 *          [n_heads] or -1; 6 past key, 7 past value, 8 mask-like value that keeps unpacked graphs
 *          connected; all of 6..8 are -1 in packed graphs
 * outputs: 0 y [.., tokens, n_heads * head_dim_v]; 1 present key, 2 present value, -1 in packed
 * Token i (absolute position p) sees positions j <= p and, with window > 0, j > p - window. */
typedef struct wf_attention_params {
  int32_t layer; /* index of the state pair in the ports */
  int32_t n_heads, n_kv_heads, head_dim, head_dim_v;
  float scale;         /* of q k^T */
  float softcap;       /* 0: none; else softcap * tanh(s / softcap) */
  int32_t window;      /* 0: none */
  bool smooth_softmax; /* an extra term exp(0) in the denominator (a sink of 0 without input 5) */
  wf_rotary_params rotary; /* applied to q and to k before k enters the state */
} wf_attention_params;

/* WEFT_LINEAR: y = x W (+ bias) (+ residual). inputs: 0 x [.., K], 1 weight, 2 bias [N] or -1,
 * 3 scales or -1, 4 zero points or -1.
 * is_transposed: the weight is [N, K] instead of [K, N]. Scales given: weight is integer (2, 4 or 8
 * bits) and w = (q - zero) * scale, DequantizeLinear's rule over `axis` of the weight as stored
 * (scale of rank 0 or 1 when block_size is 0, else blocked along axis). */
typedef struct wf_linear_params {
  bool is_transposed;
  int32_t axis, block_size;
} wf_linear_params;

/* WEFT_DYNAMIC_LINEAR: DynamicQuantizeLinear of x, MatMulInteger, Cast, Mul by the product of both
 * scales, Add of the bias: y = (float)sum((q(x) - zero(x)) (w - zero)) * (scale(x) * scale) + bias,
 * the range of x being that of the whole tensor. inputs: as WEFT_LINEAR, weight int8 or uint8
 * [K, N], scales and zero points of one element or N. */

typedef struct wf_node {
  int32_t id;
  wf_op op;
  wf_str domain, op_type, name; /* name may be empty */
  int32_t version;              /* imported version of the domain */
  int32_t n_inputs, n_outputs;
  const int32_t *inputs; /* value ids, -1: absent */
  const int32_t *outputs;
  size_t n_attrs;
  const wf_attr *attrs;
  size_t n_subgraphs; /* of GRAPH attributes, in attribute order */
  wf_graph *const *subgraphs;
  size_t n_captures; /* outer values that subgraphs read; count as uses */
  const int32_t *captures;
  bool is_dead;
  union { /* by op, for WEFT_* only */
    wf_norm_params norm;
    wf_unary_params unary; /* WEFT_UNARY, WEFT_GLU */
    wf_rotary_params rotary;
    wf_attention_params attention;
    wf_linear_params linear;
  } as;
} wf_node;

/* Two operators of com.microsoft may carry one more input than their standard says, put there by a
 * pass: MatMulNBits input 6 and GatherBlockQuantized input 4 are float offsets a block:
 *   MatMulNBits           y[n] += sum over blocks b of (sum of x in b) * offsets[b, n], [K/bs, N]
 *   GatherBlockQuantized  w[r, c] += offsets[r, c / bs]; offsets is [rows, blocks], or [blocks,
 * rows] when the node has the attribute WF_GATHER_OFFSETS_BY_BLOCK = 1 */
enum { WF_MATMUL_NBITS_OFFSETS = 6, WF_GATHER_BLOCK_OFFSETS = 4 };
#define WF_GATHER_OFFSETS_BY_BLOCK "weft_offsets_by_block"

struct wf_graph {
  wf_arena *arena;        /* shared with subgraphs; owned by the outermost graph */
  wf_expr_pool *exprs;    /* same */
  const wf_graph *parent; /* NULL for the outermost */
  wf_str name;
  WF_VEC(wf_value *) values; /* by id; pointers stay valid */
  WF_VEC(wf_node *) nodes;   /* by id, dead ones included */
  WF_VEC(int32_t) inputs;    /* value ids; initializers that are also inputs are left out */
  WF_VEC(int32_t) outputs;
  WF_VEC(int32_t) order; /* live nodes, producers before users */
  const wf_onnx_opset *opsets;
  size_t n_opsets;
};

/* Builds the typed graph of a model: constants, nodes, functions of the model inlined, subgraphs
 * kept, then shapes and types inferred.
 * Owner:  *result on success (wf_graph_destroy); the model must outlive it.
 * Thread: any; the graph belongs to one thread until it is only read.
 * Errors: PACKAGE_INVALID (a name without a producer, produced twice, a cycle, an attribute of a
 *         wrong kind, shapes that contradict each other: node and values named), LIMIT,
 *         OUT_OF_MEMORY. Unknown operators are no error. */
weft_status wf_graph_build(wf_graph **result, const wf_onnx_model *model,
                           weft_error *err) WF_NODISCARD;
void wf_graph_destroy(wf_graph *g); /* NULL is fine */

const char *wf_op_name(wf_op op); /* "MatMulNBits"; "?" for UNKNOWN */
const char *wf_op_domain(wf_op op);
wf_op wf_op_find(wf_str domain, wf_str op_type);

/* Attribute by name; NULL when absent. The typed ones give `fallback` when absent or of another
 * kind. */
const wf_attr *wf_node_attr(const wf_node *n, const char *name);
int64_t wf_node_attr_i(const wf_node *n, const char *name, int64_t fallback);
float wf_node_attr_f(const wf_node *n, const char *name, float fallback);
wf_str wf_node_attr_s(const wf_node *n, const char *name);
/* Value id of input i / output i; -1 when absent or beyond the end. */
int32_t wf_node_input(const wf_node *n, int32_t i);
int32_t wf_node_output(const wf_node *n, int32_t i);
const wf_value *wf_graph_value(const wf_graph *g, int32_t id); /* NULL for -1 */
const wf_node *wf_graph_producer(const wf_graph *g, int32_t value);
int32_t wf_graph_find(const wf_graph *g, wf_str name); /* value id of a port by name; -1 */
/* Elements of a value as an expression; NONE when a dim is not known. */
wf_expr wf_value_count(wf_graph *g, const wf_value *v);

/* ---- passes ------------------------------------------------------------------------------ */

/* Computes one node whose inputs are all constants; results go to outputs[i] with memory of
 * `arena`. The graph folds integers and small floats itself and asks this for the rest.
 * UNSUPPORTED leaves the node as it is. */
typedef weft_status (*wf_fold_fn)(void *user, const wf_node *node, const wf_tensor *const *inputs,
                                  wf_arena *arena, wf_tensor **outputs, weft_error *err);

/* Which values are a decoder's ports; names as in the package. Empty names: absent. */
typedef struct wf_state_ports {
  wf_str past_key, past_value, present_key, present_value;
} wf_state_ports;

/* A state of a fixed size that a run replaces as a whole: a convolution's last inputs, a recurrent
 * sum. Zeros before the first token. */
typedef struct wf_carried_ports {
  wf_str past, present;
} wf_carried_ports;

/* An input that every run gives the same number. */
typedef struct wf_fixed_port {
  wf_str name;
  int64_t number;
} wf_fixed_port;

typedef struct wf_ports {
  wf_str input_ids, inputs_embeds, attention_mask, position_ids, logits;
  size_t n_states;
  const wf_state_ports *states; /* by layer */
  size_t n_carried;
  const wf_carried_ports *carried;
  size_t n_fixed;
  const wf_fixed_port *fixed;
  wf_str use_cache; /* a merged decoder's choice of branch: whether a past is given */
  /* The half of a pair that takes what the other one left behind, a token at a time. */
  bool is_later_half;
} wf_ports;

typedef struct wf_pass_options {
  wf_fold_fn fold; /* may be NULL */
  void *fold_user;
  size_t max_fold_bytes; /* 0: 16 MiB; larger results are not folded */
  const wf_ports *ports; /* needed by the attention fusion; NULL: none is made */
  /* Where the ports name no state: attention over the run's own tokens becomes WEFT_ATTENTION with
   * a state of its own (inputs 6, 7 and outputs 1, 2 absent), which only the packed form can run.
   */
  bool makes_states;
} wf_pass_options;

/* All simplifications and fusions, to a fixed point. */
weft_status wf_graph_optimize(wf_graph *g, const wf_pass_options *o, weft_error *err) WF_NODISCARD;
/* Gives an input one number for good: it becomes a constant of its type, of shape [] or [1] as
 * declared (dims that are no number count as 1), and leaves the list of inputs. No such input: no
 * change. Errors: UNSUPPORTED (more than one element, or a type that holds no integers). */
weft_status wf_graph_fix_input(wf_graph *g, wf_str name, int64_t number,
                               weft_error *err) WF_NODISCARD;
/* Replaces a symbol in every shape and re-infers. */
weft_status wf_graph_bind(wf_graph *g, wf_str symbol, wf_expr by, weft_error *err) WF_NODISCARD;

/* The packed form: one axis of all new tokens of all rows. */
typedef struct wf_packed_state {
  int32_t n_kv_heads, head_dim, head_dim_v;
  wf_dtype dtype; /* of the graph's own state tensors */
  int32_t window; /* 0: sees everything */
} wf_packed_state;

typedef struct wf_packed {
  bool is_packed;
  char why[256];         /* when not: which node stands in the way */
  wf_expr tokens;        /* symbol: number of new tokens in the run */
  wf_expr selected;      /* symbol: rows of logits asked for */
  int32_t input_ids;     /* value [1, tokens] int64 (or int32: see its dtype), -1 */
  int32_t inputs_embeds; /* value [1, tokens, hidden], -1 */
  int32_t positions; /* value [1, tokens], int64: absolute position of each token; -1: not needed */
  int32_t select;    /* value [selected] int64: indices into tokens */
  int32_t logits;    /* value [1, selected, vocab] */
  size_t n_states;
  const wf_packed_state *states; /* by layer, in the graph's arena */
} wf_packed;

/* Proves that the graph is row-independent and token-wise and rewrites it to the packed form. When
 * it can't be proven the graph is left as it was, is_packed is false and `why` says why; that is
 * not an error. Call after wf_graph_optimize. */
weft_status wf_graph_pack(wf_graph *g, const wf_ports *ports, wf_packed *result,
                          weft_error *err) WF_NODISCARD;

/* ---- memory plan ------------------------------------------------------------------------- */

typedef struct wf_memory_plan {
  size_t total_bytes;
  size_t n;              /* number of values of the graph */
  const size_t *offsets; /* [n] by value id; SIZE_MAX: not in the plan (ports, constants, dead) */
  const size_t *n_bytes; /* [n] */
} wf_memory_plan;

/* Places every value made by a node (graph outputs included) so that buffers of dead values are
 * used again; offsets are multiples of `align`. `alias(user, node, output)` may name the input
 * index whose buffer the output shares (reshapes, in-place), or -1; NULL: none. Memory in `arena`.
 */
weft_status wf_plan_memory(const wf_graph *g, const wf_binding *bindings, size_t n_bindings,
                           size_t align,
                           int32_t (*alias)(void *user, const wf_node *node, int32_t output),
                           void *user, wf_arena *arena, wf_memory_plan *result,
                           weft_error *err) WF_NODISCARD;

/* ---- looking at it ----------------------------------------------------------------------- */

void wf_graph_print(const wf_graph *g, wf_buf *b);     /* one line a node, with shapes */
void wf_graph_print_dot(const wf_graph *g, wf_buf *b); /* Graphviz */
/* Live nodes per operator, subgraphs not counted: counts[op]. */
void wf_graph_count(const wf_graph *g, size_t counts[WF_OP_COUNT]);

#endif
