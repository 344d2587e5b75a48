/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens to expressions: Jinja's grammar with its own precedences (`~` binds tighter than `+`,
 * a filter tighter than a unary minus' operand ends, `**` to the left). */
#include "text/jinja.h"

static jj_node *binary(jj_compiler *c, jj_node_kind kind, jj_op op, jj_node *a, jj_node *b,
                       const jj_token *at) {
  jj_node *n = a && b ? wf_jj_node(c, kind, at) : NULL;
  if (!n) return NULL;
  n->op = op;
  n->a = a;
  n->b = b;
  return wf_jj_node_depth(c, n) ? n : NULL;
}

static bool nest(jj_compiler *c) {
  if (++c->nesting <= JJ_PARSE_LIMIT) return true;
  const jj_token *t = wf_jj_current(c);
  return wf_jj_syntax(c, t->line, t->col, "more than %d brackets or blocks inside each other",
                      (int)JJ_PARSE_LIMIT);
}

static jj_node *parse_or(jj_compiler *c);
static jj_node *parse_unary(jj_compiler *c, bool with_filter);

static jj_node *parse_pow(jj_compiler *c) {
  const jj_token *at = wf_jj_current(c);
  jj_node *left = parse_unary(c, true);
  while (left && wf_jj_is_op(c, JJ_OP2('*', '*'))) {
    if (!wf_jj_advance(c)) return NULL;
    left = binary(c, JJ_N_BINARY, JJ_OP_POW, left, parse_unary(c, true), at);
  }
  return left;
}

static jj_node *parse_math2(jj_compiler *c) {
  const jj_token *at = wf_jj_current(c);
  jj_node *left = parse_pow(c);
  while (left) {
    jj_op op;
    if (wf_jj_is_op(c, '*')) {
      op = JJ_OP_MUL;
    } else if (wf_jj_is_op(c, '/')) {
      op = JJ_OP_DIV;
    } else if (wf_jj_is_op(c, JJ_OP2('/', '/'))) {
      op = JJ_OP_FLOORDIV;
    } else if (wf_jj_is_op(c, '%')) {
      op = JJ_OP_MOD;
    } else {
      break;
    }
    if (!wf_jj_advance(c)) return NULL;
    left = binary(c, JJ_N_BINARY, op, left, parse_pow(c), at);
  }
  return left;
}

static jj_node *parse_concat(jj_compiler *c) {
  const jj_token *at = wf_jj_current(c);
  jj_node *first = parse_math2(c);
  if (!first || !wf_jj_is_op(c, '~')) return first;
  jj_node *n = wf_jj_node(c, JJ_N_CONCAT, at);
  size_t capacity = 0;
  if (!n || !wf_jj_nodes_push(c, &n->list, &capacity, first)) return NULL;
  while (wf_jj_is_op(c, '~')) {
    if (!wf_jj_advance(c)) return NULL;
    jj_node *next = parse_math2(c);
    if (!next || !wf_jj_nodes_push(c, &n->list, &capacity, next)) return NULL;
  }
  return wf_jj_node_depth(c, n) ? n : NULL;
}

static jj_node *parse_math1(jj_compiler *c) {
  const jj_token *at = wf_jj_current(c);
  jj_node *left = parse_concat(c);
  while (left && (wf_jj_is_op(c, '+') || wf_jj_is_op(c, '-'))) {
    const jj_op op = wf_jj_is_op(c, '+') ? JJ_OP_ADD : JJ_OP_SUB;
    if (!wf_jj_advance(c)) return NULL;
    left = binary(c, JJ_N_BINARY, op, left, parse_concat(c), at);
  }
  return left;
}

/* The comparison operator at the current token, consumed; *found tells whether there is one. */
static bool comparison(jj_compiler *c, jj_op *op, bool *found) {
  static const struct {
    uint16_t text;
    jj_op op;
  } ops[] = {{JJ_OP2('=', '='), JJ_OP_EQ},
             {JJ_OP2('!', '='), JJ_OP_NE},
             {'<', JJ_OP_LT},
             {JJ_OP2('<', '='), JJ_OP_LE},
             {'>', JJ_OP_GT},
             {JJ_OP2('>', '='), JJ_OP_GE}};
  *found = true;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    if (wf_jj_is_op(c, ops[i].text)) {
      *op = ops[i].op;
      return wf_jj_advance(c);
    }
  }
  if (wf_jj_is_name(c, "in")) {
    *op = JJ_OP_IN;
    return wf_jj_advance(c);
  }
  const jj_token *next = wf_jj_look(c);
  if (wf_jj_is_name(c, "not") && next->kind == JJ_T_NAME &&
      wf_str_is((wf_str){next->text->at, next->text->n}, "in")) {
    *op = JJ_OP_NOTIN;
    if (!wf_jj_advance(c)) return false;
    return wf_jj_advance(c);
  }
  *found = false;
  return true;
}

static jj_node *parse_compare(jj_compiler *c) {
  const jj_token *at = wf_jj_current(c);
  jj_node *first = parse_math1(c), *n = NULL;
  size_t capacity = 0;
  while (first) {
    jj_op op = JJ_OP_EQ;
    bool found;
    const jj_token *op_at = wf_jj_current(c);
    if (!comparison(c, &op, &found)) return NULL;
    if (!found) break;
    if (!n) {
      n = wf_jj_node(c, JJ_N_COMPARE, at);
      if (!n) return NULL;
      n->a = first;
    }
    jj_node *operand = wf_jj_node(c, JJ_N_OPERAND, op_at);
    if (!operand || !(operand->a = parse_math1(c))) return NULL;
    operand->op = op;
    if (!wf_jj_node_depth(c, operand) || !wf_jj_nodes_push(c, &n->list, &capacity, operand)) {
      return NULL;
    }
  }
  if (!n) return first;
  return wf_jj_node_depth(c, n) ? n : NULL;
}

static jj_node *parse_not(jj_compiler *c) {
  if (!wf_jj_is_name(c, "not")) return parse_compare(c);
  const jj_token *at = wf_jj_current(c);
  jj_node *n = wf_jj_node(c, JJ_N_NOT, at);
  if (!n || !nest(c) || !wf_jj_advance(c) || !(n->a = parse_not(c))) return NULL;
  c->nesting--;
  return wf_jj_node_depth(c, n) ? n : NULL;
}

static jj_node *parse_and(jj_compiler *c) {
  const jj_token *at = wf_jj_current(c);
  jj_node *left = parse_not(c);
  while (left && wf_jj_is_name(c, "and")) {
    if (!wf_jj_advance(c)) return NULL;
    left = binary(c, JJ_N_AND, JJ_OP_ADD, left, parse_not(c), at);
  }
  return left;
}

static jj_node *parse_or(jj_compiler *c) {
  const jj_token *at = wf_jj_current(c);
  jj_node *left = parse_and(c);
  while (left && wf_jj_is_name(c, "or")) {
    if (!wf_jj_advance(c)) return NULL;
    left = binary(c, JJ_N_OR, JJ_OP_ADD, left, parse_and(c), at);
  }
  return left;
}

static jj_node *parse_cond(jj_compiler *c) {
  const jj_token *at = wf_jj_current(c);
  if (!nest(c)) return NULL;
  jj_node *value = parse_or(c);
  while (value && wf_jj_is_name(c, "if")) {
    jj_node *n = wf_jj_node(c, JJ_N_COND, at);
    bool has_else;
    if (!n || !wf_jj_advance(c) || !(n->b = parse_or(c)) ||
        !wf_jj_skip_name(c, "else", &has_else)) {
      return NULL;
    }
    if (has_else && !(n->c = parse_cond(c))) return NULL;
    n->a = value;
    if (!wf_jj_node_depth(c, n)) return NULL;
    value = n;
  }
  c->nesting--;
  return value;
}

jj_node *wf_jj_parse_expression(jj_compiler *c, bool with_cond) {
  return with_cond ? parse_cond(c) : parse_or(c);
}

/* -- primaries -- */

static jj_node *parse_list(jj_compiler *c) {
  jj_node *n = wf_jj_node(c, JJ_N_LIST, wf_jj_current(c));
  size_t capacity = 0;
  if (!n || !wf_jj_advance(c)) return NULL;
  while (!wf_jj_is_op(c, ']')) {
    if (n->list.n && !wf_jj_expect_op(c, ',')) return NULL;
    if (wf_jj_is_op(c, ']')) break;
    jj_node *item = wf_jj_parse_expression(c, true);
    if (!item || !wf_jj_nodes_push(c, &n->list, &capacity, item)) return NULL;
  }
  return wf_jj_expect_op(c, ']') && wf_jj_node_depth(c, n) ? n : NULL;
}

static jj_node *parse_dict(jj_compiler *c) {
  jj_node *n = wf_jj_node(c, JJ_N_DICT, wf_jj_current(c));
  size_t capacity = 0;
  if (!n || !wf_jj_advance(c)) return NULL;
  while (!wf_jj_is_op(c, '}')) {
    if (n->list.n && !wf_jj_expect_op(c, ',')) return NULL;
    if (wf_jj_is_op(c, '}')) break;
    jj_node *key = wf_jj_parse_expression(c, true);
    if (!key || !wf_jj_expect_op(c, ':')) return NULL;
    jj_node *value = wf_jj_parse_expression(c, true);
    if (!value || !wf_jj_nodes_push(c, &n->list, &capacity, key) ||
        !wf_jj_nodes_push(c, &n->list, &capacity, value)) {
      return NULL;
    }
  }
  return wf_jj_expect_op(c, '}') && wf_jj_node_depth(c, n) ? n : NULL;
}

static jj_node *parse_name(jj_compiler *c, bool with_namespace) {
  const jj_token *t = wf_jj_current(c);
  const wf_str s = {t->text->at, t->text->n};
  jj_val value = {.kind = JJ_MISSING};
  if (wf_str_is(s, "true") || wf_str_is(s, "True")) value = wf_jj_bool(true);
  if (wf_str_is(s, "false") || wf_str_is(s, "False")) value = wf_jj_bool(false);
  if (wf_str_is(s, "none") || wf_str_is(s, "None")) value = wf_jj_none();
  jj_node *n = wf_jj_node(c, value.kind ? JJ_N_CONST : JJ_N_NAME, t);
  if (!n || !wf_jj_advance(c)) return NULL;
  n->value = value;
  n->name = t->text;
  if (!value.kind && with_namespace && wf_jj_is_op(c, '.')) {
    if (!wf_jj_advance(c)) return NULL;
    const jj_token *attr = wf_jj_current(c);
    if (!wf_jj_expect_kind(c, JJ_T_NAME)) return NULL;
    n->kind = JJ_N_NSREF;
    n->attr = attr->text;
  }
  return n;
}

static jj_node *parse_string(jj_compiler *c) {
  const jj_token *t = wf_jj_current(c);
  jj_node *n = wf_jj_node(c, JJ_N_CONST, t);
  wf_buf joined = {0};
  if (!n) return NULL;
  n->value = wf_jj_str(t->text);
  size_t count = 0;
  while (wf_jj_current(c)->kind == JJ_T_STRING) {
    const jj_str *s = wf_jj_current(c)->text;
    wf_buf_add(&joined, s->at, s->n);
    count++;
    if (!wf_jj_advance(c)) {
      wf_buf_deinit(&joined);
      return NULL;
    }
  }
  if (count > 1) { /* neighbours are one string, as in C */
    const jj_str *s = joined.failed ? NULL : wf_jj_literal(c, joined.at, joined.n);
    if (s) {
      const wf_str literal = {s->at, s->n};
      n->value = wf_jj_str(s);
      if (!wf_vec_push(&c->literals, literal)) s = NULL;
    }
    if (!s) {
      wf_jj_no_memory(c);
      n = NULL;
    }
  }
  wf_buf_deinit(&joined);
  return n;
}

jj_node *wf_jj_parse_primary(jj_compiler *c, bool with_namespace) {
  const jj_token *t = wf_jj_current(c);
  jj_node *n = NULL;
  if (t->kind == JJ_T_NAME) return parse_name(c, with_namespace);
  if (t->kind == JJ_T_STRING) return parse_string(c);
  if (t->kind == JJ_T_INT || t->kind == JJ_T_FLOAT) {
    n = wf_jj_node(c, JJ_N_CONST, t);
    if (!n || !wf_jj_advance(c)) return NULL;
    n->value = t->value;
    return n;
  }
  if (!nest(c)) return NULL;
  if (wf_jj_is_op(c, '(')) {
    if (!wf_jj_advance(c)) return NULL;
    n = wf_jj_parse_tuple(c, (jj_tuple_how){.parenthesised = true});
    if (n && !wf_jj_expect_op(c, ')')) return NULL;
  } else if (wf_jj_is_op(c, '[')) {
    n = parse_list(c);
  } else if (wf_jj_is_op(c, '{')) {
    n = parse_dict(c);
  } else {
    wf_jj_unexpected(c, NULL);
  }
  c->nesting--;
  return n;
}

static bool tuple_ends(const jj_compiler *c, const char *end_name) {
  const jj_token *t = wf_jj_current(c);
  if (t->kind == JJ_T_VARIABLE_END || t->kind == JJ_T_BLOCK_END || wf_jj_is_op(c, ')')) return true;
  return end_name && wf_jj_is_name(c, end_name);
}

jj_node *wf_jj_parse_tuple(jj_compiler *c, jj_tuple_how how) {
  const jj_token *at = wf_jj_current(c);
  jj_nodes items = {0};
  size_t capacity = 0;
  bool is_tuple = false;
  for (;;) {
    if (items.n && !wf_jj_expect_op(c, ',')) return NULL;
    if (tuple_ends(c, how.end_name)) break;
    jj_node *item = how.simplified ? wf_jj_parse_primary(c, how.with_namespace)
                                   : wf_jj_parse_expression(c, !how.no_cond);
    if (!item || !wf_jj_nodes_push(c, &items, &capacity, item)) return NULL;
    if (!wf_jj_is_op(c, ',')) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (items.n) return items.at[0];
    if (!how.parenthesised) {
      wf_jj_unexpected(c, "an expression");
      return NULL;
    }
  }
  jj_node *n = wf_jj_node(c, JJ_N_TUPLE, at);
  if (!n) return NULL;
  n->list = items;
  return wf_jj_node_depth(c, n) ? n : NULL;
}

/* -- postfix: subscripts, calls, filters, tests -- */

static jj_node *parse_subscribed(jj_compiler *c) {
  const jj_token *at = wf_jj_current(c);
  jj_node *part[3] = {NULL, NULL, NULL};
  if (!wf_jj_is_op(c, ':')) {
    part[0] = wf_jj_parse_expression(c, true);
    if (!part[0] || !wf_jj_is_op(c, ':')) return part[0];
  }
  for (int i = 1; i < 3 && wf_jj_is_op(c, ':'); i++) {
    if (!wf_jj_advance(c)) return NULL;
    if (wf_jj_is_op(c, ':') || wf_jj_is_op(c, ']') || wf_jj_is_op(c, ',')) continue;
    part[i] = wf_jj_parse_expression(c, true);
    if (!part[i]) return NULL;
  }
  jj_node *n = wf_jj_node(c, JJ_N_SLICE, at);
  if (!n) return NULL;
  n->a = part[0];
  n->b = part[1];
  n->c = part[2];
  return wf_jj_node_depth(c, n) ? n : NULL;
}

static jj_node *parse_dot(jj_compiler *c, jj_node *object) {
  const jj_token *dot = wf_jj_current(c);
  if (!wf_jj_advance(c)) return NULL;
  const jj_token *t = wf_jj_current(c);
  jj_node *n = wf_jj_node(c, t->kind == JJ_T_NAME ? JJ_N_GETATTR : JJ_N_GETITEM, dot);
  if (!n) return NULL;
  n->a = object;
  n->name = t->text;
  if (t->kind == JJ_T_INT) {
    n->b = wf_jj_node(c, JJ_N_CONST, t);
    if (!n->b) return NULL;
    n->b->value = t->value;
  } else if (t->kind != JJ_T_NAME) {
    wf_jj_unexpected(c, "a name or number");
    return NULL;
  }
  return wf_jj_advance(c) && wf_jj_node_depth(c, n) ? n : NULL;
}

static jj_node *parse_subscript(jj_compiler *c, jj_node *object) {
  const jj_token *at = wf_jj_current(c);
  if (wf_jj_is_op(c, '.')) return parse_dot(c, object);
  jj_node *n = wf_jj_node(c, JJ_N_GETITEM, at);
  jj_nodes keys = {0};
  size_t capacity = 0;
  if (!n || !nest(c) || !wf_jj_advance(c)) return NULL;
  while (!wf_jj_is_op(c, ']')) {
    if (keys.n && !wf_jj_expect_op(c, ',')) return NULL;
    jj_node *key = parse_subscribed(c);
    if (!key || !wf_jj_nodes_push(c, &keys, &capacity, key)) return NULL;
  }
  if (!wf_jj_expect_op(c, ']')) return NULL;
  c->nesting--;
  n->a = object;
  if (keys.n == 1) {
    n->b = keys.at[0];
  } else {
    n->b = wf_jj_node(c, JJ_N_TUPLE, at);
    if (!n->b) return NULL;
    n->b->list = keys;
    if (!wf_jj_node_depth(c, n->b)) return NULL;
  }
  return wf_jj_node_depth(c, n) ? n : NULL;
}

static bool parse_keyword(jj_compiler *c, jj_node *n, size_t *capacity) {
  jj_node *k = wf_jj_node(c, JJ_N_KEYWORD, wf_jj_current(c));
  if (!k) return false;
  k->name = wf_jj_current(c)->text;
  for (size_t i = 0; i < n->kwargs.n; i++) {
    const jj_str *other = n->kwargs.at[i]->name;
    if (wf_str_eq((wf_str){other->at, other->n}, (wf_str){k->name->at, k->name->n})) {
      return wf_jj_syntax(c, k->line, k->col, "keyword argument repeated: %s", k->name->at);
    }
  }
  if (!wf_jj_advance(c)) return false; /* the name, then the sign */
  if (!wf_jj_advance(c)) return false;
  k->a = wf_jj_parse_expression(c, true);
  return k->a && wf_jj_node_depth(c, k) && wf_jj_nodes_push(c, &n->kwargs, capacity, k);
}

/* (a, b, k=c, *d, **e) into n->list, kwargs, b, c */
static bool parse_arguments(jj_compiler *c, jj_node *n) {
  const jj_token *at = wf_jj_current(c);
  size_t capacity = 0, kw_capacity = 0;
  bool comma = false, ok = true;
  if (!nest(c) || !wf_jj_expect_op(c, '(')) return false;
  while (ok && !wf_jj_is_op(c, ')')) {
    if (comma) {
      if (!wf_jj_expect_op(c, ',')) return false;
      if (wf_jj_is_op(c, ')')) break;
    }
    const jj_token *next = wf_jj_look(c);
    if (wf_jj_is_op(c, '*')) {
      ok = !n->b && !n->c;
      if (ok && (!wf_jj_advance(c) || !(n->b = wf_jj_parse_expression(c, true)))) return false;
    } else if (wf_jj_is_op(c, JJ_OP2('*', '*'))) {
      ok = !n->c;
      if (ok && (!wf_jj_advance(c) || !(n->c = wf_jj_parse_expression(c, true)))) return false;
    } else if (wf_jj_current(c)->kind == JJ_T_NAME && next->kind == JJ_T_OP && next->op == '=') {
      ok = !n->c;
      if (ok && !parse_keyword(c, n, &kw_capacity)) return false;
    } else {
      ok = !n->b && !n->c && !n->kwargs.n;
      jj_node *arg = ok ? wf_jj_parse_expression(c, true) : NULL;
      if (ok && (!arg || !wf_jj_nodes_push(c, &n->list, &capacity, arg))) return false;
    }
    comma = true;
  }
  if (!ok) {
    return wf_jj_syntax(c, at->line, at->col, "invalid syntax for function call expression");
  }
  c->nesting--;
  return wf_jj_expect_op(c, ')');
}

static jj_node *parse_call(jj_compiler *c, jj_node *callee) {
  jj_node *n = wf_jj_node(c, JJ_N_CALL, wf_jj_current(c));
  if (!n) return NULL;
  n->a = callee;
  return parse_arguments(c, n) && wf_jj_node_depth(c, n) ? n : NULL;
}

static jj_node *parse_postfix(jj_compiler *c, jj_node *n) {
  while (n) {
    if (wf_jj_is_op(c, '.') || wf_jj_is_op(c, '[')) {
      n = parse_subscript(c, n);
    } else if (wf_jj_is_op(c, '(')) {
      n = parse_call(c, n);
    } else {
      break;
    }
  }
  return n;
}

/* name or name.name of a filter or test */
static const jj_str *dotted_name(jj_compiler *c) {
  const jj_token *t = wf_jj_current(c);
  if (!wf_jj_expect_kind(c, JJ_T_NAME)) return NULL;
  const jj_str *name = t->text;
  while (wf_jj_is_op(c, '.')) {
    if (!wf_jj_advance(c)) return NULL;
    t = wf_jj_current(c);
    if (!wf_jj_expect_kind(c, JJ_T_NAME)) return NULL;
    wf_buf b = {0};
    wf_buf_add(&b, name->at, name->n);
    wf_buf_putc(&b, '.');
    wf_buf_add(&b, t->text->at, t->text->n);
    name = b.failed ? NULL : wf_jj_literal(c, b.at, b.n);
    wf_buf_deinit(&b);
    if (!name) {
      wf_jj_no_memory(c);
      return NULL;
    }
  }
  return name;
}

jj_node *wf_jj_parse_filter(jj_compiler *c, jj_node *n, bool start_inline) {
  while (wf_jj_is_op(c, '|') || start_inline) {
    if (!start_inline && !wf_jj_advance(c)) return NULL;
    jj_node *f = wf_jj_node(c, JJ_N_FILTER, wf_jj_current(c));
    if (!f || !(f->name = dotted_name(c))) return NULL;
    f->a = n;
    if (wf_jj_is_op(c, '(') && !parse_arguments(c, f)) return NULL;
    if (!wf_jj_node_depth(c, f)) return NULL;
    n = f;
    start_inline = false;
  }
  return n;
}

static bool starts_test_argument(const jj_compiler *c) {
  const jj_token *t = wf_jj_current(c);
  if (t->kind == JJ_T_NAME) {
    return !wf_jj_is_name(c, "else") && !wf_jj_is_name(c, "or") && !wf_jj_is_name(c, "and");
  }
  return t->kind == JJ_T_STRING || t->kind == JJ_T_INT || t->kind == JJ_T_FLOAT ||
         wf_jj_is_op(c, '[') || wf_jj_is_op(c, '{');
}

static jj_node *parse_test(jj_compiler *c, jj_node *value) {
  const jj_token *at = wf_jj_current(c);
  jj_node *n = wf_jj_node(c, JJ_N_TEST, at);
  if (!n || !wf_jj_advance(c) || !wf_jj_skip_name(c, "not", &n->negated)) return NULL;
  if (!(n->name = dotted_name(c))) return NULL;
  n->a = value;
  if (wf_jj_is_op(c, '(')) {
    if (!parse_arguments(c, n)) return NULL;
  } else if (starts_test_argument(c)) {
    if (wf_jj_is_name(c, "is")) {
      const jj_token *t = wf_jj_current(c);
      wf_jj_syntax(c, t->line, t->col, "You cannot chain multiple tests with is");
      return NULL;
    }
    jj_node *arg = parse_postfix(c, wf_jj_parse_primary(c, false));
    size_t capacity = 0;
    if (!arg || !wf_jj_nodes_push(c, &n->list, &capacity, arg)) return NULL;
  }
  return wf_jj_node_depth(c, n) ? n : NULL;
}

static jj_node *parse_unary(jj_compiler *c, bool with_filter) {
  jj_node *n;
  if (wf_jj_is_op(c, '-') || wf_jj_is_op(c, '+')) {
    n = wf_jj_node(c, JJ_N_UNARY, wf_jj_current(c));
    if (!n || !nest(c)) return NULL;
    n->op = wf_jj_is_op(c, '-') ? JJ_OP_SUB : JJ_OP_ADD;
    if (!wf_jj_advance(c) || !(n->a = parse_unary(c, false))) return NULL;
    c->nesting--;
    if (!wf_jj_node_depth(c, n)) return NULL;
  } else {
    n = wf_jj_parse_primary(c, false);
  }
  n = parse_postfix(c, n);
  while (n && with_filter) {
    if (wf_jj_is_op(c, '|')) {
      n = wf_jj_parse_filter(c, n, false);
    } else if (wf_jj_is_name(c, "is")) {
      n = parse_test(c, n);
    } else if (wf_jj_is_op(c, '(')) {
      n = parse_call(c, n);
    } else {
      break;
    }
  }
  return n;
}
