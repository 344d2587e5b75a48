/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of the ort backend share: where the library is, the toy decoders of tests/graph as
 * components, and one conversation's run. */
#ifndef WF_ORT_FIXTURE_H
#define WF_ORT_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ort/ort.h"
#include "base/mem.h"
#include "base/process.h"
#include "support/ort_library.h"

enum { TOY_LAYERS = 8, TOY_VOCAB = 44 };

typedef struct toy {
  wf_ports ports;
  wf_state_ports states[TOY_LAYERS];
  char names[4 * TOY_LAYERS][48];
  wf_compile_options options;
  char path[4096];
  wf_component *component;
  const wf_component_info *info;
} toy;

static inline weft_status toy_open_with(toy *t, const wf_backend *b, const char *name,
                                        int n_threads, weft_error *err) {
  wf_onnx_model *m = NULL;
  const wf_onnx_options plain = {.without_external = true};
  memset(t, 0, sizeof *t);
  snprintf(t->path, sizeof t->path, WEFT_SOURCE_DIR "/tests/graph/longhand/%s.onnx", name);
  t->ports.input_ids = WF_STR("input_ids");
  t->ports.attention_mask = WF_STR("attention_mask");
  t->ports.position_ids = WF_STR("position_ids");
  t->ports.logits = WF_STR("logits");
  t->ports.states = t->states;
  WF_RETURN_IF_ERROR(wf_onnx_open(&m, t->path, &plain, err));
  for (size_t i = 0; i < m->graph.n_inputs; i++)
    t->ports.n_states += wf_str_starts(m->graph.inputs[i].name, WF_STR("past_key_values.")) &&
                         wf_str_ends(m->graph.inputs[i].name, WF_STR(".key"));
  wf_onnx_close(m);
  for (size_t i = 0; i < t->ports.n_states; i++) {
    char(*n)[48] = &t->names[4 * i];
    snprintf(n[0], sizeof n[0], "past_key_values.%zu.key", i);
    snprintf(n[1], sizeof n[1], "past_key_values.%zu.value", i);
    snprintf(n[2], sizeof n[2], "present.%zu.key", i);
    snprintf(n[3], sizeof n[3], "present.%zu.value", i);
    t->states[i] =
        (wf_state_ports){wf_str_of(n[0]), wf_str_of(n[1]), wf_str_of(n[2]), wf_str_of(n[3])};
  }
  t->options = (wf_compile_options){.model = t->path,
                                    .ports = &t->ports,
                                    .n_threads = n_threads,
                                    .library = test_library(),
                                    .kv = WF_KV_F32,
                                    .exact = true,
                                    .level = WF_CPU_REF};
  WF_RETURN_IF_ERROR(wf_component_compile(b, &t->component, &t->options, err));
  t->info = wf_component_describe(b, t->component);
  return WEFT_OK;
}

static inline weft_status toy_open(toy *t, const char *name, int n_threads, weft_error *err) {
  return toy_open_with(t, &wf_backend_ort, name, n_threads, err);
}

/* n tokens with the logits of the last; the state grows by them. */
static inline weft_status toy_run(wf_backend_session *s, wf_backend_state *state, int64_t past,
                                  const int32_t *ids, int64_t n, float *logits, weft_error *err) {
  const int32_t last = (int32_t)n - 1;
  const wf_row row = {.ids = ids,
                      .n_new = n,
                      .past = past,
                      .state = state,
                      .selected = &last,
                      .n_selected = 1,
                      .logits = logits};
  return wf_backend_session_run(&wf_backend_ort, s, &row, 1, err);
}

#endif
