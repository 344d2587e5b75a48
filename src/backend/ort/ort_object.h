/* SPDX-License-Identifier: Apache-2.0 */
/* Counted wrappers of the library's objects. Private to ort/.
 *
 * Each holds its parent, so that the library sees one order of release whatever order ours is:
 *
 *   value -> allocator -> session -> home (files, environment)
 *   value ------------->
 *   binding ----------->
 *
 * Thread: counting is for any thread; the objects themselves belong to their worker. */
#ifndef WF_ORT_OBJECT_H
#define WF_ORT_OBJECT_H

#include "backend/ort/ort_library.h"

typedef struct ort_object ort_object;
struct ort_object {
  atomic_int refs;
  ort_kind kind;
  ort_object *parent; /* held; NULL: none */
  ort_library *lib;
  void *handle;                   /* the library's */
  void (*destroy)(ort_object *o); /* instead of the kind's own release; frees o itself */
};

/* Takes the handle over: on failure it is released and the result NULL. Holds the parent. */
ort_object *ort_object_create(ort_library *lib, ort_kind kind, void *handle,
                              ort_object *parent) WF_NODISCARD;
void ort_object_init(ort_object *o, ort_library *lib, ort_kind kind, void *handle,
                     void (*destroy)(ort_object *o));
ort_object *ort_object_ref(ort_object *o);
void ort_object_unref(ort_object *o); /* NULL is fine */

#endif
