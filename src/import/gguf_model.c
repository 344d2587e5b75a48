/* SPDX-License-Identifier: Apache-2.0 */
#include "import/gguf_model.h"

#include <math.h>

typedef struct arch_row {
  const char *name, *hf_type, *hf_class;
  wf_gguf_arch arch;
} arch_row;

static const arch_row arch_rows[] = {
    {"llama", "llama", "LlamaForCausalLM", WF_GGUF_LLAMA},
    {"qwen2", "qwen2", "Qwen2ForCausalLM", WF_GGUF_QWEN2},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", WF_GGUF_QWEN3},
    {"gemma3", "gemma3_text", "Gemma3ForCausalLM", WF_GGUF_GEMMA3},
    {"phi3", "phi3", "Phi3ForCausalLM", WF_GGUF_PHI3},
};

/* Longest context whose rotary tables are written: past it a hostile number would fill the disk. */
#define MAX_CONTEXT (1u << 20)
#define MAX_TABLE (1u << 28)

typedef struct key_reader {
  const wf_gguf *file;
  const char *arch;
  weft_error *err;
  char key[128];
} key_reader;

static const char *key_of(key_reader *r, const char *tail) {
  const size_t n_arch = strlen(r->arch), n_tail = strlen(tail);
  if (n_arch + n_tail + 2 > sizeof r->key) return "";
  memcpy(r->key, r->arch, n_arch);
  r->key[n_arch] = '.';
  memcpy(r->key + n_arch + 1, tail, n_tail + 1);
  return r->key;
}

/* A count between 1 and max; `fallback` when the key is absent, 0 meaning that it must be there. */
static weft_status read_count(key_reader *r, const char *tail, uint64_t fallback, uint64_t max,
                              size_t *result) {
  uint64_t v = fallback;
  bool found;
  WF_RETURN_IF_ERROR(wf_gguf_u64(r->file, key_of(r, tail), &v, &found, r->err));
  if (!found && fallback == 0) {
    return wf_fail(r->err, WEFT_PARSE, "convert the model again with a current converter",
                   "GGUF file '%s' lacks '%s'", r->file->map.path, r->key);
  }
  if (v == 0 || v > max) {
    return wf_fail(r->err, WEFT_PARSE, "download or convert the file again",
                   "'%s' of GGUF file '%s' is %llu, outside 1 to %llu", r->key, r->file->map.path,
                   (unsigned long long)v, (unsigned long long)max);
  }
  *result = (size_t)v;
  return WEFT_OK;
}

static weft_status read_real(key_reader *r, const char *tail, double fallback, double min,
                             double max, double *result) {
  bool found;
  *result = fallback;
  WF_RETURN_IF_ERROR(wf_gguf_f64(r->file, key_of(r, tail), result, &found, r->err));
  if (*result < min || *result > max) {
    return wf_fail(r->err, WEFT_PARSE, "download or convert the file again",
                   "'%s' of GGUF file '%s' is out of bounds", r->key, r->file->map.path);
  }
  return WEFT_OK;
}

/* Numbers that change the computation in a way no imported architecture has. */
static weft_status refuse_keys(key_reader *r) {
  static const char *const zero_keys[] = {"attn_logit_softcapping", "final_logit_softcapping",
                                          "expert_count",           "logit_scale",
                                          "residual_scale",         "embedding_scale"};
  for (size_t i = 0; i < sizeof zero_keys / sizeof *zero_keys; i++) {
    double v = 0;
    WF_RETURN_IF_ERROR(read_real(r, zero_keys[i], 0, -INFINITY, INFINITY, &v));
    if (v != 0) {
      return wf_fail(r->err, WEFT_UNSUPPORTED, "use a model without it",
                     "GGUF file '%s' sets '%s', which weft does not import", r->file->map.path,
                     r->key);
    }
  }
  return WEFT_OK;
}

static weft_status read_scaling(key_reader *r, wf_gguf_model *m) {
  wf_str type = {0};
  bool found;
  double factor, old;
  WF_RETURN_IF_ERROR(
      wf_gguf_string(r->file, key_of(r, "rope.scaling.type"), &type, &found, r->err));
  WF_RETURN_IF_ERROR(read_real(r, "rope.scale_linear", 0, 0, 1e6, &old));
  WF_RETURN_IF_ERROR(read_real(r, "rope.scaling.factor", old, 0, 1e6, &factor));
  WF_RETURN_IF_ERROR(
      read_real(r, "rope.scaling.attn_factor", 1, 1e-6, 1e6, &m->rope_attention_factor));
  WF_RETURN_IF_ERROR(
      read_real(r, "rope.scaling.yarn_beta_fast", 32, 1e-6, 1e6, &m->yarn_beta_fast));
  WF_RETURN_IF_ERROR(read_real(r, "rope.scaling.yarn_beta_slow", 1, 1e-6, 1e6, &m->yarn_beta_slow));
  WF_RETURN_IF_ERROR(read_count(r, "rope.scaling.original_context_length", m->context, MAX_CONTEXT,
                                &m->rope_original_context));
  m->rope_factor = factor == 0 ? 1 : factor;
  m->scaling = WF_ROPE_PLAIN;
  if (!found || wf_str_is(type, "none") || wf_str_is(type, "")) {
    /* Files older than the type key meant linear by the factor alone. */
    if (!found && m->rope_factor != 1) m->scaling = WF_ROPE_LINEAR;
  } else if (wf_str_is(type, "linear")) {
    m->scaling = WF_ROPE_LINEAR;
  } else if (wf_str_is(type, "yarn")) {
    m->scaling = WF_ROPE_YARN;
  } else if (wf_str_is(type, "longrope")) {
    m->scaling = WF_ROPE_LONG;
  } else {
    return wf_fail(r->err, WEFT_UNSUPPORTED, "use a model with linear, yarn or longrope scaling",
                   "GGUF file '%s' scales its rotary embedding by '%.*s'", r->file->map.path,
                   (int)(type.n < 64 ? type.n : 64), type.at);
  }
  if (wf_gguf_find_tensor(r->file, "rope_factors_long.weight")) m->scaling = WF_ROPE_LONG;
  return WEFT_OK;
}

static weft_status read_gemma(key_reader *r, wf_gguf_model *m) {
  size_t pattern;
  WF_RETURN_IF_ERROR(read_count(r, "attention.sliding_window_pattern", 6, 1024, &pattern));
  WF_RETURN_IF_ERROR(read_real(r, "rope.freq_base_swa", 10000, 1, 1e12, &m->rope_base_local));
  m->window_pattern = pattern;
  m->is_gemma = true;
  m->has_qk_norm = true;
  m->embedding_scale = sqrt((double)m->hidden);
  /* The 27B model alone scales by its width a head instead of the head's size. */
  if (m->n_layers == 62) m->attention_scale = 1 / sqrt((double)m->hidden / (double)m->n_heads);
  return WEFT_OK;
}

static weft_status read_sizes(key_reader *r, wf_gguf_model *m) {
  uint64_t window = 0;
  size_t value_dim;
  bool found;
  const wf_gguf_tensor *embedding = wf_gguf_find_tensor(r->file, "token_embd.weight");
  if (!embedding || embedding->rank != 2) {
    return wf_fail(r->err, WEFT_UNSUPPORTED, "give a file with the model's weights in it",
                   "GGUF file '%s' has no token_embd.weight: it holds no decoder model",
                   r->file->map.path);
  }
  WF_RETURN_IF_ERROR(read_count(r, "block_count", 0, 1024, &m->n_layers));
  WF_RETURN_IF_ERROR(read_count(r, "embedding_length", 0, 1u << 17, &m->hidden));
  WF_RETURN_IF_ERROR(read_count(r, "feed_forward_length", 0, 1u << 20, &m->ffn));
  WF_RETURN_IF_ERROR(read_count(r, "attention.head_count", 0, 1024, &m->n_heads));
  WF_RETURN_IF_ERROR(
      read_count(r, "attention.head_count_kv", m->n_heads, m->n_heads, &m->n_kv_heads));
  WF_RETURN_IF_ERROR(read_count(r, "context_length", 0, MAX_CONTEXT, &m->context));
  WF_RETURN_IF_ERROR(read_count(r, "attention.key_length",
                                m->hidden / m->n_heads ? m->hidden / m->n_heads : 1, 4096,
                                &m->head_dim));
  WF_RETURN_IF_ERROR(read_count(r, "attention.value_length", m->head_dim, 4096, &value_dim));
  WF_RETURN_IF_ERROR(
      read_count(r, "rope.dimension_count", m->head_dim, m->head_dim, &m->rotary_dim));
  WF_RETURN_IF_ERROR(read_real(r, "attention.layer_norm_rms_epsilon", 1e-5, 0, 1, &m->eps));
  WF_RETURN_IF_ERROR(read_real(r, "rope.freq_base", 10000, 1, 1e12, &m->rope_base));
  WF_RETURN_IF_ERROR(
      wf_gguf_u64(r->file, key_of(r, "attention.sliding_window"), &window, &found, r->err));
  m->window = window < m->context ? (size_t)window : 0;
  m->vocab = (size_t)embedding->dims[1];
  if (m->context * (m->rotary_dim / 2) > MAX_TABLE) {
    return wf_fail(r->err, WEFT_LIMIT, "download or convert the file again",
                   "GGUF file '%s' asks for rotary tables of %zu by %zu numbers", r->file->map.path,
                   m->context, m->rotary_dim / 2);
  }
  if (value_dim != m->head_dim || m->n_heads % m->n_kv_heads != 0 || m->rotary_dim % 2 != 0) {
    return wf_fail(r->err, WEFT_UNSUPPORTED, "use a model with heads of one even size",
                   "GGUF file '%s': key size %zu, value size %zu, %zu heads over %zu, rotary %zu",
                   r->file->map.path, m->head_dim, value_dim, m->n_heads, m->n_kv_heads,
                   m->rotary_dim);
  }
  return WEFT_OK;
}

weft_status wf_gguf_model_read(const wf_gguf *file, wf_gguf_model *m, weft_error *err) {
  wf_str name = {0};
  bool found;
  const arch_row *row = NULL;
  *m = (wf_gguf_model){.file = file, .embedding_scale = 1};
  WF_RETURN_IF_ERROR(wf_gguf_string(file, "general.architecture", &name, &found, err));
  for (size_t i = 0; i < sizeof arch_rows / sizeof *arch_rows; i++) {
    if (wf_str_is(name, arch_rows[i].name)) row = &arch_rows[i];
  }
  if (!row) {
    return wf_fail(err, WEFT_UNSUPPORTED,
                   "weft imports the architectures llama, qwen2, qwen3, gemma3 and phi3",
                   "GGUF file '%s' has the architecture '%.*s'", file->map.path,
                   (int)(name.n < 64 ? name.n : 64), found ? name.at : "");
  }
  m->arch = row->arch;
  m->hf_type = row->hf_type;
  m->hf_class = row->hf_class;
  key_reader r = {.file = file, .arch = row->name, .err = err};
  WF_RETURN_IF_ERROR(read_sizes(&r, m));
  WF_RETURN_IF_ERROR(refuse_keys(&r));
  WF_RETURN_IF_ERROR(read_scaling(&r, m));
  m->attention_scale = 1 / sqrt((double)m->head_dim);
  m->is_tied = !wf_gguf_find_tensor(file, "output.weight");
  m->is_rope_interleaved = m->arch == WF_GGUF_LLAMA;
  m->has_qk_norm = m->arch == WF_GGUF_QWEN3;
  m->has_fused_projections = m->arch == WF_GGUF_PHI3;
  if (m->arch == WF_GGUF_GEMMA3) return read_gemma(&r, m);
  return WEFT_OK;
}

bool wf_gguf_model_is_windowed(const wf_gguf_model *m, size_t layer) {
  if (m->window == 0) return false;
  return m->window_pattern == 0 || layer % m->window_pattern != m->window_pattern - 1;
}
