/* SPDX-License-Identifier: Apache-2.0 */
/* Statements: output, assignment, loops, macros and the other blocks. */
#include "text/jinja.h"

typedef enum flow { NORMAL, BREAK, CONTINUE, FAILED } flow;

struct jj_loop {
  jj_iter it;
  jj_val after, before, current, changed;
  bool has_after;
  int64_t index0, length; /* length -1: not counted yet */
  int64_t depth0;
  const jj_node *node;
  jj_env *env; /* where the loop statement stands */
  bool can_recurse;
};

static flow exec_all(jj_run *run, const jj_nodes *body);

static jj_env *new_env(jj_run *run, const jj_scope *scope, jj_env *parent) {
  jj_env *env = wf_jj_alloc(run, 1, sizeof *env + scope->n * sizeof(jj_val));
  if (env) env->parent = parent;
  return env;
}

static jj_val resolve(const jj_run *run, const jj_str *name) {
  const jj_val *v = run->exported ? wf_jj_dict_find(run->exported, name->at, name->n) : NULL;
  if (!v) v = wf_jj_dict_find(run->context, name->at, name->n);
  return v ? *v : (jj_val){.kind = JJ_MISSING};
}

/* First values of all slots but parameters. */
static bool enter(jj_run *run, const jj_scope *scope, jj_env *env) {
  for (size_t i = 0; i < scope->n; i++) {
    const jj_slot *s = &scope->slots[i];
    if (s->load == JJ_LOAD_PARAM) continue;
    env->slots[i] = (jj_val){.kind = JJ_MISSING};
    if (s->load == JJ_LOAD_RESOLVE) env->slots[i] = resolve(run, s->name);
    if (s->load == JJ_LOAD_ALIAS) {
      const jj_env *from = env;
      for (uint32_t k = 0; k < s->up; k++) from = from->parent;
      env->slots[i] = from->slots[s->from];
    }
  }
  return wf_jj_charge(run, scope->n / 4 + 1);
}

static bool assign(jj_run *run, const jj_node *target, const jj_val *v);

static bool unpack(jj_run *run, const jj_node *target, const jj_val *v) {
  jj_vals items;
  if (v->kind != JJ_UNDEFINED && !wf_jj_iterable(v)) {
    return wf_jj_raise(run, "cannot unpack non-iterable %s object", wf_jj_type(v));
  }
  if (!wf_jj_collect(run, v, &items)) return false;
  if (items.n != target->list.n) {
    return wf_jj_raise(run,
                       items.n > target->list.n ? "too many values to unpack (expected %zu)"
                                                : "not enough values to unpack (expected %zu)",
                       target->list.n);
  }
  for (size_t i = 0; i < items.n; i++) {
    if (!assign(run, target->list.at[i], &items.at[i])) return false;
  }
  return true;
}

static bool assign(jj_run *run, const jj_node *target, const jj_val *v) {
  run->node = target;
  if (target->kind == JJ_N_TUPLE) return unpack(run, target, v);
  jj_env *env = run->env;
  for (uint32_t i = 0; i < target->up; i++) env = env->parent;
  jj_val *slot = &env->slots[target->slot];
  if (target->kind == JJ_N_NSREF) {
    if (slot->kind != JJ_NAMESPACE) {
      return wf_jj_raise(run, "cannot assign attribute on non-namespace object");
    }
    if (target->attr->at[0] == '_') {
      return wf_jj_raise(run,
                         "Chat templates cannot store underscore-prefixed attributes on a "
                         "namespace, but got '%.60s'",
                         target->attr->at);
    }
    return wf_jj_dict_set(run, slot->u.d, wf_jj_str(target->attr), *v);
  }
  *slot = *v;
  if (!target->is_top || !run->exported) return true;
  return wf_jj_dict_set(run, run->exported, wf_jj_str(target->name), *v);
}

/* Runs a body into a string of its own. */
static flow capture(jj_run *run, const jj_nodes *body, jj_val *result) {
  jj_buf text = {0}, *before = run->out;
  run->out = &text;
  const flow f = exec_all(run, body);
  run->out = before;
  if (f == FAILED) return f;
  *result = wf_jj_buf_done(run, &text);
  return result->kind ? f : FAILED;
}

/* -- macros -- */

static jj_val *named(const jj_args *args, const jj_str *name, bool *used) {
  for (size_t i = 0; i < args->n_named; i++) {
    if (wf_str_eq((wf_str){args->names[i]->at, args->names[i]->n}, (wf_str){name->at, name->n})) {
      used[i] = true;
      return &args->values[i];
    }
  }
  return NULL;
}

/* Parameters, caller, kwargs and varargs into the macro's slots, by Macro.__call__'s rules. */
static bool bind_parameters(jj_run *run, const jj_node *m, const jj_args *args, jj_env *env) {
  static const jj_str caller_name = {.at = "caller", .n = 6, .n_chars = 6};
  bool *used = wf_jj_alloc(run, args->n_named + 1, sizeof *used);
  if (!used) return false;
  const char *name = m->name ? m->name->at : "caller";
  for (size_t i = 0; i < m->list.n; i++) {
    jj_val *slot = &env->slots[m->list.at[i]->slot];
    if (i < args->n) {
      *slot = args->at[i];
    } else {
      const jj_val *v = named(args, m->list.at[i]->name, used);
      if (v) *slot = *v;
    }
  }
  if (m->takes_caller && !m->explicit_caller) {
    const jj_val *v = named(args, &caller_name, used);
    env->slots[m->caller_slot] =
        v && v->kind != JJ_NONE ? *v : wf_jj_undefined_hint(run, "No caller defined");
  }
  jj_dict *rest = m->takes_kwargs ? wf_jj_dict(run, 4) : NULL;
  for (size_t i = 0; i < args->n_named; i++) {
    if (used[i]) continue;
    if (!m->takes_kwargs) {
      return wf_jj_raise(run, "macro '%.60s' takes no keyword argument '%.60s'", name,
                         args->names[i]->at);
    }
    if (!rest || !wf_jj_dict_set(run, rest, wf_jj_str(args->names[i]), args->values[i])) {
      return false;
    }
  }
  if (m->takes_kwargs) env->slots[m->kw_slot] = (jj_val){.kind = JJ_DICT, .u.d = rest};
  const size_t extra = args->n > m->list.n ? args->n - m->list.n : 0;
  if (m->takes_varargs) {
    env->slots[m->var_slot] = wf_jj_list(run, JJ_TUPLE, extra ? args->at + m->list.n : NULL, extra);
  } else if (extra) {
    return wf_jj_raise(run, "macro '%.60s' takes not more than %zu argument(s)", name, m->list.n);
  }
  return run->status == WEFT_OK;
}

bool wf_jj_call_macro(jj_run *run, const jj_macro *macro, const jj_args *args, jj_val *result) {
  const jj_node *m = macro->node;
  jj_env *env = new_env(run, &m->scope, macro->env), *before = run->env;
  if (!env || !bind_parameters(run, m, args, env) || !enter(run, &m->scope, env)) return false;
  run->env = env;
  const size_t first_default = m->list.n - m->kwargs.n;
  for (size_t i = 0; i < m->list.n; i++) {
    jj_val *slot = &env->slots[m->list.at[i]->slot];
    if (slot->kind != JJ_MISSING) continue;
    if (i < first_default) {
      *slot =
          wf_jj_undefined_hint(run, "parameter '%.60s' was not provided", m->list.at[i]->name->at);
    } else if (!wf_jj_eval(run, m->kwargs.at[i - first_default], slot)) {
      return false;
    }
  }
  const flow f = capture(run, &m->body, result);
  run->env = before;
  return f != FAILED;
}

static jj_val new_macro(jj_run *run, const jj_node *n) {
  jj_macro *m = wf_jj_alloc(run, 1, sizeof *m);
  if (!m) return (jj_val){.kind = JJ_MISSING};
  *m = (jj_macro){n, run->env};
  return (jj_val){.kind = JJ_MACRO, .u.macro = m};
}

static flow exec_macro(jj_run *run, const jj_node *n) {
  const jj_val m = new_macro(run, n);
  if (!m.kind) return FAILED;
  const jj_node target = {.kind = JJ_N_NAME,
                          .name = n->name,
                          .up = n->up,
                          .slot = n->slot,
                          .is_top = n->is_top,
                          .line = n->line,
                          .col = n->col};
  const bool ok = assign(run, &target, &m);
  run->node = n; /* the target dies with this frame */
  return ok ? NORMAL : FAILED;
}

static flow exec_call_block(jj_run *run, const jj_node *n) {
  static const jj_str caller_name = {.at = "caller", .n = 6, .n_chars = 6};
  const jj_val caller = new_macro(run, n);
  jj_val f, text;
  jj_args args;
  if (!caller.kind || !wf_jj_eval(run, n->a->a, &f) || !wf_jj_eval_args(run, n->a, &args)) {
    return FAILED;
  }
  for (size_t i = 0; i < args.n_named; i++) {
    if (wf_str_is((wf_str){args.names[i]->at, args.names[i]->n}, "caller")) {
      return wf_jj_raise(run, "got multiple values for keyword argument 'caller'") ? NORMAL
                                                                                   : FAILED;
    }
  }
  args.names[args.n_named] = &caller_name;
  args.values[args.n_named++] = caller;
  run->node = n->a;
  if (!wf_jj_call(run, &f, &args, &text)) return FAILED;
  return wf_jj_add_str(run, run->out, &text) ? NORMAL : FAILED;
}

/* -- loops -- */

int wf_jj_loop_next(jj_run *run, jj_loop *loop, jj_val *item) {
  if (loop->has_after) {
    *item = loop->after;
    loop->has_after = false;
  } else {
    const int got = wf_jj_iter_next(run, &loop->it, item);
    if (got <= 0) return got;
  }
  loop->index0++;
  loop->before = loop->current;
  loop->current = *item;
  return 1;
}

static int peek(jj_run *run, jj_loop *loop) {
  if (loop->has_after) return 1;
  const int got = wf_jj_iter_next(run, &loop->it, &loop->after);
  loop->has_after = got == 1;
  return got;
}

int64_t wf_jj_loop_length(jj_run *run, jj_loop *loop) {
  if (loop->length >= 0) return loop->length;
  loop->length = wf_jj_length(run, &loop->it.over);
  if (loop->length >= 0) return loop->length;
  /* An iterator has no length: read the rest and walk that. */
  jj_vals rest = {0};
  jj_val item;
  for (int got; (got = wf_jj_iter_next(run, &loop->it, &item)) != 0;) {
    if (got < 0 || !wf_jj_push(run, &rest, item)) return -1;
  }
  const jj_val list = wf_jj_list(run, JJ_LIST, rest.at, rest.n);
  if (!list.kind) return -1;
  loop->it = (jj_iter){.over = list};
  loop->length = (int64_t)rest.n + loop->index0 + 1 + loop->has_after;
  return loop->length;
}

bool wf_jj_loop_attr(jj_run *run, jj_loop *loop, const jj_str *name, jj_val *result, bool *found) {
  const wf_str n = {name->at, name->n};
  *found = true;
  if (wf_str_is(n, "index")) {
    *result = wf_jj_int(loop->index0 + 1);
  } else if (wf_str_is(n, "index0")) {
    *result = wf_jj_int(loop->index0);
  } else if (wf_str_is(n, "first")) {
    *result = wf_jj_bool(loop->index0 == 0);
  } else if (wf_str_is(n, "last")) {
    const int got = peek(run, loop);
    *result = wf_jj_bool(got == 0);
    return got >= 0;
  } else if (wf_str_is(n, "length") || wf_str_is(n, "revindex") || wf_str_is(n, "revindex0")) {
    const int64_t length = wf_jj_loop_length(run, loop);
    *result = wf_jj_int(wf_str_is(n, "length")     ? length
                        : wf_str_is(n, "revindex") ? length - loop->index0
                                                   : length - loop->index0 - 1);
    return length >= 0;
  } else if (wf_str_is(n, "depth") || wf_str_is(n, "depth0")) {
    *result = wf_jj_int(loop->depth0 + wf_str_is(n, "depth"));
  } else if (wf_str_is(n, "previtem")) {
    *result =
        loop->index0 > 0 ? loop->before : wf_jj_undefined_hint(run, "there is no previous item");
    return result->kind != JJ_MISSING;
  } else if (wf_str_is(n, "nextitem")) {
    const int got = peek(run, loop);
    *result = got == 1 ? loop->after : wf_jj_undefined_hint(run, "there is no next item");
    return got >= 0 && result->kind != JJ_MISSING;
  } else if (wf_str_is(n, "\1changed")) { /* loop.changed(): swap in the new value */
    const jj_val now = *result;
    *result = loop->changed;
    loop->changed = now;
  } else {
    *found = false;
  }
  return true;
}

/* The items that pass a loop's `if`, tested as they are read. */
static int filtered_next(jj_run *run, jj_iter *g, jj_val *item) {
  const jj_node *n = g->node;
  for (;;) {
    jj_val test;
    bool pass = false;
    const int got = wf_jj_iter_next(run, g->source, item);
    if (got <= 0) return got;
    jj_env *before = run->env;
    run->env = g->env;
    const bool ok = assign(run, n->test_target, item) && enter(run, &n->test_scope, g->env) &&
                    wf_jj_eval(run, n->c, &test) && wf_jj_truth(run, &test, &pass);
    run->env = before;
    if (!ok) return -1;
    if (pass) return 1;
  }
}

static bool filtered(jj_run *run, const jj_node *n, jj_env *env, const jj_val *over,
                     jj_val *result) {
  jj_iter *g;
  *result = wf_jj_generator(run, "generator", &g);
  if (!result->kind) return false;
  g->source = wf_jj_alloc(run, 1, sizeof *g->source);
  g->env = new_env(run, &n->test_scope, env);
  g->node = n;
  g->next = filtered_next;
  return g->source && g->env && wf_jj_iter_open(run, over, g->source);
}

static flow run_loop(jj_run *run, const jj_node *n, jj_env *env, const jj_val *over,
                     int64_t depth0) {
  jj_loop *loop = wf_jj_alloc(run, 1, sizeof *loop);
  jj_env *body = new_env(run, &n->scope, env), *before = run->env;
  jj_val items = *over, item;
  bool nothing = true;
  if (!loop || !body) return FAILED;
  run->node = n->b;
  if (n->c && !filtered(run, n, env, over, &items)) return FAILED;
  *loop = (jj_loop){.index0 = -1,
                    .length = -1,
                    .depth0 = depth0,
                    .node = n,
                    .env = env,
                    .can_recurse = n->recursive};
  if (!wf_jj_iter_open(run, &items, &loop->it)) return FAILED;
  body->slots[n->loop_slot] = (jj_val){.kind = JJ_LOOP, .u.loop = loop};
  flow f = NORMAL;
  for (;;) {
    const int got = wf_jj_loop_next(run, loop, &item);
    if (got < 0) f = FAILED;
    if (got <= 0) break;
    run->env = body;
    if (!assign(run, n->a, &item) || !enter(run, &n->scope, body)) {
      f = FAILED;
      break;
    }
    f = exec_all(run, &n->body);
    if (f == NORMAL) nothing = false; /* as Jinja: a continued or broken turn does not count */
    if (f == BREAK || f == FAILED) break;
  }
  run->env = before;
  if (f == FAILED) return f;
  if (!nothing || n->orelse.n == 0) return NORMAL;
  run->env = new_env(run, &n->else_scope, env);
  f = run->env && enter(run, &n->else_scope, run->env) ? exec_all(run, &n->orelse) : FAILED;
  run->env = before;
  return f;
}

static flow exec_for(jj_run *run, const jj_node *n) {
  jj_val over;
  if (!wf_jj_eval(run, n->b, &over)) return FAILED;
  return run_loop(run, n, run->env, &over, 0);
}

bool wf_jj_call_loop(jj_run *run, jj_loop *loop, const jj_val *over, jj_val *result) {
  if (!loop->can_recurse) {
    return wf_jj_raise(run, "The loop must have the 'recursive' marker to be called recursively.");
  }
  jj_buf text = {0}, *before = run->out;
  jj_env *env = run->env;
  run->out = &text;
  const flow f = run_loop(run, loop->node, loop->env, over, loop->depth0 + 1);
  run->out = before;
  run->env = env;
  if (f == FAILED) return false;
  *result = wf_jj_buf_done(run, &text);
  return result->kind == JJ_STR;
}

/* -- the rest -- */

static flow exec_scope(jj_run *run, const jj_node *n, jj_env *env) {
  jj_env *before = run->env;
  if (!enter(run, &n->scope, env)) return FAILED;
  run->env = env;
  const flow f = exec_all(run, &n->body);
  run->env = before;
  return f;
}

static flow exec_with(jj_run *run, const jj_node *n) {
  jj_env *env = new_env(run, &n->scope, run->env), *before = run->env;
  if (!env || !enter(run, &n->scope, env)) return FAILED;
  for (size_t i = 0; i < n->list.n; i++) {
    jj_val v;
    if (!wf_jj_eval(run, n->kwargs.at[i], &v)) return FAILED;
    run->env = env;
    const bool ok = assign(run, n->list.at[i], &v);
    run->env = before;
    if (!ok) return FAILED;
  }
  run->env = env;
  const flow f = exec_all(run, &n->body);
  run->env = before;
  return f;
}

/* A body's text through a filter chain, both in the body's scope. */
static flow filter_body(jj_run *run, const jj_node *n, const jj_node *filter, jj_val *result) {
  jj_env *env = new_env(run, &n->scope, run->env), *before = run->env;
  const jj_val *outer = run->filter_input;
  jj_val text;
  if (!env || !enter(run, &n->scope, env)) return FAILED;
  run->env = env;
  flow f = capture(run, &n->body, &text);
  if (f == NORMAL && filter) {
    run->filter_input = &text;
    if (!wf_jj_eval(run, filter, result)) f = FAILED;
    run->filter_input = outer;
  } else {
    *result = text;
  }
  run->env = before;
  return f;
}

static flow exec_output(jj_run *run, const jj_node *n) {
  for (size_t i = 0; i < n->list.n; i++) {
    jj_val v;
    if (!wf_jj_eval(run, n->list.at[i], &v)) return FAILED;
    run->node = n->list.at[i];
    if (!wf_jj_add_str(run, run->out, &v)) return FAILED;
  }
  return NORMAL;
}

static flow exec_if(jj_run *run, const jj_node *n) {
  jj_val test;
  bool truth;
  if (!wf_jj_eval(run, n->a, &test) || !wf_jj_truth(run, &test, &truth)) return FAILED;
  if (truth) return exec_all(run, &n->body);
  for (size_t i = 0; i < n->list.n; i++) {
    if (!wf_jj_eval(run, n->list.at[i]->a, &test) || !wf_jj_truth(run, &test, &truth)) {
      return FAILED;
    }
    if (truth) return exec_all(run, &n->list.at[i]->body);
  }
  return exec_all(run, &n->orelse);
}

static flow exec_assign(jj_run *run, const jj_node *n) {
  jj_val v;
  flow f = NORMAL;
  if (n->kind == JJ_N_ASSIGN) {
    if (!wf_jj_eval(run, n->b, &v)) return FAILED;
  } else {
    f = filter_body(run, n, n->b, &v);
  }
  if (f != NORMAL) return f;
  return assign(run, n->a, &v) ? NORMAL : FAILED;
}

static flow exec_block(jj_run *run, const jj_node *n) {
  jj_env *env = new_env(run, &n->scope, NULL);
  return env ? exec_scope(run, n, env) : FAILED;
}

static flow exec(jj_run *run, const jj_node *n) {
  jj_val v;
  jj_env *env;
  flow f;
  switch (n->kind) {
    case JJ_N_DATA:
      return wf_jj_buf_add_str(run, run->out, n->value.u.s) ? NORMAL : FAILED;
    case JJ_N_OUTPUT:
      return exec_output(run, n);
    case JJ_N_ASSIGN:
    case JJ_N_ASSIGNBLOCK:
      return exec_assign(run, n);
    case JJ_N_FOR:
      return exec_for(run, n);
    case JJ_N_IF:
      return exec_if(run, n);
    case JJ_N_MACRO:
      return exec_macro(run, n);
    case JJ_N_CALLBLOCK:
      return exec_call_block(run, n);
    case JJ_N_FILTERBLOCK:
      f = filter_body(run, n, n->a, &v);
      return f == NORMAL && !wf_jj_add_str(run, run->out, &v) ? FAILED : f;
    case JJ_N_WITH:
      return exec_with(run, n);
    case JJ_N_SCOPE:
      if (n->a && !wf_jj_eval(run, n->a, &v)) return FAILED;
      env = new_env(run, &n->scope, run->env);
      return env ? exec_scope(run, n, env) : FAILED;
    case JJ_N_GENERATION:
      env = new_env(run, &n->scope, run->env);
      return env ? exec_scope(run, n, env) : FAILED;
    case JJ_N_BLOCK:
      return exec_block(run, n);
    case JJ_N_BREAK:
      return BREAK;
    case JJ_N_CONTINUE:
      return CONTINUE;
    case JJ_N_IMPORT:
      return wf_jj_raise(run,
                         "no loader for this environment specified: a chat template cannot "
                         "include or import others")
                 ? NORMAL
                 : FAILED;
    case JJ_N_CONST:
    case JJ_N_NAME:
    case JJ_N_NSREF:
    case JJ_N_TUPLE:
    case JJ_N_LIST:
    case JJ_N_DICT:
    case JJ_N_UNARY:
    case JJ_N_BINARY:
    case JJ_N_AND:
    case JJ_N_OR:
    case JJ_N_NOT:
    case JJ_N_COMPARE:
    case JJ_N_OPERAND:
    case JJ_N_CONCAT:
    case JJ_N_COND:
    case JJ_N_GETATTR:
    case JJ_N_GETITEM:
    case JJ_N_SLICE:
    case JJ_N_CALL:
    case JJ_N_FILTER:
    case JJ_N_TEST:
    case JJ_N_KEYWORD:
      break;
  }
  return wf_jj_raise(run, "this is not a statement") ? NORMAL : FAILED;
}

static flow exec_all(jj_run *run, const jj_nodes *body) {
  if (++run->depth > JJ_DEPTH_LIMIT) {
    return wf_jj_raise(run, "blocks and macros are nested too deep") ? NORMAL : FAILED;
  }
  flow f = NORMAL;
  for (size_t i = 0; i < body->n && f == NORMAL; i++) {
    run->node = body->at[i];
    f = wf_jj_charge(run, 1) ? exec(run, body->at[i]) : FAILED;
  }
  run->depth--;
  return f;
}

bool wf_jj_run_template(jj_run *run) {
  const jj_node *root = run->tpl->root;
  jj_env *env = new_env(run, &root->scope, NULL);
  return env && exec_scope(run, root, env) != FAILED;
}
