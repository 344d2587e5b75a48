# SPDX-License-Identifier: Apache-2.0
"""Small GGUF models with random weights, and a plain numpy decoder that reads them back.

The judge of block formats is gguf-py's own `dequantize`; the decoder below is the definition of the
architectures in float64, written from their papers and from llama.cpp's published behaviour.
"""
import numpy as np
import gguf
from gguf import GGMLQuantizationType as Q

BLOCKS = {  # type -> (elements, bytes, places of half-precision numbers in a block)
    Q.Q4_0: (32, 18, (0,)), Q.Q4_1: (32, 20, (0, 2)), Q.Q5_0: (32, 22, (0,)),
    Q.Q5_1: (32, 24, (0, 2)), Q.Q8_0: (32, 34, (0,)), Q.Q4_K: (256, 144, (0, 2)),
    Q.Q5_K: (256, 176, (0, 2)), Q.Q6_K: (256, 210, (208,)),
}
# One standard deviation of q - centre, so that weights come out near a wanted size.
SPREAD = {Q.Q4_0: 4.6, Q.Q4_1: 4.6, Q.Q5_0: 9.2, Q.Q5_1: 9.2, Q.Q8_0: 74, Q.Q4_K: 4.6 * 32,
          Q.Q5_K: 9.2 * 32, Q.Q6_K: 18.5 * 74}


def random_blocks(rng, kind, n, k, size):
    """Random legal blocks: every bit pattern of the integers, sane half-precision scales, some of
    them zero with a minimum that is not."""
    block, n_bytes, halves = BLOCKS[kind]
    rows = rng.integers(0, 256, (n, k // block, n_bytes), dtype=np.uint8)
    for place in halves:
        if place == 2:  # a minimum
            centre = {Q.Q4_1: 7.5, Q.Q5_1: 15.5}.get(kind)
            if centre:
                v = -scale[..., 0] * centre * rng.uniform(0.8, 1.2, scale.shape[:-1])
            else:
                v = scale[..., 0] * (7.5 if kind == Q.Q4_K else 15.5)
            v[rng.random(v.shape) < 0.05] *= -1
            v = v[..., None]
        else:
            v = size / SPREAD[kind] * rng.uniform(0.5, 1.5, (n, k // block, 1))
            v[rng.random(v.shape) < 0.05] = 0
            if kind in (Q.Q4_0, Q.Q8_0, Q.Q6_K, Q.Q5_0):
                v[rng.random(v.shape) < 0.3] *= -1
            scale = v
        rows[..., place:place + 2] = v.astype(np.float16).view(np.uint8)
    return rows.reshape(n, -1)


class Maker:
    def __init__(self, path, arch, kind, seed, n_vocab=96, layers=2, hidden=256, heads=4, kv=2,
                 head_dim=64, ffn=512, context=128, tied=True, extra=None):
        self.rng = np.random.default_rng(seed)
        self.w = gguf.GGUFWriter(path, arch)
        self.kind, self.arch = kind, arch
        self.hidden = hidden
        w = self.w
        w.add_name(f"toy {arch}")
        w.add_context_length(context)
        w.add_embedding_length(hidden)
        w.add_block_count(layers)
        w.add_feed_forward_length(ffn)
        w.add_head_count(heads)
        w.add_head_count_kv(kv)
        w.add_key_length(head_dim)
        w.add_value_length(head_dim)
        w.add_layer_norm_rms_eps(1e-5)
        w.add_rope_dimension_count(head_dim)
        for key, value in (extra or {}).items():
            {str: w.add_string, int: w.add_uint32, float: w.add_float32, bool: w.add_bool}[
                type(value)](key, value)
        self.tokenizer(n_vocab)
        self.matrix("token_embd.weight", n_vocab, hidden, 1.0)
        if not tied:
            self.matrix("output.weight", n_vocab, hidden, hidden ** -0.5)
        self.vector("output_norm.weight", hidden, 1)
        q, k = heads * head_dim, kv * head_dim
        for i in range(layers):
            p = f"blk.{i}."
            self.vector(p + "attn_norm.weight", hidden, 1)
            self.vector(p + "ffn_norm.weight", hidden, 1)
            if arch == "phi3":
                self.matrix(p + "attn_qkv.weight", q + 2 * k, hidden, hidden ** -0.5)
                self.matrix(p + "ffn_up.weight", 2 * ffn, hidden, hidden ** -0.5)
            else:
                self.matrix(p + "attn_q.weight", q, hidden, 2 * hidden ** -0.5)
                self.matrix(p + "attn_k.weight", k, hidden, 2 * hidden ** -0.5)
                self.matrix(p + "attn_v.weight", k, hidden, hidden ** -0.5)
                self.matrix(p + "ffn_gate.weight", ffn, hidden, hidden ** -0.5)
                self.matrix(p + "ffn_up.weight", ffn, hidden, hidden ** -0.5)
            if arch == "qwen2":
                self.vector(p + "attn_q.bias", q, 0)
                self.vector(p + "attn_k.bias", k, 0)
                self.vector(p + "attn_v.bias", k, 0)
            if arch in ("qwen3", "gemma3"):
                self.vector(p + "attn_q_norm.weight", head_dim, 1)
                self.vector(p + "attn_k_norm.weight", head_dim, 1)
            if arch == "gemma3":
                self.vector(p + "post_attention_norm.weight", hidden, 1)
                self.vector(p + "post_ffw_norm.weight", hidden, 1)
            self.matrix(p + "attn_output.weight", hidden, q, q ** -0.5)
            self.matrix(p + "ffn_down.weight", hidden, ffn, ffn ** -0.5)

    def tokenizer(self, n):
        """Byte-level characters, a few control tokens, one merge."""
        w = self.w
        tokens = ["<|end|>", "<|start|>", "!!"] + [chr(c) for c in range(33, 126)]
        tokens = (tokens + [f"<pad{i}>" for i in range(n)])[:n]
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre("gpt-2")
        w.add_token_list(tokens)
        w.add_token_types([3 if t.startswith("<") and len(t) > 1 else 1 for t in tokens])
        w.add_token_merges(["! !"])
        w.add_eos_token_id(0)
        w.add_bos_token_id(1)
        w.add_add_bos_token(False)

    def vector(self, name, n, mean):
        self.w.add_tensor(name, (mean + 0.2 * self.rng.standard_normal(n)).astype(np.float32))

    def matrix(self, name, n, k, size):
        kind = self.kind(name) if callable(self.kind) else self.kind
        if kind in BLOCKS:
            self.w.add_tensor(name, random_blocks(self.rng, kind, n, k, size), raw_dtype=kind)
            return
        data = (size * self.rng.standard_normal((n, k))).astype(np.float32)
        if kind == Q.F16:
            data = data.astype(np.float16)
        if kind == Q.BF16:
            bits = (data.view(np.uint32) >> 16).astype(np.uint16)
            self.w.add_tensor(name, bits.view(np.uint8).reshape(n, -1), raw_dtype=kind)
            return
        self.w.add_tensor(name, data)

    def finish(self):
        self.w.write_header_to_file()
        self.w.write_kv_data_to_file()
        self.w.write_tensors_to_file()
        self.w.close()


class Reference:
    """Logits of a GGUF decoder in float64."""

    def __init__(self, path):
        r = gguf.GGUFReader(path)
        self.t = {}
        for t in r.tensors:
            shape = [int(x) for x in t.shape][::-1]
            self.t[t.name] = gguf.quants.dequantize(t.data, t.tensor_type).astype(
                np.float64).reshape(shape)
        self.f = {k: v.contents() for k, v in r.fields.items() if not k.startswith("tokenizer")}
        self.arch = self.f["general.architecture"]

    def get(self, key, default=None):
        return self.f.get(f"{self.arch}.{key}", default)

    def frequencies(self, windowed, total):
        dim = self.get("rope.dimension_count", self.get("attention.key_length"))
        base = self.get("rope.freq_base", 10000.0)
        magnitude = 1.0
        if self.arch == "gemma3" and windowed:
            return 10000.0 ** (-np.arange(0, dim, 2) / dim), 1.0
        f = float(base) ** (-np.arange(0, dim, 2) / dim)
        if "rope_freqs.weight" in self.t:
            f = f / self.t["rope_freqs.weight"]
        kind, factor = self.get("rope.scaling.type"), self.get("rope.scaling.factor", 1.0)
        original = self.get("rope.scaling.original_context_length", self.get("context_length"))
        if kind == "linear":
            f = f / factor
        if kind == "yarn":
            def column(n):
                return dim * np.log(original / (n * 2 * np.pi)) / (2 * np.log(base))
            low, high = max(np.floor(column(32)), 0), min(np.ceil(column(1)), dim - 1)
            ramp = np.clip((np.arange(dim // 2) - low) / max(high - low, 0.001), 0, 1)
            f = f / factor * ramp + f * (1 - ramp)
            magnitude = 1 + 0.1 * np.log(factor)
        if "rope_factors_long.weight" in self.t:
            which = "long" if total > original else "short"
            f = f / self.t[f"rope_factors_{which}.weight"]
            magnitude = self.get("rope.scaling.attn_factor", 1.0)
        return f, magnitude

    def rotate(self, x, f, magnitude):
        """x [s, heads, d]"""
        d = 2 * len(f)
        angle = np.outer(np.arange(len(x)), f)[:, None, :]
        c, s = np.cos(angle) * magnitude, np.sin(angle) * magnitude
        y = x.copy()
        if self.arch == "llama":  # neighbours are a pair
            a, b = x[..., 0:d:2], x[..., 1:d:2]
            y[..., 0:d:2], y[..., 1:d:2] = a * c - b * s, a * s + b * c
        else:
            a, b = x[..., :d // 2], x[..., d // 2:d]
            y[..., :d // 2], y[..., d // 2:d] = a * c - b * s, a * s + b * c
        return y

    def norm(self, x, name):
        eps = self.get("attention.layer_norm_rms_epsilon")
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * self.t[name]

    def linear(self, x, name):
        y = x @ self.t[name + ".weight"].T
        return y + self.t[name + ".bias"] if name + ".bias" in self.t else y

    def attention(self, x, i):
        p = f"blk.{i}."
        n = len(x)
        heads, kv = self.get("attention.head_count"), self.get("attention.head_count_kv")
        d = self.get("attention.key_length", self.get("embedding_length") // heads)
        if p + "attn_qkv.weight" in self.t:
            qkv = self.linear(x, p + "attn_qkv")
            q, k, v = np.split(qkv, [heads * d, (heads + kv) * d], -1)
        else:
            q, k, v = (self.linear(x, p + "attn_" + c) for c in "qkv")
        q, k, v = q.reshape(n, heads, d), k.reshape(n, kv, d), v.reshape(n, kv, d)
        if p + "attn_q_norm.weight" in self.t:
            q, k = self.norm(q, p + "attn_q_norm.weight"), self.norm(k, p + "attn_k_norm.weight")
        window = self.get("attention.sliding_window", 0)
        pattern = self.get("attention.sliding_window_pattern", 6) if self.arch == "gemma3" else 0
        windowed = bool(window) and (pattern == 0 or i % pattern != pattern - 1)
        f, magnitude = self.frequencies(windowed, n)
        q, k = self.rotate(q, f, magnitude), self.rotate(k, f, magnitude)
        k, v = np.repeat(k, heads // kv, 1), np.repeat(v, heads // kv, 1)
        a = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(d)
        distance = np.arange(n)[:, None] - np.arange(n)[None]
        allowed = (distance >= 0) & ((distance < window) if windowed else True)
        a = np.where(allowed, a, -np.inf)
        a = np.exp(a - a.max(-1, keepdims=True))
        a /= a.sum(-1, keepdims=True)
        return self.linear(np.einsum("hqk,khd->qhd", a, v).reshape(n, -1), p + "attn_output")

    def mlp(self, x, i):
        p = f"blk.{i}."
        if p + "ffn_gate.weight" in self.t:
            gate, up = self.linear(x, p + "ffn_gate"), self.linear(x, p + "ffn_up")
        else:
            gate, up = np.split(self.linear(x, p + "ffn_up"), 2, -1)
        if self.arch == "gemma3":
            gate = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate ** 3)))
        else:
            gate = gate / (1 + np.exp(-gate))
        return self.linear(gate * up, p + "ffn_down")

    def logits(self, ids):
        x = self.t["token_embd.weight"][ids]
        gemma = self.arch == "gemma3"
        if gemma:
            x = x * np.sqrt(self.get("embedding_length"))
        for i in range(self.get("block_count")):
            p = f"blk.{i}."
            y = self.attention(self.norm(x, p + "attn_norm.weight"), i)
            x = x + (self.norm(y, p + "post_attention_norm.weight") if gemma else y)
            y = self.mlp(self.norm(x, p + "ffn_norm.weight"), i)
            x = x + (self.norm(y, p + "post_ffw_norm.weight") if gemma else y)
        head = self.t.get("output.weight", self.t["token_embd.weight"])
        return self.norm(x, "output_norm.weight") @ head.T
