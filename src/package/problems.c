/* SPDX-License-Identifier: Apache-2.0 */
#include "package/problems.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static const struct {
  const char *text;
  weft_status status;
} classes[] = {
#define WF_X(name, text, status) {text, WEFT_##status},
    WF_PROBLEM_MAP(WF_X)
#undef WF_X
};

void wf_problems_init(wf_problems *p, wf_arena *arena, bool is_strict) {
  *p = (wf_problems){.arena = arena, .is_strict = is_strict};
}

void wf_problems_deinit(wf_problems *p) { wf_vec_free(&p->list); }

bool wf_problem_is_warning(wf_problem_class c) { return classes[c].status == WEFT_OK; }

const char *wf_problem_class_name(wf_problem_class c) { return classes[c].text; }

void wf_problems_addv(wf_problems *p, wf_problem_class class, const char *rule, const char *path,
                      uint32_t line, uint32_t column, const char *fix, const char *fmt,
                      va_list args) {
  char text[480];
  if (wf_problem_is_warning(class))
    p->n_warnings++;
  else
    p->n_errors++;
  if (p->list.n == WF_PROBLEMS_MAX) return;
  (void)vsnprintf(text, sizeof text, fmt, args);
  wf_problem problem = {.class = class, .rule = rule, .line = line, .column = column, .fix = fix};
  problem.path = wf_arena_strdup(p->arena, path);
  problem.what = wf_arena_strdup(p->arena, text);
  if (!problem.path || !problem.what || !wf_vec_push(&p->list, problem)) p->failed = true;
}

void wf_problems_add(wf_problems *p, wf_problem_class class, const char *rule, const char *path,
                     uint32_t line, uint32_t column, const char *fix, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  wf_problems_addv(p, class, rule, path, line, column, fix, fmt, args);
  va_end(args);
}

static int compare(const void *a, const void *b) {
  const wf_problem *x = a, *y = b;
  if (x->line != y->line) return x->line < y->line ? -1 : 1;
  if (x->column != y->column) return x->column < y->column ? -1 : 1;
  int order = strcmp(x->rule, y->rule);
  if (order == 0) order = strcmp(x->path, y->path);
  return order ? order : strcmp(x->what, y->what);
}

void wf_problems_sort(wf_problems *p) {
  size_t n = 0;
  if (p->list.n > 1) qsort(p->list.at, p->list.n, sizeof *p->list.at, compare);
  for (size_t i = 0; i < p->list.n; i++) {
    if (n && compare(&p->list.at[n - 1], &p->list.at[i]) == 0) {
      if (wf_problem_is_warning(p->list.at[i].class))
        p->n_warnings--;
      else
        p->n_errors--;
      continue;
    }
    p->list.at[n++] = p->list.at[i];
  }
  p->list.n = n;
}

bool wf_problems_block(const wf_problems *p) {
  return p->n_errors || (p->is_strict && p->n_warnings);
}

weft_status wf_problems_fail(const wf_problems *p, const char *document, weft_error *err) {
  if (p->failed) return wf_fail_memory(err, 0, "the list of problems");
  for (size_t i = 0; i < p->list.n; i++) {
    const wf_problem *problem = &p->list.at[i];
    if (wf_problem_is_warning(problem->class) && (p->n_errors || !p->is_strict)) continue;
    const size_t n = p->n_errors + (p->is_strict ? p->n_warnings : 0);
    const weft_status st = classes[problem->class].status;
    return wf_fail(err, st ? st : WEFT_PACKAGE_INVALID, problem->fix,
                   "%s, line %u, column %u: %s%s%s%s %s: %s%s", document, problem->line,
                   problem->column, wf_problem_class_name(problem->class),
                   *problem->rule ? " " : "", problem->rule, *problem->path ? " at" : "",
                   problem->path, problem->what, n > 1 ? " (weft validate lists all)" : "");
  }
  return WEFT_OK;
}

/* Names come from strangers: a control character must not reach a terminal. */
static void add_printable(wf_buf *out, const char *s) {
  for (; *s; s++) {
    const unsigned char c = (unsigned char)*s;
    if (c < 0x20 || c == 0x7f)
      wf_buf_puts(out, "\xef\xbf\xbd");
    else
      wf_buf_putc(out, *s);
  }
}

static void print_json(const wf_problems *p, const char *document, wf_buf *out) {
  wf_buf_puts(out, "{\"document\": ");
  wf_buf_add_json_string(out, wf_str_of(document), false);
  wf_buf_printf(out, ", \"valid\": %s, \"errors\": %zu, \"warnings\": %zu, \"problems\": [",
                wf_problems_block(p) ? "false" : "true", p->n_errors, p->n_warnings);
  for (size_t i = 0; i < p->list.n; i++) {
    const wf_problem *problem = &p->list.at[i];
    wf_buf_printf(out, "%s\n  {\"class\": \"%s\", \"rule\": \"%s\", \"line\": %u, \"column\": %u",
                  i ? "," : "", wf_problem_class_name(problem->class), problem->rule, problem->line,
                  problem->column);
    wf_buf_puts(out, ", \"path\": ");
    wf_buf_add_json_string(out, wf_str_of(problem->path), false);
    wf_buf_puts(out, ", \"what\": ");
    wf_buf_add_json_string(out, wf_str_of(problem->what), false);
    wf_buf_puts(out, ", \"fix\": ");
    wf_buf_add_json_string(out, wf_str_of(problem->fix), false);
    wf_buf_putc(out, '}');
  }
  wf_buf_puts(out, p->list.n ? "\n]}\n" : "]}\n");
}

void wf_problems_print(const wf_problems *p, const char *document, bool json, wf_buf *out) {
  if (json) {
    print_json(p, document, out);
    return;
  }
  for (size_t i = 0; i < p->list.n; i++) {
    const wf_problem *problem = &p->list.at[i];
    add_printable(out, document);
    wf_buf_printf(out, ":%u:%u: %s", problem->line, problem->column,
                  wf_problem_class_name(problem->class));
    if (*problem->rule) wf_buf_printf(out, " %s", problem->rule);
    if (*problem->path) wf_buf_putc(out, ' ');
    add_printable(out, problem->path);
    wf_buf_puts(out, ": ");
    add_printable(out, problem->what);
    if (problem->fix && *problem->fix) {
      wf_buf_puts(out, "; ");
      add_printable(out, problem->fix);
    }
    wf_buf_putc(out, '\n');
  }
  if (p->n_errors + p->n_warnings > p->list.n)
    wf_buf_printf(out, "... and %zu more\n", p->n_errors + p->n_warnings - p->list.n);
  add_printable(out, document);
  wf_buf_printf(out, ": %s: %zu error%s, %zu warning%s\n",
                wf_problems_block(p) ? "invalid" : "valid", p->n_errors,
                p->n_errors == 1 ? "" : "s", p->n_warnings, p->n_warnings == 1 ? "" : "s");
}
