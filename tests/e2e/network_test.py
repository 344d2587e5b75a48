# SPDX-License-Identifier: Apache-2.0
"""No command opens a network connection: each runs under strace, and no socket but a local one is made."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest


def traced(weft, tmp_path, *args, stdin=b""):
    if not shutil.which("strace"):
        pytest.skip("strace is not installed (make deps)")
    log = tmp_path / "trace"
    r = subprocess.run(["strace", "-f", "-qq", "-e", "trace=%network", "-o", log, weft.program, *map(str, args)],
                       input=stdin, capture_output=True, env=weft.env(), timeout=240)
    text = log.read_text(errors="replace")
    calls = [line for line in text.split("\n") if re.search(r"\b(socket|connect|sendto|sendmsg|bind|listen)\(", line)]
    return r, calls


def commands(package, gguf, tmp_path):
    messages = tmp_path / "m.json"
    messages.write_text('{"messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": true}')
    return {
        "version": ["--version"],
        "run": ["run", package, "-p", "hi", "--max-tokens", 4, "--greedy"],
        "run gguf": ["run", gguf, "-p", "hi", "--max-tokens", 2, "--greedy"],
        "import": ["import", gguf, "-o", tmp_path / "out"],
        "inspect": ["inspect", package],
        "tokenize": ["tokenize", package, "hello"],
        "detokenize": ["detokenize", package, "1,2,3"],
        "template": ["template", package, messages],
        "logits": ["logits", package, "--ids", "1,2,3", "--output", tmp_path / "l.npy"],
        "bench": ["bench", package, "-p", 8, "-n", 4, "-t", 1],
        "cache": ["cache", "list"],
        "providers": ["providers"],
        "missing": ["run", "https://127.0.0.1:9/model.gguf", "-p", "hi"],
    }


@pytest.mark.parametrize("name", ["version", "run", "run gguf", "import", "inspect", "tokenize", "detokenize",
                                  "template", "logits", "bench", "cache", "providers", "missing"])
def test_no_command_opens_a_connection(weft, package, gguf, tmp_path, name):
    r, calls = traced(weft, tmp_path, *commands(package, gguf, tmp_path)[name])
    assert calls == [], f"weft {name}: {calls[:5]}"
    if name == "missing":
        assert 3 <= r.returncode <= 120
    else:
        assert r.returncode == 0, r.stderr.decode(errors="replace")


def test_onnx_runtime_is_kept_from_telling(weft, package, tmp_path):
    """From 1.28 on it would resolve its maker's host and keep a database of events in the cache's folder."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed (make deps)")
    ort = pytest.importorskip("onnxruntime", reason="the judges are not installed (make deps)")
    library = next(Path(ort.__file__).parent.glob("capi/libonnxruntime.so.*"))
    caches = tmp_path / "caches"
    caches.mkdir()
    for args in (["providers"], ["run", package, "-p", "hi", "--max-tokens", 2, "--greedy", "--backend", "ort"]):
        log = tmp_path / "trace"
        r = subprocess.run(["strace", "-f", "-qq", "-e", "trace=%network", "-o", log, weft.program, *map(str, args),
                            "--ort", library], capture_output=True, env={**weft.env(), "XDG_CACHE_HOME": str(caches)}, timeout=240)
        assert r.returncode == 0, r.stderr.decode(errors="replace")
        assert not re.search(r"\b(socket|connect|sendto|sendmsg)\(", log.read_text(errors="replace"))
    assert {p.name for p in caches.iterdir()} <= {"weft"}
