/* SPDX-License-Identifier: Apache-2.0 */
/* A decoder under test: a component with the usual port names, a session, one cache a sequence. */
#ifndef WF_TEST_DECODER_H
#define WF_TEST_DECODER_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/mem.h"
#include "onnx/onnx.h"

enum { DECODER_MAX_LAYERS = 128, DECODER_MAX_BLOCKS = 256 };

typedef struct decoder {
  wf_component *component;
  const wf_component_info *info;
  wf_ports ports;
  wf_state_ports states[DECODER_MAX_LAYERS];
  char names[DECODER_MAX_LAYERS * 4][48];
} decoder;

/* One conversation's cache: every block there from the start. */
typedef struct sequence {
  unsigned char **blocks[8];
  wf_kv_table tables[8];
  int64_t length;
  size_t n_groups;
} sequence;

typedef struct decoder_options {
  bool exact;
  wf_kv_type kv;
  wf_cpu_level level;
  const char *cache_dir;
  wf_buf *report;
} decoder_options;

static inline size_t count_states(const char *dir) {
  char path[2048];
  wf_onnx_model *m = NULL;
  size_t n = 0;
  snprintf(path, sizeof path, "%s/model.onnx", dir);
  const wf_onnx_options o = {.without_external = true};
  if (wf_onnx_open(&m, path, &o, NULL) != WEFT_OK) return 0;
  for (size_t i = 0; i < m->graph.n_inputs; i++) {
    const wf_str name = m->graph.inputs[i].name;
    if (wf_str_starts(name, WF_STR("past_key_values.")) && wf_str_ends(name, WF_STR(".key"))) n++;
  }
  wf_onnx_close(m);
  return n < DECODER_MAX_LAYERS ? n : DECODER_MAX_LAYERS;
}

static inline weft_status decoder_open(decoder *d, const char *dir, const decoder_options *o,
                                       weft_error *err) {
  memset(d, 0, sizeof *d);
  d->ports.input_ids = WF_STR("input_ids");
  d->ports.attention_mask = WF_STR("attention_mask");
  d->ports.position_ids = WF_STR("position_ids");
  d->ports.logits = WF_STR("logits");
  d->ports.n_states = count_states(dir);
  for (size_t i = 0; i < d->ports.n_states; i++) {
    static const char *const forms[4] = {"past_key_values.%zu.key", "past_key_values.%zu.value",
                                         "present.%zu.key", "present.%zu.value"};
    wf_str *to[4] = {&d->states[i].past_key, &d->states[i].past_value, &d->states[i].present_key,
                     &d->states[i].present_value};
    for (size_t j = 0; j < 4; j++) {
      const char *dot = strstr(forms[j], "%zu");
      snprintf(d->names[4 * i + j], sizeof d->names[0], "%.*s%zu%s", (int)(dot - forms[j]),
               forms[j], i, dot + 3);
      *to[j] = wf_str_of(d->names[4 * i + j]);
    }
  }
  d->ports.states = d->states;
  const wf_compile_options c = {.root = dir,
                                .model = "model.onnx",
                                .ports = &d->ports,
                                .exact = o->exact,
                                .kv = o->kv,
                                .level = o->level,
                                .cache_dir = o->cache_dir,
                                .report = o->report};
  const weft_status st = wf_component_compile(&wf_backend_native, &d->component, &c, err);
  if (st == WEFT_OK) d->info = wf_component_describe(&wf_backend_native, d->component);
  return st;
}

static inline void decoder_close(decoder *d) {
  wf_component_release(&wf_backend_native, d->component);
  d->component = NULL;
}

static inline bool sequence_init(sequence *s, const wf_component_info *info, int64_t max_tokens) {
  memset(s, 0, sizeof *s);
  s->n_groups = info->n_groups;
  const int64_t n = (max_tokens + WF_KV_BLOCK_TOKENS - 1) / WF_KV_BLOCK_TOKENS;
  for (size_t g = 0; g < info->n_groups; g++) {
    s->blocks[g] = wf_calloc((size_t)n, sizeof *s->blocks[g]);
    for (int64_t i = 0; s->blocks[g] && i < n; i++) {
      s->blocks[g][i] = wf_alloc_aligned(info->groups[g].block_bytes, 64);
      if (!s->blocks[g][i]) return false;
      memset(s->blocks[g][i], 0xff, info->groups[g].block_bytes); /* NaN where nothing is written */
    }
    s->tables[g] = (wf_kv_table){s->blocks[g], 0, n};
  }
  return true;
}

static inline void sequence_deinit(sequence *s) {
  for (size_t g = 0; g < s->n_groups; g++) {
    for (int64_t i = 0; i < s->tables[g].n_blocks; i++) wf_free(s->blocks[g][i]);
    wf_free(s->blocks[g]);
  }
}

/* A row over n new tokens of a sequence; all or the last of them selected. */
static inline wf_row sequence_row(const sequence *s, const int32_t *ids, int64_t n,
                                  const int32_t *selected, int64_t n_selected, float *logits) {
  return (wf_row){.ids = ids,
                  .n_new = n,
                  .past = s->length,
                  .tables = s->tables,
                  .selected = selected,
                  .n_selected = n_selected,
                  .logits = logits};
}

#endif
