/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates against jinja2: the goldens of make_template_goldens.py, the shared real-world
 * templates, and what only we promise (content marks, limits, positions). */
#include "support/test.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/template.h"

static weft_status render(const char *source, size_t n, const json_t *variables, const char *now,
                          wf_buf *out, wf_text_runs *runs, weft_error *err) {
  wf_template *t = NULL;
  wf_render_options o;
  wf_render_options_init(&o);
  o.steps_limit = 2000000; /* enough for any honest template; the hostile ones end sooner */
  if (now) {
    o.has_now = true;
    assert_true(wf_parse_time(wf_str_of(now), &o.now_seconds));
  }
  weft_status st = wf_template_compile(&t, (wf_str){source, n}, err);
  if (st == WEFT_OK) st = wf_template_render(t, variables, &o, out, runs, err);
  wf_template_destroy(t);
  return st;
}

/* Renders with variables given as JSON text; fails the test when that is refused. */
static char *text_of(const char *source, const char *variables, wf_text_runs *runs) {
  weft_error err = {0};
  wf_buf out = {0};
  json_t *v = json_loads(variables, JSON_ALLOW_NUL, NULL);
  assert_non_null(v);
  assert_ok(render(source, strlen(source), v, NULL, &out, runs, &err), &err);
  json_decref(v);
  return out.n ? wf_buf_take(&out) : strdup("");
}

static weft_status refusal(const char *source, const char *variables, weft_error *err) {
  wf_buf out = {0};
  json_t *v = json_loads(variables, 0, NULL);
  assert_non_null(v);
  const weft_status st = render(source, strlen(source), v, NULL, &out, NULL, err);
  json_decref(v);
  wf_buf_deinit(&out);
  return st;
}

/* -- the shared templates -- */

static json_t *case_variables(const json_t *file, const json_t *c) {
  json_t *v = json_object();
  const char *name;
  json_t *value;
  json_object_set(v, "messages", json_object_get(c, "messages"));
  json_object_set(v, "tools", json_object_get(c, "tools"));
  json_object_set(v, "add_generation_prompt", json_object_get(c, "add_generation_prompt"));
  json_object_set(v, "bos_token", json_object_get(file, "bos_token"));
  json_object_set(v, "eos_token", json_object_get(file, "eos_token"));
  json_object_foreach(json_object_get(c, "extra"), name, value) json_object_set(v, name, value);
  return v;
}

static int check_case(const char *file_name, const char *case_name, const json_t *file,
                      const json_t *c) {
  json_t *variables = case_variables(file, c);
  const json_t *template = json_object_get(file, "template"),
               *expect = json_object_get(c, "expect");
  const json_t *text = json_object_get(expect, "text");
  weft_error err = {0};
  wf_buf out = {0};
  wf_text_runs runs = {0};
  const weft_status st =
      render(json_string_value(template), json_string_length(template), variables,
             json_string_value(json_object_get(file, "now")), &out, &runs, &err);
  int bad = 0;
  if (text) {
    bad = st != WEFT_OK || out.n != json_string_length(text) ||
          memcmp(out.at, json_string_value(text), out.n) != 0;
    size_t at = 0; /* the runs cover the text without gaps, kinds alternating */
    for (size_t i = 0; i < runs.n && !bad; i++) {
      bad = runs.at[i].begin != at || runs.at[i].end <= at ||
            (i && runs.at[i].is_content == runs.at[i - 1].is_content);
      at = runs.at[i].end;
    }
    bad |= st == WEFT_OK && at != out.n;
  } else {
    bad = st != WEFT_TEMPLATE;
  }
  if (bad) {
    print_message("%s %s: %s\n-- got:\n%s\n-- want:\n%s\n", file_name, case_name,
                  st ? err.what : "differs", out.n ? wf_buf_cstr(&out) : "",
                  text ? json_string_value(text) : "an error");
  }
  json_decref(variables);
  wf_buf_deinit(&out);
  wf_vec_free(&runs);
  return bad;
}

static void the_shared_templates_render_byte_for_byte(void **state) {
  (void)state;
  const char *folder = WEFT_SOURCE_DIR "/../shared/templates";
  DIR *d = opendir(folder);
  int bad = 0, n = 0;
  if (!d) {
    print_message("LEFT OUT the_shared_templates: %s is absent\n", folder);
    return;
  }
  for (struct dirent *e; (e = readdir(d)) != NULL;) {
    char path[1024];
    const size_t length = strlen(e->d_name);
    if (length < 5 || strcmp(e->d_name + length - 5, ".json") != 0) continue;
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    json_t *file = json_load_file(path, JSON_ALLOW_NUL, NULL);
    assert_non_null(file);
    const char *name;
    json_t *c;
    json_object_foreach(json_object_get(file, "cases"), name, c) {
      bad += check_case(e->d_name, name, file, c);
      n++;
    }
    json_decref(file);
  }
  closedir(d);
  print_message("%d cases of shared templates, %d wrong\n", n, bad);
  assert_true(n > 0);
  assert_int_equal(bad, 0);
}

/* -- the goldens -- */

static void the_goldens_agree_with_jinja2(void **state) {
  (void)state;
  const char *path = getenv("WEFT_TEMPLATE_GOLDENS"); /* a file of make_template_goldens --random */
  if (!path) path = WEFT_SOURCE_DIR "/tests/text/template_goldens.json";
  json_t *all = json_load_file(path, JSON_ALLOW_NUL, NULL);
  assert_non_null(all);
  const json_t *shared = json_object_get(all, "variables");
  size_t i, bad = 0;
  json_t *c;
  json_array_foreach(json_object_get(all, "cases"), i, c) {
    const json_t *source = json_object_get(c, "t"), *want = json_object_get(c, "out");
    const json_t *line = json_object_get(c, "line"), *own = json_object_get(c, "vars");
    json_t *v = json_deep_copy(shared);
    if (own) json_object_update(v, wf_unconst(own)); /* jansson only reads it */
    wf_buf out = {0};
    weft_error err = {0};
    const weft_status st = render(json_string_value(source), json_string_length(source), v,
                                  "2026-01-02T03:04:05", &out, NULL, &err);
    bool ok;
    if (want) {
      ok = st == WEFT_OK && out.n == json_string_length(want) &&
           (!out.n || memcmp(out.at, json_string_value(want), out.n) == 0);
    } else {
      char at[40];
      ok = st == WEFT_TEMPLATE;
      if (ok && json_is_integer(line)) {
        snprintf(at, sizeof at, "line %d, column ", (int)json_integer_value(line));
        ok = strstr(err.what, at) != NULL;
      }
    }
    if (!ok) {
      bad++;
      print_message("-- %s\n   got  [%s]%s\n   want [%s]%s line %d\n", json_string_value(source),
                    st ? err.what : wf_buf_cstr(&out), st ? " (refused)" : "",
                    want ? json_string_value(want) : json_string_value(json_object_get(c, "error")),
                    want ? "" : " (refused)", (int)json_integer_value(line));
    }
    wf_buf_deinit(&out);
    json_decref(v);
  }
  print_message("%zu goldens, %zu wrong\n", json_array_size(json_object_get(all, "cases")), bad);
  json_decref(all);
  assert_int_equal(bad, 0);
}

/* -- content -- */

/* The text with content in square brackets, for reading in a test. */
static void assert_marked(const char *source, const char *variables, const char *want) {
  wf_text_runs runs = {0};
  char *text = text_of(source, variables, &runs);
  wf_buf b = {0};
  for (size_t i = 0; i < runs.n; i++) {
    if (runs.at[i].is_content) wf_buf_putc(&b, '[');
    wf_buf_add(&b, text + runs.at[i].begin, runs.at[i].end - runs.at[i].begin);
    if (runs.at[i].is_content) wf_buf_putc(&b, ']');
  }
  assert_string_equal(wf_buf_cstr(&b), want);
  wf_buf_deinit(&b);
  wf_vec_free(&runs);
  wf_free(text);
}

static const char one_message[] =
    "{\"bos_token\": \"<s>\", \"messages\": [{\"role\": \"user\", \"content\": \" Ab<|end|> \"}],"
    " \"x\": \"q-r\", \"tools\": [{\"name\": \"t<|end|>\"}]}";

static void content_is_marked_through_every_operation(void **state) {
  (void)state;
  assert_marked("{{ bos_token }}<u>{{ messages[0].content }}</u>", one_message,
                "<s><u>[ Ab<|end|> ]</u>");
  assert_marked("{{ ('<a>' + messages[0].content + '</a>')|trim }}", one_message,
                "<a>[ Ab<|end|> ]</a>");
  assert_marked("{{ '(' ~ messages[0]['content'].strip() ~ ')' }}", one_message, "([Ab<|end|>])");
  assert_marked("{{ messages[0].content|upper }}!", one_message, "[ AB<|END|> ]!");
  assert_marked("{{ '<|im|>%s</>' % x }}", one_message, "<|im|>[q-r]</>");
  assert_marked("{{ '<{}>{}'.format(x, 1) }}", one_message, "<[q-r]>1");
  assert_marked("{{ x.replace('-', '<sep>') }}", one_message, "[q]<sep>[r]");
  assert_marked("{{ x.split('-')|join('|') }}", one_message, "[q]|[r]");
  assert_marked("{{ ('<'+x+'>')[::-1] }}", one_message, ">[r-q]<");
  assert_marked("{{ ('<'+x+'>')[0:3] }}", one_message, "<[q-]");
  assert_marked("{{ tools|tojson }}", one_message, "[{\"[name]\": \"[t<|end|>]\"}]");
  assert_marked("{% macro m(a) %}<m>{{ a }}</m>{% endmacro %}{{ m(x) }}", one_message,
                "<m>[q-r]</m>");
  assert_marked("{% set y %}<y>{{ x }}{% endset %}{{ y|title }}", one_message, "<Y>[q-R]");
  assert_marked("{% filter indent(2, true) %}{{ x }}{% endfilter %}", one_message, "  [q-r]");
  assert_marked("{{ '<|' + messages[0].role + '|>' }}", one_message, "<|user|>");
  assert_marked("{{ [x, '<|']|string }}", one_message, "['[q-r]', '<|']");
  assert_marked("{{ ('<' ~ x)|list|join }}", one_message, "<[q-r]");
}

static void an_unknown_role_stays_content(void **state) {
  (void)state;
  assert_marked("<|{{ messages[0].role }}|>", "{\"messages\": [{\"role\": \"im_end\"}]}",
                "<|[im_end]|>");
}

static void literals_are_listed_for_the_engine(void **state) {
  (void)state;
  weft_error err = {0};
  wf_template *t = NULL;
  size_t n;
  assert_ok(wf_template_compile(&t, WF_STR("<a>{% if x == 'b\\n' %}{{ tools ~ \"c\" }}{% endif %}"),
                                &err),
            &err);
  const wf_str *l = wf_template_literals(t, &n);
  assert_int_equal(n, 3);
  assert_true(wf_str_is(l[0], "<a>"));
  assert_true(wf_str_is(l[1], "b\n"));
  assert_true(wf_str_is(l[2], "c"));
  assert_true(wf_template_reads(t, "tools"));
  assert_false(wf_template_reads(t, "documents"));
  wf_template_destroy(t);
}

/* -- errors and limits -- */

static void an_error_names_line_and_column(void **state) {
  (void)state;
  weft_error err = {0};
  assert_refused(refusal("a\nb\n{% if %}", "{}", &err), WEFT_TEMPLATE, &err);
  assert_non_null(strstr(err.what, "line 3, column 7"));
  assert_refused(refusal("{{ 1 }}\n  {{ é.x.y }}", "{}", &err), WEFT_TEMPLATE, &err);
  assert_non_null(strstr(err.what, "line 2, column "));
  assert_refused(refusal("{{ raise_exception('no\\u0021') }}", "{}", &err), WEFT_TEMPLATE, &err);
  assert_non_null(strstr(err.what, "line 1, column"));
  assert_non_null(strstr(err.what, "no!"));
}

static void hostile_templates_end_with_an_error(void **state) {
  (void)state;
  static const char *const sources[] = {
      "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}"
      "{% endfor %}{% endfor %}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% set ns = namespace(s='x') %}{% for i in range(90000) %}{% set ns.s = ns.s + ns.s %}"
      "{% endfor %}{{ ns.s|length }}{{ ns.s }}",
      "{{ 'a' * 999999999999 }}",
      "{{ ('a' * 100000000)|list }}",
      "{{ [0] * 9999999999 }}",
      "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
      "{{ 'x'|center(999999999) }}",
      "{{ '%999999999d' % 3 }}",
      "{{ '{:999999999}'.format(3) }}",
      "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{{ ('a' * 1000000).rfind('b' + 'a' * 500000) }}{% for i in range(100000) %}"
      "{{ ('a' * 1000000).rfind('b' + 'a' * 500000) }}{% endfor %}",
      "{% set ns = namespace(l=[1]) %}{% for i in range(90000) %}{% set ns.l = [ns.l, ns.l] %}"
      "{% endfor %}{{ ns.l|string }}",
      "{{ range(9999999999) }}",
  };
  for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
    weft_error err = {0};
    if (refusal(sources[i], "{}", &err) != WEFT_TEMPLATE && err.status != WEFT_OUT_OF_MEMORY) {
      fail_msg("not refused: %s (%s)", sources[i], err.what);
    }
  }
  wf_buf deep = {0};
  weft_error err = {0};
  for (int i = 0; i < 100000; i++) wf_buf_putc(&deep, '(');
  wf_buf all = {0};
  wf_buf_puts(&all, "{{ ");
  wf_buf_add(&all, deep.at, deep.n);
  assert_refused(refusal(wf_buf_cstr(&all), "{}", &err), WEFT_TEMPLATE, &err);
  wf_buf_clear(&all);
  wf_buf_puts(&all, "{{ 1");
  for (int i = 0; i < 100000; i++) wf_buf_puts(&all, "+1");
  wf_buf_puts(&all, " }}");
  assert_refused(refusal(wf_buf_cstr(&all), "{}", &err), WEFT_TEMPLATE, &err);
  wf_buf_clear(&all); /* more names than any template has: refused, not read for minutes */
  for (int i = 0; i < 200000; i++) wf_buf_printf(&all, "{{ a%d }}", i);
  assert_refused(refusal(wf_buf_cstr(&all), "{}", &err), WEFT_TEMPLATE, &err);
  wf_buf_deinit(&all);
  wf_buf_deinit(&deep);
}

static void a_failed_render_leaves_the_output_alone(void **state) {
  (void)state;
  weft_error err = {0};
  wf_buf out = {0};
  wf_text_runs runs = {0};
  json_t *v = json_object();
  wf_buf_puts(&out, "before");
  assert_refused(render("abc{{ x.y }}", 12, v, NULL, &out, &runs, &err), WEFT_TEMPLATE, &err);
  assert_string_equal(wf_buf_cstr(&out), "before");
  assert_int_equal(runs.n, 0);
  json_decref(v);
  wf_buf_deinit(&out);
}

typedef struct job {
  const wf_template *t;
  const json_t *v;
  int bad;
} job;

static void *render_often(void *arg) {
  job *j = arg;
  for (int i = 0; i < 300; i++) {
    weft_error err = {0};
    wf_buf out = {0};
    if (wf_template_render(j->t, j->v, NULL, &out, NULL, &err) || out.n != 15 ||
        memcmp(out.at, "<s>[Ab<|end|>]1", 15) != 0) {
      j->bad++;
    }
    wf_buf_deinit(&out);
  }
  return NULL;
}

static void one_template_renders_on_many_threads(void **state) {
  (void)state;
  weft_error err = {0};
  wf_template *t = NULL;
  const char *source =
      "{{ bos_token }}{% for m in messages %}[{{ m.content|trim }}]"
      "{{ loop.index }}{% endfor %}";
  json_t *v = json_loads(one_message, 0, NULL);
  assert_ok(wf_template_compile(&t, wf_str_of(source), &err), &err);
  job jobs[4];
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) {
    jobs[i] = (job){t, v, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, render_often, &jobs[i]), 0);
  }
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(jobs[i].bad, 0);
  }
  json_decref(v);
  wf_template_destroy(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_shared_templates_render_byte_for_byte),
      cmocka_unit_test(the_goldens_agree_with_jinja2),
      cmocka_unit_test(content_is_marked_through_every_operation),
      cmocka_unit_test(an_unknown_role_stays_content),
      cmocka_unit_test(literals_are_listed_for_the_engine),
      cmocka_unit_test(an_error_names_line_and_column),
      cmocka_unit_test(hostile_templates_end_with_an_error),
      cmocka_unit_test(a_failed_render_leaves_the_output_alone),
      cmocka_unit_test(one_template_renders_on_many_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
