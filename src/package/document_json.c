/* SPDX-License-Identifier: Apache-2.0 */
/* JSON by base's strict reader, into the same tree. */
#include "base/json_reader.h"
#include "package/document.h"

typedef struct place {
  size_t at, line_at; /* line_at: where the current line begins */
  uint32_t line;
} place;

/* Moves to the next token, which lies behind blanks, commas and colons. */
static void seek(place *p, wf_str text, size_t from) {
  size_t to = from;
  while (to < text.n && memchr(" \t\r\n,:", text.at[to], 6)) to++;
  for (; p->at < to; p->at++) {
    if (text.at[p->at] != '\n') continue;
    p->line++;
    p->line_at = p->at + 1;
  }
}

static weft_status add_scalar(wf_doc_tree *t, const wf_json_event *e, uint32_t line,
                              uint32_t column) {
  static const char *const texts[] = {
      [WF_JSON_TRUE] = "true", [WF_JSON_FALSE] = "false", [WF_JSON_NULL] = "null"};
  wf_doc_kind kind = WF_DOC_STRING;
  wf_doc_node *n = NULL, probe = {0};
  wf_str s = e->text;
  switch (e->kind) {
    case WF_JSON_TRUE:
    case WF_JSON_FALSE:
      kind = WF_DOC_BOOL;
      probe.as.b = e->kind == WF_JSON_TRUE;
      s = wf_str_of(texts[e->kind]);
      break;
    case WF_JSON_NULL:
      kind = WF_DOC_NULL;
      s = wf_str_of(texts[e->kind]);
      break;
    case WF_JSON_NUMBER:
      if (wf_parse_i64(s, &probe.as.i)) {
        kind = WF_DOC_INT;
      } else if (wf_parse_f64(s, &probe.as.f)) {
        kind = WF_DOC_FLOAT;
      } else {
        return wf_doc_tree_fail(t, line, column, "write a number that a double holds",
                                "the number '%.*s' is out of range", (int)(s.n > 60 ? 60 : s.n),
                                s.at);
      }
      break;
    case WF_JSON_STRING:
    case WF_JSON_KEY:
    case WF_JSON_END:
    case WF_JSON_OBJECT_BEGIN:
    case WF_JSON_OBJECT_END:
    case WF_JSON_ARRAY_BEGIN:
    case WF_JSON_ARRAY_END:
      break;
  }
  WF_RETURN_IF_ERROR(wf_doc_tree_scalar(t, kind, s, line, column, &n));
  n->as = probe.as;
  return wf_doc_tree_add(t, n, line, column);
}

static weft_status on_event(wf_doc_tree *t, const wf_json_event *e, uint32_t line,
                            uint32_t column) {
  wf_doc_node *unused = NULL;
  switch (e->kind) {
    case WF_JSON_OBJECT_BEGIN:
      return wf_doc_tree_open(t, WF_DOC_MAP, line, column, &unused);
    case WF_JSON_ARRAY_BEGIN:
      return wf_doc_tree_open(t, WF_DOC_LIST, line, column, &unused);
    case WF_JSON_OBJECT_END:
    case WF_JSON_ARRAY_END:
      return wf_doc_tree_close(t);
    case WF_JSON_KEY:
      return wf_doc_tree_key(t, e->text, line, column);
    case WF_JSON_END:
      return WEFT_OK;
    case WF_JSON_STRING:
    case WF_JSON_NUMBER:
    case WF_JSON_TRUE:
    case WF_JSON_FALSE:
    case WF_JSON_NULL:
      break;
  }
  return add_scalar(t, e, line, column);
}

weft_status wf_document_read_json(wf_doc_tree *t, wf_str text, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_json_reader *r = wf_alloc(sizeof *r);
  wf_json_event e = {.kind = WF_JSON_NULL};
  place p = {.line = 1};
  weft_error why = {.struct_size = sizeof why};
  if (!r) return WEFT_OUT_OF_MEMORY;
  (void)err;
  wf_json_init(r, text, "the document");
  while (e.kind != WF_JSON_END && st == WEFT_OK) {
    seek(&p, text, r->at);
    const uint32_t line = p.line, column = (uint32_t)(p.at - p.line_at) + 1;
    st = wf_json_next(r, &e, &why);
    if (st == WEFT_OK) {
      st = on_event(t, &e, line, column);
    } else if (st != WEFT_OUT_OF_MEMORY) {
      st = wf_doc_tree_fail(t, line, column, "repair the JSON there", "%s", why.what);
    }
  }
  wf_json_deinit(r);
  wf_free(r);
  return st;
}
