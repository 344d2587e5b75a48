/* SPDX-License-Identifier: Apache-2.0 */
/* A generation's life and its answers: options, choosing tokens, text with stops, cancelling,
 * closing. */
#include <math.h>
#include <string.h>

#include "base/process.h"
#include "engine/generate.h"

enum { MAX_LOGPROBS = 100, MAX_LOOKUP = 64, MAX_STOPS = 1024 };

void weft_generation_options_init(weft_generation_options *options, size_t size) {
  const weft_generation_options defaults = {.struct_size = size,
                                            .temperature = NAN,
                                            .top_k = -1,
                                            .top_p = NAN,
                                            .min_p = NAN,
                                            .typical_p = NAN,
                                            .repetition_penalty = NAN,
                                            .presence_penalty = NAN,
                                            .frequency_penalty = NAN,
                                            .max_tokens = -1,
                                            .n_logprobs = -1};
  if (size > sizeof defaults) size = sizeof defaults;
  memcpy(options, &defaults, size);
}

const char *weft_finish_name(weft_finish finish) {
  static const char *const names[] = {"", "stop", "length", "cancelled", "error"};
  return (size_t)finish < WF_ARRAY_LEN(names) ? names[finish] : "error";
}

static float pick_float(float given, double package, float otherwise) {
  if (!isnan(given)) return given;
  return isnan(package) ? otherwise : (float)package;
}

/* The caller's options over the package's defaults. A caller that sets any sampling option means
 * sampling; one that sets none gets what the package says. */
static void merge_options(const weft_model *m, const weft_generation_options *o,
                          wf_sampler_options *s) {
  const wf_generation_defaults *d = &m->package->defaults;
  const bool caller_samples = !isnan(o->temperature) || o->top_k >= 0 || !isnan(o->top_p) ||
                              !isnan(o->min_p) || !isnan(o->typical_p);
  wf_sampler_options_init(s);
  s->greedy = o->greedy || (!caller_samples && d->do_sample == 0);
  s->temperature = pick_float(o->temperature, d->temperature, 1);
  s->top_k = o->top_k >= 0 ? o->top_k : d->top_k >= 0 ? (int32_t)d->top_k : 0;
  s->top_p = pick_float(o->top_p, d->top_p, 1);
  s->min_p = pick_float(o->min_p, d->min_p, 0);
  s->typical_p = pick_float(o->typical_p, d->typical_p, 1);
  s->repetition_penalty = pick_float(o->repetition_penalty, d->repetition_penalty, 1);
  s->presence_penalty = pick_float(o->presence_penalty, NAN, 0);
  s->frequency_penalty = pick_float(o->frequency_penalty, NAN, 0);
  s->seed = o->has_seed ? o->seed : wf_random_seed();
  if (o->ignore_eos) {
    s->suppressed = m->end_ids;
    s->n_suppressed = m->n_end_ids;
  }
}

static weft_status check_counts(const weft_generation_options *o, weft_error *err) {
  if (o->n_logprobs < -1 || o->n_logprobs > MAX_LOGPROBS) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "use 0 to 100", "logprobs is %d", o->n_logprobs);
  }
  if (o->n_lookup < 0 || o->n_lookup > MAX_LOOKUP) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "use 0 to 64", "lookup is %d", o->n_lookup);
  }
  if (o->max_tokens < -1) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "use 0 or more", "max_tokens is %lld",
                   (long long)o->max_tokens);
  }
  if (o->n_stops > MAX_STOPS) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "use at most 1024", "%zu stop texts", o->n_stops);
  }
  return WEFT_OK;
}

/* Builds everything that depends on the options, then puts it in place of the old in one go. */
static weft_status apply_options(weft_generation *g, const weft_generation_options *given,
                                 weft_error *err) {
  weft_status st = WEFT_OK;
  weft_generation_options o;
  wf_sampler_options s;
  wf_sampler *sampler = NULL;
  wf_stops *stops = NULL;
  float *rows = NULL;
  int32_t *guessed = NULL;
  wf_logit_bias *biases = NULL;
  weft_logprob *alternatives = NULL;
  wf_logprob *top = NULL;
  weft_generation_options_init(&o, sizeof o);
  if (given) memcpy(&o, given, given->struct_size < sizeof o ? given->struct_size : sizeof o);
  WF_TRY(check_counts(&o, err));
  merge_options(g->model, &o, &s);
  biases = wf_calloc(o.n_biases + 1, sizeof *biases);
  if (!biases) {
    st = wf_fail_memory(err, o.n_biases * sizeof *biases, "logit biases");
    goto out;
  }
  for (size_t i = 0; i < o.n_biases; i++)
    biases[i] = (wf_logit_bias){o.biases[i].id, o.biases[i].bias};
  s.biases = biases;
  s.n_biases = o.n_biases;
  WF_TRY(wf_sampler_create(&sampler, g->model->vocab, &s, err));
  WF_TRY(wf_stops_create(&stops, o.stops, o.n_stops, err));
  const size_t n_rows = (size_t)o.n_lookup + 1, n_top = o.n_logprobs > 0 ? (size_t)o.n_logprobs : 0;
  rows = wf_calloc(n_rows * (size_t)g->model->vocab, sizeof *rows);
  guessed = wf_calloc(n_rows, sizeof *guessed);
  alternatives = wf_calloc(n_top + 1, sizeof *alternatives);
  top = wf_calloc(n_top + 1, sizeof *top);
  if (!rows || !guessed || !alternatives || !top ||
      !wf_vec_reserve(&g->tokens, (size_t)g->model->context_tokens + n_rows + 2 - g->tokens.n)) {
    st = wf_fail_memory(err, n_rows * (size_t)g->model->vocab * sizeof *rows, "logits");
    goto out;
  }
  wf_sampler_destroy(g->sampler);
  wf_stops_destroy(g->stops);
  wf_free(g->rows);
  wf_free(g->guessed);
  wf_free(g->alternatives);
  wf_free(g->top);
  g->sampler = sampler;
  g->stops = stops;
  g->rows = rows;
  g->guessed = guessed;
  g->alternatives = alternatives;
  g->top = top;
  g->n_rows = 0;
  g->n_guessed = 0;
  g->options = o;
  g->options.biases = NULL; /* copied into the sampler; the caller's arrays may go */
  g->options.stops = NULL;
  sampler = NULL;
  stops = NULL;
  rows = NULL;
  guessed = NULL;
  alternatives = NULL;
  top = NULL;
  wf_generation_begin_answer(g);
out:
  wf_sampler_destroy(sampler);
  wf_stops_destroy(stops);
  wf_free(rows);
  wf_free(guessed);
  wf_free(biases);
  wf_free(alternatives);
  wf_free(top);
  return st;
}

weft_status weft_generation_create(weft_generation **result, weft_model *model,
                                   const weft_generation_options *options, weft_error *err) {
  weft_status st = WEFT_OK;
  weft_generation *g = wf_zalloc(sizeof *g);
  if (!g) return wf_fail_memory(err, sizeof *g, "a generation");
  wf_model_ref(model);
  g->model = model;
  g->keep_tokens = MAX_LOOKUP;
  g->cancel = wf_zalloc(sizeof *g->cancel);
  if (g->cancel) atomic_init(&g->cancel->refs, 1);
  g->selected = wf_calloc((size_t)model->runner.chunk_tokens + 1, sizeof *g->selected);
  if (!g->cancel || !g->selected) {
    st = wf_fail_memory(err, 0, "a generation");
    goto out;
  }
  wf_runner_enter(&model->runner);
  st = wf_kv_sequence_init(&g->kv, model->runner.pool, model->context_tokens, err);
  wf_runner_leave(&model->runner);
  WF_TRY(st);
  WF_TRY(wf_detokenizer_create(&g->detokenizer, model->tokenizer, true, err));
  WF_TRY(apply_options(g, options, err));
  *result = g;
  g = NULL;
out:
  if (g) wf_generation_free(g);
  return st;
}

void wf_generation_free(weft_generation *g) {
  wf_runner_enter(&g->model->runner);
  wf_kv_sequence_deinit(&g->kv);
  wf_runner_leave(&g->model->runner);
  wf_runner_rest(&g->model->runner);
  wf_sampler_destroy(g->sampler);
  wf_stops_destroy(g->stops);
  wf_detokenizer_destroy(g->detokenizer);
  wf_vec_free(&g->tokens);
  wf_free(g->rows);
  wf_free(g->guessed);
  wf_free(g->selected);
  wf_free(g->alternatives);
  wf_free(g->top);
  wf_buf_deinit(&g->raw);
  wf_buf_deinit(&g->text);
  wf_buf_deinit(&g->bytes);
  wf_buf_deinit(&g->scratch);
  weft_cancel_release(g->cancel);
  weft_model_close(g->model);
  wf_free(g);
}

void weft_generation_close(weft_generation *g) {
  if (!g) return;
  /* Somebody may be inside, maybe the caller itself in a callback: end that call, it frees on
   * return. The request comes first, because after the next line g may be gone. */
  atomic_store(&g->cancel->requested, 1);
  /* acq_rel: who frees sees all that was done, here or by the call inside */
  const unsigned before = atomic_fetch_or_explicit(&g->use, WF_USE_CLOSED, memory_order_acq_rel);
  if ((before & WF_USE_BUSY) == 0) wf_generation_free(g);
}

weft_status weft_generation_configure(weft_generation *g, const weft_generation_options *options,
                                      weft_error *err) {
  WF_RETURN_IF_ERROR(wf_generation_enter(g, err));
  const weft_status st = apply_options(g, options, err);
  wf_generation_leave(g);
  return st;
}

size_t weft_generation_length(const weft_generation *g) { return g->tokens.n; }
const int32_t *weft_generation_tokens(const weft_generation *g) { return g->tokens.at; }

weft_cancel *weft_generation_cancel_handle(weft_generation *g) {
  /* relaxed: the generation holds a reference already */
  atomic_fetch_add_explicit(&g->cancel->refs, 1, memory_order_relaxed);
  return g->cancel;
}

void weft_cancel_request(weft_cancel *c) { atomic_store(&c->requested, 1); }

void weft_cancel_release(weft_cancel *c) {
  /* acq_rel: the last holder frees after all others are done */
  if (c && atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1) wf_free(c);
}

static bool is_end_id(const weft_model *m, int32_t id) {
  for (size_t i = 0; i < m->n_end_ids; i++) {
    if (m->end_ids[i] == id) return true;
  }
  return false;
}

/* Text that became certain with this token, into g->text. */
static weft_status add_text(weft_generation *g, int32_t token, bool is_end, bool is_last,
                            bool *stopped, weft_error *err) {
  wf_buf_clear(&g->raw);
  *stopped = false;
  if (!is_end) WF_RETURN_IF_ERROR(wf_detokenizer_feed(g->detokenizer, token, &g->raw, err));
  WF_RETURN_IF_ERROR(
      wf_stops_feed(g->stops, (wf_str){g->raw.at, g->raw.n}, &g->text, stopped, err));
  if (*stopped || !(is_last || is_end)) return WEFT_OK;
  wf_buf_clear(&g->raw);
  WF_RETURN_IF_ERROR(wf_detokenizer_finish(g->detokenizer, &g->raw, err));
  WF_RETURN_IF_ERROR(
      wf_stops_feed(g->stops, (wf_str){g->raw.at, g->raw.n}, &g->text, stopped, err));
  return *stopped ? WEFT_OK : wf_stops_finish(g->stops, &g->text, err);
}

static weft_status add_logprobs(weft_generation *g, const float *logits, int32_t token,
                                weft_token *full, weft_error *err) {
  if (g->options.n_logprobs < 0) return WEFT_OK;
  wf_logprob chosen;
  const size_t n = (size_t)g->options.n_logprobs;
  const size_t most = n < (size_t)g->model->vocab ? n : (size_t)g->model->vocab;
  WF_RETURN_IF_ERROR(wf_logprobs(logits, g->model->vocab, token, &chosen, g->top, most, err));
  for (size_t i = 0; i < most; i++)
    g->alternatives[i] = (weft_logprob){g->top[i].id, g->top[i].logprob};
  full->logprob = chosen.logprob;
  full->alternatives = g->alternatives;
  full->n_alternatives = most;
  return WEFT_OK;
}

/* Ids of the model beyond the tokenizer's vocabulary (padding rows of the head) have no text. */
static weft_status token_bytes(weft_generation *g, int32_t token, weft_error *err) {
  wf_buf_clear(&g->bytes);
  if (wf_tokenizer_token_text(g->model->tokenizer, token).at == NULL) return WEFT_OK;
  return wf_tokenizer_token_bytes_with(g->model->tokenizer, token, &g->bytes, &g->scratch, err);
}

static bool is_full(const weft_generation *g) {
  const int64_t n_answer = (int64_t)(g->tokens.n - g->answer_at);
  return (g->options.max_tokens >= 0 && n_answer >= g->options.max_tokens) ||
         (int64_t)g->tokens.n > g->model->context_tokens;
}

static weft_status check_may_step(weft_generation *g, weft_error *err) {
  if (g->tokens.n == 0) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "append a prompt first",
                   "the conversation is empty");
  }
  if (g->finish == WEFT_FINISH_NONE && is_full(g)) g->finish = WEFT_FINISH_LENGTH;
  if (g->finish == WEFT_FINISH_NONE) return WEFT_OK;
  return wf_fail(err, WEFT_CLOSED, "append something to begin a new answer",
                 "the answer has ended (%s)", weft_finish_name(g->finish));
}

static weft_status step(weft_generation *g, weft_token *token, weft_error *err) {
  weft_token full = {.struct_size = token->struct_size};
  const uint64_t started = wf_clock_ns();
  WF_RETURN_IF_ERROR(check_may_step(g, err));
  if (atomic_exchange(&g->cancel->requested, 0)) {
    g->finish = WEFT_FINISH_CANCELLED;
    return wf_fail(err, WEFT_CANCELLED, NULL, "the answer was cancelled");
  }
  WF_RETURN_IF_ERROR(wf_generation_need_row(g, true, err));
  const float *logits = wf_generation_row(g);
  int32_t id;
  WF_RETURN_IF_ERROR(wf_sampler_pick(g->sampler, logits, g->n_chosen, &id, err));
  WF_RETURN_IF_ERROR(add_logprobs(g, logits, id, &full, err));
  WF_RETURN_IF_ERROR(token_bytes(g, id, err));
  g->tokens.at[g->tokens.n++] = id; /* room for the whole context was taken at the start */
  g->n_chosen++;
  wf_sampler_note(g->sampler, &id, 1, true);
  wf_generation_settle(g, id);
  wf_buf_clear(&g->text);
  bool stopped = false;
  const bool is_end = !g->options.ignore_eos && is_end_id(g->model, id);
  const bool is_last = is_full(g);
  WF_RETURN_IF_ERROR(add_text(g, id, is_end, is_last, &stopped, err));
  if (is_end || stopped)
    g->finish = WEFT_FINISH_STOP;
  else if (is_last)
    g->finish = WEFT_FINISH_LENGTH;
  full.id = id;
  full.text = g->text.at ? g->text.at : "";
  full.n_text = g->text.n;
  full.bytes = g->bytes.at ? g->bytes.at : "";
  full.n_bytes = g->bytes.n;
  full.finish = g->finish;
  memcpy(token, &full, token->struct_size < sizeof full ? token->struct_size : sizeof full);
  g->decode_ms += (double)(wf_clock_ns() - started) / 1e6;
  return WEFT_OK;
}

weft_status weft_generation_step(weft_generation *g, weft_token *token, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_generation_enter(g, err));
  const weft_status st = step(g, token, err);
  if (st != WEFT_OK || g->finish != WEFT_FINISH_NONE) wf_runner_rest(&g->model->runner);
  wf_generation_leave(g);
  return st;
}

static void fill_result(const weft_generation *g, weft_result *result) {
  if (!result) return;
  const weft_result full = {.struct_size = result->struct_size,
                            .finish = g->finish,
                            .prompt_tokens = (int64_t)g->answer_at,
                            .completion_tokens = (int64_t)(g->tokens.n - g->answer_at),
                            .cached_tokens = g->cached_tokens,
                            .prefill_ms = g->prefill_ms,
                            .decode_ms = g->decode_ms};
  memcpy(result, &full, result->struct_size < sizeof full ? result->struct_size : sizeof full);
}

/* What the detokenizer and the stop texts still hold when an answer ends without a last token. */
static void flush_text(weft_generation *g, weft_token_callback *callback, void *user) {
  weft_error ignored = {0};
  bool stopped = false;
  wf_buf_clear(&g->raw);
  wf_buf_clear(&g->text);
  if (wf_detokenizer_finish(g->detokenizer, &g->raw, &ignored) != WEFT_OK) return;
  if (wf_stops_feed(g->stops, (wf_str){g->raw.at, g->raw.n}, &g->text, &stopped, &ignored) !=
      WEFT_OK)
    return;
  if (!stopped && wf_stops_finish(g->stops, &g->text, &ignored) != WEFT_OK) return;
  if (g->text.n == 0 || !callback) return;
  const weft_token rest = {.struct_size = sizeof rest,
                           .id = -1,
                           .text = g->text.at,
                           .n_text = g->text.n,
                           .bytes = "",
                           .finish = g->finish};
  g->in_callback = true;
  (void)callback(user, g, &rest);
  g->in_callback = false;
}

weft_status weft_generation_run(weft_generation *g, weft_token_callback *callback, void *user,
                                weft_result *result, weft_error *err) {
  weft_status st = WEFT_OK;
  WF_RETURN_IF_ERROR(wf_generation_enter(g, err));
  if (g->tokens.n > 0 && g->finish == WEFT_FINISH_NONE && is_full(g)) {
    g->finish = WEFT_FINISH_LENGTH; /* max_tokens 0: an empty answer */
    fill_result(g, result);
    goto out;
  }
  do {
    weft_token token = {.struct_size = sizeof token};
    st = step(g, &token, err);
    if (st != WEFT_OK) break;
    if (!callback) continue;
    g->in_callback = true;
    const int wants_stop = callback(user, g, &token);
    g->in_callback = false;
    if (wants_stop && g->finish == WEFT_FINISH_NONE) {
      g->finish = WEFT_FINISH_CANCELLED;
      st = wf_fail(err, WEFT_CANCELLED, NULL, "the callback ended the answer");
    }
  } while (st == WEFT_OK && g->finish == WEFT_FINISH_NONE);
  if (st == WEFT_CANCELLED)
    g->finish = WEFT_FINISH_CANCELLED;
  else if (st != WEFT_OK && st != WEFT_CLOSED)
    g->finish = WEFT_FINISH_ERROR;
  /* whoever closed the generation in the callback wants no more of it */
  if (st != WEFT_OK && st != WEFT_CLOSED && !wf_generation_is_closed(g)) {
    flush_text(g, callback, user);
  }
  fill_result(g, result);
  wf_runner_rest(&g->model->runner);
out:
  wf_generation_leave(g);
  return st;
}
