/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates: Jinja as Hugging Face transformers runs it (an immutable sandbox with
 * trim_blocks and lstrip_blocks, loopcontrols, `generation`, transformers' tojson,
 * raise_exception and strftime_now), byte for byte, without Python.
 *
 * This header owns the compiled template and its rendering; the jinja_*.c files behind it own the
 * language. It never reads files and never tokenizes. A compiled template is sealed: any number of
 * threads may render it at once. Templates are strangers' programs: a render has a budget of steps,
 * memory and depth, and leaves with WEFT_TEMPLATE when one is used up. */
#ifndef WF_TEMPLATE_H
#define WF_TEMPLATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/str.h"

typedef struct wf_template wf_template;

/* What a render may use. wf_render_options_init fills the defaults. */
typedef struct wf_render_options {
  bool has_now;              /* strftime_now shows `now_seconds` instead of the local clock */
  int64_t now_seconds;       /* a civil (wall clock) time as seconds since 1970-01-01T00:00:00 */
  uint64_t steps_limit;      /* evaluation steps; 0: 20 million */
  size_t memory_limit_bytes; /* of the render's own heap; 0: 256 MiB */
  /* Names of top-level variables whose strings count as the template's own text rather than as
   * content (bos_token and its kin, which come from the package). Borrowed for the call. */
  const char *const *control_names;
  size_t n_control_names;
} wf_render_options;

/* A run of output bytes [begin, end). Content is what came from messages, tools, documents and
 * other variables of the request, however it was cut, joined or changed on the way; the rest is
 * literal text of the template and variables named in control_names. A control token may only be
 * recognised in bytes that are not content. */
typedef struct wf_text_run {
  size_t begin, end;
  bool is_content;
} wf_text_run;

typedef WF_VEC(wf_text_run) wf_text_runs;

/* Fills the defaults, bos_token/eos_token/unk_token/pad_token/sep_token/cls_token/mask_token as
 * control names among them. Thread: any. */
void wf_render_options_init(wf_render_options *options);

/* Compiles UTF-8 template source.
 *
 * Owner:   *result is the caller's, wf_template_destroy frees it. The source is not kept.
 * Thread:  any.
 * Errors:  TEMPLATE (syntax, unknown filter or test, limits), with "line L, column C" in `what`,
 *          both counted from 1, columns in characters; OUT_OF_MEMORY.
 */
weft_status wf_template_compile(wf_template **result, wf_str source, weft_error *err) WF_NODISCARD;

/* NULL is fine. */
void wf_template_destroy(wf_template *t);

/* Renders with the members of the object `variables` as top-level names.
 *
 * Owner:   `out` gets the text appended, `segments` (may be NULL) the runs of the appended text,
 *          offsets counted in `out`, neighbours never of one kind. Both stay the caller's
 *          (wf_buf_deinit, wf_vec_free). On failure both are as they were.
 * Thread:  any; the template is immutable, `variables` must not change during the call.
 * Errors:  TEMPLATE (what Jinja refuses, raise_exception, limits), INVALID_ARGUMENT (variables is
 *          not an object), OUT_OF_MEMORY.
 */
weft_status wf_template_render(const wf_template *t, const json_t *variables,
                               const wf_render_options *options, wf_buf *out,
                               wf_text_runs *segments, weft_error *err) WF_NODISCARD;

/* All literal texts of the template: its raw text and its string constants, in source order.
 * Owner: the template's. Thread: immutable. */
const wf_str *wf_template_literals(const wf_template *t, size_t *n);

/* True when the template reads the top-level name `name` anywhere ("tools", "enable_thinking").
 * Thread: immutable. */
bool wf_template_reads(const wf_template *t, const char *name);

#endif
