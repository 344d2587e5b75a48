/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizer files, special token texts, the chat template and generation_config.json: laid out as
 * transformers writes them in every kind of folder. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "package/reader.h"

enum { MAX_TEMPLATE_BYTES = 4 << 20 };

/* Canonical path of an optional file of the package; *result NULL when it is not there. */
static weft_status find_file(wf_package *p, const wf_package_options *o, const char *name,
                             const char **result, weft_error *err) {
  weft_status st = WEFT_OK;
  char *joined = wf_path_join(p->root, name), *real = NULL;
  *result = NULL;
  if (!joined) return wf_fail_memory(err, strlen(name), "a path");
  if (wf_path_exists(joined)) {
    WF_TRY(wf_path_confine(p->root, name, o->trust_links, &real, err));
    *result = wf_arena_strdup(p->arena, real);
    if (!*result) st = wf_fail_memory(err, strlen(real), "a path");
  }
out:
  wf_free(joined);
  free(real);
  return st;
}

/* A special token is written as its text or as {"content": text, ...}. */
static weft_status token_text(wf_package *p, const json_t *config, const char *key,
                              const char **result, weft_error *err) {
  const json_t *v = json_object_get(config, key);
  if (json_is_object(v)) v = json_object_get(v, "content");
  if (!json_is_string(v) || *result) return WEFT_OK;
  *result = wf_arena_strdup(p->arena, json_string_value(v));
  return *result ? WEFT_OK : wf_fail_memory(err, 0, "a token");
}

/* chat_template is a text, or a list of {"name", "template"} of which "default" is meant. */
static weft_status template_member(wf_package *p, const json_t *config, weft_error *err) {
  const json_t *v = json_object_get(config, "chat_template");
  if (json_is_array(v)) {
    const json_t *chosen = NULL, *entry;
    size_t i;
    json_array_foreach(v, i, entry) {
      const char *name = json_string_value(json_object_get(entry, "name"));
      if (name && strcmp(name, "default") == 0) chosen = json_object_get(entry, "template");
    }
    v = chosen;
  }
  if (!json_is_string(v) || p->chat_template) return WEFT_OK;
  p->chat_template = wf_arena_strndup(p->arena, json_string_value(v), json_string_length(v));
  return p->chat_template ? WEFT_OK : wf_fail_memory(err, 0, "a template");
}

static weft_status read_template_files(wf_package *p, const wf_package_options *o,
                                       weft_error *err) {
  weft_status st = WEFT_OK;
  const char *path = NULL;
  char *text = NULL;
  size_t n = 0;
  json_t *doc = NULL;
  WF_TRY(find_file(p, o, "chat_template.jinja", &path, err));
  if (path) {
    WF_TRY(wf_file_read(path, MAX_TEMPLATE_BYTES, &text, &n, err));
    p->chat_template = wf_arena_strndup(p->arena, text, n);
    if (!p->chat_template) st = wf_fail_memory(err, n, "a template");
    goto out;
  }
  WF_TRY(wf_package_json(p, o, "chat_template.json", true, &doc, err));
  if (doc) WF_TRY(template_member(p, doc, err));
out:
  wf_free(text);
  json_decref(doc);
  return st;
}

weft_status wf_package_read_text(wf_package *p, const wf_package_options *o, weft_error *err) {
  weft_status st = WEFT_OK;
  json_t *config = NULL, *special = NULL;
  WF_TRY(find_file(p, o, "tokenizer.json", &p->tokenizer_json, err));
  WF_TRY(find_file(p, o, "tokenizer.model", &p->tokenizer_model, err));
  WF_TRY(find_file(p, o, "tokenizer_config.json", &p->tokenizer_config, err));
  WF_TRY(read_template_files(p, o, err));
  WF_TRY(wf_package_json(p, o, "tokenizer_config.json", true, &config, err));
  WF_TRY(wf_package_json(p, o, "special_tokens_map.json", true, &special, err));
  const json_t *const sources[] = {config, special};
  for (size_t i = 0; i < WF_ARRAY_LEN(sources); i++) {
    if (!sources[i]) continue;
    WF_TRY(token_text(p, sources[i], "bos_token", &p->bos_text, err));
    WF_TRY(token_text(p, sources[i], "eos_token", &p->eos_text, err));
    WF_TRY(token_text(p, sources[i], "pad_token", &p->pad_text, err));
    WF_TRY(token_text(p, sources[i], "unk_token", &p->unk_text, err));
  }
  if (config) WF_TRY(template_member(p, config, err));
out:
  json_decref(config);
  json_decref(special);
  return st;
}

static weft_status add_end_ids(wf_package *p, const int32_t *ids, size_t n, weft_error *err) {
  int32_t *all = wf_arena_calloc(p->arena, p->n_end_ids + n + 1, sizeof *all);
  if (!all) return wf_fail_memory(err, 0, "end ids");
  size_t count = p->n_end_ids;
  if (count) memcpy(all, p->end_ids, count * sizeof *all);
  for (size_t i = 0; i < n; i++) {
    bool is_known = false;
    for (size_t k = 0; k < count; k++) is_known = is_known || all[k] == ids[i];
    if (!is_known) all[count++] = ids[i];
  }
  p->end_ids = all;
  p->n_end_ids = count;
  return WEFT_OK;
}

weft_status wf_package_read_generation(wf_package *p, const wf_package_options *o,
                                       weft_error *err) {
  static const char doc[] = "generation_config.json";
  weft_status st = WEFT_OK;
  json_t *config = NULL;
  const int32_t *ids = NULL;
  size_t n = 0;
  wf_generation_defaults *d = &p->defaults;
  WF_TRY(wf_package_json(p, o, doc, true, &config, err));
  if (!config) goto out;
  WF_TRY(wf_json_get_ids(p, config, doc, "eos_token_id", &ids, &n, err));
  WF_TRY(add_end_ids(p, ids, n, err));
  int64_t id = p->bos_id;
  WF_TRY(wf_json_get_int(config, doc, "bos_token_id", -1, INT32_MAX, id, &id, err));
  p->bos_id = (int32_t)id;
  /* transformers samples only where do_sample says so; the numbers alone do nothing */
  const json_t *do_sample = json_object_get(config, "do_sample");
  if (json_is_boolean(do_sample)) d->do_sample = json_is_true(do_sample);
  WF_TRY(wf_json_get_number(config, doc, "temperature", d->temperature, &d->temperature, err));
  WF_TRY(wf_json_get_number(config, doc, "top_p", d->top_p, &d->top_p, err));
  WF_TRY(wf_json_get_number(config, doc, "min_p", d->min_p, &d->min_p, err));
  WF_TRY(wf_json_get_number(config, doc, "typical_p", d->typical_p, &d->typical_p, err));
  WF_TRY(wf_json_get_number(config, doc, "repetition_penalty", d->repetition_penalty,
                            &d->repetition_penalty, err));
  WF_TRY(wf_json_get_int(config, doc, "top_k", 0, INT32_MAX, d->top_k, &d->top_k, err));
out:
  json_decref(config);
  return st;
}
