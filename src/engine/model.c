/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/partial.h"
#include "base/process.h"
#include "engine/engine.h"
#include "import/import.h"

#define WEFT_VERSION_TEXT_(a, b, c) #a "." #b "." #c
#define WEFT_VERSION_TEXT(a, b, c) WEFT_VERSION_TEXT_(a, b, c)

enum { DEFAULT_CHUNK_TOKENS = 512, DEFAULT_CONTEXT_TOKENS = 4096, OWN_BYTES = 48 << 20 };

const char *weft_version(void) {
  return WEFT_VERSION_TEXT(WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH);
}

void weft_free(void *p) { wf_free(p); }

void weft_log_set(weft_log_callback *callback, void *user) { wf_log_set(callback, user); }

void weft_model_options_init(weft_model_options *options, size_t size) {
  const weft_model_options defaults = {.struct_size = size, .use_cache = 1};
  if (size > sizeof defaults) size = sizeof defaults;
  memcpy(options, &defaults, size);
}

void wf_model_options_take(weft_model_options *full, const weft_model_options *given) {
  weft_model_options_init(full, sizeof *full);
  if (given) {
    const size_t n = given->struct_size < sizeof *full ? given->struct_size : sizeof *full;
    memcpy(full, given, n);
  }
  full->struct_size = sizeof *full;
}

static weft_status check_options(const weft_model_options *o, weft_error *err) {
  if (o->n_threads < 0 || o->n_threads > 1024) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "use 1 to 1024, or 0 for all that may be used",
                   "n_threads is %d", o->n_threads);
  }
  if (o->context_tokens < 0 || o->chunk_tokens < 0 || o->chunk_tokens > 65536) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "use a positive number, or 0 for the default",
                   "context_tokens is %lld, chunk_tokens %lld", (long long)o->context_tokens,
                   (long long)o->chunk_tokens);
  }
  if (o->backend && strcmp(o->backend, "auto") != 0 && !wf_backend_find(o->backend)) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "use native, ort or auto",
                   "there is no backend '%s'", o->backend);
  }
  if ((int)o->kv < 0 || (int)o->kv > 2 || (int)o->precision < 0 || (int)o->precision > 1) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, NULL, "kv is %d, precision %d: out of range",
                   (int)o->kv, (int)o->precision);
  }
  return WEFT_OK;
}

void wf_compile_options_take(wf_compile_options *c, const weft_model_options *o) {
  *c = (wf_compile_options){.trust_links = o->trust_links != 0,
                            .exact = o->precision == WEFT_PRECISION_EXACT,
                            .n_threads = o->n_threads ? o->n_threads : wf_threads_usable(),
                            .library = o->ort_library,
                            .n_providers = o->n_providers,
                            .providers = o->providers,
                            .progress = o->progress,
                            .progress_user = o->progress_user};
}

bool wf_is_gguf(const char *path) {
  wf_map map = {0};
  weft_error ignored = {0};
  if (wf_path_is_dir(path)) return false;
  if (wf_map_open(&map, path, &ignored) != WEFT_OK) return false;
  const bool yes = map.n_bytes >= 4 && memcmp(map.at, "GGUF", 4) == 0;
  wf_map_close(&map);
  return yes;
}

bool wf_is_onnx(const char *path) {
  const wf_str name = wf_str_of(path);
  return (wf_str_ends(name, WF_STR(".onnx")) || wf_onnx_is_text_name(name)) &&
         !wf_path_is_dir(path);
}

void wf_temporary_remove(char *dir) {
  if (dir) wf_folder_remove(dir);
  wf_free(dir);
}

weft_status wf_package_open_or_import(wf_package **p, char **temporary_dir, const char *path,
                                      const weft_model_options *o, weft_error *err) {
  weft_status st = WEFT_OK;
  char *dir = NULL;
  bool is_temporary = false;
  const wf_package_options options = {o->trust_links != 0, o->model_file};
  if (wf_is_gguf(path)) {
    const wf_import_options import = {.progress = o->progress,
                                      .progress_user = o->progress_user,
                                      .is_cancelled = o->is_cancelled,
                                      .is_private = true};
    WF_TRY(wf_import_cached(path, &import, &dir, &is_temporary, err));
    path = dir;
  }
  st = wf_package_open(p, path, &options, err);
  if (is_temporary) {
    *temporary_dir = dir;
    dir = NULL;
  }
out:
  wf_free(dir);
  return st;
}

static weft_status load_tokenizer(weft_model *m, weft_error *err) {
  const wf_package *p = m->package;
  if (p->tokenizer_json) {
    WF_RETURN_IF_ERROR(
        wf_tokenizer_load_json(&m->tokenizer, p->tokenizer_json, p->tokenizer_config, err));
  } else if (p->tokenizer_model) {
    WF_RETURN_IF_ERROR(wf_tokenizer_load_spm(&m->tokenizer, p->tokenizer_model, err));
  } else {
    return wf_fail(err, WEFT_PACKAGE_INVALID, "add tokenizer.json to the package",
                   "package '%s' has neither tokenizer.json nor tokenizer.model", p->root);
  }
  const size_t n = wf_tokenizer_vocab_size(m->tokenizer);
  m->control = wf_calloc(n ? n : 1, 1);
  m->end_ids = wf_calloc(p->n_end_ids + 1, sizeof *m->end_ids);
  if (!m->control || !m->end_ids) return wf_fail_memory(err, n, "token flags");
  memcpy(m->end_ids, p->end_ids, p->n_end_ids * sizeof *m->end_ids);
  m->n_end_ids = p->n_end_ids;
  /* a package that names no end id leaves it to its tokenizer */
  const int32_t eos = wf_tokenizer_role_id(m->tokenizer, WF_TOKEN_EOS);
  if (m->n_end_ids == 0 && eos >= 0) m->end_ids[m->n_end_ids++] = eos;
  wf_tokenizer_control_fill(m->tokenizer, m->control);
  for (size_t i = 0; i < m->n_end_ids; i++) {
    if ((size_t)m->end_ids[i] < n) m->control[m->end_ids[i]] = 1;
  }
  return WEFT_OK;
}

static weft_status load_template(weft_model *m, weft_error *err) {
  const char *source = m->package->chat_template;
  if (!source) return WEFT_OK;
  const weft_status st = wf_template_compile(&m->chat_template, wf_str_of(source), err);
  if (st != WEFT_OK) return wf_fail_in(err, st, "in the package's chat template: ");
  size_t n;
  const wf_str *literals = wf_template_literals(m->chat_template, &n);
  for (size_t i = 0; i < n; i++) wf_tokenizer_control_mark(m->tokenizer, literals[i], m->control);
  return WEFT_OK;
}

/* Bytes of the model file and its external data. */
static weft_status file_bytes(const wf_package *p, bool trust_links, uint64_t *result,
                              weft_error *err) {
  wf_onnx_model *onnx = NULL;
  const wf_onnx_options options = {.trust_links = trust_links};
  WF_RETURN_IF_ERROR(wf_onnx_open(&onnx, p->model, &options, err));
  *result = 0;
  for (size_t i = 0; i < onnx->n_maps; i++) *result += onnx->maps[i]->n_bytes;
  wf_onnx_close(onnx);
  return WEFT_OK;
}

static weft_status check_memory(const wf_package *p, const weft_model_options *o, weft_error *err) {
  uint64_t weights;
  int is_cgroup;
  WF_RETURN_IF_ERROR(file_bytes(p, o->trust_links != 0, &weights, err));
  const uint64_t available = wf_memory_available(&is_cgroup);
  const uint64_t need = weights + OWN_BYTES;
  if (need <= available) return WEFT_OK;
  return wf_fail(err, WEFT_OUT_OF_MEMORY,
                 "use a smaller or more quantised model, or allow more memory",
                 "the model needs about %llu MiB (%llu MiB of weights), but only %llu MiB %s",
                 (unsigned long long)(need >> 20), (unsigned long long)(weights >> 20),
                 (unsigned long long)(available >> 20),
                 is_cgroup ? "are left below this group's limit" : "are available");
}

static weft_status compile(weft_model *m, const weft_model_options *o, wf_cpu_level level,
                           weft_error *err) {
  weft_status st = WEFT_OK;
  const wf_package *p = m->package;
  char *cache = o->use_cache ? wf_cache_dir() : NULL;
  struct wf_dim_value *values = wf_calloc(p->n_symbols + 1, sizeof *values);
  if (!values) {
    st = wf_fail_memory(err, 0, "symbols");
    goto out;
  }
  for (size_t i = 0; i < p->n_symbols; i++) {
    values[i] = (struct wf_dim_value){p->symbols[i].symbol, p->symbols[i].value};
  }
  static const wf_kv_type kv_types[] = {WF_KV_F16, WF_KV_F32, WF_KV_Q8};
  wf_compile_options options;
  wf_compile_options_take(&options, o);
  options.model = p->model;
  options.ports = &p->ports;
  options.kv = kv_types[o->kv];
  options.level = level;
  options.cache_dir = cache;
  options.n_dim_values = p->n_symbols;
  options.dim_values = values;
  st = wf_component_compile_by(o->backend, &m->backend, &m->component, &options, err);
out:
  wf_free(values);
  wf_free(cache);
  return st;
}

/* The smallest of what the model states, its tables hold, the caller wants and memory allows. */
static weft_status fix_context(weft_model *m, const weft_model_options *o, weft_error *err) {
  int64_t context =
      m->package->context_tokens ? m->package->context_tokens : DEFAULT_CONTEXT_TOKENS;
  int is_cgroup;
  if (m->info->max_positions > 0 && m->info->max_positions < context)
    context = m->info->max_positions;
  if (o->context_tokens > 0 && o->context_tokens < context) context = o->context_tokens;
  const uint64_t available = wf_memory_available(&is_cgroup);
  while (context > 1 && wf_kv_estimate_bytes(m->info, context) > available)
    context -= context / 8 + 1;
  if (context < 1) {
    return wf_fail(err, WEFT_OUT_OF_MEMORY, "free memory", "no memory for a cache of one token");
  }
  m->context_tokens = context;
  m->kv_bytes_per_token = wf_kv_estimate_bytes(m->info, WF_KV_BLOCK_TOKENS) / WF_KV_BLOCK_TOKENS;
  return WEFT_OK;
}

weft_status weft_model_open(weft_model **result, const char *path, const weft_model_options *given,
                            weft_error *err) {
  wf_cpu_level level;
  WF_RETURN_IF_ERROR(wf_cpu_level_get(&level, err));
  return wf_model_open_at(result, path, given, level, err);
}

weft_status wf_model_open_at(weft_model **result, const char *path, const weft_model_options *given,
                             wf_cpu_level level, weft_error *err) {
  weft_status st = WEFT_OK;
  weft_model_options o;
  const uint64_t started = wf_clock_ns();
  weft_model *m = wf_zalloc(sizeof *m);
  if (!m) return wf_fail_memory(err, sizeof *m, "a model");
  atomic_init(&m->refs, 1);
  wf_model_options_take(&o, given);
  WF_TRY(check_options(&o, err));
  WF_TRY(wf_package_open_or_import(&m->package, &m->temporary_dir, path, &o, err));
  WF_TRY(load_tokenizer(m, err));
  WF_TRY(load_template(m, err));
  m->n_threads = o.n_threads ? o.n_threads : wf_threads_usable();
  WF_TRY(check_memory(m->package, &o, err));
  WF_TRY(compile(m, &o, level, err));
  m->info = wf_component_describe(m->backend, m->component);
  m->vocab = m->info->vocab;
  WF_TRY(fix_context(m, &o, err));
  int64_t chunk = o.chunk_tokens ? o.chunk_tokens : DEFAULT_CHUNK_TOKENS;
  /* a graph whose bits depend on the cut takes its whole prompt at once, unless that is asked for
   */
  if (!m->info->may_chunk || !wf_component_has_past(m->info) || chunk > m->context_tokens ||
      (m->info->cut_changes_bits && !o.chunk_tokens)) {
    chunk = m->context_tokens;
  }
  WF_TRY(wf_runner_init(&m->runner, m->backend, m->component, m->n_threads, chunk,
                        m->context_tokens, wf_profile_of(o.profile), err));
  m->load_ms = (wf_clock_ns() - started) / 1000000;
  *result = m;
  m = NULL;
out:
  weft_model_close(m);
  return st;
}

void wf_model_ref(weft_model *m) {
  /* relaxed: the caller holds a reference already, so the object can't go away */
  atomic_fetch_add_explicit(&m->refs, 1, memory_order_relaxed);
}

void weft_model_close(weft_model *m) {
  /* acq_rel: what other holders did happens before the last one frees */
  if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1) return;
  wf_runner_deinit(&m->runner);
  if (m->backend) wf_component_release(m->backend, m->component);
  wf_template_destroy(m->chat_template);
  wf_tokenizer_destroy(m->tokenizer);
  wf_package_close(m->package);
  wf_temporary_remove(m->temporary_dir);
  wf_free(m->control);
  wf_free(m->end_ids);
  wf_free(m);
}

void weft_model_describe(const weft_model *m, weft_model_info *info) {
  const size_t size = info->struct_size < sizeof *info ? info->struct_size : sizeof *info;
  const weft_model_info full = {
      .struct_size = info->struct_size,
      .context_tokens = m->context_tokens,
      .vocab = m->vocab,
      .n_threads = m->n_threads,
      .backend = m->info ? m->info->backend : "",
      .cpu_level = m->info ? m->info->cpu_level : "",
      .precision = m->info ? m->info->precision : "",
      .kind = m->package->kind,
      .is_packed = m->info && m->info->is_packed,
      .why_not_packed = m->info ? m->info->why_not_packed : "",
      .has_chat_template = m->chat_template != NULL,
      .weight_bytes = m->info ? m->info->weight_bytes : 0,
      .kv_bytes_per_token = m->kv_bytes_per_token,
      .load_ms = m->load_ms,
      .bos_id = m->package->bos_id,
      .n_end_ids = m->n_end_ids,
      .end_ids = m->end_ids,
      .do_sample = m->package->defaults.do_sample,
  };
  memcpy(info, &full, size);
}
