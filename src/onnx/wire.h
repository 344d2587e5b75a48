/* SPDX-License-Identifier: Apache-2.0 */
/* The protobuf wire format, read in place and checked against a table of each message's fields.
 * Private to src/onnx. All structure checks are made here, once: tags, wire types, lengths, fields
 * that may not repeat and fields that nobody knows. */
#ifndef WF_ONNX_WIRE_H
#define WF_ONNX_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "onnx/write.h"

typedef enum wire_kind {
  KIND_INT64,
  KIND_INT32,
  KIND_UINT64,
  KIND_ENUM,
  KIND_FLOAT,
  KIND_DOUBLE,
  KIND_STRING, /* or bytes: neither is judged here */
  KIND_MESSAGE
} wire_kind;

typedef struct wire_message wire_message;

typedef struct wire_name {
  const char *name; /* NULL ends the list */
  int32_t value;
} wire_name;

typedef struct wire_field {
  const char *name;
  const wire_message *message; /* of MESSAGE */
  const wire_name *names;      /* of ENUM */
  uint8_t number;
  uint8_t kind; /* of one element; a repeated number may also come packed in bytes */
  bool is_repeated;
  bool is_packed; /* a list of numbers that writers pack */
  bool is_one_of; /* only one such field may be set: no message here has two groups of them */
} wire_field;

struct wire_message {
  const char *name;
  const wire_field *fields;
  size_t n_fields; /* at most 64 */
};

/* What all messages of one file share. */
typedef struct wire_file {
  const char *name; /* for errors */
  const unsigned char *base;
  bool is_newer; /* written after the newest version known here: unknown fields are skipped */
  bool is_text;  /* the bytes are what a text was translated to */
} wire_file;

typedef struct wire_span {
  const unsigned char *at;
  size_t n;
} wire_span;

typedef struct wire_reader {
  const wire_file *file;
  const wire_message *message;
  const unsigned char *at, *end;
  uint64_t seen; /* bit i: fields[i] has come */
  weft_error *err;
} wire_reader;

typedef struct wire_item {
  uint32_t number;         /* of a known field */
  wire_type type;          /* as found: BYTES for a packed list of numbers */
  uint64_t u;              /* VARINT, FIXED32, FIXED64 */
  wire_span bytes;         /* BYTES */
  const unsigned char *at; /* of the tag */
} wire_item;

/* How one element of a field is written. */
wire_type wire_type_of(const wire_field *f);
wire_reader wire_open(const wire_file *file, const wire_message *message, wire_span bytes,
                      weft_error *err);
/* The item as it stands, tag and all, of the reader that has just given it. */
static inline void wire_copy(wf_buf *out, const wire_item *item, const wire_reader *r) {
  wf_buf_add(out, item->at, (size_t)(r->at - item->at));
}
/* The next known field; *more is false at the end. PACKAGE_INVALID on damage. */
weft_status wire_next(wire_reader *r, wire_item *item, bool *more) WF_NODISCARD;
/* PACKAGE_INVALID: "file: MESSAGE at byte N: <text>"; without N where the file is a text. */
weft_status wire_fail(const wire_file *file, const wire_message *message, const unsigned char *at,
                      weft_error *err, const char *fmt, ...) WF_PRINTF(5, 6);
/* Reads one varint; false when it is cut or longer than ten bytes. */
bool wire_varint(const unsigned char **at, const unsigned char *end, uint64_t *v);
/* Elements in a numeric item: 1, or the length of a packed list whose elements are `type`. */
weft_status wire_count(const wire_reader *r, const wire_item *item, wire_type type,
                       size_t *n) WF_NODISCARD;
/* Appends the item's elements (checked by wire_count before) to out; gives how many. */
size_t wire_numbers(const wire_item *item, wire_type type, uint64_t *out);

static inline wf_str wire_str(wire_span s) { return (wf_str){(const char *)s.at, s.n}; }

#endif
