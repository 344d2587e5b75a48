/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX Runtime behind the seam: its component, session and state. Private to ort/.
 *
 * Threads: a session and the states opened from it belong to the owner token under which the
 * session was opened. Whatever another thread releases waits in the component's queue for that
 * owner; what is still there when the component goes is the quarantine, freed and counted then. */
#ifndef WF_ORT_H
#define WF_ORT_H

#include <pthread.h>

#include "backend/backend.h"
#include "backend/ort/ort_object.h"
#include "backend/port_map.h"
#include "base/mem.h"

/* Head of everything that a foreign thread may release. */
typedef struct ort_returned ort_returned;
struct ort_returned {
  ort_returned *next;
  uint64_t owner;
  void (*free_now)(ort_returned *r);
};

/* One state tensor of a layer: [1, heads, tokens, dim]. */
typedef struct ort_state_port {
  const char *past, *present; /* names */
  wf_dtype dtype;
  size_t elem;
  int64_t heads, dim;
  size_t fixed_rank; /* 0: it grows, [1, heads, tokens, dim] */
  int64_t fixed_dims[WF_VIEW_MAX_RANK];
} ort_state_port;

/* An input that every run gives the same number. */
typedef struct ort_fixed_input {
  const char *name;
  wf_dtype dtype;
  int32_t rank; /* 0, or 1 with one element */
  int64_t number;
} ort_fixed_input;

struct wf_component {
  ort_object home; /* root of all objects: holds the files, the environment and this struct */
  wf_component_info info;
  wf_port_map map;
  wf_arena *arena;
  wf_onnx_model *model;
  ort_library *lib;
  ort_env *env;
  ort_session_options *options;
  ort_memory_info *memory; /* the CPU's */
  ort_object *session;     /* shared; NULL: each session makes its own */
  bool takes_file;         /* the library opens the model's file itself; else it gets the bytes */
  wf_buf guarded;          /* the bytes, where they are not the file's own; else empty */
  wf_cpu_level level;
  int64_t loop_limit_ms;                          /* 0: its Loops end */
  bool has_ports, prunes_head, is_state_in_place; /* prunes_head: the ports say so */
  size_t n_states;                                /* 2 * n_layers */
  size_t n_carried; /* states of a fixed size, behind the others: dim elements of one head */
  ort_state_port *states;
  size_t n_fixed;
  ort_fixed_input *fixed;
  ort_fixed_input branch;  /* of a merged decoder: 0 without a past, 1 with; name NULL: none */
  atomic_ulong next_stamp; /* of where a state's buffers are: never the same twice */
  pthread_mutex_t lock;    /* guards the two below; a leaf */
  ort_returned *queue;
  bool is_closed;
};

struct wf_backend_session {
  ort_returned returned; /* first */
  wf_component *c;       /* held by `session` */
  ort_object *session, *binding, *allocator;
  ort_run_options *run_options;
  ort_object **outputs; /* [n_outputs] values of the last run */
  wf_buf ints;          /* ids, mask and positions of a run */
  /* In place: the stamp of the buffers that the binding names; 0: none. */
  unsigned long bound_stamp;
  bool prunes_head; /* one row of logits for many tokens: the ports say so, or it was seen */
  wf_run_counters counters;
};

typedef struct ort_buffer {
  unsigned char *at;
  size_t n_bytes;
} ort_buffer;

struct wf_backend_state {
  ort_returned returned; /* first */
  wf_component *c;       /* held by `session` */
  ort_object *session;
  int64_t length;           /* tokens that count */
  int64_t stored;           /* tokens that the past buffers' shape has; >= length */
  int64_t capacity;         /* in place: tokens that the buffers hold */
  int side;                 /* which buffer of a pair is the past */
  int carried_side;         /* the same of states of a fixed size, which always change places */
  unsigned long stamp;      /* of where the buffers are; 0: nowhere yet */
  ort_buffer (*buffers)[2]; /* [n_states + n_carried]; in place: the first of a state's alone */
};

static inline size_t ort_n_buffers(const wf_component *c) { return c->n_states + c->n_carried; }

weft_status ort_compile(wf_component **result, const wf_compile_options *o, weft_error *err);
void ort_component_release(wf_component *c);
const wf_component_info *ort_info(const wf_component *c);
/* A session of the library on the component's model. */
weft_status ort_session_make(wf_component *c, ort_object **result, weft_error *err) WF_NODISCARD;

/* A division of integers by what may be 0 or -1, by the name of its result. */
typedef struct ort_division {
  wf_str output;
  wf_dtype dtype; /* UNDEFINED: not known */
  bool is_mod, fmod;
} ort_division;
typedef WF_VEC(ort_division) ort_divisions;

/* Refuses what the library would not come back from; *divisions gets the nodes that it may not
 * come back from (wf_vec_free), *goes_on whether a Loop may be without an end.
 * Errors: LIMIT (a Loop that is certain to have none), OUT_OF_MEMORY. */
weft_status ort_judge(const wf_graph *g, ort_divisions *divisions, bool *goes_on,
                      weft_error *err) WF_NODISCARD;

enum { ORT_LOOP_LIMIT_MS = 600000 };
/* A run of the session; where the component's Loops may be without an end it is terminated after
 * loop_limit_ms. Errors: LIMIT then; as ort_check. */
weft_status ort_run_watched(wf_backend_session *s, weft_error *err) WF_NODISCARD;

/* The model's bytes with those divisions guarded; nothing when none of them can be. */
weft_status ort_guard(const wf_onnx_model *model, const ort_divisions *divisions, wf_buf *out,
                      weft_error *err) WF_NODISCARD;

/* Frees now when the caller is the owner, else leaves it to the owner. */
void ort_give_back(wf_component *c, ort_returned *r);
/* Frees what others have released and this thread owns. */
void ort_take_back(wf_component *c);
/* WRONG_THREAD unless the caller is the owner. */
weft_status ort_check_owner(const ort_returned *r, const char *what, weft_error *err) WF_NODISCARD;

weft_status ort_open(wf_backend_session **result, const wf_component *c, wf_team *team,
                     int64_t max_tokens, weft_error *err);
weft_status ort_run(wf_backend_session *s, const wf_row *rows, size_t n_rows, weft_error *err);
void ort_close(wf_backend_session *s);
void ort_counters(const wf_backend_session *s, wf_run_counters *result);
void ort_rest(wf_backend_session *s);

weft_status ort_state_open(wf_backend_state **result, wf_backend_session *s, weft_error *err);
weft_status ort_state_truncate(wf_backend_state *state, int64_t length, weft_error *err);
weft_status ort_state_copy(wf_backend_state **result, const wf_backend_state *state,
                           weft_error *err);
size_t ort_state_bytes(const wf_backend_state *state);
void ort_state_close(wf_backend_state *state);
/* Makes room for n_new more tokens and lets the past have exactly `length` of them. */
weft_status ort_state_prepare(wf_backend_state *state, int64_t n_new, uint64_t *copied,
                              weft_error *err) WF_NODISCARD;
/* Binds past and present of every layer for a run of n_new tokens. */
weft_status ort_state_bind(wf_backend_session *s, wf_backend_state *state, int64_t n_new,
                           weft_error *err) WF_NODISCARD;
/* The run was good: the present is the past. */
void ort_state_advance(wf_backend_state *state, int64_t n_new);

/* Adds the providers of `o` to the component's session options, best first; says in c->info
 * whether sessions may be shared. */
weft_status ort_providers_add(wf_component *c, const wf_compile_options *o,
                              weft_error *err) WF_NODISCARD;
weft_status ort_providers_list(const wf_compile_options *o, bool json, wf_buf *text,
                               weft_error *err);

#endif
