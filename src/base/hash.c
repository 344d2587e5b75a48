/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"

#include <string.h>

uint64_t wf_hash_bytes(uint64_t h, const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  h ^= n * UINT64_C(0xd6e8feb86659fd93);
  while (n >= 8) {
    uint64_t w;
    memcpy(&w, p, sizeof w);
    h = wf_hash_mix(h ^ w) + WF_HASH_SEED;
    p += 8;
    n -= 8;
  }
  if (n) {
    uint64_t w = 0;
    memcpy(&w, p, n);
    h = wf_hash_mix(h ^ w) + WF_HASH_SEED;
  }
  return wf_hash_mix(h);
}
