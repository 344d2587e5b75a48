# SPDX-License-Identifier: Apache-2.0
"""Writes a whole model as optimum and transformers.js write theirs: config.json, the tokenizer's files and
onnx/model.onnx, thousands of small nodes with nothing fused, then onnx/model_fp16.onnx, model_q4.onnx and
model_quantized.onnx, converted by ONNX Runtime's own converters, which transformers.js' scripts call.

    python tests/graph/make_hf_folder.py SOURCE DIR [model model_fp16 ...]

SOURCE is the fp32 folder `weft import FILE.gguf --precision f32` wrote, from which weights and text files are taken.
"""
import json
import shutil
import sys
from pathlib import Path

import make_longhand as lh
import numpy as np
import onnx
from onnx import numpy_helper as nh

NAMES = {"input_norm": "input_layernorm.weight", "post_norm": "post_attention_layernorm.weight",
         **{p: f"attn.{p}_proj.MatMul.weight" for p in "qkvo"}, **{p: f"mlp.{p}_proj.MatMul.weight" for p in ("gate", "up", "down")}}


class Taken(lh.Graph):
    """A graph whose weights are the source's."""

    def __init__(self, source):
        super().__init__(0)
        self.source = {i.name: i for i in source.graph.initializer}

    def array(self, name):
        layer, _, part = name.partition(".")
        known = {"norm": [n for n in self.source if n.endswith("final_norm_layernorm.weight")], "embed": ["lm_head.MatMul.weight"]}
        key = known[name][0] if name in known else f"model.layers.{layer[1:]}.{NAMES[part]}"
        return nh.to_array(self.source[key])

    def weight(self, name, *shape):
        a = self.array(name)
        return self.const(np.ascontiguousarray(a.T if name == "embed" else a), name + ".weight")

    def product(self, x, name, n_in, n_out):
        if name == "lm_head":  # tied: what optimum leaves of the copy
            return self.op("MatMul", x, self.op("Transpose", "embed.weight", perm=[1, 0]))
        return self.op("MatMul", x, self.const(self.array(name), f"onnx::MatMul_{len(self.inits)}"))


def graph_of(source, config):
    lh.HIDDEN, lh.LAYERS, lh.VOCAB = config["hidden_size"], config["num_hidden_layers"], config["vocab_size"]
    lh.INTER = config["intermediate_size"]
    lh.Graph = lambda seed: Taken(source)
    lh.MODELS["taken"] = dict(heads=config["num_attention_heads"], kv=config["num_key_value_heads"], size=config["head_dim"],
                              theta=config["rope_theta"], eps=config["rms_norm_eps"])
    return lh.build("taken", check=False)[0]


def save(model, path):
    data = path.name + "_data"
    (path.parent / data).unlink(missing_ok=True)
    onnx.save(model, path, save_as_external_data=True, location=data, size_threshold=1024)
    print(path, len(model.graph.node), "nodes")


def folded(path):
    """The model after the transposed head became a weight of its own, as onnxslim leaves it for the quantisers."""
    m = onnx.load(path)
    weights = {i.name: i for i in m.graph.initializer}
    for n in [n for n in m.graph.node if n.op_type == "Transpose" and n.input[0] in weights]:
        m.graph.initializer.append(nh.from_array(nh.to_array(weights[n.input[0]]).T.copy(), n.output[0]))
        m.graph.node.remove(n)
    return m


def main():
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    wanted = sys.argv[3:] or ["model", "model_fp16", "model_q4", "model_quantized"]
    (out / "onnx").mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"):
        if (source / name).exists():
            shutil.copy(source / name, out / name)
    full = out / "onnx/model.onnx"
    if "model" in wanted:
        save(graph_of(onnx.load(source / "model.onnx"), json.loads((source / "config.json").read_text())), full)
    if "model_fp16" in wanted:
        from onnxruntime.transformers.float16 import convert_float_to_float16
        save(convert_float_to_float16(onnx.load(full), keep_io_types=["logits"], disable_shape_infer=True), full.with_stem("model_fp16"))
    for name, symmetric in (("model_q4", True), ("model_q4_asymmetric", False)):
        if name in wanted:
            from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
            q = MatMulNBitsQuantizer(folded(full), block_size=32, is_symmetric=symmetric, accuracy_level=4)
            q.process()
            save(q.model.model, full.with_stem(name))
    for name, kind in (("model_quantized", "QInt8"), ("model_uint8", "QUInt8")):
        if name not in wanted:
            continue
        from onnxruntime.quantization import QuantType, quantize_dynamic
        quantize_dynamic(folded(full), full.with_stem(name), weight_type=QuantType[kind],
                         extra_options={"EnableSubgraph": True, "MatMulConstBOnly": True})
        print(full.with_stem(name))


if __name__ == "__main__":
    main()
