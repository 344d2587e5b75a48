/* SPDX-License-Identifier: Apache-2.0 */
/* What the tokenizer's files share. Private to src/text/tokenizer*.c and detokenizer.c.
 *
 * How a text becomes ids (the order is Hugging Face's, each step in a file of its own):
 *   tokenizer_added.c     added tokens that match the text as written are cut out
 *   tokenizer_normalize.c what lies between is normalised; then added tokens that match
 *                         normalised text are cut out
 *   tokenizer_pretok.c    the rest is split into pieces
 *   tokenizer_bpe.c, ...  the model turns each piece into ids
 *   tokenizer_post.c      start and end tokens
 * The text under way is a wf_doc: one buffer of bytes and the pieces it is cut into. */
#ifndef WF_TOKENIZER_INTERNAL_H
#define WF_TOKENIZER_INTERNAL_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/json_reader.h"
#include "base/mem.h"
#include "text/tokenizer.h"

/* Longest text of one call; with the growth of every step it stays below 32-bit positions. */
#define WF_TEXT_LIMIT ((size_t)1 << 28)

/* ---- Characters (tokenizer_unicode.c) ---- */

bool wf_char_is_space(uint32_t cp);       /* Unicode White_Space */
bool wf_char_is_number(uint32_t cp);      /* Nd, Nl, No */
bool wf_char_is_punctuation(uint32_t cp); /* P*, and ASCII punctuation of any category */
bool wf_char_is_word(uint32_t cp);        /* \w of Rust's regex crate */
bool wf_char_is_mark(uint32_t cp);        /* Mn, Mc, Me */
/* Decodes well-formed text, which is all that gets past the entry points; returns its length. */
size_t wf_char_at(const char *s, size_t n, uint32_t *cp);
/* The character before s[n]; returns its length. */
size_t wf_char_before(const char *s, size_t n, uint32_t *cp);
/* GPT-2's alphabet for bytes: printable Latin-1 as itself, the rest from U+0100 on. */
uint32_t wf_byte_to_char(unsigned char b);
int wf_char_to_byte(uint32_t cp); /* -1: not in the alphabet */

/* ---- Tables (tokenizer_vocab.c) ---- */

typedef struct wf_vocab_entry {
  int32_t id;
  uint32_t at, n; /* in bytes */
} wf_vocab_entry;

/* Strings and ids. Built by adding entries, then wf_vocab_finish; read-only after. */
typedef struct wf_vocab {
  wf_buf bytes;
  WF_VEC(wf_vocab_entry) entries; /* in file order; freed by finish */
  wf_vocab_entry *by_id;          /* n_ids rows; id -1 where there is no token */
  size_t n_ids, n_strings;
  uint64_t *slots; /* upper half: hash, lower half: id + 1; 0 is free */
  size_t mask;
  int32_t ascii[128]; /* ids of one-byte strings */
} wf_vocab;

void wf_vocab_deinit(wf_vocab *v);
bool wf_vocab_add(wf_vocab *v, int32_t id, wf_str text); /* false: no memory */
weft_status wf_vocab_finish(wf_vocab *v, const char *name, weft_error *err) WF_NODISCARD;
int32_t wf_vocab_find(const wf_vocab *v, const char *s, size_t n); /* -1: none */
/* Many at once: the text is bytes[at .. at + n), the answer goes to id. */
typedef struct wf_vocab_lookup {
  uint32_t at, n, hash; /* hash is private */
  int32_t id;
} wf_vocab_lookup;
void wf_vocab_find_many(const wf_vocab *v, const char *bytes, wf_vocab_lookup *l, size_t n);
wf_str wf_vocab_text(const wf_vocab *v, int32_t id); /* {NULL, 0}: none */

typedef struct wf_merge {
  uint64_t pair; /* left id << 32 | right id; all ones is free */
  uint32_t rank;
  int32_t id;
} wf_merge;
typedef struct wf_merges {
  wf_merge *slots;
  size_t mask, n;
} wf_merges;

void wf_merges_deinit(wf_merges *m);
/* Sets or replaces a pair, as the later line of a file replaces the earlier. */
void wf_merges_prefetch(const wf_merges *m, int32_t left, int32_t right);
bool wf_merges_put(wf_merges *m, int32_t left, int32_t right, uint32_t rank, int32_t id);
bool wf_merges_reserve(wf_merges *m, size_t n);

static inline const wf_merge *wf_merges_get(const wf_merges *m, int32_t left, int32_t right) {
  if (!m->slots) return NULL;
  const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
  uint64_t h = pair * UINT64_C(0x9e3779b97f4a7c15);
  for (size_t i = (size_t)(h >> 20) & m->mask;; i = (i + 1) & m->mask) {
    if (m->slots[i].pair == pair) return &m->slots[i];
    if (m->slots[i].pair == UINT64_MAX) return NULL;
  }
}

/* A byte trie as one hash table from (node, byte) to node. */
typedef struct wf_trie {
  uint64_t *keys; /* (node << 8 | byte) + 1; 0 is free */
  uint32_t *children;
  size_t mask, n_edges;
  WF_VEC(int32_t) values; /* by node; -1: nothing ends here */
} wf_trie;

void wf_trie_deinit(wf_trie *t);
/* Sets the value of `key`; an existing one stays unless `replace`. false: no memory. */
bool wf_trie_put(wf_trie *t, const char *key, size_t n, int32_t value, bool replace);

/* The child of `node`, 0 when there is none (the root is nobody's child). */
static inline uint32_t wf_trie_step(const wf_trie *t, uint32_t node, unsigned char byte) {
  if (!t->keys) return 0;
  const uint64_t key = ((uint64_t)node << 8 | byte) + 1;
  for (size_t i = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 24) & t->mask;;
       i = (i + 1) & t->mask) {
    if (t->keys[i] == key) return t->children[i];
    if (t->keys[i] == 0) return 0;
  }
}

/* ---- Regular expressions (tokenizer_regex.c) ---- */

/* The split expressions that nearly every model uses are scanned by hand; the rest by PCRE2. */
typedef enum wf_scan_kind {
  WF_SCAN_PCRE2 = 0,
  WF_SCAN_LITERAL,
  WF_SCAN_GPT2,
  WF_SCAN_LLAMA3, /* numbers in groups of at most 3 */
  WF_SCAN_QWEN2   /* numbers one by one */
} wf_scan_kind;

typedef struct wf_regex {
  wf_scan_kind kind;
  char *literal; /* WF_SCAN_LITERAL, owned */
  size_t n_literal;
  pcre2_code *code;
} wf_regex;

/* Compiles an Oniguruma (Ruby syntax) expression as Hugging Face's files hold them.
 * Errors: TOKENIZER with `path`, where in the expression, and why. */
weft_status wf_regex_compile(wf_regex **result, wf_str pattern, const char *path,
                             weft_error *err) WF_NODISCARD;
weft_status wf_regex_literal(wf_regex **result, wf_str text, weft_error *err) WF_NODISCARD;
void wf_regex_destroy(wf_regex *r);
/* Translates to PCRE2 syntax; for wf_regex_compile and its tests. */
weft_status wf_regex_translate(wf_str pattern, wf_buf *out, const char *path, weft_error *err);

typedef struct wf_match {
  uint32_t begin, end;
  bool is_match;
} wf_match;
typedef WF_VEC(wf_match) wf_matches;

/* What PCRE2 writes while matching, and the work it has done; one per call, so that the bound on
 * the work is one for all pieces of the text and all expressions that it passes. */
typedef struct wf_regex_scratch {
  pcre2_match_data *data;
  pcre2_match_context *context;
  pcre2_jit_stack *stack;
  uint64_t work, work_limit; /* steps between items of an expression */
  size_t last_at;            /* where the last step stood */
} wf_regex_scratch;
void wf_regex_scratch_deinit(wf_regex_scratch *s);
/* Fills `out` with matches and the stretches between, covering all n bytes.
 * Errors: LIMIT (the expression needs unbounded work on this text), OUT_OF_MEMORY. */
weft_status wf_regex_find(const wf_regex *r, wf_regex_scratch *s, const char *text, size_t n,
                          wf_matches *out, weft_error *err) WF_NODISCARD;
/* The hand-written scanners (tokenizer_scan.c): end of the match that starts at `at` < n. */
size_t wf_scan_next(wf_scan_kind kind, const char *s, size_t n, size_t at);

/* ---- The text under way (tokenizer_doc.c) ---- */

/* A file of real use has a handful of each; every one is a pass over the text. */
#define WF_STEPS_LIMIT 256
/* How far a text of n bytes may grow while it is normalised: NFKD's worst character makes 11 times
 * as many bytes, ByteLevel twice, a replaced space three times. */
#define WF_GROWN_LIMIT(n) (((size_t)16 << 20) + 64 * (n))

typedef struct wf_piece {
  uint32_t begin, end; /* in the document's text */
  uint32_t origin;     /* where its slice begins in the original text */
  int32_t id;          /* an added token, -1: text still to be worked on */
} wf_piece;

typedef struct wf_align {
  uint32_t begin, end; /* of the original characters a byte comes from */
} wf_align;

typedef struct wf_doc {
  wf_buf text;
  WF_VEC(wf_align) align; /* one row a byte when is_aligned */
  WF_VEC(wf_piece) pieces;
  bool is_aligned;
  size_t limit_bytes; /* of text; 0: what positions can count */
  bool failed;        /* memory is out or the text outgrew its limit; sticks */
  bool outgrew;       /* it was the limit */
} wf_doc;

void wf_doc_deinit(wf_doc *d);
void wf_doc_clear(wf_doc *d);
/* Appends a piece unless it is empty. */
void wf_doc_push(wf_doc *d, wf_piece p);

/* Rewrites one piece of `from` into `to`, character by character. A change is what Hugging Face
 * calls it: 0 replaces the next old character, 1 is a new one, -N replaces one and drops the N that
 * follow. It decides offsets alone, so without alignment it costs nothing. */
typedef struct wf_rewrite {
  const wf_doc *from;
  wf_doc *to;
  wf_piece piece;
  uint32_t at;    /* in from->text */
  uint32_t begin; /* of the new piece in to->text */
} wf_rewrite;
wf_rewrite wf_rewrite_begin(const wf_doc *from, wf_doc *to, wf_piece p);
void wf_rewrite_drop(wf_rewrite *w, size_t n_chars); /* old characters removed before the next */
void wf_rewrite_char(wf_rewrite *w, uint32_t cp, int change);
void wf_rewrite_copy(wf_rewrite *w, size_t n_bytes); /* unchanged bytes */
void wf_rewrite_end(wf_rewrite *w);                  /* pushes the new piece unless empty */
/* Copies a piece as it is. */
void wf_doc_copy_piece(const wf_doc *from, wf_doc *to, wf_piece p);

typedef enum wf_behavior {
  WF_SPLIT_REMOVED,
  WF_SPLIT_ISOLATED,
  WF_SPLIT_MERGED_WITH_PREVIOUS,
  WF_SPLIT_MERGED_WITH_NEXT,
  WF_SPLIT_CONTIGUOUS
} wf_behavior;
/* Pushes the parts of `p` (a piece of d's text) that the matches make onto `out`. */
void wf_doc_split(wf_doc *d, wf_piece p, wf_matches *m, wf_behavior behavior, wf_matches *scratch,
                  wf_doc *out);

/* ---- Steps read from the file ---- */

typedef enum wf_norm_kind {
  WF_NORM_NFC,
  WF_NORM_NFD,
  WF_NORM_NFKC,
  WF_NORM_NFKD,
  WF_NORM_LOWERCASE,
  WF_NORM_STRIP,
  WF_NORM_STRIP_ACCENTS,
  WF_NORM_REPLACE,
  WF_NORM_PREPEND,
  WF_NORM_NMT,
  WF_NORM_BERT,
  WF_NORM_PRECOMPILED,
  WF_NORM_BYTE_LEVEL,
  WF_NORM_SPM /* SentencePiece's own: character map, spaces, prefix, in one */
} wf_norm_kind;

typedef struct wf_charsmap {
  const uint32_t *units; /* double-array trie */
  size_t n_units;
  const char *strings;
  size_t n_strings;
  bool longest; /* SentencePiece takes the longest prefix, Hugging Face the shortest */
} wf_charsmap;

typedef struct wf_norm {
  wf_norm_kind kind;
  bool left, right;                              /* strip */
  bool clean_text, chinese, accents, lower;      /* bert */
  bool add_prefix, remove_extra, escape, suffix; /* spm */
  wf_regex *regex;                               /* replace */
  wf_str content;                                /* replace, prepend */
  wf_charsmap map;
} wf_norm;

typedef enum wf_pretok_kind {
  WF_PRETOK_BYTE_LEVEL,
  WF_PRETOK_SPLIT,
  WF_PRETOK_METASPACE,
  WF_PRETOK_WHITESPACE,
  WF_PRETOK_WHITESPACE_SPLIT,
  WF_PRETOK_DIGITS,
  WF_PRETOK_PUNCTUATION,
  WF_PRETOK_BERT,
  WF_PRETOK_DELIMITER,
  WF_PRETOK_FIXED_LENGTH
} wf_pretok_kind;

typedef enum wf_prepend { WF_PREPEND_NEVER, WF_PREPEND_FIRST, WF_PREPEND_ALWAYS } wf_prepend;

typedef struct wf_pretok {
  wf_pretok_kind kind;
  wf_behavior behavior;
  bool invert, add_prefix_space, use_regex, individual, split;
  wf_prepend prepend;
  uint32_t cp; /* metaspace, delimiter */
  size_t length;
  wf_regex *regex;
} wf_pretok;

typedef enum wf_post_kind {
  WF_POST_TEMPLATE,
  WF_POST_TRIM /* byte-level and roberta: spaces leave the offsets */
} wf_post_kind;
/* A part of a template: a sequence (0 or 1), or the ids of a special token. */
typedef struct wf_post_part {
  int sequence; /* -1: special */
  const int32_t *ids;
  const wf_str *tokens;
  size_t n_ids;
} wf_post_part;
typedef struct wf_post {
  wf_post_kind kind;
  bool add_prefix_space;
  const wf_post_part *single, *pair;
  size_t n_single, n_pair;
} wf_post;

typedef enum wf_decoder_kind {
  WF_DECODER_BYTE_LEVEL,
  WF_DECODER_BYTE_FALLBACK,
  WF_DECODER_FUSE,
  WF_DECODER_REPLACE,
  WF_DECODER_STRIP,
  WF_DECODER_METASPACE,
  WF_DECODER_WORDPIECE,
  WF_DECODER_BPE
} wf_decoder_kind;
typedef struct wf_decoder {
  wf_decoder_kind kind;
  wf_regex *regex;
  wf_str content; /* replace: the new text; wordpiece: prefix; bpe: suffix */
  uint32_t cp;    /* strip, metaspace */
  size_t start, stop;
  bool drop_first; /* metaspace: the first token loses its marks */
  bool cleanup;    /* wordpiece */
} wf_decoder;

typedef enum wf_model_kind {
  WF_MODEL_BPE,
  WF_MODEL_UNIGRAM,
  WF_MODEL_WORDPIECE,
  WF_MODEL_WORDLEVEL
} wf_model_kind;
typedef struct wf_model {
  wf_model_kind kind;
  wf_vocab vocab;
  wf_merges merges;
  double *scores; /* unigram, by id */
  double min_score;
  bool single_precision; /* path scores are rounded to float, as SentencePiece does */
  wf_trie trie;          /* unigram */
  int32_t unk_id;
  bool has_unk;     /* an unknown token is named */
  wf_str unk_token; /* its text, also when the vocabulary lacks it */
  bool fuse_unk, byte_fallback, ignore_merges;
  wf_str prefix, suffix;
  size_t max_chars; /* wordpiece */
  int32_t byte_ids[256];
  bool has_bytes; /* all 256 byte tokens exist */
} wf_model;

typedef struct wf_added {
  wf_str content;
  int32_t id;
  bool single_word, lstrip, rstrip, normalized, special;
} wf_added;

struct wf_tokenizer {
  wf_arena *arena; /* strings and arrays of everything below */
  wf_model model;
  WF_VEC(wf_added) added;
  int32_t *added_at; /* by id: index into added, -1 */
  size_t n_ids;
  wf_trie trie_all, trie_raw, trie_normalized; /* values: indexes into added */
  int32_t max_added;
  uint8_t first_raw[256], first_normalized[256];
  uint8_t *control; /* by id: the default flags */
  WF_VEC(wf_norm) norms;
  WF_VEC(wf_pretok) pretoks;
  WF_VEC(wf_post) posts;
  WF_VEC(wf_decoder) decoders;
  bool has_decoder;
  bool needs_align; /* a step looks at where its piece came from */
  int32_t roles[4];
};

/* ---- One encode call ---- */

typedef struct wf_token {
  int32_t id;
  uint32_t begin, end;      /* original bytes */
  uint32_t text_at, text_n; /* in call->token_text, when offsets are wanted */
} wf_token;
typedef WF_VEC(wf_token) wf_tokens;

typedef struct wf_symbol {
  int32_t id;
  uint32_t len;
  int32_t prev, next;
} wf_symbol;
typedef struct wf_heap_row {
  uint64_t key; /* rank << 32 | position */
  int32_t id;
} wf_heap_row;
typedef struct wf_node {
  double score;
  int32_t id;
  uint32_t start; /* UINT32_MAX: not reached */
} wf_node;
typedef struct wf_norm_char {
  uint32_t cp;
  int16_t change;
  uint8_t ccc;
} wf_norm_char;

typedef struct wf_call {
  const wf_tokenizer *t;
  const uint8_t *control;
  const wf_segment *segments;
  size_t n_segments;
  const uint32_t *segment_ends; /* n_segments */
  bool any_content, all_content;
  bool want_offsets;
  wf_doc doc, next;
  wf_matches matches, matches2;
  wf_regex_scratch regex;
  wf_buf token_text;
  wf_tokens tokens;
  /* model scratch */
  WF_VEC(wf_symbol) symbols;
  WF_VEC(wf_heap_row) heap;
  WF_VEC(wf_node) nodes;
  WF_VEC(uint32_t) stack;
  WF_VEC(wf_norm_char) norm_in;
  WF_VEC(wf_norm_char) norm_out;
  wf_buf word;
  /* the piece the model is at */
  wf_piece piece;
  bool forbid; /* control tokens must not come out of it */
} wf_call;

/* Applies a split to all text pieces; after it doc holds the parts. */
weft_status wf_call_split_regex(wf_call *c, const wf_regex *r, bool invert, wf_behavior behavior,
                                weft_error *err) WF_NODISCARD;
/* doc and next change places, next is emptied; reports a failed document. */
weft_status wf_call_swap(wf_call *c, weft_error *err) WF_NODISCARD;
/* True when bytes [begin, end) of the document touch message content. */
bool wf_call_is_content(const wf_call *c, const wf_doc *d, uint32_t begin, uint32_t end);

weft_status wf_added_match(wf_call *c, bool normalized, weft_error *err) WF_NODISCARD;
weft_status wf_norm_apply(wf_call *c, const wf_norm *n, weft_error *err) WF_NODISCARD;
void wf_norm_compose(wf_call *c, const wf_piece *p, wf_norm_kind kind);
/* The replacement for the start of s, as SentencePiece's character map has it. */
bool wf_charsmap_lookup(const wf_charsmap *m, const char *s, size_t n, size_t *used,
                        wf_str *replacement);
weft_status wf_charsmap_parse(wf_charsmap *m, const unsigned char *bytes, size_t n, wf_arena *arena,
                              const char *path, weft_error *err) WF_NODISCARD;
weft_status wf_pretok_apply(wf_call *c, const wf_pretok *p, weft_error *err) WF_NODISCARD;

/* The models: ids of c->piece. */
weft_status wf_bpe_encode(wf_call *c, weft_error *err) WF_NODISCARD;
weft_status wf_unigram_encode(wf_call *c, weft_error *err) WF_NODISCARD;
weft_status wf_wordpiece_encode(wf_call *c, weft_error *err) WF_NODISCARD;
weft_status wf_wordlevel_encode(wf_call *c, weft_error *err) WF_NODISCARD;
/* Adds a token for bytes [begin, end) counted from the piece's start; `text` NULL: as the
 * vocabulary spells it. */
weft_status wf_call_emit(wf_call *c, int32_t id, uint32_t begin, uint32_t end, const wf_str *text,
                         weft_error *err) WF_NODISCARD;
static inline bool wf_call_forbids(const wf_call *c, int32_t id) {
  return c->forbid && c->control && c->control[id];
}

/* Turns the tokens of one or two texts into the result. */
weft_status wf_post_apply(const wf_tokenizer *t, bool add_special, bool want_offsets,
                          wf_tokens *first, wf_tokens *second, const wf_str texts[2],
                          wf_buf *token_text, wf_encoding *out, weft_error *err) WF_NODISCARD;

/* ---- Decoding of one token (tokenizer_decode.c) ---- */

/* Appends what token `id` adds to a running text before anything that works on the whole (strip):
 * `is_first` for the first token of a text. `replaced` is scratch. */
weft_status wf_decode_token(const wf_tokenizer *t, int32_t id, bool is_first, wf_buf *out,
                            wf_buf *scratch, weft_error *err) WF_NODISCARD;
/* The strip that follows a fuse, NULL when there is none. */
const wf_decoder *wf_decode_final_strip(const wf_tokenizer *t);
/* The token's decoder text depends on whether another follows (BPEDecoder). */
bool wf_decode_looks_ahead(const wf_tokenizer *t);
weft_status wf_check_id(const wf_tokenizer *t, int32_t id, weft_error *err) WF_NODISCARD;

/* ---- Loading ---- */

/* A small tree for the small parts of the file. */
typedef struct wf_tree {
  wf_json_kind kind;
  wf_str key, text;
  struct wf_tree *parent, *child, *next;
  size_t index;
} wf_tree;
weft_status wf_tree_read(wf_tree **result, wf_json_reader *r, const wf_json_event *first,
                         wf_str key, wf_arena *arena, size_t *budget, weft_error *err) WF_NODISCARD;
const wf_tree *wf_tree_get(const wf_tree *o, const char *key); /* NULL: absent or null */
void wf_tree_path(const wf_tree *n, wf_buf *out);
weft_status wf_tree_fail(const wf_tree *n, weft_error *err, weft_status st, const char *fmt,
                         ...) WF_COLD WF_PRINTF(4, 5);
bool wf_tree_bool(const wf_tree *o, const char *key, bool absent);
/* Text of a string member copied into the arena; `absent` when it is missing or null. */
weft_status wf_tree_string(const wf_tree *o, const char *key, const char *absent, wf_arena *arena,
                           wf_str *result, weft_error *err) WF_NODISCARD;
weft_status wf_tree_count(const wf_tree *o, const char *key, size_t absent, size_t *result,
                          weft_error *err) WF_NODISCARD;

/* Components (tokenizer_parts.c, tokenizer_parts_post.c): each appends to the tokenizer's lists. */
weft_status wf_parts_normalizer(wf_tokenizer *t, const wf_tree *n, weft_error *err) WF_NODISCARD;
weft_status wf_parts_pretok(wf_tokenizer *t, const wf_tree *n, weft_error *err) WF_NODISCARD;
weft_status wf_parts_post(wf_tokenizer *t, const wf_tree *n, weft_error *err) WF_NODISCARD;
weft_status wf_parts_decoder(wf_tokenizer *t, const wf_tree *n, weft_error *err) WF_NODISCARD;
/* The refusal of a step beyond WF_STEPS_LIMIT. */
weft_status wf_parts_too_many(const wf_tree *n, weft_error *err) WF_COLD;
weft_status wf_parts_pattern(const wf_tree *n, wf_regex **result, weft_error *err) WF_NODISCARD;
/* The model, streamed (tokenizer_load_model.c). The reader stands before the model's value. */
weft_status wf_load_model(wf_tokenizer *t, wf_json_reader *r, weft_error *err) WF_NODISCARD;

/* Adds tokens in order, with ids as Hugging Face would give them (tokenizer_added.c). */
weft_status wf_added_put(wf_tokenizer *t, const wf_added *a, weft_error *err) WF_NODISCARD;
bool wf_added_has(const wf_tokenizer *t, wf_str content);
/* Builds the tries and flags; call once, after everything else is there. */
weft_status wf_tokenizer_seal(wf_tokenizer *t, const char *name, weft_error *err) WF_NODISCARD;
wf_tokenizer *wf_tokenizer_new(weft_error *err);
wf_str wf_tokenizer_keep(wf_tokenizer *t, wf_str s); /* copy in the arena; at NULL: no memory */

#endif
