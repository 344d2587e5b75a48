/* SPDX-License-Identifier: Apache-2.0 */
#include "workflow/ids.h"

weft_status wf_capture_mint_init(wf_capture_mint *m, int32_t island, weft_error *err) {
  if (island < 0 || island > INT32_MAX / WF_CAPTURE_IDS_AN_ISLAND - 1) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, NULL, "an execution island numbered %d",
                   (int)island);
  }
  *m = (wf_capture_mint){island, 0};
  return WEFT_OK;
}

weft_status wf_capture_id_next(wf_capture_mint *m, wf_capture_id *result, weft_error *err) {
  if (m->used >= WF_CAPTURE_IDS_AN_ISLAND) {
    return wf_fail(err, WEFT_LIMIT, "run it without graph capture",
                   "execution island %d has captured %d shapes, which is all it can name",
                   (int)m->island, (int)m->used);
  }
  *result = (wf_capture_id){m->island * WF_CAPTURE_IDS_AN_ISLAND + m->used++};
  return WEFT_OK;
}
