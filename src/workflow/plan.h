/* SPDX-License-Identifier: Apache-2.0 */
/* The plan: a workflow compiled once. Owns: the steps, names turned into slots, contracts, what is
 * known of components, cells and groups. Never: anything that a run changes. It is built by
 * plan_build.c, then sealed: its arena's pages are read-only, only `const wf_plan *` leaves, and
 * any number of threads may read it. The count lives outside, in wf_plan_ref.
 *
 * SLOTS. Every name that the document defines (input, invoke output, phi, iteration value, carried
 * cell) is one slot; a pass has one value for each. Scopes need no run-time form: two names of two
 * scopes are two slots, and what is not visible has no slot to be read by. The slots that a loop's
 * body defines follow one another, so that an iteration's values are dropped together. */
#ifndef WF_WORKFLOW_PLAN_H
#define WF_WORKFLOW_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"
#include "onnx/onnx.h"

enum { WF_PLAN_MAX_RANK = 8 };

typedef struct wf_slot {
  int32_t v; /* < 0: none */
} wf_slot;
static inline bool wf_slot_is(wf_slot s) { return s.v >= 0; }

/* ---- contracts ----------------------------------------------------------------------------- */

typedef struct wf_plan_dim {
  int64_t extent; /* when symbol < 0 */
  int32_t symbol; /* index into the table the contract belongs to: the plan's or a component's */
} wf_plan_dim;

typedef enum wf_layout_kind {
  WF_LAYOUT_SHARED,
  WF_LAYOUT_ALIGNED,
  WF_LAYOUT_EXPANDED,
  WF_LAYOUT_TOKEN_PACKED,
  WF_LAYOUT_RUNTIME
} wf_layout_kind;

typedef struct wf_plan_contract {
  wf_dtype dtype; /* UNDEFINED: nothing declared, nothing checked */
  int32_t rank;
  bool has_shape, is_optional;
  wf_plan_dim dims[WF_PLAN_MAX_RANK];
  wf_layout_kind layout;
  int32_t axis;   /* of requests, for ALIGNED and EXPANDED */
  int64_t factor; /* 1 but for EXPANDED */
} wf_plan_contract;

static inline bool wf_contract_has_rows(const wf_plan_contract *c) {
  return c->layout == WF_LAYOUT_ALIGNED || c->layout == WF_LAYOUT_EXPANDED;
}

typedef struct wf_plan_symbol {
  const char *name;
  bool is_dynamic; /* varies along a state cell's axis: neither bound nor checked */
} wf_plan_symbol;

/* ---- inputs and outputs -------------------------------------------------------------------- */

typedef enum wf_input_role {
  WF_ROLE_OPAQUE,
  WF_ROLE_PROMPT_TEXT,
  WF_ROLE_PROMPT_TOKENS,
  WF_ROLE_NEGATIVE_PROMPT_TEXT,
  WF_ROLE_NEGATIVE_PROMPT_TOKENS,
  WF_ROLE_MEDIA,
  WF_ROLE_MAX_ITERATIONS,
  WF_ROLE_MAX_OUTPUT_TOKENS,
  WF_ROLE_SEED,
  WF_ROLE_GUIDANCE_SCALE,
  WF_ROLE_WIDTH,
  WF_ROLE_HEIGHT,
  WF_ROLE_DENOISING_STRENGTH,
  WF_ROLE_TEMPERATURE,
  WF_ROLE_TOP_K,
  WF_ROLE_TOP_P,
  WF_ROLE_MIN_P,
  WF_ROLE_CONSTRAINT,
  WF_ROLE_SESSION_ID,
  WF_ROLE_ROW_SELECTION,
  WF_ROLE_ADAPTER_SEGMENTS,
  WF_ROLE_ADAPTER_COUNTS,
  WF_ROLE_ADAPTER_SCALES,
  WF_ROLE_ADAPTER_ACTIVE
} wf_input_role;

typedef enum wf_input_source {
  WF_SOURCE_REQUEST,
  WF_SOURCE_APPLICATION,
  WF_SOURCE_LITERAL,
  WF_SOURCE_ARTIFACT
} wf_input_source;

/* A scalar or a flat list of them; what fills a tensor when nobody supplies it. */
typedef enum wf_literal_kind {
  WF_LITERAL_NONE,
  WF_LITERAL_BOOL,
  WF_LITERAL_INT,
  WF_LITERAL_FLOAT
} wf_literal_kind;
typedef struct wf_plan_literal {
  wf_literal_kind kind;
  bool is_list;
  size_t n;
  const int64_t *ints; /* BOOL and INT */
  const double *floats;
} wf_plan_literal;

typedef struct wf_plan_input {
  const char *name, *source_name; /* source_name: of an application input */
  wf_plan_contract contract;
  wf_input_role role;
  wf_input_source source;
  bool is_required;
  wf_plan_literal literal;
  const void *artifact; /* of ARTIFACT: the tensor's bytes, at artifact_dims */
  size_t artifact_bytes;
  const int64_t *artifact_dims; /* [contract.rank] */
  wf_slot slot, present;        /* present: bool, was it supplied; none without present_as */
} wf_plan_input;

typedef enum wf_output_role {
  WF_OUTPUT_TOKENS,
  WF_OUTPUT_TEXT,
  WF_OUTPUT_IMAGE,
  WF_OUTPUT_VIDEO,
  WF_OUTPUT_AUDIO,
  WF_OUTPUT_TENSOR,
  WF_OUTPUT_EVENT
} wf_output_role;

typedef struct wf_plan_output {
  const char *name;
  wf_plan_contract contract;
  wf_output_role role;
  bool is_row_wise; /* some emit of it has a guard or a length */
} wf_plan_output;

/* ---- components ---------------------------------------------------------------------------- */

typedef enum wf_component_kind {
  WF_COMPONENT_ONNX,
  WF_COMPONENT_ADAPTER,
  WF_COMPONENT_BINDING
} wf_component_kind;

typedef struct wf_plan_port {
  const char *name;
  wf_plan_contract contract; /* symbols: the component's own table */
} wf_plan_port;

/* What must hold before a component writes into a cache of fixed capacity (RUN-SC). */
typedef struct wf_plan_scatter {
  int32_t group;
  wf_slot capacity;
  const char *destinations, *lengths; /* the component's ports; lengths NULL without key/value */
  size_t n_buffers;
  const char *const *buffers; /* input ports */
  int32_t axis;
} wf_plan_scatter;

/* A semantic role of the component's contract. */
typedef struct wf_plan_role {
  const char *name;
  bool is_output;
  int32_t port;
} wf_plan_role;

typedef struct wf_plan_component {
  const char *name;
  wf_component_kind kind;
  const char *artifact; /* canonical path of the ONNX file */
  const char *abi, *version, *action;
  const struct wf_adapter *adapter; /* of ADAPTER */
  size_t n_inputs, n_outputs;       /* declared, or inferred from the graph */
  const wf_plan_port *inputs, *outputs;
  size_t n_symbols;
  const char *const *symbols;
  bool is_overridable, has_declared_ports;
  const char *contract_id, *contract_version; /* NULL: no contract */
  size_t n_roles;
  const wf_plan_role *roles;
  size_t n_effects;
  const char *const *effects;
  size_t n_scatters;
  const wf_plan_scatter *scatters;
} wf_plan_component;

/* ---- state --------------------------------------------------------------------------------- */

typedef enum wf_recurrence_kind {
  WF_RECURRENCE_INVARIANT,
  WF_RECURRENCE_GROWING,
  WF_RECURRENCE_BOUNDED
} wf_recurrence_kind;

typedef struct wf_plan_cell {
  const char *name;
  wf_plan_contract contract;
  bool is_advisory, is_session;
  wf_recurrence_kind recurrence;
  int32_t axis;        /* that varies */
  int32_t group;       /* -1: none */
  wf_slot initializer; /* where no loop carries it: what a session keeps */
} wf_plan_cell;

/* ---- steps --------------------------------------------------------------------------------- */

typedef struct wf_plan_step wf_plan_step;

typedef enum wf_step_kind {
  WF_STEP_SEQUENCE,
  WF_STEP_INVOKE,
  WF_STEP_LOOP,
  WF_STEP_BRANCH,
  WF_STEP_EMIT
} wf_step_kind;

typedef struct wf_plan_binding {
  int32_t port; /* index into the component's ports */
  wf_slot slot;
} wf_plan_binding;

typedef struct wf_plan_carry {
  int32_t cell;
  wf_slot slot;           /* the cell's name inside the loop and after it */
  wf_slot initial, next;  /* initial: `initial` or the cell's initializer */
  wf_slot increment, max; /* of growing and bounded cells */
} wf_plan_carry;

typedef struct wf_plan_case {
  const char *key;
  const wf_plan_step *step;
} wf_plan_case;

typedef struct wf_plan_phi {
  wf_slot slot;
  const wf_slot *sources; /* [n_cases], then the default's */
} wf_plan_phi;

typedef enum wf_emit_mode { WF_EMIT_REPLACE, WF_EMIT_APPEND, WF_EMIT_EVENT } wf_emit_mode;

struct wf_plan_step {
  wf_step_kind kind;
  const char *path; /* "steps[2].steps[0]" */
  union {
    struct {
      size_t n;
      const wf_plan_step *const *steps;
    } sequence;
    struct {
      int32_t component;
      size_t n_inputs, n_outputs;
      const wf_plan_binding *inputs, *outputs;
    } invoke;
    struct {
      const wf_plan_step *setup, *body; /* sequences; setup may be empty */
      wf_slot continue_when, max_iterations, iteration;
      wf_plan_contract iteration_contract;
      bool is_generation; /* termination: generation_eos */
      size_t n_carries;
      const wf_plan_carry *carries;
      wf_slot first, last; /* slots of the body: [first, last) */
    } loop;
    struct {
      wf_slot predicate;
      size_t n_cases;
      const wf_plan_case *cases;
      const wf_plan_step *fallback; /* NULL: none */
      size_t n_phis;
      const wf_plan_phi *phis;
      wf_slot first, last; /* slots of all cases */
    } branch;
    struct {
      wf_slot value, when, valid_length;
      int32_t output, axis;
      bool has_axis;
      wf_emit_mode mode;
      wf_plan_contract contract; /* of the value, where the document declares it */
    } emit;
  } as;
};

/* ---- generation (format §16.4) ------------------------------------------------------------- */

/* A request field that the package lets a caller set, by the role of its input. */
typedef struct wf_plan_field {
  wf_input_role role;
  double minimum, maximum; /* NaN: no bound */
} wf_plan_field;

typedef struct wf_plan_generation {
  int do_sample;             /* -1: not said */
  double temperature, top_p; /* NaN: not said */
  int64_t top_k;             /* < 0: not said */
  size_t n_fields;
  const wf_plan_field *fields;
} wf_plan_generation;

/* ---- the whole ----------------------------------------------------------------------------- */

typedef struct wf_plan {
  size_t n_slots;
  const char *const *slot_names; /* [n_slots], for messages */
  size_t n_symbols;
  const wf_plan_symbol *symbols;
  size_t n_inputs, n_outputs, n_components, n_cells, n_groups;
  const wf_plan_input *inputs;
  const wf_plan_output *outputs;
  const wf_plan_component *components;
  const wf_plan_cell *cells;
  const char *const *group_names;
  const wf_plan_generation *generation; /* NULL: a caller may set every field */
  const wf_plan_step *root;
  size_t max_depth;     /* of steps inside steps: frames a pass needs */
  const char *identity; /* of the document (format §17.3) */
  bool has_session;     /* some cell outlives an invocation */
} wf_plan;

/* By name; -1: there is none. Thread: any. */
int32_t wf_plan_port_named(const wf_plan_port *ports, size_t n, const char *name);
int32_t wf_plan_component_named(const wf_plan *p, const char *name);

#endif
