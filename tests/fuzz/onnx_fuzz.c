/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an ONNX model: reader, graph, passes, packed form, plan and print give a typed error
 * or a normal end. Asserts no crash, no leak, and that each refusal has a sentence. */
#include <stdint.h>
#include <stdlib.h>

#include "../graph/decoder_ports.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_say(weft_status st, const weft_error *err) {
  if (st != WEFT_OK && err->what[0] == '\0') abort();
}

static void use_graph(wf_graph *g) {
  weft_error err = {0};
  decoder_ports d = {0};
  wf_packed packed;
  wf_memory_plan plan;
  name_ports(&d, g);
  const wf_pass_options o = {.ports = &d.ports};
  weft_status st = wf_graph_optimize(g, &o, &err);
  must_say(st, &err);
  if (st != WEFT_OK) return;
  st = wf_graph_pack(g, &d.ports, &packed, &err);
  must_say(st, &err);
  if (st != WEFT_OK) return;
  wf_arena *arena = wf_arena_create();
  if (!arena) return;
  const wf_binding b[2] = {{packed.tokens, 3}, {packed.selected, 1}};
  must_say(wf_plan_memory(g, b, 2, 64, NULL, NULL, arena, &plan, &err), &err);
  wf_arena_destroy(arena);
  wf_buf text = {0};
  wf_graph_print(g, &text);
  wf_buf_deinit(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  weft_error err = {0};
  wf_onnx_model *m = NULL;
  wf_graph *g = NULL;
  if (size > 1 << 17) return 0;
  weft_status st = wf_onnx_read(&m, data, size, "fuzz", NULL, NULL, &err);
  must_say(st, &err);
  if (st == WEFT_OK) {
    st = wf_graph_build(&g, m, &err);
    must_say(st, &err);
  }
  if (st == WEFT_OK) use_graph(g);
  wf_graph_destroy(g);
  wf_onnx_close(m);
  return 0;
}
