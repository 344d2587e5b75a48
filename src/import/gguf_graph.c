/* SPDX-License-Identifier: Apache-2.0 */
/* One decoder layer:
 *
 *   h -> [skip] norm -> Q, K, V -> (norm of each Q and K head) -> GroupQueryAttention -> O
 *     -> [skip] norm -> gate, up -> act(gate) * up -> down
 *
 * A skip norm adds the block's output to the running sum h and normalises the new h. gemma3 also
 * normalises each block's output before it is added. */
#include "import/gguf_graph.h"

#include <math.h>

#include "import/ggml_blocks.h"
#include "import/rope_tables.h"

#define TRY_NAME(lhs, call)                \
  do {                                     \
    (lhs) = (call);                        \
    if (!(lhs)) return WEFT_OUT_OF_MEMORY; \
  } while (0)

static const char simplified[] = "SimplifiedLayerNormalization";
static const char skip_simplified[] = "SkipSimplifiedLayerNormalization";

/* The value that a layer hands on: the running sum and what is still to be added to it. */
typedef struct residual {
  const char *sum, *pending; /* pending NULL: nothing yet (the first norm) */
} residual;

typedef struct rope_names {
  const char *cos, *sin;
} rope_names;

typedef struct graph {
  wf_gguf_build *b;
  rope_names rope, rope_local;
  const char *seqlens_k, *total;
} graph;

/* name = the GGUF tensor's, to = the initializer's. */
static weft_status norm_weight(wf_gguf_build *b, const char *name, size_t k, const char *to) {
  const wf_gguf_tensor *t;
  WF_RETURN_IF_ERROR(wf_gguf_take(b, name, 0, k, &t));
  return wf_gguf_vector(b, &(wf_gguf_rows){.tensor = t, .n = k}, to);
}

static const char *plain_norm(wf_gguf_build *b, const char *name, const char *x,
                              const char *weight) {
  const wf_onnxw_attr attrs[] = {
      WF_ONNXW_ATTR_I("axis", -1),
      WF_ONNXW_ATTR_F("epsilon", (float)b->m->eps),
      WF_ONNXW_ATTR_I("stash_type", 1),
  };
  return wf_gguf_node(b, simplified, "", name, (const char *const[]){x, weight}, 2, attrs, 3);
}

/* The norm before a block: adds what is pending to the sum first. `place` is "layers.0.input" for
 * the builder's names. Updates r; the normalised value goes to *out. */
static weft_status enter_norm(wf_gguf_build *b, const char *tensor, const char *place, bool is_last,
                              residual *r, const char **out) {
  const char *weight, *name, *sum;
  const wf_onnxw_attr eps = WF_ONNXW_ATTR_F("epsilon", (float)b->m->eps);
  TRY_NAME(weight, wf_gguf_name(b, "model.%s_layernorm.weight", place));
  WF_RETURN_IF_ERROR(norm_weight(b, tensor, b->m->hidden, weight));
  if (!r->pending) {
    TRY_NAME(name, wf_gguf_name(b, "/model/%s_layernorm/LayerNorm", place));
    TRY_NAME(*out, plain_norm(b, name, r->sum, weight));
    return WEFT_OK;
  }
  TRY_NAME(name, wf_gguf_name(b, "/model/%s_layernorm/SkipLayerNorm", place));
  TRY_NAME(*out, wf_gguf_name(b, "/model/%s_layernorm/output_0", place));
  TRY_NAME(sum, wf_gguf_name(b, "/model/%s_layernorm/output_3", place));
  wf_onnxw_node(b->g, skip_simplified, "com.microsoft", name,
                (const char *const[]){r->sum, r->pending, weight}, 3,
                (const char *const[]){*out, "", "", sum}, is_last ? 1 : 4, &eps, 1);
  r->sum = sum;
  r->pending = NULL;
  return WEFT_OK;
}

/* gemma3's norm of a block's output. */
static weft_status leave_norm(wf_gguf_build *b, const char *tensor, const char *place,
                              const char **value) {
  const char *weight, *name;
  TRY_NAME(weight, wf_gguf_name(b, "model.%s_layernorm.weight", place));
  WF_RETURN_IF_ERROR(norm_weight(b, tensor, b->m->hidden, weight));
  TRY_NAME(name, wf_gguf_name(b, "/model/%s_layernorm/LayerNorm", place));
  TRY_NAME(*value, plain_norm(b, name, *value, weight));
  return WEFT_OK;
}

/* One projection of layer i with its bias, if the file has one: rows [first, first + n) of the
 * tensor "blk.<i>.<part>", which has `of` rows in all. */
static weft_status project(wf_gguf_build *b, size_t i, const char *part, const char *label,
                           wf_gguf_rows rows, size_t of, size_t k, const char *x,
                           const char **out) {
  const char *name, *base, *bias;
  *out = NULL;
  TRY_NAME(name, wf_gguf_name(b, "blk.%zu.%s.weight", i, part));
  WF_RETURN_IF_ERROR(wf_gguf_take(b, name, of, k, &rows.tensor));
  TRY_NAME(base, wf_gguf_name(b, "/model/layers.%zu/%s/MatMul", i, label));
  WF_RETURN_IF_ERROR(wf_gguf_linear(b, &rows, base, x, out));
  TRY_NAME(name, wf_gguf_name(b, "blk.%zu.%s.bias", i, part));
  if (!wf_gguf_find_tensor(b->m->file, name)) return WEFT_OK;
  WF_RETURN_IF_ERROR(wf_gguf_take(b, name, 0, of, &rows.tensor));
  TRY_NAME(bias, wf_gguf_name(b, "model.layers.%zu.%s.Add.bias", i, label));
  WF_RETURN_IF_ERROR(wf_gguf_vector(b, &rows, bias));
  TRY_NAME(base, wf_gguf_name(b, "/model/layers.%zu/%s/Add", i, label));
  TRY_NAME(*out, wf_gguf_node(b, "Add", "", base, (const char *const[]){*out, bias}, 2, NULL, 0));
  return WEFT_OK;
}

/* Norm of every head: [b, s, n * d] -> [b, s * n, d] -> norm -> back. */
static weft_status head_norm(wf_gguf_build *b, size_t i, const char *label, size_t n_heads,
                             const char **value) {
  const size_t d = b->m->head_dim;
  const int64_t heads[3] = {0, -1, (int64_t)d}, whole[3] = {0, -1, (int64_t)(n_heads * d)};
  const char *name, *weight, *dims;
  TRY_NAME(weight, wf_gguf_name(b, "model.layers.%zu.attn.%s_norm.layernorm.weight", i, label));
  TRY_NAME(name, wf_gguf_name(b, "blk.%zu.attn_%s_norm.weight", i, label));
  WF_RETURN_IF_ERROR(norm_weight(b, name, d, weight));
  TRY_NAME(dims, wf_gguf_ints(b, heads, 3, false));
  TRY_NAME(name, wf_gguf_name(b, "/model/layers.%zu/attn/%s_norm/Reshape_1", i, label));
  TRY_NAME(*value,
           wf_gguf_node(b, "Reshape", "", name, (const char *const[]){*value, dims}, 2, NULL, 0));
  TRY_NAME(name, wf_gguf_name(b, "/model/layers.%zu/attn/%s_norm/%s", i, label, simplified));
  TRY_NAME(*value, plain_norm(b, name, *value, weight));
  TRY_NAME(dims, wf_gguf_ints(b, whole, 3, false));
  TRY_NAME(name, wf_gguf_name(b, "/model/layers.%zu/attn/%s_norm/Reshape_2", i, label));
  TRY_NAME(*value,
           wf_gguf_node(b, "Reshape", "", name, (const char *const[]){*value, dims}, 2, NULL, 0));
  return WEFT_OK;
}

static weft_status query_key_value(graph *gr, size_t i, const char *x, const char **q,
                                   const char **k, const char **v) {
  wf_gguf_build *b = gr->b;
  const wf_gguf_model *m = b->m;
  const size_t nq = m->n_heads * m->head_dim, nkv = m->n_kv_heads * m->head_dim;
  if (m->has_fused_projections) {
    const size_t of = nq + 2 * nkv;
    WF_RETURN_IF_ERROR(
        project(b, i, "attn_qkv", "attn/q_proj", (wf_gguf_rows){.n = nq}, of, m->hidden, x, q));
    WF_RETURN_IF_ERROR(project(b, i, "attn_qkv", "attn/k_proj",
                               (wf_gguf_rows){.first = nq, .n = nkv}, of, m->hidden, x, k));
    WF_RETURN_IF_ERROR(project(b, i, "attn_qkv", "attn/v_proj",
                               (wf_gguf_rows){.first = nq + nkv, .n = nkv}, of, m->hidden, x, v));
    return WEFT_OK;
  }
  const size_t head = m->is_rope_interleaved ? m->head_dim : 0;
  const wf_gguf_rows q_rows = {.n = nq, .head_dim = head, .rotary_dim = m->rotary_dim};
  const wf_gguf_rows k_rows = {.n = nkv, .head_dim = head, .rotary_dim = m->rotary_dim};
  WF_RETURN_IF_ERROR(project(b, i, "attn_q", "attn/q_proj", q_rows, nq, m->hidden, x, q));
  WF_RETURN_IF_ERROR(project(b, i, "attn_k", "attn/k_proj", k_rows, nkv, m->hidden, x, k));
  WF_RETURN_IF_ERROR(
      project(b, i, "attn_v", "attn/v_proj", (wf_gguf_rows){.n = nkv}, nkv, m->hidden, x, v));
  if (!m->has_qk_norm) return WEFT_OK;
  WF_RETURN_IF_ERROR(head_norm(b, i, "q", m->n_heads, q));
  return head_norm(b, i, "k", m->n_kv_heads, k);
}

static weft_status attention(graph *gr, size_t i, const char *x, const char **out) {
  wf_gguf_build *b = gr->b;
  const wf_gguf_model *m = b->m;
  const char *q, *k, *v, *past_k, *past_v, *present_k, *present_v, *name, *mixed;
  const bool is_windowed = wf_gguf_model_is_windowed(m, i);
  const rope_names *rope = is_windowed && m->is_gemma ? &gr->rope_local : &gr->rope;
  WF_RETURN_IF_ERROR(query_key_value(gr, i, x, &q, &k, &v));
  TRY_NAME(past_k, wf_gguf_name(b, "past_key_values.%zu.key", i));
  TRY_NAME(past_v, wf_gguf_name(b, "past_key_values.%zu.value", i));
  TRY_NAME(present_k, wf_gguf_name(b, "present.%zu.key", i));
  TRY_NAME(present_v, wf_gguf_name(b, "present.%zu.value", i));
  TRY_NAME(name, wf_gguf_name(b, "/model/layers.%zu/attn/GroupQueryAttention", i));
  TRY_NAME(mixed, wf_gguf_name(b, "%s/output_0", name));
  const wf_onnxw_attr attrs[] = {
      WF_ONNXW_ATTR_I("num_heads", (int64_t)m->n_heads),
      WF_ONNXW_ATTR_I("kv_num_heads", (int64_t)m->n_kv_heads),
      WF_ONNXW_ATTR_F("scale", (float)m->attention_scale),
      WF_ONNXW_ATTR_I("local_window_size", is_windowed ? (int64_t)m->window : -1),
      WF_ONNXW_ATTR_F("softcap", 0),
      WF_ONNXW_ATTR_I("do_rotary", 1),
      WF_ONNXW_ATTR_I("rotary_interleaved", 0),
  };
  wf_onnxw_node(b->g, "GroupQueryAttention", "com.microsoft", name,
                (const char *const[]){q, k, v, past_k, past_v, gr->seqlens_k, gr->total, rope->cos,
                                      rope->sin},
                9, (const char *const[]){mixed, present_k, present_v}, 3, attrs, 7);
  return project(b, i, "attn_output", "attn/o_proj", (wf_gguf_rows){.n = m->hidden}, m->hidden,
                 m->n_heads * m->head_dim, mixed, out);
}

static weft_status activation(wf_gguf_build *b, size_t i, const char **gate) {
  const char *name, *sigmoid;
  if (b->m->is_gemma) {
    const wf_onnxw_attr how = WF_ONNXW_ATTR_S("approximate", "tanh");
    TRY_NAME(name, wf_gguf_name(b, "/model/layers.%zu/mlp/act_fn/Gelu", i));
    TRY_NAME(*gate, wf_gguf_node(b, "Gelu", "", name, gate, 1, &how, 1));
    return WEFT_OK;
  }
  TRY_NAME(name, wf_gguf_name(b, "/model/layers.%zu/mlp/act_fn/Sigmoid", i));
  TRY_NAME(sigmoid, wf_gguf_node(b, "Sigmoid", "", name, gate, 1, NULL, 0));
  TRY_NAME(name, wf_gguf_name(b, "/model/layers.%zu/mlp/act_fn/Mul", i));
  TRY_NAME(*gate,
           wf_gguf_node(b, "Mul", "", name, (const char *const[]){*gate, sigmoid}, 2, NULL, 0));
  return WEFT_OK;
}

static weft_status mlp(graph *gr, size_t i, const char *x, const char **out) {
  wf_gguf_build *b = gr->b;
  const wf_gguf_model *m = b->m;
  const char *gate, *up, *name, *product;
  if (m->has_fused_projections) {
    WF_RETURN_IF_ERROR(project(b, i, "ffn_up", "mlp/gate_proj", (wf_gguf_rows){.n = m->ffn},
                               2 * m->ffn, m->hidden, x, &gate));
    WF_RETURN_IF_ERROR(project(b, i, "ffn_up", "mlp/up_proj",
                               (wf_gguf_rows){.first = m->ffn, .n = m->ffn}, 2 * m->ffn, m->hidden,
                               x, &up));
  } else {
    WF_RETURN_IF_ERROR(project(b, i, "ffn_gate", "mlp/gate_proj", (wf_gguf_rows){.n = m->ffn},
                               m->ffn, m->hidden, x, &gate));
    WF_RETURN_IF_ERROR(project(b, i, "ffn_up", "mlp/up_proj", (wf_gguf_rows){.n = m->ffn}, m->ffn,
                               m->hidden, x, &up));
  }
  WF_RETURN_IF_ERROR(activation(b, i, &gate));
  TRY_NAME(name, wf_gguf_name(b, "/model/layers.%zu/mlp/Mul", i));
  TRY_NAME(product, wf_gguf_node(b, "Mul", "", name, (const char *const[]){gate, up}, 2, NULL, 0));
  return project(b, i, "ffn_down", "mlp/down_proj", (wf_gguf_rows){.n = m->hidden}, m->hidden,
                 m->ffn, product, out);
}

static weft_status layer(graph *gr, size_t i, residual *r) {
  wf_gguf_build *b = gr->b;
  const char *tensor, *place, *x;
  TRY_NAME(tensor, wf_gguf_name(b, "blk.%zu.attn_norm.weight", i));
  TRY_NAME(place, wf_gguf_name(b, "layers.%zu.input", i));
  WF_RETURN_IF_ERROR(enter_norm(b, tensor, place, false, r, &x));
  WF_RETURN_IF_ERROR(attention(gr, i, x, &r->pending));
  TRY_NAME(place, wf_gguf_name(b, "layers.%zu.post_attention", i));
  if (b->m->is_gemma) {
    TRY_NAME(tensor, wf_gguf_name(b, "blk.%zu.post_attention_norm.weight", i));
    WF_RETURN_IF_ERROR(leave_norm(b, tensor, place, &r->pending));
    TRY_NAME(place, wf_gguf_name(b, "layers.%zu.pre_feedforward", i));
  }
  TRY_NAME(tensor, wf_gguf_name(b, "blk.%zu.ffn_norm.weight", i));
  WF_RETURN_IF_ERROR(enter_norm(b, tensor, place, false, r, &x));
  WF_RETURN_IF_ERROR(mlp(gr, i, x, &r->pending));
  if (!b->m->is_gemma) return WEFT_OK;
  TRY_NAME(tensor, wf_gguf_name(b, "blk.%zu.post_ffw_norm.weight", i));
  TRY_NAME(place, wf_gguf_name(b, "layers.%zu.post_feedforward", i));
  return leave_norm(b, tensor, place, &r->pending);
}

/* Streams a cosine (phase 0) or sine table [context, dim / 2]. */
static weft_status write_table(wf_gguf_build *b, const char *to, size_t context,
                               const wf_rope_table *t, bool is_sine) {
  weft_status st = WEFT_OK;
  const size_t n = t->dim / 2;
  const double magnitude = wf_rope_magnitude(t);
  const int64_t dims[2] = {(int64_t)context, (int64_t)n};
  double *f = wf_calloc(n, sizeof *f);
  float *row = wf_calloc(n, sizeof *row);
  if (!f || !row) {
    st = wf_fail_memory(b->err, n * sizeof *f, "a rotary table");
    goto out;
  }
  wf_rope_frequencies(t, f);
  WF_TRY(wf_onnxw_tensor_begin(b->w, to, WF_ONNXW_FLOAT, dims, 2, b->err));
  for (size_t p = 0; p < context; p++) {
    for (size_t i = 0; i < n; i++) {
      const double angle = (double)p * f[i];
      row[i] = (float)((is_sine ? sin(angle) : cos(angle)) * magnitude);
    }
    wf_onnxw_data(b->w, row, n * sizeof *row);
  }
out:
  wf_free(f);
  wf_free(row);
  return st;
}

static weft_status write_tables(wf_gguf_build *b, const char *suffix, size_t context,
                                const wf_rope_table *t, rope_names *names) {
  TRY_NAME(names->cos, wf_gguf_name(b, "cos_cache%s", suffix));
  TRY_NAME(names->sin, wf_gguf_name(b, "sin_cache%s", suffix));
  WF_RETURN_IF_ERROR(write_table(b, names->cos, context, t, false));
  return write_table(b, names->sin, context, t, true);
}

static weft_status take_factors(wf_gguf_build *b, const char *name, size_t n, float **factors) {
  const wf_gguf_tensor *t;
  WF_RETURN_IF_ERROR(wf_gguf_take(b, name, 0, n, &t));
  *factors = wf_arena_calloc(b->names, n, sizeof **factors);
  if (!*factors) return wf_fail_memory(b->err, n * sizeof **factors, "rotary factors");
  wf_ggml_row_floats(t->type, t->at, n, *factors);
  for (size_t i = 0; i < n; i++) {
    if (!isfinite((*factors)[i]) || (*factors)[i] <= 0) {
      return wf_fail(b->err, WEFT_PARSE, "download or convert the file again",
                     "tensor '%s' of GGUF file '%s' holds a factor that is not above 0", name,
                     b->m->file->map.path);
    }
  }
  return WEFT_OK;
}

/* longrope has a table for prompts within the original context and one for longer ones; an If over
 * the total length picks, as in the model builder's phi3 graphs. */
static weft_status long_rope(graph *gr, wf_rope_table t) {
  wf_gguf_build *b = gr->b;
  const wf_gguf_model *m = b->m;
  float *shorter, *longer;
  rope_names small, large;
  const int64_t limit = (int64_t)m->rope_original_context;
  const char *bound, *is_long;
  WF_RETURN_IF_ERROR(take_factors(b, "rope_factors_short.weight", t.dim / 2, &shorter));
  WF_RETURN_IF_ERROR(take_factors(b, "rope_factors_long.weight", t.dim / 2, &longer));
  t.freq_factors = longer;
  WF_RETURN_IF_ERROR(write_tables(b, "_large", m->context, &t, &large));
  t.freq_factors = shorter;
  WF_RETURN_IF_ERROR(write_tables(
      b, "_small", m->context < m->rope_original_context ? m->context : m->rope_original_context,
      &t, &small));
  TRY_NAME(bound, wf_gguf_ints(b, &limit, 1, true));
  TRY_NAME(is_long,
           wf_gguf_node(b, "Greater", "", "/model/rope_caches_subgraph/Greater",
                        (const char *const[]){
                            "/model/attn_mask_reformat/attn_mask_subgraph/Gather/output_0", bound},
                        2, NULL, 0));
  wf_onnxw_graph branches[2];
  wf_buf bytes[2] = {{0}, {0}};
  const rope_names *from[2] = {&large, &small};
  static const char *const branch_names[2] = {"large_rope_caches_graph", "small_rope_caches_graph"};
  static const char *const prefix[2] = {"/large", "/small"};
  for (int i = 0; i < 2; i++) {
    static const char *const dims[2] = {"max_sequence_length", "rotary_half"};
    const char *names[4] = {wf_gguf_name(b, "%s/cos_cache", prefix[i]),
                            wf_gguf_name(b, "%s/sin_cache", prefix[i]),
                            wf_gguf_name(b, "%s/cos_cache/Identity", prefix[i]),
                            wf_gguf_name(b, "%s/sin_cache/Identity", prefix[i])};
    if (!names[0] || !names[1] || !names[2] || !names[3]) return WEFT_OUT_OF_MEMORY;
    wf_onnxw_graph_init(&branches[i], branch_names[i]);
    wf_onnxw_node(&branches[i], "Identity", "", names[2], &from[i]->cos, 1, &names[0], 1, NULL, 0);
    wf_onnxw_node(&branches[i], "Identity", "", names[3], &from[i]->sin, 1, &names[1], 1, NULL, 0);
    wf_onnxw_output(&branches[i], names[0], WF_ONNXW_FLOAT, dims, 2);
    wf_onnxw_output(&branches[i], names[1], WF_ONNXW_FLOAT, dims, 2);
    wf_onnxw_graph_bytes(&branches[i], &bytes[i]);
    if (bytes[i].failed) b->g->nodes.failed = true;
    wf_onnxw_graph_deinit(&branches[i]);
  }
  const wf_onnxw_attr attrs[] = {
      WF_ONNXW_ATTR_G("then_branch", ((wf_str){bytes[0].at, bytes[0].n})),
      WF_ONNXW_ATTR_G("else_branch", ((wf_str){bytes[1].at, bytes[1].n})),
  };
  gr->rope = (rope_names){"cos_cache", "sin_cache"};
  wf_onnxw_node(b->g, "If", "", "/model/rope_caches_subgraph/If", &is_long, 1,
                (const char *const[]){gr->rope.cos, gr->rope.sin}, 2, attrs, 2);
  wf_buf_deinit(&bytes[0]);
  wf_buf_deinit(&bytes[1]);
  return WEFT_OK;
}

static weft_status rope(graph *gr) {
  wf_gguf_build *b = gr->b;
  const wf_gguf_model *m = b->m;
  wf_rope_table t = {.dim = m->rotary_dim,
                     .base = m->rope_base,
                     .factor = 1,
                     .beta_fast = m->yarn_beta_fast,
                     .beta_slow = m->yarn_beta_slow,
                     .original_context = m->rope_original_context,
                     .magnitude = m->rope_attention_factor};
  if (m->scaling == WF_ROPE_LONG) return long_rope(gr, t);
  if (m->scaling == WF_ROPE_LINEAR || m->scaling == WF_ROPE_YARN) t.factor = m->rope_factor;
  t.is_yarn = m->scaling == WF_ROPE_YARN;
  if (wf_gguf_find_tensor(m->file, "rope_freqs.weight")) {
    float *factors;
    WF_RETURN_IF_ERROR(take_factors(b, "rope_freqs.weight", t.dim / 2, &factors));
    t.freq_factors = factors;
  }
  WF_RETURN_IF_ERROR(write_tables(b, m->is_gemma ? "_global" : "", m->context, &t, &gr->rope));
  if (!m->is_gemma || m->window == 0) return WEFT_OK;
  /* Scaling is for the layers that see everything. */
  t = (wf_rope_table){
      .dim = m->rotary_dim, .base = m->rope_base_local, .factor = 1, .magnitude = 1};
  return write_tables(b, "_local", m->context, &t, &gr->rope_local);
}

/* seqlens_k = ones of the mask - 1; total = its length. */
static weft_status mask_nodes(graph *gr) {
  wf_gguf_build *b = gr->b;
  static const char place[] = "/model/attn_mask_reformat/attn_mask_subgraph";
  const int64_t one = 1;
  const char *mask = "attention_mask", *ones, *index, *value, *name;
  const wf_onnxw_attr keep = WF_ONNXW_ATTR_I("keepdims", 0);
  const wf_onnxw_attr to = WF_ONNXW_ATTR_I("to", WF_ONNXW_INT32);
  const wf_onnxw_attr axis = WF_ONNXW_ATTR_I("axis", 0);
  TRY_NAME(ones, wf_gguf_ints(b, &one, 1, false));
  TRY_NAME(index, wf_gguf_ints(b, &one, 1, true));
  TRY_NAME(name, wf_gguf_name(b, "%s/ReduceSum", place));
  TRY_NAME(value,
           wf_gguf_node(b, "ReduceSum", "", name, (const char *const[]){mask, ones}, 2, &keep, 1));
  TRY_NAME(name, wf_gguf_name(b, "%s/Sub", place));
  TRY_NAME(value, wf_gguf_node(b, "Sub", "", name, (const char *const[]){value, ones}, 2, NULL, 0));
  TRY_NAME(name, wf_gguf_name(b, "%s/Sub/Cast", place));
  TRY_NAME(gr->seqlens_k, wf_gguf_node(b, "Cast", "", name, &value, 1, &to, 1));
  TRY_NAME(name, wf_gguf_name(b, "%s/Shape", place));
  TRY_NAME(value, wf_gguf_node(b, "Shape", "", name, &mask, 1, NULL, 0));
  TRY_NAME(name, wf_gguf_name(b, "%s/Gather", place));
  TRY_NAME(value,
           wf_gguf_node(b, "Gather", "", name, (const char *const[]){value, index}, 2, &axis, 1));
  TRY_NAME(name, wf_gguf_name(b, "%s/Gather/Cast", place));
  TRY_NAME(gr->total, wf_gguf_node(b, "Cast", "", name, &value, 1, &to, 1));
  return WEFT_OK;
}

static weft_status ports(wf_gguf_build *b) {
  const wf_gguf_model *m = b->m;
  const char *heads, *dim, *vocab, *name;
  TRY_NAME(heads, wf_gguf_name(b, "%zu", m->n_kv_heads));
  TRY_NAME(dim, wf_gguf_name(b, "%zu", m->head_dim));
  TRY_NAME(vocab, wf_gguf_name(b, "%zu", m->vocab));
  wf_onnxw_input(b->g, "input_ids", WF_ONNXW_INT64,
                 (const char *const[]){"batch_size", "sequence_length"}, 2);
  wf_onnxw_input(b->g, "attention_mask", WF_ONNXW_INT64,
                 (const char *const[]){"batch_size", "total_sequence_length"}, 2);
  wf_onnxw_output(b->g, "logits", WF_ONNXW_FLOAT,
                  (const char *const[]){"batch_size", "sequence_length", vocab}, 3);
  for (size_t i = 0; i < 2 * m->n_layers; i++) {
    const char *kind = i % 2 ? "value" : "key";
    TRY_NAME(name, wf_gguf_name(b, "past_key_values.%zu.%s", i / 2, kind));
    wf_onnxw_input(b->g, name, WF_ONNXW_FLOAT,
                   (const char *const[]){"batch_size", heads, "past_sequence_length", dim}, 4);
    TRY_NAME(name, wf_gguf_name(b, "present.%zu.%s", i / 2, kind));
    wf_onnxw_output(b->g, name, WF_ONNXW_FLOAT,
                    (const char *const[]){"batch_size", heads, "total_sequence_length", dim}, 4);
  }
  return WEFT_OK;
}

static weft_status embedding(wf_gguf_build *b, const wf_gguf_tensor *t, const char **out) {
  WF_RETURN_IF_ERROR(wf_gguf_embedding(b, t, "input_ids", b->m->is_tied, out));
  if (b->m->embedding_scale == 1) return WEFT_OK;
  const float scale = (float)b->m->embedding_scale;
  static const char name[] = "/model/embed_tokens/scale";
  wf_onnxw_inline(b->g, name, WF_ONNXW_FLOAT, NULL, 0, &scale, sizeof scale);
  TRY_NAME(*out, wf_gguf_node(b, "Mul", "", "/model/embed_tokens/Mul",
                              (const char *const[]){*out, name}, 2, NULL, 0));
  return WEFT_OK;
}

weft_status wf_gguf_graph_write(wf_gguf_build *b) {
  const wf_gguf_model *m = b->m;
  graph gr = {.b = b};
  residual r = {0};
  wf_gguf_rows head = {.n = m->vocab};
  const wf_gguf_tensor *table;
  const char *x;
  static const char head_base[] = "/lm_head/MatMul";
  WF_RETURN_IF_ERROR(ports(b));
  WF_RETURN_IF_ERROR(mask_nodes(&gr));
  WF_RETURN_IF_ERROR(rope(&gr));
  WF_RETURN_IF_ERROR(wf_gguf_take(b, "token_embd.weight", m->vocab, m->hidden, &table));
  head.tensor = table;
  if (!m->is_tied) {
    WF_RETURN_IF_ERROR(wf_gguf_take(b, "output.weight", m->vocab, m->hidden, &head.tensor));
  }
  if (m->is_tied) WF_RETURN_IF_ERROR(wf_gguf_head_weights(b, &head, head_base));
  WF_RETURN_IF_ERROR(embedding(b, table, &r.sum));
  for (size_t i = 0; i < m->n_layers; i++) WF_RETURN_IF_ERROR(layer(&gr, i, &r));
  TRY_NAME(x, wf_gguf_name(b, "layers.%zu.final_norm", m->n_layers));
  WF_RETURN_IF_ERROR(enter_norm(b, "output_norm.weight", x, true, &r, &x));
  if (!m->is_tied) WF_RETURN_IF_ERROR(wf_gguf_head_weights(b, &head, head_base));
  WF_RETURN_IF_ERROR(wf_gguf_head_nodes(b, &head, head_base, x, "logits"));
  return wf_gguf_check_used(b);
}
