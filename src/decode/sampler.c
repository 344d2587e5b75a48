/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "decode/decode.h"

/* A token that is still in the race. */
typedef struct candidate {
  float logit; /* after temperature */
  float key;   /* what a filter orders by, ascending */
  double p;    /* exp(logit - max), not normalised */
  int32_t id;
} candidate;

struct wf_sampler {
  wf_sampler_options o; /* biases and suppressed point at our own copies */
  int64_t vocab;
  wf_logit_bias *biases;
  int32_t *suppressed;
  int32_t *n_prompt, *n_generated; /* [vocab] how often each token was noted */
  bool *is_listed;                 /* [vocab] */
  int32_t *listed;                 /* ids that were ever noted, each once; at most vocab */
  size_t n_listed;
  float *work;     /* [vocab] logits after bias and penalties */
  candidate *race; /* [vocab] */
};

void wf_sampler_options_init(wf_sampler_options *o) {
  *o = (wf_sampler_options){
      .greedy = true, .temperature = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1};
}

static weft_status fail_option(weft_error *err, const char *name, const char *range, double v) {
  wf_buf text = {0};
  wf_buf_add_f64(&text, v);
  const weft_status st =
      wf_fail(err, WEFT_INVALID_ARGUMENT, range, "%s is %s", name, wf_buf_cstr(&text));
  wf_buf_deinit(&text);
  return st;
}

weft_status wf_sampler_options_check(const wf_sampler_options *o, int64_t vocab, weft_error *err) {
  const struct {
    const char *name, *range;
    float v, lo, hi;
  } rows[] = {
      {"temperature", "use 0 or more", o->temperature, 0, FLT_MAX},
      {"top_p", "use 0 to 1", o->top_p, 0, 1},
      {"min_p", "use 0 to 1", o->min_p, 0, 1},
      {"typical_p", "use 0 to 1", o->typical_p, 0, 1},
      {"repetition_penalty", "use a number above 0", o->repetition_penalty, FLT_MIN, FLT_MAX},
      {"presence_penalty", "use a finite number", o->presence_penalty, -FLT_MAX, FLT_MAX},
      {"frequency_penalty", "use a finite number", o->frequency_penalty, -FLT_MAX, FLT_MAX}};
  for (size_t i = 0; i < WF_ARRAY_LEN(rows); i++) {
    if (!(rows[i].v >= rows[i].lo && rows[i].v <= rows[i].hi)) { /* also false for NaN */
      return fail_option(err, rows[i].name, rows[i].range, (double)rows[i].v);
    }
  }
  if (o->top_k < 0) return fail_option(err, "top_k", "use 0 or more", o->top_k);
  for (size_t i = 0; i < o->n_biases; i++) {
    if (o->biases[i].id < 0 || o->biases[i].id >= vocab || isnan(o->biases[i].bias) ||
        o->biases[i].bias == INFINITY) {
      return wf_fail(err, WEFT_INVALID_ARGUMENT, "use ids of the vocabulary and finite numbers",
                     "logit bias of token id %d: the vocabulary has %lld", o->biases[i].id,
                     (long long)vocab);
    }
  }
  for (size_t i = 0; i < o->n_suppressed; i++) {
    if (o->suppressed[i] < 0) {
      return wf_fail(err, WEFT_INVALID_ARGUMENT, "use ids of the vocabulary",
                     "token id %d cannot be suppressed", o->suppressed[i]);
    }
  }
  return WEFT_OK;
}

weft_status wf_sampler_create(wf_sampler **result, int64_t vocab, const wf_sampler_options *o,
                              weft_error *err) {
  weft_status st = WEFT_OK;
  wf_sampler *s = NULL;
  if (vocab < 1 || vocab > INT32_MAX) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, NULL, "a vocabulary of %lld", (long long)vocab);
  }
  WF_RETURN_IF_ERROR(wf_sampler_options_check(o, vocab, err));
  const size_t n = (size_t)vocab;
  s = wf_zalloc(sizeof *s);
  if (!s) return wf_fail_memory(err, sizeof *s, "a sampler");
  s->o = *o;
  s->vocab = vocab;
  s->biases = wf_calloc(o->n_biases + 1, sizeof *s->biases);
  s->suppressed = wf_calloc(o->n_suppressed + 1, sizeof *s->suppressed);
  s->n_prompt = wf_calloc(n, sizeof *s->n_prompt);
  s->n_generated = wf_calloc(n, sizeof *s->n_generated);
  s->is_listed = wf_calloc(n, sizeof *s->is_listed);
  s->listed = wf_calloc(n, sizeof *s->listed);
  s->work = wf_calloc(n, sizeof *s->work);
  s->race = wf_calloc(n, sizeof *s->race);
  if (!s->biases || !s->suppressed || !s->n_prompt || !s->n_generated || !s->is_listed ||
      !s->listed || !s->work || !s->race) {
    st = wf_fail_memory(err, n * sizeof *s->race, "a sampler");
    goto out;
  }
  if (o->n_biases) memcpy(s->biases, o->biases, o->n_biases * sizeof *s->biases);
  if (o->n_suppressed)
    memcpy(s->suppressed, o->suppressed, o->n_suppressed * sizeof *s->suppressed);
  s->o.biases = s->biases;
  s->o.suppressed = s->suppressed;
  *result = s;
  s = NULL;
out:
  wf_sampler_destroy(s);
  return st;
}

void wf_sampler_destroy(wf_sampler *s) {
  if (!s) return;
  wf_free(s->biases);
  wf_free(s->suppressed);
  wf_free(s->n_prompt);
  wf_free(s->n_generated);
  wf_free(s->is_listed);
  wf_free(s->listed);
  wf_free(s->work);
  wf_free(s->race);
  wf_free(s);
}

bool wf_sampler_is_greedy(const wf_sampler *s) {
  return s->o.greedy || s->o.temperature <= 0 || s->o.top_p <= 0;
}

static void count(wf_sampler *s, const int32_t *tokens, size_t n, bool is_generated, int32_t step) {
  int32_t *counts = is_generated ? s->n_generated : s->n_prompt;
  for (size_t i = 0; i < n; i++) {
    const int32_t id = tokens[i];
    if (id < 0 || id >= s->vocab) continue;
    counts[id] += step;
    if (!s->is_listed[id]) {
      s->is_listed[id] = true;
      s->listed[s->n_listed++] = id;
    }
  }
}

void wf_sampler_note(wf_sampler *s, const int32_t *tokens, size_t n, bool is_generated) {
  count(s, tokens, n, is_generated, 1);
}

void wf_sampler_forget(wf_sampler *s, const int32_t *tokens, size_t n, bool is_generated) {
  count(s, tokens, n, is_generated, -1);
}

void wf_sampler_reset(wf_sampler *s) {
  for (size_t i = 0; i < s->n_listed; i++) {
    const int32_t id = s->listed[i];
    s->n_prompt[id] = s->n_generated[id] = 0;
    s->is_listed[id] = false;
  }
  s->n_listed = 0;
}

void wf_sampler_seed(wf_sampler *s, uint64_t seed) { s->o.seed = seed; }

static weft_status check_finite(const float *logits, int64_t vocab, weft_error *err) {
  bool any_bad = false, any_good = false;
  for (int64_t i = 0; i < vocab; i++) {
    any_bad |= !(logits[i] <= FLT_MAX); /* NaN or +inf */
    any_good |= logits[i] >= -FLT_MAX;
  }
  if (!any_bad && any_good) return WEFT_OK;
  for (int64_t i = 0; any_bad && i < vocab; i++) {
    if (logits[i] <= FLT_MAX) continue;
    return wf_fail(err, WEFT_NOT_FINITE, "check the model, or use --precision exact and --kv f32",
                   "the model gave %s as the logit of token %lld",
                   isnan(logits[i]) ? "NaN" : "+inf", (long long)i);
  }
  return wf_fail(err, WEFT_NOT_FINITE, "check the model, or use --precision exact and --kv f32",
                 "the model gave -inf as the logit of every token");
}

static bool changes_logits(const wf_sampler *s) {
  return s->o.n_biases || s->o.n_suppressed || s->o.repetition_penalty != 1 ||
         s->o.presence_penalty != 0 || s->o.frequency_penalty != 0;
}

/* Bias, suppression and penalties into s->work. */
static weft_status adjust(wf_sampler *s, const float *logits, weft_error *err) {
  const wf_sampler_options *o = &s->o;
  float *w = s->work;
  memcpy(w, logits, (size_t)s->vocab * sizeof *w);
  for (size_t i = 0; i < o->n_biases; i++) w[o->biases[i].id] += o->biases[i].bias;
  if (o->repetition_penalty != 1 || o->presence_penalty != 0 || o->frequency_penalty != 0) {
    for (size_t i = 0; i < s->n_listed; i++) {
      const int32_t id = s->listed[i];
      if (s->n_prompt[id] + s->n_generated[id] > 0) {
        w[id] = w[id] < 0 ? w[id] * o->repetition_penalty : w[id] / o->repetition_penalty;
      }
      if (s->n_generated[id] > 0) {
        w[id] -= o->presence_penalty + o->frequency_penalty * (float)s->n_generated[id];
      }
    }
  }
  for (size_t i = 0; i < o->n_suppressed; i++) {
    if (o->suppressed[i] < s->vocab) w[o->suppressed[i]] = -INFINITY;
  }
  /* a huge penalty may overflow to -inf, which is a mask; nothing left at all is refused */
  return check_finite(w, s->vocab, err);
}

static int32_t argmax(const float *x, int64_t n) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++) {
    if (x[i] > x[best]) best = i;
  }
  return (int32_t)best;
}

static bool comes_before(const candidate *a, const candidate *b) {
  return a->key < b->key || (a->key == b->key && a->id < b->id);
}

static void swap(candidate *a, candidate *b) {
  const candidate t = *a;
  *a = *b;
  *b = t;
}

/* Moves to the front the fewest candidates, in order of key, whose mass reaches `target`; returns
 * how many. by_count: each weighs 1, else p. Quickselect on the mass: expected linear, no full
 * sort. */
static size_t select_front(candidate *c, size_t n, double target, bool by_count) {
  size_t lo = 0, hi = n;
  while (hi - lo > 1) {
    /* the middle of three as pivot, put at lo */
    candidate *mid = &c[lo + (hi - lo) / 2], *last = &c[hi - 1];
    if (comes_before(mid, &c[lo])) swap(mid, &c[lo]);
    if (comes_before(last, &c[lo])) swap(last, &c[lo]);
    if (comes_before(last, mid)) swap(last, mid);
    swap(&c[lo], mid);
    size_t split = lo; /* c[lo+1 .. split] come before the pivot */
    double mass = 0;
    for (size_t i = lo + 1; i < hi; i++) {
      if (!comes_before(&c[i], &c[lo])) continue;
      mass += by_count ? 1 : c[i].p;
      swap(&c[++split], &c[i]);
    }
    swap(&c[lo], &c[split]);
    const double own = by_count ? 1 : c[split].p;
    if (mass >= target) {
      hi = split;
    } else if (mass + own >= target) {
      return split + 1;
    } else {
      target -= mass + own;
      lo = split + 1;
    }
  }
  return lo < n ? lo + 1 : n;
}

/* Keeps the front and, where the rule says so, ties with its last key. */
static size_t keep_front(candidate *c, size_t n, size_t front, bool with_ties) {
  if (!with_ties || front == 0) return front;
  float last = c[0].key;
  for (size_t i = 1; i < front; i++) last = c[i].key > last ? c[i].key : last;
  for (size_t i = front; i < n; i++) {
    if (c[i].key <= last) swap(&c[front++], &c[i]);
  }
  return front;
}

static double sum_of(const candidate *c, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += c[i].p;
  return sum;
}

static size_t filter_typical(candidate *c, size_t n, double mass) {
  const double sum = sum_of(c, n), log_sum = log(sum);
  double entropy = 0;
  for (size_t i = 0; i < n; i++) {
    if (c[i].p > 0) entropy -= c[i].p / sum * (log(c[i].p) - log_sum);
  }
  for (size_t i = 0; i < n; i++) {
    c[i].key = c[i].p > 0 ? (float)fabs(-(log(c[i].p) - log_sum) - entropy) : INFINITY;
  }
  return keep_front(c, n, select_front(c, n, mass * sum, false), true);
}

static void sift_down(candidate *c, size_t at, size_t n) {
  for (size_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && c[child + 1].id > c[child].id) child++;
    if (c[at].id >= c[child].id) return;
    swap(&c[at], &c[child]);
  }
}

/* A heap sort, because qsort() takes memory for more than a few candidates. */
static void sort_by_id(candidate *c, size_t n) {
  for (size_t i = n / 2; i-- > 0;) sift_down(c, i, n);
  for (size_t end = n; end-- > 1;) {
    swap(&c[0], &c[end]);
    sift_down(c, 0, end);
  }
}

/* Fills s->race with what the filters leave, in ascending order of id; returns how many. */
static size_t run_filters(wf_sampler *s, const float *logits) {
  const wf_sampler_options *o = &s->o;
  candidate *c = s->race;
  const float max = logits[argmax(logits, s->vocab)];
  size_t n = 0;
  for (int64_t i = 0; i < s->vocab; i++) {
    if (!(logits[i] >= -FLT_MAX)) continue; /* masked */
    const float scaled = (logits[i] - max) / o->temperature;
    c[n++] = (candidate){scaled, -scaled, 0, (int32_t)i};
  }
  const size_t n_all = n;
  if (o->top_k > 0 && (size_t)o->top_k < n) { /* by count: needs no exp() of what falls out */
    n = keep_front(c, n, select_front(c, n, o->top_k, true), true);
  }
  for (size_t i = 0; i < n; i++) c[i].p = exp((double)c[i].logit);
  if (o->top_p < 1) {
    /* a little less than the sum, so that rounding never asks for more than there is */
    n = select_front(c, n, (double)o->top_p * sum_of(c, n) * (1 - 1e-12), false);
  }
  if (o->min_p > 0) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
      if (c[i].p >= (double)o->min_p) c[kept++] = c[i]; /* the best has p = 1 */
    }
    n = kept;
  }
  if (o->typical_p < 1) n = filter_typical(c, n, (double)o->typical_p);
  if (n < n_all) sort_by_id(c, n);
  return n;
}

weft_status wf_sampler_pick(wf_sampler *s, const float *logits, uint64_t counter, int32_t *token,
                            weft_error *err) {
  WF_RETURN_IF_ERROR(check_finite(logits, s->vocab, err));
  if (changes_logits(s)) {
    WF_RETURN_IF_ERROR(adjust(s, logits, err));
    logits = s->work;
  }
  if (wf_sampler_is_greedy(s)) {
    *token = argmax(logits, s->vocab);
    return WEFT_OK;
  }
  const size_t n = run_filters(s, logits);
  const double target = wf_random_uniform(s->o.seed, counter) * sum_of(s->race, n);
  double sum = 0;
  size_t last = 0; /* of those with any likelihood: rounding must not end beyond them */
  for (size_t i = 0; i < n; i++) {
    if (s->race[i].p <= 0) continue;
    last = i;
    sum += s->race[i].p;
    if (sum > target) break;
  }
  *token = s->race[last].id;
  return WEFT_OK;
}

weft_status wf_sampler_distribution(wf_sampler *s, const float *logits, float *probabilities,
                                    weft_error *err) {
  WF_RETURN_IF_ERROR(check_finite(logits, s->vocab, err));
  if (changes_logits(s)) {
    WF_RETURN_IF_ERROR(adjust(s, logits, err));
    logits = s->work;
  }
  memset(probabilities, 0, (size_t)s->vocab * sizeof *probabilities);
  if (wf_sampler_is_greedy(s)) {
    probabilities[argmax(logits, s->vocab)] = 1;
    return WEFT_OK;
  }
  const size_t n = run_filters(s, logits);
  const double sum = sum_of(s->race, n);
  for (size_t i = 0; i < n; i++) probabilities[s->race[i].id] = (float)(s->race[i].p / sum);
  return WEFT_OK;
}

weft_status wf_logprobs(const float *logits, int64_t vocab, int32_t token, wf_logprob *chosen,
                        wf_logprob *top, size_t n_top, weft_error *err) {
  WF_RETURN_IF_ERROR(check_finite(logits, vocab, err));
  const double max = (double)logits[argmax(logits, vocab)];
  double sum = 0;
  for (int64_t i = 0; i < vocab; i++) sum += exp((double)logits[i] - max);
  const double log_sum = max + log(sum);
  *chosen = (wf_logprob){token, (float)((double)logits[token] - log_sum)};
  size_t n = 0;
  for (int64_t i = 0; i < vocab && n_top > 0; i++) {
    if (n == n_top && logits[i] <= top[n - 1].logprob) continue; /* holds raw logits for now */
    size_t at = n < n_top ? n++ : n - 1;
    for (; at > 0 && top[at - 1].logprob < logits[i]; at--) top[at] = top[at - 1];
    top[at] = (wf_logprob){(int32_t)i, logits[i]};
  }
  for (size_t i = 0; i < n; i++) top[i].logprob = (float)((double)top[i].logprob - log_sum);
  return WEFT_OK;
}
