# SPDX-License-Identifier: Apache-2.0
"""The command line over a chain model: stops, ends, logprobs, penalties, seeds, masks, limits."""
import json
import math

import pytest

from chain_model import A, B, C, END, END2, FIVE, FOUR, ONE, THREE, TWO, Chain, np


@pytest.fixture
def chain(tmp_path):
    return Chain(tmp_path / "modèle 数据")


def ids(*values):
    return "--ids=" + ",".join(map(str, values))


def test_a_stop_text_over_several_tokens_leaks_nothing(weft, chain):
    p = chain.follow(A, ONE, TWO, THREE, FOUR, FIVE, END).write()
    stopped = weft.json("run", p, ids(A), "--json", "--stop", "three fo")
    assert (stopped["text"], stopped["finish_reason"]) == ("one two ", "stop")
    assert weft("run", p, ids(A), "--stop", "three fo", check=0).stdout.removesuffix(b"\n") == b"one two "
    near = weft.json("run", p, ids(A), "--json", "--stop", "three x")
    assert near["text"] == "one two three four five"
    assert near["output_ids"] == [ONE, TWO, THREE, FOUR, FIVE, END]
    assert weft("run", p, ids(A), "--stop", "three x", check=0).stdout.removesuffix(b"\n") == near["text"].encode()


def test_what_a_stop_holds_back_is_given_when_the_tokens_run_out(weft, chain):
    p = chain.follow(A, ONE, TWO, THREE, FOUR).write()
    o = weft.json("run", p, ids(A), "--json", "--stop", "three four six", "--max-tokens", "4")
    assert (o["text"], o["finish_reason"]) == ("one two three four ", "length")


def test_each_end_id_of_the_package_ends_an_answer(weft, chain):
    p = chain.follow(A, ONE, END2).write(eos=(END, END2))
    o = weft.json("run", p, ids(A), "--json", "--stop", "zzz")
    assert (o["text"], o["output_ids"], o["finish_reason"]) == ("one ", [ONE, END2], "stop")
    assert o["usage"] == {"prompt_tokens": 1, "completion_tokens": 2, "cached_tokens": 0}


def test_ignored_end_ids_are_never_chosen(weft, chain):
    chain.follow(A, END)
    chain.table[A, B] += 10
    o = weft.json("run", chain.write(eos=(END, END2)), ids(A), "--json", "--ignore-eos", "--max-tokens", "1")
    assert o["output_ids"] == [B]


@pytest.mark.parametrize("bad", ["nan", "inf", "all -inf"])
def test_logits_that_are_no_numbers_end_in_an_error_that_keeps_the_good_tokens(weft, chain, bad):
    chain.follow(A, ONE, TWO)
    if bad == "all -inf":
        chain.table[TWO, :] = -np.inf
    else:
        chain.table[TWO, 5] = float(bad)
    p = chain.write()
    r = weft("run", p, ids(A), "--json")
    assert 3 <= r.returncode <= 120
    o = json.loads(r.stdout)
    assert (o["finish_reason"], o["output_ids"], o["text"]) == ("error", [ONE, TWO], "one two ")
    plain = weft("run", p, ids(A))
    assert plain.returncode == r.returncode and plain.stdout.removesuffix(b"\n") == b"one two " and plain.stderr


def test_single_minus_infinities_are_a_mask_and_their_logprobs_are_json(weft, chain):
    chain.follow(A, B)
    chain.table[A, :] = -np.inf
    chain.table[A, B] = 0
    o = weft.json("run", chain.write(), ids(A), "--json", "--max-tokens", "1", "--logprobs", "3", "--temperature", "1")
    assert o["output_ids"] == [B]
    entry = o["logprobs"][0]
    assert entry["logprob"] == 0 and len(entry["top_logprobs"]) == 3
    assert all(math.isfinite(e["logprob"]) for e in entry["top_logprobs"])
    assert entry["top_logprobs"][1]["logprob"] < -1e30


@pytest.mark.parametrize("sampling", [["--greedy"], ["--temperature", "0.2"], ["--temperature", "1"], ["--temperature", "1.7"],
                                      ["--top-p", "0.3"]])
def test_logprobs_are_those_of_the_raw_distribution(weft, chain, sampling):
    p = chain.follow(A, B, by=40).write()
    o = weft.json("run", p, ids(A), "--json", "--max-tokens", "1", "--logprobs", "2", "--seed", "1", *sampling)
    row = chain.table[A].astype(np.float64)
    want = row - (row.max() + math.log(np.exp(row - row.max()).sum()))
    assert o["logprobs"][0]["id"] == B and o["logprobs"][0]["bytes"] == [B]
    assert abs(o["logprobs"][0]["logprob"] - want[B]) < 1e-5
    second = o["logprobs"][0]["top_logprobs"][1]
    assert abs(second["logprob"] - want[second["id"]]) < 1e-4


def test_no_alternatives_are_asked_for_by_logprobs_0(weft, chain):
    o = weft.json("run", chain.follow(A, B).write(), ids(A), "--json", "--max-tokens", "1", "--logprobs", "0")
    assert [set(e) for e in o["logprobs"]] == [{"id", "token", "bytes", "logprob", "top_logprobs"}]
    assert o["logprobs"][0]["top_logprobs"] == []
    assert "logprobs" not in weft.json("run", chain.folder, ids(A), "--json", "--max-tokens", "1")


def test_presence_and_frequency_count_generated_tokens_and_repetition_the_prompt_too(weft, chain):
    chain.table[A, A], chain.table[A, B] = 6, 5
    p = chain.write()

    def first(*options):
        return weft.json("run", p, ids(*[A] * 30), "--json", "--greedy", "--max-tokens", "2", *options)["output_ids"]

    assert first() == [A, A]
    assert first("--presence-penalty", "2") == [A, B]
    assert first("--frequency-penalty", "2") == [A, B]
    assert first("--repetition-penalty", "1.5")[0] == B


def test_a_logit_bias_moves_its_token_alone(weft, chain):
    p = chain.follow(A, B).write()
    o = weft.json("run", p, ids(A), "--json", "--max-tokens", "1", "--logit-bias", f"{C}=100", "--logprobs", "0")
    assert o["output_ids"] == [C]
    assert o["logprobs"][0]["logprob"] < -15  # of the raw distribution
    r = weft("run", p, ids(A), "--logit-bias", "99999=1")
    assert r.returncode != 0 and b"99999" in r.stderr


def test_seeds_repeat_and_no_seed_does_not(weft, chain):
    p = chain.write()  # every token alike

    def answer(*options):
        return tuple(weft.json("run", p, ids(A), "--json", "--max-tokens", "12", "--ignore-eos", *options)["output_ids"])

    assert len({answer("--temperature", "0.7") for _ in range(5)}) == 5
    seeded = [answer("--temperature", "1.0", "--seed", str(s)) for s in range(1, 6)]
    assert len(set(seeded)) == 5
    assert seeded == [answer("--temperature", "1.0", "--seed", str(s)) for s in range(1, 6)]


@pytest.mark.parametrize("options", [["--greedy", "--temperature", "2"], ["--temperature", "0"], ["--temp", "0"], ["--top-p", "0"],
                                     ["--top-k", "1"], []])
def test_ways_to_say_greedy(weft, chain, options):
    chain.table[A, B] = 0.01
    p = chain.write()
    assert {weft.json("run", p, ids(A), "--json", "--max-tokens", "1", *options)["output_ids"][0] for _ in range(4)} == {B}


def test_the_package_s_defaults_hold_until_an_option_says_otherwise(weft, chain):
    chain.table[A, B] = 0.5
    p = chain.write(do_sample=True, temperature=1.0, top_k=1)
    assert {weft.json("run", p, ids(A), "--json", "--max-tokens", "1")["output_ids"][0] for _ in range(4)} == {B}
    many = {weft.json("run", p, ids(A), "--json", "--max-tokens", "1", "--top-k", "0")["output_ids"][0] for _ in range(6)}
    assert len(many) > 1


def test_text_is_cut_between_characters_and_ill_formed_bytes_are_replaced(weft, chain):
    e, acute = "é".encode()
    p = chain.follow(A, e, acute, B, END).write()
    assert weft.json("run", p, ids(A), "--json")["text"] == "éB"
    cut = weft.json("run", p, ids(A), "--json", "--max-tokens", "1")
    assert (cut["text"], cut["output_ids"]) == ("", [e])
    chain.table[:] = 0
    p = chain.follow(A, 0xE6, 0x95, B, 0xFF, C, END).write()
    want = bytes([0xE6, 0x95, B, 0xFF, C]).decode(errors="replace")
    assert weft.json("run", p, ids(A), "--json")["text"] == want
    assert weft("run", p, ids(A), check=0).stdout.decode().removesuffix("\n") == want


def test_a_prompt_that_fills_the_context_still_yields_one_token(weft, chain):
    p = chain.follow(A, A).write(context=8)
    o = weft.json("run", p, ids(*[A] * 8), "--json")
    assert (o["output_ids"], o["finish_reason"]) == ([A], "length")
    r = weft("run", p, ids(*[A] * 9), "--json")
    assert 3 <= r.returncode <= 120 and b"9" in r.stderr and b"8" in r.stderr
    o = weft.json("run", p, ids(A, A), "--json", "--context", "1000000")  # the smallest limit holds
    assert len(o["output_ids"]) == 7


def test_an_empty_prompt_is_a_typed_error(weft, chain):
    r = weft("run", chain.write(), "--ids", "", "--max-tokens", "1")
    assert 3 <= r.returncode <= 120 and r.stderr and not r.stdout


def test_a_system_text_without_a_template_to_hold_it_is_a_usage_error(weft, chain):
    r = weft("run", chain.write(), ids(A), "--system", "be brief", check=2)
    assert b"--system" in r.stderr


def test_a_script_s_chat_ends_with_the_first_failure_s_code(weft, chain):
    chain.follow(B, END)
    chain.table[A, :] = np.nan
    r = weft("run", chain.write(), "--raw", stdin=b"A\nB\n")
    assert 3 <= r.returncode <= 120


def test_a_chat_over_a_pipe_saves_and_loads(weft, chain, tmp_path):
    p = chain.follow(A, ONE, END).write()
    saved = tmp_path / "chat é.json"
    weft("run", p, "--raw", stdin=f"A\n/save {saved}\n/exit\nA\n".encode(), check=0)
    chat = json.loads(saved.read_text())
    assert set(chat) == {"messages", "ids"}
    assert chat["ids"] == [A, ONE, END]
