/* SPDX-License-Identifier: Apache-2.0 */
/* Logits of a decoder folder for a list of ids, as raw floats; and its speed.
 *   logits_tool DIR OUT.f32 IDS [chunk N] [kv f32|f16|q8] [exact] [threads N] [report] [cache DIR]
 *   logits_tool DIR - IDS bench N ... : decodes N tokens greedily and prints tokens per second. */
#include "decoder.h"

#include <errno.h>

#include "base/process.h"

typedef struct settings {
  decoder_options o;
  int64_t chunk, bench;
  int threads;
  bool report;
} settings;

static int fail(const weft_error *err) {
  fprintf(stderr, "%s: %s (%s)\n", weft_status_name(err->status), err->what, err->fix);
  return 1;
}

static size_t read_ids(const char *text, int32_t *ids, size_t max) {
  size_t n = 0;
  for (const char *p = text; *p && n < max;) {
    char *end = NULL;
    ids[n++] = (int32_t)strtol(p, &end, 10);
    if (end == p) return 0;
    p = *end == ',' ? end + 1 : end;
  }
  return n;
}

static int run(const decoder *d, const settings *s, const char *out, int32_t *ids, size_t n_ids) {
  weft_error err = {0};
  wf_team *team = NULL;
  wf_backend_session *session = NULL;
  sequence seq = {0};
  const size_t vocab = (size_t)d->info->vocab;
  float *logits = wf_calloc((n_ids + 1) * vocab, sizeof *logits);
  int32_t *all = wf_calloc(n_ids + 1, sizeof *all);
  int rc = 1;
  for (size_t i = 0; all && i < n_ids; i++) all[i] = (int32_t)i;
  if (!logits || !all || !sequence_init(&seq, d->info, (int64_t)n_ids + s->bench + 1)) goto out;
  if (wf_team_create(&team, s->threads, &err) != WEFT_OK ||
      wf_backend_session_open(&wf_backend_native, &session, d->component, team, s->chunk, &err) !=
          WEFT_OK) {
    fail(&err);
    goto out;
  }
  const uint64_t t0 = wf_clock_ns();
  for (size_t at = 0; at < n_ids;) {
    const int64_t n = (int64_t)(n_ids - at) < s->chunk ? (int64_t)(n_ids - at) : s->chunk;
    const bool is_last = at + (size_t)n == n_ids;
    const int32_t last = (int32_t)n - 1;
    wf_row r = sequence_row(&seq, ids + at, n, s->bench ? &last : all, s->bench ? is_last : n,
                            s->bench ? logits : logits + at * vocab);
    if (wf_backend_session_run(&wf_backend_native, session, &r, 1, &err) != WEFT_OK) {
      fail(&err);
      goto out;
    }
    seq.length += n;
    at += (size_t)n;
  }
  const uint64_t t1 = wf_clock_ns();
  for (int64_t i = 0; i < s->bench; i++) {
    size_t best = 0;
    for (size_t j = 1; j < vocab; j++) best = logits[j] > logits[best] ? j : best;
    const int32_t id = (int32_t)best;
    wf_row r = sequence_row(&seq, &id, 1, all, 1, logits);
    if (wf_backend_session_run(&wf_backend_native, session, &r, 1, &err) != WEFT_OK) {
      fail(&err);
      goto out;
    }
    seq.length++;
    if (i < 24) fprintf(stderr, "%d ", (int)id);
  }
  const uint64_t t2 = wf_clock_ns();
  if (s->bench) {
    fprintf(stderr, "\nprompt %zu tokens %llu tok/s, decode %lld tokens %llu tok/s\n", n_ids,
            (unsigned long long)(n_ids * 1000000000ULL / (t1 - t0)), (long long)s->bench,
            (unsigned long long)((uint64_t)s->bench * 1000000000ULL / (t2 - t1)));
  } else {
    FILE *f = fopen(out, "wb");
    if (!f || fwrite(logits, sizeof *logits, n_ids * vocab, f) != n_ids * vocab) {
      fprintf(stderr, "cannot write %s: %s\n", out, strerror(errno));
    }
    if (f) fclose(f);
  }
  wf_run_counters c = {0};
  wf_backend_native.counters(session, &c);
  fprintf(stderr, "runs %llu kernels %llu barriers %llu copies %llu allocations %llu\n",
          (unsigned long long)c.runs, (unsigned long long)c.kernel_calls,
          (unsigned long long)c.barriers, (unsigned long long)c.copies_bytes,
          (unsigned long long)c.allocations);
  rc = 0;
out:
  wf_backend_session_close(&wf_backend_native, session);
  wf_team_destroy(team);
  sequence_deinit(&seq);
  wf_free(logits);
  wf_free(all);
  return rc;
}

int main(int argc, char **argv) {
  settings s = {.chunk = 512, .threads = 1, .o = {.kv = WF_KV_F32}};
  static int32_t ids[65536];
  weft_error err = {0};
  if (argc < 4) {
    fprintf(stderr, "usage: logits_tool DIR OUT IDS [options]\n");
    return 2;
  }
  for (int i = 4; i < argc; i++) {
    const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : "";
    if (strcmp(a, "chunk") == 0) s.chunk = strtol(v, NULL, 10);
    if (strcmp(a, "bench") == 0) s.bench = strtol(v, NULL, 10);
    if (strcmp(a, "threads") == 0) s.threads = (int)strtol(v, NULL, 10);
    if (strcmp(a, "exact") == 0) s.o.exact = true;
    if (strcmp(a, "report") == 0) s.report = true;
    if (strcmp(a, "cache") == 0) s.o.cache_dir = v;
    if (strcmp(a, "kv") == 0) {
      s.o.kv = strcmp(v, "f16") == 0 ? WF_KV_F16 : strcmp(v, "q8") == 0 ? WF_KV_Q8 : WF_KV_F32;
    }
  }
  const size_t n = read_ids(argv[3], ids, 65536);
  if (n == 0 || wf_cpu_level_get(&s.o.level, &err) != WEFT_OK) return fail(&err);
  wf_buf report = {0};
  if (s.report) s.o.report = &report;
  decoder d;
  const uint64_t t0 = wf_clock_ns();
  const weft_status st = decoder_open(&d, argv[1], &s.o, &err);
  if (s.report && wf_buf_cstr(&report)) fputs(wf_buf_cstr(&report), stdout);
  wf_buf_deinit(&report);
  if (st != WEFT_OK) return fail(&err);
  fprintf(stderr, "%s %s, %s, load %llu ms, packed %zu bytes, %zu steps' weights %zu\n",
          d.info->is_packed ? "packed" : "row by row:", d.info->why_not_packed, d.info->precision,
          (unsigned long long)((wf_clock_ns() - t0) / 1000000), d.info->packed_bytes,
          d.info->n_layers, d.info->weight_bytes);
  const int rc = run(&d, &s, argv[2], ids, n);
  decoder_close(&d);
  return rc;
}
