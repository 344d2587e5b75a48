/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of the public interface and the views that backends take and give. Thread: any. */
#ifndef WF_ENGINE_TENSORS_H
#define WF_ENGINE_TENSORS_H

#include "backend/backend.h"
#include "weft/weft.h"

/* Fills *to as far as its struct_size goes: a caller built against an older header has less. */
void wf_tensor_give(weft_tensor *to, const weft_tensor *full);
/* What is computed, under `name`; false when there is nothing or it has no size. Owner: t's data
 * and dims stay the view's. */
bool wf_tensor_of_view(const wf_view *v, const char *name, weft_tensor *t);
/* The view of a tensor that the caller gives, whose bytes it only reads.
 * Errors: INVALID_ARGUMENT without a name, or where its bytes, type and shape do not fit. */
weft_status wf_tensor_view(const weft_tensor *t, wf_view *v, weft_error *err) WF_NODISCARD;

#endif
