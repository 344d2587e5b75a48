/* SPDX-License-Identifier: Apache-2.0 */
/* Text calls of the API: tokenize, detokenize, chat template. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "engine/engine.h"

/* A text that already starts with the start token needs no second one from the tokenizer. */
static void drop_double_bos(const weft_model *m, wf_encoding *e) {
  const int32_t bos = wf_tokenizer_role_id(m->tokenizer, WF_TOKEN_BOS);
  if (bos < 0 || !wf_tokenizer_adds_bos(m->tokenizer)) return;
  if (e->n_ids < 2 || e->ids[0] != bos || e->ids[1] != bos) return;
  memmove(e->ids, e->ids + 1, (e->n_ids - 1) * sizeof *e->ids);
  e->n_ids--;
}

static void take_ids(wf_encoding *e, int32_t **ids, size_t *n_ids) {
  *ids = e->ids;
  *n_ids = e->n_ids;
  e->ids = NULL;
  e->n_ids = 0;
}

weft_status weft_tokenize(const weft_model *m, const char *text, size_t n_text, unsigned flags,
                          int32_t **ids, size_t *n_ids, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_encoding e = {0};
  const wf_encode_options options = {.add_special = !(flags & WEFT_TOKENIZE_NO_SPECIAL),
                                     .content_mode = (flags & WEFT_TOKENIZE_CONTENT) != 0,
                                     .control = m->control};
  WF_TRY(wf_tokenizer_encode(m->tokenizer, (wf_str){text, n_text}, &options, &e, err));
  if (options.add_special) drop_double_bos(m, &e);
  take_ids(&e, ids, n_ids);
out:
  wf_encoding_deinit(&e);
  return st;
}

weft_status weft_detokenize(const weft_model *m, const int32_t *ids, size_t n_ids, int skip_special,
                            char **text, size_t *n_text, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_buf b = {0};
  WF_TRY(wf_tokenizer_decode(m->tokenizer, ids, n_ids, skip_special != 0, &b, err));
  *n_text = b.n;
  *text = wf_buf_take(&b);
  if (!*text) st = wf_fail_memory(err, b.n, "text");
out:
  wf_buf_deinit(&b);
  return st;
}

weft_status weft_token_bytes(const weft_model *m, int32_t id, char **bytes, size_t *n_bytes,
                             weft_error *err) {
  weft_status st = WEFT_OK;
  wf_buf b = {0};
  if (id < 0 || id >= m->vocab) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "use ids of this model's own tokenizer",
                   "token id %d is outside the vocabulary of %lld", id, (long long)m->vocab);
  }
  /* rows of the head beyond the tokenizer's vocabulary have no text */
  if (wf_tokenizer_token_text(m->tokenizer, id).at) {
    WF_TRY(wf_tokenizer_token_bytes(m->tokenizer, id, &b, err));
  }
  *n_bytes = b.n;
  *bytes = wf_buf_take(&b);
  if (!*bytes) st = wf_fail_memory(err, b.n, "text");
out:
  wf_buf_deinit(&b);
  return st;
}

static weft_status set_default(json_t *variables, const char *name, const char *text,
                               weft_error *err) {
  if (!text || json_object_get(variables, name)) return WEFT_OK;
  json_t *value = json_string(text);
  if (!value || json_object_set_new(variables, name, value) != 0) {
    return wf_fail_memory(err, 0, "template variables");
  }
  return WEFT_OK;
}

/* {"messages": ...} or, for a chat, a bare list of messages; with the package's tokens as
 * variables. */
static weft_status parse_variables(const wf_package *p, bool is_chat, const char *json,
                                   size_t n_json, json_t **result, weft_error *err) {
  weft_status st = WEFT_OK;
  json_error_t why;
  errno = 0;
  json_t *variables = json_loadb(json, n_json, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &why);
  if (errno == ENOMEM) { /* jansson takes it for a fault of the text, or cuts a string short */
    json_decref(variables);
    return wf_fail_memory(err, n_json, "template variables");
  }
  if (!variables) {
    return wf_fail(err, WEFT_PARSE, "repair the JSON", "line %d, column %d: %s", why.line,
                   why.column, why.text);
  }
  if (json_is_array(variables) && is_chat) {
    json_t *object = json_object();
    if (!object) json_decref(variables); /* else the call takes it, whether it succeeds or not */
    if (!object || json_object_set_new(object, "messages", variables) != 0) {
      json_decref(object);
      return wf_fail_memory(err, 0, "template variables");
    }
    variables = object;
  }
  if (!json_is_object(variables) ||
      (is_chat && !json_is_array(json_object_get(variables, "messages")))) {
    st = wf_fail(err, WEFT_INVALID_ARGUMENT,
                 "give {\"messages\": [{\"role\": ..., \"content\": ...}]}",
                 "the JSON is no object with a list of messages");
    goto out;
  }
  if (p) {
    WF_TRY(set_default(variables, "bos_token", p->bos_text, err));
    WF_TRY(set_default(variables, "eos_token", p->eos_text, err));
    WF_TRY(set_default(variables, "pad_token", p->pad_text, err));
    WF_TRY(set_default(variables, "unk_token", p->unk_text, err));
  }
  if (is_chat && !json_object_get(variables, "add_generation_prompt") &&
      json_object_set_new(variables, "add_generation_prompt", json_true()) != 0) {
    st = wf_fail_memory(err, 0, "template variables");
    goto out;
  }
  *result = variables;
  variables = NULL;
out:
  json_decref(variables);
  return st;
}

weft_status wf_chat_render(const wf_template *t, const wf_package *p, bool is_chat,
                           const char *json, size_t n_json, const int64_t *now_seconds,
                           wf_buf *text, wf_text_runs *runs, weft_error *err) {
  weft_status st = WEFT_OK;
  json_t *variables = NULL;
  wf_render_options options;
  if (!t) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT,
                   "give the text itself (--raw), or add chat_template.jinja",
                   "the package has no chat template");
  }
  wf_render_options_init(&options);
  if (now_seconds) {
    options.has_now = true;
    options.now_seconds = *now_seconds;
  }
  WF_TRY(parse_variables(p, is_chat, json, n_json, &variables, err));
  WF_TRY(wf_template_render(t, variables, &options, text, runs, err));
out:
  json_decref(variables);
  return st;
}

weft_status weft_chat_text(const weft_model *m, const char *json, size_t n_json, char **text,
                           size_t *n_text, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_buf b = {0};
  WF_TRY(wf_chat_render(m->chat_template, m->package, true, json, n_json, NULL, &b, NULL, err));
  *n_text = b.n;
  *text = wf_buf_take(&b);
  if (!*text) st = wf_fail_memory(err, b.n, "text");
out:
  wf_buf_deinit(&b);
  return st;
}

weft_status weft_chat_ids(const weft_model *m, const char *json, size_t n_json, int32_t **ids,
                          size_t *n_ids, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_buf text = {0};
  wf_text_runs runs = {0};
  wf_encoding e = {0};
  wf_segment *segments = NULL;
  const wf_encode_options options = {.control = m->control};
  WF_TRY(wf_chat_render(m->chat_template, m->package, true, json, n_json, NULL, &text, &runs, err));
  segments = wf_calloc(runs.n + 1, sizeof *segments);
  if (!segments) {
    st = wf_fail_memory(err, runs.n * sizeof *segments, "text runs");
    goto out;
  }
  for (size_t i = 0; i < runs.n; i++) {
    const wf_text_run *run = &runs.at[i];
    segments[i] = (wf_segment){{text.at + run->begin, run->end - run->begin}, run->is_content};
  }
  WF_TRY(wf_tokenizer_encode_segments(m->tokenizer, segments, runs.n, &options, &e, err));
  take_ids(&e, ids, n_ids);
out:
  wf_free(segments);
  wf_vec_free(&runs);
  wf_buf_deinit(&text);
  wf_encoding_deinit(&e);
  return st;
}
