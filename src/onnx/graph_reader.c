/* SPDX-License-Identifier: Apache-2.0 */
/* Models, graphs, nodes, attributes and functions. Each list is counted first and then filled, so
 * that it takes one piece of the arena. */
#include <string.h>

#include "onnx/onnx_reader.h"

static weft_status read_graph(onnx_reader *r, wire_span bytes, int depth, wf_onnx_graph *g);

weft_status onnx_list(onnx_reader *r, const wire_message *m, const unsigned char *at, size_t n,
                      size_t size, void **list) {
  *list = NULL;
  if (n == 0) return WEFT_OK;
  if (size > 16 && n > ONNX_MAX_ITEMS) {
    return wf_fail(r->err, WEFT_LIMIT, "split the model", "%s: %s at byte %zu: a list of %zu items",
                   r->file.name, m->name, (size_t)(at - r->file.base), n);
  }
  *list = wf_arena_calloc(r->arena, n, size);
  return *list ? WEFT_OK : wf_fail_memory(r->err, n, "a list of the model");
}

/* Counts how often each field number below 32 comes in a message. */
static weft_status count_fields(onnx_reader *r, const wire_message *m, wire_span bytes,
                                size_t counts[32]) {
  memset(counts, 0, 32 * sizeof counts[0]);
  wire_reader w = wire_open(&r->file, m, bytes, r->err);
  wire_item item;
  bool more;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&w, &item, &more));
    if (!more) return WEFT_OK;
    if (item.number < 32) counts[item.number]++;
  }
}

static weft_status missing(onnx_reader *r, const wire_message *m, wire_span bytes,
                           const char *what) {
  return wire_fail(&r->file, m, bytes.at, r->err, "it has no %s", what);
}

/* ---- small messages ---------------------------------------------------------------------- */

static weft_status read_prop(onnx_reader *r, wire_span bytes, wf_onnx_prop *p) {
  wire_reader w = wire_open(&r->file, &onnx_wire_prop, bytes, r->err);
  wire_item item;
  bool more;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&w, &item, &more));
    if (!more) return WEFT_OK;
    *(item.number == 1 ? &p->key : &p->value) = wire_str(item.bytes);
  }
}

static weft_status read_opset(onnx_reader *r, wire_span bytes, wf_onnx_opset *o) {
  wire_reader w = wire_open(&r->file, &onnx_wire_opset, bytes, r->err);
  wire_item item;
  bool more;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&w, &item, &more));
    if (!more) break;
    if (item.number == 1)
      o->domain = wire_str(item.bytes);
    else
      o->version = (int64_t)item.u;
  }
  if (wf_str_is(o->domain, "ai.onnx")) o->domain = WF_STR("");
  if (o->version < 1 || o->version > INT32_MAX)
    return missing(r, &onnx_wire_opset, bytes, "version");
  return WEFT_OK;
}

static weft_status read_dim(onnx_reader *r, wire_span bytes, wf_onnx_dim *d) {
  wire_reader w = wire_open(&r->file, &onnx_wire_dim, bytes, r->err);
  wire_item item;
  bool more;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&w, &item, &more));
    if (!more) break;
    if (item.number == 1) {
      d->is_known = true;
      d->value = (int64_t)item.u;
    } else if (item.number == 2) {
      d->symbol = wire_str(item.bytes);
    }
  }
  if (d->is_known && d->value < 0) { /* some exporters write -1 for "any" */
    d->is_known = false;
    d->value = 0;
  }
  return WEFT_OK;
}

static weft_status read_shape(onnx_reader *r, wire_span bytes, wf_onnx_value_info *v) {
  size_t counts[32];
  WF_RETURN_IF_ERROR(count_fields(r, &onnx_wire_shape, bytes, counts));
  if (counts[1] > ONNX_MAX_RANK) {
    return wire_fail(&r->file, &onnx_wire_shape, bytes.at, r->err, "%zu dimensions are too many",
                     counts[1]);
  }
  void *p;
  WF_RETURN_IF_ERROR(onnx_list(r, &onnx_wire_shape, bytes.at, counts[1], sizeof(wf_onnx_dim), &p));
  wf_onnx_dim *dims = p;
  wire_reader w = wire_open(&r->file, &onnx_wire_shape, bytes, r->err);
  wire_item item;
  bool more;
  for (size_t n = 0;;) {
    WF_RETURN_IF_ERROR(wire_next(&w, &item, &more));
    if (!more) break;
    WF_RETURN_IF_ERROR(read_dim(r, item.bytes, &dims[n++]));
  }
  v->rank = (int32_t)counts[1];
  v->dims = dims;
  return WEFT_OK;
}

static weft_status read_tensor_type(onnx_reader *r, wire_span bytes, wf_onnx_value_info *v) {
  wire_reader w = wire_open(&r->file, &onnx_wire_tensor_type, bytes, r->err);
  wire_item item;
  bool more;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&w, &item, &more));
    if (!more) return WEFT_OK;
    if (item.number == 2) {
      WF_RETURN_IF_ERROR(read_shape(r, item.bytes, v));
    } else {
      if (item.u >= WF_DTYPE_COUNT) {
        return wire_fail(&r->file, &onnx_wire_tensor_type, item.at, r->err,
                         "its data type is unknown");
      }
      v->dtype = (wf_dtype)item.u;
    }
  }
}

static weft_status read_value_info(onnx_reader *r, wire_span bytes, wf_onnx_value_info *v) {
  wire_reader w = wire_open(&r->file, &onnx_wire_value_info, bytes, r->err);
  wire_item item;
  bool more;
  v->rank = -1;
  v->is_tensor = true; /* no type at all says nothing against it */
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&w, &item, &more));
    if (!more) break;
    if (item.number == 1) v->name = wire_str(item.bytes);
    if (item.number != 2) continue;
    wire_reader t = wire_open(&r->file, &onnx_wire_type, item.bytes, r->err);
    wire_item part;
    for (;;) {
      WF_RETURN_IF_ERROR(wire_next(&t, &part, &more));
      if (!more) break;
      if (part.number == 1)
        WF_RETURN_IF_ERROR(read_tensor_type(r, part.bytes, v));
      else if (part.number != 6)
        v->is_tensor = false;
    }
  }
  if (v->name.n == 0) return missing(r, &onnx_wire_value_info, bytes, "name");
  return WEFT_OK;
}

/* ---- attributes -------------------------------------------------------------------------- */

typedef struct attr_lists {
  uint64_t *floats, *ints;
  size_t n_floats, n_ints;
  wf_str *strings;
  wf_tensor *tensors;
  const wf_onnx_graph **graphs;
  size_t n_strings, n_tensors, n_graphs;
} attr_lists;

static weft_status add_graph(onnx_reader *r, wire_span bytes, int depth, attr_lists *l) {
  wf_onnx_graph *g = wf_arena_alloc(r->arena, sizeof *g);
  if (!g) return wf_fail_memory(r->err, sizeof *g, "a nested graph");
  WF_RETURN_IF_ERROR(read_graph(r, bytes, depth + 1, g));
  l->graphs[l->n_graphs++] = g;
  return WEFT_OK;
}

static weft_status size_lists(onnx_reader *r, wire_span bytes, attr_lists *l) {
  size_t counts[32] = {0}, n_floats = 0, n_ints = 0, n;
  wire_reader w = wire_open(&r->file, &onnx_wire_attribute, bytes, r->err);
  wire_item item;
  bool more;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&w, &item, &more));
    if (!more) break;
    if (item.number < 32) counts[item.number]++;
    if (item.number == 7) {
      WF_RETURN_IF_ERROR(wire_count(&w, &item, WIRE_FIXED32, &n));
      n_floats += n;
    } else if (item.number == 8) {
      WF_RETURN_IF_ERROR(wire_count(&w, &item, WIRE_VARINT, &n));
      n_ints += n;
    }
  }
  const wire_message *m = &onnx_wire_attribute;
  void *p;
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, n_floats, sizeof *l->floats, &p));
  l->floats = p;
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, n_ints, sizeof *l->ints, &p));
  l->ints = p;
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, counts[9], sizeof *l->strings, &p));
  l->strings = p;
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, counts[5] + counts[10], sizeof *l->tensors, &p));
  l->tensors = p;
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, counts[6] + counts[11], sizeof *l->graphs, &p));
  l->graphs = p;
  return WEFT_OK;
}

static weft_status fill_attr(onnx_reader *r, wire_span bytes, int depth, wf_attr *a, attr_lists *l,
                             uint64_t *kind, uint32_t *seen) {
  wire_reader w = wire_open(&r->file, &onnx_wire_attribute, bytes, r->err);
  wire_item item;
  bool more;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&w, &item, &more));
    if (!more) return WEFT_OK;
    if (item.number < 32) *seen |= UINT32_C(1) << item.number;
    switch (item.number) {
      case 1:
        a->name = wire_str(item.bytes);
        break;
      case 2: {
        const uint32_t bits = (uint32_t)item.u;
        memcpy(&a->f, &bits, sizeof a->f);
        break;
      }
      case 3:
        a->i = (int64_t)item.u;
        break;
      case 4:
        a->s = wire_str(item.bytes);
        break;
      case 5:
      case 10:
        WF_RETURN_IF_ERROR(onnx_read_tensor(r, item.bytes, &l->tensors[l->n_tensors++]));
        break;
      case 6:
      case 11:
        WF_RETURN_IF_ERROR(add_graph(r, item.bytes, depth, l));
        break;
      case 7:
        l->n_floats += wire_numbers(&item, WIRE_FIXED32, l->floats + l->n_floats);
        break;
      case 8:
        l->n_ints += wire_numbers(&item, WIRE_VARINT, l->ints + l->n_ints);
        break;
      case 9:
        l->strings[l->n_strings++] = wire_str(item.bytes);
        break;
      case 20:
        *kind = item.u;
        break;
      case 21:
        a->ref = wire_str(item.bytes);
        break;
      default:
        break;
    }
  }
}

/* Which field holds the value of each kind. */
static uint32_t field_of_kind(uint64_t kind) {
  static const uint8_t fields[] = {0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  return kind < WF_ARRAY_LEN(fields) ? fields[kind] : 0;
}

static weft_status read_attr(onnx_reader *r, wire_span bytes, int depth, wf_attr *a) {
  attr_lists l = {0};
  uint64_t kind = 0;
  uint32_t seen = 0;
  WF_RETURN_IF_ERROR(size_lists(r, bytes, &l));
  WF_RETURN_IF_ERROR(fill_attr(r, bytes, depth, a, &l, &kind, &seen));
  if (a->name.n == 0) return missing(r, &onnx_wire_attribute, bytes, "name");
  if (kind > 14)
    return wire_fail(&r->file, &onnx_wire_attribute, bytes.at, r->err, "its type is unknown");
  for (uint64_t k = 1; kind == 0 && k <= 10; k++) { /* files before IR version 2 name no type */
    if (seen & UINT32_C(1) << field_of_kind(k)) kind = k;
  }
  const uint32_t values = seen & (0xffcu | UINT32_C(1) << 14 | UINT32_C(1) << 15 |
                                  UINT32_C(1) << 22 | UINT32_C(1) << 23);
  if (kind >= 1 && kind <= 10 && (values & ~(UINT32_C(1) << field_of_kind(kind)))) {
    return wire_fail(&r->file, &onnx_wire_attribute, bytes.at, r->err,
                     "attribute '%.*s' has values of another type than it says",
                     (int)(a->name.n < 60 ? a->name.n : 60), a->name.at);
  }
  if ((kind == WF_ATTR_TENSOR && l.n_tensors != 1 && !a->ref.n) ||
      (kind == WF_ATTR_GRAPH && l.n_graphs != 1 && !a->ref.n)) {
    return missing(r, &onnx_wire_attribute, bytes, "value");
  }
  a->kind = kind > 10 ? WF_ATTR_OTHER : (wf_attr_kind)kind;
  float *floats = wf_arena_calloc(r->arena, l.n_floats, sizeof *floats);
  if (!floats) return wf_fail_memory(r->err, l.n_floats, "the floats of an attribute");
  for (size_t i = 0; i < l.n_floats; i++) {
    const uint32_t bits = (uint32_t)l.floats[i];
    memcpy(&floats[i], &bits, sizeof bits);
  }
  a->floats = floats;
  a->ints = (const int64_t *)l.ints;
  a->strings = l.strings;
  a->tensors = l.tensors;
  a->graphs = (const wf_onnx_graph *const *)l.graphs;
  switch (a->kind) {
    case WF_ATTR_FLOATS:
      a->n = l.n_floats;
      break;
    case WF_ATTR_INTS:
      a->n = l.n_ints;
      break;
    case WF_ATTR_STRINGS:
      a->n = l.n_strings;
      break;
    case WF_ATTR_TENSORS:
      a->n = l.n_tensors;
      break;
    case WF_ATTR_GRAPHS:
      a->n = l.n_graphs;
      break;
    case WF_ATTR_NONE:
    case WF_ATTR_OTHER:
      a->n = 0;
      break;
    case WF_ATTR_FLOAT:
    case WF_ATTR_INT:
    case WF_ATTR_STRING:
    case WF_ATTR_TENSOR:
    case WF_ATTR_GRAPH:
      a->n = 1;
      break;
  }
  return WEFT_OK;
}

/* ---- nodes, graphs ----------------------------------------------------------------------- */

static weft_status read_node(onnx_reader *r, wire_span bytes, int depth, wf_onnx_node *n) {
  const wire_message *m = &onnx_wire_node;
  size_t counts[32];
  WF_RETURN_IF_ERROR(count_fields(r, m, bytes, counts));
  void *p;
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, counts[1], sizeof(wf_str), &p));
  wf_str *inputs = p;
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, counts[2], sizeof(wf_str), &p));
  wf_str *outputs = p;
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, counts[5], sizeof(wf_attr), &p));
  wf_attr *attrs = p;
  wire_reader w = wire_open(&r->file, m, bytes, r->err);
  wire_item item;
  bool more;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&w, &item, &more));
    if (!more) break;
    const wf_str s = wire_str(item.bytes);
    switch (item.number) {
      case 1:
        inputs[n->n_inputs++] = s;
        break;
      case 2:
        outputs[n->n_outputs++] = s;
        break;
      case 3:
        n->name = s;
        break;
      case 4:
        n->op_type = s;
        break;
      case 5:
        WF_RETURN_IF_ERROR(read_attr(r, item.bytes, depth, &attrs[n->n_attrs++]));
        break;
      case 7:
        n->domain = wf_str_is(s, "ai.onnx") ? WF_STR("") : s;
        break;
      case 8:
        n->overload = s;
        break;
      default:
        break;
    }
  }
  if (n->op_type.n == 0) return missing(r, m, bytes, "op_type");
  n->inputs = inputs;
  n->outputs = outputs;
  n->attrs = attrs;
  return WEFT_OK;
}

static weft_status alloc_graph(onnx_reader *r, wire_span bytes, wf_onnx_graph *g) {
  const wire_message *m = &onnx_wire_graph;
  size_t counts[32];
  void *p;
  WF_RETURN_IF_ERROR(count_fields(r, m, bytes, counts));
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, counts[1], sizeof(wf_onnx_node), &p));
  g->nodes = p;
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, counts[5], sizeof(wf_tensor), &p));
  g->initializers = p;
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, counts[11], sizeof(wf_onnx_value_info), &p));
  g->inputs = p;
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, counts[12], sizeof(wf_onnx_value_info), &p));
  g->outputs = p;
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, counts[13], sizeof(wf_onnx_value_info), &p));
  g->value_infos = p;
  return WEFT_OK;
}

static weft_status read_initializer(onnx_reader *r, wire_span bytes, wf_onnx_graph *g) {
  wf_tensor *tensors = wf_unconst(g->initializers); /* allocated by alloc_graph */
  wf_tensor *t = &tensors[g->n_initializers++];
  WF_RETURN_IF_ERROR(onnx_read_tensor(r, bytes, t));
  if (t->name.n == 0) return missing(r, &onnx_wire_tensor, bytes, "name");
  return WEFT_OK;
}

static weft_status read_graph(onnx_reader *r, wire_span bytes, int depth, wf_onnx_graph *g) {
  if (depth > ONNX_MAX_DEPTH) {
    return wf_fail(r->err, WEFT_LIMIT, "export the model with fewer nested If and Loop nodes",
                   "%s: graphs are nested more than %d deep at byte %zu", r->file.name,
                   ONNX_MAX_DEPTH, (size_t)(bytes.at - r->file.base));
  }
  WF_RETURN_IF_ERROR(alloc_graph(r, bytes, g));
  /* Allocated by alloc_graph; const only to whoever reads the model afterwards. */
  wf_onnx_node *nodes = wf_unconst(g->nodes);
  wf_onnx_value_info *inputs = wf_unconst(g->inputs), *outputs = wf_unconst(g->outputs);
  wf_onnx_value_info *infos = wf_unconst(g->value_infos);
  wire_reader w = wire_open(&r->file, &onnx_wire_graph, bytes, r->err);
  wire_item item;
  bool more;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&w, &item, &more));
    if (!more) return WEFT_OK;
    switch (item.number) {
      case 1:
        WF_RETURN_IF_ERROR(read_node(r, item.bytes, depth, &nodes[g->n_nodes++]));
        break;
      case 2:
        g->name = wire_str(item.bytes);
        break;
      case 5:
        WF_RETURN_IF_ERROR(read_initializer(r, item.bytes, g));
        break;
      case 11:
        WF_RETURN_IF_ERROR(read_value_info(r, item.bytes, &inputs[g->n_inputs++]));
        break;
      case 12:
        WF_RETURN_IF_ERROR(read_value_info(r, item.bytes, &outputs[g->n_outputs++]));
        break;
      case 13:
        WF_RETURN_IF_ERROR(read_value_info(r, item.bytes, &infos[g->n_value_infos++]));
        break;
      case 15:
        return wf_fail(r->err, WEFT_UNSUPPORTED, "export the model with dense weights",
                       "%s: the graph has sparse initializers (byte %zu)", r->file.name,
                       (size_t)(item.at - r->file.base));
      default:
        break;
    }
  }
}

static weft_status alloc_function(onnx_reader *r, wire_span bytes, wf_onnx_function *f) {
  const wire_message *m = &onnx_wire_function;
  size_t counts[32];
  void *p;
  WF_RETURN_IF_ERROR(count_fields(r, m, bytes, counts));
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, counts[4], sizeof(wf_str), &p));
  f->inputs = p;
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, counts[5], sizeof(wf_str), &p));
  f->outputs = p;
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, counts[6], sizeof(wf_str), &p));
  f->attr_names = p;
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, counts[7], sizeof(wf_onnx_node), &p));
  f->nodes = p;
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, counts[9], sizeof(wf_onnx_opset), &p));
  f->opsets = p;
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, counts[11], sizeof(wf_attr), &p));
  f->attr_defaults = p;
  WF_RETURN_IF_ERROR(onnx_list(r, m, bytes.at, counts[12], sizeof(wf_onnx_value_info), &p));
  f->value_infos = p;
  return WEFT_OK;
}

static weft_status read_function(onnx_reader *r, wire_span bytes, wf_onnx_function *f) {
  WF_RETURN_IF_ERROR(alloc_function(r, bytes, f));
  /* Allocated by alloc_function; const only to whoever reads the model afterwards. */
  wf_str *inputs = wf_unconst(f->inputs), *outputs = wf_unconst(f->outputs);
  wf_str *names = wf_unconst(f->attr_names);
  wf_attr *defaults = wf_unconst(f->attr_defaults);
  wf_onnx_node *nodes = wf_unconst(f->nodes);
  wf_onnx_opset *opsets = wf_unconst(f->opsets);
  wf_onnx_value_info *infos = wf_unconst(f->value_infos);
  wire_reader w = wire_open(&r->file, &onnx_wire_function, bytes, r->err);
  wire_item item;
  bool more;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&w, &item, &more));
    if (!more) break;
    const wf_str s = wire_str(item.bytes);
    switch (item.number) {
      case 1:
        f->name = s;
        break;
      case 4:
        inputs[f->n_inputs++] = s;
        break;
      case 5:
        outputs[f->n_outputs++] = s;
        break;
      case 6:
        names[f->n_attr_names++] = s;
        break;
      case 7:
        WF_RETURN_IF_ERROR(read_node(r, item.bytes, 1, &nodes[f->n_nodes++]));
        break;
      case 9:
        WF_RETURN_IF_ERROR(read_opset(r, item.bytes, &opsets[f->n_opsets++]));
        break;
      case 10:
        f->domain = s;
        break;
      case 11:
        WF_RETURN_IF_ERROR(read_attr(r, item.bytes, 1, &defaults[f->n_attr_defaults++]));
        break;
      case 12:
        WF_RETURN_IF_ERROR(read_value_info(r, item.bytes, &infos[f->n_value_infos++]));
        break;
      case 13:
        f->overload = s;
        break;
      default:
        break;
    }
  }
  if (f->name.n == 0) return missing(r, &onnx_wire_function, bytes, "name");
  return WEFT_OK;
}

/* Found before the rest, because it says whether unknown fields are damage. */
static weft_status read_ir_version(onnx_reader *r, wire_span bytes, wf_onnx_model *m) {
  r->file.is_newer = true;
  wire_reader w = wire_open(&r->file, &onnx_wire_model, bytes, r->err);
  wire_item item;
  bool more;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&w, &item, &more));
    if (!more) return missing(r, &onnx_wire_model, bytes, "ir_version");
    if (item.number == 1) break;
  }
  m->ir_version = (int64_t)item.u;
  if (m->ir_version < 1 || m->ir_version > 1000) {
    return wire_fail(&r->file, &onnx_wire_model, item.at, r->err, "its ir_version is %lld",
                     (long long)m->ir_version);
  }
  r->file.is_newer = m->ir_version > ONNX_NEWEST_IR;
  return WEFT_OK;
}

weft_status onnx_read_model(onnx_reader *r, wire_span bytes, wf_onnx_model *m) {
  const wire_message *msg = &onnx_wire_model;
  size_t counts[32];
  void *p;
  WF_RETURN_IF_ERROR(read_ir_version(r, bytes, m));
  WF_RETURN_IF_ERROR(count_fields(r, msg, bytes, counts));
  WF_RETURN_IF_ERROR(onnx_list(r, msg, bytes.at, counts[8], sizeof(wf_onnx_opset), &p));
  wf_onnx_opset *opsets = p;
  WF_RETURN_IF_ERROR(onnx_list(r, msg, bytes.at, counts[14], sizeof(wf_onnx_prop), &p));
  wf_onnx_prop *props = p;
  WF_RETURN_IF_ERROR(onnx_list(r, msg, bytes.at, counts[25], sizeof(wf_onnx_function), &p));
  wf_onnx_function *functions = p;
  m->opsets = opsets;
  m->props = props;
  m->functions = functions;
  wire_reader w = wire_open(&r->file, msg, bytes, r->err);
  wire_item item;
  bool more;
  for (;;) {
    WF_RETURN_IF_ERROR(wire_next(&w, &item, &more));
    if (!more) break;
    switch (item.number) {
      case 2:
        m->producer_name = wire_str(item.bytes);
        break;
      case 3:
        m->producer_version = wire_str(item.bytes);
        break;
      case 4:
        m->model_domain = wire_str(item.bytes);
        break;
      case 5:
        m->model_version = (int64_t)item.u;
        break;
      case 7:
        WF_RETURN_IF_ERROR(read_graph(r, item.bytes, 1, &m->graph));
        break;
      case 8:
        WF_RETURN_IF_ERROR(read_opset(r, item.bytes, &opsets[m->n_opsets++]));
        break;
      case 14:
        WF_RETURN_IF_ERROR(read_prop(r, item.bytes, &props[m->n_props++]));
        break;
      case 25:
        WF_RETURN_IF_ERROR(read_function(r, item.bytes, &functions[m->n_functions++]));
        break;
      default:
        break;
    }
  }
  if (counts[7] == 0) return missing(r, msg, bytes, "graph");
  if (m->n_opsets == 0) return missing(r, msg, bytes, "opset_import");
  return WEFT_OK;
}
