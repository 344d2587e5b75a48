/* SPDX-License-Identifier: Apache-2.0 */
/* Where tests find ONNX Runtime. */
#ifndef WF_TEST_ORT_LIBRARY_H
#define WF_TEST_ORT_LIBRARY_H

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* $WEFT_TEST_ORT, else the pinned judge's; NULL: there is none. */
static inline const char *test_library(void) {
  static char path[4096];
  const char *given = getenv("WEFT_TEST_ORT");
  glob_t found = {0};
  if (given) return given[0] ? given : NULL;
  if (path[0]) return path;
  if (glob(WEFT_SOURCE_DIR
           "/build/venv/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*",
           0, NULL, &found) == 0) {
    snprintf(path, sizeof path, "%s", found.gl_pathv[0]);
  }
  globfree(&found);
  return path[0] ? path : NULL;
}

/* Skips the test, by name, where there is no library. */
#define need_library()                                                         \
  do {                                                                         \
    if (!test_library()) {                                                     \
      print_message("SKIP no libonnxruntime (make deps, or WEFT_TEST_ORT)\n"); \
      skip();                                                                  \
    }                                                                          \
  } while (0)

enum { TEST_NOT_RUN = 77 }; /* what tests.cmake takes as skipped */

/* $WEFT_TEST_BACKEND=ort: the suite runs on ONNX Runtime (tests.cmake adds it so). */
static inline bool test_is_on_ort(void) {
  const char *backend = getenv("WEFT_TEST_BACKEND");
  return backend && strcmp(backend, "ort") == 0;
}

/* First in main: leaves, by name, where the suite is to run on a library that is not there. */
#define leave_without_library()                                                \
  do {                                                                         \
    if (test_is_on_ort() && !test_library()) {                                 \
      print_message("SKIP no libonnxruntime (make deps, or WEFT_TEST_ORT)\n"); \
      return TEST_NOT_RUN;                                                     \
    }                                                                          \
  } while (0)

#endif
