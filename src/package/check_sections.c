/* SPDX-License-Identifier: Apache-2.0 */
/* Facts beside the workflow: model and package (DOC), capabilities (CAP), generation (GEN),
 * profiles (PRO). */
#include <math.h>

#include "package/check.h"

/* ---- capabilities -----------------------------------------------------------------------------
 */

static const char *const known_capabilities[] = {"adaptive_proposal_budget",
                                                 "advisory_state",
                                                 "bounded_state_growth",
                                                 "bounded_state_recurrence",
                                                 "continuous_batching",
                                                 "control_flow_loop",
                                                 "dual_sequence_inputs",
                                                 "emit_row_identity",
                                                 "emit_valid_length",
                                                 "grammar_guidance_adapter",
                                                 "grouped_query_attention",
                                                 "heterogeneous_adapter_batching",
                                                 "image_preprocessing_program",
                                                 "input_presence",
                                                 "kv_cache",
                                                 "linear_effects",
                                                 "loop_carried_state",
                                                 "loop_induction_values",
                                                 "multi_axis_positions",
                                                 "multi_head_attention",
                                                 "nested_control_flow",
                                                 "packed_image_outputs",
                                                 "parameter_adapters",
                                                 "position_program",
                                                 "prefix_cache",
                                                 "serving_service_contract",
                                                 "session_state_lease",
                                                 "streaming_emit",
                                                 "telemetry_adapter",
                                                 "typed_emit",
                                                 "workflow_ssa"};

static bool is_known(const char *capability) {
  for (size_t i = 0; i < sizeof known_capabilities / sizeof *known_capabilities; i++) {
    if (strcmp(capability, known_capabilities[i]) == 0) return true;
  }
  return false;
}

static void check_known(wf_rules *c, const wf_meta_texts *list, const wf_meta_at *at,
                        const char *member) {
  for (size_t i = 0; i < list->n; i++) {
    if (!*list->at[i])
      wf_check_fail(c, WF_PROBLEM_SCHEMA, "", at, member, "name the capability",
                    "a capability's name is empty");
    else if (!is_known(list->at[i]))
      wf_check_fail(c, WF_PROBLEM_CAPABILITY, "CAP-02", at, member,
                    "use a newer weft, or a package that does without",
                    "this weft lacks the capability '%.100s'", list->at[i]);
  }
}

static void need(wf_rules *c, bool is_used, const char *capability, const char *by) {
  if (!is_used || wf_meta_texts_has(&c->w->manifest->capabilities, capability)) return;
  wf_check_struct(c, "CAP-01", c->w->manifest->head.at, "capabilities", "add it to the list",
                  "the manifest lacks '%s', which %s needs", capability, by);
}

static bool uses_abi(const wf_rules *c, const char *id) {
  for (size_t i = 0; i < c->w->components.n; i++) {
    const wf_meta_component *k = &c->w->components.at[i];
    if (k->contract && strcmp(k->contract->id, id) == 0) return true;
    if (k->implementation->abi && strcmp(k->implementation->abi, id) == 0) return true;
  }
  return false;
}

static void check_capabilities(wf_rules *c) {
  const wf_meta_workflow *w = c->w;
  bool session = false, bounded = false, advisory = false, presence = false, adapter_roles = false;
  bool effects = w->effects.n != 0;
  for (size_t i = 0; i < w->state.n; i++) {
    session |= w->state.at[i].scope == WF_META_SCOPE_SESSION;
    bounded |= w->state.at[i].recurrence->kind == WF_META_BOUNDED;
    advisory |= w->state.at[i].class == WF_META_CLASS_ADVISORY;
  }
  for (size_t i = 0; i < w->inputs.n; i++) {
    presence |= w->inputs.at[i].present_as != NULL;
    adapter_roles |= w->inputs.at[i].role->kind == WF_META_RUNTIME &&
                     w->inputs.at[i].role->role >= WF_META_ROLE_ADAPTER_SEGMENTS;
  }
  for (size_t i = 0; i < w->components.n; i++) effects |= w->components.at[i].effects.n != 0;
  effects |= (c->uses_loop || c->uses_branch) && c->changes_effects_in_flow;
  check_known(c, &c->m->required_capabilities, c->m->head.at, "required_capabilities");
  check_known(c, &w->manifest->capabilities, w->manifest->head.at, "capabilities");
  need(c, true, "workflow_ssa", "every workflow");
  need(c, w->serving != NULL, "serving_service_contract", "'serving'");
  need(c, session, "session_state_lease", "a cell of session scope");
  need(c, bounded, "bounded_state_recurrence", "a bounded cell");
  need(c, advisory, "advisory_state", "an advisory cell");
  need(c, presence, "input_presence", "present_as");
  need(c, effects, "linear_effects", "an effect, or a loop or branch that changes one");
  need(c, c->uses_loop || c->uses_branch, "nested_control_flow", "a loop or branch");
  need(c, c->uses_iteration, "loop_induction_values", "a loop's iteration value");
  need(c, c->uses_emit, "typed_emit", "an emit");
  need(c, c->uses_event, "streaming_emit", "an emit of mode event");
  need(c, c->uses_valid_length, "emit_valid_length", "an emit's valid_length");
  need(c, c->m->adapters != NULL || uses_abi(c, "onnx-genai.parameter-overlay"),
       "parameter_adapters", "LoRA");
  need(c, c->m->adapters != NULL || adapter_roles, "heterogeneous_adapter_batching",
       "LoRA selected by row");
  need(c, uses_abi(c, "onnx-genai.adaptive-proposal-budget"), "adaptive_proposal_budget",
       "a component of that contract");
  need(c, uses_abi(c, "onnx-genai.grammar-guidance"), "grammar_guidance_adapter",
       "a component of that contract");
  need(c, uses_abi(c, "onnx-genai.telemetry"), "telemetry_adapter", "a component of that contract");
}

/* ---- generation -------------------------------------------------------------------------------
 */

static void check_generation(wf_rules *c) {
  const wf_meta_generation *g = c->m->generation;
  for (size_t i = 0; i < g->overrides.n; i++) {
    const wf_meta_override *o = &g->overrides.at[i];
    const wf_meta_input *in = c->w ? wf_meta_find(&c->w->inputs, o->input) : NULL;
    if (!*o->head.name || !*o->input)
      wf_check_struct(c, "GEN-04", o->head.at, *o->input ? NULL : "input", "write a name",
                      "a field or input of an override is empty");
    else if (!in)
      wf_check_struct(c, "GEN-01", o->head.at, "input", "name a workflow input",
                      "there is no input '%.80s'", o->input);
    else if (in->source->kind != WF_META_REQUEST || in->role->kind != WF_META_RUNTIME)
      wf_check_struct(c, "GEN-02", o->head.at, "input", "name a request input",
                      "the input '%.80s' has no request source with a runtime role", o->input);
    if (o->constraint && o->constraint->minimum > o->constraint->maximum)
      wf_check_struct(c, "GEN-03", o->constraint->head.at, "minimum", "swap the two",
                      "the minimum is above the maximum");
  }
}

/* ---- profiles ---------------------------------------------------------------------------------
 */

static void check_vocabulary(wf_rules *c, const wf_meta_decoding *d) {
  const wf_meta_vocabulary *v = d->vocabulary;
  const wf_meta_at *at = v->head.at;
  if (strcmp(v->source, "inline") != 0) return;
  if (!v->tokens.n) {
    wf_check_struct(c, "PRO-04", at, "tokens", "list the tokens",
                    "an inline vocabulary lists no tokens");
    return;
  }
  if (v->size != WF_META_ABSENT && (size_t)v->size != v->tokens.n)
    wf_check_struct(c, "PRO-04", at, "size", "write how many tokens there are",
                    "the size is %lld, the list has %zu tokens", (long long)v->size, v->tokens.n);
  if (v->word_delimiter && !wf_meta_list_has(&v->tokens, v->word_delimiter))
    wf_check_struct(c, "PRO-04", at, "word_delimiter", "name a token of the list",
                    "the delimiter '%.60s' is no token", v->word_delimiter);
  for (size_t i = 0; i < v->ignored_tokens.n; i++) {
    if (!wf_meta_list_has(&v->tokens, v->ignored_tokens.at[i]))
      wf_check_struct(c, "PRO-04", at, "ignored_tokens", "name a token of the list",
                      "the ignored token '%.60s' is no token", v->ignored_tokens.at[i]);
  }
  if (d->blank_id != WF_META_ABSENT && (size_t)d->blank_id >= v->tokens.n)
    wf_check_struct(c, "PRO-04", d->head.at, "blank_id", "name the index of a token",
                    "the blank id %lld is not below %zu", (long long)d->blank_id, v->tokens.n);
}

static void check_decoding(wf_rules *c, const wf_meta_profile *p) {
  const wf_meta_decoding *d = p->decoding;
  const wf_meta_at *at = d->head.at;
  if (strcmp(d->kind, "ctc") == 0 && d->blank_id == WF_META_ABSENT)
    wf_check_struct(c, "PRO-03", at, NULL, "add blank_id", "ctc decoding lacks blank_id");
  if (d->time_axis == d->class_axis)
    wf_check_struct(c, "PRO-03", at, "class_axis", "name two axes",
                    "time_axis and class_axis are the same");
  if (d->lengths && !wf_meta_pair_get(&p->outputs, d->lengths))
    wf_check_struct(c, "PRO-03", at, "lengths", "name a role of the profile's outputs",
                    "'%.80s' is no role of outputs", d->lengths);
  if (!d->lengths && p->batch_invariance && strcmp(p->batch_invariance, "padding_sensitive") == 0)
    wf_check_struct(c, "PRO-03", at, NULL, "add lengths",
                    "a padding_sensitive profile lacks the lengths");
  if (d->vocabulary) check_vocabulary(c, d);
}

static void check_profile(wf_rules *c, const wf_meta_profile *p) {
  static const char *const kinds[] = {"generation",     "embedding", "reranking",
                                      "classification", "reward",    "transcription"};
  bool known = false;
  for (size_t i = 0; i < 6; i++) known |= strcmp(p->kind, kinds[i]) == 0;
  if (!known) {
    if (p->requirement == 0)
      wf_check_struct(c, "PRO-01", p->head.at, "kind", "write 'requirement: ignorable'",
                      "the required profile has the unknown kind '%.80s'", p->kind);
    return; /* an ignorable one is skipped entirely */
  }
  for (size_t i = 0; i < p->outputs.n; i++) {
    if (!c->w || !wf_meta_find(&c->w->outputs, p->outputs.at[i].text))
      wf_check_struct(c, "PRO-02", p->outputs.at[i].head.at, NULL, "name a workflow output",
                      "there is no output '%.80s'", p->outputs.at[i].text);
  }
  if (p->decoding)
    check_decoding(c, p);
  else if (strcmp(p->kind, "transcription") == 0)
    wf_check_struct(c, "PRO-03", p->head.at, NULL, "add 'decoding'",
                    "a transcription profile lacks decoding");
}

/* ---- document ---------------------------------------------------------------------------------
 */

static void check_model(wf_rules *c) {
  const wf_meta_model *m = c->m->model;
  const wf_meta_moe *moe = m->mixture_of_experts;
  if (m->io && c->m->pipeline)
    wf_check_struct(c, "DOC-02", m->head.at, "io", "remove it: the workflow binds the ports",
                    "model.io beside a workflow");
  if (m->attention && m->attention->sink_tokens > 0 &&
      m->attention->sliding_window == WF_META_ABSENT)
    wf_check_fail(c, WF_PROBLEM_WARNING, "", m->attention->head.at, "sink_tokens",
                  "add sliding_window", "sink_tokens count only with a sliding_window");
  if (moe && moe->router && moe->router->selection_method == 1 &&
      (moe->router->group_count == WF_META_ABSENT ||
       moe->router->groups_per_token == WF_META_ABSENT || moe->router->group_score < 0))
    wf_check_fail(c, WF_PROBLEM_SCHEMA, "", moe->router->head.at, NULL,
                  "add group_count, groups_per_token and group_score",
                  "grouped_top_k lacks its groups");
}

static void check_languages(wf_rules *c) {
  const wf_meta_package *p = c->m->package;
  for (size_t i = 0; i < p->constraint_languages.n; i++) {
    const wf_meta_constraint_language *l = &p->constraint_languages.at[i];
    if (!c->w || !wf_meta_find(&c->w->components, l->component))
      wf_check_fail(c, WF_PROBLEM_WARNING, "DOC-05", l->head.at, "component", "name a component",
                    "there is no component '%.80s'", l->component);
  }
}

void wf_check_sections(wf_rules *c) {
  if (c->m->model) check_model(c);
  if (c->m->package) check_languages(c);
  if (c->m->generation && c->w) check_generation(c);
  if (c->w) {
    for (size_t i = 0; i < c->m->profiles.n; i++) check_profile(c, &c->m->profiles.at[i]);
    check_capabilities(c);
  } else {
    check_known(c, &c->m->required_capabilities, c->m->head.at, "required_capabilities");
  }
}
