/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs as text and as Graphviz. */
#include "graph/edit.h"

static void print_value(const wf_graph *g, int32_t id, wf_buf *b) {
  const wf_value *v = wf_graph_value(g, id);
  if (!v) {
    wf_buf_puts(b, "-");
    return;
  }
  wf_buf_puts(b, v->tensor ? "%const " : "%");
  wf_buf_add_str(b, v->name);
  wf_buf_putc(b, ':');
  wf_buf_puts(b, wf_dtype_name(v->dtype));
  wf_buf_putc(b, '[');
  for (int32_t i = 0; i < v->rank; i++) {
    if (i) wf_buf_puts(b, ", ");
    wf_expr_print(g->exprs, v->dims[i], b);
  }
  wf_buf_puts(b, v->rank < 0 ? "..]" : "]");
  if (v->n_content < 0 || v->n_content > 8) return;
  wf_buf_puts(b, "={");
  for (int32_t i = 0; i < v->n_content; i++) {
    if (i) wf_buf_puts(b, ", ");
    wf_expr_print(g->exprs, v->content[i], b);
  }
  wf_buf_putc(b, '}');
}

static void print_list(const wf_graph *g, const int32_t *ids, int32_t n, wf_buf *b) {
  for (int32_t i = 0; i < n; i++) {
    if (i) wf_buf_puts(b, ", ");
    print_value(g, ids[i], b);
  }
}

static void print_params(const wf_node *n, wf_buf *b) {
  if (n->op == WF_OP_WEFT_NORM) {
    wf_buf_printf(b, " %s eps=", n->as.norm.kind == WF_NORM_RMS ? "rms" : "layer");
    wf_buf_add_f64(b, (double)n->as.norm.epsilon);
  } else if (n->op == WF_OP_WEFT_UNARY || n->op == WF_OP_WEFT_GLU) {
    static const char *const kinds[] = {"silu",          "gelu", "gelu_tanh",
                                        "sigmoid_alpha", "relu", "relu2"};
    wf_buf_printf(b, " %s", kinds[n->as.unary.kind]);
  } else if (n->op == WF_OP_WEFT_ATTENTION) {
    const wf_attention_params *a = &n->as.attention;
    wf_buf_printf(b, " layer=%d heads=%d/%d dim=%d/%d window=%d rotary=%d:%d scale=", a->layer,
                  a->n_heads, a->n_kv_heads, a->head_dim, a->head_dim_v, a->window,
                  (int)a->rotary.kind, a->rotary.dim);
    wf_buf_add_f64(b, (double)a->scale);
    wf_buf_puts(b, " softcap=");
    wf_buf_add_f64(b, (double)a->softcap);
  } else if (n->op == WF_OP_WEFT_LINEAR) {
    wf_buf_printf(b, " transposed=%d axis=%d block=%d", n->as.linear.is_transposed,
                  n->as.linear.axis, n->as.linear.block_size);
  } else if (n->op == WF_OP_WEFT_ROTARY) {
    wf_buf_printf(b, " kind=%d dim=%d heads=%d", (int)n->as.rotary.kind, n->as.rotary.dim,
                  n->as.rotary.n_heads);
  }
}

static void print_attrs(const wf_node *n, wf_buf *b) {
  for (size_t i = 0; i < n->n_attrs; i++) {
    const wf_attr *a = &n->attrs[i];
    wf_buf_putc(b, ' ');
    wf_buf_add_str(b, a->name);
    wf_buf_putc(b, '=');
    switch (a->kind) {
      case WF_ATTR_INT:
        wf_buf_printf(b, "%lld", (long long)a->i);
        break;
      case WF_ATTR_FLOAT:
        wf_buf_add_f64(b, (double)a->f);
        break;
      case WF_ATTR_STRING:
        wf_buf_add_json_string(b, a->s, false);
        break;
      case WF_ATTR_INTS:
        wf_buf_putc(b, '[');
        for (size_t k = 0; k < a->n && k < 16; k++) {
          wf_buf_printf(b, k ? ", %lld" : "%lld", (long long)a->ints[k]);
        }
        wf_buf_putc(b, ']');
        break;
      case WF_ATTR_NONE:
      case WF_ATTR_TENSOR:
      case WF_ATTR_GRAPH:
      case WF_ATTR_FLOATS:
      case WF_ATTR_STRINGS:
      case WF_ATTR_TENSORS:
      case WF_ATTR_GRAPHS:
      case WF_ATTR_OTHER:
        wf_buf_puts(b, "..");
        break;
    }
  }
}

static void print_indented(const wf_graph *g, int depth, wf_buf *b) {
  for (size_t i = 0; i < g->order.n; i++) {
    const wf_node *n = g->nodes.at[g->order.at[i]];
    for (int k = 0; k < depth; k++) wf_buf_puts(b, "  ");
    print_list(g, n->outputs, n->n_outputs, b);
    wf_buf_puts(b, " = ");
    if (n->domain.n) {
      wf_buf_add_str(b, n->domain);
      wf_buf_putc(b, '.');
    }
    wf_buf_add_str(b, n->op_type);
    print_params(n, b);
    print_attrs(n, b);
    wf_buf_putc(b, '(');
    print_list(g, n->inputs, n->n_inputs, b);
    wf_buf_puts(b, ")\n");
    for (size_t k = 0; k < n->n_subgraphs && depth < 32; k++) {
      for (int j = 0; j <= depth; j++) wf_buf_puts(b, "  ");
      wf_buf_puts(b, "graph:\n");
      print_indented(n->subgraphs[k], depth + 2, b);
    }
  }
}

void wf_graph_print(const wf_graph *g, wf_buf *b) {
  for (size_t i = 0; i < g->inputs.n; i++) {
    wf_buf_puts(b, "input  ");
    print_value(g, g->inputs.at[i], b);
    wf_buf_putc(b, '\n');
  }
  print_indented(g, 0, b);
  for (size_t i = 0; i < g->outputs.n; i++) {
    wf_buf_puts(b, "output ");
    print_value(g, g->outputs.at[i], b);
    wf_buf_putc(b, '\n');
  }
}

static void dot_text(wf_str s, wf_buf *b) { wf_buf_add_json_string(b, s, true); }

void wf_graph_print_dot(const wf_graph *g, wf_buf *b) {
  wf_buf_puts(b, "digraph weft {\n  node [shape=box];\n");
  for (size_t i = 0; i < g->inputs.n; i++) {
    wf_buf_printf(b, "  v%d [shape=oval label=", g->inputs.at[i]);
    dot_text(g->values.at[g->inputs.at[i]]->name, b);
    wf_buf_puts(b, "];\n");
  }
  for (size_t i = 0; i < g->order.n; i++) {
    const wf_node *n = g->nodes.at[g->order.at[i]];
    wf_buf_printf(b, "  n%d [label=", n->id);
    dot_text(n->op_type, b);
    wf_buf_puts(b, "];\n");
    for (int32_t k = 0; k < n->n_inputs; k++) {
      const wf_value *v = wf_graph_value(g, n->inputs[k]);
      if (!v || v->tensor) continue;
      if (v->producer >= 0)
        wf_buf_printf(b, "  n%d -> n%d;\n", v->producer, n->id);
      else
        wf_buf_printf(b, "  v%d -> n%d;\n", v->id, n->id);
    }
  }
  for (size_t i = 0; i < g->outputs.n; i++) {
    const wf_value *v = wf_graph_value(g, g->outputs.at[i]);
    wf_buf_printf(b, "  o%zu [shape=oval label=", i);
    dot_text(v->name, b);
    wf_buf_puts(b, "];\n");
    if (v->producer >= 0)
      wf_buf_printf(b, "  n%d -> o%zu;\n", v->producer, i);
    else if (!v->tensor)
      wf_buf_printf(b, "  v%d -> o%zu;\n", v->id, i);
  }
  wf_buf_puts(b, "}\n");
}
