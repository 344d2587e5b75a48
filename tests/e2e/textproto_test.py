# SPDX-License-Identifier: Apache-2.0
"""Models in protobuf's text form: whatever weft says of a model and computes with it is the same from the text that
protobuf itself prints of it."""
import json
import shutil
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
onnx = pytest.importorskip("onnx")
from google.protobuf import text_format  # noqa: E402

TESTS = Path(__file__).parents[1]
TREE = sorted(p for p in TESTS.rglob("*.onnx") if "corpus" not in p.parts)


def locations(path):
    """The external data files that a model names."""
    model = onnx.load(path, load_external_data=False)
    return {e.value for t in model.graph.initializer for e in t.external_data if e.key == "location"}


def print_text(binary, text):
    """As printed by protobuf, on one line for every other model: both forms of its printer."""
    model = onnx.ModelProto.FromString(binary.read_bytes())
    one_line = len(binary.read_bytes()) % 2 == 1
    text.write_text(text_format.MessageToString(model, as_one_line=one_line, as_utf8=not one_line), encoding="utf-8")
    return text


def said(weft, path, *args):
    """Exit code and output, with the file's name taken out."""
    r = weft(*args[:1], path, *args[1:])
    where = str(path).encode()
    return r.returncode, r.stdout.replace(where, b"FILE"), r.stderr.replace(where, b"FILE")


def assert_same(weft, binary, text):
    for options in ([], ["--json"], ["--dot"]):
        code, out, err = said(weft, binary, "inspect", *options)
        assert out if code == 0 else err
        text_code, text_out, text_err = said(weft, text, "inspect", *options)
        assert (text_code, text_out) == (code, out), (binary, options)
        assert bool(text_err) == bool(err)  # a refusal may name a byte in one form and none in the other


@pytest.mark.parametrize("model", TREE, ids=[str(p.relative_to(TESTS)) for p in TREE])
def test_inspect_says_the_same_of_each_model_of_the_tree(weft, model, tmp_path):
    binary = tmp_path / "m.onnx"
    shutil.copy(model, binary)
    for name in locations(model):
        shutil.copy(model.parent / name, tmp_path / name)
    assert_same(weft, binary, print_text(binary, tmp_path / "m.onnx.textproto"))


def test_the_tree_has_models_to_say_something_of():
    assert len(TREE) > 60


def node_cases():
    """The first case of each operator that ONNX ships."""
    from onnx.backend.test.case.node import collect_testcases
    try:
        cases = collect_testcases(None)
    except TypeError:
        cases = collect_testcases()
    seen = {}
    for c in cases:
        if c.model is not None and len(c.model.graph.node):
            seen.setdefault(c.model.graph.node[0].op_type, c)
    return list(seen.values())


def test_exec_gives_the_same_bytes_for_each_operator(weft, tmp_path):
    ran = 0
    for case in node_cases():
        folder = tmp_path / case.name
        folder.mkdir()
        binary = folder / "m.onnx"
        binary.write_bytes(case.model.SerializeToString())
        text = print_text(binary, folder / "m.onnx.textproto")
        inputs, given = [], case.data_sets[0][0]
        for v, value in zip(case.model.graph.input, given):
            if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
                np.save(folder / f"{v.name}.npy", value)
                inputs += ["--input", f"{v.name}={folder / v.name}.npy"]
        code, out, _ = said(weft, binary, "exec", *inputs, "--output-dir", folder / "binary")
        assert said(weft, text, "exec", *inputs, "--output-dir", folder / "text")[:2] == (code, out), case.name
        if code:
            continue
        ran += 1
        names = sorted(p.name for p in (folder / "binary").iterdir())
        assert names and names == sorted(p.name for p in (folder / "text").iterdir()), case.name
        for name in names:
            assert (folder / "binary" / name).read_bytes() == (folder / "text" / name).read_bytes(), (case.name, name)
    assert ran > 60


@pytest.mark.parametrize("name", ["llama_int4", "llama_fp32", "gemma3_int4"])
def test_a_package_may_name_a_text_model_with_external_data(weft, name, tmp_path):
    source = TESTS / "e2e" / "golden" / "builder" / name
    shutil.copytree(source, tmp_path / "text")
    config = json.loads((source / "genai_config.json").read_text())
    config["model"]["decoder"]["filename"] = "decoder.onnx.textproto"
    (tmp_path / "text" / "genai_config.json").write_text(json.dumps(config))
    print_text(source / "model.onnx", tmp_path / "text" / "decoder.onnx.textproto")
    (tmp_path / "text" / "model.onnx").unlink()
    for folder, out in ((source, "a.npy"), (tmp_path / "text", "b.npy"), (tmp_path / "text", "c.npy")):  # c: out of the cache
        weft("logits", folder, "--ids", "1,5,9,2", "--output", tmp_path / out, check=0)
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes() == (tmp_path / "c.npy").read_bytes()


def test_each_fixture_reads_as_its_binary_twin(weft, fixtures):
    twins = sorted(fixtures.rglob("*.onnx.textproto"))
    assert len(twins) > 50
    for text in twins:
        binary = text.with_suffix("")
        assert binary.is_file(), text
        assert onnx.load(binary, load_external_data=False) == text_format.Parse(text.read_text(encoding="utf-8"), onnx.ModelProto())
        assert_same(weft, binary, text)


def test_a_mistake_is_told_with_its_place(weft, tmp_path):
    path = tmp_path / "m.onnx.textproto"
    path.write_text('ir_version: 8\ngraph {\n  nodes { op_type: "Add" }\n}\n')
    for command in (["inspect"], ["exec", "--output-dir", tmp_path / "o"]):
        r = weft(command[0], path, *command[1:])
        assert r.returncode == 9 and r.stdout == b""
        assert f"{path}:3:3: GraphProto has no field 'nodes'" in r.stderr.decode()
