/* SPDX-License-Identifier: Apache-2.0 */
/* The tests behind `is`. */
#include "text/jinja.h"

#define TEST(name) \
  static bool t_##name(jj_run *run, const jj_val *v, const jj_args *args, bool *result)

static bool bind(jj_run *run, const jj_args *args, const char *name, size_t n, jj_val out[1]) {
  return wf_jj_args(run, args, name, n ? "other" : "", n, out);
}

/* A test without arguments whose answer is one expression. */
#define PLAIN(name, expression)                      \
  TEST(name) {                                       \
    jj_val a[1];                                     \
    if (!bind(run, args, #name, 0, a)) return false; \
    *result = (expression);                          \
    return true;                                     \
  }
PLAIN(defined, v->kind != JJ_UNDEFINED)
PLAIN(undefined, v->kind == JJ_UNDEFINED)
PLAIN(none, v->kind == JJ_NONE)
PLAIN(boolean, v->kind == JJ_BOOL)
PLAIN(is_true, v->kind == JJ_BOOL && v->u.b)
PLAIN(is_false, v->kind == JJ_BOOL && !v->u.b)
PLAIN(integer, v->kind == JJ_INT)
PLAIN(float, v->kind == JJ_FLOAT)
PLAIN(number, wf_jj_is_number(v))
PLAIN(string, v->kind == JJ_STR)
PLAIN(mapping, v->kind == JJ_DICT)
PLAIN(iterable, wf_jj_iterable(v))
PLAIN(sequence, v->kind == JJ_STR || v->kind == JJ_LIST || v->kind == JJ_TUPLE ||
                    v->kind == JJ_DICT || v->kind == JJ_RANGE || v->kind == JJ_UNDEFINED)
PLAIN(callable, v->kind == JJ_MACRO || v->kind == JJ_FUNCTION || v->kind == JJ_METHOD ||
                    v->kind == JJ_LOOP || v->kind == JJ_JOINER || v->kind == JJ_UNDEFINED)
PLAIN(escaped, v->kind == JJ_STR && v->u.s->markup)

static bool remainder_is(jj_run *run, const jj_val *v, const jj_val *by, int64_t want,
                         bool *result) {
  jj_val rest, wanted = wf_jj_int(want);
  if (v->kind == JJ_STR) {
    if (!wf_jj_percent(run, v->u.s, by, &rest)) return false;
    *result = false;
    return true;
  }
  if (!wf_jj_binary(run, JJ_OP_MOD, v, by, &rest)) return false;
  *result = wf_jj_equal(run, &rest, &wanted) == 1;
  return true;
}

TEST(odd) {
  jj_val a[1];
  const jj_val two = wf_jj_int(2);
  return bind(run, args, "odd", 0, a) && remainder_is(run, v, &two, 1, result);
}

TEST(even) {
  jj_val a[1];
  const jj_val two = wf_jj_int(2);
  return bind(run, args, "even", 0, a) && remainder_is(run, v, &two, 0, result);
}

TEST(divisibleby) {
  jj_val a[1];
  return wf_jj_args(run, args, "divisibleby", "num", 1, a) &&
         remainder_is(run, v, &a[0], 0, result);
}

static bool cased(jj_run *run, const jj_val *v, const jj_args *args, const char *method,
                  bool *result) {
  jj_val a[1], text, bound, answer;
  bool unsafe;
  const jj_str name = {.at = method, .n = strlen(method), .n_chars = strlen(method)};
  const jj_args none = {0};
  if (!bind(run, args, method, 0, a) || !wf_jj_to_str(run, v, &text) ||
      !wf_jj_method(run, &text, &name, &bound, &unsafe) ||
      !wf_jj_call(run, &bound, &none, &answer)) {
    return false;
  }
  *result = answer.u.b;
  return true;
}
TEST(lower) { return cased(run, v, args, "islower", result); }
TEST(upper) { return cased(run, v, args, "isupper", result); }

#define COMPARE(name, op)                                                            \
  TEST(name) {                                                                       \
    jj_val a[1];                                                                     \
    return bind(run, args, #name, 1, a) && wf_jj_compare(run, op, v, &a[0], result); \
  }
COMPARE(eq, JJ_OP_EQ)
COMPARE(ne, JJ_OP_NE)
COMPARE(lt, JJ_OP_LT)
COMPARE(le, JJ_OP_LE)
COMPARE(gt, JJ_OP_GT)
COMPARE(ge, JJ_OP_GE)

TEST(in) {
  jj_val a[1];
  return wf_jj_args(run, args, "in", "seq", 1, a) && wf_jj_contains(run, &a[0], v, result);
}

TEST(sameas) {
  jj_val a[1];
  if (!bind(run, args, "sameas", 1, a)) return false;
  *result = v->kind == a[0].kind && wf_jj_equal(run, v, &a[0]) == 1;
  if (*result && (v->kind == JJ_LIST || v->kind == JJ_TUPLE)) *result = v->u.l == a[0].u.l;
  if (*result && v->kind == JJ_DICT) *result = v->u.d == a[0].u.d;
  return run->status == WEFT_OK;
}

TEST(filter) {
  jj_val a[1];
  if (!bind(run, args, "filter", 0, a)) return false;
  const jj_str *s = v->kind == JJ_STR ? wf_jj_flat(run, v->u.s) : NULL;
  *result = s && wf_jj_filter(s->at, s->n);
  return run->status == WEFT_OK;
}

TEST(test) {
  jj_val a[1];
  if (!bind(run, args, "test", 0, a)) return false;
  const jj_str *s = v->kind == JJ_STR ? wf_jj_flat(run, v->u.s) : NULL;
  *result = s && wf_jj_test(s->at, s->n);
  return run->status == WEFT_OK;
}

const jj_test *wf_jj_test(const char *name, size_t n) {
  static const jj_test tests[] = {{"odd", t_odd},
                                  {"even", t_even},
                                  {"divisibleby", t_divisibleby},
                                  {"defined", t_defined},
                                  {"undefined", t_undefined},
                                  {"filter", t_filter},
                                  {"test", t_test},
                                  {"none", t_none},
                                  {"boolean", t_boolean},
                                  {"false", t_is_false},
                                  {"true", t_is_true},
                                  {"integer", t_integer},
                                  {"float", t_float},
                                  {"lower", t_lower},
                                  {"upper", t_upper},
                                  {"string", t_string},
                                  {"mapping", t_mapping},
                                  {"number", t_number},
                                  {"sequence", t_sequence},
                                  {"iterable", t_iterable},
                                  {"callable", t_callable},
                                  {"sameas", t_sameas},
                                  {"escaped", t_escaped},
                                  {"in", t_in},
                                  {"==", t_eq},
                                  {"eq", t_eq},
                                  {"equalto", t_eq},
                                  {"!=", t_ne},
                                  {"ne", t_ne},
                                  {">", t_gt},
                                  {"gt", t_gt},
                                  {"greaterthan", t_gt},
                                  {"ge", t_ge},
                                  {">=", t_ge},
                                  {"<", t_lt},
                                  {"lt", t_lt},
                                  {"lessthan", t_lt},
                                  {"<=", t_le},
                                  {"le", t_le}};
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    if (strlen(tests[i].name) == n && memcmp(tests[i].name, name, n) == 0) return &tests[i];
  }
  return NULL;
}
