# SPDX-License-Identifier: Apache-2.0
"""GGUF import judged from outside: ONNX Runtime runs the written folder, and its logits are those
of a float64 decoder that reads the same GGUF file through gguf-py."""
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "import"))

np = pytest.importorskip("numpy")
ort = pytest.importorskip("onnxruntime")
pytest.importorskip("gguf")
import gguf_models  # noqa: E402
from gguf_models import Maker, Q, Reference  # noqa: E402

WEFT = os.environ.get("WEFT", str(ROOT / "build" / "weft"))
TOOL = os.environ.get("WEFT_IMPORT_TOOL")  # tests/import/import_tool.c, where there is no weft

TYPES = [Q.F32, Q.F16, Q.BF16, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0, Q.Q4_K, Q.Q5_K, Q.Q6_K]
ARCHS = ["llama", "qwen2", "qwen3", "gemma3", "phi3"]


def run_import(gguf_path, out, *options):
    if TOOL:
        return subprocess.run([TOOL, str(gguf_path), str(out), *options], capture_output=True,
                              text=True)
    return subprocess.run([WEFT, "import", str(gguf_path), "-o", str(out), *options],
                          capture_output=True, text=True)


def set_exact(folder):
    """accuracy_level 1 everywhere: the weights are judged, not int8 activations."""
    onnx = pytest.importorskip("onnx")
    path = str(folder / "model.onnx")
    model = onnx.load(path, load_external_data=False)
    for node in model.graph.node:
        for a in node.attribute:
            if a.name == "accuracy_level":
                a.i = 1
    onnx.save(model, path)


def run_onnx(folder, ids, chunks=1):
    """Logits of all positions, the prompt read in `chunks` pieces through the caches."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    s = ort.InferenceSession(str(folder / "model.onnx"), options,
                             providers=["CPUExecutionProvider"])
    past = {i.name: np.zeros((1, i.shape[1], 0, i.shape[3]), np.float32)
            for i in s.get_inputs() if i.name.startswith("past")}
    names = [o.name for o in s.get_outputs()]
    rows = []
    done = 0
    for piece in np.array_split(np.array(ids, np.int64), chunks):
        done += len(piece)
        out = dict(zip(names, s.run(None, {"input_ids": piece[None],
                                           "attention_mask": np.ones((1, done), np.int64),
                                           **past})))
        past = {k: out[k.replace("past_key_values", "present")] for k in past}
        rows.append(out["logits"][0])
    return np.concatenate(rows)


def check(tmp_path, maker, n_ids=40, chunks=3, limit=2e-5):
    maker.finish()
    out = tmp_path / "modèles" / "out"
    out.parent.mkdir(exist_ok=True)
    r = run_import(tmp_path / "m.gguf", out)
    assert r.returncode == 0, r.stderr
    set_exact(out)
    ids = list(np.random.default_rng(5).integers(0, 96, n_ids))
    expected = Reference(str(tmp_path / "m.gguf")).logits(ids)
    got = run_onnx(out, ids, chunks)
    error = np.abs(got - expected).max() / (expected.max() - expected.min())
    assert error < limit, f"{error} of the logit range"
    return out


@pytest.mark.parametrize("kind", TYPES, ids=lambda t: t.name)
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "own head"])
def test_every_type_gives_the_logits_of_its_dequantised_weights(tmp_path, kind, tied):
    check(tmp_path, Maker(str(tmp_path / "m.gguf"), "llama", kind, 1, tied=tied))


@pytest.mark.parametrize("kind", [Q.F32, Q.Q4_K, Q.Q4_0], ids=lambda t: t.name)
@pytest.mark.parametrize("arch", ARCHS)
def test_every_architecture_gives_the_logits_of_its_definition(tmp_path, arch, kind):
    extra = {"gemma3.attention.sliding_window": 16,
             "gemma3.attention.sliding_window_pattern": 2,
             "gemma3.rope.freq_base": 1e6} if arch == "gemma3" else {}
    check(tmp_path, Maker(str(tmp_path / "m.gguf"), arch, kind, 2, extra=extra))


def test_a_file_of_mixed_types_as_k_quants_are_in_the_wild(tmp_path):
    def kind(name):
        if name == "token_embd.weight":
            return Q.Q6_K
        return Q.Q6_K if "attn_v" in name or "ffn_down" in name else Q.Q4_K
    check(tmp_path, Maker(str(tmp_path / "m.gguf"), "qwen2", kind, 3))


@pytest.mark.parametrize("kind,extra", [
    ("linear", {"llama.rope.scaling.factor": 4.0}),
    ("yarn", {"llama.rope.scaling.factor": 4.0,
              "llama.rope.scaling.original_context_length": 32}),
])
def test_rope_scaling_by_key(tmp_path, kind, extra):
    extra = {"llama.rope.scaling.type": kind, "llama.rope.freq_base": 5e5, **extra}
    check(tmp_path, Maker(str(tmp_path / "m.gguf"), "llama", Q.F32, 4, extra=extra))


def test_rope_scaling_by_frequency_factors(tmp_path):
    m = Maker(str(tmp_path / "m.gguf"), "llama", Q.F32, 5, extra={"llama.rope.freq_base": 5e5})
    m.w.add_tensor("rope_freqs.weight", np.linspace(1, 8, 32).astype(np.float32))
    check(tmp_path, m)


@pytest.mark.parametrize("n_ids", [20, 40], ids=["short", "long"])
def test_longrope_takes_the_factors_of_the_length(tmp_path, n_ids):
    m = Maker(str(tmp_path / "m.gguf"), "phi3", Q.F32, 6, extra={
        "phi3.rope.scaling.original_context_length": 24, "phi3.rope.scaling.attn_factor": 1.19})
    m.w.add_tensor("rope_factors_long.weight", np.linspace(1, 30, 32).astype(np.float32))
    m.w.add_tensor("rope_factors_short.weight", np.linspace(1, 1.5, 32).astype(np.float32))
    check(tmp_path, m, n_ids=n_ids, chunks=1)


def test_partial_rotary(tmp_path):
    m = Maker(str(tmp_path / "m.gguf"), "phi3", Q.F32, 7)
    m.w.kv_data[0]["phi3.rope.dimension_count"].value = 32
    check(tmp_path, m)


def test_partial_rotary_of_interleaved_rows(tmp_path):
    m = Maker(str(tmp_path / "m.gguf"), "llama", Q.Q8_0, 8)
    m.w.kv_data[0]["llama.rope.dimension_count"].value = 32
    check(tmp_path, m)


def test_a_window_over_all_layers(tmp_path):
    check(tmp_path, Maker(str(tmp_path / "m.gguf"), "phi3", Q.F32, 9,
                          extra={"phi3.attention.sliding_window": 16}))
