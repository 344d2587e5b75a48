/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling: the ONNX file, the graph's passes, packed form, weights, steps; then sealed. */
#include <string.h>

#include "backend/native/fold.h"
#include "backend/native/interp.h"
#include "backend/native/native.h"
#include "backend/native/program.h"
#include "backend/request.h"
#include "base/file.h"

const wf_backend wf_backend_native = {
    .name = "native",
    .compile = wf_native_compile,
    .release = wf_native_release,
    .info = wf_native_info,
    .open = wf_native_open,
    .run = wf_native_run,
    .close = wf_native_close,
    .counters = wf_native_counters,
    .profile = wf_native_profile,
};

const wf_component_info *wf_native_info(const wf_component *c) { return &c->info; }

void wf_native_release(wf_component *c) {
  if (!c) return;
  wf_weights_release(c);
  wf_graph_destroy(c->graph);
  wf_onnx_close(c->model);
  wf_arena_destroy(c->arena);
  wf_free(c);
}

static void report_graph(const wf_component *c, const wf_compile_options *o, const char *title) {
  if (!o->report) return;
  wf_buf_printf(o->report, "== %s\n", title);
  wf_graph_print(c->graph, o->report);
}

/* A merged decoder runs on its branch with past, also when the past is empty; the later half of a
 * pair, when asked for by name, is the same without the choice. Older exports traced it for one
 * token and left the causal mask out, so it stands for prompts only where each attention was
 * recognised and its mask proven. */
static weft_status check_traced(const wf_component *c, const wf_ports *ports, weft_error *err) {
  size_t n = 0;
  for (size_t i = 0; i < c->graph->order.n; i++) {
    n += c->graph->nodes.at[c->graph->order.at[i]]->op == WF_OP_WEFT_ATTENTION;
  }
  if (n == ports->n_states) return WEFT_OK;
  if (!ports->use_cache.n) {
    return wf_fail(err, WEFT_UNSUPPORTED,
                   "use --model-file decoder_model, the other half, or export the model again with "
                   "a current optimum, which writes one graph with past",
                   "this half of a pair was made for one token after others: it has %zu attentions "
                   "whose causal mask is proven, for %zu states",
                   n, ports->n_states);
  }
  return wf_fail(
      err, WEFT_UNSUPPORTED,
      "use --model-file decoder_model where the folder has it, or export the model again "
      "with a current optimum, which writes one graph with past",
      "the branch with past of this merged decoder ('%.*s') has %zu attentions whose "
      "causal mask is proven, for %zu states",
      (int)ports->use_cache.n, ports->use_cache.at, n, ports->n_states);
}

/* The graph after all passes; packed where that is asked for and proven. */
static weft_status make_graph(wf_component *c, const wf_compile_options *o, bool may_pack,
                              weft_error *err) {
  wf_graph_destroy(c->graph);
  c->graph = NULL;
  WF_RETURN_IF_ERROR(wf_graph_build(&c->graph, c->model, err));
  for (size_t i = 0; i < o->n_dim_values; i++) {
    const wf_expr value = wf_expr_const(c->graph->exprs, o->dim_values[i].value);
    WF_RETURN_IF_ERROR(wf_graph_bind(c->graph, wf_str_of(o->dim_values[i].symbol), value, err));
  }
  for (size_t i = 0; o->ports && i < o->ports->n_fixed; i++) {
    const wf_fixed_port *f = &o->ports->fixed[i];
    WF_RETURN_IF_ERROR(wf_graph_fix_input(c->graph, f->name, f->number, err));
  }
  const bool is_merged = o->ports && o->ports->use_cache.n;
  if (is_merged) {
    WF_RETURN_IF_ERROR(wf_graph_fix_input(c->graph, o->ports->use_cache, 1, err));
  }
  if (c->info.n_inputs == 0 && c->info.n_outputs == 0) {
    report_graph(c, o, "graph as read");
    WF_RETURN_IF_ERROR(wf_native_describe(c, o->ports, err));
  }
  wf_folder folder = {.level = c->level, .graph = c->graph};
  const wf_pass_options passes = {
      .fold = wf_native_fold, .fold_user = &folder, .ports = o->ports, .makes_states = may_pack};
  WF_RETURN_IF_ERROR(wf_graph_optimize(c->graph, &passes, err));
  if (is_merged || (o->ports && o->ports->is_later_half)) {
    WF_RETURN_IF_ERROR(check_traced(c, o->ports, err));
  }
  c->packed = (wf_packed){.tokens = WF_EXPR_NONE,
                          .selected = WF_EXPR_NONE,
                          .input_ids = -1,
                          .inputs_embeds = -1,
                          .positions = -1,
                          .select = -1,
                          .logits = -1};
  if (o->ports && may_pack) {
    WF_RETURN_IF_ERROR(wf_graph_pack(c->graph, o->ports, &c->packed, err));
  }
  return WEFT_OK;
}

/* Attention with a state that no port names can't be run a row at a time. */
static bool needs_packing(const wf_component *c, const wf_compile_options *o) {
  bool needs = false;
  for (size_t i = 0; o->ports && o->ports->n_states == 0 && i < c->graph->order.n; i++) {
    needs |= c->graph->nodes.at[c->graph->order.at[i]]->op == WF_OP_WEFT_ATTENTION;
  }
  return needs;
}

static weft_status make_best_graph(wf_component *c, const wf_compile_options *o, weft_error *err) {
  WF_RETURN_IF_ERROR(make_graph(c, o, true, err));
  if (c->packed.is_packed || !needs_packing(c, o)) return WEFT_OK;
  char *why = wf_arena_strdup(c->arena, c->packed.why);
  if (!why) return wf_fail_memory(err, sizeof c->packed.why, "a component");
  WF_RETURN_IF_ERROR(make_graph(c, o, false, err));
  c->info.why_not_packed = why;
  return WEFT_OK;
}

static void add_mode_text(wf_buf *b, const wf_weight *w) {
  if (w->kind == WF_WK_DENSE) {
    wf_buf_printf(b, "%s weights", wf_dtype_name(w->parts[0].data->dtype));
  } else {
    wf_buf_printf(b, "%d-bit weights", w->bits);
  }
  if (w->kind == WF_WK_INT) {
    wf_buf_puts(b, ", uint8 activations (one scale a run)");
  } else if (w->packed.act.block_size > 0) {
    wf_buf_printf(b, ", int8 activations (block %d)", (int)w->packed.act.block_size);
  } else {
    wf_buf_puts(b, ", float32 activations");
  }
}

/* The precision that most of the weights have, and whether others differ. */
static weft_status describe_weights(wf_component *c, weft_error *err) {
  wf_buf b = {0};
  /* a handful of kinds at most, of which there may be thousands of weights */
  struct {
    const wf_weight *first;
    size_t bytes;
  } kinds[16];
  size_t n_kinds = 0, best_bytes = 0;
  const wf_weight *best = NULL;
  for (size_t i = 0; i < c->n_weights; i++) {
    const wf_weight *w = &c->weights[i];
    size_t k = 0;
    c->info.weight_bytes += w->packed.bytes;
    while (k < n_kinds && !(kinds[k].first->kind == w->kind && kinds[k].first->bits == w->bits &&
                            kinds[k].first->packed.act.block_size == w->packed.act.block_size)) {
      k++;
    }
    if (k == WF_ARRAY_LEN(kinds)) continue;
    if (k == n_kinds) {
      kinds[n_kinds].first = w;
      kinds[n_kinds++].bytes = 0;
    }
    kinds[k].bytes += w->packed.bytes;
    if (kinds[k].bytes > best_bytes) {
      best = kinds[k].first;
      best_bytes = kinds[k].bytes;
    }
  }
  const bool is_mixed = n_kinds > 1;
  if (best) {
    add_mode_text(&b, best);
  } else {
    wf_buf_puts(&b, "float32");
  }
  if (is_mixed) wf_buf_puts(&b, ", mixed");
  wf_buf_printf(&b, ", exact %s", c->exact ? "on" : "off");
  const char *text = wf_buf_cstr(&b);
  c->info.precision = text ? wf_arena_strdup(c->arena, text) : NULL;
  wf_buf_deinit(&b);
  return c->info.precision ? WEFT_OK : wf_fail_memory(err, b.n, "a component");
}

static weft_status compile_program(wf_component *c, const wf_compile_options *o, weft_error *err) {
  wf_weight_use *uses = wf_arena_calloc(c->arena, c->graph->nodes.n + 1, sizeof *uses);
  if (!uses) return wf_fail_memory(err, c->graph->nodes.n * sizeof *uses, "a component");
  WF_RETURN_IF_ERROR(wf_weights_collect(c, uses, err));
  c->uses = uses;
  WF_RETURN_IF_ERROR(wf_native_describe_states(c, o->ports, err));
  if (!c->packed.is_packed) {
    WF_RETURN_IF_ERROR(wf_op_check_graph(c->graph, err));
    WF_RETURN_IF_ERROR(wf_weights_pack(c, o, err));
    return wf_interp_compile(c, err);
  }
  WF_RETURN_IF_ERROR(wf_weights_pack(c, o, err));
  WF_RETURN_IF_ERROR(wf_lower(c, uses, err));
  for (size_t i = 0; i < c->n_steps; i++) {
    c->n_barriers += c->steps[i].barrier_before;
    c->n_barriers_small += c->steps[i].barrier_small;
  }
  return WEFT_OK;
}

static weft_status compile(wf_component *c, const wf_compile_options *o, weft_error *err) {
  WF_RETURN_IF_ERROR(wf_request_open_model(&c->model, o, err));
  WF_RETURN_IF_ERROR(make_best_graph(c, o, err));
  weft_error reason = {0};
  weft_status st = compile_program(c, o, &reason);
  if (st == WEFT_UNSUPPORTED && c->packed.is_packed) {
    /* Packed, but a size or a form stands in the way: the graph as it was runs a row at a time. */
    wf_weights_release(c);
    c->pack_map = (wf_map){0};
    c->pack_bytes = 0;
    c->n_steps = c->n_slots = 0;
    c->n_barriers = c->n_barriers_small = 0;
    char *why = wf_arena_strdup(c->arena, reason.what);
    if (!why) return wf_fail_memory(err, sizeof reason, "a component");
    WF_RETURN_IF_ERROR(make_graph(c, o, false, err));
    c->info.why_not_packed = why;
    st = compile_program(c, o, err);
  } else if (st != WEFT_OK && err) {
    wf_error_pass_on(err, &reason);
  }
  WF_RETURN_IF_ERROR(st);
  WF_RETURN_IF_ERROR(describe_weights(c, err));
  c->info.backend = "native";
  c->info.cpu_level = wf_cpu_level_name(c->level);
  c->info.is_packed = c->info.may_chunk = c->packed.is_packed;
  if (!c->info.why_not_packed) {
    c->info.why_not_packed = wf_arena_strdup(c->arena, c->packed.is_packed ? "" : c->packed.why);
    if (!c->info.why_not_packed) return wf_fail_memory(err, 1, "a component");
  }
  c->info.packed_bytes = c->pack_bytes;
  report_graph(c, o, "graph as run");
  if (o->report) {
    wf_buf_printf(o->report,
                  "form: %s%s%s\nsteps: %zu, barriers: %zu (decode %zu)\nprecision: %s\n",
                  c->info.is_packed ? "packed" : "row by row", c->info.is_packed ? "" : ": ",
                  c->info.why_not_packed, c->info.is_packed ? c->n_steps : c->graph->order.n,
                  (size_t)c->n_barriers, (size_t)c->n_barriers_small, c->info.precision);
  }
  WF_RETURN_IF_ERROR(wf_onnx_check(c->model, err));
  return wf_arena_seal(c->arena, err);
}

weft_status wf_native_compile(wf_component **result, const wf_compile_options *o, weft_error *err) {
  wf_component *c = wf_zalloc(sizeof *c);
  weft_status st = WEFT_OK;
  if (!c) return wf_fail_memory(err, sizeof *c, "a component");
  c->arena = wf_arena_create();
  if (!c->arena) {
    st = wf_fail_memory(err, sizeof *c, "a component");
    goto out;
  }
  c->level = o->level;
  c->kv = o->kv;
  c->exact = o->exact;
  c->has_ports = o->ports != NULL;
  c->map.embeds_input = c->ids_slot = c->embeds_slot = c->positions_slot = c->select_slot = -1;
  WF_TRY(compile(c, o, err));
  *result = c;
  c = NULL;
out:
  wf_native_release(c);
  return st;
}
