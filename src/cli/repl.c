/* SPDX-License-Identifier: Apache-2.0 */
/* The chat: a line is a turn. On a terminal with line editing and history, else one turn a line of
 * stdin. The conversation is a list of messages; each turn renders it anew and keeps what the cache
 * shares. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "base/file.h"
#include "base/process.h"
#include "cli/cli.h"

#ifdef WEFT_HAVE_LIBEDIT
#include <editline/readline.h>
#endif

enum { MAX_SAVED_BYTES = 256 << 20 };

typedef struct repl {
  cli_chat *chat;
  json_t *messages;
  weft_result last;
  bool is_terminal;
  WF_VEC(char *) stops; /* owned; the options' stops and biases point into these two */
  WF_VEC(weft_bias) biases;
} repl;

#ifdef WEFT_HAVE_LIBEDIT
/* libedit's own would sleep through an interrupt that comes just before it reads. */
static int next_character(FILE *in) {
  mbstate_t state;
  unsigned char byte;
  (void)in;
  memset(&state, 0, sizeof state);
  while (cli_read_byte(&byte)) {
    wchar_t c = 0;
    const size_t n = mbrtowc(&c, (const char *)&byte, 1, &state);
    if (n == (size_t)-2) continue; /* more bytes belong to it */
    return n == (size_t)-1 ? 0xfffd : (int)c;
  }
  return -1;
}
#endif

/* One line without its end; false at the end of input. */
static bool read_line(repl *r, wf_buf *line) {
  wf_buf_clear(line);
#ifdef WEFT_HAVE_LIBEDIT
  if (r->is_terminal) {
    rl_getc_function = next_character;
    char *text = readline("> ");
    if (!text) return false;
    if (text[0]) add_history(text);
    wf_buf_puts(line, text);
    free(text);
    return true;
  }
#endif
  if (r->is_terminal) cli_err("> ");
  for (;;) {
    unsigned char c;
    if (!cli_read_byte(&c)) return line->n > 0 && !(r->is_terminal && cli_was_interrupted());
    if (c == '\n') return true;
    wf_buf_putc(line, (char)c);
  }
}

static bool add_message(repl *r, const char *role, const char *text, size_t n) {
  /* ill-formed bytes are replaced here, once, so that what is shown, saved and sent is the same */
  wf_buf b = {0};
  wf_buf_puts(&b, "{\"role\": \"");
  wf_buf_puts(&b, role);
  wf_buf_puts(&b, "\", \"content\": ");
  wf_buf_add_json_string(&b, (wf_str){text, n}, false);
  wf_buf_putc(&b, '}');
  json_t *message = b.failed ? NULL : json_loadb(b.at, b.n, JSON_ALLOW_NUL, NULL);
  wf_buf_deinit(&b);
  return message && json_array_append_new(r->messages, message) == 0;
}

static void empty(repl *r) {
  weft_error err = {0};
  if (weft_generation_rewind(r->chat->generation, 0, &err) != WEFT_OK) cli_fail(&err);
}

static void reset(repl *r) {
  json_array_clear(r->messages);
  empty(r);
  if (r->chat->system) (void)add_message(r, "system", r->chat->system, strlen(r->chat->system));
}

static void save(repl *r, const char *path) {
  weft_error err = {0};
  wf_buf b = {0};
  char *messages = json_dumps(r->messages, JSON_COMPACT);
  const int32_t *tokens = weft_generation_tokens(r->chat->generation);
  const size_t n = weft_generation_length(r->chat->generation);
  wf_buf_printf(&b, "{\"messages\": %s, \"ids\": [", messages ? messages : "[]");
  for (size_t i = 0; i < n; i++) wf_buf_printf(&b, "%s%d", i ? ", " : "", tokens[i]);
  wf_buf_puts(&b, "]}\n");
  if (!messages || b.failed)
    cli_fail_memory();
  else if (wf_file_write(path, b.at, b.n, true, &err) != WEFT_OK)
    cli_fail(&err);
  else
    cli_err("saved %zu messages to %s\n", json_array_size(r->messages), path);
  free(messages);
  wf_buf_deinit(&b);
}

/* A raw chat has no messages to render: its tokens are the conversation. */
static weft_status load_ids(repl *r, const json_t *saved, weft_error *err) {
  const json_t *list = json_object_get(saved, "ids");
  const size_t n = json_array_size(list);
  int32_t *ids = wf_calloc(n + 1, sizeof *ids);
  weft_status st = ids ? WEFT_OK : wf_fail_memory(err, n * sizeof *ids, "token ids");
  for (size_t i = 0; i < n && st == WEFT_OK; i++) {
    const json_t *id = json_array_get(list, i);
    const json_int_t v = json_is_integer(id) ? json_integer_value(id) : -1;
    if (v < 0 || v > INT32_MAX) {
      st = wf_fail(err, WEFT_PARSE, "name a file that /save has written",
                   "`ids` holds something that is no token id");
    } else {
      ids[i] = (int32_t)v;
    }
  }
  if (st == WEFT_OK) {
    st = n ? weft_generation_set(r->chat->generation, ids, n, NULL, err)
           : weft_generation_rewind(r->chat->generation, 0, err);
  }
  wf_free(ids);
  return st;
}

static void load(repl *r, const char *path) {
  weft_error err = {0};
  char *text = NULL;
  size_t n = 0;
  json_error_t why;
  if (wf_file_read(path, MAX_SAVED_BYTES, &text, &n, &err) != WEFT_OK) {
    cli_fail(&err);
    return;
  }
  json_t *saved = json_loadb(text, n, 0, &why);
  json_t *messages = json_object_get(saved, "messages");
  bool is_good = json_is_array(messages);
  size_t i;
  json_t *message;
  json_array_foreach(messages, i, message) {
    is_good = is_good && json_is_string(json_object_get(message, "role"));
  }
  if (is_good && r->chat->is_raw && load_ids(r, saved, &err) != WEFT_OK) {
    cli_fail(&err);
  } else if (!is_good) {
    cli_err("weft: '%s' holds no saved chat\n  fix: name a file that /save has written\n", path);
  } else {
    json_decref(r->messages);
    r->messages = json_incref(messages);
    if (!r->chat->is_raw) empty(r);
    cli_err("loaded %zu messages, %zu tokens\n", json_array_size(messages),
            json_array_size(json_object_get(saved, "ids")));
  }
  json_decref(saved);
  wf_free(text);
}

static void show_stats(const repl *r) {
  weft_model_info info = {.struct_size = sizeof info};
  weft_model_describe(r->chat->model, &info);
  const weft_result *l = &r->last;
  const long long prompt = (long long)(l->prompt_tokens - l->cached_tokens);
  cli_err("%s, %s, %d threads, %s\n", info.backend, info.cpu_level, info.n_threads, info.precision);
  cli_err("context %zu of %lld tokens\n", weft_generation_length(r->chat->generation),
          (long long)info.context_tokens);
  cli_err(
      "last turn: %lld prompt tokens (%lld from the cache) at %d/s, %lld answer tokens at %d/s\n",
      (long long)l->prompt_tokens, (long long)l->cached_tokens,
      l->prefill_ms > 0 ? (int)((double)prompt / l->prefill_ms * 1e3) : 0,
      (long long)l->completion_tokens,
      l->decode_ms > 0 ? (int)((double)l->completion_tokens / l->decode_ms * 1e3) : 0);
}

static bool keep_stop(repl *r, const char *text) {
  char *copy = strdup(text);
  if (copy && wf_vec_push(&r->stops, copy)) return true;
  free(copy);
  return false;
}

/* What one /set has said, over the options in force; stops and biases join those that are there. */
static bool merge(repl *r, const cli_decoding_options *o, const weft_generation_options *said,
                  weft_generation_options *next) {
  if (o->greedy) next->greedy = 1;
  if (o->has_temperature) next->temperature = said->temperature, next->greedy = 0;
  if (o->has_top_k) next->top_k = said->top_k, next->greedy = 0;
  if (o->has_top_p) next->top_p = said->top_p, next->greedy = 0;
  if (o->has_min_p) next->min_p = said->min_p, next->greedy = 0;
  if (o->has_typical) next->typical_p = said->typical_p, next->greedy = 0;
  if (o->has_repetition) next->repetition_penalty = said->repetition_penalty;
  if (o->has_presence) next->presence_penalty = said->presence_penalty;
  if (o->has_frequency) next->frequency_penalty = said->frequency_penalty;
  if (o->has_seed) next->has_seed = 1, next->seed = said->seed;
  if (o->has_max_tokens) next->max_tokens = said->max_tokens;
  if (o->has_lookup) next->n_lookup = said->n_lookup;
  if (o->ignore_eos) next->ignore_eos = 1;
  for (size_t i = 0; i < said->n_stops; i++) {
    if (!keep_stop(r, said->stops[i])) return false;
  }
  for (size_t i = 0; i < said->n_biases; i++) {
    if (!wf_vec_push(&r->biases, said->biases[i])) return false;
  }
  return true;
}

static void configure(repl *r, weft_generation_options *next) {
  weft_error err = {0};
  next->stops = (const char *const *)r->stops.at;
  next->n_stops = r->stops.n;
  next->biases = r->biases.at;
  next->n_biases = r->biases.n;
  if (weft_generation_configure(r->chat->generation, next, &err) == WEFT_OK) {
    r->chat->options = *next;
    return;
  }
  cli_fail(&err); /* all is as it was */
  while (r->stops.n > r->chat->options.n_stops) free(r->stops.at[--r->stops.n]);
  r->biases.n = r->chat->options.n_biases;
}

/* "off" after the name of a flag; true: it was one, and is set as said. */
static bool set_flag(repl *r, const char *name, const char *value) {
  weft_generation_options next = r->chat->options;
  int *flag = strcmp(name, "greedy") == 0       ? &next.greedy
              : strcmp(name, "ignore-eos") == 0 ? &next.ignore_eos
                                                : NULL;
  if (!flag) return false;
  if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0) {
    cli_err("weft: /set %s is on or off, not '%s'\n", name, value);
    return true;
  }
  *flag = strcmp(value, "on") == 0;
  configure(r, &next);
  return true;
}

/* /set NAME VALUE with the names of the command line's decoding options. */
static void set_option(repl *r, char *words) {
  static const cli_command self = {"run", "", "", NULL};
  cli_decoding_options o;
  cli_option table[CLI_N_DECODING_OPTIONS];
  cli_texts rest = {0};
  weft_bias *biases = NULL;
  weft_generation_options said, next = r->chat->options;
  char *space = strchr(words, ' ');
  wf_buf name = {0};
  if (space) *space = '\0';
  wf_buf_printf(&name, "--%s", words);
  char *argv[] = {name.at, space ? space + 1 : NULL};
  cli_decoding_init(&o);
  cli_decoding_table(&o, table);
  const cli_option *const tables[] = {table};
  if (words[0] == '\0' || name.failed) {
    cli_err("weft: /set wants a name and a value, as in /set temperature 0.7\n");
  } else if (!(space && set_flag(r, words, space + 1)) &&
             cli_parse(&self, space ? 2 : 1, argv, tables, 1, &rest) < 0 &&
             cli_decoding_take(&self, &o, &biases, &said) < 0) {
    if (o.has_logprobs)
      cli_err("weft: a chat shows no logprobs: use weft run PKG -p TEXT --json --logprobs N\n");
    else if (!merge(r, &o, &said, &next))
      cli_fail_memory();
    else
      configure(r, &next);
  }
  wf_buf_deinit(&name);
  wf_free(biases);
  cli_decoding_deinit(&o);
  wf_vec_free(&rest);
}

/* True when the chat goes on. */
static bool command(repl *r, char *line) {
  char *argument = strchr(line, ' ');
  if (argument) {
    *argument++ = '\0';
    while (*argument == ' ') argument++;
  } else {
    argument = line + strlen(line);
  }
  if (strcmp(line, "/exit") == 0 || strcmp(line, "/quit") == 0 || strcmp(line, "/bye") == 0)
    return false;
  if (strcmp(line, "/reset") == 0) {
    reset(r);
  } else if (strcmp(line, "/save") == 0 && argument[0]) {
    save(r, argument);
  } else if (strcmp(line, "/load") == 0 && argument[0]) {
    load(r, argument);
  } else if (strcmp(line, "/system") == 0) {
    /* the text must outlive the line: one small string a use, freed with the process */
    char *copy = strdup(argument);
    if (copy) r->chat->system = copy[0] ? copy : NULL;
    reset(r);
  } else if (strcmp(line, "/set") == 0) {
    set_option(r, argument);
  } else if (strcmp(line, "/stats") == 0) {
    show_stats(r);
  } else {
    cli_err("/reset  /save FILE  /load FILE  /system TEXT  /set NAME VALUE  /stats  /exit\n");
  }
  return true;
}

static weft_status prompt(repl *r, const wf_buf *line, size_t *n_cached, weft_error *err) {
  weft_status st;
  int32_t *ids = NULL;
  size_t n = 0;
  weft_generation *g = r->chat->generation;
  *n_cached = 0;
  if (r->chat->is_raw) return weft_generation_append_text(g, line->at, line->n, err);
  char *json = json_dumps(r->messages, 0);
  if (!json) return wf_fail_memory(err, 0, "the messages");
  st = weft_chat_ids(r->chat->model, json, strlen(json), &ids, &n, err);
  if (st == WEFT_OK) st = weft_generation_set(g, ids, n, n_cached, err);
  free(json);
  wf_free(ids);
  return st;
}

/* One turn; the exit code of a failure that a script should see. */
static int turn(repl *r, const wf_buf *line) {
  weft_error err = {0};
  wf_buf answer = {0};
  size_t n_cached = 0;
  int code = 0;
  if (!r->chat->is_raw && !add_message(r, "user", line->at, line->n)) return cli_fail_memory();
  weft_status st = prompt(r, line, &n_cached, &err);
  /* an interrupt that came as the last answer ended was not meant for this one */
  if (st == WEFT_CANCELLED && !cli_was_interrupted()) st = prompt(r, line, &n_cached, &err);
  const size_t n_messages = json_array_size(r->messages);
  if (st != WEFT_OK) {
    if (n_messages) json_array_remove(r->messages, n_messages - 1); /* the turn never was */
    return st == WEFT_CANCELLED ? CLI_INTERRUPTED : cli_fail(&err);
  }
  r->last = (weft_result){.struct_size = sizeof r->last};
  st = cli_stream_answer(r->chat->generation, &answer, &r->last, &err);
  cli_puts("\n");
  if (st == WEFT_CANCELLED)
    code = CLI_INTERRUPTED;
  else if (st != WEFT_OK)
    code = cli_fail(&err);
  if (!r->chat->is_raw && !add_message(r, "assistant", answer.at ? answer.at : "", answer.n)) {
    code = cli_fail_memory();
  }
  wf_buf_deinit(&answer);
  return code;
}

/* On a terminal whatever begins with '/' is a command; from a pipe only the commands' own words,
 * since a line that happens to begin so is a turn. */
static bool is_command(const repl *r, const char *line) {
  static const char *const words[] = {"/reset", "/save",  "/load", "/system",
                                      "/set",   "/stats", "/exit"};
  if (line[0] != '/') return false;
  if (r->is_terminal) return true;
  const size_t n = strcspn(line, " ");
  for (size_t i = 0; i < WF_ARRAY_LEN(words); i++) {
    if (strlen(words[i]) == n && memcmp(words[i], line, n) == 0) return true;
  }
  return false;
}

/* Lines until the end of input, /exit, or an interrupt of a script. Returns the exit code: of a
 * script the first failure's, of a person 0. */
static int converse(repl *r, weft_cancel *cancel) {
  int code = 0;
  wf_buf line = {0};
  while (cli_out_close(0) == 0) {
    cli_interrupt_clear();
    cli_interrupt_at_prompt(r->is_terminal);
    cli_interrupt_target(NULL);
    if (!read_line(r, &line)) {
      if (r->is_terminal && cli_was_interrupted()) {
        /* the line was given up, with what of it nobody has read yet: a terminal that turns Ctrl-C
         * into the signal drops that by itself, one that is sent the signal does not */
        tcflush(STDIN_FILENO, TCIFLUSH);
        continue;
      }
      break;
    }
    if (line.failed) {
      code = cli_fail_memory();
      break;
    }
    cli_interrupt_clear();
    cli_interrupt_target(cancel);
    cli_interrupt_at_prompt(false);
    if (line.n == 0) continue;
    if (is_command(r, line.at)) {
      if (!command(r, line.at)) break;
      continue;
    }
    const int failed = turn(r, &line);
    if (r->is_terminal) continue;
    if (code == 0) code = failed;
    if (failed == CLI_INTERRUPTED) break;
  }
  wf_buf_deinit(&line);
  return code;
}

static void release(repl *r) {
  json_decref(r->messages);
  for (size_t i = 0; i < r->stops.n; i++) free(r->stops.at[i]);
  wf_vec_free(&r->stops);
  wf_vec_free(&r->biases);
}

int cli_repl(cli_chat *chat) {
  weft_error err = {0};
  repl r = {.chat = chat,
            .messages = json_array(),
            .is_terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
  bool is_kept = r.messages != NULL;
  for (size_t i = 0; i < chat->options.n_stops; i++) {
    is_kept = is_kept && keep_stop(&r, chat->options.stops[i]);
  }
  for (size_t i = 0; i < chat->options.n_biases; i++) {
    is_kept = is_kept && wf_vec_push(&r.biases, chat->options.biases[i]);
  }
  if (!is_kept) {
    release(&r);
    return cli_fail_memory();
  }
  if (weft_generation_create(&chat->generation, chat->model, &chat->options, &err) != WEFT_OK) {
    release(&r);
    return cli_fail(&err);
  }
  weft_cancel *cancel = weft_generation_cancel_handle(chat->generation);
  reset(&r);
  if (r.is_terminal)
    cli_err("/exit or Ctrl-D leaves, /help lists commands, Ctrl-C ends an answer\n");
  const int code = converse(&r, cancel);
  cli_interrupt_at_prompt(false);
  cli_interrupt_target(NULL);
  weft_cancel_release(cancel);
  weft_generation_close(chat->generation);
  release(&r);
  return code;
}
