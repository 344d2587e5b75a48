/* SPDX-License-Identifier: Apache-2.0 */
/* Private to import/: an import with one more file in its folder. */
#ifndef WF_IMPORT_GGUF_H
#define WF_IMPORT_GGUF_H

#include <stddef.h>

#include "import/import.h"

typedef struct wf_import_marker {
  const char *name; /* of a file in the folder */
  const char *text;
  size_t n;
} wf_import_marker;

/* As wf_import_gguf; `marker` (NULL: none) is written last, before the folder is renamed. */
weft_status wf_import_gguf_marked(const char *gguf_path, const char *out_dir,
                                  const wf_import_options *opts, const wf_import_marker *marker,
                                  weft_error *err) WF_NODISCARD;

#endif
