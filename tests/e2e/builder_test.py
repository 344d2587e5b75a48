# SPDX-License-Identifier: Apache-2.0
"""Folders as onnxruntime-genai's own model builder writes them, in each of its options (make_builder.py made them and says
who judged them)."""
import re
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
FOLDERS = sorted(p for p in (Path(__file__).parent / "golden" / "builder").iterdir() if p.is_dir())
IDS = [f.name for f in FOLDERS]


def judged(folder):
    with np.load(folder / "judged.npz") as f:
        return {k: f[k] for k in f.files}


def is_half(folder):
    return folder.name.endswith(("fp16", "bf16"))


def test_there_is_a_folder_for_every_option():
    assert len(FOLDERS) == 44


# ONNX Runtime by itself cannot be given every folder's windowed caches, nor onnxruntime-genai run some of its builder's own
WITH_LOGITS = [f for f in FOLDERS if len(judged(f)["logits"])]
WITH_GREEDY = [f for f in FOLDERS if len(judged(f)["greedy"])]


def test_each_folder_has_a_judge():
    assert {*WITH_LOGITS, *WITH_GREEDY} == {*FOLDERS}
    assert len(WITH_LOGITS) >= 25 and len(WITH_GREEDY) >= 23


@pytest.mark.parametrize("folder", WITH_LOGITS, ids=[f.name for f in WITH_LOGITS])
def test_logits_are_those_of_onnx_runtime(weft, folder, tmp_path):
    j = judged(folder)
    out = tmp_path / "logits.npy"
    weft("logits", folder, "--ids", ",".join(map(str, j["ids"])), "--output", out, "--kv", "f32", check=0)
    ours = np.load(out)[-len(j["logits"]):]
    # design.md "Numbers": 1e-4 of the range; half-precision graphs compute in fp32 and are held to the fp32 graph at 5e-3
    bound = 2e-2 if folder.name.endswith("bf16") else 5e-3 if is_half(folder) else 1e-4
    assert np.abs(ours - j["logits"]).max() <= bound * np.ptp(j["logits"])


@pytest.mark.parametrize("folder", WITH_GREEDY, ids=[f.name for f in WITH_GREEDY])
def test_64_greedy_tokens_are_those_of_onnxruntime_genai(weft, folder):
    j = judged(folder)
    got = weft.json("run", folder, "--ids", ",".join(map(str, j["ids"])), "--greedy", "--ignore-eos", "--max-tokens", "64", "--kv",
                    "f32", "--precision", "exact", "--json")["output_ids"]
    assert len(got) == len(j["greedy"]) == 64
    for at, (ours, theirs) in enumerate(zip(got, j["greedy"])):
        if ours != theirs:  # a choice nearer than the noise may fall either way, and everything after it with it
            assert j["margin"][at] < 1e-4, f"token {at}: {ours}, not {theirs}, with a margin of {j['margin'][at]}"
            break


@pytest.mark.parametrize("folder", FOLDERS, ids=IDS)
def test_rows_share_a_run_and_attention_is_one_step(weft, folder):
    text = weft("inspect", folder, check=0).stdout.decode()
    if "longrope" in folder.name:  # which of its two tables turns a token depends on how long the whole prompt is
        assert re.search(r"^form: +a row at a time.*never cut", text, re.M)
        return
    if "lfm2" in folder.name:  # a convolution's state is of a fixed size
        assert re.search(r"^form: +a row at a time", text, re.M) and re.search(r"^states: +1 of a fixed size", text, re.M)
        return
    assert re.search(r"^form: +packed", text, re.M), re.search(r"^form:.*", text, re.M).group()
    assert len(re.findall(r"weft\.CachedAttention", text)) >= 2


def test_states_of_a_fixed_size_are_found_in_a_hugging_face_folder_too(weft, tmp_path):
    """The builder's graph under transformers.js's names: past_conv.N beside past_key_values.M, M beginning anywhere."""
    import json

    import onnx
    source = Path(__file__).parent / "golden" / "builder" / "lfm2_int4"
    model = onnx.load(source / "model.onnx")
    names = {"past.0.conv": "past_conv.0", "present.0.conv": "present_conv.0"}
    for v in [*model.graph.input, *model.graph.output]:
        v.name = names.get(v.name, v.name)
    for n in model.graph.node:
        n.input[:] = [names.get(i, i) for i in n.input]
        n.output[:] = [names.get(o, o) for o in n.output]
    (tmp_path / "onnx").mkdir()
    onnx.save(model, tmp_path / "onnx" / "model.onnx")
    for f in source.glob("tokenizer*"):
        (tmp_path / f.name).write_bytes(f.read_bytes())
    (tmp_path / "config.json").write_text(json.dumps({
        "model_type": "lfm2", "vocab_size": 160, "max_position_embeddings": 256, "num_attention_heads": 4, "num_key_value_heads": 2,
        "hidden_size": 64, "eos_token_id": 2}))
    j = judged(source)
    got = weft.json("run", tmp_path, "--ids", ",".join(map(str, j["ids"])), "--greedy", "--ignore-eos", "--max-tokens", "64", "--kv", "f32",
                    "--precision", "exact", "--json")["output_ids"]
    assert got == j["greedy"].tolist()
