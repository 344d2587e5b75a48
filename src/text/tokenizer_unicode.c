/* SPDX-License-Identifier: Apache-2.0 */
/* Character classes as the tokenizers of the field mean them. */
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/tokenizer_internal.h"

bool wf_char_is_space(uint32_t cp) {
  if (cp < 0x80) return cp == ' ' || (cp >= 9 && cp <= 13);
  return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) ||
         cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

static utf8proc_category_t category(uint32_t cp) { return utf8proc_category((utf8proc_int32_t)cp); }

bool wf_char_is_number(uint32_t cp) {
  if (cp < 0x80) return cp >= '0' && cp <= '9';
  const utf8proc_category_t c = category(cp);
  return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool wf_char_is_punctuation(uint32_t cp) {
  if (cp < 0x80) {
    return (cp >= '!' && cp <= '/') || (cp >= ':' && cp <= '@') || (cp >= '[' && cp <= '`') ||
           (cp >= '{' && cp <= '~');
  }
  const utf8proc_category_t c = category(cp);
  return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

bool wf_char_is_mark(uint32_t cp) {
  if (cp < 0x300) return false;
  const utf8proc_category_t c = category(cp);
  return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ME;
}

bool wf_char_is_word(uint32_t cp) {
  if (cp < 0x80) {
    return (cp >= '0' && cp <= '9') || (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z') ||
           cp == '_';
  }
  const utf8proc_category_t c = category(cp);
  if (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_ND) return true; /* L*, M*, Nd */
  if (c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_PC) return true;
  /* Join_Control, and the circled letters, which are alphabetic without being letters. */
  return cp == 0x200c || cp == 0x200d || (cp >= 0x24b6 && cp <= 0x24e9) ||
         (cp >= 0x1f130 && cp <= 0x1f149) || (cp >= 0x1f150 && cp <= 0x1f169) ||
         (cp >= 0x1f170 && cp <= 0x1f189);
}

size_t wf_char_at(const char *s, size_t n, uint32_t *cp) {
  const unsigned char c = (unsigned char)s[0];
  if (c < 0x80) {
    *cp = c;
    return 1;
  }
  const size_t used = wf_utf8_decode(s, n, cp);
  if (used) return used;
  *cp = c; /* cannot happen in checked text; keeps every loop moving */
  return 1;
}

size_t wf_char_before(const char *s, size_t n, uint32_t *cp) {
  size_t back = 1;
  while (back < n && back < 4 && ((unsigned char)s[n - back] & 0xc0) == 0x80) back++;
  (void)wf_char_at(s + n - back, back, cp);
  return back;
}

uint32_t wf_byte_to_char(unsigned char b) {
  if ((b >= '!' && b <= '~') || (b >= 0xa1 && b != 0xad)) return b;
  if (b <= ' ') return 0x100u + b;
  if (b < 0xa1) return 0x121u + (b - 0x7fu);
  return 0x143; /* 0xad */
}

int wf_char_to_byte(uint32_t cp) {
  if (cp < 0x100) {
    return wf_byte_to_char((unsigned char)cp) == cp ? (int)cp : -1;
  }
  if (cp <= 0x120) return (int)(cp - 0x100);
  if (cp <= 0x142) return (int)(cp - 0x121 + 0x7f);
  return cp == 0x143 ? 0xad : -1;
}
