/* SPDX-License-Identifier: Apache-2.0 */
/* Constant folding: the graph's passes ask for nodes whose inputs are all known. Private to
 * native/. */
#ifndef WF_NATIVE_FOLD_H
#define WF_NATIVE_FOLD_H

#include "backend/native/op.h"

typedef struct wf_folder {
  wf_cpu_level level;
  const wf_graph *graph;
} wf_folder;

weft_status wf_native_fold(void *user, const wf_node *node, const wf_tensor *const *inputs,
                           wf_arena *arena, wf_tensor **outputs, weft_error *err);

#endif
