# SPDX-License-Identifier: Apache-2.0
"""What docs/cli.md says of every command: help, usage errors, exit codes, streams."""
import os
import re
import subprocess

import pytest

COMMANDS = ["run", "import", "inspect", "tokenize", "detokenize", "template", "exec", "logits", "bench", "cache",
            "providers", "validate"]
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
    assert weft("help", command, check=0).stdout == r.stdout


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
    ("--logit-bias", "5=1e39"), ("--logit-bias", "x=1"), ("--logit-bias", "-1=1"), ("--stop", ""), ("--seed", "-1"),
    ("--seed", "18446744073709551616"), ("--typical-p", "1.1"), ("--presence-penalty", "much"), ("--frequency-penalty", "inf"),
    ("--lookup", "65"), ("--lookup", "-1"), ("--chunk", "0"), ("--ids", "1,x"),
])
def test_a_bad_value_is_a_usage_error_that_names_the_option(weft, package, option, value):
    prompt = [] if option == "--ids" else ["-p", "hi"]
    r = weft("run", package, *prompt, "--max-tokens", "1", option, value, check=2)
    assert option.encode() in r.stderr
    assert r.stdout == b""


@pytest.mark.parametrize("command,option,value", [
    ("bench", "-p", "-1"), ("bench", "-n", "1,,2"), ("bench", "-d", "x"), ("bench", "-t", "0"), ("bench", "-t", "1025"), ("bench", "-p", ""),
    ("logits", "--ids", "1;2"), ("logits", "--ids", ""), ("exec", "--input", "x"), ("exec", "--kv", "f8"), ("inspect", "--threads", "0"),
    ("template", "--now", "noon"), ("providers", "--json=yes", None), ("tokenize", "--offsets=1", None), ("import", "-o", None),
])
def test_a_bad_value_of_any_command_is_told_before_a_model_is_looked_for(weft, tmp_path, command, option, value):
    missing = tmp_path / "missing"
    more = {"logits": ["--output", "/dev/null"], "exec": ["--output-dir", tmp_path], "template": [missing], "providers": []}
    argv = [*([missing] if command != "providers" else []), *more.get(command, []), option, *([value] if value is not None else [])]
    r = weft(command, *argv, check=2)
    assert option.split("=")[0] in r.stderr.decode() or option == "-o" and "--output" in r.stderr.decode()
    assert r.stdout == b""


def test_a_usage_error_names_what_is_missing_or_too_much(weft, package):
    for argv, named in ((["run"], b"package"), (["run", package, package, "-p", "x"], b"package"),
                        (["run", package, "-p", "a", "-f", "b"], b"--messages"), (["run", package, "--json"], b"--json"),
                        (["run", package, "--ids", "1", "--system", "x"], b"--system"), (["import", package], b"-o"),
                        (["inspect", package, "--json", "--dot"], b"--dot"), (["exec", package], b"--output-dir"),
                        (["logits", package], b"--ids"), (["cache"], b"list"), (["cache", "shrink"], b"list"),
                        (["detokenize", package], b"ids"), (["template", package], b"--template"), (["providers", "x"], b"argument")):
        r = weft(*argv, check=2)
        assert named in r.stderr and r.stdout == b"", argv


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
