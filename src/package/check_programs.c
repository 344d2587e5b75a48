/* SPDX-License-Identifier: Apache-2.0 */
/* Preprocessing programs and the adapter that runs each (PRE). */
#include "package/check.h"

typedef struct use {
  const char *component;
  size_t n;
  const wf_meta_step *step;
} use;

static void count_use(const wf_meta_step *s, void *user) {
  use *u = user;
  if (s->kind != WF_META_INVOKE || strcmp(s->component, u->component) != 0) return;
  u->n++;
  u->step = s;
}

static bool same_contract(const wf_meta_contract *a, const wf_meta_contract *b) {
  if (a->dtype != b->dtype || a->rank != b->rank || a->shape.n != b->shape.n) return false;
  for (size_t i = 0; i < a->shape.n; i++) {
    const wf_meta_dim x = a->shape.at[i], y = b->shape.at[i];
    if ((x.symbol != NULL) != (y.symbol != NULL)) return false;
    if (x.symbol ? strcmp(x.symbol, y.symbol) != 0 : x.extent != y.extent) return false;
  }
  return wf_contract_same_layout(a, b);
}

static void check_output(wf_rules *c, const wf_meta_program_output *o, const wf_meta_component *k,
                         const wf_meta_step *step) {
  const wf_meta_at *at = o->head.at;
  if (!o->contract) {
    wf_check_struct(c, "PRE-04", at, NULL, "add the contract",
                    "the program output '%.80s' has no contract", o->value);
    return;
  }
  if (o->is_optional)
    wf_check_struct(c, "PRE-05", at, "optional", "remove it",
                    "a program output of a workflow cannot be optional");
  if (wf_meta_dtype(o->dtype) != o->contract->dtype)
    wf_check_struct(c, "PRE-06", at, "dtype", "write the contract's dtype",
                    "the dtype '%.40s' is not the contract's '%.40s'", o->dtype,
                    o->contract->dtype_text);
  if (!step) return;
  const wf_meta_pair *bound = NULL;
  size_t n = 0;
  for (size_t i = 0; i < step->outputs.n; i++) {
    if (strcmp(step->outputs.at[i].text, o->value) != 0) continue;
    bound = &step->outputs.at[i];
    n++;
  }
  if (n != 1) {
    wf_check_struct(c, "PRE-07", at, "name", "bind one output port of the adapter to it",
                    "the value '%.80s' is bound by %zu output ports of '%.80s'", o->value, n,
                    k->head.name);
    return;
  }
  const wf_meta_contract *port =
      k->ports ? wf_meta_find(&k->ports->outputs, bound->head.name) : NULL;
  if (port && !same_contract(port, o->contract))
    wf_check_struct(c, "PRE-08", o->contract->head.at, NULL,
                    "give both the same dtype, rank, shape and batch_layout",
                    "the contract differs from that of the port '%.80s'", bound->head.name);
}

static void check_program(wf_rules *c, const wf_meta_program *program, const char *abi,
                          const char *member) {
  const wf_meta_component *adapter = NULL;
  size_t n = 0;
  for (size_t i = 0; i < c->w->components.n; i++) {
    const wf_meta_component *k = &c->w->components.at[i];
    if (!k->implementation->abi || strcmp(k->implementation->abi, abi) != 0) continue;
    adapter = k;
    n++;
    if (!program)
      wf_check_struct(c, "PRE-03", k->implementation->head.at, "abi",
                      "write the program under 'preprocessing'",
                      "the adapter '%.80s' has no preprocessing.%s to run", k->head.name, member);
  }
  if (!program) return;
  if (n != 1) {
    wf_check_struct(c, "PRE-01", program->head.at, NULL,
                    "declare one adapter component of that ABI",
                    "%zu components of the ABI %s run the program", n, abi);
  }
  use u = {.component = adapter ? adapter->head.name : ""};
  if (n == 1) {
    wf_steps_each(&c->w->steps, count_use, &u);
    if (u.n != 1)
      wf_check_struct(c, "PRE-02", program->head.at, NULL, "invoke it once",
                      "the adapter '%.80s' is invoked %zu times", adapter->head.name, u.n);
  }
  for (size_t i = 0; i < program->outputs.n; i++)
    check_output(c, &program->outputs.at[i], adapter, u.n == 1 ? u.step : NULL);
}

void wf_check_programs(wf_rules *c) {
  const wf_meta_preprocessing *p = c->m->preprocessing;
  check_program(c, p ? p->image : NULL, "onnx-genai.image-preprocess", "image");
  check_program(c, p ? p->audio : NULL, "onnx-genai.audio-preprocess", "audio");
}
