/* SPDX-License-Identifier: Apache-2.0 */
/* Filters over sequences. As in Jinja, map, select, unique, batch, slice and items give generators:
 * nothing runs before they are read, and they can be read once. */
#include "text/jinja.h"

#define FILTER(name) \
  static bool f_##name(jj_run *run, const jj_val *v, const jj_args *args, jj_val *result)
#define BIND(params, required, out) \
  if (!wf_jj_args(run, args, __func__ + 2, params, required, out)) return false

/* item.a.b.0 as make_attrgetter does; attribute MISSING or None: the item itself */
static bool get_attribute(jj_run *run, const jj_val *item, const jj_val *attribute,
                          const jj_val *fallback, jj_val *result) {
  *result = *item;
  if (attribute->kind == JJ_MISSING || attribute->kind == JJ_NONE) return true;
  if (attribute->kind != JJ_STR) return wf_jj_getitem(run, item, attribute, result);
  const jj_str *path = wf_jj_flat(run, attribute->u.s);
  if (!path) return false;
  for (size_t at = 0; at <= path->n;) {
    const char *dot = memchr(path->at + at, '.', path->n - at);
    const size_t end = dot ? (size_t)(dot - path->at) : path->n;
    jj_val key = wf_jj_str_sub(run, path, at, end);
    if (!key.kind) return false;
    bool digits = end > at && end - at < 10;
    int64_t number = 0;
    for (size_t i = at; i < end && digits; i++) {
      digits = path->at[i] >= '0' && path->at[i] <= '9';
      number = number * 10 + (path->at[i] - '0');
    }
    if (digits) key = wf_jj_int(number);
    const jj_val object = *result;
    if (!wf_jj_getitem(run, &object, &key, result)) return false;
    if (result->kind == JJ_UNDEFINED && fallback && fallback->kind > JJ_NONE) *result = *fallback;
    at = end + 1;
  }
  return true;
}

static bool fold(jj_run *run, jj_val *key, bool case_sensitive) {
  if (case_sensitive || key->kind != JJ_STR) return true;
  return wf_jj_case(run, key->u.s, 'l', key);
}

static bool flag_of(jj_run *run, const jj_val *v, bool *flag) {
  return v->kind == JJ_MISSING || wf_jj_truth(run, v, flag);
}

FILTER(list) {
  jj_val none[1];
  jj_vals items;
  BIND("", 0, none);
  if (!wf_jj_collect(run, v, &items)) return false;
  *result = wf_jj_list(run, JJ_LIST, items.at, items.n);
  return result->kind == JJ_LIST;
}

FILTER(first) {
  jj_val none[1];
  jj_iter it;
  BIND("", 0, none);
  if (!wf_jj_iter_open(run, v, &it)) return false;
  const int got = wf_jj_iter_next(run, &it, result);
  if (got == 0) *result = wf_jj_undefined_hint(run, "No first item, sequence was empty.");
  return got >= 0 && result->kind != JJ_MISSING;
}

FILTER(last) {
  jj_val none[1];
  jj_vals items;
  BIND("", 0, none);
  if (v->kind == JJ_ITER || v->kind == JJ_LOOP || !wf_jj_iterable(v)) {
    return wf_jj_raise(run, "'%s' object is not reversible", wf_jj_type(v));
  }
  const int64_t n = wf_jj_length(run, v);
  if (n == 0) {
    *result = wf_jj_undefined_hint(run, "No last item, sequence was empty.");
    return result->kind == JJ_UNDEFINED;
  }
  if (v->kind == JJ_LIST || v->kind == JJ_TUPLE) {
    *result = v->u.l->at[n - 1];
    return true;
  }
  if (!wf_jj_collect(run, v, &items)) return false;
  *result = items.at[items.n - 1];
  return true;
}

FILTER(join) {
  jj_val a[2], list = *v;
  BIND("d,attribute", 0, a);
  jj_val sep = a[0].kind ? a[0] : wf_jj_str_static(run, "");
  if (!wf_jj_to_str(run, &sep, &sep)) return false;
  if (sep.u.s->markup) { /* str() of Markup is a plain string */
    jj_str *plain = wf_jj_alloc(run, 1, sizeof *plain);
    if (!plain) return false;
    *plain = *sep.u.s;
    plain->markup = false;
    sep = wf_jj_str(plain);
  }
  if (a[1].kind > JJ_NONE) {
    jj_vals items;
    if (!wf_jj_collect(run, v, &items)) return false;
    for (size_t i = 0; i < items.n; i++) {
      if (!get_attribute(run, &items.at[i], &a[1], NULL, &items.at[i])) return false;
    }
    list = wf_jj_list(run, JJ_LIST, items.at, items.n);
    if (!list.kind) return false;
  }
  return wf_jj_join(run, sep.u.s, &list, true, result);
}

FILTER(reverse) {
  jj_val none[1];
  jj_vals items;
  jj_iter *it;
  BIND("", 0, none);
  if (v->kind == JJ_STR) {
    jj_val bounds[3] = {wf_jj_none(), wf_jj_none(), wf_jj_int(-1)};
    return wf_jj_slice(run, v, bounds, result);
  }
  if (!wf_jj_iterable(v)) return wf_jj_raise(run, "argument must be iterable");
  if (!wf_jj_collect(run, v, &items)) return false;
  for (size_t i = 0; i < items.n / 2; i++) {
    const jj_val swap = items.at[i];
    items.at[i] = items.at[items.n - 1 - i];
    items.at[items.n - 1 - i] = swap;
  }
  const jj_val list = wf_jj_list(run, JJ_LIST, items.at, items.n);
  if (v->kind == JJ_ITER || v->kind == JJ_UNDEFINED || v->kind == JJ_LOOP) {
    *result = list; /* reversed() refuses these; Jinja falls back to a list */
    return list.kind == JJ_LIST;
  }
  *result = wf_jj_generator(run, v->kind == JJ_LIST ? "list_reverseiterator" : "reversed", &it);
  if (!list.kind || !result->kind) return false;
  it->over = list;
  return true;
}

FILTER(dictsort) {
  jj_val a[3];
  bool sensitive = false, reverse = false;
  BIND("case_sensitive,by,reverse", 0, a);
  if (!flag_of(run, &a[0], &sensitive) || !flag_of(run, &a[2], &reverse)) return false;
  const bool by_value = a[1].kind && wf_jj_str_is(&a[1], "value");
  if (a[1].kind && !by_value && !wf_jj_str_is(&a[1], "key")) {
    return wf_jj_raise(run, "You can only sort by either \"key\" or \"value\"");
  }
  if (v->kind == JJ_UNDEFINED) return wf_jj_raise_undefined(run, v);
  if (v->kind != JJ_DICT) {
    return wf_jj_raise(run, "'%s' object has no attribute 'items'", wf_jj_type(v));
  }
  const size_t n = v->u.d->n;
  jj_val *keys = wf_jj_alloc(run, n, sizeof *keys), *items = wf_jj_alloc(run, n, sizeof *items);
  if (!keys || !items) return false;
  for (size_t i = 0; i < n; i++) {
    keys[i] = by_value ? v->u.d->values[i] : v->u.d->keys[i];
    items[i] = wf_jj_pair(run, v->u.d->keys[i], v->u.d->values[i]);
    if (!items[i].kind || !fold(run, &keys[i], sensitive)) return false;
  }
  if (!wf_jj_sort(run, keys, items, n, reverse)) return false;
  *result = wf_jj_list(run, JJ_LIST, items, n);
  return result->kind == JJ_LIST;
}

/* The sort key: one attribute, or a list of those named with commas. */
static bool multi_key(jj_run *run, const jj_val *item, const jj_val *attribute, bool sensitive,
                      jj_val *key) {
  jj_vals parts = {0};
  if (attribute->kind != JJ_STR || !memchr(attribute->u.s->at, ',', attribute->u.s->n)) {
    return get_attribute(run, item, attribute, NULL, key) && fold(run, key, sensitive);
  }
  const jj_str *s = attribute->u.s;
  for (size_t at = 0; at <= s->n;) {
    const char *comma = memchr(s->at + at, ',', s->n - at);
    const size_t end = comma ? (size_t)(comma - s->at) : s->n;
    const jj_val name = wf_jj_str_sub(run, s, at, end);
    jj_val part;
    if (!name.kind || !get_attribute(run, item, &name, NULL, &part) ||
        !fold(run, &part, sensitive) || !wf_jj_push(run, &parts, part)) {
      return false;
    }
    at = end + 1;
  }
  *key = wf_jj_list(run, JJ_LIST, parts.at, parts.n);
  return key->kind == JJ_LIST;
}

FILTER(sort) {
  jj_val a[3];
  bool reverse = false, sensitive = false;
  jj_vals items;
  BIND("reverse,case_sensitive,attribute", 0, a);
  if (!flag_of(run, &a[0], &reverse) || !flag_of(run, &a[1], &sensitive) ||
      !wf_jj_collect(run, v, &items)) {
    return false;
  }
  jj_val *keys = wf_jj_alloc(run, items.n, sizeof *keys);
  if (!keys) return false;
  for (size_t i = 0; i < items.n; i++) {
    if (!multi_key(run, &items.at[i], &a[2], sensitive, &keys[i])) return false;
  }
  if (items.n && !wf_jj_sort(run, keys, items.at, items.n, reverse)) return false;
  *result = wf_jj_list(run, JJ_LIST, items.at, items.n);
  return result->kind == JJ_LIST;
}

static bool extreme(jj_run *run, const jj_val *v, const jj_args *args, bool largest,
                    jj_val *result) {
  jj_val a[2], item, key, best_key = {.kind = JJ_MISSING};
  bool sensitive = false;
  jj_iter it;
  if (!wf_jj_args(run, args, largest ? "max" : "min", "case_sensitive,attribute", 0, a) ||
      !flag_of(run, &a[0], &sensitive) || !wf_jj_iter_open(run, v, &it)) {
    return false;
  }
  for (int got; (got = wf_jj_iter_next(run, &it, &item)) != 0;) {
    bool better = best_key.kind == JJ_MISSING;
    if (got < 0 || !get_attribute(run, &item, &a[1], NULL, &key) || !fold(run, &key, sensitive)) {
      return false;
    }
    if (!better && !wf_jj_less(run, largest ? JJ_OP_GT : JJ_OP_LT, &key, &best_key, &better)) {
      return false;
    }
    if (better) {
      best_key = key;
      *result = item;
    }
  }
  if (best_key.kind) return true;
  *result = wf_jj_undefined_hint(run, "No aggregated item, sequence was empty.");
  return result->kind == JJ_UNDEFINED;
}
FILTER(min) { return extreme(run, v, args, false, result); }
FILTER(max) { return extreme(run, v, args, true, result); }

FILTER(sum) {
  jj_val a[2], item;
  jj_iter it;
  BIND("attribute,start", 0, a);
  *result = a[1].kind ? a[1] : wf_jj_int(0);
  if (result->kind == JJ_STR) {
    return wf_jj_raise(run, "sum() can't sum strings [use ''.join(seq) instead]");
  }
  if (!wf_jj_iter_open(run, v, &it)) return false;
  for (int got; (got = wf_jj_iter_next(run, &it, &item)) != 0;) {
    const jj_val before = *result;
    if (got < 0 || !get_attribute(run, &item, &a[0], NULL, &item) ||
        !wf_jj_binary(run, JJ_OP_ADD, &before, &item, result)) {
      return false;
    }
  }
  return true;
}

FILTER(groupby) {
  jj_val a[3];
  bool sensitive = false;
  jj_vals items, groups = {0};
  BIND("attribute,default,case_sensitive", 1, a);
  if (!flag_of(run, &a[2], &sensitive) || !wf_jj_collect(run, v, &items)) return false;
  jj_val *keys = wf_jj_alloc(run, items.n, sizeof *keys);
  if (!keys) return false;
  for (size_t i = 0; i < items.n; i++) {
    if (!get_attribute(run, &items.at[i], &a[0], &a[1], &keys[i]) ||
        !fold(run, &keys[i], sensitive)) {
      return false;
    }
  }
  if (items.n && !wf_jj_sort(run, keys, items.at, items.n, false)) return false;
  for (size_t i = 0, end; i < items.n; i = end) {
    for (end = i + 1; end < items.n; end++) {
      const int eq = wf_jj_equal(run, &keys[i], &keys[end]);
      if (eq < 0) return false;
      if (!eq) break;
    }
    jj_val shown = keys[i];
    if (!sensitive && !get_attribute(run, &items.at[i], &a[0], &a[1], &shown)) return false;
    const jj_val list = wf_jj_list(run, JJ_LIST, items.at + i, end - i);
    jj_val group = wf_jj_pair(run, shown, list);
    if (!list.kind || !group.kind || !wf_jj_push(run, &groups, group)) return false;
    group.u.l->grouper = group.u.l->at;
  }
  *result = wf_jj_list(run, JJ_LIST, groups.at, groups.n);
  return result->kind == JJ_LIST;
}

/* -- generators -- */

/* A generator that reads `v` when first asked: opening a non-iterable fails only then. */
static bool lazy(jj_run *run, const jj_val *v, const char *type,
                 int (*next)(jj_run *, jj_iter *, jj_val *), jj_val *result, jj_iter **it) {
  *result = wf_jj_generator(run, type, it);
  if (!result->kind) return false;
  (*it)->source = wf_jj_alloc(run, 1, sizeof *(*it)->source);
  if (!(*it)->source) return false;
  (*it)->source->over = *v;
  (*it)->next = next;
  return true;
}

/* The next item of the source; the first call opens it. */
static int pull(jj_run *run, jj_iter *g, jj_val *item) {
  if (!g->flag2) {
    const jj_val over = g->source->over;
    g->flag2 = true;
    if (!wf_jj_iter_open(run, &over, g->source)) return -1;
  }
  return wf_jj_iter_next(run, g->source, item);
}

/* As pull(), but a false value (None too) has no items: map and select ask `if value` first. */
static int pull_if_true(jj_run *run, jj_iter *g, jj_val *item) {
  bool truth = true;
  if (!g->flag2 && !wf_jj_truth(run, &g->source->over, &truth)) return -1;
  return truth ? pull(run, g, item) : 0;
}

static int items_next(jj_run *run, jj_iter *g, jj_val *item) {
  const jj_val *v = &g->source->over;
  if (!g->flag2) {
    if (v->kind == JJ_UNDEFINED) return 0;
    if (v->kind != JJ_DICT) {
      (void)wf_jj_raise(run, "Can only get item pairs from a mapping.");
      return -1;
    }
    jj_view *view = wf_jj_alloc(run, 1, sizeof *view);
    if (!view) return -1;
    *view = (jj_view){v->u.d, 'i'};
    g->source->over = (jj_val){.kind = JJ_VIEW, .u.view = view};
    g->flag2 = true;
  }
  return wf_jj_iter_next(run, g->source, item);
}

FILTER(items) {
  jj_val none[1];
  jj_iter *it;
  BIND("", 0, none);
  return lazy(run, v, "generator", items_next, result, &it);
}

static bool call_filter(jj_run *run, const jj_val *name, const jj_val *item, const jj_args *args,
                        jj_val *result) {
  if (name->kind != JJ_STR) return wf_jj_raise(run, "No filter named %s found", wf_jj_type(name));
  const jj_str *s = wf_jj_flat(run, name->u.s);
  const jj_filter *f = s ? wf_jj_filter(s->at, s->n) : NULL;
  if (!f) return s && wf_jj_raise(run, "No filter named '%.80s'.", s->at);
  return f->call(run, item, args, result);
}

static int map_next(jj_run *run, jj_iter *g, jj_val *item) {
  jj_val each;
  const int got = pull_if_true(run, g, &each);
  if (got <= 0) return got;
  bool ok;
  if (g->flag) {
    ok = get_attribute(run, &each, &g->extra[0], &g->extra[1], item);
  } else {
    ok = call_filter(run, &g->extra[0], &each, &g->args, item);
  }
  return ok ? 1 : -1;
}

FILTER(map) {
  jj_iter *it;
  if (!lazy(run, v, "generator", map_next, result, &it)) return false;
  if (args->n == 0) {
    for (size_t i = 0; i < args->n_named; i++) {
      const wf_str name = {args->names[i]->at, args->names[i]->n};
      if (wf_str_is(name, "attribute")) it->flag = true;
      if (wf_str_is(name, "attribute")) it->extra[0] = args->values[i];
      if (wf_str_is(name, "default")) it->extra[1] = args->values[i];
    }
    bool truth;
    if (!wf_jj_truth(run, v, &truth)) return false;
    if (!it->flag && truth) return wf_jj_raise(run, "map requires a filter argument");
    return true;
  }
  it->extra[0] = args->at[0];
  it->args = *args;
  it->args.at++;
  it->args.n--;
  return true;
}

/* g->flag: reject; number: 1 with an attribute in extra[0]; extra[1] the test's name */
static int select_next(jj_run *run, jj_iter *g, jj_val *item) {
  for (;;) {
    jj_val value;
    const int got = pull_if_true(run, g, item);
    if (got <= 0) return got;
    bool pass = false;
    value = *item;
    if (g->number && !get_attribute(run, item, &g->extra[0], NULL, &value)) return -1;
    if (g->extra[1].kind == JJ_STR) {
      const jj_str *s = wf_jj_flat(run, g->extra[1].u.s);
      const jj_test *t = s ? wf_jj_test(s->at, s->n) : NULL;
      if (!t) return s && wf_jj_raise(run, "No test named '%.80s'.", s->at) ? 1 : -1;
      if (!t->call(run, &value, &g->args, &pass)) return -1;
    } else if (g->extra[1].kind != JJ_MISSING) {
      wf_jj_raise(run, "No test named %s found", wf_jj_type(&g->extra[1]));
      return -1;
    } else if (!wf_jj_truth(run, &value, &pass)) {
      return -1;
    }
    if (pass != g->flag) return 1;
  }
}

static bool pick(jj_run *run, const jj_val *v, const jj_args *args, bool reject, bool attribute,
                 jj_val *result) {
  jj_iter *it;
  const size_t off = attribute;
  if (!lazy(run, v, "generator", select_next, result, &it)) return false;
  it->flag = reject;
  it->number = attribute;
  if (attribute) {
    bool truth;
    if (!wf_jj_truth(run, v, &truth)) return false;
    if (args->n == 0 && truth) return wf_jj_raise(run, "Missing parameter for attribute name");
    if (args->n) it->extra[0] = args->at[0];
  }
  if (args->n > off) {
    it->extra[1] = args->at[off];
    it->args = *args;
    it->args.at += off + 1;
    it->args.n -= off + 1;
  }
  return true;
}
FILTER(select) { return pick(run, v, args, false, false, result); }
FILTER(reject) { return pick(run, v, args, true, false, result); }
FILTER(selectattr) { return pick(run, v, args, false, true, result); }
FILTER(rejectattr) { return pick(run, v, args, true, true, result); }

static int unique_next(jj_run *run, jj_iter *g, jj_val *item) {
  jj_dict *seen = g->extra[1].u.d;
  for (;;) {
    jj_val key, value;
    const int got = pull(run, g, item);
    if (got <= 0) return got;
    if (!get_attribute(run, item, &g->extra[0], NULL, &key) || !fold(run, &key, g->flag)) return -1;
    const int known = wf_jj_dict_get(run, seen, &key, &value);
    if (known < 0) return -1;
    if (known == 0) return wf_jj_dict_set(run, seen, key, wf_jj_none()) ? 1 : -1;
  }
}

FILTER(unique) {
  jj_val a[2];
  jj_iter *it;
  BIND("case_sensitive,attribute", 0, a);
  if (!lazy(run, v, "generator", unique_next, result, &it)) return false;
  it->extra[0] = a[1];
  it->extra[1] = (jj_val){.kind = JJ_DICT, .u.d = wf_jj_dict(run, 8)};
  return it->extra[1].u.d && flag_of(run, &a[0], &it->flag);
}

static int batch_next(jj_run *run, jj_iter *g, jj_val *item) {
  jj_vals part = {0};
  jj_val each;
  for (int got = 1; (int64_t)part.n < g->number || part.n == 0;) {
    got = pull(run, g, &each);
    if (got < 0) return -1;
    if (got == 0) break;
    if (!wf_jj_push(run, &part, each)) return -1;
  }
  if (part.n == 0) return 0;
  while (g->extra[0].kind > JJ_NONE && (int64_t)part.n < g->number) {
    if (!wf_jj_push(run, &part, g->extra[0])) return -1;
  }
  *item = wf_jj_list(run, JJ_LIST, part.at, part.n);
  return item->kind == JJ_LIST ? 1 : -1;
}

FILTER(batch) {
  jj_val a[2];
  jj_iter *it;
  BIND("linecount,fill_with", 1, a);
  if (!lazy(run, v, "generator", batch_next, result, &it)) return false;
  it->extra[0] = a[1];
  return wf_jj_want_int(run, &a[0], "batch", &it->number);
}

static int slice_next(jj_run *run, jj_iter *g, jj_val *item) {
  if (!g->flag2) {
    jj_vals items;
    const jj_val over = g->source->over;
    g->flag2 = true;
    if (!wf_jj_collect(run, &over, &items)) return -1;
    if (g->number == 0) return wf_jj_raise(run, "integer division or modulo by zero") ? 1 : -1;
    g->extra[1] = wf_jj_list(run, JJ_LIST, items.at, items.n);
    if (!g->extra[1].kind) return -1;
  }
  const jj_list *l = g->extra[1].u.l;
  if (g->number < 0 || (int64_t)g->at >= g->number) return 0;
  const size_t n = (size_t)g->number, each = l->n / n, more = l->n % n, k = g->at++;
  const size_t begin = k * each + (k < more ? k : more), size = each + (k < more);
  jj_vals part = {0};
  for (size_t i = 0; i < size; i++) {
    if (!wf_jj_push(run, &part, l->at[begin + i])) return -1;
  }
  if (g->extra[0].kind > JJ_NONE && k >= more && !wf_jj_push(run, &part, g->extra[0])) return -1;
  *item = wf_jj_list(run, JJ_LIST, part.at, part.n);
  return item->kind == JJ_LIST ? 1 : -1;
}

FILTER(slice) {
  jj_val a[2];
  jj_iter *it;
  BIND("slices,fill_with", 1, a);
  if (!lazy(run, v, "generator", slice_next, result, &it)) return false;
  it->extra[0] = a[1];
  return wf_jj_want_int(run, &a[0], "slice", &it->number);
}

FILTER(random) {
  (void)v;
  (void)args;
  (void)result;
  return wf_jj_raise(run, "the random filter is refused: a chat template must be repeatable");
}

FILTER(pprint) {
  jj_val none[1];
  jj_buf b = {0};
  BIND("", 0, none);
  if (!wf_jj_add_repr(run, &b, v)) return false; /* one line; pprint wraps from 80 columns on */
  *result = wf_jj_buf_done(run, &b);
  return result->kind == JJ_STR;
}

const jj_filter *wf_jj_seqfilter(const char *name, size_t n) {
  static const jj_filter filters[] = {
      {"batch", f_batch},     {"dictsort", f_dictsort}, {"first", f_first},
      {"groupby", f_groupby}, {"items", f_items},       {"join", f_join},
      {"last", f_last},       {"list", f_list},         {"map", f_map},
      {"max", f_max},         {"min", f_min},           {"pprint", f_pprint},
      {"random", f_random},   {"reject", f_reject},     {"rejectattr", f_rejectattr},
      {"reverse", f_reverse}, {"select", f_select},     {"selectattr", f_selectattr},
      {"slice", f_slice},     {"sort", f_sort},         {"sum", f_sum},
      {"unique", f_unique}};
  for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
    if (strlen(filters[i].name) == n && memcmp(filters[i].name, name, n) == 0) return &filters[i];
  }
  return NULL;
}
