/* SPDX-License-Identifier: Apache-2.0 */
/* SentencePiece's compiled character map: a Darts double-array trie (its unit layout is described
 * at https://github.com/s-yata/darts-clone) whose values are positions in a block of strings. */
#include "text/tokenizer_internal.h"

weft_status wf_charsmap_parse(wf_charsmap *m, const unsigned char *bytes, size_t n, wf_arena *arena,
                              const char *path, weft_error *err) {
  if (n == 0) return WEFT_OK; /* no map: nothing is changed */
  uint32_t trie_bytes = 0;
  if (n >= 4) {
    trie_bytes = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
                 (uint32_t)bytes[3] << 24;
  }
  if (n < 4 || trie_bytes % 4 != 0 || trie_bytes > n - 4) {
    return wf_fail(err, WEFT_TOKENIZER, "repair the file or fetch it again",
                   "%s: the character map says its trie has %u bytes, but %zu are there", path,
                   trie_bytes, n);
  }
  uint32_t *units = wf_arena_calloc(arena, trie_bytes / 4 + 1, sizeof *units);
  char *strings = wf_arena_strndup(arena, (const char *)bytes + 4 + trie_bytes, n - 4 - trie_bytes);
  if (!units || !strings) return wf_fail_memory(err, n, "a character map");
  for (size_t i = 0; i < trie_bytes / 4; i++) {
    const unsigned char *b = bytes + 4 + i * 4;
    units[i] = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
  }
  m->units = units;
  m->n_units = trie_bytes / 4;
  m->strings = strings;
  m->n_strings = n - 4 - trie_bytes;
  return WEFT_OK;
}

static size_t offset_of(uint32_t unit) { return (size_t)(unit >> 10) << ((unit & 0x200) >> 6); }

bool wf_charsmap_lookup(const wf_charsmap *m, const char *s, size_t n, size_t *used,
                        wf_str *replacement) {
  bool found = false;
  size_t value = 0;
  if (m->n_units == 0) return false;
  size_t node = offset_of(m->units[0]);
  for (size_t i = 0; i < n; i++) {
    const unsigned char c = (unsigned char)s[i];
    if (c == 0) break;
    node ^= c;
    if (node >= m->n_units) break;
    const uint32_t unit = m->units[node];
    if ((unit & 0x800000ff) != c) break;
    node ^= offset_of(unit);
    if (node >= m->n_units) break;
    if (unit >> 8 & 1) {
      value = m->units[node] & 0x7fffffff;
      *used = i + 1;
      found = true;
      if (!m->longest) break;
    }
  }
  if (!found || value >= m->n_strings) return false;
  const char *end = memchr(m->strings + value, 0, m->n_strings - value);
  *replacement =
      (wf_str){m->strings + value, end ? (size_t)(end - m->strings) - value : m->n_strings - value};
  return true;
}
