# SPDX-License-Identifier: Apache-2.0
"""`--backend ort`: what ONNX Runtime gives by itself, bit for bit, and what is said when it can't. The judge is the same
library through its own Python front, with the same number of threads; everything else of its options stays as it comes."""
import json
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

np = pytest.importorskip("numpy", reason="the judges are not installed (make deps)")
onnx = pytest.importorskip("onnx", reason="the judges are not installed (make deps)")
ort = pytest.importorskip("onnxruntime", reason="the judges are not installed (make deps)")
from google.protobuf import text_format  # noqa: E402
from onnx import helper as h  # noqa: E402

import hf_folder_test as hf  # noqa: E402
import interop_test as interop  # noqa: E402

LIBRARIES = sorted(Path(ort.__file__).parent.glob("capi/libonnxruntime.so.*"))
pytestmark = pytest.mark.skipif(not LIBRARIES, reason="the onnxruntime wheel holds no libonnxruntime")
LIBRARY = str(LIBRARIES[0]) if LIBRARIES else ""
ORT = ("--backend", "ort", "--ort", LIBRARY, "--threads", "2")
CORPUS = Path(__file__).resolve().parents[1] / "fuzz" / "corpus"


def session_of(model):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 4
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


class Judge:
    """A decoder graph, its cache fed back by hand."""

    def __init__(self, path):
        self.session = session_of(path)
        self.names = [o.name for o in self.session.get_outputs()]
        self.past = {i.name: np.zeros((1, i.shape[1], 0, i.shape[3]), np.float16 if "float16" in i.type else np.float32)
                     for i in self.session.get_inputs() if i.name.startswith("past")}
        self.length = 0

    def step(self, ids):
        """Logits after each of the ids (or the last one alone, where the graph prunes)."""
        n, feed = len(ids), dict(self.past)
        kinds = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
        for i in self.session.get_inputs():
            kind = kinds.get(i.type)
            if i.name == "input_ids":
                feed[i.name] = np.array([ids], kind)
            elif i.name == "attention_mask":
                feed[i.name] = np.ones((1, self.length + n), kind)
            elif i.name == "position_ids":
                feed[i.name] = np.arange(self.length, self.length + n, dtype=kind)[None]
            elif i.name == "num_logits_to_keep":
                feed[i.name] = np.array(0, kind)
            elif i.name == "use_cache_branch":
                feed[i.name] = np.array([self.length > 0])
        out = dict(zip(self.names, self.session.run(None, feed)))
        for past in self.past:
            name = past.replace("past_key_values", "present")
            self.past[past] = out[name if name in out else past.replace("past", "present")]
        self.length += n
        return out["logits"].reshape(-1, out["logits"].shape[-1]).astype(np.float32)

    def greedy(self, ids, n):
        tokens, logits = [], self.step(ids)
        for _ in range(n):
            tokens.append(int(logits[-1].argmax()))
            logits = self.step(tokens[-1:])
        return tokens


def text_of(ids):
    return ",".join(map(str, ids))


def check_decoder(weft, folder, graph, tmp_path, ids, n, cuts=True, chunks=(5, 1)):
    out = tmp_path / "logits.npy"
    weft("logits", folder, "--ids", text_of(ids), "--output", out, *ORT, check=0)
    ours = np.load(out)
    theirs = Judge(graph).step(ids)
    if len(theirs) == 1 and len(ids) > 1:  # a graph that gives the last row alone is run up to each token
        judge = Judge(graph)
        theirs = np.concatenate([judge.step([i]) for i in ids])
    assert ours.tobytes() == theirs.tobytes(), f"they part by {np.abs(ours - theirs).max():.3g}"
    if Judge(graph).past:
        # what is kept between runs is what the judge feeds back by hand: the prompt in parts of five, then token by token
        for chunk in chunks:
            weft("logits", folder, "--ids", text_of(ids), "--output", out, "--chunk", chunk, *ORT, check=0)
            judge = Judge(graph)
            parts = [judge.step(ids[i:i + chunk]) for i in range(0, len(ids), chunk)]
            if cuts and len(theirs) == len(ids) and len(np.concatenate(parts)) == len(ids):
                theirs = np.concatenate(parts)
            assert np.load(out).tobytes() == theirs.tobytes()
        answer = weft.json("run", folder, "--ids", text_of(ids), "--greedy", "--ignore-eos", "--max-tokens", n, "--json", *ORT)
        want = Judge(graph).greedy(ids, n)
        assert answer["output_ids"] == want


@pytest.mark.parametrize("name", sorted(hf.lh.MODELS))
def test_a_toy_decoder_gives_the_bits_of_onnxruntime(weft, tmp_path, name):
    model, o = hf.make_model(name)
    folder = hf.make_folder(tmp_path / "toy", o, model=model)
    check_decoder(weft, folder, folder / "onnx" / "model.onnx", tmp_path, hf.IDS, 24,
                  cuts=name != "dynamic")  # whose statistics run over the prompt: it is never cut


@pytest.mark.parametrize("name", ["llama", "qwen2"])
def test_a_merged_decoder_takes_the_branch_that_its_past_asks_for(weft, tmp_path, name):
    whole, o = hf.make_model(name)
    model = hf.merged(whole, hf.first_branch(whole))
    folder = hf.make_folder(tmp_path / "toy", o, decoder_model_merged=model)
    check_decoder(weft, folder, folder / "onnx" / "decoder_model_merged.onnx", tmp_path, hf.IDS, 24)


def test_a_merged_decoder_traced_for_one_token_gets_them_one_by_one(weft, tmp_path):
    """Without a causal mask in its branch with past, several tokens at once would see each other."""
    whole, o = hf.make_model("llama")
    m = onnx.ModelProto()
    m.CopyFrom(whole)
    made = {x: n for n in m.graph.node for x in n.output}
    for n in m.graph.node:
        if n.op_type == "Softmax":
            n.input[0] = made[n.input[0]].input[0]
    folder = hf.make_folder(tmp_path / "toy", o, decoder_model_merged=hf.merged(m, hf.first_branch(whole)))
    graph = folder / "onnx" / "decoder_model_merged.onnx"
    text = "".join(chr(0x21 + i) for i in hf.IDS)
    # two turns: the second comes on a past
    lines = f"{text[:4]}\n{text[4:]}\n".encode()
    r = weft("run", folder, "--raw", "--greedy", "--ignore-eos", "--max-tokens", 1, *ORT, stdin=lines, check=0)
    first = Judge(graph).greedy(hf.IDS[:4], 1)
    again = Judge(graph)
    logits = again.step(hf.IDS[:4])
    for i in [*first, *hf.IDS[4:]]:
        logits = again.step([i])
    answer = int(logits[-1].argmax())
    assert r.stdout.decode().split("\n")[:2] == [chr(0x21 + first[0]), chr(0x21 + answer)]


@pytest.mark.parametrize("text", interop.PROMPTS)
def test_the_demo_model_gives_the_bits_of_onnxruntime(weft, package, tmp_path, text):
    plain = tmp_path / "plain"
    shutil.copytree(package, plain)
    check_decoder(weft, plain, plain / "model.onnx", tmp_path, interop.prompt_ids(weft, package, text), 12, chunks=(9,))


def test_a_prompt_is_not_cut_unless_that_is_asked_for(weft, package, tmp_path):
    ids = (interop.prompt_ids(weft, package, interop.PROMPTS[1]) * 40)[:700]
    out = tmp_path / "long.npy"
    weft("logits", package, "--ids", text_of(ids), "--output", out, *ORT, check=0)
    assert np.load(out).tobytes() == Judge(package / "model.onnx").step(ids).tobytes()
    a, b = tmp_path / "a.npy", tmp_path / "b.npy"
    weft("logits", package, "--ids", text_of(ids[:96]), "--output", a, *ORT, check=0)
    weft("logits", package, "--ids", text_of(ids[:96]), "--output", b, "--chunk", 32, *ORT, check=0)
    a, b = np.load(a), np.load(b)
    assert np.abs(a - b).max() <= 0.05 * np.ptp(a)


@pytest.mark.parametrize("name", ["llama", "grouped", "qwen3"])
def test_guessed_tokens_are_taken_back_from_the_state(weft, tmp_path, name):
    """Prompt lookup writes guesses into the state and cuts off the wrong ones; greedy tokens stay the same."""
    model, o = hf.make_model(name)
    folder = hf.make_folder(tmp_path / "toy", o, model=model)
    ids = hf.IDS[:5] * 3
    plain = weft.json("run", folder, "--ids", text_of(ids), "--greedy", "--ignore-eos", "--max-tokens", 40, "--json", *ORT)
    guessed = weft.json("run", folder, "--ids", text_of(ids), "--greedy", "--ignore-eos", "--max-tokens", 40, "--lookup", 6,
                        "--json", *ORT)
    assert guessed["output_ids"] == plain["output_ids"]


def test_turns_of_a_conversation_share_their_state(weft, tmp_path):
    model, o = hf.make_model("grouped")
    folder = hf.make_folder(tmp_path / "toy", o, model=model)
    lines = b"!\"#\n$%&\n'()\n"
    one = weft("run", folder, "--raw", "--greedy", "--max-tokens", 4, "--seed", 1, *ORT, stdin=lines, check=0).stdout
    native = weft("run", folder, "--raw", "--greedy", "--max-tokens", 4, "--seed", 1, "--kv", "f32", "--precision", "exact",
                  stdin=lines, check=0).stdout
    assert one == native and one.strip()


# ---- plain graphs ------------------------------------------------------------------------------------------------------


def save(path, nodes, inputs, outputs, inits=(), opset=17, **kw):
    graph = h.make_graph(nodes, "g", inputs, outputs, list(inits))
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", opset), h.make_opsetid("com.microsoft", 1)], ir_version=8), path,
              **kw)
    return path


def value(name, shape, kind=onnx.TensorProto.FLOAT):
    return h.make_tensor_value_info(name, kind, shape)


def execute(weft, path, tmp_path, *args, check=0, **arrays):
    inputs = []
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
        inputs += ["--input", f"{name}={tmp_path / name}.npy"]
    out = tmp_path / "out"
    r = weft("exec", path, *inputs, "--output-dir", out, *(args or ORT), check=check)
    return {f.stem: np.load(f) for f in out.glob("*.npy")} if check == 0 else r


KINDS = ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_number_goes_in_and_out_as_it_is(weft, tmp_path, kind):
    proto = h.np_dtype_to_tensor_dtype(np.dtype(kind))
    path = save(tmp_path / "m.onnx", [h.make_node("Identity", ["x"], ["y"])], [value("x", ["a", 3], proto)], [value("y", ["a", 3], proto)])
    x = (np.arange(12) % 5).astype(kind).reshape(4, 3)
    y = execute(weft, path, tmp_path, x=x)["y"]
    assert y.dtype == x.dtype and (y == x).all()
    empty = execute(weft, path, tmp_path, x=x[:0])["y"]
    assert empty.shape == (0, 3)


def test_shapes_that_depend_on_data_come_back(weft, tmp_path):
    path = save(tmp_path / "m.onnx", [h.make_node("NonZero", ["x"], ["y"]), h.make_node("ReduceSum", ["x"], ["s"], keepdims=0)],
                [value("x", [None, None])], [value("y", [2, None], onnx.TensorProto.INT64), value("s", [])])
    x = np.array([[0, 1, 0], [2, 0, 3]], np.float32)
    got = execute(weft, path, tmp_path, x=x)
    assert (got["y"] == np.stack(np.nonzero(x))).all() and got["s"] == 6 and got["s"].shape == ()


@pytest.mark.parametrize("where", ["inside", "beside", "beside a text"])
def test_weights_inside_and_beside_the_file_are_found(weft, tmp_path, where):
    w = np.random.default_rng(3).normal(size=(512, 512)).astype(np.float32)
    kw = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 16} if where != "inside" else {}
    path = save(tmp_path / "m.onnx", [h.make_node("MatMul", ["x", "w"], ["y"])], [value("x", ["n", 512])], [value("y", ["n", 512])],
                [onnx.numpy_helper.from_array(w, "w")], **kw)
    x = np.random.default_rng(4).normal(size=(5, 512)).astype(np.float32)
    want = session_of(path).run(None, {"x": x})[0]
    if where == "beside a text":  # protobuf's text form, which the library itself does not read
        model = onnx.load(path, load_external_data=False)
        path = tmp_path / "m.onnx.textproto"
        path.write_text(text_format.MessageToString(model))
    assert execute(weft, path, tmp_path, x=x)["y"].tobytes() == want.tobytes()


def foreign():
    """name -> (nodes, inputs, constants): what native does not do, or does its own way."""
    rng = np.random.default_rng(6)
    f, x = np.float32, rng.normal(size=(4, 6)).astype(np.float32)
    body = h.make_graph([h.make_node("Add", ["sin", "xin"], ["sout"]), h.make_node("Identity", ["sout"], ["o"])], "b",
                        [value("sin", [6]), value("xin", [6])], [value("sout", [6]), value("o", [6])])
    return {
        "sequences": ([h.make_node("SplitToSequence", ["x"], ["s"], axis=0), h.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)], {"x": x}, {}),
        "optionals": ([h.make_node("Optional", ["x"], ["o"]), h.make_node("OptionalGetElement", ["o"], ["y"])], {"x": x}, {}),
        "strings": ([h.make_node("Cast", ["x"], ["s"], to=8), h.make_node("Cast", ["s"], ["y"], to=1)], {"x": x}, {}),
        "classic": ([h.make_node("LinearRegressor", ["x"], ["y"], domain="ai.onnx.ml", coefficients=[.1] * 6, intercepts=[.5])], {"x": x}, {}),
        "recurrent": ([h.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=3)], {"x": rng.normal(size=(5, 2, 4)).astype(f)},
                      {"w": rng.normal(size=(1, 12, 4)).astype(f), "r": rng.normal(size=(1, 12, 3)).astype(f)}),
        "convolution": ([h.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)], {"x": rng.normal(size=(1, 3, 8, 8)).astype(f)},
                        {"w": rng.normal(size=(4, 3, 3, 3)).astype(f)}),
        "boxes": ([h.make_node("NonMaxSuppression", ["x", "s", "m"], ["y"])],
                  {"x": rng.uniform(size=(1, 6, 4)).astype(f), "s": rng.uniform(size=(1, 1, 6)).astype(f)}, {"m": np.array([3])}),
        "scan": ([h.make_node("Scan", ["i", "x"], ["f", "y"], body=body, num_scan_inputs=1)], {"x": x}, {"i": np.zeros(6, f)}),
        "of unknown type": ([h.make_node("Det", ["x"], ["d"]), h.make_node("Div", ["d", "d"], ["y"])], {"x": x[:, :4]}, {}),
    }


@pytest.mark.parametrize("name", foreign())
def test_operators_that_native_lacks_give_the_bits_of_onnxruntime(weft, tmp_path, name):
    nodes, inputs, constants = foreign()[name]
    graph = h.make_graph(nodes, "g", [value(k, [None] * a.ndim, h.np_dtype_to_tensor_dtype(a.dtype)) for k, a in inputs.items()],
                         [onnx.ValueInfoProto(name="y")], [onnx.numpy_helper.from_array(a, k) for k, a in constants.items()])
    path = tmp_path / "m.onnx"
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("ai.onnx.ml", 3)], ir_version=8), path)
    want = session_of(path).run(["y"], inputs)[0]
    got = execute(weft, path, tmp_path, **inputs)["y"]
    assert got.shape == want.shape and got.tobytes() == want.tobytes()


@pytest.mark.parametrize("op, word", [("SplitToSequence", b"no tensor"), ("Cast", b"strings")])
def test_an_output_that_is_no_tensor_of_numbers_is_refused(weft, tmp_path, op, word):
    path = save(tmp_path / "m.onnx", [h.make_node(op, ["x"], ["y"], **({"to": 8} if op == "Cast" else {"axis": 0}))], [value("x", [None, 2])],
                [onnx.ValueInfoProto(name="y")])
    r = execute(weft, path, tmp_path, *ORT, check=10, x=np.ones((3, 2), np.float32))
    assert word in r.stderr and b"'y'" in r.stderr


# ---- auto --------------------------------------------------------------------------------------------------------------


def lacking(tmp_path):
    """Det is an operator of ONNX that native has not."""
    return save(tmp_path / "m.onnx", [h.make_node("Det", ["x"], ["y"])], [value("x", [2, 2])], [value("y", [])])


def test_auto_takes_onnxruntime_only_for_what_native_lacks_and_says_so(weft, tmp_path):
    x = np.array([[1, 2], [3, 5]], np.float32)
    path = lacking(tmp_path)
    r = execute(weft, path, tmp_path, "--backend", "native", check=10, x=x)
    assert b"Det" in r.stderr
    np.save(tmp_path / "x.npy", x)
    args = ["exec", path, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "out", "--backend", "auto"]
    r = weft(*args, "--ort", LIBRARY, check=0)
    assert abs(np.load(tmp_path / "out" / "y.npy") + 1) < 1e-6
    assert b"'ort' takes over" in r.stderr and b"Det" in r.stderr
    r = weft(*args, env={"WEFT_ORT": str(tmp_path / "nothing.so")})
    assert r.returncode == 8 and b"Det" in r.stderr and b"nothing.so" in r.stderr
    plain = save(tmp_path / "p.onnx", [h.make_node("Neg", ["x"], ["y"])], [value("x", [2, 2])], [value("y", [2, 2])])
    r = weft("exec", plain, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "out", "--backend", "auto",
             env={"WEFT_ORT": str(tmp_path / "nothing.so")}, check=0)
    assert r.stderr == b""


# ---- the library -------------------------------------------------------------------------------------------------------


def test_without_the_library_all_else_works_and_the_search_is_told(weft, package):
    ids = ["run", package, "--ids", "504,2365", "--greedy", "--max-tokens", "2"]
    weft(*ids, check=0)
    r = weft(*ids, "--backend", "ort", env={"LD_LIBRARY_PATH": "/nowhere"})
    for word in (b"--ort", b"WEFT_ORT", b"libonnxruntime.so.1", b"LD_LIBRARY_PATH", b"/nowhere", b"onnxruntime/capi"):
        assert word in r.stderr, r.stderr
    assert r.returncode == 8 and r.stdout == b""
    listed = weft("providers", check=0).stdout.decode()
    assert listed.startswith("native\n") and "ort: not available" in listed


@pytest.mark.parametrize("name", ["libonnxruntime.so.1", "libonnxruntime.so", "libonnxruntime.so.1.21"])
def test_the_loader_finds_the_library_last(weft, tmp_path, name):
    (tmp_path / name).symlink_to(LIBRARY)
    r = weft("providers", "--json", env={"LD_LIBRARY_PATH": str(tmp_path)}, check=0)
    assert json.loads(r.stdout)[1]["library"] == os.path.realpath(LIBRARY)
    other = tmp_path / "other.so"
    other.write_bytes(b"no library")
    r = weft("providers", "--ort", other, env={"LD_LIBRARY_PATH": str(tmp_path), "WEFT_ORT": LIBRARY})
    assert r.returncode == 10 and str(other).encode() in r.stderr


FAKE = """
#include <stddef.h>
static const void *get_api(unsigned v) { (void)v; return NULL; }
static const char *version(void) { return VERSION; }
static const struct { const void *(*a)(unsigned); const char *(*v)(void); } base = {get_api, version};
const void *OrtGetApiBase(void) { return &base; }
"""


@pytest.mark.parametrize("version, word", [("1.19.2", "1.20"), ("2.0.0", "1.20"), ("junk", "none of ONNX Runtime's"),
                                           ("1.24.0", "no API")])
def test_a_wrong_library_is_named_with_the_reason(weft, tmp_path, version, word):
    cc = shutil.which("cc") or shutil.which("gcc")
    if not cc:
        pytest.skip("no C compiler to make a wrong library with")
    (tmp_path / "f.c").write_text(FAKE)
    library = tmp_path / "libonnxruntime.so"
    subprocess.run([cc, "-shared", "-fPIC", f'-DVERSION="{version}"', tmp_path / "f.c", "-o", library], check=True)
    r = weft("providers", "--ort", library)
    assert r.returncode == 10 and str(library) in r.stderr.decode() and version in r.stderr.decode() and word in r.stderr.decode()


def test_providers_are_listed_and_an_absent_one_is_refused_by_name(weft, package):
    listed = json.loads(weft("providers", "--json", "--ort", LIBRARY, check=0).stdout)
    assert listed[0] == {"backend": "native"} and listed[1]["version"] == ort.__version__
    assert "CPUExecutionProvider" in [p["name"] for p in listed[1]["providers"]]
    r = weft("run", package, "--ids", "1,2", "--max-tokens", "1", *ORT, "--ep", "CUDA:device_id=0")
    assert r.returncode == 10 and b"CUDAExecutionProvider" in r.stderr and b"CPUExecutionProvider" in r.stderr
    r = weft("run", package, "--ids", "1,2", "--max-tokens", "1", *ORT, "--ep", "X:library=/nowhere/x.so")
    assert r.returncode == 8 and b"/nowhere/x.so" in r.stderr
    r = weft("run", package, "--ids", "1,2", "--max-tokens", "1", *ORT, "--ep", f"X:library={LIBRARY}")
    assert r.returncode != 0 and LIBRARY.encode() in r.stderr
    for bad in ("", ":a=b", "CPU:x", "CPU:=1"):
        assert weft("run", package, "--ids", "1", "--max-tokens", "1", *ORT, "--ep", bad).returncode == 6, bad
    r = weft("run", package, "--ids", "1", "--max-tokens", "1", "--ep", "CUDA")
    assert r.returncode == 6 and b"'native'" in r.stderr and b"CUDA" in r.stderr, "forgotten --backend ort"
    a = weft("run", package, "--ids", "504,2365", "--max-tokens", "4", "--greedy", *ORT, "--ep", "CPU", check=0).stdout
    assert a == weft("run", package, "--ids", "504,2365", "--max-tokens", "4", "--greedy", *ORT, check=0).stdout


def test_a_plug_in_provider_is_registered_listed_and_used(weft, package, tmp_path):
    if not hasattr(ort, "register_execution_provider_library"):
        pytest.skip(f"onnxruntime {ort.__version__} takes no plug-in providers")
    cc = shutil.which("cc") or shutil.which("gcc")
    if not cc:
        pytest.skip("no C compiler to make a plug-in with")
    plugin, log = tmp_path / "libtoy.so", tmp_path / "log"
    subprocess.run([cc, "-shared", "-fPIC", Path(__file__).parents[1] / "backend" / "ort_toy_plugin.c", "-o", plugin], check=True)
    listed = json.loads(weft("providers", "--json", "--ort", LIBRARY, "--ep", f"Toy:library={plugin}", check=0).stdout)
    assert {"name": "ToyExecutionProvider", "device": "CPU", "vendor": "weft's tests"} in listed[1]["providers"]
    r = weft("run", package, "--ids", "504,2365", "--max-tokens", "4", "--greedy", *ORT, "--ep",
             f"toy:library={plugin},device=cpu,speed=high", env={"WEFT_TOY_LOG": str(log)}, check=0)
    assert r.stdout == weft("run", package, "--ids", "504,2365", "--max-tokens", "4", "--greedy", *ORT, check=0).stdout
    said = log.read_text().split("\n")
    # not known to run concurrently: one session to see that the model loads, one for the worker
    assert said.count("create 1") == 2 and said.count("release 1") == 2 and "capability 0" in said
    assert said.index("factory gone 1") > len(said) - 1 - said[::-1].index("release 1"), "the environment goes last"
    r = weft("run", package, "--ids", "1", "--max-tokens", "1", *ORT, "--ep", f"Toy:library={plugin},device=GPU")
    assert r.returncode == 10 and b"GPU" in r.stderr and str(plugin).encode() in r.stderr
    r = weft("run", package, "--ids", "1", "--max-tokens", "1", *ORT, "--ep", f"Other:library={plugin}")
    assert r.returncode == 10 and b"OtherExecutionProvider" in r.stderr


def test_every_command_with_a_backend_takes_it(weft, tmp_path):
    model, o = hf.make_model("grouped")
    folder = hf.make_folder(tmp_path / "toy", o, model=model)
    seen = weft.json("inspect", folder, "--json", *ORT)
    assert seen["backend"] == "ort" and seen["layers"] == hf.lh.LAYERS and "state in place: yes" in seen["report"]
    assert "state in place: no" in weft.json("inspect", hf.make_folder(tmp_path / "b", o, model=hf.make_model("llama")[0]), "--json",
                                             *ORT)["report"]
    rows = weft.json("bench", folder, "-p", 8, "-n", 4, "-t", "1,2", "--json", "--backend", "ort", "--ort", LIBRARY)
    assert [r["threads"] for r in rows] == [1, 2] and all(r["decode_tokens_per_second"] > 0 for r in rows)
    ids = text_of(hf.IDS)
    for args in (("run", folder, "--ids", ids, "--max-tokens", 2), ("logits", folder, "--ids", ids, "--output", tmp_path / "x.npy")):
        weft(*args, "--backend", "ort", env={"WEFT_ORT": LIBRARY}, check=0)
        assert weft(*args, "--backend", "other").returncode == 2


# ---- errors ------------------------------------------------------------------------------------------------------------


def test_an_error_inside_the_library_becomes_ours_with_its_text(weft, tmp_path):
    path = save(tmp_path / "m.onnx", [h.make_node("Reshape", ["x", "s"], ["y"])],
                [value("x", ["a"]), value("s", ["r"], onnx.TensorProto.INT64)], [value("y", None)])
    x, s = np.zeros(6, np.float32), np.array([4, 2], np.int64)
    r = execute(weft, path, tmp_path, *ORT, check=17, x=x, s=s)
    assert b"ONNX Runtime" in r.stderr and b"Reshape" in r.stderr


def test_a_tensor_too_large_for_the_machine_is_an_error(weft, tmp_path):
    path = save(tmp_path / "m.onnx", [h.make_node("ConstantOfShape", ["s"], ["y"])], [value("s", [1], onnx.TensorProto.INT64)],
                [value("y", [None])])
    for n in (1 << 45, 1 << 62, -3):
        r = execute(weft, path, tmp_path, *ORT, check=None, s=np.array([n], np.int64))
        assert 3 <= r.returncode <= 120 and r.returncode != 20 and r.stderr, n


@pytest.mark.parametrize("kind", ["int32", "int64", "int8", "uint8", "uint32"])
@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_a_division_that_the_processor_refuses_ends_typed(weft, tmp_path, op, kind):
    """The library divides by the processor's instruction: it would end the process for the lowest number by -1 and, before
    1.31, for 0. NumPy judges the rest, with C's rounding for Div and Python's sign for Mod."""
    proto = h.np_dtype_to_tensor_dtype(np.dtype(kind))
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    for shape in ([None], None):
        path = save(tmp_path / "m.onnx", [h.make_node(op, ["a", "b"], ["y"])], [value("a", shape, proto), value("b", shape, proto)],
                    [value("y", shape, proto)])
        a = np.array([7, high, low, 100, 1], kind)
        b = np.array([3, high, 2, 7, 1], kind) if low == 0 else np.array([-3, -1, -1, 7, 1], kind)
        exact = [int(abs(int(x)) // abs(int(y))) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(a.tolist(), b.tolist())]
        if op == "Mod":
            exact = [int(x) % int(y) for x, y in zip(a.tolist(), b.tolist())]
        wrapped = np.array([(e - low) % (high - low + 1) + low for e in exact], object).astype(kind)
        r = execute(weft, path, tmp_path, *ORT, check=None, a=a, b=b)
        if r.returncode == 10 and b"NOT_IMPLEMENTED" in r.stderr:
            pytest.skip(f"this onnxruntime has no {op} of {kind}")
        assert r.returncode == 0, r.stderr
        assert (np.load(tmp_path / "out" / "y.npy") == wrapped).all()
        b[1] = 0
        r = execute(weft, path, tmp_path, *ORT, check=None, a=a, b=b)
        assert r.returncode in (6, 17) and b"division by zero" in r.stderr


def test_a_guarded_division_works_in_subgraphs_and_by_constants(weft, tmp_path):
    """In a branch of an If, as a scalar, over no elements; and a division by a constant stays the library's own node."""
    i64 = onnx.TensorProto.INT64
    then = h.make_graph([h.make_node("Div", ["a", "b"], ["t"])], "t", [], [value("t", [None], i64)])
    other = h.make_graph([h.make_node("Mod", ["a", "b"], ["e"])], "e", [], [value("e", [None], i64)])
    path = save(tmp_path / "m.onnx", [h.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
                                      h.make_node("Div", ["a", "two"], ["z"])],
                [value("c", [], onnx.TensorProto.BOOL), value("a", [None], i64), value("b", [None], i64)],
                [value("y", [None], i64), value("z", [None], i64)], [onnx.numpy_helper.from_array(np.array(2, np.int64), "two")])
    for a, b in ((np.array([9, -(1 << 63)]), np.array([4, -1])), (np.zeros(0, np.int64), np.zeros(0, np.int64))):
        for c in (True, False):
            got = execute(weft, path, tmp_path, c=np.array(c), a=a, b=b)
            want = [2, -(1 << 63)] if c else [1, 0]
            assert got["y"].tolist() == want[:len(a)] and got["z"].tolist() == [4, -(1 << 62)][:len(a)]


def test_damaged_files_end_in_typed_errors(weft, tmp_path):
    """Our reader judges before the library sees the file, and what passes it ends in an answer or an error of ours."""
    rng = random.Random(11)
    seen = set()
    for source in [*sorted((CORPUS / "onnx").glob("*.onnx")), *sorted((CORPUS / "model").glob("*.onnx"))]:
        data = source.read_bytes()
        for i in range(12):
            bad = bytearray(data)
            for _ in range(rng.choice([1, 2, 8])):
                bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
            if i % 4 == 3:
                del bad[rng.randrange(len(bad)):]
            path = tmp_path / "bad.onnx"
            path.write_bytes(bad)
            r = weft("exec", path, "--output-dir", tmp_path / "out", *ORT, timeout=60)
            assert (r.returncode == 0 or 3 <= r.returncode <= 120) and r.returncode != 20, (source, i, r.stderr)
            assert r.returncode == 0 or r.stderr.strip(), (source, i)
            seen.add(r.returncode)
    assert seen & {3, 6, 10, 17}


def test_a_hub_cache_of_links_gives_the_same_bits(weft, tmp_path):
    """The library refuses external data behind a link; it gets the bytes out of our mapping instead."""
    w = np.random.default_rng(3).normal(size=(64, 64)).astype(np.float32)
    plain = save(tmp_path / "m.onnx", [h.make_node("MatMul", ["x", "w"], ["y"])], [value("x", ["n", 64])], [value("y", ["n", 64])],
                 [onnx.numpy_helper.from_array(w, "w")], save_as_external_data=True, location="m.onnx_data", size_threshold=16)
    blobs, snapshot = tmp_path / "models--a--b" / "blobs", tmp_path / "models--a--b" / "snapshots" / "0123"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for i, name in enumerate(("m.onnx", "m.onnx_data")):
        shutil.copy(tmp_path / name, blobs / f"abc{i}")
        (snapshot / name).symlink_to(blobs / f"abc{i}")
    x = np.random.default_rng(4).normal(size=(5, 64)).astype(np.float32)
    want = session_of(plain).run(None, {"x": x})[0]
    assert execute(weft, snapshot / "m.onnx", tmp_path, x=x)["y"].tobytes() == want.tobytes()


@pytest.mark.parametrize("prunes", [False, True])
def test_a_graph_without_a_past_runs_whole_each_time(weft, tmp_path, prunes):
    """No state: each step runs the whole sequence, and where the graph gives the last row alone, each prefix."""
    rng = np.random.default_rng(5)
    v, d = hf.lh.VOCAB, 8
    embed, head = rng.normal(size=(v, d)).astype(np.float32), rng.normal(size=(d, v)).astype(np.float32)
    nodes = [h.make_node("Gather", ["embed", "input_ids"], ["x"]), h.make_node("CumSum", ["x", "one"], ["s"]),
             h.make_node("Tanh", ["s"], ["t"]), h.make_node("MatMul", ["t", "head"], ["all"])]
    nodes += [h.make_node("Gather", ["all", "last"], ["logits"], axis=1)] if prunes else [h.make_node("Identity", ["all"], ["logits"])]
    i64 = onnx.TensorProto.INT64
    graph = h.make_graph(nodes, "g", [value("input_ids", ["batch", "seq"], i64)], [value("logits", ["batch", 1 if prunes else "seq", v])],
                         [onnx.numpy_helper.from_array(a, n) for a, n in
                          ((embed, "embed"), (head, "head"), (np.array(1, np.int64), "one"), (np.array([-1], np.int64), "last"))])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    folder = hf.make_folder(tmp_path / "toy", dict(hf.lh.DEFAULTS), model=model)
    session = session_of(folder / "onnx" / "model.onnx")

    def last(ids):
        return session.run(None, {"input_ids": np.array([ids], np.int64)})[0][0, -1]

    out = tmp_path / "logits.npy"
    weft("logits", folder, "--ids", text_of(hf.IDS), "--output", out, *ORT, check=0)
    ours = np.load(out)
    if prunes:
        want = np.stack([last(hf.IDS[:i + 1]) for i in range(len(hf.IDS))])
    else:
        want = session.run(None, {"input_ids": np.array([hf.IDS], np.int64)})[0][0]
    assert ours.tobytes() == want.tobytes()
    ids = list(hf.IDS)
    for _ in range(6):
        ids.append(int(last(ids).argmax()))
    answer = weft.json("run", folder, "--ids", text_of(hf.IDS), "--greedy", "--ignore-eos", "--max-tokens", 6, "--json", *ORT)
    assert answer["output_ids"] == ids[len(hf.IDS):]


def test_a_library_cut_short_or_no_file_is_named(weft, tmp_path):
    short = tmp_path / "libshort.so"
    data = Path(LIBRARY).read_bytes()
    short.write_bytes(data[:len(data) // 2])
    pipe = tmp_path / "pipe.so"
    os.mkfifo(pipe)
    for file, why in ((short, b"cut short"), (pipe, b"no regular file")):
        r = weft("providers", "--ort", file, timeout=20)
        assert 3 <= r.returncode <= 120 and file.name.encode() in r.stderr and why in r.stderr, r.stderr


def test_the_reason_stands_last_and_is_kept(weft, tmp_path):
    graph = h.make_graph([h.make_node("Reshape", ["x", "s"], ["y"], name="n" * 900)], "g",
                         [h.make_tensor_value_info("x", 1, ["n"]), h.make_tensor_value_info("s", 7, [1])],
                         [h.make_tensor_value_info("y", 1, None)])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    values = {"x": np.ones(5, np.float32), "s": np.array([7])}
    for name, value in values.items():
        np.save(tmp_path / f"{name}.npy", value)
    given = [word for name in values for word in ("--input", f"{name}={tmp_path / name}.npy")]
    r = weft("exec", tmp_path / "m.onnx", *given, "--output-dir", tmp_path / "o", *ORT)
    assert 3 <= r.returncode <= 120
    with pytest.raises(Exception) as judge:
        session_of(str(tmp_path / "m.onnx")).run(None, values)
    reason = str(judge.value).strip().split("\n")[0][-40:]
    assert "n" * 40 != reason and reason.encode() in r.stderr, r.stderr
