/* SPDX-License-Identifier: Apache-2.0 */
/* Filling errors, and the two macros every fallible function is written with. */
#ifndef WF_ERROR_H
#define WF_ERROR_H

#include "base/compiler.h"
#include "weft/status.h"

/* Fills `err` (may be NULL) and returns `status`, so that a refusal is one statement:
 *   return wf_fail(err, WEFT_PARSE, "how to fix it", "what failed: '%s'", name);
 * `fix` may be NULL or "" where the caller can change nothing. Bytes that are not printable UTF-8
 * in the arguments come out as U+FFFD, so a hostile name cannot drive a terminal.
 * Thread: any. Never allocates. */
weft_status wf_fail(weft_error *err, weft_status status, const char *fix, const char *what_fmt,
                    ...) WF_COLD WF_PRINTF(4, 5);

/* Prepends context ("in file x: ") to an error that a lower layer has filled; returns its status.
 * Only for what the lower layer could not know. Thread: any. */
weft_status wf_fail_in(weft_error *err, weft_status status, const char *context_fmt, ...) WF_COLD
    WF_PRINTF(3, 4);

/* Hands an error that was gathered elsewhere to the caller, whose struct may be shorter. err may be
 * NULL. Thread: any. */
void wf_error_pass_on(weft_error *err, const weft_error *from) WF_COLD;

/* The usual answer to a NULL from an allocator. Thread: any. */
weft_status wf_fail_memory(weft_error *err, size_t n_bytes, const char *for_what) WF_COLD;

/* st = call; leave through the one exit on failure. Needs `weft_status st` and a label `out`. */
#define WF_TRY(call)                          \
  do {                                        \
    st = (call);                              \
    if (WF_UNLIKELY(st != WEFT_OK)) goto out; \
  } while (0)

/* return call on failure: for functions that own nothing yet. */
#define WF_RETURN_IF_ERROR(call)                       \
  do {                                                 \
    const weft_status wf_st_ = (call);                 \
    if (WF_UNLIKELY(wf_st_ != WEFT_OK)) return wf_st_; \
  } while (0)

#endif
