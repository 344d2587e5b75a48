/* SPDX-License-Identifier: Apache-2.0 */
/* weft exec on a package with a workflow: named values in, every output as .npy files. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"

void cli_request_table(cli_request *r, cli_option table[CLI_N_REQUEST_OPTIONS]) {
  const cli_option rows[CLI_N_REQUEST_OPTIONS] = {
      {"--ids", NULL, CLI_TEXT, &r->ids, NULL, 0, 0, "IDS", "a workflow's prompt tokens"},
      {"--max-tokens", "-n", CLI_INT, &r->max_tokens, &r->has_max_tokens, 0, INT32_MAX, "N",
       "at most so many tokens"},
      {"--seed", NULL, CLI_SEED, &r->seed, &r->has_seed, 0, 0, "N", "same seed, same output"},
      {"--temperature", "--temp", CLI_NUMBER, &r->temperature, &r->has_temperature, 0, 1e6, "F",
       "0 is greedy"},
      {"--top-k", NULL, CLI_INT, &r->top_k, &r->has_top_k, 0, INT32_MAX, "N", "0 is off"},
      {"--top-p", NULL, CLI_NUMBER, &r->top_p, &r->has_top_p, 0, 1, "F", "1 is off"},
      {"--min-p", NULL, CLI_NUMBER, &r->min_p, &r->has_min_p, 0, 1, "F", "0 is off"},
      {"--ignore-eos", NULL, CLI_FLAG, &r->ignore_eos, NULL, 0, 0, NULL,
       "goes on after an end token"},
      {"--greedy", NULL, CLI_FLAG, &r->greedy, NULL, 0, 0, NULL, "always the likeliest token"},
      {"--session", NULL, CLI_TEXT, &r->session, NULL, 0, 0, "FILE",
       "the conversation's state: read where it is there, written after a run that succeeds"},
      {"--override", NULL, CLI_LIST, &r->overrides, NULL, 0, 0, "COMPONENT=OTHER",
       "a component in another's place (repeatable)"},
      {NULL, NULL, CLI_FLAG, NULL, NULL, 0, 0, NULL, NULL}};
  memcpy(table, rows, sizeof rows);
}

void cli_request_deinit(cli_request *r) { wf_vec_free(&r->overrides); }

bool cli_request_is_given(const cli_request *r) {
  return r->ids || r->session || r->overrides.n || r->has_max_tokens || r->has_seed ||
         r->has_temperature || r->has_top_k || r->has_top_p || r->has_min_p || r->greedy ||
         r->ignore_eos;
}

static weft_status fill(const cli_request *r, weft_request *request, int64_t **prompt,
                        weft_error *err) {
  weft_request_init(request, sizeof *request);
  request->has_max_tokens = r->has_max_tokens;
  request->max_tokens = r->max_tokens;
  request->ignore_eos = r->ignore_eos;
  request->has_seed = r->has_seed;
  request->seed = (int64_t)r->seed;
  request->is_greedy = r->greedy;
  request->has_temperature = r->has_temperature;
  request->has_top_k = r->has_top_k;
  request->has_top_p = r->has_top_p;
  request->has_min_p = r->has_min_p;
  request->temperature = (double)r->temperature;
  request->top_k = r->top_k;
  request->top_p = (double)r->top_p;
  request->min_p = (double)r->min_p;
  if (!r->ids) return WEFT_OK;
  int32_t *ids = NULL;
  size_t n = 0;
  if (!cli_parse_ids(r->ids, &ids, &n) || n == 0) {
    wf_free(ids);
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "give token ids separated by commas",
                   "--ids is '%s'", r->ids);
  }
  *prompt = wf_calloc(n, sizeof **prompt);
  for (size_t i = 0; *prompt && i < n; i++) (*prompt)[i] = ids[i];
  wf_free(ids);
  if (!*prompt) return wf_fail_memory(err, n * sizeof **prompt, "a prompt");
  request->n_prompts = 1;
  request->n_prompt_tokens = (int64_t)n;
  request->prompts = *prompt;
  return WEFT_OK;
}

static void input_at(const void *w, size_t i, weft_tensor *port) {
  weft_workflow_input(w, i, port);
}

static weft_status read_input(const weft_workflow *w, const char *text, cli_array *a,
                              weft_tensor *t, char **name, weft_error *err) {
  size_t best = cli_find_port(text, w, weft_workflow_n_inputs(w), input_at, t);
  if (best == 0) { /* a name that only the run knows: of an application's source */
    best = strcspn(text, "=");
    *name = wf_alloc(best + 1);
    if (!*name) return wf_fail_memory(err, best, "a name");
    memcpy(*name, text, best);
    (*name)[best] = '\0';
    *t = (weft_tensor){.struct_size = sizeof *t, .name = *name, .rank = -1};
  }
  return cli_take_value(text + best + 1, a, t, err);
}

static weft_status write_outputs(weft_workflow *w, const char *dir, weft_error *err) {
  weft_status st = WEFT_OK;
  cli_outputs outputs = {0};
  for (size_t i = 0; i < weft_workflow_n_outputs(w); i++) {
    const size_t n_rows = weft_workflow_rows(w, i);
    for (int64_t row = n_rows ? 0 : -1; row < (int64_t)n_rows; row++) {
      cli_output o = {.tensor = {.struct_size = sizeof o.tensor}, .row = row};
      if (!weft_workflow_result(w, i, row, &o.tensor)) continue; /* it did not come */
      if (!wf_vec_push(&outputs, o)) WF_TRY(wf_fail_memory(err, 0, "outputs"));
    }
  }
  st = cli_write_outputs(dir, &outputs, err);
out:
  wf_vec_free(&outputs);
  return st;
}

/* ---- what a run tells while it goes on ----------------------------------------------------- */

/* The events of one output, as they will stand in NAME.json. */
typedef struct event_list {
  const char *output; /* the workflow's */
  wf_buf text;
} event_list;

typedef struct listener {
  WF_VEC(event_list) lists;
  bool failed; /* no memory */
} listener;

static event_list *list_of(listener *l, const char *output) {
  for (size_t i = 0; i < l->lists.n; i++) {
    if (strcmp(l->lists.at[i].output, output) == 0) return &l->lists.at[i];
  }
  const event_list empty = {.output = output};
  return wf_vec_push(&l->lists, empty) ? &l->lists.at[l->lists.n - 1] : NULL;
}

static int on_emit(void *user, const weft_emit *e) {
  listener *l = user;
  if (e->mode != WEFT_EMIT_EVENT) return 0;
  event_list *list = list_of(l, e->value->name);
  if (list) {
    wf_buf_printf(&list->text, "%s{\"sequence\": %lld, \"row\": ", list->text.n ? ",\n " : "[",
                  (long long)e->sequence);
    if (e->row >= 0)
      wf_buf_printf(&list->text, "%lld", (long long)e->row);
    else
      wf_buf_puts(&list->text, "null");
    cli_json_tensor(&list->text, e->value);
    wf_buf_putc(&list->text, '}');
  }
  l->failed = l->failed || !list || list->text.failed;
  return l->failed;
}

static void on_iteration(void *user, const char *loop, int64_t done, int64_t limit) {
  cli_progress(user, (uint64_t)done, (uint64_t)limit, loop);
}

static weft_status write_events(const listener *l, const char *dir, weft_error *err) {
  weft_status st = WEFT_OK;
  for (size_t i = 0; i < l->lists.n && st == WEFT_OK; i++) {
    wf_buf *text = &l->lists.at[i].text;
    const cli_output o = {.tensor = {.name = l->lists.at[i].output}, .row = -1};
    wf_buf_puts(text, "]\n");
    char *name = cli_output_name(&o, ".json"), *path = name ? wf_path_join(dir, name) : NULL;
    if (path && !text->failed)
      st = wf_file_write(path, text->at, text->n, false, err);
    else
      st = wf_fail_memory(err, text->n, "events");
    wf_free(path);
    wf_free(name);
  }
  return st;
}

static void free_listener(listener *l) {
  for (size_t i = 0; i < l->lists.n; i++) wf_buf_deinit(&l->lists.at[i].text);
  wf_vec_free(&l->lists);
}

/* ---- the run ------------------------------------------------------------------------------- */

/* COMPONENT=OTHER, split in copies. Owner: *list (each component, and the list: wf_free). */
static weft_status take_overrides(const cli_texts *texts, weft_override **list, weft_error *err) {
  weft_override *o = wf_calloc(texts->n + 1, sizeof *o);
  if (!o) return wf_fail_memory(err, texts->n * sizeof *o, "overrides");
  *list = o;
  for (size_t i = 0; i < texts->n; i++) {
    const char *text = texts->at[i], *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1]) {
      return wf_fail(err, WEFT_INVALID_ARGUMENT, "write --override COMPONENT=OTHER",
                     "--override is '%s'", text);
    }
    const size_t n = (size_t)(equals - text);
    char *name = wf_alloc(n + 1);
    if (!name) return wf_fail_memory(err, n, "a name");
    memcpy(name, text, n);
    name[n] = '\0';
    o[i] = (weft_override){name, equals + 1};
  }
  return WEFT_OK;
}

/* With a session: its file's cells in, and out again after success. */
static weft_status run_once(weft_workflow *w, const cli_request *r, const weft_request *request,
                            const char *dir, const listener *l, weft_error *err) {
  weft_status st = WEFT_OK;
  weft_session *session = NULL;
  if (r->session) {
    WF_TRY(weft_session_create(&session, w, err));
    if (wf_path_exists(r->session)) WF_TRY(weft_session_load(session, r->session, err));
    WF_TRY(weft_session_turn(session, request, err));
  } else {
    WF_TRY(weft_workflow_run(w, request, err));
  }
  WF_TRY(write_outputs(w, dir, err));
  WF_TRY(write_events(l, dir, err));
  if (session) st = weft_session_save(session, r->session, err);
out:
  if (l->failed) st = wf_fail_memory(err, 0, "events");
  weft_session_close(session);
  return st;
}

weft_status cli_exec_workflow(const char *path, const cli_texts *inputs, const cli_request *r,
                              const weft_model_options *options, const char *dir, weft_error *err) {
  weft_status st = WEFT_OK;
  weft_workflow *w = NULL;
  weft_request request;
  int64_t *prompt = NULL;
  weft_override *overrides = NULL;
  listener l = {0};
  cli_array *arrays = wf_calloc(inputs->n + 1, sizeof *arrays);
  weft_tensor *in = wf_calloc(inputs->n + 1, sizeof *in);
  char **names = wf_calloc(inputs->n + 1, sizeof *names);
  if (!arrays || !in || !names) {
    st = wf_fail_memory(err, 0, "inputs");
    goto out;
  }
  WF_TRY(fill(r, &request, &prompt, err));
  WF_TRY(take_overrides(&r->overrides, &overrides, err));
  WF_TRY(weft_workflow_open(&w, path, options, err));
  for (size_t i = 0; i < inputs->n; i++) {
    WF_TRY(read_input(w, inputs->at[i], &arrays[i], &in[i], &names[i], err));
  }
  request.n_inputs = inputs->n;
  request.inputs = in;
  request.n_overrides = r->overrides.n;
  request.overrides = overrides;
  request.on_emit = on_emit;
  request.on_emit_user = &l;
  request.on_iteration = on_iteration;
  st = run_once(w, r, &request, dir, &l, err);
out:
  free_listener(&l);
  weft_workflow_close(w);
  for (size_t i = 0; overrides && i < r->overrides.n; i++)
    wf_free(wf_unconst(overrides[i].component));
  wf_free(overrides);
  for (size_t i = 0; arrays && i < inputs->n; i++) wf_free(arrays[i].data);
  for (size_t i = 0; names && i < inputs->n; i++) wf_free(names[i]);
  wf_free(names);
  wf_free(arrays);
  wf_free(in);
  wf_free(prompt);
  return st;
}
