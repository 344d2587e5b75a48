/* SPDX-License-Identifier: Apache-2.0 */
/* Decoders as exporters write them, thousands of small nodes (make_longhand.py): what the passes
 * find in them, and the packed form. */
#include "support/test.h"

#include <string.h>

#include "decoder_ports.h"

typedef struct expectation {
  const char *name;
  size_t n_norms, n_calls; /* norms of the model; nodes of the packed graph a layer, at most */
  int32_t windows[2], rotary_dim;
  float softcap;
  bool has_positions;
} expectation;

static const expectation models[] = {
    {"llama", 5, 10, {0, 0}, 8, 0, true},         {"llama_half", 5, 10, {0, 0}, 8, 0, true},
    {"llama_old", 5, 10, {0, 0}, 8, 0, true},     {"qwen2", 5, 10, {0, 0}, 8, 0, true},
    {"qwen3", 9, 12, {0, 0}, 8, 0, true},         {"gemma3", 13, 15, {0, 7}, 8, 0, true},
    {"gemma2", 9, 13, {0, 9}, 8, 50, true},       {"phi3", 5, 10, {0, 11}, 8, 0, true},
    {"partial", 5, 10, {0, 0}, 4, 0, true},       {"transposed", 5, 10, {0, 0}, 8, 0, true},
    {"gemm", 5, 10, {0, 0}, 8, 0, true},          {"qdq", 5, 10, {0, 0}, 8, 0, true},
    {"qdq_t", 5, 10, {0, 0}, 8, 0, true},         {"qdq4", 5, 10, {0, 0}, 8, 0, true},
    {"nbits", 5, 10, {0, 0}, 8, 0, true},         {"operator", 5, 10, {0, 0}, 8, 0, true},
    {"operator_flat", 5, 10, {0, 0}, 8, 0, true},
};

typedef struct opened {
  wf_onnx_model *m;
  wf_graph *g;
  decoder_ports d;
  wf_packed packed;
} opened;

static void open_packed(opened *o, const char *name) {
  weft_error err = {0};
  char path[512];
  (void)snprintf(path, sizeof path, "%s/tests/graph/longhand/%s.onnx", WEFT_SOURCE_DIR, name);
  assert_ok(wf_onnx_open(&o->m, path, NULL, &err), &err);
  assert_ok(wf_graph_build(&o->g, o->m, &err), &err);
  name_ports(&o->d, o->g);
  const wf_pass_options options = {.ports = &o->d.ports};
  assert_ok(wf_graph_optimize(o->g, &options, &err), &err);
  assert_ok(wf_graph_pack(o->g, &o->d.ports, &o->packed, &err), &err);
}

static void close_packed(opened *o) {
  wf_graph_destroy(o->g);
  wf_onnx_close(o->m);
}

static void check_attention(const opened *o, const expectation *e) {
  for (size_t i = 0; i < o->g->order.n; i++) {
    const wf_node *n = o->g->nodes.at[o->g->order.at[i]];
    if (n->op != WF_OP_WEFT_ATTENTION) continue;
    const wf_attention_params *a = &n->as.attention;
    assert_in_range(a->layer, 0, 1);
    assert_int_equal(a->window, e->windows[a->layer]);
    assert_int_equal(a->rotary.dim, e->rotary_dim);
    assert_int_equal(a->rotary.kind, WF_ROTARY_HALF);
    assert_int_equal(a->n_heads, 4);
    assert_true(a->scale > 0.3535f && a->scale < 0.3536f); /* 1 / sqrt(8) */
    assert_true(a->softcap == e->softcap);
    assert_int_equal(o->packed.states[a->layer].head_dim, 8);
    assert_int_equal(o->packed.states[a->layer].n_kv_heads, a->n_kv_heads);
  }
}

static void every_exported_decoder_is_recognised_and_packed(void **state) {
  (void)state;
  for (size_t i = 0; i < WF_ARRAY_LEN(models); i++) {
    const expectation *e = &models[i];
    opened o = {0};
    size_t counts[WF_OP_COUNT];
    open_packed(&o, e->name);
    wf_graph_count(o.g, counts);
    if (!o.packed.is_packed) fail_msg("%s is not packed: %s", e->name, o.packed.why);
    if (counts[WF_OP_WEFT_ATTENTION] != 2 || counts[WF_OP_WEFT_GLU] != 2 ||
        counts[WF_OP_WEFT_NORM] != e->n_norms) {
      fail_msg("%s: %zu attentions, %zu gates, %zu norms", e->name, counts[WF_OP_WEFT_ATTENTION],
               counts[WF_OP_WEFT_GLU], counts[WF_OP_WEFT_NORM]);
    }
    assert_int_equal(counts[WF_OP_SOFTMAX] + counts[WF_OP_SHAPE] + counts[WF_OP_SCATTER_ND] +
                         counts[WF_OP_EXPAND],
                     0);
    assert_int_equal(o.packed.n_states, 2);
    assert_int_equal(o.packed.positions >= 0, e->has_positions);
    /* Reshapes call nothing; the embedding, the angles, the cuts and the head stand outside. */
    const size_t n_calls = o.g->order.n - counts[WF_OP_RESHAPE] - counts[WF_OP_UNSQUEEZE];
    if (n_calls > 2 * e->n_calls + 16) fail_msg("%s has %zu calls", e->name, n_calls);
    check_attention(&o, e);
    close_packed(&o);
  }
}

static void the_head_is_computed_for_selected_rows_only(void **state) {
  (void)state;
  for (size_t i = 0; i < WF_ARRAY_LEN(models); i++) {
    opened o = {0};
    open_packed(&o, models[i].name);
    const wf_value *logits = wf_graph_value(o.g, o.packed.logits);
    assert_int_equal(o.g->outputs.n, 1);
    assert_true(wf_expr_uses(o.g->exprs, wf_value_count(o.g, logits), o.packed.selected));
    assert_false(wf_expr_uses(o.g->exprs, wf_value_count(o.g, logits), o.packed.tokens));
    close_packed(&o);
  }
}

static void a_rotation_outside_of_grouped_attention_reads_tables_by_position(void **state) {
  opened o = {0};
  size_t counts[WF_OP_COUNT];
  (void)state;
  open_packed(&o, "grouped");
  wf_graph_count(o.g, counts);
  assert_true(o.packed.is_packed);
  assert_int_equal(counts[WF_OP_WEFT_ATTENTION], 2);
  assert_int_equal(counts[WF_OP_WEFT_ROTARY], 4);
  assert_int_equal(o.packed.positions, -1); /* the tables are read at past length + index */
  close_packed(&o);
}

static void a_graph_with_statistics_over_the_sequence_is_not_packed_and_says_why(void **state) {
  opened o = {0};
  size_t counts[WF_OP_COUNT];
  (void)state;
  open_packed(&o, "dynamic");
  wf_graph_count(o.g, counts);
  assert_false(o.packed.is_packed);
  assert_non_null(strstr(o.packed.why, "DynamicQuantizeLinear"));
  assert_int_equal(counts[WF_OP_WEFT_ATTENTION], 2); /* fused, but a row at a time */
  assert_int_equal(o.g->inputs.n, 7);                /* and otherwise as it was */
  assert_int_equal(o.g->outputs.n, 5);
  close_packed(&o);
}

static void a_memory_plan_reuses_buffers_and_never_overlaps_live_values(void **state) {
  weft_error err = {0};
  opened o = {0};
  wf_memory_plan plan;
  size_t all = 0;
  (void)state;
  open_packed(&o, "llama");
  wf_arena *arena = wf_arena_create();
  const wf_binding b[2] = {{o.packed.tokens, 7}, {o.packed.selected, 1}};
  assert_ok(wf_plan_memory(o.g, b, 2, 64, NULL, NULL, arena, &plan, &err), &err);
  size_t *first = wf_calloc(plan.n, sizeof *first), *last = wf_calloc(plan.n, sizeof *last);
  for (size_t step = 0; step < o.g->order.n; step++) {
    const wf_node *n = o.g->nodes.at[o.g->order.at[step]];
    for (int32_t k = 0; k < n->n_inputs; k++) {
      if (n->inputs[k] >= 0) last[n->inputs[k]] = step;
    }
    for (int32_t k = 0; k < n->n_outputs; k++) {
      if (n->outputs[k] >= 0) first[n->outputs[k]] = last[n->outputs[k]] = step;
    }
  }
  for (size_t i = 0; i < plan.n; i++) {
    if (plan.offsets[i] == SIZE_MAX) continue;
    all += plan.n_bytes[i];
    assert_int_equal(plan.offsets[i] % 64, 0);
    assert_true(plan.offsets[i] + plan.n_bytes[i] <= plan.total_bytes);
    for (size_t k = 0; k < i; k++) {
      if (plan.offsets[k] == SIZE_MAX || first[k] > last[i] || last[k] < first[i]) continue;
      assert_true(plan.offsets[k] + plan.n_bytes[k] <= plan.offsets[i] ||
                  plan.offsets[i] + plan.n_bytes[i] <= plan.offsets[k]);
    }
  }
  assert_true(plan.total_bytes * 3 < all);
  wf_free(first);
  wf_free(last);
  wf_arena_destroy(arena);
  close_packed(&o);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_exported_decoder_is_recognised_and_packed),
      cmocka_unit_test(the_head_is_computed_for_selected_rows_only),
      cmocka_unit_test(a_rotation_outside_of_grouped_attention_reads_tables_by_position),
      cmocka_unit_test(a_graph_with_statistics_over_the_sequence_is_not_packed_and_says_why),
      cmocka_unit_test(a_memory_plan_reuses_buffers_and_never_overlaps_live_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
