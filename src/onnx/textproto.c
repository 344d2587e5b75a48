/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX in protobuf's text form, turned into the binary form that the reader knows.
 *
 * One walk over the text, with a stack of open messages instead of recursion. A message's length is
 * known only at its end, so five bytes are kept free for it, and one pass at the end closes the
 * gaps:
 *
 *   text     graph { name: "g" }
 *   walked   3a [.....] 12 [.....] g        lengths: where the two gaps are
 *   closed   3a 03 12 01 g
 *
 * Lists of numbers that writers pack come out packed, so that a text printed from a model whose
 * fields are in order gives that model's bytes again. */
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "onnx/onnx_reader.h"

enum { MAX_DEPTH = 100, GAP_BYTES = 5 };

/* A gap for a length, still open. */
typedef struct gap {
  size_t at;
  size_t saved; /* bytes that closing the gaps before this one will save */
} gap;

typedef struct open_message {
  const wire_message *message;
  const wire_field *field; /* that holds it */
  size_t open_at;          /* of its brace in the text */
  gap gap;
  char closer;              /* '}' or '>', 0 for the model itself */
  bool in_list;             /* an element of [ ... ] */
  uint64_t seen;            /* bit i: fields[i] has come */
  const wire_field *one_of; /* the one of the group that has come */
  const wire_field *packed; /* whose packed list is still open */
  gap packed_gap;
} open_message;

typedef struct parser {
  const char *name; /* of the file */
  wf_str text;
  size_t at;
  wf_buf *out;
  WF_VEC(size_t) lengths; /* where gaps are, in order */
  size_t saved;
  bool failed; /* memory ran out for `lengths` */
  int depth;
  open_message stack[MAX_DEPTH + 1];
  weft_error *err;
} parser;

/* ---- errors ------------------------------------------------------------------------------- */

static weft_status fail(const parser *p, size_t at, const char *fix, const char *fmt, ...)
    WF_PRINTF(4, 5);

/* Lines are counted only now: a text that is right never pays for it. */
static weft_status fail(const parser *p, size_t at, const char *fix, const char *fmt, ...) {
  char text[200];
  size_t line = 1, first = 0;
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  for (size_t i = 0; i < at; i++) {
    if (p->text.at[i] == '\n') line++, first = i + 1;
  }
  return wf_fail(p->err, WEFT_PARSE, fix, "%s:%zu:%zu: %s", p->name, line, at - first + 1, text);
}

static int shown(wf_str s) { return (int)(s.n < 60 ? s.n : 60); }

/* "field 'dims' of TensorProto <text>", where the walk stands. */
static weft_status fail_field(const parser *p, size_t at, const wire_field *f, const char *fix,
                              const char *text) {
  return fail(p, at, fix, "field '%s' of %s %s", f->name, p->stack[p->depth].message->name, text);
}

/* ---- output ------------------------------------------------------------------------------- */

static gap gap_open(parser *p) {
  static const char zeros[GAP_BYTES];
  const gap g = {p->out->n, p->saved};
  if (!wf_vec_push(&p->lengths, g.at)) p->failed = true;
  wf_buf_add(p->out, zeros, sizeof zeros);
  return g;
}

static size_t varint_bytes(uint64_t v) {
  size_t n = 1;
  while (v >= 0x80) v >>= 7, n++;
  return n;
}

/* Writes the length that the message will have once its own gaps are closed. */
static void gap_close(parser *p, gap g) {
  if (p->out->failed) return;
  const uint64_t n = p->out->n - g.at - GAP_BYTES - (p->saved - g.saved);
  for (int i = 0; i < GAP_BYTES; i++) p->out->at[g.at + (size_t)i] = (char)(n >> 8 * i & 0xff);
  p->saved += GAP_BYTES - varint_bytes(n);
}

static void close_gaps(parser *p) {
  unsigned char *bytes = (unsigned char *)p->out->at;
  size_t from = 0, to = 0;
  for (size_t i = 0; i < p->lengths.n; i++) {
    const size_t n = p->lengths.at[i] - from;
    memmove(bytes + to, bytes + from, n);
    to += n;
    from = p->lengths.at[i];
    uint64_t length = 0;
    for (int j = 0; j < GAP_BYTES; j++) length |= (uint64_t)bytes[from + (size_t)j] << 8 * j;
    from += GAP_BYTES;
    for (; length >= 0x80; length >>= 7) bytes[to++] = (unsigned char)(0x80 | (length & 0x7f));
    bytes[to++] = (unsigned char)length;
  }
  if (p->lengths.n == 0) return;
  memmove(bytes + to, bytes + from, p->out->n - from);
  p->out->n = to + p->out->n - from;
  bytes[p->out->n] = '\0';
}

static void put_tag(parser *p, const wire_field *f, wire_type type) {
  wf_onnx_put_tag(p->out, f->number, type);
}

static void end_packed(parser *p, open_message *m) {
  if (m->packed) gap_close(p, m->packed_gap);
  m->packed = NULL;
}

static void put_number(parser *p, const wire_field *f, uint64_t v) {
  open_message *m = &p->stack[p->depth];
  const wire_type type = wire_type_of(f);
  if (!f->is_packed) {
    put_tag(p, f, type);
  } else if (m->packed != f) {
    put_tag(p, f, WIRE_BYTES);
    m->packed = f;
    m->packed_gap = gap_open(p);
  }
  if (type == WIRE_VARINT) {
    wf_onnx_put_varint(p->out, v);
    return;
  }
  char bytes[8];
  const size_t n = type == WIRE_FIXED64 ? 8 : 4;
  for (size_t i = 0; i < n; i++) bytes[i] = (char)(v >> 8 * i & 0xff);
  wf_buf_add(p->out, bytes, n);
}

/* ---- words -------------------------------------------------------------------------------- */

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* The next character, blanks and comments left behind; 0 at the end (and for a NUL, which nothing
 * expects). */
static char peek(parser *p) {
  for (; p->at < p->text.n; p->at++) {
    const char c = p->text.at[p->at];
    if (c == '#') {
      const char *end = memchr(p->text.at + p->at, '\n', p->text.n - p->at);
      p->at = end ? (size_t)(end - p->text.at) : p->text.n;
      if (!end) return 0;
    } else if (c != ' ' && (c < '\t' || c > '\r')) {
      return c;
    }
  }
  return 0;
}

static bool take(parser *p, char c) {
  const bool is_there = peek(p) == c && p->at < p->text.n;
  if (is_there) p->at++;
  return is_there;
}

/* Letters, digits and what a number may hold: "node", "-" is not of it, "1.5e-3f", "0x1F". */
static wf_str take_word(parser *p) {
  const char *s = p->text.at + p->at;
  const size_t n = p->text.n - p->at;
  size_t i = 0;
  const bool is_number = n && (is_digit(s[0]) || s[0] == '.');
  const bool is_hex = n > 1 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
  for (; i < n; i++) {
    const bool is_exponent_sign = (s[i] == '-' || s[i] == '+') && is_number && !is_hex && i &&
                                  (s[i - 1] == 'e' || s[i - 1] == 'E');
    if (!is_letter(s[i]) && !is_digit(s[i]) && !(s[i] == '.' && is_number) && !is_exponent_sign)
      break;
  }
  p->at += i;
  return (wf_str){s, i};
}

/* ---- numbers ------------------------------------------------------------------------------ */

static bool parse_digits(wf_str s, unsigned base, uint64_t *result) {
  uint64_t v = 0;
  if (s.n == 0) return false;
  for (size_t i = 0; i < s.n; i++) {
    const char c = s.at[i];
    unsigned digit = 99;
    if (is_digit(c)) digit = (unsigned)(c - '0');
    if (c >= 'a' && c <= 'f') digit = (unsigned)(c - 'a') + 10;
    if (c >= 'A' && c <= 'F') digit = (unsigned)(c - 'A') + 10;
    if (digit >= base) return false;
    if (v > (UINT64_MAX - digit) / base) return false;
    v = v * base + digit;
  }
  *result = v;
  return true;
}

static weft_status read_int(parser *p, const wire_field *f, size_t at, bool is_negative,
                            wf_str word, uint64_t *result) {
  uint64_t v = 0, below = 0, above = UINT64_MAX;
  const bool is_hex = word.n > 1 && word.at[0] == '0' && (word.at[1] | 0x20) == 'x';
  const bool is_octal = !is_hex && word.n > 1 && word.at[0] == '0';
  const unsigned base = is_hex ? 16 : is_octal ? 8 : 10;
  const wf_str digits = is_hex ? (wf_str){word.at + 2, word.n - 2} : word;
  bool is_number = digits.n > 0;
  for (size_t i = 0; i < digits.n; i++) {
    uint64_t one;
    is_number = is_number && parse_digits((wf_str){digits.at + i, 1}, base, &one);
  }
  if (!is_number) {
    return fail(p, at, "write a whole number: 12, 0x1f or 017",
                "field '%s' of %s needs a whole number, not '%s%.*s'", f->name,
                p->stack[p->depth].message->name, is_negative ? "-" : "", shown(word), word.at);
  }
  if (f->kind == KIND_INT64) below = UINT64_C(1) << 63, above = INT64_MAX;
  if (f->kind == KIND_INT32 || f->kind == KIND_ENUM) below = UINT64_C(1) << 31, above = INT32_MAX;
  if (!parse_digits(digits, base, &v) || v > (is_negative ? below : above)) {
    return fail(p, at,
                f->kind == KIND_UINT64  ? "use a number from 0 to 18446744073709551615"
                : f->kind == KIND_INT64 ? "use a number that 64 bits with a sign hold"
                                        : "use a number from -2147483648 to 2147483647",
                "field '%s' of %s can't be %s%.*s", f->name, p->stack[p->depth].message->name,
                is_negative ? "-" : "", shown(word), word.at);
  }
  *result = is_negative ? 0 - v : v;
  return WEFT_OK;
}

static bool is_word(wf_str s, const char *lower) {
  if (s.n != strlen(lower)) return false;
  for (size_t i = 0; i < s.n; i++) {
    if ((s.at[i] | 0x20) != lower[i]) return false;
  }
  return true;
}

/* To the nearest float; past the largest it is infinity, as conversion rounds. */
static float nearest_float(double v) {
  if (fabs(v) < 0x1.ffffffp127) {
    if (fabs(v) > (double)FLT_MAX) return v < 0 ? -FLT_MAX : FLT_MAX;
    return (float)v;
  }
  if (isnan(v)) return NAN;
  return v < 0 ? -INFINITY : INFINITY;
}

static weft_status read_float(parser *p, const wire_field *f, size_t at, bool is_negative,
                              wf_str word, uint64_t *result) {
  double v;
  wf_str digits = word;
  if (word.n > 1 && (word.at[word.n - 1] | 0x20) == 'f') digits.n--; /* 1.5f */
  /* 010 means eight where a whole number is wanted, so it means nothing here. */
  const bool is_octal = word.n > 1 && word.at[0] == '0' && is_digit(word.at[1]) &&
                        memchr(word.at, '.', word.n) == NULL &&
                        memchr(word.at, 'e', word.n) == NULL &&
                        memchr(word.at, 'E', word.n) == NULL;
  if (is_word(word, "inf") || is_word(word, "infinity")) {
    v = (double)INFINITY;
  } else if (is_word(word, "nan")) {
    v = (double)NAN;
  } else if (is_octal || !wf_parse_f64(digits, &v)) {
    return fail(p, at, "write a decimal number, inf or nan",
                "field '%s' of %s needs a number, not '%s%.*s'", f->name,
                p->stack[p->depth].message->name, is_negative ? "-" : "", shown(word), word.at);
  }
  if (f->kind == KIND_DOUBLE) {
    memcpy(result, &v, sizeof v);
    if (is_negative) *result ^= UINT64_C(1) << 63; /* also nan has a sign */
    return WEFT_OK;
  }
  const float single = nearest_float(v);
  uint32_t bits;
  memcpy(&bits, &single, sizeof bits);
  *result = is_negative ? bits ^ UINT32_C(1) << 31 : bits;
  return WEFT_OK;
}

static weft_status read_enum(parser *p, const wire_field *f, size_t at, bool is_negative,
                             wf_str word, uint64_t *result) {
  if (word.n && is_letter(word.at[0]) && !is_negative) {
    for (const wire_name *n = f->names; n->name; n++) {
      *result = (uint64_t)n->value;
      if (wf_str_is(word, n->name)) return WEFT_OK;
    }
  } else {
    WF_RETURN_IF_ERROR(read_int(p, f, at, is_negative, word, result));
    for (const wire_name *n = f->names; n->name; n++) {
      if ((uint64_t)n->value == *result) return WEFT_OK;
    }
  }
  return fail(p, at, "use a name of onnx.proto's list", "field '%s' of %s has no value '%s%.*s'",
              f->name, p->stack[p->depth].message->name, is_negative ? "-" : "", shown(word),
              word.at);
}

static weft_status read_number(parser *p, const wire_field *f) {
  uint64_t v = 0;
  (void)peek(p);
  const size_t at = p->at;
  const bool is_negative = take(p, '-');
  (void)peek(p);
  const wf_str word = take_word(p);
  if (word.n == 0) {
    return fail_field(p, at, f,
                      f->kind == KIND_ENUM ? "write a name or a number" : "write a number",
                      "has no value here");
  }
  if (f->kind == KIND_ENUM)
    WF_RETURN_IF_ERROR(read_enum(p, f, at, is_negative, word, &v));
  else if (f->kind == KIND_FLOAT || f->kind == KIND_DOUBLE)
    WF_RETURN_IF_ERROR(read_float(p, f, at, is_negative, word, &v));
  else
    WF_RETURN_IF_ERROR(read_int(p, f, at, is_negative, word, &v));
  put_number(p, f, v);
  return WEFT_OK;
}

/* ---- strings ------------------------------------------------------------------------------ */

/* Up to `most` digits of `base` at p->at; how many there were. */
static size_t take_digits(parser *p, size_t most, unsigned base, uint32_t *v) {
  size_t n = 0;
  uint64_t one;
  *v = 0;
  while (n < most && p->at < p->text.n &&
         parse_digits((wf_str){p->text.at + p->at, 1}, base, &one)) {
    *v = *v * base + (uint32_t)one;
    p->at++;
    n++;
  }
  return n;
}

/* \uD83D\uDE00 is one character, as in JSON. */
static bool read_code_point(parser *p, size_t n_digits) {
  uint32_t cp, low;
  if (take_digits(p, n_digits, 16, &cp) != n_digits || cp > 0x10ffff) return false;
  if (cp >= 0xd800 && cp < 0xdc00) {
    if (p->text.n - p->at < 6 || memcmp(p->text.at + p->at, "\\u", 2) != 0) return false;
    p->at += 2;
    if (take_digits(p, 4, 16, &low) != 4 || low < 0xdc00 || low > 0xdfff) return false;
    cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
  } else if (cp >= 0xdc00 && cp < 0xe000) {
    return false;
  }
  wf_buf_add_utf8(p->out, cp);
  return true;
}

/* What stands after a backslash. */
static bool read_escape(parser *p) {
  static const char letters[] = "ntrabfv\\'\"?", values[] = "\n\t\r\a\b\f\v\\'\"?";
  uint32_t v;
  if (p->at == p->text.n) return false;
  const char c = p->text.at[p->at];
  if (c >= '0' && c <= '7') {
    (void)take_digits(p, 3, 8, &v);
    wf_buf_putc(p->out, (char)(v & 0xff));
    return v <= 0xff;
  }
  p->at++;
  if (c == 'x') {
    if (take_digits(p, 2, 16, &v) == 0) return false;
    wf_buf_putc(p->out, (char)v);
    return true;
  }
  if (c == 'u') return read_code_point(p, 4);
  if (c == 'U') return read_code_point(p, 8);
  const char *known = c ? strchr(letters, c) : NULL;
  if (known) wf_buf_putc(p->out, values[known - letters]);
  return known != NULL;
}

static weft_status read_literal(parser *p, const wire_field *f) {
  const size_t open_at = p->at;
  const char quote = p->text.at[p->at++];
  for (;;) {
    const size_t first = p->at;
    while (p->at < p->text.n && p->text.at[p->at] != quote && p->text.at[p->at] != '\\' &&
           p->text.at[p->at] != '\n') {
      p->at++;
    }
    wf_buf_add(p->out, p->text.at + first, p->at - first);
    if (p->at == p->text.n || p->text.at[p->at] == '\n')
      return fail_field(p, open_at, f, "close the string on its line; write \\n for a line's end",
                        "has a string without an end");
    if (p->text.at[p->at] == quote) break;
    const size_t at = p->at++;
    if (!read_escape(p))
      return fail_field(p, at, f, "use \\n, \\\", \\\\, \\ooo, \\xHH, \\uHHHH or \\UHHHHHHHH",
                        "has an escape that means nothing");
  }
  p->at++;
  return WEFT_OK;
}

static weft_status read_string(parser *p, const wire_field *f) {
  char c = peek(p);
  if (c != '"' && c != '\'') {
    return fail_field(p, p->at, f, "put the text in quotes", "needs a string in quotes");
  }
  put_tag(p, f, WIRE_BYTES);
  const gap g = gap_open(p);
  for (; c == '"' || c == '\''; c = peek(p)) WF_RETURN_IF_ERROR(read_literal(p, f));
  gap_close(p, g);
  return WEFT_OK;
}

/* ---- fields ------------------------------------------------------------------------------- */

static weft_status open_child(parser *p, const wire_field *f, bool in_list) {
  const char c = peek(p);
  if (c != '{' && c != '<') {
    return fail_field(p, p->at, f, "write { ... } after its name",
                      "is a message and needs a brace here");
  }
  if (p->depth == MAX_DEPTH) {
    return fail(p, p->at, "nest less", "field '%s' is nested more than %d deep", f->name,
                MAX_DEPTH);
  }
  put_tag(p, f, WIRE_BYTES);
  const open_message child = {.message = f->message,
                              .field = f,
                              .open_at = p->at,
                              .gap = gap_open(p),
                              .closer = c == '{' ? '}' : '>',
                              .in_list = in_list};
  p->at++;
  p->stack[++p->depth] = child;
  return WEFT_OK;
}

static weft_status end_field(parser *p) {
  if (!take(p, ',')) (void)take(p, ';');
  return WEFT_OK;
}

static weft_status read_scalar(parser *p, const wire_field *f) {
  return f->kind == KIND_STRING ? read_string(p, f) : read_number(p, f);
}

/* After an element of a list: *more when another one follows. */
static weft_status next_in_list(parser *p, const wire_field *f, bool *more) {
  *more = take(p, ',');
  if (*more || take(p, ']')) return WEFT_OK;
  return fail_field(p, p->at, f, "put ',' between values and ']' after the last one",
                    "has a list without its end here");
}

/* After "[". */
static weft_status read_list(parser *p, const wire_field *f) {
  bool more = true;
  if (take(p, ']')) return end_field(p);
  if (f->kind == KIND_MESSAGE) return open_child(p, f, true);
  while (more) {
    WF_RETURN_IF_ERROR(read_scalar(p, f));
    WF_RETURN_IF_ERROR(next_in_list(p, f, &more));
  }
  return end_field(p);
}

static weft_status close_child(parser *p) {
  const open_message m = p->stack[p->depth];
  bool more = false;
  p->at++;
  end_packed(p, &p->stack[p->depth]);
  gap_close(p, m.gap);
  p->depth--;
  if (m.in_list) WF_RETURN_IF_ERROR(next_in_list(p, m.field, &more));
  return more ? open_child(p, m.field, true) : end_field(p);
}

static weft_status find_field(parser *p, size_t at, wf_str name, const wire_field **result) {
  open_message *m = &p->stack[p->depth];
  for (size_t i = 0; i < m->message->n_fields; i++) {
    const wire_field *f = &m->message->fields[i];
    if (!wf_str_is(name, f->name)) continue;
    if (!f->is_repeated && (m->seen >> i & 1)) {
      return fail_field(p, at, f, "leave it once", "comes twice, but holds one value");
    }
    if (f->is_one_of && m->one_of) {
      return fail(p, at, "leave one of the two", "'%s' and '%s' of %s exclude each other", f->name,
                  m->one_of->name, m->message->name);
    }
    m->seen |= UINT64_C(1) << i;
    if (f->is_one_of) m->one_of = f;
    if (f != m->packed) end_packed(p, m);
    *result = f;
    return WEFT_OK;
  }
  return fail(p, at, "correct the name, or take the field out", "%s has no field '%.*s'",
              m->message->name, shown(name), name.at);
}

static weft_status read_field(parser *p) {
  const size_t at = p->at;
  const char c = p->text.at[at];
  const wire_field *f = NULL;
  if (c == '[') {
    return fail(p, at, "take it out: ONNX's messages have no extensions",
                "an extension or Any in %s", p->stack[p->depth].message->name);
  }
  if (!is_letter(c)) {
    const open_message *m = &p->stack[p->depth];
    if ((c == '}' || c == '>') && m->closer) {
      return fail_field(p, at, m->field, "close each brace by its own kind",
                        "is closed by the other kind of brace");
    }
    return fail(p, at, "write 'name: value' or 'name { ... }'", "a field of %s is expected here",
                m->message->name);
  }
  WF_RETURN_IF_ERROR(find_field(p, at, take_word(p), &f));
  const bool has_colon = take(p, ':');
  if (!has_colon && f->kind != KIND_MESSAGE) {
    return fail_field(p, p->at, f, "write 'name: value'", "needs ':' before its value");
  }
  if (take(p, '[')) {
    if (f->is_repeated) return read_list(p, f);
    return fail_field(p, p->at - 1, f, "write one value without brackets",
                      "holds one value, not a list");
  }
  if (f->kind == KIND_MESSAGE) return open_child(p, f, false);
  WF_RETURN_IF_ERROR(read_scalar(p, f));
  return end_field(p);
}

static weft_status walk(parser *p) {
  if (wf_str_starts(p->text, WF_STR("\xef\xbb\xbf"))) p->at = 3;
  for (;;) {
    const char c = peek(p);
    open_message *m = &p->stack[p->depth];
    if (p->out->failed || p->failed) return wf_fail_memory(p->err, p->out->n, "an ONNX model");
    if (p->at == p->text.n) break;
    if (m->closer && c == m->closer)
      WF_RETURN_IF_ERROR(close_child(p));
    else
      WF_RETURN_IF_ERROR(read_field(p));
  }
  const open_message *m = &p->stack[p->depth];
  if (p->depth) {
    return fail(p, m->open_at, "close it, or fetch the file again if it was cut",
                "the brace of field '%s' is never closed", m->field->name);
  }
  end_packed(p, &p->stack[0]);
  return WEFT_OK;
}

weft_status wf_onnx_from_text(wf_str text, const char *name, wf_buf *out, weft_error *err) {
  if (text.n > ONNX_MAX_TEXT_BYTES) {
    return wf_fail(err, WEFT_LIMIT, "convert the model to its binary form",
                   "%s: %zu bytes are more than a text model may have", name, text.n);
  }
  parser *p = wf_zalloc(sizeof *p);
  if (!p) return wf_fail_memory(err, sizeof *p, "an ONNX model");
  p->name = name;
  p->text = text;
  p->out = out;
  p->err = err;
  p->stack[0].message = &onnx_wire_model;
  wf_buf_clear(out);
  weft_status st = walk(p);
  if (st == WEFT_OK && (out->failed || p->failed))
    st = wf_fail_memory(err, out->n, "an ONNX model");
  if (st == WEFT_OK) close_gaps(p);
  wf_vec_free(&p->lengths);
  wf_free(p);
  return st;
}
