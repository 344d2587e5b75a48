# SPDX-License-Identifier: Apache-2.0
"""4-bit weights with activations rounded to 8 bits, as weft runs them by default, against the judge's own rounding:
make_noise.py, which says what golden/noise.npz holds (docs/design.md "Numbers")."""
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")


@pytest.fixture(scope="module")
def golden():
    with np.load(Path(__file__).parent / "golden" / "noise.npz") as f:
        return {k: f[k] for k in f.files}


@pytest.fixture(scope="module")
def texts(weft, package, golden, tmp_path_factory):
    """Of each text: best tokens and margins at level 1, and the logits of both modes at the tested positions."""
    out = tmp_path_factory.mktemp("noise") / "logits.npy"

    def logits(n, *options):
        ids = ",".join(map(str, golden[f"ids_{n}"]))
        weft("logits", package, "--ids", ids, "--output", out, *options, check=0)
        return np.load(out)[int(golden[f"start_{n}"]) - 1:].astype(np.float64)

    return [(golden[f"best_{n}"], golden[f"margin_{n}"], logits(n, "--precision", "exact", "--kv", "f32"),
             logits(n, "--precision", "fast")) for n in range(sum(k.startswith("ids_") for k in golden))]


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def test_the_exact_mode_chooses_as_the_judge_does(texts):
    for best, margin, exact, _ in texts:
        assert len(best) > 100 and len(exact) == len(best)
        differs = exact.argmax(-1) != best
        assert not (differs & (margin > 0.002)).any(), margin[differs]


def test_choices_above_the_noise_floor_are_those_of_the_judge(golden, texts):
    best, margin = (np.concatenate([t[i] for t in texts]) for i in (0, 1))
    fast = np.concatenate([t[3].argmax(-1) for t in texts])
    above = margin > golden["floor"]
    assert above.mean() >= 0.9
    differs = above & (fast != best)
    assert not differs.any(), f"margins {margin[differs]}, floor {golden['floor']}"


def test_the_fast_mode_diverges_no_more_than_the_judges(golden, texts):
    kl = np.concatenate([(np.exp(p) * (p - q)).sum(-1) for p, q in ((log_softmax(t[2]), log_softmax(t[3])) for t in texts)])
    assert 0 < kl.mean() <= 1.1 * golden["kl"], f"{kl.mean():.6f}, the judge {golden['kl']:.6f}"
