/* SPDX-License-Identifier: Apache-2.0 */
/* Holds back as little as possible: the bytes of an unfinished character, spaces that may yet be
 * stripped from the end, and, for decoders that treat the last token apart, one token. */
#include "text/detokenizer.h"

#include "base/utf8.h"
#include "text/tokenizer_internal.h"

struct wf_detokenizer {
  const wf_tokenizer *t;
  const wf_decoder *strip; /* of the whole text, NULL: none */
  bool skip_special, looks_ahead;
  bool started; /* a token has been decoded */
  int32_t held; /* looks_ahead: the token still to come, -1 */
  size_t start_left;
  size_t n_stop_held;
  wf_buf pending; /* bytes not yet given out */
  wf_buf scratch;
};

weft_status wf_detokenizer_create(wf_detokenizer **result, const wf_tokenizer *t, bool skip_special,
                                  weft_error *err) {
  wf_detokenizer *d = wf_zalloc(sizeof *d);
  if (!d) return wf_fail_memory(err, sizeof *d, "a detokenizer");
  d->t = t;
  d->skip_special = skip_special;
  d->strip = wf_decode_final_strip(t);
  d->looks_ahead = wf_decode_looks_ahead(t);
  wf_detokenizer_reset(d);
  *result = d;
  return WEFT_OK;
}

void wf_detokenizer_destroy(wf_detokenizer *d) {
  if (!d) return;
  wf_buf_deinit(&d->pending);
  wf_buf_deinit(&d->scratch);
  wf_free(d);
}

void wf_detokenizer_reset(wf_detokenizer *d) {
  d->started = false;
  d->held = -1;
  d->start_left = d->strip ? d->strip->start : 0;
  d->n_stop_held = 0;
  wf_buf_clear(&d->pending);
}

/* Gives out one character, unless the strip of the whole text takes or delays it. */
static void give(wf_detokenizer *d, uint32_t cp, wf_buf *out) {
  if (d->start_left) {
    if (cp == d->strip->cp) {
      d->start_left--;
      return;
    }
    d->start_left = 0;
  }
  if (d->strip && d->strip->stop && cp == d->strip->cp) {
    if (d->n_stop_held < d->strip->stop) {
      d->n_stop_held++;
    } else {
      wf_buf_add_utf8(out, cp);
    }
    return;
  }
  for (; d->n_stop_held; d->n_stop_held--) wf_buf_add_utf8(out, d->strip->cp);
  wf_buf_add_utf8(out, cp);
}

static void give_whole(wf_detokenizer *d, wf_buf *out) {
  size_t at = 0;
  const size_t n = d->pending.n;
  while (at < n) {
    uint32_t cp;
    size_t used = wf_utf8_decode(d->pending.at + at, n - at, &cp);
    if (used == 0) {
      bool is_cut;
      used = wf_utf8_bad_length(d->pending.at + at, n - at, &is_cut);
      if (is_cut) break; /* may become a character yet */
      cp = 0xfffd;
    }
    give(d, cp, out);
    at += used;
  }
  if (at) {
    memmove(d->pending.at, d->pending.at + at, n - at);
    d->pending.n = n - at;
  }
}

static weft_status decode(wf_detokenizer *d, int32_t id, wf_buf *out, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_decode_token(d->t, id, !d->started, &d->pending, &d->scratch, err));
  d->started = true;
  give_whole(d, out);
  return out->failed ? wf_fail_memory(err, d->pending.n, "decoded text") : WEFT_OK;
}

weft_status wf_detokenizer_feed(wf_detokenizer *d, int32_t id, wf_buf *out, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_check_id(d->t, id, err));
  if (d->skip_special && wf_tokenizer_is_special(d->t, id)) return WEFT_OK;
  if (!d->looks_ahead) return decode(d, id, out, err);
  const int32_t before = d->held;
  d->held = id;
  return before < 0 ? WEFT_OK : decode(d, before, out, err);
}

weft_status wf_detokenizer_finish(wf_detokenizer *d, wf_buf *out, weft_error *err) {
  if (d->held >= 0) {
    const int32_t last = d->held;
    d->held = -1;
    wf_buf whole = {0};
    /* The last token alone, as the whole decoder treats a last one. */
    weft_status st = wf_tokenizer_decode(d->t, &last, 1, false, &whole, err);
    if (st == WEFT_OK) {
      wf_buf_add(&d->pending, whole.at, whole.n);
      give_whole(d, out);
    }
    wf_buf_deinit(&whole);
    if (st != WEFT_OK) return st;
  }
  d->pending.n = 0; /* a character that was cut off */
  d->n_stop_held = 0;
  return out->failed ? wf_fail_memory(err, out->n, "decoded text") : WEFT_OK;
}
