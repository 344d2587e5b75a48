/* SPDX-License-Identifier: Apache-2.0 */
/* Components of tokenizer.json that come before the model: normalisers and pre-tokenizers. A kind
 * that is not in these tables is an error that names it and its place in the file. */
#include "base/utf8.h"
#include "text/tokenizer_internal.h"

static weft_status type_of(const wf_tree *n, wf_str *type, weft_error *err) {
  if (n->kind != WF_JSON_OBJECT_BEGIN) {
    return wf_tree_fail(n, err, WEFT_TOKENIZER, "a component must be an object");
  }
  const wf_tree *t = wf_tree_get(n, "type");
  if (!t || t->kind != WF_JSON_STRING) {
    return wf_tree_fail(n, err, WEFT_TOKENIZER, "the component has no 'type'");
  }
  *type = t->text;
  return WEFT_OK;
}

static weft_status unknown(const wf_tree *n, const char *what, wf_str type, weft_error *err) {
  return wf_tree_fail(n, err, WEFT_UNSUPPORTED, "the %s '%.*s' is unknown to weft", what,
                      (int)(type.n < 100 ? type.n : 100), type.at);
}

/* {"String": "x"}, {"Regex": "x"}, or a plain string as very old files have it. */
weft_status wf_parts_too_many(const wf_tree *n, weft_error *err) {
  return wf_tree_fail(n, err, WEFT_LIMIT, "there are more than %d steps before this one",
                      WF_STEPS_LIMIT);
}

weft_status wf_parts_pattern(const wf_tree *n, wf_regex **result, weft_error *err) {
  const wf_tree *p = wf_tree_get(n, "pattern");
  if (!p) return wf_tree_fail(n, err, WEFT_TOKENIZER, "the member 'pattern' is missing");
  const wf_tree *literal = p->kind == WF_JSON_STRING ? p : wf_tree_get(p, "String");
  const wf_tree *regex = wf_tree_get(p, "Regex");
  if (literal && literal->kind == WF_JSON_STRING) {
    return wf_regex_literal(result, literal->text, err);
  }
  if (!regex || regex->kind != WF_JSON_STRING) {
    return wf_tree_fail(p, err, WEFT_TOKENIZER, "a pattern is a 'String' or a 'Regex'");
  }
  wf_buf path = {0};
  wf_tree_path(regex, &path);
  const char *at = wf_buf_cstr(&path);
  const weft_status st = wf_regex_compile(result, regex->text, at ? at : "pattern", err);
  wf_buf_deinit(&path);
  return st;
}

static int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static bool base64_decode(wf_str s, wf_buf *out) {
  uint32_t bits = 0;
  int n_bits = 0;
  while (s.n && s.at[s.n - 1] == '=') s.n--;
  for (size_t i = 0; i < s.n; i++) {
    const int v = base64_value(s.at[i]);
    if (v < 0) return false;
    bits = bits << 6 | (uint32_t)v;
    n_bits += 6;
    if (n_bits >= 8) {
      n_bits -= 8;
      wf_buf_putc(out, (char)(bits >> n_bits & 0xff));
    }
  }
  return true;
}

static weft_status read_charsmap(wf_tokenizer *t, const wf_tree *n, wf_charsmap *map,
                                 weft_error *err) {
  const wf_tree *m = wf_tree_get(n, "precompiled_charsmap");
  if (!m) return WEFT_OK;
  wf_buf bytes = {0}, path = {0};
  weft_status st = WEFT_OK;
  wf_tree_path(m, &path);
  if (m->kind != WF_JSON_STRING || !base64_decode(m->text, &bytes)) {
    st = wf_tree_fail(m, err, WEFT_TOKENIZER, "base64 text is expected here");
  } else {
    const char *at = wf_buf_cstr(&path);
    st = wf_charsmap_parse(map, (const unsigned char *)bytes.at, bytes.n, t->arena,
                           at ? at : "normalizer", err);
  }
  wf_buf_deinit(&bytes);
  wf_buf_deinit(&path);
  return st;
}

static weft_status sequence(wf_tokenizer *t, const wf_tree *n, const char *member,
                            weft_status (*each)(wf_tokenizer *, const wf_tree *, weft_error *),
                            weft_error *err) {
  const wf_tree *list = wf_tree_get(n, member);
  if (!list || list->kind != WF_JSON_ARRAY_BEGIN) {
    return wf_tree_fail(n, err, WEFT_TOKENIZER, "a Sequence needs the list '%s'", member);
  }
  for (const wf_tree *c = list->child; c; c = c->next) WF_RETURN_IF_ERROR(each(t, c, err));
  return WEFT_OK;
}

weft_status wf_parts_normalizer(wf_tokenizer *t, const wf_tree *n, weft_error *err) {
  static const struct {
    const char *name;
    wf_norm_kind kind;
  } kinds[] = {{"NFC", WF_NORM_NFC},
               {"NFD", WF_NORM_NFD},
               {"NFKC", WF_NORM_NFKC},
               {"NFKD", WF_NORM_NFKD},
               {"Lowercase", WF_NORM_LOWERCASE},
               {"Strip", WF_NORM_STRIP},
               {"StripAccents", WF_NORM_STRIP_ACCENTS},
               {"Replace", WF_NORM_REPLACE},
               {"Prepend", WF_NORM_PREPEND},
               {"Nmt", WF_NORM_NMT},
               {"BertNormalizer", WF_NORM_BERT},
               {"Precompiled", WF_NORM_PRECOMPILED},
               {"ByteLevel", WF_NORM_BYTE_LEVEL}};
  wf_str type;
  WF_RETURN_IF_ERROR(type_of(n, &type, err));
  if (wf_str_is(type, "Sequence")) return sequence(t, n, "normalizers", wf_parts_normalizer, err);
  size_t k = 0;
  while (k < WF_ARRAY_LEN(kinds) && !wf_str_is(type, kinds[k].name)) k++;
  if (k == WF_ARRAY_LEN(kinds)) return unknown(n, "normalizer", type, err);
  if (t->norms.n >= WF_STEPS_LIMIT) return wf_parts_too_many(n, err);
  wf_norm m = {.kind = kinds[k].kind};
  m.left = wf_tree_bool(n, "strip_left", true);
  m.right = wf_tree_bool(n, "strip_right", true);
  m.clean_text = wf_tree_bool(n, "clean_text", true);
  m.chinese = wf_tree_bool(n, "handle_chinese_chars", true);
  m.lower = wf_tree_bool(n, "lowercase", true);
  m.accents = wf_tree_bool(n, "strip_accents", m.lower);
  if (m.kind == WF_NORM_REPLACE) {
    WF_RETURN_IF_ERROR(wf_tree_string(n, "content", NULL, t->arena, &m.content, err));
    WF_RETURN_IF_ERROR(wf_parts_pattern(n, &m.regex, err));
  } else if (m.kind == WF_NORM_PREPEND) {
    WF_RETURN_IF_ERROR(wf_tree_string(n, "prepend", NULL, t->arena, &m.content, err));
  } else if (m.kind == WF_NORM_PRECOMPILED) {
    WF_RETURN_IF_ERROR(read_charsmap(t, n, &m.map, err));
  }
  if (!wf_vec_push(&t->norms, m)) {
    wf_regex_destroy(m.regex);
    return wf_fail_memory(err, sizeof m, "a normalizer");
  }
  return WEFT_OK;
}

static weft_status read_behavior(const wf_tree *n, wf_behavior absent, wf_behavior *result,
                                 weft_error *err) {
  static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                      "Contiguous"};
  const wf_tree *b = wf_tree_get(n, "behavior");
  *result = absent;
  if (!b) return WEFT_OK;
  for (size_t i = 0; i < WF_ARRAY_LEN(names); i++) {
    if (b->kind == WF_JSON_STRING && wf_str_is(b->text, names[i])) {
      *result = (wf_behavior)i;
      return WEFT_OK;
    }
  }
  return wf_tree_fail(b, err, WEFT_TOKENIZER, "the behavior '%.*s' is unknown",
                      (int)(b->text.n < 60 ? b->text.n : 60), b->text.at ? b->text.at : "");
}

/* A member that is exactly one character. */
static weft_status read_char(const wf_tree *n, const char *key, uint32_t absent, uint32_t *cp,
                             weft_error *err) {
  const wf_tree *c = wf_tree_get(n, key);
  *cp = absent;
  if (!c && absent) return WEFT_OK;
  if (!c || c->kind != WF_JSON_STRING || c->text.n == 0 ||
      wf_utf8_decode(c->text.at, c->text.n, cp) != c->text.n) {
    return wf_tree_fail(c ? c : n, err, WEFT_TOKENIZER, "'%s' must be one character", key);
  }
  return WEFT_OK;
}

/* Old files say add_prefix_space, new ones prepend_scheme. */
static weft_status read_prepend(const wf_tree *n, wf_prepend *result, weft_error *err) {
  const wf_tree *scheme = wf_tree_get(n, "prepend_scheme");
  *result = WF_PREPEND_ALWAYS;
  if (scheme) {
    if (wf_str_is(scheme->text, "never")) {
      *result = WF_PREPEND_NEVER;
    } else if (wf_str_is(scheme->text, "first")) {
      *result = WF_PREPEND_FIRST;
    } else if (!wf_str_is(scheme->text, "always")) {
      return wf_tree_fail(scheme, err, WEFT_TOKENIZER, "'always', 'first' or 'never' belongs here");
    }
  }
  if (!wf_tree_bool(n, "add_prefix_space", true)) {
    if (scheme && *result != WF_PREPEND_NEVER) {
      return wf_tree_fail(n, err, WEFT_TOKENIZER,
                          "add_prefix_space does not agree with prepend_scheme");
    }
    *result = WF_PREPEND_NEVER;
  }
  return WEFT_OK;
}

weft_status wf_parts_pretok(wf_tokenizer *t, const wf_tree *n, weft_error *err) {
  static const struct {
    const char *name;
    wf_pretok_kind kind;
  } kinds[] = {{"ByteLevel", WF_PRETOK_BYTE_LEVEL},
               {"Split", WF_PRETOK_SPLIT},
               {"Metaspace", WF_PRETOK_METASPACE},
               {"Whitespace", WF_PRETOK_WHITESPACE},
               {"WhitespaceSplit", WF_PRETOK_WHITESPACE_SPLIT},
               {"Digits", WF_PRETOK_DIGITS},
               {"Punctuation", WF_PRETOK_PUNCTUATION},
               {"BertPreTokenizer", WF_PRETOK_BERT},
               {"CharDelimiterSplit", WF_PRETOK_DELIMITER},
               {"FixedLength", WF_PRETOK_FIXED_LENGTH}};
  wf_str type;
  WF_RETURN_IF_ERROR(type_of(n, &type, err));
  if (wf_str_is(type, "Sequence")) return sequence(t, n, "pretokenizers", wf_parts_pretok, err);
  size_t k = 0;
  while (k < WF_ARRAY_LEN(kinds) && !wf_str_is(type, kinds[k].name)) k++;
  if (k == WF_ARRAY_LEN(kinds)) return unknown(n, "pre_tokenizer", type, err);
  if (t->pretoks.n >= WF_STEPS_LIMIT) return wf_parts_too_many(n, err);
  wf_pretok m = {.kind = kinds[k].kind};
  m.add_prefix_space = wf_tree_bool(n, "add_prefix_space", true);
  m.use_regex = wf_tree_bool(n, "use_regex", true);
  m.individual = wf_tree_bool(n, "individual_digits", false);
  m.invert = wf_tree_bool(n, "invert", false);
  m.split = wf_tree_bool(n, "split", true);
  WF_RETURN_IF_ERROR(read_behavior(n, WF_SPLIT_ISOLATED, &m.behavior, err));
  if (m.kind == WF_PRETOK_METASPACE) {
    WF_RETURN_IF_ERROR(read_char(n, "replacement", 0, &m.cp, err));
    WF_RETURN_IF_ERROR(read_prepend(n, &m.prepend, err));
  } else if (m.kind == WF_PRETOK_DELIMITER) {
    WF_RETURN_IF_ERROR(read_char(n, "delimiter", 0, &m.cp, err));
  } else if (m.kind == WF_PRETOK_FIXED_LENGTH) {
    WF_RETURN_IF_ERROR(wf_tree_count(n, "length", 5, &m.length, err));
    if (m.length == 0) return wf_tree_fail(n, err, WEFT_TOKENIZER, "the length must not be 0");
  } else if (m.kind == WF_PRETOK_SPLIT) {
    if (!wf_tree_get(n, "behavior")) {
      return wf_tree_fail(n, err, WEFT_TOKENIZER, "the member 'behavior' is missing");
    }
    WF_RETURN_IF_ERROR(wf_parts_pattern(n, &m.regex, err));
  }
  if (!wf_vec_push(&t->pretoks, m)) {
    wf_regex_destroy(m.regex);
    return wf_fail_memory(err, sizeof m, "a pre-tokenizer");
  }
  return WEFT_OK;
}

/* ---- Decoders ---- */

static weft_status read_decoder(wf_tokenizer *t, const wf_tree *n, wf_decoder *d, weft_error *err) {
  switch (d->kind) {
    case WF_DECODER_REPLACE:
      WF_RETURN_IF_ERROR(wf_tree_string(n, "content", NULL, t->arena, &d->content, err));
      return wf_parts_pattern(n, &d->regex, err);
    case WF_DECODER_STRIP:
      WF_RETURN_IF_ERROR(read_char(n, "content", ' ', &d->cp, err));
      WF_RETURN_IF_ERROR(wf_tree_count(n, "start", 0, &d->start, err));
      return wf_tree_count(n, "stop", 0, &d->stop, err);
    case WF_DECODER_METASPACE: {
      wf_prepend prepend;
      WF_RETURN_IF_ERROR(read_char(n, "replacement", 0, &d->cp, err));
      WF_RETURN_IF_ERROR(read_prepend(n, &prepend, err));
      d->drop_first = prepend != WF_PREPEND_NEVER;
      return WEFT_OK;
    }
    case WF_DECODER_WORDPIECE:
      d->cleanup = wf_tree_bool(n, "cleanup", true);
      return wf_tree_string(n, "prefix", "##", t->arena, &d->content, err);
    case WF_DECODER_BPE:
      return wf_tree_string(n, "suffix", "</w>", t->arena, &d->content, err);
    case WF_DECODER_BYTE_LEVEL:
    case WF_DECODER_BYTE_FALLBACK:
    case WF_DECODER_FUSE:
      break;
  }
  return WEFT_OK;
}

weft_status wf_parts_decoder(wf_tokenizer *t, const wf_tree *n, weft_error *err) {
  static const struct {
    const char *name;
    wf_decoder_kind kind;
  } kinds[] = {{"ByteLevel", WF_DECODER_BYTE_LEVEL},
               {"ByteFallback", WF_DECODER_BYTE_FALLBACK},
               {"Fuse", WF_DECODER_FUSE},
               {"Replace", WF_DECODER_REPLACE},
               {"Strip", WF_DECODER_STRIP},
               {"Metaspace", WF_DECODER_METASPACE},
               {"WordPiece", WF_DECODER_WORDPIECE},
               {"BPEDecoder", WF_DECODER_BPE}};
  wf_str type;
  t->has_decoder = true;
  WF_RETURN_IF_ERROR(type_of(n, &type, err));
  if (wf_str_is(type, "Sequence")) return sequence(t, n, "decoders", wf_parts_decoder, err);
  size_t k = 0;
  while (k < WF_ARRAY_LEN(kinds) && !wf_str_is(type, kinds[k].name)) k++;
  if (k == WF_ARRAY_LEN(kinds)) return unknown(n, "decoder", type, err);
  if (t->decoders.n >= WF_STEPS_LIMIT) return wf_parts_too_many(n, err);
  wf_decoder d = {.kind = kinds[k].kind};
  weft_status st = read_decoder(t, n, &d, err);
  if (st == WEFT_OK && !wf_vec_push(&t->decoders, d)) {
    st = wf_fail_memory(err, sizeof d, "a decoder");
  }
  if (st != WEFT_OK) wf_regex_destroy(d.regex);
  return st;
}
