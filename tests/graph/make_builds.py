# SPDX-License-Identifier: Apache-2.0
"""Writes tests/graph/builds/*.onnx: small models, right and wrong, for graph_build_test.c. The wrong
ones are wrong by the format's own rules (each name made once, before it is used).

    python tests/graph/make_builds.py
"""
import os

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "builds")
X = h.make_tensor_value_info("x", T.FLOAT, ["n", 4])
Y = h.make_tensor_value_info("y", T.FLOAT, ["n", 4])


def save(name, nodes, inits=(), functions=(), inputs=(X,)):
    g = h.make_graph(nodes, name, list(inputs), [Y], list(inits))
    m = h.make_model(g, opset_imports=[h.make_opsetid("", 18), h.make_opsetid("local", 1)], ir_version=8, functions=list(functions))
    onnx.save(m, os.path.join(OUT, name + ".onnx"))


def scaled():
    k = h.make_node("Constant", [], ["k"])
    k.attribute.append(onnx.AttributeProto(name="value_float", ref_attr_name="factor", type=onnx.AttributeProto.FLOAT))
    return h.make_function("local", "Scaled", ["a", "bias"], ["b"], [k, h.make_node("Mul", ["a", "k"], ["m"]), h.make_node("Clip", ["m", "bias"], ["b"])],
                           [h.make_opsetid("", 18)], ["factor"])


def branch(op):
    return h.make_graph([h.make_node(op, ["x"], ["r"])], op, [], [h.make_tensor_value_info("r", T.FLOAT, None)])


def main():
    os.makedirs(OUT, exist_ok=True)
    n = h.make_node
    save("functions", [n("Scaled", ["x"], ["t"], domain="local", factor=2.0), n("Scaled", ["t", "low"], ["y"], domain="local", factor=3.0)],
         [nh.from_array(np.float32(0), "low")], [scaled()])
    # inner calls itself: without end
    loop = h.make_function("local", "Again", ["a"], ["b"], [n("Again", ["a"], ["b"], domain="local")], [h.make_opsetid("local", 1)])
    save("recursion", [n("Again", ["x"], ["y"], domain="local")], (), [loop])
    save("branches", [n("Shape", ["x"], ["s"]), n("Size", ["s"], ["r"]), n("Equal", ["r", "two"], ["c"]),
                      n("If", ["c"], ["t"], then_branch=branch("Abs"), else_branch=branch("Neg")), n("Sqrt", ["t"], ["y"])],
         [nh.from_array(np.int64(2), "two")])
    save("shared", [n("Abs", ["x"], ["a"]), n("Abs", ["x"], ["b"]), n("Exp", ["x"], ["unused"]), n("Add", ["a", "b"], ["c"]),
                    n("Identity", ["c"], ["d"]), n("Mul", ["d", "one"], ["e"]), n("Sqrt", ["e"], ["y"])], [nh.from_array(np.float32(1), "one")])
    save("unknown", [n("Frobnicate", ["x"], ["y"], "strange", domain="local")])
    save("wrong_cycle", [n("Add", ["x", "b"], ["a"]), n("Abs", ["a"], ["b"]), n("Abs", ["b"], ["y"])])
    save("wrong_missing", [n("Add", ["x", "nowhere"], ["y"])])
    save("wrong_twice", [n("Abs", ["x"], ["a"]), n("Neg", ["x"], ["a"]), n("Abs", ["a"], ["y"])])
    save("wrong_output", [n("Abs", ["x"], ["a"])])
    save("wrong_shape", [n("MatMul", ["x", "w"], ["y"])], [nh.from_array(np.zeros((5, 4), np.float32), "w")])
    save("wrong_reshape", [n("Reshape", ["w", "s"], ["a"]), n("Add", ["x", "a"], ["y"])],
         [nh.from_array(np.zeros((5, 4), np.float32), "w"), nh.from_array(np.array([3, -1]), "s")])


if __name__ == "__main__":
    main()
