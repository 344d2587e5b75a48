/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of schema.h as a JSON Schema (draft 2020-12) for editors. It says what the reader says
 * about shape, no more: rules between members are `weft validate`'s. */
#include "package/schema.h"

enum { MAX_DEFINITIONS = 128 };

typedef struct printer {
  wf_buf *out;
  const wf_schema_object *seen[MAX_DEFINITIONS];
  size_t n;
} printer;

static void note(printer *p, const wf_schema_object *o) {
  for (size_t i = 0; i < p->n; i++) {
    if (p->seen[i] == o) return;
  }
  if (p->n == MAX_DEFINITIONS) return;
  p->seen[p->n++] = o;
  for (const wf_schema_field *f = o->fields; f->name; f++) {
    if (f->object) note(p, f->object);
  }
}

static void add_words(wf_buf *b, const char *words) {
  wf_buf_puts(b, "{\"enum\": [");
  for (const char *w = words; *w;) {
    const size_t n = strcspn(w, "|");
    wf_buf_printf(b, "%s\"%.*s\"", w == words ? "" : ", ", (int)n, w);
    w += n + (w[n] == '|');
  }
  wf_buf_puts(b, "]}");
}

/* A text may be written as a plain scalar of another type (§2.1). */
#define TEXT_TYPES "\"type\": [\"string\", \"number\", \"boolean\"]"
#define TEXT_TYPE "{" TEXT_TYPES "}"

static void add_type(wf_buf *b, const wf_schema_field *f) {
  const char *ref = f->object ? f->object->name : "";
  switch (f->type) {
    case WF_FIELD_TEXT:
      wf_buf_puts(b, TEXT_TYPE);
      break;
    case WF_FIELD_NAME:
      wf_buf_puts(b, "{" TEXT_TYPES ", \"minLength\": 1}");
      break;
    case WF_FIELD_DTYPE:
      wf_buf_puts(b, "{\"type\": \"string\"}");
      break;
    case WF_FIELD_BOOL:
    case WF_FIELD_MAYBE:
      wf_buf_puts(b, "{\"type\": \"boolean\"}");
      break;
    case WF_FIELD_INT:
      wf_buf_printf(b, "{\"type\": \"integer\", \"minimum\": %lld, \"maximum\": %lld}",
                    (long long)f->lo, (long long)f->hi);
      break;
    case WF_FIELD_FLOAT:
      wf_buf_puts(b, "{\"type\": \"number\"}");
      break;
    case WF_FIELD_ENUM:
      add_words(b, f->words);
      break;
    case WF_FIELD_OBJECT:
      wf_buf_printf(b, "{\"$ref\": \"#/$defs/%s\"}", ref);
      break;
    case WF_FIELD_LIST:
      wf_buf_printf(b, "{\"type\": \"array\", \"items\": {\"$ref\": \"#/$defs/%s\"}", ref);
      if (f->min_items) wf_buf_printf(b, ", \"minItems\": %zu", f->min_items);
      wf_buf_putc(b, '}');
      break;
    case WF_FIELD_MAP:
      wf_buf_printf(
          b, "{\"type\": \"object\", \"additionalProperties\": {\"$ref\": \"#/$defs/%s\"}}", ref);
      break;
    case WF_FIELD_TEXTS:
    case WF_FIELD_SET:
      wf_buf_puts(b, "{\"type\": \"array\", \"items\": " TEXT_TYPE);
      if (f->min_items) wf_buf_printf(b, ", \"minItems\": %zu", f->min_items);
      wf_buf_putc(b, '}');
      break;
    case WF_FIELD_PAIRS:
      wf_buf_puts(b, "{\"type\": \"object\", \"additionalProperties\": " TEXT_TYPE "}");
      break;
    case WF_FIELD_FLOATS:
      wf_buf_puts(b, "{\"type\": \"array\", \"items\": {\"type\": \"number\"}}");
      break;
    case WF_FIELD_SHAPE:
      wf_buf_puts(b,
                  "{\"type\": \"array\", \"items\": {\"anyOf\": [{\"type\": \"integer\", "
                  "\"minimum\": 0}, {\"type\": \"string\", \"minLength\": 1}]}}");
      break;
    case WF_FIELD_LITERAL:
      wf_buf_puts(b,
                  "{\"anyOf\": [" TEXT_TYPE ", {\"type\": \"array\", \"items\": " TEXT_TYPE "}]}");
      break;
    case WF_FIELD_SCALAR:
      wf_buf_puts(b, TEXT_TYPE);
      break;
    case WF_FIELD_NODE:
      wf_buf_puts(b, "{}");
      break;
  }
}

/* The members of one variant; `kinds` 0: of an object that has none. An optional member may be
 * null. */
static void add_members(wf_buf *b, const wf_schema_object *o, uint32_t kinds, wf_str kind) {
  size_t n = 0;
  wf_buf_puts(b, "{\"type\": \"object\", \"properties\": {");
  for (const wf_schema_field *f = o->fields; f->name; f++) {
    const bool is_needed = kinds ? f->required & kinds : f->required != 0;
    if (kinds && f->kinds && !(f->kinds & kinds)) continue;
    wf_buf_printf(b, "%s\"%s\": ", n++ ? ", " : "", f->name);
    if (kinds && f == o->fields) {
      wf_buf_printf(b, "{\"const\": \"%.*s\"}", (int)kind.n, kind.at);
      continue;
    }
    if (!is_needed) wf_buf_puts(b, "{\"anyOf\": [");
    add_type(b, f);
    if (!is_needed) wf_buf_puts(b, ", {\"type\": \"null\"}]}");
  }
  wf_buf_puts(b, "}");
  n = 0;
  for (const wf_schema_field *f = o->fields; f->name; f++) {
    if (kinds ? !(f->required & kinds) : !f->required) continue;
    wf_buf_printf(b, "%s\"%s\"", n++ ? ", " : ", \"required\": [", f->name);
  }
  if (n) wf_buf_putc(b, ']');
  if (!o->is_open) wf_buf_puts(b, ", \"additionalProperties\": false");
  wf_buf_putc(b, '}');
}

static void add_object(wf_buf *b, const wf_schema_object *o) {
  bool has_variants = false;
  for (const wf_schema_field *f = o->fields; f->name; f++) has_variants |= f->kinds != 0;
  if (o->scalar_of) {
    add_type(b, o->fields);
  } else if (!has_variants) {
    add_members(b, o, 0, WF_STR(""));
  } else {
    uint32_t kind = 1;
    wf_buf_puts(b, "{\"oneOf\": [");
    for (const char *w = o->fields->words; *w; kind <<= 1) {
      const size_t n = strcspn(w, "|");
      if (kind > 1) wf_buf_puts(b, ",\n   ");
      add_members(b, o, kind, (wf_str){w, n});
      w += n + (w[n] == '|');
    }
    wf_buf_puts(b, "]}");
  }
}

void wf_metadata_print_schema(wf_buf *out) {
  printer p = {.out = out};
  note(&p, &wf_schema_root);
  wf_buf_puts(out,
              "{\"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
              " \"title\": \"inference_metadata\",\n"
              " \"description\": \"A package's metadata document, docs/format.md. Made from the "
              "tables of src/package.\",\n"
              " \"$ref\": \"#/$defs/inference_metadata\",\n \"$defs\": {\n");
  for (size_t i = 0; i < p.n; i++) {
    wf_buf_printf(out, "  \"%s\": ", p.seen[i]->name);
    add_object(out, p.seen[i]);
    wf_buf_puts(out, i + 1 < p.n ? ",\n" : "\n");
  }
  wf_buf_puts(out, " }\n}\n");
}
