# SPDX-License-Identifier: Apache-2.0
"""Writes the small seeds of tests/fuzz/corpus/gguf: a tiny model of each architecture, a
SentencePiece vocabulary, a WordPiece one, and damaged headers.
  python make_gguf_corpus.py
"""
import pathlib
import struct

import gguf
from gguf_models import Maker, Q

out = pathlib.Path(__file__).resolve().parents[1] / "fuzz" / "corpus" / "gguf"
out.mkdir(parents=True, exist_ok=True)
for arch, kind in [("llama", Q.Q4_1), ("qwen2", Q.Q5_0), ("qwen3", Q.Q8_0), ("gemma3", Q.Q5_1),
                   ("phi3", Q.F16)]:
    m = Maker(str(out / f"{arch}.gguf"), arch, kind, 1, n_vocab=8, layers=1, hidden=32, heads=2,
              kv=1, head_dim=16, ffn=32, context=8)
    m.finish()
for model in ["llama", "bert"]:
    w = gguf.GGUFWriter(str(out / f"vocab-{model}.gguf"), "llama")
    w.add_tokenizer_model(model)
    tokens = ["<unk>", "<s>", "<0x41>", "\u2581", "a", "b", "ab", "\u2581ab"]
    w.add_token_list(tokens)
    w.add_token_scores([-float(i) for i in range(len(tokens))])
    w.add_token_types([2, 3, 6, 1, 1, 1, 1, 1])
    w.add_bos_token_id(1)
    w.add_unk_token_id(0)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()
(out / "counts.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 1 << 63, 1 << 62))
(out / "version.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 9, 0, 0))
(out / "empty.gguf").write_bytes(b"")
