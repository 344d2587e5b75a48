/* SPDX-License-Identifier: Apache-2.0 */
/* TensorProto: where the bytes of a tensor are, checked against its shape and type. */
#include <string.h>

#include "onnx/onnx_reader.h"

/* What the fields of one TensorProto say, before they are checked against each other. */
typedef struct raw_tensor {
  const unsigned char *at;
  size_t n_dims, n_floats, n_int32s, n_strings, n_int64s, n_doubles, n_uint64s;
  bool has_raw, is_external;
  wire_span raw;
  wf_str location;
  uint64_t offset, length;
  bool has_length;
} raw_tensor;

static weft_status fail_at(onnx_reader *r, const raw_tensor *raw, const wf_tensor *t,
                           const char *text) {
  return wire_fail(&r->file, &onnx_wire_tensor, raw->at, r->err, "tensor '%.*s': %s",
                   (int)(t->name.n < 100 ? t->name.n : 100), t->name.at ? t->name.at : "", text);
}

static weft_status read_external_entry(onnx_reader *r, wire_span bytes, raw_tensor *raw,
                                       const wf_tensor *t) {
  wire_reader w = wire_open(&r->file, &onnx_wire_prop, bytes, r->err);
  wire_item item;
  bool more;
  wf_str key = {0}, value = {0};
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&w, &item, &more));
    if (!more) break;
    *(item.number == 1 ? &key : &value) = wire_str(item.bytes);
  }
  if (wf_str_is(key, "location")) {
    raw->location = value;
  } else if (wf_str_is(key, "offset")) {
    if (!wf_parse_u64(value, &raw->offset)) return fail_at(r, raw, t, "its offset is no number");
  } else if (wf_str_is(key, "length")) {
    if (!wf_parse_u64(value, &raw->length)) return fail_at(r, raw, t, "its length is no number");
    raw->has_length = true;
  }
  return WEFT_OK;
}

/* First look: scalars are taken, lists are counted. */
static weft_status scan(onnx_reader *r, wire_span bytes, raw_tensor *raw, wf_tensor *t) {
  wire_reader w = wire_open(&r->file, &onnx_wire_tensor, bytes, r->err);
  wire_item item;
  bool more;
  uint64_t dtype = 0;
  for (;;) {
    size_t n = 0;
    WF_RETURN_IF_ERROR(wire_next(&w, &item, &more));
    if (!more) break;
    switch (item.number) {
      case 1:
        WF_RETURN_IF_ERROR(wire_count(&w, &item, WIRE_VARINT, &n));
        raw->n_dims += n;
        break;
      case 2:
        dtype = item.u;
        break;
      case 3:
        return fail_at(r, raw, t, "tensors stored in segments are not supported");
      case 4:
        WF_RETURN_IF_ERROR(wire_count(&w, &item, WIRE_FIXED32, &n));
        raw->n_floats += n;
        break;
      case 5:
        WF_RETURN_IF_ERROR(wire_count(&w, &item, WIRE_VARINT, &n));
        raw->n_int32s += n;
        break;
      case 6:
        raw->n_strings++;
        break;
      case 7:
        WF_RETURN_IF_ERROR(wire_count(&w, &item, WIRE_VARINT, &n));
        raw->n_int64s += n;
        break;
      case 8:
        t->name = wire_str(item.bytes);
        break;
      case 9:
        raw->has_raw = true;
        raw->raw = item.bytes;
        break;
      case 10:
        WF_RETURN_IF_ERROR(wire_count(&w, &item, WIRE_FIXED64, &n));
        raw->n_doubles += n;
        break;
      case 11:
        WF_RETURN_IF_ERROR(wire_count(&w, &item, WIRE_VARINT, &n));
        raw->n_uint64s += n;
        break;
      case 13:
        WF_RETURN_IF_ERROR(read_external_entry(r, item.bytes, raw, t));
        break;
      case 14:
        if (item.u > 1) return fail_at(r, raw, t, "its data_location is unknown");
        raw->is_external = item.u == 1;
        break;
      default:
        break;
    }
  }
  if (dtype == 0 || dtype >= WF_DTYPE_COUNT) return fail_at(r, raw, t, "its data type is unknown");
  t->dtype = (wf_dtype)dtype;
  return WEFT_OK;
}

/* Numbers of one repeated field, in order, into an arena list of `n`. */
static weft_status collect(onnx_reader *r, wire_span bytes, uint32_t number, wire_type type,
                           size_t n, uint64_t **list) {
  void *p;
  WF_RETURN_IF_ERROR(onnx_list(r, &onnx_wire_tensor, bytes.at, n, sizeof **list, &p));
  *list = p;
  wire_reader w = wire_open(&r->file, &onnx_wire_tensor, bytes, r->err);
  wire_item item;
  bool more;
  size_t at = 0;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&w, &item, &more));
    if (!more) return WEFT_OK;
    if (item.number == number) at += wire_numbers(&item, type, *list + at);
  }
}

static weft_status read_dims(onnx_reader *r, wire_span bytes, const raw_tensor *raw, wf_tensor *t) {
  if (raw->n_dims > ONNX_MAX_RANK) return fail_at(r, raw, t, "it has too many dimensions");
  uint64_t *dims;
  WF_RETURN_IF_ERROR(collect(r, bytes, 1, WIRE_VARINT, raw->n_dims, &dims));
  t->rank = (int32_t)raw->n_dims;
  int64_t *out = wf_arena_calloc(r->arena, raw->n_dims, sizeof *out);
  if (!out) return wf_fail_memory(r->err, raw->n_dims * sizeof *out, "the dims of a tensor");
  for (size_t i = 0; i < raw->n_dims; i++) out[i] = (int64_t)dims[i];
  t->dims = out;
  if (!wf_dims_count(out, raw->n_dims, &t->n)) {
    return fail_at(r, raw, t, "its dimensions are negative or too large");
  }
  if (t->dtype != WF_DTYPE_STRING && !wf_dtype_bytes(t->dtype, t->n, &t->n_bytes)) {
    return fail_at(r, raw, t, "its dimensions are too large");
  }
  return WEFT_OK;
}

static weft_status use_external(onnx_reader *r, const raw_tensor *raw, wf_tensor *t) {
  if (raw->location.n == 0) return fail_at(r, raw, t, "its external data has no location");
  if (t->dtype == WF_DTYPE_STRING) return fail_at(r, raw, t, "strings can't be external data");
  if (raw->has_length && raw->length != t->n_bytes) {
    return fail_at(r, raw, t, "the length of its external data is not what its shape needs");
  }
  if (r->options.without_external || t->n_bytes == 0) return WEFT_OK;
  wf_map *map;
  WF_RETURN_IF_ERROR(onnx_map_external(r, raw->location, &map));
  if (raw->offset > map->n_bytes || t->n_bytes > map->n_bytes - raw->offset) {
    return wf_fail(
        r->err, WEFT_PACKAGE_INVALID, "fetch the external data file again",
        "%s: tensor '%.*s' needs bytes %llu to %llu of '%s', which has %zu", r->file.name,
        (int)(t->name.n < 100 ? t->name.n : 100), t->name.at, (unsigned long long)raw->offset,
        (unsigned long long)(raw->offset + (uint64_t)t->n_bytes), map->path, map->n_bytes);
  }
  t->data = map->at + raw->offset;
  t->map = map;
  t->map_at = (size_t)raw->offset;
  return WEFT_OK;
}

static weft_status use_raw(onnx_reader *r, const raw_tensor *raw, wf_tensor *t) {
  if (t->dtype == WF_DTYPE_STRING) return fail_at(r, raw, t, "strings can't be raw data");
  if (raw->raw.n != t->n_bytes) {
    return fail_at(r, raw, t, "the size of its raw data is not what its shape needs");
  }
  if (t->n_bytes == 0) return WEFT_OK;
  t->data = raw->raw.at;
  t->map = r->main_map;
  t->map_at = (size_t)(raw->raw.at - r->file.base);
  return WEFT_OK;
}

static weft_status use_strings(onnx_reader *r, wire_span bytes, const raw_tensor *raw,
                               wf_tensor *t) {
  if (raw->n_strings != t->n)
    return fail_at(r, raw, t, "its shape needs another number of strings");
  void *p;
  WF_RETURN_IF_ERROR(onnx_list(r, &onnx_wire_tensor, raw->at, t->n, sizeof(wf_str), &p));
  wf_str *strings = p;
  wire_reader w = wire_open(&r->file, &onnx_wire_tensor, bytes, r->err);
  wire_item item;
  bool more;
  size_t n = 0;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&w, &item, &more));
    if (!more) break;
    if (item.number == 6) strings[n++] = wire_str(item.bytes);
  }
  t->strings = strings;
  return WEFT_OK;
}

/* The typed field that a dtype is stored in, how many numbers it needs and what it holds. */
typedef struct typed_field {
  uint32_t number;
  wire_type type;
  size_t n_there, n_needed;
} typed_field;

static typed_field field_of(const raw_tensor *raw, const wf_tensor *t) {
  const int bits = wf_dtype_bits(t->dtype);
  switch ((int)t->dtype) {
    case WF_DTYPE_F32:
      return (typed_field){4, WIRE_FIXED32, raw->n_floats, t->n};
    case WF_DTYPE_C64:
      return (typed_field){4, WIRE_FIXED32, raw->n_floats, 2 * t->n};
    case WF_DTYPE_F64:
      return (typed_field){10, WIRE_FIXED64, raw->n_doubles, t->n};
    case WF_DTYPE_C128:
      return (typed_field){10, WIRE_FIXED64, raw->n_doubles, 2 * t->n};
    case WF_DTYPE_I64:
      return (typed_field){7, WIRE_VARINT, raw->n_int64s, t->n};
    case WF_DTYPE_U64:
    case WF_DTYPE_U32:
      return (typed_field){11, WIRE_VARINT, raw->n_uint64s, t->n};
    default:
      return (typed_field){5, WIRE_VARINT, raw->n_int32s,
                           bits < 8 && bits != 6 ? t->n_bytes : t->n};
  }
}

/* Whether an int32_data number is one of the type: bytes and halves may be written with or without
 * their sign. */
static bool fits(wf_dtype t, int64_t v) {
  switch (wf_dtype_bits(t)) {
    case 6:
      return v >= 0 && v < 64;
    case 2:
    case 4:
    case 8:
      if (t == WF_DTYPE_BOOL) return v == 0 || v == 1;
      return v >= -128 && v <= 255;
    case 16:
      return v >= -32768 && v <= 65535;
    case 32:
      return v >= INT32_MIN && v <= (t == WF_DTYPE_U32 ? (int64_t)UINT32_MAX : INT32_MAX);
    default:
      return true;
  }
}

/* A list of floats that came in one packed piece already has the layout of raw data. */
static weft_status borrow_packed(onnx_reader *r, wire_span bytes, const typed_field *f,
                                 wf_tensor *t) {
  if (f->type == WIRE_VARINT) return WEFT_OK;
  wire_reader w = wire_open(&r->file, &onnx_wire_tensor, bytes, r->err);
  wire_item item;
  bool more;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&w, &item, &more));
    if (!more) return WEFT_OK;
    if (item.number != f->number || item.bytes.n != t->n_bytes) continue;
    t->data = item.bytes.at;
    t->map = r->main_map;
    t->map_at = (size_t)(item.bytes.at - r->file.base);
    return WEFT_OK;
  }
}

static weft_status use_typed(onnx_reader *r, wire_span bytes, const raw_tensor *raw, wf_tensor *t) {
  const typed_field f = field_of(raw, t);
  if (f.n_there != f.n_needed) {
    return fail_at(r, raw, t, "its shape needs another number of elements than it holds");
  }
  if (t->n_bytes == 0) return WEFT_OK;
  WF_RETURN_IF_ERROR(borrow_packed(r, bytes, &f, t));
  if (t->data) return WEFT_OK;
  unsigned char *out = wf_arena_alloc(r->arena, t->n_bytes);
  if (!out) return wf_fail_memory(r->err, t->n_bytes, "the data of a tensor");
  const size_t size = t->n_bytes / f.n_needed ? t->n_bytes / f.n_needed : 1;
  uint64_t *numbers;
  WF_RETURN_IF_ERROR(collect(r, bytes, f.number, f.type, f.n_there, &numbers));
  for (size_t i = 0; i < f.n_needed; i++) {
    if (f.type == WIRE_VARINT && size < 8) {
      int64_t v = (int64_t)numbers[i];
      /* Some writers cut negative int32 numbers to five bytes. */
      if (f.number == 5 && v > INT32_MAX && v <= (int64_t)UINT32_MAX) v -= INT64_C(1) << 32;
      if (!fits(t->dtype, v)) return fail_at(r, raw, t, "an element does not fit its data type");
      numbers[i] = (uint64_t)v;
    }
    if (wf_dtype_bits(t->dtype) == 6) {
      const size_t bit = 6 * i;
      out[bit / 8] |= (unsigned char)(numbers[i] << bit % 8);
      if (bit % 8 > 2) out[bit / 8 + 1] |= (unsigned char)(numbers[i] >> (8 - bit % 8));
    } else {
      memcpy(out + i * size, &numbers[i], size); /* little-endian, as the format */
    }
  }
  t->data = out;
  return WEFT_OK;
}

weft_status onnx_read_tensor(onnx_reader *r, wire_span bytes, wf_tensor *t) {
  raw_tensor raw = {.at = bytes.at};
  *t = (wf_tensor){0};
  WF_RETURN_IF_ERROR(scan(r, bytes, &raw, t));
  WF_RETURN_IF_ERROR(read_dims(r, bytes, &raw, t));
  const size_t n_typed = raw.n_floats + raw.n_int32s + raw.n_int64s + raw.n_doubles + raw.n_uint64s;
  if ((raw.has_raw && raw.raw.n > 0) + raw.is_external + (n_typed > 0) + (raw.n_strings > 0) > 1) {
    return fail_at(r, &raw, t, "its data is given in two ways");
  }
  if (raw.is_external) return use_external(r, &raw, t);
  if (raw.location.n) return fail_at(r, &raw, t, "it has a location but no external data");
  if (raw.has_raw && n_typed == 0) return use_raw(r, &raw, t);
  if (t->dtype == WF_DTYPE_STRING) {
    if (n_typed) return fail_at(r, &raw, t, "it holds numbers instead of strings");
    return use_strings(r, bytes, &raw, t);
  }
  if (field_of(&raw, t).n_there != n_typed || raw.n_strings) {
    return fail_at(r, &raw, t, "its data is in a field of another type");
  }
  return use_typed(r, bytes, &raw, t);
}
