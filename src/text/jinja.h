/* SPDX-License-Identifier: Apache-2.0 */
/* The Jinja interpreter behind template.h; private to the jinja_*.c files and template.c.
 * `wf_jj_` is its owner prefix.
 *
 *   jinja_lexer.c   source -> tokens            jinja_value.c   strings, dicts, heap, iteration
 *   jinja_parser.c  tokens -> statements        jinja_ops.c     operators, comparison, subscripts
 *   jinja_expr.c    tokens -> expressions       jinja_repr.c    str(), repr(), tojson
 *   jinja_scope.c   names -> slots              jinja_number.c  exact decimal forms of doubles
 *   jinja_eval.c    expressions                 jinja_method.c  str, list, dict methods
 *   jinja_exec.c    statements, macros, loops   jinja_string.c  arguments, split, strip, replace
 *   jinja_format.c, jinja_time.c                jinja_filter.c, jinja_seqfilter.c, jinja_test.c
 *
 * Every string byte carries whether it is content (came from the caller's variables). Evaluation
 * functions return false when an error was raised; the sentence is then in run->err. */
#ifndef WF_JINJA_H
#define WF_JINJA_H

#include "base/mem.h"
#include "base/str.h"
#include "text/template.h"

enum {
  JJ_DEPTH_LIMIT = 1800,     /* nested evaluations: bounds the C stack */
  JJ_TREE_LIMIT = 1000,      /* depth of the syntax tree */
  JJ_PARSE_LIMIT = 120,      /* nesting of brackets and blocks in the source */
  JJ_SOURCE_LIMIT = 4 << 20, /* bytes of template source */
  JJ_RANGE_LIMIT = 100000    /* as the sandbox's MAX_RANGE */
};

typedef struct jj_str jj_str;
typedef struct jj_dict jj_dict;
typedef struct jj_node jj_node;
typedef struct jj_env jj_env;
typedef struct jj_iter jj_iter;
typedef struct jj_loop jj_loop;
typedef struct jj_run jj_run;

typedef enum jj_kind {
  JJ_MISSING = 0, /* no value at all: an unset slot, an argument not given */
  JJ_UNDEFINED,
  JJ_NONE,
  JJ_BOOL,
  JJ_INT,
  JJ_FLOAT,
  JJ_STR,
  JJ_LIST,
  JJ_TUPLE,
  JJ_DICT,
  JJ_RANGE,
  JJ_VIEW, /* dict.keys(), .values(), .items() */
  JJ_NAMESPACE,
  JJ_ITER, /* generators and iterators: read once */
  JJ_MACRO,
  JJ_FUNCTION,
  JJ_METHOD,
  JJ_LOOP,
  JJ_CYCLER,
  JJ_JOINER
} jj_kind;

typedef struct jj_val jj_val;
typedef struct jj_list {
  jj_val *at;
  size_t n;
  jj_val *grouper; /* unused but by groupby's named tuples: non-NULL marks one */
} jj_list;

typedef struct jj_undef {
  const jj_str *hint; /* the whole sentence, or NULL */
  const jj_str *name; /* of the variable or attribute */
  const char *type;   /* of the object that lacks the attribute, NULL for a variable */
} jj_undef;

typedef struct jj_range {
  int64_t start, stop, step;
  size_t n;
} jj_range;

typedef struct jj_view {
  jj_dict *dict;
  int kind; /* 'k', 'v', 'i' */
} jj_view;

typedef struct jj_macro {
  const jj_node *node;
  jj_env *env;
} jj_macro;

typedef struct jj_args {
  jj_val *at;
  size_t n;
  const jj_str **names; /* keyword arguments */
  jj_val *values;
  size_t n_named;
} jj_args;

typedef struct jj_method jj_method;
typedef bool jj_function_fn(jj_run *run, const jj_args *args, jj_val *result);

typedef struct jj_function {
  const char *name;
  jj_function_fn *call;
} jj_function;

typedef struct jj_cycler {
  jj_list *items;
  size_t at;
  jj_str *sep; /* a joiner's */
  bool used;
} jj_cycler;

struct jj_val {
  jj_kind kind;
  union {
    bool b;
    int64_t i;
    double f;
    const jj_str *s;
    jj_list *l;
    jj_dict *d; /* also a namespace's members */
    jj_range *range;
    jj_view *view;
    jj_iter *iter;
    jj_macro *macro;
    const jj_function *fn;
    jj_method *method;
    jj_loop *loop;
    jj_cycler *cycler;
    const jj_undef *undef;
  } u;
};

/* A string: either flat (at != NULL) or the join of two others, made flat when first looked into.
 */
struct jj_str {
  const char *at;
  const uint8_t *marks; /* per byte 1: content; NULL: all as `content` */
  size_t n, n_chars;
  bool content;
  bool markup; /* markupsafe's Markup, what |safe and |escape give */
  const jj_str *left, *right;
};

struct jj_dict {
  jj_val *keys, *values;
  size_t n, capacity;
  uint32_t *index; /* open addressing over n > 8 entries, 0 empty, else 1 + position */
  size_t index_size;
};

struct jj_method {
  jj_val self;
  const char *name;
  bool (*call)(jj_run *run, const jj_val *self, const jj_args *args, jj_val *result);
};

/* One way to walk: over a value, or a generator with its own step function. */
struct jj_iter {
  jj_val over;
  size_t at;
  /* generators */
  int (*next)(jj_run *run, jj_iter *it, jj_val *item);
  jj_iter *source;
  jj_args args;
  jj_val extra[3];
  int64_t number;
  bool flag, flag2;
  bool done, running;
  const jj_node *node; /* a filtered loop's test */
  jj_env *env;
  const char *type; /* the Python type's name */
};

struct jj_env {
  jj_env *parent;
  jj_val slots[];
};

/* -- syntax tree -- */

typedef enum jj_node_kind {
  /* expressions */
  JJ_N_CONST,
  JJ_N_NAME,
  JJ_N_NSREF,
  JJ_N_TUPLE,
  JJ_N_LIST,
  JJ_N_DICT, /* list: key, value, key, value */
  JJ_N_UNARY,
  JJ_N_BINARY,
  JJ_N_AND,
  JJ_N_OR,
  JJ_N_NOT,
  JJ_N_COMPARE, /* a, then list of operands with `op` each */
  JJ_N_OPERAND,
  JJ_N_CONCAT,
  JJ_N_COND, /* a if b else c */
  JJ_N_GETATTR,
  JJ_N_GETITEM,
  JJ_N_SLICE,
  JJ_N_CALL, /* a(list, kwargs, *b, **c) */
  JJ_N_FILTER,
  JJ_N_TEST,
  JJ_N_KEYWORD,
  /* statements */
  JJ_N_OUTPUT,
  JJ_N_DATA,
  JJ_N_ASSIGN,      /* a = b */
  JJ_N_ASSIGNBLOCK, /* a, filter b, body */
  JJ_N_FOR,         /* target a in b if c, body, orelse; test_target for the filter */
  JJ_N_IF,          /* a, body, list of elif nodes, orelse */
  JJ_N_MACRO,
  JJ_N_CALLBLOCK, /* a is the call */
  JJ_N_FILTERBLOCK,
  JJ_N_WITH, /* list targets, kwargs values */
  JJ_N_SCOPE,
  JJ_N_BLOCK,
  JJ_N_BREAK,
  JJ_N_CONTINUE,
  JJ_N_IMPORT, /* include, import, extends, from: refused when run */
  JJ_N_GENERATION
} jj_node_kind;

typedef enum jj_op {
  JJ_OP_ADD,
  JJ_OP_SUB,
  JJ_OP_MUL,
  JJ_OP_DIV,
  JJ_OP_FLOORDIV,
  JJ_OP_MOD,
  JJ_OP_POW,
  JJ_OP_EQ,
  JJ_OP_NE,
  JJ_OP_LT,
  JJ_OP_LE,
  JJ_OP_GT,
  JJ_OP_GE,
  JJ_OP_IN,
  JJ_OP_NOTIN
} jj_op;

typedef enum jj_ctx { JJ_LOAD, JJ_STORE, JJ_PARAM } jj_ctx;

typedef struct jj_nodes {
  jj_node **at;
  size_t n;
} jj_nodes;

/* How a slot gets its first value when its scope is entered. */
typedef enum jj_load { JJ_LOAD_PARAM, JJ_LOAD_RESOLVE, JJ_LOAD_ALIAS, JJ_LOAD_UNDEFINED } jj_load;

typedef struct jj_slot {
  const jj_str *name;
  jj_load load;
  uint32_t up, from; /* JJ_LOAD_ALIAS: hops from this scope's own env, slot there */
} jj_slot;

typedef struct jj_scope {
  jj_slot *slots;
  size_t n;
} jj_scope;

struct jj_node {
  jj_node_kind kind;
  jj_op op;
  jj_ctx ctx;
  uint32_t line, col, depth;
  bool negated, recursive, is_top; /* is_top: assigns at the root scope */
  bool takes_kwargs, takes_varargs, takes_caller, explicit_caller;
  const jj_str *name, *attr;
  jj_val value;
  jj_node *a, *b, *c, *test_target;
  jj_nodes list, kwargs;
  jj_nodes body, orelse;
  jj_scope scope, else_scope, test_scope; /* what body, orelse and test enter */
  uint32_t up, slot;                      /* JJ_N_NAME, JJ_N_NSREF, a macro's own name */
  uint32_t kw_slot, var_slot, caller_slot, loop_slot;
  const void *entry; /* the filter or test */
};

struct wf_template {
  wf_arena *arena;
  jj_node *root; /* JJ_N_SCOPE with the root scope */
  const wf_str *literals;
  size_t n_literals;
  const jj_str *const *reads;
  size_t n_reads;
  bool has_blocks;
};

/* -- compiling -- */

typedef enum jj_token_kind {
  JJ_T_EOF,
  JJ_T_DATA,
  JJ_T_VARIABLE_BEGIN,
  JJ_T_VARIABLE_END,
  JJ_T_BLOCK_BEGIN,
  JJ_T_BLOCK_END,
  JJ_T_NAME,
  JJ_T_STRING,
  JJ_T_INT,
  JJ_T_FLOAT,
  JJ_T_OP, /* `op` holds one or two characters */
  JJ_T_ERROR
} jj_token_kind;

typedef struct jj_token {
  jj_token_kind kind;
  uint32_t line, col;
  uint16_t op; /* '+' or '*' << 8 | '*' */
  const jj_str *text;
  jj_val value;
} jj_token;

#define JJ_OP2(a, b) ((uint16_t)((a) << 8 | (b)))

typedef struct jj_compiler {
  wf_arena *arena;
  weft_error *err;
  weft_status status;
  WF_VEC(jj_token) tokens;
  size_t at;
  uint32_t nesting;
  uint64_t work;
  WF_VEC(wf_str) literals;
  WF_VEC(const jj_str *) reads;
  bool has_blocks;
} jj_compiler;

/* Raises a compile error at a position; the first one stays. Always false. */
bool wf_jj_syntax(jj_compiler *c, uint32_t line, uint32_t col, const char *fmt, ...) WF_COLD
    WF_PRINTF(4, 5);
bool wf_jj_no_memory(jj_compiler *c) WF_COLD;
bool wf_jj_lex(jj_compiler *c, wf_str source);
const jj_str *wf_jj_literal(jj_compiler *c, const char *at, size_t n);

/* The parser's shared parts. NULL means an error was raised. */
jj_node *wf_jj_node(jj_compiler *c, jj_node_kind kind, const jj_token *at);
bool wf_jj_node_depth(jj_compiler *c, jj_node *n);
const jj_token *wf_jj_current(const jj_compiler *c);
const jj_token *wf_jj_look(const jj_compiler *c);
bool wf_jj_advance(jj_compiler *c);
bool wf_jj_is_op(const jj_compiler *c, uint16_t op);
bool wf_jj_is_name(const jj_compiler *c, const char *name);
bool wf_jj_skip_name(jj_compiler *c, const char *name, bool *skipped);
bool wf_jj_skip_op(jj_compiler *c, uint16_t op, bool *skipped);
bool wf_jj_expect_op(jj_compiler *c, uint16_t op);
bool wf_jj_expect_kind(jj_compiler *c, jj_token_kind kind);
bool wf_jj_unexpected(jj_compiler *c, const char *wanted);
bool wf_jj_nodes_push(jj_compiler *c, jj_nodes *list, size_t *capacity, jj_node *n);
jj_node *wf_jj_parse_expression(jj_compiler *c, bool with_cond);
typedef struct jj_tuple_how {
  bool simplified, no_cond, parenthesised, with_namespace;
  const char *end_name;
} jj_tuple_how;
jj_node *wf_jj_parse_tuple(jj_compiler *c, jj_tuple_how how);
jj_node *wf_jj_parse_primary(jj_compiler *c, bool with_namespace);
jj_node *wf_jj_parse_filter(jj_compiler *c, jj_node *n, bool start_inline);
jj_node *wf_jj_parse_template(jj_compiler *c);
bool wf_jj_bind_template(jj_compiler *c, jj_node *root);

/* -- running -- */

typedef struct jj_chunk jj_chunk;
typedef struct jj_heap {
  jj_chunk *chunks;
  char *at, *end;
  size_t used, limit;
} jj_heap;

/* Bytes being built, each with its mark. */
typedef struct jj_buf {
  char *at;
  uint8_t *marks; /* NULL while all bytes are alike */
  size_t n, capacity;
  bool content;
} jj_buf;

struct jj_run {
  const wf_template *tpl;
  const wf_render_options *options;
  jj_heap heap;
  weft_error *err;
  weft_status status;
  uint64_t steps;
  uint32_t depth;
  const jj_node *node; /* where an error is reported */
  jj_buf *out;
  jj_dict *context;  /* the caller's variables and the globals */
  jj_dict *exported; /* names set at the top, for blocks */
  jj_env *env;
  const jj_val *filter_input; /* what the innermost filter of a filter block is fed */
};

/* Raises an error; always false. `what` gets the position of run->node in front. */
bool wf_jj_raise(jj_run *run, const char *fmt, ...) WF_COLD WF_PRINTF(2, 3);
/* Charges work; false when the budget is used up. */
bool wf_jj_charge(jj_run *run, uint64_t steps);

void *wf_jj_alloc(jj_run *run, size_t n, size_t size); /* zeroed; NULL: raised */
void wf_jj_heap_free(jj_heap *h);

/* strings */
jj_val wf_jj_str_of(jj_run *run, const char *bytes, size_t n, bool content); /* copies */
jj_val wf_jj_str_static(jj_run *run, const char *s);                         /* not content */
const jj_str *wf_jj_flat(jj_run *run, const jj_str *s);                      /* NULL: raised */
bool wf_jj_str_ready(jj_run *run, jj_val *v); /* makes it flat in place */
jj_val wf_jj_str_sub(jj_run *run, const jj_str *s, size_t begin, size_t end); /* bytes; s flat */
bool wf_jj_str_concat(jj_run *run, const jj_str *a, const jj_str *b, jj_val *result);
size_t wf_jj_str_offset(const jj_str *s, size_t n_chars); /* byte offset of a character; s flat */
size_t wf_jj_str_chars(const jj_str *s, size_t n_bytes);  /* characters before a byte offset */
bool wf_jj_is_content(const jj_str *s);                   /* any byte of a flat string is */
bool wf_jj_buf_add(jj_run *run, jj_buf *b, const char *at, size_t n, bool content);
bool wf_jj_buf_add_str(jj_run *run, jj_buf *b, const jj_str *s);
bool wf_jj_buf_add_range(jj_run *run, jj_buf *b, const jj_str *flat, size_t begin, size_t end);
bool wf_jj_buf_puts(jj_run *run, jj_buf *b, const char *s);
bool wf_jj_buf_cp(jj_run *run, jj_buf *b, uint32_t cp, bool content);
jj_val wf_jj_buf_done(jj_run *run, jj_buf *b); /* moves the bytes into a string */
bool wf_jj_is_space(uint32_t cp);              /* Python's str.isspace */
static inline bool wf_jj_str_is(const jj_val *v, const char *s) {
  return v->kind == JJ_STR && v->u.s->at && v->u.s->n == strlen(s) &&
         memcmp(v->u.s->at, s, v->u.s->n) == 0;
}

/* plain values */
static inline jj_val wf_jj_none(void) { return (jj_val){.kind = JJ_NONE}; }
static inline jj_val wf_jj_bool(bool b) { return (jj_val){.kind = JJ_BOOL, .u.b = b}; }
static inline jj_val wf_jj_int(int64_t i) { return (jj_val){.kind = JJ_INT, .u.i = i}; }
static inline jj_val wf_jj_float(double f) { return (jj_val){.kind = JJ_FLOAT, .u.f = f}; }
static inline jj_val wf_jj_str(const jj_str *s) { return (jj_val){.kind = JJ_STR, .u.s = s}; }
static inline bool wf_jj_is_number(const jj_val *v) {
  return v->kind == JJ_INT || v->kind == JJ_FLOAT || v->kind == JJ_BOOL;
}
jj_val wf_jj_undefined(jj_run *run, const jj_str *name, const jj_val *object);
jj_val wf_jj_undefined_hint(jj_run *run, const char *fmt, ...) WF_PRINTF(2, 3);
bool wf_jj_raise_undefined(jj_run *run, const jj_val *v);
const char *wf_jj_type(const jj_val *v); /* the Python type's name */

/* lists and dicts */
typedef WF_VEC(jj_val) jj_vals; /* at lives in the heap of the run */
bool wf_jj_push(jj_run *run, jj_vals *v, jj_val item);
jj_val wf_jj_list(jj_run *run, jj_kind kind, jj_val *at, size_t n); /* keeps `at` */
jj_val wf_jj_pair(jj_run *run, jj_val a, jj_val b);
jj_dict *wf_jj_dict(jj_run *run, size_t capacity);
bool wf_jj_dict_set(jj_run *run, jj_dict *d, jj_val key, jj_val value);
/* 1 found, 0 absent, -1 raised (unhashable key). */
int wf_jj_dict_get(jj_run *run, const jj_dict *d, const jj_val *key, jj_val *value);
jj_val *wf_jj_dict_find(const jj_dict *d, const char *name, size_t n);
bool wf_jj_from_json(jj_run *run, const json_t *json, bool content, uint32_t depth, jj_val *out);

/* iteration: 1 an item, 0 the end, -1 raised */
bool wf_jj_iter_open(jj_run *run, const jj_val *v, jj_iter *it);
int wf_jj_iter_next(jj_run *run, jj_iter *it, jj_val *item);
bool wf_jj_iterable(const jj_val *v);
bool wf_jj_collect(jj_run *run, const jj_val *v, jj_vals *items);
int64_t wf_jj_length(jj_run *run, const jj_val *v); /* -1: raised; -2: has none, not raised */
jj_val wf_jj_generator(jj_run *run, const char *type, jj_iter **it);

/* jinja_ops.c */
bool wf_jj_truth(jj_run *run, const jj_val *v, bool *truth);
int wf_jj_equal(jj_run *run, const jj_val *a, const jj_val *b); /* 1, 0, -1 raised */
bool wf_jj_less(jj_run *run, jj_op op, const jj_val *a, const jj_val *b, bool *result);
bool wf_jj_compare(jj_run *run, jj_op op, const jj_val *a, const jj_val *b, bool *result);
bool wf_jj_contains(jj_run *run, const jj_val *seq, const jj_val *item, bool *result);
bool wf_jj_binary(jj_run *run, jj_op op, const jj_val *a, const jj_val *b, jj_val *result);
bool wf_jj_unary(jj_run *run, jj_op op, const jj_val *a, jj_val *result);
bool wf_jj_getattr(jj_run *run, const jj_val *o, const jj_str *name, jj_val *result);
bool wf_jj_getitem(jj_run *run, const jj_val *o, const jj_val *key, jj_val *result);
bool wf_jj_slice(jj_run *run, const jj_val *o, const jj_val bounds[3], jj_val *result);
bool wf_jj_sort(jj_run *run, jj_val *keys, jj_val *items, size_t n, bool reverse);

/* jinja_repr.c: append str(v) or repr(v) */
bool wf_jj_add_str(jj_run *run, jj_buf *b, const jj_val *v);
bool wf_jj_add_repr(jj_run *run, jj_buf *b, const jj_val *v);
bool wf_jj_to_str(jj_run *run, const jj_val *v, jj_val *result); /* flat; keeps a string as it is */
bool wf_jj_tojson(jj_run *run, const jj_args *args, jj_val *result);

/* jinja_number.c */
/* Appends |v| (finite) as Python's format types f, e, g with the precision do (sign left out);
 * r is what a precision without a type means. */
bool wf_jj_add_float(jj_run *run, jj_buf *b, double v, char type, int precision, bool alternate,
                     bool content);
bool wf_jj_round(jj_run *run, double v, int64_t digits, double *result);
bool wf_jj_parse_float(const jj_str *s, double *result); /* Python's float(str) */
bool wf_jj_parse_int(const jj_str *s, int64_t base, int64_t *result, bool *overflow);

/* jinja_format.c */
bool wf_jj_percent(jj_run *run, const jj_str *format, const jj_val *arg, jj_val *result);
bool wf_jj_str_format(jj_run *run, const jj_str *format, const jj_args *args, jj_val *result);
/* jinja_time.c */
bool wf_jj_strftime(jj_run *run, const jj_str *format, jj_val *result);
bool wf_jj_escape(jj_run *run, const jj_val *v, jj_val *result);

/* jinja_case.c */
bool wf_jj_case(jj_run *run, const jj_str *s, char how, jj_val *result); /* u l t c s f */
bool wf_jj_char_is(uint32_t cp,
                   char what); /* a alpha, d decimal, u upper, l lower, c cased, p printable ... */

/* jinja_string.c */
size_t wf_jj_char_length(const jj_str *s, size_t at, uint32_t *cp); /* bytes; s flat, at < n */
size_t wf_jj_previous(const jj_str *s, size_t at); /* where the character before `at` begins */
/* jinja_method.c */
bool wf_jj_method(jj_run *run, const jj_val *o, const jj_str *name, jj_val *result, bool *unsafe);
bool wf_jj_strip(jj_run *run, const jj_str *s, const jj_val *chars, int sides, jj_val *result);
bool wf_jj_replace(jj_run *run, const jj_str *s, const jj_str *old, const jj_str *new_,
                   int64_t count, jj_val *result);
bool wf_jj_splitlines(jj_run *run, const jj_str *s, bool keep, jj_vals *lines);
bool wf_jj_join(jj_run *run, const jj_str *sep, const jj_val *seq, bool to_str, jj_val *result);

/* arguments: params "a,b,c"; out[i] is JJ_MISSING where not given */
bool wf_jj_args(jj_run *run, const jj_args *args, const char *name, const char *params,
                size_t n_required, jj_val *out);
bool wf_jj_want_int(jj_run *run, const jj_val *v, const char *what, int64_t *result);

typedef bool jj_filter_fn(jj_run *run, const jj_val *v, const jj_args *args, jj_val *result);
typedef struct jj_filter {
  const char *name;
  jj_filter_fn *call;
} jj_filter;
typedef bool jj_test_fn(jj_run *run, const jj_val *v, const jj_args *args, bool *result);
typedef struct jj_test {
  const char *name;
  jj_test_fn *call;
} jj_test;
const jj_filter *wf_jj_filter(const char *name, size_t n);
const jj_filter *wf_jj_seqfilter(const char *name, size_t n);
const jj_test *wf_jj_test(const char *name, size_t n);

bool wf_jj_eval(jj_run *run, const jj_node *n, jj_val *result);
bool wf_jj_eval_args(jj_run *run, const jj_node *n, jj_args *args);
bool wf_jj_call(jj_run *run, const jj_val *f, const jj_args *args, jj_val *result);
bool wf_jj_call_macro(jj_run *run, const jj_macro *m, const jj_args *args, jj_val *result);
bool wf_jj_call_loop(jj_run *run, jj_loop *loop, const jj_val *over, jj_val *result);
bool wf_jj_loop_attr(jj_run *run, jj_loop *loop, const jj_str *name, jj_val *result, bool *found);
int64_t wf_jj_loop_length(jj_run *run, jj_loop *loop);
int wf_jj_loop_next(jj_run *run, jj_loop *loop, jj_val *item);
bool wf_jj_run_template(jj_run *run);
bool wf_jj_globals(jj_run *run, jj_dict *context);

#endif
