/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "import/gguf.h"
#include "toy_gguf.h"

static char *folder, *path;

static int make_folder(void **state) {
  (void)state;
  folder = toy_folder();
  path = folder ? wf_path_join(folder, "m.gguf") : NULL;
  return path ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  (void)unlink(path);
  (void)rmdir(folder);
  wf_free(path);
  wf_free(folder);
  return 0;
}

/* Writes the bytes and opens them. */
static weft_status open_bytes(wf_gguf *g, const wf_buf *b, size_t n, weft_error *err) {
  assert_false(b->failed);
  assert_ok(wf_file_write(path, b->n > 0 ? b->at : "", n, true, err), err);
  return wf_gguf_open(g, path, err);
}

static void assert_damaged(wf_buf *b, const char *words) {
  wf_gguf g;
  weft_error err = {0};
  assert_refused(open_bytes(&g, b, b->n, &err), WEFT_PARSE, &err);
  if (!strstr(err.what, words)) fail_msg("'%s' does not say '%s'", err.what, words);
  assert_true(err.fix[0] != '\0');
  wf_buf_deinit(b);
}

static void every_kind_of_value_is_read(void **state) {
  (void)state;
  wf_buf b = {0};
  wf_gguf g;
  weft_error err = {0};
  uint64_t u = 0;
  double f = 0;
  bool found, yes = false;
  wf_str s = {0};
  static const char *const words[] = {"one", "", "three"};
  toy_header(&b, 0, 5);
  toy_key_u32(&b, "a.count", 7);
  toy_key_string(&b, "a.name", "tree");
  toy_key_strings(&b, "a.words", words, 3);
  toy_str(&b, "a.eps");
  toy_u32(&b, 6);
  const float eps = 0.25f;
  wf_buf_add(&b, &eps, 4);
  toy_str(&b, "a.flag");
  toy_u32(&b, 7);
  wf_buf_putc(&b, 1);
  assert_ok(open_bytes(&g, &b, b.n, &err), &err);
  assert_ok(wf_gguf_u64(&g, "a.count", &u, &found, &err), &err);
  assert_true(found && u == 7);
  assert_ok(wf_gguf_f64(&g, "a.eps", &f, &found, &err), &err);
  assert_true(found && f >= 0.25 && f <= 0.25);
  assert_ok(wf_gguf_bool(&g, "a.flag", &yes, &found, &err), &err);
  assert_true(found && yes);
  assert_ok(wf_gguf_string(&g, "a.name", &s, &found, &err), &err);
  assert_true(wf_str_is(s, "tree"));
  size_t cursor = 0;
  const wf_gguf_entry *e = wf_gguf_find(&g, "a.words");
  assert_non_null(e);
  for (size_t i = 0; i < 3; i++) {
    assert_true(wf_gguf_array_next(e, &cursor, &s));
    assert_true(wf_str_is(s, words[i]));
  }
  assert_false(wf_gguf_array_next(e, &cursor, &s));
  assert_ok(wf_gguf_u64(&g, "a.absent", &u, &found, &err), &err);
  assert_true(!found && u == 7);
  assert_refused(wf_gguf_u64(&g, "a.name", &u, &found, &err), WEFT_PARSE, &err);
  assert_refused(wf_gguf_string(&g, "a.count", &s, &found, &err), WEFT_PARSE, &err);
  assert_refused(wf_gguf_u64(&g, "a.eps", &u, &found, &err), WEFT_PARSE, &err);
  wf_gguf_close(&g);
  wf_gguf_close(&g);
  wf_buf_deinit(&b);
}

static void an_array_of_equal_numbers_is_that_number(void **state) {
  (void)state;
  for (uint32_t last = 3; last <= 4; last++) {
    wf_buf b = {0};
    wf_gguf g;
    weft_error err = {0};
    uint64_t u = 0;
    bool found;
    toy_header(&b, 0, 1);
    toy_str(&b, "a.heads");
    toy_u32(&b, 9);
    toy_u32(&b, 4);
    toy_u64(&b, 2);
    toy_u32(&b, 3);
    toy_u32(&b, last);
    assert_ok(open_bytes(&g, &b, b.n, &err), &err);
    if (last == 3) {
      assert_ok(wf_gguf_u64(&g, "a.heads", &u, &found, &err), &err);
      assert_int_equal(u, 3);
    } else {
      assert_refused(wf_gguf_u64(&g, "a.heads", &u, &found, &err), WEFT_UNSUPPORTED, &err);
    }
    wf_gguf_close(&g);
    wf_buf_deinit(&b);
  }
}

static void a_whole_model_opens_and_its_tensors_lie_inside(void **state) {
  (void)state;
  wf_buf b = {0};
  wf_gguf g;
  weft_error err = {0};
  toy_model(&b);
  assert_ok(open_bytes(&g, &b, b.n, &err), &err);
  assert_int_equal(g.tensors.n, 11);
  const wf_gguf_tensor *t = wf_gguf_find_tensor(&g, "blk.0.ffn_down.weight");
  assert_non_null(t);
  assert_int_equal(t->dims[0], 96);
  assert_int_equal(t->dims[1], TOY_HIDDEN);
  assert_int_equal(t->n_bytes, 64 * 3 * 20);
  for (size_t i = 0; i < g.tensors.n; i++) {
    const wf_gguf_tensor *each = &g.tensors.at[i];
    assert_true(each->at >= g.map.at && each->at + each->n_bytes <= g.map.at + g.map.n_bytes);
  }
  assert_null(wf_gguf_find_tensor(&g, "blk.1.ffn_down.weight"));
  wf_gguf_close(&g);
  wf_buf_deinit(&b);
}

static void a_file_cut_anywhere_is_refused(void **state) {
  (void)state;
  wf_buf b = {0};
  weft_error err = {0};
  toy_model(&b);
  /* The table ends long before 4000; after that only some lengths, the data is plain bytes. */
  for (size_t n = 0; n < b.n; n += n < 4000 ? 1 : 97) {
    wf_gguf g;
    assert_refused(open_bytes(&g, &b, n, &err), WEFT_PARSE, &err);
  }
  wf_buf_deinit(&b);
}

static void flipped_bytes_never_do_worse_than_an_error(void **state) {
  (void)state;
  wf_buf b = {0};
  weft_error err = {0};
  toy_model(&b);
  for (size_t i = 0; i < 2500 && i < b.n; i++) {
    static const char flips[] = {1, (char)0x80, (char)0xff};
    for (size_t f = 0; f < sizeof flips; f++) {
      wf_gguf g;
      b.at[i] = (char)(b.at[i] ^ flips[f]);
      const weft_status st = open_bytes(&g, &b, b.n, &err);
      assert_true(st == WEFT_OK || st == WEFT_PARSE || st == WEFT_UNSUPPORTED);
      if (st == WEFT_OK) wf_gguf_close(&g);
      b.at[i] = (char)(b.at[i] ^ flips[f]);
    }
  }
  wf_buf_deinit(&b);
}

static void lying_counts_are_refused_at_once(void **state) {
  (void)state;
  wf_buf b = {0};
  toy_header(&b, UINT64_MAX, 0);
  assert_damaged(&b, "more tensors");
  toy_header(&b, 0, UINT64_C(1) << 60);
  assert_damaged(&b, "more metadata");
  toy_header(&b, 0, 1);
  toy_str(&b, "k");
  toy_u32(&b, 9);
  toy_u32(&b, 8);
  toy_u64(&b, UINT64_C(1) << 61);
  assert_damaged(&b, "longer than the file");
  toy_header(&b, 0, 1);
  toy_str(&b, "k");
  toy_u32(&b, 9);
  toy_u32(&b, 10);
  toy_u64(&b, UINT64_C(1) << 61); /* times 8 wraps to 0 */
  assert_damaged(&b, "longer than the file");
  toy_header(&b, 0, 1);
  toy_str(&b, "k");
  toy_u32(&b, 8);
  toy_u64(&b, UINT64_MAX);
  assert_damaged(&b, "longer than the file");
}

static void damage_to_the_structure_is_named(void **state) {
  (void)state;
  wf_buf b = {0};
  toy_header(&b, 0, 2);
  toy_key_u32(&b, "k", 1);
  toy_key_u32(&b, "k", 1);
  assert_damaged(&b, "twice");
  toy_header(&b, 1, 0);
  toy_tensor(&b, "t", 33, 0, 2, 0);
  for (int i = 0; i < 64; i++) wf_buf_putc(&b, 0);
  assert_damaged(&b, "blocks");
  toy_header(&b, 1, 0);
  toy_tensor(&b, "t", 32, 0, 0, 32); /* 128 bytes at 32, 64 there */
  toy_pad(&b, 32);
  for (int i = 0; i < 64; i++) wf_buf_putc(&b, 0);
  assert_damaged(&b, "outside");
  toy_header(&b, 1, 0);
  toy_tensor(&b, "t", 1, 0, 0, 8); /* not aligned */
  for (int i = 0; i < 64; i++) wf_buf_putc(&b, 0);
  assert_damaged(&b, "outside");
  toy_header(&b, 0, 1);
  toy_str(&b, "k");
  toy_u32(&b, 7);
  wf_buf_putc(&b, 2);
  assert_damaged(&b, "truth value");
  wf_buf_puts(&b, "NOPE and more bytes");
  assert_damaged(&b, "not a GGUF");
}

static void what_weft_cannot_read_is_unsupported_by_name(void **state) {
  (void)state;
  static const uint32_t versions[] = {1, 4, 0x03000000};
  static const char *const words[] = {"version 1", "version 4", "big-endian"};
  for (int i = 0; i < 3; i++) {
    wf_buf b = {0};
    wf_gguf g;
    weft_error err = {0};
    wf_buf_puts(&b, "GGUF");
    toy_u32(&b, versions[i]);
    toy_u64(&b, 0);
    toy_u64(&b, 0);
    assert_refused(open_bytes(&g, &b, b.n, &err), WEFT_UNSUPPORTED, &err);
    assert_non_null(strstr(err.what, words[i]));
    wf_buf_deinit(&b);
  }
  wf_buf b = {0};
  wf_gguf g;
  weft_error err = {0};
  toy_header(&b, 1, 0);
  toy_tensor(&b, "odd", 32, 0, 77, 0);
  for (int i = 0; i < 64; i++) wf_buf_putc(&b, 0);
  assert_refused(open_bytes(&g, &b, b.n, &err), WEFT_UNSUPPORTED, &err);
  assert_non_null(strstr(err.what, "type 77"));
  wf_buf_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kind_of_value_is_read),
      cmocka_unit_test(an_array_of_equal_numbers_is_that_number),
      cmocka_unit_test(a_whole_model_opens_and_its_tensors_lie_inside),
      cmocka_unit_test(a_file_cut_anywhere_is_refused),
      cmocka_unit_test(flipped_bytes_never_do_worse_than_an_error),
      cmocka_unit_test(lying_counts_are_refused_at_once),
      cmocka_unit_test(damage_to_the_structure_is_named),
      cmocka_unit_test(what_weft_cannot_read_is_unsupported_by_name),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
