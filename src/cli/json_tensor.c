/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors as JSON, for what people read: events. */
#include <math.h>
#include <string.h>

#include "cli/cli.h"

static void put_float(wf_buf *b, double v) {
  if (isfinite(v))
    wf_buf_add_f64(b, v);
  else
    wf_buf_puts(b, "null"); /* JSON has no number for it */
}

/* Element `i` of little-endian data; numbers are ONNX's types. */
static void put_element(wf_buf *b, const weft_tensor *t, size_t i, size_t size) {
  const unsigned char *at = (const unsigned char *)t->data + i * size;
  uint64_t bits = 0;
  float f;
  double d;
  memcpy(&bits, at, size);
  const int shift = 64 - 8 * (int)size;
  switch (t->dtype) {
    case 1:
      memcpy(&f, at, sizeof f);
      put_float(b, (double)f);
      return;
    case 11:
      memcpy(&d, at, sizeof d);
      put_float(b, d);
      return;
    case 9:
      wf_buf_puts(b, bits ? "true" : "false");
      return;
    case 3:
    case 5:
    case 6:
    case 7:
      /* the sign of a narrow integer: up to the top and back again */
      wf_buf_printf(b, "%lld", (long long)((int64_t)(bits << shift) >> shift));
      return;
    default:
      wf_buf_printf(b, "%llu", (unsigned long long)bits);
      return;
  }
}

void cli_json_tensor(wf_buf *out, const weft_tensor *t) {
  size_t n = 1;
  wf_buf_puts(out, ", \"shape\": [");
  for (int d = 0; d < t->rank; d++) {
    n *= (size_t)t->dims[d];
    wf_buf_printf(out, "%s%lld", d ? ", " : "", (long long)t->dims[d]);
  }
  const size_t size = n ? t->n_bytes / n : 0;
  wf_buf_puts(out, "], \"values\": [");
  for (size_t i = 0; size > 0 && size <= 8 && i < n; i++) {
    if (i) wf_buf_puts(out, ", ");
    put_element(out, t, i, size);
  }
  wf_buf_putc(out, ']');
}
