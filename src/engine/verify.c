/* SPDX-License-Identifier: Apache-2.0 */
/* weft_verify: the same graph through the native backend and through ONNX Runtime, every value of
 * every node beside its twin. The graph is copied to a temporary folder with its inner values as
 * outputs and int8 activations switched off, so that both compute the same thing. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "engine/verify.h"
#include "engine/verify_copy.h"

/* FUSED: native again, with nothing in the way of its optimiser; its outputs alone are seen. */
enum { NATIVE, ORT, N_SIDES, FUSED = N_SIDES, N_ALL_SIDES };
static const char *const side_names[N_ALL_SIDES] = {"native", "ort", "native"};
/* What may follow from one code that fell the other way. */
static const double tainted_bound = 3e-2;
/* What halves that are rounded at each node, or at the end alone, may make of a result. */
static const double half_bound = 5e-3;

typedef struct side {
  const wf_backend *backend;
  wf_component *component;
  const wf_component_info *info;
  wf_team *team;
  wf_backend_session *session;
  wf_view *inputs, *outputs;
  uint64_t owner;
} side;

/* What is known of one value of the graph. */
typedef struct known {
  wf_str name;
  int32_t at[N_SIDES]; /* index of the output */
  verify_difference difference;
  bool is_compared, is_tainted, is_beyond;
} known;

typedef struct verification {
  const weft_verify_options *v;
  weft_model_options o;
  wf_package *package;
  wf_onnx_model *model;
  wf_package *other_package; /* of the reference; NULL: the same */
  wf_onnx_model *other;
  char *temporary_dir, *other_temporary_dir, *copy_dir;
  wf_arena *arena;
  side sides[N_ALL_SIDES];
  verify_input *inputs;
  known *values;
  size_t n_values, n_nodes, n_beyond, n_fused, n_fused_beyond;
  double worst, worst_fused;
  wf_str first_fused; /* output that parts */
  verify_difference fused_difference;
  int32_t worst_node, first_node; /* -1: none */
  int32_t first_value;
  bool any_taint, any_half, any_quantiser;
  bool is_dynamic;     /* activations are rounded to codes of a range found at run time */
  weft_error no_nodes; /* why ONNX Runtime could not run the graph by itself; OK: it did */
  wf_buf text;
} verification;

/* ---- the two sides ------------------------------------------------------------------------- */

static weft_status open_side(verification *r, int which, const char *path, weft_error *err) {
  side *s = &r->sides[which];
  const wf_package *p = r->package;
  wf_cpu_level level;
  wf_compile_options compile;
  const size_t n_dims = p ? p->n_symbols : 0;
  struct wf_dim_value *dims = wf_arena_calloc(r->arena, n_dims + 1, sizeof *dims);
  if (!dims) return wf_fail_memory(err, n_dims * sizeof *dims, "a graph");
  for (size_t i = 0; i < n_dims; i++) {
    dims[i] = (struct wf_dim_value){p->symbols[i].symbol, p->symbols[i].value};
  }
  WF_RETURN_IF_ERROR(wf_cpu_level_get(&level, err));
  wf_compile_options_take(&compile, &r->o);
  compile.model = path;
  compile.trust_links = true; /* the links are ours */
  compile.exact = true;
  compile.kv = WF_KV_F32;
  compile.level = level;
  compile.cache_dir = NULL;
  compile.n_dim_values = n_dims;
  compile.dim_values = dims;
  WF_RETURN_IF_ERROR(
      wf_component_compile_by(side_names[which], &s->backend, &s->component, &compile, err));
  s->info = wf_component_describe(s->backend, s->component);
  s->inputs = wf_arena_calloc(r->arena, s->info->n_inputs + 1, sizeof *s->inputs);
  s->outputs = wf_arena_calloc(r->arena, s->info->n_outputs + 1, sizeof *s->outputs);
  if (!s->inputs || !s->outputs) return wf_fail_memory(err, 0, "ports");
  WF_RETURN_IF_ERROR(
      wf_team_create(&s->team, s->info->has_own_threads ? 1 : compile.n_threads, err));
  s->owner = wf_owner_mint();
  const uint64_t former = wf_owner_adopt(s->owner);
  const weft_status st =
      wf_backend_session_open(s->backend, &s->session, s->component, s->team, 1, err);
  wf_owner_adopt(former);
  return st;
}

static void close_side(side *s) {
  const uint64_t former = wf_owner_adopt(s->owner);
  if (s->session) wf_backend_session_close(s->backend, s->session);
  wf_owner_adopt(former);
  if (s->component) wf_component_release(s->backend, s->component);
  wf_team_destroy(s->team);
}

static weft_status run_side(verification *r, int which, weft_error *err) {
  side *s = &r->sides[which];
  const wf_component_info *first = r->sides[NATIVE].info;
  memset(s->outputs, 0, s->info->n_outputs * sizeof *s->outputs);
  for (size_t i = 0; i < s->info->n_inputs; i++) {
    for (size_t k = 0; k < first->n_inputs; k++) {
      if (strcmp(s->info->inputs[i].name, first->inputs[k].name) == 0) {
        s->inputs[i] = r->inputs[k].view;
      }
    }
  }
  const wf_row row = {.inputs = s->inputs, .outputs = s->outputs};
  const uint64_t former = wf_owner_adopt(s->owner);
  const weft_status st = wf_backend_session_run(s->backend, s->session, &row, 1, err);
  wf_owner_adopt(former);
  return st == WEFT_OK ? st : wf_fail_in(err, st, "%s: ", side_names[which]);
}

/* The largest window of a cache that has to hold it from the start; 0: there is none such. */
static int64_t fixed_window(const wf_onnx_graph *g) {
  int64_t most = 0;
  for (size_t i = 0; i < g->n_nodes; i++) {
    int64_t window = 0, is_fixed = 0;
    for (size_t k = 0; k < g->nodes[i].n_attrs; k++) {
      const wf_attr *a = &g->nodes[i].attrs[k];
      if (wf_str_is(a->name, "local_window_size")) window = a->i;
      if (wf_str_is(a->name, "sliding_window_cache")) is_fixed = a->i;
    }
    if (is_fixed && window > most && window <= 65536) most = window;
  }
  return most;
}

/* Lengths that a decoder may be asked for; some graphs are undefined for one or the other. */
static weft_status run_both(verification *r, weft_error *err) {
  const int64_t window = fixed_window(&r->model->graph);
  const int64_t lengths[][2] = {{window ? window : 3, 5}, {3, 5}, {0, 5}, {4, 1}, {0, 1}};
  weft_status st = WEFT_OK;
  r->inputs = wf_arena_calloc(r->arena, r->sides[NATIVE].info->n_inputs + 1, sizeof *r->inputs);
  if (!r->inputs) return wf_fail_memory(err, 0, "inputs");
  for (size_t i = 0; i < WF_ARRAY_LEN(lengths); i++) {
    const verify_ask ask = {.graph = &r->model->graph,
                            .package = r->package,
                            .info = r->sides[NATIVE].info,
                            .given = r->v->inputs,
                            .n_given = r->v->n_inputs,
                            .seed = r->v->seed ? r->v->seed : 1,
                            .past = lengths[i][0],
                            .fresh = lengths[i][1],
                            .arena = r->arena};
    WF_RETURN_IF_ERROR(wf_verify_make_inputs(&ask, r->inputs, err));
    st = run_side(r, NATIVE, err);
    if (st == WEFT_OK) st = run_side(r, ORT, err);
    if (st == WEFT_OK) return st;
  }
  r->no_nodes.struct_size = sizeof r->no_nodes;
  r->no_nodes.status = st;
  if (err) memcpy(r->no_nodes.what, err->what, sizeof r->no_nodes.what);
  /* A decoder with caches of a fixed size can still be walked: the backend knows how to fill them
   */
  if (r->package && r->v->n_tokens >= 0) return WEFT_OK;
  return wf_fail_in(err, st, "with the inputs at hand (give others with --input): ");
}

/* ---- values -------------------------------------------------------------------------------- */

static known *value_of(verification *r, wf_str name) {
  for (size_t i = 0; name.n && i < r->n_values; i++) {
    if (wf_str_eq(r->values[i].name, name)) return &r->values[i];
  }
  return NULL;
}

static int32_t output_named(const wf_component_info *info, wf_str name) {
  for (size_t i = 0; i < info->n_outputs; i++) {
    if (wf_str_eq(wf_str_of(info->outputs[i].name), name)) return (int32_t)i;
  }
  return -1;
}

static weft_status list_values(verification *r, weft_error *err) {
  const wf_onnx_graph *g = &r->model->graph;
  size_t n = 0;
  for (size_t i = 0; i < g->n_nodes; i++) n += g->nodes[i].n_outputs;
  r->values = wf_arena_calloc(r->arena, n + 1, sizeof *r->values);
  if (!r->values) return wf_fail_memory(err, n * sizeof *r->values, "values");
  for (size_t i = 0; i < g->n_nodes; i++) {
    for (size_t k = 0; k < g->nodes[i].n_outputs; k++) {
      const wf_str name = g->nodes[i].outputs[k];
      if (name.n == 0) continue;
      known *v = &r->values[r->n_values++];
      v->name = name;
      for (int s = 0; s < N_SIDES; s++) v->at[s] = output_named(r->sides[s].info, name);
    }
  }
  return WEFT_OK;
}

static bool is_random(wf_str op) {
  return wf_str_starts(op, WF_STR("Random")) || wf_str_eq(op, WF_STR("Multinomial")) ||
         wf_str_eq(op, WF_STR("Bernoulli"));
}

static bool is_quantiser(wf_str op) {
  return wf_str_find(op, WF_STR("Quantize"), 0) < op.n || wf_str_starts(op, WF_STR("QLinear"));
}

static const wf_view *view_of(const verification *r, const known *v, int s) {
  const wf_view *x = v->at[s] < 0 ? NULL : &r->sides[s].outputs[v->at[s]];
  return x && x->data && x->dtype != WF_DTYPE_STRING ? x : NULL;
}

static void tell_value(const verification *r, const known *v) {
  for (int s = 0; r->v->on_value && s < N_SIDES; s++) {
    const wf_view *x = view_of(r, v, s);
    size_t n = 0, n_bytes = 0;
    if (!x || !wf_dims_count(x->dims, (size_t)x->rank, &n) ||
        !wf_dtype_bytes(x->dtype, n, &n_bytes)) {
      continue;
    }
    const weft_tensor t = {.struct_size = sizeof t,
                           .name = r->sides[s].info->outputs[v->at[s]].name,
                           .dtype = (int)x->dtype,
                           .rank = x->rank,
                           .dims = x->dims,
                           .data = x->data,
                           .n_bytes = n_bytes};
    r->v->on_value(r->v->on_value_user, side_names[s], &t);
  }
}

/* Codes fell another way before: what follows is held to the quantiser's own grain. */
static void widen(verify_difference *d, wf_dtype t) {
  if (!d->is_comparable) return;
  if (d->is_code && t != WF_DTYPE_BOOL && d->error > 1.0) {
    d->error /= fabs(d->b) > 1.0 ? fabs(d->b) : 1.0;
  }
  if (d->bound < tainted_bound) d->bound = tainted_bound;
}

static void compare_value(verification *r, const wf_onnx_node *n, int32_t at, known *v,
                          bool is_tainted) {
  const wf_view *a = view_of(r, v, NATIVE), *b = view_of(r, v, ORT);
  if (!a || !b || is_random(n->op_type)) return;
  const double tolerance = r->v->tolerance > 0 ? r->v->tolerance : 1e-4;
  const bool is_quantised = is_quantiser(n->op_type);
  r->any_quantiser |= is_quantised;
  verify_difference d = wf_verify_compare(a, b, is_quantised, tolerance);
  v->is_compared = true;
  v->is_tainted = is_tainted;
  if (is_tainted) widen(&d, a->dtype);
  if (is_quantised && d.is_code && d.error > 0.0) v->is_tainted = r->any_taint = true;
  v->difference = d;
  v->is_beyond = !(d.error <= d.bound);
  r->any_half |= a->dtype == WF_DTYPE_F16 || a->dtype == WF_DTYPE_BF16;
  tell_value(r, v);
  if (!d.is_code && !v->is_beyond && d.error > r->worst) {
    r->worst = d.error;
    r->worst_node = at;
  }
  if (!v->is_beyond) return;
  r->n_beyond++;
  if (r->first_node < 0) {
    r->first_node = at;
    r->first_value = (int32_t)(v - r->values);
  }
}

static void compare_nodes(verification *r) {
  const wf_onnx_graph *g = &r->model->graph;
  for (size_t i = 0; i < g->n_nodes; i++) {
    const wf_onnx_node *n = &g->nodes[i];
    bool is_tainted = false, is_compared = false;
    for (size_t k = 0; k < n->n_inputs; k++) {
      const known *v = value_of(r, n->inputs[k]);
      is_tainted |= v && v->is_tainted;
    }
    for (size_t k = 0; k < n->n_outputs; k++) {
      known *v = value_of(r, n->outputs[k]);
      if (!v) continue;
      compare_value(r, n, (int32_t)i, v, is_tainted);
      is_compared |= v->is_compared;
    }
    r->n_nodes += is_compared;
  }
}

/* Outputs of the optimised program; what already parted node by node is not told twice. */
static weft_status compare_fused(verification *r, weft_error *err) {
  char *copy = NULL;
  weft_status st = WEFT_OK;
  const double tolerance = r->v->tolerance > 0 ? r->v->tolerance : 1e-4;
  const side *s = &r->sides[FUSED];
  WF_TRY(wf_verify_copy_graph(&copy, r->copy_dir, "optimised", r->model, false, err));
  WF_TRY(open_side(r, FUSED, copy, err));
  WF_TRY(run_side(r, FUSED, err));
  for (size_t i = 0; i < s->info->n_outputs; i++) {
    const wf_str name = wf_str_of(s->info->outputs[i].name);
    const known *v = value_of(r, name);
    const wf_view *a = &s->outputs[i];
    const wf_view *b = v ? view_of(r, v, ORT) : NULL;
    if (!v || !v->is_compared || v->is_beyond || !a->data || !b) continue;
    verify_difference d = wf_verify_compare(a, b, r->any_quantiser, tolerance);
    if (v->is_tainted || r->any_quantiser) widen(&d, a->dtype);
    if (r->any_half && !d.is_code && d.bound < half_bound) d.bound = half_bound;
    if (d.bound < v->difference.bound) d.bound = v->difference.bound;
    r->n_fused++;
    if (d.error <= d.bound) {
      if (!d.is_code && d.error > r->worst_fused) r->worst_fused = d.error;
      continue;
    }
    if (r->n_fused_beyond++ == 0) {
      r->first_fused = name;
      r->fused_difference = d;
    }
  }
out:
  wf_free(copy);
  return st;
}

static bool has_dynamic_codes(const wf_onnx_graph *g) {
  for (size_t i = 0; i < g->n_nodes; i++) {
    if (wf_str_eq(g->nodes[i].op_type, WF_STR("DynamicQuantizeLinear"))) return true;
  }
  return false;
}

/* ---- the report ---------------------------------------------------------------------------- */

static void put_number(wf_buf *b, double v) {
  /* three digits are plenty for an error */
  if (v == 0.0 || !isfinite(v)) {
    wf_buf_puts(b, v == 0.0 ? "0" : "inf");
    return;
  }
  int exponent = (int)floor(log10(fabs(v)));
  double digits = round(v / pow(10.0, exponent) * 100.0);
  if (fabs(digits) >= 1000.0) digits /= 10.0, exponent++;
  wf_buf_printf(b, "%s%d.%02de%d", v < 0 ? "-" : "", (int)fabs(digits) / 100,
                (int)fabs(digits) % 100, exponent);
}

static void put_view(wf_buf *b, const wf_view *v) {
  wf_buf_printf(b, "%s[", wf_dtype_name(v->dtype));
  for (int32_t d = 0; d < v->rank; d++) {
    wf_buf_printf(b, "%s%lld", d ? ", " : "", (long long)v->dims[d]);
  }
  wf_buf_puts(b, "]");
}

static void put_attributes(wf_buf *b, const wf_onnx_node *n) {
  for (size_t i = 0; i < n->n_attrs; i++) {
    const wf_attr *a = &n->attrs[i];
    wf_buf_printf(b, "%s%.*s=", i ? ", " : "", (int)a->name.n, a->name.at);
    if (a->kind == WF_ATTR_INT) {
      wf_buf_printf(b, "%lld", (long long)a->i);
    } else if (a->kind == WF_ATTR_FLOAT) {
      wf_buf_add_f64(b, (double)a->f);
    } else if (a->kind == WF_ATTR_STRING) {
      wf_buf_add_json_string(b, a->s, false);
    } else if (a->kind == WF_ATTR_INTS) {
      wf_buf_puts(b, "[");
      for (size_t k = 0; k < a->n && k < 8; k++) {
        wf_buf_printf(b, "%s%lld", k ? ", " : "", (long long)a->ints[k]);
      }
      wf_buf_puts(b, a->n > 8 ? ", ..]" : "]");
    } else {
      wf_buf_puts(b, "..");
    }
  }
}

static void put_index(wf_buf *b, const wf_view *v, int64_t at) {
  int64_t index[WF_VIEW_MAX_RANK];
  for (int32_t d = v->rank - 1; d >= 0; d--) {
    index[d] = v->dims[d] ? at % v->dims[d] : 0;
    at = v->dims[d] ? at / v->dims[d] : 0;
  }
  wf_buf_puts(b, "[");
  for (int32_t d = 0; d < v->rank; d++) {
    wf_buf_printf(b, "%s%lld", d ? ", " : "", (long long)index[d]);
  }
  wf_buf_puts(b, "]");
}

static void put_node(wf_buf *b, const wf_onnx_node *n, int32_t at) {
  wf_buf_printf(b, "#%d %.*s%s%.*s '%.*s'", (int)at, (int)n->domain.n,
                n->domain.at ? n->domain.at : "", n->domain.n ? "." : "", (int)n->op_type.n,
                n->op_type.at, (int)n->name.n, n->name.at ? n->name.at : "");
}

static void put_first(verification *r) {
  wf_buf *b = &r->text;
  const wf_onnx_node *n = &r->model->graph.nodes[r->first_node];
  const known *v = &r->values[r->first_value];
  const verify_difference *d = &v->difference;
  bool all_equal = true;
  wf_buf_puts(b, "first node that parts: ");
  put_node(b, n, r->first_node);
  wf_buf_puts(b, "\n  attributes: ");
  put_attributes(b, n);
  wf_buf_puts(b, "\n");
  for (size_t k = 0; k < n->n_inputs; k++) {
    const known *in = value_of(r, n->inputs[k]);
    if (!in || !in->is_compared) continue;
    all_equal &= in->difference.error == 0.0;
    wf_buf_printf(b, "  input '%.*s' ", (int)in->name.n, in->name.at);
    put_view(b, view_of(r, in, NATIVE));
    wf_buf_puts(b, in->difference.error == 0.0 ? " equal" : " off by ");
    if (in->difference.error != 0.0) put_number(b, in->difference.error);
    wf_buf_puts(b, in->is_beyond ? ", beyond what it may\n" : "\n");
  }
  const wf_view *a = view_of(r, v, NATIVE), *o = view_of(r, v, ORT);
  wf_buf_printf(b, "  its inputs were %s\n  output '%.*s' ",
                all_equal ? "still equal" : "no longer equal to the bit", (int)v->name.n,
                v->name.at);
  put_view(b, a);
  if (!d->is_comparable) {
    wf_buf_puts(b, ", but ort has ");
    put_view(b, o);
    wf_buf_puts(b, "\n");
    return;
  }
  wf_buf_puts(b, d->is_code ? " off by " : " off by (of its largest value) ");
  put_number(b, d->error);
  wf_buf_puts(b, ", allowed ");
  put_number(b, d->bound);
  wf_buf_puts(b, "\n  worst at ");
  put_index(b, a, d->worst);
  wf_buf_puts(b, ": native ");
  wf_buf_add_f64(b, d->a);
  wf_buf_puts(b, ", ort ");
  wf_buf_add_f64(b, d->b);
  wf_buf_puts(b, "\n");
}

static void put_head(verification *r) {
  wf_buf *b = &r->text;
  wf_buf_printf(b, "native (%s) beside ort, seed %llu\n", r->sides[NATIVE].info->cpu_level,
                (unsigned long long)(r->v->seed ? r->v->seed : 1));
  for (size_t i = 0; i < r->sides[NATIVE].info->n_inputs; i++) {
    const verify_input *in = &r->inputs[i];
    if (i >= 8 && i + 2 < r->sides[NATIVE].info->n_inputs) continue; /* past states, all alike */
    wf_buf_printf(b, "input %s ", in->name);
    put_view(b, &in->view);
    wf_buf_puts(b, in->is_given ? " given\n" : " made\n");
  }
}

static void put_table(verification *r) {
  wf_buf *b = &r->text;
  if (r->no_nodes.status != WEFT_OK) {
    wf_buf_printf(b, "nodes compared  none: %s\n", r->no_nodes.what);
    return;
  }
  wf_buf_printf(b, "nodes compared  %zu of %zu\n", r->n_nodes, r->model->graph.n_nodes);
  wf_buf_printf(b, "values beyond   %zu\n", r->n_beyond);
  wf_buf_puts(b, "worst within    ");
  put_number(b, r->worst);
  if (r->worst_node >= 0) {
    wf_buf_puts(b, " at ");
    put_node(b, &r->model->graph.nodes[r->worst_node], r->worst_node);
  }
  wf_buf_puts(b, "\n");
}

static void put_fused(verification *r) {
  wf_buf *b = &r->text;
  if (r->n_fused_beyond == 0) {
    wf_buf_printf(b, "optimised       %zu outputs alike, off by ", r->n_fused);
    put_number(b, r->worst_fused);
    wf_buf_puts(b, " at most\n");
    return;
  }
  const verify_difference *d = &r->fused_difference;
  wf_buf_printf(b, "optimised       %zu of %zu outputs part, first '%.*s'", r->n_fused_beyond,
                r->n_fused, (int)r->first_fused.n, r->first_fused.at);
  if (!d->is_comparable) {
    wf_buf_puts(b, ", of another type or shape\n");
    return;
  }
  wf_buf_puts(b, ", off by ");
  put_number(b, d->error);
  wf_buf_puts(b, ", allowed ");
  put_number(b, d->bound);
  wf_buf_puts(b, ": native ");
  wf_buf_add_f64(b, d->a);
  wf_buf_puts(b, ", ort ");
  wf_buf_add_f64(b, d->b);
  wf_buf_puts(b, "\n");
}

/* ---- the walk of a decoder ----------------------------------------------------------------- */

typedef struct walker {
  weft_model *model;
  weft_generation *g;
  float *logits;
} walker;

static weft_status open_walker(walker *w, const char *path, const weft_model_options *o,
                               wf_cpu_level level, int64_t *vocab, weft_error *err) {
  weft_generation_options options;
  weft_model_info info = {.struct_size = sizeof info};
  WF_RETURN_IF_ERROR(wf_model_open_at(&w->model, path, o, level, err));
  weft_model_describe(w->model, &info);
  weft_generation_options_init(&options, sizeof options);
  options.greedy = 1;
  options.ignore_eos = 1;
  WF_RETURN_IF_ERROR(weft_generation_create(&w->g, w->model, &options, err));
  *vocab = info.vocab;
  w->logits = wf_calloc((size_t)info.vocab, sizeof *w->logits);
  return w->logits ? WEFT_OK : wf_fail_memory(err, (size_t)info.vocab * 4, "logits");
}

static void close_walker(walker *w) {
  weft_generation_close(w->g);
  weft_model_close(w->model);
  wf_free(w->logits);
}

static int64_t best(const float *x, int64_t n) {
  int64_t at = 0;
  for (int64_t i = 1; i < n; i++) {
    if (x[i] > x[at]) at = i;
  }
  return at;
}

/* One step of the walk, in parts of the range of ONNX Runtime's logits. */
typedef struct walk_step {
  double off;    /* native's logits */
  double floor;  /* native with the kernels of another level, off native; 0: not asked */
  double margin; /* of its choice over native's; 0: the same */
  int64_t a, b;  /* what both chose */
} walk_step;

static double off_by(const float *x, const float *y, int64_t n, double range) {
  double diff = 0.0;
  for (int64_t i = 0; i < n; i++) diff = fmax(diff, wf_verify_apart((double)x[i], (double)y[i]));
  return diff / range;
}

static walk_step measure(const float *native, const float *ort, const float *other, int64_t n) {
  double low = INFINITY, high = -INFINITY;
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(ort[i])) continue;
    low = (double)ort[i] < low ? (double)ort[i] : low;
    high = (double)ort[i] > high ? (double)ort[i] : high;
  }
  const double range = high > low ? high - low : 1.0;
  walk_step s = {.a = best(native, n), .b = best(ort, n)};
  s.off = off_by(native, ort, n, range);
  s.floor = other ? off_by(other, native, n, range) : 0.0;
  s.margin = fabs((double)ort[s.b] - (double)ort[s.a]) / range;
  return s;
}

/* What the walk showed: logits within `bound`, and the same choice where it is no tie. Activations
 * that are rounded to 8 bits by their own range turn the last bit of a sum into a whole code, from
 * layer to layer. How far that carries in this model is measured: by how far native's logits lie
 * from its own with the kernels of another level, which differ in nothing but the order of sums.
 * ONNX Runtime, whose order is a third one, may lie FLOORS times as far. */
static bool judge_walk(verification *r, const walk_step *steps, int64_t n, double bound) {
  enum { FLOORS = 4 };
  double worst = 0.0, floor_ = 0.0;
  for (int64_t t = 0; t < n; t++) {
    worst = steps[t].off > worst ? steps[t].off : worst;
    floor_ = steps[t].floor > floor_ ? steps[t].floor : floor_;
  }
  const double allowed = FLOORS * floor_ > bound ? FLOORS * floor_ : bound;
  for (int64_t t = 0; t < n; t++) {
    const walk_step *s = &steps[t];
    if (isfinite(s->off) && s->off <= allowed && (s->a == s->b || s->margin <= 2.0 * allowed))
      continue;
    wf_buf_printf(&r->text,
                  "greedy          parts at token %lld: native %lld, ort %lld, logits off by ",
                  (long long)t, (long long)s->a, (long long)s->b);
    put_number(&r->text, s->off);
    wf_buf_puts(&r->text, " of their range, allowed ");
    put_number(&r->text, allowed);
    wf_buf_puts(&r->text, "\n");
    return false;
  }
  wf_buf_printf(&r->text, "greedy          %lld tokens alike, logits off by ", (long long)n);
  put_number(&r->text, worst);
  wf_buf_puts(&r->text, " of their range at most\n");
  if (r->is_dynamic) {
    wf_buf_puts(&r->text, "                another order of sums alone moves them by ");
    put_number(&r->text, floor_);
    wf_buf_puts(&r->text, ": activations are rounded to 8 bits by their range\n");
  }
  return true;
}

/* A level whose sums run in another order and that is not slow, if there is one. */
static wf_cpu_level other_level(wf_cpu_level level) {
  const wf_cpu_level best = wf_cpu_best();
  if (level != best) return best;
  return level > WF_CPU_AVX2 && wf_cpu_has(level, WF_CPU_AVX2) ? WF_CPU_AVX2 : WF_CPU_REF;
}

static weft_status walk(verification *r, const char *path, bool *holds, weft_error *err) {
  enum { OTHER = N_SIDES, N_WALKERS = N_SIDES + 1, PROMPT = 8 };
  weft_status st = WEFT_OK;
  walker w[N_WALKERS] = {{0}, {0}, {0}};
  char *folder = NULL;
  wf_cpu_level level;
  int64_t vocab[N_WALKERS] = {0, 0, 0};
  int32_t ids[PROMPT];
  const int64_t n_tokens = r->v->n_tokens < 0 ? 0 : r->v->n_tokens ? r->v->n_tokens : 16;
  const int n_walkers = r->is_dynamic ? N_WALKERS : N_SIDES;
  const wf_package *package = r->other_package ? r->other_package : r->package;
  const wf_onnx_model *model = r->other ? r->other : r->model;
  walk_step *steps = NULL;
  weft_model_options o = r->o;
  double bound = r->v->tolerance > 0 ? r->v->tolerance : 1e-4;
  *holds = true;
  if (n_tokens == 0) return WEFT_OK;
  if (r->any_half && bound < half_bound) bound = half_bound;
  if (r->any_taint && bound < tainted_bound) bound = tainted_bound;
  o.precision = WEFT_PRECISION_EXACT;
  o.kv = WEFT_KV_F32;
  o.backend = "native";
  WF_TRY(wf_cpu_level_get(&level, err));
  WF_TRY(open_walker(&w[NATIVE], path, &o, level, &vocab[NATIVE], err));
  if (r->is_dynamic) {
    WF_TRY(open_walker(&w[OTHER], path, &o, other_level(level), &vocab[OTHER], err));
  }
  WF_TRY(wf_verify_copy_package(&folder, r->copy_dir, package, model, err));
  o.backend = "ort";
  o.trust_links = 1;
  WF_TRY(open_walker(&w[ORT], folder, &o, level, &vocab[ORT], err));
  if (vocab[NATIVE] != vocab[ORT]) {
    wf_buf_puts(&r->text, "greedy          parts: the vocabularies differ\n");
    *holds = false;
    goto out;
  }
  steps = wf_calloc((size_t)n_tokens, sizeof *steps);
  if (!steps) WF_TRY(wf_fail_memory(err, (size_t)n_tokens * sizeof *steps, "a walk"));
  for (int i = 0; i < PROMPT; i++) {
    ids[i] = (int32_t)((r->v->seed * 31 + (uint64_t)i * 977 + 3) % (uint64_t)vocab[NATIVE]);
  }
  for (int s = 0; s < n_walkers; s++) WF_TRY(weft_generation_append(w[s].g, ids, PROMPT, err));
  for (int64_t t = 0; t < n_tokens; t++) {
    for (int s = 0; s < n_walkers; s++) {
      WF_TRY(weft_generation_logits(w[s].g, w[s].logits, (size_t)vocab[s], err));
    }
    steps[t] = measure(w[NATIVE].logits, w[ORT].logits, w[OTHER].logits, vocab[ORT]);
    const int32_t next = (int32_t)steps[t].a;
    for (int s = 0; s < n_walkers; s++) WF_TRY(weft_generation_append(w[s].g, &next, 1, err));
  }
  *holds = judge_walk(r, steps, n_tokens, bound);
out:
  for (int s = 0; s < N_WALKERS; s++) close_walker(&w[s]);
  wf_free(folder);
  wf_free(steps);
  return st;
}

/* ---- the whole ----------------------------------------------------------------------------- */

void weft_verify_options_init(weft_verify_options *options, size_t size) {
  const weft_verify_options defaults = {.struct_size = size, .seed = 1};
  if (size > sizeof defaults) size = sizeof defaults;
  memcpy(options, &defaults, size);
}

/* A package or an ONNX file, read. */
static weft_status open_source(const verification *r, const char *path, wf_package **package,
                               char **temporary_dir, wf_onnx_model **model, weft_error *err) {
  const char *file = path;
  if (!wf_is_onnx(path)) {
    WF_RETURN_IF_ERROR(wf_package_open_or_import(package, temporary_dir, path, &r->o, err));
    file = (*package)->model;
  }
  /* a package has confined its links already */
  const wf_onnx_options onnx = {.trust_links = r->o.trust_links != 0 || *package};
  return wf_onnx_open(model, file, &onnx, err);
}

weft_status weft_verify(const char *path, const weft_model_options *options,
                        const weft_verify_options *verify, char **text, weft_error *err) {
  weft_status st = WEFT_OK;
  weft_verify_options v;
  char *copy = NULL;
  bool holds = true;
  verification r = {.worst_node = -1, .first_node = -1, .first_value = -1};
  weft_verify_options_init(&v, sizeof v);
  if (verify) memcpy(&v, verify, verify->struct_size < sizeof v ? verify->struct_size : sizeof v);
  r.v = &v;
  wf_model_options_take(&r.o, options);
  r.arena = wf_arena_create();
  if (!r.arena) return wf_fail_memory(err, 0, "a comparison");
  WF_TRY(open_source(&r, path, &r.package, &r.temporary_dir, &r.model, err));
  if (v.reference) {
    WF_TRY(open_source(&r, v.reference, &r.other_package, &r.other_temporary_dir, &r.other, err));
  }
  WF_TRY(wf_verify_copy_dir(&r.copy_dir, err));
  WF_TRY(wf_verify_copy_graph(&copy, r.copy_dir, "model", r.model, true, err));
  WF_TRY(open_side(&r, NATIVE, copy, err));
  if (r.other) {
    wf_free(copy);
    copy = NULL;
    WF_TRY(wf_verify_copy_graph(&copy, r.copy_dir, "reference", r.other, true, err));
  }
  WF_TRY(open_side(&r, ORT, copy, err));
  WF_TRY(run_both(&r, err));
  WF_TRY(list_values(&r, err));
  r.is_dynamic = has_dynamic_codes(&r.model->graph);
  if (r.no_nodes.status == WEFT_OK) compare_nodes(&r);
  put_head(&r);
  if (r.first_node >= 0) put_first(&r);
  put_table(&r);
  if (r.no_nodes.status == WEFT_OK) {
    WF_TRY(compare_fused(&r, err));
    put_fused(&r);
  }
  const bool walks = r.package && r.package->ports.logits.n && v.n_tokens >= 0;
  if (walks) WF_TRY(walk(&r, path, &holds, err));
  holds = holds && r.n_beyond + r.n_fused_beyond == 0 && (r.n_nodes > 0 || walks);
  wf_buf_printf(&r.text, "verdict         %s\n", holds ? "alike" : "NOT alike");
  *text = wf_buf_take(&r.text);
  if (!*text) {
    st = wf_fail_memory(err, 0, "a report");
  } else if (!holds) {
    st = wf_fail(err, WEFT_MISMATCH, "look at the first node that parts",
                 "the native backend and ONNX Runtime do not agree on '%s'", path);
  }
out:
  for (int s = 0; s < N_ALL_SIDES; s++) close_side(&r.sides[s]);
  wf_onnx_close(r.model);
  wf_onnx_close(r.other);
  wf_package_close(r.package);
  wf_package_close(r.other_package);
  wf_verify_copy_remove(r.copy_dir);
  wf_temporary_remove(r.temporary_dir);
  wf_temporary_remove(r.other_temporary_dir);
  wf_arena_destroy(r.arena);
  wf_buf_deinit(&r.text);
  wf_free(copy);
  return st;
}
