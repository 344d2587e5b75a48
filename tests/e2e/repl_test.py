# SPDX-License-Identifier: Apache-2.0
"""The chat of `weft run` as a person sees it: on a pseudo-terminal, over a chain model."""
import json
import os
import pty
import select
import signal
import subprocess
import time

import pytest

from chain_model import A, B, END, FIVE, FOUR, ONE, THREE, TWO, Chain

TEMPLATE = "{% for m in messages %}[{{ m.role }}:{{ m.content }}]{% endfor %}{% if add_generation_prompt %}A{% endif %}"


class Terminal:
    """The program on a terminal of its own."""

    def __init__(self, weft, *args):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen([weft.program, *map(str, args)], stdin=slave, stdout=slave, stderr=slave,
                                        env=weft.env(TERM="dumb"), start_new_session=True)
        os.close(slave)
        self.seen = b""

    def wait_for(self, text, timeout=30):
        """Reads on until `text` has come; returns what came before it."""
        end = time.monotonic() + timeout
        while text not in self.seen:
            left = end - time.monotonic()
            assert left > 0, f"{text!r} did not come; there is {self.seen[-2000:]!r}"
            if select.select([self.master], [], [], left)[0]:
                try:
                    self.seen += os.read(self.master, 65536)
                except OSError:
                    raise AssertionError(f"ended without {text!r}; there is {self.seen[-2000:]!r}") from None
        before, self.seen = self.seen.split(text, 1)
        return before

    def say(self, line):
        os.write(self.master, line.encode() + b"\n")

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def end(self):
        end = time.monotonic() + 20
        while self.process.poll() is None and time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    os.read(self.master, 65536)
                except OSError:
                    break
        return self.process.wait(timeout=5)


@pytest.fixture
def package(tmp_path):
    chain = Chain(tmp_path / "chain").follow(A, ONE, END)
    folder = chain.write()
    chain.put("tokenizer_config.json", {"eos_token": "<|end|>", "chat_template": TEMPLATE})
    return folder


@pytest.fixture
def open_terminal(weft):
    terminals = []

    def start(*args):
        terminals.append(Terminal(weft, *args))
        return terminals[-1]

    yield start
    for t in terminals:
        if t.process.poll() is None:
            t.process.kill()
            t.process.wait()
        os.close(t.master)


def test_a_conversation_is_kept_saved_loaded_and_reset(open_terminal, package, tmp_path):
    saved, again, empty = (tmp_path / n for n in ("a é.json", "b.json", "c.json"))
    t = open_terminal("run", package, "--system", "Be brief.")
    t.wait_for(b"> ")
    t.say("hello é数")
    t.wait_for(b"one ")
    t.say(f"/save {saved}")
    t.wait_for(b"saved 3 messages")
    chat = json.loads(saved.read_text())
    assert chat["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello é数"},
                                {"role": "assistant", "content": "one "}]
    prompt = "[system:Be brief.][user:hello é数]A".encode()
    assert chat["ids"] == [*prompt, ONE, END]
    t.say("/system Be rude.")
    t.say(f"/save {empty}")
    t.wait_for(b"saved 1 messages")
    assert json.loads(empty.read_text()) == {"messages": [{"role": "system", "content": "Be rude."}], "ids": []}
    t.say(f"/load {saved}")
    t.wait_for(b"loaded 3 messages")
    t.say(f"/save {again}")
    t.wait_for(b"saved 3 messages")
    assert json.loads(again.read_text())["messages"] == chat["messages"]
    t.say("/reset")
    t.say(f"/load {package / 'config.json'}")
    t.wait_for(b"no saved chat")
    t.say("/stats")
    t.wait_for(b"context")
    t.say("/set temperature warm")
    t.wait_for(b"--temperature")
    t.say("/set max-tokens 0")
    t.say("/exit")
    assert t.end() == 0


def test_an_interrupt_ends_the_answer_and_the_chat_goes_on(open_terminal, weft, tmp_path):
    endless = Chain(tmp_path / "endless").follow(A, A).write(context=1 << 20)
    t = open_terminal("run", endless, "--raw", "--greedy")
    t.wait_for(b"> ")
    t.say("A")
    t.wait_for(b"A" * 200)
    t.interrupt()
    t.wait_for(b"\n> ")
    t.say("/set max-tokens 3")
    t.say("A")
    t.wait_for(b"AAA")
    t.say("/exit")
    assert t.end() == 0


def test_an_interrupt_at_the_prompt_drops_the_line_and_keeps_the_chat(open_terminal, package, tmp_path):
    t = open_terminal("run", package)
    t.wait_for(b"> ")
    t.say("hello")
    t.wait_for(b"one ")
    t.wait_for(b"> ")
    os.write(t.master, b"half a line")
    t.wait_for(b"half a line")
    t.interrupt()
    t.wait_for(b"leaves")
    t.wait_for(b"> ")
    t.say(f"/save {tmp_path / 'chat.json'}")
    t.wait_for(b"saved 2 messages")
    os.write(t.master, b"\x04")  # Ctrl-D
    assert t.end() == 0


def test_an_interrupt_of_a_script_s_chat_ends_it_with_130(weft, tmp_path):
    endless = Chain(tmp_path / "endless").follow(A, A).write(context=1 << 20)
    p = subprocess.Popen([weft.program, "run", str(endless), "--raw"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, env=weft.env())
    p.stdin.write(b"A\nA\n")
    p.stdin.flush()
    assert p.stdout.read(100) == b"A" * 100
    p.send_signal(signal.SIGINT)
    assert p.wait(timeout=20) == 130
    p.stdin.close(), p.stdout.close(), p.stderr.close()


def raw_chat(weft, package, *lines, **kw):
    """What a raw chat over a pipe prints, a turn a line, and what it says on stderr."""
    r = weft("run", package, "--raw", "--greedy", *kw.pop("options", ()), stdin="\n".join([*lines, ""]).encode(), check=0)
    return r.stdout.decode().splitlines(), r.stderr.decode()


@pytest.fixture
def counting(tmp_path):
    """A is followed by the five words and the end, B by A."""
    return Chain(tmp_path / "counting").follow(A, ONE, TWO, THREE, FOUR, FIVE, END).follow(B, A).write()


ALL = "one two three four five"


@pytest.mark.parametrize("said,want", [
    (["/set stop three"], "one two "), (["/set stop zzz", "/set stop four fi"], "one two three "), (["/set max-tokens 2"], "one two "),
    (["/set logit-bias 257=-100", "/set logit-bias 66=5", "/set max-tokens 2"], "one B"), (["/set lookup 4"], ALL),
    (["/set temperature 1e6", "/set seed 1", "/set top-k 1"], ALL), (["/set ignore-eos on", "/set max-tokens 5"], ALL),
    (["/set temperature 9", "/set greedy on"], ALL),
])
def test_set_changes_each_decoding_option(weft, counting, said, want):
    got, err = raw_chat(weft, counting, *said, "A")
    assert (got[0], err) == (want, "")


def test_set_joins_the_command_line_s_stops_and_a_refused_one_changes_nothing(weft, counting):
    got, err = raw_chat(weft, counting, "/set logit-bias 99999=1", "/set stop five", "A", "/set greedy maybe", "/set logprobs 3",
                        "/set nonsense 1", "A", options=("--stop", "four"))
    assert got == ["one two three ", "one two three "]
    for word in ("99999", "maybe", "logprobs", "--nonsense"):
        assert word in err


def test_a_flag_can_be_set_off_again(weft, tmp_path):
    flat = Chain(tmp_path / "flat").write()
    got, err = raw_chat(weft, flat, "/set max-tokens 12", "A", "/reset", "A", "/set greedy off", "/reset", "A")
    assert got[0] == got[1] != got[2] and err == ""


def test_a_raw_chat_is_saved_and_loaded_with_its_tokens(weft, counting, tmp_path):
    saved, again = tmp_path / "saved.json", tmp_path / "again.json"
    raw_chat(weft, counting, "/set max-tokens 1", "A", f"/save {saved}")
    assert json.loads(saved.read_text()) == {"messages": [], "ids": [A, ONE]}
    got, _ = raw_chat(weft, counting, "B", f"/load {saved}", "/set max-tokens 1", "A", f"/save {again}")
    assert got[1] == "one "
    assert json.loads(again.read_text())["ids"] == [A, ONE, A, ONE]
    for bad in ("[1, \"x\"]", "[-1]", "[99999]", "[1.5]", "[4294967297]"):
        saved.write_text('{"messages": [], "ids": %s}' % bad)
        _, err = raw_chat(weft, counting, f"/load {saved}")
        assert "weft: " in err and "loaded" not in err
