/* SPDX-License-Identifier: Apache-2.0 */
/* genai_config.json of onnxruntime-genai for decoder-only models, read strictly: each member is
 * taken, known and without effect here, or refused by its path. */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/process.h"
#include "package/reader.h"

static const char doc[] = "genai_config.json";

/* Known members. TAKEN ones are read below; IDLE ones steer onnxruntime-genai's own machinery (its
 * session, its beams, its buffers) and change no token here; REFUSED ones change results in a way
 * this reader does not follow. "*" stands for any member below. */
typedef enum member_kind { TAKEN, IDLE, REFUSED } member_kind;
static const struct {
  const char *path;
  member_kind kind;
} members[] = {
    {"model", TAKEN},
    {"search", TAKEN},
    {"engine", IDLE},
    {"engine.*", IDLE},
    {"model.bos_token_id", TAKEN},
    {"model.context_length", TAKEN},
    {"model.decoder", TAKEN},
    {"model.eos_token_id", TAKEN},
    {"model.pad_token_id", TAKEN},
    {"model.type", TAKEN},
    {"model.vocab_size", TAKEN},
    {"model.sep_token_id", IDLE},
    {"model.decoder_start_token_id", IDLE},
    {"model.bot_token_id", IDLE},
    {"model.eot_token_id", IDLE},
    {"model.bor_token_id", IDLE},
    {"model.eor_token_id", IDLE},
    {"model.prompt_templates", IDLE},
    {"model.prompt_templates.*", IDLE},
    {"model.encoder", REFUSED},
    {"model.vision", REFUSED},
    {"model.embedding", REFUSED},
    {"model.speech", REFUSED},
    {"model.joiner", REFUSED},
    {"model.decoder.filename", TAKEN},
    {"model.decoder.head_size", TAKEN},
    {"model.decoder.hidden_size", IDLE},
    {"model.decoder.num_attention_heads", IDLE},
    {"model.decoder.num_hidden_layers", TAKEN},
    {"model.decoder.num_key_value_heads", TAKEN},
    {"model.decoder.session_options", IDLE},
    {"model.decoder.session_options.*", IDLE},
    {"model.decoder.run_options", IDLE},
    {"model.decoder.run_options.*", IDLE},
    {"model.decoder.sliding_window", TAKEN},
    {"model.decoder.sliding_window.*", IDLE},
    {"model.decoder.pipeline", REFUSED},
    {"model.decoder.state_update", REFUSED},
    {"model.decoder.inputs", TAKEN},
    {"model.decoder.outputs", TAKEN},
    {"model.decoder.inputs.input_ids", TAKEN},
    {"model.decoder.inputs.inputs_embeds", TAKEN},
    {"model.decoder.inputs.attention_mask", TAKEN},
    {"model.decoder.inputs.position_ids", TAKEN},
    {"model.decoder.inputs.past_key_names", TAKEN},
    {"model.decoder.inputs.past_value_names", TAKEN},
    {"model.decoder.inputs.past_conv_names", TAKEN},
    {"model.decoder.inputs.past_recurrent_names", TAKEN},
    {"model.decoder.outputs.logits", TAKEN},
    {"model.decoder.outputs.present_key_names", TAKEN},
    {"model.decoder.outputs.present_value_names", TAKEN},
    {"model.decoder.outputs.present_conv_names", TAKEN},
    {"model.decoder.outputs.present_recurrent_names", TAKEN},
    {"model.decoder.layer_types", IDLE}, /* which layers have which state, the graph says itself */
    {"model.decoder.conv_cache_size", IDLE},
    {"search.do_sample", TAKEN},
    {"search.temperature", TAKEN},
    {"search.top_k", TAKEN},
    {"search.top_p", TAKEN},
    {"search.min_p", TAKEN},
    {"search.repetition_penalty", TAKEN},
    {"search.max_length", TAKEN},
    {"search.min_length", IDLE},
    {"search.num_beams", TAKEN},
    {"search.num_return_sequences", IDLE},
    {"search.no_repeat_ngram_size", IDLE},
    {"search.early_stopping", IDLE},
    {"search.diversity_penalty", IDLE},
    {"search.length_penalty", IDLE},
    {"search.past_present_share_buffer", IDLE},
    {"search.random_seed", IDLE},
    {"search.chunk_size", IDLE},
    {"search.batch_size", IDLE},
};

static const member_kind *classify(const char *path) {
  for (size_t i = 0; i < WF_ARRAY_LEN(members); i++) {
    const size_t n = strlen(members[i].path);
    const bool is_open = n > 2 && members[i].path[n - 1] == '*';
    if (is_open ? strncmp(path, members[i].path, n - 1) == 0 : strcmp(path, members[i].path) == 0) {
      return &members[i].kind;
    }
  }
  return NULL;
}

static weft_status check_members(const json_t *object, const char *prefix, int depth,
                                 weft_error *err) {
  const char *key;
  json_t *value;
  if (depth > 16) {
    return wf_fail(err, WEFT_LIMIT, "repair the document", "%s: '%s' is nested too deeply", doc,
                   prefix);
  }
  /* jansson's iteration wants a mutable object, but changes nothing */
  json_object_foreach(wf_unconst(object), key, value) {
    wf_buf path = {0};
    wf_buf_printf(&path, "%s%s%s", prefix, prefix[0] ? "." : "", key);
    const char *text = wf_buf_cstr(&path);
    const member_kind *kind = text ? classify(text) : NULL;
    weft_status st = WEFT_OK;
    if (!text) {
      st = wf_fail_memory(err, 0, "a path");
    } else if (!kind) {
      st = wf_fail(err, WEFT_PACKAGE_INVALID,
                   "remove the member, or use a version of weft that knows it",
                   "%s: unknown member '%s'", doc, text);
    } else if (*kind == REFUSED && !json_is_null(value)) {
      st = wf_fail(err, WEFT_UNSUPPORTED, "use a decoder-only text model",
                   "%s: '%s' needs a pipeline of several graphs, which this version does not run",
                   doc, text);
    } else if (json_is_object(value) && *kind == TAKEN) {
      st = check_members(value, text, depth + 1, err);
    }
    wf_buf_deinit(&path);
    if (st != WEFT_OK) return st;
  }
  return WEFT_OK;
}

static weft_status member_object(const json_t *parent, const char *key, const json_t **result,
                                 weft_error *err) {
  *result = json_object_get(parent, key);
  if (json_is_object(*result)) return WEFT_OK;
  return wf_fail(err, WEFT_PACKAGE_INVALID, "repair the document", "%s: '%s' must be an object",
                 doc, key);
}

static weft_status port_name(wf_package *p, const json_t *object, const char *key,
                             const char *fallback, wf_str *result, weft_error *err) {
  const char *text;
  WF_RETURN_IF_ERROR(wf_json_get_string(p, object, doc, key, fallback, &text, err));
  *result = wf_str_of(text);
  return WEFT_OK;
}

static weft_status read_ports(wf_package *p, const json_t *decoder, weft_error *err) {
  const json_t *in = json_object_get(decoder, "inputs"), *out = json_object_get(decoder, "outputs");
  const char *past_key, *past_value, *present_key, *present_value;
  wf_ports *ports = &p->ports;
  /* Names default as onnxruntime-genai's do; which ports the graph has is checked afterwards. */
  WF_RETURN_IF_ERROR(port_name(p, in, "input_ids",
                               json_object_get(in, "inputs_embeds") ? NULL : "input_ids",
                               &ports->input_ids, err));
  WF_RETURN_IF_ERROR(port_name(p, in, "inputs_embeds", NULL, &ports->inputs_embeds, err));
  WF_RETURN_IF_ERROR(port_name(p, in, "attention_mask", NULL, &ports->attention_mask, err));
  WF_RETURN_IF_ERROR(port_name(p, in, "position_ids", NULL, &ports->position_ids, err));
  WF_RETURN_IF_ERROR(port_name(p, out, "logits", "logits", &ports->logits, err));
  WF_RETURN_IF_ERROR(
      wf_json_get_string(p, in, doc, "past_key_names", "past_key_values.%d.key", &past_key, err));
  WF_RETURN_IF_ERROR(wf_json_get_string(p, in, doc, "past_value_names", "past_key_values.%d.value",
                                        &past_value, err));
  WF_RETURN_IF_ERROR(
      wf_json_get_string(p, out, doc, "present_key_names", "present.%d.key", &present_key, err));
  WF_RETURN_IF_ERROR(wf_json_get_string(p, out, doc, "present_value_names", "present.%d.value",
                                        &present_value, err));
  int64_t n_layers;
  WF_RETURN_IF_ERROR(
      wf_json_get_int(decoder, doc, "num_hidden_layers", 1, 4096, 0, &n_layers, err));
  wf_state_ports *states = wf_arena_calloc(p->arena, (size_t)n_layers + 1, sizeof *states);
  if (!states) return wf_fail_memory(err, 0, "state ports");
  for (size_t i = 0; i < (size_t)n_layers; i++) {
    WF_RETURN_IF_ERROR(wf_package_expand(p, doc, past_key, i, &states[i].past_key, err));
    WF_RETURN_IF_ERROR(wf_package_expand(p, doc, past_value, i, &states[i].past_value, err));
    WF_RETURN_IF_ERROR(wf_package_expand(p, doc, present_key, i, &states[i].present_key, err));
    WF_RETURN_IF_ERROR(wf_package_expand(p, doc, present_value, i, &states[i].present_value, err));
  }
  ports->states = states;
  ports->n_states = p->n_layers = (size_t)n_layers;
  return WEFT_OK;
}

/* Of models with states of a fixed size: each layer has one, or a cache, or both, as its ports in
 * the graph say. */
static weft_status read_carried(wf_package *p, const json_t *decoder, const wf_onnx_model *m,
                                weft_error *err) {
  static const char *const kinds[][2] = {{"past_conv_names", "present_conv_names"},
                                         {"past_recurrent_names", "present_recurrent_names"}};
  const json_t *in = json_object_get(decoder, "inputs"), *out = json_object_get(decoder, "outputs");
  wf_ports *ports = &p->ports;
  const size_t n_layers = ports->n_states;
  wf_carried_ports *carried =
      wf_arena_calloc(p->arena, n_layers * WF_ARRAY_LEN(kinds) + 1, sizeof *carried);
  if (!carried) return wf_fail_memory(err, n_layers * sizeof *carried, "state ports");
  for (size_t k = 0; k < WF_ARRAY_LEN(kinds); k++) {
    const char *past = NULL, *present = NULL;
    WF_RETURN_IF_ERROR(wf_json_get_string(p, in, doc, kinds[k][0], NULL, &past, err));
    WF_RETURN_IF_ERROR(wf_json_get_string(p, out, doc, kinds[k][1], NULL, &present, err));
    if (!past && !present) continue;
    if (!past || !present) {
      return wf_fail(err, WEFT_PACKAGE_INVALID, "name both", "%s: '%s' comes without '%s'", doc,
                     kinds[k][past == NULL], kinds[k][past != NULL]);
    }
    for (size_t i = 0; i < n_layers; i++) {
      wf_carried_ports c;
      WF_RETURN_IF_ERROR(wf_package_expand(p, doc, past, i, &c.past, err));
      WF_RETURN_IF_ERROR(wf_package_expand(p, doc, present, i, &c.present, err));
      if (wf_package_has_input(m, c.past)) carried[ports->n_carried++] = c;
    }
  }
  if (ports->n_carried == 0) return WEFT_OK;
  ports->carried = carried;
  wf_state_ports *states = wf_unconst(ports->states); /* made by read_ports, in our own arena */
  size_t n = 0;
  for (size_t i = 0; i < n_layers; i++) {
    const bool has_any = wf_package_has_input(m, states[i].past_key) ||
                         wf_package_has_input(m, states[i].past_value);
    if (has_any) states[n++] = states[i];
  }
  ports->n_states = p->n_layers = n;
  return WEFT_OK;
}

static weft_status read_search(wf_package *p, const json_t *search, weft_error *err) {
  wf_generation_defaults *d = &p->defaults;
  int64_t n_beams = 1, max_length = 0;
  if (!search) return WEFT_OK;
  const json_t *do_sample = json_object_get(search, "do_sample");
  if (do_sample && !json_is_boolean(do_sample)) {
    return wf_fail(err, WEFT_PACKAGE_INVALID, "repair the document",
                   "%s: 'do_sample' must be true or false", doc);
  }
  if (do_sample) d->do_sample = json_is_true(do_sample);
  WF_RETURN_IF_ERROR(wf_json_get_number(search, doc, "temperature", NAN, &d->temperature, err));
  WF_RETURN_IF_ERROR(wf_json_get_number(search, doc, "top_p", NAN, &d->top_p, err));
  WF_RETURN_IF_ERROR(wf_json_get_number(search, doc, "min_p", NAN, &d->min_p, err));
  WF_RETURN_IF_ERROR(
      wf_json_get_number(search, doc, "repetition_penalty", NAN, &d->repetition_penalty, err));
  WF_RETURN_IF_ERROR(wf_json_get_int(search, doc, "top_k", 0, INT32_MAX, -1, &d->top_k, err));
  WF_RETURN_IF_ERROR(wf_json_get_int(search, doc, "num_beams", 1, INT32_MAX, 1, &n_beams, err));
  WF_RETURN_IF_ERROR(wf_json_get_int(search, doc, "max_length", 0, INT32_MAX, 0, &max_length, err));
  if (n_beams != 1) {
    wf_log(1, "%s asks for %lld beams; weft decodes without beams", doc, (long long)n_beams);
  }
  if (p->context_tokens == 0) p->context_tokens = max_length;
  return WEFT_OK;
}

weft_status wf_package_read_genai(wf_package *p, const wf_package_options *o, weft_error *err) {
  weft_status st = WEFT_OK;
  json_t *config = NULL;
  const json_t *model = NULL, *decoder = NULL;
  wf_onnx_model *onnx = NULL;
  const char *filename = NULL;
  int64_t id = -1, head_size = 0, n_kv_heads = 0;
  p->kind = "onnxruntime-genai";
  WF_TRY(wf_package_json(p, o, doc, false, &config, err));
  WF_TRY(check_members(config, "", 0, err));
  WF_TRY(member_object(config, "model", &model, err));
  WF_TRY(member_object(model, "decoder", &decoder, err));
  WF_TRY(wf_json_get_string(p, model, doc, "type", "", &p->model_type, err));
  WF_TRY(wf_json_get_int(model, doc, "context_length", 1, INT32_MAX, 0, &p->context_tokens, err));
  WF_TRY(wf_json_get_int(model, doc, "vocab_size", 1, INT32_MAX, 0, &p->vocab, err));
  WF_TRY(wf_json_get_ids(p, model, doc, "eos_token_id", &p->end_ids, &p->n_end_ids, err));
  const int32_t *bos_ids = NULL;
  size_t n_bos_ids = 0;
  WF_TRY(wf_json_get_ids(p, model, doc, "bos_token_id", &bos_ids, &n_bos_ids, err));
  p->bos_id = n_bos_ids ? bos_ids[0] : -1;
  WF_TRY(wf_json_get_int(model, doc, "pad_token_id", -1, INT32_MAX, -1, &id, err));
  p->pad_id = (int32_t)id;
  WF_TRY(wf_json_get_int(decoder, doc, "head_size", 1, 65536, 0, &head_size, err));
  WF_TRY(wf_json_get_int(decoder, doc, "num_key_value_heads", 1, 65536, 0, &n_kv_heads, err));
  WF_TRY(wf_json_get_string(p, decoder, doc, "filename", "model.onnx", &filename, err));
  if (o->model_file) filename = o->model_file;
  WF_TRY(read_ports(p, decoder, err));
  WF_TRY(read_search(p, json_object_get(config, "search"), err));
  WF_TRY(wf_package_set_model(p, o, filename, err));
  const wf_onnx_options onnx_options = {.trust_links = o->trust_links, .without_external = true};
  WF_TRY(wf_onnx_open(&onnx, p->model, &onnx_options, err));
  WF_TRY(read_carried(p, decoder, onnx, err));
  WF_TRY(wf_package_bind_ports(p, onnx, n_kv_heads, head_size, err));
  WF_TRY(wf_package_read_text(p, o, err));
out:
  wf_onnx_close(onnx);
  json_decref(config);
  return st;
}
