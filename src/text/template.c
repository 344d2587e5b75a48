/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles and renders chat templates: the public face of the jinja_*.c files. */
#include "text/template.h"

#include "text/jinja.h"

static const char *const default_control_names[] = {
    "bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"};

void wf_render_options_init(wf_render_options *o) {
  *o = (wf_render_options){
      .steps_limit = 20000000,
      .memory_limit_bytes = (size_t)256 << 20,
      .control_names = default_control_names,
      .n_control_names = sizeof default_control_names / sizeof *default_control_names};
}

static bool keep_lists(jj_compiler *c, wf_template *t) {
  wf_str *literals = wf_arena_calloc(c->arena, c->literals.n + 1, sizeof *literals);
  const jj_str **reads = wf_arena_calloc(c->arena, c->reads.n + 1, sizeof *reads);
  if (!literals || !reads) return wf_jj_no_memory(c);
  if (c->literals.n) memcpy(literals, c->literals.at, c->literals.n * sizeof *literals);
  for (size_t i = 0; i < c->reads.n; i++) reads[i] = c->reads.at[i];
  t->literals = literals;
  t->n_literals = c->literals.n;
  t->reads = reads;
  t->n_reads = c->reads.n;
  return true;
}

weft_status wf_template_compile(wf_template **result, wf_str source, weft_error *err) {
  *result = NULL;
  jj_compiler c = {.arena = wf_arena_create(), .err = err};
  wf_template *t = wf_zalloc(sizeof *t);
  weft_status st = WEFT_OK;
  if (!c.arena || !t) {
    st = wf_fail_memory(err, sizeof *t, "a chat template");
    goto out;
  }
  t->arena = c.arena;
  if (wf_jj_lex(&c, source) && (t->root = wf_jj_parse_template(&c)) != NULL &&
      wf_jj_bind_template(&c, t->root) && keep_lists(&c, t)) {
    t->has_blocks = c.has_blocks;
    WF_TRY(wf_arena_seal(c.arena, err));
    *result = t;
    t = NULL;
  } else {
    st = c.status;
    if (st == WEFT_OK) st = wf_fail(err, WEFT_INTERNAL, "report this", "template not compiled");
  }
out:
  wf_vec_free(&c.tokens);
  wf_vec_free(&c.literals);
  wf_vec_free(&c.reads);
  if (t) {
    wf_free(t);
    wf_arena_destroy(c.arena);
  } else if (!*result) {
    wf_arena_destroy(c.arena);
  }
  return st;
}

void wf_template_destroy(wf_template *t) {
  if (!t) return;
  wf_arena_destroy(t->arena);
  wf_free(t);
}

const wf_str *wf_template_literals(const wf_template *t, size_t *n) {
  *n = t->n_literals;
  return t->literals;
}

bool wf_template_reads(const wf_template *t, const char *name) {
  for (size_t i = 0; i < t->n_reads; i++) {
    if (wf_str_is((wf_str){t->reads[i]->at, t->reads[i]->n}, name)) return true;
  }
  return false;
}

/* A role the chat format itself knows is not the user's text: templates build control tokens from
 * it ('<|' + role + '|>'). */
static void release_role(jj_val *message) {
  static const char *const roles[] = {"system",    "user",     "assistant", "tool",
                                      "developer", "function", "ipython",   "model"};
  if (message->kind != JJ_DICT) return;
  jj_val *role = wf_jj_dict_find(message->u.d, "role", 4);
  for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++) {
    if (!wf_jj_str_is(role, roles[i])) continue;
    jj_str *s = wf_unconst(role->u.s); /* made for this render a moment ago, seen by no one else */
    s->content = false;
  }
}

static bool add_variables(jj_run *run, const json_t *variables) {
  json_t *o = wf_unconst(variables); /* jansson's iterators take no const; they only read */
  for (void *i = json_object_iter(o); i; i = json_object_iter_next(o, i)) {
    const char *name = json_object_iter_key(i);
    bool content = true;
    for (size_t k = 0; k < run->options->n_control_names; k++) {
      if (strcmp(name, run->options->control_names[k]) == 0) content = false;
    }
    jj_val value;
    const jj_val key = wf_jj_str_of(run, name, strlen(name), false);
    if (!key.kind || !wf_jj_from_json(run, json_object_iter_value(i), content, 0, &value)) {
      return false;
    }
    if (value.kind == JJ_LIST && strcmp(name, "messages") == 0) {
      for (size_t k = 0; k < value.u.l->n; k++) release_role(&value.u.l->at[k]);
    }
    if (!wf_jj_dict_set(run, run->context, key, value)) return false;
  }
  return true;
}

/* The runs of equal marks of the output, as segments from `base` on. */
static bool add_segments(const jj_buf *text, size_t base, wf_text_runs *segments) {
  for (size_t i = 0; i < text->n;) {
    const bool content = text->marks ? text->marks[i] : text->content;
    size_t end = text->n;
    if (text->marks) {
      const uint8_t *other = memchr(text->marks + i, !content, text->n - i);
      if (other) end = (size_t)(other - text->marks);
    }
    const wf_text_run s = {base + i, base + end, content};
    if (!wf_vec_push(segments, s)) return false;
    i = end;
  }
  return true;
}

weft_status wf_template_render(const wf_template *t, const json_t *variables,
                               const wf_render_options *options, wf_buf *out,
                               wf_text_runs *segments, weft_error *err) {
  wf_render_options defaults;
  if (!json_is_object(variables)) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "pass an object with `messages`",
                   "template variables are not a JSON object");
  }
  if (!options) {
    wf_render_options_init(&defaults);
    options = &defaults;
  }
  jj_buf text = {0};
  jj_run run = {.tpl = t, .options = options, .err = err, .out = &text};
  run.steps = options->steps_limit ? options->steps_limit : 20000000;
  run.heap.limit = options->memory_limit_bytes ? options->memory_limit_bytes : (size_t)256 << 20;
  const size_t base = out->n, n_segments = segments ? segments->n : 0;
  run.context = wf_jj_dict(&run, 32);
  if (t->has_blocks) run.exported = wf_jj_dict(&run, 8);
  bool ok = run.context && wf_jj_globals(&run, run.context) && add_variables(&run, variables) &&
            wf_jj_run_template(&run);
  if (ok) {
    wf_buf_add(out, text.at, text.n);
    ok = !out->failed && (!segments || add_segments(&text, base, segments));
    if (!ok) {
      out->n = base;
      if (segments) segments->n = n_segments;
      run.status = wf_fail_memory(err, text.n, "a rendered chat template");
    }
  }
  wf_jj_heap_free(&run.heap);
  if (!ok && run.status == WEFT_OK) {
    run.status = wf_fail(err, WEFT_INTERNAL, "report this", "the template failed without a reason");
  }
  return run.status;
}
