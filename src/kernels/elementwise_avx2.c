/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise kernels for AVX2. */
#if defined(__x86_64__)

#include "kernels/vec_avx2.h"
/* the words come first: the body is written in them */
#include "kernels/elementwise_body.h"

const wf_elementwise_table wf_elementwise_avx2 = WF_ELEMENTWISE_TABLE;

#endif
