# SPDX-License-Identifier: Apache-2.0
"""Tokenizers and templates written to hang or to fill the memory, and texts that are no text: each ends by itself, soon
and in little memory, with an answer or a typed refusal."""
import json
import os
import signal
import subprocess
import threading

import pytest

SECONDS = 20 if "ASAN_OPTIONS" in os.environ else 6
KIBIBYTES = 1 << 20
LETTERS = {c: i for i, c in enumerate("abcxyz01 ")}


def run(weft, *args, stdin=b""):
    """Exit code, stdout, stderr. Fails beyond the limits of time (CPU) and memory, and on a signal."""
    p = subprocess.Popen([weft.program, *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, env=weft.env(WEFT_CACHE=weft.cache))
    timer = threading.Timer(SECONDS * 6, p.send_signal, [signal.SIGKILL])
    timer.start()
    out = []
    reader = threading.Thread(target=lambda: out.append(p.stdout.read()))
    errors = []
    reader2 = threading.Thread(target=lambda: errors.append(p.stderr.read()))
    reader.start(), reader2.start()
    try:
        p.stdin.write(stdin)
        p.stdin.close()
    except BrokenPipeError:
        pass
    _, status, usage = os.wait4(p.pid, 0)
    timer.cancel()
    reader.join(), reader2.join()
    p.stdout.close(), p.stderr.close()
    p.returncode = code = os.waitstatus_to_exitcode(status)
    err = errors[0]
    assert code == 0 or 3 <= code <= 120 and code != 20, (code, err[-500:])
    assert code == 0 or b"fix:" in err or err.strip(), err
    seconds = usage.ru_utime + usage.ru_stime
    assert seconds < SECONDS, f"{seconds:.1f} s: {err[-300:]}"
    assert usage.ru_maxrss < KIBIBYTES, f"{usage.ru_maxrss} KiB: {err[-300:]}"
    return code, out[0], err


def tokenizer(path, **parts):
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
             "pre_tokenizer": None, "post_processor": None, "decoder": None,
             "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                       "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                       "vocab": LETTERS, "merges": []}}
    whole.update(parts)
    path.write_text(json.dumps(whole))
    return path


# ---- expressions ------------------------------------------------------------------------------

EXPRESSIONS = [
    r"[xw]*x[xw]*x[xw]*x[xw]*[yz]",  # a power of the length in one match
    r"(x+)+[yz]", r"(x|xx)+[yz]", r"(?:x|x){30}[yz]", r"(?:x?){40}x{40}[yz]",  # 2 to a power
    r"[xw]+x[yz]", r".*x.*[yz]", r"x*x*[yz]",  # a power of the length, over all places to start at
    r"(?=[xw]*x[yz])x|x", r"(?<=x)(?=.*z)x|.",  # a match a character, each of which looks at the rest
    r"\Qx+\E[xw]+x[yz]",  # no quoting in this syntax
    "|".join(f"x{i}q" for i in range(4000)),  # thousands of alternatives at each place
    r"(?x) [xw]* x # [ \n [xw]* x [xw]* x [xw]* [yz]",
]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=range(len(EXPRESSIONS)))
@pytest.mark.parametrize("place", ["pre_tokenizer", "normalizer", "decoder"])
def test_no_expression_hangs(weft, tmp_path, expression, place):
    pattern = {"Regex": expression}
    part = {"pre_tokenizer": {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}}.get(
        place, {"type": "Replace", "pattern": pattern, "content": "b"})
    path = tokenizer(tmp_path / "tokenizer.json", **{place: part})
    if place == "decoder":
        run(weft, "detokenize", path, ",".join(["3"] * 20000))
    else:
        run(weft, "tokenize", path, "-", stdin=b"x" * 300_000)
        run(weft, "tokenize", path, "-", stdin=b"x" * 2000)


def test_the_work_of_many_pieces_is_counted_together(weft, tmp_path):
    """Each piece alone stays below the bound."""
    hard = {"type": "Split", "pattern": {"Regex": "[xw]*x[xw]*[yz]"}, "behavior": "Isolated", "invert": False}
    path = tokenizer(tmp_path / "tokenizer.json", pre_tokenizer={"type": "Sequence", "pretokenizers": [
        {"type": "CharDelimiterSplit", "delimiter": "a"}, hard]})
    code, _, err = run(weft, "tokenize", path, "-", stdin=b"a".join([b"x" * 700] * 2000))
    assert code == 0 or b"regular expression" in err
    code, out, _ = run(weft, "tokenize", path, "-", stdin=b"a".join([b"x" * 20] * 20))
    assert code == 0 and len(out) > 400


# ---- steps ------------------------------------------------------------------------------------

def replace(of, by):
    return {"type": "Replace", "pattern": {"String": of}, "content": by}


@pytest.mark.parametrize("steps", [
    [replace("x", "xxxxxxxx")] * 20,
    [replace("x", "x" * 1_000_000)],
    [replace("", "x")] * 60,
    [{"type": "Prepend", "prepend": "x" * 1_000_000}] * 200,
    [{"type": "NFKD"}, {"type": "Lowercase"}] * 5000,
    [{"type": "Sequence", "normalizers": [replace("x", "xx")] * 100}] * 100,
], ids=["doubling", "long", "between", "prepend", "many", "nested"])
def test_no_chain_of_normalizers_fills_the_memory(weft, tmp_path, steps):
    path = tokenizer(tmp_path / "tokenizer.json", normalizer={"type": "Sequence", "normalizers": steps})
    code, _, err = run(weft, "tokenize", path, "-", stdin=b"x" * 100_000)
    assert code and (b"grows beyond" in err or b"steps" in err), err


@pytest.mark.parametrize("steps", [[replace("x", "xxxxxxxx")] * 20, [replace("x", "x" * 1_000_000)]], ids=["doubling", "long"])
def test_no_chain_of_decoders_fills_the_memory(weft, tmp_path, steps):
    path = tokenizer(tmp_path / "tokenizer.json", decoder={"type": "Sequence", "decoders": steps})
    code, _, err = run(weft, "detokenize", path, ",".join(["3"] * 2000))
    assert code and b"grows beyond" in err, err


def test_no_chain_of_templates_fills_the_memory(weft, tmp_path):
    part = {"Sequence": {"id": "A", "type_id": 0}}
    post = {"type": "TemplateProcessing", "single": [part] * 10, "pair": [part, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {}}
    path = tokenizer(tmp_path / "tokenizer.json", post_processor={"type": "Sequence", "processors": [post] * 30})
    code, _, err = run(weft, "tokenize", path, "-", stdin=b"x" * 1000)
    assert code and b"post_processor" in err, err


def test_a_hundred_thousand_added_tokens_load_and_match(weft, tmp_path):
    added = [{"id": 100 + i, "content": f"<{i:06d}>", "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": i % 2 == 0, "special": i % 2 == 1} for i in range(100_000)]
    path = tokenizer(tmp_path / "tokenizer.json", added_tokens=added)
    code, out, err = run(weft, "tokenize", path, "-", stdin=b"<000000>" + b"x<099999>" * 20000)
    assert code == 0, err
    n = len(LETTERS)  # ids follow the vocabulary's, whatever the file says, as in Hugging Face's library
    assert out.decode().strip() == ",".join([str(n), *["3", str(n + 99_999)] * 20000])
    code, out, _ = run(weft, "tokenize", path, "x<000007>x<099998>")
    assert out.decode().strip() == f"3,{n + 7},3,{n + 99_998}"


@pytest.mark.parametrize("place", ["added_tokens", "normalizer", "pre_tokenizer", "model", "post_processor", "other"])
def test_deep_json_is_refused(weft, tmp_path, place):
    path = tokenizer(tmp_path / "tokenizer.json")
    whole = json.loads(path.read_text())
    whole[place] = "HERE"
    for deep in ("[" * 200_000, '{"type":"Sequence","normalizers":[' * 50_000, '{"a":' * 200_000):
        path.write_text(json.dumps(whole).replace('"HERE"', deep))
        code, _, err = run(weft, "tokenize", path, "x")
        assert code and err


# ---- templates --------------------------------------------------------------------------------

TEMPLATES = {
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}",
    "text": "{% set ns = namespace(s='x') %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
    "times": "{{ 'x' * 99999999999 }}",
    "list": "{{ ([1] * 99999999999) | length }}",
    "output": "{% for a in range(99999) %}{{ 'x' * 99999 }}{% endfor %}",
    "power": "{{ 9 ** (9 ** 9) }}",
    "recursion": "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
    "brackets": "{{ " + "(" * 50_000 + "1" + ")" * 50_000 + " }}",
    "nots": "{{ " + "not " * 50_000 + "1 }}",
    "minus": "{{ " + "-" * 50_000 + "1 }}",
    "filters": "{{ 'x'" + "|upper" * 50_000 + " }}",
    "blocks": "{% if 1 %}" * 50_000,
    "replace": "{% set ns = namespace(s='x') %}{% for i in range(40) %}{% set ns.s = ns.s | replace('x', 'xxxx') %}{% endfor %}",
    "join": "{{ range(99999) | join('x' * 99999) }}",
    "format": "{{ '%999999999d' % 1 }}",
    "center": "{{ 'x' | center(99999999999) }}",
    "indent": "{{ ('x\n' * 99999) | indent(99999) }}",
    "sort": "{% for i in range(999) %}{% set x = range(99999) | sort(reverse=true) %}{% endfor %}",
    "nested list": "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
    "compare": "{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.m = [ns.m, ns.m] %}"
               "{% endfor %}{{ ns.l == ns.m }}",
    "json": "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l | tojson }}",
    "split": "{% for i in range(99999) %}{% set x = ('a ' * 99999).split(' ') %}{% endfor %}",
    "find": "{% set a = 'a' * 999999 %}{% for i in range(9999) %}{% set x = ('a' * 9999 + 'b') in a %}{% endfor %}",
    "groupby": "{% for i in range(999) %}{% set x = range(99999) | groupby('real') %}{% endfor %}",
    "unique": "{% for i in range(999) %}{% set x = range(99999) | unique | list %}{% endfor %}",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_template_hangs_or_fills_the_memory(weft, tmp_path, name):
    file, messages = tmp_path / "t.jinja", tmp_path / "m.json"
    file.write_text(TEMPLATES[name])
    messages.write_text('{"messages": []}')
    run(weft, "template", "--template", file, messages)


# ---- texts ------------------------------------------------------------------------------------

@pytest.mark.parametrize("text,at", [(b"a\xffb", 1), (b"\xc3(", 0), (b"abc\xe4\xb8", 3), (b"\xed\xa0\x80", 0), (b"ab\xf5\x80\x80\x80", 2),
                                     (b"\xc0\x80", 0), (b"\x80", 0)])
def test_bytes_that_are_not_utf_8_are_refused_with_their_place(weft, tmp_path, text, at):
    """docs/cli.md: a dash takes stdin byte for byte, and text is UTF-8; another text in its place would be neither."""
    path = tokenizer(tmp_path / "tokenizer.json")
    code, out, err = run(weft, "tokenize", path, "-", stdin=text)
    assert code and not out and b"not UTF-8" in err and b"at position %d" % at in err, err


def test_a_zero_byte_is_a_character_like_any_other(weft, tmp_path):
    path = tokenizer(tmp_path / "tokenizer.json", model={"type": "BPE", "vocab": {"a": 0, "\0": 1}, "merges": []})
    code, out, _ = run(weft, "tokenize", path, "-", stdin=b"a\0a")
    assert code == 0 and out.strip() == b"0,1,0"
