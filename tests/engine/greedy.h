/* SPDX-License-Identifier: Apache-2.0 */
/* Generations that always take the likeliest token and never end by themselves. */
#ifndef WF_TEST_GREEDY_H
#define WF_TEST_GREEDY_H

#include "support/test.h"

#include "weft/weft.h"

/* Owner: the caller (weft_generation_close). n_lookup: how many tokens are guessed ahead. */
static weft_generation *start(weft_model *m, int n_lookup) {
  weft_error err = {0};
  weft_generation *g = NULL;
  weft_generation_options o;
  weft_generation_options_init(&o, sizeof o);
  o.greedy = 1;
  o.ignore_eos = 1;
  o.n_lookup = n_lookup;
  assert_ok(weft_generation_create(&g, m, &o, &err), &err);
  return g;
}

#endif
