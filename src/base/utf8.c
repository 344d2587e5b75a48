/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

/* What the second byte may be depends on the first (Unicode standard, table 3-7). Returns the
 * length of the character that `lead` starts, 0 if it starts none. */
static size_t lead_length(unsigned char lead, unsigned char *lo, unsigned char *hi) {
  *lo = 0x80;
  *hi = 0xbf;
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;
  if (lead < 0xe0) return 2;
  if (lead < 0xf0) {
    if (lead == 0xe0) *lo = 0xa0;
    if (lead == 0xed) *hi = 0x9f;
    return 3;
  }
  if (lead < 0xf5) {
    if (lead == 0xf0) *lo = 0x90;
    if (lead == 0xf4) *hi = 0x8f;
    return 4;
  }
  return 0;
}

/* Number of leading bytes that agree with some well-formed character; *need is its full length. */
static size_t good_prefix(const char *s, size_t n, size_t *need) {
  unsigned char lo, hi;
  *need = lead_length((unsigned char)s[0], &lo, &hi);
  if (*need == 0) return 0;
  size_t have = 1;
  while (have < *need && have < n) {
    const unsigned char c = (unsigned char)s[have];
    if (c < lo || c > hi) break;
    lo = 0x80;
    hi = 0xbf;
    have++;
  }
  return have;
}

size_t wf_utf8_decode(const char *s, size_t n, uint32_t *cp) {
  static const unsigned char lead_mask[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  *cp = 0;
  if (n == 0) return 0;
  size_t need;
  const size_t have = good_prefix(s, n, &need);
  if (need == 0 || have < need) return 0;
  uint32_t v = (uint32_t)((unsigned char)s[0] & lead_mask[need]);
  for (size_t i = 1; i < need; i++) v = v << 6 | ((unsigned char)s[i] & 0x3fu);
  *cp = v;
  return need;
}

size_t wf_utf8_encode(uint32_t cp, char out[4]) {
  if (cp < 0x80) {
    out[0] = (char)cp;
    return 1;
  }
  if (cp < 0x800) {
    out[0] = (char)(0xc0 | cp >> 6);
    out[1] = (char)(0x80 | (cp & 0x3f));
    return 2;
  }
  if (cp < 0x10000) {
    if (cp >= 0xd800 && cp < 0xe000) return 0;
    out[0] = (char)(0xe0 | cp >> 12);
    out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[2] = (char)(0x80 | (cp & 0x3f));
    return 3;
  }
  if (cp > 0x10ffff) return 0;
  out[0] = (char)(0xf0 | cp >> 18);
  out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
  out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
  out[3] = (char)(0x80 | (cp & 0x3f));
  return 4;
}

size_t wf_utf8_bad_length(const char *s, size_t n, bool *is_cut) {
  size_t need;
  const size_t have = good_prefix(s, n, &need);
  *is_cut = need != 0 && have == n && have < need;
  return have == 0 ? 1 : have;
}

bool wf_utf8_is_valid(const char *s, size_t n) {
  for (size_t at = 0; at < n;) {
    uint32_t cp;
    const size_t used = wf_utf8_decode(s + at, n - at, &cp);
    if (used == 0) return false;
    at += used;
  }
  return true;
}
