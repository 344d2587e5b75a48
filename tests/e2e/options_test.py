# SPDX-License-Identifier: Apache-2.0
"""--help is what the program takes; man pages, completions and docs/cli.md name exactly that."""
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
COMMANDS = sorted(p.stem[5:] for p in (TOP / "man").glob("weft-*.1"))


def options(weft, command):
    """{canonical name: every name} from --help."""
    lines = weft(command, "--help", check=0).stdout.decode().split("\noptions:\n")[1].splitlines()
    groups = [re.match(r" +(-[\w-]+(?:, -[\w-]+)*)", line).group(1).split(", ") for line in lines]
    names = [n for g in groups for n in g]
    assert len(names) == len(set(names)), "an option is shown twice"
    return {g[0]: g for g in groups}


def names_of(weft, command):
    return {n for group in options(weft, command).values() for n in group}


def shared(weft):
    """The options that every command which runs a model takes."""
    return set.intersection(*(names_of(weft, c) for c in ("run", "exec", "logits", "inspect")))


def test_every_command_of_the_program_has_a_page(weft):
    listed = re.findall(r"^  (\w+) ", weft("--help", check=0).stdout.decode(), re.M)
    assert sorted(listed) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_the_man_page_names_the_options_of_the_help(weft, command):
    text = (TOP / "man" / f"weft-{command}.1").read_text()
    flags = " ".join(re.findall(r"^\.(?:It|Op|Fl) ?(.*)$", text, re.M))
    found = {f"-{n}" for n in re.findall(r"Fl (-?[\w-]+)", "Fl " + flags if flags.startswith("-") else flags)} - {"--help"}
    takes = names_of(weft, command) - {"--help"}
    if "Xr weft-run 1" in text:
        takes -= shared(weft)
    assert found == takes


@pytest.mark.parametrize("command", COMMANDS)
def test_bash_completes_the_options_of_the_help(weft, command):
    script = (f'source "{TOP}/completion/weft.bash"; COMP_WORDS=(weft {command} -); COMP_CWORD=2; _weft; printf "%s\\n" "${{COMPREPLY[@]}}"')
    got = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert set(got) == names_of(weft, command) and len(got) == len(set(got))


def test_bash_completes_the_commands(weft):
    script = f'source "{TOP}/completion/weft.bash"; COMP_WORDS=(weft ""); COMP_CWORD=1; _weft; printf "%s\\n" "${{COMPREPLY[@]}}"'
    got = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(got) == sorted([*COMMANDS, "--help", "--version"])


def zsh_options(text, command):
    """What `_arguments` is told for a command: read from the text, as few machines have zsh."""
    def spell(part):
        found = set()
        for braces in re.findall(r"\{([^}]*)\}'", part):
            found |= set(braces.replace("\\*", "").split(","))
        return found | set(re.findall(r"'\*?(-[\w-]+)\[", part))

    arrays = {name: spell(body) for name, body in re.findall(r"^  (\w+)=\((.*?)\)\n(?=  \w)", text, re.M | re.S)}
    own = re.search(rf"^ +{command}\) (.*?);;", text, re.M | re.S).group(1)
    return spell(own).union(*(arrays[a] for a in re.findall(r"\$(\w+)", own)))


@pytest.mark.parametrize("command", COMMANDS)
def test_zsh_completes_the_options_of_the_help(weft, command):
    path = TOP / "completion" / "_weft"
    if shutil.which("zsh"):
        subprocess.run(["zsh", "-n", path], check=True)
    assert zsh_options(path.read_text(), command) == names_of(weft, command)


def test_the_page_of_the_contract_names_every_option_and_no_other(weft):
    text = (TOP / "docs" / "cli.md").read_text(encoding="utf-8")
    later = {"--strict", "--workers", "--no-link"}  # of commands that other issues bring
    takes = {c: options(weft, c) for c in COMMANDS}
    canonical = {n for o in takes.values() for n in o}
    every = {n for o in takes.values() for g in o.values() for n in g}
    found = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text)) - later
    assert found - every - {"--version"} == set()
    short = {"--prompt": "-p", "--file": "-f", "--output": "-o", "--decode": "-n", "--depth": "-d"}  # written short there
    missing = {n for n in canonical if not re.search(rf"(?<![\w-]){n}(?![\w-])", text)}
    assert {n for n in missing if f"{short.get(n, n)} " not in text} == set()
