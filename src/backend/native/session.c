/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's session on a component: its buffers, and a run of the packed program over all rows. */
#include "backend/native/session.h"

#include <string.h>

#include "backend/native/native.h"
#include "backend/request.h"

/* ---- called by steps
 * ----------------------------------------------------------------------------- */

void wf_session_count_copy(wf_backend_session *s, uint64_t n_bytes) {
  s->counters.copies_bytes += n_bytes;
}
void wf_session_count_barrier(wf_backend_session *s) { s->counters.barriers++; }

size_t wf_session_slot_bytes(const wf_backend_session *s, int32_t slot) {
  return s->slot_bytes[slot];
}

weft_status wf_session_scratch(wf_backend_session *s, size_t n_bytes, void **data,
                               weft_error *err) {
  if (s->n_scratch == WF_SESSION_MAX_SCRATCH) {
    return wf_fail(err, WEFT_INTERNAL, "", "an operator asks for scratch too often");
  }
  wf_pool_buffer *b = wf_pool_take(&s->scratch, n_bytes);
  if (!b) return wf_fail_memory(err, n_bytes, "an operator's scratch");
  s->scratch_used[s->n_scratch++] = b;
  *data = b->data;
  return WEFT_OK;
}

void wf_session_scratch_reset(wf_backend_session *s) {
  for (size_t i = 0; i < s->n_scratch; i++) wf_pool_unref(s->scratch_used[i]);
  s->n_scratch = 0;
}

void wf_session_fail(wf_backend_session *s, const weft_error *err) {
  if (s->failure.status == WEFT_OK) wf_error_pass_on(&s->failure, err);
}
bool wf_session_failed(const wf_backend_session *s) { return s->failure.status != WEFT_OK; }

/* ---- buffers
 * ------------------------------------------------------------------------------------- */

/* How many rows the slots have to hold, and which slots count. */
typedef struct slot_rows {
  int64_t tokens, selected;
  bool only_private;
} slot_rows;

static bool slot_size(const slot_rows *r, const wf_slot *slot, size_t *n_bytes) {
  const int64_t rows = slot->axis == WF_AXIS_TOKENS     ? r->tokens
                       : slot->axis == WF_AXIS_SELECTED ? r->selected
                                                        : 1;
  size_t n = 0;
  if (slot->is_act) {
    *n_bytes = wf_act_bytes(&slot->act, rows);
    return true;
  }
  return wf_size_mul((size_t)rows, (size_t)slot->width, &n) && wf_size_mul(n, slot->elem, n_bytes);
}

static bool lives_meet(const wf_slot *a, const wf_slot *b) {
  const int32_t a_last = a->last > a->first ? a->last : a->first;
  const int32_t b_last = b->last > b->first ? b->last : b->first;
  return a->first <= b_last && b->first <= a_last;
}

/* Largest first, each at the lowest place that is free for its whole life. */
static weft_status place_slots(const wf_component *c, const slot_rows *r, size_t *offsets,
                               size_t *bytes, size_t *total, weft_error *err) {
  size_t *order = wf_calloc(c->n_slots + 1, sizeof *order);
  weft_status st = WEFT_OK;
  if (!order) {
    st = wf_fail_memory(err, c->n_slots * sizeof *order, "a session");
    goto out;
  }
  size_t n_placed = 0;
  *total = 0;
  for (size_t i = 0; i < c->n_slots; i++) {
    size_t n = 0;
    if (!slot_size(r, &c->slots[i], &n) || !wf_size_align(n, 64, &bytes[i])) {
      st = wf_fail(err, WEFT_LIMIT, "use a smaller chunk", "the buffers of a run overflow");
      goto out;
    }
    if (c->slots[i].first < 0 || (r->only_private && !c->slots[i].is_private)) continue;
    size_t j = n_placed++;
    for (; j > 0 && bytes[order[j - 1]] < bytes[i]; j--) order[j] = order[j - 1];
    order[j] = i;
  }
  for (size_t i = 0; i < n_placed; i++) {
    const size_t id = order[i];
    size_t at = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t j = 0; j < i; j++) {
        const size_t other = order[j], other_at = offsets[other];
        if (lives_meet(&c->slots[id], &c->slots[other]) && at < other_at + bytes[other] &&
            other_at < at + bytes[id]) {
          at = other_at + bytes[other];
          moved = true;
        }
      }
    }
    offsets[id] = at;
    if (at + bytes[id] > *total) *total = at + bytes[id];
  }
out:
  wf_free(order);
  return st;
}

/* Every member's own copies of what row steps write in a small run. */
static weft_status place_private(wf_backend_session *s, weft_error *err) {
  const wf_component *c = s->c;
  const slot_rows small = {WF_ACT_ROW_GRAIN, WF_ACT_ROW_GRAIN, true};
  size_t *offsets = wf_calloc(c->n_slots + 1, sizeof *offsets);
  size_t *bytes = wf_calloc(c->n_slots + 1, sizeof *bytes);
  size_t total = 0;
  weft_status st = WEFT_OK;
  if (!offsets || !bytes) {
    st = wf_fail_memory(err, c->n_slots * sizeof *offsets, "a session");
    goto out;
  }
  WF_TRY(place_slots(c, &small, offsets, bytes, &total, err));
  /* A page apart: members never write to one cache line. */
  if (!wf_size_align(total + 4096, 4096, &total)) {
    st = wf_fail(err, WEFT_LIMIT, "", "the buffers of a run overflow");
    goto out;
  }
  s->private_memory = wf_alloc_aligned(total * (size_t)s->n_members, 64);
  if (!s->private_memory) {
    st = wf_fail_memory(err, total * (size_t)s->n_members, "the buffers of a run");
    goto out;
  }
  for (int m = 1; m < s->n_members; m++) {
    unsigned char **slots = s->slots + (size_t)m * c->n_slots;
    for (size_t i = 0; i < c->n_slots; i++) {
      slots[i] =
          c->slots[i].is_private ? s->private_memory + (size_t)m * total + offsets[i] : s->slots[i];
    }
  }
out:
  wf_free(offsets);
  wf_free(bytes);
  return st;
}

static size_t attention_scratch(const wf_backend_session *s) {
  size_t most = 0;
  for (size_t i = 0; i < s->c->n_steps; i++) {
    const wf_step *step = &s->c->steps[i];
    if (step->fn != wf_step_attention) continue;
    const size_t n =
        wf_attention_scratch_bytes(&step->as.attention.spec, &step->as.attention.kv, s->max_tokens);
    if (n > most) most = n;
  }
  return most;
}

static void free_buffers(wf_backend_session *s) {
  wf_free(s->memory);
  wf_free(s->ids);
  wf_free(s->positions);
  wf_free(s->select);
  wf_free(s->logits);
  wf_free(s->member_scratch);
  wf_free(s->private_memory);
  s->memory = s->member_scratch = s->private_memory = NULL;
  s->ids = NULL;
  s->positions = s->select = NULL;
  s->logits = NULL;
}

/* Everything whose size depends on the largest run. */
static weft_status make_buffers(wf_backend_session *s, int64_t max_tokens, int64_t max_selected,
                                weft_error *err) {
  const wf_component *c = s->c;
  const size_t n_members = (size_t)s->n_members;
  const slot_rows rows = {max_tokens, max_selected, false};
  weft_status st = WEFT_OK;
  free_buffers(s);
  s->counters.allocations++;
  s->max_tokens = max_tokens;
  s->max_selected = max_selected;
  size_t total = 0;
  WF_TRY(place_slots(c, &rows, s->slot_offsets, s->slot_bytes, &total, err));
  if (!wf_size_align(attention_scratch(s) + 64, 64, &s->member_scratch_bytes)) {
    st = wf_fail(err, WEFT_LIMIT, "use a smaller chunk", "attention's scratch overflows");
    goto out;
  }
  int is_cgroup = 0;
  if (total > ((size_t)256 << 20) && total > wf_memory_available(&is_cgroup)) {
    st = wf_fail_memory(err, total, "the buffers of a run");
    goto out;
  }
  s->memory = wf_alloc_aligned(total + 64, 64);
  s->member_scratch = wf_alloc_aligned(n_members * s->member_scratch_bytes, 64);
  s->ids = wf_calloc((size_t)max_tokens, sizeof *s->ids);
  s->positions = wf_calloc((size_t)max_tokens, sizeof *s->positions);
  s->select = wf_calloc((size_t)max_selected, sizeof *s->select);
  s->logits = wf_calloc((size_t)max_selected, sizeof *s->logits);
  if (!s->memory || !s->member_scratch || !s->ids || !s->positions || !s->select || !s->logits) {
    st = wf_fail_memory(err, total, "the buffers of a run");
    goto out;
  }
  for (size_t i = 0; i < c->n_slots; i++) s->slots[i] = s->memory + s->slot_offsets[i];
  WF_TRY(place_private(s, err));
out:
  if (st) s->max_tokens = s->max_selected = 0;
  return st;
}

static weft_status make_rows(wf_backend_session *s, size_t n_rows, weft_error *err) {
  wf_attention_row *rows = wf_calloc(n_rows * (s->c->info.n_groups + 1), sizeof *rows);
  if (!rows) return wf_fail_memory(err, n_rows * sizeof *rows, "the rows of a run");
  wf_free(s->rows);
  s->rows = rows;
  s->max_rows = n_rows;
  s->counters.allocations++;
  return WEFT_OK;
}

weft_status wf_native_open(wf_backend_session **result, const wf_component *c, wf_team *team,
                           int64_t max_tokens, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_backend_session *s = wf_zalloc(sizeof *s);
  if (!s) return wf_fail_memory(err, sizeof *s, "a session");
  s->c = c;
  s->team = team;
  s->n_members = wf_team_size(team);
  if (max_tokens < 1 || max_tokens > INT32_MAX) {
    st = wf_fail(err, WEFT_INVALID_ARGUMENT, "ask for 1 token or more",
                 "a session for runs of %lld tokens", (long long)max_tokens);
    goto out;
  }
  s->slot_offsets = wf_calloc(c->n_slots + 1, sizeof *s->slot_offsets);
  s->slot_bytes = wf_calloc(c->n_slots + 1, sizeof *s->slot_bytes);
  s->exec = (wf_exec){.c = c, .level = c->level, .session = s};
  s->slots = wf_calloc(c->n_slots * (size_t)s->n_members + 1, sizeof *s->slots);
  s->execs = wf_calloc((size_t)s->n_members, sizeof *s->execs);
  if (!s->slot_offsets || !s->slot_bytes || !s->slots || !s->execs) {
    st = wf_fail_memory(err, c->n_slots * sizeof *s->slot_offsets, "a session");
    goto out;
  }
  if (c->packed.is_packed) {
    WF_TRY(make_buffers(s, max_tokens, max_tokens, err));
    WF_TRY(make_rows(s, 16, err));
  } else {
    WF_TRY(wf_interp_open(s, err));
  }
  s->counters = (wf_run_counters){0};
  *result = s;
  s = NULL;
out:
  wf_native_close(s);
  return st;
}

void wf_native_close(wf_backend_session *s) {
  if (!s) return;
  wf_interp_close(s);
  free_buffers(s);
  wf_free(s->rows);
  wf_free(s->partials);
  wf_pool_deinit(&s->scratch);
  wf_free(s->exec.head_scratch);
  wf_free(s->slots);
  wf_free(s->execs);
  wf_free(s->slot_offsets);
  wf_free(s->slot_bytes);
  wf_free(s);
}

/* ---- a run
 * ----------------------------------------------------------------------------------------- */

static void run_member(const wf_member *m, void *arg) {
  wf_exec *x = &((wf_exec *)arg)[m->index];
  const wf_step *steps = x->c->steps;
  const size_t n = x->c->n_steps;
  const bool is_profiled = x->session->profile != NULL;
  for (size_t i = 0; i < n; i++) {
    if (x->is_small ? steps[i].barrier_small : steps[i].barrier_before) wf_team_barrier(m);
    const uint64_t begin_ns = is_profiled ? wf_clock_ns() : 0;
    steps[i].fn(x, &steps[i], m);
    if (is_profiled) wf_profile_step(x, &steps[i], m, begin_ns);
  }
}

static weft_status check_row(const wf_component *c, const wf_row *r, size_t i, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_request_check_row(&c->info, r, i, err));
  for (int64_t j = 0; c->ids_limit > 0 && j < r->n_new; j++) {
    if (r->ids[j] < 0 || r->ids[j] >= c->ids_limit) {
      return wf_fail(err, WEFT_INVALID_ARGUMENT, "use ids of this model's vocabulary",
                     "token id %d is outside the vocabulary of %lld", (int)r->ids[j],
                     (long long)c->ids_limit);
    }
  }
  for (size_t g = 0; g < c->info.n_groups; g++) {
    const wf_kv_table *t = &r->tables[g];
    const int64_t last = (r->past + r->n_new - 1) / WF_KV_BLOCK_TOKENS - t->first_block;
    if (last < 0 || last >= t->n_blocks) {
      return wf_fail(err, WEFT_INVALID_ARGUMENT, "", "row %zu has no cache block for its tokens",
                     i);
    }
  }
  return WEFT_OK;
}

/* Values the program reads as tensors: ids, positions and selected indices, in the slot's own
 * width. */
static void fill_slot(wf_exec *x, int32_t slot, const int64_t *values, const int32_t *ids,
                      int64_t n) {
  if (slot < 0) return;
  const bool is_wide = x->c->slots[slot].elem == 8;
  int64_t *wide = (int64_t *)(void *)x->slots[slot];
  int32_t *narrow = (int32_t *)(void *)x->slots[slot];
  for (int64_t i = 0; i < n; i++) {
    const int64_t v = values ? values[i] : ids[i];
    if (is_wide) {
      wide[i] = v;
    } else {
      narrow[i] = (int32_t)v;
    }
  }
}

static weft_status fill_embeds(wf_backend_session *s, const wf_row *rows, size_t n_rows,
                               weft_error *err) {
  const wf_component *c = s->c;
  if (c->embeds_slot < 0) return WEFT_OK;
  const int64_t width = c->slots[c->embeds_slot].width;
  float *to = (float *)(void *)s->exec.slots[c->embeds_slot];
  for (size_t i = 0; i < n_rows; i++) {
    const wf_view *v =
        rows[i].inputs && c->map.embeds_input >= 0 ? &rows[i].inputs[c->map.embeds_input] : NULL;
    if (!v || !v->data || v->dtype != WF_DTYPE_F32 || wf_view_count(v) != rows[i].n_new * width) {
      return wf_fail(err, WEFT_INVALID_ARGUMENT, "give float32 embeddings of every new token",
                     "row %zu has no embeddings of %lld x %lld", i, (long long)rows[i].n_new,
                     (long long)width);
    }
    memcpy(to, v->data, (size_t)(rows[i].n_new * width) * sizeof *to);
    to += rows[i].n_new * width;
  }
  return WEFT_OK;
}

static weft_status gather_rows(wf_backend_session *s, const wf_row *rows, size_t n_rows,
                               weft_error *err) {
  const wf_component *c = s->c;
  wf_exec *x = &s->exec;
  x->slots = s->slots;
  int64_t token = 0, selected = 0;
  for (size_t i = 0; i < n_rows; i++) {
    const wf_row *r = &rows[i];
    for (size_t g = 0; g < c->info.n_groups; g++) {
      s->rows[g * n_rows + i] = (wf_attention_row){r->tables[g].blocks, r->tables[g].first_block,
                                                   r->past, token, r->n_new};
    }
    for (int64_t j = 0; j < r->n_new; j++) {
      s->ids[token + j] = c->packed.input_ids >= 0 ? r->ids[j] : 0;
      s->positions[token + j] = r->past + j;
    }
    for (int64_t j = 0; j < r->n_selected; j++) {
      s->select[selected] = token + r->selected[j];
      s->logits[selected++] = r->logits + j * c->info.vocab;
    }
    token += r->n_new;
  }
  bool is_contiguous = true;
  for (int64_t j = 1; j < selected; j++)
    is_contiguous &= s->logits[j] == s->logits[j - 1] + c->info.vocab;
  if (!is_contiguous && x->head_rows < selected) {
    wf_free(x->head_scratch);
    x->head_rows = 0;
    size_t n = 0;
    if (!wf_size_mul((size_t)selected, (size_t)c->info.vocab, &n) || !wf_size_mul(n, 4, &n))
      n = SIZE_MAX;
    x->head_scratch = n == SIZE_MAX ? NULL : wf_alloc_aligned(n, 64);
    if (!x->head_scratch) return wf_fail_memory(err, n, "the logits of a run");
    x->head_rows = selected;
    s->counters.allocations++;
  }
  x->n_tokens = token;
  x->n_selected = selected;
  x->ids = s->ids;
  x->positions = s->positions;
  x->select = s->select;
  x->logits = s->logits;
  x->rows = s->rows;
  x->n_rows = n_rows;
  fill_slot(x, c->ids_slot, NULL, s->ids, token);
  fill_slot(x, c->positions_slot, s->positions, NULL, token);
  fill_slot(x, c->select_slot, s->select, NULL, selected);
  return fill_embeds(s, rows, n_rows, err);
}

/* Keys are split when rows are too few to keep every member busy. The room grows with the context
 * rounded up to a power of two, so that a step inside a bucket allocates nothing. */
static weft_status place_partials(wf_backend_session *s, const wf_row *rows, size_t n_rows,
                                  weft_error *err) {
  wf_exec *x = &s->exec;
  x->partials = NULL;
  if (s->n_members < 2 || n_rows > (size_t)s->n_members * 4) return WEFT_OK;
  int64_t longest = 0, most_new = 0;
  for (size_t i = 0; i < n_rows; i++) {
    if (rows[i].n_new > WF_ATTENTION_SPLIT_TOKENS) continue;
    if (rows[i].past + rows[i].n_new > longest) longest = rows[i].past + rows[i].n_new;
    if (rows[i].n_new > most_new) most_new = rows[i].n_new;
  }
  if (longest <= WF_ATTENTION_SUPER) return WEFT_OK;
  int64_t bucket = 2 * WF_ATTENTION_SUPER;
  while (bucket < longest) bucket *= 2;
  size_t stride = 0;
  for (size_t i = 0; i < s->c->n_steps; i++) {
    const wf_step *step = &s->c->steps[i];
    if (step->fn != wf_step_attention) continue;
    const size_t n = wf_attention_partials_bytes(&step->as.attention.spec, &step->as.attention.kv,
                                                 most_new, bucket);
    if (n > stride) stride = n;
  }
  size_t total = 0;
  if (!wf_size_align(stride, 64, &stride) || !wf_size_mul(stride, n_rows, &total)) total = SIZE_MAX;
  if (total > s->partials_bytes) {
    wf_free(s->partials);
    s->partials_bytes = 0;
    s->partials = total == SIZE_MAX ? NULL : wf_alloc_aligned(total, 64);
    if (!s->partials) return wf_fail_memory(err, total, "attention over a long context");
    s->partials_bytes = total;
    s->counters.allocations++;
  }
  x->partials = s->partials;
  x->partials_stride = stride;
  return WEFT_OK;
}

static weft_status run_packed(wf_backend_session *s, const wf_row *rows, size_t n_rows,
                              weft_error *err) {
  const wf_component *c = s->c;
  int64_t n_tokens = 0;
  for (size_t i = 0; i < n_rows; i++) {
    WF_RETURN_IF_ERROR(check_row(c, &rows[i], i, err));
    n_tokens += rows[i].n_new;
  }
  if (n_tokens == 0) return WEFT_OK;
  if (n_tokens > s->max_tokens) {
    if (n_tokens > INT32_MAX) return wf_fail(err, WEFT_LIMIT, "", "too many tokens in a run");
    WF_RETURN_IF_ERROR(make_buffers(s, n_tokens, n_tokens, err));
  }
  if (n_rows > s->max_rows) WF_RETURN_IF_ERROR(make_rows(s, n_rows * 2, err));
  WF_RETURN_IF_ERROR(gather_rows(s, rows, n_rows, err));
  WF_RETURN_IF_ERROR(place_partials(s, rows, n_rows, err));
  s->exec.is_small = n_tokens <= WF_ACT_ROW_GRAIN;
  for (int i = 0; i < s->n_members; i++) {
    s->execs[i] = s->exec;
    s->execs[i].slots = s->slots + (s->exec.is_small ? (size_t)i * c->n_slots : 0);
    s->execs[i].scratch = s->member_scratch + (size_t)i * s->member_scratch_bytes;
  }
  s->failure.status = WEFT_OK;
  wf_team_run(s->team, run_member, s->execs);
  s->counters.runs++;
  s->counters.kernel_calls += c->n_steps;
  s->counters.barriers += s->exec.is_small ? c->n_barriers_small : c->n_barriers;
  s->counters.weight_bytes += c->info.weight_bytes;
  if (s->failure.status != WEFT_OK) {
    wf_error_pass_on(err, &s->failure);
    return s->failure.status;
  }
  return WEFT_OK;
}

weft_status wf_native_run(wf_backend_session *s, const wf_row *rows, size_t n_rows,
                          weft_error *err) {
  if (s->c->packed.is_packed) return run_packed(s, rows, n_rows, err);
  for (size_t i = 0; i < n_rows; i++) {
    if (s->c->has_ports) WF_RETURN_IF_ERROR(check_row(s->c, &rows[i], i, err));
    WF_RETURN_IF_ERROR(wf_interp_run(s, &rows[i], err));
  }
  s->counters.runs++;
  return WEFT_OK;
}

void wf_native_profile(wf_backend_session *s, wf_profile *p) { s->profile = p; }

void wf_native_counters(const wf_backend_session *s, wf_run_counters *result) {
  *result = s->counters;
}
