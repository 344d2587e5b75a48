/* SPDX-License-Identifier: Apache-2.0 */
/* The whole import over a tiny model: what it leaves on the disk, and what it refuses. That the
 * written graph computes the right numbers is tests/e2e/test_import_gguf.py's question. */
#include "support/test.h"

#include <sys/stat.h>

#include "base/partial.h"
#include "import/import.h"
#include "import/onnx_writer.h"
#include "toy_gguf.h"

static char *folder, *source, *target;
static wf_buf model;

static int make_folder(void **state) {
  (void)state;
  folder = toy_folder();
  if (!folder) return -1;
  source = wf_path_join(folder, "m.gguf");
  target = wf_path_join(folder, "mod\xc3\xa8les");
  toy_model(&model);
  return source && target && !model.failed ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  wf_folder_remove(target);
  wf_folder_remove(folder);
  wf_free(folder);
  wf_free(source);
  wf_free(target);
  wf_buf_deinit(&model);
  return 0;
}

static void write_model(size_t n) {
  weft_error err = {0};
  assert_ok(wf_file_write(source, model.at, n, true, &err), &err);
}

/* Fails when the folder holds anything but the source. */
static void assert_nothing_left(void) {
  char **names;
  size_t n;
  weft_error err = {0};
  assert_ok(wf_path_list(folder, &names, &n, &err), &err);
  if (n != 1) fail_msg("%zu names are left, the first '%s'", n, names[0]);
  wf_path_list_free(names, n);
}

static size_t size_of(const char *name) {
  struct stat about;
  char *path = wf_path_join(target, name);
  assert_non_null(path);
  const int st = stat(path, &about);
  wf_free(path);
  return st == 0 ? (size_t)about.st_size : 0;
}

static void a_model_becomes_a_folder_with_all_its_files(void **state) {
  (void)state;
  static const char *const files[] = {"model.onnx",
                                      "model.onnx.data",
                                      "genai_config.json",
                                      "config.json",
                                      "tokenizer.json",
                                      "chat_template.jinja",
                                      "tokenizer_config.json",
                                      "special_tokens_map.json",
                                      "generation_config.json"};
  weft_error err = {0};
  write_model(model.n);
  assert_ok(wf_import_gguf(source, target, NULL, &err), &err);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    if (size_of(files[i]) == 0) fail_msg("%s is missing or empty", files[i]);
  }
  wf_folder_remove(target);
  assert_nothing_left();
}

static void private_folders_are_for_their_owner_alone(void **state) {
  (void)state;
  weft_error err = {0};
  struct stat about;
  const wf_import_options opts = {.is_private = true};
  char **names;
  size_t n;
  write_model(model.n);
  assert_ok(wf_import_gguf(source, target, &opts, &err), &err);
  assert_int_equal(stat(target, &about), 0);
  assert_int_equal(about.st_mode & 0777, 0700);
  assert_ok(wf_path_list(target, &names, &n, &err), &err);
  for (size_t i = 0; i < n; i++) {
    char *path = wf_path_join(target, names[i]);
    assert_non_null(path);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    wf_free(path);
  }
  wf_path_list_free(names, n);
  wf_folder_remove(target);
}

static void a_folder_that_is_in_use_is_not_touched(void **state) {
  (void)state;
  weft_error err = {0};
  write_model(model.n);
  assert_ok(wf_path_make_dirs(target, false, &err), &err);
  char *other = wf_path_join(target, "mine");
  assert_non_null(other);
  assert_ok(wf_file_write(other, "x", 1, false, &err), &err);
  assert_refused(wf_import_gguf(source, target, NULL, &err), WEFT_INVALID_ARGUMENT, &err);
  assert_true(wf_path_exists(other));
  wf_free(other);
  wf_folder_remove(target);
  /* An empty one is as good as none. */
  assert_ok(wf_path_make_dirs(target, false, &err), &err);
  assert_ok(wf_import_gguf(source, target, NULL, &err), &err);
  wf_folder_remove(target);
}

static void a_cut_file_leaves_nothing_behind(void **state) {
  (void)state;
  weft_error err = {0};
  for (size_t n = 0; n < model.n; n += n < 2500 ? 41 : 997) {
    write_model(n);
    assert_refused(wf_import_gguf(source, target, NULL, &err), WEFT_PARSE, &err);
    assert_nothing_left();
  }
}

static void damage_gives_a_typed_error_or_an_import_and_nothing_half_made(void **state) {
  (void)state;
  weft_error err = {0};
  uint64_t seed = 88172645463325252u;
  size_t n_ok = 0, n_refused = 0;
  for (int round = 0; round < 400; round++) {
    size_t at[4];
    char old[4];
    for (int i = 0; i < 4; i++) {
      seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
      at[i] = (size_t)(seed >> 20) % 1900; /* the structure; past it any byte is legal */
      old[i] = model.at[at[i]];
      if (i <= round % 4) model.at[at[i]] = (char)(seed >> 8);
    }
    write_model(model.n);
    const weft_status st = wf_import_gguf(source, target, NULL, &err);
    for (int i = 3; i >= 0; i--) model.at[at[i]] = old[i];
    if (st == WEFT_OK) {
      n_ok++;
      wf_folder_remove(target);
    } else {
      n_refused++;
      assert_true(st == WEFT_PARSE || st == WEFT_UNSUPPORTED || st == WEFT_TOKENIZER ||
                  st == WEFT_LIMIT);
      assert_true(err.what[0] != '\0');
    }
    assert_nothing_left();
  }
  print_message("%zu imported, %zu refused\n", n_ok, n_refused);
  assert_true(n_refused > 100);
}

/* Replaces the first `from` in the model by `to` of the same length, imports, and puts it back. */
static void assert_refused_with(const char *from, const char *to, weft_status status,
                                const char *words) {
  weft_error err = {0};
  const size_t at = wf_str_find((wf_str){model.at, model.n}, wf_str_of(from), 0);
  assert_true(at != SIZE_MAX);
  assert_int_equal(strlen(from), strlen(to));
  memcpy(model.at + at, to, strlen(to));
  write_model(model.n);
  const weft_status st = wf_import_gguf(source, target, NULL, &err);
  memcpy(model.at + at, from, strlen(from));
  assert_refused(st, status, &err);
  if (!strstr(err.what, words)) fail_msg("'%s' does not name '%s'", err.what, words);
  assert_nothing_left();
}

static void what_cannot_be_imported_is_named(void **state) {
  (void)state;
  assert_refused_with("llama", "grain", WEFT_UNSUPPORTED, "grain");
  assert_refused_with("blk.0.ffn_up", "blk.0.ffn_xp", WEFT_PARSE, "blk.0.ffn_up.weight");
  assert_refused_with("gpt-2", "gpt-9", WEFT_TOKENIZER, "gpt-9");
  assert_refused_with("gpt2", "unig", WEFT_TOKENIZER, "unig");
  assert_refused_with("a b", "abc", WEFT_TOKENIZER, "merge 0");
}

static void progress_ends_with_all_bytes(void **state);
static uint64_t done, total;
static void on_progress(void *user, uint64_t done_bytes, uint64_t total_bytes, const char *what) {
  (void)what;
  *(int *)user += 1;
  assert_true(done_bytes >= done && done_bytes <= total_bytes);
  done = done_bytes;
  total = total_bytes;
}

static void progress_ends_with_all_bytes(void **state) {
  (void)state;
  weft_error err = {0};
  int calls = 0;
  const wf_import_options opts = {.progress = on_progress, .progress_user = &calls};
  write_model(model.n);
  assert_ok(wf_import_gguf(source, target, &opts, &err), &err);
  assert_true(calls > 5);
  assert_true(total > 0 && done == total);
  wf_folder_remove(target);
}

static void an_import_is_kept_in_the_cache_and_made_again_for_another_file(void **state) {
  (void)state;
  weft_error err = {0};
  char *first = NULL, *second = NULL, *third = NULL;
  bool is_temporary = true;
  struct stat before, after;
  write_model(model.n);
  char *cache = wf_path_join(folder, "cache");
  assert_non_null(cache);
  assert_int_equal(setenv("WEFT_CACHE", cache, 1), 0);
  assert_ok(wf_import_cached(source, NULL, &first, &is_temporary, &err), &err);
  assert_false(is_temporary);
  assert_int_equal(stat(first, &before), 0);
  assert_int_equal(before.st_mode & 0777, 0700);
  assert_ok(wf_import_cached(source, NULL, &second, &is_temporary, &err), &err);
  assert_string_equal(first, second);
  assert_int_equal(stat(second, &after), 0);
  assert_int_equal(before.st_ino, after.st_ino);
  /* A folder that lost its marker is not trusted. */
  char *marker = wf_path_join(first, "weft-import.txt");
  assert_non_null(marker);
  assert_int_equal(unlink(marker), 0);
  wf_free(second);
  second = NULL;
  assert_ok(wf_import_cached(source, NULL, &second, &is_temporary, &err), &err);
  assert_true(wf_path_exists(marker));
  wf_free(marker);
  assert_int_equal(unlink(source), 0);
  write_model(model.n);
  assert_ok(wf_import_cached(source, NULL, &third, &is_temporary, &err), &err);
  assert_string_not_equal(first, third);
  wf_folder_remove(first);
  wf_folder_remove(third);
  char *imports = wf_path_join(cache, "imports");
  assert_non_null(imports);
  assert_int_equal(rmdir(imports), 0);
  assert_int_equal(rmdir(cache), 0);
  wf_free(imports);
  wf_free(cache);
  wf_free(first);
  wf_free(second);
  wf_free(third);
  assert_int_equal(unsetenv("WEFT_CACHE"), 0);
}

static void without_a_cache_the_import_goes_to_a_private_folder(void **state) {
  (void)state;
  weft_error err = {0};
  char *dir = NULL;
  bool is_temporary = false;
  struct stat about;
  write_model(model.n);
  assert_int_equal(setenv("WEFT_CACHE", "/proc/nothing/here", 1), 0);
  assert_int_equal(setenv("TMPDIR", folder, 1), 0);
  assert_ok(wf_import_cached(source, NULL, &dir, &is_temporary, &err), &err);
  assert_true(is_temporary);
  assert_int_equal(stat(dir, &about), 0);
  assert_int_equal(about.st_mode & 0777, 0700);
  wf_folder_remove(dir);
  wf_free(dir);
  assert_nothing_left();
  /* A file that is no model is refused in the same words, and leaves no folder either. */
  write_model(100);
  dir = NULL;
  assert_refused(wf_import_cached(source, NULL, &dir, &is_temporary, &err), WEFT_PARSE, &err);
  assert_null(dir);
  assert_nothing_left();
  assert_int_equal(unsetenv("WEFT_CACHE"), 0);
  assert_int_equal(unsetenv("TMPDIR"), 0);
}

static void removing_follows_no_link(void **state) {
  (void)state;
  weft_error err = {0};
  char *real = wf_path_join(folder, "real"), *link = wf_path_join(folder, "link");
  char *file = wf_path_join(real, "keep");
  assert_ok(wf_path_make_dirs(real, false, &err), &err);
  assert_ok(wf_file_write(file, "x", 1, false, &err), &err);
  assert_int_equal(symlink(real, link), 0);
  wf_folder_remove(link);
  assert_true(wf_path_exists(file));
  assert_int_equal(unlink(link), 0);
  wf_folder_remove(real);
  wf_free(real);
  wf_free(link);
  wf_free(file);
}

static void a_writer_that_is_given_up_or_short_of_bytes_leaves_no_file(void **state) {
  (void)state;
  weft_error err = {0};
  wf_onnxw *w = NULL;
  char *path = wf_path_join(folder, "x.onnx");
  static const int64_t dims[1] = {4};
  write_model(model.n);
  assert_ok(wf_onnxw_create(&w, path, "x.onnx.data", false, &err), &err);
  wf_onnxw_destroy(w);
  assert_nothing_left();
  assert_ok(wf_onnxw_create(&w, path, "x.onnx.data", false, &err), &err);
  assert_ok(wf_onnxw_tensor_begin(w, "t", WF_ONNXW_FLOAT, dims, 1, &err), &err);
  wf_onnxw_data(w, dims, 8);
  assert_refused(wf_onnxw_commit(w, &err), WEFT_INTERNAL, &err);
  assert_nothing_left();
  assert_ok(wf_onnxw_create(&w, path, NULL, false, &err), &err);
  assert_refused(wf_onnxw_tensor_begin(w, "t", WF_ONNXW_FLOAT, dims, 1, &err), WEFT_INTERNAL, &err);
  wf_onnxw_destroy(w);
  assert_nothing_left();
  wf_free(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_model_becomes_a_folder_with_all_its_files),
      cmocka_unit_test(private_folders_are_for_their_owner_alone),
      cmocka_unit_test(a_folder_that_is_in_use_is_not_touched),
      cmocka_unit_test(a_cut_file_leaves_nothing_behind),
      cmocka_unit_test(damage_gives_a_typed_error_or_an_import_and_nothing_half_made),
      cmocka_unit_test(what_cannot_be_imported_is_named),
      cmocka_unit_test(progress_ends_with_all_bytes),
      cmocka_unit_test(without_a_cache_the_import_goes_to_a_private_folder),
      cmocka_unit_test(an_import_is_kept_in_the_cache_and_made_again_for_another_file),
      cmocka_unit_test(removing_follows_no_link),
      cmocka_unit_test(a_writer_that_is_given_up_or_short_of_bytes_leaves_no_file),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
