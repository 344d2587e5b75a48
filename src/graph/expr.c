/* SPDX-License-Identifier: Apache-2.0 */
/* Integer expressions in a normal form: sums of products of atoms, where an atom is a symbol or a
 * quotient, remainder, maximum or minimum. Equal contents get equal ids (hash-consing), so shapes
 * are compared as ints. Sizes are bounded: what would grow past a few dozen terms becomes "not
 * known", which every user must handle anyway. */
#include <string.h>

#include "base/hash.h"
#include "graph/graph.h"

enum { MAX_ARGS = 24, MAX_SIZE = 512, MAX_NODES = 1 << 20 };

typedef struct expr_arg {
  wf_expr e;
  int64_t k; /* coefficient in a sum; power in a product */
} expr_arg;

typedef struct expr_node {
  wf_expr_kind kind;
  int32_t n_args;
  int32_t size;  /* nodes of the expression written out as a tree; bounds every recursion */
  int64_t value; /* CONST; the constant of a SUM */
  uint64_t hash;
  const expr_arg *args;
  wf_str name; /* SYMBOL */
} expr_node;

struct wf_expr_pool {
  wf_arena *arena;
  WF_VEC(expr_node) nodes;
  int32_t *table; /* open addressing, -1 empty */
  size_t table_n; /* power of two */
};

/* A sum under construction. */
typedef struct sum {
  int64_t constant;
  size_t n;
  expr_arg terms[MAX_ARGS];
  bool failed;
} sum;

wf_expr_pool *wf_expr_pool_create(void) {
  wf_expr_pool *p = wf_zalloc(sizeof *p);
  if (!p) return NULL;
  p->arena = wf_arena_create();
  p->table_n = 256;
  p->table = wf_alloc(p->table_n * sizeof *p->table);
  if (!p->arena || !p->table) {
    wf_expr_pool_destroy(p);
    return NULL;
  }
  for (size_t i = 0; i < p->table_n; i++) p->table[i] = -1;
  return p;
}

void wf_expr_pool_destroy(wf_expr_pool *p) {
  if (!p) return;
  wf_arena_destroy(p->arena);
  wf_vec_free(&p->nodes);
  wf_free(p->table);
  wf_free(p);
}

static const expr_node *node(const wf_expr_pool *p, wf_expr e) { return &p->nodes.at[e]; }

static bool is_known(const wf_expr_pool *p, wf_expr e) { return e >= 0 && (size_t)e < p->nodes.n; }

/* ---- interning --------------------------------------------------------------------------- */

static uint64_t hash_of(const expr_node *n) {
  uint64_t h = wf_hash_mix((uint64_t)n->kind * 31 + (uint64_t)n->value);
  for (int32_t i = 0; i < n->n_args; i++) {
    h = wf_hash_mix(h ^ (uint64_t)n->args[i].e);
    h = wf_hash_mix(h + (uint64_t)n->args[i].k);
  }
  return n->kind == WF_EXPR_SYMBOL ? wf_hash_bytes(h, n->name.at, n->name.n) : h;
}

static bool same(const expr_node *a, const expr_node *b) {
  if (a->hash != b->hash || a->kind != b->kind || a->value != b->value || a->n_args != b->n_args) {
    return false;
  }
  for (int32_t i = 0; i < a->n_args; i++) {
    if (a->args[i].e != b->args[i].e || a->args[i].k != b->args[i].k) return false;
  }
  return a->kind != WF_EXPR_SYMBOL || wf_str_eq(a->name, b->name);
}

static bool grow_table(wf_expr_pool *p) {
  const size_t n = p->table_n * 2;
  int32_t *table = wf_alloc(n * sizeof *table);
  if (!table) return false;
  for (size_t i = 0; i < n; i++) table[i] = -1;
  for (size_t i = 0; i < p->nodes.n; i++) {
    size_t at = p->nodes.at[i].hash & (n - 1);
    while (table[at] >= 0) at = (at + 1) & (n - 1);
    table[at] = (int32_t)i;
  }
  wf_free(p->table);
  p->table = table;
  p->table_n = n;
  return true;
}

static wf_expr intern(wf_expr_pool *p, expr_node n) {
  n.hash = hash_of(&n);
  size_t at = n.hash & (p->table_n - 1);
  for (; p->table[at] >= 0; at = (at + 1) & (p->table_n - 1)) {
    if (same(node(p, p->table[at]), &n)) return p->table[at];
  }
  if (p->nodes.n >= MAX_NODES) return WF_EXPR_NONE;
  n.size = 1;
  for (int32_t i = 0; i < n.n_args; i++) n.size += node(p, n.args[i].e)->size;
  if (n.size > MAX_SIZE) return WF_EXPR_NONE;
  if (n.n_args) {
    expr_arg *args = wf_arena_calloc(p->arena, (size_t)n.n_args, sizeof *args);
    if (!args) return WF_EXPR_NONE;
    memcpy(args, n.args, (size_t)n.n_args * sizeof *args);
    n.args = args;
  }
  if (n.kind == WF_EXPR_SYMBOL) {
    const char *name = wf_arena_strndup(p->arena, n.name.at, n.name.n);
    if (!name) return WF_EXPR_NONE;
    n.name.at = name;
  }
  if (!wf_vec_push(&p->nodes, n)) return WF_EXPR_NONE;
  const wf_expr id = (wf_expr)(p->nodes.n - 1);
  p->table[at] = id;
  if (p->nodes.n * 2 > p->table_n && !grow_table(p) && p->nodes.n + 1 >= p->table_n) {
    p->nodes.n--; /* the table must keep an empty slot */
    p->table[at] = -1;
    return WF_EXPR_NONE;
  }
  return id;
}

wf_expr wf_expr_const(wf_expr_pool *p, int64_t v) {
  return intern(p, (expr_node){.kind = WF_EXPR_CONST, .value = v});
}

wf_expr wf_expr_symbol(wf_expr_pool *p, wf_str name) {
  return intern(p, (expr_node){.kind = WF_EXPR_SYMBOL, .name = name});
}

/* ---- sums -------------------------------------------------------------------------------- */

static bool mul_i64(int64_t a, int64_t b, int64_t *r) { return !__builtin_mul_overflow(a, b, r); }
static bool add_i64(int64_t a, int64_t b, int64_t *r) { return !__builtin_add_overflow(a, b, r); }

/* Adds k * atom, keeping the terms sorted by id. */
static void sum_term(sum *s, wf_expr e, int64_t k) {
  size_t at = 0;
  while (at < s->n && s->terms[at].e < e) at++;
  if (at < s->n && s->terms[at].e == e) {
    if (!add_i64(s->terms[at].k, k, &s->terms[at].k)) s->failed = true;
    if (s->terms[at].k == 0) {
      memmove(&s->terms[at], &s->terms[at + 1], (s->n - at - 1) * sizeof s->terms[0]);
      s->n--;
    }
    return;
  }
  if (k == 0) return;
  if (s->n == MAX_ARGS) {
    s->failed = true;
    return;
  }
  memmove(&s->terms[at + 1], &s->terms[at], (s->n - at) * sizeof s->terms[0]);
  s->terms[at] = (expr_arg){e, k};
  s->n++;
}

/* Adds k * e, whatever e is. */
static void sum_add(const wf_expr_pool *p, sum *s, wf_expr e, int64_t k) {
  if (!is_known(p, e)) {
    s->failed = true;
    return;
  }
  const expr_node *n = node(p, e);
  int64_t v;
  if (n->kind == WF_EXPR_CONST || n->kind == WF_EXPR_SUM) {
    if (!mul_i64(n->value, k, &v) || !add_i64(s->constant, v, &s->constant)) s->failed = true;
    for (int32_t i = 0; i < n->n_args; i++) {
      if (!mul_i64(n->args[i].k, k, &v))
        s->failed = true;
      else
        sum_term(s, n->args[i].e, v);
    }
  } else {
    sum_term(s, e, k);
  }
}

static wf_expr sum_finish(wf_expr_pool *p, const sum *s) {
  if (s->failed) return WF_EXPR_NONE;
  if (s->n == 0) return wf_expr_const(p, s->constant);
  if (s->n == 1 && s->constant == 0 && s->terms[0].k == 1) return s->terms[0].e;
  return intern(
      p, (expr_node){
             .kind = WF_EXPR_SUM, .value = s->constant, .n_args = (int32_t)s->n, .args = s->terms});
}

wf_expr wf_expr_add(wf_expr_pool *p, wf_expr a, wf_expr b) {
  sum s = {0};
  sum_add(p, &s, a, 1);
  sum_add(p, &s, b, 1);
  return sum_finish(p, &s);
}

wf_expr wf_expr_sub(wf_expr_pool *p, wf_expr a, wf_expr b) {
  sum s = {0};
  sum_add(p, &s, a, 1);
  sum_add(p, &s, b, -1);
  return sum_finish(p, &s);
}

/* ---- products ---------------------------------------------------------------------------- */

/* The factors of an atom: itself, or those of a product. */
static const expr_arg *factors_of(const wf_expr_pool *p, const wf_expr *e, expr_arg *single,
                                  int32_t *n) {
  const expr_node *x = node(p, *e);
  if (x->kind == WF_EXPR_PRODUCT) {
    *n = x->n_args;
    return x->args;
  }
  *single = (expr_arg){*e, 1};
  *n = 1;
  return single;
}

/* A product of factors with powers; entries of power 0 are left out. */
static wf_expr product_finish(wf_expr_pool *p, const expr_arg *factors, size_t n) {
  expr_arg kept[MAX_ARGS];
  size_t n_kept = 0;
  for (size_t i = 0; i < n; i++) {
    if (factors[i].k != 0) kept[n_kept++] = factors[i];
  }
  if (n_kept == 0) return wf_expr_const(p, 1);
  if (n_kept == 1 && kept[0].k == 1) return kept[0].e;
  return intern(p, (expr_node){.kind = WF_EXPR_PRODUCT, .n_args = (int32_t)n_kept, .args = kept});
}

static wf_expr mul_atoms(wf_expr_pool *p, wf_expr a, wf_expr b) {
  expr_arg sa, sb, out[MAX_ARGS];
  int32_t na, nb, i = 0, j = 0;
  const expr_arg *fa = factors_of(p, &a, &sa, &na), *fb = factors_of(p, &b, &sb, &nb);
  size_t n = 0;
  while (i < na || j < nb) {
    if (n == MAX_ARGS) return WF_EXPR_NONE;
    if (j == nb || (i < na && fa[i].e < fb[j].e)) {
      out[n++] = fa[i++];
    } else if (i == na || fb[j].e < fa[i].e) {
      out[n++] = fb[j++];
    } else {
      out[n].e = fa[i].e;
      out[n++].k = fa[i++].k + fb[j++].k;
    }
    if (out[n - 1].k > 16) return WF_EXPR_NONE;
  }
  return product_finish(p, out, n);
}

/* Calls every expression a list of terms over a constant: a plain atom is one term. */
static void as_sum(const wf_expr_pool *p, wf_expr e, sum *s) {
  *s = (sum){0};
  sum_add(p, s, e, 1);
}

wf_expr wf_expr_mul(wf_expr_pool *p, wf_expr a, wf_expr b) {
  if (!is_known(p, a) || !is_known(p, b)) return WF_EXPR_NONE;
  sum x, y, r = {0};
  as_sum(p, a, &x);
  as_sum(p, b, &y);
  if (x.failed || y.failed || (x.n + 1) * (y.n + 1) > 256) return WF_EXPR_NONE;
  if (!mul_i64(x.constant, y.constant, &r.constant)) return WF_EXPR_NONE;
  for (size_t i = 0; i < x.n; i++) {
    int64_t k;
    if (!mul_i64(x.terms[i].k, y.constant, &k)) return WF_EXPR_NONE;
    sum_term(&r, x.terms[i].e, k);
    for (size_t j = 0; j < y.n; j++) {
      if (!mul_i64(x.terms[i].k, y.terms[j].k, &k)) return WF_EXPR_NONE;
      const wf_expr e = mul_atoms(p, x.terms[i].e, y.terms[j].e);
      if (e < 0) return WF_EXPR_NONE;
      sum_add(p, &r, e, k);
    }
  }
  for (size_t j = 0; j < y.n; j++) {
    int64_t k;
    if (!mul_i64(y.terms[j].k, x.constant, &k)) return WF_EXPR_NONE;
    sum_term(&r, y.terms[j].e, k);
  }
  return sum_finish(p, &r);
}

/* ---- quotients --------------------------------------------------------------------------- */

/* atom a / atom b when all of b's factors are among a's; NONE otherwise. */
static wf_expr div_atoms(wf_expr_pool *p, wf_expr a, wf_expr b) {
  expr_arg sa, sb, out[MAX_ARGS];
  int32_t na, nb;
  const expr_arg *fa = factors_of(p, &a, &sa, &na), *fb = factors_of(p, &b, &sb, &nb);
  memcpy(out, fa, (size_t)na * sizeof *out);
  for (int32_t j = 0; j < nb; j++) {
    int32_t i = 0;
    while (i < na && out[i].e != fb[j].e) i++;
    if (i == na || out[i].k < fb[j].k) return WF_EXPR_NONE;
    out[i].k -= fb[j].k;
  }
  return product_finish(p, out, (size_t)na);
}

static wf_expr div_by_const(wf_expr_pool *p, wf_expr a, int64_t d) {
  sum s;
  as_sum(p, a, &s);
  if (d == 0 || s.failed || s.constant % d != 0) return WF_EXPR_NONE;
  s.constant /= d;
  for (size_t i = 0; i < s.n; i++) {
    if (s.terms[i].k % d != 0) return WF_EXPR_NONE;
    s.terms[i].k /= d;
  }
  return sum_finish(p, &s);
}

wf_expr wf_expr_exact_div(wf_expr_pool *p, wf_expr a, wf_expr b) {
  int64_t d;
  if (!is_known(p, a) || !is_known(p, b)) return WF_EXPR_NONE;
  if (wf_expr_is_const(p, b, &d)) return d > 0 ? div_by_const(p, a, d) : WF_EXPR_NONE;
  wf_expr quotient = wf_expr_const(p, 0);
  /* Long division by b's first term; a few steps cover what shapes do. */
  for (int step = 0; step < 8; step++) {
    sum x, y;
    as_sum(p, a, &x);
    as_sum(p, b, &y);
    if (x.failed || y.failed) return WF_EXPR_NONE;
    if (x.n == 0) return x.constant == 0 ? quotient : WF_EXPR_NONE;
    wf_expr q = WF_EXPR_NONE;
    for (size_t i = 0; i < x.n && q < 0; i++) {
      if (x.terms[i].k == INT64_MIN || x.terms[i].k % y.terms[0].k != 0) continue;
      const wf_expr e = div_atoms(p, x.terms[i].e, y.terms[0].e);
      if (e >= 0) q = wf_expr_mul(p, e, wf_expr_const(p, x.terms[i].k / y.terms[0].k));
    }
    quotient = wf_expr_add(p, quotient, q);
    a = wf_expr_sub(p, a, wf_expr_mul(p, q, b));
    if (a < 0 || quotient < 0) return WF_EXPR_NONE;
  }
  return WF_EXPR_NONE;
}

static int64_t floor_div(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static wf_expr binary(wf_expr_pool *p, wf_expr_kind kind, wf_expr a, wf_expr b) {
  const expr_arg args[2] = {{a, 1}, {b, 1}};
  return intern(p, (expr_node){.kind = kind, .n_args = 2, .args = args});
}

wf_expr wf_expr_floordiv(wf_expr_pool *p, wf_expr a, wf_expr b) {
  int64_t x, y;
  if (!is_known(p, a) || !is_known(p, b)) return WF_EXPR_NONE;
  const bool b_const = wf_expr_is_const(p, b, &y);
  if (b_const && y == 0) return WF_EXPR_NONE;
  if (b_const && wf_expr_is_const(p, a, &x)) {
    return x == INT64_MIN && y == -1 ? WF_EXPR_NONE : wf_expr_const(p, floor_div(x, y));
  }
  const wf_expr exact = wf_expr_exact_div(p, a, b);
  return exact >= 0 ? exact : binary(p, WF_EXPR_FLOORDIV, a, b);
}

wf_expr wf_expr_mod(wf_expr_pool *p, wf_expr a, wf_expr b) {
  int64_t x, y;
  if (!is_known(p, a) || !is_known(p, b)) return WF_EXPR_NONE;
  const bool b_const = wf_expr_is_const(p, b, &y);
  if (b_const && y == 0) return WF_EXPR_NONE;
  if (b_const && wf_expr_is_const(p, a, &x)) {
    return y == -1 ? wf_expr_const(p, 0) : wf_expr_const(p, x - y * floor_div(x, y));
  }
  return wf_expr_exact_div(p, a, b) >= 0 ? wf_expr_const(p, 0) : binary(p, WF_EXPR_MOD, a, b);
}

bool wf_expr_is_nonnegative(const wf_expr_pool *p, wf_expr e) {
  if (!is_known(p, e)) return false;
  const expr_node *n = node(p, e);
  switch (n->kind) {
    case WF_EXPR_CONST:
      return n->value >= 0;
    case WF_EXPR_SYMBOL:
      return true;
    case WF_EXPR_SUM:
      if (n->value < 0) return false;
      for (int32_t i = 0; i < n->n_args; i++) {
        if (n->args[i].k < 0 || !wf_expr_is_nonnegative(p, n->args[i].e)) return false;
      }
      return true;
    case WF_EXPR_MAX:
      return wf_expr_is_nonnegative(p, n->args[0].e) || wf_expr_is_nonnegative(p, n->args[1].e);
    case WF_EXPR_PRODUCT:
    case WF_EXPR_FLOORDIV:
    case WF_EXPR_MOD:
    case WF_EXPR_MIN:
      for (int32_t i = 0; i < n->n_args; i++) {
        if (!wf_expr_is_nonnegative(p, n->args[i].e)) return false;
      }
      return true;
  }
  return false;
}

static wf_expr extreme(wf_expr_pool *p, wf_expr_kind kind, wf_expr a, wf_expr b) {
  if (!is_known(p, a) || !is_known(p, b)) return WF_EXPR_NONE;
  if (a == b) return a;
  const bool wants_max = kind == WF_EXPR_MAX;
  if (wf_expr_is_nonnegative(p, wf_expr_sub(p, a, b))) return wants_max ? a : b;
  if (wf_expr_is_nonnegative(p, wf_expr_sub(p, b, a))) return wants_max ? b : a;
  return a < b ? binary(p, kind, a, b) : binary(p, kind, b, a);
}

wf_expr wf_expr_max(wf_expr_pool *p, wf_expr a, wf_expr b) { return extreme(p, WF_EXPR_MAX, a, b); }

wf_expr wf_expr_min(wf_expr_pool *p, wf_expr a, wf_expr b) { return extreme(p, WF_EXPR_MIN, a, b); }

/* ---- looking ----------------------------------------------------------------------------- */

wf_expr_kind wf_expr_kind_of(const wf_expr_pool *p, wf_expr e) {
  return is_known(p, e) ? node(p, e)->kind : WF_EXPR_CONST;
}

bool wf_expr_is_const(const wf_expr_pool *p, wf_expr e, int64_t *v) {
  if (!is_known(p, e) || node(p, e)->kind != WF_EXPR_CONST) return false;
  *v = node(p, e)->value;
  return true;
}

wf_str wf_expr_symbol_name(const wf_expr_pool *p, wf_expr e) {
  return is_known(p, e) ? node(p, e)->name : (wf_str){0};
}

bool wf_expr_uses(const wf_expr_pool *p, wf_expr e, wf_expr symbol) {
  if (!is_known(p, e)) return false;
  if (e == symbol) return true;
  const expr_node *n = node(p, e);
  for (int32_t i = 0; i < n->n_args; i++) {
    if (wf_expr_uses(p, n->args[i].e, symbol)) return true;
  }
  return false;
}

static wf_expr power(wf_expr_pool *p, wf_expr e, int64_t k) {
  wf_expr r = e;
  for (int64_t i = 1; i < k; i++) r = wf_expr_mul(p, r, e);
  return r;
}

wf_expr wf_expr_replace(wf_expr_pool *p, wf_expr e, wf_expr symbol, wf_expr by) {
  if (e == symbol) return by;
  if (!wf_expr_uses(p, e, symbol)) return e;
  const expr_node n = *node(p, e); /* a copy: the list moves when it grows */
  const wf_expr a = wf_expr_replace(p, n.args[0].e, symbol, by);
  switch (n.kind) {
    case WF_EXPR_SUM: {
      wf_expr r = wf_expr_const(p, n.value);
      for (int32_t i = 0; i < n.n_args; i++) {
        const wf_expr t = wf_expr_replace(p, n.args[i].e, symbol, by);
        r = wf_expr_add(p, r, wf_expr_mul(p, t, wf_expr_const(p, n.args[i].k)));
      }
      return r;
    }
    case WF_EXPR_PRODUCT: {
      wf_expr r = wf_expr_const(p, 1);
      for (int32_t i = 0; i < n.n_args; i++) {
        const wf_expr t = wf_expr_replace(p, n.args[i].e, symbol, by);
        r = wf_expr_mul(p, r, power(p, t, n.args[i].k));
      }
      return r;
    }
    case WF_EXPR_FLOORDIV:
      return wf_expr_floordiv(p, a, wf_expr_replace(p, n.args[1].e, symbol, by));
    case WF_EXPR_MOD:
      return wf_expr_mod(p, a, wf_expr_replace(p, n.args[1].e, symbol, by));
    case WF_EXPR_MAX:
      return wf_expr_max(p, a, wf_expr_replace(p, n.args[1].e, symbol, by));
    case WF_EXPR_MIN:
      return wf_expr_min(p, a, wf_expr_replace(p, n.args[1].e, symbol, by));
    case WF_EXPR_CONST:
    case WF_EXPR_SYMBOL:
      break;
  }
  return e;
}

static void print_factor(const wf_expr_pool *p, wf_expr e, wf_buf *b) {
  const bool needs = wf_expr_kind_of(p, e) == WF_EXPR_SUM;
  if (needs) wf_buf_putc(b, '(');
  wf_expr_print(p, e, b);
  if (needs) wf_buf_putc(b, ')');
}

void wf_expr_print(const wf_expr_pool *p, wf_expr e, wf_buf *b) {
  if (!is_known(p, e)) {
    wf_buf_putc(b, '?');
    return;
  }
  const expr_node *n = node(p, e);
  switch (n->kind) {
    case WF_EXPR_CONST:
      wf_buf_printf(b, "%lld", (long long)n->value);
      return;
    case WF_EXPR_SYMBOL:
      wf_buf_add_str(b, n->name);
      return;
    case WF_EXPR_SUM:
      for (int32_t i = 0; i < n->n_args; i++) {
        if (i) wf_buf_puts(b, " + ");
        if (n->args[i].k != 1) wf_buf_printf(b, "%lld*", (long long)n->args[i].k);
        print_factor(p, n->args[i].e, b);
      }
      if (n->value) wf_buf_printf(b, " + %lld", (long long)n->value);
      return;
    case WF_EXPR_PRODUCT:
      for (int32_t i = 0; i < n->n_args; i++) {
        for (int64_t k = 0; k < n->args[i].k; k++) {
          if (i || k) wf_buf_putc(b, '*');
          print_factor(p, n->args[i].e, b);
        }
      }
      return;
    case WF_EXPR_FLOORDIV:
    case WF_EXPR_MOD:
      print_factor(p, n->args[0].e, b);
      wf_buf_puts(b, n->kind == WF_EXPR_MOD ? " % " : "//");
      print_factor(p, n->args[1].e, b);
      return;
    case WF_EXPR_MAX:
    case WF_EXPR_MIN:
      wf_buf_puts(b, n->kind == WF_EXPR_MAX ? "max(" : "min(");
      wf_expr_print(p, n->args[0].e, b);
      wf_buf_puts(b, ", ");
      wf_expr_print(p, n->args[1].e, b);
      wf_buf_putc(b, ')');
      return;
  }
}

/* ---- evaluating -------------------------------------------------------------------------- */

typedef struct evaluation {
  const wf_expr_pool *p;
  const wf_binding *bindings;
  size_t n_bindings;
  weft_error *err;
} evaluation;

static weft_status overflow(const evaluation *v) {
  return wf_fail(v->err, WEFT_LIMIT, "use a smaller batch or shorter input",
                 "a size computed from the shapes does not fit 64 bits");
}

static weft_status eval(const evaluation *v, wf_expr e, int64_t *r);

static weft_status eval_sum(const evaluation *v, const expr_node *n, int64_t *r) {
  int64_t total = n->value;
  for (int32_t i = 0; i < n->n_args; i++) {
    int64_t t;
    WF_RETURN_IF_ERROR(eval(v, n->args[i].e, &t));
    if (!mul_i64(t, n->args[i].k, &t) || !add_i64(total, t, &total)) return overflow(v);
  }
  *r = total;
  return WEFT_OK;
}

static weft_status eval_product(const evaluation *v, const expr_node *n, int64_t *r) {
  int64_t total = 1;
  for (int32_t i = 0; i < n->n_args; i++) {
    int64_t t;
    WF_RETURN_IF_ERROR(eval(v, n->args[i].e, &t));
    for (int64_t k = 0; k < n->args[i].k; k++) {
      if (!mul_i64(total, t, &total)) return overflow(v);
    }
  }
  *r = total;
  return WEFT_OK;
}

static weft_status eval_binary(const evaluation *v, const expr_node *n, int64_t *r) {
  int64_t a, b;
  WF_RETURN_IF_ERROR(eval(v, n->args[0].e, &a));
  WF_RETURN_IF_ERROR(eval(v, n->args[1].e, &b));
  if (n->kind == WF_EXPR_MAX || n->kind == WF_EXPR_MIN) {
    *r = (a > b) == (n->kind == WF_EXPR_MAX) ? a : b;
    return WEFT_OK;
  }
  if (b == 0) {
    return wf_fail(v->err, WEFT_INVALID_ARGUMENT, "", "a shape divides by a dimension that is 0");
  }
  if (a == INT64_MIN && b == -1) return overflow(v);
  const int64_t q = floor_div(a, b);
  *r = n->kind == WF_EXPR_FLOORDIV ? q : a - q * b;
  return WEFT_OK;
}

static weft_status eval(const evaluation *v, wf_expr e, int64_t *r) {
  if (!is_known(v->p, e)) {
    return wf_fail(v->err, WEFT_INVALID_ARGUMENT, "", "a dimension is not known before it is run");
  }
  const expr_node *n = node(v->p, e);
  switch (n->kind) {
    case WF_EXPR_CONST:
      *r = n->value;
      return WEFT_OK;
    case WF_EXPR_SYMBOL:
      for (size_t i = 0; i < v->n_bindings; i++) {
        if (v->bindings[i].symbol == e) {
          *r = v->bindings[i].value;
          return WEFT_OK;
        }
      }
      return wf_fail(v->err, WEFT_INVALID_ARGUMENT, "give every symbolic dimension a value",
                     "the dimension '%.*s' has no value", (int)(n->name.n < 100 ? n->name.n : 100),
                     n->name.at);
    case WF_EXPR_SUM:
      return eval_sum(v, n, r);
    case WF_EXPR_PRODUCT:
      return eval_product(v, n, r);
    case WF_EXPR_FLOORDIV:
    case WF_EXPR_MOD:
    case WF_EXPR_MAX:
    case WF_EXPR_MIN:
      return eval_binary(v, n, r);
  }
  return overflow(v);
}

weft_status wf_expr_eval(const wf_expr_pool *p, wf_expr e, const wf_binding *bindings,
                         size_t n_bindings, int64_t *result, weft_error *err) {
  const evaluation v = {p, bindings, n_bindings, err};
  return eval(&v, e, result);
}
