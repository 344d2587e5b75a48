/* SPDX-License-Identifier: Apache-2.0 */
/* Block layouts (half = IEEE half precision, little-endian):
 *   Q4_0  half d; 16 bytes        w = d * (q - 8)        byte j: weight j low, j + 16 high
 *   Q4_1  half d, m; 16 bytes     w = d * q + m          the same order
 *   Q5_0  half d; 4 bytes; 16     w = d * (q - 16)       bit j of the 4 bytes is q's fifth bit
 *   Q5_1  half d, m; 4 bytes; 16  w = d * q + m
 *   Q8_0  half d; 32 int8         w = d * q
 *   Q4_K  half d, m; 12; 128      8 sub-blocks of 32:    w = (d * sc) * q - (m * mn)
 *   Q5_K  half d, m; 12; 32; 128  the 32 bytes hold fifth bits: bit s for sub-block s
 *   Q6_K  128; 64; 16 int8; half  16 sub-blocks of 16:   w = (d * sc) * (q - 32) */
#include "import/ggml_blocks.h"

#include <string.h>

#include "import/gguf.h"

static float load_half(const unsigned char *p) {
  const uint32_t h = (uint32_t)p[0] | (uint32_t)p[1] << 8;
  const uint32_t sign = (h & 0x8000u) << 16;
  uint32_t exponent = h >> 10 & 0x1fu, mantissa = h & 0x3ffu, bits;
  float f;
  if (exponent == 0x1f) {
    bits = sign | 0x7f800000u | mantissa << 13;
  } else if (exponent != 0) {
    bits = sign | (exponent + 112) << 23 | mantissa << 13;
  } else {
    f = (float)mantissa * 0x1p-24f; /* subnormal: exact in float */
    return sign ? -f : f;
  }
  memcpy(&f, &bits, sizeof f);
  return f;
}

static float load_bf16(const unsigned char *p) {
  const uint32_t bits = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 24;
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

bool wf_ggml_is_float(uint32_t type) {
  return type == WF_GGML_F32 || type == WF_GGML_F16 || type == WF_GGML_BF16;
}

bool wf_ggml_form_of(uint32_t type, wf_ggml_form *form) {
  switch (type) {
    case WF_GGML_Q4_0:
      *form = (wf_ggml_form){4, 32, false};
      return true;
    case WF_GGML_Q4_1:
    case WF_GGML_Q4_K:
      *form = (wf_ggml_form){4, 32, true};
      return true;
    case WF_GGML_Q5_0:
    case WF_GGML_Q8_0:
      *form = (wf_ggml_form){8, 32, false};
      return true;
    case WF_GGML_Q5_1:
    case WF_GGML_Q5_K:
      *form = (wf_ggml_form){8, 32, true};
      return true;
    case WF_GGML_Q6_K:
      *form = (wf_ggml_form){8, 16, false};
      return true;
    default:
      return false;
  }
}

/* A block or super-block in the middle form all types share: up to 256 unsigned integers, the value
 * that stands for zero, and a scale and minimum for each sub-block. */
typedef struct parts {
  uint8_t q[256];
  int zero; /* weight = scale * (q - zero) + minimum */
  int block;
  float scale[16], minimum[16];
} parts;

static void split_nibbles(const unsigned char *src, uint8_t *q) {
  for (int j = 0; j < 16; j++) {
    q[j] = src[j] & 15;
    q[j + 16] = src[j] >> 4;
  }
}

static void split_q5(const unsigned char *high, const unsigned char *src, uint8_t *q) {
  split_nibbles(src, q);
  for (int j = 0; j < 32; j++) q[j] |= (uint8_t)((high[j / 8] >> (j % 8) & 1) << 4);
}

/* The six-bit scales and minimums of Q4_K and Q5_K: the first four sub-blocks in the low six bits
 * of bytes 0-3 and 4-7; the others' low four bits in bytes 8-11, high two bits atop the first. */
static void split_k_scales(const unsigned char *src, parts *p) {
  const float d = load_half(src), m = load_half(src + 2);
  const unsigned char *s = src + 4;
  for (int j = 0; j < 8; j++) {
    int scale, minimum;
    if (j < 4) {
      scale = s[j] & 63;
      minimum = s[j + 4] & 63;
    } else {
      scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
      minimum = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
    p->scale[j] = d * (float)scale;
    p->minimum[j] = -(m * (float)minimum);
  }
  p->block = 32;
}

static void split_q4_k(const unsigned char *src, parts *p) {
  split_k_scales(src, p);
  p->zero = 0;
  for (int i = 0; i < 4; i++) {
    const unsigned char *at = src + 16 + 32 * i;
    for (int j = 0; j < 32; j++) {
      p->q[64 * i + j] = at[j] & 15;
      p->q[64 * i + 32 + j] = at[j] >> 4;
    }
  }
}

static void split_q5_k(const unsigned char *src, parts *p) {
  const unsigned char *high = src + 16;
  split_k_scales(src, p);
  p->zero = 0;
  for (int i = 0; i < 4; i++) {
    const unsigned char *at = src + 48 + 32 * i;
    for (int j = 0; j < 32; j++) {
      p->q[64 * i + j] = (uint8_t)((at[j] & 15) | (high[j] >> (2 * i) & 1) << 4);
      p->q[64 * i + 32 + j] = (uint8_t)(at[j] >> 4 | (high[j] >> (2 * i + 1) & 1) << 4);
    }
  }
}

static void split_q6_k(const unsigned char *src, parts *p) {
  const unsigned char *scales = src + 192;
  const float d = load_half(src + 208);
  p->zero = 32;
  p->block = 16;
  for (int half = 0; half < 2; half++) {
    const unsigned char *low = src + 64 * half, *high = src + 128 + 32 * half;
    uint8_t *q = p->q + 128 * half;
    for (int j = 0; j < 32; j++) {
      q[j] = (uint8_t)((low[j] & 15) | (high[j] & 3) << 4);
      q[j + 32] = (uint8_t)((low[j + 32] & 15) | (high[j] >> 2 & 3) << 4);
      q[j + 64] = (uint8_t)(low[j] >> 4 | (high[j] >> 4 & 3) << 4);
      q[j + 96] = (uint8_t)(low[j + 32] >> 4 | (high[j] >> 6 & 3) << 4);
    }
  }
  for (int j = 0; j < 16; j++) {
    const int scale = scales[j] < 128 ? scales[j] : scales[j] - 256;
    p->scale[j] = d * (float)scale;
    p->minimum[j] = 0;
  }
}

/* Takes one (super-)block apart. */
static void split_block(uint32_t type, const unsigned char *src, parts *p) {
  p->block = 32;
  p->scale[0] = load_half(src);
  p->minimum[0] = 0;
  switch (type) {
    case WF_GGML_Q4_0:
      split_nibbles(src + 2, p->q);
      p->zero = 8;
      break;
    case WF_GGML_Q4_1:
      split_nibbles(src + 4, p->q);
      p->minimum[0] = load_half(src + 2);
      p->zero = 0;
      break;
    case WF_GGML_Q5_0:
      split_q5(src + 2, src + 6, p->q);
      p->zero = 16;
      break;
    case WF_GGML_Q5_1:
      split_q5(src + 4, src + 8, p->q);
      p->minimum[0] = load_half(src + 2);
      p->zero = 0;
      break;
    case WF_GGML_Q8_0:
      for (int j = 0; j < 32; j++) p->q[j] = src[2 + j] ^ 0x80; /* int8 + 128 */
      p->zero = 128;
      break;
    case WF_GGML_Q4_K:
      split_q4_k(src, p);
      break;
    case WF_GGML_Q5_K:
      split_q5_k(src, p);
      break;
    default:
      split_q6_k(src, p);
      break;
  }
}

/* The integer that is subtracted once the types with a minimum are centred: half of the range. So
 * the symmetric part stays small and the int8 path of a kernel loses least. */
static int centre_of(uint32_t type, int zero) {
  switch (type) {
    case WF_GGML_Q4_1:
    case WF_GGML_Q4_K:
      return 8;
    case WF_GGML_Q5_1:
    case WF_GGML_Q5_K:
      return 16;
    default:
      return zero;
  }
}

void wf_ggml_row_split(uint32_t type, const unsigned char *src, size_t k, uint8_t *q, float *scales,
                       float *offsets) {
  wf_ggml_form form;
  uint32_t n, n_bytes;
  if (!wf_ggml_form_of(type, &form) || !wf_ggml_block(type, &n, &n_bytes)) return;
  for (size_t at = 0; at < k; at += n, src += n_bytes) {
    parts p;
    split_block(type, src, &p);
    const int centre = centre_of(type, p.zero);
    if (q && form.bits == 4) {
      for (size_t j = 0; j < n; j += 2) {
        q[(at + j) / 2] = (uint8_t)(p.q[j] | p.q[j + 1] << 4);
      }
    } else if (q) {
      for (size_t j = 0; j < n; j++) q[at + j] = (uint8_t)(p.q[j] + 128 - centre);
    }
    for (size_t j = 0; j < n / (size_t)p.block; j++) {
      const size_t to = at / (size_t)p.block + j;
      if (scales) scales[to] = p.scale[j];
      if (offsets) offsets[to] = p.minimum[j] + p.scale[j] * (float)(centre - p.zero);
    }
  }
}

void wf_ggml_row_floats(uint32_t type, const unsigned char *src, size_t k, float *dst) {
  wf_ggml_form form;
  uint32_t n, n_bytes;
  if (type == WF_GGML_F32) {
    memcpy(dst, src, k * sizeof *dst);
    return;
  }
  if (type == WF_GGML_F16 || type == WF_GGML_BF16) {
    for (size_t i = 0; i < k; i++) {
      dst[i] = type == WF_GGML_F16 ? load_half(src + 2 * i) : load_bf16(src + 2 * i);
    }
    return;
  }
  if (!wf_ggml_form_of(type, &form) || !wf_ggml_block(type, &n, &n_bytes)) return;
  for (size_t at = 0; at < k; at += n, src += n_bytes) {
    parts p;
    split_block(type, src, &p);
    for (size_t j = 0; j < n; j++) {
      const size_t b = j / (size_t)p.block;
      dst[at + j] = p.scale[b] * (float)(p.q[j] - p.zero) + p.minimum[b];
    }
  }
}
