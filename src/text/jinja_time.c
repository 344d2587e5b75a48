/* SPDX-License-Identifier: Apache-2.0 */
/* strftime_now: a civil time shown by C's codes, in English whatever the locale. */
#include <stdio.h>
#include <time.h>

#include "text/jinja.h"

typedef struct civil {
  int year, month, day, hour, minute, second, weekday, yearday;
} civil;

static void civil_of(int64_t seconds, civil *c) {
  int64_t days = seconds / 86400, rest = seconds % 86400;
  if (rest < 0) {
    rest += 86400;
    days--;
  }
  c->hour = (int)(rest / 3600);
  c->minute = (int)(rest / 60 % 60);
  c->second = (int)(rest % 60);
  c->weekday = (int)(((days + 4) % 7 + 7) % 7);
  /* days since 1970 to year, month, day: shift the year to begin in March */
  const int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
  const int64_t doe = z - era * 146097;
  const int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  const int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
  c->day = (int)(doy - (153 * mp + 2) / 5 + 1);
  c->month = (int)(mp < 10 ? mp + 3 : mp - 9);
  c->year = (int)(yoe + era * 400 + (c->month <= 2));
  static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  const bool leap = (c->year % 4 == 0 && c->year % 100 != 0) || c->year % 400 == 0;
  c->yearday = before[c->month - 1] + c->day + (leap && c->month > 2);
}

/* Codes that show a number; false for another code. */
static bool number_code(const civil *c, char code, int *number, int *width, char *pad) {
  const int hour12 = c->hour % 12 ? c->hour % 12 : 12, monday = (c->weekday + 6) % 7;
  const struct {
    char code, pad;
    int width, number;
  } codes[] = {{'C', '0', 2, c->year / 100},
               {'y', '0', 2, c->year % 100},
               {'m', '0', 2, c->month},
               {'d', '0', 2, c->day},
               {'e', ' ', 2, c->day},
               {'H', '0', 2, c->hour},
               {'k', ' ', 2, c->hour},
               {'I', '0', 2, hour12},
               {'l', ' ', 2, hour12},
               {'M', '0', 2, c->minute},
               {'S', '0', 2, c->second},
               {'j', '0', 3, c->yearday},
               {'f', '0', 6, 0},
               {'u', '0', 1, c->weekday ? c->weekday : 7},
               {'w', '0', 1, c->weekday},
               {'U', '0', 2, (c->yearday + 6 - c->weekday) / 7},
               {'W', '0', 2, (c->yearday + 6 - monday) / 7}};
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    if (codes[i].code != code) continue;
    *number = codes[i].number;
    *width = codes[i].width;
    *pad = codes[i].pad;
    return true;
  }
  return false;
}

/* Codes that show a text or several numbers; an unknown one shows itself. */
static void text_code(const civil *c, char code, char flag, char *text, size_t n) {
  static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                     "Thursday", "Friday", "Saturday"};
  static const char *const months[] = {"January",   "February", "March",    "April",
                                       "May",       "June",     "July",     "August",
                                       "September", "October",  "November", "December"};
  const char *month = months[c->month - 1], *day = days[c->weekday];
  const int hour12 = c->hour % 12 ? c->hour % 12 : 12;
  const char *half = c->hour < 12 ? "AM" : "PM";
  text[0] = '\0';
  if (code == 'Y') snprintf(text, n, "%d", c->year);
  if (code == 'B') snprintf(text, n, "%s", month);
  if (code == 'b' || code == 'h') snprintf(text, n, "%.3s", month);
  if (code == 'A') snprintf(text, n, "%s", day);
  if (code == 'a') snprintf(text, n, "%.3s", day);
  if (code == 'p') snprintf(text, n, "%s", half);
  if (code == 'P') snprintf(text, n, "%s", c->hour < 12 ? "am" : "pm");
  if (code == 'F') snprintf(text, n, "%04d-%02d-%02d", c->year, c->month, c->day);
  if (code == 'T' || code == 'X') {
    snprintf(text, n, "%02d:%02d:%02d", c->hour, c->minute, c->second);
  }
  if (code == 'R') snprintf(text, n, "%02d:%02d", c->hour, c->minute);
  if (code == 'D' || code == 'x') {
    snprintf(text, n, "%02d/%02d/%02d", c->month, c->day, c->year % 100);
  }
  if (code == 'r') snprintf(text, n, "%02d:%02d:%02d %s", hour12, c->minute, c->second, half);
  if (code == 'c') {
    snprintf(text, n, "%.3s %.3s %2d %02d:%02d:%02d %d", day, month, c->day, c->hour, c->minute,
             c->second, c->year);
  }
  if (code == 'n') snprintf(text, n, "\n");
  if (code == 't') snprintf(text, n, "\t");
  if (code == '%') snprintf(text, n, "%%");
  /* z and Z stay empty: a naive time has no zone */
  if (!code || !strchr("YBbhAapPFTXRDxrcnt%zZ", code)) {
    snprintf(text, n, flag ? "%%%c%c" : "%%%c", flag ? flag : code, code);
  }
}

static bool put_time(jj_run *run, jj_buf *b, const civil *c, char code, char flag, bool mark) {
  char text[96], pad = '0';
  int number, width;
  if (number_code(c, code, &number, &width, &pad)) {
    if (flag == '-') width = 1;
    if (flag == '_') pad = ' ';
    if (flag == '0') pad = '0';
    snprintf(text, sizeof text, pad == ' ' ? "%*d" : "%0*d", width, number);
  } else {
    text_code(c, code, flag, text, sizeof text);
  }
  for (char *p = text; flag == '^' && *p; p++) *p = *p >= 'a' && *p <= 'z' ? (char)(*p - 32) : *p;
  return wf_jj_buf_add(run, b, text, strlen(text), mark);
}

bool wf_jj_strftime(jj_run *run, const jj_str *format, jj_val *result) {
  int64_t seconds = run->options->now_seconds;
  if (!run->options->has_now) {
    const time_t now = time(NULL);
    struct tm tm;
    if (!localtime_r(&now, &tm)) return wf_jj_raise(run, "the local time is not known");
    seconds = (int64_t)now + tm.tm_gmtoff;
  }
  civil c;
  civil_of(seconds, &c);
  jj_buf b = {0};
  const jj_str *s = wf_jj_flat(run, format);
  if (!s) return false;
  for (size_t i = 0; i < s->n;) {
    const bool mark = s->marks ? s->marks[i] : s->content;
    if (s->at[i] != '%' || i + 1 >= s->n) {
      if (!wf_jj_buf_add_range(run, &b, s, i, i + 1)) return false;
      i++;
      continue;
    }
    char flag = 0;
    i++;
    if (i + 1 < s->n && s->at[i] && strchr("-_0^", s->at[i])) flag = s->at[i++];
    if (!put_time(run, &b, &c, s->at[i], flag, mark)) return false;
    i++;
  }
  *result = wf_jj_buf_done(run, &b);
  return result->kind == JJ_STR;
}
