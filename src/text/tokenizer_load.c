/* SPDX-License-Identifier: Apache-2.0 */
/* Reads tokenizer.json and tokenizer_config.json. */
#include "base/file.h"
#include "text/tokenizer_internal.h"

#define TREE_BUDGET ((size_t)1 << 20)

/* The small parts, kept until the model is there. */
typedef struct parts {
  wf_arena *arena;
  wf_tree *added, *normalizer, *pretok, *post, *decoder;
  size_t budget;
  bool has_model;
} parts;

static weft_status read_part(parts *p, wf_json_reader *r, wf_str key, const wf_json_event *v,
                             weft_error *err) {
  const struct {
    const char *name;
    wf_tree **to;
  } rows[] = {{"added_tokens", &p->added},
              {"normalizer", &p->normalizer},
              {"pre_tokenizer", &p->pretok},
              {"post_processor", &p->post},
              {"decoder", &p->decoder}};
  for (size_t i = 0; i < WF_ARRAY_LEN(rows); i++) {
    if (!wf_str_is(key, rows[i].name)) continue;
    return wf_tree_read(rows[i].to, r, v, wf_str_of(rows[i].name), p->arena, &p->budget, err);
  }
  return wf_json_skip(r, v, err);
}

static weft_status add_tokens(wf_tokenizer *t, const wf_tree *list, weft_error *err) {
  if (!list || list->kind == WF_JSON_NULL) return WEFT_OK;
  if (list->kind != WF_JSON_ARRAY_BEGIN) {
    return wf_tree_fail(list, err, WEFT_TOKENIZER, "a list is expected here");
  }
  for (const wf_tree *c = list->child; c; c = c->next) {
    wf_added a = {.id = -1};
    WF_RETURN_IF_ERROR(wf_tree_string(c, "content", NULL, t->arena, &a.content, err));
    a.special = wf_tree_bool(c, "special", false);
    a.single_word = wf_tree_bool(c, "single_word", false);
    a.lstrip = wf_tree_bool(c, "lstrip", false);
    a.rstrip = wf_tree_bool(c, "rstrip", false);
    a.normalized = wf_tree_bool(c, "normalized", !a.special);
    WF_RETURN_IF_ERROR(wf_added_put(t, &a, err));
  }
  return WEFT_OK;
}

static bool is_there(const wf_tree *n) { return n && n->kind != WF_JSON_NULL; }

static weft_status read_all(wf_tokenizer *t, parts *p, wf_json_reader *r, weft_error *err) {
  wf_json_event e;
  WF_RETURN_IF_ERROR(wf_json_next(r, &e, err));
  if (e.kind != WF_JSON_OBJECT_BEGIN) return wf_json_fail(r, err, "an object is expected");
  for (;;) {
    wf_json_event k, v;
    bool more;
    char key[32];
    WF_RETURN_IF_ERROR(wf_json_next_key(r, &k, &more, err));
    if (!more) break;
    const size_t n = k.text.n < sizeof key ? k.text.n : 0; /* no name of ours is longer */
    if (n) memcpy(key, k.text.at, n);
    const wf_str name = {key, n};
    if (wf_str_is(name, "model")) {
      if (p->has_model) return wf_json_fail(r, err, "there are two models");
      p->has_model = true;
      WF_RETURN_IF_ERROR(wf_load_model(t, r, err));
      continue;
    }
    WF_RETURN_IF_ERROR(wf_json_next(r, &v, err));
    WF_RETURN_IF_ERROR(read_part(p, r, name, &v, err));
  }
  WF_RETURN_IF_ERROR(wf_json_next(r, &e, err)); /* nothing may follow */
  if (!p->has_model) return wf_json_fail(r, err, "the model is missing");
  return WEFT_OK;
}

weft_status wf_tokenizer_load_json_text(wf_tokenizer **result, wf_str json, const char *name,
                                        weft_error *err) {
  weft_status st = WEFT_OK;
  wf_tokenizer *t = NULL;
  wf_json_reader r;
  parts p = {.arena = wf_arena_create(), .budget = TREE_BUDGET};
  wf_json_init(&r, json, name);
  t = wf_tokenizer_new(err);
  if (!t || !p.arena) {
    st = wf_fail_memory(err, sizeof *t, "a tokenizer");
    goto out;
  }
  WF_TRY(read_all(t, &p, &r, err));
  if (is_there(p.normalizer)) WF_TRY(wf_parts_normalizer(t, p.normalizer, err));
  if (is_there(p.pretok)) WF_TRY(wf_parts_pretok(t, p.pretok, err));
  if (is_there(p.post)) WF_TRY(wf_parts_post(t, p.post, err));
  if (is_there(p.decoder)) WF_TRY(wf_parts_decoder(t, p.decoder, err));
  WF_TRY(add_tokens(t, p.added, err));
  WF_TRY(wf_tokenizer_seal(t, name, err));
  *result = t;
  t = NULL;
out:
  if (st != WEFT_OK && st != WEFT_PARSE && err) (void)wf_fail_in(err, st, "%s: ", name);
  wf_json_deinit(&r);
  wf_arena_destroy(p.arena);
  wf_tokenizer_destroy(t);
  return st;
}

/* A token of the configuration: its text, or an object that holds it. */
static int32_t config_token(const wf_tokenizer *t, const wf_tree *config, const char *key) {
  const wf_tree *n = wf_tree_get(config, key);
  if (n && n->kind == WF_JSON_OBJECT_BEGIN) n = wf_tree_get(n, "content");
  return n && n->kind == WF_JSON_STRING ? wf_tokenizer_id_of(t, n->text) : -1;
}

static weft_status read_config(wf_tokenizer *t, const char *path, weft_error *err) {
  static const char *const keys[4] = {"bos_token", "eos_token", "pad_token", "unk_token"};
  weft_status st = WEFT_OK;
  wf_map map = {0};
  wf_json_reader r = {0};
  wf_arena *arena = wf_arena_create();
  size_t budget = TREE_BUDGET;
  wf_tree *root = NULL;
  wf_json_event e;
  WF_TRY(wf_map_open(&map, path, err));
  wf_json_init(&r, (wf_str){(const char *)map.at, map.n_bytes}, path);
  if (!arena) {
    st = wf_fail_memory(err, sizeof *root, "the settings of a tokenizer");
    goto out;
  }
  WF_TRY(wf_json_next(&r, &e, err));
  WF_TRY(wf_tree_read(&root, &r, &e, (wf_str){NULL, 0}, arena, &budget, err));
  WF_TRY(wf_json_next(&r, &e, err));
  for (int i = 0; i < 4; i++) {
    const int32_t id = config_token(t, root, keys[i]);
    if (id >= 0 || i != WF_TOKEN_UNK) t->roles[i] = id;
    if (t->roles[i] >= 0 && i != WF_TOKEN_UNK) t->control[t->roles[i]] = 1;
  }
out:
  wf_json_deinit(&r);
  wf_map_close(&map);
  wf_arena_destroy(arena);
  return st;
}

weft_status wf_tokenizer_load_json(wf_tokenizer **result, const char *tokenizer_json_path,
                                   const char *tokenizer_config_json_path, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_map map = {0};
  wf_tokenizer *t = NULL;
  WF_TRY(wf_map_open(&map, tokenizer_json_path, err));
  WF_TRY(wf_tokenizer_load_json_text(&t, (wf_str){(const char *)map.at, map.n_bytes},
                                     tokenizer_json_path, err));
  if (tokenizer_config_json_path) WF_TRY(read_config(t, tokenizer_config_json_path, err));
  *result = t;
  t = NULL;
out:
  wf_map_close(&map);
  wf_tokenizer_destroy(t);
  return st;
}
