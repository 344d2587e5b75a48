/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds-checked protobuf reader. */
#include "onnx/wire.h"

#include <stdarg.h>
#include <stdio.h>

weft_status wire_fail(const wire_file *file, const wire_message *message, const unsigned char *at,
                      weft_error *err, const char *fmt, ...) {
  char text[256];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  if (file->is_text) {
    return wf_fail(err, WEFT_PACKAGE_INVALID,
                   "repair the text: it has ONNX's fields, but is no ONNX model", "%s: %s: %s",
                   file->name, message->name, text);
  }
  return wf_fail(err, WEFT_PACKAGE_INVALID,
                 "the file is damaged or is no ONNX model: fetch or export it again",
                 "%s: %s at byte %zu: %s", file->name, message->name, (size_t)(at - file->base),
                 text);
}

bool wire_varint(const unsigned char **at, const unsigned char *end, uint64_t *v) {
  const unsigned char *p = *at;
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    if (p == end) return false;
    const uint64_t byte = *p++;
    if (shift == 63 && byte > 1) return false; /* more than 64 bits */
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      *at = p;
      *v = value;
      return true;
    }
  }
  return false;
}

wire_type wire_type_of(const wire_field *f) {
  static const uint8_t types[] = {
      [KIND_INT64] = WIRE_VARINT, [KIND_INT32] = WIRE_VARINT,  [KIND_UINT64] = WIRE_VARINT,
      [KIND_ENUM] = WIRE_VARINT,  [KIND_FLOAT] = WIRE_FIXED32, [KIND_DOUBLE] = WIRE_FIXED64,
      [KIND_STRING] = WIRE_BYTES, [KIND_MESSAGE] = WIRE_BYTES};
  return (wire_type)types[f->kind];
}

wire_reader wire_open(const wire_file *file, const wire_message *message, wire_span bytes,
                      weft_error *err) {
  return (wire_reader){file, message, bytes.at, bytes.at + bytes.n, 0, err};
}

static weft_status read_payload(wire_reader *r, wire_item *item) {
  const size_t left = (size_t)(r->end - r->at);
  switch (item->type) {
    case WIRE_VARINT:
      if (!wire_varint(&r->at, r->end, &item->u)) {
        return wire_fail(r->file, r->message, item->at, r->err, "the number of field %u is cut",
                         item->number);
      }
      return WEFT_OK;
    case WIRE_FIXED64:
    case WIRE_FIXED32: {
      const size_t n = item->type == WIRE_FIXED64 ? 8 : 4;
      if (left < n) {
        return wire_fail(r->file, r->message, item->at, r->err, "the number of field %u is cut",
                         item->number);
      }
      for (size_t i = 0; i < n; i++) item->u |= (uint64_t)r->at[i] << 8 * i;
      r->at += n;
      return WEFT_OK;
    }
    case WIRE_BYTES: {
      uint64_t n;
      if (!wire_varint(&r->at, r->end, &n)) {
        return wire_fail(r->file, r->message, item->at, r->err, "the length of field %u is cut",
                         item->number);
      }
      if (n > (uint64_t)(r->end - r->at)) {
        return wire_fail(r->file, r->message, item->at, r->err,
                         "field %u claims %llu bytes, but %zu are left", item->number,
                         (unsigned long long)n, (size_t)(r->end - r->at));
      }
      item->bytes = (wire_span){r->at, (size_t)n};
      r->at += n;
      return WEFT_OK;
    }
  }
  return wire_fail(r->file, r->message, item->at, r->err, "field %u has no known wire type",
                   item->number);
}

/* Fields come mostly in the order of their table, but the tables are short. */
static size_t find_field(const wire_message *m, uint32_t number) {
  for (size_t i = 0; i < m->n_fields; i++) {
    if (m->fields[i].number == number) return i;
  }
  return m->n_fields;
}

weft_status wire_next(wire_reader *r, wire_item *item, bool *more) {
  for (;;) {
    *item = (wire_item){0};
    *more = r->at != r->end;
    if (!*more) return WEFT_OK;
    item->at = r->at;
    uint64_t tag;
    if (!wire_varint(&r->at, r->end, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_C(0x1fffffff)) {
      return wire_fail(r->file, r->message, item->at, r->err, "this is no field tag");
    }
    item->number = (uint32_t)(tag >> 3);
    const unsigned type = (unsigned)(tag & 7);
    if (type != WIRE_VARINT && type != WIRE_FIXED64 && type != WIRE_BYTES && type != WIRE_FIXED32) {
      return wire_fail(r->file, r->message, item->at, r->err, "field %u has wire type %u",
                       item->number, type);
    }
    item->type = (wire_type)type;
    WF_RETURN_IF_ERROR(read_payload(r, item));
    const size_t at = find_field(r->message, item->number);
    if (at == r->message->n_fields) {
      if (r->file->is_newer) continue;
      return wire_fail(r->file, r->message, item->at, r->err, "field %u is unknown", item->number);
    }
    const wire_field *f = &r->message->fields[at];
    const bool is_packed = f->is_repeated && type == WIRE_BYTES;
    if (type != wire_type_of(f) && !is_packed) {
      return wire_fail(r->file, r->message, item->at, r->err,
                       "field %u has wire type %u instead of %u", item->number, type,
                       wire_type_of(f));
    }
    const uint64_t bit = UINT64_C(1) << at;
    if (!f->is_repeated && (r->seen & bit)) {
      return wire_fail(r->file, r->message, item->at, r->err, "field %u comes twice", item->number);
    }
    r->seen |= bit;
    return WEFT_OK;
  }
}

weft_status wire_count(const wire_reader *r, const wire_item *item, wire_type type, size_t *n) {
  if (item->type != WIRE_BYTES) {
    *n = 1;
    return WEFT_OK;
  }
  const wire_span s = item->bytes;
  bool is_whole;
  if (type == WIRE_VARINT) {
    size_t count = 0, run = 0;
    is_whole = s.n == 0 || s.at[s.n - 1] < 0x80;
    for (size_t i = 0; i < s.n && is_whole; i++) {
      run++;
      if (run > 10 || (run == 10 && s.at[i] > 1)) is_whole = false;
      if (s.at[i] < 0x80) count++, run = 0;
    }
    *n = count;
  } else {
    const size_t size = type == WIRE_FIXED64 ? 8 : 4;
    is_whole = s.n % size == 0;
    *n = s.n / size;
  }
  if (is_whole) return WEFT_OK;
  return wire_fail(r->file, r->message, item->at, r->err, "the packed list of field %u is cut",
                   item->number);
}

size_t wire_numbers(const wire_item *item, wire_type type, uint64_t *out) {
  if (item->type != WIRE_BYTES) {
    out[0] = item->u;
    return 1;
  }
  const unsigned char *at = item->bytes.at, *end = at + item->bytes.n;
  size_t n = 0;
  if (type == WIRE_VARINT) {
    while (at != end && wire_varint(&at, end, &out[n])) n++;
    return n;
  }
  const size_t size = type == WIRE_FIXED64 ? 8 : 4;
  for (; at != end; at += size) {
    uint64_t v = 0;
    for (size_t i = 0; i < size; i++) v |= (uint64_t)at[i] << 8 * i;
    out[n++] = v;
  }
  return n;
}
