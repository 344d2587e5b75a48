/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's session: one binding on the library's session, kept for life; a run is rows one at a
 * time through it. */
#include <string.h>

#include "backend/ort/ort.h"
#include "backend/request.h"
#include "base/process.h"
#include "kernels/elementwise.h"

static void drop_outputs(wf_backend_session *s) {
  for (size_t i = 0; s->outputs && i < s->c->info.n_outputs; i++) {
    ort_object_unref(s->outputs[i]);
    s->outputs[i] = NULL;
  }
}

static void free_session(ort_returned *r) {
  wf_backend_session *s = (wf_backend_session *)(void *)r;
  drop_outputs(s);
  wf_free(s->outputs);
  wf_buf_deinit(&s->ints);
  if (s->run_options) s->c->lib->api.release_run_options(s->run_options);
  ort_object_unref(s->allocator);
  ort_object_unref(s->binding);
  ort_object *session = s->session;
  wf_free(s);
  ort_object_unref(session);
}

void ort_close(wf_backend_session *s) { ort_give_back(s->c, &s->returned); }

void ort_counters(const wf_backend_session *s, wf_run_counters *result) {
  size_t held, used;
  *result = s->counters;
  ort_env_memory(s->c->lib, &held, &used);
  result->memory_held_bytes = held;
  result->memory_used_bytes = used;
}

void ort_rest(wf_backend_session *s) {
  if (s->returned.owner != wf_owner_token()) return;
  size_t held, used;
  drop_outputs(s);
  ort_env_shrink(s->c->lib);
  ort_env_memory(s->c->lib, &held, &used);
  if (held) {
    wf_log(3, "ONNX Runtime holds %zu KiB in its arena, %zu in use", held >> 10, used >> 10);
  }
}

weft_status ort_open(wf_backend_session **result, const wf_component *component, wf_team *team,
                     int64_t max_tokens, weft_error *err) {
  wf_component *c = wf_unconst(component); /* its queue and counts are the only mutable parts */
  ort_library *lib = c->lib;
  weft_status st = WEFT_OK;
  ort_binding *binding = NULL;
  ort_allocator *allocator = NULL;
  (void)team; /* its size was said when the component was compiled */
  (void)max_tokens;
  ort_take_back(c);
  wf_backend_session *s = wf_zalloc(sizeof *s);
  if (!s) return wf_fail_memory(err, sizeof *s, "a session");
  s->returned = (ort_returned){.owner = wf_owner_token(), .free_now = free_session};
  s->c = c;
  s->prunes_head = c->prunes_head;
  if (c->session) {
    s->session = ort_object_ref(c->session);
  } else {
    WF_TRY(ort_session_make(c, &s->session, err));
  }
  s->outputs = wf_calloc(c->info.n_outputs + 1, sizeof *s->outputs);
  if (!s->outputs) WF_TRY(wf_fail_memory(err, c->info.n_outputs * sizeof *s->outputs, "outputs"));
  ORT_TRY(lib, err, create_binding(s->session->handle, &binding), "makes no binding");
  s->binding = ort_object_create(lib, ORT_KIND_BINDING, binding, s->session);
  if (!s->binding) WF_TRY(wf_fail_memory(err, sizeof *s->binding, "a session"));
  ORT_TRY(lib, err, create_allocator(s->session->handle, c->memory, &allocator),
          "makes no allocator");
  s->allocator = ort_object_create(lib, ORT_KIND_ALLOCATOR, allocator, s->session);
  if (!s->allocator) WF_TRY(wf_fail_memory(err, sizeof *s->allocator, "a session"));
  ORT_TRY(lib, err, create_run_options(&s->run_options), "makes no run options");
  *result = s;
  s = NULL;
out:
  if (s && s->session) {
    free_session(&s->returned);
  } else {
    wf_free(s);
  }
  return st;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

static weft_status bind_tensor(wf_backend_session *s, const char *name, wf_dtype dtype,
                               const int64_t *dims, int32_t rank, void *data, weft_error *err) {
  ort_library *lib = s->c->lib;
  weft_status st = WEFT_OK;
  ort_value *v = NULL;
  size_t n = 0, n_bytes = 0;
  static unsigned char const nothing[8];
  if (!wf_dims_count(dims, (size_t)rank, &n) || !wf_dtype_bytes(dtype, n, &n_bytes)) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "see `weft inspect` for the shapes",
                   "input '%s' has a shape that the graph does not take", name);
  }
  if (!data) data = wf_unconst(nothing); /* no elements: never read */
  ORT_TRY(lib, err,
          create_tensor_over(s->c->memory, data, n_bytes, dims, (size_t)rank, (int)dtype, &v),
          "takes no input '%s'", name);
  ORT_TRY(lib, err, bind_input(s->binding->handle, name, v), "takes no input '%s'", name);
out:
  if (v) lib->api.release_value(v); /* the binding keeps a hold of its own */
  return st;
}

static bool store_int(wf_dtype dtype, void *data, int64_t i, int64_t x) {
  switch ((int)dtype) {
    case WF_DTYPE_I64:
      ((int64_t *)data)[i] = x;
      return true;
    case WF_DTYPE_I32:
      ((int32_t *)data)[i] = (int32_t)x;
      return true;
    case WF_DTYPE_BOOL:
    case WF_DTYPE_U8:
    case WF_DTYPE_I8:
      ((uint8_t *)data)[i] = (uint8_t)x;
      return true;
    case WF_DTYPE_F32:
      ((float *)data)[i] = (float)x;
      return true;
    case WF_DTYPE_F64:
      ((double *)data)[i] = (double)x;
      return true;
    case WF_DTYPE_F16:
      ((uint16_t *)data)[i] = wf_f16_bits((float)x);
      return true;
    default:
      return false;
  }
}

/* Bytes of a run's ids, mask and positions, taken at once so that none of them moves. */
static weft_status take_ints(wf_backend_session *s, size_t at, size_t n, void **data,
                             weft_error *err) {
  const size_t end = at + n;
  if (end > s->ints.capacity) {
    return wf_fail(err, WEFT_INTERNAL, "", "a run's integers overflow their room");
  }
  *data = s->ints.at + at;
  return WEFT_OK;
}

/* [1, n]: ids, first + i, or ones. */
static weft_status bind_ints(wf_backend_session *s, const wf_port *p, const int32_t *ids,
                             bool is_range, int64_t first, int64_t n, size_t *at, weft_error *err) {
  void *data = NULL;
  const int64_t dims[2] = {1, n};
  WF_RETURN_IF_ERROR(take_ints(s, *at, (size_t)n * 8, &data, err));
  *at += (size_t)n * 8;
  for (int64_t i = 0; i < n; i++) {
    if (!store_int(p->dtype, data, i, ids ? ids[i] : is_range ? first + i : 1)) {
      return wf_fail(err, WEFT_UNSUPPORTED, "", "input '%s' has elements of type %s", p->name,
                     wf_dtype_name(p->dtype));
    }
  }
  return bind_tensor(s, p->name, p->dtype, dims, 2, data, err);
}

static weft_status bind_view(wf_backend_session *s, const wf_port *p, const wf_view *v,
                             weft_error *err) {
  WF_RETURN_IF_ERROR(wf_request_check_view(p, v, err));
  return bind_tensor(s, p->name, p->dtype, v->dims, v->rank, v->data, err);
}

/* One number that is no port's: [] or [1] as the graph has it. */
static weft_status bind_number(wf_backend_session *s, const ort_fixed_input *f, int64_t number,
                               size_t *at, weft_error *err) {
  static const int64_t one = 1;
  void *data = NULL;
  WF_RETURN_IF_ERROR(take_ints(s, *at, 8, &data, err));
  *at += 8;
  if (!store_int(f->dtype, data, 0, number)) {
    return wf_fail(err, WEFT_UNSUPPORTED, "", "input '%s' has elements of type %s", f->name,
                   wf_dtype_name(f->dtype));
  }
  return bind_tensor(s, f->name, f->dtype, &one, f->rank > 0 ? 1 : 0, data, err);
}

static weft_status bind_inputs(wf_backend_session *s, const wf_row *r, weft_error *err) {
  const wf_component *c = s->c;
  const int64_t total = r->past + r->n_new;
  size_t at = 0;
  wf_buf_clear(&s->ints);
  if (!wf_buf_reserve(&s->ints, (size_t)(total + 2 * r->n_new) * 8 + c->n_fixed * 8 + 16)) {
    return wf_fail_memory(err, (size_t)total * 8, "a run");
  }
  for (size_t i = 0; i < c->n_fixed; i++)
    WF_RETURN_IF_ERROR(bind_number(s, &c->fixed[i], c->fixed[i].number, &at, err));
  if (c->branch.name) WF_RETURN_IF_ERROR(bind_number(s, &c->branch, r->past > 0, &at, err));
  for (size_t i = 0; i < c->info.n_inputs; i++) {
    const wf_port *p = &c->info.inputs[i];
    switch (p->role) {
      case WF_PORT_INPUT_IDS:
        WF_RETURN_IF_ERROR(bind_ints(s, p, r->ids, false, 0, r->n_new, &at, err));
        break;
      case WF_PORT_MASK:
        WF_RETURN_IF_ERROR(bind_ints(s, p, NULL, false, 0, total, &at, err));
        break;
      case WF_PORT_POSITIONS:
        WF_RETURN_IF_ERROR(bind_ints(s, p, NULL, true, r->past, r->n_new, &at, err));
        break;
      case WF_PORT_STATE:
      case WF_PORT_CARRIED:
        break; /* ort_state_bind */
      case WF_PORT_TENSOR:
      case WF_PORT_EMBEDS:
      case WF_PORT_LOGITS:
        WF_RETURN_IF_ERROR(bind_view(s, p, r->inputs ? &r->inputs[i] : NULL, err));
        break;
    }
  }
  return WEFT_OK;
}

/* ---- outputs --------------------------------------------------------------------------------- */

/* Ports that ort_state_bind has to do with. */
static bool is_kept(const wf_port *p) {
  return p->role == WF_PORT_STATE || p->role == WF_PORT_CARRIED;
}

/* Everything but the states is made anew by the library in its arena. */
static weft_status bind_outputs(wf_backend_session *s, weft_error *err) {
  const wf_component *c = s->c;
  weft_status st = WEFT_OK;
  for (size_t i = 0; i < c->info.n_outputs; i++) {
    const wf_port *p = &c->info.outputs[i];
    if (is_kept(p)) continue;
    ORT_TRY(c->lib, err, bind_output_anew(s->binding->handle, p->name, c->memory),
            "gives no output '%s'", p->name);
  }
out:
  return st;
}

/* The binding keeps outputs in the order in which they were first bound: states come first. */
static size_t place_of_output(const wf_component *c, size_t output) {
  size_t at = ort_n_buffers(c);
  for (size_t i = 0; i < output; i++) at += !is_kept(&c->info.outputs[i]);
  return at;
}

static weft_status take_outputs(wf_backend_session *s, weft_error *err) {
  const wf_component *c = s->c;
  ort_library *lib = c->lib;
  weft_status st = WEFT_OK;
  ort_value **values = NULL;
  ort_allocator *general = NULL;
  size_t n = 0;
  ORT_TRY(lib, err, default_allocator(&general), "has no allocator");
  ORT_TRY(lib, err, bound_outputs(s->binding->handle, general, &values, &n), "gives no outputs");
  for (size_t i = 0; i < c->info.n_outputs; i++) {
    const wf_port *p = &c->info.outputs[i];
    if (is_kept(p)) continue;
    const size_t at = place_of_output(c, i);
    if (at >= n || !values[at]) {
      st = wf_fail(err, WEFT_BACKEND, NULL, "ONNX Runtime left output '%s' out", p->name);
      goto out;
    }
    s->outputs[i] = ort_object_create(lib, ORT_KIND_VALUE, values[at], s->allocator);
    values[at] = NULL;
    if (!s->outputs[i]) WF_TRY(wf_fail_memory(err, sizeof *s->outputs[i], "an output"));
  }
out:
  for (size_t i = 0; i < n; i++) {
    if (values[i]) lib->api.release_value(values[i]);
  }
  if (values) {
    const weft_status freed =
        ort_check(lib, lib->api.allocator_free(general, values), NULL, "frees nothing");
    if (st == WEFT_OK) st = freed;
  }
  return st;
}

static weft_status view_output(wf_backend_session *s, size_t i, wf_view *view, weft_error *err) {
  const wf_component *c = s->c;
  ort_library *lib = c->lib;
  weft_status st = WEFT_OK;
  ort_shape_info *shape = NULL;
  int is_tensor = 0, type = 0;
  size_t rank = 0;
  const char *name = c->info.outputs[i].name;
  ort_value *v = s->outputs[i]->handle;
  *view = (wf_view){0};
  ORT_TRY(lib, err, is_tensor(v, &is_tensor), "output '%s'", name);
  if (!is_tensor) {
    st = wf_fail(err, WEFT_UNSUPPORTED, NULL, "output '%s' is no tensor", name);
    goto out;
  }
  ORT_TRY(lib, err, tensor_shape(v, &shape), "output '%s'", name);
  ORT_TRY(lib, err, shape_type(shape, &type), "output '%s'", name);
  ORT_TRY(lib, err, shape_rank(shape, &rank), "output '%s'", name);
  if (rank > WF_VIEW_MAX_RANK || type == WF_DTYPE_STRING) {
    st = wf_fail(err, WEFT_UNSUPPORTED, NULL, "output '%s' is a tensor of %zu axes of %s", name,
                 rank, wf_dtype_name((wf_dtype)type));
    goto out;
  }
  view->dtype = (wf_dtype)type;
  view->rank = (int32_t)rank;
  ORT_TRY(lib, err, shape_dims(shape, view->dims, rank), "output '%s'", name);
  ORT_TRY(lib, err, tensor_data(v, &view->data), "output '%s'", name);
out:
  if (shape) lib->api.release_shape_info(shape);
  return st;
}

static weft_status copy_logits(wf_backend_session *s, const wf_view *v, const wf_row *r,
                               weft_error *err) {
  const wf_component *c = s->c;
  const int64_t vocab = c->info.vocab;
  size_t n = 0;
  const bool fits = wf_dims_count(v->dims, (size_t)v->rank, &n) && vocab > 0 && v->rank > 0 &&
                    v->dims[v->rank - 1] == vocab;
  const int64_t rows = fits ? (int64_t)n / vocab : 0;
  if (rows != r->n_new && rows != 1) {
    return wf_fail(err, WEFT_BACKEND, NULL, "the logits have an unexpected shape");
  }
  /* one row for many tokens is the last one's */
  s->prunes_head = s->prunes_head || (rows == 1 && r->n_new > 1);
  for (int64_t i = 0; i < r->n_selected; i++) {
    const int64_t at = (rows == 1 ? 0 : r->selected[i]) * vocab;
    float *to = r->logits + i * vocab;
    if (v->dtype == WF_DTYPE_F32) {
      memcpy(to, (const float *)v->data + at, (size_t)vocab * sizeof *to);
    } else if (v->dtype == WF_DTYPE_F16) {
      wf_f16_to_f32(c->level, vocab, (const uint16_t *)v->data + at, to);
    } else if (v->dtype == WF_DTYPE_BF16) {
      wf_bf16_to_f32(c->level, vocab, (const uint16_t *)v->data + at, to);
    } else {
      return wf_fail(err, WEFT_UNSUPPORTED, NULL, "the logits are %s", wf_dtype_name(v->dtype));
    }
  }
  return WEFT_OK;
}

/* ---- a row ----------------------------------------------------------------------------------- */

static weft_status run_once(wf_backend_session *s, const wf_row *r, weft_error *err) {
  const wf_component *c = s->c;
  weft_status st = WEFT_OK;
  drop_outputs(s);
  if (c->info.keeps_state) {
    WF_TRY(ort_state_prepare(r->state, r->n_new, &s->counters.copies_bytes, err));
    WF_TRY(ort_state_bind(s, r->state, r->n_new, err));
  }
  WF_TRY(bind_inputs(s, r, err));
  WF_TRY(bind_outputs(s, err));
  WF_TRY(ort_run_watched(s, err));
  s->counters.kernel_calls++;
  s->counters.weight_bytes += c->info.weight_bytes;
  WF_TRY(take_outputs(s, err));
  for (size_t i = 0; i < c->info.n_outputs; i++) {
    const wf_port *p = &c->info.outputs[i];
    const bool is_logits = p->role == WF_PORT_LOGITS && r->n_selected > 0;
    wf_view view;
    if (is_kept(p) || (!is_logits && !r->outputs)) continue;
    WF_TRY(view_output(s, i, &view, err));
    if (is_logits) WF_TRY(copy_logits(s, &view, r, err));
    if (r->outputs) r->outputs[i] = view;
  }
  if (c->info.keeps_state) ort_state_advance(r->state, r->n_new);
out:
  return st;
}

static weft_status check_row(const wf_component *c, const wf_row *r, size_t i, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_request_check_row(&c->info, r, i, err));
  if (!c->info.keeps_state && r->past > 0) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "run the whole sequence at once",
                   "the graph keeps no state, but the row has %lld earlier tokens",
                   (long long)r->past);
  }
  if (c->info.keeps_state && (!r->state || r->state->c != c || r->state->length != r->past)) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "",
                   "row %zu has %lld earlier tokens, but its state has %lld", i, (long long)r->past,
                   r->state ? (long long)r->state->length : -1);
  }
  return r->state ? ort_check_owner(&r->state->returned, "a state", err) : WEFT_OK;
}

/* A graph that gives the last token's logits alone is run up to each token that is asked for. */
static weft_status run_parts(wf_backend_session *s, const wf_row *row, weft_error *err) {
  const bool has_state = s->c->info.keeps_state;
  int64_t done = 0;
  for (int64_t i = 0; i <= row->n_selected && done < row->n_new; i++) {
    const int64_t end = i < row->n_selected ? row->selected[i] + 1 : has_state ? row->n_new : done;
    if (end == done) continue;
    wf_row part = *row;
    const int64_t begin = has_state ? done : 0; /* without a state each begins anew */
    const int32_t last = (int32_t)(end - begin) - 1;
    part.ids = row->ids ? row->ids + begin : NULL;
    part.n_new = end - begin;
    part.past = row->past + begin;
    part.selected = &last;
    part.n_selected = i < row->n_selected;
    part.logits = row->logits + i * s->c->info.vocab;
    WF_RETURN_IF_ERROR(run_once(s, &part, err));
    done = end;
  }
  return WEFT_OK;
}

/* The branch with a past of a merged decoder was traced for one token: unless it is proven to take
 * more (may_chunk), it gets them one by one. */
static weft_status run_singly(wf_backend_session *s, const wf_row *row, weft_error *err) {
  int64_t next = 0;
  for (int64_t i = 0; i < row->n_new; i++) {
    wf_row part = *row;
    static const int32_t itself = 0;
    const bool is_selected = next < row->n_selected && row->selected[next] == i;
    part.ids = row->ids ? row->ids + i : NULL;
    part.n_new = 1;
    part.past = row->past + i;
    part.selected = &itself;
    part.n_selected = is_selected;
    part.logits = is_selected ? row->logits + next * s->c->info.vocab : NULL;
    WF_RETURN_IF_ERROR(run_once(s, &part, err));
    next += is_selected;
  }
  return WEFT_OK;
}

static bool wants_last_alone(const wf_row *r) {
  return r->n_selected == 0 || (r->n_selected == 1 && r->selected[0] == r->n_new - 1);
}

static weft_status run_row(wf_backend_session *s, const wf_row *r, weft_error *err) {
  const bool knew = s->prunes_head;
  const bool singly = s->c->branch.name && r->past > 0 && r->n_new > 1 && !s->c->info.may_chunk;
  const bool in_parts = singly || (knew && !wants_last_alone(r));
  weft_status st = singly     ? run_singly(s, r, err)
                   : in_parts ? run_parts(s, r, err)
                              : run_once(s, r, err);
  if (st == WEFT_OK && !in_parts && s->prunes_head && !knew && !wants_last_alone(r)) {
    if (r->state) r->state->length = r->past; /* learned too late for this row: once more */
    st = run_parts(s, r, err);
  }
  if (st != WEFT_OK && r->state) r->state->length = r->past; /* as before the run */
  return st;
}

weft_status ort_run(wf_backend_session *s, const wf_row *rows, size_t n_rows, weft_error *err) {
  const wf_component *c = s->c;
  WF_RETURN_IF_ERROR(ort_check_owner(&s->returned, "a session", err));
  ort_take_back(s->c);
  for (size_t i = 0; i < n_rows; i++) {
    if (c->has_ports) WF_RETURN_IF_ERROR(check_row(c, &rows[i], i, err));
    WF_RETURN_IF_ERROR(c->has_ports ? run_row(s, &rows[i], err) : run_once(s, &rows[i], err));
  }
  s->counters.runs++;
  return WEFT_OK;
}
