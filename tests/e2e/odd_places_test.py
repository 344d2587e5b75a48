# SPDX-License-Identifier: Apache-2.0
"""Writers under odd circumstances: umasks, names that file systems just allow, and being ended in the middle."""
import fcntl
import os
import shutil
import signal
import subprocess
import time

import pytest

from damage_test import make_toy

ASK = ("--ids", "1,2,3", "--max-tokens", "3", "--greedy", "--json")


@pytest.fixture(scope="session")
def made_toy(tmp_path_factory):
    return make_toy(tmp_path_factory.mktemp("toy") / "toy.gguf")


@pytest.fixture
def toy(made_toy, tmp_path):
    """A small file of its own: imports are known by device and inode."""
    copy = tmp_path / "m.gguf"
    shutil.copyfile(made_toy, copy)
    return copy


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o777])
def test_what_is_written_has_the_modes_that_the_umask_allows(weft, toy, tmp_path, mask):
    out, cache = tmp_path / "out", tmp_path / "cache"
    env = {"XDG_CACHE_HOME": str(cache)}
    if mask & 0o700 and os.geteuid() != 0:
        weft("import", toy, "-o", out, umask=mask, check=8)  # nobody may write into such a folder, and that is said
    else:
        weft("import", toy, "-o", out, umask=mask, check=0)
        assert out.stat().st_mode & 0o777 == 0o777 & ~mask
        assert {f.stat().st_mode & 0o777 for f in out.iterdir()} == {0o666 & ~mask}
    good = weft.json("run", toy, *ASK)["output_ids"]
    for _ in range(2):  # the cache is private whatever the umask says, and found again
        r = weft("run", toy, *ASK, env=env, umask=mask, check=0)
        assert str(good[0]).encode() in r.stdout
    for p in cache.rglob("*"):
        assert p.stat().st_mode & 0o777 == (0o700 if p.is_dir() else 0o600), p
    assert len(list(cache.glob("weft/imports/*"))) == 1


@pytest.mark.parametrize("name", [b"n" * 255, b"two\nlines", b"a\nfile 1 2 model.onnx", b"bytes \xff\xfe", b" blanks ", b"quo'\"te\\",
                                  "modèles 数据".encode()])
def test_a_name_that_a_file_system_allows_is_fine(weft, toy, tmp_path, name):
    good = weft.json("run", toy, *ASK)["output_ids"]
    out, named, env = os.path.join(os.fsencode(tmp_path), name), os.path.join(os.fsencode(tmp_path), name[:250] + b".g"), \
        {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    weft("import", toy, "-o", out, check=0)
    assert weft.json("run", out, *ASK)["output_ids"] == good
    os.rename(toy, named)
    for _ in range(2):
        assert weft.json("run", named, *ASK, env=env)["output_ids"] == good
    assert len(list((tmp_path / "cache" / "weft" / "imports").iterdir())) == 1  # the second found the first one's
    made = os.path.join(os.fsencode(tmp_path), b"x", name)
    weft("logits", out, "--ids", "1", "--output", os.path.join(os.fsencode(tmp_path), b"l" * 251 + b".npy"), check=0)
    os.makedirs(made)
    weft("exec", os.path.join(out, b"model.onnx"), "--input", "input_ids=1", "--output-dir", made, check=None)


def half_made(folder):
    return [p for p in folder.iterdir() if p.name.startswith(".weft.partial-")]


def wait_until_half_made(folder, process):
    for _ in range(2000):
        if half_made(folder):
            return True
        if process.poll() is not None:
            return False
        time.sleep(0.002)
    raise AssertionError("nothing was begun")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_ended_import_clears_away_and_ends_as_the_signal_says(weft, gguf, tmp_path, how):
    for _ in range(5):
        p = subprocess.Popen([weft.program, "import", gguf, "-o", tmp_path / "out"], stderr=subprocess.PIPE, env=weft.env())
        begun = wait_until_half_made(tmp_path, p)
        p.send_signal(how)
        _, err = p.communicate(timeout=60)
        shutil.rmtree(tmp_path / "out", ignore_errors=True)  # it was done before the signal came
        assert not half_made(tmp_path)
        assert p.returncode in (0, 130 if how == signal.SIGINT else -how), err
        if begun and p.returncode:
            return
    pytest.fail("no import was caught in the middle")


def test_what_a_killed_import_leaves_is_swept_by_the_next_and_a_living_one_s_is_not(weft, gguf, tmp_path):
    for _ in range(20):
        p = subprocess.Popen([weft.program, "import", gguf, "-o", tmp_path / "out"], env=weft.env())
        if wait_until_half_made(tmp_path, p):
            p.kill()
            p.wait(60)
            if half_made(tmp_path):
                break
        p.wait(60)
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
    left = half_made(tmp_path)
    assert left and not (tmp_path / "out").exists()
    alive = tmp_path / ".weft.partial-0123456789abcdef"  # as a writer on another core has it
    alive.mkdir()
    (alive / "model.onnx").write_bytes(b"begun")
    lock = os.open(alive, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    weft("import", gguf, "-o", tmp_path / "out", check=0)
    assert half_made(tmp_path) == [alive] and (alive / "model.onnx").exists()
    os.close(lock)
    weft("import", gguf, "-o", tmp_path / "out2", check=0)
    assert not half_made(tmp_path)


def test_clearing_the_cache_leaves_what_somebody_is_writing(weft, toy, tmp_path):
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    weft("run", toy, *ASK, env=env, check=0)
    imports, packed = tmp_path / "weft" / "imports", tmp_path / "weft" / "packed"
    held = []
    for folder in (imports, packed):
        for name, is_held in ((".weft.partial-0000000000000001", True), (".weft.partial-0000000000000002", False)):
            p = folder / name
            p.mkdir() if folder == imports else p.write_bytes(b"begun")
            if is_held:
                held.append(os.open(p, os.O_RDONLY))
                fcntl.flock(held[-1], fcntl.LOCK_EX)
    weft("cache", "clear", env=env, check=0)
    assert [p.name[-1] for p in [*imports.iterdir(), *packed.iterdir()]] == ["1", "1"]
    for lock in held:
        os.close(lock)
    weft("cache", "clear", env=env, check=0)
    assert not [p for f in (imports, packed) if f.exists() for p in f.iterdir()]


def test_a_full_disk_is_told_and_leaves_nothing(weft, toy, tmp_path):
    """A limit on the size of files stands for a full disk: the write fails in the middle."""
    r = subprocess.run(["prlimit", "--fsize=20000", weft.program, "import", toy, "-o", tmp_path / "out"], capture_output=True, env=weft.env())
    assert r.returncode == 8 and b"fix:" in r.stderr, r.stderr
    assert not (tmp_path / "out").exists() and not half_made(tmp_path)
    good = weft.json("run", toy, *ASK)["output_ids"]
    env = weft.env(XDG_CACHE_HOME=str(tmp_path / "cache"), TMPDIR=str(tmp_path))
    r = subprocess.run(["prlimit", "--fsize=20000", weft.program, "run", toy, *ASK], capture_output=True, env=env)
    assert r.returncode == 8 or str(good[0]).encode() in r.stdout, r.stderr
    assert not [p for p in tmp_path.rglob(".weft*")]
