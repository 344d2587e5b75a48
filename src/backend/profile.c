/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/profile.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* A trace of more spans takes some 150 MiB in memory and more in the file; past that the
 * table goes on counting. */
enum { MAX_OPS = 512, MAX_SPANS = 1 << 20 };

typedef struct sum {
  const char *op;
  uint64_t n_calls, ns, n_bytes, n_flops;
} sum;

typedef struct kept {
  wf_profile_span span; /* name and shapes: offsets into `texts` */
  size_t name_at, n_name, shapes_at;
} kept;

struct wf_profile {
  pthread_mutex_t lock; /* guards what follows; a leaf */
  WF_VEC(kept) spans;
  wf_buf texts;
  uint64_t n_dropped;
  sum sums[MAX_OPS]; /* of all spans, also of those that were dropped */
  size_t n_sums;
};

weft_status wf_profile_create(wf_profile **result, weft_error *err) {
  wf_profile *p = wf_zalloc(sizeof *p);
  if (!p) return wf_fail_memory(err, sizeof *p, "a profile");
  pthread_mutex_init(&p->lock, NULL);
  *result = p;
  return WEFT_OK;
}

void wf_profile_destroy(wf_profile *p) {
  if (!p) return;
  pthread_mutex_destroy(&p->lock);
  wf_vec_free(&p->spans);
  wf_buf_deinit(&p->texts);
  wf_free(p);
}

static void count(wf_profile *p, const wf_profile_span *s) {
  size_t k = 0;
  while (k < p->n_sums && strcmp(p->sums[k].op, s->op) != 0) k++;
  if (k == MAX_OPS) return; /* more kinds than there are operators */
  if (k == p->n_sums) p->sums[p->n_sums++] = (sum){.op = s->op};
  p->sums[k].n_calls++;
  p->sums[k].ns += s->end_ns - s->begin_ns;
  p->sums[k].n_bytes += s->n_bytes;
  p->sums[k].n_flops += s->n_flops;
}

void wf_profile_add(wf_profile *p, const wf_profile_span *s) {
  pthread_mutex_lock(&p->lock);
  count(p, s);
  if (p->spans.n == MAX_SPANS) {
    p->n_dropped++;
    pthread_mutex_unlock(&p->lock);
    return;
  }
  kept k = {.span = *s, .name_at = p->texts.n, .n_name = s->name.n};
  wf_buf_add(&p->texts, s->name.at, s->name.n);
  k.shapes_at = p->texts.n;
  wf_buf_add(&p->texts, s->shapes, strlen(s->shapes) + 1);
  if (p->texts.failed || !wf_vec_push(&p->spans, k)) p->n_dropped++;
  pthread_mutex_unlock(&p->lock);
}

static uint64_t first_ns(const wf_profile *p) {
  uint64_t first = UINT64_MAX;
  for (size_t i = 0; i < p->spans.n; i++) {
    if (p->spans.at[i].span.begin_ns < first) first = p->spans.at[i].span.begin_ns;
  }
  return first;
}

/* Microseconds with three digits, as the format counts time. */
static void put_us(wf_buf *b, uint64_t ns) {
  wf_buf_printf(b, "%llu.%03llu", (unsigned long long)(ns / 1000), (unsigned long long)(ns % 1000));
}

void wf_profile_trace(const wf_profile *p, wf_buf *json) {
  const uint64_t origin = first_ns(p);
  wf_buf_puts(json, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [");
  for (size_t i = 0; i < p->spans.n; i++) {
    const kept *k = &p->spans.at[i];
    wf_buf_puts(json, i ? ",\n" : "\n");
    wf_buf_puts(json, "{\"ph\": \"X\", \"cat\": \"node\", \"name\": ");
    wf_buf_add_json_string(json, wf_str_of(k->span.op), false);
    wf_buf_printf(json, ", \"pid\": 1, \"tid\": %d, \"ts\": ", k->span.thread + 1);
    put_us(json, k->span.begin_ns - origin);
    wf_buf_puts(json, ", \"dur\": ");
    put_us(json, k->span.end_ns - k->span.begin_ns);
    wf_buf_puts(json, ", \"args\": {\"node\": ");
    wf_buf_add_json_string(json, (wf_str){p->texts.at + k->name_at, k->n_name}, false);
    wf_buf_puts(json, ", \"shapes\": ");
    wf_buf_add_json_string(json, wf_str_of(p->texts.at + k->shapes_at), false);
    wf_buf_printf(json, ", \"bytes\": %llu, \"flops\": %llu}}", (unsigned long long)k->span.n_bytes,
                  (unsigned long long)k->span.n_flops);
  }
  wf_buf_puts(json, "\n]}\n");
}

static int by_time(const void *a, const void *b) {
  const sum *x = a, *y = b;
  if (x->ns != y->ns) return x->ns < y->ns ? 1 : -1;
  return strcmp(x->op, y->op);
}

/* value / ns in units of 10^-n_digits, as "12.3". */
static void put_rate(wf_buf *b, uint64_t value, uint64_t ns) {
  const uint64_t tenths = ns ? (value * 10 + ns / 2) / ns : 0;
  wf_buf_printf(b, "%9llu.%llu", (unsigned long long)(tenths / 10),
                (unsigned long long)(tenths % 10));
}

void wf_profile_table(const wf_profile *p, wf_buf *text) {
  sum sums[MAX_OPS];
  const size_t n = p->n_sums;
  uint64_t total = 0;
  memcpy(sums, p->sums, n * sizeof *sums);
  for (size_t k = 0; k < n; k++) total += sums[k].ns;
  qsort(sums, n, sizeof *sums, by_time);
  wf_buf_printf(text, "%-28s %8s %11s %7s %10s %10s\n", "operator", "spans", "ms", "share", "GB/s",
                "GFLOP/s");
  for (size_t k = 0; k < n; k++) {
    const uint64_t share = total ? (sums[k].ns * 1000 + total / 2) / total : 0;
    wf_buf_printf(text, "%-28s %8llu %7llu.%03llu %4llu.%llu%%", sums[k].op,
                  (unsigned long long)sums[k].n_calls, (unsigned long long)(sums[k].ns / 1000000),
                  (unsigned long long)(sums[k].ns / 1000 % 1000), (unsigned long long)(share / 10),
                  (unsigned long long)(share % 10));
    put_rate(text, sums[k].n_bytes, sums[k].ns);
    put_rate(text, sums[k].n_flops, sums[k].ns);
    wf_buf_puts(text, "\n");
  }
  if (p->n_dropped) {
    wf_buf_printf(text, "%llu spans are not in the trace: it is too long\n",
                  (unsigned long long)p->n_dropped);
  }
}
