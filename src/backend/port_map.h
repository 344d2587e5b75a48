/* SPDX-License-Identifier: Apache-2.0 */
/* Which ports of a graph are what. Private to src/backend, shared by its backends. */
#ifndef WF_PORT_MAP_H
#define WF_PORT_MAP_H

#include "backend/backend.h"

typedef struct wf_port_map {
  int32_t embeds_input;           /* index of the port, -1 */
  const int32_t *past_inputs;     /* [2 * n_states] input port of key, value; -1; NULL: no ports */
  const int32_t *present_outputs; /* [2 * n_states] */
  size_t n_carried;
  const int32_t *carried_inputs, *carried_outputs; /* [n_carried] */
} wf_port_map;

/* Fills info's ports and vocabulary and *map from the graph; memory in `arena`. ports NULL: a plain
 * graph. Errors: UNSUPPORTED (a port of too many axes), OUT_OF_MEMORY. */
weft_status wf_port_map_build(wf_arena *arena, const wf_graph *g, const wf_ports *ports,
                              wf_component_info *info, wf_port_map *map,
                              weft_error *err) WF_NODISCARD;
/* Heads and sizes of state i as its ports declare them, [batch, heads, length, size].
 * Errors: PACKAGE_INVALID (another rank, heads or sizes unknown). */
weft_status wf_port_map_state(const wf_component_info *info, const wf_port_map *map, size_t i,
                              wf_packed_state *s, weft_error *err) WF_NODISCARD;

/* Elements of carried state i for one row. Errors: PACKAGE_INVALID (extents that are not known, or
 * a past unlike its present). */
weft_status wf_port_map_carried(const wf_component_info *info, const wf_port_map *map, size_t i,
                                size_t *n_elements, weft_error *err) WF_NODISCARD;

#endif
