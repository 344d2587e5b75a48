/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

int cli_usage(const cli_command *c, const char *fmt, ...) {
  char text[1024];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  cli_err("weft %s: %s\ntry: weft %s --help\n", c->name, text, c->name);
  return CLI_USAGE;
}

static const cli_option *find(const char *name, size_t n, const cli_option *const *tables,
                              size_t n_tables) {
  for (size_t t = 0; t < n_tables; t++) {
    for (const cli_option *o = tables[t]; o->name; o++) {
      if (strlen(o->name) == n && memcmp(o->name, name, n) == 0) return o;
      if (o->alias && strlen(o->alias) == n && memcmp(o->alias, name, n) == 0) return o;
    }
  }
  return NULL;
}

static void print_help(const cli_command *c, const cli_option *const *tables, size_t n_tables) {
  wf_buf b = {0};
  wf_buf_printf(&b, "usage: weft %s %s\n\n%s\n\noptions:\n", c->name, c->arguments, c->summary);
  for (size_t t = 0; t < n_tables; t++) {
    for (const cli_option *o = tables[t]; o->name; o++) {
      /* a command's own option of the same name goes before the shared one */
      if (find(o->name, strlen(o->name), tables, n_tables) != o) continue;
      char left[64];
      snprintf(left, sizeof left, "%s%s%s%s%s", o->name, o->alias ? ", " : "",
               o->alias ? o->alias : "", o->kind == CLI_FLAG ? "" : " ",
               o->kind == CLI_FLAG ? "" : o->value);
      wf_buf_printf(&b, "  %-30s %s\n", left, o->help);
    }
  }
  wf_buf_printf(&b, "  %-30s %s\n", "--help", "show this");
  cli_out(b.at, b.n);
  wf_buf_deinit(&b);
}

static int bad_value(const cli_command *c, const cli_option *o, const char *text) {
  switch (o->kind) {
    case CLI_INT:
      return cli_usage(c, "%s wants a whole number from %lld to %lld, not '%s'", o->name,
                       (long long)o->lo, (long long)o->hi, text);
    case CLI_NUMBER: {
      wf_buf lo = {0}, hi = {0};
      wf_buf_add_f64(&lo, o->lo);
      wf_buf_add_f64(&hi, o->hi);
      const int code = cli_usage(c, "%s wants a number from %s to %s, not '%s'", o->name,
                                 wf_buf_cstr(&lo), wf_buf_cstr(&hi), text);
      wf_buf_deinit(&lo);
      wf_buf_deinit(&hi);
      return code;
    }
    case CLI_SEED:
      return cli_usage(c, "%s wants a whole number from 0 to 18446744073709551615, not '%s'",
                       o->name, text);
    case CLI_CHOICE:
      return cli_usage(c, "%s is one of %s, not '%s'", o->name, o->value, text);
    case CLI_FLAG:
    case CLI_TEXT:
    case CLI_LIST:
      break;
  }
  return cli_usage(c, "%s: bad value '%s'", o->name, text);
}

static int choice_index(const char *words, const char *text) {
  for (int i = 0;; i++) {
    const size_t n = strcspn(words, "|");
    if (strlen(text) == n && memcmp(words, text, n) == 0) return i;
    if (words[n] == '\0') return -1;
    words += n + 1;
  }
}

static int take_value(const cli_command *c, const cli_option *o, const char *text) {
  int64_t i;
  uint64_t u;
  double v;
  switch (o->kind) {
    case CLI_FLAG:
      *(bool *)o->target = true;
      break;
    case CLI_TEXT:
      *(const char **)o->target = text;
      break;
    case CLI_INT:
      if (!wf_parse_i64(wf_str_of(text), &i) || (double)i < o->lo || (double)i > o->hi) {
        return bad_value(c, o, text);
      }
      *(int64_t *)o->target = i;
      break;
    case CLI_NUMBER:
      if (!wf_parse_f64(wf_str_of(text), &v) || !isfinite(v) || v < o->lo || v > o->hi) {
        return bad_value(c, o, text);
      }
      *(float *)o->target = (float)v;
      break;
    case CLI_SEED:
      if (!wf_parse_u64(wf_str_of(text), &u)) return bad_value(c, o, text);
      *(uint64_t *)o->target = u;
      break;
    case CLI_CHOICE: {
      const int at = choice_index(o->value, text);
      if (at < 0) return bad_value(c, o, text);
      *(int *)o->target = at;
      break;
    }
    case CLI_LIST: {
      cli_texts *list = o->target;
      if (!wf_vec_push(list, text)) return cli_fail_memory();
      break;
    }
  }
  if (o->given) *o->given = true;
  return -1;
}

/* "-5" and "-.5" after an option that takes a value are that value; elsewhere "-" alone is stdin.
 */
static bool looks_like_option(const char *arg) { return arg[0] == '-' && arg[1] != '\0'; }

int cli_parse(const cli_command *c, int argc, char **argv, const cli_option *const *tables,
              size_t n_tables, cli_texts *rest) {
  bool only_rest = false;
  for (int i = 0; i < argc; i++) {
    const char *arg = argv[i];
    if (only_rest || !looks_like_option(arg)) {
      if (!wf_vec_push(rest, arg)) return cli_fail_memory();
      continue;
    }
    if (strcmp(arg, "--") == 0) {
      only_rest = true;
      continue;
    }
    if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
      print_help(c, tables, n_tables);
      return cli_out_close(0);
    }
    const char *equals = arg[1] == '-' ? strchr(arg, '=') : NULL;
    const size_t n = equals ? (size_t)(equals - arg) : strlen(arg);
    const cli_option *o = find(arg, n, tables, n_tables);
    if (!o) return cli_usage(c, "unknown option '%.*s'", (int)n, arg);
    const char *value = NULL;
    if (o->kind == CLI_FLAG) {
      if (equals) return cli_usage(c, "%s takes no value", o->name);
    } else if (equals) {
      value = equals + 1;
    } else {
      if (i + 1 >= argc) return cli_usage(c, "%s wants a value (%s)", o->name, o->value);
      value = argv[++i];
    }
    const int code = take_value(c, o, value);
    if (code >= 0) return code;
  }
  return -1;
}

bool cli_parse_counts(const char *text, int64_t lo, int64_t hi, int64_t **values, size_t *n) {
  WF_VEC(int64_t) list = {0};
  for (const char *p = text;;) {
    const size_t len = strcspn(p, ",");
    int64_t v;
    /* blanks around a number are fine: "1, 2" */
    wf_str part = {p, len};
    while (part.n && part.at[0] == ' ') part = (wf_str){part.at + 1, part.n - 1};
    while (part.n && part.at[part.n - 1] == ' ') part.n--;
    if (!wf_parse_i64(part, &v) || v < lo || v > hi || !wf_vec_push(&list, v)) {
      wf_vec_free(&list);
      return false;
    }
    if (p[len] == '\0') break;
    p += len + 1;
  }
  *values = list.at;
  *n = list.n;
  return true;
}

bool cli_parse_ids(const char *text, int32_t **ids, size_t *n) {
  int64_t *values = NULL;
  *ids = NULL;
  *n = 0;
  if (text[0] == '\0') return true;
  if (!cli_parse_counts(text, INT32_MIN, INT32_MAX, &values, n)) return false;
  *ids = wf_calloc(*n, sizeof **ids);
  for (size_t i = 0; *ids && i < *n; i++) (*ids)[i] = (int32_t)values[i];
  wf_free(values);
  return *ids != NULL;
}

/* ---- shared option groups ------------------------------------------------------------------- */

void cli_model_deinit(cli_model_options *o) { wf_vec_free(&o->providers); }

void cli_model_options_init(cli_model_options *o) { *o = (cli_model_options){.log = 1}; }

void cli_model_table(cli_model_options *o, cli_option table[CLI_N_MODEL_OPTIONS]) {
  const cli_option rows[CLI_N_MODEL_OPTIONS] = {
      {"--backend", NULL, CLI_CHOICE, &o->backend, NULL, 0, 0, "native|ort|auto",
       "what executes the model"},
      {"--ort", NULL, CLI_TEXT, &o->ort, NULL, 0, 0, "FILE",
       "the libonnxruntime to use (default: $WEFT_ORT, then the loader's)"},
      {"--ep", NULL, CLI_LIST, &o->providers, NULL, 0, 0, "NAME[:KEY=VALUE,..]",
       "an execution provider of ONNX Runtime (repeatable, best first)"},
      {"--threads", "-t", CLI_INT, &o->threads, NULL, 1, 1024, "N",
       "threads (default: all that may be used)"},
      {"--kv", NULL, CLI_CHOICE, &o->kv, NULL, 0, 0, "f16|f32|q8",
       "element type of the key/value cache"},
      {"--context", "-c", CLI_INT, &o->context, NULL, 1, 1 << 30, "N",
       "tokens a conversation may have"},
      {"--precision", NULL, CLI_CHOICE, &o->precision, &o->precision_given, 0, 0, "fast|exact",
       "exact multiplies in fp32"},
      {"--chunk", NULL, CLI_INT, &o->chunk, NULL, 1, 65536, "N",
       "tokens of a prompt read at a time"},
      {"--model-file", NULL, CLI_TEXT, &o->model_file, NULL, 0, 0, "NAME",
       "which ONNX file of the package"},
      {"--trust-links", NULL, CLI_FLAG, &o->trust_links, NULL, 0, 0, NULL,
       "follow links out of the package"},
      {"--no-cache", NULL, CLI_FLAG, &o->no_cache, NULL, 0, 0, NULL,
       "keep packed weights in memory only"},
      {"--log", NULL, CLI_CHOICE, &o->log, NULL, 0, 0, "error|warning|info|debug",
       "what to say on stderr"},
      {NULL, NULL, CLI_FLAG, NULL, NULL, 0, 0, NULL, NULL}};
  memcpy(table, rows, sizeof rows);
}

void cli_model_take(const cli_model_options *o, bool exact_by_default, weft_model_options *result) {
  static const weft_kv kv_types[] = {WEFT_KV_F16, WEFT_KV_F32, WEFT_KV_Q8};
  static const char *const backends[] = {"native", "ort", "auto"};
  weft_model_options_init(result, sizeof *result);
  result->n_threads = (int)o->threads;
  result->kv = kv_types[o->kv];
  /* ONNX Runtime gives by default what it gives by itself */
  const bool is_ort = strcmp(backends[o->backend], "ort") == 0;
  const bool exact = o->precision_given ? o->precision == 1 : exact_by_default && !is_ort;
  result->precision = exact ? WEFT_PRECISION_EXACT : WEFT_PRECISION_FAST;
  result->context_tokens = o->context;
  result->chunk_tokens = o->chunk;
  result->trust_links = o->trust_links;
  result->use_cache = !o->no_cache;
  result->model_file = o->model_file;
  result->backend = backends[o->backend];
  result->ort_library = o->ort;
  result->providers = o->providers.at;
  result->n_providers = o->providers.n;
  result->progress = cli_progress;
  result->is_cancelled = cli_is_interrupted;
  static const int levels[] = {0, 1, 2, 3};
  weft_log_set(cli_log_line, wf_unconst(&levels[o->log])); /* only read by cli_log_line */
}

void cli_decoding_init(cli_decoding_options *o) { *o = (cli_decoding_options){0}; }

void cli_decoding_deinit(cli_decoding_options *o) {
  wf_vec_free(&o->biases);
  wf_vec_free(&o->stops);
}

void cli_decoding_table(cli_decoding_options *o, cli_option table[CLI_N_DECODING_OPTIONS]) {
  const double big = 1e30;
  const cli_option rows[CLI_N_DECODING_OPTIONS] = {
      {"--greedy", NULL, CLI_FLAG, &o->greedy, NULL, 0, 0, NULL, "always the likeliest token"},
      {"--temperature", "--temp", CLI_NUMBER, &o->temperature, &o->has_temperature, 0, big, "F",
       "0 is greedy"},
      {"--top-k", NULL, CLI_INT, &o->top_k, &o->has_top_k, 0, INT32_MAX, "N", "0 is off"},
      {"--top-p", NULL, CLI_NUMBER, &o->top_p, &o->has_top_p, 0, 1, "F", "0 is greedy"},
      {"--min-p", NULL, CLI_NUMBER, &o->min_p, &o->has_min_p, 0, 1, "F", "0 is off"},
      {"--typical-p", NULL, CLI_NUMBER, &o->typical_p, &o->has_typical, 0, 1, "F", "1 is off"},
      {"--repetition-penalty", NULL, CLI_NUMBER, &o->repetition, &o->has_repetition, 1e-6, big, "F",
       "on prompt and generated tokens; 1 is off"},
      {"--presence-penalty", NULL, CLI_NUMBER, &o->presence, &o->has_presence, -big, big, "F",
       "on generated tokens"},
      {"--frequency-penalty", NULL, CLI_NUMBER, &o->frequency, &o->has_frequency, -big, big, "F",
       "on generated tokens"},
      {"--logit-bias", NULL, CLI_LIST, &o->biases, NULL, 0, 0, "ID=F",
       "added to a token's logit (repeatable)"},
      {"--seed", NULL, CLI_SEED, &o->seed, &o->has_seed, 0, 0, "N", "same seed, same text"},
      {"--stop", NULL, CLI_LIST, &o->stops, NULL, 0, 0, "TEXT", "ends the answer (repeatable)"},
      {"--max-tokens", "-n", CLI_INT, &o->max_tokens, &o->has_max_tokens, 0, INT32_MAX, "N",
       "at most so many tokens"},
      {"--ignore-eos", NULL, CLI_FLAG, &o->ignore_eos, NULL, 0, 0, NULL,
       "never choose an end token"},
      {"--logprobs", NULL, CLI_INT, &o->logprobs, &o->has_logprobs, 0, 100, "N",
       "with N alternatives (--json)"},
      {"--lookup", NULL, CLI_INT, &o->lookup, &o->has_lookup, 0, 64, "N",
       "guess up to N tokens from the text (greedy)"},
      {NULL, NULL, CLI_FLAG, NULL, NULL, 0, 0, NULL, NULL}};
  memcpy(table, rows, sizeof rows);
}

int cli_decoding_take(const cli_command *c, const cli_decoding_options *o, weft_bias **biases,
                      weft_generation_options *r) {
  weft_generation_options_init(r, sizeof *r);
  *biases = wf_calloc(o->biases.n + 1, sizeof **biases);
  if (!*biases) return cli_fail_memory();
  for (size_t i = 0; i < o->biases.n; i++) {
    const char *text = o->biases.at[i], *equals = strchr(text, '=');
    int64_t id;
    double v;
    if (!equals || !wf_parse_i64((wf_str){text, (size_t)(equals - text)}, &id) || id < 0 ||
        id > INT32_MAX || !wf_parse_f64(wf_str_of(equals + 1), &v) || !(fabs(v) <= FLT_MAX)) {
      return cli_usage(c, "--logit-bias wants ID=NUMBER, not '%s'", text);
    }
    (*biases)[i] = (weft_bias){(int32_t)id, (float)v};
  }
  for (size_t i = 0; i < o->stops.n; i++) {
    if (o->stops.at[i][0] == '\0') return cli_usage(c, "--stop wants a text that is not empty");
  }
  r->biases = *biases;
  r->n_biases = o->biases.n;
  r->stops = o->stops.at;
  r->n_stops = o->stops.n;
  r->greedy = o->greedy;
  r->ignore_eos = o->ignore_eos;
  if (o->has_temperature) r->temperature = o->temperature;
  if (o->has_top_k) r->top_k = (int32_t)o->top_k;
  if (o->has_top_p) r->top_p = o->top_p;
  if (o->has_min_p) r->min_p = o->min_p;
  if (o->has_typical) r->typical_p = o->typical_p;
  if (o->has_repetition) r->repetition_penalty = o->repetition;
  if (o->has_presence) r->presence_penalty = o->presence;
  if (o->has_frequency) r->frequency_penalty = o->frequency;
  r->has_seed = o->has_seed;
  r->seed = o->seed;
  if (o->has_max_tokens) r->max_tokens = o->max_tokens;
  if (o->has_logprobs) r->n_logprobs = (int)o->logprobs;
  r->n_lookup = (int)o->lookup;
  return -1;
}
