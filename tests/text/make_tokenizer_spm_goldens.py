#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/text/tokenizer_spm_goldens: small SentencePiece models and what they must answer.

The judge is the `sentencepiece` package (0.2.x). Rows hold no offsets and no decoded text of
unknown pieces, which SentencePiece shows as " ⁇ ".
"""
import io
import json
import os
import random

import sentencepiece as spm

import make_tokenizer_goldens as g


def train(**kw):
    out = io.BytesIO()
    args = dict(sentence_iterator=iter([x.replace("\n", " ") for x in g.CORPUS * 20]), model_writer=out, minloglevel=2,
                vocab_size=300, hard_vocab_limit=False, num_threads=1)
    args.update(kw)
    spm.SentencePieceTrainer.train(**args)
    return out.getvalue()


# The character map of the default rules is 240 kB, so one model has it.
MODELS = {
    "spm_unigram": dict(model_type="unigram"),
    "spm_unigram_bytes": dict(model_type="unigram", byte_fallback=True, vocab_size=520, character_coverage=0.98,
                              normalization_rule_name="identity"),
    "spm_unigram_raw": dict(model_type="unigram", normalization_rule_name="identity", add_dummy_prefix=False,
                            remove_extra_whitespaces=False),
    "spm_bpe": dict(model_type="bpe", byte_fallback=True, vocab_size=620, character_coverage=0.98, split_digits=True,
                    normalization_rule_name="identity", remove_extra_whitespaces=False),
    "spm_bpe_extra": dict(model_type="bpe", normalization_rule_name="identity"),
    "spm_bpe_user": dict(model_type="bpe", user_defined_symbols=["<|u|>", "▁▁", "▁▁▁"], remove_extra_whitespaces=False,
                         normalization_rule_name="identity"),
}


def main():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenizer_spm_goldens")
    fuzz = int(os.environ.get("FUZZ", "0"))
    folder = os.environ.get("OUT", folder)
    os.makedirs(folder, exist_ok=True)
    rng = random.Random(3)
    for name, args in MODELS.items():
        model = train(**args)
        with open(os.path.join(folder, name + ".model"), "wb") as f:
            f.write(model)
        p = spm.SentencePieceProcessor(model_proto=model)
        rows = []
        texts = g.TEXTS + ["x<|u|>y  <|u|> z"] + [g.random_text(rng) for _ in range(fuzz or 10)]
        for text in texts:
            if "<s>" in text or "</s>" in text or "\0" in text:  # control pieces match here, not there
                continue
            ids = p.encode(text)
            row = {"text": text, "special": False, "ids": ids}
            if p.unk_id() not in ids:
                row["decoded"] = row["skipped"] = p.decode(ids)
            rows.append(row)
        with open(os.path.join(folder, name + ".cases"), "w", encoding="utf-8") as f:
            f.write("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) for r in rows) + "\n]\n")
    with open(os.path.join(folder, "JUDGE"), "w", encoding="utf-8") as f:
        f.write(f"sentencepiece {spm.__version__}, made by tests/text/make_tokenizer_spm_goldens.py\n")


if __name__ == "__main__":
    main()
