# SPDX-License-Identifier: Apache-2.0
"""Toy folders exactly as onnxruntime-genai 0.18.0's own model builder writes them, and what its runtime and onnxruntime
1.31.1 make of them: golden/builder/NAME/, a folder to run, with

    judged.npz   ids; logits: float32 [n, vocabulary], row i after token i (onnxruntime on the same file, accuracy level 1,
                 graph as written); greedy: 64 tokens that follow (onnxruntime-genai on a level 1 copy; empty where it
                 cannot run what its builder wrote); margin: of each greedy choice, over the range of its logits

    python tests/e2e/make_builder.py            needs torch, transformers, onnxruntime-genai==0.18.0, onnxruntime==1.31.1

fp16 and bf16 folders are judged by the logits of the fp32 folder of the same weights: neither runtime can decode them.
Random weights, seeded; two layers; every option of the builder that changes the graph it writes for a CPU, and each text
model it knows (of SmolLM3 it writes fp16 only, of gpt-oss's quantised form only its own weights)."""
import json
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_genai as og
import torch
import transformers as tf
from onnxruntime_genai.models.builder import create_model, parse_extra_options
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

OUT = Path(__file__).resolve().parent / "golden" / "builder"
VOCAB, HEAD = 160, 16
IDS = [(i * 37 + i * i * 11 + 5) % VOCAB for i in range(40)]
COMMON = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=256, bos_token_id=1, eos_token_id=2, pad_token_id=0)
MODELS = {
    "llama": (tf.LlamaConfig, tf.LlamaForCausalLM, {}),
    "tied": (tf.LlamaConfig, tf.LlamaForCausalLM, dict(tie_word_embeddings=True)),
    "llama3": (tf.LlamaConfig, tf.LlamaForCausalLM, dict(rope_scaling=dict(
        rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64))),
    "mistral": (tf.MistralConfig, tf.MistralForCausalLM, dict(sliding_window=16)),
    "qwen2": (tf.Qwen2Config, tf.Qwen2ForCausalLM, {}),
    "qwen3": (tf.Qwen3Config, tf.Qwen3ForCausalLM, dict(head_dim=HEAD)),
    "gemma2": (tf.Gemma2Config, tf.Gemma2ForCausalLM, dict(head_dim=HEAD, sliding_window=16, query_pre_attn_scalar=HEAD)),
    "bias": (tf.LlamaConfig, tf.LlamaForCausalLM, dict(head_dim=32, attention_bias=True, mlp_bias=True)),
    "yarn": (tf.LlamaConfig, tf.LlamaForCausalLM, dict(rope_scaling=dict(
        rope_type="yarn", factor=4.0, original_max_position_embeddings=64))),
    "qwen2_window": (tf.Qwen2Config, tf.Qwen2ForCausalLM, dict(use_sliding_window=True, sliding_window=16, max_window_layers=1)),
    "gemma": (tf.GemmaConfig, tf.GemmaForCausalLM, dict(head_dim=HEAD)),
    "gemma3": (tf.Gemma3TextConfig, tf.Gemma3ForCausalLM, dict(
        head_dim=HEAD, sliding_window=16, query_pre_attn_scalar=HEAD, layer_types=["sliding_attention", "full_attention"])),
    "phi": (tf.PhiConfig, tf.PhiForCausalLM, dict(num_attention_heads=2, num_key_value_heads=2, partial_rotary_factor=0.5)),
    "phi3": (tf.Phi3Config, tf.Phi3ForCausalLM, dict(original_max_position_embeddings=256)),
    "phi3_longrope": (tf.Phi3Config, tf.Phi3ForCausalLM, dict(original_max_position_embeddings=64, rope_scaling=dict(
        rope_type="longrope", short_factor=[1 + i / 50 for i in range(HEAD // 2)], long_factor=[1.5 + i / 5 for i in range(HEAD // 2)]))),
    "granite": (tf.GraniteConfig, tf.GraniteForCausalLM, dict(
        embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.5, attention_multiplier=0.1)),
    "nemotron": (tf.NemotronConfig, tf.NemotronForCausalLM, dict(num_attention_heads=2, num_key_value_heads=1, partial_rotary_factor=0.5)),
    "olmo": (tf.OlmoConfig, tf.OlmoForCausalLM, {}),
    "ernie": (tf.Ernie4_5Config, tf.Ernie4_5ForCausalLM, {}),
    "hunyuan": (tf.HunYuanDenseV1Config, tf.HunYuanDenseV1ForCausalLM, dict(head_dim=HEAD)),
    # a head of 64 and these numbers: fewer frequencies than its yarn can sort
    "gptoss": (tf.GptOssConfig, tf.GptOssForCausalLM, dict(
        head_dim=64, num_attention_heads=2, num_key_value_heads=1, intermediate_size=32, num_local_experts=4, num_experts_per_tok=2,
        sliding_window=16, layer_types=["sliding_attention", "full_attention"], rope_theta=150000.0, rope_scaling=dict(
            rope_type="yarn", rope_theta=150000.0, factor=32.0, original_max_position_embeddings=4096, beta_fast=32.0, beta_slow=1.0,
            truncate=False))),
    "lfm2": (tf.Lfm2Config, tf.Lfm2ForCausalLM, dict(layer_types=["conv", "full_attention"], conv_L_cache=3, block_auto_adjust_ff_dim=False)),
    "lfm2moe": (tf.Lfm2MoeConfig, tf.Lfm2MoeForCausalLM, dict(
        layer_types=["conv", "full_attention"], conv_L_cache=3, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64,
        num_dense_layers=1)),
    "granite_hybrid": (tf.GraniteMoeHybridConfig, tf.GraniteMoeHybridForCausalLM, dict(
        num_local_experts=0, shared_intermediate_size=128, layer_types=["attention", "attention"], position_embedding_type="rope")),
}
# name: model, precision, options of the builder
FOLDERS = {
    "llama_fp32": ("llama", "fp32", {}),
    "llama_fp32_separate": ("llama", "fp32", dict(disable_qkv_fusion="true")),
    "llama_fp32_pruned": ("llama", "fp32", dict(prune_lm_head="true")),
    "llama_fp32_hidden": ("llama", "fp32", dict(include_hidden_states="true")),
    "llama_fp32_gateup": ("llama", "fp32", dict(fuse_mlp_gate_up="true")),
    "tied_fp32_shared": ("tied", "fp32", dict(shared_embeddings="true")),
    "llama_fp16": ("llama", "fp16", {}),
    "llama_bf16": ("llama", "bf16", {}),
    "llama_int4": ("llama", "int4", {}),
    "llama_int4_zeros_16": ("llama", "int4", dict(is_symmetric="false", block_size="16")),
    "llama_int4_64": ("llama", "int4", dict(block_size="64")),
    "llama_int4_zeros_128": ("llama", "int4", dict(is_symmetric="false", block_size="128")),
    "llama_int4_256": ("llama", "int4", dict(block_size="256", prune_lm_head="true")),
    "llama_int4_level1": ("llama", "int4", dict(accuracy_level="1")),
    "llama_int4_mixed": ("llama", "int4", dict(algo_config="k_quant_mixed")),
    "llama_int4_qdq": ("llama", "int4", dict(use_qdq="true")),
    "tied_int4_gather": ("tied", "int4", dict(op_types_to_quantize="MatMul/Gather")),
    "tied_int4_shared": ("tied", "int4", dict(shared_embeddings="true", prune_lm_head="true")),
    "tied_int4_shared_head8": ("tied", "int4", dict(shared_embeddings="true", algo_config="rtn_last")),
    "llama_int8": ("llama", "int8", {}),
    "llama3_int4": ("llama3", "int4", {}),
    "mistral_int4": ("mistral", "int4", {}),
    "mistral_int4_full_cache": ("mistral", "int4", dict(windowed_kv_cache="false")),
    "qwen2_int4": ("qwen2", "int4", {}),
    "qwen3_int4": ("qwen3", "int4", {}),
    "gemma2_int4": ("gemma2", "int4", {}),
    "bias_int4": ("bias", "int4", {}),
    "yarn_int4": ("yarn", "int4", {}),
    "qwen2_window_int4": ("qwen2_window", "int4", {}),
    "gemma_int4": ("gemma", "int4", {}),
    "gemma3_int4": ("gemma3", "int4", {}),
    "phi_int4": ("phi", "int4", {}),
    "phi_fp16": ("phi", "fp16", {}),
    "phi3_int4": ("phi3", "int4", {}),
    "phi3_longrope_int4": ("phi3_longrope", "int4", {}),
    "granite_int4": ("granite", "int4", {}),
    "nemotron_int4": ("nemotron", "int4", {}),
    "olmo_int4": ("olmo", "int4", {}),
    "ernie_int4": ("ernie", "int4", {}),
    "hunyuan_int4": ("hunyuan", "int4", {}),
    "gptoss_fp32": ("gptoss", "fp32", {}),
    "lfm2_int4": ("lfm2", "int4", {}),
    "lfm2moe_int4": ("lfm2moe", "int4", {}),
    "granite_hybrid_int4": ("granite_hybrid", "int4", {}),
}


def save_model(name, folder):
    config, cls, more = MODELS[name]
    torch.manual_seed(7)
    model = cls(config(**{**COMMON, **more}))
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 2:
                p.copy_(torch.randn_like(p) * 1.5 / p.shape[1] ** 0.5)
    model.save_pretrained(folder)
    # what this builder looks for where transformers 5 no longer writes it
    path = folder / "config.json"
    saved = json.loads(path.read_text())
    rope = saved["rope_parameters"]
    if "sliding_attention" in rope:
        rope.update(rope_type="default", rope_theta=rope["full_attention"]["rope_theta"])
        config.rope_local_base_freq, config.rope_theta = rope["sliding_attention"]["rope_theta"], rope["rope_theta"]
    if rope["rope_type"] == "longrope":
        rope["type"] = "longrope"
    if "original_max_position_embeddings" in more:
        saved["original_max_position_embeddings"] = more["original_max_position_embeddings"]
    path.write_text(json.dumps(saved))
    tokenizer = Tokenizer(models.BPE(vocab={chr(0x100 + i): i for i in range(VOCAB)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=chr(0x101), eos_token=chr(0x102)).save_pretrained(folder)


def build(source, to, precision, tmp, more):
    args = (None, str(source), str(to), precision, "cpu", str(tmp / "cache"))
    create_model(*args, **parse_extra_options(*args, [f"{k}={v}" for k, v in more.items()]))


def exact(folder, to):
    """The folder with every 4- and 8-bit product at accuracy level 1."""
    shutil.copytree(folder, to)
    path = to / "model.onnx"
    model = onnx.load(path)
    for n in model.graph.node:
        if n.op_type == "MatMulNBits":
            kept = [a for a in n.attribute if a.name != "accuracy_level"]
            del n.attribute[:]
            n.attribute.extend([*kept, onnx.helper.make_attribute("accuracy_level", 1)])
    for f in to.glob("model.onnx*"):
        f.unlink()
    onnx.save(model, path)
    config = json.loads((to / "genai_config.json").read_text())
    config["model"]["decoder"]["session_options"]["session.qdq_matmulnbits_accuracy_level"] = "1"
    (to / "genai_config.json").write_text(json.dumps(config))
    return to


def logits_of(folder):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    decoder = json.loads((folder / "genai_config.json").read_text())["model"]["decoder"]
    kinds = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
    feed = {}
    for i in session.get_inputs():
        kind = kinds[i.type]
        if i.name == "input_ids":
            feed[i.name] = np.array([IDS], kind)
        elif i.name == "attention_mask":
            feed[i.name] = np.ones((1, len(IDS)), kind)
        elif i.name == "position_ids":
            feed[i.name] = np.arange(len(IDS), dtype=kind)[None]
        elif i.name.endswith(".conv"):
            feed[i.name] = np.zeros((1, *i.shape[1:]), kind)
        else:
            feed[i.name] = np.zeros((1, decoder["num_key_value_heads"], 0, decoder["head_size"]), kind)
    return session.run(["logits"], feed)[0][0].astype(np.float32)


def greedy_of(folder, n=64):
    model = og.Model(str(folder))
    params = og.GeneratorParams(model)
    params.set_search_options(max_length=len(IDS) + n, do_sample=False, min_length=len(IDS) + n)
    generator = og.Generator(model, params)
    generator.append_tokens(np.array(IDS, np.int32))
    margins = []
    while not generator.is_done():
        logits = np.array(generator.get_logits()).reshape(-1)[-VOCAB:].astype(np.float64)
        logits[COMMON["eos_token_id"]] = -np.inf
        order = np.sort(logits[np.isfinite(logits)])
        margins.append((order[-1] - order[-2]) / (order[-1] - order[0]))
        generator.generate_next_token()
    return np.array(generator.get_sequence(0))[len(IDS):], np.array(margins, np.float32)


NOTHING = np.zeros(0, np.float32)


def attempt(judge, otherwise):
    """What the judge says; nothing where it cannot run what its own builder wrote (windowed caches, for one)."""
    try:
        return judge()
    except Exception as e:
        print("  cannot be judged:", str(e)[:160])
        return otherwise


def main():
    only = sys.argv[1:]
    with tempfile.TemporaryDirectory() as tmp:
        tmp = Path(tmp)
        for name, (model, precision, more) in FOLDERS.items():
            if only and name not in only:
                continue
            source = tmp / model
            if not source.exists():
                save_model(model, source)
            out = OUT / name
            shutil.rmtree(out, ignore_errors=True)
            build(source, out, precision, tmp, more)
            half = precision in ("fp16", "bf16")
            if half:
                judged = tmp / f"{model}_fp32"
                judged.exists() or build(source, judged, "fp32", tmp, {})
            else:
                judged = exact(out, tmp / f"{name}.exact")
            logits = attempt(lambda: logits_of(judged), np.zeros((0, VOCAB), np.float32))
            greedy, margins = (NOTHING, NOTHING) if half else attempt(lambda: greedy_of(judged), (NOTHING, NOTHING))
            assert len(logits) or len(greedy), name
            np.savez_compressed(out / "judged.npz", ids=np.array(IDS, np.int32), logits=logits, greedy=greedy, margin=margins)
            print(name, logits.shape, len(greedy), sum(f.stat().st_size for f in out.iterdir()))


main()
