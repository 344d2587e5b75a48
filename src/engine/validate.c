/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with a package, told to people and programs. */
#include <string.h>

#include "base/file.h"
#include "engine/engine.h"
#include "package/metadata.h"

/* A folder without a metadata document, or a file of another kind: the reader of that layout says
 * the first thing that is wrong with it. */
static weft_status validate_other(const char *path, const weft_validate_options *o, bool json,
                                  wf_buf *b, weft_error *err) {
  wf_package *p = NULL;
  const wf_package_options options = {.trust_links = o->trust_links != 0};
  const weft_status st = wf_package_open(&p, path, &options, err);
  if (st) return st;
  if (json) wf_buf_puts(b, "{\"document\": ");
  if (json)
    wf_buf_add_json_string(b, wf_str_of(path), false);
  else
    wf_buf_puts(b, path);
  wf_buf_puts(b, json ? ", \"valid\": true, \"errors\": 0, \"warnings\": 0, \"problems\": []}\n"
                      : ": valid: 0 errors, 0 warnings\n");
  wf_package_close(p);
  return WEFT_OK;
}

static bool has_other_layout(const char *path) {
  if (!wf_path_is_dir(path)) return false;
  char *document = wf_metadata_find_document(path);
  const bool has_none = document == NULL;
  wf_free(document);
  return has_none;
}

void weft_validate_options_init(weft_validate_options *o, size_t struct_size) {
  memset(o, 0, struct_size);
  o->struct_size = struct_size;
}

weft_status weft_validate(const char *path, const weft_validate_options *options,
                          const char *format, char **text, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_metadata_package *p = NULL;
  wf_buf b = {0};
  weft_validate_options o = {.struct_size = sizeof o};
  *text = NULL;
  if (options) {
    const size_t n = options->struct_size;
    memcpy(&o, options, n && n < sizeof o ? n : sizeof o);
  }
  const bool json = strcmp(format, "json") == 0;
  if (!json && strcmp(format, "text") != 0) {
    return wf_fail(err, WEFT_INVALID_ARGUMENT, "use text or json", "'%s' is no format", format);
  }
  if (has_other_layout(path)) {
    st = validate_other(path, &o, json, &b, err);
  } else {
    const wf_metadata_options how = {.is_strict = o.strict != 0, .trust_links = o.trust_links != 0};
    st = wf_metadata_open(&p, path, &how, err);
    if (p) wf_problems_print(wf_metadata_problems(p), wf_metadata_document(p), json, &b);
  }
  if (p || st == WEFT_OK) {
    *text = wf_buf_take(&b);
    if (!*text) st = wf_fail_memory(err, 0, "text");
  }
  wf_metadata_close(p);
  wf_buf_deinit(&b);
  return st;
}
