/* SPDX-License-Identifier: Apache-2.0 */
/* The one list of everything that can go wrong, and the error a caller receives.
 *
 * WEFT_STATUS_MAP is the only place where a status is added. It yields the enum, the name, the exit
 * code of the command line (the number itself), the HTTP status, the error `type` of the server and
 * whether the same call may succeed later. Numbers are never reused; 1 and 2 stay free because
 * shells and getopt use them, 126 and up belong to the shell.
 */
#ifndef WEFT_STATUS_H
#define WEFT_STATUS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(WEFT_BUILDING) && (defined(__GNUC__) || defined(__clang__))
#define WEFT_API __attribute__((visibility("default")))
#else
#define WEFT_API
#endif
#if defined(__GNUC__) || defined(__clang__)
#define WEFT_NODISCARD __attribute__((warn_unused_result))
#else
#define WEFT_NODISCARD
#endif

/* X(name, number, http status, retry may help, error type) */
#define WEFT_STATUS_MAP(X)                                \
  X(OK, 0, 200, 0, "")                                    \
  X(PACKAGE_INVALID, 3, 422, 0, "package_error")          \
  X(SESSION_BUSY, 4, 409, 1, "conflict_error")            \
  X(WRONG_THREAD, 5, 500, 0, "internal_error")            \
  X(INVALID_ARGUMENT, 6, 400, 0, "invalid_request_error") \
  X(OUT_OF_MEMORY, 7, 503, 1, "overloaded_error")         \
  X(IO, 8, 500, 0, "io_error")                            \
  X(PARSE, 9, 400, 0, "parse_error")                      \
  X(UNSUPPORTED, 10, 501, 0, "unsupported_error")         \
  X(CONTEXT_FULL, 11, 400, 0, "context_length_exceeded")  \
  X(CANCELLED, 12, 499, 1, "cancelled")                   \
  X(NOT_FINITE, 13, 500, 0, "model_error")                \
  X(TEMPLATE, 14, 400, 0, "template_error")               \
  X(TOKENIZER, 15, 422, 0, "tokenizer_error")             \
  X(IMPORT, 16, 422, 0, "import_error")                   \
  X(BACKEND, 17, 500, 0, "backend_error")                 \
  X(LIMIT, 18, 413, 0, "limit_exceeded")                  \
  X(CLOSED, 19, 410, 0, "closed_error")                   \
  X(INTERNAL, 20, 500, 0, "internal_error")               \
  X(MISMATCH, 21, 500, 0, "verify_error")                 \
  X(BIND, 22, 400, 0, "invalid_request_error")            \
  X(MISSING_INPUT, 23, 400, 0, "invalid_request_error")   \
  X(RUN, 24, 422, 0, "run_error")

typedef enum weft_status {
#define WEFT_STATUS_ENUM(name, number, http, retry, type) WEFT_##name = number,
  WEFT_STATUS_MAP(WEFT_STATUS_ENUM)
#undef WEFT_STATUS_ENUM
} weft_status;

/* What a failed call tells: the code for programs, two sentences for people.
 *
 * Owner:   the caller's storage. Filling it never allocates. Strings are always terminated; a text
 *          that does not fit is cut at a character border.
 * Thread:  as the storage; weft keeps no pointer to it after the call returns.
 */
typedef struct weft_error {
  size_t struct_size; /* sizeof(weft_error); 0 is taken as this version's size */
  weft_status status; /* the same value the call returned */
  char what[512];     /* what failed and why, with the offending value */
  char fix[256];      /* what the caller can change; empty if nothing */
} weft_error;

/* The name of a status, "SESSION_BUSY"; "UNKNOWN" for a number outside the map.
 * Owner: static storage. Thread: any. */
WEFT_API const char *weft_status_name(weft_status status);

/* The HTTP status that a server answers with. Thread: any. */
WEFT_API int weft_status_http(weft_status status);

/* The `type` member of a server's error object. Owner: static storage. Thread: any. */
WEFT_API const char *weft_status_type(weft_status status);

/* 1 when the same call may succeed later without a change, else 0. Thread: any. */
WEFT_API int weft_status_may_retry(weft_status status);

#ifdef __cplusplus
}
#endif
#endif
