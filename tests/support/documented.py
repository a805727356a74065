"""The commands that help texts and documents show."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path

import click

from archiver.values.sizes import format_instant
from docs.generate import all_commands

ROOT = Path(__file__).parents[2]


ALL = dict(all_commands())


def example(name: str) -> str:
    """Return the example in the help text of this command."""
    found = re.search(r"Example:\n\s+(archiver .*)", ALL[name].help or "")
    assert found, f"{name} has no example"
    return found[1].strip()


def written_commands(name: str) -> list[str]:
    """Return the archiver commands in a document's code blocks, each in one line."""
    text = (ROOT / name).read_text().replace("\\\n", " ")
    return [" ".join(line.split()) for line in re.findall(r"^ {4}(archiver [^|\n]*)", text, re.MULTILINE)]


def words_of(line: str) -> list[str]:
    """Split a command into words as the shell does. Each ``$(date ...)`` becomes a time two hours from now."""
    soon = format_instant(time.time() + 2 * 3600)
    return shlex.split(re.sub(r"\$\(date [^)]*\)", soon, line), comments=True)


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that these words name, and its arguments."""
    for length in (3, 2):
        name = " ".join(words[:length])
        if name in ALL:
            return ALL[name], words[length:]
    raise AssertionError(f"{' '.join(words)}: there is no such command")
