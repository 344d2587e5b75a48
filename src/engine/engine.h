/* SPDX-License-Identifier: Apache-2.0 */
/* The public API made of the parts below: models, generations, plain graphs. Owns: the objects
 * behind weft.h and how the parts are put together. Never: HTTP, files' formats, numbers.
 *
 *   weft_model      counted, immutable after open: package, component, tokenizer, template
 *     wf_runner     the model's one worker: team, backend session, cache pool; entered under its
 * lock weft_generation one conversation; holds its model weft_cancel     counted flag, may outlive
 * the generation
 */
#ifndef WF_ENGINE_H
#define WF_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend/backend.h"
#include "base/mem.h"
#include "cache/cache.h"
#include "package/package.h"
#include "text/template.h"
#include "text/tokenizer.h"
#include "weft/weft.h"

/* Team, backend session and cache of a model. All its runs go through here one at a time: decoding
 * is bound by memory, so two runs side by side would only take each other's bandwidth. */
typedef struct wf_runner {
  pthread_mutex_t lock; /* makes its holder the worker; a leaf: no other lock is taken inside */
  const wf_backend *backend;
  const wf_component_info *info;
  int64_t chunk_tokens;
  uint64_t owner; /* the worker's token: its holder's while the lock is held */
  uint64_t former WF_GUARDED_BY(wf_worker_role); /* the holder's own, meanwhile */
  wf_team *team WF_PT_GUARDED_BY(wf_worker_role);
  wf_backend_session *session WF_GUARDED_BY(wf_worker_role);
  wf_profile *profile; /* NULL: none; outlives the model */
  wf_kv_pool *pool WF_GUARDED_BY(wf_worker_role);
} wf_runner;

weft_status wf_runner_init(wf_runner *r, const wf_backend *backend, const wf_component *component,
                           int n_threads, int64_t chunk_tokens, int64_t context_tokens,
                           wf_profile *profile, weft_error *err) WF_NODISCARD;
void wf_runner_deinit(wf_runner *r); /* fine on a zeroed one */
void wf_runner_enter(wf_runner *r) WF_ACQUIRE(wf_worker_role);
void wf_runner_leave(wf_runner *r) WF_RELEASE(wf_worker_role);
/* A turn is over: what only its runs needed goes back. Not while entered. */
void wf_runner_rest(wf_runner *r);

struct weft_model {
  atomic_int refs; /* the opener and each generation */
  wf_package *package;
  const wf_backend *backend;
  wf_component *component;
  const wf_component_info *info;
  wf_tokenizer *tokenizer;
  wf_template *chat_template; /* NULL: none */
  uint8_t *control;           /* [tokenizer vocab] flags, see design "Control tokens" */
  int64_t context_tokens, vocab;
  size_t kv_bytes_per_token;
  int n_threads;
  uint64_t load_ms;
  char *temporary_dir; /* an import that could not be cached; removed at the end */
  size_t n_end_ids;
  int32_t *end_ids;
  wf_runner runner;
};

/* weft_model_open with the kernels of a level that this CPU has, whatever WEFT_CPU says. */
weft_status wf_model_open_at(weft_model **result, const char *path,
                             const weft_model_options *options, wf_cpu_level level,
                             weft_error *err) WF_NODISCARD;
void wf_model_ref(weft_model *m);

/* NULL for NULL. */
wf_profile *wf_profile_of(weft_profile *p);

/* True when the file begins as a GGUF file does. */
bool wf_is_gguf(const char *path);
/* True when the path names a plain ONNX file. */
bool wf_is_onnx(const char *path);

/* Opens a package by its folder or document, or imports a GGUF file into the user's cache and opens
 * what that gives.
 *
 * Owner:  *p is the caller's on success. *temporary_dir, set on failure too when the cache could
 * not be written, is a folder that the caller gives to wf_temporary_remove once the package's files
 *         are closed; else it is left alone.
 * Thread: any. Errors: those of wf_import_cached and wf_package_open. */
weft_status wf_package_open_or_import(wf_package **p, char **temporary_dir, const char *path,
                                      const weft_model_options *o, weft_error *err) WF_NODISCARD;
/* Removes the folder and frees its name. NULL is fine. */
void wf_temporary_remove(char *dir);

/* What of the caller's options every compilation wants alike. `options` and what it points to are
 * borrowed. */
void wf_compile_options_take(wf_compile_options *c, const weft_model_options *options);

/* The options a caller gave, with everything it left out filled in. */
void wf_model_options_take(weft_model_options *full, const weft_model_options *given);

/* Renders a compiled template over a JSON object of variables, with the package's tokens (may be
 * NULL) where the JSON has none. is_chat takes a bare list of messages too and asks for a
 * generation prompt. now_seconds may be NULL (the local clock), runs too. */
weft_status wf_chat_render(const wf_template *t, const wf_package *p, bool is_chat,
                           const char *json, size_t n_json, const int64_t *now_seconds,
                           wf_buf *text, wf_text_runs *runs, weft_error *err) WF_NODISCARD;

struct weft_cancel {
  atomic_int refs;
  atomic_int requested;
};

#endif
