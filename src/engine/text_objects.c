/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers and templates without a model. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/partial.h"
#include "engine/engine.h"
#include "import/import.h"

enum { MAX_TEMPLATE_BYTES = 4 << 20 };

/* A GGUF file's tokenizer and template as a folder of files in a private temporary place. */
static weft_status extract_gguf(const char *path, char **dir, weft_error *err) {
  weft_status st = WEFT_OK;
  const char *tmp = getenv("TMPDIR");
  char *name = wf_path_join(tmp && tmp[0] ? tmp : "/tmp", "weft-text-XXXXXX");
  char *inner = NULL;
  if (!name) return wf_fail_memory(err, 0, "a path");
  if (!mkdtemp(name)) {
    st = wf_fail(err, WEFT_IO, "set TMPDIR to a folder that can be written",
                 "cannot make a temporary folder '%s'", name);
    goto out;
  }
  inner = wf_path_join(name, "files");
  if (!inner) {
    st = wf_fail_memory(err, 0, "a path");
  } else {
    const wf_import_options options = {.is_private = true};
    st = wf_import_gguf_tokenizer(path, inner, &options, err);
  }
  if (st != WEFT_OK) {
    rmdir(name);
    goto out;
  }
  *dir = inner;
  inner = NULL;
out:
  wf_free(name);
  wf_free(inner);
  return st;
}

static void remove_extracted(char *dir) {
  if (!dir) return;
  wf_folder_remove(dir);
  char *parent = wf_path_dir(dir);
  if (parent) rmdir(parent);
  wf_free(parent);
  wf_free(dir);
}

/* The text side of a package folder or GGUF file. */
static weft_status open_text(wf_package **p, const char *path, char **extracted, weft_error *err) {
  const wf_package_options options = {0};
  if (!wf_is_gguf(path)) return wf_package_open_text(p, path, &options, err);
  WF_RETURN_IF_ERROR(extract_gguf(path, extracted, err));
  return wf_package_open_text(p, *extracted, &options, err);
}

/* ---- tokenizers ---- */

static const wf_tokenizer *inner(const weft_tokenizer *t) {
  return (const wf_tokenizer *)(const void *)t;
}

weft_status weft_tokenizer_open(weft_tokenizer **result, const char *path, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_package *p = NULL;
  char *extracted = NULL;
  wf_tokenizer *t = NULL;
  const wf_str name = wf_str_of(path);
  const bool is_file = wf_path_exists(path) && !wf_path_is_dir(path);
  if (is_file && wf_str_ends(name, WF_STR(".model"))) {
    WF_TRY(wf_tokenizer_load_spm(&t, path, err));
  } else if (is_file && wf_str_ends(name, WF_STR("tokenizer.json"))) {
    char *dir = wf_path_dir(path),
         *config = dir ? wf_path_join(dir, "tokenizer_config.json") : NULL;
    st = wf_tokenizer_load_json(&t, path, config && wf_path_exists(config) ? config : NULL, err);
    wf_free(dir);
    wf_free(config);
    WF_TRY(st);
  } else if (is_file && wf_str_ends(name, WF_STR(".json")) &&
             strcmp(wf_path_base(path), "genai_config.json") != 0 &&
             strcmp(wf_path_base(path), "config.json") != 0) {
    WF_TRY(wf_tokenizer_load_json(&t, path, NULL, err));
  } else {
    WF_TRY(open_text(&p, path, &extracted, err));
    if (p->tokenizer_json) {
      WF_TRY(wf_tokenizer_load_json(&t, p->tokenizer_json, p->tokenizer_config, err));
    } else if (p->tokenizer_model) {
      WF_TRY(wf_tokenizer_load_spm(&t, p->tokenizer_model, err));
    } else {
      st = wf_fail(err, WEFT_PACKAGE_INVALID, "name a package, tokenizer.json or tokenizer.model",
                   "'%s' has neither tokenizer.json nor tokenizer.model", path);
      goto out;
    }
  }
  *result = (weft_tokenizer *)(void *)t;
out:
  wf_package_close(p);
  remove_extracted(extracted);
  return st;
}

void weft_tokenizer_close(weft_tokenizer *t) { wf_tokenizer_destroy((wf_tokenizer *)(void *)t); }

static weft_status copy_offsets(const wf_encoding *e, weft_encoding *full, weft_error *err) {
  size_t n_bytes = 0;
  for (size_t i = 0; i < e->n_ids; i++) n_bytes += e->tokens[i].n + 1;
  /* one block: the pointers, then the texts they point to */
  const size_t n_pointers = (e->n_ids + 1) * sizeof(char *);
  char *block = wf_alloc(n_pointers + n_bytes);
  uint32_t *offsets = wf_calloc(e->n_ids * 2 + 1, sizeof *offsets);
  if (!block || !offsets) {
    wf_free(block);
    wf_free(offsets);
    return wf_fail_memory(err, n_bytes, "offsets");
  }
  const char **tokens = (const char **)(void *)block;
  char *at = block + n_pointers;
  for (size_t i = 0; i < e->n_ids; i++) {
    tokens[i] = at;
    if (e->tokens[i].n) memcpy(at, e->tokens[i].at, e->tokens[i].n);
    at[e->tokens[i].n] = '\0';
    at += e->tokens[i].n + 1;
    offsets[2 * i] = e->spans[i].char_begin;
    offsets[2 * i + 1] = e->spans[i].char_end;
  }
  full->tokens = tokens;
  full->offsets = offsets;
  return WEFT_OK;
}

weft_status weft_tokenizer_encode(const weft_tokenizer *t, const char *text, size_t n_text,
                                  const char *pair, size_t n_pair, unsigned flags, int want_offsets,
                                  weft_encoding *result, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_encoding e = {0};
  weft_encoding full = {.struct_size = result->struct_size};
  const wf_encode_options options = {.add_special = !(flags & WEFT_TOKENIZE_NO_SPECIAL),
                                     .content_mode = (flags & WEFT_TOKENIZE_CONTENT) != 0,
                                     .want_offsets = want_offsets != 0};
  if (pair) {
    WF_TRY(wf_tokenizer_encode_pair(inner(t), (wf_str){text, n_text}, (wf_str){pair, n_pair},
                                    &options, &e, err));
  } else {
    WF_TRY(wf_tokenizer_encode(inner(t), (wf_str){text, n_text}, &options, &e, err));
  }
  if (want_offsets) WF_TRY(copy_offsets(&e, &full, err));
  full.ids = e.ids;
  full.n = e.n_ids;
  e.ids = NULL;
  memcpy(result, &full, full.struct_size < sizeof full ? full.struct_size : sizeof full);
out:
  wf_encoding_deinit(&e);
  return st;
}

void weft_encoding_clear(weft_encoding *e) {
  wf_free(e->ids);
  wf_free(wf_unconst(e->tokens)); /* one block of ours, see copy_offsets */
  wf_free(e->offsets);
  const size_t size = e->struct_size;
  memset(e, 0, size < sizeof *e ? size : sizeof *e);
  e->struct_size = size;
}

weft_status weft_tokenizer_decode(const weft_tokenizer *t, const int32_t *ids, size_t n_ids,
                                  int skip_special, char **text, size_t *n_text, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_buf b = {0};
  WF_TRY(wf_tokenizer_decode(inner(t), ids, n_ids, skip_special != 0, &b, err));
  *n_text = b.n;
  *text = wf_buf_take(&b);
  if (!*text) st = wf_fail_memory(err, b.n, "text");
out:
  wf_buf_deinit(&b);
  return st;
}

/* ---- templates ---- */

struct weft_template {
  wf_package *package; /* NULL without one */
  wf_template *compiled;
  char *extracted;
};

weft_status weft_template_open(weft_template **result, const char *package_path,
                               const char *template_path, weft_error *err) {
  weft_status st = WEFT_OK;
  char *source = NULL;
  size_t n = 0;
  weft_template *t = wf_zalloc(sizeof *t);
  if (!t) return wf_fail_memory(err, sizeof *t, "a template");
  if (package_path) WF_TRY(open_text(&t->package, package_path, &t->extracted, err));
  if (template_path) {
    WF_TRY(wf_file_read(template_path, MAX_TEMPLATE_BYTES, &source, &n, err));
  } else if (!t->package || !t->package->chat_template) {
    st = wf_fail(err, WEFT_INVALID_ARGUMENT, "name a template file or a package that has one",
                 "there is no chat template%s%s", package_path ? " in " : "",
                 package_path ? package_path : "");
    goto out;
  }
  WF_TRY(wf_template_compile(
      &t->compiled, source ? (wf_str){source, n} : wf_str_of(t->package->chat_template), err));
  *result = t;
  t = NULL;
out:
  weft_template_close(t);
  wf_free(source);
  return st;
}

void weft_template_close(weft_template *t) {
  if (!t) return;
  wf_template_destroy(t->compiled);
  wf_package_close(t->package);
  remove_extracted(t->extracted);
  wf_free(t);
}

weft_status weft_template_render(const weft_template *t, const char *json, size_t n_json,
                                 const char *now, char **text, size_t *n_text, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_buf b = {0};
  int64_t seconds = 0;
  if (now && !wf_parse_time(wf_str_of(now), &seconds)) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "write it as 2026-01-02T03:04:05",
                   "'%s' is no date and time", now);
  }
  WF_TRY(wf_chat_render(t->compiled, t->package, false, json, n_json, now ? &seconds : NULL, &b,
                        NULL, err));
  *n_text = b.n;
  *text = wf_buf_take(&b);
  if (!*text) st = wf_fail_memory(err, b.n, "text");
out:
  wf_buf_deinit(&b);
  return st;
}
