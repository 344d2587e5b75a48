/* SPDX-License-Identifier: Apache-2.0 */
/* What weft makes of a package or an ONNX file, told to people and programs. */
#include <string.h>

#include "base/file.h"
#include "engine/engine.h"

weft_status weft_model_file(const char *path, const weft_model_options *options, char **file,
                            weft_error *err) {
  weft_status st = WEFT_OK;
  wf_package *p = NULL;
  weft_model_options o;
  char *temporary_dir = NULL;
  wf_model_options_take(&o, options);
  if (wf_is_onnx(path)) {
    *file = wf_path_join("", path);
  } else {
    WF_TRY(wf_package_open_or_import(&p, &temporary_dir, path, &o, err));
    if (temporary_dir) { /* the file would be gone before the caller could open it */
      st = wf_fail(err, WEFT_IO, "import it first: weft import FILE.gguf -o DIR",
                   "the cache folder cannot be written, so '%s' has no place to be imported to",
                   path);
      goto out;
    }
    *file = wf_path_join("", p->model);
  }
  if (!*file) st = wf_fail_memory(err, 0, "a path");
out:
  wf_package_close(p);
  wf_temporary_remove(temporary_dir);
  return st;
}

static void add_port(wf_buf *b, const wf_port *port, bool json) {
  static const char *const roles[] = {"tensor",    "input_ids", "embeds", "mask",
                                      "positions", "state",     "logits"};
  if (json) {
    wf_buf_puts(b, "{\"name\": ");
    wf_buf_add_json_string(b, wf_str_of(port->name), false);
    wf_buf_printf(b, ", \"role\": \"%s\", \"dtype\": \"%s\", \"shape\": [", roles[port->role],
                  wf_dtype_name(port->dtype));
  } else {
    wf_buf_printf(b, "  %-36s %-10s %s [", port->name, roles[port->role],
                  wf_dtype_name(port->dtype));
  }
  for (int32_t d = 0; d < port->rank && d < WF_VIEW_MAX_RANK; d++) {
    if (d) wf_buf_puts(b, ", ");
    if (port->dims[d] >= 0)
      wf_buf_printf(b, "%lld", (long long)port->dims[d]);
    else if (json)
      wf_buf_add_json_string(b, wf_str_of(port->symbols[d] ? port->symbols[d] : "?"), false);
    else
      wf_buf_puts(b, port->symbols[d] ? port->symbols[d] : "?");
  }
  wf_buf_puts(b, json ? "]}" : "]\n");
}

static void add_ports(wf_buf *b, const char *title, const wf_port *ports, size_t n, bool json) {
  size_t n_states = 0;
  if (json)
    wf_buf_printf(b, ", \"%s\": [", title);
  else
    wf_buf_printf(b, "%s:\n", title);
  for (size_t i = 0; i < n; i++) {
    n_states += ports[i].role == WF_PORT_STATE;
    /* a decoder has dozens of alike state ports: people see the first two */
    if (!json && ports[i].role == WF_PORT_STATE && n_states > 2) continue;
    if (json && i) wf_buf_puts(b, ", ");
    add_port(b, &ports[i], json);
  }
  if (json)
    wf_buf_puts(b, "]");
  else if (n_states > 2)
    wf_buf_printf(b, "  ... and %zu more states\n", n_states - 2);
}

static void add_info(wf_buf *b, const wf_component_info *info, const wf_package *p,
                     const char *file, bool json, const wf_buf *report) {
  if (json) {
    wf_buf_puts(b, "{\"file\": ");
    wf_buf_add_json_string(b, wf_str_of(file), false);
    wf_buf_printf(b,
                  ", \"kind\": \"%s\", \"backend\": \"%s\", \"cpu_level\": \"%s\", \"precision\": ",
                  p ? p->kind : "onnx", info->backend, info->cpu_level);
    wf_buf_add_json_string(b, wf_str_of(info->precision), false);
    wf_buf_printf(b,
                  ", \"is_packed\": %s, \"why_not_packed\": ", info->is_packed ? "true" : "false");
    wf_buf_add_json_string(b, wf_str_of(info->why_not_packed), false);
    wf_buf_printf(
        b,
        ", \"may_chunk\": %s, \"vocabulary\": %lld, \"layers\": %zu, \"fixed_states\": %zu, "
        "\"max_positions\": %lld"
        ", \"weight_bytes\": %zu, \"packed_bytes\": %zu, \"kv_bytes_per_token\": %zu",
        info->may_chunk ? "true" : "false", (long long)info->vocab, info->n_layers, info->n_carried,
        (long long)info->max_positions, info->weight_bytes, info->packed_bytes,
        wf_kv_estimate_bytes(info, WF_KV_BLOCK_TOKENS) / WF_KV_BLOCK_TOKENS);
    add_ports(b, "inputs", info->inputs, info->n_inputs, true);
    add_ports(b, "outputs", info->outputs, info->n_outputs, true);
    wf_buf_puts(b, ", \"report\": ");
    wf_buf_add_json_string(b, (wf_str){report->at, report->n}, false);
    wf_buf_puts(b, "}\n");
    return;
  }
  wf_buf_printf(b, "file:       %s\nkind:       %s\nbackend:    %s, CPU level %s\nprecision:  %s\n",
                file, p ? p->kind : "onnx", info->backend, info->cpu_level, info->precision);
  if (info->n_layers || info->vocab) {
    wf_buf_printf(b, "form:       %s%s%s\n",
                  info->is_packed ? "packed (rows share a run)" : "a row at a time: ",
                  info->is_packed ? "" : info->why_not_packed,
                  info->may_chunk ? "" : "; a prompt is never cut");
    wf_buf_printf(b,
                  "vocabulary: %lld\nlayers:     %zu with state, in %zu group%s; %zu bytes of "
                  "cache a token\n",
                  (long long)info->vocab, info->n_layers, info->n_groups,
                  info->n_groups == 1 ? "" : "s",
                  wf_kv_estimate_bytes(info, WF_KV_BLOCK_TOKENS) / WF_KV_BLOCK_TOKENS);
    for (size_t g = 0; g < info->n_groups; g++) {
      if (info->groups[g].window)
        wf_buf_printf(b, "            group %zu: sliding window of %lld\n", g,
                      (long long)info->groups[g].window);
    }
  }
  if (info->n_carried)
    wf_buf_printf(b,
                  "states:     %zu of a fixed size; a rewind reads the conversation again, and "
                  "guesses are not tried\n",
                  info->n_carried);
  if (info->max_positions)
    wf_buf_printf(b, "positions:  at most %lld\n", (long long)info->max_positions);
  wf_buf_printf(b, "weights:    %zu bytes read a token, %zu bytes packed\n", info->weight_bytes,
                info->packed_bytes);
  add_ports(b, "inputs", info->inputs, info->n_inputs, false);
  add_ports(b, "outputs", info->outputs, info->n_outputs, false);
  if (report->n) {
    wf_buf_putc(b, '\n');
    wf_buf_add(b, report->at, report->n);
  }
}

/* The graph as the file has it, for Graphviz. */
static weft_status draw(const char *file, bool trust_links, wf_buf *b, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_onnx_model *onnx = NULL;
  wf_graph *graph = NULL;
  const wf_onnx_options options = {.trust_links = trust_links};
  WF_TRY(wf_onnx_open(&onnx, file, &options, err));
  WF_TRY(wf_graph_build(&graph, onnx, err));
  wf_graph_print_dot(graph, b);
out:
  wf_graph_destroy(graph);
  wf_onnx_close(onnx);
  return st;
}

/* p: NULL for a plain ONNX file. */
static weft_status describe(const wf_package *p, const weft_model_options *o, const char *file,
                            bool json, wf_buf *b, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_component *component = NULL;
  const wf_backend *backend = NULL;
  wf_buf report = {0};
  wf_cpu_level level;
  struct wf_dim_value *values = NULL;
  values = wf_calloc((p ? p->n_symbols : 0) + 1, sizeof *values);
  if (!values) {
    st = wf_fail_memory(err, 0, "symbols");
    goto out;
  }
  for (size_t i = 0; p && i < p->n_symbols; i++) {
    values[i] = (struct wf_dim_value){p->symbols[i].symbol, p->symbols[i].value};
  }
  WF_TRY(wf_cpu_level_get(&level, err));
  wf_compile_options options;
  wf_compile_options_take(&options, o);
  options.progress = NULL;
  options.model = file;
  options.ports = p ? &p->ports : NULL;
  options.level = level;
  options.kv = WF_KV_F16;
  options.n_dim_values = p ? p->n_symbols : 0;
  options.dim_values = values;
  options.report = &report;
  WF_TRY(wf_component_compile_by(o->backend, &backend, &component, &options, err));
  add_info(b, wf_component_describe(backend, component), p, file, json, &report);
out:
  if (backend) wf_component_release(backend, component);
  wf_buf_deinit(&report);
  wf_free(values);
  return st;
}

weft_status weft_inspect(const char *path, const weft_model_options *options, const char *format,
                         char **text, weft_error *err) {
  weft_status st = WEFT_OK;
  weft_model_options o;
  wf_buf b = {0};
  wf_package *p = NULL;
  char *temporary_dir = NULL;
  const char *file = path;
  wf_model_options_take(&o, options);
  if (strcmp(format, "text") != 0 && strcmp(format, "json") != 0 && strcmp(format, "dot") != 0) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "use text, json or dot", "'%s' is no format",
                   format);
  }
  if (!wf_is_onnx(path)) {
    WF_TRY(wf_package_open_or_import(&p, &temporary_dir, path, &o, err));
    file = p->model;
  }
  if (strcmp(format, "dot") == 0)
    WF_TRY(draw(file, o.trust_links != 0, &b, err));
  else
    WF_TRY(describe(p, &o, file, strcmp(format, "json") == 0, &b, err));
  *text = wf_buf_take(&b);
  if (!*text) st = wf_fail_memory(err, 0, "text");
out:
  wf_package_close(p);
  wf_temporary_remove(temporary_dir);
  wf_buf_deinit(&b);
  return st;
}
