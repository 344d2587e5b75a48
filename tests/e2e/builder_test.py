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
    assert len(FOLDERS) == 40


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
    assert re.search(r"^form: +packed", text, re.M), re.search(r"^form:.*", text, re.M).group()
    assert len(re.findall(r"weft\.CachedAttention", text)) >= 2
