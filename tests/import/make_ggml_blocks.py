# SPDX-License-Identifier: Apache-2.0
"""Writes ggml_blocks.golden: random blocks of each GGUF type with the floats that gguf-py's
`quants.dequantize` (the judge; gguf 0.19.0) makes of them.

For each type: u32 type, u32 bytes, u32 floats, the bytes, the floats; little-endian.
  python make_ggml_blocks.py
"""
import pathlib
import struct

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Q
from gguf_models import BLOCKS, random_blocks

rng = np.random.default_rng(20261130)
out = bytearray()
for kind in [Q.F32, Q.F16, Q.BF16, *BLOCKS]:
    if kind in BLOCKS:
        data = random_blocks(rng, kind, 1, 512, 1.0)
        data[0, :2] = (0, 0)  # a scale of 0 (of Q6_K: bits), with whatever minimum follows
    elif kind == Q.F32:
        data = rng.standard_normal((1, 32)).astype(np.float32).view(np.uint8)
    else:  # every exponent, subnormals too, no NaN
        bits = rng.integers(0, 0x7c00, (1, 64)) | (rng.integers(0, 2, (1, 64)) << 15)
        data = bits.astype(np.uint16).view(np.uint8)
    floats = gguf.quants.dequantize(data, kind).astype(np.float32).ravel()
    out += struct.pack("<III", kind, data.size, floats.size) + data.tobytes() + floats.tobytes()
pathlib.Path(__file__).with_name("ggml_blocks.golden").write_bytes(out)
