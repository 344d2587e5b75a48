# SPDX-License-Identifier: Apache-2.0
"""weft bench, inspect and cache: what they print, and where the cache lies."""
import json
import os
import re
import shutil
import subprocess

import pytest

from chain_model import A, ONE, Chain, np, onnx

FIELDS = ["threads", "prompt_tokens", "decode_tokens", "depth", "prefill_tokens_per_second", "decode_tokens_per_second", "load_ms",
          "peak_memory_bytes"]


@pytest.fixture
def chain(tmp_path):
    return Chain(tmp_path / "chain").follow(A, ONE).write()


def test_bench_has_an_object_with_every_field_for_each_setting(weft, chain):
    rows = weft.json("bench", chain, "-p", "4,8", "-n", "3", "-d", "0,5", "-t", "1,2", "--json")
    assert [list(r) for r in rows] == [FIELDS] * 8
    assert [[r[f] for f in FIELDS[:4]] for r in rows] == [[t, p, 3, d] for t in (1, 2) for p in (4, 8) for d in (0, 5)]
    for r in rows:
        assert r["prefill_tokens_per_second"] > 0 and r["decode_tokens_per_second"] > 0
        assert 1 << 20 < r["peak_memory_bytes"] < 1 << 30 and 0 <= r["load_ms"] < 60000


def test_bench_measures_512_and_128_unless_told_otherwise_and_nothing_of_0(weft, tmp_path):
    big = Chain(tmp_path / "big").write(context=4096)
    row, = weft.json("bench", big, "-t", "1", "--json")
    assert [row[f] for f in FIELDS[:4]] == [1, 512, 128, 0]
    row, = weft.json("bench", big, "-t", "1", "-p", "0", "-n", "0", "--json")
    assert row["prefill_tokens_per_second"] == 0 and row["decode_tokens_per_second"] == 0
    lines = weft("bench", big, "-t", "1", "-p", "4", "-n", "4", "-d", "1,2", check=0).stdout.decode().splitlines()
    assert [line.split()[:4] for line in lines[1:]] == [["1", "4", "4", "1"], ["1", "4", "4", "2"]]


def test_bench_beyond_the_context_is_refused_with_both_counts(weft, chain):
    r = weft("bench", chain, "-p", "300", "-t", "1")
    assert 3 <= r.returncode <= 120 and b"300" in r.stderr and b"256" in r.stderr


@pytest.fixture
def odd(tmp_path):
    """Names and attributes that quoting must survive; one output is an input, one node gives two."""
    h, t = onnx.helper, onnx.TensorProto
    graph = h.make_graph(
        [h.make_node("Split", ['a "b\\'], ["one", "two"], axis=0, num_outputs=2), h.make_node("Add", ["one", "two"], ["sum\n<x>"])], "odd",
        [h.make_tensor_value_info('a "b\\', t.FLOAT, [4]), h.make_tensor_value_info("same", t.FLOAT, [1])],
        [h.make_tensor_value_info("sum\n<x>", t.FLOAT, [2]), h.make_tensor_value_info("same", t.FLOAT, [1])])
    path = tmp_path / "odd.onnx"
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], ir_version=8), path)
    return path


def test_inspect_draws_the_graph_from_inputs_to_outputs(weft, odd):
    text = weft("inspect", odd, "--dot", check=0).stdout.decode()
    assert re.match(r"digraph \w+ \{\n", text) and text.endswith("}\n")
    nodes = dict(re.findall(r'^  (\w+) \[(?:shape=oval )?label="((?:[^"\\\n]|\\.)*)"\];$', text, re.M))
    edges = re.findall(r"^  (\w+) -> (\w+);$", text, re.M)
    assert len(text.splitlines()) == 3 + len(nodes) + len(edges)  # every line is one of these
    label = lambda n: re.sub(r"\\([\"\\])", r"\1", nodes[n])  # noqa: E731
    assert sorted((label(a), label(b).replace("\\n", "\n")) for a, b in edges) == sorted(
        [('a "b\\', "Split"), ("Split", "Add"), ("Split", "Add"), ("Add", "sum\n<x>"), ("same", "same")])
    if shutil.which("dot"):
        subprocess.run(["dot", "-Tsvg", "-o", "/dev/null"], input=text.encode(), check=True)


def test_inspect_shows_the_graph_before_and_after_as_text_and_as_one_object(weft, chain, odd):
    for path in (chain, odd):
        o = weft.json("inspect", path, "--json")
        text = weft("inspect", path, check=0).stdout.decode()
        assert {"file", "kind", "backend", "cpu_level", "precision", "is_packed", "why_not_packed", "inputs", "outputs", "report"} <= set(o)
        assert o["file"] in text and o["report"] in text
        assert "== graph as read" in o["report"] and "== graph as run" in o["report"]
    o = weft.json("inspect", chain, "--json")
    assert o["inputs"] == [{"name": "input_ids", "role": "input_ids", "dtype": "int64", "shape": ["batch", "sequence"]}]
    assert (o["kind"], o["vocabulary"], o["layers"]) == ("huggingface", 263, 0)


@pytest.mark.parametrize("has_cache", [True, False])
def test_a_gguf_file_is_a_package_to_inspect_and_exec_too(weft, gguf, package, tmp_path, has_cache):
    (tmp_path / "file").touch()
    env = {"TMPDIR": str(tmp_path)} if has_cache else {"TMPDIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "file")}
    want, got = weft.json("inspect", package, "--json"), json.loads(weft("inspect", gguf, "--json", env=env, check=0).stdout)
    assert {k: v for k, v in got.items() if k != "file"} == {k: v for k, v in want.items() if k != "file"}
    r = weft("exec", gguf, "--input", "input_ids=1", "--output-dir", tmp_path / "o", env=env)
    assert 3 <= r.returncode <= 120 and b"attention_mask" in r.stderr
    assert {p.name for p in tmp_path.iterdir()} == {"file"}  # an import without a cache is cleared away


@pytest.mark.parametrize("env,at", [
    ({"WEFT_CACHE": "{}/own", "XDG_CACHE_HOME": "{}/xdg", "HOME": "{}/home"}, "own"),
    ({"XDG_CACHE_HOME": "{}/xdg", "HOME": "{}/home"}, "xdg/weft"), ({"HOME": "{}/home"}, "home/.cache/weft"),
    ({"XDG_CACHE_HOME": "relative", "HOME": "{}/home"}, "home/.cache/weft"), ({"HOME": "relative"}, None), ({}, None),
])
def test_the_cache_lies_where_xdg_says(weft, gguf, tmp_path, env, at):
    env = {k: v.format(tmp_path) for k, v in env.items()} | {"TMPDIR": str(tmp_path)}
    work = tmp_path / "work"
    work.mkdir()
    argv = [weft.program, "inspect", gguf]
    subprocess.run(argv, env=env, cwd=work, capture_output=True, check=True)
    assert not list(work.iterdir())
    found = {p.parent.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("imports")}
    assert found == ({at} if at else set())
    listed = subprocess.run([weft.program, "cache", "list"], env=env, cwd=work, capture_output=True, check=True).stdout.decode()
    assert ("imports" in listed) == bool(at)
    subprocess.run([weft.program, "cache", "clear"], env=env, cwd=work, capture_output=True, check=True)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_a_gguf_file_s_text_is_its_package_s(weft, gguf, package, tmp_path):
    (tmp_path / "m.json").write_text('{"messages": [{"role": "user", "content": "é数 <|im_end|>"}], "add_generation_prompt": true}')
    for argv in (["tokenize", "{}", "é数  a\n<|im_end|>", "--offsets"], ["detokenize", "{}", "1,2,3,520,9531,198"],
                 ["detokenize", "{}", "1,520", "--skip-special"], ["template", "{}", tmp_path / "m.json"]):
        want, got = (weft(*[p if a == "{}" else a for a in argv], check=0).stdout for p in (package, gguf))
        assert got == want and want


@pytest.mark.parametrize("kv", ["f16", "f32", "q8"])
def test_logits_are_exact_unless_told_otherwise_and_the_cache_type_is_the_caller_s(weft, package, tmp_path, kv):
    def logits(*options):
        weft("logits", package, "--ids", "1,9690,198,2683,359,253", "--output", tmp_path / "l.npy", *options, check=0)
        return np.load(tmp_path / "l.npy")

    unsaid, exact, fast, f32 = logits("--kv", kv), logits("--kv", kv, "--precision", "exact"), logits(
        "--kv", kv, "--precision", "fast"), logits("--kv", "f32")
    assert np.array_equal(unsaid, exact)
    assert not np.array_equal(fast, exact) or weft.json("inspect", package, "--json")["cpu_level"] == "ref"
    away = np.abs(unsaid - f32).max() / np.ptp(f32)
    assert away == 0 if kv == "f32" else 0 < away < {"f16": 1e-3, "q8": 2e-2}[kv]


def test_the_team_is_as_large_as_the_affinity_unless_told_otherwise(weft, chain):
    one = min(os.sched_getaffinity(0))
    for options, want in (((), 1), (("-t", "2"), 2)):
        row, = weft.json("bench", chain, "-p", "4", "-n", "2", "--json", *options, preexec_fn=lambda: os.sched_setaffinity(0, {one}))
        assert row["threads"] == want
