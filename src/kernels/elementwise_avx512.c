/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise kernels for AVX-512. */
#if defined(__x86_64__)

#include "kernels/vec_avx512.h"
/* the words come first: the body is written in them */
#include "kernels/elementwise_body.h"

const wf_elementwise_table WF_KERNEL(wf_elementwise_avx512) = WF_ELEMENTWISE_TABLE;

#endif
