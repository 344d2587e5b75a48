# SPDX-License-Identifier: Apache-2.0
"""Valid packages to break: each function gives a document; write() lays it down with graphs that have the ports it
declares. What breaks them, and which rule says so, stands in validate_rules.py."""
import json

import onnx
from onnx import TensorProto, helper

ALIGNED = {"kind": "request_aligned", "axis": 0}
TYPES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "bool": TensorProto.BOOL, "uint8": TensorProto.UINT8}


def tensor(dtype, *shape, rows=True, **more):
    c = {"dtype": dtype, "rank": len(shape), "shape": list(shape), **more}
    if rows and shape:
        c["batch_layout"] = dict(ALIGNED)
    return c


def application(contract, name, **more):
    return {"contract": contract, "role": {"kind": "opaque"}, "source": {"kind": "application", "name": name}, **more}


def request(contract, role, **more):
    return {"contract": contract, "role": {"kind": "runtime", "version": "1.0", "role": role}, "source": {"kind": "request"}, **more}


def literal(contract, value):
    return {"contract": contract, "role": {"kind": "opaque"}, "source": {"kind": "literal"}, "required": False, "default": value}


def onnx_component(inputs, outputs, **more):
    return {"implementation": {"kind": "onnx"}, "ports": {"inputs": inputs, "outputs": outputs}, **more}


def invoke(component, inputs, outputs):
    return {"kind": "invoke", "component": component, "inputs": inputs, "outputs": outputs}


def decoder():
    """A loop with a cache that grows, cells, a nested branch, guarded emits: most of the structure at once."""
    kv = tensor("float32", "batch", 2, "past", 4)
    logits, token, flag = tensor("float32", "batch", 8), tensor("int64", "batch", 1), tensor("bool", "batch")
    count = tensor("int64", "batch")
    scalar = tensor("int64", 1, rows=False)
    return {
        "schema_version": "v1",
        "pipeline": {"workflow": {
            "manifest": {"capabilities": ["workflow_ssa", "typed_emit", "serving_service_contract", "linear_effects", "nested_control_flow",
                                          "loop_induction_values", "emit_valid_length", "input_presence", "session_state_lease"]},
            "inputs": {
                "ids": request(token, "prompt_tokens"),
                "image": request(tensor("uint8", "bytes", rows=False), "media", required=False, present_as="has_image"),
                "limit": request(scalar, "max_output_tokens"),
                "temperature": request(tensor("float32", 1, rows=False), "sampling_temperature", required=False, default=1.0),
                "cache0": application(kv, "cache"), "flag0": application(flag, "flag"), "step0": application(count, "step"),
                "most": literal(scalar, 100), "turns0": application(scalar, "turns"),
            },
            "outputs": {"tokens": {"contract": tensor("int64", "batch", "out"), "role": "tokens", "stage": "pre_adapter"},
                        "seen": {"contract": tensor("bool", rows=False), "role": "tensor", "stage": "pre_adapter"}},
            "components": {
                "model": onnx_component({"ids": token, "past_k": kv, "past_v": kv}, {"logits": logits, "present_k": kv, "present_v": kv}),
                "sampler": onnx_component({"logits": logits, "temperature": tensor("float32", 1, rows=False)}, {"token": token, "go": flag, "n": count},
                                          application_overridable=True,
                                          contract={"id": "test.sampler", "version": "1",
                                                    "bindings": {"logits": "logits", "temperature": "temperature", "token": "token", "go": "go", "n": "n"}}),
                "vision": onnx_component({"bytes": tensor("uint8", "bytes", rows=False)}, {"seen": tensor("bool", rows=False)}),
                "blind": onnx_component({}, {"seen": tensor("bool", rows=False)}),
                "next": onnx_component({"x": scalar}, {"y": scalar}),
            },
            "state": {
                "k": {"contract": kv, "scope": "invocation", "initializer": "cache0", "recurrence": {"kind": "growing", "axis": 2, "increment": "n", "max": "most"},
                      "management": "runtime", "release_boundary": "invocation", "service_group": "kv"},
                "v": {"contract": kv, "scope": "invocation", "initializer": "cache0", "recurrence": {"kind": "growing", "axis": 2, "increment": "n", "max": "most"},
                      "management": "runtime", "release_boundary": "invocation", "service_group": "kv"},
                "last": {"contract": token, "scope": "invocation", "initializer": "ids", "recurrence": {"kind": "invariant"}},
                "go": {"contract": flag, "scope": "invocation", "initializer": "flag0", "recurrence": {"kind": "invariant"}},
                "n": {"contract": count, "scope": "invocation", "initializer": "step0", "recurrence": {"kind": "invariant"}},
                "turns": {"contract": scalar, "scope": "session", "initializer": "turns0", "recurrence": {"kind": "invariant"}},
            },
            "serving": {"active": "go", "done": "flag0", "accepted_len": "n", "state_service": {"groups": {"kv": {
                "kind": "full_attention", "layout": "bnsh", "sequence_axis": 2, "capabilities": {"rollback_positions": 4, "cascade": []},
                "ports": {"model": {"k": {"input": "past_k", "output": "present_k", "role": "key", "layer": 0},
                                    "v": {"input": "past_v", "output": "present_v", "role": "value", "layer": 0}}}}}}},
            "steps": [
                {"kind": "branch", "predicate": "has_image",
                 "cases": {"true": invoke("vision", {"bytes": "image"}, {"seen": "seen1"})}, "default": invoke("blind", {}, {"seen": "seen2"}),
                 "outputs": {"saw": {"cases": {"true": "seen1"}, "default": "seen2"}}},
                {"kind": "emit", "value": "saw", "output": "seen", "mode": "replace"},
                {"kind": "loop", "setup": [invoke("next", {"x": "turns0"}, {"y": "turns1"})],
                 "steps": [invoke("model", {"ids": "last", "past_k": "k", "past_v": "v"}, {"logits": "logits", "present_k": "k1", "present_v": "v1"}),
                           invoke("sampler", {"logits": "logits", "temperature": "temperature"}, {"token": "t1", "go": "go1", "n": "n1"}),
                           {"kind": "emit", "value": "t1", "output": "tokens", "mode": "append", "when": "go", "valid_length": "n"},
                           invoke("next", {"x": "turns"}, {"y": "turns2"})],
                 "continue_when": "go", "max_iterations": "limit", "termination": "generation_eos",
                 "iteration": {"value": "i", "contract": {"dtype": "int64", "rank": 0, "shape": []}},
                 "carried": [{"cell": "k", "next": "k1"}, {"cell": "v", "next": "v1"}, {"cell": "last", "next": "t1"}, {"cell": "go", "next": "go1"},
                             {"cell": "n", "next": "n1"}, {"cell": "turns", "initial": "turns1", "next": "turns2"}]},
            ]}},
        "generation": {"defaults": {"temperature": 0.5}, "overrides": {"temperature": {"input": "temperature", "constraint": {"minimum": 0, "maximum": 2}}}},
        "profiles": {"speech": {"kind": "transcription", "version": "1", "outputs": {"logits": "tokens", "len": "seen"}, "batch_invariance": "padding_sensitive",
                                "decoding": {"kind": "ctc", "blank_id": 0, "time_axis": 1, "class_axis": 2, "lengths": "len",
                                             "vocabulary": {"source": "inline", "size": 3, "tokens": ["_", "a", "|"], "word_delimiter": "|", "ignored_tokens": ["_"]}}}},
    }


def scatter():
    """The decoder with a cache of fixed capacity."""
    d = decoder()
    w = d["pipeline"]["workflow"]
    count = tensor("int64", "batch")
    w["inputs"]["at0"] = application(count, "at")
    for cell in ("at", "len"):
        w["state"][cell] = {"contract": count, "scope": "invocation", "initializer": "at0", "recurrence": {"kind": "invariant"}}
    for cell in ("k", "v"):
        w["state"][cell]["recurrence"] = {"kind": "invariant"}
    w["components"]["model"]["ports"]["inputs"].update({"at": count, "len": count})
    w["steps"][2]["steps"][0]["inputs"].update({"at": "at", "len": "len"})
    w["steps"][2]["carried"] += [{"cell": "at", "next": "n1"}, {"cell": "len", "next": "n1"}]
    w["serving"]["state_service"]["groups"]["kv"].update({
        "logical_lengths": "len", "aliasing": "permitted",
        "update": {"kind": "indexed_scatter", "write_indices": "at", "capacity": "most", "write_indices_ports": {"model": "at"}, "kv_length_ports": {"model": "len"}}})
    return d


def straight(steps_inputs=None):
    """One graph, one value in, one out."""
    x = tensor("float32", "batch", 2)
    return {"schema_version": "1.0", "pipeline": {"workflow": {
        "manifest": {"capabilities": ["workflow_ssa", "typed_emit"]},
        "inputs": {"x": application(x, "x")},
        "outputs": {"y": {"contract": x, "role": "tensor", "stage": "pre_adapter"}},
        "components": {"f": onnx_component({"x": x}, {"y": x})},
        "steps": [invoke("f", {"x": "x"}, {"y": "y1"}), {"kind": "emit", "value": "y1", "output": "y", "mode": "replace"}]}}}


def wave():
    """An audio output with a media contract."""
    d = straight()
    out = d["pipeline"]["workflow"]["outputs"]["y"]
    out.update({"role": "audio", "media": {"container": "wav", "encoding": "pcm_s16_le", "sample_rate_hz": 24000, "channels": 1}})
    return d


def grammar():
    """Grammar guidance as an adapter with an effect and rows of its own."""
    d = straight()
    w = d["pipeline"]["workflow"]
    count = tensor("int64", "batch")
    w["manifest"] = {"adapter_abis": {"onnx-genai.grammar-guidance": "1"},
                     "capabilities": ["workflow_ssa", "typed_emit", "linear_effects", "grammar_guidance_adapter"]}
    w["inputs"]["s"] = application(count, "s")
    w["effects"] = {"grammar": {"retry": "idempotent", "speculation_safety": {"kind": "rewindable", "max_depth": 4}}}
    w["components"]["g"] = {"implementation": {"kind": "adapter", "abi": "onnx-genai.grammar-guidance", "version": "1"},
                            "ports": {"inputs": {"state": count}, "outputs": {"next": count}}, "effects": ["grammar"], "row_scope": {"axis": 0},
                            "contract": {"id": "onnx-genai.grammar-guidance", "version": "1", "bindings": {"state": "state", "next_state": "next"},
                                         "parameters": {"action": "clone"}}}
    w["steps"].append(invoke("g", {"state": "s"}, {"next": "s1"}))
    return d


def image():
    """An image program and the adapter that runs it."""
    d = straight()
    w = d["pipeline"]["workflow"]
    pixels = tensor("float32", 1, 3, 8, 8, rows=False)
    w["manifest"]["adapter_abis"] = {"onnx-genai.image-preprocess": "1"}
    w["inputs"]["file"] = application(tensor("uint8", "bytes", rows=False), "file")
    w["components"]["p"] = {"implementation": {"kind": "adapter", "abi": "onnx-genai.image-preprocess", "version": "1"},
                            "ports": {"inputs": {"encoded": tensor("uint8", "bytes", rows=False)}, "outputs": {"pixels": pixels}}}
    w["steps"].insert(0, invoke("p", {"encoded": "file"}, {"pixels": "px"}))
    d["preprocessing"] = {"image": {"transforms": [{"op": "decode_rgb"}, {"op": "resize", "size": 8}, {"op": "rescale", "scale": 0.5}],
                                    "outputs": [{"source": "x", "name": "px", "content": "pixels", "dtype": "float32", "contract": pixels}]}}
    return d


def lora():
    """Two adapters over one target, selected by row."""
    d = straight()
    w = d["pipeline"]["workflow"]
    w["manifest"]["capabilities"] += ["parameter_adapters", "heterogeneous_adapter_batching"]
    w["manifest"]["adapter_abis"] = {"onnx-genai.parameter-overlay": "1"}
    x = tensor("float32", "batch", 2)
    w["components"]["o"] = {"implementation": {"kind": "adapter", "abi": "onnx-genai.parameter-overlay", "version": "1"},
                            "ports": {"inputs": {"input": x}, "outputs": {"output": x}},
                            "contract": {"id": "onnx-genai.parameter-overlay", "version": "1", "bindings": {"input": "input", "output": "output"},
                                         "parameters": {"action": "apply", "component": "f", "parameter": "w"}}}
    w["steps"].insert(1, invoke("o", {"input": "y1"}, {"output": "y2"}))
    w["inputs"].update({"seg": request(tensor("int64", "batch", 2), "adapter_segments"), "cnt": request(tensor("int64", "batch"), "adapter_counts"),
                        "scl": request(tensor("float32", "batch", 2), "adapter_scales"), "act": request(tensor("bool", "batch"), "adapter_active")})

    def artifact(alias, index):
        return {"index": index, "identity": alias, "version": "1", "rank": 1, "alpha": 2.0, "dtype": "float32",
                "weights": [{"format": "json", "location": f"adapters/{alias}/a.json", "loader_capability": "onnx-genai.adapters.json@1"}],
                "bindings": [{"target": "t", "weight_key": "k"}]}
    d["adapters"] = {
        "target_manifest": {"targets": [{"id": "t", "component": "f", "initializer": "w", "node_name": "n", "output_name": "y", "activation_dtype": "float32",
                                         "input_features": 2, "output_features": 2, "rank": 1, "output_slice": {"role": "q", "offset": 0, "width": 2}}]},
        "application_capability": "onnx-genai.adapters@1", "artifacts": {"blue": artifact("blue", 1), "red": artifact("red", 0)},
        "cache": {"max_entries": 2},
        "selection": {"segments": "seg", "adapter_counts": "cnt", "scales": "scl", "active": "act", "max_adapters": 2}}
    return d


def speculative():
    """The decoder with a proposer chained over a folded carry and a recurrent cell."""
    d = decoder()
    w = d["pipeline"]["workflow"]
    kv, hidden = tensor("float32", "batch", 2, "past", 4), tensor("float32", "batch", 8)
    w["components"]["draft"] = onnx_component({"h": hidden, "dk": kv}, {"logits": hidden, "h2": hidden, "dk2": kv}, effects=["random"], row_scope={"axis": 0})
    w["effects"] = {"random": {"retry": "idempotent", "speculation_safety": {"kind": "rewindable", "max_depth": 4}}}
    w["steps"][2]["steps"].insert(1, invoke("draft", {"h": "logits", "dk": "d"}, {"logits": "dl", "h2": "dh", "dk2": "d1"}))
    w["steps"][2]["carried"].append({"cell": "d", "next": "d1"})
    w["state"]["d"] = json.loads(json.dumps(w["state"]["k"]))
    groups = w["serving"]["state_service"]["groups"]
    w["state"]["d"]["service_group"] = "dkv"
    groups["dkv"] = {"kind": "recurrent", "layout": "bnsh", "sequence_axis": 2, "capabilities": {"rollback_positions": 4},
                     "ports": {"draft": {"d": {"input": "dk", "output": "dk2"}}}}
    d["speculative"] = {"proposer": "draft", "target": "model", "vocabulary": {"kind": "identical"}, "max_proposal_width": 3,
                        "rollback_state": ["d", "k", "v"], "port_bindings": {"target_hidden_context": "h"},
                        "proposal_execution": {"kind": "chained", "token_embedding_input": "h", "logits_output": "logits", "folded_carry_output": "h2",
                                               "recurrent": [{"state": "d", "input": "dk", "output": "dk2"}],
                                               "folded_carry_seed": {"component": "model", "output": "logits"},
                                               "token_embedding": {"component": "model", "table": "w"}}}
    return d


def graph(path, ports):
    """A graph that has these ports and an initializer; a validator reads no more of it."""
    def infos(side):
        return [helper.make_tensor_value_info(n, TYPES[c["dtype"]], c["shape"]) for n, c in ports.get(side, {}).items()]
    w = helper.make_tensor("w", TensorProto.FLOAT, [1], [0.0])
    onnx.save(helper.make_model(helper.make_graph([], "g", infos("inputs"), infos("outputs"), [w])), path)


def write(folder, document, name="inference_metadata.json", graphs=None):
    """The package in a new folder; graphs: ports by component where the graph is to differ from what is declared."""
    folder.mkdir(parents=True)
    d = json.loads(json.dumps(document))
    workflow = (d.get("pipeline") or {}).get("workflow") or {}
    for n, c in (workflow.get("components") or {}).items():
        if isinstance(c, dict) and c.get("implementation", {}).get("kind") == "onnx" and "artifact" not in c["implementation"]:
            c["implementation"]["artifact"] = f"{n}.onnx"
            graph(folder / f"{n}.onnx", (graphs or {}).get(n) or c.get("ports") or {})
    for alias in ("red", "blue"):
        if "adapters" in d:
            (folder / "adapters" / alias).mkdir(parents=True)
            (folder / "adapters" / alias / "a.json").write_text("{}")
    (folder / name).write_text(json.dumps(d, indent=1))
    return folder
