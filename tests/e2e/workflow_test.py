# SPDX-License-Identifier: Apache-2.0
"""weft exec on packages with a workflow: small ones made here, with results worked out by hand, and every case that the
packages beside the checkout state."""
import json
import os
import shutil
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, save

import make_packages
from make_packages import application, invoke, literal, onnx_component, request, tensor

LIBRARY = sorted(Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*"))[0]
DTYPES = {"float32": np.float32, "int64": np.int64, "int32": np.int32, "bool": np.bool_, "uint8": np.uint8, "float16": np.float16}


def put_graph(folder, name, nodes, inputs, outputs):
    def port(p):
        return helper.make_tensor_value_info(p[0], p[1], p[2])
    g = helper.make_graph(nodes, name, [port(p) for p in inputs], [port(p) for p in outputs])
    save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), folder / f"{name}.onnx")


def doubling(folder, document=None):
    """y = x + x, as the component f of make_packages.straight."""
    folder = make_packages.write(folder, document or make_packages.straight())
    put_graph(folder, "f", [helper.make_node("Add", ["x", "x"], ["y"])], [("x", TensorProto.FLOAT, ["batch", 2])],
              [("y", TensorProto.FLOAT, ["batch", 2])])
    return folder


def save_npy(path, value, dtype):
    np.save(path, np.array(value, dtype=dtype))
    return path


def test_a_component_is_run_and_its_output_written(weft, tmp_path):
    p, out = doubling(tmp_path / "p"), tmp_path / "out"
    x = save_npy(tmp_path / "x.npy", [[1, 2], [3.5, -4]], np.float32)
    weft("exec", p, "--input", f"x={x}", "-o", out, check=0)
    y = np.load(out / "y.npy")
    assert y.dtype == np.float32 and y.tolist() == [[2, 4], [7, -8]]


def test_a_request_that_does_not_fit_is_refused_before_anything_runs(weft, tmp_path):
    p, out = doubling(tmp_path / "p"), tmp_path / "out"
    good = save_npy(tmp_path / "x.npy", [[1, 2]], np.float32)
    flat = save_npy(tmp_path / "flat.npy", [1, 2], np.float32)
    whole = save_npy(tmp_path / "whole.npy", [[1, 2]], np.int64)
    for inputs, code, word in (((), 23, b"'x'"), ((f"x={flat}",), 22, b"'x'"), ((f"x={whole}",), 22, b"'x'"),
                               ((f"x={good}", f"z={good}"), 22, b"'z'")):
        args = [a for i in inputs for a in ("--input", i)]
        r = weft("exec", p, *args, "-o", out, check=code)
        assert word in r.stderr
    assert not out.exists()


def test_two_outputs_of_one_file_are_refused_and_neither_is_written(weft, tmp_path):
    document = make_packages.straight()
    outputs = document["pipeline"]["workflow"]["outputs"]
    (name, value), = outputs.items()
    outputs.clear()
    outputs.update({"a/b": value, "a_b": dict(value)})
    emit = next(s for s in document["pipeline"]["workflow"]["steps"] if s["kind"] == "emit")
    emit["output"] = "a/b"
    document["pipeline"]["workflow"]["steps"].append(dict(emit, output="a_b"))
    p, out = doubling(tmp_path / "p", document), tmp_path / "out"
    x = save_npy(tmp_path / "x.npy", [[1, 2]], np.float32)
    r = weft("exec", p, "--input", f"x={x}", "-o", out, check=6)
    assert b"'a/b'" in r.stderr and b"'a_b'" in r.stderr and not out.exists()


def test_an_artifact_input_is_read_from_the_package(weft, tmp_path):
    def package(name, file, *shape):
        d = make_packages.straight()
        x = d["pipeline"]["workflow"]["inputs"]["x"]
        x.update({"source": {"kind": "artifact", "path": file}, "contract": tensor("float32", *shape)})
        return doubling(tmp_path / name, d)
    out, values = tmp_path / "out", np.array([[1, -2.5], [3, 4]], np.float32)
    p = package("npy", "w.npy", "batch", 2)
    np.save(p / "w.npy", values)
    weft("exec", p, "-o", out, check=0)
    assert np.load(out / "y.npy").tolist() == [[2, -5], [6, 8]]
    x = save_npy(tmp_path / "x.npy", [[7, 7]], np.float32)
    weft("exec", p, "--input", f"x={x}", "-o", out, check=0)  # a supplied tensor goes before
    assert np.load(out / "y.npy").tolist() == [[14, 14]]
    for wrong, word in ((values.astype(np.float64), b"element type"), (values[0], b"rank"), (values[:, :1], b"shape")):
        np.save(p / "w.npy", wrong)
        assert word in weft("exec", p, "-o", out, check=22).stderr
    (p / "w.npy").write_bytes(b"no numpy file")
    assert b"magic" in weft("exec", p, "-o", out, check=9).stderr
    p = package("raw", "w.bin", 2, 2)
    (p / "w.bin").write_bytes(values.tobytes())
    weft("exec", p, "-o", out, check=0)
    assert np.load(out / "y.npy").tolist() == [[2, -5], [6, 8]]
    (p / "w.bin").write_bytes(values.tobytes()[:-1])
    assert b"size" in weft("exec", p, "-o", out, check=22).stderr
    p = package("open", "w.bin", "batch", 2)
    (p / "w.bin").write_bytes(values.tobytes())
    assert b"not fixed" in weft("exec", p, "-o", out, check=22).stderr


def powers():
    """x doubled in each of n trips; every trip's value is appended, the last one replaces `last`."""
    x, n = tensor("float32", "batch", 2), tensor("int64", 1, rows=False)
    return {"schema_version": "v1", "pipeline": {"workflow": {
        "manifest": {"capabilities": ["workflow_ssa", "typed_emit", "nested_control_flow", "linear_effects"]},
        "inputs": {"x": application(x, "x"), "n": request(n, "max_output_tokens"),
                   "go": literal(tensor("bool", 1, rows=False), True)},
        "outputs": {"all": {"contract": tensor("float32", "batch", "total"), "role": "tensor", "stage": "pre_adapter"},
                    "last": {"contract": x, "role": "tensor", "stage": "pre_adapter"}},
        "components": {"f": onnx_component({"x": x}, {"y": x}),
                       "same": {"implementation": {"kind": "binding"}, "ports": {"inputs": {"value": x}, "outputs": {"value": x}}}},
        "state": {"acc": {"contract": x, "scope": "invocation", "initializer": "x", "recurrence": {"kind": "invariant"}},
                  "more": {"contract": tensor("bool", 1, rows=False), "scope": "invocation", "initializer": "go",
                           "recurrence": {"kind": "invariant"}}},
        "steps": [
            {"kind": "loop", "setup": [],
             "steps": [invoke("f", {"x": "acc"}, {"y": "acc1"}),
                       {"kind": "emit", "value": "acc1", "output": "all", "mode": "append"},
                       {"kind": "emit", "value": "acc1", "output": "last", "mode": "replace"}],
             "continue_when": "more", "max_iterations": "n", "termination": "predicate",
             "carried": [{"cell": "acc", "next": "acc1"}, {"cell": "more", "next": "more"}]}]}}}


def test_a_loop_carries_its_cell_and_appends_what_each_trip_publishes(weft, tmp_path):
    p, out = make_packages.write(tmp_path / "p", powers()), tmp_path / "out"
    put_graph(p, "f", [helper.make_node("Add", ["x", "x"], ["y"])], [("x", TensorProto.FLOAT, ["batch", 2])],
              [("y", TensorProto.FLOAT, ["batch", 2])])
    x = save_npy(tmp_path / "x.npy", [[1, -0.5]], np.float32)
    weft("exec", p, "--input", f"x={x}", "--max-tokens", "3", "-o", out, check=0)
    assert np.load(out / "all.npy").tolist() == [[2, -1, 4, -2, 8, -4]]
    assert np.load(out / "last.npy").tolist() == [[8, -4]]


def remembering(events=False):
    """A sum that the session keeps: each run adds x to it once a trip, and publishes it."""
    d = powers()
    w = d["pipeline"]["workflow"]
    w["manifest"]["capabilities"] += ["session_state_lease"] + ["streaming_emit"] * events
    x = tensor("float32", "batch", 2)
    w["inputs"]["start"] = application(x, "start")
    w["components"]["f"] = onnx_component({"x": x, "d": x}, {"y": x})
    w["state"]["acc"].update({"scope": "session", "initializer": "start"})
    loop = w["steps"][0]
    loop["steps"] = [invoke("f", {"x": "acc", "d": "x"}, {"y": "acc1"}),
                     {"kind": "emit", "value": "acc1", "output": "last", "mode": "event" if events else "replace"}]
    del w["outputs"]["all"]
    return d


def write_remembering(folder, **more):
    folder = make_packages.write(folder, remembering(**more))
    put_graph(folder, "f", [helper.make_node("Add", ["x", "d"], ["y"])], [(n, TensorProto.FLOAT, ["batch", 2]) for n in ("x", "d")],
              [("y", TensorProto.FLOAT, ["batch", 2])])
    return folder


def add(weft, tmp_path, package, x, *more, check=0, start=(0, 0), n=1):
    out = tmp_path / "out"
    x = save_npy(tmp_path / "x.npy", [x], np.float32)
    start = save_npy(tmp_path / "start.npy", [start], np.float32)
    r = weft("exec", package, "--input", f"x={x}", "--input", f"start={start}", "-n", str(n), "-o", out, *more, check=check)
    return np.load(out / "last.npy").tolist() if check == 0 else r


def test_a_session_goes_on_from_its_file_and_a_run_that_fails_leaves_it(weft, tmp_path):
    p, s = write_remembering(tmp_path / "p"), tmp_path / "chat.session"
    assert add(weft, tmp_path, p, (1, 2), "--session", s, start=(10, 0)) == [[11, 2]]
    assert (s.stat().st_mode & 0o777) == 0o600
    assert add(weft, tmp_path, p, (1, 2), "--session", s, start=(500, 500)) == [[12, 4]]  # what it kept, not the initial value
    assert add(weft, tmp_path, p, (1, 1), "--session", s, n=3) == [[15, 7]]
    kept = s.read_bytes()
    r = weft("exec", p, "--input", f"x={tmp_path / 'x.npy'}", "--session", s, "-o", tmp_path / "out", check=23)
    assert b"'start'" in r.stderr and s.read_bytes() == kept
    assert add(weft, tmp_path, p, (0, 0), "--session", tmp_path / "other", start=(3, 3)) == [[3, 3]]  # isolated by file
    assert b"session" in add(weft, tmp_path, p, (0, 0), check=22).stderr  # statement 77


def test_a_session_file_of_another_package_or_damaged_is_refused_and_kept(weft, tmp_path):
    p, s = write_remembering(tmp_path / "p"), tmp_path / "chat.session"
    add(weft, tmp_path, p, (1, 2), "--session", s)
    other = write_remembering(tmp_path / "q", events=True)
    assert b"another package" in add(weft, tmp_path, other, (1, 2), "--session", s, check=3).stderr
    whole = s.read_bytes()
    for at in range(0, len(whole)):
        s.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1:])
        if at % 7 == 0 or at < 24:
            add(weft, tmp_path, p, (1, 2), "--session", s, check=3)
    for n in (0, 1, 8, 23, 24, len(whole) // 2, len(whole) - 1):
        s.write_bytes(whole[:n])
        add(weft, tmp_path, p, (1, 2), "--session", s, check=3)
        assert s.read_bytes() == whole[:n]
    s.write_bytes(whole)
    assert add(weft, tmp_path, p, (1, 2), "--session", s) == [[2, 4]]


def test_events_come_in_order_beside_the_latest_value(weft, tmp_path):
    p = write_remembering(tmp_path / "p", events=True)
    assert add(weft, tmp_path, p, (1, 2), "--session", tmp_path / "s", n=3) == [[3, 6]]
    events = json.loads((tmp_path / "out" / "last.json").read_text())
    assert events == [{"sequence": i, "row": None, "shape": [1, 2], "values": [i + 1, 2 * i + 2]} for i in range(3)]


def replaceable(folder):
    """f doubles x; g squares it under other port names; h says that it means something else."""
    x = tensor("float32", "batch", 2)
    d = make_packages.straight()
    w = d["pipeline"]["workflow"]
    contract = {"id": "test.f", "version": "1", "bindings": {"in": "x", "out": "y"}}
    w["components"]["f"].update(application_overridable=True, contract=contract)
    w["components"]["g"] = onnx_component({"a": x}, {"b": x}, contract={**contract, "bindings": {"in": "a", "out": "b"}})
    w["components"]["h"] = onnx_component({"x": x}, {"y": x}, contract={**contract, "version": "2"})
    w["components"]["k"] = onnx_component({"x": x, "z": x}, {"y": x}, contract={**contract, "bindings": {"in": "x", "more": "z", "out": "y"}})
    folder = doubling(folder, d)
    for name, ports in (("h", ("x", "x")), ("k", ("x", "z"))):
        put_graph(folder, name, [helper.make_node("Add", ports, ["y"])], [(n, TensorProto.FLOAT, ["batch", 2]) for n in sorted(set(ports))],
                  [("y", TensorProto.FLOAT, ["batch", 2])])
    put_graph(folder, "g", [helper.make_node("Mul", ["a", "a"], ["b"])], [("a", TensorProto.FLOAT, ["batch", 2])],
              [("b", TensorProto.FLOAT, ["batch", 2])])
    return folder


def test_a_component_is_replaced_by_an_equal_one_and_by_no_other(weft, tmp_path):
    p, out = replaceable(tmp_path / "p"), tmp_path / "out"
    x = save_npy(tmp_path / "x.npy", [[3, -4]], np.float32)

    def run(*more, check=0):
        return weft("exec", p, "--input", f"x={x}", "-o", out, *more, check=check)
    run()
    assert np.load(out / "y.npy").tolist() == [[6, -8]]
    run("--override", "f=g")
    assert np.load(out / "y.npy").tolist() == [[9, 16]]
    for text, word in (("f=h", b"contract"), ("f=k", b"roles"), ("g=f", b"cannot be replaced"), ("f=none", b"'none'"),
                       ("none=g", b"'none'")):
        assert word in run("--override", text, check=22).stderr
    assert b"twice" in run("--override", "f=g", "--override", "f=f", check=22).stderr
    assert b"COMPONENT=OTHER" in run("--override", "f", check=6).stderr


KNOBS = {"temperature": ("float32", "sampling_temperature"), "top_k": ("int64", "sampling_top_k"), "top_p": ("float32", "sampling_top_p"),
         "min_p": ("float32", "sampling_min_p"), "seed": ("int64", "seed"), "limit": ("int64", "max_output_tokens")}


def knobs(defaults=None, generation=None):
    """Every runtime scalar published as it came."""
    def contract(name):
        return tensor(KNOBS[name][0], rows=False)
    w = {"manifest": {"capabilities": ["workflow_ssa", "typed_emit"]},
         "inputs": {n: request(contract(n), role, **({"required": False, "default": defaults[n]} if n in (defaults or {}) else {}))
                    for n, (_, role) in KNOBS.items()},
         "outputs": {n: {"contract": contract(n), "role": "tensor", "stage": "pre_adapter"} for n in KNOBS},
         "components": {"same": {"implementation": {"kind": "binding"}, "ports": {
             "inputs": {n: contract(n) for n in KNOBS}, "outputs": {n: contract(n) for n in KNOBS}}}},
         "steps": [invoke("same", {n: n for n in KNOBS}, {n: n + "1" for n in KNOBS})]
         + [{"kind": "emit", "value": n + "1", "output": n, "mode": "replace"} for n in KNOBS]}
    d = {"schema_version": "v1", "pipeline": {"workflow": w}}
    return {**d, "generation": generation} if generation else d


def read_knobs(weft, tmp_path, document, *args, check=0):
    p = tmp_path / "p"
    shutil.rmtree(p, ignore_errors=True)
    make_packages.write(p, document)
    r = weft("exec", p, "-o", tmp_path / "out", *args, check=check)
    return [round(np.load(tmp_path / "out" / f"{n}.npy").item(), 6) for n in KNOBS] if check == 0 else r.stderr


def test_sampling_is_one_field_and_silence_is_greedy(weft, tmp_path):
    """Statements 32 and 33."""
    assert read_knobs(weft, tmp_path, knobs()) == [0, 1, 1, 0, 0, 128]
    assert read_knobs(weft, tmp_path, knobs(), "--top-p", "0.5") == [1, 0, 0.5, 0, 0, 128]
    assert read_knobs(weft, tmp_path, knobs(), "--temp", "0", "--top-k", "7") == [0, 1, 1, 0, 0, 128]
    said = {"temperature": 0.25, "top_k": 1, "seed": 9, "limit": 8}
    assert read_knobs(weft, tmp_path, knobs(said)) == [0.25, 1, 1, 0, 9, 8]
    assert read_knobs(weft, tmp_path, knobs(said), "--top-p", "0.5") == [1, 0, 0.5, 0, 9, 8]
    assert read_knobs(weft, tmp_path, knobs(said), "--greedy", "--seed", "3", "-n", "5") == [0, 1, 1, 0, 3, 5]


def test_a_generation_section_says_what_a_caller_may_set_and_within_what(weft, tmp_path):
    """Statement 92."""
    def section(defaults, *fields, **bounds):
        return {"defaults": defaults, "overrides": {f: {"input": f, **({"constraint": bounds} if bounds else {})} for f in fields}}
    own = {"temperature": 0.75, "top_k": 3}
    samples = knobs(own, section({"temperature": 0.5, "top_p": 0.9}, "temperature", minimum=0, maximum=1.5))
    assert read_knobs(weft, tmp_path, samples) == [0.5, 0, 0.9, 0, 0, 128]  # the section goes before the inputs' defaults
    assert read_knobs(weft, tmp_path, samples, "--temp", "1.25") == [1.25, 0, 0.9, 0, 0, 128]
    assert read_knobs(weft, tmp_path, samples, "--temp", "0") == [0, 1, 1, 0, 0, 128]
    assert read_knobs(weft, tmp_path, samples, "--greedy", "-n", "4") == [0, 1, 1, 0, 0, 4]
    assert b"above the package's bound of 1.5" in read_knobs(weft, tmp_path, samples, "--temp", "1.75", check=22)
    for args in (("--top-k", "4"), ("--top-p", "0.5"), ("--min-p", "0.1"), ("--seed", "1")):
        assert b"does not let a caller set" in read_knobs(weft, tmp_path, samples, *args, check=22)
    assert read_knobs(weft, tmp_path, knobs(own, section({"do_sample": False, "temperature": 0.5}))) == [0, 1, 1, 0, 0, 128]
    bounded = knobs(None, section({}, "limit", "seed", minimum=1, maximum=16))
    assert read_knobs(weft, tmp_path, bounded, "-n", "99", "--seed", "2") == [0, 1, 1, 0, 2, 16]
    assert b"below" in read_knobs(weft, tmp_path, bounded, "--seed", "0", check=22)


def test_tokens_and_sampling_are_not_asked_of_a_plain_graph(weft, tmp_path):
    p = doubling(tmp_path / "p")
    x = save_npy(tmp_path / "x.npy", [[1, 2]], np.float32)
    r = weft("exec", p / "f.onnx", "--input", f"x={x}", "--greedy", "-o", tmp_path / "out", check=2)
    assert b"workflow" in r.stderr


# ---- the packages beside the checkout

# What these packages want and weft does not have yet: they are refused at load, by the adapter's name.
MISSING = {"adapter": b"onnx-genai.parameter-overlay", "policy-image-adapter": b"onnx-genai.image-preprocess",
           "vlm_substitute": b"onnx-genai.image-preprocess", "speech_wav": None, "speech_wav_two_adapters": None}


def options(case):
    o = case.get("options") or {}
    args = ["--max-tokens", o.get("max_new_tokens", 128)]
    if case.get("ids"):
        args += ["--ids", ",".join(map(str, case["ids"]))]
    if o.get("stop_on_eos") is False:
        args.append("--ignore-eos")
    if "seed" in o:
        args += ["--seed", o["seed"]]
    if o.get("greedy") is True:
        return [*args, "--greedy"]
    for name in ("temperature", "top_k", "top_p", "min_p"):
        if name in o:
            args += ["--" + name.replace("_", "-"), o[name]]
    return args


def run_case(weft, package, case, folder, backend):
    args = [*options(case), "--backend", backend]
    if backend == "ort":
        args += ["--ort", LIBRARY]
    for i, (name, v) in enumerate(case.get("inputs", {}).items()):
        x = save_npy(folder / f"in{i}.npy", v["data"], DTYPES[v["dtype"].lower()])
        np.save(x, np.load(x).reshape(v["shape"]))
        args += ["--input", f"{name}={x}"]
    return weft("exec", package, *args, "-o", folder / "out")


def check_outputs(case, folder):
    for name, v in case["expect"].get("outputs", {}).items():
        got = np.load(folder / "out" / (name.replace("/", "_") + ".npy"))
        want = np.array(v["data"], dtype=np.float64).reshape(v["shape"])
        assert list(got.shape) == v["shape"], name
        if name == "elapsed_ms":  # a time
            assert (got >= 0).all()
            continue
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=1e-5, atol=1e-7, err_msg=name)


def runnable(case):
    """exec has no --override yet, and `rows` are for the commands of speech. A case about one flat text of several rows
    is about a generate call, which exec is not."""
    return "rows" not in case and "override" not in case and case["name"] != "generate_b2_refused"


@pytest.mark.parametrize("backend", ("native", "ort"))
def test_every_stated_case_gives_its_outputs(weft, fixtures, tmp_path, backend):
    n = 0
    for file in sorted((fixtures / "expected").glob("*.json")):
        package = fixtures / "packages" / file.stem
        stated = json.loads(file.read_text())
        for i, case in enumerate(stated.get("cases", [])):
            folder = tmp_path / f"{file.stem}-{i}"
            if not runnable(case):
                continue
            os.makedirs(folder)
            r = run_case(weft, package, case, folder, backend)
            if MISSING.get(file.stem):
                assert r.returncode == 10 and MISSING[file.stem] in r.stderr, (file.stem, case["name"], r.stderr)
                continue
            if "error" in case["expect"]:
                assert r.returncode in (22, 23, 24), (file.stem, case["name"], r.returncode, r.stderr)
                assert not (folder / "out").exists()
                continue
            assert r.returncode == 0, (file.stem, case["name"], r.stderr)
            check_outputs(case, folder)
            n += 1
    assert n >= 60
