# SPDX-License-Identifier: Apache-2.0
"""The memory that there is: a model that does not fit is refused with numbers before it is loaded, a context that does
not fit is made smaller, and neither ends by the kernel's hand. The limit is a real group's where one can be made, else
one laid over the mount of groups in a namespace of the program's own."""
import os
import re
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest

MIB = 1 << 20
LAY = """mount -t tmpfs none /sys/fs/cgroup && cd /sys/fs/cgroup && echo {limit} > memory.max && echo 0 > memory.current &&
: > memory.stat && cd / && exec "$@" """


class Limit:
    """Runs a program under a limit of memory."""

    def __init__(self, kind, folder=None):
        self.kind, self.folder = kind, folder

    def __call__(self, limit, argv, env):
        if self.kind == "namespace":
            argv = ["unshare", "-rm", "sh", "-c", LAY.format(limit=limit), "sh", *argv]
            return subprocess.run(argv, capture_output=True, env={**env, "PATH": os.environ["PATH"]}, timeout=120)
        name = "memory.max" if self.kind == "v2" else "memory.limit_in_bytes"
        group = self.folder / f"weft-test-{uuid.uuid4().hex}"
        group.mkdir()
        try:
            (group / name).write_text(str(limit))
            enter = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group / "cgroup.procs"), *argv]
            return subprocess.run(enter, capture_output=True, env={**env, "PATH": os.environ["PATH"]}, timeout=120)
        finally:
            group.rmdir()


def usable():
    root = Path("/sys/fs/cgroup")
    for kind, folder, name, mark in (("v2", root, "memory.max", "cgroup.controllers"),
                                     ("v1", root / "memory", "memory.limit_in_bytes", "memory.limit_in_bytes")):
        if not (folder / mark).exists():
            continue
        group = folder / f"weft-test-{uuid.uuid4().hex}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / name).write_text(str(1 << 40))
            return Limit(kind, folder)
        except OSError:
            pass
        finally:
            group.rmdir()
    return None


def limits():
    """The ways there are on this machine; most have one at least."""
    found = [group] if (group := usable()) else []
    if shutil.which("unshare") and not subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/sys/fs/cgroup"],
                                                      capture_output=True).returncode:
        found.append(Limit("namespace"))
    return found or [None]


@pytest.fixture(params=limits(), ids=lambda limit: limit.kind if limit else "none")
def limited(request):
    if not request.param:
        pytest.skip("left out: neither a group of processes nor a mount namespace can be made here")
    return request.param


def run(weft, limited, limit, package, *more):
    argv = [weft.program, "run", str(package), "--ids", "1,2,3", "--max-tokens", "1", "--greedy", "--threads", "1", *more]
    return limited(limit, argv, weft.env())


def test_a_model_that_does_not_fit_is_refused_with_numbers(weft, limited, package):
    r = run(weft, limited, 24 * MIB, package, "--no-cache")
    err = r.stderr.decode()
    assert 3 <= r.returncode <= 120, (r.returncode, err)
    numbers = [float(n) for n in re.findall(r"([\d.]+) MiB", err)]
    assert len(numbers) >= 2 and numbers[0] > numbers[-1] and numbers[-1] <= 24, err
    assert "group" in err and "fix:" in err, err


@pytest.mark.parametrize("mib", [128, 192, 256])
def test_what_fits_runs_below_the_limit(weft, limited, package, mib):
    """With packed weights in the cache: file pages that the kernel can take back."""
    assert run(weft, limited, 4096 * MIB, package).returncode == 0
    r = run(weft, limited, mib * MIB, package)
    assert r.returncode == 0 or 3 <= r.returncode <= 120 and b"MiB" in r.stderr, (r.returncode, r.stderr)
    assert r.returncode == 0 or mib < 256


def test_the_context_is_what_memory_allows(weft, limited, package):
    """A prompt beyond it is refused with both counts; with enough memory the same prompt is read."""
    ids = ",".join(["5"] * 7000)
    argv = [weft.program, "run", str(package), "--ids", ids, "--max-tokens", "1", "--greedy", "--threads", "1", "--kv", "f32"]
    roomy = limited(4096 * MIB, argv[:4] + ["5,5"] + argv[5:], weft.env())
    assert roomy.returncode == 0, roomy.stderr
    r = limited(256 * MIB, argv, weft.env())
    assert 3 <= r.returncode <= 120 and b"7000" in r.stderr, (r.returncode, r.stderr)
    small = limited(256 * MIB, argv[:4] + ["5,5"] + argv[5:] + ["--context", "64"], weft.env())
    assert small.returncode == 0, small.stderr
