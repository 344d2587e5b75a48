# SPDX-License-Identifier: Apache-2.0
"""The folder that `weft import` writes, judged by others: ONNX Runtime's logits and onnxruntime-genai's greedy tokens
on the same files (docs/design.md "Numbers"). As written, the graph allows quantised activations (accuracy_level 4), whose
noise is the judge's own; the exact comparisons take a copy that asks for fp32 (level 1), with the same weights."""
import json

import pytest

np = pytest.importorskip("numpy", reason="the judges are not installed (make deps)")
ort = pytest.importorskip("onnxruntime", reason="the judges are not installed (make deps)")

PROMPTS = ["What is a loom?", "Name three rivers of Europe and say where they end.", "Write a haiku about é and 数."]


def plain_path(package, tmp_path):
    """The package under an ASCII name: the judges need not take others."""
    link = tmp_path / "package"
    link.symlink_to(package)
    return link


def exact_copy(package, tmp_path):
    """The package with accuracy_level 1 on every MatMulNBits: ONNX Runtime multiplies in fp32 then. As written, level 4,
    it rounds activations to 8 bits, which moves SmolLM2's logits by up to 3% of their range."""
    onnx = pytest.importorskip("onnx", reason="the judges are not installed (make deps)")
    copy = tmp_path / "exact"
    copy.mkdir()
    for file in package.iterdir():
        if file.name != "model.onnx":
            (copy / file.name).hardlink_to(file)  # ONNX Runtime refuses external data behind a link
    model = onnx.load(str(package / "model.onnx"), load_external_data=False)
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.name == "accuracy_level":
                attribute.i = 1
    onnx.save(model, str(copy / "model.onnx"))
    return copy


@pytest.fixture(scope="module")
def exact(package, tmp_path_factory):
    """The exact copy, under an ASCII name."""
    return exact_copy(package, tmp_path_factory.mktemp("judged"))


def prompt_ids(weft, package, text):
    return weft.json("run", package, "-p", text, "--max-tokens", "0", "--json")["prompt_ids"]


def ort_logits(folder, ids):
    """Logits after each of the ids, by ONNX Runtime over the decoder graph with an empty cache."""
    config = json.loads((folder / "genai_config.json").read_text(encoding="utf-8"))["model"]
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    session = ort.InferenceSession(str(folder / config["decoder"]["filename"]), options, providers=["CPUExecutionProvider"])
    n = len(ids)
    kinds = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64, "tensor(int32)": np.int32}
    feeds = {}
    for port in session.get_inputs():
        kind = kinds[port.type]
        if port.name == "input_ids":
            feeds[port.name] = np.array([ids], kind)
        elif port.name == "attention_mask":
            feeds[port.name] = np.ones((1, n), kind)
        elif port.name == "position_ids":
            feeds[port.name] = np.arange(n, dtype=kind)[None]
        else:  # a cache: [batch, heads, past, head size]
            heads, size = port.shape[1], port.shape[3]
            heads = heads if isinstance(heads, int) else config["decoder"]["num_key_value_heads"]
            size = size if isinstance(size, int) else config["decoder"]["head_size"]
            feeds[port.name] = np.zeros((1, heads, 0, size), kind)
    return session.run(["logits"], feeds)[0][0].astype(np.float32)


@pytest.mark.parametrize("text", PROMPTS)
def test_logits_are_those_of_onnx_runtime(weft, package, exact, tmp_path, text):
    ids = prompt_ids(weft, package, text)
    out = tmp_path / "logits.npy"
    weft("logits", package, "--ids", ",".join(map(str, ids)), "--output", out, "--kv", "f32", check=0)
    ours, theirs = np.load(out), ort_logits(exact, ids)
    assert ours.shape[0] == len(ids) and ours.dtype == np.float32
    if theirs.shape[0] == 1:
        ours = ours[-1:]  # the graph prunes its head
    span = float(theirs.max() - theirs.min())
    error = float(np.abs(ours - theirs).max())
    assert error <= 1e-4 * span, f"largest error {error:.3g} over a range of {span:.3g}"


def compare_greedy(weft, package, judged, text, noise):
    """64 greedy tokens of both; where they part first, the top two must be closer than the noise."""
    og = pytest.importorskip("onnxruntime_genai", reason="the judges are not installed (make deps)")
    n_new = 64
    o = weft.json("run", package, "-p", text, "--greedy", "--max-tokens", str(n_new), "--json", "--logprobs", "2",
                  "--precision", "exact", "--kv", "f32")
    model = og.Model(str(judged))
    params = og.GeneratorParams(model)
    params.set_search_options(do_sample=False, max_length=len(o["prompt_ids"]) + n_new)
    generator = og.Generator(model, params)
    generator.append_tokens(np.array(o["prompt_ids"], np.int32))
    while not generator.is_done() and len(generator.get_sequence(0)) < len(o["prompt_ids"]) + n_new:
        generator.generate_next_token()
    theirs = [int(t) for t in generator.get_sequence(0)][len(o["prompt_ids"]):]
    for i, (a, b) in enumerate(zip(o["output_ids"], theirs)):
        if a == b:
            continue
        best, second = (t["logprob"] for t in o["logprobs"][i]["top_logprobs"][:2])
        assert best - second < noise, f"token {i}: {a}, theirs {b}, with a margin of {best - second:.4f}"
        return  # beyond a tie the two texts may differ
    assert abs(len(o["output_ids"]) - len(theirs)) <= 1


@pytest.mark.parametrize("text", PROMPTS)
def test_greedy_tokens_are_those_of_onnxruntime_genai(weft, package, exact, text):
    compare_greedy(weft, package, exact, text, noise=0.002)


def test_the_folder_as_written_runs_in_onnxruntime_genai(weft, package, tmp_path):
    compare_greedy(weft, package, plain_path(package, tmp_path), PROMPTS[1], noise=0.3)
