/* SPDX-License-Identifier: Apache-2.0 */
/* The seam: what executes a component. Owns: components (compiled, immutable, shared), backend
 * sessions (one per worker, mutable). Never: conversations, block pools, policies; nothing above
 * this folder names an engine.
 *
 *   compile -> wf_component (any number of threads may use it)
 *   open    -> wf_backend_session, made, used and closed on one worker's thread
 *   run     -> n rows through the component once; each row with its own views and cache blocks
 *
 * A run takes ROWS, never a padded batch. A row's results are the same bits whatever rows share the
 * run, however a prompt is cut into runs, and whatever the number of threads (native backend). */
#ifndef WF_BACKEND_H
#define WF_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/profile.h"
#include "base/error.h"
#include "base/process.h"
#include "base/str.h"
#include "base/thread.h"
#include "graph/graph.h"
#include "kernels/attention.h"

enum { WF_VIEW_MAX_RANK = 8, WF_KV_BLOCK_TOKENS = 64 };

/* A dense row-major tensor that somebody else owns. */
typedef struct wf_view {
  wf_dtype dtype;
  int32_t rank;
  int64_t dims[WF_VIEW_MAX_RANK];
  void *data;
} wf_view;

/* ---- what a component is ------------------------------------------------------------------- */

typedef enum wf_port_role {
  WF_PORT_TENSOR,    /* a plain named tensor */
  WF_PORT_INPUT_IDS, /* [batch, sequence] token ids */
  WF_PORT_EMBEDS,    /* [batch, sequence, hidden] */
  WF_PORT_MASK,      /* [batch, past + sequence] of ones: made by the backend from lengths */
  WF_PORT_POSITIONS, /* [batch, sequence]: made by the backend from lengths */
  WF_PORT_STATE,     /* past or present of a layer: lives in the cache, never a view */
  WF_PORT_CARRIED,   /* past or present of a state of fixed size, never a view */
  WF_PORT_LOGITS     /* [batch, sequence or 1, vocabulary] */
} wf_port_role;

typedef struct wf_port {
  const char *name;
  wf_port_role role;
  wf_dtype dtype;
  int32_t rank;                          /* -1 unknown */
  int64_t dims[WF_VIEW_MAX_RANK];        /* -1 where symbolic or unknown */
  const char *symbols[WF_VIEW_MAX_RANK]; /* name of a symbolic axis, else NULL */
} wf_port;

/* One layer's state, and where it lies inside a block of its group. Layers with the same window
 * form a group; a group has its own block table, so that windowed layers can drop blocks alone. */
typedef struct wf_state_layer {
  int32_t group;
  int64_t window; /* 0: sees everything */
  wf_kv_layer kv;
} wf_state_layer;

typedef struct wf_state_group {
  int64_t window;     /* 0: keeps everything */
  size_t block_bytes; /* one block of WF_KV_BLOCK_TOKENS tokens for all layers of the group */
} wf_state_group;

typedef struct wf_component_info {
  const char *backend;        /* "native", "ort" */
  bool is_packed;             /* rows share one run; else they run one at a time */
  const char *why_not_packed; /* "" when packed */
  bool may_chunk;             /* a prompt may be cut into runs without a change of its bits */
  const char
      *precision; /* what multiplies: "4-bit weights, int8 activations (block 32), exact off" */
  const char *cpu_level;
  size_t n_inputs, n_outputs;
  const wf_port *inputs, *outputs; /* in graph order */
  int64_t vocab;                   /* width of the logits; 0 without */
  size_t n_layers, n_groups;
  const wf_state_layer *layers;
  const wf_state_group *groups;
  /* States of a fixed size that each run replaces: 0 of most models. They hold one length alone, so
   * a sequence that has them cannot be cut back but to nothing. */
  size_t n_carried;
  size_t carried_bytes;  /* of a row, unless keeps_state */
  int64_t max_positions; /* what the rotary tables hold; 0: no limit */
  size_t weight_bytes;   /* read by one decode step of one row */
  size_t packed_bytes;   /* weights held in a private copy or the pack cache */
  /* What else a caller may ask. All false and NULL: cache blocks, any cut of a prompt. */
  bool keeps_state;             /* state lives in wf_backend_state objects, not in cache blocks */
  bool is_state_in_place;       /* ... and a run appends to it where it is */
  const char *why_not_in_place; /* "" when it does */
  bool cut_changes_bits;        /* may_chunk holds for values, but not for their last bits */
  bool has_own_threads;         /* the team given to a session need only have the caller */
  bool is_shared;               /* all sessions share what was compiled; else each has its own */
  const char *why_not_shared;   /* "" when they do */
} wf_component_info;

typedef struct wf_compile_options {
  const char *root;  /* folder that `model` is relative to and confined to; NULL: the caller has */
  const char *model; /* the ONNX file; its external data is confined to the file's own folder */
  bool trust_links;
  const wf_ports *ports; /* which ports are a decoder's; NULL: a plain graph */
  bool exact;            /* WF_MATMUL_EXACT for every weight */
  wf_kv_type kv;
  wf_cpu_level level;
  const char *cache_dir; /* packed weights go to a file there; NULL or unwritable: to memory */
  /* Head size and the like where the graph leaves them symbolic: symbol = value. */
  size_t n_dim_values;
  const struct wf_dim_value {
    const char *symbol;
    int64_t value;
  } * dim_values;
  int n_threads;       /* of a session's team; 0: 1. For backends with threads of their own */
  const char *library; /* of a backend that is loaded at run time; NULL: its own search */
  /* "NAME" or "NAME:key=value,key=value": execution providers, best first. */
  size_t n_providers;
  const char *const *providers;
  void (*progress)(void *user, uint64_t done, uint64_t total, const char *what); /* may be NULL */
  void *progress_user;
  wf_buf *report; /* `weft inspect`: graph before and after, fusions, choices; may be NULL */
} wf_compile_options;

/* Does a sequence of the component have anything to remember? */
static inline bool wf_component_has_past(const wf_component_info *i) {
  return i->n_layers > 0 || i->n_carried > 0;
}

typedef struct wf_component wf_component;
typedef struct wf_backend_session wf_backend_session;
/* One sequence's state, where the component keeps it itself (info->keeps_state). */
typedef struct wf_backend_state wf_backend_state;

/* ---- a run --------------------------------------------------------------------------------- */

/* A row's cache for one group: blocks[i] holds tokens [(first_block + i) * 64, ...). Blocks up to
 * token past + n_new - 1 are there and those being appended to are writable and owned by this row
 * alone. */
typedef struct wf_kv_table {
  unsigned char *const *blocks;
  int64_t first_block, n_blocks;
} wf_kv_table;

typedef struct wf_row {
  /* Decoder rows: */
  const int32_t *ids; /* [n_new], checked against the vocabulary by the caller */
  int64_t n_new, past;
  const wf_kv_table *tables; /* [n_groups]; unless info->keeps_state */
  /* With info->carried_bytes: the row's states of fixed size after `past` tokens, zeros before the
   * first; the run leaves those after n_new more there, on an error they are undefined. */
  void *carried;
  wf_backend_state *state; /* with info->keeps_state: holds `past` tokens, afterwards n_new more */
  const int32_t *selected; /* new tokens whose logits are wanted, ascending, [n_selected] */
  int64_t n_selected;
  float *logits; /* [n_selected, vocab], the caller's */
  /* All rows: plain tensors by input index (data NULL: absent), and outputs as the backend leaves
   * them. Output views point into the session and are valid until its next run. */
  const wf_view *inputs;
  wf_view *outputs; /* [n_outputs] or NULL when none but logits are wanted */
} wf_row;

/* Exact counts since a session opened. */
typedef struct wf_run_counters {
  uint64_t runs, kernel_calls, weight_bytes, cache_bytes, barriers, copies_bytes, allocations;
  /* Not since the session opened but now, of all sessions of the backend; 0: not known. */
  uint64_t memory_held_bytes, memory_used_bytes;
} wf_run_counters;

/* ---- the vtable ---------------------------------------------------------------------------- */

typedef struct wf_backend {
  const char *name;
  weft_status (*compile)(wf_component **result, const wf_compile_options *options, weft_error *err);
  void (*release)(wf_component *c); /* any thread, once no session is open */
  const wf_component_info *(*info)(const wf_component *c);
  /* `team` is the worker's; borrowed for the session's life. max_tokens: new tokens of the largest
   * run, so that a warm step allocates nothing. */
  weft_status (*open)(wf_backend_session **result, const wf_component *c, wf_team *team,
                      int64_t max_tokens, weft_error *err);
  weft_status (*run)(wf_backend_session *s, const wf_row *rows, size_t n_rows, weft_error *err);
  void (*close)(wf_backend_session *s);
  /* Optional, NULL: no counters. Exact counts since the session opened, for tests and profiles. */
  void (*counters)(const wf_backend_session *s, wf_run_counters *result);
  /* Optional, NULL: a run is one span. Records spans of every run from now on; NULL: no more. */
  void (*profile)(wf_backend_session *s, wf_profile *p);
  /* With info->keeps_state only. An empty state; it may outlive its session (it can then only be
   * closed). */
  weft_status (*state_open)(wf_backend_state **result, wf_backend_session *s, weft_error *err);
  /* Forgets all but the first `length` tokens. */
  weft_status (*state_truncate)(wf_backend_state *state, int64_t length, weft_error *err);
  weft_status (*state_copy)(wf_backend_state **result, const wf_backend_state *state,
                            weft_error *err);
  size_t (*state_bytes)(const wf_backend_state *state);
  void (*state_close)(wf_backend_state *state);
  /* Optional, NULL: nothing to do. A turn is over: memory that only runs need goes back. */
  void (*rest)(wf_backend_session *s);
  /* Optional, NULL: it has none. The execution providers that may be named, as text or JSON. */
  weft_status (*list_providers)(const wf_compile_options *o, bool json, wf_buf *text,
                                weft_error *err);
} wf_backend;

/* ---- wrappers: the only way vtable slots are called ---------------------------------------- */

extern const wf_backend wf_backend_native; /* src/backend/native */
extern const wf_backend wf_backend_ort;    /* src/backend/ort: ONNX Runtime */

/* By its name; NULL: there is none. */
const wf_backend *wf_backend_find(const char *name);
/* All of them, in the order in which `auto` tries them. */
enum { WF_N_BACKENDS = 2 };
extern const wf_backend *const wf_backends[WF_N_BACKENDS];
/* Compiles by the backend called `name` (NULL: native); by "auto" with native, or, when that lacks
 * an operator, with the next one, which is said aloud in the log. *used is what did it.
 * Errors: as wf_component_compile; INVALID_ARGUMENT (no such backend). */
weft_status wf_component_compile_by(const char *name, const wf_backend **used,
                                    wf_component **result, const wf_compile_options *o,
                                    weft_error *err) WF_NODISCARD;

/* Compiles a component once. Owner: *result on success. Thread: any; the result is `immutable`.
 * Errors: PACKAGE_INVALID, UNSUPPORTED (an operator that is missing, by name, domain, version and
 * node), OUT_OF_MEMORY, IO. */
static inline weft_status wf_component_compile(const wf_backend *b, wf_component **result,
                                               const wf_compile_options *o, weft_error *err) {
  return b->compile(result, o, err);
}
static inline void wf_component_release(const wf_backend *b, wf_component *c) {
  if (c) b->release(c);
}
static inline const wf_component_info *wf_component_describe(const wf_backend *b,
                                                             const wf_component *c) {
  return b->info(c);
}

/* Session and state calls are for the worker's own thread, which is the one whose owner token the
 * session was opened under. Where a backend keeps owners, use from another thread is WRONG_THREAD
 * and changes nothing; close from another thread always takes the object, for its owner to free. */
static inline weft_status wf_backend_session_open(const wf_backend *b, wf_backend_session **result,
                                                  const wf_component *c, wf_team *team,
                                                  int64_t max_tokens, weft_error *err) {
  return b->open(result, c, team, max_tokens, err);
}
/* Errors: NOT_FINITE never (logits are the caller's to judge); INVALID_ARGUMENT (shapes that
 * contradict the graph), OUT_OF_MEMORY, BACKEND. After an error the rows' cache blocks past `past`
 * are undefined, those before are as they were. */
static inline weft_status wf_backend_session_run(const wf_backend *b, wf_backend_session *s,
                                                 const wf_row *rows, size_t n_rows,
                                                 weft_error *err) {
  return b->run(s, rows, n_rows, err);
}
/* The same with the run as a span of `p` (may be NULL) where the backend records none of its own.
 */
static inline weft_status wf_backend_session_run_in(const wf_backend *b, wf_backend_session *s,
                                                    const wf_row *rows, size_t n_rows,
                                                    wf_profile *p, weft_error *err) {
  const uint64_t begin_ns = p && !b->profile ? wf_clock_ns() : 0;
  const weft_status st = b->run(s, rows, n_rows, err);
  if (p && !b->profile) {
    const wf_profile_span span = {
        .op = b->name, .shapes = "", .begin_ns = begin_ns, .end_ns = wf_clock_ns()};
    wf_profile_add(p, &span);
  }
  return st;
}
static inline void wf_backend_session_profile(const wf_backend *b, wf_backend_session *s,
                                              wf_profile *p) {
  if (b->profile) b->profile(s, p);
}
static inline weft_status wf_backend_state_open(const wf_backend *b, wf_backend_state **result,
                                                wf_backend_session *s, weft_error *err) {
  return b->state_open(result, s, err);
}
static inline weft_status wf_backend_state_truncate(const wf_backend *b, wf_backend_state *state,
                                                    int64_t length, weft_error *err) {
  return b->state_truncate(state, length, err);
}
static inline weft_status wf_backend_state_copy(const wf_backend *b, wf_backend_state **result,
                                                const wf_backend_state *state, weft_error *err) {
  return b->state_copy(result, state, err);
}
static inline size_t wf_backend_state_bytes(const wf_backend *b, const wf_backend_state *state) {
  return b->state_bytes(state);
}
static inline void wf_backend_state_close(const wf_backend *b, wf_backend_state *state) {
  if (state) b->state_close(state);
}
static inline void wf_backend_session_rest(const wf_backend *b, wf_backend_session *s) {
  if (b->rest) b->rest(s);
}
static inline weft_status wf_backend_list_providers(const wf_backend *b,
                                                    const wf_compile_options *o, bool json,
                                                    wf_buf *text, weft_error *err) {
  return b->list_providers ? b->list_providers(o, json, text, err) : WEFT_OK;
}
static inline void wf_backend_session_close(const wf_backend *b, wf_backend_session *s) {
  if (s) b->close(s);
}

#endif
