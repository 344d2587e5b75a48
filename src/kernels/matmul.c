/* SPDX-License-Identifier: Apache-2.0 */
/* The front of the matmul family: which variant a weight gets, planning, packing, running. */
#include "kernels/matmul.h"

#include <assert.h>

#include "base/mem.h"
#include "kernels/matmul_internal.h"

enum { LAYOUT_VERSION = 2 };

enum {
  DENSE = 1 << WF_WEIGHT_F32 | 1 << WF_WEIGHT_F16 | 1 << WF_WEIGHT_BF16,
  NBITS = 1 << WF_WEIGHT_NBITS,
  EXACT = 1 << WF_MATMUL_EXACT,
  FAST = 1 << WF_MATMUL_FAST
};

/* Best first; ref ends each search. variant_infos has the names in the same order. */
static const wf_matmul_variant variants[] = {
#if defined(__x86_64__)
    {WF_CPU_AVX512BF16, 1 << WF_WEIGHT_BF16, 0, FAST, 16, WF_ACT_BF16, false, true,
     wf_matmul_bf16_avx512bf16},
    {WF_CPU_AVX512VNNI, NBITS, 4, FAST, 16, WF_ACT_Q8, false, false, wf_matmul_q4_avx512vnni},
    {WF_CPU_AVX512VNNI, NBITS, 8, FAST, 16, WF_ACT_Q8, false, false, wf_matmul_q8_avx512vnni},
    {WF_CPU_AVX512, NBITS, 4, FAST, 16, WF_ACT_Q8, false, false, wf_matmul_q4_avx512},
    {WF_CPU_AVX512, NBITS, 8, FAST, 16, WF_ACT_Q8, true, false, wf_matmul_q8_avx512},
    {WF_CPU_AVX512, NBITS, 0, EXACT, 16, WF_ACT_F32, true, false, wf_matmul_nbits_exact_avx512},
    {WF_CPU_AVX512, DENSE, 0, EXACT | FAST, 32, WF_ACT_F32, false, false, wf_matmul_dense_avx512},
    {WF_CPU_AVX2, NBITS, 4, FAST, 8, WF_ACT_Q8, false, false, wf_matmul_q4_avx2},
    {WF_CPU_AVX2, NBITS, 8, FAST, 8, WF_ACT_Q8, true, false, wf_matmul_q8_avx2},
    {WF_CPU_AVX2, NBITS, 0, EXACT, 8, WF_ACT_F32, true, false, wf_matmul_nbits_exact_avx2},
    {WF_CPU_AVX2, DENSE, 0, EXACT | FAST, 16, WF_ACT_F32, false, false, wf_matmul_dense_avx2},
#elif defined(__aarch64__)
    {WF_CPU_NEON_DOTPROD, NBITS, 4, FAST, 8, WF_ACT_Q8, false, false, wf_matmul_q4_neondot},
    {WF_CPU_NEON_DOTPROD, NBITS, 8, FAST, 8, WF_ACT_Q8, true, false, wf_matmul_q8_neondot},
    {WF_CPU_NEON, NBITS, 4, FAST, 8, WF_ACT_Q8, false, false, wf_matmul_q4_neon},
    {WF_CPU_NEON, NBITS, 8, FAST, 8, WF_ACT_Q8, true, false, wf_matmul_q8_neon},
    {WF_CPU_NEON, NBITS, 0, EXACT, 8, WF_ACT_F32, true, false, wf_matmul_nbits_exact_neon},
    {WF_CPU_NEON, DENSE, 0, EXACT | FAST, 16, WF_ACT_F32, false, false, wf_matmul_dense_neon},
#endif
    {WF_CPU_REF, NBITS, 0, FAST, 0, WF_ACT_Q8, false, false, wf_matmul_nbits_q8_ref},
    {WF_CPU_REF, NBITS, 0, EXACT, 0, WF_ACT_F32, false, false, wf_matmul_nbits_ref},
    {WF_CPU_REF, DENSE, 0, EXACT | FAST, 0, WF_ACT_F32, false, false, wf_matmul_dense_ref},
};
static const wf_matmul_variant_info variant_infos[] = {
#if defined(__x86_64__)
    {"bf16_avx512bf16", WF_CPU_AVX512BF16},
    {"q4_avx512vnni", WF_CPU_AVX512VNNI},
    {"q8_avx512vnni", WF_CPU_AVX512VNNI},
    {"q4_avx512", WF_CPU_AVX512},
    {"q8_avx512", WF_CPU_AVX512},
    {"nbits_exact_avx512", WF_CPU_AVX512},
    {"dense_avx512", WF_CPU_AVX512},
    {"q4_avx2", WF_CPU_AVX2},
    {"q8_avx2", WF_CPU_AVX2},
    {"nbits_exact_avx2", WF_CPU_AVX2},
    {"dense_avx2", WF_CPU_AVX2},
#elif defined(__aarch64__)
    {"q4_neondot", WF_CPU_NEON_DOTPROD},
    {"q8_neondot", WF_CPU_NEON_DOTPROD},
    {"q4_neon", WF_CPU_NEON},
    {"q8_neon", WF_CPU_NEON},
    {"nbits_exact_neon", WF_CPU_NEON},
    {"dense_neon", WF_CPU_NEON},
#endif
    {"nbits_q8_ref", WF_CPU_REF},
    {"nbits_exact_ref", WF_CPU_REF},
    {"dense_ref", WF_CPU_REF},
};
_Static_assert(WF_ARRAY_LEN(variants) == WF_ARRAY_LEN(variant_infos), "a name for each variant");

const wf_matmul_variant_info *wf_matmul_variants(size_t *n) {
  *n = WF_ARRAY_LEN(variant_infos);
  return variant_infos;
}

const wf_matmul_variant_info *wf_weight_variant(const wf_packed_weight *w) {
  return variant_infos + ((const wf_matmul_variant *)w->variant - variants);
}

uint32_t wf_weight_layout_version(void) { return LAYOUT_VERSION; }

static const wf_matmul_variant *find_variant(const wf_weight_desc *d, wf_matmul_mode mode,
                                             wf_cpu_level level) {
  const int bits = d->bits == 2 ? 4 : d->bits;

  for (size_t i = 0; i < WF_ARRAY_LEN(variants); i++) {
    const wf_matmul_variant *v = variants + i;
    if (!wf_cpu_has(level, v->needs)) continue;
    if (!(v->formats >> d->format & 1) || !(v->modes >> mode & 1)) continue;
    if (v->bits != 0 && d->format == WF_WEIGHT_NBITS && v->bits != bits) continue;
    return v;
  }
  return NULL;
}

/* Refuses what no kernel takes and sizes whose products would overflow further on. */
static weft_status check_desc(const wf_weight_desc *d, weft_error *err) {
  size_t bytes;

  if (d->n < 1 || d->k < 1 || d->k > INT32_MAX || d->n > INT32_MAX ||
      !wf_size_mul((size_t)d->n + 16, (size_t)d->k + 256, &bytes) ||
      !wf_size_mul(bytes, 16, &bytes)) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "check the weight's shape in the model file",
                   "a weight of %lld rows of %lld inputs cannot be packed", (long long)d->n,
                   (long long)d->k);
  }
  if (d->format != WF_WEIGHT_NBITS) {
    if (d->format <= WF_WEIGHT_BF16) return WEFT_OK;
    return wf_fail(err, WEFT_UNSUPPORTED, "convert the weight to fp32, fp16 or bf16",
                   "no matrix product takes weight format %d", (int)d->format);
  }
  if (d->bits != 2 && d->bits != 4 && d->bits != 8) {
    return wf_fail(err, WEFT_UNSUPPORTED, "quantise the model to 2, 4 or 8 bits",
                   "a weight of %d bits is not supported", d->bits);
  }
  if (d->block_size < 16 || d->block_size > 256 || (d->block_size & (d->block_size - 1)) != 0) {
    return wf_fail(err, WEFT_UNSUPPORTED, "quantise the model with a block size of 16 to 256",
                   "a block size of %d is no power of two from 16 to 256", d->block_size);
  }
  return WEFT_OK;
}

weft_status wf_weight_plan(wf_packed_weight *w, const wf_weight_desc *desc, wf_matmul_mode mode,
                           wf_cpu_level level, size_t *packed_bytes, weft_error *err) {
  wf_pack_header h;

  *w = (wf_packed_weight){0};
  *packed_bytes = 0;
  WF_RETURN_IF_ERROR(check_desc(desc, err));
  const wf_matmul_variant *v = find_variant(desc, mode, level);
  assert(v); /* ref takes whatever check_desc lets through */
  w->n = desc->n;
  w->k = desc->k;
  w->n_grain = v->nr ? v->nr : 1;
  w->act.id = v->act_id;
  w->act.k = desc->k;
  if (v->act_id == WF_ACT_Q8) w->act.block_size = desc->block_size < 32 ? desc->block_size : 32;
  w->variant = v;
  w->desc = *desc;
  *packed_bytes = wf_pack_layout(&h, desc, v, false);
  w->bytes = *packed_bytes;
  return WEFT_OK;
}

void wf_weight_pack(wf_packed_weight *w, const wf_weight_desc *desc, void *packed) {
  wf_pack_header h;

  wf_pack_layout(&h, desc, w->variant, true);
  wf_pack_fill(&h, desc, packed);
  wf_weight_attach(w, packed);
}

void wf_weight_attach(wf_packed_weight *w, const void *packed) {
  const wf_pack_header *h = packed;

  w->data = packed;
  w->bytes = (size_t)h->total_bytes;
}

size_t wf_act_bytes(const wf_act_kind *kind, int64_t m) {
  return (size_t)m * wf_act_row_bytes(kind);
}

void wf_act_pack(const wf_act_kind *kind, wf_cpu_level level, int64_t m_total, int64_t m_begin,
                 int64_t m_end, const float *x, int64_t ldx, void *act) {
  const size_t row_bytes = wf_act_row_bytes(kind);
  void (*pack_row)(const wf_act_kind *, const float *, void *) = wf_act_pack_row_ref;

  (void)m_total;
#if defined(__x86_64__)
  if (wf_cpu_has(level, WF_CPU_AVX2)) pack_row = wf_act_pack_row_avx2;
#else
  (void)level;
#endif
  for (int64_t r = m_begin; r < m_end; r++) {
    pack_row(kind, x + r * ldx, (uint8_t *)act + (size_t)r * row_bytes);
  }
}

void wf_matmul_run(const wf_packed_weight *w, int64_t m, const void *act, float *y, int64_t ldy,
                   int64_t n_begin, int64_t n_end, const wf_epilogue *epilogue) {
  const wf_matmul_variant *v = w->variant;

  assert(n_begin % w->n_grain == 0 && n_end <= w->n);
  v->run(w->data, m, act, y, ldy, n_begin, n_end, epilogue);
}

void wf_gemm_f32(wf_cpu_level level, int64_t m, int64_t n, int64_t k, const float *a, int64_t lda,
                 const float *b, int64_t ldb, bool b_is_transposed, float *y, int64_t ldy) {
#if defined(__x86_64__)
  if (wf_cpu_has(level, WF_CPU_AVX512)) {
    wf_gemm_f32_avx512(m, n, k, a, lda, b, ldb, b_is_transposed, y, ldy);
    return;
  }
  if (wf_cpu_has(level, WF_CPU_AVX2)) {
    wf_gemm_f32_avx2(m, n, k, a, lda, b, ldb, b_is_transposed, y, ldy);
    return;
  }
#elif defined(__aarch64__)
  if (wf_cpu_has(level, WF_CPU_NEON)) {
    wf_gemm_f32_neon(m, n, k, a, lda, b, ldb, b_is_transposed, y, ldy);
    return;
  }
#else
  (void)level;
#endif
  wf_gemm_f32_ref(m, n, k, a, lda, b, ldb, b_is_transposed, y, ldy);
}

/* One row, value by value; the format's branches are outside the loops. */
static void gather_nbits(const wf_weight_desc *d, int64_t id, float *y) {
  const int64_t blocks = (d->k + d->block_size - 1) / d->block_size;
  const int per_byte = 8 / d->bits, mask = (1 << d->bits) - 1;
  const uint8_t *q = (const uint8_t *)d->data + id * (blocks * d->block_size / per_byte);
  const uint8_t *zeros =
      d->zeros_packed ? d->zeros_packed + id * ((blocks * d->bits + 7) / 8) : NULL;

  for (int64_t b = 0; b < blocks; b++) {
    const float scale = d->scales[id * blocks + b];
    const float offset = d->offsets ? d->offsets[b * d->n + id] : 0.0f;
    float zero = (float)(1 << (d->bits - 1));
    if (d->zeros_float) {
      zero = d->zeros_float[id * blocks + b];
    } else if (zeros) {
      zero = (float)(zeros[b / per_byte] >> (b % per_byte * d->bits) & mask);
    }
    const int64_t end = (b + 1) * d->block_size < d->k ? (b + 1) * d->block_size : d->k;
    for (int64_t k = b * d->block_size; k < end; k++) {
      const int v = q[k / per_byte] >> (k % per_byte * d->bits) & mask;
      y[k] = ((float)v - zero) * scale + offset;
    }
  }
}

void wf_weight_gather(const wf_weight_desc *desc, const int32_t *ids, int64_t n_ids, float *y,
                      int64_t ldy) {
  for (int64_t i = 0; i < n_ids; i++) {
    const int64_t id = ids[i];
    float *out = y + i * ldy;
    if (desc->format == WF_WEIGHT_NBITS) {
      gather_nbits(desc, id, out);
      continue;
    }
    for (int64_t k = 0; k < desc->k; k++) {
      const int64_t at = desc->is_transposed ? k * desc->n + id : id * desc->k + k;
      const uint8_t *data = desc->data; /* a model file aligns its elements to nothing */
      if (desc->format == WF_WEIGHT_F32) {
        memcpy(out + k, data + (size_t)at * 4, 4);
      } else {
        uint16_t v;
        memcpy(&v, data + (size_t)at * 2, 2);
        out[k] = desc->format == WF_WEIGHT_F16 ? wf_f16_widen(v) : wf_bf16_widen(v);
      }
    }
  }
}
