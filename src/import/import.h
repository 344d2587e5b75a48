/* SPDX-License-Identifier: Apache-2.0 */
/* Turns models in other formats into packages: a GGUF file into an onnxruntime-genai folder. The
 * layer writes folders and files; it never runs a model and never reads a package. */
#ifndef WF_IMPORT_H
#define WF_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Called now and then on the thread that imports. `what` is the step ("weights"), borrowed. */
typedef void wf_import_progress_fn(void *user, uint64_t done_bytes, uint64_t total_bytes,
                                   const char *what);

typedef struct wf_import_options {
  wf_import_progress_fn *progress; /* NULL: none */
  void *progress_user;
  /* NULL: never. Asked after each tensor; not 0 ends the import with CANCELLED. */
  int (*is_cancelled)(void *progress_user);
  bool dequantize;    /* write every weight as float32: an oracle's package, not a small one */
  bool is_private;    /* folders 0700, files 0600 */
  int accuracy_level; /* of MatMulNBits: 0 stands for 4 (int8 activations allowed), 1 is float32 */
} wf_import_options;

/* Imports a GGUF file with weights into a new package folder: model.onnx, model.onnx.data,
 * genai_config.json, config.json, generation_config.json, tokenizer.json, tokenizer_config.json,
 * special_tokens_map.json and, if the file has one, chat_template.jinja.
 *
 * Everything is written into a temporary folder beside `out_dir` and renamed at the end, so nothing
 * half-made stays. Weights are streamed: memory stays within a few rows plus one tensor's offsets.
 * opts may be NULL.
 * Thread: any. Errors: IO, PARSE (damaged), UNSUPPORTED (architecture, tensor type, tokenizer: by
 * name), INVALID_ARGUMENT (out_dir exists and is not empty), LIMIT, OUT_OF_MEMORY. */
weft_status wf_import_gguf(const char *gguf_path, const char *out_dir,
                           const wf_import_options *opts, weft_error *err) WF_NODISCARD;

/* The tokenizer alone (tokenizer.json, tokenizer_config.json, special_tokens_map.json,
 * chat_template.jinja), also from vocabulary-only files of any architecture.
 * Errors: as above; TOKENIZER for a tokenizer that weft can't turn into tokenizer.json. */
weft_status wf_import_gguf_tokenizer(const char *gguf_path, const char *out_dir,
                                     const wf_import_options *opts, weft_error *err) WF_NODISCARD;

/* The folder a GGUF file was or is now imported into, in the user's cache (wf_cache_dir()/imports),
 * keyed by device, inode, size, time and the importer's version.
 *
 * Owner:  *dir is the caller's (wf_free). *is_temporary: the cache could not be written and the
 *         folder is a private one in $TMPDIR, which the caller removes by wf_folder_remove.
 * Thread: any; also safe between processes. Errors: as wf_import_gguf. */
weft_status wf_import_cached(const char *gguf_path, const wf_import_options *opts, char **dir,
                             bool *is_temporary, weft_error *err) WF_NODISCARD;

#endif
