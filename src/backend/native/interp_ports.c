/* SPDX-License-Identifier: Apache-2.0 */
/* A row through the interpreter: ports filled from views or from the cache, results handed back. */
#include <string.h>

#include "backend/native/interp.h"
#include "backend/request.h"

weft_status wf_interp_open(wf_backend_session *s, weft_error *err) {
  wf_interp *in = wf_zalloc(sizeof *in);
  if (!in) return wf_fail_memory(err, sizeof *in, "a session");
  s->interp = in;
  in->s = s;
  in->outputs = wf_calloc(s->c->info.n_outputs + 1, sizeof(wf_pool_buffer *));
  return in->outputs ? WEFT_OK : wf_fail_memory(err, s->c->info.n_outputs * 8, "a session");
}

void wf_interp_close(wf_backend_session *s) {
  if (!s->interp) return;
  wf_pool_deinit(&s->interp->pool);
  wf_free(s->interp->outputs);
  wf_free(s->interp);
  s->interp = NULL;
}

/* ---- inputs
 * ------------------------------------------------------------------------------------------ */

static weft_status make_ints(wf_interp *in, const wf_port *p, int64_t n, int64_t first,
                             bool is_range, const int32_t *ids, wf_view *v, wf_pool_buffer **b,
                             weft_error *err) {
  *v = (wf_view){.dtype = wf_dtype_held(p->dtype), .rank = 2, .dims = {1, n}};
  const size_t elem = wf_held_bytes(v->dtype);
  WF_RETURN_IF_ERROR(wf_interp_take(in, (size_t)n * elem, b, err));
  v->data = (*b)->data;
  for (int64_t i = 0; i < n; i++) {
    const int64_t x = ids ? ids[i] : is_range ? first + i : 1;
    switch ((int)v->dtype) {
      case WF_DTYPE_I64:
        ((int64_t *)v->data)[i] = x;
        break;
      case WF_DTYPE_I32:
        ((int32_t *)v->data)[i] = (int32_t)x;
        break;
      case WF_DTYPE_BOOL:
        ((uint8_t *)v->data)[i] = x != 0;
        break;
      case WF_DTYPE_F32:
        ((float *)v->data)[i] = (float)x;
        break;
      default:
        return wf_fail(err, WEFT_UNSUPPORTED, "", "input '%s' has elements of type %s", p->name,
                       wf_dtype_name(p->dtype));
    }
  }
  return WEFT_OK;
}

static wf_attention_row cache_row(const wf_row *r, int32_t group) {
  const wf_kv_table *t = &r->tables[group];
  return (wf_attention_row){t->blocks, t->first_block, r->past, 0, r->n_new};
}

/* Past of a layer as [1, heads, past, dim]: the cache has tokens first, so it is turned on the way.
 */
static weft_status make_past(wf_interp *in, const wf_row *r, size_t state, wf_view *v,
                             wf_pool_buffer **b, weft_error *err) {
  const wf_state_layer *l = &in->s->c->info.layers[state / 2];
  const bool is_key = state % 2 == 0;
  const int64_t heads = l->kv.kv_heads, dim = is_key ? l->kv.head_dim : l->kv.head_dim_v,
                n = r->past;
  const wf_attention_row row = cache_row(r, l->group);
  *v = (wf_view){.dtype = WF_DTYPE_F32, .rank = 4, .dims = {1, heads, n, dim}};
  const size_t n_bytes = (size_t)(heads * n * dim) * sizeof(float);
  WF_RETURN_IF_ERROR(wf_interp_take(in, n_bytes, b, err));
  v->data = (*b)->data;
  in->s->counters.copies_bytes += n_bytes;
  wf_pool_buffer *tmp = NULL;
  const int64_t tile = WF_KV_BLOCK_TOKENS;
  const int64_t wide = l->kv.head_dim > l->kv.head_dim_v ? l->kv.head_dim : l->kv.head_dim_v;
  WF_RETURN_IF_ERROR(
      wf_interp_take(in, (size_t)(2 * tile * heads * wide) * sizeof(float), &tmp, err));
  float *k = tmp->data, *value = k + tile * heads * wide;
  for (int64_t t = 0; t < n; t += tile) {
    const int64_t end = t + tile < n ? t + tile : n;
    wf_kv_read(&l->kv, &row, t, end, k, value);
    const float *from = is_key ? k : value;
    for (int64_t i = t; i < end; i++) {
      for (int64_t h = 0; h < heads; h++) {
        memcpy((float *)v->data + (h * n + i) * dim, from + ((i - t) * heads + h) * dim,
               (size_t)dim * sizeof(float));
      }
    }
  }
  wf_pool_unref(tmp);
  return WEFT_OK;
}

static weft_status make_plain(wf_interp *in, const wf_port *p, const wf_view *given, wf_view *v,
                              wf_pool_buffer **b, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_request_check_view(p, given, err));
  const size_t n = (size_t)wf_view_count(given);
  size_t n_bytes = 0;
  *v = *given;
  v->dtype = wf_dtype_held(p->dtype);
  if (v->dtype == given->dtype) return WEFT_OK;
  if (!wf_size_mul(n, wf_held_bytes(v->dtype), &n_bytes) || n_bytes / (n ? n : 1) == 0) {
    if (n)
      return wf_fail(err, WEFT_UNSUPPORTED, "", "input '%s' is %s", p->name,
                     wf_dtype_name(p->dtype));
  }
  WF_RETURN_IF_ERROR(wf_interp_take(in, n_bytes, b, err));
  v->data = (*b)->data;
  return wf_hold(in->s->c->level, p->dtype, given->data, n, v->data, err);
}

static size_t state_of(const int32_t *ports, size_t n_layers, size_t port) {
  for (size_t i = 0; ports && i < 2 * n_layers; i++) {
    if (ports[i] == (int32_t)port) return i;
  }
  return SIZE_MAX;
}

/* The row's own memory: read while the graph runs, written after all of it has. */
static weft_status view_carried(const wf_component *c, const wf_row *r, size_t port, wf_view *v,
                                weft_error *err) {
  const wf_port *p = &c->info.inputs[port];
  size_t i = 0;
  while (i < c->map.n_carried && c->map.carried_inputs[i] != (int32_t)port) i++;
  if (i == c->map.n_carried || !r->carried) {
    return wf_fail(err, WEFT_INTERNAL, "", "the state '%s' has no memory", p->name);
  }
  *v = (wf_view){.dtype = wf_dtype_held(p->dtype), .rank = p->rank};
  for (int32_t d = 0; d < p->rank; d++) v->dims[d] = d == 0 ? 1 : p->dims[d];
  v->data = (unsigned char *)r->carried + c->carried_at[i];
  return WEFT_OK;
}

static weft_status keep_carried(const wf_frame *f, const wf_component *c, const wf_row *r,
                                weft_error *err) {
  for (size_t i = 0; i < c->map.n_carried; i++) {
    const char *name = c->info.outputs[c->map.carried_outputs[i]].name;
    const int32_t id = wf_graph_find(c->graph, wf_str_of(name));
    const wf_held *h = id >= 0 ? wf_frame_value(f, id) : NULL;
    wf_view past;
    WF_RETURN_IF_ERROR(view_carried(c, r, (size_t)c->map.carried_inputs[i], &past, err));
    if (!h || h->view.dtype != past.dtype || wf_view_count(&h->view) != wf_view_count(&past)) {
      return wf_fail(err, WEFT_BACKEND, "", "the state '%s' came out in another shape", name);
    }
    memmove(past.data, h->view.data, (size_t)wf_view_count(&past) * wf_held_bytes(past.dtype));
  }
  return WEFT_OK;
}

static weft_status bind_input(wf_interp *in, wf_frame *f, size_t graph_input, const wf_row *r,
                              weft_error *err) {
  const wf_component *c = in->s->c;
  const wf_value *value = wf_graph_value(c->graph, c->graph->inputs.at[graph_input]);
  size_t port = 0;
  while (port < c->info.n_inputs && !wf_str_is(value->name, c->info.inputs[port].name)) port++;
  if (port == c->info.n_inputs) {
    return wf_fail(err, WEFT_INTERNAL, "", "the graph has an input that is no port");
  }
  const wf_port *p = &c->info.inputs[port];
  wf_view v = {0};
  wf_pool_buffer *b = NULL;
  weft_status st = WEFT_OK;
  switch (p->role) {
    case WF_PORT_INPUT_IDS:
      WF_TRY(make_ints(in, p, r->n_new, 0, false, r->ids, &v, &b, err));
      break;
    case WF_PORT_MASK:
      WF_TRY(make_ints(in, p, r->past + r->n_new, 0, false, NULL, &v, &b, err));
      break;
    case WF_PORT_POSITIONS:
      WF_TRY(make_ints(in, p, r->n_new, r->past, true, NULL, &v, &b, err));
      break;
    case WF_PORT_STATE: {
      const size_t state = state_of(c->map.past_inputs, c->info.n_layers, port);
      if (state == SIZE_MAX) {
        st = wf_fail(err, WEFT_INTERNAL, "", "state input '%s' has no layer", p->name);
        goto out;
      }
      WF_TRY(make_past(in, r, state, &v, &b, err));
      break;
    }
    case WF_PORT_CARRIED:
      WF_TRY(view_carried(c, r, port, &v, err));
      break;
    case WF_PORT_TENSOR:
    case WF_PORT_EMBEDS:
    case WF_PORT_LOGITS:
      WF_TRY(make_plain(in, p, r->inputs ? &r->inputs[port] : NULL, &v, &b, err));
      break;
  }
  wf_frame_bind(f, graph_input, &v, b);
out:
  wf_pool_unref(b);
  return st;
}

/* ---- outputs
 * ------------------------------------------------------------------------------------------- */

/* New tokens of a layer's present, key and value together, into the cache. */
static weft_status append_state(wf_interp *in, const wf_frame *f, const wf_row *r, size_t layer,
                                weft_error *err) {
  const wf_component *c = in->s->c;
  const wf_state_layer *l = &c->info.layers[layer];
  const wf_view *view[2];
  wf_pool_buffer *tmp[2] = {NULL, NULL};
  weft_status st = WEFT_OK;
  for (size_t j = 0; j < 2; j++) {
    const int32_t port = c->map.present_outputs[2 * layer + j];
    const int32_t id =
        port >= 0 ? wf_graph_find(c->graph, wf_str_of(c->info.outputs[port].name)) : -1;
    const wf_held *h = id >= 0 ? wf_frame_value(f, id) : NULL;
    const int64_t dim = j == 0 ? l->kv.head_dim : l->kv.head_dim_v;
    if (!h || h->view.rank != 4 || h->view.dtype != WF_DTYPE_F32 || h->view.dims[0] != 1 ||
        h->view.dims[1] != l->kv.kv_heads || h->view.dims[3] != dim || h->view.dims[2] < r->n_new) {
      st = wf_fail(err, WEFT_BACKEND, "", "layer %zu left no state of the expected shape", layer);
      goto out;
    }
    view[j] = &h->view;
  }
  for (int j = 0; j < 2; j++) {
    const int64_t heads = l->kv.kv_heads, dim = view[j]->dims[3], total = view[j]->dims[2];
    WF_TRY(wf_interp_take(in, (size_t)(r->n_new * heads * dim) * sizeof(float), &tmp[j], err));
    for (int64_t i = 0; i < r->n_new; i++) {
      for (int64_t h = 0; h < heads; h++) {
        memcpy((float *)tmp[j]->data + (i * heads + h) * dim,
               (const float *)view[j]->data + (h * total + total - r->n_new + i) * dim,
               (size_t)dim * sizeof(float));
      }
    }
  }
  const wf_attention_row row = cache_row(r, l->group);
  wf_kv_append(c->level, &l->kv, &row, NULL, tmp[0]->data, (int64_t)l->kv.kv_heads * l->kv.head_dim,
               tmp[1]->data, (int64_t)l->kv.kv_heads * l->kv.head_dim_v, 0, r->n_new);
out:
  wf_pool_unref(tmp[0]);
  wf_pool_unref(tmp[1]);
  return st;
}

static weft_status copy_logits(wf_interp *in, const wf_view *v, const wf_row *r, weft_error *err) {
  const int64_t vocab = in->s->c->info.vocab;
  const int64_t rows = vocab > 0 ? wf_view_count(v) / vocab : 0;
  if (v->dtype != WF_DTYPE_F32 || v->rank < 1 || v->dims[v->rank - 1] != vocab ||
      (rows != r->n_new && rows != 1)) {
    return wf_fail(err, WEFT_BACKEND, "", "the logits have an unexpected shape");
  }
  for (int64_t i = 0; i < r->n_selected; i++) {
    const int64_t at = rows == 1 ? 0 : r->selected[i];
    memcpy(r->logits + i * vocab, (const float *)v->data + at * vocab,
           (size_t)vocab * sizeof(float));
  }
  return WEFT_OK;
}

/* An output in the type its port declares; the buffer lives until the next run. */
static weft_status give_output(wf_interp *in, size_t port, const wf_held *h, wf_view *out,
                               weft_error *err) {
  const wf_port *p = &in->s->c->info.outputs[port];
  const wf_dtype stored = p->dtype != WF_DTYPE_UNDEFINED && wf_dtype_held(p->dtype) == h->view.dtype
                              ? p->dtype
                              : h->view.dtype;
  const size_t n = (size_t)wf_view_count(&h->view);
  size_t n_bytes = 0;
  if (!wf_dtype_bytes(stored, n, &n_bytes))
    return wf_fail(err, WEFT_LIMIT, "", "an output overflows");
  WF_RETURN_IF_ERROR(wf_interp_take(in, n_bytes, &in->outputs[port], err));
  *out = h->view;
  out->dtype = stored;
  out->data = in->outputs[port]->data;
  return wf_unhold(in->s->c->level, stored, h->view.data, n, out->data, err);
}

static weft_status hand_out(wf_interp *in, const wf_frame *f, const wf_row *r, weft_error *err) {
  const wf_component *c = in->s->c;
  for (size_t i = 0; i < c->info.n_outputs; i++) {
    const wf_port *p = &c->info.outputs[i];
    if (p->role == WF_PORT_STATE || p->role == WF_PORT_CARRIED) continue;
    const int32_t id = wf_graph_find(c->graph, wf_str_of(p->name));
    const wf_held *h = id >= 0 ? wf_frame_value(f, id) : NULL;
    if (!h) return wf_fail(err, WEFT_INTERNAL, "", "output '%s' was not made", p->name);
    if (p->role == WF_PORT_LOGITS && r->n_selected > 0)
      WF_RETURN_IF_ERROR(copy_logits(in, &h->view, r, err));
    if (r->outputs) WF_RETURN_IF_ERROR(give_output(in, i, h, &r->outputs[i], err));
  }
  for (size_t i = 0; i < c->info.n_layers; i++) WF_RETURN_IF_ERROR(append_state(in, f, r, i, err));
  return keep_carried(f, c, r, err);
}

/* ---- a row
 * ------------------------------------------------------------------------------------------------
 */

static weft_status run_once(wf_interp *in, const wf_row *r, weft_error *err) {
  in->past = r->past;
  const wf_component *c = in->s->c;
  wf_frame f = {0};
  weft_status st = WEFT_OK;
  for (size_t i = 0; i < c->info.n_outputs; i++) {
    wf_pool_unref(in->outputs[i]);
    in->outputs[i] = NULL;
  }
  WF_TRY(wf_frame_open(in, &f, c->graph, NULL, err));
  for (size_t i = 0; i < c->graph->inputs.n; i++) WF_TRY(bind_input(in, &f, i, r, err));
  WF_TRY(wf_frame_run(in, &f, err));
  WF_TRY(hand_out(in, &f, r, err));
out:
  wf_frame_close(in, &f);
  in->s->counters.allocations = in->pool.n_allocations;
  return st;
}

/* A graph that gives the last token's logits alone is run up to each token that is asked for. */
static bool prunes_head(const wf_component *c) {
  for (size_t i = 0; i < c->info.n_outputs; i++) {
    const wf_port *p = &c->info.outputs[i];
    if (p->role == WF_PORT_LOGITS) return p->rank == 3 && p->dims[1] == 1;
  }
  return false;
}

weft_status wf_interp_run(wf_backend_session *s, const wf_row *row, weft_error *err) {
  s->interp->n_iterations = 0;
  if (s->c->has_ports && !wf_component_has_past(&s->c->info) && row->past > 0) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "run the whole sequence at once",
                   "the graph keeps no state, but the row has %lld earlier tokens",
                   (long long)row->past);
  }
  if (!s->c->has_ports || !prunes_head(s->c) || !wf_component_has_past(&s->c->info)) {
    return run_once(s->interp, row, err);
  }
  int64_t done = 0;
  for (int64_t i = 0; i <= row->n_selected && done < row->n_new; i++) {
    const int64_t end = i < row->n_selected ? row->selected[i] + 1 : row->n_new;
    if (end == done) continue;
    wf_row part = *row;
    const int32_t last = (int32_t)(end - done) - 1;
    part.ids = row->ids ? row->ids + done : NULL;
    part.n_new = end - done;
    part.past = row->past + done;
    part.selected = &last;
    part.n_selected = i < row->n_selected;
    part.logits = row->logits + i * s->c->info.vocab;
    WF_RETURN_IF_ERROR(run_once(s->interp, &part, err));
    done = end;
  }
  return WEFT_OK;
}
