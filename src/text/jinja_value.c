/* SPDX-License-Identifier: Apache-2.0 */
/* The render's own heap, strings with marks, lists, dicts and iteration. Nothing is freed before
 * the render ends; the heap's limit bounds it. */
#include "base/hash.h"
#include "base/utf8.h"
#include "text/jinja.h"

enum { CHUNK_BYTES = 64 << 10, DICT_INDEX_FROM = 8 };

struct jj_chunk {
  jj_chunk *next;
  size_t n;
};

static bool no_memory(jj_run *run, size_t n) {
  if (run->status == WEFT_OK) run->status = wf_fail_memory(run->err, n, "a chat template");
  return false;
}

static bool too_long(jj_run *run) {
  return wf_jj_raise(run, "a text grew beyond %zu MiB", run->heap.limit >> 20);
}

static void *heap_take(jj_run *run, size_t bytes) {
  jj_heap *h = &run->heap;
  if (bytes > SIZE_MAX - 64) {
    no_memory(run, bytes);
    return NULL;
  }
  bytes = (bytes + 15) & ~(size_t)15;
  if ((size_t)(h->end - h->at) < bytes) {
    size_t n = sizeof(jj_chunk) + 16 + bytes;
    if (n < CHUNK_BYTES) n = CHUNK_BYTES;
    if (n > h->limit - h->used) {
      wf_jj_raise(run, "the template needs more than %zu MiB of memory", h->limit >> 20);
      return NULL;
    }
    jj_chunk *c = wf_alloc(n);
    if (!c) {
      no_memory(run, n);
      return NULL;
    }
    c->next = h->chunks;
    c->n = n;
    h->chunks = c;
    h->used += n;
    h->at = (char *)c + ((sizeof *c + 15) & ~(size_t)15);
    h->end = (char *)c + n;
  }
  char *p = h->at;
  h->at += bytes;
  return p;
}

void *wf_jj_alloc(jj_run *run, size_t n, size_t size) {
  size_t bytes;
  if (!wf_size_mul(n, size, &bytes)) {
    no_memory(run, SIZE_MAX);
    return NULL;
  }
  void *p = heap_take(run, bytes ? bytes : 1);
  if (p) memset(p, 0, bytes);
  return p;
}

void wf_jj_heap_free(jj_heap *h) {
  while (h->chunks) {
    jj_chunk *next = h->chunks->next;
    wf_free(h->chunks);
    h->chunks = next;
  }
  *h = (jj_heap){0};
}

/* Grows a block that holds `n` used bytes to `want`; in place when it is the heap's last. */
static void *heap_grow(jj_run *run, void *old, size_t old_bytes, size_t n, size_t want) {
  jj_heap *h = &run->heap;
  const size_t old_up = (old_bytes + 15) & ~(size_t)15, new_up = (want + 15) & ~(size_t)15;
  if (old && (char *)old + old_up == h->at && new_up - old_up <= (size_t)(h->end - h->at)) {
    h->at += new_up - old_up;
    return old;
  }
  void *p = heap_take(run, want);
  if (p && n) memcpy(p, old, n);
  return p;
}

bool wf_jj_charge(jj_run *run, uint64_t steps) {
  if (steps <= run->steps) {
    run->steps -= steps;
    return true;
  }
  run->steps = 0;
  return wf_jj_raise(run, "the template takes too many steps; it may loop without end");
}

/* -- strings -- */

static size_t count_chars(const char *s, size_t n) {
  size_t chars = 0;
  for (size_t i = 0; i < n; i++) chars += ((unsigned char)s[i] & 0xc0) != 0x80;
  return chars;
}

static jj_val new_str(jj_run *run, const char *at, const uint8_t *marks, size_t n, bool content) {
  jj_str *s = wf_jj_alloc(run, 1, sizeof *s);
  if (!s) return (jj_val){.kind = JJ_MISSING};
  *s =
      (jj_str){.at = at, .marks = marks, .n = n, .n_chars = count_chars(at, n), .content = content};
  return wf_jj_str(s);
}

jj_val wf_jj_str_of(jj_run *run, const char *bytes, size_t n, bool content) {
  char *p = heap_take(run, n + 1);
  if (!p) return (jj_val){.kind = JJ_MISSING};
  if (n) memcpy(p, bytes, n);
  p[n] = '\0';
  return new_str(run, p, NULL, n, content);
}

jj_val wf_jj_str_static(jj_run *run, const char *s) {
  return new_str(run, s, NULL, strlen(s), false);
}

bool wf_jj_is_content(const jj_str *s) {
  if (!s->marks) return s->content && s->n > 0;
  return memchr(s->marks, 1, s->n) != NULL;
}

/* Fills a rope's bytes from the back, so that the usual left-deep rope needs no stack. */
static bool fill(jj_run *run, const jj_str *s, char *at, uint8_t *marks) {
  WF_VEC(const jj_str *) todo = {0};
  char *end = at + s->n;
  bool ok = wf_vec_push(&todo, s);
  while (ok && todo.n) {
    const jj_str *t = todo.at[--todo.n];
    if (!t->at) {
      ok = wf_vec_push(&todo, t->left) && wf_vec_push(&todo, t->right);
      continue;
    }
    end -= t->n;
    if (t->n) memcpy(end, t->at, t->n);
    if (!marks || !t->n) continue;
    if (t->marks) {
      memcpy(marks + (end - at), t->marks, t->n);
    } else {
      memset(marks + (end - at), t->content, t->n);
    }
  }
  wf_vec_free(&todo);
  return ok || no_memory(run, s->n);
}

const jj_str *wf_jj_flat(jj_run *run, const jj_str *s) {
  if (s->at) return s;
  const bool mixed = s->marks != NULL; /* a rope only says so: see wf_jj_str_concat */
  char *at = heap_take(run, s->n + 1);
  uint8_t *marks = mixed && at ? heap_take(run, s->n + 1) : NULL;
  if (!at || (mixed && !marks) || !wf_jj_charge(run, s->n / 64) || !fill(run, s, at, marks)) {
    return NULL;
  }
  at[s->n] = '\0';
  /* Ropes live in this render's heap, never in the sealed template: this is their one change. */
  jj_str *rope = wf_unconst(s);
  rope->at = at;
  rope->marks = marks;
  rope->left = rope->right = NULL;
  return rope;
}

bool wf_jj_str_ready(jj_run *run, jj_val *v) {
  if (v->kind != JJ_STR) return true;
  v->u.s = wf_jj_flat(run, v->u.s);
  return v->u.s != NULL;
}

bool wf_jj_str_concat(jj_run *run, const jj_str *a, const jj_str *b, jj_val *result) {
  static const uint8_t is_mixed[1] = {0}; /* stands for "marks differ" until the rope is flat */
  if (a->n == 0 || b->n == 0) {
    *result = wf_jj_str(a->n == 0 ? b : a);
    return true;
  }
  jj_str *s = wf_jj_alloc(run, 1, sizeof *s);
  size_t n;
  if (!s) return false;
  if (!wf_size_add(a->n, b->n, &n) || n >= run->heap.limit) return too_long(run);
  const bool mixed = a->marks || b->marks || a->content != b->content;
  *s = (jj_str){.n = n,
                .n_chars = a->n_chars + b->n_chars,
                .content = a->content,
                .marks = mixed ? is_mixed : NULL,
                .left = a,
                .right = b};
  *result = wf_jj_str(s);
  return true;
}

jj_val wf_jj_str_sub(jj_run *run, const jj_str *s, size_t begin, size_t end) {
  if (begin == 0 && end == s->n) return wf_jj_str(s);
  jj_str *part = wf_jj_alloc(run, 1, sizeof *part);
  if (!part || !wf_jj_charge(run, (end - begin) / 64)) return (jj_val){.kind = JJ_MISSING};
  *part = (jj_str){.at = s->at + begin,
                   .marks = s->marks ? s->marks + begin : NULL,
                   .n = end - begin,
                   .content = s->content,
                   .markup = s->markup};
  part->n_chars = s->n == s->n_chars ? part->n : count_chars(part->at, part->n);
  return wf_jj_str(part);
}

size_t wf_jj_str_offset(const jj_str *s, size_t n_chars) {
  if (s->n == s->n_chars) return n_chars < s->n ? n_chars : s->n;
  size_t i = 0;
  for (; i < s->n; i++) {
    if (((unsigned char)s->at[i] & 0xc0) != 0x80 && n_chars-- == 0) break;
  }
  return i;
}

size_t wf_jj_str_chars(const jj_str *s, size_t n_bytes) {
  return s->n == s->n_chars ? n_bytes : count_chars(s->at, n_bytes);
}

static bool buf_room(jj_run *run, jj_buf *b, size_t more) {
  if (b->capacity - b->n > more) return true;
  size_t want;
  if (!wf_size_add(b->n, more, &want) || want > run->heap.limit) return too_long(run);
  want = want + want / 2 + 64;
  char *at = heap_grow(run, b->at, b->capacity, b->n, want);
  if (!at) return false;
  b->at = at;
  if (b->marks) {
    uint8_t *marks = heap_take(run, want);
    if (!marks) return false;
    memcpy(marks, b->marks, b->n);
    b->marks = marks;
  }
  b->capacity = want;
  return true;
}

static bool buf_split(jj_run *run, jj_buf *b) {
  b->marks = heap_take(run, b->capacity);
  if (!b->marks) return false;
  memset(b->marks, b->content, b->n);
  return true;
}

bool wf_jj_buf_add(jj_run *run, jj_buf *b, const char *at, size_t n, bool content) {
  if (n == 0) return true;
  if (!buf_room(run, b, n)) return false;
  if (b->n == 0) b->content = content;
  if (!b->marks && b->content != content && !buf_split(run, b)) return false;
  memcpy(b->at + b->n, at, n);
  if (b->marks) memset(b->marks + b->n, content, n);
  b->n += n;
  return wf_jj_charge(run, n / 64);
}

bool wf_jj_buf_add_range(jj_run *run, jj_buf *b, const jj_str *s, size_t begin, size_t end) {
  if (begin >= end) return true;
  if (!s->marks) return wf_jj_buf_add(run, b, s->at + begin, end - begin, s->content);
  if (!buf_room(run, b, end - begin)) return false;
  if (b->n == 0) b->content = s->marks[begin];
  if (!b->marks && !buf_split(run, b)) return false;
  memcpy(b->at + b->n, s->at + begin, end - begin);
  memcpy(b->marks + b->n, s->marks + begin, end - begin);
  b->n += end - begin;
  return wf_jj_charge(run, (end - begin) / 64);
}

bool wf_jj_buf_add_str(jj_run *run, jj_buf *b, const jj_str *s) {
  s = wf_jj_flat(run, s);
  return s && wf_jj_buf_add_range(run, b, s, 0, s->n);
}

bool wf_jj_buf_puts(jj_run *run, jj_buf *b, const char *s) {
  return wf_jj_buf_add(run, b, s, strlen(s), false);
}

bool wf_jj_buf_cp(jj_run *run, jj_buf *b, uint32_t cp, bool content) {
  char utf8[4];
  return wf_jj_buf_add(run, b, utf8, wf_utf8_encode(cp, utf8), content);
}

jj_val wf_jj_buf_done(jj_run *run, jj_buf *b) {
  if (!b->at) return wf_jj_str_static(run, "");
  if (!buf_room(run, b, 1)) return (jj_val){.kind = JJ_MISSING};
  b->at[b->n] = '\0';
  return new_str(run, b->at, b->marks, b->n, b->content);
}

bool wf_jj_is_space(uint32_t cp) {
  return (cp >= 9 && cp <= 13) || (cp >= 0x1c && cp <= 0x20) || cp == 0x85 || cp == 0xa0 ||
         cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) || cp == 0x2028 || cp == 0x2029 ||
         cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

/* -- lists and dicts -- */

bool wf_jj_push(jj_run *run, jj_vals *v, jj_val item) {
  if (v->n == v->capacity) {
    const size_t grown = v->capacity ? v->capacity * 2 : 8;
    jj_val *at = wf_jj_alloc(run, grown, sizeof *at);
    if (!at) return false;
    if (v->n) memcpy(at, v->at, v->n * sizeof *at);
    v->at = at;
    v->capacity = grown;
  }
  v->at[v->n++] = item;
  return wf_jj_charge(run, 1);
}

jj_val wf_jj_list(jj_run *run, jj_kind kind, jj_val *at, size_t n) {
  jj_list *l = wf_jj_alloc(run, 1, sizeof *l);
  if (!l) return (jj_val){.kind = JJ_MISSING};
  l->at = at;
  l->n = n;
  return (jj_val){.kind = kind, .u.l = l};
}

jj_val wf_jj_pair(jj_run *run, jj_val a, jj_val b) {
  jj_val *at = wf_jj_alloc(run, 2, sizeof *at);
  if (!at) return (jj_val){.kind = JJ_MISSING};
  at[0] = a;
  at[1] = b;
  return wf_jj_list(run, JJ_TUPLE, at, 2);
}

jj_dict *wf_jj_dict(jj_run *run, size_t capacity) {
  jj_dict *d = wf_jj_alloc(run, 1, sizeof *d);
  if (!d) return NULL;
  d->capacity = capacity ? capacity : 4;
  d->keys = wf_jj_alloc(run, d->capacity, sizeof *d->keys);
  d->values = wf_jj_alloc(run, d->capacity, sizeof *d->values);
  return d->keys && d->values ? d : NULL;
}

/* 0 with *ok false when the key cannot be hashed. Equal numbers of any type hash alike. */
static uint64_t hash_value(jj_run *run, const jj_val *v, bool *ok, uint32_t depth) {
  uint64_t h = WF_HASH_SEED;
  if (v->kind == JJ_STR) {
    const jj_str *s = wf_jj_flat(run, v->u.s);
    *ok = s != NULL;
    return s ? wf_hash_bytes(h, s->at, s->n) : 0;
  }
  if (wf_jj_is_number(v)) {
    double f = v->kind == JJ_FLOAT ? v->u.f : v->kind == JJ_INT ? (double)v->u.i : (double)v->u.b;
    f += 0.0; /* -0.0 and 0.0 alike */
    return wf_hash_bytes(h, &f, sizeof f);
  }
  if (v->kind == JJ_TUPLE && depth < 50) {
    for (size_t i = 0; i < v->u.l->n && *ok; i++) {
      const uint64_t part = hash_value(run, &v->u.l->at[i], ok, depth + 1);
      h = wf_hash_bytes(h, &part, sizeof part);
    }
    return h;
  }
  if (v->kind == JJ_LIST || v->kind == JJ_DICT || v->kind == JJ_TUPLE) {
    *ok = wf_jj_raise(run, "unhashable type: '%s'", wf_jj_type(v));
    return 0;
  }
  if (v->kind == JJ_NONE || v->kind == JJ_UNDEFINED) return h + (uint64_t)v->kind;
  return wf_hash_bytes(h, &v->u.d, sizeof v->u.d);
}

/* Position of the key, d->n when absent; -1 raised. */
static int64_t dict_at(jj_run *run, const jj_dict *d, const jj_val *key, uint64_t hash) {
  if (!d->index) {
    for (size_t i = 0; i < d->n; i++) {
      const int eq = wf_jj_equal(run, &d->keys[i], key);
      if (eq) return eq < 0 ? -1 : (int64_t)i;
    }
    return (int64_t)d->n;
  }
  for (size_t slot = hash & (d->index_size - 1);; slot = (slot + 1) & (d->index_size - 1)) {
    if (!d->index[slot]) return (int64_t)d->n;
    const size_t i = d->index[slot] - 1;
    const int eq = wf_jj_equal(run, &d->keys[i], key);
    if (eq) return eq < 0 ? -1 : (int64_t)i;
    if (!wf_jj_charge(run, 1)) return -1;
  }
}

static bool dict_reindex(jj_run *run, jj_dict *d) {
  size_t size = 32;
  while (size < d->capacity * 2) size *= 2;
  d->index = wf_jj_alloc(run, size, sizeof *d->index);
  d->index_size = size;
  if (!d->index) return false;
  for (size_t i = 0; i < d->n; i++) {
    bool ok = true;
    size_t slot = hash_value(run, &d->keys[i], &ok, 0) & (size - 1);
    while (d->index[slot]) slot = (slot + 1) & (size - 1);
    d->index[slot] = (uint32_t)i + 1;
  }
  return true;
}

bool wf_jj_dict_set(jj_run *run, jj_dict *d, jj_val key, jj_val value) {
  bool ok = wf_jj_str_ready(run, &key);
  const uint64_t hash = ok ? hash_value(run, &key, &ok, 0) : 0;
  const int64_t at = ok ? dict_at(run, d, &key, hash) : -1;
  if (at < 0) return false;
  if ((size_t)at < d->n) {
    d->values[at] = value;
    return true;
  }
  if (d->n >= UINT32_MAX / 4) return wf_jj_raise(run, "a dict of too many members");
  if (d->n == d->capacity) {
    jj_vals keys = {d->keys, d->n, d->n}, values = {d->values, d->n, d->n};
    if (!wf_jj_push(run, &keys, key) || !wf_jj_push(run, &values, value)) return false;
    d->keys = keys.at;
    d->values = values.at;
    d->capacity = keys.capacity;
    d->n++;
    return d->n <= DICT_INDEX_FROM || dict_reindex(run, d);
  }
  d->keys[d->n] = key;
  d->values[d->n++] = value;
  if (d->n <= DICT_INDEX_FROM) return wf_jj_charge(run, 1);
  if (!d->index) return dict_reindex(run, d);
  size_t slot = hash & (d->index_size - 1);
  while (d->index[slot]) slot = (slot + 1) & (d->index_size - 1);
  d->index[slot] = (uint32_t)d->n;
  return wf_jj_charge(run, 1);
}

int wf_jj_dict_get(jj_run *run, const jj_dict *d, const jj_val *key, jj_val *value) {
  jj_val k = *key;
  bool ok = wf_jj_str_ready(run, &k);
  const uint64_t hash = ok ? hash_value(run, &k, &ok, 0) : 0;
  const int64_t at = ok ? dict_at(run, d, &k, hash) : -1;
  if (at < 0) return -1;
  if ((size_t)at == d->n) return 0;
  *value = d->values[at];
  return 1;
}

jj_val *wf_jj_dict_find(const jj_dict *d, const char *name, size_t n) {
  if (d->index) {
    const uint64_t hash = wf_hash_bytes(WF_HASH_SEED, name, n);
    for (size_t slot = hash & (d->index_size - 1); d->index[slot];
         slot = (slot + 1) & (d->index_size - 1)) {
      const jj_val *k = &d->keys[d->index[slot] - 1];
      if (k->kind == JJ_STR && k->u.s->n == n && memcmp(k->u.s->at, name, n) == 0) {
        return &d->values[d->index[slot] - 1];
      }
    }
    return NULL;
  }
  for (size_t i = 0; i < d->n; i++) {
    const jj_val *k = &d->keys[i];
    if (k->kind == JJ_STR && k->u.s->n == n && memcmp(k->u.s->at, name, n) == 0) {
      return &d->values[i];
    }
  }
  return NULL;
}

static bool object_from_json(jj_run *run, const json_t *json, bool content, uint32_t depth,
                             jj_val *out) {
  json_t *o = wf_unconst(json); /* jansson's iterators take no const; they only read */
  jj_dict *d = wf_jj_dict(run, json_object_size(json));
  if (!d) return false;
  for (void *i = json_object_iter(o); i; i = json_object_iter_next(o, i)) {
    const char *name = json_object_iter_key(i);
    jj_val key = wf_jj_str_of(run, name, strlen(name), content), value;
    if (!key.kind || !wf_jj_from_json(run, json_object_iter_value(i), content, depth + 1, &value) ||
        !wf_jj_dict_set(run, d, key, value)) {
      return false;
    }
  }
  *out = (jj_val){.kind = JJ_DICT, .u.d = d};
  return true;
}

bool wf_jj_from_json(jj_run *run, const json_t *json, bool content, uint32_t depth, jj_val *out) {
  if (depth > 200) return wf_jj_raise(run, "the variables are nested deeper than 200");
  switch (json_typeof(json)) {
    case JSON_OBJECT:
      return object_from_json(run, json, content, depth, out);
    case JSON_ARRAY: {
      const size_t n = json_array_size(json);
      jj_val *at = wf_jj_alloc(run, n, sizeof *at);
      if (!at) return false;
      for (size_t i = 0; i < n; i++) {
        if (!wf_jj_from_json(run, json_array_get(json, i), content, depth + 1, &at[i])) {
          return false;
        }
      }
      *out = wf_jj_list(run, JJ_LIST, at, n);
      return out->kind == JJ_LIST;
    }
    case JSON_STRING:
      *out = wf_jj_str_of(run, json_string_value(json), json_string_length(json), content);
      return out->kind == JJ_STR;
    case JSON_INTEGER:
      *out = wf_jj_int(json_integer_value(json));
      return true;
    case JSON_REAL:
      *out = wf_jj_float(json_real_value(json));
      return true;
    case JSON_TRUE:
      *out = wf_jj_bool(true);
      return true;
    case JSON_FALSE:
      *out = wf_jj_bool(false);
      return true;
    case JSON_NULL:
      *out = wf_jj_none();
      return true;
  }
  return wf_jj_raise(run, "unknown JSON value");
}

/* -- iteration -- */

bool wf_jj_iterable(const jj_val *v) {
  return v->kind == JJ_STR || v->kind == JJ_LIST || v->kind == JJ_TUPLE || v->kind == JJ_DICT ||
         v->kind == JJ_RANGE || v->kind == JJ_VIEW || v->kind == JJ_ITER ||
         v->kind == JJ_UNDEFINED || v->kind == JJ_LOOP;
}

bool wf_jj_iter_open(jj_run *run, const jj_val *v, jj_iter *it) {
  *it = (jj_iter){.over = *v};
  if (!wf_jj_iterable(v)) return wf_jj_raise(run, "'%s' object is not iterable", wf_jj_type(v));
  return wf_jj_str_ready(run, &it->over);
}

static jj_val view_item(jj_run *run, const jj_view *view, size_t i) {
  if (view->kind == 'k') return view->dict->keys[i];
  if (view->kind == 'v') return view->dict->values[i];
  return wf_jj_pair(run, view->dict->keys[i], view->dict->values[i]);
}

static int generator_next(jj_run *run, jj_iter *g, jj_val *item) {
  if (g->done) return 0;
  if (!g->next) { /* a plain iterator over a value */
    const int got = wf_jj_iter_next(run, g, item);
    if (got <= 0) g->done = true;
    return got;
  }
  if (g->running || ++run->depth > JJ_DEPTH_LIMIT) {
    (void)wf_jj_raise(run, g->running ? "generator already executing" : "recursion too deep");
    return -1;
  }
  g->running = true;
  const int got = g->next(run, g, item);
  g->running = false;
  run->depth--;
  if (got <= 0) g->done = true;
  return got;
}

int wf_jj_iter_next(jj_run *run, jj_iter *it, jj_val *item) {
  const jj_val *v = &it->over;
  if (!wf_jj_charge(run, 1)) return -1;
  if (v->kind == JJ_STR) {
    const jj_str *s = v->u.s;
    if (it->at >= s->n) return 0;
    uint32_t cp;
    size_t n = wf_utf8_decode(s->at + it->at, s->n - it->at, &cp);
    if (!n) n = 1;
    jj_str plain = *s; /* the characters of Markup are plain strings */
    plain.markup = false;
    *item = wf_jj_str_sub(run, s->markup ? &plain : s, it->at, it->at + n);
    if (item->u.s == &plain) *item = wf_jj_str_of(run, s->at, s->n, wf_jj_is_content(s));
    it->at += n;
    return item->kind == JJ_STR ? 1 : -1;
  }
  if (v->kind == JJ_LIST || v->kind == JJ_TUPLE) {
    if (it->at >= v->u.l->n) return 0;
    *item = v->u.l->at[it->at++];
    return 1;
  }
  if (v->kind == JJ_DICT) {
    if (it->at >= v->u.d->n) return 0;
    *item = v->u.d->keys[it->at++];
    return 1;
  }
  if (v->kind == JJ_RANGE) {
    if (it->at >= v->u.range->n) return 0;
    *item = wf_jj_int(v->u.range->start + (int64_t)it->at++ * v->u.range->step);
    return 1;
  }
  if (v->kind == JJ_VIEW) {
    if (it->at >= v->u.view->dict->n) return 0;
    *item = view_item(run, v->u.view, it->at++);
    return item->kind ? 1 : -1;
  }
  if (v->kind == JJ_ITER) return generator_next(run, v->u.iter, item);
  if (v->kind == JJ_LOOP) {
    const int got = wf_jj_loop_next(run, v->u.loop, item);
    if (got == 1) *item = wf_jj_pair(run, *item, *v);
    return got == 1 && !item->kind ? -1 : got;
  }
  return 0; /* undefined: nothing */
}

bool wf_jj_collect(jj_run *run, const jj_val *v, jj_vals *items) {
  jj_iter it;
  *items = (jj_vals){0};
  if (!wf_jj_iter_open(run, v, &it)) return false;
  for (jj_val item;;) {
    const int got = wf_jj_iter_next(run, &it, &item);
    if (got <= 0) return got == 0;
    if (!wf_jj_push(run, items, item)) return false;
  }
}

int64_t wf_jj_length(jj_run *run, const jj_val *v) {
  (void)run;
  if (v->kind == JJ_STR) return (int64_t)v->u.s->n_chars;
  if (v->kind == JJ_LIST || v->kind == JJ_TUPLE) return (int64_t)v->u.l->n;
  if (v->kind == JJ_DICT) return (int64_t)v->u.d->n;
  if (v->kind == JJ_RANGE) return (int64_t)v->u.range->n;
  if (v->kind == JJ_VIEW) return (int64_t)v->u.view->dict->n;
  if (v->kind == JJ_UNDEFINED) return 0;
  if (v->kind == JJ_LOOP) return wf_jj_loop_length(run, v->u.loop);
  return -2;
}

jj_val wf_jj_generator(jj_run *run, const char *type, jj_iter **it) {
  *it = wf_jj_alloc(run, 1, sizeof **it);
  if (!*it) return (jj_val){.kind = JJ_MISSING};
  (*it)->type = type;
  return (jj_val){.kind = JJ_ITER, .u.iter = *it};
}
