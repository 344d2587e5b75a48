/* SPDX-License-Identifier: Apache-2.0 */
/* Normalisers: each rewrites the text pieces of a document into a new one. */
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/tokenizer_internal.h"

/* The canonical composition of a and b; 0 when there is none. */
static uint32_t compose_pair(uint32_t a, uint32_t b) {
  /* Hangul by arithmetic (Unicode standard, 3.12). */
  if (a >= 0x1100 && a < 0x1113 && b >= 0x1161 && b < 0x1176) {
    return 0xac00 + ((a - 0x1100) * 21 + (b - 0x1161)) * 28;
  }
  if (a >= 0xac00 && a < 0xd7a4 && (a - 0xac00) % 28 == 0 && b > 0x11a7 && b < 0x11c3) {
    return a + (b - 0x11a7);
  }
  if (b < 0x300) return 0;
  utf8proc_int32_t pair[2] = {(utf8proc_int32_t)a, (utf8proc_int32_t)b};
  const utf8proc_ssize_t n = utf8proc_normalize_utf32(pair, 2, UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  return n == 1 ? (uint32_t)pair[0] : 0;
}

static uint8_t combining_class(uint32_t cp) {
  if (cp < 0x300) return 0;
  return (uint8_t)utf8proc_get_property((utf8proc_int32_t)cp)->combining_class;
}

/* Canonical order: a stable sort of each run of marks by class. */
static void sort_marks(wf_norm_char *a, size_t n, wf_norm_char *spare) {
  for (size_t i = 0; i < n;) {
    if (a[i].ccc == 0) {
      i++;
      continue;
    }
    size_t end = i;
    while (end < n && a[end].ccc) end++;
    const size_t len = end - i;
    if (len > 1) {
      /* Counting by class: stable and linear. */
      size_t count[257] = {0};
      for (size_t k = i; k < end; k++) count[a[k].ccc + 1]++;
      for (size_t k = 1; k < 257; k++) count[k] += count[k - 1];
      for (size_t k = i; k < end; k++) spare[count[a[k].ccc]++] = a[k];
      memcpy(a + i, spare, len * sizeof *a);
    }
    i = end;
  }
}

/* Composes a sorted decomposition in place; returns the new length. The change of a composed
 * character is the sum of its parts' less one for each part after the first. */
static size_t compose(wf_norm_char *a, size_t n) {
  size_t out = 0, starter = SIZE_MAX;
  uint8_t last_class = 0;
  for (size_t i = 0; i < n; i++) {
    const wf_norm_char x = a[i];
    if (starter != SIZE_MAX) {
      const bool adjacent = out == starter + 1;
      const bool blocked = !adjacent && last_class >= x.ccc;
      const uint32_t whole = blocked ? 0 : compose_pair(a[starter].cp, x.cp);
      if (whole) {
        a[starter].cp = whole;
        a[starter].change = (int16_t)(a[starter].change + x.change - 1);
        continue;
      }
    }
    a[out] = x;
    if (x.ccc == 0) starter = out;
    last_class = x.ccc;
    out++;
  }
  return out;
}

static bool is_simple(const wf_doc *d, const wf_piece *p) {
  for (uint32_t i = p->begin; i < p->end; i++) {
    if ((unsigned char)d->text.at[i] >= 0x80) return false;
  }
  return true;
}

/* Decomposes one character onto c->norm_in. */
static bool decompose(wf_call *c, uint32_t cp, bool compat) {
  utf8proc_int32_t parts[32];
  int boundary = 0;
  utf8proc_ssize_t n = utf8proc_decompose_char(
      (utf8proc_int32_t)cp, parts, 32,
      (utf8proc_option_t)(UTF8PROC_DECOMPOSE | (compat ? UTF8PROC_COMPAT : 0)), &boundary);
  if (n <= 0 || n > 32) {
    parts[0] = (utf8proc_int32_t)cp;
    n = 1;
  }
  if (!wf_vec_reserve(&c->norm_in, (size_t)n)) return false;
  for (utf8proc_ssize_t i = 0; i < n; i++) {
    c->norm_in.at[c->norm_in.n++] =
        (wf_norm_char){(uint32_t)parts[i], i > 0, combining_class((uint32_t)parts[i])};
  }
  return true;
}

void wf_norm_compose(wf_call *c, const wf_piece *p, wf_norm_kind kind) {
  if (is_simple(&c->doc, p)) {
    wf_doc_copy_piece(&c->doc, &c->next, *p);
    return;
  }
  const bool compat = kind == WF_NORM_NFKC || kind == WF_NORM_NFKD;
  const bool composes = kind == WF_NORM_NFC || kind == WF_NORM_NFKC;
  wf_rewrite w = wf_rewrite_begin(&c->doc, &c->next, *p);
  c->norm_in.n = 0;
  for (uint32_t at = p->begin; at < p->end;) {
    uint32_t cp;
    at += (uint32_t)wf_char_at(c->doc.text.at + at, p->end - at, &cp);
    if (!decompose(c, cp, compat)) c->next.failed = true;
  }
  size_t n = c->norm_in.n;
  c->norm_out.n = 0;
  if (c->next.failed || !wf_vec_reserve(&c->norm_out, n)) {
    c->next.failed = true;
    return;
  }
  sort_marks(c->norm_in.at, n, c->norm_out.at);
  if (composes) n = compose(c->norm_in.at, n);
  for (size_t i = 0; i < n; i++) {
    wf_rewrite_char(&w, c->norm_in.at[i].cp, c->norm_in.at[i].change);
  }
  wf_rewrite_end(&w);
}

/* What a per-character normaliser makes of one: kept as *cp, or dropped. */
typedef bool keep_fn(uint32_t *cp);

static bool keep_no_marks(uint32_t *cp) { return !wf_char_is_mark(*cp); }

static bool keep_no_accents(uint32_t *cp) {
  return *cp < 0x300 || utf8proc_category((utf8proc_int32_t)*cp) != UTF8PROC_CATEGORY_MN;
}

static bool keep_nmt(uint32_t *cp) {
  const uint32_t c = *cp;
  if ((c >= 1 && c <= 8) || c == 0x0b || (c >= 0x0e && c <= 0x1f) || c == 0x7f || c == 0x8f ||
      c == 0x9f) {
    return false;
  }
  if (c == 9 || c == 10 || c == 12 || c == 13 || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
      c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd) {
    *cp = ' ';
  }
  return true;
}

static bool keep_clean(uint32_t *cp) {
  const uint32_t c = *cp;
  if (c == '\t' || c == '\n' || c == '\r') {
    *cp = ' ';
    return true;
  }
  if (c == 0 || c == 0xfffd) return false;
  const utf8proc_category_t k = utf8proc_category((utf8proc_int32_t)c);
  if (k == UTF8PROC_CATEGORY_CC || k == UTF8PROC_CATEGORY_CF || k == UTF8PROC_CATEGORY_CS ||
      k == UTF8PROC_CATEGORY_CO) {
    return false;
  }
  if (wf_char_is_space(c)) *cp = ' ';
  return true;
}

/* Drops and maps single characters. A dropped one counts to the character kept before it, those at
 * the front to none. */
static void filter(wf_call *c, const wf_piece *p, keep_fn *keep) {
  wf_rewrite w = wf_rewrite_begin(&c->doc, &c->next, *p);
  bool have = false;
  uint32_t held = 0;
  size_t n_front = 0;
  int n_dropped = 0;
  for (uint32_t at = p->begin; at < p->end;) {
    uint32_t cp;
    at += (uint32_t)wf_char_at(c->doc.text.at + at, p->end - at, &cp);
    if (keep(&cp)) {
      if (have) {
        wf_rewrite_char(&w, held, -n_dropped);
      } else {
        wf_rewrite_drop(&w, n_front);
      }
      held = cp;
      have = true;
      n_dropped = 0;
    } else if (have) {
      n_dropped++;
    } else {
      n_front++;
    }
  }
  if (have) wf_rewrite_char(&w, held, -n_dropped);
  wf_rewrite_end(&w);
}

static void lowercase(wf_call *c, const wf_piece *p) {
  wf_rewrite w = wf_rewrite_begin(&c->doc, &c->next, *p);
  for (uint32_t at = p->begin; at < p->end;) {
    uint32_t cp;
    at += (uint32_t)wf_char_at(c->doc.text.at + at, p->end - at, &cp);
    if (cp == 0x130) { /* the one character whose lower case is two */
      wf_rewrite_char(&w, 'i', 0);
      wf_rewrite_char(&w, 0x307, 1);
    } else {
      wf_rewrite_char(&w, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp), 0);
    }
  }
  wf_rewrite_end(&w);
}

static void strip(wf_call *c, const wf_piece *p, bool left, bool right) {
  const char *s = c->doc.text.at;
  uint32_t begin = p->begin, end = p->end, cp;
  while (left && begin < end) {
    const uint32_t n = (uint32_t)wf_char_at(s + begin, end - begin, &cp);
    if (!wf_char_is_space(cp)) break;
    begin += n;
  }
  while (right && end > begin) {
    const uint32_t n = (uint32_t)wf_char_before(s + begin, end - begin, &cp);
    if (!wf_char_is_space(cp)) break;
    end -= n;
  }
  wf_rewrite w = wf_rewrite_begin(&c->doc, &c->next, *p);
  w.at = begin;
  wf_rewrite_copy(&w, end - begin);
  wf_rewrite_end(&w);
}

static void add_text(wf_rewrite *w, wf_str text, int first_change) {
  for (size_t at = 0; at < text.n && !w->to->failed;) {
    uint32_t cp;
    const bool first = at == 0;
    at += wf_char_at(text.at + at, text.n - at, &cp);
    wf_rewrite_char(w, cp, first ? first_change : 1);
  }
}

static void prepend(wf_call *c, const wf_piece *p, wf_str text) {
  wf_rewrite w = wf_rewrite_begin(&c->doc, &c->next, *p);
  if (text.n == 0) {
    wf_rewrite_copy(&w, p->end - p->begin);
    wf_rewrite_end(&w);
    return;
  }
  add_text(&w, text, 0);
  uint32_t cp;
  const uint32_t n = (uint32_t)wf_char_at(c->doc.text.at + p->begin, p->end - p->begin, &cp);
  wf_rewrite_char(&w, cp, 1);
  w.at = p->begin + n;
  wf_rewrite_copy(&w, p->end - w.at);
  wf_rewrite_end(&w);
}

static weft_status replace(wf_call *c, const wf_piece *p, const wf_norm *n, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_regex_find(n->regex, &c->regex, c->doc.text.at + p->begin,
                                   p->end - p->begin, &c->matches, err));
  wf_rewrite w = wf_rewrite_begin(&c->doc, &c->next, *p);
  for (size_t i = 0; i < c->matches.n && !c->next.failed; i++) {
    const wf_match m = c->matches.at[i];
    if (m.is_match) {
      w.at = p->begin + m.end;
      add_text(&w, n->content, 1);
    } else {
      wf_rewrite_copy(&w, m.end - m.begin);
    }
  }
  wf_rewrite_end(&w);
  return WEFT_OK;
}

static bool is_chinese(uint32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
         (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
         (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

static void space_chinese(wf_call *c, const wf_piece *p) {
  wf_rewrite w = wf_rewrite_begin(&c->doc, &c->next, *p);
  for (uint32_t at = p->begin; at < p->end;) {
    uint32_t cp;
    at += (uint32_t)wf_char_at(c->doc.text.at + at, p->end - at, &cp);
    const bool chinese = is_chinese(cp);
    if (chinese) wf_rewrite_char(&w, ' ', 1);
    wf_rewrite_char(&w, cp, 0);
    if (chinese) wf_rewrite_char(&w, ' ', 1);
  }
  wf_rewrite_end(&w);
}

static void byte_level(wf_call *c, const wf_piece *p) {
  wf_rewrite w = wf_rewrite_begin(&c->doc, &c->next, *p);
  for (uint32_t at = p->begin; at < p->end;) {
    uint32_t cp;
    const uint32_t n = (uint32_t)wf_char_at(c->doc.text.at + at, p->end - at, &cp);
    for (uint32_t i = 0; i < n; i++) {
      wf_rewrite_char(&w, wf_byte_to_char((unsigned char)c->doc.text.at[at + i]), i > 0);
    }
    at += n;
  }
  wf_rewrite_end(&w);
}

static bool charsmap_part(wf_rewrite *w, const wf_charsmap *m, const char *s, size_t n,
                          size_t n_chars) {
  wf_str to;
  size_t used;
  if (!wf_charsmap_lookup(m, s, n, &used, &to)) return false;
  int new_chars = 0;
  for (size_t at = 0; at < to.n; new_chars++) {
    uint32_t cp;
    at += wf_char_at(to.at + at, to.n - at, &cp);
  }
  size_t at = 0;
  for (int i = 0; at < to.n; i++) {
    uint32_t cp;
    at += wf_char_at(to.at + at, to.n - at, &cp);
    /* The reference's changes, odd as they are: they show in offsets alone. */
    wf_rewrite_char(w, cp, i == 0 ? new_chars - (int)n_chars : i);
  }
  return true;
}

/* Hugging Face's use of a SentencePiece character map: whole grapheme clusters below six bytes are
 * tried first, then their characters. */
static void precompiled(wf_call *c, const wf_piece *p, const wf_charsmap *m) {
  const char *s = c->doc.text.at;
  wf_rewrite w = wf_rewrite_begin(&c->doc, &c->next, *p);
  for (uint32_t at = p->begin; at < p->end;) {
    uint32_t end = at, n_chars = 0, cp, next;
    utf8proc_int32_t state = 0;
    end += (uint32_t)wf_char_at(s + end, p->end - end, &cp);
    n_chars = 1;
    while (end < p->end) {
      const uint32_t n = (uint32_t)wf_char_at(s + end, p->end - end, &next);
      if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)cp, (utf8proc_int32_t)next, &state)) {
        break;
      }
      end += n;
      cp = next;
      n_chars++;
    }
    if (end - at >= 6 || !charsmap_part(&w, m, s + at, end - at, n_chars)) {
      for (uint32_t i = at; i < end;) {
        const uint32_t n = (uint32_t)wf_char_at(s + i, end - i, &cp);
        if (!charsmap_part(&w, m, s + i, n, 1)) wf_rewrite_char(&w, cp, 0);
        i += n;
      }
    }
    at = end;
  }
  wf_rewrite_end(&w);
}

/* Trailing marks go, also those that were in the text as marks. */
static void drop_marks(wf_rewrite *w, uint32_t mark) {
  wf_doc *d = w->to;
  while (!d->failed && d->text.n > w->begin) {
    uint32_t cp;
    const size_t used = wf_char_before(d->text.at + w->begin, d->text.n - w->begin, &cp);
    if (cp != mark) break;
    d->text.n -= used;
    if (d->is_aligned) d->align.n = d->text.n;
  }
}

/* SentencePiece's own normaliser: longest prefixes of the character map, runs of spaces made one,
 * a space in front of the text, spaces written as U+2581. */
static void spm(wf_call *c, const wf_piece *p, const wf_norm *n) {
  const char *s = c->doc.text.at;
  const uint32_t mark = n->escape ? 0x2581 : ' ';
  wf_rewrite w = wf_rewrite_begin(&c->doc, &c->next, *p);
  bool space_before = n->remove_extra && p->origin == 0;
  bool started = false;
  size_t n_spaces = 0;
  for (uint32_t at = p->begin; at < p->end;) {
    wf_str to;
    size_t used;
    char one[4];
    if (!n->map.units || !wf_charsmap_lookup(&n->map, s + at, p->end - at, &used, &to)) {
      uint32_t cp;
      used = wf_char_at(s + at, p->end - at, &cp);
      memcpy(one, s + at, used);
      to = (wf_str){one, used};
    }
    for (size_t i = 0; i < to.n;) {
      uint32_t cp;
      i += wf_char_at(to.at + i, to.n - i, &cp);
      if (cp == ' ' && n->remove_extra) {
        /* Held back until something follows: trailing spaces vanish. */
        if (!space_before) n_spaces = 1;
        space_before = true;
        continue;
      }
      if (!started && n->add_prefix && p->origin == 0) wf_rewrite_char(&w, mark, 1);
      started = true;
      if (n_spaces) {
        wf_rewrite_char(&w, mark, 1);
        n_spaces = 0;
      }
      space_before = false;
      wf_rewrite_char(&w, cp == ' ' ? mark : cp, 1);
    }
    at += (uint32_t)used;
    w.at = at;
  }
  const bool is_last = c->next.pieces.n + 1 >= c->doc.pieces.n;
  /* A piece before an added token keeps its last space: more text follows. */
  if (n_spaces && !is_last) wf_rewrite_char(&w, mark, 1);
  if (n->remove_extra && is_last) drop_marks(&w, mark);
  wf_rewrite_end(&w);
}

static weft_status apply_piece(wf_call *c, const wf_norm *n, const wf_piece *p, weft_error *err) {
  switch (n->kind) {
    case WF_NORM_NFC:
    case WF_NORM_NFD:
    case WF_NORM_NFKC:
    case WF_NORM_NFKD:
      wf_norm_compose(c, p, n->kind);
      break;
    case WF_NORM_LOWERCASE:
      lowercase(c, p);
      break;
    case WF_NORM_STRIP:
      strip(c, p, n->left, n->right);
      break;
    case WF_NORM_STRIP_ACCENTS:
      filter(c, p, keep_no_marks);
      break;
    case WF_NORM_REPLACE:
      return replace(c, p, n, err);
    case WF_NORM_PREPEND:
      prepend(c, p, n->content);
      break;
    case WF_NORM_NMT:
      filter(c, p, keep_nmt);
      break;
    case WF_NORM_PRECOMPILED:
      precompiled(c, p, &n->map);
      break;
    case WF_NORM_BYTE_LEVEL:
      byte_level(c, p);
      break;
    case WF_NORM_SPM:
      spm(c, p, n);
      break;
    case WF_NORM_BERT:
      filter(c, p, keep_clean);
      break; /* its other steps: wf_norm_apply */
  }
  return WEFT_OK;
}

typedef void step_fn(wf_call *c, const wf_piece *p);
static void clean(wf_call *c, const wf_piece *p) { filter(c, p, keep_clean); }
static void decomposed(wf_call *c, const wf_piece *p) { wf_norm_compose(c, p, WF_NORM_NFD); }
static void no_accents(wf_call *c, const wf_piece *p) { filter(c, p, keep_no_accents); }

static weft_status apply_step(wf_call *c, step_fn *step, weft_error *err) {
  for (size_t i = 0; i < c->doc.pieces.n; i++) {
    const wf_piece p = c->doc.pieces.at[i];
    if (p.id >= 0) {
      wf_doc_copy_piece(&c->doc, &c->next, p);
    } else {
      step(c, &p);
    }
  }
  return wf_call_swap(c, err);
}

weft_status wf_norm_apply(wf_call *c, const wf_norm *n, weft_error *err) {
  if (n->kind == WF_NORM_BERT) {
    if (n->clean_text) WF_RETURN_IF_ERROR(apply_step(c, clean, err));
    if (n->chinese) WF_RETURN_IF_ERROR(apply_step(c, space_chinese, err));
    if (n->accents) {
      WF_RETURN_IF_ERROR(apply_step(c, decomposed, err));
      WF_RETURN_IF_ERROR(apply_step(c, no_accents, err));
    }
    return n->lower ? apply_step(c, lowercase, err) : WEFT_OK;
  }
  for (size_t i = 0; i < c->doc.pieces.n; i++) {
    const wf_piece p = c->doc.pieces.at[i];
    if (p.id >= 0) {
      wf_doc_copy_piece(&c->doc, &c->next, p);
    } else {
      WF_RETURN_IF_ERROR(apply_piece(c, n, &p, err));
    }
  }
  return wf_call_swap(c, err);
}
