/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a decoder: compiled with a decoder's ports and run for a prompt and a step, then
 * compiled as a plain graph. Asserts no crash, no leak, and that a refusal has its sentence. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/decoder.h"
#include "base/file.h"
#include "base/process.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_BLOCK_BYTES = 1 << 22, MAX_VOCAB = 1 << 16 };

static void check(weft_status st, const weft_error *err) {
  if (st != WEFT_OK && err->what[0] == '\0') abort();
}

static void run(const decoder *d, wf_team *team) {
  weft_error err = {0};
  wf_backend_session *s = NULL;
  sequence seq = {0};
  const wf_component_info *info = d->info;
  /* Sizes that would only test the machine's memory say nothing about the code. */
  if (info->vocab <= 0 || info->vocab > MAX_VOCAB || info->n_groups > 8) return;
  for (size_t g = 0; g < info->n_groups; g++) {
    if (info->groups[g].block_bytes > MAX_BLOCK_BYTES) return;
  }
  float *logits = wf_calloc((size_t)info->vocab, sizeof *logits);
  static const int32_t ids[] = {1, 2, 3, 4, 5}, last = 4, zero = 0;
  if (!logits || !sequence_init(&seq, info, 64)) goto out;
  const weft_status st =
      wf_backend_session_open(&wf_backend_native, &s, d->component, team, 8, &err);
  check(st, &err);
  if (st == WEFT_OK) {
    wf_row r = sequence_row(&seq, ids, 5, &last, 1, logits);
    const weft_status first = wf_backend_session_run(&wf_backend_native, s, &r, 1, &err);
    check(first, &err);
    seq.length = 5;
    r = sequence_row(&seq, ids, 1, &zero, 1, logits);
    if (first == WEFT_OK) check(wf_backend_session_run(&wf_backend_native, s, &r, 1, &err), &err);
  }
out:
  wf_backend_session_close(&wf_backend_native, s);
  sequence_deinit(&seq);
  wf_free(logits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char dir[64], path[96];
  weft_error err = {0};
  wf_team *team = NULL;
  wf_component *c = NULL;
  decoder d = {0};
  if (size > 1 << 17) return 0;
  (void)snprintf(dir, sizeof dir, "/dev/shm/weft-backend-fuzz-%ld", (long)getpid());
  (void)snprintf(path, sizeof path, "%s/model.onnx", dir);
  if (wf_path_make_dirs(dir, true, NULL) != WEFT_OK ||
      wf_file_write(path, data, size, true, NULL) != WEFT_OK ||
      wf_team_create(&team, 2, &err) != WEFT_OK) {
    return 0;
  }
  const decoder_options o = {.exact = size % 2 == 0, .kv = WF_KV_F32, .level = wf_cpu_best()};
  const weft_status st = decoder_open(&d, dir, &o, &err);
  check(st, &err);
  if (st == WEFT_OK) run(&d, team);
  decoder_close(&d);
  const wf_compile_options plain = {.root = dir, .model = "model.onnx", .level = wf_cpu_best()};
  check(wf_component_compile(&wf_backend_native, &c, &plain, &err), &err);
  wf_component_release(&wf_backend_native, c);
  wf_team_destroy(team);
  (void)unlink(path);
  (void)rmdir(dir);
  return 0;
}
