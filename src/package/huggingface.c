/* SPDX-License-Identifier: Apache-2.0 */
/* A folder with config.json and ONNX files in it or in onnx/, as optimum and transformers.js write
 * it. The ports carry the names both tools give them; which of them exist is read from the graph.
 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "package/reader.h"

static const char doc[] = "config.json";

/* The best file that is there: full precision first, then the least lossy. A folder with several is
 * told apart by --model-file. Of an old pair the half without past is taken: the other
 * was traced for one token and may have no causal mask. */
static const char *const candidates[] = {"model",         "decoder_model_merged",
                                         "decoder_model", "decoder_with_past_model",
                                         "model_fp16",    "model_bf16",
                                         "model_q8",      "model_quantized",
                                         "model_int8",    "model_uint8",
                                         "model_q4",      "model_q4f16",
                                         "model_bnb4",    "decoder_model_merged_quantized"};
static const char *const folders[] = {"onnx", "."};

static weft_status find_model(const wf_package *p, const wf_buf *name, bool *is_there,
                              weft_error *err) {
  char *full = name->failed ? NULL : wf_path_join(p->root, name->at);
  if (!full) return wf_fail_memory(err, name->n, "a path");
  *is_there = wf_path_exists(full) && !wf_path_is_dir(full);
  wf_free(full);
  return WEFT_OK;
}

static weft_status choose_model(wf_package *p, const wf_package_options *o, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_buf name = {0};
  bool is_there = false;
  static const char *const endings[] = {"", ".onnx", ".onnx.textproto"};
  const size_t n_endings = WF_ARRAY_LEN(endings);
  if (o->model_file) {
    /* a bare name is looked for in onnx/ as well, with or without its ending */
    for (size_t f = 0; f < WF_ARRAY_LEN(folders) * n_endings && !is_there; f++) {
      wf_buf_clear(&name);
      wf_buf_printf(&name, "%s/%s%s", folders[f / n_endings], o->model_file,
                    endings[f % n_endings]);
      WF_TRY(find_model(p, &name, &is_there, err));
    }
    if (!is_there) {
      wf_buf_clear(&name);
      wf_buf_puts(&name, o->model_file); /* for the sentence that it is not there */
      is_there = true;
    }
  }
  for (size_t c = 0; c < WF_ARRAY_LEN(candidates) && !is_there; c++) {
    for (size_t f = 0; f < WF_ARRAY_LEN(folders) && !is_there; f++) {
      wf_buf_clear(&name);
      wf_buf_printf(&name, "%s/%s.onnx", folders[f], candidates[c]);
      WF_TRY(find_model(p, &name, &is_there, err));
    }
  }
  if (name.failed || (is_there && !wf_buf_cstr(&name))) {
    st = wf_fail_memory(err, 0, "a path");
  } else if (is_there) {
    st = wf_package_set_model(p, o, name.at, err);
  } else {
    st = wf_fail(err, WEFT_PACKAGE_INVALID,
                 "export the model to ONNX into this folder, or use --model-file",
                 "package '%s' holds config.json but no ONNX model", p->root);
  }
out:
  wf_buf_deinit(&name);
  return st;
}

static bool has_port(const wf_onnx_value_info *list, size_t n, wf_str name) {
  for (size_t i = 0; i < n; i++) {
    if (wf_str_eq(list[i].name, name)) return true;
  }
  return false;
}

static wf_str port_or_none(const wf_onnx_graph *g, const char *name) {
  return has_port(g->inputs, g->n_inputs, wf_str_of(name)) ? wf_str_of(name) : (wf_str){0};
}

/* past_key_values.N.key with present.N.key, for N from 0 without a gap; beside states of a fixed
 * size only some layers have them. */
static weft_status read_states(wf_package *p, const wf_onnx_graph *g, weft_error *err) {
  const bool has_gaps = p->ports.n_carried > 0;
  const size_t most = has_gaps ? 4096 : g->n_inputs;
  wf_state_ports *states = wf_arena_calloc(p->arena, g->n_inputs + 1, sizeof *states);
  size_t n = 0;
  if (!states) return wf_fail_memory(err, 0, "state ports");
  for (size_t i = 0; i < most && n < g->n_inputs; i++) {
    wf_state_ports s;
    WF_RETURN_IF_ERROR(wf_package_expand(p, doc, "past_key_values.%d.key", i, &s.past_key, err));
    if (!has_port(g->inputs, g->n_inputs, s.past_key)) {
      if (has_gaps) continue;
      break;
    }
    WF_RETURN_IF_ERROR(
        wf_package_expand(p, doc, "past_key_values.%d.value", i, &s.past_value, err));
    WF_RETURN_IF_ERROR(wf_package_expand(p, doc, "present.%d.key", i, &s.present_key, err));
    WF_RETURN_IF_ERROR(wf_package_expand(p, doc, "present.%d.value", i, &s.present_value, err));
    states[n++] = s;
  }
  p->ports.states = states;
  p->ports.n_states = p->n_layers = n;
  return WEFT_OK;
}

/* past_conv.N with present_conv.N and past_ssm.N with present_ssm.N, as transformers.js writes
 * states of a fixed size; a cache may begin at any layer then. */
static weft_status read_carried(wf_package *p, const wf_onnx_graph *g, weft_error *err) {
  static const wf_str kinds[] = {{"past_conv.", 10}, {"past_ssm.", 9}, {"past_recurrent.", 15}};
  wf_carried_ports *carried = wf_arena_calloc(p->arena, g->n_inputs + 1, sizeof *carried);
  if (!carried) return wf_fail_memory(err, g->n_inputs * sizeof *carried, "state ports");
  for (size_t i = 0; i < g->n_inputs; i++) {
    const wf_str past = g->inputs[i].name;
    for (size_t k = 0; k < WF_ARRAY_LEN(kinds); k++) {
      if (!wf_str_starts(past, kinds[k])) continue;
      wf_buf present = {0};
      wf_buf_printf(&present, "present%.*s", (int)(past.n - 4), past.at + 4);
      const char *text = wf_buf_cstr(&present);
      const char *name = text ? wf_arena_strdup(p->arena, text) : NULL;
      wf_buf_deinit(&present);
      if (!name) return wf_fail_memory(err, past.n, "state ports");
      if (!has_port(g->outputs, g->n_outputs, wf_str_of(name))) continue;
      char *kept = wf_arena_strndup(p->arena, past.at, past.n);
      if (!kept) return wf_fail_memory(err, past.n, "state ports");
      carried[p->ports.n_carried++] = (wf_carried_ports){wf_str_of(kept), wf_str_of(name)};
    }
  }
  p->ports.carried = carried;
  return WEFT_OK;
}

/* How many last tokens the head is computed for, under the names transformers has given it: 0, all
 * of them, because the backend prunes the head itself. */
static const wf_fixed_port fixed_ports[] = {{{"num_logits_to_keep", 18}, 0},
                                            {{"logits_to_keep", 14}, 0}};

/* optimum's name of it, perhaps followed by a precision. */
static const char later_half[] = "decoder_with_past_model";

static weft_status read_ports(wf_package *p, const wf_onnx_graph *g, weft_error *err) {
  p->ports.input_ids = port_or_none(g, "input_ids");
  p->ports.inputs_embeds = port_or_none(g, "inputs_embeds");
  p->ports.attention_mask = port_or_none(g, "attention_mask");
  p->ports.position_ids = port_or_none(g, "position_ids");
  p->ports.logits = WF_STR("logits");
  p->ports.fixed = fixed_ports;
  p->ports.n_fixed = WF_ARRAY_LEN(fixed_ports);
  if (p->ports.input_ids.n == 0) {
    return wf_fail(err, WEFT_UNSUPPORTED, "use a decoder-only text model",
                   "the graph of '%s' has no input 'input_ids': it is no text decoder", p->model);
  }
  p->ports.use_cache = port_or_none(g, "use_cache_branch");
  const char *slash = strrchr(p->model, '/'), *file = slash ? slash + 1 : p->model;
  p->ports.is_later_half = strncmp(file, later_half, strlen(later_half)) == 0;
  WF_RETURN_IF_ERROR(read_carried(p, g, err));
  return read_states(p, g, err);
}

weft_status wf_package_read_huggingface(wf_package *p, const wf_package_options *o,
                                        weft_error *err) {
  weft_status st = WEFT_OK;
  json_t *config = NULL;
  wf_onnx_model *onnx = NULL;
  int64_t n_kv_heads, n_heads, hidden, head_size, id;
  p->kind = "huggingface";
  WF_TRY(wf_package_json(p, o, doc, false, &config, err));
  const json_t *text = json_object_get(config, "text_config");
  if (!json_is_object(text)) text = config;
  WF_TRY(wf_json_get_string(p, config, doc, "model_type", "", &p->model_type, err));
  WF_TRY(wf_json_get_int(text, doc, "max_position_embeddings", 1, INT32_MAX, 0, &p->context_tokens,
                         err));
  WF_TRY(wf_json_get_int(text, doc, "vocab_size", 1, INT32_MAX, 0, &p->vocab, err));
  WF_TRY(wf_json_get_int(text, doc, "num_attention_heads", 1, 65536, 0, &n_heads, err));
  WF_TRY(wf_json_get_int(text, doc, "num_key_value_heads", 1, 65536, n_heads, &n_kv_heads, err));
  WF_TRY(wf_json_get_int(text, doc, "hidden_size", 1, INT32_MAX, 0, &hidden, err));
  WF_TRY(wf_json_get_int(text, doc, "head_dim", 1, 65536, n_heads ? hidden / n_heads : 0,
                         &head_size, err));
  const int32_t *bos_ids = NULL;
  size_t n_bos_ids = 0;
  WF_TRY(wf_json_get_ids(p, config, doc, "bos_token_id", &bos_ids, &n_bos_ids, err));
  p->bos_id = n_bos_ids ? bos_ids[0] : -1;
  WF_TRY(wf_json_get_int(config, doc, "pad_token_id", -1, INT32_MAX, -1, &id, err));
  p->pad_id = (int32_t)id;
  WF_TRY(wf_json_get_ids(p, config, doc, "eos_token_id", &p->end_ids, &p->n_end_ids, err));
  WF_TRY(choose_model(p, o, err));
  const wf_onnx_options onnx_options = {.trust_links = o->trust_links, .without_external = true};
  WF_TRY(wf_onnx_open(&onnx, p->model, &onnx_options, err));
  WF_TRY(read_ports(p, &onnx->graph, err));
  WF_TRY(wf_package_bind_ports(p, onnx, n_kv_heads, head_size, err));
  WF_TRY(wf_package_read_text(p, o, err));
  WF_TRY(wf_package_read_generation(p, o, err));
out:
  wf_onnx_close(onnx);
  json_decref(config);
  return st;
}
