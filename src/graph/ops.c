/* SPDX-License-Identifier: Apache-2.0 */
/* Names of operators. */
#include "graph/graph.h"

typedef struct op_name {
  const char *domain, *text;
} op_name;

static const op_name names[WF_OP_COUNT] = {[WF_OP_UNKNOWN] = {"", "?"},
#define WF_X(name, domain, text) [WF_OP_##name] = {WF_DOMAIN_##domain, text},
                                           WF_OP_MAP(WF_X)
#undef WF_X
};

const char *wf_op_name(wf_op op) { return (unsigned)op < WF_OP_COUNT ? names[op].text : "?"; }

const char *wf_op_domain(wf_op op) { return (unsigned)op < WF_OP_COUNT ? names[op].domain : ""; }

wf_op wf_op_find(wf_str domain, wf_str op_type) {
  /* Internal operators are made by passes only; a file can't name them. */
  if (wf_str_is(domain, WF_DOMAIN_WEFT)) return WF_OP_UNKNOWN;
  for (int op = 1; op < WF_OP_COUNT; op++) {
    if (wf_str_is(op_type, names[op].text) && wf_str_is(domain, names[op].domain)) return (wf_op)op;
  }
  return WF_OP_UNKNOWN;
}
