# SPDX-License-Identifier: Apache-2.0
"""Every file of a package, damaged: the program ends by itself, with an answer or a typed refusal, soon and in little
memory. WEFT_DAMAGE_SEED and WEFT_DAMAGE_CASES (damages a file) reach further than the default run."""
import os
import random
import shutil
import signal
import struct
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

SEED = int(os.environ.get("WEFT_DAMAGE_SEED", "1"))
CASES = int(os.environ.get("WEFT_DAMAGE_CASES", "10"))
SECONDS, KIBIBYTES = 10, 1 << 20
GGUFS = Path(__file__).resolve().parents[1] / "fuzz" / "corpus" / "gguf"
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 98362432\n"
NUMBERS = [b"0", b"-1", b"1", b"2147483647", b"2147483648", b"-9223372036854775808", b"18446744073709551616", b"1e999", b"0.5",
           b"null", b"true", b'"x"', b"[]", b"{}", b"[1, 2]"]
TEMPLATE = ("{% for m in messages %}<|turn|>{{ m.role }}:{{ m.content | trim }}{% if not loop.last %}<|end|>{% endif %}"
            "{% endfor %}{% if add_generation_prompt %}<|turn|>{% endif %}")


def run(weft, *args, stdin=b"", seconds=SECONDS):
    """Exit code (negative: a signal), stderr, and peak memory in KiB."""
    p = subprocess.Popen([weft.program, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.PIPE, env=weft.env(WEFT_CACHE=weft.cache))
    timer = threading.Timer(seconds, p.send_signal, [signal.SIGABRT])
    timer.start()
    err = p.stderr.read()
    _, status, usage = os.wait4(p.pid, 0)
    timer.cancel()
    p.stderr.close()
    p.returncode = os.waitstatus_to_exitcode(status)
    return p.returncode, err, usage.ru_maxrss


def check(weft, what, *args, **kw):
    """None, or what is wrong with how it ended."""
    code, err, peak = run(weft, *args, **kw)
    bad = []
    if b"Sanitizer" in err or b"runtime error" in err:
        bad.append("a sanitizer speaks")
    if not (code == 0 or 3 <= code <= 120):
        bad.append(f"exit {code}")
    if code == 20:
        bad.append("an internal error")
    if code and not err.strip():
        bad.append("no sentence")
    if peak > KIBIBYTES:
        bad.append(f"{peak} KiB")
    return f"{what}: {', '.join(bad)}: {err[-1500:].decode(errors='replace')}" if bad else None


def flip(r, b):
    for _ in range(r.choice([1, 1, 2, 8])):
        b[r.randrange(len(b))] ^= 1 << r.randrange(8)
    return b


def overwrite(r, b):
    at = r.randrange(len(b))
    n = r.choice([1, 2, 4, 8])
    b[at:at + n] = r.choice([b"\0" * n, b"\xff" * n, b"\x7f" + b"\xff" * (n - 1), bytes(r.randrange(256) for _ in range(n))])
    return b


def lie(r, b):
    """A length, count or offset somewhere that is larger than anything there is."""
    at = r.randrange(len(b))
    b[at:at + 8] = struct.pack("<Q", r.choice([1 << 31, (1 << 32) - 1, 1 << 40, 1 << 62, (1 << 63) - 1, (1 << 64) - 1, len(b)]))
    return b


def cut(r, b):
    return b[: r.choice([r.randrange(len(b)), len(b) - 1, len(b) // 2])]


def splice(r, b):
    i, j, n = r.randrange(len(b)), r.randrange(len(b)), r.randrange(1, 64)
    return b[:i] + b[j:j + n] + b[i:]


def number(r, b):
    """Text: a value replaced by another that JSON has."""
    import re
    spots = [m.span() for m in re.finditer(rb'(?<=[:\[,] )(-?\d+(\.\d+)?|true|false|null|"[^"\n]*")', bytes(b))]
    if not spots:
        return overwrite(r, b)
    i, j = r.choice(spots)
    return b[:i] + r.choice(NUMBERS) + b[j:]


def drop(r, b):
    i = r.randrange(len(b))
    return b[:i] + b[i + r.randrange(1, 32):]


BINARY = [flip, overwrite, lie, cut, splice, drop]
TEXT = [number, number, number, flip, cut, splice, drop]


@pytest.fixture(scope="module")
def whole(weft, tmp_path_factory):
    """Sound packages of a few kilobytes, one an architecture."""
    top = tmp_path_factory.mktemp("whole")
    for name in ("llama", "gemma3", "phi3"):
        weft("import", GGUFS / f"{name}.gguf", "-o", top / name, check=0)
        (top / name / "chat_template.jinja").write_text(TEMPLATE)
        code, err, _ = run(weft, "run", top / name, "-p", "!!", "--max-tokens", "2")
        assert code == 0, err
    return top


def copy(source, to):
    to.mkdir(parents=True)
    for f in source.iterdir():
        os.link(f, to / f.name)
    return to


def replace(folder, name, content):
    (folder / name).unlink()
    (folder / name).write_bytes(content)


def many(jobs):
    with ThreadPoolExecutor(2) as pool:
        bad = [b for b in pool.map(lambda j: check(*j[0], **j[1]), jobs) if b]
    assert not bad, f"{len(bad)} of {len(jobs)}, seed {SEED}:\n" + "\n".join(bad[:8])


def test_a_package_with_any_file_damaged_ends_typed(weft, whole, tmp_path):
    r, jobs = random.Random(SEED), []
    for package in sorted(whole.iterdir()):
        for file in sorted(package.iterdir()):
            ways = BINARY if file.suffix in (".onnx", ".data") else TEXT
            for i in range(CASES * (3 if file.suffix == ".onnx" else 1) // (1 if package.name == "llama" else 2)):
                b = r.choice(ways)(r, bytearray(file.read_bytes()))
                folder = copy(package, tmp_path / f"{package.name}-{file.name}-{i}")
                replace(folder, file.name, bytes(b))
                args = ("-p", "!!") if "token" in file.name or "template" in file.name else ("--ids", "1,2,3")
                jobs.append(((weft, folder, "run", folder, *args, "--max-tokens", "3", "--threads", "1"), {}))
    many(jobs)


def test_a_damaged_gguf_file_ends_typed(weft, tmp_path):
    r, jobs = random.Random(SEED), []
    for file in sorted(GGUFS.iterdir()):
        whole_file = file.read_bytes()
        for i in range(CASES if len(whole_file) > 1000 else 0):
            path = tmp_path / f"{i}-{file.name}"
            path.write_bytes(bytes(r.choice(BINARY)(r, bytearray(whole_file))))
            jobs.append(((weft, path, "run", path, "--ids", "1,2,3", "--max-tokens", "2", "--threads", "1"), {}))
    many(jobs)


def test_files_of_another_kind_in_their_places_end_typed(weft, whole, tmp_path):
    jobs, package = [], whole / "llama"
    names = sorted(f.name for f in package.iterdir())
    for name in names:
        def made(way):
            folder = copy(package, tmp_path / f"{name}-{way}")
            (folder / name).unlink()
            jobs.append(((weft, folder, "run", folder, "-p", "!!", "--max-tokens", "2"), {}))
            return folder / name

        made("missing")
        made("empty").write_bytes(b"")
        made("lfs").write_bytes(LFS)
        made("folder").mkdir()
        made("zeros").write_bytes(b"\0" * 65536)
        made("deep").write_bytes(b"[" * 100_000)
        made("deeper").write_bytes(b'{"a":' * 100_000)
        made("text").write_bytes(b"{{" * 5000 + b"x" + b"(" * 50_000)
        made("group").write_bytes(b"\x0b" * 60_000)  # protobuf: groups in groups
        made("out").symlink_to("/etc/hostname")
        made("loop").symlink_to(name)
        made("nowhere").symlink_to("not-there")
        made("device").symlink_to("/dev/zero")
        os.mkfifo(made("pipe"))
        made("swapped").write_bytes((package / names[(names.index(name) + 3) % len(names)]).read_bytes())
    many(jobs)


def test_links_out_of_a_package_are_refused(weft, whole, tmp_path):
    for name in ("model.onnx", "model.onnx.data", "tokenizer.json", "genai_config.json"):
        folder = copy(whole / "llama", tmp_path / name)
        outside = tmp_path / f"outside-{name}"
        os.rename(folder / name, outside)
        (folder / name).symlink_to(outside)
        code, err, _ = run(weft, "run", folder, "--ids", "1,2", "--max-tokens", "1")
        assert 3 <= code <= 120 and name.encode() in err, (name, code, err)
        code, err, _ = run(weft, "run", folder, "--ids", "1,2", "--max-tokens", "1", "--trust-links")
        assert code == 0, (name, code, err)


@pytest.mark.parametrize("below", ["", "onnx"])
def test_a_hub_cache_snapshot_whose_files_all_link_to_blobs_runs(weft, whole, tmp_path, below):
    """External data lies beside the model's name in the snapshot, not beside the blob that the name leads to."""
    blobs, snapshot = tmp_path / "models--a--b" / "blobs", tmp_path / "models--a--b" / "snapshots" / "0123"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for i, f in enumerate(sorted((whole / "llama").iterdir())):
        if below and f.name == "genai_config.json":
            continue
        shutil.copy(f, blobs / str(i))
        at = snapshot / (below if "onnx" in f.name else "") / f.name
        at.parent.mkdir(exist_ok=True)
        at.symlink_to(os.path.relpath(blobs / str(i), at.parent))
    code, err, _ = run(weft, "run", snapshot, "--ids", "1,2", "--max-tokens", "1")
    assert code == 0, err


def npy(header, data=b"", version=1):
    h = header.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(h)) + h + data


def test_a_damaged_array_file_ends_typed(weft, whole, tmp_path):
    r, jobs = random.Random(SEED), []
    sound = npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1, 3), }\n", struct.pack("<3q", 1, 2, 3))
    arrays = [b"", sound[:9], sound[:-1], npy(""), npy("{'descr': '<i8'}"), npy("{'descr': '<i8', 'fortran_order': False, 'shape': ("),
              npy("{'descr': '<i8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", b"0" * 64),
              npy("{'descr': '<i8', 'fortran_order': False, 'shape': (9223372036854775807,), }", b"0" * 64),
              npy("{'descr': '<i8', 'fortran_order': False, 'shape': (0, 9223372036854775807), }"),
              npy("{'descr': '<i8', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1), }", b"0" * 8),
              npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"0" * 8),
              npy("x" * 60000), b"\x93NUMPY\x02\0\xff\xff\xff\xff"]
    arrays += [bytes(r.choice([flip, cut, overwrite, lie])(r, bytearray(sound))) for _ in range(CASES * 2)]
    for i, a in enumerate(arrays):
        path = tmp_path / f"{i}.npy"
        path.write_bytes(a)
        jobs.append(((weft, path, "exec", whole / "llama" / "model.onnx", "--input", f"input_ids={path}",
                      "--output-dir", tmp_path / f"out{i}"), {}))
    many(jobs)


def test_a_graph_file_cut_short_while_in_use_is_named_as_a_package_error(weft, whole, tmp_path):
    """The pages are gone: there is no going on, but the exit code and the sentence are those of the package."""
    folder = copy(whole / "llama", tmp_path / "cut")
    data = (folder / "model.onnx.data").read_bytes()
    replace(folder, "model.onnx.data", data)
    p = subprocess.Popen([weft.program, "run", str(folder), "--threads", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, env=weft.env(WEFT_CACHE=weft.cache))
    p.stdin.write(b"!!\n")
    p.stdin.flush()
    assert p.stdout.read(1)  # it is open and answers
    os.truncate(folder / "model.onnx.data", 0)
    try:
        p.stdin.write(b"!!\n" * 3)
        p.stdin.close()
    except BrokenPipeError:
        pass
    err = p.stderr.read()
    p.wait(20)
    # what it had packed for itself it may go on with
    assert p.returncode in (0, 3), err
    assert p.returncode == 0 or b"became shorter" in err or b"changed" in err


def test_packed_weights_cut_short_while_in_use_are_the_same_package_error(weft, large, tmp_path):
    cache = tmp_path / "cache"
    answer(weft, large, cache)
    p = subprocess.Popen([weft.program, "run", str(large), "--threads", "1", "--max-tokens", "4"], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=weft.env(WEFT_CACHE=str(cache)))
    p.stdin.write(b"!!\n")
    p.stdin.flush()
    assert p.stdout.read(1)
    for pack in cache.glob("packed/*.pack"):
        os.truncate(pack, 4096)
    try:
        p.stdin.write(b"!!\n" * 3)
        p.stdin.close()
    except BrokenPipeError:  # it has ended already
        pass
    err = p.stderr.read()
    p.wait(20)
    assert p.returncode == 3 and b"became shorter" in err and b"fix:" in err, (p.returncode, err)


# ---- the user's cache ---------------------------------------------------------------------------

ASK = ("--ids", "1,2,3", "--max-tokens", "4", "--greedy", "--json", "--threads", "1")


@pytest.fixture
def large(weft, tmp_path_factory):
    """A GGUF file whose weights are worth packing."""
    path = os.environ.get("WEFT_TEST_TOY") or make_toy(tmp_path_factory.mktemp("toy") / "toy.gguf")
    return path


def make_toy(path):
    import sys
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "import"))
    pytest.importorskip("gguf")
    from gguf_models import Maker, Q
    Maker(str(path), "llama", Q.Q4_0, 7, tied=False).finish()
    return path


def answer(weft, path, cache):
    import json
    r = subprocess.run([weft.program, "run", str(path), *ASK], capture_output=True, env=weft.env(WEFT_CACHE=str(cache)), timeout=60)
    assert r.returncode == 0, r.stderr
    return json.loads(r.stdout)["output_ids"]


def test_a_damaged_cache_is_seen_and_made_again(weft, large, tmp_path):
    cache = tmp_path / "cache"
    good = answer(weft, large, cache)

    def one(pattern):
        found = sorted(p for p in cache.glob(pattern))
        assert len(found) == 1, found
        return found[0]

    def foreign(p):
        p.chmod(0o666)

    def linked(p):
        other = tmp_path / "elsewhere"
        os.replace(p, other)
        p.symlink_to(other)

    def head(p):
        b = bytearray(p.read_bytes())
        b[9] ^= 1
        p.write_bytes(bytes(b))

    def turned(p):
        """As many bytes as before."""
        b = bytearray(p.read_bytes())
        b[len(b) // 3:] = bytes(x ^ 0x11 for x in b[len(b) // 3:])
        p.write_bytes(bytes(b))

    def halved(p):
        os.truncate(p, p.stat().st_size // 2)

    def body(p):
        with open(p, "r+b") as f:
            f.seek(-5000, os.SEEK_END)
            f.write(b"\x7f" * 4000)

    def another(p):
        """A sound file of another package under this one's name."""
        b = bytearray(p.read_bytes())
        b[5000:] = bytes(reversed(b[5000:]))
        other = p.with_name("other")
        other.write_bytes(b)
        other.chmod(0o600)
        os.replace(other, p)

    for damage in (halved, lambda p: p.write_bytes(b""), head, body, another, foreign, linked):
        pack = one("packed/*.pack")
        damage(pack)
        assert answer(weft, large, cache) == good
        pack = one("packed/*.pack")
        assert not pack.is_symlink() and pack.stat().st_mode & 0o777 == 0o600 and pack.stat().st_size > 10_000
    if os.geteuid() == 0:
        os.chown(one("packed/*.pack"), 12345, 12345)
        assert answer(weft, large, cache) == good
        assert one("packed/*.pack").stat().st_uid == 0
    for name in ("model.onnx", "model.onnx.data", "tokenizer.json", "weft-import.txt", "genai_config.json"):
        for damage in (halved, turned):
            damage(one(f"imports/*/{name}"))
            assert answer(weft, large, cache) == good
    one("imports/*/model.onnx.data").unlink()
    assert answer(weft, large, cache) == good


def test_many_first_runs_at_once_answer_alike_and_leave_one_copy(weft, large, tmp_path):
    cache = tmp_path / "cache"
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: answer(weft, large, cache), range(6)))
    assert all(a == answers[0] for a in answers)
    assert len(list(cache.glob("imports/*"))) == 1 and not [p for p in cache.rglob("*") if ".weft" in p.name]
