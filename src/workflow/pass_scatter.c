/* SPDX-License-Identifier: Apache-2.0 */
/* The check in front of caches of fixed capacity (format §9, RUN-SC). */
#include "workflow/adapter.h"

weft_status wf_scatter_check(const wf_pass *p, const wf_plan_step *s, const wf_plan_component *c,
                             weft_error *err) {
  for (size_t i = 0; i < c->n_scatters; i++) {
    const wf_plan_scatter *x = &c->scatters[i];
    const char *group = p->plan->group_names[x->group];
    int64_t capacity = 0;
    WF_RETURN_IF_ERROR(wf_pass_read_count(p, s, x->capacity, "capacity", &capacity, err));
    if (capacity == 0) {
      return wf_fail(err, WEFT_RUN, "give the cache room", "%s: group '%s' has no capacity",
                     s->path, group);
    }
    for (size_t b = 0; b < x->n_buffers; b++) {
      const wf_view *v = wf_adapter_input(p, c, x->buffers[b]);
      if (v && (x->axis >= v->rank || v->dims[x->axis] != capacity)) {
        return wf_fail(err, WEFT_RUN, "make buffers of the group's capacity",
                       "%s: port '%s' of component '%s' has %lld positions, but group '%s' has a "
                       "capacity of %lld",
                       s->path, x->buffers[b], c->name,
                       (long long)(x->axis < v->rank ? v->dims[x->axis] : 0), group,
                       (long long)capacity);
      }
    }
    const wf_view *to = wf_adapter_input(p, c, x->destinations);
    const wf_view *lengths = x->lengths ? wf_adapter_input(p, c, x->lengths) : NULL;
    const int64_t n = to ? wf_view_elements(to) : 0;
    for (int64_t r = 0; r < n; r++) {
      int64_t d = -1;
      if (!wf_view_int(to, r, &d) || d < 0 || d >= capacity) {
        return wf_fail(err, WEFT_RUN, "write within the cache's capacity",
                       "%s: row %lld of component '%s' writes at %lld, group '%s' has a capacity "
                       "of %lld",
                       s->path, (long long)r, c->name, (long long)d, group, (long long)capacity);
      }
    }
    if (!lengths) continue;
    if (wf_view_elements(lengths) != n) {
      return wf_fail(err, WEFT_RUN, "give as many lengths as destinations",
                     "%s: component '%s' has %lld lengths for %lld destinations", s->path, c->name,
                     (long long)wf_view_elements(lengths), (long long)n);
    }
    for (int64_t r = 0; r < n; r++) {
      int64_t d = -1;
      if (!wf_view_int(lengths, r, &d) || d < 0 || d > capacity) {
        return wf_fail(err, WEFT_RUN, "keep lengths within the cache's capacity",
                       "%s: row %lld of component '%s' has length %lld, group '%s' has a capacity "
                       "of %lld",
                       s->path, (long long)r, c->name, (long long)d, group, (long long)capacity);
      }
    }
  }
  return WEFT_OK;
}
