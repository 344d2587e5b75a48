/* SPDX-License-Identifier: Apache-2.0 */
/* Runs ONNX cases for tests/e2e/test_node_cases.py. Each line of stdin names a folder with
 * model.onnx and in_0, in_1 ... (int32 dtype, int32 rank, int64 dims, bytes; dtype 0: absent);
 * out_0 ... are written in the same form. One line of answer a case: "ok", or the refusal. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/mem.h"

enum { MAX_PORTS = 64 };

static bool read_view(const char *path, wf_view *v) {
  char *bytes = NULL;
  size_t n = 0;
  int32_t head[2] = {0, 0};
  *v = (wf_view){0};
  if (wf_file_read(path, (size_t)1 << 30, &bytes, &n, NULL) != WEFT_OK) return false;
  memcpy(head, bytes, sizeof head);
  v->dtype = (wf_dtype)head[0];
  v->rank = head[1];
  const size_t at = sizeof head + (size_t)v->rank * 8;
  memcpy(v->dims, bytes + sizeof head, (size_t)v->rank * 8);
  if (head[0]) {
    v->data = wf_alloc_aligned(n - at + 1, 64);
    if (v->data) memcpy(v->data, bytes + at, n - at);
  }
  wf_free(bytes);
  return true;
}

static bool write_view(const char *path, const wf_view *v) {
  const int32_t head[2] = {(int32_t)v->dtype, v->rank};
  size_t n = 0, n_bytes = 0;
  FILE *f = fopen(path, "wb");
  if (!f || !wf_dims_count(v->dims, (size_t)v->rank, &n) ||
      !wf_dtype_bytes(v->dtype, n, &n_bytes)) {
    return false;
  }
  bool ok = fwrite(head, sizeof head, 1, f) == 1;
  ok = ok && (v->rank == 0 || fwrite(v->dims, (size_t)v->rank * 8, 1, f) == 1);
  ok = ok && (n_bytes == 0 || fwrite(v->data, n_bytes, 1, f) == 1);
  return fclose(f) == 0 && ok;
}

static weft_status run_case(const char *dir, wf_team *team, wf_cpu_level level, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_component *c = NULL;
  wf_backend_session *s = NULL;
  wf_view in[MAX_PORTS] = {0}, out[MAX_PORTS] = {0};
  char path[4096];
  const wf_compile_options o = {.root = dir, .model = "model.onnx", .exact = true, .level = level};
  WF_TRY(wf_component_compile(&wf_backend_native, &c, &o, err));
  const wf_component_info *info = wf_component_describe(&wf_backend_native, c);
  for (size_t i = 0; i < info->n_inputs && i < MAX_PORTS; i++) {
    snprintf(path, sizeof path, "%s/in_%zu", dir, i);
    read_view(path, &in[i]);
  }
  WF_TRY(wf_backend_session_open(&wf_backend_native, &s, c, team, 1, err));
  const wf_row row = {.inputs = in, .outputs = out};
  WF_TRY(wf_backend_session_run(&wf_backend_native, s, &row, 1, err));
  /* Twice: the second run uses the buffers of the first. */
  WF_TRY(wf_backend_session_run(&wf_backend_native, s, &row, 1, err));
  for (size_t i = 0; i < info->n_outputs && i < MAX_PORTS; i++) {
    snprintf(path, sizeof path, "%s/out_%zu", dir, i);
    if (!write_view(path, &out[i])) st = wf_fail(err, WEFT_IO, "", "cannot write %s", path);
  }
out:
  wf_backend_session_close(&wf_backend_native, s);
  wf_component_release(&wf_backend_native, c);
  for (size_t i = 0; i < MAX_PORTS; i++) wf_free(in[i].data);
  return st;
}

int main(void) {
  char dir[2048];
  wf_team *team = NULL;
  wf_cpu_level level;
  weft_error err = {0};
  if (wf_cpu_level_get(&level, &err) != WEFT_OK || wf_team_create(&team, 2, &err) != WEFT_OK) {
    fprintf(stderr, "%s\n", err.what);
    return 1;
  }
  while (fgets(dir, sizeof dir, stdin)) {
    dir[strcspn(dir, "\n")] = '\0';
    const weft_status st = run_case(dir, team, level, &err);
    if (st == WEFT_OK) {
      puts("ok");
    } else {
      printf("%s: %s\n", weft_status_name(st), err.what);
    }
    fflush(stdout);
  }
  wf_team_destroy(team);
  return 0;
}
