/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "decode/decode.h"

enum { LONGEST_MATCH = 4 };

size_t wf_lookup_propose(const int32_t *tokens, size_t n, size_t min_match, size_t max_n,
                         int32_t *proposal) {
  if (min_match == 0) min_match = 1;
  for (size_t m = LONGEST_MATCH; m >= min_match && max_n > 0; m--) {
    if (n <= m) continue;
    const int32_t *suffix = tokens + (n - m);
    /* the latest earlier occurrence: what was said last is likeliest to be said again */
    for (size_t at = n - m; at-- > 0;) {
      if (tokens[at] != suffix[0] || memcmp(tokens + at, suffix, m * sizeof *tokens) != 0) continue;
      const size_t follows = n - (at + m);
      const size_t count = follows < max_n ? follows : max_n;
      memcpy(proposal, tokens + at + m, count * sizeof *tokens);
      return count;
    }
  }
  return 0;
}
