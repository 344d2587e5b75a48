# SPDX-License-Identifier: Apache-2.0
"""Writes the models of onnx_test.c with the onnx package (the judge: what it writes as raw bytes and
as typed fields must read the same).

    python tests/onnx/make_models.py
"""
import os

import numpy as np
import onnx
from google.protobuf import text_format
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

HERE = os.path.dirname(os.path.abspath(__file__))
VALUES = [0, 1, 2, 3, 1, 0, 2]  # seven: the last byte of packed types is padded


def types():
    """Every element type twice: `raw_X` and `typed_X`."""
    inits = []
    for name, number in T.DataType.items():
        if number == T.UNDEFINED or name == "STRING":
            continue
        vals = [v % 2 for v in VALUES] if name == "BOOL" else [complex(v, -v) for v in VALUES] if "COMPLEX" in name else VALUES
        if name in ("INT8", "INT16", "INT32", "INT64", "INT4", "FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16"):
            vals = [-v for v in vals]
        typed = h.make_tensor("typed_" + name, number, [7], vals)
        raw = nh.from_array(nh.to_array(typed), "raw_" + name)
        assert raw.data_type == number and raw.raw_data
        inits += [typed, raw]
    inits.append(h.make_tensor("typed_STRING", T.STRING, [2], [b"one", "zwei Wörter".encode()]))
    return h.make_model(h.make_graph([], "types", [], [], inits), opset_imports=[h.make_opsetid("", 25)], ir_version=13)


def nested():
    then = h.make_graph([h.make_node("Add", ["x", "one"], ["t"])], "then", [], [h.make_tensor_value_info("t", T.FLOAT, None)])
    other = h.make_graph([h.make_node("Identity", ["x"], ["e"])], "else", [], [h.make_tensor_value_info("e", T.FLOAT, None)])
    nodes = [h.make_node("If", ["c"], ["y0"], "choice", then_branch=then, else_branch=other),
             h.make_node("Scaled", ["y0"], ["y"], "call", domain="local", factor=3.0)]
    f = h.make_function("local", "Scaled", ["a"], ["b"], [
        h.make_node("Constant", [], ["k"]), h.make_node("Mul", ["a", "k"], ["b"])], [h.make_opsetid("", 17)], ["factor"])
    f.node[0].attribute.append(onnx.AttributeProto(name="value_float", ref_attr_name="factor", type=onnx.AttributeProto.FLOAT))
    g = h.make_graph(nodes, "nested", [h.make_tensor_value_info("x", T.FLOAT, ["n", 4]), h.make_tensor_value_info("c", T.BOOL, [])],
                     [h.make_tensor_value_info("y", T.FLOAT, None)], [nh.from_array(np.array(1, np.float32), "one")])
    m = h.make_model(g, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("local", 1)], ir_version=8, functions=[f])
    m.metadata_props.add(key="author", value="weft tests")
    return m


def every_field():
    """Each field of each message of onnx.proto, with values that differ."""
    import struct
    count = [0]

    def number(f):
        count[0] += 1
        n = count[0] * 7919
        C = type(f)
        if f.type == C.TYPE_ENUM:
            return f.enum_type.values[count[0] % len(f.enum_type.values)].number
        if f.type in (C.TYPE_INT64, C.TYPE_INT32):
            return n if n % 2 else -n
        if f.type == C.TYPE_UINT64:
            return (1 << 64) - n
        if f.type == C.TYPE_FLOAT:
            return struct.unpack("<f", struct.pack("<f", n / 3))[0]
        if f.type == C.TYPE_DOUBLE:
            return -n / 3
        text = "\0\n'\"\\é数" + str(n)
        return text if f.type == C.TYPE_STRING else text.encode() + b"\xff\x80"

    def fill(m):
        """Numbers and strings always, messages where their field had none yet; of a group the next one that is due."""
        groups = {g.name: min(g.fields, key=lambda f: used.count(f.full_name)).name for g in m.DESCRIPTOR.oneofs}
        for f in m.DESCRIPTOR.fields:
            if f.containing_oneof and groups[f.containing_oneof.name] != f.name or f.message_type and f.full_name in used:
                continue
            used.append(f.full_name)
            for _ in range(2 if f.is_repeated else 1):
                if f.message_type:
                    child = getattr(m, f.name).add() if f.is_repeated else getattr(m, f.name)
                    child.SetInParent()
                    fill(child)
                elif f.is_repeated:
                    getattr(m, f.name).append(number(f))
                else:
                    setattr(m, f.name, number(f))

    def names(d):
        return [f.full_name for f in d.fields] + [n for child in d.nested_types for n in names(child)]

    used = []
    model = onnx.ModelProto()
    fill(model)
    for d in model.DESCRIPTOR.file.message_types_by_name.values():
        assert set(names(d)) <= set(used), set(names(d)) - set(used)
    return model


def save(model, name):
    """The binary form and the text form, printed by protobuf itself."""
    with open(os.path.join(HERE, name + ".onnx"), "wb") as f:
        f.write(model.SerializeToString(deterministic=True))
    with open(os.path.join(HERE, name + ".onnx.textproto"), "w", encoding="utf-8") as f:
        f.write("# SPDX-License-Identifier: Apache-2.0\n" + text_format.MessageToString(model))


def main():
    save(types(), "types")
    save(nested(), "nested")
    save(every_field(), "every_field")
    print("onnx", onnx.__version__)


if __name__ == "__main__":
    main()
