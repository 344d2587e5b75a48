/* SPDX-License-Identifier: Apache-2.0 */
/* The part of metadata.h that stands beside the workflow: model facts, tokenizer, generation,
 * profiles, preprocessing, LoRA, speculation. */
#ifndef WF_PACKAGE_METADATA_SECTIONS_H
#define WF_PACKAGE_METADATA_SECTIONS_H

#include "package/metadata_workflow.h"

typedef struct wf_meta_key_lengths {
  wf_meta_head head;
  int scalar_broadcast; /* -1: absent; unit_batch */
} wf_meta_key_lengths;
typedef struct wf_meta_attention {
  wf_meta_head head;
  const char *type, *fallback_behavior;
  int64_t num_kv_heads, num_attention_heads, head_dim, sliding_window, sink_tokens;
  const wf_meta_key_lengths *key_sequence_lengths;
} wf_meta_attention;
typedef struct wf_meta_chunked_prefill {
  wf_meta_head head;
  int64_t chunk_size;
} wf_meta_chunked_prefill;
typedef struct wf_meta_runtime_configurable {
  wf_meta_head head;
  bool prefix_cache, continuous_batching;
  const wf_meta_chunked_prefill *chunked_prefill;
} wf_meta_runtime_configurable;
typedef struct wf_meta_router {
  wf_meta_head head;
  int score_function, selection_method, group_score;
  bool normalize_weights;
  double scaling_factor;
  int64_t group_count, groups_per_token;
} wf_meta_router;
typedef struct wf_meta_moe {
  wf_meta_head head;
  const char *representation, *activation;
  int64_t routed_expert_count, shared_expert_count, experts_per_token, expert_intermediate_size,
      shared_expert_intermediate_size;
  const wf_meta_router *router;
} wf_meta_moe;
typedef struct wf_meta_tensor_parallel {
  wf_meta_head head;
  int64_t shard_axis, max_shards;
  bool is_replicated;
} wf_meta_tensor_parallel;
typedef struct wf_meta_pipeline_stage {
  wf_meta_head head;
  wf_meta_texts components, outputs, state_groups;
} wf_meta_pipeline_stage;
typedef struct wf_meta_expert_parallel {
  wf_meta_head head;
  int64_t expert_count;
  bool contiguous_groups_only;
  wf_meta_texts replicated;
} wf_meta_expert_parallel;
typedef struct wf_meta_sharding {
  wf_meta_head head;
  WF_META_LIST(wf_meta_tensor_parallel) tensor_parallel;
  WF_META_LIST(wf_meta_pipeline_stage) pipeline_parallel;
  const wf_meta_expert_parallel *expert_parallel;
} wf_meta_sharding;
/* The legacy port block of a bare decoder (§23.1, 7). */
typedef struct wf_meta_io {
  wf_meta_head head;
  const char *token_input, *inputs_embeds_input, *attention_mask_input, *position_ids_input,
      *encoder_hidden_states_input, *audio_features_input, *logits_output, *hidden_output;
  wf_meta_texts kv_inputs, kv_outputs, cross_kv_inputs, cross_kv_outputs;
  int aliasing; /* -1: absent */
  const wf_doc_node *static_cache, *kv_layout, *kv_ownership, *sequence_source, *optional_inputs,
      *state_pairs;
} wf_meta_io;
typedef struct wf_meta_model {
  wf_meta_head head;
  const wf_meta_attention *attention;
  int64_t max_sequence_length, vocab_size;
  const wf_meta_runtime_configurable *runtime_configurable;
  const wf_meta_moe *mixture_of_experts;
  const wf_meta_sharding *sharding;
  const wf_meta_io *io;
} wf_meta_model;
typedef struct wf_meta_pipeline {
  wf_meta_head head;
  const wf_meta_workflow *workflow;
} wf_meta_pipeline;

/* ---- package and generation -------------------------------------------------------------------
 */

typedef struct wf_meta_special_token {
  wf_meta_head head; /* the role: bos, eos, pad, unk, ... */
  int64_t id;
  const char *content;
} wf_meta_special_token;
typedef struct wf_meta_location {
  wf_meta_head head;
  const char *location;
} wf_meta_location;
typedef struct wf_meta_tokenizer {
  wf_meta_head head;
  const char *algorithm;
  int64_t vocab_size;
  bool is_byte_level;
  WF_META_LIST(wf_meta_location) artifacts;
  WF_META_LIST(wf_meta_special_token) special_tokens;
} wf_meta_tokenizer;
typedef struct wf_meta_constraint_language {
  wf_meta_head head;
  const char *dialect, *version, *component;
} wf_meta_constraint_language;
typedef struct wf_meta_package {
  wf_meta_head head;
  const wf_meta_tokenizer *tokenizer;
  WF_META_LIST(wf_meta_constraint_language) constraint_languages;
} wf_meta_package;

typedef struct wf_meta_generation_defaults {
  wf_meta_head head;
  int do_sample, early_stopping; /* -1: absent */
  double temperature, top_p, repetition_penalty, length_penalty, diversity_penalty;
  int64_t top_k, num_beams, num_return_sequences, min_length, max_length, no_repeat_ngram_size;
} wf_meta_generation_defaults;
typedef struct wf_meta_bounds {
  wf_meta_head head;
  double minimum, maximum;
} wf_meta_bounds;
typedef struct wf_meta_override {
  wf_meta_head head; /* the field */
  const char *input;
  const wf_meta_bounds *constraint;
} wf_meta_override;
typedef struct wf_meta_generation {
  wf_meta_head head;
  const wf_meta_generation_defaults *defaults;
  WF_META_LIST(wf_meta_override) overrides;
} wf_meta_generation;

/* ---- profiles ---------------------------------------------------------------------------------
 */

typedef struct wf_meta_pooling {
  wf_meta_head head;
  int kind; /* mean, max, cls, last_token */
  int64_t axis;
  bool normalize;
} wf_meta_pooling;
typedef struct wf_meta_vocabulary {
  wf_meta_head head;
  const char *source, *word_delimiter;
  int64_t size;
  wf_meta_texts ignored_tokens, tokens; /* lists */
} wf_meta_vocabulary;
typedef struct wf_meta_decoding {
  wf_meta_head head;
  const char *kind, *lengths;
  int64_t blank_id, time_axis, class_axis;
  bool collapse_repeats;
  const wf_meta_vocabulary *vocabulary;
} wf_meta_decoding;
typedef struct wf_meta_profile {
  wf_meta_head head;
  const char *kind, *version, *batch_invariance;
  bool is_ignorable, generation_affecting;
  int requirement; /* 0 required, 1 ignorable */
  wf_meta_pairs outputs;
  const wf_meta_pooling *pooling;
  const wf_meta_decoding *decoding;
} wf_meta_profile;

/* ---- preprocessing ----------------------------------------------------------------------------
 */

typedef struct wf_meta_transform {
  wf_meta_head head;
  const char *op;
  wf_meta_texts inputs, outputs;
  /* The parameters of all operations; each reads its own. */
  const char *mode, *interpolation, *channel_order, *temporal_order, *patch_order,
      *coordinate_order, *thumbnail_order, *thumbnail_interpolation, *window, *mel_scale;
  const wf_doc_node *size; /* an edge or {width, height} */
  double scale, pad_value, canvas_pad_value, epsilon;
  wf_meta_floats mean, std;
  int64_t min_pixels, max_pixels, size_multiple, patch_size, max_patches, pooling_kernel_size,
      tile_size, max_tiles, mask_patch_size, temporal_patch_size, merge_size, target_length,
      sample_rate, channels, num_mel_bins, n_fft, hop_length, win_length;
  int include_thumbnail, flatten; /* -1: absent */
} wf_meta_transform;
typedef struct wf_meta_program_output {
  wf_meta_head head;
  const char *source, *value, *content, *dtype;
  const wf_meta_contract *contract;
  double pad_value;
  bool is_optional;
  int64_t rank;
} wf_meta_program_output;
typedef struct wf_meta_program {
  wf_meta_head head;
  WF_META_LIST(wf_meta_transform) transforms;
  WF_META_LIST(wf_meta_program_output) outputs;
} wf_meta_program;
typedef struct wf_meta_preprocessing {
  wf_meta_head head;
  const wf_meta_program *image, *audio;
} wf_meta_preprocessing;

/* ---- LoRA -------------------------------------------------------------------------------------
 */

typedef struct wf_meta_output_slice {
  wf_meta_head head;
  const char *role;
  int64_t offset, width, rank;
  double alpha;
} wf_meta_output_slice;
typedef struct wf_meta_graph_inputs {
  wf_meta_head head;
  const char *a, *b, *scale;
} wf_meta_graph_inputs;
typedef struct wf_meta_target {
  wf_meta_head head;
  const char *id, *component, *initializer, *node_name, *output_name, *activation_dtype;
  int64_t layer_index, input_features, output_features, rank;
  double alpha;
  const wf_meta_output_slice *output_slice;
  const wf_meta_graph_inputs *graph_inputs;
} wf_meta_target;
typedef struct wf_meta_target_manifest {
  wf_meta_head head;
  WF_META_LIST(wf_meta_target) targets;
} wf_meta_target_manifest;
enum { WF_META_LORA_JSON, WF_META_LORA_ORT_GENAI, WF_META_LORA_HF_PEFT, WF_META_LORA_SAFETENSORS };
enum { WF_META_ALPHA_OVER_RANK, WF_META_BAKED };
typedef struct wf_meta_weights {
  wf_meta_head head;
  int format, scale_encoding;
  const char *location, *loader_capability, *config_location;
} wf_meta_weights;
typedef struct wf_meta_lora_binding {
  wf_meta_head head;
  const char *target, *weight_key;
  int64_t rank;
  double alpha;
} wf_meta_lora_binding;
typedef struct wf_meta_provenance {
  wf_meta_head head;
  const char *producer, *source, *revision;
} wf_meta_provenance;
typedef struct wf_meta_lora_artifact {
  wf_meta_head head; /* the alias */
  int64_t index, rank;
  const char *identity, *version, *dtype;
  double alpha;
  WF_META_LIST(wf_meta_weights) weights;
  WF_META_LIST(wf_meta_lora_binding) bindings;
  const wf_meta_provenance *provenance;
} wf_meta_lora_artifact;
typedef struct wf_meta_selection {
  wf_meta_head head;
  const char *segments, *adapter_counts, *scales, *active;
  int64_t max_adapters;
} wf_meta_selection;
typedef struct wf_meta_adapter_cache {
  wf_meta_head head;
  int64_t max_entries;
  int eviction; /* lru */
} wf_meta_adapter_cache;
typedef struct wf_meta_planning {
  wf_meta_head head;
  bool bucket_by_adapter_set, stable_buffers, invalidate_capture_on_eviction;
} wf_meta_planning;
typedef struct wf_meta_adapters {
  wf_meta_head head;
  const wf_meta_target_manifest *target_manifest;
  int discovery_fallback; /* disabled, tooling_only */
  const wf_meta_selection *selection;
  const char *application_capability;
  bool portable_fallback;
  WF_META_LIST(wf_meta_lora_artifact) artifacts;
  const wf_meta_adapter_cache *cache; /* NULL: 16 entries */
  const wf_meta_planning *planning;
} wf_meta_adapters;

/* ---- speculation ------------------------------------------------------------------------------
 */

enum { WF_META_BLOCK, WF_META_CHAINED };
typedef struct wf_meta_recurrent {
  wf_meta_head head;
  const char *state, *input, *output;
} wf_meta_recurrent;
typedef struct wf_meta_seed {
  wf_meta_head head;
  const char *component, *output;
} wf_meta_seed;
typedef struct wf_meta_embedding {
  wf_meta_head head;
  const char *component, *table;
} wf_meta_embedding;
typedef struct wf_meta_proposal {
  wf_meta_head head;
  int kind;
  const char *token_embedding_input, *logits_output, *folded_carry_output;
  WF_META_LIST(wf_meta_recurrent) recurrent;
  const wf_meta_seed *folded_carry_seed;
  const wf_meta_embedding *token_embedding;
} wf_meta_proposal;
enum { WF_META_VOCABULARY_IDENTICAL, WF_META_VOCABULARY_SUBSET, WF_META_VOCABULARY_MAPPED };
typedef struct wf_meta_speculative_vocabulary {
  wf_meta_head head;
  int kind;
  int64_t proposer_vocab_size;
  const char *artifact;
} wf_meta_speculative_vocabulary;
typedef struct wf_meta_speculative {
  wf_meta_head head;
  const char *proposer, *target;
  const wf_meta_proposal *proposal_execution; /* NULL: block */
  wf_meta_pairs port_bindings;
  wf_meta_texts shared_state, shared_weights, rollback_state;
  const wf_meta_speculative_vocabulary *vocabulary;
  int64_t max_proposal_width;
  bool distribution_preserving;
} wf_meta_speculative;

#endif
