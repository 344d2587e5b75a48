/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "import/hf_files.h"

static weft_status write_text(wf_buf *b, const char *dir, const char *name, bool is_private,
                              weft_error *err) {
  weft_status st;
  char *path = wf_path_join(dir, name);
  if (!path || b->failed) {
    st = wf_fail_memory(err, b->n, name);
  } else {
    st = wf_file_write(path, b->n > 0 ? b->at : "", b->n, is_private, err);
  }
  wf_free(path);
  return st;
}

/* The text of token `id`, found by walking; empty when it is not there. */
static wf_str token_text(const wf_gguf *g, int64_t id) {
  const wf_gguf_entry *tokens = wf_gguf_find(g, "tokenizer.ggml.tokens");
  size_t cursor = 0;
  wf_str s = {0};
  if (!tokens || id < 0) return s;
  for (int64_t i = 0; wf_gguf_array_next(tokens, &cursor, &s); i++) {
    if (i == id) return s;
  }
  return (wf_str){0};
}

typedef struct special {
  const char *name;
  int64_t id;
} special;

/* "bos_token": "<s>" and so on for the ids that are there. */
static void put_specials(wf_buf *b, const wf_gguf *g, const wf_hf_tokens *t, bool *is_first) {
  const bool is_bert = wf_gguf_find(g, "tokenizer.ggml.cls_token_id") != NULL;
  const special all[] = {{is_bert ? "cls_token" : "bos_token", t->bos},
                         {is_bert ? "sep_token" : "eos_token", t->eos},
                         {"unk_token", t->unk},
                         {"pad_token", t->pad}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (all[i].id < 0) continue;
    wf_buf_printf(b, "%s\n  \"%s\": ", *is_first ? "" : ",", all[i].name);
    wf_buf_add_json_string(b, token_text(g, all[i].id), false);
    *is_first = false;
  }
}

weft_status wf_hf_write_companions(const wf_gguf *g, const wf_hf_tokens *t, size_t context,
                                   const char *dir, bool is_private, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_buf b = {0};
  wf_str template = {0}, model = {0};
  bool found, is_first = true, has_prefix = true;

  wf_buf_putc(&b, '{');
  put_specials(&b, g, t, &is_first);
  wf_buf_puts(&b, "\n}\n");
  WF_TRY(write_text(&b, dir, "special_tokens_map.json", is_private, err));

  wf_buf_clear(&b);
  WF_TRY(wf_gguf_string(g, "tokenizer.ggml.model", &model, &found, err));
  WF_TRY(wf_gguf_bool(g, "tokenizer.ggml.add_space_prefix", &has_prefix, &found, err));
  is_first = false;
  wf_buf_printf(&b, "{\n  \"add_bos_token\": %s,\n  \"add_eos_token\": %s",
                t->adds_bos ? "true" : "false", t->adds_eos ? "true" : "false");
  put_specials(&b, g, t, &is_first);
  wf_buf_puts(&b, ",\n  \"clean_up_tokenization_spaces\": false");
  if (context > 0) wf_buf_printf(&b, ",\n  \"model_max_length\": %zu", context);
  /* onnxruntime-genai picks its reader by this class name. */
  const char *class_name = "PreTrainedTokenizerFast";
  if (wf_str_is(model, "llama")) class_name = has_prefix ? "LlamaTokenizer" : "GemmaTokenizer";
  if (wf_str_is(model, "bert")) class_name = "BertTokenizer";
  wf_buf_printf(&b, ",\n  \"tokenizer_class\": \"%s\"\n}\n", class_name);
  WF_TRY(write_text(&b, dir, "tokenizer_config.json", is_private, err));

  WF_TRY(wf_gguf_string(g, "tokenizer.chat_template", &template, &found, err));
  if (found) {
    wf_buf_clear(&b);
    wf_buf_add_str(&b, template);
    if (!wf_utf8_is_valid(template.at, template.n)) {
      st = wf_fail(err, WEFT_TOKENIZER, "download or convert the file again",
                   "the chat template of GGUF file '%s' is not UTF-8", g->map.path);
      goto out;
    }
    WF_TRY(write_text(&b, dir, "chat_template.jinja", is_private, err));
  }
out:
  wf_buf_deinit(&b);
  return st;
}

static void put_id(wf_buf *b, const char *name, int64_t id) {
  if (id < 0)
    wf_buf_printf(b, "\"%s\": null", name);
  else
    wf_buf_printf(b, "\"%s\": %lld", name, (long long)id);
}

static void put_ends(wf_buf *b, const wf_hf_tokens *t) {
  if (t->ends.n == 0) {
    wf_buf_puts(b, "\"eos_token_id\": null");
  } else if (t->ends.n == 1) {
    wf_buf_printf(b, "\"eos_token_id\": %lld", (long long)t->ends.at[0]);
  } else {
    wf_buf_puts(b, "\"eos_token_id\": [");
    for (size_t i = 0; i < t->ends.n; i++) {
      wf_buf_printf(b, "%s%lld", i ? ", " : "", (long long)t->ends.at[i]);
    }
    wf_buf_putc(b, ']');
  }
}

static void put_genai(wf_buf *b, const wf_gguf_model *m, const wf_hf_tokens *t) {
  /* onnxruntime-genai wants numbers for these three; 0 and the end id are what HF falls back to. */
  const int64_t end = t->ends.n > 0 ? t->ends.at[0] : 0;
  wf_buf_puts(b, "{\n  \"model\": {\n    ");
  put_id(b, "bos_token_id", t->bos >= 0 ? t->bos : end);
  wf_buf_printf(b, ",\n    \"context_length\": %zu,\n    \"decoder\": {\n", m->context);
  wf_buf_puts(b,
              "      \"session_options\": {\n        \"log_id\": \"onnxruntime-genai\",\n"
              "        \"provider_options\": []\n      },\n"
              "      \"filename\": \"model.onnx\",\n");
  wf_buf_printf(b, "      \"head_size\": %zu,\n      \"hidden_size\": %zu,\n", m->head_dim,
                m->hidden);
  wf_buf_puts(b,
              "      \"inputs\": {\n        \"input_ids\": \"input_ids\",\n"
              "        \"attention_mask\": \"attention_mask\",\n"
              "        \"past_key_names\": \"past_key_values.%d.key\",\n"
              "        \"past_value_names\": \"past_key_values.%d.value\"\n      },\n"
              "      \"outputs\": {\n        \"logits\": \"logits\",\n"
              "        \"present_key_names\": \"present.%d.key\",\n"
              "        \"present_value_names\": \"present.%d.value\"\n      },\n");
  wf_buf_printf(b,
                "      \"num_attention_heads\": %zu,\n      \"num_hidden_layers\": %zu,\n"
                "      \"num_key_value_heads\": %zu\n    },\n    ",
                m->n_heads, m->n_layers, m->n_kv_heads);
  if (t->ends.n > 0)
    put_ends(b, t);
  else
    put_id(b, "eos_token_id", 0);
  wf_buf_puts(b, ",\n    ");
  put_id(b, "pad_token_id", t->pad >= 0 ? t->pad : end);
  wf_buf_printf(b, ",\n    \"type\": \"%s\",\n    \"vocab_size\": %zu\n  },\n", m->hf_type,
                m->vocab);
  wf_buf_puts(b,
              "  \"search\": {\n    \"diversity_penalty\": 0.0,\n    \"do_sample\": false,\n"
              "    \"early_stopping\": true,\n    \"length_penalty\": 1.0,\n");
  wf_buf_printf(b, "    \"max_length\": %zu,\n", m->context);
  wf_buf_puts(b,
              "    \"min_length\": 0,\n    \"no_repeat_ngram_size\": 0,\n"
              "    \"num_beams\": 1,\n    \"num_return_sequences\": 1,\n"
              "    \"past_present_share_buffer\": true,\n"
              "    \"repetition_penalty\": 1.0,\n    \"temperature\": 1.0,\n"
              "    \"top_k\": 50,\n    \"top_p\": 1.0\n  }\n}\n");
}

static void put_real(wf_buf *b, const char *name, double v) {
  wf_buf_printf(b, ",\n  \"%s\": ", name);
  wf_buf_add_f64(b, v);
}

/* A float32 of the file in its shortest form: 1e-05 and not 9.999999747378752e-06. */
static double shortest(double v) {
  const float f = (float)v;
  for (int digits = 1; digits <= 9; digits++) {
    double scale = 1, rounded;
    if (v == 0) return 0;
    while (v * scale < 1 && scale < 1e30) scale *= 10;
    for (int i = 1; i < digits; i++) scale *= 10;
    rounded = (double)(int64_t)(v * scale + 0.5) / scale;
    if ((float)rounded == f) return rounded;
  }
  return v;
}

static void put_config(wf_buf *b, const wf_gguf_model *m, const wf_hf_tokens *t) {
  wf_buf_printf(b, "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\",\n  ", m->hf_class,
                m->hf_type);
  put_id(b, "bos_token_id", t->bos);
  wf_buf_puts(b, ",\n  ");
  put_ends(b, t);
  wf_buf_puts(b, ",\n  ");
  put_id(b, "pad_token_id", t->pad);
  wf_buf_printf(b, ",\n  \"hidden_size\": %zu,\n  \"intermediate_size\": %zu", m->hidden, m->ffn);
  wf_buf_printf(b, ",\n  \"num_hidden_layers\": %zu,\n  \"num_attention_heads\": %zu", m->n_layers,
                m->n_heads);
  wf_buf_printf(b, ",\n  \"num_key_value_heads\": %zu,\n  \"head_dim\": %zu", m->n_kv_heads,
                m->head_dim);
  wf_buf_printf(b, ",\n  \"max_position_embeddings\": %zu,\n  \"vocab_size\": %zu", m->context,
                m->vocab);
  wf_buf_printf(b, ",\n  \"%s\": \"%s\"", m->is_gemma ? "hidden_activation" : "hidden_act",
                m->is_gemma ? "gelu_pytorch_tanh" : "silu");
  put_real(b, "rms_norm_eps", shortest(m->eps));
  put_real(b, "rope_theta", m->rope_base);
  if (m->window > 0) wf_buf_printf(b, ",\n  \"sliding_window\": %zu", m->window);
  wf_buf_printf(b, ",\n  \"tie_word_embeddings\": %s,\n  \"torch_dtype\": \"float32\"\n}\n",
                m->is_tied ? "true" : "false");
}

weft_status wf_hf_write_configs(const wf_gguf_model *m, const wf_hf_tokens *t, const char *dir,
                                bool is_private, weft_error *err) {
  weft_status st = WEFT_OK;
  wf_buf b = {0};
  put_genai(&b, m, t);
  WF_TRY(write_text(&b, dir, "genai_config.json", is_private, err));
  wf_buf_clear(&b);
  put_config(&b, m, t);
  WF_TRY(write_text(&b, dir, "config.json", is_private, err));
  wf_buf_clear(&b);
  wf_buf_puts(&b, "{\n  ");
  put_id(&b, "bos_token_id", t->bos);
  wf_buf_puts(&b, ",\n  ");
  put_ends(&b, t);
  wf_buf_puts(&b, ",\n  ");
  put_id(&b, "pad_token_id", t->pad);
  wf_buf_puts(&b, "\n}\n");
  WF_TRY(write_text(&b, dir, "generation_config.json", is_private, err));
out:
  wf_buf_deinit(&b);
  return st;
}
