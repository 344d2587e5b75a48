/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/process.h"
#include "cli/cli.h"

enum { MAX_PROMPT_BYTES = 1 << 30 };

typedef struct run_arguments {
  const char *prompt, *file, *messages, *ids, *system;
  bool raw, json;
} run_arguments;

/* What --json prints when it is interrupted while the model loads. */
static const char nothing_yet[] =
    "{\"prompt_ids\": [], \"output_ids\": [], \"text\": \"\", \"finish_reason\": \"cancelled\", "
    "\"usage\": {\"prompt_tokens\": 0, \"completion_tokens\": 0, \"cached_tokens\": 0}, "
    "\"timings\": {\"load_ms\": 0.0, \"prefill_ms\": 0.0, \"decode_ms\": 0.0, "
    "\"prefill_tokens_per_second\": 0.0, \"decode_tokens_per_second\": 0.0}}\n";

typedef struct answer_sink {
  wf_buf *keep; /* the whole text; NULL: not wanted */
  bool is_streamed;
  wf_buf *logprobs; /* JSON entries; NULL: not wanted */
  weft_model *model;
} answer_sink;

/* "id", "token", "bytes", "logprob" of one token. */
static void add_logprob_members(answer_sink *sink, wf_buf *b, int32_t id, double logprob) {
  char *bytes = NULL;
  size_t n = 0;
  weft_error ignored = {0};
  if (weft_token_bytes(sink->model, id, &bytes, &n, &ignored) != WEFT_OK) n = 0;
  wf_buf_printf(b, "\"id\": %d, \"token\": ", id);
  wf_buf_add_json_string(b, (wf_str){bytes, n}, false);
  wf_buf_puts(b, ", \"bytes\": [");
  for (size_t i = 0; i < n; i++) wf_buf_printf(b, "%s%d", i ? ", " : "", (unsigned char)bytes[i]);
  wf_buf_puts(b, "], \"logprob\": ");
  /* -inf is no JSON number: the likelihood is 0, and the most negative float says so */
  wf_buf_add_f64(b, logprob < -3e38 ? -3.4028234663852886e38 : logprob);
  weft_free(bytes);
}

static void add_logprobs(answer_sink *sink, const weft_token *token) {
  wf_buf *b = sink->logprobs;
  if (b->n) wf_buf_puts(b, ", ");
  wf_buf_puts(b, "{");
  add_logprob_members(sink, b, token->id, (double)token->logprob);
  wf_buf_puts(b, ", \"top_logprobs\": [");
  for (size_t i = 0; i < token->n_alternatives; i++) {
    wf_buf_puts(b, i ? ", {" : "{");
    add_logprob_members(sink, b, token->alternatives[i].id, (double)token->alternatives[i].logprob);
    wf_buf_puts(b, "}");
  }
  wf_buf_puts(b, "]}");
}

static int on_token(void *user, weft_generation *g, const weft_token *token) {
  answer_sink *sink = user;
  (void)g;
  if (sink->is_streamed) cli_out(token->text, token->n_text);
  if (sink->keep) wf_buf_add(sink->keep, token->text, token->n_text);
  if (sink->logprobs && token->id >= 0) add_logprobs(sink, token);
  return sink->is_streamed && cli_out_failed(); /* nobody reads the rest */
}

weft_status cli_stream_answer(weft_generation *g, wf_buf *keep, weft_result *result,
                              weft_error *err) {
  answer_sink sink = {.keep = keep, .is_streamed = true};
  return weft_generation_run(g, on_token, &sink, result, err);
}

static void add_ids(wf_buf *b, const int32_t *ids, size_t n) {
  wf_buf_putc(b, '[');
  for (size_t i = 0; i < n; i++) wf_buf_printf(b, "%s%d", i ? ", " : "", ids[i]);
  wf_buf_putc(b, ']');
}

static void add_ms(wf_buf *b, const char *name, double v) {
  wf_buf_printf(b, "\"%s\": ", name);
  wf_buf_add_f64(b, (double)(int64_t)(v * 1000 + 0.5) / 1000); /* to the microsecond */
}

/* tokens: the prompt's ids and the answer's behind them. */
static void print_json(weft_model *model, const int32_t *tokens, const weft_result *r, wf_buf *text,
                       wf_buf *logprobs, const weft_error *err, weft_status st) {
  wf_buf b = {0};
  weft_model_info info = {.struct_size = sizeof info};
  weft_model_describe(model, &info);
  const size_t n_prompt = (size_t)r->prompt_tokens, n_answer = (size_t)r->completion_tokens;
  const double prompt_run = (double)(r->prompt_tokens - r->cached_tokens);
  wf_buf_puts(&b, "{\"prompt_ids\": ");
  add_ids(&b, tokens, n_prompt);
  wf_buf_puts(&b, ", \"output_ids\": ");
  add_ids(&b, tokens + n_prompt, n_answer);
  wf_buf_puts(&b, ", \"text\": ");
  wf_buf_add_json_string(&b, (wf_str){text->at, text->n}, false);
  wf_buf_printf(&b, ", \"finish_reason\": \"%s\"", weft_finish_name(r->finish));
  if (st != WEFT_OK && st != WEFT_CANCELLED) {
    wf_buf_puts(&b, ", \"error\": ");
    wf_buf_add_json_string(&b, wf_str_of(err->what), false);
  }
  wf_buf_printf(&b,
                ", \"usage\": {\"prompt_tokens\": %lld, \"completion_tokens\": %lld, "
                "\"cached_tokens\": %lld}",
                (long long)r->prompt_tokens, (long long)r->completion_tokens,
                (long long)r->cached_tokens);
  wf_buf_puts(&b, ", \"timings\": {");
  add_ms(&b, "load_ms", (double)info.load_ms);
  wf_buf_puts(&b, ", ");
  add_ms(&b, "prefill_ms", r->prefill_ms);
  wf_buf_puts(&b, ", ");
  add_ms(&b, "decode_ms", r->decode_ms);
  wf_buf_puts(&b, ", ");
  add_ms(&b, "prefill_tokens_per_second", r->prefill_ms > 0 ? prompt_run / r->prefill_ms * 1e3 : 0);
  wf_buf_puts(&b, ", ");
  add_ms(&b, "decode_tokens_per_second",
         r->decode_ms > 0 ? (double)n_answer / r->decode_ms * 1e3 : 0);
  wf_buf_puts(&b, "}");
  if (logprobs) {
    wf_buf_puts(&b, ", \"logprobs\": [");
    wf_buf_add(&b, logprobs->at, logprobs->n);
    wf_buf_puts(&b, "]");
  }
  wf_buf_puts(&b, "}\n");
  if (b.failed)
    cli_fail_memory();
  else
    cli_out(b.at, b.n);
  wf_buf_deinit(&b);
}

static bool has_chat_template(const weft_model *model) {
  weft_model_info info = {.struct_size = sizeof info};
  weft_model_describe(model, &info);
  return info.has_chat_template != 0;
}

static weft_status prompt_ids(weft_model *model, const run_arguments *a, const char *text, size_t n,
                              int32_t **ids, size_t *n_ids, weft_error *err) {
  if (a->raw || !has_chat_template(model)) {
    if (!a->raw) wf_log(1, "the package has no chat template: the text goes to the model as it is");
    return weft_tokenize(model, text, n, WEFT_TOKENIZE_DEFAULT, ids, n_ids, err);
  }
  wf_buf b = {0};
  wf_buf_putc(&b, '[');
  if (a->system) {
    wf_buf_puts(&b, "{\"role\": \"system\", \"content\": ");
    wf_buf_add_json_string(&b, wf_str_of(a->system), false);
    wf_buf_puts(&b, "}, ");
  }
  wf_buf_puts(&b, "{\"role\": \"user\", \"content\": ");
  wf_buf_add_json_string(&b, (wf_str){text, n}, false);
  wf_buf_puts(&b, "}]");
  const weft_status st = b.failed ? wf_fail_memory(err, n, "the prompt")
                                  : weft_chat_ids(model, b.at, b.n, ids, n_ids, err);
  wf_buf_deinit(&b);
  return st;
}

/* The ids of a one-shot prompt. */
static weft_status gather_prompt(weft_model *model, const run_arguments *a, int32_t **ids,
                                 size_t *n, weft_error *err) {
  weft_status st = WEFT_OK;
  char *text = NULL;
  size_t n_text = 0;
  if (a->ids) {
    return cli_parse_ids(a->ids, ids, n) ? WEFT_OK : wf_fail_memory(err, 0, "token ids");
  }
  const char *path = a->messages ? a->messages : a->file;
  if (path) {
    if (strcmp(path, "-") == 0) path = "/dev/stdin";
    WF_RETURN_IF_ERROR(wf_file_read(path, MAX_PROMPT_BYTES, &text, &n_text, err));
  }
  if (a->messages) {
    st = weft_chat_ids(model, text, n_text, ids, n, err);
    if (st == WEFT_PARSE) st = wf_fail_in(err, st, "'%s': ", path);
  } else {
    st = prompt_ids(model, a, text ? text : a->prompt, text ? n_text : strlen(a->prompt), ids, n,
                    err);
  }
  wf_free(text);
  return st;
}

static int one_shot(weft_model *model, const run_arguments *a, weft_generation_options *options) {
  int code = -1;
  weft_error err = {0};
  weft_generation *g = NULL;
  weft_cancel *cancel = NULL;
  int32_t *ids = NULL;
  size_t n = 0;
  wf_buf text = {0}, logprobs = {0};
  weft_result result = {.struct_size = sizeof result};
  answer_sink sink = {.keep = &text,
                      .is_streamed = !a->json,
                      .model = model,
                      .logprobs = options->n_logprobs >= 0 ? &logprobs : NULL};
  weft_status st = gather_prompt(model, a, &ids, &n, &err);
  if (st == WEFT_OK) st = weft_generation_create(&g, model, options, &err);
  if (st == WEFT_OK) {
    cancel = weft_generation_cancel_handle(g);
    cli_interrupt_target(cancel);
    cli_interrupt_text(NULL);
    st = weft_generation_append(g, ids, n, &err);
    if (st == WEFT_CANCELLED) {
      code = CLI_INTERRUPTED;
      result.finish = WEFT_FINISH_CANCELLED;
      result.prompt_tokens = (int64_t)n;
      if (a->json) print_json(model, ids, &result, &text, sink.logprobs, &err, st);
      goto out;
    }
  }
  if (st != WEFT_OK) {
    code = cli_fail(&err);
    goto out;
  }
  st = weft_generation_run(g, on_token, &sink, &result, &err);
  if (a->json)
    print_json(model, weft_generation_tokens(g), &result, &text, sink.logprobs, &err, st);
  else if (text.n && text.at[text.n - 1] != '\n')
    cli_puts("\n");
  if (st == WEFT_CANCELLED)
    code = cli_out_failed() ? 0 : CLI_INTERRUPTED; /* cli_out_close has the code of the former */
  else
    code = st == WEFT_OK ? 0 : cli_fail(&err);
out:
  cli_interrupt_target(NULL);
  weft_cancel_release(cancel);
  weft_generation_close(g);
  wf_free(ids);
  wf_buf_deinit(&text);
  wf_buf_deinit(&logprobs);
  return code;
}

/* Package defaults first; then temperature 1 for chat, greedy for --ids. */
static void fill_defaults(const weft_model *model, const run_arguments *a,
                          weft_generation_options *o) {
  weft_model_info info = {.struct_size = sizeof info};
  weft_model_describe(model, &info);
  const bool caller_samples = o->temperature == o->temperature || o->top_k >= 0 ||
                              o->top_p == o->top_p || o->min_p == o->min_p ||
                              o->typical_p == o->typical_p;
  if (a->ids && !caller_samples && info.do_sample != 1) o->greedy = 1;
}

static int n_prompts(const run_arguments *a) {
  return (a->prompt != NULL) + (a->file != NULL) + (a->messages != NULL) + (a->ids != NULL);
}

/* What can be told before a model is loaded; -1 to go on. */
static int check(const cli_command *c, const run_arguments *a, const cli_texts *rest) {
  int32_t *ids = NULL;
  size_t n = 0;
  if (rest->n != 1) return cli_usage(c, "name one package, not %zu", rest->n);
  if (n_prompts(a) > 1) return cli_usage(c, "give one of -p, -f, --messages and --ids");
  if (a->system && (a->messages || a->ids || a->raw)) {
    return cli_usage(c,
                     "--system goes with the chat template, not with --messages, --ids or --raw");
  }
  if (a->json && n_prompts(a) == 0) {
    return cli_usage(c, "--json wants a prompt (-p, -f, --messages or --ids)");
  }
  if (a->ids && !cli_parse_ids(a->ids, &ids, &n)) {
    return cli_usage(c, "--ids wants token ids separated by commas, not '%s'", a->ids);
  }
  wf_free(ids);
  return -1;
}

int cmd_run(const cli_command *c, int argc, char **argv) {
  int code;
  run_arguments a = {0};
  cli_model_options mo;
  cli_decoding_options decoding;
  cli_option model_table[CLI_N_MODEL_OPTIONS], decoding_table[CLI_N_DECODING_OPTIONS];
  cli_texts rest = {0};
  weft_bias *biases = NULL;
  weft_model *model = NULL;
  weft_error err = {0};
  weft_generation_options options;
  weft_model_options model_options;
  const char *trace = NULL;
  weft_profile *profile = NULL;
  const cli_option own[] = {
      {"--prompt", "-p", CLI_TEXT, &a.prompt, NULL, 0, 0, "TEXT", "the prompt"},
      {"--file", "-f", CLI_TEXT, &a.file, NULL, 0, 0, "FILE",
       "the prompt is this file's bytes; - is stdin"},
      {"--messages", NULL, CLI_TEXT, &a.messages, NULL, 0, 0, "FILE",
       "a JSON list of chat messages"},
      {"--ids", NULL, CLI_TEXT, &a.ids, NULL, 0, 0, "IDS", "the prompt as token ids"},
      {"--raw", NULL, CLI_FLAG, &a.raw, NULL, 0, 0, NULL, "no chat template"},
      {"--system", NULL, CLI_TEXT, &a.system, NULL, 0, 0, "TEXT", "the system message"},
      {"--json", NULL, CLI_FLAG, &a.json, NULL, 0, 0, NULL, "print one JSON object"},
      {"--profile", NULL, CLI_TEXT, &trace, NULL, 0, 0, "FILE",
       "where the time of each step goes, as a trace for Perfetto"},
      {NULL, NULL, CLI_FLAG, NULL, NULL, 0, 0, NULL, NULL}};
  cli_model_options_init(&mo);
  cli_decoding_init(&decoding);
  cli_model_table(&mo, model_table);
  cli_decoding_table(&decoding, decoding_table);
  const cli_option *const tables[] = {own, decoding_table, model_table};
  code = cli_parse(c, argc, argv, tables, WF_ARRAY_LEN(tables), &rest);
  if (code >= 0) goto out;
  code = cli_decoding_take(c, &decoding, &biases, &options);
  if (code >= 0) goto out;
  code = check(c, &a, &rest);
  if (code >= 0) goto out;
  cli_model_take(&mo, false, &model_options);
  if (a.json) cli_interrupt_text(nothing_yet);
  if (cli_profile_begin(trace, &profile, &model_options, &err) != WEFT_OK ||
      cli_model_open(&model, rest.at[0], &model_options, &err) != WEFT_OK) {
    code = cli_fail(&err);
    goto out;
  }
  fill_defaults(model, &a, &options);
  if (n_prompts(&a)) {
    code = one_shot(model, &a, &options);
  } else {
    cli_chat chat = {.model = model,
                     .system = a.system,
                     .options = options,
                     .is_raw = a.raw || !has_chat_template(model)};
    code = cli_repl(&chat);
  }
out:
  weft_model_close(model);
  code = cli_profile_end(trace, profile, code);
  wf_free(biases);
  cli_decoding_deinit(&decoding);
  cli_model_deinit(&mo);
  wf_vec_free(&rest);
  return code;
}
