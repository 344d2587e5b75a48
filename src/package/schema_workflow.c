/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of everything under pipeline.workflow (docs/format.md §3, §5, §6, §9). */
#include "package/schema.h"

#define AT(type, member) (uint32_t) offsetof(type, member)
#define END \
  { .name = NULL }

static const wf_schema_field layout_fields[] = {
    {.name = "kind",
     WF_FIELD_ENUM,
     AT(wf_meta_layout, kind),
     .required = WF_ALL,
     .words = "shared|request_aligned|request_expanded|token_packed|runtime_sequence_state"},
    {.name = "axis", WF_FIELD_INT, AT(wf_meta_layout, axis), 0xe, 0xe, .hi = INT32_MAX},
    {.name = "factor",
     WF_FIELD_INT,
     AT(wf_meta_layout, factor),
     0x4,
     0x4,
     .hi = INT32_MAX,
     .fallback = 1},
    {.name = "offsets", WF_FIELD_TEXT, AT(wf_meta_layout, offsets), 0x8, 0x8},
    {.name = "owner", WF_FIELD_TEXT, AT(wf_meta_layout, owner), 0x8, 0x8},
    END};
static const wf_schema_object layout = {"batch_layout", sizeof(wf_meta_layout),
                                        .fields = layout_fields};

static const wf_schema_field contract_fields[] = {
    {.name = "dtype", WF_FIELD_DTYPE, AT(wf_meta_contract, dtype_text), .required = WF_ALL},
    {.name = "rank", WF_FIELD_INT, AT(wf_meta_contract, rank), .required = WF_ALL, .hi = INT32_MAX},
    {.name = "shape", WF_FIELD_SHAPE, AT(wf_meta_contract, shape)},
    {.name = "optional", WF_FIELD_BOOL, AT(wf_meta_contract, is_optional)},
    {.name = "batch_layout",
     WF_FIELD_OBJECT,
     AT(wf_meta_contract, batch_layout),
     .object = &layout},
    END};
const wf_schema_object wf_schema_contract = {"tensor_contract", sizeof(wf_meta_contract),
                                             .fields = contract_fields};

static const wf_schema_field role_fields[] = {
    {.name = "kind",
     WF_FIELD_ENUM,
     AT(wf_meta_input_role, kind),
     .required = WF_ALL,
     .words = "runtime|opaque"},
    {.name = "version", WF_FIELD_TEXT, AT(wf_meta_input_role, version), 0x1, 0x1},
    {.name = "role",
     WF_FIELD_ENUM,
     AT(wf_meta_input_role, role),
     0x1,
     0x1,
     .fallback = -1,
     .words = "prompt_text|prompt_tokens|negative_prompt_text|negative_prompt_tokens|media|"
              "max_iterations|max_output_tokens|seed|guidance_scale|width|height|"
              "denoising_strength|sampling_temperature|sampling_top_k|sampling_top_p|"
              "sampling_min_p|constraint|session_id|row_selection|adapter_segments|"
              "adapter_counts|adapter_scales|adapter_active"},
    END};
static const wf_schema_object role = {"input_role", sizeof(wf_meta_input_role),
                                      .fields = role_fields};

static const wf_schema_field source_fields[] = {
    {.name = "kind",
     WF_FIELD_ENUM,
     AT(wf_meta_source, kind),
     .required = WF_ALL,
     .words = "request|application|literal|artifact"},
    {.name = "name", WF_FIELD_TEXT, AT(wf_meta_source, name), 0x2, 0x2},
    {.name = "path", WF_FIELD_TEXT, AT(wf_meta_source, path), 0x8, 0x8},
    END};
static const wf_schema_object source = {"input_source", sizeof(wf_meta_source),
                                        .fields = source_fields};

static const wf_schema_field input_fields[] = {
    {.name = "contract",
     WF_FIELD_OBJECT,
     AT(wf_meta_input, contract),
     .required = WF_ALL,
     .object = &wf_schema_contract},
    {.name = "role", WF_FIELD_OBJECT, AT(wf_meta_input, role), .required = WF_ALL, .object = &role},
    {.name = "source",
     WF_FIELD_OBJECT,
     AT(wf_meta_input, source),
     .required = WF_ALL,
     .object = &source},
    {.name = "required", WF_FIELD_BOOL, AT(wf_meta_input, is_required), .fallback = 1},
    {.name = "default", WF_FIELD_LITERAL, AT(wf_meta_input, default_value)},
    {.name = "present_as", WF_FIELD_TEXT, AT(wf_meta_input, present_as)},
    {.name = "externally_suppliable", WF_FIELD_BOOL, AT(wf_meta_input, is_externally_suppliable)},
    END};
static const wf_schema_object input = {"workflow_input", sizeof(wf_meta_input),
                                       .fields = input_fields};

static const wf_schema_field media_fields[] = {
    {.name = "container",
     WF_FIELD_ENUM,
     AT(wf_meta_media, container),
     .required = WF_ALL,
     .words = "raw|wav"},
    {.name = "encoding",
     WF_FIELD_ENUM,
     AT(wf_meta_media, encoding),
     .required = WF_ALL,
     .words = "pcm_s16_le|pcm_f32_le"},
    {.name = "sample_rate_hz",
     WF_FIELD_INT,
     AT(wf_meta_media, sample_rate_hz),
     .required = WF_ALL,
     .hi = UINT32_MAX},
    {.name = "source_sample_rate_hz",
     WF_FIELD_INT,
     AT(wf_meta_media, source_sample_rate_hz),
     .hi = UINT32_MAX,
     .fallback = WF_META_ABSENT},
    {.name = "channels",
     WF_FIELD_INT,
     AT(wf_meta_media, channels),
     .required = WF_ALL,
     .hi = UINT16_MAX},
    {.name = "delivery", WF_FIELD_ENUM, AT(wf_meta_media, delivery), .words = "buffered|streaming"},
    END};
static const wf_schema_object media = {"media", sizeof(wf_meta_media), .fields = media_fields};

static const wf_schema_field output_fields[] = {
    {.name = "contract",
     WF_FIELD_OBJECT,
     AT(wf_meta_output, contract),
     .required = WF_ALL,
     .object = &wf_schema_contract},
    {.name = "role",
     WF_FIELD_ENUM,
     AT(wf_meta_output, role),
     .required = WF_ALL,
     .words = "tokens|text|image|video|audio|tensor|event"},
    {.name = "stage",
     WF_FIELD_ENUM,
     AT(wf_meta_output, stage),
     .required = WF_ALL,
     .words = "pre_adapter|post_adapter"},
    {.name = "value_range",
     WF_FIELD_ENUM,
     AT(wf_meta_output, value_range),
     .fallback = -1,
     .words = "zero_to_one|negative_one_to_one|zero_to_255"},
    {.name = "media", WF_FIELD_OBJECT, AT(wf_meta_output, media), .object = &media},
    END};
static const wf_schema_object output = {"workflow_output", sizeof(wf_meta_output),
                                        .fields = output_fields};

static const wf_schema_field implementation_fields[] = {
    {.name = "kind",
     WF_FIELD_ENUM,
     AT(wf_meta_implementation, kind),
     .required = WF_ALL,
     .words = "onnx|adapter|binding"},
    {.name = "artifact", WF_FIELD_TEXT, AT(wf_meta_implementation, artifact), 0x3, 0x1},
    {.name = "abi", WF_FIELD_TEXT, AT(wf_meta_implementation, abi), 0x2, 0x2},
    {.name = "version", WF_FIELD_TEXT, AT(wf_meta_implementation, version), 0x2, 0x2},
    END};
static const wf_schema_removed implementation_removed[] = {{"location", "write 'artifact'"},
                                                           {NULL, NULL}};
static const wf_schema_object implementation = {"implementation", sizeof(wf_meta_implementation),
                                                .removed = implementation_removed,
                                                .fields = implementation_fields};

static const wf_schema_field port_role_fields[] = {
    {.name = "role",
     WF_FIELD_ENUM,
     AT(wf_meta_port_role, role),
     .required = WF_ALL,
     .words = "token_ids|inputs_embeds|attention_mask|position_ids|logits|hidden_states|"
              "encoder_hidden_states|audio_features"},
    END};
static const wf_schema_object port_role = {"port_role", sizeof(wf_meta_port_role),
                                           .scalar_of = "role", .fields = port_role_fields};

static const wf_schema_field ports_fields[] = {
    {.name = "inputs", WF_FIELD_MAP, AT(wf_meta_ports, inputs), .object = &wf_schema_contract},
    {.name = "outputs", WF_FIELD_MAP, AT(wf_meta_ports, outputs), .object = &wf_schema_contract},
    {.name = "roles", WF_FIELD_MAP, AT(wf_meta_ports, roles), .object = &port_role},
    END};
static const wf_schema_object ports = {"component_ports", sizeof(wf_meta_ports),
                                       .fields = ports_fields};

static const wf_schema_field parameter_fields[] = {
    {.name = "value", WF_FIELD_SCALAR, AT(wf_meta_parameter, value), .required = WF_ALL}, END};
static const wf_schema_object parameter = {"parameter", sizeof(wf_meta_parameter),
                                           .scalar_of = "value", .fields = parameter_fields};

static const wf_schema_field semantic_fields[] = {
    {.name = "id", WF_FIELD_TEXT, AT(wf_meta_semantic_contract, id), .required = WF_ALL},
    {.name = "version", WF_FIELD_TEXT, AT(wf_meta_semantic_contract, version), .required = WF_ALL},
    {.name = "equivalence",
     WF_FIELD_ENUM,
     AT(wf_meta_semantic_contract, equivalence),
     .fallback = WF_META_SEMANTIC,
     .words = "bitwise|distribution_preserving|semantic"},
    {.name = "bindings", WF_FIELD_PAIRS, AT(wf_meta_semantic_contract, bindings)},
    {.name = "parameters",
     WF_FIELD_MAP,
     AT(wf_meta_semantic_contract, parameters),
     .object = &parameter},
    END};
static const wf_schema_object semantic = {"semantic_contract", sizeof(wf_meta_semantic_contract),
                                          .fields = semantic_fields};

static const wf_schema_field row_scope_fields[] = {
    {.name = "axis",
     WF_FIELD_INT,
     AT(wf_meta_row_scope, axis),
     .required = WF_ALL,
     .hi = INT32_MAX},
    {.name = "stateful", WF_FIELD_BOOL, AT(wf_meta_row_scope, is_stateful)},
    END};
static const wf_schema_object row_scope = {"row_scope", sizeof(wf_meta_row_scope),
                                           .fields = row_scope_fields};

static const wf_schema_field component_fields[] = {
    {.name = "implementation",
     WF_FIELD_OBJECT,
     AT(wf_meta_component, implementation),
     .required = WF_ALL,
     .object = &implementation},
    {.name = "ports", WF_FIELD_OBJECT, AT(wf_meta_component, ports), .object = &ports},
    {.name = "contract", WF_FIELD_OBJECT, AT(wf_meta_component, contract), .object = &semantic},
    {.name = "application_overridable", WF_FIELD_BOOL, AT(wf_meta_component, is_overridable)},
    {.name = "effects", WF_FIELD_TEXTS, AT(wf_meta_component, effects)},
    {.name = "row_scope", WF_FIELD_OBJECT, AT(wf_meta_component, row_scope), .object = &row_scope},
    {.name = "cache_affects_state", WF_FIELD_SET, AT(wf_meta_component, cache_affects_state)},
    END};
static const wf_schema_object component = {"component", sizeof(wf_meta_component),
                                           .removed = implementation_removed,
                                           .fields = component_fields};

static const wf_schema_field recurrence_fields[] = {
    {.name = "kind",
     WF_FIELD_ENUM,
     AT(wf_meta_recurrence, kind),
     .required = WF_ALL,
     .words = "invariant|growing|bounded"},
    {.name = "axis", WF_FIELD_INT, AT(wf_meta_recurrence, axis), 0x6, 0x6, .hi = INT32_MAX},
    {.name = "increment", WF_FIELD_TEXT, AT(wf_meta_recurrence, increment), 0x2, 0x2},
    {.name = "max", WF_FIELD_TEXT, AT(wf_meta_recurrence, max), 0x6, 0x6},
    END};
static const wf_schema_object recurrence = {"recurrence", sizeof(wf_meta_recurrence),
                                            .fields = recurrence_fields};

static const wf_schema_field session_fields[] = {{.name = "policy",
                                                  WF_FIELD_ENUM,
                                                  AT(wf_meta_session, policy),
                                                  .words = "exclusive|copy_on_write"},
                                                 {.name = "ttl_seconds",
                                                  WF_FIELD_INT,
                                                  AT(wf_meta_session, ttl_seconds),
                                                  .hi = INT64_MAX,
                                                  .fallback = WF_META_ABSENT},
                                                 {.name = "optimistic_metadata_version",
                                                  WF_FIELD_BOOL,
                                                  AT(wf_meta_session, optimistic_metadata_version)},
                                                 END};
static const wf_schema_object session = {"session", sizeof(wf_meta_session),
                                         .fields = session_fields};

static const wf_schema_field cell_fields[] = {
    {.name = "contract",
     WF_FIELD_OBJECT,
     AT(wf_meta_cell, contract),
     .required = WF_ALL,
     .object = &wf_schema_contract},
    {.name = "class", WF_FIELD_ENUM, AT(wf_meta_cell, class), .words = "semantic|advisory"},
    {.name = "scope",
     WF_FIELD_ENUM,
     AT(wf_meta_cell, scope),
     .required = WF_ALL,
     .words = "invocation|session"},
    {.name = "initializer", WF_FIELD_TEXT, AT(wf_meta_cell, initializer), .required = WF_ALL},
    {.name = "recurrence",
     WF_FIELD_OBJECT,
     AT(wf_meta_cell, recurrence),
     .required = WF_ALL,
     .object = &recurrence},
    {.name = "management",
     WF_FIELD_ENUM,
     AT(wf_meta_cell, management),
     .words = "workflow|runtime|external"},
    {.name = "release_boundary",
     WF_FIELD_ENUM,
     AT(wf_meta_cell, release_boundary),
     .fallback = -1,
     .words = "invocation|session|row"},
    {.name = "service_group", WF_FIELD_TEXT, AT(wf_meta_cell, service_group)},
    {.name = "session", WF_FIELD_OBJECT, AT(wf_meta_cell, session), .object = &session},
    END};
static const wf_schema_object cell = {"state_cell", sizeof(wf_meta_cell), .fields = cell_fields};

static const wf_schema_field safety_fields[] = {
    {.name = "kind",
     WF_FIELD_ENUM,
     AT(wf_meta_safety, kind),
     .required = WF_ALL,
     .words = "none|clonable|rewindable"},
    {.name = "max_depth", WF_FIELD_INT, AT(wf_meta_safety, max_depth), 0x4, 0x4, .hi = UINT32_MAX},
    END};
static const wf_schema_object safety = {"speculation_safety", sizeof(wf_meta_safety),
                                        .fields = safety_fields};
static const wf_schema_field effect_fields[] = {
    {.name = "retry",
     WF_FIELD_ENUM,
     AT(wf_meta_effect, retry),
     .required = WF_ALL,
     .words = "pure|idempotent|transactional|non_retryable"},
    {.name = "speculation_safety",
     WF_FIELD_OBJECT,
     AT(wf_meta_effect, speculation_safety),
     .object = &safety},
    END};
static const wf_schema_object effect = {"effect", sizeof(wf_meta_effect), .fields = effect_fields};

static const wf_schema_field update_fields[] = {
    {.name = "kind",
     WF_FIELD_ENUM,
     AT(wf_meta_update, kind),
     .required = WF_ALL,
     .words = "append|replace|indexed_scatter"},
    {.name = "write_indices", WF_FIELD_TEXT, AT(wf_meta_update, write_indices), 0x4, 0x4},
    {.name = "capacity", WF_FIELD_TEXT, AT(wf_meta_update, capacity), 0x4, 0x4},
    {.name = "write_indices_ports", WF_FIELD_PAIRS, AT(wf_meta_update, write_indices_ports), 0x4},
    {.name = "kv_length_ports", WF_FIELD_PAIRS, AT(wf_meta_update, kv_length_ports), 0x4},
    END};
static const wf_schema_object update = {"state_update", sizeof(wf_meta_update),
                                        .fields = update_fields};
static const wf_schema_field reuse_fields[] = {
    {.name = "prefix_reusable", WF_FIELD_BOOL, AT(wf_meta_reuse, prefix_reusable)},
    {.name = "evictable_prefix", WF_FIELD_BOOL, AT(wf_meta_reuse, evictable_prefix)},
    END};
static const wf_schema_object reuse = {"state_reuse", sizeof(wf_meta_reuse),
                                       .fields = reuse_fields};
static const wf_schema_field group_capability_fields[] = {
    {.name = "rollback_positions",
     WF_FIELD_INT,
     AT(wf_meta_group_capabilities, rollback_positions),
     .hi = UINT32_MAX,
     .fallback = WF_META_ABSENT},
    {.name = "snapshot", WF_FIELD_BOOL, AT(wf_meta_group_capabilities, snapshot)},
    {.name = "fork", WF_FIELD_BOOL, AT(wf_meta_group_capabilities, fork)},
    {.name = "cascade", WF_FIELD_SET, AT(wf_meta_group_capabilities, cascade)},
    END};
static const wf_schema_object group_capabilities = {
    "group_capabilities", sizeof(wf_meta_group_capabilities), .fields = group_capability_fields};
static const wf_schema_field checkpoint_fields[] = {
    {.name = "adapter", WF_FIELD_NAME, AT(wf_meta_checkpoint, adapter), .required = WF_ALL},
    {.name = "version", WF_FIELD_NAME, AT(wf_meta_checkpoint, version), .required = WF_ALL},
    END};
static const wf_schema_object checkpoint = {"checkpoint", sizeof(wf_meta_checkpoint),
                                            .fields = checkpoint_fields};
static const wf_schema_field alias_fields[] = {
    {.name = "input", WF_FIELD_TEXT, AT(wf_meta_alias, input), .required = WF_ALL},
    {.name = "output", WF_FIELD_TEXT, AT(wf_meta_alias, output)},
    {.name = "access", WF_FIELD_ENUM, AT(wf_meta_alias, access), .words = "read_write|read_only"},
    {.name = "role",
     WF_FIELD_ENUM,
     AT(wf_meta_alias, role),
     .fallback = -1,
     .words = "key|value|combined"},
    {.name = "layer",
     WF_FIELD_INT,
     AT(wf_meta_alias, layer),
     .hi = UINT32_MAX,
     .fallback = WF_META_ABSENT},
    END};
static const wf_schema_object alias = {"state_alias", sizeof(wf_meta_alias),
                                       .fields = alias_fields};
static const wf_schema_field group_ports_fields[] = {
    {.name = "cells", WF_FIELD_MAP, AT(wf_meta_group_ports, cells), .object = &alias}, END};
static const wf_schema_object group_ports = {"group_ports", sizeof(wf_meta_group_ports),
                                             .scalar_of = "cells", .fields = group_ports_fields};
static const wf_schema_removed group_removed[] = {
    {"storage", "leave it out: storage is the runtime's"},
    {"paging", "leave it out: paging is the runtime's"},
    {"slot_allocation", "leave it out: slots are the runtime's"},
    {"shared_buffer", "write 'aliasing: permitted' or 'required'"},
    {NULL, NULL}};
static const wf_schema_field group_fields[] = {
    {.name = "kind",
     WF_FIELD_ENUM,
     AT(wf_meta_group, kind),
     .required = WF_ALL,
     .words = "full_attention|sliding_attention|multi_latent_attention|recurrent|"
              "cross_attention|encoder"},
    {.name = "layout", WF_FIELD_TEXT, AT(wf_meta_group, layout), .required = WF_ALL},
    {.name = "sequence_axis",
     WF_FIELD_INT,
     AT(wf_meta_group, sequence_axis),
     .hi = INT32_MAX,
     .fallback = WF_META_ABSENT},
    {.name = "logical_lengths", WF_FIELD_TEXT, AT(wf_meta_group, logical_lengths)},
    {.name = "aliasing",
     WF_FIELD_ENUM,
     AT(wf_meta_group, aliasing),
     .words = "forbidden|permitted|required"},
    {.name = "update", WF_FIELD_OBJECT, AT(wf_meta_group, update), .object = &update},
    {.name = "total_length", WF_FIELD_TEXT, AT(wf_meta_group, total_length)},
    {.name = "reuse", WF_FIELD_OBJECT, AT(wf_meta_group, reuse), .object = &reuse},
    {.name = "capabilities",
     WF_FIELD_OBJECT,
     AT(wf_meta_group, capabilities),
     .object = &group_capabilities},
    {.name = "checkpoint", WF_FIELD_OBJECT, AT(wf_meta_group, checkpoint), .object = &checkpoint},
    {.name = "ports", WF_FIELD_MAP, AT(wf_meta_group, ports), .object = &group_ports},
    END};
static const wf_schema_object group = {"state_group", sizeof(wf_meta_group),
                                       .removed = group_removed, .fields = group_fields};
static const wf_schema_field state_service_fields[] = {{.name = "groups",
                                                        WF_FIELD_MAP,
                                                        AT(wf_meta_state_service, groups),
                                                        .required = WF_ALL,
                                                        .object = &group},
                                                       END};
static const wf_schema_object state_service = {"state_service", sizeof(wf_meta_state_service),
                                               .fields = state_service_fields};
static const wf_schema_removed serving_removed[] = {
    {"slot_ids", "leave it out: rows are positional"},
    {"kv_service", "write 'state_service'"},
    {NULL, NULL}};
static const wf_schema_field serving_fields[] = {
    {.name = "active", WF_FIELD_TEXT, AT(wf_meta_serving, active), .required = WF_ALL},
    {.name = "done", WF_FIELD_TEXT, AT(wf_meta_serving, done), .required = WF_ALL},
    {.name = "accepted_len", WF_FIELD_TEXT, AT(wf_meta_serving, accepted_len)},
    {.name = "state_service",
     WF_FIELD_OBJECT,
     AT(wf_meta_serving, state_service),
     .object = &state_service},
    END};
static const wf_schema_object serving = {"serving", sizeof(wf_meta_serving),
                                         .removed = serving_removed, .fields = serving_fields};

static const wf_schema_field iteration_fields[] = {
    {.name = "value", WF_FIELD_TEXT, AT(wf_meta_iteration, value), .required = WF_ALL},
    {.name = "contract",
     WF_FIELD_OBJECT,
     AT(wf_meta_iteration, contract),
     .required = WF_ALL,
     .object = &wf_schema_contract},
    END};
static const wf_schema_object iteration = {"iteration", sizeof(wf_meta_iteration),
                                           .fields = iteration_fields};
static const wf_schema_field carry_fields[] = {
    {.name = "cell", WF_FIELD_TEXT, AT(wf_meta_carry, cell), .required = WF_ALL},
    {.name = "initial", WF_FIELD_TEXT, AT(wf_meta_carry, initial)},
    {.name = "next", WF_FIELD_TEXT, AT(wf_meta_carry, next), .required = WF_ALL},
    END};
static const wf_schema_object carry = {"carry", sizeof(wf_meta_carry), .fields = carry_fields};
static const wf_schema_field phi_fields[] = {
    {.name = "cases", WF_FIELD_PAIRS, AT(wf_meta_phi, cases), .required = WF_ALL},
    {.name = "default", WF_FIELD_TEXT, AT(wf_meta_phi, default_value)},
    END};
static const wf_schema_object phi = {"phi", sizeof(wf_meta_phi), .fields = phi_fields};

/* Variants: sequence 1, invoke 2, loop 4, branch 8, emit 16. `outputs` of a branch are phis, of an
 * invoke values: two rows of one name. */
static const wf_schema_object step;
static const wf_schema_removed step_removed[] = {
    {"row_ids", "leave it out: rows are positional"},
    {"condition", "write 'continue_when'"},
    {"transfer", "leave the step out: transfers are the planner's"},
    {NULL, NULL}};
static const wf_schema_field step_fields[] = {
    {.name = "kind",
     WF_FIELD_ENUM,
     AT(wf_meta_step, kind),
     .required = WF_ALL,
     .words = "sequence|invoke|loop|branch|emit"},
    {.name = "steps", WF_FIELD_LIST, AT(wf_meta_step, steps), 0x5, 0x5, .object = &step},
    {.name = "component", WF_FIELD_TEXT, AT(wf_meta_step, component), 0x2, 0x2},
    {.name = "inputs", WF_FIELD_PAIRS, AT(wf_meta_step, inputs), 0x2},
    {.name = "outputs", WF_FIELD_PAIRS, AT(wf_meta_step, outputs), 0x2},
    {.name = "setup", WF_FIELD_LIST, AT(wf_meta_step, setup), 0x4, .object = &step},
    {.name = "continue_when", WF_FIELD_TEXT, AT(wf_meta_step, continue_when), 0x4, 0x4},
    {.name = "max_iterations", WF_FIELD_TEXT, AT(wf_meta_step, max_iterations), 0x4, 0x4},
    {.name = "termination",
     WF_FIELD_ENUM,
     AT(wf_meta_step, termination),
     0x4,
     .words = "predicate|generation_eos"},
    {.name = "iteration", WF_FIELD_OBJECT, AT(wf_meta_step, iteration), 0x4, .object = &iteration},
    {.name = "carried", WF_FIELD_LIST, AT(wf_meta_step, carried), 0x4, .object = &carry},
    {.name = "predicate", WF_FIELD_TEXT, AT(wf_meta_step, predicate), 0x8, 0x8},
    {.name = "cases", WF_FIELD_MAP, AT(wf_meta_step, cases), 0x8, 0x8, .object = &step},
    {.name = "default", WF_FIELD_OBJECT, AT(wf_meta_step, default_step), 0x8, .object = &step},
    {.name = "outputs", WF_FIELD_MAP, AT(wf_meta_step, phis), 0x8, .object = &phi},
    {.name = "value", WF_FIELD_TEXT, AT(wf_meta_step, value), 0x10, 0x10},
    {.name = "output", WF_FIELD_TEXT, AT(wf_meta_step, output), 0x10, 0x10},
    {.name = "mode",
     WF_FIELD_ENUM,
     AT(wf_meta_step, mode),
     0x10,
     0x10,
     .words = "replace|append|event"},
    {.name = "when", WF_FIELD_TEXT, AT(wf_meta_step, when), 0x10},
    {.name = "valid_length", WF_FIELD_TEXT, AT(wf_meta_step, valid_length), 0x10},
    {.name = "axis",
     WF_FIELD_INT,
     AT(wf_meta_step, axis),
     0x10,
     .hi = INT32_MAX,
     .fallback = WF_META_ABSENT},
    END};
static const wf_schema_object step = {"step", sizeof(wf_meta_step), .removed = step_removed,
                                      .fields = step_fields};

static const wf_schema_field manifest_fields[] = {
    {.name = "adapter_abis", WF_FIELD_PAIRS, AT(wf_meta_manifest, adapter_abis)},
    {.name = "capabilities", WF_FIELD_SET, AT(wf_meta_manifest, capabilities)},
    END};
static const wf_schema_object manifest = {"manifest", sizeof(wf_meta_manifest),
                                          .fields = manifest_fields};

static const wf_schema_removed workflow_removed[] = {
    {"ir_version", "leave it out: schema_version covers the workflow"}, {NULL, NULL}};
static const wf_schema_field workflow_fields[] = {
    {.name = "manifest",
     WF_FIELD_OBJECT,
     AT(wf_meta_workflow, manifest),
     .required = WF_ALL,
     .object = &manifest},
    {.name = "inputs", WF_FIELD_MAP, AT(wf_meta_workflow, inputs), .object = &input},
    {.name = "outputs", WF_FIELD_MAP, AT(wf_meta_workflow, outputs), .object = &output},
    {.name = "components",
     WF_FIELD_MAP,
     AT(wf_meta_workflow, components),
     .required = WF_ALL,
     .object = &component},
    {.name = "state", WF_FIELD_MAP, AT(wf_meta_workflow, state), .object = &cell},
    {.name = "effects", WF_FIELD_MAP, AT(wf_meta_workflow, effects), .object = &effect},
    {.name = "serving", WF_FIELD_OBJECT, AT(wf_meta_workflow, serving), .object = &serving},
    {.name = "steps",
     WF_FIELD_LIST,
     AT(wf_meta_workflow, steps),
     .required = WF_ALL,
     .object = &step},
    END};
const wf_schema_object wf_schema_workflow = {
    "workflow", sizeof(wf_meta_workflow), .removed = workflow_removed, .fields = workflow_fields};
