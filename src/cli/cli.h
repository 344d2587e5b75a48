/* SPDX-License-Identifier: Apache-2.0 */
/* The command line. Owns: arguments, terminals, signals, what is printed where. It sees
 * include/weft/ and base only, so that whatever it can do, a program that embeds weft can do as
 * well. One file a command. */
#ifndef WF_CLI_H
#define WF_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/npy.h"
#include "base/str.h"
#include "weft/weft.h"

enum { CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

/* ---- arguments ---------------------------------------------------------------------------------
 */

typedef enum cli_kind {
  CLI_FLAG,   /* bool */
  CLI_TEXT,   /* const char * */
  CLI_INT,    /* int64_t within lo..hi */
  CLI_NUMBER, /* float within lo..hi */
  CLI_SEED,   /* uint64_t */
  CLI_CHOICE, /* int: index into the words of `value`, which are parted by '|' */
  CLI_LIST    /* cli_texts: each use appends */
} cli_kind;

typedef WF_VEC(const char *) cli_texts;

typedef struct cli_option {
  const char *name, *alias; /* "--threads", "-t" or NULL */
  cli_kind kind;
  void *target;
  bool *given; /* set when the option occurs; NULL: nobody asks */
  double lo, hi;
  const char *value, *help; /* "N", "threads to use" */
} cli_option;

typedef struct cli_command {
  const char *name, *arguments, *summary;
  int (*run)(const struct cli_command *self, int argc, char **argv);
} cli_command;

/* Reads argv (without the command) into the options' targets; what is left goes to `rest`. Returns
 * -1 to go on, else the exit code: 0 after --help, 2 after a usage error that names the option.
 * Lists of several option tables are given one after another, ended by a row without a name. */
int cli_parse(const cli_command *c, int argc, char **argv, const cli_option *const *tables,
              size_t n_tables, cli_texts *rest);
/* "weft run: ..." on stderr; always 2. */
int cli_usage(const cli_command *c, const char *fmt, ...) WF_PRINTF(2, 3);
/* The one form of errors on stderr: what failed, why, how to fix. Returns the exit code. */
int cli_fail(const weft_error *err);
int cli_fail_memory(void);

/* "1,2,3" into ids; false on junk. Owner: *ids (wf_free). */
bool cli_parse_ids(const char *text, int32_t **ids, size_t *n);
bool cli_parse_counts(const char *text, int64_t lo, int64_t hi, int64_t **values, size_t *n);

/* ---- output
 * -------------------------------------------------------------------------------------- */

/* stdout: written at once, failures remembered; cli_out_close gives 0 or the exit code for them. */
void cli_out(const void *bytes, size_t n);
void cli_puts(const char *text);
bool cli_out_failed(void);
int cli_out_close(int code);
void cli_err(const char *fmt, ...) WF_PRINTF(1, 2);

/* ---- the process
 * ---------------------------------------------------------------------------------- */

void cli_process_init(void); /* file descriptors, LC_CTYPE, signals */
/* What SIGINT cancels; NULL: it ends the program with 130. */
void cli_interrupt_target(weft_cancel *c);
/* What stdout gets (static text, NULL: nothing) when SIGINT ends the program without a target. */
void cli_interrupt_text(const char *text);
/* While an import runs SIGINT, SIGTERM and SIGHUP are only noted, and cli_is_interrupted tells the
 * import, so that it can clear away what it has written. */
void cli_interrupt_noted(bool yes);
int cli_is_interrupted(void *user);
/* The exit code of a command that was interrupted; ends the program the way that SIGTERM or SIGHUP
 * would have. */
int cli_interrupted_code(void);
/* Around a call that imports `path` when it is a GGUF file: an interrupt lets the import clear away
 * its files, then ends the program. */
void cli_import_begin(const char *path);
void cli_import_end(const char *path);
/* As weft_model_open. An interrupt ends the program, after an import has cleared away its files. */
weft_status cli_model_open(weft_model **model, const char *path, const weft_model_options *options,
                           weft_error *err) WF_NODISCARD;
/* At the prompt of a chat SIGINT drops the line and says how to leave. */
void cli_interrupt_at_prompt(bool yes);
/* One byte of stdin; false at its end, on an error, and when SIGINT has come. */
bool cli_read_byte(unsigned char *byte);
bool cli_was_interrupted(void);
void cli_interrupt_clear(void);

/* ---- options that several commands share
 * --------------------------------------------------------- */

typedef struct cli_model_options {
  int64_t threads, context, chunk;
  int kv, precision, backend, log;
  bool precision_given, trust_links, no_cache;
  const char *model_file, *ort;
  cli_texts providers;
} cli_model_options;
enum { CLI_N_MODEL_OPTIONS = 13 };
void cli_model_options_init(cli_model_options *o);
void cli_model_deinit(cli_model_options *o);
void cli_model_table(cli_model_options *o, cli_option table[CLI_N_MODEL_OPTIONS]);
/* exact_by_default: what --precision is when it is not given. */
void cli_model_take(const cli_model_options *o, bool exact_by_default, weft_model_options *result);

typedef struct cli_decoding_options {
  bool greedy, ignore_eos, has_temperature, has_top_k, has_top_p, has_min_p, has_typical,
      has_repetition, has_presence, has_frequency, has_seed, has_logprobs, has_max_tokens,
      has_lookup;
  float temperature, top_p, min_p, typical_p, repetition, presence, frequency;
  int64_t top_k, max_tokens, logprobs, lookup;
  uint64_t seed;
  cli_texts biases, stops;
} cli_decoding_options;
enum { CLI_N_DECODING_OPTIONS = 17 };
void cli_decoding_init(cli_decoding_options *o);
void cli_decoding_deinit(cli_decoding_options *o);
void cli_decoding_table(cli_decoding_options *o, cli_option table[CLI_N_DECODING_OPTIONS]);
/* *biases is the caller's (wf_free) and must outlive the options' use. Returns -1 or an exit code.
 */
int cli_decoding_take(const cli_command *c, const cli_decoding_options *o, weft_bias **biases,
                      weft_generation_options *result);

/* ---- NumPy files
 * ----------------------------------------------------------------------------------- */

typedef wf_npy cli_array;
weft_status cli_npy_write(const char *path, const weft_tensor *t, weft_error *err) WF_NODISCARD;
/* A value written on the command line: "1", "1.5", "true", "1,2,3" in the port's type; rank 0 for a
 * single value where the port allows it. */
weft_status cli_array_parse(const char *text, const weft_tensor *port, cli_array *a,
                            weft_error *err) WF_NODISCARD;

/* The text behind NAME= as a tensor of the port *t, which it then describes. */
weft_status cli_take_value(const char *value, cli_array *a, weft_tensor *t,
                           weft_error *err) WF_NODISCARD;
/* The length of the input's name in "NAME=VALUE"; 0: none. A name may hold '=', so the longest of
 * the owner's `n` ports that fits is meant. */
typedef void cli_port_fn(const void *owner, size_t i, weft_tensor *port);
size_t cli_find_port(const char *text, const void *owner, size_t n, cli_port_fn *port_at,
                     weft_tensor *port);
/* "NAME=FILE.npy" or "NAME=VALUE". The tensor's name is the graph's, its data the array's. */
weft_status cli_read_input(const weft_graph *g, const char *text, cli_array *a, weft_tensor *t,
                           weft_error *err) WF_NODISCARD;

typedef struct cli_output {
  weft_tensor tensor;
  int64_t row; /* of an output with a tensor per row; -1: the whole */
} cli_output;
typedef WF_VEC(cli_output) cli_outputs;
/* NAME, NAME.row.I of a row, with '/' written '_', and the suffix. Owner: the caller (wf_free);
 * NULL: no memory. */
char *cli_output_name(const cli_output *o, const char *suffix) WF_NODISCARD;
/* Two members of a JSON object, "shape" and "values" in row-major order: numbers and booleans as
 * such, NaN and infinities as null, half precisions and 8-bit floats as their bits. */
void cli_json_tensor(wf_buf *out, const weft_tensor *t);
/* Each as NAME.npy or NAME.row.I.npy in `dir`, which is made; nothing is written when two outputs
 * would go to one file. */
weft_status cli_write_outputs(const char *dir, const cli_outputs *list,
                              weft_error *err) WF_NODISCARD;

/* ---- commands
 * ---------------------------------------------------------------------------------------- */

int cmd_run(const cli_command *c, int argc, char **argv);
int cmd_import(const cli_command *c, int argc, char **argv);
int cmd_inspect(const cli_command *c, int argc, char **argv);
int cmd_validate(const cli_command *c, int argc, char **argv);
int cmd_tokenize(const cli_command *c, int argc, char **argv);
int cmd_detokenize(const cli_command *c, int argc, char **argv);
int cmd_template(const cli_command *c, int argc, char **argv);
/* What weft exec asks of a workflow. */
typedef struct cli_request {
  const char *ids, *session;
  cli_texts overrides; /* COMPONENT=OTHER */
  bool greedy, ignore_eos, has_max_tokens, has_seed, has_temperature, has_top_k, has_top_p,
      has_min_p;
  int64_t max_tokens, top_k;
  uint64_t seed;
  float temperature, top_p, min_p;
} cli_request;
enum { CLI_N_REQUEST_OPTIONS = 12 };
void cli_request_table(cli_request *r, cli_option table[CLI_N_REQUEST_OPTIONS]);
void cli_request_deinit(cli_request *r);
bool cli_request_is_given(const cli_request *r);
/* Runs the package's workflow once and writes every output into `dir`. */
weft_status cli_exec_workflow(const char *path, const cli_texts *inputs, const cli_request *r,
                              const weft_model_options *options, const char *dir,
                              weft_error *err) WF_NODISCARD;
int cmd_exec(const cli_command *c, int argc, char **argv);
int cmd_logits(const cli_command *c, int argc, char **argv);
int cmd_bench(const cli_command *c, int argc, char **argv);
int cmd_cache(const cli_command *c, int argc, char **argv);
int cmd_verify(const cli_command *c, int argc, char **argv);
int cmd_providers(const cli_command *c, int argc, char **argv);

/* --profile: does nothing when file is NULL. After the model is closed cli_profile_end writes the
 * trace to the file and the table to stderr, and gives the command's code. */
weft_status cli_profile_begin(const char *file, weft_profile **profile, weft_model_options *options,
                              weft_error *err) WF_NODISCARD;
int cli_profile_end(const char *file, weft_profile *profile, int code);

/* Progress of import and packing on a terminal's stderr; silent elsewhere. */
void cli_progress(void *user, uint64_t done, uint64_t total, const char *what);
void cli_log_line(void *user, int level, const char *line);

/* The chat of `weft run` without a prompt. */
typedef struct cli_chat {
  weft_model *model;
  weft_generation *generation;
  const char *system;
  bool is_raw;
  weft_generation_options options;
} cli_chat;
int cli_repl(cli_chat *chat);
/* Prints an answer as it comes; *code gets the exit code so far. */
weft_status cli_stream_answer(weft_generation *g, wf_buf *keep, weft_result *result,
                              weft_error *err);

#endif
