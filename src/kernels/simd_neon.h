/* SPDX-License-Identifier: Apache-2.0 */
/* The AArch64 vector types and intrinsics, for *_neon.c and *_neondot.c only. */
#ifndef WF_KERNELS_SIMD_NEON_H
#define WF_KERNELS_SIMD_NEON_H

#include <stdint.h>
#include <string.h>

#ifdef __aarch64__
#include <arm_neon.h>
#endif

#endif
