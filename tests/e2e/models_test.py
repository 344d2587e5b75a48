# SPDX-License-Identifier: Apache-2.0
"""Larger models, by `make check-models` alone."""
import os

import pytest

from interop_test import PROMPTS, compare_greedy, exact_copy, np, ort_logits, prompt_ids

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


@pytest.fixture(scope="module")
def full(weft, gguf, tmp_path_factory):
    """The demo model in fp32."""
    folder = tmp_path_factory.mktemp("full") / "package"
    weft("import", gguf, "--dequantize", "-o", folder, check=0, timeout=600)
    return folder


@pytest.mark.parametrize("cache,bound", [("f32", 1e-4), ("f16", 1e-3)])
@pytest.mark.parametrize("text", PROMPTS)
def test_fp32_logits_are_those_of_onnx_runtime(weft, full, tmp_path, text, cache, bound):
    ids = prompt_ids(weft, full, text)
    out = tmp_path / "logits.npy"
    weft("logits", full, "--ids", ",".join(map(str, ids)), "--output", out, "--kv", cache, check=0)
    ours, theirs = np.load(out), ort_logits(full, ids)
    ours = ours[-len(theirs):]
    error, span = float(np.abs(ours - theirs).max()), float(np.ptp(theirs))
    assert error <= bound * span, f"largest error {error:.3g} over a range of {span:.3g}"


@pytest.mark.parametrize("text", PROMPTS)
def test_fp32_greedy_tokens_are_those_of_onnxruntime_genai(weft, full, text):
    compare_greedy(weft, full, full, text, noise=0.002)


def test_gemma_greedy_tokens_are_those_of_onnxruntime_genai(weft, gemma, tmp_path):
    compare_greedy(weft, gemma, exact_copy(gemma, tmp_path), "Name three rivers of Europe.", noise=0.002)
