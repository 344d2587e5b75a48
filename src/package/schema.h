/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of the document as tables: which members an object has, of what type, where they go in
 * metadata.h's structs. One table serves the reader and the JSON Schema for editors, so the two
 * cannot disagree. Shared inside this folder only. */
#ifndef WF_PACKAGE_SCHEMA_H
#define WF_PACKAGE_SCHEMA_H

#include "package/metadata.h"

typedef enum wf_field_type {
  WF_FIELD_TEXT,    /* const char * */
  WF_FIELD_NAME,    /* the same, not empty */
  WF_FIELD_BOOL,    /* bool */
  WF_FIELD_MAYBE,   /* int: -1 absent, 0, 1 */
  WF_FIELD_INT,     /* int64_t within lo..hi */
  WF_FIELD_FLOAT,   /* double, finite */
  WF_FIELD_ENUM,    /* int: index into words, which '|' parts */
  WF_FIELD_OBJECT,  /* const T * */
  WF_FIELD_LIST,    /* of objects */
  WF_FIELD_MAP,     /* of objects, by name */
  WF_FIELD_TEXTS,   /* wf_meta_texts, a list */
  WF_FIELD_SET,     /* wf_meta_texts, sorted */
  WF_FIELD_PAIRS,   /* wf_meta_pairs: map of texts */
  WF_FIELD_FLOATS,  /* wf_meta_floats */
  WF_FIELD_SHAPE,   /* list of dimensions; sets has_shape */
  WF_FIELD_DTYPE,   /* text and wf_dtype of a contract */
  WF_FIELD_LITERAL, /* a scalar or a list of scalars */
  WF_FIELD_SCALAR,  /* a scalar literal: a map of them is a MAP of parameter objects */
  WF_FIELD_NODE     /* const wf_doc_node *: kept as written */
} wf_field_type;

typedef struct wf_schema_object wf_schema_object;
typedef struct wf_schema_field {
  const char *name;
  wf_field_type type;
  uint32_t offset;
  uint32_t kinds;    /* of a union: variants that have the member (bits); 0: all */
  uint32_t required; /* variants that need it; WF_ALL: any object */
  const wf_schema_object *object;
  const char *words;        /* of an enum */
  int64_t lo, hi, fallback; /* INT; fallback also of ENUM and BOOL */
  size_t min_items;
} wf_schema_field;
#define WF_ALL UINT32_MAX

typedef struct wf_schema_removed {
  const char *name, *replacement;
} wf_schema_removed;

struct wf_schema_object {
  const char *name; /* of its definition in the JSON Schema */
  uint32_t size;
  bool is_open;          /* unknown members warn instead of failing */
  const char *scalar_of; /* an entry that is a bare scalar stands for {scalar_of: it} */
  const wf_schema_removed *removed;
  const wf_schema_field
      *fields; /* the first is `kind` where it is a union; ends with a NULL name */
};

extern const wf_schema_object wf_schema_root;
extern const wf_schema_object wf_schema_contract, wf_schema_workflow, wf_schema_io;
extern const wf_schema_object wf_schema_model, wf_schema_package, wf_schema_generation,
    wf_schema_profile, wf_schema_preprocessing, wf_schema_adapters, wf_schema_speculative;

/* Reads `node` by the table of `object`; every fault is added as E_SCHEMA (or W_UNKNOWN_FIELD).
 * *result is given also when there were faults, with required members possibly absent.
 * Errors: OUT_OF_MEMORY. */
weft_status wf_schema_read(const wf_schema_object *object, const wf_doc_node *node, wf_arena *arena,
                           wf_problems *problems, const void **result,
                           weft_error *err) WF_NODISCARD;

/* "pipeline.workflow.steps[2]" */
void wf_meta_path(const wf_meta_at *at, wf_buf *out);

#endif
