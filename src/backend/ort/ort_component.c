/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling: our own reader judges the file first, then the library gets it. */
#include <stdlib.h>
#include <string.h>

#include "backend/native/fold.h"
#include "backend/ort/ort.h"
#include "backend/request.h"
#include "base/file.h"
#include "base/process.h"

const wf_backend wf_backend_ort = {
    .name = "ort",
    .compile = ort_compile,
    .release = ort_component_release,
    .info = ort_info,
    .open = ort_open,
    .run = ort_run,
    .close = ort_close,
    .counters = ort_counters,
    .state_open = ort_state_open,
    .state_truncate = ort_state_truncate,
    .state_copy = ort_state_copy,
    .state_bytes = ort_state_bytes,
    .state_close = ort_state_close,
    .rest = ort_rest,
    .list_providers = ort_providers_list,
};

const wf_component_info *ort_info(const wf_component *c) { return &c->info; }

/* ---- what the graph says -------------------------------------------------------------------- */

static weft_status take_fixed(wf_component *c, const wf_graph *g, const wf_fixed_port *f,
                              weft_error *err) {
  const int32_t id = wf_graph_find(g, f->name);
  const wf_value *v = id >= 0 ? wf_graph_value(g, id) : NULL;
  if (!v || !v->is_input) return WEFT_OK;
  ort_fixed_input *fixed = &c->fixed[c->n_fixed++];
  *fixed = (ort_fixed_input){.dtype = v->dtype, .rank = v->rank, .number = f->number};
  fixed->name = wf_arena_strndup(c->arena, f->name.at, f->name.n);
  return fixed->name ? WEFT_OK : wf_fail_memory(err, f->name.n, "a port");
}

/* A merged decoder's choice of branch is made anew for each run; the graph that we look at is the
 * one with a past. */
static weft_status take_branch(wf_component *c, wf_graph *g, wf_str name, weft_error *err) {
  const int32_t id = wf_graph_find(g, name);
  const wf_value *v = id >= 0 ? wf_graph_value(g, id) : NULL;
  if (!v || !v->is_input) return WEFT_OK;
  c->branch = (ort_fixed_input){.dtype = v->dtype, .rank = v->rank};
  c->branch.name = wf_arena_strndup(c->arena, name.at, name.n);
  if (!c->branch.name) return wf_fail_memory(err, name.n, "a port");
  return wf_graph_fix_input(g, name, 1, err);
}

/* A state may be appended to where it is when nothing but a GroupQueryAttention sees it: that
 * operator takes past and present in one buffer and the number of tokens from another input. */
static bool is_appended(const wf_graph *g, const wf_port_map *map, const wf_component_info *info,
                        size_t state) {
  const int32_t in = map->past_inputs[state], out = map->present_outputs[state];
  if (in < 0 || out < 0) return false;
  const int32_t past = wf_graph_find(g, wf_str_of(info->inputs[in].name));
  const int32_t present = wf_graph_find(g, wf_str_of(info->outputs[out].name));
  const wf_value *v = past >= 0 ? wf_graph_value(g, past) : NULL;
  if (!v || v->n_users != 1 || present < 0) return false;
  const wf_value *made = wf_graph_value(g, present);
  const wf_node *n = wf_graph_producer(g, present);
  const int32_t which = (int32_t)(state % 2);
  return n && n->op == WF_OP_MS_GROUP_QUERY_ATTENTION && v->users[0] == n->id &&
         wf_node_input(n, 3 + which) == past && wf_node_output(n, 1 + which) == present &&
         made->n_users == 0;
}

/* A state of a fixed size as one head of one token. */
static weft_status describe_carried(const wf_component *c, size_t i, ort_state_port *p,
                                    weft_error *err) {
  size_t n = 0;
  WF_RETURN_IF_ERROR(wf_port_map_carried(&c->info, &c->map, i, &n, err));
  const wf_port *port = &c->info.inputs[c->map.carried_inputs[i]];
  *p = (ort_state_port){.past = port->name,
                        .present = c->info.outputs[c->map.carried_outputs[i]].name,
                        .dtype = port->dtype,
                        .elem = (size_t)wf_dtype_bits(port->dtype) / 8,
                        .heads = 1,
                        .dim = (int64_t)n,
                        .fixed_rank = (size_t)port->rank};
  for (int32_t d = 0; d < port->rank; d++) p->fixed_dims[d] = d == 0 ? 1 : port->dims[d];
  if (p->elem > 0) return WEFT_OK;
  return wf_fail(err, WEFT_UNSUPPORTED, "", "the state '%s' has elements of type %s", port->name,
                 wf_dtype_name(port->dtype));
}

static weft_status describe_states(wf_component *c, const wf_graph *g, const wf_ports *ports,
                                   weft_error *err) {
  wf_component_info *info = &c->info;
  const size_t n = ports ? ports->n_states : 0;
  wf_state_layer *layers = wf_arena_calloc(c->arena, n + 1, sizeof *layers);
  wf_state_group *groups = wf_arena_calloc(c->arena, 1, sizeof *groups);
  const size_t n_carried = ports ? ports->n_carried : 0;
  c->states = wf_arena_calloc(c->arena, 2 * n + n_carried + 1, sizeof *c->states);
  if (!layers || !groups || !c->states) return wf_fail_memory(err, n * sizeof *layers, "states");
  size_t token_bytes = 0;
  c->is_state_in_place = n > 0;
  for (size_t i = 0; i < n; i++) {
    wf_packed_state s = {0};
    WF_RETURN_IF_ERROR(wf_port_map_state(info, &c->map, i, &s, err));
    layers[i].kv = (wf_kv_layer){.type = s.dtype == WF_DTYPE_F32 ? WF_KV_F32 : WF_KV_F16,
                                 .kv_heads = s.n_kv_heads,
                                 .head_dim = s.head_dim,
                                 .head_dim_v = s.head_dim_v,
                                 .block_tokens = WF_KV_BLOCK_TOKENS};
    for (size_t j = 0; j < 2; j++) {
      const int32_t in = c->map.past_inputs[2 * i + j], out = c->map.present_outputs[2 * i + j];
      ort_state_port *p = &c->states[2 * i + j];
      if (out < 0) {
        return wf_fail(err, WEFT_PACKAGE_INVALID, "export the model with its present state",
                       "the state '%s' has no output", info->inputs[in].name);
      }
      const wf_port *port = &info->inputs[in];
      *p = (ort_state_port){.past = port->name,
                            .present = info->outputs[out].name,
                            .dtype = port->dtype,
                            .elem = (size_t)wf_dtype_bits(port->dtype) / 8,
                            .heads = s.n_kv_heads,
                            .dim = j ? s.head_dim_v : s.head_dim};
      if (p->elem == 0) {
        return wf_fail(err, WEFT_UNSUPPORTED, "", "the state '%s' has elements of type %s",
                       port->name, wf_dtype_name(port->dtype));
      }
      token_bytes += (size_t)(p->heads * p->dim) * p->elem;
      c->is_state_in_place = c->is_state_in_place && is_appended(g, &c->map, info, 2 * i + j);
    }
  }
  c->n_states = 2 * n;
  for (size_t i = 0; i < n_carried; i++) {
    WF_RETURN_IF_ERROR(describe_carried(c, i, &c->states[2 * n + i], err));
  }
  c->n_carried = n_carried;
  info->is_state_in_place = c->is_state_in_place;
  info->why_not_in_place =
      n == 0 || c->is_state_in_place ? "" : "the graph makes its present anew from its past";
  groups[0].block_bytes = token_bytes * WF_KV_BLOCK_TOKENS * (c->is_state_in_place ? 1 : 2);
  info->layers = layers;
  info->groups = groups;
  info->n_layers = n;
  info->n_groups = n ? 1 : 0;
  info->keeps_state = n + n_carried > 0;
  return WEFT_OK;
}

/* Rows of the smallest rotary table that a node reads by position. */
static int64_t table_rows(const wf_graph *g) {
  int64_t least = 0;
  for (size_t i = 0; i < g->nodes.n; i++) {
    const wf_node *n = g->nodes.at[i];
    if (!n || n->is_dead) continue;
    const int32_t at = n->op == WF_OP_MS_GROUP_QUERY_ATTENTION ? 7
                       : n->op == WF_OP_MS_ROTARY_EMBEDDING    ? 2
                                                               : -1;
    const int32_t id = at >= 0 ? wf_node_input(n, at) : -1;
    const wf_value *v = id >= 0 ? wf_graph_value(g, id) : NULL;
    if (!v || !v->tensor || v->tensor->rank < 1) continue;
    if (least == 0 || v->tensor->dims[0] < least) least = v->tensor->dims[0];
  }
  return least;
}

/* Whether a prompt may be read in parts: proven as native proves it, on a graph of its own. */
static weft_status prove_cut(wf_component *c, wf_graph *g, const wf_ports *ports, weft_error *err) {
  wf_packed packed = {0};
  wf_folder folder = {.level = c->level, .graph = g};
  const wf_pass_options passes = {.fold = wf_native_fold, .fold_user = &folder, .ports = ports};
  weft_error why = {0};
  weft_status st = wf_graph_optimize(g, &passes, &why);
  if (st == WEFT_OK) st = wf_graph_pack(g, ports, &packed, &why);
  if (st == WEFT_OUT_OF_MEMORY) {
    wf_error_pass_on(err, &why);
    return st;
  }
  /* A graph whose proof fails is run whole; why it failed is no fault of the model's. */
  c->info.may_chunk = st == WEFT_OK && packed.is_packed;
  return WEFT_OK;
}

static bool prunes_head(const wf_component_info *info) {
  for (size_t i = 0; i < info->n_outputs; i++) {
    const wf_port *p = &info->outputs[i];
    if (p->role == WF_PORT_LOGITS) return p->rank == 2 || (p->rank == 3 && p->dims[1] == 1);
  }
  return false;
}

static weft_status check_ports(const wf_component_info *info, weft_error *err) {
  for (size_t i = 0; i < info->n_inputs + info->n_outputs; i++) {
    const bool is_input = i < info->n_inputs;
    const wf_port *p = is_input ? &info->inputs[i] : &info->outputs[i - info->n_inputs];
    if (p->dtype == WF_DTYPE_STRING || (is_input && p->dtype == WF_DTYPE_UNDEFINED)) {
      return wf_fail(err, WEFT_UNSUPPORTED, "", "%s '%s' is %s, not a tensor of numbers",
                     is_input ? "input" : "output", p->name,
                     p->dtype == WF_DTYPE_STRING ? "a tensor of strings" : "of no known type");
    }
  }
  return WEFT_OK;
}

static weft_status describe(wf_component *c, const wf_compile_options *o, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_graph *g = NULL;
  ort_divisions divisions = {0};
  WF_TRY(wf_graph_build(&g, c->model, err));
  bool goes_on = false;
  WF_TRY(ort_judge(g, &divisions, &goes_on, err));
  c->loop_limit_ms = goes_on ? ORT_LOOP_LIMIT_MS : 0;
  if (divisions.n) WF_TRY(ort_guard(c->model, &divisions, &c->guarded, err));
  for (size_t i = 0; i < o->n_dim_values; i++) {
    const wf_expr value = wf_expr_const(g->exprs, o->dim_values[i].value);
    WF_TRY(wf_graph_bind(g, wf_str_of(o->dim_values[i].symbol), value, err));
  }
  const size_t n_fixed = o->ports ? o->ports->n_fixed : 0;
  c->fixed = wf_arena_calloc(c->arena, n_fixed + 1, sizeof *c->fixed);
  if (!c->fixed) WF_TRY(wf_fail_memory(err, n_fixed * sizeof *c->fixed, "ports"));
  for (size_t i = 0; i < n_fixed; i++) {
    WF_TRY(take_fixed(c, g, &o->ports->fixed[i], err));
    WF_TRY(wf_graph_fix_input(g, o->ports->fixed[i].name, o->ports->fixed[i].number, err));
  }
  if (o->ports && o->ports->use_cache.n) WF_TRY(take_branch(c, g, o->ports->use_cache, err));
  WF_TRY(wf_port_map_build(c->arena, g, o->ports, &c->info, &c->map, err));
  WF_TRY(check_ports(&c->info, err));
  WF_TRY(describe_states(c, g, o->ports, err));
  c->prunes_head = prunes_head(&c->info);
  c->info.max_positions = table_rows(g);
  if (o->report) {
    wf_buf_puts(o->report, "== graph as read\n");
    wf_graph_print(g, o->report);
  }
  if (o->ports) WF_TRY(prove_cut(c, g, o->ports, err));
out:
  wf_vec_free(&divisions);
  wf_graph_destroy(g);
  return st;
}

/* ---- the library's side --------------------------------------------------------------------- */

/* Does every external data file lie where its name says, beside the model, without a link? Then the
 * library may open and map it by itself: it refuses links out of the model's folder. */
static weft_status is_plain(const wf_onnx_model *m, bool *result, weft_error *err) {
  weft_status st = WEFT_OK;
  char *folder = wf_path_dir(m->maps[0]->path), *name = NULL, *expected = NULL;
  char real[4096];
  *result = true;
  if (!folder) WF_TRY(wf_fail_memory(err, 0, "a path"));
  const bool has_folder = realpath(folder, real) != NULL;
  for (size_t i = 0; i < m->n_externals && *result; i++) {
    wf_buf b = {0};
    wf_buf_add_str(&b, m->externals[i].location);
    name = wf_buf_take(&b);
    expected = name ? wf_path_join(real, name) : NULL;
    if (!expected) WF_TRY(wf_fail_memory(err, 0, "a path"));
    *result = has_folder && strcmp(expected, m->externals[i].map->path) == 0;
    wf_free(name);
    wf_free(expected);
    name = expected = NULL;
  }
out:
  wf_free(folder);
  wf_free(name);
  wf_free(expected);
  return st;
}

/* A tensor that the library may read where it is: aligned as its elements are, else a copy. */
static void *aligned_data(wf_component *c, const wf_tensor *t) {
  const size_t elem = (size_t)wf_dtype_bits(t->dtype) / 8;
  if (elem < 2 || (uintptr_t)t->data % (elem < 8 ? elem : 8) == 0) {
    return wf_unconst(t->data); /* only read: these are the model's weights */
  }
  void *copy = wf_arena_alloc(c->arena, t->n_bytes);
  if (copy) memcpy(copy, t->data, t->n_bytes);
  return copy;
}

/* Where links lead elsewhere, initializers are given out of our mappings by name: what our
 * confinement of links has let pass is not judged again. */
static weft_status give_values(wf_component *c, weft_error *err) {
  const wf_onnx_graph *g = &c->model->graph;
  ort_library *lib = c->lib;
  weft_status st = WEFT_OK;
  size_t n = 0;
  const char **names = wf_calloc(g->n_initializers + 1, sizeof *names);
  ort_value **values = wf_calloc(g->n_initializers + 1, sizeof *values);
  if (!names || !values) WF_TRY(wf_fail_memory(err, g->n_initializers * 8, "external data"));
  for (size_t i = 0; i < g->n_initializers; i++) {
    const wf_tensor *t = &g->initializers[i];
    if (!t->map || t->map == c->model->maps[0] || !t->data) continue;
    names[n] = wf_arena_strndup(c->arena, t->name.at, t->name.n);
    void *data = aligned_data(c, t);
    if (!names[n] || !data) WF_TRY(wf_fail_memory(err, t->n_bytes, "external data"));
    ORT_TRY(lib, err,
            create_tensor_over(c->memory, data, t->n_bytes, t->dims, (size_t)t->rank, (int)t->dtype,
                               &values[n]),
            "takes no initializer '%s'", names[n]);
    n++;
  }
  if (n) {
    ORT_TRY(lib, err, add_external_values(c->options, names, (const ort_value *const *)values, n),
            "takes no external data");
  }
out:
  for (size_t i = 0; values && values[i]; i++) lib->api.release_value(values[i]);
  wf_free(names);
  wf_free(values);
  return st;
}

static weft_status make_options(wf_component *c, const wf_compile_options *o, weft_error *err) {
  weft_status st = WEFT_OK;
  ort_library *lib = c->lib;
  static const char *const entries[][2] = {
      {"session.intra_op.allow_spinning", "0"}, /* an idle thread costs nothing */
      {"session.inter_op.allow_spinning", "0"},
      {"session.use_env_allocators", "1"}, /* the bounded arena that all sessions share */
  };
  ORT_TRY(lib, err, create_session_options(&c->options), "makes no session options");
  ORT_TRY(lib, err, set_execution_mode(c->options, ORT_EXECUTION_SEQUENTIAL), "execution mode");
  ORT_TRY(lib, err, set_optimization(c->options, ORT_OPTIMIZE_ALL), "optimisation level");
  ORT_TRY(lib, err, set_threads_inside(c->options, o->n_threads > 0 ? o->n_threads : 1),
          "number of threads");
  ORT_TRY(lib, err, set_threads_between(c->options, 1), "number of threads");
  /* A pattern is kept for every shape, and a decoder's shapes grow with each token. */
  if (c->has_ports) ORT_TRY(lib, err, disable_memory_pattern(c->options), "memory pattern");
  for (size_t i = 0; i < WF_ARRAY_LEN(entries); i++) {
    ORT_TRY(lib, err, set_session_entry(c->options, entries[i][0], entries[i][1]), "option '%s'",
            entries[i][0]);
  }
  if (o->exact) { /* else a dequantised product is fused with int8 activations */
    ORT_TRY(lib, err, set_session_entry(c->options, "session.qdq_matmulnbits_accuracy_level", "1"),
            "accuracy");
  }
  ORT_TRY(lib, err, create_cpu_memory_info(ORT_ALLOCATOR_ARENA, ORT_MEMORY_DEFAULT, &c->memory),
          "can't describe memory");
  WF_TRY(is_plain(c->model, &c->takes_file, err));
  if (c->guarded.n || c->model->maps[0]->taken) c->takes_file = false; /* taken: it is a text */
  if (!c->takes_file) WF_TRY(give_values(c, err));
  st = ort_providers_add(c, o, err);
out:
  return st;
}

weft_status ort_session_make(wf_component *c, ort_object **result, weft_error *err) {
  weft_status st = WEFT_OK;
  ort_session *session = NULL;
  const wf_map *file = c->model->maps[0];
  if (c->takes_file) {
    ORT_TRY(c->lib, err, create_session(c->env, file->path, c->options, &session), "refuses '%s'",
            file->path);
  } else {
    const void *bytes = c->guarded.n ? (const void *)c->guarded.at : file->at;
    const size_t n_bytes = c->guarded.n ? c->guarded.n : file->n_bytes;
    ORT_TRY(c->lib, err, create_session_of_bytes(c->env, bytes, n_bytes, c->options, &session),
            "refuses '%s'", file->path);
  }
  *result = ort_object_create(c->lib, ORT_KIND_SESSION, session, &c->home);
  if (!*result) st = wf_fail_memory(err, sizeof **result, "a session");
out:
  return st;
}

static weft_status say_precision(wf_component *c, weft_error *err) {
  wf_buf b = {0};
  wf_buf_printf(&b, "as the graph says (ONNX Runtime %s)", c->lib->version);
  const char *text = wf_buf_cstr(&b);
  c->info.precision = text ? wf_arena_strdup(c->arena, text) : NULL;
  wf_buf_deinit(&b);
  return c->info.precision ? WEFT_OK : wf_fail_memory(err, 0, "a component");
}

static weft_status compile(wf_component *c, const wf_compile_options *o, weft_error *err) {
  WF_RETURN_IF_ERROR(ort_library_open(&c->lib, o->library, err));
  c->home.lib = c->lib;
  WF_RETURN_IF_ERROR(wf_request_open_model(&c->model, o, err));
  WF_RETURN_IF_ERROR(describe(c, o, err));
  c->info.backend = "ort";
  c->info.cpu_level = "its own";
  c->info.why_not_packed = "ONNX Runtime runs a row at a time";
  c->info.cut_changes_bits = c->info.has_own_threads = true;
  for (size_t i = 0; i < c->model->graph.n_initializers; i++)
    c->info.weight_bytes += c->model->graph.initializers[i].n_bytes;
  WF_RETURN_IF_ERROR(say_precision(c, err));
  WF_RETURN_IF_ERROR(ort_env_acquire(c->lib, &c->env, err));
  WF_RETURN_IF_ERROR(make_options(c, o, err));
  if (o->progress) o->progress(o->progress_user, 0, 1, "loading into ONNX Runtime");
  /* Made in any case: what can't be loaded fails here and not in the worker. */
  WF_RETURN_IF_ERROR(ort_session_make(c, &c->session, err));
  if (!c->info.is_shared) {
    ort_object_unref(c->session);
    c->session = NULL;
  }
  if (o->progress) o->progress(o->progress_user, 1, 1, "loading into ONNX Runtime");
  if (o->report) {
    wf_buf_printf(o->report, "form: row by row: %s\nprecision: %s\n", c->info.why_not_packed,
                  c->info.precision);
    if (c->info.keeps_state) {
      wf_buf_printf(o->report, "state in place: %s%s\n",
                    c->info.is_state_in_place ? "yes" : "no: ", c->info.why_not_in_place);
    }
  }
  WF_RETURN_IF_ERROR(wf_onnx_check(c->model, err));
  return wf_arena_seal(c->arena, err);
}

/* The last of all objects has gone: what they stood on goes too, the environment last. */
static void destroy_home(ort_object *home) {
  wf_component *c = home->handle;
  if (c->options) c->lib->api.release_session_options(c->options);
  if (c->memory) c->lib->api.release_memory_info(c->memory);
  if (c->env) ort_env_release(c->lib);
  wf_buf_deinit(&c->guarded);
  wf_onnx_close(c->model);
  wf_arena_destroy(c->arena);
  pthread_mutex_destroy(&c->lock);
  wf_free(c);
}

weft_status ort_compile(wf_component **result, const wf_compile_options *o, weft_error *err) {
  wf_component *c = wf_zalloc(sizeof *c);
  weft_status st = WEFT_OK;
  if (!c) return wf_fail_memory(err, sizeof *c, "a component");
  ort_object_init(&c->home, NULL, ORT_KIND_ENVIRONMENT, c, destroy_home);
  pthread_mutex_init(&c->lock, NULL);
  c->level = o->level;
  c->has_ports = o->ports != NULL;
  c->arena = wf_arena_create();
  if (!c->arena) WF_TRY(wf_fail_memory(err, sizeof *c, "a component"));
  WF_TRY(compile(c, o, err));
  *result = c;
  c = NULL;
out:
  ort_component_release(c);
  return st;
}

/* ---- release from any thread ----------------------------------------------------------------- */

weft_status ort_check_owner(const ort_returned *r, const char *what, weft_error *err) {
  const uint64_t mine = wf_owner_token();
  if (WF_LIKELY(r->owner == mine)) return WEFT_OK;
  return wf_fail(err, WEFT_WRONG_THREAD, "use it on the thread that opened it",
                 "%s of owner %llu was used by owner %llu", what, (unsigned long long)r->owner,
                 (unsigned long long)mine);
}

void ort_give_back(wf_component *c, ort_returned *r) {
  if (r->owner != wf_owner_token()) {
    pthread_mutex_lock(&c->lock);
    const bool is_late = c->is_closed; /* nobody will come for it any more */
    if (!is_late) {
      r->next = c->queue;
      c->queue = r;
    }
    pthread_mutex_unlock(&c->lock);
    /* relaxed: counts to be read when all is quiet */
    atomic_fetch_add_explicit(is_late ? &c->lib->n_quarantined : &c->lib->n_queued, 1,
                              memory_order_relaxed);
    if (!is_late) return;
  }
  r->free_now(r);
}

void ort_take_back(wf_component *c) {
  const uint64_t mine = wf_owner_token();
  ort_returned *taken = NULL;
  pthread_mutex_lock(&c->lock);
  for (ort_returned **at = &c->queue; *at;) {
    ort_returned *r = *at;
    if (r->owner != mine) {
      at = &r->next;
      continue;
    }
    *at = r->next;
    r->next = taken;
    taken = r;
  }
  pthread_mutex_unlock(&c->lock);
  while (taken) {
    ort_returned *r = taken;
    taken = r->next;
    r->free_now(r);
  }
}

void ort_component_release(wf_component *c) {
  if (!c) return;
  pthread_mutex_lock(&c->lock);
  ort_returned *left = c->queue;
  c->queue = NULL;
  c->is_closed = true;
  pthread_mutex_unlock(&c->lock);
  while (left) {
    ort_returned *r = left;
    left = r->next;
    /* relaxed: a count to be read when all is quiet */
    atomic_fetch_add_explicit(&c->lib->n_quarantined, 1, memory_order_relaxed);
    r->free_now(r);
  }
  ort_object_unref(c->session);
  ort_object_unref(&c->home);
}
