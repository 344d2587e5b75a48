/* SPDX-License-Identifier: Apache-2.0 */
/* The semantic identity (format §17.3): canonical forms worked out by hand, their SHA-256 by
 * Python's hashlib. */
#include "support/test.h"

#include <string.h>

#include "package/metadata.h"

#define WORKFLOW_YAML                                                      \
  "pipeline:\n  workflow:\n"                                               \
  "    manifest: {capabilities: [typed_emit, workflow_ssa, typed_emit]}\n" \
  "    components: {f: {implementation: {kind: binding}}}\n"               \
  "    steps: [{kind: invoke, component: f}]\n"

static const char canonical[] =
    "{\"pipeline\":{\"workflow\":{\"components\":{\"f\":{\"implementation\":{\"kind\":\"binding\"}}"
    "},\"manifest\":{\"capabilities\":[\"typed_emit\",\"workflow_ssa\"]},\"steps\":[{\"component\":"
    "\"f\",\"kind\":\"invoke\"}]}},\"schema_version\":\"1.0\"}";
/* hashlib.sha256(canonical.encode()).hexdigest() */
static const char identity[] =
    "onnx-genai-metadata-identity-v1:sha256:"
    "491af0a82d883bb27e6357784e794f0a15035ee242def8fe1c87912a57133e1e";

static wf_metadata_package *read(const char *text, wf_syntax syntax) {
  weft_error err = {0};
  wf_metadata_package *p = NULL;
  const wf_metadata_options o = {.without_artifacts = true};
  assert_ok(wf_metadata_read(&p, wf_str_of(text), syntax, &o, &err), &err);
  return p;
}

static void is(const char *text, wf_syntax syntax, const char *wanted) {
  weft_error err = {0};
  wf_metadata_package *p = read(text, syntax);
  wf_buf b = {0};
  wf_metadata_canonical(wf_metadata_get(p), &b);
  assert_string_equal(wf_buf_cstr(&b), wanted);
  char got[WF_IDENTITY_BYTES];
  assert_ok(wf_metadata_identity(wf_metadata_get(p), got, &err), &err);
  assert_int_equal(strcmp(got, identity) == 0, strcmp(wanted, canonical) == 0);
  wf_buf_deinit(&b);
  wf_metadata_close(p);
}

/* Statements 3 and 105. */
static void yaml_and_json_of_one_document_have_one_identity(void **state) {
  (void)state;
  is("schema_version: 1.0\n" WORKFLOW_YAML, WF_SYNTAX_YAML, canonical);
  is("{\"pipeline\": {\"workflow\": {\"steps\": [{\"component\": \"f\", \"kind\": \"invoke\"}],"
     "\"components\": {\"f\": {\"implementation\": {\"kind\": \"binding\"}}}, \"manifest\": "
     "{\"capabilities\": [\"workflow_ssa\", \"typed_emit\"]}}}, \"schema_version\": \"1.0\"}",
     WF_SYNTAX_JSON, canonical);
}

static void order_nulls_and_empty_containers_do_not_count(void **state) {
  (void)state;
  is("required_capabilities: []\nadapters: null\nprofiles: {}\n" WORKFLOW_YAML
     "    inputs: {}\n    state: {}\nschema_version: '1.0'\n",
     WF_SYNTAX_YAML, canonical);
}

/* Statement 90. */
static void ignorable_profiles_do_not_count_and_required_ones_do(void **state) {
  (void)state;
  is("schema_version: 1.0\nprofiles: {odd: {kind: vendor.x, version: '3', requirement: "
     "ignorable}}\n" WORKFLOW_YAML,
     WF_SYNTAX_YAML, canonical);
  is("schema_version: 1.0\nprofiles: {e: {kind: embedding, version: 3}}\n" WORKFLOW_YAML,
     WF_SYNTAX_YAML,
     "{\"pipeline\":{\"workflow\":{\"components\":{\"f\":{\"implementation\":{\"kind\":\"binding\"}"
     "}},\"manifest\":{\"capabilities\":[\"typed_emit\",\"workflow_ssa\"]},\"steps\":[{"
     "\"component\":\"f\",\"kind\":\"invoke\"}]}},\"profiles\":{\"e\":{\"kind\":\"embedding\","
     "\"version\":\"3\"}},\"schema_version\":\"1.0\"}");
}

/* Whole floats are integers below 1e18; others print shortest. */
static void numbers_are_what_they_mean(void **state) {
  static const char *const written[] = {"128", "128.0", "1.28e2"};
  (void)state;
  for (size_t i = 0; i < sizeof written / sizeof *written; i++) {
    wf_buf text = {0};
    wf_buf_puts(&text, "schema_version: 1.0\nquantization: {a: 0.1, b: 2.5e20, n: ");
    wf_buf_puts(&text, written[i]);
    wf_buf_puts(&text, "}\n" WORKFLOW_YAML);
    is(wf_buf_cstr(&text), WF_SYNTAX_YAML,
       "{\"pipeline\":{\"workflow\":{\"components\":{\"f\":{\"implementation\":{\"kind\":"
       "\"binding\"}}},\"manifest\":{\"capabilities\":[\"typed_emit\",\"workflow_ssa\"]},\"steps\":"
       "[{\"component\":\"f\",\"kind\":\"invoke\"}]}},\"quantization\":{\"a\":0.1,\"b\":2.5e+20,"
       "\"n\":128},\"schema_version\":\"1.0\"}");
    wf_buf_deinit(&text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(yaml_and_json_of_one_document_have_one_identity),
      cmocka_unit_test(order_nulls_and_empty_containers_do_not_count),
      cmocka_unit_test(ignorable_profiles_do_not_count_and_required_ones_do),
      cmocka_unit_test(numbers_are_what_they_mean),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
