/* SPDX-License-Identifier: Apache-2.0 */
#include "import/rope_tables.h"

#include <math.h>

#define PI 3.14159265358979323846

/* The column whose wave turns `n` times within the original context (YaRN, Peng et al. 2023). */
static double yarn_column(const wf_rope_table *t, double n) {
  return (double)t->dim * log((double)t->original_context / (n * 2 * PI)) / (2 * log(t->base));
}

void wf_rope_frequencies(const wf_rope_table *t, double *out) {
  double low = 0, high = 0;
  if (t->is_yarn) {
    const double last = (double)t->dim - 1;
    low = fmin(fmax(floor(yarn_column(t, t->beta_fast)), 0), last);
    high = fmin(fmax(ceil(yarn_column(t, t->beta_slow)), 0), last);
  }
  for (size_t i = 0; i < t->dim / 2; i++) {
    double f = pow(t->base, -2.0 * (double)i / (double)t->dim);
    if (t->freq_factors) f /= (double)t->freq_factors[i];
    double share = 1; /* of the interpolated frequency */
    if (t->is_yarn) share = fmin(fmax(((double)i - low) / fmax(0.001, high - low), 0), 1);
    out[i] = f / t->factor * share + f * (1 - share);
  }
}

double wf_rope_magnitude(const wf_rope_table *t) {
  if (!t->is_yarn || t->factor <= 1) return t->magnitude;
  return t->magnitude * (1 + 0.1 * log(t->factor));
}
