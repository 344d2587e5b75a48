/* SPDX-License-Identifier: Apache-2.0 */
/* Contracts, inputs and outputs: TYP, IN, LIT and OUT. */

#include <stdarg.h>
#include <stdlib.h>

#include "package/check.h"
#include "package/schema.h"

void wf_check_fail(wf_rules *c, wf_problem_class class, const char *rule, const wf_meta_at *at,
                   const char *member, const char *fix, const char *fmt, ...) {
  va_list args;
  wf_buf path = {0};
  uint32_t line = 1, column = 1;
  wf_meta_path(at, &path);
  if (at && at->node) {
    line = at->node->line;
    column = at->node->column;
    const wf_doc_member *m = member ? wf_doc_find(at->node, member) : NULL;
    if (m) {
      line = m->value->line;
      column = m->value->column;
    }
  }
  if (member) wf_buf_printf(&path, "%s%s", path.n ? "." : "", member);
  va_start(args, fmt);
  wf_problems_addv(c->problems, class, rule, path.at && !path.failed ? path.at : "", line, column,
                   fix, fmt, args);
  va_end(args);
  wf_buf_deinit(&path);
}

/* ---- contracts --------------------------------------------------------------------------------
 */

wf_dtype wf_meta_dtype(const char *text) {
  static const struct {
    const char *text;
    wf_dtype type;
  } known[] = {{"float32", WF_DTYPE_F32},
               {"fp32", WF_DTYPE_F32},
               {"float16", WF_DTYPE_F16},
               {"fp16", WF_DTYPE_F16},
               {"bfloat16", WF_DTYPE_BF16},
               {"bf16", WF_DTYPE_BF16},
               {"float8_e4m3fn", WF_DTYPE_F8E4M3FN},
               {"fp8_e4m3fn", WF_DTYPE_F8E4M3FN},
               {"float8_e4m3", WF_DTYPE_F8E4M3FN},
               {"fp8_e4m3", WF_DTYPE_F8E4M3FN},
               {"float8_e5m2", WF_DTYPE_F8E5M2},
               {"fp8_e5m2", WF_DTYPE_F8E5M2},
               {"int8", WF_DTYPE_I8},
               {"int16", WF_DTYPE_I16},
               {"int32", WF_DTYPE_I32},
               {"int64", WF_DTYPE_I64},
               {"uint8", WF_DTYPE_U8},
               {"uint16", WF_DTYPE_U16},
               {"uint32", WF_DTYPE_U32},
               {"uint64", WF_DTYPE_U64},
               {"bool", WF_DTYPE_BOOL}};
  for (size_t i = 0; text && i < sizeof known / sizeof *known; i++) {
    if (strcmp(text, known[i].text) == 0) return known[i].type;
  }
  return WF_DTYPE_UNDEFINED;
}

int wf_meta_layout_of(const wf_meta_contract *c) {
  return c->batch_layout ? c->batch_layout->kind : WF_META_SHARED;
}

int64_t wf_meta_request_axis(const wf_meta_contract *c) {
  const int kind = wf_meta_layout_of(c);
  return kind == WF_META_REQUEST_ALIGNED || kind == WF_META_REQUEST_EXPANDED ? c->batch_layout->axis
                                                                             : -1;
}

bool wf_contract_same_layout(const wf_meta_contract *a, const wf_meta_contract *b) {
  const int kind = wf_meta_layout_of(a);
  if (kind != wf_meta_layout_of(b)) return false;
  if (kind == WF_META_SHARED || kind == WF_META_RUNTIME_SEQUENCE_STATE) return true;
  if (a->batch_layout->axis != b->batch_layout->axis) return false;
  return kind != WF_META_REQUEST_EXPANDED || a->batch_layout->factor == b->batch_layout->factor;
}

bool wf_contract_is_scalar(const wf_meta_contract *c) {
  return c->rank == 0 ||
         (c->rank == 1 && c->shape.n == 1 && !c->shape.at[0].symbol && c->shape.at[0].extent == 1);
}

bool wf_contract_is_integer(const wf_meta_contract *c) { return wf_dtype_is_int(c->dtype); }

const char *wf_contract_clash(const wf_meta_contract *a, const wf_meta_contract *b,
                              int64_t exempt) {
  if (a->dtype == WF_DTYPE_UNDEFINED || b->dtype == WF_DTYPE_UNDEFINED) return NULL;
  if (a->dtype != b->dtype) return "their dtypes differ";
  if (a->rank >= 0 && b->rank >= 0 && a->rank != b->rank) return "their ranks differ";
  if (a->shape.n != b->shape.n) return NULL;
  for (size_t i = 0; i < a->shape.n; i++) {
    const wf_meta_dim x = a->shape.at[i], y = b->shape.at[i];
    if ((int64_t)i == exempt || x.symbol || y.symbol) continue;
    if (x.extent != y.extent) return "two fixed dimensions differ";
  }
  return NULL;
}

static void check_contract(wf_rules *c, const wf_meta_contract *k) {
  const wf_meta_at *at = k->head.at;
  if (k->dtype == WF_DTYPE_UNDEFINED) {
    wf_check_struct(c, "TYP-02", at, "dtype", "write a type of docs/format.md 3.2",
                    "'%.80s' is no element type of a contract", k->dtype_text);
  }
  if (k->has_shape && (int64_t)k->shape.n != k->rank) {
    wf_check_struct(c, "TYP-01", at, "shape", "give the shape one entry for each axis",
                    "the shape has %zu entries, the rank is %lld", k->shape.n, (long long)k->rank);
  }
  if (wf_meta_layout_of(k) == WF_META_REQUEST_EXPANDED && k->batch_layout->factor == 0) {
    wf_check_struct(c, "TYP-03", k->batch_layout->head.at, "factor", "write 1 or more",
                    "the factor is 0");
  }
  if (wf_meta_request_axis(k) >= k->rank && wf_meta_request_axis(k) >= 0) {
    wf_check_struct(c, "TYP-01", k->batch_layout->head.at, "axis", "name an axis below the rank",
                    "the request axis %lld is not below the rank %lld",
                    (long long)k->batch_layout->axis, (long long)k->rank);
  }
}

/* ---- literals ---------------------------------------------------------------------------------
 */

static bool int_fits(wf_dtype t, int64_t v) {
  const int bits = wf_dtype_bits(t);
  if (!wf_dtype_is_signed(t)) return v >= 0 && (bits == 64 || v < INT64_C(1) << bits);
  return bits == 64 || (v >= -(INT64_C(1) << (bits - 1)) && v < INT64_C(1) << (bits - 1));
}

static void check_literal_item(wf_rules *c, const wf_meta_input *in,
                               const wf_meta_literal_item *v) {
  const wf_dtype t = in->contract->dtype;
  const char *why = NULL;
  switch (v->kind) {
    case WF_DOC_BOOL:
      why = t == WF_DTYPE_BOOL ? NULL : "a bool literal needs dtype bool";
      break;
    case WF_DOC_INT:
      if (!wf_dtype_is_int(t))
        why = "an integer literal needs an integer dtype";
      else if (!int_fits(t, v->i))
        why = "the integer is out of the dtype's range";
      break;
    case WF_DOC_FLOAT:
      if (t != WF_DTYPE_F32 && t != WF_DTYPE_F16 && t != WF_DTYPE_BF16)
        why = "a float literal needs dtype float32, float16 or bfloat16";
      break;
    case WF_DOC_STRING:
      why = "a text is no value of a tensor";
      break;
    case WF_DOC_NULL:
    case WF_DOC_LIST:
    case WF_DOC_MAP:
      break;
  }
  if (why && t != WF_DTYPE_UNDEFINED) {
    wf_check_fail(c, WF_PROBLEM_SCHEMA, "LIT", in->head.at, "default",
                  "write the value in the dtype's own form, 1.0 for a float32",
                  "the default does not fit the contract's dtype %s: %s", in->contract->dtype_text,
                  why);
  }
}

static void check_literal(wf_rules *c, const wf_meta_input *in) {
  const wf_meta_literal *l = &in->default_value;
  const wf_meta_contract *k = in->contract;
  if (!l->n && !l->is_list) return;
  for (size_t i = 0; i < l->n; i++) check_literal_item(c, in, &l->items[i]);
  if (!k->has_shape && k->rank > 0) {
    wf_check_fail(c, WF_PROBLEM_SCHEMA, "LIT", in->contract->head.at, "shape", "declare the shape",
                  "a default needs the contract's shape");
    return;
  }
  if (!l->is_list) return;
  size_t n = 1;
  bool is_fixed = true;
  for (size_t i = 0; i < k->shape.n; i++) {
    is_fixed &= !k->shape.at[i].symbol;
    if (!k->shape.at[i].symbol && !wf_size_mul(n, (size_t)k->shape.at[i].extent, &n)) n = SIZE_MAX;
  }
  if (!l->n || (is_fixed && n != l->n) || (!is_fixed && n && l->n % n != 0)) {
    wf_check_fail(c, WF_PROBLEM_SCHEMA, "LIT", in->head.at, "default",
                  "write one value, or as many as the shape has elements",
                  "the default lists %zu values for a shape of %zu elements", l->n, n);
  }
}

/* ---- inputs -----------------------------------------------------------------------------------
 */

static void check_presence(wf_rules *c, const wf_meta_input *in) {
  const wf_meta_at *at = in->head.at;
  const int source = in->source->kind;
  if (in->is_required)
    wf_check_struct(c, "IN-03", at, "present_as", "write 'required: false'",
                    "present_as on a required input");
  if (in->default_value.n || in->default_value.is_list)
    wf_check_struct(c, "IN-04", at, "present_as", "keep one of the two",
                    "present_as beside a default");
  if (source != WF_META_REQUEST && source != WF_META_APPLICATION)
    wf_check_struct(c, "IN-05", at, "present_as", "leave present_as out",
                    "present_as needs a request or application source");
  if (source == WF_META_REQUEST && in->role->kind == WF_META_RUNTIME &&
      in->role->role != WF_META_ROLE_MEDIA && in->role->role != WF_META_ROLE_CONSTRAINT &&
      in->role->role != WF_META_ROLE_SESSION_ID)
    wf_check_struct(c, "IN-06", at, "present_as", "leave present_as out",
                    "whether a request has this role cannot be observed: only media, constraint "
                    "and session_id can");
  if (!*in->present_as || wf_meta_find(&c->w->inputs, in->present_as)) {
    wf_check_struct(
        c, "IN-07", at, "present_as", "choose a name of its own",
        *in->present_as ? "present_as '%.100s' is an input's name" : "present_as is empty%.0s",
        in->present_as);
  }
}

static int compare_presence(const void *a, const void *b) {
  const wf_meta_input *x = *(const wf_meta_input *const *)a, *y = *(const wf_meta_input *const *)b;
  return strcmp(x->present_as, y->present_as);
}

static void check_presence_names(wf_rules *c) {
  size_t n = 0;
  const wf_meta_input **list = wf_arena_calloc(c->arena, c->w->inputs.n + 1, sizeof *list);
  if (!list) {
    c->out_of_memory = true;
    return;
  }
  for (size_t i = 0; i < c->w->inputs.n; i++) {
    if (c->w->inputs.at[i].present_as) list[n++] = &c->w->inputs.at[i];
  }
  if (n > 1) qsort(list, n, sizeof *list, compare_presence);
  for (size_t i = 1; i < n; i++) {
    if (compare_presence(&list[i], &list[i - 1]) == 0)
      wf_check_struct(c, "IN-07", list[i]->head.at, "present_as", "choose a name of its own",
                      "present_as '%.100s' is also that of input '%.100s'", list[i]->present_as,
                      list[i - 1]->head.name);
  }
}

static void check_input(wf_rules *c, const wf_meta_input *in) {
  const wf_meta_at *at = in->head.at;
  check_contract(c, in->contract);
  if (in->source->kind == WF_META_REQUEST && in->role->kind == WF_META_OPAQUE)
    wf_check_struct(c, "IN-01", at, "role", "give it a runtime role, or an application source",
                    "a request source needs a runtime role");
  if (!in->is_required && !in->default_value.n && !in->default_value.is_list && !in->present_as)
    wf_check_struct(c, "IN-02", at, "required", "add 'default' or 'present_as'",
                    "an optional input has neither default nor present_as");
  if (in->present_as) check_presence(c, in);
  if (in->role->kind == WF_META_RUNTIME && strcmp(in->role->version, "1.0") != 0 &&
      strcmp(in->role->version, "1") != 0 && strcmp(in->role->version, "v1") != 0)
    wf_check_struct(c, "IN-09", in->role->head.at, "version", "write \"1.0\"",
                    "runtime role version '%.40s' is unknown", in->role->version);
  check_literal(c, in);
}

/* ---- outputs ----------------------------------------------------------------------------------
 */

static void check_media(wf_rules *c, const wf_meta_output *out) {
  const wf_meta_media *m = out->media;
  const wf_meta_at *at = m->head.at;
  const wf_dtype t = out->contract->dtype;
  if (out->role != WF_META_AUDIO)
    wf_check_struct(c, "OUT-01", out->head.at, "media", "remove it, or write 'role: audio'",
                    "media belongs to audio outputs");
  if (!m->sample_rate_hz || !m->source_sample_rate_hz)
    wf_check_struct(c, "OUT-02", at, m->sample_rate_hz ? "source_sample_rate_hz" : "sample_rate_hz",
                    "write the rate in hertz", "the sample rate is 0");
  if (!m->channels)
    wf_check_struct(c, "OUT-02", at, "channels", "write 1 or more", "there are 0 channels");
  if (m->container != WF_META_WAV || t == WF_DTYPE_UNDEFINED) return;
  const bool is_float = t == WF_DTYPE_F32 || t == WF_DTYPE_F16 || t == WF_DTYPE_BF16;
  if (out->stage == WF_META_POST_ADAPTER ? t != WF_DTYPE_U8 : !is_float)
    wf_check_struct(c, "OUT-03", out->head.at, "stage",
                    "post_adapter carries the file as uint8, pre_adapter a 16- or 32-bit float",
                    "a wav output of this stage cannot have dtype %s", out->contract->dtype_text);
}

static void check_output(wf_rules *c, const wf_meta_output *out) {
  check_contract(c, out->contract);
  if (out->media) check_media(c, out);
  if ((out->role == WF_META_IMAGE) != (out->value_range >= 0))
    wf_check_struct(c, "OUT-04", out->head.at, "value_range",
                    out->value_range >= 0 ? "remove it" : "say how pixels are to be read",
                    out->value_range >= 0 ? "value_range belongs to image outputs"
                                          : "an image output lacks value_range");
}

static void check_packed_names(wf_rules *c, const wf_meta_contract *k) {
  if (wf_meta_layout_of(k) != WF_META_TOKEN_PACKED) return;
  const char *const names[] = {k->batch_layout->offsets, k->batch_layout->owner};
  for (size_t i = 0; i < 2; i++) {
    if (wf_meta_find(&c->w->inputs, names[i]) || wf_meta_find(&c->w->outputs, names[i]) ||
        wf_meta_find(&c->w->state, names[i]))
      continue;
    wf_check_fail(c, WF_PROBLEM_WARNING, "", k->batch_layout->head.at, i ? "owner" : "offsets",
                  "name an input, output or cell", "'%.100s' is no declared value", names[i]);
  }
}

void wf_check_ports(wf_rules *c) {
  const wf_meta_workflow *w = c->w;
  for (size_t i = 0; i < w->inputs.n; i++) {
    check_input(c, &w->inputs.at[i]);
    check_packed_names(c, w->inputs.at[i].contract);
  }
  check_presence_names(c);
  for (size_t i = 0; i < w->outputs.n; i++) {
    check_output(c, &w->outputs.at[i]);
    check_packed_names(c, w->outputs.at[i].contract);
  }
  for (size_t i = 0; i < w->state.n; i++) check_contract(c, w->state.at[i].contract);
  for (size_t i = 0; i < w->components.n; i++) {
    const wf_meta_ports *p = w->components.at[i].ports;
    for (size_t k = 0; p && k < p->inputs.n; k++) check_contract(c, &p->inputs.at[k]);
    for (size_t k = 0; p && k < p->outputs.n; k++) check_contract(c, &p->outputs.at[k]);
  }
}
