# SPDX-License-Identifier: Apache-2.0
"""Writes tests/graph/arity.golden: how many inputs and outputs each operator of src/graph/ops.h takes, as the schemas of
onnx and of ONNX Runtime say, one line for each opset version that changes it:

    domain op_type since least_inputs most_inputs required_inputs(bit mask) least_outputs most_outputs

Most is -1 where there is no limit.

    python tests/graph/make_arity.py
"""
import re
from pathlib import Path

import onnx
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

TOP = Path(__file__).resolve().parents[2]
OPS = re.findall(r'X\(\w+, (ONNX|MS), "(\w+)"\)', (TOP / "src/graph/ops.h").read_text())
ENDLESS = 2**31 - 1


def facts(s):
    required = sum(1 << i for i, p in enumerate(s.inputs) if str(p.option).endswith("Single"))
    return (s.min_input, -1 if s.max_input == ENDLESS else s.max_input, required,
            s.min_output, -1 if s.max_output == ENDLESS else s.max_output)


lines = [f"# onnx {onnx.__version__}, onnxruntime {ort.__version__}"]
for word, op in OPS:
    domain = "" if word == "ONNX" else "com.microsoft"
    schemas = [s for s in onnx.defs.get_all_schemas_with_history() if (s.domain, s.name) == (domain, op)]
    schemas = schemas or [s for s in get_all_operator_schema() if (s.domain, s.name) == (domain, op)]
    last = None
    for s in sorted(schemas, key=lambda s: s.since_version):
        if facts(s) != last:
            last = facts(s)
            lines.append(" ".join(map(str, (domain or "ai.onnx", op, s.since_version, *last))))
(TOP / "tests/graph/arity.golden").write_text("\n".join(lines) + "\n")
