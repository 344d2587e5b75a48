/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "workflow/datum.h"

static wf_datum_pool *new_pool(void) {
  weft_error err = {0};
  wf_datum_pool *pool = NULL;
  assert_ok(wf_datum_pool_create(&pool, &err), &err);
  assert_non_null(pool);
  return pool;
}

static wf_datum *new_datum(wf_datum_pool *pool, wf_dtype dtype, int32_t rank, const int64_t *dims) {
  weft_error err = {0};
  wf_datum *v = NULL;
  assert_ok(wf_datum_create(&v, pool, dtype, rank, dims, &err), &err);
  assert_non_null(v);
  return v;
}

/* ---- the pool ------------------------------------------------------------------------------ */

static void a_new_value_has_its_type_its_extents_and_aligned_memory(void **state) {
  (void)state;
  wf_datum_pool *pool = new_pool();
  static const struct {
    wf_dtype dtype;
    int32_t rank;
    int64_t dims[3];
    size_t n_bytes; /* by hand */
  } cases[] = {{WF_DTYPE_F32, 3, {2, 3, 5}, 120}, {WF_DTYPE_I64, 0, {0}, 8},
               {WF_DTYPE_BOOL, 1, {7}, 7},        {WF_DTYPE_F16, 2, {4, 0}, 0},
               {WF_DTYPE_I4, 1, {5}, 3},          {WF_DTYPE_U8, 2, {1000, 1000}, 1000000}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    wf_datum *v = new_datum(pool, cases[i].dtype, cases[i].rank, cases[i].dims);
    assert_int_equal(v->refs, 1);
    assert_int_equal(v->view.dtype, cases[i].dtype);
    assert_int_equal(v->view.rank, cases[i].rank);
    for (int32_t d = 0; d < cases[i].rank; d++) {
      assert_int_equal(v->view.dims[d], cases[i].dims[d]);
    }
    assert_int_equal(v->n_bytes, cases[i].n_bytes);
    assert_int_equal(wf_view_bytes(&v->view), cases[i].n_bytes);
    assert_non_null(v->view.data); /* also of an empty tensor */
    assert_int_equal((uintptr_t)v->view.data % 64, 0);
    memset(v->view.data, 0xa5, v->n_bytes); /* a sanitizer sees memory that is too short */
    wf_datum_unref(v);
  }
  wf_datum_pool_destroy(pool);
}

static void a_freed_value_serves_the_next_without_an_allocation(void **state) {
  (void)state;
  enum { N_VALUES = 12, N_ITERATIONS = 100 };
  wf_datum_pool *pool = new_pool();
  wf_datum *v[N_VALUES];
  assert_int_equal(wf_datum_pool_allocations(pool), 0);
  assert_int_equal(wf_datum_pool_bytes(pool), 0);
  uint64_t allocations = 0;
  size_t bytes = 0;
  for (int round = 0; round < N_ITERATIONS; round++) { /* a loop's body: the same sizes each time */
    for (int i = 0; i < N_VALUES; i++) {
      const int64_t dims[] = {i + 1, (int64_t)1 << i};
      v[i] = new_datum(pool, WF_DTYPE_F32, 2, dims);
      memset(v[i]->view.data, round, v[i]->n_bytes);
    }
    for (int i = 0; i < N_VALUES; i++) { /* no two values share memory */
      const unsigned char *a = v[i]->view.data;
      for (int k = 0; k < i; k++) {
        const unsigned char *b = v[k]->view.data;
        assert_true(a + v[i]->n_bytes <= b || b + v[k]->n_bytes <= a);
      }
    }
    if (round == 0) {
      allocations = wf_datum_pool_allocations(pool);
      bytes = wf_datum_pool_bytes(pool);
      assert_int_equal(allocations, N_VALUES); /* all are out at once: each has its own */
    }
    /* freed in another order each round */
    for (int i = 0; i < N_VALUES; i++) wf_datum_unref(v[(i + round) % N_VALUES]);
  }
  assert_int_equal(wf_datum_pool_allocations(pool), allocations);
  assert_int_equal(wf_datum_pool_bytes(pool), bytes);
  wf_datum_pool_destroy(pool);
}

static void a_reused_value_shows_only_its_own_type_and_extents(void **state) {
  (void)state;
  wf_datum_pool *pool = new_pool();
  wf_datum *first = new_datum(pool, WF_DTYPE_F32, 3, (const int64_t[]){2, 2, 2});
  void *data = first->view.data;
  wf_datum_unref(first);
  wf_datum *second = new_datum(pool, WF_DTYPE_I64, 1, (const int64_t[]){3});
  assert_ptr_equal(second->view.data, data); /* it is the same memory */
  assert_int_equal(wf_datum_pool_allocations(pool), 1);
  assert_int_equal(second->view.dtype, WF_DTYPE_I64);
  assert_int_equal(second->view.rank, 1);
  assert_int_equal(second->view.dims[0], 3);
  assert_int_equal(second->n_bytes, 24);
  assert_int_equal(second->refs, 1);
  wf_datum_unref(second);
  wf_datum_pool_destroy(pool);
}

static void a_value_is_kept_until_its_last_reference_goes(void **state) {
  (void)state;
  wf_datum_pool *pool = new_pool();
  wf_datum *v = new_datum(pool, WF_DTYPE_I32, 1, (const int64_t[]){4});
  memcpy(v->view.data, (const int32_t[]){1, 2, 3, 4}, 16);
  assert_ptr_equal(wf_datum_ref(v), v);
  wf_datum_unref(v);
  wf_datum *other = new_datum(pool, WF_DTYPE_I32, 1, (const int64_t[]){4});
  assert_ptr_not_equal(other, v);
  memset(other->view.data, 0xff, 16);
  assert_memory_equal(v->view.data, ((const int32_t[]){1, 2, 3, 4}), 16);
  wf_datum_unref(v);
  assert_int_equal(wf_datum_pool_allocations(pool), 2);
  wf_datum *third = new_datum(pool, WF_DTYPE_I32, 1, (const int64_t[]){4});
  assert_ptr_equal(third, v); /* now it is free */
  wf_datum_unref(third);
  wf_datum_unref(other);
  wf_datum_unref(NULL);
  wf_datum_pool_destroy(pool);
}

/* What is read or freed too early, and what is never freed, only a sanitizer sees in full. */
static void values_outlive_their_pool(void **state) {
  (void)state;
  enum { N = 5 };
  wf_datum_pool *pool = new_pool();
  wf_datum *v[N];
  for (int i = 0; i < N; i++) {
    v[i] = new_datum(pool, WF_DTYPE_U8, 1, (const int64_t[]){1000 << i});
    memset(v[i]->view.data, i + 1, v[i]->n_bytes);
  }
  wf_datum_unref(v[1]); /* one is free when the pool goes, the others are out */
  wf_datum_ref(v[2]);
  wf_datum_pool_destroy(pool);
  void *noise[N]; /* whatever the pool gave back is written over */
  for (int i = 0; i < N; i++) {
    noise[i] = malloc((size_t)2048 << i);
    assert_non_null(noise[i]);
    memset(noise[i], 0xee, (size_t)2048 << i);
  }
  static const int order[] = {4, 2, 0, 3, 2};
  for (int k = 0; k < N; k++) {
    const wf_datum *d = v[order[k]];
    for (size_t at = 0; at < d->n_bytes; at++) {
      assert_int_equal(((const unsigned char *)d->view.data)[at], order[k] + 1);
    }
    wf_datum_unref(v[order[k]]);
  }
  for (int i = 0; i < N; i++) free(noise[i]);
  wf_datum_pool_destroy(NULL);
}

static void a_copy_has_the_bytes_and_is_apart_from_its_source(void **state) {
  (void)state;
  weft_error err = {0};
  wf_datum_pool *pool = new_pool();
  int16_t source[6] = {1, -2, 3, -4, 5, -6};
  const int16_t expected[6] = {1, -2, 3, -4, 5, -6};
  const wf_view view = {.dtype = WF_DTYPE_I16, .rank = 2, .dims = {2, 3}, .data = source};
  wf_datum *copy = NULL, *empty = NULL;
  assert_ok(wf_datum_copy(&copy, pool, &view, &err), &err);
  memset(source, 0, sizeof source);
  assert_memory_equal(copy->view.data, expected, sizeof expected);
  assert_int_equal(copy->view.dims[0], 2);
  assert_int_equal(copy->view.dims[1], 3);
  const wf_view nothing = {.dtype = WF_DTYPE_F32, .rank = 2, .dims = {0, 3}, .data = source};
  assert_ok(wf_datum_copy(&empty, pool, &nothing, &err), &err);
  assert_int_equal(empty->n_bytes, 0);
  wf_datum_unref(copy);
  wf_datum_unref(empty);
  wf_datum_pool_destroy(pool);
}

static void extents_that_no_tensor_has_are_refused(void **state) {
  (void)state;
  static const struct {
    wf_dtype dtype;
    int32_t rank;
    int64_t dims[WF_VIEW_MAX_RANK];
  } cases[] = {
      {WF_DTYPE_F32, -1, {1}},
      {WF_DTYPE_F32, WF_VIEW_MAX_RANK + 1, {1, 1, 1, 1, 1, 1, 1, 1}},
      {WF_DTYPE_F32, 2, {2, -1}},
      {WF_DTYPE_F32, 2, {INT64_MAX, 3}}, /* elements overflow */
      {WF_DTYPE_F32, 1, {INT64_MAX}},    /* bytes overflow */
      {WF_DTYPE_U8, 2, {INT64_MAX, 2}},  /* 2^64 - 2 bytes: no room for a head */
      {WF_DTYPE_STRING, 1, {1}},         /* no size */
      {WF_DTYPE_UNDEFINED, 1, {1}},
  };
  wf_datum_pool *pool = new_pool();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    weft_error err = {0};
    wf_datum *v = NULL;
    const weft_status st =
        wf_datum_create(&v, pool, cases[i].dtype, cases[i].rank, cases[i].dims, &err);
    if (st != WEFT_LIMIT) fail_msg("case %d: %s", (int)i, weft_status_name(st));
    assert_int_equal(err.status, WEFT_LIMIT);
    assert_true(err.what[0] != '\0' && err.fix[0] != '\0');
    assert_null(v);
  }
  weft_error err = {0};
  wf_datum *v = NULL;
  /* A size that fits a size_t and that no machine has. */
  assert_refused(
      wf_datum_create(&v, pool, WF_DTYPE_U8, 1, (const int64_t[]){(int64_t)1 << 60}, &err),
      WEFT_OUT_OF_MEMORY, &err);
  assert_null(v);
  assert_int_equal(wf_datum_pool_allocations(pool), 0);
  assert_int_equal(wf_datum_pool_bytes(pool), 0);
  v = new_datum(pool, WF_DTYPE_U8, 1, (const int64_t[]){1}); /* the pool still works */
  wf_datum_unref(v);
  wf_datum_pool_destroy(pool);
}

/* ---- slices -------------------------------------------------------------------------------- */

enum { SLICE_RANK = 4, MAX_BYTES = 4 * 6 * 6 * 6 * 8 };

/* Row-major offset in elements. */
static size_t offset_of(const wf_view *v, const int64_t *at) {
  size_t n = 0;
  for (int32_t d = 0; d < v->rank; d++) n = n * (size_t)v->dims[d] + (size_t)at[d];
  return n;
}

/* The judge: every element of `to`, one by one. Where the slice lies, the element of `from` that
 * belongs there; elsewhere what was there before. */
static void assert_slice(const wf_view *from, int32_t axis, int64_t begin, int64_t end,
                         const wf_view *to, int64_t to_begin, const unsigned char *before,
                         size_t element) {
  int64_t at[SLICE_RANK] = {0};
  const int64_t n = wf_view_elements(to);
  for (int64_t i = 0; i < n; i++) {
    int64_t rest = i;
    for (int32_t d = to->rank - 1; d >= 0; d--) {
      at[d] = rest % to->dims[d];
      rest /= to->dims[d];
    }
    const unsigned char *expected = before + (size_t)i * element;
    const int64_t k = at[axis] - to_begin + begin;
    if (k >= begin && k < end) {
      at[axis] = k;
      expected = (const unsigned char *)from->data + offset_of(from, at) * element;
    }
    assert_memory_equal((const unsigned char *)to->data + (size_t)i * element, expected, element);
  }
}

static void a_slice_of_each_axis_is_what_a_plain_loop_copies(void **state) {
  (void)state;
  static const struct {
    wf_dtype dtype;
    size_t element;
  } types[] = {{WF_DTYPE_U8, 1}, {WF_DTYPE_F16, 2}, {WF_DTYPE_F32, 4}, {WF_DTYPE_I64, 8}};
  static unsigned char source[MAX_BYTES], target[MAX_BYTES + 64], before[MAX_BYTES + 64];
  srand(11);
  for (int step = 0; step < 2000; step++) {
    const size_t type = (size_t)(rand() % 4);
    wf_view from = {.dtype = types[type].dtype, .rank = 1 + rand() % SLICE_RANK, .data = source};
    const int32_t axis = step % from.rank;
    for (int32_t d = 0; d < from.rank; d++) from.dims[d] = 1 + rand() % 5;
    wf_view to = from;
    to.data = target;
    to.dims[axis] = 1 + rand() % 6; /* the axis of both differs, the others do not */
    const int64_t most =
        from.dims[axis] < to.dims[axis] ? from.dims[axis] : to.dims[axis]; /* what fits */
    const int64_t n = rand() % (most + 1); /* also nothing, also all */
    const int64_t begin = rand() % (from.dims[axis] - n + 1);
    const int64_t to_begin = rand() % (to.dims[axis] - n + 1);
    for (size_t i = 0; i < sizeof source; i++) source[i] = (unsigned char)rand();
    for (size_t i = 0; i < sizeof target; i++) target[i] = (unsigned char)rand();
    memcpy(before, target, sizeof before);
    wf_view_copy_slice(&from, axis, begin, begin + n, &to, to_begin);
    assert_slice(&from, axis, begin, begin + n, &to, to_begin, before, types[type].element);
    const size_t n_bytes = wf_view_bytes(&to); /* and nothing behind it */
    assert_memory_equal(target + n_bytes, before + n_bytes, sizeof target - n_bytes);
  }
}

static void a_slice_of_a_small_matrix_is_the_one_worked_by_hand(void **state) {
  (void)state;
  int32_t source[] = {1, 2, 3, 4, 5, 6}, rows[6] = {0}, columns[8] = {0};
  const wf_view from = {.dtype = WF_DTYPE_I32, .rank = 2, .dims = {2, 3}, .data = source};
  const wf_view by_rows = {.dtype = WF_DTYPE_I32, .rank = 2, .dims = {2, 3}, .data = rows};
  const wf_view by_columns = {.dtype = WF_DTYPE_I32, .rank = 2, .dims = {2, 4}, .data = columns};
  wf_view_copy_slice(&from, 0, 1, 2, &by_rows, 0);
  assert_memory_equal(rows, ((const int32_t[]){4, 5, 6, 0, 0, 0}), sizeof rows);
  wf_view_copy_slice(&from, 1, 1, 3, &by_columns, 2);
  assert_memory_equal(columns, ((const int32_t[]){0, 0, 2, 3, 0, 0, 5, 6}), sizeof columns);
}

/* ---- control reads ------------------------------------------------------------------------- */

typedef struct int_case {
  wf_dtype dtype;
  size_t element;
  uint64_t bits; /* little-endian, the low bytes of it */
  int64_t expected;
} int_case;

static void an_integer_of_each_type_is_read(void **state) {
  (void)state;
  static const int_case cases[] = {
      {WF_DTYPE_I8, 1, 0x7f, 127},
      {WF_DTYPE_I8, 1, 0x80, -128},
      {WF_DTYPE_I8, 1, 0xff, -1},
      {WF_DTYPE_U8, 1, 0x00, 0},
      {WF_DTYPE_U8, 1, 0xff, 255},
      {WF_DTYPE_I16, 2, 0x7fff, 32767},
      {WF_DTYPE_I16, 2, 0x8000, -32768},
      {WF_DTYPE_I16, 2, 0xffff, -1},
      {WF_DTYPE_U16, 2, 0xffff, 65535},
      {WF_DTYPE_I32, 4, 0x7fffffff, 2147483647},
      {WF_DTYPE_I32, 4, 0x80000000, -2147483648LL},
      {WF_DTYPE_I32, 4, 0xffffffff, -1},
      {WF_DTYPE_U32, 4, 0xffffffff, 4294967295LL},
      {WF_DTYPE_I64, 8, 0x7fffffffffffffff, INT64_MAX},
      {WF_DTYPE_I64, 8, 0x8000000000000000, INT64_MIN},
      {WF_DTYPE_I64, 8, 0xffffffffffffffff, -1},
      {WF_DTYPE_U64, 8, 0x0123456789abcdef, 81985529216486895LL},
      {WF_DTYPE_U64, 8, 0x7fffffffffffffff, INT64_MAX},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int64_t at = 0; at < 3; at++) { /* neighbours hold other bits; data need not be aligned */
      unsigned char bytes[1 + 3 * 8];
      memset(bytes, 0x5a, sizeof bytes);
      for (size_t b = 0; b < cases[i].element; b++) {
        bytes[1 + (size_t)at * cases[i].element + b] = (unsigned char)(cases[i].bits >> (8 * b));
      }
      const wf_view v = {.dtype = cases[i].dtype, .rank = 1, .dims = {3}, .data = bytes + 1};
      int64_t got = 99;
      if (!wf_view_int(&v, at, &got)) fail_msg("%s is not read", wf_dtype_name(cases[i].dtype));
      if (got != cases[i].expected) {
        fail_msg("%s at %d: read %lld, not %lld", wf_dtype_name(cases[i].dtype), (int)at,
                 (long long)got, (long long)cases[i].expected);
      }
    }
  }
}

static void a_uint64_above_what_int64_holds_is_refused(void **state) {
  (void)state;
  uint64_t values[] = {(uint64_t)INT64_MAX + 1, UINT64_MAX, (uint64_t)INT64_MAX};
  const wf_view v = {.dtype = WF_DTYPE_U64, .rank = 1, .dims = {3}, .data = values};
  int64_t got = 99;
  assert_false(wf_view_int(&v, 0, &got));
  assert_false(wf_view_int(&v, 1, &got));
  assert_int_equal(got, 99);
  assert_true(wf_view_int(&v, 2, &got)); /* the last that fits */
  assert_int_equal(got, INT64_MAX);
}

static void types_that_are_no_integers_are_not_read_as_one(void **state) {
  (void)state;
  static const wf_dtype types[] = {WF_DTYPE_F32,  WF_DTYPE_F64,    WF_DTYPE_F16,
                                   WF_DTYPE_BOOL, WF_DTYPE_STRING, WF_DTYPE_UNDEFINED};
  unsigned char bytes[16] = {1, 1, 1, 1, 1, 1, 1, 1};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    const wf_view v = {.dtype = types[i], .rank = 1, .dims = {1}, .data = bytes};
    int64_t got = 99;
    if (wf_view_int(&v, 0, &got)) fail_msg("%s is read", wf_dtype_name(types[i]));
    assert_int_equal(got, 99);
  }
}

static void a_truth_is_read_from_bool_alone(void **state) {
  (void)state;
  unsigned char bytes[] = {0, 1, 2, 0};
  wf_view v = {.dtype = WF_DTYPE_BOOL, .rank = 1, .dims = {4}, .data = bytes};
  static const bool expected[] = {false, true, true, false};
  for (int64_t at = 0; at < 4; at++) {
    bool got = !expected[at];
    assert_true(wf_view_bool(&v, at, &got));
    assert_int_equal(got, expected[at]);
  }
  bool got = false;
  v.dtype = WF_DTYPE_U8;
  assert_false(wf_view_bool(&v, 1, &got));
  assert_false(got);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_new_value_has_its_type_its_extents_and_aligned_memory),
      cmocka_unit_test(a_freed_value_serves_the_next_without_an_allocation),
      cmocka_unit_test(a_reused_value_shows_only_its_own_type_and_extents),
      cmocka_unit_test(a_value_is_kept_until_its_last_reference_goes),
      cmocka_unit_test(values_outlive_their_pool),
      cmocka_unit_test(a_copy_has_the_bytes_and_is_apart_from_its_source),
      cmocka_unit_test(extents_that_no_tensor_has_are_refused),
      cmocka_unit_test(a_slice_of_each_axis_is_what_a_plain_loop_copies),
      cmocka_unit_test(a_slice_of_a_small_matrix_is_the_one_worked_by_hand),
      cmocka_unit_test(an_integer_of_each_type_is_read),
      cmocka_unit_test(a_uint64_above_what_int64_holds_is_refused),
      cmocka_unit_test(types_that_are_no_integers_are_not_read_as_one),
      cmocka_unit_test(a_truth_is_read_from_bool_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
