# SPDX-License-Identifier: Apache-2.0
"""Toy decoders for the backend's tests, with onnxruntime 1.31.1's logits on the same files:
golden/NAME/model.onnx and golden/NAME/logits.f32 (float32 [40, 64], row i after token i of IDS).

q4      2 layers as onnxruntime-genai's builder writes them: GroupQueryAttention with rotary embedding,
        4-bit MatMulNBits with zero points, the second layer with a window of 7, tied 8-bit embeddings
f32     the same in fp32, packed QKV, interleaved rotary
row     plain operators with a mean over the sequence, which no packed form can have: runs row by row
"""
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent / "golden"
V, H, HEADS, KV, D, F, LAYERS, ROPE = 64, 32, 2, 1, 16, 64, 2, 512
IDS = [(i * 37 + i * i * 11 + 5) % V for i in range(40)]
rng = np.random.default_rng(3)


class Graph:
    def __init__(self):
        self.nodes, self.inits, self.n = [], [], 0

    def const(self, name, a):
        self.inits.append(numpy_helper.from_array(np.ascontiguousarray(a), name))
        return name

    def op(self, op, inputs, outputs=None, domain="", **attrs):
        self.n += 1
        outputs = outputs or [f"v{self.n}"]
        self.nodes.append(helper.make_node(op, inputs, outputs, f"n{self.n}", domain=domain, **attrs))
        return outputs[0]


def quantise(w, bits, bs, with_zeros):
    n, k = w.shape
    b = w.reshape(n, k // bs, bs)
    top = 2 ** bits - 1
    if with_zeros:
        lo, hi = np.minimum(b.min(-1), 0), np.maximum(b.max(-1), 0)
        scale = ((hi - lo) / top).astype(np.float32)
        zero = np.clip(np.round(-lo / scale), 0, top).astype(np.uint8)
    else:
        scale = (np.abs(b).max(-1) / (2 ** (bits - 1) - 1)).astype(np.float32)
        zero = np.full(scale.shape, 2 ** (bits - 1), np.uint8)
    q = np.clip(np.round(b / scale[..., None]) + zero[..., None], 0, top).astype(np.uint8)
    if bits == 4:
        q = q[..., 0::2] | q[..., 1::2] << 4
        pad = np.pad(zero, ((0, 0), (0, zero.shape[1] % 2)))
        zero = pad[:, 0::2] | pad[:, 1::2] << 4
    return q, scale, zero if with_zeros else None


def linear(g, x, name, n, k, quant):
    w = rng.standard_normal((n, k), dtype=np.float32) / np.sqrt(k).astype(np.float32)
    if not quant:
        return g.op("MatMul", [x, g.const(name + ".w", w.T)])
    q, s, z = quantise(w, 4, 16, True)
    ins = [x, g.const(name + ".q", q), g.const(name + ".s", s), g.const(name + ".z", z)]
    return g.op("MatMulNBits", ins, domain="com.microsoft", K=k, N=n, bits=4, block_size=16, accuracy_level=1)


def norm_weight():
    return (1 + 0.1 * rng.standard_normal(H)).astype(np.float32)


def builder_toy(quant):
    g = Graph()
    e = rng.standard_normal((V, H), dtype=np.float32)
    if quant:
        q, s, _ = quantise(e, 8, 16, False)
        g.const("head.q", q)
        g.const("embed.q", q.reshape(V, H))
        g.const("head.s", s)
        x = g.op("GatherBlockQuantized", ["embed.q", "input_ids", "head.s"], domain="com.microsoft",
                 gather_axis=0, quantize_axis=1, block_size=16, bits=8)
    else:
        x = g.op("Gather", [g.const("embed", e), "input_ids"])
    angle = np.arange(ROPE)[:, None] * (1.0 / 100 ** (np.arange(D // 2) / (D // 2)))[None]
    g.const("cos", np.cos(angle).astype(np.float32))
    g.const("sin", np.sin(angle).astype(np.float32))
    g.const("axis1", np.array([1], np.int64))
    g.const("one", np.array([1], np.int64))
    s = g.op("Sub", [g.op("ReduceSum", ["attention_mask", "axis1"], keepdims=1), "one"])
    lens = g.op("Cast", [s], to=TensorProto.INT32)
    total = g.op("Cast", [g.op("Gather", [g.op("Shape", ["attention_mask"]), g.const("i1", np.array(1, np.int64))])],
                 to=TensorProto.INT32)
    skip = None
    ins, outs = [], []
    for i in range(LAYERS):
        w = g.const(f"l{i}.n1", norm_weight())
        if skip is None:
            h = g.op("SimplifiedLayerNormalization", [x, w], epsilon=1e-5, axis=-1, stash_type=1)
            root = x
        else:
            h = g.op("SkipSimplifiedLayerNormalization", [root, skip, w], [f"l{i}.h", "", "", f"l{i}.r"],
                     domain="com.microsoft", epsilon=1e-5)
            root = f"l{i}.r"
        if quant:
            qkv = [linear(g, h, f"l{i}.{n}", c * D, H, quant) for n, c in (("q", HEADS), ("k", KV), ("v", KV))]
        else:
            qkv = [linear(g, h, f"l{i}.qkv", (HEADS + 2 * KV) * D, H, quant), "", ""]
        a = g.op("GroupQueryAttention",
                 qkv + [f"past_key_values.{i}.key", f"past_key_values.{i}.value", lens, total, "cos", "sin"],
                 [f"l{i}.a", f"present.{i}.key", f"present.{i}.value"], domain="com.microsoft", num_heads=HEADS,
                 kv_num_heads=KV, do_rotary=1, rotary_interleaved=0 if quant else 1,
                 local_window_size=7 if i == 1 else -1)
        o = linear(g, a, f"l{i}.o", H, HEADS * D, quant)
        h = g.op("SkipSimplifiedLayerNormalization", [root, o, g.const(f"l{i}.n2", norm_weight())],
                 [f"l{i}.h2", "", "", f"l{i}.r2"], domain="com.microsoft", epsilon=1e-5)
        root = f"l{i}.r2"
        gate, up = linear(g, h, f"l{i}.gate", F, H, quant), linear(g, h, f"l{i}.up", F, H, quant)
        act = g.op("Mul", [g.op("Mul", [gate, g.op("Sigmoid", [gate])]), up])
        skip = linear(g, act, f"l{i}.down", H, F, quant)
        for kind in ("key", "value"):
            shape = ["batch_size", KV, "past_sequence_length", D]
            ins.append(helper.make_tensor_value_info(f"past_key_values.{i}.{kind}", TensorProto.FLOAT, shape))
            outs.append(helper.make_tensor_value_info(f"present.{i}.{kind}", TensorProto.FLOAT,
                                                      ["batch_size", KV, "total_sequence_length", D]))
    h = g.op("SkipSimplifiedLayerNormalization", [root, skip, g.const("final", norm_weight())],
             domain="com.microsoft", epsilon=1e-5)
    if quant:
        g.op("MatMulNBits", [h, "head.q", "head.s"], ["logits"], domain="com.microsoft", K=H, N=V, bits=8,
             block_size=16, accuracy_level=1)
    else:
        g.op("MatMul", [h, g.const("head", e.T)], ["logits"])
    return g, ins, outs


def row_toy():
    g = Graph()
    x = g.op("Gather", [g.const("embed", rng.standard_normal((V, H), dtype=np.float32)), "input_ids"])
    mean = g.op("ReduceMean", [x, g.const("axis", np.array([1], np.int64))], keepdims=1)
    x = g.op("Add", [x, g.op("Mul", [mean, g.const("tenth", np.array(0.1, np.float32))])])
    qkv = linear(g, x, "qkv", 3 * D, H, False)
    g.const("parts", np.array([D] * 3, np.int64))
    g.op("Split", [qkv, "parts"], ["q", "k", "v"], axis=-1)
    g.const("axis1", np.array([1], np.int64))
    q, k, v = (g.op("Unsqueeze", [n, "axis1"]) for n in "qkv")
    k = g.op("Concat", ["past_key_values.0.key", k], ["present.0.key"], axis=2)
    v = g.op("Concat", ["past_key_values.0.value", v], ["present.0.value"], axis=2)
    s = g.op("Mul", [g.op("MatMul", [q, g.op("Transpose", [k], perm=[0, 1, 3, 2])]),
                     g.const("scale", np.array(D ** -0.5, np.float32))])
    # causal: position of the query against the index of the key
    p = g.op("Unsqueeze", ["position_ids", g.const("axes12", np.array([1, 3], np.int64))])
    n = g.op("Gather", [g.op("Shape", ["attention_mask"]), g.const("i1", np.array(1, np.int64))])
    j = g.op("Range", [g.const("zero", np.array(0, np.int64)), n, g.const("step", np.array(1, np.int64))])
    s = g.op("Where", [g.op("LessOrEqual", [j, p]), s, g.const("low", np.array(-1e9, np.float32))])
    a = g.op("Squeeze", [g.op("MatMul", [g.op("Softmax", [s], axis=-1), v]), "axis1"])
    x = g.op("Add", [x, linear(g, a, "o", H, D, False)])
    g.op("MatMul", [x, g.const("head", rng.standard_normal((H, V), dtype=np.float32))], ["logits"])
    ins = [helper.make_tensor_value_info(f"past_key_values.0.{n}", TensorProto.FLOAT, ["batch_size", 1, "past", D])
           for n in ("key", "value")]
    outs = [helper.make_tensor_value_info(f"present.0.{n}", TensorProto.FLOAT, ["batch_size", 1, "total", D])
            for n in ("key", "value")]
    return g, ins, outs


def save(name, g, ins, outs, with_positions):
    i64 = TensorProto.INT64
    base = [helper.make_tensor_value_info("input_ids", i64, ["batch_size", "sequence_length"]),
            helper.make_tensor_value_info("attention_mask", i64, ["batch_size", "total_sequence_length"])]
    if with_positions:
        base.append(helper.make_tensor_value_info("position_ids", i64, ["batch_size", "sequence_length"]))
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch_size", "sequence_length", V])
    m = helper.make_model(helper.make_graph(g.nodes, name, base + ins, [logits] + outs, g.inits),
                          opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])
    m.ir_version = 10
    d = HERE / name
    d.mkdir(parents=True, exist_ok=True)
    onnx.save(m, d / "model.onnx")
    s = ort.InferenceSession(str(d / "model.onnx"))
    feed = {"input_ids": np.array([IDS], np.int64), "attention_mask": np.ones((1, len(IDS)), np.int64)}
    if with_positions:
        feed["position_ids"] = np.arange(len(IDS), dtype=np.int64)[None]
    for i in ins:
        feed[i.name] = np.zeros((1, 1, 0, D), np.float32)
    y = s.run(["logits"], feed)[0][0]
    y.astype(np.float32).tofile(d / "logits.f32")
    print(name, (d / "model.onnx").stat().st_size, float(np.abs(y).max()))


if __name__ == "__main__":
    save("q4", *builder_toy(True), False)
    save("f32", *builder_toy(False), False)
    save("row", *row_toy(), True)
    sys.exit(0)
