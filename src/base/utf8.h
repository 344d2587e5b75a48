/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 as the Unicode standard defines it: no surrogates, no overlong forms, at most U+10FFFF. */
#ifndef WF_UTF8_H
#define WF_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes one character. Returns its length 1..4, or 0 when the bytes at `s` are ill-formed or cut
 * off (then *cp is 0). n = 0 gives 0. Thread: any. */
size_t wf_utf8_decode(const char *s, size_t n, uint32_t *cp);

/* Writes a character; returns its length 1..4, 0 for a code point that has no UTF-8 form. */
size_t wf_utf8_encode(uint32_t cp, char out[4]);

/* Length of the maximal ill-formed part at `s` (1..3), the unit that Python's errors="replace"
 * turns into one U+FFFD (Unicode standard, "maximal subpart"). *is_cut is true when all the bytes
 * to the end are a proper prefix of some well-formed character. Call it only where
 * wf_utf8_decode() gave 0 and n > 0. */
size_t wf_utf8_bad_length(const char *s, size_t n, bool *is_cut);

/* True when all n bytes are well-formed. */
bool wf_utf8_is_valid(const char *s, size_t n);

#endif
