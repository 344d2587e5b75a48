/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of runs goes: spans that a backend session records while it has a profile, told as
 * a trace that Perfetto opens and as a table. Without one a run asks once and pays nothing. */
#ifndef WF_BACKEND_PROFILE_H
#define WF_BACKEND_PROFILE_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

typedef struct wf_profile wf_profile;

/* One step of one member of a team. */
typedef struct wf_profile_span {
  const char *op;            /* static or as long as the profile */
  wf_str name;               /* of the node; copied */
  const char *shapes;        /* "[5, 64] x [64, 128]"; copied */
  uint64_t begin_ns, end_ns; /* wf_clock_ns */
  int thread;                /* member of the team */
  uint64_t n_bytes, n_flops; /* read and written; multiplications and additions */
} wf_profile_span;

weft_status wf_profile_create(wf_profile **result, weft_error *err) WF_NODISCARD;
void wf_profile_destroy(wf_profile *p); /* NULL is fine */
/* Thread: any. When memory is out, or after a million, the span is counted in the table alone.
 */
void wf_profile_add(wf_profile *p, const wf_profile_span *s);
/* Chrome trace event JSON. Thread: any, while nobody adds. */
void wf_profile_trace(const wf_profile *p, wf_buf *json);
/* A line an operator, most time first, and what it is of all. */
void wf_profile_table(const wf_profile *p, wf_buf *text);

#endif
