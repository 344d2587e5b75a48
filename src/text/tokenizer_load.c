/* SPDX-License-Identifier: Apache-2.0 */
/* Reads tokenizer.json and tokenizer_config.json. */
#include <stdlib.h>

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

/* One added token, from tokenizer.json's list or as tokenizer_config.json writes it. */
static weft_status read_added(wf_tokenizer *t, const wf_tree *n, wf_added *a, weft_error *err) {
  *a = (wf_added){.id = -1};
  WF_RETURN_IF_ERROR(wf_tree_string(n, "content", NULL, t->arena, &a->content, err));
  a->special = wf_tree_bool(n, "special", false);
  a->single_word = wf_tree_bool(n, "single_word", false);
  a->lstrip = wf_tree_bool(n, "lstrip", false);
  a->rstrip = wf_tree_bool(n, "rstrip", false);
  a->normalized = wf_tree_bool(n, "normalized", !a->special);
  return WEFT_OK;
}

static weft_status add_tokens(wf_tokenizer *t, const wf_tree *list, weft_error *err) {
  if (!list || list->kind == WF_JSON_NULL) return WEFT_OK;
  if (list->kind != WF_JSON_ARRAY_BEGIN) {
    return wf_tree_fail(list, err, WEFT_TOKENIZER, "a list is expected here");
  }
  for (const wf_tree *c = list->child; c; c = c->next) {
    wf_added a;
    WF_RETURN_IF_ERROR(read_added(t, c, &a, err));
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

/* ---- tokenizer_config.json ------------------------------------------------------------------ */

/* Read whole before the tokenizer is sealed: it may add tokens. */
typedef struct config {
  wf_arena *arena;
  wf_map map;
  const wf_tree *root; /* NULL: no such file */
} config;

static void config_deinit(config *c) {
  wf_arena_destroy(c->arena);
  wf_map_close(&c->map);
}

static weft_status config_read(config *c, const char *path, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_json_reader r = {0};
  size_t budget = TREE_BUDGET;
  wf_tree *root = NULL;
  wf_json_event e;
  WF_RETURN_IF_ERROR(wf_map_open(&c->map, path, err));
  wf_json_init(&r, (wf_str){(const char *)c->map.at, c->map.n_bytes}, path);
  c->arena = wf_arena_create();
  if (!c->arena) {
    st = wf_fail_memory(err, sizeof *root, "the settings of a tokenizer");
    goto out;
  }
  WF_TRY(wf_json_next(&r, &e, err));
  WF_TRY(wf_tree_read(&root, &r, &e, (wf_str){NULL, 0}, c->arena, &budget, err));
  WF_TRY(wf_json_next(&r, &e, err));
  c->root = root;
out:
  wf_json_deinit(&r);
  return st;
}

typedef struct numbered {
  int64_t id;
  const wf_tree *token;
} numbered;

static int by_id(const void *a, const void *b) {
  const int64_t x = ((const numbered *)a)->id, y = ((const numbered *)b)->id;
  return x < y ? -1 : x > y;
}

/* {"ID": {"content": ..}}: what tokenizer.json lacks is added in the order of the ids, what it has
 * gets these flags. The ids are not asked for more: a new token gets its vocabulary's id or the
 * next free one, as in transformers. */
static weft_status add_decoder_tokens(wf_tokenizer *t, const wf_tree *decoder, weft_error *err) {
  weft_status st = WEFT_OK;
  WF_VEC(numbered) list = {0};
  if (!decoder || decoder->kind != WF_JSON_OBJECT_BEGIN) return WEFT_OK;
  for (const wf_tree *c = decoder->child; c; c = c->next) {
    numbered one = {.token = c};
    if (!wf_parse_i64(c->key, &one.id) || c->kind != WF_JSON_OBJECT_BEGIN) {
      st = wf_tree_fail(c, err, WEFT_TOKENIZER, "added_tokens_decoder has ids and their tokens");
      goto out;
    }
    if (!wf_vec_push(&list, one)) {
      st = wf_fail_memory(err, sizeof one, "added tokens");
      goto out;
    }
  }
  if (list.n) qsort(list.at, list.n, sizeof *list.at, by_id);
  for (size_t i = 0; i < list.n; i++) {
    wf_added a;
    WF_TRY(read_added(t, list.at[i].token, &a, err));
    WF_TRY(wf_added_put(t, &a, err));
  }
out:
  wf_vec_free(&list);
  return st;
}

/* "<s>", or an object with "content" as added_tokens_decoder's. */
static weft_status add_special(wf_tokenizer *t, const wf_tree *n, weft_error *err) {
  wf_added a = {.id = -1};
  if (n && n->kind == WF_JSON_OBJECT_BEGIN) {
    WF_RETURN_IF_ERROR(read_added(t, n, &a, err));
  } else if (n && n->kind == WF_JSON_STRING) {
    a.content = (wf_str){wf_arena_strndup(t->arena, n->text.at, n->text.n), n->text.n};
    if (!a.content.at) return wf_fail_memory(err, n->text.n, "an added token");
  } else {
    return WEFT_OK;
  }
  a.special = true;
  return wf_added_has(t, a.content) ? WEFT_OK : wf_added_put(t, &a, err);
}

static weft_status add_config_tokens(wf_tokenizer *t, const wf_tree *root, weft_error *err) {
  static const char *const named[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                      "pad_token", "cls_token", "mask_token"};
  static const char *const lists[] = {"extra_special_tokens", "additional_special_tokens"};
  WF_RETURN_IF_ERROR(add_decoder_tokens(t, wf_tree_get(root, "added_tokens_decoder"), err));
  for (size_t i = 0; i < WF_ARRAY_LEN(named); i++) {
    WF_RETURN_IF_ERROR(add_special(t, wf_tree_get(root, named[i]), err));
  }
  for (size_t i = 0; i < WF_ARRAY_LEN(lists); i++) {
    const wf_tree *list = wf_tree_get(root, lists[i]);
    if (!list || (list->kind != WF_JSON_ARRAY_BEGIN && list->kind != WF_JSON_OBJECT_BEGIN))
      continue;
    for (const wf_tree *c = list->child; c; c = c->next) {
      WF_RETURN_IF_ERROR(add_special(t, c, err));
    }
    break; /* the second is the first one's old name */
  }
  return WEFT_OK;
}

/* A token of the configuration: its text, or an object that holds it. */
static int32_t config_token(const wf_tokenizer *t, const wf_tree *root, const char *key) {
  const wf_tree *n = wf_tree_get(root, key);
  if (n && n->kind == WF_JSON_OBJECT_BEGIN) n = wf_tree_get(n, "content");
  return n && n->kind == WF_JSON_STRING ? wf_tokenizer_id_of(t, n->text) : -1;
}

static void take_roles(wf_tokenizer *t, const wf_tree *root) {
  static const char *const keys[4] = {"bos_token", "eos_token", "pad_token", "unk_token"};
  for (int i = 0; i < 4; i++) {
    const int32_t id = config_token(t, root, keys[i]);
    if (id >= 0 || i != WF_TOKEN_UNK) t->roles[i] = id;
    if (t->roles[i] >= 0 && i != WF_TOKEN_UNK) t->control[t->roles[i]] = 1;
  }
}

/* ---- both ----------------------------------------------------------------------------------- */

static weft_status load(wf_tokenizer **result, wf_str json, const char *name, const config *c,
                        weft_error *err) {
  weft_status st = WEFT_OK;
  const char *file = name; /* the one that errors are about */
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
  if (c && c->root) {
    file = c->map.path;
    WF_TRY(add_config_tokens(t, c->root, err));
    file = name;
  }
  WF_TRY(wf_tokenizer_seal(t, name, err));
  if (c && c->root) take_roles(t, c->root);
  *result = t;
  t = NULL;
out:
  if (st != WEFT_OK && st != WEFT_PARSE && err) (void)wf_fail_in(err, st, "%s: ", file);
  wf_json_deinit(&r);
  wf_arena_destroy(p.arena);
  wf_tokenizer_destroy(t);
  return st;
}

weft_status wf_tokenizer_load_json_text(wf_tokenizer **result, wf_str json, const char *name,
                                        weft_error *err) {
  return load(result, json, name, NULL, err);
}

weft_status wf_tokenizer_load_json(wf_tokenizer **result, const char *tokenizer_json_path,
                                   const char *tokenizer_config_json_path, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_map map = {0};
  config c = {0};
  WF_TRY(wf_map_open(&map, tokenizer_json_path, err));
  if (tokenizer_config_json_path) WF_TRY(config_read(&c, tokenizer_config_json_path, err));
  st = load(result, (wf_str){(const char *)map.at, map.n_bytes}, tokenizer_json_path, &c, err);
out:
  config_deinit(&c);
  wf_map_close(&map);
  return st;
}
