/* SPDX-License-Identifier: Apache-2.0 */
/* One sequence's state on ONNX Runtime. Two ways, as the graph allows:
 *
 *   in place   one buffer a tensor, [1, heads, capacity, dim]; a run appends where the tokens end
 *   in turns   two buffers a tensor, [1, heads, tokens, dim] each; a run reads one and writes the
 *              other, then they change places
 *
 * Either way no run copies the cache through us. Shortening copies (in turns, heads move closer),
 * and so does growing (in place, by half); both are counted. */
#include <string.h>

#include "backend/ort/ort.h"

enum { FIRST_CAPACITY = 256 };

static void free_state(ort_returned *r) {
  wf_backend_state *s = (wf_backend_state *)(void *)r;
  for (size_t i = 0; s->buffers && i < ort_n_buffers(s->c); i++) {
    wf_free(s->buffers[i][0].at);
    wf_free(s->buffers[i][1].at);
  }
  wf_free(s->buffers);
  ort_object *session = s->session;
  wf_free(s);
  ort_object_unref(session);
}

weft_status ort_state_open(wf_backend_state **result, wf_backend_session *s, weft_error *err) {
  WF_RETURN_IF_ERROR(ort_check_owner(&s->returned, "a session", err));
  ort_take_back(s->c);
  wf_backend_state *state = wf_zalloc(sizeof *state);
  if (!state) return wf_fail_memory(err, sizeof *state, "a state");
  state->returned = (ort_returned){.owner = s->returned.owner, .free_now = free_state};
  state->c = s->c;
  state->session = ort_object_ref(s->session);
  state->buffers = wf_calloc(ort_n_buffers(s->c) + 1, sizeof *state->buffers);
  if (!state->buffers) {
    free_state(&state->returned);
    return wf_fail_memory(err, s->c->n_states * sizeof *state->buffers, "a state");
  }
  *result = state;
  return WEFT_OK;
}

void ort_state_close(wf_backend_state *state) { ort_give_back(state->c, &state->returned); }

weft_status ort_state_truncate(wf_backend_state *state, int64_t length, weft_error *err) {
  WF_RETURN_IF_ERROR(ort_check_owner(&state->returned, "a state", err));
  if (length < 0) length = 0;
  if (length < state->length && state->c->n_carried) length = 0; /* they hold one length alone */
  if (length < state->length) state->length = length;
  return WEFT_OK;
}

size_t ort_state_bytes(const wf_backend_state *state) {
  size_t sum = 0;
  for (size_t i = 0; i < ort_n_buffers(state->c); i++)
    sum += state->buffers[i][0].n_bytes + state->buffers[i][1].n_bytes;
  return sum;
}

static size_t token_bytes(const ort_state_port *p) { return (size_t)p->dim * p->elem; }

/* The first n tokens of every head, where a head has `from` (then `to`) tokens. Fine in place when
 * to <= from. */
static void move_heads(const ort_state_port *p, unsigned char *dst, int64_t to,
                       const unsigned char *src, int64_t from, int64_t n) {
  const size_t one = token_bytes(p);
  for (int64_t h = 0; h < p->heads; h++) {
    memmove(dst + (size_t)(h * to) * one, src + (size_t)(h * from) * one, (size_t)n * one);
  }
}

static weft_status make_buffer(const ort_state_port *p, int64_t tokens, ort_buffer *b,
                               weft_error *err) {
  size_t n;
  if (!wf_size_mul((size_t)(p->heads * p->dim), p->elem, &n) ||
      !wf_size_mul(n, (size_t)tokens, &n)) {
    n = SIZE_MAX;
  }
  b->at = n == SIZE_MAX ? NULL : wf_alloc_aligned(n ? n : 64, 64);
  if (!b->at) return wf_fail_memory(err, n, "the key/value cache");
  b->n_bytes = n;
  return WEFT_OK;
}

/* Room for `tokens` and some more: growing in place copies, so it takes half as many again; a
 * buffer whose contents are dead needs an eighth. */
static int64_t bucket(int64_t tokens, bool copies) {
  const int64_t n = tokens + tokens / (copies ? 2 : 8);
  return n < FIRST_CAPACITY ? FIRST_CAPACITY : (n + 63) / 64 * 64;
}

static weft_status grow_in_place(wf_backend_state *s, int64_t tokens, uint64_t *copied,
                                 weft_error *err) {
  const wf_component *c = s->c;
  const int64_t capacity = bucket(tokens, true);
  weft_status st = WEFT_OK;
  if (s->capacity >= tokens) return WEFT_OK;
  ort_buffer *fresh = wf_calloc(c->n_states + 1, sizeof *fresh);
  if (!fresh) return wf_fail_memory(err, c->n_states * sizeof *fresh, "a state");
  for (size_t i = 0; i < c->n_states; i++)
    WF_TRY(make_buffer(&c->states[i], capacity, &fresh[i], err));
  for (size_t i = 0; i < c->n_states; i++) {
    const ort_state_port *p = &c->states[i];
    ort_buffer *old = &s->buffers[i][0];
    /* All of it is set: what lies past the tokens is multiplied by weights of zero, so it must be
     * finite. */
    memset(fresh[i].at, 0, fresh[i].n_bytes);
    if (s->length) move_heads(p, fresh[i].at, capacity, old->at, s->capacity, s->length);
    *copied += (uint64_t)(s->length * p->heads) * token_bytes(p);
    const ort_buffer unused = *old;
    *old = fresh[i];
    fresh[i] = unused;
  }
  s->capacity = capacity;
  /* relaxed: it only has to be unique */
  s->stamp = atomic_fetch_add_explicit(&s->c->next_stamp, 1, memory_order_relaxed) + 1;
out:
  for (size_t i = 0; i < c->n_states; i++) wf_free(fresh[i].at);
  wf_free(fresh);
  return st;
}

/* States of a fixed size: two buffers each, zeros before the first token. */
static weft_status prepare_carried(wf_backend_state *s, weft_error *err) {
  const wf_component *c = s->c;
  for (size_t i = c->n_states; i < ort_n_buffers(c); i++) {
    for (int j = 0; j < 2; j++) {
      if (!s->buffers[i][j].at) {
        WF_RETURN_IF_ERROR(make_buffer(&c->states[i], 1, &s->buffers[i][j], err));
      }
    }
    const ort_buffer *past = &s->buffers[i][s->carried_side];
    if (s->length == 0) memset(past->at, 0, past->n_bytes);
  }
  return WEFT_OK;
}

weft_status ort_state_prepare(wf_backend_state *s, int64_t n_new, uint64_t *copied,
                              weft_error *err) {
  const wf_component *c = s->c;
  WF_RETURN_IF_ERROR(prepare_carried(s, err));
  const int64_t tokens = s->length + n_new;
  if (c->is_state_in_place) return grow_in_place(s, tokens, copied, err);
  for (size_t i = 0; i < c->n_states; i++) {
    const ort_state_port *p = &c->states[i];
    ort_buffer *past = &s->buffers[i][s->side], *present = &s->buffers[i][!s->side];
    if (!past->at) WF_RETURN_IF_ERROR(make_buffer(p, bucket(1, false), past, err));
    if (present->n_bytes < (size_t)(p->heads * tokens) * token_bytes(p)) {
      wf_free(present->at); /* nothing in it counts */
      *present = (ort_buffer){0};
      WF_RETURN_IF_ERROR(make_buffer(p, bucket(tokens, false), present, err));
    }
  }
  if (s->stored > s->length) {
    for (size_t i = 0; i < c->n_states; i++) {
      const ort_state_port *p = &c->states[i];
      unsigned char *at = s->buffers[i][s->side].at;
      move_heads(p, at, s->length, at, s->stored, s->length);
      *copied += (uint64_t)(s->length * p->heads) * token_bytes(p);
    }
    s->stored = s->length;
  }
  return WEFT_OK;
}

static weft_status bind(wf_backend_session *s, const ort_state_port *p, unsigned char *at,
                        int64_t tokens, bool is_past, bool is_present, weft_error *err) {
  ort_library *lib = s->c->lib;
  weft_status st = WEFT_OK;
  ort_value *v = NULL;
  const int64_t grown[4] = {1, p->heads, tokens, p->dim};
  const int64_t *dims = p->fixed_rank ? p->fixed_dims : grown;
  const size_t rank = p->fixed_rank ? p->fixed_rank : 4;
  const size_t n = (size_t)(p->heads * tokens) * token_bytes(p);
  ORT_TRY(lib, err, create_tensor_over(s->c->memory, at, n, dims, rank, (int)p->dtype, &v),
          "takes no state '%s'", p->past);
  /* the binding keeps a hold of its own on the value */
  if (is_past) {
    ORT_TRY(lib, err, bind_input(s->binding->handle, p->past, v), "takes no state '%s'", p->past);
  }
  if (is_present) {
    ORT_TRY(lib, err, bind_output(s->binding->handle, p->present, v), "takes no state '%s'",
            p->present);
  }
out:
  if (v) lib->api.release_value(v);
  return st;
}

static weft_status bind_growing(wf_backend_session *s, const wf_backend_state *state, int64_t n_new,
                                weft_error *err) {
  const wf_component *c = s->c;
  s->bound_stamp = 0;
  for (size_t i = 0; i < c->n_states; i++) {
    const ort_state_port *p = &c->states[i];
    if (c->is_state_in_place) {
      WF_RETURN_IF_ERROR(bind(s, p, state->buffers[i][0].at, state->capacity, true, true, err));
      continue;
    }
    WF_RETURN_IF_ERROR(
        bind(s, p, state->buffers[i][state->side].at, state->length, true, false, err));
    WF_RETURN_IF_ERROR(
        bind(s, p, state->buffers[i][!state->side].at, state->length + n_new, false, true, err));
  }
  if (c->is_state_in_place) s->bound_stamp = state->stamp;
  return WEFT_OK;
}

weft_status ort_state_bind(wf_backend_session *s, wf_backend_state *state, int64_t n_new,
                           weft_error *err) {
  const wf_component *c = s->c;
  const bool is_bound = c->is_state_in_place && s->bound_stamp == state->stamp;
  if (!is_bound) WF_RETURN_IF_ERROR(bind_growing(s, state, n_new, err));
  for (size_t i = c->n_states; i < ort_n_buffers(c); i++) {
    const ort_state_port *p = &c->states[i];
    const ort_buffer *pair = state->buffers[i];
    WF_RETURN_IF_ERROR(bind(s, p, pair[state->carried_side].at, 1, true, false, err));
    WF_RETURN_IF_ERROR(bind(s, p, pair[!state->carried_side].at, 1, false, true, err));
  }
  return WEFT_OK;
}

void ort_state_advance(wf_backend_state *s, int64_t n_new) {
  s->length += n_new;
  s->stored = s->length;
  if (!s->c->is_state_in_place) s->side = !s->side;
  s->carried_side = !s->carried_side;
}

weft_status ort_state_copy(wf_backend_state **result, const wf_backend_state *from,
                           weft_error *err) {
  const wf_component *c = from->c;
  weft_status st = WEFT_OK;
  WF_RETURN_IF_ERROR(ort_check_owner(&from->returned, "a state", err));
  wf_backend_state *s = wf_zalloc(sizeof *s);
  if (!s) return wf_fail_memory(err, sizeof *s, "a state");
  *s = *from;
  s->returned.next = NULL;
  s->session = ort_object_ref(from->session);
  s->buffers = wf_calloc(ort_n_buffers(c) + 1, sizeof *s->buffers);
  if (!s->buffers) WF_TRY(wf_fail_memory(err, c->n_states * sizeof *s->buffers, "a state"));
  for (size_t i = 0; i < ort_n_buffers(c); i++) {
    const int side = i < c->n_states ? from->side : from->carried_side;
    const ort_buffer *past = &from->buffers[i][side];
    ort_buffer *to = &s->buffers[i][side];
    if (!past->at) continue;
    to->at = wf_alloc_aligned(past->n_bytes ? past->n_bytes : 64, 64);
    if (!to->at) WF_TRY(wf_fail_memory(err, past->n_bytes, "the key/value cache"));
    to->n_bytes = past->n_bytes;
    memcpy(to->at, past->at, past->n_bytes);
  }
  /* relaxed: it only has to be unique */
  s->stamp = atomic_fetch_add_explicit(&s->c->next_stamp, 1, memory_order_relaxed) + 1;
  *result = s;
  s = NULL;
out:
  if (s) free_state(&s->returned);
  return st;
}
