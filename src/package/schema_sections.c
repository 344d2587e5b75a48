/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of the document's root and of the sections beside the workflow (docs/format.md §4, §12 to
 * §14). */
#include "package/schema.h"

#define AT(type, member) (uint32_t) offsetof(type, member)
#define END \
  { .name = NULL }
/* A count that may be absent. */
#define COUNT(type, member, least)                                                   \
  {                                                                                  \
    .name = #member, WF_FIELD_INT, AT(type, member), .lo = (least), .hi = INT64_MAX, \
    .fallback = WF_META_ABSENT                                                       \
  }
#define NEEDED_COUNT(type, member, least)                                               \
  {                                                                                     \
    .name = #member, WF_FIELD_INT, AT(type, member), .required = WF_ALL, .lo = (least), \
    .hi = INT64_MAX                                                                     \
  }
#define TEXT(type, member) \
  { .name = #member, WF_FIELD_TEXT, AT(type, member) }
#define NUMBER(type, member) \
  { .name = #member, WF_FIELD_FLOAT, AT(type, member) }
#define NEEDED_NAME(type, member) \
  { .name = #member, WF_FIELD_NAME, AT(type, member), .required = WF_ALL }

/* ---- model ------------------------------------------------------------------------------------
 */

static const wf_schema_field key_lengths_fields[] = {{.name = "scalar_broadcast",
                                                      WF_FIELD_ENUM,
                                                      AT(wf_meta_key_lengths, scalar_broadcast),
                                                      .fallback = -1,
                                                      .words = "unit_batch"},
                                                     END};
static const wf_schema_object key_lengths = {"key_sequence_lengths", sizeof(wf_meta_key_lengths),
                                             .is_open = true, .fields = key_lengths_fields};
static const wf_schema_field attention_fields[] = {
    {.name = "type", WF_FIELD_NAME, AT(wf_meta_attention, type), .required = WF_ALL},
    TEXT(wf_meta_attention, fallback_behavior),
    COUNT(wf_meta_attention, num_kv_heads, 1),
    COUNT(wf_meta_attention, num_attention_heads, 1),
    COUNT(wf_meta_attention, head_dim, 1),
    COUNT(wf_meta_attention, sliding_window, 1),
    COUNT(wf_meta_attention, sink_tokens, 0),
    {.name = "key_sequence_lengths",
     WF_FIELD_OBJECT,
     AT(wf_meta_attention, key_sequence_lengths),
     .object = &key_lengths},
    END};
static const wf_schema_object attention = {"attention", sizeof(wf_meta_attention), .is_open = true,
                                           .fields = attention_fields};
static const wf_schema_field chunked_fields[] = {COUNT(wf_meta_chunked_prefill, chunk_size, 1),
                                                 END};
static const wf_schema_object chunked = {"chunked_prefill", sizeof(wf_meta_chunked_prefill),
                                         .is_open = true, .fields = chunked_fields};
static const wf_schema_removed no_kv_cache[] = {
    {"kv_cache", "describe state in pipeline.workflow.serving.state_service.groups"}, {NULL, NULL}};
static const wf_schema_field configurable_fields[] = {
    {.name = "prefix_cache", WF_FIELD_BOOL, AT(wf_meta_runtime_configurable, prefix_cache)},
    {.name = "continuous_batching",
     WF_FIELD_BOOL,
     AT(wf_meta_runtime_configurable, continuous_batching)},
    {.name = "chunked_prefill",
     WF_FIELD_OBJECT,
     AT(wf_meta_runtime_configurable, chunked_prefill),
     .object = &chunked},
    END};
static const wf_schema_object configurable = {
    "runtime_configurable", sizeof(wf_meta_runtime_configurable), .removed = no_kv_cache,
    .fields = configurable_fields};
static const wf_schema_field router_fields[] = {{.name = "score_function",
                                                 WF_FIELD_ENUM,
                                                 AT(wf_meta_router, score_function),
                                                 .required = WF_ALL,
                                                 .words = "softmax|sigmoid"},
                                                {.name = "selection_method",
                                                 WF_FIELD_ENUM,
                                                 AT(wf_meta_router, selection_method),
                                                 .required = WF_ALL,
                                                 .words = "top_k|grouped_top_k|sparse_mixer"},
                                                {.name = "normalize_weights",
                                                 WF_FIELD_BOOL,
                                                 AT(wf_meta_router, normalize_weights),
                                                 .required = WF_ALL},
                                                {.name = "scaling_factor",
                                                 WF_FIELD_FLOAT,
                                                 AT(wf_meta_router, scaling_factor),
                                                 .required = WF_ALL},
                                                COUNT(wf_meta_router, group_count, 1),
                                                COUNT(wf_meta_router, groups_per_token, 1),
                                                {.name = "group_score",
                                                 WF_FIELD_ENUM,
                                                 AT(wf_meta_router, group_score),
                                                 .fallback = -1,
                                                 .words = "maximum|top_2_sum"},
                                                END};
static const wf_schema_object router = {"router", sizeof(wf_meta_router), .is_open = true,
                                        .fields = router_fields};
static const wf_schema_field moe_fields[] = {
    NEEDED_NAME(wf_meta_moe, representation),
    NEEDED_COUNT(wf_meta_moe, routed_expert_count, 1),
    NEEDED_COUNT(wf_meta_moe, shared_expert_count, 0),
    NEEDED_COUNT(wf_meta_moe, experts_per_token, 1),
    NEEDED_COUNT(wf_meta_moe, expert_intermediate_size, 1),
    NEEDED_COUNT(wf_meta_moe, shared_expert_intermediate_size, 0),
    NEEDED_NAME(wf_meta_moe, activation),
    {.name = "router",
     WF_FIELD_OBJECT,
     AT(wf_meta_moe, router),
     .required = WF_ALL,
     .object = &router},
    END};
static const wf_schema_object moe = {"mixture_of_experts", sizeof(wf_meta_moe), .is_open = true,
                                     .fields = moe_fields};
static const wf_schema_field tensor_parallel_fields[] = {
    COUNT(wf_meta_tensor_parallel, shard_axis, 0),
    COUNT(wf_meta_tensor_parallel, max_shards, 1),
    {.name = "replicated", WF_FIELD_BOOL, AT(wf_meta_tensor_parallel, is_replicated)},
    END};
static const wf_schema_object tensor_parallel = {"tensor_parallel", sizeof(wf_meta_tensor_parallel),
                                                 .fields = tensor_parallel_fields};
static const wf_schema_field stage_fields[] = {
    {.name = "components",
     WF_FIELD_TEXTS,
     AT(wf_meta_pipeline_stage, components),
     .required = WF_ALL,
     .min_items = 1},
    {.name = "outputs", WF_FIELD_TEXTS, AT(wf_meta_pipeline_stage, outputs)},
    {.name = "state_groups", WF_FIELD_TEXTS, AT(wf_meta_pipeline_stage, state_groups)},
    END};
static const wf_schema_object stage = {"pipeline_stage", sizeof(wf_meta_pipeline_stage),
                                       .fields = stage_fields};
static const wf_schema_field expert_fields[] = {
    NEEDED_COUNT(wf_meta_expert_parallel, expert_count, 1),
    {.name = "contiguous_groups_only",
     WF_FIELD_BOOL,
     AT(wf_meta_expert_parallel, contiguous_groups_only)},
    {.name = "replicated", WF_FIELD_SET, AT(wf_meta_expert_parallel, replicated)},
    END};
static const wf_schema_object expert = {"expert_parallel", sizeof(wf_meta_expert_parallel),
                                        .fields = expert_fields};
static const wf_schema_field sharding_fields[] = {{.name = "tensor_parallel",
                                                   WF_FIELD_MAP,
                                                   AT(wf_meta_sharding, tensor_parallel),
                                                   .object = &tensor_parallel},
                                                  {.name = "pipeline_parallel",
                                                   WF_FIELD_LIST,
                                                   AT(wf_meta_sharding, pipeline_parallel),
                                                   .object = &stage},
                                                  {.name = "expert_parallel",
                                                   WF_FIELD_OBJECT,
                                                   AT(wf_meta_sharding, expert_parallel),
                                                   .object = &expert},
                                                  END};
static const wf_schema_object sharding = {"sharding", sizeof(wf_meta_sharding),
                                          .fields = sharding_fields};
static const wf_schema_field io_fields[] = {
    TEXT(wf_meta_io, token_input),
    TEXT(wf_meta_io, inputs_embeds_input),
    TEXT(wf_meta_io, attention_mask_input),
    TEXT(wf_meta_io, position_ids_input),
    TEXT(wf_meta_io, encoder_hidden_states_input),
    TEXT(wf_meta_io, audio_features_input),
    TEXT(wf_meta_io, logits_output),
    TEXT(wf_meta_io, hidden_output),
    {.name = "kv_inputs", WF_FIELD_TEXTS, AT(wf_meta_io, kv_inputs)},
    {.name = "kv_outputs", WF_FIELD_TEXTS, AT(wf_meta_io, kv_outputs)},
    {.name = "cross_kv_inputs", WF_FIELD_TEXTS, AT(wf_meta_io, cross_kv_inputs)},
    {.name = "cross_kv_outputs", WF_FIELD_TEXTS, AT(wf_meta_io, cross_kv_outputs)},
    {.name = "aliasing",
     WF_FIELD_ENUM,
     AT(wf_meta_io, aliasing),
     .fallback = -1,
     .words = "forbidden|permitted|required"},
    {.name = "static_cache", WF_FIELD_NODE, AT(wf_meta_io, static_cache)},
    {.name = "kv_layout", WF_FIELD_NODE, AT(wf_meta_io, kv_layout)},
    {.name = "kv_ownership", WF_FIELD_NODE, AT(wf_meta_io, kv_ownership)},
    {.name = "sequence_source", WF_FIELD_NODE, AT(wf_meta_io, sequence_source)},
    {.name = "optional_inputs", WF_FIELD_NODE, AT(wf_meta_io, optional_inputs)},
    {.name = "state_pairs", WF_FIELD_NODE, AT(wf_meta_io, state_pairs)},
    END};
const wf_schema_object wf_schema_io = {"legacy_io", sizeof(wf_meta_io), .fields = io_fields};
static const wf_schema_field model_fields[] = {
    {.name = "attention", WF_FIELD_OBJECT, AT(wf_meta_model, attention), .object = &attention},
    COUNT(wf_meta_model, max_sequence_length, 1),
    COUNT(wf_meta_model, vocab_size, 1),
    {.name = "runtime_configurable",
     WF_FIELD_OBJECT,
     AT(wf_meta_model, runtime_configurable),
     .object = &configurable},
    {.name = "mixture_of_experts",
     WF_FIELD_OBJECT,
     AT(wf_meta_model, mixture_of_experts),
     .object = &moe},
    {.name = "sharding", WF_FIELD_OBJECT, AT(wf_meta_model, sharding), .object = &sharding},
    {.name = "io", WF_FIELD_OBJECT, AT(wf_meta_model, io), .object = &wf_schema_io},
    END};
const wf_schema_object wf_schema_model = {"model", sizeof(wf_meta_model), .is_open = true,
                                          .fields = model_fields};

/* ---- package, generation, profiles ------------------------------------------------------------
 */

static const wf_schema_field special_fields[] = {{.name = "id",
                                                  WF_FIELD_INT,
                                                  AT(wf_meta_special_token, id),
                                                  .required = WF_ALL,
                                                  .hi = UINT32_MAX},
                                                 NEEDED_NAME(wf_meta_special_token, content),
                                                 END};
static const wf_schema_object special = {"special_token", sizeof(wf_meta_special_token),
                                         .fields = special_fields};
static const wf_schema_field location_fields[] = {NEEDED_NAME(wf_meta_location, location), END};
static const wf_schema_object location = {"tokenizer_artifact", sizeof(wf_meta_location),
                                          .fields = location_fields};
static const wf_schema_field tokenizer_fields[] = {
    NEEDED_NAME(wf_meta_tokenizer, algorithm),
    NEEDED_COUNT(wf_meta_tokenizer, vocab_size, 1),
    {.name = "byte_level", WF_FIELD_BOOL, AT(wf_meta_tokenizer, is_byte_level)},
    {.name = "artifacts", WF_FIELD_LIST, AT(wf_meta_tokenizer, artifacts), .object = &location},
    {.name = "special_tokens",
     WF_FIELD_MAP,
     AT(wf_meta_tokenizer, special_tokens),
     .object = &special},
    END};
static const wf_schema_object tokenizer = {"tokenizer", sizeof(wf_meta_tokenizer),
                                           .fields = tokenizer_fields};
static const wf_schema_field language_fields[] = {
    NEEDED_NAME(wf_meta_constraint_language, dialect),
    NEEDED_NAME(wf_meta_constraint_language, version),
    NEEDED_NAME(wf_meta_constraint_language, component), END};
static const wf_schema_object language = {
    "constraint_language", sizeof(wf_meta_constraint_language), .fields = language_fields};
static const wf_schema_field package_fields[] = {
    {.name = "tokenizer", WF_FIELD_OBJECT, AT(wf_meta_package, tokenizer), .object = &tokenizer},
    {.name = "constraint_languages",
     WF_FIELD_LIST,
     AT(wf_meta_package, constraint_languages),
     .object = &language},
    END};
const wf_schema_object wf_schema_package = {"package", sizeof(wf_meta_package),
                                            .fields = package_fields};

static const wf_schema_field defaults_fields[] = {
    {.name = "do_sample", WF_FIELD_MAYBE, AT(wf_meta_generation_defaults, do_sample)},
    {.name = "early_stopping", WF_FIELD_MAYBE, AT(wf_meta_generation_defaults, early_stopping)},
    NUMBER(wf_meta_generation_defaults, temperature),
    NUMBER(wf_meta_generation_defaults, top_p),
    NUMBER(wf_meta_generation_defaults, repetition_penalty),
    NUMBER(wf_meta_generation_defaults, length_penalty),
    NUMBER(wf_meta_generation_defaults, diversity_penalty),
    COUNT(wf_meta_generation_defaults, top_k, 0),
    COUNT(wf_meta_generation_defaults, num_beams, 0),
    COUNT(wf_meta_generation_defaults, num_return_sequences, 0),
    COUNT(wf_meta_generation_defaults, min_length, 0),
    COUNT(wf_meta_generation_defaults, max_length, 0),
    COUNT(wf_meta_generation_defaults, no_repeat_ngram_size, 0),
    END};
static const wf_schema_object defaults = {"generation_defaults",
                                          sizeof(wf_meta_generation_defaults), .is_open = true,
                                          .fields = defaults_fields};
static const wf_schema_field bounds_fields[] = {NUMBER(wf_meta_bounds, minimum),
                                                NUMBER(wf_meta_bounds, maximum), END};
static const wf_schema_object bounds = {"constraint", sizeof(wf_meta_bounds),
                                        .fields = bounds_fields};
static const wf_schema_field override_fields[] = {
    {.name = "input", WF_FIELD_TEXT, AT(wf_meta_override, input), .required = WF_ALL},
    {.name = "constraint", WF_FIELD_OBJECT, AT(wf_meta_override, constraint), .object = &bounds},
    END};
static const wf_schema_object override = {"override", sizeof(wf_meta_override),
                                          .fields = override_fields};
static const wf_schema_field generation_fields[] = {
    {.name = "defaults", WF_FIELD_OBJECT, AT(wf_meta_generation, defaults), .object = &defaults},
    {.name = "overrides", WF_FIELD_MAP, AT(wf_meta_generation, overrides), .object = &override},
    END};
const wf_schema_object wf_schema_generation = {"generation", sizeof(wf_meta_generation),
                                               .fields = generation_fields};

static const wf_schema_field pooling_fields[] = {
    {.name = "kind",
     WF_FIELD_ENUM,
     AT(wf_meta_pooling, kind),
     .required = WF_ALL,
     .words = "mean|max|cls|last_token"},
    {.name = "axis", WF_FIELD_INT, AT(wf_meta_pooling, axis), .required = WF_ALL, .hi = INT32_MAX},
    {.name = "normalize", WF_FIELD_BOOL, AT(wf_meta_pooling, normalize)},
    END};
static const wf_schema_object pooling = {"pooling", sizeof(wf_meta_pooling),
                                         .fields = pooling_fields};
static const wf_schema_field vocabulary_fields[] = {
    NEEDED_NAME(wf_meta_vocabulary, source),
    COUNT(wf_meta_vocabulary, size, 0),
    TEXT(wf_meta_vocabulary, word_delimiter),
    {.name = "ignored_tokens", WF_FIELD_TEXTS, AT(wf_meta_vocabulary, ignored_tokens)},
    {.name = "tokens", WF_FIELD_TEXTS, AT(wf_meta_vocabulary, tokens)},
    END};
static const wf_schema_object vocabulary = {"decoding_vocabulary", sizeof(wf_meta_vocabulary),
                                            .fields = vocabulary_fields};
static const wf_schema_field decoding_fields[] = {
    NEEDED_NAME(wf_meta_decoding, kind),
    COUNT(wf_meta_decoding, blank_id, 0),
    {.name = "collapse_repeats", WF_FIELD_BOOL, AT(wf_meta_decoding, collapse_repeats)},
    {.name = "time_axis",
     WF_FIELD_INT,
     AT(wf_meta_decoding, time_axis),
     .required = WF_ALL,
     .hi = INT32_MAX},
    {.name = "class_axis",
     WF_FIELD_INT,
     AT(wf_meta_decoding, class_axis),
     .required = WF_ALL,
     .hi = INT32_MAX},
    TEXT(wf_meta_decoding, lengths),
    {.name = "vocabulary",
     WF_FIELD_OBJECT,
     AT(wf_meta_decoding, vocabulary),
     .object = &vocabulary},
    END};
static const wf_schema_object decoding = {"decoding", sizeof(wf_meta_decoding),
                                          .fields = decoding_fields};
static const wf_schema_field profile_fields[] = {
    NEEDED_NAME(wf_meta_profile, kind),
    NEEDED_NAME(wf_meta_profile, version),
    {.name = "requirement",
     WF_FIELD_ENUM,
     AT(wf_meta_profile, requirement),
     .words = "required|ignorable"},
    {.name = "outputs", WF_FIELD_PAIRS, AT(wf_meta_profile, outputs)},
    {.name = "pooling", WF_FIELD_OBJECT, AT(wf_meta_profile, pooling), .object = &pooling},
    {.name = "decoding", WF_FIELD_OBJECT, AT(wf_meta_profile, decoding), .object = &decoding},
    TEXT(wf_meta_profile, batch_invariance),
    {.name = "generation_affecting", WF_FIELD_BOOL, AT(wf_meta_profile, generation_affecting)},
    END};
const wf_schema_object wf_schema_profile = {"profile", sizeof(wf_meta_profile),
                                            .fields = profile_fields};

/* ---- preprocessing ----------------------------------------------------------------------------
 */

static const wf_schema_field transform_fields[] = {
    NEEDED_NAME(wf_meta_transform, op),
    {.name = "inputs", WF_FIELD_TEXTS, AT(wf_meta_transform, inputs)},
    {.name = "outputs", WF_FIELD_TEXTS, AT(wf_meta_transform, outputs)},
    TEXT(wf_meta_transform, mode),
    TEXT(wf_meta_transform, interpolation),
    TEXT(wf_meta_transform, channel_order),
    TEXT(wf_meta_transform, temporal_order),
    TEXT(wf_meta_transform, patch_order),
    TEXT(wf_meta_transform, coordinate_order),
    TEXT(wf_meta_transform, thumbnail_order),
    TEXT(wf_meta_transform, thumbnail_interpolation),
    TEXT(wf_meta_transform, window),
    TEXT(wf_meta_transform, mel_scale),
    {.name = "size", WF_FIELD_NODE, AT(wf_meta_transform, size)},
    NUMBER(wf_meta_transform, scale),
    NUMBER(wf_meta_transform, pad_value),
    NUMBER(wf_meta_transform, canvas_pad_value),
    NUMBER(wf_meta_transform, epsilon),
    {.name = "mean", WF_FIELD_FLOATS, AT(wf_meta_transform, mean)},
    {.name = "std", WF_FIELD_FLOATS, AT(wf_meta_transform, std)},
    COUNT(wf_meta_transform, min_pixels, 0),
    COUNT(wf_meta_transform, max_pixels, 0),
    COUNT(wf_meta_transform, size_multiple, 0),
    COUNT(wf_meta_transform, patch_size, 0),
    COUNT(wf_meta_transform, max_patches, 0),
    COUNT(wf_meta_transform, pooling_kernel_size, 0),
    COUNT(wf_meta_transform, tile_size, 0),
    COUNT(wf_meta_transform, max_tiles, 0),
    COUNT(wf_meta_transform, mask_patch_size, 0),
    COUNT(wf_meta_transform, temporal_patch_size, 0),
    COUNT(wf_meta_transform, merge_size, 0),
    COUNT(wf_meta_transform, target_length, 0),
    COUNT(wf_meta_transform, sample_rate, 0),
    COUNT(wf_meta_transform, channels, 0),
    COUNT(wf_meta_transform, num_mel_bins, 0),
    COUNT(wf_meta_transform, n_fft, 0),
    COUNT(wf_meta_transform, hop_length, 0),
    COUNT(wf_meta_transform, win_length, 0),
    {.name = "include_thumbnail", WF_FIELD_MAYBE, AT(wf_meta_transform, include_thumbnail)},
    {.name = "flatten", WF_FIELD_MAYBE, AT(wf_meta_transform, flatten)},
    END};
static const wf_schema_object transform = {"transform", sizeof(wf_meta_transform), .is_open = true,
                                           .fields = transform_fields};
static const wf_schema_field program_output_fields[] = {
    {.name = "source", WF_FIELD_NAME, AT(wf_meta_program_output, source), .required = WF_ALL},
    {.name = "name", WF_FIELD_NAME, AT(wf_meta_program_output, value), .required = WF_ALL},
    {.name = "content", WF_FIELD_NAME, AT(wf_meta_program_output, content), .required = WF_ALL},
    {.name = "dtype", WF_FIELD_NAME, AT(wf_meta_program_output, dtype), .required = WF_ALL},
    {.name = "contract",
     WF_FIELD_OBJECT,
     AT(wf_meta_program_output, contract),
     .object = &wf_schema_contract},
    NUMBER(wf_meta_program_output, pad_value),
    {.name = "optional", WF_FIELD_BOOL, AT(wf_meta_program_output, is_optional)},
    COUNT(wf_meta_program_output, rank, 0),
    END};
static const wf_schema_object program_output = {"program_output", sizeof(wf_meta_program_output),
                                                .is_open = true, .fields = program_output_fields};
static const wf_schema_field program_fields[] = {
    {.name = "transforms", WF_FIELD_LIST, AT(wf_meta_program, transforms), .object = &transform},
    {.name = "outputs",
     WF_FIELD_LIST,
     AT(wf_meta_program, outputs),
     .required = WF_ALL,
     .object = &program_output,
     .min_items = 1},
    END};
static const wf_schema_object program = {"program", sizeof(wf_meta_program), .is_open = true,
                                         .fields = program_fields};
static const wf_schema_field preprocessing_fields[] = {
    {.name = "image", WF_FIELD_OBJECT, AT(wf_meta_preprocessing, image), .object = &program},
    {.name = "audio", WF_FIELD_OBJECT, AT(wf_meta_preprocessing, audio), .object = &program},
    END};
const wf_schema_object wf_schema_preprocessing = {"preprocessing", sizeof(wf_meta_preprocessing),
                                                  .is_open = true, .fields = preprocessing_fields};

/* ---- LoRA -------------------------------------------------------------------------------------
 */

static const wf_schema_field slice_fields[] = {
    NEEDED_NAME(wf_meta_output_slice, role),      NEEDED_COUNT(wf_meta_output_slice, offset, 0),
    NEEDED_COUNT(wf_meta_output_slice, width, 0), COUNT(wf_meta_output_slice, rank, 0),
    NUMBER(wf_meta_output_slice, alpha),          END};
static const wf_schema_object slice = {"output_slice", sizeof(wf_meta_output_slice),
                                       .fields = slice_fields};
static const wf_schema_field graph_inputs_fields[] = {
    {.name = "a", WF_FIELD_TEXT, AT(wf_meta_graph_inputs, a), .required = WF_ALL},
    {.name = "b", WF_FIELD_TEXT, AT(wf_meta_graph_inputs, b), .required = WF_ALL},
    TEXT(wf_meta_graph_inputs, scale),
    END};
static const wf_schema_object graph_inputs = {"graph_inputs", sizeof(wf_meta_graph_inputs),
                                              .fields = graph_inputs_fields};
#define NEEDED_TEXT(type, member) \
  { .name = #member, WF_FIELD_TEXT, AT(type, member), .required = WF_ALL }
static const wf_schema_field target_fields[] = {
    NEEDED_TEXT(wf_meta_target, id),
    NEEDED_TEXT(wf_meta_target, component),
    NEEDED_TEXT(wf_meta_target, initializer),
    COUNT(wf_meta_target, layer_index, 0),
    NEEDED_TEXT(wf_meta_target, node_name),
    NEEDED_TEXT(wf_meta_target, output_name),
    NEEDED_TEXT(wf_meta_target, activation_dtype),
    NEEDED_COUNT(wf_meta_target, input_features, 0),
    NEEDED_COUNT(wf_meta_target, output_features, 0),
    COUNT(wf_meta_target, rank, 0),
    NUMBER(wf_meta_target, alpha),
    {.name = "output_slice", WF_FIELD_OBJECT, AT(wf_meta_target, output_slice), .object = &slice},
    {.name = "graph_inputs",
     WF_FIELD_OBJECT,
     AT(wf_meta_target, graph_inputs),
     .object = &graph_inputs},
    END};
static const wf_schema_object target = {"lora_target", sizeof(wf_meta_target),
                                        .fields = target_fields};
static const wf_schema_field target_manifest_fields[] = {{.name = "targets",
                                                          WF_FIELD_LIST,
                                                          AT(wf_meta_target_manifest, targets),
                                                          .required = WF_ALL,
                                                          .object = &target},
                                                         END};
static const wf_schema_object target_manifest = {"target_manifest", sizeof(wf_meta_target_manifest),
                                                 .fields = target_manifest_fields};
static const wf_schema_field weights_fields[] = {{.name = "format",
                                                  WF_FIELD_ENUM,
                                                  AT(wf_meta_weights, format),
                                                  .words = "json|ort_genai|hf_peft|safetensors"},
                                                 NEEDED_TEXT(wf_meta_weights, location),
                                                 NEEDED_TEXT(wf_meta_weights, loader_capability),
                                                 TEXT(wf_meta_weights, config_location),
                                                 {.name = "scale_encoding",
                                                  WF_FIELD_ENUM,
                                                  AT(wf_meta_weights, scale_encoding),
                                                  .words = "alpha_over_rank|baked"},
                                                 END};
static const wf_schema_object weights = {"lora_weights", sizeof(wf_meta_weights),
                                         .fields = weights_fields};
static const wf_schema_field lora_binding_fields[] = {
    NEEDED_TEXT(wf_meta_lora_binding, target), NEEDED_TEXT(wf_meta_lora_binding, weight_key),
    COUNT(wf_meta_lora_binding, rank, 0), NUMBER(wf_meta_lora_binding, alpha), END};
static const wf_schema_object lora_binding = {"lora_binding", sizeof(wf_meta_lora_binding),
                                              .fields = lora_binding_fields};
static const wf_schema_field provenance_fields[] = {NEEDED_TEXT(wf_meta_provenance, producer),
                                                    TEXT(wf_meta_provenance, source),
                                                    TEXT(wf_meta_provenance, revision), END};
static const wf_schema_object provenance = {"provenance", sizeof(wf_meta_provenance),
                                            .fields = provenance_fields};
static const wf_schema_field artifact_fields[] = {
    NEEDED_COUNT(wf_meta_lora_artifact, index, 0),
    NEEDED_TEXT(wf_meta_lora_artifact, identity),
    NEEDED_TEXT(wf_meta_lora_artifact, version),
    NEEDED_COUNT(wf_meta_lora_artifact, rank, 0),
    {.name = "alpha", WF_FIELD_FLOAT, AT(wf_meta_lora_artifact, alpha), .required = WF_ALL},
    NEEDED_TEXT(wf_meta_lora_artifact, dtype),
    {.name = "weights",
     WF_FIELD_LIST,
     AT(wf_meta_lora_artifact, weights),
     .required = WF_ALL,
     .object = &weights},
    {.name = "bindings",
     WF_FIELD_LIST,
     AT(wf_meta_lora_artifact, bindings),
     .required = WF_ALL,
     .object = &lora_binding},
    {.name = "provenance",
     WF_FIELD_OBJECT,
     AT(wf_meta_lora_artifact, provenance),
     .object = &provenance},
    END};
static const wf_schema_object artifact = {"lora_artifact", sizeof(wf_meta_lora_artifact),
                                          .fields = artifact_fields};
static const wf_schema_removed selection_removed[] = {
    {"slot_ids", "leave it out: rows are positional"},
    {"request_epochs", "leave it out: rows are positional"},
    {NULL, NULL}};
static const wf_schema_field selection_fields[] = {NEEDED_TEXT(wf_meta_selection, segments),
                                                   NEEDED_TEXT(wf_meta_selection, adapter_counts),
                                                   NEEDED_TEXT(wf_meta_selection, scales),
                                                   TEXT(wf_meta_selection, active),
                                                   NEEDED_COUNT(wf_meta_selection, max_adapters, 0),
                                                   END};
static const wf_schema_object selection = {"adapter_selection", sizeof(wf_meta_selection),
                                           .removed = selection_removed,
                                           .fields = selection_fields};
static const wf_schema_field cache_fields[] = {
    {.name = "max_entries",
     WF_FIELD_INT,
     AT(wf_meta_adapter_cache, max_entries),
     .hi = INT64_MAX,
     .fallback = 16},
    {.name = "eviction", WF_FIELD_ENUM, AT(wf_meta_adapter_cache, eviction), .words = "lru"},
    END};
static const wf_schema_object cache = {"adapter_cache", sizeof(wf_meta_adapter_cache),
                                       .fields = cache_fields};
static const wf_schema_field planning_fields[] = {
    {.name = "bucket_by_adapter_set",
     WF_FIELD_BOOL,
     AT(wf_meta_planning, bucket_by_adapter_set),
     .fallback = 1},
    {.name = "stable_buffers", WF_FIELD_BOOL, AT(wf_meta_planning, stable_buffers), .fallback = 1},
    {.name = "invalidate_capture_on_eviction",
     WF_FIELD_BOOL,
     AT(wf_meta_planning, invalidate_capture_on_eviction),
     .fallback = 1},
    END};
static const wf_schema_object planning = {"adapter_planning", sizeof(wf_meta_planning),
                                          .fields = planning_fields};
static const wf_schema_field adapters_fields[] = {
    {.name = "target_manifest",
     WF_FIELD_OBJECT,
     AT(wf_meta_adapters, target_manifest),
     .required = WF_ALL,
     .object = &target_manifest},
    {.name = "discovery_fallback",
     WF_FIELD_ENUM,
     AT(wf_meta_adapters, discovery_fallback),
     .words = "disabled|tooling_only"},
    {.name = "selection",
     WF_FIELD_OBJECT,
     AT(wf_meta_adapters, selection),
     .required = WF_ALL,
     .object = &selection},
    NEEDED_TEXT(wf_meta_adapters, application_capability),
    {.name = "portable_fallback", WF_FIELD_BOOL, AT(wf_meta_adapters, portable_fallback)},
    {.name = "artifacts",
     WF_FIELD_MAP,
     AT(wf_meta_adapters, artifacts),
     .required = WF_ALL,
     .object = &artifact},
    {.name = "cache", WF_FIELD_OBJECT, AT(wf_meta_adapters, cache), .object = &cache},
    {.name = "planning", WF_FIELD_OBJECT, AT(wf_meta_adapters, planning), .object = &planning},
    END};
const wf_schema_object wf_schema_adapters = {"adapters", sizeof(wf_meta_adapters),
                                             .fields = adapters_fields};

/* ---- speculation and the root -----------------------------------------------------------------
 */

static const wf_schema_field recurrent_fields[] = {NEEDED_TEXT(wf_meta_recurrent, state),
                                                   NEEDED_TEXT(wf_meta_recurrent, input),
                                                   NEEDED_TEXT(wf_meta_recurrent, output), END};
static const wf_schema_object recurrent = {"recurrent", sizeof(wf_meta_recurrent),
                                           .fields = recurrent_fields};
static const wf_schema_field seed_fields[] = {NEEDED_TEXT(wf_meta_seed, component),
                                              NEEDED_TEXT(wf_meta_seed, output), END};
static const wf_schema_object seed = {"folded_carry_seed", sizeof(wf_meta_seed),
                                      .fields = seed_fields};
static const wf_schema_field embedding_fields[] = {NEEDED_TEXT(wf_meta_embedding, component),
                                                   NEEDED_TEXT(wf_meta_embedding, table), END};
static const wf_schema_object embedding = {"token_embedding", sizeof(wf_meta_embedding),
                                           .fields = embedding_fields};
static const wf_schema_field proposal_fields[] = {
    {.name = "kind",
     WF_FIELD_ENUM,
     AT(wf_meta_proposal, kind),
     .required = WF_ALL,
     .words = "block|chained"},
    {.name = "token_embedding_input",
     WF_FIELD_TEXT,
     AT(wf_meta_proposal, token_embedding_input),
     0x2,
     0x2},
    {.name = "logits_output", WF_FIELD_TEXT, AT(wf_meta_proposal, logits_output), 0x2, 0x2},
    {.name = "recurrent",
     WF_FIELD_LIST,
     AT(wf_meta_proposal, recurrent),
     0x2,
     .object = &recurrent},
    {.name = "folded_carry_output", WF_FIELD_TEXT, AT(wf_meta_proposal, folded_carry_output), 0x2},
    {.name = "folded_carry_seed",
     WF_FIELD_OBJECT,
     AT(wf_meta_proposal, folded_carry_seed),
     0x2,
     .object = &seed},
    {.name = "token_embedding",
     WF_FIELD_OBJECT,
     AT(wf_meta_proposal, token_embedding),
     0x2,
     .object = &embedding},
    END};
static const wf_schema_object proposal = {"proposal_execution", sizeof(wf_meta_proposal),
                                          .fields = proposal_fields};
static const wf_schema_field spec_vocabulary_fields[] = {
    {.name = "kind",
     WF_FIELD_ENUM,
     AT(wf_meta_speculative_vocabulary, kind),
     .required = WF_ALL,
     .words = "identical|subset|mapped"},
    {.name = "proposer_vocab_size",
     WF_FIELD_INT,
     AT(wf_meta_speculative_vocabulary, proposer_vocab_size),
     0x2,
     0x2,
     .lo = 1,
     .hi = INT64_MAX},
    {.name = "artifact", WF_FIELD_NAME, AT(wf_meta_speculative_vocabulary, artifact), 0x4, 0x4},
    END};
static const wf_schema_object spec_vocabulary = {"speculative_vocabulary",
                                                 sizeof(wf_meta_speculative_vocabulary),
                                                 .fields = spec_vocabulary_fields};
static const wf_schema_field speculative_fields[] = {
    NEEDED_TEXT(wf_meta_speculative, proposer),
    NEEDED_TEXT(wf_meta_speculative, target),
    {.name = "proposal_execution",
     WF_FIELD_OBJECT,
     AT(wf_meta_speculative, proposal_execution),
     .object = &proposal},
    {.name = "port_bindings", WF_FIELD_PAIRS, AT(wf_meta_speculative, port_bindings)},
    {.name = "shared_state", WF_FIELD_SET, AT(wf_meta_speculative, shared_state)},
    {.name = "shared_weights", WF_FIELD_SET, AT(wf_meta_speculative, shared_weights)},
    {.name = "vocabulary",
     WF_FIELD_OBJECT,
     AT(wf_meta_speculative, vocabulary),
     .required = WF_ALL,
     .object = &spec_vocabulary},
    NEEDED_COUNT(wf_meta_speculative, max_proposal_width, 0),
    {.name = "distribution_preserving",
     WF_FIELD_BOOL,
     AT(wf_meta_speculative, distribution_preserving)},
    {.name = "rollback_state", WF_FIELD_SET, AT(wf_meta_speculative, rollback_state)},
    END};
const wf_schema_object wf_schema_speculative = {"speculative", sizeof(wf_meta_speculative),
                                                .fields = speculative_fields};

static const wf_schema_removed pipeline_removed[] = {
    {"models", "describe components and steps under 'workflow'"},
    {"dataflow", "bind values in the steps of 'workflow'"},
    {"strategy", "write the steps of 'workflow'"},
    {NULL, NULL}};
static const wf_schema_field pipeline_fields[] = {{.name = "workflow",
                                                   WF_FIELD_OBJECT,
                                                   AT(wf_meta_pipeline, workflow),
                                                   .required = WF_ALL,
                                                   .object = &wf_schema_workflow},
                                                  END};
static const wf_schema_object pipeline = {"pipeline", sizeof(wf_meta_pipeline),
                                          .removed = pipeline_removed, .fields = pipeline_fields};
static const wf_schema_field root_fields[] = {
    TEXT(wf_metadata, schema_version),
    {.name = "required_capabilities", WF_FIELD_SET, AT(wf_metadata, required_capabilities)},
    {.name = "model", WF_FIELD_OBJECT, AT(wf_metadata, model), .object = &wf_schema_model},
    {.name = "quantization", WF_FIELD_NODE, AT(wf_metadata, quantization)},
    {.name = "pipeline", WF_FIELD_OBJECT, AT(wf_metadata, pipeline), .object = &pipeline},
    {.name = "adapters", WF_FIELD_OBJECT, AT(wf_metadata, adapters), .object = &wf_schema_adapters},
    {.name = "hardware_requirements", WF_FIELD_NODE, AT(wf_metadata, hardware_requirements)},
    {.name = "preprocessing",
     WF_FIELD_OBJECT,
     AT(wf_metadata, preprocessing),
     .object = &wf_schema_preprocessing},
    {.name = "package", WF_FIELD_OBJECT, AT(wf_metadata, package), .object = &wf_schema_package},
    {.name = "generation",
     WF_FIELD_OBJECT,
     AT(wf_metadata, generation),
     .object = &wf_schema_generation},
    {.name = "profiles", WF_FIELD_MAP, AT(wf_metadata, profiles), .object = &wf_schema_profile},
    {.name = "speculative",
     WF_FIELD_OBJECT,
     AT(wf_metadata, speculative),
     .object = &wf_schema_speculative},
    END};
const wf_schema_object wf_schema_root = {"inference_metadata", sizeof(wf_metadata),
                                         .removed = no_kv_cache, .fields = root_fields};
