/* SPDX-License-Identifier: Apache-2.0 */
/* Where a workflow's inputs come from (format §5.1). Values that the caller supplies bind the
 * package's symbols first; literals and scalars of the request take the extents that are bound
 * then. */
#include <math.h>
#include <string.h>

#include "kernels/elementwise.h"
#include "workflow/pass_state.h"

/* A scalar of the request, in the form of a literal. */
typedef struct scalar {
  wf_literal_kind kind; /* NONE: nothing */
  int64_t i;
  double f;
} scalar;

static scalar int_scalar(int64_t i) { return (scalar){WF_LITERAL_INT, i, (double)i}; }
static scalar float_scalar(double f) { return (scalar){WF_LITERAL_FLOAT, 0, f}; }

/* The four fields of sampling as one (format §5.1, §16.4). */
typedef struct sampling {
  bool is_said; /* by the caller or the package: the inputs' own defaults do not count */
  double temperature, top_p, min_p;
  int64_t top_k;
} sampling;
static const sampling greedy = {true, 0.0, 1.0, 0.0, 1};

/* What the package lets a caller set, and within what. */
static weft_status check_field(const wf_plan *p, wf_input_role role, const char *name, double v,
                               weft_error *err) {
  const wf_plan_generation *g = p->generation;
  if (!g) return WEFT_OK;
  for (size_t i = 0; i < g->n_fields; i++) {
    const wf_plan_field *f = &g->fields[i];
    if (f->role != role) continue;
    wf_buf shown = {0};
    /* a bound that is not there is NaN, and no number is below or above that */
    if (!(v < f->minimum) && !(v > f->maximum)) return WEFT_OK;
    wf_buf_add_f64(&shown, v < f->minimum ? f->minimum : f->maximum);
    const weft_status st = wf_fail(
        err, WEFT_BIND, "stay within the package's bounds", "%s is %s the package's bound of %s",
        name, v < f->minimum ? "below" : "above", shown.at ? shown.at : "its own");
    wf_buf_deinit(&shown);
    return st;
  }
  return wf_fail(err, WEFT_BIND, "leave it out", "the package does not let a caller set %s", name);
}

/* Every field that the caller has set; of a greedy request the seed alone counts. */
static weft_status check_asked(const wf_plan *p, const wf_request *r, weft_error *err) {
  const struct {
    bool is_set;
    wf_input_role role;
    const char *name;
    double value;
  } fields[] = {{r->has_seed, WF_ROLE_SEED, "the seed", (double)r->seed},
                {r->has_temperature, WF_ROLE_TEMPERATURE, "the temperature", r->temperature},
                {r->has_top_k, WF_ROLE_TOP_K, "top_k", (double)r->top_k},
                {r->has_top_p, WF_ROLE_TOP_P, "top_p", r->top_p},
                {r->has_min_p, WF_ROLE_MIN_P, "min_p", r->min_p}};
  const size_t n = r->is_greedy ? 1 : WF_ARRAY_LEN(fields);
  for (size_t i = 0; i < n; i++) {
    if (!fields[i].is_set) continue;
    WF_RETURN_IF_ERROR(check_field(p, fields[i].role, fields[i].name, fields[i].value, err));
  }
  return WEFT_OK;
}

static weft_status resolve(const wf_pass *p, sampling *s, weft_error *err) {
  const wf_request *r = p->request;
  const wf_plan_generation *g = p->plan->generation;
  const bool has_words = r->has_temperature || r->has_top_k || r->has_top_p || r->has_min_p;
  *s = (sampling){has_words, 1.0, 1.0, 0.0, 0};
  WF_RETURN_IF_ERROR(check_asked(p->plan, r, err));
  if (r->is_greedy) {
    *s = greedy;
    return WEFT_OK;
  }
  if (g) {
    /* `do_sample` is derived from the temperature where it is not said */
    const bool samples = g->do_sample == 1 || (g->do_sample < 0 && g->temperature > 0.0);
    if (!isnan(g->temperature)) s->temperature = g->temperature;
    if (!isnan(g->top_p)) s->top_p = g->top_p;
    if (g->top_k >= 0) s->top_k = g->top_k;
    if (!has_words && samples) s->is_said = true;
    if (!has_words && (g->do_sample == 0 || g->temperature == 0.0)) *s = greedy;
  }
  if (r->has_temperature) s->temperature = r->temperature;
  if (r->has_top_k) s->top_k = r->top_k;
  if (r->has_top_p) s->top_p = r->top_p;
  if (r->has_min_p) s->min_p = r->min_p;
  if (s->is_said && s->temperature == 0.0) *s = greedy;
  return WEFT_OK;
}

/* The token limit may always be set; the package's own bound holds all the same. */
static int64_t limit_of(const wf_plan *p, const wf_request *r, wf_input_role role) {
  const wf_plan_generation *g = p->generation;
  for (size_t i = 0; g && i < g->n_fields; i++) {
    const double most = g->fields[i].maximum;
    if (g->fields[i].role == role && (double)r->max_tokens > most) return (int64_t)most;
  }
  return r->max_tokens;
}

/* What the caller, or the package for it, set for a role. */
static scalar asked(const wf_pass *p, const sampling *s, wf_input_role role) {
  const wf_request *r = p->request;
  const scalar none = {WF_LITERAL_NONE, 0, 0.0};
  switch ((int)role) { /* int: most roles have no scalar */
    case WF_ROLE_MAX_ITERATIONS:
    case WF_ROLE_MAX_OUTPUT_TOKENS:
      return r->has_max_tokens ? int_scalar(limit_of(p->plan, r, role)) : none;
    case WF_ROLE_SEED:
      return r->has_seed ? int_scalar(r->seed) : none;
    case WF_ROLE_TEMPERATURE:
      return s->is_said ? float_scalar(s->temperature) : none;
    case WF_ROLE_TOP_K:
      return s->is_said ? int_scalar(s->top_k) : none;
    case WF_ROLE_TOP_P:
      return s->is_said ? float_scalar(s->top_p) : none;
    case WF_ROLE_MIN_P:
      return s->is_said ? float_scalar(s->min_p) : none;
    default: /* other roles have no scalar of their own */
      return none;
  }
}

/* What a role is when neither the caller nor the package says anything. */
static scalar fallback(wf_input_role role) {
  switch ((int)role) { /* int: most roles have no scalar */
    case WF_ROLE_MAX_ITERATIONS:
    case WF_ROLE_MAX_OUTPUT_TOKENS:
      return int_scalar(128);
    case WF_ROLE_SEED:
      return int_scalar(0);
    case WF_ROLE_TEMPERATURE:
      return float_scalar(greedy.temperature);
    case WF_ROLE_MIN_P:
      return float_scalar(greedy.min_p);
    case WF_ROLE_TOP_K:
      return int_scalar(greedy.top_k);
    case WF_ROLE_TOP_P:
      return float_scalar(greedy.top_p);
    default: /* no fallback */
      return (scalar){WF_LITERAL_NONE, 0, 0.0};
  }
}

static uint16_t to_bf16(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40u);
  return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* One element; false: the type cannot hold it. */
static bool encode(wf_dtype t, unsigned char *to, const scalar *s) {
  const float f = (float)s->f;
  switch ((int)t) { /* int: only types that a contract can have */
    case WF_DTYPE_BOOL:
      to[0] = s->i != 0;
      return s->kind == WF_LITERAL_BOOL;
    case WF_DTYPE_F32:
      memcpy(to, &f, sizeof f);
      return s->kind != WF_LITERAL_BOOL;
    case WF_DTYPE_F16: {
      const uint16_t h = wf_f16_bits(f);
      memcpy(to, &h, sizeof h);
      return s->kind != WF_LITERAL_BOOL;
    }
    case WF_DTYPE_BF16: {
      const uint16_t h = to_bf16(f);
      memcpy(to, &h, sizeof h);
      return s->kind != WF_LITERAL_BOOL;
    }
    default:
      break;
  }
  if (!wf_dtype_is_int(t) || s->kind == WF_LITERAL_FLOAT || s->kind == WF_LITERAL_BOOL) {
    return false;
  }
  const int bits = wf_dtype_bits(t);
  if (bits < 8 || bits > 64) return false;
  if (bits < 64) {
    const int64_t high = ((int64_t)1 << (wf_dtype_is_signed(t) ? bits - 1 : bits)) - 1;
    const int64_t low = wf_dtype_is_signed(t) ? -high - 1 : 0;
    if (s->i < low || s->i > high) return false;
  } else if (!wf_dtype_is_signed(t) && s->i < 0) {
    return false;
  }
  memcpy(to, &s->i, (size_t)bits / 8); /* little-endian: the low bytes come first */
  return true;
}

static weft_status cannot_hold(const wf_plan_input *in, weft_error *err) {
  return wf_fail(err, WEFT_RUN, "give the input a literal of its type",
                 "input '%s' is %s, which cannot hold its value", in->name,
                 wf_dtype_name(in->contract.dtype));
}

/* A tensor of the contract's shape at the extents bound so far, symbols that are free counting as
 * one, or n where that is the only axis of a list. */
static weft_status make(wf_pass *p, const wf_plan_input *in, int64_t n_listed, wf_datum **result,
                        weft_error *err) {
  const wf_plan_contract *c = &in->contract;
  int64_t dims[WF_PLAN_MAX_RANK];
  if (c->rank > 0 && !c->has_shape) {
    if (c->rank != 1) {
      return wf_fail(err, WEFT_RUN, "declare the input's shape",
                     "input '%s' has no shape to fill with a literal", in->name);
    }
    dims[0] = n_listed > 0 ? n_listed : 1;
    return wf_datum_create(result, p->pool, c->dtype, 1, dims, err);
  }
  for (int32_t d = 0; d < c->rank; d++) {
    const wf_plan_dim *dim = &c->dims[d];
    dims[d] = dim->extent;
    if (dim->symbol < 0) continue;
    dims[d] = p->extents.at[dim->symbol];
    if (dims[d] < 0) dims[d] = c->rank == 1 && n_listed > 0 ? n_listed : 1;
    if (c->layout == WF_LAYOUT_EXPANDED && d == c->axis) dims[d] *= c->factor;
  }
  return wf_datum_create(result, p->pool, c->dtype, c->rank, dims, err);
}

static weft_status fill_scalar(wf_pass *p, const wf_plan_input *in, const scalar *s,
                               weft_error *err) {
  unsigned char element[8];
  wf_datum *v = NULL;
  if (in->contract.rank > 1) {
    return wf_fail(err, WEFT_RUN, "give the role an input of rank 0 or 1",
                   "input '%s' has rank %d, but its role is a single number", in->name,
                   (int)in->contract.rank);
  }
  if (!encode(in->contract.dtype, element, s)) return cannot_hold(in, err);
  WF_RETURN_IF_ERROR(make(p, in, 0, &v, err));
  const size_t size = (size_t)wf_dtype_bits(in->contract.dtype) / 8;
  for (size_t at = 0; at < v->n_bytes; at += size) {
    memcpy((unsigned char *)v->view.data + at, element, size);
  }
  wf_pass_set(p, in->slot, v);
  return WEFT_OK;
}

static weft_status fill_literal(wf_pass *p, const wf_plan_input *in, weft_error *err) {
  const wf_plan_literal *l = &in->literal;
  wf_datum *v = NULL;
  WF_RETURN_IF_ERROR(make(p, in, l->is_list ? (int64_t)l->n : 0, &v, err));
  wf_pass_set(p, in->slot, v);
  const int64_t n = wf_view_elements(&v->view);
  if (l->is_list && n != (int64_t)l->n) {
    return wf_fail(err, WEFT_RUN, "give one literal for each element",
                   "input '%s' lists %zu literals for %lld elements", in->name, l->n, (long long)n);
  }
  const size_t size = (size_t)wf_dtype_bits(in->contract.dtype) / 8;
  for (int64_t i = 0; i < n; i++) {
    const size_t from = l->is_list ? (size_t)i : 0;
    const bool is_float = l->kind == WF_LITERAL_FLOAT;
    const scalar s = {l->kind, is_float ? 0 : l->ints[from],
                      is_float ? l->floats[from] : (double)l->ints[from]};
    /* a literal that is no float never fills a float (LIT) */
    if ((!is_float && wf_dtype_is_float(in->contract.dtype)) ||
        !encode(in->contract.dtype, (unsigned char *)v->view.data + (size_t)i * size, &s)) {
      return cannot_hold(in, err);
    }
  }
  return WEFT_OK;
}

static weft_status fill_prompt(wf_pass *p, const wf_plan_input *in, weft_error *err) {
  const wf_request *r = p->request;
  const wf_plan_contract *c = &in->contract;
  const int64_t dims[2] = {(int64_t)r->n_prompts, r->prompt_tokens};
  if (c->rank != 2 && !(c->rank == 1 && r->n_prompts == 1)) {
    return wf_fail(err, WEFT_BIND, "give the prompt an input of rank 2",
                   "input '%s' has rank %d, which cannot take %zu prompts", in->name, (int)c->rank,
                   r->n_prompts);
  }
  wf_datum *v = NULL;
  WF_RETURN_IF_ERROR(
      wf_datum_create(&v, p->pool, c->dtype, c->rank, c->rank == 2 ? dims : dims + 1, err));
  wf_pass_set(p, in->slot, v);
  const size_t size = (size_t)wf_dtype_bits(c->dtype) / 8;
  for (int64_t i = 0; i < dims[0] * dims[1]; i++) {
    const scalar s = int_scalar(r->prompts[i]);
    if (!encode(c->dtype, (unsigned char *)v->view.data + (size_t)i * size, &s)) {
      return cannot_hold(in, err);
    }
  }
  return WEFT_OK;
}

static const wf_named_view *supplied(const wf_request *r, const char *name) {
  for (size_t i = 0; name && i < r->n_tensors; i++) {
    if (strcmp(r->tensors[i].name, name) == 0) return &r->tensors[i];
  }
  return NULL;
}

static weft_status check_names(const wf_pass *p, weft_error *err) {
  for (size_t i = 0; i < p->request->n_tensors; i++) {
    const char *name = p->request->tensors[i].name;
    bool is_known = false;
    for (size_t j = 0; j < p->plan->n_inputs && !is_known; j++) {
      const wf_plan_input *in = &p->plan->inputs[j];
      is_known = strcmp(in->name, name) == 0 ||
                 (in->source == WF_SOURCE_APPLICATION && strcmp(in->source_name, name) == 0);
    }
    if (!is_known) {
      return wf_fail(err, WEFT_BIND, "name an input that the workflow declares",
                     "the workflow has no input '%s' (IN-10)", name);
    }
  }
  return WEFT_OK;
}

/* Steps 1 to 3 where the value has a shape of its own. */
static weft_status take_supplied(wf_pass *p, const wf_plan_input *in, weft_error *err) {
  const wf_named_view *given = supplied(p->request, in->name);
  const wf_named_view *other =
      in->source == WF_SOURCE_APPLICATION && strcmp(in->source_name, in->name) != 0
          ? supplied(p->request, in->source_name)
          : NULL;
  if (given && other) {
    return wf_fail(err, WEFT_BIND, "supply it once", "input '%s' is supplied as '%s' too", in->name,
                   in->source_name);
  }
  if (!given) given = other;
  if (given) {
    wf_datum *v = NULL;
    WF_RETURN_IF_ERROR(wf_datum_copy(&v, p->pool, &given->view, err));
    wf_pass_set(p, in->slot, v);
  } else if (in->artifact) {
    wf_datum *v = NULL;
    WF_RETURN_IF_ERROR(wf_datum_create(&v, p->pool, in->contract.dtype, in->contract.rank,
                                       in->artifact_dims, err));
    memcpy(v->view.data, in->artifact, in->artifact_bytes);
    wf_pass_set(p, in->slot, v);
  } else if (in->source == WF_SOURCE_REQUEST && in->role == WF_ROLE_PROMPT_TOKENS &&
             p->request->n_prompts > 0) {
    WF_RETURN_IF_ERROR(fill_prompt(p, in, err));
  }
  const wf_datum *v = p->slots[in->slot.v];
  if (!v) return WEFT_OK;
  return wf_contract_check(&in->contract, &v->view, &p->extents, -1, WEFT_BIND, in->name, err);
}

/* The rest: what takes its extents from the others. */
static weft_status take_scalar(wf_pass *p, const wf_plan_input *in, const sampling *said,
                               weft_error *err) {
  const bool is_request = in->source == WF_SOURCE_REQUEST;
  scalar s = is_request ? asked(p, said, in->role) : (scalar){WF_LITERAL_NONE, 0, 0.0};
  if (s.kind == WF_LITERAL_NONE && in->literal.kind != WF_LITERAL_NONE) {
    WF_RETURN_IF_ERROR(fill_literal(p, in, err));
  } else {
    if (s.kind == WF_LITERAL_NONE && is_request) s = fallback(in->role);
    if (s.kind != WF_LITERAL_NONE) WF_RETURN_IF_ERROR(fill_scalar(p, in, &s, err));
  }
  const wf_datum *v = p->slots[in->slot.v];
  if (v) {
    return wf_contract_check(&in->contract, &v->view, &p->extents, -1, WEFT_BIND, in->name, err);
  }
  if (in->is_required) {
    return wf_fail(err, WEFT_MISSING_INPUT, "supply it", "input '%s' was not supplied", in->name);
  }
  return WEFT_OK;
}

weft_status wf_pass_bind_inputs(wf_pass *p, weft_error *err) {
  const wf_plan *plan = p->plan;
  sampling said;
  WF_RETURN_IF_ERROR(check_names(p, err));
  WF_RETURN_IF_ERROR(resolve(p, &said, err));
  for (size_t i = 0; i < plan->n_inputs; i++) {
    WF_RETURN_IF_ERROR(take_supplied(p, &plan->inputs[i], err));
  }
  for (size_t i = 0; i < plan->n_inputs; i++) {
    const wf_plan_input *in = &plan->inputs[i];
    const bool is_there = p->slots[in->slot.v] != NULL;
    if (!is_there) WF_RETURN_IF_ERROR(take_scalar(p, in, &said, err));
    if (!wf_slot_is(in->present)) continue;
    wf_datum *v = NULL;
    WF_RETURN_IF_ERROR(wf_datum_create(&v, p->pool, WF_DTYPE_BOOL, 0, NULL, err));
    *(unsigned char *)v->view.data = is_there;
    wf_pass_set(p, in->present, v);
  }
  return WEFT_OK;
}
