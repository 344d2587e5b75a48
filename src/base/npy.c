/* SPDX-License-Identifier: Apache-2.0 */
#include "base/npy.h"

#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

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

static bool read_shape(const char *at, wf_npy *a) {
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
static void copy_fortran(wf_npy *a, size_t size, const char *from, size_t n) {
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

static void reverse_bytes(wf_npy *a, size_t size) {
  unsigned char *at = a->data;
  for (size_t i = 0; i < a->n_bytes; i += size) {
    for (size_t lo = i, hi = i + size - 1; lo < hi; lo++, hi--) {
      const unsigned char byte = at[lo];
      at[lo] = at[hi];
      at[hi] = byte;
    }
  }
}

weft_status wf_npy_read(const char *path, wf_npy *a, weft_error *err) {
  weft_status st = WEFT_OK;
  char *bytes = NULL, *header = NULL;
  size_t n = 0, at, n_header, count = 1, n_bytes = 0;
  *a = (wf_npy){0};
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

weft_status wf_npy_write(const char *path, const wf_npy *a, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_buf h = {0};
  wf_writer *w = NULL;
  const char *code = NULL;
  for (size_t i = 0; i < WF_ARRAY_LEN(types) && !code; i++) {
    if (types[i].dtype == a->dtype) code = types[i].code;
  }
  if (!code && a->dtype >= 17 && a->dtype <= 20) code = "|u1"; /* the 8-bit floats' bits */
  if (!code) {
    return wf_fail(err, WEFT_UNSUPPORTED, "cast it to a type NumPy has",
                   "'%s' would hold element type %d, which .npy can't", path, a->dtype);
  }
  wf_buf_printf(&h, "{'descr': '%s', 'fortran_order': False, 'shape': (", code);
  for (int d = 0; d < a->rank; d++) {
    wf_buf_printf(&h, "%s%lld", d ? ", " : "", (long long)a->dims[d]);
  }
  wf_buf_puts(&h, a->rank == 1 ? ",), }" : "), }");
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
  if (a->n_bytes) wf_writer_add(w, a->data, a->n_bytes);
  st = wf_writer_commit(w, err);
out:
  wf_buf_deinit(&h);
  return st;
}
