/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/utf8.h"

bool wf_str_starts(wf_str s, wf_str prefix) {
  return s.n >= prefix.n && (prefix.n == 0 || memcmp(s.at, prefix.at, prefix.n) == 0);
}

bool wf_str_ends(wf_str s, wf_str suffix) {
  return s.n >= suffix.n &&
         (suffix.n == 0 || memcmp(s.at + (s.n - suffix.n), suffix.at, suffix.n) == 0);
}

size_t wf_str_find(wf_str s, wf_str needle, size_t from) {
  if (from > s.n || needle.n > s.n - from) return SIZE_MAX;
  if (needle.n == 0) return from;
  const char *hit = memmem(s.at + from, s.n - from, needle.at, needle.n);
  return hit ? (size_t)(hit - s.at) : SIZE_MAX;
}

void wf_buf_deinit(wf_buf *b) {
  wf_free(b->at);
  *b = (wf_buf){0};
}

void wf_buf_clear(wf_buf *b) {
  b->n = 0;
  b->failed = false;
  if (b->at) b->at[0] = '\0';
}

bool wf_buf_reserve(wf_buf *b, size_t more) {
  size_t need;
  if (b->failed || !wf_size_add(b->n, more, &need) || !wf_size_add(need, 1, &need)) {
    b->failed = true;
    return false;
  }
  if (need <= b->capacity) return true;
  size_t wanted = b->capacity < 64 ? 64 : b->capacity + b->capacity / 2;
  if (wanted < need) wanted = need;
  char *grown = wf_realloc(b->at, wanted);
  if (!grown) {
    b->failed = true;
    return false;
  }
  b->at = grown;
  b->capacity = wanted;
  return true;
}

void wf_buf_add(wf_buf *b, const void *bytes, size_t n) {
  if (!wf_buf_reserve(b, n)) return;
  if (n) memcpy(b->at + b->n, bytes, n);
  b->n += n;
  b->at[b->n] = '\0';
}

void wf_buf_add_str(wf_buf *b, wf_str s) { wf_buf_add(b, s.at, s.n); }
void wf_buf_puts(wf_buf *b, const char *s) { wf_buf_add(b, s, strlen(s)); }
void wf_buf_putc(wf_buf *b, char c) { wf_buf_add(b, &c, 1); }

void wf_buf_printf(wf_buf *b, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  va_list again;
  va_copy(again, args);
  const int n = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  if (n < 0) {
    b->failed = true;
  } else if (wf_buf_reserve(b, (size_t)n)) {
    vsnprintf(b->at + b->n, (size_t)n + 1, fmt, again);
    b->n += (size_t)n;
  }
  va_end(again);
}

void wf_buf_add_utf8(wf_buf *b, uint32_t cp) {
  char text[4];
  const size_t n = wf_utf8_encode(cp, text);
  if (n)
    wf_buf_add(b, text, n);
  else
    wf_buf_puts(b, "\xef\xbf\xbd");
}

static void add_u16_escape(wf_buf *b, uint32_t unit) {
  wf_buf_printf(b, "\\u%04x", (unsigned)unit);
}

static void add_json_char(wf_buf *b, uint32_t cp, const char *bytes, size_t n, bool ascii) {
  static const char named[] = "\"\"\\\\\bb\ff\nn\rr\tt";
  for (size_t i = 0; i + 1 < sizeof named; i += 2) {
    if (cp == (unsigned char)named[i]) {
      wf_buf_putc(b, '\\');
      wf_buf_putc(b, named[i + 1]);
      return;
    }
  }
  if (cp < 0x20 || (ascii && cp >= 0x7f && cp < 0x10000)) {
    add_u16_escape(b, cp);
  } else if (ascii && cp >= 0x10000) {
    add_u16_escape(b, 0xd800 + ((cp - 0x10000) >> 10));
    add_u16_escape(b, 0xdc00 + ((cp - 0x10000) & 0x3ff));
  } else {
    wf_buf_add(b, bytes, n);
  }
}

void wf_buf_add_json_string(wf_buf *b, wf_str s, bool ascii) {
  wf_buf_putc(b, '"');
  for (size_t at = 0; at < s.n;) {
    uint32_t cp;
    size_t used = wf_utf8_decode(s.at + at, s.n - at, &cp);
    if (used) {
      add_json_char(b, cp, s.at + at, used, ascii);
    } else {
      bool is_cut;
      used = wf_utf8_bad_length(s.at + at, s.n - at, &is_cut);
      add_json_char(b, 0xfffd, "\xef\xbf\xbd", 3, ascii);
    }
    at += used;
  }
  wf_buf_putc(b, '"');
}

const char *wf_buf_cstr(wf_buf *b) {
  if (b->failed) return NULL;
  return b->at ? b->at : "";
}

char *wf_buf_take(wf_buf *b) {
  if (!wf_buf_reserve(b, 0)) {
    wf_buf_deinit(b);
    return NULL;
  }
  b->at[b->n] = '\0';
  char *text = b->at;
  *b = (wf_buf){0};
  return text;
}
