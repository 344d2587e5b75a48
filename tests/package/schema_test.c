/* SPDX-License-Identifier: Apache-2.0 */
/* The published JSON Schema is the one that the reader's tables make, and a large document loads in
 * the time that is promised. WEFT_WRITE_SCHEMA=1 writes the schema anew after a change of the
 * tables. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "package/metadata.h"

static const char schema_path[] = WEFT_SOURCE_DIR "/docs/schema/inference_metadata.schema.json";

static void the_published_schema_is_that_of_the_tables(void **state) {
  wf_buf b = {0};
  char *text = NULL;
  size_t n = 0;
  weft_error err = {0};
  (void)state;
  wf_metadata_print_schema(&b);
  assert_non_null(wf_buf_cstr(&b));
  if (getenv("WEFT_WRITE_SCHEMA"))
    assert_ok(wf_file_write(schema_path, b.at, b.n, false, &err), &err);
  assert_ok(wf_file_read(schema_path, 1 << 20, &text, &n, &err), &err);
  assert_int_equal(n, b.n);
  assert_memory_equal(text, b.at, n);
  wf_free(text);
  wf_buf_deinit(&b);
}

/* As many inputs as make a document of 40 KB. */
static void large_document(wf_buf *b) {
  wf_buf_puts(b,
              "schema_version: v1\npipeline:\n  workflow:\n    manifest:\n      capabilities: "
              "[workflow_ssa]\n    components:\n      noop:\n        implementation: {kind: "
              "binding}\n    steps:\n    - {kind: invoke, component: noop}\n    inputs:\n");
  for (int i = 0; b->n < 40 * 1024; i++) {
    wf_buf_printf(
        b,
        "      input_%d:\n        contract:\n          dtype: float32\n          rank: 2\n"
        "          shape:\n          - batch\n          - %d\n        role:\n          "
        "kind: opaque\n        source:\n          kind: application\n          name: "
        "i%d\n",
        i, i, i);
  }
}

static double now_ms(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void a_document_of_40_kb_loads_in_under_10_ms(void **state) {
  wf_buf b = {0};
  double best = 1e9;
  (void)state;
  large_document(&b);
  for (int i = 0; i < 10; i++) {
    wf_metadata_package *p = NULL;
    weft_error err = {0};
    const wf_metadata_options options = {0};
    const double start = now_ms();
    assert_ok(wf_metadata_read(&p, (wf_str){b.at, b.n}, WF_SYNTAX_YAML, &options, &err), &err);
    const double took = now_ms() - start;
    if (took < best) best = took;
    assert_int_equal(wf_metadata_problems(p)->list.n, 0);
    wf_metadata_close(p);
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  if (!getenv("ASAN_OPTIONS") && best >= 10) fail_msg("%d us", (int)(best * 1e3));
#endif
  print_message("%d us\n", (int)(best * 1e3));
  wf_buf_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_published_schema_is_that_of_the_tables),
      cmocka_unit_test(a_document_of_40_kb_loads_in_under_10_ms),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
