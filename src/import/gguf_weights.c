/* SPDX-License-Identifier: Apache-2.0 */
/* What ONNX Runtime's CPU kernels take decides the forms here. Blocks without a minimum are a plain
 * symmetric MatMulNBits. For blocks with one, a float zero point would be exact but is refused for
 * 8 bits and very slow for 4; instead
 *
 *   x @ W^T = MatMulNBits(x, q, scales) + MatMul(sum over each block of x, offsets)
 *
 * with W = scale * (q - zero) + offset, which is exact too and costs one small matmul. */
#include "import/gguf_weights.h"

#include <stdarg.h>
#include <stdio.h>

#include "import/ggml_blocks.h"

/* Rows are taken apart in pieces of about this much memory. */
#define PIECE_BYTES ((size_t)1 << 20)

weft_status wf_gguf_build_init(wf_gguf_build *b, wf_onnxw *w, const wf_gguf_model *m,
                               const wf_import_options *opts, weft_error *err) {
  *b = (wf_gguf_build){.w = w, .g = wf_onnxw_main(w), .m = m, .opts = opts, .err = err};
  b->names = wf_arena_create();
  b->is_used = wf_calloc(m->file->tensors.n + 1, sizeof *b->is_used);
  if (!b->names || !b->is_used) {
    wf_gguf_build_deinit(b);
    return wf_fail_memory(err, m->file->tensors.n, "an import");
  }
  for (size_t i = 0; i < m->file->tensors.n; i++) b->total_bytes += m->file->tensors.at[i].n_bytes;
  return WEFT_OK;
}

void wf_gguf_build_deinit(wf_gguf_build *b) {
  wf_arena_destroy(b->names);
  wf_free(b->is_used);
  wf_vec_free(&b->constants);
  b->names = NULL;
  b->is_used = NULL;
}

const char *wf_gguf_name(wf_gguf_build *b, const char *fmt, ...) {
  char text[512];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  const char *name = wf_arena_strdup(b->names, text);
  if (!name) (void)wf_fail_memory(b->err, sizeof text, "a name in the graph");
  return name;
}

/* Every helper below gives NULL only when memory is out and the error is filled. */
#define TRY_NAME(lhs, call)                \
  do {                                     \
    (lhs) = (call);                        \
    if (!(lhs)) return WEFT_OUT_OF_MEMORY; \
  } while (0)

const char *wf_gguf_node(wf_gguf_build *b, const char *op, const char *domain, const char *name,
                         const char *const *inputs, size_t n_inputs, const wf_onnxw_attr *attrs,
                         size_t n_attrs) {
  const char *out = wf_gguf_name(b, "%s/output_0", name);
  if (!out) return NULL;
  wf_onnxw_node(b->g, op, domain, name, inputs, n_inputs, (const char *const[]){out}, 1, attrs,
                n_attrs);
  return out;
}

const char *wf_gguf_ints(wf_gguf_build *b, const int64_t *v, size_t n, bool is_scalar) {
  char text[160];
  size_t at = 0;
  for (size_t i = 0; i < n; i++) {
    at += (size_t)snprintf(text + at, sizeof text - at, "%s%lld", i ? ", " : "", (long long)v[i]);
  }
  const char *name = wf_gguf_name(
      b, is_scalar ? "/model/constants/INT64/%s" : "/model/constants/INT64/[%s]", text);
  if (!name) return NULL;
  const int64_t dim = (int64_t)n;
  for (size_t i = 0; i < b->constants.n; i++) {
    if (strcmp(b->constants.at[i], name) == 0) return b->constants.at[i];
  }
  if (!wf_vec_push(&b->constants, name)) {
    (void)wf_fail_memory(b->err, sizeof name, "a constant");
    return NULL;
  }
  wf_onnxw_inline(b->g, name, WF_ONNXW_INT64, &dim, is_scalar ? 0 : 1, v, n * sizeof *v);
  return name;
}

weft_status wf_gguf_take(wf_gguf_build *b, const char *name, size_t n, size_t k,
                         const wf_gguf_tensor **result) {
  const wf_gguf *file = b->m->file;
  const wf_gguf_tensor *t = wf_gguf_find_tensor(file, name);
  if (!t) {
    return wf_fail(b->err, WEFT_PARSE, "download or convert the file again",
                   "GGUF file '%s' lacks the tensor '%s'", file->map.path, name);
  }
  const size_t rows = n == 0 ? 1 : n;
  if (t->dims[0] != k || t->dims[1] != rows || t->dims[2] != 1 || t->dims[3] != 1) {
    return wf_fail(b->err, WEFT_PARSE, "download or convert the file again",
                   "tensor '%s' of GGUF file '%s' is [%llu, %llu], but the metadata asks for "
                   "[%zu, %zu]",
                   name, file->map.path, (unsigned long long)t->dims[1],
                   (unsigned long long)t->dims[0], rows, k);
  }
  wf_ggml_form form;
  if (!wf_ggml_is_float(t->type) && !wf_ggml_form_of(t->type, &form)) {
    return wf_fail(b->err, WEFT_UNSUPPORTED,
                   "use a file in F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K or Q6_K",
                   "tensor '%s' of GGUF file '%s' has the type %s, which weft does not import",
                   name, file->map.path, wf_ggml_name(t->type));
  }
  b->is_used[t - file->tensors.at] = true;
  *result = t;
  return WEFT_OK;
}

weft_status wf_gguf_check_used(const wf_gguf_build *b) {
  const wf_gguf *file = b->m->file;
  for (size_t i = 0; i < file->tensors.n; i++) {
    const wf_str name = file->tensors.at[i].name;
    if (!b->is_used[i]) {
      return wf_fail(b->err, WEFT_UNSUPPORTED, "use a plain model of this architecture",
                     "GGUF file '%s' holds the tensor '%.*s', which weft would leave out",
                     file->map.path, (int)name.n, name.at);
    }
  }
  return WEFT_OK;
}

/* Tells how far it is; an import that is not wanted any more ends here. */
static weft_status report(wf_gguf_build *b, size_t n_bytes) {
  b->done_bytes += n_bytes;
  if (b->opts->progress) {
    b->opts->progress(b->opts->progress_user, b->done_bytes, b->total_bytes, "weights");
  }
  if (b->opts->is_cancelled && b->opts->is_cancelled(b->opts->progress_user)) {
    return wf_fail(b->err, WEFT_CANCELLED, NULL, "the import was cancelled");
  }
  return WEFT_OK;
}

/* Where row r of the result comes from. GGUF stores Q and K of some architectures so that the two
 * halves of a rotated pair are neighbours; ONNX Runtime's rotary embedding wants them half a
 * rotated head apart. */
static size_t source_row(const wf_gguf_rows *rows, size_t r) {
  if (rows->head_dim > 0) {
    const size_t head = r / rows->head_dim, i = r % rows->head_dim, half = rows->rotary_dim / 2;
    if (i < half) {
      r = head * rows->head_dim + 2 * i;
    } else if (i < rows->rotary_dim) {
      r = head * rows->head_dim + 2 * (i - half) + 1;
    }
  }
  return rows->first + r;
}

static const unsigned char *row_at(const wf_gguf_rows *rows, size_t r) {
  const wf_gguf_tensor *t = rows->tensor;
  uint32_t block = 1, block_bytes = 1;
  (void)wf_ggml_block(t->type, &block, &block_bytes);
  return t->at + source_row(rows, r) * ((size_t)t->dims[0] / block * block_bytes);
}

weft_status wf_gguf_vector(wf_gguf_build *b, const wf_gguf_rows *rows, const char *to) {
  /* A vector is one row; its elements are what source_row orders. */
  weft_status st = WEFT_OK;
  const size_t k = (size_t)rows->tensor->dims[0];
  float *all = wf_calloc(k, sizeof *all), *picked = wf_calloc(rows->n, sizeof *picked);
  const int64_t dim = (int64_t)rows->n;
  if (!all || !picked) {
    st = wf_fail_memory(b->err, k * sizeof *all, "a vector of weights");
    goto out;
  }
  wf_ggml_row_floats(rows->tensor->type, rows->tensor->at, k, all);
  for (size_t i = 0; i < rows->n; i++) picked[i] = all[source_row(rows, i)];
  WF_TRY(wf_onnxw_tensor_begin(b->w, to, WF_ONNXW_FLOAT, &dim, 1, b->err));
  wf_onnxw_data(b->w, picked, rows->n * sizeof *picked);
  st = report(b, rows->n * sizeof *picked);
out:
  wf_free(all);
  wf_free(picked);
  return st;
}

static bool is_float_form(const wf_gguf_build *b, const wf_gguf_tensor *t) {
  return b->opts->dequantize || wf_ggml_is_float(t->type);
}

/* The element type that a float form is stored in: the file's own, or float32. */
static wf_onnxw_type stored_type(const wf_gguf_build *b, const wf_gguf_tensor *t) {
  if (b->opts->dequantize || t->type == WF_GGML_F32) return WF_ONNXW_FLOAT;
  return t->type == WF_GGML_F16 ? WF_ONNXW_FLOAT16 : WF_ONNXW_BFLOAT16;
}

/* Streams [n, k] rows as they are, in the stored type. */
static weft_status write_rows(wf_gguf_build *b, const wf_gguf_rows *rows, const char *to) {
  const size_t k = (size_t)rows->tensor->dims[0];
  const int64_t dims[2] = {(int64_t)rows->n, (int64_t)k};
  const wf_onnxw_type type = stored_type(b, rows->tensor);
  float *row = type == WF_ONNXW_FLOAT ? wf_calloc(k, sizeof *row) : NULL;
  if (type == WF_ONNXW_FLOAT && !row) return wf_fail_memory(b->err, k * sizeof *row, "weights");
  const weft_status st = wf_onnxw_tensor_begin(b->w, to, type, dims, 2, b->err);
  for (size_t r = 0; st == WEFT_OK && r < rows->n; r++) {
    if (row) wf_ggml_row_floats(rows->tensor->type, row_at(rows, r), k, row);
    if (row)
      wf_onnxw_data(b->w, row, k * sizeof *row);
    else
      wf_onnxw_data(b->w, row_at(rows, r), k * 2);
  }
  wf_free(row);
  return st;
}

/* Streams [k, n], the transpose that ONNX's MatMul wants, a band of columns at a time. */
static weft_status write_transposed(wf_gguf_build *b, const wf_gguf_rows *rows, const char *to) {
  weft_status st = WEFT_OK;
  const size_t k = (size_t)rows->tensor->dims[0], n = rows->n;
  const wf_onnxw_type type = stored_type(b, rows->tensor);
  const size_t size = type == WF_ONNXW_FLOAT ? 4 : 2;
  const int64_t dims[2] = {(int64_t)k, (int64_t)n};
  uint32_t block = 1, block_bytes = 1;
  (void)wf_ggml_block(rows->tensor->type, &block, &block_bytes);
  /* A band is whole blocks, at least 64 columns, and about eight pieces of memory. */
  size_t band = 8 * PIECE_BYTES / (n * size);
  band = band < 64 ? 64 : band / 64 * 64;
  band = (band + block - 1) / block * block;
  if (band > k) band = k;
  unsigned char *out = wf_calloc(band * size, n);
  float *piece = wf_calloc(band, sizeof *piece);
  if (!out || !piece) {
    st = wf_fail_memory(b->err, band * size * n, "weights");
    goto out;
  }
  WF_TRY(wf_onnxw_tensor_begin(b->w, to, type, dims, 2, b->err));
  for (size_t c = 0; c < k; c += band) {
    const size_t width = k - c < band ? k - c : band;
    for (size_t r = 0; r < n; r++) {
      const unsigned char *src = row_at(rows, r) + c / block * block_bytes;
      const unsigned char *from = src;
      if (size == 4) {
        wf_ggml_row_floats(rows->tensor->type, src, width, piece);
        from = (const unsigned char *)piece;
      }
      for (size_t i = 0; i < width; i++) {
        if (size == 4)
          memcpy(out + (i * n + r) * 4, from + i * 4, 4);
        else
          memcpy(out + (i * n + r) * 2, from + i * 2, 2);
      }
    }
    wf_onnxw_data(b->w, out, width * n * size);
  }
out:
  wf_free(out);
  wf_free(piece);
  return st;
}

/* Streams the three arrays of a quantised matrix. q and scales go row by row; the offsets are
 * transposed to [k / block, n], the right side of a MatMul. */
static weft_status write_quantised(wf_gguf_build *b, const wf_gguf_rows *rows, const char *base,
                                   const wf_ggml_form *form) {
  weft_status st = WEFT_OK;
  const size_t k = (size_t)rows->tensor->dims[0], n = rows->n;
  const size_t blocks = k / (size_t)form->block, row_bytes = k * (size_t)form->bits / 8;
  const uint32_t type = rows->tensor->type;
  const int64_t q_dims[3] = {(int64_t)n, (int64_t)blocks, (int64_t)(row_bytes / blocks)};
  const int64_t offset_dims[2] = {(int64_t)blocks, (int64_t)n};
  const char *name = NULL;
  uint8_t *q = wf_alloc(row_bytes);
  float *scales = wf_calloc(blocks, sizeof *scales), *offsets = NULL;
  if (!q || !scales) {
    st = wf_fail_memory(b->err, row_bytes, "weights");
    goto out;
  }
  if (!(name = wf_gguf_name(b, "%s.qweight", base))) goto no_memory;
  WF_TRY(wf_onnxw_tensor_begin(b->w, name, WF_ONNXW_UINT8, q_dims, 3, b->err));
  for (size_t r = 0; r < n; r++) {
    wf_ggml_row_split(type, row_at(rows, r), k, q, NULL, NULL);
    wf_onnxw_data(b->w, q, row_bytes);
  }
  if (!(name = wf_gguf_name(b, "%s.scales", base))) goto no_memory;
  WF_TRY(wf_onnxw_tensor_begin(b->w, name, WF_ONNXW_FLOAT, q_dims, 2, b->err));
  for (size_t r = 0; r < n; r++) {
    wf_ggml_row_split(type, row_at(rows, r), k, NULL, scales, NULL);
    wf_onnxw_data(b->w, scales, blocks * sizeof *scales);
  }
  if (form->has_offset) {
    offsets = wf_calloc(blocks * n, sizeof *offsets);
    if (!offsets || !(name = wf_gguf_name(b, "%s.offsets", base))) goto no_memory;
    for (size_t r = 0; r < n; r++) {
      wf_ggml_row_split(type, row_at(rows, r), k, NULL, NULL, scales);
      for (size_t j = 0; j < blocks; j++) offsets[j * n + r] = scales[j];
    }
    WF_TRY(wf_onnxw_tensor_begin(b->w, name, WF_ONNXW_FLOAT, offset_dims, 2, b->err));
    wf_onnxw_data(b->w, offsets, blocks * n * sizeof *offsets);
  }
  goto out;
no_memory:
  st = wf_fail_memory(b->err, k * sizeof *offsets, "weights");
out:
  wf_free(q);
  wf_free(scales);
  wf_free(offsets);
  return st;
}

/* The name of the weight behind a node name, the way the model builder does it. */
static const char *weight_base(wf_gguf_build *b, const char *base) {
  char *name = wf_arena_strdup(b->names, base + 1);
  if (!name) {
    (void)wf_fail_memory(b->err, 1, "a name");
    return NULL;
  }
  for (char *c = name; *c; c++) {
    if (*c == '/') *c = '.';
  }
  return name;
}

weft_status wf_gguf_head_weights(wf_gguf_build *b, const wf_gguf_rows *rows, const char *base) {
  const char *weight, *name;
  wf_ggml_form form;
  TRY_NAME(weight, weight_base(b, base));
  if (is_float_form(b, rows->tensor)) {
    TRY_NAME(name, wf_gguf_name(b, "%s.weight", weight));
    WF_RETURN_IF_ERROR(write_transposed(b, rows, name));
  } else {
    if (!wf_ggml_form_of(rows->tensor->type, &form)) return WEFT_INTERNAL; /* wf_gguf_take saw it */
    WF_RETURN_IF_ERROR(write_quantised(b, rows, weight, &form));
  }
  WF_RETURN_IF_ERROR(report(b, rows->tensor->n_bytes / (size_t)rows->tensor->dims[1] * rows->n));
  wf_map_drop(&b->m->file->map, (size_t)(rows->tensor->at - b->m->file->map.at),
              rows->tensor->n_bytes);
  return WEFT_OK;
}

/* The sums of x over each block: [batch, sequence, k / block]. */
static const char *block_sums(wf_gguf_build *b, const char *x, size_t k, size_t block) {
  const int64_t shape[4] = {0, 0, (int64_t)(k / block), (int64_t)block}, last = -1;
  for (size_t i = 0; i < sizeof b->sums / sizeof *b->sums; i++) {
    if (b->sums[i].of == x && b->sums[i].block == block) return b->sums[i].sums;
  }
  const char *dims = wf_gguf_ints(b, shape, 4, false), *axes = wf_gguf_ints(b, &last, 1, false);
  const char *name = wf_gguf_name(b, "%s/blocks/Reshape", x);
  const char *name2 = wf_gguf_name(b, "%s/blocks/ReduceSum", x);
  if (!dims || !axes || !name || !name2) return NULL;
  const char *split =
      wf_gguf_node(b, "Reshape", "", name, (const char *const[]){x, dims}, 2, NULL, 0);
  if (!split) return NULL;
  const wf_onnxw_attr keep = WF_ONNXW_ATTR_I("keepdims", 0);
  const char *sums =
      wf_gguf_node(b, "ReduceSum", "", name2, (const char *const[]){split, axes}, 2, &keep, 1);
  if (!sums) return NULL;
  const size_t slot = b->n_sums++ % (sizeof b->sums / sizeof *b->sums);
  b->sums[slot].of = x;
  b->sums[slot].sums = sums;
  b->sums[slot].block = block;
  return sums;
}

static weft_status float_nodes(wf_gguf_build *b, const wf_gguf_rows *rows, const char *weight,
                               const char *base, const char *x, const char *out) {
  const char *name;
  TRY_NAME(name, wf_gguf_name(b, "%s.weight", weight));
  if (stored_type(b, rows->tensor) != WF_ONNXW_FLOAT) {
    const wf_onnxw_attr to = WF_ONNXW_ATTR_I("to", WF_ONNXW_FLOAT);
    const char *cast;
    TRY_NAME(cast, wf_gguf_name(b, "%s/Cast", base));
    TRY_NAME(name, wf_gguf_node(b, "Cast", "", cast, &name, 1, &to, 1));
  }
  wf_onnxw_node(b->g, "MatMul", "", base, (const char *const[]){x, name}, 2, &out, 1, NULL, 0);
  return WEFT_OK;
}

weft_status wf_gguf_head_nodes(wf_gguf_build *b, const wf_gguf_rows *rows, const char *base,
                               const char *x, const char *out) {
  const char *weight, *q, *scales, *offsets, *name, *nbits, *product, *sums;
  const size_t k = (size_t)rows->tensor->dims[0];
  wf_ggml_form form;
  TRY_NAME(weight, weight_base(b, base));
  if (is_float_form(b, rows->tensor)) return float_nodes(b, rows, weight, base, x, out);
  if (!wf_ggml_form_of(rows->tensor->type, &form)) return WEFT_INTERNAL;
  TRY_NAME(q, wf_gguf_name(b, "%s.qweight", weight));
  TRY_NAME(scales, wf_gguf_name(b, "%s.scales", weight));
  TRY_NAME(name, wf_gguf_name(b, "%sNBits", base));
  const wf_onnxw_attr attrs[] = {
      WF_ONNXW_ATTR_I("accuracy_level", b->opts->accuracy_level ? b->opts->accuracy_level : 4),
      WF_ONNXW_ATTR_I("bits", form.bits),
      WF_ONNXW_ATTR_I("block_size", form.block),
      WF_ONNXW_ATTR_I("K", (int64_t)k),
      WF_ONNXW_ATTR_I("N", (int64_t)rows->n),
  };
  const char *const inputs[] = {x, q, scales};
  if (!form.has_offset) {
    wf_onnxw_node(b->g, "MatMulNBits", "com.microsoft", name, inputs, 3, &out, 1, attrs, 5);
    return WEFT_OK;
  }
  TRY_NAME(nbits, wf_gguf_node(b, "MatMulNBits", "com.microsoft", name, inputs, 3, attrs, 5));
  TRY_NAME(sums, block_sums(b, x, k, (size_t)form.block));
  TRY_NAME(offsets, wf_gguf_name(b, "%s.offsets", weight));
  TRY_NAME(name, wf_gguf_name(b, "%s/offsets", base));
  TRY_NAME(product,
           wf_gguf_node(b, "MatMul", "", name, (const char *const[]){sums, offsets}, 2, NULL, 0));
  TRY_NAME(name, wf_gguf_name(b, "%s/offsets/Add", base));
  wf_onnxw_node(b->g, "Add", "", name, (const char *const[]){nbits, product}, 2, &out, 1, NULL, 0);
  return WEFT_OK;
}

weft_status wf_gguf_linear(wf_gguf_build *b, const wf_gguf_rows *rows, const char *base,
                           const char *x, const char **out) {
  if (!*out) TRY_NAME(*out, wf_gguf_name(b, "%s/output_0", base));
  WF_RETURN_IF_ERROR(wf_gguf_head_weights(b, rows, base));
  return wf_gguf_head_nodes(b, rows, base, x, *out);
}

/* embedding = GatherBlockQuantized + the gathered offsets, each spread over its block. */
static weft_status add_offsets(wf_gguf_build *b, const char *x, const char *offsets,
                               const char *ids, size_t k, size_t block, const char **out) {
  static const int64_t to_last[3] = {1, 2, 0};
  const int64_t split_shape[4] = {0, 0, (int64_t)(k / block), (int64_t)block}, last = -1;
  const int64_t whole_shape[3] = {0, 0, (int64_t)k};
  const wf_onnxw_attr axis = WF_ONNXW_ATTR_I("axis", 1);
  const wf_onnxw_attr perm = WF_ONNXW_ATTR_INTS("perm", to_last, 3);
  const char *split_dims, *whole_dims, *axes, *gathered, *split, *sum;
  TRY_NAME(split_dims, wf_gguf_ints(b, split_shape, 4, false));
  TRY_NAME(whole_dims, wf_gguf_ints(b, whole_shape, 3, false));
  TRY_NAME(axes, wf_gguf_ints(b, &last, 1, false));
  /* The table is the head's [k / block, vocabulary]: gathered by column, then turned. */
  TRY_NAME(gathered, wf_gguf_node(b, "Gather", "", "/model/embed_tokens/offsets/Gather",
                                  (const char *const[]){offsets, ids}, 2, &axis, 1));
  TRY_NAME(gathered, wf_gguf_node(b, "Transpose", "", "/model/embed_tokens/offsets/Transpose",
                                  &gathered, 1, &perm, 1));
  TRY_NAME(gathered, wf_gguf_node(b, "Unsqueeze", "", "/model/embed_tokens/offsets/Unsqueeze",
                                  (const char *const[]){gathered, axes}, 2, NULL, 0));
  TRY_NAME(split, wf_gguf_node(b, "Reshape", "", "/model/embed_tokens/offsets/Reshape_1",
                               (const char *const[]){x, split_dims}, 2, NULL, 0));
  TRY_NAME(sum, wf_gguf_node(b, "Add", "", "/model/embed_tokens/offsets/Add",
                             (const char *const[]){split, gathered}, 2, NULL, 0));
  TRY_NAME(*out, wf_gguf_node(b, "Reshape", "", "/model/embed_tokens/offsets/Reshape_2",
                              (const char *const[]){sum, whole_dims}, 2, NULL, 0));
  return WEFT_OK;
}

static weft_status float_embedding(wf_gguf_build *b, const wf_gguf_rows *rows, const char *ids,
                                   bool is_tied, const char **out) {
  static const int64_t swap[2] = {1, 0};
  const char *table = "model.embed_tokens.weight";
  if (is_tied) {
    const wf_onnxw_attr perm = WF_ONNXW_ATTR_INTS("perm", swap, 2);
    table = "lm_head.MatMul.weight";
    TRY_NAME(table, wf_gguf_node(b, "Transpose", "", "/model/embed_tokens/Transpose", &table, 1,
                                 &perm, 1));
  } else {
    WF_RETURN_IF_ERROR(write_rows(b, rows, table));
    WF_RETURN_IF_ERROR(report(b, rows->tensor->n_bytes));
  }
  TRY_NAME(*out, wf_gguf_node(b, "Gather", "", "/model/embed_tokens/Gather",
                              (const char *const[]){table, ids}, 2, NULL, 0));
  if (stored_type(b, rows->tensor) != WF_ONNXW_FLOAT) {
    const wf_onnxw_attr to = WF_ONNXW_ATTR_I("to", WF_ONNXW_FLOAT);
    TRY_NAME(*out, wf_gguf_node(b, "Cast", "", "/model/embed_tokens/Cast", out, 1, &to, 1));
  }
  return WEFT_OK;
}

weft_status wf_gguf_embedding(wf_gguf_build *b, const wf_gguf_tensor *t, const char *ids,
                              bool is_tied, const char **out) {
  const size_t k = (size_t)t->dims[0], n = (size_t)t->dims[1];
  const wf_gguf_rows rows = {.tensor = t, .n = n};
  const char *const base = is_tied ? "lm_head.MatMul" : "model.embed_tokens";
  const char *q, *flat, *scales, *offsets;
  wf_ggml_form form;
  if (is_float_form(b, t)) return float_embedding(b, &rows, ids, is_tied, out);
  if (!wf_ggml_form_of(t->type, &form)) return WEFT_INTERNAL;
  if (!is_tied) {
    WF_RETURN_IF_ERROR(write_quantised(b, &rows, base, &form));
    WF_RETURN_IF_ERROR(report(b, t->n_bytes));
  }
  TRY_NAME(q, wf_gguf_name(b, "%s.qweight", base));
  TRY_NAME(scales, wf_gguf_name(b, "%s.scales", base));
  TRY_NAME(offsets, wf_gguf_name(b, "%s.offsets", base));
  const int64_t shape[2] = {(int64_t)n, (int64_t)(k * (size_t)form.bits / 8)};
  TRY_NAME(flat, wf_gguf_ints(b, shape, 2, false));
  TRY_NAME(q, wf_gguf_node(b, "Reshape", "", "/model/embed_tokens/Reshape",
                           (const char *const[]){q, flat}, 2, NULL, 0));
  const wf_onnxw_attr attrs[] = {
      WF_ONNXW_ATTR_I("bits", form.bits),
      WF_ONNXW_ATTR_I("block_size", form.block),
      WF_ONNXW_ATTR_I("gather_axis", 0),
      WF_ONNXW_ATTR_I("quantize_axis", 1),
  };
  TRY_NAME(*out, wf_gguf_node(b, "GatherBlockQuantized", "com.microsoft",
                              "/model/embed_tokens/GatherBlockQuantized",
                              (const char *const[]){q, ids, scales}, 3, attrs, 4));
  if (!form.has_offset) return WEFT_OK;
  return add_offsets(b, *out, offsets, ids, k, (size_t)form.block, out);
}
