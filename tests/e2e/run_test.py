# SPDX-License-Identifier: Apache-2.0
"""weft run with the demo model: what it answers, what --json holds, how it ends."""
import json
import os
import signal
import subprocess
import time

import pytest

GREEDY = ("--greedy", "--max-tokens", "24")


def test_an_answer_streams_to_stdout_alone(weft, package):
    r = weft("run", package, "-p", "What is a loom?", *GREEDY, check=0)
    text = r.stdout.decode()
    assert len(text.strip()) > 20
    assert "<|im_end|>" not in text


def test_json_holds_what_the_page_says(weft, package):
    o = weft.json("run", package, "-p", "What is a loom?", *GREEDY, "--json", "--logprobs", "2")
    assert o["finish_reason"] in ("stop", "length")
    assert o["usage"]["prompt_tokens"] == len(o["prompt_ids"])
    assert o["usage"]["completion_tokens"] == len(o["output_ids"]) == 24
    assert {"load_ms", "prefill_ms", "decode_ms", "prefill_tokens_per_second", "decode_tokens_per_second"} <= set(o["timings"])
    assert len(o["logprobs"]) == 24
    for entry, token in zip(o["logprobs"], o["output_ids"]):
        assert entry["id"] == token and entry["logprob"] <= 0 and len(entry["top_logprobs"]) == 2
        assert entry["top_logprobs"][0]["id"] == token  # greedy took the likeliest
    joined = b"".join(bytes(e["bytes"]) for e in o["logprobs"])
    assert joined.decode(errors="ignore").startswith(o["text"])


def test_text_with_and_without_json_is_the_same(weft, package):
    plain = weft("run", package, "-p", "Name three rivers.", *GREEDY, check=0).stdout.decode()
    assert plain.removesuffix("\n") == weft.json("run", package, "-p", "Name three rivers.", *GREEDY, "--json")["text"].removesuffix("\n")


def test_a_gguf_file_and_its_package_answer_alike(weft, gguf, package):
    a = weft.json("run", gguf, "-p", "Name three rivers.", *GREEDY, "--json")
    b = weft.json("run", package, "-p", "Name three rivers.", *GREEDY, "--json")
    assert a["output_ids"] == b["output_ids"]


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_thread_count_changes_no_token_and_no_logprob(weft, package, threads):
    argv = ("run", package, "-p", "Count to ten.", *GREEDY, "--json", "--logprobs", "1", "--threads")
    assert weft.json(*argv, threads)["logprobs"] == weft.json(*argv, "1")["logprobs"]


def test_typed_text_beyond_ascii_reaches_the_model_without_an_environment(weft, package):
    r = subprocess.run(["env", "-i", weft.program, "run", str(package), "-p", "é数", "--json", *GREEDY], capture_output=True)
    assert r.returncode == 0, r.stderr
    ids = json.loads(r.stdout)["prompt_ids"]
    assert "é数" in weft("detokenize", package, ",".join(map(str, ids)), check=0).stdout.decode()


def test_an_end_token_typed_by_a_user_stays_text(weft, package):
    ids = weft.json("run", package, "-p", "a<|im_end|>b", "--max-tokens", "0", "--json")["prompt_ids"]
    plain = weft.json("run", package, "-p", "ab", "--max-tokens", "0", "--json")["prompt_ids"]
    end = weft.json("tokenize", package, "<|im_end|>", "--json", "--no-special")
    assert len(end) == 1
    assert ids.count(end[0]) == plain.count(end[0])


def test_no_tokens_asked_for_gives_an_empty_answer(weft, package):
    o = weft.json("run", package, "-p", "hi", "--max-tokens", "0", "--json")
    assert (o["text"], o["output_ids"], o["finish_reason"]) == ("", [], "length")


def test_a_stop_text_ends_the_answer_and_is_left_out(weft, package):
    full = weft.json("run", package, "-p", "Name three rivers.", *GREEDY, "--json")["text"]
    stop = full[len(full) // 2: len(full) // 2 + 3]
    o = weft.json("run", package, "-p", "Name three rivers.", *GREEDY, "--json", "--stop", stop)
    assert o["finish_reason"] == "stop"
    assert o["text"] == full[: full.index(stop)]


def test_the_same_seed_gives_the_same_text_and_no_seed_does_not(weft, package):
    def ids(*more):
        return weft.json("run", package, "-p", "Tell me a story.", "--temperature", "1.2", "--max-tokens", "16", "--json",
                         *more)["output_ids"]

    assert ids("--seed", "7") == ids("--seed", "7")
    assert ids("--seed", "7") != ids("--seed", "8")
    assert ids() != ids()


def test_ids_are_taken_as_they_are(weft, package):
    o = weft.json("run", package, "--ids", "504,3575,282,4649,314", "--max-tokens", "8", "--json")
    assert o["prompt_ids"] == [504, 3575, 282, 4649, 314]
    assert o["output_ids"] == weft.json("run", package, "--ids", "504,3575,282,4649,314", "--max-tokens", "8", "--json")["output_ids"]


@pytest.mark.parametrize("ids", ["49152", "99999999", "-60000"])
def test_an_id_outside_the_vocabulary_is_refused_by_name(weft, package, ids):
    r = weft("run", package, "--ids=" + ids, "--max-tokens", "1")
    assert 2 <= r.returncode <= 120
    assert ids.encode() in r.stderr


def test_a_prompt_longer_than_the_context_is_refused_with_both_counts(weft, package):
    r = weft("run", package, "--ids", ",".join(["5"] * 40), "--context", "32", "--max-tokens", "1")
    assert 3 <= r.returncode <= 120
    assert b"40" in r.stderr and b"32" in r.stderr


def test_messages_and_a_prompt_mean_the_same(weft, package, tmp_path):
    f = tmp_path / "m.json"
    f.write_text(json.dumps([{"role": "user", "content": "hi"}]))
    a = weft.json("run", package, "--messages", f, "--max-tokens", "0", "--json")
    b = weft.json("run", package, "-p", "hi", "--max-tokens", "0", "--json")
    assert a["prompt_ids"] == b["prompt_ids"]


def test_a_prompt_file_keeps_its_final_newline(weft, package, tmp_path):
    f = tmp_path / "p.txt"
    f.write_bytes(b"hi\n")
    a = weft.json("run", package, "--raw", "-f", f, "--max-tokens", "0", "--json")["prompt_ids"]
    b = weft.json("run", package, "--raw", "-f", "-", "--max-tokens", "0", "--json", stdin=b"hi\n")["prompt_ids"]
    c = weft.json("run", package, "--raw", "-p", "hi", "--max-tokens", "0", "--json")["prompt_ids"]
    assert a == b != c


def test_piped_input_is_one_turn_a_line(weft, package):
    r = weft("run", package, *GREEDY, stdin=b"hi\nand again\n", check=0)
    assert len(r.stdout.decode().strip().split("\n")) >= 2


def test_an_interrupt_prints_what_there_is_and_exits_with_130(weft, package):
    p = subprocess.Popen([weft.program, "run", str(package), "-p", "Write a very long story.", "--ignore-eos",
                          "--max-tokens", "4000", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=weft.env())
    time.sleep(1.5)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=20)
    assert p.returncode == 130, err
    assert json.loads(out)["finish_reason"] == "cancelled"


@pytest.mark.parametrize("delay", [0.05, 0.4, 1.5, 3])
def test_an_interrupt_before_the_first_token_prints_the_object_too(weft, package, tmp_path, delay):
    long = tmp_path / "long.txt"
    long.write_text("".join(f"{i * 7919 % 9973} stones; " for i in range(900)))
    p = subprocess.Popen([weft.program, "run", str(package), "--raw", "-f", str(long), "--json", "--logprobs", "0", "--ignore-eos",
                          "--precision", "exact", "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=weft.env())
    time.sleep(delay)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=30)
    assert p.returncode == 130, err
    if out or delay > 1:  # an interrupt before main is the shell's affair
        o = json.loads(out)
        assert o["finish_reason"] == "cancelled"
        assert o["usage"]["prompt_tokens"] == len(o["prompt_ids"])
        assert o["usage"]["completion_tokens"] == len(o["output_ids"])


def test_a_file_of_messages_that_is_no_json_is_named_with_the_place(weft, package, tmp_path):
    f = tmp_path / "m é.json"
    f.write_text('[{"role": "user",\n "content": }]')
    r = weft("run", package, "--messages", f, "--max-tokens", "1")
    assert 3 <= r.returncode <= 120
    assert "m é.json" in r.stderr.decode() and b"line 2" in r.stderr


def test_a_file_cut_short_is_a_typed_error(weft, gguf, tmp_path):
    cut = tmp_path / "cut.gguf"
    with open(gguf, "rb") as f:
        cut.write_bytes(f.read(3_000_000))
    r = weft("run", cut, "-p", "hi")
    assert 3 <= r.returncode <= 120 and b"cut.gguf" in r.stderr
    assert os.listdir(tmp_path) == ["cut.gguf"]


def test_a_git_lfs_stub_is_recognised_and_named(weft, tmp_path):
    stub = tmp_path / "model.gguf"
    stub.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 98362432\n")
    r = weft("run", stub, "-p", "hi")
    assert 3 <= r.returncode <= 120 and b"LFS" in r.stderr
