# SPDX-License-Identifier: Apache-2.0
"""A chain model: a toy decoder whose logits are one row of a table picked by the last token, so that every answer
follows from the script of its test. Ids 0..255 are the bytes; words and the two ends follow."""
import json

import pytest

onnx = pytest.importorskip("onnx", reason="the judges are not installed (make deps)")
np = pytest.importorskip("numpy", reason="the judges are not installed (make deps)")

WORDS = ["one ", "two ", "three ", "four ", "five"]
ONE, TWO, THREE, FOUR, FIVE = range(256, 261)
END, END2 = 261, 262
VOCAB = 263
A, B, C = ord("A"), ord("B"), ord("C")


def alphabet():
    """GPT-2's: printable bytes stand for themselves, the others for U+0100 and up."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(rest)}}


class Chain:
    """table[a, b] is the logit of b after a."""

    def __init__(self, folder):
        self.folder = folder
        self.table = np.zeros((VOCAB, VOCAB), np.float32)

    def follow(self, *ids, by=20.0):
        for a, b in zip(ids, ids[1:]):
            self.table[a, b] += by
        return self

    def write(self, eos=(END,), context=256, **generation):
        h, t = onnx.helper, onnx.TensorProto
        graph = h.make_graph(
            [h.make_node("Gather", ["table", "input_ids"], ["logits"])], "chain",
            [h.make_tensor_value_info("input_ids", t.INT64, ["batch", "sequence"])],
            [h.make_tensor_value_info("logits", t.FLOAT, ["batch", "sequence", VOCAB])],
            [onnx.numpy_helper.from_array(self.table, "table")])
        (self.folder / "onnx").mkdir(parents=True, exist_ok=True)
        onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), self.folder / "onnx" / "model.onnx")
        letters = alphabet()
        spell = lambda s: "".join(letters[b] for b in s.encode())  # noqa: E731
        vocab = {letters[b]: b for b in range(256)} | {spell(w): 256 + i for i, w in enumerate(WORDS)}
        control = [{"id": i, "content": c, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                    "special": True} for i, c in ((END, "<|end|>"), (END2, "<|end2|>"))]
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        self.put("tokenizer.json", {
            "version": "1.0", "added_tokens": control, "normalizer": None, "pre_tokenizer": level, "post_processor": None,
            "decoder": level, "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                                        "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                                        "vocab": vocab, "merges": []}})
        self.put("tokenizer_config.json", {"eos_token": "<|end|>"})
        self.put("config.json", {"model_type": "chain", "vocab_size": VOCAB, "max_position_embeddings": context,
                                 "eos_token_id": list(eos)})
        if generation:
            self.put("generation_config.json", generation)
        return self.folder

    def put(self, name, value):
        (self.folder / name).write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
