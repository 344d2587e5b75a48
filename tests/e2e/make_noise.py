# SPDX-License-Identifier: Apache-2.0
"""Writes golden/noise.npz: how far quantised activations may move SmolLM2 (docs/design.md "Numbers"), by the judges
onnxruntime 1.31.1 (logits at accuracy level 1, exact, and 4, which rounds activations to 8 bits) and onnxruntime-genai 0.18.0
(the texts: greedy answers at level 1) on the folder that `weft import` makes of the demo model.

    python tests/e2e/make_noise.py FOLDER                where FOLDER is `weft import MODEL.gguf -o FOLDER`

    ids_N, start_N   the tokens of text N and where its answer begins: positions from start_N - 1 on are tested
    best_N, margin_N the best token at each tested position at level 1, and its distance to the second, in logits
    floor            the noise floor: nine of ten of those distances are moved by less than this at level 4
    kl               mean KL divergence of level 4 from level 1 over all tested positions
"""
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime_genai as og
from interop_test import exact_copy, ort_logits

N_NEW = 112
QUESTIONS = ["What is a loom, and what was Jacquard's part in its history?", "Write a Python function that counts the words of a text.",
             "Name the planets of the solar system and say one thing about each.", "Why is the sky blue? Explain it to a child."]


def log_softmax(x):
    x = x.astype(np.float64) - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def divergence(exact, other):
    """KL of each row."""
    p, q = log_softmax(exact), log_softmax(other)
    return (np.exp(p) * (p - q)).sum(-1)


def answer(folder, question):
    model = og.Model(str(folder))
    tokenizer = og.Tokenizer(model)
    prompt = f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"
    ids = tokenizer.encode(prompt)
    params = og.GeneratorParams(model)
    params.set_search_options(do_sample=False, max_length=len(ids) + N_NEW)
    generator = og.Generator(model, params)
    generator.append_tokens(ids)
    while not generator.is_done():
        generator.generate_next_token()
    return [int(t) for t in generator.get_sequence(0)], len(ids)


def main():
    package = Path(sys.argv[1]).resolve()
    golden, moved, divergences, margins = {}, [], [], []
    with tempfile.TemporaryDirectory(dir=package.parent) as tmp:
        exact = exact_copy(package, Path(tmp))
        for n, question in enumerate(QUESTIONS):
            ids, start = answer(exact, question)
            level1, level4 = (ort_logits(f, ids)[start - 1:] for f in (exact, package))
            two = np.argsort(level1, -1)[:, -2:]
            gap1, gap4 = (np.diff(np.take_along_axis(x, two, -1), axis=-1)[:, 0] for x in (level1, level4))
            golden |= {f"ids_{n}": np.array(ids, np.int32), f"start_{n}": start, f"best_{n}": two[:, 1].astype(np.int32), f"margin_{n}": gap1}
            moved.append(np.abs(gap4 - gap1))
            margins.append(gap1)
            divergences.append(divergence(level1, level4))
    floor, kl = np.quantile(np.concatenate(moved), 0.9), np.concatenate(divergences).mean()
    golden |= dict(floor=np.float32(floor), kl=kl)
    np.savez_compressed(Path(__file__).resolve().parent / "golden" / "noise.npz", **golden)
    all_margins = np.concatenate(margins)
    print(f"{len(all_margins)} positions, {(all_margins > floor).mean():.3f} of them above the floor of {floor:.4f}; mean KL {kl:.6f}")


if __name__ == "__main__":
    main()
