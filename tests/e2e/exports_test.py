# SPDX-License-Identifier: Apache-2.0
"""Small random models of transformers' own classes as torch's exporter writes them (golden/exports, made by
tests/graph/make_exports.py): the logits ONNX Runtime gave for the same file, and what weft makes of each."""
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
from test_longhand_logits import TOOL, run_weft

GOLDEN = pathlib.Path(__file__).parent / "golden/exports"
NONE, HALF, PAIRS = 0, 1, 2  # as the graph's listing says it
ROTARY = {"cohere": PAIRS, "cohere_no_past": PAIRS, "cohere2": PAIRS, "glm": PAIRS, "glm4": PAIRS, "gptj": PAIRS,
          "gptj_no_past": PAIRS, "gpt2": NONE, "gpt2_no_past": NONE, "opt": NONE, "gpt_bigcode": NONE}
# a bias that falls with the distance, which attention has no form for
ROW_BY_ROW = ("mpt",)
MODELS = sorted(p.stem for p in GOLDEN.glob("*.npz"))
pytestmark = pytest.mark.skipif(TOOL is None, reason="backend_logits_tool is not built")


def unpack(name, folder):
    golden = np.load(GOLDEN / f"{name}.npz")
    path = folder / f"{name}.onnx"
    path.write_bytes(golden["model"].tobytes())
    return path, [int(i) for i in golden["ids"]], golden["logits"]


def test_there_are_exports():
    assert len(MODELS) >= 12


@pytest.mark.parametrize("name", MODELS)
def test_an_export_has_the_logits_of_onnxruntime(name, tmp_path):
    path, ids, expected = unpack(name, tmp_path)
    for threads in "1", "2":
        got, told = run_weft(path, tmp_path / "m", ids, "exact", "threads", threads)
        assert np.abs(got - expected).max() <= 1e-5 * np.ptp(expected), told
    one, told = run_weft(path, tmp_path / "m", ids, "exact", "threads", "1")
    assert told.startswith("packed") == (name not in ROW_BY_ROW), told
    chunked, _ = run_weft(path, tmp_path / "m", ids, "exact", "threads", "1", "chunk", "3")
    if name in ROW_BY_ROW:
        assert np.abs(chunked - expected).max() <= 1e-5 * np.ptp(expected)
    else:
        assert chunked.tobytes() == one.tobytes()


@pytest.mark.parametrize("name", [n for n in MODELS if n not in ROW_BY_ROW])
def test_attention_of_an_export_is_one_node_with_its_rotation(name, tmp_path):
    path, _, _ = unpack(name, tmp_path)
    shutil.move(path, tmp_path / "model.onnx")
    p = subprocess.run([TOOL, str(tmp_path), str(tmp_path / "out"), "1,2", "report"], capture_output=True, text=True,
                       timeout=60, check=True)
    after = p.stdout[p.stdout.rindex("\n== ") :]
    attention = [line for line in after.splitlines() if " = weft.CachedAttention" in line]
    assert len(attention) == 2 and " = Softmax" not in after
    kinds = [ROTARY.get(name, HALF)] * 2
    if name == "cohere2":  # its layers without a window do not rotate
        kinds[1] = NONE
    for line, kind in zip(attention, kinds):
        assert f" rotary={kind}:" in line, line
