# SPDX-License-Identifier: Apache-2.0
"""Larger models, by `make check-models` alone."""
import os

import pytest

from interop_test import exact_copy, np, ort_logits, prompt_ids

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def gemma(weft, tmp_path_factory):
    path = os.path.join(os.environ.get("WEFT_MODELS", ""), "gemma-3-270m-q4_k_m.gguf")
    if not os.path.exists(path):
        pytest.skip("gemma-3-270m-q4_k_m.gguf is not there (make check-models fetches it)")
    folder = tmp_path_factory.mktemp("gemma") / "package"
    weft("import", path, "-o", folder, check=0, timeout=600)
    return folder


def test_gemma_logits_are_those_of_onnx_runtime(weft, gemma, tmp_path):
    ids = prompt_ids(weft, gemma, "Name three rivers of Europe.")
    out = tmp_path / "logits.npy"
    weft("logits", gemma, "--ids", ",".join(map(str, ids)), "--output", out, "--kv", "f32", check=0)
    ours, theirs = np.load(out), ort_logits(exact_copy(gemma, tmp_path), ids)
    if theirs.shape[0] == 1:
        ours = ours[-1:]
    # as written the judge quantises activations: its own noise, not ours
    assert (ours.argmax(-1) == theirs.argmax(-1)).mean() >= 0.9
    assert float(np.abs(ours - theirs).max()) <= 0.08 * float(theirs.max() - theirs.min())


def test_gemma_answers_across_its_window(weft, gemma):
    words = " ".join(f"word{i}" for i in range(400))
    o = weft.json("run", gemma, "--raw", "-p", words, "--greedy", "--max-tokens", "8", "--json", timeout=300)
    assert o["usage"]["prompt_tokens"] > 512
    assert len(o["output_ids"]) == 8 or o["finish_reason"] == "stop"
