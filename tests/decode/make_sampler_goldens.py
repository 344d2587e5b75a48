# SPDX-License-Identifier: Apache-2.0
"""Writes sampler.golden: logits, the tokens seen, the options, and the distribution that a token is drawn from, by the
logits processors of transformers 5.24.0 (the judge; torch 2.15.0), in the order in which its `generate` applies them.

For each case, little-endian: f32 temperature, top_p, min_p, typical_p, repetition_penalty; i32 top_k, vocabulary, tokens;
the tokens as i32; the logits as f32; the probabilities as f32.
    python tests/decode/make_sampler_goldens.py          needs torch and transformers; seeded
"""
import itertools
import pathlib
import struct

import torch
from transformers import (LogitsProcessorList, MinPLogitsWarper, RepetitionPenaltyLogitsProcessor, TemperatureLogitsWarper,
                          TopKLogitsWarper, TopPLogitsWarper, TypicalLogitsWarper)

OFF = dict(temperature=1.0, top_p=1.0, min_p=0.0, typical_p=1.0, repetition_penalty=1.0, top_k=0)
ALONE = [dict(temperature=t) for t in (0.05, 0.3, 0.7, 1.3, 3.0, 40.0)]
ALONE += [dict(top_k=k) for k in (1, 2, 7, 40, 100000)]
ALONE += [dict(top_p=p) for p in (0.01, 0.3, 0.62, 0.9, 0.999)]
ALONE += [dict(min_p=p) for p in (0.001, 0.05, 0.3, 1.0)]
ALONE += [dict(typical_p=p) for p in (0.01, 0.2, 0.5, 0.9, 0.995)]
ALONE += [dict(repetition_penalty=p) for p in (0.5, 1.1, 1.8, 10.0)]
TOGETHER = [dict(temperature=t, top_k=k, top_p=p, min_p=m, typical_p=y, repetition_penalty=r) for t, k, p, m, y, r in itertools.product(
    (0.6, 1.4), (0, 12), (0.85, 1.0), (0.0, 0.04), (0.7, 1.0), (1.0, 1.3))]


def judge(logits, seen, o):
    """The distribution, and whether it stays the same when the last bits of the logits move: rounding decides nothing."""
    chain = LogitsProcessorList()
    if o["repetition_penalty"] != 1:
        chain.append(RepetitionPenaltyLogitsProcessor(o["repetition_penalty"]))
    if o["temperature"] != 1:
        chain.append(TemperatureLogitsWarper(o["temperature"]))
    if o["top_k"]:
        chain.append(TopKLogitsWarper(o["top_k"]))
    if o["top_p"] < 1:
        chain.append(TopPLogitsWarper(o["top_p"]))
    if o["min_p"] > 0:
        chain.append(MinPLogitsWarper(o["min_p"]))
    if o["typical_p"] < 1:
        chain.append(TypicalLogitsWarper(o["typical_p"]))

    def run(kind):
        return torch.softmax(chain(seen[None], logits[None].to(kind))[0].double(), -1)

    single, double = run(torch.float32), run(torch.float64)
    return single, bool((single - double).abs().max() < 1e-6)


def cases():
    g = torch.Generator().manual_seed(20261201)
    for n, o in enumerate(ALONE + TOGETHER):
        o = {**OFF, **o}
        for spread in (2.0, 6.0):
            vocab = int(torch.randint(20, 130, (1,), generator=g))
            logits = torch.randn(vocab, generator=g) * spread
            if o["top_p"] == 1 and n % 2:
                logits = torch.round(logits)  # ties; at the border of top-p the judge's own sort would decide
            if n % 3 == 0:
                logits[::7] = -torch.inf  # masked by the model
            seen = torch.randint(0, vocab, (vocab // 2,), generator=g)
            yield logits, seen, o


out, n, dropped = bytearray(), 0, 0
for logits, seen, o in cases():
    p, is_stable = judge(logits, seen, o)
    if not is_stable:
        dropped += 1
        continue
    n += 1
    out += struct.pack("<5f3i", o["temperature"], o["top_p"], o["min_p"], o["typical_p"], o["repetition_penalty"], o["top_k"],
                       len(logits), len(seen))
    out += seen.int().numpy().tobytes() + logits.numpy().tobytes() + p.float().numpy().tobytes()
pathlib.Path(__file__).with_name("sampler.golden").write_bytes(out)
print(n, "cases,", dropped, "left out because rounding decides,", len(out), "bytes")
