/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker keeps of a component: buffers, counters, the interpreter's frames. Private to
 * native/. */
#ifndef WF_NATIVE_SESSION_H
#define WF_NATIVE_SESSION_H

#include "backend/native/pool.h"
#include "backend/native/program.h"
#include "backend/profile.h"

typedef struct wf_interp wf_interp; /* interp.c */

enum { WF_SESSION_MAX_SCRATCH = 64 };

struct wf_backend_session {
  const wf_component *c;
  wf_team *team;
  wf_run_counters counters;
  wf_profile *profile; /* NULL: nobody asks where time goes */
  /* Packed program. */
  int64_t max_tokens, max_selected; /* what the buffers hold */
  size_t max_rows;
  unsigned char *memory;             /* all slots */
  size_t *slot_offsets, *slot_bytes; /* [n_slots] */
  wf_exec exec;                      /* of the run; every member works on a copy */
  wf_exec *execs;                    /* [members] */
  int n_members;
  /* [members][n_slots]: member 0's are everybody's but in a small run. */
  unsigned char **slots;
  unsigned char *private_memory; /* of members 1 and up */
  int32_t *ids;
  int64_t *positions, *select;
  float **logits;
  wf_attention_row *rows;
  unsigned char *member_scratch; /* attention's, one after another */
  size_t member_scratch_bytes;   /* of one member */
  unsigned char *partials;       /* of attention whose keys are split; shared by the members */
  size_t partials_bytes;
  /* General operators. */
  wf_pool scratch;
  wf_pool_buffer *scratch_used[WF_SESSION_MAX_SCRATCH];
  size_t n_scratch;
  weft_error failure; /* status OK: none */
  wf_interp *interp;
};

/* Called by steps on member 0. */
void wf_session_count_copy(wf_backend_session *s, uint64_t n_bytes);
void wf_session_count_barrier(wf_backend_session *s);
size_t wf_session_slot_bytes(const wf_backend_session *s, int32_t slot);
weft_status wf_session_scratch(wf_backend_session *s, size_t n_bytes, void **data, weft_error *err);
/* Between two operators. */
void wf_session_scratch_reset(wf_backend_session *s);
void wf_session_fail(wf_backend_session *s, const weft_error *err);
bool wf_session_failed(const wf_backend_session *s);

/* profile_steps.c: a span that began at begin_ns and ends now. */
void wf_profile_step(wf_exec *x, const wf_step *s, const wf_member *m, uint64_t begin_ns);

/* The interpreter, for graphs that are not packed. */
weft_status wf_interp_open(wf_backend_session *s, weft_error *err) WF_NODISCARD;
weft_status wf_interp_run(wf_backend_session *s, const wf_row *row, weft_error *err) WF_NODISCARD;
void wf_interp_close(wf_backend_session *s);

#endif
