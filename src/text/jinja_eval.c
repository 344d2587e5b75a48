/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions, calls and the global functions. */
#include <stdio.h>

#include "text/jinja.h"

bool wf_jj_raise(jj_run *run, const char *fmt, ...) {
  if (run->status != WEFT_OK) return false;
  char text[400];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  const jj_node *n = run->node;
  run->status = wf_fail(run->err, WEFT_TEMPLATE,
                        "check that the messages are what this chat template expects",
                        "template line %u, column %u: %s", n ? n->line : 1, n ? n->col : 1, text);
  return false;
}

jj_val wf_jj_undefined(jj_run *run, const jj_str *name, const jj_val *object) {
  jj_undef *u = wf_jj_alloc(run, 1, sizeof *u);
  if (!u) return (jj_val){.kind = JJ_MISSING};
  u->name = name;
  u->type = object ? wf_jj_type(object) : NULL;
  return (jj_val){.kind = JJ_UNDEFINED, .u.undef = u};
}

jj_val wf_jj_undefined_hint(jj_run *run, const char *fmt, ...) {
  char text[300];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  jj_undef *u = wf_jj_alloc(run, 1, sizeof *u);
  const jj_val hint = wf_jj_str_of(run, text, strlen(text), false);
  if (!u || !hint.kind) return (jj_val){.kind = JJ_MISSING};
  u->hint = hint.u.s;
  return (jj_val){.kind = JJ_UNDEFINED, .u.undef = u};
}

bool wf_jj_raise_undefined(jj_run *run, const jj_val *v) {
  const jj_undef *u = v->u.undef;
  if (u->hint) return wf_jj_raise(run, "%s", u->hint->at);
  const char *name = u->name && u->name->at ? u->name->at : "";
  if (!u->type) return wf_jj_raise(run, "'%.100s' is undefined", name);
  return wf_jj_raise(run, "'%s object' has no attribute '%.100s'", u->type, name);
}

/* -- arguments and calls -- */

static bool spread(jj_run *run, const jj_node *n, jj_vals *at) {
  jj_val more;
  jj_vals items;
  if (!wf_jj_eval(run, n, &more) || !wf_jj_collect(run, &more, &items)) return false;
  for (size_t i = 0; i < items.n; i++) {
    if (!wf_jj_push(run, at, items.at[i])) return false;
  }
  return true;
}

static bool spread_named(jj_run *run, const jj_node *n, jj_args *args) {
  jj_val more;
  if (!wf_jj_eval(run, n, &more)) return false;
  if (more.kind != JJ_DICT) {
    return wf_jj_raise(run, "argument after ** must be a mapping, not %s", wf_jj_type(&more));
  }
  const jj_dict *d = more.u.d;
  const size_t total = args->n_named + d->n;
  const jj_str **names = wf_jj_alloc(run, total + 1, sizeof *names);
  jj_val *values = wf_jj_alloc(run, total + 1, sizeof *values);
  if (!names || !values) return false;
  for (size_t i = 0; i < args->n_named; i++) {
    names[i] = args->names[i];
    values[i] = args->values[i];
  }
  for (size_t i = 0; i < d->n; i++) {
    if (d->keys[i].kind != JJ_STR) return wf_jj_raise(run, "keywords must be strings");
    for (size_t k = 0; k < args->n_named; k++) {
      if (wf_str_eq((wf_str){names[k]->at, names[k]->n},
                    (wf_str){d->keys[i].u.s->at, d->keys[i].u.s->n})) {
        return wf_jj_raise(run, "got multiple values for keyword argument '%.60s'", names[k]->at);
      }
    }
    names[args->n_named + i] = d->keys[i].u.s;
    values[args->n_named + i] = d->values[i];
  }
  args->names = names;
  args->values = values;
  args->n_named = total;
  return wf_jj_charge(run, total);
}

/* Room for one more keyword than given, for a call block's caller. */
bool wf_jj_eval_args(jj_run *run, const jj_node *n, jj_args *args) {
  jj_vals at = {0};
  *args = (jj_args){0};
  for (size_t i = 0; i < n->list.n; i++) {
    jj_val v;
    if (!wf_jj_eval(run, n->list.at[i], &v) || !wf_jj_push(run, &at, v)) return false;
  }
  args->n_named = n->kwargs.n;
  args->names = wf_jj_alloc(run, args->n_named + 1, sizeof *args->names);
  args->values = wf_jj_alloc(run, args->n_named + 1, sizeof *args->values);
  if (!args->names || !args->values) return false;
  for (size_t i = 0; i < n->kwargs.n; i++) {
    args->names[i] = n->kwargs.at[i]->name;
    if (!wf_jj_eval(run, n->kwargs.at[i]->a, &args->values[i])) return false;
  }
  if (n->b && !spread(run, n->b, &at)) return false;
  if (n->c && !spread_named(run, n->c, args)) return false;
  args->at = at.at;
  args->n = at.n;
  run->node = n;
  return true;
}

bool wf_jj_call(jj_run *run, const jj_val *f, const jj_args *args, jj_val *result) {
  bool ok;
  if (f->kind == JJ_UNDEFINED) return wf_jj_raise_undefined(run, f);
  if (++run->depth > JJ_DEPTH_LIMIT) return wf_jj_raise(run, "calls are nested too deep");
  if (f->kind == JJ_MACRO) {
    ok = wf_jj_call_macro(run, f->u.macro, args, result);
  } else if (f->kind == JJ_FUNCTION) {
    ok = f->u.fn->call(run, args, result);
  } else if (f->kind == JJ_METHOD) {
    ok = f->u.method->call(run, &f->u.method->self, args, result);
  } else if (f->kind == JJ_LOOP) {
    ok = args->n == 1 ? wf_jj_call_loop(run, f->u.loop, &args->at[0], result)
                      : wf_jj_raise(run, "loop() takes one iterable");
  } else if (f->kind == JJ_JOINER) {
    *result = f->u.cycler->used ? wf_jj_str(f->u.cycler->sep) : wf_jj_str_static(run, "");
    f->u.cycler->used = true;
    ok = result->kind == JJ_STR;
  } else {
    ok = wf_jj_raise(run, "'%s' object is not callable", wf_jj_type(f));
  }
  run->depth--;
  return ok;
}

static bool eval_call(jj_run *run, const jj_node *n, jj_val *result) {
  jj_val f;
  jj_args args;
  if (!wf_jj_eval(run, n->a, &f) || !wf_jj_eval_args(run, n, &args)) return false;
  run->node = n;
  if (f.kind == JJ_UNDEFINED) run->node = n->a;
  return wf_jj_call(run, &f, &args, result);
}

/* -- expressions -- */

static bool eval_name(jj_run *run, const jj_node *n, jj_val *result) {
  const jj_env *env = run->env;
  for (uint32_t i = 0; i < n->up; i++) env = env->parent;
  *result = env->slots[n->slot];
  if (result->kind != JJ_MISSING) return true;
  *result = wf_jj_undefined(run, n->name, NULL);
  return result->kind == JJ_UNDEFINED;
}

static bool eval_items(jj_run *run, const jj_node *n, jj_val *result) {
  jj_val *at = wf_jj_alloc(run, n->list.n, sizeof *at);
  if (!at) return false;
  for (size_t i = 0; i < n->list.n; i++) {
    if (!wf_jj_eval(run, n->list.at[i], &at[i])) return false;
  }
  *result = wf_jj_list(run, n->kind == JJ_N_LIST ? JJ_LIST : JJ_TUPLE, at, n->list.n);
  return result->kind != JJ_MISSING;
}

static bool eval_dict(jj_run *run, const jj_node *n, jj_val *result) {
  jj_dict *d = wf_jj_dict(run, n->list.n / 2);
  if (!d) return false;
  for (size_t i = 0; i + 1 < n->list.n; i += 2) {
    jj_val key, value;
    if (!wf_jj_eval(run, n->list.at[i], &key) || !wf_jj_eval(run, n->list.at[i + 1], &value)) {
      return false;
    }
    run->node = n;
    if (!wf_jj_dict_set(run, d, key, value)) return false;
  }
  *result = (jj_val){.kind = JJ_DICT, .u.d = d};
  return true;
}

static bool eval_compare(jj_run *run, const jj_node *n, jj_val *result) {
  jj_val left, right;
  bool holds = true;
  if (!wf_jj_eval(run, n->a, &left)) return false;
  for (size_t i = 0; i < n->list.n && holds; i++) {
    const jj_node *operand = n->list.at[i];
    if (!wf_jj_eval(run, operand->a, &right)) return false;
    run->node = operand;
    if (!wf_jj_compare(run, operand->op, &left, &right, &holds)) return false;
    left = right;
  }
  *result = wf_jj_bool(holds);
  return true;
}

static bool eval_concat(jj_run *run, const jj_node *n, jj_val *result) {
  jj_val all = wf_jj_str_static(run, "");
  if (!all.kind) return false;
  for (size_t i = 0; i < n->list.n; i++) {
    jj_val v, text;
    if (!wf_jj_eval(run, n->list.at[i], &v)) return false;
    run->node = n;
    if (v.kind == JJ_STR) {
      text = v; /* ropes stay ropes */
    } else if (!wf_jj_to_str(run, &v, &text)) {
      return false;
    }
    if (!wf_jj_str_concat(run, all.u.s, text.u.s, &all)) return false;
  }
  if (all.u.s->markup) {
    const jj_str *flat = wf_jj_flat(run, all.u.s);
    jj_str *plain = flat ? wf_jj_alloc(run, 1, sizeof *plain) : NULL;
    if (!plain) return false;
    *plain = *flat;
    plain->markup = false;
    all = wf_jj_str(plain);
  }
  *result = all;
  return true;
}

static bool eval_item(jj_run *run, const jj_node *n, jj_val *result) {
  jj_val object, key;
  if (!wf_jj_eval(run, n->a, &object)) return false;
  if (n->b->kind == JJ_N_SLICE) {
    const jj_node *part[3] = {n->b->a, n->b->b, n->b->c};
    jj_val bounds[3] = {wf_jj_none(), wf_jj_none(), wf_jj_none()};
    for (int i = 0; i < 3; i++) {
      if (part[i] && !wf_jj_eval(run, part[i], &bounds[i])) return false;
    }
    run->node = n;
    return wf_jj_slice(run, &object, bounds, result);
  }
  if (!wf_jj_eval(run, n->b, &key)) return false;
  run->node = n;
  return wf_jj_getitem(run, &object, &key, result);
}

static bool eval_filter(jj_run *run, const jj_node *n, jj_val *result) {
  jj_val v;
  jj_args args;
  const jj_filter *f = n->entry;
  if (!n->a) {
    v = *run->filter_input;
  } else if (!wf_jj_eval(run, n->a, &v)) {
    return false;
  }
  if (!wf_jj_eval_args(run, n, &args)) return false;
  if (!f) return wf_jj_raise(run, "No filter named '%.80s' found.", n->name->at);
  return f->call(run, &v, &args, result);
}

static bool eval_test(jj_run *run, const jj_node *n, jj_val *result) {
  jj_val v;
  jj_args args;
  bool holds = false;
  const jj_test *t = n->entry;
  if (!wf_jj_eval(run, n->a, &v) || !wf_jj_eval_args(run, n, &args)) return false;
  if (!t) return wf_jj_raise(run, "No test named '%.80s' found.", n->name->at);
  if (!t->call(run, &v, &args, &holds)) return false;
  *result = wf_jj_bool(holds != n->negated);
  return true;
}

static bool eval_logic(jj_run *run, const jj_node *n, jj_val *result) {
  bool truth;
  if (!wf_jj_eval(run, n->a, result) || !wf_jj_truth(run, result, &truth)) return false;
  if (n->kind == JJ_N_NOT) {
    *result = wf_jj_bool(!truth);
    return true;
  }
  return truth == (n->kind == JJ_N_OR) || wf_jj_eval(run, n->b, result);
}

static bool eval_cond(jj_run *run, const jj_node *n, jj_val *result) {
  jj_val test;
  bool truth;
  if (!wf_jj_eval(run, n->b, &test) || !wf_jj_truth(run, &test, &truth)) return false;
  if (truth) return wf_jj_eval(run, n->a, result);
  if (n->c) return wf_jj_eval(run, n->c, result);
  *result = wf_jj_undefined_hint(run,
                                 "the inline if-expression on line %u evaluated to false and no "
                                 "else section was defined.",
                                 n->line);
  return result->kind == JJ_UNDEFINED;
}

static bool eval(jj_run *run, const jj_node *n, jj_val *result) {
  jj_val a, b;
  switch (n->kind) {
    case JJ_N_CONST:
      *result = n->value;
      return true;
    case JJ_N_NAME:
      return eval_name(run, n, result);
    case JJ_N_TUPLE:
    case JJ_N_LIST:
      return eval_items(run, n, result);
    case JJ_N_DICT:
      return eval_dict(run, n, result);
    case JJ_N_UNARY:
      if (!wf_jj_eval(run, n->a, &a)) return false;
      run->node = n;
      return wf_jj_unary(run, n->op, &a, result);
    case JJ_N_BINARY:
      if (!wf_jj_eval(run, n->a, &a) || !wf_jj_eval(run, n->b, &b)) return false;
      run->node = n;
      return wf_jj_binary(run, n->op, &a, &b, result);
    case JJ_N_AND:
    case JJ_N_OR:
    case JJ_N_NOT:
      return eval_logic(run, n, result);
    case JJ_N_COMPARE:
      return eval_compare(run, n, result);
    case JJ_N_CONCAT:
      return eval_concat(run, n, result);
    case JJ_N_COND:
      return eval_cond(run, n, result);
    case JJ_N_GETATTR:
      if (!wf_jj_eval(run, n->a, &a)) return false;
      run->node = n;
      return wf_jj_getattr(run, &a, n->name, result);
    case JJ_N_GETITEM:
      return eval_item(run, n, result);
    case JJ_N_CALL:
      return eval_call(run, n, result);
    case JJ_N_FILTER:
      return eval_filter(run, n, result);
    case JJ_N_TEST:
      return eval_test(run, n, result);
    case JJ_N_SLICE:
      run->node = n;
      return wf_jj_raise(run, "a slice among several subscripts is not supported");
    case JJ_N_NSREF:
    case JJ_N_OPERAND:
    case JJ_N_KEYWORD:
    case JJ_N_OUTPUT:
    case JJ_N_DATA:
    case JJ_N_ASSIGN:
    case JJ_N_ASSIGNBLOCK:
    case JJ_N_FOR:
    case JJ_N_IF:
    case JJ_N_MACRO:
    case JJ_N_CALLBLOCK:
    case JJ_N_FILTERBLOCK:
    case JJ_N_WITH:
    case JJ_N_SCOPE:
    case JJ_N_BLOCK:
    case JJ_N_BREAK:
    case JJ_N_CONTINUE:
    case JJ_N_IMPORT:
    case JJ_N_GENERATION:
      break;
  }
  return wf_jj_raise(run, "this is not an expression");
}

bool wf_jj_eval(jj_run *run, const jj_node *n, jj_val *result) {
  run->node = n;
  if (++run->depth > JJ_DEPTH_LIMIT) return wf_jj_raise(run, "expressions are nested too deep");
  const bool ok = wf_jj_charge(run, 1) && eval(run, n, result);
  run->depth--;
  return ok;
}

/* -- global functions -- */

#define FUNCTION(name) static bool g_##name(jj_run *run, const jj_args *args, jj_val *result)

FUNCTION(raise_exception) {
  jj_val a[1], text;
  if (!wf_jj_args(run, args, "raise_exception", "message", 1, a) ||
      !wf_jj_to_str(run, &a[0], &text)) {
    return false;
  }
  (void)result;
  return wf_jj_raise(run, "%s", text.u.s->at);
}

FUNCTION(strftime_now) {
  jj_val a[1];
  if (!wf_jj_args(run, args, "strftime_now", "format", 1, a)) return false;
  if (a[0].kind != JJ_STR) {
    return wf_jj_raise(run, "strftime() argument 1 must be str, not %s", wf_jj_type(&a[0]));
  }
  return wf_jj_strftime(run, a[0].u.s, result);
}

FUNCTION(range) {
  jj_val a[3];
  int64_t v[3] = {0, 0, 1};
  jj_range *r = wf_jj_alloc(run, 1, sizeof *r);
  if (!r || !wf_jj_args(run, args, "range", "start,stop,step", 1, a)) return false;
  for (int i = 0; i < 3; i++) {
    if (a[i].kind && !wf_jj_want_int(run, &a[i], "range", &v[i])) return false;
  }
  if (!a[1].kind) {
    v[1] = v[0];
    v[0] = 0;
  }
  if (v[2] == 0) return wf_jj_raise(run, "range() arg 3 must not be zero");
  uint64_t n = 0, unit = v[2] > 0 ? (uint64_t)v[2] : 0 - (uint64_t)v[2];
  if (v[2] > 0 && v[0] < v[1]) n = ((uint64_t)v[1] - (uint64_t)v[0] - 1) / unit + 1;
  if (v[2] < 0 && v[0] > v[1]) n = ((uint64_t)v[0] - (uint64_t)v[1] - 1) / unit + 1;
  if (n > JJ_RANGE_LIMIT) {
    return wf_jj_raise(run, "Range too big. The sandbox blocks ranges larger than %d.",
                       (int)JJ_RANGE_LIMIT);
  }
  *r = (jj_range){v[0], v[1], v[2], (size_t)n};
  *result = (jj_val){.kind = JJ_RANGE, .u.range = r};
  return true;
}

/* dict(mapping or pairs, key=value) */
static jj_dict *build_dict(jj_run *run, const jj_args *args) {
  jj_dict *d = wf_jj_dict(run, args->n_named);
  if (!d) return NULL;
  if (args->n > 1) {
    wf_jj_raise(run, "dict expected at most 1 argument, got %zu", args->n);
    return NULL;
  }
  if (args->n && (args->at[0].kind == JJ_DICT)) {
    const jj_dict *from = args->at[0].u.d;
    for (size_t i = 0; i < from->n; i++) {
      if (!wf_jj_dict_set(run, d, from->keys[i], from->values[i])) return NULL;
    }
  } else if (args->n) {
    jj_vals pairs;
    if (!wf_jj_collect(run, &args->at[0], &pairs)) return NULL;
    for (size_t i = 0; i < pairs.n; i++) {
      jj_vals two;
      if (!wf_jj_collect(run, &pairs.at[i], &two)) return NULL;
      if (two.n != 2) {
        wf_jj_raise(run, "dictionary update sequence element #%zu has length %zu; 2 is required", i,
                    two.n);
        return NULL;
      }
      if (!wf_jj_dict_set(run, d, two.at[0], two.at[1])) return NULL;
    }
  }
  for (size_t i = 0; i < args->n_named; i++) {
    if (!wf_jj_dict_set(run, d, wf_jj_str(args->names[i]), args->values[i])) return NULL;
  }
  return d;
}

FUNCTION(dict) {
  *result = (jj_val){.kind = JJ_DICT, .u.d = build_dict(run, args)};
  return result->u.d != NULL;
}

FUNCTION(namespace) {
  jj_dict *d = build_dict(run, args);
  for (size_t i = 0; d && i < d->n; i++) {
    if (d->keys[i].kind == JJ_STR && d->keys[i].u.s->n && d->keys[i].u.s->at[0] == '_') {
      return wf_jj_raise(run,
                         "Chat templates cannot store underscore-prefixed attributes on a "
                         "namespace, but got '%.60s'",
                         d->keys[i].u.s->at);
    }
  }
  *result = (jj_val){.kind = JJ_NAMESPACE, .u.d = d};
  return d != NULL;
}

FUNCTION(cycler) {
  jj_cycler *c = wf_jj_alloc(run, 1, sizeof *c);
  if (!c) return false;
  if (args->n == 0) return wf_jj_raise(run, "at least one item has to be provided");
  const jj_val items = wf_jj_list(run, JJ_TUPLE, args->at, args->n);
  c->items = items.u.l;
  *result = (jj_val){.kind = JJ_CYCLER, .u.cycler = c};
  return items.kind == JJ_TUPLE;
}

FUNCTION(joiner) {
  jj_val a[1];
  jj_cycler *c = wf_jj_alloc(run, 1, sizeof *c);
  if (!c || !wf_jj_args(run, args, "joiner", "sep", 0, a)) return false;
  const jj_val sep = a[0].kind ? a[0] : wf_jj_str_static(run, ", ");
  if (sep.kind != JJ_STR) return wf_jj_raise(run, "a joiner's separator must be a string");
  c->sep = wf_unconst(sep.u.s); /* only read again; the struct is shared with cyclers */
  *result = (jj_val){.kind = JJ_JOINER, .u.cycler = c};
  return true;
}

FUNCTION(lipsum) {
  (void)args;
  (void)result;
  return wf_jj_raise(run, "lipsum() is refused: a chat template must be repeatable");
}

bool wf_jj_globals(jj_run *run, jj_dict *context) {
  static const jj_function functions[] = {
      {"range", g_range},         {"dict", g_dict},
      {"namespace", g_namespace}, {"cycler", g_cycler},
      {"joiner", g_joiner},       {"raise_exception", g_raise_exception},
      {"lipsum", g_lipsum},       {"strftime_now", g_strftime_now}};
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    const jj_val name = wf_jj_str_static(run, functions[i].name);
    const jj_val f = {.kind = JJ_FUNCTION, .u.fn = &functions[i]};
    if (!name.kind || !wf_jj_dict_set(run, context, name, f)) return false;
  }
  return true;
}
