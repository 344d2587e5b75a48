/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a GGUF file (versions 2 and 3) in place from a mapping: metadata and the table of tensors,
 * every offset and size checked against the file. Never interprets what the names mean. */
#ifndef WF_GGUF_H
#define WF_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

/* Metadata value types, with GGUF's own numbers. */
typedef enum wf_gguf_kind {
  WF_GGUF_U8 = 0,
  WF_GGUF_I8 = 1,
  WF_GGUF_U16 = 2,
  WF_GGUF_I16 = 3,
  WF_GGUF_U32 = 4,
  WF_GGUF_I32 = 5,
  WF_GGUF_F32 = 6,
  WF_GGUF_BOOL = 7,
  WF_GGUF_STRING = 8,
  WF_GGUF_ARRAY = 9,
  WF_GGUF_U64 = 10,
  WF_GGUF_I64 = 11,
  WF_GGUF_F64 = 12
} wf_gguf_kind;

/* Tensor element types that weft can import, with GGUF's own numbers. */
typedef enum wf_ggml_type {
  WF_GGML_F32 = 0,
  WF_GGML_F16 = 1,
  WF_GGML_Q4_0 = 2,
  WF_GGML_Q4_1 = 3,
  WF_GGML_Q5_0 = 6,
  WF_GGML_Q5_1 = 7,
  WF_GGML_Q8_0 = 8,
  WF_GGML_Q4_K = 12,
  WF_GGML_Q5_K = 13,
  WF_GGML_Q6_K = 14,
  WF_GGML_BF16 = 30
} wf_ggml_type;

/* A metadata entry. `at` points into the mapping: the scalar's bytes, the string's bytes, or the
 * first element of an array. */
typedef struct wf_gguf_entry {
  wf_str key;
  wf_gguf_kind kind;
  wf_gguf_kind element; /* of an array */
  uint64_t n;           /* bytes of a string, elements of an array, else 1 */
  const unsigned char *at;
  size_t n_bytes; /* of the whole value */
} wf_gguf_entry;

typedef struct wf_gguf_tensor {
  wf_str name;
  uint32_t type; /* a wf_ggml_type, or another number with a known block size */
  uint32_t rank;
  uint64_t dims[4]; /* dims[0] is the row length; dims past rank are 1 */
  const unsigned char *at;
  size_t n_bytes;
} wf_gguf_tensor;

typedef struct wf_gguf {
  wf_map map;
  uint32_t version;
  WF_VEC(wf_gguf_entry) entries;  /* sorted by key */
  WF_VEC(wf_gguf_tensor) tensors; /* sorted by name */
} wf_gguf;

/* Owner: *g on success, released by wf_gguf_close; nothing on failure.
 * Thread: any; after opening, `immutable`.
 * Errors: IO, PARSE (damaged: the sentence names the place), UNSUPPORTED (version, big-endian, an
 * unknown element type), PACKAGE_INVALID (Git-LFS stub), LIMIT, OUT_OF_MEMORY. Time and memory are
 * bounded by the file's size. */
weft_status wf_gguf_open(wf_gguf *g, const char *path, weft_error *err) WF_NODISCARD;
void wf_gguf_close(wf_gguf *g); /* fine on a zeroed struct and twice */

/* NULL when absent. Borrowed. */
const wf_gguf_entry *wf_gguf_find(const wf_gguf *g, const char *key);
const wf_gguf_tensor *wf_gguf_find_tensor(const wf_gguf *g, const char *name);

/* Scalars by key, converted between numeric kinds where nothing is lost. *found tells whether the
 * key is there; *result is left alone when it is not. An array of equal numbers counts as one
 * number (head_count_kv is written so).
 * Errors: PARSE (another kind, or out of range). */
weft_status wf_gguf_u64(const wf_gguf *g, const char *key, uint64_t *result, bool *found,
                        weft_error *err) WF_NODISCARD;
weft_status wf_gguf_f64(const wf_gguf *g, const char *key, double *result, bool *found,
                        weft_error *err) WF_NODISCARD;
weft_status wf_gguf_bool(const wf_gguf *g, const char *key, bool *result, bool *found,
                         weft_error *err) WF_NODISCARD;
/* Borrowed from the mapping. Errors: PARSE (not a string). */
weft_status wf_gguf_string(const wf_gguf *g, const char *key, wf_str *result, bool *found,
                           weft_error *err) WF_NODISCARD;

/* Element i of a numeric array, converted. The caller checks kind and i < n. */
double wf_gguf_array_f64(const wf_gguf_entry *e, uint64_t i);
int64_t wf_gguf_array_i64(const wf_gguf_entry *e, uint64_t i);
/* Walks an array of strings: start with *cursor = 0 (bytes from e->at); false at the end. */
bool wf_gguf_array_next(const wf_gguf_entry *e, size_t *cursor, wf_str *result);

/* Elements and bytes of one block of a tensor type; false for a number no version of GGUF has. */
bool wf_ggml_block(uint32_t type, uint32_t *n_elements, uint32_t *n_bytes);
/* "Q4_K"; "type 77" is the caller's to print where this gives NULL. Static storage. */
const char *wf_ggml_name(uint32_t type);

#endif
