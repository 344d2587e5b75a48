/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX's text form: what it is translated to, worked out by hand or printed and serialized by
 * protobuf itself (make_models.py), and every refusal with its place. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "onnx/onnx.h"
#include "onnx/write.h"

static wf_buf translated(wf_str text) {
  weft_error err = {0};
  wf_buf out = {0};
  assert_ok(wf_onnx_from_text(text, "text", &out, &err), &err);
  return out;
}

/* expected: hexadecimal digits, blanks between them as one likes. */
static void assert_bytes(wf_str text, const char *expected) {
  wf_buf hex = {0};
  wf_buf out = translated(text);
  size_t n = 0;
  char *wanted = wf_alloc(strlen(expected) + 1);
  for (const char *c = expected; *c; c++) {
    if (*c != ' ') wanted[n++] = *c;
  }
  wanted[n] = '\0';
  for (size_t i = 0; i < out.n; i++) wf_buf_printf(&hex, "%02x", (unsigned char)out.at[i]);
  if (strcmp(wf_buf_cstr(&hex), wanted) != 0)
    fail_msg("%.*s\n  gives    %s\n  expected %s", (int)text.n, text.at, hex.at, wanted);
  wf_buf_deinit(&hex);
  wf_buf_deinit(&out);
  wf_free(wanted);
}

/* A value of a field of AttributeProto, found in ModelProto.functions[0].attribute_proto[0]: what
 * comes after the three tags and lengths. */
static void assert_attribute(const char *text, const char *expected, size_t n_bytes) {
  wf_buf whole = {0}, hex = {0};
  wf_buf_printf(&whole, "functions { attribute_proto { %s } }", text);
  wf_buf_printf(&hex, "ca01 %02zx 5a %02zx %s", n_bytes + 2, n_bytes, expected);
  assert_bytes((wf_str){whole.at, whole.n}, hex.at);
  wf_buf_deinit(&whole);
  wf_buf_deinit(&hex);
}

/* The same for a field of TensorProto, in attribute_proto[0].t. */
static void assert_tensor(const char *text, const char *expected, size_t n_bytes) {
  wf_buf whole = {0}, hex = {0};
  wf_buf_printf(&whole, "t { %s }", text);
  wf_buf_printf(&hex, "2a %02zx %s", n_bytes, expected);
  assert_attribute(whole.at, hex.at, n_bytes + 2);
  wf_buf_deinit(&whole);
  wf_buf_deinit(&hex);
}

/* ---- what is read ------------------------------------------------------------------------- */

static void every_way_to_write_a_field_gives_the_same_bytes(void **state) {
  static const char *const texts[] = {
      "graph { name: \"g\" node { op_type: \"A\" } node { op_type: \"B\" } }",
      "graph: { name: 'g', node: { op_type: 'A' }; node { op_type: 'B'; }, };",
      "graph < name: \"g\" node: < op_type: \"A\" > node { op_type: \"B\" } >",
      "graph{name:\"g\"node[{op_type:\"A\"},<op_type:\"B\">]}",
      "graph { name: \"\" 'g' # the rest is no field }\n node: [ { op_type: \"A\" }\n,\v\f{ "
      "op_type: "
      "\"B\" }] }"};
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    assert_bytes(wf_str_of(texts[i]), "3a 0d 120167 0a03 220141 0a03 220142");
}

static void fields_come_out_in_the_order_of_the_text(void **state) {
  (void)state;
  assert_bytes(WF_STR(""), "");
  assert_bytes(WF_STR("# only a comment"), "");
  assert_bytes(WF_STR("\xef\xbb\xbfir_version: 8\r\n"), "0808");
  assert_bytes(WF_STR("model_version: 1 ir_version: 8"), "2801 0808");
  assert_bytes(WF_STR("functions { } functions: <>"), "ca0100 ca0100");
  assert_bytes(WF_STR("functions: [] metadata_props []"), "");
}

static void whole_numbers_are_decimal_hexadecimal_or_octal(void **state) {
  (void)state;
  assert_bytes(WF_STR("ir_version: 300"), "08 ac02");
  assert_bytes(WF_STR("ir_version: 0x12C"), "08 ac02");
  assert_bytes(WF_STR("ir_version: 0454"), "08 ac02");
  assert_bytes(WF_STR("ir_version: 0"), "08 00");
  assert_bytes(WF_STR("ir_version: - # minus\n 1"), "08 ffffffffffffffffff01");
  assert_bytes(WF_STR("ir_version: 9223372036854775807"), "08 ffffffffffffffff7f");
  assert_bytes(WF_STR("ir_version: -9223372036854775808"), "08 80808080808080808001");
  assert_bytes(WF_STR("ir_version: -0x8000000000000000"), "08 80808080808080808001");
  assert_tensor("data_type: 2147483647", "10 ffffffff07", 6);
  assert_tensor("data_type: -2147483648", "10 80808080f8ffffffff01", 11);
  assert_tensor("uint64_data: 18446744073709551615", "5a 0a ffffffffffffffffff01", 12);
  assert_tensor("uint64_data: 01777777777777777777777", "5a 0a ffffffffffffffffff01", 12);
}

static void lists_are_packed_where_writers_pack_them(void **state) {
  (void)state;
  assert_tensor("dims: [1, 2] dims: 3", "0801 0802 0803", 6);
  assert_tensor("int64_data: [1, 300]", "3a 03 01 ac02", 5);
  assert_tensor("int64_data: 1, int64_data: 300;", "3a 03 01 ac02", 5);
  assert_tensor("int64_data: [] int64_data: 1 dims: 2 int64_data: 3", "3a0101 0802 3a0103", 8);
  assert_tensor("float_data: [1, -2.0]", "22 08 0000803f 000000c0", 10);
  assert_tensor("double_data: 1e0", "52 08 000000000000f03f", 10);
  assert_attribute("floats: [1, 1]", "3d 0000803f 3d 0000803f", 10);
  assert_attribute("ints: [1, -1]", "40 01 40 ffffffffffffffffff01", 13);
}

static void decimal_numbers_are_rounded_to_the_nearest(void **state) {
  static const char *const cases[][2] = {{"1", "0000803f"},
                                         {"1.", "0000803f"},
                                         {".5", "0000003f"},
                                         {"1.5f", "0000c03f"},
                                         {"1F", "0000803f"},
                                         {"15e-1", "0000c03f"},
                                         {"1.5E+0f", "0000c03f"},
                                         {"-0", "00000080"},
                                         {"0.1", "cdcccc3d"},
                                         {"16777217", "0000804b"},
                                         {"1e-46", "00000000"},
                                         {"1.4e-45", "01000000"},
                                         {"inf", "0000807f"},
                                         {"-Infinity", "000080ff"},
                                         {"nan", "0000c07f"},
                                         {"-nan", "0000c0ff"},
                                         {"3.4028235e38", "ffff7f7f"},
                                         {"3.40282356e38", "ffff7f7f"},
                                         {"3.4028236e38", "0000807f"},
                                         {"-1e300", "000080ff"},
                                         {"1e999", "0000807f"}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[64], hex[64];
    (void)snprintf(text, sizeof text, "f: %s", cases[i][0]);
    (void)snprintf(hex, sizeof hex, "15 %s", cases[i][1]);
    assert_attribute(text, hex, 5);
  }
  assert_tensor("double_data: [-nan, -inf]", "5210 000000000000f8ff 000000000000f0ff", 18);
  assert_tensor("double_data: 0.1", "5208 9a9999999999b93f", 10);
}

static void enums_are_named_or_numbered(void **state) {
  (void)state;
  assert_attribute("type: TENSORS", "a001 09", 3);
  assert_attribute("type: 0x9", "a001 09", 3);
  assert_attribute("type: TYPE_PROTOS", "a001 0e", 3);
  assert_tensor("data_location: EXTERNAL", "70 01", 2);
  assert_tensor("data_location: 0", "70 00", 2);
}

static void strings_know_every_escape(void **state) {
  (void)state;
  assert_bytes(WF_STR("domain: '\\n\\t\\r\\a\\b\\f\\v\\\\\\'\\\"\\?'"),
               "22 0b 0a090d07080c0b5c27223f");
  assert_bytes(WF_STR("domain: \"\\0\\18\\101\\3777\""), "22 06 00 01 38 41 ff 37");
  assert_bytes(WF_STR("domain: \"\\xA\\x41g\\xffF\""), "22 05 0a 41 67 ff 46");
  assert_bytes(WF_STR("domain: \"\\u00e9\\U0001F600\\ud83d\\ude00\""),
               "22 0a c3a9 f09f9880 f09f9880");
  assert_bytes(WF_STR("domain: \"it's\" # one\n '\"' \"\""), "22 05 6974277322");
  assert_bytes(WF_STR("domain: '# { \t\xc3\xa9'"), "22 07 23207b2009c3a9");
  assert_bytes(WF_STR("functions { input: ['a' 'b', \"c\"] }"), "ca01 07 22026162 220163");
}

static void lengths_of_each_size_are_closed(void **state) {
  static const size_t sizes[] = {0, 1, 124, 125, 126, 127, 128, 129, 16382, 16383, 16384, 2097152};
  (void)state;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    wf_buf text = {0}, expected = {0}, inner = {0};
    char *letters = wf_alloc(sizes[i] + 1);
    memset(letters, 'x', sizes[i]);
    wf_buf_puts(&text, "graph { name: \"");
    wf_buf_add(&text, letters, sizes[i]);
    wf_buf_puts(&text, "\" } ir_version: 1");
    wf_onnx_put_bytes(&inner, 2, letters, sizes[i]);
    wf_onnx_put_message(&expected, 7, &inner);
    wf_onnx_put_int(&expected, 1, 1);
    wf_buf out = translated((wf_str){text.at, text.n});
    assert_int_equal(out.n, expected.n);
    assert_memory_equal(out.at, expected.at, out.n);
    wf_buf_deinit(&out);
    wf_buf_deinit(&text);
    wf_buf_deinit(&expected);
    wf_free(letters);
  }
}

static char *read_model(const char *name, size_t *n) {
  weft_error err = {0};
  char path[512], *bytes;
  (void)snprintf(path, sizeof path, "%s/tests/onnx/%s", WEFT_SOURCE_DIR, name);
  assert_ok(wf_file_read(path, 1 << 20, &bytes, n, &err), &err);
  return bytes;
}

static void models_printed_by_protobuf_give_the_bytes_it_serializes(void **state) {
  static const char *const names[] = {"types", "nested", "every_field"};
  (void)state;
  for (size_t i = 0; i < 3; i++) {
    char name[64];
    size_t n_text, n;
    (void)snprintf(name, sizeof name, "%s.onnx.textproto", names[i]);
    char *text = read_model(name, &n_text);
    (void)snprintf(name, sizeof name, "%s.onnx", names[i]);
    char *bytes = read_model(name, &n);
    wf_buf out = translated((wf_str){text, n_text});
    assert_int_equal(out.n, n);
    assert_memory_equal(out.at, bytes, n);
    wf_buf_deinit(&out);
    wf_free(text);
    wf_free(bytes);
  }
}

/* ---- refusals ----------------------------------------------------------------------------- */

typedef struct refusal {
  const char *text, *what, *fix;
} refusal;

static void a_mistake_is_refused_by_field_line_and_column(void **state) {
  static const refusal cases[] = {
      {"ir_version: 8\n  grpah { }", "text:2:3: ModelProto has no field 'grpah'", "correct"},
      {"graph {\n node {\n\n  nam: 'x' } }", "text:4:3: NodeProto has no field 'nam'", "correct"},
      {"ir_version: 1 ir_version: 2", "text:1:15: field 'ir_version' of ModelProto comes twice",
       "once"},
      {"graph { input { type { tensor_type { shape { dim { dim_value: 1\ndim_param: 'n' } } } } } "
       "}",
       "text:2:1: 'dim_param' and 'dim_value' of TensorShapeProto.Dimension", "leave one"},
      {"ir_version 8", "text:1:12: field 'ir_version' of ModelProto needs ':'", "name: value"},
      {"ir_version: [8]", "text:1:13: field 'ir_version' of ModelProto holds one value",
       "brackets"},
      {"graph [{}]", "text:1:7: field 'graph' of ModelProto holds one value", "brackets"},
      {"graph: 3", "text:1:8: field 'graph' of ModelProto is a message", "{ ... }"},
      {"graph: 'x'", "text:1:8: field 'graph' of ModelProto is a message", "{ ... }"},
      {"ir_version: 1.0",
       "text:1:13: field 'ir_version' of ModelProto needs a whole number, not "
       "'1.0'",
       "whole number"},
      {"ir_version: 1e3", "not '1e3'", "whole number"},
      {"ir_version: 09", "not '09'", "whole number"},
      {"ir_version: 0x", "not '0x'", "whole number"},
      {"ir_version: -x", "not '-x'", "whole number"},
      {"ir_version: 12ab", "not '12ab'", "whole number"},
      {"ir_version: +1", "text:1:13: field 'ir_version' of ModelProto has no value", "number"},
      {"ir_version: 'a'", "has no value here", "number"},
      {"ir_version: {}", "has no value here", "number"},
      {"ir_version:", "has no value here", "number"},
      {"ir_version: 9223372036854775808", "can't be 9223372036854775808", "64 bits"},
      {"ir_version: -9223372036854775809", "can't be -9223372036854775809", "64 bits"},
      {"ir_version: 99999999999999999999999", "can't be 99999999999999999999999", "64 bits"},
      {"graph { initializer { data_type: 2147483648 } }", "can't be 2147483648", "2147483647"},
      {"graph { initializer { data_type: FLOAT } }", "not 'FLOAT'", "whole number"},
      {"graph { initializer { int32_data: [1, -2147483649] } }", "can't be -2147483649",
       "2147483647"},
      {"graph { initializer { uint64_data: -1 } }", "can't be -1", "18446744073709551615"},
      {"graph { initializer { float_data: 0x10 } }", "needs a number, not '0x10'", "decimal"},
      {"graph { initializer { float_data: 010 } }", "needs a number, not '010'", "decimal"},
      {"graph { initializer { float_data: 1.5x } }", "needs a number, not '1.5x'", "decimal"},
      {"graph { initializer { float_data: 1e } }", "needs a number, not '1e'", "decimal"},
      {"graph { initializer { float_data: infin } }", "needs a number, not 'infin'", "decimal"},
      {"graph { initializer { data_location: ELSEWHERE } }",
       "field 'data_location' of TensorProto has no value 'ELSEWHERE'", "name"},
      {"graph { initializer { data_location: 7 } }", "has no value '7'", "name"},
      {"graph { initializer { data_location: -EXTERNAL } }", "not '-EXTERNAL'", "whole"},
      {"domain: abc", "text:1:9: field 'domain' of ModelProto needs a string", "quotes"},
      {"domain: 5", "needs a string", "quotes"},
      {"domain: 'abc", "text:1:9: field 'domain' of ModelProto has a string without an end", "\\n"},
      {"domain: 'abc\n'", "text:1:9: field 'domain' of ModelProto has a string without", "\\n"},
      {"domain: 'ab\\", "text:1:12: field 'domain' of ModelProto has an escape", "\\xHH"},
      {"domain: '\\q'", "text:1:10: field 'domain' of ModelProto has an escape", "\\xHH"},
      {"domain: '\\400'", "has an escape that means nothing", "\\xHH"},
      {"domain: '\\xg'", "has an escape that means nothing", "\\xHH"},
      {"domain: '\\u12'", "has an escape that means nothing", "\\xHH"},
      {"domain: '\\U00110000'", "has an escape that means nothing", "\\xHH"},
      {"domain: '\\ud800'", "has an escape that means nothing", "\\xHH"},
      {"domain: '\\ud83d\\u0041'", "has an escape that means nothing", "\\xHH"},
      {"domain: '\\ude00'", "has an escape that means nothing", "\\xHH"},
      {"functions { input: ['a' }", "text:1:25: field 'input' of FunctionProto has a list without",
       "']'"},
      {"functions { input: ['a',] }", "needs a string in quotes", "quotes"},
      {"functions: [{},]", "text:1:16: field 'functions' of ModelProto is a message", "{ ... }"},
      {"functions: [{} {}]", "has a list without its end", "']'"},
      {"functions: [", "is a message and needs a brace", "{ ... }"},
      {"graph {", "text:1:7: the brace of field 'graph' is never closed", "close it"},
      {"graph {\nnode {}", "text:1:7: the brace of field 'graph' is never closed", "close it"},
      {"graph { >", "text:1:9: field 'graph' of GraphProto is closed by the other", "own kind"},
      {"graph < }", "is closed by the other kind", "own kind"},
      {"}", "text:1:1: a field of ModelProto is expected", "name: value"},
      {"graph {},, ir_version: 1", "text:1:10: a field of ModelProto is expected", "name: value"},
      {"1: 8", "text:1:1: a field of ModelProto is expected", "name: value"},
      {"[com.example.more]: 1", "text:1:1: an extension or Any in ModelProto", "extensions"},
      {"graph { [type.googleapis.com/onnx.X] {} }", "text:1:9: an extension or Any in GraphProto",
       "extensions"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    weft_error err = {0};
    wf_buf out = {0};
    assert_refused(wf_onnx_from_text(wf_str_of(cases[i].text), "text", &out, &err), WEFT_PARSE,
                   &err);
    if (!strstr(err.what, cases[i].what) || !strstr(err.fix, cases[i].fix))
      fail_msg("%s\n  says     %s (%s)\n  expected %s (%s)", cases[i].text, err.what, err.fix,
               cases[i].what, cases[i].fix);
    wf_buf_deinit(&out);
  }
}

static void a_nul_byte_is_no_end_of_the_text(void **state) {
  weft_error err = {0};
  wf_buf out = {0};
  (void)state;
  assert_refused(wf_onnx_from_text(WF_STR("ir_version: 1\0"), "text", &out, &err), WEFT_PARSE,
                 &err);
  assert_non_null(strstr(err.what, "text:1:14: "));
  assert_bytes(WF_STR("domain: 'a\0b'"), "22 03 610062");
  wf_buf_deinit(&out);
}

/* Messages inside messages: graph { node { attribute { g { node { ... */
static weft_status nest(int depth, weft_error *err) {
  wf_buf text = {0}, out = {0};
  static const char *const names[] = {"node {", "attribute <", "g {"};
  wf_buf_puts(&text, "graph {");
  for (int i = 1; i < depth; i++) wf_buf_puts(&text, names[(i - 1) % 3]);
  for (int i = depth - 1; i >= 1; i--) wf_buf_puts(&text, (i - 1) % 3 == 1 ? ">" : "}");
  wf_buf_puts(&text, "}");
  const weft_status st = wf_onnx_from_text((wf_str){text.at, text.n}, "text", &out, err);
  wf_buf_deinit(&text);
  wf_buf_deinit(&out);
  return st;
}

static void messages_nest_a_hundred_deep_and_no_deeper(void **state) {
  weft_error err = {0};
  (void)state;
  assert_ok(nest(100, &err), &err);
  assert_refused(nest(101, &err), WEFT_PARSE, &err);
  assert_non_null(strstr(err.what, "is nested more than 100 deep"));
  assert_refused(nest(1000000, &err), WEFT_PARSE, &err);
}

/* A million of each thing that opens a gap, inside as many messages as may be: the test's time
 * limit refuses a pass over the rest for each. */
static void time_and_bytes_are_in_proportion_to_the_text(void **state) {
  static const char *const parts[] = {"node{}", "node{input:['','']}", "doc_string:''", "''",
                                      "initializer{double_data:[1,1,1,1,1,1,1,1]}"};
  (void)state;
  for (size_t i = 0; i < 5; i++) {
    wf_buf text = {0};
    wf_buf_puts(&text, "graph {");
    for (int d = 0; d < 31; d++) wf_buf_puts(&text, "node { attribute { g {");
    if (i == 3) wf_buf_puts(&text, "name: ");
    for (int k = 0; k < (i == 2 ? 1 : 1 << 20); k++) wf_buf_puts(&text, parts[i]);
    for (int d = 0; d < 31; d++) wf_buf_puts(&text, "}}}");
    wf_buf_puts(&text, "}");
    wf_buf out = translated((wf_str){text.at, text.n});
    assert_true(out.n <= 4 * text.n);
    wf_buf_deinit(&out);
    wf_buf_deinit(&text);
  }
}

static void a_cut_or_damaged_text_is_an_error_or_a_translation(void **state) {
  size_t n, n_refused = 0;
  uint64_t seed = 12345;
  (void)state;
  char *text = read_model("every_field.onnx.textproto", &n), *copy = wf_alloc(n);
  for (size_t i = 0; i < 4000; i++) {
    weft_error err = {0};
    wf_buf out = {0};
    memcpy(copy, text, n);
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    const size_t at = (seed >> 33) % n;
    copy[at] = "{}<>[]:,;'\"\\#-x0\0\n"[(seed >> 20) % 18];
    const weft_status st = wf_onnx_from_text((wf_str){copy, i % 2 ? n : at}, "text", &out, &err);
    if (st != WEFT_OK) {
      n_refused++;
      assert_int_equal(st, WEFT_PARSE);
      assert_int_equal(strncmp(err.what, "text:", 5), 0);
      assert_true(err.fix[0] != '\0');
    }
    wf_buf_deinit(&out);
  }
  assert_true(n_refused > 2000);
  wf_free(copy);
  wf_free(text);
}

/* ---- files -------------------------------------------------------------------------------- */

static void a_file_named_so_is_read_as_text_with_its_external_data(void **state) {
  static const char text[] =
      "ir_version: 8 opset_import { version: 17 }\n"
      "graph { name: 'g' initializer { dims: 2 data_type: 1 name: 'w' data_location: EXTERNAL\n"
      "  external_data [{ key: 'location' value: 'w.bin' }, { key: 'offset' value: '4' }] }\n"
      " initializer { dims: 2 data_type: 3 name: 'v' raw_data: '\\001\\xff' } }";
  static const float data[] = {9, 1.5f, -2};
  char dir[] = "/tmp/weft-textproto-XXXXXX", model[64], bin[64];
  weft_error err = {0};
  wf_onnx_model *m;
  (void)state;
  assert_non_null(mkdtemp(dir));
  (void)snprintf(model, sizeof model, "%s/a.onnx.textproto", dir);
  (void)snprintf(bin, sizeof bin, "%s/w.bin", dir);
  assert_ok(wf_file_write(model, text, sizeof text - 1, false, &err), &err);
  assert_ok(wf_file_write(bin, data, sizeof data, false, &err), &err);
  assert_ok(wf_onnx_open(&m, model, NULL, &err), &err);
  assert_int_equal(m->graph.n_initializers, 2);
  assert_memory_equal(m->graph.initializers[0].data, data + 1, 8);
  /* Dropping pages is for mappings: these bytes have no file to come back from. */
  const wf_tensor *v = &m->graph.initializers[1];
  wf_map_will_need(v->map);
  wf_map_drop(v->map, 0, v->map->n_bytes);
  assert_memory_equal(v->data, "\001\xff", 2);
  assert_ok(wf_onnx_check(m, &err), &err);
  assert_ok(wf_file_write(model, text, sizeof text - 2, false, &err), &err);
  assert_refused(wf_onnx_check(m, &err), WEFT_PACKAGE_INVALID, &err);
  wf_onnx_close(m);
  assert_refused(wf_onnx_open(&m, model, NULL, &err), WEFT_PARSE, &err);
  assert_non_null(strstr(err.what, "a.onnx.textproto:2:7: "));
  assert_ok(wf_file_write(model, "ir_version: 8", 13, false, &err), &err);
  assert_refused(wf_onnx_open(&m, model, NULL, &err), WEFT_PACKAGE_INVALID, &err);
  assert_non_null(strstr(err.fix, "repair the text"));
  (void)unlink(model);
  (void)unlink(bin);
  (void)rmdir(dir);
}

static void a_serialized_model_is_read_under_a_texts_name_too(void **state) {
  char model[] = "/tmp/weft-textproto-XXXXXX.onnx.textproto";
  weft_error err = {0};
  wf_onnx_model *m;
  size_t n;
  (void)state;
  const int fd = mkstemps(model, 15);
  assert_true(fd >= 0);
  (void)close(fd);
  char *bytes = read_model("nested.onnx", &n);
  assert_ok(wf_file_write(model, bytes, n, false, &err), &err);
  assert_ok(wf_onnx_open(&m, model, NULL, &err), &err);
  assert_int_equal(m->graph.n_nodes, 2);
  wf_onnx_close(m);
  assert_ok(wf_file_write(model, bytes + 2, n - 2, false, &err), &err);
  assert_refused(wf_onnx_open(&m, model, NULL, &err), WEFT_PARSE, &err);
  wf_free(bytes);
  (void)unlink(model);
}

static void a_name_tells_the_text_form(void **state) {
  (void)state;
  assert_true(wf_onnx_is_text_name(WF_STR("a/b.onnx.textproto")));
  assert_false(wf_onnx_is_text_name(WF_STR("a/b.onnx")));
  assert_false(wf_onnx_is_text_name(WF_STR("a/b.textproto")));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_way_to_write_a_field_gives_the_same_bytes),
      cmocka_unit_test(fields_come_out_in_the_order_of_the_text),
      cmocka_unit_test(whole_numbers_are_decimal_hexadecimal_or_octal),
      cmocka_unit_test(lists_are_packed_where_writers_pack_them),
      cmocka_unit_test(decimal_numbers_are_rounded_to_the_nearest),
      cmocka_unit_test(enums_are_named_or_numbered),
      cmocka_unit_test(strings_know_every_escape),
      cmocka_unit_test(lengths_of_each_size_are_closed),
      cmocka_unit_test(models_printed_by_protobuf_give_the_bytes_it_serializes),
      cmocka_unit_test(a_mistake_is_refused_by_field_line_and_column),
      cmocka_unit_test(a_nul_byte_is_no_end_of_the_text),
      cmocka_unit_test(messages_nest_a_hundred_deep_and_no_deeper),
      cmocka_unit_test(time_and_bytes_are_in_proportion_to_the_text),
      cmocka_unit_test(a_cut_or_damaged_text_is_an_error_or_a_translation),
      cmocka_unit_test(a_file_named_so_is_read_as_text_with_its_external_data),
      cmocka_unit_test(a_serialized_model_is_read_under_a_texts_name_too),
      cmocka_unit_test(a_name_tells_the_text_form),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
