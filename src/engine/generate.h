/* SPDX-License-Identifier: Apache-2.0 */
/* A generation's insides, shared by generate.c (tokens through the component) and answer.c
 * (choosing, text, stops, life). Everything is touched only by whoever holds WF_USE_BUSY. */
#ifndef WF_GENERATE_H
#define WF_GENERATE_H

#include "decode/decode.h"
#include "engine/engine.h"
#include "text/detokenizer.h"

enum { WF_USE_BUSY = 1, WF_USE_CLOSED = 2 };

struct weft_generation {
  weft_model *model;   /* held */
  weft_cancel *cancel; /* held */
  atomic_uint use;     /* WF_USE_ flags; both in one word, so that exactly one thread frees */
  bool in_callback;
  weft_generation_options options;
  WF_VEC(int32_t) tokens;
  wf_kv_sequence kv;   /* touched under the runner's lock, read while busy */
  int64_t keep_tokens; /* a rewind this far never recomputes a window */
  float *rows;         /* [n_lookup + 1][vocab] logits after tokens rows_at .. */
  int64_t rows_at, n_rows;
  size_t n_guessed;
  int32_t *guessed;  /* tokens that the rows after the first were computed for */
  int32_t *selected; /* [chunk] */
  /* The answer: */
  size_t answer_at;  /* index of its first token */
  uint64_t n_chosen; /* the draw's counter */
  weft_finish finish;
  wf_sampler *sampler;
  wf_stops *stops;
  wf_detokenizer *detokenizer;
  wf_buf raw, text, bytes; /* of one step: detokenized, after stops, the token's own */
  wf_buf scratch;          /* of one step: while a token becomes bytes */
  weft_logprob *alternatives;
  wf_logprob *top;
  int64_t cached_tokens;
  double prefill_ms, decode_ms;
};

/* SESSION_BUSY when another thread is inside. leave frees the object when a close came meanwhile.
 */
weft_status wf_generation_enter(weft_generation *g, weft_error *err) WF_NODISCARD;
void wf_generation_leave(weft_generation *g);
bool wf_generation_is_closed(const weft_generation *g);
void wf_generation_free(weft_generation *g);

/* Makes the logits after the last token available; guesses further ones if it may. */
weft_status wf_generation_need_row(weft_generation *g, bool may_guess,
                                   weft_error *err) WF_NODISCARD;
const float *wf_generation_row(const weft_generation *g); /* [vocab] */
void wf_generation_settle(weft_generation *g, int32_t token);
void wf_generation_begin_answer(weft_generation *g);

#endif
