# SPDX-License-Identifier: Apache-2.0
"""How a package may be given, where its files may lie, and what is cached."""
import os
import shutil
import signal
import subprocess
import time

import pytest

from chain_model import A, END, ONE, Chain, onnx

RUN = ("--ids", str(A), "--json")


@pytest.fixture
def package(tmp_path):
    """A chain whose weights lie in a file of their own."""
    folder = Chain(tmp_path / "chain").follow(A, ONE, END).write()
    model = onnx.load(folder / "onnx" / "model.onnx")
    onnx.save(model, folder / "onnx" / "model.onnx", save_as_external_data=True, location="model.onnx_data", size_threshold=0)
    return folder


def answers(weft, package, *options):
    return weft.json("run", package, *RUN, *options)["output_ids"] == [ONE, END]


def link_into_blobs(package, hub):
    """The package as the Hugging Face hub keeps it: a snapshot of links to blobs."""
    blobs, snapshot = hub / "blobs", hub / "snapshots" / "0123abcd"
    blobs.mkdir(parents=True)
    for i, path in enumerate(sorted(p for p in package.rglob("*") if p.is_file())):
        shutil.copy(path, blobs / f"blob{i}")
        link = snapshot / path.relative_to(package)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(blobs / f"blob{i}", link.parent))
    return snapshot


def test_a_package_is_named_by_its_folder_or_its_document(weft, package):
    assert answers(weft, package)
    assert answers(weft, f"{package}/")
    assert answers(weft, package / "config.json")


def test_a_relative_path_and_one_that_is_not_utf_8_name_a_package(weft, package):
    assert weft("run", package.name, *RUN, cwd=package.parent, check=0)
    odd = os.path.join(os.fsencode(package.parent), b"b\xffd \xe6\x95\xb0")
    shutil.copytree(os.fsencode(package), odd)
    r = weft("run", odd, *RUN, check=0)
    assert b'"finish_reason": "stop"' in r.stdout


def test_the_links_of_a_hub_cache_are_followed(weft, package, tmp_path):
    snapshot = link_into_blobs(package, tmp_path / "models--some--model")
    assert answers(weft, snapshot)
    alias = tmp_path / "alias"
    alias.symlink_to(snapshot)
    assert answers(weft, alias)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "onnx/model.onnx", "onnx/model.onnx_data"])
def test_a_link_that_leads_elsewhere_is_refused_unless_it_is_trusted(weft, package, tmp_path, name):
    outside = tmp_path / "elsewhere.bin"
    shutil.move(package / name, outside)
    (package / name).symlink_to(outside)
    r = weft("run", package, *RUN)
    assert 3 <= r.returncode <= 120 and b"--trust-links" in r.stderr and name.split("/")[-1].encode() in r.stderr
    assert answers(weft, package, "--trust-links")


def test_a_hub_link_into_another_repository_is_refused(weft, package, tmp_path):
    snapshot = link_into_blobs(package, tmp_path / "models--some--model")
    other = tmp_path / "models--other--model" / "blobs"
    other.mkdir(parents=True)
    shutil.copy(package / "config.json", other / "blob")
    (snapshot / "config.json").unlink()
    (snapshot / "config.json").symlink_to(other / "blob")
    r = weft("run", snapshot, *RUN)
    assert 3 <= r.returncode <= 120 and b"--trust-links" in r.stderr


def test_cache_files_are_private_listed_and_cleared(weft, gguf, tmp_path):
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert weft("cache", "list", env=env, check=0).stdout == b""
    weft("run", gguf, "-p", "hi", "--max-tokens", "1", env=env, check=0)
    files = [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    assert files and all(p.stat().st_mode & 0o777 == 0o600 for p in files), [(p, oct(p.stat().st_mode)) for p in files]
    assert len(weft("cache", "list", env=env, check=0).stdout.splitlines()) >= 1
    weft("cache", "clear", env=env, check=0)
    assert weft("cache", "list", env=env, check=0).stdout == b""
    assert not [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    weft("cache", env=env, check=2)
    weft("cache", "burn", env=env, check=2)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else")
def test_a_cache_of_somebody_else_and_no_home_are_fine(weft, tmp_path):
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    folder = tmp_path / "run"
    folder.mkdir(mode=0o755)
    package = Chain(folder / "chain").follow(A, ONE, END).write()
    shutil.copy(weft.program, folder / "weft")
    for parent in (folder, *folder.parents):
        if parent.stat().st_mode & 0o005 != 0o005 and parent != parent.parent:
            parent.chmod(parent.stat().st_mode | 0o005)
    (folder / "home").mkdir(mode=0o700)
    for env in ({}, {"HOME": str(folder / "home")}, {"XDG_CACHE_HOME": str(folder / "home")}):
        r = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", folder / "weft", "run", package, *RUN],
                           capture_output=True, env=env)
        assert r.returncode == 0, r.stderr


def test_what_does_not_fit_into_memory_is_refused_with_numbers(weft, package):
    """A sparse file of weights as large as no machine's memory."""
    model = onnx.load(package / "onnx" / "model.onnx", load_external_data=False)
    huge = 1 << 42
    t = model.graph.initializer[0]
    big = model.graph.initializer.add()
    big.CopyFrom(t)
    big.name = "unused_but_huge"
    del big.dims[:]
    big.dims.extend([huge // 4])
    for e in big.external_data:
        if e.key == "length":
            e.value = str(huge)
        if e.key == "offset":
            e.value = "0"
    (package / "onnx" / "model.onnx").write_bytes(model.SerializeToString())
    os.truncate(package / "onnx" / "model.onnx_data", huge)
    r = weft("run", package, *RUN)
    assert 3 <= r.returncode <= 120 and r.stderr.count(b"MiB") >= 2, r.stderr


@pytest.mark.parametrize("name", ["model.gguf", "0123456789abcdef"])
@pytest.mark.parametrize("delay", [0.1, 0.3, 0.6])
def test_an_interrupted_import_leaves_nothing_half_made(weft, gguf, tmp_path, delay, name):
    """Whatever the file is called: a hub's blobs have no suffix."""
    cache, source = tmp_path / "cache", tmp_path / name
    source.symlink_to(gguf)
    for argv in (["import", source, "-o", str(tmp_path / "made")], ["run", source, "-p", "hi", "--max-tokens", "1"]):
        p = subprocess.Popen([weft.program, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=weft.env(XDG_CACHE_HOME=str(cache)))
        time.sleep(delay)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=60)
        assert p.returncode in (0, 130, -2), err  # -2: before main had begun
    assert not [q for q in tmp_path.rglob("*") if ".weft" in q.name]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_killed_run_leaves_is_never_used_and_is_cleared(weft, gguf, tmp_path, how):
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    ask = ["run", gguf, "--ids", "1,2,3", "--max-tokens", "4", "--greedy", "--json"]
    good = weft.json(*ask)["output_ids"]
    for i in range(5):
        p = subprocess.Popen([weft.program, *ask], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=weft.env(**env))
        time.sleep(0.08 * (i + 1))
        p.send_signal(how)
        p.wait(60)
        if i % 2:  # on what the killed one left
            assert weft.json(*ask, env=env)["output_ids"] == good
            weft("cache", "clear", env=env, check=0)
    weft("cache", "clear", env=env, check=0)
    assert not [q for q in (tmp_path / "cache").rglob("*") if not q.is_dir()]
