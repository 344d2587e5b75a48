# SPDX-License-Identifier: Apache-2.0
"""Small decoders of transformers' own model classes with random weights, as torch's tracing exporter
(which optimum uses) writes them, and their logits by ONNX Runtime on the same file:

    python tests/graph/make_exports.py [NAME ...]    writes tests/e2e/golden/exports/NAME.npz

Needs torch, transformers, onnx and onnxruntime."""
import pathlib
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
import torch
import transformers as T
from transformers.cache_utils import DynamicCache



def repeat_interleave(x, n, dim):
    """What the exporter's own form of this says where it works: it fails on an axis counted from the end."""
    if dim != -1:
        return repeat_of_torch(x, n, dim)
    return x[..., None].expand(*x.shape, n).reshape(*x.shape[:-1], n * x.shape[-1])


repeat_of_torch = torch.repeat_interleave
torch.repeat_interleave = repeat_interleave
torch.Tensor.repeat_interleave = repeat_interleave
OUT = pathlib.Path(__file__).resolve().parents[1] / "e2e/golden/exports"
VOCAB, N = 40, 20
COMMON = dict(vocab_size=VOCAB, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
              max_position_embeddings=64, bos_token_id=0, eos_token_id=0, pad_token_id=0)
GPT2 = dict(vocab_size=VOCAB, n_embd=16, n_layer=2, n_head=2, n_positions=64, n_ctx=64, bos_token_id=0, eos_token_id=0)

NO_PAST = ("gpt2", "gpt_neox", "gptj", "cohere")  # written without past too
MODELS = {
    "gpt2": (T.GPT2LMHeadModel, T.GPT2Config(**GPT2, n_inner=24)),
    "gpt_neox": (T.GPTNeoXForCausalLM, T.GPTNeoXConfig(**COMMON, rotary_pct=0.5)),
    "phi": (T.PhiForCausalLM, T.PhiConfig(**COMMON, partial_rotary_factor=0.5)),
    "gptj": (T.GPTJForCausalLM, T.GPTJConfig(**GPT2, rotary_dim=4, n_inner=24)),
    "cohere": (T.CohereForCausalLM, T.CohereConfig(**COMMON, num_key_value_heads=1)),
    "glm": (T.GlmForCausalLM, T.GlmConfig(**COMMON, num_key_value_heads=1, head_dim=8)),
    "opt": (T.OPTForCausalLM, T.OPTConfig(**COMMON, ffn_dim=24, word_embed_proj_dim=16)),
    "gpt_bigcode": (T.GPTBigCodeForCausalLM, T.GPTBigCodeConfig(**GPT2, n_inner=24)),
    "stablelm": (T.StableLmForCausalLM, T.StableLmConfig(**COMMON, partial_rotary_factor=0.5, num_key_value_heads=1)),
    "starcoder2": (T.Starcoder2ForCausalLM, T.Starcoder2Config(**COMMON, num_key_value_heads=1)),
    "olmo2": (T.Olmo2ForCausalLM, T.Olmo2Config(**COMMON)),
    "cohere2": (T.Cohere2ForCausalLM, T.Cohere2Config(**COMMON, num_key_value_heads=1, sliding_window=7,
                                                      layer_types=["sliding_attention", "full_attention"])),
    "glm4": (T.Glm4ForCausalLM, T.Glm4Config(**COMMON, num_key_value_heads=1, head_dim=8)),
    "granite": (T.GraniteForCausalLM, T.GraniteConfig(**COMMON, attention_multiplier=0.2, residual_multiplier=0.3,
                                                      embedding_multiplier=2.0, logits_scaling=3.0)),
    "mpt": (T.MptForCausalLM, T.MptConfig(vocab_size=VOCAB, d_model=16, n_layers=2, n_heads=2, expansion_ratio=2,
                                          max_seq_len=64)),
}


def past_of(model, config):
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    return heads, size


class Export(torch.nn.Module):
    """input_ids, attention_mask, position_ids, past.. -> logits, present.. of a model."""

    def __init__(self, model, with_past):
        super().__init__()
        self.model, self.with_past = model, with_past
        self.n = model.config.num_hidden_layers

    def forward(self, input_ids, attention_mask, position_ids, *past):
        # The mask is made here, additive, since the model's own makers of masks do not trace.
        n, total = input_ids.shape[1], attention_mask.shape[1]
        at = torch.arange(n) + (total - n)
        seen = torch.arange(total)[None, :] <= at[:, None]
        seen = seen[None, None] & attention_mask[:, None, None, :].bool()
        lowest = torch.tensor(torch.finfo(torch.float32).min)
        mask = torch.where(seen, torch.tensor(0.0), lowest)
        kept = None
        if self.with_past:
            kept = DynamicCache([(past[2 * i], past[2 * i + 1]) for i in range(self.n)])
        more = {} if isinstance(self.model, T.MptForCausalLM) else {"position_ids": position_ids}
        y = self.model(input_ids=input_ids, attention_mask=mask, past_key_values=kept, use_cache=self.with_past, **more)
        if not self.with_past:
            return y.logits
        out = [y.logits]
        for layer in y.past_key_values.layers:
            out += [layer.keys, layer.values]
        return tuple(out)


def export(name, with_past, path):
    kind, config = MODELS[name]
    torch.manual_seed(7)
    config._attn_implementation = "eager"
    model = kind(config).eval().float()
    with torch.no_grad():
        for p in model.parameters():  # weights large enough for logits to differ, biases that are not zero
            value = torch.randn_like(p) * 0.15 + (1.0 if p.ndim == 1 and p.mean() > 0.5 else 0)
            p.copy_(value.bfloat16().float())  # few bits, for small files
    heads, size = past_of(model, config)
    n_layers, n, before = config.num_hidden_layers, 3, 2 if with_past else 0
    args = [torch.randint(0, VOCAB, (2, n)), torch.ones(2, n + before, dtype=torch.int64),
            (torch.arange(n) + before)[None].repeat(2, 1)]
    names, outs = ["input_ids", "attention_mask", "position_ids"], ["logits"]
    axes = {"input_ids": {0: "batch_size", 1: "sequence_length"}, "position_ids": {0: "batch_size", 1: "sequence_length"},
            "attention_mask": {0: "batch_size", 1: "total_sequence_length" if with_past else "sequence_length"},
            "logits": {0: "batch_size", 1: "sequence_length"}}
    for i in range(n_layers if with_past else 0):
        for part in ("key", "value"):
            args.append(torch.randn(2, heads, before, size))
            names.append(f"past_key_values.{i}.{part}")
            outs.append(f"present.{i}.{part}")
            axes[names[-1]] = {0: "batch_size", 2: "past_sequence_length"}
            axes[outs[-1]] = {0: "batch_size", 2: "total_sequence_length"}
    torch.onnx.export(Export(model, with_past), tuple(args), str(path), input_names=names, output_names=outs,
                      dynamic_axes=axes, opset_version=17, dynamo=False)
    m = onnx.load(path)
    for node in m.graph.node:
        node.doc_string = ""
    onnx.save(m, path)


def judge(path, ids):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feed = {}
    for i in session.get_inputs():
        if i.name == "input_ids":
            feed[i.name] = ids[None]
        elif i.name == "attention_mask":
            feed[i.name] = np.ones((1, len(ids)), np.int64)
        elif i.name == "position_ids":
            feed[i.name] = np.arange(len(ids))[None]
        else:
            feed[i.name] = np.zeros((1, i.shape[1], 0, i.shape[3]), np.float32)
    return session.run(["logits"], feed)[0][0]


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or MODELS:
        for with_past in (True, False) if name in NO_PAST else (True,):
            stem = name if with_past else name + "_no_past"
            with tempfile.TemporaryDirectory() as d:
                path = pathlib.Path(d) / "model.onnx"
                export(name, with_past, path)
                ids = np.array([(i * 37 + i * i * 11 + 5) % VOCAB for i in range(N)])
                model = np.frombuffer(path.read_bytes(), np.uint8)
                np.savez_compressed(OUT / (stem + ".npz"), ids=ids, logits=judge(path, ids), model=model)
                print(stem, len(model), (OUT / (stem + ".npz")).stat().st_size)


if __name__ == "__main__":
    main()
