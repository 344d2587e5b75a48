/* SPDX-License-Identifier: Apache-2.0 */
/* weft_profile: the public name of a backend's profile. */
#include "engine/engine.h"

struct weft_profile {
  wf_profile *spans;
};

wf_profile *wf_profile_of(weft_profile *p) { return p ? p->spans : NULL; }

weft_status weft_profile_create(weft_profile **result, weft_error *err) {
  weft_profile *p = wf_zalloc(sizeof *p);
  if (!p) return wf_fail_memory(err, sizeof *p, "a profile");
  const weft_status st = wf_profile_create(&p->spans, err);
  if (st != WEFT_OK) {
    wf_free(p);
    return st;
  }
  *result = p;
  return WEFT_OK;
}

void weft_profile_destroy(weft_profile *p) {
  if (!p) return;
  wf_profile_destroy(p->spans);
  wf_free(p);
}

static weft_status take(wf_buf *b, char **text, weft_error *err) {
  *text = wf_buf_take(b);
  wf_buf_deinit(b);
  return *text ? WEFT_OK : wf_fail_memory(err, 0, "a profile's text");
}

weft_status weft_profile_trace(const weft_profile *p, char **json, weft_error *err) {
  wf_buf b = {0};
  wf_profile_trace(p->spans, &b);
  return take(&b, json, err);
}

weft_status weft_profile_table(const weft_profile *p, char **text, weft_error *err) {
  wf_buf b = {0};
  wf_profile_table(p->spans, &b);
  return take(&b, text, err);
}
