# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: the real binary, the demo model, a package imported once, and an environment
that holds nothing of the machine's. `make check` sets WEFT (the program) and WEFT_TEST_MODEL (the GGUF file)."""
import json
import os
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]


class Weft:
    """Runs the program. The environment is empty but for a cache folder, as under `env -i`."""

    def __init__(self, program, cache):
        self.program, self.cache = str(program), str(cache)

    def env(self, **more):
        env = {"XDG_CACHE_HOME": self.cache}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "ASAN_SYMBOLIZER_PATH"):
            if name in os.environ:
                env[name] = os.environ[name]
        env.update(more)
        return env

    def __call__(self, *args, stdin=b"", env=None, timeout=120, check=None, **kw):
        """The finished process with bytes in stdout and stderr. check: the exit code it must have."""
        argv = [self.program, *[str(a) if not isinstance(a, bytes) else a for a in args]]
        r = subprocess.run(argv, input=stdin, capture_output=True, env=self.env(**(env or {})), timeout=timeout, **kw)
        if check is not None:
            assert r.returncode == check, f"{argv[1:]}: exit {r.returncode}, not {check}\n{r.stderr.decode(errors='replace')}"
        return r

    def json(self, *args, **kw):
        return json.loads(self(*args, check=0, **kw).stdout)


@pytest.fixture(scope="session")
def weft(tmp_path_factory):
    program = Path(os.environ.get("WEFT", TOP / "build" / "weft"))
    if not program.exists():
        pytest.skip(f"{program} is not built (make build)")
    return Weft(program.resolve(), tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def gguf():
    """The demo model's GGUF file."""
    path = os.environ.get("WEFT_TEST_MODEL") or subprocess.run(
        [TOP / "tools" / "deps", "model-path"], capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.exists(path):
        pytest.skip(f"the demo model {path} is not there (make deps)")
    return path


@pytest.fixture(scope="session")
def package(weft, gguf, tmp_path_factory):
    """The demo model as an ONNX package, in a folder whose name is hard on programs."""
    folder = tmp_path_factory.mktemp("modèles") / "数据 set" / "smol lm"
    folder.parent.mkdir()
    weft("import", gguf, "-o", folder, check=0, timeout=300)
    return folder


@pytest.fixture(scope="session")
def fixtures():
    """Inputs laid beside the checkout, never part of it."""
    path = TOP.parent / "shared" / "fixtures"
    if not path.is_dir():
        pytest.skip(f"left out: {path} is not there")
    return path
