/* SPDX-License-Identifier: Apache-2.0 */
/* Contracts: a tensor against what the document says of it (format §3). */
#include "workflow/pass_state.h"

void wf_extents_clear(wf_extents *t) {
  for (size_t i = 0; i < t->n; i++) t->at[i] = -1;
}

static const char *symbol_name(const wf_extents *t, int32_t s) {
  return t->package ? t->package[s].name : t->component[s];
}

weft_status wf_contract_check(const wf_plan_contract *c, const wf_view *v, wf_extents *t,
                              int32_t skip_axis, weft_status status, const char *who,
                              weft_error *err) {
  if (c->dtype == WF_DTYPE_UNDEFINED) return WEFT_OK;
  if (v->dtype != c->dtype) {
    return wf_fail(err, status, "give a tensor of the declared type",
                   "value '%s' is %s, but its contract says %s", who, wf_dtype_name(v->dtype),
                   wf_dtype_name(c->dtype));
  }
  if (v->rank != c->rank) {
    return wf_fail(err, status, "give a tensor of the declared rank",
                   "value '%s' has rank %d, but its contract says %d", who, (int)v->rank,
                   (int)c->rank);
  }
  if (!c->has_shape) return WEFT_OK;
  for (int32_t d = 0; d < c->rank; d++) {
    const wf_plan_dim *dim = &c->dims[d];
    int64_t extent = v->dims[d];
    if (d == skip_axis) continue;
    if (dim->symbol < 0) {
      if (extent == dim->extent) continue;
      return wf_fail(err, status, "give a tensor of the declared shape",
                     "value '%s' has extent %lld on axis %d, but its contract says %lld", who,
                     (long long)extent, (int)d, (long long)dim->extent);
    }
    if (c->layout == WF_LAYOUT_EXPANDED && d == c->axis) {
      if (extent % c->factor != 0) {
        return wf_fail(err, WEFT_RUN, "give each request as many entries as the factor says",
                       "value '%s' has extent %lld on axis %d, no multiple of its factor %lld", who,
                       (long long)extent, (int)d, (long long)c->factor);
      }
      extent /= c->factor;
    }
    if (t->package && t->package[dim->symbol].is_dynamic) continue;
    int64_t *bound = &t->at[dim->symbol];
    if (*bound < 0) *bound = extent;
    if (*bound != extent) {
      return wf_fail(err, WEFT_RUN, "give values whose shared extents agree",
                     "value '%s' has extent %lld on axis %d, but symbol '%s' is %lld already", who,
                     (long long)extent, (int)d, symbol_name(t, dim->symbol), (long long)*bound);
    }
  }
  return WEFT_OK;
}
