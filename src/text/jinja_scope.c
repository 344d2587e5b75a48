/* SPDX-License-Identifier: Apache-2.0 */
/* Names to slots, once, at compile time, by Jinja's own rules: which scope a name lives in follows
 * from the text alone, a scope's slots get their first values when it is entered (from the caller's
 * variables, from an outer scope, or nothing), and `if` opens no scope. */
#include "text/jinja.h"

enum { WORK_LIMIT = 50 << 20 };

typedef struct symbol {
  const jj_str *name;
  bool has_ref, stored;
  jj_load load;
  uint32_t up, from;
} symbol;

typedef struct symbols {
  struct symbols *parent;
  WF_VEC(symbol) at; /* a symbol's place is its slot */
} symbols;

typedef struct binder {
  jj_compiler *c;
  symbols *scope;
  bool is_root, is_soft;
  uint32_t loops;      /* for loops around (for break and continue), zero in a macro */
  uint32_t for_blocks; /* for statements around at all (for `loop` as a target) */
} binder;

static bool work(jj_compiler *c, size_t n) {
  c->work += n;
  if (c->work <= WORK_LIMIT) return true;
  return wf_jj_syntax(c, 1, 1, "the template has too many names and branches");
}

static bool same(const jj_str *a, const jj_str *b) {
  return a == b || (a->n == b->n && memcmp(a->at, b->at, a->n) == 0);
}

/* The symbol of a name in this very scope, made if absent; NULL: no memory. */
static symbol *own(jj_compiler *c, symbols *s, const jj_str *name) {
  if (!work(c, s->at.n / 8 + 1)) return NULL;
  for (size_t i = 0; i < s->at.n; i++) {
    if (same(s->at.at[i].name, name)) return &s->at.at[i];
  }
  const symbol fresh = {.name = name};
  if (!wf_vec_push(&s->at, fresh)) {
    wf_jj_no_memory(c);
    return NULL;
  }
  return &s->at.at[s->at.n - 1];
}

/* Whether `name` has a reference from `s` outwards, and where. */
static bool find(const symbols *s, const jj_str *name, uint32_t *up, uint32_t *slot) {
  for (uint32_t hops = 0; s; s = s->parent, hops++) {
    for (size_t i = 0; i < s->at.n; i++) {
      if (s->at.at[i].has_ref && same(s->at.at[i].name, name)) {
        *up = hops;
        *slot = (uint32_t)i;
        return true;
      }
    }
  }
  return false;
}

static bool store(jj_compiler *c, symbols *s, const jj_str *name) {
  symbol *y = own(c, s, name);
  if (!y) return false;
  y->stored = true;
  if (y->has_ref) return true;
  y->has_ref = true;
  y->load = JJ_LOAD_UNDEFINED;
  if (s->parent && find(s->parent, name, &y->up, &y->from)) {
    y->load = JJ_LOAD_ALIAS;
    y->up++;
  }
  return true;
}

static bool declare_param(jj_compiler *c, symbols *s, const jj_str *name, uint32_t *slot) {
  symbol *y = own(c, s, name);
  if (!y) return false;
  y->stored = y->has_ref = true;
  y->load = JJ_LOAD_PARAM;
  if (slot) *slot = (uint32_t)(y - s->at.at);
  return true;
}

static bool load(jj_compiler *c, symbols *s, const jj_str *name) {
  uint32_t up, slot;
  if (!work(c, s->at.n / 8 + 1)) return false;
  if (find(s, name, &up, &slot)) return true;
  symbol *y = own(c, s, name);
  if (!y) return false;
  y->has_ref = true;
  y->load = JJ_LOAD_RESOLVE;
  return wf_vec_push(&c->reads, name) || wf_jj_no_memory(c);
}

/* -- finding a scope's symbols -- */

static bool visit(jj_compiler *c, symbols *s, const jj_node *n, bool as_param);

static bool visit_all(jj_compiler *c, symbols *s, const jj_nodes *list) {
  for (size_t i = 0; i < list->n; i++) {
    if (!visit(c, s, list->at[i], false)) return false;
  }
  return true;
}

static bool copy_symbols(jj_compiler *c, const symbols *from, symbols *to) {
  to->parent = from->parent;
  if (!work(c, from->at.n)) return false;
  if (!wf_vec_reserve(&to->at, from->at.n)) return wf_jj_no_memory(c);
  if (from->at.n) memcpy(to->at.at, from->at.at, from->at.n * sizeof(symbol));
  to->at.n = from->at.n;
  return true;
}

/* What a branch of an `if` found, into the scope. Slots keep their places: a name new in a branch
 * is appended, under the place it gets here. */
static bool merge_branch(jj_compiler *c, symbols *s, const symbols *branch) {
  for (size_t i = 0; i < branch->at.n; i++) {
    const symbol *b = &branch->at.at[i];
    symbol *y = i < s->at.n && same(s->at.at[i].name, b->name) ? &s->at.at[i] : own(c, s, b->name);
    if (!y) return false;
    const bool stored = y->stored;
    const symbol merged = *b;
    *y = merged;
    y->stored = stored || b->stored;
  }
  return true;
}

static bool visit_if(jj_compiler *c, symbols *s, const jj_node *n) {
  if (!visit(c, s, n->a, false)) return false;
  symbols before = {0}, branch[3] = {{0}, {0}, {0}};
  const jj_nodes *parts[3] = {&n->body, &n->list, &n->orelse};
  bool ok = copy_symbols(c, s, &before);
  for (int i = 0; ok && i < 3; i++) {
    ok = parts[i]->n == 0 || (copy_symbols(c, s, &branch[i]) && visit_all(c, &branch[i], parts[i]));
  }
  for (int i = 0; ok && i < 3; i++) ok = merge_branch(c, s, &branch[i]);
  /* A name that some branch may set starts with its outer value. */
  for (size_t i = 0; ok && i < s->at.n; i++) {
    symbol *y = &s->at.at[i];
    if (!y->stored || (i < before.at.n && before.at.at[i].stored)) continue;
    y->load = JJ_LOAD_RESOLVE;
    if (s->parent && find(s->parent, y->name, &y->up, &y->from)) {
      y->load = JJ_LOAD_ALIAS;
      y->up++;
    }
  }
  wf_vec_free(&before.at);
  for (int i = 0; i < 3; i++) wf_vec_free(&branch[i].at);
  return ok;
}

static bool visit_children(jj_compiler *c, symbols *s, const jj_node *n) {
  return (!n->a || visit(c, s, n->a, false)) && (!n->b || visit(c, s, n->b, false)) &&
         (!n->c || visit(c, s, n->c, false)) && visit_all(c, s, &n->list) &&
         visit_all(c, s, &n->kwargs);
}

static bool visit(jj_compiler *c, symbols *s, const jj_node *n, bool as_param) {
  if (n->kind == JJ_N_NAME) {
    if (as_param || n->ctx == JJ_PARAM) return declare_param(c, s, n->name, NULL);
    return n->ctx == JJ_STORE ? store(c, s, n->name) : load(c, s, n->name);
  }
  if (n->kind == JJ_N_NSREF) return load(c, s, n->name);
  if (n->kind == JJ_N_IF) return visit_if(c, s, n);
  if (n->kind == JJ_N_MACRO) return store(c, s, n->name);
  if (n->kind == JJ_N_ASSIGN) return visit(c, s, n->b, false) && visit(c, s, n->a, false);
  if (n->kind == JJ_N_FOR) return visit(c, s, n->b, false);
  if (n->kind == JJ_N_CALLBLOCK || n->kind == JJ_N_FILTERBLOCK || n->kind == JJ_N_ASSIGNBLOCK) {
    return visit(c, s, n->a, false);
  }
  if (n->kind == JJ_N_WITH) return visit_all(c, s, &n->kwargs);
  if (n->kind == JJ_N_SCOPE || n->kind == JJ_N_BLOCK || n->kind == JJ_N_GENERATION) return true;
  if (as_param && n->kind == JJ_N_TUPLE) {
    for (size_t i = 0; i < n->list.n; i++) {
      if (!visit(c, s, n->list.at[i], true)) return false;
    }
    return true;
  }
  return visit_children(c, s, n);
}

/* -- binding -- */

static bool bind(binder *b, jj_node *n);

static bool bind_all(binder *b, const jj_nodes *list) {
  for (size_t i = 0; i < list->n; i++) {
    if (!bind(b, list->at[i])) return false;
  }
  return true;
}

/* Writes what entering the scope has to do into the tree. */
static bool finish_scope(jj_compiler *c, const symbols *s, jj_scope *out) {
  out->n = s->at.n;
  out->slots = wf_arena_calloc(c->arena, s->at.n ? s->at.n : 1, sizeof(jj_slot));
  if (!out->slots) return wf_jj_no_memory(c);
  for (size_t i = 0; i < s->at.n; i++) {
    const symbol *y = &s->at.at[i];
    out->slots[i] = (jj_slot){.name = y->name,
                              .load = y->has_ref ? y->load : JJ_LOAD_UNDEFINED,
                              .up = y->up,
                              .from = y->from};
  }
  return true;
}

/* Reads of any of caller, kwargs, varargs in the body, outside blocks: bits 1, 2, 4. `live` loses
 * a name once it is bound, as in Jinja. */
static unsigned specials(const jj_node *n, unsigned *live) {
  static const char *const names[] = {"caller", "kwargs", "varargs"};
  unsigned found = 0;
  if (!n || n->kind == JJ_N_BLOCK) return 0;
  if (n->kind == JJ_N_NAME) {
    for (unsigned i = 0; i < 3; i++) {
      if (strcmp(n->name->at, names[i]) != 0) continue;
      if (n->ctx == JJ_LOAD) {
        found |= *live & (1u << i);
      } else {
        *live &= ~(1u << i);
      }
    }
    return found;
  }
  const jj_nodes *lists[] = {&n->list, &n->kwargs, &n->body, &n->orelse};
  found |= specials(n->a, live) | specials(n->b, live) | specials(n->c, live);
  for (size_t k = 0; k < 4; k++) {
    for (size_t i = 0; i < lists[k]->n; i++) found |= specials(lists[k]->at[i], live);
  }
  return found;
}

static bool bind_macro(binder *b, jj_node *n) {
  jj_compiler *c = b->c;
  symbols inner = {.parent = b->scope};
  unsigned live = 7, found = 0;
  bool ok = true, has_kwargs = false, has_varargs = false;
  for (size_t i = 0; ok && i < n->list.n; i++) {
    const jj_str *name = n->list.at[i]->name;
    ok = declare_param(c, &inner, name, &n->list.at[i]->slot);
    if (strcmp(name->at, "caller") == 0) n->explicit_caller = true;
    if (strcmp(name->at, "caller") == 0 && i + n->kwargs.n < n->list.n) live |= 8;
    has_kwargs |= strcmp(name->at, "kwargs") == 0;
    has_varargs |= strcmp(name->at, "varargs") == 0;
  }
  const bool no_default = (live & 8) != 0;
  live = 7;
  for (size_t i = 0; i < n->body.n; i++) found |= specials(n->body.at[i], &live);
  if (ok && (found & 1) && n->explicit_caller && no_default) {
    ok = wf_jj_syntax(c, n->line, n->col,
                      "the special \"caller\" argument must be omitted or be given a default");
  }
  const jj_str *caller = wf_jj_literal(c, "caller", 6), *kwargs = wf_jj_literal(c, "kwargs", 6);
  const jj_str *varargs = wf_jj_literal(c, "varargs", 7);
  ok = ok && caller && kwargs && varargs;
  n->takes_caller = (found & 1) != 0;
  n->takes_kwargs = (found & 2) && !has_kwargs;
  n->takes_varargs = (found & 4) && !has_varargs;
  if (ok && n->takes_caller && !n->explicit_caller) {
    ok = declare_param(c, &inner, caller, &n->caller_slot);
  }
  if (ok && n->takes_kwargs) ok = declare_param(c, &inner, kwargs, &n->kw_slot);
  if (ok && n->takes_varargs) ok = declare_param(c, &inner, varargs, &n->var_slot);
  ok = ok && visit_all(c, &inner, &n->kwargs) && visit_all(c, &inner, &n->body);
  binder in = {.c = c, .scope = &inner, .for_blocks = b->for_blocks};
  ok = ok && bind_all(&in, &n->kwargs) && bind_all(&in, &n->body);
  ok = ok && finish_scope(c, &inner, &n->scope);
  wf_vec_free(&inner.at);
  return ok;
}

/* body in a fresh scope below b's; `how` visits what the scope declares besides the body. */
static bool bind_scope(binder *b, jj_node *n, const jj_nodes *params, jj_node *filter) {
  symbols inner = {.parent = b->scope};
  binder in = {.c = b->c, .scope = &inner, .loops = b->loops, .for_blocks = b->for_blocks};
  bool ok = (!params || visit_all(b->c, &inner, params)) && visit_all(b->c, &inner, &n->body) &&
            (!filter || visit(b->c, &inner, filter, false));
  ok = ok && (!params || bind_all(&in, params)) && bind_all(&in, &n->body) &&
       (!filter || bind(&in, filter));
  ok = ok && finish_scope(b->c, &inner, &n->scope);
  wf_vec_free(&inner.at);
  return ok;
}

static jj_node *clone_target(jj_compiler *c, const jj_node *n) {
  jj_node *copy = wf_arena_alloc(c->arena, sizeof *copy);
  if (!copy) {
    wf_jj_no_memory(c);
    return NULL;
  }
  *copy = *n;
  if (n->list.n) {
    copy->list.at = wf_arena_calloc(c->arena, n->list.n, sizeof(jj_node *));
    if (!copy->list.at) {
      wf_jj_no_memory(c);
      return NULL;
    }
    for (size_t i = 0; i < n->list.n; i++) {
      copy->list.at[i] = clone_target(c, n->list.at[i]);
      if (!copy->list.at[i]) return NULL;
    }
  }
  return copy;
}

static bool bind_for(binder *b, jj_node *n) {
  jj_compiler *c = b->c;
  symbols body = {.parent = b->scope}, orelse = {.parent = b->scope}, test = {.parent = b->scope};
  const jj_str *loop = wf_jj_literal(c, "loop", 4);
  bool ok = loop && bind(b, n->b) && declare_param(c, &body, loop, &n->loop_slot) &&
            visit(c, &body, n->a, true) && visit_all(c, &body, &n->body) &&
            visit_all(c, &orelse, &n->orelse);
  binder in = {.c = c, .scope = &body, .loops = b->loops + 1, .for_blocks = b->for_blocks + 1};
  ok = ok && bind(&in, n->a) && bind_all(&in, &n->body) && finish_scope(c, &body, &n->scope);
  binder in_else = {.c = c,
                    .scope = &orelse,
                    .loops = n->recursive ? 0 : b->loops,
                    .for_blocks = b->for_blocks + 1};
  ok = ok && bind_all(&in_else, &n->orelse) && finish_scope(c, &orelse, &n->else_scope);
  if (ok && n->c) {
    n->test_target = clone_target(c, n->a);
    binder in_test = {.c = c, .scope = &test, .for_blocks = b->for_blocks + 1};
    ok = n->test_target && visit(c, &test, n->test_target, true) && visit(c, &test, n->c, false) &&
         bind(&in_test, n->test_target) && bind(&in_test, n->c) &&
         finish_scope(c, &test, &n->test_scope);
  }
  wf_vec_free(&body.at);
  wf_vec_free(&orelse.at);
  wf_vec_free(&test.at);
  return ok;
}

static bool bind_name(binder *b, jj_node *n) {
  if (n->ctx != JJ_LOAD && b->for_blocks && n->kind == JJ_N_NAME &&
      strcmp(n->name->at, "loop") == 0 && n->ctx == JJ_STORE) {
    return wf_jj_syntax(b->c, n->line, n->col,
                        "Can't assign to special loop variable in for-loop target");
  }
  n->is_top = b->is_root;
  for (const symbols *s = b->scope; s; s = s->parent) {
    if (!work(b->c, s->at.n / 8 + 1)) return false;
  }
  if (find(b->scope, n->name, &n->up, &n->slot)) return true;
  return wf_jj_syntax(b->c, n->line, n->col, "name '%.100s' has no scope", n->name->at);
}

static bool bind_lookup(binder *b, jj_node *n) {
  const bool is_filter = n->kind == JJ_N_FILTER;
  if (is_filter) {
    n->entry = wf_jj_filter(n->name->at, n->name->n);
  } else {
    n->entry = wf_jj_test(n->name->at, n->name->n);
  }
  if (n->entry || b->is_soft) return true;
  return wf_jj_syntax(b->c, n->line, n->col, "No %s named '%.100s'.", is_filter ? "filter" : "test",
                      n->name->at);
}

static bool bind_children(binder *b, jj_node *n) {
  return (!n->a || bind(b, n->a)) && (!n->b || bind(b, n->b)) && (!n->c || bind(b, n->c)) &&
         bind_all(b, &n->list) && bind_all(b, &n->kwargs);
}

static bool bind_block(binder *b, jj_node *n) {
  symbols inner = {0}; /* a block sees the caller's variables and what is set at the top */
  binder in = {.c = b->c, .scope = &inner};
  const bool ok = visit_all(b->c, &inner, &n->body) && bind_all(&in, &n->body) &&
                  finish_scope(b->c, &inner, &n->scope);
  wf_vec_free(&inner.at);
  return ok;
}

static bool bind(binder *b, jj_node *n) {
  const bool was_soft = b->is_soft;
  bool ok;
  if (n->kind == JJ_N_NAME || n->kind == JJ_N_NSREF) return bind_name(b, n);
  if (n->kind == JJ_N_FILTER || n->kind == JJ_N_TEST) {
    return bind_lookup(b, n) && bind_children(b, n);
  }
  if (n->kind == JJ_N_BREAK || n->kind == JJ_N_CONTINUE) {
    if (b->loops) return true;
    return wf_jj_syntax(b->c, n->line, n->col, "'%s' outside loop",
                        n->kind == JJ_N_BREAK ? "break" : "continue");
  }
  if (n->kind == JJ_N_IF || n->kind == JJ_N_COND) {
    b->is_soft = true;
    ok = bind_children(b, n) && bind_all(b, &n->body) && bind_all(b, &n->orelse);
    b->is_soft = was_soft;
    return ok;
  }
  if (n->kind == JJ_N_MACRO || n->kind == JJ_N_CALLBLOCK) {
    if (!bind_macro(b, n)) return false;
    if (n->kind == JJ_N_MACRO) return bind_name(b, n);
    return bind(b, n->a);
  }
  if (n->kind == JJ_N_FOR) return bind_for(b, n);
  if (n->kind == JJ_N_WITH) return bind_all(b, &n->kwargs) && bind_scope(b, n, &n->list, NULL);
  if (n->kind == JJ_N_FILTERBLOCK) return bind_scope(b, n, NULL, n->a);
  if (n->kind == JJ_N_ASSIGNBLOCK) return bind(b, n->a) && bind_scope(b, n, NULL, n->b);
  if (n->kind == JJ_N_SCOPE || n->kind == JJ_N_GENERATION) {
    return (!n->a || bind(b, n->a)) && bind_scope(b, n, NULL, NULL);
  }
  if (n->kind == JJ_N_BLOCK) return bind_block(b, n);
  return bind_children(b, n);
}

bool wf_jj_bind_template(jj_compiler *c, jj_node *root) {
  symbols top = {0};
  binder b = {.c = c, .scope = &top, .is_root = true};
  const bool ok = visit_all(c, &top, &root->body) && bind_all(&b, &root->body) &&
                  finish_scope(c, &top, &root->scope);
  wf_vec_free(&top.at);
  return ok;
}
