/* SPDX-License-Identifier: Apache-2.0 */
#include "workflow/plan.h"

#include <string.h>

int32_t wf_plan_port_named(const wf_plan_port *ports, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++) {
    if (strcmp(ports[i].name, name) == 0) return (int32_t)i;
  }
  return -1;
}

int32_t wf_plan_component_named(const wf_plan *p, const char *name) {
  for (size_t i = 0; i < p->n_components; i++) {
    if (strcmp(p->components[i].name, name) == 0) return (int32_t)i;
  }
  return -1;
}
