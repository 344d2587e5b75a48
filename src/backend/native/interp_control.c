/* SPDX-License-Identifier: Apache-2.0 */
/* If and Loop: subgraphs in frames of their own. */
#include <string.h>

#include "backend/native/interp.h"

enum { MAX_VALUES = 256, MAX_ITERATIONS = 1 << 22 };

static bool truth(const wf_view *v) {
  return v->dtype == WF_DTYPE_BOOL && wf_view_count(v) == 1 && *(const uint8_t *)v->data != 0;
}

static weft_status bad(const wf_node *n, const char *why, weft_error *err) {
  return wf_fail(err, WEFT_PACKAGE_INVALID, "", "operator %.*s (node '%.*s'): %s",
                 (int)n->op_type.n, n->op_type.at ? n->op_type.at : "", (int)n->name.n,
                 n->name.at ? n->name.at : "", why);
}

static const wf_graph *subgraph_of(const wf_node *n, const char *name) {
  size_t at = 0;
  for (size_t i = 0; i < n->n_attrs; i++) {
    if (n->attrs[i].kind != WF_ATTR_GRAPH) continue;
    if (wf_str_is(n->attrs[i].name, name)) return at < n->n_subgraphs ? n->subgraphs[at] : NULL;
    at++;
  }
  return NULL;
}

/* Output i of a finished frame, with a reference that is the caller's. */
static weft_status take_output(const wf_node *n, const wf_frame *f, size_t i, wf_view *v,
                               wf_pool_buffer **buffer, weft_error *err) {
  const wf_held *h = wf_frame_value(f, f->plan->graph->outputs.at[i]);
  if (!h) return bad(n, "a subgraph left an output empty", err);
  *v = h->view;
  *buffer = h->buffer;
  wf_pool_ref(h->buffer);
  return WEFT_OK;
}

static weft_status run_if(wf_interp *in, wf_frame *f, const wf_node *n, weft_error *err) {
  const wf_held *cond = wf_frame_value(f, wf_node_input(n, 0));
  if (!cond || wf_view_count(&cond->view) != 1)
    return bad(n, "the condition is no single value", err);
  const wf_graph *g = subgraph_of(n, truth(&cond->view) ? "then_branch" : "else_branch");
  if (!g || g->outputs.n != (size_t)n->n_outputs) return bad(n, "a branch does not fit", err);
  wf_frame child;
  weft_status st = WEFT_OK;
  WF_TRY(wf_frame_open(in, &child, g, f, err));
  WF_TRY(wf_frame_run(in, &child, err));
  for (int32_t i = 0; i < n->n_outputs; i++) {
    wf_view v;
    wf_pool_buffer *b = NULL;
    WF_TRY(take_output(n, &child, (size_t)i, &v, &b, err));
    wf_frame_set(f, n->outputs[i], &v, b);
  }
out:
  wf_frame_close(in, &child);
  return st;
}

/* ---- Loop
 * ------------------------------------------------------------------------------------------------
 */

/* A value that grows by one slice an iteration. */
typedef struct stack {
  wf_view slice; /* dtype UNDEFINED: nothing yet */
  wf_pool_buffer *buffer;
  size_t n_bytes;
  int64_t n;
} stack;

static weft_status push_slice(wf_interp *in, const wf_node *n, stack *s, const wf_view *v,
                              weft_error *err) {
  const size_t bytes = (size_t)wf_view_count(v) * wf_held_bytes(v->dtype);
  if (s->n == 0) s->slice = *v;
  bool same = s->slice.dtype == v->dtype && s->slice.rank == v->rank;
  for (int32_t i = 0; same && i < v->rank; i++) same = s->slice.dims[i] == v->dims[i];
  if (!same || v->rank + 1 > WF_VIEW_MAX_RANK) return bad(n, "scan outputs differ in shape", err);
  if (!s->buffer || s->n_bytes + bytes > s->buffer->capacity) {
    wf_pool_buffer *grown = NULL;
    WF_RETURN_IF_ERROR(wf_interp_take(in, (s->n_bytes + bytes) * 2, &grown, err));
    if (s->buffer) memcpy(grown->data, s->buffer->data, s->n_bytes);
    wf_pool_unref(s->buffer);
    s->buffer = grown;
  }
  if (bytes) memcpy((char *)s->buffer->data + s->n_bytes, v->data, bytes);
  s->n_bytes += bytes;
  s->n++;
  return WEFT_OK;
}

typedef struct loop {
  const wf_node *node;
  const wf_graph *body;
  size_t n_carried, n_scans;
  wf_view carried[MAX_VALUES];
  wf_pool_buffer *buffers[MAX_VALUES];
  stack scans[MAX_VALUES];
  int64_t trips;
  uint8_t cond;
} loop;

static weft_status loop_begin(wf_frame *f, const wf_node *n, loop *l, weft_error *err) {
  l->node = n;
  l->body = subgraph_of(n, "body");
  l->n_carried = n->n_inputs > 2 ? (size_t)n->n_inputs - 2 : 0;
  if (!l->body || l->body->inputs.n != l->n_carried + 2 || l->body->outputs.n < l->n_carried + 1 ||
      l->n_carried > MAX_VALUES) {
    return bad(n, "the body does not fit", err);
  }
  l->n_scans = l->body->outputs.n - 1 - l->n_carried;
  if (l->n_scans > MAX_VALUES || (size_t)n->n_outputs > l->n_carried + l->n_scans) {
    return bad(n, "the body does not fit", err);
  }
  const wf_held *m = wf_node_input(n, 0) >= 0 ? wf_frame_value(f, n->inputs[0]) : NULL;
  const wf_held *c = wf_node_input(n, 1) >= 0 ? wf_frame_value(f, n->inputs[1]) : NULL;
  l->trips = INT64_MAX;
  if (m) {
    if (m->view.dtype != WF_DTYPE_I64 || wf_view_count(&m->view) != 1)
      return bad(n, "a bad count", err);
    l->trips = *(const int64_t *)m->view.data;
  }
  l->cond = c ? truth(&c->view) : 1;
  for (size_t i = 0; i < l->n_carried; i++) {
    const wf_held *h = wf_frame_value(f, n->inputs[i + 2]);
    if (!h) return bad(n, "a carried value is missing", err);
    l->carried[i] = h->view;
    l->buffers[i] = h->buffer;
    wf_pool_ref(h->buffer);
  }
  return WEFT_OK;
}

static weft_status loop_once(wf_interp *in, wf_frame *f, loop *l, int64_t i, weft_error *err) {
  wf_frame child;
  weft_status st = WEFT_OK;
  int64_t iteration = i;
  const wf_view index = {.dtype = WF_DTYPE_I64, .data = &iteration};
  const wf_view cond = {.dtype = WF_DTYPE_BOOL, .data = &l->cond};
  WF_TRY(wf_frame_open(in, &child, l->body, f, err));
  wf_frame_bind(&child, 0, &index, NULL);
  wf_frame_bind(&child, 1, &cond, NULL);
  for (size_t j = 0; j < l->n_carried; j++)
    wf_frame_bind(&child, j + 2, &l->carried[j], l->buffers[j]);
  WF_TRY(wf_frame_run(in, &child, err));
  const wf_held *go_on = wf_frame_value(&child, l->body->outputs.at[0]);
  if (!go_on || wf_view_count(&go_on->view) != 1) {
    st = bad(l->node, "the body's condition is no single value", err);
    goto out;
  }
  const uint8_t next = truth(&go_on->view);
  for (size_t j = 0; j < l->n_scans; j++) {
    const wf_held *h = wf_frame_value(&child, l->body->outputs.at[1 + l->n_carried + j]);
    if (!h) {
      st = bad(l->node, "a scan output is missing", err);
      goto out;
    }
    WF_TRY(push_slice(in, l->node, &l->scans[j], &h->view, err));
  }
  /* The body may hand out the condition or counter itself, which live on this stack: copy those. */
  wf_view views[MAX_VALUES];
  wf_pool_buffer *buffers[MAX_VALUES] = {0};
  for (size_t j = 0; j < l->n_carried && st == WEFT_OK; j++) {
    st = take_output(l->node, &child, j + 1, &views[j], &buffers[j], err);
    if (st == WEFT_OK && (views[j].data == &iteration || views[j].data == &l->cond)) {
      const size_t n = wf_held_bytes(views[j].dtype);
      st = wf_interp_take(in, n, &buffers[j], err);
      if (st == WEFT_OK) {
        memcpy(buffers[j]->data, views[j].data, n);
        views[j].data = buffers[j]->data;
      }
    }
  }
  for (size_t j = 0; j < l->n_carried; j++) {
    if (st != WEFT_OK) {
      wf_pool_unref(buffers[j]);
      continue;
    }
    wf_pool_unref(l->buffers[j]);
    l->carried[j] = views[j];
    l->buffers[j] = buffers[j];
  }
  l->cond = next;
out:
  wf_frame_close(in, &child);
  return st;
}

static weft_status loop_end(wf_interp *in, wf_frame *f, loop *l, weft_error *err) {
  const wf_node *n = l->node;
  for (size_t i = 0; i < l->n_carried && i < (size_t)n->n_outputs; i++) {
    wf_frame_set(f, n->outputs[i], &l->carried[i], l->buffers[i]);
    l->buffers[i] = NULL;
  }
  for (size_t j = 0; j < l->n_scans && l->n_carried + j < (size_t)n->n_outputs; j++) {
    stack *s = &l->scans[j];
    wf_view v = {.rank = s->slice.rank + 1, .dtype = s->slice.dtype};
    if (s->n == 0) {
      /* No iteration: an empty tensor of the shape the graph knows. */
      const wf_value *known = wf_graph_value(l->body, l->body->outputs.at[1 + l->n_carried + j]);
      v.dtype = wf_dtype_held(known->dtype);
      v.rank = 1;
      for (int32_t i = 0; i < known->rank && v.rank < WF_VIEW_MAX_RANK; i++) {
        int64_t d = 0;
        (void)wf_expr_is_const(l->body->exprs, known->dims[i], &d);
        v.dims[v.rank++] = d;
      }
      if (wf_held_bytes(v.dtype) == 0) v.dtype = WF_DTYPE_F32;
      WF_RETURN_IF_ERROR(wf_interp_take(in, 1, &s->buffer, err));
    }
    v.dims[0] = s->n;
    for (int32_t i = 0; s->n > 0 && i < s->slice.rank; i++) v.dims[i + 1] = s->slice.dims[i];
    v.data = s->buffer->data;
    wf_frame_set(f, n->outputs[l->n_carried + j], &v, s->buffer);
    s->buffer = NULL;
  }
  return WEFT_OK;
}

static weft_status run_loop(wf_interp *in, wf_frame *f, const wf_node *n, weft_error *err) {
  wf_pool_buffer *memory = NULL;
  weft_status st = WEFT_OK;
  WF_RETURN_IF_ERROR(wf_interp_take(in, sizeof(loop), &memory, err));
  loop *l = memory->data;
  memset(l, 0, sizeof *l);
  WF_TRY(loop_begin(f, n, l, err));
  for (int64_t i = 0; i < l->trips && l->cond; i++) {
    /* All Loops of a run count together, or a few in each other would be without an end. */
    if (++in->n_iterations > MAX_ITERATIONS) {
      st = wf_fail(err, WEFT_LIMIT, "export the model with fewer iterations",
                   "node '%.*s': the Loops of a run made %d iterations without an end",
                   (int)n->name.n, n->name.at ? n->name.at : "", (int)MAX_ITERATIONS);
      goto out;
    }
    WF_TRY(loop_once(in, f, l, i, err));
  }
  WF_TRY(loop_end(in, f, l, err));
out:
  for (size_t i = 0; i < l->n_carried && i < MAX_VALUES; i++) wf_pool_unref(l->buffers[i]);
  for (size_t i = 0; i < l->n_scans && i < MAX_VALUES; i++) wf_pool_unref(l->scans[i].buffer);
  wf_pool_unref(memory);
  return st;
}

weft_status wf_interp_control(wf_interp *in, wf_frame *f, const wf_node *n, weft_error *err) {
  if (n->op == WF_OP_IF) return run_if(in, f, n, err);
  if (n->op == WF_OP_LOOP) return run_loop(in, f, n, err);
  return wf_fail(err, WEFT_UNSUPPORTED, "", "operator %.*s with a subgraph", (int)n->op_type.n,
                 n->op_type.at ? n->op_type.at : "");
}
