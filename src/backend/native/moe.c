/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/moe.h"

#include <math.h>
#include <string.h>

#include "kernels/elementwise.h"

/* ---- the node ------------------------------------------------------------------------------- */

/* Which inputs make projection i (fc1, fc2, fc3); -1: the operator has none. */
typedef struct inputs {
  int32_t data, scales, zeros, bias;
} inputs;

static inputs inputs_of(const wf_node *n, int32_t i) {
  if (n->op == WF_OP_MS_MOE) return (inputs){2 + 2 * i, -1, -1, 3 + 2 * i};
  return (inputs){2 + 3 * i, 3 + 3 * i, 11 + i, 4 + 3 * i};
}

static int32_t shares_of(const wf_node *n) { return n->op == WF_OP_MS_QMOE ? 14 : -1; }

bool wf_moe_reads(const wf_node *n, int32_t input) { return input < 2 || input == shares_of(n); }

weft_status wf_moe_refuse(const wf_node *n, weft_error *err, weft_status status, const char *why) {
  return wf_fail(err, status, "run the package on another backend", "node '%.*s' (%.*s): %s",
                 (int)n->name.n, n->name.at ? n->name.at : "", (int)n->op_type.n,
                 n->op_type.at ? n->op_type.at : "", why);
}

static bool is_float(wf_dtype t) {
  return t == WF_DTYPE_F32 || t == WF_DTYPE_F16 || t == WF_DTYPE_BF16;
}

/* [n_experts, rows, columns] of the constant at the input; false: there is none such. */
static bool expert_dims(const wf_component *c, const wf_node *n, int32_t input,
                        const wf_tensor **t) {
  *t = wf_const_of(c->graph, wf_node_input(n, input), NULL);
  return *t && (*t)->data && (*t)->rank == 3;
}

size_t wf_moe_most_weights(const wf_component *c, const wf_node *n) {
  const wf_tensor *t;
  if (n->op != WF_OP_MS_MOE && n->op != WF_OP_MS_QMOE) return 0;
  if (!expert_dims(c, n, inputs_of(n, 0).data, &t) || t->dims[0] < 1 ||
      t->dims[0] > INT32_MAX / 4) {
    return 1; /* wf_moe_collect says why */
  }
  return (size_t)t->dims[0] * 3;
}

static weft_status take_activation(const wf_node *n, wf_moe_form *f, weft_error *err) {
  static const struct {
    const char *name;
    wf_moe_activation activation;
  } known[] = {{"relu", WF_MOE_RELU},
               {"gelu", WF_MOE_GELU},
               {"silu", WF_MOE_SILU},
               {"swiglu", WF_MOE_SWIGLU},
               {"identity", WF_MOE_IDENTITY}};
  const wf_attr *a = wf_node_attr(n, "activation_type");
  const wf_str name = a && a->kind == WF_ATTR_STRING ? a->s : WF_STR("relu");
  size_t i = 0;
  while (i < WF_ARRAY_LEN(known) && !wf_str_is(name, known[i].name)) i++;
  if (i == WF_ARRAY_LEN(known)) {
    return wf_moe_refuse(n, err, WEFT_UNSUPPORTED, "its activation_type is unknown");
  }
  f->activation = known[i].activation;
  f->alpha = wf_node_attr_f(n, "activation_alpha", 1);
  f->beta = wf_node_attr_f(n, "activation_beta", 0);
  f->limit = wf_node_attr_f(n, "swiglu_limit", INFINITY);
  f->fusion = (int32_t)wf_node_attr_i(n, "swiglu_fusion", 0);
  return WEFT_OK;
}

/* ---- weights -------------------------------------------------------------------------------- */

typedef struct collector {
  wf_component *c;
  const wf_node *n;
  wf_moe_form *f;
  weft_error *err;
} collector;

/* One of the three projections, of all experts. */
typedef struct projection {
  const wf_tensor *data, *scales, *zeros, *bias;
  int64_t n, k;       /* outputs, inputs */
  int bits;           /* 0: floats */
  int64_t block_size; /* 0: a scale a column */
} projection;

/* One expert's part of a constant [n_experts, ...]; dtype: what its elements are read as. */
static const wf_tensor *slice(const collector *x, const wf_tensor *t, int64_t e, wf_dtype dtype) {
  if (!t) return NULL;
  wf_tensor *part = wf_arena_alloc(x->c->arena, sizeof *part);
  if (!part) return NULL;
  *part = *t;
  part->n_bytes = t->n_bytes / (size_t)x->f->n_experts;
  part->dtype = dtype;
  part->n = part->n_bytes * 8 / (size_t)wf_dtype_bits(dtype);
  part->data = (const char *)t->data + (size_t)e * part->n_bytes;
  part->map_at = t->map_at + (size_t)e * part->n_bytes;
  part->rank = t->rank - 1;
  part->dims = t->dims + 1;
  return part;
}

static wf_dtype unsigned_of(int bits) {
  return bits == 8 ? WF_DTYPE_U8 : bits == 4 ? WF_DTYPE_U4 : WF_DTYPE_U2;
}

/* A constant of the experts with `wanted` elements; *t NULL where the node has none. */
static weft_status optional(const collector *x, int32_t input, bool is_bytes, int64_t wanted,
                            const wf_tensor **t) {
  *t = NULL;
  if (wf_node_input(x->n, input) < 0) return WEFT_OK;
  *t = wf_const_of(x->c->graph, wf_node_input(x->n, input), NULL);
  if (!*t || !(*t)->data) {
    return wf_moe_refuse(x->n, x->err, WEFT_UNSUPPORTED, "its weights are no constants");
  }
  if ((int64_t)(*t)->n != wanted ||
      (is_bytes ? (*t)->dtype != WF_DTYPE_U8 : !is_float((*t)->dtype))) {
    return wf_moe_refuse(x->n, x->err, WEFT_PACKAGE_INVALID,
                         "a bias, scale or zero point has not the form that its weights ask for");
  }
  return WEFT_OK;
}

static weft_status take_projection(const collector *x, int32_t i, projection *p) {
  static const char *const bits_names[] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits",
                                           "fc3_expert_weight_bits"};
  const wf_node *n = x->n;
  const inputs in = inputs_of(n, i);
  *p = (projection){0};
  if (!expert_dims(x->c, n, in.data, &p->data)) {
    return wf_moe_refuse(n, x->err, WEFT_UNSUPPORTED, "its weights are no constants of rank 3");
  }
  const int64_t experts = x->f->n_experts;
  if (p->data->dims[0] != experts || p->data->dims[1] < 1 || p->data->dims[2] < 1 ||
      p->data->dims[1] > INT32_MAX / 2 || p->data->dims[2] > INT32_MAX / 8) {
    return wf_moe_refuse(n, x->err, WEFT_PACKAGE_INVALID, "its weights have sizes that do not fit");
  }
  p->n = p->data->dims[1];
  p->k = p->data->dims[2];
  if (n->op == WF_OP_MS_QMOE) {
    p->bits = (int)wf_node_attr_i(n, bits_names[i], wf_node_attr_i(n, "expert_weight_bits", 4));
    p->block_size = wf_node_attr_i(n, "block_size", 0);
    if (p->bits != 2 && p->bits != 4 && p->bits != 8) {
      return wf_moe_refuse(n, x->err, WEFT_UNSUPPORTED, "its weights have neither 2, 4 nor 8 bits");
    }
    if (p->block_size < 0) p->block_size = 0;
    p->k = p->k * 8 / p->bits;
    const bool is_block = p->block_size >= 16 && p->block_size <= 256 &&
                          (p->block_size & (p->block_size - 1)) == 0 && p->k % p->block_size == 0;
    if (p->data->dtype != WF_DTYPE_U8 || (p->block_size && !is_block)) {
      return wf_moe_refuse(n, x->err, WEFT_UNSUPPORTED,
                           "its weights are in no blocks that weft reads");
    }
    const int64_t blocks = p->block_size ? p->k / p->block_size : 1;
    const int64_t zero_bytes =
        p->block_size ? p->n * ((blocks * p->bits + 7) / 8) : (p->n * p->bits + 7) / 8;
    WF_RETURN_IF_ERROR(optional(x, in.scales, false, experts * p->n * blocks, &p->scales));
    WF_RETURN_IF_ERROR(optional(x, in.zeros, true, experts * zero_bytes, &p->zeros));
    if (!p->scales)
      return wf_moe_refuse(n, x->err, WEFT_PACKAGE_INVALID, "its weights have no scales");
  } else if (!is_float(p->data->dtype)) {
    return wf_moe_refuse(n, x->err, WEFT_UNSUPPORTED, "its weights are no floats");
  }
  return optional(x, in.bias, false, experts * p->n, &p->bias);
}

/* Columns without zero points of their own count from the middle of what their bits hold. */
static const wf_tensor *middle_zeros(const collector *x, const projection *p) {
  const size_t n_bytes = (size_t)((p->n * p->bits + 7) / 8);
  wf_tensor *t = wf_arena_alloc(x->c->arena, sizeof *t);
  unsigned char *bytes = wf_arena_alloc(x->c->arena, n_bytes);
  if (!t || !bytes) return NULL;
  memset(bytes, p->bits == 8 ? 0x80 : p->bits == 4 ? 0x88 : 0xaa, n_bytes);
  *t = (wf_tensor){.dtype = unsigned_of(p->bits),
                   .rank = 1,
                   .dims = p->data->dims + 1,
                   .n = (size_t)p->n,
                   .data = bytes,
                   .n_bytes = n_bytes};
  return t;
}

static weft_status add_weights(const collector *x, const projection *p, wf_weight *to) {
  const bool is_exact = x->c->exact;
  const bool may_round = wf_node_attr_i(x->n, "accuracy_level", 0) == 4 || p->bits == 8;
  const wf_tensor *middle = NULL;
  if (p->bits && !p->block_size && !p->zeros) {
    middle = middle_zeros(x, p);
    if (!middle) return wf_fail_memory(x->err, (size_t)p->n, "a component");
  }
  for (int64_t e = 0; e < x->f->n_experts; e++) {
    wf_weight *w = &to[e];
    *w = (wf_weight){.kind = WF_WK_DENSE, .n_parts = 1, .n = p->n, .k = p->k};
    wf_weight_part *part = &w->parts[0];
    part->n = p->n;
    w->mode = is_exact || (p->bits && !may_round) ? WF_MATMUL_EXACT : WF_MATMUL_FAST;
    const bool is_column = p->bits && !p->block_size;
    part->data = slice(x, p->data, e, is_column ? unsigned_of(p->bits) : p->data->dtype);
    part->bias = p->bias ? slice(x, p->bias, e, p->bias->dtype) : NULL;
    if (p->bits) {
      w->kind = is_column ? WF_WK_QDQ : WF_WK_NBITS;
      w->bits = p->bits;
      w->block_size = (int)p->block_size;
      w->axis = 0;
      part->scales = slice(x, p->scales, e, p->scales->dtype);
      part->zeros = is_column  ? p->zeros ? slice(x, p->zeros, e, unsigned_of(p->bits)) : middle
                    : p->zeros ? slice(x, p->zeros, e, WF_DTYPE_U8)
                               : NULL;
    }
    if (!part->data || (p->bias && !part->bias) || (p->scales && !part->scales) ||
        (p->zeros && !part->zeros)) {
      return wf_fail_memory(x->err, sizeof(wf_tensor), "a component");
    }
  }
  return WEFT_OK;
}

static weft_status check_form(const collector *x, const projection *p1, const projection *p2,
                              const projection *p3) {
  wf_moe_form *f = x->f;
  f->hidden = p1->k;
  f->inter = p2->k;
  f->fc1_n = p1->n;
  const bool is_fused = f->activation == WF_MOE_SWIGLU && f->fusion != 0;
  const bool is_split = f->activation == WF_MOE_SWIGLU && f->fusion == 0;
  if (f->fusion < 0 || f->fusion > 2 || f->k < 1 || f->k > f->n_experts ||
      (is_split && !f->has_fc3) || (is_fused && f->has_fc3)) {
    return wf_moe_refuse(x->n, x->err, WEFT_PACKAGE_INVALID,
                         "its attributes contradict one another");
  }
  if (p2->n != f->hidden || p1->n != f->inter * (is_fused ? 2 : 1) ||
      (f->has_fc3 && (p3->n != f->inter || p3->k != f->hidden))) {
    return wf_moe_refuse(x->n, x->err, WEFT_PACKAGE_INVALID,
                         "its weights have sizes that do not fit");
  }
  if (f->has_fc3 && (p3->bits != p1->bits || p3->block_size != p1->block_size)) {
    return wf_moe_refuse(x->n, x->err, WEFT_UNSUPPORTED, "fc1 and fc3 are quantised differently");
  }
  return WEFT_OK;
}

weft_status wf_moe_collect(wf_component *c, const wf_node *n, wf_moe_form *f, wf_weight *weights,
                           size_t *n_weights, weft_error *err) {
  const wf_tensor *t;
  projection p1, p2, p3 = {0};
  *f = (wf_moe_form){.k = (int32_t)wf_node_attr_i(n, "k", 1),
                     .normalizes = wf_node_attr_i(n, "normalize_routing_weights", 0) != 0};
  collector x = {c, n, f, err};
  if (!expert_dims(c, n, inputs_of(n, 0).data, &t) || t->dims[0] < 1 ||
      t->dims[0] > INT32_MAX / 4) {
    return wf_moe_refuse(n, err, WEFT_UNSUPPORTED, "its weights are no constants of rank 3");
  }
  const wf_attr *type = wf_node_attr(n, "quant_type");
  if (type && !(type->kind == WF_ATTR_STRING && wf_str_is(type->s, "int"))) {
    return wf_moe_refuse(n, err, WEFT_UNSUPPORTED, "its quant_type is not 'int'");
  }
  f->n_experts = t->dims[0];
  f->has_fc3 = wf_node_input(n, inputs_of(n, 2).data) >= 0;
  f->shares = wf_node_input(n, shares_of(n)) >= 0 ? shares_of(n) : -1;
  /* ONNX Runtime's QMoE makes a softmax over the chosen whatever the attribute says. */
  if (n->op == WF_OP_MS_QMOE && f->shares < 0) f->normalizes = true;
  WF_RETURN_IF_ERROR(take_activation(n, f, err));
  WF_RETURN_IF_ERROR(take_projection(&x, 0, &p1));
  WF_RETURN_IF_ERROR(take_projection(&x, 1, &p2));
  if (f->has_fc3) WF_RETURN_IF_ERROR(take_projection(&x, 2, &p3));
  WF_RETURN_IF_ERROR(check_form(&x, &p1, &p2, &p3));
  *n_weights = (size_t)f->n_experts * (f->has_fc3 ? 3 : 2);
  WF_RETURN_IF_ERROR(add_weights(&x, &p1, weights));
  WF_RETURN_IF_ERROR(add_weights(&x, &p2, weights + f->n_experts));
  return f->has_fc3 ? add_weights(&x, &p3, weights + 2 * f->n_experts) : WEFT_OK;
}

/* ---- the run -------------------------------------------------------------------------------- */

/* The plan's parts: expert and share of each pair, token by token and likeliest first; where the
 * pair stands in the order of experts; which token stands at a place; where experts begin. */
typedef struct plan {
  int32_t *expert, *place, *token, *start;
  float *share;
} plan;

size_t wf_moe_act_bytes(const wf_moe_form *f, const wf_weight *weights, int which) {
  return wf_act_bytes(&weights[which ? f->n_experts : 0].packed.act, 1);
}

int64_t wf_moe_plan_ints(const wf_moe_form *f, int64_t n_tokens) {
  return n_tokens * (4 * (int64_t)f->k + f->n_experts + 1);
}

static plan plan_of(const wf_moe_run *r) {
  const int64_t pairs = r->n_tokens * r->f->k;
  return (plan){r->plan, r->plan + pairs, r->plan + 2 * pairs, r->plan + 4 * pairs,
                (float *)(void *)(r->plan + 3 * pairs)};
}

/* The k largest of a row, the first of equals before the others. */
static void choose(const float *row, int64_t n, int32_t k, int32_t *chosen) {
  for (int32_t j = 0; j < k; j++) {
    int32_t best = -1;
    for (int32_t e = 0; e < (int32_t)n; e++) {
      bool is_taken = false;
      for (int32_t i = 0; i < j; i++) is_taken |= chosen[i] == e;
      if (!is_taken && (best < 0 || row[e] > row[best])) best = e;
    }
    chosen[j] = best;
  }
}

/* Shares of the chosen: a softmax over them, or their part of a softmax over all (what ONNX Runtime
 * makes of normalize_routing_weights); or what router_weights says, on its own or of the sum. */
static void share_out(const wf_moe_form *f, const float *row, const float *given,
                      const int32_t *chosen, float *share) {
  float sum = 0;
  if (given) {
    for (int32_t j = 0; j < f->k; j++) sum += share[j] = given[chosen[j]];
    if (!f->normalizes) return;
  } else {
    const float most = row[chosen[0]];
    for (int32_t j = 0; j < f->k; j++) share[j] = expf(row[chosen[j]] - most);
    if (f->normalizes) {
      for (int32_t j = 0; j < f->k; j++) sum += share[j];
    } else {
      for (int64_t e = 0; e < f->n_experts; e++) sum += expf(row[e] - most);
    }
  }
  for (int32_t j = 0; j < f->k; j++) share[j] /= sum;
}

void wf_moe_route(const wf_moe_run *r, int64_t begin, int64_t end) {
  const plan p = plan_of(r);
  const int32_t k = r->f->k;
  for (int64_t t = begin; t < end; t++) {
    const float *row = r->router + t * r->ld_router;
    choose(row, r->f->n_experts, k, p.expert + t * k);
    share_out(r->f, row, r->shares ? r->shares + t * r->ld_shares : NULL, p.expert + t * k,
              p.share + t * k);
  }
}

void wf_moe_sort(const wf_moe_run *r) {
  const plan p = plan_of(r);
  const int64_t pairs = r->n_tokens * r->f->k, experts = r->f->n_experts;
  memset(p.start, 0, (size_t)(experts + 1) * sizeof *p.start);
  for (int64_t i = 0; i < pairs; i++) p.start[p.expert[i] + 1]++;
  for (int64_t e = 0; e < experts; e++) p.start[e + 1] += p.start[e];
  for (int64_t i = 0; i < pairs; i++) {
    const int32_t at = p.start[p.expert[i]]++;
    p.place[i] = at;
    p.token[at] = (int32_t)(i / r->f->k);
  }
  for (int64_t e = experts; e > 0; e--) p.start[e] = p.start[e - 1];
  p.start[0] = 0;
}

void wf_moe_gather(const wf_moe_run *r, int64_t begin, int64_t end) {
  const plan p = plan_of(r);
  const size_t row = wf_act_bytes(&r->weights[0].packed.act, 1);
  for (int64_t i = begin; i < end; i++) {
    memcpy((char *)r->act1 + (size_t)i * row, (const char *)r->act_x + (size_t)p.token[i] * row,
           row);
  }
}

/* The member's columns of a projection, expert by expert. */
static void project(const wf_moe_run *r, const wf_member *m, const wf_weight *weights,
                    const void *act, float *y) {
  const plan p = plan_of(r);
  const size_t row = wf_act_bytes(&weights[0].packed.act, 1);
  const int64_t n = weights[0].n;
  int64_t begin = 0, end = 0;
  wf_member_range(m, n, weights[0].packed.n_grain, &begin, &end);
  if (begin == end) return;
  for (int64_t e = 0; e < r->f->n_experts; e++) {
    const int64_t first = p.start[e], n_rows = p.start[e + 1] - first;
    if (n_rows == 0) continue;
    wf_matmul_run(&weights[e].packed, n_rows, (const char *)act + (size_t)first * row,
                  y + first * n, n, begin, end, NULL);
  }
}

void wf_moe_up(const wf_moe_run *r, const wf_member *m) {
  project(r, m, r->weights, r->act1, r->up);
  if (r->f->has_fc3) project(r, m, r->weights + 2 * r->f->n_experts, r->act1, r->up3);
}

void wf_moe_down(const wf_moe_run *r, const wf_member *m) {
  project(r, m, r->weights + r->f->n_experts, r->act2, r->y);
}

enum { CHUNK = 64 };

/* G sigmoid(alpha G) (L + beta), with G and L held within the limit; n at most CHUNK. */
static void swiglu(const wf_moe_run *r, int64_t n, const float *g, const float *l, int64_t step,
                   float *out) {
  const wf_moe_form *f = r->f;
  float gate[CHUNK], sigmoid[CHUNK];
  for (int64_t i = 0; i < n; i++) {
    const float v = g[i * step];
    gate[i] = v > f->limit ? f->limit : v;
    sigmoid[i] = f->alpha * gate[i];
  }
  wf_unary_f32(r->level, WF_FN_SIGMOID, n, sigmoid, sigmoid);
  for (int64_t i = 0; i < n; i++) {
    float v = l[i * step];
    v = v > f->limit ? f->limit : v < -f->limit ? -f->limit : v;
    out[i] = gate[i] * sigmoid[i] * (v + f->beta);
  }
}

/* A pair's row of the first products into what the second ones read. */
static void activate(const wf_moe_run *r, const float *up, const float *up3, float *mid) {
  static const wf_unary_fn fns[] = {
      [WF_MOE_RELU] = WF_FN_RELU, [WF_MOE_GELU] = WF_FN_GELU_TANH, [WF_MOE_SILU] = WF_FN_SILU};
  const wf_moe_form *f = r->f;
  if (f->activation != WF_MOE_SWIGLU) {
    if (f->activation == WF_MOE_IDENTITY)
      memcpy(mid, up, (size_t)f->inter * sizeof *mid);
    else
      wf_unary_f32(r->level, fns[f->activation], f->inter, up, mid);
    if (f->has_fc3) wf_binary_f32(r->level, WF_BINARY_MUL, f->inter, mid, 1, up3, 1, mid);
    return;
  }
  for (int64_t i = 0; i < f->inter; i += CHUNK) {
    const int64_t n = f->inter - i < CHUNK ? f->inter - i : CHUNK;
    if (f->fusion == 1)
      swiglu(r, n, up + 2 * i, up + 2 * i + 1, 2, mid + i);
    else
      swiglu(r, n, up + i, f->fusion == 2 ? up + f->inter + i : up3 + i, 1, mid + i);
  }
}

void wf_moe_gate(const wf_moe_run *r, int64_t begin, int64_t end) {
  const wf_moe_form *f = r->f;
  for (int64_t i = begin; i < end; i++) {
    activate(r, r->up + i * f->fc1_n, f->has_fc3 ? r->up3 + i * f->inter : NULL,
             r->mid + i * f->inter);
  }
  if (begin < end) {
    wf_act_pack(&r->weights[f->n_experts].packed.act, r->level, r->n_tokens * f->k, begin, end,
                r->mid, f->inter, r->act2);
  }
}

void wf_moe_combine(const wf_moe_run *r, int64_t begin, int64_t end) {
  const plan p = plan_of(r);
  const wf_moe_form *f = r->f;
  for (int64_t t = begin; t < end; t++) {
    float *out = r->out + t * r->ld_out;
    for (int32_t j = 0; j < f->k; j++) {
      const float share = p.share[t * f->k + j];
      const float *y = r->y + (int64_t)p.place[t * f->k + j] * f->hidden;
      for (int64_t i = 0; i < f->hidden; i++) out[i] = j ? out[i] + share * y[i] : share * y[i];
    }
  }
}
