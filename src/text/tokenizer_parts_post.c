/* SPDX-License-Identifier: Apache-2.0 */
/* Post-processors of tokenizer.json, all brought into two forms: templates and trimming. */
#include "text/tokenizer_internal.h"

static weft_status read_id(const wf_tree *n, int32_t *id, weft_error *err) {
  int64_t v;
  if (!n || n->kind != WF_JSON_NUMBER || !wf_parse_i64(n->text, &v) || v < 0 || v > INT32_MAX - 1) {
    return wf_tree_fail(n, err, WEFT_TOKENIZER, "a token id is expected here");
  }
  *id = (int32_t)v;
  return WEFT_OK;
}

/* Keeps the largest id that a special token of a template names within the tables. */
static weft_status no_memory(weft_error *err) {
  return wf_fail_memory(err, sizeof(wf_post), "a post-processor");
}

/* A special token's ids and texts from the map "special_tokens". */
static weft_status read_special(wf_tokenizer *t, const wf_tree *use, const wf_tree *map,
                                wf_str name, wf_post_part *part, weft_error *err) {
  const wf_tree *s = NULL;
  for (const wf_tree *c = map ? map->child : NULL; c; c = c->next) {
    if (wf_str_eq(c->key, name)) s = c;
  }
  const wf_tree *ids = wf_tree_get(s, "ids"), *tokens = wf_tree_get(s, "tokens");
  if (!ids || ids->kind != WF_JSON_ARRAY_BEGIN) {
    return wf_tree_fail(use, err, WEFT_TOKENIZER, "special_tokens does not define '%.*s'",
                        (int)(name.n < 60 ? name.n : 60), name.at ? name.at : "");
  }
  size_t n = 0;
  for (const wf_tree *c = ids->child; c; c = c->next) n++;
  int32_t *values = wf_arena_calloc(t->arena, n + 1, sizeof *values);
  wf_str *texts = wf_arena_calloc(t->arena, n + 1, sizeof *texts);
  if (!values || !texts) return no_memory(err);
  const wf_tree *text = tokens ? tokens->child : NULL;
  size_t i = 0;
  for (const wf_tree *c = ids->child; c; c = c->next, i++) {
    WF_RETURN_IF_ERROR(read_id(c, &values[i], err));
    texts[i] = wf_tokenizer_keep(t, text ? text->text : (wf_str){"", 0});
    if (!texts[i].at) return no_memory(err);
    if (text) text = text->next;
  }
  *part = (wf_post_part){-1, values, texts, n};
  return WEFT_OK;
}

static weft_status read_template(wf_tokenizer *t, const wf_tree *n, const char *member,
                                 const wf_post_part **parts, size_t *n_parts, weft_error *err) {
  const wf_tree *list = wf_tree_get(n, member), *map = wf_tree_get(n, "special_tokens");
  if (!list || list->kind != WF_JSON_ARRAY_BEGIN) {
    return wf_tree_fail(n, err, WEFT_TOKENIZER, "the list '%s' is missing", member);
  }
  size_t count = 0;
  for (const wf_tree *c = list->child; c; c = c->next) count++;
  wf_post_part *all = wf_arena_calloc(t->arena, count + 1, sizeof *all);
  if (!all) return no_memory(err);
  size_t i = 0;
  for (const wf_tree *c = list->child; c; c = c->next, i++) {
    const wf_tree *seq = wf_tree_get(c, "Sequence"), *special = wf_tree_get(c, "SpecialToken");
    const wf_tree *id = wf_tree_get(seq ? seq : special, "id");
    if (!id || id->kind != WF_JSON_STRING) {
      return wf_tree_fail(c, err, WEFT_TOKENIZER,
                          "a part of a template is a 'Sequence' or a 'SpecialToken' with an 'id'");
    }
    if (special && !seq) {
      WF_RETURN_IF_ERROR(read_special(t, c, map, id->text, &all[i], err));
    } else if (wf_str_is(id->text, "A") || wf_str_is(id->text, "B")) {
      all[i].sequence = id->text.at[0] - 'A';
    } else {
      return wf_tree_fail(id, err, WEFT_TOKENIZER, "a sequence is called 'A' or 'B'");
    }
  }
  *parts = all;
  *n_parts = count;
  return WEFT_OK;
}

/* ["[SEP]", 102] */
static weft_status read_pair(wf_tokenizer *t, const wf_tree *n, const char *member,
                             wf_post_part *part, weft_error *err) {
  const wf_tree *p = wf_tree_get(n, member);
  if (!p || p->kind != WF_JSON_ARRAY_BEGIN || !p->child || !p->child->next) {
    return wf_tree_fail(n, err, WEFT_TOKENIZER, "'%s' must be a token and its id", member);
  }
  int32_t *id = wf_arena_alloc(t->arena, sizeof *id);
  wf_str *text = wf_arena_alloc(t->arena, sizeof *text);
  if (!id || !text) return no_memory(err);
  WF_RETURN_IF_ERROR(read_id(p->child->next, id, err));
  *text = wf_tokenizer_keep(t, p->child->text);
  if (!text->at) return no_memory(err);
  *part = (wf_post_part){-1, id, text, 1};
  return WEFT_OK;
}

/* [CLS] A [SEP] B [SEP], or <s> A </s> </s> B </s>. */
static weft_status read_cls_sep(wf_tokenizer *t, const wf_tree *n, bool twice, wf_post *post,
                                weft_error *err) {
  wf_post_part cls, sep;
  WF_RETURN_IF_ERROR(read_pair(t, n, "cls", &cls, err));
  WF_RETURN_IF_ERROR(read_pair(t, n, "sep", &sep, err));
  wf_post_part *single = wf_arena_calloc(t->arena, 3, sizeof *single);
  wf_post_part *pair = wf_arena_calloc(t->arena, 6, sizeof *pair);
  if (!single || !pair) return no_memory(err);
  const wf_post_part a = {.sequence = 0}, b = {.sequence = 1};
  single[0] = pair[0] = cls;
  single[1] = pair[1] = a;
  single[2] = pair[2] = sep;
  size_t k = 3;
  if (twice) pair[k++] = sep;
  pair[k++] = b;
  pair[k++] = sep;
  post->kind = WF_POST_TEMPLATE;
  post->single = single;
  post->n_single = 3;
  post->pair = pair;
  post->n_pair = k;
  return WEFT_OK;
}

static weft_status push(wf_tokenizer *t, const wf_post *p, const wf_tree *n, weft_error *err) {
  if (t->posts.n >= WF_STEPS_LIMIT) return wf_parts_too_many(n, err);
  return wf_vec_push(&t->posts, *p) ? WEFT_OK : no_memory(err);
}

weft_status wf_parts_post(wf_tokenizer *t, const wf_tree *n, weft_error *err) {
  const wf_tree *type = wf_tree_get(n, "type");
  if (!type || type->kind != WF_JSON_STRING) {
    return wf_tree_fail(n, err, WEFT_TOKENIZER, "the component has no 'type'");
  }
  if (wf_str_is(type->text, "Sequence")) {
    const wf_tree *list = wf_tree_get(n, "processors");
    if (!list || list->kind != WF_JSON_ARRAY_BEGIN) {
      return wf_tree_fail(n, err, WEFT_TOKENIZER, "a Sequence needs the list 'processors'");
    }
    for (const wf_tree *c = list->child; c; c = c->next) {
      WF_RETURN_IF_ERROR(wf_parts_post(t, c, err));
    }
    return WEFT_OK;
  }
  wf_post p = {.kind = WF_POST_TEMPLATE};
  if (wf_str_is(type->text, "TemplateProcessing")) {
    WF_RETURN_IF_ERROR(read_template(t, n, "single", &p.single, &p.n_single, err));
    WF_RETURN_IF_ERROR(read_template(t, n, "pair", &p.pair, &p.n_pair, err));
    return push(t, &p, n, err);
  }
  const bool roberta = wf_str_is(type->text, "RobertaProcessing");
  if (roberta || wf_str_is(type->text, "ByteLevel")) {
    if (wf_tree_bool(n, "trim_offsets", true)) {
      const wf_post trim = {.kind = WF_POST_TRIM,
                            .add_prefix_space = wf_tree_bool(n, "add_prefix_space", true)};
      WF_RETURN_IF_ERROR(push(t, &trim, n, err));
    }
    if (!roberta) return WEFT_OK;
  }
  if (roberta || wf_str_is(type->text, "BertProcessing")) {
    WF_RETURN_IF_ERROR(read_cls_sep(t, n, roberta, &p, err));
    return push(t, &p, n, err);
  }
  return wf_tree_fail(n, err, WEFT_UNSUPPORTED, "the post_processor '%.*s' is unknown to weft",
                      (int)(type->text.n < 100 ? type->text.n : 100), type->text.at);
}
