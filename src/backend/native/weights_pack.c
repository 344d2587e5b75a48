/* SPDX-License-Identifier: Apache-2.0 */
/* Packing of weights: one matrix at a time, into one file of the user's cache that is then mapped
 * read-only, or into private memory where no file can be written. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backend/native/program.h"
#include "base/hash.h"
#include "base/partial.h"
#include "base/str.h"

enum { PACK_HEADER_BYTES = 4096, PACK_ALIGN = 64, QDQ_BLOCK = 32 };

typedef struct pack_header {
  char magic[8];
  uint64_t key, n_bytes, n_weights;
  int64_t written_s; /* the file's time of change: another one means that somebody wrote to it */
} pack_header;

/* ---- from constants to a description ------------------------------------------------------- */

static weft_status no_memory(weft_error *err, size_t n) {
  return wf_fail_memory(err, n, "packing weights");
}

/* Floats of all parts one after another; borrowed where that is possible. */
static weft_status join_floats(const wf_component *c, const wf_weight *w, size_t field,
                               wf_arena *tmp, const float **result, weft_error *err) {
  size_t total = 0;
  for (int32_t i = 0; i < w->n_parts; i++) {
    const wf_tensor *t =
        *(const wf_tensor *const *)(const void *)((const char *)&w->parts[i] + field);
    total += t ? t->n : (size_t)w->parts[i].n;
  }
  const wf_tensor *first =
      *(const wf_tensor *const *)(const void *)((const char *)&w->parts[0] + field);
  if (w->n_parts == 1 && first->dtype == WF_DTYPE_F32 && ((uintptr_t)first->data & 3) == 0) {
    *result = first->data;
    return WEFT_OK;
  }
  float *out = wf_arena_calloc(tmp, total, sizeof *out);
  if (!out) return no_memory(err, total * sizeof *out);
  *result = out;
  for (int32_t i = 0; i < w->n_parts; i++) {
    const wf_tensor *t =
        *(const wf_tensor *const *)(const void *)((const char *)&w->parts[i] + field);
    if (t) WF_RETURN_IF_ERROR(wf_hold(c->level, t->dtype, t->data, t->n, out, err));
    out += t ? t->n : (size_t)w->parts[i].n; /* an absent bias is zero */
  }
  return WEFT_OK;
}

static weft_status join_bytes(const wf_weight *w, size_t field, wf_arena *tmp, const void **result,
                              weft_error *err) {
  const wf_tensor *first =
      *(const wf_tensor *const *)(const void *)((const char *)&w->parts[0] + field);
  if (w->n_parts == 1) {
    *result = first->data;
    return WEFT_OK;
  }
  size_t total = 0;
  for (int32_t i = 0; i < w->n_parts; i++) {
    total +=
        (*(const wf_tensor *const *)(const void *)((const char *)&w->parts[i] + field))->n_bytes;
  }
  char *out = wf_arena_alloc(tmp, total);
  if (!out) return no_memory(err, total);
  *result = out;
  for (int32_t i = 0; i < w->n_parts; i++) {
    const wf_tensor *t =
        *(const wf_tensor *const *)(const void *)((const char *)&w->parts[i] + field);
    memcpy(out, t->data, t->n_bytes);
    out += t->n_bytes;
  }
  return WEFT_OK;
}

/* Offsets are [n_blocks, N]: the parts lie side by side in each row. */
static weft_status join_offsets(const wf_component *c, const wf_weight *w, wf_arena *tmp,
                                const float **result, weft_error *err) {
  if (w->n_parts == 1) {
    return join_floats(c, w, offsetof(wf_weight_part, offsets), tmp, result, err);
  }
  const int64_t blocks = (w->k + w->block_size - 1) / w->block_size;
  float *out = wf_arena_calloc(tmp, (size_t)(blocks * w->n), sizeof *out);
  if (!out) return no_memory(err, (size_t)(blocks * w->n) * sizeof *out);
  *result = out;
  int64_t column = 0;
  for (int32_t i = 0; i < w->n_parts; i++) {
    const wf_tensor *t = w->parts[i].offsets;
    const int64_t n = w->parts[i].n;
    const size_t row_bytes = t->n_bytes / (size_t)blocks;
    for (int64_t b = 0; b < blocks; b++) {
      WF_RETURN_IF_ERROR(wf_hold(c->level, t->dtype, (const char *)t->data + (size_t)b * row_bytes,
                                 (size_t)n, out + b * w->n + column, err));
    }
    column += n;
  }
  return WEFT_OK;
}

/* Dense [K, N] parts side by side become [N, K] rows one after another only by copying. */
static weft_status join_dense_transposed(const wf_weight *w, wf_arena *tmp, const void **result,
                                         weft_error *err) {
  const size_t elem = (size_t)wf_dtype_bits(w->parts[0].data->dtype) / 8;
  if (w->n_parts == 1) {
    *result = w->parts[0].data->data;
    return WEFT_OK;
  }
  const size_t total = (size_t)w->k * (size_t)w->n * elem;
  char *out = wf_arena_alloc(tmp, total);
  if (!out) return no_memory(err, total);
  *result = out;
  size_t column = 0;
  for (int32_t i = 0; i < w->n_parts; i++) {
    const size_t row = (size_t)w->parts[i].n * elem;
    for (int64_t k = 0; k < w->k; k++) {
      memcpy(out + (size_t)k * (size_t)w->n * elem + column,
             (const char *)w->parts[i].data->data + (size_t)k * row, row);
    }
    column += row;
  }
  return WEFT_OK;
}

/* ---- DequantizeLinear's weights into blocks along K ------------------------------------------ */

static int read_quantised(const wf_tensor *t, int64_t i) {
  const uint8_t *p = t->data;
  switch (wf_dtype_bits(t->dtype)) {
    case 8:
      return wf_dtype_is_signed(t->dtype) ? (int)(int8_t)p[i] : (int)p[i];
    case 4: {
      const int v = p[i / 2] >> (i % 2 * 4) & 15;
      return wf_dtype_is_signed(t->dtype) && v > 7 ? v - 16 : v;
    }
    default: {
      const int v = p[i / 4] >> (i % 4 * 2) & 3;
      return wf_dtype_is_signed(t->dtype) && v > 1 ? v - 4 : v;
    }
  }
}

static float read_scale(const wf_tensor *t, int64_t i) {
  if (t->dtype == WF_DTYPE_F32) {
    float v;
    memcpy(&v, (const char *)t->data + (size_t)i * 4, 4);
    return v;
  }
  uint16_t h;
  memcpy(&h, (const char *)t->data + (size_t)i * 2, 2);
  if (t->dtype == WF_DTYPE_F16) return wf_f16_value(h);
  const uint32_t bits = (uint32_t)h << 16;
  float v;
  memcpy(&v, &bits, 4);
  return v;
}

/* Index into the scale tensor for element (n, k) of the matrix. */
static int64_t scale_at(const wf_weight *w, int64_t n, int64_t k) {
  const int64_t row = w->is_transposed ? k : n, col = w->is_transposed ? n : k;
  const int64_t cols = w->is_transposed ? w->n : w->k;
  if (w->parts[0].scales->n == 1) return 0;
  if (w->block_size == 0) return w->axis == 0 ? row : col;
  const int64_t bs = w->block_size;
  return w->axis == 0 ? row / bs * cols + col : row * ((cols + bs - 1) / bs) + col / bs;
}

/* Blocks along K that all share one scale: the block size of the packed form, 0 when there is none
 * and the matrix has to be dequantised. */
static int qdq_block(const wf_weight *w) {
  const int k_axis = w->is_transposed ? 0 : 1;
  if (w->parts[0].scales->n == 1) return QDQ_BLOCK;
  if (w->block_size == 0) return w->axis == k_axis ? 0 : QDQ_BLOCK;
  const int bs = w->block_size;
  if (w->axis != k_axis || bs < 16 || bs > 256 || (bs & (bs - 1)) != 0) return 0;
  return bs;
}

static weft_status qdq_nbits(const wf_weight *w, int bs, wf_arena *tmp, wf_weight_desc *d,
                             weft_error *err) {
  const wf_weight_part *p = &w->parts[0];
  const int64_t blocks = (w->k + bs - 1) / bs;
  const int bits = w->bits, per_byte = 8 / bits;
  const int shift = wf_dtype_is_signed(p->data->dtype) ? 1 << (bits - 1) : 0;
  const size_t n_data = (size_t)(w->n * blocks) * (size_t)(bs / per_byte);
  const size_t zero_row = (size_t)((blocks * bits + 7) / 8);
  uint8_t *data = wf_arena_alloc(tmp, n_data);
  float *scales = wf_arena_calloc(tmp, (size_t)(w->n * blocks), sizeof *scales);
  uint8_t *zeros = wf_arena_alloc(tmp, (size_t)w->n * zero_row);
  if (!data || !scales || !zeros) return no_memory(err, n_data);
  for (int64_t n = 0; n < w->n; n++) {
    for (int64_t b = 0; b < blocks; b++) {
      const int64_t at = scale_at(w, n, b * bs);
      const int zero = (p->zeros ? read_quantised(p->zeros, at) : 0) + shift;
      scales[n * blocks + b] = read_scale(p->scales, at);
      zeros[(size_t)n * zero_row + (size_t)(b * bits / 8)] |=
          (uint8_t)(zero << (int)(b * bits % 8));
      uint8_t *blob = data + (size_t)(n * blocks + b) * (size_t)(bs / per_byte);
      for (int j = 0; j < bs && b * bs + j < w->k; j++) {
        const int64_t k = b * bs + j;
        const int q =
            read_quantised(p->data, w->is_transposed ? k * w->n + n : n * w->k + k) + shift;
        blob[j / per_byte] |= (uint8_t)(q << (j % per_byte * bits));
      }
    }
  }
  d->format = WF_WEIGHT_NBITS;
  d->bits = bits;
  d->block_size = bs;
  d->data = data;
  d->scales = scales;
  d->zeros_packed = zeros;
  d->is_transposed = false;
  return WEFT_OK;
}

static weft_status qdq_dense(const wf_weight *w, wf_arena *tmp, wf_weight_desc *d,
                             weft_error *err) {
  const wf_weight_part *p = &w->parts[0];
  const int64_t total = w->n * w->k, cols = w->is_transposed ? w->n : w->k;
  float *data = wf_arena_calloc(tmp, (size_t)total, sizeof *data);
  if (!data) return no_memory(err, (size_t)total * sizeof *data);
  for (int64_t i = 0; i < total; i++) {
    const int64_t r = i / cols, col = i % cols;
    const int64_t at = scale_at(w, w->is_transposed ? col : r, w->is_transposed ? r : col);
    const int zero = p->zeros ? read_quantised(p->zeros, at) : 0;
    data[i] = (float)(read_quantised(p->data, i) - zero) * read_scale(p->scales, at);
  }
  d->format = WF_WEIGHT_F32;
  d->data = data;
  d->is_transposed = w->is_transposed;
  return WEFT_OK;
}

/* Parts one after another: each is [its n, K] with scales of its own. */
static weft_status bnb4_dense(const wf_component *c, const wf_weight *w, wf_arena *tmp,
                              wf_weight_desc *d, weft_error *err) {
  float *data = wf_arena_calloc(tmp, (size_t)w->n * (size_t)w->k, sizeof *data);
  if (!data) return no_memory(err, (size_t)w->n * (size_t)w->k * sizeof *data);
  d->data = data;
  for (int32_t i = 0; i < w->n_parts; i++) {
    const wf_weight_part *p = &w->parts[i];
    wf_bnb4_form form = w->bnb4;
    float *scales = wf_arena_calloc(tmp, p->scales->n, sizeof *scales);
    if (!scales) return no_memory(err, p->scales->n * sizeof *scales);
    WF_RETURN_IF_ERROR(
        wf_hold(c->level, p->scales->dtype, p->scales->data, p->scales->n, scales, err));
    form.n = p->n;
    wf_bnb4_widen(&form, p->data->data, scales, data);
    data += p->n * w->k;
  }
  return WEFT_OK;
}

/* The description a kernel packs from. With `is_sketch` nothing is read or joined: only sizes and
 * which parts there are count, so that planning costs no pass over the weights. */
static weft_status describe(wf_component *c, const wf_weight *w, bool is_sketch, wf_arena *tmp,
                            wf_weight_desc *d, weft_error *err) {
  const wf_weight_part *p = &w->parts[0];
  *d = (wf_weight_desc){.n = w->n, .k = w->k};
  bool has_bias = false;
  for (int32_t i = 0; i < w->n_parts; i++) has_bias |= w->parts[i].bias != NULL;
  if (has_bias) {
    /* Not in `tmp`: a weight used in place keeps its bias where it is. */
    WF_RETURN_IF_ERROR(join_floats(c, w, offsetof(wf_weight_part, bias), c->arena, &d->bias, err));
  }
  static const float one_float = 1;
  if (w->kind == WF_WK_QDQ) {
    const int bs = qdq_block(w);
    if (is_sketch) {
      d->format = bs ? WF_WEIGHT_NBITS : WF_WEIGHT_F32;
      d->is_transposed = bs ? false : w->is_transposed;
      d->bits = bs ? w->bits : 0;
      d->block_size = bs;
      d->data = p->data->data;
      if (bs) {
        d->scales = &one_float;
        d->zeros_packed = p->data->data;
      }
      return WEFT_OK;
    }
    return bs ? qdq_nbits(w, bs, tmp, d, err) : qdq_dense(w, tmp, d, err);
  }
  if (w->kind == WF_WK_BNB4) {
    d->format = WF_WEIGHT_F32;
    d->data = p->data->data;
    return is_sketch ? WEFT_OK : bnb4_dense(c, w, tmp, d, err);
  }
  if (w->kind == WF_WK_DENSE) {
    d->format = p->data->dtype == WF_DTYPE_F32   ? WF_WEIGHT_F32
                : p->data->dtype == WF_DTYPE_F16 ? WF_WEIGHT_F16
                                                 : WF_WEIGHT_BF16;
    d->is_transposed = w->is_transposed;
    d->data = p->data->data;
    if (is_sketch) return WEFT_OK;
    return w->is_transposed ? join_dense_transposed(w, tmp, &d->data, err)
                            : join_bytes(w, offsetof(wf_weight_part, data), tmp, &d->data, err);
  }
  d->format = WF_WEIGHT_NBITS;
  d->bits = w->bits;
  d->block_size = w->block_size;
  const bool zeros_float = p->zeros && p->zeros->dtype != WF_DTYPE_U8;
  if (is_sketch) {
    d->data = p->data->data;
    d->scales = &one_float;
    if (p->zeros && !zeros_float) d->zeros_packed = p->zeros->data;
    if (zeros_float) d->zeros_float = &one_float;
    if (p->offsets) d->offsets = &one_float;
    return WEFT_OK;
  }
  WF_RETURN_IF_ERROR(join_bytes(w, offsetof(wf_weight_part, data), tmp, &d->data, err));
  WF_RETURN_IF_ERROR(join_floats(c, w, offsetof(wf_weight_part, scales), tmp, &d->scales, err));
  if (zeros_float) {
    WF_RETURN_IF_ERROR(
        join_floats(c, w, offsetof(wf_weight_part, zeros), tmp, &d->zeros_float, err));
  } else if (p->zeros) {
    const void *zeros = NULL;
    WF_RETURN_IF_ERROR(join_bytes(w, offsetof(wf_weight_part, zeros), tmp, &zeros, err));
    d->zeros_packed = zeros;
  }
  if (p->offsets) WF_RETURN_IF_ERROR(join_offsets(c, w, tmp, &d->offsets, err));
  return WEFT_OK;
}

/* ---- packing ------------------------------------------------------------------------------- */

static void drop_source(const wf_weight *w) {
  for (int32_t i = 0; i < w->n_parts; i++) {
    const wf_tensor *list[] = {w->parts[i].data, w->parts[i].scales, w->parts[i].offsets};
    for (size_t j = 0; j < 3; j++) {
      if (list[j] && list[j]->map) wf_map_drop(list[j]->map, list[j]->map_at, list[j]->n_bytes);
    }
  }
}

static weft_status pack_one(wf_component *c, wf_weight *w, void *dst, weft_error *err) {
  wf_arena *tmp = wf_arena_create();
  wf_weight_desc d;
  weft_status st = WEFT_OK;
  if (!tmp) return no_memory(err, 0);
  if (w->kind == WF_WK_INT) {
    wf_int_desc of_int;
    WF_TRY(wf_weight_describe_int(c, w, tmp, &of_int, err));
    wf_int_pack(&w->integer, &of_int, dst);
  } else {
    WF_TRY(describe(c, w, false, tmp, &d, err));
    memset(dst, 0, w->packed_bytes); /* padding too is the same bytes every time */
    wf_weight_pack(&w->packed, &d, dst);
  }
  drop_source(w);
out:
  wf_arena_destroy(tmp);
  return st;
}

/* A weight that needs no packing is read where it is; joined or dequantised ones live in the arena.
 */
static weft_status use_in_place(wf_component *c, wf_weight *w, weft_error *err) {
  wf_weight_desc d;
  size_t n_bytes = 0;
  WF_RETURN_IF_ERROR(describe(c, w, false, c->arena, &d, err));
  WF_RETURN_IF_ERROR(wf_weight_plan(&w->packed, &d, w->mode, c->level, &n_bytes, err));
  if (n_bytes == 0) {
    wf_weight_pack(&w->packed, &d, NULL);
    return WEFT_OK;
  }
  /* The real bytes lie less well than the sketch's: packed after all. */
  void *dst = wf_arena_alloc(c->arena, n_bytes);
  if (!dst) return no_memory(err, n_bytes);
  wf_weight_pack(&w->packed, &d, dst);
  return WEFT_OK;
}

static uint64_t cache_key(const wf_component *c) {
  uint64_t h = WF_HASH_SEED;
  for (size_t i = 0; i < c->model->n_maps; i++) {
    const wf_map *m = c->model->maps[i];
    const uint64_t id[] = {m->device, m->inode, m->n_bytes, (uint64_t)m->mtime_s,
                           (uint64_t)m->mtime_ns};
    h = wf_hash_bytes(h, id, sizeof id);
  }
  const uint64_t general[] = {wf_weight_layout_version(), (uint64_t)c->level, c->exact,
                              c->n_weights};
  h = wf_hash_bytes(h, general, sizeof general);
  for (size_t i = 0; i < c->n_weights; i++) {
    const wf_weight *w = &c->weights[i];
    const uint64_t one[] = {
        (uint64_t)w->kind,       (uint64_t)w->n,       (uint64_t)w->k,  (uint64_t)w->bits,
        (uint64_t)w->block_size, (uint64_t)w->n_parts, w->packed_bytes, w->packed_at,
        (uint64_t)w->mode};
    h = wf_hash_bytes(h, one, sizeof one);
    /* Which constant it is: two exports may differ in nothing but the order of their tensors. */
    for (int32_t j = 0; j < w->n_parts; j++) {
      const uint64_t at = w->parts[j].data->map_at;
      h = wf_hash_bytes(h, &at, sizeof at);
    }
  }
  return h;
}

static char *cache_path(const char *cache_dir, uint64_t key) {
  wf_buf b = {0};
  wf_buf_puts(&b, cache_dir);
  wf_buf_puts(&b, "/packed/");
  wf_buf_printf(&b, "%016llx.pack", (unsigned long long)key);
  return wf_buf_take(&b);
}

/* A file that somebody else owns or may write to could hold any weights. */
static bool is_ours(const char *path, const wf_map *m) {
  struct stat info;
  return lstat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0 && (uint64_t)info.st_dev == m->device &&
         (uint64_t)info.st_ino == m->inode;
}

static bool cache_open(wf_component *c, const char *path, uint64_t key) {
  if (!wf_path_exists(path)) return false;
  wf_map m = {0};
  if (wf_map_open(&m, path, NULL) != WEFT_OK) return false;
  pack_header h;
  if (is_ours(path, &m) && m.n_bytes == PACK_HEADER_BYTES + c->pack_bytes) {
    memcpy(&h, m.at, sizeof h);
    if (memcmp(h.magic, "weftpack", 8) == 0 && h.key == key && h.written_s == m.mtime_s &&
        m.mtime_ns == 0 && h.n_bytes == c->pack_bytes && h.n_weights == c->n_weights) {
      c->pack_map = m;
      return true;
    }
  }
  wf_map_close(&m);
  return false;
}

static void tell(const wf_compile_options *o, uint64_t done, uint64_t total) {
  if (o->progress) o->progress(o->progress_user, done, total, "packing weights");
}

/* OK without a file means: it can't be written, pack to memory instead. */
static weft_status cache_write(wf_component *c, const wf_compile_options *o, const char *path,
                               uint64_t key, bool *is_written, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_writer *writer = NULL;
  void *buffer = NULL;
  size_t largest = 0;
  char *dir = wf_path_dir(path);
  *is_written = false;
  const bool is_there = dir && wf_path_make_dirs(dir, true, NULL) == WEFT_OK;
  if (is_there) wf_partial_sweep(dir);
  if (!is_there || wf_writer_create(&writer, path, true, NULL) != WEFT_OK) {
    writer = NULL;
    goto out;
  }
  for (size_t i = 0; i < c->n_weights; i++) {
    if (c->weights[i].packed_bytes > largest) largest = c->weights[i].packed_bytes;
  }
  buffer = wf_alloc_aligned(largest ? largest : 1, PACK_ALIGN);
  if (!buffer) {
    st = no_memory(err, largest);
    goto out;
  }
  /* even: the coarsest file systems count in twos */
  const int64_t now = (int64_t)time(NULL) & ~INT64_C(1);
  pack_header h = {{'w', 'e', 'f', 't', 'p', 'a', 'c', 'k'}, key, c->pack_bytes, c->n_weights, now};
  wf_writer_stamp(writer, now);
  wf_writer_add(writer, &h, sizeof h);
  wf_writer_pad(writer, PACK_HEADER_BYTES);
  for (size_t i = 0; i < c->n_weights; i++) {
    wf_weight *w = &c->weights[i];
    if (w->packed_bytes == 0) continue;
    WF_TRY(pack_one(c, w, buffer, err));
    wf_writer_add(writer, buffer, w->packed_bytes);
    wf_writer_pad(writer, PACK_ALIGN);
    tell(o, w->packed_at + w->packed_bytes, c->pack_bytes);
  }
  *is_written = wf_writer_commit(writer, NULL) == WEFT_OK;
  writer = NULL;
out:
  wf_writer_abandon(writer);
  wf_free(buffer);
  wf_free(dir);
  return st;
}

static weft_status pack_to_memory(wf_component *c, const wf_compile_options *o, weft_error *err) {
  c->pack_memory = wf_alloc_aligned(c->pack_bytes, PACK_ALIGN);
  if (!c->pack_memory) return no_memory(err, c->pack_bytes);
  for (size_t i = 0; i < c->n_weights; i++) {
    wf_weight *w = &c->weights[i];
    if (w->packed_bytes == 0) continue;
    WF_RETURN_IF_ERROR(pack_one(c, w, (char *)c->pack_memory + w->packed_at, err));
    tell(o, w->packed_at + w->packed_bytes, c->pack_bytes);
  }
  return WEFT_OK;
}

weft_status wf_weights_pack(wf_component *c, const wf_compile_options *o, weft_error *err) {
  weft_status st = WEFT_OK;
  char *path = NULL;
  for (size_t i = 0; i < c->n_weights; i++) {
    wf_weight *w = &c->weights[i];
    wf_weight_desc d;
    if (w->kind == WF_WK_INT) {
      WF_TRY(wf_int_plan(&w->integer, w->n, w->k, c->level, &w->packed_bytes, err));
      w->packed.bytes = w->packed_bytes;
    } else {
      WF_TRY(describe(c, w, true, c->arena, &d, err));
      WF_TRY(wf_weight_plan(&w->packed, &d, w->mode, c->level, &w->packed_bytes, err));
    }
    if (w->packed_bytes == 0) {
      WF_TRY(use_in_place(c, w, err));
      continue;
    }
    w->packed_at = c->pack_bytes;
    size_t end = 0;
    if (!wf_size_add(c->pack_bytes, w->packed_bytes, &end) ||
        !wf_size_align(end, PACK_ALIGN, &c->pack_bytes)) {
      st = wf_fail(err, WEFT_LIMIT, "", "the packed weights are larger than memory can be");
      goto out;
    }
  }
  if (c->pack_bytes == 0) goto out;
  bool is_ready = false;
  if (o->cache_dir) {
    const uint64_t key = cache_key(c);
    path = cache_path(o->cache_dir, key);
    if (path) {
      is_ready = cache_open(c, path, key);
      if (!is_ready) {
        bool is_written = false;
        WF_TRY(cache_write(c, o, path, key, &is_written, err));
        is_ready = is_written && cache_open(c, path, key);
      }
    }
  }
  if (!is_ready) WF_TRY(pack_to_memory(c, o, err));
  const char *base = is_ready ? (const char *)c->pack_map.at + PACK_HEADER_BYTES : c->pack_memory;
  for (size_t i = 0; i < c->n_weights; i++) {
    wf_weight *w = &c->weights[i];
    if (w->kind == WF_WK_INT) {
      wf_int_attach(&w->integer, base + w->packed_at);
    } else if (w->packed_bytes) {
      wf_weight_attach(&w->packed, base + w->packed_at);
    }
  }
out:
  wf_free(path);
  return st;
}

void wf_weights_release(wf_component *c) {
  wf_map_close(&c->pack_map);
  wf_free(c->pack_memory);
  c->pack_memory = NULL;
}
