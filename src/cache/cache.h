/* SPDX-License-Identifier: Apache-2.0 */
/* Key/value memory. Owns: blocks and their counts, sequences as block tables, copy-on-write,
 * windows. Never: what is in a block (kernels), tokens (engine).
 *
 * A sequence is a table of blocks and a length. Blocks are counted; two sequences share a prefix by
 * sharing blocks. Bytes below a sequence's length are never rewritten while another sequence can
 * see them: an append into a shared tail block copies that block first.
 *
 *   fork:    A [b0 b1 b2|  ]  B [b0 b1 b2|  ]       b2 has two owners
 *   append:  A [b0 b1 b2|  ]  B [b0 b1 c2| x]       B got its own tail
 *
 * Owner: one worker. Thread: `worker`, or whoever holds the runner's lock. */
#ifndef WF_CACHE_H
#define WF_CACHE_H

#include "backend/backend.h"

typedef struct wf_kv_pool wf_kv_pool;

/* Layout from the component; memory is taken from the system as blocks are first used, at most
 * limit_bytes of it (0: no limit). reserve_tokens sizes the address space taken at a time, so that
 * a conversation of that length takes one mapping. Errors: OUT_OF_MEMORY. */
weft_status wf_kv_pool_create(wf_kv_pool **result, const wf_component_info *info,
                              int64_t reserve_tokens, size_t limit_bytes,
                              weft_error *err) WF_NODISCARD;
/* For a component that keeps its state itself: sequences of this pool are states of the session,
 * and have no blocks. The session outlives every use of them, but not their release. */
void wf_kv_pool_attach(wf_kv_pool *pool, const wf_backend *backend, wf_backend_session *session);
void wf_kv_pool_destroy(wf_kv_pool *pool); /* all sequences are gone by then; NULL is fine */
size_t wf_kv_pool_bytes_used(const wf_kv_pool *pool); /* in blocks that a sequence holds */

typedef struct wf_kv_sequence {
  wf_kv_pool *pool;        /* borrowed */
  int64_t length;          /* tokens */
  wf_kv_table *tables;     /* [n_groups]; what a run is given */
  int64_t *capacity;       /* [n_groups] of each table */
  unsigned char ***blocks; /* [n_groups], the writable side of tables[g].blocks */
  wf_backend_state *state; /* what a run is given instead, in an attached pool */
  void *carried;           /* states of a fixed size that a run is given and replaces; or NULL */
} wf_kv_sequence;

/* A run has failed: what it may have left undefined is given up, which empties a sequence with
 * states of a fixed size. */
void wf_kv_sequence_fail(wf_kv_sequence *s);
/* An empty sequence; room for the tables of max_tokens is taken now, so that growing up to there
 * allocates nothing. */
weft_status wf_kv_sequence_init(wf_kv_sequence *s, wf_kv_pool *pool, int64_t max_tokens,
                                weft_error *err) WF_NODISCARD;
void wf_kv_sequence_deinit(wf_kv_sequence *s); /* fine on a zeroed one and twice */
/* Makes room for n_new more tokens: blocks up to length + n_new - 1 are there and those that will
 * be written belong to this sequence alone. The length stays. Errors: OUT_OF_MEMORY (the limit, by
 * name); the sequence is then as it was. */
weft_status wf_kv_sequence_reserve(wf_kv_sequence *s, int64_t n_new, weft_error *err) WF_NODISCARD;
/* The run has written n_new tokens: the length grows, and blocks that no window can see any more
 * are dropped, except what a rewind of keep_tokens would need. */
void wf_kv_sequence_commit(wf_kv_sequence *s, int64_t n_new, int64_t keep_tokens);
/* Shortens to `length` tokens. False when a window has dropped blocks that this length needs, or
 * when states of a fixed size hold no length but the present one: the sequence is then empty and
 * has to be computed again. */
bool wf_kv_sequence_truncate(wf_kv_sequence *s, int64_t length);
/* `copy` (initialised, empty, of the same pool) becomes the same sequence, sharing all blocks. */
weft_status wf_kv_sequence_fork(wf_kv_sequence *copy, const wf_kv_sequence *s,
                                weft_error *err) WF_NODISCARD;

/* Bytes that n_tokens take, all groups, for estimates. */
size_t wf_kv_estimate_bytes(const wf_component_info *info, int64_t n_tokens);

#endif
