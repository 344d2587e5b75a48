/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a document's tree into metadata.h's structs by the tables of schema.h. Every fault is told;
 * what could be read is there all the same, so that one slip doesn't hide the next. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "package/schema.h"

typedef struct reader {
  wf_arena *arena;
  wf_problems *problems;
  bool out_of_memory;
} reader;

void wf_meta_path(const wf_meta_at *at, wf_buf *out) {
  const wf_meta_at *chain[2 * WF_DOCUMENT_MAX_DEPTH + 4];
  size_t n = 0;
  for (; at && n < sizeof chain / sizeof *chain; at = at->up) chain[n++] = at;
  while (n--) {
    if (!chain[n]->up) continue; /* the root has no name */
    if (chain[n]->key)
      wf_buf_printf(out, "%s%s", out->n ? "." : "", chain[n]->key);
    else
      wf_buf_printf(out, "[%zu]", chain[n]->index);
  }
}

static void *allocate(reader *r, size_t n, size_t size) {
  void *p = wf_arena_calloc(r->arena, n ? n : 1, size);
  if (!p) r->out_of_memory = true;
  return p;
}

static const wf_meta_at *child_at(reader *r, const wf_meta_at *up, const char *key, size_t index,
                                  const wf_doc_node *node) {
  wf_meta_at *at = allocate(r, 1, sizeof *at);
  if (at) *at = (wf_meta_at){up, key, index, node};
  return at;
}

static void fault(reader *r, wf_problem_class class, const wf_meta_at *at, const char *member,
                  uint32_t line, uint32_t column, const char *fix, const char *fmt, ...)
    WF_PRINTF(8, 9);
static void fault(reader *r, wf_problem_class class, const wf_meta_at *at, const char *member,
                  uint32_t line, uint32_t column, const char *fix, const char *fmt, ...) {
  va_list args;
  wf_buf path = {0};
  wf_meta_path(at, &path);
  if (member) wf_buf_printf(&path, "%s%s", path.n ? "." : "", member);
  va_start(args, fmt);
  wf_problems_addv(r->problems, class, "", wf_buf_cstr(&path) ? path.at ? path.at : "" : "", line,
                   column, fix, fmt, args);
  va_end(args);
  wf_buf_deinit(&path);
}

static const char *kind_name(const wf_doc_node *n) {
  static const char *const names[] = {"null",   "a bool", "an integer", "a float",
                                      "a text", "a list", "a mapping"};
  return names[n->kind];
}

static void wrong_type(reader *r, const wf_meta_at *at, const char *member, const wf_doc_node *n,
                       const char *wanted) {
  fault(r, WF_PROBLEM_SCHEMA, at, member, n->line, n->column, "write a value of that type",
        "%s where %s is due", kind_name(n), wanted);
}

/* A plain scalar that YAML would type otherwise is a text, verbatim, where a text is due. */
static const char *text_of(const wf_doc_node *n) {
  if (n->kind == WF_DOC_STRING) return n->text.at;
  if (n->is_plain && n->kind < WF_DOC_LIST && n->kind != WF_DOC_NULL) return n->text.at;
  return NULL;
}

static int word_index(const char *words, const char *word) {
  const size_t n = strlen(word);
  int index = 0;
  for (const char *w = words; *w; index++) {
    const size_t len = strcspn(w, "|");
    if (len == n && memcmp(w, word, n) == 0) return index;
    w += len + (w[len] == '|');
  }
  return -1;
}

static void read_object(reader *r, const wf_schema_object *o, const wf_doc_node *node,
                        const char *name, const wf_meta_at *at, void *out);

/* ---- lists ------------------------------------------------------------------------------------
 */

typedef struct list {
  size_t n;
  void *at;
} list;

static int compare_texts(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void read_texts(reader *r, const wf_schema_field *f, const wf_doc_node *node,
                       const wf_meta_at *at, list *out) {
  if (node->kind != WF_DOC_LIST) {
    wrong_type(r, at, f->name, node, "a list of texts");
    return;
  }
  const char **texts = allocate(r, node->n, sizeof *texts);
  if (!texts) return;
  size_t n = 0;
  for (size_t i = 0; i < node->n; i++) {
    texts[n] = text_of(node->items[i]);
    if (texts[n])
      n++;
    else
      wrong_type(r, at, f->name, node->items[i], "a text");
  }
  if (f->type == WF_FIELD_SET && n > 1) {
    size_t kept = 1;
    qsort(texts, n, sizeof *texts, compare_texts);
    for (size_t i = 1; i < n; i++) {
      if (strcmp(texts[i], texts[kept - 1]) != 0) texts[kept++] = texts[i];
    }
    n = kept;
  }
  *out = (list){n, texts};
}

static void read_floats(reader *r, const wf_schema_field *f, const wf_doc_node *node,
                        const wf_meta_at *at, list *out) {
  if (node->kind != WF_DOC_LIST) {
    wrong_type(r, at, f->name, node, "a list of numbers");
    return;
  }
  double *values = allocate(r, node->n, sizeof *values);
  if (!values) return;
  for (size_t i = 0; i < node->n; i++) {
    const wf_doc_node *n = node->items[i];
    if (n->kind == WF_DOC_INT)
      values[i] = (double)n->as.i;
    else if (n->kind == WF_DOC_FLOAT && isfinite(n->as.f))
      values[i] = n->as.f;
    else
      wrong_type(r, at, f->name, n, "a finite number");
  }
  *out = (list){node->n, values};
}

static void read_pairs(reader *r, const wf_schema_field *f, const wf_doc_node *node,
                       const wf_meta_at *at, wf_meta_pairs *out) {
  if (node->kind != WF_DOC_MAP) {
    wrong_type(r, at, f->name, node, "a mapping of texts");
    return;
  }
  wf_meta_pair *pairs = allocate(r, node->n, sizeof *pairs);
  const wf_meta_at *up = child_at(r, at, f->name, 0, node);
  if (!pairs || !up) return;
  for (size_t i = 0; i < node->n; i++) {
    const wf_doc_member *m = &node->members[i];
    pairs[i].head.name = m->key.at;
    pairs[i].head.at = child_at(r, up, m->key.at, 0, m->value);
    pairs[i].text = text_of(m->value);
    if (!pairs[i].text) {
      pairs[i].text = "";
      wrong_type(r, up, m->key.at, m->value, "a text");
    }
  }
  out->n = node->n;
  out->at = pairs;
}

static void read_objects(reader *r, const wf_schema_field *f, const wf_doc_node *node,
                         const wf_meta_at *at, list *out) {
  const bool is_map = f->type == WF_FIELD_MAP;
  if (node->kind != (is_map ? WF_DOC_MAP : WF_DOC_LIST)) {
    wrong_type(r, at, f->name, node, is_map ? "a mapping" : "a list");
    return;
  }
  const wf_meta_at *up = child_at(r, at, f->name, 0, node);
  char *objects = allocate(r, node->n, f->object->size);
  if (!up || !objects) return;
  for (size_t i = 0; i < node->n && !r->out_of_memory; i++) {
    const wf_doc_node *n = is_map ? node->members[i].value : node->items[i];
    const char *key = is_map ? node->members[i].key.at : NULL;
    read_object(r, f->object, n, key, child_at(r, up, key, i, n), objects + i * f->object->size);
  }
  *out = (list){node->n, objects};
}

/* ---- values with types of their own -----------------------------------------------------------
 */

static void read_shape(reader *r, const wf_doc_node *node, const wf_meta_at *at,
                       wf_meta_contract *out) {
  if (node->kind != WF_DOC_LIST) {
    wrong_type(r, at, "shape", node, "a list of dimensions");
    return;
  }
  wf_meta_dim *dims = allocate(r, node->n, sizeof *dims);
  if (!dims) return;
  for (size_t i = 0; i < node->n; i++) {
    const wf_doc_node *n = node->items[i];
    if (n->kind == WF_DOC_INT && n->as.i >= 0) {
      dims[i].extent = n->as.i;
    } else if (n->kind == WF_DOC_STRING && n->text.n) {
      dims[i].symbol = n->text.at;
    } else {
      fault(r, WF_PROBLEM_SCHEMA, at, "shape", n->line, n->column,
            "write a size of 0 or more, or the name of a symbol",
            "the dimension '%.100s' is neither a size nor a symbol",
            n->kind < WF_DOC_LIST ? n->text.at : kind_name(n));
    }
  }
  out->shape.n = node->n;
  out->shape.at = dims;
  out->has_shape = true;
}

static void read_literal(reader *r, const wf_schema_field *f, const wf_doc_node *node,
                         const wf_meta_at *at, wf_meta_literal *out) {
  const bool is_list = node->kind == WF_DOC_LIST && f->type == WF_FIELD_LITERAL;
  const size_t n = is_list ? node->n : 1;
  wf_meta_literal_item *items = allocate(r, n, sizeof *items);
  if (!items) return;
  for (size_t i = 0; i < n; i++) {
    const wf_doc_node *v = is_list ? node->items[i] : node;
    items[i].kind = v->kind;
    if (v->kind == WF_DOC_BOOL) {
      items[i].i = v->as.b;
    } else if (v->kind == WF_DOC_INT) {
      items[i].i = v->as.i;
      items[i].f = (double)v->as.i;
    } else if (v->kind == WF_DOC_FLOAT) {
      items[i].f = v->as.f;
    } else if (v->kind == WF_DOC_STRING) {
      items[i].text = v->text.at;
    } else {
      wrong_type(r, at, f->name, v, "a bool, a number or a text");
      return;
    }
  }
  *out = (wf_meta_literal){is_list, n, items};
}

static void read_int(reader *r, const wf_schema_field *f, const wf_doc_node *node,
                     const wf_meta_at *at, int64_t *out) {
  if (node->kind != WF_DOC_INT) {
    wrong_type(r, at, f->name, node, "an integer");
  } else if (node->as.i < f->lo || node->as.i > f->hi) {
    fault(r, WF_PROBLEM_SCHEMA, at, f->name, node->line, node->column,
          "write a number within the bounds", "%lld is outside %lld to %lld", (long long)node->as.i,
          (long long)f->lo, (long long)f->hi);
  } else {
    *out = node->as.i;
  }
}

static void read_float(reader *r, const wf_schema_field *f, const wf_doc_node *node,
                       const wf_meta_at *at, double *out) {
  if (node->kind == WF_DOC_INT)
    *out = (double)node->as.i;
  else if (node->kind == WF_DOC_FLOAT && isfinite(node->as.f))
    *out = node->as.f;
  else
    wrong_type(r, at, f->name, node, "a finite number");
}

static void read_word(reader *r, const wf_schema_field *f, const wf_doc_node *node,
                      const wf_meta_at *at, int *out) {
  const char *text = text_of(node);
  const int index = text ? word_index(f->words, text) : -1;
  if (index >= 0) {
    *out = index;
    return;
  }
  fault(r, WF_PROBLEM_SCHEMA, at, f->name, node->line, node->column, "write one of those words",
        "'%.80s' is none of %.300s", text ? text : kind_name(node), f->words);
}

static void read_text(reader *r, const wf_schema_field *f, const wf_doc_node *node,
                      const wf_meta_at *at, const char **out) {
  const char *text = text_of(node);
  if (!text)
    wrong_type(r, at, f->name, node, "a text");
  else if (f->type == WF_FIELD_NAME && !*text)
    fault(r, WF_PROBLEM_SCHEMA, at, f->name, node->line, node->column, "write a text there",
          "the text is empty");
  else
    *out = text;
}

static void read_value(reader *r, const wf_schema_field *f, const wf_doc_node *node,
                       const wf_meta_at *at, void *out) {
  switch (f->type) {
    case WF_FIELD_TEXT:
    case WF_FIELD_NAME:
      read_text(r, f, node, at, out);
      break;
    case WF_FIELD_DTYPE:
      read_text(r, f, node, at, &((wf_meta_contract *)out)->dtype_text);
      ((wf_meta_contract *)out)->dtype = wf_meta_dtype(((wf_meta_contract *)out)->dtype_text);
      break;
    case WF_FIELD_BOOL:
      if (node->kind == WF_DOC_BOOL)
        *(bool *)out = node->as.b;
      else
        wrong_type(r, at, f->name, node, "true or false");
      break;
    case WF_FIELD_MAYBE:
      if (node->kind == WF_DOC_BOOL)
        *(int *)out = node->as.b;
      else
        wrong_type(r, at, f->name, node, "true or false");
      break;
    case WF_FIELD_INT:
      read_int(r, f, node, at, out);
      break;
    case WF_FIELD_FLOAT:
      read_float(r, f, node, at, out);
      break;
    case WF_FIELD_ENUM:
      read_word(r, f, node, at, out);
      break;
    case WF_FIELD_OBJECT: {
      void *object = allocate(r, 1, f->object->size);
      if (!object) break;
      read_object(r, f->object, node, NULL, child_at(r, at, f->name, 0, node), object);
      *(void **)out = object;
      break;
    }
    case WF_FIELD_LIST:
    case WF_FIELD_MAP:
      read_objects(r, f, node, at, out);
      break;
    case WF_FIELD_TEXTS:
    case WF_FIELD_SET:
      read_texts(r, f, node, at, out);
      break;
    case WF_FIELD_PAIRS:
      read_pairs(r, f, node, at, out);
      break;
    case WF_FIELD_FLOATS:
      read_floats(r, f, node, at, out);
      break;
    case WF_FIELD_SHAPE:
      read_shape(r, node, at, out);
      break;
    case WF_FIELD_LITERAL:
    case WF_FIELD_SCALAR:
      read_literal(r, f, node, at, out);
      break;
    case WF_FIELD_NODE:
      *(const wf_doc_node **)out = node;
      break;
  }
  if (f->min_items && node->kind == WF_DOC_LIST && node->n < f->min_items) {
    fault(r, WF_PROBLEM_SCHEMA, at, f->name, node->line, node->column, "give it an entry",
          "the list has %zu entries and needs %zu", node->n, f->min_items);
  }
}

/* ---- objects ----------------------------------------------------------------------------------
 */

/* Shapes and dtypes are members of the contract itself. */
static void *slot_of(const wf_schema_field *f, char *object) {
  return f->type == WF_FIELD_SHAPE || f->type == WF_FIELD_DTYPE ? object : object + f->offset;
}

static void set_defaults(const wf_schema_object *o, char *object) {
  for (const wf_schema_field *f = o->fields; f->name; f++) {
    void *slot = slot_of(f, object);
    if (f->type == WF_FIELD_INT)
      *(int64_t *)slot = f->fallback;
    else if (f->type == WF_FIELD_ENUM)
      *(int *)slot = (int)f->fallback;
    else if (f->type == WF_FIELD_BOOL)
      *(bool *)slot = f->fallback != 0;
    else if (f->type == WF_FIELD_MAYBE)
      *(int *)slot = -1;
    else if (f->type == WF_FIELD_FLOAT)
      *(double *)slot = (double)NAN;
  }
}

static void unknown_member(reader *r, const wf_schema_object *o, const wf_doc_member *m,
                           const wf_meta_at *at) {
  for (const wf_schema_removed *gone = o->removed; gone && gone->name; gone++) {
    if (!wf_str_is(m->key, gone->name)) continue;
    fault(r, WF_PROBLEM_SCHEMA, at, m->key.at, m->line, m->column, gone->replacement,
          "the member '%s' is no longer part of the format", gone->name);
    return;
  }
  fault(r, o->is_open ? WF_PROBLEM_UNKNOWN_FIELD : WF_PROBLEM_SCHEMA, at, m->key.at, m->line,
        m->column, "remove it or correct its spelling", "%s has no member '%.100s'", o->name,
        m->key.at);
}

/* The row for a member in this variant; *elsewhere when only another variant has it. */
static const wf_schema_field *find_field(const wf_schema_object *o, wf_str key, uint32_t variant,
                                         bool *elsewhere) {
  *elsewhere = false;
  for (const wf_schema_field *f = o->fields; f->name; f++) {
    if (!wf_str_is(key, f->name)) continue;
    if (!f->kinds || (f->kinds & variant)) return f;
    *elsewhere = true;
  }
  return NULL;
}

static bool is_union(const wf_schema_object *o) {
  for (const wf_schema_field *f = o->fields; f->name; f++) {
    if (f->kinds) return true;
  }
  return false;
}

/* The bit of the variant; 0 when `kind` is missing or unknown, which is told. */
static uint32_t read_variant(reader *r, const wf_schema_object *o, const wf_doc_node *node,
                             const wf_meta_at *at, char *object) {
  const wf_schema_field *f = o->fields;
  const wf_doc_node *kind = wf_doc_get(node, "kind");
  int *slot = slot_of(f, object);
  *slot = -1;
  if (wf_doc_is_null(kind)) {
    fault(r, WF_PROBLEM_SCHEMA, at, "kind", node->line, node->column, "say which kind it is",
          "%s lacks 'kind', one of %.200s", o->name, f->words);
    return 0;
  }
  const wf_schema_removed *gone = o->removed;
  while (gone && gone->name && !(kind->kind == WF_DOC_STRING && wf_str_is(kind->text, gone->name)))
    gone++;
  if (gone && gone->name) {
    fault(r, WF_PROBLEM_SCHEMA, at, "kind", kind->line, kind->column, gone->replacement,
          "the kind '%s' is no longer part of the format", gone->name);
    *slot = 0;
    return 0;
  }
  read_word(r, f, kind, at, slot);
  if (*slot >= 0) return UINT32_C(1) << *slot;
  *slot = 0;
  return 0;
}

static void read_object(reader *r, const wf_schema_object *o, const wf_doc_node *node,
                        const char *name, const wf_meta_at *at, void *out) {
  char *object = out;
  wf_meta_head *head = out;
  uint32_t variant = 0;
  if (r->problems->n_errors >= WF_PROBLEMS_MAX || r->out_of_memory) return;
  *head = (wf_meta_head){name, at};
  set_defaults(o, object);
  if (o->scalar_of) {
    if (!wf_doc_is_null(node)) {
      /* the entry is its only member: its place is the entry's own */
      wf_schema_field f = o->fields[0];
      f.name = name;
      read_value(r, &f, node, at ? at->up : NULL, slot_of(&f, object));
    } else {
      wrong_type(r, at, NULL, node, "a value");
    }
    return;
  }
  if (node->kind != WF_DOC_MAP) {
    wrong_type(r, at, NULL, node, "a mapping");
    return;
  }
  const bool has_variants = is_union(o);
  if (has_variants && !(variant = read_variant(r, o, node, at, object))) return;
  for (size_t i = 0; i < node->n; i++) {
    const wf_doc_member *m = &node->members[i];
    bool elsewhere;
    const wf_schema_field *f = find_field(o, m->key, variant, &elsewhere);
    if (f && has_variants && f == o->fields) continue; /* kind */
    if (f && !wf_doc_is_null(m->value)) read_value(r, f, m->value, at, slot_of(f, object));
    if (f) continue;
    if (elsewhere) {
      fault(r, WF_PROBLEM_SCHEMA, at, m->key.at, m->line, m->column, "remove it",
            "%s of this kind has no member '%.100s'", o->name, m->key.at);
    } else {
      unknown_member(r, o, m, at);
    }
  }
  for (const wf_schema_field *f = o->fields; f->name; f++) {
    const uint32_t need = has_variants ? f->required & variant : f->required;
    if (!need || !wf_doc_is_null(wf_doc_get(node, f->name))) continue;
    if (has_variants && f == o->fields) continue;
    fault(r, WF_PROBLEM_SCHEMA, at, f->name, node->line, node->column, "add the member",
          "%s lacks '%s'", o->name, f->name);
  }
}

weft_status wf_schema_read(const wf_schema_object *object, const wf_doc_node *node, wf_arena *arena,
                           wf_problems *problems, const void **result, weft_error *err) {
  reader r = {.arena = arena, .problems = problems};
  void *out = allocate(&r, 1, object->size);
  const wf_meta_at *at = child_at(&r, NULL, NULL, 0, node);
  *result = out;
  if (out && at) read_object(&r, object, node, NULL, at, out);
  if (r.out_of_memory || problems->failed) return wf_fail_memory(err, 0, "a package's metadata");
  return WEFT_OK;
}
