# SPDX-License-Identifier: Apache-2.0
"""What docs/cli.md says of every command: help, usage errors, exit codes, streams."""
import os
import re
import subprocess

import pytest

COMMANDS = ["run", "import", "inspect", "tokenize", "detokenize", "template", "exec", "logits", "bench", "cache"]
MODEL_COMMANDS = {"run": ["-p", "hi"], "logits": ["--ids", "1", "--output", "/dev/null"], "bench": []}


def test_version_is_that_of_the_header(weft):
    header = open(os.path.join(os.path.dirname(__file__), "../../include/weft/weft.h"), encoding="utf-8").read()
    version = ".".join(re.search(rf"WEFT_VERSION_{p} (\d+)", header).group(1) for p in ("MAJOR", "MINOR", "PATCH"))
    assert version in weft("--version", check=0).stdout.decode()


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_on_stdout(weft, command):
    r = weft(command, "--help", check=0)
    assert f"weft {command}" in r.stdout.decode()
    assert r.stderr == b""


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_option_is_a_usage_error_that_names_it(weft, command):
    r = weft(command, "--no-such-option", check=2)
    assert b"--no-such-option" in r.stderr
    assert r.stdout == b""


def test_no_command_and_an_unknown_one_are_usage_errors(weft):
    weft(check=2)
    assert b"frobnicate" in weft("frobnicate", check=2).stderr


@pytest.mark.parametrize("option,value", [
    ("--temperature", "nan"), ("--temperature", "-1"), ("--temperature", "warm"), ("--temperature", "1x"),
    ("--top-k", "-3"), ("--top-k", "2.5"), ("--top-p", "1.5"), ("--top-p", "-0.1"), ("--min-p", "2"), ("--min-p", "inf"),
    ("--max-tokens", "-1"), ("--max-tokens", "many"), ("--seed", "x"), ("--threads", "-2"), ("--threads", "0x"),
    ("--kv", "f64"), ("--precision", "rough"), ("--backend", "gpu"), ("--logit-bias", "5"), ("--logit-bias", "5=nan"),
    ("--logprobs", "-1"), ("--context", "0"), ("--context", "-5"), ("--repetition-penalty", "nan"), ("--log", "loud"),
])
def test_a_bad_value_is_a_usage_error_that_names_the_option(weft, package, option, value):
    r = weft("run", package, "-p", "hi", "--max-tokens", "1", option, value, check=2)
    assert option.encode() in r.stderr
    assert r.stdout == b""


@pytest.mark.parametrize("command", sorted(MODEL_COMMANDS))
def test_a_missing_package_is_a_typed_error_that_names_it(weft, tmp_path, command):
    missing = tmp_path / "nicht da é数"
    r = weft(command, missing, *MODEL_COMMANDS[command])
    assert 3 <= r.returncode <= 120
    assert "nicht da é数" in r.stderr.decode()
    assert r.stdout == b""


def test_options_stand_before_or_after_arguments(weft, package):
    a = weft("tokenize", package, "hello world", "--json", check=0).stdout
    b = weft("tokenize", "--json", package, "hello world", check=0).stdout
    assert a == b and a.strip().startswith(b"[")


def test_two_dashes_end_the_options(weft, package):
    ids = weft.json("tokenize", "--json", package, "--", "--json")
    assert weft("detokenize", package, ",".join(map(str, ids)), check=0).stdout.rstrip(b"\n") == b"--json"


def test_a_full_stdout_is_a_failure(weft, package):
    with open("/dev/full", "wb") as full:
        r = subprocess.run([weft.program, "tokenize", package, "hello"], stdout=full, stderr=subprocess.PIPE, env=weft.env())
        assert r.returncode not in (0, -6, -11)
        r = subprocess.run([weft.program, "run", package, "-p", "hi", "--greedy", "--max-tokens", "8"], stdout=full,
                           stderr=subprocess.PIPE, env=weft.env())
        assert r.returncode not in (0, -6, -11)


def test_a_closed_stdout_is_a_failure(weft, package):
    r = subprocess.run(["sh", "-c", '"$0" "$@" >&-', weft.program, "tokenize", str(package), "hello"], capture_output=True,
                       env=weft.env())
    assert r.returncode not in (0, 134, 139)


def test_a_reader_that_goes_away_ends_the_answer_at_once(weft, package):
    p = subprocess.Popen([weft.program, "run", str(package), "-p", "Write a very long story.", "--ignore-eos", "--max-tokens", "8000"],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=weft.env())
    assert p.stdout.read(10)
    p.stdout.close()
    code = p.wait(timeout=20)  # all 8000 tokens take minutes
    assert 3 <= code <= 120 and b"stdout" in p.stderr.read()
    p.stderr.close()


@pytest.mark.parametrize("how", ["2>&-", "2>/dev/full"])
def test_a_lost_stderr_alone_changes_nothing(weft, package, how):
    argv = ["run", str(package), "-p", "hi", "--greedy", "--max-tokens", "8"]
    want = weft(*argv, check=0).stdout
    r = subprocess.run(["sh", "-c", f'"$0" "$@" {how}', weft.program, *argv], stdout=subprocess.PIPE, env=weft.env())
    assert r.returncode == 0 and r.stdout == want


def test_a_cache_that_cannot_be_written_never_fails_a_run(weft, package, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    argv = ("run", package, "-p", "hi", "--greedy", "--max-tokens", "4")
    want = weft(*argv, check=0).stdout
    assert weft(*argv, env={"XDG_CACHE_HOME": str(blocked)}, check=0).stdout == want
    r = subprocess.run([weft.program, *map(str, argv)], capture_output=True, env={})
    assert (r.returncode, r.stdout) == (0, want)


def test_nothing_is_written_into_the_package_or_the_working_folder(weft, package, tmp_path):
    def listing(folder):
        return sorted((str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in folder.rglob("*"))

    before = listing(package)
    weft("run", package, "-p", "hi", "--greedy", "--max-tokens", "2", check=0, cwd=tmp_path)
    assert listing(package) == before
    assert listing(tmp_path) == []


def test_an_impossible_cpu_level_is_an_error_that_names_it(weft, package):
    r = weft("run", package, "-p", "hi", env={"WEFT_CPU": "abacus"})
    assert 3 <= r.returncode <= 120 and b"abacus" in r.stderr
