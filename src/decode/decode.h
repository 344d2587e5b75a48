/* SPDX-License-Identifier: Apache-2.0 */
/* From logits to tokens and from token text to an answer. Owns: sampling, penalties, logprobs, stop
 * texts, prompt-lookup proposals. Never: a model, a cache, a tokenizer's tables. Each object
 * belongs to one row and one thread at a time; nothing here allocates per step once created.
 *
 * THE ORDER of a choice: raw logits -> check finite -> (logprobs are taken here, of the raw
 * distribution)
 * -> suppressed ids and logit bias -> repetition, then presence and frequency penalties -> greedy?
 * argmax
 * -> temperature -> top-k -> top-p -> min-p -> typical-p -> draw. The filters and their order are
 * those of transformers' warpers (ties at a top-k or typical border are kept, each filter sees the
 * distribution that the one before left); the draw walks the ids in ascending order. */
#ifndef WF_DECODE_H
#define WF_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

/* ---- sampler ------------------------------------------------------------------------------- */

typedef struct wf_logit_bias {
  int32_t id;
  float bias;
} wf_logit_bias;

typedef struct wf_sampler_options {
  bool greedy;                 /* wins over everything below but penalties and bias */
  float temperature;           /* 0: greedy */
  int32_t top_k;               /* 0: off */
  float top_p;                 /* 0: greedy; 1: off */
  float min_p;                 /* 0: off */
  float typical_p;             /* 1: off */
  float repetition_penalty;    /* 1: off; prompt and generated tokens */
  float presence_penalty;      /* 0: off; generated tokens only */
  float frequency_penalty;     /* 0: off; generated tokens only */
  const wf_logit_bias *biases; /* copied */
  size_t n_biases;
  const int32_t *suppressed; /* ids never chosen, copied */
  size_t n_suppressed;
  uint64_t seed;
} wf_sampler_options;
/* Everything off, greedy, seed 0. */
void wf_sampler_options_init(wf_sampler_options *o);
/* INVALID_ARGUMENT names the option: NaN, infinite, negative where it makes no sense, ids outside
 * [0, vocab). */
weft_status wf_sampler_options_check(const wf_sampler_options *o, int64_t vocab,
                                     weft_error *err) WF_NODISCARD;

typedef struct wf_sampler wf_sampler;
/* Owner: *result. All memory a choice needs is taken now. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY.
 */
weft_status wf_sampler_create(wf_sampler **result, int64_t vocab, const wf_sampler_options *o,
                              weft_error *err) WF_NODISCARD;
void wf_sampler_destroy(wf_sampler *s); /* NULL is fine */
/* Counts tokens for the penalties; is_generated tells which kind. */
void wf_sampler_note(wf_sampler *s, const int32_t *tokens, size_t n, bool is_generated);
/* Takes back tokens noted before, for a rewind. */
void wf_sampler_forget(wf_sampler *s, const int32_t *tokens, size_t n, bool is_generated);
/* Forgets all. */
void wf_sampler_reset(wf_sampler *s);
/* The seed of the draws to come. */
void wf_sampler_seed(wf_sampler *s, uint64_t seed);
bool wf_sampler_is_greedy(const wf_sampler *s);

/* Chooses a token from raw logits [vocab], which stay as they are. `counter` numbers the choice
 * within the answer: the draw is a pure function of (seed, counter, logits, counted tokens).
 * Errors: NOT_FINITE (NaN, +inf, or nothing but -inf: position named). */
weft_status wf_sampler_pick(wf_sampler *s, const float *logits, uint64_t counter, int32_t *token,
                            weft_error *err) WF_NODISCARD;

/* For tests against judges: the final probabilities [vocab] that a draw uses (0 where filtered). */
weft_status wf_sampler_distribution(wf_sampler *s, const float *logits, float *probabilities,
                                    weft_error *err) WF_NODISCARD;

/* The uniform number in [0, 1) of a seed and counter (Philox4x32-10, Salmon et al. 2011). */
double wf_random_uniform(uint64_t seed, uint64_t counter);
/* The ten rounds of Philox4x32 themselves, for the test against the published vectors. */
void wf_random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t result[4]);
/* 64 bits from the system's generator, for unseeded answers. */
uint64_t wf_random_seed(void);

/* ---- logprobs ------------------------------------------------------------------------------ */

typedef struct wf_logprob {
  int32_t id;
  float logprob; /* natural logarithm */
} wf_logprob;
/* Of the raw distribution: *chosen gets the token's own, top[0..n_top) the best, best first, lower
 * id first on ties. Errors: NOT_FINITE. */
weft_status wf_logprobs(const float *logits, int64_t vocab, int32_t token, wf_logprob *chosen,
                        wf_logprob *top, size_t n_top, weft_error *err) WF_NODISCARD;

/* ---- stop texts ---------------------------------------------------------------------------- */

typedef struct wf_stops wf_stops;
/* Texts are copied; empty ones are refused (INVALID_ARGUMENT). n = 0 passes all text through. */
weft_status wf_stops_create(wf_stops **result, const char *const *texts, size_t n,
                            weft_error *err) WF_NODISCARD;
void wf_stops_destroy(wf_stops *s); /* NULL is fine */
void wf_stops_reset(wf_stops *s);
/* Feeds text; appends to `out` what can no longer be part of a stop text. *stopped becomes true
 * when one has occurred (the one that ends first; of those the longest): what stood before it has
 * been delivered, it and all after it never is. Errors: OUT_OF_MEMORY. */
weft_status wf_stops_feed(wf_stops *s, wf_str text, wf_buf *out, bool *stopped,
                          weft_error *err) WF_NODISCARD;
/* The answer ended: delivers what was held back. */
weft_status wf_stops_finish(wf_stops *s, wf_buf *out, weft_error *err) WF_NODISCARD;

/* ---- prompt lookup ------------------------------------------------------------------------- */

/* Proposes up to max_n tokens that followed the latest earlier occurrence of the longest suffix (3,
 * then 2, then 1 tokens... at least min_match) of tokens[0..n). Returns how many; linear in n.
 * Pure. */
size_t wf_lookup_propose(const int32_t *tokens, size_t n, size_t min_match, size_t max_n,
                         int32_t *proposal);

#endif
