/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a package: every finding, not the first. Owns: error classes, the list, its
 * two printed forms. Never: the rules. */
#ifndef WF_PACKAGE_PROBLEMS_H
#define WF_PACKAGE_PROBLEMS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/str.h"

/* X(name, text, status): the classes of docs/format.md §19 that loading can give. */
#define WF_PROBLEM_MAP(X)                      \
  X(IO, "E_IO", IO)                            \
  X(PARSE, "E_PARSE", PARSE)                   \
  X(SCHEMA, "E_SCHEMA", PACKAGE_INVALID)       \
  X(VERSION, "E_VERSION", UNSUPPORTED)         \
  X(STRUCT, "E_STRUCT", PACKAGE_INVALID)       \
  X(CAPABILITY, "E_CAPABILITY", UNSUPPORTED)   \
  X(ARTIFACT, "E_ARTIFACT", PACKAGE_INVALID)   \
  X(ADMISSION, "E_ADMISSION", PACKAGE_INVALID) \
  X(UNKNOWN_FIELD, "W_UNKNOWN_FIELD", OK)      \
  X(WARNING, "W_STRUCT", OK)

typedef enum wf_problem_class {
#define WF_X(name, text, status) WF_PROBLEM_##name,
  WF_PROBLEM_MAP(WF_X)
#undef WF_X
} wf_problem_class;

typedef struct wf_problem {
  wf_problem_class class;
  const char *rule; /* "SSA-02"; "" where the class says all */
  const char *path; /* "pipeline.workflow.steps[2].inputs.logits" */
  uint32_t line, column;
  const char *what, *fix;
} wf_problem;

enum { WF_PROBLEMS_MAX = 1000 }; /* further ones are counted only */

typedef struct wf_problems {
  wf_arena *arena; /* owns the texts; borrowed */
  WF_VEC(wf_problem) list;
  size_t n_errors, n_warnings; /* those beyond the list too */
  bool failed;                 /* memory ran out while one was added */
  bool is_strict;              /* warnings count as errors */
} wf_problems;

void wf_problems_init(wf_problems *p, wf_arena *arena, bool is_strict);
void wf_problems_deinit(wf_problems *p);
bool wf_problem_is_warning(wf_problem_class c);
const char *wf_problem_class_name(wf_problem_class c);
/* Adds one. `path` is copied; `rule` and `fix` are static texts. */
void wf_problems_add(wf_problems *p, wf_problem_class class, const char *rule, const char *path,
                     uint32_t line, uint32_t column, const char *fix, const char *fmt, ...) WF_COLD
    WF_PRINTF(8, 9);
void wf_problems_addv(wf_problems *p, wf_problem_class class, const char *rule, const char *path,
                      uint32_t line, uint32_t column, const char *fix, const char *fmt,
                      va_list args) WF_COLD WF_PRINTF(8, 0);
/* By place in the document, then by rule; equal ones once. */
void wf_problems_sort(wf_problems *p);
/* True when loading must end here. */
bool wf_problems_block(const wf_problems *p);
/* The first error as a weft_error (all: how many more there are). OK when nothing blocks. */
weft_status wf_problems_fail(const wf_problems *p, const char *document, weft_error *err);
/* A line a problem for people, or one JSON object. */
void wf_problems_print(const wf_problems *p, const char *document, bool json, wf_buf *out);

#endif
