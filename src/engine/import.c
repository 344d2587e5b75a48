/* SPDX-License-Identifier: Apache-2.0 */
#include "import/import.h"

#include <string.h>

#include "engine/engine.h"

void weft_import_options_init(weft_import_options *options, size_t size) {
  const weft_import_options defaults = {.struct_size = size};
  if (size > sizeof defaults) size = sizeof defaults;
  memcpy(options, &defaults, size);
}

weft_status weft_import(const char *source, const char *out_dir, const weft_import_options *options,
                        weft_error *err) {
  weft_import_options o;
  weft_import_options_init(&o, sizeof o);
  if (options)
    memcpy(&o, options, options->struct_size < sizeof o ? options->struct_size : sizeof o);
  const wf_import_options import = {.progress = o.progress,
                                    .progress_user = o.progress_user,
                                    .is_cancelled = o.is_cancelled,
                                    .dequantize = o.dequantize != 0};
  return wf_import_gguf(source, out_dir, &import, err);
}
