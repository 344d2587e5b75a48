/* SPDX-License-Identifier: Apache-2.0 */
/* The workflow's part of metadata.h, and what all parts are made of: heads, lists, texts. */
#ifndef WF_PACKAGE_METADATA_WORKFLOW_H
#define WF_PACKAGE_METADATA_WORKFLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "onnx/onnx.h"
#include "package/document.h"

#define WF_META_ABSENT INT64_MIN

/* Where an object stands; printed as "pipeline.workflow.steps[2]". */
typedef struct wf_meta_at {
  const struct wf_meta_at *up;
  const char *key; /* NULL: index counts */
  size_t index;
  const wf_doc_node *node;
} wf_meta_at;

typedef struct wf_meta_head {
  const char *name; /* NULL: not an entry of a map */
  const wf_meta_at *at;
} wf_meta_head;

/* LIST and MAP alike: n objects one after another. */
#define WF_META_LIST(type) \
  struct {                 \
    size_t n;              \
    const type *at;        \
  }
typedef struct wf_meta_texts {
  size_t n;
  const char *const *at;
} wf_meta_texts; /* a set is sorted and without doubles */
typedef WF_META_LIST(int64_t) wf_meta_ints;
typedef WF_META_LIST(double) wf_meta_floats;
typedef struct wf_meta_pair {
  wf_meta_head head;
  const char *text;
} wf_meta_pair;
typedef WF_META_LIST(wf_meta_pair) wf_meta_pairs;

typedef struct wf_meta_dim {
  int64_t extent; /* when symbol is NULL */
  const char *symbol;
} wf_meta_dim;

typedef enum wf_meta_layout_kind {
  WF_META_SHARED,
  WF_META_REQUEST_ALIGNED,
  WF_META_REQUEST_EXPANDED,
  WF_META_TOKEN_PACKED,
  WF_META_RUNTIME_SEQUENCE_STATE
} wf_meta_layout_kind;

typedef struct wf_meta_layout {
  wf_meta_head head;
  int kind; /* wf_meta_layout_kind */
  int64_t axis, factor;
  const char *offsets, *owner;
} wf_meta_layout;

typedef struct wf_meta_contract {
  wf_meta_head head;
  const char *dtype_text;
  wf_dtype dtype; /* UNDEFINED: the text names none */
  int64_t rank;
  bool has_shape, is_optional;
  WF_META_LIST(wf_meta_dim) shape;
  const wf_meta_layout *batch_layout; /* NULL: shared */
} wf_meta_contract;
typedef WF_META_LIST(wf_meta_contract) wf_meta_contracts;

typedef struct wf_meta_literal_item {
  wf_doc_kind kind; /* BOOL, INT, FLOAT or STRING */
  int64_t i;        /* also of a bool */
  double f;
  const char *text;
} wf_meta_literal_item;
typedef struct wf_meta_literal {
  bool is_list;
  size_t n; /* 0: none */
  const wf_meta_literal_item *items;
} wf_meta_literal;

/* ---- inputs and outputs -----------------------------------------------------------------------
 */

typedef enum wf_meta_role {
  WF_META_ROLE_PROMPT_TEXT,
  WF_META_ROLE_PROMPT_TOKENS,
  WF_META_ROLE_NEGATIVE_PROMPT_TEXT,
  WF_META_ROLE_NEGATIVE_PROMPT_TOKENS,
  WF_META_ROLE_MEDIA,
  WF_META_ROLE_MAX_ITERATIONS,
  WF_META_ROLE_MAX_OUTPUT_TOKENS,
  WF_META_ROLE_SEED,
  WF_META_ROLE_GUIDANCE_SCALE,
  WF_META_ROLE_WIDTH,
  WF_META_ROLE_HEIGHT,
  WF_META_ROLE_DENOISING_STRENGTH,
  WF_META_ROLE_SAMPLING_TEMPERATURE,
  WF_META_ROLE_SAMPLING_TOP_K,
  WF_META_ROLE_SAMPLING_TOP_P,
  WF_META_ROLE_SAMPLING_MIN_P,
  WF_META_ROLE_CONSTRAINT,
  WF_META_ROLE_SESSION_ID,
  WF_META_ROLE_ROW_SELECTION,
  WF_META_ROLE_ADAPTER_SEGMENTS,
  WF_META_ROLE_ADAPTER_COUNTS,
  WF_META_ROLE_ADAPTER_SCALES,
  WF_META_ROLE_ADAPTER_ACTIVE
} wf_meta_role;

enum { WF_META_RUNTIME, WF_META_OPAQUE }; /* kind of an input's role */
typedef struct wf_meta_input_role {
  wf_meta_head head;
  int kind;
  const char *version;
  int role; /* wf_meta_role; only when kind is RUNTIME */
} wf_meta_input_role;

enum { WF_META_REQUEST, WF_META_APPLICATION, WF_META_LITERAL, WF_META_ARTIFACT };
typedef struct wf_meta_source {
  wf_meta_head head;
  int kind;
  const char *name, *path;
} wf_meta_source;

typedef struct wf_meta_input {
  wf_meta_head head;
  const wf_meta_contract *contract;
  const wf_meta_input_role *role;
  const wf_meta_source *source;
  bool is_required, is_externally_suppliable;
  wf_meta_literal default_value;
  const char *present_as;
} wf_meta_input;

enum {
  WF_META_TOKENS,
  WF_META_TEXT,
  WF_META_IMAGE,
  WF_META_VIDEO,
  WF_META_AUDIO,
  WF_META_TENSOR,
  WF_META_EVENT
};
enum { WF_META_PRE_ADAPTER, WF_META_POST_ADAPTER };
enum { WF_META_RAW, WF_META_WAV };
enum { WF_META_PCM_S16_LE, WF_META_PCM_F32_LE };
enum { WF_META_BUFFERED, WF_META_STREAMING };
typedef struct wf_meta_media {
  wf_meta_head head;
  int container, encoding, delivery;
  int64_t sample_rate_hz, source_sample_rate_hz, channels;
} wf_meta_media;
typedef struct wf_meta_output {
  wf_meta_head head;
  const wf_meta_contract *contract;
  int role, stage;
  int value_range; /* -1: absent; zero_to_one, negative_one_to_one, zero_to_255 */
  const wf_meta_media *media;
} wf_meta_output;

/* ---- components -------------------------------------------------------------------------------
 */

enum { WF_META_ONNX, WF_META_ADAPTER, WF_META_BINDING };
typedef struct wf_meta_implementation {
  wf_meta_head head;
  int kind;
  const char *artifact, *abi, *version;
} wf_meta_implementation;

typedef struct wf_meta_ports {
  wf_meta_head head;
  wf_meta_contracts inputs, outputs;
  WF_META_LIST(struct wf_meta_port_role) roles;
} wf_meta_ports;
enum {
  WF_META_PORT_TOKEN_IDS,
  WF_META_PORT_INPUTS_EMBEDS,
  WF_META_PORT_ATTENTION_MASK,
  WF_META_PORT_POSITION_IDS,
  WF_META_PORT_LOGITS,
  WF_META_PORT_HIDDEN_STATES,
  WF_META_PORT_ENCODER_HIDDEN_STATES,
  WF_META_PORT_AUDIO_FEATURES
};
typedef struct wf_meta_port_role {
  wf_meta_head head; /* the port */
  int role;
} wf_meta_port_role;

enum { WF_META_BITWISE, WF_META_DISTRIBUTION_PRESERVING, WF_META_SEMANTIC };
typedef struct wf_meta_parameter {
  wf_meta_head head;
  wf_meta_literal value;
} wf_meta_parameter;
typedef struct wf_meta_semantic_contract {
  wf_meta_head head;
  const char *id, *version;
  int equivalence;
  wf_meta_pairs bindings; /* role -> port */
  WF_META_LIST(wf_meta_parameter) parameters;
} wf_meta_semantic_contract;

typedef struct wf_meta_row_scope {
  wf_meta_head head;
  int64_t axis;
  bool is_stateful;
} wf_meta_row_scope;

/* What admission read from a component's ONNX file. */
typedef struct wf_meta_graph {
  const char *path;                  /* canonical */
  wf_meta_contracts inputs, outputs; /* sorted; no layout is stated by a graph */
  wf_meta_texts defaulted;           /* inputs that an initializer fills */
  wf_meta_texts initializers;
} wf_meta_graph;

typedef struct wf_meta_component {
  wf_meta_head head;
  const wf_meta_implementation *implementation;
  const wf_meta_ports *ports; /* NULL: none declared */
  const wf_meta_semantic_contract *contract;
  bool is_overridable;
  wf_meta_texts effects; /* a list */
  const wf_meta_row_scope *row_scope;
  wf_meta_texts cache_affects_state;
  const wf_meta_graph *graph; /* NULL: no ONNX component, or not admitted */
} wf_meta_component;

/* ---- state ------------------------------------------------------------------------------------
 */

enum { WF_META_INVARIANT, WF_META_GROWING, WF_META_BOUNDED };
typedef struct wf_meta_recurrence {
  wf_meta_head head;
  int kind;
  int64_t axis;
  const char *increment, *max;
} wf_meta_recurrence;
enum { WF_META_CLASS_SEMANTIC, WF_META_CLASS_ADVISORY };
enum { WF_META_SCOPE_INVOCATION, WF_META_SCOPE_SESSION };
enum { WF_META_MANAGED_WORKFLOW, WF_META_MANAGED_RUNTIME, WF_META_MANAGED_EXTERNAL };
enum { WF_META_RELEASE_INVOCATION, WF_META_RELEASE_SESSION, WF_META_RELEASE_ROW };
enum { WF_META_EXCLUSIVE, WF_META_COPY_ON_WRITE };
typedef struct wf_meta_session {
  wf_meta_head head;
  int policy;
  int64_t ttl_seconds;
  bool optimistic_metadata_version;
} wf_meta_session;
typedef struct wf_meta_cell {
  wf_meta_head head;
  const wf_meta_contract *contract;
  int class, scope, management;
  int release_boundary; /* -1: absent */
  const char *initializer, *service_group;
  const wf_meta_recurrence *recurrence;
  const wf_meta_session *session;
} wf_meta_cell;

enum { WF_META_SAFETY_NONE, WF_META_SAFETY_CLONABLE, WF_META_SAFETY_REWINDABLE };
typedef struct wf_meta_safety {
  wf_meta_head head;
  int kind;
  int64_t max_depth;
} wf_meta_safety;
typedef struct wf_meta_effect {
  wf_meta_head head;
  int retry; /* pure, idempotent, transactional, non_retryable */
  const wf_meta_safety *speculation_safety;
} wf_meta_effect;

enum {
  WF_META_FULL_ATTENTION,
  WF_META_SLIDING_ATTENTION,
  WF_META_MULTI_LATENT_ATTENTION,
  WF_META_RECURRENT,
  WF_META_CROSS_ATTENTION,
  WF_META_ENCODER
};
enum { WF_META_ALIAS_FORBIDDEN, WF_META_ALIAS_PERMITTED, WF_META_ALIAS_REQUIRED };
enum { WF_META_APPEND, WF_META_REPLACE, WF_META_INDEXED_SCATTER };
enum { WF_META_READ_WRITE, WF_META_READ_ONLY };
enum { WF_META_KEY, WF_META_VALUE, WF_META_COMBINED };
typedef struct wf_meta_update {
  wf_meta_head head;
  int kind;
  const char *write_indices, *capacity;
  wf_meta_pairs write_indices_ports, kv_length_ports;
} wf_meta_update;
typedef struct wf_meta_reuse {
  wf_meta_head head;
  bool prefix_reusable, evictable_prefix;
} wf_meta_reuse;
typedef struct wf_meta_group_capabilities {
  wf_meta_head head;
  int64_t rollback_positions; /* ABSENT: cannot roll back */
  bool snapshot, fork;
  wf_meta_texts cascade;
} wf_meta_group_capabilities;
typedef struct wf_meta_checkpoint {
  wf_meta_head head;
  const char *adapter, *version;
} wf_meta_checkpoint;
typedef struct wf_meta_alias {
  wf_meta_head head; /* the cell */
  const char *input, *output;
  int access;
  int role; /* -1: absent */
  int64_t layer;
} wf_meta_alias;
typedef struct wf_meta_group_ports {
  wf_meta_head head; /* the component */
  WF_META_LIST(wf_meta_alias) cells;
} wf_meta_group_ports;
typedef struct wf_meta_group {
  wf_meta_head head;
  int kind, aliasing;
  const char *layout, *logical_lengths, *total_length;
  int64_t sequence_axis;
  const wf_meta_update *update; /* NULL: append */
  const wf_meta_reuse *reuse;
  const wf_meta_group_capabilities *capabilities;
  const wf_meta_checkpoint *checkpoint;
  WF_META_LIST(wf_meta_group_ports) ports;
} wf_meta_group;
typedef struct wf_meta_state_service {
  wf_meta_head head;
  WF_META_LIST(wf_meta_group) groups;
} wf_meta_state_service;
typedef struct wf_meta_serving {
  wf_meta_head head;
  const char *active, *done, *accepted_len;
  const wf_meta_state_service *state_service;
} wf_meta_serving;

/* ---- steps ------------------------------------------------------------------------------------
 */

typedef struct wf_meta_step wf_meta_step;
typedef WF_META_LIST(wf_meta_step) wf_meta_steps;

typedef struct wf_meta_iteration {
  wf_meta_head head;
  const char *value;
  const wf_meta_contract *contract;
} wf_meta_iteration;
typedef struct wf_meta_carry {
  wf_meta_head head;
  const char *cell, *initial, *next;
} wf_meta_carry;
typedef struct wf_meta_phi {
  wf_meta_head head;
  wf_meta_pairs cases;
  const char *default_value;
} wf_meta_phi;

enum { WF_META_SEQUENCE, WF_META_INVOKE, WF_META_LOOP, WF_META_BRANCH, WF_META_EMIT };
enum { WF_META_TERMINATION_PREDICATE, WF_META_TERMINATION_GENERATION_EOS };
enum { WF_META_EMIT_REPLACE, WF_META_EMIT_APPEND, WF_META_EMIT_EVENT };
struct wf_meta_step {
  wf_meta_head head; /* the name: a branch's case */
  int kind;
  wf_meta_steps steps; /* sequence, loop */
  /* invoke */
  const char *component;
  wf_meta_pairs inputs, outputs; /* port -> value */
  /* loop */
  wf_meta_steps setup;
  const char *continue_when, *max_iterations;
  int termination;
  const wf_meta_iteration *iteration;
  WF_META_LIST(wf_meta_carry) carried;
  /* branch */
  const char *predicate;
  WF_META_LIST(wf_meta_step) cases;
  const wf_meta_step *default_step;
  WF_META_LIST(wf_meta_phi) phis;
  /* emit */
  const char *value, *output, *when, *valid_length;
  int mode;
  int64_t axis;
};

typedef struct wf_meta_manifest {
  wf_meta_head head;
  wf_meta_pairs adapter_abis;
  wf_meta_texts capabilities;
} wf_meta_manifest;

typedef struct wf_meta_workflow {
  wf_meta_head head;
  const wf_meta_manifest *manifest;
  WF_META_LIST(wf_meta_input) inputs;
  WF_META_LIST(wf_meta_output) outputs;
  WF_META_LIST(wf_meta_component) components;
  WF_META_LIST(wf_meta_cell) state;
  WF_META_LIST(wf_meta_effect) effects;
  const wf_meta_serving *serving;
  wf_meta_steps steps;
} wf_meta_workflow;

#endif
