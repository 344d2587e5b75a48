/* SPDX-License-Identifier: Apache-2.0 */
/* Cosine and sine tables for rotary embedding with every scaling that GGUF files use. */
#ifndef WF_ROPE_TABLES_H
#define WF_ROPE_TABLES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct wf_rope_table {
  size_t dim; /* rotated dimensions of a head; the tables have dim / 2 columns */
  double base;
  double factor; /* linear: positions are divided by it; yarn: see below; 1: none */
  bool is_yarn;  /* interpolate low frequencies only, ramp between the two betas */
  double beta_fast, beta_slow;
  size_t original_context;
  double magnitude;          /* multiplies cos and sin; yarn's own comes on top */
  const float *freq_factors; /* [dim / 2] divisors of each frequency, or NULL */
} wf_rope_table;

/* Angles a position for each column, out [dim / 2]. Thread: any. */
void wf_rope_frequencies(const wf_rope_table *t, double *out);
/* What cos and sin are multiplied by. */
double wf_rope_magnitude(const wf_rope_table *t);

#endif
