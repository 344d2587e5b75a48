/* SPDX-License-Identifier: Apache-2.0 */
/* Loading a package by phases: parse, schema, structure, artifacts, admission. A phase tells all
 * that it finds; the next needs it to have found no error. */
#include "package/metadata.h"

#include <stdlib.h>

#include "base/file.h"
#include "package/check.h"
#include "package/schema.h"

struct wf_metadata_package {
  wf_arena *arena;
  wf_problems problems;
  const wf_metadata *model; /* NULL after a refusal before there was one */
  const char *document;
};

/* ---- lookups ----------------------------------------------------------------------------------
 */

const void *wf_meta_find_(const void *at, size_t n, size_t size, const char *name) {
  size_t lo = 0, hi = n;
  while (lo < hi) {
    const size_t mid = lo + (hi - lo) / 2;
    const void *entry = (const char *)at + mid * size;
    const int order = strcmp(((const wf_meta_head *)entry)->name, name);
    if (order == 0) return entry;
    if (order < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  return NULL;
}

const char *wf_meta_pair_get(const wf_meta_pairs *pairs, const char *name) {
  const wf_meta_pair *p = wf_meta_find(pairs, name);
  return p ? p->text : NULL;
}

bool wf_meta_texts_has(const wf_meta_texts *texts, const char *text) {
  size_t lo = 0, hi = texts->n;
  while (lo < hi) {
    const size_t mid = lo + (hi - lo) / 2;
    const int order = strcmp(texts->at[mid], text);
    if (order == 0) return true;
    if (order < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  return false;
}

bool wf_meta_list_has(const wf_meta_texts *texts, const char *text) {
  for (size_t i = 0; i < texts->n; i++) {
    if (strcmp(texts->at[i], text) == 0) return true;
  }
  return false;
}

/* ---- phases -----------------------------------------------------------------------------------
 */

static void check_version(wf_rules *c) {
  const char *v = c->m->schema_version;
  if (!v || strcmp(v, "v1") == 0 || strcmp(v, "1") == 0 || strcmp(v, "1.0") == 0) return;
  wf_check_fail(c, WF_PROBLEM_VERSION, "DOC-03", c->m->head.at, "schema_version", "write v1",
                "schema_version '%.40s' is unknown", v);
}

/* Without a workflow a document can only be a bare decoder's, told by its model facts (§23.1, 7).
 */
static void check_pipeline(wf_rules *c) {
  if (c->m->pipeline || c->m->model) return;
  wf_check_fail(c, WF_PROBLEM_SCHEMA, "DOC-01", c->m->head.at, NULL, "add pipeline.workflow",
                "the document has no pipeline");
}

/* Rules compare some things pair by pair; beyond these counts that would take a hostile document
 * minutes, and no package comes near them. */
static bool check_counts(wf_rules *c) {
  enum { MAX_COMPARED = 4096 };
  const wf_meta_serving *s = c->w->serving;
  const wf_meta_adapters *a = c->m->adapters;
  const struct {
    const char *what;
    size_t n;
    const wf_meta_at *at;
  } counts[] = {{"components", c->w->components.n, c->w->head.at},
                {"state groups", s && s->state_service ? s->state_service->groups.n : 0,
                 s ? s->head.at : NULL},
                {"adapter targets", a ? a->target_manifest->targets.n : 0, a ? a->head.at : NULL},
                {"adapters", a ? a->artifacts.n : 0, a ? a->head.at : NULL}};
  bool fits = true;
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    if (counts[i].n <= MAX_COMPARED) continue;
    fits = false;
    wf_check_fail(c, WF_PROBLEM_CAPABILITY, "", counts[i].at, NULL, "split the package",
                  "%zu %s are more than the %d that weft takes", counts[i].n, counts[i].what,
                  MAX_COMPARED);
  }
  return fits;
}

static void check_structure(wf_rules *c) {
  if (c->w && !check_counts(c)) return;
  if (c->w) {
    wf_check_ports(c);
    wf_check_components(c);
    wf_check_state(c);
    wf_check_groups(c);
    wf_check_steps(c);
    wf_check_programs(c);
    wf_check_lora(c);
    wf_check_speculative(c);
  }
  wf_check_sections(c);
}

/* Everything after the tree. Errors: OUT_OF_MEMORY alone; what is wrong is in the problems. */
static weft_status validate(wf_metadata_package *p, const wf_doc_node *tree, const char *root,
                            const wf_metadata_options *o, weft_error *err) {
  const void *read = NULL;
  WF_RETURN_IF_ERROR(wf_schema_read(&wf_schema_root, tree, p->arena, &p->problems, &read, err));
  wf_metadata *m = wf_unconst(read); /* ours until it is sealed */
  wf_rules c = {.m = m, .problems = &p->problems, .arena = p->arena};
  check_version(&c);
  check_pipeline(&c);
  if (p->problems.n_errors) return WEFT_OK;
  m->root = root;
  m->document = p->document;
  m->tree = tree;
  if (!m->schema_version) m->schema_version = "v1";
  c.w = m->pipeline ? m->pipeline->workflow : NULL;
  check_structure(&c);
  if (!c.out_of_memory && !p->problems.n_errors && c.w && !o->without_artifacts && root) {
    wf_check_artifacts(&c, o->trust_links);
    /* once more with the graphs' own signatures for ports that the document leaves to them */
    if (!c.out_of_memory && !p->problems.n_errors) wf_check_steps(&c);
  }
  if (c.out_of_memory || p->problems.failed) return wf_fail_memory(err, 0, "a package's metadata");
  if (!wf_problems_block(&p->problems)) p->model = m;
  return WEFT_OK;
}

static weft_status create(wf_metadata_package **result, const wf_metadata_options *o,
                          weft_error *err) {
  wf_metadata_package *p = wf_zalloc(sizeof *p);
  if (p) p->arena = wf_arena_create();
  if (!p || !p->arena) {
    wf_metadata_close(p);
    return wf_fail_memory(err, sizeof *p, "a package");
  }
  wf_problems_init(&p->problems, p->arena, o->is_strict);
  *result = p;
  return WEFT_OK;
}

static weft_status load(wf_metadata_package *p, wf_str text, wf_syntax syntax, const char *root,
                        const wf_metadata_options *o, weft_error *err) {
  const wf_doc_node *tree = NULL;
  weft_status st = wf_document_read(&tree, p->arena, text, syntax, &p->problems, err);
  if (st == WEFT_OK) st = validate(p, tree, root, o, err);
  if (st == WEFT_OUT_OF_MEMORY || p->problems.failed)
    return st ? st : wf_fail_memory(err, 0, "the list of problems");
  wf_problems_sort(&p->problems);
  st = wf_problems_block(&p->problems)
           ? wf_problems_fail(&p->problems, wf_path_base(p->document), err)
           : WEFT_OK;
  const weft_status sealed = wf_arena_seal(p->arena, err);
  return st ? st : sealed;
}

/* A refused package stays the caller's, for its problems; without memory there is none. */
static weft_status hand_over(wf_metadata_package **result, wf_metadata_package *p, weft_status st) {
  if (st == WEFT_OUT_OF_MEMORY || (st && !p->problems.list.n)) {
    wf_metadata_close(p);
    p = NULL;
  }
  *result = p;
  return st;
}

weft_status wf_metadata_read(wf_metadata_package **result, wf_str text, wf_syntax syntax,
                             const wf_metadata_options *options, weft_error *err) {
  wf_metadata_package *p = NULL;
  *result = NULL;
  WF_RETURN_IF_ERROR(create(&p, options, err));
  p->document = "the document";
  return hand_over(result, p, load(p, text, syntax, NULL, options, err));
}

char *wf_metadata_find_document(const char *dir) {
  static const char *const names[] = {"inference_metadata.yaml", "inference_metadata.yml",
                                      "inference_metadata.json"};
  for (size_t i = 0; i < 3; i++) {
    char *path = wf_path_join(dir, names[i]);
    if (!path || wf_path_exists(path)) return path;
    wf_free(path);
  }
  return NULL;
}

static wf_syntax syntax_of(const char *path) {
  const wf_str s = wf_str_of(path);
  if (wf_str_ends(s, WF_STR(".yaml")) || wf_str_ends(s, WF_STR(".yml"))) return WF_SYNTAX_YAML;
  return wf_str_ends(s, WF_STR(".json")) ? WF_SYNTAX_JSON : WF_SYNTAX_ANY;
}

weft_status wf_metadata_open(wf_metadata_package **result, const char *path,
                             const wf_metadata_options *options, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_metadata_package *p = NULL;
  char *document = NULL, *dir = NULL, *root = NULL, *text = NULL;
  size_t n = 0;
  *result = NULL;
  WF_TRY(create(&p, options, err));
  if (wf_path_is_dir(path)) {
    document = wf_metadata_find_document(path);
    if (!document) {
      st = wf_fail(err, WEFT_IO, "name a folder that holds inference_metadata.yaml",
                   "'%s' holds no inference_metadata.yaml, .yml or .json", path);
      goto out;
    }
  } else {
    document = wf_path_join("", path);
  }
  dir = document ? wf_path_dir(document) : NULL;
  root = dir ? realpath(dir, NULL) : NULL;
  if (!dir) {
    st = wf_fail_memory(err, 0, "a path");
    goto out;
  }
  WF_TRY(wf_file_read(document, WF_DOCUMENT_MAX_BYTES, &text, &n, err));
  p->document = wf_arena_strdup(p->arena, document);
  const char *kept = root ? wf_arena_strdup(p->arena, root) : NULL;
  if (!p->document || !kept) {
    st = wf_fail_memory(err, 0, "a path");
    goto out;
  }
  st = load(p, (wf_str){text, n}, syntax_of(document), kept, options, err);
  st = hand_over(result, p, st);
  p = NULL;
out:
  wf_metadata_close(p);
  wf_free(document);
  wf_free(dir);
  free(root);
  wf_free(text);
  return st;
}

void wf_metadata_close(wf_metadata_package *p) {
  if (!p) return;
  wf_problems_deinit(&p->problems);
  wf_arena_destroy(p->arena);
  wf_free(p);
}

const wf_metadata *wf_metadata_get(const wf_metadata_package *p) { return p->model; }
const wf_problems *wf_metadata_problems(const wf_metadata_package *p) { return &p->problems; }
const char *wf_metadata_document(const wf_metadata_package *p) { return p->document; }
