/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_reader.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/utf8.h"

/* What may come next. A state machine instead of recursion: depth costs one row of a fixed table.
 */
enum {
  EXPECT_VALUE,          /* a value must come: at the top, after a key, after ',' in an array */
  EXPECT_VALUE_OR_CLOSE, /* just after '[' */
  EXPECT_KEY,            /* after ',' in an object */
  EXPECT_KEY_OR_CLOSE,   /* just after '{' */
  EXPECT_COMMA_OR_CLOSE, /* after a value inside something */
  EXPECT_END             /* the one value is over */
};

void wf_json_init(wf_json_reader *r, wf_str in, const char *name) {
  *r = (wf_json_reader){.in = in, .name = name, .expect = EXPECT_VALUE};
  /* Windows editors put a byte order mark in front; RFC 8259 lets a reader ignore it. */
  if (in.n >= 3 && memcmp(in.at, "\xef\xbb\xbf", 3) == 0) r->at = 3;
}

void wf_json_deinit(wf_json_reader *r) { wf_buf_deinit(&r->scratch); }

void wf_json_bookmark(const wf_json_reader *r, wf_json_reader *copy) {
  *copy = *r;
  copy->scratch = (wf_buf){0};
}

void wf_json_path(const wf_json_reader *r, wf_buf *out) {
  bool any = false;
  for (size_t i = 0; i < r->depth; i++) {
    const wf_json_level *l = &r->level[i];
    if (l->n_seen == 0) continue;
    if (l->is_object) {
      if (any) wf_buf_putc(out, '.');
      wf_buf_add_str(out, l->raw_key);
    } else {
      wf_buf_printf(out, "[%llu]", (unsigned long long)(l->n_seen - 1));
    }
    any = true;
  }
  if (!any) wf_buf_puts(out, "the top level");
}

weft_status wf_json_fail(const wf_json_reader *r, weft_error *err, const char *what_fmt, ...) {
  size_t line = 1, line_at = 0;
  const size_t at = r->at < r->in.n ? r->at : r->in.n;
  for (size_t i = 0; i < at; i++) {
    if (r->in.at[i] == '\n') {
      line++;
      line_at = i + 1;
    }
  }
  char what[256];
  va_list args;
  va_start(args, what_fmt);
  (void)vsnprintf(what, sizeof what, what_fmt, args);
  va_end(args);
  wf_buf path = {0};
  wf_json_path(r, &path);
  const char *p = wf_buf_cstr(&path);
  (void)wf_fail(err, WEFT_PARSE, "repair the file or fetch it again",
                "%s, line %zu, column %zu (at %.120s): %s", r->name, line, at - line_at + 1,
                p ? p : "?", what);
  wf_buf_deinit(&path);
  return WEFT_PARSE;
}

static void skip_space(wf_json_reader *r) {
  while (r->at < r->in.n) {
    const char c = r->in.at[r->at];
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return;
    r->at++;
  }
}

static int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* Four hexadecimal digits at `at`, -1 when they are not there. */
static int32_t hex4(const wf_json_reader *r, size_t at) {
  if (r->in.n - at < 4) return -1;
  int32_t v = 0;
  for (size_t i = 0; i < 4; i++) {
    const int h = hex_value(r->in.at[at + i]);
    if (h < 0) return -1;
    v = v * 16 + h;
  }
  return v;
}

/* The escape after a backslash at r->at - 1; appends the character. */
static weft_status read_escape(wf_json_reader *r, weft_error *err) {
  if (r->at >= r->in.n) return wf_json_fail(r, err, "the text ends inside a string");
  const char c = r->in.at[r->at++];
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  if (c != 'u') {
    const char *hit = c ? strchr(from, c) : NULL;
    if (!hit) return wf_json_fail(r, err, "a backslash must not be followed by this character");
    wf_buf_putc(&r->scratch, to[hit - from]);
    return WEFT_OK;
  }
  int32_t cp = hex4(r, r->at);
  if (cp < 0) return wf_json_fail(r, err, "\\u needs four hexadecimal digits");
  r->at += 4;
  if (cp >= 0xd800 && cp < 0xe000) {
    int32_t low = -1;
    if (cp < 0xdc00 && r->in.n - r->at >= 6 && r->in.at[r->at] == '\\' &&
        r->in.at[r->at + 1] == 'u') {
      low = hex4(r, r->at + 2);
    }
    if (low < 0xdc00 || low >= 0xe000) {
      return wf_json_fail(r, err, "a lone surrogate \\u%04x is no character", (unsigned)cp);
    }
    r->at += 6;
    cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
  }
  wf_buf_add_utf8(&r->scratch, (uint32_t)cp);
  return WEFT_OK;
}

/* Bytes from `at` on that need no look: ASCII that is neither quote, backslash nor control. Eight
 * at a time; the classic "has a byte less than / equal to" tricks on a 64-bit word. */
static size_t plain_run(const char *s, size_t n) {
  const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones * 0x80;
  size_t i = 0;
  while (n - i >= 8) {
    uint64_t w;
    memcpy(&w, s + i, 8);
    const uint64_t quote = w ^ ones * '"', slash = w ^ ones * '\\';
    const uint64_t bad =
        ((w - ones * 0x20) & ~w) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash) | w;
    if (bad & highs) break;
    i += 8;
  }
  while (i < n) {
    const unsigned char c = (unsigned char)s[i];
    if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\') break;
    i++;
  }
  return i;
}

/* A string whose opening quote has been read. */
static weft_status read_string(wf_json_reader *r, wf_str *text, bool *is_stable, weft_error *err) {
  const char *s = r->in.at;
  size_t from = r->at; /* start of what is not yet in scratch */
  bool copied = false;
  for (;;) {
    r->at += plain_run(s + r->at, r->in.n - r->at);
    if (r->at >= r->in.n) return wf_json_fail(r, err, "the text ends inside a string");
    const unsigned char c = (unsigned char)s[r->at];
    if (c == '"') break;
    if (c >= 0x80) {
      uint32_t cp;
      const size_t used = wf_utf8_decode(s + r->at, r->in.n - r->at, &cp);
      if (used == 0) return wf_json_fail(r, err, "a string holds bytes that are not UTF-8");
      r->at += used;
    } else if (c == '\\') {
      if (!copied) {
        wf_buf_clear(&r->scratch);
        copied = true;
      }
      wf_buf_add(&r->scratch, s + from, r->at - from);
      r->at++;
      WF_RETURN_IF_ERROR(read_escape(r, err));
      from = r->at;
    } else {
      return wf_json_fail(r, err, "a control character in a string must be escaped");
    }
  }
  if (copied) {
    wf_buf_add(&r->scratch, s + from, r->at - from);
    if (r->scratch.failed) return wf_fail_memory(err, r->at - from, "a JSON string");
    *text = (wf_str){r->scratch.at ? r->scratch.at : "", r->scratch.n};
  } else {
    *text = (wf_str){s + from, r->at - from};
  }
  *is_stable = !copied;
  r->at++;
  return WEFT_OK;
}

static size_t digits(const wf_json_reader *r, size_t at) {
  size_t n = 0;
  while (at + n < r->in.n && r->in.at[at + n] >= '0' && r->in.at[at + n] <= '9') n++;
  return n;
}

static weft_status read_number(wf_json_reader *r, wf_str *text, weft_error *err) {
  const char *s = r->in.at;
  const size_t from = r->at;
  size_t at = from;
  if (s[at] == '-') at++;
  const size_t whole = digits(r, at);
  if (whole == 0 || (whole > 1 && s[at] == '0')) {
    return wf_json_fail(r, err, "this is no number as JSON writes it");
  }
  at += whole;
  if (at < r->in.n && s[at] == '.') {
    const size_t n = digits(r, at + 1);
    if (n == 0) return wf_json_fail(r, err, "digits must follow the decimal point");
    at += 1 + n;
  }
  if (at < r->in.n && (s[at] == 'e' || s[at] == 'E')) {
    at++;
    if (at < r->in.n && (s[at] == '+' || s[at] == '-')) at++;
    const size_t n = digits(r, at);
    if (n == 0) return wf_json_fail(r, err, "digits must follow the exponent sign");
    at += n;
  }
  *text = (wf_str){s + from, at - from};
  r->at = at;
  return WEFT_OK;
}

static weft_status read_word(wf_json_reader *r, const char *word, weft_error *err) {
  const size_t n = strlen(word);
  if (r->in.n - r->at < n || memcmp(r->in.at + r->at, word, n) != 0) {
    return wf_json_fail(r, err,
                        "a value must be an object, an array, a string, a number, true, "
                        "false or null");
  }
  r->at += n;
  return WEFT_OK;
}

static void value_done(wf_json_reader *r) {
  r->expect = r->depth ? EXPECT_COMMA_OR_CLOSE : EXPECT_END;
}

static weft_status open_level(wf_json_reader *r, bool is_object, weft_error *err) {
  if (r->depth == WF_JSON_MAX_DEPTH) {
    return wf_fail(err, WEFT_LIMIT, "no file of this kind nests so deep; fetch it again",
                   "%s nests deeper than %d levels", r->name, WF_JSON_MAX_DEPTH);
  }
  r->level[r->depth++] = (wf_json_level){.is_object = is_object};
  r->expect = is_object ? EXPECT_KEY_OR_CLOSE : EXPECT_VALUE_OR_CLOSE;
  r->at++;
  return WEFT_OK;
}

static void close_level(wf_json_reader *r, wf_json_event *e) {
  r->depth--;
  e->kind = r->level[r->depth].is_object ? WF_JSON_OBJECT_END : WF_JSON_ARRAY_END;
  r->at++;
  value_done(r);
}

static weft_status read_key(wf_json_reader *r, wf_json_event *e, weft_error *err) {
  if (r->in.at[r->at] != '"') return wf_json_fail(r, err, "a member's name must be a string");
  r->at++;
  const size_t from = r->at;
  WF_RETURN_IF_ERROR(read_string(r, &e->text, &e->is_stable, err));
  wf_json_level *l = &r->level[r->depth - 1];
  l->raw_key = (wf_str){r->in.at + from, r->at - 1 - from};
  l->n_seen++;
  e->kind = WF_JSON_KEY;
  skip_space(r);
  if (r->at >= r->in.n || r->in.at[r->at] != ':') {
    return wf_json_fail(r, err, "':' must follow a member's name");
  }
  r->at++;
  r->expect = EXPECT_VALUE;
  return WEFT_OK;
}

static weft_status read_value(wf_json_reader *r, wf_json_event *e, weft_error *err) {
  const char c = r->in.at[r->at];
  if (r->depth && !r->level[r->depth - 1].is_object) r->level[r->depth - 1].n_seen++;
  if (c == '{' || c == '[') {
    e->kind = c == '{' ? WF_JSON_OBJECT_BEGIN : WF_JSON_ARRAY_BEGIN;
    return open_level(r, c == '{', err);
  }
  if (c == '"') {
    r->at++;
    e->kind = WF_JSON_STRING;
    WF_RETURN_IF_ERROR(read_string(r, &e->text, &e->is_stable, err));
  } else if (c == '-' || (c >= '0' && c <= '9')) {
    e->kind = WF_JSON_NUMBER;
    e->is_stable = true;
    WF_RETURN_IF_ERROR(read_number(r, &e->text, err));
  } else {
    e->kind = c == 't' ? WF_JSON_TRUE : c == 'f' ? WF_JSON_FALSE : WF_JSON_NULL;
    WF_RETURN_IF_ERROR(read_word(r, c == 't' ? "true" : c == 'f' ? "false" : "null", err));
  }
  value_done(r);
  return WEFT_OK;
}

weft_status wf_json_next(wf_json_reader *r, wf_json_event *e, weft_error *err) {
  *e = (wf_json_event){.kind = WF_JSON_END};
  skip_space(r);
  if (r->at >= r->in.n) {
    if (r->expect == EXPECT_END) return WEFT_OK;
    return wf_json_fail(r, err, "the text ends too early");
  }
  const char c = r->in.at[r->at];
  switch (r->expect) {
    case EXPECT_END:
      return wf_json_fail(r, err, "something follows the end of the value");
    case EXPECT_KEY_OR_CLOSE:
      if (c == '}') {
        close_level(r, e);
        return WEFT_OK;
      }
      return read_key(r, e, err);
    case EXPECT_KEY:
      return read_key(r, e, err);
    case EXPECT_VALUE_OR_CLOSE:
      if (c == ']') {
        close_level(r, e);
        return WEFT_OK;
      }
      return read_value(r, e, err);
    case EXPECT_VALUE:
      return read_value(r, e, err);
    default:
      break;
  }
  const bool in_object = r->level[r->depth - 1].is_object;
  if (c == (in_object ? '}' : ']')) {
    close_level(r, e);
    return WEFT_OK;
  }
  if (c != ',') return wf_json_fail(r, err, "',' or '%c' must come here", in_object ? '}' : ']');
  r->at++;
  r->expect = in_object ? EXPECT_KEY : EXPECT_VALUE;
  skip_space(r);
  if (r->at >= r->in.n) return wf_json_fail(r, err, "the text ends too early");
  return in_object ? read_key(r, e, err) : read_value(r, e, err);
}

weft_status wf_json_skip(wf_json_reader *r, const wf_json_event *e, weft_error *err) {
  if (e->kind != WF_JSON_OBJECT_BEGIN && e->kind != WF_JSON_ARRAY_BEGIN) return WEFT_OK;
  const size_t depth = r->depth - 1;
  while (r->depth > depth) {
    wf_json_event inner;
    WF_RETURN_IF_ERROR(wf_json_next(r, &inner, err));
  }
  return WEFT_OK;
}

weft_status wf_json_next_key(wf_json_reader *r, wf_json_event *key, bool *more, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_json_next(r, key, err));
  *more = key->kind == WF_JSON_KEY;
  return WEFT_OK;
}
