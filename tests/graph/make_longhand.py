# SPDX-License-Identifier: Apache-2.0
"""Writes tiny decoders in the manner of torch.onnx / optimum / transformers.js exports: thousands of
small nodes, nothing fused. The judge of their correctness as graphs is ONNX Runtime, which runs each
of them here (one prompt against the same prompt in two steps); the test only counts what the passes
find in them.

    python tests/graph/make_longhand.py          writes tests/graph/longhand/*.onnx
"""
import math
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

HIDDEN, LAYERS, VOCAB, INTER = 16, 2, 44, 24


class Graph:
    def __init__(self, seed):
        self.nodes, self.inits, self.n = [], {}, 0
        self.rng = np.random.default_rng(seed)

    def op(self, op, *inputs, n_out=1, domain="", **attrs):
        self.n += 1
        outs = [f"/{op}_{self.n}_output_{i}" for i in range(n_out)]
        self.nodes.append(h.make_node(op, list(inputs), outs, f"/{op}_{self.n}", domain=domain, **attrs))
        return outs[0] if n_out == 1 else outs

    def const(self, array, name=None):
        array = np.asarray(array)
        if name is None:  # exporters write small constants as nodes
            self.n += 1
            out = f"/Constant_{self.n}_output_0"
            self.nodes.append(h.make_node("Constant", [], [out], value=nh.from_array(array)))
            return out
        self.inits[name] = nh.from_array(array, name)
        return name

    def i64(self, *v):
        return self.const(np.array(v, np.int64))

    def scalar(self, v, dtype=np.float32):
        return self.const(np.array(v, dtype))

    def dim(self, x, axis):
        return self.op("Gather", self.op("Shape", x), self.const(np.array(axis, np.int64)), axis=0)

    def shape_of(self, *parts):
        """A shape from scalars (values) and ints."""
        parts = [self.i64(p) if isinstance(p, int) else self.op("Unsqueeze", p, self.i64(0)) for p in parts]
        return self.op("Concat", *parts, axis=0)

    def weight(self, name, *shape):
        return self.const((self.rng.standard_normal(shape) * 0.2).astype(self.ftype), name)

    def product(self, x, name, n_in, n_out):
        """x W with the weight stored in each of the ways that exporters know."""
        w = self.rng.standard_normal((n_in, n_out)) * 0.2
        scale = (np.abs(w).max(0) / 127).astype(np.float32)
        q = np.round(w / scale).astype(np.int8)
        if self.weights == "transposed":
            w = self.const(w.T.astype(self.ftype).copy(), name + ".weight")
            return self.op("MatMul", x, self.op("Transpose", w, perm=[1, 0]))
        if self.weights == "gemm":
            w = self.const(w.T.astype(self.ftype).copy(), name + ".weight")
            flat = self.op("Reshape", x, self.i64(-1, n_in))
            y = self.op("Gemm", flat, w, transB=1)
            return self.op("Reshape", y, self.shape_of(self.dim(x, 0), self.dim(x, 1), n_out))
        if self.weights == "qdq":  # a scale a column
            w = self.op("DequantizeLinear", self.const(q, name + ".weight_q"), self.const(scale, name + ".scale"),
                        self.const(np.zeros(n_out, np.int8), name + ".zero"), axis=1)
            return self.op("MatMul", x, w)
        if self.weights == "qdq_t":  # rows of the transposed weight, uint8 with zero points
            u = (q.T.astype(np.int32) + 128).astype(np.uint8).copy()
            w = self.op("DequantizeLinear", self.const(u, name + ".weight_q"), self.const(scale, name + ".scale"),
                        self.const(np.full(n_out, 128, np.uint8), name + ".zero"), axis=0)
            return self.op("MatMul", x, self.op("Transpose", w, perm=[1, 0]))
        if self.weights == "qdq4":  # int4, blocks of 8 along the inputs
            blocks = w.reshape(n_in // 8, 8, n_out)
            s4 = (np.abs(blocks).max(1) / 7).astype(np.float32)
            q4 = np.clip(np.round(blocks / s4[:, None]), -8, 7).reshape(n_in, n_out)
            self.inits[name + ".weight_q4"] = h.make_tensor(name + ".weight_q4", T.INT4, [n_in, n_out], q4.astype(int).ravel().tolist())
            w = self.op("DequantizeLinear", name + ".weight_q4", self.const(s4, name + ".scale"), axis=0, block_size=8)
            return self.op("MatMul", x, w)
        if self.weights == "nbits":
            blocks = -(-n_in // 16)
            b = self.const(self.rng.integers(0, 256, (n_out, blocks, 8)).astype(np.uint8), name + ".weight_Q4")
            sc = self.const((self.rng.random((n_out, blocks)) * 0.05).astype(np.float32), name + ".scales")
            z = self.const(self.rng.integers(0, 256, (n_out, (blocks + 1) // 2)).astype(np.uint8), name + ".zero_points")
            return self.op("MatMulNBits", x, b, sc, z, domain="com.microsoft", K=n_in, N=n_out, bits=4, block_size=16)
        if self.weights == "dynamic":
            a, sa, za = self.op("DynamicQuantizeLinear", x, n_out=3)
            one = np.float32(scale.max())
            q = np.round(w / one).astype(np.int8)
            y = self.op("MatMulInteger", a, self.const(q, name + ".weight_quantized"), za, self.const(np.int8(0), name + ".zero"))
            return self.op("Mul", self.op("Cast", y, to=T.FLOAT), self.op("Mul", sa, self.const(one, name + ".scale")))
        return self.op("MatMul", x, self.const(w.astype(self.ftype), name + ".weight_T"))

    def linear(self, x, name, n_in, n_out, bias=False):
        y = self.product(x, name, n_in, n_out)
        return self.op("Add", self.weight(name + ".bias", n_out), y) if bias else y


def rms_norm(g, x, name, size, o):
    w = g.weight(name, size)
    if o["half"]:
        x = g.op("Cast", x, to=T.FLOAT)
    sq = g.op("Pow", x, g.scalar(2.0))
    mean = g.op("ReduceMean", sq, axes=[-1]) if o["opset"] < 18 else g.op("ReduceMean", sq, g.i64(-1))
    root = g.op("Sqrt", g.op("Add", mean, g.scalar(o["eps"])))
    inv = g.op("Reciprocal", root) if o["recip"] else g.op("Div", g.scalar(1.0), root)
    y = g.op("Mul", x, inv)
    if o["gemma"]:  # weights are stored less one
        wf = g.op("Cast", w, to=T.FLOAT) if o["half"] else w
        y = g.op("Mul", y, g.op("Add", wf, g.scalar(1.0)))
        return g.op("Cast", y, to=T.FLOAT16) if o["half"] else y
    if o["half"]:
        y = g.op("Cast", y, to=T.FLOAT16)
    return g.op("Mul", w, y)


def rotate_half(g, x, size, o):
    if o["split"]:
        a, b = g.op("Split", x, g.i64(size // 2, size // 2), n_out=2, axis=-1)
    else:
        half = size // 2
        a = g.op("Slice", x, g.i64(0), g.i64(half), g.i64(3), g.i64(1))
        b = g.op("Slice", x, g.i64(half), g.i64(2**63 - 1), g.i64(3), g.i64(1))
    return g.op("Concat", g.op("Neg", b), a, axis=-1)


def rotate(g, x, cos, sin, size, o):
    if o["partial"]:
        rd = size // 2
        lower = g.op("Slice", x, g.i64(0), g.i64(rd), g.i64(3), g.i64(1))
        upper = g.op("Slice", x, g.i64(rd), g.i64(2**63 - 1), g.i64(3), g.i64(1))
        turned = g.op("Add", g.op("Mul", lower, cos), g.op("Mul", rotate_half(g, lower, rd, o), sin))
        return g.op("Concat", turned, upper, axis=-1)
    return g.op("Add", g.op("Mul", x, cos), g.op("Mul", rotate_half(g, x, size, o), sin))


def cos_sin(g, positions, size, theta, o, batch):
    dim = size // 2 if o["partial"] else size
    inv = (1.0 / theta ** (np.arange(0, dim, 2) / dim)).astype(np.float32)
    if o["table"]:
        t = np.outer(np.arange(64), inv).astype(np.float32)
        t = np.concatenate([t, t], -1)
        c = g.op("Gather", g.const(np.cos(t).astype(g.ftype)), positions, axis=0)
        s = g.op("Gather", g.const(np.sin(t).astype(g.ftype)), positions, axis=0)
    else:
        shape = g.shape_of(batch, -1, 1)
        inv = g.op("Expand", g.const(inv.reshape(1, -1, 1)), g.op(
            "Where", g.op("Equal", shape, g.op("Mul", g.op("ConstantOfShape", g.i64(3), value=h.make_tensor("v", T.INT64, [1], [1])), g.i64(-1))),
            g.op("ConstantOfShape", g.i64(3), value=h.make_tensor("v", T.INT64, [1], [1])), shape))
        p = g.op("Cast", g.op("Unsqueeze", positions, g.i64(1)), to=T.FLOAT)
        freqs = g.op("Transpose", g.op("MatMul", inv, p), perm=[0, 2, 1])
        both = g.op("Concat", freqs, freqs, axis=-1)
        c, s = g.op("Mul", g.op("Cos", both), g.scalar(1.0)), g.op("Mul", g.op("Sin", both), g.scalar(1.0))
        if o["half"]:
            c, s = g.op("Cast", c, to=T.FLOAT16), g.op("Cast", s, to=T.FLOAT16)
    return g.op("Unsqueeze", c, g.i64(1)), g.op("Unsqueeze", s, g.i64(1))


def repeat_kv(g, x, batch, kv, rep, total, size):
    if rep == 1:
        return x
    wide = g.shape_of(batch, kv, rep, total, size)
    ones = g.op("ConstantOfShape", g.op("Shape", wide), value=h.make_tensor("v", T.INT64, [1], [1]))
    wide = g.op("Where", g.op("Equal", wide, g.op("Mul", ones, g.i64(-1))), ones, wide)
    x = g.op("Expand", g.op("Unsqueeze", x, g.i64(2)), wide)
    return g.op("Reshape", x, g.shape_of(batch, kv * rep, total, size))


LOW = {np.float32: -3.4028234663852886e38, np.float16: -65504.0}


def mask_scatter(g, seq, total, past, batch, window, o):
    """transformers' _prepare_4d_causal_attention_mask_with_cache_position."""
    low = LOW[g.ftype]
    full = g.op("ConstantOfShape", g.shape_of(seq, total), value=nh.from_array(np.array([low], g.ftype)))
    m = g.op("Trilu", full, g.const(np.array(1, np.int64)), upper=1)
    where = g.op("Range", g.const(np.array(0, np.int64)), total, g.const(np.array(1, np.int64)))
    rows = g.op("Range", past, g.op("Add", past, seq), g.const(np.array(1, np.int64)))
    later = g.op("Greater", where, g.op("Reshape", rows, g.i64(-1, 1)))
    if window:
        old = g.op("LessOrEqual", where, g.op("Sub", g.op("Reshape", rows, g.i64(-1, 1)), g.const(np.array(window, np.int64))))
        later = g.op("Or", later, old)
        m = full
    m = g.op("Mul", m, g.op("Cast", later, to=T.FLOAT16 if o["half"] else T.FLOAT))
    m = g.op("Unsqueeze", g.op("Unsqueeze", m, g.i64(0)), g.i64(1))
    m = g.op("Expand", m, g.shape_of(batch, 1, seq, total))
    part = g.op("Slice", m, g.i64(0), g.op("Unsqueeze", total, g.i64(0)), g.i64(3), g.i64(1))
    pad = g.op("Unsqueeze", g.op("Unsqueeze", "attention_mask", g.i64(1)), g.i64(2))
    pad = g.op("Cast", pad, to=T.FLOAT16 if o["half"] else T.FLOAT)
    hidden = g.op("Equal", g.op("Add", part, pad), g.scalar(0.0, g.ftype))
    filled = g.op("Where", hidden, g.scalar(low, g.ftype), part)
    # the assignment m[..., :total] = filled as the exporter writes it
    rest = [g.op("Range", g.const(np.array(0, np.int64)), d, g.const(np.array(1, np.int64)))
            for d in (batch, g.const(np.array(1, np.int64)), seq, total)]
    for i, r in enumerate(rest):
        r = g.op("Reshape", r, g.i64(*[-1 if k == i else 1 for k in range(4)]))
        r = g.op("Expand", r, g.op("Shape", filled))
        rest[i] = g.op("Unsqueeze", r, g.i64(-1))
    return g.op("ScatterND", m, g.op("Concat", *rest, axis=-1), filled), "add"


def mask_bool(g, seq, total, past, batch, window, o):
    """The newer sdpa masks: a boolean from comparisons of indices and the padding mask."""
    one = g.const(np.array(1, np.int64))
    q = g.op("Add", g.op("Range", g.const(np.array(0, np.int64)), seq, one), past)
    k = g.op("Range", g.const(np.array(0, np.int64)), total, one)
    q, k = g.op("Reshape", q, g.i64(1, 1, -1, 1)), g.op("Reshape", k, g.i64(1, 1, 1, -1))
    seen = g.op("LessOrEqual", k, q)
    if window:
        seen = g.op("And", g.op("Greater", k, g.op("Sub", q, g.i64(window))), seen)
    pad = g.op("Cast", "attention_mask", to=T.BOOL)
    pad = g.op("GatherND", pad, g.op("Concat", g.op("Unsqueeze", g.op("Expand", g.op("Reshape", g.op("Range", g.const(np.array(0, np.int64)), batch, one), g.i64(-1, 1)), g.shape_of(batch, total)), g.i64(-1)),
                                     g.op("Unsqueeze", g.op("Expand", g.op("Reshape", k, g.i64(1, -1)), g.shape_of(batch, total)), g.i64(-1)), axis=-1))
    pad = g.op("Unsqueeze", pad, g.i64(1, 2))
    return g.op("And", seen, pad), "where"


def mask_old(g, seq, total, past, batch, window, o):
    """The older _make_causal_mask plus expanded padding mask."""
    low = g.scalar(LOW[g.ftype], g.ftype)
    r = g.op("Range", g.const(np.array(0, np.int64)), total, g.const(np.array(1, np.int64)))
    mine = g.op("Slice", r, g.op("Unsqueeze", past, g.i64(0)), g.op("Unsqueeze", total, g.i64(0)), g.i64(0), g.i64(1))
    less = g.op("Less", g.op("Unsqueeze", r, g.i64(0)), g.op("Add", g.op("Unsqueeze", mine, g.i64(1)), g.const(np.array(1, np.int64))))
    m = g.op("Where", less, g.scalar(0.0, g.ftype), low)
    pad = g.op("Cast", "attention_mask", to=T.FLOAT16 if o["half"] else T.FLOAT)
    pad = g.op("Sub", g.scalar(1.0, g.ftype), g.op("Unsqueeze", pad, g.i64(1, 2)))
    pad = g.op("Where", g.op("Cast", pad, to=T.BOOL), low, g.scalar(0.0, g.ftype))
    m = g.op("Expand", g.op("Unsqueeze", m, g.i64(0, 1)), g.shape_of(batch, 1, seq, total))
    return g.op("Max", g.op("Add", m, pad), low), "add"


MASKS = {"scatter": mask_scatter, "bool": mask_bool, "old": mask_old}


def attention(g, x, layer, cos, sin, mask, kind, batch, seq, o):
    heads, kv, size = o["heads"], o["kv"], o["size"]
    if o["packed"]:
        qkv = g.linear(x, f"l{layer}.qkv", HIDDEN, (heads + 2 * kv) * size)
        cut = lambda a, b: g.op("Slice", qkv, g.i64(a), g.i64(b), g.i64(2), g.i64(1))
        q, k, v = cut(0, heads * size), cut(heads * size, (heads + kv) * size), cut((heads + kv) * size, (heads + 2 * kv) * size)
    else:
        q = g.linear(x, f"l{layer}.q", HIDDEN, heads * size, o["bias"])
        k = g.linear(x, f"l{layer}.k", HIDDEN, kv * size, o["bias"])
        v = g.linear(x, f"l{layer}.v", HIDDEN, kv * size, o["bias"])

    def apart(t, n, norm):
        t = g.op("Reshape", t, g.shape_of(batch, seq, n, size))
        if norm and not o["gemma"]:
            t = rms_norm(g, t, f"l{layer}.{norm}", size, o)
        t = g.op("Transpose", t, perm=[0, 2, 1, 3])
        if norm and o["gemma"]:
            t = rms_norm(g, t, f"l{layer}.{norm}", size, o)
        return t

    q = apart(q, heads, o["qk_norm"] and "q_norm")
    k = apart(k, kv, o["qk_norm"] and "k_norm")
    v = apart(v, kv, None)
    if o["operator"] == "gqa":
        return grouped_operator(g, q, k, v, layer, batch, seq, o)
    q, k = rotate(g, q, cos, sin, size, o), rotate(g, k, cos, sin, size, o)
    if o["operator"]:
        return attention_operator(g, q, k, v, layer, mask, batch, seq, o)
    k = g.op("Concat", f"past_key_values.{layer}.key", k, axis=2)
    v = g.op("Concat", f"past_key_values.{layer}.value", v, axis=2)
    present = (k, v)
    total = g.dim(k, 2)
    k = repeat_kv(g, k, batch, kv, heads // kv, total, size)
    v = repeat_kv(g, v, batch, kv, heads // kv, total, size)
    k = g.op("Transpose", k, perm=[0, 1, 3, 2])
    if o["scale"] == "both":
        r = g.scalar(math.sqrt(1 / math.sqrt(size)), g.ftype)
        s = g.op("MatMul", g.op("Mul", q, r), g.op("Mul", k, r))
    elif o["scale"] == "div":
        s = g.op("Div", g.op("MatMul", q, k), g.scalar(math.sqrt(size), g.ftype))
    else:
        s = g.op("Mul", g.op("MatMul", q, k), g.scalar(1 / math.sqrt(size), g.ftype))
    if o["softcap"]:
        cap = g.scalar(o["softcap"], g.ftype)
        s = g.op("Mul", g.op("Tanh", g.op("Div", s, cap)), cap)
    if kind == "add":
        s = g.op("Add", s, mask)
    else:
        s = g.op("Where", mask, s, g.scalar(-np.inf if not o["half"] else -65504.0, g.ftype))
    if o["half"]:
        s = g.op("Cast", s, to=T.FLOAT)
    p = g.op("Softmax", s, axis=-1)
    if o["half"]:
        p = g.op("Cast", p, to=T.FLOAT16)
    if kind == "where":
        p = g.op("Where", g.op("IsNaN", p), g.scalar(0.0, g.ftype), p)
    y = g.op("Transpose", g.op("MatMul", p, v), perm=[0, 2, 1, 3])
    y = g.op("Reshape", y, g.shape_of(batch, seq, heads * size))
    return g.linear(y, f"l{layer}.o", heads * size, HIDDEN), present


def attention_operator(g, q, k, v, layer, mask, batch, seq, o):
    """Attention of opset 23, with the cache inside of it or joined before."""
    heads, kv, size = o["heads"], o["kv"], o["size"]
    past = [f"past_key_values.{layer}.{p}" for p in ("key", "value")]
    if o["operator"] == "flat":
        flat = lambda t, n: g.op("Reshape", g.op("Transpose", t, perm=[0, 2, 1, 3]), g.i64(0, 0, n * size))
        y, k, v = g.op("Attention", flat(q, heads), flat(k, kv), flat(v, kv), mask, *past, n_out=3, q_num_heads=heads, kv_num_heads=kv)
    else:
        k, v = g.op("Concat", past[0], k, axis=2), g.op("Concat", past[1], v, axis=2)
        y = g.op("Attention", q, k, v, mask, scale=1 / math.sqrt(size))
        y = g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3]), g.shape_of(batch, seq, heads * size))
    return g.linear(y, f"l{layer}.o", heads * size, HIDDEN), (k, v)


def grouped_operator(g, q, k, v, layer, batch, seq, o):
    """The builder's form without rotation inside: RotaryEmbedding, then GroupQueryAttention."""
    heads, kv, size = o["heads"], o["kv"], o["size"]
    flat = lambda t, n: g.op("Reshape", g.op("Transpose", t, perm=[0, 2, 1, 3]), g.i64(0, 0, n * size))
    angles = np.outer(np.arange(64), 1 / 10000.0 ** (np.arange(0, size, 2) / size))
    c, s = g.const(np.cos(angles).astype(g.ftype)), g.const(np.sin(angles).astype(g.ftype))
    turn = lambda t, n: g.op("RotaryEmbedding", flat(t, n), "position_ids", c, s, domain="com.microsoft", num_heads=n, rotary_embedding_dim=size)
    seqlens = g.op("Cast", g.op("Sub", g.op("ReduceSum", "attention_mask", g.i64(1), keepdims=0), g.i64(1)), to=T.INT32)
    total = g.op("Cast", g.dim("attention_mask", 1), to=T.INT32)
    y, k, v = g.op("GroupQueryAttention", turn(q, heads), turn(k, kv), flat(v, kv), f"past_key_values.{layer}.key",
                   f"past_key_values.{layer}.value", seqlens, total, n_out=3, domain="com.microsoft", num_heads=heads, kv_num_heads=kv)
    return g.linear(y, f"l{layer}.o", heads * size, HIDDEN), (k, v)


def mlp(g, x, layer, o):
    if o["packed"]:
        both = g.linear(x, f"l{layer}.gate_up", HIDDEN, 2 * INTER)
        gate, up = g.op("Split", both, g.i64(INTER, INTER), n_out=2, axis=-1)
    else:
        gate, up = g.linear(x, f"l{layer}.gate", HIDDEN, INTER), g.linear(x, f"l{layer}.up", HIDDEN, INTER)
    s = lambda v: g.scalar(v, g.ftype)
    if o["act"] == "silu":
        a = g.op("Mul", gate, g.op("Sigmoid", gate))
    elif o["act"] == "erf":
        a = g.op("Mul", g.op("Mul", gate, g.op("Add", g.op("Erf", g.op("Div", gate, s(math.sqrt(2)))), s(1.0))), s(0.5))
    else:
        cube = g.op("Mul", g.op("Pow", gate, s(3.0)), s(0.044715))
        t = g.op("Tanh", g.op("Mul", g.op("Add", gate, cube), s(math.sqrt(2 / math.pi))))
        a = g.op("Mul", g.op("Mul", gate, s(0.5)), g.op("Add", t, s(1.0)))
    return g.linear(g.op("Mul", a, up), f"l{layer}.down", INTER, HIDDEN)


DEFAULTS = dict(heads=4, kv=2, size=8, half=False, gemma=False, qk_norm=False, softcap=0, window=0, partial=False,
                packed=False, bias=False, split=False, table=False, recip=False, mask="scatter", scale="mul", act="silu",
                opset=17, prune=False, positions=True, weights="dense", operator=None,
                theta=10000.0, eps=1e-6)

MODELS = {
    "llama": dict(),
    "llama_half": dict(half=True, recip=True, mask="scatter", opset=18),
    "llama_old": dict(mask="old", scale="div", split=True, opset=14),
    "qwen2": dict(bias=True, mask="bool", scale="both", recip=True, opset=18, kv=4),
    "qwen3": dict(qk_norm=True, mask="bool", recip=True, opset=18, prune=True),
    "gemma3": dict(gemma=True, qk_norm=True, kv=1, act="tanh", window=7, mask="scatter"),
    "gemma2": dict(gemma=True, softcap=50.0, act="tanh", window=9, mask="bool", scale="mul", opset=18),
    "phi3": dict(packed=True, split=True, window=11, mask="old_window", table=True),
    "partial": dict(partial=True, act="erf", mask="scatter", positions=False),
    "transposed": dict(weights="transposed", bias=True),
    "gemm": dict(weights="gemm", prune="gather"),
    "qdq": dict(weights="qdq", prune="gather"),
    "qdq_t": dict(weights="qdq_t", mask="old", opset=18, recip=True),
    "qdq4": dict(weights="qdq4", mask="bool", opset=21, recip=True),
    "nbits": dict(weights="nbits", bias=True),
    "dynamic": dict(weights="dynamic"),
    "grouped": dict(operator="gqa", opset=21),
    "operator": dict(operator="heads", mask="bool", opset=23, recip=True),
    "operator_flat": dict(operator="flat", mask="old", opset=23, recip=True),
}


def build(name, seed=7, check=True):
    o = dict(DEFAULTS, **MODELS[name])
    if o["mask"] == "old_window":
        o["mask"] = "scatter"
    g = Graph(seed)
    g.ftype = np.float16 if o["half"] else np.float32
    g.weights = o["weights"]
    f = T.FLOAT16 if o["half"] else T.FLOAT
    batch, seq = g.dim("input_ids", 0), g.dim("input_ids", 1)
    past = g.dim("past_key_values.0.key", 2)
    total = g.op("Add", past, seq)
    x = g.op("Gather", g.weight("embed", VOCAB, HIDDEN), "input_ids", axis=0)
    if o["gemma"]:
        x = g.op("Mul", x, g.scalar(math.sqrt(HIDDEN), g.ftype))
    positions = "position_ids"
    if not o["positions"]:
        positions = g.op("Unsqueeze", g.op("Range", past, total, g.const(np.array(1, np.int64))), g.i64(0))
        positions = g.op("Expand", positions, g.shape_of(batch, seq))
    rope = [cos_sin(g, positions, o["size"], t, o, batch) for t in ([10000.0, 1e6] if o["gemma"] else [o["theta"]])]
    masks = [(None, None)] if o["operator"] == "gqa" else [MASKS[o["mask"]](g, seq, total, past, batch, w, o) for w in ([0, o["window"]] if o["window"] else [0])]
    presents = []
    for i in range(LAYERS):
        m, kind = masks[i % len(masks)]
        c, s = rope[i % len(rope)]
        a, present = attention(g, rms_norm(g, x, f"l{i}.input_norm", HIDDEN, o), i, c, s, m, kind, batch, seq, o)
        if o["gemma"]:
            a = rms_norm(g, a, f"l{i}.post_attn_norm", HIDDEN, o)
        x = g.op("Add", x, a)
        y = mlp(g, rms_norm(g, x, f"l{i}.post_norm", HIDDEN, o), i, o)
        if o["gemma"]:
            y = rms_norm(g, y, f"l{i}.post_mlp_norm", HIDDEN, o)
        x = g.op("Add", x, y)
        presents.append(present)
    x = rms_norm(g, x, "norm", HIDDEN, o)
    if o["prune"] == "gather":
        x = g.op("Gather", x, g.const(np.array(-1, np.int64)), axis=1)
    elif o["prune"] == "keep":  # hidden_states[:, -num_logits_to_keep:]
        x = g.op("Slice", x, g.op("Unsqueeze", g.op("Neg", "num_logits_to_keep"), g.i64(0)), g.i64(2**63 - 1), g.i64(1), g.i64(1))
    elif o["prune"]:
        x = g.op("Slice", x, g.i64(-1), g.i64(2**63 - 1), g.i64(1), g.i64(1))
    if o["prune"] == "gather":
        g.weights = "dense"
    logits = g.linear(x, "lm_head", HIDDEN, VOCAB)
    if o["half"]:
        logits = g.op("Cast", logits, to=T.FLOAT)
    rename = {logits: "logits"}
    for i, (k, v) in enumerate(presents):
        rename[k], rename[v] = f"present.{i}.key", f"present.{i}.value"
    for n in g.nodes:
        for part in (n.input, n.output):
            for i, v in enumerate(part):
                part[i] = rename.get(v, v)
    vi = h.make_tensor_value_info
    inputs = [vi("input_ids", T.INT64, ["batch_size", "sequence_length"]),
              vi("attention_mask", T.INT64, ["batch_size", "past_sequence_length + sequence_length" if o["opset"] < 18 else "total_sequence_length"])]
    if o["positions"]:
        inputs.append(vi("position_ids", T.INT64, ["batch_size", "sequence_length"]))
    if o["prune"] == "keep":
        inputs.append(vi("num_logits_to_keep", T.INT64, []))
    outputs = [vi("logits", T.FLOAT, [None, VOCAB] if o["prune"] == "gather" else [None, None, VOCAB])]
    for i in range(LAYERS):
        for part in ("key", "value"):
            inputs.append(vi(f"past_key_values.{i}.{part}", f, ["batch_size", o["kv"], "past_sequence_length", o["size"]]))
            outputs.append(vi(f"present.{i}.{part}", f, [None, o["kv"], None, o["size"]]))
    graph = h.make_graph(g.nodes, name, inputs, outputs, list(g.inits.values()))
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", o["opset"]), h.make_opsetid("com.microsoft", 1)], ir_version=8 if o["opset"] < 21 else 10 if o["opset"] < 23 else 11, producer_name="weft tests")
    if check:  # not for models of more than 2 GB
        onnx.checker.check_model(model)
    return model, o


def judge(model, o):
    """ONNX Runtime runs the prompt at once and in two steps: the graph is a decoder."""
    import onnxruntime as ort
    so = ort.SessionOptions()
    so.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    s = ort.InferenceSession(model.SerializeToString(), so, providers=["CPUExecutionProvider"])
    ids = np.array([[3, 9, 1, 40, 22, 17, 5, 8, 30, 2, 11, 12, 13, 6]], np.int64)
    dtype = np.float16 if o["half"] else np.float32

    def run(part, past):
        p = past[0].shape[2]
        feed = {"input_ids": part, "attention_mask": np.ones((1, p + part.shape[1]), np.int64)}
        if o["positions"]:
            feed["position_ids"] = np.arange(p, p + part.shape[1], dtype=np.int64)[None]
        if o["prune"] == "keep":
            feed["num_logits_to_keep"] = np.array(0, np.int64)
        for i in range(LAYERS):
            feed[f"past_key_values.{i}.key"], feed[f"past_key_values.{i}.value"] = past[2 * i], past[2 * i + 1]
        out = s.run(None, feed)
        return out[0], out[1:]

    empty = [np.zeros((1, o["kv"], 0, o["size"]), dtype)] * (2 * LAYERS)
    whole, _ = run(ids, empty)
    first, past = run(ids[:, :9], empty)
    second, _ = run(ids[:, 9:], past)
    last = (lambda y: y) if o["prune"] == "gather" else (lambda y: y[:, -1])
    worst = np.abs(last(whole) - last(second)).max()
    # Statistics over the sequence make two steps another computation than one.
    allowed = 2e-2 if o["half"] else 0.5 if o["weights"] == "dynamic" else 1e-4
    assert np.isfinite(whole).all() and worst < allowed, worst


def main():
    out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "longhand")
    os.makedirs(out, exist_ok=True)
    for name in MODELS if len(sys.argv) < 2 else sys.argv[1:]:
        model, o = build(name)
        judge(model, o)
        path = os.path.join(out, name + ".onnx")
        onnx.save(model, path)
        print(name, len(model.graph.node), "nodes", os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
