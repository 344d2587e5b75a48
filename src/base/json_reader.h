/* SPDX-License-Identifier: Apache-2.0 */
/* A streaming JSON reader: pulls one event after the other from bytes in memory, builds no tree and
 * copies only strings that hold escapes. Strict (RFC 8259, nothing more), UTF-8 checked, nesting
 * bounded. For files too large for a tree: tokenizer.json has up to 33 MB.
 *
 *   wf_json_reader r;
 *   wf_json_init(&r, text, "tokenizer.json");
 *   wf_json_event e;
 *   do { WF_TRY(wf_json_next(&r, &e, err)); ... } while (e.kind != WF_JSON_END);
 *   wf_json_deinit(&r);
 */
#ifndef WF_JSON_READER_H
#define WF_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define WF_JSON_MAX_DEPTH 128

typedef enum wf_json_kind {
  WF_JSON_END, /* the one value is over and only white space followed */
  WF_JSON_OBJECT_BEGIN,
  WF_JSON_OBJECT_END,
  WF_JSON_ARRAY_BEGIN,
  WF_JSON_ARRAY_END,
  WF_JSON_KEY,    /* text: the member's name; its value follows */
  WF_JSON_STRING, /* text */
  WF_JSON_NUMBER, /* text: as written, checked against the grammar */
  WF_JSON_TRUE,
  WF_JSON_FALSE,
  WF_JSON_NULL
} wf_json_kind;

/* text: borrowed, valid until the next call on the reader; for a string without escapes it points
 * into the input and stays valid with it (is_stable). */
typedef struct wf_json_event {
  wf_json_kind kind;
  bool is_stable;
  wf_str text;
} wf_json_event;

typedef struct wf_json_level {
  bool is_object;
  wf_str raw_key;  /* in an object: the current member's name as written */
  uint64_t n_seen; /* members or elements begun */
} wf_json_level;

/* The caller's storage; members are private but a copy taken between two events is a bookmark: both
 * go on from there, as long as only one of them is deinitialised (see wf_json_bookmark). */
typedef struct wf_json_reader {
  wf_str in;
  const char *name;
  size_t at;
  size_t depth;
  int expect; /* what the grammar allows next */
  wf_json_level level[WF_JSON_MAX_DEPTH];
  wf_buf scratch;
} wf_json_reader;

/* Owner: `in` and `name` are borrowed. Thread: one at a time. */
void wf_json_init(wf_json_reader *r, wf_str in, const char *name);
void wf_json_deinit(wf_json_reader *r);
/* A second reader that goes on where `r` stands; has its own scratch, so both are deinitialised. */
void wf_json_bookmark(const wf_json_reader *r, wf_json_reader *copy);

/* The next event. Errors: PARSE (line, column and what is wrong there), LIMIT (nested deeper than
 * WF_JSON_MAX_DEPTH), OUT_OF_MEMORY; after an error the reader must not be used further. */
weft_status wf_json_next(wf_json_reader *r, wf_json_event *e, weft_error *err) WF_NODISCARD;
/* Reads to the end of the value that `e` began (nothing to do for a scalar). */
weft_status wf_json_skip(wf_json_reader *r, const wf_json_event *e, weft_error *err) WF_NODISCARD;
/* Inside an object, before a key: the next member's name, or *more = false at the object's end. */
weft_status wf_json_next_key(wf_json_reader *r, wf_json_event *key, bool *more,
                             weft_error *err) WF_NODISCARD;

/* Where the reader stands, as "model.vocab" or "model.merges[3]"; appended to `out`. */
void wf_json_path(const wf_json_reader *r, wf_buf *out);
/* Fills err with PARSE, the reader's path, line and column and `what`. */
weft_status wf_json_fail(const wf_json_reader *r, weft_error *err, const char *what_fmt,
                         ...) WF_COLD WF_PRINTF(3, 4);

#endif
