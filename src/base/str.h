/* SPDX-License-Identifier: Apache-2.0 */
/* Byte strings: a borrowed view, a growable buffer, and numbers read and written without regard to
 * the process's locale. */
#ifndef WF_STR_H
#define WF_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

/* A borrowed run of bytes; not terminated, may hold NUL. */
typedef struct wf_str {
  const char *at;
  size_t n;
} wf_str;

#define WF_STR(literal) ((wf_str){"" literal, sizeof(literal) - 1})

static inline wf_str wf_str_of(const char *s) { return (wf_str){s, s ? strlen(s) : 0}; }
static inline bool wf_str_eq(wf_str a, wf_str b) {
  return a.n == b.n && (a.n == 0 || memcmp(a.at, b.at, a.n) == 0);
}
static inline bool wf_str_is(wf_str a, const char *s) { return wf_str_eq(a, wf_str_of(s)); }
bool wf_str_starts(wf_str s, wf_str prefix);
bool wf_str_ends(wf_str s, wf_str suffix);
/* Offset of `needle` at or after `from`, SIZE_MAX if absent. Linear time. */
size_t wf_str_find(wf_str s, wf_str needle, size_t from);

/* Growable bytes. Errors stick: after memory ran out `failed` is true, further appends do nothing,
 * and the caller checks once at the end. `at` is terminated whenever n > 0 or capacity > 0. */
typedef struct wf_buf {
  char *at;
  size_t n, capacity;
  bool failed;
} wf_buf;

void wf_buf_deinit(wf_buf *b);
void wf_buf_clear(wf_buf *b); /* keeps the memory, clears `failed` */
bool wf_buf_reserve(wf_buf *b, size_t more);
void wf_buf_add(wf_buf *b, const void *bytes, size_t n);
void wf_buf_add_str(wf_buf *b, wf_str s);
void wf_buf_puts(wf_buf *b, const char *s);
void wf_buf_putc(wf_buf *b, char c);
void wf_buf_printf(wf_buf *b, const char *fmt, ...) WF_PRINTF(2, 3); /* no floats: locale */
void wf_buf_add_utf8(wf_buf *b, uint32_t cp);
/* The shortest decimal text that reads back to the same double, in Python's repr form ("1.0",
 * "1e-07", "inf", "nan"). */
void wf_buf_add_f64(wf_buf *b, double v);
/* A JSON string with quotes. Ill-formed UTF-8 comes out as U+FFFD. ascii: \uXXXX above 0x7e. */
void wf_buf_add_json_string(wf_buf *b, wf_str s, bool ascii);
/* Terminated contents, "" when empty; NULL when an append failed. Borrowed. */
const char *wf_buf_cstr(wf_buf *b);
/* Moves the terminated contents out to the caller (wf_free); NULL when an append failed. */
char *wf_buf_take(wf_buf *b);

/* Reads a whole decimal integer; false on junk, a sign where none fits, or overflow. */
bool wf_parse_i64(wf_str s, int64_t *result);
bool wf_parse_u64(wf_str s, uint64_t *result);
/* Reads a whole decimal floating-point number, correctly rounded. "inf"/"nan" are junk. */
bool wf_parse_f64(wf_str s, double *result);
/* Reads "2026-01-02", "2026-01-02T03:04" or "2026-01-02T03:04:05" (a blank for the T is fine) into
 * seconds since 1970, as if it were UTC; false on junk and on days that no calendar has. */
bool wf_parse_time(wf_str s, int64_t *seconds);

#endif
