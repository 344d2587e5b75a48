/* SPDX-License-Identifier: Apache-2.0 */
/* Values written on the command line, and tensors as .npy files. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "cli/cli.h"

weft_status cli_npy_write(const char *path, const weft_tensor *t, weft_error *err) {
  wf_npy a = {.dtype = t->dtype,
              .rank = t->rank,
              .data = wf_unconst(t->data), /* only read */
              .n_bytes = t->n_bytes};
  if (t->rank > 8) {
    return wf_fail(err, WEFT_UNSUPPORTED, "reshape it in the graph",
                   "output '%s' has %d axes, .npy files here have 8", t->name, t->rank);
  }
  if (t->rank > 0) memcpy(a.dims, t->dims, (size_t)t->rank * sizeof *a.dims);
  return wf_npy_write(path, &a, err);
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
