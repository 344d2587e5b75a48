# SPDX-License-Identifier: Apache-2.0
"""--profile: a trace that Perfetto opens and a table, for a plain graph and for a decoder."""
import json
import re
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper  # noqa: E402
from onnx import numpy_helper as nh  # noqa: E402

LIBRARY = sorted(Path(ort.__file__).parent.glob("capi/libonnxruntime.so.*"))[0]
FOLDER = Path(__file__).parent / "golden" / "builder" / "llama_fp32"


def spans(path):
    events = json.loads(path.read_text())["traceEvents"]
    assert all(e["ph"] == "X" and e["dur"] >= 0 and e["ts"] >= 0 for e in events)
    assert all(set(e["args"]) == {"node", "shapes", "bytes", "flops"} for e in events)
    return events


def assert_apart(events):
    for tid in {e["tid"] for e in events}:
        own = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["tid"] == tid)
        assert all(a[1] <= b[0] + 1e-3 for a, b in zip(own, own[1:])), "spans of one thread overlap"


def table_of(stderr):
    rows = [line.split() for line in stderr.decode().splitlines() if re.match(r"\S+ +\d+ +\d+\.\d{3} ", line)]
    return {r[0]: (int(r[1]), float(r[2]), float(r[3].rstrip("%"))) for r in rows}


@pytest.fixture
def small(tmp_path):
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], name="product"), helper.make_node("Sign", ["m"], ["r"], name="sign"),
             helper.make_node("Softmax", ["r"], ["y"], name="soft")]
    w = np.random.default_rng(3).standard_normal((8, 6)).astype(np.float32)
    graph = helper.make_graph(nodes, "small", [info("x", TensorProto.FLOAT, [4, 8])], [info("y", TensorProto.FLOAT, [4, 6])], [nh.from_array(w, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.ones((4, 8), np.float32))
    return tmp_path


def test_each_node_of_a_graph_is_one_span_with_its_cost(weft, small):
    r = weft("exec", small / "m.onnx", "--input", f"x={small / 'x.npy'}", "-o", small / "out", "--profile", small / "t.json", check=0)
    events = spans(small / "t.json")
    assert_apart(events)
    assert [e["args"]["node"] for e in sorted(events, key=lambda e: e["ts"])] == ["product", "sign", "soft"]
    product = next(e for e in events if e["args"]["node"] == "product")
    assert product["name"] == "MatMul" and product["args"]["flops"] == 2 * 4 * 8 * 6
    assert "[4, 8]" in product["args"]["shapes"] and product["args"]["bytes"] >= 4 * (4 * 8 + 4 * 6)
    table = table_of(r.stderr)
    assert {k: v[0] for k, v in table.items()} == {"MatMul": 1, "Sign": 1, "Softmax": 1}
    assert abs(sum(v[2] for v in table.values()) - 100) < 0.4
    assert (small / "out" / "y.npy").exists()


@pytest.mark.parametrize("threads", [1, 2])
def test_each_step_of_a_decoder_is_one_span_a_thread_and_run(weft, tmp_path, threads):
    answer = ("run", FOLDER, "--ids", "5,6,7,8", "--greedy", "--ignore-eos", "--max-tokens", "4", "-t", str(threads), "--json")
    r = weft(*answer, "--profile", tmp_path / "t.json", check=0)
    assert json.loads(r.stdout)["output_ids"] == weft.json(*answer)["output_ids"]  # and nothing else changes
    events = spans(tmp_path / "t.json")
    assert_apart(events)
    assert {e["tid"] for e in events} == set(range(1, threads + 1))
    steps = int(re.search(r"^steps: +(\d+)", weft("inspect", FOLDER, check=0).stdout.decode(), re.M).group(1))
    runs = 4  # the prompt gives the first token, each further token is a run
    assert len(events) == steps * runs * threads
    products = [e for e in events if e["name"] == "MatMul" and e["args"]["shapes"].startswith("[4, ")]
    # the prompt's products, columns shared by the members: 2 * 4 rows * 64 * (q, k, v, o and three of the MLP) of the first
    # layer, and q, k, v of the last, behind whose attention only the last token goes on
    expected = 2 * 4 * 64 * (64 + 32 + 32 + 64 + 128 + 128 + 128 + 64 + 32 + 32)
    assert sum(e["args"]["flops"] for e in products) == expected


def test_bench_tells_where_its_time_goes(weft, tmp_path):
    args = ("bench", FOLDER, "-p", "6", "-n", "3", "-t", "1,2", "--json")
    r = weft(*args, "--profile", tmp_path / "t.json", check=0)
    assert [row["threads"] for row in json.loads(r.stdout)] == [1, 2]
    events = spans(tmp_path / "t.json")
    assert_apart(events)
    assert {e["tid"] for e in events} == {1, 2}
    steps = int(re.search(r"^steps: +(\d+)", weft("inspect", FOLDER, check=0).stdout.decode(), re.M).group(1))
    runs = 1 + 1 + 3  # a prompt, a token that gives the first logits, and the first choice is of those: three runs give four
    assert len(events) == steps * runs * (1 + 2)
    table = table_of(r.stderr)
    assert sum(v[0] for v in table.values()) == len(events) and abs(sum(v[2] for v in table.values()) - 100) < 1


def test_a_backend_without_spans_of_its_own_is_one_span_a_run(weft, small):
    weft("exec", small / "m.onnx", "--backend", "ort", "--ort", LIBRARY, "--input", f"x={small / 'x.npy'}", "-o", small / "out", "--profile",
         small / "t.json", check=0)
    assert [e["name"] for e in spans(small / "t.json")] == ["ort"]


def test_a_trace_that_cannot_be_written_is_an_error(weft, small):
    r = weft("exec", small / "m.onnx", "--input", f"x={small / 'x.npy'}", "-o", small / "out", "--profile", small / "no" / "t.json")
    assert r.returncode > 2 and b"t.json" in r.stderr
