/* SPDX-License-Identifier: Apache-2.0 */
/* --profile FILE of the commands that run models. */
#include "base/file.h"
#include "cli/cli.h"

weft_status cli_profile_begin(const char *file, weft_profile **profile, weft_model_options *options,
                              weft_error *err) {
  if (!file) return WEFT_OK;
  WF_RETURN_IF_ERROR(weft_profile_create(profile, err));
  options->profile = *profile;
  return WEFT_OK;
}

int cli_profile_end(const char *file, weft_profile *profile, int code) {
  weft_error err = {0};
  char *json = NULL, *table = NULL;
  if (!profile) return code;
  weft_status st = weft_profile_trace(profile, &json, &err);
  if (st == WEFT_OK) st = weft_profile_table(profile, &table, &err);
  if (st == WEFT_OK) st = wf_file_write(file, json, wf_str_of(json).n, false, &err);
  if (st == WEFT_OK) {
    cli_err("%s", table);
  } else if (code == 0) {
    code = cli_fail(&err);
  }
  weft_free(json);
  weft_free(table);
  weft_profile_destroy(profile);
  return code;
}
