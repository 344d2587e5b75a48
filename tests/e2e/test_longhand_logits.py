# SPDX-License-Identifier: Apache-2.0
"""Decoders written out in plain operators, as optimum and transformers.js write them
(tests/graph/longhand): logits of the native backend against onnx's reference evaluator, which unlike
onnxruntime neither fuses nor saturates."""
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx.reference import ReferenceEvaluator  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = sorted((ROOT / "tests/graph/longhand").glob("*.onnx"))
TYPES = {1: np.float32, 7: np.int64, 10: np.float16}
N = 24


def find_tool():
    build = os.environ.get("WEFT_BUILD_DIR")
    for d in ([build] if build else []) + sorted(str(p) for p in (ROOT / "build").glob("*")) + [str(ROOT / "build")]:
        tool = pathlib.Path(d) / "backend_logits_tool"
        if tool.is_file():
            return str(tool)
    return None


TOOL = find_tool()
pytestmark = pytest.mark.skipif(TOOL is None, reason="backend_logits_tool is not built")


def run_weft(model, folder, ids, *options):
    folder.mkdir(exist_ok=True)
    shutil.copy(model, folder / "model.onnx")
    out = folder / "logits.f32"
    p = subprocess.run([TOOL, str(folder), str(out), ",".join(map(str, ids)), *options], capture_output=True,
                       text=True, timeout=120)
    assert p.returncode == 0, p.stderr
    return np.fromfile(out, np.float32).reshape(len(ids), -1), p.stderr


def run_judge(path, ids):
    model = onnx.load(path)
    n = len(ids)
    feed = {}
    for i in model.graph.input:
        shape = [d.dim_value for d in i.type.tensor_type.shape.dim]
        if i.name == "input_ids":
            feed[i.name] = np.array([ids], np.int64)
        elif i.name == "attention_mask":
            feed[i.name] = np.ones((1, n), np.int64)
        elif i.name == "position_ids":
            feed[i.name] = np.arange(n, dtype=np.int64)[None]
        else:
            feed[i.name] = np.zeros((1, shape[1], 0, shape[3]), TYPES[i.type.tensor_type.elem_type])
    old_quantised = any(n.op_type == "DequantizeLinear" for n in model.graph.node) and model.opset_import[0].version < 19
    if old_quantised or any(n.domain not in ("", "ai.onnx") for n in model.graph.node):
        ort = pytest.importorskip("onnxruntime")
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        logits = ort.InferenceSession(str(path), options).run(["logits"], feed)[0]
    else:
        logits = ReferenceEvaluator(model).run(["logits"], feed)[0]
    return logits.reshape(-1, logits.shape[-1]).astype(np.float64)


@pytest.mark.parametrize("model", MODELS, ids=lambda p: p.stem)
def test_a_longhand_decoder_has_the_reference_logits(model, tmp_path):
    half = "half" in model.stem
    ids = [(i * 37 + i * i * 11 + 5) % 40 for i in range(N)]
    expected = run_judge(model, ids)
    got, told = run_weft(model, tmp_path / "m", ids, "exact", "threads", "2")
    got = got[-len(expected):]  # some exports prune the head to the last token
    off = np.abs(got - expected).max() / np.ptp(expected)
    assert off < (5e-3 if half else 1e-5), told
    # In chunks, so that the state is read back: every form has to keep it right.
    if "packed" in told.splitlines()[0].split(",")[0]:
        chunked, _ = run_weft(model, tmp_path / "m", ids, "exact", "threads", "1", "chunk", "5")
        whole, _ = run_weft(model, tmp_path / "m", ids, "exact", "threads", "1")
        assert chunked.tobytes() == whole.tobytes()
