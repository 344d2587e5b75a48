/* SPDX-License-Identifier: Apache-2.0 */
/* Upper, lower and title case and character classes as Python's str has them. One to one mappings
 * and categories come from utf8proc; the table below holds the characters whose upper case is
 * several characters (Unicode's SpecialCasing.txt, unconditional part). */
#include <utf8proc.h>

#include "base/utf8.h"
#include "text/jinja.h"

typedef struct special {
  uint32_t from, upper[3], title[3];
} special;

/* clang-format off */
static const special specials[] = {
    {0x00df, {0x0053, 0x0053}, {0x0053, 0x0073}}, {0x0149, {0x02bc, 0x004e}, {0x02bc, 0x004e}},
    {0x01f0, {0x004a, 0x030c}, {0x004a, 0x030c}},
    {0x0390, {0x0399, 0x0308, 0x0301}, {0x0399, 0x0308, 0x0301}},
    {0x03b0, {0x03a5, 0x0308, 0x0301}, {0x03a5, 0x0308, 0x0301}},
    {0x0587, {0x0535, 0x0552}, {0x0535, 0x0582}}, {0x1e96, {0x0048, 0x0331}, {0x0048, 0x0331}},
    {0x1e97, {0x0054, 0x0308}, {0x0054, 0x0308}}, {0x1e98, {0x0057, 0x030a}, {0x0057, 0x030a}},
    {0x1e99, {0x0059, 0x030a}, {0x0059, 0x030a}}, {0x1e9a, {0x0041, 0x02be}, {0x0041, 0x02be}},
    {0x1f50, {0x03a5, 0x0313}, {0x03a5, 0x0313}},
    {0x1f52, {0x03a5, 0x0313, 0x0300}, {0x03a5, 0x0313, 0x0300}},
    {0x1f54, {0x03a5, 0x0313, 0x0301}, {0x03a5, 0x0313, 0x0301}},
    {0x1f56, {0x03a5, 0x0313, 0x0342}, {0x03a5, 0x0313, 0x0342}},
    {0x1f80, {0x1f08, 0x0399}, {0x1f88}}, {0x1f81, {0x1f09, 0x0399}, {0x1f89}},
    {0x1f82, {0x1f0a, 0x0399}, {0x1f8a}}, {0x1f83, {0x1f0b, 0x0399}, {0x1f8b}},
    {0x1f84, {0x1f0c, 0x0399}, {0x1f8c}}, {0x1f85, {0x1f0d, 0x0399}, {0x1f8d}},
    {0x1f86, {0x1f0e, 0x0399}, {0x1f8e}}, {0x1f87, {0x1f0f, 0x0399}, {0x1f8f}},
    {0x1f88, {0x1f08, 0x0399}, {0x1f88}}, {0x1f89, {0x1f09, 0x0399}, {0x1f89}},
    {0x1f8a, {0x1f0a, 0x0399}, {0x1f8a}}, {0x1f8b, {0x1f0b, 0x0399}, {0x1f8b}},
    {0x1f8c, {0x1f0c, 0x0399}, {0x1f8c}}, {0x1f8d, {0x1f0d, 0x0399}, {0x1f8d}},
    {0x1f8e, {0x1f0e, 0x0399}, {0x1f8e}}, {0x1f8f, {0x1f0f, 0x0399}, {0x1f8f}},
    {0x1f90, {0x1f28, 0x0399}, {0x1f98}}, {0x1f91, {0x1f29, 0x0399}, {0x1f99}},
    {0x1f92, {0x1f2a, 0x0399}, {0x1f9a}}, {0x1f93, {0x1f2b, 0x0399}, {0x1f9b}},
    {0x1f94, {0x1f2c, 0x0399}, {0x1f9c}}, {0x1f95, {0x1f2d, 0x0399}, {0x1f9d}},
    {0x1f96, {0x1f2e, 0x0399}, {0x1f9e}}, {0x1f97, {0x1f2f, 0x0399}, {0x1f9f}},
    {0x1f98, {0x1f28, 0x0399}, {0x1f98}}, {0x1f99, {0x1f29, 0x0399}, {0x1f99}},
    {0x1f9a, {0x1f2a, 0x0399}, {0x1f9a}}, {0x1f9b, {0x1f2b, 0x0399}, {0x1f9b}},
    {0x1f9c, {0x1f2c, 0x0399}, {0x1f9c}}, {0x1f9d, {0x1f2d, 0x0399}, {0x1f9d}},
    {0x1f9e, {0x1f2e, 0x0399}, {0x1f9e}}, {0x1f9f, {0x1f2f, 0x0399}, {0x1f9f}},
    {0x1fa0, {0x1f68, 0x0399}, {0x1fa8}}, {0x1fa1, {0x1f69, 0x0399}, {0x1fa9}},
    {0x1fa2, {0x1f6a, 0x0399}, {0x1faa}}, {0x1fa3, {0x1f6b, 0x0399}, {0x1fab}},
    {0x1fa4, {0x1f6c, 0x0399}, {0x1fac}}, {0x1fa5, {0x1f6d, 0x0399}, {0x1fad}},
    {0x1fa6, {0x1f6e, 0x0399}, {0x1fae}}, {0x1fa7, {0x1f6f, 0x0399}, {0x1faf}},
    {0x1fa8, {0x1f68, 0x0399}, {0x1fa8}}, {0x1fa9, {0x1f69, 0x0399}, {0x1fa9}},
    {0x1faa, {0x1f6a, 0x0399}, {0x1faa}}, {0x1fab, {0x1f6b, 0x0399}, {0x1fab}},
    {0x1fac, {0x1f6c, 0x0399}, {0x1fac}}, {0x1fad, {0x1f6d, 0x0399}, {0x1fad}},
    {0x1fae, {0x1f6e, 0x0399}, {0x1fae}}, {0x1faf, {0x1f6f, 0x0399}, {0x1faf}},
    {0x1fb2, {0x1fba, 0x0399}, {0x1fba, 0x0345}}, {0x1fb3, {0x0391, 0x0399}, {0x1fbc}},
    {0x1fb4, {0x0386, 0x0399}, {0x0386, 0x0345}}, {0x1fb6, {0x0391, 0x0342}, {0x0391, 0x0342}},
    {0x1fb7, {0x0391, 0x0342, 0x0399}, {0x0391, 0x0342, 0x0345}},
    {0x1fbc, {0x0391, 0x0399}, {0x1fbc}}, {0x1fc2, {0x1fca, 0x0399}, {0x1fca, 0x0345}},
    {0x1fc3, {0x0397, 0x0399}, {0x1fcc}}, {0x1fc4, {0x0389, 0x0399}, {0x0389, 0x0345}},
    {0x1fc6, {0x0397, 0x0342}, {0x0397, 0x0342}},
    {0x1fc7, {0x0397, 0x0342, 0x0399}, {0x0397, 0x0342, 0x0345}},
    {0x1fcc, {0x0397, 0x0399}, {0x1fcc}},
    {0x1fd2, {0x0399, 0x0308, 0x0300}, {0x0399, 0x0308, 0x0300}},
    {0x1fd3, {0x0399, 0x0308, 0x0301}, {0x0399, 0x0308, 0x0301}},
    {0x1fd6, {0x0399, 0x0342}, {0x0399, 0x0342}},
    {0x1fd7, {0x0399, 0x0308, 0x0342}, {0x0399, 0x0308, 0x0342}},
    {0x1fe2, {0x03a5, 0x0308, 0x0300}, {0x03a5, 0x0308, 0x0300}},
    {0x1fe3, {0x03a5, 0x0308, 0x0301}, {0x03a5, 0x0308, 0x0301}},
    {0x1fe4, {0x03a1, 0x0313}, {0x03a1, 0x0313}}, {0x1fe6, {0x03a5, 0x0342}, {0x03a5, 0x0342}},
    {0x1fe7, {0x03a5, 0x0308, 0x0342}, {0x03a5, 0x0308, 0x0342}},
    {0x1ff2, {0x1ffa, 0x0399}, {0x1ffa, 0x0345}}, {0x1ff3, {0x03a9, 0x0399}, {0x1ffc}},
    {0x1ff4, {0x038f, 0x0399}, {0x038f, 0x0345}}, {0x1ff6, {0x03a9, 0x0342}, {0x03a9, 0x0342}},
    {0x1ff7, {0x03a9, 0x0342, 0x0399}, {0x03a9, 0x0342, 0x0345}},
    {0x1ffc, {0x03a9, 0x0399}, {0x1ffc}}, {0xfb00, {0x0046, 0x0046}, {0x0046, 0x0066}},
    {0xfb01, {0x0046, 0x0049}, {0x0046, 0x0069}}, {0xfb02, {0x0046, 0x004c}, {0x0046, 0x006c}},
    {0xfb03, {0x0046, 0x0046, 0x0049}, {0x0046, 0x0066, 0x0069}},
    {0xfb04, {0x0046, 0x0046, 0x004c}, {0x0046, 0x0066, 0x006c}},
    {0xfb05, {0x0053, 0x0054}, {0x0053, 0x0074}}, {0xfb06, {0x0053, 0x0054}, {0x0053, 0x0074}},
    {0xfb13, {0x0544, 0x0546}, {0x0544, 0x0576}}, {0xfb14, {0x0544, 0x0535}, {0x0544, 0x0565}},
    {0xfb15, {0x0544, 0x053b}, {0x0544, 0x056b}}, {0xfb16, {0x054e, 0x0546}, {0x054e, 0x0576}},
    {0xfb17, {0x0544, 0x053d}, {0x0544, 0x056d}},
};
/* clang-format on */

static const special *special_of(uint32_t cp) {
  size_t lo = 0, hi = sizeof specials / sizeof *specials;
  if (cp < 0xdf) return NULL;
  while (lo < hi) {
    const size_t mid = lo + (hi - lo) / 2;
    if (specials[mid].from == cp) return &specials[mid];
    if (specials[mid].from < cp) {
      lo = mid + 1;
    } else {
      hi = mid;
    }
  }
  return NULL;
}

static utf8proc_category_t category(uint32_t cp) { return utf8proc_category((utf8proc_int32_t)cp); }

static bool is_upper(uint32_t cp) {
  if (cp < 0x80) return cp >= 'A' && cp <= 'Z';
  return utf8proc_isupper((utf8proc_int32_t)cp);
}

static bool is_lower(uint32_t cp) {
  if (cp < 0x80) return cp >= 'a' && cp <= 'z';
  return utf8proc_islower((utf8proc_int32_t)cp);
}

static bool is_title(uint32_t cp) { return category(cp) == UTF8PROC_CATEGORY_LT; }

static bool is_printable(uint32_t cp) {
  if (cp < 0x7f) return cp >= 0x20;
  const utf8proc_category_t c = category(cp);
  return !(c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CS ||
           c == UTF8PROC_CATEGORY_CO || c == UTF8PROC_CATEGORY_CN || c == UTF8PROC_CATEGORY_ZL ||
           c == UTF8PROC_CATEGORY_ZP || c == UTF8PROC_CATEGORY_ZS);
}

static bool is_alpha(uint32_t cp) {
  const utf8proc_category_t c = category(cp);
  return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT ||
         c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_LO;
}

static bool is_superscript(uint32_t cp) {
  return cp == 0xb2 || cp == 0xb3 || cp == 0xb9 || cp == 0x2070 || (cp >= 0x2074 && cp <= 0x2079) ||
         (cp >= 0x2080 && cp <= 0x2089) || (cp >= 0x2460 && cp <= 0x2468) ||
         (cp >= 0x2474 && cp <= 0x247c) || (cp >= 0x2488 && cp <= 0x2490);
}

bool wf_jj_char_is(uint32_t cp, char what) {
  const utf8proc_category_t c = category(cp);
  switch (what) {
    case 'a':
      return is_alpha(cp);
    case 'd':
      return c == UTF8PROC_CATEGORY_ND;
    case 'D':
      return c == UTF8PROC_CATEGORY_ND || is_superscript(cp);
    case 'n':
      return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
    case 'u':
      return is_upper(cp);
    case 'l':
      return is_lower(cp);
    case 't':
      return is_title(cp);
    case 'c':
      return is_upper(cp) || is_lower(cp) || is_title(cp);
    case 'p':
      return is_printable(cp);
    case 'w': /* \w of Python's re */
      return is_alpha(cp) || c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL ||
             c == UTF8PROC_CATEGORY_NO || cp == '_';
    default:
      return false;
  }
}

typedef struct caser {
  jj_run *run;
  const jj_str *s;
  jj_buf out;
} caser;

static bool put_all(caser *c, const uint32_t cps[3], bool mark) {
  for (int i = 0; i < 3 && cps[i]; i++) {
    if (!wf_jj_buf_cp(c->run, &c->out, cps[i], mark)) return false;
  }
  return true;
}

/* Greek sigma at the end of a word: a cased letter before it, none after. */
static bool is_final_sigma(const jj_str *s, size_t at) {
  bool before = false;
  uint32_t cp;
  for (size_t i = at; i > 0;) {
    do {
      i--;
    } while (i > 0 && ((unsigned char)s->at[i] & 0xc0) == 0x80);
    if (!wf_utf8_decode(s->at + i, s->n - i, &cp)) break;
    if (cp == '\'' || cp == 0xad || category(cp) == UTF8PROC_CATEGORY_MN) continue;
    before = wf_jj_char_is(cp, 'c');
    break;
  }
  if (!before) return false;
  for (size_t i = at + 2; i < s->n;) {
    const size_t n = wf_utf8_decode(s->at + i, s->n - i, &cp);
    if (!n) break;
    i += n;
    if (cp == '\'' || cp == 0xad || category(cp) == UTF8PROC_CATEGORY_MN) continue;
    return !wf_jj_char_is(cp, 'c');
  }
  return true;
}

static bool put_lower(caser *c, uint32_t cp, size_t at, bool mark) {
  if (cp < 0x80)
    cp = cp >= 'A' && cp <= 'Z' ? cp + 32 : cp;
  else if (cp == 0x130)
    return put_all(c, (const uint32_t[3]){'i', 0x307, 0}, mark);
  else if (cp == 0x3a3)
    cp = is_final_sigma(c->s, at) ? 0x3c2 : 0x3c3;
  else
    cp = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
  return wf_jj_buf_cp(c->run, &c->out, cp, mark);
}

static bool put_upper(caser *c, uint32_t cp, bool title, bool mark) {
  if (cp < 0x80) {
    return wf_jj_buf_cp(c->run, &c->out, cp >= 'a' && cp <= 'z' ? cp - 32 : cp, mark);
  }
  const special *s = special_of(cp);
  if (s) return put_all(c, title ? s->title : s->upper, mark);
  const utf8proc_int32_t i = (utf8proc_int32_t)cp;
  return wf_jj_buf_cp(c->run, &c->out,
                      (uint32_t)(title ? utf8proc_totitle(i) : utf8proc_toupper(i)), mark);
}

/* how: u upper, l lower, c capitalize, t title, s swapcase, f casefold (lower, with ss for sz),
 * T jinja's title filter (a word begins after - ( { [ < or white space) */
bool wf_jj_case(jj_run *run, const jj_str *s, char how, jj_val *result) {
  s = wf_jj_flat(run, s);
  if (!s || !wf_jj_charge(run, s->n / 8)) return false;
  caser c = {.run = run, .s = s};
  bool in_word = false;
  for (size_t i = 0; i < s->n;) {
    uint32_t cp;
    size_t n = wf_utf8_decode(s->at + i, s->n - i, &cp);
    if (!n) n = 1;
    const bool mark = s->marks ? s->marks[i] : s->content;
    bool ok;
    if (how == 'u') {
      ok = put_upper(&c, cp, false, mark);
    } else if (how == 'l') {
      ok = put_lower(&c, cp, i, mark);
    } else if (how == 'f') {
      const special *folds = cp == 0x130 ? NULL : special_of(cp);
      ok = true;
      for (int k = 0; folds && k < 3 && folds->upper[k] && ok; k++) {
        ok = put_lower(&c, folds->upper[k], i, mark);
      }
      if (!folds) ok = put_lower(&c, cp == 0x3c2 ? 0x3c3 : cp, i, mark);
    } else if (how == 's') {
      ok = is_upper(cp)   ? put_lower(&c, cp, i, mark)
           : is_lower(cp) ? put_upper(&c, cp, false, mark)
                          : wf_jj_buf_cp(run, &c.out, cp, mark);
    } else if (how == 'T') {
      const bool breaks = wf_jj_is_space(cp) || (cp < 0x80 && cp && strchr("-({[<", (int)cp));
      ok = in_word || breaks ? put_lower(&c, cp, i, mark) : put_upper(&c, cp, false, mark);
      in_word = !breaks;
    } else {
      const bool first = how == 'c' ? i == 0 : !in_word;
      ok = first ? put_upper(&c, cp, true, mark) : put_lower(&c, cp, i, mark);
      in_word = wf_jj_char_is(cp, 'c');
    }
    if (!ok) return false;
    i += n;
  }
  *result = wf_jj_buf_done(run, &c.out);
  return result->kind == JJ_STR;
}
