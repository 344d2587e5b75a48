/* SPDX-License-Identifier: Apache-2.0 */
/* 16-bit floats as doubles. Private to src/graph. */
#ifndef WF_GRAPH_TENSOR_READ_H
#define WF_GRAPH_TENSOR_READ_H

#include <stdint.h>

double graph_half_to_f64(uint16_t h);
double graph_bf16_to_f64(uint16_t h);

#endif
