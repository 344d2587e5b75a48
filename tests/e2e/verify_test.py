# SPDX-License-Identifier: Apache-2.0
"""weft verify: both backends beside each other, and a weight that was changed on one side alone."""
import re
import shutil
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from google.protobuf import text_format  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from onnx import numpy_helper as nh  # noqa: E402

LIBRARY = sorted(Path(ort.__file__).parent.glob("capi/libonnxruntime.so.*"))[0]
BUILDER = Path(__file__).parent / "golden" / "builder"
# ONNX Runtime has no kernels for what the builder writes of these two
CANNOT_RUN = {"llama_fp16", "llama_bf16"}
FOLDERS = sorted(p for p in BUILDER.iterdir() if p.is_dir() and p.name not in CANNOT_RUN)


def verify(weft, *args, check=0):
    return weft("verify", "--ort", LIBRARY, *args, check=check).stdout.decode()


@pytest.mark.parametrize("folder", FOLDERS, ids=[f.name for f in FOLDERS])
def test_every_folder_of_the_builder_is_alike(weft, folder):
    text = verify(weft, folder)
    assert text.endswith("verdict         alike\n")
    assert re.search(r"^greedy +16 tokens alike", text, re.M)
    windowed = "none: " in text  # caches of a fixed size are walked, not run by themselves
    assert windowed or re.search(r"^nodes compared +(\d+) of \1$", text, re.M)
    assert not windowed or "sliding_window_cache" in text
    n_outputs = len(onnx.load(folder / "model.onnx", load_external_data=False).graph.output)
    assert windowed or re.search(rf"^optimised +{n_outputs} outputs alike", text, re.M)


def test_the_demo_model_is_alike(weft, package):
    text = verify(weft, package, "--tokens", "8")
    assert re.search(r"^nodes compared +(\d+) of \1$", text, re.M) and text.endswith("verdict         alike\n")


def test_a_package_with_a_text_model_is_verified_like_one_with_its_binary_form(weft, tmp_path):
    folder = tmp_path / "text"
    shutil.copytree(BUILDER / "llama_fp32", folder)
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    (folder / "model.onnx").unlink()
    version = f"ir_version: {model.ir_version}\n"
    model.ClearField("ir_version")
    (folder / "d.onnx.textproto").write_text(text_format.MessageToString(model) + version)  # in an order of its own
    config = (folder / "genai_config.json").read_text()
    (folder / "genai_config.json").write_text(config.replace('"model.onnx"', '"d.onnx.textproto"'))
    assert verify(weft, folder).replace("d.onnx.textproto", "model.onnx") == \
        verify(weft, BUILDER / "llama_fp32").replace(str(BUILDER / "llama_fp32"), str(folder))


def test_no_backend_can_run_is_told_with_its_own_words(weft):
    r = weft("verify", "--ort", LIBRARY, BUILDER / "llama_bf16")
    assert r.returncode > 2 and b"ONNX Runtime" in r.stderr and b"Where" in r.stderr


@pytest.mark.parametrize("layer,part,node", [(1, "mlp.up_proj", "MatMul '/model/layers.1/mlp/up_proj/MatMul'"),
                                             (0, "attn.o_proj", "MatMul '/model/layers.0/attn/o_proj/MatMul'"),
                                             (1, "input_layernorm", "'/model/layers.1/input_layernorm/")])
def test_a_weight_changed_on_one_side_is_caught_at_its_node(weft, tmp_path, layer, part, node):
    changed = tmp_path / "changed"
    shutil.copytree(BUILDER / "llama_fp32", changed)
    model = onnx.load(changed / "model.onnx")
    hits = [i for i in model.graph.initializer if f"layers.{layer}.{part}" in i.name]
    assert len(hits) == 1
    a = nh.to_array(hits[0]).copy()
    a.flat[a.size // 3] += 0.5
    hits[0].CopyFrom(nh.from_array(a, hits[0].name))
    onnx.save(model, changed / "model.onnx")
    verify(weft, changed)  # by itself both backends see the same weight
    text = verify(weft, changed, "--reference", BUILDER / "llama_fp32", check=21)
    first = re.search(r"^first node that parts: #\d+ (.*)$", text, re.M).group(1)
    assert node in first
    assert re.search(r"worst at \[[\d, ]+\]: native -?[\d.e-]+, ort -?[\d.e-]+", text)
    assert text.endswith("verdict         NOT alike\n")


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_logit_that_is_no_number_on_one_side_parts_the_walk(weft, tmp_path, value):
    """Whatever numbers come behind it in the row."""
    changed = tmp_path / "changed"
    shutil.copytree(BUILDER / "llama_fp32", changed)
    model = onnx.load(changed / "model.onnx")
    head = next(n for n in model.graph.node if "logits" in n.output)
    weight = next(i for i in model.graph.initializer if i.name in head.input)
    n_rows = nh.to_array(weight).shape[1]
    offset = np.zeros(n_rows, np.float32)
    offset[n_rows // 2] = value
    model.graph.initializer.append(nh.from_array(offset, "offset"))
    head.output[list(head.output).index("logits")] = "bare"
    model.graph.node.append(helper.make_node("Add", ["bare", "offset"], ["logits"], name="last"))
    onnx.save(model, changed / "model.onnx")
    for args in ((changed, "--reference", BUILDER / "llama_fp32"), (BUILDER / "llama_fp32", "--reference", changed)):
        r = weft("verify", "--ort", LIBRARY, *args)
        assert b"parts at token 0" in r.stdout, r.stdout + r.stderr
        assert r.returncode == 21
    text = verify(weft, changed)  # both sides give it: that is no difference
    assert "tokens alike" in text


def small_model():
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], name="to_codes"),
             helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"], name="back"),
             helper.make_node("MatMul", ["d", "w"], ["m"], name="product"),
             helper.make_node("Softmax", ["m"], ["y"], name="soft")]
    rng = np.random.default_rng(5)
    consts = {"scale": np.float32(0.01), "zero": np.uint8(128), "w": rng.standard_normal((8, 6)).astype(np.float32)}
    graph = helper.make_graph(nodes, "small", [info("x", TensorProto.FLOAT, ["rows", 8])], [info("y", TensorProto.FLOAT, ["rows", 6])],
                              [nh.from_array(np.asarray(v), k) for k, v in consts.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_plain_graph_with_given_inputs_and_every_value_written(weft, tmp_path):
    path, x = tmp_path / "m.onnx", np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)
    onnx.save(small_model(), path)
    np.save(tmp_path / "x.npy", x)
    text = verify(weft, path, "--input", f"x={tmp_path / 'x.npy'}", "--dump", tmp_path / "out")
    assert "input x float32[3, 8] given" in text and re.search(r"^nodes compared +4 of 4$", text, re.M)
    for name in "qdmy":
        a, b = (np.load(tmp_path / "out" / f"{name}.{side}.npy") for side in ("native", "ort"))
        assert a.shape == b.shape and a.dtype == b.dtype
    expected = np.clip(np.rint(x / np.float32(0.01)) + 128, 0, 255).astype(np.uint8)  # the operator's own formula
    assert np.abs(np.load(tmp_path / "out" / "q.ort.npy").astype(int) - expected.astype(int)).max() <= 1


def test_made_inputs_are_the_seeds(weft, tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(small_model(), path)
    values = []
    for seed, out in (("7", "a"), ("7", "b"), ("8", "c")):
        assert f"seed {seed}" in verify(weft, path, "--seed", seed, "--dump", tmp_path / out)
        values.append(np.load(tmp_path / out / "y.native.npy"))
    assert np.array_equal(values[0], values[1]) and not np.array_equal(values[0], values[2])


def test_a_tolerance_of_nothing_is_refused_where_rounding_differs(weft, tmp_path):
    folder = BUILDER / "llama_fp32"
    assert "verdict         NOT alike" in verify(weft, folder, "--tolerance", "1e-12", "--tokens", "0", check=21)
    r = weft("verify", folder, "--tolerance", "-1", check=2)
    assert b"--tolerance" in r.stderr


def test_an_unknown_input_and_a_missing_library_are_told(weft, tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(small_model(), path)
    r = weft("verify", "--ort", LIBRARY, path, "--input", "nope=1")
    assert r.returncode > 2 and b"nope" in r.stderr
    r = weft("verify", path, "--ort", tmp_path / "no.so")
    assert r.returncode > 2 and b"no.so" in r.stderr
