/* SPDX-License-Identifier: Apache-2.0 */
/* What a folder of model files says, read into one validated form. Owns: the metadata formats and
 * which file is which. Never: graphs beyond their port names, weights, execution. Nothing here
 * decides by a model's name: what a package is follows from its documents and its graph's ports. */
#ifndef WF_PACKAGE_H
#define WF_PACKAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"
#include "graph/graph.h"

/* Generation defaults of a package; NaN and -1: not stated. */
typedef struct wf_generation_defaults {
  int do_sample; /* -1 not stated, 0 greedy, 1 sample */
  double temperature, top_p, min_p, typical_p, repetition_penalty;
  int64_t top_k;
} wf_generation_defaults;

typedef struct wf_symbol_value {
  const char *symbol;
  int64_t value;
} wf_symbol_value;

typedef struct wf_package {
  wf_arena *arena;        /* owns everything below */
  const char *root;       /* the folder, canonical */
  const char *kind;       /* "onnxruntime-genai" or "huggingface": which reader */
  const char *model_type; /* as the document says it, for people; may be "" */
  const char *model;      /* canonical path of the ONNX file */
  wf_ports ports;
  size_t n_layers;  /* state pairs; 0: a graph without past, whole prompt each step */
  size_t n_symbols; /* symbolic axes of the graph that the documents give a number */
  const wf_symbol_value *symbols;
  int64_t context_tokens; /* 0: not stated */
  int64_t vocab;          /* 0: not stated */
  int32_t bos_id, pad_id; /* -1: none */
  size_t n_end_ids;
  const int32_t *end_ids;                                          /* every end-of-sequence id */
  const char *tokenizer_json, *tokenizer_model, *tokenizer_config; /* canonical paths or NULL */
  const char *chat_template;                                       /* text or NULL */
  const char *bos_text, *eos_text, *pad_text, *unk_text; /* for the template; NULL: not stated */
  wf_generation_defaults defaults;
} wf_package;

typedef struct wf_package_options {
  bool trust_links;
  const char *model_file; /* NULL: the best that is there */
} wf_package_options;

/* Reads the package at `path` (a folder or its metadata document).
 * Owner:  *result on success (wf_package_close). Thread: any; `immutable` afterwards.
 * Errors: IO (no package there), PACKAGE_INVALID, PARSE (JSON: file, line, column), UNSUPPORTED (a
 * kind of model that needs more than one graph, by name), OUT_OF_MEMORY. */
weft_status wf_package_open(wf_package **result, const char *path,
                            const wf_package_options *options, weft_error *err) WF_NODISCARD;
/* Only the text side of a folder: tokenizer files, special tokens, chat template; no model is
 * needed. */
weft_status wf_package_open_text(wf_package **result, const char *dir,
                                 const wf_package_options *options, weft_error *err) WF_NODISCARD;
void wf_package_close(wf_package *p); /* NULL is fine */

#endif
