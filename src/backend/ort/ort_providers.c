/* SPDX-License-Identifier: Apache-2.0 */
/* Execution providers: read from the command line's form, found, added to a session, listed.
 *
 *   NAME[:key=value,...]   NAME with or without "ExecutionProvider"; two keys are ours:
 *     library=FILE         registers a plug-in provider library first
 *     device=CPU|GPU|NPU   which of the provider's devices; all of the first kind otherwise */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "backend/ort/ort.h"
#include "base/file.h"
#include "base/process.h"

enum { MAX_OPTIONS = 32, MAX_DEVICES = 16 };

typedef struct provider {
  const char *name;  /* the long form */
  const char *brief; /* without "ExecutionProvider" */
  const char *library, *device;
  size_t n;
  const char *keys[MAX_OPTIONS], *values[MAX_OPTIONS];
} provider;

static const char suffix[] = "ExecutionProvider";

/* Providers whose authors allow concurrent runs of one session. */
static const char *const concurrent[] = {"CPU", "CUDA", "TensorRT", "OpenVINO"};

/* ---- reading --------------------------------------------------------------------------------- */

static weft_status take_option(provider *p, char *text, const char *whole, weft_error *err) {
  char *equals = strchr(text, '=');
  if (!equals || equals == text) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "write NAME:key=value,key=value",
                   "--ep '%s': '%s' is no key=value", whole, text);
  }
  *equals = '\0';
  if (strcmp(text, "library") == 0) {
    p->library = equals + 1;
  } else if (strcmp(text, "device") == 0) {
    p->device = equals + 1;
  } else if (p->n == MAX_OPTIONS) {
    return wf_fail(err, WEFT_LIMIT, NULL, "--ep '%s' has more than %d options", whole,
                   (int)MAX_OPTIONS);
  } else {
    p->keys[p->n] = text;
    p->values[p->n++] = equals + 1;
  }
  return WEFT_OK;
}

static weft_status read_provider(wf_arena *arena, const char *text, provider *p, weft_error *err) {
  *p = (provider){0};
  char *copy = wf_arena_strdup(arena, text);
  if (!copy) return wf_fail_memory(err, 0, "a provider");
  char *options = strchr(copy, ':');
  if (options) *options++ = '\0';
  if (!copy[0]) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "write NAME or NAME:key=value,key=value",
                   "--ep '%s' has no name", text);
  }
  for (char *at = options; at && *at;) {
    char *comma = strchr(at, ',');
    if (comma) *comma = '\0';
    WF_RETURN_IF_ERROR(take_option(p, at, text, err));
    at = comma ? comma + 1 : NULL;
  }
  wf_str brief = wf_str_of(copy);
  if (wf_str_ends(brief, wf_str_of(suffix))) brief.n -= sizeof suffix - 1;
  p->brief = wf_arena_strndup(arena, brief.at, brief.n);
  char *name = wf_arena_alloc(arena, brief.n + sizeof suffix);
  if (!p->brief || !name) return wf_fail_memory(err, brief.n, "a provider");
  memcpy(name, brief.at, brief.n);
  memcpy(name + brief.n, suffix, sizeof suffix);
  p->name = name;
  return WEFT_OK;
}

/* ---- what there is --------------------------------------------------------------------------- */

static const char *hardware_name(const ort_library *lib, const ort_ep_device *d) {
  switch (lib->api.hardware_type(lib->api.device_hardware(d))) {
    case ORT_HARDWARE_CPU:
      return "CPU";
    case ORT_HARDWARE_GPU:
      return "GPU";
    case ORT_HARDWARE_NPU:
      return "NPU";
    default:
      return "other";
  }
}

static weft_status get_devices(ort_library *lib, ort_env *env, const ort_ep_device *const **devices,
                               size_t *n, weft_error *err) {
  *devices = NULL;
  *n = 0;
  if (!lib->api.provider_devices) return WEFT_OK; /* older than devices */
  return ort_check(lib, lib->api.provider_devices(env, devices, n), err, "lists no devices");
}

static void free_names(ort_library *lib, char **names, int n) {
  ort_status *status = names ? lib->api.release_available_providers(names, n) : NULL;
  if (status) lib->api.release_status(status); /* nothing more can be done about it */
}

/* "CPUExecutionProvider, X (CPU, GPU)" for the error of one that is not there. */
static void add_names(ort_library *lib, ort_env *env, wf_buf *b) {
  char **names = NULL;
  int n = 0;
  const ort_ep_device *const *devices;
  size_t n_devices;
  if (ort_check(lib, lib->api.available_providers(&names, &n), NULL, "lists none") == WEFT_OK) {
    for (int i = 0; i < n; i++) wf_buf_printf(b, "%s%s", b->n ? ", " : "", names[i]);
    free_names(lib, names, n);
  }
  if (get_devices(lib, env, &devices, &n_devices, NULL) != WEFT_OK) return;
  for (size_t i = 0; i < n_devices; i++) {
    const char *name = lib->api.device_provider(devices[i]);
    if (b->at && strstr(b->at, name)) continue;
    wf_buf_printf(b, "%s%s", b->n ? ", " : "", name);
  }
}

static bool is_built_in(ort_library *lib, const char *name) {
  char **names = NULL;
  int n = 0;
  bool found = false;
  if (ort_check(lib, lib->api.available_providers(&names, &n), NULL, "lists none") != WEFT_OK) {
    return false;
  }
  for (int i = 0; i < n; i++) found = found || strcasecmp(names[i], name) == 0;
  free_names(lib, names, n);
  return found;
}

static weft_status fail_absent(ort_library *lib, ort_env *env, const provider *p, weft_error *err) {
  if (p->library) {
    return wf_fail(err, WEFT_UNSUPPORTED, "see its authors' list of hardware",
                   "the plug-in '%s' was loaded, but its '%s' has no device%s%s on this machine",
                   p->library, p->name, p->device ? " of kind " : "", p->device ? p->device : "");
  }
  wf_buf b = {0};
  add_names(lib, env, &b);
  const char *names = wf_buf_cstr(&b);
  const weft_status st =
      wf_fail(err, WEFT_UNSUPPORTED,
              "use one that is there, or name a plug-in's file: --ep NAME:library=FILE",
              "ONNX Runtime %s (%s) has no provider '%s'%s%s; it has %s", lib->version, lib->path,
              p->name, p->device ? " with a device of kind " : "", p->device ? p->device : "",
              names && names[0] ? names : "none");
  wf_buf_deinit(&b);
  return st;
}

/* ---- adding ---------------------------------------------------------------------------------- */

/* The provider's devices that are meant; *n is 0 when it has none. */
static weft_status find_devices(ort_library *lib, ort_env *env, const provider *p,
                                const ort_ep_device *found[MAX_DEVICES], size_t *n,
                                weft_error *err) {
  const ort_ep_device *const *devices;
  size_t n_devices;
  const char *kind = p->device;
  *n = 0;
  WF_RETURN_IF_ERROR(get_devices(lib, env, &devices, &n_devices, err));
  for (size_t i = 0; i < n_devices && *n < MAX_DEVICES; i++) {
    const char *name = lib->api.device_provider(devices[i]);
    const char *hardware = hardware_name(lib, devices[i]);
    if (strcasecmp(name, p->name) != 0 && strcasecmp(name, p->brief) != 0) continue;
    if (kind && strcasecmp(hardware, kind) != 0) continue;
    kind = hardware;
    found[(*n)++] = devices[i];
  }
  return WEFT_OK;
}

/* Registers the plug-in's library unless its provider is known already. */
static weft_status register_library(ort_library *lib, ort_env *env, const provider *p,
                                    weft_error *err) {
  const ort_ep_device *found[MAX_DEVICES];
  size_t n;
  weft_status st = WEFT_OK;
  provider any = *p;
  any.device = NULL;
  if (!lib->api.register_library) {
    return wf_fail(err, WEFT_UNSUPPORTED, "use ONNX Runtime 1.22 or later",
                   "ONNX Runtime %s (%s) takes no plug-in provider libraries", lib->version,
                   lib->path);
  }
  if (!wf_path_exists(p->library)) {
    return wf_fail(err, WEFT_IO, "name the plug-in's file", "--ep %s: '%s' does not exist", p->name,
                   p->library);
  }
  (void)wf_process_ort_lock(); /* two engines may ask for the same one at once */
  WF_TRY(find_devices(lib, env, &any, found, &n, err));
  if (n == 0) {
    ORT_TRY(lib, err, register_library(env, p->name, p->library), "refuses the provider '%s'",
            p->library);
  }
out:
  wf_process_ort_unlock();
  return st;
}

/* Versions differ in what they call the same one: QNN, Xnnpack, XnnpackExecutionProvider, AZURE. */
static weft_status append_built_in(wf_component *c, const provider *p, weft_error *err) {
  char upper[64];
  const char *const names[] = {p->brief, p->name, upper};
  weft_status st = WEFT_OK;
  snprintf(upper, sizeof upper, "%s", p->brief);
  for (char *at = upper; *at; at++) *at = *at >= 'a' && *at <= 'z' ? (char)(*at - 32) : *at;
  for (size_t i = 0; i < WF_ARRAY_LEN(names); i++) {
    st = ort_check(c->lib,
                   c->lib->api.append_provider(c->options, names[i], p->keys, p->values, p->n), err,
                   "can't use the provider '%s'", p->name);
    if (st == WEFT_OK) break;
  }
  return st;
}

static weft_status add_provider(wf_component *c, const provider *p, weft_error *err) {
  ort_library *lib = c->lib;
  const ort_ep_device *found[MAX_DEVICES];
  size_t n = 0;
  weft_status st = WEFT_OK;
  if (p->library) WF_TRY(register_library(lib, c->env, p, err));
  if (strcasecmp(p->brief, "CPU") == 0) return WEFT_OK; /* always there, behind all others */
  WF_TRY(find_devices(lib, c->env, p, found, &n, err));
  if (n > 0) {
    ORT_TRY(lib, err, append_devices(c->options, c->env, found, n, p->keys, p->values, p->n),
            "can't use the provider '%s'", p->name);
  } else if (!p->device && is_built_in(lib, p->name)) {
    st = append_built_in(c, p, err);
  } else {
    st = fail_absent(lib, c->env, p, err);
  }
out:
  return st;
}

static bool is_concurrent(const provider *p) {
  for (size_t i = 0; i < WF_ARRAY_LEN(concurrent); i++) {
    if (strcasecmp(concurrent[i], p->brief) == 0) return true;
  }
  return false;
}

weft_status ort_providers_add(wf_component *c, const wf_compile_options *o, weft_error *err) {
  c->info.is_shared = true;
  c->info.why_not_shared = "";
  for (size_t i = 0; i < o->n_providers; i++) {
    provider p;
    WF_RETURN_IF_ERROR(read_provider(c->arena, o->providers[i], &p, err));
    WF_RETURN_IF_ERROR(add_provider(c, &p, err));
    if (is_concurrent(&p) || !c->info.is_shared) continue;
    wf_buf b = {0};
    wf_buf_printf(&b, "%s is not known to allow concurrent runs of one session", p.name);
    const char *why = wf_buf_cstr(&b);
    c->info.is_shared = false;
    c->info.why_not_shared = why ? wf_arena_strdup(c->arena, why) : NULL;
    wf_buf_deinit(&b);
    if (!c->info.why_not_shared) return wf_fail_memory(err, 0, "a component");
  }
  return WEFT_OK;
}

/* ---- listing --------------------------------------------------------------------------------- */

static void add_row(wf_buf *b, bool json, size_t *n, const char *name, const char *device,
                    const char *vendor) {
  if (json) {
    wf_buf_puts(b, *n ? ", {\"name\": " : "{\"name\": ");
    wf_buf_add_json_string(b, wf_str_of(name), false);
    wf_buf_puts(b, ", \"device\": ");
    wf_buf_add_json_string(b, wf_str_of(device), false);
    wf_buf_puts(b, ", \"vendor\": ");
    wf_buf_add_json_string(b, wf_str_of(vendor), false);
    wf_buf_puts(b, "}");
  } else {
    wf_buf_printf(b, "  %s%s%s%s%s\n", name, device[0] ? " on " : "", device, vendor[0] ? ", " : "",
                  vendor);
  }
  ++*n;
}

static weft_status add_rows(ort_library *lib, ort_env *env, bool json, wf_buf *b, weft_error *err) {
  weft_status st = WEFT_OK;
  char **names = NULL;
  int n_names = 0;
  size_t n = 0, n_devices;
  const ort_ep_device *const *devices;
  ORT_TRY(lib, err, available_providers(&names, &n_names), "lists no providers");
  WF_TRY(get_devices(lib, env, &devices, &n_devices, err));
  for (int i = 0; i < n_names; i++) {
    bool has_device = false;
    for (size_t k = 0; k < n_devices; k++)
      has_device = has_device || strcmp(lib->api.device_provider(devices[k]), names[i]) == 0;
    if (!has_device) add_row(b, json, &n, names[i], "", "");
  }
  for (size_t k = 0; k < n_devices; k++) {
    add_row(b, json, &n, lib->api.device_provider(devices[k]), hardware_name(lib, devices[k]),
            lib->api.device_vendor(devices[k]));
  }
out:
  free_names(lib, names, n_names);
  return st;
}

weft_status ort_providers_list(const wf_compile_options *o, bool json, wf_buf *b, weft_error *err) {
  weft_status st = WEFT_OK;
  ort_library *lib = NULL;
  ort_env *env = NULL;
  wf_arena *arena = wf_arena_create();
  if (!arena) return wf_fail_memory(err, 0, "providers");
  WF_TRY(ort_library_open(&lib, o->library, err));
  WF_TRY(ort_env_acquire(lib, &env, err));
  for (size_t i = 0; i < o->n_providers; i++) {
    provider p;
    WF_TRY(read_provider(arena, o->providers[i], &p, err));
    if (!p.library) continue;
    WF_TRY(register_library(lib, env, &p, err));
    const ort_ep_device *found[MAX_DEVICES];
    size_t n;
    WF_TRY(find_devices(lib, env, &p, found, &n, err));
    if (n == 0) WF_TRY(fail_absent(lib, env, &p, err));
  }
  if (json) {
    wf_buf_puts(b, "\"version\": ");
    wf_buf_add_json_string(b, wf_str_of(lib->version), false);
    wf_buf_puts(b, ", \"library\": ");
    wf_buf_add_json_string(b, wf_str_of(lib->path), false);
    wf_buf_puts(b, ", \"providers\": [");
  } else {
    wf_buf_printf(b, "ONNX Runtime %s, %s\n", lib->version, lib->path);
  }
  st = add_rows(lib, env, json, b, err);
  if (json) wf_buf_puts(b, "]");
out:
  if (env) ort_env_release(lib);
  wf_arena_destroy(arena);
  return st;
}
