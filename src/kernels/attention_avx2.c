/* SPDX-License-Identifier: Apache-2.0 */
/* Attention for AVX2. */
#if defined(__x86_64__)

#include "kernels/vec_avx2.h"
/* the words come first: the body is written in them */
#define WF_ATTENTION_NORMS wf_elementwise_avx2
#include "kernels/attention_body.h"

const wf_attention_variant wf_attention_avx2 = WF_ATTENTION_TABLE("attention_avx2", WF_CPU_AVX2);

#endif
