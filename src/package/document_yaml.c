/* SPDX-License-Identifier: Apache-2.0 */
/* YAML by libyaml's events. libyaml reads YAML 1.1 syntax; the types of scalars are those of the
 * YAML 1.2 core schema, so `yes` and `on` are texts. */
#include <math.h>
#include <yaml.h>

#include "package/document.h"

typedef struct anchor {
  wf_str name;
  const wf_doc_node *node; /* NULL while it is still open: an alias to it would be a cycle */
} anchor;

typedef struct reader {
  wf_doc_tree *tree;
  yaml_parser_t parser;
  WF_VEC(anchor) anchors;                  /* the last of a name counts */
  size_t anchor_of[WF_DOCUMENT_MAX_DEPTH]; /* of open nodes; SIZE_MAX: none */
} reader;

static uint32_t line_of(yaml_mark_t m) { return (uint32_t)m.line + 1; }
static uint32_t column_of(yaml_mark_t m) { return (uint32_t)m.column + 1; }

static bool is_one_of(wf_str s, const char *const *words) {
  for (; *words; words++) {
    if (wf_str_is(s, *words)) return true;
  }
  return false;
}

static bool all_digits(const char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (s[i] < '0' || s[i] > '9') return false;
  }
  return n > 0;
}

/* 0x1f and 0o17; false on overflow. */
static bool parse_based(wf_str s, unsigned bits, int64_t *result) {
  uint64_t v = 0;
  if (s.n < 3) return false;
  for (size_t i = 2; i < s.n; i++) {
    const char c = s.at[i];
    unsigned digit;
    if (c >= '0' && c <= '9')
      digit = (unsigned)(c - '0');
    else if (c >= 'a' && c <= 'f')
      digit = (unsigned)(c - 'a') + 10;
    else if (c >= 'A' && c <= 'F')
      digit = (unsigned)(c - 'A') + 10;
    else
      return false;
    if (digit >> bits || v >> (63 - bits)) return false;
    v = v << bits | digit;
  }
  *result = (int64_t)v;
  return true;
}

static bool is_float(wf_str s) {
  size_t i = 0, n_digits = 0;
  if (i < s.n && (s.at[i] == '-' || s.at[i] == '+')) i++;
  while (i < s.n && s.at[i] >= '0' && s.at[i] <= '9') i++, n_digits++;
  if (i < s.n && s.at[i] == '.') {
    i++;
    while (i < s.n && s.at[i] >= '0' && s.at[i] <= '9') i++, n_digits++;
  }
  if (!n_digits) return false;
  if (i < s.n && (s.at[i] == 'e' || s.at[i] == 'E')) {
    i++;
    if (i < s.n && (s.at[i] == '-' || s.at[i] == '+')) i++;
    return all_digits(s.at + i, s.n - i);
  }
  return i == s.n;
}

/* wf_parse_f64 wants a digit on each side of the point. */
static bool parse_float(wf_str s, double *result) {
  wf_buf b = {0};
  size_t i = 0;
  if (s.at[0] == '-') wf_buf_putc(&b, '-');
  if (s.at[0] == '-' || s.at[0] == '+') i++;
  if (s.at[i] == '.') wf_buf_putc(&b, '0');
  for (; i < s.n; i++) {
    wf_buf_putc(&b, s.at[i]);
    if (s.at[i] == '.' && (i + 1 == s.n || s.at[i + 1] < '0' || s.at[i + 1] > '9'))
      wf_buf_putc(&b, '0');
  }
  const char *text = wf_buf_cstr(&b);
  const bool ok = text && wf_parse_f64(wf_str_of(text), result);
  wf_buf_deinit(&b);
  return ok;
}

/* The kind that the core schema gives a plain scalar. An integer beyond 64 bits becomes a float, as
 * JSON readers have it. */
static wf_doc_kind resolve(wf_str s, wf_doc_node *v) {
  static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
  static const char *const yes[] = {"true", "True", "TRUE", NULL};
  static const char *const no[] = {"false", "False", "FALSE", NULL};
  static const char *const infs[] = {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", NULL};
  static const char *const minus_infs[] = {"-.inf", "-.Inf", "-.INF", NULL};
  static const char *const nans[] = {".nan", ".NaN", ".NAN", NULL};
  if (is_one_of(s, nulls)) return WF_DOC_NULL;
  if (is_one_of(s, yes) || is_one_of(s, no)) {
    v->as.b = is_one_of(s, yes);
    return WF_DOC_BOOL;
  }
  const bool has_sign = s.at[0] == '-' || s.at[0] == '+';
  if (all_digits(s.at + has_sign, s.n - has_sign)) {
    const wf_str digits = s.at[0] == '+' ? (wf_str){s.at + 1, s.n - 1} : s;
    if (wf_parse_i64(digits, &v->as.i)) return WF_DOC_INT;
    return parse_float(s, &v->as.f) ? WF_DOC_FLOAT : WF_DOC_STRING;
  }
  if (s.n > 2 && s.at[0] == '0' && (s.at[1] == 'x' || s.at[1] == 'o'))
    return parse_based(s, s.at[1] == 'x' ? 4 : 3, &v->as.i) ? WF_DOC_INT : WF_DOC_STRING;
  if (is_one_of(s, infs) || is_one_of(s, minus_infs)) {
    v->as.f = is_one_of(s, infs) ? HUGE_VAL : -HUGE_VAL;
    return WF_DOC_FLOAT;
  }
  if (is_one_of(s, nans)) {
    v->as.f = (double)NAN;
    return WF_DOC_FLOAT;
  }
  return is_float(s) && parse_float(s, &v->as.f) ? WF_DOC_FLOAT : WF_DOC_STRING;
}

static weft_status fail_at(reader *r, yaml_mark_t m, const char *fix, const char *what,
                           const char *with) {
  return wf_doc_tree_fail(r->tree, line_of(m), column_of(m), fix, "%s '%.200s'", what, with);
}

static weft_status declare(reader *r, const yaml_char_t *name, const wf_doc_node *node,
                           size_t *index) {
  *index = SIZE_MAX;
  if (!name) return WEFT_OK;
  const wf_str s = wf_str_of((const char *)name);
  char *copy = wf_arena_strndup(r->tree->arena, s.at, s.n);
  if (!copy || !wf_vec_push(&r->anchors, ((anchor){{copy, s.n}, node}))) return WEFT_OUT_OF_MEMORY;
  *index = r->anchors.n - 1;
  return WEFT_OK;
}

static weft_status on_scalar(reader *r, const yaml_event_t *e) {
  const wf_str s = {(const char *)e->data.scalar.value, e->data.scalar.length};
  const yaml_mark_t m = e->start_mark;
  const char *tag = (const char *)e->data.scalar.tag;
  const bool plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
  wf_doc_node *n = NULL, probe = {0};
  size_t unused;
  if (wf_doc_tree_wants_key(r->tree)) {
    return wf_doc_tree_key(r->tree, s, line_of(m), column_of(m));
  }
  wf_doc_kind kind = plain && !tag ? resolve(s, &probe) : WF_DOC_STRING;
  if (tag && strcmp(tag, YAML_STR_TAG) != 0 && strcmp(tag, "!") != 0) {
    static const struct {
      const char *tag;
      wf_doc_kind kind;
    } known[] = {{YAML_NULL_TAG, WF_DOC_NULL},
                 {YAML_BOOL_TAG, WF_DOC_BOOL},
                 {YAML_INT_TAG, WF_DOC_INT},
                 {YAML_FLOAT_TAG, WF_DOC_FLOAT}};
    size_t i = 0;
    while (i < 4 && strcmp(tag, known[i].tag) != 0) i++;
    if (i == 4) return fail_at(r, m, "leave the tag out", "unknown tag", tag);
    kind = resolve(s, &probe);
    if (kind == WF_DOC_INT && known[i].kind == WF_DOC_FLOAT) {
      kind = WF_DOC_FLOAT;
      probe.as.f = (double)probe.as.i;
    }
    if (kind != known[i].kind)
      return fail_at(r, m, "write a value of that type", "a value unlike its tag", tag);
  }
  WF_RETURN_IF_ERROR(wf_doc_tree_scalar(r->tree, kind, s, line_of(m), column_of(m), &n));
  n->as = probe.as;
  n->is_plain = plain && !tag;
  WF_RETURN_IF_ERROR(declare(r, e->data.scalar.anchor, n, &unused));
  return wf_doc_tree_add(r->tree, n, n->line, n->column);
}

static weft_status on_open(reader *r, const yaml_event_t *e) {
  const bool is_map = e->type == YAML_MAPPING_START_EVENT;
  const yaml_mark_t m = e->start_mark;
  const char *tag = (const char *)(is_map ? e->data.mapping_start.tag : e->data.sequence_start.tag);
  const yaml_char_t *name = is_map ? e->data.mapping_start.anchor : e->data.sequence_start.anchor;
  wf_doc_node *n = NULL;
  if (wf_doc_tree_wants_key(r->tree))
    return fail_at(r, m, "write a text as the key", "a key is a", is_map ? "mapping" : "sequence");
  if (tag && strcmp(tag, is_map ? YAML_MAP_TAG : YAML_SEQ_TAG) != 0)
    return fail_at(r, m, "leave the tag out", "unknown tag", tag);
  WF_RETURN_IF_ERROR(
      wf_doc_tree_open(r->tree, is_map ? WF_DOC_MAP : WF_DOC_LIST, line_of(m), column_of(m), &n));
  return declare(r, name, NULL, &r->anchor_of[r->tree->depth - 1]);
}

static weft_status on_close(reader *r) {
  const size_t depth = r->tree->depth - 1;
  const wf_doc_node *n = r->tree->frames[depth].node;
  WF_RETURN_IF_ERROR(wf_doc_tree_close(r->tree));
  if (r->anchor_of[depth] != SIZE_MAX) r->anchors.at[r->anchor_of[depth]].node = n;
  return WEFT_OK;
}

static weft_status on_alias(reader *r, const yaml_event_t *e) {
  const char *name = (const char *)e->data.alias.anchor;
  const yaml_mark_t m = e->start_mark;
  size_t i = r->anchors.n;
  const wf_str wanted = wf_str_of(name);
  while (i && !wf_str_eq(r->anchors.at[i - 1].name, wanted)) i--;
  if (!i) return fail_at(r, m, "name an anchor that stands before it", "no anchor", name);
  const wf_doc_node *n = r->anchors.at[i - 1].node;
  if (!n) return fail_at(r, m, "name another anchor", "an alias inside its own anchor", name);
  if (!wf_doc_tree_wants_key(r->tree)) return wf_doc_tree_add(r->tree, n, line_of(m), column_of(m));
  if (n->kind >= WF_DOC_LIST)
    return fail_at(r, m, "write a text as the key", "a key is no scalar: the alias", name);
  return wf_doc_tree_key(r->tree, n->text, line_of(m), column_of(m));
}

enum { MAX_ANCHORS = 1024 }; /* each alias looks through them */

static weft_status on_event(reader *r, const yaml_event_t *e, size_t *n_documents) {
  switch ((int)e->type) {
    case YAML_DOCUMENT_START_EVENT:
      if (++*n_documents > 1) {
        return wf_doc_tree_fail(r->tree, line_of(e->start_mark), column_of(e->start_mark),
                                "keep one document", "the stream holds a second document");
      }
      return WEFT_OK;
    case YAML_SCALAR_EVENT:
      return on_scalar(r, e);
    case YAML_ALIAS_EVENT:
      return on_alias(r, e);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
      return on_open(r, e);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
      return on_close(r);
    default:
      return WEFT_OK;
  }
}

weft_status wf_document_read_yaml(wf_doc_tree *t, wf_str text) {
  weft_status st = WEFT_OK;
  reader *r = wf_zalloc(sizeof *r);
  size_t n_documents = 0;
  bool over = false;
  if (!r) return WEFT_OUT_OF_MEMORY;
  r->tree = t;
  if (!yaml_parser_initialize(&r->parser)) {
    wf_free(r);
    return WEFT_OUT_OF_MEMORY;
  }
  yaml_parser_set_input_string(&r->parser, (const unsigned char *)text.at, text.n);
  while (!over && st == WEFT_OK) {
    yaml_event_t e;
    if (!yaml_parser_parse(&r->parser, &e)) {
      if (r->parser.error == YAML_MEMORY_ERROR) {
        st = WEFT_OUT_OF_MEMORY;
      } else if (r->parser.error == YAML_READER_ERROR) {
        st = wf_doc_tree_fail(t, line_of(r->parser.mark), column_of(r->parser.mark),
                              "save the file as UTF-8", "%s (byte %zu)",
                              r->parser.problem ? r->parser.problem : "unreadable characters",
                              r->parser.problem_offset);
      } else {
        st = wf_doc_tree_fail(
            t, line_of(r->parser.problem_mark), column_of(r->parser.problem_mark),
            "repair the YAML there", "%s%s%s", r->parser.problem ? r->parser.problem : "not YAML",
            r->parser.context ? " " : "", r->parser.context ? r->parser.context : "");
      }
      break;
    }
    over = e.type == YAML_STREAM_END_EVENT;
    st = on_event(r, &e, &n_documents);
    if (st == WEFT_OK && r->anchors.n > MAX_ANCHORS) {
      st =
          wf_doc_tree_fail(t, line_of(e.start_mark), column_of(e.start_mark), "write fewer anchors",
                           "the document has more than %d anchors", MAX_ANCHORS);
    }
    yaml_event_delete(&e);
  }
  if (st == WEFT_OK && !t->root) {
    st = wf_doc_tree_fail(t, 1, 1, "write the package's metadata into it", "the document is empty");
  }
  yaml_parser_delete(&r->parser);
  wf_vec_free(&r->anchors);
  wf_free(r);
  return st;
}
