/* SPDX-License-Identifier: Apache-2.0 */
/* Attention for AVX-512. */
#if defined(__x86_64__)

#include "kernels/vec_avx512.h"
/* the words come first: the body is written in them */
#define WF_ATTENTION_NORMS WF_KERNEL(wf_elementwise_avx512)
#include "kernels/attention_body.h"

const wf_attention_variant WF_KERNEL(wf_attention_avx512) = WF_ATTENTION_TABLE("attention_avx512",
                                                                               WF_CPU_AVX512);

#endif
