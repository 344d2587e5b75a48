/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

static const struct {
  wf_cpu_level level;
  const char *name;
} level_names[] = {
    {WF_CPU_REF, "ref"},
    {WF_CPU_AVX2, "avx2"},
    {WF_CPU_AVX512, "avx512"},
    {WF_CPU_AVX512VNNI, "avx512vnni"},
    {WF_CPU_AVX512BF16, "avx512bf16"},
    {WF_CPU_NEON, "neon"},
    {WF_CPU_NEON_DOTPROD, "neondot"},
};

const char *wf_cpu_level_name(wf_cpu_level level) {
  for (size_t i = 0; i < WF_ARRAY_LEN(level_names); i++) {
    if (level_names[i].level == level) return level_names[i].name;
  }
  return "unknown";
}

int wf_cpu_has(wf_cpu_level have, wf_cpu_level needs) {
  if (needs == WF_CPU_REF) return 1;
  const int have_arm = have >= WF_CPU_NEON, needs_arm = needs >= WF_CPU_NEON;
  return have_arm == needs_arm && have >= needs;
}

#if defined(__x86_64__)
static uint64_t read_xcr0(void) {
  uint32_t lo, hi;
  __asm__ __volatile__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
  return (uint64_t)hi << 32 | lo;
}

wf_cpu_level wf_cpu_best(void) {
  enum { OSXSAVE = 1 << 27, FMA = 1 << 12, F16C = 1 << 29 };                      /* leaf 1, ecx */
  enum { AVX2 = 1 << 5, BMI2 = 1 << 8, F = 1 << 16, DQ = 1 << 17, BW = 1 << 30 }; /* leaf 7, ebx */
  enum { VNNI = 1 << 11 };                                                        /* leaf 7, ecx */
  enum { BF16 = 1 << 5 };       /* leaf 7.1, eax */
  const unsigned vl = 1u << 31; /* leaf 7, ebx */
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return WF_CPU_REF;
  if (!(c & OSXSAVE) || !(c & FMA) || !(c & F16C)) return WF_CPU_REF;
  const uint64_t xcr0 = read_xcr0();
  if ((xcr0 & 0x6) != 0x6) return WF_CPU_REF; /* the OS keeps ymm */
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return WF_CPU_REF;
  if (!(b & AVX2) || !(b & BMI2)) return WF_CPU_REF;
  const unsigned all512 = (unsigned)F | (unsigned)DQ | (unsigned)BW | vl;
  if ((b & all512) != all512 || (xcr0 & 0xe6) != 0xe6) return WF_CPU_AVX2; /* the OS keeps zmm */
  if (!(c & VNNI)) return WF_CPU_AVX512;
  if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & BF16)) return WF_CPU_AVX512BF16;
  return WF_CPU_AVX512VNNI;
}
#elif defined(__aarch64__)
wf_cpu_level wf_cpu_best(void) {
  return getauxval(AT_HWCAP) & HWCAP_ASIMDDP ? WF_CPU_NEON_DOTPROD : WF_CPU_NEON;
}
#else
wf_cpu_level wf_cpu_best(void) { return WF_CPU_REF; }
#endif

weft_status wf_cpu_level_get(wf_cpu_level *level, weft_error *err) {
  /* Read each time it is asked (a plan asks once): no cached global to go stale. */
  const char *forced = getenv("WEFT_CPU");
  const wf_cpu_level best = wf_cpu_best();
  *level = best;
  if (!forced || !forced[0]) return WEFT_OK;
  for (size_t i = 0; i < WF_ARRAY_LEN(level_names); i++) {
    if (strcmp(forced, level_names[i].name) != 0) continue;
    if (!wf_cpu_has(best, level_names[i].level)) {
      return wf_fail(err, WEFT_INVALID_ARGUMENT, "unset WEFT_CPU or name a lower level",
                     "WEFT_CPU=%s, but this CPU supports at most '%s'", forced,
                     wf_cpu_level_name(best));
    }
    *level = level_names[i].level;
    return WEFT_OK;
  }
  return wf_fail(err, WEFT_INVALID_ARGUMENT,
                 "use ref, avx2, avx512, avx512vnni, avx512bf16, neon or neondot",
                 "WEFT_CPU=%s is no CPU level", forced);
}

static atomic_ullong next_owner_token = 1;
static WF_THREAD_LOCAL uint64_t own_token;

uint64_t wf_owner_mint(void) {
  /* relaxed: the token only has to be unique */
  return atomic_fetch_add_explicit(&next_owner_token, 1, memory_order_relaxed);
}

uint64_t wf_owner_token(void) {
  if (!own_token) own_token = wf_owner_mint();
  return own_token;
}

uint64_t wf_owner_adopt(uint64_t token) {
  const uint64_t former = wf_owner_token();
  own_token = token;
  return former;
}

static pthread_mutex_t ort_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the one below */
static wf_process_ort ort_process;

wf_process_ort *wf_process_ort_lock(void) WF_NO_TSA {
  pthread_mutex_lock(&ort_lock);
  return &ort_process;
}

void wf_process_ort_unlock(void) WF_NO_TSA { pthread_mutex_unlock(&ort_lock); }

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the two below; a leaf lock */
static wf_log_fn *log_fn;
static void *log_user;

void wf_log_set(wf_log_fn *fn, void *user) {
  pthread_mutex_lock(&log_lock);
  log_fn = fn;
  log_user = user;
  pthread_mutex_unlock(&log_lock);
}

void wf_log(int level, const char *fmt, ...) {
  char line[1024];
  pthread_mutex_lock(&log_lock);
  wf_log_fn *fn = log_fn;
  void *user = log_user;
  pthread_mutex_unlock(&log_lock);
  if (!fn) return;
  va_list args;
  va_start(args, fmt);
  vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  fn(user, level, line);
}

uint64_t wf_clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}
