/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the metadata readers of this folder only. */
#ifndef WF_PACKAGE_READER_H
#define WF_PACKAGE_READER_H

#include <jansson.h>

#include "onnx/onnx.h"
#include "package/package.h"

/* Reads a JSON document of the package into a tree; PARSE names file, line and column. *result NULL
 * without error when the file is absent and `is_optional`. Duplicate members are refused. */
weft_status wf_package_json(const wf_package *p, const wf_package_options *o, const char *name,
                            bool is_optional, json_t **result, weft_error *err) WF_NODISCARD;

/* Member accessors that check the type: absent or null gives the fallback, another type
 * PACKAGE_INVALID naming the document and the member. */
weft_status wf_json_get_int(const json_t *object, const char *doc, const char *key, int64_t lo,
                            int64_t hi, int64_t fallback, int64_t *result,
                            weft_error *err) WF_NODISCARD;
weft_status wf_json_get_number(const json_t *object, const char *doc, const char *key,
                               double fallback, double *result, weft_error *err) WF_NODISCARD;
weft_status wf_json_get_string(wf_package *p, const json_t *object, const char *doc,
                               const char *key, const char *fallback, const char **result,
                               weft_error *err) WF_NODISCARD;
/* A token id or a list of them. */
weft_status wf_json_get_ids(wf_package *p, const json_t *object, const char *doc, const char *key,
                            const int32_t **ids, size_t *n, weft_error *err) WF_NODISCARD;

/* Tokenizer files, special token texts, chat template: the same in both layouts. */
weft_status wf_package_read_text(wf_package *p, const wf_package_options *o,
                                 weft_error *err) WF_NODISCARD;
/* generation_config.json, where it is present. */
weft_status wf_package_read_generation(wf_package *p, const wf_package_options *o,
                                       weft_error *err) WF_NODISCARD;

/* Expands "past.%d.key" for a layer; the pattern must hold exactly one %d and no other %. */
weft_status wf_package_expand(wf_package *p, const char *doc, const char *pattern, size_t layer,
                              wf_str *result, weft_error *err) WF_NODISCARD;
/* Is there an input of that name? */
bool wf_package_has_input(const wf_onnx_model *m, wf_str name);
/* Checks the ports against the graph: each named port exists, states have rank 4; symbolic head
 * sizes and head counts get the given numbers (0: not stated). */
weft_status wf_package_bind_ports(wf_package *p, const wf_onnx_model *m, int64_t n_kv_heads,
                                  int64_t head_size, weft_error *err) WF_NODISCARD;

weft_status wf_package_read_genai(wf_package *p, const wf_package_options *o,
                                  weft_error *err) WF_NODISCARD;
weft_status wf_package_read_huggingface(wf_package *p, const wf_package_options *o,
                                        weft_error *err) WF_NODISCARD;

/* Checks that `relative` lies in the package and makes it p->model: by the package's own name for
 * it, links not followed, because external data lies beside that name and not beside what a link of
 * a hub cache leads to. */
weft_status wf_package_set_model(wf_package *p, const wf_package_options *o, const char *relative,
                                 weft_error *err) WF_NODISCARD;

#endif
