/* SPDX-License-Identifier: Apache-2.0 */
/* weft bench: how fast a model reads a prompt and writes an answer. Token ids are drawn from a
 * fixed seed, so that runs compare; what they say does not change the work. */
#include <string.h>

#include "base/process.h"
#include "base/thread.h"
#include "cli/cli.h"

typedef struct setting {
  int64_t threads, prompt, decode, depth;
} setting;

static void fill_ids(int32_t *ids, int64_t n, int64_t vocab) {
  uint64_t state = 42;
  for (int64_t i = 0; i < n; i++) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    ids[i] = (int32_t)((state >> 33) % (uint64_t)vocab);
  }
}

static weft_status measure(weft_model *model, const setting *s, double *prefill, double *decode,
                           weft_error *err) {
  weft_status st = WEFT_OK;
  weft_generation *g = NULL;
  weft_generation_options o;
  weft_model_info info = {.struct_size = sizeof info};
  weft_model_describe(model, &info);
  weft_generation_options_init(&o, sizeof o);
  o.greedy = 1;
  o.ignore_eos = 1;
  const int64_t n_ids = s->depth + s->prompt + 1;
  int32_t *ids = wf_calloc((size_t)n_ids, sizeof *ids);
  if (!ids) return wf_fail_memory(err, (size_t)n_ids * sizeof *ids, "token ids");
  fill_ids(ids, n_ids, info.vocab);
  WF_TRY(weft_generation_create(&g, model, &o, err));
  if (s->depth) WF_TRY(weft_generation_append(g, ids, (size_t)s->depth, err));
  if (s->prompt) {
    const uint64_t begin = wf_clock_ns();
    WF_TRY(weft_generation_append(g, ids + s->depth, (size_t)s->prompt, err));
    *prefill = (double)s->prompt / ((double)(wf_clock_ns() - begin) / 1e9);
    WF_TRY(weft_generation_rewind(g, (size_t)s->depth, err));
  }
  if (s->decode) {
    /* the depth is there; one token more gives the first logits, as after a prompt */
    WF_TRY(weft_generation_append(g, ids + s->depth, 1, err));
    weft_token token = {.struct_size = sizeof token};
    WF_TRY(weft_generation_step(g, &token, err));
    const uint64_t begin = wf_clock_ns();
    for (int64_t i = 0; i < s->decode; i++) WF_TRY(weft_generation_step(g, &token, err));
    *decode = (double)s->decode / ((double)(wf_clock_ns() - begin) / 1e9);
  }
out:
  weft_generation_close(g);
  wf_free(ids);
  return st;
}

static void add_row(wf_buf *b, bool is_first, const setting *s, double prefill, double decode,
                    uint64_t load_ms) {
  wf_buf_printf(
      b,
      "%s{\"threads\": %lld, \"prompt_tokens\": %lld, \"decode_tokens\": %lld, \"depth\": %lld, ",
      is_first ? "" : ",\n ", (long long)s->threads, (long long)s->prompt, (long long)s->decode,
      (long long)s->depth);
  wf_buf_puts(b, "\"prefill_tokens_per_second\": ");
  wf_buf_add_f64(b, prefill);
  wf_buf_puts(b, ", \"decode_tokens_per_second\": ");
  wf_buf_add_f64(b, decode);
  wf_buf_printf(b, ", \"load_ms\": %llu, \"peak_memory_bytes\": %llu}", (unsigned long long)load_ms,
                (unsigned long long)wf_memory_peak());
}

static void add_line(wf_buf *b, bool is_first, const setting *s, double prefill, double decode,
                     uint64_t load_ms) {
  if (is_first)
    wf_buf_puts(b, "threads  prompt  decode  depth  read tok/s  write tok/s  load ms  peak MiB\n");
  wf_buf_printf(b, "%7lld %7lld %7lld %6lld %11lld %12lld %8llu %9llu\n", (long long)s->threads,
                (long long)s->prompt, (long long)s->decode, (long long)s->depth,
                (long long)(prefill + 0.5), (long long)(decode + 0.5), (unsigned long long)load_ms,
                (unsigned long long)(wf_memory_peak() >> 20));
}

typedef struct counts {
  int64_t *at;
  size_t n;
} counts;

static int read_counts(const cli_command *c, const char *name, const char *text, int64_t lo,
                       int64_t hi, counts *result) {
  if (cli_parse_counts(text, lo, hi, &result->at, &result->n)) return -1;
  return cli_usage(c, "%s wants whole numbers from %lld to %lld separated by commas, not '%s'",
                   name, (long long)lo, (long long)hi, text);
}

typedef struct plan {
  counts prompts, decodes, depths, threads;
  bool json;
  weft_profile *profile; /* NULL: none */
} plan;

/* Every setting of one number of threads, over a model opened for it; -1 to go on, else the exit
 * code. Rows of --json gather in b, lines for people are printed as they come. */
static int bench_threads(const plan *p, size_t at, const char *path, cli_model_options *mo,
                         wf_buf *b) {
  int code = -1;
  weft_error err = {0};
  weft_model *model = NULL;
  weft_model_options options;
  weft_model_info info = {.struct_size = sizeof info};
  mo->threads = p->threads.at[at];
  cli_model_take(mo, false, &options);
  options.profile = p->profile;
  if (cli_model_open(&model, path, &options, &err) != WEFT_OK) return cli_fail(&err);
  weft_model_describe(model, &info);
  const size_t n_decodes = p->decodes.n, n_depths = p->depths.n;
  for (size_t i = 0; code < 0 && i < p->prompts.n * n_decodes * n_depths; i++) {
    const setting s = {p->threads.at[at], p->prompts.at[i / (n_decodes * n_depths)],
                       p->decodes.at[i / n_depths % n_decodes], p->depths.at[i % n_depths]};
    double prefill = 0, decode = 0;
    if (measure(model, &s, &prefill, &decode, &err) != WEFT_OK) {
      code = cli_fail(&err);
      break;
    }
    (p->json ? add_row : add_line)(b, at == 0 && i == 0, &s, prefill, decode, info.load_ms);
    if (p->json) continue;
    cli_out(b->at, b->n);
    wf_buf_clear(b);
  }
  weft_model_close(model);
  return code;
}

int cmd_bench(const cli_command *c, int argc, char **argv) {
  int code;
  const char *prompts = "512", *decodes = "128", *depths = "0", *threads = NULL, *trace = NULL;
  weft_model_options profiled;
  weft_error err = {0};
  cli_model_options mo;
  cli_option model_table[CLI_N_MODEL_OPTIONS];
  cli_texts rest = {0};
  wf_buf b = {0};
  plan p = {0};
  char usable[16];
  const cli_option own[] = {
      {"--prompt", "-p", CLI_TEXT, &prompts, NULL, 0, 0, "N,..", "prompt tokens (512)"},
      {"--decode", "-n", CLI_TEXT, &decodes, NULL, 0, 0, "N,..", "answer tokens (128)"},
      {"--depth", "-d", CLI_TEXT, &depths, NULL, 0, 0, "N,..", "tokens that are there before (0)"},
      {"--threads", "-t", CLI_TEXT, &threads, NULL, 0, 0, "N,..", "threads (all that may be used)"},
      {"--json", NULL, CLI_FLAG, &p.json, NULL, 0, 0, NULL, "a JSON list, one object a setting"},
      {"--profile", NULL, CLI_TEXT, &trace, NULL, 0, 0, "FILE",
       "where the time of each step goes, as a trace for Perfetto"},
      {NULL, NULL, CLI_FLAG, NULL, NULL, 0, 0, NULL, NULL}};
  cli_model_options_init(&mo);
  cli_model_table(&mo, model_table);
  const cli_option *const tables[] = {own, model_table};
  code = cli_parse(c, argc, argv, tables, 2, &rest);
  if (code >= 0) goto out;
  if (!threads) {
    wf_buf text = {0};
    wf_buf_printf(&text, "%d", wf_threads_usable());
    memcpy(usable, text.at ? text.at : "1", text.n + 1 < sizeof usable ? text.n + 1 : 2);
    wf_buf_deinit(&text);
    threads = usable;
  }
  if ((code = read_counts(c, "-p", prompts, 0, 1 << 24, &p.prompts)) >= 0 ||
      (code = read_counts(c, "-n", decodes, 0, 1 << 24, &p.decodes)) >= 0 ||
      (code = read_counts(c, "-d", depths, 0, 1 << 24, &p.depths)) >= 0 ||
      (code = read_counts(c, "-t", threads, 1, 1024, &p.threads)) >= 0) {
    goto out;
  }
  if (rest.n != 1) {
    code = cli_usage(c, "name one package");
    goto out;
  }
  if (cli_profile_begin(trace, &p.profile, &profiled, &err) != WEFT_OK) {
    code = cli_fail(&err);
    goto out;
  }
  if (p.json) wf_buf_puts(&b, "[");
  for (size_t i = 0; i < p.threads.n; i++) {
    code = bench_threads(&p, i, rest.at[0], &mo, &b);
    if (code >= 0) goto out;
  }
  if (p.json) wf_buf_puts(&b, "]\n");
  code = b.failed ? cli_fail_memory() : 0;
  if (code == 0 && b.n) cli_out(b.at, b.n);
out:
  code = cli_profile_end(trace, p.profile, code);
  wf_buf_deinit(&b);
  wf_free(p.prompts.at);
  wf_free(p.decodes.at);
  wf_free(p.depths.at);
  wf_free(p.threads.at);
  cli_model_deinit(&mo);
  wf_vec_free(&rest);
  return code;
}
