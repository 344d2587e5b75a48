#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes template_goldens.json: what jinja2 makes of several hundred small templates.

The judge is jinja2 (3.1.6) with exactly the environment that transformers' chat templates get:
ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loopcontrols, a `generation` tag, json.dumps
as `tojson`, raise_exception and strftime_now. Where jinja2 refuses a template, the golden holds that
it does, and the line it names. Run: python3 make_template_goldens.py [--random N SEED] > file
With --random, N generated templates are written instead, for a differential run.
"""
import copy
import json
import random
import re
import sys
import traceback
from datetime import datetime

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.exceptions import TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.fromisoformat("2026-01-02T03:04:05")


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(lineno)

    def _support(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    class TemplateNamespace(jinja2.utils.Namespace):
        def __init__(*args, **kwargs):
            self, args = args[0], args[1:]
            attrs = dict(*args, **kwargs)
            for name in attrs:
                TemplateNamespace._check(name)
            jinja2.utils.Namespace.__init__(self, attrs)

        def __setitem__(self, name, value):
            TemplateNamespace._check(name)
            jinja2.utils.Namespace.__setitem__(self, name, value)

        @staticmethod
        def _check(name):
            if isinstance(name, str) and name.startswith("_"):
                raise jinja2.exceptions.SecurityError("underscore")

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: NOW.strftime(f)
    env.globals["namespace"] = TemplateNamespace
    return env


VARIABLES = {
    "bos_token": "<s>", "n": 7, "neg": -3, "f": 2.5, "zero": 0, "t": True, "no": False, "nil": None,
    "s": "Hello, World", "u": "naïve café — 中文 🧵 ß", "empty": "", "html": "<b>\"x\" & 'y'</b>",
    "lines": "one\n  two\n\nthree", "pad": "  \t spaced out \n ",
    "l": [3, 1, 2], "words": ["pear", "Apple", "fig", "apple"], "nest": [[1, 2], [3, [4, 5]]],
    "d": {"z": 1, "a": [1, None, True], "M": {"k": "v"}, "keys": "mine"},
    "people": [{"name": "Ann", "age": 31, "tags": ["x", "y"], "in": {"city": "Oslo"}},
               {"name": "bob", "age": 25, "tags": [], "in": {"city": "Bonn"}},
               {"name": "Cid", "age": 31, "tags": ["y"], "in": {"city": "oslo"}}],
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <|im_end|>"},
                 {"role": "assistant", "content": "Yes?"}, {"role": "user", "content": " more "},
                 {"role": "tool", "content": "{\"ok\": true}"}],
    "tools": [{"z": "width > 3 & depth < 9 — café's / shelf", "a": {"n": 1.0, "e": 1e-7, "l": [], "o": {}}}],
}


def expressions():
    yield from """
1 + 2 * 3|1 - 2 - 3|7 // 2|-7 // 2|7 % 3|-7 % 3|7 % -3|7.5 // 2|-7.5 % 2|2 ** 10|2 ** -1|-2 ** 2|2 ** 3 ** 2|1 / 3|6 / 2|7 / 0|7 // 0|7 % 0|1.0 / 0
1e3|1.5e-7|1_000|0x1f|0b101|0o17|1e16|1e15|123456789.123|0.1 + 0.2|100.0|1e22|1e21|5e-324|1.7976931348623157e308|-0.0|3.0e0|00
9223372036854775807|9223372036854775807 + 0|-5|+5|- - 5|not 5|not not 5|not none
n + f|n - t|t + t|t * 3|f * 2|n / 2|neg ** 2|neg % 2|n > 3|n >= 7|n < 7 < 8|1 < 2 < 3|1 < 3 < 2|1 == 1.0|t == 1|"1" == 1|none == none|n != 7
s|u|empty|nil|t|no|l|d|nest|words|tools|people[0]|(1,)|()|(1, 2)|[]|{}|{"a": 1, 2: "b"}|"a" "b"|'it\\'s'|"tab\\t|"|"\\x41\\u00e9\\n|"|"a\\qb"
s + "!"|s ~ 1 ~ none ~ true ~ 1.0 ~ l|"a" * 3|3 * "ab"|[1] * 2|l + [4]|(1,) + (2,)|s + 1|1 + s|l + (1,)|none + 1|undefined_x + 1|d + d|s - "a"|-s|"a" < "b"|"a" < 1|[1,2] < [1,3]|none < 1
s[0]|s[-1]|s[99]|u[3]|u[-1]|u[6:]|s[1:4]|s[::-1]|u[::-1]|s[::2]|s[-3:]|s[:-3]|s[5:1:-1]|l[::-1]|l[1:]|l[-1]|l[9]|l["a"]|l.0|people.0.name|d.z|d["z"]|d.missing|d["missing"]|d.missing.more|d.keys|d["keys"]|d.M.k|d.a[1]|nest[1][1][0]|s.0|(1,2,3)[1:]|n[0]|none[0]|none.x|n.x|d[[1]]|l[1.0]|l[true]|s[none:2]|l[::0]
1 in l|9 in l|"z" in d|"q" not in d|"ell" in s|1 in s|1 in 5|none in [none]|"a" in undefined_x|(1, 2) in [(1, 2)]|1 in {1: 2}|1.0 in l
t and n|no and n|no or s|empty or "x"|t or undefined_x.y|n if t|n if no|n if no else "e"|1 if no else 2 if no else 3|(n if no) is defined|"a" if undefined_x else "b"
undefined_x|undefined_x.y|undefined_x is defined|undefined_x is undefined|undefined_x|length|undefined_x|list|undefined_x|upper|undefined_x|default("q")|undefined_x == undefined_y|undefined_x == none|undefined_x()|undefined_x[0]|undefined_x|string|[undefined_x]|not undefined_x|undefined_x ~ "a"|undefined_x|join(",")|undefined_x|first|undefined_x|trim|undefined_x|int|undefined_x|tojson
range(5)|range(5)|list|range(1, 10, 3)|list|range(5, 0, -2)|list|range(0)|list|range(3)[1]|range(10)[2:8:2]|range(5)|length|range(100001)|range("a")|range(1,2,0)|range(3)|last|range(4)|sum|range(3)|reverse|list
dict(a=1, b=2)|dict([("x", 1)])|dict(d, z=9)|namespace(a=1).a|namespace(a=1)["a"]|namespace(a=1).b|namespace(_a=1)|joiner("-")|cycler(1,2).next()|cycler(1,2).current|cycler()|lipsum is callable|range is callable|s is callable
strftime_now("%d %b %Y")|strftime_now("%Y-%m-%d %H:%M:%S")|strftime_now("%B %A %a %j %p %I %y %-d %-m %e|%%")|strftime_now("%F %T %D %R")|strftime_now(3)|raise_exception("bad: " ~ n)|raise_exception()
s.upper()|u.upper()|s.lower()|"ΑΣ ΣΑΣ".lower()|"İ".lower()|s.title()|"they're bill's 3rd".title()|u.capitalize()|"ǆ".title()|s.swapcase()|"ß".casefold()|s.strip("Hd")|pad.strip()|pad.lstrip()|pad.rstrip()|"xxaxx".strip("x")|"\\u00a0a\\u2003".strip()|s.replace("l", "L")|s.replace("l", "L", 1)|"aaa".replace("", "-")|"".replace("", "x")|u.replace("é", "e")|s.replace("l")|s.replace(1, 2)
s.split()|s.split(",")|s.split(", ", 1)|" a  b ".split()|" a  b ".split(" ")|"a,b,,c".split(",")|"a b c d".split(none, 2)|"a b c d".rsplit(" ", 1)|"a b c d".rsplit(none, 1)|s.split("")|"".split()|"".split(",")|lines.splitlines()|lines.splitlines(true)|"a\\r\\nb\\x0bc".splitlines()|"a-b-c".partition("-")|"a-b-c".rpartition("-")|"abc".partition("-")|"abc".rpartition("-")|",".join(words)|",".join(l)|"".join([])|"-".join("abc")
s.startswith("He")|s.startswith(("x", "H"))|s.endswith("ld")|s.startswith("W", 7)|s.startswith("")|s.find("o")|s.find("o", 5)|s.find("zz")|s.rfind("o")|s.index("W")|s.index("zz")|s.count("l")|s.count("")|u.find("中")|u.count("é")|"abab".count("ab", 1)|s.find("o", -5)|s.find("l", 3, 4)
"abc".isalpha()|"a1".isalnum()|"12".isdigit()|"²".isdigit()|"²".isdecimal()|"½".isnumeric()|" ".isspace()|"".isspace()|"Ab".islower()|"AB1".isupper()|"Ab Cd".istitle()|"a_1".isidentifier()|"é".isascii()|"a".isprintable()|"\\n".isprintable()
"ab".center(7)|"ab".center(6, "*")|"abc".center(6, "*")|"ab".ljust(5, ".")|"ab".rjust(5)|"-42".zfill(6)|"a\\tb".expandtabs(4)|"prefix-x".removeprefix("prefix-")|"x.txt".removesuffix(".txt")
"{} {}".format(1, "b")|"{0} {1} {0}".format("a", 2)|"{x}".format(x=3)|"{:>5}|{:<5}|{:^5}".format(1, "a", "b")|"{:05.2f}".format(3.14159)|"{:,}".format(1234567)|"{:x} {:#x} {:b} {:o} {:c}".format(255, 255, 5, 8, 65)|"{:e} {:g} {:%}".format(12345.678, 0.00001, 0.25)|"{!r} {!s}".format("a", "b")|"{d[z]} {d.M}".format(d=d)|"{{}}".format()|"{}".format()|"{:d}".format("a")|"{:s}".format(1)|"{:+} {: }".format(3, 4)|"{:*^9}".format("mid")|"{:.2}".format("abcdef")|"{:{w}}".format(1, w=4)|"{".format()|"{0.__class__}".format(1)|"{:_}".format(1000000)|"{:.3}".format(2.0)|"{}".format(none)|"{:>8}".format(none)|"{x}".format_map({"x": 1})|"{:f}".format(7)|"{:10.3e}|".format(-0.00123)|"{:g} {:g} {:g}".format(100000, 1000000, 1.5)|"{:.0f} {:.0f} {:.0f}".format(0.5, 1.5, 2.5)
"%s" % 1|"%s %s" % (1, "b")|"%d" % 3.7|"%5d|%-5d|%05d" % (1, 2, 3)|"%.2f" % 2.675|"%x %X %o" % (255, 255, 8)|"%e" % 12345.678|"%g" % 0.0001|"%r" % "a"|"%c" % "x"|"%%" % ()|"%(a)s" % {"a": 1}|"%s" % l|"%s" % (l,)|"%s" % d|"%d" % "a"|"%s %s" % 1|"%s" % (1, 2)|"%5.1f|" % 2.25|"%+d % d" % (1, 2)|"%q" % 1|"%" % 1|"%10s|" % "é"|"%.2s" % "abc"|"%*d" % (5, 3)|"%i" % true|"a" % 1|"a" % l|"a" % ()
d.get("z")|d.get("q")|d.get("q", 5)|d.keys()|{"a": 1}.keys()|{"a": 1}.values()|{"a": 1}.items()|{"a": 1, "b": 2}.items()|list|{"a": 1}.copy()|{"a": 1}.pop("a")|{"a": 1}.update({})|[1].append(2)|[1, 1].count(1)|[1, 2].index(2)|[1, 2].index(3)|l.sort()|(1, 2).count(1)|d.get()|{}.fromkeys([1, 2], 0)|s.__class__|d.__class__.__mro__|s._x|{"_x": 1}._x|[].copy()
""".replace("\n", "|||").split("|||")


FILTERED = r"""
{{ s|upper }} {{ s|lower }} {{ s|title }} {{ "foo-bar (baz) it's"|title }} {{ s|capitalize }} {{ s|length }} {{ l|count }}
{{ pad|trim }}|{{ "xxaxx"|trim("x") }}|{{ 5|trim }}
{{ l|sort }} {{ words|sort }} {{ words|sort(case_sensitive=true) }} {{ l|sort(reverse=true) }} {{ people|sort(attribute="age")|map(attribute="name")|list }}
{{ people|sort(attribute="age,name")|map(attribute="name")|join(",") }} {{ people|sort(attribute="in.city", reverse=true)|map(attribute="name")|list }}
{{ [1, "a"]|sort }}
{{ d|dictsort }} {{ {"b": 1, "A": 3, "c": 2}|dictsort }} {{ {"b": 1, "A": 3}|dictsort(true) }} {{ {"b": 1, "A": 3}|dictsort(by="value") }} {{ {"b": 1, "A": 3}|dictsort(reverse=true) }}
{{ {"b": 1}|dictsort(by="x") }}
{{ l|first }} {{ l|last }} {{ []|first }} {{ []|last }} {{ s|first }} {{ s|last }} {{ d|first }} {{ d|last }}
{{ l|max }} {{ l|min }} {{ words|max }} {{ words|min }} {{ []|max }} {{ people|max(attribute="age") }} {{ people|min(attribute="name") }}
{{ l|sum }} {{ people|sum(attribute="age") }} {{ l|sum(start=10) }} {{ [[1], [2]]|sum(start=[]) }} {{ []|sum }}
{{ ["a"]|sum }}
{{ l|join }} {{ l|join(", ") }} {{ people|join("/", attribute="name") }} {{ "abc"|join("-") }} {{ [none, true, 1.5]|join(" ") }}
{{ l|list }} {{ s|list }} {{ d|list }} {{ 5|list }}
{{ l|reverse|list }} {{ s|reverse }} {{ d|reverse|list }} {{ (1, 2)|reverse|list }}
{{ words|unique|list }} {{ words|unique(case_sensitive=true)|list }} {{ people|unique(attribute="age")|map(attribute="name")|list }}
{{ l|map("string")|list }} {{ words|map("upper")|join(",") }} {{ words|map("replace", "a", "A")|list }} {{ people|map(attribute="in.city")|list }} {{ people|map(attribute="nope", default="-")|list }}
{{ people|map(attribute="nope")|list }}
{{ l|map("nofilter")|list }}
{{ l|map|list }}
{{ none|map("upper")|list }} {{ []|map("nofilter")|list }}
{{ l|select("odd")|list }} {{ l|reject("odd")|list }} {{ l|select|list }} {{ [0, 1, "", "a"]|select|list }} {{ l|select("gt", 1)|list }} {{ l|select(">", 1)|list }} {{ [1, none]|reject("none")|list }}
{{ people|selectattr("age", "equalto", 31)|map(attribute="name")|list }} {{ people|rejectattr("age", "==", 31)|map(attribute="name")|list }} {{ people|selectattr("tags")|map(attribute="name")|list }} {{ people|selectattr("nope", "defined")|list }}
{{ people|selectattr("in.city", "in", ["Oslo", "Bonn"])|list|length }} {{ messages|selectattr("role", "equalto", "user")|list|length }}
{{ l|select("nope")|list }}
{{ messages|rejectattr("role", "equalto", "system")|list|length }}
{{ people|groupby("age") }}
{% for k, v in people|groupby("age") %}{{ k }}:{{ v|map(attribute="name")|join("+") }};{% endfor %}
{% for g in people|groupby("in.city") %}{{ g.grouper }}={{ g.list|length }} {% endfor %}
{% for g in people|groupby("x", default="none") %}{{ g.grouper }}={{ g.list|length }} {% endfor %}
{{ range(7)|batch(3)|list }} {{ range(7)|batch(3, "x")|list }} {{ range(7)|slice(3)|list }} {{ range(7)|slice(3, "x")|list }}
{{ "3"|int }} {{ "3.9"|int }} {{ "x"|int }} {{ "x"|int(7) }} {{ "0x1f"|int(base=16) }} {{ "ff"|int(0, 16) }} {{ 3.9|int }} {{ -3.9|int }} {{ none|int }} {{ true|int }} {{ " 5 "|int }} {{ "1_0"|int }} {{ "1e3"|int }} {{ []|int }}
{{ "3"|float }} {{ "x"|float }} {{ "x"|float(1.5) }} {{ 3|float }} {{ "1e3"|float }} {{ "inf"|float }} {{ "nan"|float }} {{ " .5 "|float }} {{ none|float }}
{{ 2.567|round }} {{ 2.567|round(2) }} {{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 2.1|round(0, "ceil") }} {{ 2.9|round(method="floor") }} {{ 7|round }} {{ 1234|round(-2) }} {{ 1250|round(-2) }} {{ 2.345|round(2, "floor") }} {{ -2.5|round }} {{ 1e20|round(2) }}
{{ 2|round(1, "x") }}
{{ "a"|round }}
{{ -5|abs }} {{ -2.5|abs }} {{ true|abs }} {{ "a"|abs }}
{{ l|string }}{{ none|string }}{{ 1.0|string }}
{{ s|replace("l", "L") }} {{ s|replace("l", "L", 2) }} {{ 11|replace(1, 2) }} {{ "aa"|replace("a", "b", count=1) }}
{{ "%s-%s"|format(1, 2) }} {{ "%(a)s"|format(a=5) }} {{ "%d%%"|format(50) }}
{{ lines|indent }}|{{ lines|indent(2) }}|{{ lines|indent(2, true) }}|{{ lines|indent(2, first=true, blank=true) }}|{{ lines|indent("> ") }}|{{ ""|indent(2, true) }}|{{ "a\n"|indent(2) }}|{{ "a\n\n"|indent(2, blank=true) }}
{{ 5|indent }}
{{ "foo bar baz qux"|truncate(9) }} {{ "foo bar baz qux"|truncate(9, true) }} {{ "foo bar baz qux"|truncate(11) }} {{ "foo bar baz qux"|truncate(11, false, "..", 0) }} {{ "aaaaaaaaaaaaaaaaaaaa"|truncate(5) }}
{{ "ab"|center(6) }}| {{ "a b, c_d é"|wordcount }} {{ html|striptags }} {{ "a/b c?d=é"|urlencode }} {{ {"a b": 1, "c": "&"}|urlencode }} {{ [("x", "y")]|urlencode }}
{{ 1|filesizeformat }} {{ 999|filesizeformat }} {{ 1000|filesizeformat }} {{ 1024|filesizeformat(true) }} {{ 123456789|filesizeformat }} {{ 1e30|filesizeformat }}
{{ {"class": "a", "id": none, "t": "<"}|xmlattr }} {{ {"class": "a"}|xmlattr(false) }}
{{ html|escape }} {{ html|e }} {{ html|safe }} {{ html|escape|escape }} {{ html|e|forceescape }} {{ (html|safe) + "<" }} {{ "<" + (html|safe) }} {{ (html|safe) ~ "<" }} {{ ("<%s>"|safe) % "<" }} {{ ("a"|safe)|upper }} {{ html|safe is escaped }}
{{ ("<{}>"|safe).format("<") }} {{ (","|safe).join(["<", "a"]) }} {{ ["<", "a"]|join("&"|safe) }}
{{ d|items|list }} {{ d|items }}{# generator #}
{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}{% for k, v in undefined_x|items %}{{ k }}{% endfor %}
{% for k, v in none|items %}{% endfor %}
{{ d|attr("keys") is callable }} {{ d|attr("z") }} {{ s|attr("upper")() }}
{{ nil|default("x") }} {{ nil|default("x", true) }} {{ ""|d("y", boolean=true) }} {{ undefined_x|d }}| {{ undefined_x.y|default("q") }}
{{ d.nope|default("q") }} {{ d.nope.x|default("q") }}
{{ tools|tojson }}
{{ tools|tojson(ensure_ascii=True) }} {{ u|tojson(ensure_ascii=true) }} {{ u|tojson }} {{ "\x7f\x00\x1f/"|tojson }} {{ "\x7f"|tojson(true) }}
{{ tools|tojson(indent=2) }} {{ {}|tojson(indent=2) }} {{ [[], {}]|tojson(indent=0) }} {{ d|tojson(indent="--") }}
{{ tools|tojson(sort_keys=true) }} {{ d|tojson(sort_keys=true, indent=4) }}
{{ tools|tojson(separators=(",", ":")) }} {{ d|tojson(separators=[" , ", " : "], indent=1) }}
{{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ (1, 2)|tojson }} {{ [1.0, 1e100, 0.1]|tojson }} {{ "inf"|float|tojson }}
{{ {(1, 2): 3}|tojson }}
{{ range(3)|tojson }}
{{ d.items()|tojson }}
{{ "one two three"|wordwrap(7) }}
{{ s|nofilter }}
{% if no %}{{ s|nofilter }}{% endif %}ok
{% if t %}{{ s|nofilter }}{% endif %}ok
{{ s|upper(1) }}
{{ s|replace }}
{{ s|default(1, 2, 3) }}
{{ s|upper|lower|title|reverse }}
{{ -1|abs }} {{ (-1)|abs }} {{ 1 + 2|string }}
{{ [1,2,3]|map("multiply", 2)|list }}
{{ "a,b"|split(",") }}
"""

TESTS = r"""
{{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is divisibleby(2) }} {{ f is odd }}
{{ n is number }} {{ t is number }} {{ s is number }} {{ n is integer }} {{ t is integer }} {{ f is integer }} {{ f is float }} {{ n is float }} {{ t is boolean }} {{ n is boolean }} {{ t is true }} {{ no is false }} {{ n is true }} {{ 1 is true }}
{{ s is string }} {{ n is string }} {{ d is mapping }} {{ l is mapping }} {{ l is sequence }} {{ s is sequence }} {{ d is sequence }} {{ n is sequence }} {{ l is iterable }} {{ s is iterable }} {{ n is iterable }} {{ none is iterable }} {{ undefined_x is iterable }} {{ undefined_x is sequence }} {{ (l|map("string")) is sequence }} {{ (l|map("string")) is iterable }} {{ range(3) is sequence }} {{ d.items() is iterable }}
{{ nil is none }} {{ n is none }} {{ nil is defined }} {{ undefined_x is defined }} {{ d.nope is defined }} {{ d.z is defined }} {{ d.nope is not defined }} {{ undefined_x is undefined }}
{{ "a" is lower }} {{ "A" is upper }} {{ "1" is lower }} {{ 5 is lower }}
{{ 1 is eq 1 }} {{ 1 is equalto 2 }} {{ 1 is ne(2) }} {{ 1 is lt 2 }} {{ 2 is gt 1 }} {{ 1 is le 1 }} {{ 1 is ge 2 }} {{ 1 is in [1, 2] }} {{ 3 is in l }} {{ "a" is in "abc" }} {{ 1 is sameas 1 }} {{ none is sameas none }} {{ l is sameas l }} {{ 1 is sameas true }}
{{ "upper" is filter }} {{ "nope" is filter }} {{ "odd" is test }} {{ "nope" is test }} {{ s is escaped }} {{ (s|safe) is escaped }}
{{ n is not odd }} {{ not n is odd }} {{ n is odd and t }} {{ n is odd or no }} {{ "y" if n is odd else "z" }} {{ n is divisibleby 7 and t }}
{{ s is nope }}
{{ s is odd }}
{{ "a" is lt 1 }}
{{ n is odd is even }}
{{ namespace() is mapping }} {{ range is callable }} {{ s.upper is callable }} {{ 5 is callable }}
{{ n is defined is defined }}
"""

STATEMENTS = [
    "{{ 'su'|max }}{{ 'az'|min }}{{ ['s', 'u', 'b', 'd']|sort }}{{ 'u' > 's' }}{{ ''|last }}{{ undefined_x|last }}",
    "{{ ('ab'|escape)|list }}{{ 'a' % undefined_x }}{{ d|map(attribute=undefined_x)|list }}",
    "{% for i in l %}{{ i }},{% endfor %}", "{% for i in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}",
    "{% for i in [] %}x{% else %}none{% endfor %}", "{% for i in l %}x{% else %}none{% endfor %}",
    "{% for i in l if i > 1 %}{{ i }}{{ loop.index }}{{ loop.length }}{{ loop.last }};{% endfor %}", "{% for i in l if i > 9 %}x{% else %}e{% endfor %}",
    "{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for a, b in ['xy'] %}{{ b }}{{ a }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for c in u %}[{{ c }}]{% endfor %}", "{% for i in 5 %}{% endfor %}", "{% for i in none %}{% endfor %}", "{% for i in undefined_x %}x{% else %}e{% endfor %}",
    "{% for i in range(6) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 4 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in [1] %}{% break %}{% else %}E{% endfor %}", "{% for i in [1,2] %}{% continue %}{% else %}E{% endfor %}", "{% break %}", "{% continue %}", "{% for i in [1] %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for i in l %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}", "{% for i in l %}{{ loop.previtem.x }}{% endfor %}", "{% for i in [1,1,2] %}{{ loop.changed(i) }} {% endfor %}", "{% for i in range(5) %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for i in l %}{{ loop.cycle() }}{% endfor %}",
    "{% for i in nest recursive %}{% if i is iterable %}({{ loop(i) }}){% else %}{{ i }}@{{ loop.depth }}{{ loop.depth0 }}{% endif %}{% endfor %}", "{% for i in l %}{{ loop(l) }}{% endfor %}", "{% for i in [[1,[2]],[3]] recursive %}{{ loop.index }}{% if i is sequence %}[{{ loop(i) }}]{% endif %}{% else %}E{% endfor %}",
    "{% for i in l %}{% for j in l %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}", "{% for i in l %}{% set outer = loop %}{% for j in [1] %}{{ outer.index }}{{ loop.length }}{% endfor %}{% endfor %}",
    "{% for i in l|map('string') %}{{ i }}{{ loop.last }}{{ loop.length }}{% endfor %}", "{% set g = l|map('string') %}{{ g|list }}{{ g|list }}", "{% set g = l|map('string') %}{% for x in g %}{{ loop.revindex }}{% endfor %}{% for x in g %}again{% endfor %}", "{{ (l|map('string'))|length }}", "{% for x in l|select('odd') %}{{ loop.first }}{{ x }}{% endfor %}",
    "{% for loop in l %}{% endfor %}", "{% for i in l %}{% set loop = 1 %}{% endfor %}", "{% for x in range(3) %}{{ loop['index'] }}{% endfor %}", "{% for x in l %}{{ loop.nope }}{{ loop }}{% break %}{% endfor %}"[:0] or "{% for x in l %}{{ loop.nope }}{% endfor %}",
    "{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = 5 %}{{ x }}{% endfor %}{{ x }}", "{% for i in [1] %}{% set q = 5 %}{% endfor %}{{ q }}", "{% if t %}{% set q = 5 %}{% endif %}{{ q }}", "{% if no %}{% set s = 5 %}{% endif %}{{ s }}", "{% for i in [1,2] %}{% if loop.first %}{% set s = 'q' %}{% endif %}{{ s }}{% endfor %}{{ s }}",
    "{% set ns = namespace(c=0) %}{% for i in l %}{% set ns.c = ns.c + i %}{% endfor %}{{ ns.c }}", "{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}", "{% set d.x = 1 %}", "{% set ns = namespace() %}{% set ns._x = 1 %}", "{% set nope.x = 1 %}", "{% set ns = namespace(a=[1]) %}{{ ns }}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = [1] %}", "{% set a = 1, 2 %}{{ a }}", "{% set (a, b) = (3, 4) %}{{ a + b }}", "{% set x %}a{{ n }}b{% endset %}{{ x }}", "{% set x | upper %}a{{ s }}{% endset %}{{ x }}", "{% set s %}<{{ s }}>{% endset %}{{ s }}", "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y }}", "{% set x | replace('a', 'b') | upper %}aa{% endset %}{{ x }}",
    "{% macro m(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c=5) }}{{ m(b=1, a=2) }}{{ m() }}", "{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }}", "{% macro m() %}{% endmacro %}{{ m(1) }}", "{% macro m() %}{% endmacro %}{{ m(x=1) }}", "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(3) }}", "{% macro m(a=b, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m() }}", "{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}",
    "{% macro m(x) %}{{ x }}{{ n }}{{ later }}{% endmacro %}{% set later = 5 %}{{ m(1) }}", "{% macro m() %}{{ n }}{% endmacro %}{{ m() }}{% set n = 1 %}{{ m() }}", "{% macro f(x) %}{% if x > 0 %}{{ x }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(5) }}", "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}", "{{ m() }}{% macro m() %}x{% endmacro %}", "{% macro m(a) %}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.caller }}{{ m.catch_kwargs }}",
    "{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}in{{ n }}{% endcall %}", "{% macro m(a) %}{{ caller(a, 2) }}{% endmacro %}{% call(x, y=3) m(1) %}{{ x }}{{ y }}{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "{% macro m() %}x{% endmacro %}{% call m() %}in{% endcall %}", "{% call s.upper() %}x{% endcall %}", "{% call 5 %}x{% endcall %}", "{% macro m(caller=none) %}{{ caller }}{% endmacro %}{{ m() }}", "{% macro m(caller) %}{{ caller }}{% endmacro %}{{ m(1) }}", "{% macro m(a, a) %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}",
    "{% macro m() %}{% for x in l %}{{ loop.index }}{% endfor %}{% endmacro %}{{ m() }}", "{% for x in [1, 2] %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}", "{% macro m() %}{{ l|length }}{% endmacro %}{{ m()|int + 1 }}", "{{ m is defined }}{% macro m() %}{% endmacro %}{{ m is defined }}",
    "{% filter upper %}a{{ s }}{% endfilter %}", "{% filter upper|replace('A', '-') %}banana{% endfilter %}", "{% filter indent(2) %}a\nb{% endfilter %}", "{% filter nope %}{% endfilter %}",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}", "{% with n = n + 1 %}{{ n }}{% endwith %}{{ n }}", "{% with a = 1, b = a %}{{ b }}{% endwith %}",
    "{% if n == 7 %}a{% elif n == 8 %}b{% else %}c{% endif %}", "{% if no %}a{% elif t %}b{% elif t %}c{% endif %}", "{% if no %}a{% else %}c{% endif %}", "{% if 1, 2 %}x{% endif %}", "{% if n is odd and not no %}x{% endif %}", "{% if '' %}x{% endif %}", "{% if [] or {} or 0 or none %}x{% endif %}", "{% if undefined_x %}x{% endif %}y",
    "{% generation %}a{{ n }}{% endgeneration %}b", "{% block b %}x{{ n }}{% endblock %}", "{% block b %}x{% endblock b %}y", "{% set q = 3 %}{% block b %}{{ q }}{% endblock %}", "{% print n, s %}", "{% print %}", "{% autoescape false %}{{ html }}{% endautoescape %}", "{% include 'x' %}", "{% extends 'x' %}", "{% import 'x' as y %}", "{% from 'x' import y %}",
    "{% raw %}{{ x }}{% y %}{% endraw %}", "a {%- raw -%} {{ x }} {%- endraw -%} b", "{% raw %}\n{{ x }}\n{% endraw %}\nq", "{% raw %}x", "{# c #}x", "a{# multi\nline #}b", "a\n{# c #}\nb", "a {#- c -#} b", "{# unclosed", "x{#+ c +#}\ny",
    "a\n{% if t %}\nb\n{% endif %}\nc\n", "a\n  {% if t %}\n  b\n  {% endif %}\nc\n\n", "a\n  {%+ if t %}\n  b\n  {%+ endif +%}\nc", "a \n {%- if t -%} \n b \n {%- endif -%} \n c", "  {{ n }}  \n  {{- n -}}  \n  x", "x  {% if t %}  y{% endif %}", "{% if t %}  \n x{% endif %}", "\n\n{% if t %}\n\nx\n\n{% endif %}\n\n", "a\r\nb\rc\n{{ '\r\n' }}", "{{ n }}\n{{ n }}\n", "\u00a0 {% if t %}x{% endif %}", "x\u2003{%- if t %}y{% endif %}", "{%if t%}a{%endif%}", "{%-if t-%}a{%-endif-%}", "   {# c #}   \n x", "\t{% set a = 1 %}\t\nb", "{{ '{{' }}{{ '}}' }}{{ '{%' }}", "{{ {'a': {'b': 1}} }}", "{{ {'a': {'b': 1}}['a']['b'] }}", "{{ '%}' }}{% if '%}' %}x{% endif %}", "{ { } } {x} %} }} #}", "{{ 1 }}}", "{{{'a':1}}}", "{{- n }} {{ n -}}\n x",
    "{{ messages[::-1][0].role }}", "{% set ns = namespace(found=false, at=-1) %}{% for m in messages[::-1] %}{% set i = (messages|length - 1) - loop.index0 %}{% if not ns.found and m.role == 'user' %}{% set ns.found = true %}{% set ns.at = i %}{% endif %}{% endfor %}{{ ns.at }}",
    "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m.content | trim }}<|end|>\n{% endfor %}", "{% for m in messages if m.role != 'system' %}{{ loop.index }}{{ m.role }}{% if not loop.last %}, {% endif %}{% endfor %}", "{%- for m in messages -%}\n  {%- if m.role == 'user' -%}\n    U: {{ m.content }}\n  {%- endif -%}\n{%- endfor %}", "{{ messages|selectattr('role', 'in', ['user', 'tool'])|map(attribute='content')|map('trim')|join('|') }}", "{% if messages[0]['role'] == 'system' %}{% set sys = messages[0]['content'] %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}{{ sys }}{{ rest|length }}",
]

SYNTAX = """
{{|{{ }}|{{ 1 +}}|{{ (1 }}|{{ 1) }}|{{ [1 }}|{{ {1} }}|{{ {1:} }}|{{ a. }}|{{ a.[] }}|{{ a[ }}|{{ a[] }}|{{ a| }}|{{ a|1 }}|{{ a is }}|{{ f(a=1, 2) }}|{{ f(a=1, a=2) }}|{{ f(*a, **b) }}|{{ f(**b, *a) }}|{{ 1 2 }}|{{ a b }}|{{ "abc }}|{{ 'a\\x4' }}|{{ $ }}|{{ a ? b }}|{{ a = b }}|{{ a == }}|{{ not }}|{{ if }}|{{ a if }}|{{ a if b else }}|{{ in }}|{{ 1 if 2 3 }}|{{ ; }}|{{ a, }}|{{ ,a }}|{{ (a,) }}|{{ lambda }}|{{ a.b.c.d }}|{{ a !b }}|{{ 'a' 'b' 1 }}|{{ [1,,2] }}|{{ [1,2,] }}|{{ f(1,) }}|{{ f(,) }}|{{ {'a':1,} }}|{{ 1.2.3 }}|{{ 1..2 }}|{{ .5 }}|{{ 5. }}|{{ 0x }}|{{ 1__0 }}|{{ _ }}|{{ a.1 }}|{{ a.b() }}
{%|{% %}|{% x %}|{% if %}|{% if a %}|{% if a %}{% else %}|{% endif %}|{% else %}|{% elif a %}|{% if a %}{% endfor %}|{% for %}|{% for x %}|{% for x in %}|{% for x in a %}|{% for 1 in a %}|{% for x.y in a %}|{% for x in a %}{% endif %}|{% endfor %}|{% set %}|{% set x %}|{% set x = %}|{% set 1 = 2 %}|{% set x.y.z = 1 %}|{% set true = 1 %}|{% set x[0] = 1 %}|{% macro %}|{% macro m %}|{% macro m( %}|{% macro m() %}|{% macro m(1) %}{% endmacro %}|{% call %}|{% call m() %}|{% filter %}|{% filter upper %}|{% with a %}{% endwith %}|{% with a = 1 %}|{% raw %}|{% endraw %}|{% block %}|{% block a %}|{% if a: %}x{% endif %}|{% for x in a recursive if b %}{% endfor %}|{% set x = 1 2 %}|{% if a %}{% elif %}{% endif %}|{% if a = b %}{% endif %}|{% 5 %}|{% "a" %}|{% generation %}|{% endgeneration %}|{% if a %}{% if b %}{% endif %}|{% for a in b if c else d %}{% endfor %}|{% else %}x|{% for x in (1, 2), 3 %}{{ x }}{% endfor %}
""".strip().replace("\n", "|").split("|")


def cases():
    for group in expressions():
        # alternatives are separated by '|' only where no filter is meant: filters have no space before
        for e in split_group(group):
            yield "{{ " + e + " }}"
    for t in FILTERED.strip("\n").split("\n"):
        for part in re.findall(r"\{\{.*?\}\}(?=[ |]*(?:\{\{|$))|.+", t) if t.startswith("{{") else [t]:
            yield part
        yield t
    for t in TESTS.strip("\n").split("\n"):
        for part in re.findall(r"\{\{.*?\}\}", t):
            yield part
    yield from STATEMENTS
    for t in SYNTAX:
        yield t
        yield "line one\n\n  " + t


FILTER_NAMES = {"length", "list", "upper", "default", "string", "join", "first", "trim", "int", "tojson",
                "last", "sum", "reverse"}


def split_group(group):
    """Splits a row at '|' outside quotes and brackets, but not before a filter's name."""
    out, buf, depth, quote, i = [], "", 0, None, 0
    while i < len(group):
        c = group[i]
        if quote:
            buf += c
            if c == "\\":
                i += 1
                buf += group[i]
            elif c == quote:
                quote = None
        elif c in "'\"":
            quote = c
            buf += c
        elif c in "([{":
            depth += 1
            buf += c
        elif c in ")]}":
            depth -= 1
            buf += c
        elif c == "|" and depth == 0 and not any(
                re.match(re.escape(f) + r"(\(|\||$)", group[i + 1:]) for f in FILTER_NAMES):
            out.append(buf)
            buf = ""
        else:
            buf += c
        i += 1
    if buf:
        out.append(buf)
    return [e for e in out if e.strip()]


def unstable(text):
    letters = re.sub("[^a-z]|false", "", text.lower())
    return "generatorobject" in letters or "iteratorobject" in letters or " at 0x" in text or "<bound method" in text or "<built-in" in text or "<function" in text or \
        "<class" in text


def judge(source, variables):
    env = environment()
    try:
        text = env.from_string(source).render(**copy.deepcopy(variables))  # list|indent writes into its list
        return None if unstable(text) else {"t": source, "out": text}
    except TemplateSyntaxError as e:
        return {"t": source, "error": str(e.message), "line": e.lineno}
    except RecursionError:
        return None
    except Exception as e:
        line = None
        for frame in traceback.extract_tb(e.__traceback__):
            if frame.filename == "<template>":
                line = frame.lineno
        result = {"t": source, "error": f"{type(e).__name__}: {e}"}
        if line is not None and source.count("\n") < 2:
            result["line"] = line
        return result


# -- random expressions for differential runs --

def random_expression(r, depth=3):
    leaf = ["1", "0", "-3", "2.5", "7", "'ab'", "''", "'Z z'", "n", "f", "s", "u", "l", "d", "words", "nil",
            "t", "no", "undefined_x", "[]", "()", "{}", "people", "messages", "'é'", "1e3", "lines", "pad"]
    if depth == 0 or r.random() < 0.15:
        return r.choice(leaf)
    x = lambda: random_expression(r, depth - 1)
    kind = r.randrange(14)
    if kind == 0:
        return f"({x()} {r.choice(['+', '-', '*', '/', '//', '%', '~', '**'])} {x()})"
    if kind == 1:
        return f"({x()} {r.choice(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in', 'and', 'or'])} {x()})"
    if kind == 2:
        return f"({x()})[{r.choice(['0', '-1', '1:', ':-1', '::-1', '::2', '1:3', '5', chr(39) + 'z' + chr(39), x()])}]"
    if kind == 3:
        return f"({x()} if {x()} else {x()})"
    if kind == 4:
        return f"[{x()}, {x()}]"
    if kind == 5:
        return "{" + f"'k': {x()}, 'z': {x()}" + "}"
    if kind == 6:
        return f"({x()})|{r.choice(['upper', 'lower', 'title', 'length', 'list', 'first', 'last', 'join', 'sort', 'unique|list', 'reverse|list', 'string', 'int', 'float', 'trim', 'tojson', 'abs', 'sum', 'min', 'max', 'capitalize', 'wordcount', 'escape', 'dictsort', 'items|list', 'round', 'indent'])}"
    if kind == 7:
        return f"({x()})|{r.choice(['default', 'join', 'replace(1,', 'batch(2)|list|string|replace(1,', 'map(attribute=', 'select(' + chr(39) + 'eq' + chr(39) + ','])}" + "@"
    if kind == 8:
        return f"({x()}) is {r.choice(['defined', 'none', 'string', 'number', 'mapping', 'iterable', 'sequence', 'odd', 'boolean', 'integer', 'not defined', 'true'])}"
    if kind == 9:
        return f"({x()}).{r.choice(['strip()', 'upper()', 'split()', 'items()', 'keys()', 'title()', 'splitlines()', 'z', 'name', 'content', 'get(1)', 'isdigit()', 'count(1)', 'swapcase()', 'islower()'])}"
    if kind == 10:
        return f"({x()}).{r.choice(['split', 'replace', 'startswith', 'find', 'join', 'get', 'count', 'index', 'strip', 'center', 'format', 'partition'])}({x()})"
    if kind == 11:
        return f"('%s' % ({x()},))"
    if kind == 12:
        return f"('{{:>6}}|{{}}'.format({x()}, {x()}))"
    return f"(not {x()})"


def random_template(r):
    e = random_expression(r)
    while "@" in e:
        e = e.replace("@", {"(": f"({random_expression(r, 0)})"}.get("(", ""), 1) if e[e.index("@") - 1] not in ",=" \
            else e.replace("@", random_expression(r, 0) + ")", 1)
    shape = r.randrange(5)
    if shape == 0:
        return "{% for x in " + e + " %}{{ x }},{{ loop.last }}{% else %}E{% endfor %}"
    if shape == 1:
        return "{% set v = " + e + " %}{{ v }}|{{ v is defined }}"
    if shape == 2:
        return "{% macro m(a, b=2) %}<{{ a }}{{ b }}>{% endmacro %}{{ m(" + e + ") }}"
    return "{{ " + e + " }}"


def main():
    out, seen = [], set()
    if len(sys.argv) == 4 and sys.argv[1] == "--random":
        r = random.Random(int(sys.argv[3]))
        sources = (random_template(r) for _ in range(int(sys.argv[2])))
    else:
        sources = cases()
    for source in sources:
        if source in seen:
            continue
        seen.add(source)
        g = judge(source, VARIABLES)
        if g:
            out.append(g)
    json.dump({"judge": "jinja2 " + jinja2.__version__, "variables": VARIABLES, "cases": out}, sys.stdout,
              ensure_ascii=False, indent=0)
    print()


if __name__ == "__main__":
    main()
