/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/fold.h"

#include <string.h>

#include "base/mem.h"

enum { MAX_FOLD_BYTES = 64 << 20 };

typedef struct fold_user {
  wf_arena *results, *tmp;
} fold_user;

static weft_status from_arena(wf_arena *a, size_t n_bytes, void **data, weft_error *err) {
  *data = wf_arena_alloc(a, n_bytes ? n_bytes : 1);
  return *data ? WEFT_OK : wf_fail_memory(err, n_bytes, "folding a constant");
}
static weft_status fold_make(void *user, int32_t output, size_t n_bytes, void **data,
                             weft_error *err) {
  (void)output;
  if (n_bytes > MAX_FOLD_BYTES) return wf_fail(err, WEFT_UNSUPPORTED, "", "too large to be folded");
  return from_arena(((fold_user *)user)->results, n_bytes, data, err);
}
static weft_status fold_scratch(void *user, size_t n_bytes, void **data, weft_error *err) {
  if (n_bytes > MAX_FOLD_BYTES) return wf_fail(err, WEFT_UNSUPPORTED, "", "too large to be folded");
  return from_arena(((fold_user *)user)->tmp, n_bytes, data, err);
}

static weft_status hold_input(const wf_folder *f, wf_arena *tmp, const wf_tensor *t, wf_view *v,
                              weft_error *err) {
  const wf_dtype held = wf_dtype_held(t->dtype);
  if (t->rank > WF_VIEW_MAX_RANK || wf_held_bytes(held) == 0) {
    return wf_fail(err, WEFT_UNSUPPORTED, "", "a constant of type %s", wf_dtype_name(t->dtype));
  }
  *v = (wf_view){.dtype = held, .rank = t->rank};
  for (int32_t i = 0; i < t->rank; i++) v->dims[i] = t->dims[i];
  WF_RETURN_IF_ERROR(from_arena(tmp, t->n * wf_held_bytes(held), &v->data, err));
  return t->n ? wf_hold(f->level, t->dtype, t->data, t->n, v->data, err) : WEFT_OK;
}

/* A result back in the type that the graph says it has. */
static weft_status store_output(const wf_folder *f, const fold_user *u, wf_dtype dtype,
                                const wf_view *v, wf_tensor **result, weft_error *err) {
  wf_tensor *t = wf_arena_calloc(u->results, 1, sizeof *t);
  int64_t *dims = wf_arena_calloc(u->results, (size_t)v->rank + 1, sizeof *dims);
  if (!t || !dims) return wf_fail_memory(err, sizeof *t, "folding a constant");
  for (int32_t i = 0; i < v->rank; i++) dims[i] = v->dims[i];
  t->dtype = dtype == WF_DTYPE_UNDEFINED ? v->dtype : dtype;
  t->rank = v->rank;
  t->dims = dims;
  t->n = (size_t)wf_view_count(v);
  if (!wf_dtype_bytes(t->dtype, t->n, &t->n_bytes) || wf_dtype_held(t->dtype) != v->dtype) {
    return wf_fail(err, WEFT_UNSUPPORTED, "", "a folded result of type %s",
                   wf_dtype_name(t->dtype));
  }
  void *data = NULL;
  WF_RETURN_IF_ERROR(from_arena(u->results, t->n_bytes, &data, err));
  WF_RETURN_IF_ERROR(wf_unhold(f->level, t->dtype, v->data, t->n, data, err));
  t->data = data;
  *result = t;
  return WEFT_OK;
}

weft_status wf_native_fold(void *user, const wf_node *node, const wf_tensor *const *inputs,
                           wf_arena *arena, wf_tensor **outputs, weft_error *err) {
  const wf_folder *f = user;
  wf_op_fn *fn = wf_op_function(node->op);
  wf_view in[16], out[8];
  const wf_view *in_ptr[16];
  int32_t alias[8];
  weft_status st = WEFT_OK;
  if (!fn || node->n_inputs > 16 || node->n_outputs > 8 || node->n_subgraphs > 0) {
    return wf_fail(err, WEFT_UNSUPPORTED, "", "not folded");
  }
  fold_user u = {arena, wf_arena_create()};
  if (!u.tmp) return wf_fail_memory(err, 0, "folding a constant");
  for (int32_t i = 0; i < node->n_inputs; i++) {
    in_ptr[i] = inputs[i] ? &in[i] : NULL;
    if (inputs[i]) WF_TRY(hold_input(f, u.tmp, inputs[i], &in[i], err));
  }
  for (int32_t i = 0; i < node->n_outputs; i++) {
    out[i] = (wf_view){0};
    alias[i] = -1;
  }
  const wf_op_env env = {.level = f->level, .user = &u, .make = fold_make, .scratch = fold_scratch};
  wf_op_call call = {node, f->graph, &env, node->n_inputs, node->n_outputs, in_ptr, out, alias};
  WF_TRY(fn(&call, err));
  for (int32_t i = 0; i < node->n_outputs; i++) {
    const wf_value *v = wf_graph_value(f->graph, wf_node_output(node, i));
    outputs[i] = NULL;
    if (v) WF_TRY(store_output(f, &u, v->dtype, &out[i], &outputs[i], err));
  }
out:
  wf_arena_destroy(u.tmp);
  return st;
}
