/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/session.h"
weft_status wf_interp_open(wf_backend_session *s, weft_error *err) { (void)s; return wf_fail(err, WEFT_UNSUPPORTED, "", "no interpreter"); }
weft_status wf_interp_run(wf_backend_session *s, const wf_row *row, weft_error *err) { (void)s;(void)row; return wf_fail(err, WEFT_UNSUPPORTED, "", "no interpreter"); }
void wf_interp_close(wf_backend_session *s) { (void)s; }
