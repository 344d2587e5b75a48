/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's .npy files, versions 1 to 3 (numpy.lib.format): a magic, a header that is a Python
 * literal, data. Written little-endian in C order; read in either order of bytes and of axes.
 * Thread: any. */
#ifndef WF_NPY_H
#define WF_NPY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct wf_npy {
  int dtype; /* ONNX's number; bfloat16 and 8-bit floats are read as unsigned integers */
  int rank;
  int64_t dims[8];
  void *data; /* owned (wf_free) */
  size_t n_bytes;
} wf_npy;

/* Owner: a->data is the caller's, also after an error. Errors: IO, PARSE, LIMIT, OUT_OF_MEMORY. */
weft_status wf_npy_read(const char *path, wf_npy *a, weft_error *err) WF_NODISCARD;
/* Errors: UNSUPPORTED (a type NumPy lacks), IO, OUT_OF_MEMORY. */
weft_status wf_npy_write(const char *path, const wf_npy *a, weft_error *err) WF_NODISCARD;

#endif
