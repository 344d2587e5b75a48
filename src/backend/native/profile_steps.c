/* SPDX-License-Identifier: Apache-2.0 */
/* What a step or a node of the native backend costs, for a profile. Counts are of the numbers that
 * the operator's definition reads, writes, multiplies and adds, by whoever ran the span. */
#include <stdio.h>
#include <string.h>

#include "backend/native/interp.h"
#include "backend/native/op.h"
#include "backend/native/program.h"
#include "backend/native/session.h"
#include "backend/profile.h"

/* Sized for eight operands of rank 8; what does not fit is cut. */
typedef struct shapes {
  char at[512];
  size_t n;
} shapes;

static void put(shapes *s, const char *text) {
  const size_t n = strlen(text);
  if (s->n + n + 1 > sizeof s->at) return;
  memcpy(s->at + s->n, text, n + 1);
  s->n += n;
}

static void put_shape(shapes *s, const int64_t *dims, int32_t rank) {
  char number[24];
  put(s, s->n ? " x [" : "[");
  for (int32_t i = 0; i < rank; i++) {
    (void)snprintf(number, sizeof number, "%s%lld", i ? ", " : "", (long long)dims[i]);
    put(s, number);
  }
  put(s, "]");
}

static void put_two(shapes *s, int64_t a, int64_t b) { put_shape(s, (int64_t[]){a, b}, 2); }

static const char *step_name(const wf_step *s) {
  static const struct {
    wf_step_fn *fn;
    const char *name;
  } names[] = {{wf_step_gather, "Embedding"},
               {wf_step_norm, "Norm"},
               {wf_step_act_pack, "PackActivations"},
               {wf_step_linear, "MatMul"},
               {wf_step_head, "Head"},
               {wf_step_glu, "GatedUnit"},
               {wf_step_unary, "Unary"},
               {wf_step_binary, "Binary"},
               {wf_step_rope, "Rotary"},
               {wf_step_append, "CacheAppend"},
               {wf_step_attention, "Attention"},
               {wf_step_moe_route, "RouteExperts"},
               {wf_step_moe_sort, "SortExperts"},
               {wf_step_moe_gather, "GatherExperts"},
               {wf_step_moe_up, "ExpertsUp"},
               {wf_step_moe_gate, "ExpertsGate"},
               {wf_step_moe_down, "ExpertsDown"},
               {wf_step_moe_combine, "CombineExperts"},
               {wf_step_select, "SelectRows"},
               {wf_step_copy, "Copy"},
               {wf_step_store_logits, "StoreLogits"}};
  for (size_t i = 0; i < WF_ARRAY_LEN(names); i++) {
    if (names[i].fn == s->fn) return names[i].name;
  }
  return s->fn == wf_step_generic ? wf_op_name(s->as.generic.node->op) : "Step";
}

typedef struct cost {
  uint64_t n_bytes, n_flops;
} cost;

static cost product_cost(const wf_exec *x, const wf_step *s, const wf_member *m, int64_t rows,
                         shapes *text) {
  const wf_weight *w = &x->c->weights[s->as.linear.weight];
  int64_t begin = 0, end = 0;
  wf_member_range(m, w->n, w->packed.n_grain, &begin, &end);
  const uint64_t columns = (uint64_t)(end - begin), k = (uint64_t)w->k, n = (uint64_t)rows;
  put_two(text, rows, w->k);
  put_two(text, w->k, w->n);
  return (cost){
      (uint64_t)w->packed_bytes * columns / (uint64_t)(w->n ? w->n : 1) + n * (k + columns) * 4,
      2 * n * k * columns};
}

/* Of all rows together; its items go to whoever is free, so each member tells an even part. */
static cost attention_cost(const wf_exec *x, const wf_step *s, const wf_member *m, shapes *text) {
  const wf_attention_step *p = &s->as.attention;
  const wf_attention_row *rows = x->rows + (size_t)p->group * x->n_rows;
  const uint64_t heads = (uint64_t)p->spec.n_heads, kv = (uint64_t)p->kv.kv_heads;
  const uint64_t dims = (uint64_t)p->kv.head_dim + (uint64_t)p->kv.head_dim_v;
  const uint64_t size = p->kv.type == WF_KV_F32 ? 4 : p->kv.type == WF_KV_F16 ? 2 : 1;
  cost c = {0, 0};
  for (size_t i = 0; i < x->n_rows; i++) {
    const int64_t total = rows[i].past + rows[i].n_new;
    for (int64_t t = rows[i].past; t < total; t++) {
      const int64_t seen = p->spec.window > 0 && t >= p->spec.window ? p->spec.window : t + 1;
      c.n_flops += 2 * heads * dims * (uint64_t)seen;
    }
    c.n_bytes += kv * dims * size * (uint64_t)total;
    put_two(text, rows[i].n_new, total);
  }
  return (cost){c.n_bytes / (uint64_t)m->n, c.n_flops / (uint64_t)m->n};
}

void wf_profile_step(wf_exec *x, const wf_step *s, const wf_member *m, uint64_t begin_ns) {
  const uint64_t end_ns = wf_clock_ns(); /* first: what follows is the profile's own time */
  shapes text = {{0}, 0};
  cost c;
  const int64_t all = s->axis == WF_AXIS_SELECTED ? x->n_selected : x->n_tokens;
  int64_t begin = 0, rows = all;
  if (s->split == WF_SPLIT_ROWS && !x->is_small) {
    wf_member_range(m, all, WF_ACT_ROW_GRAIN, &begin, &rows);
    rows -= begin;
  }
  if (s->fn == wf_step_linear || s->fn == wf_step_head) {
    c = product_cost(x, s, m, all, &text);
  } else if (s->fn == wf_step_attention) {
    c = attention_cost(x, s, m, &text);
  } else {
    const int64_t width = s->n_out > 0 && s->out[0].slot >= 0 && s->width == 0
                              ? x->c->slots[s->out[0].slot].width
                              : s->width;
    put_two(&text, rows, width);
    const uint64_t n = (uint64_t)rows * (uint64_t)width;
    c = (cost){n * 4 * (uint64_t)(1 + (s->n_in > 0 ? s->n_in : 1)), n};
  }
  const wf_profile_span span = {.op = step_name(s),
                                .name = s->node ? s->node->name : (wf_str){NULL, 0},
                                .shapes = text.at,
                                .begin_ns = begin_ns,
                                .end_ns = end_ns,
                                .thread = m->index,
                                .n_bytes = c.n_bytes,
                                .n_flops = c.n_flops};
  wf_profile_add(x->session->profile, &span);
}

static uint64_t elements(const wf_view *v) {
  uint64_t n = 1;
  for (int32_t i = 0; i < v->rank; i++) n *= (uint64_t)v->dims[i];
  return n;
}

static uint64_t bytes_of(const wf_view *v) {
  return elements(v) * (uint64_t)wf_dtype_bits(v->dtype) / 8;
}

/* Products one output element sums, for operators that are sums of products; 0: none. */
static uint64_t depth_of(const wf_node *n, const wf_view *a, const wf_view *b) {
  if (!a || a->rank < 1) return 0;
  switch ((int)n->op) { /* int: the others are no products */
    case WF_OP_GEMM:
      return (uint64_t)a->dims[wf_node_attr_i(n, "transA", 0) ? 0 : a->rank - 1];
    case WF_OP_MATMUL:
    case WF_OP_MATMUL_INTEGER:
    case WF_OP_MS_MATMUL_NBITS:
    case WF_OP_MS_MATMUL_BNB4:
    case WF_OP_MS_FUSED_MATMUL:
    case WF_OP_MS_DYNAMIC_QUANTIZE_MATMUL:
    case WF_OP_MS_MATMUL_INTEGER_TO_FLOAT:
    case WF_OP_WEFT_DYNAMIC_LINEAR:
      return (uint64_t)a->dims[a->rank - 1];
    case WF_OP_CONV:
      return b && b->rank > 0 && b->dims[0] > 0 ? elements(b) / (uint64_t)b->dims[0] : 0;
    default:
      return 0;
  }
}

void wf_profile_node(wf_interp *in, const wf_frame *f, const wf_node *n, uint64_t begin_ns) {
  const uint64_t end_ns = wf_clock_ns();
  shapes text = {{0}, 0};
  uint64_t n_bytes = 0, n_out = 0;
  const wf_view *ends[2] = {NULL, NULL};
  for (int32_t i = 0; i < n->n_inputs; i++) {
    const wf_held *h = n->inputs[i] < 0 ? NULL : wf_frame_value(f, n->inputs[i]);
    const wf_value *v = n->inputs[i] < 0 ? NULL : wf_graph_value(f->plan->graph, n->inputs[i]);
    wf_view shape = h ? h->view : (wf_view){0};
    if (!h && v && v->tensor && v->tensor->rank <= WF_VIEW_MAX_RANK) {
      shape = (wf_view){.dtype = v->tensor->dtype, .rank = v->tensor->rank};
      if (shape.rank) {
        memcpy(shape.dims, v->tensor->dims, (size_t)shape.rank * sizeof *shape.dims);
      }
    } else if (!h) {
      continue;
    }
    if (i < 2 && h) ends[i] = &h->view;
    put_shape(&text, shape.dims, shape.rank);
    n_bytes += bytes_of(&shape);
  }
  for (int32_t i = 0; i < n->n_outputs; i++) {
    const wf_held *h = n->outputs[i] < 0 ? NULL : wf_frame_value(f, n->outputs[i]);
    if (!h) continue;
    n_bytes += bytes_of(&h->view);
    if (i == 0) n_out = elements(&h->view);
  }
  const uint64_t depth = depth_of(n, ends[0], ends[1]);
  const wf_profile_span span = {.op = wf_op_name(n->op),
                                .name = n->name,
                                .shapes = text.at,
                                .begin_ns = begin_ns,
                                .end_ns = end_ns,
                                .n_bytes = n_bytes,
                                .n_flops = depth ? 2 * depth * n_out : n_out};
  wf_profile_add(in->s->profile, &span);
}
