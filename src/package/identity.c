/* SPDX-License-Identifier: Apache-2.0 */
/* The semantic identity of a document (format §17.3): SHA-256 over canonical JSON. The tables of
 * schema.h say which plain scalars are texts and which lists are sets, so that the same document in
 * YAML and in JSON has one identity. */
#include <math.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "package/schema.h"

static void put_string(wf_buf *b, wf_str s) { wf_buf_add_json_string(b, s, false); }

static void put_number(wf_buf *b, const wf_doc_node *n) {
  if (n->kind == WF_DOC_INT) {
    wf_buf_printf(b, "%lld", (long long)n->as.i);
  } else if (n->as.f == trunc(n->as.f) && fabs(n->as.f) < 1e18) {
    wf_buf_printf(b, "%lld", (long long)n->as.f);
  } else {
    wf_buf_add_f64(b, n->as.f);
  }
}

/* Containers are opened, filled and, when nothing came into them, taken back. */
static size_t open_container(wf_buf *b, char bracket) {
  wf_buf_putc(b, bracket);
  return b->n;
}
static void close_container(wf_buf *b, size_t start, char bracket) {
  if (b->n == start)
    b->n--;
  else
    wf_buf_putc(b, bracket);
}

/* A member's name; what follows it, if nothing, takes it back. */
static size_t open_member(wf_buf *b, size_t start, wf_str name) {
  const size_t before = b->n;
  if (b->n > start) wf_buf_putc(b, ',');
  if (name.at) {
    put_string(b, name);
    wf_buf_putc(b, ':');
  }
  return before;
}
static void close_member(wf_buf *b, size_t before, size_t value) {
  if (b->n == value) b->n = before;
}

static void put_object(wf_buf *b, const wf_schema_object *o, const wf_doc_node *n, int depth);

/* As written, by no table. */
static void put_node(wf_buf *b, const wf_doc_node *n, int depth) {
  if (depth > WF_DOCUMENT_MAX_DEPTH) return; /* the reader refuses such documents */
  const bool is_map = n->kind == WF_DOC_MAP;
  size_t start;
  switch (n->kind) {
    case WF_DOC_NULL:
      return;
    case WF_DOC_BOOL:
      wf_buf_puts(b, n->as.b ? "true" : "false");
      return;
    case WF_DOC_INT:
    case WF_DOC_FLOAT:
      put_number(b, n);
      return;
    case WF_DOC_STRING:
      put_string(b, n->text);
      return;
    case WF_DOC_LIST:
    case WF_DOC_MAP:
      break;
  }
  start = open_container(b, is_map ? '{' : '[');
  for (size_t i = 0; i < n->n; i++) {
    const size_t before = open_member(b, start, is_map ? n->members[i].key : (wf_str){NULL, 0});
    const size_t value = b->n;
    put_node(b, is_map ? n->members[i].value : n->items[i], depth + 1);
    close_member(b, before, value);
  }
  close_container(b, start, is_map ? '}' : ']');
}

/* A scalar where the table wants a text: as it was written. */
static void put_text(wf_buf *b, const wf_doc_node *n, int depth) {
  if (n->kind == WF_DOC_LIST || n->kind == WF_DOC_MAP || n->kind == WF_DOC_NULL)
    put_node(b, n, depth);
  else
    put_string(b, n->text);
}

static int compare_texts(const void *a, const void *b) {
  const wf_doc_node *const *x = a, *const *y = b;
  const size_t n = (*x)->text.n < (*y)->text.n ? (*x)->text.n : (*y)->text.n;
  const int order = n ? memcmp((*x)->text.at, (*y)->text.at, n) : 0;
  return order ? order : ((*x)->text.n > (*y)->text.n) - ((*x)->text.n < (*y)->text.n);
}

static void put_texts(wf_buf *b, const wf_doc_node *n, bool is_set, int depth) {
  const wf_doc_node **items = wf_calloc(n->n + 1, sizeof *items);
  if (!items) {
    b->failed = true;
    return;
  }
  if (n->n) memcpy(items, n->items, n->n * sizeof *items);
  if (is_set) qsort(items, n->n, sizeof *items, compare_texts);
  const size_t start = open_container(b, '[');
  for (size_t i = 0; i < n->n; i++) {
    if (is_set && i > 0 && compare_texts(&items[i - 1], &items[i]) == 0) continue;
    const size_t before = open_member(b, start, (wf_str){NULL, 0});
    const size_t value = b->n;
    put_text(b, items[i], depth + 1);
    close_member(b, before, value);
  }
  close_container(b, start, ']');
  wf_free(items);
}

static bool is_ignorable(const wf_schema_object *o, const wf_doc_node *n) {
  const wf_doc_node *r = o == &wf_schema_profile ? wf_doc_get(n, "requirement") : NULL;
  return r && r->kind == WF_DOC_STRING && wf_str_is(r->text, "ignorable");
}

/* Entries of a list or map, each by the field's own table. */
static void put_entries(wf_buf *b, const wf_schema_field *f, const wf_doc_node *n, int depth) {
  const bool is_map = n->kind == WF_DOC_MAP;
  const size_t start = open_container(b, is_map ? '{' : '[');
  for (size_t i = 0; i < n->n; i++) {
    const wf_doc_node *item = is_map ? n->members[i].value : n->items[i];
    if (f->object && is_ignorable(f->object, item)) continue;
    const size_t before = open_member(b, start, is_map ? n->members[i].key : (wf_str){NULL, 0});
    const size_t value = b->n;
    if (f->object)
      put_object(b, f->object, item, depth + 1);
    else
      put_text(b, item, depth + 1);
    close_member(b, before, value);
  }
  close_container(b, start, is_map ? '}' : ']');
}

static void put_field(wf_buf *b, const wf_schema_field *f, const wf_doc_node *n, int depth) {
  const bool is_container = n->kind == WF_DOC_LIST || n->kind == WF_DOC_MAP;
  switch ((int)f->type) { /* int: the rest is written as it stands */
    case WF_FIELD_TEXT:
    case WF_FIELD_NAME:
    case WF_FIELD_ENUM:
    case WF_FIELD_DTYPE:
      put_text(b, n, depth);
      return;
    case WF_FIELD_TEXTS:
    case WF_FIELD_SET:
      if (n->kind == WF_DOC_LIST) {
        put_texts(b, n, f->type == WF_FIELD_SET, depth);
        return;
      }
      break;
    case WF_FIELD_OBJECT:
      put_object(b, f->object, n, depth);
      return;
    case WF_FIELD_LIST:
    case WF_FIELD_MAP:
    case WF_FIELD_PAIRS:
      if (is_container) {
        put_entries(b, f, n, depth);
        return;
      }
      break;
    default:
      break;
  }
  put_node(b, n, depth);
}

static const wf_schema_field *field_named(const wf_schema_object *o, wf_str name) {
  for (const wf_schema_field *f = o->fields; f->name; f++) {
    if (wf_str_is(name, f->name)) return f;
  }
  return NULL;
}

static void put_object(wf_buf *b, const wf_schema_object *o, const wf_doc_node *n, int depth) {
  if (depth > WF_DOCUMENT_MAX_DEPTH) return;
  if (n->kind != WF_DOC_MAP) {
    put_node(b, n, depth);
    return;
  }
  const size_t start = open_container(b, '{');
  for (size_t i = 0; i < n->n; i++) {
    const wf_doc_member *m = &n->members[i];
    const wf_schema_field *f = field_named(o, m->key);
    const size_t before = open_member(b, start, m->key);
    const size_t value = b->n;
    if (f)
      put_field(b, f, m->value, depth + 1);
    else
      put_node(b, m->value, depth + 1);
    close_member(b, before, value);
  }
  close_container(b, start, '}');
}

void wf_metadata_canonical(const wf_metadata *m, wf_buf *out) {
  put_object(out, &wf_schema_root, m->tree, 0);
}

weft_status wf_metadata_identity(const wf_metadata *m, char result[WF_IDENTITY_BYTES],
                                 weft_error *err) {
  wf_buf text = {0};
  SHA2_CTX context;
  unsigned char digest[SHA256_DIGEST_LENGTH];
  static const char prefix[] = "onnx-genai-metadata-identity-v1:sha256:";
  _Static_assert(sizeof prefix + 2 * sizeof digest == WF_IDENTITY_BYTES, "an identity's length");
  wf_metadata_canonical(m, &text);
  if (text.failed) {
    wf_buf_deinit(&text);
    return wf_fail_memory(err, text.n, "an identity");
  }
  SHA256Init(&context);
  SHA256Update(&context, (const unsigned char *)text.at, text.n);
  SHA256Final(digest, &context);
  wf_buf_deinit(&text);
  memcpy(result, prefix, sizeof prefix);
  for (size_t i = 0; i < sizeof digest; i++) {
    (void)snprintf(result + sizeof prefix - 1 + 2 * i, 3, "%02x", digest[i]);
  }
  return WEFT_OK;
}
