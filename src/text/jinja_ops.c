/* SPDX-License-Identifier: Apache-2.0 */
/* Operators, comparison and subscripts with Python's meaning. */
#include <math.h>

#include "base/utf8.h"
#include "text/jinja.h"

bool wf_jj_truth(jj_run *run, const jj_val *v, bool *truth) {
  switch (v->kind) {
    case JJ_MISSING:
    case JJ_UNDEFINED:
    case JJ_NONE:
      *truth = false;
      return true;
    case JJ_BOOL:
      *truth = v->u.b;
      return true;
    case JJ_INT:
      *truth = v->u.i != 0;
      return true;
    case JJ_FLOAT:
      *truth = v->u.f != 0;
      return true;
    case JJ_STR:
      *truth = v->u.s->n != 0;
      return true;
    case JJ_LIST:
    case JJ_TUPLE:
    case JJ_DICT:
    case JJ_RANGE:
    case JJ_VIEW:
    case JJ_LOOP: {
      const int64_t n = wf_jj_length(run, v);
      *truth = n > 0;
      return n != -1;
    }
    case JJ_NAMESPACE:
    case JJ_ITER:
    case JJ_MACRO:
    case JJ_FUNCTION:
    case JJ_METHOD:
    case JJ_CYCLER:
    case JJ_JOINER:
      break;
  }
  *truth = true;
  return true;
}

static int64_t as_int(const jj_val *v) { return v->kind == JJ_BOOL ? v->u.b : v->u.i; }
static double as_float(const jj_val *v) { return v->kind == JJ_FLOAT ? v->u.f : (double)as_int(v); }
static bool is_int(const jj_val *v) { return v->kind == JJ_INT || v->kind == JJ_BOOL; }

/* -1, 0, 1, or 2 when a NaN is among them. Exact also where a double cannot hold the integer. */
static int number_order(const jj_val *a, const jj_val *b) {
  if (is_int(a) && is_int(b)) return (as_int(a) > as_int(b)) - (as_int(a) < as_int(b));
  const double x = as_float(a), y = as_float(b);
  if (isnan(x) || isnan(y)) return 2;
  if (x != y || (a->kind == JJ_FLOAT && b->kind == JJ_FLOAT)) return (x > y) - (x < y);
  if (!(fabs(x) < 9.2e18)) return 0;
  const int64_t i = a->kind == JJ_FLOAT ? (int64_t)x : as_int(a);
  const int64_t j = b->kind == JJ_FLOAT ? (int64_t)y : as_int(b);
  return (i > j) - (i < j);
}

static int enter(jj_run *run) {
  if (++run->depth <= JJ_DEPTH_LIMIT && wf_jj_charge(run, 1)) return 1;
  run->depth--;
  wf_jj_raise(run, "values are nested too deep to be compared");
  return 0;
}

static int equal_lists(jj_run *run, const jj_list *a, const jj_list *b) {
  if (a->n != b->n) return 0;
  if (a == b) return 1;
  if (!enter(run)) return -1;
  int eq = 1;
  for (size_t i = 0; i < a->n && eq == 1; i++) eq = wf_jj_equal(run, &a->at[i], &b->at[i]);
  run->depth--;
  return eq;
}

static int equal_dicts(jj_run *run, const jj_dict *a, const jj_dict *b) {
  if (a->n != b->n) return 0;
  if (a == b) return 1;
  if (!enter(run)) return -1;
  int eq = 1;
  for (size_t i = 0; i < a->n && eq == 1; i++) {
    jj_val other;
    eq = wf_jj_dict_get(run, b, &a->keys[i], &other);
    if (eq == 1) eq = wf_jj_equal(run, &a->values[i], &other);
  }
  run->depth--;
  return eq;
}

int wf_jj_equal(jj_run *run, const jj_val *a, const jj_val *b) {
  if (wf_jj_is_number(a) && wf_jj_is_number(b)) return number_order(a, b) == 0;
  if (a->kind != b->kind) return 0;
  if (a->kind == JJ_STR) {
    if (a->u.s->n != b->u.s->n) return 0;
    const jj_str *x = wf_jj_flat(run, a->u.s), *y = wf_jj_flat(run, b->u.s);
    if (!x || !y || !wf_jj_charge(run, x->n / 256)) return -1;
    return memcmp(x->at, y->at, x->n) == 0;
  }
  if (a->kind == JJ_NONE || a->kind == JJ_UNDEFINED || a->kind == JJ_MISSING) return 1;
  if (a->kind == JJ_LIST || a->kind == JJ_TUPLE) return equal_lists(run, a->u.l, b->u.l);
  if (a->kind == JJ_DICT) return equal_dicts(run, a->u.d, b->u.d);
  if (a->kind == JJ_RANGE) {
    const jj_range *x = a->u.range, *y = b->u.range;
    return x->n == y->n &&
           (x->n == 0 || (x->start == y->start && (x->n == 1 || x->step == y->step)));
  }
  return a->u.d == b->u.d; /* by identity */
}

static const char *op_text(jj_op op) {
  static const char *const text[] = {"+",  "-", "*",  "/", "//", "%",  "** or pow()", "==",
                                     "!=", "<", "<=", ">", ">=", "in", "not in"};
  return text[op];
}

static bool order_holds(jj_op op, int order) {
  return order != 2 && (op == JJ_OP_LT   ? order < 0
                        : op == JJ_OP_LE ? order <= 0
                        : op == JJ_OP_GT ? order > 0
                                         : order >= 0);
}

bool wf_jj_less(jj_run *run, jj_op op, const jj_val *a, const jj_val *b, bool *result) {
  if (wf_jj_is_number(a) && wf_jj_is_number(b)) {
    *result = order_holds(op, number_order(a, b));
    return true;
  }
  if (a->kind == JJ_UNDEFINED || b->kind == JJ_UNDEFINED) {
    return wf_jj_raise_undefined(run, a->kind == JJ_UNDEFINED ? a : b);
  }
  if (a->kind == JJ_STR && b->kind == JJ_STR) {
    const jj_str *x = wf_jj_flat(run, a->u.s), *y = wf_jj_flat(run, b->u.s);
    if (!x || !y) return false;
    const size_t n = x->n < y->n ? x->n : y->n;
    int order = n ? memcmp(x->at, y->at, n) : 0; /* UTF-8 sorts as its characters do */
    order = (order > 0) - (order < 0);           /* memcmp's 2 must not look like "unordered" */
    if (order == 0) order = (x->n > y->n) - (x->n < y->n);
    *result = order_holds(op, order);
    return wf_jj_charge(run, n / 256);
  }
  if (a->kind == b->kind && (a->kind == JJ_LIST || a->kind == JJ_TUPLE)) {
    const jj_list *x = a->u.l, *y = b->u.l;
    if (!enter(run)) return false;
    bool ok = true, decided = false;
    for (size_t i = 0; i < x->n && i < y->n && ok && !decided; i++) {
      const int eq = wf_jj_equal(run, &x->at[i], &y->at[i]);
      ok = eq >= 0;
      if (eq == 0) {
        decided = true;
        ok = wf_jj_less(run, op, &x->at[i], &y->at[i], result);
      }
    }
    run->depth--;
    if (ok && !decided) *result = order_holds(op, (x->n > y->n) - (x->n < y->n));
    return ok;
  }
  return wf_jj_raise(run, "'%s' not supported between instances of '%s' and '%s'", op_text(op),
                     wf_jj_type(a), wf_jj_type(b));
}

bool wf_jj_contains(jj_run *run, const jj_val *seq, const jj_val *item, bool *result) {
  *result = false;
  if (seq->kind == JJ_STR) {
    if (item->kind == JJ_UNDEFINED) {
      return wf_jj_raise(run, "'in <string>' requires string as left operand, not Undefined");
    }
    if (item->kind != JJ_STR) {
      return wf_jj_raise(run, "'in <string>' requires string as left operand, not %s",
                         wf_jj_type(item));
    }
    const jj_str *s = wf_jj_flat(run, seq->u.s), *x = wf_jj_flat(run, item->u.s);
    if (!s || !x || !wf_jj_charge(run, s->n / 32)) return false;
    *result = wf_str_find((wf_str){s->at, s->n}, (wf_str){x->at, x->n}, 0) != SIZE_MAX;
    return true;
  }
  if (seq->kind == JJ_DICT || (seq->kind == JJ_VIEW && seq->u.view->kind == 'k')) {
    jj_val value;
    const jj_dict *d = seq->kind == JJ_DICT ? seq->u.d : seq->u.view->dict;
    const int got = wf_jj_dict_get(run, d, item, &value);
    *result = got == 1;
    return got >= 0;
  }
  if (!wf_jj_iterable(seq)) {
    return wf_jj_raise(run, "argument of type '%s' is not iterable", wf_jj_type(seq));
  }
  jj_iter it;
  jj_val each;
  if (!wf_jj_iter_open(run, seq, &it)) return false;
  for (int got; (got = wf_jj_iter_next(run, &it, &each)) != 0;) {
    const int eq = got < 0 ? -1 : wf_jj_equal(run, &each, item);
    if (eq) {
      *result = true;
      return eq > 0;
    }
  }
  return true;
}

bool wf_jj_compare(jj_run *run, jj_op op, const jj_val *a, const jj_val *b, bool *result) {
  if (op == JJ_OP_EQ || op == JJ_OP_NE) {
    const int eq = wf_jj_equal(run, a, b);
    *result = (eq == 1) == (op == JJ_OP_EQ);
    return eq >= 0;
  }
  if (op == JJ_OP_IN || op == JJ_OP_NOTIN) {
    if (!wf_jj_contains(run, b, a, result)) return false;
    *result = *result == (op == JJ_OP_IN);
    return true;
  }
  return wf_jj_less(run, op, a, b, result);
}

/* -- arithmetic -- */

static bool overflow(jj_run *run) {
  return wf_jj_raise(run, "the integer result does not fit in 64 bits");
}

static bool int_power(jj_run *run, int64_t base, int64_t exponent, jj_val *result) {
  int64_t r = 1;
  bool over = false;
  if (exponent < 0) {
    if (base == 0) return wf_jj_raise(run, "0.0 cannot be raised to a negative power");
    *result = wf_jj_float(pow((double)base, (double)exponent));
    return true;
  }
  if (base == 0 || base == 1 || exponent == 0) {
    *result = wf_jj_int(exponent == 0 ? 1 : base);
    return true;
  }
  if (base == -1) {
    *result = wf_jj_int(exponent % 2 ? -1 : 1);
    return true;
  }
  if (exponent > 63) return overflow(run);
  while (exponent-- > 0) over |= __builtin_mul_overflow(r, base, &r);
  *result = wf_jj_int(r);
  return !over || overflow(run);
}

static bool int_binary(jj_run *run, jj_op op, int64_t a, int64_t b, jj_val *result) {
  int64_t r = 0;
  bool over = false;
  if ((op == JJ_OP_DIV || op == JJ_OP_FLOORDIV || op == JJ_OP_MOD) && b == 0) {
    return wf_jj_raise(run,
                       op == JJ_OP_DIV ? "division by zero" : "integer division or modulo by zero");
  }
  if (op == JJ_OP_ADD) over = __builtin_add_overflow(a, b, &r);
  if (op == JJ_OP_SUB) over = __builtin_sub_overflow(a, b, &r);
  if (op == JJ_OP_MUL) over = __builtin_mul_overflow(a, b, &r);
  if (op == JJ_OP_POW) return int_power(run, a, b, result);
  if (op == JJ_OP_DIV) {
    *result = wf_jj_float((double)a / (double)b);
    return true;
  }
  if (op == JJ_OP_FLOORDIV || op == JJ_OP_MOD) {
    if (b == -1) { /* INT64_MIN / -1 traps */
      over = op == JJ_OP_FLOORDIV && a == INT64_MIN;
      r = op == JJ_OP_MOD || over ? 0 : -a;
    } else {
      int64_t q = a / b;
      if (a % b != 0 && (a % b < 0) != (b < 0)) q--;
      r = op == JJ_OP_FLOORDIV ? q : a - q * b;
    }
  }
  *result = wf_jj_int(r);
  return !over || overflow(run);
}

static bool float_binary(jj_run *run, jj_op op, double a, double b, jj_val *result) {
  double r = 0;
  if ((op == JJ_OP_DIV || op == JJ_OP_FLOORDIV || op == JJ_OP_MOD) && b == 0) {
    return wf_jj_raise(
        run, op == JJ_OP_DIV ? "float division by zero" : "float floor division or modulo by zero");
  }
  if (op == JJ_OP_ADD) r = a + b;
  if (op == JJ_OP_SUB) r = a - b;
  if (op == JJ_OP_MUL) r = a * b;
  if (op == JJ_OP_DIV) r = a / b;
  if (op == JJ_OP_FLOORDIV || op == JJ_OP_MOD) { /* as CPython's float_divmod */
    double mod = fmod(a, b), div = (a - mod) / b;
    if (mod != 0) {
      if ((b < 0) != (mod < 0)) {
        mod += b;
        div -= 1.0;
      }
    } else {
      mod = copysign(0.0, b);
    }
    double floordiv = copysign(0.0, a / b);
    if (div != 0) {
      floordiv = floor(div);
      if (div - floordiv > 0.5) floordiv += 1.0;
    }
    r = op == JJ_OP_MOD ? mod : floordiv;
  }
  if (op == JJ_OP_POW) {
    if (a == 0 && b < 0) return wf_jj_raise(run, "0.0 cannot be raised to a negative power");
    if (a < 0 && isfinite(a) && isfinite(b) && floor(b) != b) {
      return wf_jj_raise(run, "complex numbers are not supported");
    }
    r = pow(a, b);
    if (isinf(r) && isfinite(a) && isfinite(b)) {
      return wf_jj_raise(run, "Numerical result out of range");
    }
  }
  *result = wf_jj_float(r);
  return true;
}

static bool repeat(jj_run *run, const jj_val *seq, int64_t times, jj_val *result) {
  const size_t n = seq->kind == JJ_STR ? seq->u.s->n : seq->u.l->n;
  size_t total;
  if (times < 0) times = 0;
  if (!wf_size_mul(n, (size_t)times, &total) || total > run->heap.limit) {
    return wf_jj_raise(run, "a repetition that is too long");
  }
  if (seq->kind == JJ_STR) {
    jj_buf b = {0};
    const jj_str *s = wf_jj_flat(run, seq->u.s);
    if (!s) return false;
    for (int64_t i = 0; i < times && n; i++) {
      if (!wf_jj_charge(run, 1) || !wf_jj_buf_add_str(run, &b, s)) return false;
    }
    *result = wf_jj_buf_done(run, &b);
    return result->kind == JJ_STR;
  }
  jj_val *at = wf_jj_alloc(run, total, sizeof *at);
  if (!at || !wf_jj_charge(run, total)) return false;
  for (size_t i = 0; i < total; i++) at[i] = seq->u.l->at[i % n];
  *result = wf_jj_list(run, seq->kind, at, total);
  return result->kind != JJ_MISSING;
}

static bool add_lists(jj_run *run, const jj_val *a, const jj_val *b, jj_val *result) {
  const size_t n = a->u.l->n + b->u.l->n;
  jj_val *at = wf_jj_alloc(run, n, sizeof *at);
  if (!at || !wf_jj_charge(run, n / 8)) return false;
  if (a->u.l->n) memcpy(at, a->u.l->at, a->u.l->n * sizeof *at);
  if (b->u.l->n) memcpy(at + a->u.l->n, b->u.l->at, b->u.l->n * sizeof *at);
  *result = wf_jj_list(run, a->kind, at, n);
  return result->kind != JJ_MISSING;
}

/* Markup escapes what is joined to it. */
static bool add_strings(jj_run *run, const jj_val *a, const jj_val *b, jj_val *result) {
  jj_val x = *a, y = *b;
  const bool markup = a->u.s->markup || b->u.s->markup;
  if (markup && !a->u.s->markup && !wf_jj_escape(run, a, &x)) return false;
  if (markup && !b->u.s->markup && !wf_jj_escape(run, b, &y)) return false;
  if (!wf_jj_str_concat(run, x.u.s, y.u.s, result)) return false;
  if (markup) {
    jj_str *s = wf_jj_alloc(run, 1, sizeof *s);
    const jj_str *flat = wf_jj_flat(run, result->u.s);
    if (!s || !flat) return false;
    *s = *flat;
    s->markup = true;
    *result = wf_jj_str(s);
  }
  return true;
}

bool wf_jj_binary(jj_run *run, jj_op op, const jj_val *a, const jj_val *b, jj_val *result) {
  if (is_int(a) && is_int(b)) return int_binary(run, op, as_int(a), as_int(b), result);
  if (wf_jj_is_number(a) && wf_jj_is_number(b)) {
    return float_binary(run, op, as_float(a), as_float(b), result);
  }
  if (op == JJ_OP_MOD && a->kind == JJ_STR) return wf_jj_percent(run, a->u.s, b, result);
  if (a->kind == JJ_UNDEFINED || b->kind == JJ_UNDEFINED) {
    return wf_jj_raise_undefined(run, a->kind == JJ_UNDEFINED ? a : b);
  }
  const bool a_seq = a->kind == JJ_STR || a->kind == JJ_LIST || a->kind == JJ_TUPLE;
  const bool b_seq = b->kind == JJ_STR || b->kind == JJ_LIST || b->kind == JJ_TUPLE;
  if (op == JJ_OP_ADD && a_seq) {
    if (a->kind == JJ_STR && b->kind == JJ_STR) return add_strings(run, a, b, result);
    if (a->kind == b->kind) return add_lists(run, a, b, result);
    return wf_jj_raise(run, "can only concatenate %s (not \"%s\") to %s", wf_jj_type(a),
                       wf_jj_type(b), wf_jj_type(a));
  }
  if (op == JJ_OP_MUL && a_seq && is_int(b)) return repeat(run, a, as_int(b), result);
  if (op == JJ_OP_MUL && b_seq && is_int(a)) return repeat(run, b, as_int(a), result);
  return wf_jj_raise(run, "unsupported operand type(s) for %s: '%s' and '%s'", op_text(op),
                     wf_jj_type(a), wf_jj_type(b));
}

bool wf_jj_unary(jj_run *run, jj_op op, const jj_val *a, jj_val *result) {
  if (a->kind == JJ_UNDEFINED) return wf_jj_raise_undefined(run, a);
  if (a->kind == JJ_FLOAT) {
    *result = wf_jj_float(op == JJ_OP_SUB ? -a->u.f : a->u.f);
    return true;
  }
  if (!is_int(a)) {
    return wf_jj_raise(run, "bad operand type for unary %s: '%s'", op_text(op), wf_jj_type(a));
  }
  if (op == JJ_OP_SUB && as_int(a) == INT64_MIN) return overflow(run);
  *result = wf_jj_int(op == JJ_OP_SUB ? -as_int(a) : as_int(a));
  return true;
}

/* -- attributes and items -- */

static bool undefined_attr(jj_run *run, const jj_val *o, const jj_str *name, jj_val *result) {
  *result = wf_jj_undefined(run, name, o);
  return result->kind == JJ_UNDEFINED;
}

/* The attributes that objects of a kind have beside methods; *found false: none of that name. */
static bool own_attr(jj_run *run, const jj_val *o, const jj_str *name, jj_val *result,
                     bool *found) {
  const wf_str n = {name->at, name->n};
  *found = true;
  if (o->kind == JJ_NAMESPACE) {
    const jj_val *v = wf_jj_dict_find(o->u.d, name->at, name->n);
    *found = v != NULL;
    if (v) *result = *v;
    return true;
  }
  if (o->kind == JJ_LOOP) return wf_jj_loop_attr(run, o->u.loop, name, result, found);
  if (o->kind == JJ_TUPLE && o->u.l->grouper && (wf_str_is(n, "grouper") || wf_str_is(n, "list"))) {
    *result = o->u.l->at[wf_str_is(n, "list")];
    return true;
  }
  if (o->kind == JJ_CYCLER && wf_str_is(n, "current")) {
    *result = o->u.cycler->items->at[o->u.cycler->at];
    return true;
  }
  if (o->kind == JJ_MACRO && wf_str_is(n, "name")) {
    const jj_str *macro = o->u.macro->node->name;
    *result = macro ? wf_jj_str(macro) : wf_jj_none();
    return true;
  }
  if (o->kind == JJ_MACRO && wf_str_is(n, "arguments")) {
    const jj_nodes *args = &o->u.macro->node->list;
    jj_val *at = wf_jj_alloc(run, args->n, sizeof *at);
    if (!at) return false;
    for (size_t i = 0; i < args->n; i++) at[i] = wf_jj_str(args->at[i]->name);
    *result = wf_jj_list(run, JJ_TUPLE, at, args->n);
    return result->kind == JJ_TUPLE;
  }
  if (o->kind == JJ_MACRO &&
      (wf_str_is(n, "catch_kwargs") || wf_str_is(n, "catch_varargs") || wf_str_is(n, "caller"))) {
    const jj_node *m = o->u.macro->node;
    *result = wf_jj_bool(wf_str_is(n, "caller")         ? m->takes_caller
                         : wf_str_is(n, "catch_kwargs") ? m->takes_kwargs
                                                        : m->takes_varargs);
    return true;
  }
  *found = false;
  return true;
}

/* An attribute as Python's getattr() finds it, through the sandbox. */
static bool attribute(jj_run *run, const jj_val *o, const jj_str *name, jj_val *result,
                      bool *found) {
  bool is_unsafe = false;
  if (!own_attr(run, o, name, result, found)) return false;
  if (*found) return true;
  *found = wf_jj_method(run, o, name, result, &is_unsafe);
  if (run->status != WEFT_OK) return false;
  if (name->n > 4 && memcmp(name->at, "__", 2) == 0) is_unsafe = true;
  if (is_unsafe) {
    *found = true;
    *result = wf_jj_undefined_hint(run, "access to attribute '%.80s' of '%s' object is unsafe.",
                                   name->at, wf_jj_type(o));
    return result->kind == JJ_UNDEFINED;
  }
  return true;
}

bool wf_jj_getattr(jj_run *run, const jj_val *o, const jj_str *name, jj_val *result) {
  bool found;
  if (o->kind == JJ_UNDEFINED) return wf_jj_raise_undefined(run, o);
  if (!attribute(run, o, name, result, &found) || found) return run->status == WEFT_OK;
  if (o->kind == JJ_DICT) {
    const jj_val *v = wf_jj_dict_find(o->u.d, name->at, name->n);
    if (v) {
      *result = *v;
      return true;
    }
  }
  return undefined_attr(run, o, name, result);
}

static bool item_at(jj_run *run, const jj_val *o, int64_t i, jj_val *result, bool *found) {
  const int64_t n = wf_jj_length(run, o);
  if (i < 0) i += n;
  *found = i >= 0 && i < n;
  if (!*found) return true;
  if (o->kind == JJ_LIST || o->kind == JJ_TUPLE) *result = o->u.l->at[i];
  if (o->kind == JJ_RANGE) *result = wf_jj_int(o->u.range->start + i * o->u.range->step);
  if (o->kind == JJ_STR) {
    const jj_str *s = wf_jj_flat(run, o->u.s);
    if (!s) return false;
    const size_t begin = wf_jj_str_offset(s, (size_t)i);
    uint32_t cp;
    size_t length = wf_utf8_decode(s->at + begin, s->n - begin, &cp);
    if (!length) length = 1;
    *result = wf_jj_str_sub(run, s, begin, begin + length);
    return result->kind == JJ_STR && (s->n == s->n_chars || wf_jj_charge(run, begin / 64));
  }
  return true;
}

bool wf_jj_getitem(jj_run *run, const jj_val *o, const jj_val *key, jj_val *result) {
  bool found = false;
  if (o->kind == JJ_UNDEFINED) return wf_jj_raise_undefined(run, o);
  if (o->kind == JJ_DICT) {
    const bool hashable = key->kind != JJ_LIST && key->kind != JJ_DICT;
    const int got = hashable ? wf_jj_dict_get(run, o->u.d, key, result) : 0;
    if (got) return got > 0;
  } else if (is_int(key) && (o->kind == JJ_STR || o->kind == JJ_LIST || o->kind == JJ_TUPLE ||
                             o->kind == JJ_RANGE)) {
    if (!item_at(run, o, as_int(key), result, &found)) return false;
    if (found) return true;
  }
  jj_val k = *key;
  if (k.kind != JJ_STR) {
    jj_buf b = {0};
    if (!wf_jj_add_repr(run, &b, &k)) return false;
    jj_val text = wf_jj_buf_done(run, &b);
    if (!text.kind) return false;
    *result =
        wf_jj_undefined_hint(run, "%s object has no element %.100s", wf_jj_type(o), text.u.s->at);
    return result->kind == JJ_UNDEFINED;
  }
  if (!wf_jj_str_ready(run, &k)) return false;
  if (!attribute(run, o, k.u.s, result, &found) || found) return run->status == WEFT_OK;
  return undefined_attr(run, o, k.u.s, result);
}

/* One bound of a slice over n items, by Python's rules. */
static bool slice_bound(jj_run *run, const jj_val *v, int64_t n, bool backwards, int64_t fallback,
                        int64_t *result) {
  if (v->kind == JJ_NONE || v->kind == JJ_MISSING) {
    *result = fallback;
    return true;
  }
  if (!is_int(v)) {
    return wf_jj_raise(run, "slice indices must be integers or None, not '%s'", wf_jj_type(v));
  }
  int64_t i = as_int(v);
  const int64_t low = backwards ? -1 : 0, high = backwards ? n - 1 : n;
  if (i < 0) i = i < -n ? low : i + n;
  if (i < low) i = low;
  *result = i > high ? high : i;
  return true;
}

static bool slice_str(jj_run *run, const jj_str *s, int64_t start, int64_t step, int64_t count,
                      jj_val *result) {
  s = wf_jj_flat(run, s);
  if (!s) return false;
  if (step == 1 || count == 0) {
    const size_t begin = wf_jj_str_offset(s, count ? (size_t)start : 0);
    size_t end = begin;
    if (s->n == s->n_chars) {
      end = begin + (size_t)count;
    } else {
      for (int64_t i = 0; i < count; i++) {
        uint32_t cp;
        const size_t length = wf_utf8_decode(s->at + end, s->n - end, &cp);
        end += length ? length : 1;
      }
    }
    *result = wf_jj_str_sub(run, s, begin, end);
    return result->kind == JJ_STR && wf_jj_charge(run, end / 64);
  }
  /* Walk the characters once, by an offset table. */
  size_t *at = wf_jj_alloc(run, s->n_chars + 1, sizeof *at);
  if (!at || !wf_jj_charge(run, s->n / 16)) return false;
  size_t k = 0;
  for (size_t i = 0; i < s->n; i++) {
    if (((unsigned char)s->at[i] & 0xc0) != 0x80) at[k++] = i;
  }
  at[k] = s->n;
  jj_buf b = {0};
  for (int64_t i = 0, c = start; i < count; i++, c += step) {
    if (!wf_jj_buf_add_range(run, &b, s, at[c], at[c + 1])) return false;
  }
  *result = wf_jj_buf_done(run, &b);
  return result->kind == JJ_STR;
}

bool wf_jj_slice(jj_run *run, const jj_val *o, const jj_val bounds[3], jj_val *result) {
  if (o->kind == JJ_UNDEFINED) return wf_jj_raise_undefined(run, o);
  if (o->kind == JJ_DICT) return wf_jj_raise(run, "unhashable type: 'slice'");
  if (o->kind != JJ_STR && o->kind != JJ_LIST && o->kind != JJ_TUPLE && o->kind != JJ_RANGE) {
    return wf_jj_raise(run, "'%s' object is not subscriptable", wf_jj_type(o));
  }
  const int64_t n = wf_jj_length(run, o);
  int64_t step = 1, start, stop;
  if (bounds[2].kind != JJ_NONE && bounds[2].kind != JJ_MISSING) {
    if (!is_int(&bounds[2])) return wf_jj_raise(run, "slice step must be an integer");
    step = as_int(&bounds[2]);
    if (step == 0) return wf_jj_raise(run, "slice step cannot be zero");
    if (step > n + 1) step = n + 1;
    if (step < -n - 1) step = -n - 1;
  }
  if (!slice_bound(run, &bounds[0], n, step < 0, step < 0 ? n - 1 : 0, &start) ||
      !slice_bound(run, &bounds[1], n, step < 0, step < 0 ? -1 : n, &stop)) {
    return false;
  }
  int64_t count = 0;
  if (step > 0 && start < stop) count = (stop - start + step - 1) / step;
  if (step < 0 && start > stop) count = (start - stop - step - 1) / -step;
  if (o->kind == JJ_STR) return slice_str(run, o->u.s, start, step, count, result);
  if (o->kind == JJ_RANGE) {
    jj_range *r = wf_jj_alloc(run, 1, sizeof *r);
    if (!r) return false;
    r->start = o->u.range->start + start * o->u.range->step;
    r->step = o->u.range->step * step;
    r->n = (size_t)count;
    r->stop = r->start + r->step * count;
    *result = (jj_val){.kind = JJ_RANGE, .u.range = r};
    return true;
  }
  jj_val *at = wf_jj_alloc(run, (size_t)count, sizeof *at);
  if (!at || !wf_jj_charge(run, (uint64_t)count / 8)) return false;
  for (int64_t i = 0; i < count; i++) at[i] = o->u.l->at[start + i * step];
  *result = wf_jj_list(run, o->kind, at, (size_t)count);
  return result->kind != JJ_MISSING;
}

/* Stable merge sort of items by keys; descending keeps the order of equals too, as Python does. */
bool wf_jj_sort(jj_run *run, jj_val *keys, jj_val *items, size_t n, bool reverse) {
  jj_val *k2 = wf_jj_alloc(run, n, sizeof *k2), *i2 = wf_jj_alloc(run, n, sizeof *i2);
  if (!k2 || !i2) return false;
  for (size_t width = 1; width < n; width *= 2) {
    for (size_t lo = 0; lo < n; lo += 2 * width) {
      const size_t mid = lo + width < n ? lo + width : n;
      const size_t hi = lo + 2 * width < n ? lo + 2 * width : n;
      size_t a = lo, b = mid;
      for (size_t k = lo; k < hi; k++) {
        bool take_right = a >= mid;
        if (a < mid && b < hi &&
            (!wf_jj_charge(run, 1) ||
             !(reverse ? wf_jj_less(run, JJ_OP_LT, &keys[a], &keys[b], &take_right)
                       : wf_jj_less(run, JJ_OP_LT, &keys[b], &keys[a], &take_right)))) {
          return false;
        }
        const size_t from = take_right ? b++ : a++;
        k2[k] = keys[from];
        i2[k] = items[from];
      }
    }
    memcpy(keys, k2, n * sizeof *keys);
    memcpy(items, i2, n * sizeof *items);
  }
  return true;
}
