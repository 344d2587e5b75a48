# SPDX-License-Identifier: Apache-2.0
"""Operators against the judges: the node cases that the onnx package generates, with its expected
outputs, and com.microsoft operators against onnxruntime. Nothing of either is kept in the tree."""
import os
import pathlib
import subprocess

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


def find_tool():
    build = os.environ.get("WEFT_BUILD_DIR")
    for d in ([build] if build else []) + sorted(str(p) for p in (ROOT / "build").glob("*")) + [str(ROOT / "build")]:
        tool = pathlib.Path(d) / "backend_case_tool"
        if tool.is_file():
            return str(tool)
    return None


TOOL = find_tool()
pytestmark = pytest.mark.skipif(TOOL is None, reason="backend_case_tool is not built")

# Operators every case of which must pass, but for the cases named below.
OPERATORS = """Abs Add And ArgMax ArgMin Attention BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast
CausalConvWithState LinearAttention
CastLike Ceil Clip Concat Constant ConstantOfShape Conv Cos CumSum DequantizeLinear Div Dropout
DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand Flatten Floor Gather GatherElements GatherND Gelu
Gemm Greater GreaterOrEqual Identity If IsInf IsNaN LayerNormalization LeakyRelu Less LessOrEqual Log
LogSoftmax Loop MatMul MatMulInteger Max Min Mod Mul Neg NonZero Not OneHot Or Pad Pow QuantizeLinear
RMSNormalization Range Reciprocal ReduceL1 ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceMin
ReduceProd ReduceSum ReduceSumSquare Relu Reshape RotaryEmbedding Round ScatterElements ScatterND Shape
Sigmoid Sign Sin Size Slice Softmax Softplus Split Sqrt Squeeze Sub Sum Swish Tanh TensorScatter Tile TopK
Transpose Trilu Unsqueeze Where Xor""".split()

# Types weft has no use for (strings, 8- and 4-bit floats, sequences, optionals): refused, not computed.
REFUSED_TYPES = {TensorProto.STRING, TensorProto.COMPLEX64, TensorProto.COMPLEX128} | {
    getattr(TensorProto, n) for n in dir(TensorProto)
    if n.startswith("FLOAT8") or n.startswith("FLOAT4") or n.startswith("FLOAT6")}


def types_of(model):
    found = set()
    for v in list(model.graph.input) + list(model.graph.output):
        kind = v.type.WhichOneof("value")
        if kind != "tensor_type":
            return None
        found.add(v.type.tensor_type.elem_type)
    for n in model.graph.node:
        for a in n.attribute:
            if a.name in ("to", "output_dtype"):
                found.add(a.i)
            if a.type == onnx.AttributeProto.TENSOR:
                found.add(a.t.data_type)
    return found


def write_tensor(path, value, elem_type):
    if isinstance(value, onnx.TensorProto):
        elem_type, array = value.data_type, numpy_helper.to_array(value)
    else:
        array = np.asarray(value)
    t = numpy_helper.from_array(array) if not isinstance(value, onnx.TensorProto) else value
    raw = t.raw_data or numpy_helper.from_array(array).raw_data
    head = np.array([t.data_type, len(t.dims)], np.int32).tobytes() + np.array(list(t.dims), np.int64).tobytes()
    pathlib.Path(path).write_bytes(head + raw)


def read_tensor(path):
    data = pathlib.Path(path).read_bytes()
    dtype, rank = np.frombuffer(data[:8], np.int32)
    dims = np.frombuffer(data[8:8 + 8 * rank], np.int64)
    t = TensorProto(data_type=int(dtype), dims=[int(d) for d in dims], raw_data=data[8 + 8 * int(rank):])
    return int(dtype), numpy_helper.to_array(t)


def run_cases(folder, cases):
    """cases: (name, model, inputs); gives a list of outputs or the refusal's text for each."""
    for i, (_, model, inputs) in enumerate(cases):
        d = folder / str(i)
        d.mkdir()
        onnx.save(model, d / "model.onnx")
        for j, x in enumerate(inputs):
            write_tensor(d / f"in_{j}", x, 0)
    text = "".join(f"{folder / str(i)}\n" for i in range(len(cases)))
    p = subprocess.run([TOOL], input=text, capture_output=True, text=True, timeout=900)
    lines = p.stdout.splitlines()
    results = []
    for i, (_, model, _) in enumerate(cases):
        if i >= len(lines):
            results.append(f"the tool ended ({p.returncode}) {p.stderr[-300:]}")
        elif lines[i] != "ok":
            results.append(lines[i])
        else:
            results.append([read_tensor(folder / str(i) / f"out_{j}") for j in range(len(model.graph.output))])
        if i == len(lines):
            break
    return results


def differs(got, expected, rtol, atol):
    dtype, value = got
    expected = numpy_helper.to_array(expected) if isinstance(expected, onnx.TensorProto) else np.asarray(expected)
    if value.shape != expected.shape:
        return f"shape {value.shape} for {expected.shape}"
    if value.dtype != expected.dtype:
        return f"type {value.dtype} for {expected.dtype}"
    if value.size == 0:
        return ""
    a, b = value.astype(np.float64), expected.astype(np.float64)
    ok = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    if ok.all():
        return ""
    at = np.unravel_index(np.argmin(ok), ok.shape) if ok.ndim else ()
    return f"{(~ok).sum()} of {ok.size} differ, first at {at}: {a[at]} for {b[at]}"


def node_cases():
    from onnx.backend.test.case.node import collect_testcases
    try:
        cases = collect_testcases(None)
    except TypeError:
        cases = collect_testcases()
    for case in cases:
        if case.model is None or not case.data_sets:
            continue
        yield case


def usable(case):
    ops = {n.op_type for n in case.model.graph.node}
    if not ops <= set(OPERATORS):
        return False
    if any(n.domain not in ("", "ai.onnx") for n in case.model.graph.node):
        return False
    if "training" in case.name:
        return False
    found = types_of(case.model)
    return found is not None and not found & REFUSED_TYPES


def test_every_node_case_of_a_supported_operator_gives_the_expected_values(tmp_path):
    cases = [c for c in node_cases() if usable(c)]
    assert len(cases) > 500
    results = run_cases(tmp_path, [(c.name, c.model, c.data_sets[0][0]) for c in cases])
    bad = []
    for c, r in zip(cases, results):
        if isinstance(r, str):
            bad.append(f"{c.name}: {r}")
            continue
        half = TensorProto.FLOAT16 in types_of(c.model) or TensorProto.BFLOAT16 in types_of(c.model)
        for got, expected in zip(r, c.data_sets[0][1]):
            why = differs(got, expected, max(c.rtol, 5e-3 if half else 0), max(c.atol, 5e-3 if half else 0))
            if why:
                bad.append(f"{c.name}: {why}")
    print(f"{len(cases)} cases, {len(bad)} wrong")
    assert not bad, "\n".join(bad)


# ---- com.microsoft, against onnxruntime ---------------------------------------------------------------

MS = "com.microsoft"


def ms_model(op, inputs, outputs, constants=(), **attrs):
    """inputs: [(name, array or None)]; those named in `constants` become initializers."""
    names = [n if a is not None else "" for n, a in inputs]
    node = helper.make_node(op, names, outputs, domain="" if op == "SimplifiedLayerNormalization" else MS, **attrs)
    ins, inits = [], []
    for n, a in inputs:
        if a is None:
            continue
        if n in constants:
            inits.append(numpy_helper.from_array(a, n))
        else:
            ins.append(helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape))
    outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs if n]
    g = helper.make_graph([node], "g", ins, outs, inits)
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(MS, 1)])
    m.ir_version = 10
    return m, [a for n, a in inputs if a is not None and n not in constants]


def gqa_cases(r):
    f = lambda *s: r.standard_normal(s, dtype=np.float32)  # noqa: E731
    for name, b, s, past, heads, kv, d, kw in [
        ("prompt", 1, 5, 0, 4, 2, 16, {}),
        ("decode", 1, 1, 7, 4, 2, 16, {}),
        ("chunk", 1, 3, 7, 4, 1, 16, {}),
        ("rotary", 1, 3, 7, 4, 2, 16, dict(do_rotary=1)),
        ("rotary_interleaved", 1, 4, 2, 4, 2, 16, dict(do_rotary=1, rotary_interleaved=1)),
        ("window", 1, 6, 9, 4, 2, 16, dict(local_window_size=4)),
        ("softcap", 1, 4, 3, 4, 4, 16, dict(softcap=5.0)),
        ("scale", 2, 1, 4, 4, 2, 16, dict(scale=0.3)),
        ("batch", 2, 1, 6, 6, 2, 16, dict(do_rotary=1)),
        ("smooth", 1, 3, 2, 4, 2, 16, dict(smooth_softmax=1)),
    ]:
        total = past + s
        q, k, v = f(b, s, heads * d), f(b, s, kv * d), f(b, s, kv * d)
        pk, pv = f(b, kv, past, d), f(b, kv, past, d)
        angle = np.arange(32)[:, None] * (1.0 / 100 ** (np.arange(d // 2) / (d // 2)))[None]
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        rot = "do_rotary" in kw
        for packed in (False, True):
            ins = [("q", np.concatenate([q, k, v], -1) if packed else q), ("k", None if packed else k),
                   ("v", None if packed else v), ("pk", pk), ("pv", pv),
                   ("lens", np.full((b,), total - 1, np.int32)), ("total", np.array(total, np.int32)),
                   ("cos", cos if rot else None), ("sin", sin if rot else None)]
            yield (f"gqa_{name}{'_packed' if packed else ''}",
                   *ms_model("GroupQueryAttention", ins, ["y", "present_k", "present_v"], num_heads=heads,
                             kv_num_heads=kv, **kw))


def window_cases(r):
    """A cache of a fixed capacity that holds the last positions: (new tokens, capacity, positions in all)."""
    f = lambda *s: r.standard_normal(s, dtype=np.float32)  # noqa: E731
    for s, capacity, total in ((1, 8, 1), (1, 8, 4), (1, 8, 8), (1, 8, 9), (1, 8, 20), (3, 8, 6), (3, 8, 9), (3, 8, 20), (12, 8, 12), (12, 8, 20),
                               (1, 12, 12), (1, 12, 13), (1, 12, 30), (3, 12, 13), (5, 12, 30), (14, 12, 14)):
        for rotary in (0, 1):
            angle = f(64, 8)
            yield (f"gqa_window_{s}_{capacity}_{total}_{rotary}", *ms_model(
                "GroupQueryAttention", [("q", f(1, s, 64)), ("k", f(1, s, 32)), ("v", f(1, s, 32)), ("pk", f(1, 2, capacity, 16)),
                                        ("pv", f(1, 2, capacity, 16)), ("lens", np.array([total - 1], np.int32)),
                                        ("total", np.array(total, np.int32)), ("cos", np.cos(angle)), ("sin", np.sin(angle))],
                ["y", "present_k", "present_v"], num_heads=4, kv_num_heads=2, local_window_size=8, sliding_window_cache=1, do_rotary=rotary))


def kept_rows(name, arrays):
    """What the rows behind those that a cache with a window holds contain is nobody's business."""
    s, capacity, total = map(int, name.split("_")[2:5])
    held = total if total <= capacity else 8 + (total - capacity - 1) % (capacity - 7)
    return [arrays[0]] + [a[:, :, :held] for a in arrays[1:]]


def test_a_cache_with_a_window_holds_what_onnxruntime_s_holds(tmp_path):
    import onnxruntime as ort
    cases = list(window_cases(np.random.default_rng(9)))
    bad = []
    for (name, model, inputs), result in zip(cases, run_cases(tmp_path, cases)):
        s = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        expected = kept_rows(name, s.run(None, {i.name: x for i, x in zip(s.get_inputs(), inputs)}))
        if isinstance(result, str):
            bad.append(f"{name}: {result}")
            continue
        for (dtype, _), got, e in zip(result, kept_rows(name, [a for _, a in result]), expected):
            bad += [f"{name}: {why}" for why in [differs((dtype, got), e, 1e-5, 1e-5)] if why]
    assert not bad, "\n".join(bad)


def nbits_cases(r):
    f = lambda *s: r.standard_normal(s, dtype=np.float32)  # noqa: E731
    for bits in (2, 4, 8):
        for bs in (16, 32, 128):
            for zp in ("none", "packed", "float"):
                if zp == "float" and bits != 4:
                    continue  # onnxruntime refuses them
                k, n, m = 96 + (bs if bs > 96 else 0), 24, 3
                nb = (k + bs - 1) // bs
                w = r.integers(0, 256, (n, nb, bs * bits // 8), dtype=np.uint8)
                z = {"none": None, "packed": r.integers(0, 256, (n, (nb * bits + 7) // 8), dtype=np.uint8),
                     "float": r.uniform(5, 10, (n, nb)).astype(np.float32)}[zp]
                ins = [("x", f(2, m, k)), ("w", w), ("s", np.abs(f(n, nb)) * np.float32(0.1)), ("z", z)]
                for consts in ((), ("w", "s", "z")):
                    yield (f"nbits_{bits}_{bs}_{zp}{'_const' if consts else ''}",
                           *ms_model("MatMulNBits", ins, ["y"], consts, K=k, N=n, bits=bits, block_size=bs,
                                     accuracy_level=1))


BNB4 = {0: [0, 5.208333333e-03, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25],
        1: [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
            -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
            0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0]}
BNB4[0] += [-v for v in BNB4[0]]


def bnb4_cases(r):
    for kind in (0, 1):
        for k, n, bs in ((64, 24, 16), (96, 7, 64), (33, 5, 32), (128, 16, 128)):  # blocks that end inside rows, a half byte left
            w = r.integers(0, 256, (n * k + 1) // 2, dtype=np.uint8)
            s = (r.random((n * k + bs - 1) // bs) * 0.2 + 0.01).astype(np.float32)
            for consts in ((), ("w", "s")):
                yield (f"bnb4_{kind}_{k}_{n}_{bs}{'_const' if consts else ''}",
                       *ms_model("MatMulBnb4", [("x", r.standard_normal((2, 3, k), dtype=np.float32)), ("w", w), ("s", s)], ["y"], consts,
                                 K=k, N=n, block_size=bs, quant_type=kind))


def test_bnb4_weights_are_the_table_s_numbers_times_their_block_s_largest(tmp_path):
    cases = list(bnb4_cases(np.random.default_rng(3)))
    for (name, model, inputs), result in zip(cases, run_cases(tmp_path, cases)):
        assert not isinstance(result, str), f"{name}: {result}"
        attrs = {a.name: a.i for a in model.graph.node[0].attribute}
        held = dict(zip([i.name for i in model.graph.input], inputs)) | {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
        n, k = attrs["N"], attrs["K"]
        codes = np.stack([held["w"] >> 4, held["w"] & 15], 1).reshape(-1)[:n * k]  # the first in the high half
        w = np.array(BNB4[attrs["quant_type"]])[codes] * np.repeat(held["s"], attrs["block_size"])[:n * k]
        expected = held["x"].astype(np.float64) @ w.reshape(n, k).T
        assert not differs(result[0], expected.astype(np.float32), 1e-5, 1e-5), name


# ---- mixtures of experts

E, HIDDEN, INTER = 5, 32, 48


def pack_bits(q, bits):
    """Codes along the last axis, the first in the low bits; rows end at whole bytes."""
    per = 8 // bits
    q = np.pad(q, [(0, 0)] * (q.ndim - 1) + [(0, -q.shape[-1] % per)]).reshape(*q.shape[:-1], -1, per)
    return sum(q[..., i].astype(np.uint16) << (bits * i) for i in range(per)).astype(np.uint8)


def quantised(r, n, k, bits, block, zeros):
    """Packed weights, scales, packed zero points, and the numbers they stand for."""
    q = r.integers(0, 2**bits, (E, n, k), dtype=np.uint8)
    nb = k // block if block else 1
    s = ((r.random((E, n, nb)) + 0.1) * 1.6 / 2**bits).astype(np.float32)
    z = r.integers(0, 2**bits, (E, n, nb), dtype=np.uint8) if zeros else None
    shift = z[..., None].astype(float) if zeros else 2.0**(bits - 1)
    w = ((q.reshape(E, n, nb, -1) - shift) * s[..., None]).reshape(E, n, k)
    if not block:
        s, z = s[..., 0], None if z is None else z[..., 0]
    return pack_bits(q, bits), s, None if z is None else pack_bits(z, bits), w


def moe_case(r, op, act="silu", k=2, norm=1, rows=(7,), bits=0, block=0, zeros=False, bias=True, fc3=False, fusion=0, shares=False, **attrs):
    """(name, model, inputs) and what the operator's documentation says comes of it."""
    f = lambda *s: r.standard_normal(s).astype(np.float32)  # noqa: E731
    fused = act == "swiglu" and fusion
    sizes = [(INTER * (2 if fused else 1), HIDDEN), (HIDDEN, INTER)] + [(INTER, HIDDEN)] * fc3
    x, router = f(*rows, HIDDEN), f(int(np.prod(rows)), E)
    biases = [f(E, n) if bias else None for n, _ in sizes] + [None] * (not fc3)
    given = r.random(router.shape).astype(np.float32) if shares else None
    if bits:
        parts = [quantised(r, *s, bits, block, zeros) for s in sizes] + [(None,) * 4] * (not fc3)
        weights = [p[3] for p in parts]
        ins = [("x", x), ("router", router)]
        for i in range(3):
            ins += [(f"w{i}", parts[i][0]), (f"s{i}", parts[i][1]), (f"b{i}", biases[i])]
        ins += [(f"z{i}", parts[i][2]) for i in range(3)] + [("shares", given)]
        attrs.update(expert_weight_bits=bits, **({"block_size": block} if block else {}))
    else:
        weights = [f(E, *s) * np.float32(0.2) for s in sizes] + [None] * (not fc3)
        ins = [("x", x), ("router", router)] + [p for i in range(3) for p in ((f"w{i}", weights[i]), (f"b{i}", biases[i]))]
    if act == "swiglu":
        attrs.update(swiglu_fusion=fusion, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=1.5)
    while ins[-1][1] is None:
        ins.pop()
    name = f"{op}_{act}_k{k}_n{norm}_{bits}_{block}_{zeros}_{bias}_{fc3}_{fusion}_{shares}_{rows}"
    model = ms_model(op, ins, ["y"], [n for n, _ in ins if n not in ("x", "router", "shares")], activation_type=act, k=k,
                     normalize_routing_weights=norm, **attrs)
    norm = norm or (op == "QMoE" and not shares)  # onnxruntime's QMoE, whatever the attribute says
    return (name, *model), experts(x, router, given, weights, biases, act, k, norm, fusion)


def experts(x, router, given, weights, biases, act, k, norm, fusion):
    rows = x.reshape(-1, HIDDEN).astype(np.float64)
    y = np.zeros_like(rows)
    for t, row in enumerate(rows):
        chosen = np.argsort(-router[t], kind="stable")[:k]
        p = np.exp(router[t] - router[t].max(), dtype=np.float64)
        p = (p / p.sum())[chosen] if given is None else given[t][chosen].astype(np.float64)
        if norm:
            p = p / p.sum()
        for share, e in zip(p, chosen):
            up, down, third = [None if w is None else (lambda v, w=w, b=b: w[e] @ v + (0 if b is None else b[e])) for w, b in zip(weights, biases)]
            h = up(row)
            if act == "swiglu":
                g, v = {0: lambda: (h, third(row)), 1: lambda: (h[0::2], h[1::2]), 2: lambda: (h[:INTER], h[INTER:])}[fusion]()
                g, v = np.minimum(g, 1.5), np.clip(v, -1.5, 1.5)
                h = g / (1 + np.exp(-1.702 * g)) * (v + 1.0)
            else:
                h = {"relu": lambda v: np.maximum(v, 0), "silu": lambda v: v / (1 + np.exp(-v)), "identity": lambda v: v,
                     "gelu": lambda v: 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))}[act](h)
                h = h * third(row) if third else h
            y[t] += share * down(h)
    return y.reshape(x.shape).astype(np.float32)


def moe_cases(r):
    for op, more in (("MoE", {}), ("QMoE", {"bits": 4, "block": 16})):
        for k in (1, 2, 4, 5):
            for norm in (0, 1):
                yield moe_case(r, op, k=k, norm=norm, rows=(1,) if k == 2 else (3, 5), **more)
        for act in ("relu", "gelu", "silu", "identity"):
            yield moe_case(r, op, act=act, bias=act != "relu", **more)
        yield moe_case(r, op, act="swiglu", fusion=1, rows=(40,), **more)
    for bits in (2, 4, 8):
        for block in (0, 16):
            for zeros in (False, True):
                yield moe_case(r, "QMoE", bits=bits, block=block, zeros=zeros, act="swiglu", fusion=1)
    for norm in (0, 1):
        yield moe_case(r, "QMoE", bits=4, block=16, norm=norm, shares=True)


def test_mixtures_of_experts_agree_with_onnxruntime_and_with_their_documentation(tmp_path):
    """onnxruntime's own 8-bit blocks round the activations to 8 bits: there the documentation's formula judges alone, as of the forms
    that its CPU kernel lacks (fc3, halves one behind the other)."""
    import onnxruntime as ort
    r = np.random.default_rng(11)
    cases = list(moe_cases(r))
    lacking = [moe_case(r, op, act=act, fc3=fc3, fusion=fusion, **more) for op, more in (("MoE", {}), ("QMoE", {"bits": 4, "block": 16}), ("QMoE", {"bits": 8}))
               for act, fc3, fusion in (("silu", True, 0), ("swiglu", True, 0), ("swiglu", False, 2))]
    results = run_cases(tmp_path, [c for c, _ in cases + lacking])
    bad = []
    for i, (((name, model, inputs), expected), result) in enumerate(zip(cases + lacking, results)):
        if isinstance(result, str):
            bad.append(f"{name}: {result}")
            continue
        why = differs(result[0], expected, 1e-4, 1e-4)
        if i < len(cases) and not ("_8_16_" in name):
            s = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
            judged = s.run(None, {v.name: x for v, x in zip(s.get_inputs(), inputs)})[0]
            why = why or differs(result[0], judged, 1e-4, 1e-4)
        if why:
            bad.append(f"{name}: {why}")
    assert not bad, "\n".join(bad)


def test_a_mixture_of_experts_that_cannot_be_run_is_refused_by_name(tmp_path):
    r = np.random.default_rng(12)
    (name, model, inputs), _ = moe_case(r, "QMoE", bits=4, block=16)

    def changed(change):
        m = onnx.ModelProto.FromString(model.SerializeToString())
        change(m)
        return name, m, inputs

    def set_attr(m, key, value):
        kept = [a for a in m.graph.node[0].attribute if a.name != key]
        del m.graph.node[0].attribute[:]
        m.graph.node[0].attribute.extend(kept + [helper.make_attribute(key, value)])

    def resize(m, which, change):
        t = next(t for t in m.graph.initializer if t.name == which)
        t.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(t)), which))
    wrong = [changed(lambda m: set_attr(m, "k", 6)), changed(lambda m: set_attr(m, "k", 0)), changed(lambda m: set_attr(m, "activation_type", "tan")),
             changed(lambda m: set_attr(m, "quant_type", "fp4")), changed(lambda m: set_attr(m, "expert_weight_bits", 3)),
             changed(lambda m: set_attr(m, "block_size", 24)), changed(lambda m: set_attr(m, "block_size", 1 << 40)),
             changed(lambda m: set_attr(m, "expert_weight_bits", 8)), changed(lambda m: resize(m, "w0", lambda a: a[:, :-1])),
             changed(lambda m: resize(m, "w1", lambda a: a[:-1])), changed(lambda m: resize(m, "s0", lambda a: a[..., :-1])),
             changed(lambda m: resize(m, "b1", lambda a: a[:, :-2])), changed(lambda m: resize(m, "w0", lambda a: a.reshape(E, -1)))]
    for (_, m, _), result in zip(wrong, run_cases(tmp_path, wrong)):
        assert isinstance(result, str) and "QMoE" in result and "the tool ended" not in result, result


def recurrent_cases(r):
    f = lambda *s: r.standard_normal(s, dtype=np.float32)  # noqa: E731
    for length in (1, 2, 7):
        for taps, dilation in ((3, 1), (4, 1), (1, 1), (3, 2)):
            kept = (taps - 1) * dilation
            for act, bias, past in (("none", False, True), ("silu", True, True), ("none", True, False)):
                yield (f"conv_{length}_{taps}_{dilation}_{act}_{past}", *ms_model(
                    "CausalConvWithState", [("x", f(2, 6, length)), ("w", f(6, 1, taps)), ("b", f(6) if bias else None),
                                            ("past", f(2, 6, kept) if past and kept else None)], ["y", "present"], activation=act, dilation=dilation))
        yield (f"conv_last_{length}", *ms_model("CausalConvWithState", [("x", f(2, length, 3, 2)), ("w", f(6, 1, 4)), ("b", f(6)),
                                                                        ("past", f(2, 3, 3, 2))], ["y", "present"], channels_last=1))
    for rule in ("linear", "gated", "delta", "gated_delta"):
        for heads, kv, scalar, tokens in ((2, 2, True, 1), (4, 2, False, 5), (2, 2, False, 3), (4, 1, True, 4)):
            gate = -np.abs(f(1, tokens, kv if scalar else kv * 8)) * np.float32(0.3)
            beta = r.random((1, tokens, kv)).astype(np.float32)
            yield (f"linear_{rule}_{heads}_{kv}_{scalar}_{tokens}", *ms_model(
                "LinearAttention", [("q", f(1, tokens, heads * 8)), ("k", f(1, tokens, kv * 8) * np.float32(0.3)), ("v", f(1, tokens, kv * 4)),
                                    ("past", f(1, kv, 8, 4)), ("decay", gate if "gated" in rule else None),
                                    ("beta", beta if "delta" in rule else None)], ["y", "present"], q_num_heads=heads, kv_num_heads=kv, update_rule=rule))


def other_ms_cases(r):
    f = lambda *s: r.standard_normal(s, dtype=np.float32)  # noqa: E731
    x, skip, g, b = f(2, 3, 16), f(2, 3, 16), f(16), f(16)
    yield "skip_simplified", *ms_model("SkipSimplifiedLayerNormalization",
                                       [("x", x), ("s", skip), ("g", g)], ["y", "", "", "sum"], epsilon=1e-5)
    yield "skip_simplified_bias", *ms_model("SkipSimplifiedLayerNormalization",
                                            [("x", x), ("s", skip), ("g", g), ("b", b)], ["y", "", "", "sum"],
                                            epsilon=1e-5)
    yield "skip_layer", *ms_model("SkipLayerNormalization",
                                  [("x", x), ("s", skip), ("g", g), ("beta", b), ("b", f(16))],
                                  ["y", "", "", "sum"], epsilon=1e-5)
    yield "simplified", *ms_model("SimplifiedLayerNormalization", [("x", x), ("g", g)], ["y"], epsilon=1e-5, axis=-1)
    for op in ("FastGelu", "Gelu", "QuickGelu"):
        yield op, *ms_model(op, [("x", x)], ["y"])
    yield "fast_gelu_bias", *ms_model("FastGelu", [("x", x), ("b", b)], ["y"])
    yield "bias_gelu", *ms_model("BiasGelu", [("x", x), ("b", b)], ["y"])
    yield "fused_matmul", *ms_model("FusedMatMul", [("a", f(2, 4, 8)), ("b", f(2, 5, 8))], ["y"], transB=1, alpha=0.5)
    yield "fused_matmul_a", *ms_model("FusedMatMul", [("a", f(8, 4)), ("b", f(8, 5))], ["y"], transA=1)
    angle = f(32, 8)
    cos, sin = np.cos(angle), np.sin(angle)
    for inter in (0, 1):
        yield f"rotary_{inter}", *ms_model("RotaryEmbedding",
                                           [("x", f(2, 3, 64)), ("p", np.array([[1, 2, 3], [7, 8, 9]], np.int64)),
                                            ("c", cos), ("s", sin)], ["y"], interleaved=inter)
        yield f"rotary4_{inter}", *ms_model("RotaryEmbedding",
                                            [("x", f(2, 4, 3, 16)), ("p", np.array([5], np.int64)), ("c", cos),
                                             ("s", sin)], ["y"], interleaved=inter)
    w = r.integers(-60, 60, (16, 6), dtype=np.int8)  # larger ones saturate in onnxruntime on AVX2
    for zero in (None, np.array(3, np.int8)):
        yield f"dynamic_quantize_{zero}", *ms_model(
            "DynamicQuantizeMatMul", [("x", f(4, 16)), ("w", w), ("s", np.array(0.02, np.float32)), ("z", zero),
                                      ("b", f(6))], ["y"])
    yield "integer_to_float", *ms_model(
        "MatMulIntegerToFloat", [("a", r.integers(0, 255, (4, 16), dtype=np.uint8)), ("w", w),
                                 ("sa", np.array(0.1, np.float32)), ("sb", np.abs(f(6))),
                                 ("za", np.array(120, np.uint8)), ("zb", r.integers(-9, 9, (6,), dtype=np.int8)),
                                 ("b", f(6))], ["y"])
    for bits, zp in ((4, False), (4, True), (8, False), (8, True)):
        v, k, bs = 10, 64, 32
        data = r.integers(0, 256, (v, k * bits // 8), dtype=np.uint8)
        zeros = r.integers(0, 256, (v, (k // bs * bits + 7) // 8), dtype=np.uint8) if zp else None
        yield f"gather_block_{bits}_{zp}", *ms_model(
            "GatherBlockQuantized", [("d", data), ("i", np.array([[1, 9, 0]], np.int64)), ("s", f(v, k // bs)),
                                     ("z", zeros)], ["y"], ("d", "s", "z"), gather_axis=0, quantize_axis=1,
            block_size=bs, bits=bits)
    for past in (0, 3):
        q, k, v = f(1, 4, 32), f(1, 4, 32), f(1, 4, 32)
        yield f"mha_{past}", *ms_model(
            "MultiHeadAttention", [("q", q), ("k", k), ("v", v), ("b", f(96)), ("m", None), ("a", f(1, 2, 4, 4 + past)),
                                   ("pk", f(1, 2, past, 16) if past else None),
                                   ("pv", f(1, 2, past, 16) if past else None)],
            ["y", "present_k", "present_v"] if past else ["y"], num_heads=2)
    yield "mha_causal", *ms_model("MultiHeadAttention", [("q", f(2, 5, 32)), ("k", f(2, 5, 32)), ("v", f(2, 5, 32))],
                                  ["y"], num_heads=4, unidirectional=1)


def test_operators_of_com_microsoft_agree_with_onnxruntime(tmp_path):
    ort = pytest.importorskip("onnxruntime")
    r = np.random.default_rng(7)
    cases = list(gqa_cases(r)) + list(nbits_cases(r)) + list(bnb4_cases(r)) + list(recurrent_cases(r)) + list(other_ms_cases(r))
    results = run_cases(tmp_path, cases)
    bad, refused = [], []
    for (name, model, inputs), result in zip(cases, results):
        options = ort.SessionOptions()
        options.log_severity_level = 4
        try:
            s = ort.InferenceSession(model.SerializeToString(), options)
            expected = s.run(None, {i.name: x for i, x in zip(s.get_inputs(), inputs)})
        except Exception as e:  # noqa: BLE001
            refused.append(f"{name}: {str(e)[:100]}")
            continue
        if isinstance(result, str):
            bad.append(f"{name}: {result}")
            continue
        for got, e in zip(result, expected):
            why = differs(got, e, 1e-4, 1e-4)
            if why:
                bad.append(f"{name}: {why}")
    print(f"{len(cases)} cases, onnxruntime refuses {len(refused)}", *refused, sep="\n")
    assert not bad, "\n".join(bad)
    assert len(refused) <= 4, refused
