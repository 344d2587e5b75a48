/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder that a GGUF file's metadata describes, checked: the only place that knows the
 * metadata keys of each architecture and llama.cpp's defaults for missing ones. */
#ifndef WF_GGUF_MODEL_H
#define WF_GGUF_MODEL_H

#include "import/gguf.h"

typedef enum wf_gguf_arch {
  WF_GGUF_LLAMA,
  WF_GGUF_QWEN2,
  WF_GGUF_QWEN3,
  WF_GGUF_GEMMA3,
  WF_GGUF_PHI3
} wf_gguf_arch;

typedef enum wf_rope_scaling {
  WF_ROPE_PLAIN,
  WF_ROPE_LINEAR,
  WF_ROPE_YARN,
  WF_ROPE_LONG
} wf_rope_scaling;

typedef struct wf_gguf_model {
  const wf_gguf *file; /* borrowed */
  wf_gguf_arch arch;
  const char *hf_type, *hf_class; /* "llama", "LlamaForCausalLM" */
  size_t n_layers, hidden, ffn, n_heads, n_kv_heads, head_dim, rotary_dim, vocab, context;
  double eps;
  double attention_scale; /* multiplies q . k */
  double embedding_scale; /* 1 for most */
  size_t window;          /* 0: none */
  size_t window_pattern;  /* every n-th layer is full, the others see the window; 0: all see it */
  wf_rope_scaling scaling;
  double rope_base, rope_base_local; /* local: windowed layers of gemma3 */
  double rope_factor;                /* linear and yarn: context is stretched by this */
  size_t rope_original_context;
  double rope_attention_factor; /* multiplies cos and sin (longrope; yarn's own comes on top) */
  double yarn_beta_fast, yarn_beta_slow;
  bool is_rope_interleaved; /* rows of Q and K are in pairs and must be un-permuted */
  bool has_qk_norm, is_gemma, has_fused_projections, is_tied;
} wf_gguf_model;

/* Fills *m. Errors: UNSUPPORTED (architecture, rope scaling, soft caps, experts: named), PARSE
 * (a value missing or out of bounds). */
weft_status wf_gguf_model_read(const wf_gguf *file, wf_gguf_model *m, weft_error *err) WF_NODISCARD;

/* True when layer i attends to a window only. */
bool wf_gguf_model_is_windowed(const wf_gguf_model *m, size_t layer);

#endif
