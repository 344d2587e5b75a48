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

from chain_model import A, END, ONE, Chain

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
