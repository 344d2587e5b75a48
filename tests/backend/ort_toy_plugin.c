/* SPDX-License-Identifier: Apache-2.0 */
/* A plug-in execution provider for tests/e2e/ort_test.py, which builds it: it offers every CPU as a
 * device, takes no node (so that the CPU's own provider runs all of them), and writes what is asked
 * of it to the file $WEFT_TOY_LOG. In our own words; only the slots that are used have a type. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct api_base {
  const void *const *(*get_api)(uint32_t version);
  const char *(*version)(void);
} api_base;

typedef struct toy_provider {
  uint32_t version;
  const char *(*name)(const struct toy_provider *p);
  void *(*capability)(struct toy_provider *p, const void *graph, void *support);
  void *rest[32];
} toy_provider;

typedef struct toy_factory {
  uint32_t version;
  const char *(*name)(const struct toy_factory *f);
  const char *(*vendor)(const struct toy_factory *f);
  void *(*devices)(struct toy_factory *f, const void *const *hardware, size_t n_hardware,
                   void **devices, size_t most, size_t *n);
  void *(*create)(struct toy_factory *f, const void *const *hardware, const void *const *metadata,
                  size_t n, const void *options, const void *logger, toy_provider **provider);
  void (*release)(struct toy_factory *f, toy_provider *provider);
  uint32_t (*vendor_id)(const struct toy_factory *f);
  const char *(*version_text)(const struct toy_factory *f);
  void *compatibility;
  void *(*allocator)(struct toy_factory *f, const void *memory, const void *options, void **result);
  void (*release_allocator)(struct toy_factory *f, void *allocator);
  void *(*transfer)(struct toy_factory *f, void **result);
  _Bool (*has_streams)(const struct toy_factory *f);
  void *rest[16];
} toy_factory;

enum { SLOT_HARDWARE_TYPE = 307, SLOT_EP_API = 317, EP_SLOT_CREATE_DEVICE = 0, VERSION = 23 };

static const void *const *api;

static void note(const char *what, size_t n) {
  const char *path = getenv("WEFT_TOY_LOG");
  FILE *f = path ? fopen(path, "a") : NULL;
  if (!f) return;
  fprintf(f, "%s %zu\n", what, n);
  fclose(f);
}

static const char *provider_name(const toy_provider *p) {
  (void)p;
  return "ToyExecutionProvider";
}
static void *take_nothing(toy_provider *p, const void *graph, void *support) {
  (void)p;
  (void)graph;
  (void)support;
  note("capability", 0);
  return NULL;
}

static const char *factory_name(const toy_factory *f) {
  (void)f;
  return "ToyExecutionProvider";
}
static const char *factory_vendor(const toy_factory *f) {
  (void)f;
  return "weft's tests";
}
static uint32_t factory_vendor_id(const toy_factory *f) {
  (void)f;
  return 0x7e57;
}
static const char *factory_version(const toy_factory *f) {
  (void)f;
  return "0.1.0";
}

static void *find_devices(toy_factory *f, const void *const *hardware, size_t n_hardware,
                          void **devices, size_t most, size_t *n) {
  int (*hardware_type)(const void *) = (int (*)(const void *))api[SLOT_HARDWARE_TYPE];
  const void *const *(*ep_api)(void) = (const void *const *(*)(void))api[SLOT_EP_API];
  void *(*create)(toy_factory *, const void *, const void *, const void *, void **) =
      (void *(*)(toy_factory *, const void *, const void *, const void *,
                 void **))ep_api()[EP_SLOT_CREATE_DEVICE];
  *n = 0;
  for (size_t i = 0; i < n_hardware && *n < most; i++) {
    if (hardware_type(hardware[i]) != 0) continue;
    void *status = create(f, hardware[i], NULL, NULL, &devices[*n]);
    if (status) return status;
    ++*n;
  }
  note("devices", *n);
  return NULL;
}

/* Its memory is the CPU's own: no allocator, no transfer, no streams. */
static void *no_allocator(toy_factory *f, const void *memory, const void *options, void **result) {
  (void)f;
  (void)memory;
  (void)options;
  *result = NULL;
  return NULL;
}
static void no_release(toy_factory *f, void *allocator) {
  (void)f;
  (void)allocator;
}
static void *no_transfer(toy_factory *f, void **result) {
  (void)f;
  *result = NULL;
  return NULL;
}
static _Bool no_streams(const toy_factory *f) {
  (void)f;
  return 0;
}

static void *create_provider(toy_factory *f, const void *const *hardware,
                             const void *const *metadata, size_t n, const void *options,
                             const void *logger, toy_provider **provider) {
  (void)f;
  (void)hardware;
  (void)metadata;
  (void)options;
  (void)logger;
  *provider = calloc(1, sizeof **provider);
  if (!*provider) return NULL;
  (*provider)->version = VERSION;
  (*provider)->name = provider_name;
  (*provider)->capability = take_nothing;
  note("create", n);
  return NULL;
}

static void release_provider(toy_factory *f, toy_provider *provider) {
  (void)f;
  free(provider);
  note("release", 1);
}

void *CreateEpFactories(const char *name, const api_base *base, const void *logger,
                        toy_factory **factories, size_t most, size_t *n);
void *ReleaseEpFactory(toy_factory *f);

void *CreateEpFactories(const char *name, const api_base *base, const void *logger,
                        toy_factory **factories, size_t most, size_t *n) {
  (void)name;
  (void)logger;
  *n = 0;
  api = base->get_api(VERSION);
  toy_factory *f = most ? calloc(1, sizeof *f) : NULL;
  if (!api || !f) return NULL;
  f->version = VERSION;
  f->name = factory_name;
  f->vendor = factory_vendor;
  f->devices = find_devices;
  f->create = create_provider;
  f->release = release_provider;
  f->vendor_id = factory_vendor_id;
  f->version_text = factory_version;
  f->allocator = no_allocator;
  f->release_allocator = no_release;
  f->transfer = no_transfer;
  f->has_streams = no_streams;
  factories[0] = f;
  *n = 1;
  return NULL;
}

void *ReleaseEpFactory(toy_factory *f) {
  free(f);
  note("factory gone", 1);
  return NULL;
}
