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

if not TOOL and not os.path.exists(WEFT):
    pytest.skip(f"{WEFT} is not built (make build)", allow_module_level=True)

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


def test_onnx_itself_finds_the_graph_well_formed(tmp_path):
    onnx = pytest.importorskip("onnx")
    out = check(tmp_path, Maker(str(tmp_path / "m.gguf"), "gemma3", Q.Q4_1, 10))
    model = onnx.load(str(out / "model.onnx"), load_external_data=False)
    known = {"SimplifiedLayerNormalization"}  # ONNX Runtime keeps it in ONNX's own domain
    missing = [n.op_type for n in model.graph.node if n.domain == "" and n.op_type not in known
               and not onnx.defs.has(n.op_type)]
    assert missing == []
    names = [i.name for i in model.graph.initializer]
    assert len(names) == len(set(names))
    made = {"", *names, *(i.name for i in model.graph.input)}
    for node in model.graph.node:
        assert set(node.input) <= made, f"{node.name} reads what comes later"
        assert not (set(node.output) - {""}) & made, f"{node.name} writes a name again"
        made |= set(node.output)
    size = (out / "model.onnx.data").stat().st_size
    for i in model.graph.initializer:
        place = {e.key: e.value for e in i.external_data}
        if place:
            offset, length = int(place["offset"]), int(place["length"])
            assert offset % (4096 if length >= 65536 else 64) == 0
            assert offset + length <= size


def test_a_tied_table_is_stored_once(tmp_path):
    sizes = {}
    for kind in (Q.F32, Q.F16, Q.Q4_1, Q.Q6_K):
        for tied in (True, False):
            folder = tmp_path / f"{kind.name} {tied}"
            folder.mkdir()
            out = check(folder, Maker(str(folder / "m.gguf"), "llama", kind, 11, tied=tied))
            sizes[tied] = (out / "model.onnx.data").stat().st_size
        assert sizes[True] < sizes[False]


@pytest.mark.parametrize("arch", ARCHS)
def test_onnxruntime_genai_writes_the_tokens_of_the_definition(tmp_path, arch):
    """Greedy tokens, wherever the margin of the float64 decoder is not a tie."""
    og = pytest.importorskip("onnxruntime_genai")
    extra = {"gemma3.attention.sliding_window": 16, "gemma3.rope.freq_base": 1e6,
             "gemma3.attention.sliding_window_pattern": 2} if arch == "gemma3" else {}
    out = check(tmp_path, Maker(str(tmp_path / "m.gguf"), arch, Q.Q4_K, 12, extra=extra))
    plain = tmp_path / "plain"  # the judge need not take the folder's name
    plain.symlink_to(out)
    model = og.Model(str(plain))
    params = og.GeneratorParams(model)
    prompt = list(np.random.default_rng(6).integers(2, 96, 12))
    params.set_search_options(do_sample=False, max_length=60)
    generator = og.Generator(model, params)
    generator.append_tokens(np.array(prompt, np.int32))
    while not generator.is_done():
        generator.generate_next_token()
    ids = [int(i) for i in generator.get_sequence(0)]
    logits = Reference(str(tmp_path / "m.gguf")).logits(ids)
    span = logits.max() - logits.min()
    for at in range(len(prompt), len(ids)):
        row = logits[at - 1]
        assert row.max() - row[ids[at]] < 1e-4 * span, f"token {at}"


def test_a_damaged_file_is_refused_and_nothing_is_left(tmp_path):
    Maker(str(tmp_path / "m.gguf"), "llama", Q.Q4_0, 13).finish()
    whole = (tmp_path / "m.gguf").read_bytes()
    for n in (0, 3, 24, 700, len(whole) - 1):
        (tmp_path / "m.gguf").write_bytes(whole[:n])
        r = run_import(tmp_path / "m.gguf", tmp_path / "out")
        assert r.returncode in range(3, 121) and r.stderr
        assert [p.name for p in tmp_path.iterdir()] == ["m.gguf"]


# One name of each row of the table in src/import/hf_tokenizer.c, with the way llama.cpp splits
# (its own regular expressions, in the order it applies them).
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
PRES = {
    "smollm": [r"\p{N}", GPT2],
    "gpt-2": [GPT2],
    "llama-bpe": [r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
                  r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "qwen2": [r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
              r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "tekken": [r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
               r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
               r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "gpt-4o": [r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
               r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?"
               r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
               r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?|\p{N}{1,3}"
               r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "dbrx": [r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
             r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"],
    "default": [r"[\p{P}\$\+<=>\^~\|]+",
                r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)", r"\p{N}+",
                "[0-9][0-9][0-9]"],
}


@pytest.mark.parametrize("pre", PRES)
def test_each_pre_tokenizer_splits_as_llama_cpp_does(tmp_path, pre):
    regex = pytest.importorskip("regex")
    tokenizers = pytest.importorskip("tokenizers")
    m = Maker(str(tmp_path / "m.gguf"), "llama", Q.Q8_0, 14, layers=1)
    m.w.kv_data[0]["tokenizer.ggml.pre"].value = pre
    out = check(tmp_path, m)
    t = tokenizers.Tokenizer.from_file(str(out / "tokenizer.json"))
    texts = ["Hello  World's  12345 6,78!?\n\n\tdon'T x²½ é数字 ΑΒΓαβγ _a_b (c) a/b//\r\n  end ",
             "IT'S camelCaseHTTPServer v1.2.3  = \"q\" ",
             "a\u00a0b\u3000c 1\u00bd \u0967\u0968 \u05d0\u05d1 \u1f88"]
    for text in texts:
        pieces = [text]
        for expression in PRES[pre]:
            cut = []
            for piece in pieces:
                end = 0
                for match in regex.finditer(expression, piece):
                    cut += [piece[end:match.start()], match.group()]
                    end = match.end()
                cut += [piece[end:]]
            pieces = [c for c in cut if c]
        got = [text[a:b] for _, (a, b) in t.pre_tokenizer.pre_tokenize_str(text)]
        assert got == pieces


def test_scaling_of_gemma3_is_for_layers_that_see_everything(tmp_path):
    check(tmp_path, Maker(str(tmp_path / "m.gguf"), "gemma3", Q.F32, 15, extra={
        "gemma3.attention.sliding_window": 16, "gemma3.attention.sliding_window_pattern": 2,
        "gemma3.rope.freq_base": 1e6, "gemma3.rope.scaling.type": "linear",
        "gemma3.rope.scaling.factor": 8.0}))


def test_a_tensor_that_would_be_left_out_is_refused_by_name(tmp_path):
    m = Maker(str(tmp_path / "m.gguf"), "llama", Q.F32, 16)
    m.vector("blk.0.attn_sinks.weight", 4, 0)
    m.finish()
    r = run_import(tmp_path / "m.gguf", tmp_path / "out")
    assert r.returncode == 10 and "blk.0.attn_sinks.weight" in r.stderr


@pytest.mark.parametrize("key,value", [("expert_count", 8), ("final_logit_softcapping", 30.0)])
def test_what_the_graph_does_not_have_is_refused_by_key(tmp_path, key, value):
    Maker(str(tmp_path / "m.gguf"), "llama", Q.F32, 17, extra={f"llama.{key}": value}).finish()
    r = run_import(tmp_path / "m.gguf", tmp_path / "out")
    assert r.returncode == 10 and f"llama.{key}" in r.stderr
    assert not (tmp_path / "out").exists()


def test_a_type_that_is_not_imported_is_refused_by_name(tmp_path):
    m = Maker(str(tmp_path / "m.gguf"), "llama", lambda n: Q.Q8_0 if "ffn_up" not in n else Q.F32, 18)
    m.w.tensors[0]["blk.0.ffn_up.weight"].dtype = Q.I32
    m.finish()
    r = run_import(tmp_path / "m.gguf", tmp_path / "out")
    assert r.returncode == 10 and "I32" in r.stderr
