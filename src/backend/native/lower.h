/* SPDX-License-Identifier: Apache-2.0 */
/* The builder that turns a packed graph into steps. Private to lower*.c. */
#ifndef WF_NATIVE_LOWER_H
#define WF_NATIVE_LOWER_H

#include "backend/native/program.h"

/* Where a value of the graph lies. */
typedef struct wf_place {
  bool is_set, is_rows; /* rows: one row a token (or selected token), of `width` floats */
  wf_loc loc;
  wf_axis axis;
  int64_t width;
} wf_place;

/* Which kinds of step have touched a slot since the last barrier; one of each for both sizes of
 * run. */
enum { WF_RUN_LARGE, WF_RUN_SMALL, WF_RUN_SIZES };
typedef struct wf_touch {
  int32_t epoch;
  uint8_t read, written;
} wf_touch;
typedef struct wf_touches {
  wf_touch of[WF_RUN_SIZES];
} wf_touches;

typedef struct wf_shared_act {
  wf_loc loc;
  wf_act_kind kind;
  int32_t slot;
} wf_shared_act;

enum { WF_LOWER_MAX_OPERANDS = 96 };

typedef struct wf_lowering {
  wf_component *c;
  wf_graph *g;
  const wf_weight_use *uses;
  const wf_node *node;   /* being lowered */
  wf_place *places;      /* by value id */
  int32_t *merged_slots; /* by weight; -1: not emitted yet */
  WF_VEC(wf_step) steps;
  WF_VEC(wf_slot) slots;
  WF_VEC(wf_touches) touches;
  WF_VEC(wf_shared_act) acts;
  int32_t epoch[WF_RUN_SIZES];
  bool head_done;
} wf_lowering;

/* lower.c */
int32_t wf_lower_slot(wf_lowering *l, wf_axis axis, int64_t width,
                      uint32_t elem); /* -1: no memory */
weft_status wf_lower_emit(wf_lowering *l, wf_step *s, weft_error *err) WF_NODISCARD;
/* Lets the step just emitted pack its rows, which lie at `x`, into a fresh slot; false: it can't.
 */
bool wf_lower_pack_too(wf_lowering *l, const wf_place *x, int32_t slot);
/* Axis and width of a value whose rows are tokens; false for any other. */
bool wf_lower_rows(wf_lowering *l, int32_t value, wf_axis *axis, int64_t *width);
/* The slot with the place's rows packed for products; a step packs them where none has yet. */
weft_status wf_lower_act(wf_lowering *l, const wf_place *x, const wf_act_kind *kind, int32_t *slot,
                         weft_error *err) WF_NODISCARD;
/* The place of a value as fp32 rows; false when it has none. */
bool wf_lower_find(const wf_lowering *l, int32_t value, wf_place *place);
/* A constant of n numbers as fp32; *result NULL for an absent one. False when it is not constant.
 */
bool wf_lower_const(wf_lowering *l, int32_t value, int64_t n, const float **result);
/* Sets or checks the width of the logits. */
weft_status wf_lower_vocab(wf_lowering *l, int64_t width, weft_error *err) WF_NODISCARD;
/* A new slot for a value, as rows. */
weft_status wf_lower_place(wf_lowering *l, int32_t value, wf_axis axis, int64_t width,
                           wf_place *place, weft_error *err) WF_NODISCARD;
void wf_lower_set(wf_lowering *l, int32_t value, const wf_place *place);

/* Each sets *is_done when it has emitted the node. */
typedef weft_status wf_lower_fn(wf_lowering *l, const wf_node *n, bool *is_done, weft_error *err);
wf_lower_fn wf_lower_linear, wf_lower_moe, wf_lower_norm, wf_lower_attention, wf_lower_rotary,
    wf_lower_gather, wf_lower_unary, wf_lower_glu, wf_lower_binary, wf_lower_select, wf_lower_alias,
    wf_lower_split, wf_lower_slice;
weft_status wf_lower_generic(wf_lowering *l, const wf_node *n, weft_error *err) WF_NODISCARD;

#endif
