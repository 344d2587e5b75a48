/* SPDX-License-Identifier: Apache-2.0 */
/* Attention for AArch64. */
#if defined(__aarch64__)

#include "kernels/vec_neon.h"
/* the words come first: the body is written in them */
#define WF_ATTENTION_NORMS wf_elementwise_neon
#include "kernels/attention_body.h"

const wf_attention_variant wf_attention_neon = WF_ATTENTION_TABLE("attention_neon", WF_CPU_NEON);

#endif
