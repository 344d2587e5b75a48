/* SPDX-License-Identifier: Apache-2.0 */
/* Stop texts over a stream: a Knuth-Morris-Pratt automaton for each text. What is held back is the
 * longest tail that is still the beginning of some stop text. */
#include <string.h>

#include "base/mem.h"
#include "decode/decode.h"

typedef struct pattern {
  char *text;
  size_t n;
  size_t *border; /* border[i]: longest proper border of text[0..i) */
  size_t state;   /* bytes of the text that the stream ends with */
} pattern;

struct wf_stops {
  pattern *patterns;
  size_t n;
  wf_buf held;
  bool has_stopped;
};

static void fill_borders(pattern *p) {
  size_t k = 0;
  p->border[0] = 0;
  if (p->n) p->border[1] = 0;
  for (size_t i = 1; i < p->n; i++) {
    while (k > 0 && p->text[i] != p->text[k]) k = p->border[k];
    if (p->text[i] == p->text[k]) k++;
    p->border[i + 1] = k;
  }
}

weft_status wf_stops_create(wf_stops **result, const char *const *texts, size_t n,
                            weft_error *err) {
  weft_status st = WEFT_OK;
  wf_stops *s = wf_zalloc(sizeof *s);
  if (!s) return wf_fail_memory(err, sizeof *s, "stop texts");
  s->patterns = wf_calloc(n ? n : 1, sizeof *s->patterns);
  if (!s->patterns) {
    st = wf_fail_memory(err, n * sizeof *s->patterns, "stop texts");
    goto out;
  }
  for (size_t i = 0; i < n; i++) {
    pattern *p = &s->patterns[s->n++];
    p->n = strlen(texts[i]);
    if (p->n == 0) {
      st = wf_fail(err, WEFT_INVALID_ARGUMENT, "leave it out", "stop text %zu is empty", i);
      goto out;
    }
    p->text = wf_alloc(p->n);
    p->border = wf_calloc(p->n + 1, sizeof *p->border);
    if (!p->text || !p->border) {
      st = wf_fail_memory(err, p->n, "a stop text");
      goto out;
    }
    memcpy(p->text, texts[i], p->n);
    fill_borders(p);
  }
  *result = s;
  s = NULL;
out:
  wf_stops_destroy(s);
  return st;
}

void wf_stops_destroy(wf_stops *s) {
  if (!s) return;
  for (size_t i = 0; i < s->n; i++) {
    wf_free(s->patterns[i].text);
    wf_free(s->patterns[i].border);
  }
  wf_free(s->patterns);
  wf_buf_deinit(&s->held);
  wf_free(s);
}

void wf_stops_reset(wf_stops *s) {
  for (size_t i = 0; i < s->n; i++) s->patterns[i].state = 0;
  wf_buf_clear(&s->held);
  s->has_stopped = false;
}

/* One byte more; returns the length of the longest stop text that ends with it, 0 if none does. */
static size_t advance(wf_stops *s, char c) {
  size_t longest = 0;
  for (size_t i = 0; i < s->n; i++) {
    pattern *p = &s->patterns[i];
    while (p->state > 0 && (p->state == p->n || p->text[p->state] != c))
      p->state = p->border[p->state];
    if (p->text[p->state] == c) p->state++;
    if (p->state == p->n && p->n > longest) longest = p->n;
  }
  return longest;
}

weft_status wf_stops_feed(wf_stops *s, wf_str text, wf_buf *out, bool *stopped, weft_error *err) {
  *stopped = s->has_stopped;
  if (s->has_stopped || text.n == 0) return WEFT_OK;
  if (s->n == 0) {
    wf_buf_add_str(out, text);
    return out->failed ? wf_fail_memory(err, text.n, "text") : WEFT_OK;
  }
  const size_t n_before = s->held.n;
  wf_buf_add_str(&s->held, text);
  size_t deliver = 0;
  for (size_t i = 0; i < text.n && !s->has_stopped; i++) {
    const size_t n = advance(s, text.at[i]);
    if (n == 0) continue;
    s->has_stopped = true;
    deliver = n_before + i + 1 - n; /* all of it is still held: a beginning never leaves early */
  }
  if (!s->has_stopped) {
    size_t hold = 0;
    for (size_t i = 0; i < s->n; i++)
      hold = s->patterns[i].state > hold ? s->patterns[i].state : hold;
    deliver = s->held.n - hold;
  }
  wf_buf_add(out, s->held.at, deliver);
  if (s->held.failed || out->failed) return wf_fail_memory(err, text.n, "text");
  memmove(s->held.at, s->held.at + deliver, s->held.n - deliver);
  s->held.n -= deliver;
  *stopped = s->has_stopped;
  return WEFT_OK;
}

weft_status wf_stops_finish(wf_stops *s, wf_buf *out, weft_error *err) {
  if (!s->has_stopped) wf_buf_add(out, s->held.at, s->held.n);
  wf_buf_clear(&s->held);
  return out->failed ? wf_fail_memory(err, 0, "text") : WEFT_OK;
}
