/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json out of a GGUF vocabulary. GGUF names a tokenizer by a model and, for byte-level
 * BPE, by the name of a pre-tokenizer; the table below says what each name is in Hugging Face's
 * terms. A name that is missing is refused: a wrong split gives a fluent but worse model. */
#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "import/hf_files.h"

#define MAX_TOKENS ((uint64_t)1 << 21)
#define MAX_TOKEN_BYTES 4096u

/* Token types of GGUF. */
enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

/* Regular expressions in the dialect of Hugging Face tokenizers. */
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define TAIL "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS_THEN_DIGITS(digits) \
  CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" TAIL
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(tail, digits)                                                                   \
  "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" tail "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER \
  "*" tail "|" digits "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" TAIL
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"

/* One step of a pre-tokenizer: 's' Split by a regex, kept isolated; 'd' every digit alone; 'D'
 * runs of digits; 'P' runs of punctuation; 'b' ByteLevel with its own regex; 'B' without. */
typedef struct step {
  char kind;
  const char *regex;
} step;

typedef struct pre_row {
  const char *names; /* space-separated, as GGUF has them */
  step steps[6];
  bool ignores_merges, adds_bos, has_nfc;
} pre_row;

static const pre_row pre_rows[] = {
    /* As Digits and ByteLevel with its regex, which is how Hugging Face writes it;
     * onnxruntime-genai 0.18 splits digits right only in this form. */
    {"smollm starcoder refact command-r codeshell",
     {{'s', "\\p{N}"}, {'s', GPT2 "|\\s+"}, {'B', ""}},
     false,
     false,
     false},
    {"gpt-2 mpt olmo jais phi-2 trillion granite-docling gpt2 modern-bert",
     {{'b', ""}},
     false,
     false,
     false},
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2",
     {{'s', WORDS_THEN_DIGITS("\\p{N}{1,3}")}, {'B', ""}},
     true,
     true,
     false},
    {"dbrx smaug-bpe chatglm-bpe glm4",
     {{'s', WORDS_THEN_DIGITS("\\p{N}{1,3}")}, {'B', ""}},
     false,
     false,
     false},
    {"qwen2 deepseek-r1-qwen megrez stablelm2",
     {{'s', WORDS_THEN_DIGITS("\\p{N}")}, {'B', ""}},
     false,
     false,
     true},
    {"tekken", {{'s', CASED("", "\\p{N}")}, {'B', ""}}, true, true, false},
    {"gpt-4o llama4",
     {{'s', CASED(CONTRACTIONS "?", "\\p{N}{1,3}")}, {'B', ""}},
     false,
     false,
     false},
    {"deepseek-coder",
     {{'s', "[\\r\\n]"},
      {'s', "\\s?\\p{L}+"},
      {'s', "\\s?\\p{P}+"},
      {'s', "[\xe4\xb8\x80-\xe9\xbe\xa5\xe0\xa0\x80-\xe4\xb8\x80\xea\xb0\x80-\xed\x9f\xbf]+"},
      {'d', ""},
      {'B', ""}},
     false,
     false,
     false},
    {"falcon", {{'P', ""}, {'b', ""}, {'D', ""}, {'s', "[0-9][0-9][0-9]"}}, false, false, false},
    {"default",
     {{'s', "[\\p{P}\\$\\+<=>\\^~\\|]+"},
      {'s', GPT2},
      {'s', "\\p{N}+"},
      {'s', "[0-9][0-9][0-9]"},
      {'B', ""}},
     false,
     false,
     false},
};

static bool has_word(const char *words, wf_str word) {
  while (*words) {
    size_t n = 0;
    while (words[n] && words[n] != ' ') n++;
    if (n == word.n && memcmp(words, word.at, n) == 0) return true;
    words += n + (words[n] == ' ');
  }
  return false;
}

static const pre_row *find_pre(wf_str name) {
  for (size_t i = 0; i < sizeof pre_rows / sizeof *pre_rows; i++) {
    if (has_word(pre_rows[i].names, name)) return &pre_rows[i];
  }
  return NULL;
}

static weft_status read_id(const wf_gguf *g, const char *key, size_t n, int64_t *id,
                           weft_error *err) {
  uint64_t v = 0;
  bool found;
  WF_RETURN_IF_ERROR(wf_gguf_u64(g, key, &v, &found, err));
  *id = -1;
  if (!found || v == UINT32_MAX) return WEFT_OK; /* -1 written as u32 means none */
  if (v >= n) {
    return wf_fail(err, WEFT_TOKENIZER, "download or convert the file again",
                   "'%s' of GGUF file '%s' is %llu, but there are %zu tokens", key, g->map.path,
                   (unsigned long long)v, n);
  }
  *id = (int64_t)v;
  return WEFT_OK;
}

static weft_status find_array(const wf_gguf *g, const char *key, bool is_string, uint64_t n,
                              const wf_gguf_entry **result, weft_error *err) {
  const wf_gguf_entry *e = wf_gguf_find(g, key);
  *result = e;
  if (!e) return WEFT_OK;
  if (e->kind != WF_GGUF_ARRAY || (e->element == WF_GGUF_STRING) != is_string ||
      (n != 0 && e->n != n)) {
    return wf_fail(err, WEFT_TOKENIZER, "download or convert the file again",
                   "'%s' of GGUF file '%s' is not an array of %s as long as the vocabulary", key,
                   g->map.path, is_string ? "strings" : "numbers");
  }
  return WEFT_OK;
}

/* Tokens that end a turn or a text in the chat formats of these models. */
static const char end_names[] =
    "<|eot_id|> <|im_end|> <|end|> <end_of_turn> <|endoftext|> <|eom_id|> <EOT> _<EOT> "
    "<|end_of_text|> <\xef\xbd\x9c"
    "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>";

static bool add_end(wf_hf_tokens *t, int64_t id) {
  for (size_t i = 0; i < t->ends.n; i++) {
    if (t->ends.at[i] == id) return true;
  }
  return wf_vec_push(&t->ends, id);
}

static weft_status read_ends(const wf_gguf *g, wf_hf_tokens *t, const wf_gguf_entry *tokens,
                             const wf_gguf_entry *types, weft_error *err) {
  int64_t eot, eom;
  size_t cursor = 0;
  wf_str token;
  WF_RETURN_IF_ERROR(read_id(g, "tokenizer.ggml.eot_token_id", t->n_tokens, &eot, err));
  WF_RETURN_IF_ERROR(read_id(g, "tokenizer.ggml.eom_token_id", t->n_tokens, &eom, err));
  bool is_ok = t->eos < 0 || add_end(t, t->eos);
  is_ok = is_ok && (eot < 0 || add_end(t, eot)) && (eom < 0 || add_end(t, eom));
  for (int64_t i = 0; is_ok && wf_gguf_array_next(tokens, &cursor, &token); i++) {
    if (types && wf_gguf_array_i64(types, (uint64_t)i) == CONTROL && has_word(end_names, token)) {
      is_ok = add_end(t, i);
    }
  }
  return is_ok ? WEFT_OK : wf_fail_memory(err, sizeof(int64_t), "end ids");
}

weft_status wf_hf_tokens_read(const wf_gguf *g, wf_hf_tokens *t, weft_error *err) {
  weft_status st = WEFT_OK;
  const wf_gguf_entry *tokens, *types;
  wf_str model = {0}, pre = {0};
  bool found;
  *t = (wf_hf_tokens){0};
  WF_TRY(find_array(g, "tokenizer.ggml.tokens", true, 0, &tokens, err));
  if (!tokens || tokens->n == 0 || tokens->n > MAX_TOKENS) {
    st = wf_fail(err, WEFT_TOKENIZER, "convert the model again with its tokenizer",
                 "GGUF file '%s' has no usable vocabulary", g->map.path);
    goto out;
  }
  t->n_tokens = (size_t)tokens->n;
  WF_TRY(find_array(g, "tokenizer.ggml.token_type", false, tokens->n, &types, err));
  WF_TRY(read_id(g, "tokenizer.ggml.bos_token_id", t->n_tokens, &t->bos, err));
  WF_TRY(read_id(g, "tokenizer.ggml.eos_token_id", t->n_tokens, &t->eos, err));
  WF_TRY(read_id(g, "tokenizer.ggml.unknown_token_id", t->n_tokens, &t->unk, err));
  WF_TRY(read_id(g, "tokenizer.ggml.padding_token_id", t->n_tokens, &t->pad, err));
  WF_TRY(wf_gguf_string(g, "tokenizer.ggml.model", &model, &found, err));
  WF_TRY(wf_gguf_string(g, "tokenizer.ggml.pre", &pre, &found, err));
  if (wf_str_is(model, "llama") || wf_str_is(model, "bert")) {
    t->adds_bos = true;
  } else if (find_pre(pre)) {
    t->adds_bos = find_pre(pre)->adds_bos;
  }
  if (wf_str_is(model, "bert")) {
    int64_t sep;
    t->adds_eos = true;
    WF_TRY(read_id(g, "tokenizer.ggml.cls_token_id", t->n_tokens, &t->bos, err));
    WF_TRY(read_id(g, "tokenizer.ggml.seperator_token_id", t->n_tokens, &sep, err));
    if (sep >= 0) t->eos = sep;
  }
  WF_TRY(wf_gguf_bool(g, "tokenizer.ggml.add_bos_token", &t->adds_bos, &found, err));
  WF_TRY(wf_gguf_bool(g, "tokenizer.ggml.add_eos_token", &t->adds_eos, &found, err));
  if (t->bos < 0) t->adds_bos = false;
  if (t->eos < 0) t->adds_eos = false;
  WF_TRY(read_ends(g, t, tokens, types, err));
out:
  if (st != WEFT_OK) wf_hf_tokens_deinit(t);
  return st;
}

void wf_hf_tokens_deinit(wf_hf_tokens *t) { wf_vec_free(&t->ends); }

/* Everything about the vocabulary that the writers below look at. */
typedef struct vocabulary {
  const wf_gguf *g;
  const wf_hf_tokens *t;
  wf_str *tokens; /* [n] */
  int8_t *types;  /* [n] */
  size_t n;
  wf_str model;
  bool is_phi3; /* llama.cpp's rule by the model's name: control tokens eat the space after them */
} vocabulary;

static bool name_has_phi3(const wf_gguf *g) {
  static const char *const needles[] = {"phi-3", "phi3"};
  const wf_gguf_entry *e = wf_gguf_find(g, "general.name");
  char name[128];
  if (!e || e->kind != WF_GGUF_STRING || e->n > sizeof name) return false;
  for (size_t i = 0; i < e->n; i++) {
    name[i] = (char)(e->at[i] >= 'A' && e->at[i] <= 'Z' ? e->at[i] + 32 : e->at[i]);
  }
  for (int i = 0; i < 2; i++) {
    if (wf_str_find((wf_str){name, (size_t)e->n}, wf_str_of(needles[i]), 0) != SIZE_MAX)
      return true;
  }
  return false;
}

static weft_status vocabulary_init(vocabulary *v, const wf_gguf *g, const wf_hf_tokens *t,
                                   weft_error *err) {
  const wf_gguf_entry *tokens, *types;
  size_t cursor = 0;
  bool found;
  *v = (vocabulary){.g = g, .t = t, .n = t->n_tokens, .is_phi3 = name_has_phi3(g)};
  WF_RETURN_IF_ERROR(wf_gguf_string(g, "tokenizer.ggml.model", &v->model, &found, err));
  WF_RETURN_IF_ERROR(find_array(g, "tokenizer.ggml.tokens", true, v->n, &tokens, err));
  WF_RETURN_IF_ERROR(find_array(g, "tokenizer.ggml.token_type", false, v->n, &types, err));
  v->tokens = wf_calloc(v->n, sizeof *v->tokens);
  v->types = wf_calloc(v->n, sizeof *v->types);
  if (!v->tokens || !v->types) return wf_fail_memory(err, v->n * sizeof *v->tokens, "a vocabulary");
  for (size_t i = 0; i < v->n; i++) {
    const int64_t type = types ? wf_gguf_array_i64(types, i) : NORMAL;
    if (!wf_gguf_array_next(tokens, &cursor, &v->tokens[i]) ||
        !wf_utf8_is_valid(v->tokens[i].at, v->tokens[i].n) || v->tokens[i].n > MAX_TOKEN_BYTES) {
      return wf_fail(err, WEFT_TOKENIZER, "download or convert the file again",
                     "token %zu of GGUF file '%s' is not UTF-8 or longer than %u bytes", i,
                     g->map.path, MAX_TOKEN_BYTES);
    }
    v->types[i] = (int8_t)(type >= NORMAL && type <= BYTE ? type : NORMAL);
  }
  return WEFT_OK;
}

static void vocabulary_deinit(vocabulary *v) {
  wf_free(v->tokens);
  wf_free(v->types);
}

/* A buffer that empties itself into a file. */
typedef struct out {
  wf_writer *file;
  wf_buf b;
} out;

static void spill(out *o, size_t at_least) {
  if (o->b.failed || o->b.n < at_least) return;
  wf_writer_add(o->file, o->b.at, o->b.n);
  wf_buf_clear(&o->b);
}

static void put_string(out *o, const char *s) {
  wf_buf_add_json_string(&o->b, wf_str_of(s), false);
}

static void put_bool(out *o, const char *name, bool v) {
  wf_buf_printf(&o->b, ",\"%s\":%s", name, v ? "true" : "false");
}

static bool is_added(const vocabulary *v, size_t i) {
  return v->tokens[i].n > 0 &&
         (v->types[i] == CONTROL || v->types[i] == USER_DEFINED || v->types[i] == UNKNOWN);
}

static void put_added_tokens(out *o, const vocabulary *v) {
  bool is_first = true;
  wf_buf_puts(&o->b, "\"added_tokens\":[");
  for (size_t i = 0; i < v->n; i++) {
    if (!is_added(v, i)) continue;
    const wf_str s = v->tokens[i];
    const bool eats_space = v->is_phi3 && !wf_str_is(s, "<unk>") && !wf_str_is(s, "<s>") &&
                            !wf_str_is(s, "<|endoftext|>");
    wf_buf_printf(&o->b, "%s\n{\"id\":%zu,\"content\":", is_first ? "" : ",", i);
    wf_buf_add_json_string(&o->b, s, false);
    put_bool(o, "single_word", false);
    put_bool(o, "lstrip", false);
    put_bool(o, "rstrip", eats_space);
    put_bool(o, "normalized", false);
    put_bool(o, "special", v->types[i] != USER_DEFINED);
    wf_buf_putc(&o->b, '}');
    is_first = false;
    spill(o, 65536);
  }
  wf_buf_puts(&o->b, "],\n");
}

static void put_steps(out *o, const pre_row *pre) {
  wf_buf_puts(&o->b, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
  for (size_t i = 0; i < sizeof pre->steps / sizeof *pre->steps && pre->steps[i].kind; i++) {
    if (i > 0) wf_buf_putc(&o->b, ',');
    switch (pre->steps[i].kind) {
      case 's':
        wf_buf_puts(&o->b, "{\"type\":\"Split\",\"pattern\":{\"Regex\":");
        put_string(o, pre->steps[i].regex);
        wf_buf_puts(&o->b, "},\"behavior\":\"Isolated\",\"invert\":false}");
        break;
      case 'd':
        wf_buf_puts(&o->b, "{\"type\":\"Digits\",\"individual_digits\":true}");
        break;
      case 'D':
        wf_buf_puts(&o->b, "{\"type\":\"Digits\",\"individual_digits\":false}");
        break;
      case 'P':
        wf_buf_puts(&o->b, "{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}");
        break;
      default:
        wf_buf_puts(&o->b,
                    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                    "\"trim_offsets\":true");
        put_bool(o, "use_regex", pre->steps[i].kind == 'b');
        wf_buf_putc(&o->b, '}');
        break;
    }
  }
  wf_buf_puts(&o->b, "]},\n");
}

/* Adds the ids around a text; "null" when there are none. `then` is a processor that stays. */
static void put_template(out *o, const vocabulary *v, const char *byte_level) {
  const wf_hf_tokens *t = v->t;
  const bool has_pair = wf_str_is(v->model, "bert");
  const wf_str bos = t->adds_bos ? v->tokens[t->bos] : (wf_str){0};
  const wf_str eos = t->adds_eos ? v->tokens[t->eos] : (wf_str){0};
  wf_buf *b = &o->b;
  wf_buf_puts(b, "\"post_processor\":");
  if (!t->adds_bos && !t->adds_eos) {
    wf_buf_printf(b, "%s,\n", byte_level ? byte_level : "null");
    return;
  }
  if (byte_level) wf_buf_printf(b, "{\"type\":\"Sequence\",\"processors\":[%s,", byte_level);
  wf_buf_puts(b, "{\"type\":\"TemplateProcessing\"");
  for (int pair = 0; pair < 2; pair++) {
    wf_buf_puts(b, pair ? "],\"pair\":[" : ",\"single\":[");
    for (int part = 0; part <= pair; part++) {
      if (part) wf_buf_putc(b, ',');
      if (t->adds_bos && !(part && has_pair)) {
        wf_buf_puts(b, "{\"SpecialToken\":{\"id\":");
        wf_buf_add_json_string(b, bos, false);
        wf_buf_printf(b, ",\"type_id\":%d}},", part);
      }
      wf_buf_printf(b, "{\"Sequence\":{\"id\":\"%c\",\"type_id\":%d}}", 'A' + part, part);
      if (t->adds_eos) {
        wf_buf_puts(b, ",{\"SpecialToken\":{\"id\":");
        wf_buf_add_json_string(b, eos, false);
        wf_buf_printf(b, ",\"type_id\":%d}}", part);
      }
    }
  }
  wf_buf_puts(b, "],\"special_tokens\":{");
  for (int i = 0; i < 2; i++) {
    const int64_t id = i ? t->eos : t->bos;
    const bool is_in = i ? t->adds_eos && !(t->adds_bos && t->eos == t->bos) : t->adds_bos;
    if (!is_in) continue;
    if (i && t->adds_bos) wf_buf_putc(b, ',');
    wf_buf_add_json_string(b, v->tokens[id], false);
    wf_buf_puts(b, ":{\"id\":");
    wf_buf_add_json_string(b, v->tokens[id], false);
    wf_buf_printf(b, ",\"ids\":[%lld],\"tokens\":[", (long long)id);
    wf_buf_add_json_string(b, v->tokens[id], false);
    wf_buf_puts(b, "]}");
  }
  wf_buf_puts(b, byte_level ? "}}]},\n" : "}},\n");
}

/* "vocab":{...}; WordPiece's marks are turned back. */
static void put_vocabulary(out *o, const vocabulary *v) {
  const bool is_word_piece = wf_str_is(v->model, "bert");
  const wf_str mark = WF_STR("\xe2\x96\x81");
  wf_buf_puts(&o->b, "\"vocab\":{");
  for (size_t i = 0; i < v->n; i++) {
    wf_str s = v->tokens[i];
    wf_buf_puts(&o->b, i ? ",\n" : "\n");
    if (is_word_piece && v->types[i] != CONTROL && v->types[i] != UNKNOWN) {
      if (wf_str_starts(s, mark)) {
        s = (wf_str){s.at + mark.n, s.n - mark.n};
        wf_buf_add_json_string(&o->b, s, false);
      } else {
        wf_buf piece = {0};
        wf_buf_puts(&piece, "##");
        wf_buf_add_str(&piece, s);
        if (piece.failed) o->b.failed = true;
        wf_buf_add_json_string(&o->b, (wf_str){piece.at, piece.n}, false);
        wf_buf_deinit(&piece);
      }
    } else {
      wf_buf_add_json_string(&o->b, s, false);
    }
    wf_buf_printf(&o->b, ":%zu", i);
    spill(o, 65536);
  }
  wf_buf_puts(&o->b, "}");
}

static weft_status put_merges(out *o, const vocabulary *v, weft_error *err) {
  const wf_gguf_entry *merges;
  size_t cursor = 0;
  wf_str s;
  WF_RETURN_IF_ERROR(find_array(v->g, "tokenizer.ggml.merges", true, 0, &merges, err));
  if (!merges) {
    return wf_fail(err, WEFT_TOKENIZER, "convert the model again with a current converter",
                   "GGUF file '%s' has a byte-level vocabulary without merges", v->g->map.path);
  }
  wf_buf_puts(&o->b, ",\n\"merges\":[");
  for (uint64_t i = 0; wf_gguf_array_next(merges, &cursor, &s); i++) {
    const size_t space = wf_str_find(s, WF_STR(" "), 1);
    if (space == SIZE_MAX || space + 1 >= s.n || !wf_utf8_is_valid(s.at, s.n)) {
      return wf_fail(err, WEFT_TOKENIZER, "download or convert the file again",
                     "merge %llu of GGUF file '%s' is not two parts with a space between",
                     (unsigned long long)i, v->g->map.path);
    }
    wf_buf_puts(&o->b, i ? ",\n[" : "\n[");
    wf_buf_add_json_string(&o->b, (wf_str){s.at, space}, false);
    wf_buf_putc(&o->b, ',');
    wf_buf_add_json_string(&o->b, (wf_str){s.at + space + 1, s.n - space - 1}, false);
    wf_buf_putc(&o->b, ']');
    spill(o, 65536);
  }
  wf_buf_puts(&o->b, "]}");
  return WEFT_OK;
}

static weft_status write_byte_level(out *o, const vocabulary *v, weft_error *err) {
  static const char byte_level[] =
      "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":false,"
      "\"use_regex\":true}";
  wf_str name = WF_STR("default");
  bool found;
  WF_RETURN_IF_ERROR(wf_gguf_string(v->g, "tokenizer.ggml.pre", &name, &found, err));
  const pre_row *pre = find_pre(name);
  if (!pre) {
    return wf_fail(err, WEFT_TOKENIZER,
                   "use the model's ONNX package, or ask for this pre-tokenizer",
                   "GGUF file '%s' names the pre-tokenizer '%.*s', which weft does not know",
                   v->g->map.path, (int)(name.n < 64 ? name.n : 64), name.at);
  }
  wf_buf_puts(&o->b,
              pre->has_nfc ? "\"normalizer\":{\"type\":\"NFC\"},\n" : "\"normalizer\":null,\n");
  put_steps(o, pre);
  put_template(o, v, byte_level);
  wf_buf_puts(&o->b,
              "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
              "\"trim_offsets\":true,\"use_regex\":true},\n"
              "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,"
              "\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
              "\"fuse_unk\":false,\"byte_fallback\":false");
  put_bool(o, "ignore_merges", pre->ignores_merges);
  wf_buf_puts(&o->b, ",\n");
  put_vocabulary(o, v);
  return put_merges(o, v, err);
}

static weft_status write_sentence_piece(out *o, const vocabulary *v, weft_error *err) {
  weft_status st = WEFT_OK;
  const wf_gguf_entry *scores;
  bool has_prefix = true, found;
  float *score = wf_calloc(v->n, sizeof *score);
  bool *is_piece = wf_calloc(v->n, sizeof *is_piece);
  if (!score || !is_piece) {
    st = wf_fail_memory(err, v->n * sizeof *score, "scores");
    goto out;
  }
  WF_TRY(wf_gguf_bool(v->g, "tokenizer.ggml.add_space_prefix", &has_prefix, &found, err));
  WF_TRY(find_array(v->g, "tokenizer.ggml.scores", false, v->n, &scores, err));
  if (!scores) {
    st = wf_fail(err, WEFT_TOKENIZER, "convert the model again with a current converter",
                 "GGUF file '%s' has a SentencePiece vocabulary without scores", v->g->map.path);
    goto out;
  }
  for (size_t i = 0; i < v->n; i++) {
    score[i] = (float)wf_gguf_array_f64(scores, i);
    /* Control tokens are never put together from text, whatever their pieces. */
    is_piece[i] = v->types[i] == NORMAL || v->types[i] == USER_DEFINED || v->types[i] == UNUSED;
    if (score[i] - score[i] != 0) {
      st = wf_fail(err, WEFT_TOKENIZER, "download or convert the file again",
                   "the score of token %zu of GGUF file '%s' is not finite", i, v->g->map.path);
      goto out;
    }
  }
  wf_buf_puts(&o->b, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
  if (has_prefix) {
    wf_buf_puts(&o->b, "{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"},");
  }
  wf_buf_puts(
      &o->b,
      "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}]},\n"
      "\"pre_tokenizer\":null,\n");
  put_template(o, v, NULL);
  wf_buf_puts(&o->b,
              "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\","
              "\"pattern\":{\"String\":\"\xe2\x96\x81\"},\"content\":\" \"},"
              "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}");
  if (has_prefix) {
    wf_buf_puts(&o->b, ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}");
  }
  wf_buf_puts(&o->b, "]},\n\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":");
  if (v->t->unk >= 0)
    wf_buf_add_json_string(&o->b, v->tokens[v->t->unk], false);
  else
    wf_buf_puts(&o->b, "null");
  wf_buf_puts(&o->b,
              ",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
              "\"fuse_unk\":true,\"byte_fallback\":true,\"ignore_merges\":false,\n");
  put_vocabulary(o, v);
  wf_buf_puts(&o->b, ",\n\"merges\":[");
  WF_TRY(wf_hf_merges_from_scores(v->tokens, score, is_piece, v->n, &o->b, err));
  wf_buf_puts(&o->b, "]}");
out:
  wf_free(score);
  wf_free(is_piece);
  return st;
}

static weft_status write_word_piece(out *o, const vocabulary *v) {
  wf_buf_puts(&o->b,
              "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,"
              "\"handle_chinese_chars\":true,\"strip_accents\":null,\"lowercase\":true},\n"
              "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\n");
  put_template(o, v, NULL);
  wf_buf_puts(&o->b,
              "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},\n"
              "\"model\":{\"type\":\"WordPiece\",\"unk_token\":");
  if (v->t->unk >= 0)
    wf_buf_add_json_string(&o->b, v->tokens[v->t->unk], false);
  else
    put_string(o, "[UNK]");
  wf_buf_puts(&o->b, ",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100,\n");
  put_vocabulary(o, v);
  wf_buf_puts(&o->b, "}");
  return WEFT_OK;
}

weft_status wf_hf_write_tokenizer(const wf_gguf *g, const wf_hf_tokens *t, const char *dir,
                                  bool is_private, weft_error *err) {
  weft_status st = WEFT_OK;
  vocabulary v = {0};
  out o = {0};
  wf_writer *file;
  char *path = wf_path_join(dir, "tokenizer.json");
  if (!path) {
    st = wf_fail_memory(err, strlen(dir), "a path");
    goto out;
  }
  WF_TRY(vocabulary_init(&v, g, t, err));
  WF_TRY(wf_writer_create(&o.file, path, is_private, err));
  wf_buf_puts(&o.b, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n");
  put_added_tokens(&o, &v);
  if (wf_str_is(v.model, "gpt2")) {
    WF_TRY(write_byte_level(&o, &v, err));
  } else if (wf_str_is(v.model, "llama")) {
    WF_TRY(write_sentence_piece(&o, &v, err));
  } else if (wf_str_is(v.model, "bert")) {
    WF_TRY(write_word_piece(&o, &v));
  } else {
    st = wf_fail(err, WEFT_TOKENIZER, "use the model's ONNX package",
                 "GGUF file '%s' has a tokenizer of the kind '%.*s', which weft does not know",
                 g->map.path, (int)(v.model.n < 64 ? v.model.n : 64), v.model.at);
    goto out;
  }
  wf_buf_puts(&o.b, "}\n");
  if (o.b.failed) {
    st = wf_fail_memory(err, o.b.n, "tokenizer.json");
    goto out;
  }
  spill(&o, 0);
  file = o.file;
  o.file = NULL;
  WF_TRY(wf_writer_commit(file, err));
out:
  wf_writer_abandon(o.file);
  wf_buf_deinit(&o.b);
  vocabulary_deinit(&v);
  wf_free(path);
  return st;
}
