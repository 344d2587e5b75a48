/* SPDX-License-Identifier: Apache-2.0 */
/* NumPy's .npy files, versions 1 to 3 (numpy.lib.format): a magic, a header that is a Python
 * literal, data. Written little-endian in C order; read in either order of bytes and of axes. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"

enum { MAX_HEADER_BYTES = 65536 };
#define MAX_NPY_BYTES ((size_t)1 << 36)

/* NumPy's type codes beside ONNX's numbers. bfloat16 and 8-bit floats have no code of their own in
 * NumPy: they are written as raw unsigned integers of their size. */
static const struct {
  const char *code;
  int dtype;
  size_t size;
} types[] = {{"<f4", 1, 4},  {"|u1", 2, 1},  {"|i1", 3, 1}, {"<u2", 4, 2},  {"<i2", 5, 2},
             {"<i4", 6, 4},  {"<i8", 7, 8},  {"|b1", 9, 1}, {"<f2", 10, 2}, {"<f8", 11, 8},
             {"<u4", 12, 4}, {"<u8", 13, 8}, {"<u2", 16, 2}};

static weft_status fail(weft_error *err, const char *path, const char *why) {
  return wf_fail(err, WEFT_PARSE, "write the file with numpy.save",
                 "'%s' is no readable .npy file: %s", path, why);
}

/* The text after "'key':" in the header. */
static const char *member(const char *header, const char *key) {
  char quoted[32];
  wf_buf b = {0};
  wf_buf_printf(&b, "'%s':", key);
  if (b.failed || b.n >= sizeof quoted) {
    wf_buf_deinit(&b);
    return NULL;
  }
  memcpy(quoted, b.at, b.n + 1);
  wf_buf_deinit(&b);
  const char *at = strstr(header, quoted);
  if (!at) return NULL;
  at += strlen(quoted);
  while (*at == ' ') at++;
  return at;
}

static bool read_shape(const char *at, cli_array *a) {
  if (!at || *at++ != '(') return false;
  for (;;) {
    while (*at == ' ') at++;
    if (*at == ')') return true;
    const size_t n = strspn(at, "0123456789");
    int64_t v;
    if (n == 0 || a->rank == 8 || !wf_parse_i64((wf_str){at, n}, &v)) return false;
    a->dims[a->rank++] = v;
    at += n;
    while (*at == ' ') at++;
    if (*at == ',')
      at++;
    else if (*at != ')')
      return false;
  }
}

/* Elements whose first axis runs fastest, into the order in which the last one does. */
static void copy_fortran(cli_array *a, size_t size, const char *from, size_t n) {
  int64_t at[8] = {0};
  char *to = a->data;
  for (size_t i = 0; i < n; i++) {
    size_t place = 0;
    for (int d = a->rank; d-- > 0;) place = place * (size_t)a->dims[d] + (size_t)at[d];
    memcpy(to + i * size, from + place * size, size);
    for (int d = a->rank; d-- > 0 && ++at[d] == a->dims[d];) at[d] = 0;
  }
}

/* The index of the descriptor's type ("'<f4'"); WF_ARRAY_LEN(types): none that weft reads. */
static size_t find_type(const char *descr) {
  size_t t = 0;
  if (!descr || (descr[0] != '\'' && descr[0] != '"') || descr[1] == '\0' ||
      !strchr("<>|=", descr[1])) {
    return WF_ARRAY_LEN(types);
  }
  while (t < WF_ARRAY_LEN(types) &&
         (strncmp(descr + 2, types[t].code + 1, 2) != 0 || descr[4] != descr[0])) {
    t++;
  }
  return t;
}

static void reverse_bytes(cli_array *a, size_t size) {
  unsigned char *at = a->data;
  for (size_t i = 0; i < a->n_bytes; i += size) {
    for (size_t lo = i, hi = i + size - 1; lo < hi; lo++, hi--) {
      const unsigned char byte = at[lo];
      at[lo] = at[hi];
      at[hi] = byte;
    }
  }
}

weft_status cli_npy_read(const char *path, cli_array *a, weft_error *err) {
  weft_status st = WEFT_OK;
  char *bytes = NULL, *header = NULL;
  size_t n = 0, at, n_header, count = 1, n_bytes = 0;
  *a = (cli_array){0};
  WF_TRY(wf_file_read(path, MAX_NPY_BYTES, &bytes, &n, err));
  const unsigned char *u = (const unsigned char *)bytes;
  if (n < 12 || memcmp(bytes, "\x93NUMPY", 6) != 0) {
    st = fail(err, path, "it does not begin with the magic bytes");
    goto out;
  }
  const bool is_long = u[6] >= 2;
  at = is_long ? 12 : 10;
  n_header = (size_t)u[8] | (size_t)u[9] << 8;
  if (is_long) n_header |= (size_t)u[10] << 16 | (size_t)u[11] << 24;
  if (u[6] < 1 || u[6] > 3 || n_header > MAX_HEADER_BYTES || n_header > n - at) {
    st = fail(err, path, "its version or header length is wrong");
    goto out;
  }
  header = wf_alloc(n_header + 1);
  if (!header) {
    st = wf_fail_memory(err, n_header, "a header");
    goto out;
  }
  memcpy(header, bytes + at, n_header);
  header[n_header] = '\0';
  at += n_header;
  const char *descr = member(header, "descr"), *order = member(header, "fortran_order");
  const size_t t = find_type(descr);
  if (t == WF_ARRAY_LEN(types) || !read_shape(member(header, "shape"), a) || !order) {
    st = fail(err, path, "its element type, order or shape is not one weft reads");
    goto out;
  }
  for (int d = 0; d < a->rank; d++) {
    if (!wf_size_mul(count, (size_t)a->dims[d], &count)) {
      st = fail(err, path, "its shape overflows");
      goto out;
    }
  }
  if (!wf_size_mul(count, types[t].size, &n_bytes) || n_bytes > n - at) {
    st = fail(err, path, "it is shorter than its shape says");
    goto out;
  }
  a->dtype = types[t].dtype;
  a->n_bytes = n_bytes;
  a->data = wf_alloc(n_bytes);
  if (!a->data)
    st = wf_fail_memory(err, n_bytes, "a tensor");
  else if (n_bytes && a->rank > 1 && strncmp(order, "True", 4) == 0)
    copy_fortran(a, types[t].size, bytes + at, count);
  else if (n_bytes)
    memcpy(a->data, bytes + at, n_bytes);
  if (a->data && descr[1] == '>') reverse_bytes(a, types[t].size);
out:
  wf_free(bytes);
  wf_free(header);
  return st;
}

weft_status cli_npy_write(const char *path, const weft_tensor *t, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_buf h = {0};
  wf_writer *w = NULL;
  const char *code = NULL;
  for (size_t i = 0; i < WF_ARRAY_LEN(types) && !code; i++) {
    if (types[i].dtype == t->dtype) code = types[i].code;
  }
  if (!code && t->dtype >= 17 && t->dtype <= 20) code = "|u1"; /* the 8-bit floats' bits */
  if (!code) {
    return wf_fail(err, WEFT_UNSUPPORTED, "cast the output to a type NumPy has",
                   "output '%s' has element type %d, which .npy can't hold", t->name, t->dtype);
  }
  wf_buf_printf(&h, "{'descr': '%s', 'fortran_order': False, 'shape': (", code);
  for (int d = 0; d < t->rank; d++) {
    wf_buf_printf(&h, "%s%lld", d ? ", " : "", (long long)t->dims[d]);
  }
  wf_buf_puts(&h, t->rank == 1 ? ",), }" : "), }");
  while ((10 + h.n + 1) % 64 != 0) wf_buf_putc(&h, ' ');
  wf_buf_putc(&h, '\n');
  if (h.failed) {
    st = wf_fail_memory(err, h.n, "a header");
    goto out;
  }
  const unsigned char prefix[10] = {
      0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(h.n & 0xff), (unsigned char)(h.n >> 8)};
  WF_TRY(wf_writer_create(&w, path, false, err));
  wf_writer_add(w, prefix, sizeof prefix);
  wf_writer_add(w, h.at, h.n);
  if (t->n_bytes) wf_writer_add(w, t->data, t->n_bytes);
  st = wf_writer_commit(w, err);
out:
  wf_buf_deinit(&h);
  return st;
}

/* The nearest number of a float type of at most 16 bits, ties to even; false when it is too large
 * for the type. */
static bool narrow(double v, int exponent_bits, int fraction_bits, uint16_t *bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  int exponent = 0;
  (void)frexp(v, &exponent);
  exponent = v == 0 || exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
  const double fraction = nearbyint(ldexp(fabs(v), fraction_bits - exponent));
  /* the fraction's leading one, which subnormal numbers lack, raises the exponent by one */
  const uint32_t magnitude =
      ((uint32_t)(exponent + bias - 1) << fraction_bits) + (uint32_t)fraction;
  if (exponent > bias || magnitude >> fraction_bits >= (1u << exponent_bits) - 1) return false;
  *bits = (uint16_t)(magnitude | (signbit(v) ? 0x8000u : 0));
  return true;
}

/* One element written in decimal, into the port's type. */
static bool put_element(int dtype, wf_str text, unsigned char *at, size_t *size) {
  double v = 0;
  int64_t i = 0;
  uint64_t u = 0;
  uint16_t half = 0;
  const bool is_true = wf_str_is(text, "true"), is_false = wf_str_is(text, "false");
  const bool is_int = wf_parse_i64(text, &i), is_number = wf_parse_f64(text, &v);
#define PUT(type, value)             \
  do {                               \
    const type put_ = (type)(value); \
    memcpy(at, &put_, sizeof put_);  \
    *size = sizeof put_;             \
    return true;                     \
  } while (0)
  switch (dtype) {
    case 1:
      if (is_number && fabs(v) <= FLT_MAX) PUT(float, v);
      break;
    case 10:
      if (is_number && narrow(v, 5, 10, &half)) PUT(uint16_t, half);
      break;
    case 16:
      if (is_number && narrow(v, 8, 7, &half)) PUT(uint16_t, half);
      break;
    case 11:
      if (is_number) PUT(double, v);
      break;
    case 2:
      if (is_int && i >= 0 && i <= UINT8_MAX) PUT(uint8_t, i);
      break;
    case 3:
      if (is_int && i >= INT8_MIN && i <= INT8_MAX) PUT(int8_t, i);
      break;
    case 4:
      if (is_int && i >= 0 && i <= UINT16_MAX) PUT(uint16_t, i);
      break;
    case 5:
      if (is_int && i >= INT16_MIN && i <= INT16_MAX) PUT(int16_t, i);
      break;
    case 6:
      if (is_int && i >= INT32_MIN && i <= INT32_MAX) PUT(int32_t, i);
      break;
    case 7:
      if (is_int) PUT(int64_t, i);
      break;
    case 12:
      if (is_int && i >= 0 && i <= UINT32_MAX) PUT(uint32_t, i);
      break;
    case 13:
      if (wf_parse_u64(text, &u)) PUT(uint64_t, u);
      break;
    case 9:
      if (is_true || (is_int && i == 1)) PUT(uint8_t, 1);
      if (is_false || (is_int && i == 0)) PUT(uint8_t, 0);
      break;
    default:
      break;
  }
#undef PUT
  return false;
}

/* Axes of a known extent keep it; the last of the others takes what is left, the rest are 1. Values
 * that do not fit lie on the last axis, and the graph says what it wants instead. */
static void shape_values(const weft_tensor *port, int64_t n, cli_array *a) {
  int64_t known = 1;
  int open_axis = -1;
  a->rank = port->rank > 0 ? port->rank : n > 1 ? 1 : 0;
  for (int d = 0; d < a->rank && d < 8; d++) {
    const int64_t extent = port->rank > 0 ? port->dims[d] : -1;
    a->dims[d] = extent > 0 && extent <= n ? extent : 1;
    known *= a->dims[d] <= n / known ? a->dims[d] : 1;
    if (extent < 0) open_axis = d;
  }
  if (a->rank == 0 || (open_axis < 0 && known == n)) return;
  if (open_axis >= 0 && n % known == 0) {
    a->dims[open_axis] = n / known;
    return;
  }
  for (int d = 0; d < a->rank && d < 8; d++) a->dims[d] = d == a->rank - 1 ? n : 1;
}

weft_status cli_array_parse(const char *text, const weft_tensor *port, cli_array *a,
                            weft_error *err) {
  size_t n = 1;
  *a = (cli_array){.dtype = port->dtype};
  for (const char *p = text; *p; p++) n += *p == ',';
  a->data = wf_calloc(n, 8);
  if (!a->data) return wf_fail_memory(err, n * 8, "a tensor");
  unsigned char *at = a->data;
  for (const char *p = text;;) {
    const size_t len = strcspn(p, ",");
    size_t size = 0;
    if (!put_element(port->dtype, (wf_str){p, len}, at, &size)) {
      return wf_fail(err, WEFT_INVALID_ARGUMENT, "give a value of the port's type, or a .npy file",
                     "'%s' is no value for input '%s'", text, port->name);
    }
    at += size;
    a->n_bytes += size;
    if (p[len] == '\0') break;
    p += len + 1;
  }
  if (port->rank == 0 && n > 1) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "give one value", "input '%s' is a scalar",
                   port->name);
  }
  shape_values(port, (int64_t)n, a);
  return WEFT_OK;
}
