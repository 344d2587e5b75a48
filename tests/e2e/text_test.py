# SPDX-License-Identifier: Apache-2.0
"""weft tokenize, detokenize and template: text without a model, over a byte-level toy tokenizer."""
import json

import pytest

from chain_model import END, FIVE, ONE, Chain


@pytest.fixture
def package(tmp_path):
    return Chain(tmp_path / "chain").write()


def test_a_dash_takes_stdin_byte_for_byte(weft, package):
    text = b" a\x00b\r\n\xc3\xa9\n\n"
    for given in (("-",), ()):
        assert weft.json("tokenize", package, *given, "--json", stdin=text) == list(text)
    assert weft.json("tokenize", package, "-", "--json", stdin=b"") == []
    r = weft("tokenize", package, "-", stdin=b"ab\xff")
    assert 3 <= r.returncode <= 120 and b"UTF-8" in r.stderr


def test_a_tokenizer_is_named_by_package_document_or_file(weft, package):
    want = list(b"hi") + [END]
    for name in (package, package / "config.json", package / "tokenizer.json"):
        assert weft.json("tokenize", name, "hi<|end|>", "--json") == want
        assert weft("detokenize", name, "104,105,261", check=0).stdout == b"hi<|end|>\n"
        assert weft("detokenize", name, "104,105,261", "--skip-special", check=0).stdout == b"hi\n"


def test_offsets_count_characters(weft, package):
    o = weft.json("tokenize", package, "é数<|end|>x", "--offsets")
    assert set(o) == {"ids", "tokens", "offsets"}
    assert o["ids"] == [*"é数".encode(), END, ord("x")]
    assert o["offsets"] == [[0, 1]] * 2 + [[1, 2]] * 3 + [[2, 9], [9, 10]]
    assert o["tokens"][-2:] == ["<|end|>", "x"]


def test_a_pair_follows_the_text(weft, package):
    assert weft.json("tokenize", package, "ab", "--pair", "cd", "--json") == list(b"abcd")


def test_white_space_comes_back_exactly(weft, package):
    text = "a  b\n\treturn\n                x \n"
    ids = weft.json("tokenize", package, text, "--json")
    assert weft("detokenize", package, ",".join(map(str, ids)), check=0).stdout.decode() == text + "\n"


@pytest.mark.parametrize("ids", ["1,,2", "1;2", "x", "4294967297", "1.5"])
def test_ids_that_are_no_ids_are_a_usage_error(weft, package, ids):
    assert ids.encode() in weft("detokenize", package, ids, check=2).stderr


@pytest.mark.parametrize("id", ["263", "99999999", "-5"])
def test_an_id_outside_the_vocabulary_is_refused_by_name(weft, package, id):
    r = weft("detokenize", package, "--", f"{ONE},{FIVE},{id}")
    assert 3 <= r.returncode <= 120 and id.encode() in r.stderr


def template(weft, tmp_path, source, variables, *options, **kw):
    (tmp_path / "t.jinja").write_text(source, encoding="utf-8")
    (tmp_path / "m.json").write_text(json.dumps(variables), encoding="utf-8")
    return weft("template", "--template", tmp_path / "t.jinja", tmp_path / "m.json", *options, **kw)


def test_a_template_sees_every_variable_and_prints_the_text_alone(weft, tmp_path):
    r = template(weft, tmp_path, "{{ bos_token }}{{ messages[0].content }}|{{ tools|length }}|{{ thinking }}|{{ add_generation_prompt }}",
                 {"messages": [{"role": "user", "content": "é数"}], "tools": [{}, {}], "thinking": "deep", "bos_token": "<s>",
                  "add_generation_prompt": True}, check=0)
    assert r.stdout.decode() == "<s>é数|2|deep|True" and r.stderr == b""


@pytest.mark.parametrize("source,line,column", [
    ("ok\n{% if x %}", 2, None), ("{{ 1 }}\n\n  {{ nope() }}", 3, None), ("a\n{{ raise_exception('stop here') }}", 2, None),
    ("{{ 'é' + }}", 1, None),
])
def test_errors_of_a_template_name_line_and_column(weft, tmp_path, source, line, column):
    r = template(weft, tmp_path, source, {"messages": []})
    assert 3 <= r.returncode <= 120 and r.stdout == b""
    assert f"line {line}, column " in r.stderr.decode()


def test_the_clock_of_a_template_can_be_set(weft, tmp_path):
    r = template(weft, tmp_path, "{{ strftime_now('%Y-%m-%d %H:%M:%S') }}", {}, "--now", "2026-01-02T03:04:05", check=0)
    assert r.stdout == b"2026-01-02 03:04:05"
    for bad in ("yesterday", "2026-02-30", ""):
        r = template(weft, tmp_path, "x", {}, "--now", bad, check=2)
        assert b"--now" in r.stderr and bad.encode() in r.stderr


def test_the_file_s_own_tokens_override_the_package_s(weft, package, tmp_path):
    (tmp_path / "m.json").write_text('{"messages": []}')
    (tmp_path / "t.jinja").write_text("{{ eos_token }}")
    argv = ("template", package, "--template", tmp_path / "t.jinja", tmp_path / "m.json")
    assert weft(*argv, check=0).stdout == b"<|end|>"
    (tmp_path / "m.json").write_text('{"messages": [], "eos_token": "X"}')
    assert weft(*argv, check=0).stdout == b"X"


def added(content, **flags):
    return {"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True,
            **flags}


CONFIGS = {
    "nothing": {},
    "decoder": {"added_tokens_decoder": {"300": added("<late>"), "20": added("<early>"), "3": added("a", special=False)}},
    "there already": {"added_tokens_decoder": {"256": added("<|end|>", lstrip=True, rstrip=True, special=False)}},
    "there already, named": {"eos_token": "<|end|>", "added_tokens_decoder": {"256": added("<|end|>", lstrip=True, rstrip=True)}},
    "there already, as another": {"eos_token": "a", "bos_token": {"__type": "AddedToken", **added("<|end|>", rstrip=True)}},
    "flags": {"added_tokens_decoder": {"300": added("<l>", lstrip=True, special=False), "301": added("<r>", rstrip=True),
                                       "302": added("word", single_word=True, normalized=True, special=False)}},
    "named": {"bos_token": "<b>", "eos_token": {"__type": "AddedToken", **added("<e>", rstrip=True)}, "pad_token": None, "unk_token": "<u>",
              "mask_token": "<m>", "cls_token": "<c>", "sep_token": "<s>"},
    "lists": {"additional_special_tokens": ["<x>", {"__type": "AddedToken", **added("<y>", lstrip=True)}], "added_tokens_decoder": {"300": added("<x>", rstrip=True)}},
    "newer list": {"extra_special_tokens": ["<x>", "<z>"]},
    "dict": {"extra_special_tokens": {"image_token": "<img>"}},
}
TEXT = "a <late> <early>b<|end|> c <l> x <r> y word swordfish <b>q <e> <u><m> <c> <s> <x> <y> z<z> <img>"


@pytest.mark.parametrize("name", CONFIGS)
def test_tokens_that_only_the_configuration_has_are_those_of_transformers(weft, package, name):
    transformers = pytest.importorskip("transformers")
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **CONFIGS[name]}
    (package / "tokenizer_config.json").write_text(json.dumps(config))
    judge = transformers.PreTrainedTokenizerFast.from_pretrained(package)
    want = judge(TEXT, add_special_tokens=False)["input_ids"]
    assert weft.json("tokenize", package, TEXT, "--no-special", "--json") == want
    ids = ",".join(map(str, want))
    assert weft("detokenize", package, ids, "--skip-special", check=0).stdout.decode()[:-1] == judge.decode(want, skip_special_tokens=True)


@pytest.mark.parametrize("decoder", [{"x": added("q")}, {"5": "q"}, {"5": {"content": 5}}])
def test_a_wrong_list_of_added_tokens_names_the_configuration(weft, package, decoder):
    (package / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": decoder}))
    r = weft("tokenize", package, "a")
    assert 3 <= r.returncode <= 120 and b"tokenizer_config.json" in r.stderr and b"added_tokens_decoder" in r.stderr


@pytest.mark.parametrize("form", ["pairs", "lines", "lines with a version"])
@pytest.mark.parametrize("at", [0, 255, 256, 300, 511, 599])
def test_a_merge_without_its_token_is_named_wherever_it_stands(weft, tmp_path, form, at):
    """Merges are looked up many at once; the place must still be the one merge's."""
    letters = [chr(0x4e00 + i) for i in range(40)]
    merges = [[a, b] for a in letters for b in letters][:600]
    vocab = {t: i for i, t in enumerate(letters + [a + b for a, b in merges])}
    model = {"type": "BPE", "vocab": vocab, "merges": merges if form == "pairs" else [" ".join(m) for m in merges]}
    if "version" in form:
        model["merges"].insert(0, "#version: 0.2")
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"model": model}, ensure_ascii=False, indent=0))
    for k, (a, b) in enumerate(merges[:600:37]):
        assert weft.json("tokenize", path, a + b, "--json") == [40 + 37 * k]
    del vocab["".join(merges[at])]
    path.write_text(json.dumps({"model": model}, ensure_ascii=False, indent=0))
    r = weft("tokenize", path, "x")
    place = f"merges[{at + ('version' in form)}]"
    assert 3 <= r.returncode <= 120 and place in r.stderr.decode() and "".join(merges[at]) in r.stderr.decode(), r.stderr.decode()
