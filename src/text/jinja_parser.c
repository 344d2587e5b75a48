/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens to statements, and the small tools both halves of the parser use. */
#include <stdio.h>

#include "text/jinja.h"

bool wf_jj_syntax(jj_compiler *c, uint32_t line, uint32_t col, const char *fmt, ...) {
  if (c->status != WEFT_OK) return false;
  char text[320];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  c->status = wf_fail(c->err, WEFT_TEMPLATE, "correct the chat template at this place",
                      "template line %u, column %u: %s", line, col, text);
  return false;
}

bool wf_jj_no_memory(jj_compiler *c) {
  if (c->status == WEFT_OK) c->status = wf_fail_memory(c->err, 0, "a chat template");
  return false;
}

const jj_str *wf_jj_literal(jj_compiler *c, const char *at, size_t n) {
  jj_str *s = wf_arena_alloc(c->arena, sizeof *s);
  char *bytes = wf_arena_strndup(c->arena, n ? at : "", n);
  if (!s || !bytes) {
    wf_jj_no_memory(c);
    return NULL;
  }
  *s = (jj_str){.at = bytes, .n = n, .n_chars = 0};
  for (size_t i = 0; i < n; i++) s->n_chars += ((unsigned char)bytes[i] & 0xc0) != 0x80;
  return s;
}

jj_node *wf_jj_node(jj_compiler *c, jj_node_kind kind, const jj_token *at) {
  jj_node *n = wf_arena_alloc(c->arena, sizeof *n);
  if (!n) {
    wf_jj_no_memory(c);
    return NULL;
  }
  n->kind = kind;
  n->line = at->line;
  n->col = at->col;
  n->depth = 1;
  return n;
}

static void deeper(uint32_t *depth, const jj_node *child) {
  if (child && child->depth > *depth) *depth = child->depth;
}

static void deeper_all(uint32_t *depth, const jj_nodes *list) {
  for (size_t i = 0; i < list->n; i++) deeper(depth, list->at[i]);
}

bool wf_jj_node_depth(jj_compiler *c, jj_node *n) {
  uint32_t depth = 0;
  deeper(&depth, n->a);
  deeper(&depth, n->b);
  deeper(&depth, n->c);
  deeper_all(&depth, &n->list);
  deeper_all(&depth, &n->kwargs);
  deeper_all(&depth, &n->body);
  deeper_all(&depth, &n->orelse);
  n->depth = depth + 1;
  if (n->depth <= JJ_TREE_LIMIT) return true;
  return wf_jj_syntax(c, n->line, n->col, "the expression or block is nested deeper than %d",
                      (int)JJ_TREE_LIMIT);
}

bool wf_jj_nodes_push(jj_compiler *c, jj_nodes *list, size_t *capacity, jj_node *n) {
  if (list->n == *capacity) {
    const size_t grown = *capacity ? *capacity * 2 : 4;
    jj_node **at = wf_arena_calloc(c->arena, grown, sizeof(jj_node *));
    if (!at) return wf_jj_no_memory(c);
    if (list->n) memcpy(at, list->at, list->n * sizeof(jj_node *));
    list->at = at;
    *capacity = grown;
  }
  list->at[list->n++] = n;
  return true;
}

const jj_token *wf_jj_current(const jj_compiler *c) { return &c->tokens.at[c->at]; }

const jj_token *wf_jj_look(const jj_compiler *c) {
  return &c->tokens.at[c->at + 1 < c->tokens.n ? c->at + 1 : c->at];
}

bool wf_jj_advance(jj_compiler *c) {
  if (c->at + 1 < c->tokens.n) c->at++;
  const jj_token *t = wf_jj_current(c);
  if (t->kind != JJ_T_ERROR) return true;
  return wf_jj_syntax(c, t->line, t->col, "%s", t->text->at);
}

bool wf_jj_is_op(const jj_compiler *c, uint16_t op) {
  const jj_token *t = wf_jj_current(c);
  return t->kind == JJ_T_OP && t->op == op;
}

bool wf_jj_is_name(const jj_compiler *c, const char *name) {
  const jj_token *t = wf_jj_current(c);
  return t->kind == JJ_T_NAME && strcmp(t->text->at, name) == 0;
}

bool wf_jj_skip_name(jj_compiler *c, const char *name, bool *skipped) {
  *skipped = wf_jj_is_name(c, name);
  return *skipped ? wf_jj_advance(c) : true;
}

bool wf_jj_skip_op(jj_compiler *c, uint16_t op, bool *skipped) {
  *skipped = wf_jj_is_op(c, op);
  return *skipped ? wf_jj_advance(c) : true;
}

/* "'endif'", "end of print statement" */
static void describe(const jj_token *t, char out[64]) {
  const char *text = "";
  switch (t->kind) {
    case JJ_T_EOF:
      text = "end of template";
      break;
    case JJ_T_DATA:
      text = "template data / text";
      break;
    case JJ_T_VARIABLE_BEGIN:
      text = "begin of print statement";
      break;
    case JJ_T_VARIABLE_END:
      text = "end of print statement";
      break;
    case JJ_T_BLOCK_BEGIN:
      text = "begin of statement block";
      break;
    case JJ_T_BLOCK_END:
      text = "end of statement block";
      break;
    case JJ_T_STRING:
      text = "string";
      break;
    case JJ_T_INT:
      text = "integer";
      break;
    case JJ_T_FLOAT:
      text = "float";
      break;
    case JJ_T_ERROR:
    case JJ_T_NAME:
      text = t->text->at;
      break;
    case JJ_T_OP:
      if (t->op > 0xff) {
        snprintf(out, 64, "%c%c", t->op >> 8, t->op & 0xff);
      } else {
        snprintf(out, 64, "%c", t->op);
      }
      return;
  }
  snprintf(out, 64, "%.60s", text);
}

bool wf_jj_unexpected(jj_compiler *c, const char *wanted) {
  const jj_token *t = wf_jj_current(c);
  char got[64];
  describe(t, got);
  if (!wanted) return wf_jj_syntax(c, t->line, t->col, "unexpected '%s'", got);
  return wf_jj_syntax(c, t->line, t->col, "expected %s, got '%s'", wanted, got);
}

bool wf_jj_expect_op(jj_compiler *c, uint16_t op) {
  if (wf_jj_is_op(c, op)) return wf_jj_advance(c);
  const char wanted[] = {'\'', (char)op, '\'', '\0'};
  return wf_jj_unexpected(c, wanted);
}

bool wf_jj_expect_kind(jj_compiler *c, jj_token_kind kind) {
  if (wf_jj_current(c)->kind == kind) return wf_jj_advance(c);
  return wf_jj_unexpected(c, kind == JJ_T_NAME           ? "a name"
                             : kind == JJ_T_BLOCK_END    ? "'end of statement block'"
                             : kind == JJ_T_VARIABLE_END ? "'end of print statement'"
                                                         : "another token");
}

/* -- statements -- */

static jj_node *parse_statement(jj_compiler *c);

/* Reads until a block that begins with one of the comma-separated `ends`, or to the end of the
 * template when `ends` is NULL. Leaves the stream at the ending name. */
static bool parse_body(jj_compiler *c, const char *const *ends, jj_nodes *body) {
  size_t capacity = 0;
  for (;;) {
    const jj_token *t = wf_jj_current(c);
    jj_node *n = NULL;
    if (t->kind == JJ_T_EOF) {
      if (!ends) return true;
      return wf_jj_syntax(c, t->line, t->col,
                          "unexpected end of template; the innermost block that needs to be closed "
                          "wants '%s'",
                          ends[0]);
    }
    if (t->kind == JJ_T_ERROR) return wf_jj_syntax(c, t->line, t->col, "%s", t->text->at);
    if (t->kind == JJ_T_DATA) {
      n = wf_jj_node(c, JJ_N_DATA, t);
      if (!n || !wf_jj_advance(c)) return false;
      n->value = wf_jj_str(t->text);
    } else if (t->kind == JJ_T_VARIABLE_BEGIN) {
      n = wf_jj_node(c, JJ_N_OUTPUT, t);
      if (!n || !wf_jj_advance(c)) return false;
      size_t one = 0;
      jj_node *value = wf_jj_parse_tuple(c, (jj_tuple_how){0});
      if (!value || !wf_jj_nodes_push(c, &n->list, &one, value) ||
          !wf_jj_expect_kind(c, JJ_T_VARIABLE_END)) {
        return false;
      }
    } else {
      if (!wf_jj_advance(c)) return false;
      for (size_t i = 0; ends && ends[i]; i++) {
        if (wf_jj_is_name(c, ends[i])) return true;
      }
      n = parse_statement(c);
      if (!n || !wf_jj_expect_kind(c, JJ_T_BLOCK_END)) return false;
    }
    if (!wf_jj_node_depth(c, n) || !wf_jj_nodes_push(c, body, &capacity, n)) return false;
  }
}

/* The rest of an opening tag, then the body. */
static bool parse_statements(jj_compiler *c, const char *const *ends, bool drop_end,
                             jj_nodes *body) {
  bool colon;
  if (!wf_jj_skip_op(c, ':', &colon) || !wf_jj_expect_kind(c, JJ_T_BLOCK_END)) return false;
  if (++c->nesting > JJ_PARSE_LIMIT) {
    const jj_token *t = wf_jj_current(c);
    return wf_jj_syntax(c, t->line, t->col, "more than %d blocks inside each other",
                        (int)JJ_PARSE_LIMIT);
  }
  if (!parse_body(c, ends, body)) return false;
  c->nesting--;
  return drop_end ? wf_jj_advance(c) : true;
}

static bool set_context(jj_compiler *c, jj_node *n, jj_ctx ctx) {
  if (n->kind == JJ_N_NSREF) return true;
  if (n->kind == JJ_N_NAME) {
    n->ctx = ctx;
    return true;
  }
  if (n->kind == JJ_N_TUPLE) {
    for (size_t i = 0; i < n->list.n; i++) {
      if (!set_context(c, n->list.at[i], ctx)) return false;
    }
    return true;
  }
  return wf_jj_syntax(c, n->line, n->col, "can't assign to this expression");
}

static jj_node *parse_target(jj_compiler *c, const char *end_name, bool with_namespace) {
  jj_node *n = wf_jj_parse_tuple(
      c,
      (jj_tuple_how){.simplified = true, .end_name = end_name, .with_namespace = with_namespace});
  return n && set_context(c, n, JJ_STORE) ? n : NULL;
}

static jj_node *parse_target_name(jj_compiler *c, jj_ctx ctx) {
  const jj_token *t = wf_jj_current(c);
  jj_node *n = wf_jj_node(c, JJ_N_NAME, t);
  if (!n || !wf_jj_expect_kind(c, JJ_T_NAME)) return NULL;
  static const char *const constants[] = {"true", "false", "none", "True", "False", "None"};
  for (size_t i = 0; i < 6; i++) {
    if (strcmp(t->text->at, constants[i]) == 0) {
      wf_jj_syntax(c, t->line, t->col, "can't assign to '%s'", constants[i]);
      return NULL;
    }
  }
  n->name = t->text;
  n->ctx = ctx;
  return n;
}

static bool parse_set(jj_compiler *c, jj_node *n) {
  static const char *const ends[] = {"endset", NULL};
  bool assign;
  if (!(n->a = parse_target(c, NULL, true)) || !wf_jj_skip_op(c, '=', &assign)) return false;
  if (assign) {
    n->kind = JJ_N_ASSIGN;
    n->b = wf_jj_parse_tuple(c, (jj_tuple_how){0});
    return n->b != NULL;
  }
  n->kind = JJ_N_ASSIGNBLOCK;
  if (wf_jj_is_op(c, '|') && !(n->b = wf_jj_parse_filter(c, NULL, false))) return false;
  return parse_statements(c, ends, true, &n->body);
}

static bool parse_for(jj_compiler *c, jj_node *n) {
  static const char *const ends[] = {"endfor", "else", NULL}, *const last[] = {"endfor", NULL};
  bool has_test, is_end;
  n->a = parse_target(c, "in", false);
  if (!n->a) return false;
  if (!wf_jj_is_name(c, "in")) return wf_jj_unexpected(c, "'in'");
  if (!wf_jj_advance(c)) return false;
  n->b = wf_jj_parse_tuple(c, (jj_tuple_how){.no_cond = true, .end_name = "recursive"});
  if (!n->b || !wf_jj_skip_name(c, "if", &has_test)) return false;
  if (has_test && !(n->c = wf_jj_parse_expression(c, true))) return false;
  if (!wf_jj_skip_name(c, "recursive", &n->recursive)) return false;
  if (!parse_statements(c, ends, false, &n->body)) return false;
  if (!wf_jj_skip_name(c, "endfor", &is_end)) return false;
  return is_end || (wf_jj_advance(c) && parse_statements(c, last, true, &n->orelse));
}

static bool parse_if(jj_compiler *c, jj_node *n) {
  static const char *const ends[] = {"endif", "elif", "else", NULL};
  static const char *const last[] = {"endif", NULL};
  jj_node *branch = n;
  size_t capacity = 0;
  for (;;) {
    branch->a = wf_jj_parse_tuple(c, (jj_tuple_how){.no_cond = true});
    if (!branch->a || !parse_statements(c, ends, false, &branch->body)) return false;
    if (branch != n &&
        (!wf_jj_node_depth(c, branch) || !wf_jj_nodes_push(c, &n->list, &capacity, branch))) {
      return false;
    }
    const jj_token *t = wf_jj_current(c);
    if (wf_jj_is_name(c, "endif")) return wf_jj_advance(c);
    if (wf_jj_is_name(c, "else")) {
      return wf_jj_advance(c) && parse_statements(c, last, true, &n->orelse);
    }
    branch = wf_jj_node(c, JJ_N_IF, t);
    if (!branch || !wf_jj_advance(c)) return false;
  }
}

/* (a, b=1): names into list, defaults (for the last ones) into kwargs */
static bool parse_signature(jj_compiler *c, jj_node *n) {
  size_t capacity = 0, kw_capacity = 0;
  if (!wf_jj_expect_op(c, '(')) return false;
  while (!wf_jj_is_op(c, ')')) {
    bool has_default;
    if (n->list.n && !wf_jj_expect_op(c, ',')) return false;
    jj_node *arg = parse_target_name(c, JJ_PARAM);
    if (!arg || !wf_jj_skip_op(c, '=', &has_default)) return false;
    for (size_t i = 0; i < n->list.n; i++) {
      if (strcmp(n->list.at[i]->name->at, arg->name->at) == 0) {
        return wf_jj_syntax(c, arg->line, arg->col, "duplicate argument '%s'", arg->name->at);
      }
    }
    if (has_default) {
      jj_node *value = wf_jj_parse_expression(c, true);
      if (!value || !wf_jj_nodes_push(c, &n->kwargs, &kw_capacity, value)) return false;
    } else if (n->kwargs.n) {
      return wf_jj_syntax(c, arg->line, arg->col, "non-default argument follows default argument");
    }
    if (!wf_jj_nodes_push(c, &n->list, &capacity, arg)) return false;
  }
  return wf_jj_expect_op(c, ')');
}

static bool parse_macro(jj_compiler *c, jj_node *n) {
  static const char *const ends[] = {"endmacro", NULL};
  jj_node *name = parse_target_name(c, JJ_STORE);
  if (!name) return false;
  n->name = name->name;
  return parse_signature(c, n) && parse_statements(c, ends, true, &n->body);
}

static bool parse_call_block(jj_compiler *c, jj_node *n) {
  static const char *const ends[] = {"endcall", NULL};
  if (wf_jj_is_op(c, '(') && !parse_signature(c, n)) return false;
  n->a = wf_jj_parse_expression(c, true);
  if (!n->a) return false;
  if (n->a->kind != JJ_N_CALL) return wf_jj_syntax(c, n->line, n->col, "expected call");
  return parse_statements(c, ends, true, &n->body);
}

static bool parse_with(jj_compiler *c, jj_node *n) {
  static const char *const ends[] = {"endwith", NULL};
  size_t capacity = 0, kw_capacity = 0;
  while (wf_jj_current(c)->kind != JJ_T_BLOCK_END && !wf_jj_is_op(c, ':')) {
    if (n->list.n && !wf_jj_expect_op(c, ',')) return false;
    jj_node *target = parse_target(c, NULL, false);
    if (!target || !set_context(c, target, JJ_PARAM) || !wf_jj_expect_op(c, '=')) return false;
    jj_node *value = wf_jj_parse_expression(c, true);
    if (!value || !wf_jj_nodes_push(c, &n->list, &capacity, target) ||
        !wf_jj_nodes_push(c, &n->kwargs, &kw_capacity, value)) {
      return false;
    }
  }
  return parse_statements(c, ends, true, &n->body);
}

static bool parse_block(jj_compiler *c, jj_node *n) {
  static const char *const ends[] = {"endblock", NULL};
  const jj_token *t = wf_jj_current(c);
  bool skipped;
  if (!wf_jj_expect_kind(c, JJ_T_NAME) || !wf_jj_skip_name(c, "scoped", &skipped) ||
      !wf_jj_skip_name(c, "required", &skipped)) {
    return false;
  }
  n->name = t->text;
  c->has_blocks = true;
  if (!parse_statements(c, ends, true, &n->body)) return false;
  return wf_jj_skip_name(c, n->name->at, &skipped);
}

static bool parse_print(jj_compiler *c, jj_node *n) {
  size_t capacity = 0;
  while (wf_jj_current(c)->kind != JJ_T_BLOCK_END) {
    if (n->list.n && !wf_jj_expect_op(c, ',')) return false;
    jj_node *value = wf_jj_parse_expression(c, true);
    if (!value || !wf_jj_nodes_push(c, &n->list, &capacity, value)) return false;
  }
  return true;
}

/* include, import, from, extends: no other template exists here, which is an error when run. */
static bool parse_import(jj_compiler *c, jj_node *n) {
  int depth = 0;
  while (wf_jj_current(c)->kind != JJ_T_BLOCK_END || depth) {
    if (wf_jj_current(c)->kind == JJ_T_EOF) return wf_jj_unexpected(c, NULL);
    if (!wf_jj_advance(c)) return false;
  }
  n->a = NULL;
  return true;
}

static bool parse_scoped(jj_compiler *c, jj_node *n, const char *const *ends) {
  return parse_statements(c, ends, true, &n->body);
}

static jj_node *parse_statement(jj_compiler *c) {
  static const char *const filter_ends[] = {"endfilter", NULL};
  static const char *const escape_ends[] = {"endautoescape", NULL};
  static const char *const generation_ends[] = {"endgeneration", NULL};
  static const struct {
    const char *name;
    jj_node_kind kind;
    bool (*parse)(jj_compiler *c, jj_node *n);
  } tags[] = {{"set", JJ_N_ASSIGN, parse_set},
              {"for", JJ_N_FOR, parse_for},
              {"if", JJ_N_IF, parse_if},
              {"macro", JJ_N_MACRO, parse_macro},
              {"call", JJ_N_CALLBLOCK, parse_call_block},
              {"with", JJ_N_WITH, parse_with},
              {"block", JJ_N_BLOCK, parse_block},
              {"print", JJ_N_OUTPUT, parse_print},
              {"include", JJ_N_IMPORT, parse_import},
              {"import", JJ_N_IMPORT, parse_import},
              {"from", JJ_N_IMPORT, parse_import},
              {"extends", JJ_N_IMPORT, parse_import},
              {"break", JJ_N_BREAK, NULL},
              {"continue", JJ_N_CONTINUE, NULL},
              {"filter", JJ_N_FILTERBLOCK, NULL},
              {"autoescape", JJ_N_SCOPE, NULL},
              {"generation", JJ_N_GENERATION, NULL}};
  const jj_token *t = wf_jj_current(c);
  if (t->kind != JJ_T_NAME) {
    if (t->kind != JJ_T_ERROR) wf_jj_syntax(c, t->line, t->col, "tag name expected");
    return NULL;
  }
  for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
    if (strcmp(t->text->at, tags[i].name) != 0) continue;
    jj_node *n = wf_jj_node(c, tags[i].kind, t);
    if (!n || !wf_jj_advance(c)) return NULL;
    bool ok = true;
    if (tags[i].parse) {
      ok = tags[i].parse(c, n);
    } else if (n->kind == JJ_N_FILTERBLOCK) {
      n->a = wf_jj_parse_filter(c, NULL, true);
      ok = n->a && parse_scoped(c, n, filter_ends);
    } else if (n->kind == JJ_N_SCOPE) { /* autoescape: accepted where it is off */
      n->a = wf_jj_parse_expression(c, true);
      ok = n->a && parse_scoped(c, n, escape_ends);
    } else if (n->kind == JJ_N_GENERATION) {
      ok = parse_scoped(c, n, generation_ends);
    }
    return ok && wf_jj_node_depth(c, n) ? n : NULL;
  }
  wf_jj_syntax(c, t->line, t->col, "Encountered unknown tag '%.100s'", t->text->at);
  return NULL;
}

jj_node *wf_jj_parse_template(jj_compiler *c) {
  const jj_token *first = wf_jj_current(c);
  jj_node *root = wf_jj_node(c, JJ_N_SCOPE, first);
  if (!root || !parse_body(c, NULL, &root->body)) return NULL;
  return wf_jj_node_depth(c, root) ? root : NULL;
}
