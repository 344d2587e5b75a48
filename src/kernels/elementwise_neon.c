/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise kernels for AArch64. */
#if defined(__aarch64__)

#include "kernels/vec_neon.h"
/* the words come first: the body is written in them */
#include "kernels/elementwise_body.h"

const wf_elementwise_table wf_elementwise_neon = WF_ELEMENTWISE_TABLE;

#endif
