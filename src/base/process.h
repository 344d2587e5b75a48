/* SPDX-License-Identifier: Apache-2.0 */
/* All mutable state of the process that weft has: nothing else in the library keeps a writable
 * global, and a test lists the library's writable symbols to hold that. */
#ifndef WF_PROCESS_H
#define WF_PROCESS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Usable groups of CPU features, each including those a kernel of that level may use. */
typedef enum wf_cpu_level {
  WF_CPU_REF = 0,          /* plain C */
  WF_CPU_AVX2 = 1,         /* AVX2, FMA, F16C, BMI2 */
  WF_CPU_AVX512 = 2,       /* F, BW, DQ, VL */
  WF_CPU_AVX512VNNI = 3,   /* + VNNI */
  WF_CPU_AVX512BF16 = 4,   /* + BF16 */
  WF_CPU_NEON = 16,        /* AArch64 base */
  WF_CPU_NEON_DOTPROD = 17 /* + dot product */
} wf_cpu_level;

/* "ref", "avx2", "avx512", "avx512vnni", "avx512bf16", "neon", "neondot". Static storage. */
const char *wf_cpu_level_name(wf_cpu_level level);
/* What this CPU and its OS support, read once (xgetbv included). Thread: any. */
wf_cpu_level wf_cpu_best(void);
/* The level in force: the best, or what WEFT_CPU names when it was first asked for.
 * Errors: INVALID_ARGUMENT for a WEFT_CPU that is unknown or that this CPU lacks. Thread: any. */
weft_status wf_cpu_level_get(wf_cpu_level *level, weft_error *err) WF_NODISCARD;
/* True when code of level `needs` may run where `have` is in force. */
int wf_cpu_has(wf_cpu_level have, wf_cpu_level needs);

/* The calling thread's owner token: never 0, never reused, also after the thread has ended.
 * Thread: any. */
uint64_t wf_owner_token(void);

/* A fresh owner token, for what no thread of its own owns: whoever holds the lock of such a thing
 * adopts its token meanwhile and gives the former one (the result) back after. Thread: any. */
uint64_t wf_owner_mint(void);
uint64_t wf_owner_adopt(uint64_t token);

/* ONNX Runtime, of which a process has one: the library (never closed) and its environment. Both
 * belong to src/backend/ort; they are here because all mutable state is. A leaf lock but for the
 * log's. */
typedef struct wf_process_ort {
  void *library, *environment;
  size_t environment_refs;
  void *extra; /* what lives and dies with the environment */
} wf_process_ort;
wf_process_ort *wf_process_ort_lock(void);
void wf_process_ort_unlock(void);

/* Log lines go to one callback, none by default. Levels: 0 error .. 3 debug. The callback runs on
 * whatever thread logs and must not call back into weft. */
typedef void wf_log_fn(void *user, int level, const char *line);
void wf_log_set(wf_log_fn *fn, void *user);
void wf_log(int level, const char *fmt, ...) WF_PRINTF(2, 3);

/* Monotonic time in nanoseconds. */
uint64_t wf_clock_ns(void);

#endif
