/* SPDX-License-Identifier: Apache-2.0 */
/* Streaming detokenizer: ids in, one at a time; whole UTF-8 characters out as soon as no later
 * token can change them. The pieces together are the text of the whole: a leading space that
 * decoding drops is dropped once, at the start. Ill-formed bytes come out as one U+FFFD for each
 * maximal ill-formed part, as Python's errors="replace" does, and a character that is still
 * incomplete at the end is left out. */
#ifndef WF_DETOKENIZER_H
#define WF_DETOKENIZER_H

#include "text/tokenizer.h"

typedef struct wf_detokenizer wf_detokenizer;

/* Owner: *result is the caller's on success; `t` is borrowed and must outlive it.
 * Thread: one thread at a time. Errors: OUT_OF_MEMORY. */
weft_status wf_detokenizer_create(wf_detokenizer **result, const wf_tokenizer *t, bool skip_special,
                                  weft_error *err) WF_NODISCARD;
void wf_detokenizer_destroy(wf_detokenizer *d); /* NULL is fine */

/* Feeds one id and appends to `out` what became certain; that may be nothing. Once its buffers have
 * grown a call allocates nothing of its own.
 * Errors: INVALID_ARGUMENT (an id outside the vocabulary; nothing changes), OUT_OF_MEMORY. */
weft_status wf_detokenizer_feed(wf_detokenizer *d, int32_t id, wf_buf *out,
                                weft_error *err) WF_NODISCARD;
/* Ends the text: appends what was held back, without a character that is cut off. Feeding may start
 * again after wf_detokenizer_reset only. */
weft_status wf_detokenizer_finish(wf_detokenizer *d, wf_buf *out, weft_error *err) WF_NODISCARD;
void wf_detokenizer_reset(wf_detokenizer *d);

#endif
