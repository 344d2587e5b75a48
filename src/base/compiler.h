/* SPDX-License-Identifier: Apache-2.0 */
/* The only file with compiler extensions. Everything here has a plain meaning without them. */
#ifndef WF_COMPILER_H
#define WF_COMPILER_H

#if defined(__GNUC__) || defined(__clang__)
#define WF_PRINTF(fmt_at, args_at) __attribute__((format(printf, fmt_at, args_at)))
#define WF_NODISCARD __attribute__((warn_unused_result))
#define WF_UNUSED __attribute__((unused))
#define WF_NOINLINE __attribute__((noinline))
#define WF_INLINE static inline __attribute__((always_inline))
#define WF_LIKELY(x) __builtin_expect(!!(x), 1)
#define WF_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define WF_COLD __attribute__((cold))
#define WF_ALIGNED(n) __attribute__((aligned(n)))
#define WF_PREFETCH(p) __builtin_prefetch(p)
#define WF_THREAD_LOCAL _Thread_local
/* Before a loop with a constant count whose arrays must live in registers. */
#ifdef __clang__
#define WF_UNROLL_ALL _Pragma("clang loop unroll(full)")
#else
#define WF_UNROLL_ALL _Pragma("GCC unroll 16")
#endif
/* The vector v has its value here: gcc would otherwise regroup integer sums into trees that need
 * more registers than there are. No instruction comes of it. */
#if defined(__AVX512F__)
#define WF_PIN(v) __asm__("" : "+v"(v))
#elif defined(__x86_64__)
#define WF_PIN(v) __asm__("" : "+x"(v))
#elif defined(__aarch64__)
#define WF_PIN(v) __asm__("" : "+w"(v))
#else
#define WF_PIN(v) ((void)(v))
#endif
#else
#define WF_PRINTF(fmt_at, args_at)
#define WF_NODISCARD
#define WF_UNUSED
#define WF_NOINLINE
#define WF_INLINE static inline
#define WF_LIKELY(x) (x)
#define WF_UNLIKELY(x) (x)
#define WF_COLD
#define WF_ALIGNED(n)
#define WF_PREFETCH(p) ((void)(p))
#define WF_THREAD_LOCAL _Thread_local
#define WF_UNROLL_ALL
#define WF_PIN(v) ((void)(v))
#endif

/* AddressSanitizer's eyes on memory that an allocator of weft's own hands out piecemeal. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WF_HAS_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define WF_HAS_ASAN 1
#endif
#ifdef WF_HAS_ASAN
#include <sanitizer/asan_interface.h>
#define WF_HIDE_MEMORY(p, n) __asan_poison_memory_region(p, n)
#define WF_SHOW_MEMORY(p, n) __asan_unpoison_memory_region(p, n)
#else
#define WF_HIDE_MEMORY(p, n) ((void)(p), (void)(n))
#define WF_SHOW_MEMORY(p, n) ((void)(p), (void)(n))
#endif

/* clang's thread-safety analysis: which role or lock a function needs and a field is guarded by.
 * gcc has no such analysis, so the words vanish there. */
#if defined(__clang__)
#define WF_TSA(x) __attribute__((x))
#else
#define WF_TSA(x)
#endif
#define WF_CAPABILITY(name) WF_TSA(capability(name))
#define WF_GUARDED_BY(x) WF_TSA(guarded_by(x))
#define WF_PT_GUARDED_BY(x) WF_TSA(pt_guarded_by(x))
#define WF_REQUIRES(...) WF_TSA(requires_capability(__VA_ARGS__))
#define WF_ACQUIRE(...) WF_TSA(acquire_capability(__VA_ARGS__))
#define WF_RELEASE(...) WF_TSA(release_capability(__VA_ARGS__))
#define WF_EXCLUDES(...) WF_TSA(locks_excluded(__VA_ARGS__))
#define WF_NO_TSA WF_TSA(no_thread_safety_analysis)

#define WF_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
