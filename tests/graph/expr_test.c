/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions: equal sizes are equal ints, and values are those of the arithmetic they stand for
 * (worked out by hand or computed beside them over many bindings). */
#include "support/test.h"

#include <string.h>

#include "graph/graph.h"

typedef struct fixture {
  wf_expr_pool *p;
  wf_expr a, b, c;
} fixture;

static int setup(void **state) {
  fixture *f = wf_zalloc(sizeof *f);
  f->p = wf_expr_pool_create();
  f->a = wf_expr_symbol(f->p, WF_STR("a"));
  f->b = wf_expr_symbol(f->p, WF_STR("b"));
  f->c = wf_expr_symbol(f->p, WF_STR("c"));
  *state = f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  wf_expr_pool_destroy(f->p);
  wf_free(f);
  return 0;
}

static wf_expr k(fixture *f, int64_t v) { return wf_expr_const(f->p, v); }

static void equal_expressions_are_equal_ints(void **state) {
  fixture *f = *state;
  wf_expr_pool *p = f->p;
  const wf_expr sum = wf_expr_add(p, f->a, f->b);
  assert_int_equal(sum, wf_expr_add(p, f->b, f->a));
  assert_int_equal(wf_expr_sub(p, sum, f->b), f->a);
  assert_int_equal(wf_expr_mul(p, sum, f->c),
                   wf_expr_add(p, wf_expr_mul(p, f->c, f->b), wf_expr_mul(p, f->a, f->c)));
  assert_int_equal(
      wf_expr_mul(p, sum, sum),
      wf_expr_add(p, wf_expr_add(p, wf_expr_mul(p, f->a, f->a), wf_expr_mul(p, f->b, f->b)),
                  wf_expr_mul(p, k(f, 2), wf_expr_mul(p, f->a, f->b))));
  assert_int_equal(wf_expr_sub(p, f->a, f->a), k(f, 0));
  assert_int_equal(wf_expr_max(p, f->a, f->b), wf_expr_max(p, f->b, f->a));
}

static void division_is_exact_where_the_form_tells(void **state) {
  fixture *f = *state;
  wf_expr_pool *p = f->p;
  const wf_expr sum = wf_expr_add(p, f->a, f->b),
                product = wf_expr_mul(p, wf_expr_mul(p, sum, f->c), k(f, 64));
  assert_int_equal(wf_expr_exact_div(p, product, f->c), wf_expr_mul(p, sum, k(f, 64)));
  assert_int_equal(wf_expr_exact_div(p, product, sum), wf_expr_mul(p, f->c, k(f, 64)));
  assert_int_equal(wf_expr_floordiv(p, product, wf_expr_mul(p, f->c, k(f, 16))),
                   wf_expr_mul(p, sum, k(f, 4)));
  assert_int_equal(wf_expr_exact_div(p, f->a, f->b), WF_EXPR_NONE);
  assert_int_equal(wf_expr_mod(p, product, k(f, 32)), k(f, 0));
  assert_int_equal(wf_expr_floordiv(p, f->a, k(f, 0)), WF_EXPR_NONE);
  assert_int_equal(wf_expr_floordiv(p, k(f, -7), k(f, 2)), k(f, -4));
}

static void extremes_are_decided_when_the_difference_is(void **state) {
  fixture *f = *state;
  wf_expr_pool *p = f->p;
  const wf_expr more = wf_expr_add(p, f->a, k(f, 3));
  assert_int_equal(wf_expr_max(p, f->a, more), more);
  assert_int_equal(wf_expr_min(p, f->a, more), f->a);
  assert_int_equal(wf_expr_max(p, f->a, k(f, 0)), f->a);
  assert_int_equal(wf_expr_min(p, k(f, -2), k(f, 9)), k(f, -2));
}

static void values_are_those_of_the_arithmetic(void **state) {
  fixture *f = *state;
  wf_expr_pool *p = f->p;
  weft_error err = {0};
  const wf_expr e = wf_expr_add(
      p, wf_expr_mul(p, f->a, wf_expr_sub(p, f->b, k(f, 2))),
      wf_expr_max(p, wf_expr_floordiv(p, f->c, k(f, 3)), wf_expr_mod(p, f->b, k(f, 4))));
  for (int64_t a = 0; a < 5; a++) {
    for (int64_t b = 0; b < 9; b++) {
      for (int64_t c = 0; c < 20; c += 3) {
        const wf_binding v[] = {{f->a, a}, {f->b, b}, {f->c, c}};
        int64_t got, x = c / 3, y = b % 4;
        assert_ok(wf_expr_eval(p, e, v, 3, &got, &err), &err);
        assert_int_equal(got, a * (b - 2) + (x > y ? x : y));
      }
    }
  }
}

static void replacing_a_symbol_is_evaluating_with_its_value(void **state) {
  fixture *f = *state;
  wf_expr_pool *p = f->p;
  const wf_expr e = wf_expr_min(p, wf_expr_mul(p, f->a, f->a), wf_expr_floordiv(p, f->b, k(f, 2)));
  assert_int_equal(wf_expr_replace(p, wf_expr_replace(p, e, f->a, k(f, 3)), f->b, k(f, 40)),
                   k(f, 9));
  assert_int_equal(wf_expr_replace(p, e, f->c, k(f, 1)), e);
  assert_true(wf_expr_uses(p, e, f->b));
  assert_false(wf_expr_uses(p, wf_expr_replace(p, e, f->b, f->c), f->b));
}

static void what_is_unknown_too_large_or_unbound_is_refused(void **state) {
  fixture *f = *state;
  wf_expr_pool *p = f->p;
  weft_error err = {0};
  int64_t v;
  assert_refused(wf_expr_eval(p, WF_EXPR_NONE, NULL, 0, &v, &err), WEFT_INVALID_ARGUMENT, &err);
  assert_refused(wf_expr_eval(p, f->a, NULL, 0, &v, &err), WEFT_INVALID_ARGUMENT, &err);
  assert_non_null(strstr(err.what, "'a'"));
  const wf_binding big[] = {{f->a, INT64_C(1) << 40}, {f->b, 0}};
  assert_refused(wf_expr_eval(p, wf_expr_mul(p, f->a, f->a), big, 2, &v, &err), WEFT_LIMIT, &err);
  assert_refused(wf_expr_eval(p, wf_expr_floordiv(p, f->a, f->b), big, 2, &v, &err),
                 WEFT_INVALID_ARGUMENT, &err);
  assert_int_equal(wf_expr_add(p, k(f, INT64_MAX), k(f, 1)), WF_EXPR_NONE);
  assert_int_equal(wf_expr_mul(p, k(f, INT64_MAX), f->a) >= 0
                       ? wf_expr_mul(p, wf_expr_mul(p, k(f, INT64_MAX), f->a), k(f, 2))
                       : WF_EXPR_NONE,
                   WF_EXPR_NONE);
  assert_int_equal(wf_expr_add(p, f->a, WF_EXPR_NONE), WF_EXPR_NONE);
  wf_expr e = f->a; /* grows without end: at some point it is not known any more */
  for (int i = 0; i < 5000 && e >= 0; i++)
    e = wf_expr_max(p, wf_expr_floordiv(p, e, wf_expr_add(p, e, f->b)), f->c);
  assert_int_equal(e, WF_EXPR_NONE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(equal_expressions_are_equal_ints, setup, teardown),
      cmocka_unit_test_setup_teardown(division_is_exact_where_the_form_tells, setup, teardown),
      cmocka_unit_test_setup_teardown(extremes_are_decided_when_the_difference_is, setup, teardown),
      cmocka_unit_test_setup_teardown(values_are_those_of_the_arithmetic, setup, teardown),
      cmocka_unit_test_setup_teardown(replacing_a_symbol_is_evaluating_with_its_value, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(what_is_unknown_too_large_or_unbound_is_refused, setup,
                                      teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
