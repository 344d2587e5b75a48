/* SPDX-License-Identifier: Apache-2.0 */
/* Counter-based random numbers: the n-th number of a seed is a function of both, so a row's draws
 * never depend on what else is drawn. Philox4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel
 * random numbers: as easy as 1, 2, 3" (2011). */
#include <sys/random.h>

#include "base/process.h"
#include "decode/decode.h"

void wf_random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t result[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    const uint64_t p0 = (uint64_t)0xD2511F53 * c0, p1 = (uint64_t)0xCD9E8D57 * c2;
    const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  result[0] = c0;
  result[1] = c1;
  result[2] = c2;
  result[3] = c3;
}

double wf_random_uniform(uint64_t seed, uint64_t counter) {
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  const uint32_t at[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
  uint32_t r[4];
  wf_random_philox(at, key, r);
  const uint64_t bits = ((uint64_t)r[1] << 32 | r[0]) >> 11; /* the 53 that a double holds */
  return (double)bits * 0x1p-53;
}

uint64_t wf_random_seed(void) {
  uint64_t seed;
  if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed) return seed;
  /* early at boot the generator may not be ready; two answers still differ by the clock */
  return wf_clock_ns() * UINT64_C(0x9e3779b97f4a7c15) ^ wf_owner_token();
}
