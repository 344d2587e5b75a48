/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of element types. */
#include "onnx/onnx.h"

typedef struct dtype_fact {
  const char *name;
  int bits;
} dtype_fact;

static const dtype_fact facts[WF_DTYPE_COUNT] = {
#define WF_X(name, number, bits, text) [number] = {text, bits},
    WF_DTYPE_MAP(WF_X)
#undef WF_X
};

static bool is_known(wf_dtype t) { return (unsigned)t < WF_DTYPE_COUNT; }

int wf_dtype_bits(wf_dtype t) { return is_known(t) ? facts[t].bits : 0; }

const char *wf_dtype_name(wf_dtype t) { return is_known(t) ? facts[t].name : "unknown"; }

bool wf_dtype_is_float(wf_dtype t) {
  return t == WF_DTYPE_F32 || t == WF_DTYPE_F16 || t == WF_DTYPE_F64 || t == WF_DTYPE_BF16 ||
         (t >= WF_DTYPE_F8E4M3FN && t <= WF_DTYPE_F8E5M2FNUZ) || t == WF_DTYPE_F4E2M1 ||
         t == WF_DTYPE_F8E8M0 || t == WF_DTYPE_F6E2M3 || t == WF_DTYPE_F6E3M2;
}

bool wf_dtype_is_signed(wf_dtype t) {
  return t == WF_DTYPE_I8 || t == WF_DTYPE_I16 || t == WF_DTYPE_I32 || t == WF_DTYPE_I64 ||
         t == WF_DTYPE_I4 || t == WF_DTYPE_I2;
}

bool wf_dtype_is_int(wf_dtype t) {
  return wf_dtype_is_signed(t) || t == WF_DTYPE_U8 || t == WF_DTYPE_U16 || t == WF_DTYPE_U32 ||
         t == WF_DTYPE_U64 || t == WF_DTYPE_U4 || t == WF_DTYPE_U2;
}

bool wf_dtype_bytes(wf_dtype t, size_t n, size_t *n_bytes) {
  const int bits = wf_dtype_bits(t);
  if (bits == 0) return false;
  if (bits >= 8) return wf_size_mul(n, (size_t)bits / 8, n_bytes);
  *n_bytes = n / 8 * (size_t)bits + (n % 8 * (size_t)bits + 7) / 8; /* less than n: no overflow */
  return true;
}

bool wf_dims_count(const int64_t *dims, size_t rank, size_t *n) {
  size_t count = 1;
  bool is_empty = false;
  for (size_t i = 0; i < rank; i++) {
    if (dims[i] < 0) return false;
    if (dims[i] == 0)
      is_empty = true;
    else if ((uint64_t)dims[i] > SIZE_MAX || !wf_size_mul(count, (size_t)dims[i], &count))
      return false;
  }
  *n = is_empty ? 0 : count;
  return true;
}
