/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a decoder of the tests and names its ports as transformers.js exports do. */
#ifndef WF_TEST_DECODER_PORTS_H
#define WF_TEST_DECODER_PORTS_H

#include <stdio.h>

#include "graph/graph.h"

enum { MAX_TEST_STATES = 8 };

typedef struct decoder_ports {
  wf_ports ports;
  wf_state_ports states[MAX_TEST_STATES];
  char names[MAX_TEST_STATES][4][48];
} decoder_ports;

static inline void name_ports(decoder_ports *d, const wf_graph *g) {
  static const char *const owners[] = {"past_key_values", "past_key_values", "present", "present"};
  d->ports = (wf_ports){.input_ids = WF_STR("input_ids"),
                        .attention_mask = WF_STR("attention_mask"),
                        .position_ids = WF_STR("position_ids"),
                        .logits = WF_STR("logits"),
                        .states = d->states};
  for (int i = 0; i < MAX_TEST_STATES; i++) {
    for (int k = 0; k < 4; k++) {
      (void)snprintf(d->names[i][k], sizeof d->names[i][k], "%s.%d.%s", owners[k], i,
                     k % 2 ? "value" : "key");
    }
    if (wf_graph_find(g, wf_str_of(d->names[i][0])) < 0) break;
    d->states[i] = (wf_state_ports){wf_str_of(d->names[i][0]), wf_str_of(d->names[i][1]),
                                    wf_str_of(d->names[i][2]), wf_str_of(d->names[i][3])};
    d->ports.n_states++;
  }
}

#endif
