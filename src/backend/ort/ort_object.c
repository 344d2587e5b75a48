/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/ort/ort_object.h"

#include "base/mem.h"

static void release_handle(ort_library *lib, ort_kind kind, void *handle) {
  switch (kind) {
    case ORT_KIND_VALUE:
      lib->api.release_value(handle);
      break;
    case ORT_KIND_ALLOCATOR:
      lib->api.release_allocator(handle);
      break;
    case ORT_KIND_BINDING:
      lib->api.release_binding(handle);
      break;
    case ORT_KIND_SESSION:
      lib->api.release_session(handle);
      break;
    case ORT_KIND_ENVIRONMENT:
    case ORT_N_KINDS:
      break;
  }
}

void ort_object_init(ort_object *o, ort_library *lib, ort_kind kind, void *handle,
                     void (*destroy)(ort_object *o)) {
  *o = (ort_object){.kind = kind, .lib = lib, .handle = handle, .destroy = destroy};
  atomic_init(&o->refs, 1);
}

ort_object *ort_object_create(ort_library *lib, ort_kind kind, void *handle, ort_object *parent) {
  ort_object *o = wf_alloc(sizeof *o);
  if (!o) {
    release_handle(lib, kind, handle);
    return NULL;
  }
  ort_object_init(o, lib, kind, handle, NULL);
  o->parent = ort_object_ref(parent);
  /* relaxed: a count to be read when all is quiet */
  atomic_fetch_add_explicit(&lib->live[kind], 1, memory_order_relaxed);
  return o;
}

ort_object *ort_object_ref(ort_object *o) {
  /* relaxed: the caller holds a reference already, so the object can't go away */
  if (o) atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
  return o;
}

void ort_object_unref(ort_object *o) {
  while (o) {
    /* acq_rel: what other holders did happens before the last one releases */
    if (atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) != 1) return;
    ort_object *parent = o->parent;
    if (o->destroy) {
      o->destroy(o);
    } else {
      release_handle(o->lib, o->kind, o->handle);
      ort_note_release(o->lib, o->kind);
      wf_free(o);
    }
    o = parent;
  }
}
