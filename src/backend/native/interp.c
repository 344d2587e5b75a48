/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and the walk over their nodes. */
#include "backend/native/interp.h"

#include <string.h>

weft_status wf_interp_take(wf_interp *in, size_t n_bytes, wf_pool_buffer **result,
                           weft_error *err) {
  *result = wf_pool_take(&in->pool, n_bytes ? n_bytes : 1);
  return *result ? WEFT_OK : wf_fail_memory(err, n_bytes, "a tensor");
}

/* ---- frames
 * -------------------------------------------------------------------------------------- */

weft_status wf_frame_open(wf_interp *in, wf_frame *f, const wf_graph *g, wf_frame *parent,
                          weft_error *err) {
  *f = (wf_frame){.plan = wf_interp_find(in->s->c, g), .parent = parent};
  if (!f->plan) return wf_fail(err, WEFT_INTERNAL, "", "a graph without a plan");
  const size_t n_bytes = (g->values.n + 1) * sizeof *f->values;
  WF_RETURN_IF_ERROR(wf_interp_take(in, n_bytes, &f->memory, err));
  f->values = f->memory->data;
  memset(f->values, 0, n_bytes);
  for (size_t i = 0; i < g->values.n; i++) {
    wf_held *h = &f->values[i];
    h->uses = f->plan->uses[i];
    if (f->plan->constants[i].data) {
      h->view = f->plan->constants[i];
      h->is_set = true;
    }
  }
  return WEFT_OK;
}

void wf_frame_close(wf_interp *in, wf_frame *f) {
  (void)in;
  if (!f->memory) return;
  for (size_t i = 0; i < f->plan->graph->values.n; i++) wf_pool_unref(f->values[i].buffer);
  wf_pool_unref(f->memory);
  *f = (wf_frame){0};
}

void wf_frame_set(wf_frame *f, int32_t id, const wf_view *v, wf_pool_buffer *buffer) {
  if (id < 0 || f->values[id].uses == 0) {
    wf_pool_unref(buffer);
    return;
  }
  wf_held *h = &f->values[id];
  wf_pool_unref(h->buffer);
  h->view = *v;
  h->buffer = buffer;
  h->is_set = true;
}

void wf_frame_bind(wf_frame *f, size_t i, const wf_view *v, wf_pool_buffer *buffer) {
  wf_pool_ref(buffer);
  wf_frame_set(f, f->plan->graph->inputs.at[i], v, buffer);
}

const wf_held *wf_frame_value(const wf_frame *f, int32_t id) {
  const wf_value *v = wf_graph_value(f->plan->graph, id);
  while (v && v->is_captured && f->parent) {
    f = f->parent;
    v = wf_graph_value(f->plan->graph, v->outer);
  }
  return v && f->values[v->id].is_set ? &f->values[v->id] : NULL;
}

static void release(wf_frame *f, int32_t id) {
  wf_held *h = &f->values[id];
  if (--h->uses > 0 || !h->buffer) return;
  wf_pool_unref(h->buffer);
  h->buffer = NULL;
  h->is_set = false;
}

/* ---- products with packed weights
 * ------------------------------------------------------------------ */

typedef struct product {
  const wf_weight *w;
  wf_cpu_level level;
  int64_t m;
  const float *x;
  float *y;
  void *act;
} product;

static void product_member(const wf_member *m, void *arg) {
  const product *p = arg;
  int64_t begin = 0, end = 0;
  wf_member_range(m, p->m, WF_ACT_ROW_GRAIN, &begin, &end);
  if (begin < end) {
    wf_act_pack(&p->w->packed.act, p->level, p->m, begin, end, p->x, p->w->k, p->act);
  }
  wf_team_barrier(m);
  wf_member_range(m, p->w->n, p->w->packed.n_grain, &begin, &end);
  if (begin < end) wf_matmul_run(&p->w->packed, p->m, p->act, p->y, p->w->n, begin, end, NULL);
}

/* Of integers: each member's part of the range, then codes of rows, then columns. */
enum { MAX_RANGES = 64 };
typedef struct int_product {
  const wf_weight *w;
  wf_cpu_level level;
  int64_t m;
  const float *x;
  float *y;
  void *act;
  float low[MAX_RANGES], high[MAX_RANGES];
} int_product;

static void int_product_member(const wf_member *m, void *arg) {
  int_product *p = arg;
  const int64_t k = p->w->k, n = p->m * k;
  float low = 0, high = 0;
  int64_t begin = 0, end = 0;
  if (m->n <= MAX_RANGES && p->m > 1) {
    wf_member_range(m, n, 16, &begin, &end);
    wf_int_widen(p->level, p->x + begin, end - begin, &low, &high);
    p->low[m->index] = low;
    p->high[m->index] = high;
    wf_team_barrier(m);
    for (int i = 0; i < m->n; i++) {
      if (p->low[i] < low) low = p->low[i];
      if (p->high[i] > high) high = p->high[i];
    }
  } else {
    wf_int_widen(p->level, p->x, n, &low, &high); /* each for itself */
  }
  const wf_int_range range = wf_int_range_of(low, high);
  wf_member_range(m, p->m, 1, &begin, &end);
  wf_int_act(p->level, range, k, begin, end, p->x, p->act);
  wf_team_barrier(m);
  wf_member_range(m, p->w->n, WF_INT_N_GRAIN, &begin, &end);
  if (begin < end) wf_int_run(&p->w->integer, range, p->m, p->act, p->y, begin, end);
}

static weft_status run_product(wf_interp *in, wf_frame *f, const wf_node *n, const wf_weight *w,
                               bool *is_done, weft_error *err) {
  const wf_held *x = wf_frame_value(f, wf_node_input(n, 0));
  *is_done = false;
  if (!x || x->view.dtype != WF_DTYPE_F32 || x->view.rank < 1 ||
      x->view.dims[x->view.rank - 1] != w->k) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "", "node '%.*s' wants rows of %lld numbers",
                   (int)n->name.n, n->name.at ? n->name.at : "", (long long)w->k);
  }
  wf_view y = x->view;
  y.dims[y.rank - 1] = w->n;
  wf_pool_buffer *out = NULL, *act = NULL;
  product p = {w, in->s->c->level, wf_view_count(&x->view) / w->k, x->view.data, NULL, NULL};
  size_t n_bytes = 0;
  if (!wf_size_mul((size_t)p.m, (size_t)w->n, &n_bytes) || !wf_size_mul(n_bytes, 4, &n_bytes)) {
    return wf_fail(err, WEFT_LIMIT, "", "a product overflows");
  }
  WF_RETURN_IF_ERROR(wf_interp_take(in, n_bytes, &out, err));
  weft_status st = WEFT_OK;
  if (p.m > 0) {
    const bool is_int = w->kind == WF_WK_INT;
    const size_t act_bytes =
        is_int ? wf_int_act_bytes(w->k, p.m) : wf_act_bytes(&w->packed.act, p.m);
    WF_TRY(wf_interp_take(in, act_bytes, &act, err));
    p.y = out->data;
    p.act = act->data;
    if (is_int) {
      int_product q = {w, p.level, p.m, p.x, p.y, p.act, {0}, {0}};
      wf_team_run(in->s->team, int_product_member, &q);
    } else {
      wf_team_run(in->s->team, product_member, &p);
    }
    in->s->counters.barriers++;
  }
  y.data = out->data;
  wf_frame_set(f, wf_node_output(n, 0), &y, out);
  out = NULL;
  *is_done = true;
out:
  wf_pool_unref(act);
  wf_pool_unref(out);
  return st;
}

/* ---- nodes
 * -------------------------------------------------------------------------------------------- */

typedef struct node_user {
  wf_interp *in;
  wf_pool_buffer *made[WF_OP_MAX_OUTPUTS];
} node_user;

static weft_status node_make(void *user, int32_t output, size_t n_bytes, void **data,
                             weft_error *err) {
  node_user *u = user;
  wf_pool_unref(u->made[output]);
  u->made[output] = NULL;
  WF_RETURN_IF_ERROR(wf_interp_take(u->in, n_bytes, &u->made[output], err));
  *data = u->made[output]->data;
  return WEFT_OK;
}

static weft_status node_scratch(void *user, size_t n_bytes, void **data, weft_error *err) {
  wf_interp *in = ((node_user *)user)->in;
  if (in->n_scratch == WF_INTERP_MAX_SCRATCH) {
    return wf_fail(err, WEFT_INTERNAL, "", "an operator asks for scratch too often");
  }
  WF_RETURN_IF_ERROR(wf_interp_take(in, n_bytes, &in->scratch[in->n_scratch], err));
  *data = in->scratch[in->n_scratch++]->data;
  return WEFT_OK;
}

static weft_status run_plain(wf_interp *in, wf_frame *f, const wf_node *n, weft_error *err) {
  enum { MAX_INPUTS = 512 };
  const wf_view *views[MAX_INPUTS];
  const wf_held *held[MAX_INPUTS];
  wf_view out[WF_OP_MAX_OUTPUTS];
  int32_t alias[WF_OP_MAX_OUTPUTS];
  if (n->n_inputs > MAX_INPUTS || n->n_outputs > WF_OP_MAX_OUTPUTS) {
    return wf_fail(err, WEFT_UNSUPPORTED, "", "node '%.*s' has %d inputs and %d outputs",
                   (int)n->name.n, n->name.at ? n->name.at : "", (int)n->n_inputs,
                   (int)n->n_outputs);
  }
  node_user user = {.in = in};
  const wf_op_env env = {.level = in->s->c->level,
                         .team = in->s->team,
                         .past = in->past,
                         .user = &user,
                         .make = node_make,
                         .scratch = node_scratch};
  for (int32_t i = 0; i < n->n_inputs; i++) {
    held[i] = n->inputs[i] < 0 ? NULL : wf_frame_value(f, n->inputs[i]);
    views[i] = held[i] ? &held[i]->view : NULL;
    if (n->inputs[i] >= 0 && !held[i]) {
      return wf_fail(err, WEFT_INTERNAL, "", "node '%.*s' reads a value that is not there",
                     (int)n->name.n, n->name.at ? n->name.at : "");
    }
  }
  for (int32_t i = 0; i < WF_OP_MAX_OUTPUTS; i++) {
    out[i] = (wf_view){0};
    alias[i] = -1;
  }
  wf_op_fn *fn = wf_op_function(n->op);
  wf_op_call call = {n, f->plan->graph, &env, n->n_inputs, n->n_outputs, views, out, alias};
  const weft_status st = fn ? fn(&call, err) : wf_fail(err, WEFT_UNSUPPORTED, "", "no operator");
  for (size_t i = 0; i < in->n_scratch; i++) wf_pool_unref(in->scratch[i]);
  in->n_scratch = 0;
  for (int32_t i = 0; i < n->n_outputs; i++) {
    if (st == WEFT_OK && alias[i] >= 0) {
      wf_pool_unref(user.made[i]);
      user.made[i] = held[alias[i]]->buffer;
      wf_pool_ref(user.made[i]);
    }
    if (st == WEFT_OK && n->outputs[i] >= 0) {
      if (!out[i].data) {
        return wf_fail(err, WEFT_INTERNAL, "", "node '%.*s' did not make output %d", (int)n->name.n,
                       n->name.at ? n->name.at : "", (int)i);
      }
      wf_frame_set(f, n->outputs[i], &out[i], user.made[i]);
    } else {
      wf_pool_unref(user.made[i]);
    }
  }
  return st;
}

static weft_status run_node(wf_interp *in, wf_frame *f, const wf_node *n, weft_error *err) {
  const wf_component *c = in->s->c;
  in->s->counters.kernel_calls++;
  if (n->n_subgraphs > 0) return wf_interp_control(in, f, n, err);
  if (f->plan->graph == c->graph && c->uses[n->id].moe) return wf_interp_moe(in, f, n, err);
  if (f->plan->graph == c->graph && c->uses[n->id].weight >= 0) {
    bool is_done = false;
    WF_RETURN_IF_ERROR(run_product(in, f, n, &c->weights[c->uses[n->id].weight], &is_done, err));
    return WEFT_OK;
  }
  return run_plain(in, f, n, err);
}

weft_status wf_frame_run(wf_interp *in, wf_frame *f, weft_error *err) {
  const wf_graph *g = f->plan->graph;
  const bool is_top = g == in->s->c->graph;
  if (++in->depth > WF_INTERP_MAX_DEPTH) {
    in->depth--;
    return wf_fail(err, WEFT_LIMIT, "", "graphs nested too deeply");
  }
  weft_status st = WEFT_OK;
  for (size_t i = 0; i < g->order.n; i++) {
    const wf_node *n = g->nodes.at[g->order.at[i]];
    const uint64_t begin_ns = in->s->profile ? wf_clock_ns() : 0;
    st = run_node(in, f, n, err);
    if (st != WEFT_OK) break;
    /* the nodes of a subgraph tell for themselves */
    if (in->s->profile && n->n_subgraphs == 0) wf_profile_node(in, f, n, begin_ns);
    for (int32_t j = 0; j < n->n_inputs; j++) {
      const bool is_weight = is_top && !wf_interp_reads(in->s->c, n, j);
      if (n->inputs[j] >= 0 && !is_weight) release(f, n->inputs[j]);
    }
    for (size_t j = 0; j < n->n_captures; j++) release(f, n->captures[j]);
  }
  in->depth--;
  return st;
}
