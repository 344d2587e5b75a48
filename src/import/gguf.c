/* SPDX-License-Identifier: Apache-2.0 */
#include "import/gguf.h"

#include <math.h>
#include <stdlib.h>

#include "base/utf8.h"

/* Enough for any real model, small enough that sorting and looking up stay cheap. */
#define MAX_ENTRIES 65536u
#define MAX_TENSORS 262144u
#define MAX_NAME_BYTES 65535u

static const char fix_damaged[] = "download or convert the file again";

typedef struct reader {
  const unsigned char *at;
  size_t n, pos;
  const char *path;
  weft_error *err;
} reader;

static weft_status damaged(const reader *r, const char *what) {
  return wf_fail(r->err, WEFT_PARSE, fix_damaged, "GGUF file '%s' is damaged: %s at byte %zu",
                 r->path, what, r->pos);
}

static weft_status need(const reader *r, uint64_t n, const char *what) {
  if (n > r->n - r->pos) return damaged(r, what);
  return WEFT_OK;
}

static weft_status read_u32(reader *r, uint32_t *v, const char *what) {
  WF_RETURN_IF_ERROR(need(r, sizeof *v, what));
  memcpy(v, r->at + r->pos, sizeof *v);
  r->pos += sizeof *v;
  return WEFT_OK;
}

static weft_status read_u64(reader *r, uint64_t *v, const char *what) {
  WF_RETURN_IF_ERROR(need(r, sizeof *v, what));
  memcpy(v, r->at + r->pos, sizeof *v);
  r->pos += sizeof *v;
  return WEFT_OK;
}

static weft_status read_name(reader *r, wf_str *name, const char *what) {
  uint64_t n;
  WF_RETURN_IF_ERROR(read_u64(r, &n, what));
  if (n == 0 || n > MAX_NAME_BYTES) return damaged(r, what);
  WF_RETURN_IF_ERROR(need(r, n, what));
  *name = (wf_str){(const char *)r->at + r->pos, (size_t)n};
  if (!wf_utf8_is_valid(name->at, name->n) || memchr(name->at, 0, name->n)) {
    return damaged(r, what);
  }
  r->pos += (size_t)n;
  return WEFT_OK;
}

static size_t scalar_bytes(uint32_t kind) {
  switch (kind) {
    case WF_GGUF_U8:
    case WF_GGUF_I8:
    case WF_GGUF_BOOL:
      return 1;
    case WF_GGUF_U16:
    case WF_GGUF_I16:
      return 2;
    case WF_GGUF_U32:
    case WF_GGUF_I32:
    case WF_GGUF_F32:
      return 4;
    case WF_GGUF_U64:
    case WF_GGUF_I64:
    case WF_GGUF_F64:
      return 8;
    default:
      return 0;
  }
}

static weft_status read_array(reader *r, wf_gguf_entry *e) {
  uint32_t element;
  WF_RETURN_IF_ERROR(read_u32(r, &element, "an array's element type"));
  WF_RETURN_IF_ERROR(read_u64(r, &e->n, "an array's length"));
  e->element = (wf_gguf_kind)element;
  e->at = r->at + r->pos;
  if (element == WF_GGUF_STRING) {
    const size_t start = r->pos;
    /* Each string takes at least its length field: a lying count ends here, not in a long loop. */
    if (e->n > (r->n - r->pos) / 8) return damaged(r, "an array longer than the file");
    for (uint64_t i = 0; i < e->n; i++) {
      uint64_t n;
      WF_RETURN_IF_ERROR(read_u64(r, &n, "a string's length"));
      WF_RETURN_IF_ERROR(need(r, n, "a string longer than the file"));
      r->pos += (size_t)n;
    }
    e->n_bytes = r->pos - start;
    return WEFT_OK;
  }
  const size_t size = scalar_bytes(element);
  if (size == 0) return damaged(r, "an array of an unknown or nested type");
  if (e->n > (r->n - r->pos) / size) return damaged(r, "an array longer than the file");
  e->n_bytes = (size_t)e->n * size;
  r->pos += e->n_bytes;
  return WEFT_OK;
}

static weft_status read_entry(reader *r, wf_gguf_entry *e) {
  uint32_t kind;
  *e = (wf_gguf_entry){.n = 1};
  WF_RETURN_IF_ERROR(read_name(r, &e->key, "a metadata key"));
  WF_RETURN_IF_ERROR(read_u32(r, &kind, "a metadata type"));
  if (kind > WF_GGUF_F64) return damaged(r, "an unknown metadata type");
  e->kind = (wf_gguf_kind)kind;
  if (kind == WF_GGUF_ARRAY) return read_array(r, e);
  if (kind == WF_GGUF_STRING) {
    WF_RETURN_IF_ERROR(read_u64(r, &e->n, "a string's length"));
    WF_RETURN_IF_ERROR(need(r, e->n, "a string longer than the file"));
    e->n_bytes = (size_t)e->n;
  } else {
    e->n_bytes = scalar_bytes(kind);
    WF_RETURN_IF_ERROR(need(r, e->n_bytes, "a metadata value"));
  }
  e->at = r->at + r->pos;
  r->pos += e->n_bytes;
  if (kind == WF_GGUF_BOOL && e->at[0] > 1) return damaged(r, "a truth value above 1");
  return WEFT_OK;
}

typedef struct ggml_row {
  uint32_t type, n_elements, n_bytes;
  const char *name;
} ggml_row;

/* Types that are not imported are here too, so that a file that holds one is refused by that type's
 * name and not as damaged. */
static const ggml_row ggml_rows[] = {
    {0, 1, 4, "F32"},         {1, 1, 2, "F16"},         {2, 32, 18, "Q4_0"},
    {3, 32, 20, "Q4_1"},      {6, 32, 22, "Q5_0"},      {7, 32, 24, "Q5_1"},
    {8, 32, 34, "Q8_0"},      {9, 32, 36, "Q8_1"},      {10, 256, 84, "Q2_K"},
    {11, 256, 110, "Q3_K"},   {12, 256, 144, "Q4_K"},   {13, 256, 176, "Q5_K"},
    {14, 256, 210, "Q6_K"},   {15, 256, 292, "Q8_K"},   {16, 256, 66, "IQ2_XXS"},
    {17, 256, 74, "IQ2_XS"},  {18, 256, 98, "IQ3_XXS"}, {19, 256, 50, "IQ1_S"},
    {20, 32, 18, "IQ4_NL"},   {21, 256, 110, "IQ3_S"},  {22, 256, 82, "IQ2_S"},
    {23, 256, 136, "IQ4_XS"}, {24, 1, 1, "I8"},         {25, 1, 2, "I16"},
    {26, 1, 4, "I32"},        {27, 1, 8, "I64"},        {28, 1, 8, "F64"},
    {29, 256, 56, "IQ1_M"},   {30, 1, 2, "BF16"},       {34, 256, 54, "TQ1_0"},
    {35, 256, 66, "TQ2_0"},   {39, 32, 17, "MXFP4"},
};

static const ggml_row *find_row(uint32_t type) {
  for (size_t i = 0; i < sizeof ggml_rows / sizeof *ggml_rows; i++) {
    if (ggml_rows[i].type == type) return &ggml_rows[i];
  }
  return NULL;
}

bool wf_ggml_block(uint32_t type, uint32_t *n_elements, uint32_t *n_bytes) {
  const ggml_row *row = find_row(type);
  if (!row) return false;
  *n_elements = row->n_elements;
  *n_bytes = row->n_bytes;
  return true;
}

const char *wf_ggml_name(uint32_t type) {
  const ggml_row *row = find_row(type);
  return row ? row->name : NULL;
}

/* Reads one line of the tensor table; the data's place is kept as an offset in *offset. */
static weft_status read_tensor(reader *r, wf_gguf_tensor *t, uint64_t *offset) {
  uint32_t block, block_bytes;
  size_t n = 1;
  *t = (wf_gguf_tensor){.dims = {1, 1, 1, 1}};
  WF_RETURN_IF_ERROR(read_name(r, &t->name, "a tensor's name"));
  WF_RETURN_IF_ERROR(read_u32(r, &t->rank, "a tensor's rank"));
  if (t->rank == 0 || t->rank > 4) return damaged(r, "a tensor of rank 0 or above 4");
  for (uint32_t i = 0; i < t->rank; i++) {
    WF_RETURN_IF_ERROR(read_u64(r, &t->dims[i], "a tensor's shape"));
    if (t->dims[i] == 0 || t->dims[i] > INT32_MAX || !wf_size_mul(n, (size_t)t->dims[i], &n)) {
      return damaged(r, "a tensor's extent");
    }
  }
  WF_RETURN_IF_ERROR(read_u32(r, &t->type, "a tensor's type"));
  WF_RETURN_IF_ERROR(read_u64(r, offset, "a tensor's offset"));
  if (!wf_ggml_block(t->type, &block, &block_bytes)) {
    return wf_fail(r->err, WEFT_UNSUPPORTED, "use a file quantised to a type weft imports",
                   "tensor '%.*s' of GGUF file '%s' has the unknown element type %u",
                   (int)t->name.n, t->name.at, r->path, (unsigned)t->type);
  }
  if (t->dims[0] % block != 0) return damaged(r, "a row that is no whole number of blocks");
  if (!wf_size_mul(n / block, block_bytes, &t->n_bytes)) return damaged(r, "a tensor's size");
  return WEFT_OK;
}

static int compare_str(wf_str a, wf_str b) {
  const int c = memcmp(a.at, b.at, a.n < b.n ? a.n : b.n);
  return c != 0 ? c : (a.n > b.n) - (a.n < b.n);
}

static int compare_entries(const void *a, const void *b) {
  return compare_str(((const wf_gguf_entry *)a)->key, ((const wf_gguf_entry *)b)->key);
}

static int compare_tensors(const void *a, const void *b) {
  return compare_str(((const wf_gguf_tensor *)a)->name, ((const wf_gguf_tensor *)b)->name);
}

static weft_status read_header(reader *r, uint32_t *version, uint64_t *n_tensors,
                               uint64_t *n_entries) {
  uint32_t magic;
  WF_RETURN_IF_ERROR(read_u32(r, &magic, "the magic number"));
  if (magic != UINT32_C(0x46554747)) {
    return wf_fail(r->err, WEFT_PARSE, "give a file that ends in .gguf and begins with GGUF",
                   "'%s' is not a GGUF file", r->path);
  }
  WF_RETURN_IF_ERROR(read_u32(r, version, "the version"));
  if (*version != 2 && *version != 3) {
    const bool is_swapped = *version == UINT32_C(0x02000000) || *version == UINT32_C(0x03000000);
    return wf_fail(r->err, WEFT_UNSUPPORTED,
                   is_swapped ? "use the little-endian file of this model"
                              : "convert the model again with a current converter",
                   is_swapped ? "GGUF file '%s' is big-endian"
                              : "GGUF file '%s' has version %u, and weft reads 2 and 3",
                   r->path, (unsigned)*version);
  }
  WF_RETURN_IF_ERROR(read_u64(r, n_tensors, "the number of tensors"));
  WF_RETURN_IF_ERROR(read_u64(r, n_entries, "the number of metadata entries"));
  if (*n_tensors > MAX_TENSORS || *n_tensors > r->n / 32) {
    return damaged(r, "more tensors than the file can hold");
  }
  if (*n_entries > MAX_ENTRIES || *n_entries > r->n / 13) {
    return damaged(r, "more metadata entries than the file can hold");
  }
  return WEFT_OK;
}

static weft_status read_entries(reader *r, wf_gguf *g, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) {
    wf_gguf_entry e;
    WF_RETURN_IF_ERROR(read_entry(r, &e));
    if (!wf_vec_push(&g->entries, e)) return wf_fail_memory(r->err, sizeof e, "GGUF metadata");
  }
  if (n > 0) qsort(g->entries.at, g->entries.n, sizeof *g->entries.at, compare_entries);
  for (size_t i = 1; i < g->entries.n; i++) {
    const wf_str key = g->entries.at[i].key;
    if (wf_str_eq(key, g->entries.at[i - 1].key)) {
      return wf_fail(r->err, WEFT_PARSE, fix_damaged, "GGUF file '%s' has the key '%.*s' twice",
                     r->path, (int)key.n, key.at);
    }
  }
  return WEFT_OK;
}

static weft_status read_tensors(reader *r, wf_gguf *g, uint64_t n) {
  uint64_t alignment = 32;
  size_t data;
  bool found;
  for (uint64_t i = 0; i < n; i++) {
    wf_gguf_tensor t;
    uint64_t offset = 0;
    WF_RETURN_IF_ERROR(read_tensor(r, &t, &offset));
    /* The data's start is known only after the table; until then `at` holds the offset. */
    if (offset > r->n) return damaged(r, "a tensor outside the file");
    t.at = r->at + (size_t)offset;
    if (!wf_vec_push(&g->tensors, t)) return wf_fail_memory(r->err, sizeof t, "GGUF tensors");
  }
  WF_RETURN_IF_ERROR(wf_gguf_u64(g, "general.alignment", &alignment, &found, r->err));
  if (alignment == 0 || alignment > 65536 || (alignment & (alignment - 1)) != 0) {
    return damaged(r, "an alignment that is no power of two");
  }
  if (n == 0) return WEFT_OK;
  if (!wf_size_align(r->pos, (size_t)alignment, &data) || data > r->n) {
    return damaged(r, "the end of the file before the tensors");
  }
  for (size_t i = 0; i < g->tensors.n; i++) {
    wf_gguf_tensor *t = &g->tensors.at[i];
    const size_t offset = (size_t)(t->at - r->at);
    if (offset % alignment != 0 || offset > r->n - data || t->n_bytes > r->n - data - offset) {
      return wf_fail(r->err, WEFT_PARSE, fix_damaged,
                     "tensor '%.*s' (%zu bytes at %zu) lies outside GGUF file '%s' of %zu bytes",
                     (int)t->name.n, t->name.at, t->n_bytes, data + offset, r->path, r->n);
    }
    t->at = r->at + data + offset;
  }
  qsort(g->tensors.at, g->tensors.n, sizeof *g->tensors.at, compare_tensors);
  for (size_t i = 1; i < g->tensors.n; i++) {
    const wf_str name = g->tensors.at[i].name;
    if (wf_str_eq(name, g->tensors.at[i - 1].name)) {
      return wf_fail(r->err, WEFT_PARSE, fix_damaged, "GGUF file '%s' has the tensor '%.*s' twice",
                     r->path, (int)name.n, name.at);
    }
  }
  return WEFT_OK;
}

weft_status wf_gguf_open(wf_gguf *g, const char *path, weft_error *err) {
  weft_status st = WEFT_OK;
  uint64_t n_tensors = 0, n_entries = 0;
  *g = (wf_gguf){0};
  WF_RETURN_IF_ERROR(wf_map_open(&g->map, path, err));
  reader r = {.at = g->map.at, .n = g->map.n_bytes, .path = path, .err = err};
  WF_TRY(read_header(&r, &g->version, &n_tensors, &n_entries));
  WF_TRY(read_entries(&r, g, n_entries));
  WF_TRY(read_tensors(&r, g, n_tensors));
out:
  if (st != WEFT_OK) wf_gguf_close(g);
  return st;
}

void wf_gguf_close(wf_gguf *g) {
  wf_vec_free(&g->entries);
  wf_vec_free(&g->tensors);
  wf_map_close(&g->map);
}

const wf_gguf_entry *wf_gguf_find(const wf_gguf *g, const char *key) {
  const wf_gguf_entry probe = {.key = wf_str_of(key)};
  if (g->entries.n == 0) return NULL;
  return bsearch(&probe, g->entries.at, g->entries.n, sizeof probe, compare_entries);
}

const wf_gguf_tensor *wf_gguf_find_tensor(const wf_gguf *g, const char *name) {
  const wf_gguf_tensor probe = {.name = wf_str_of(name)};
  if (g->tensors.n == 0) return NULL;
  return bsearch(&probe, g->tensors.at, g->tensors.n, sizeof probe, compare_tensors);
}

/* A scalar of any numeric kind as both an integer (when it is one) and a double. */
static bool load_number(wf_gguf_kind kind, const unsigned char *at, double *f, int64_t *i,
                        bool *is_integer) {
  union {
    uint8_t u8;
    int8_t i8;
    uint16_t u16;
    int16_t i16;
    uint32_t u32;
    int32_t i32;
    float f32;
    uint64_t u64;
    int64_t i64;
    double f64;
  } v = {0};
  const size_t size = scalar_bytes(kind);
  memcpy(&v, at, size);
  *is_integer = true;
  *i = 0;
  switch (kind) {
    case WF_GGUF_BOOL:
    case WF_GGUF_U8:
      *i = v.u8;
      break;
    case WF_GGUF_I8:
      *i = v.i8;
      break;
    case WF_GGUF_U16:
      *i = v.u16;
      break;
    case WF_GGUF_I16:
      *i = v.i16;
      break;
    case WF_GGUF_U32:
      *i = v.u32;
      break;
    case WF_GGUF_I32:
      *i = v.i32;
      break;
    case WF_GGUF_I64:
      *i = v.i64;
      break;
    case WF_GGUF_U64:
      *i = (int64_t)(v.u64 & INT64_MAX);
      *is_integer = v.u64 <= INT64_MAX;
      break;
    case WF_GGUF_F32:
    case WF_GGUF_F64:
      *f = kind == WF_GGUF_F32 ? (double)v.f32 : v.f64;
      *is_integer = false;
      return true;
    case WF_GGUF_STRING:
    case WF_GGUF_ARRAY:
      return false;
  }
  *f = (double)*i;
  return true;
}

static weft_status wrong_kind(const wf_gguf *g, const char *key, const char *wanted,
                              weft_error *err) {
  return wf_fail(err, WEFT_PARSE, fix_damaged, "'%s' of GGUF file '%s' is not %s", key, g->map.path,
                 wanted);
}

/* The number behind a key; an array of equal numbers is that number. */
static weft_status find_number(const wf_gguf *g, const char *key, double *f, int64_t *i,
                               bool *is_integer, bool *found, weft_error *err) {
  const wf_gguf_entry *e = wf_gguf_find(g, key);
  *found = e != NULL;
  if (!e) return WEFT_OK;
  if (e->kind != WF_GGUF_ARRAY) {
    if (!load_number(e->kind, e->at, f, i, is_integer)) return wrong_kind(g, key, "a number", err);
    return WEFT_OK;
  }
  const size_t size = scalar_bytes(e->element);
  if (size == 0 || e->n == 0) return wrong_kind(g, key, "a number", err);
  for (uint64_t j = 1; j < e->n; j++) {
    if (memcmp(e->at, e->at + (size_t)j * size, size) != 0) {
      return wf_fail(err, WEFT_UNSUPPORTED, "use a model whose layers are alike",
                     "'%s' of GGUF file '%s' differs between layers", key, g->map.path);
    }
  }
  (void)load_number(e->element, e->at, f, i, is_integer);
  return WEFT_OK;
}

weft_status wf_gguf_u64(const wf_gguf *g, const char *key, uint64_t *result, bool *found,
                        weft_error *err) {
  double f = 0;
  int64_t i = 0;
  bool is_integer = true;
  WF_RETURN_IF_ERROR(find_number(g, key, &f, &i, &is_integer, found, err));
  if (!*found) return WEFT_OK;
  if (!is_integer || i < 0) return wrong_kind(g, key, "a whole number from 0", err);
  *result = (uint64_t)i;
  return WEFT_OK;
}

weft_status wf_gguf_f64(const wf_gguf *g, const char *key, double *result, bool *found,
                        weft_error *err) {
  double f = 0;
  int64_t i = 0;
  bool is_integer = true;
  WF_RETURN_IF_ERROR(find_number(g, key, &f, &i, &is_integer, found, err));
  if (!*found) return WEFT_OK;
  if (!isfinite(f)) return wrong_kind(g, key, "a finite number", err);
  *result = f;
  return WEFT_OK;
}

weft_status wf_gguf_bool(const wf_gguf *g, const char *key, bool *result, bool *found,
                         weft_error *err) {
  const wf_gguf_entry *e = wf_gguf_find(g, key);
  *found = e != NULL;
  if (!e) return WEFT_OK;
  if (e->kind != WF_GGUF_BOOL) return wrong_kind(g, key, "a truth value", err);
  *result = e->at[0] != 0;
  return WEFT_OK;
}

weft_status wf_gguf_string(const wf_gguf *g, const char *key, wf_str *result, bool *found,
                           weft_error *err) {
  const wf_gguf_entry *e = wf_gguf_find(g, key);
  *found = e != NULL;
  if (!e) return WEFT_OK;
  if (e->kind != WF_GGUF_STRING) return wrong_kind(g, key, "a string", err);
  *result = (wf_str){(const char *)e->at, (size_t)e->n};
  return WEFT_OK;
}

double wf_gguf_array_f64(const wf_gguf_entry *e, uint64_t i) {
  double f = 0;
  int64_t n;
  bool is_integer;
  (void)load_number(e->element, e->at + (size_t)i * scalar_bytes(e->element), &f, &n, &is_integer);
  return f;
}

int64_t wf_gguf_array_i64(const wf_gguf_entry *e, uint64_t i) {
  double f = 0;
  int64_t n = 0;
  bool is_integer;
  (void)load_number(e->element, e->at + (size_t)i * scalar_bytes(e->element), &f, &n, &is_integer);
  return n;
}

bool wf_gguf_array_next(const wf_gguf_entry *e, size_t *cursor, wf_str *result) {
  uint64_t n;
  if (*cursor >= e->n_bytes) return false;
  memcpy(&n, e->at + *cursor, sizeof n); /* checked when the file was opened */
  *result = (wf_str){(const char *)e->at + *cursor + sizeof n, (size_t)n};
  *cursor += sizeof n + (size_t)n;
  return true;
}
