/* SPDX-License-Identifier: Apache-2.0 */
/* Template source to tokens, with the whitespace rules of trim_blocks and lstrip_blocks.
 *
 * An error becomes the last token, because Jinja reads tokens as it parses: a syntax error further
 * up must be the one that is reported. */
#include "base/utf8.h"
#include "text/jinja.h"

typedef struct lexer {
  jj_compiler *c;
  const char *s;
  size_t n, at;
  uint32_t line;
  uint32_t chars;       /* of the line before counted_at */
  size_t counted_at;    /* line and chars are right for this offset */
  bool line_starting;   /* the last match ended with a newline */
  WF_VEC(char) closers; /* brackets that are open */
} lexer;

/* line and column of an offset; offsets only grow, so that each byte is counted once. */
static void place(lexer *l, size_t at, uint32_t *line, uint32_t *col) {
  for (; l->counted_at < at; l->counted_at++) {
    if (l->s[l->counted_at] == '\n') {
      l->line++;
      l->chars = 0;
    } else {
      l->chars += ((unsigned char)l->s[l->counted_at] & 0xc0) != 0x80;
    }
  }
  *line = l->line;
  *col = l->chars + 1;
}

static jj_token *add(lexer *l, jj_token_kind kind, size_t at) {
  jj_token t = {.kind = kind};
  place(l, at, &t.line, &t.col);
  if (!wf_vec_push(&l->c->tokens, t)) {
    wf_jj_no_memory(l->c);
    return NULL;
  }
  return &l->c->tokens.at[l->c->tokens.n - 1];
}

static bool fail(lexer *l, size_t at, const char *what) {
  jj_token *t = add(l, JJ_T_ERROR, at);
  if (!t) return false;
  t->text = wf_jj_literal(l->c, what, strlen(what));
  l->at = l->n;
  return t->text != NULL;
}

static size_t space_length(const lexer *l, size_t at) {
  uint32_t cp;
  const size_t n = wf_utf8_decode(l->s + at, l->n - at, &cp);
  return n && wf_jj_is_space(cp) ? n : 0;
}

static size_t skip_space(const lexer *l, size_t at) {
  for (size_t n; at < l->n && (n = space_length(l, at)) > 0;) at += n;
  return at;
}

static bool looks_at(const lexer *l, size_t at, const char *text) {
  const size_t n = strlen(text);
  return l->n - at >= n && memcmp(l->s + at, text, n) == 0;
}

/* Where trailing white space of [begin, end) starts. */
static size_t trimmed_end(const lexer *l, size_t begin, size_t end) {
  while (end > begin) {
    size_t from = end - 1;
    while (from > begin && ((unsigned char)l->s[from] & 0xc0) == 0x80) from--;
    if (!space_length(l, from)) break;
    end = from;
  }
  return end;
}

static size_t lstripped_end(const lexer *l, size_t begin, size_t end) {
  size_t from = end;
  while (from > begin && l->s[from - 1] != '\n') from--;
  if (from == begin && !l->line_starting) return end;
  return skip_space(l, from) >= end ? from : end;
}

static bool add_data(lexer *l, size_t begin, size_t end) {
  if (begin >= end) return true;
  jj_token *t = add(l, JJ_T_DATA, begin);
  if (!t) return false;
  t->text = wf_jj_literal(l->c, l->s + begin, end - begin);
  if (!t->text) return false;
  const wf_str literal = {t->text->at, t->text->n};
  return wf_vec_push(&l->c->literals, literal) || wf_jj_no_memory(l->c);
}

/* The text before a tag that begins at `tag` with control sign `sign`. */
static bool add_text(lexer *l, size_t begin, size_t tag, char sign, bool is_variable) {
  size_t end = tag;
  if (sign == '-') {
    end = trimmed_end(l, begin, tag);
  } else if (sign != '+' && !is_variable) {
    end = lstripped_end(l, begin, tag);
  }
  return add_data(l, begin, end);
}

/* After "%}" or "#}" at `at`: trim_blocks takes one newline, a '-' before takes all white space. */
static size_t end_of_tag(const lexer *l, size_t at, const char *close, bool trim_newline) {
  const size_t n = strlen(close);
  if (l->s[at] == '-' && looks_at(l, at + 1, close)) return skip_space(l, at + 1 + n);
  if (l->s[at] == '+' && trim_newline && looks_at(l, at + 1, close)) return at + 1 + n;
  if (looks_at(l, at, close)) {
    at += n;
    return trim_newline && at < l->n && l->s[at] == '\n' ? at + 1 : at;
  }
  return 0;
}

static void set_at(lexer *l, size_t at) {
  l->at = at;
  l->line_starting = at > 0 && l->s[at - 1] == '\n';
}

static bool lex_comment(lexer *l, size_t tag, size_t after) {
  for (size_t i = after; i < l->n; i++) {
    const size_t end = end_of_tag(l, i, "#}", true);
    if (end) {
      set_at(l, end);
      return true;
    }
  }
  if (after == l->n) { /* Jinja lets these two be cut off just here */
    l->at = l->n;
    return true;
  }
  return fail(l, tag, "Missing end of comment tag");
}

/* Offset just past "{% raw %}" when that stands at `tag`, else 0. */
static size_t raw_begin(const lexer *l, size_t tag) {
  size_t i = tag + 2;
  if (i < l->n && (l->s[i] == '-' || l->s[i] == '+')) i++;
  i = skip_space(l, i);
  if (!looks_at(l, i, "raw")) return 0;
  i = skip_space(l, i + 3);
  return i < l->n ? end_of_tag(l, i, "%}", false) : 0;
}

static bool lex_raw(lexer *l, size_t tag, size_t after) {
  for (size_t i = after; i + 1 < l->n; i++) {
    if (!looks_at(l, i, "{%")) continue;
    size_t j = i + 2;
    char sign = 0;
    if (j < l->n && (l->s[j] == '-' || l->s[j] == '+')) sign = l->s[j++];
    j = skip_space(l, j);
    if (!looks_at(l, j, "endraw")) continue;
    j = skip_space(l, j + 6);
    const size_t end = j < l->n ? end_of_tag(l, j, "%}", true) : 0;
    if (!end) continue;
    l->line_starting = l->s[after - 1] == '\n';
    if (!add_text(l, after, i, sign, false)) return false;
    set_at(l, end);
    return true;
  }
  if (after == l->n) {
    l->at = l->n;
    return true;
  }
  return fail(l, tag, "Missing end of raw directive");
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_name(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         (unsigned char)c >= 0x80;
}
static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

/* digits with single underscores between; returns the end, `at` when there are none */
static size_t digits(const lexer *l, size_t at) {
  size_t i = at;
  while (i < l->n &&
         (is_digit(l->s[i]) || (i > at && l->s[i] == '_' && i + 1 < l->n && is_digit(l->s[i + 1]))))
    i++;
  return i;
}

static size_t float_end(const lexer *l, size_t at) {
  if (at > 0 && l->s[at - 1] == '.') return 0;
  size_t i = digits(l, at);
  if (i == at) return 0;
  bool is_float = false;
  if (i + 1 < l->n && l->s[i] == '.' && is_digit(l->s[i + 1])) {
    i = digits(l, i + 1);
    is_float = true;
  }
  if (i < l->n && lower(l->s[i]) == 'e') {
    size_t j = i + 1;
    if (j < l->n && (l->s[j] == '+' || l->s[j] == '-')) j++;
    const size_t end = digits(l, j);
    if (end > j) return end;
  }
  return is_float ? i : 0;
}

static int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

static bool lex_integer(lexer *l) {
  const size_t at = l->at;
  size_t i = at, end;
  int base = 10;
  if (l->s[i] == '0' && i + 1 < l->n) {
    const char p = lower(l->s[i + 1]);
    const int b = p == 'x' ? 16 : p == 'o' ? 8 : p == 'b' ? 2 : 0;
    size_t j = i + 2;
    if (b && j < l->n && l->s[j] == '_') j++;
    if (b && j < l->n && digit_value(l->s[j]) < b) {
      base = b;
      i = j;
    }
  }
  const bool is_zero = base == 10 && l->s[i] == '0'; /* "007" lexes as 00 and 7 */
  for (end = i; end < l->n; end++) {
    const bool joins = l->s[end] == '_' && end > i && end + 1 < l->n;
    const char d = joins ? l->s[end + 1] : l->s[end];
    if (digit_value(d) >= base || (is_zero && d != '0')) break;
  }
  int64_t v = 0;
  bool overflow = false;
  for (size_t k = i; k < end; k++) {
    if (l->s[k] == '_') continue;
    overflow |= __builtin_mul_overflow(v, base, &v);
    overflow |= __builtin_add_overflow(v, digit_value(l->s[k]), &v);
  }
  if (overflow) return fail(l, at, "an integer of more than 64 bits is not supported");
  jj_token *t = add(l, JJ_T_INT, at);
  if (!t) return false;
  t->value = wf_jj_int(v);
  l->at = end;
  return true;
}

static bool lex_float(lexer *l, size_t end) {
  char text[512];
  size_t n = 0;
  for (size_t i = l->at; i < end; i++) {
    if (l->s[i] == '_') continue;
    if (n == sizeof text) return fail(l, l->at, "a number of more than 512 digits");
    text[n++] = l->s[i];
  }
  double v = 0;
  if (!wf_parse_f64((wf_str){text, n}, &v)) return fail(l, l->at, "number out of range");
  jj_token *t = add(l, JJ_T_FLOAT, l->at);
  if (!t) return false;
  t->value = wf_jj_float(v);
  l->at = end;
  return true;
}

/* One escape after the backslash at s[*i]; appends what it means. NULL when fine. */
static const char *unescape(const char *s, size_t n, size_t *i, wf_buf *out) {
  static const char from[] = "\\'\"abfnrtv";
  static const char to[] = "\\'\"\a\b\f\n\r\t\v";
  const char c = s[*i + 1];
  const char *p = memchr(from, c, sizeof from - 1);
  *i += 2;
  if (p) {
    wf_buf_putc(out, to[p - from]);
    return NULL;
  }
  if (c == '\n') return NULL;
  if (c >= '0' && c <= '7') {
    uint32_t v = (uint32_t)(c - '0');
    for (int k = 0; k < 2 && *i < n && s[*i] >= '0' && s[*i] <= '7'; k++) {
      v = v * 8 + (uint32_t)(s[(*i)++] - '0');
    }
    wf_buf_add_utf8(out, v);
    return NULL;
  }
  const size_t want = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (c == 'N') return "a character by name (\\N{...}) is not supported; write \\uXXXX";
  if (!want) { /* unknown escapes keep their backslash */
    wf_buf_putc(out, '\\');
    *i -= 1;
    return NULL;
  }
  uint32_t v = 0;
  for (size_t k = 0; k < want; k++) {
    if (*i >= n || digit_value(s[*i]) > 15) return "truncated \\xXX, \\uXXXX or \\UXXXXXXXX escape";
    v = v * 16 + (uint32_t)digit_value(s[(*i)++]);
  }
  if (v > 0x10ffff || (v >= 0xd800 && v < 0xe000)) return "illegal Unicode character in an escape";
  wf_buf_add_utf8(out, v);
  return NULL;
}

static bool lex_string(lexer *l, size_t end) {
  wf_buf out = {0};
  const char *s = l->s + l->at + 1;
  const size_t n = end - l->at - 2, at = l->at;
  for (size_t i = 0; i < n;) {
    if (s[i] != '\\') {
      wf_buf_putc(&out, s[i++]);
      continue;
    }
    const char *what = i + 1 < n ? unescape(s, n, &i, &out) : "\\ at end of string";
    if (what) {
      wf_buf_deinit(&out);
      return fail(l, at, what);
    }
  }
  jj_token *t = add(l, JJ_T_STRING, at);
  if (t) t->text = out.failed ? NULL : wf_jj_literal(l->c, out.at, out.n);
  wf_buf_deinit(&out);
  if (!t || !t->text) return t ? wf_jj_no_memory(l->c) : false;
  l->at = end;
  const wf_str literal = {t->text->at, t->text->n};
  return wf_vec_push(&l->c->literals, literal) || wf_jj_no_memory(l->c);
}

static size_t string_end(const lexer *l) {
  const char quote = l->s[l->at];
  for (size_t i = l->at + 1; i < l->n; i++) {
    if (l->s[i] == '\\') {
      i++;
    } else if (l->s[i] == quote) {
      return i + 1;
    }
  }
  return 0;
}

static bool lex_operator(lexer *l) {
  static const char two[][3] = {"//", "**", "==", "!=", ">=", "<="};
  static const char one[] = "+-/*%~[](){}><=.:|,;";
  const char c = l->s[l->at];
  uint16_t op = 0;
  for (size_t i = 0; i < sizeof two / sizeof *two; i++) {
    if (looks_at(l, l->at, two[i])) op = JJ_OP2(two[i][0], two[i][1]);
  }
  if (!op && !memchr(one, c, sizeof one - 1)) {
    return fail(l, l->at, c == '\'' || c == '"' ? "unterminated string" : "unexpected character");
  }
  if (c == '(' || c == '[' || c == '{') {
    if (!wf_vec_push(&l->closers, (char)(c == '(' ? ')' : c == '[' ? ']' : '}'))) {
      return wf_jj_no_memory(l->c);
    }
  } else if (c == ')' || c == ']' || c == '}') {
    if (l->closers.n == 0 || l->closers.at[l->closers.n - 1] != c) {
      return fail(l, l->at,
                  l->closers.n ? "this bracket does not close the last one opened"
                               : "unexpected closing bracket");
    }
    l->closers.n--;
  }
  jj_token *t = add(l, JJ_T_OP, l->at);
  if (!t) return false;
  t->op = op ? op : (uint16_t)(unsigned char)c;
  l->at += op ? 2 : 1;
  return true;
}

/* Tokens between a tag's begin and its end, which is included. */
static bool lex_tag(lexer *l, bool is_variable) {
  l->closers.n = 0;
  while (l->at < l->n) {
    if (l->closers.n == 0) {
      const size_t end = end_of_tag(l, l->at, is_variable ? "}}" : "%}", !is_variable);
      if (end) {
        if (!add(l, is_variable ? JJ_T_VARIABLE_END : JJ_T_BLOCK_END, l->at)) return false;
        set_at(l, end);
        return true;
      }
    }
    const size_t space = space_length(l, l->at);
    if (space) {
      l->at += space;
      continue;
    }
    const char ch = l->s[l->at];
    size_t end;
    if (is_digit(ch)) {
      end = float_end(l, l->at);
      if (!(end ? lex_float(l, end) : lex_integer(l))) return false;
    } else if (is_name(ch)) {
      for (end = l->at; end < l->n && is_name(l->s[end]) && !space_length(l, end); end++) {
      }
      jj_token *t = add(l, JJ_T_NAME, l->at);
      if (!t || !(t->text = wf_jj_literal(l->c, l->s + l->at, end - l->at))) return false;
      l->at = end;
    } else if ((ch == '\'' || ch == '"') && (end = string_end(l)) != 0) {
      if (!lex_string(l, end)) return false;
    } else if (!lex_operator(l)) {
      return false;
    }
  }
  return true;
}

static bool lex_root(lexer *l) {
  while (l->at < l->n) {
    const size_t begin = l->at;
    size_t tag = begin;
    for (; tag < l->n; tag++) {
      const char *brace = memchr(l->s + tag, '{', l->n - tag);
      tag = brace ? (size_t)(brace - l->s) : l->n;
      const char next = tag + 1 < l->n ? l->s[tag + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') break;
    }
    if (tag >= l->n) return add_data(l, begin, l->n);
    const char kind = l->s[tag + 1];
    size_t after = tag + 2;
    char sign = 0;
    if (after < l->n && (l->s[after] == '-' || l->s[after] == '+')) sign = l->s[after++];
    if (!add_text(l, begin, tag, sign, kind == '{')) return false;
    const size_t raw = kind == '%' ? raw_begin(l, tag) : 0;
    bool ok;
    if (raw) {
      ok = lex_raw(l, tag, raw);
    } else if (kind == '#') {
      ok = lex_comment(l, tag, after);
    } else {
      if (!add(l, kind == '{' ? JJ_T_VARIABLE_BEGIN : JJ_T_BLOCK_BEGIN, tag)) return false;
      l->at = after;
      ok = lex_tag(l, kind == '{');
    }
    if (!ok) return false;
    if (l->c->tokens.n && l->c->tokens.at[l->c->tokens.n - 1].kind == JJ_T_ERROR) return true;
  }
  return true;
}

bool wf_jj_lex(jj_compiler *c, wf_str source) {
  if (source.n > JJ_SOURCE_LIMIT) {
    return wf_jj_syntax(c, 1, 1, "the template has %zu bytes, more than the limit of %d", source.n,
                        (int)JJ_SOURCE_LIMIT);
  }
  if (!wf_utf8_is_valid(source.at, source.n)) {
    return wf_jj_syntax(c, 1, 1, "the template is not well-formed UTF-8");
  }
  char *s = wf_alloc(source.n + 1);
  if (!s) return wf_jj_no_memory(c);
  size_t n = 0;
  for (size_t i = 0; i < source.n; i++) {
    if (source.at[i] == '\r') {
      if (i + 1 < source.n && source.at[i + 1] == '\n') i++;
      s[n++] = '\n';
    } else {
      s[n++] = source.at[i];
    }
  }
  if (n && s[n - 1] == '\n') n--; /* keep_trailing_newline is off */
  s[n] = '\0';
  lexer l = {.c = c, .s = s, .n = n, .line = 1, .line_starting = true};
  bool ok = lex_root(&l);
  l.n = n;
  ok = ok && add(&l, JJ_T_EOF, n) != NULL;
  wf_vec_free(&l.closers);
  wf_free(s);
  return ok;
}
