/* SPDX-License-Identifier: Apache-2.0 */
/* The split expressions of GPT-2, Llama 3 and Qwen 2, by hand: several times faster than a regex
 * engine and linear by construction. Each function spells one alternative of the expression, tried
 * in the expression's order; the tests hold the scanners against PCRE2 on random text. */
#include <utf8proc.h>

#include "text/tokenizer_internal.h"

enum { OTHER, LETTER, NUMBER, SPACE, CLASS_END };

typedef struct scan {
  const char *s;
  size_t n;
} scan;

static int class_of(uint32_t cp) {
  if (cp < 0x80) {
    if ((cp | 0x20) >= 'a' && (cp | 0x20) <= 'z') return LETTER;
    if (cp >= '0' && cp <= '9') return NUMBER;
    return wf_char_is_space(cp) ? SPACE : OTHER;
  }
  if (wf_char_is_space(cp)) return SPACE;
  const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
  if (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO) return LETTER;
  if (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO) return NUMBER;
  return OTHER;
}

/* Class of the character at `at`, its length in *used; CLASS_END at the end. */
static int class_at(const scan *x, size_t at, size_t *used) {
  *used = 0;
  if (at >= x->n) return CLASS_END;
  uint32_t cp;
  *used = wf_char_at(x->s + at, x->n - at, &cp);
  return class_of(cp);
}

static size_t run(const scan *x, size_t at, int class, size_t at_most) {
  size_t used;
  while (at_most-- && class_at(x, at, &used) == class) at += used;
  return at;
}

/* After an apostrophe: the length of s, t, re, ve, m, ll or d there, 0 for none. */
static size_t contraction(const scan *x, size_t at, bool any_case) {
  if (at >= x->n) return 0;
  const char *p = x->s + at;
  const size_t left = x->n - at;
  /* The long s folds to s, as every engine with Unicode case folding has it. */
  if (any_case && left >= 2 && memcmp(p, "\xc5\xbf", 2) == 0) return 2;
  const char fold = any_case ? 0x20 : 0;
  const char a = (char)(p[0] | fold), b = left > 1 ? (char)(p[1] | fold) : '\0';
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 1;
  if ((a == 'r' || a == 'v') && b == 'e') return 2;
  return a == 'l' && b == 'l' ? 2 : 0;
}

/* White space from `at` on, which is white space: the alternatives \s*[\r\n]+ (if `lines`),
 * \s+(?!\S), \s+. */
static size_t space(const scan *x, size_t at, bool lines) {
  size_t end = at, last = at, after_line = 0, used;
  while (class_at(x, end, &used) == SPACE) {
    last = end;
    end += used;
    if (x->s[last] == '\n' || x->s[last] == '\r') after_line = end;
  }
  if (lines && after_line) return after_line;
  return end == x->n || last == at ? end : last;
}

static size_t scan_gpt2(const scan *x, size_t at) {
  if (x->s[at] == '\'') {
    const size_t n = contraction(x, at + 1, false);
    if (n) return at + 1 + n;
  }
  size_t used;
  size_t from = at;
  int class = class_at(x, at, &used);
  if (x->s[at] == ' ') {
    const int next = class_at(x, at + 1, &used);
    if (next == CLASS_END || next == SPACE) return space(x, at, false);
    class = next;
    from = at + 1;
  }
  if (class == SPACE) return space(x, at, false);
  return run(x, from, class, SIZE_MAX);
}

static size_t scan_llama3(const scan *x, size_t at, size_t n_numbers) {
  const char c = x->s[at];
  if (c == '\'') {
    const size_t n = contraction(x, at + 1, true);
    if (n) return at + 1 + n;
  }
  size_t used, next_used;
  const int class = class_at(x, at, &used);
  if (class == LETTER) return run(x, at, LETTER, SIZE_MAX);
  if (class == NUMBER) return run(x, at, NUMBER, n_numbers);
  const int next = class_at(x, at + used, &next_used);
  if (next == LETTER && c != '\r' && c != '\n') return run(x, at + used, LETTER, SIZE_MAX);
  if (class == OTHER || (c == ' ' && next == OTHER)) {
    size_t end = run(x, class == OTHER ? at : at + 1, OTHER, SIZE_MAX);
    while (end < x->n && (x->s[end] == '\r' || x->s[end] == '\n')) end++;
    return end;
  }
  return space(x, at, true);
}

size_t wf_scan_next(wf_scan_kind kind, const char *s, size_t n, size_t at) {
  const scan x = {s, n};
  if (kind == WF_SCAN_GPT2) return scan_gpt2(&x, at);
  return scan_llama3(&x, at, kind == WF_SCAN_LLAMA3 ? 3 : 1);
}
