/* SPDX-License-Identifier: Apache-2.0 */
/* Regular expressions of tokenizer files. They are written for Oniguruma's Ruby syntax, which
 * differs from PCRE2 in what \w, \s, \h, (?m) and nested classes mean, so each is translated first.
 * Expressions come from strangers' files: nesting and length are bounded, and so is matching.
 * PCRE2's own limit is for one match, of which a text has many, and compiled code counts no step of
 * a plain repeat (`[xw]*x[xw]*x[xw]*[yz]` ran for hours on a long text of x). So each item of an
 * expression calls back, and the calls of a whole text are counted. Measured on code and prose with
 * the split expression of o200k: 33 MB/s instead of 48, against 10 without compiled code. */
#include "base/utf8.h"
#include "text/tokenizer_internal.h"

#define PATTERN_LIMIT 65536
#define NESTING_LIMIT 64

/* Oniguruma's Unicode classes, spelled so that they fit inside a bracket as well as alone. */
#define WORD_SET "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
/* Outside a class it looks Latin-1 up in another table, where the small digits and fractions are
 * word characters too. */
#define WORD_SET_ALONE WORD_SET "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
#define SPACE_SET "\\p{White_Space}"
#define HEX_SET "0-9A-Fa-f"

typedef struct translator {
  wf_str in;
  size_t at;
  wf_buf *out;
  const char *path;
  int depth;
  weft_error *err;
} translator;

static weft_status bad(translator *t, const char *what) {
  /* The pattern is a view into the file, not a terminated string. */
  const int shown = (int)(t->in.n < 150 ? t->in.n : 150);
  return wf_fail(t->err, WEFT_TOKENIZER, "use a tokenizer whose expressions Oniguruma accepts",
                 "%s: the regular expression '%.*s' is wrong at byte %zu: %s", t->path, shown,
                 t->in.at ? t->in.at : "", t->at, what);
}

static bool looking_at(const translator *t, const char *s) {
  const size_t n = strlen(s);
  return t->in.n - t->at >= n && memcmp(t->in.at + t->at, s, n) == 0;
}

/* \p{...}: Oniguruma takes long category names and ^ where PCRE2 wants short ones. */
static weft_status translate_property(translator *t, wf_buf *out) {
  static const struct {
    const char *name, *pcre2;
  } names[] = {{"letter", "L"},
               {"mark", "M"},
               {"number", "N"},
               {"punctuation", "P"},
               {"symbol", "S"},
               {"separator", "Z"},
               {"other", "C"},
               {"uppercaseletter", "Lu"},
               {"lowercaseletter", "Ll"},
               {"titlecaseletter", "Lt"},
               {"modifierletter", "Lm"},
               {"otherletter", "Lo"},
               {"nonspacingmark", "Mn"},
               {"spacingmark", "Mc"},
               {"enclosingmark", "Me"},
               {"decimalnumber", "Nd"},
               {"letternumber", "Nl"},
               {"othernumber", "No"},
               {"connectorpunctuation", "Pc"},
               {"dashpunctuation", "Pd"},
               {"openpunctuation", "Ps"},
               {"closepunctuation", "Pe"},
               {"initialpunctuation", "Pi"},
               {"finalpunctuation", "Pf"},
               {"otherpunctuation", "Po"},
               {"mathsymbol", "Sm"},
               {"currencysymbol", "Sc"},
               {"modifiersymbol", "Sk"},
               {"othersymbol", "So"},
               {"spaceseparator", "Zs"},
               {"lineseparator", "Zl"},
               {"paragraphseparator", "Zp"},
               {"control", "Cc"},
               {"format", "Cf"},
               {"surrogate", "Cs"},
               {"privateuse", "Co"},
               {"unassigned", "Cn"},
               {"alpha", "Alphabetic"},
               {"digit", "Nd"},
               {"space", "White_Space"},
               {"upper", "Uppercase"},
               {"lower", "Lowercase"},
               {"punct", "P"}};
  bool negated = t->in.at[t->at + 1] == 'P';
  t->at += 2;
  wf_str name;
  if (t->at < t->in.n && t->in.at[t->at] == '{') {
    const size_t close = wf_str_find(t->in, WF_STR("}"), t->at);
    if (close == SIZE_MAX || close - t->at > 64) return bad(t, "\\p{ is never closed");
    name = (wf_str){t->in.at + t->at + 1, close - t->at - 1};
    t->at = close + 1;
  } else if (t->at < t->in.n) {
    name = (wf_str){t->in.at + t->at, 1};
    t->at++;
  } else {
    return bad(t, "\\p needs a property");
  }
  if (name.n && name.at[0] == '^') {
    negated = !negated;
    name = (wf_str){name.at + 1, name.n - 1};
  }
  char plain[65];
  size_t n = 0;
  for (size_t i = 0; i < name.n; i++) {
    char c = name.at[i];
    if (c == ' ' || c == '_' || c == '-') continue;
    if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
    plain[n++] = c;
  }
  plain[n] = '\0';
  wf_buf_puts(out, negated ? "\\P{" : "\\p{");
  for (size_t i = 0; i < WF_ARRAY_LEN(names); i++) {
    if (strcmp(names[i].name, plain) == 0) {
      wf_buf_puts(out, names[i].pcre2);
      wf_buf_putc(out, '}');
      return WEFT_OK;
    }
  }
  wf_buf_add_str(out, name);
  wf_buf_putc(out, '}');
  return WEFT_OK;
}

/* An escape outside or inside a class. A set that cannot stand in a bracket (a negated one) goes to
 * `*alone` as a whole expression when `in_class`. */
static weft_status translate_escape(translator *t, wf_buf *out, bool in_class, bool *alone) {
  *alone = false;
  if (t->at + 1 >= t->in.n) return bad(t, "a backslash ends it");
  const char c = t->in.at[t->at + 1];
  const char *set = NULL;
  switch (c) {
    case 'p':
    case 'P':
      return translate_property(t, out);
    case 'w':
    case 'W':
      set = in_class ? WORD_SET : WORD_SET_ALONE;
      break;
    case 's':
    case 'S':
      set = SPACE_SET;
      break;
    case 'd':
    case 'D':
      set = "\\p{Nd}";
      break;
    case 'h':
    case 'H':
      set = HEX_SET;
      break;
    case 'u':
      if (t->in.n - t->at < 6) return bad(t, "\\u needs four hexadecimal digits");
      wf_buf_puts(out, "\\x{");
      wf_buf_add(out, t->in.at + t->at + 2, 4);
      wf_buf_putc(out, '}');
      t->at += 6;
      return WEFT_OK;
    case 'Q': /* plain letters in Ruby's syntax; PCRE2 would quote what follows */
    case 'E':
      wf_buf_putc(out, c);
      t->at += 2;
      return WEFT_OK;
    default: {
      uint32_t cp;
      const size_t n = wf_char_at(t->in.at + t->at + 1, t->in.n - t->at - 1, &cp);
      wf_buf_putc(out, '\\');
      /* A backslash before a letter of another script means nothing; PCRE2 would object. */
      if (n > 1) out->n--;
      wf_buf_add(out, t->in.at + t->at + 1, n);
      t->at += 1 + n;
      return WEFT_OK;
    }
  }
  t->at += 2;
  const bool negated = c >= 'A' && c <= 'Z';
  *alone = in_class && negated;
  if (in_class && !negated) {
    wf_buf_puts(out, set);
  } else {
    wf_buf_puts(out, negated ? "[^" : "[");
    wf_buf_puts(out, set);
    wf_buf_putc(out, ']');
  }
  return WEFT_OK;
}

static void add_alternative(wf_buf *all, const wf_buf *one) {
  if (all->n) wf_buf_putc(all, '|');
  wf_buf_add(all, one->at, one->n);
}

static weft_status translate_class(translator *t, wf_buf *out);

/* One operand of && or the whole class: simple items in one bracket, the rest as alternatives. */
static weft_status translate_operand(translator *t, wf_buf *out, bool at_start) {
  weft_status st = WEFT_OK;
  wf_buf items = {0}, others = {0}, one = {0};
  bool first = at_start;
  for (;;) {
    if (t->at >= t->in.n) {
      st = bad(t, "a class is never closed");
      goto out;
    }
    const char c = t->in.at[t->at];
    if ((c == ']' && !first) || looking_at(t, "&&")) break;
    first = false;
    if (c == '[' && looking_at(t, "[:")) {
      const size_t close = wf_str_find(t->in, WF_STR(":]"), t->at);
      if (close != SIZE_MAX && close - t->at < 16) {
        wf_buf_add(&items, t->in.at + t->at, close + 2 - t->at);
        t->at = close + 2;
        continue;
      }
    }
    if (c == '[') {
      wf_buf_clear(&one);
      WF_TRY(translate_class(t, &one));
      add_alternative(&others, &one);
    } else if (c == '\\') {
      bool alone;
      wf_buf_clear(&one);
      WF_TRY(translate_escape(t, &one, true, &alone));
      if (alone) {
        add_alternative(&others, &one);
      } else {
        wf_buf_add(&items, one.at, one.n);
      }
    } else {
      /* '[' cannot come here; ']' as the first item is a plain one in both syntaxes. */
      if (c == ']') wf_buf_putc(&items, '\\');
      wf_buf_putc(&items, c);
      t->at++;
    }
  }
  if (others.n == 0) {
    if (items.n == 0) {
      st = bad(t, "a class is empty");
      goto out;
    }
    wf_buf_putc(out, '[');
    /* "^" at the front was taken as negation already; a second one is plain. */
    if (items.at[0] == '^') wf_buf_putc(out, '\\');
    wf_buf_add(out, items.at, items.n);
    wf_buf_putc(out, ']');
  } else {
    wf_buf_puts(out, "(?:");
    if (items.n) {
      wf_buf_putc(out, '[');
      if (items.at[0] == '^') wf_buf_putc(out, '\\');
      wf_buf_add(out, items.at, items.n);
      wf_buf_puts(out, "]|");
    }
    wf_buf_add(out, others.at, others.n);
    wf_buf_putc(out, ')');
  }
out:
  wf_buf_deinit(&items);
  wf_buf_deinit(&others);
  wf_buf_deinit(&one);
  return st;
}

/* A class from its '[' on: [a&&b] becomes (?=a)b, [^x] with parts that need it (?!x). */
static weft_status translate_class(translator *t, wf_buf *out) {
  weft_status st = WEFT_OK;
  wf_buf operand = {0}, left = {0};
  size_t n_operands = 0;
  if (++t->depth > NESTING_LIMIT) return bad(t, "it nests too deep");
  t->at++;
  bool negated = false;
  if (t->at < t->in.n && t->in.at[t->at] == '^') {
    negated = true;
    t->at++;
  }
  for (;;) {
    wf_buf_clear(&operand);
    WF_TRY(translate_operand(t, &operand, n_operands == 0));
    n_operands++;
    if (looking_at(t, "&&")) {
      t->at += 2;
      wf_buf_puts(&left, "(?=");
      wf_buf_add(&left, operand.at, operand.n);
      wf_buf_putc(&left, ')');
      continue;
    }
    t->at++; /* ']' */
    break;
  }
  if (!negated) {
    if (left.n) wf_buf_puts(out, "(?:");
    wf_buf_add(out, left.at, left.n);
    wf_buf_add(out, operand.at, operand.n);
    if (left.n) wf_buf_putc(out, ')');
  } else if (left.n == 0 && operand.n && operand.at[0] == '[') {
    wf_buf_puts(out, "[^");
    wf_buf_add(out, operand.at + 1, operand.n - 1);
  } else {
    wf_buf_puts(out, "(?:(?!");
    wf_buf_add(out, left.at, left.n);
    wf_buf_add(out, operand.at, operand.n);
    wf_buf_puts(out, ")(?s:.))");
  }
out:
  t->depth--;
  wf_buf_deinit(&operand);
  wf_buf_deinit(&left);
  return st;
}

/* The options of a group "(?imx-imx": Ruby's m is what Perl calls s. Called at "(?". */
static void translate_group(translator *t, wf_buf *out) {
  size_t end = t->at + 2;
  while (end < t->in.n && t->in.at[end] && strchr("imx-", t->in.at[end])) end++;
  wf_buf_puts(out, "(?");
  if (end > t->at + 2 && end < t->in.n && (t->in.at[end] == ')' || t->in.at[end] == ':')) {
    for (size_t i = t->at + 2; i < end; i++) {
      wf_buf_putc(out, t->in.at[i] == 'm' ? 's' : t->in.at[i]);
    }
    t->at = end;
  } else {
    t->at += 2;
  }
}

weft_status wf_regex_translate(wf_str pattern, wf_buf *out, const char *path, weft_error *err) {
  translator t = {.in = pattern, .out = out, .path = path, .err = err};
  if (pattern.n > PATTERN_LIMIT) return bad(&t, "it is longer than 65536 bytes");
  while (t.at < pattern.n) {
    const char c = pattern.at[t.at];
    if (c == '\\') {
      bool alone;
      WF_RETURN_IF_ERROR(translate_escape(&t, out, false, &alone));
    } else if (c == '[') {
      WF_RETURN_IF_ERROR(translate_class(&t, out));
    } else if (looking_at(&t, "(?#")) {
      const size_t close = wf_str_find(pattern, WF_STR(")"), t.at);
      if (close == SIZE_MAX) return bad(&t, "a comment is never closed");
      t.at = close + 1;
    } else if (looking_at(&t, "(?")) {
      translate_group(&t, out);
    } else if (c == '(' && t.at + 1 < pattern.n && pattern.at[t.at + 1] == '*') {
      return bad(&t, "nothing to repeat"); /* would be a PCRE2 verb */
    } else {
      wf_buf_putc(out, c);
      t.at++;
    }
  }
  return out->failed ? wf_fail_memory(err, pattern.n, "a regular expression") : WEFT_OK;
}

/* The expressions worth a scanner of their own, as the models' files spell them. */
static wf_scan_kind known_kind(wf_str p) {
  static const struct {
    wf_scan_kind kind;
    const char *text;
  } known[] = {
      {WF_SCAN_GPT2,
       "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
      {WF_SCAN_LLAMA3,
       "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
       "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
      {WF_SCAN_QWEN2,
       "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
       "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}};
  for (size_t i = 0; i < WF_ARRAY_LEN(known); i++) {
    if (wf_str_is(p, known[i].text)) return known[i].kind;
  }
  return WF_SCAN_PCRE2;
}

weft_status wf_regex_compile(wf_regex **result, wf_str pattern, const char *path, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_buf text = {0};
  wf_regex *r = wf_zalloc(sizeof *r);
  if (!r) {
    st = wf_fail_memory(err, sizeof *r, "a regular expression");
    goto out;
  }
  r->kind = known_kind(pattern);
  if (r->kind == WF_SCAN_PCRE2) {
    WF_TRY(wf_regex_translate(pattern, &text, path, err));
    int code;
    PCRE2_SIZE at;
    /* Ruby's ^ and $ always mean lines. */
    r->code = pcre2_compile((PCRE2_SPTR)wf_buf_cstr(&text), text.n,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C |
                                PCRE2_NO_UTF_CHECK | PCRE2_AUTO_CALLOUT,
                            &code, &at, NULL);
    if (!r->code) {
      char why[128];
      (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
      st = wf_fail(err, WEFT_TOKENIZER, "use a tokenizer whose expressions Oniguruma accepts",
                   "%s: the regular expression '%.150s' cannot be read: %s", path,
                   text.at ? text.at : "", why);
      goto out;
    }
    /* Where the system forbids making code at run time the interpreter does the same work. */
    (void)pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE);
  }
  *result = r;
  r = NULL;
out:
  wf_buf_deinit(&text);
  wf_regex_destroy(r);
  return st;
}

weft_status wf_regex_literal(wf_regex **result, wf_str text, weft_error *err) {
  wf_regex *r = wf_zalloc(sizeof *r);
  if (!r) return wf_fail_memory(err, sizeof *r, "a pattern");
  r->kind = WF_SCAN_LITERAL;
  r->n_literal = text.n;
  r->literal = wf_alloc(text.n + 1);
  if (!r->literal) {
    wf_free(r);
    return wf_fail_memory(err, text.n, "a pattern");
  }
  if (text.n) memcpy(r->literal, text.at, text.n);
  *result = r;
  return WEFT_OK;
}

void wf_regex_destroy(wf_regex *r) {
  if (!r) return;
  wf_free(r->literal);
  pcre2_code_free(r->code);
  wf_free(r);
}

void wf_regex_scratch_deinit(wf_regex_scratch *s) {
  pcre2_match_data_free(s->data);
  pcre2_match_context_free(s->context);
  pcre2_jit_stack_free(s->stack);
  *s = (wf_regex_scratch){0};
}

static bool push_match(wf_matches *out, size_t *last, size_t begin, size_t end) {
  if (begin > *last) {
    const wf_match gap = {(uint32_t)*last, (uint32_t)begin, false};
    if (!wf_vec_push(out, gap)) return false;
  }
  const wf_match hit = {(uint32_t)begin, (uint32_t)end, true};
  *last = end;
  return wf_vec_push(out, hit);
}

static weft_status no_memory(weft_error *err) {
  return wf_fail_memory(err, sizeof(wf_match), "the pieces of a text");
}

#define WORK_AT_LEAST (UINT64_C(1) << 26) /* about a third of a second */
#define WORK_PER_BYTE 32                  /* split expressions of real models need 2 to 5 */

/* Between two calls lies at most one plain repeat, whose length the distance tells. */
static int count_work(pcre2_callout_block *b, void *user) {
  wf_regex_scratch *s = user;
  const size_t at = b->current_position;
  const size_t distance = at > s->last_at ? at - s->last_at : s->last_at - at;
  s->last_at = at;
  s->work += 1 + distance / 32;
  return s->work > s->work_limit ? PCRE2_ERROR_MATCHLIMIT : 0;
}

static weft_status prepare(wf_regex_scratch *s, size_t n, weft_error *err) {
  s->work_limit += WORK_PER_BYTE * (uint64_t)n;
  if (s->data) return WEFT_OK;
  s->work_limit += WORK_AT_LEAST;
  s->data = pcre2_match_data_create(1, NULL);
  s->context = pcre2_match_context_create(NULL);
  /* The JIT's own 32 KiB are too few for a long run inside a repeated group. */
  s->stack = pcre2_jit_stack_create(32768, (size_t)8 << 20, NULL);
  if (!s->data || !s->context || !s->stack) return wf_fail_memory(err, 32768, "a regex match");
  pcre2_jit_stack_assign(s->context, NULL, s->stack);
  (void)pcre2_set_heap_limit(s->context, 64 * 1024);
  (void)pcre2_set_callout(s->context, count_work, s);
  return WEFT_OK;
}

static weft_status find_pcre2(const wf_regex *r, wf_regex_scratch *s, const char *text, size_t n,
                              wf_matches *out, size_t *last, weft_error *err) {
  WF_RETURN_IF_ERROR(prepare(s, n, err));
  size_t at = 0;
  size_t last_match = SIZE_MAX;
  while (at <= n) {
    const int rc =
        pcre2_match(r->code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK, s->data, s->context);
    if (rc == PCRE2_ERROR_NOMATCH) return WEFT_OK;
    if (rc < 0) {
      char why[128];
      (void)pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
      return wf_fail(err, WEFT_LIMIT, "shorten the text or use another tokenizer",
                     "a regular expression of the tokenizer gave up on this text: %s", why);
    }
    const PCRE2_SIZE *v = pcre2_get_ovector_pointer(s->data);
    size_t begin = v[0];
    const size_t end = v[1];
    if (begin > end) begin = end; /* \K inside a look-ahead */
    if (begin == end && begin == last_match) {
      /* An empty match just after a match does not count, else this would never end. */
      if (at >= n) return WEFT_OK;
      uint32_t cp;
      at += wf_char_at(text + at, n - at, &cp);
      continue;
    }
    if (begin >= *last && !push_match(out, last, begin, end)) return no_memory(err);
    at = last_match = end;
  }
  return WEFT_OK;
}

weft_status wf_regex_find(const wf_regex *r, wf_regex_scratch *s, const char *text, size_t n,
                          wf_matches *out, weft_error *err) {
  out->n = 0;
  if (n == 0) return WEFT_OK;
  size_t last = 0;
  if (r->kind == WF_SCAN_PCRE2) {
    WF_RETURN_IF_ERROR(find_pcre2(r, s, text, n, out, &last, err));
  } else if (r->kind == WF_SCAN_LITERAL) {
    if (r->n_literal == 0) {
      /* An empty pattern matches before every character and at the end. */
      for (size_t at = 0; at < n;) {
        uint32_t cp;
        if (!push_match(out, &last, at, at)) return no_memory(err);
        at += wf_char_at(text + at, n - at, &cp);
      }
      if (!push_match(out, &last, n, n)) return no_memory(err);
      return WEFT_OK;
    }
    const wf_str hay = {text, n}, needle = {r->literal, r->n_literal};
    for (size_t at = 0; (at = wf_str_find(hay, needle, at)) != SIZE_MAX; at += needle.n) {
      if (!push_match(out, &last, at, at + needle.n)) return no_memory(err);
    }
  } else {
    for (size_t at = 0; at < n;) {
      const size_t end = wf_scan_next(r->kind, text, n, at);
      if (!push_match(out, &last, at, end)) return no_memory(err);
      at = end;
    }
  }
  if (last < n) {
    const wf_match tail = {(uint32_t)last, (uint32_t)n, false};
    if (!wf_vec_push(out, tail)) return no_memory(err);
  }
  return WEFT_OK;
}
