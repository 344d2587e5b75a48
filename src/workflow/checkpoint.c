/* SPDX-License-Identifier: Apache-2.0 */
/* The file: "weftsess", version, hash of what follows; then the package's identity and each
 * semantic session cell by name with its contract and, where it has a value, type, extents and
 * bytes. Numbers are little-endian 64-bit, texts have their length in front. */
#include "workflow/checkpoint.h"

#include <string.h>

#include "base/hash.h"

enum { VERSION = 1, HEADER = 24 };
static const char magic[8] = {'w', 'e', 'f', 't', 's', 'e', 's', 's'};

static void put_number(wf_buf *b, int64_t v) {
  unsigned char bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)v >> (8 * i));
  wf_buf_add(b, bytes, sizeof bytes);
}

static void put_text(wf_buf *b, const char *text) {
  const size_t n = strlen(text);
  put_number(b, (int64_t)n);
  wf_buf_add(b, text, n);
}

/* Everything that a contract demands, as one line. */
static void put_contract(wf_buf *b, const wf_plan *p, const wf_plan_contract *c) {
  wf_buf line = {0};
  wf_buf_printf(&line, "%s rank %d", wf_dtype_name(c->dtype), (int)c->rank);
  for (int32_t i = 0; c->has_shape && i < c->rank; i++) {
    const wf_plan_dim *d = &c->dims[i];
    if (d->symbol >= 0)
      wf_buf_printf(&line, " %s", p->symbols[d->symbol].name);
    else
      wf_buf_printf(&line, " %lld", (long long)d->extent);
  }
  wf_buf_printf(&line, " layout %d %d %lld", (int)c->layout, (int)c->axis, (long long)c->factor);
  const char *text = wf_buf_cstr(&line);
  if (text)
    put_text(b, text);
  else
    b->failed = true;
  wf_buf_deinit(&line);
}

static bool is_kept(const wf_plan_cell *c) { return c->is_session && !c->is_advisory; }

static int64_t n_kept(const wf_plan *p) {
  int64_t n = 0;
  for (size_t i = 0; i < p->n_cells; i++) n += is_kept(&p->cells[i]);
  return n;
}

weft_status wf_checkpoint_write(const wf_worker_session *s, wf_buf *out, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_worker_session_check(s, err));
  const wf_plan *p = wf_worker_session_plan(s);
  const size_t start = out->n;
  wf_buf_add(out, magic, sizeof magic);
  put_number(out, VERSION);
  put_number(out, 0); /* the hash, once it is known */
  put_text(out, p->identity);
  put_number(out, n_kept(p));
  for (size_t i = 0; i < p->n_cells; i++) {
    const wf_view *v = wf_worker_session_cell(s, i);
    if (!is_kept(&p->cells[i])) continue;
    put_text(out, p->cells[i].name);
    put_contract(out, p, &p->cells[i].contract);
    put_number(out, v != NULL);
    if (!v) continue;
    put_number(out, v->dtype);
    put_number(out, v->rank);
    for (int32_t d = 0; d < v->rank; d++) put_number(out, v->dims[d]);
    put_number(out, (int64_t)wf_view_bytes(v));
    wf_buf_add(out, v->data, wf_view_bytes(v));
  }
  if (out->failed) return wf_fail_memory(err, out->n, "a checkpoint");
  const uint64_t hash =
      wf_hash_bytes(WF_HASH_SEED, out->at + start + HEADER, out->n - start - HEADER);
  for (int i = 0; i < 8; i++) out->at[start + 16 + (size_t)i] = (char)(hash >> (8 * i));
  return WEFT_OK;
}

/* ---- reading ------------------------------------------------------------------------------- */

typedef struct reader {
  const char *at;
  size_t n;
  bool failed;
} reader;

static wf_str take(reader *r, int64_t n) {
  const wf_str s = {r->at, (size_t)n};
  if (r->failed || n < 0 || (uint64_t)n > r->n) {
    r->failed = true;
    return (wf_str){"", 0};
  }
  r->at += n;
  r->n -= (size_t)n;
  return s;
}

static int64_t take_number(reader *r) {
  const wf_str s = take(r, 8);
  uint64_t v = 0;
  for (size_t i = 0; i < s.n; i++) v |= (uint64_t)(unsigned char)s.at[i] << (8 * i);
  return (int64_t)v;
}

static wf_str take_text(reader *r) { return take(r, take_number(r)); }

static weft_status fail_damaged(weft_error *err) {
  return wf_fail(err, WEFT_PACKAGE_INVALID, "start the session anew",
                 "the session's file is damaged or was cut off");
}

static int32_t cell_named(const wf_plan *p, wf_str name) {
  for (size_t i = 0; i < p->n_cells; i++) {
    if (is_kept(&p->cells[i]) && wf_str_is(name, p->cells[i].name)) return (int32_t)i;
  }
  return -1;
}

/* A value within what a tensor may be and of the cell's contract. */
static bool take_view(reader *r, const wf_plan_contract *c, wf_view *v) {
  size_t n_elements = 0, n_bytes = 0;
  *v = (wf_view){.dtype = (wf_dtype)take_number(r)};
  const int64_t rank = take_number(r);
  if (r->failed || v->dtype != c->dtype || rank != c->rank || rank > WF_VIEW_MAX_RANK) return false;
  v->rank = (int32_t)rank;
  for (int32_t d = 0; d < v->rank; d++) {
    v->dims[d] = take_number(r);
    const bool is_fixed = c->has_shape && c->dims[d].symbol < 0;
    if (v->dims[d] < 0 || (is_fixed && v->dims[d] != c->dims[d].extent)) return false;
  }
  if (!wf_dims_count(v->dims, (size_t)v->rank, &n_elements) ||
      !wf_dtype_bytes(v->dtype, n_elements, &n_bytes)) {
    return false;
  }
  const wf_str bytes = take_text(r);
  v->data = wf_unconst(bytes.at); /* only read: the session takes a copy */
  return !r->failed && bytes.n == n_bytes;
}

static weft_status read_cell(reader *r, const wf_plan *p, wf_view *views, bool *seen,
                             weft_error *err) {
  const wf_str name = take_text(r), contract = take_text(r);
  const int64_t has_value = take_number(r);
  if (r->failed) return fail_damaged(err);
  const int32_t cell = cell_named(p, name);
  wf_buf wanted = {0};
  if (cell >= 0) put_contract(&wanted, p, &p->cells[cell].contract);
  const bool is_same = cell >= 0 && !seen[cell] && !wanted.failed && wanted.n == contract.n + 8 &&
                       memcmp(wanted.at + 8, contract.at, contract.n) == 0;
  wf_buf_deinit(&wanted);
  if (!is_same) {
    return wf_fail(err, WEFT_PACKAGE_INVALID, "start the session anew",
                   "the session's file holds cell '%.*s' (%.*s), which the workflow does not have",
                   (int)(name.n < 80 ? name.n : 80), name.at,
                   (int)(contract.n < 80 ? contract.n : 80), contract.at);
  }
  seen[cell] = true;
  if (has_value && !take_view(r, &p->cells[cell].contract, &views[cell])) return fail_damaged(err);
  return WEFT_OK;
}

static weft_status read_all(reader *r, const wf_plan *p, wf_view *views, bool *seen,
                            weft_error *err) {
  const wf_str identity = take_text(r);
  if (r->failed) return fail_damaged(err);
  if (!wf_str_is(identity, p->identity)) {
    return wf_fail(err, WEFT_PACKAGE_INVALID, "use the package that wrote it",
                   "the session's file belongs to another package");
  }
  const int64_t n = take_number(r);
  if (r->failed || n != n_kept(p)) return fail_damaged(err);
  for (int64_t i = 0; i < n; i++) WF_RETURN_IF_ERROR(read_cell(r, p, views, seen, err));
  return r->n == 0 ? WEFT_OK : fail_damaged(err);
}

weft_status wf_checkpoint_read(wf_worker_session *s, wf_str bytes, weft_error *err) {
  weft_status st = WEFT_OK;
  WF_RETURN_IF_ERROR(wf_worker_session_check(s, err));
  const wf_plan *p = wf_worker_session_plan(s);
  reader r = {bytes.at, bytes.n, false};
  const wf_str head = take(&r, sizeof magic);
  const int64_t version = take_number(&r);
  const uint64_t hash = (uint64_t)take_number(&r);
  if (r.failed || memcmp(head.at, magic, sizeof magic) != 0) {
    return wf_fail(err, WEFT_PACKAGE_INVALID, "name a file that a session was saved to",
                   "this is no session's file");
  }
  if (version != VERSION) {
    return wf_fail(err, WEFT_PACKAGE_INVALID, "start the session anew",
                   "the session's file has version %lld, known is %d", (long long)version, VERSION);
  }
  if (wf_hash_bytes(WF_HASH_SEED, r.at, r.n) != hash) return fail_damaged(err);
  wf_view *views = wf_calloc(p->n_cells + 1, sizeof *views);
  bool *seen = wf_calloc(p->n_cells + 1, sizeof *seen);
  if (!views || !seen) WF_TRY(wf_fail_memory(err, p->n_cells * sizeof *views, "a session"));
  WF_TRY(read_all(&r, p, views, seen, err));
  st = wf_worker_session_set(s, views, seen, err);
out:
  wf_free(views);
  wf_free(seen);
  return st;
}
