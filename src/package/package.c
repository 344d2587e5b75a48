/* SPDX-License-Identifier: Apache-2.0 */
#include "package/package.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "package/reader.h"

enum { MAX_DOCUMENT_BYTES = 16 << 20 }; /* nesting is bounded by jansson at 2048 */

weft_status wf_package_json(const wf_package *p, const wf_package_options *o, const char *name,
                            bool is_optional, json_t **result, weft_error *err) {
  weft_status st = WEFT_OK;
  char *joined = wf_path_join(p->root, name), *path = NULL, *text = NULL;
  size_t n = 0;
  json_error_t why;
  *result = NULL;
  if (!joined) return wf_fail_memory(err, strlen(name), "a path");
  if (is_optional && !wf_path_exists(joined)) goto out;
  WF_TRY(wf_path_confine(p->root, name, o->trust_links, &path, err));
  WF_TRY(wf_file_read(path, MAX_DOCUMENT_BYTES, &text, &n, err));
  errno = 0;
  *result = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
  if (errno == ENOMEM) { /* jansson takes it for a fault of the text, or cuts a string short */
    json_decref(*result);
    *result = NULL;
    st = wf_fail_memory(err, n, name);
  } else if (!*result) {
    st = wf_fail(err, WEFT_PARSE, "repair the document", "%s, line %d, column %d: %s", name,
                 why.line, why.column, why.text);
  } else if (!json_is_object(*result)) {
    json_decref(*result);
    *result = NULL;
    st = wf_fail(err, WEFT_PACKAGE_INVALID, "repair the document", "%s is not a JSON object", name);
  }
out:
  wf_free(joined);
  free(path);
  wf_free(text);
  return st;
}

weft_status wf_package_set_model(wf_package *p, const wf_package_options *o, const char *relative,
                                 weft_error *err) {
  char *real = NULL, *path = NULL;
  WF_RETURN_IF_ERROR(wf_path_confine(p->root, relative, o->trust_links, &real, err));
  free(real);
  path = wf_path_join(p->root, relative);
  p->model = path ? wf_arena_strdup(p->arena, path) : NULL;
  wf_free(path);
  return p->model ? WEFT_OK : wf_fail_memory(err, strlen(relative), "a path");
}

static weft_status fail_type(weft_error *err, const char *doc, const char *key,
                             const char *wanted) {
  return wf_fail(err, WEFT_PACKAGE_INVALID, "repair the document", "%s: '%s' must be %s", doc, key,
                 wanted);
}

weft_status wf_json_get_int(const json_t *object, const char *doc, const char *key, int64_t lo,
                            int64_t hi, int64_t fallback, int64_t *result, weft_error *err) {
  const json_t *v = json_object_get(object, key);
  *result = fallback;
  if (!v || json_is_null(v)) return WEFT_OK;
  if (!json_is_integer(v)) return fail_type(err, doc, key, "an integer");
  const json_int_t i = json_integer_value(v);
  if (i < lo || i > hi) {
    return wf_fail(err, WEFT_PACKAGE_INVALID, "repair the document",
                   "%s: '%s' is %lld, outside %lld to %lld", doc, key, (long long)i, (long long)lo,
                   (long long)hi);
  }
  *result = i;
  return WEFT_OK;
}

weft_status wf_json_get_number(const json_t *object, const char *doc, const char *key,
                               double fallback, double *result, weft_error *err) {
  const json_t *v = json_object_get(object, key);
  *result = fallback;
  if (!v || json_is_null(v)) return WEFT_OK;
  if (!json_is_number(v)) return fail_type(err, doc, key, "a number");
  *result = json_number_value(v);
  return isfinite(*result) ? WEFT_OK : fail_type(err, doc, key, "a finite number");
}

weft_status wf_json_get_string(wf_package *p, const json_t *object, const char *doc,
                               const char *key, const char *fallback, const char **result,
                               weft_error *err) {
  const json_t *v = json_object_get(object, key);
  *result = fallback;
  if (!v || json_is_null(v)) return WEFT_OK;
  if (!json_is_string(v)) return fail_type(err, doc, key, "a string");
  if (strlen(json_string_value(v)) != json_string_length(v)) {
    return fail_type(err, doc, key, "a string without NUL");
  }
  *result = wf_arena_strdup(p->arena, json_string_value(v));
  return *result ? WEFT_OK : wf_fail_memory(err, json_string_length(v), "a string");
}

weft_status wf_json_get_ids(wf_package *p, const json_t *object, const char *doc, const char *key,
                            const int32_t **ids, size_t *n, weft_error *err) {
  const json_t *v = json_object_get(object, key);
  *ids = NULL;
  *n = 0;
  if (!v || json_is_null(v)) return WEFT_OK;
  const size_t count = json_is_array(v) ? json_array_size(v) : 1;
  int32_t *list = wf_arena_calloc(p->arena, count ? count : 1, sizeof *list);
  if (!list) return wf_fail_memory(err, count * sizeof *list, "token ids");
  for (size_t i = 0; i < count; i++) {
    const json_t *id = json_is_array(v) ? json_array_get(v, i) : v;
    if (!json_is_integer(id) || json_integer_value(id) < -1 || json_integer_value(id) > INT32_MAX) {
      return fail_type(err, doc, key, "a token id or a list of token ids");
    }
    if (json_integer_value(id) >= 0) list[(*n)++] = (int32_t)json_integer_value(id);
  }
  *ids = list;
  return WEFT_OK;
}

weft_status wf_package_expand(wf_package *p, const char *doc, const char *pattern, size_t layer,
                              wf_str *result, weft_error *err) {
  const char *mark = strstr(pattern, "%d");
  if (!mark || strchr(pattern, '%') != mark || strchr(mark + 1, '%')) {
    return wf_fail(err, WEFT_PACKAGE_INVALID, "write the layer number as %d, once",
                   "%s: '%s' is no pattern of port names", doc, pattern);
  }
  wf_buf b = {0};
  wf_buf_add(&b, pattern, (size_t)(mark - pattern));
  wf_buf_printf(&b, "%zu", layer);
  wf_buf_puts(&b, mark + 2);
  const char *text = wf_buf_cstr(&b);
  char *copy = text ? wf_arena_strndup(p->arena, text, b.n) : NULL;
  *result = (wf_str){copy, b.n};
  wf_buf_deinit(&b);
  return copy ? WEFT_OK : wf_fail_memory(err, 0, "a port name");
}

static const wf_onnx_value_info *find_port(const wf_onnx_value_info *list, size_t n, wf_str name) {
  for (size_t i = 0; i < n; i++) {
    if (wf_str_eq(list[i].name, name)) return &list[i];
  }
  return NULL;
}

typedef struct symbol_list {
  WF_VEC(wf_symbol_value) found;
} symbol_list;

/* One axis of a state port: a number must agree with the document, a symbol takes its value from
 * it. */
static weft_status bind_axis(wf_package *p, symbol_list *list, const wf_onnx_value_info *port,
                             int axis, int64_t value, const char *what, weft_error *err) {
  const wf_onnx_dim *dim = &port->dims[axis];
  if (dim->is_known) {
    if (value > 0 && dim->value != value) {
      return wf_fail(err, WEFT_PACKAGE_INVALID, "repair the package: document and graph disagree",
                     "port '%.*s' has %lld on axis %d, but the document says %s is %lld",
                     (int)port->name.n, port->name.at, (long long)dim->value, axis, what,
                     (long long)value);
    }
    return WEFT_OK;
  }
  if (value <= 0 || dim->symbol.n == 0) return WEFT_OK;
  for (size_t i = 0; i < list->found.n; i++) {
    if (wf_str_is(dim->symbol, list->found.at[i].symbol)) return WEFT_OK;
  }
  char *symbol = wf_arena_strndup(p->arena, dim->symbol.at, dim->symbol.n);
  if (!symbol || !wf_vec_push(&list->found, ((wf_symbol_value){symbol, value}))) {
    return wf_fail_memory(err, dim->symbol.n, "a symbol");
  }
  return WEFT_OK;
}

static weft_status check_port(const wf_onnx_value_info *list, size_t n, wf_str name, bool is_input,
                              weft_error *err) {
  if (name.n == 0 || find_port(list, n, name)) return WEFT_OK;
  return wf_fail(err, WEFT_PACKAGE_INVALID, "repair the package: document and graph disagree",
                 "the graph has no %s named '%.*s'", is_input ? "input" : "output", (int)name.n,
                 name.at);
}

bool wf_package_has_input(const wf_onnx_model *m, wf_str name) {
  return find_port(m->graph.inputs, m->graph.n_inputs, name) != NULL;
}

weft_status wf_package_bind_ports(wf_package *p, const wf_onnx_model *m, int64_t n_kv_heads,
                                  int64_t head_size, weft_error *err) {
  weft_status st = WEFT_OK;
  const wf_onnx_graph *g = &m->graph;
  symbol_list list = {0};
  const wf_str inputs[] = {p->ports.input_ids, p->ports.inputs_embeds, p->ports.attention_mask,
                           p->ports.position_ids};
  for (size_t i = 0; i < WF_ARRAY_LEN(inputs); i++) {
    WF_TRY(check_port(g->inputs, g->n_inputs, inputs[i], true, err));
  }
  WF_TRY(check_port(g->outputs, g->n_outputs, p->ports.logits, false, err));
  for (size_t i = 0; i < p->ports.n_states; i++) {
    const wf_state_ports *s = &p->ports.states[i];
    const wf_str past[] = {s->past_key, s->past_value};
    WF_TRY(check_port(g->outputs, g->n_outputs, s->present_key, false, err));
    WF_TRY(check_port(g->outputs, g->n_outputs, s->present_value, false, err));
    for (size_t k = 0; k < 2; k++) {
      WF_TRY(check_port(g->inputs, g->n_inputs, past[k], true, err));
      const wf_onnx_value_info *port = find_port(g->inputs, g->n_inputs, past[k]);
      if (!port || port->rank < 0) continue;
      if (port->rank != 4) {
        st = wf_fail(err, WEFT_PACKAGE_INVALID,
                     "export the model with a [batch, heads, seq, dim] cache",
                     "KV input '%.*s' has rank %d, but a cache needs rank 4", (int)past[k].n,
                     past[k].at, port->rank);
        goto out;
      }
      WF_TRY(bind_axis(p, &list, port, 1, n_kv_heads, "the number of key/value heads", err));
      WF_TRY(bind_axis(p, &list, port, 3, head_size, "the head size", err));
    }
  }
  for (size_t i = 0; i < p->ports.n_carried; i++) {
    WF_TRY(check_port(g->inputs, g->n_inputs, p->ports.carried[i].past, true, err));
    WF_TRY(check_port(g->outputs, g->n_outputs, p->ports.carried[i].present, false, err));
  }
  p->n_symbols = list.found.n;
  if (list.found.n) {
    wf_symbol_value *copy = wf_arena_calloc(p->arena, list.found.n, sizeof *copy);
    if (!copy) {
      st = wf_fail_memory(err, 0, "symbols");
      goto out;
    }
    memcpy(copy, list.found.at, list.found.n * sizeof *copy);
    p->symbols = copy;
  }
out:
  wf_vec_free(&list.found);
  return st;
}

static weft_status create(wf_package **result, const char *path, weft_error *err) {
  weft_status st = WEFT_OK;
  char *dir = NULL, *real = NULL;
  wf_package *p = wf_zalloc(sizeof *p);
  if (!p) return wf_fail_memory(err, sizeof *p, "a package");
  p->arena = wf_arena_create();
  p->bos_id = p->pad_id = -1;
  p->defaults = (wf_generation_defaults){-1, NAN, NAN, NAN, NAN, NAN, -1};
  p->model_type = "";
  if (!wf_path_exists(path)) {
    st = wf_fail(err, WEFT_IO, "check the path", "there is no package at '%s'", path);
    goto out;
  }
  dir = wf_path_is_dir(path) ? wf_path_join("", path) : wf_path_dir(path);
  real = dir ? realpath(dir, NULL) : NULL;
  p->root = real && p->arena ? wf_arena_strdup(p->arena, real) : NULL;
  if (dir && !real && errno != ENOMEM) {
    char why[128];
    st = wf_fail(err, WEFT_IO, "check the path and its permissions", "cannot read '%s': %s", path,
                 strerror_r(errno, why, sizeof why));
    goto out;
  }
  if (!p->root) {
    st = wf_fail_memory(err, 0, "a package");
    goto out;
  }
  *result = p;
  p = NULL;
out:
  wf_package_close(p);
  wf_free(dir);
  free(real);
  return st;
}

/* The first of the names that is in the folder; NULL: none. */
static weft_status find_document(const wf_package *p, const char *const *names, size_t n,
                                 const char **found, weft_error *err) {
  *found = NULL;
  for (size_t i = 0; i < n && !*found; i++) {
    char *path = wf_path_join(p->root, names[i]);
    if (!path) return wf_fail_memory(err, strlen(names[i]), "a path");
    if (wf_path_exists(path)) *found = names[i];
    wf_free(path);
  }
  return WEFT_OK;
}

static weft_status read_documents(wf_package *p, const char *path,
                                  const wf_package_options *options, weft_error *err) {
  static const char *const names[] = {"genai_config.json", "config.json", "inference_metadata.yaml",
                                      "inference_metadata.yml", "inference_metadata.json"};
  const char *found;
  WF_RETURN_IF_ERROR(find_document(p, names, WF_ARRAY_LEN(names), &found, err));
  if (found == names[0]) return wf_package_read_genai(p, options, err);
  if (found == names[1]) return wf_package_read_huggingface(p, options, err);
  if (found) {
    return wf_fail(err, WEFT_UNSUPPORTED, "use a folder with genai_config.json or config.json",
                   "'%s' is a workflow package, which this version does not run", path);
  }
  if (!wf_path_is_dir(path)) { /* a missing file or a Git LFS stub has an error of its own */
    wf_map map = {0};
    WF_RETURN_IF_ERROR(wf_map_open(&map, path, err));
    wf_map_close(&map);
  }
  return wf_fail(err, WEFT_IO,
                 "name a folder with genai_config.json, or config.json and onnx/*.onnx",
                 "'%s' holds no package: neither genai_config.json nor config.json is there", path);
}

weft_status wf_package_open(wf_package **result, const char *path,
                            const wf_package_options *options, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_package *p = NULL;
  WF_TRY(create(&p, path, err));
  WF_TRY(read_documents(p, path, options, err));
  WF_TRY(wf_arena_seal(p->arena, err));
  *result = p;
  p = NULL;
out:
  wf_package_close(p);
  return st;
}

weft_status wf_package_open_text(wf_package **result, const char *dir,
                                 const wf_package_options *options, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_package *p = NULL;
  WF_TRY(create(&p, dir, err));
  p->kind = "text";
  WF_TRY(wf_package_read_text(p, options, err));
  WF_TRY(wf_arena_seal(p->arena, err));
  *result = p;
  p = NULL;
out:
  wf_package_close(p);
  return st;
}

void wf_package_close(wf_package *p) {
  if (!p) return;
  wf_arena_destroy(p->arena);
  wf_free(p);
}
