# SPDX-License-Identifier: Apache-2.0
"""Folders with config.json and onnx/*.onnx, as optimum and transformers.js lay them out, at toy sizes: found, read, and
judged by onnxruntime on the same file. Whole models are made by tests/graph/make_hf_folder.py."""
import json
import re
import sys
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")
onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "graph"))
import make_longhand as lh  # noqa: E402

IDS = [3, 9, 1, 40, 22, 17, 5, 8, 30, 2, 11, 12]
# what a layer holds, by operator of the graph that runs
KINDS = ("weft.CachedAttention", "weft.Norm", "weft.Glu")


def make_model(name, layers=2, **changes):
    before = lh.LAYERS, lh.MODELS[name]
    lh.LAYERS, lh.MODELS[name] = layers, dict(before[1], **changes)
    try:
        return lh.build(name)
    finally:
        lh.LAYERS, lh.MODELS[name] = before


def make_folder(folder, o, **models):
    (folder / "onnx").mkdir(parents=True, exist_ok=True)
    for stem, model in models.items():
        onnx.save(model, folder / "onnx" / f"{stem}.onnx")
    (folder / "config.json").write_text(json.dumps({
        "model_type": "llama", "vocab_size": lh.VOCAB, "hidden_size": lh.HIDDEN, "num_attention_heads": o["heads"],
        "num_key_value_heads": o["kv"], "head_dim": o["size"], "num_hidden_layers": 2, "max_position_embeddings": 64,
        "bos_token_id": 0, "eos_token_id": 1}))
    vocab = {chr(0x21 + i): i for i in range(lh.VOCAB)}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocab, "merges": []}}))
    return folder


def judge(model, ids):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    s = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed = {}
    for i in s.get_inputs():
        if i.name == "input_ids":
            feed[i.name] = np.array([ids], np.int64)
        elif i.name == "attention_mask":
            feed[i.name] = np.ones((1, len(ids)), np.int64)
        elif i.name == "position_ids":
            feed[i.name] = np.arange(len(ids), dtype=np.int64)[None]
        elif i.name == "num_logits_to_keep":
            feed[i.name] = np.array(0, np.int64)
        else:
            feed[i.name] = np.zeros((1, i.shape[1], 0, i.shape[3]), np.float16 if "float16" in i.type else np.float32)
    return s.run(["logits"], feed)[0].reshape(-1, lh.VOCAB)


def check_logits(weft, folder, model, bound, *args):
    out = folder / "logits.npy"
    weft("logits", folder, "--ids", ",".join(map(str, IDS)), "--output", out, "--kv", "f32", *args, check=0)
    theirs = judge(model, IDS)
    ours = np.load(out)[-len(theirs):]
    assert np.abs(ours - theirs).max() <= bound * np.ptp(theirs)


def report(weft, folder, *args):
    text = weft("inspect", folder, *args, check=0).stdout.decode()
    run = text[text.index("== graph as run"):]
    return {k: len(re.findall(rf" = {re.escape(k)} ", run)) for k in KINDS}, int(re.search(r"^steps: (\d+)", run, re.M)[1]), text


@pytest.mark.parametrize("name,bound", [("llama", 1e-4), ("llama_half", 5e-3), ("qwen2", 1e-4), ("qwen3", 1e-4), ("gemma3", 1e-4),
                                        ("phi3", 1e-4), ("partial", 1e-4), ("nbits", 1e-4), ("grouped", 1e-4)])
def test_a_longhand_layer_is_recognised_and_takes_at_most_12_kernel_calls(weft, tmp_path, name, bound):
    found = []
    for layers in (2, 4):
        model, o = make_model(name, layers)
        folder = make_folder(tmp_path / str(layers), o, model=model)
        kinds, steps, text = report(weft, folder)
        assert re.search(r"^form: +packed", text, re.M), text[-600:]
        assert kinds["weft.CachedAttention"] == layers and kinds["weft.Glu"] == layers
        assert kinds["weft.Norm"] >= 2 * layers + 1
        found.append(steps)
    # norms of heads and after a block are calls of their own
    more = 2 * bool(o["qk_norm"]) + 2 * bool(o["gemma"])
    assert (found[1] - found[0]) / 2 <= 12 + more
    check_logits(weft, folder, model, bound)


def quantised(model, folder, **options):
    from onnxruntime.quantization import quantize_dynamic
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "full.onnx")
    quantize_dynamic(folder / "full.onnx", folder / "small.onnx", extra_options={"MatMulConstBOnly": True}, **options)
    return onnx.load(folder / "small.onnx")


def as_written(model, folder):
    return model


def in_int8(model, folder):
    from onnxruntime.quantization import QuantType
    return quantised(model, folder, weight_type=QuantType.QInt8)


def in_uint8(model, folder):
    from onnxruntime.quantization import QuantType
    return quantised(model, folder, weight_type=QuantType.QUInt8)


def by_column(model, folder):
    from onnxruntime.quantization import QuantType
    return quantised(model, folder, weight_type=QuantType.QInt8, per_channel=True)


@pytest.mark.parametrize("name,make", [("dynamic", as_written), ("llama", in_int8), ("llama", in_uint8), ("qwen2", in_int8),
                                       ("qwen2", by_column), ("phi3", in_int8)])
def test_a_layer_with_activations_quantised_while_running_takes_at_most_12_kernel_calls(weft, tmp_path, name, make):
    """Row by row, since a range is that of the whole sequence, but with the same parts recognised."""
    found = []
    for layers in (2, 4):
        model, o = make_model(name, layers)
        model = make(model, tmp_path / f"q{layers}")
        assert sum(n.op_type == "MatMulInteger" for n in model.graph.node) >= 4 * layers
        folder = make_folder(tmp_path / str(layers), o, model=model)
        kinds, steps, text = report(weft, folder)
        assert re.search(r"^form: +row by row.*DynamicQuantizeLinear", text, re.M), text[-600:]
        assert kinds["weft.CachedAttention"] == layers and kinds["weft.Glu"] == layers and kinds["weft.Norm"] == 2 * layers + 1
        assert not re.search(r" = (MatMulInteger|DynamicQuantizeLinear) ", text[text.index("== graph as run"):])
        found.append(steps)
    assert 0 < (found[1] - found[0]) / 2 <= 12
    # a code that falls on the other side of a half is a step of 1/255 of its tensor's range
    check_logits(weft, folder, model, 4e-3)


@pytest.mark.parametrize("kind", [0, 1])
def test_a_layer_of_bnb4_weights_is_packed_and_takes_at_most_12_kernel_calls(weft, tmp_path, kind):
    from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer
    found = []
    for layers in (2, 4):
        model, o = make_model("llama", layers)
        q = MatMulBnb4Quantizer(model, kind, 16)
        q.process()
        model = q.model.model
        assert sum(n.op_type == "MatMulBnb4" for n in model.graph.node) >= 7 * layers
        folder = make_folder(tmp_path / str(layers), o, model_bnb4=model)
        kinds, steps, text = report(weft, folder, "--model-file", "model_bnb4")
        assert re.search(r"^form: +packed", text, re.M), text[-600:]
        assert kinds == {"weft.CachedAttention": layers, "weft.Norm": 2 * layers + 1, "weft.Glu": layers}
        found.append(steps)
    assert 0 < (found[1] - found[0]) / 2 <= 12
    check_logits(weft, folder, model, 1e-4, "--model-file", "model_bnb4")


def norm_by_length(g, x, name, size, o):
    """F.normalize(x) * sqrt(size) * weight"""
    unit = g.op("Div", x, g.op("ReduceL2", x, axes=[-1]))
    return g.op("Mul", g.weight(name, size), g.op("Mul", unit, g.scalar(size ** 0.5)))


def norm_by_power(g, x, name, size, o):
    mean = g.op("ReduceMean", g.op("Mul", x, x), axes=[-1])
    return g.op("Mul", g.weight(name, size), g.op("Mul", x, g.op("Pow", g.op("Add", mean, g.scalar(1e-6)), g.scalar(-0.5))))


def repeat_by_concat(g, x, batch, kv, rep, total, size):
    x = g.op("Concat", *[g.op("Unsqueeze", x, g.i64(2))] * rep, axis=2)
    return g.op("Reshape", x, g.shape_of(batch, kv * rep, total, size))


@pytest.mark.parametrize("part,form", [("rms_norm", norm_by_length), ("rms_norm", norm_by_power), ("repeat_kv", repeat_by_concat)],
                         ids=lambda v: v if isinstance(v, str) else v.__name__)
def test_a_part_written_in_another_form_is_recognised(weft, tmp_path, monkeypatch, part, form):
    monkeypatch.setattr(lh, part, form)
    model, o = make_model("llama")
    folder = make_folder(tmp_path / "p", o, model=model)
    kinds, _, text = report(weft, folder)
    assert re.search(r"^form: +packed", text, re.M), text[-600:]
    assert kinds == {"weft.CachedAttention": 2, "weft.Norm": 5, "weft.Glu": 2}
    check_logits(weft, folder, model, 1e-4)


def test_the_file_is_chosen_by_name_or_the_best_that_is_there(weft, tmp_path):
    full, o = make_model("llama")
    half, _ = make_model("llama_half")
    bits, _ = make_model("nbits")
    folder = make_folder(tmp_path / "p", o, model=full, model_fp16=half, model_q4=bits)
    check_logits(weft, folder, full, 1e-4)
    check_logits(weft, folder, half, 5e-3, "--model-file", "model_fp16")
    check_logits(weft, folder, bits, 1e-4, "--model-file", "model_q4.onnx")
    check_logits(weft, folder, bits, 1e-4, "--model-file", "onnx/model_q4.onnx")
    r = weft("logits", folder, "--ids", "1", "--output", folder / "x.npy", "--model-file", "model_q9")
    assert r.returncode > 2 and b"model_q9" in r.stderr


def test_num_logits_to_keep_is_given_its_number(weft, tmp_path):
    model, o = make_model("llama", prune="keep")
    folder = make_folder(tmp_path / "p", o, model=model)
    kinds, _, text = report(weft, folder)
    assert kinds["weft.CachedAttention"] == 2 and re.search(r"^form: +packed", text, re.M)
    check_logits(weft, folder, model, 1e-4)


def without_past(model):
    """As exported for one forward pass: no cache comes in and none goes out."""
    empty = []
    for i in [i for i in model.graph.input if i.name.startswith("past_key_values")]:
        dims = [d.dim_value for d in i.type.tensor_type.shape.dim]
        empty.append(onnx.numpy_helper.from_array(np.zeros((1, dims[1], 0, dims[3]), np.float32), i.name))
        model.graph.input.remove(i)
    for o in [o for o in model.graph.output if o.name.startswith("present")]:
        model.graph.output.remove(o)
    model.graph.initializer.extend(empty)
    return model


@pytest.mark.parametrize("name,shows_states", [("llama", False), ("llama_old", True), ("qwen2", True), ("qwen3", False), ("partial", True)])
def test_a_model_without_past_is_fused_packed_and_given_a_cache(weft, tmp_path, name, shows_states):
    """Also as decoder_model.onnx of old pairs, which shows the states that it would hand to its other half."""
    whole, o = make_model(name)
    model = first_branch(whole)
    if not shows_states:
        del model.graph.output[1:]
    folder = make_folder(tmp_path / "p", o, decoder_model=model)
    kinds, _, text = report(weft, folder)
    assert re.search(r"^form: +packed", text, re.M), text[-600:]
    assert kinds["weft.CachedAttention"] == 2 and kinds["weft.Glu"] == 2
    check_logits(weft, folder, model, 1e-4)
    args = ("--raw", "-p", "$*+", "--greedy", "--max-tokens", "6", "--kv", "f32", "--json")
    alone = make_folder(tmp_path / "alone", o, model=whole)
    assert weft.json("run", folder, *args)["output_ids"] == weft.json("run", alone, *args)["output_ids"]


def test_a_model_without_past_that_cannot_be_packed_keeps_its_own_attention(weft, tmp_path):
    whole, o = make_model("dynamic")  # statistics over the sequence
    model = first_branch(whole)
    folder = make_folder(tmp_path / "p", o, decoder_model=model)
    kinds, _, text = report(weft, folder)
    assert re.search(r"^form: +row by row.*DynamicQuantizeLinear", text, re.M)
    assert kinds["weft.CachedAttention"] == 0
    check_logits(weft, folder, model, 1e-4)


def test_a_model_without_past_reads_and_answers(weft, tmp_path):
    whole, o = make_model("llama")
    model = without_past(make_model("llama")[0])
    folder = make_folder(tmp_path / "p", o, model=whole, model_nopast=model)
    check_logits(weft, folder, model, 1e-4, "--model-file", "model_nopast")
    args = ("--raw", "-p", "$*+", "--greedy", "--max-tokens", "6", "--kv", "f32", "--json")
    with_past = weft.json("run", folder, *args)
    without = weft.json("run", folder, "--model-file", "model_nopast", *args)
    assert with_past["output_ids"] == without["output_ids"] and with_past["output_ids"]


@pytest.mark.parametrize("name", ["operator_flat", "grouped"])
def test_attention_operators_without_past_are_given_a_cache(weft, tmp_path, name):
    whole, o = make_model(name)
    model = without_past(make_model(name)[0])
    for n in model.graph.node:
        if n.op_type == "Attention":
            del n.input[3:], n.output[1:]
            n.attribute.append(onnx.helper.make_attribute("is_causal", 1))
        elif n.op_type == "GroupQueryAttention":
            n.input[3] = n.input[4] = ""
    folder = make_folder(tmp_path / "p", o, model=whole, model_nopast=model)
    kinds, _, text = report(weft, folder, "--model-file", "model_nopast")
    assert re.search(r"^form: +packed", text, re.M), text[-600:]
    assert kinds["weft.CachedAttention"] == 2
    check_logits(weft, folder, model, 1e-4, "--model-file", "model_nopast")
    args = ("--raw", "-p", "$*+", "--greedy", "--max-tokens", "6", "--kv", "f32", "--json")
    with_past = weft.json("run", folder, *args)
    assert weft.json("run", folder, "--model-file", "model_nopast", *args)["output_ids"] == with_past["output_ids"]


def branch(model, name, suffix):
    """The nodes of a whole graph as a branch that takes inputs and weights from the graph around it."""
    inputs = {i.name for i in model.graph.input} | {i.name for i in model.graph.initializer}
    rename = lambda n: n if not n or n in inputs else n + suffix
    nodes = []
    for n in model.graph.node:
        c = onnx.NodeProto()
        c.CopyFrom(n)
        c.input[:], c.output[:] = [rename(x) for x in n.input], [rename(x) for x in n.output]
        nodes.append(c)
    outputs = [onnx.helper.make_tensor_value_info(o.name + suffix, o.type.tensor_type.elem_type, None) for o in model.graph.output]
    return onnx.helper.make_graph(nodes, name, [], outputs)


def merged(with_past, first):
    """optimum's merge_decoders: an If over use_cache_branch makes every output, weights stand outside of both branches."""
    m = onnx.ModelProto()
    m.CopyFrom(with_past)
    node = onnx.helper.make_node("If", ["use_cache_branch"], [o.name for o in m.graph.output], "optimum::if",
                                 then_branch=branch(with_past, "with_past", ""), else_branch=branch(first, "without_past", "_else"))
    names = {i.name for i in m.graph.initializer}
    m.graph.initializer.extend(i for i in first.graph.initializer if i.name not in names)
    del m.graph.node[:]
    m.graph.node.append(node)
    m.graph.input.append(onnx.helper.make_tensor_value_info("use_cache_branch", onnx.TensorProto.BOOL, [1]))
    return m


def first_branch(model):
    """The branch for the first tokens joins its keys and values to no past; of a past's length it knows that it is 0."""
    m = onnx.ModelProto()
    m.CopyFrom(model)
    for i in [i for i in m.graph.input if i.name.startswith("past_key_values")]:
        dims = [d.dim_value for d in i.type.tensor_type.shape.dim]
        for n in m.graph.node:
            if n.op_type == "Concat" and n.input[0] == i.name:
                n.CopyFrom(onnx.helper.make_node("Identity", [n.input[1]], n.output[:]))
            n.input[:] = ["empty." + x if x == i.name else x for x in n.input]
        m.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros((1, dims[1], 0, dims[3]), np.float32), "empty." + i.name))
        m.graph.input.remove(i)
    for i in m.graph.input:  # as optimum names the axis where there is no past
        if i.name == "attention_mask":
            i.type.tensor_type.shape.dim[1].dim_param = "sequence_length"
    return m


@pytest.mark.parametrize("name", ["llama", "llama_old", "qwen2", "partial"])
def test_a_merged_decoder_runs_its_branch_with_past_fused_and_packed(weft, tmp_path, name):
    whole, o = make_model(name)
    model = merged(whole, first_branch(whole))
    onnx.checker.check_model(model)
    folder = make_folder(tmp_path / "p", o, decoder_model_merged=model)
    kinds, _, text = report(weft, folder)
    assert re.search(r"^form: +packed", text, re.M), text[-600:]
    assert kinds["weft.CachedAttention"] == 2 and kinds["weft.Glu"] == 2
    check_logits(weft, folder, whole, 1e-4)
    alone = make_folder(tmp_path / "alone", o, model=whole)
    args = ("--raw", "-p", "$*+", "--greedy", "--max-tokens", "6", "--kv", "f32", "--json")
    assert weft.json("run", folder, *args)["output_ids"] == weft.json("run", alone, *args)["output_ids"]


def without_mask(model):
    """Traced for one token, the causal mask is left out: scores go into the softmax as they are."""
    m = onnx.ModelProto()
    m.CopyFrom(model)
    made = {x: n for n in m.graph.node for x in n.output}
    for n in m.graph.node:
        if n.op_type == "Softmax":
            n.input[0] = made[n.input[0]].input[0]
    return m


def test_a_merged_decoder_whose_branch_with_past_has_no_causal_mask_is_refused_with_the_way_out(weft, tmp_path):
    whole, o = make_model("llama")
    folder = make_folder(tmp_path / "p", o, decoder_model_merged=merged(without_mask(whole), first_branch(whole)), decoder_model=first_branch(whole))
    r = weft("logits", folder, "--ids", "1,2", "--output", folder / "x.npy")
    assert r.returncode > 2 and b"use_cache_branch" in r.stderr and b"--model-file decoder_model" in r.stderr
    check_logits(weft, folder, whole, 1e-4, "--model-file", "decoder_model")


def test_of_an_old_pair_the_half_without_past_reads_the_prompt(weft, tmp_path):
    whole, o = make_model("llama_old")
    folder = make_folder(tmp_path / "p", o, decoder_model=first_branch(whole), decoder_with_past_model=without_mask(whole))
    check_logits(weft, folder, whole, 1e-4)


def with_padding_mask_alone(model):
    """As older transformers traced it: of the mask only what attention_mask hides is left, not what is later."""
    m = onnx.ModelProto()
    m.CopyFrom(without_mask(model))
    h, nh, nodes = onnx.helper, onnx.numpy_helper, []
    m.graph.initializer.extend([nh.from_array(np.array([1, 2], np.int64), "hide.axes"), nh.from_array(np.array(1, np.float32), "hide.one"),
                                nh.from_array(np.array(-3e38, np.float32), "hide.least")])
    nodes += [h.make_node("Cast", ["attention_mask"], ["hide.f"], to=onnx.TensorProto.FLOAT), h.make_node("Sub", ["hide.one", "hide.f"], ["hide.i"]),
              h.make_node("Mul", ["hide.i", "hide.least"], ["hide.m"]), h.make_node("Unsqueeze", ["hide.m", "hide.axes"], ["hide.mask"])]
    for n in m.graph.node:
        if n.op_type == "Softmax":
            nodes.append(h.make_node("Add", [n.input[0], "hide.mask"], [n.output[0] + ".hidden"]))
            n.input[0] = n.output[0] + ".hidden"
        nodes.append(n)
    copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes]
    del m.graph.node[:]
    m.graph.node.extend(copies)
    return m


@pytest.mark.parametrize("spoil", [without_mask, with_padding_mask_alone])
@pytest.mark.parametrize("stem", ["decoder_with_past_model", "decoder_with_past_model_fp16"])
def test_the_later_half_of_a_pair_without_a_causal_mask_is_refused_with_the_way_out(weft, tmp_path, spoil, stem):
    whole, o = make_model("llama")
    bad = spoil(whole)
    onnx.checker.check_model(bad)
    folder = make_folder(tmp_path / "p", o, decoder_model=first_branch(whole), **{stem: bad})
    r = weft("logits", folder, "--ids", "1,2", "--output", folder / "x.npy", "--model-file", stem)
    assert r.returncode > 2 and b"causal mask" in r.stderr and b"--model-file decoder_model" in r.stderr
    assert not (folder / "x.npy").exists()


def test_the_later_half_of_a_pair_with_its_mask_reads_a_prompt_when_asked_for(weft, tmp_path):
    whole, o = make_model("llama")
    folder = make_folder(tmp_path / "p", o, decoder_model=first_branch(whole), decoder_with_past_model=whole)
    check_logits(weft, folder, whole, 1e-4, "--model-file", "decoder_with_past_model")


def turned_and_averaged():
    """Rotation by position in a graph that no packed form can have: a mean over all keys goes into every logit."""
    rng = np.random.default_rng(11)
    helper, nh, n = onnx.helper, onnx.numpy_helper, 16
    angles = np.outer(np.arange(64), 1 / 10.0 ** (np.arange(n // 2) / (n // 2))).astype(np.float32)
    consts = {"embed": rng.standard_normal((lh.VOCAB, n)).astype(np.float32), "cos": np.cos(angles), "sin": np.sin(angles),
              "head": rng.standard_normal((n, lh.VOCAB)).astype(np.float32), "split": np.array([0, 0, 1, n], np.int64)}
    rotary = dict(domain="com.microsoft", num_heads=1)
    nodes = [
        helper.make_node("Gather", ["embed", "input_ids"], ["x"]),
        helper.make_node("RotaryEmbedding", ["x", "position_ids", "cos", "sin"], ["k"], **rotary),
        helper.make_node("Reshape", ["k", "split"], ["k4"]),
        helper.make_node("Transpose", ["k4"], ["kt"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["x", "split"], ["v4"]),
        helper.make_node("Transpose", ["v4"], ["vt"], perm=[0, 2, 1, 3]),
        helper.make_node("Concat", ["past_key_values.0.key", "kt"], ["present.0.key"], axis=2),
        helper.make_node("Concat", ["past_key_values.0.value", "vt"], ["present.0.value"], axis=2),
        helper.make_node("ReduceMean", ["present.0.key"], ["mean"], axes=[2], keepdims=0),
        helper.make_node("Add", ["k", "mean"], ["y"]),
        helper.make_node("MatMul", ["y", "head"], ["logits"]),
    ]
    info, kinds = helper.make_tensor_value_info, onnx.TensorProto
    past = [info(f"past_key_values.0.{w}", kinds.FLOAT, ["batch", 1, "past", n]) for w in ("key", "value")]
    present = [info(f"present.0.{w}", kinds.FLOAT, ["batch", 1, "total", n]) for w in ("key", "value")]
    graph = helper.make_graph(
        nodes, "averaged",
        [info("input_ids", kinds.INT64, ["batch", "sequence"]), info("position_ids", kinds.INT64, ["batch", "sequence"]), *past],
        [info("logits", kinds.FLOAT, ["batch", "sequence", lh.VOCAB]), *present], [nh.from_array(a, k) for k, a in consts.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=9)


def test_a_rotation_by_position_runs_where_the_graph_is_not_packed(weft, tmp_path):
    model = turned_and_averaged()
    folder = make_folder(tmp_path / "p", {"heads": 1, "kv": 1, "size": 16}, model=model)
    _, _, text = report(weft, folder)
    assert not re.search(r"^form: +packed", text, re.M)
    s = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    ids, past, at, expected = list(IDS), [np.zeros((1, 1, 0, 16), np.float32)] * 2, 0, []
    for _ in range(8):
        feed = {"input_ids": np.array([ids[at:]], np.int64), "position_ids": np.arange(at, len(ids), dtype=np.int64)[None],
                "past_key_values.0.key": past[0], "past_key_values.0.value": past[1]}
        logits, *past = s.run(None, feed)
        at = len(ids)
        logits[0, -1, 1] = -np.inf  # the end id, which --ignore-eos never chooses
        ids.append(int(logits[0, -1].argmax()))
        expected.append(ids[-1])
    got = weft.json("run", folder, "--ids", ",".join(map(str, IDS)), "--greedy", "--ignore-eos", "--max-tokens", "8", "--kv", "f32", "--json")
    assert got["output_ids"] == expected
