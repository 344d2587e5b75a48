/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

typedef struct status_row {
  weft_status status;
  const char *name;
  int http;
  int may_retry;
  const char *type;
} status_row;

static const status_row status_rows[] = {
#define STATUS_ROW(name, number, http, retry, type) {WEFT_##name, #name, http, retry, type},
    WEFT_STATUS_MAP(STATUS_ROW)
#undef STATUS_ROW
};

static const status_row *find_row(weft_status status) {
  for (size_t i = 0; i < WF_ARRAY_LEN(status_rows); i++) {
    if (status_rows[i].status == status) return &status_rows[i];
  }
  return NULL;
}

const char *weft_status_name(weft_status status) {
  const status_row *row = find_row(status);
  return row ? row->name : "UNKNOWN";
}

int weft_status_http(weft_status status) {
  const status_row *row = find_row(status);
  return row ? row->http : 500;
}

const char *weft_status_type(weft_status status) {
  const status_row *row = find_row(status);
  return row ? row->type : "internal_error";
}

int weft_status_may_retry(weft_status status) {
  const status_row *row = find_row(status);
  return row ? row->may_retry : 0;
}

/* Copies text into a fixed field: ill-formed UTF-8 and control characters become U+FFFD, and the
 * cut, if any, falls between characters. */
static void copy_clean(char *dst, size_t dst_size, const char *src) {
  const size_t n = strlen(src);
  size_t out = 0;
  for (size_t at = 0; at < n;) {
    uint32_t cp = 0;
    size_t used = wf_utf8_decode(src + at, n - at, &cp);
    const bool ok = used > 0 && cp >= 0x20 && cp != 0x7f && !(cp >= 0x80 && cp < 0xa0);
    if (used == 0) used = 1;
    const char *piece = ok                                        ? src + at
                        : (cp == '\n' || cp == '\t') && used == 1 ? " "
                                                                  : "\xef\xbf\xbd";
    const size_t piece_len = ok ? used : strlen(piece);
    if (out + piece_len + 1 > dst_size) break;
    memcpy(dst + out, piece, piece_len);
    out += piece_len;
    at += used;
  }
  dst[out] = '\0';
}

/* The room of a field in the caller's struct, which may be older and end before or within it. */
static size_t room_of(const weft_error *err, size_t at, size_t size) {
  const size_t end = err->struct_size ? err->struct_size : sizeof *err;
  return end <= at ? 0 : end - at < size ? end - at : size;
}

static void put_text(weft_error *err, char *field, size_t size, const char *text) {
  const size_t room = room_of(err, (size_t)(field - (char *)err), size);
  if (room) copy_clean(field, room, text);
}

weft_status wf_fail(weft_error *err, weft_status status, const char *fix, const char *what_fmt,
                    ...) {
  if (!err) return status;
  char raw[sizeof err->what * 2];
  va_list args;
  va_start(args, what_fmt);
  const int n = vsnprintf(raw, sizeof raw, what_fmt, args);
  va_end(args);
  if (room_of(err, offsetof(weft_error, status), sizeof err->status)) err->status = status;
  put_text(err, err->what, sizeof err->what, n < 0 ? weft_status_name(status) : raw);
  put_text(err, err->fix, sizeof err->fix, fix ? fix : "");
  return status;
}

weft_status wf_fail_in(weft_error *err, weft_status status, const char *context_fmt, ...) {
  if (!err || status == WEFT_OK || !room_of(err, offsetof(weft_error, what), sizeof err->what)) {
    return status;
  }
  char raw[sizeof err->what * 2];
  va_list args;
  va_start(args, context_fmt);
  int n = vsnprintf(raw, sizeof raw, context_fmt, args);
  va_end(args);
  if (n < 0) n = 0;
  if ((size_t)n < sizeof raw - 1) {
    size_t room = sizeof raw - 1 - (size_t)n;
    const size_t len = strlen(err->what);
    if (len < room) room = len;
    memcpy(raw + n, err->what, room);
    raw[(size_t)n + room] = '\0';
  }
  put_text(err, err->what, sizeof err->what, raw);
  return status;
}

void wf_error_pass_on(weft_error *err, const weft_error *from) {
  const bool has_fix = room_of(from, offsetof(weft_error, fix), sizeof from->fix) > 0;
  const bool has_what = room_of(from, offsetof(weft_error, what), sizeof from->what) > 0;
  wf_fail(err, from->status, has_fix ? from->fix : NULL, "%s",
          has_what ? from->what : weft_status_name(from->status));
}

weft_status wf_fail_memory(weft_error *err, size_t n_bytes, const char *for_what) {
  return wf_fail(err, WEFT_OUT_OF_MEMORY, "free memory or use a smaller model or context",
                 "no memory for %s (%zu bytes)", for_what, n_bytes);
}
