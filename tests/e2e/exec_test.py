# SPDX-License-Identifier: Apache-2.0
"""weft exec and weft logits: names, values and .npy files."""
import pytest

from chain_model import A, B, VOCAB, Chain, np, onnx

X = np.arange(6, dtype=np.float32).reshape(2, 3)
BIAS = np.asarray([[1, 2, 3], [4, 5, 6]], np.float32)


@pytest.fixture
def odd(tmp_path):
    """Names with '=', '/' and ':', a scalar, and outputs of several types."""
    h, t = onnx.helper, onnx.TensorProto
    nodes = [h.make_node("Add", ["a=b/c", "x"], ["s/um:0"]), h.make_node("Cast", ["s/um:0"], ["half"], to=t.FLOAT16),
             h.make_node("Greater", ["a=b/c", "x"], ["more"]), h.make_node("Shape", ["x"], ["shape"]),
             h.make_node("ReduceSum", ["x"], ["sum"], keepdims=0), h.make_node("Identity", ["a"], ["copy"])]
    types = [("s/um:0", t.FLOAT), ("half", t.FLOAT16), ("more", t.BOOL), ("shape", t.INT64), ("sum", t.FLOAT), ("copy", t.INT64)]
    graph = h.make_graph(nodes, "odd", [h.make_tensor_value_info("a=b/c", t.FLOAT, [2, 3]),
                                        h.make_tensor_value_info("x", t.FLOAT, ["n", 3]),
                                        h.make_tensor_value_info("a", t.INT64, [])],
                         [h.make_tensor_value_info(n, k, None) for n, k in types])
    path = tmp_path / "odd é.onnx"
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("order", ["C", "F"])
def test_every_output_is_written_under_its_name(weft, odd, tmp_path, order):
    np.save(tmp_path / "x.npy", np.asarray(X, order=order))
    out = tmp_path / "out" / "数据"
    weft("exec", odd, "--input", "a=b/c=1,2,3,4,5,6", "--input", f"x={tmp_path / 'x.npy'}", "--input", "a=-7",
         "--output-dir", out, check=0)
    got = {p.name: np.load(p) for p in out.iterdir()}
    want = {"s_um:0.npy": X + BIAS, "half.npy": (X + BIAS).astype(np.float16), "more.npy": BIAS > X,
            "shape.npy": np.asarray([2, 3]), "sum.npy": np.float32(15), "copy.npy": np.int64(-7)}
    assert set(got) == set(want)
    for name, value in want.items():
        assert got[name].dtype == np.asarray(value).dtype and got[name].shape == np.asarray(value).shape, name
        assert np.array_equal(got[name], value), name


def test_values_take_the_shape_that_the_graph_leaves_open(weft, odd, tmp_path):
    weft("exec", odd, "--input", "a=b/c=1,2,3,4,5,6", "--input", "x=0,1,2,3,4,5", "--input", "a=1", "--output-dir", tmp_path / "o",
         check=0)
    assert np.array_equal(np.load(tmp_path / "o" / "s_um:0.npy"), X + BIAS)


# ONNX's types that .npy files carry, the code of the file, and whether values may be typed as decimals
EXCHANGED = {"FLOAT": "f4", "DOUBLE": "f8", "FLOAT16": "f2", "BFLOAT16": "u2", "BOOL": "?", "INT8": "i1", "UINT8": "u1",
             "INT16": "i2", "UINT16": "u2", "INT32": "i4", "UINT32": "u4", "INT64": "i8", "UINT64": "u8"}


def identity(folder, kind):
    h = onnx.helper
    t = getattr(onnx.TensorProto, kind)
    graph = h.make_graph([h.make_node("Identity", ["x"], ["y"])], "same", [h.make_tensor_value_info("x", t, ["n", 3])],
                         [h.make_tensor_value_info("y", t, ["n", 3])])
    path = folder / f"{kind}.onnx"
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.mark.parametrize("kind", EXCHANGED)
def test_a_file_of_each_type_and_order_comes_back_as_it_was(weft, tmp_path, kind):
    model, code = identity(tmp_path, kind), np.dtype(EXCHANGED[kind])
    bits = np.random.default_rng(7).integers(0, 256, 2 * 3 * code.itemsize, np.uint8)
    value = (bits & 1).astype(bool).reshape(2, 3) if kind == "BOOL" else bits.view(code).reshape(2, 3)
    for order in ("C", "F", "big-endian", "empty"):
        given = {"C": value, "F": np.asfortranarray(value), "big-endian": value.astype(code.newbyteorder(">")),
                 "empty": value[:0]}[order]
        np.save(tmp_path / "x.npy", given)
        weft("exec", model, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "o", check=0)
        got = np.load(tmp_path / "o" / "y.npy")
        assert got.dtype == code and got.shape == given.shape, order
        assert got.tobytes() == given.astype(code, order="C").tobytes(), order


@pytest.mark.parametrize("kind,text,bits", [  # bits by numpy, those of bfloat16 by hand from the float's upper half
    ("FLOAT16", "1,-2.5,65504,6e-8,0.1,65519", None), ("FLOAT16", "-0,2049,2051,2.9e-8,1e-30,1.00048828125", None),
    ("BFLOAT16", "1,-2.5,257,259,-0,3e38", [0x3F80, 0xC020, 0x4380, 0x4382, 0x8000, 0x7F62]),
    ("DOUBLE", "0.1,1e300,-0,1,2,3", None), ("UINT64", "18446744073709551615,0,1,2,3,4", None),
    ("INT64", "-9223372036854775808,9223372036854775807,0,1,2,3", None), ("BOOL", "true,false,1,0,true,true", [1, 0, 1, 0, 1, 1]),
])
def test_values_are_rounded_into_the_port_s_type(weft, tmp_path, kind, text, bits):
    weft("exec", identity(tmp_path, kind), "--input", f"x={text}", "--output-dir", tmp_path / "o", check=0)
    got = np.load(tmp_path / "o" / "y.npy").ravel()
    want = np.asarray(bits) if bits else np.array([(float if "." in w or "e" in w else int)(w) if w != "-0" else -0.0
                                                   for w in text.split(",")], dtype=got.dtype if "INT" in kind else np.float64)
    want = want.astype(got.dtype)
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("kind,text", [("FLOAT", "1e39"), ("FLOAT16", "65520"), ("BFLOAT16", "-3.4e38"), ("INT8", "128"),
                                       ("UINT8", "-1"), ("UINT64", "18446744073709551616"), ("BOOL", "2"), ("FLOAT", "nan"), ("INT64", "")])
def test_a_value_that_the_port_cannot_hold_is_refused(weft, tmp_path, kind, text):
    r = weft("exec", identity(tmp_path, kind), "--input", f"x=1,1,{text}", "--output-dir", tmp_path / "o")
    assert 3 <= r.returncode <= 120 and f"1,1,{text}".encode() in r.stderr and b"'x'" in r.stderr


@pytest.mark.parametrize("inputs,named", [
    (["nope=1"], b"nope"), (["a=1.5"], b"1.5"), (["a=1", "x=missing.npy"], b"missing.npy"), (["a=1", "a=b/c=1,2"], b"a=b/c"),
    (["a=1", "a=b/c=1,2,3,4,5,6"], b"'x'"),
])
def test_a_wrong_input_is_an_error_that_names_it(weft, odd, tmp_path, inputs, named):
    r = weft("exec", odd, *[w for i in inputs for w in ("--input", i)], "--output-dir", tmp_path / "o")
    assert 3 <= r.returncode <= 120 and named in r.stderr
    assert not (tmp_path / "o").exists()


def test_an_input_without_a_value_is_a_usage_error(weft, odd, tmp_path):
    assert b"--input" in weft("exec", odd, "--input", "a", "--output-dir", tmp_path / "o", check=2).stderr


def test_outputs_that_would_share_a_file_are_refused(weft, tmp_path):
    h, t = onnx.helper, onnx.TensorProto
    graph = h.make_graph([h.make_node("Identity", ["x"], ["p/q"]), h.make_node("Neg", ["x"], ["p_q"])], "twins",
                         [h.make_tensor_value_info("x", t.FLOAT, [1])],
                         [h.make_tensor_value_info(n, t.FLOAT, [1]) for n in ("p/q", "p_q")])
    path = tmp_path / "twins.onnx"
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
    r = weft("exec", path, "--input", "x=1", "--output-dir", tmp_path / "o")
    assert 3 <= r.returncode <= 120 and b"p/q" in r.stderr and b"p_q" in r.stderr


def test_logits_have_a_row_for_each_token(weft, tmp_path):
    chain = Chain(tmp_path / "chain").follow(A, B)
    out = tmp_path / "l.npy"
    weft("logits", chain.write(), "--ids", f"{A},{B}", "--output", out, check=0)
    logits = np.load(out)
    assert logits.dtype == np.float32 and logits.shape == (2, VOCAB)
    assert np.array_equal(logits, chain.table[[A, B]])


def test_a_device_is_written_and_stays_one(weft, tmp_path):
    package = Chain(tmp_path / "chain").write()
    r = weft("logits", package, "--ids", f"{A}", "--output", "/dev/stdout", check=0)
    assert r.stdout[:6] == b"\x93NUMPY" and len(r.stdout) == 128 + VOCAB * 4
    r = weft("logits", package, "--ids", f"{A}", "--output", "/dev/full")
    assert 3 <= r.returncode <= 120 and b"/dev/full" in r.stderr


@pytest.mark.parametrize("kind,columns,bias", [("i1", False, False), ("u1", False, True), ("i1", True, True), ("u1", True, False)])
def test_products_quantised_while_running_have_the_bits_of_the_standard(weft, tmp_path, kind, columns, bias):
    """One DynamicQuantizeLinear for two MatMulIntegers; the definition in numpy is the judge, since ONNX Runtime's own
    kernels saturate on some CPUs."""
    h, t, rng = onnx.helper, onnx.TensorProto, np.random.default_rng(5)
    k, sizes = 70, (33, 16)
    nodes, consts, want = [h.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])], {}, {}
    x = (rng.standard_normal((2, 5, k)) * 3).astype(np.float32)
    low, high = np.minimum(x.min(), np.float32(0)), np.maximum(x.max(), np.float32(0))
    s = np.float32((high - low) / np.float32(255))
    z = np.clip(np.rint(-low / s), 0, 255)
    codes = np.clip(np.rint(x / s) + np.float32(z), 0, 255).astype(np.int64)
    for i, n in enumerate(sizes):
        w = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, (k, n)).astype(kind)
        shape = (n,) if columns else ()
        scale = (rng.random(shape) * 0.1 + 0.01).astype(np.float32)
        zero = rng.integers(0, 100, shape).astype(kind)
        b = rng.standard_normal(n).astype(np.float32)
        consts |= {f"w{i}": w, f"scale{i}": scale, f"zero{i}": zero, f"b{i}": b}
        last = f"sum{i}" if bias else f"y{i}"
        nodes += [h.make_node("MatMulInteger", ["q", f"w{i}", "z", f"zero{i}"], [f"dots{i}"]),
                  h.make_node("Cast", [f"dots{i}"], [f"cast{i}"], to=t.FLOAT), h.make_node("Mul", ["s", f"scale{i}"], [f"both{i}"]),
                  h.make_node("Mul", [f"cast{i}", f"both{i}"], [last])]
        dots = ((codes - int(z)) @ (w.astype(np.int64) - zero.astype(np.int64))).astype(np.int32)
        want[f"y{i}"] = dots.astype(np.float32) * (s * scale)
        if bias:
            nodes.append(h.make_node("Add", [last, f"b{i}"], [f"y{i}"]))
            want[f"y{i}"] += b
    graph = h.make_graph(nodes, "quantised", [h.make_tensor_value_info("x", t.FLOAT, [2, "n", k])],
                         [h.make_tensor_value_info(f"y{i}", t.FLOAT, None) for i in range(2)],
                         [onnx.numpy_helper.from_array(np.asarray(v), n) for n, v in consts.items()])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), tmp_path / "q.onnx")
    np.save(tmp_path / "x.npy", x)
    weft("exec", tmp_path / "q.onnx", "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "o", check=0)
    for name, value in want.items():
        assert np.array_equal(np.load(tmp_path / "o" / f"{name}.npy"), value), name
    text = weft("inspect", tmp_path / "q.onnx", check=0).stdout.decode()
    assert text[text.index("== graph as run"):].count(" = weft.DynamicLinear") == 2
