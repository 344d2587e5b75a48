/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors named on the command line, and the files that results are written to. */
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"

size_t cli_find_port(const char *text, const void *owner, size_t n, cli_port_fn *port_at,
                     weft_tensor *port) {
  size_t best = 0;
  for (size_t i = 0; i < n; i++) {
    weft_tensor candidate = {.struct_size = sizeof candidate};
    port_at(owner, i, &candidate);
    const size_t n_name = strlen(candidate.name);
    if (n_name > best && strncmp(text, candidate.name, n_name) == 0 && text[n_name] == '=') {
      best = n_name;
      *port = candidate;
    }
  }
  return best;
}

weft_status cli_take_value(const char *value, cli_array *a, weft_tensor *t, weft_error *err) {
  if (wf_str_ends(wf_str_of(value), WF_STR(".npy"))) {
    WF_RETURN_IF_ERROR(wf_npy_read(value, a, err));
    /* NumPy has no code for bfloat16 and the 8-bit floats: their bits come as unsigned integers */
    if ((t->dtype == 16 && a->dtype == 4) || (t->dtype >= 17 && t->dtype <= 20 && a->dtype == 2)) {
      a->dtype = t->dtype;
    }
  } else {
    WF_RETURN_IF_ERROR(cli_array_parse(value, t, a, err));
  }
  t->dtype = a->dtype;
  t->rank = a->rank;
  t->dims = a->dims;
  t->data = a->data;
  t->n_bytes = a->n_bytes;
  return WEFT_OK;
}

char *cli_output_name(const cli_output *o, const char *suffix) {
  wf_buf name = {0};
  for (const char *p = o->tensor.name ? o->tensor.name : ""; *p; p++) {
    wf_buf_putc(&name, *p == '/' ? '_' : *p);
  }
  if (o->row >= 0) wf_buf_printf(&name, ".row.%lld", (long long)o->row);
  wf_buf_puts(&name, suffix);
  return wf_buf_take(&name);
}

/* Two outputs such as a/b and a_b, or x.row.0 and row 0 of x, would be written over one another. */
static weft_status check_names(char *const *names, const cli_outputs *list, weft_error *err) {
  for (size_t i = 0; i < list->n; i++) {
    if (!names[i]) return wf_fail_memory(err, 0, "a path");
    for (size_t k = 0; k < i; k++) {
      if (strcmp(names[i], names[k]) != 0) continue;
      return wf_fail(err, WEFT_INVALID_ARGUMENT, "rename one of the outputs",
                     "outputs '%s' and '%s' would both be written to '%s'", list->at[k].tensor.name,
                     list->at[i].tensor.name, names[i]);
    }
  }
  return WEFT_OK;
}

weft_status cli_write_outputs(const char *dir, const cli_outputs *list, weft_error *err) {
  weft_status st = WEFT_OK;
  char **names = wf_calloc(list->n + 1, sizeof *names);
  if (!names) return wf_fail_memory(err, 0, "paths");
  for (size_t i = 0; i < list->n; i++) names[i] = cli_output_name(&list->at[i], ".npy");
  WF_TRY(check_names(names, list, err));
  WF_TRY(wf_path_make_dirs(dir, false, err));
  for (size_t i = 0; i < list->n; i++) {
    char *path = wf_path_join(dir, names[i]);
    st = path ? cli_npy_write(path, &list->at[i].tensor, err) : wf_fail_memory(err, 0, "a path");
    wf_free(path);
    WF_TRY(st);
  }
out:
  for (size_t i = 0; i < list->n; i++) wf_free(names[i]);
  wf_free(names);
  return st;
}
