/* SPDX-License-Identifier: Apache-2.0 */
/* The whole of docs/format.md as one validated, immutable model of a package. Owns: what a document
 * says, what its ONNX files say about their ports, every rule about both. Never: execution,
 * weights.
 *
 * Each object begins with a head: its name where it is a map's entry (maps are sorted by name, so
 * wf_meta_find searches them) and its place in the document. Absent optional objects are NULL,
 * absent numbers WF_META_ABSENT (NaN for floats), absent texts NULL; members with a default have
 * it. Everything lives in one arena, sealed when wf_metadata_open returns. */
#ifndef WF_PACKAGE_METADATA_H
#define WF_PACKAGE_METADATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "onnx/onnx.h"
#include "package/document.h"
#include "package/metadata_sections.h"
#include "package/metadata_workflow.h"
#include "package/problems.h"

typedef struct wf_metadata {
  wf_meta_head head;
  const char *schema_version; /* "v1" when absent */
  wf_meta_texts required_capabilities;
  const wf_meta_model *model;
  const wf_meta_pipeline *pipeline;
  const wf_meta_adapters *adapters;
  const wf_meta_preprocessing *preprocessing;
  const wf_meta_package *package;
  const wf_meta_generation *generation;
  WF_META_LIST(wf_meta_profile) profiles;
  const wf_meta_speculative *speculative;
  const wf_doc_node *quantization, *hardware_requirements; /* informational: as written */
  /* filled by loading */
  const char *root, *document; /* canonical paths */
  const wf_doc_node *tree;
} wf_metadata;

/* ---- loading ----------------------------------------------------------------------------------
 */

typedef struct wf_metadata_options {
  bool is_strict;         /* warnings are errors */
  bool trust_links;       /* artifacts may be reached through links out of the package */
  bool without_artifacts; /* stop before files are looked for: a document on its own */
} wf_metadata_options;

typedef struct wf_metadata_package wf_metadata_package;

/* Reads and validates the package at `path`, a folder or its document (PKG-01, PKG-02).
 * Every finding, also of a package that loads (warnings), is in wf_metadata_problems(*result).
 * Owner:  *result, released by wf_metadata_close, is not NULL after OK and after every refusal that
 *         has problems. Thread: any; `immutable` afterwards.
 * Errors: IO (no document there), PARSE, PACKAGE_INVALID, UNSUPPORTED, OUT_OF_MEMORY. */
weft_status wf_metadata_open(wf_metadata_package **result, const char *path,
                             const wf_metadata_options *options, weft_error *err) WF_NODISCARD;
/* The same over a text that is no file; artifacts are not looked for. */
weft_status wf_metadata_read(wf_metadata_package **result, wf_str text, wf_syntax syntax,
                             const wf_metadata_options *options, weft_error *err) WF_NODISCARD;
void wf_metadata_close(wf_metadata_package *p); /* NULL is fine */
/* NULL when the package was refused before there was a model. */
const wf_metadata *wf_metadata_get(const wf_metadata_package *p);
const wf_problems *wf_metadata_problems(const wf_metadata_package *p);
const char *wf_metadata_document(const wf_metadata_package *p);
/* The document's name in `dir` by PKG-01, NULL when there is none. New string (wf_free). */
char *wf_metadata_find_document(const char *dir) WF_NODISCARD;

/* The entry of a map by name; NULL when absent. `list` is one of the lists above. */
#define wf_meta_find(list, name_) wf_meta_find_((list)->at, (list)->n, sizeof *(list)->at, (name_))
const void *wf_meta_find_(const void *at, size_t n, size_t size, const char *name);
/* The text of a pair; NULL when absent. */
const char *wf_meta_pair_get(const wf_meta_pairs *pairs, const char *name);
bool wf_meta_texts_has(const wf_meta_texts *texts, const char *text); /* of a sorted set */
bool wf_meta_list_has(const wf_meta_texts *texts, const char *text);  /* of a list */
/* The type a contract's spelling names (docs/format.md §3.2); UNDEFINED for any other. */
wf_dtype wf_meta_dtype(const char *text);
int wf_meta_layout_of(const wf_meta_contract *c); /* WF_META_SHARED without one */
/* The request axis; -1: none. */
int64_t wf_meta_request_axis(const wf_meta_contract *c);

/* "onnx-genai-metadata-identity-v1:sha256:<hex>", of what the document says and not of how it is
 * written (docs/format.md §17.3): it keys plans and checkpoints, and is no proof against forgers.
 * Thread: any. Errors: OUT_OF_MEMORY. */
enum { WF_IDENTITY_BYTES = 104 }; /* with the terminator */
weft_status wf_metadata_identity(const wf_metadata *m, char result[WF_IDENTITY_BYTES],
                                 weft_error *err) WF_NODISCARD;
/* The canonical JSON that it is taken over. */
void wf_metadata_canonical(const wf_metadata *m, wf_buf *out);

/* The JSON Schema of the document for editors, made of the tables that the reader works by. */
void wf_metadata_print_schema(wf_buf *out);

#endif
