/* SPDX-License-Identifier: Apache-2.0 */
/* The thin driver: one conversation as rows through the component, chosen tokens back as text. It
 * calls backend.h with rows and cache handles exactly as a pass of a workflow will.
 *
 * A conversation is `tokens`; the cache holds a prefix of them. Logits are computed when they are
 * read:
 *
 *   tokens    [ t0 t1 t2 t3 t4 t5 t6 ]
 *   cache     [ k0 k1 k2 k3 k4 ]           run(t5, t6) selects the last: logits of the next token
 *   rows      logits after tokens [rows_at, rows_at + n_rows), more than one when tokens were
 * guessed
 */
#include "engine/generate.h"

#include <math.h>
#include <string.h>

#include "base/process.h"

weft_status wf_generation_enter(weft_generation *g, weft_error *err) {
  unsigned none = 0;
  /* acquire: what the last holder wrote is visible */
  if (!atomic_compare_exchange_strong_explicit(&g->use, &none, WF_USE_BUSY, memory_order_acquire,
                                               memory_order_relaxed)) {
    return wf_fail(err, WEFT_SESSION_BUSY, "wait until the other call has returned",
                   "another thread is inside this generation");
  }
  return WEFT_OK;
}

void wf_generation_leave(weft_generation *g) {
  unsigned busy = WF_USE_BUSY;
  /* One step gives the generation back and sees whether it was closed: after a success another
   * thread may free it at once. Release pairs with enter and close, acquire with a close before. */
  if (!atomic_compare_exchange_strong_explicit(&g->use, &busy, 0, memory_order_release,
                                               memory_order_acquire)) {
    wf_generation_free(g);
  }
}

bool wf_generation_is_closed(const weft_generation *g) {
  return (atomic_load_explicit(&g->use, memory_order_relaxed) & WF_USE_CLOSED) != 0; /* a hint */
}

static bool is_cancelled(weft_generation *g) {
  return atomic_exchange_explicit(&g->cancel->requested, 0, memory_order_acq_rel) != 0;
}

static weft_status fail_cancelled(weft_error *err) {
  return wf_fail(err, WEFT_CANCELLED, NULL, "the call was cancelled");
}

/* Cuts the cache back to what it shares with the first `length` tokens. */
static void cut_cache(weft_generation *g, int64_t length) WF_REQUIRES(wf_worker_role) {
  if (!wf_kv_sequence_truncate(&g->kv, length)) {
    wf_log(2, "a rewind past what the cache keeps: the conversation is computed again");
  }
}

/* Runs tokens[kv.length, end) with logits after the last n_rows of them into `logits`. */
static weft_status run_to(weft_generation *g, int64_t end, int64_t n_rows, float *logits,
                          weft_error *err) {
  weft_status st = WEFT_OK;
  wf_runner *r = &g->model->runner;
  const bool has_past = wf_component_has_past(r->info);
  int32_t *selected = g->selected;
  wf_runner_enter(r);
  int64_t at = has_past ? g->kv.length : 0;
  while (at < end) {
    int64_t n = end - at < r->chunk_tokens ? end - at : r->chunk_tokens;
    const int64_t first_row = end - n_rows > at ? end - n_rows : at;
    const int64_t n_selected = at + n > first_row ? at + n - first_row : 0;
    if (is_cancelled(g)) {
      st = fail_cancelled(err);
      break;
    }
    for (int64_t i = 0; i < n_selected; i++) selected[i] = (int32_t)(first_row - at + i);
    st = wf_kv_sequence_reserve(&g->kv, has_past ? n : 0, err);
    if (st != WEFT_OK) break;
    const wf_row row = {
        .ids = g->tokens.at + at,
        .n_new = n,
        .past = at,
        .tables = g->kv.tables,
        .state = g->kv.state,
        .carried = g->kv.carried,
        .selected = selected,
        .n_selected = n_selected,
        .logits = n_selected ? logits + (first_row - (end - n_rows)) * g->model->vocab : NULL};
    st = wf_backend_session_run_in(r->backend, r->session, &row, 1, r->profile, err);
    if (st != WEFT_OK) {
      wf_kv_sequence_fail(&g->kv);
      break;
    }
    at += n;
    if (has_past) wf_kv_sequence_commit(&g->kv, n, g->keep_tokens);
  }
  wf_runner_leave(r);
  return st;
}

static bool have_rows(const weft_generation *g) {
  const int64_t last = (int64_t)g->tokens.n - 1;
  return g->n_rows > 0 && last >= g->rows_at && last < g->rows_at + g->n_rows;
}

const float *wf_generation_row(const weft_generation *g) {
  return g->rows + ((int64_t)g->tokens.n - 1 - g->rows_at) * g->model->vocab;
}

/* Guesses what may follow, so that one run checks several tokens; greedy answers only. */
static size_t guess(weft_generation *g, int32_t *proposal) {
  size_t most = (size_t)g->options.n_lookup;
  if (most == 0 || !wf_sampler_is_greedy(g->sampler) || !wf_component_has_past(g->model->info)) {
    return 0;
  }
  /* a wrong guess would leave its mark on a state that holds one length alone */
  if (g->model->info->n_carried > 0) return 0;
  const int64_t room = g->model->context_tokens - (int64_t)g->tokens.n;
  if (room <= 0) return 0;
  if ((int64_t)most > room) most = (size_t)room;
  return wf_lookup_propose(g->tokens.at, g->tokens.n, 2, most, proposal);
}

weft_status wf_generation_need_row(weft_generation *g, bool may_guess, weft_error *err) {
  if (have_rows(g)) return WEFT_OK;
  const size_t n = g->tokens.n;
  int64_t kept = g->kv.length;
  /* the last token's logits are wanted, so at least that token has to run */
  if (wf_component_has_past(g->model->info) && kept >= (int64_t)n) {
    wf_runner_enter(&g->model->runner);
    cut_cache(g, (int64_t)n - 1);
    wf_runner_leave(&g->model->runner);
  }
  g->n_rows = 0;
  /* a prompt's own run is never mixed with guesses: its last chunk keeps its shape */
  const bool is_step = (int64_t)n - g->kv.length == 1;
  const size_t n_guess = may_guess && is_step ? guess(g, g->tokens.at + n) : 0;
  const weft_status st = run_to(g, (int64_t)(n + n_guess), (int64_t)n_guess + 1, g->rows, err);
  if (st != WEFT_OK) return st;
  g->rows_at = (int64_t)n - 1;
  g->n_rows = (int64_t)n_guess + 1;
  g->n_guessed = n_guess;
  if (n_guess) memcpy(g->guessed, g->tokens.at + n, n_guess * sizeof *g->guessed);
  return WEFT_OK;
}

/* After a token was chosen at position n: rows of guessed tokens stay only while guesses come true.
 */
void wf_generation_settle(weft_generation *g, int32_t token) {
  const int64_t at =
      (int64_t)g->tokens.n - 1 - g->rows_at - 1; /* index of this token among guesses */
  const bool came_true = at >= 0 && at < (int64_t)g->n_guessed && g->guessed[at] == token;
  if (came_true || g->n_guessed == 0) return;
  wf_runner_enter(&g->model->runner);
  cut_cache(g, (int64_t)g->tokens.n - 1); /* what the wrong guesses wrote is cut off */
  wf_runner_leave(&g->model->runner);
  g->n_rows = 0;
  g->n_guessed = 0;
}

static weft_status check_ids(const weft_generation *g, const int32_t *tokens, size_t n,
                             weft_error *err) {
  for (size_t i = 0; i < n; i++) {
    if (tokens[i] < 0 || tokens[i] >= g->model->vocab) {
      return wf_fail(err, WEFT_INVALID_ARGUMENT, "use ids of this model's own tokenizer",
                     "token id %d is outside the vocabulary of %lld", tokens[i],
                     (long long)g->model->vocab);
    }
  }
  return WEFT_OK;
}

static weft_status check_room(const weft_generation *g, size_t have, size_t more, weft_error *err) {
  size_t sum;
  if (wf_size_add(have, more, &sum) && (int64_t)sum <= g->model->context_tokens) return WEFT_OK;
  return wf_fail(err, WEFT_CONTEXT_FULL,
                 "shorten the prompt or raise --context if the model allows it",
                 "the prompt has %zu tokens%s, but the context holds %lld", have + more,
                 have ? " with what is there" : "", (long long)g->model->context_tokens);
}

void wf_generation_begin_answer(weft_generation *g) {
  g->answer_at = g->tokens.n;
  g->finish = WEFT_FINISH_NONE;
  g->n_chosen = 0;
  wf_detokenizer_reset(g->detokenizer);
  wf_stops_reset(g->stops);
  /* what was generated before is prompt from now on */
  wf_sampler_reset(g->sampler);
  /* the counter begins at 0 again: without a seed of its own an answer must not repeat the last */
  if (!g->options.has_seed) wf_sampler_seed(g->sampler, wf_random_seed());
  wf_sampler_note(g->sampler, g->tokens.at, g->tokens.n, false);
}

/* The logits after the last token, with the conversation put back as it was on failure. */
static weft_status extend(weft_generation *g, const int32_t *tokens, size_t n, weft_error *err) {
  const size_t before = g->tokens.n;
  const int64_t kv_before = g->kv.length < (int64_t)before ? g->kv.length : (int64_t)before;
  if (!wf_vec_reserve(&g->tokens, n + (size_t)g->options.n_lookup + 1)) {
    return wf_fail_memory(err, n * sizeof *tokens, "tokens");
  }
  if (n) memcpy(g->tokens.at + before, tokens, n * sizeof *tokens);
  g->tokens.n += n;
  const weft_status st = wf_generation_need_row(g, false, err);
  if (st == WEFT_OK) return st;
  g->tokens.n = before;
  g->n_rows = 0;
  wf_runner_enter(&g->model->runner);
  cut_cache(g, kv_before);
  wf_runner_leave(&g->model->runner);
  return st;
}

static weft_status append(weft_generation *g, const int32_t *tokens, size_t n_tokens,
                          weft_error *err) {
  const uint64_t started = wf_clock_ns();
  WF_RETURN_IF_ERROR(check_ids(g, tokens, n_tokens, err));
  WF_RETURN_IF_ERROR(check_room(g, g->tokens.n, n_tokens, err));
  if (n_tokens > 0) {
    g->cached_tokens = g->kv.length < (int64_t)g->tokens.n ? g->kv.length : (int64_t)g->tokens.n;
    WF_RETURN_IF_ERROR(extend(g, tokens, n_tokens, err));
  }
  wf_generation_begin_answer(g);
  g->prefill_ms = (double)(wf_clock_ns() - started) / 1e6;
  g->decode_ms = 0;
  return WEFT_OK;
}

weft_status weft_generation_append(weft_generation *g, const int32_t *tokens, size_t n_tokens,
                                   weft_error *err) {
  WF_RETURN_IF_ERROR(wf_generation_enter(g, err));
  const weft_status st = append(g, tokens, n_tokens, err);
  wf_generation_leave(g);
  return st;
}

weft_status weft_generation_append_text(weft_generation *g, const char *text, size_t n_text,
                                        weft_error *err) {
  int32_t *ids = NULL;
  size_t n = 0;
  /* entered first: whether there are tokens yet is the business of one thread at a time */
  WF_RETURN_IF_ERROR(wf_generation_enter(g, err));
  const unsigned flags = g->tokens.n ? WEFT_TOKENIZE_NO_SPECIAL : WEFT_TOKENIZE_DEFAULT;
  weft_status st = weft_tokenize(g->model, text, n_text, flags, &ids, &n, err);
  if (st == WEFT_OK) st = append(g, ids, n, err);
  wf_free(ids);
  wf_generation_leave(g);
  return st;
}

weft_status weft_generation_set(weft_generation *g, const int32_t *tokens, size_t n_tokens,
                                size_t *n_cached, weft_error *err) {
  weft_status st = WEFT_OK;
  size_t shared = 0;
  WF_RETURN_IF_ERROR(wf_generation_enter(g, err));
  const uint64_t started = wf_clock_ns();
  WF_TRY(check_ids(g, tokens, n_tokens, err));
  WF_TRY(check_room(g, 0, n_tokens, err));
  while (shared < n_tokens && shared < g->tokens.n && (int64_t)shared < g->kv.length &&
         g->tokens.at[shared] == tokens[shared]) {
    shared++;
  }
  /* the last token has to run for its logits; a graph that looks at its whole prompt gets it whole
   */
  if (shared == n_tokens && shared > 0) shared--;
  if (!g->model->info->may_chunk) shared = 0;
  g->n_rows = 0;
  g->n_guessed = 0;
  wf_runner_enter(&g->model->runner);
  cut_cache(g, (int64_t)shared);
  wf_runner_leave(&g->model->runner);
  if ((int64_t)shared > g->kv.length) shared = (size_t)g->kv.length;
  g->tokens.n = shared;
  g->cached_tokens = (int64_t)shared;
  if (n_tokens > shared) WF_TRY(extend(g, tokens + shared, n_tokens - shared, err));
  if (n_cached) *n_cached = shared;
  wf_generation_begin_answer(g);
  g->prefill_ms = (double)(wf_clock_ns() - started) / 1e6;
  g->decode_ms = 0;
out:
  wf_generation_leave(g);
  return st;
}

weft_status weft_generation_rewind(weft_generation *g, size_t n_tokens, weft_error *err) {
  weft_status st = WEFT_OK;
  WF_RETURN_IF_ERROR(wf_generation_enter(g, err));
  if (n_tokens > g->tokens.n) {
    st = wf_fail(err, WEFT_INVALID_ARGUMENT, "rewind to at most the present length",
                 "cannot rewind to %zu tokens: there are %zu", n_tokens, g->tokens.n);
    goto out;
  }
  g->tokens.n = n_tokens;
  g->n_rows = 0;
  g->n_guessed = 0;
  wf_runner_enter(&g->model->runner);
  cut_cache(g, (int64_t)n_tokens);
  wf_runner_leave(&g->model->runner);
  wf_generation_begin_answer(g);
out:
  wf_generation_leave(g);
  return st;
}

weft_status weft_generation_logits(weft_generation *g, float *logits, size_t n_logits,
                                   weft_error *err) {
  weft_status st = WEFT_OK;
  WF_RETURN_IF_ERROR(wf_generation_enter(g, err));
  if (g->tokens.n == 0 || (int64_t)n_logits != g->model->vocab) {
    st = wf_fail(err, WEFT_INVALID_ARGUMENT, "append tokens first and give room for the vocabulary",
                 "logits of %zu tokens into room for %zu numbers; the vocabulary is %lld",
                 g->tokens.n, n_logits, (long long)g->model->vocab);
    goto out;
  }
  WF_TRY(wf_generation_need_row(g, false, err));
  memcpy(logits, wf_generation_row(g), n_logits * sizeof *logits);
out:
  wf_generation_leave(g);
  return st;
}

weft_status weft_generation_append_logits(weft_generation *g, const int32_t *tokens,
                                          size_t n_tokens, float *logits, size_t n_logits,
                                          weft_error *err) {
  weft_status st = WEFT_OK;
  size_t want;
  WF_RETURN_IF_ERROR(wf_generation_enter(g, err));
  if (g->tokens.n != 0 || n_tokens == 0 || !wf_size_mul(n_tokens, (size_t)g->model->vocab, &want) ||
      want != n_logits) {
    st = wf_fail(err, WEFT_INVALID_ARGUMENT,
                 "give an empty conversation and n_tokens * vocab numbers",
                 "logits of %zu tokens into room for %zu numbers, %zu tokens there already",
                 n_tokens, n_logits, g->tokens.n);
    goto out;
  }
  WF_TRY(check_ids(g, tokens, n_tokens, err));
  WF_TRY(check_room(g, 0, n_tokens, err));
  if (!wf_vec_reserve(&g->tokens, n_tokens + (size_t)g->options.n_lookup + 1)) {
    st = wf_fail_memory(err, n_tokens, "tokens");
    goto out;
  }
  memcpy(g->tokens.at, tokens, n_tokens * sizeof *tokens);
  g->tokens.n = n_tokens;
  st = run_to(g, (int64_t)n_tokens, (int64_t)n_tokens, logits, err);
  if (st != WEFT_OK) {
    g->tokens.n = 0;
    wf_runner_enter(&g->model->runner);
    cut_cache(g, 0);
    wf_runner_leave(&g->model->runner);
    goto out;
  }
  memcpy(g->rows, logits + (n_tokens - 1) * (size_t)g->model->vocab,
         (size_t)g->model->vocab * sizeof *g->rows);
  g->rows_at = (int64_t)n_tokens - 1;
  g->n_rows = 1;
  wf_generation_begin_answer(g);
  wf_runner_rest(&g->model->runner); /* the room for all those logits */
out:
  wf_generation_leave(g);
  return st;
}
