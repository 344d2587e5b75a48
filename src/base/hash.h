/* SPDX-License-Identifier: Apache-2.0 */
/* A fast 64-bit hash for tables and change detection. Not for secrets, not for hostile keys alone:
 * tables that strangers fill bound their probes by checking lengths first. */
#ifndef WF_HASH_H
#define WF_HASH_H

#include <stddef.h>
#include <stdint.h>

#define WF_HASH_SEED UINT64_C(0x9e3779b97f4a7c15)

/* Continues hash `h` over n bytes; start with WF_HASH_SEED (or a random seed for hostile keys). */
uint64_t wf_hash_bytes(uint64_t h, const void *bytes, size_t n);

/* Mixes all bits of x (the finaliser of SplitMix64, Steele et al. 2014). */
static inline uint64_t wf_hash_mix(uint64_t x) {
  x ^= x >> 30;
  x *= UINT64_C(0xbf58476d1ce4e5b9);
  x ^= x >> 27;
  x *= UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

#endif
