/* SPDX-License-Identifier: Apache-2.0 */
/* weft: run generative ONNX packages. This is the whole public API.
 *
 * A *model* is a package opened once: immutable, shared by any number of threads and generations.
 * A *generation* is one conversation with it: tokens, their key/value cache, sampling state.
 *
 *   weft_model *model = NULL;
 *   weft_generation *chat = NULL;
 *   weft_error err = {sizeof err};
 *   if (weft_model_open(&model, "smollm2", NULL, &err)) goto failed;
 *   if (weft_generation_create(&chat, model, NULL, &err)) goto failed;
 *   if (weft_generation_append_text(chat, "Once upon a time", 16, &err)) goto failed;
 *   if (weft_generation_run(chat, on_text, NULL, NULL, &err)) goto failed;
 *
 * Thread words: `any` is safe everywhere; `exclusive` means any thread, but a second concurrent
 * call on the same object is refused with SESSION_BUSY and changes nothing; `immutable` objects
 * have no writer. Option structs begin with struct_size; weft_x_options_init fills the defaults
 * written at each field, and fields are only ever appended. All text is UTF-8. The library prints
 * nothing, never exits, sets no signal handler and no locale.
 */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include <stddef.h>
#include <stdint.h>

#include "weft/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0

/* "0.1.0". Owner: static storage. Thread: any. */
WEFT_API const char *weft_version(void);

/* Frees what a weft function has handed out with "free with weft_free". NULL is fine. Thread: any.
 */
WEFT_API void weft_free(void *p);

/* ---- logging --------------------------------------------------------------------------------- */

typedef enum weft_log_level {
  WEFT_LOG_ERROR = 0,
  WEFT_LOG_WARNING = 1,
  WEFT_LOG_INFO = 2,
  WEFT_LOG_DEBUG = 3
} weft_log_level;
typedef void weft_log_callback(void *user, int level, const char *line);

/* Sends log lines of the whole process to `callback` (NULL: nowhere, the default). The callback
 * runs on whatever thread logs, must not call weft, and gets no final newline. Thread: any. */
WEFT_API void weft_log_set(weft_log_callback *callback, void *user);

/* ---- profiles -------------------------------------------------------------------------------- */

typedef struct weft_profile weft_profile;

/* An empty profile, to be named in weft_model_options.
 * Owner: *result is the caller's (weft_profile_destroy). Thread: any. Errors: OUT_OF_MEMORY. */
WEFT_API WEFT_NODISCARD weft_status weft_profile_create(weft_profile **result, weft_error *err);
/* NULL is fine. Thread: any, once all that records into it is closed. */
WEFT_API void weft_profile_destroy(weft_profile *profile);
/* A trace that Perfetto and chrome://tracing open: one span a node (or a step of several fused
 * ones) and thread, with operator, shapes, bytes and floating-point operations. Owner: *json is the
 * caller's (weft_free). Thread: any, while nothing runs. Errors: OUT_OF_MEMORY. */
WEFT_API WEFT_NODISCARD weft_status weft_profile_trace(const weft_profile *profile, char **json,
                                                       weft_error *err);
/* The same as a table, a line an operator with its share of the time.
 * Owner, Thread, Errors: the same. */
WEFT_API WEFT_NODISCARD weft_status weft_profile_table(const weft_profile *profile, char **text,
                                                       weft_error *err);

/* ---- models ---------------------------------------------------------------------------------- */

typedef struct weft_model weft_model;

typedef enum weft_kv { WEFT_KV_F16 = 0, WEFT_KV_F32 = 1, WEFT_KV_Q8 = 2 } weft_kv;
typedef enum weft_precision {
  WEFT_PRECISION_FAST = 0, /* activations may be quantised where weights are */
  WEFT_PRECISION_EXACT = 1 /* everything multiplies in fp32 */
} weft_precision;

typedef struct weft_model_options {
  size_t struct_size;
  int n_threads;            /* 0: what affinity and the cgroup's quota allow */
  weft_kv kv;               /* WEFT_KV_F16 */
  weft_precision precision; /* WEFT_PRECISION_FAST */
  int64_t context_tokens;   /* 0: the model's own; the smaller of the two holds */
  int trust_links;          /* 0: links that lead out of the package are refused */
  int use_cache; /* 1: packed weights are kept in the user's cache folder; 0: in memory alone */
  const char *model_file; /* NULL: the package's own choice; else an ONNX file inside it */
  /* NULL: "native". "ort": ONNX Runtime; "auto": native, or ort where native lacks an operator,
   * which is logged as a warning. */
  const char *backend;
  int64_t chunk_tokens; /* 0: 512. A prompt is read in runs of at most this many tokens */
  /* Called with progress of import and packing, on the opening thread; NULL: silent. */
  void (*progress)(void *user, uint64_t done, uint64_t total, const char *what);
  void *progress_user;
  /* Asked now and then while a GGUF file is imported, on the opening thread, with progress_user;
   * not 0 ends the opening with CANCELLED. NULL: never. */
  int (*is_cancelled)(void *user);
  /* NULL: $WEFT_ORT, then where the loader looks. The file of libonnxruntime, 1.20 or later.
   * From 1.28 on it reads ORT_DISABLE_TELEMETRY when it starts, before weft can turn its telemetry
   * off by a call: a program that embeds weft sets it to 1 at its own start, as the command line
   * does. The library changes no environment: another thread may be reading it. */
  const char *ort_library;
  /* NULL; "NAME" or "NAME:key=value,...": ONNX Runtime's execution providers, best first. */
  const char *const *providers;
  size_t n_providers;
  /* NULL; else runs record where their time goes (weft_profile_create). It has to outlive the model
   * or graph that is opened with it. */
  weft_profile *profile;
} weft_model_options;

/* Fills the defaults. size is sizeof(weft_model_options) of the caller. Thread: any. */
WEFT_API void weft_model_options_init(weft_model_options *options, size_t size);

/* Opens a package folder, its metadata document, or a GGUF file (imported into the user's cache
 * first).
 *
 * Owner:   *result is the caller's on success (weft_model_close); unchanged on failure.
 * Thread:  any. The result is `immutable`.
 * Errors:  IO, PACKAGE_INVALID, UNSUPPORTED (an operator or tokenizer part, by name), IMPORT,
 *          OUT_OF_MEMORY (also when the estimate exceeds what this machine or cgroup allows),
 *          INVALID_ARGUMENT, CANCELLED.
 */
WEFT_API WEFT_NODISCARD weft_status weft_model_open(weft_model **result, const char *path,
                                                    const weft_model_options *options,
                                                    weft_error *err);
/* Gives up the caller's hold. What a generation still uses lives until that generation is closed,
 * so any order of closing works. NULL is fine. Thread: any. */
WEFT_API void weft_model_close(weft_model *model);

typedef struct weft_model_info {
  size_t struct_size;
  int64_t context_tokens; /* in force */
  int64_t vocab;          /* width of the logits */
  int n_threads;
  const char *backend, *cpu_level, *precision, *kind; /* borrowed from the model */
  int is_packed; /* rows of several conversations share one run */
  const char *why_not_packed;
  int has_chat_template;
  size_t weight_bytes, kv_bytes_per_token;
  uint64_t load_ms;
  int32_t bos_id; /* -1: none */
  size_t n_end_ids;
  const int32_t *end_ids; /* borrowed from the model */
  int do_sample;          /* the package's default: 1 samples, 0 greedy, -1 not stated */
} weft_model_info;
/* Thread: any. Fields past info->struct_size are left alone. */
WEFT_API void weft_model_describe(const weft_model *model, weft_model_info *info);

/* ---- text ------------------------------------------------------------------------------------ */

typedef enum weft_tokenize_flags {
  WEFT_TOKENIZE_DEFAULT = 0,
  WEFT_TOKENIZE_NO_SPECIAL = 1, /* adds no start or end tokens */
  WEFT_TOKENIZE_CONTENT = 2     /* control tokens in the text stay text */
} weft_tokenize_flags;

/* Text to ids. Owner: *ids is the caller's (weft_free). Thread: any.
 * Errors: INVALID_ARGUMENT, TOKENIZER, OUT_OF_MEMORY. Units: n_text bytes, n_ids ids. */
WEFT_API WEFT_NODISCARD weft_status weft_tokenize(const weft_model *model, const char *text,
                                                  size_t n_text, unsigned flags, int32_t **ids,
                                                  size_t *n_ids, weft_error *err);
/* Ids to text. skip_special leaves special tokens out. The text is terminated; ill-formed bytes are
 * as the tokens give them. Owner: *text is the caller's (weft_free). Thread: any. Errors:
 * INVALID_ARGUMENT (an id outside the vocabulary). */
WEFT_API WEFT_NODISCARD weft_status weft_detokenize(const weft_model *model, const int32_t *ids,
                                                    size_t n_ids, int skip_special, char **text,
                                                    size_t *n_text, weft_error *err);
/* The chat template over a JSON object {"messages": [...], "tools": [...], "add_generation_prompt":
 * true, any other variable} or a list of messages. Owner: *text is the caller's (weft_free).
 * Thread: any. Errors: PARSE (JSON), TEMPLATE (line and column), INVALID_ARGUMENT (no template). */
WEFT_API WEFT_NODISCARD weft_status weft_chat_text(const weft_model *model, const char *json,
                                                   size_t n_json, char **text, size_t *n_text,
                                                   weft_error *err);
/* The same, as ids: what users typed never becomes a control token. Owner: *ids is the caller's
 * (weft_free). Thread: any. Errors: those of weft_chat_text and weft_tokenize. */
WEFT_API WEFT_NODISCARD weft_status weft_chat_ids(const weft_model *model, const char *json,
                                                  size_t n_json, int32_t **ids, size_t *n_ids,
                                                  weft_error *err);

/* A token's own true bytes. Owner: *bytes is the caller's (weft_free), terminated. Thread: any.
 * Errors: INVALID_ARGUMENT (an id outside the vocabulary). */
WEFT_API WEFT_NODISCARD weft_status weft_token_bytes(const weft_model *model, int32_t id,
                                                     char **bytes, size_t *n_bytes,
                                                     weft_error *err);

/* A tokenizer alone: of a package folder, a GGUF file, a tokenizer.json or a SentencePiece
 * tokenizer.model. */
typedef struct weft_tokenizer weft_tokenizer;
/* Owner: *result is the caller's (weft_tokenizer_close). Thread: any; the result is `immutable`.
 * Errors: IO, PARSE, TOKENIZER (a part that is unknown, by name), UNSUPPORTED, IMPORT. */
WEFT_API WEFT_NODISCARD weft_status weft_tokenizer_open(weft_tokenizer **result, const char *path,
                                                        weft_error *err);
/* NULL is fine. Thread: any, once no call uses it. */
WEFT_API void weft_tokenizer_close(weft_tokenizer *t);

typedef struct weft_encoding {
  size_t struct_size;
  int32_t *ids; /* [n] */
  size_t n;
  const char **tokens; /* [n] the vocabulary's own spelling, terminated; with offsets only */
  uint32_t *offsets;   /* [n][2] begin and end in characters of the text; with offsets only */
} weft_encoding;
/* Text (and, unless pair is NULL, a second one as the post-processor joins them) to ids.
 * Owner: *result's arrays are the caller's, released by weft_encoding_clear. Thread: any.
 * Errors: INVALID_ARGUMENT (text that is not UTF-8, with its place), TOKENIZER, OUT_OF_MEMORY.
 * Units: n_text and n_pair are bytes. */
WEFT_API WEFT_NODISCARD weft_status weft_tokenizer_encode(const weft_tokenizer *t, const char *text,
                                                          size_t n_text, const char *pair,
                                                          size_t n_pair, unsigned flags,
                                                          int want_offsets, weft_encoding *result,
                                                          weft_error *err);
/* Frees the arrays and empties the struct; one that is empty is fine. Thread: as the storage. */
WEFT_API void weft_encoding_clear(weft_encoding *e);
/* As weft_detokenize. Owner, Thread, Errors: the same. */
WEFT_API WEFT_NODISCARD weft_status weft_tokenizer_decode(const weft_tokenizer *t,
                                                          const int32_t *ids, size_t n_ids,
                                                          int skip_special, char **text,
                                                          size_t *n_text, weft_error *err);

typedef struct weft_template weft_template;
/* A chat template alone. package_path (NULL: none) gives the special tokens and, unless
 * template_path names a file, the template.
 * Owner: *result is the caller's (weft_template_close). Thread: any; the result is `immutable`.
 * Errors: IO, PARSE, TEMPLATE (line and column), PACKAGE_INVALID, IMPORT, INVALID_ARGUMENT (neither
 * is given, or the package has no template). */
WEFT_API WEFT_NODISCARD weft_status weft_template_open(weft_template **result,
                                                       const char *package_path,
                                                       const char *template_path, weft_error *err);
/* NULL is fine. Thread: any, once no call uses it. */
WEFT_API void weft_template_close(weft_template *t);
/* json: an object of variables; its own bos_token and so on win over the package's. now is
 * "2026-01-02T03:04:05" or NULL for the local clock. Owner: *text is the caller's (weft_free).
 * Thread: any. Errors: PARSE, TEMPLATE (line and column), INVALID_ARGUMENT. */
WEFT_API WEFT_NODISCARD weft_status weft_template_render(const weft_template *t, const char *json,
                                                         size_t n_json, const char *now,
                                                         char **text, size_t *n_text,
                                                         weft_error *err);

/* ---- generations ------------------------------------------------------------------------------
 */

typedef struct weft_generation weft_generation;

typedef struct weft_bias {
  int32_t id;
  float bias;
} weft_bias;

typedef struct weft_generation_options {
  size_t struct_size;
  int greedy;               /* 0; wins over all other sampling options */
  float temperature;        /* NaN: the package's default, else 1; 0 is greedy */
  int32_t top_k;            /* -1: the package's default; 0 is off */
  float top_p;              /* NaN: the package's default; 0 is greedy */
  float min_p;              /* NaN: the package's default */
  float typical_p;          /* NaN: the package's default */
  float repetition_penalty; /* NaN: the package's default; counts prompt and generated tokens */
  float presence_penalty;   /* NaN: none; counts generated tokens only */
  float frequency_penalty;  /* NaN: none; counts generated tokens only */
  const weft_bias *biases;  /* NULL */
  size_t n_biases;          /* 0 */
  int has_seed;             /* 0: a fresh seed each time */
  uint64_t seed;
  int64_t max_tokens;       /* -1: until the context is full; 0: an empty answer */
  const char *const *stops; /* NULL; texts that end the answer and are left out of it */
  size_t n_stops;
  int ignore_eos; /* 1: end ids are never chosen */
  int n_logprobs; /* -1: none; 0: the chosen token only; N: and N alternatives */
  int n_lookup;   /* 0; prompt-lookup speculation of up to N tokens a step (greedy only) */
} weft_generation_options;
/* Fills the defaults. size is sizeof(weft_generation_options) of the caller. Thread: any. */
WEFT_API void weft_generation_options_init(weft_generation_options *options, size_t size);

typedef enum weft_finish {
  WEFT_FINISH_NONE = 0, /* not ended */
  WEFT_FINISH_STOP,     /* an end id or a stop text */
  WEFT_FINISH_LENGTH,   /* max_tokens or the context */
  WEFT_FINISH_CANCELLED,
  WEFT_FINISH_ERROR
} weft_finish;
/* "stop". Owner: static storage. Thread: any. */
WEFT_API const char *weft_finish_name(weft_finish finish);

typedef struct weft_logprob {
  int32_t id;
  float logprob; /* natural logarithm, of the raw distribution */
} weft_logprob;

/* One generated token. Pointers are borrowed and valid until the next call on the generation. */
typedef struct weft_token {
  size_t struct_size;
  int32_t id;
  const char *text; /* text that became certain with this token; whole characters; may be "" */
  size_t n_text;
  const char *bytes; /* the token's own true bytes */
  size_t n_bytes;
  weft_finish finish;               /* why the answer ended with this token, NONE if it goes on */
  float logprob;                    /* of the raw distribution; 0 when n_logprobs is -1 */
  const weft_logprob *alternatives; /* [n_alternatives], best first */
  size_t n_alternatives;
} weft_token;

/* Starts an empty conversation. options NULL: all defaults.
 * Owner: *result is the caller's (weft_generation_close); it holds the model. Thread: any.
 * Errors: INVALID_ARGUMENT (an option, by name), OUT_OF_MEMORY. */
WEFT_API WEFT_NODISCARD weft_status weft_generation_create(weft_generation **result,
                                                           weft_model *model,
                                                           const weft_generation_options *options,
                                                           weft_error *err);
/* Releases everything. Inside one's own callback the release is deferred until the callback
 * returns. NULL is fine. Thread: exclusive; a call while another thread is inside waits for
 * nothing: it cancels that call and the object goes when it returns. */
WEFT_API void weft_generation_close(weft_generation *g);

/* Changes the options for what comes next; the conversation stays. Thread: exclusive.
 * Errors: SESSION_BUSY, INVALID_ARGUMENT (an option, by name; the old ones stay), OUT_OF_MEMORY. */
WEFT_API WEFT_NODISCARD weft_status weft_generation_configure(
    weft_generation *g, const weft_generation_options *options, weft_error *err);

/* Appends tokens to the conversation and runs the prompt phase over them; begins a new answer.
 *
 * Owner:   tokens stay the caller's and are not kept after return.
 * Thread:  exclusive.
 * Errors:  SESSION_BUSY (retry), INVALID_ARGUMENT (an id outside the vocabulary), CONTEXT_FULL
 * (both counts), CANCELLED, OUT_OF_MEMORY. On any error the conversation is as it was.
 */
WEFT_API WEFT_NODISCARD weft_status weft_generation_append(weft_generation *g,
                                                           const int32_t *tokens, size_t n_tokens,
                                                           weft_error *err);
/* Tokenizes (with the tokenizer's own start tokens if the conversation is empty) and appends.
 * Thread: exclusive. Errors: those of weft_tokenize and weft_generation_append. */
WEFT_API WEFT_NODISCARD weft_status weft_generation_append_text(weft_generation *g,
                                                                const char *text, size_t n_text,
                                                                weft_error *err);
/* Makes the conversation exactly these tokens, keeping the part of the cache that they share with
 * what is there; *n_cached (may be NULL) is that part's length. For chats whose template is
 * rendered anew. Thread: exclusive. Errors: as weft_generation_append; on an error the conversation
 * holds what was shared, or all of the old one if an id or the length was wrong. */
WEFT_API WEFT_NODISCARD weft_status weft_generation_set(weft_generation *g, const int32_t *tokens,
                                                        size_t n_tokens, size_t *n_cached,
                                                        weft_error *err);

/* Chooses the next token and appends it. After the answer ended (finish) further steps are refused
 * with CLOSED until something is appended. token->struct_size must be set.
 * Thread: exclusive. Errors: INVALID_ARGUMENT
 * (an empty conversation), NOT_FINITE, CLOSED, CANCELLED, OUT_OF_MEMORY, SESSION_BUSY. */
WEFT_API WEFT_NODISCARD weft_status weft_generation_step(weft_generation *g, weft_token *token,
                                                         weft_error *err);

/* Returns 0 to go on, anything else to cancel. Runs on the thread that called weft_generation_run;
 * may read the generation and close it, not run it. */
typedef int weft_token_callback(void *user, weft_generation *g, const weft_token *token);

typedef struct weft_result {
  size_t struct_size;
  weft_finish finish;
  int64_t prompt_tokens, completion_tokens, cached_tokens;
  double prefill_ms, decode_ms;
} weft_result;

/* Steps until the answer ends. callback and result may be NULL. result->finish tells why; an answer
 * that was cancelled or failed keeps the tokens it has. Thread: exclusive. Errors: as
 * weft_generation_step. */
WEFT_API WEFT_NODISCARD weft_status weft_generation_run(weft_generation *g,
                                                        weft_token_callback *callback, void *user,
                                                        weft_result *result, weft_error *err);

/* Forgets all tokens after the first n_tokens; 0 empties the conversation. The next step or logits
 * read gives what a fresh conversation of these tokens would. Thread: exclusive. Errors:
 * INVALID_ARGUMENT (longer than it is). */
WEFT_API WEFT_NODISCARD weft_status weft_generation_rewind(weft_generation *g, size_t n_tokens,
                                                           weft_error *err);
/* Tokens in the conversation, prompt and answers. Thread: the one that uses the generation, also
 * in its callback; it must not be called while another thread is inside. */
WEFT_API size_t weft_generation_length(const weft_generation *g);
/* The tokens themselves. Borrowed until the next call that changes the conversation. Thread: as
 * weft_generation_length. */
WEFT_API const int32_t *weft_generation_tokens(const weft_generation *g);

/* Raw logits after the last token. Shapes: logits is [n_logits = vocab], the caller's.
 * Thread: exclusive. Errors: INVALID_ARGUMENT (empty conversation, wrong n_logits), CONTEXT_FULL
 * (an answer's last token may stand past the context), SESSION_BUSY, CANCELLED, OUT_OF_MEMORY. */
WEFT_API WEFT_NODISCARD weft_status weft_generation_logits(weft_generation *g, float *logits,
                                                           size_t n_logits, weft_error *err);
/* Raw logits after each of n_tokens tokens appended to an EMPTY conversation: [n_tokens, vocab]
 * into the caller's buffer; the tokens become the conversation. Thread: exclusive. Errors: as
 * weft_generation_append, INVALID_ARGUMENT also for a conversation that is not empty and a wrong
 * n_logits. */
WEFT_API WEFT_NODISCARD weft_status weft_generation_append_logits(weft_generation *g,
                                                                  const int32_t *tokens,
                                                                  size_t n_tokens, float *logits,
                                                                  size_t n_logits, weft_error *err);

/* ---- cancelling from elsewhere ------------------------------------------------------------------
 */

/* A counted handle that may outlive the generation. */
typedef struct weft_cancel weft_cancel;
/* Owner: the caller (weft_cancel_release). NULL: no memory. Thread: any while the generation lives.
 */
WEFT_API weft_cancel *weft_generation_cancel_handle(weft_generation *g);
/* Ends the running call at its next step (a prompt at its next chunk), or the next call if none
 * runs. After the generation is gone it does nothing. Thread: any; also from a signal handler. */
WEFT_API void weft_cancel_request(weft_cancel *c);
WEFT_API void weft_cancel_release(weft_cancel *c); /* NULL is fine. Thread: any. */

/* ---- import and inspection ------------------------------------------------------------------- */

typedef struct weft_import_options {
  size_t struct_size;
  void (*progress)(void *user, uint64_t done, uint64_t total, const char *what); /* NULL */
  void *progress_user;
  int dequantize;                  /* 0; 1: fp32 weights instead of the file's own types */
  int (*is_cancelled)(void *user); /* NULL; asked after each tensor; not 0 ends with CANCELLED */
} weft_import_options;
/* Fills the defaults. size is sizeof(weft_import_options) of the caller. Thread: any. */
WEFT_API void weft_import_options_init(weft_import_options *options, size_t size);
/* Converts a GGUF file into a package folder, which must not exist yet (or be empty). Nothing
 * half-made is left behind. Thread: any. Errors: IMPORT, IO, UNSUPPORTED, PACKAGE_INVALID,
 * CANCELLED. */
WEFT_API WEFT_NODISCARD weft_status weft_import(const char *source, const char *out_dir,
                                                const weft_import_options *options,
                                                weft_error *err);

/* What can execute models here: the backends, and ONNX Runtime's version, file and execution
 * providers. json 0: lines for people. Of the options ort_library and providers count (plug-ins are
 * registered); where neither is given, an ONNX Runtime that is not there is told and no error.
 * Owner: *text is the caller's (weft_free). Thread: any. Errors: IO, UNSUPPORTED, BACKEND,
 * OUT_OF_MEMORY. */
WEFT_API WEFT_NODISCARD weft_status weft_providers(const weft_model_options *options, int json,
                                                   char **text, weft_error *err);

/* What weft makes of a package, a GGUF file or an ONNX file, as text ("text", "json" or "dot").
 * Owner: *text is the caller's (weft_free). Thread: any. Errors: as weft_model_open. */
WEFT_API WEFT_NODISCARD weft_status weft_inspect(const char *path,
                                                 const weft_model_options *options,
                                                 const char *format, char **text, weft_error *err);

typedef struct weft_validate_options {
  size_t struct_size;
  int strict;      /* 1: warnings are errors; default 0 */
  int trust_links; /* 1: artifacts may be reached through links out of the package; default 0 */
} weft_validate_options;

/* Fills the defaults written above. struct_size is sizeof *o. Thread: any. */
WEFT_API void weft_validate_options_init(weft_validate_options *o, size_t struct_size);

/* Every problem of a package (docs/format.md): class, rule, place in the document, what is wrong
 * and the fix, as text ("text": a line a problem; "json": one object). Graphs are read for their
 * ports; weights are not. A folder without a metadata document is read as its own layout says, to
 * the first problem. options NULL: the defaults. Owner:  *text is the caller's (weft_free); it is
 * there also when problems were found, and NULL where the package could not be looked at. Thread:
 * any. Errors: what the first error's class says: IO, PARSE, PACKAGE_INVALID, UNSUPPORTED;
 * INVALID_ARGUMENT (format), OUT_OF_MEMORY. */
WEFT_API WEFT_NODISCARD weft_status weft_validate(const char *path,
                                                  const weft_validate_options *options,
                                                  const char *format, char **text, weft_error *err);

/* The ONNX file that weft would run for a package or a GGUF file, which is imported into the user's
 * cache (or `path` itself when it is one).
 * Owner: *file is the caller's (weft_free). Thread: any. Errors: as weft_model_open; IO when a GGUF
 * file cannot be imported because the cache cannot be written. */
WEFT_API WEFT_NODISCARD weft_status weft_model_file(const char *path,
                                                    const weft_model_options *options, char **file,
                                                    weft_error *err);

/* What the user's cache folder holds, a line an entry: bytes, kind, name. Owner: *text (weft_free).
 * Thread: any. Errors: IO, OUT_OF_MEMORY; a folder that is not there is an empty one. */
WEFT_API WEFT_NODISCARD weft_status weft_cache_list(char **text, weft_error *err);
/* Removes everything that weft has put into the user's cache folder; *n_bytes is what that was.
 * Running processes keep what they have mapped. Thread: any. Errors: IO, OUT_OF_MEMORY. */
WEFT_API WEFT_NODISCARD weft_status weft_cache_clear(uint64_t *n_bytes, weft_error *err);

/* ---- plain graphs
 * -------------------------------------------------------------------------------- */

/* A dense row-major tensor. dtype is numbered as ONNX's TensorProto.DataType (1 float32, 7 int64
 * ...); 4-bit and other packed types are not exchanged. */
typedef struct weft_tensor {
  size_t struct_size;
  const char *name;
  int dtype, rank;
  const int64_t *dims;
  const void *data;
  size_t n_bytes;
} weft_tensor;

typedef struct weft_graph weft_graph;
/* Opens an ONNX file, or the one that a package or a GGUF file has, as a plain graph.
 * Owner: *result is the caller's (weft_graph_close). Thread: any. Errors: as weft_model_open. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_open(weft_graph **result, const char *path,
                                                    const weft_model_options *options,
                                                    weft_error *err);
/* NULL is fine. Thread: any, once no call uses it. */
WEFT_API void weft_graph_close(weft_graph *graph);
/* Ports: name, dtype, rank (-1 unknown), dims (-1 symbolic); NULL data. Borrowed from the graph.
 * Thread: any. */
WEFT_API size_t weft_graph_n_inputs(const weft_graph *graph);
WEFT_API size_t weft_graph_n_outputs(const weft_graph *graph);
WEFT_API void weft_graph_input(const weft_graph *graph, size_t i, weft_tensor *port);
WEFT_API void weft_graph_output(const weft_graph *graph, size_t i, weft_tensor *port);
/* Runs it once. Outputs are borrowed from the graph until its next run or close. Thread: exclusive.
 * Shapes: outputs is [weft_graph_n_outputs]. Errors: INVALID_ARGUMENT (a missing, unknown or
 * misshapen input, by name), OUT_OF_MEMORY, BACKEND. */
WEFT_API WEFT_NODISCARD weft_status weft_graph_run(weft_graph *graph, const weft_tensor *inputs,
                                                   size_t n_inputs, weft_tensor *outputs,
                                                   weft_error *err);

/* ---- workflows
 * -------------------------------------------------------------------------------- */

/* A package's workflow: a program over several models, described by a document (docs/format.md).
 * Its plan is compiled once and never changes; a run is one pass over it. */
typedef struct weft_workflow weft_workflow;

/* 1: the path is such a document or a folder that has one. Thread: any. */
WEFT_API int weft_workflow_is(const char *path);
/* Owner: *result is the caller's (weft_workflow_close). Thread: any.
 * Errors: IO, PARSE, PACKAGE_INVALID, UNSUPPORTED (an adapter or operator that is missing, by
 * name), OUT_OF_MEMORY, BACKEND. weft_validate tells all problems of a package. */
WEFT_API WEFT_NODISCARD weft_status weft_workflow_open(weft_workflow **result, const char *path,
                                                       const weft_model_options *options,
                                                       weft_error *err);
/* NULL is fine. Its sessions and snapshots go on until they are closed themselves. Inside one's own
 * callback the release is deferred until the run returns. Thread: any. */
WEFT_API void weft_workflow_close(weft_workflow *workflow);
/* What it takes and gives: name, dtype (0: any), rank (-1: any), dims (-1 symbolic); NULL data.
 * Borrowed from the workflow. Thread: any. */
WEFT_API size_t weft_workflow_n_inputs(const weft_workflow *workflow);
WEFT_API size_t weft_workflow_n_outputs(const weft_workflow *workflow);
WEFT_API void weft_workflow_input(const weft_workflow *workflow, size_t i, weft_tensor *port);
WEFT_API void weft_workflow_output(const weft_workflow *workflow, size_t i, weft_tensor *port);

/* What an emit step published, as it happens. Borrowed for the callback. */
typedef enum weft_emit_mode {
  WEFT_EMIT_REPLACE = 0, /* the output's new whole value */
  WEFT_EMIT_APPEND = 1,  /* what comes behind the value so far */
  WEFT_EMIT_EVENT = 2
} weft_emit_mode;
typedef struct weft_emit {
  size_t struct_size;
  const weft_tensor *value; /* its name is the output's */
  weft_emit_mode mode;
  int64_t row;      /* of an output with a tensor per row; -1: the whole */
  int64_t sequence; /* of events, from 0 */
} weft_emit;
/* 0 goes on; anything else ends the run with CANCELLED. Runs on the thread that called the run, in
 * the order of the steps. Calls on the same workflow are refused there, but for cancel and close.
 */
typedef int weft_emit_callback(void *user, const weft_emit *emit);

/* Before each trip of a loop ("steps[2]"), and with done = limit when it ends; the limit is the
 * most trips that it may make. On the thread that called the run. */
typedef void weft_iteration_callback(void *user, const char *loop, int64_t done, int64_t limit);

/* Another component in the place of one that the package calls application_overridable. */
typedef struct weft_override {
  const char *component, *other;
} weft_override;

/* What a run is asked. Everything is borrowed until the next run or close. */
typedef struct weft_request {
  size_t struct_size;
  size_t n_inputs;
  const weft_tensor *inputs; /* by input name, or an application input's source name */
  size_t n_prompts;          /* rows of equal length; 0: no prompt tokens */
  int64_t n_prompt_tokens;
  const int64_t *prompts; /* [n_prompts][n_prompt_tokens] */
  int has_max_tokens, has_seed, ignore_eos;
  /* None of these: what the package says, else greedy. One of the four has_: all four count, those
   * not given being the package's defaults, else 1, 0 (off), 1 and 0; temperature 0 is greedy. */
  int is_greedy, has_temperature, has_top_k, has_top_p, has_min_p;
  int64_t max_tokens, seed, top_k;
  double temperature, top_p, min_p;
  size_t n_overrides;
  const weft_override *overrides;
  weft_emit_callback *on_emit; /* NULL: nobody listens */
  void *on_emit_user;
  weft_iteration_callback *on_iteration; /* NULL: nobody asks */
  void *on_iteration_user;
} weft_request;
/* Nothing given. Thread: as the storage. */
WEFT_API void weft_request_init(weft_request *request, size_t struct_size);

/* Runs it once, on the calling thread. Outputs are borrowed until the next run or close.
 * Thread: exclusive (a second caller meanwhile: SESSION_BUSY). Errors: MISSING_INPUT, BIND (a
 * tensor that contradicts its contract or that nothing declares), RUN (names the step), CANCELLED,
 * INVALID_ARGUMENT, OUT_OF_MEMORY. After an error there are no outputs. */
WEFT_API WEFT_NODISCARD weft_status weft_workflow_run(weft_workflow *workflow,
                                                      const weft_request *request, weft_error *err);
/* Ends the run that is going on at its next step. Thread: any. */
WEFT_API void weft_workflow_cancel(weft_workflow *workflow);
/* Rows of a row-wise output, each a tensor of its own; 0: it is one tensor, or did not come.
 * Thread: exclusive. */
WEFT_API size_t weft_workflow_rows(weft_workflow *workflow, size_t output);
/* 1 and *tensor: an output (row -1) or a row of one; 0: it did not come. Thread: exclusive. */
WEFT_API int weft_workflow_result(weft_workflow *workflow, size_t output, int64_t row,
                                  weft_tensor *tensor);

/* What the last run published as events to an output, in order. 0: there is none such.
 * Thread: exclusive. */
WEFT_API size_t weft_workflow_n_events(weft_workflow *workflow, size_t output);
WEFT_API int weft_workflow_event(weft_workflow *workflow, size_t output, size_t i,
                                 weft_tensor *tensor);

/* ---- sessions of a workflow
 * ------------------------------------------------------------------- */

/* A conversation: the cells that the document keeps between runs. A turn is a run that reads them
 * and, when it succeeds, writes them; a turn that fails or is cancelled changes none. Calls on one
 * workflow and its sessions follow one another: a second one meanwhile is SESSION_BUSY. */
typedef struct weft_session weft_session;
/* What a session held at one moment. */
typedef struct weft_snapshot weft_snapshot;

/* Owner: *result is the caller's (weft_session_close) and holds the workflow. Thread: exclusive.
 * Errors: SESSION_BUSY, OUT_OF_MEMORY. */
WEFT_API WEFT_NODISCARD weft_status weft_session_create(weft_session **result,
                                                        weft_workflow *workflow, weft_error *err);
/* Another conversation that goes on from the same cells; turns of either don't show in the other.
 * Owner, Thread, Errors: as weft_session_create. */
WEFT_API WEFT_NODISCARD weft_status weft_session_fork(weft_session **result, weft_session *from,
                                                      weft_error *err);
/* NULL is fine; also while a turn of it runs. Thread: any. */
WEFT_API void weft_session_close(weft_session *session);
/* From 1, never given twice in a workflow's life. Thread: any. */
WEFT_API uint64_t weft_session_number(const weft_session *session);

/* A run that goes on from the session. Its results are the workflow's.
 * Owner, Thread, Errors: as weft_workflow_run. */
WEFT_API WEFT_NODISCARD weft_status weft_session_turn(weft_session *session,
                                                      const weft_request *request, weft_error *err);
/* Forgets everything. Thread: exclusive. Errors: SESSION_BUSY. */
WEFT_API WEFT_NODISCARD weft_status weft_session_reset(weft_session *session, weft_error *err);
/* Owner: *result is the caller's (weft_snapshot_release). Cells are shared, not copied.
 * Thread: exclusive. Errors: SESSION_BUSY, OUT_OF_MEMORY. */
WEFT_API WEFT_NODISCARD weft_status weft_session_snapshot(weft_snapshot **result,
                                                          weft_session *session, weft_error *err);
/* NULL is fine. Thread: any. */
WEFT_API void weft_snapshot_release(weft_snapshot *snapshot);
/* Back to what a session of the same workflow was then; the snapshot stays. Thread: exclusive.
 * Errors: SESSION_BUSY, INVALID_ARGUMENT (of another workflow). */
WEFT_API WEFT_NODISCARD weft_status weft_session_rewind(weft_session *session,
                                                        const weft_snapshot *to, weft_error *err);
/* The cells into a new file that takes the path's place (mode 0600); advisory cells are left out.
 * Thread: exclusive. Errors: SESSION_BUSY, IO, OUT_OF_MEMORY. */
WEFT_API WEFT_NODISCARD weft_status weft_session_save(weft_session *session, const char *path,
                                                      weft_error *err);
/* What was saved in the place of the session's cells; on an error nothing has changed.
 * Thread: exclusive. Errors: SESSION_BUSY, IO, PACKAGE_INVALID (damaged, of another package or of
 * other contracts), OUT_OF_MEMORY. */
WEFT_API WEFT_NODISCARD weft_status weft_session_load(weft_session *session, const char *path,
                                                      weft_error *err);

/* Of the last run: components run, trips of all loops, chunks published. */
typedef struct weft_run_counts {
  size_t struct_size;
  uint64_t invocations, iterations, emits;
} weft_run_counts;
/* Thread: exclusive. */
WEFT_API void weft_workflow_count(weft_workflow *workflow, weft_run_counts *counts);

typedef struct weft_verify_options {
  size_t struct_size;
  const weft_tensor *inputs; /* NULL; by name. What is not given is made */
  size_t n_inputs;           /* 0 */
  uint64_t seed;             /* 1; of the inputs that are made */
  double tolerance; /* 0: 1e-4 of a tensor's largest value; half-precision types have more */
  int64_t n_tokens; /* 0: 16; of a decoder's greedy walk. -1: none */
  /* NULL: the same. A package or ONNX file with the same nodes that ONNX Runtime runs instead: what
   * did a change of weights or of a converter change? */
  const char *reference;
  /* Called with each value compared, once for each backend ("native", "ort"); NULL: nobody asks. */
  void (*on_value)(void *user, const char *backend, const weft_tensor *value);
  void *on_value_user;
} weft_verify_options;

/* Fills in the defaults above. Thread: any. */
WEFT_API void weft_verify_options_init(weft_verify_options *options, size_t size);

/* Runs a package or an ONNX file on the native backend and on ONNX Runtime, compares every value of
 * every node, and for a decoder a greedy walk. The report names the first node that parts, with its
 * attributes, shapes and both values at the worst place, and ends in a table and a verdict.
 *
 * Owner:  options are borrowed for the call; *text is the caller's (weft_free), also on MISMATCH.
 * Thread: any; on_value runs on the calling thread and must not call back into weft.
 * Errors: MISMATCH (the two don't agree; *text says where), INVALID_ARGUMENT (an input no graph
 *         has), UNSUPPORTED (ONNX Runtime is not there, or an operator native lacks), IO, BACKEND,
 *         OUT_OF_MEMORY; as weft_model_open. *text is untouched on these. */
WEFT_API WEFT_NODISCARD weft_status weft_verify(const char *path, const weft_model_options *options,
                                                const weft_verify_options *verify, char **text,
                                                weft_error *err);

#ifdef __cplusplus
}
#endif
#endif
